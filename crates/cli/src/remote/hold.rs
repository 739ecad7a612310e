//! Looking after a remote permit beside the job that runs under it: its deadline, its key at the engine, and the keeper.
//!
//! | what | `--on-loss term` | `kill` | `warn` |
//! |---|---|---|---|
//! | the deadline comes near, no renewal was answered | TERM, and KILL in time | KILL in time | nothing |
//! | the permit was taken away, or the lease was ended | TERM, and KILL after a second | KILL | nothing |
//!
//! In each case chappe ends with 125 when the job has ended.

use super::held::Held;
use super::keeper::{Keeper, Now};
use super::line::Crew;
use super::wait::leave;
use crate::args::OnLoss;
use crate::job::Job;
use crate::signals::{self, Set};
use crate::supervise::Beside;
use chappe::remote::engine::{Change, Engine, EngineError, LeaseId, News, Op, Reply, Revision, Txn, Watch};
use chappe::remote::etcd::{Etcd, SHORT, Session, now};
use chappe::remote::grant::End;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why a permit is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The engine did not answer in time.
    Unreachable,
    /// The lease was ended.
    Revoked,
    /// It was taken away by force.
    Forced,
}

impl Loss {
    /// As JSON has it.
    pub fn reason(self) -> &'static str {
        match self {
            Loss::Unreachable => "unreachable",
            Loss::Revoked => "revoked",
            Loss::Forced => "forced",
        }
    }
}

/// How long a job has that is asked to end, where the permit is another's already.
const GRACE: Duration = Duration::from_secs(1);

/// A permit that is looked after.
pub struct Hold {
    session: Session,
    on_loss: OnLoss,
    keeper: Option<Keeper>,
    /// What the thread that watches the permit's key has seen.
    seen: Arc<Mutex<Option<Loss>>>,
    loss: Option<Loss>,
    /// Whether the job was asked to end.
    asked: bool,
    /// When it is killed.
    kill_at: Option<Duration>,
}

impl Hold {
    /// Of what is held under a lease.
    pub fn of(etcd: Etcd, session: Session, held: Held, on_loss: OnLoss, keeper: Option<Keeper>) -> Hold {
        let seen = Arc::new(Mutex::new(None));
        watch(etcd, held, Arc::clone(&seen));
        Hold { session, on_loss, keeper, seen, loss: None, asked: false, kill_at: None }
    }

    /// The lease.
    pub fn lease(&self) -> LeaseId {
        self.session.lease()
    }

    /// Why it was lost, if it was.
    pub fn loss(&mut self) -> Option<Loss> {
        if self.loss.is_none() {
            let over = self.session.is_over();
            let by_time = (over && now() >= self.session.life().kill_at()).then_some(Loss::Unreachable);
            let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            self.loss = by_time.or(seen).or(over.then_some(Loss::Revoked));
        }
        self.loss
    }

    /// Whether it was lost.
    pub fn is_lost(&mut self) -> bool {
        self.loss().is_some()
    }

    /// Tells the keeper which job it is for.
    pub fn begins(&mut self, job: &Job) {
        let told = (job.pid, job.own_group);
        if let Some(keeper) = &mut self.keeper {
            keeper.tell(|now| now.job = Some(told));
        }
    }

    /// All is given back.
    pub fn end(self) {
        leave(self.session, self.keeper);
    }

    /// What is due now, by these two ways to reach the job; and when something is due again.
    fn due(&mut self, term: impl FnOnce(), kill: impl FnOnce()) -> Duration {
        const LEAST: Duration = Duration::from_millis(10);
        let life = self.session.life();
        if let Some(keeper) = &mut self.keeper {
            keeper.tell(|now| (now.deadline, now.ttl) = (life.deadline(), life.ttl()));
        }
        let (at, begins) = (now(), if self.on_loss == OnLoss::Term { life.term_at() } else { life.kill_at() });
        let loss = self.loss();
        if self.on_loss == OnLoss::Warn || loss.is_none() && at < begins {
            return life.every().min(begins.saturating_sub(at)).max(LEAST);
        }
        // An answer that comes from now on saves nothing: the job is ending.
        let loss = *self.loss.get_or_insert(Loss::Unreachable);
        let kill_at = *self.kill_at.get_or_insert_with(|| {
            if loss == Loss::Unreachable {
                return life.kill_at();
            }
            if self.on_loss == OnLoss::Term { at + GRACE } else { at }
        });
        if at >= kill_at {
            kill();
            // What was forked during the look for the job's processes is found the next time.
            return Duration::from_millis(500);
        }
        if !self.asked {
            self.asked = true;
            term();
        }
        (kill_at - at).max(LEAST)
    }

