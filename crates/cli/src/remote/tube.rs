//! Tubes on an engine: `chappe tube create|seal|rm`, `chappe send` and `chappe recv`.
//!
//! What gathers while a transaction is under way goes with the next: one record when it is idle, pages of many under load. A receiver that is killed
//! has its records come to another, flagged; chappe's keeper ends its lease at once.

use super::Place;
use super::health::has_room;
use super::pools::{engine_said, make, newer, other, seen, unknown};
use super::wait::{Kept, keep};
use crate::args::{Ends, Recv, Send, TubeCommand};
use crate::ended::TIMED_OUT;
use crate::look::ms;
use crate::said::{Failure, complain, failed, tell, write};
use crate::time;
use anyhow::{Context, Result, anyhow, bail, ensure};
use chappe::remote::acquire::Of;
use chappe::remote::drive::{self, Circumstances, DriveError};
use chappe::remote::engine::{Compare, Engine, Keys, Op, Test, Txn};
use chappe::remote::etcd::{Etcd, Session};
use chappe::remote::keys::{self, Object};
use chappe::remote::page::{self, Batch, Count, MOST_BYTES, MOST_RECORD};
use chappe::remote::receive::{self, Got, Receiver};
use chappe::remote::room::LOOK_EACH;
use chappe::remote::send::{self, Sender};
use chappe::remote::view::Known;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, ErrorKind, Read, Write, stdin, stdout};
use std::sync::mpsc::{Receiver as Channel, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// `chappe tube create`.
///
/// # Errors
/// What no engine has, that it is there already, or the engine's.
pub fn create(place: &Place, etcd: &Etcd, name: &str, command: &TubeCommand) -> Result<Value> {
    let TubeCommand::Create { size, slots, kind, drops, schema, broadcast, .. } = command else {
        bail!("this makes tubes");
    };
    let plain = matches!(kind, Ends::Mpmc) && !drops && schema.is_none() && !broadcast;
    ensure!(
        plain,
        "a tube on an engine has many senders and receivers, and one receiver has each record: leave the other options out"
    );
    let pages = slots.unwrap_or(16);
    page::check(pages, *size).map_err(|e| anyhow!(e))?;
    make(etcd, place, name, Object::Tube { pages, record: *size, sealed: false }, true)?;
    Ok(json!({ "name": place.name(name), "slots": pages, "size": size, "kind": "mpmc" }))
}

/// `chappe tube seal`.
///
/// # Errors
/// That there is none, or the engine's.
pub fn seal(place: &Place, etcd: &Etcd, name: &str) -> Result<Value> {
    let space = place.space();
    loop {
        let (_, Known { what, modified, .. }) = seen(etcd, place, name)?;
        let Object::Tube { pages, record, .. } = what else { bail!(other(place, name, what)) };
        let value = keys::write(&Object::Tube { pages, record, sealed: true });
        let size = space.size(name);
        let when = vec![Compare { keys: Keys::One(size.clone()), is: Test::Modified(modified) }];
        let txn = Txn { when, then: vec![Op::Put { key: size, value, lease: None }], otherwise: vec![] };
        if etcd.txn(&txn).map_err(engine_said)?.held {
            return Ok(json!({ "sealed": place.name(name) }));
        }
    }
}

/// What an end of a tube looks at while it waits.
struct Around<'a> {
    session: &'a Session,
    kept: &'a RefCell<Kept>,
    until: Option<Instant>,
}

impl Circumstances for Around<'_> {
    fn is_over(&self) -> bool {
        self.session.is_over()
    }

    fn gives_up(&self) -> bool {
        self.kept.borrow_mut().tell(self.session);
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn answers_within(&self) -> Duration {
        drive::answers_until(self.until)
    }

    fn look_again(&self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::MAX).clamp(Duration::from_millis(1), self.session.life().every())
    }
}

/// Status 124, if it was the time.
struct End {
    status: u8,
    why: anyhow::Error,
}

impl From<anyhow::Error> for End {
    fn from(why: anyhow::Error) -> End {
        End { status: 1, why }
    }
}

fn driven(came: Result<bool, DriveError>, patience: Option<Duration>, what: &str) -> Result<(), End> {
    match came {
        Ok(true) => Ok(()),
        Ok(false) => {
            let time = time::show(patience.unwrap_or_default());
            Err(End { status: TIMED_OUT, why: anyhow!("timed out after {time}: {what}") })
        }
        Err(DriveError::Over) => {
            Err(anyhow!("its lease has ended: the engine did not answer, or chappe was stopped").into())
        }
        Err(e) => Err(anyhow!("{e}").into()),
    }
}

