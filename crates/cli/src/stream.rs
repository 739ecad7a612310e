//! `chappe send` and `chappe recv`: between a tube and a pipe.

use crate::acquire::TIMED_OUT;
use crate::args::{Recv, Send};
use crate::{Failure, failed, tell, write};
use anyhow::{Context, Result, anyhow, bail, ensure};
use chappe::Select;
use chappe::tube::named::{Loan, NotReceived, NotSent, Receiver, Sender, Tube};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, Write, stderr, stdin, stdout};
use std::time::{Duration, Instant};

/// How long `--follow` waits before it looks again whether somebody has come.
const FOLLOW: Duration = Duration::from_millis(20);

/// What went through.
struct Passed {
    records: u64,
    bytes: u64,
    again: u64,
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Passed {
    /// On a terminal, with a bar; of so many bytes, if that is known.
    fn new(json: bool, bytes: Option<u64>) -> Passed {
        let bar = (!json && stderr().is_terminal()).then(|| {
            let (bar, style) = match bytes {
                Some(bytes) => {
                    (ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go")
                }
                None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {elapsed}"),
            };
            bar.with_style(ProgressStyle::with_template(style).expect("a template that can be read"))
        });
        Passed { records: 0, bytes: 0, again: 0, began: Instant::now(), bar }
    }

    fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes as u64;
        if let Some(bar) = &self.bar {
            bar.set_position(self.bytes);
        }
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn told(&self) -> String {
        format!("{} record{}, {} bytes", self.records, if self.records == 1 { "" } else { "s" }, self.bytes)
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

/// How many bytes stdin has, if it is a file.
fn length_of_stdin() -> Option<u64> {
    let facts = std::fs::metadata("/proc/self/fd/0").ok()?;
    facts.is_file().then_some(facts.len())
}

/// Runs `chappe send`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn send(a: &Send, json: bool) -> Result<u8, Failure> {
    chappe::set_label(&format!("chappe send {}", a.name));
    let mut passed = Passed::new(json, length_of_stdin());
    let sent = Tube::<[u8]>::open(&a.name).and_then(|tube| Ok((tube.info()?.size as usize, tube.sender()?)));
    let sent = sent.map_err(anyhow::Error::from).and_then(|(size, sender)| {
        let sink = Sink { sender, size, follow: a.follow };
        if a.lines { sink.lines(&mut passed) } else { sink.bytes(a.records, &mut passed) }
    });
    if let Err(e) = sent {
        return Err(failed(anyhow!("after {} were sent to `{}`: {e:#}", passed.told(), a.name)));
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

/// Where records go.
struct Sink {
    sender: Sender<[u8]>,
    size: usize,
    follow: bool,
}

impl Sink {
    /// Sends a record; the first one also if nobody receives yet, or any more, but somebody may come.
    fn put(&self, record: &[u8], passed: &mut Passed) -> Result<()> {
        loop {
            match self.sender.send(record) {
                Err(NotSent::Disconnected { .. }) if self.follow || passed.records == 0 => std::thread::sleep(FOLLOW),
                sent => {
                    sent?;
                    passed.add(record.len());
                    return Ok(());
                }
            }
        }
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

/// What became of a wait for a record.
enum Next<'a> {
    Record(usize, Loan<'a, [u8]>),
    /// Nobody sends to any of them any more.
    End,
    TimedOut,
}

/// Runs `chappe recv`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn recv(a: &Recv, json: bool) -> Result<u8, Failure> {
    chappe::set_label(&format!("chappe recv {}", a.names.join(" ")));
    let mut passed = Passed::new(json || stdout().is_terminal(), None);
    let received = receive(a, &mut passed);
    drop(passed.bar.take());
    if json {
        let Passed { records, bytes, again, .. } = passed;
        tell(json!({ "records": records, "bytes": bytes, "again": again, "ms": passed.ms() }));
    } else if passed.again > 0 {
        let came = if passed.again == 1 { "1 record" } else { &format!("{} records", passed.again) };
        tell(format_args!(
            "chappe: {came} came once more: a receiver that had it before has died, or could not write it"
        ));
    }
    match received {
        Ok(true) => Ok(0),
        Ok(false) => {
            Err(Failure { status: TIMED_OUT, why: anyhow!("no record came in time from {}", a.names.join(", ")) })
        }
        Err(e) => Err(failed(e)),
    }
}

/// False: nothing came in time.
fn receive(a: &Recv, passed: &mut Passed) -> Result<bool> {
    let (mut receivers, mut tubes) = (Vec::new(), Vec::new());
    for name in &a.names {
        let tube = Tube::<[u8]>::open(name)?;
        receivers.push(tube.receiver()?);
        tubes.push(tube);
    }
    let patience = || a.timeout.map(|timeout| Instant::now() + timeout);
    let mut end = patience();
    let mut out = stdout().lock();
    while a.count.is_none_or(|count| passed.records < count) {
        let (which, record) = match next(&receivers, end)? {
            Next::Record(which, record) => (which, record),
            // Before the first record somebody may come yet.
            Next::End if (a.follow || passed.records == 0) && may_come(&tubes)? => {
                std::thread::sleep(FOLLOW);
                continue;
            }
            Next::End => return Ok(true),
            Next::TimedOut => return Ok(false),
        };
        let written = put(&mut out, &record, a.tag.then(|| a.names[which].as_str()), a.lines);
        if let Err(e) = written {
            // What nobody has read goes to another, as when we are killed here.
            record.put_back();
            // Whoever reads may have seen enough.
            ensure!(
                e.kind() == ErrorKind::BrokenPipe,
                "cannot write to stdout: {e}; the record goes to the next receiver"
            );
            return Ok(true);
        }
        passed.again += u64::from(record.again());
        passed.add(record.len());
        record.release()?;
        end = patience();
    }
    Ok(true)
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

fn next<'a>(receivers: &'a [Receiver<[u8]>], end: Option<Instant>) -> Result<Next<'a>> {
    let found = match receivers {
        [only] => one(only, end)?.map(|record| (0, record)),
        all => any(all, end)?,
    };
    Ok(match found {
        Some((which, record)) => Next::Record(which, record),
        None if end.is_some_and(|end| Instant::now() >= end) => Next::TimedOut,
        None => Next::End,
    })
}

/// Whether somebody may still send to one of them.
fn may_come(tubes: &[Tube<[u8]>]) -> Result<bool> {
    for tube in tubes {
        if !tube.info()?.sealed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The record of the only tube. `None`: there is none in time, or nobody sends any more.
fn one(receiver: &Receiver<[u8]>, end: Option<Instant>) -> Result<Option<Loan<'_, [u8]>>> {
    let borrowed = match end {
        Some(end) => receiver.borrow_deadline(end),
        None => receiver.borrow(),
    };
    match borrowed {
        Err(NotReceived::Timeout | NotReceived::Disconnected { .. }) => Ok(None),
        borrowed => Ok(Some(borrowed?)),
    }
}

/// The same of whichever has one first.
fn any(receivers: &[Receiver<[u8]>], end: Option<Instant>) -> Result<Option<(usize, Loan<'_, [u8]>)>> {
    let mut choice = Select::new();
    for receiver in receivers {
        choice.recv_on(receiver);
    }
    let mut left = receivers.len();
    while left > 0 {
        let which = match end {
            None => choice.ready(),
            Some(end) => match choice.ready_deadline(end) {
                Ok(which) => which,
                Err(_) => return Ok(None),
            },
        };
        match receivers[which].try_borrow() {
            // Another one was faster.
            Err(NotReceived::Empty) => {}
            Err(NotReceived::Disconnected { .. }) => {
                choice.remove(which);
                left -= 1;
            }
            borrowed => return Ok(Some((which, borrowed?))),
        }
    }
    Ok(None)
}
