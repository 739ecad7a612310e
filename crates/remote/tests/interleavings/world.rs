//! Clients of one engine, of which each step can be another's turn, the client's end, or an answer that never comes.
//!
//! A call is one move: what happens between a client's asking and the engine's doing is what happens before, with news that have not come
//! yet; what happens between the doing and the answer is what happens after. An answer can be lost, the call be done later, or never.

mod client;
mod ledger;
mod news;
mod seen;

use crate::model::Model;
use chappe_remote::acquire::{Acquire, Grant, Outcome, Step, Want};
use chappe_remote::add::{self, Add};
use chappe_remote::engine::{Change, EngineError, LeaseId, Op, Reply, Revision, Txn};
use chappe_remote::grant::{self, Attempt, End, Own};
use chappe_remote::keys::{self, Object, Space, Who};
use chappe_remote::release::{self, Release};
use chappe_remote::view::Seen;
use client::Gives;
pub use seen::puts;
use seen::{in_order, is_mutex, lacks_units, view};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A call is done, and the answer is lost.
    pub lost: u8,
    /// A call has no answer, and is done later, or never.
    pub late: u8,
    /// A client is killed.
    pub kills: u8,
    /// A client is stopped; its lease may end before it goes on.
    pub stops: u8,
    /// A lease ends although its client runs: it was cut off.
    pub cuts: u8,
    /// A watch breaks, and what has not come of it is lost.
    pub breaks: u8,
    /// The engine has no room, and does what writes or not. It says so each time.
    pub full: u8,
    /// The engine refuses, and does nothing. It is asked again for what a client has left.
    pub refuses: u8,
    /// A member that is asked for the head of a queue has not heard of it.
    pub old: u8,
}

/// What a client does, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Gets permits and gives them back; may give up at any time while it waits, if so.
    Hold(Want, bool),
    /// Adds units to a semaphore.
    Add(String, u32),
    /// Gives a pool another size.
    Resize(String, u32),
    /// Takes a permit away from its holder.
    Force(String, u32),
    /// Deletes all of a pool.
    Remove(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Next,
    Acquiring(Acquire),
    Holding(Grant),
    Releasing(Release),
    Adding(Add),
    /// Deletes what it knows of by now.
    Forgetting(Txn),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Being {
    Runs,
    Stopped,
    Killed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    acts: VecDeque<Act>,
    attempts: u32,
    doing: Doing,
    lease: LeaseId,
    /// The deadline has not passed.
    certain: bool,
    being: Being,
    /// News that have not come, of each pool.
    watch: Option<Vec<VecDeque<Vec<Change>>>>,
    /// Up to where the history was thrown away when its watch broke.
    compacted: Revision,
    /// It knows that its deadline has passed.
    over: bool,
    /// What it may try for next, and when it has given back what it holds.
    seen: Option<Seen>,
    holds: Option<Seen>,
    gives: Option<Gives>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub engine: Model,
    clients: Vec<Client>,
    /// Calls that are done later, and how the mutex is left by them.
    late: Vec<(Txn, End)>,
    faults: Faults,
    tokens: BTreeMap<(String, u32), Revision>,
    /// Permits of which some were taken by force: their holders may find out late.
    forced: bool,
    /// Mutexes that the last holder had finished with.
    finished: BTreeSet<String>,
    /// Which attempts have added, by the name with which they began.
    added: BTreeSet<String>,
    /// Which got units, and when.
    spent: BTreeMap<String, Change>,
    /// An answer was lost, or what a watch was to tell.
    untold: bool,
    was_full: bool,
    has_refused: bool,
    /// How all was at first, if members may be old: then each first look is a glance.
    first: Option<Box<Model>>,
}

/// One step of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Its next step, which is done and answered.
    Goes(usize),
    /// What is answered is old: nobody waits, or all is as it was at first.
    GoesOld(usize),
    /// The answer is lost.
    GoesUnanswered(usize),
    /// The engine is full: it does it all the same, or not.
    Full(usize, bool),
    /// The engine refuses.
    Refused(usize),
    /// It is done later, or never.
    GoesLate(usize),
    /// What is late is done.
    Late(usize),
    /// News of a pool come.
    News(usize, usize),
    Helps(usize),
    GivesUp(usize),
    Breaks(usize),
    Killed(usize),
    Stopped(usize),
    Continued(usize),
    /// Its lease ends.
    Ends(usize),
    /// It sees that its deadline has passed.
    Over(usize),
}

