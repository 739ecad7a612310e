//! The run queue of a proc: eight levels, first in, first out (synthesis, 5.3.1).
//!
//! A counter selects the level for each turn: level 0 every second turn, level 1 every fourth, and so on, as in
//! Synthesis' table 0 1 0 2 0 1 0 3 ...; the number of trailing zeros of the counter is that table. An empty level
//! leaves its turn to the next level that holds a thread. So no level starves, and a level that is alone gets every
//! turn.
//!
//! Threads that talk to each other are few at a time: a thread mostly comes to an empty queue and is the next to run.
//! Such a thread lies in a place of its own (`first`), before those of its level, and the levels are not touched.
//!
//! The proc's I3 admits one user at a time, and leaving and entering the queue publish what the last user did. Only whether
//! the queue is empty may be asked by anybody, as a hint: so that word (`some`) is atomic.

use crate::record::Thread;
use chappe_plat::atomic::{AtomicU32, Ordering};
use std::cell::Cell;
use std::ptr::null;

pub(crate) const LEVELS: usize = 8;
/// A thread has the place of its own.
const FIRST: u32 = 1 << LEVELS;

/// Threads that are ready.
pub(crate) struct Queue {
    heads: [Cell<*const Thread>; LEVELS],
    tails: [Cell<*const Thread>; LEVELS],
    /// The thread that came to an empty queue, if `some` has [`FIRST`]: it goes before all others of its level.
    first: Cell<*const Thread>,
    /// A bit for each level whose list holds a thread, and [`FIRST`]. 0: the queue is empty.
    some: AtomicU32,
    turn: Cell<u32>,
}

impl Queue {
    pub const fn new() -> Queue {
        Queue {
            heads: [const { Cell::new(null()) }; LEVELS],
            tails: [const { Cell::new(null()) }; LEVELS],
            first: Cell::new(null()),
            some: AtomicU32::new(0),
            turn: Cell::new(0),
        }
    }

    /// How many threads the queue holds, and how many of them `are` so. It counts them: only a thief that shares them asks.
    pub fn count(&self, are: impl Fn(&Thread) -> bool) -> (u32, u32) {
        let (mut many, mut so) = (0, 0);
        let mut add = |thread: &Thread| (many, so) = (many + 1, so + u32::from(are(thread)));
        for head in &self.heads {
            let mut at = head.get();
            // SAFETY: what is in the queue is a record.
            while let Some(this) = unsafe { at.as_ref() } {
                add(this);
                at = this.next.get();
            }
        }
        // SAFETY: as above.
        self.has_first().then(|| unsafe { &*self.first.get() }).into_iter().for_each(add);
        (many, so)
    }

    #[inline(always)]
    fn some(&self) -> u32 {
        self.some.load(Ordering::Relaxed) // Relaxed: of the user, or a hint.
    }

    #[inline(always)]
    fn set_some(&self, some: u32) {
        self.some.store(some, Ordering::Relaxed); // Relaxed: as above.
    }

    #[inline(always)]
    fn has_first(&self) -> bool {
        self.some() & FIRST != 0
    }