/// How many bytes may have been read and not be in a page: as much as some transactions take.
#[derive(Default)]
struct Ahead {
    bytes: Mutex<usize>,
    fewer: Condvar,
}

impl Ahead {
    const MOST: usize = 8 * MOST_BYTES;

    /// A record is read: waits until it is among those that may be. If it alone is too many, all others are in pages by then.
    fn more(&self, bytes: usize) {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        while *all > 0 && *all + bytes > Ahead::MOST {
            all = self.fewer.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        *all += bytes;
    }

    /// One is in a page.
    fn less(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.fewer.notify_one();
    }
}

/// What stdin has.
struct Input {
    records: Channel<std::io::Result<Vec<u8>>>,
    ahead: Arc<Ahead>,
}

impl Input {
    fn next(&self, patience: Duration) -> Result<std::io::Result<Vec<u8>>, RecvTimeoutError> {
        let next = self.records.recv_timeout(patience)?;
        self.ahead.less(next.as_ref().map_or(0, Vec::len));
        Ok(next)
    }
}

/// Reads stdin as records, on a thread of its own.
fn records(a: &Send, most: usize) -> Input {
    let (tell, records) = sync_channel(4096);
    let (lines, whole, ahead) = (a.lines, a.records, Arc::new(Ahead::default()));
    let room = Arc::clone(&ahead);
    let body = move || {
        let mut input = stdin().lock();
        loop {
            let mut record = Vec::new();
            let read = if lines {
                // No more of one that is too long.
                input.by_ref().take(most as u64 + 2).read_until(b'\n', &mut record).map(|read| {
                    if record.last() == Some(&b'\n') {
                        record.pop();
                    }
                    read > 0
                })
            } else if whole {
                input.by_ref().take(most as u64).read_to_end(&mut record).map(|read| read > 0)
            } else {
                // What is there, and no more: a stream waits for nobody.
                input.fill_buf().map(|there| record.extend_from_slice(&there[..there.len().min(most)])).map(|()| {
                    input.consume(record.len());
                    !record.is_empty()
                })
            };
            let sent = match read {
                Ok(false) => return,
                Ok(true) => {
                    room.more(record.len());
                    tell.send(Ok(record))
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => tell.send(Err(e)),
            };
            if sent.is_err() {
                return;
            }
        }
    };
    // Without it there is nothing to send, which is said by an end that comes too soon.
    let _ = std::thread::Builder::new().name("chappe-stdin".into()).spawn(body);
    Input { records, ahead }
}

/// What was sent.
#[derive(Default)]
struct Sent {
    records: u64,
    bytes: u64,
    /// The pages of the last batch that are not there yet.
    asked: VecDeque<Count>,
}

impl Sent {
    /// All but so many of the pages are there.
    fn are_there(&mut self, but: usize) {
        while self.asked.len() > but {
            let count = self.asked.pop_front().unwrap_or_default();
            (self.records, self.bytes) = (self.records + count.records as u64, self.bytes + count.bytes);
        }
    }
}

/// Pages of what has come, as many as a transaction takes; `None`: nothing more comes.
fn gather(
    input: &Input,
    next: &mut Option<Vec<u8>>,
    check: &dyn Fn(&[u8]) -> Result<()>,
    idle: &mut dyn FnMut() -> Duration,
) -> Result<Option<Batch>> {
    let first = match next.take() {
        Some(record) => record,
        None => loop {
            match input.next(idle()) {
                Ok(record) => break record.context("stdin")?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        },
    };
    check(&first)?;
    let (mut batch, mut record) = (Batch::default(), first);
    loop {
        if !batch.append(&record) {
            *next = Some(record);
            break;
        }
        record = match input.next(Duration::ZERO) {
            Ok(record) => record.context("stdin")?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        };
        if check(&record).is_err() {
            // What came before it is sent first.
            *next = Some(record);
            break;
        }
    }
    Ok(Some(batch))
}

/// `chappe send`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn send(place: &Place, etcd: &Etcd, a: &Send, json: bool) -> Result<(), Failure> {
    if a.format.is_some() {
        return Err(failed(anyhow!("a tube on an engine has no schema: leave --format out")));
    }
    let (name, began) = (&place.names[0], Instant::now());
    let called = place.name(name);
    let (session, by, kept) = keep(place, etcd, &format!("chappe send {called}"))?;
    let kept = RefCell::new(kept);
    let mut machine = Sender::new(place.space(), by, name.clone());
    let mut sent = Sent::default();
    let ended = sends(place, etcd, a, &mut machine, (&session, &kept), &mut sent);
    kept.into_inner().end(session);
    let Sent { records, bytes, .. } = sent;
    if let Err(End { status, why }) = ended {
        let were = if records == 1 { "1 record was".into() } else { format!("{records} records were") };
        let more = match sent.asked.iter().map(|count| count.records).sum::<usize>() {
            more if more > 0 && machine.is_unsure() => {
                format!("; of {more} more it is not known whether they came there")
            }
            _ => String::new(),
        };
        return Err(Failure { status, why: anyhow!("after {were} sent to `{called}`: {why:#}{more}") });
    }
    if json {
        let ms = ms(began.elapsed());
        write(format!("{}\n", json!({ "name": called, "records": records, "bytes": bytes, "ms": ms })).as_bytes())?;
    }
    Ok(())
}

fn sends(
    place: &Place,
    etcd: &Etcd,
    a: &Send,
    machine: &mut Sender,
    (session, kept): (&Session, &RefCell<Kept>),
    sent: &mut Sent,
) -> Result<(), End> {
    let name = &place.names[0];
    let around = || Around { session, kept, until: a.timeout.map(|patience| Instant::now() + patience) };
    let mut watch = None;
    driven(drive::tube(etcd, machine, &mut watch, &around()), a.timeout, "the engine does not answer")?;
    over(place, name, machine)?;
    let most = match seen(etcd, place, name)?.1.what {
        Object::Tube { record, .. } => usize::try_from(record).unwrap_or(MOST_RECORD),
        what => return Err(anyhow!(other(place, name, what)).into()),
    };
    let check = |record: &[u8]| {
        let part = a.records && record.len() < most;
        ensure!(!part, "the last record has {} bytes, and the tube's have {most}", record.len());
        ensure!(record.len() <= most, "a record has more than the {most} bytes that the tube's have at most");
        Ok(())
    };
    let (records, mut next, mut looked_at) = (records(a, most), None, None);
    let mut idle = || {
        kept.borrow_mut().tell(session);
        session.life().every()
    };
    while let Some(batch) = gather(&records, &mut next, &check, &mut idle)? {
        if looked_at.is_none_or(|bytes| sent.bytes >= bytes + LOOK_EACH as u64) {
            has_room(etcd)?;
            looked_at = Some(sent.bytes);
        }
        sent.asked.extend(batch.counts);
        machine.send(batch.pages);
        let came = drive::tube(etcd, machine, &mut watch, &around());
        // A tube may have had room for some of them.
        sent.are_there(machine.left());
        driven(came, a.timeout, "the tube is full")?;
        over(place, name, machine)?;
    }
    machine.close();
    driven(drive::tube(etcd, machine, &mut watch, &around()), a.timeout, "the engine does not answer")?;
    Ok(over(place, name, machine)?)
}

/// Why a sender is at its end before it wanted to be.
fn over(place: &Place, name: &str, machine: &Sender) -> Result<()> {
    let called = place.name(name);
    match machine.step() {
        send::Step::Done(outcome) => match outcome {
            send::Outcome::Closed => Ok(()),
            send::Outcome::NoTube => bail!(unknown(place, name, Of::Either)),
            send::Outcome::Other(object) => bail!(other(place, name, object)),
            send::Outcome::Sealed => bail!("tube `{called}` is sealed"),
            send::Outcome::Removed => bail!("tube `{called}` was removed"),
            send::Outcome::Lost => bail!("its lease has ended"),
            send::Outcome::Newer(format) => bail!(newer(place, format)),
            send::Outcome::Refused(why) => bail!("the engine refuses: {why}"),
        },
        _ => Ok(()),
    }
}

/// `chappe recv`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn recv(place: &Place, etcd: &Etcd, a: &Recv, json: bool) -> Result<u8, Failure> {
    if a.has_fields() || a.slow.is_some() {
        return Err(failed(anyhow!("a tube on an engine has no schema and no subscribers: leave those options out")));
    }
    let [name] = place.names.as_slice() else {
        return Err(failed(anyhow!("of tubes on an engine `chappe recv` receives from one at a time")));
    };
    if a.count == Some(0) {
        let known = seen(etcd, place, name).map_err(failed)?.1;
        return match known.what {
            Object::Tube { .. } => Ok(0),
            what => Err(failed(anyhow!(other(place, name, what)))),
        };
    }
    let began = Instant::now();
    let (session, by, kept) = keep(place, etcd, &format!("chappe recv {}", place.name(name)))?;
    let kept = RefCell::new(kept);
    let mut out = Out::new(a, place.name(name));
    let ended =
        receives(place, etcd, &mut out, Receiver::new(place.space(), by, name.clone(), a.follow), (&session, &kept));
    kept.into_inner().end(session);
    let Out { records, bytes, again, .. } = out;
    if json {
        let mut told = json!({ "records": records, "bytes": bytes, "again": again, "ms": ms(began.elapsed()) });
        if matches!(ended, Ok(3)) {
            told["sender_died"] = json!(true);
        }
        tell(told);
    } else if again > 0 {
        complain(
            false,
            &format!("{again} of {records} records may have come before, to a receiver that did not acknowledge them"),
        );
    }
    match ended {
        Ok(3) => {
            complain(
                json,
                &format!("a sender of `{}` died before it was done: what came may be a part", place.name(name)),
            );
            Ok(3)
        }
        Ok(status) => Ok(status),
        Err(End { status, why }) => Err(Failure { status, why }),
    }
}

fn receives(
    place: &Place,
    etcd: &Etcd,
    out: &mut Out<'_>,
    mut machine: Receiver,
    (session, kept): (&Session, &RefCell<Kept>),
) -> Result<u8, End> {
    let (a, name) = (out.a, &place.names[0]);
    let mut watch = None;
    loop {
        let until = a.timeout.map(|patience| Instant::now() + patience);
        let around = Around { session, kept, until };
        driven(drive::tube(etcd, &mut machine, &mut watch, &around), a.timeout, "no record came")?;
        match machine.step() {
            receive::Step::Got(got) => match out.puts(&got, &mut stdout().lock())? {
                None => machine.acknowledge(),
                Some(rest) => {
                    machine.leave(rest);
                    let around = Around { session, kept, until: None };
                    driven(drive::tube(etcd, &mut machine, &mut watch, &around), None, "")?;
                    return out.unread.take().map_or(Ok(0), |why| Err(why.into()));
                }
            },
            receive::Step::Done(outcome) => {
                return match outcome {
                    receive::Outcome::End { died } => Ok(if died { 3 } else { 0 }),
                    receive::Outcome::Left => Ok(0),
                    receive::Outcome::NoTube => Err(anyhow!(unknown(place, name, Of::Either)).into()),
                    receive::Outcome::Other(object) => Err(anyhow!(other(place, name, object)).into()),
                    receive::Outcome::Removed => Err(anyhow!("tube `{}` was removed", out.called).into()),
                    receive::Outcome::Lost => {
                        Err(anyhow!("its lease has ended: what was not acknowledged comes to another").into())
                    }
                    receive::Outcome::Newer(format) => Err(anyhow!(newer(place, format)).into()),
                    receive::Outcome::Refused(why) => Err(anyhow!("the engine refuses: {why}").into()),
                };
            }
            receive::Step::Call(_) | receive::Step::Wait { .. } => {}
        }
    }
}

/// Where records go.
struct Out<'a> {
    a: &'a Recv,
    called: String,
    records: u64,
    bytes: u64,
    again: u64,
    /// The page that a stream goes on with.
    next: Option<u64>,
    /// Why what is left is left.
    unread: Option<anyhow::Error>,
}

