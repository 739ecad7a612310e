//! Receiving from a tube: pages are claimed, handed on, and acknowledged.
//!
//! ```text
//!   look ---> claim, acknowledging the last one --- done ----------------> got ---> acknowledged by its user ---+
//!    ^ |        |--- another was faster: with what was read ---> (as look)                                      |
//!    | |        |--- no answer, and it was done ---> read -------------> got                                    |
//!    | +-- nothing to claim: acknowledge ---> wait for news                                                     |
//!    | +-- no page, no sender, and one was there ---> say that its death is told ---> the end                   |
//!    +----------------------------------------------------------------------------------------------------------+
//! ```
//!
//! | a receiver dies, stops, or its lease ends | the pages that it has claimed |
//! |---|---|
//! | before it acknowledges | are claimed by the next receiver that looks, before all that come later, and flagged |
//! | after it | are gone |
//!
//! - **T1** A claim compares the revision of `head` and writes it: claims come one after the other, and what one does not find claimed is
//!   nobody's until the next. A page has one receiver whose deadline has not passed.
//! - **T2** A page below `head` that no claim covers had a receiver that has lost it: it comes first, flagged, since that one may have seen it.
//! - **T3** What is acknowledged goes in the transaction of the next claim, or in one of its own; both compare that the claim is there.
//! - **T4** The end is told when there is no page at all, claimed or not, and no sender, in one read, to a receiver that has had a page or a sender:
//!   one that comes to a tube that others have emptied waits for the next sender.
//! - **T5** A sender's death is told to all receivers that were there when the first of them is told, and to no later one: `tail` counts the deaths
//!   that were told, and a receiver goes by what it says when it comes. It is told before the end is.
//!
//! A claim that was never answered is asked for again, as it was: it is done once (T1), and names the receiver and its number.

use crate::engine::{Change, Compare, EngineError, Entry, Keys, Op, Reply, Revision, Test, Txn, TxnReply};
use crate::grant::Attempt;
use crate::keys::{self, Claim, Head, Object, Space, Tail};
use crate::page;
use crate::tube_end::{Next, TubeEnd};
use std::collections::BTreeSet;

/// Why a receiver is at its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All was received, and nobody sends.
    End {
        /// A sender has died, or lost its lease, before it was done.
        died: bool,
    },
    /// It has left, and what it has not had is there for others.
    Left,
    /// There is no such tube.
    NoTube,
    /// It is another kind of object.
    Other(Object),
    /// The tube was removed, and all that was in it.
    Removed,
    /// The lease has ended: what was not acknowledged comes to another.
    Lost,
    /// What stands there is of a newer format.
    Newer(u32),
    /// The engine refused.
    Refused(String),
}

/// Pages that were claimed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Got {
    /// Their numbers and records, in the order in which they were sent.
    pub pages: Vec<(u64, Vec<u8>)>,
    /// Another had them before, and may have seen them.
    pub again: bool,
    /// The fencing token: larger with each claim of a page.
    pub token: Revision,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Have the engine do this, and tell what came of it.
    Call(Txn),
    /// Wait for news of [`TubeEnd::watched`] from this revision on.
    Wait {
        /// The first revision that is news.
        from: Revision,
    },
    /// These have come. Say [`Receiver::acknowledge`] when they need not come again.
    Got(Got),
    /// It is over.
    Done(Outcome),
}

/// The pages from one number to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Span {
    from: u64,
    to: u64,
    again: bool,
}