    /// A hint, for a proc that is not at the queue.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.some() == 0
    }

    /// As the last of its level.
    #[inline(always)]
    pub fn push(&self, thread: &'static Thread) {
        if self.is_empty() {
            self.first.set(std::ptr::from_ref(thread));
            self.set_some(FIRST);
        } else {
            self.push_behind(thread);
        }
    }

    /// Puts in a thread that goes last of its level, and takes out the next, if that `may` be taken, where only that level has somebody. None, and
    /// nothing is done: several have, or none has.
    #[inline(always)]
    pub fn go_round(&self, thread: &'static Thread, may: impl Fn(&Thread) -> bool) -> Option<&'static Thread> {
        let level = usize::from(thread.level.get()) % LEVELS;
        if self.some() != 1 << level {
            return None;
        }
        // SAFETY: the level has somebody, so it has a first and a last; what is in the queue is a record.
        let first = unsafe { &*self.heads[level].get() };
        if !may(first) {
            return None;
        }
        let at = std::ptr::from_ref(thread);
        thread.next.set(null());
        // SAFETY: as above.
        unsafe { &*self.tails[level].replace(at) }.next.set(at);
        let after = first.next.get();
        self.heads[level].set(after);
        // SAFETY: as above; it has one at least, the caller.
        unsafe { &*after }.is_near();
        Some(first)
    }

    #[inline(always)]
    fn push_behind(&self, thread: &'static Thread) {
        let level = usize::from(thread.level.get()) % LEVELS;
        thread.next.set(null());
        let at = std::ptr::from_ref(thread);
        let tail = self.tails[level].replace(at);
        // SAFETY: what is in the queue is a record.
        match unsafe { tail.as_ref() } {
            Some(tail) => tail.next.set(at),
            None => {
                self.heads[level].set(at);
                self.set_some(self.some() | 1 << level);
            }
        }
    }

    /// As the first of its level.
    pub fn push_first(&self, thread: &'static Thread) {
        self.put_back_first();
        self.push_before(thread);
    }

    /// The thread that has the place of its own goes to the others of its level.
    fn put_back_first(&self) {
        if self.has_first() {
            self.set_some(self.some() & !FIRST);
            // SAFETY: what is in the queue is a record.
            self.push_before(unsafe { &*self.first.get() });
        }
    }

    fn push_before(&self, thread: &'static Thread) {
        let level = usize::from(thread.level.get()) % LEVELS;
        let at = std::ptr::from_ref(thread);
        let next = self.heads[level].replace(at);
        thread.next.set(next);
        if next.is_null() {
            self.tails[level].set(at);
            self.set_some(self.some() | 1 << level);
        }
    }

    /// Takes this one out, if it is there. Looks at those of its level that come before it.
    pub fn remove(&self, thread: &Thread) -> bool {
        self.put_back_first();
        let level = usize::from(thread.level.get()) % LEVELS;
        let mut before: Option<&Thread> = None;
        let mut at = self.heads[level].get();
        // SAFETY: what is in the queue is a record.
        while let Some(this) = unsafe { at.as_ref() } {
            let next = this.next.get();
            if std::ptr::eq(this, thread) {
                match before {
                    Some(before) => before.next.set(next),
                    None => self.heads[level].set(next),
                }
                if next.is_null() {
                    self.tails[level].set(before.map_or(null(), std::ptr::from_ref));
                }
                if self.heads[level].get().is_null() {
                    self.set_some(self.some() & !(1 << level));
                }
                return true;
            }
            (before, at) = (Some(this), next);
        }
        false
    }

    /// Takes out the thread whose turn it is.
    #[inline(always)]
    pub fn pop(&self) -> Option<&'static Thread> {
        let some = self.some();
        if some & FIRST != 0 {
            // SAFETY: what is in the queue is a record.
            let first = unsafe { &*self.first.get() };
            let level = u32::from(first.level.get()) % LEVELS as u32;
            if some & !(FIRST | 1 << level) == 0 {
                self.set_some(some & !FIRST);
                return Some(first);
            }
            // Others have their turns, too.
            self.put_back_first();
        }
        let some = self.some();
        if some == 0 {
            return None;
        }
        let mut level = some.trailing_zeros() as usize;
        if some & (some - 1) != 0 {
            // More than one level holds a thread.
            let turn = self.turn.get().wrapping_add(1);
            self.turn.set(turn);
            let due = turn.trailing_zeros().min(LEVELS as u32 - 1);
            let later = some >> due << due;
            if later != 0 {
                level = later.trailing_zeros() as usize;
            }
        }
        self.take(level)
    }

    #[inline(always)]
    fn take(&self, level: usize) -> Option<&'static Thread> {
        // SAFETY: what is in the queue is a record.
        let first = unsafe { self.heads[level].get().as_ref() }?;
        let next = first.next.get();
        self.heads[level].set(next);
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.is_near(),
            None => {
                self.tails[level].set(null());
                self.set_some(self.some() & !(1 << level));
            }
        }
        Some(first)
    }

    /// Takes up to half of them out, those that `may` go: for another proc. Those that are `first` go before the others, of whatever level;
    /// besides, level 0 goes first. Those that stay keep their order.
    pub fn share(
        &self,
        first: impl Fn(&Thread) -> bool,
        may: impl Fn(&Thread) -> bool,
        mut give: impl FnMut(&'static Thread),
    ) {
        let (all, hurry) = self.count(&first);
        let mut left = all.div_ceil(2);
        self.put_back_first();
        let mut pass = |goes: &dyn Fn(&Thread) -> bool| {
            for level in 0..LEVELS {
                if left == 0 {
                    return;
                }
                let mut at = self.heads[level].replace(null());
                self.tails[level].set(null());
                self.set_some(self.some() & !(1 << level));
                // SAFETY: what is in the queue is a record.
                while let Some(thread) = unsafe { at.as_ref() } {
                    at = thread.next.get();
                    if left > 0 && goes(thread) && may(thread) {
                        left -= 1;
                        give(thread);
                    } else {
                        self.push_behind(thread);
                    }
                }
            }
        };
        if hurry > 0 {
            pass(&first);
        }
        pass(&|_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    impl Queue {
        fn len(&self) -> u32 {
            self.count(|_| false).0
        }
    }

    #[test]
    fn levels_have_their_shares_and_leave_their_turns_to_others() {
        record::prepare().unwrap();
        let threads: Vec<_> = (0..LEVELS).map(|_| record::take().unwrap()).collect();
        let queue = Queue::new();
        let shares = |levels: &[usize], rounds: u32| {
            for level in levels {
                threads[*level].level.set(*level as u8);
                queue.push(threads[*level]);
            }
            let mut counts = [0u32; LEVELS];
            for _ in 0..rounds {
                let thread = queue.pop().unwrap();
                counts[usize::from(thread.level.get())] += 1;
                queue.push(thread);
            }
            while queue.pop().is_some() {}
            counts
        };
        let all: Vec<_> = (0..LEVELS).collect();
        let rounds = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
        let counts = shares(&all, rounds);
        for (level, count) in counts.into_iter().enumerate() {
            let share = rounds >> (level + 1).min(LEVELS - 1);
            assert!(count.abs_diff(share) <= rounds / 1000, "level {level}: {count} of {rounds}");
        }
        // The next that has somebody gets the turns of those that have nobody.
        assert_eq!(shares(&[5], 100), [0, 0, 0, 0, 0, 100, 0, 0]);
        let counts = shares(&[1, 6], 1 << 10);
        assert!(counts[1] > counts[6] && counts[6] > 0, "{counts:?}");
        record::put(threads.into_iter());
    }

    #[test]
    fn one_is_taken_out_of_the_middle_and_the_others_keep_their_order() {
        record::prepare().unwrap();
        let threads: Vec<_> = (0..4).map(|_| record::take().unwrap()).collect();
        threads.iter().for_each(|t| t.level.set(0));
        let queue = Queue::new();
        for gone in 0..4 {
            threads[1..].iter().for_each(|t| queue.push(t));
            queue.push_first(threads[0]);
            assert!(queue.remove(threads[gone]));
            assert!(!queue.remove(threads[gone]), "it is not there any more");
            assert_eq!(queue.len(), 3);
            // What comes now comes last.
            queue.push(threads[gone]);
            let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|t| t.number()).collect();
            let kept = (0..4).filter(|i| *i != gone).chain([gone]).map(|i| threads[i].number());
            assert_eq!(order, kept.collect::<Vec<_>>());
        }
        queue.push_first(threads[0]);
        assert!(queue.remove(threads[0]) && queue.is_empty() && queue.pop().is_none());
        record::put(threads.into_iter());
    }

    #[test]
    fn a_thread_that_came_when_none_was_there_goes_first_in_its_level_alone() {
        record::prepare().unwrap();
        let threads: Vec<_> = (0..3).map(|_| record::take().unwrap()).collect();
        let order = |levels: [u8; 3]| {
            let queue = Queue::new();
            for (thread, level) in threads.iter().zip(levels) {
                thread.level.set(level);
                queue.push(thread);
            }
            assert_eq!(queue.len(), 3);
            let place = |one: &Thread| threads.iter().position(|t| std::ptr::eq(*t, one)).unwrap();
            std::iter::from_fn(|| queue.pop().map(place)).collect::<Vec<_>>()
        };
        assert_eq!(order([3, 3, 3]), [0, 1, 2]);
        // The first turn is level 0's, the second level 1's, the third level 0's, which has nobody any more.
        assert_eq!(order([7, 0, 1]), [1, 2, 0]);
        assert_eq!(order([1, 0, 1]), [1, 0, 2]);
        record::put(threads.into_iter());
    }

    #[test]
    fn a_thread_alone_in_its_level_requeues_as_by_push_and_pop() {
        record::prepare().unwrap();
        let threads: Vec<_> = (0..4).map(|_| record::take().unwrap()).collect();
        for many in 1..threads.len() {
            let (plain, round) = (Queue::new(), Queue::new());
            let fill = |queue: &Queue| {
                // Two at once, so that nobody is in the place for one alone.
                threads[..=many].iter().for_each(|t| queue.push(t));
                queue.push_first(queue.pop().unwrap());
                queue.pop().unwrap()
            };
            threads.iter().for_each(|t| t.level.set(5));
            let mut order = [Vec::new(), Vec::new()];
            let mut me = fill(&plain);
            for _ in 0..9 {
                plain.push(me);
                me = plain.pop().unwrap();
                order[0].push(me.number());
            }
            while plain.pop().is_some() {}
            let mut me = fill(&round);
            for _ in 0..9 {
                me = round.go_round(me, |_| true).unwrap();
                order[1].push(me.number());
            }
            assert_eq!(order[0], order[1], "{many} beside the caller");
            assert_eq!(round.len() as usize, many);
            // Not where the next may not go, the caller is of another level, nobody is there, or one waits alone: then nothing is done.
            assert!(round.go_round(me, |_| false).is_none());
            me.level.set(2);
            assert!(round.go_round(me, |_| true).is_none());
            assert_eq!(round.len() as usize, many);
            while round.pop().is_some() {}
            assert!(round.go_round(me, |_| true).is_none());
            round.push(threads[many]);
            assert!(round.go_round(me, |_| true).is_none());
            assert_eq!(round.len(), 1);
            while round.pop().is_some() {}
        }
        record::put(threads.into_iter());
    }

    #[test]
    fn a_level_is_first_in_first_out_and_half_are_shared() {
        record::prepare().unwrap();
        let threads: Vec<_> = (0..9).map(|_| record::take().unwrap()).collect();
        let queue = Queue::new();
        threads.iter().for_each(|t| {
            t.level.set(0);
            queue.push(t);
        });
        let mut given = Vec::new();
        queue.share(|_| false, |t| t.number() != threads[1].number(), |t| given.push(t.number()));
        assert_eq!(given.len(), 5);
        assert!(!given.contains(&threads[1].number()));
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|t| t.number()).collect();
        let expected: Vec<_> = threads.iter().map(|t| t.number()).filter(|n| !given.contains(n)).collect();
        assert_eq!(left, expected);
        assert!(queue.is_empty());
        assert_eq!(queue.len(), 0);
        record::put(threads.into_iter());
    }

    #[test]
    fn those_that_are_first_are_shared_first_whatever_their_level() {
        record::prepare().unwrap();
        let threads: Vec<_> = (0..14).map(|_| record::take().unwrap()).collect();
        let queue = Queue::new();
        let level = |at: usize| {
            if at < 4 {
                0
            } else if at < 10 {
                1
            } else {
                2
            }
        };
        for (at, thread) in threads.iter().enumerate() {
            thread.level.set(level(at));
            queue.push(thread);
        }
        let place = |one: &Thread| threads.iter().position(|t| std::ptr::eq(*t, one)).unwrap();
        let mut given = Vec::new();
        queue.share(|t| t.level.get() == 1, |t| place(t) != 5, |t| given.push(place(t)));
        assert_eq!(given, [4, 6, 7, 8, 9, 0, 1]);
        let mut left: Vec<_> = std::iter::from_fn(|| queue.pop().map(place)).collect();
        left.sort_unstable();
        assert_eq!(left, [2, 3, 5, 10, 11, 12, 13]);
        record::put(threads.into_iter());
    }
}
