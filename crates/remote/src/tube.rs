//! A tube that many machines share: a queue of records at the engine, of which each has one receiver.

use crate::connection::News;
use crate::drive::GRACE;
use crate::engine::{Compare, Engine, EngineError, Keys, Op, Revision, Test, Txn};
use crate::error::RemoteError;
use crate::keys::{self, Object};
use crate::leased::Leased;
use crate::page::{self, Batch, Count, MOST_RECORD};
use crate::permit::Token;
use crate::pulse::Loss;
use crate::receive;
use crate::room::{LOOK_EACH, nearly_full};
use crate::send;
use crate::session::{Interrupt, Leaving, Patience, Session, Stop};
use crate::tube_end::TubeEnd;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A tube on an engine.
#[derive(Clone)]
pub struct Tube {
    session: Arc<Session>,
    name: String,
}

impl fmt::Debug for Tube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tube({:?})", self.name)
    }
}

/// A tube as it can be made.
///
/// # Errors
/// `Invalid`: a size that no tube has.
pub(crate) fn tube_of(pages: u64, record: u64) -> Result<Object, RemoteError> {
    page::check(pages, record).map_err(RemoteError::Invalid)?;
    Ok(Object::Tube { pages, record, sealed: false })
}

impl Tube {
    pub(crate) fn new(session: Arc<Session>, name: String) -> Tube {
        Tube { session, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A sender, which is there for receivers to see until it is dropped.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Sealed`, `Silent`, `Newer`, `Refused`, `Inherited`.
    pub fn sender(&self) -> Result<Sender, RemoteError> {
        let (session, called) = (&self.session, self.session.site.name(&self.name));
        let (_, known) = session.site.see(session.link()?, "tube", &self.name)?;
        let Object::Tube { record, .. } = known.what else {
            return Err(RemoteError::Other { name: called, is: known.what, wanted: "tube" });
        };
        let most = usize::try_from(record).unwrap_or(MOST_RECORD);
        let until = Instant::now() + OPENING;
        loop {
            let (leased, by) = session.begin(&called)?;
            let machine = send::Sender::new(session.site.space.clone(), by, self.name.clone());
            let end = End { session: Arc::clone(session), leased, name: self.name.clone(), watch: None };
            let (machine, panicking) = (Some(machine), std::thread::panicking());
            let mut sender = Sender { end, machine, most, unlooked: LOOK_EACH, broken: false, panicking };
            match sender.goes_on(Patience::For(until.saturating_duration_since(Instant::now())), None) {
                // The lease has ended, which was not known here: nobody has seen this sender.
                Err(RemoteError::Lost { .. }) if sender.end.leased.pulse.is_over() && Instant::now() < until => {}
                came => return came.map(|()| sender),
            }
        }
    }

    /// A receiver. Its stream is at its end when all was received, and of the senders that there were none is left.
    ///
    /// # Errors
    /// `Silent`, `Refused`, `Inherited`; the others come with the first [`Receiver::recv`].
    pub fn receiver(&self) -> Result<Receiver, RemoteError> {
        self.receives(false)
    }

    /// The same, whose stream ends when all was received of a tube that is sealed: senders may come and go.
    ///
    /// # Errors
    /// As [`Tube::receiver`].
    pub fn follower(&self) -> Result<Receiver, RemoteError> {
        self.receives(true)
    }

    fn receives(&self, follows: bool) -> Result<Receiver, RemoteError> {
        let session = &self.session;
        let (leased, by) = session.begin(&session.site.name(&self.name))?;
        let machine = receive::Receiver::new(session.site.space.clone(), by, self.name.clone(), follows);
        let end = End { session: Arc::clone(session), leased, name: self.name.clone(), watch: None };
        let (queue, at, again, token) = (VecDeque::new(), (0, 0), false, 0);
        let panicking = std::thread::panicking();
        Ok(Receiver { end, machine: Some(machine), queue, at, again, token, told: false, panicking })
    }

    /// Lets nothing more be sent: senders are told so, and receivers end when they have had what is there.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Unsure`, `Newer`, `Refused`, `Inherited`.
    pub fn seal(&self) -> Result<(), RemoteError> {
        let (site, link) = (&self.session.site, self.session.link()?);
        loop {
            let (_, known) = site.see(link, "tube", &self.name)?;
            let Object::Tube { pages, record, .. } = known.what else { return Ok(()) };
            let (key, value) =
                (site.space.size(&self.name), keys::write(&Object::Tube { pages, record, sealed: true }));
            let when = vec![Compare { keys: Keys::One(key.clone()), is: Test::Modified(known.modified) }];
            match link.txn(&Txn { when, then: vec![Op::Put { key, value, lease: None }], otherwise: vec![] }) {
                Ok(reply) if reply.held => return Ok(()),
                Ok(_) => {}
                Err(EngineError::Unknown(why) | EngineError::Full(why)) => {
                    return Err(RemoteError::Unsure { what: format!("`{}` was sealed", site.name(&self.name)), why });
                }
                Err(e) => return Err(RemoteError::Refused(e.to_string())),
            }
        }
    }
}

/// How long a sender waits for the engine to be one.
const OPENING: Duration = Duration::from_secs(5);

/// What both ends have.
struct End {
    session: Arc<Session>,
    leased: Arc<Leased>,
    name: String,
    watch: Option<News>,
}

impl End {
    fn called(&self) -> String {
        format!("`{}`", self.session.site.name(&self.name))
    }

    fn lost(&self, what: &str) -> RemoteError {
        // Under a lease that goes on somebody has deleted its key.
        RemoteError::Lost { held: format!("{what} of {}", self.called()), why: self.loss().unwrap_or(Loss::TakenAway) }
    }

    /// Why its lease is over, if it is. No I/O.
    fn loss(&self) -> Option<Loss> {
        if self.leased.is_own() { self.leased.pulse.loss() } else { Some(Loss::Inherited) }
    }

    /// Why it is not where its user is wanted.
    fn stopped(&self, why: Stop, what: &str, wanted: String, patience: Patience) -> RemoteError {
        match (why, patience) {
            (Stop::Over, _) => self.lost(what),
            (Stop::Time, Patience::For(after)) => RemoteError::Timeout { wanted, after },
            (Stop::Time, _) => RemoteError::WouldBlock { wanted },
            (Stop::Interrupted, _) => RemoteError::Interrupted { wanted },
            (Stop::Silent(why), _) => RemoteError::Silent { wanted, why },
        }
    }

    fn unknown(&self) -> RemoteError {
        self.session.site.unknown("tube", &self.name)
    }

    fn other(&self, is: Object) -> RemoteError {
        RemoteError::Other { name: self.session.site.name(&self.name), is, wanted: "tube" }
    }

    fn removed(&self) -> RemoteError {
        RemoteError::Removed { kind: "tube", name: self.session.site.name(&self.name) }
    }

    /// The end goes, by way of `leaves`, which says how far it is.
    fn leaves<M: TubeEnd + Send + 'static>(
        &mut self,
        machine: M,
        leaves: impl FnMut(&mut M) -> Leaving + Send + 'static,
    ) {
        if self.leased.is_own() {
            self.session.parts(&self.leased, machine, self.watch.take(), leaves);
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.leased.is_own() {
            // What would be told of its end is in the parent.
            std::mem::forget(self.watch.take());
        }
    }
}

/// Why records were not sent.
#[derive(Debug, thiserror::Error)]
#[error("after {sent} of {wanted} records were sent{}: {why}", more(*.unsure))]
pub struct SendError {
    /// How many are there, from the first on.
    pub sent: usize,
    /// Of how many behind those it is not known: an answer was lost.
    pub unsure: usize,
    /// How many were to be sent.
    pub wanted: usize,
    /// Why not all.
    pub why: RemoteError,
}

fn more(unsure: usize) -> String {
    if unsure == 0 { String::new() } else { format!(", and of {unsure} more it is not known whether they were") }
}

/// A sender of a tube. While it is there, receivers wait for more. Dropped, it has finished; if its process ends without that, or loses its lease, or
/// the sender is dropped by a panic, receivers are told that a sender died.
///
/// Dropping it takes one round trip to the engine, for which the dropping thread waits. If the engine does not answer for a second, another thread goes
/// on with that, and receivers wait as long.
pub struct Sender {
    end: End,
    /// There until it is dropped.
    machine: Option<send::Sender>,
    most: usize,
    /// How many bytes were sent since it was looked how full the engine is.
    unlooked: usize,
    /// Something is under way without an answer.
    broken: bool,
    /// The thread that made it panicked already.
    panicking: bool,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sender({:?})", self.end.name)
    }
}

impl Sender {
    /// Sends a record: it is there, whole and once, when this returns. Waits while the tube is full: back pressure.
    ///
    /// # Errors
    /// As [`Sender::send_all`].
    pub fn send(&mut self, record: &[u8]) -> Result<(), SendError> {
        self.send_all(&[record], Patience::Forever)
    }

