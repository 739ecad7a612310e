//! A lock that is biased to a processor: locking there is one section without a locked instruction, unlocking a plain store.
//!
//! netbsd-restartable-sequences, sections 2 and 5: mutual exclusion by a test-and-set that the kernel restarts. In the paper it is among
//! all threads of the machine's only processor; here, among those on the processor to which the lock is biased. A thread on another
//! processor first takes the bias away (the paper's authors left multiprocessors to interlocked instructions).
//!
//! | word | bits | |
//! |---|---|---|
//! | `word` | 0-31 | 0 free; 1 held; `HELD_FAST` held by a thread that came through the section |
//! | | 32-63 | epoch: how many times it was biased |
//! | `bias` | | a processor's number; that with `REVOKED`: it is being taken away; `NOBODY`; `NEVER` |
//! | `parking` | | the waiters |
//! | `habits` | | when to bias the lock to a processor: the holder's alone |
//!
//! ```text
//!             holder: epoch + 1, then            any thread
//!   NOBODY --------------------------> cpu -----------------> cpu | REVOKED
//!     ^                                                            |
//!     +------------------------ holder ----------------------------+
//!
//!   lock, on that cpu               lock, elsewhere                                  unlock
//!     section:                        read word, then bias                             HELD_FAST: word = 0, plainly
//!       word = 0?                     bias is a cpu: take it away; fence(that cpu)     else: swap(word, 0)
//!       bias = this cpu?                                                               a waiter? wake one
//!       word = HELD_FAST              word free? compare-and-swap, the epoch with it
//! ```
//!
//! The section and its unlocking write only the low half: were the epoch carried through, each load would wait for a store of another size
//! (3.4 ns instead of 1.2).
//!
//! - I1: a section that has not yet stored is aborted when its thread leaves its processor. So at most one section is under way on a
//!   processor, and none spans another thread's step there.
//! - I2: `bias` becomes a processor's number only from NOBODY, by the holder, after a new epoch. So a thread that has read the word first,
//!   then the bias, and then finds the epoch unchanged, knows that no bias was given in between.
//! - I3 (proof): a thread has a proof for an epoch if it has read the epoch, then read that the bias is REVOKED (or revoked it), and *then*
//!   has had a fence on that processor, or was there itself. It knows that no section of that epoch will store any more: those under way
//!   were aborted, those that begin see the bias gone. It may compare-and-swap the word of that epoch.
//! - I4: REVOKED is ended only by a holder that did not come through a section. If it finds REVOKED, it came by a proof (had it seen
//!   NOBODY, a bias would have been given since, and its epoch be over: I2). So a bias never ends under a section that might still store,
//!   and none ends that was given since.
//! - I5: fast holders and other holders release the same word; only the holder writes it while it is held.
//! - I6: a section arms itself in the thread's area, whose place is unknown before `rseq::prepare`: offset 0 is the C library's memory. So
//!   a lock is created as NEVER, at which no section begins, unless the gate has found sequences.
//!
//! Races:
//!
//! - R1 two threads take the bias away at once: both fence, each for itself; only a holder ends REVOKED (I4).
//! - R2 a slow locker has seen NOBODY, and is late: meanwhile another holder gave a bias, and unlocked. The word is free again and a
//!   section may be under way. The epoch differs: the locker's compare-and-swap fails (I2).
//! - R3 a holder unlocks with a plain store, and its look at `parking` may come first: a sleeper would be missed. A thread that is about to
//!   sleep on HELD_FAST makes the kernel fence *all* processors (the holder may have moved) after it has entered.
//! - R4 the kernel refuses the fence now (a filter was installed for this thread). Then a thread gets its proof by moving to that
//!   processor; a thread that may not do that either sleeps for a moment and tries again. The bias is REVOKED by then: the next thread that
//!   comes there from that processor has a proof by being there, and ends it, as does a thread that can fence. The lock is then never
//!   biased again. So two threads never hold it, and the only thread that can be stuck is one that may neither fence nor move there, on a
//!   lock that no other thread uses any more.
//! - R5 a thread is single-stepped: its section is aborted each time. It makes one attempt a call, and takes the slow path.
//!
//! - E1 (acquire/release): the section's load of the word against the store of any unlocking.
//! - E2: a slow locker's load of the word, then that of the bias.
//! - E3: the store of the epoch, then that of the bias.
//! - E4: of unlocking and entering: `parking`, E1, by R3's fence.
//!
//! Blocking. A dead holder is not noticed (private memory: the process is gone, too). After fork, a lock that another thread held stays
//! held in the child. The counts of waiters stay as well: the child then makes wakes that reach no waiter, and gives no bias there (slower,
//! not wrong). The child of `vfork` is in its parent's memory, and must not use it.
//!
//! Explored: `tests/crash_lock.rs`, with sections of three steps on virtual processors. Left out there: signals (a section is aborted when
//! its thread is moved instead), weak memory beyond store buffers.

