//! A number for the state of a world, so that a search need not explore the same state twice.
//!
//! A fibre's state cannot be looked at, but it is determined by what the fibre has observed. So each thread has a
//! number that changes with everything it observes, each word one that names its last writer's number at that
//! time, and the world's is a sum over both. Two schedules that differ only in the order of independent
//! steps come to the same number; two in which a thread saw another write, or writes came in another order, do
//! not (but for chance, 1 in 2^64). This is the happens-before relation, not the values: so memory that is not
//! atomic, but ordered by atomics, is covered too.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Mixes two numbers into one.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.rotate_left(25).wrapping_add(b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 29)
}

#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = mix(self.0, u64::from(*b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(self.0, n);
    }
    fn write_usize(&mut self, n: usize) {
        self.0 = mix(self.0, n as u64);
    }
}

/// What stands for things that are not words of memory.
pub(crate) const CLOCK: usize = 1;
pub(crate) const FILES: usize = 2;
/// Added to a word's address: the queue of its sleepers.
pub(crate) const QUEUE: usize = 1 << 62;
/// Added to a process's index: whether it is there.
pub(crate) const PROCESS: usize = 16;

/// How something was touched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
}

/// The numbers of one schedule. Off unless a search wants them.
#[derive(Default)]
pub(crate) struct Trace {
    pub on: bool,
    threads: Vec<u64>,
    words: HashMap<usize, u64, BuildHasherDefault<Mixer>>,
    sum: u64,
}

impl Trace {
    pub fn clear(&mut self, on: bool) {
        self.on = on;
        self.threads.clear();
        self.words.clear();
        self.sum = 0;
    }

    fn thread_mut(&mut self, thread: usize) -> &mut u64 {
        while self.threads.len() <= thread {
            let n = self.threads.len() as u64;
            self.threads.push(mix(n, 0x5eed));
        }
        &mut self.threads[thread]
    }

    /// The thread touched the thing called `key`; `what` tells operations apart.
    #[inline]
    pub fn touch(&mut self, thread: usize, key: usize, what: u64, how: Touch) {
        if !self.on {
            return;
        }
        // Neighbouring halves of one 64-bit word are one thing.
        let key = if key > 4096 { key & !7 } else { key };
        let seen = self.words.get(&key).copied().unwrap_or(0);
        let number = self.thread_mut(thread);
        let old = *number;
        let new = mix(mix(old, seen), what);
        *number = new;
        self.sum ^= mix(thread as u64, old) ^ mix(thread as u64, new);
        if how == Touch::Write {
            self.words.insert(key, new);
            self.sum ^= mix(key as u64, seen) ^ mix(key as u64, new);
        }
    }

    /// Something befell the thread.
    pub fn befall(&mut self, thread: usize, what: u64) {
        if self.on {
            let number = self.thread_mut(thread);
            let old = *number;
            let new = mix(old, what);
            *number = new;
            self.sum ^= mix(thread as u64, old) ^ mix(thread as u64, new);
        }
    }

    /// What befell one thread depended on what another had done.
    pub fn follow(&mut self, thread: usize, cause: usize) {
        if self.on {
            let cause = *self.thread_mut(cause);
            self.befall(thread, cause);
        }
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// What stands for a thread.
    pub fn number(&mut self, thread: usize) -> u64 {
        if self.on { *self.thread_mut(thread) } else { 0 }
    }

    /// A store of the thread waits in its buffer.
    pub fn keep(&mut self, thread: usize, key: usize, number: u64) {
        if self.on {
            self.sum ^= mix(mix(thread as u64, key as u64), number);
        }
    }

    /// It arrives.
    pub fn arrive(&mut self, thread: usize, key: usize, number: u64) {
        if self.on {
            self.sum ^= mix(mix(thread as u64, key as u64), number);
            let key = key & !7;
            let seen = self.words.get(&key).copied().unwrap_or(0);
            let new = mix(mix(number, seen), 20);
            self.words.insert(key, new);
            self.sum ^= mix(key as u64, seen) ^ mix(key as u64, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: &[(usize, usize, Touch)]) -> u64 {
        let mut t = Trace::default();
        t.clear(true);
        for (thread, key, how) in steps {
            t.touch(*thread, *key, 1, *how);
        }
        t.sum()
    }

    #[test]
    fn independent_steps_commute_and_dependent_ones_do_not() {
        use Touch::{Read, Write};
        let (x, y) = (8192, 16384);
        assert_eq!(run(&[(0, x, Write), (1, y, Write)]), run(&[(1, y, Write), (0, x, Write)]));
        assert_eq!(run(&[(0, x, Read), (1, x, Read)]), run(&[(1, x, Read), (0, x, Read)]));
        assert_ne!(run(&[(0, x, Write), (1, x, Write)]), run(&[(1, x, Write), (0, x, Write)]));
        assert_ne!(run(&[(0, x, Read), (1, x, Write)]), run(&[(1, x, Write), (0, x, Read)]));
    }
}
