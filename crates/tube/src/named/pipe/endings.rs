//! The processes at the ends of a named tube: which are there, which senders have gone without having ended well, and the seal that lets
//! no more senders in.

use super::bits::{PER_WORD, bit, members_in};
use super::{AtomicU64, Ordering, Pipe, Side};
use chappe_arena::Admin;
use chappe_plat::step;

/// One arrival that has not ended well.
const ONE: u64 = 1 << PER_WORD;

impl Pipe<'_> {
    pub(super) fn word(&self, side: Side, member: u32) -> &AtomicU64 {
        &self.bits(side)[member as usize / PER_WORD]
    }

    /// Sets a member's bit, and counts it.
    pub(super) fn come(&self, side: Side, member: u32) {
        self.change(side, member, |word| (word & bit(member) == 0).then(|| word.wrapping_add(ONE | bit(member))));
    }

    /// Clears a member's bit; if it has ended well, it no longer counts. If recovery was there before, nothing is left
    /// to do.
    pub(super) fn go(&self, side: Side, member: u32, well: bool) {
        let gone = if well { ONE | bit(member) } else { bit(member) };
        self.change(side, member, |word| (word & bit(member) != 0).then(|| word.wrapping_sub(gone)));
    }

    fn change(&self, side: Side, member: u32, into: impl Fn(u64) -> Option<u64>) {
        let word = self.word(side, member);
        // SeqCst: I4 of the tube.
        let mut seen = word.load(Ordering::SeqCst);
        while let Some(new) = into(seen) {
            // SeqCst, both: I4 of the tube. A failure: another member of this word came or went.
            match word.compare_exchange(seen, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// How many times a process has come to an end.
    #[cfg(not(feature = "sim"))]
    pub fn came(&self, side: Side) -> u32 {
        // SeqCst: I4 of the tube.
        self.side(side).had.load(Ordering::SeqCst)
    }

    /// How many senders have died, or broken off, since the tube was made (I8 of the tube). It never goes back.
    pub fn died(&self) -> u32 {
        // All words: the counts outlast the members.
        let words = self.bits[..self.bits.len() / 2].iter().enumerate();
        words.map(|(at, word)| self.died_of(at, word)).fold(0, u32::wrapping_add)
    }

    /// The same of the members of one word.
    fn died_of(&self, at: usize, word: &AtomicU64) -> u32 {
        loop {
            // SeqCst: I8 of the tube.
            let seen = word.load(Ordering::SeqCst);
            let mut dead = [None; PER_WORD];
            for member in members_in(at, seen) {
                dead[member as usize % PER_WORD] = self.map.dead(member);
            }
            step!("senders counted");
            let still = |bit: usize| dead[bit].is_none() || self.map.dead((at * PER_WORD + bit) as u32) == dead[bit];
            // SeqCst: as above. The word is the same: nobody came or went, and no bit of a dead member was cleared; and
            // the dead are still the same dead: none of them was recovered and its number given to a later arrival that
            // died too.
            if word.load(Ordering::SeqCst) == seen && (0..PER_WORD).all(still) {
                let living = (seen as u32).count_ones() - dead.iter().flatten().count() as u32;
                return ((seen >> PER_WORD) as u32).wrapping_sub(living);
            }
        }
    }

    /// Of how many of these deaths receivers were told.
    pub fn told(&self) -> u32 {
        // SeqCst: as all of a side.
        self.head.told.load(Ordering::SeqCst)
    }

    /// Notes that receivers were told of so many deaths.
    fn tell_died(&self, died: u32) {
        let told = &self.head.told;
        // SeqCst: as all of a side.
        let mut seen = told.load(Ordering::SeqCst);
        while is_more(died, seen) {
            // SeqCst, both: as above. A failure: another receiver was told.
            match told.compare_exchange(seen, died, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Of how many deaths of senders a new receiver need not be told: those senders' records are gone, or others were
    /// told.
    pub fn known(&self) -> u32 {
        // Before the look at the ring: what the dead have sent is there by now, or has been received.
        let died = self.died();
        step!("deaths counted, not yet looked what is there");
        if !self.ring.is_empty() {
            return self.told();
        }
        self.tell_died(died);
        died
    }

    /// Whether more senders have died, or broken off, than a receiver was told of: how many. That counts as telling it.
    pub fn learns(&self, told: u32) -> Option<u32> {
        let died = self.died();
        is_more(died, told).then(|| self.tell_died(died)).map(|()| died)
    }

    /// Lets no more senders in.
    pub fn seal(&self, _admin: &Admin) {
        // SeqCst: I4 of the tube, before the look at the waiters.
        self.head.sealed.store(1, Ordering::SeqCst);
        step!("sealed, nobody told yet");
        self.bring(Side::Receivers);
    }
}

/// Compares two counts that wrap around.
fn is_more(count: u32, than: u32) -> bool {
    count.wrapping_sub(than) as i32 > 0
}
