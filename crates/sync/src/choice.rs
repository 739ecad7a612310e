//! Choice: exactly one of several operations, whichever can be done first.
//!
//! `altsems` of Nix (nix-semaphores-tubes, 2.3.3) over everything that has a place in the wait queue. First every arm is
//! tried, in a random order; if none is ready, one wait stands on all of them (the wait queue's head says how), so
//! that a choice over thousands costs one record and one bit an arm, whatever their number.
//!
//! Private and named objects mix: the wait word is then the one in the named arena. Two named arenas do not: no
//! process that shares only one of them could grant.
//!
//! What Nix's source gets wrong and its text promises (evidence, faults 1, 2 and 4) is held by named tests: every arm
//! counts, a choice that was made has taken something, and its number is the caller's.

use crate::bias::Holds;
use crate::claim::{Aim, Glance, Operation, Refused, Taken, Wish, wait_for};
use crate::error::SelectError;
use crate::handle::shown;
use crate::patience::{Until, impatience, patience};
use crate::pool::party;
use crate::seat::{ThreadSeat, seat, watched};
use crate::tube::{packet, put_packet, spin};
use crate::wait::{Parties, Party, Patience};
use chappe_arena::Map;
use chappe_plat::clock;
use std::cell::Cell;

/// How often who cannot have a place in the wait queue looks.
const POLL: std::time::Duration = std::time::Duration::from_millis(1);

/// How a choice is made.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub until: Until,
    /// The first that is ready, instead of any.
    pub biased: bool,
    pub aim: Aim,
    /// Whether [`crate::interruptible`] is meant for it.
    pub interruptible: bool,
}

thread_local! {
    /// What decides which arm is tried first.
    static DICE: Cell<u32> = const { Cell::new(0) };
}

/// The first part of a choice: what nobody need have a seat for. Else the order goes on with the first arm that is not of that
/// kind.
#[inline(always)]
pub(crate) fn glance<A: Operation + ?Sized>(arms: &[&A], biased: bool) -> Result<(usize, Taken), Order> {
    let mut order = if biased || arms.len().wrapping_sub(1) >= 64 {
        Order::new(arms.len(), biased)
    } else {
        // First which are worth it, and then the dice: mostly it is one, and its number no branch depends on.
        let likely = arms.iter().enumerate().fold(0, |all, (at, arm)| all | u64::from(arm.may_be()) << at);
        if likely.is_power_of_two()
            && let at = likely.trailing_zeros() as usize
            && let Glance::Taken(taken) = arms[at].glance()
        {
            return Ok((at, taken));
        }
        Order::among(likely, arms.len())
    };
    while let Some(at) = order.peek() {
        match arms[at].glance() {
            Glance::Taken(taken) => return Ok((at, taken)),
            Glance::Nothing => order.skip(),
            Glance::Ask => break,
        }
    }
    Err(order)
}

/// Makes a choice: which arm, and what it took.
pub(crate) fn choose<A: Operation + ?Sized>(arms: &[&A], how: How) -> Result<(usize, Taken), SelectError> {
    let order = match how.aim {
        Aim::Take => match glance(arms, how.biased) {
            Ok(found) => return Ok(found),
            Err(order) => order,
        },
        Aim::Look => Order::new(arms.len(), how.biased),
    };
    rest(arms, how, order)
}

/// The rest of a choice, after a glance.
#[inline(never)]
pub(crate) fn rest<A: Operation + ?Sized>(arms: &[&A], how: How, order: Order) -> Result<(usize, Taken), SelectError> {
    let (named, private) = arenas(arms)?;
    let Some(main) = named.or(private) else { return nothing(how.until) };
    if order.peek().is_none() && matches!(how.until, Until::Now) {
        return Err(SelectError::WouldBlock);
    }
    let made = seated(arms, how, order, main, private.filter(|_| named.is_some()));
    match made {
        // The thread is about to end, or there are more waiters, or tubes, than the private arena has room for.
        Err(SelectError::Arena(_)) if arms.iter().all(|arm| arm.dies_unseen()) => poll(arms, how),
        made => made,
    }
}

fn seated<A: Operation + ?Sized>(
    arms: &[&A],
    how: How,
    order: Order,
    main: &'static Map,
    private: Option<&'static Map>,
) -> Result<(usize, Taken), SelectError> {
    let second: Option<Party> = private.map(|map| seat(map, party)).transpose()?;
    seat(main, |seat| {
        let who = Parties { main: party(seat), private: second };
        if let Some(found) = look(arms, &who, order, how.aim)? {
            return Ok(found);
        }
        let again = || look(arms, &who, Order::new(arms.len(), how.biased), how.aim);
        if let Until::Now = how.until {
            // Each of them, not only the first that helps.
            let revived = arms.iter().filter(|a| a.revive()).count() > 0;
            let found = if revived { again()? } else { None };
            return found.ok_or(SelectError::WouldBlock);
        }
        wait(arms, &who, seat, how, again)
    })?
}

