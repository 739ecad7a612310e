//! The lease of a program: which thread asks for it, and what is done under it that nobody waits for.
//!
//! - **K1** One thread asks the engine for a lease, and holds no lock meanwhile. Others that need it wait for that one, each as long as it has time.
//! - **K2** Loose ends, what must be asked until the engine answers, are done by one thread of a lease, in turn. Without a thread they wait for the
//!   next operation, which tries again to have one, or go with the lease: no caller ever does them instead.

use crate::connection::Link;
use crate::drive;
use crate::engine::{Engine, EngineError, LeaseId};
use crate::grant::Attempt;
use crate::keys::{self, Who};
use crate::life::Life;
use crate::pulse::{Pulse, now};
use chappe_plat::{process, thread};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a round of loose ends waits for the next where the engine refused.
const PAUSE: Duration = Duration::from_secs(1);
/// Of the thread that does them: what serialisation needs in a build without optimisation.
const STACK: usize = 256 << 10;

/// What has become of a loose end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tied {
    /// It is none any more.
    Known,
    /// The engine does not answer.
    Silent,
    /// The engine refused, and is to be asked again.
    Refused,
}

/// Asks once more.
type Asks = Box<dyn FnMut(&Leased) -> Tied + Send>;

#[derive(Default)]
struct Loose {
    ends: Vec<Asks>,
    /// A thread does them.
    done: bool,
}

/// A lease of this process.
pub struct Leased {
    link: ManuallyDrop<Link>,
    process: u64,
    /// The lease.
    pub lease: LeaseId,
    /// Its life.
    pub pulse: Arc<Pulse>,
    /// How many attempts were made under it.
    attempts: Mutex<u32>,
    loose: ManuallyDrop<Mutex<Loose>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The few lines under each lock do not panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leased {
    fn new(link: &Link, lease: LeaseId, life: Life) -> Arc<Leased> {
        let pulse = Arc::new(Pulse::new(life));
        link.0.renew(lease, Arc::downgrade(&pulse));
        let (link, loose) = (ManuallyDrop::new(link.clone()), ManuallyDrop::new(Mutex::default()));
        Arc::new(Leased { link, process: process::incarnation(), lease, pulse, attempts: Mutex::new(0), loose })
    }

    /// The engine.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// An attempt of this name: nobody else's.
    pub fn attempt(&self, who: &Who) -> Attempt {
        let mut attempts = lock(&self.attempts);
        *attempts = attempts.wrapping_add(1);
        Attempt { id: keys::attempt(self.lease, *attempts), lease: self.lease, who: who.clone() }
    }

    /// Whether this process is the one that has it.
    pub fn is_own(&self) -> bool {
        self.process == process::incarnation()
    }

    /// Whether it has ended, as the renewer knows or the engine says.
    pub fn has_ended(&self) -> bool {
        if !self.pulse.is_over() && self.link.keep_alive(self.lease) == Err(EngineError::LeaseGone) {
            self.pulse.ended();
        }
        self.pulse.is_over()
    }

    /// Has a thread ask until it is known, or the lease is over.
    pub fn ties_up(self: &Arc<Leased>, asks: impl FnMut(&Leased) -> Tied + Send + 'static) {
        lock(&self.loose).ends.push(Box::new(asks));
        self.ties();
    }

    /// Sees to it that a thread does what is loose.
    fn ties(self: &Arc<Leased>) {
        let mut loose = lock(&self.loose);
        if loose.done || loose.ends.is_empty() {
            return;
        }
        let own = Arc::clone(self);
        // K2: under the lock, so that no other tries at the same time.
        loose.done = thread::background_with("chappe-loose", STACK, move || works(own)).is_ok();
    }

    /// Asks once more of each; answers whether there is one left, and what came last.
    fn round(&self) -> (bool, Tied) {
        let (all, mut came) = (std::mem::take(&mut lock(&self.loose).ends), Tied::Known);
        let (mut ends, mut last) = (Vec::new(), None);
        for mut asks in all {
            // What does not answer to one does not answer to the next, as a rule: that is the first to be asked then.
            if came == Tied::Silent {
                ends.push(asks);
                continue;
            }
            came = asks(self);
            match came {
                Tied::Known => {}
                Tied::Refused => ends.push(asks),
                Tied::Silent => last = Some(asks),
            }
        }
        ends.extend(last);
        let mut loose = lock(&self.loose);
        ends.append(&mut loose.ends);
        loose.ends = ends;
        loose.done = !loose.ends.is_empty();
        (loose.done, came)
    }
}

/// Does what is loose.
fn works(leased: Arc<Leased>) {
    let mut held = Some(leased);
    while let Some(leased) = held.take().filter(|leased| !leased.pulse.is_over()) {
        let (more, came) = leased.round();
        if !more {
            return;
        }
        held = if came == Tied::Silent {
            // It was waited for the answer.
            Some(leased)
        } else {
            // Meanwhile the lease ends if nobody has anything of it.
            let (pause, waits) = (leased.pulse.life().every().min(PAUSE), Arc::downgrade(&leased));
            drop(leased);
            std::thread::sleep(pause);
            waits.upgrade()
        };
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // In a forked child nothing is touched that a thread of the parent's may have been in the midst of.
        if self.is_own() {
            if !self.pulse.is_over() {
                // Without an answer it ends by itself.
                let _ = self.link.revoke(self.lease);
            }
            // SAFETY: neither is used after this.
            unsafe {
                ManuallyDrop::drop(&mut self.loose);
                ManuallyDrop::drop(&mut self.link);
            }
        }
    }
}

struct Known {
    leased: Option<Arc<Leased>>,
    /// One thread asks for another.
    asked: bool,
    /// What the last one heard that asked in vain.
    why: String,
}

/// The lease that a program has now.
pub struct Leases {
    ttl: Duration,
    known: Mutex<Known>,
    changed: Condvar,
}

impl Leases {
    /// None yet; leases get this time to live.
    pub fn new(ttl: Duration) -> Leases {
        let known = Known { leased: None, asked: false, why: "a lease was asked for".into() };
        Leases { ttl, known: Mutex::new(known), changed: Condvar::new() }
    }

    /// The lease that goes on, or another. Blocks until the engine has answered, or until then.
    ///
    /// # Errors
    /// As [`Engine::grant`].
    pub fn get(&self, link: &Link, until: Option<Instant>) -> Result<Arc<Leased>, EngineError> {
        let until = Instant::now().checked_add(drive::answers_until(until));
        let mut known = lock(&self.known);
        loop {
            if let Some(leased) = known.leased.as_ref().filter(|leased| !leased.pulse.is_over()) {
                leased.ties();
                return Ok(Arc::clone(leased));
            }
            if !known.asked {
                break;
            }
            // K1.
            let left = until.map_or(PAUSE, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(EngineError::Unknown(known.why.clone()));
            }
            known = self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        known.asked = true;
        drop(known);
        let (sent, left) = (now(), drive::answers_until(until));
        let came = link.grant_within(self.ttl, left);
        let made = came.map(|(lease, ttl)| Leased::new(link, lease, Life::new(sent, ttl)));
        let mut known = lock(&self.known);
        known.asked = false;
        match &made {
            Ok(leased) => known.leased = Some(Arc::clone(leased)),
            Err(e) => known.why = e.to_string(),
        }
        self.changed.notify_all();
        made
    }
}
