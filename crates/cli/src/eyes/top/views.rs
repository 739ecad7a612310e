//! The tables of `chappe top` besides that of objects: processes that wait, pipes, light threads. Rows as text, without a terminal.

use super::state::per_second;
use crate::eyes::light::LightSeen;
use crate::eyes::pipes::{End, PipeSeen, Side, TOLD};
use crate::eyes::snapshot::Process;
use crate::look::plain;
use crate::time;

/// Which table is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Pools, semaphores, mutexes, tubes, maps
    #[default]
    Objects,
    /// Processes that wait for one of them
    Processes,
    /// Pipes of the kernel's between processes: how full, and which side is behind
    Pipes,
    /// Processes that have light threads
    Light,
}

impl View {
    /// The next one, for Tab.
    pub fn next(self) -> View {
        match self {
            View::Objects => View::Processes,
            View::Processes => View::Pipes,
            View::Pipes => View::Light,
            View::Light => View::Objects,
        }
    }

    /// What a row stands for.
    pub fn what(self) -> &'static str {
        match self {
            View::Objects => "objects",
            View::Processes => "processes that wait",
            View::Pipes => "pipes",
            View::Light => "processes with light threads",
        }
    }

    /// The heads of its columns; of objects [`super::state::TITLES`].
    pub fn titles(self) -> &'static [&'static str] {
        match self {
            View::Objects => &super::state::TITLES,
            View::Processes => &["PID", "WAITING", "LIGHT", "LONGEST", "FOR", "WHAT"],
            View::Pipes => &["PIPE", "FULL", "BYTES", "PER S", "STATE"],
            View::Light => &["PID", "THREADS", "RUNNING", "READY", "WAITING", "OTHER", "WHAT"],
        }
    }

    /// Columns of numbers: to the right.
    pub fn is_number(self, column: usize) -> bool {
        match self {
            View::Objects => (2..5).contains(&column),
            View::Processes => column < 4,
            View::Pipes => (1..4).contains(&column),
            View::Light => column < 6,
        }
    }
}

fn some(n: u32) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// Of a process that waits.
pub fn process(p: &Process) -> Vec<String> {
    let (pid, waiting) = (p.pid.to_string(), p.waiting.to_string());
    vec![pid, waiting, some(p.light as u32), time::show(p.longest), plain(&p.wants), plain(&p.label)]
}

/// "512", "1.5K", "64K".
pub fn bytes(n: u32) -> String {
    match n {
        n if n < 1024 => n.to_string(),
        n if n % 1024 == 0 => format!("{}K", n / 1024),
        n => format!("{:.1}K", f64::from(n) / 1024.0),
    }
}

/// Of a pipe.
pub fn pipe(p: &PipeSeen) -> Vec<String> {
    let full = p.share().map_or_else(|| "?".to_owned(), |share| format!("{:.0}%", 100.0 * share));
    let within = p.fill.map_or_else(String::new, |(n, _)| bytes(n));
    vec![plain(&p.title()), full, within, p.rate.map_or_else(String::new, per_second), p.state().to_owned()]
}

/// Of a process with light threads.
pub fn light(l: &LightSeen) -> Vec<String> {
    let [running, ready, waiting, blocking, suspended] = l.states;
    let numbers = [running, ready, waiting, blocking + suspended].map(some);
    let mut row = vec![l.pid.to_string(), l.count().to_string()];
    row.extend(numbers);
    row.push(plain(&l.name));
    row
}

/// What is known of a pipe, a line each.
pub fn pipe_lines(p: &PipeSeen) -> Vec<String> {
    let mut lines = vec![match p.fill {
        Some((n, room)) => format!("pipe {}: {} of {} bytes, {}", p.inode, n, room, p.state()),
        None => format!("pipe {}: it may not be asked what is in it; {}", p.inode, p.state()),
    }];
    if let Some(rate) = p.rate {
        lines.push(format!("{} bytes a second", per_second(rate)));
    }
    let line = |what: &str, e: &End| {
        let sleeps = match e.sleeps {
            Some(Side::Read) => ", sleeps in a read",
            Some(Side::Write) => ", sleeps in a write",
            None => "",
        };
        format!("{what}: {} {}{sleeps}", plain(&e.name), e.pid)
    };
    for (what, ends) in [("writes", &p.writers), ("reads", &p.readers)] {
        lines.extend(ends.iter().take(TOLD).map(|e| line(what, e)));
        if ends.len() > TOLD {
            lines.push(format!("{what}: {} more", ends.len() - TOLD));
        }
    }
    lines
}

/// The light threads of a process, a line each.
pub fn light_lines(l: &LightSeen) -> Vec<String> {
    let [running, ready, waiting, blocking, suspended] = l.states;
    let mut lines = vec![format!(
        "{} light threads of {} {}: {running} running, {ready} ready, {waiting} waiting, {blocking} blocking, {suspended} suspended",
        l.count(),
        plain(&l.name),
        l.pid
    )];
    lines.extend(l.lines.iter().map(|line| plain(line)));
    if (l.lines.len() as u32) < l.count() {
        lines.push(format!("and {}: `chappe threads {}` shows all", l.count() - l.lines.len() as u32, l.pid));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_is_reached_by_its_key_and_its_rows_fit_its_head() {
        let mut seen = vec![View::Objects];
        while seen.len() < 5 && seen.last().unwrap().next() != View::Objects {
            seen.push(seen.last().unwrap().next());
        }
        assert_eq!(seen, [View::Objects, View::Processes, View::Pipes, View::Light]);
        let pipe =
            pipe(&PipeSeen { inode: 7, fill: Some((65_536, 65_536)), writers: vec![], readers: vec![], rate: None });
        assert_eq!(pipe, ["nobody | nobody", "100%", "64K", "", "flows"]);
        let light = light(&LightSeen { pid: 9, name: "a\x1bb".into(), states: [1, 0, 3, 1, 1], lines: vec![] });
        assert_eq!((light.len(), light[1].as_str(), light[5].as_str()), (View::Light.titles().len(), "6", "2"));
        assert!(!light[6].contains('\x1b'));
        assert_eq!(bytes(1536), "1.5K");
    }

    #[test]
    fn threads_that_are_not_told_one_by_one_are_counted() {
        let l = LightSeen { pid: 9, name: "a".into(), states: [0, 0, 5, 0, 0], lines: vec!["1  -  waiting".into()] };
        let lines = light_lines(&l);
        assert!(
            lines[0].starts_with("5 light threads") && lines[2].contains("and 4") && lines[2].contains("threads 9")
        );
    }
}