/// What is known of the tube, at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    revision: Revision,
    head: (u64, Revision),
    tail: (Tail, Revision),
    sealed: bool,
    /// The most pages of a claim.
    most: u64,
    senders: bool,
    pages: BTreeSet<u64>,
    claims: Vec<(u64, Claim, Revision)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Look,
    Claim(Span),
    /// It was done without an answer.
    Read(Span, Revision),
    Got(Got),
    Acknowledge,
    /// Says that a sender's death is told.
    Tell,
    /// It leaves; of this page some records are still to come, and all behind it.
    Leave(Option<(u64, Vec<u8>)>),
    /// Sees to it that a claim which was not answered is not done from now on, and whether it was.
    Shut(String),
    /// It leaves an engine that has no room for more: all that it has claimed comes again.
    Abandon(String),
    Wait(Revision),
    Done(Outcome),
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receiver {
    space: Space,
    tube: String,
    by: Attempt,
    known: Option<Known>,
    /// The number of its last claim.
    number: u64,
    /// What it has claimed, and the token.
    own: Option<(Span, Revision)>,
    /// It goes on when no sender is there: one may come.
    follows: bool,
    /// How `tail` was when it came, and whether a sender or a page was there since.
    came: Option<(Tail, bool)>,
    /// What an engine says that has no room: it is looked whether the last was done.
    full: Option<String>,
    /// A claim was not answered.
    unsure: bool,
    /// What it acknowledged last was not there any more: it had done that before, or the lease has ended.
    doubtful: bool,
    /// It was to leave, or to give up what it has claimed.
    left: bool,
    at: At,
}

fn is(key: String, is: Test) -> Compare {
    Compare { keys: Keys::One(key), is }
}

impl TubeEnd for Receiver {
    fn next(&self) -> Next {
        match self.step() {
            Step::Call(txn) => Next::Call(txn),
            Step::Wait { from } => Next::News(from),
            Step::Got(_) | Step::Done(_) => Next::User,
        }
    }

    fn watched(&self) -> Vec<Keys> {
        let (space, tube) = (&self.space, self.tube.as_str());
        vec![Keys::One(space.tail(tube)), Keys::One(space.size(tube)), space.claims(tube), space.senders(tube)]
    }

    fn answered(&mut self, answer: &Result<TxnReply, EngineError>) {
        match answer {
            Ok(reply) => self.done(reply),
            // Each can be asked for again.
            Err(EngineError::Unknown(_)) => self.unsure |= matches!(self.at, At::Claim(_)),
            Err(EngineError::LeaseGone) => self.at = At::Done(Outcome::Lost),
            Err(EngineError::Refused(why)) => {
                // What was claimed and not read was given to nobody: it comes again.
                self.left |= matches!(self.at, At::Read(..));
                self.at = At::Done(Outcome::Refused(why.clone()));
            }
            Err(EngineError::Full(why)) if matches!(self.at, At::Abandon(_)) => {
                self.at = At::Done(Outcome::Refused(why.clone()));
            }
            Err(EngineError::Full(why)) => self.full = Some(why.clone()),
        }
    }

    fn news(&mut self, changes: &[Change]) {
        // What is no newer than what was read is a watch's that began before.
        let At::Wait(read) = self.at else { return };
        let changes: Vec<&Change> = changes.iter().filter(|change| change.revision() > read).collect();
        if changes.is_empty() {
            return;
        }
        self.at = At::Look;
        let (Some(known), tail) = (&mut self.known, self.space.tail(&self.tube)) else { return };
        // Pages that came since are claimed without another look.
        let tails = changes.iter().map(|change| match change {
            Change::Put(entry) if entry.key == tail => Some((keys::read::<Tail>(&entry.value)?, entry.modified)),
            _ => None,
        });
        if let Some(tail) = tails.collect::<Option<Vec<_>>>().and_then(|tails| tails.last().copied())
            && tail.0.pages > known.tail.0.pages
        {
            known.tail = tail;
            self.choose();
        }
    }

    fn missed_some(&mut self) {
        if matches!(self.at, At::Wait(_)) {
            self.at = At::Look;
        }
    }
}

impl Receiver {
    /// A machine that begins. Nobody else has the name of this attempt.
    /// One that follows goes on when no sender is there, until the tube is sealed.
    pub fn new(space: Space, by: Attempt, tube: String, follows: bool) -> Receiver {
        let (known, number, own, came, full) = (None, 0, None, None, None);
        let (unsure, doubtful, left, at) = (false, false, false, At::Look);
        Receiver { space, tube, by, known, number, own, follows, came, full, unsure, doubtful, left, at }
    }

