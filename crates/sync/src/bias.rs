//! The bias of a private lock to a thread: it locks and unlocks with plain stores, until another comes.
//!
//! Evidence, section 4 (the thread-biased lock), and netbsd-restartable-sequences for the aim: mutual exclusion without a locked
//! instruction. No restartable sequence is needed for it: a store, then a look, on one side, and on the other the same with
//! the fence that costs only that side (`plat::fence`). For mutexes and pools of one permit that are private: the fence
//! reaches the threads of this process only, and another's stores would be missed. Semaphores have none: an `up` in a signal
//! handler would come between a load and a store.
//!
//! A lock that somebody has by its bias is not held as the others see it: its word says whose the bias is, and a word of that thread's
//! own, its *hold*, whether it is inside. A thread has one hold for each object there can be, in memory that nobody else ever
//! writes and that stays: so a store that comes late, from a thread that was stopped between its look and its store,
//! changes nothing of anybody else's. (Were the hold the object's, the late store would unlock the next owner's lock.)
//!
//! The lock's word, while it is biased (all else is the mutex's and the owner cell's):
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | tag | that of FREE: 0 in a pool, 5 in a mutex |
//! | 3-27 | kept | the mutex's number, the cell's version: as in the word before |
//! | 28-39 | owner | one more than the member: so a biased word is no free one, whose bits 28 to 63 are zero |
//! | 40-62 | epoch | of the bias: one more each time |
//! | 63 | REVOKING | somebody takes the bias away |
//!
//! ```text
//!                  grant (by the holder)                 revoke                   hold: OUTSIDE
//!   HELD m,g ----------------------------> BIASED m,e ---------> REVOKING m,e -----+----------> FREE
//!                                           |      ^                               | INSIDE
//!                  enter: hold INSIDE, look |      | leave: hold OUTSIDE, look     +----------> HELD m,g
//!                                           +------+
//! ```
//!
//! - I1: only the thread that the word names writes its hold. INSIDE: it is, or is about to look whether it is.
//! - I2: who wants anything else of the lock than its owner's entering and leaving revokes first; whoever loads the
//!   word to change it does so through [`settled`]. Any number may be at it, none waits for another: each sets REVOKING or finds it
//!   set, fences, reads the hold, and swaps that very word. So of the bias of one epoch there is one outcome.
//! - I3: the owner looks at the word again after each store to its hold, and goes on only if it is still biased to it. REVOKING
//!   after entering: it makes itself the holder by a swap, or finds that it was made that, or that it came too
//!   late, and then takes its store back. REVOKING after leaving: it makes the lock free by a swap, or finds itself made the
//!   holder, and unlocks as any holder.
//! - I4: a bias is granted by the holder alone, who has written the record beside the word before. What the record says is
//!   therefore true of the epoch that the word names; who read it for another fails to swap.
//! - I5: nobody waits for a lock that is biased: who has set its wait bit settles the word after that, and who grants a bias
//!   looks at the bits after that. So the owner need not look at them.
//! - I6: a thread's end, a fork's child, a force: they settle the word first, and then do what they do with one that is held or
//!   free. Recovery of one thread leaves alone what is biased to another.
//! - E1, SeqCst by the two fences: the hold's store comes before the owner's look at the word, REVOKING before the look at the
//!   hold. One of the two sees the other.
//! - E2, release: the hold's store at leaving publishes what was done inside; acquire: whoever reads the hold before it
//!   makes the lock free for others.
//!
//! A thread gets the bias when it was the one seen inside in so many samples in a row (one in [`EVERY`] of its acquisitions) that
//! a revocation would have paid. [`FIRST`] acquisitions at first; twice as many after each revocation of a bias that did not
//! pay, half as many after one that did, twice ([`SAVES_NS`]), and never more than [`MOST`]: so it neither thrashes nor sticks.
//!
//! Measured (`bench ras`): see `docs/benchmarks.md`. A signal handler may lock what its thread is just locking, if it unlocks it before it returns: it
//! finds itself inside, as it would with a swap, and is told of the deadlock, or is alone. One that returned with the lock would not be
//! seen by the thread that it had interrupted between its look at its hold and the store. Blocking is that of the lock; entering, leaving and revoking are wait-free,
//! but for the fence's system call.
//!
//! Explored: `tests/crash_bias.rs`, `tests/loom_bias.rs`.

