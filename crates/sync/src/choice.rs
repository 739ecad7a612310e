//! Choice: one call that takes exactly one of several operations, whichever can be done first.
//!
//! This is `altsems` of Nix (nix-semaphores-tubes, 2.3.3), extended to everything that has a place in the wait queue, and to
//! clocks. An *arm* is one of the operations. The caller first tries every arm: in a random order, or in the order of the arms
//! if the choice is biased. (A choice that is not biased begins with the only arm that is likely to be ready, if it has one
//! such.) If none is ready, one wait stands on all of them (see the head of the wait queue), so a choice over thousands of arms
//! costs one record, and one bit for each arm that is not a clock. All granters swap the same wait word: so one wins, and the
//! choice takes exactly one thing.
//!
//! A choice that is not to wait, or whose time is up, says so only if there was a *lull*, a moment at which no arm was ready:
//! see `lull`, also for the exceptions. If it finds none, it tries again.
//!
//! Two kinds of choices need no record and no bits:
//!
//! - A light thread's choice among private tubes, clocks and descriptors. Its nodes, on its stack, stand in the lists of the tubes' ends:
//!   see `lights` of `chappe-wait`.
//! - The choice of a thread that gets no attachment (a slot in the arena), since the arena is full or the thread is about to end. If
//!   all arms are private tubes, clocks or descriptors, it looks every millisecond. It has no place in the order of arrival, is not told,
//!   and is not met at a tube without slots by a thread that only acts. With any other arm it fails with the arena's error.
//!
//! Private and named objects mix: the wait word is then the one in the named arena. Two named arenas do not mix: a process that
//! shares only one of them could not swap the other's wait word, and so could not grant.
//!
//! Named tests hold what Nix's text promises and its source gets wrong (evidence, faults 1, 2 and 4): every arm
//! counts, a choice that was made has taken something, and its number is the caller's.

use crate::error::SelectError;
use crate::handle::shown;
use chappe_arena::Map;
#[cfg(not(feature = "sim"))]
use chappe_plat::back_by_jump;
use chappe_plat::clock;
use chappe_plat::light::{self, Record};
use chappe_tube::block::{packet, put_packet};
use chappe_wait::attachment::party;
use chappe_wait::attachment::{ThreadAttachment, attachment, watched};
use chappe_wait::claim::wait_for;
#[cfg(not(feature = "sim"))]
use chappe_wait::lights::straight::{Ended, fits, wait as wait_straight};
#[cfg(not(feature = "sim"))]
use chappe_wait::lights::waits::met_by;
use chappe_wait::lights::waits::{Hope, can_wait, wait_for as wait_for_lightly};
use chappe_wait::lull;
use chappe_wait::lull::lull;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Mode, Nature, Outlook, Refused, Site, Taken, TryFast, WaitSpec, due};
use chappe_wait::order::{Order, one_of};
use chappe_wait::patience::{Until, patience};
use chappe_wait::spin::spin;
use chappe_wait::wait::{Parties, Party, Patience};

/// How often a thread that cannot have a place in the wait queue looks.
const POLL: std::time::Duration = std::time::Duration::from_millis(1);

/// How a choice is made.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub until: Until,
    /// The first arm that is ready, instead of any.
    pub biased: bool,
    pub aim: Mode,
}

/// The first part of a choice: tries the arms that can be taken without an attachment (membership of an arena), or with the one at hand. If
/// that takes nothing, the returned order goes on with the first arm that needs more. It lacks arms from which nothing could be taken. A task's choice
/// is cautious: see [`Arm::glance`].
#[inline(always)]
pub(crate) fn glance<A: Arm + ?Sized>(arms: &[&A], biased: bool, cautious: bool) -> Result<(usize, Taken), Order> {
    let (mut order, careful);
    if biased || arms.len().wrapping_sub(1) >= 64 {
        (order, careful) = (Order::new(arms.len(), biased), true);
    } else {
        // First the arms that are worth an attempt, then the dice: mostly it is one arm, and no branch depends on its number.
        let (likely, differ) = outlook(arms);
        careful = cautious || differ;
        if likely.is_power_of_two()
            && let at = likely.trailing_zeros() as usize
            && let TryFast::Taken(taken) = arms[at].glance(careful)
        {
            return Ok((at, taken));
        }
        order = Order::among(likely, arms.len());
    }
    while let Some(at) = order.peek() {
        match arms[at].glance(careful) {
            TryFast::Taken(taken) => return Ok((at, taken)),
            TryFast::Nothing => order.skip(),
            TryFast::Ask => break,
        }
    }
    Err(order)
}

