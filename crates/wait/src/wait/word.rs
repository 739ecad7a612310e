//! Changing a member's wait word: grants, notifications, and the wakes that they need. Invariants and edges: the wait queue's.

use super::state::{AFTER_DEATH, ASLEEP, Grant, MET, PHASE, RETRY, State, WOKEN};
#[cfg(not(any(feature = "sim", feature = "loom")))]
use crate::lent::holders::Holder;
use chappe_arena::Map;
use chappe_arena::layout::Member;
use chappe_plat::atomic::{AtomicU64, Ordering, low_half};
use chappe_plat::futex::{self, Scope};
use chappe_plat::{light, probe, step};
use std::cell::Cell;

/// The wait word that counts for a member, and the scope of its futex: see [`record_of`].
#[inline]
pub fn word_of(map: &Map, member: u32) -> (&AtomicU64, Scope) {
    let (m, scope) = record_of(map, member);
    (&m.state, scope)
}

/// The record whose wait word counts for a member: its own, or, for a mixed choice, that of the same thread in the named
/// arena.
#[inline]
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

/// Wakes a member that sleeps: its kernel thread, the light thread or task that has the attachment, or, from another process, the thread that
/// listens for these.
fn wake(map: &Map, member: u32) {
    probe::wake(&map.header().name, member);
    let (m, scope) = record_of(map, member);
    // SeqCst: I10, after the word that said ASLEEP.
    let of = if scope == Scope::Shared { m.bell_of.load(Ordering::SeqCst) } else { 0 };
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    if map.is_private()
        && let Some(holder) = crate::lent::holders::holder(map, member)
    {
        match holder {
            Holder::Light(thread) => light::unpark(thread),
            Holder::Task(task) => return task.wake(),
        }
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
#[inline]
pub fn grant(map: &Map, member: u32, seen: State, object: u32, permit: u32, dead: bool) -> bool {
    decide(map, member, seen, |_| Grant { private: is_private(map), dead, returned: false, object, permit }).is_some()
}

/// The ticket beside a member's wait word.
#[inline]
pub fn ticket_of(map: &Map, member: u32) -> u64 {
    // SeqCst: before, or after, the word, as the caller has it.
    record_of(map, member).0.ticket.load(Ordering::SeqCst)
}

/// Changes a member's word together with its ticket: a word that says GRANTED, which may say so again in another wait.
pub fn change_granted(m: &Member, ticket: u64, from: State, to: State) -> bool {
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
#[inline]
pub fn change_granted_of(map: &Map, member: u32, ticket: u64, from: State, to: State) -> bool {
    change_granted(record_of(map, member).0, ticket, from, to)
}

/// As [`grant`], for what no object's word records: a retry, a notification. False: the member no longer waits as was seen; if it was
/// granted something meanwhile, the wake that it may need was repeated (I9).
#[inline]
pub fn tell(map: &Map, member: u32, seen: State, object: u32, what: u32) -> bool {
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
#[inline]
pub fn wake_told(map: &Map, member: u32, seen: State) {
    if seen.grant().is_some_and(|g| g.permit & WOKEN == 0) {
        // Before the wake: what the member is told in a later wait is not meant.
        let ticket = ticket_of(map, member);
        wake(map, member);
        woken(map, member, seen, ticket);
    }
}

/// Notes in the member's word that it needs no wake any more, unless the word says so, or the member has gone on.
#[inline]
fn woken(map: &Map, member: u32, told: State, ticket: u64) {
    // A task's waker may have been put off: until it has been called, others repeat it.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    if map.is_private() && matches!(crate::lent::holders::holder(map, member), Some(Holder::Task(_))) {
        return;
    }
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
pub struct Lately {
    /// It has woken a member.
    pub woke: bool,
    /// It has slept.
    pub slept: bool,
}

thread_local! {
    static LATELY: Cell<Lately> = const { Cell::new(Lately { woke: false, slept: false }) };
}

pub fn note(what: impl FnOnce(&mut Lately)) {
    // The explorers' threads are not threads.
    if cfg!(not(any(feature = "sim", feature = "loom"))) {
        let mut lately = LATELY.get();
        what(&mut lately);
        LATELY.set(lately);
    }
}

/// What this thread has done since it last asked.
#[cfg(not(feature = "sim"))]
pub fn lately() -> Lately {
    LATELY.take()
}

/// Wakes a member that was seen granted, by any object, if its granter may have been stopped before the wake.
#[inline]
pub fn make_up(map: &Map, member: u32, seen: State) {
    match seen.grant() {
        Some(g) if [RETRY, AFTER_DEATH, MET].into_iter().any(|told| g.says(told)) => wake_told(map, member, seen),
        _ => wake_granted(map, member),
    }
}

/// As [`make_up`], for a member found not to wait as was seen: by what its word says now.
#[inline]
pub fn make_up_now(map: &Map, member: u32) {
    // SeqCst: after what failed: what was decided.
    make_up(map, member, State(word_of(map, member).0.load(Ordering::SeqCst)));
}

/// Wakes a granted member whose granter may have died before the wake, if the member may be asleep (I8).
#[inline]
pub fn wake_granted(map: &Map, member: u32) {
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
#[inline]
pub fn still_waits(map: &Map, member: u32) -> bool {
    // SeqCst: after the ring (plat, light: C1).
    State(map.member(member).state.load(Ordering::SeqCst)).is_waiting()
}
