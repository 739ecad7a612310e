//! The wait queue: which members wait for which objects, in which order they are served, and how a waiter is granted something.
//!
//! In Nix's `altsems` (nix-semaphores-tubes, 2.3.3) a waker marks a process as woken by one test-and-set, so that the process takes exactly
//! one of several wake-ups. Here the mark is one word per member, which also says what was granted. Nix queues under locks shared with the
//! kernel, and wakes out of order. Here there is no queue to lock: an object's queue is a bit set with one bit per member, and the arrival
//! order is a ticket in the member's record. (Pools and semaphores can be made to serve by priority instead: see the discipline.)
//! So nothing can be half-linked, a dead member leaves only a bit without meaning, and a choice over any number of objects needs one record
//! and one bit per object. There is no allocation, and no helping to unlock. (Processes also keep waiters in order: see the batch.)
//!
//! The *granter* is the thread that swaps a waiter's word to GRANTED. A *drainer* looks for waiters of an object and grants what is free.
//! The wait word of a member (`Member::state`), whose low half is the futex it sleeps on:
//!
//! | bits | field | set by |
//! |---|---|---|
//! | 0-1 | phase: IDLE, WAITING, ASLEEP, GRANTED | see below |
//! | 2-24 | the low bits of the wait's number, which rises by one with each wait | the member |
//! | 25 | what was granted has gone back: see units | the thread that takes it back |
//! | 26 | granted by the private arena: in a mixed choice, of which arena the object is | the granter |
//! | 27 | granted an error: the object is dead, or has fewer permits than were asked for | the thread that found out |
//! | 28-31, 52-63 | which: see below | the granter |
//! | 32-51 | which object | the granter |
//! | 32-63 | unless GRANTED: the high bits of the number, also in `Member::era` | the member |
//!
//! *Which* is a pool's permit, or a semaphore's number of the grant; [`RETRY`] or [`AFTER_DEATH`] from objects whose waiters may be overtaken
//! (nothing was granted, try again); [`MET`] from a tube without slots, whose other end will hand over or take a message; 0 from a condition
//! variable; with bit 27, 0 for a dead object and [`TOO_MANY`]. No object's word records a retry or a
//! notification. Such a grant therefore says itself whether its waiter still needs a wake: it does until the grant has the bit [`WOKEN`].
//! If a granter stops before the wake, the next thread that looks repeats the wake and sets the bit, and none wakes the waiter twice.
//!
//! ```text
//!                     cancel: compare-and-swap by the member
//!        +-----------------------------+------------------+
//!        v                             |                  |
//!     IDLE n --publish--> WAITING n+1 --+--> ASLEEP n+1 --+
//!        ^                   |  grant: compare-and-swap   |
//!        |                   v                            v
//!        +----- taken --- GRANTED n+1 (object, permit) <--+     then, if it was asleep, one wake
//! ```
//!
//! Invariants:
//! - I1: a member's bits are set only while it is in wait n, after its word says WAITING n, and all are cleared before wait n+1 is
//!   published. Only the member sets them; only the member, or the owner of its dead life word, clears them. So a granter that reads the
//!   word (WAITING n), then the bit (set), then swaps the word from WAITING n, grants to a member that waits there.
//! - I2: a permit is granted in two steps, and any thread may finish or undo either. First the object's word says what is for which
//!   member (each kind in its own way: drain, units, lock); then the member's word goes from n to GRANTED. What is meant for wait n is
//!   valid while the word says WAITING n, ASLEEP n, or GRANTED n with this, and never again after that.
//! - I3: of all grants to wait n one wins, since each swaps the same word. The other granters undo their reservations and go on with the
//!   next waiter.
//! - I4: a thread that makes a permit free looks at the bits afterwards; a waiter that sets a bit looks at the permits afterwards (E1).
//!   At least one of them brings the two together. If it dies before it does, recovery of any dead member drains every object.
//! - I5: FIFO per object, or by priority and FIFO within one: the drainer grants to the smallest [`Candidate`], and the ticket is taken before any
//!   bit is set. While a waiter's bit stands, no thread takes a pool's permit, a strong semaphore's unit or a readers-writer lock directly. Mutexes,
//!   barging semaphores and tubes can be taken directly at any time: there the drainer only tells a waiter to try again.
//! - I6: a member whose word is GRANTED takes or gives back what was granted, even when its time is up. Only then is its word IDLE, and only then are
//!   its bits cleared. (If the bits went first, the slot could be used for another object while the word still says GRANTED by it: I7.)
//! - I7: a slot is used again, for anything, only when no bit stands on it (objects, I4). A granter has seen the bit, and then that the
//!   slot still is its object's. So what it grants belongs to the object that the member waits for. A member that comes late sets its bit on
//!   the next object in the slot, sees the head, clears the bit, and drains that object: a writer may have taken the bit for a reader's.
//! - I8: a member notes the number of its wait before its word says ASLEEP. A thread that would repeat a wake and finds another number there
//!   need not: the member has not slept in this wait, and a word that says GRANTED never says ASLEEP again in it. So a member that is awake
//!   makes no system call, and no thread makes one for it.
//! - I9: a grant ends a wait on all its objects, but only its granter and the users of the granter's object know of the wake that it may need. So a
//!   drainer that has something on another of these objects and finds no waiter to grant it to, and a remover, repeat the wake of members
//!   whose bits stand there and that were granted elsewhere. A stopped granter does not keep a choice from what other threads give.
//! - I10: a member that a light thread sleeps as names, before its word says ASLEEP, the bell to be rung instead of waking its word:
//!   `Member::bell_of`. The bell is in a slot that its process keeps; its proc sleeps on it (plat, light: C1, C2), and reads the words of
//!   all its members there to find whose wait is over. If the process dies, the slot's next occupant is woken for no reason.
//!
//! Races, by name:
//! - R1 bit against fast take: I4. - R2 grant against time-out or cancel: one swap decides. - R3 two granters,
//!   one choice: I3. - R4 grant while still enlisting: the member looks at its word after each bit, and takes.
//! - R5 granter dead before the reservation, before the grant, before the wake: a free permit, a reservation that any thread resolves, a
//!   granted member that recovery wakes. - R6 member dead while granted: its reservation is no longer valid once recovery has set its word
//!   to IDLE; the permit goes on. - R7 slot reuse: the number of the wait goes on across occupants.
//!
//! Ordering edges:
//! - E1 (SeqCst): set bit / read cell against free cell / read bits. - E2 (release/acquire): ticket, need, priority, time and alias
//!   before the word that says WAITING. - E3: grant before wake; the futex compares the low half.
//!
//! Progress: lock-free, except for the sleep itself. A stopped granter holds up only what it had not yet granted, as if it had not begun to
//! release; other threads that touch the object go on.
//!
//! Explored: `tests/crash_pool.rs`. Left out there: store buffers (all accesses are sequentially consistent in the explorer).
//!
//! Wrap-around: a wait's number has 55 bits while the word says WAITING or ASLEEP, and only such words are granted: a granter that was
//! stopped for any time grants in the wait that it saw, or fails. GRANTED and reservations have 23 of the bits. A thread other than the member
//! changes a word that says GRANTED only together with the ticket beside it, which no other wait has; so a recoverer that was stopped over
//! 2^23 waits changes nothing of the slot's later ones. A reservation for another wait of the same low bits is taken for one of this wait:
//! either it is granted, since the member waits there, or it goes back, and then the member, which looks at the cell before it takes, waits
//! again. In the explorer the low bits are one.