use super::parking::Parking;
use super::patience::{Habits, look_with};
use super::raw::{HELD_FAST, Outcome, RawLock};
use super::section;
use crate::gate;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, low_half, pause};
use chappe_plat::{clock, rseq, sections};
use std::cell::UnsafeCell;

/// Held by a thread that came another way.
const HELD: u32 = 1;
const EPOCH: u64 = 1 << 32;

/// No processor has this number, nor has an area without one.
const NOBODY: u32 = 0x8000_0000;
/// As above, and it never will be biased: locking and unlocking are those of the plain lock.
const NEVER: u32 = 0x8000_0001;
/// Added to a processor's number.
const REVOKED: u32 = 0x4000_0000;

/// How long a thread that can neither fence nor sleep safely sleeps at a time.
const NAP_NS: u64 = 1_000_000;
/// How many times a thread looks whether another thread that is at it has taken the bias away.
#[cfg(not(feature = "sim"))]
const WATCHES: u32 = 200;
#[cfg(feature = "sim")]
const WATCHES: u32 = 1;

/// The biased lock. On one line of the cache.
#[repr(C, align(64))]
pub struct RawCpuLock {
    word: AtomicU64,
    bias: AtomicU32,
    parking: Parking,
    habits: UnsafeCell<Habits>,
}

// SAFETY: `habits` is the holder's alone, and there is one (`RawLock`).
unsafe impl Sync for RawCpuLock {}
// SAFETY: plain words.
unsafe impl Send for RawCpuLock {}

/// What one call has found out so far.
struct Attempt {
    /// It came through the section after all.
    fast: bool,
    /// Whether the section is worth a try.
    sections: bool,
    /// I3: of which epoch.
    proof: Option<u64>,
    /// What it cost to take the bias away.
    cost: Option<u64>,
    /// R4.
    refused: bool,
    watches: u32,
}

fn low(word: u64) -> u32 {
    word as u32
}

impl RawCpuLock {
    /// A free lock without a bias. It is never biased unless `biased` is set and there are sequences. The first lock that may be biased
    /// makes the gate decide, as [`gate::sequences`] says.
    pub fn new(biased: bool) -> RawCpuLock {
        RawCpuLock::with(biased, Habits::new())
    }

    /// A free lock that is biased whenever it was taken so many times in a row on one processor, whatever that has cost: for tests.
    #[doc(hidden)]
    pub fn after(biased: bool, row: u32) -> RawCpuLock {
        RawCpuLock::with(biased, Habits::always(row))
    }

    fn with(biased: bool, habits: Habits) -> RawCpuLock {
        // I6.
        let biased = biased && {
            rseq::prepare();
            gate::sequences()
        };
        RawCpuLock {
            word: AtomicU64::new(0),
            bias: AtomicU32::new(if biased { NOBODY } else { NEVER }),
            parking: Parking::new(),
            habits: UnsafeCell::new(habits),
        }
    }

    /// The processor to which it is biased at this moment. A look, not a promise.
    pub fn biased_to(&self) -> Option<u32> {
        // Relaxed: a look.
        let bias = self.bias.load(Ordering::Relaxed);
        (bias & (NOBODY | REVOKED) == 0).then_some(bias)
    }

    /// Whether a thread holds it that came through the section. A look, not a promise.
    #[doc(hidden)]
    pub fn is_held_fast(&self) -> bool {
        // Relaxed: a look.
        low_half(&self.word).load(Ordering::Relaxed) == HELD_FAST
    }

    /// Whether a thread waits. A look, not a promise.
    #[doc(hidden)]
    pub fn is_awaited(&self) -> bool {
        self.parking.is_awaited()
    }