    /// Goes on under another lease where it has nothing under the last one, which has ended: nothing of what it was given comes to another. Answers
    /// whether it does.
    pub fn moves(&mut self, by: Attempt) -> bool {
        let stays = matches!(self.at, At::Leave(_) | At::Shut(_) | At::Abandon(_));
        let ended = matches!(&self.at, At::Done(outcome) if *outcome != Outcome::Lost);
        if stays || ended || self.has_claimed() {
            return false;
        }
        // A claim that was not answered goes with the last lease.
        (self.by, self.unsure, self.at) = (by, false, At::Look);
        true
    }

    /// Whether it may have something that is not acknowledged.
    pub fn has_claimed(&self) -> bool {
        self.own.is_some() || self.doubtful
    }

    /// What came need not come again; the next is wanted.
    pub fn acknowledge(&mut self) {
        if matches!(self.at, At::Got(_)) {
            self.choose();
        }
    }

    /// Leaves the tube at a time when pages have come, or it waits, or the engine has refused: a claim that stays under a lease that goes on would keep
    /// its pages from all. What came need not come again, but for all from this page on, which then has these records. They come flagged.
    pub fn leave(&mut self, rest: Option<(u64, Vec<u8>)>) {
        self.at = match &self.at {
            At::Done(Outcome::Refused(why)) if self.unsure => At::Shut(why.clone()),
            // It was refused with what was still to come, which nobody knows any more.
            At::Done(Outcome::Refused(why)) if self.left && self.own.is_some() => At::Abandon(why.clone()),
            At::Got(_) | At::Wait(_) | At::Done(Outcome::Refused(_)) if self.own.is_some() => At::Leave(rest),
            At::Got(_) | At::Wait(_) => At::Done(Outcome::Left),
            _ => return,
        };
        self.left = true;
    }

    /// Whether it is at its end, and nothing of it is there that it could give up.
    pub fn has_left(&self) -> bool {
        match &self.at {
            At::Done(Outcome::Refused(_)) => self.own.is_none() && !self.unsure,
            At::Done(_) => true,
            _ => false,
        }
    }

    fn reads(&self) -> Vec<Op> {
        let (space, tube) = (&self.space, self.tube.as_str());
        let all = [space.format(), space.size(tube), space.tail(tube), space.head(tube)];
        let mut reads: Vec<Op> = all.into_iter().map(|key| Op::Get(Keys::One(key))).collect();
        reads.push(Op::Get(space.claims(tube)));
        reads.push(Op::Names(space.senders(tube)));
        reads.push(Op::Names(space.pages(tube, 0, u64::MAX)));
        reads
    }

    /// What to do next. The same, until the machine is told something.
    pub fn step(&self) -> Step {
        let (space, tube) = (&self.space, self.tube.as_str());
        match &self.at {
            At::Claim(_) | At::Acknowledge | At::Tell | At::Shut(_) | At::Leave(_) if self.full.is_some() => {
                Step::Call(Txn::of(self.reads()))
            }
            At::Look => Step::Call(Txn::of(self.reads())),
            At::Claim(span) => Step::Call(self.claims(*span)),
            At::Read(span, token) => Step::Call(Txn {
                when: vec![is(space.claim(tube, span.from), Test::Modified(*token))],
                then: vec![Op::Get(space.pages(tube, span.from, span.to))],
                otherwise: vec![],
            }),
            At::Got(got) => Step::Got(got.clone()),
            At::Acknowledge => {
                let (when, mut then) = self.acknowledges();
                then.append(&mut self.reads());
                Step::Call(Txn { when, then, otherwise: self.reads() })
            }
            At::Tell => Step::Call(self.tells()),
            At::Leave(rest) => Step::Call(self.leaves(rest.as_ref())),
            At::Shut(_) => Step::Call(self.shuts()),
            At::Abandon(_) => Step::Call(self.abandons()),
            At::Wait(read) => Step::Wait { from: read + 1 },
            At::Done(outcome) => Step::Done(outcome.clone()),
        }
    }

    /// What deletes the pages that it has claimed.
    fn acknowledges(&self) -> (Vec<Compare>, Vec<Op>) {
        let Some((span, token)) = self.own else { return (vec![], vec![]) };
        let (space, tube) = (&self.space, self.tube.as_str());
        let claim = space.claim(tube, span.from);
        let then = vec![
            Op::Delete(space.pages(tube, span.from, span.to)),
            Op::Delete(Keys::One(claim.clone())),
            Op::Put { key: space.freed(tube), value: vec![], lease: None },
        ];
        (vec![is(claim, Test::Modified(token))], then)
    }