    /// The keeper's part: until all of the job has ended.
    pub fn stay_until_the_end_of(&mut self, crew: &Crew) {
        while !crew.has_ended() {
            let next = self.due(|| crew.ask_to_end(), || crew.kill());
            // The successor may have to be started anew.
            crew.wait(next.min(Duration::from_millis(500)));
        }
    }

    /// The job has ended, but for these: from the end of this process on the permit is the keeper's.
    /// Answers whether there is one.
    pub fn leaves(&mut self, pids: Vec<i32>, end: End) -> bool {
        let tells = |now: &mut Now| {
            now.left = pids;
            now.held = now.held.take().map(|held| Held { end, ..held });
        };
        self.keeper.as_mut().is_some_and(|keeper| keeper.tell(tells))
    }

    /// Looks after it no longer.
    pub fn keeper(mut self) -> Option<Keeper> {
        self.keeper.take()
    }
}

/// The permit beside its job.
pub struct Guard<'a> {
    /// The permit.
    pub hold: &'a mut Hold,
    /// The job's processes.
    pub crew: &'a mut Crew,
    /// Whether it has begun.
    pub begun: bool,
}

impl Beside for Guard<'_> {
    fn look(&mut self, job: &Job) -> Option<Duration> {
        if !self.begun {
            self.begun = true;
            self.crew.begins(job.pid, job.own_group);
            self.hold.begins(job);
        }
        let term = || {
            job.signal(libc::SIGTERM);
            job.signal(libc::SIGCONT);
        };
        let kill = || {
            job.signal(libc::SIGKILL);
            self.crew.kill();
        };
        Some(self.hold.due(term, kill))
    }

    fn own(&self) -> Option<i32> {
        self.hold.keeper.as_ref().and_then(Keeper::pid)
    }
}

/// Watches the keys of what is held, on a thread of its own, which ends with the process.
fn watch(etcd: Etcd, held: Held, seen: Arc<Mutex<Option<Loss>>>) {
    let body = move || {
        std::thread::sleep(SHORT);
        let mut from = held.token + 1;
        while let Some(next) = undisturbed(&etcd, &held, from) {
            from = next;
        }
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Loss::Forced);
        // What looks after the job sleeps until a signal comes.
        signals::send(std::process::id() as i32, libc::SIGCHLD);
    };
    let before = Set::blocked_now();
    Set::of(&(1..=libc::SIGRTMAX()).collect::<Vec<i32>>()).block();
    // Without the thread the deadline is looked after all the same.
    let _ = std::thread::Builder::new().name("chappe-held".into()).spawn(body);
    before.set();
}

/// Watches until the watch breaks, and reads; answers from where to watch again, or that it is another's.
fn undisturbed(etcd: &Etcd, held: &Held, from: Revision) -> Option<Revision> {
    let own = |change: &Change| matches!(change, Change::Put(entry) if entry.modified == held.token);
    if let Ok(mut stream) = etcd.watch(&held.keys(), from) {
        loop {
            match stream.next(None) {
                News::Changes(_, changes) if !changes.iter().all(own) => return None,
                News::Broken(_) | News::Forgotten(_) => break,
                _ => {}
            }
        }
    }
    let read = Txn::of(held.keys().into_iter().map(Op::Get).collect());
    loop {
        match etcd.txn(&read) {
            Ok(reply) => {
                let there = |reply: &Reply| matches!(reply, Reply::Found(found) if found.first().is_some_and(|e| e.modified == held.token));
                return reply.replies.iter().all(there).then_some(reply.revision + 1);
            }
            Err(EngineError::Unknown(_)) => {}
            // It refuses to tell: as long as the lease is renewed, the permit is held.
            Err(_) => {
                std::thread::sleep(Duration::from_secs(1));
                return Some(from);
            }
        }
    }
}