/// The namespace of all.
pub fn space() -> Space {
    Space::new("w").unwrap()
}

impl World {
    /// Pools with their sizes, and what each client does.
    pub fn new(pools: &[(&str, u32)], clients: &[&[Act]], faults: Faults) -> World {
        let all: Vec<(&str, Object)> =
            pools.iter().map(|(name, permits)| (*name, Object::Pool { permits: *permits })).collect();
        World::of(&all, clients, faults)
    }

    /// Objects, and what each client does.
    pub fn of(objects: &[(&str, Object)], clients: &[&[Act]], faults: Faults) -> World {
        let mut engine = Model::new();
        for (pool, object) in objects {
            let value = keys::write(object);
            engine.txn(&Txn::of(vec![Op::Put { key: space().size(pool), value, lease: None }])).0.unwrap();
        }
        let client = |(at, acts): (usize, &&[Act])| Client {
            acts: acts.iter().cloned().collect(),
            attempts: 0,
            doing: Doing::Next,
            lease: LeaseId(at as i64 + 10),
            certain: true,
            being: Being::Runs,
            watch: None,
            compacted: 0,
            over: false,
            seen: None,
            holds: None,
            gives: None,
        };
        let clients: Vec<Client> = clients.iter().enumerate().map(client).collect();
        clients.iter().for_each(|client| engine.grant(client.lease));
        let finished = objects.iter().map(|(name, _)| (*name).to_owned()).collect();
        let (tokens, added) = (BTreeMap::new(), BTreeSet::new());
        let (spent, untold, was_full, has_refused) = (BTreeMap::new(), false, faults.full > 0, faults.refuses > 0);
        let (late, forced) = (vec![], false);
        let first = (faults.old > 0).then(|| Box::new(engine.clone()));
        World {
            engine,
            clients,
            late,
            faults,
            tokens,
            forced,
            finished,
            added,
            spent,
            untold,
            was_full,
            has_refused,
            first,
        }
    }

    /// All that can happen next. What makes one client go on comes first.
    pub fn moves(&self) -> Vec<Move> {
        let mut all = Vec::new();
        let faults = &self.faults;
        for (c, client) in self.clients.iter().enumerate() {
            if client.being == Being::Runs {
                self.moves_of(c, client, &mut all);
                if matches!(client.doing, Doing::Acquiring(_))
                    && !client.over
                    && (!client.certain || faults.cuts > 0 && client.is_busy())
                {
                    all.push(Move::Over(c));
                }
                if faults.stops > 0 && client.is_busy() {
                    all.push(Move::Stopped(c));
                }
            }
            if client.being == Being::Stopped {
                all.push(Move::Continued(c));
            }
            let ends = client.being != Being::Runs || client.over || faults.cuts > 0 && client.is_busy();
            if ends && self.engine.leases.contains(&client.lease) {
                all.push(Move::Ends(c));
            }
            if faults.kills > 0 && client.being != Being::Killed && client.is_busy() {
                all.push(Move::Killed(c));
            }
        }
        all.extend((0..self.late.len()).map(Move::Late));
        all
    }

    fn moves_of(&self, c: usize, client: &Client, all: &mut Vec<Move>) {
        let (faults, mut client) = (&self.faults, client.clone());
        let calls = match &mut client.doing {
            Doing::Next => client.acts.front().is_some(),
            Doing::Holding(_) | Doing::Releasing(_) | Doing::Adding(_) | Doing::Forgetting(_) => true,
            Doing::Acquiring(machine) => match machine.step() {
                Step::Wait { .. } if client.watch.is_none() => true,
                Step::Wait { help, .. } => {
                    let news = client.watch.iter().flatten().enumerate();
                    all.extend(news.filter(|(_, news)| !news.is_empty()).map(|(pool, _)| Move::News(c, pool)));
                    if help.is_some() {
                        all.push(Move::Helps(c));
                    }
                    if faults.breaks > 0 {
                        all.push(Move::Breaks(c));
                    }
                    if matches!(client.acts.front(), Some(Act::Hold(_, true))) {
                        all.push(Move::GivesUp(c));
                    }
                    false
                }
                _ => true,
            },
        };
        if calls {
            all.push(Move::Goes(c));
            if faults.old > 0 && client.glances() {
                all.push(Move::GoesOld(c));
            }
            let asks = client.txn().is_some();
            if asks && faults.lost > 0 {
                all.push(Move::GoesUnanswered(c));
            }
            if faults.full > 0 && client.txn().is_some_and(|txn| puts(&txn)) {
                all.extend([Move::Full(c, true), Move::Full(c, false)]);
            }
            if asks && faults.late > 0 {
                all.push(Move::GoesLate(c));
            }
            // What is to be forgotten goes with the lease.
            if asks && faults.refuses > 0 && !matches!(client.doing, Doing::Forgetting(_)) {
                all.push(Move::Refused(c));
            }
        }
    }

