//! Virtual processors, for what a kernel with restartable sequences promises of them.
//!
//! A thread that was put on a processor shares it with the others there. A *section* begins, reads words by steps of their own, and ends
//! with one store ([`commit`]). It is aborted, and its store does not happen, if in between another thread of the same processor made a
//! step (it was preempted), it was moved (to the same processor, too: that stands for a signal), or a thread had a [`fence`] on that
//! processor. A thread that makes a step on a processor sees what the threads before it there have stored, and a fence makes the stores of
//! all on its processors visible.
//!
//! A thread that was put on none is in no section, ever. Reading the number of the thread's own processor is no step: it may be another one
//! by the next.

use crate::atomic::AtomicU32;
use crate::guarded::{self, Act};
use crate::state::{Engine, Section};
use crate::trace::{Touch, mix};
use crate::turn::{Mode, buffered, me, mode, saw, turn, turn_in_order, with};
use std::panic::Location;

/// A thread of the world that can be moved.
#[derive(Clone, Copy, Debug)]
pub struct Mover(usize);

impl Engine {
    /// Every thread that was in a section there, except `but`, is in it no more.
    pub(crate) fn preempt(&mut self, cpu: u32, but: usize) {
        for t in 0..self.threads.len() {
            if t != but && self.threads[t].cpu == Some(cpu) {
                self.interrupt(t);
            }
        }
    }

    fn interrupt(&mut self, t: usize) {
        self.drain(t);
        if self.threads[t].section == Section::Within {
            self.threads[t].section = Section::Aborted;
            self.trace.befall(t, 31);
            self.tell(|e| format!("-- {}'s section is aborted", e.title(t)));
        }
    }

    fn put(&mut self, t: usize, cpu: u32) {
        self.interrupt(t);
        self.threads[t].cpu = Some(cpu);
        self.trace.befall(t, mix(32, cpu.into()));
    }
}

/// Puts the calling thread on a processor, from which it begins. No step.
pub fn begin_on(cpu: u32) -> Mover {
    with(|e| e.put(me(), cpu));
    Mover(me())
}

/// The calling thread goes to another processor.
#[track_caller]
pub fn go_to(cpu: u32) {
    turn_in_order();
    with(|e| e.put(me(), cpu));
    saw(0, 0, Touch::Read, Location::caller(), |_| format!("goes to processor {cpu}"));
}

impl Mover {
    /// The kernel moves this thread to a processor, or interrupts it there, wherever it is.
    #[track_caller]
    pub fn send(self, cpu: u32) {
        turn_in_order();
        with(|e| e.put(self.0, cpu));
        saw(0, 0, Touch::Read, Location::caller(), |_| format!("(the kernel sends a thread to processor {cpu})"));
    }
}

/// On which processor the calling thread is.
pub fn current() -> Option<u32> {
    if mode() == Mode::Outside { None } else { with(|e| e.threads[me()].cpu) }
}

/// The calling thread's calls for a fence are refused from now on, and for a visit, unless `visits`. No step.
pub fn refuse(visits: bool) {
    with(|e| {
        let t = me();
        e.threads[t].refused = (true, !visits);
        e.trace.befall(t, mix(33, visits.into()));
    });
}

/// Begins a section of the calling thread. No step.
pub fn begin() {
    if mode() == Mode::Outside {
        return;
    }
    with(|e| e.threads[me()].section = Section::Within);
}

/// Ends it without a store. False: it had been aborted. No step.
pub fn end() -> bool {
    if mode() == Mode::Outside {
        return true;
    }
    with(|e| std::mem::replace(&mut e.threads[me()].section, Section::Without) == Section::Within)
}

/// Ends it with a store: false, and none, if it was aborted.
#[track_caller]
pub fn commit(word: &AtomicU32, value: u32) -> bool {
    turn();
    let whole = end();
    let place = word.as_ptr() as usize;
    if !whole {
        saw(0, 34, Touch::Read, Location::caller(), |_| "is aborted".to_owned());
    } else if buffered() {
        let from = Location::caller();
        with(|e| e.store(me(), place, 4, value.into(), from));
        saw(0, 0, Touch::Write, Location::caller(), |n| {
            format!("{}: commits {}, which is on its way", n.of(place), n.show(place, value.into()))
        });
    } else {
        word.set(value);
        guarded::touched(place, Act::Wrote, Location::caller());
        saw(place, 35, Touch::Write, Location::caller(), |n| {
            format!("{}: commits {}", n.of(place), n.show(place, value.into()))
        });
    }
    whole
}

/// Aborts the sections of others on that processor, or on all. False: refused.
#[track_caller]
pub fn fence(cpu: Option<u32>) -> bool {
    turn_in_order();
    if mode() != Mode::Fibre {
        return true;
    }
    let done = with(|e| {
        let done = !e.threads[me()].refused.0;
        for t in 0..e.threads.len() {
            if done && t != me() && (cpu.is_none() || e.threads[t].cpu == cpu) {
                e.interrupt(t);
            }
        }
        done
    });
    saw(0, 0, Touch::Read, Location::caller(), |_| {
        let of = cpu.map_or("all processors".to_owned(), |c| format!("processor {c}"));
        format!("fences {of}{}", if done { "" } else { ": refused" })
    });
    done
}

/// The calling thread is there for a moment. False: refused.
#[track_caller]
pub fn visit(cpu: u32) -> bool {
    turn_in_order();
    let done = with(|e| {
        let done = !e.threads[me()].refused.1;
        if done {
            e.preempt(cpu, me());
        }
        done
    });
    saw(0, 0, Touch::Read, Location::caller(), |_| {
        format!("visits processor {cpu}{}", if done { "" } else { ": refused" })
    });
    done
}
