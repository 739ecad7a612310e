//! Tables of what cells name by a number: styles, and characters with marks. A table only grows, until it is full; then what no cell names
//! any more is thrown out ([`Table::keep`]), and the rest has new numbers.
//!
//! A program that colours changes between a few styles all the time: what was asked for lately is found by a sum that costs next to nothing. The
//! rest is found by a hash that a hostile program cannot foresee.

use std::collections::HashMap;
use std::hash::Hash;

/// What a table can have.
pub trait Value: Copy + Eq + Hash + Default {
    /// A cheap sum of all of it.
    fn sum(self) -> u64;
}

/// How many bits of a sum say where the number of a value that was asked for lately is.
const RECENT_BITS: u32 = 10;

/// A table of at most so many different values. Number 0 is the default value.
#[derive(Clone, Debug)]
pub struct Table<T> {
    values: Vec<T>,
    numbers: HashMap<T, u16>,
    /// For each part of a sum, the number of the last value that was asked for and has it: a guess.
    recent: Box<[u16]>,
    most: usize,
    /// How many were refused since the last look for what is not named any more.
    refused: usize,
}

impl<T: Value> Table<T> {
    /// An empty one.
    pub fn new(most: usize) -> Table<T> {
        Table::of(most, vec![T::default()])
    }

    /// One that has these values; the first is the default.
    pub fn of(most: usize, values: Vec<T>) -> Table<T> {
        // Of equal values the first counts.
        let numbers = values.iter().enumerate().rev().map(|(at, value)| (*value, at as u16)).collect();
        Table { values, numbers, recent: vec![0; 1 << RECENT_BITS].into(), most, refused: 0 }
    }

    /// The number of a value; None: the table is full.
    #[inline(always)]
    pub fn number(&mut self, value: T) -> Option<u16> {
        self.within(value, self.most - self.most / 8)
    }

    /// The same, also in the last eighth, which is kept for values that stand for others.
    pub fn number_of_substitute(&mut self, value: T) -> Option<u16> {
        self.within(value, self.most)
    }

    #[inline(always)]
    fn within(&mut self, value: T, most: usize) -> Option<u16> {
        // A multiplication spreads the sum over the high bits.
        let guess = (value.sum().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS)) as usize;
        let recent = self.recent[guess];
        if self.values.get(usize::from(recent)) == Some(&value) {
            return Some(recent);
        }
        let number = self.find(value, most)?;
        self.recent[guess] = number;
        Some(number)
    }

    #[cold]
    fn find(&mut self, value: T, most: usize) -> Option<u16> {
        if let Some(number) = self.numbers.get(&value) {
            return Some(*number);
        }
        if self.values.len() >= most {
            self.refused += 1;
            return None;
        }
        let number = self.values.len() as u16;
        self.values.push(value);
        self.numbers.insert(value, number);
        Some(number)
    }

    /// The value of a number. A number that was never given is the default's.
    pub fn value(&self, number: u16) -> T {
        self.values.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// All values, in the order of their numbers.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Whether it is worth looking for what is not named any more: not after each refusal, if the last look found next to nothing.
    pub fn may_be_swept(&self) -> bool {
        self.refused == 1 || self.refused > self.most
    }

    /// Throws out all but those that are named; answers the new number of each old one.
    pub fn keep(&mut self, is_named: impl Fn(u16) -> bool) -> Vec<u16> {
        let mut kept = vec![T::default()];
        let new = (0..self.values.len() as u16)
            .map(|number| {
                if number == 0 || !is_named(number) {
                    return 0;
                }
                kept.push(self.value(number));
                kept.len() as u16 - 1
            })
            .collect();
        // A sweep that freed little is not to be repeated soon.
        let refused = if kept.len() > self.most - self.most / 4 { 2 } else { 0 };
        *self = Table::of(self.most, kept);
        self.refused = refused;
        new
    }
}

/// A character and its combining marks: their UTF-8, and how many bytes that has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cluster([u64; CLUSTER_WORDS]);

/// How many words a cluster has.
pub const CLUSTER_WORDS: usize = 4;

const MOST: usize = CLUSTER_WORDS * 8 - 1;

impl Cluster {
    /// That of a text; None if it is too long: a letter has a few marks, a flood of them is cut off.
    pub fn of(text: &str) -> Option<Cluster> {
        if text.len() > MOST {
            return None;
        }
        let mut bytes = [0; CLUSTER_WORDS * 8];
        bytes[0] = text.len() as u8;
        bytes[1..=text.len()].copy_from_slice(text.as_bytes());
        let mut words = [0; CLUSTER_WORDS];
        for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(part.try_into().unwrap_or_default());
        }
        Some(Cluster(words))
    }

    /// Its words.
    pub fn words(self) -> [u64; CLUSTER_WORDS] {
        self.0
    }

    /// That of words.
    pub fn of_words(words: [u64; CLUSTER_WORDS]) -> Cluster {
        Cluster(words)
    }

    /// Its text.
    pub fn text(self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let len = usize::from(bytes[0]).min(MOST);
        let text = String::from_utf8_lossy(&bytes[1..=len]);
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

impl Value for Cluster {
    fn sum(self) -> u64 {
        self.0.iter().fold(0, |sum, word| sum.rotate_left(7) ^ word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Value for u32 {
        fn sum(self) -> u64 {
            // Some have the same.
            u64::from(self / 2)
        }
    }

    #[test]
    fn a_full_table_has_room_again_for_what_is_not_named() {
        let mut table: Table<u32> = Table::new(8);
        for value in 1..7 {
            assert_eq!(table.number(value), Some(value as u16));
        }
        assert_eq!((table.number(5), table.number(99), table.may_be_swept()), (Some(5), None, true));
        assert_eq!((table.number_of_substitute(7), table.number_of_substitute(8)), (Some(7), None));
        let new = table.keep(|number| number == 3 || number == 6);
        assert_eq!(new, [0, 0, 0, 1, 0, 0, 2, 0]);
        assert_eq!((table.value(1), table.value(2), table.number(99)), (3, 6, Some(3)));
    }

    #[test]
    fn a_table_that_cannot_be_swept_is_not_looked_at_each_time() {
        let mut table: Table<u32> = Table::new(8);
        (1..8).for_each(|value| _ = table.number(value));
        assert!(table.may_be_swept());
        table.keep(|_| true);
        assert_eq!(table.number(99), None);
        assert!(!table.may_be_swept());
    }

    #[test]
    fn a_cluster_has_its_text_and_a_flood_is_refused() {
        let text = "e\u{301}\u{302}";
        assert_eq!(Cluster::of(text).map(Cluster::text).as_deref(), Some(text));
        assert_eq!(Cluster::of(&"a".repeat(32)), None);
        assert_eq!(Cluster::of_words([u64::MAX; CLUSTER_WORDS]).text().chars().count(), 31);
    }
}
