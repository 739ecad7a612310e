//! Sending into a tube: pages of records, each there once, in the order of the sender.
//!
//! ```text
//!   look ---> open ---> ready --- send ---> put --- done ---------------> ready
//!                         |                 | |<--- the tail has moved --+
//!                         |                 | +---- the tube is full ---> wait for what is freed
//!                         +--- close -----> leave -------------------> end (the same, with the tail that has moved)
//!                                             +-- the engine is full: abandon ---> end
//!   open, abandon --- no answer, close ---> shut --- never done ---> end; done ---> leave
//!                                             +-- the engine is full: asked again later
//! ```
//!
//! | a sender dies, or its lease ends | |
//! |---|---|
//! | before its transaction | its pages are not there; nobody was told that they are |
//! | after it | they are there, whole and once |
//! | at any time | receivers see the end of the tube when its lease has ended, if no other sender is there, and that one has died |
//!
//! - **S1** A transaction compares the revision of `tail` and writes it: so it is done once, however often it is asked for, and so is each page.
//! - **S2** It writes in `send/ID` how many there were. One that finds another tail reads there whether its own was done: nobody else writes
//!   that key, and it goes with the lease, or with its own leave, alone.
//!   So what is asked for again after a lost answer is the same.
//! - **S3** It compares that the pages which are `pages` before its last are acknowledged: no more than that are in the tube.
//! - **S4** One that is told why it cannot go on has its key still, and [`Sender::close`] leaves then, too: no key outlives the handle under a lease that
//!   goes on. One whose opening was not answered writes the tail as it is: then that was done, or never is.
//! - **S5** An engine without room does not count it as closed, but deletes: its key goes, and receivers are told of a death. What was never answered may
//!   come after that: it has not left until the tail has moved.
//! - **S6** One that is given up before its user was done leaves in the same way, and is not counted as closed.
//!
//! A tube is for few senders: of several that send at once one goes on, and the others ask again with the tail that they were told.

use crate::engine::{Change, Compare, EngineError, Keys, Op, Reply, Revision, Test, Txn, TxnReply};
use crate::grant::Attempt;
use crate::keys::{self, Object, Sends, Space, Tail};
use crate::page::MOST_PAGES;
use crate::tube_end::{Next, TubeEnd};

