//! A lease's life, as the renewer and the holders under it share it.
//!
//! | role | does |
//! |---|---|
//! | the renewer | tells each renewal that was answered, or that the lease has ended |
//! | a holder | asks whether it may go on: arithmetic on this machine's clock, and no question to anybody |
//! | the kernel | rings each holder's alarm at [`Life::kill_at`], also where the renewer's thread is stuck |
//!
//! - **P1** A hold that is lost stays lost: an alarm that has rung before a renewal set it anew tells so, and that hold is lost for good.
//!   The lease may go on, and what was held is given back ([`Permit`](crate::Permit)); the token tells whether another has it by then.
//! - **P2** A thread that finds the alarm ringing finds [`Hold::loss`] at the next look. (The other way round there may be a moment between.)
//!
//! One lock of a lease is above those of its holds; each is held for a few lines.

use crate::engine::{Change, Keys, Op, Reply, Revision, Txn, TxnReply};
use crate::life::Life;
use chappe_plat::alarm::Alarm;
use chappe_plat::{clock, process};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Why what was held is held no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// No renewal was answered in time: the engine was not reached, or this process was stopped.
    #[error("its lease was not renewed in time: the engine did not answer, or this process was stopped")]
    Unreachable,
    /// The engine has ended the lease.
    #[error("the engine has ended its lease")]
    Revoked,
    /// It was taken away by force, or its object was removed.
    #[error("it was taken away")]
    TakenAway,
    /// This process was forked from the one that holds it.
    #[error("it belongs to the process that this one was forked from")]
    Inherited,
}