    /// The head as it is known, and as it is: what compares the revision that it had is not done later.
    fn shuts(&self) -> Txn {
        let (key, (head, at)) = (self.space.head(&self.tube), self.known.as_ref().map_or((0, 0), |known| known.head));
        let put = Op::Put { key: key.clone(), value: keys::write(&Head { pages: head }), lease: None };
        let then = [vec![put], self.reads()].concat();
        Txn { when: vec![is(key, Test::Modified(at))], then, otherwise: self.reads() }
    }

    /// Deletes the claim alone.
    fn abandons(&self) -> Txn {
        let Some((span, token)) = self.own else { return Txn::default() };
        let claim = self.space.claim(&self.tube, span.from);
        let then = vec![Op::Delete(Keys::One(claim.clone()))];
        Txn { when: vec![is(claim, Test::Modified(token))], then, otherwise: vec![] }
    }

    fn leaves(&self, rest: Option<&(u64, Vec<u8>)>) -> Txn {
        let (when, mut then) = self.acknowledges();
        if let (Some((span, _)), Some((page, value))) = (self.own, rest) {
            then[0] = Op::Delete(self.space.pages(&self.tube, span.from, *page));
            then.push(Op::Put { key: self.space.page(&self.tube, *page), value: value.clone(), lease: None });
        }
        Txn { when, then, otherwise: vec![] }
    }

    fn tells(&self) -> Txn {
        let Some(Known { tail: (tail, at), .. }) = self.known else { return Txn::of(self.reads()) };
        let (key, value) = (self.space.tail(&self.tube), Tail { told: tail.deaths(), ..tail });
        let put = Op::Put { key: key.clone(), value: keys::write(&value), lease: None };
        Txn { when: vec![is(key, Test::Modified(at))], then: vec![put], otherwise: self.reads() }
    }

    fn claims(&self, span: Span) -> Txn {
        let (space, tube) = (&self.space, self.tube.as_str());
        let (head, at) = self.known.as_ref().map_or((0, 0), |known| known.head);
        let (mut when, mut then) = self.acknowledges();
        when.push(is(space.head(tube), Test::Modified(at)));
        let value = keys::write(&Head { pages: head.max(span.to) });
        then.push(Op::Put { key: space.head(tube), value, lease: None });
        let value = keys::write(&Claim { to: span.to, id: self.by.id.clone(), number: self.number });
        then.push(Op::Put { key: space.claim(tube, span.from), value, lease: Some(self.by.lease) });
        then.push(Op::Get(space.pages(tube, span.from, span.to)));
        // All of it: a claim of one that died meanwhile comes before what is new.
        then.append(&mut self.reads());
        Txn { when, then, otherwise: self.reads() }
    }

    fn done(&mut self, reply: &TxnReply) {
        if let Some(why) = self.full.take() {
            return self.was_done(reply, why);
        }
        match self.at.clone() {
            At::Look => self.look(&reply.replies, reply.revision),
            At::Claim(span) if reply.held => self.claimed(span, reply),
            At::Claim(span) => {
                self.unsure = false;
                let number = self.number;
                if self.reads_all(&reply.replies, reply.revision) {
                    self.refused(span, number);
                }
            }
            At::Read(span, token) if reply.held => {
                self.own = Some((span, token));
                self.at = At::Got(got(span, token, reply.replies.first()));
            }
            At::Read(..) => self.at = At::Done(Outcome::Lost),
            At::Acknowledge => {
                // It was done before, if it was not now; or the lease has ended, which the next claim is told.
                let reads = if reply.held { reply.replies.get(3..) } else { reply.replies.get(..) };
                (self.own, self.doubtful) = (None, !reply.held);
                self.look(reads.unwrap_or_default(), reply.revision);
            }
            At::Tell if reply.held => self.at = At::Done(Outcome::End { died: true }),
            At::Tell => self.look(&reply.replies, reply.revision),
            // What it did not find it has left before, or lost, and then all comes to others.
            At::Leave(_) => self.at = At::Done(Outcome::Left),
            At::Shut(why) => {
                let reads = if reply.held { reply.replies.get(1..) } else { reply.replies.get(..) };
                if self.reads_all(reads.unwrap_or_default(), reply.revision) {
                    self.shut(why, false);
                }
            }
            // A claim that may come still acknowledges the one that is deleted.
            At::Abandon(why) => {
                self.unsure &= !reply.held;
                (self.own, self.at) = (None, At::Done(Outcome::Refused(why)));
            }
            At::Got(_) | At::Wait(_) | At::Done(_) => {}
        }
    }