mod batch;
mod discipline;
mod queue;
mod rest;
mod state;

pub use discipline::Discipline;
pub(crate) use discipline::{Arrival, NUMBER, arrive};
#[cfg(not(feature = "sim"))]
pub(crate) use queue::in_line;
pub(crate) use queue::{
    Candidate, candidate, each, is_no_others, is_still, next, queue, tried_and_next, waits_at, waits_on, wake_elsewhere,
};
pub(crate) use rest::rest;
pub(crate) use state::{AFTER_DEATH, Grant, MET, RETRY, State, TOO_MANY};

use crate::bias::Holds;
use crate::interrupt::Interrupt;
use crate::kinds;
use crate::tube::rendezvous;
use chappe_arena::layout::{Head, Member};
use chappe_arena::{Map, Place, Visitor};
use chappe_plat::atomic::{AtomicU64, Ordering, low_half, pause};
use chappe_plat::futex::{self, Scope, Wait};
#[cfg(any(feature = "sim", feature = "loom"))]
use chappe_plat::light::Chime;
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::{clock, fence, probe, step};
use state::{ASLEEP, PHASE, WAIT_MASK, WAITING, WOKEN, era, short};
use std::cell::Cell;

/// The wait word that counts for a member, and the scope of its futex: see [`record_of`].
pub(crate) fn word_of(map: &Map, member: u32) -> (&AtomicU64, Scope) {
    let (m, scope) = record_of(map, member);
    (&m.state, scope)
}

