//! Who has come to the ends of a named tube, which senders have gone without having ended well, and that none comes any more.

use super::{Ordering, Pipe, Side};
use chappe_arena::Admin;
use chappe_plat::step;

impl Pipe<'_> {
    /// How many times somebody has come to an end.
    #[cfg(not(feature = "sim"))]
    pub fn came(&self, side: Side) -> u32 {
        // SeqCst: I4 of the tube.
        self.side(side).had.load(Ordering::SeqCst)
    }

    /// How many senders have died, or broken off, since the tube was made (I8 of the tube). Who is just coming may make it one fewer for a
    /// moment.
    pub fn died(&self) -> u32 {
        let senders = self.side(Side::Senders);
        // SeqCst, all: I4, I8 of the tube.
        let look = || (senders.had.load(Ordering::SeqCst), senders.tally.load(Ordering::SeqCst));
        let mut seen = look();
        loop {
            let there = self.attached(Side::Senders).count() as u32;
            step!("senders counted");
            let now = look();
            if now == seen {
                return seen.0.wrapping_sub(seen.1).wrapping_sub(there);
            }
            seen = now;
        }
    }

    /// How many of them receivers were told of.
    #[cfg(not(feature = "sim"))]
    pub fn told(&self) -> u32 {
        // SeqCst: as all of a side.
        self.side(Side::Receivers).tally.load(Ordering::SeqCst)
    }

    /// Receivers were told of so many.
    #[cfg(not(feature = "sim"))]
    pub fn tell_died(&self, died: u32) {
        let told = &self.side(Side::Receivers).tally;
        // SeqCst, both: as all of a side.
        let mut seen = told.load(Ordering::SeqCst);
        while (died.wrapping_sub(seen) as i32) > 0 {
            // SeqCst, both: as above. A failure: another was told.
            match told.compare_exchange(seen, died, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// No sender comes any more.
    pub fn seal(&self, _admin: &Admin) {
        // SeqCst: I4 of the tube, before the look who waits.
        self.head.sealed.store(1, Ordering::SeqCst);
        step!("sealed, nobody told yet");
        self.bring(Side::Receivers);
    }
}
