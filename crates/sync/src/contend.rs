//! Waiting for a mutex: the waiter looks for a while, sleeps, tries again when told, and is handed the mutex when overdue.
//!
//! ```text
//!   look (SPINS times, pausing, then giving way) -- free --> locked
//!     | held                                 ^
//!     v                                      |
//!   sleep -- told to try again --> look -----+
//!     |                              | held: sleep again, in the old place; overdue after half a millisecond
//!     +---- reserved for it ------------------------------------------------> locked
//! ```
//!
//! Paper: nix-semaphores-tubes, 2.2.1 (the busy wait before the sleep, and roles).

use crate::lock::{self, Try};
use chappe_plat::atomic::{give_way, pause};
use chappe_plat::clock;
use chappe_wait::interrupt::Interrupt;
use chappe_wait::operation::Site;
use chappe_wait::wait::{Ended, Parties, Patience, Terms, arrive, finish, wait};

/// How long a waiter may be overtaken.
const OVERDUE_NS: u64 = 500_000;
/// How many times a waiter looks at a held lock before it sleeps.
const SPINS: u32 = 12;
/// The first looks are this many pauses apart (100 to 150 ns), then twice as many each time, up to some 2 us; between the
/// later ones, other threads run on this processor. With shorter gaps, the holder loses its cache line to the waiters that look (at
/// 8 pauses throughout, sections of 20 ns cost 1.7 to 3.4 of parking_lot's on a processor with short pauses; so 0.6 to 1.0);
/// with longer gaps, the lock is idle for longer.
const PAUSING: u32 = 5;
const PAUSES: u32 = 8;

/// Waits for the mutex. The caller has found it held. `Busy`: the time was up first, or the wait was interrupted.
pub(crate) fn contend(who: &Parties, mutex: &Site, mine: u64, deadline: Option<u64>, patience: &Patience<'_>) -> Try {
    let Site { map, place, .. } = *mutex;
    let attempt = || lock::take(map, place, mine);
    let began = clock::now();
    patience.interrupt.into_iter().for_each(Interrupt::begin);
    let sleep = Patience { none: !patience.forever, ..*patience };
    let mut terms = Terms { first: 0, arrival: arrive(who, patience), need: 0, packet: 0, deadline, patience: &sleep };
    loop {
        let (ended, begun) = wait(who, &[mutex], terms);
        let (grant, number) = match ended {
            Ended::Granted(grant, number) => (grant, number),
            Ended::TimedOut => return Try::Busy,
            Ended::Dead(_) | Ended::TooMany if lock::condemned(map.object(place.index)) => return Try::Condemned,
            Ended::Dead(_) | Ended::TooMany => return Try::Dead,
        };
        let seen = if grant.is_retry() {
            finish(who, &[mutex], &begun);
            lock::untell(map.object(place.index));
            match attempt() {
                Try::Busy => look(patience, attempt),
                seen => seen,
            }
        } else {
            let seen = lock::collect(map, place, who.main.member, mine, number);
            finish(who, &[mutex], &begun);
            seen
        };
        if seen != Try::Busy {
            return seen;
        }
        terms.need = need(began);
    }
}

/// What a waiter needs that has waited since then: 1 if it is overdue.
pub(crate) fn need(began: u64) -> u32 {
    u32::from(clock::now().saturating_sub(began) >= OVERDUE_NS)
}

/// Looks for a while, as long as the role allows. The caller has just found the mutex held.
#[inline]
pub(crate) fn look(patience: &Patience<'_>, attempt: impl Fn() -> Try) -> Try {
    let turns = if patience.none { 0 } else { SPINS };
    for turn in 0..turns {
        if turn < PAUSING {
            (0..PAUSES << turn).for_each(|_| pause());
        } else {
            give_way();
        }
        let seen = attempt();
        if seen != Try::Busy {
            return seen;
        }
    }
    Try::Busy
}
