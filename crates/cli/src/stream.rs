//! `chappe send` and `chappe recv`: between a tube and a pipe.

use crate::args::{Recv, Send};
use crate::ended::TIMED_OUT;
use crate::format::{Output, encode};
use crate::look;
use crate::said::{Failure, failed, tell, write};
use crate::{time, tube};
use anyhow::{Context, Result, anyhow, bail, ensure};
use chappe::Select;
use chappe::synth::Schema;
use chappe::tube::broadcast::{Broadcast, Publisher, Subscribe, Subscription};
use chappe::tube::named::{Loan, NotReceived, NotSent, Receiver, Sender, Tube};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::{BufRead, BufReader, ErrorKind, IsTerminal, Read, StdoutLock, Write, stderr, stdin, stdout};
use std::time::{Duration, Instant};

/// How `recv` exits if a sender has not ended well.
const SENDER_DIED: u8 = 3;

/// How long `--follow` waits before it looks again for a sender.
const FOLLOW: Duration = Duration::from_millis(20);

/// What went through.
struct Passed {
    records: u64,
    bytes: u64,
    again: u64,
    /// To a subscriber that was too slow.
    lost: u64,
    /// The tube one of whose senders has died, or broken off.
    died: Option<String>,
    /// Whether any was there, asked for or not.
    some: bool,
    began: Instant,
    bar: Option<ProgressBar>,
}