/// Which of up to 64 arms are worth an attempt, and whether the arms are in several arenas. A dozen instructions an arm, without a branch.
#[inline(always)]
fn outlook<A: Arm + ?Sized>(arms: &[&A]) -> (u64, bool) {
    // Of equal addresses, any is all.
    let (mut likely, mut any, mut all) = (0, 0, usize::MAX);
    for arm in arms.iter().rev() {
        let Outlook { may_be, map } = arm.outlook();
        likely = likely << 1 | u64::from(may_be);
        any |= std::ptr::from_ref(map).addr();
        all &= std::ptr::from_ref(map).addr();
    }
    (likely, any != all)
}

/// Makes a choice. Answers which arm, and what it took.
pub(crate) fn choose<A: Arm + ?Sized>(arms: &[&A], how: How) -> Result<(usize, Taken), SelectError> {
    let order = match how.aim {
        Mode::Take => match glance(arms, how.biased, false) {
            Ok(found) => return Ok(found),
            Err(order) => order,
        },
        Mode::Look => Order::new(arms.len(), how.biased),
    };
    rest(arms, how, order, false)
}

/// How the straight way ended.
#[cfg(not(feature = "sim"))]
pub(crate) enum Straight {
    Found(usize, Taken),
    /// Go the long way; in front, if the thread has waited before.
    Goes {
        front: bool,
    },
}

/// The straight way of a choice without a deadline, after a glance that has found nothing: for a light thread and a few private tubes without slots.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub(crate) fn straight(arms: &[&dyn Arm], biased: bool) -> Straight {
    const WAITED: u64 = 8;
    let word = straight_and_back(arms.as_ptr(), arms.len(), biased);
    if word & 1 != 0 {
        // A packet's address ends with three zeros.
        return Straight::Found((word >> 1 & 3) as usize, met_by(word & !7));
    }
    if word & WAITED != 0 {
        let at = (word >> 1 & 3) as usize;
        if let Ok(taken) = arms[at].attempt(&nobody(arms[at].site().map).main, true) {
            return Straight::Found(at, taken);
        }
    }
    return Straight::Goes { front: word & WAITED != 0 };

    back_by_jump! {
        /// Other threads run before it comes back. The word: a packet, the arm, and 1; or `WAITED` and the arm to be tried.
        fn straight_and_back(arms: *const &dyn Arm, many: usize, biased: bool) -> u64 = straight_for_jump;
    }

    #[allow(improper_ctypes_definitions, reason = "called by Rust alone")]
    extern "C-unwind" fn straight_for_jump(arms: *const &dyn Arm, many: usize, biased: bool) -> u64 {
        // SAFETY: the caller's slice.
        let arms = unsafe { std::slice::from_raw_parts(arms, many) };
        let Some(me) = light::current() else { return 0 };
        if !fits(arms) || chappe_wait::interrupt::current().is_some() {
            return 0;
        }
        let packet = packet();
        let first = if biased { 0 } else { one_of(many as u32) as usize };
        match wait_straight(me, arms, first, packet) {
            Ended::Met(at) => packet | (at as u64) << 1 | 1,
            Ended::Told(at) => {
                put_packet(packet);
                WAITED | (at as u64) << 1
            }
            Ended::Not => {
                put_packet(packet);
                0
            }
        }
    }
}

/// The rest of a choice, after a glance. In front: a light thread has waited before, and goes to its old place.
#[inline(never)]
pub(crate) fn rest<A: Arm + ?Sized>(
    arms: &[&A],
    how: How,
    order: Order,
    front: bool,
) -> Result<(usize, Taken), SelectError> {
    let (named, private) = arenas(arms)?;
    let Some(main) = named.or(private) else { return nothing(how.until) };
    if named.is_none()
        && let Some(me) = light::current()
        && can_wait(arms)
    {
        return lightly(me, arms, how, order, front);
    }
    if order.peek().is_none() && matches!(how.until, Until::Now) && !any(arms, Nature::drains) {
        // No arm needs an attachment.
        let nobody = nobody(main);
        let found = lull(arms, &nobody, how.biased, how.aim).map_err(|e| failed(arms, e))?;
        return found.ok_or(SelectError::WouldBlock);
    }
    let made = attached(arms, how, order, main, private.filter(|_| named.is_some()));
    match made {
        // The thread is about to end, or the private arena has no room for so many waiters or tubes.
        Err(SelectError::Arena(_)) if all(arms, Nature::dies_unseen) => poll(arms, how),
        made => made,
    }
}