use crate::cell::Word;
use chappe_arena::Map;
use chappe_arena::layout::Object;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::{clock, dir, fence, step};

const TAG: u64 = 7;
const KEPT: u64 = 0x01ff_ffff << 3;
const EPOCH: u64 = 0x7f_ffff << 40;
const REVOKING: u64 = 1 << 63;
/// The tags of a mutex that is free, of one that is held; those of a pool's cell.
const MUTEX: (u64, u64) = (5, 6);
const CELL: (u64, u64) = (0, 1);

/// One of so many acquisitions is looked at: an odd number, lest one of two locks in turn always be passed over.
pub(crate) const EVERY: u32 = 17;
/// After so many acquisitions in a row the bias is granted, at first.
const FIRST: u64 = 256;
/// The most it takes.
const MOST: u64 = 1 << 16;
/// What entering and leaving by a bias saves, each time: two swaps. A bias has paid that has saved more than its revocation takes (a system
/// call, and the interrupt that it sends: half a microsecond to thirty), which is measured.
const SAVES_NS: u64 = 8;
/// What a hold says.
const INSIDE: u32 = 1;
const OUTSIDE: u32 = 0;

/// Whether private mutexes and pools of one permit may become biased to a thread that uses them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bias {
    /// Where it pays: unless `CHAPPE_BIAS` is `off` in the environment, or the kernel lacks the fence.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Whether locks may be biased, as far as the environment says: `CHAPPE_BIAS=off` is the switch. Read once, without a lock: a
/// handler may ask, or a forked child.
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub fn biases() -> bool {
    const ON: u32 = 1;
    const OFF: u32 = 2;
    static SWITCH: AtomicU32 = AtomicU32::new(0);
    // Relaxed: whoever looks finds the same.
    match SWITCH.load(Ordering::Relaxed) {
        ON => true,
        OFF => false,
        _ => {
            let on = std::env::var_os("CHAPPE_BIAS").is_none_or(|v| v != "off");
            SWITCH.store(if on { ON } else { OFF }, Ordering::Relaxed); // Relaxed: as above.
            on
        }
    }
}

/// What is explored has no environment.
#[cfg(any(feature = "sim", feature = "loom"))]
pub fn biases() -> bool {
    true
}

/// What is beside the word of a private object. Its name is empty.
struct Record<'a>(&'a Object);

impl Record<'_> {
    /// The address of the owner's hold.
    fn hold(&self) -> &AtomicU64 {
        &self.0.name[2]
    }
    /// `the epoch:32 | the owner's generation:32`.
    fn owner(&self) -> &AtomicU64 {
        &self.0.name[3]
    }
    /// How many acquisitions in a row it takes; 0: never.
    fn terms(&self) -> &AtomicU64 {
        &self.0.name[4]
    }

    /// # Safety
    /// The object is private: then the address is that of a hold, of whomever. Holds stay.
    unsafe fn there(&self) -> Option<&Hold> {
        // Relaxed: I4, whoever acts on it has seen, or swaps, the word of its epoch.
        let at = self.hold().load(Ordering::Relaxed) as *const Hold;
        // SAFETY: the caller's promise.
        unsafe { at.as_ref() }
    }
}

/// What a thread says of one lock. Its own: others only read it.
#[repr(C)]
struct Hold {
    /// INSIDE or OUTSIDE.
    inside: AtomicU32,
    /// How many times it has entered by this bias.
    entered: AtomicU32,
}

/// A thread's holds in one private arena: the first of as many as there can be objects. None: it has none, and gets no bias.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holds(*const Hold);

// SAFETY: an address of atomic words that stay; only their thread is told to use them.
unsafe impl Send for Holds {}
// SAFETY: as above.
unsafe impl Sync for Holds {}

impl Holds {
    pub const NONE: Holds = Holds(std::ptr::null());