/// The record whose wait word counts for a member: its own, or, for a mixed choice, that of the same thread in the named
/// arena.
fn record_of(map: &Map, member: u32) -> (&Member, Scope) {
    let m = map.member(member);
    if map.scope() == Scope::Private {
        // Acquire: E2; read after the bit was seen, so it is the one of the wait that set the bit, or later.
        let alias = m.alias.load(Ordering::Acquire);
        if alias != 0 {
            // SAFETY: a private arena's members are threads of this process, which wrote the address of a record
            // in a mapping that is never undone.
            return (unsafe { &*(alias as usize as *const Member) }, Scope::Shared);
        }
    }
    (m, map.scope())
}

/// Wakes a member that sleeps: its kernel thread, the light thread that has the attachment, or, from another process, that thread's proc.
fn wake(map: &Map, member: u32) {
    probe::wake(&map.header().name, member);
    let (m, scope) = record_of(map, member);
    // SeqCst: I10, after the word that said ASLEEP.
    let of = if scope == Scope::Shared { m.bell_of.load(Ordering::SeqCst) } else { 0 };
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    if map.is_private()
        && let Some(who) = crate::lent::holder(map, member)
    {
        light::unpark(who);
        if scope == Scope::Private || of != 0 {
            return;
        }
        // A mixed choice that blocks its kernel thread.
    }
    if of != 0 && !map.is_private() {
        // Any process may have written it.
        return light::ring(&map.member((of - 1) % map.geometry().members).bell);
    }
    futex::wake(low_half(&m.state), 1, scope);
}

/// Swaps a member's word from the wait that was seen to the grant, and wakes it if it sleeps.
pub(crate) fn grant(map: &Map, member: u32, seen: State, object: u32, permit: u32, dead: bool) -> bool {
    decide(map, member, seen, |_| Grant { private: is_private(map), dead, returned: false, object, permit }).is_some()
}

/// The ticket beside a member's wait word.
pub(crate) fn ticket_of(map: &Map, member: u32) -> u64 {
    // SeqCst: before, or after, the word, as the caller has it.
    record_of(map, member).0.ticket.load(Ordering::SeqCst)
}