/// The choice of a light thread among private tubes and clocks.
fn lightly<A: Arm + ?Sized>(
    me: &'static Record,
    arms: &[&A],
    how: How,
    order: Order,
    front: bool,
) -> Result<(usize, Taken), SelectError> {
    let deadline = match how.until {
        Until::Time(at) => Some(at),
        Until::Forever | Until::Now => None,
    };
    let who = nobody(arms[0].site().map);
    if let Some(found) = look(arms, &who, order, how.aim)? {
        return Ok(found);
    }
    let lull = || lull(arms, &who, how.biased, how.aim).map_err(|e| failed(arms, e));
    if let Until::Now = how.until {
        return lull()?.ok_or(SelectError::WouldBlock);
    }
    let packet = if any(arms, meets) { packet() } else { 0 };
    let first = if how.biased { 0 } else { one_of(arms.len() as u32) as usize };
    let by = chappe_wait::interrupt::current();
    let wait = || wait_for_lightly(me, arms, Hope { aim: how.aim, first, deadline, packet, by, front });
    let is_outside = any(arms, |nature| matches!(nature, Nature::Descriptor(_)));
    let made = if is_outside { light::from_outside(wait) } else { wait() };
    let is_met = |(at, taken): &(usize, Taken)| meets(arms[*at].site().nature) && taken.word.0 == packet;
    if !made.as_ref().is_ok_and(is_met) {
        put_packet(packet);
    }
    match made {
        Ok(found) => Ok(found),
        Err(Refused::Interrupted) => Err(SelectError::Interrupted),
        Err(_) => lull()?.ok_or(SelectError::Timeout),
    }
}

fn attached<A: Arm + ?Sized>(
    arms: &[&A],
    how: How,
    order: Order,
    main: &'static Map,
    private: Option<&'static Map>,
) -> Result<(usize, Taken), SelectError> {
    let second: Option<Party> = private.map(|map| attachment(map, party)).transpose()?;
    attachment(main, |attachment| {
        let who = Parties { main: party(attachment), private: second };
        if let Some(found) = look(arms, &who, order, how.aim)? {
            return Ok(found);
        }
        let again = || look(arms, &who, Order::new(arms.len(), how.biased), how.aim);
        if let Until::Now = how.until {
            // Revive each of them, not only the first that helps.
            let revived = arms.iter().filter(|arm| is_revived(**arm, &who)).count() > 0;
            // The order may lack arms from which nothing could be taken before this thread had its attachment: in a forked child, that returns what
            // the parent's other threads had.
            let found = if revived || !how.biased { again()? } else { None };
            let found = match found {
                Some(found) => Some(found),
                None => lull(arms, &who, how.biased, how.aim).map_err(|e| failed(arms, e))?,
            };
            return found.ok_or(SelectError::WouldBlock);
        }
        wait(arms, &who, attachment, how, again)
    })?
}

/// The choice of a thread that cannot have a place in the wait queue: it looks every [`POLL`].
fn poll<A: Arm + ?Sized>(arms: &[&A], how: How) -> Result<(usize, Taken), SelectError> {
    loop {
        let who = nobody(arms[0].site().map);
        if let Some(found) = look(arms, &who, Order::new(arms.len(), how.biased), how.aim)? {
            return Ok(found);
        }
        let why = match how.until {
            Until::Now => SelectError::WouldBlock,
            Until::Time(at) if clock::now() >= at => SelectError::Timeout,
            _ => {
                chappe_wait::patience::pass(POLL);
                continue;
            }
        };
        return lull(arms, &who, how.biased, how.aim).map_err(|e| failed(arms, e))?.ok_or(why);
    }
}

/// Whether all arms are of such a nature.
fn all<A: Arm + ?Sized>(arms: &[&A], of: fn(Nature) -> bool) -> bool {
    arms.iter().all(|arm| of(arm.site().nature))
}

