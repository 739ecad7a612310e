//! Where processes wait for the conditions of a monitor (nonblocking-real-time, figure 2): to wait is to unlock, to go down, and to lock again.
//!
//! The lock is elsewhere. Here are the member that is *inside* (holds the lock), and a slot for each member that waits. To *call* a
//! waiter is to signal it. Signals are Mesa's: a called thread checks its condition again.
//!
//! | a slot's phase | set by | |
//! |---|---|---|
//! | IDLE | the member, inside again or when it gives up; a recoverer of its death | |
//! | WAITING | the member, inside | it is about to leave, or sleeps on this word |
//! | CALLED | the member inside; a recoverer of a death | it is about to enter, or sleeps and is about to be woken |
//!
//! ```text
//!   state: turn:24 | condition:6 | phase:2          inside: generation:32 | member + 1:32, 0: nobody
//! ```
//!
//! Invariants:
//! - I1: a member goes WAITING inside, before it leaves. So the next member inside finds it, and no signal between its leaving and its
//!   sleep is lost.
//! - I2: WAITING ends by one swap of the whole word. So a member that gives up has either withdrawn, or was called; and a signal goes to
//!   one member.
//! - I3: CALLED goes IDLE inside. A call is not lost with a called member that dies before it is inside: the recoverer calls the next
//!   waiter of its condition. (A recoverer that dies in doing so may have called one waiter too many: that one checks its condition, and
//!   waits again.)
//! - I4: `inside` names the member inside, from after its lock until before its unlock. If it died there, the next member inside or a
//!   recoverer calls all waiters: they learn from the lock that the data is torn. Only after that does `inside` change.
//! - I5: a recoverer of any death wakes all slots that are CALLED, in case the caller died before its wake.
//! - I6: the remover of the monitor marks it first and then calls all waiters; a waiter announces itself first and then looks at the
//!   mark. One sees the other.
//! - I7: a recoverer may be late: others have made up for the death, and the slots are later members'. So it calls a member only if the death was still to
//!   be made up for after it had read the member's slot. (The memory is the monitor's: it visits, as does a thread that finds the monitor removed: arena, visit.rs.)
//!
//! Ordering edges: the lock orders what is done inside. E1 (release/acquire) the ticket before WAITING: a recoverer looks without the
//! lock. E2 (release/acquire) a call before what the called member does.
//!
//! Progress: blocking; a call looks once at the slots that were ever used. Deaths: above. Explored: `tests/crash_monitor.rs`, with a
//! robust lock of the explorer's. Left out: a thread that was stopped in recovery for 2^24 waits of one member.

use crate::stamp::Stamp;
use chappe_arena::Visit;
use chappe_arena::layout::MAX_MEMBERS;
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
type Turn = Stamp<8, 24>;

/// The most conditions of a monitor.
pub const MOST_CONDITIONS: u32 = 16;
/// The most bytes of a condition's name.
pub const NAME: usize = 32;
/// The most bytes of data.
pub const MOST_BYTES: u32 = 1 << 20;

/// A member of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub index: u16,
    /// Which of the successive users of that number it is.
    pub generation: u32,
}

impl Member {
    fn word(self) -> u64 {
        u64::from(self.generation) << 32 | (u64::from(self.index) + 1)
    }
}

/// The dimensions of a room. All its users give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many members can wait.
    pub members: u32,
    /// How many conditions there are.
    pub conditions: u32,
    /// The bytes of data, which lie behind.
    pub bytes: u32,
}

impl Shape {
    /// Whether a room can have this shape.
    pub fn is_possible(self) -> bool {
        (1..=MAX_MEMBERS).contains(&self.members) && self.conditions <= MOST_CONDITIONS && self.bytes <= MOST_BYTES
    }

    /// The size of the room itself; the conditions' names follow.
    pub fn room(self) -> usize {
        (size_of::<Head>() + self.members as usize * size_of::<Slot>()).next_multiple_of(64)
    }

    /// The offset of the lock, behind the names.
    pub fn lock_at(self) -> usize {
        self.room() + (self.conditions as usize * NAME).next_multiple_of(64)
    }
}

#[repr(C, align(64))]
struct Head {
    /// The last ticket that was given.
    ticket: AtomicU64,
    inside: AtomicU64,
    /// The slots from this one on were never used.
    used: AtomicU64,
}

#[repr(C)]
struct Slot {
    ticket: AtomicU64,
    state: AtomicU32,
    spare: AtomicU32,
}

/// A wait that was announced: the word of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced(u32);

/// The place where members wait, in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Room<'a> {
    head: NonNull<Head>,
    slots: NonNull<Slot>,
    shape: Shape,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: all shared memory is atomic words.
unsafe impl Send for Room<'_> {}
// SAFETY: as above.
unsafe impl Sync for Room<'_> {}

