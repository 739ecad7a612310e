//! `chappe send`: from a pipe into a tube.
//!
//! What happens when no receiver is left follows from what is sent. **Records are a queue of work**: each stands alone, so what one
//! receiver leaves is for the next, and the sender waits for it while the tube is full. **A stream is a pipe**: its rest means nothing
//! to another receiver, so the sender ends with an error, as a pipe's writer does. `--follow` and `--pipe` ask for the other.

use super::passed::{FOLLOW, Passed, length_of_stdin, no_schema};
use crate::args::Send;
use crate::ended::TIMED_OUT;
use crate::format::encode;
use crate::said::{Failure, stdin_is_there, write};
use crate::{look, tube};
use anyhow::{Context, Result, anyhow, bail};
use chappe::synth::Schema;
use chappe::tube::broadcast::{Broadcast, Publisher};
use chappe::tube::named::{NotSent, Sender, Tube};
use serde_json::json;
use std::io::{BufRead, BufReader, ErrorKind, Read, stdin};
use std::time::{Duration, Instant};

/// Runs `chappe send`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn send(a: &Send, json: bool) -> Result<u8, Failure> {
    chappe::set_label(&format!("chappe send {}", a.name));
    let mut passed = Passed::new(json, length_of_stdin());
    let mut left = Left::default();
    let sent = stdin_is_there().and_then(|()| Sink::to(a)).and_then(|sink| {
        let sent = match (a.format, &sink.schema) {
            (Some(format), Some(schema)) => encode(schema, format, stdin(), |record| sink.put(record, &mut passed)),
            (Some(_), None) => Err(no_schema(&a.name)),
            (None, _) if a.lines => sink.lines(&mut passed),
            // By the schema each has as many bytes.
            (None, schema) => sink.bytes(a.records || schema.is_some(), &mut passed),
        };
        sink.ends(sent, &passed, &mut left)
    });
    if let Err(e) = sent {
        let status = if matches!(e.downcast_ref(), Some(NotSent::Timeout(()))) { TIMED_OUT } else { 1 };
        let why =
            anyhow!("after {} were sent to `{}`: {}{}", passed.told(), a.name, look::chain(&e), left.told(&a.name));
        return Err(Failure { status, why });
    }
    if json {
        let Passed { records, bytes, .. } = passed;
        write(
            format!("{}\n", json!({ "name": a.name, "records": records, "bytes": bytes, "ms": passed.ms() }))
                .as_bytes(),
        )?;
    }
    Ok(0)
}

/// The records that nobody has received.
#[derive(Default)]
struct Left {
    records: usize,
    /// Others' may be among them, or a receiver may still have them.
    is_others: bool,
}

impl Left {
    fn told(&self, name: &str) -> String {
        let (are, them) = match self.records {
            0 => return String::new(),
            1 => ("is", "it"),
            _ => ("are", "them"),
        };
        let n = self.records;
        if self.is_others {
            return format!("; {n} {are} in the tube now, those of all senders together");
        }
        format!(
            "; {n} of the records {are} still in the tube, before what is sent next: `chappe recv {name} >/dev/null` takes {them} out"
        )
    }
}

/// Where records go.
struct Sink {
    into: Into,
    size: usize,
    /// Nobody need receive now: one may come.
    outlasts: bool,
    patience: Option<Duration>,
    schema: Option<Schema>,
}

/// An end where records go in.
enum Into {
    /// And what the tube was before.
    One(Tube<[u8]>, Sender<[u8]>, Before),
    All(Publisher<[u8]>),
}

/// What a tube was when it was opened.
#[derive(Clone, Copy)]
struct Before {
    /// How many receivers had come.
    receivers: u32,
    was_empty: bool,
}

impl Sink {
    fn to(a: &Send) -> Result<Sink> {
        let schema = |text: Option<String>| text.map(|text| Schema::parse(&text)).transpose();
        if tube::is_broadcast(&a.name) {
            let tube = Broadcast::<[u8]>::open(&a.name)?;
            let (info, into) = (tube.info()?, Into::All(tube.publisher()?));
            return Ok(Sink::into(into, a, info.size, schema(info.schema)?));
        }
        let tube = Tube::<[u8]>::open(&a.name)?;
        let (info, sender) = (tube.info()?, tube.sender()?);
        let before = Before { receivers: info.receivers_came, was_empty: info.messages == 0 };
        Ok(Sink::into(Into::One(tube, sender, before), a, info.size, schema(info.schema)?))
    }

