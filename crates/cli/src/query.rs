//! `chappe query`: questions about CSV, JSON and lines.

mod files;
mod follow;
mod question;

use crate::args::{From, Query, Recv};
use crate::format::Whole;
use crate::said::{Failure, failed, stdout_is_there};
use crate::{progress, stream};
use anyhow::{Context, Result, bail};
use chappe::rows::{Format, Input};
use question::{asked, form, looked_at, said, say, style, tell};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::path::{Path, PathBuf};
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
    let (mut inputs, bytes) = inputs(a)?;
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
    // On a terminal rows and a bar would be in each other's way.
    let bar = (!json && stderr().is_terminal() && !stdout().is_terminal()).then(|| progress::bar(bytes));
    let mut progress = |more: usize| bar.iter().for_each(|bar| bar.inc(more as u64));
    let ran = chappe::rows::run(&ask, inputs, style(a, json), &mut stdout().lock(), &mut progress);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    tell(ran.map_err(Into::into), began, json)
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
        // A process has a thousand files at a time, and a question may have more: one that can be opened again is closed until it is its turn.
        let bytes: Box<dyn Read + Send> =
            if facts.is_file() { Box::new(Later { path: path.clone(), file: None }) } else { Box::new(file) };
        inputs.push(Input { name, bytes });
    }
    Ok((inputs, bytes))
}

/// A file that is opened when it is read, and closed at its end.
struct Later {
    path: PathBuf,
    file: Option<File>,
}

impl Read for Later {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            if self.path.as_os_str().is_empty() {
                return Ok(0);
            }
            self.file = Some(File::open(&self.path)?);
        }
        let read = self.file.as_mut().map_or(Ok(0), |file| file.read(to))?;
        if read == 0 && !to.is_empty() {
            *self = Later { path: PathBuf::new(), file: None };
        }
        Ok(read)
    }
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