    /// Whether there are none.
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Those of a member, who is the calling thread. They stay with its slot, for the next occupant.
    pub fn of(map: &Map, member: u32) -> Holds {
        // Where there is no such fence, or nobody wants it, none are needed.
        fence::prepare();
        if !map.is_private() || !biases() || !fence::is_asymmetric() {
            return Holds::NONE;
        }
        let its = &map.member(member).holds;
        // Relaxed, both: the occupant's own.
        let known = its.load(Ordering::Relaxed);
        if known != 0 {
            return Holds(known as *const Hold);
        }
        let Ok(base) = dir::map_private(map.geometry().objects as usize * size_of::<Hold>()) else {
            return Holds::NONE;
        };
        its.store(base as u64, Ordering::Relaxed); // Relaxed: as above.
        Holds(base.cast::<Hold>().cast_const())
    }

    /// Those that a member has, who has been granted a bias.
    #[inline(always)]
    fn known(map: &Map, member: u32) -> Holds {
        // Relaxed: written before the first grant.
        Holds(map.member(member).holds.load(Ordering::Relaxed) as *const Hold)
    }

    /// # Safety
    /// The calling thread's, in the arena of which `object` is one; and there are any.
    #[inline(always)]
    unsafe fn at(&self, object: u32) -> &Hold {
        // SAFETY: mapped for so many, and never unmapped; zeros are words.
        unsafe { &*self.0.add(object as usize) }
    }
}

/// The word of a lock that is biased to this member, the epoch aside; `free` is any word of the lock's.
#[inline(always)]
fn biased(free: u64, kind: (u64, u64), member: u32) -> u64 {
    kind.0 | free & KEPT | u64::from(member.wrapping_add(1)) << 28
}

/// The word of a mutex that is biased to this member: `number` is that of its words.
#[inline(always)]
pub(crate) fn mutex(number: u64, member: u32) -> u64 {
    biased(number, MUTEX, member)
}

/// What a member adds to the free word of a lock that is biased to it.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub(crate) fn addition(member: u32) -> u64 {
    u64::from(member.wrapping_add(1)) << 28
}

/// The same of a pool's first cell, which held the permit `held`, or would hold it.
#[inline(always)]
pub(crate) fn cell(held: Word, member: u32) -> u64 {
    biased(held.0, CELL, member)
}

#[inline(always)]
fn raw(o: &Object) -> u64 {
    // Relaxed: whoever acts on it fences, or swaps the exact word.
    o.slot.word.load(Ordering::Relaxed)
}

#[inline(always)]
fn is(word: u64, mine: u64) -> bool {
    (word ^ mine) & !EPOCH == 0
}

/// Whose bias a word says that it is.
fn owner(word: u64) -> Option<u32> {
    let free = matches!(word & TAG, 0 | 5);
    (free && word >> 28 != 0).then(|| ((word >> 28) as u32 & 0xfff).wrapping_sub(1))
}

/// Whether a cell's word is biased.
#[inline(always)]
pub(crate) fn is_biased(word: Word) -> bool {
    word.0 & TAG == CELL.0 && word.0 >> 28 != 0
}

/// Whose bias it is: a look, that changes nothing.
#[inline]
pub(crate) fn owner_of(map: &Map, o: &Object) -> Option<u32> {
    if map.is_private() { owner(raw(o)) } else { None }
}

/// Enters, if the lock is biased to the calling thread: `mine` is the word that says so. False says nothing.
///
/// # Safety
/// The holds are the calling thread's, in the object's arena; there are any if `mine` names a member.
#[inline(always)]
pub(crate) unsafe fn enter(o: &Object, object: u32, mine: u64, holds: Holds) -> bool {
    let seen = raw(o);
    if !is(seen, mine) {
        return false;
    }
    // SAFETY: the caller's promise; whoever has a bias has holds.
    let hold = unsafe { holds.at(object) };
    // Relaxed, both: the thread's own, and E1 by the fence. Constants are stored, lest each entering wait for the last leaving.
    if hold.inside.load(Ordering::Relaxed) == INSIDE {
        return false;
    }
    hold.inside.store(INSIDE, Ordering::Relaxed); // Relaxed: as above.
    fence::light_alone();
    hold.entered.store(hold.entered.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed); // Relaxed: a count.
    // The very word: a handler may have had the bias granted anew meanwhile, and have left.
    raw(o) == seen || enter_late(o, hold, mine)
}

