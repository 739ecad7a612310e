//! Bias: a private lock can prefer one thread, its *owner*, which then locks and unlocks it with plain stores until another thread comes.
//!
//! Evidence, section 4 (the thread-biased lock). The aim is that of netbsd-restartable-sequences: mutual exclusion without a locked
//! instruction. No restartable sequence is needed: the owner stores, then looks; a thread that revokes the bias (the *revoker*) does the
//! same, with a fence whose cost falls on the revoker alone (`plat::fence`). Only private mutexes and private pools of one permit can be
//! biased: the fence reaches the threads of this process only, so stores of another process would be missed. Semaphores cannot be
//! biased: an `up` in a signal handler would come between a load and a store.
//!
//! Terms: `book/src/glossary.md`. Other threads do not see a biased lock as held or free. Its word
//! names the owner, and a word of the owner's, its *hold*, says whether the owner is inside. A
//! thread has one hold for each object that there can be. Only that thread writes its holds, and
//! their memory is never unmapped. So a late store by a thread that was stopped between its look
//! and its store changes no other thread's state. (If the hold belonged to the object, the late
//! store would unlock the lock of the next owner.)
//!
//! The lock's word while it is biased (all other words are the mutex's and the owner cell's):
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-2 | tag | that of FREE: 0 in a pool, 5 in a mutex |
//! | 3-27; of a mutex 3-23 | kept | the cell's version, the mutex's number: as in the word before |
//! | 28-43; 24-39 | owner | the member's number plus one: a free word has zeros there, so a biased word differs from it |
//! | 44-62; 40-62 | epoch | the low bits of a number of the bias: one more each time |
//! | 63 | REVOKING | a revoker is taking the bias away |
//!
//! (A cell's epoch has fewer bits. Between two biases the holder gives the permit back, so that the
//! cell's version rises too.)
//!
//! ```text
//!                  grant (by the holder)                 revoke                   hold: OUTSIDE
//!   HELD m,g ----------------------------> BIASED m,e ---------> REVOKING m,e -----+----------> FREE
//!                                           |      ^                               | INSIDE
//!                  enter: hold INSIDE, look |      | leave: hold OUTSIDE, look     +----------> HELD m,g
//!                                           +------+
//! ```
//!
//! - I1: only the thread that the word names writes its hold. INSIDE means: it is inside, or is about to look whether it is.
//! - I2: a thread that wants anything of the lock but the owner's entering and leaving first
//!   *settles* the word, that is, revokes a bias that it may say: to change the word, the thread
//!   loads it through [`settled`]. Any number of revokers may be at work, and none waits for
//!   another: each sets REVOKING or finds it set, fences, reads the hold, and swaps that very word.
//!   So a bias of one epoch has one outcome.
//! - I3: the owner looks at the word again after each store to its hold, and goes on only if the lock is still biased to it. REVOKING
//!   after entering: it makes itself the holder by a compare-and-swap, or finds that a revoker has made it the holder, or that it came
//!   too late; then it takes its store back. REVOKING after leaving: it makes the lock free by a compare-and-swap, or finds that it
//!   was made the holder, and unlocks as any holder.
//! - I4: only the holder grants a bias. Before that it writes the epoch and its generation into its
//!   own hold. So they are true of the epoch that the word names; a thread that read them for
//!   another epoch fails to swap. A thread from which a permit was taken by force in the middle of
//!   a grant writes no other thread's hold. Beside the word, a record lies in the object's name
//!   words (a private object has no name). `name[2]` is the address of the hold of the last thread
//!   that was about to grant: the owner's, or that of such a thread (not in a mutex, which is never
//!   taken by force). `name[3]` counts the epochs. `name[4]` says how many acquisitions the next
//!   grant takes: the maker and the revokers write it.
//! - I5: nobody waits for a lock that is biased: a waiter settles the word after it has set its
//!   wait bit, and the granter of a bias looks at the bits after the grant. So the owner need not
//!   look at them. (If the granter did not look, a pool's waiter that had seen the cell HELD would
//!   sleep, and the owner would leave without waking it.)
//! - I6: the end of a thread, a fork's child and taking by force settle the word first, and then treat the lock as held or free.
//!   Recovery of one thread leaves a lock alone that is biased to another. A bias of the calling thread or of a dead one is
//!   settled without the fence: the stores of these are visible.
//! - E1, SeqCst by the two fences: the owner's store to its hold comes before its look at the word; the store of REVOKING comes before the
//!   revoker's look at the hold. At least one of the two sees the other.
//! - E2, release: the hold's store at leaving publishes what was done inside. Acquire: the revoker reads the hold before it
//!   makes the lock free for others.
//!
//! A thread gets the bias when it was inside at so many samples in a row (one in [`EVERY`] acquisitions is a sample) that the bias would
//! have paid for a revocation: after [`FIRST`] acquisitions at first, twice as many after each revocation of a bias that did not pay,
//! half as many after one that paid twice over ([`SAVES_NS`]), and never more than [`MOST`]. So it neither thrashes nor sticks.
//!
//! Measured (`bench ras`): see `docs/benchmarks.md`. A signal handler may lock what its thread is
//! just locking, if it unlocks before it returns. Either its thread is inside by then, and the
//! handler gets the deadlock error, as without a bias; or it is not, and the handler has the lock
//! to itself. If a handler returned with the lock, the thread that it interrupted between the look
//! at its hold and the store would not see that.
//!
//! Blocking is that of the lock. Entering and leaving by a bias take two stores and a look at most
//! while no thread revokes. Otherwise entering, leaving and revoking are lock-free: they begin
//! again only if the word has changed meanwhile. Revoking executes the system call of the fence.
//!
//! Explored: `tests/crash_bias.rs`, `tests/loom_bias.rs`.

