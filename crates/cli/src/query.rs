//! `chappe query`: questions about CSV, JSON and lines.

mod files;
mod follow;

use crate::args::{From, Query, Recv, To, Whole};
use crate::said::{Failure, failed, stdout_is_there};
use crate::{progress, stream};
use anyhow::{Context, Result, anyhow, bail};
use chappe::rows::{Ask, AskError, Format, Input, Pattern, Report, SHOWN, Style};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::Path;
use std::time::Instant;

/// Runs the command.
///
/// # Errors
/// What makes no sense, or cannot be read or written.
pub fn run(a: &Query, json: bool) -> Result<u8, Failure> {
    if a.tube.is_empty() {
        return of_files(a, json).map(|()| 0).map_err(failed);
    }
    let memory = usize::try_from(a.memory).unwrap_or(usize::MAX);
    let whole = Whole { text: a.query.clone(), style: style(a, json), memory };
    let (names, param) = (a.tube.clone(), a.param.clone());
    stream::recv(&Recv { names, follow: a.follow, param, query: Some(whole), ..Recv::default() }, json)
}

fn of_files(a: &Query, json: bool) -> Result<()> {
    let began = Instant::now();
    stdout_is_there()?;
    if a.follow {
        return follow::run(a, json);
    }
    let (mut inputs, bytes) = inputs(a)?;
    let format = form_of_first(a, &mut inputs)?;
    let ask = asked(a, format, std::thread::available_parallelism().map_or(1, usize::from));
    if a.print_schema {
        let schema = chappe::rows::columns(&ask, inputs)?;
        return writeln!(stdout(), "{schema}").context("cannot write to stdout");
    }
    // On a terminal rows and a bar would be in each other's way.
    let bar = (!json && stderr().is_terminal() && !stdout().is_terminal()).then(|| progress::bar(bytes));
    let mut progress = |more: usize| bar.iter().for_each(|bar| bar.inc(more as u64));
    let ran = chappe::rows::run(&ask, inputs, style(a, json), &mut stdout().lock(), &mut progress);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    tell(ran.map_err(Into::into), began, json)
}

/// The question, over what this is.
fn asked(a: &Query, format: Format, threads: usize) -> Ask {
    Ask {
        format,
        query: a.query.clone(),
        params: a.param.clone(),
        schema: a.schema.clone(),
        on_bad: a.on_bad.on_bad(),
        memory: usize::try_from(a.memory).unwrap_or(usize::MAX),
        threads,
    }
}

fn style(a: &Query, json: bool) -> Style {
    match a.format {
        Some(To::Csv) => Style::Csv,
        Some(To::Json) => Style::Json,
        Some(To::Table) => Style::Table,
        None if json => Style::Json,
        None if stdout().is_terminal() => Style::Table,
        None => Style::Csv,
    }
}

/// Says what it has come to.
fn tell(ran: Result<Report>, began: Instant, json: bool) -> Result<()> {
    let report = match ran {
        Ok(report) => report,
        Err(e) => {
            return match e.downcast::<AskError>() {
                // The reader may have seen enough.
                Ok(AskError::Write(e)) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
                Ok(AskError::Write(e)) => Err(anyhow!("cannot write to stdout: {e}")),
                Ok(e) => Err(e.into()),
                Err(e) => Err(e),
            };
        }
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
            bail!("{name} is a directory: name the files in it, or say --follow to read them as they grow");
        }
        bytes = bytes.filter(|_| facts.is_file()).map(|b| b + facts.len());
        inputs.push(Input { name, bytes: Box::new(file) });
    }
    Ok((inputs, bytes))
}

/// What the text is whose name is this and that begins so: as it is said, by the name, or by its first character.
fn form(a: &Query, name: &str, first: &[u8]) -> Result<Format> {
    if let Some(pattern) = &a.lines {
        return Ok(Format::Lines(Pattern::parse(pattern).map_err(|why| anyhow!("--lines: {why}"))?));
    }
    let from = said(a, name)
        .unwrap_or_else(|| if first.trim_ascii_start().first() == Some(&b'{') { From::Json } else { From::Csv });
    let tabs = name.to_lowercase().ends_with(".tsv");
    let delimiter = a.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
    Ok(if from == From::Json { Format::Json } else { Format::Csv(delimiter) })
}

/// The same, where it need not be looked at.
fn said(a: &Query, name: &str) -> Option<From> {
    let name = name.to_lowercase();
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    let by_name = || match () {
        () if ends(&[".json", ".jsonl", ".ndjson"]) => Some(From::Json),
        () if ends(&[".csv", ".tsv"]) => Some(From::Csv),
        () => None,
    };
    a.from.or(a.delimiter.map(|_| From::Csv)).or_else(by_name)
}

/// What the first of them is.
fn form_of_first(a: &Query, inputs: &mut [Input]) -> Result<Format> {
    let Input { name, bytes } = &mut inputs[0];
    if a.lines.is_some() || said(a, name).is_some() {
        return form(a, name, &[]);
    }
    let mut peeked = BufReader::with_capacity(1 << 16, std::mem::replace(bytes, Box::new(std::io::empty())));
    let first = peeked.fill_buf().with_context(|| format!("cannot read {name}"))?;
    let format = form(a, name, first);
    *bytes = Box::new(peeked) as Box<dyn Read + Send>;
    format
}
