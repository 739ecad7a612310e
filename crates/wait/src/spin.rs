//! Looking for a while before a thread sleeps, as long as that pays.
//!
//! A message from a running thread comes within some hundred nanoseconds; a wake-up costs some microseconds. So a thread that finds
//! nothing looks again, first pausing for ever longer, then giving way to other threads that want the processor. A message that comes ten
//! thousand times a second never comes in that time: looking for it would only burn the processor. So each thread keeps count: what paid
//! is done more, what did not less, and, when it has not paid for long, only now and then.
//!
//! If a message was there before the thread slept, though the thread had stopped looking or had not looked at all, it came while the
//! thread got ready to sleep. That takes longer than looking (the fence for all threads: 15 us where processors are virtual). So looking
//! would have paid.
//!
//! Where many threads wait on few processors, giving way only lets one waiter after the other look: there it ends after a few times.
//!
//! Two threads that answer each other, and both sleep, would sleep for ever after: for each the answer comes as late as the other takes
//! to get up. So a thread that has just woken another, and now waits, looks for as long as that takes. Then the other thread, when its
//! turn comes to look, finds that it pays. If that has no effect within so many answers, the thread sleeps again, and tries it much later.
//! (Two processors of a virtual machine, where getting up takes 25 to 50 us: a round trip stayed at 65 us once it had come to that; now
//! it is at 0.4 again after some hundreds.)
//!
//! Paper: nix-semaphores-tubes, 2.2.1 (the busy wait before a thread sleeps, and roles).

use crate::wait::{Lately, Patience, lately};
use chappe_plat::atomic::{give_way, pause};
use chappe_plat::clock;
use std::cell::Cell;

/// Looks with 1, 2, 4... pauses in between: some hundred nanoseconds in all.
const PAUSING: u32 = 5;
/// Looks with giving way in between, for each that paid.
const GIVING_WAY: u32 = 8;
/// The most that the count grows to.
const MOST: u32 = 8;
/// Of so many waits that do not look, one does all the same.
const SELDOM: u32 = 16;

/// If giving way [`GIVING_WAY`] times less one takes longer than this, others use this processor: then each time costs
/// two switches, and going on costs more than sleeping. (64 senders that wait at full tubes gave way 64 times each:
/// seven switches a message.)
const CROWDED: u64 = 7_000;

/// How long a thread looks for the answer of a thread that has to get up first: nanoseconds.
const GETTING_UP: u64 = 100_000;
/// For so many answers in a row without effect.
const ANSWERS: u8 = 32;
/// After so many waits in which that was not worth it the thread tries it again.
const MUCH_LATER: u16 = 1_000;

/// What a thread knows of whether looking pays. `pays`: how much it did. `ago`: how many waits ago it last looked.
/// `gives`: what it waited for came while it gave way, so the sender needs this very processor, and pausing only delays
/// it. `failed`: it then was going to sleep. `answers`: how many more answers it would look for while others get up.
/// `since`: for how many waits it has not done that.
#[derive(Clone, Copy)]
pub struct Looks {
    pays: u8,
    ago: u8,
    gives: bool,
    failed: bool,
    answers: u8,
    since: u16,
}

impl Looks {
    pub const NEW: Looks = Looks { pays: MOST as u8, ago: 0, gives: false, failed: false, answers: ANSWERS, since: 0 };

    /// The message came during a short look. `gives`: while giving way.
    fn paid(self, gives: bool) -> Looks {
        Looks { pays: (self.pays + 2).min(MOST as u8), gives, ..Looks::NEW }
    }

    /// The message came once another thread had got up for it.
    fn answered(self) -> Looks {
        Looks { answers: self.answers - 1, since: 0, failed: false, ..self }
    }

    /// The message did not come.
    fn failed(self, looked: bool) -> Looks {
        let (pays, ago) = if looked { (self.pays.saturating_sub(1), 0) } else { (self.pays, self.ago + 1) };
        let rested = self.answers == 0 && self.since >= MUCH_LATER;
        let (answers, since) = if rested { (ANSWERS, 0) } else { (self.answers, self.since.saturating_add(1)) };
        Looks { pays, ago, gives: self.gives && !looked, failed: true, answers, since }
    }
}

/// Looks until there is something, as long as the role and what was before allow. `count` is the thread's.
pub fn spin<R>(
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
            if turn.is_multiple_of(64) && (is_late() || patience.is_interrupted()) {
                return None;
            }
        }
    }
    let (Lately { woke, slept }, mut looks) = (lately(), count.get());
    if looks.failed && !slept {
        looks = looks.paid(false);
    }
    let looked = looks.pays > 0 || u32::from(looks.ago) >= SELDOM;
    if looked {
        let most = PAUSING + GIVING_WAY * u32::from(looks.pays.max(1));
        let mut began = 0;
        for turn in if looks.gives { PAUSING } else { 0 }..most {
            // After the first turn: the answer of a thread that needs this processor has come by then.
            if turn == PAUSING + 1 && most > PAUSING + GIVING_WAY {
                began = clock::now();
            } else if turn == PAUSING + GIVING_WAY && clock::now().saturating_sub(began) > CROWDED {
                break;
            }
            if turn < PAUSING {
                (0..1 << turn).for_each(|_| pause())
            } else {
                give_way()
            }
            if let Some(found) = look() {
                // After a later turn than the first, it came from another processor.
                count.set(looks.paid(turn == PAUSING));
                return Some(found);
            }
        }
    }
    if woke && looks.answers > 0 {
        if let Some((turn, found)) = look_for_long(&is_late, look) {
            count.set(if turn < GIVING_WAY { looks.paid(turn == 0) } else { looks.answered() });
            return Some(found);
        }
        looks = Looks { answers: 0, since: 0, ..looks };
    }
    count.set(looks.failed(looked));
    None
}

/// Looks for as long as another thread takes to get up. Returns the turn in which it found something.
#[cold]
fn look_for_long<R>(is_late: impl Fn() -> bool, mut look: impl FnMut() -> Option<R>) -> Option<(u32, R)> {
    let end = clock::now().saturating_add(GETTING_UP);
    let mut turn = 0;
    while clock::now() < end && !is_late() {
        give_way();
        if let Some(found) = look() {
            return Some((turn, found));
        }
        turn += 1;
    }
    None
}
