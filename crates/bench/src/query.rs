//! `chappe-bench query`: `chappe query`, and a graph over a capture, beside what people use for it. Each is a shell command over the same file; what has
//! another answer ends the measurement, and what is not installed has no row.

mod texts;

use crate::table::{Aim, Case, Table, times};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use texts::Form;

/// One question, and the programs that answer it.
struct Question {
    title: &'static str,
    form: Form,
    /// A name and a command; the first one is chappe's. `@` is the file, `%` the interpreter of Python.
    answers: &'static [(&'static str, &'static str)],
    /// At most so many times as long as these.
    aims: &'static [(&'static str, f64)],
}

const SUM: &str = "where px > 100 select sym, sum(qty) as q, count() as n by sym";

const QUESTIONS: [Question; 5] = [
    Question {
        title: "CSV: filter and add up by key",
        form: Form::Trades,
        answers: &[
            ("chappe", "chappe query --format csv \"$SUM\" @"),
            (
                "mawk",
                "mawk -F, 'NR>1 && $4>100 {q[$2]+=$5; n[$2]++} END {for (k in n) print k \",\" q[k] \",\" n[k]}' @",
            ),
            (
                "DuckDB",
                "% -c \"import duckdb; [print(*r, sep=',') for r in duckdb.sql(\\\"select sym, sum(qty)::bigint, count(*) from read_csv('@') where px > 100 group by sym\\\").fetchall()]\"",
            ),
            (
                "polars",
                "% -c \"import polars as p; d = p.scan_csv('@').filter(p.col('px') > 100).group_by('sym').agg(p.col('qty').sum(), p.len()).collect(); [print(*r, sep=',') for r in d.rows()]\"",
            ),
        ],
        aims: &[("mawk", 0.5), ("DuckDB", 1.0), ("polars", 1.0)],
    },
    Question {
        title: "CSV with quotes and line ends in them: the same",
        form: Form::Quoted,
        answers: &[
            ("chappe", "chappe query --format csv \"$SUM\" @"),
            (
                "DuckDB",
                "% -c \"import duckdb; [print(*r, sep=',') for r in duckdb.sql(\\\"select sym, sum(qty)::bigint, count(*) from read_csv('@') where px > 100 group by sym\\\").fetchall()]\"",
            ),
            (
                "polars",
                "% -c \"import polars as p; d = p.scan_csv('@').filter(p.col('px') > 100).group_by('sym').agg(p.col('qty').sum(), p.len()).collect(); [print(*r, sep=',') for r in d.rows()]\"",
            ),
        ],
        aims: &[("DuckDB", 1.0), ("polars", 1.0)],
    },
    Question {
        title: "JSON lines: the same",
        form: Form::Json,
        answers: &[
            ("chappe", "chappe query --from json --format csv \"$SUM\" @"),
            (
                "jq",
                "jq -rn 'reduce (inputs | select(.px > 100)) as $r ({}; .[$r.sym].q += $r.qty | .[$r.sym].n += 1) | to_entries[] | \"\\(.key),\\(.value.q),\\(.value.n)\"' @",
            ),
            (
                "DuckDB",
                "% -c \"import duckdb; [print(*r, sep=',') for r in duckdb.sql(\\\"select sym, sum(qty)::bigint, count(*) from read_json('@', format='newline_delimited') where px > 100 group by sym\\\").fetchall()]\"",
            ),
        ],
        aims: &[("jq", 0.2), ("DuckDB", 1.0)],
    },
    Question {
        title: "log lines by a pattern: filter and count by key",
        form: Form::Log,
        answers: &[
            (
                "chappe",
                "chappe query --format csv --lines '{ip} {} {user} [{time}] \"{request}\" {status} {bytes}' 'where status >= 500 select request, count() as n by request' @",
            ),
            (
                "mawk",
                "mawk -F'\"' '{split($3, a, \" \"); if (a[1] >= 500) n[$2]++} END {for (k in n) print k \",\" n[k]}' @",
            ),
            (
                "ripgrep",
                "rg -oN '\"([^\"]*)\" 5[0-9][0-9] ' -r '$1' @ | LC_ALL=C sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)$/\\2,\\1/'",
            ),
        ],
        aims: &[("mawk", 0.5), ("ripgrep", 0.5)],
    },
    Question {
        title: "a capture: names that DNS was asked for, counted",
        form: Form::Capture,
        answers: &[
            (
                "chappe",
                "printf '%s' 'pcap \"@\" | fields | where \"dport == 53\" | select \"dns, count() as n by dns\" | csv | print' | chappe graph run --quiet -",
            ),
            (
                "tshark",
                "tshark -r @ -Y 'udp.dstport == 53' -T fields -e dns.qry.name | LC_ALL=C sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)$/\\2,\\1/'",
            ),
        ],
        aims: &[("tshark", 0.1)],
    },
];

