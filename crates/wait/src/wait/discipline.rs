//! In which order an object's waiters are served: by arrival, or by priority.
//!
//! Every object serves its waiters in the order of arrival, except pools and semaphores that were made to serve by priority. There the
//! *rank* of a waiter decides first, and its arrival number decides among waiters of one rank. So the order is one comparable value,
//! [`Candidate`](super::Candidate), and all code that chooses among waiters takes the smallest.
//!
//! | rank | waiters |
//! |---|---|
//! | 0 | all, where the order is that of arrival; else those that have waited for the object's *aging* time |
//! | 1 + 255 - p | a waiter of priority p |
//!
//! A waiter has its own priority (`Member::priority`) and time of arrival (`Member::waiting_since`, on the clock that all time
//! namespaces have in common). It publishes both with its ticket, before its word says WAITING, and does not change them in one wait.
//!
//! - P1: among the waiters that a drainer saw, if none has waited for the aging time, one of the highest priority is served, and of several
//!   the one that came first.
//! - P2: no later waiter overtakes a waiter that has waited for the aging time. Until then any waiter of a higher priority may. So a waiter
//!   waits for the aging time at most, and then for its turn among those that came before it.
//! - P3: a waiter's rank never grows during its wait, so two drainers that look at different times agree in the end. The same swaps as in
//!   arrival order decide which of them grants; no invariant of a protocol depends on the order.
//! - P4: no thread acts when an aging time passes. It decides which waiter is first when the next permit or unit comes, and makes none free.
//!   (A waiter for several permits that has some set aside loses them when a waiter of a lower rank comes, or at the next look after a
//!   waiter has got a lower rank: drain.)
//!
//! Dead members are skipped, as everywhere: a dead waiter of the highest priority holds up no other.
//!
//! The discipline is encoded in the object's own word for its number of permits ([`Object::permits`]), in the 15 bits that no number of
//! permits needs. It is written before the object is in service, and never changed.
//!
//! | bits of the code | |
//! |---|---|
//! | all 0 | by arrival |
//! | 1 | by priority, without aging |
//! | 0-9 and 10-14, the first not less than 2 | by priority; the aging time is the first, shifted by the second, in milliseconds |
//!
//! Explored: `tests/crash_priority.rs`.

use super::parties::{Parties, Party, Patience};
use chappe_arena::Map;
use chappe_arena::layout::{Head, Kind, Member, Object};
use chappe_plat::atomic::Ordering;
use chappe_plat::clock;
use std::time::Duration;

/// Where the code begins in [`Object::permits`].
const SHIFT: u32 = 17;
const _: () = assert!(chappe_arena::layout::MAX_PERMITS < 1 << SHIFT);
/// The part of [`Object::permits`] that is a number.
pub const NUMBER: u32 = (1 << SHIFT) - 1;

/// [`Object::permits`] of a semaphore whose waiters may be overtaken.
pub const BARGING: u32 = 1;

/// Whether a semaphore's waiters may be overtaken.
#[inline]
pub fn is_barging(o: &Object) -> bool {
    // Relaxed: written before the object was in service, never changed.
    o.permits.load(Ordering::Relaxed) & NUMBER == BARGING
}

const STRICT: u32 = 1;
const MANTISSA: u32 = (1 << 10) - 1;

/// In which order waiters are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discipline {
    /// In the order of arrival.
    #[default]
    Fifo,
    /// Waiters of a higher `Priority` first; within one priority, in the order of arrival.
    Priority {
        /// No later waiter overtakes a waiter that has waited for this long. `None`: a waiter of low priority may wait for ever. The time is
        /// rounded up, by a thousandth at most, to what the object has room for: 2 milliseconds at least, some 290 days at most.
        aging: Option<Duration>,
    },
}

impl Discipline {
    /// By priority, with the usual aging time: one second.
    pub const PRIORITY: Discipline = Discipline::Priority { aging: Some(Duration::from_secs(1)) };

