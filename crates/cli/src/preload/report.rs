//! `chappe run --io --report`: what the run's programs have told of their pipes, in words or as JSON.

use crate::look::plain;
use chappe_pipes::{End, Program, Report};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A pipe that has carried less, and never had a lane, is only counted.
const LITTLE: u64 = 1 << 20;

/// The ends of one pipe, as far as they were told of.
#[derive(Default)]
struct Pipe {
    writers: Vec<End>,
    readers: Vec<End>,
}

impl Pipe {
    fn ends(&self) -> impl Iterator<Item = &End> {
        self.writers.iter().chain(&self.readers)
    }

    /// Which bytes there were: what was written, where that was counted.
    fn counted(&self) -> &[End] {
        if self.writers.is_empty() { &self.readers } else { &self.writers }
    }

    fn is_small(&self) -> bool {
        self.ends().all(|end| !end.has_lane && end.memory.1 + end.kernel.1 < LITTLE)
    }
}

fn pipes(ends: Vec<End>) -> BTreeMap<u64, Pipe> {
    let mut pipes = BTreeMap::<u64, Pipe>::new();
    for end in ends {
        let pipe = pipes.entry(end.pipe).or_default();
        if end.writes { pipe.writers.push(end) } else { pipe.readers.push(end) }
    }
    pipes
}

/// For people.
pub fn text(report: Report) -> String {
    let ((ends, no_room), (programs, no_room_for_programs)) = (report.ends(), report.programs());
    words(pipes(ends), programs, no_room + no_room_for_programs)
}

fn words(pipes: BTreeMap<u64, Pipe>, programs: Vec<Program>, no_room: usize) -> String {
    let mut out = "pipes of this run:\n".to_owned();
    let (small, large): (Vec<_>, Vec<_>) = pipes.into_iter().partition(|(_, pipe)| pipe.is_small());
    for (_, pipe) in &large {
        let (memory, kernel) = (sum(pipe.counted(), |end| end.memory), sum(pipe.counted(), |end| end.kernel));
        let _ = writeln!(
            out,
            "  {} to {}: {} by memory, {} by the kernel ({} system calls)",
            named(&pipe.writers),
            named(&pipe.readers),
            bytes(memory.1),
            bytes(kernel.1),
            kernel.0
        );
        for end in pipe.ends() {
            let _ = writeln!(out, "    {}: {}", plain(&end.name), plain(&why(end)));
        }
    }
    if !small.is_empty() {
        let all = small.iter().map(|(_, pipe)| sum(pipe.counted(), |end| end.kernel).1).sum();
        let _ = writeln!(out, "  {} more, with little in them ({} by the kernel)", small.len(), bytes(all));
    }
    if large.is_empty() && small.is_empty() {
        out.push_str("  none was used by a program that chappe understands\n");
    }
    let mut alone = BTreeMap::<(String, String), usize>::new();
    for program in programs {
        *alone.entry((plain(&program.name), plain(&program.why))).or_default() += 1;
    }
    if !alone.is_empty() {
        out.push_str("programs that were left as they are:\n");
    }
    for ((name, why), count) in alone {
        let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
        let _ = writeln!(out, "  {name}{times}: it {why}");
    }
    if no_room > 0 {
        let _ = writeln!(out, "{no_room} more ends and programs have no place in this report");
    }
    out.truncate(out.trim_end().len());
    out
}

/// Why an end's calls were the kernel's, or that they were not.
fn why(end: &End) -> String {
    match (end.has_lane, end.why.as_str()) {
        (true, "") => "through memory until the process was gone".to_owned(),
        (true, by) => format!("through memory until: {by}"),
        (false, "") => "too little before the process was gone".to_owned(),
        (false, why) => why.to_owned(),
    }
}

fn named(ends: &[End]) -> String {
    let names: Vec<String> = ends.iter().map(|end| format!("{} ({})", plain(&end.name), end.process)).collect();
    if names.is_empty() { "a program that was left as it is".to_owned() } else { names.join(", ") }
}

fn sum(ends: &[End], what: impl Fn(&End) -> (u64, u64)) -> (u64, u64) {
    ends.iter().map(what).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

fn bytes(count: u64) -> String {
    const NAMES: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let steps = (1..NAMES.len()).take_while(|step| count >> (10 * (step + 1)) > 0).count();
    if count < 1024 {
        format!("{count} B")
    } else {
        format!("{:.1} {}", count as f64 / 1024f64.powi(steps as i32 + 1), NAMES[steps])
    }
}

/// For programs.
pub fn json(report: Report) -> Value {
    let ((ends, no_room), (programs, no_room_for_programs)) = (report.ends(), report.programs());
    let count = |(calls, bytes): (u64, u64)| json!({ "calls": calls, "bytes": bytes });
    let end = |end: &End| {
        json!({
            "process": end.process,
            "name": end.name,
            "by_memory": count(end.memory),
            "by_kernel": count(end.kernel),
            "was_fast": end.has_lane,
            "why": end.why,
        })
    };
    let pipes: Vec<Value> = pipes(ends)
        .into_iter()
        .map(|(number, pipe)| {
            let [writers, readers] =
                [&pipe.writers, &pipe.readers].map(|ends| ends.iter().map(end).collect::<Vec<_>>());
            json!({ "pipe": number, "writers": writers, "readers": readers })
        })
        .collect();
    let programs: Vec<Value> = programs
        .into_iter()
        .map(|program| json!({ "process": program.process, "name": program.name, "why": program.why }))
        .collect();
    json!({ "pipes": pipes, "left_alone": programs, "no_room_for": no_room + no_room_for_programs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(pipe: u64, writes: bool, memory: u64, kernel: u64, why: &str) -> End {
        let name = if writes { "head" } else { "cat" }.to_owned();
        let (memory, kernel) = ((1, memory), (2, kernel));
        End { pipe, process: 7, name, writes, has_lane: memory.1 > 0, memory, kernel, why: why.to_owned() }
    }

    #[test]
    fn a_report_names_what_was_fast_what_was_left_and_why() {
        let ends = vec![
            end(1, true, 3 << 30, 16 << 20, "close"),
            end(1, false, 3 << 30, 16 << 20, ""),
            end(2, true, 0, 40 << 20, "another process has this end, too"),
            end(3, false, 0, 12, ""),
        ];
        let program = || Program { process: 9, name: "sh".to_owned(), why: "imports fork".to_owned() };
        assert_eq!(
            words(pipes(ends), vec![program(), program()], 1),
            "pipes of this run:
  head (7) to cat (7): 3.0 GiB by memory, 16.0 MiB by the kernel (2 system calls)
    head: through memory until: close
    cat: through memory until the process was gone
  head (7) to a program that was left as it is: 0 B by memory, 40.0 MiB by the kernel (2 system calls)
    head: another process has this end, too
  1 more, with little in them (12 B by the kernel)
programs that were left as they are:
  sh (2 times): it imports fork
1 more ends and programs have no place in this report"
        );
        let nothing = words(pipes(vec![]), vec![], 0);
        assert_eq!(nothing, "pipes of this run:\n  none was used by a program that chappe understands");
    }

    #[test]
    fn bytes_are_shown_by_the_largest_unit_that_they_fill() {
        let shown = [0, 1023, 1024, 1 << 20, (1 << 30) - 1, 5 << 40, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1024.0 MiB", "5.0 TiB", "16777216.0 TiB"]);
    }
}
