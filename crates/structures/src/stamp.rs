//! Numbers against ABA: a field of a word that rises with each use of what the word is about. A swap of a word that was seen fails if the use is over,
//! although all else may be as it was.
//!
//! | number | of | bits | rises |
//! |---|---|---|---|
//! | version | a permit's cell (`cell`) | 24 | when the permit becomes free |
//! | number | the word of a mutex, of a readers-writer lock (`owner`): free; with a holder, or reserved | 32; 18 | with each object in the slot |
//! | number | a semaphore's word without a unit on its way (`semaphore_word`) | 27 | with each object in the slot |
//! | number | a wait (`wait`): its low bits in the word, and in a lock's; in a cell's | 23; 20 of 55 | with each wait of the member |
//! | version | a batch of waiters (`wait`) | 42 | when a batch is built |
//! | epoch | a bias (`bias`): of a mutex, of a pool, whose cell has its version as well | 23; 19 | with each bias of the lock |
//! | number | a light thread's wait (`tube::lights`) | 37 | with each wait |
//! | lap | a slot of a ring of records (`record`, `broadcast`) | 45 | when the slot becomes empty |
//! | turn | a piece of memory (`turns`), a record of an operation (`mcas`) | 44 | when it becomes free |
//! | turn | a member's place in a monitor (`room`) | 24 | with each wait |
//! | tag | a link: of a `table`, `linked` | 42, 40 | with each change |
//! | tag | an element that was written down (`pile`) | 43 | with each change |
//! | number | a run of a ring without bound (`ring`) | 36 | with each run |
//!
//! A number wraps around. A thread that is stopped for exactly as many uses as there are numbers takes the later use for the one that it saw; each
//! word's head says what follows. Not here: generations and stamps that have a word, or the half of one, to themselves; tickets, which are an order;
//! the laps of a private ring, which never come round and lie inverted in their words.

/// The numbers in `BITS` bits of a word, from bit `AT` on.
pub struct Stamp<const AT: u32, const BITS: u32>;

impl<const AT: u32, const BITS: u32> Stamp<AT, BITS> {
    /// The bits of the number.
    pub const MASK: u64 = u64::MAX >> (u64::BITS - BITS) << AT;
    const ONE: u64 = 1 << AT;
    const IS_TOP: bool = AT + BITS == u64::BITS;

    /// A word's number.
    #[inline(always)]
    pub const fn of(word: u64) -> u64 {
        (word & Self::MASK) >> AT
    }

    /// A word of nothing but this number, which wraps around.
    #[inline(always)]
    pub const fn word(number: u64) -> u64 {
        number << AT & Self::MASK
    }

    /// A word of nothing but the number of another.
    #[inline(always)]
    pub const fn alone(word: u64) -> u64 {
        word & Self::MASK
    }

    /// A word with the next number, and all else as it is.
    #[inline(always)]
    pub const fn next(word: u64) -> u64 {
        let risen = word.wrapping_add(Self::ONE);
        // Where nothing lies above it, nothing can be carried into.
        if Self::IS_TOP { risen } else { word & !Self::MASK | risen & Self::MASK }
    }

    /// By how much the number of one word is ahead of another's, round the wrap: only the sign is of interest.
    #[inline(always)]
    pub const fn ahead(word: u64, other: u64) -> i64 {
        let up = u64::BITS - AT - BITS;
        ((word & Self::MASK) << up).wrapping_sub((other & Self::MASK) << up) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    type Middle = Stamp<3, 5>;
    type Top = Stamp<60, 4>;

    #[test]
    fn a_number_lies_in_its_bits_alone() {
        assert_eq!((Middle::MASK, Top::MASK), (0xf8, 0xf << 60));
        for number in 0..32 {
            let word = Middle::word(number) | !Middle::MASK;
            assert_eq!((Middle::of(word), Middle::alone(word)), (number, number << 3));
        }
        assert_eq!((Middle::word(33), Top::word(17)), (8, 1 << 60), "it wraps around");
    }

    #[test]
    fn the_next_number_changes_no_other_bit() {
        for others in [0, !Middle::MASK] {
            for number in 0..32 {
                let next = Middle::next(Middle::word(number) | others);
                assert_eq!((Middle::of(next), next & !Middle::MASK), ((number + 1) % 32, others));
            }
        }
        for number in 0..16 {
            let next = Top::next(Top::word(number) | 7);
            assert_eq!((Top::of(next), next & !Top::MASK), ((number + 1) % 16, 7));
        }
    }

    #[test]
    fn a_number_is_ahead_of_the_half_of_all_before_it() {
        for number in 0..32 {
            for by in 1..16 {
                let (word, later) = (Middle::word(number) | 7, Middle::word(number + by));
                assert!(Middle::ahead(later, word) > 0 && Middle::ahead(word, later) < 0, "{number} + {by}");
            }
            assert_eq!(Middle::ahead(Middle::word(number), Middle::word(number) | !Middle::MASK), 0);
        }
        assert!(Top::ahead(Top::word(0), Top::word(15)) > 0);
    }
}
