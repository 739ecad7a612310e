//! What `chappe query` asks, of what, and what it says.

use crate::args::{From, Query, To};
use anyhow::{Error, Result, anyhow};
use chappe::rows::{Ask, AskError, Format, Pattern, Report, SHOWN, Style};
use chappe::schemas::resolved;
use chappe::synth::Schema;
use serde_json::json;
use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::time::Instant;

/// Refuses what is no query whatever the columns are, before anything is read: what comes may come late.
///
/// # Errors
/// With the place.
pub fn looked_at(a: &Query) -> Result<()> {
    chappe::synth::Query::mentions(&a.query)?;
    let first: String = a.query.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if first != "where" && first != "select" {
        let no_columns = Schema::laid_out([]).map_err(Error::msg)?;
        chappe::synth::Query::parse(&no_columns, &a.query)?;
    }
    Ok(())
}

/// The question, over what this is.
///
/// # Errors
/// There is no schema of that name.
pub fn asked(a: &Query, format: Format, threads: usize) -> Result<Ask> {
    let schema = a.schema.as_deref().map(resolved).transpose()?;
    Ok(Ask {
        format,
        query: a.query.clone(),
        params: a.param.clone(),
        schema: schema.map(Cow::into_owned),
        on_bad: a.on_bad.on_bad(),
        memory: usize::try_from(a.memory).unwrap_or(usize::MAX),
        threads,
    })
}

pub fn style(a: &Query, json: bool) -> Style {
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
pub fn tell(ran: Result<Report>, began: Instant, json: bool) -> Result<()> {
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
        let unread: Vec<_> =
            report.unread.iter().map(|m| json!({ "name": m.name, "first": m.place, "count": m.count })).collect();
        let mut told = json!({ "records": report.records, "bad": report.bad, "late": report.late, "ms": ms });
        if report.stopped {
            told["stopped"] = true.into();
        }
        if !unread.is_empty() {
            told["unread"] = unread.into();
        }
        if report.more_unread > 0 {
            told["unread_more"] = report.more_unread.into();
        }
        say(&told.to_string());
        return Ok(());
    }
    if report.stopped {
        let many = if report.records == 1 { "1 record" } else { &format!("{} records", report.records) };
        say(&format!("chappe: Ctrl-C ended it: the answer is of the {many} that had been read"));
    }
    if report.late > 0 {
        let came = if report.late == 1 { "1 record" } else { &format!("{} records", report.late) };
        say(&format!("chappe: {came} came when a window of theirs had ended, or had no time: `late` waits for them"));
    }
    for name in &report.halves {
        let end = if report.stopped { "where Ctrl-C ended it" } else { "at its end" };
        say(&format!("chappe: {name} had half a record {end}, which was left out"));
    }
    if let Some(name) = &report.odd_name {
        say(&format!(
            "chappe: the first line was taken for names, and `{name}` is a number: --no-header reads values there"
        ));
    }
    if let Some(told) = report.unread_told("--schema") {
        say(&format!("chappe: {told}"));
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
pub fn say(text: &str) {
    let plain = text.replace(char::is_control, "?");
    let _ = writeln!(stderr(), "{plain}");
}

/// What the text is whose name is this and that begins so: as it is said, by the name, or by its first character.
pub fn form(a: &Query, name: &str, first: &[u8]) -> Result<Format> {
    if let Some(pattern) = &a.lines {
        return Ok(Format::Lines(Pattern::parse(pattern).map_err(|why| anyhow!("--lines: {why}"))?));
    }
    // A list of objects is no JSON that is read, and is told so.
    let is_json = match first.trim_ascii_start() {
        [b'{', ..] => true,
        [b'[', rest @ ..] => rest.trim_ascii_start().first() == Some(&b'{'),
        _ => false,
    };
    let from = said(a, name).unwrap_or(if is_json { From::Json } else { From::Csv });
    let tabs = name.to_lowercase().ends_with(".tsv");
    let delimiter = a.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
    if a.no_header && from == From::Json {
        return Err(anyhow!("--no-header is for CSV, and {name} is JSON, as --from or its name says"));
    }
    Ok(match from {
        From::Json => Format::Json,
        From::Csv if a.no_header => {
            let schema = a.schema.as_deref().map(resolved).transpose()?;
            let schema = schema.map(|text| Schema::parse_text(&text)).transpose()?;
            Format::bare(delimiter, schema.as_ref().map(|(schema, _)| schema))
        }
        From::Csv => Format::Csv(delimiter),
    })
}

/// The same, where it need not be looked at.
pub fn said(a: &Query, name: &str) -> Option<From> {
    let name = name.to_lowercase();
    let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
    let by_name = || match () {
        () if ends(&[".json", ".jsonl", ".ndjson"]) => Some(From::Json),
        () if ends(&[".csv", ".tsv"]) => Some(From::Csv),
        () => None,
    };
    let is_csv = a.delimiter.is_some() || a.no_header;
    a.from.or(is_csv.then_some(From::Csv)).or_else(by_name)
}