impl<'a> Room<'a> {
    /// The room at a place. In zeroed memory it is one without a member inside and without waiters.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, there are as many bytes as the shape says, for as long as `'a`, and they are accessed as atomic words only.
    ///
    /// # Panics
    /// If no room can have this shape.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Room<'a> {
        assert!(shape.is_possible(), "a room of {shape:?}");
        // SAFETY: within the bytes that the caller promises.
        let slots = unsafe { place.add(size_of::<Head>()) }.cast();
        Room { head: place.cast(), slots, shape, memory: PhantomData }
    }

    /// Its shape.
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

    /// The slots that were ever used.
    fn used(&self) -> &'a [Slot] {
        // Acquire: before what is read there.
        let used = self.head().used.load(Ordering::Acquire) as usize;
        &self.slots()[..used.min(self.slots().len())]
    }

    fn slot(&self, me: Member) -> &'a Slot {
        &self.slots()[usize::from(me.index) % self.slots().len()]
    }

    /// The member has just taken the lock: it is inside.
    pub fn enter(&self, me: Member) {
        let inside = &self.head().inside;
        // Acquire: I4.
        if inside.load(Ordering::Acquire) != 0 {
            step!("finds one that died inside");
            self.call_all();
        }
        inside.store(me.word(), Ordering::Release); // Release: I4, after the calls.
    }

    /// The member inside is about to unlock.
    pub fn leave(&self) {
        self.head().inside.store(0, Ordering::Release); // Release: I4.
    }

    /// Whether the member is inside, or died there and was not recovered yet.
    pub fn is_inside(&self, me: Member) -> bool {
        // Acquire: I4.
        self.head().inside.load(Ordering::Acquire) == me.word()
    }

    /// I1: announces, inside, that the member is going to wait for a condition.
    pub fn announce(&self, me: Member, condition: u32) -> Announced {
        let (head, slot) = (self.head(), self.slot(me));
        // Relaxed, all: under the lock.
        let ticket = head.ticket.load(Ordering::Relaxed) + 1;
        head.ticket.store(ticket, Ordering::Relaxed); // Relaxed: as above.
        head.used.fetch_max(u64::from(me.index) + 1, Ordering::AcqRel); // AcqRel: before the state.
        slot.ticket.store(ticket, Ordering::Relaxed); // Relaxed: E1, published by the state.
        let turn = Turn::next(Turn::alone(slot.state.load(Ordering::Relaxed).into())) as u32; // Relaxed: its own.
        let state = turn | (condition & CONDITION) << 2 | WAITING;
        // SeqCst: E1; I6, before the look whether the monitor is in service.
        slot.state.swap(state, Ordering::SeqCst);
        Announced(state)
    }

    /// Sleeps, outside, until the member is called, or until the deadline. Returns whether it was called; if not, it no longer waits.
    pub fn rest(&self, me: Member, wait: Announced, deadline: Option<u64>) -> bool {
        let state = &self.slot(me).state;
        loop {
            // Acquire: E2.
            if state.load(Ordering::Acquire) != wait.0 {
                return true;
            }
            if futex::wait(state, wait.0, deadline, Scope::Shared) == Wait::TimedOut {
                let idle = wait.0 & !PHASE | IDLE;
                // Relaxed: I2: it withdraws. Acquire: E2: it was called.
                return state.compare_exchange(wait.0, idle, Ordering::Relaxed, Ordering::Acquire).is_err();
            }
        }
    }

    /// I3: inside again: the call has arrived.
    pub fn heard(&self, me: Member) {
        let state = &self.slot(me).state;
        // Relaxed: its own, and CALLED.
        let idle = state.load(Ordering::Relaxed) & !PHASE | IDLE;
        state.store(idle, Ordering::Release); // Release: I3, after `inside`.
    }

    /// Calls the waiter that has waited for the condition longest. False: there is none.
    pub fn signal(&self, condition: u32) -> bool {
        self.signal_while(condition, &|| true)
    }

    /// The same, by a recoverer: I7.
    fn signal_while(&self, condition: u32, may: &dyn Fn() -> bool) -> bool {
        loop {
            let waiting = self.used().iter().filter_map(|slot| {
                // Acquire: E1.
                let state = slot.state.load(Ordering::Acquire);
                let is_it = state & PHASE == WAITING && state >> 2 & CONDITION == condition;
                is_it.then(|| (slot.ticket.load(Ordering::Relaxed), slot, state)) // Relaxed: E1.
            });
            let Some((_, slot, state)) = waiting.min_by_key(|(ticket, ..)| *ticket) else { return false };
            if !may() {
                return false;
            }
            if call(slot, state) {
                return true;
            }
        }
    }

    /// Calls all waiters of the condition.
    pub fn broadcast(&self, condition: u32) {
        self.call_those(|state| state >> 2 & CONDITION == condition, &|| true);
    }

    /// I4, I6: calls all waiters.
    pub fn call_all(&self) {
        self.call_those(|_| true, &|| true);
    }

    /// I4: calls all waiters, while `may`.
    fn call_all_while(&self, may: &dyn Fn() -> bool) {
        self.call_those(|_| true, may);
    }

    fn call_those(&self, is_called: impl Fn(u32) -> bool, may: &dyn Fn() -> bool) {
        for slot in self.used() {
            // SeqCst: E1; I6, after the monitor was marked as removed.
            let state = slot.state.load(Ordering::SeqCst);
            if state & PHASE == WAITING && is_called(state) && may() {
                // On failure it gave up or was called by another: either will do.
                call(slot, state);
            }
        }
    }

    /// Recovers the death of a member, while `is_dead` says that this is not yet done. When this returns, the number may be reused.
    pub fn recover(&self, _: &Visit<'_>, dead: Member, is_dead: impl Fn() -> bool) {
        let inside = &self.head().inside;
        if self.is_inside(dead) && is_dead() {
            step!("it died inside: all are to be called");
            self.call_all_while(&is_dead);
            // AcqRel: I4, after the calls. Relaxed, a failure: another recoverer has done it.
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
                self.signal_while(state >> 2 & CONDITION, &is_dead);
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

    /// Whether a member waits and was not called, for observers in tests.
    #[cfg(feature = "sim")]
    pub fn waits(&self, me: Member) -> bool {
        self.slot(me).state.load(Ordering::Relaxed) & PHASE == WAITING // Relaxed: when all is over.
    }

    /// Names its words, for traces.
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

/// I2: calls one waiter. False: its state has changed.
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
