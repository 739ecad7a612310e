//! Byte strings, each kept once and numbered in the order in which they came: the keys of groups, the members of sets.
//!
//! Open addressing over powers of two, at most half full. A slot has the number and 32 bits of the hash, so a look at another key's bytes
//! is rare. The hash is of two multiplications a word under a seed of the process, so no input can be made of keys that collide.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Numbered byte strings.
#[derive(Clone, Default)]
pub struct Table {
    /// The number, counted from 1, and the upper half of the hash. 0: free.
    slots: Vec<u64>,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0u64) | 1)
}

#[inline]
fn mixed(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    wide as u64 ^ (wide >> 64) as u64
}

#[inline]
fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = seed() ^ bytes.len() as u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        h = mixed(h ^ u64::from_le_bytes(*word), ODD);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        h = mixed(h ^ u64::from_le_bytes(last), ODD);
    }
    mixed(h, ODD ^ seed())
}

impl Table {
    /// Bytes of all of them, one behind the other.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of memory.
    #[inline]
    pub fn size(&self) -> usize {
        8 * (self.slots.capacity() + self.ends.capacity()) + self.bytes.capacity()
    }

    /// One by its number.
    pub fn get(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[from..self.ends[at]]
    }

    /// All, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Its number; a new one if it was not there.
    #[inline]
    pub fn add(&mut self, key: &[u8]) -> usize {
        if 2 * self.len() >= self.slots.len() {
            self.grow();
        }
        let hash = hash(key);
        let (mask, tag) = (self.slots.len() - 1, hash >> 32);
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                self.bytes.extend_from_slice(key);
                self.ends.push(self.bytes.len());
                self.slots[at] = tag << 32 | self.len() as u64;
                return self.len() - 1;
            }
            let number = slot as u32 as usize - 1;
            if slot >> 32 == tag && self.get(number) == key {
                return number;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let many = (2 * self.slots.len()).max(16);
        assert!(u32::try_from(many).is_ok(), "a table has at most 2^31 slots");
        let mut slots = vec![0; many];
        for number in 0..self.len() {
            let hash = hash(self.get(number));
            let mut at = hash as usize & (many - 1);
            while slots[at] != 0 {
                at = (at + 1) & (many - 1);
            }
            slots[at] = hash >> 32 << 32 | (number + 1) as u64;
        }
        self.slots = slots;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.ends.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_the_number_of_its_first_coming() {
        let mut table = Table::default();
        let keys: Vec<Vec<u8>> = (0..5000u32).map(|n| n.to_string().into_bytes()[..].repeat(n as usize % 4)).collect();
        let mut seen: Vec<&[u8]> = Vec::new();
        for key in &keys {
            let number = seen.iter().position(|k| k == key).unwrap_or(seen.len());
            if number == seen.len() {
                seen.push(key);
            }
            assert_eq!(table.add(key), number);
        }
        assert_eq!(table.iter().collect::<Vec<_>>(), seen);
        table.clear();
        assert_eq!((table.len(), table.add(b"7")), (0, 0));
    }
}