    /// Makes a move.
    ///
    /// # Panics
    /// If it breaks a promise.
    pub fn make(&mut self, step: Move) {
        match step {
            Move::Goes(c) => self.goes(c, true),
            Move::GoesOld(c) => {
                self.faults.old -= 1;
                let txn = self.clients[c].txn().expect("it asks");
                let acquires = matches!(self.clients[c].doing, Doing::Acquiring(_));
                let first = self.first.as_deref().filter(|_| acquires);
                let mut answer = first.unwrap_or(&self.engine).clone().txn(&txn).0;
                if let (Ok(answer), false) = (&mut answer, acquires) {
                    answer.replies[0] = Reply::Found(vec![]);
                }
                self.clients[c].told(&answer);
                self.refused_rightly(c);
            }
            Move::GoesUnanswered(c) => {
                self.faults.lost -= 1;
                self.untold = true;
                self.goes(c, false);
            }
            Move::Full(c, does) => {
                self.faults.full -= 1;
                let txn = self.clients[c].txn().expect("it asks");
                if does {
                    let _ = self.does(&txn, self.clients[c].end());
                }
                self.clients[c].told(&Err(EngineError::Full("no room".into())));
            }
            Move::Refused(c) => {
                self.faults.refuses -= 1;
                self.clients[c].told(&Err(EngineError::Refused("no".into())));
            }
            Move::GoesLate(c) => {
                self.faults.late -= 1;
                self.untold = true;
                let txn = self.clients[c].txn().expect("it asks");
                let end = self.clients[c].end();
                self.late.push((txn, end));
                self.clients[c].told(&Err(EngineError::Unknown("late".into())));
            }
            Move::Late(at) => {
                let (txn, end) = self.late.remove(at);
                let _ = self.does(&txn, end);
            }
            Move::News(c, pool) => {
                let client = &mut self.clients[c];
                let changes = client.watch.as_mut().and_then(|watch| watch[pool].pop_front()).expect("there are some");
                if let Doing::Acquiring(machine) = &mut client.doing {
                    machine.news(pool, &changes);
                }
            }
            Move::Helps(c) => {
                if let Doing::Acquiring(machine) = &mut self.clients[c].doing {
                    machine.patience_is_over();
                }
            }
            Move::GivesUp(c) => {
                if let Doing::Acquiring(machine) = &mut self.clients[c].doing {
                    machine.cancel();
                }
                if let Some(Act::Hold(_, gives_up)) = self.clients[c].acts.front_mut() {
                    *gives_up = false;
                }
            }
            Move::Breaks(c) => {
                self.faults.breaks -= 1;
                self.untold = true;
                self.clients[c].watch = None;
                self.clients[c].compacted = self.engine.revision;
                if let Doing::Acquiring(machine) = &mut self.clients[c].doing {
                    machine.missed_some();
                }
            }
            Move::Killed(c) => {
                self.faults.kills -= 1;
                self.clients[c].being = Being::Killed;
            }
            Move::Stopped(c) => {
                self.faults.stops -= 1;
                self.clients[c].being = Being::Stopped;
            }
            Move::Continued(c) => self.clients[c].being = Being::Runs,
            Move::Over(c) => {
                let client = &mut self.clients[c];
                self.faults.cuts -= u8::from(client.certain);
                (client.certain, client.over) = (false, true);
                if let Doing::Acquiring(machine) = &mut client.doing {
                    machine.lease_is_over();
                }
            }
            Move::Ends(c) => {
                if self.clients[c].being == Being::Runs && !self.clients[c].over {
                    self.faults.cuts -= 1;
                }
                self.clients[c].certain = false;
                let changes = self.engine.revoke(self.clients[c].lease);
                self.leave(&changes, End::Left);
                self.spread(&changes);
            }
        }
        self.check();
    }