    /// Whether an engine without room did what it was asked.
    fn was_done(&mut self, reply: &TxnReply, why: String) {
        let before = self.known.as_ref().map(|known| known.head.1);
        if !self.reads_all(&reply.replies, reply.revision) {
            return;
        }
        let Some(known) = &self.known else { return };
        let number = self.number;
        let now = known.claims.iter().find(|(_, claim, _)| claim.id == self.by.id && claim.number == number);
        let last = self.own.filter(|own| known.has(*own));
        match (&self.at, now) {
            (At::Claim(span), Some((_, _, token))) => {
                let (span, token) = (*span, *token);
                (self.own, self.at) = (Some((span, token)), At::Read(span, token));
            }
            (At::Acknowledge, _) if last.is_none() => {
                (self.own, self.doubtful) = (None, true);
                self.choose();
            }
            (At::Tell, _) => {
                self.choose();
                if self.at == At::Tell {
                    // The next one is told, too.
                    self.at = At::Done(Outcome::End { died: true });
                }
            }
            (At::Leave(_), _) if last.is_none() => self.at = At::Done(Outcome::Left),
            // A claim that compares the head which was known may come, if that is the head still: nothing was written against it.
            (At::Shut(why), _) => {
                let (why, may_come) = (why.clone(), before == Some(known.head.1));
                self.shut(why, may_come);
            }
            (At::Leave(_), _) => self.at = At::Abandon(why),
            _ => self.at = At::Done(Outcome::Refused(why)),
        }
    }

    /// It is read what it has; a claim `may_come` still.
    fn shut(&mut self, why: String, may_come: bool) {
        let Some(known) = &self.known else { return };
        self.unsure &= may_come;
        let mut claims = known.claims.iter().filter(|(_, claim, _)| claim.id == self.by.id);
        // All of it comes again that nobody was given; with what was before it its user has finished.
        self.at = match claims.next() {
            Some((from, claim, token)) => {
                let of_the_last = claim.number == self.number;
                self.own = Some((Span { from: *from, to: claim.to, again: true }, *token));
                if of_the_last || self.unsure { At::Abandon(why) } else { At::Leave(None) }
            }
            None => {
                self.own = None;
                At::Done(Outcome::Refused(why))
            }
        };
    }

    fn claimed(&mut self, span: Span, reply: &TxnReply) {
        let (token, own) = (reply.revision, if self.own.is_some() { 3 } else { 0 });
        let Some([_, _, pages, reads @ ..]) = reply.replies.get(own..) else { return };
        if self.reads_all(reads, token) {
            (self.unsure, self.doubtful) = (false, false);
            self.own = Some((span, token));
            self.at = At::Got(got(span, token, Some(pages)));
        }
    }

    /// Another was faster, or it was done before and not answered, or its last claim is gone.
    fn refused(&mut self, span: Span, number: u64) {
        let Some(known) = &self.known else { return };
        let now = known.claims.iter().find(|(_, claim, _)| claim.id == self.by.id && claim.number == number);
        match now {
            Some((_, _, token)) => (self.own, self.at) = (Some((span, *token)), At::Read(span, *token)),
            None if self.own.is_none_or(|own| known.has(own)) => self.choose(),
            None => self.at = At::Done(Outcome::Lost),
        }
    }

    fn look(&mut self, replies: &[Reply], revision: Revision) {
        if self.reads_all(replies, revision) {
            self.choose();
        }
    }