    /// Sends records in their order, many in one transaction: for throughput. Waits while the tube is full.
    ///
    /// # Errors
    /// Why not all were sent, and how many were. `Invalid`: a record is too long, and nothing was sent. `WouldBlock`, `Timeout`: the tube is full, and
    /// the rest was not sent. `NearlyFull`: four fifths of the engine's room are used. `Sealed`, `Removed`, `Refused`, `Newer`, `Inherited`. `Silent`, `Lost`: this sender is at its end; make another.
    pub fn send_all<R: AsRef<[u8]>>(&mut self, records: &[R], patience: Patience) -> Result<(), SendError> {
        self.send_all_until(records, patience, None)
    }

    /// The same, until somebody wants it to end.
    #[doc(hidden)]
    pub fn send_all_until<R: AsRef<[u8]>>(
        &mut self,
        records: &[R],
        patience: Patience,
        interrupt: Interrupt<'_>,
    ) -> Result<(), SendError> {
        let wanted = records.len();
        if let Err(why) = self.end.session.link() {
            return Err(SendError { sent: 0, unsure: 0, wanted, why });
        }
        if let Some(long) = records.iter().map(|record| record.as_ref().len()).find(|length| *length > self.most) {
            let why =
                format!("a record has {long} bytes, and those of {} have at most {}", self.end.called(), self.most);
            return Err(SendError { sent: 0, unsure: 0, wanted, why: RemoteError::Invalid(why) });
        }
        let mut sent = 0;
        while sent < wanted {
            let mut batch = Batch::default();
            // As many as a transaction takes.
            let _ = records[sent..].iter().all(|record| batch.append(record.as_ref()));
            let ready = self.machine.as_mut().filter(|machine| !self.broken && machine.step() == send::Step::Ready);
            let Some(machine) = ready else {
                let over = if self.broken { Ok(()) } else { self.goes_on(patience, interrupt) };
                let why = over.err().unwrap_or_else(|| self.end.lost("a sender"));
                return Err(SendError { sent, unsure: 0, wanted, why });
            };
            if self.unlooked >= LOOK_EACH {
                // One that does not say it is sent to, and says so then.
                let most = match patience {
                    Patience::Now => GRACE,
                    Patience::For(time) => time.max(GRACE),
                    Patience::Forever => Duration::MAX,
                };
                let size = self.end.session.link().ok().and_then(|link| link.0.size(most));
                if let Some(full) = size.and_then(nearly_full) {
                    return Err(SendError { sent, unsure: 0, wanted, why: RemoteError::NearlyFull(full) });
                }
                self.unlooked = 0;
            }
            self.unlooked += batch.pages.iter().map(Vec::len).sum::<usize>();
            machine.send(batch.pages);
            let came = self.goes_on(patience, interrupt);
            let (left, unsure) =
                self.machine.as_ref().map_or((0, false), |machine| (machine.left(), machine.is_unsure()));
            let (there, not) = batch.counts.split_at(batch.counts.len() - left);
            let of = |counts: &[Count]| counts.iter().map(|count| count.records).sum::<usize>();
            sent += of(there);
            if let Err(why) = came {
                // What is under way without an answer cannot be taken back.
                self.broken = matches!(why, RemoteError::Silent { .. });
                let unsure = if unsure { of(not) } else { 0 };
                if let Some(machine) = &mut self.machine {
                    machine.take_back();
                }
                return Err(SendError { sent, unsure, wanted, why });
            }
        }
        Ok(())
    }