/// I3: the bias goes, or has gone, just now.
#[cold]
#[inline(never)]
fn enter_late(o: &Object, hold: &Hold, mine: u64) -> bool {
    loop {
        // Acquire: what it says was written before.
        let seen = o.slot.word.load(Ordering::Acquire);
        if is(seen, mine) {
            // Granted anew, by a handler of this thread's: once more.
            hold.inside.store(INSIDE, Ordering::Relaxed); // Relaxed: as in `enter`.
            fence::light_alone();
            if raw(o) == seen {
                return true;
            }
        } else if is(seen, mine | REVOKING) {
            // SeqCst: as all swaps of the word.
            if o.slot.word.compare_exchange(seen, held(o, seen), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return true;
            }
        } else if is_held_by_it(o, seen, mine) {
            return true;
        } else {
            hold.inside.store(OUTSIDE, Ordering::Relaxed); // Relaxed: nobody looks at it but for a bias of this thread's.
            return false;
        }
    }
}

/// Leaves, if the calling thread is inside by the bias: `mine` as in [`enter`]. False: it has the lock as others have it.
#[inline(always)]
pub(crate) fn leave(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    if !map.is_private() || !is(raw(o) & !REVOKING, mine) {
        return false;
    }
    // Its own, wherever the record beside the word points by now: the permit may have been taken away by force.
    let holds = Holds::known(map, (mine >> 28) as u32 - 1);
    // SAFETY: whoever has a bias has holds, and the word names the calling thread.
    let hold = unsafe { holds.at(object) };
    leave_by(map, o, object, mine, hold)
}

/// As [`leave`], of a private lock that nobody takes from its holder: then the record beside the word is that of his bias.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub(crate) fn leave_own(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    if !is(raw(o) & !REVOKING, mine) {
        return false;
    }
    let record = Record(o);
    // SAFETY: private, by the caller's word. I4: it is this thread's, which is inside.
    let Some(hold) = (unsafe { record.there() }) else { return false };
    leave_by(map, o, object, mine, hold)
}

#[inline(always)]
fn leave_by(map: &Map, o: &Object, object: u32, mine: u64, hold: &Hold) -> bool {
    // E2 release: what was done inside.
    hold.inside.store(OUTSIDE, Ordering::Release);
    fence::light_alone();
    is(raw(o), mine) || leave_late(map, o, object, mine)
}

/// I3: the bias goes, or has gone, just now.
#[cold]
#[inline(never)]
fn leave_late(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    loop {
        // Acquire: what it says was written before.
        let seen = o.slot.word.load(Ordering::Acquire);
        if !is(seen, mine | REVOKING) {
            // The holder by now, and that is to be given up; or it is free, or another's, or biased anew.
            return !is_held_by_it(o, seen, mine);
        }
        // SeqCst: as all swaps of the word.
        if o.slot.word.compare_exchange(seen, free(seen), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            step!("left a lock that was to be unbiased");
            if map.waits_on(object, o) {
                crate::kinds::drain(map, object);
            }
            return true;
        }
    }
}

/// Whether the calling thread is inside by the bias: `mine` as in [`enter`].
///
/// # Safety
/// The word's member is the calling thread, in this arena.
pub(crate) unsafe fn is_inside(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    if !map.is_private() || !is(raw(o) & !REVOKING, mine) {
        return false;
    }
    let holds = Holds::known(map, owner(mine).unwrap_or(0));
    // SAFETY: the caller's promise; whoever has a bias has holds.
    let hold = unsafe { holds.at(object) };
    hold.inside.load(Ordering::Relaxed) == INSIDE // Relaxed: the thread's own.
}

/// Whether the owner was inside a moment ago, of an object that is biased; a look, that takes nothing away. Who only tries need
/// not ask for more than that; who waits settles the word when it has set its bit (I5).
pub(crate) fn was_inside(map: &Map, o: &Object) -> Option<bool> {
    let seen = raw(o);
    if !map.is_private() || owner(seen).is_none() {
        return None;
    }
    let record = Record(o);
    // SAFETY: private, as was just seen: then the address is that of a hold, and holds stay.
    let hold = unsafe { record.there() };
    // Relaxed: a moment ago.
    let inside = hold.is_some_and(|h| h.inside.load(Ordering::Relaxed) == INSIDE);
    (raw(o) == seen).then_some(inside)
}