pub(crate) use chappe_wait::holds::Holds;
pub use chappe_wait::holds::biases;

use chappe_arena::Map;
use chappe_arena::layout::Object;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{clock, fence, step};
use chappe_wait::cell;
use chappe_wait::cell::Word;
use chappe_wait::holds::{EVERY, Hold};
use chappe_wait::owner;

const TAG: u64 = 7;
const REVOKING: u64 = 1 << 63;

/// How a kind's words are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Form {
    /// The tags.
    free: u64,
    held: u64,
    /// What a bias keeps.
    kept: u64,
    member_at: u32,
    /// Of the epoch, up to REVOKING.
    epoch_at: u32,
}

const MUTEX: Form = Form {
    free: owner::FREE,
    held: owner::HELD,
    kept: owner::KEPT,
    member_at: owner::MEMBER_AT,
    epoch_at: owner::AUX_AT,
};
const CELL: Form = Form { free: 0, held: 1, kept: cell::KEPT, member_at: cell::MEMBER_AT, epoch_at: cell::AUX_AT };

impl Form {
    /// Of a word that is free or biased.
    #[inline(always)]
    const fn of(word: u64) -> Form {
        if word & TAG == CELL.free { CELL } else { MUTEX }
    }
    #[inline(always)]
    const fn epochs(self) -> u64 {
        !REVOKING & u64::MAX << self.epoch_at
    }
    /// The member in a word.
    #[inline(always)]
    const fn member(self, word: u64) -> u32 {
        (word >> self.member_at) as u32 & cell::NOBODY
    }
}

/// At first, the bias is granted after so many acquisitions in a row.
const FIRST: u64 = 256;
/// The most acquisitions that it ever takes.
const MOST: u64 = 1 << 16;
/// In [`Object::run`]: the samples in a row of a member, whose number plus one is above them.
const SAMPLES: u32 = 16;
const MOST_SAMPLES: u32 = (1 << SAMPLES) - 1;
const _: () = assert!(MOST / (EVERY as u64) < MOST_SAMPLES as u64);
/// What each entering and leaving by a bias saves: two swaps. A bias has paid if it has saved more than its revocation takes (a system
/// call, and the interrupt that it sends: half a microsecond to thirty), which is measured.
const SAVES_NS: u64 = 8;
/// The values of a hold.
const INSIDE: u32 = 1;
const OUTSIDE: u32 = 0;

