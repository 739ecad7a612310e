//! A sharded semaphore: most of its permits lie in caches of the processors.
//!
//! nix-semaphores-tubes, section 2.1 (what a semaphore promises), on netbsd-restartable-sequences: taking from this processor's cache and
//! giving to it is one section each, without a locked instruction. While a thread has to wait there are no caches: then the strong
//! semaphore in the middle decides alone, first come, first served.
//!
//! | `mode` | take | give | |
//! |---|---|---|---|
//! | SHARDED | from the cache, else from the middle | to the cache, else to the middle | no thread waits |
//! | SWEEPING | middle | middle | one thread empties the caches into the middle |
//! | CENTRAL | middle | middle | the caches are empty |
//! | STUCK | from the cache, else from the middle | middle | the sweeper could not fence everywhere, or the middle was full |
//!
//! ```text
//!            a thread must wait             all caches swept
//!   SHARDED --------------------> SWEEPING ------------------> CENTRAL
//!      ^                            ^    |                        |
//!      |                            |    +--> STUCK: not all      |
//!      |                            +-----------+                 |
//!      +----------------------------------------------------------+
//!           no thread waits, permits >> processors, for a while
//! ```
//!
//! - I1: a section looks at `mode` and changes its own processor's cache by one store; it is aborted if another thread had that processor
//!   meanwhile. So the caches of SHARDED lose nothing to one another.
//! - I2: a cache is emptied only by the thread that has set SWEEPING, after a fence on its processor: no section that saw another mode
//!   stores to it any more. SWEEPING carries the incarnation of that thread's process, and is ended by that thread: a forked child that
//!   finds its parent's SWEEPING sweeps itself. So a permit is in one cache, in the middle, or held by one thread.
//! - I3: a thread that is about to sleep in the middle has raised `waiting`, and then seen CENTRAL. A thread that goes back to SHARDED
//!   looks at `waiting` afterwards, and sweeps again if a thread waits. So no thread sleeps while permits lie in caches, and no permit is
//!   given past a sleeper. While any thread waits CENTRAL stays.
//! - I4: a thread that sees SWEEPING, or cannot sweep, sleeps for a moment only, and looks again.
//! - I5: a section arms itself in the thread's area, whose place is unknown before `rseq::prepare`. So there are caches only where the gate
//!   has found sequences, and without caches no section begins.
//! - I6: no fork comes while a thread sweeps (`latch.rs`): a permit that is on its way from a cache to the middle is in neither.
//!
//! - E1 (store, load against store, load): `waiting` and `mode` of I3.
//! - E2: `mode` SWEEPING before the fence.
//! - E3 (acquire/release): what was swept, and then SHARED, against a section's load of `mode`, then of the cache: a section that sees the
//!   caches come back does not see them as they were before they were emptied.
//!
//! Races: two threads must wait at once: one of them sweeps, the other goes to the middle, and is woken by what is swept there. A thread
//! gives back to the middle while SHARDED is set again: no thread waits, or I3. R1, a filter refuses the fence: a thread that cannot fence
//! on a processor, and may not move there, leaves its cache as it is. Nothing is lost, but up to a cache's fill is out of reach until a
//! thread takes it from that processor, or can fence. Nothing new is cached then.
//!
//! Taking and giving in SHARDED are wait-free; `up` never blocks. A death loses only what the dead thread held: private memory. A forked
//! child has a copy, in which the permits that other threads of its parent held are lost; if some of them were waiting it has no caches any
//! more, since it counts them as if they still were. The child of `vfork` is in its parent's memory, and must not use it. The child of a
//! bare `clone` may lack what was being swept.
//!
//! Explored: `tests/crash_sharded.rs`, with a simple semaphore in the middle.

use super::cache::{Cache, GIVE, TAKE};
use super::{latch, section};
use crate::gate;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{clock, process, rseq, sections};

const SHARDED: u32 = TAKE | GIVE;
const STUCK: u32 = TAKE;
const SWEEPING: u32 = 4;
const CENTRAL: u32 = 8;

/// In the bits above these: whose it is (I2).
const PROCESS: u32 = 8;

/// I2: SWEEPING, by a thread of this process.
fn sweeping() -> u32 {
    (process::incarnation() as u32) << PROCESS | SWEEPING
}

/// I4: how long a moment is.
const MOMENT_NS: u64 = 1_000_000;

/// The semaphore in the middle.
pub trait Central {
    /// Why nothing was taken, or given.
    type Error;

