//! Where processes wait for the conditions of a monitor (nonblocking-real-time, figure 2): to wait is to unlock, to go down, and to lock again.
//!
//! The lock is another's: here is who is inside, and a slot for each member that waits. Signals are Mesa's: who was called looks at its condition again.
//!
//! | a slot's phase | by | |
//! |---|---|---|
//! | IDLE | the member, inside again, or when it gives up; who makes up for its death | |
//! | WAITING | the member, inside | it is about to leave, or sleeps on this word |
//! | CALLED | who is inside; who makes up for a death | it is about to enter, or sleeps and is about to be woken |
//!
//! ```text
//!   state: turn:24 | condition:6 | phase:2          inside: generation:32 | member + 1:32, 0: nobody
//! ```
//!
//! Invariants:
//! - I1: a member goes WAITING inside, before it leaves. So who comes inside after it finds it, and no signal comes between its leaving and its sleep unseen.
//! - I2: WAITING ends by one swap of the whole word. So who gives up has either taken itself off, or was called, and a signal goes to one.
//! - I3: CALLED goes IDLE inside. A call is not lost with the called: of one that dies before it is inside, who makes up for it calls the next of its condition. (One that dies while it
//!   makes up for that has called one too many: that one looks, and waits again.)
//! - I4: `inside` names who is inside from after its lock until before its unlock. Of one that died there, all who wait are called, by who comes inside next or by who
//!   makes up for the death: they learn from the lock that the data is torn. `inside` goes on only after that.
//! - I5: a caller that died before the wake is made up for by a wake of all that are CALLED.
//! - I6: who removes the monitor marks it first and calls all then; who waits says so first and looks at the mark then. One sees the other.
//!
//! Ordering edges: what is done inside is ordered by the lock. E1 (release/acquire) the ticket before WAITING: who makes up for a death looks without the lock. E2 (release/acquire)
//! a call before what the called does.
//!
//! Progress: blocking; calling is one look at the slots that were ever used. Deaths: above. Explored: `tests/crash_monitor.rs`, with a robust lock of the explorer's. Left
//! out: one that was stopped in recovery for 2^24 waits of one member.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::step;
use std::marker::PhantomData;
use std::ptr::NonNull;

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const CALLED: u32 = 2;
const PHASE: u32 = 3;
const CONDITION: u32 = 63;
const TURN: u32 = 1 << 8;

/// How many conditions there can be.
pub const MOST_CONDITIONS: u32 = 16;
/// The most bytes of a condition's name.
pub const NAME: usize = 32;
/// The most bytes of data.
pub const MOST_BYTES: u32 = 1 << 20;

/// Who.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The number.
    pub index: u16,
    /// Of which of those that have it in turn.
    pub generation: u32,
}

impl Member {
    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | (u64::from(self.index) + 1)
    }
}

/// What a room is made for. All who use it say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many members may wait.
    pub members: u32,
    /// How many conditions there are.
    pub conditions: u32,
    /// Of the data, which lies behind.
    pub bytes: u32,
}

impl Shape {
    /// Whether there can be such a room.
    pub fn is_possible(self) -> bool {
        (1..=1 << 13).contains(&self.members) && self.conditions <= MOST_CONDITIONS && self.bytes <= MOST_BYTES
    }

    /// The bytes of the room itself: then come the conditions' names.
    pub fn room(self) -> usize {
        (size_of::<Head>() + self.members as usize * size_of::<Slot>()).next_multiple_of(64)
    }

    /// Where the lock is: behind the names.
    pub fn lock_at(self) -> usize {
        self.room() + (self.conditions as usize * NAME).next_multiple_of(64)
    }
}

#[repr(C, align(64))]
struct Head {
    /// The last that was given.
    ticket: AtomicU64,
    inside: AtomicU64,
    /// Slots beyond this one were never used.
    used: AtomicU64,
}

#[repr(C)]
struct Slot {
    ticket: AtomicU64,
    state: AtomicU32,
    spare: AtomicU32,
}

/// A wait, as it was announced: the state's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced(u32);

