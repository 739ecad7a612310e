//! Getting permits, mutexes and units of semaphores: of whichever object has one first, or several of one. What follows says it of pools.
//!
//! ```text
//!   glance, as one member has it --- free, nobody waits ---> take --> granted
//!              | otherwise                                    | refused: look
//!   take again, as it was given back -------------------------------> granted
//!              | refused
//!            look ---------- free, nobody waits ---------> take ------> granted
//!              |                                            |
//!              |<------------- refused, --nonblock ---------|
//!              |                                            | refused
//!              |--- not free ---> enqueue <-----------------+
//!                                   |
//!                 +-----------> queued --- a permit is mine ----------> granted
//!                 |                 |--- head, and free: give ----+
//!                 |                 |--- head stopped: help ------+
//!                 +-----------------------------------------------+
//!
//!   any of them --- no answer, or cancelled ---> settle ---> queued, granted, look anew, or the end
//! ```
//!
//! | step of a client | dies there | stops there |
//! |---|---|---|
//! | take again, look, take, enqueue under way | done or not: all goes with its lease | as long as its lease |
//! | queued | its tickets go with its lease | the head's permit is given to it by a helper; its lease ends |
//! | give, help under way | done or not: one transaction | the next helper does it |
//! | holds | its permit goes with its lease, and the head takes it. A unit that it was given is spent | loses the permit when its lease ends: see [`life`](crate::life) |
//!
//! - **I1** No permit has two holders whose deadlines have not passed: a grant compares that `held` is absent, or the giver's own.
//! - **I2** The permits of a grant are all held, or none: one transaction.
//! - **I3** Each grant of a permit has a larger token: the revision of its transaction.
//! - **I4** Each queue is served in the order of `created`: `take` compares that it is empty, all else serves its head, and a head stays head
//!   until it leaves, since later tickets have later revisions.
//! - **I5** A choice has one place in all its queues and gets one permit: all its tickets go in the transaction of the grant.
//! - **I6** A permit that is free while somebody waits is granted, if any client of the queue runs: the head takes it, or the client at
//!   place k does it for the head after k times [`HELP_AFTER`].
//! - **I7** The holder of a mutex knows whether the last one died, or was made to give it up: what it does then is its own.
//! - **I8** A unit of a semaphore is added once and given once, whatever answers are lost.
//! - **I9** A waiter that is told it has no units was given none, also if its lease has ended meanwhile: its ticket goes at one revision, and what
//!   else changed there says whether it was for a grant. Where nobody can tell it any more, it is told so.
//!
//! What a glance says may be old, so it leads to a `take` alone, which compares all that it stands on. All else is told after a look.
//! A queue is as long as its waiters: a client follows all changes of its pools.

use crate::engine::{Change, EngineError, LeaseId, Reply, Revision, Txn, TxnReply};
use crate::grant::{self, Attempt, MOST_AT_ONCE, MOST_POOLS, Permits, Waiter};
use crate::keys::{self, Object, Space};
use crate::view::{Given, Seen, View};
use std::time::Duration;

/// How long a permit may be free under a head that does not take it, before the next in line does that for it.
pub const HELP_AFTER: Duration = Duration::from_millis(100);

/// What the objects must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// Pools and mutexes: what is had of them is held, and given back.
    Permits,
    /// Pools alone.
    Pools,
    /// Mutexes alone: their holder hears of the last one's death.
    Mutexes,
    /// Semaphores: what is had of them is spent.
    Units,
    /// Any.
    Either,
}

impl Of {
    /// The kind of object that is wanted, or one of them.
    pub fn kind(self) -> &'static str {
        match self {
            Of::Permits | Of::Pools | Of::Either => "pool",
            Of::Mutexes => "mutex",
            Of::Units => "semaphore",
        }
    }

    /// Whether this is of that kind.
    pub fn has(self, object: &Object) -> bool {
        match object {
            Object::Pool { .. } => matches!(self, Of::Permits | Of::Pools | Of::Either),
            Object::Mutex { .. } => matches!(self, Of::Permits | Of::Mutexes | Of::Either),
            Object::Sem { .. } => matches!(self, Of::Units | Of::Either),
            Object::Tube { .. } => false,
        }
    }

    /// Whether units may be among it.
    fn units(self) -> bool {
        matches!(self, Of::Units | Of::Either)
    }
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// What these are.
    pub of: Of,
    /// One of these, in order of preference.
    pub pools: Vec<String>,
    /// So many permits of the only pool.
    pub n: u32,
    /// Whether to wait.
    pub wait: bool,
}