/// Changes a member's word together with its ticket: a word that says GRANTED, which may say so again in another wait.
pub(crate) fn change_granted(m: &Member, ticket: u64, from: State, to: State) -> bool {
    // A swap of both is a full fence, as the others are SeqCst.
    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    return m.wait().compare_exchange([from.0, ticket], [to.0, ticket]).is_ok();
    // loom has no such swap, and its searches are too short for a number to come again.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    {
        let _ = ticket;
        // SeqCst: as above.
        m.state.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// As [`change_granted`], of the word that counts for a member.
pub(crate) fn change_granted_of(map: &Map, member: u32, ticket: u64, from: State, to: State) -> bool {
    change_granted(record_of(map, member).0, ticket, from, to)
}

/// As [`grant`], for what no object's word records: a nudge, a notification. False: the member no longer waits as was seen; if it was
/// granted something meanwhile, the wake that it may need was repeated (I9).
pub(crate) fn tell(map: &Map, member: u32, seen: State, object: u32, what: u32) -> bool {
    let said = |asleep: bool| Grant {
        private: is_private(map),
        dead: false,
        returned: false,
        object,
        permit: what | if asleep { 0 } else { WOKEN },
    };
    // Before the swap, and after the caller has seen the member wait: if the swap succeeds, the ticket is this wait's.
    let ticket = ticket_of(map, member);
    match decide(map, member, seen, said) {
        Some(told) => {
            woken(map, member, told, ticket);
            true
        }
        None => {
            make_up_now(map, member);
            false
        }
    }
}

/// Repeats the wake of a member that was told something, since the teller may have been stopped before it. `seen`: the member's word.
pub(crate) fn wake_told(map: &Map, member: u32, seen: State) {
    if seen.grant().is_some_and(|g| g.permit & WOKEN == 0) {
        // Before the wake: what the member is told in a later wait is not meant.
        let ticket = ticket_of(map, member);
        wake(map, member);
        woken(map, member, seen, ticket);
    }
}

/// Notes in the member's word that it needs no wake any more, unless the word says so, or the member has gone on.
fn woken(map: &Map, member: u32, told: State, ticket: u64) {
    if let Some(g) = told.grant().filter(|g| g.permit & WOKEN == 0) {
        let awake = told.granted(Grant { permit: g.permit | WOKEN, ..g });
        // After the wake. A failure: the member has gone on, or another thread has noted it.
        change_granted_of(map, member, ticket, told, awake);
    }
}

fn is_private(map: &Map) -> bool {
    map.scope() == Scope::Private
}

/// Swaps the word of a member in the wait that was seen; `to` says what to grant, given whether it is asleep. Wakes the member if
/// it sleeps, and answers what its word says now.
fn decide(map: &Map, member: u32, seen: State, to: impl Fn(bool) -> Grant) -> Option<State> {
    let (word, _) = word_of(map, member);
    let mut seen = seen;
    loop {
        let asleep = seen.0 & PHASE == ASLEEP;
        let granted = seen.granted(to(asleep));
        // SeqCst: I3; E3, before the wake.
        match word.compare_exchange(seen.0, granted.0, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                step!("granted, not yet woken");
                if let Some(g) = granted.grant() {
                    let at = g.object.min(map.geometry().objects - 1);
                    probe::grant(&map.header().name, &map.object(at).name, g.object, member, g.permit);
                }
                if asleep {
                    wake(map, member);
                    note(|lately| lately.woke = true);
                }
                return Some(granted);
            }
            // It fell asleep, or was about to, in the same wait: try once more.
            Err(now) if State(now).is_waiting() && State(now).0 & !PHASE == seen.0 & !PHASE => seen = State(now),
            Err(_) => return None,
        }
    }
}

/// What a thread has done since it last asked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lately {
    /// It has woken a member.
    pub woke: bool,
    /// It has slept.
    pub slept: bool,
}

thread_local! {
    static LATELY: Cell<Lately> = const { Cell::new(Lately { woke: false, slept: false }) };
}

fn note(what: impl FnOnce(&mut Lately)) {
    // The explorers' threads are not threads.
    if cfg!(not(any(feature = "sim", feature = "loom"))) {
        let mut lately = LATELY.get();
        what(&mut lately);
        LATELY.set(lately);
    }
}

/// What this thread has done since it last asked.
#[cfg(not(feature = "sim"))]
pub(crate) fn lately() -> Lately {
    LATELY.take()
}

/// Wakes a member that was seen granted, by any object, if its granter may have been stopped before the wake.
pub(crate) fn make_up(map: &Map, member: u32, seen: State) {
    match seen.grant() {
        Some(g) if [RETRY, AFTER_DEATH, MET].into_iter().any(|told| g.says(told)) => wake_told(map, member, seen),
        _ => wake_granted(map, member),
    }
}