    fn goes(&mut self, c: usize, answered: bool) {
        let Some(txn) = self.clients[c].txn() else { return self.goes_on(c) };
        let had = self.to_be_given(c);
        let mut answer = self.does(&txn, self.clients[c].end());
        let gave = had - self.to_be_given(c);
        if let Some(gives) = &mut self.clients[c].gives {
            gives.lost -= gave;
        }
        if !answered {
            answer = Err(EngineError::Unknown("lost".into()));
        }
        self.clients[c].told(&answer);
        self.refused_rightly(c);
    }

    /// A step without a call: from one act to the next.
    fn goes_on(&mut self, c: usize) {
        let (space, client) = (space(), &mut self.clients[c]);
        match (&mut client.doing, client.acts.front().cloned()) {
            (Doing::Next, Some(Act::Hold(want, _))) => {
                client.attempts += 1;
                let id = keys::attempt(client.lease, client.attempts);
                let by = Attempt { id, lease: client.lease, who: Who::default() };
                client.watch = None;
                let machine = Acquire::new(space, by, want).remembering(client.seen.take());
                client.doing = Doing::Acquiring(if self.first.is_some() { machine.glancing() } else { machine });
            }
            (Doing::Next, Some(Act::Force(pool, index))) => {
                self.forced = true;
                let held = self.engine.entries.get(&space.held(&pool, index));
                match held.map(|entry| entry.modified) {
                    Some(token) => {
                        client.gives = Some(Gives { pool: pool.clone(), token, lost: 1, doubts: false });
                        let own = Own { pool, token, end: End::Left };
                        client.doing = Doing::Releasing(Release::new(space, own, vec![index], true));
                    }
                    None => {
                        client.acts.pop_front();
                    }
                }
            }
            (Doing::Next, Some(Act::Add(sem, n))) => {
                client.attempts += 1;
                let id = keys::attempt(client.lease, client.attempts);
                let by = Attempt { id, lease: client.lease, who: Who::default() };
                client.doing = Doing::Adding(Add::new(space, by, sem, n));
            }
            (Doing::Next, Some(act)) => {
                let op = match act {
                    Act::Resize(pool, permits) => {
                        Op::Put { key: space.size(&pool), value: keys::write(&Object::Pool { permits }), lease: None }
                    }
                    Act::Remove(pool) => Op::Delete(space.pool(&pool)),
                    Act::Hold(..) | Act::Force(..) | Act::Add(..) => return,
                };
                self.forced |= matches!(op, Op::Delete(_));
                client.acts.pop_front();
                self.does(&Txn::of(vec![op]), End::Left).unwrap();
            }
            (Doing::Acquiring(machine), act) => match machine.step() {
                Step::Wait { from, .. } => {
                    let known = machine.views().iter().map(|view| view.revision).min();
                    assert!(
                        Some(from) > known,
                        "client {c} watches from {from}, which it knows: such a watch is served late"
                    );
                    if from <= client.compacted {
                        machine.cannot_be_told();
                        let same = matches!(machine.step(), Step::Wait { .. });
                        assert!(!same, "client {c} watches from {from}, which is not kept any more");
                        return;
                    }
                    let pools = if let Some(Act::Hold(want, _)) = act { want.pools.len() } else { 0 };
                    client.watch = Some(vec![VecDeque::new(); pools]);
                    self.catch_up(c, from);
                }
                // Its user is told, and what it may have left is a loose end.
                Step::Done(_) if machine.is_refused() => machine.again(),
                Step::Done(outcome) => self.ended(c, outcome),
                Step::Call(_) => {}
            },
            (Doing::Holding(grant), Some(Act::Hold(want, _))) => {
                let pool = want.pools[grant.pool].clone();
                client.doing = if grant.indices.is_empty() {
                    Doing::Forgetting(grant::forget(&space, &pool, &grant.id))
                } else {
                    let object = view(&self.engine, &pool).object;
                    let end = object.map_or(End::Left, |object| End::of(object.what, true));
                    let (lost, token) = (grant.indices.len(), grant.token);
                    client.gives = Some(Gives { pool: pool.clone(), token, lost, doubts: false });
                    let own = Own { pool, token, end };
                    Doing::Releasing(Release::new(space, own, grant.indices.clone(), client.attempts % 2 == 0))
                };
            }
            (Doing::Releasing(release), _) if self.has_refused && release.is_refused() => release.again(),
            (Doing::Releasing(release), _) => {
                if let release::Step::Done(lost) = release.step() {
                    let certain = client.certain && !self.forced && !(lost.is_err() && self.was_full);
                    assert!(!certain || lost == Ok(vec![]), "client {c} lost {lost:?} within its deadline");
                    let gives = client.gives.take().expect("it gives something back");
                    let told = lost.as_ref().is_ok_and(|lost| lost.len() == gives.lost);
                    assert!(
                        gives.doubts || lost.is_err() || told,
                        "client {c} is told that {lost:?} were lost: {gives:?}"
                    );
                    client.seen = client.holds.take().and_then(|seen| release.freed(seen));
                    client.next_act();
                    if lost.is_err() {
                        self.leaves(c);
                    }
                }
            }
            (Doing::Adding(machine), Some(Act::Add(sem, _))) => {
                if let add::Step::Done(outcome) = machine.step() {
                    let begun = keys::attempt(client.lease, client.attempts);
                    let was = self.added.contains(&begun);
                    match outcome {
                        add::Outcome::Added(_) => assert!(was, "client {c} is told that it added, and it did not"),
                        add::Outcome::Lost => {
                            assert!(
                                !client.certain && !was,
                                "client {c} added {was}, and is told that its lease is gone"
                            );
                        }
                        add::Outcome::Unsure(_) => {
                            let told = self.was_full || self.has_refused || !client.certain;
                            assert!(told, "client {c} cannot tell whether it added, and nothing was cut");
                            client.next_act();
                            return self.leaves(c);
                        }
                        add::Outcome::Refused(_) if self.was_full || self.has_refused => {
                            assert!(!was, "client {c} has added, and was refused")
                        }
                        other => assert!(self.forced, "client {c} could not add: {other:?}"),
                    }
                    client.doing = Doing::Forgetting(grant::forget(&space, &sem, machine.id()));
                }
            }
            _ => {}
        }
    }