/// Whether private mutexes and pools of one permit may become biased to a thread that uses them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bias {
    /// Where it pays, unless `CHAPPE_BIAS` is `off` in the environment or the kernel lacks the fence.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What is beside the word of a private object, in the place of its name, which is empty.
struct Record<'a>(&'a Object);

impl Record<'_> {
    /// The address of the hold of the last thread that was about to grant.
    fn hold(&self) -> &AtomicU64 {
        &self.0.name[2]
    }
    /// How many epochs there were.
    fn epochs(&self) -> &AtomicU64 {
        &self.0.name[3]
    }
    /// How many acquisitions in a row the next grant takes; 0: never biased.
    fn terms(&self) -> &AtomicU64 {
        &self.0.name[4]
    }

    /// # Safety
    /// The object is private: then the address is that of a hold, of some thread. Holds are never unmapped.
    #[cfg(not(feature = "sim"))]
    unsafe fn there(&self) -> Option<&Hold> {
        // Relaxed: I4, a thread that acts on it has seen, or swaps, the word of its epoch.
        let at = self.hold().load(Ordering::Relaxed) as *const Hold;
        // SAFETY: the caller's promise.
        unsafe { at.as_ref() }
    }
}

/// The word of a lock that is biased to this member, without the epoch; `free` is any word of the lock.
#[inline(always)]
fn biased(free: u64, form: Form, member: u32) -> u64 {
    // The member plus one: 0 is nobody.
    form.free | free & form.kept | u64::from(member.wrapping_add(1)) << form.member_at
}

/// The word of a mutex that is biased to this member: `number` is that of its words.
#[inline(always)]
pub(crate) fn mutex(number: u64, member: u32) -> u64 {
    biased(number, MUTEX, member)
}

/// The word of a pool's first cell, which held, or would hold, the permit `held`.
#[inline(always)]
pub(crate) fn cell(held: Word, member: u32) -> u64 {
    biased(held.0, CELL, member)
}

#[inline(always)]
fn raw(o: &Object) -> u64 {
    // Relaxed: a thread that acts on it fences, or swaps the exact word.
    o.slot.word.load(Ordering::Relaxed)
}

#[inline(always)]
fn is(word: u64, mine: u64) -> bool {
    (word ^ mine) & !Form::of(mine).epochs() == 0
}

/// The owner that a word names, if it is biased.
fn owner(word: u64) -> Option<u32> {
    let (form, free) = (Form::of(word), matches!(word & TAG, 0 | 5));
    (free && form.member(word) != 0).then(|| form.member(word).wrapping_sub(1))
}

/// The owner's hold, if the word names one.
fn hold_of<'m>(map: &'m Map, o: &Object, word: u64) -> Option<&'m Hold> {
    let member = owner(word).filter(|member| *member < map.geometry().members)?;
    let holds = Holds::known(map, member);
    if holds.is_none() {
        return None;
    }
    let bytes = std::ptr::from_ref(o).addr() - std::ptr::from_ref(map.object(0)).addr();
    let hold = holds.0.wrapping_add(bytes / size_of::<Object>());
    // SAFETY: the owner's, mapped for as many objects as there can be, and never unmapped.
    unsafe { hold.as_ref() }
}

/// Whether a cell's word is biased.
#[inline(always)]
pub(crate) fn is_biased(word: Word) -> bool {
    word.0 & TAG == CELL.free && CELL.member(word.0) != 0
}

/// The owner of the bias, if there is one. Only a look: changes nothing.
#[inline]
pub(crate) fn owner_of(map: &Map, o: &Object) -> Option<u32> {
    if map.is_private() { owner(raw(o)) } else { None }
}