/// As [`make_up`], for a member found not to wait as was seen: by what its word says now.
pub(crate) fn make_up_now(map: &Map, member: u32) {
    // SeqCst: after what failed: what was decided.
    make_up(map, member, State(word_of(map, member).0.load(Ordering::SeqCst)));
}

/// Wakes a granted member whose granter may have died before the wake, if the member may be asleep (I8).
pub(crate) fn wake_granted(map: &Map, member: u32) {
    let (m, _) = record_of(map, member);
    // SeqCst: after the grant that was seen.
    let state = State(m.state.load(Ordering::SeqCst));
    // Acquire: I8, after the word, which was ASLEEP before if it is to be woken.
    if state.is_granted() && m.slept.load(Ordering::Acquire) == state.wait() {
        wake(map, member);
    }
}

/// Whether a member's wait is still undecided.
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub(crate) fn still_waits(map: &Map, member: u32) -> bool {
    // SeqCst: after the ring (plat, light: C1).
    State(map.member(member).state.load(Ordering::SeqCst)).is_waiting()
}

/// Tells all waiters of a dead object that it is dead, as long as its head is this. Idempotent.
pub(crate) fn notify_dead(map: &Map, object: u32, head: Head, me: &mut Visitor<'_>) {
    if !kinds::notify_dead(map, object, head, me) {
        return;
    }
    each(map, Place { index: object, head }, |c| {
        if !c.state.is_waiting() || !grant(map, c.member, c.state, object, 0, true) {
            // I9. Also for this object's own grants: after the removal no drainer repeats their wakes.
            make_up_now(map, c.member);
        }
    });
}

/// An object, clock or descriptor that a choice waits for.
pub(crate) trait Arm {
    fn map(&self) -> &'static Map;
    fn place(&self) -> Place;
    /// Whether a member waits for it in a queue. A clock has none; every other arm has an object, at the latest when a wait on it
    /// begins.
    fn is_queued(&self) -> bool {
        true
    }
    /// The descriptor, if it waits for one: an event from outside the process, though no named object is involved.
    fn outside(&self) -> Option<std::os::fd::RawFd> {
        None
    }
    /// Before a member publishes a wait on it.
    fn before(&self) {
        kinds::before(self.map(), self.place().index);
    }
    /// A member's bit is about to be set.
    fn enlists(&self) {}
    /// A member's bit was set: the member looks at the object afterwards.
    fn enlisted(&self, _me: &Party) {
        kinds::enlisted(self.map(), self.place().index);
    }
    /// Whether the member looks only when all bits are set, and after a fence for all threads.
    fn is_fenced(&self) -> bool {
        self.is_fenced_between_processes()
    }
    /// Whether that fence is to be for those of other processes too.
    fn is_fenced_between_processes(&self) -> bool {
        false
    }
    /// Whether this thread's own fence is enough for that, since every thread that could miss the bit executes one as well.
    fn is_fenced_alone(&self) -> bool {
        false
    }
    /// A fence for all threads is about to be made for it. True: [`Arm::turn`] follows, and later waits need none (a tube's end, I5).
    fn turns(&self) -> bool {
        false
    }
    /// That fence was made, or could not be.
    fn turn(&self, _is_fenced: bool) {}
    /// That look. True: this member need not wait.
    fn look(&self, _me: &Party) -> bool {
        false
    }
    /// A member's wait is over; its bit still stands, and its word says how it ended. `grant`: if it was this arm.
    fn left(&self, member: u32, _grant: Option<Grant>) {
        kinds::left(self.map(), self.place().index, member);
    }
}

/// A thread's membership in one arena of a choice.
#[derive(Clone, Copy)]
pub struct Party {
    /// The arena.
    pub map: &'static Map,
    /// The thread's slot in it.
    pub member: u32,
    /// Which use of the slot.
    pub generation: u32,
    /// Where it says that it is inside what is biased to it.
    pub(crate) holds: Holds,
}

/// The waiter: a thread, with its attachment (its slot in an arena) where its wait word is, and, for a mixed choice, its private attachment.
#[derive(Clone, Copy)]
pub struct Parties {
    /// Where the wait word is: the named arena if there is one.
    pub main: Party,
    /// The private arena of a mixed choice.
    pub private: Option<Party>,
}