/// Whether any arm is of such a nature.
fn any<A: Arm + ?Sized>(arms: &[&A], of: fn(Nature) -> bool) -> bool {
    arms.iter().any(|arm| of(arm.site().nature))
}

fn meets(nature: Nature) -> bool {
    nature == Nature::Meeting
}

/// Gives back what dead members have of it: whether that may have freed something.
fn is_revived<A: Arm + ?Sized>(arm: &A, who: &Parties) -> bool {
    matches!(arm.look(who.party(arm.site().map), Looking::Dead), Ok(Mark::Something))
}

/// The party of a thread without an attachment.
fn nobody(map: &'static Map) -> Parties {
    Parties { main: Party::nobody(map), private: None }
}

/// Tries the arms that are left in the order.
#[inline]
fn look<A: Arm + ?Sized>(
    arms: &[&A],
    who: &Parties,
    order: Order,
    aim: Mode,
) -> Result<Option<(usize, Taken)>, SelectError> {
    lull::look(arms, who, order, aim).map_err(|e| failed(arms, e))
}

/// Waits: none of the arms is ready.
#[inline(never)]
fn wait<A: Arm + ?Sized>(
    arms: &[&A],
    who: &Parties,
    attachment: &ThreadAttachment,
    how: How,
    look: impl Fn() -> Result<Option<(usize, Taken)>, SelectError>,
) -> Result<(usize, Taken), SelectError> {
    let deadline = match how.until {
        Until::Time(at) => Some(at),
        Until::Forever | Until::Now => None,
    };
    let is_late = |end: Option<u64>| end.is_some_and(|end| clock::now() >= end);
    let is_unseen = all(arms, Nature::dies_unseen);
    if is_late(deadline) && is_unseen {
        let found = lull(arms, who, how.biased, how.aim).map_err(|e| failed(arms, e))?;
        return found.ok_or(SelectError::Timeout);
    }
    let mut patience = patience(attachment);
    let has_meetings = any(arms, meets);
    // Only a thread that waits finds a partner at a tube without slots. A thread that looks for ever is not in the queues of the other kinds.
    let looks = match patience.forever {
        true => all(arms, Nature::is_tube),
        false => any(arms, Nature::is_tube),
    };
    if patience.forever && !is_unseen {
        // A thread that never sleeps must see to it beforehand that deaths are noticed.
        watched(attachment).map_err(SelectError::System)?;
    }
    if looks && !has_meetings {
        let end = [deadline, due(arms, &who.main)].into_iter().flatten().min();
        if let Some(found) = spin(&attachment.looks, &patience, || is_late(end), || look().transpose()) {
            return found;
        }
        // The looks are used up.
        patience = Patience { none: !patience.forever, ..patience };
    }
    for standing in arms.iter().filter_map(|arm| arm.standing()) {
        standing.own.prepare()?;
    }
    if !is_unseen {
        watched(attachment).map_err(SelectError::System)?;
    }
    let packet = if has_meetings { packet() } else { 0 };
    let first = Order::new(arms.len(), how.biased).peek().unwrap_or(0);
    let wish = WaitSpec { aim: how.aim, first, biased: how.biased, deadline, patience: &patience, packet };
    let made = wait_for(who, arms, wish);
    let is_met = |(at, taken): &(usize, Taken)| meets(arms[*at].site().nature) && taken.word.0 == packet;
    if !made.as_ref().is_ok_and(is_met) {
        put_packet(packet);
    }
    made.map_err(|e| failed(arms, e))
}

/// A choice without arms.
fn nothing(until: Until) -> Result<(usize, Taken), SelectError> {
    match until {
        Until::Now => Err(SelectError::WouldBlock),
        Until::Forever => Err(SelectError::Nothing),
        Until::Time(at) => {
            chappe_wait::patience::pass(std::time::Duration::from_nanos(at.saturating_sub(clock::now())));
            Err(SelectError::Timeout)
        }
    }
}

/// The error of a choice whose arm refused.
pub(crate) fn failed<A: Arm + ?Sized>(arms: &[&A], refused: Refused) -> SelectError {
    match refused {
        Refused::Dead(arm) => dead(arms, arm),
        Refused::Inherited(arm) => inherited(arms, arm),
        Refused::Interrupted => SelectError::Interrupted,
        // No arm asks for more than one permit.
        Refused::TimedOut | Refused::NoneFree | Refused::TooMany => SelectError::Timeout,
    }
}