    /// How many times it was biased so far.
    pub fn biases(&self) -> u32 {
        // Relaxed: a look.
        (self.word.load(Ordering::Relaxed) >> 32) as u32
    }

    #[inline(always)]
    fn section(&self) -> Outcome {
        section::lock(low_half(&self.word), &self.bias)
    }

    /// Whether there will never be a bias.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        // Relaxed: only a holder that did not come through the section stores it, and it never changes again.
        self.bias.load(Ordering::Relaxed) == NEVER
    }

    /// For a plain lock: the low half of the word is enough, and need not be read first.
    #[inline(always)]
    fn take_plainly(&self) -> bool {
        // SeqCst: as in `take`.
        low_half(&self.word).compare_exchange(0, HELD, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    #[inline(never)]
    fn lock_slowly(&self, first: Outcome) {
        let mut a = Attempt::after(first);
        if !self.take(&mut a) && !look_with(&mut a, |a| self.is_free() && self.take(a)) {
            self.wait(&mut a);
        }
        self.settle(&a);
    }

    #[inline(never)]
    fn try_lock_slowly(&self, first: Outcome) -> bool {
        let mut a = Attempt::after(first);
        let taken = self.take(&mut a);
        if taken {
            self.settle(&a);
        }
        taken
    }

    #[inline(always)]
    fn is_free(&self) -> bool {
        // Relaxed: only whether it is worth a try.
        low_half(&self.word).load(Ordering::Relaxed) == 0
    }

    /// One attempt. False: it is held, or no proof is available (then `refused`).
    #[inline]
    fn take(&self, a: &mut Attempt) -> bool {
        loop {
            // E2 SeqCst, both: the word first (I2). And E1 of `parking`, once this thread has entered.
            let seen = self.word.load(Ordering::SeqCst);
            let bias = self.bias.load(Ordering::SeqCst);
            if bias & NOBODY == 0 && a.proof != Some(seen >> 32) {
                match self.take_away(bias, a) {
                    Away::Locked => return true,
                    Away::Busy => return false,
                    Away::Again => continue,
                    Away::Proven => a.proof = Some(seen >> 32),
                }
            }
            if low(seen) != 0 {
                return false;
            }
            // I2, I3: the whole word. SeqCst: acquires what the last holder released.
            if self.word.compare_exchange(seen, seen | u64::from(HELD), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return true;
            }
        }
    }

    /// There is a bias, or was one just now.
    #[cold]
    fn take_away(&self, bias: u32, a: &mut Attempt) -> Away {
        let cpu = bias & !REVOKED;
        let here = || rseq::cpu() == Some(cpu);
        let mut first = false;
        if bias & REVOKED == 0 {
            if a.sections && here() {
                match self.section() {
                    Outcome::Locked => {
                        a.fast = true;
                        return Away::Locked;
                    }
                    Outcome::Busy => return Away::Busy,
                    Outcome::Elsewhere => return Away::Again,
                    Outcome::Aborted => a.sections = false,
                }
            }
            // SeqCst: before the fence, and before the look at the current processor. A failure: another thread changed the bias.
            first = self.bias.compare_exchange(cpu, cpu | REVOKED, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if !first {
                return Away::Again;
            }
        } else if a.watches < WATCHES && !here() {
            // Another thread has its proof soon; then it locks, and there is no bias any more.
            a.watches += 1;
            pause();
            return Away::Again;
        }
        // I3: being here comes after the bias was seen as revoked.
        if here() {
            if first {
                a.cost = Some(0);
            }
            return Away::Proven;
        }
        let began = clock::now();
        if rseq::fence(Some(cpu)) || sections::visit(cpu) {
            if first {
                a.cost = Some(clock::now().saturating_sub(began));
            }
            return Away::Proven;
        }
        a.refused = true;
        Away::Busy
    }

    /// Waits until the caller has the lock.
    fn wait(&self, a: &mut Attempt) {
        self.parking.enter();
        let mut fenced = false;
        loop {
            let seen = self.parking.look();
            a.watches = 0;
            if self.take(a) {
                break;
            }
            // SeqCst: E1 of `parking`.
            let deadline = match low(self.word.load(Ordering::SeqCst)) {
                HELD => None,
                HELD_FAST if fenced => None,
                // R3: once is enough. Every holder that unlocks from now on sees that the caller has entered.
                HELD_FAST => {
                    fenced = rseq::fence(None);
                    if fenced {
                        continue;
                    }
                    Some(clock::now() + NAP_NS)
                }
                // R4.
                _ if a.refused => Some(clock::now() + NAP_NS),
                _ => continue,
            };
            self.parking.sleep(seen, deadline);
        }
        self.parking.leave();
    }

    /// The caller has just taken the lock, and not by its first section. I4.
    #[inline]
    fn settle(&self, a: &Attempt) {
        if a.fast {
            return;
        }
        // SAFETY: the holder's alone, and that is us.
        let habits = unsafe { &mut *self.habits.get() };
        // Relaxed: while it says REVOKED, or NOBODY, only the holder changes it.
        let bias = self.bias.load(Ordering::Relaxed);
        if bias & REVOKED != 0 {
            // I4. Release: before this unlocking's store.
            self.bias.store(NOBODY, Ordering::Release);
        } else if bias == NEVER {
            return;
        }
        if let Some(cost) = a.cost {
            habits.ended(cost);
        }
        if a.refused {
            return self.give_up();
        }
        if habits.taken(rseq::cpu().unwrap_or(NOBODY)) {
            self.give_bias(habits);
        }
    }

    /// Never bias it again. The caller holds it, and there is no bias.
    #[cold]
    fn give_up(&self) {
        // Release: I4, as any end of a bias.
        self.bias.store(NEVER, Ordering::Release);
    }

    #[cold]
    fn give_bias(&self, habits: &mut Habits) {
        if !gate::sequences() {
            return self.give_up();
        }
        // Only threads that come next from here would profit from a bias.
        if self.parking.is_awaited() {
            return;
        }
        let Some(cpu) = rseq::cpu().or_else(|| rseq::enter().then(rseq::cpu).flatten()) else { return };
        // Relaxed: I5, only the holder changes it.
        let seen = self.word.load(Ordering::Relaxed);
        // E3, Release both: the epoch, then the bias (I2).
        self.word.store(seen.wrapping_add(EPOCH), Ordering::Release);
        self.bias.store(cpu, Ordering::Release);
        habits.begun();
    }
}

/// The result of taking a bias away.
enum Away {
    /// The bias is the caller's, and the section has locked.
    Locked,
    /// The bias is the caller's, and the lock is held; or the bias cannot be taken away.
    Busy,
    /// It has changed.
    Again,
    /// I3.
    Proven,
}

impl Attempt {
    fn after(first: Outcome) -> Attempt {
        Attempt {
            fast: false,
            sections: first != Outcome::Aborted,
            proof: None,
            cost: None,
            refused: false,
            watches: 0,
        }
    }
}

// SAFETY: the head of this file.
unsafe impl RawLock for RawCpuLock {
    #[inline(always)]
    fn lock(&self) {
        if self.is_plain() {
            if !self.take_plainly() {
                self.lock_slowly(Outcome::Busy);
            }
            return;
        }
        let outcome = self.section();
        if outcome != Outcome::Locked {
            self.lock_slowly(outcome);
        }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        if self.is_plain() {
            return self.take_plainly();
        }
        let outcome = self.section();
        outcome == Outcome::Locked || self.try_lock_slowly(outcome)
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        let word = low_half(&self.word);
        // Relaxed: I5. The word of a plain lock is not read: that would wait for the locked operation.
        if !self.is_plain() && word.load(Ordering::Relaxed) == HELD_FAST {
            // SAFETY: still the holder's.
            unsafe { (*self.habits.get()).served += 1 };
            // E1 Release: what was done under the lock comes before.
            word.store(0, Ordering::Release);
            // R3: the compiler leaves the order as it is; for the processor's, sleepers fence.
            sections::light();
            if self.parking.is_awaited_by_who_fences() {
                self.parking.tell();
            }
        } else {
            // E1, E4 SeqCst: before the look at the waiters.
            word.swap(0, Ordering::SeqCst);
            if self.parking.is_awaited() {
                self.parking.tell();
            }
        }
    }

    fn is_locked(&self) -> bool {
        !self.is_free()
    }
}