/// The choice of who cannot have a place in the wait queue: looks now and then.
fn poll<A: Operation + ?Sized>(arms: &[&A], how: How) -> Result<(usize, Taken), SelectError> {
    loop {
        let nobody = Party { map: arms[0].map(), member: u32::MAX, generation: 0, holds: Holds::NONE };
        let who = Parties { main: nobody, private: None };
        if let Some(found) = look(arms, &who, Order::new(arms.len(), how.biased), how.aim)? {
            return Ok(found);
        }
        match how.until {
            Until::Now => return Err(SelectError::WouldBlock),
            Until::Time(at) if clock::now() >= at => return Err(SelectError::Timeout),
            _ => std::thread::sleep(POLL),
        }
    }
}

/// None of the arms is ready.
#[inline(never)]
fn wait<A: Operation + ?Sized>(
    arms: &[&A],
    who: &Parties,
    seat: &ThreadSeat,
    how: How,
    look: impl Fn() -> Result<Option<(usize, Taken)>, SelectError>,
) -> Result<(usize, Taken), SelectError> {
    let deadline = match how.until {
        Until::Time(at) => Some(at),
        Until::Forever | Until::Now => None,
    };
    let is_late = |end: Option<u64>| end.is_some_and(|end| clock::now() >= end);
    if is_late(deadline) && arms.iter().all(|arm| arm.dies_unseen()) {
        return Err(SelectError::Timeout);
    }
    let mut patience = if how.interruptible { impatience(seat) } else { patience(seat) };
    let meets = arms.iter().any(|arm| arm.has_meetings());
    // Whom one could meet is found only by who waits; and who looks for ever has no place among those who wait for the others.
    let looks = match patience.forever {
        true => arms.iter().all(|arm| arm.is_tube()),
        false => arms.iter().any(|arm| arm.is_tube()),
    };
    if patience.forever && arms.iter().any(|arm| !arm.dies_unseen()) {
        // Who never sleeps must see to it beforehand that somebody looks after the dead.
        watched(seat).map_err(SelectError::System)?;
    }
    if looks && !meets {
        let due = arms.iter().filter_map(|arm| arm.due()).min();
        let end = [deadline, due].into_iter().flatten().min();
        if let Some(found) = spin(&seat.looks, &patience, || is_late(end), || look().transpose()) {
            return found;
        }
        // That was it.
        patience = Patience { none: !patience.forever, ..patience };
    }
    for arm in arms {
        arm.prepare()?;
    }
    if arms.iter().any(|arm| !arm.dies_unseen()) {
        watched(seat).map_err(SelectError::System)?;
    }
    let packet = if meets { packet() } else { 0 };
    let first = Order::new(arms.len(), how.biased).peek().unwrap_or(0);
    let wish = Wish { aim: how.aim, first, deadline, patience: &patience, packet };
    let made = wait_for(who, arms, wish);
    let is_met = |(at, taken): &(usize, Taken)| arms[*at].has_meetings() && taken.word.0 == packet;
    if !made.as_ref().is_ok_and(is_met) {
        put_packet(packet);
    }
    made.map_err(|e| match e {
        Refused::Dead(arm) => dead(arms, arm),
        Refused::Interrupted => SelectError::Interrupted,
        // No arm asks for more than one.
        Refused::TimedOut | Refused::NoneFree | Refused::TooMany | Refused::Inherited => SelectError::Timeout,
    })
}

/// A choice without arms.
fn nothing(until: Until) -> Result<(usize, Taken), SelectError> {
    match until {
        Until::Now => Err(SelectError::WouldBlock),
        Until::Forever => Err(SelectError::Nothing),
        Until::Time(at) => {
            std::thread::sleep(std::time::Duration::from_nanos(at.saturating_sub(clock::now())));
            Err(SelectError::Timeout)
        }
    }
}

fn inherited<A: Operation + ?Sized>(arms: &[&A], arm: usize) -> SelectError {
    let (map, place) = (arms[arm].map(), arms[arm].place());
    SelectError::Inherited { arm, name: shown(map, place) }
}