/// The time since boot, the time asleep with it.
pub fn now() -> Duration {
    Duration::from_nanos(clock::boot())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The few lines under each lock do not panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lease's life.
#[derive(Debug)]
pub struct Pulse(Mutex<Beat>);

#[derive(Debug)]
struct Beat {
    life: Life,
    /// Why it is over.
    why: Option<Loss>,
    holds: Vec<Weak<Hold>>,
}

impl Pulse {
    /// Of a lease.
    pub fn new(life: Life) -> Pulse {
        Pulse(Mutex::new(Beat { life, why: None, holds: vec![] }))
    }

    /// Its life as it is now.
    pub fn life(&self) -> Life {
        lock(&self.0).life
    }

    /// Whether what is held under it must be taken for lost. No I/O.
    pub fn is_over(&self) -> bool {
        self.loss().is_some()
    }

    /// Why, if so: of the life itself and not of a copy, so that no renewal comes between the judgement and what follows from it.
    pub fn loss(&self) -> Option<Loss> {
        let mut beat = lock(&self.0);
        if beat.life.is_over(now()) {
            beat.why.get_or_insert(Loss::Unreachable);
        }
        beat.why
    }

    /// A renewal was answered that was sent at `sent`.
    pub fn renewed(&self, sent: Duration, ttl: Duration) {
        let mut beat = lock(&self.0);
        beat.life.renewed(sent, now(), ttl);
        let kill_at = beat.life.kill_at();
        beat.holds.retain(|hold| hold.upgrade().inspect(|hold| hold.goes_on(kill_at)).is_some());
    }

    /// The engine says that the lease has ended.
    pub fn ended(&self) {
        let mut beat = lock(&self.0);
        if !beat.life.is_over(now()) {
            beat.why = Some(Loss::Revoked);
        }
        beat.life.ended();
        beat.holds.drain(..).filter_map(|hold| hold.upgrade()).for_each(|hold| hold.is_lost(Loss::Revoked));
    }

    /// Something is held under it: these keys, put at this revision.
    ///
    /// # Errors
    /// The system's: no descriptor is left.
    pub fn holds(self: &Arc<Pulse>, keys: Vec<Keys>, token: Revision) -> io::Result<Arc<Hold>> {
        let mut beat = lock(&self.0);
        // Of a life that is over it rings already.
        let rings_at = if beat.life.is_over(now()) { Duration::ZERO } else { beat.life.kill_at() };
        let alarm = Alarm::at(rings_at)?;
        let (process, pulse, loss, kept) =
            (process::incarnation(), Arc::clone(self), Mutex::new(None), Mutex::new(None));
        let hold = Arc::new(Hold { process, pulse, keys, token, alarm, loss, kept });
        beat.holds.push(Arc::downgrade(&hold));
        Ok(hold)
    }
}

/// What is held under a lease.
#[derive(Debug)]
pub struct Hold {
    process: u64,
    pulse: Arc<Pulse>,
    keys: Vec<Keys>,
    token: Revision,
    alarm: Alarm,
    loss: Mutex<Option<Loss>>,
    /// What goes with it.
    kept: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Hold {
    /// Why it is lost, if it is. No I/O.
    pub fn loss(&self) -> Option<Loss> {
        // Before any lock: in a forked child a thread that is not there may have it.
        if self.process != process::incarnation() {
            return Some(Loss::Inherited);
        }
        // First the lease: its lock is above.
        let over = self.pulse.loss();
        let mut loss = lock(&self.loss);
        if let (None, Some(why)) = (*loss, over) {
            *loss = Some(why);
            self.alarm.set(Duration::ZERO);
        }
        *loss
    }

    /// How long it is certain, if nobody takes it away.
    pub fn left(&self) -> Duration {
        if self.loss().is_some() { Duration::ZERO } else { self.pulse.life().kill_at().saturating_sub(now()) }
    }

    /// The fencing token.
    pub fn token(&self) -> Revision {
        self.token
    }

    fn goes_on(&self, kill_at: Duration) {
        let mut loss = lock(&self.loss);
        // P1.
        if loss.is_none() && self.alarm.set(kill_at) {
            *loss = Some(Loss::Unreachable);
            self.alarm.set(Duration::ZERO);
        }
    }

    fn is_lost(&self, why: Loss) {
        let mut loss = lock(&self.loss);
        loss.get_or_insert(why);
        self.alarm.set(Duration::ZERO);
    }

    /// The keys that must stay as they are: they are watched from the revision after the token on.
    pub fn keys(&self) -> &[Keys] {
        &self.keys
    }

    /// Something is dropped with it, by which its watcher sees that nobody holds it any more.
    pub fn keeps(&self, kept: Box<dyn Any + Send>) {
        *lock(&self.kept) = Some(kept);
    }

    /// Changes of them came; answers whether it is lost by them.
    pub fn changed(&self, changes: &[Change]) -> bool {
        let own = |change: &Change| matches!(change, Change::Put(entry) if entry.modified == self.token);
        let lost = !changes.iter().all(own);
        if lost {
            self.is_lost(Loss::TakenAway);
        }
        lost
    }

    /// Reads them, when a watch was broken.
    pub fn reads(&self) -> Txn {
        Txn::of(self.keys.iter().cloned().map(Op::Get).collect())
    }

    /// That was read; answers from which revision on they are watched again, if it is not lost.
    pub fn found(&self, reply: &TxnReply) -> Option<Revision> {
        let stands = |reply: &Reply| matches!(reply, Reply::Found(found) if found.first().is_some_and(|entry| entry.modified == self.token));
        if reply.replies.iter().all(stands) {
            return Some(reply.revision + 1);
        }
        self.is_lost(Loss::TakenAway);
        None
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.process != process::incarnation() {
            // The watcher is in the parent.
            std::mem::forget(self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl AsFd for Hold {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_plat::poll::is_ready;
    use std::os::fd::AsRawFd;

    const TTL: Duration = Duration::from_secs(3600);

    fn held(pulse: &Arc<Pulse>) -> Arc<Hold> {
        pulse.holds(vec![Keys::One("held".into())], 5).unwrap()
    }

    fn rings(hold: &Hold) -> bool {
        is_ready(hold.as_fd().as_raw_fd(), false).unwrap()
    }

    #[test]
    fn a_hold_is_certain_until_the_local_deadline_and_then_rings() {
        let young = Arc::new(Pulse::new(Life::new(now(), TTL)));
        let old = Arc::new(Pulse::new(Life::new(now().saturating_sub(TTL), TTL)));
        let (certain, lost) = (held(&young), held(&old));
        assert_eq!((certain.loss(), rings(&certain)), (None, false));
        assert!(certain.left() > TTL / 2 && lost.left().is_zero());
        assert_eq!((lost.loss(), rings(&lost)), (Some(Loss::Unreachable), true));
    }

    #[test]
    fn a_renewal_that_comes_after_the_alarm_brings_nothing_back() {
        let pulse = Arc::new(Pulse::new(Life::new(now(), TTL)));
        let hold = held(&pulse);
        // As if it had rung between two instructions of the renewer.
        hold.alarm.set(Duration::ZERO);
        pulse.renewed(now(), TTL);
        assert_eq!((hold.loss(), rings(&hold)), (Some(Loss::Unreachable), true));
        let other = held(&pulse);
        pulse.renewed(now(), TTL);
        assert_eq!((other.loss(), rings(&other)), (None, false), "the lease goes on");
    }

    #[test]
    fn a_hold_under_a_lease_that_has_ended_rings_at_once() {
        let pulse = Arc::new(Pulse::new(Life::new(now(), TTL)));
        pulse.ended();
        let hold = held(&pulse);
        assert_eq!((rings(&hold), hold.loss()), (true, Some(Loss::Revoked)));
    }

    #[test]
    fn a_lease_that_the_engine_ends_rings_for_all_and_a_key_that_changes_for_its_own() {
        let pulse = Arc::new(Pulse::new(Life::new(now(), TTL)));
        let (one, other) = (held(&pulse), held(&pulse));
        assert!(one.changed(&[Change::Deleted { key: "held".into(), at: 6 }]));
        assert_eq!((one.loss(), rings(&one)), (Some(Loss::TakenAway), true));
        pulse.renewed(now(), TTL);
        assert!(rings(&one), "a renewal is of the lease");
        assert_eq!((other.loss(), rings(&other)), (None, false));
        pulse.ended();
        assert_eq!((other.loss(), rings(&other)), (Some(Loss::Revoked), true));
        assert_eq!(one.loss(), Some(Loss::TakenAway));
    }
}
