//! `chappe query`: questions about CSV, JSON and lines.

mod ends;
mod files;
mod follow;
mod question;

use crate::args::{From, Query, Recv};
use crate::format::Whole;
use crate::interrupt::Interrupt;
use crate::progress::Late;
use crate::said::{Failure, failed, stdin_is_there, stdout_is_there};
use crate::{signals, stream};
use anyhow::{Context, Result, bail};
use chappe::rows::{Format, Input, Stopped};
use ends::{Answer, Until};
use question::{asked, form, looked_at, said, say, style, tell};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
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
    looked_at(a)?;
    if a.follow {
        return follow::run(a, json);
    }
    if a.files.is_empty() && stdin().is_terminal() {
        say("chappe: the text is read from the terminal, up to Ctrl-D; files are named behind the query");
    }
    let interrupt = Arc::new(Interrupt::new()?);
    let (mut inputs, bytes) = inputs(a, &interrupt)?;
    let format = form_of_first(a, &mut inputs)?;
    let other = if format == Format::Json { From::Csv } else { From::Json };
    if let Some(odd) = inputs.iter().find(|i| a.lines.is_none() && said(a, &i.name) == Some(other)) {
        let (form, first) = (if other == From::Json { "JSON" } else { "CSV" }, &inputs[0].name);
        bail!("{} is {form}, as its name says, and {first} is not: ask for each by itself", odd.name);
    }
    let ask = asked(a, format, std::thread::available_parallelism().map_or(1, usize::from))?;
    if a.print_schema {
        let schema = chappe::rows::columns(&ask, inputs)?;
        return writeln!(stdout(), "{schema}").context("cannot write to stdout");
    }
    let bar = Late::new(!json, bytes);
    let mut out = Answer::new(&bar, Some(&interrupt));
    let ran = chappe::rows::run(&ask, inputs, style(a, json), &mut out, &mut |more| bar.add(more));
    bar.clear();
    let stopped = ran.as_ref().is_ok_and(|report| report.stopped);
    let told = tell(ran.map_err(Into::into), began, json);
    if stopped {
        // The process that waits for this one (a shell's script) is told that the answer is a part.
        signals::die_by(libc::SIGINT);
    }
    told
}

/// The files, opened, and how many bytes they have, if that is known.
fn inputs(a: &Query, interrupt: &Arc<Interrupt>) -> Result<(Vec<Input>, Option<u64>)> {
    let stdin_alone = [Path::new("-").to_owned()];
    let files = if a.files.is_empty() { &stdin_alone[..] } else { &a.files };
    let (mut inputs, mut bytes) = (Vec::new(), Some(0));
    for path in files {
        let name = path.display().to_string();
        if name == "-" {
            stdin_is_there()?;
            let file = File::from(stdin().as_fd().try_clone_to_owned().context("cannot read stdin")?);
            inputs.push(Input { name: "stdin".into(), bytes: Box::new(Until::open(file, interrupt)?) });
            bytes = None;
            continue;
        }
        // A FIFO is open when it has a writer.
        let file = interrupt.unless(|| File::open(path)).with_context(|| format!("cannot read {name}"))?;
        let facts = file.metadata().with_context(|| format!("cannot read {name}"))?;
        if facts.is_dir() {
            bail!("{name} is a directory: name the files in it, or say --follow to read them as they grow");
        }
        bytes = bytes.filter(|_| facts.is_file()).map(|b| b + facts.len());
        // One that can be opened again is closed until it is its turn.
        let until = if facts.is_file() { Until::later(path.clone(), interrupt) } else { Until::open(file, interrupt)? };
        inputs.push(Input { name, bytes: Box::new(until) });
    }
    Ok((inputs, bytes))
}

/// What the first of them is.
fn form_of_first(a: &Query, inputs: &mut [Input]) -> Result<Format> {
    let Input { name, bytes } = &mut inputs[0];
    if a.lines.is_some() || said(a, name).is_some() {
        return form(a, name, &[]);
    }
    let mut peeked = BufReader::with_capacity(1 << 16, std::mem::replace(bytes, Box::new(std::io::empty())));
    let first = match peeked.fill_buf() {
        Ok(first) => first,
        // It says so again when it is read.
        Err(e) if e.kind() == ErrorKind::Other && e.get_ref().is_some_and(|e| e.is::<Stopped>()) => &[],
        Err(e) => return Err(e).with_context(|| format!("cannot read {name}")),
    };
    let format = form(a, name, first);
    *bytes = Box::new(peeked) as Box<dyn Read + Send>;
    format
}