/// Enters, if the lock is biased to the calling thread: `mine` is the word that says so. False: not entered, for whatever reason.
///
/// # Safety
/// The holds are the calling thread's, in the object's arena, and not null if `mine` names a member.
#[inline(always)]
pub(crate) unsafe fn enter(o: &Object, object: u32, mine: u64, holds: Holds) -> bool {
    let seen = raw(o);
    if !is(seen, mine) {
        return false;
    }
    // SAFETY: the caller's promise; a thread with a bias has holds.
    let hold = unsafe { holds.at(object) };
    // Relaxed, both: the thread's own, and E1 by the fence. Constants are stored, so that no entering waits for the last leaving's store.
    if hold.inside.load(Ordering::Relaxed) == INSIDE {
        return false;
    }
    hold.inside.store(INSIDE, Ordering::Relaxed); // Relaxed: as above.
    fence::light_alone();
    hold.entered.store(hold.entered.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed); // Relaxed: a count.
    // The very word: a handler may meanwhile have had the bias granted anew, and have left.
    raw(o) == seen || enter_late(o, hold, mine)
}

/// I3: the bias is going, or has just gone.
#[cold]
#[inline(never)]
fn enter_late(o: &Object, hold: &Hold, mine: u64) -> bool {
    loop {
        // Acquire: what it says was written before.
        let seen = o.slot.word.load(Ordering::Acquire);
        if is(seen, mine) {
            // A handler of this thread had it granted anew: once more.
            hold.inside.store(INSIDE, Ordering::Relaxed); // Relaxed: as in `enter`.
            fence::light_alone();
            if raw(o) == seen {
                return true;
            }
        } else if is(seen, mine | REVOKING) {
            // SeqCst: as all swaps of the word.
            if o.slot.word.compare_exchange(seen, held(hold, seen), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return true;
            }
        } else if is_held_by_it(hold, seen, mine) {
            return true;
        } else {
            hold.inside.store(OUTSIDE, Ordering::Relaxed); // Relaxed: read only for a bias of this thread's.
            return false;
        }
    }
}

/// Leaves, if the calling thread is inside by the bias: `mine` as in [`enter`]. False: it has the lock without a bias.
#[inline(always)]
pub(crate) fn leave(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    if !map.is_private() || !is(raw(o) & !REVOKING, mine) {
        return false;
    }
    // The thread's own hold, whatever the record beside the word points to by now: the permit may have been taken away by force.
    let holds = Holds::known(map, Form::of(mine).member(mine) - 1);
    // SAFETY: a thread with a bias has holds, and the word names the calling thread.
    let hold = unsafe { holds.at(object) };
    leave_by(map, o, object, mine, hold)
}

/// As [`leave`], of a private lock that is never taken from its holder by force: then the record beside the word is that of the holder's bias.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub(crate) fn leave_own(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    if !is(raw(o) & !REVOKING, mine) {
        return false;
    }
    let record = Record(o);
    // SAFETY: private, as the caller promises. I4: the hold is this thread's, which is inside.
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

