//! The wait bits of the members beyond the first 256: which lines of an object to read.
//!
//! Such a bit is in one of up to 128 lines, and a thread that looks for waiters must not read them all because there once were so many members. So each
//! object has a pair of words: a bit for each panel (for each two, where there are more than 64), and a number.
//!
//! ```text
//!   set a member's bit --> number + 1 --> set the panel's bit --> look at the object
//!   change the object --> read the pair --> read the lines of its bits --> all of one are 0: take that bit away, by a swap of the pair that was read
//! ```
//!
//! - F1: while a member's bit stands, and the member has set the panel's after it, the panel's stands. For a thread that takes the panel's away has found
//!   all lines 0 after it had read the number, and swaps the pair with the same number: a member that has raised it before had set its own bit before
//!   that, one that raises it in between makes the swap fail, and one that raises it later sets the panel's bit later.
//! - F2: a member looks at the object only after it has set both; so a thread that has changed the object, and does not find the panel's bit, is seen by
//!   the member (E1 of the wait queue).
//! - F3: a bit that stands without its panel's is that of a member that has not come so far, or died there. For a thread that looks for waiters it is as if it did
//!   not stand yet; but a thread that found it in a line may be about to grant something there. So whether a slot may be used again is asked of the bits
//!   themselves, in all lines. A panel's bit without any below costs one look.
//!
//! One more line of each panel, behind those of the objects, and one more pair, say in the same way which members are about to set their bits (batches of
//! the wait queue).
//!
//! Any step may be the last of its thread, and any number of threads may be at it. Explored: `tests/crash_far.rs`. The number has 64 bits.

use crate::layout::INLINE_MEMBERS;
#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
use crate::layout::{LINE, PANEL_MEMBERS};
use crate::map::Map;
use chappe_plat::atomic::Ordering;
#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
use chappe_plat::pair::Pair;
#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
use chappe_plat::step;

/// Words of an object's own bits.
const NEAR: usize = INLINE_MEMBERS as usize / 64;
/// Words of a line.
#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
const WORDS: usize = LINE / 8;

impl Map {
    /// Sets a member's bit on an object: before its look at the object. Answers whether the bit stood already.
    #[inline(always)]
    pub fn enlist(&self, object: u32, member: u32) -> bool {
        let bit = 1 << (member % 64);
        // SeqCst: E1 of the wait queue, before the look at the object.
        let stood = self.waiting(object, member as usize / 64).fetch_or(bit, Ordering::SeqCst) & bit != 0;
        #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
        if member >= INLINE_MEMBERS {
            self.enlist_far(object, member);
        }
        stood
    }

    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    fn far(&self, object: u32) -> &Pair {
        assert!(self.geometry().panels() > 0 && object <= self.geometry().objects);
        self.at(self.geometry().far_at(object))
    }

    /// How many panels have one bit.
    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    fn panels_a_bit(&self) -> u32 {
        self.geometry().panels().div_ceil(64)
    }

    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    #[cold]
    fn enlist_far(&self, object: u32, member: u32) {
        step!("bit set, its panel's not yet");
        let (far, bit) = (self.far(object), 1 << ((member - INLINE_MEMBERS) / PANEL_MEMBERS / self.panels_a_bit()));
        // SeqCst, both: after the member's bit, F1.
        far.high.fetch_add(1, Ordering::SeqCst);
        step!("number raised, the panel's bit not yet set");
        far.low.fetch_or(bit, Ordering::SeqCst);
    }

    /// The words of an object's wait set in which bits stand: each with the number of its first member.
    #[inline]
    pub fn enlisted(&self, object: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let all = self.waiting_words();
        // SeqCst: E1 of the wait queue, after the caller's change of the object.
        let near = (0..all.min(NEAR)).map(move |i| (i as u32 * 64, self.waiting(object, i).load(Ordering::SeqCst)));
        near.filter(|(_, bits)| *bits != 0).chain((all > NEAR).then(|| self.enlisted_far(object)).into_iter().flatten())
    }

    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    fn enlisted_far(&self, object: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (far, each) = (self.far(object), self.panels_a_bit() as usize * WORDS);
        // SeqCst, both: as above; F1, before the lines.
        let mut seen = [far.low.load(Ordering::SeqCst), far.high.load(Ordering::SeqCst)];
        // After the pair: a member whose panel's bit was seen is counted in.
        let (all, mut left) = (self.waiting_words(), seen[0]);
        let (mut words, mut bit, mut stands) = (0..0, 0, true);
        std::iter::from_fn(move || {
            loop {
                for i in words.by_ref() {
                    let bits = self.waiting(object, i).load(Ordering::SeqCst); // SeqCst: as above.
                    if bits != 0 {
                        stands = true;
                        return Some((i as u32 * 64, bits));
                    }
                }
                if !stands {
                    step!("no bit stands where the pair says that one may");
                    let without = [seen[0] & !bit, seen[1]];
                    // F1. A failure: another thread did, or a member has come.
                    if far.compare_exchange(seen, without).is_ok() {
                        seen = without;
                    }
                }
                if left == 0 {
                    stands = true;
                    return None;
                }
                bit = left & left.wrapping_neg();
                left ^= bit;
                let first = NEAR + bit.trailing_zeros() as usize * each;
                (words, stands) = (first..(first + each).min(all), false);
            }
        })
    }

    /// loom's arenas have few members.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    fn enlisted_far(&self, object: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let words =
            (NEAR..self.waiting_words()).map(move |i| (i as u32 * 64, self.waiting(object, i).load(Ordering::SeqCst))); // SeqCst: as above.
        words.filter(|(_, bits)| *bits != 0)
    }

    /// Says that a member is about to set its bits. The first members need not: they are few.
    pub fn begin_joining(&self, member: u32) {
        if member >= INLINE_MEMBERS {
            self.enlist(self.geometry().objects, member);
        }
    }

    /// The member has set its bits, or has given up.
    pub fn end_joining(&self, member: u32) {
        if member >= INLINE_MEMBERS {
            // Release: after the bits.
            self.waiting(self.geometry().objects, member as usize / 64)
                .fetch_and(!(1 << (member % 64)), Ordering::Release);
        }
    }

    /// The members that may be about to set their bits.
    pub fn joining(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.members_used();
        let far = (used > INLINE_MEMBERS).then(|| self.enlisted_far(self.geometry().objects));
        let of =
            |(first, bits): (u32, u64)| (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| first + bit);
        (0..used.min(INLINE_MEMBERS)).chain(far.into_iter().flatten().flat_map(of))
    }

    /// Whether any bit stands on the object, said or not: F3.
    #[cold]
    pub fn has_a_bit(&self, object: u32) -> bool {
        // SeqCst: as for a scan.
        (0..self.waiting_words()).any(|i| self.waiting(object, i).load(Ordering::SeqCst) != 0)
    }

    /// Whether a bit of a member beyond the first stands.
    #[cold]
    pub(crate) fn waits_far(&self, object: u32) -> bool {
        self.enlisted_far(object).next().is_some()
    }
}