impl Passed {
    /// A sender of this tube has not ended well. With `--follow` that is reported at once.
    fn sender_died(&mut self, name: &str, a: &Recv) {
        if a.follow {
            tell(format_args!("chappe: a sender of `{name}` died, or stopped with an error, in the middle"));
        }
        self.died = Some(name.to_owned());
    }

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
        Passed { records: 0, bytes: 0, again: 0, lost: 0, died: None, some: false, began: Instant::now(), bar }
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
    let sent = Sink::to(a).and_then(|sink| {
        let sent = match (a.format, &sink.schema) {
            (Some(format), Some(schema)) => encode(schema, format, stdin(), |record| sink.put(record, &mut passed)),
            (Some(_), None) => Err(no_schema(&a.name)),
            (None, _) if a.lines => sink.lines(&mut passed),
            // By the schema each has as many bytes.
            (None, schema) => sink.bytes(a.records || schema.is_some(), &mut passed),
        };
        sink.ends(sent)
    });
    if let Err(e) = sent {
        let status = if matches!(e.downcast_ref(), Some(NotSent::Timeout(()))) { TIMED_OUT } else { 1 };
        let why = anyhow!("after {} were sent to `{}`: {}", passed.told(), a.name, look::chain(&e));
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

fn no_schema(name: &str) -> anyhow::Error {
    anyhow!("tube `{name}` has no schema: it says nothing of its records; make it with --schema")
}

/// Where records go.
struct Sink {
    into: Into,
    size: usize,
    follow: bool,
    patience: Option<Duration>,
    schema: Option<Schema>,
}

/// An end where records go in.
enum Into {
    /// And how many receivers had come before.
    One(Tube<[u8]>, Sender<[u8]>, u32),
    All(Publisher<[u8]>),
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
        Ok(Sink::into(Into::One(tube, sender, info.receivers_came), a, info.size, schema(info.schema)?))
    }

    fn into(into: Into, a: &Send, size: u32, schema: Option<Schema>) -> Sink {
        Sink { into, size: size as usize, follow: a.follow, patience: a.timeout, schema }
    }

    /// Sends a record. Where no receiver has come yet, but one may, it goes ahead into the tube; it waits only for room.
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
            Into::One(tube, sender, came) => loop {
                match end.map_or_else(|| sender.send(record), |end| sender.send_deadline(record, end)) {
                    Err(NotSent::Disconnected { .. }) if self.follow || tube.info()?.receivers_came == *came => {}
                    sent => break sent?,
                }
                match sender.try_send_ahead(record) {
                    Err(NotSent::Full(())) => wait()?,
                    sent => break sent?,
                }
            },
            Into::All(publisher) => {
                while passed.records == 0 && !self.follow && publisher.subscribers() == 0 {
                    wait().context("no receiver has come, and without --follow the first record waits for one")?;
                }
                end.map_or_else(|| publisher.send(record), |end| publisher.send_deadline(record, end))?;
            }
        }
        passed.add(record.len());
        Ok(())
    }

    /// A sender that did not send all of it does not end well: receivers are told.
    fn ends(self, sent: Result<()>) -> Result<()> {
        match self.into {
            _ if sent.is_ok() => {}
            Into::One(_, sender, _) => sender.break_off(),
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
    /// No sender is left at any of them.
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
    let received = match a.names.iter().find(|name| tube::is_broadcast(name)) {
        Some(name) if a.names.len() == 1 => hear(name, a, &mut passed),
        Some(name) => Err(anyhow!("`{name}` is a broadcast tube: receive from it alone")),
        None if a.slow.is_some() => Err(anyhow!("--slow is for broadcast tubes: a tube's senders wait for room")),
        None => receive(a, &mut passed),
    };
    drop(passed.bar.take());
    if json {
        let Passed { records, bytes, again, .. } = &passed;
        let mut told = json!({ "records": records, "bytes": bytes, "again": again, "ms": passed.ms() });
        if passed.lost > 0 {
            told["lost"] = passed.lost.into();
        }
        if matches!(received, Ok(Ended::Died)) {
            told["sender_died"] = true.into();
        }
        tell(told);
    } else if passed.again > 0 {
        let came = if passed.again == 1 { "1 record" } else { &format!("{} records", passed.again) };
        tell(format_args!(
            "chappe: {came} came once more: a receiver that had it before has died, or could not write it"
        ));
    } else if passed.lost > 0 {
        tell(format_args!("chappe: {} were lost: this was too slow (--slow block makes senders wait)", passed.lost));
    }
    match received {
        Ok(Ended::Done) => Ok(0),
        Ok(Ended::Died) => {
            let name = passed.died.take().unwrap_or_default();
            let why = anyhow!(
                "a sender of `{name}` died, or stopped with an error, before it was done: what came ({}) may be a part",
                passed.told()
            );
            Err(Failure { status: SENDER_DIED, why })
        }
        Ok(Ended::TimedOut) => {
            Err(Failure { status: TIMED_OUT, why: anyhow!("no record came in time from {}", a.names.join(", ")) })
        }
        Err(e) => Err(failed(e)),
    }
}

/// How receiving came to its end.
enum Ended {
    Done,
    /// No sender is left, and one has not ended well.
    Died,
    TimedOut,
}

/// Of a stream: each record comes behind the one before, or others have what is in between.
struct Course {
    name: String,
    /// There was another receiver when chappe came.
    others: bool,
    /// How many times one had come by then.
    came: u32,
    /// How many numbers there are.
    numbers: u64,
    next: Option<u64>,
}

impl Course {
    /// Where nothing says that it is no stream.
    fn of(tube: &Tube<[u8]>, a: &Recv) -> Result<Option<Course>> {
        let info = tube.info()?;
        if a.lines || a.records || a.tag || info.schema.is_some() {
            return Ok(None);
        }
        Ok(Some(Course {
            name: tube.name(),
            others: info.receivers.len() > 1,
            came: info.receivers_came,
            numbers: u64::from(info.slots) << 32,
            next: None,
        }))
    }

    /// Looks whether this number is the next one. One that a sender gave up is no gap.
    fn step(&mut self, number: u64, tube: &Tube<[u8]>, passed: &Passed) -> Result<()> {
        let next = self.next.replace((number + 1) % self.numbers).unwrap_or(number);
        if number == next {
            return Ok(());
        }
        let missing = number.wrapping_sub(next) % self.numbers;
        let told = passed.told();
        if missing > self.numbers / 2 {
            bail!(
                "the stream of `{}` is out of order: behind {told} comes record {number}, which was sent before record \
                 {}; another receiver had it. Let one at a time receive a stream, or say --lines or --records",
                self.name,
                (next + self.numbers - 1) % self.numbers
            );
        }
        self.gap(missing, next, tube, &told)
    }

    fn gap(&self, missing: u64, next: u64, tube: &Tube<[u8]>, told: &str) -> Result<()> {
        if !self.others && tube.info()?.receivers_came == self.came {
            return Ok(());
        }
        bail!(
            "the stream of `{}` has a gap: behind {told}, records {next} to {} went to another receiver. Let one at a time \
             receive a stream, or say --lines or --records",
            self.name,
            (next + missing - 1) % self.numbers
        )
    }

    /// Nothing comes any more.
    fn end(&self, tube: &Tube<[u8]>, passed: &Passed) -> Result<()> {
        let Some(next) = self.next else { return Ok(()) };
        let missing = (tube.info()?.sent % self.numbers).wrapping_sub(next) % self.numbers;
        if missing == 0 || missing > self.numbers / 2 {
            return Ok(());
        }
        self.gap(missing, next, tube, &passed.told())
    }
}

fn receive(a: &Recv, passed: &mut Passed) -> Result<Ended> {
    let (mut receivers, mut tubes) = (Vec::new(), Vec::new());
    for name in &a.names {
        let tube = Tube::<[u8]>::open(name)?;
        receivers.push(tube.receiver()?);
        tubes.push(tube);
    }
    let schema = match tubes.as_slice() {
        [only] => only.schema()?,
        all => agreed(all, a)?,
    };
    let mut courses = tubes.iter().map(|tube| Course::of(tube, a)).collect::<Result<Vec<_>>>()?;
    let mut out = Writer::new(a, schema)?;
    let patience = || a.timeout.map(|timeout| Instant::now() + timeout);
    let mut end = patience();
    while a.count.is_none_or(|count| passed.records < count) {
        let mut died = None;
        let found = next(&receivers, time::sooner(end, out.ends_in()), &mut died)?;
        if let Some(which) = died {
            passed.sender_died(&a.names[which], a);
        }
        let (which, record) = match found {
            Next::Record(which, record) => (which, record),
            // Before the first record a sender may come yet.
            Next::End if (a.follow || (!passed.some && passed.died.is_none())) && may_come(&tubes)? => {
                out.with_fields(Output::pause)?;
                std::thread::sleep(FOLLOW);
                continue;
            }
            Next::End => {
                out.with_fields(Output::finish)?;
                for (course, tube) in courses.iter().zip(&tubes) {
                    course.as_ref().map_or(Ok(()), |course| course.end(tube, passed))?;
                }
                return Ok(if passed.died.is_some() { Ended::Died } else { Ended::Done });
            }
            Next::TimedOut if end.is_none_or(|end| Instant::now() < end) => {
                out.with_fields(Output::time_goes_by)?;
                continue;
            }
            Next::TimedOut => return out.with_fields(Output::finish).map(|()| Ended::TimedOut),
        };
        if let Some(course) = &mut courses[which]
            && let Err(gap) = course.step(record.position(), &tubes[which], passed)
        {
            record.put_back();
            return Err(gap);
        }
        let written = out.put(&record, a.tag.then(|| a.names[which].as_str()), a.lines);
        let is_written = if let Err(e) = written {
            // What was not read goes to another receiver, as when chappe is killed here.
            record.put_back();
            // The reader may have seen enough.
            ensure!(e.kind() == ErrorKind::BrokenPipe, "{}; the record goes to the next receiver", unwritten(&e));
            return Ok(Ended::Done);
        } else {
            written?
        };
        passed.some = true;
        passed.again += u64::from(record.again() && is_written);
        if is_written {
            passed.add(record.len());
        }
        record.release()?;
        end = patience();
    }
    out.with_fields(Output::finish)?;
    Ok(Ended::Done)
}

/// The schema of several tubes, if that is needed: all have the same.
fn agreed(tubes: &[Tube<[u8]>], a: &Recv) -> Result<Option<String>> {
    if a.format.is_none() && a.condition.is_none() && a.select.is_none() {
        return Ok(None);
    }
    let all = tubes.iter().map(Tube::schema).collect::<Result<Vec<_>, _>>()?;
    ensure!(all.windows(2).all(|two| two[0] == two[1]), "the tubes have different schemas: receive from one at a time");
    Ok(all.into_iter().next().flatten())
}

/// How records are written.
enum Writer {
    Plain(StdoutLock<'static>),
    Fields(Box<Output<StdoutLock<'static>>>),
}

impl Writer {
    fn new(a: &Recv, schema: Option<String>) -> Result<Writer> {
        let out = stdout().lock();
        let (condition, list) = (a.condition.as_deref(), a.select.as_deref());
        if a.format.is_none() && condition.is_none() && list.is_none() {
            return Ok(Writer::Plain(out));
        }
        let schema = Schema::parse(&schema.ok_or_else(|| no_schema(&a.names[0]))?)?;
        let output = Output::new(out, &schema, condition, list, &a.param, a.format)?;
        Ok(Writer::Fields(Box::new(output)))
    }

    /// Whether something was written.
    fn put(&mut self, record: &[u8], tag: Option<&str>, line: bool) -> std::io::Result<bool> {
        match self {
            Writer::Plain(out) => put(out, record, tag, line).map(|()| true),
            Writer::Fields(output) => output.record(tag, record, line),
        }
    }

    /// How long it is until it has to write something though nothing comes.
    fn ends_in(&self) -> Option<Duration> {
        if let Writer::Fields(output) = self { output.ends_in() } else { None }
    }

    fn with_fields(&mut self, act: impl FnOnce(&mut Output<StdoutLock<'static>>) -> std::io::Result<()>) -> Result<()> {
        match self {
            Writer::Plain(_) => Ok(()),
            Writer::Fields(output) => act(output).context("cannot write to stdout"),
        }
    }
}

/// Receives from a broadcast tube.
fn hear(name: &str, a: &Recv, passed: &mut Passed) -> Result<Ended> {
    let tube = Broadcast::<[u8]>::open(name)?;
    let mut out = Writer::new(a, tube.schema()?)?;
    let mut how = Subscribe::to_all().slow(a.slow.unwrap_or_default());
    if let Some(condition) = &a.condition {
        how = how.filter(condition.as_str());
        let names = parameters(&tube, condition)?;
        for (name, value) in a.param.iter().filter(|(name, _)| names.contains(name)) {
            how = how.param(name.as_str(), value.clone());
        }
    }
    let subscription = tube.subscribe(how)?;
    let mut buffer = vec![0; tube.info()?.size as usize];
    let patience = || a.timeout.map(|timeout| Instant::now() + timeout);
    let mut end = patience();
    let ended = loop {
        if a.count.is_some_and(|count| passed.records >= count) {
            break Ended::Done;
        }
        let len = match next_heard(&subscription, &mut buffer, time::sooner(end, out.ends_in())) {
            Ok(len) => len,
            Err(NotReceived::Timeout) if end.is_none_or(|end| Instant::now() < end) => {
                out.with_fields(Output::time_goes_by)?;
                continue;
            }
            Err(NotReceived::Timeout) => break Ended::TimedOut,
            Err(NotReceived::SenderDied { .. }) => {
                passed.sender_died(name, a);
                continue;
            }
            // Before the first record a publisher may come yet.
            Err(NotReceived::Disconnected { .. }) if a.follow || (!passed.some && passed.died.is_none()) => {
                if end.is_some_and(|end| Instant::now() >= end) {
                    break Ended::TimedOut;
                }
                out.with_fields(Output::pause)?;
                std::thread::sleep(FOLLOW);
                continue;
            }
            Err(NotReceived::Disconnected { .. }) if passed.died.is_some() => break Ended::Died,
            Err(NotReceived::Disconnected { .. }) => break Ended::Done,
            Err(e) => return Err(e.into()),
        };
        passed.some = true;
        match out.put(&buffer[..len], a.tag.then_some(name), a.lines) {
            Ok(is_written) if is_written => passed.add(len),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(Ended::Done),
            Err(e) => bail!("{}; the record is lost to this subscriber", unwritten(&e)),
        }
        end = patience();
    };
    passed.lost = subscription.lost();
    out.with_fields(Output::finish)?;
    Ok(ended)
}

/// Why a record was not written, or not added up.
fn unwritten(e: &std::io::Error) -> String {
    match e.kind() {
        // It was not made of the system's.
        ErrorKind::InvalidData | ErrorKind::OutOfMemory => e.to_string(),
        _ => format!("cannot write to stdout: {e}"),
    }
}

/// The parameters of a condition: those of --select are not the filter's.
fn parameters(tube: &Broadcast<[u8]>, condition: &str) -> Result<Vec<String>> {
    let Some(schema) = tube.schema()? else { return Ok(Vec::new()) };
    let query = chappe::synth::Query::filter(&Schema::parse(&schema)?, condition)?;
    Ok(query.params().iter().map(|(name, _)| name.clone()).collect())
}

fn next_heard(from: &Subscription<[u8]>, buffer: &mut [u8], end: Option<Instant>) -> Result<usize, NotReceived> {
    match end {
        Some(end) => from.recv_into_deadline(buffer, end),
        None => from.recv_into(buffer),
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

/// The next record; and the tube of which a sender has died, if that is news.
fn next<'a>(receivers: &'a [Receiver<[u8]>], end: Option<Instant>, died: &mut Option<usize>) -> Result<Next<'a>> {
    let found = match receivers {
        [only] => one(only, end, died)?.map(|record| (0, record)),
        all => any(all, end, died)?,
    };
    Ok(match found {
        Some((which, record)) => Next::Record(which, record),
        None if end.is_some_and(|end| Instant::now() >= end) => Next::TimedOut,
        None => Next::End,
    })
}

/// Whether a sender of one of them may still come.
fn may_come(tubes: &[Tube<[u8]>]) -> Result<bool> {
    for tube in tubes {
        if !tube.info()?.sealed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The record of the only tube. `None`: there is none in time, or no sender is left.
fn one<'a>(
    receiver: &'a Receiver<[u8]>,
    end: Option<Instant>,
    died: &mut Option<usize>,
) -> Result<Option<Loan<'a, [u8]>>> {
    let borrowed = match end {
        Some(end) => receiver.borrow_deadline(end),
        None => receiver.borrow(),
    };
    match borrowed {
        Err(NotReceived::SenderDied { .. }) => {
            *died = Some(0);
            Ok(None)
        }
        Err(NotReceived::Timeout | NotReceived::Disconnected { .. }) => Ok(None),
        borrowed => Ok(Some(borrowed?)),
    }
}

/// The same of whichever has one first.
fn any<'a>(
    receivers: &'a [Receiver<[u8]>],
    end: Option<Instant>,
    died: &mut Option<usize>,
) -> Result<Option<(usize, Loan<'a, [u8]>)>> {
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
            Err(e @ (NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. })) => {
                if matches!(e, NotReceived::SenderDied { .. }) {
                    *died = Some(which);
                }
                choice.remove(which);
                left -= 1;
            }
            borrowed => return Ok(Some((which, borrowed?))),
        }
    }
    Ok(None)
}