    /// Goes without having finished: receivers are told that a sender died, as after a panic.
    pub fn abandon(mut self) {
        if let Some(machine) = &mut self.machine {
            machine.abandon();
        }
    }

    /// Goes on until all is there that was to be.
    fn goes_on(&mut self, patience: Patience, interrupt: Interrupt<'_>) -> Result<(), RemoteError> {
        let called = format!("room in {}", self.end.called());
        let end = &mut self.end;
        let Some(machine) = &mut self.machine else { return Err(end.lost("a sender")) };
        match end.session.drives(&end.leased, machine, &mut end.watch, patience, interrupt) {
            Ok(()) => {}
            Err(stop) => return Err(end.stopped(stop, "a sender", called, patience)),
        }
        match machine.step() {
            send::Step::Done(outcome) => Err(match outcome {
                send::Outcome::Closed | send::Outcome::Lost => end.lost("a sender"),
                send::Outcome::NoTube => end.unknown(),
                send::Outcome::Other(is) => end.other(is),
                send::Outcome::Sealed => RemoteError::Sealed { name: end.session.site.name(&end.name) },
                send::Outcome::Removed => end.removed(),
                send::Outcome::Newer(format) => end.session.site.newer(format),
                send::Outcome::Refused(why) => RemoteError::Refused(why),
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let Some(mut machine) = self.machine.take() else { return };
        // Before it goes on: one that has not opened does not. A panic is a death: what came may be a part.
        if std::thread::panicking() && !self.panicking {
            machine.abandon()
        } else {
            machine.close()
        }
        self.end.leaves(machine, |machine| {
            // What does not fit is not sent: the caller was told so.
            machine.take_back();
            match machine.step() {
                _ if machine.has_left() => Leaving::Gone,
                send::Step::Done(_) => {
                    machine.close();
                    Leaving::Refused
                }
                _ => Leaving::Goes,
            }
        });
    }
}

/// What was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// It was given to a receiver before, which died, or did not finish with it: it may have been seen.
    pub again: bool,
    /// The fencing token: larger each time that it is given to a receiver.
    pub token: Token,
}

/// A receiver of a tube. Each record has one receiver. What it was given counts as done when it asks for what comes after those that came with it, or is
/// dropped; if it dies before, or panics, or loses its lease, those records come to another, with [`Record::again`].
///
/// Dropping it takes one round trip to the engine, for which the dropping thread waits. If the engine does not answer for a second, another thread goes
/// on with that.
pub struct Receiver {
    end: End,
    /// There until it is dropped.
    machine: Option<receive::Receiver>,
    /// Pages that have come, by their numbers.
    queue: VecDeque<(u64, Vec<u8>)>,
    /// Where in the first page the record was that was given last, and where the next one is.
    at: (usize, usize),
    again: bool,
    token: Revision,
    /// The death of a sender was told.
    told: bool,
    /// The thread that made it panicked already.
    panicking: bool,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({:?})", self.end.name)
    }
}

impl Receiver {
    /// Waits for a record; `None`: the stream is at its end.
    ///
    /// # Errors
    /// `SenderDied`, once, before the end: what came may be a part. `Unreadable`: the rest of a page is passed over. `Lost`: this receiver is at its end, and
    /// what it has not finished with comes to another. `Unknown`, `Other`, `Removed`, `Silent`, `Newer`, `Refused`, `Inherited`.
    pub fn recv(&mut self) -> Result<Option<Record>, RemoteError> {
        self.recv_until(Patience::Forever, None)
    }