fn dead<A: Operation + ?Sized>(arms: &[&A], arm: usize) -> SelectError {
    let (map, place) = (arms[arm].map(), arms[arm].place());
    SelectError::Dead { arm, name: shown(map, place) }
}

/// The named arena of a choice, if any of it is in one, and the private one, if any is there.
fn arenas<A: Operation + ?Sized>(arms: &[&A]) -> Result<(Option<&'static Map>, Option<&'static Map>), SelectError> {
    let (mut named, mut private): (Option<&'static Map>, Option<&'static Map>) = (None, None);
    let mut last: *const Map = std::ptr::null();
    for arm in arms {
        let map = arm.map();
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

/// Tries the arms that are left.
#[inline]
fn look<A: Operation + ?Sized>(
    arms: &[&A],
    who: &Parties,
    mut order: Order,
    aim: Aim,
) -> Result<Option<(usize, Taken)>, SelectError> {
    while let Some(at) = order.peek() {
        match aim.attempt(arms[at], who.party(arms[at].map())) {
            Ok(taken) => return Ok(Some((at, taken))),
            Err(Refused::Dead(_)) => return Err(dead(arms, at)),
            Err(Refused::Inherited) => return Err(inherited(arms, at)),
            Err(_) => order.skip(),
        }
    }
    Ok(None)
}

/// The order in which arms are tried: as listed, or, so that each that is ready is as likely to be found first, by the dice.
pub(crate) struct Order {
    at: usize,
    /// Up to 64: those that have not had their turn, one bit each. More: numbers below a power of two, by a linear congruence
    /// of full period: about as likely.
    left: u64,
    mask: u64,
    factor: u64,
    more: u64,
    arms: usize,
    biased: bool,
}

impl Order {
    #[inline(always)]
    fn new(arms: usize, biased: bool) -> Order {
        if !biased && arms.wrapping_sub(1) < 64 {
            return Order::among(u64::MAX >> (64 - arms), arms);
        }
        let mut order = Order { at: 0, left: 0, mask: 0, factor: 1, more: 1, arms, biased };
        if !biased && arms > 0 {
            order.set_out();
            order.skip_far();
        }
        order
    }

    /// Some of up to 64 arms, by the dice.
    #[inline(always)]
    fn among(some: u64, arms: usize) -> Order {
        let mut order = Order { at: usize::MAX, left: some, mask: 0, factor: 1, more: 1, arms, biased: false };
        order.skip();
        order
    }

    #[cold]
    fn set_out(&mut self) {
        let roll = || u64::from(roll());
        self.mask = self.arms.next_power_of_two() as u64 - 1;
        (self.factor, self.more) = (roll() << 2 | 1, roll() | 1);
        self.left = self.mask + 1;
        self.at = roll() as usize;
    }

    /// The arm whose turn it is.
    #[inline]
    fn peek(&self) -> Option<usize> {
        (self.at < self.arms).then_some(self.at)
    }

    /// The next one's turn.
    #[inline(always)]
    fn skip(&mut self) {
        if self.biased {
            self.at = self.at.wrapping_add(1);
        } else if self.mask != 0 {
            self.skip_far();
        } else if self.left & self.left.wrapping_sub(1) == 0 {
            // The last, or none: then beyond all.
            self.at = self.left.trailing_zeros() as usize;
            self.left = 0;
        } else {
            self.skip_by_dice();
        }
    }

    fn skip_by_dice(&mut self) {
        let among = u64::from(self.left.count_ones());
        let mut rest = self.left;
        for _ in 0..(u64::from(roll()) * among) >> 32 {
            rest &= rest - 1;
        }
        self.at = rest.trailing_zeros() as usize;
        self.left &= !(1 << self.at);
    }

    #[cold]
    fn skip_far(&mut self) {
        let mut at = self.at as u64;
        loop {
            if self.left == 0 {
                self.at = usize::MAX;
                return;
            }
            self.left -= 1;
            at = at.wrapping_mul(self.factor).wrapping_add(self.more) & self.mask;
            if at < self.arms as u64 {
                self.at = at as usize;
                return;
            }
        }
    }
}

/// A cheap generator (xorshift, 32 bits), one a thread: which arm is tried first need not be secret.
#[inline(always)]
fn roll() -> u32 {
    let mut x = DICE.get();
    if x == 0 {
        x = seed();
    }
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    DICE.set(x);
    x
}

#[cold]
fn seed() -> u32 {
    // Another one for each thread.
    (clock::now() as u32 ^ (DICE.with(std::ptr::from_ref) as usize as u32).wrapping_mul(0x9e37_79b9)) | 1
}
