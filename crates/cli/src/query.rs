//! `chappe query`: questions about CSV, JSON and lines.

use crate::args::{From, Query, To};
use crate::progress;
use crate::said::stdout_is_there;
use anyhow::{Context, Result, anyhow, bail};
use chappe::rows::{Ask, AskError, Format, Input, Pattern, SHOWN, Style};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::Path;
use std::time::Instant;

/// Runs the command.
///
/// # Errors
/// What makes no sense, or cannot be read or written.
pub fn run(a: &Query, json: bool) -> Result<()> {
    let began = Instant::now();
    stdout_is_there()?;
    let (inputs, bytes) = inputs(a)?;
    let (format, inputs) = form(a, inputs)?;
    let ask = Ask {
        format,
        query: a.query.clone(),
        params: a.param.clone(),
        schema: a.schema.clone(),
        on_bad: a.on_bad.on_bad(),
        memory: usize::try_from(a.memory).unwrap_or(usize::MAX),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    if a.print_schema {
        let schema = chappe::rows::columns(&ask, inputs)?;
        return writeln!(stdout(), "{schema}").context("cannot write to stdout");
    }
    let style = match a.format {
        Some(To::Csv) => Style::Csv,
        Some(To::Json) => Style::Json,
        Some(To::Table) => Style::Table,
        None if json => Style::Json,
        None if stdout().is_terminal() => Style::Table,
        None => Style::Csv,
    };
    // On a terminal rows and a bar would be in each other's way.
    let bar = (!json && stderr().is_terminal() && !stdout().is_terminal()).then(|| progress::bar(bytes));
    let mut progress = |more: usize| bar.iter().for_each(|bar| bar.inc(more as u64));
    let ran = chappe::rows::run(&ask, inputs, style, &mut stdout().lock(), &mut progress);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let report = match ran {
        Ok(report) => report,
        // The reader may have seen enough.
        Err(AskError::Write(e)) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
        Err(AskError::Write(e)) => bail!("cannot write to stdout: {e}"),
        Err(e) => return Err(e.into()),
    };
    if json {
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let told = json!({ "records": report.records, "bad": report.bad, "late": report.late, "ms": ms });
        say(&told.to_string());
        return Ok(());
    }
    if report.late > 0 {
        let came = if report.late == 1 { "1 record" } else { &format!("{} records", report.late) };
        say(&format!("chappe: {came} came when a window of theirs had ended, or had no time: `late` waits for them"));
    }
    if report.bad > 0 {
        let lines = if report.bad == 1 { "1 line" } else { &format!("{} lines", report.bad) };
        say(&format!("chappe: {lines} had something wrong:"));
        report.shown.iter().for_each(|line| say(&format!("  {line}")));
        if report.bad > SHOWN as u64 {
            say("  ...");
        }
    }
    Ok(())
}

/// Says something on stderr. If there is no reader, that is no reason to fail; a terminal gets no commands from a file's name.
fn say(text: &str) {
    let plain = text.replace(char::is_control, "?");
    let _ = writeln!(stderr(), "{plain}");
}

/// The files, opened, and how many bytes they have, if that is known.
fn inputs(a: &Query) -> Result<(Vec<Input>, Option<u64>)> {
    let stdin_alone = [Path::new("-").to_owned()];
    let files = if a.files.is_empty() { &stdin_alone[..] } else { &a.files };
    let (mut inputs, mut bytes) = (Vec::new(), Some(0));
    for path in files {
        let name = path.display().to_string();
        if name == "-" {
            inputs.push(Input { name: "stdin".into(), bytes: Box::new(stdin()) });
            bytes = None;
            continue;
        }
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let facts = file.metadata().with_context(|| format!("cannot read {name}"))?;
        if facts.is_dir() {
            bail!("{name} is a directory: name the files in it");
        }
        bytes = bytes.filter(|_| facts.is_file()).map(|b| b + facts.len());
        inputs.push(Input { name, bytes: Box::new(file) });
    }
    Ok((inputs, bytes))
}

/// What the text is: as it is said, by the name, or by its first character.
fn form(a: &Query, mut inputs: Vec<Input>) -> Result<(Format, Vec<Input>)> {
    if let Some(pattern) = &a.lines {
        let pattern = Pattern::parse(pattern).map_err(|why| anyhow!("--lines: {why}"))?;
        return Ok((Format::Lines(pattern), inputs));
    }
    let name = inputs[0].name.to_lowercase();
    let from = if let Some(from) = a.from.or(a.delimiter.map(|_| From::Csv)) {
        from
    } else if [".json", ".jsonl", ".ndjson"].iter().any(|end| name.ends_with(end)) {
        From::Json
    } else if [".csv", ".tsv"].iter().any(|end| name.ends_with(end)) {
        From::Csv
    } else {
        let bytes = std::mem::replace(&mut inputs[0].bytes, Box::new(std::io::empty()));
        let mut peeked = BufReader::with_capacity(1 << 16, bytes);
        let first = peeked.fill_buf().with_context(|| format!("cannot read {}", inputs[0].name))?;
        let is_json = first.trim_ascii_start().first() == Some(&b'{');
        inputs[0].bytes = Box::new(peeked) as Box<dyn Read + Send>;
        if is_json { From::Json } else { From::Csv }
    };
    let delimiter = a.delimiter.unwrap_or(if name.ends_with(".tsv") { b'\t' } else { b',' });
    Ok((if from == From::Json { Format::Json } else { Format::Csv(delimiter) }, inputs))
}