fn kind(word: u64) -> (u64, u64) {
    if word & TAG == CELL.0 { CELL } else { MUTEX }
}

/// The word in which the owner of a bias is the holder.
fn held(o: &Object, word: u64) -> u64 {
    // Relaxed: I4.
    let generation = Record(o).owner().load(Ordering::Relaxed) & 0xff_ffff;
    kind(word).1 | word & KEPT | (u64::from(owner(word).unwrap_or(0)) << 28) | generation << 40
}

/// Whether the word says that the owner of this bias is the holder, whatever its flags.
fn is_held_by_it(o: &Object, word: u64, mine: u64) -> bool {
    // Those of a mutex; a pool's cell has part of its version there, which does not change while somebody has it.
    let flags = if kind(mine) == MUTEX { 0x38 } else { 0 };
    (word ^ held(o, mine)) & !flags == 0
}

/// The word in which nobody has it. A cell's version goes on, so that it never is the same word as before.
fn free(word: u64) -> u64 {
    if kind(word) == CELL { Word(word & KEPT).freed().0 } else { MUTEX.0 | word & KEPT }
}

/// The word, biased to nobody: takes a bias away, if there is one (I2).
#[inline]
pub(crate) fn settled(map: &Map, o: &Object) -> u64 {
    // SeqCst: E1 of the wait queue, after the caller's bit.
    let seen = o.slot.word.load(Ordering::SeqCst);
    if owner(seen).is_none() || !map.is_private() { seen } else { revoke(o, None) }
}

/// The same, for what a generation of a member leaves that is the calling thread, or is dead: its stores need no fence to be
/// seen. (It may be late, and the bias that of the slot's next occupant.)
pub(crate) fn settled_of(map: &Map, o: &Object, member: u32, generation: u32) -> u64 {
    // SeqCst: as in `settled`.
    let seen = o.slot.word.load(Ordering::SeqCst);
    if owner(seen).is_none() || !map.is_private() { seen } else { revoke(o, Some((member, generation))) }
}

/// Whether the bias that the word tells of is this generation's of a member: I4.
fn is_of(o: &Object, word: u64, who: (u32, u32)) -> bool {
    // Relaxed: I4, it says of which epoch it is.
    let its = Record(o).owner().load(Ordering::Relaxed);
    owner(word) == Some(who.0) && its == (word & EPOCH) >> 40 << 32 | u64::from(who.1 & 0xff_ffff)
}

#[cold]
#[inline(never)]
fn revoke(o: &Object, quiet: Option<(u32, u32)>) -> u64 {
    let record = Record(o);
    loop {
        // SeqCst: as in `settled`.
        let seen = o.slot.word.load(Ordering::SeqCst);
        if owner(seen).is_none() {
            return seen;
        }
        let revoking = seen | REVOKING;
        // SeqCst: E1, before the fence.
        if seen != revoking && o.slot.word.compare_exchange(seen, revoking, Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            continue;
        }
        step!("bias about to go");
        let before = clock::now();
        if !quiet.is_some_and(|who| is_of(o, seen, who)) {
            fence::heavy();
        }
        let took = clock::now().saturating_sub(before);
        // SAFETY: private: the caller has seen to it.
        let hold = unsafe { record.there() };
        // E2 acquire: what its owner did inside, when it was there last.
        let said = hold.map_or(OUTSIDE, |h| h.inside.load(Ordering::Acquire));
        let to = if said == INSIDE { held(o, revoking) } else { free(revoking) };
        // SeqCst: as all swaps of the word. I2: this very epoch's.
        if o.slot.word.compare_exchange(revoking, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            // Relaxed: a measure, not a promise.
            adapt(&record, hold.map_or(0, |h| h.entered.load(Ordering::Relaxed)), took);
            return to;
        }
    }
}