impl Parties {
    /// The attachment that counts in an arm's arena.
    pub(crate) fn party(&self, map: &Map) -> &Party {
        match &self.private {
            Some(p) if std::ptr::eq(p.map, map) => p,
            _ => &self.main,
        }
    }
}

/// How a wait ended.
pub(crate) enum Ended {
    /// Granted: what, in which wait.
    Granted(Grant, u32),
    /// The time was up first.
    TimedOut,
    /// This arm's object is not, or no longer, in service.
    Dead(usize),
    /// This arm's object has not so much as was asked for.
    TooMany,
}

/// How a waiter spends its time before it sleeps.
pub(crate) struct Patience<'a> {
    /// Turns to spin; adapts to whether spinning has paid.
    pub budget: &'a Cell<u32>,
    /// Never sleep.
    pub forever: bool,
    /// Never spin.
    pub none: bool,
    /// What ends the wait early.
    pub interrupt: Option<&'a Interrupt>,
    /// The waiter's priority: see the discipline.
    pub priority: u8,
    /// The member at whose bell it sleeps, I10. The explorer's: light threads find theirs when they need it.
    #[cfg_attr(not(any(feature = "sim", feature = "loom")), expect(dead_code, reason = "read by the explorer alone"))]
    pub bell: Option<u32>,
}

impl Patience<'_> {
    /// Whether the wait is to end early.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::has_come) || light::is_destroyed()
    }
}

/// What a wait is for.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The arm that is looked at first.
    pub first: usize,
    /// The caller's, so that a waiter that must wait again keeps its place.
    pub arrival: Arrival,
    /// How much of the object is needed; see the drainers. 0 on a tube: the waiter only looks.
    pub need: u32,
    /// Where the other end of a tube without slots finds the message to be handed over; 0 for none.
    pub packet: u64,
    /// When to give up.
    pub deadline: Option<u64>,
    /// What to do until then.
    pub patience: &'a Patience<'a>,
}

/// A wait whose bits are set.
pub(crate) struct Begun {
    number: u64,
    first: usize,
    enlisted: usize,
    dead: Option<usize>,
    /// The member looked without the fence that it should have had: it is to look again soon.
    is_blind: bool,
}

/// Waits on all arms until granted, until the deadline, or until one of them is found dead.
///
/// If it was granted, the wait word says so, and the bits stand, until the caller has taken it and said [`finish`].
pub(crate) fn wait<A: Arm + ?Sized>(who: &Parties, arms: &[&A], terms: Terms<'_>) -> (Ended, Begun) {
    let begun = begin(who, arms, terms);
    if arms.iter().any(|arm| arm.outside().is_some()) {
        light::from_outside(|| rest(who, &begun, terms));
    } else {
        rest(who, &begun, terms);
    }
    (end(who, arms, &begun), begun)
}

/// The first part of a wait: from its end on, this member is granted what it waits for.
pub(crate) fn begin<A: Arm + ?Sized>(who: &Parties, arms: &[&A], terms: Terms<'_>) -> Begun {
    let word = &who.main.map.member(who.main.member).state;
    // Relaxed: only we leave IDLE.
    let mut last = State(word.load(Ordering::Relaxed)).number(|| 0);
    if let Some(p) = &who.private {
        let m = p.map.member(p.member);
        // Relaxed: only we leave IDLE.
        last = last.max(State(m.state.load(Ordering::Relaxed)).number(|| 0));
    }
    let number = last.wrapping_add(1) & WAIT_MASK;
    for arm in arms.iter().filter(|arm| arm.is_queued()) {
        arm.before();
    }
    publish(who, number, terms);
    let joining = batch::Joining::begin(who, terms.arrival.tickets);
    let mut begun = Begun { number, first: terms.first, enlisted: 0, dead: None, is_blind: false };
    for k in 0..arms.len() {
        let at = (terms.first + k) % arms.len();
        if !arms[at].is_queued() {
            begun.enlisted = k + 1;
            continue;
        }
        let (map, place) = (arms[at].map(), arms[at].place());
        let member = who.party(map).member;
        arms[at].enlists();
        joining.before_bit(map, place.index);
        // SeqCst: E1, before our look at the cells.
        map.waiting(place.index, member as usize / 64).fetch_or(1 << (member % 64), Ordering::SeqCst);
        begun.enlisted = k + 1;
        probe::wait(&map.header().name, &map.object(place.index).name, place.index, member);
        // SeqCst: after the bit; pairs with the remover, which changes the head and then looks at the bits.
        if map.object(place.index).head.load(Ordering::SeqCst) != place.head.0 {
            begun.dead = Some(at);
            break;
        }
        arms[at].enlisted(who.party(map));
        // SeqCst: R4.
        if State(word.load(Ordering::SeqCst)).is_granted() {
            return begun;
        }
    }
    // All bits are set: whatever else this wait does, it is in no batch's way.
    drop(joining);
    if begun.dead.is_none() && arms.iter().any(|arm| arm.is_fenced()) {
        begun.is_blind = !look(who, arms, &begun);
    }
    begun
}