/// Where members wait, in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Room<'a> {
    head: NonNull<Head>,
    slots: NonNull<Slot>,
    shape: Shape,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: all that is shared is atomic words.
unsafe impl Send for Room<'_> {}
// SAFETY: as above.
unsafe impl Sync for Room<'_> {}

impl<'a> Room<'a> {
    /// The room at a place. Zeroed memory is one where nobody is or waits.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as the shape says, for as long as `'a`, which nothing touches but by atomic words.
    ///
    /// # Panics
    /// If there can be no such room.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Room<'a> {
        assert!(shape.is_possible(), "a room of {shape:?}");
        // SAFETY: within the bytes that the caller promises.
        let slots = unsafe { place.add(size_of::<Head>()) }.cast();
        Room { head: place.cast(), slots, shape, memory: PhantomData }
    }

    /// What it is made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    fn head(&self) -> &'a Head {
        // SAFETY: the caller of `new` promises it.
        unsafe { self.head.as_ref() }
    }

    fn slots(&self) -> &'a [Slot] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr(), self.shape.members as usize) }
    }

    /// Those that were ever used.
    fn used(&self) -> &'a [Slot] {
        // Acquire: before what is read there.
        let used = self.head().used.load(Ordering::Acquire) as usize;
        &self.slots()[..used.min(self.slots().len())]
    }

    fn slot(&self, me: Member) -> &'a Slot {
        &self.slots()[usize::from(me.index) % self.slots().len()]
    }

    /// The member has the lock now: it is inside.
    pub fn enter(&self, me: Member) {
        let inside = &self.head().inside;
        // Acquire: I4.
        if inside.load(Ordering::Acquire) != 0 {
            step!("finds one that died inside");
            self.call_all();
        }
        inside.store(me.word(), Ordering::Release); // Release: I4, after the calls.
    }

    /// It is about to unlock.
    pub fn leave(&self) {
        self.head().inside.store(0, Ordering::Release); // Release: I4.
    }

    /// Whether it is inside, or died there and nobody knows yet.
    pub fn is_inside(&self, me: Member) -> bool {
        // Acquire: I4.
        self.head().inside.load(Ordering::Acquire) == me.word()
    }

    /// I1: says, inside, that it is going to wait for a condition.
    pub fn announce(&self, me: Member, condition: u32) -> Announced {
        let (head, slot) = (self.head(), self.slot(me));
        // Relaxed, all: under the lock.
        let ticket = head.ticket.load(Ordering::Relaxed) + 1;
        head.ticket.store(ticket, Ordering::Relaxed); // Relaxed: as above.
        head.used.fetch_max(u64::from(me.index) + 1, Ordering::AcqRel); // AcqRel: before the state.
        slot.ticket.store(ticket, Ordering::Relaxed); // Relaxed: E1, published by the state.
        let turn = (slot.state.load(Ordering::Relaxed) & !(TURN - 1)).wrapping_add(TURN); // Relaxed: its own.
        let state = turn | (condition & CONDITION) << 2 | WAITING;
        // SeqCst: E1; I6, before the look whether the monitor is in service.
        slot.state.swap(state, Ordering::SeqCst);
        Announced(state)
    }

    /// Sleeps, outside, until it is called, or until the deadline. Answers whether it was called; if not, it waits no more.
    pub fn rest(&self, me: Member, wait: Announced, deadline: Option<u64>) -> bool {
        let state = &self.slot(me).state;
        loop {
            // Acquire: E2.
            if state.load(Ordering::Acquire) != wait.0 {
                return true;
            }
            if futex::wait(state, wait.0, deadline, Scope::Shared) == Wait::TimedOut {
                let idle = wait.0 & !PHASE | IDLE;
                // Relaxed: I2: it takes itself off. Acquire: E2: it was called.
                return state.compare_exchange(wait.0, idle, Ordering::Relaxed, Ordering::Acquire).is_err();
            }
        }
    }

    /// I3: inside again: the call was heard.
    pub fn heard(&self, me: Member) {
        let state = &self.slot(me).state;
        // Relaxed: its own, and CALLED.
        let idle = state.load(Ordering::Relaxed) & !PHASE | IDLE;
        state.store(idle, Ordering::Release); // Release: I3, after `inside`.
    }

    /// Calls who has waited for the condition longest, if anybody does.
    pub fn signal(&self, condition: u32) -> bool {
        loop {
            let waiting = self.used().iter().filter_map(|slot| {
                // Acquire: E1.
                let state = slot.state.load(Ordering::Acquire);
                let is_it = state & PHASE == WAITING && state >> 2 & CONDITION == condition;
                is_it.then(|| (slot.ticket.load(Ordering::Relaxed), slot, state)) // Relaxed: E1.
            });
            let Some((_, slot, state)) = waiting.min_by_key(|(ticket, ..)| *ticket) else { return false };
            if call(slot, state) {
                return true;
            }
        }
    }

    /// Calls all who wait for the condition.
    pub fn broadcast(&self, condition: u32) {
        self.call_those(|state| state >> 2 & CONDITION == condition);
    }

    /// I4, I6.
    pub fn call_all(&self) {
        self.call_those(|_| true);
    }

    fn call_those(&self, whom: impl Fn(u32) -> bool) {
        for slot in self.used() {
            // SeqCst: E1; I6, after the monitor was marked as removed.
            let state = slot.state.load(Ordering::SeqCst);
            if state & PHASE == WAITING && whom(state) {
                // It gave up, or was called: one of the two is as good.
                call(slot, state);
            }
        }
    }

    /// Makes up for the death of a member. `is_dead` says that this is not yet done. When this has come to its end, the number may be given anew.
    pub fn recover(&self, dead: Member, is_dead: impl Fn() -> bool) {
        let inside = &self.head().inside;
        if self.is_inside(dead) && is_dead() {
            step!("it died inside: all are to be called");
            self.call_all();
            // AcqRel: I4, after the calls. Relaxed, a failure: another has seen to it.
            let _ = inside.compare_exchange(dead.word(), 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        let slot = self.slot(dead);
        loop {
            // Acquire: before the look whether it is dead.
            let state = slot.state.load(Ordering::Acquire);
            if state & PHASE == IDLE || !is_dead() {
                break;
            }
            if state & PHASE == CALLED {
                // I3.
                self.signal(state >> 2 & CONDITION);
                step!("called the next in the place of the dead");
            }
            // AcqRel: I3. Relaxed, a failure: it was called meanwhile.
            let _ = slot.state.compare_exchange(state, state & !PHASE | IDLE, Ordering::AcqRel, Ordering::Relaxed);
        }
        // I5.
        for slot in self.used() {
            // Acquire: E1.
            if slot.state.load(Ordering::Acquire) & PHASE == CALLED {
                futex::wake(&slot.state, 1, Scope::Shared);
            }
        }
    }

    /// Whether a member waits and was not called, for onlookers.
    #[cfg(feature = "sim")]
    pub fn waits(&self, me: Member) -> bool {
        self.slot(me).state.load(Ordering::Relaxed) & PHASE == WAITING // Relaxed: when all is over.
    }

    /// Names its words, for stories.
    #[cfg(feature = "sim")]
    pub fn each_word(&self, name: &mut dyn FnMut(&'a AtomicU32, String, fn(u64) -> String)) {
        for (i, slot) in self.slots().iter().enumerate() {
            name(&slot.state, format!("state of {i}"), |v| {
                let phase = ["idle", "waiting", "called", "nonsense"][(v & u64::from(PHASE)) as usize];
                format!("{phase}, condition {}, turn {}", v >> 2 & u64::from(CONDITION), v >> 8)
            });
        }
    }
}

/// I2.
fn call(slot: &Slot, state: u32) -> bool {
    step!("sees one that waits, not yet called");
    // AcqRel: E2. Relaxed, a failure: looked at again.
    let called = state & !PHASE | CALLED;
    if slot.state.compare_exchange(state, called, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    step!("called, not yet woken");
    futex::wake(&slot.state, 1, Scope::Shared);
    true
}