    /// Takes a permit if one is there and no thread waits.
    fn try_down(&self) -> bool;

    /// Takes one, waiting at most until then (monotonic, ns). False: the time was up.
    ///
    /// # Errors
    /// Its own.
    fn down(&self, deadline: Option<u64>) -> Result<bool, Self::Error>;

    /// Gives so many: all or none.
    ///
    /// # Errors
    /// Its own.
    fn up(&self, n: u32) -> Result<(), Self::Error>;

    /// How many it has. A look, not a promise.
    fn value(&self) -> u32;
}

/// How the caches are to be.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many processors may have one. 0: there are none, and the middle decides alone, for ever.
    pub caches: usize,
    /// How much goes into one.
    pub room: u32,
    /// So many are to be in the middle before there are caches.
    pub many: u32,
    /// For so many returns in a row, with no waiter.
    pub calm: u32,
}

/// The protocol, around any semaphore.
pub struct Sharded<C> {
    mode: AtomicU32,
    /// How many are about to sleep in the middle, or do.
    waiting: AtomicU32,
    /// How many returns there were in a row that found enough. Racing counts are no harm.
    calm: AtomicU32,
    shape: Shape,
    caches: Box<[Cache]>,
    central: C,
}

impl<C: Central> Sharded<C> {
    /// Around this one. Without sequences there are no caches, whatever the shape says.
    pub fn new(central: C, mut shape: Shape) -> Sharded<C> {
        // I5.
        rseq::prepare();
        latch::prepare();
        if shape.caches > 0 && !gate::sequences() {
            shape.caches = 0;
        }
        let sharded = shape.caches > 0 && central.value() >= shape.many;
        Sharded {
            mode: AtomicU32::new(if sharded { SHARDED } else { CENTRAL }),
            waiting: AtomicU32::new(0),
            calm: AtomicU32::new(0),
            shape,
            caches: (0..shape.caches).map(|_| Cache(AtomicU32::new(0))).collect(),
            central,
        }
    }

    /// Whether it has caches at this moment. A look, not a promise.
    pub fn is_sharded(&self) -> bool {
        // Relaxed: a look.
        self.mode.load(Ordering::Relaxed) == SHARDED
    }

    /// How many permits there are in caches and in the middle. A look, not a promise: one that is swept just now may be missed.
    pub fn available(&self) -> u32 {
        // Relaxed: a look.
        let cached = self.caches.iter().map(|c| c.0.load(Ordering::Relaxed)).fold(0, u32::saturating_add);
        self.central.value().saturating_add(cached)
    }

    /// What is in the middle.
    pub fn central(&self) -> &C {
        &self.central
    }

    #[inline(always)]
    pub(super) fn take(&self) -> bool {
        // I5.
        !self.caches.is_empty() && section::take(&self.mode, &self.caches)
    }

    #[inline(always)]
    pub(super) fn give(&self) -> bool {
        // I5.
        !self.caches.is_empty() && section::give(&self.mode, &self.caches, self.shape.room)
    }

    /// Takes a permit if there is one for which no thread waits.
    #[inline(always)]
    pub fn try_down(&self) -> bool {
        self.take() || self.try_down_slowly()
    }

    #[inline(never)]
    fn try_down_slowly(&self) -> bool {
        self.enter();
        // What is in others' caches is there, too.
        self.central.try_down() || (self.has_caches() && self.gather() && self.central.try_down())
    }

    /// Takes a permit, waiting at most until then (monotonic, ns). False: the time was up.
    ///
    /// # Errors
    /// The middle's.
    #[inline(always)]
    pub fn down(&self, deadline: Option<u64>) -> Result<bool, C::Error> {
        if self.take() { Ok(true) } else { self.down_slowly(deadline) }
    }

    #[inline(never)]
    pub(super) fn down_slowly(&self, deadline: Option<u64>) -> Result<bool, C::Error> {
        self.enter();
        if self.central.try_down() {
            return Ok(true);
        }
        // E1 SeqCst.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let taken = self.wait(deadline);
        // Relaxed: later is no harm.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        taken
    }

    fn wait(&self, deadline: Option<u64>) -> Result<bool, C::Error> {
        while !self.gather() {
            // I4, R1.
            let moment = clock::now().saturating_add(MOMENT_NS);
            if self.take() || self.central.down(Some(deadline.unwrap_or(u64::MAX).min(moment)))? {
                return Ok(true);
            }
            if deadline.is_some_and(|d| d <= clock::now()) {
                return Ok(false);
            }
        }
        self.central.down(deadline)
    }