/// What of a claim is not wanted: a page and its records from there on.
type Rest = Option<(u64, Vec<u8>)>;

impl<'a> Out<'a> {
    fn new(a: &'a Recv, called: String) -> Out<'a> {
        Out { a, called, records: 0, bytes: 0, again: 0, next: None, unread: None }
    }

    /// Writes records. Answers what is left, if it is enough. Where nobody reads any more, nobody may have read these: all are left, and come
    /// again.
    fn puts(&mut self, got: &Got, to: &mut impl Write) -> Result<Option<Rest>> {
        // Of the page that cannot be read, and the one behind it.
        let (mut text, mut broken): (Vec<u8>, Option<(u64, Rest)>) = (Vec::new(), None);
        let mut left: VecDeque<(u64, &[u8])> = VecDeque::new();
        let is_stream = !(self.a.lines || self.a.records || self.a.tag);
        for (at, (number, page)) in got.pages.iter().enumerate() {
            if broken.is_some() {
                break;
            }
            let next = self.next.replace(number + 1).unwrap_or(*number);
            if is_stream && next != *number {
                let called = &self.called;
                bail!(
                    "`{called}` goes on with page {number}, not {next}: another has received what is missing, and it is left in the tube"
                );
            }
            for record in page::records(page) {
                match record {
                    Some(record) => left.push_back((*number, record)),
                    None => {
                        let why = "is no record of chappe's, and is passed over: what comes behind it is there for the next `chappe recv`";
                        self.unread = Some(anyhow!("the rest of page {number} of `{}` {why}", self.called));
                        broken = Some((*number, got.pages.get(at + 1).cloned()));
                    }
                }
            }
        }
        let wanted = self.a.count.map_or(left.len(), |count| left.len().min((count - self.records) as usize));
        let (mut records, mut bytes) = (0, 0);
        for (_, record) in left.drain(..wanted) {
            if self.a.tag {
                text.extend_from_slice(self.called.as_bytes());
                text.push(b'\t');
            }
            text.extend_from_slice(record);
            if self.a.lines {
                text.push(b'\n');
            }
            (records, bytes) = (records + 1, bytes + record.len() as u64);
        }
        match to.write_all(&text).and_then(|()| to.flush()) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.unread = None;
                return Ok(Some(got.pages.first().cloned()));
            }
            other => other.context("stdout")?,
        }
        (self.records, self.bytes) = (self.records + records, self.bytes + bytes);
        self.again += if got.again { records } else { 0 };
        let enough = self.a.count.is_some_and(|count| self.records >= count);
        match (broken, left.front()) {
            (Some((_, behind)), None) => return Ok(Some(behind)),
            // It comes again.
            (Some((broken, _)), Some((page, _))) if broken != *page => self.unread = None,
            _ => {}
        }
        if !enough {
            return Ok(None);
        }
        let Some((page, _)) = left.front().copied() else { return Ok(Some(None)) };
        let mut rest = Vec::new();
        left.iter().filter(|(number, _)| *number == page).for_each(|(_, record)| page::append(&mut rest, record));
        Ok(Some(Some((page, rest))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader has gone.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn records_that_nobody_reads_any_more_stay_in_the_tube() {
        let page = |records: &[&str]| {
            let mut page = Vec::new();
            records.iter().for_each(|record| page::append(&mut page, record.as_bytes()));
            page
        };
        let got = Got { pages: vec![(7, page(&["a", "b"])), (8, page(&["c"]))], again: false, token: 1 };
        let (all, some) = (Recv::default(), Recv { count: Some(1), ..Recv::default() });
        let out = |a| Out::new(a, String::new());
        let mut gone = out(&all);
        assert_eq!(gone.puts(&got, &mut Gone).unwrap(), Some(Some((7, page(&["a", "b"])))));
        assert_eq!(gone.records, 0);
        let (mut whole, mut to) = (out(&all), Vec::new());
        assert_eq!((whole.puts(&got, &mut to).unwrap(), &to[..], whole.records), (None, &b"abc"[..], 3));
        let (mut part, mut to) = (out(&some), Vec::new());
        assert_eq!((part.puts(&got, &mut to).unwrap(), &to[..]), (Some(Some((7, page(&["b"])))), &b"a"[..]));
    }

    #[test]
    fn a_page_that_cannot_be_read_is_passed_over_and_a_gap_ends_a_stream() {
        let mut broken = Vec::new();
        page::append(&mut broken, b"a");
        let whole = broken.clone();
        broken.push(1);
        let got = |pages: &[(u64, &Vec<u8>)]| Got {
            pages: pages.iter().map(|(number, page)| (*number, (*page).clone())).collect(),
            again: false,
            token: 1,
        };
        let (a, mut to) = (Recv::default(), Vec::new());
        let mut out = Out::new(&a, "@lab/t".into());
        assert_eq!(out.puts(&got(&[(6, &broken), (7, &whole)]), &mut to).unwrap(), Some(Some((7, whole.clone()))));
        assert_eq!((&to[..], out.records), (&b"a"[..], 1));
        let said = out.unread.take().unwrap().to_string();
        assert!(said.contains("page 6 of `@lab/t`") && said.contains("passed over"), "{said}");
        let mut out = Out::new(&a, "@lab/t".into());
        assert_eq!(out.puts(&got(&[(2, &whole)]), &mut to).unwrap(), None);
        let said = out.puts(&got(&[(5, &whole)]), &mut to).unwrap_err().to_string();
        assert!(said.contains("goes on with page 5, not 3"), "{said}");
        let lines = Recv { lines: true, ..Recv::default() };
        let mut out = Out::new(&lines, "@lab/t".into());
        assert_eq!(out.puts(&got(&[(2, &whole)]), &mut to).unwrap(), None);
        assert_eq!(out.puts(&got(&[(5, &whole)]), &mut to).unwrap(), None);
    }
}
