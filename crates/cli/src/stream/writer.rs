//! How `chappe recv` writes records.

use super::passed::no_schema;
use crate::args::Recv;
use crate::format::Output;
use crate::said::stdout_is_there;
use anyhow::{Result, bail};
use chappe::synth::Schema;
use std::io::{ErrorKind, StdoutLock, Write, stdout};
use std::time::Duration;

/// How records are written.
pub enum Writer {
    Plain(StdoutLock<'static>),
    Fields(Box<Output<StdoutLock<'static>>>),
}

impl Writer {
    pub fn new(a: &Recv, schema: Option<String>) -> Result<Writer> {
        stdout_is_there()?;
        let out = stdout().lock();
        let (condition, list) = (a.condition.as_deref(), a.select.as_deref());
        if !a.has_fields() {
            return Ok(Writer::Plain(out));
        }
        let schema = Schema::parse(&schema.ok_or_else(|| no_schema(&a.names[0]))?)?;
        let mut output = match &a.query {
            Some(whole) => Output::of_query(out, &schema, whole, &a.param)?,
            None => Output::new(out, &schema, condition, list, &a.param, a.format)?,
        };
        if a.tag && output.keeps() {
            bail!("--tag says of each record which tube it came from, and what is added up or ordered has none");
        }
        output.first = a.tag.then_some("tube");
        Ok(Writer::Fields(Box::new(output)))
    }

    /// Whether something was written.
    pub fn put(&mut self, record: &[u8], tag: Option<&str>, line: bool) -> std::io::Result<bool> {
        match self {
            Writer::Plain(out) => put(out, record, tag, line).map(|()| true),
            Writer::Fields(output) => output.record(tag, record, line),
        }
    }

    /// Whether rows are made of many records, or wait for them.
    pub fn keeps(&self) -> bool {
        if let Writer::Fields(output) = self { output.keeps() } else { false }
    }

    /// How long it is until it has to write something though nothing comes.
    pub fn ends_in(&self) -> Option<Duration> {
        if let Writer::Fields(output) = self { output.ends_in() } else { None }
    }

    pub fn with_fields(
        &mut self,
        act: impl FnOnce(&mut Output<StdoutLock<'static>>) -> std::io::Result<()>,
    ) -> Result<()> {
        match self {
            Writer::Plain(_) => Ok(()),
            Writer::Fields(output) => act(output).map_err(|e| {
                let said = unwritten(&e);
                // A reader that has gone is known by the system's error.
                if said == e.to_string() { e.into() } else { anyhow::Error::new(e).context("cannot write to stdout") }
            }),
        }
    }
}

fn put(out: &mut impl Write, record: &[u8], tag: Option<&str>, line: bool) -> std::io::Result<()> {
    if let Some(tag) = tag {
        write!(out, "{tag}\t")?;
    }
    out.write_all(record)?;
    if line {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Why a record was not written, or not added up.
pub fn unwritten(e: &std::io::Error) -> String {
    match e.kind() {
        // It was not made of the system's.
        ErrorKind::InvalidData | ErrorKind::OutOfMemory => e.to_string(),
        _ => format!("cannot write to stdout: {e}"),
    }
}