    /// Gives a permit.
    ///
    /// # Errors
    /// The middle's.
    #[inline(always)]
    pub fn up(&self) -> Result<(), C::Error> {
        if self.give() { Ok(()) } else { self.up_slowly() }
    }

    #[inline(never)]
    pub(super) fn up_slowly(&self) -> Result<(), C::Error> {
        // Without `enter`: a signal handler may be here.
        self.central.up(1)?;
        if self.shape.caches > 0 {
            self.share_again();
        }
        Ok(())
    }

    /// Gives several, to the middle.
    ///
    /// # Errors
    /// The middle's.
    pub fn up_many(&self, n: u32) -> Result<(), C::Error> {
        self.central.up(n)?;
        if self.shape.caches > 0 {
            self.share_again();
        }
        Ok(())
    }

    /// Makes sure that the thread has an area, if this library registers areas.
    #[inline]
    fn enter(&self) {
        if self.shape.caches > 0 && rseq::cpu().is_none() {
            rseq::enter();
        }
    }

    fn has_caches(&self) -> bool {
        // Relaxed: where it is wrong, `gather` finds out.
        self.mode.load(Ordering::Relaxed) != CENTRAL
    }

    /// CENTRAL, and so it stays while the caller waits: true. False: another is at it, or the caller cannot (I4).
    fn gather(&self) -> bool {
        // E1 SeqCst.
        let seen = self.mode.load(Ordering::SeqCst);
        if seen == CENTRAL || seen == sweeping() {
            return seen == CENTRAL;
        }
        // I6.
        latch::begin().is_some_and(|_sweep| self.gather_apart_from_forks())
    }

    fn gather_apart_from_forks(&self) -> bool {
        let mine = sweeping();
        loop {
            // E1 SeqCst.
            let seen = self.mode.load(Ordering::SeqCst);
            if seen == CENTRAL || seen == mine {
                return seen == CENTRAL;
            }
            // I2, E2 SeqCst: one only. What another process's thread has begun is begun anew.
            if self.mode.compare_exchange(seen, mine, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                let whole = self.sweep();
                // SeqCst: behind what was swept.
                self.mode.store(if whole { CENTRAL } else { STUCK }, Ordering::SeqCst);
                return whole;
            }
        }
    }

    /// Empties the caches into the middle. False: not all.
    fn sweep(&self) -> bool {
        let mut whole = true;
        let everywhere = rseq::fence(None);
        for (cpu, cache) in (0..).zip(&self.caches) {
            // R1: else each for itself.
            if !everywhere && !rseq::fence(Some(cpu)) && !sections::visit(cpu) {
                whole = false;
                continue;
            }
            // Acquire: with what was done before it was given. No other thread touches it (I2).
            let n = cache.0.swap(0, Ordering::Acquire);
            if n > 0 && self.central.up(n).is_err() {
                // Too many for the middle now: they stay where they can be taken, until there is room.
                cache.0.store(n, Ordering::Relaxed); // Relaxed: I2.
                whole = false;
            }
        }
        whole
    }

    /// After a return to the middle: are there caches again?
    #[inline]
    fn share_again(&self) {
        // Relaxed: only whether it is worth a try.
        if self.mode.load(Ordering::Relaxed) != CENTRAL {
            return;
        }
        // Relaxed, both: as above.
        if self.waiting.load(Ordering::Relaxed) != 0 || self.central.value() < self.shape.many {
            self.calm.store(0, Ordering::Relaxed);
            return;
        }
        // Relaxed, both: a count.
        let calm = self.calm.load(Ordering::Relaxed) + 1;
        self.calm.store(calm, Ordering::Relaxed);
        if calm >= self.shape.calm {
            self.share();
        }
    }

    #[cold]
    fn share(&self) {
        self.calm.store(0, Ordering::Relaxed); // Relaxed: a count.
        // A thread that cannot undo it does not begin (I3): now, while a fork is under way (I6), or at all.
        let Some(_sweep) = latch::begin() else { return };
        if !rseq::fence(None) {
            return;
        }
        // E1 SeqCst, both: then the look at the waiters.
        if self.mode.compare_exchange(CENTRAL, SHARDED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            && self.waiting.load(Ordering::SeqCst) != 0
        {
            self.gather_apart_from_forks();
        }
    }
}