/// Why a sender is at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has left.
    Closed,
    /// There is no such tube.
    NoTube,
    /// It is another kind of object.
    Other(Object),
    /// It is sealed. What was to be sent last was not.
    Sealed,
    /// The tube was removed, and all that is in it.
    Removed,
    /// The lease has ended.
    Lost,
    /// What stands there is of a newer format.
    Newer(u32),
    /// The engine refused.
    Refused(String),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Have the engine do this, and tell what came of it.
    Call(Txn),
    /// The tube is full: wait for news of [`TubeEnd::watched`] from this revision on.
    Wait {
        /// The first revision that is news.
        from: Revision,
    },
    /// All that was to be sent is there.
    Ready,
    /// It is over.
    Done(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    most: u64,
    object: Revision,
    tail: (Tail, Revision),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Look,
    Open,
    Ready,
    Put,
    Full(Revision),
    /// It is not known whether it was opened: sees to it that it is not from now on.
    Shut,
    Leave,
    /// Deletes its key alone.
    Abandon(Outcome),
    Done(Outcome),
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sender {
    space: Space,
    tube: String,
    by: Attempt,
    known: Option<Known>,
    /// How many times it has sent, the one under way with it.
    number: u64,
    pages: Vec<Vec<u8>>,
    /// How many of them are under way.
    part: usize,
    /// An answer was lost.
    unsure: bool,
    /// What an engine says that has no room: it is looked whether the last was done.
    full: Option<String>,
    /// Its key was there.
    opened: bool,
    closing: bool,
    /// Its user was not done.
    dies: bool,
    at: At,
}

fn is(key: String, is: Test) -> Compare {
    Compare { keys: Keys::One(key), is }
}

impl TubeEnd for Sender {
    fn next(&self) -> Next {
        match self.step() {
            Step::Call(txn) => Next::Call(txn),
            Step::Wait { from } => Next::News(from),
            Step::Ready | Step::Done(_) => Next::User,
        }
    }

    fn watched(&self) -> Vec<Keys> {
        vec![Keys::One(self.space.freed(&self.tube)), Keys::One(self.space.size(&self.tube))]
    }

    fn answered(&mut self, answer: &Result<TxnReply, EngineError>) {
        match answer {
            Ok(reply) => self.done(reply),
            // Each can be asked for again.
            Err(EngineError::Unknown(_)) => self.unsure = true,
            Err(EngineError::LeaseGone) => self.at = At::Done(Outcome::Lost),
            Err(EngineError::Refused(why) | EngineError::Full(why)) if matches!(self.at, At::Abandon(_)) => {
                self.at = At::Done(Outcome::Refused(why.clone()));
            }
            Err(EngineError::Refused(why)) => self.ends(Outcome::Refused(why.clone())),
            Err(EngineError::Full(why)) => self.full = Some(why.clone()),
        }
    }

    fn news(&mut self, changes: &[Change]) {
        if matches!(self.at, At::Full(read) if changes.iter().any(|change| change.revision() > read)) {
            self.again();
        }
    }

    fn missed_some(&mut self) {
        if matches!(self.at, At::Full(_)) {
            self.again();
        }
    }
}

impl Sender {
    /// A machine that begins. Nobody else has the name of this attempt.
    pub fn new(space: Space, by: Attempt, tube: String) -> Sender {
        let (known, pages, part, unsure, full) = (None, vec![], 0, false, None);
        let (opened, closing, dies, at) = (false, false, false, At::Look);
        Sender { space, tube, by, known, number: 0, pages, part, unsure, full, opened, closing, dies, at }
    }

    /// Sends pages at a time when it is ready: together as many as the tube has room for, and at most [`MOST_PAGES`].
    pub fn send(&mut self, pages: Vec<Vec<u8>>) {
        if self.at == At::Ready && !pages.is_empty() {
            self.pages = pages;
            self.begin();
        }
    }

    /// How many pages of those that it was given last are not there, as far as is known.
    pub fn left(&self) -> usize {
        self.pages.len()
    }

    /// Whether some of what is [`left`](Sender::left) may be there, or come there yet: an answer was lost. So it is also at a full tube.
    pub fn is_unsure(&self) -> bool {
        self.unsure && !self.pages.is_empty()
    }

    /// What does not fit into a full tube is not to be sent any more. What is [unsure](Sender::is_unsure) of it may come there all the same.
    pub fn take_back(&mut self) {
        if matches!(self.at, At::Full(_)) {
            (self.pages, self.part, self.unsure) = (vec![], 0, false);
            self.at = if self.closing { At::Leave } else { At::Ready };
        }
    }

    /// Leaves the tube, when what is under way is there; also after an end of which the engine does not know (S4).
    pub fn close(&mut self) {
        self.closing = true;
        match &self.at {
            At::Ready => self.at = At::Leave,
            At::Look => self.at = At::Done(Outcome::Closed),
            At::Open if self.unsure || self.full.is_some() => self.at = At::Shut,
            At::Open => self.at = At::Done(Outcome::Closed),
            // If that was refused, it is asked for again.
            At::Done(outcome) => self.ends(outcome.clone()),
            At::Put | At::Full(_) | At::Shut | At::Leave | At::Abandon(_) => {}
        }
    }

    /// The same, where its user was not done: receivers are told that a sender died.
    pub fn abandon(&mut self) {
        self.dies = true;
        self.close();
    }

    /// Whether it is at its end, and its key is not there, or goes with the lease.
    pub fn has_left(&self) -> bool {
        match &self.at {
            At::Done(Outcome::Sealed | Outcome::Refused(_)) => !self.opened && !self.unsure,
            At::Done(_) => true,
            _ => false,
        }
    }

    /// It is at its end: when nobody wants it any more, it leaves before.
    fn ends(&mut self, outcome: Outcome) {
        let leaving = matches!(self.at, At::Shut | At::Leave);
        let stays = matches!(outcome, Outcome::Sealed | Outcome::Refused(_));
        self.at = match self.closing && !leaving && stays {
            true if self.opened => At::Leave,
            true if self.unsure => At::Shut,
            _ => At::Done(outcome),
        };
        if self.at == At::Leave {
            (self.pages, self.part) = (vec![], 0);
        }
    }

    fn reads(&self) -> Vec<Op> {
        let own = self.space.sender(&self.tube, &self.by.id);
        let all = [self.space.format(), self.space.size(&self.tube), self.space.tail(&self.tube), own];
        all.into_iter().map(|key| Op::Get(Keys::One(key))).collect()
    }

    /// What to do next. The same, until the machine is told something.
    pub fn step(&self) -> Step {
        match (&self.at, &self.known) {
            (At::Open | At::Put | At::Shut | At::Leave, _) if self.full.is_some() => Step::Call(Txn::of(self.reads())),
            (At::Ready, _) => Step::Ready,
            (At::Full(read), _) => Step::Wait { from: read + 1 },
            (At::Done(outcome), _) => Step::Done(outcome.clone()),
            (At::Leave, Some(known)) => Step::Call(self.leaves(known)),
            (At::Shut, Some(known)) => Step::Call(self.shuts(known)),
            (At::Abandon(_), _) => {
                Step::Call(Txn::of(vec![Op::Delete(Keys::One(self.space.sender(&self.tube, &self.by.id)))]))
            }
            (At::Open | At::Put, Some(known)) => Step::Call(self.writes(known)),
            (At::Look | At::Open | At::Put | At::Shut | At::Leave, _) => Step::Call(Txn::of(self.reads())),
        }
    }

    /// The tail as it is known, and as it is: what compares the revision that it had is not done later.
    fn shuts(&self, known: &Known) -> Txn {
        let (key, (tail, at)) = (self.space.tail(&self.tube), known.tail);
        let put = Op::Put { key: key.clone(), value: keys::write(&tail), lease: None };
        Txn { when: vec![is(key, Test::Modified(at))], then: vec![put], otherwise: self.reads() }
    }

    fn writes(&self, known: &Known) -> Txn {
        let (space, tube, (tail, at)) = (&self.space, self.tube.as_str(), known.tail);
        let mut when =
            vec![is(space.tail(tube), Test::Modified(at)), is(space.size(tube), Test::Modified(known.object))];
        let behind = tail.pages + self.part as u64;
        if let Some(acknowledged) = behind.checked_sub(known.most).filter(|pages| *pages > 0) {
            when.push(Compare { keys: space.pages(tube, 0, acknowledged), is: Test::Absent });
        }
        let page =
            |(at, value): (u64, &Vec<u8>)| Op::Put { key: space.page(tube, at), value: value.clone(), lease: None };
        let mut then: Vec<Op> = (tail.pages..).zip(&self.pages[..self.part]).map(page).collect();
        let tail = Tail { pages: behind, opened: tail.opened + u64::from(self.at == At::Open), ..tail };
        then.push(Op::Put { key: space.tail(tube), value: keys::write(&tail), lease: None });
        let value = keys::write(&Sends { number: self.number, who: self.by.who.clone() });
        then.push(Op::Put { key: space.sender(tube, &self.by.id), value, lease: Some(self.by.lease) });
        Txn { when, then, otherwise: self.reads() }
    }

    fn leaves(&self, known: &Known) -> Txn {
        let (space, tube, (tail, at)) = (&self.space, self.tube.as_str(), known.tail);
        let own = space.sender(tube, &self.by.id);
        let tail = Tail { closed: tail.closed + u64::from(!self.dies), ..tail };
        let when = vec![is(space.tail(tube), Test::Modified(at))];
        let put = Op::Put { key: space.tail(tube), value: keys::write(&tail), lease: None };
        Txn { when, then: vec![put, Op::Delete(Keys::One(own))], otherwise: self.reads() }
    }

    fn done(&mut self, reply: &TxnReply) {
        match &self.at {
            At::Open | At::Put if reply.held && !reply.replies.iter().any(|reply| matches!(reply, Reply::Found(_))) => {
                let (sent, opens) = (self.part as u64, u64::from(self.at == At::Open));
                if let Some(known) = &mut self.known {
                    let tail = known.tail.0;
                    let tail = Tail { pages: tail.pages + sent, opened: tail.opened + opens, ..tail };
                    known.tail = (tail, reply.revision);
                }
                self.is_there();
            }
            At::Shut | At::Leave if reply.held && self.full.is_none() && self.known.is_some() => {
                self.at = At::Done(Outcome::Closed);
            }
            At::Abandon(outcome) => (self.opened, self.at) = (false, At::Done(outcome.clone())),
            At::Look | At::Open | At::Put | At::Shut | At::Leave => self.read(reply),
            At::Ready | At::Full(_) | At::Done(_) => {}
        }
    }

    /// What was to be sent is there.
    fn is_there(&mut self) {
        self.pages.drain(..std::mem::take(&mut self.part));
        (self.opened, self.unsure) = (true, false);
        match self.pages.is_empty() {
            false => self.begin(),
            true => self.at = if self.closing { At::Leave } else { At::Ready },
        }
    }

    /// The next of what is to be sent.
    fn begin(&mut self) {
        self.part = self.largest();
        self.number += 1;
        self.at = At::Put;
    }

    /// The same, where there may be room by now.
    fn again(&mut self) {
        if !self.unsure {
            self.part = self.largest();
        }
        self.at = At::Put;
    }

    /// More than the tube has room for would never be.
    fn largest(&self) -> usize {
        let most = self.known.map_or(1, |known| usize::try_from(known.most).unwrap_or(MOST_PAGES));
        self.pages.len().min(most).min(MOST_PAGES)
    }

    fn read(&mut self, reply: &TxnReply) {
        let [Reply::Found(format), Reply::Found(size), Reply::Found(tail), Reply::Found(own)] =
            reply.replies.as_slice()
        else {
            return;
        };
        if let Some(newer) = keys::newer(format) {
            self.at = At::Done(Outcome::Newer(newer));
            return;
        }
        let object = size.first().and_then(|entry| Some((keys::read::<Object>(&entry.value)?, entry.modified)));
        let tail = tail.first().and_then(|entry| Some((keys::read::<Tail>(&entry.value)?, entry.modified)));
        let own = own.first().and_then(|entry| keys::read::<Sends>(&entry.value));
        let opened = self.known.is_some();
        let (object, most, sealed, tail) = match (object, tail) {
            (Some((Object::Tube { pages, sealed, .. }, object)), Some(tail)) => (object, pages, sealed, tail),
            (Some((object @ (Object::Pool { .. } | Object::Mutex { .. } | Object::Sem { .. }), _)), _) if !opened => {
                self.at = At::Done(Outcome::Other(object));
                return;
            }
            _ => {
                self.at = At::Done(if opened { Outcome::Removed } else { Outcome::NoTube });
                return;
            }
        };
        let before = self.known.replace(Known { most, object, tail });
        let full = self.full.take();
        if self.at == At::Shut {
            self.opened = own.is_some();
            // What compares the tail that was known may come, if that is the tail still: a full engine has written nothing against it.
            self.unsure &= full.is_some() && before.is_some_and(|before| before.tail.1 == tail.1);
            self.at = match full {
                _ if self.opened => At::Leave,
                Some(why) if self.unsure => At::Done(Outcome::Refused(why)),
                _ => At::Done(Outcome::Closed),
            };
            return;
        }
        if self.at == At::Leave {
            // What it found gone, and was not told of, it may have left itself.
            let gone = if self.unsure || full.is_some() { Outcome::Closed } else { Outcome::Lost };
            self.at = match (own, full) {
                (Some(_), Some(why)) => At::Abandon(Outcome::Refused(why)),
                (Some(_), None) => At::Leave,
                (None, _) => At::Done(gone),
            };
            return;
        }
        let was_done = self.at != At::Look && own.as_ref().is_some_and(|own| own.number == self.number);
        if was_done {
            self.is_there();
        } else if let Some(why) = full {
            self.ends(Outcome::Refused(why));
        } else if sealed {
            self.ends(Outcome::Sealed);
        } else if self.at == At::Put && own.is_none() {
            // It was there since it opened, and goes with the lease.
            self.at = At::Done(Outcome::Lost);
        } else if self.at == At::Look {
            self.at = At::Open;
        } else if self.at == At::Put && before.is_some_and(|before| (before.tail.1, before.object) == (tail.1, object))
        {
            // What fits goes without the rest. Where one may still come that was never answered, it is as large as that.
            if self.part > 1 && !self.unsure {
                self.part /= 2;
            } else {
                self.at = At::Full(reply.revision);
            }
        }
    }
}