fn inherited<A: Arm + ?Sized>(arms: &[&A], arm: usize) -> SelectError {
    let Site { map, place, .. } = arms[arm].site();
    SelectError::Inherited { arm, name: shown(map, place) }
}

fn dead<A: Arm + ?Sized>(arms: &[&A], arm: usize) -> SelectError {
    let Site { map, place, .. } = arms[arm].site();
    SelectError::Dead { arm, name: shown(map, place) }
}

/// The named arena of the arms, if any arm is in one, and the private arena, if any arm is in it.
pub(crate) fn arenas<A: Arm + ?Sized>(
    arms: &[&A],
) -> Result<(Option<&'static Map>, Option<&'static Map>), SelectError> {
    let (mut named, mut private): (Option<&'static Map>, Option<&'static Map>) = (None, None);
    let mut last: *const Map = std::ptr::null();
    for arm in arms {
        let map = arm.site().map;
        if std::ptr::eq(map, last) {
            continue;
        }
        last = map;
        if map.directory().is_none() {
            private = Some(map);
            continue;
        }
        match named {
            Some(first) if !std::ptr::eq(first, map) => {
                return Err(SelectError::TwoArenas { first: first.name().into(), second: map.name().into() });
            }
            _ => named = Some(map),
        }
    }
    Ok((named, private))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::registry::{Arena, ArenaOptions};
    use crate::semaphore::Semaphore;
    use std::cell::Cell;

    /// An arm that counts how often it is attempted.
    struct Counted<'a>(&'a dyn Arm, &'a Cell<u32>);

    impl Arm for Counted<'_> {
        fn site(&self) -> Site {
            self.0.site()
        }
        fn outlook(&self) -> Outlook {
            self.0.outlook()
        }
        fn glance(&self, cautious: bool) -> TryFast {
            self.1.set(self.1.get() + 1);
            self.0.glance(cautious)
        }
        fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
            self.1.set(self.1.get() + 1);
            self.0.attempt(me, told)
        }
    }

    const NOW: How = How { until: Until::Now, biased: false, aim: Mode::Take };

    fn small() -> Arena {
        let options = ArenaOptions { members: Some(8), objects: Some(16), cells: Some(16), data: Some(1 << 20) };
        Arena::apart(&options).unwrap()
    }

    #[test]
    fn a_ready_choice_attempts_no_arm_that_has_nothing() {
        let apart = small();
        for named in [false, true] {
            let semaphore = |name: &str| match named {
                true => Semaphore::create_in(&apart, name, 0).unwrap(),
                false => Semaphore::private(0).unwrap(),
            };
            let pool = |name: &str| match named {
                true => Pool::create_in(apart, name, 1).unwrap(),
                false => Pool::private(1).unwrap(),
            };
            let (empty, comes) = ([semaphore("a"), semaphore("b")], semaphore("c"));
            let (held, free) = ([pool("d"), pool("e")], pool("f"));
            let _permits = held.each_ref().map(|pool| pool.acquire().unwrap());
            for ready in [&comes as &dyn Arm, &free] {
                let _ = comes.try_down();
                comes.up().unwrap();
                let attempts = Cell::new(0);
                let arms = [&empty[0] as &dyn Arm, &held[0], ready, &held[1], &empty[1]].map(|a| Counted(a, &attempts));
                let arms = arms.each_ref().map(|arm| arm as &dyn Arm);
                let (at, taken) = choose(&arms, NOW).unwrap();
                assert_eq!((at, attempts.get()), (2, 1), "named: {named}");
                arms[at].give_back(taken);
            }
        }
        Arena::remove(&apart.name(), true).unwrap();
    }

    #[test]
    fn arms_in_two_named_arenas_are_refused_and_the_ready_one_keeps_its_unit() {
        let apart = [small(), small()];
        let [ready, other] = apart.each_ref().map(|arena| Semaphore::create_in(arena, "s", 0).unwrap());
        ready.up().unwrap();
        for arms in [[&ready, &other], [&other, &ready]] {
            assert!(matches!(choose(&arms, NOW), Err(SelectError::TwoArenas { .. })));
            assert_eq!(ready.value(), 1);
        }
        apart.iter().for_each(|arena| Arena::remove(&arena.name(), true).unwrap());
    }
}
