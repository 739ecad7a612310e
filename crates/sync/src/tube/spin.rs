//! Looking for a while before one sleeps, as long as that pays.
//!
//! A message from a thread that runs comes within some hundred nanoseconds, a wake-up costs some microseconds: so who finds
//! nothing looks again, first pausing for ever longer, then giving way to whoever else wants the processor. A message that comes
//! ten thousand times a second never comes in that time: looking for it would only burn the processor. So each thread keeps count:
//! what paid is done more, what did not less, and, when it has not paid for long, only now and then.
//!
//! Paper: nix-semaphores-tubes, 2.2.1 (the busy wait before one sleeps, and roles).

use crate::wait::Patience;
use chappe_plat::atomic::{give_way, pause};
use std::cell::Cell;

/// Looks with 1, 2, 4... pauses in between: some hundred nanoseconds in all.
const PAUSING: u32 = 5;
/// Looks with giving way in between.
const GIVING_WAY: u32 = 8;
/// The most that the count grows to.
const MOST: u32 = 8;
/// Of so many waits that do not look, one does all the same.
const SELDOM: u32 = 16;

/// What a thread knows of whether looking pays: how much it did, how many waits ago it last looked, and whether what it waited for
/// came while it gave way: then who brings it needs this very processor, and pausing only keeps it off.
#[derive(Clone, Copy)]
pub(crate) struct Looks {
    pays: u8,
    ago: u8,
    gives: bool,
}

impl Looks {
    pub const NEW: Looks = Looks { pays: MOST as u8, ago: 0, gives: false };
}

/// Looks until there is something, as long as the role and what was before allow. `count` is the thread's.
pub(crate) fn spin<R>(
    count: &Cell<Looks>,
    patience: &Patience<'_>,
    is_late: impl Fn() -> bool,
    mut look: impl FnMut() -> Option<R>,
) -> Option<R> {
    if patience.none {
        return None;
    }
    if patience.forever {
        let mut turn = 0u32;
        loop {
            pause();
            if let Some(found) = look() {
                return Some(found);
            }
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(64) && is_late() {
                return None;
            }
        }
    }
    let Looks { pays, ago, gives } = count.get();
    if pays == 0 && u32::from(ago) < SELDOM {
        count.set(Looks { ago: ago + 1, ..count.get() });
        return None;
    }
    for turn in if gives { PAUSING } else { 0 }..PAUSING + GIVING_WAY {
        if turn < PAUSING {
            (0..1 << turn).for_each(|_| pause())
        } else {
            give_way()
        }
        if let Some(found) = look() {
            // Later ones than the first: it came from elsewhere.
            let gives = turn == PAUSING;
            count.set(Looks { pays: (pays + 2).min(MOST as u8), ago: 0, gives });
            return Some(found);
        }
    }
    count.set(Looks { pays: pays.saturating_sub(1), ago: 0, gives: false });
    None
}