    fn into(into: Into, a: &Send, size: u32, schema: Option<Schema>) -> Sink {
        let has_records = a.lines || a.records || schema.is_some();
        let outlasts = a.follow || (has_records && !a.pipe && matches!(into, Into::One(..)));
        Sink { into, size: size as usize, outlasts, patience: a.timeout, schema }
    }

    /// Sends a record. Where no receiver is there, but one may come, it goes ahead into the tube; it waits only for room.
    fn put(&self, record: &[u8], passed: &mut Passed) -> Result<()> {
        let end = self.patience.map(|patience| Instant::now() + patience);
        let wait = || match end {
            Some(end) if Instant::now() >= end => Err(NotSent::Timeout(())),
            _ => {
                std::thread::sleep(FOLLOW);
                Ok(())
            }
        };
        match &self.into {
            Into::One(tube, sender, before) => loop {
                match end.map_or_else(|| sender.send(record), |end| sender.send_deadline(record, end)) {
                    Err(NotSent::Disconnected { .. })
                        if self.outlasts || tube.info()?.receivers_came == before.receivers => {}
                    sent => break sent?,
                }
                match sender.try_send_ahead(record) {
                    Err(NotSent::Full(())) => {
                        passed.waits_alone(&tube.name());
                        wait()?;
                    }
                    sent => break sent?,
                }
            },
            Into::All(publisher) => {
                while passed.records == 0 && !self.outlasts && publisher.subscribers() == 0 {
                    wait().context("no receiver has come, and without --follow the first record waits for one")?;
                }
                end.map_or_else(|| publisher.send(record), |end| publisher.send_deadline(record, end))?;
            }
        }
        passed.add(record.len());
        Ok(())
    }

    /// A sender that did not send all of it does not end well: receivers are told. One that has sent nothing leaves nothing that is a part. `left`:
    /// what then lies in the tube.
    fn ends(self, sent: Result<()>, passed: &Passed, left: &mut Left) -> Result<()> {
        match self.into {
            _ if sent.is_ok() || passed.records == 0 => {}
            Into::One(tube, sender, before) => {
                sender.break_off();
                // What the tube cannot tell any more is in nobody's way.
                if let Ok(info) = tube.info() {
                    let is_alone = before.was_empty && info.senders.is_empty() && info.receivers.is_empty();
                    *left = Left { records: info.messages, is_others: !is_alone };
                }
            }
            Into::All(publisher) => publisher.break_off(),
        }
        sent
    }

    fn lines(&self, passed: &mut Passed) -> Result<()> {
        let mut input = BufReader::with_capacity(1 << 16, stdin().lock());
        let mut line = Vec::new();
        loop {
            line.clear();
            // One more than there may be, and its end.
            let limit = self.size as u64 + 2;
            if input.by_ref().take(limit).read_until(b'\n', &mut line).context("cannot read stdin")? == 0 {
                return Ok(());
            }
            let record = line.strip_suffix(b"\n").unwrap_or(&line);
            if record.len() > self.size {
                bail!(
                    "line {} has more than the {} bytes that a record of the tube can have; it was not sent: make the \
                     tube with a greater --size, or send without --lines",
                    passed.records + 1,
                    self.size
                );
            }
            if self.schema.is_some() && record.len() < self.size {
                bail!(
                    "line {} has {} bytes, and by the tube's schema a record has {}; it was not sent: `--format csv` or `--format json` \
                     makes records of lines",
                    passed.records + 1,
                    record.len(),
                    self.size
                );
            }
            self.put(record, passed)?;
        }
    }

    /// What is read waits for a slot, not a slot for what is read.
    fn bytes(&self, whole: bool, passed: &mut Passed) -> Result<()> {
        let mut input = stdin().lock();
        let mut ahead = vec![0; self.size];
        loop {
            let there = fill(&mut input, &mut ahead).context("cannot read stdin")?;
            if there == 0 {
                return Ok(());
            }
            if whole && there < self.size {
                bail!(
                    "stdin ended in the middle of a record: {there} bytes of {} are left, and were not sent",
                    self.size
                );
            }
            self.put(&ahead[..there], passed)?;
        }
    }
}

/// Reads until it is full, or there is no more.
fn fill(input: &mut impl Read, place: &mut [u8]) -> std::io::Result<usize> {
    let mut there = 0;
    while there < place.len() {
        match input.read(&mut place[there..]) {
            Ok(0) => break,
            Ok(n) => there += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(there)
}