/// The second look, at the arms that need one. False: it was made without the fence, and may have missed something.
fn look<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun) -> bool {
    let (mut private, mut process_shared, mut alone) = (false, false, false);
    // One arm per wait: a later wait turns the next.
    let mut turns = None;
    for arm in arms.iter().filter(|arm| arm.is_fenced()) {
        if arm.is_fenced_between_processes() {
            process_shared = true;
        } else if arm.is_fenced_alone() {
            alone = true;
        } else {
            private = true;
            turns = turns.or_else(|| arm.turns().then_some(arm));
        }
    }
    if alone {
        rendezvous::fence();
    }
    let threads_are_fenced = !private || fence::try_heavy();
    turns.into_iter().for_each(|arm| arm.turn(threads_are_fenced));
    let is_fenced = threads_are_fenced && (!process_shared || fence::process_shared::try_heavy());
    for arm in enlisted(arms, begun).filter(|arm| arm.is_fenced()) {
        let (map, me) = (arm.map(), who.party(arm.map()));
        if arm.look(me) {
            // A failure: it was decided already.
            tell(map, me.member, State::new(WAITING, begun.number), arm.place().index, AFTER_DEATH);
            break;
        }
    }
    is_fenced
}

/// The last part of a wait: decides how it ended. If it ended without a grant, everything is cleared up.
pub(crate) fn end<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun) -> Ended {
    let word = &who.main.map.member(who.main.member).state;
    let number = begun.number;
    let ended = loop {
        // SeqCst: what was decided.
        let state = State(word.load(Ordering::SeqCst));
        if let Some(g) = state.grant() {
            let at = arm_granted(arms, begun, g);
            // Or it is of a later object in the slot.
            let is_its = is_no_others(arms[at].map(), arms[at].place().index, arms[at].place().head);
            break match (g.dead, g.permit) {
                (true, TOO_MANY) if is_its => Ended::TooMany,
                (true, _) => Ended::Dead(at),
                (false, _) if is_its => Ended::Granted(g, short(number)),
                (false, _) => return refuse(who, arms, at, state, begun),
            };
        }
        // SeqCst: R2, this or the grant.
        if word.compare_exchange(state.0, State::idle(number).0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            break begun.dead.map_or(Ended::TimedOut, Ended::Dead);
        }
    };
    step!("wait decided, bits still set");
    // SeqCst: what was decided.
    leave(who, arms, begun, State(word.load(Ordering::SeqCst)).grant());
    if !matches!(ended, Ended::Granted(..)) {
        finish(who, arms, begun);
    }
    ended
}

/// What was granted is another object's, which came into the slot before our bit: it goes back there.
#[cold]
fn refuse<A: Arm + ?Sized>(who: &Parties, arms: &[&A], at: usize, state: State, begun: &Begun) -> Ended {
    let (map, object) = (arms[at].map(), arms[at].place().index);
    kinds::take_back(map, who.party(map).member, state, None);
    leave(who, arms, begun, None);
    finish(who, arms, begun);
    // Now what was reserved for us, or the try that we were told, goes to the next waiter.
    kinds::untold(map, object);
    kinds::drain(map, object);
    Ended::Dead(at)
}