    /// It ends, and its lease with it: what it has not done it does no more.
    fn leaves(&mut self, c: usize) {
        self.clients[c].certain = false;
        let changes = self.engine.revoke(self.clients[c].lease);
        self.leave(&changes, End::Left);
        self.spread(&changes);
    }

    fn ended(&mut self, c: usize, outcome: Outcome) {
        let client = &mut self.clients[c];
        let Some(Act::Hold(want, _)) = client.acts.front().cloned() else { return };
        let begun = keys::attempt(client.lease, client.attempts);
        let (spent, has_units) = (self.spent.contains_key(&begun), |grant: &Grant| grant.indices.is_empty());
        match &outcome {
            Outcome::Granted(grant) if has_units(grant) => {
                assert!(spent, "client {c} is told of units that it has not")
            }
            Outcome::Unsure => {
                let told = self.was_full || self.has_refused || self.untold && !client.certain;
                assert!(told, "client {c} does not know, and nothing was lost");
            }
            _ => assert!(!spent, "client {c} has units, and is told {outcome:?}"),
        }
        match outcome {
            Outcome::Granted(grant) => {
                let Doing::Acquiring(machine) = &client.doing else { return };
                // What is remembered is of the pool that is tried for.
                client.holds = machine.seen(&grant).filter(|_| grant.pool == 0);
                let pool = &want.pools[grant.pool];
                let units = self.engine.entries.contains_key(&space().got(pool, &grant.id));
                assert!(units || !client.certain || grant.indices.len() == want.n as usize, "client {c} has {grant:?}");
                for index in grant.indices.iter().filter(|_| client.certain && !self.forced) {
                    let last = self.tokens.insert((want.pools[grant.pool].clone(), *index), grant.token);
                    assert!(last < Some(grant.token), "token {} of client {c} comes after {last:?}", grant.token);
                }
                if let (true, false, [index]) = (client.certain, self.forced, grant.indices.as_slice()) {
                    let entry = self.engine.entries.get(&space().held(pool, *index)).expect("it is held");
                    let holder: keys::Holder = keys::read(&entry.value).expect("a holder");
                    assert_eq!(grant.owner_died, holder.owner_died, "client {c} is told otherwise");
                }
                client.doing = Doing::Holding(grant);
            }
            outcome => {
                let lost = outcome == Outcome::Lost;
                assert!(!lost || !client.certain || self.forced, "client {c} lost its place within its deadline");
                client.next_act();
                if outcome == Outcome::Unsure {
                    self.leaves(c);
                }
            }
        }
    }