/// I3: the bias is going, or has just gone.
#[cold]
#[inline(never)]
fn leave_late(map: &Map, o: &Object, object: u32, mine: u64) -> bool {
    loop {
        // Acquire: what it says was written before.
        let seen = o.slot.word.load(Ordering::Acquire);
        if !is(seen, mine | REVOKING) {
            // This thread is the holder by now, and has to unlock; or the lock is free, another's, or biased anew.
            return !hold_of(map, o, mine).is_some_and(|hold| is_held_by_it(hold, seen, mine));
        }
        // SeqCst: as all swaps of the word.
        if o.slot.word.compare_exchange(seen, free(o, seen), Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            step!("left a lock that was to be unbiased");
            if map.waits_on(object, o) {
                chappe_wait::kinds::drain(map, object);
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
    // SAFETY: the caller's promise; a thread with a bias has holds.
    let hold = unsafe { holds.at(object) };
    hold.inside.load(Ordering::Relaxed) == INSIDE // Relaxed: the thread's own.
}

/// Whether the owner was inside a moment ago, of an object that is biased. Only a look: takes nothing away. That is enough for a thread that
/// only tries; a waiter settles the word after it has set its bit (I5).
pub(crate) fn was_inside(map: &Map, o: &Object) -> Option<bool> {
    let seen = raw(o);
    if !map.is_private() || owner(seen).is_none() {
        return None;
    }
    // Relaxed: a moment ago.
    let inside = hold_of(map, o, seen).is_some_and(|h| h.inside.load(Ordering::Relaxed) == INSIDE);
    (raw(o) == seen).then_some(inside)
}

/// The word that says that the owner of a bias is the holder.
fn held(hold: &Hold, word: u64) -> u64 {
    // Relaxed: I4.
    let (generation, member) = (hold.owner.load(Ordering::Relaxed) as u32, owner(word).unwrap_or(0));
    match Form::of(word) {
        CELL => Word(word & CELL.kept).held(member, generation).0,
        form => owner::held_by(member, generation) | word & form.kept,
    }
}

/// Whether the word says that the owner of this bias is the holder, whatever its flags.
fn is_held_by_it(hold: &Hold, word: u64, mine: u64) -> bool {
    // The flags of a mutex. A pool's cell has part of its version there, which does not change while the cell is held.
    let flags = if Form::of(mine) == MUTEX { 0x38 } else { 0 };
    (word ^ held(hold, mine)) & !flags == 0
}

/// The word of the free lock. A cell's version goes on, so that it is never the same word as before.
fn free(o: &Object, word: u64) -> u64 {
    if Form::of(word) == CELL { Word(word & CELL.kept).freed().0 } else { owner::freed(o, word) }
}

/// The word without a bias: takes a bias away, if there is one (I2).
#[inline]
pub(crate) fn settled(map: &Map, o: &Object) -> u64 {
    // SeqCst: E1 of the wait queue, after the caller's bit.
    let seen = o.slot.word.load(Ordering::SeqCst);
    if owner(seen).is_none() || !map.is_private() { seen } else { revoke(map, o, None) }
}

/// The same, to clean up after one generation of a member that is the calling thread, or is dead: its stores are visible without a
/// fence. (The call may be late, and the bias that of the slot's next occupant.)
pub(crate) fn settled_of(map: &Map, o: &Object, member: u32, generation: u32) -> u64 {
    // SeqCst: as in `settled`.
    let seen = o.slot.word.load(Ordering::SeqCst);
    if owner(seen).is_none() || !map.is_private() { seen } else { revoke(map, o, Some((member, generation))) }
}

/// Whether the bias that the word names is that of this generation of a member: I4.
fn is_of(hold: &Hold, word: u64, who: (u32, u32)) -> bool {
    // Relaxed: I4, it says of which epoch it is.
    let its = hold.owner.load(Ordering::Relaxed);
    let form = Form::of(word);
    owner(word) == Some(who.0) && its == (word & form.epochs()) >> form.epoch_at << 32 | u64::from(who.1)
}

#[cold]
#[inline(never)]
fn revoke(map: &Map, o: &Object, quiet: Option<(u32, u32)>) -> u64 {
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
        let hold = hold_of(map, o, seen);
        let before = clock::now();
        if !quiet.is_some_and(|who| hold.is_some_and(|hold| is_of(hold, seen, who))) {
            fence::heavy();
        }
        let took = clock::now().saturating_sub(before);
        // E2 acquire: what its owner did inside, when it was there last.
        let inside = hold.filter(|h| h.inside.load(Ordering::Acquire) == INSIDE);
        let to = inside.map_or_else(|| free(o, revoking), |hold| held(hold, revoking));
        // SeqCst: as all swaps of the word. I2: this very epoch's.
        if o.slot.word.compare_exchange(revoking, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            // Relaxed: a measure, not a promise.
            adapt(&Record(o), hold.map_or(0, |h| h.entered.load(Ordering::Relaxed)), took);
            return to;
        }
    }
}

/// A bias was revoked, by which its owner had entered so often; the revocation took so long. Sets how soon it is granted again.
fn adapt(record: &Record<'_>, entered: u32, took: u64) {
    // Relaxed, all: a measure, not a promise.
    let terms = record.terms().load(Ordering::Relaxed);
    let saved = u64::from(entered) * SAVES_NS;
    let next = match () {
        () if saved >= 2 * took => (terms / 2).max(FIRST.min(terms)),
        () if saved < took => (terms * 2).min(MOST),
        () => terms,
    };
    // By a swap, and not from zero: a late revoker may find another object there that must not be biased.
    if terms != 0 && next != terms {
        let _ = record.terms().compare_exchange(terms, next, Ordering::Relaxed, Ordering::Relaxed); // Relaxed: as above.
    }
}

/// Lets a private object be biased. Its maker calls this before any other thread knows the object.
///
/// False: the bias is off, or there is no such fence.
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

/// The form of a lock that is held.
fn form_of_held(word: u64) -> Form {
    if word & TAG == CELL.held { CELL } else { MUTEX }
}

/// Decides whether the calling thread gets a bias from now on. The thread, a member of this generation, has just taken the lock without one;
/// `word` is what the lock says now. Called at one in [`EVERY`] acquisitions.
///
/// # Safety
/// The holds are the calling thread's, in this arena.
#[cold]
#[inline(never)]
pub(crate) unsafe fn consider(map: &Map, o: &Object, object: u32, word: u64, holds: Holds) {
    let record = Record(o);
    let member = form_of_held(word).member(word);
    // Relaxed, these: the holder's.
    let (run, terms) = (o.run.load(Ordering::Relaxed), record.terms().load(Ordering::Relaxed));
    let count = if run >> SAMPLES == member + 1 { (run & MOST_SAMPLES) + 1 } else { 1 };
    if terms == 0 || holds.is_none() {
        return;
    }
    let enough = u64::from(count) * u64::from(EVERY) >= terms;
    // Relaxed: as above.
    o.run.store(if enough { 0 } else { (member + 1) << SAMPLES | count.min(MOST_SAMPLES) }, Ordering::Relaxed);
    if enough {
        // SAFETY: the caller's promise.
        unsafe { grant(map, o, object, word, holds) };
    }
}

/// I4: grants the lock's bias to the calling thread, which holds the lock, and from then on has it by the bias.
///
/// # Safety
/// As for [`consider`].
pub(crate) unsafe fn grant(map: &Map, o: &Object, object: u32, word: u64, holds: Holds) {
    let record = Record(o);
    let form = form_of_held(word);
    let member = form.member(word);
    // Relaxed: the calling thread's own.
    let generation = (map.member(member).ident.load(Ordering::Relaxed) >> 32) as u32;
    // SAFETY: the caller's promise.
    let hold = unsafe { holds.at(object) };
    // Relaxed, all: published by the swap.
    hold.inside.store(INSIDE, Ordering::Relaxed);
    hold.entered.store(0, Ordering::Relaxed); // Relaxed: as above.
    record.hold().store(std::ptr::from_ref(hold) as u64, Ordering::Relaxed); // Relaxed: as above.
    let epoch = record.epochs().fetch_add(1, Ordering::Relaxed).wrapping_add(1) & form.epochs() >> form.epoch_at; // Relaxed: as above.
    hold.owner.store(epoch << 32 | u64::from(generation), Ordering::Relaxed); // Relaxed: as above.
    let to = biased(word, form, member) | epoch << form.epoch_at;
    // SeqCst: I5, before the look at the bits. A mutex with a flag set is not this word.
    if o.slot.word.compare_exchange(word, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        step!("bias granted, bits not yet looked at");
        if map.waits_on(object, o) {
            settled(map, o);
        }
    }
}

/// Whether an object with one holder is biased to another member: then only that one can hold it.
pub(crate) fn is_anothers(map: &Map, object: u32, member: u32) -> bool {
    let o = map.object(object);
    owner_of(map, o).is_some_and(|owner| owner != member)
}