/// Tells the arms that the wait is over, and the first arm of the granting object what was granted.
fn leave<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun, grant: Option<Grant>) {
    let mut grant = grant;
    for arm in enlisted(arms, begun) {
        let (map, index) = (arm.map(), arm.place().index);
        let its = grant.filter(|g| g.of(map, index));
        if its.is_some() {
            grant = None;
        }
        arm.left(who.party(map).member, its);
    }
}

/// The arms whose bits were set.
fn enlisted<'a, A: Arm + ?Sized>(arms: &'a [&A], begun: &Begun) -> impl Iterator<Item = &'a A> {
    let (first, len) = (begun.first, arms.len());
    (0..begun.enlisted).map(move |k| arms[(first + k) % len]).filter(|arm| arm.is_queued())
}

/// Notes that what was granted has been taken, or could not be; then clears the bits. In this order: while the word says
/// GRANTED its object's bit stands, and so the slot is not used for another object.
pub(crate) fn finish<A: Arm + ?Sized>(who: &Parties, arms: &[&A], begun: &Begun) {
    let word = &who.main.map.member(who.main.member).state;
    // SeqCst: after the cell was taken; helpers see the reservation valid until then, I2.
    word.store(State::idle(begun.number).0, Ordering::SeqCst);
    step!("idle, bits still set");
    for arm in enlisted(arms, begun) {
        let member = who.party(arm.map()).member;
        // AcqRel: I1; a drainer that saw the bit is refused by the wait word.
        arm.map().waiting(arm.place().index, member as usize / 64).fetch_and(!(1 << (member % 64)), Ordering::AcqRel);
    }
    if let Some(late) = begun.dead.map(|at| arms[at]) {
        // I7.
        kinds::drain(late.map(), late.place().index);
    }
}

fn publish(who: &Parties, number: u64, terms: Terms<'_>) {
    let m = who.main.map.member(who.main.member);
    let note = |m: &Member, ticket: u64| {
        // Relaxed, these: E2, published by the store of the word below, and by the bit that is set later in the private arena.
        m.era.store(era(number), Ordering::Relaxed);
        m.waiting_since.store(terms.arrival.since, Ordering::Relaxed); // Relaxed: as above.
        m.priority.store(terms.arrival.priority.into(), Ordering::Relaxed); // Relaxed: as above.
        m.ticket.store(ticket, Ordering::Relaxed); // Relaxed: as above.
        m.need.store(terms.need, Ordering::Relaxed); // Relaxed: as above.
        m.packet.store(terms.packet, Ordering::Relaxed); // Relaxed: as above.
    };
    note(m, terms.arrival.tickets.0);
    // Relaxed: E2, as above.
    m.alias.store(0, Ordering::Relaxed);
    if let Some(p) = &who.private {
        let m = p.map.member(p.member);
        note(m, terms.arrival.tickets.1);
        m.alias.store(std::ptr::from_ref(who.main.map.member(who.main.member)) as u64, Ordering::Relaxed); // Relaxed: as above.
        // Relaxed: keeps the private slot's numbers ahead of every reservation made in it.
        m.state.store(State::idle(number).0, Ordering::Relaxed);
    }
    // Release: E2; before any bit, which is set by a swap.
    m.state.store(State::new(WAITING, number).0, Ordering::Release);
}

/// The arm that a grant belongs to.
pub(crate) fn arm_granted<A: Arm + ?Sized>(arms: &[&A], begun: &Begun, grant: Grant) -> usize {
    // In the order in which they were enlisted: of an object that is in two arms, either arm.
    let mut all = (0..arms.len()).map(|k| (begun.first + k) % arms.len());
    all.find(|at| arms[*at].is_queued() && grant.of(arms[*at].map(), arms[*at].place().index)).unwrap_or(0)
}
