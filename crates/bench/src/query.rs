//! `chappe-bench query`: `chappe query`, and a graph over a capture, beside what people use for it. Each is a shell command over the same file; what has
//! another answer ends the measurement, and what is not installed has no row.

mod live;
mod texts;

use crate::table::{Aim, Table, times};
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
    /// The file has at most so many MiB.
    most: u64,
    /// A name and a command; the first one is chappe's. `@` is the file, `%` the interpreter of Python.
    answers: &'static [(&'static str, &'static str)],
    /// At most so many times as long as these; or, beside [`A_MILLION`], so many seconds.
    aims: &'static [(&'static str, f64)],
}

/// A million records, of 32 bytes.
const A_MILLION: &str = "seconds a million";

const SUM: &str = "where px > 100 select sym, sum(qty) as q, count() as n by sym";

const QUESTIONS: [Question; 10] = [
    Question {
        title: "CSV: filter and add up by key",
        form: Form::Trades,
        most: ALL,
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
        most: ALL,
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
        most: ALL,
        answers: &[
            ("chappe", "chappe query --from json --format csv \"$SUM\" @"),
            (
                "jq",
                // Adding up within jq takes many times as long.
                "jq -r 'select(.px > 100) | \"\\(.sym),\\(.qty // 0)\"' @ | mawk -F, '{q[$1]+=$2; n[$1]++} END {for (k in n) print k \",\" q[k] \",\" n[k]}'",
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
        most: ALL,
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
        most: ALL,
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
    Question {
        title: "trips as New York publishes them: filter and add up",
        form: Form::Taxi,
        most: ALL,
        answers: &[
            (
                "chappe",
                "chappe query --format csv 'where trip_distance > 5 select payment_type, count() as n, sum(passenger_count) as p by payment_type' @",
            ),
            (
                "mawk",
                "mawk -F, 'NR>1 && $5>5 {n[$10]++; p[$10]+=$4} END {for (k in n) print k \",\" n[k] \",\" p[k]}' @",
            ),
            (
                "DuckDB",
                "% -c \"import duckdb; [print(*r, sep=',') for r in duckdb.sql(\\\"select payment_type, count(*), sum(passenger_count)::bigint from read_csv('@') where trip_distance > 5 group by payment_type\\\").fetchall()]\"",
            ),
            (
                "polars",
                "% -c \"import polars as p; d = p.scan_csv('@').filter(p.col('trip_distance') > 5).group_by('payment_type').agg(p.len(), p.col('passenger_count').sum()).collect(); [print(*r, sep=',') for r in d.rows()]\"",
            ),
        ],
        aims: &[("mawk", 0.5), ("DuckDB", 1.0), ("polars", 1.0)],
    },
    Question {
        title: "events as GitHub Archive publishes them: filter and count",
        form: Form::Events,
        most: ALL,
        answers: &[
            (
                "chappe",
                "chappe query --from json --format csv 'where type == \"PushEvent\" select `repo.name`, count() as n by `repo.name`' @",
            ),
            (
                "jq",
                "jq -r 'select(.type == \"PushEvent\") | .repo.name' @ | mawk '{n[$0]++} END {for (k in n) print k \",\" n[k]}'",
            ),
            (
                "DuckDB",
                "% -c \"import duckdb; [print(*r, sep=',') for r in duckdb.sql(\\\"select repo.name, count(*) from read_json('@', format='newline_delimited') where type = 'PushEvent' group by all\\\").fetchall()]\"",
            ),
        ],
        aims: &[("jq", 0.2), ("DuckDB", 1.0)],
    },
    Question {
        title: "the combined log of Apache and nginx: filter and count",
        form: Form::Combined,
        most: ALL,
        answers: &[
            (
                "chappe",
                "chappe query --format csv --lines '{ip} {} {user} [{time}] \"{request}\" {status} {bytes} \"{referer}\" \"{agent}\"' 'where status == 404 select request, count() as n by request' @",
            ),
            (
                "mawk",
                "mawk -F'\"' '{split($3, a, \" \"); if (a[1] == 404) n[$2]++} END {for (k in n) print k \",\" n[k]}' @",
            ),
            (
                "ripgrep",
                "rg -oN '\"([^\"]*)\" 404 ' -r '$1' @ | LC_ALL=C sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)$/\\2,\\1/'",
            ),
        ],
        aims: &[("mawk", 0.5), ("ripgrep", 0.5)],
    },
    Question {
        title: "a million rows from `chappe send` to `chappe recv`: filter and add up by key",
        form: Form::Trades,
        most: 45,
        answers: &[
            (
                "chappe",
                "chappe tube create rows --schema 'ts: i64, sym: str[4], side: str[1], px: f64, qty: i64?, venue: str[4], note: str[8]' >/dev/null && { chappe send --format csv rows <@ & chappe recv rows --where 'px > 100' --select 'sym, sum(qty) as q, count() as n by sym' --format csv; wait; chappe rm rows >/dev/null; }",
            ),
            (
                "mawk",
                "mawk -F, 'NR>1 && $4>100 {q[$2]+=$5; n[$2]++} END {for (k in n) print k \",\" q[k] \",\" n[k]}' @",
            ),
        ],
        aims: &[("mawk", 1.0)],
    },
    Question {
        title: "a million records of a file in a graph: filter and add up by key",
        form: Form::Records,
        most: 31,
        answers: &[(
            "chappe",
            "printf '%s' 'records \"@\" \"ts: i64, px: f64, qty: i64, sym: str[8]\" | where \"px > 100\" | select \"sym, sum(qty) as q, count() as n by sym\" | csv | print' | chappe graph run --quiet -",
        )],
        aims: &[(A_MILLION, 0.3)],
    },
];

/// As large as is asked for.
const ALL: u64 = u64::MAX >> 20;
/// A question has so much time for its rounds, and at least one.
const TIME: f64 = 30e9;

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

/// Measures all of it with files of so many bytes, and answers the aims. What takes long has fewer rounds: all of it has some ten minutes with 1 GiB.
///
/// # Errors
/// No room for the files; answers that differ.
pub fn measure(chappe: &Path, bytes: u64, rounds: u32) -> Result<Vec<Aim>, String> {
    let bin = chappe.parent().unwrap_or(Path::new("."));
    let python = std::env::var("CHAPPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let dir = std::env::temp_dir().join(format!("chappe-bench-query-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    let measured = all(&dir, bin, &python, bytes, rounds).and_then(|mut aims| {
        aims.extend(live::measure(chappe, if rounds > 3 { 10 } else { 3 })?);
        Ok(aims)
    });
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn all(dir: &Path, bin: &Path, python: &str, bytes: u64, rounds: u32) -> Result<Vec<Aim>, String> {
    let file = dir.join("file");
    let mut aims = Vec::new();
    for question in &QUESTIONS {
        let bytes = bytes.min(question.most << 20);
        let made = File::create(&file).map(|file| BufWriter::with_capacity(1 << 20, file));
        // The disk has the file before the first command reads it: nobody is measured beside its write-back.
        made.and_then(|mut out| {
            texts::write(question.form, bytes, 44, &mut out).and_then(|()| out.get_ref().sync_all())
        })
        .map_err(|e| format!("{}: {e}", file.display()))?;
        let command =
            |text: &str| text.replace('@', &file.display().to_string()).replace("% -c", &format!("{python} -c"));
        let (mut cases, mut right) = (Vec::new(), None);
        for (name, text) in question.answers {
            let command = command(text);
            let Some((lines, took)) = answer(&command, bin) else {
                println!("{}: {name} does not answer here", question.title);
                continue;
            };
            if *right.get_or_insert_with(|| lines.clone()) != lines {
                return Err(format!("{}: {name} has another answer", question.title));
            }
            cases.push((*name, command, took));
        }
        if cases.is_empty() {
            continue;
        }
        let title = format!("{}, {} MiB", question.title, bytes >> 20);
        // The answers were the warm-up. A peer that takes a third of the time has one round, so that the others have more.
        let (slow, fast): (Vec<f64>, Vec<f64>) = cases.iter().map(|case| case.2).partition(|took| *took > TIME / 3.0);
        let left = (TIME - slow.iter().sum::<f64>()).max(TIME / 2.0);
        let rounds = ((left / fast.iter().sum::<f64>()) as u32).clamp(1, rounds);
        let mut rows: Vec<(String, Vec<f64>)> = cases.iter().map(|case| (case.0.into(), Vec::new())).collect();
        for round in 0..rounds as usize {
            for turn in 0..cases.len() {
                let at = (round + turn) % cases.len();
                let (_, command, took) = &cases[at];
                if *took <= TIME / 3.0 || round == 0 {
                    rows[at].1.push(answer(command, bin).map_or(f64::NAN, |(_, took)| took));
                }
            }
        }
        let table = Table::of(format!("{title}, {rounds} rounds"), rows);
        println!("{}", table.report());
        let names: Vec<&str> = table.names().collect();
        for (_, most) in question.aims.iter().filter(|(peer, _)| *peer == A_MILLION && names.contains(&"chappe")) {
            let seconds = table.row("chappe").quantile(0.5) / 1e9 / (bytes as f64 / 32.0) * 1e6;
            let what = format!("{}, {A_MILLION}", question.title);
            aims.push(Aim::at_most(what, *most, seconds, |seconds| format!("{seconds:.2}")));
        }
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