/// What a command prints, without a line of names, in order; and how long it took in nanoseconds. None: it is not there, or fails.
fn answer(command: &str, bin: &Path) -> Option<(Vec<String>, f64)> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut sh = Command::new("sh");
    sh.args(["-c", command]).env("SUM", SUM).env("PATH", format!("{}:{path}", bin.display())).stderr(Stdio::null());
    let began = Instant::now();
    let output = sh.output().ok()?;
    let took = began.elapsed().as_nanos() as f64;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_count = |line: &&str| line.rsplit(',').next().is_some_and(|n| n.parse::<u64>().is_ok());
    let mut lines: Vec<String> = text.lines().filter(is_count).map(str::to_owned).collect();
    lines.sort();
    (output.status.success() && !lines.is_empty()).then_some((lines, took))
}

/// Measures all of it with files of so many bytes, and answers the aims.
///
/// # Errors
/// No room for the files; answers that differ.
pub fn measure(chappe: &Path, bytes: u64, rounds: u32) -> Result<Vec<Aim>, String> {
    let bin = chappe.parent().unwrap_or(Path::new("."));
    let python = std::env::var("CHAPPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let dir = std::env::temp_dir().join(format!("chappe-bench-query-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    let measured = all(&dir, bin, &python, bytes, rounds);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn all(dir: &Path, bin: &Path, python: &str, bytes: u64, rounds: u32) -> Result<Vec<Aim>, String> {
    let file = dir.join("file");
    let mut aims = Vec::new();
    for question in &QUESTIONS {
        let made = File::create(&file).map(|file| BufWriter::with_capacity(1 << 20, file));
        made.and_then(|mut out| texts::write(question.form, bytes, 44, &mut out))
            .map_err(|e| format!("{}: {e}", file.display()))?;
        let command =
            |text: &str| text.replace('@', &file.display().to_string()).replace("% -c", &format!("{python} -c"));
        let (mut cases, mut right) = (Vec::new(), None);
        for (name, text) in question.answers {
            let command = command(text);
            let Some((lines, _)) = answer(&command, bin) else {
                println!("{}: {name} does not answer here", question.title);
                continue;
            };
            if *right.get_or_insert_with(|| lines.clone()) != lines {
                return Err(format!("{}: {name} has another answer", question.title));
            }
            cases.push(Case::new(*name, move || answer(&command, bin).map_or(f64::NAN, |(_, took)| took)));
        }
        if cases.is_empty() {
            continue;
        }
        let title = format!("{}, {} MiB", question.title, bytes >> 20);
        let table = Table::measure(title, rounds, cases);
        println!("{}", table.report());
        let names: Vec<&str> = table.names().collect();
        for (peer, most) in question.aims.iter().filter(|(peer, _)| names.contains(peer) && names.contains(&"chappe")) {
            let what = format!("{}, chappe to {peer}", question.title);
            aims.push(Aim::at_most(what, *most, table.ratio_to("chappe", peer), times));
        }
    }
    Ok(aims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_file() {
        for question in &QUESTIONS {
            let made = |seed| {
                let mut out = Vec::new();
                texts::write(question.form, 10_000, seed, &mut out).unwrap();
                out
            };
            assert!(made(1).len() >= 10_000 && made(1) == made(1) && made(1) != made(2), "{}", question.title);
        }
    }
}
