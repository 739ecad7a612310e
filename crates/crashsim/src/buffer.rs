//! Store buffers: what x86's processors do to the order of memory, for searches that ask for it.
//!
//! A plain store (any but a sequentially consistent one) of a thread goes into its buffer, first in, first out, and
//! becomes visible to others later. The thread itself reads what it stored. A locked operation, a fence, a system call, a
//! sleep and a stop empty the buffer first. The buffer of a thread that has ended or was killed is empty before the kernel marks a word:
//! the processor ensures that before the kernel runs.
//!
//! For a store that finds the buffer empty the explorer decides whether it goes out at once (the default) or is *held*; those behind it
//! wait their turn. How many are held in one schedule is bounded, as preemptions are.
//!
//! Memory that is no atomic of the facade (bytes that are copied, cells of the test) is visible at once. A load of another size than the
//! store in the buffer empties the buffer: the processor waits then, too.

use crate::guarded;
use crate::report::Fault;
use crate::state::Engine;
use crate::stored::Stored;
use crate::trace::mix;
use std::panic::Location;

impl Engine {
    /// A plain store of a thread.
    pub fn store(&mut self, t: usize, place: usize, bytes: usize, value: u64, from: &'static Location<'static>) {
        self.trace.befall(t, mix(place as u64, value));
        let stored = Stored { place, bytes, value, number: self.trace.number(t), since: guarded::since(t), from };
        let empty = self.threads[t].buffer.is_empty();
        self.trace.keep(t, place, stored.number);
        self.threads[t].buffer.push_back(stored);
        if empty {
            if self.counts.held < u64::from(self.limits.holds) {
                self.undecided = Some(t);
            } else {
                self.flush(t);
            }
        }
    }

    /// What a thread would read of its own stores. If they cover a part of the word only, they go out first.
    pub fn forwarded(&mut self, t: usize, place: usize, bytes: usize) -> Option<u64> {
        let last = self.threads[t].buffer.iter().rev().find(|s| s.overlaps(place, bytes)).copied()?;
        if (last.place, last.bytes) != (place, bytes) {
            self.drain(t);
            return None;
        }
        self.trace.befall(t, 19);
        Some(last.value)
    }

    /// The oldest store of a thread becomes visible.
    pub fn flush(&mut self, t: usize) {
        let Some(oldest) = self.threads[t].buffer.pop_front() else { return };
        // SAFETY: a thread of this world stored to it; the memory of a world lives until its schedule has ended, and all
        // virtual threads are one of the system's.
        unsafe { oldest.put() };
        self.trace.arrive(t, oldest.place, oldest.number);
        if let Some(text) = guarded::arrived(t, oldest.place, oldest.since, oldest.from, |id| self.is_of(t, id)) {
            self.fail(Fault::ForeignWrite, format!("{} {text}", self.title(t)));
        }
        self.tell(|e| {
            format!(
                "-- {} = {} arrives, stored by {}",
                e.names.of(oldest.place),
                e.names.show(oldest.place, oldest.value),
                e.title(t)
            )
        });
        if self.undecided == Some(t) {
            self.undecided = None;
        }
    }

    /// All stores of a thread become visible.
    pub fn drain(&mut self, t: usize) {
        while !self.threads[t].buffer.is_empty() {
            self.flush(t);
        }
    }

    /// All stores of all threads of a process do.
    pub fn drain_process(&mut self, p: usize) {
        for t in self.processes[p].threads.clone() {
            self.drain(t);
        }
    }

    /// The store that was just made stays where it is.
    pub fn hold(&mut self, t: usize) {
        self.undecided = None;
        self.counts.held += 1;
        self.trace.befall(t, 18);
        self.tell(|e| format!("-- {}'s store is held", e.title(t)));
    }
}