impl Want {
    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.check_as(str::to_owned)
    }

    /// The same, with names as their user writes them.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_as(&self, called: impl Fn(&str) -> String) -> Result<(), String> {
        for pool in &self.pools {
            keys::check("pool", pool)?;
        }
        if let Some(twice) = self.pools.iter().enumerate().find(|(at, pool)| self.pools[..*at].contains(pool)) {
            return Err(format!("pool `{}` is named twice", called(twice.1)));
        }
        match (self.pools.len(), self.n) {
            (0, _) => Err("no pool is named".into()),
            (some, _) if some > MOST_POOLS => {
                Err(format!("{some} pools are named; a choice on an engine has at most {MOST_POOLS}"))
            }
            (_, 0) => Err("0 permits are none".into()),
            (1, n) if n > MOST_AT_ONCE => Err(format!(
                "{n} permits at once are more than a transaction of the engine holds: at most {MOST_AT_ONCE}"
            )),
            (some, n) if some > 1 && n > 1 => Err(format!("{n} permits come from one pool, and {some} are named")),
            _ => Ok(()),
        }
    }
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The attempt that got it.
    pub id: String,
    /// Which of the pools.
    pub pool: usize,
    /// Which permits, in ascending order. None of a semaphore.
    pub indices: Vec<u32>,
    /// It is a mutex, and its last holder died, or was made to give it up: what the mutex guards may be half done.
    pub owner_died: bool,
    /// The fencing token: larger with each grant of a permit.
    pub token: Revision,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Granted.
    Granted(Grant),
    /// It could not be had without waiting.
    WouldBlock,
    /// It was cancelled, and has nothing.
    Cancelled,
    /// The place in the queue is gone: the lease has ended, or somebody deleted it. It has no units.
    Lost,
    /// The lease has ended, or the engine refused, before it was known whether it has got units: if so they are spent.
    Unsure,
    /// There is no such pool, by number.
    NoPool(usize),
    /// What is there, by number, is another kind of object.
    Other(usize, Object),
    /// The pool was removed while it was waited for.
    Removed(usize),
    /// The only pool has so many permits.
    TooMany(u32),
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
    /// Wait for news from this revision on, of all keys of each pool; if `help` is there, for so long, and then say [`Acquire::patience_is_over`].
    Wait {
        /// The first revision that is news.
        from: Revision,
        /// How long.
        help: Option<Duration>,
    },
    /// It is over.
    Done(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Again(Seen),
    Look,
    Take(Vec<Permits>),
    Enqueue,
    Queued(Queued),
    /// `end`: why it leaves its place. `full`: the engine is.
    Settle {
        end: Option<Outcome>,
        full: bool,
    },
    Done(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queued {
    since: Revision,
    /// What is known may be old.
    reread: bool,
    /// The head has had its time.
    help: bool,
    /// Nothing can be given to it any more, and whether something was is told by a watch alone (I9).
    ended: bool,
    /// What the engine was last asked.
    asked: Asked,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    /// To read all.
    Read,
    /// To give this of a pool to its own ticket.
    Own(usize, Given),
    /// To give permits of this pool to the head there.
    Help(usize),
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acquire {
    space: Space,
    by: Attempt,
    base: String,
    /// How many attempts ended without an answer.
    tries: u32,
    want: Want,
    views: Vec<View>,
    /// The revision of the format, as it was read.
    format: Revision,
    /// The first look is a glance; what is known is of one.
    glances: bool,
    glanced: bool,
    /// What was asked without an answer may come later: nothing keeps it out.
    unsure: bool,
    /// It may have left something.
    refused: bool,
    at: At,
}

impl Acquire {
    /// A machine that begins. `want` has been checked.
    pub fn new(space: Space, by: Attempt, want: Want) -> Acquire {
        let (base, views) = (by.id.clone(), vec![View::default(); want.pools.len()]);
        let (glances, glanced, unsure, refused) = (false, false, false, false);
        Acquire { space, by, base, tries: 0, want, views, format: 0, glances, glanced, unsure, refused, at: At::Look }
    }

    /// The same, which asks first what one member has, and if that is free takes it: one synced request, and none that asks a quorum.
    pub fn glancing(mut self) -> Acquire {
        self.glances = true;
        self
    }

    /// Whether what is to be done next may be a [glance](crate::engine::Engine::glance).
    pub fn glances(&self) -> bool {
        self.glances && self.at == At::Look
    }

    /// The same, which tries first for what its program gave back to the first of its pools, if it wants that.
    pub fn remembering(mut self, seen: Option<Seen>) -> Acquire {
        let fits =
            |seen: &Seen| self.want.of.has(&seen.object.what) && seen.given.indices().len() == self.want.n as usize;
        if let Some(seen) = seen.filter(fits) {
            (self.views[0].object, self.format) = (Some(seen.object), seen.format);
            self.at = At::Again(seen);
        }
        self
    }

    /// What its program may try for when it has given that back.
    pub fn seen(&self, grant: &Grant) -> Option<Seen> {
        let object = self.views[grant.pool].object?;
        let given = match object.what {
            Object::Pool { .. } => Given::Permits(grant.indices.clone()),
            Object::Mutex { .. } => Given::Mutex { owner_died: false },
            Object::Sem { .. } | Object::Tube { .. } => return None,
        };
        Some(Seen { object, format: self.format, given })
    }

    /// The lease with which all goes that it has.
    pub fn lease(&self) -> LeaseId {
        self.by.lease
    }

    /// What is known of each pool.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// How many wait before it, where it is nearest to the head; `None`: it has no place yet.
    pub fn place(&self) -> Option<usize> {
        self.views.iter().filter_map(|view| view.place(&self.by.id)).min()
    }

    /// What to do next. The same, until the machine is told something.
    pub fn step(&mut self) -> Step {
        let (space, by, pools) = (&self.space, &self.by, &self.want.pools);
        match &self.at {
            At::Again(seen) => Step::Call(grant::take_again(space, by, pools, seen)),
            At::Look => Step::Call(grant::look(space, pools)),
            At::Take(choice) => Step::Call(grant::take(space, by, choice, self.glanced.then_some(self.format))),
            At::Enqueue => {
                let since: Vec<Revision> =
                    self.views.iter().map(|view| view.object.map_or(0, |object| object.created)).collect();
                Step::Call(grant::enqueue(space, by, pools, &since, self.want.n))
            }
            At::Settle { end, full } => Step::Call(grant::settle(space, by, pools, end.is_some(), *full)),
            At::Queued(_) => self.queued(),
            At::Done(outcome) => Step::Done(outcome.clone()),
        }
    }

    /// The engine did what [`step`](Acquire::step) said, or did not say that it did.
    pub fn answered(&mut self, answer: &Result<TxnReply, EngineError>) {
        let helps = matches!(&self.at, At::Queued(Queued { asked: Asked::Help(_), .. }));
        match answer {
            Ok(reply) => self.done(reply),
            Err(EngineError::Unknown(_)) => match &mut self.at {
                // Nothing was to be changed, or what was to be can be repeated.
                At::Look | At::Settle { .. } | At::Done(_) => self.glances = false,
                At::Again(_) | At::Take(_) | At::Enqueue => {
                    (self.unsure, self.at) = (true, At::Settle { end: None, full: false });
                }
                At::Queued(queued) => queued.reread = true,
            },
            // The head that was to be helped is gone, and its ticket with it.
            Err(EngineError::LeaseGone) if helps => {}
            Err(EngineError::LeaseGone) => self.lease_is_over(),
            // The next one sees whether that was done.
            Err(EngineError::Full(_)) if helps => {}
            // What was never answered may come later, and cannot be fenced.
            Err(EngineError::Full(_))
                if matches!(self.at, At::Settle { .. }) && self.wants_units() && self.since().is_none() =>
            {
                self.at = At::Done(Outcome::Unsure);
            }
            Err(EngineError::Full(why)) => {
                let end = if let At::Settle { end: Some(end), .. } = &self.at {
                    end.clone()
                } else {
                    Outcome::Refused(why.clone())
                };
                self.at = At::Settle { end: Some(end), full: true };
            }
            // Its tickets are there: the next releaser would hand to one that has gone.
            Err(EngineError::Refused(why)) if matches!(&self.at, At::Queued(_)) => {
                self.leave(Outcome::Refused(why.clone()));
            }
            Err(EngineError::Refused(why)) => {
                self.refused = matches!(self.at, At::Settle { .. });
                let unsure = self.refused && self.wants_units();
                self.at = At::Done(if unsure { Outcome::Unsure } else { Outcome::Refused(why.clone()) });
            }
        }
    }

    /// Whether it is at its end, and the engine refused to let it leave what it may have, or has no room for what keeps out what may come late.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// The engine is to be asked again what it refused.
    pub fn again(&mut self) {
        if let At::Done(end) = &self.at
            && std::mem::take(&mut self.refused)
        {
            self.at = At::Settle { end: Some(end.clone()), full: false };
        }
    }

    /// Whether it wants what has no owner: what it was given is not given back by the end of its lease.
    pub fn wants_units(&self) -> bool {
        self.want.of.units()
    }

    /// The lease has ended, or its deadline has passed. Permits are lost then, and units are had or not.
    pub fn lease_is_over(&mut self) {
        self.at = match &self.at {
            At::Done(_) => return,
            At::Queued(queued) if self.wants_units() => {
                At::Queued(Queued { ended: true, ..Queued::since(queued.since) })
            }
            At::Settle { .. } if self.wants_units() => match self.since() {
                Some(since) => At::Queued(Queued { ended: true, ..Queued::since(since) }),
                None => At::Done(Outcome::Unsure),
            },
            // What these ask has not been asked, or was refused.
            At::Again(_) | At::Look | At::Take(_) | At::Enqueue | At::Queued(_) | At::Settle { .. } => {
                At::Done(Outcome::Lost)
            }
        };
    }

    /// Changes came, of keys of this pool.
    pub fn news(&mut self, pool: usize, changes: &[Change]) {
        let (got, name) = (self.space.got(&self.want.pools[pool], &self.by.id), &self.want.pools[pool]);
        self.views[pool].follow(&self.space, name, changes);
        // It goes with the lease: the changes that put it may come together with those that delete it.
        let put = changes.iter().find(|change| matches!(change, Change::Put(entry) if entry.key == got));
        if let (At::Queued(_), Some(put)) = (&self.at, put) {
            self.granted(pool, &Given::Units { rest: 0 }, put.revision());
        }
    }

    /// The watch ended: changes may have been missed. Those since the last ones that came can be had of a new one.
    pub fn missed_some(&mut self) {
        if let At::Queued(queued) = &mut self.at {
            queued.reread = !queued.ended;
        }
    }

    /// The engine keeps the changes no more that this was to be told.
    pub fn cannot_be_told(&mut self) {
        self.missed_some();
        if matches!(self.at, At::Queued(Queued { ended: true, .. })) {
            self.at = At::Done(Outcome::Unsure);
        }
    }

    /// The time to help is there.
    pub fn patience_is_over(&mut self) {
        if let At::Queued(queued) = &mut self.at {
            queued.help = true;
        }
    }

    /// Gives up, unless it has been granted meanwhile.
    pub fn cancel(&mut self) {
        self.leave(Outcome::Cancelled);
    }

    fn leave(&mut self, end: Outcome) {
        match self.at {
            At::Done(_) | At::Queued(Queued { ended: true, .. }) => {}
            // What these ask has not been asked.
            At::Again(_) | At::Look | At::Take(_) | At::Enqueue => self.at = At::Done(end),
            At::Queued(_) | At::Settle { .. } => {
                self.at = At::Settle { end: Some(end), full: false };
            }
        }
    }

    fn done(&mut self, reply: &TxnReply) {
        match &mut self.at {
            At::Again(seen) if reply.held => {
                let given = seen.given.clone();
                self.granted(0, &given, reply.revision);
            }
            At::Again(_) | At::Look => self.looked(reply),
            At::Take(choice) => {
                let taken = depth(&reply.replies).map(|at| choice[at].clone());
                match taken {
                    Some(permits) => {
                        let pool = self.want.pools.iter().position(|pool| *pool == permits.pool).unwrap_or_default();
                        self.granted(pool, &permits.given, reply.revision);
                    }
                    None if self.want.wait && !self.glanced => self.at = At::Enqueue,
                    None => self.at = At::Look,
                }
            }
            At::Enqueue if reply.held => {
                self.read(&reply.replies[self.want.pools.len()..], reply.revision);
                self.at = At::Queued(Queued::since(reply.revision));
            }
            At::Enqueue => {
                self.read(&reply.replies, reply.revision);
                self.choose();
            }
            At::Queued(queued) => match queued.asked.clone() {
                Asked::Own(pool, given) if reply.held => self.granted(pool, &given, reply.revision),
                Asked::Help(_) if reply.held => {}
                Asked::Help(pool) => self.read_one(pool, &reply.replies, reply.revision),
                Asked::Own(..) | Asked::Read => self.read(&reply.replies, reply.revision),
            },
            At::Settle { end, full } => {
                let (end, full, from) = (end.clone(), *full, reply.replies.len() - self.want.pools.len());
                self.read(&reply.replies[from..], reply.revision);
                self.unsure &= full;
                self.settled(end);
                self.refused = self.unsure && !matches!(self.at, At::Done(Outcome::Granted(_)));
            }
            At::Done(_) => {}
        }
    }

    fn looked(&mut self, reply: &TxnReply) {
        self.glanced = std::mem::take(&mut self.glances) && self.at == At::Look;
        self.chooses(reply);
        if self.glanced && !matches!(self.at, At::Take(_)) {
            self.at = At::Look;
        }
    }

    fn chooses(&mut self, reply: &TxnReply) {
        if let Some(Reply::Found(found)) = reply.replies.first() {
            if let Some(newer) = keys::newer(found) {
                self.at = At::Done(Outcome::Newer(newer));
                return;
            }
            self.format = found.first().map_or(0, |entry| entry.modified);
        }
        self.read(&reply.replies[1..], reply.revision);
        self.choose();
    }

    /// What to try, as the pools are known.
    fn choose(&mut self) {
        if let Some(at) = self.views.iter().position(|view| view.object.is_none()) {
            self.at = At::Done(Outcome::NoPool(at));
            return;
        }
        let other = |object: &Object| !self.want.of.has(object);
        let kinds = self.views.iter().map(|view| view.object.map(|object| object.what).filter(other));
        if let Some((at, object)) = kinds.enumerate().find_map(|(at, other)| Some((at, other?))) {
            self.at = At::Done(Outcome::Other(at, object));
            return;
        }
        if let Some(permits) = self.too_few() {
            self.at = At::Done(Outcome::TooMany(permits));
            return;
        }
        let turn = self.by.id.bytes().fold(0u32, |turn, byte| turn.wrapping_mul(31).wrapping_add(byte.into()));
        let free = |(pool, view): (&String, &View)| {
            let given = if view.queue.is_empty() { view.free(self.want.n, turn)? } else { return None };
            Some(Permits { pool: pool.clone(), size: view.object?.modified, given })
        };
        let choice: Vec<Permits> = self.want.pools.iter().zip(&self.views).filter_map(free).collect();
        self.at = match choice.is_empty() {
            false => At::Take(choice),
            true if self.want.wait => At::Enqueue,
            true => At::Done(Outcome::WouldBlock),
        };
    }

    /// The size of the only pool, if it is too small.
    fn too_few(&self) -> Option<u32> {
        let object = self.views[0].object?.what;
        let has = object.permits();
        (self.want.n > 1 && has < self.want.n && !matches!(object, Object::Sem { .. })).then_some(has)
    }

    fn read(&mut self, replies: &[Reply], revision: Revision) {
        for (at, reply) in replies.iter().enumerate().take(self.views.len()) {
            self.read_one(at, std::slice::from_ref(reply), revision);
        }
    }

    fn read_one(&mut self, pool: usize, replies: &[Reply], revision: Revision) {
        if let Some(Reply::Found(entries)) = replies.first()
            && revision >= self.views[pool].revision
        {
            let (view, id) = (View::of(&self.space, &self.want.pools[pool], entries, revision), &self.by.id);
            // What is gone by now is told by what changed since it was seen.
            let unseen = self.views[pool].place(id).is_some() && view.place(id).is_none() && view.held_by(id).is_none();
            match &mut self.at {
                At::Queued(queued) if unseen && self.want.of.units() => queued.ended = true,
                _ => self.views[pool] = view,
            }
        }
    }

    fn granted(&mut self, pool: usize, given: &Given, token: Revision) {
        let (id, indices, owner_died) = (self.by.id.clone(), given.indices().to_vec(), given.owner_died());
        self.at = At::Done(Outcome::Granted(Grant { id, pool, indices, owner_died, token }));
    }

    /// Since when it has a place, as far as is known.
    fn since(&self) -> Option<Revision> {
        self.views[0].queue.keys().find(|(_, id)| *id == self.by.id).map(|(since, _)| *since)
    }

    /// What it holds, as far as is known.
    fn held(&self) -> Option<Grant> {
        self.views.iter().enumerate().find_map(|(pool, view)| {
            let (indices, owner_died, token) = view.held_by(&self.by.id)?;
            Some(Grant { id: self.by.id.clone(), pool, indices, owner_died, token })
        })
    }

    fn settled(&mut self, end: Option<Outcome>) {
        self.at = match (self.held(), end, self.since()) {
            (Some(grant), _, _) => At::Done(Outcome::Granted(grant)),
            (None, Some(end), _) => At::Done(end),
            (None, None, Some(since)) => At::Queued(Queued::since(since)),
            (None, None, None) => {
                // Nothing of that attempt can happen any more, and nothing of another under its name.
                self.tries += 1;
                self.by.id = format!("{}.{}", self.base, self.tries);
                At::Look
            }
        };
    }

    /// Its ticket is the head of a queue, and there is enough: in which pool, and what.
    fn own_turn(&self) -> Option<(usize, Given)> {
        self.views.iter().enumerate().find_map(|(pool, view)| {
            let ((_, id), _) = view.head()?;
            if *id == self.by.id { Some((pool, view.free(self.want.n, 0)?)) } else { None }
        })
    }

    /// Another's ticket is the head of a queue, and there is enough.
    fn others_turn(&self) -> Option<(usize, Waiter, Given)> {
        self.views.iter().enumerate().find_map(|(pool, view)| {
            let ((since, id), waiting) = view.head()?;
            let by = Attempt { id: id.clone(), lease: waiting.lease?, who: waiting.ticket.who.clone() };
            let free = view.free(waiting.ticket.n, 0).filter(|_| *id != self.by.id)?;
            Some((pool, Waiter { by, pools: waiting.ticket.pools.clone(), since: *since }, free))
        })
    }

    fn permits(&self, pool: usize, given: Given) -> Permits {
        let size = self.views[pool].object.map_or(0, |object| object.modified);
        Permits { pool: self.want.pools[pool].clone(), size, given }
    }

    fn queued(&mut self) -> Step {
        let At::Queued(Queued { since, reread, help, ended, .. }) = self.at else { return self.step() };
        if reread {
            return self.ask(Asked::Read, Txn::of(grant::reads(&self.space, &self.want.pools)));
        }
        let there = self.views.iter().filter(|view| view.place(&self.by.id).is_some()).count();
        let gone = || self.views.iter().position(|view| view.object.is_none()).map(Outcome::Removed);
        if let Some(grant) = self.held() {
            self.at = At::Done(Outcome::Granted(grant));
            return self.step();
        } else if there == 0 {
            self.at = At::Done(Outcome::Lost);
            return self.step();
        }
        let from = self.views.iter().map(|view| view.revision).min().unwrap_or_default() + 1;
        if ended {
            return Step::Wait { from, help: None };
        }
        if let Some(end) = gone().or_else(|| self.too_few().map(Outcome::TooMany)) {
            self.leave(end);
            return self.step();
        }
        // A ticket that is gone in one pool went in all: the news of the other pools are on their way.
        let own = if there == self.views.len() { self.own_turn() } else { None };
        if let Some((pool, given)) = own {
            let to = Waiter { by: self.by.clone(), pools: self.want.pools.clone(), since };
            let txn = grant::give(&self.space, &to, &self.permits(pool, given.clone()), &self.want.pools);
            return self.ask(Asked::Own(pool, given), txn);
        }
        let others = self.others_turn();
        if help && let Some((pool, to, given)) = others {
            let read = [self.want.pools[pool].clone()];
            let txn = grant::give(&self.space, &to, &self.permits(pool, given), &read);
            return self.ask(Asked::Help(pool), txn);
        }
        let place = |pool: usize| self.views[pool].place(&self.by.id).unwrap_or(1).max(1) as u32;
        let help = others.map(|(pool, ..)| HELP_AFTER * place(pool));
        Step::Wait { from, help }
    }

    fn ask(&mut self, asked: Asked, txn: Txn) -> Step {
        if let At::Queued(queued) = &mut self.at {
            *queued = Queued { reread: false, help: false, asked, ..*queued };
        }
        Step::Call(txn)
    }
}

impl Queued {
    fn since(since: Revision) -> Queued {
        Queued { since, reread: false, help: false, ended: false, asked: Asked::Read }
    }
}

/// How deep the first transaction within stands whose conditions held.
fn depth(replies: &[Reply]) -> Option<usize> {
    match replies.first() {
        Some(Reply::Txn(true, _)) => Some(0),
        Some(Reply::Txn(false, within)) => depth(within).map(|at| at + 1),
        _ => None,
    }
}