/// A bias has gone, by which its owner had entered so often, and that took so long: how soon is it granted again?
fn adapt(record: &Record<'_>, entered: u32, took: u64) {
    // Relaxed, all: a measure, not a promise.
    let terms = record.terms().load(Ordering::Relaxed);
    let saved = u64::from(entered) * SAVES_NS;
    let next = match () {
        () if saved >= 2 * took => (terms / 2).max(FIRST.min(terms)),
        () if saved < took => (terms * 2).min(MOST),
        () => terms,
    };
    // By a swap, and not of zero: who comes late may find another object there, that is not to be biased.
    if terms != 0 && next != terms {
        let _ = record.terms().compare_exchange(terms, next, Ordering::Relaxed, Ordering::Relaxed); // Relaxed: as above.
    }
}

/// Lets a private object be biased. Its maker calls it, before anybody has it.
///
/// False: it is not to be, or there is no such fence.
pub(crate) fn allow(map: &Map, o: &Object, bias: Bias) -> bool {
    if bias == Bias::Off || !map.is_private() || !biases() {
        return false;
    }
    fence::prepare();
    if fence::is_asymmetric() {
        Record(o).terms().store(FIRST, Ordering::Relaxed); // Relaxed: nobody else has it yet.
    }
    fence::is_asymmetric()
}

/// Lets a private object be biased at its first acquisition.
#[cfg(any(feature = "sim", feature = "loom"))]
pub(crate) fn at_once(o: &Object) {
    Record(o).terms().store(1, Ordering::Relaxed); // Relaxed: nobody else has it yet.
}

/// The calling thread, a member of this generation, has just taken the lock as others do; `word` is what the lock says now. One
/// of [`EVERY`] times it is asked here whether it should have it by a bias from now on.
///
/// # Safety
/// The holds are the calling thread's, in this arena.
#[cold]
#[inline(never)]
pub(crate) unsafe fn consider(map: &Map, o: &Object, object: u32, word: u64, holds: Holds) {
    let record = Record(o);
    let member = (word >> 28) as u32 & 0xfff;
    // Relaxed, these: the holder's.
    let (run, terms) = (o.run.load(Ordering::Relaxed), record.terms().load(Ordering::Relaxed));
    let count = if run >> 20 == member + 1 { (run & 0xf_ffff) + 1 } else { 1 };
    if terms == 0 || holds.is_none() {
        return;
    }
    let enough = u64::from(count) * u64::from(EVERY) >= terms;
    // Relaxed: as above.
    o.run.store(if enough { 0 } else { (member + 1) << 20 | count.min(0xf_ffff) }, Ordering::Relaxed);
    if enough {
        // SAFETY: the caller's promise.
        unsafe { grant(map, o, object, word, holds) };
    }
}

/// I4: gives the lock's bias to the calling thread, which holds it, and then has it by that.
///
/// # Safety
/// As for [`consider`].
pub(crate) unsafe fn grant(map: &Map, o: &Object, object: u32, word: u64, holds: Holds) {
    let record = Record(o);
    let kind = if word & TAG == CELL.1 { CELL } else { MUTEX };
    let (member, generation) = ((word >> 28) as u32 & 0xfff, word >> 40);
    // SAFETY: the caller's promise.
    let hold = unsafe { holds.at(object) };
    // Relaxed, all: published by the swap.
    hold.inside.store(INSIDE, Ordering::Relaxed);
    hold.entered.store(0, Ordering::Relaxed); // Relaxed: as above.
    record.hold().store(std::ptr::from_ref(hold) as u64, Ordering::Relaxed); // Relaxed: as above.
    let epoch = ((record.owner().load(Ordering::Relaxed) >> 32) + 1) & (EPOCH >> 40); // Relaxed: as above.
    record.owner().store(epoch << 32 | generation, Ordering::Relaxed); // Relaxed: as above.
    let to = biased(word, kind, member) | epoch << 40;
    // SeqCst: I5, before the look at the bits. A mutex with a flag set is not this word.
    if o.slot.word.compare_exchange(word, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        step!("bias granted, bits not yet looked at");
        if map.waits_on(object, o) {
            settled(map, o);
        }
    }
}