    /// Takes a record if there is one.
    ///
    /// # Errors
    /// `WouldBlock`; and as [`Receiver::recv`].
    pub fn try_recv(&mut self) -> Result<Option<Record>, RemoteError> {
        self.recv_until(Patience::Now, None)
    }

    /// Waits at most so long.
    ///
    /// # Errors
    /// `Timeout`; and as [`Receiver::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Record>, RemoteError> {
        self.recv_until(Patience::For(timeout), None)
    }

    /// The same, until somebody wants it to end.
    #[doc(hidden)]
    pub fn recv_until(&mut self, patience: Patience, interrupt: Interrupt<'_>) -> Result<Option<Record>, RemoteError> {
        // In a forked child first: what has come is its parent's, and a lock may have been held by a thread that is not there.
        self.end.session.link()?;
        loop {
            if self.end.leased.pulse.is_over() && !self.moves()? {
                return Err(self.end.lost("a receiver"));
            }
            if let Some(record) = self.next()? {
                return Ok(Some(record));
            }
            match self.goes_on(patience, interrupt) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // If it had nothing, it goes on under another lease.
                Err(RemoteError::Lost { .. }) if self.end.leased.pulse.is_over() => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Goes on under another lease, if it has nothing that comes to another with the end of the last one.
    fn moves(&mut self) -> Result<bool, RemoteError> {
        let Some(machine) = &mut self.machine else { return Ok(false) };
        if !self.queue.is_empty() || machine.has_claimed() {
            return Ok(false);
        }
        let (leased, by) = self.end.session.begin(&self.end.called())?;
        let moves = machine.moves(by);
        if moves {
            self.end.leased = leased;
        }
        Ok(moves)
    }

    /// Whether what it was given last certainly comes to nobody else: no I/O, as [`Permit::check`](crate::Permit::check). It knows of its lease; what
    /// somebody deletes by hand or removes with the tube it does not watch, and that comes to nobody.
    ///
    /// # Errors
    /// Why it comes to another.
    pub fn check(&self) -> Result<(), Loss> {
        self.end.loss().map_or(Ok(()), Err)
    }

    /// Goes without having finished with the record that it was given last, which comes to another, as after a panic.
    pub fn abandon(mut self) {
        self.at.1 = self.at.0;
    }

    /// The next record of the pages that have come.
    fn next(&mut self) -> Result<Option<Record>, RemoteError> {
        while let Some((number, page)) = self.queue.front() {
            let (from, number) = (self.at.1, *number);
            let next = page::records(&page[from..]).next();
            match next {
                None => {
                    self.queue.pop_front();
                    self.at = (0, 0);
                }
                Some(Some(bytes)) => {
                    let bytes = bytes.to_vec();
                    self.at = (from, from + 4 + bytes.len());
                    return Ok(Some(Record { bytes, again: self.again, token: Token(self.token) }));
                }
                Some(None) => {
                    self.at = (from, page.len());
                    return Err(RemoteError::Unreadable {
                        name: self.end.session.site.name(&self.end.name),
                        page: number,
                    });
                }
            }
        }
        Ok(None)
    }

    /// Has done with what has come, and waits for more; answers whether there is more.
    fn goes_on(&mut self, patience: Patience, interrupt: Interrupt<'_>) -> Result<bool, RemoteError> {
        let called = format!("a record of {}", self.end.called());
        let end = &mut self.end;
        let Some(machine) = &mut self.machine else { return Ok(false) };
        machine.acknowledge();
        match end.session.drives(&end.leased, machine, &mut end.watch, patience, interrupt) {
            Ok(()) => {}
            Err(stop) => return Err(end.stopped(stop, "a receiver", called, patience)),
        }
        match machine.step() {
            receive::Step::Got(got) => {
                (self.queue, self.at) = (got.pages.into(), (0, 0));
                (self.again, self.token) = (got.again, got.token);
                Ok(true)
            }
            receive::Step::Done(outcome) => match outcome {
                receive::Outcome::End { died } if died && !std::mem::replace(&mut self.told, true) => {
                    Err(RemoteError::SenderDied { name: end.session.site.name(&end.name) })
                }
                receive::Outcome::End { .. } | receive::Outcome::Left => Ok(false),
                receive::Outcome::NoTube => Err(end.unknown()),
                receive::Outcome::Other(is) => Err(end.other(is)),
                receive::Outcome::Removed => Err(end.removed()),
                receive::Outcome::Lost => Err(end.lost("a receiver")),
                receive::Outcome::Newer(format) => Err(end.session.site.newer(format)),
                receive::Outcome::Refused(why) => Err(RemoteError::Refused(why)),
            },
            // The driver comes back when its user is wanted.
            receive::Step::Call(_) | receive::Step::Wait { .. } => Ok(true),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let Some(machine) = self.machine.take() else { return };
        // With what it was given last it has finished, unless it panics.
        let from = if std::thread::panicking() && !self.panicking { self.at.0 } else { self.at.1 };
        let front = self.queue.pop_front().map(|(page, records)| (page, records[from..].to_vec()));
        let mut rest = front.filter(|(_, records)| !records.is_empty()).or_else(|| self.queue.pop_front());
        // What has come by an answer that was late, and was given to nobody, is put back whole.
        let (mut seen, mut asked) = (matches!(machine.step(), receive::Step::Got(_)), false);
        self.end.leaves(machine, move |machine| {
            match machine.step() {
                receive::Step::Got(got) if !seen => (rest, seen) = (got.pages.into_iter().next(), true),
                receive::Step::Done(_) if machine.has_left() => return Leaving::Gone,
                receive::Step::Done(_) if asked => {
                    machine.leave(None);
                    return Leaving::Refused;
                }
                _ => {}
            }
            machine.leave(rest.take());
            asked = true;
            Leaving::Goes
        });
    }
}