    /// Nobody is told that nothing is free when something is.
    fn refused_rightly(&mut self, c: usize) {
        let client = &mut self.clients[c];
        let Some(Act::Hold(want, _)) = client.acts.front() else { return };
        let Doing::Acquiring(machine) = &mut client.doing else { return };
        if machine.step() == Step::Done(Outcome::WouldBlock) {
            for pool in &want.pools {
                let view = view(&self.engine, pool);
                assert!(!view.queue.is_empty() || view.free(want.n, 0).is_none(), "{pool} was free for client {c}");
            }
        }
    }

    fn does(&mut self, txn: &Txn, end: End) -> Result<chappe_remote::engine::TxnReply, EngineError> {
        let before = self.engine.clone();
        let (answer, changes) = self.engine.txn(txn);
        if !changes.is_empty() {
            in_order(&before, &changes);
            self.count(&before, &changes);
            self.tells(&before, &changes, end);
            self.leave(&changes, end);
        }
        self.spread(&changes);
        answer
    }

    /// Whether it waits for units of semaphores alone, which nobody adds.
    fn has_no_units(&self, client: &Client) -> bool {
        let Some(Act::Hold(want, _)) = client.acts.front() else { return false };
        client.being != Being::Killed && want.pools.iter().all(|pool| lacks_units(&self.engine, pool))
    }

    /// What must hold in each state.
    fn check(&self) {
        let mut holders: BTreeMap<(&str, u32), usize> = BTreeMap::new();
        for (c, client) in self.clients.iter().enumerate() {
            let (Doing::Holding(grant), Some(Act::Hold(want, _)), true) =
                (&client.doing, client.acts.front(), client.certain && client.being != Being::Killed)
            else {
                continue;
            };
            let pool = &want.pools[grant.pool];
            for index in &grant.indices {
                let other = holders.insert((pool, *index), c);
                assert!(self.forced || other.is_none(), "{pool}:{index} has two holders, {other:?} and {c}");
                let there = self.engine.entries.get(&space().held(pool, *index));
                let own = there.is_some_and(|entry| entry.modified == grant.token && entry.lease == Some(client.lease));
                assert!(self.forced || own, "client {c} holds {pool}:{index} no more, and does not know: {there:?}");
            }
        }
    }

    /// What must hold when nothing goes on by itself: `stuck` says that only ends of leases and continued clients are left.
    pub fn at_rest(&self, stuck: bool) {
        let runs = |lease| self.clients.iter().any(|c| c.lease == lease && c.being == Being::Runs && !c.over);
        let mut pools: Vec<String> = Vec::new();
        pools.extend(self.engine.entries.keys().filter_map(|key| space().part(key).map(|(pool, _)| pool.to_owned())));
        pools.dedup();
        for pool in pools {
            let view = view(&self.engine, &pool);
            let (Some((_, head)), true) = (view.head(), view.object.is_some()) else { continue };
            let helper = view.queue.values().any(|waiting| waiting.lease.is_some_and(runs));
            let free = view.free(head.ticket.n, 0);
            assert!(
                !helper || free.is_none() || self.forced,
                "{pool}:{free:?} is free, waited for, and nobody takes it"
            );
        }
        if stuck {
            return;
        }
        for (c, client) in self.clients.iter().enumerate() {
            let over = client.being == Being::Killed || matches!(client.doing, Doing::Next) && client.acts.is_empty();
            assert!(over || self.has_no_units(client), "client {c} waits for ever: {:?}", client.doing);
        }
        let waits = |key: &str| match space().part(key) {
            Some((_, keys::Part::Ticket(id))) => self.clients.iter().any(|client| {
                id.starts_with(&keys::attempt(client.lease, client.attempts)) && self.has_no_units(client)
            }),
            Some((_, part)) => part == keys::Part::Size,
            None => key.contains("/fence/"),
        };
        let left: Vec<&String> = self.engine.entries.keys().filter(|key| !waits(key)).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}