    /// Answers whether it goes on.
    fn reads_all(&mut self, replies: &[Reply], revision: Revision) -> bool {
        let was_there = self.known.is_some();
        let found: Option<Vec<&[Entry]>> = replies
            .iter()
            .map(|reply| if let Reply::Found(found) = reply { Some(found.as_slice()) } else { None })
            .collect();
        let Some([format, size, tail, head, claims, senders, pages]) = found.as_deref() else { return false };
        if let Some(newer) = keys::newer(format) {
            self.at = At::Done(Outcome::Newer(newer));
            return false;
        }
        let object = size.first().and_then(|entry| keys::read::<Object>(&entry.value));
        let tail = tail.first().and_then(|entry| Some((keys::read::<Tail>(&entry.value)?, entry.modified)));
        let head = head.first().and_then(|entry| Some((keys::read::<Head>(&entry.value)?.pages, entry.modified)));
        let (sealed, most, tail, head) = match (object, tail, head) {
            (Some(Object::Tube { sealed, record, .. }), Some(tail), Some(head)) => {
                (sealed, page::most(record), tail, head)
            }
            (Some(object), _, _) if !was_there && object.kind() != "tube" => {
                self.at = At::Done(Outcome::Other(object));
                return false;
            }
            _ => {
                self.at = At::Done(if was_there { Outcome::Removed } else { Outcome::NoTube });
                return false;
            }
        };
        let claim = |entry: &Entry| Some((keys::number(&entry.key)?, keys::read(&entry.value)?, entry.modified));
        let (base, some) = self.came.get_or_insert((tail.0, false));
        *some |= !senders.is_empty() || !pages.is_empty() || tail.0.opened > base.opened || base.deaths() > base.told;
        self.known = Some(Known {
            revision,
            head,
            tail,
            sealed,
            most,
            senders: !senders.is_empty(),
            pages: pages.iter().filter_map(|entry| keys::number(&entry.key)).collect(),
            claims: claims.iter().filter_map(claim).collect(),
        });
        true
    }

    /// What to do, as the tube is known.
    fn choose(&mut self) {
        let Some(known) = &self.known else { return };
        let (told, came) = self.came.map_or((0, false), |(tail, came)| (tail.told, came));
        if let Some(span) = known.orphans().or_else(|| known.fresh()) {
            self.number += 1;
            self.at = At::Claim(span);
        } else if self.own.is_some() {
            self.at = At::Acknowledge;
        } else if known.pages.is_empty() && !known.senders && (known.sealed || came && !self.follows) {
            // All that have not left have died: no sender is there.
            let tail = known.tail.0;
            self.at = match tail.deaths() {
                deaths if deaths > told && deaths > tail.told => At::Tell,
                deaths => At::Done(Outcome::End { died: deaths > told }),
            };
        } else {
            self.at = At::Wait(known.revision);
        }
    }
}

impl Known {
    /// Whether this claim is there.
    fn has(&self, (own, token): (Span, Revision)) -> bool {
        self.claims.iter().any(|(from, _, at)| (*from, *at) == (own.from, token))
    }

    /// Pages whose receiver has lost them.
    fn orphans(&self) -> Option<Span> {
        let covered = |page: u64| self.claims.iter().any(|(from, claim, _)| (*from..claim.to).contains(&page));
        let lost = |page: &u64| *page < self.head.0 && !covered(*page);
        let from = *self.pages.iter().find(|page| lost(page))?;
        let mut to = from;
        while to - from < self.most && self.pages.contains(&to) && lost(&to) {
            to += 1;
        }
        Some(Span { from, to, again: true })
    }

    /// Pages that nobody has had.
    fn fresh(&self) -> Option<Span> {
        let (from, to) = (self.head.0, self.tail.0.pages.min(self.head.0 + self.most));
        (from < to).then_some(Span { from, to, again: false })
    }
}

fn got(span: Span, token: Revision, pages: Option<&Reply>) -> Got {
    let page = |entry: &Entry| Some((keys::number(&entry.key)?, entry.value.clone()));
    let pages = if let Some(Reply::Found(found)) = pages { found.iter().filter_map(page).collect() } else { vec![] };
    Got { pages, again: span.again, token }
}