    /// As [`Object::permits`] has it, to be added to the number there.
    #[inline]
    pub fn code(self) -> u32 {
        let aging = match self {
            Discipline::Fifo => return 0,
            Discipline::Priority { aging: None } => return STRICT << SHIFT,
            Discipline::Priority { aging: Some(aging) } => aging,
        };
        let ms = u64::try_from(aging.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(2);
        let fits = |shift: &u32| ms.div_ceil(1 << shift) <= u64::from(MANTISSA);
        let code = match (0..32).find(fits) {
            Some(shift) => ms.div_ceil(1 << shift) as u32 | shift << 10,
            None => MANTISSA | 31 << 10,
        };
        code << SHIFT
    }

    fn decoded(code: u32) -> Discipline {
        match code {
            0 => Discipline::Fifo,
            STRICT => Discipline::Priority { aging: None },
            _ => {
                let ms = u64::from(code & MANTISSA) << (code >> 10);
                Discipline::Priority { aging: Some(Duration::from_millis(ms)) }
            }
        }
    }

    /// The object's discipline. For objects other than pools and semaphores: by arrival.
    #[inline]
    pub fn of(o: &Object) -> Discipline {
        Discipline::decoded(code_of(o))
    }

    /// Whether it is by priority.
    #[inline]
    pub fn is_by_priority(self) -> bool {
        self != Discipline::Fifo
    }
}

#[inline]
fn code_of(o: &Object) -> u32 {
    // Relaxed, both: the granter looks at the head once more, after the waiters.
    let kind = Head(o.head.load(Ordering::Relaxed)).kind();
    let said = o.permits.load(Ordering::Relaxed); // Relaxed: as above.
    if matches!(kind, Some(Kind::Pool | Kind::Semaphore)) { said >> SHIFT } else { 0 }
}

/// What decides a waiter's rank at one moment, at one object.
#[derive(Clone, Copy)]
pub(crate) struct Ranks {
    code: u32,
    /// A waiter that came before this time has waited for the aging time.
    aged: u64,
}

impl Ranks {
    /// The ranks of the object's waiters at this moment.
    #[inline]
    pub fn of(map: &Map, object: u32) -> Ranks {
        let code = code_of(map.object(object));
        let aged = match code {
            0 | STRICT => 0,
            _ => {
                let Discipline::Priority { aging: Some(aging) } = Discipline::decoded(code) else { unreachable!() };
                clock::common_coarse().saturating_sub(aging.as_nanos() as u64)
            }
        };
        Ranks { code, aged }
    }

    /// Whether all waiters have the same rank.
    #[inline]
    pub fn are_equal(self) -> bool {
        self.code == 0
    }

    /// A waiter's rank. The caller has read before this that its word says it waits.
    #[inline]
    pub fn rank(self, m: &Member) -> u32 {
        if self.code == 0 {
            return 0;
        }
        // Acquire, both: E2, as the ticket.
        let (priority, since) = (m.priority.load(Ordering::Acquire), m.waiting_since.load(Ordering::Acquire));
        if since < self.aged { 0 } else { 1 + u32::from(u8::MAX) - priority.min(u8::MAX.into()) }
    }
}

/// What decides a waiter's place in each queue.
#[derive(Clone, Copy)]
pub struct Arrival {
    /// The arrival number in the main arena, and in the private one.
    pub tickets: (u64, u64),
    /// When, on the common clock.
    pub since: u64,
    /// Of the waiter.
    pub priority: u8,
}

/// The next arrival.
#[inline]
pub fn arrive(who: &Parties, patience: &Patience<'_>) -> Arrival {
    // Relaxed: only the order among tickets of one object counts, and each is taken before its bit is set.
    let next = |p: &Party| p.map.header().ticket.fetch_add(1, Ordering::Relaxed);
    let tickets = (next(&who.main), who.private.as_ref().map_or(0, next));
    Arrival { tickets, since: clock::common_coarse(), priority: patience.priority }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aging_time_is_rounded_up_by_a_thousandth_at_most() {
        for ms in (0..40).map(|shift| 1u64 << shift).chain([2, 3, 999, 1000, 1023, 1024, 1025, 86_400_000, 86_400_001])
        {
            let made = Discipline::Priority { aging: Some(Duration::from_millis(ms)) };
            let Discipline::Priority { aging: Some(kept) } = Discipline::decoded(made.code() >> SHIFT) else {
                panic!("{ms} ms are no aging time any more")
            };
            let (kept, most) = (kept.as_millis() as u64, u64::from(MANTISSA) << 31);
            assert!(kept >= ms.min(most) && kept <= ms.max(2) + ms / 512, "{ms} ms became {kept}");
        }
        let zero = Discipline::Priority { aging: Some(Duration::ZERO) };
        assert_eq!(
            Discipline::decoded(zero.code() >> SHIFT),
            Discipline::Priority { aging: Some(Duration::from_millis(2)) }
        );
    }

    #[test]
    fn the_other_orders_are_kept_exactly() {
        for kept in [Discipline::Fifo, Discipline::Priority { aging: None }, Discipline::PRIORITY] {
            assert_eq!(Discipline::decoded(kept.code() >> SHIFT), kept);
            assert_eq!(kept.code() & NUMBER, 0);
        }
    }
}
