//! How a task waits: a future has a place in the wait queue, as a thread has, in the same line.
//!
//! A kernel thread that waits sleeps on its member's word, and a light thread is unparked. A task returns from its poll, and is polled again
//! when its waker was called. So a wait of a task is the wait of a thread in three parts, with any number of polls in between, by any
//! threads of the process:
//!
//! ```text
//!   first poll:   waker noted -- begin (word WAITING, bits) -- word ASLEEP -- pending
//!   a granter:    word GRANTED -- the waker (private), or the bell of this process (named), whose driver calls the waker
//!   next poll:    waker noted -- word GRANTED? -- no: pending      yes: takes what was granted -- ready
//!   a drop:       word IDLE, or what was granted goes back as after a look -- the bits are cleared
//! ```
//!
//! Nothing is new on the words: to all others the task is a member that sleeps (wait queue, I10). Its member is an attachment that a kernel
//! thread holds (`lent`), in a [`Seat`], which the wait has until it is over. So many tasks of a process have seats at one object; the others
//! stand until it is their turn to sit down (`tasks/crowd`).
//!
//! - I1: the waker is noted before the task's last look at the word in each poll. The granter swaps the word before it looks for the waker. So
//!   one of them sees the other (E1): the poll sees the grant, or the granter the waker of this poll. It counts as called after the call
//!   has returned, and until a poll notes one again: a granter that is stopped before the call does not have it alone, and another granter
//!   repeats the wake. It stays noted until the wait is over.
//! - I2: a wait that is dropped ends as a wait that is out of time. If it was granted, it ends as one that only looked: what was granted
//!   goes back, and from there to the next waiter; of what it was told without trying, the next is told. One swap decides (wait queue, R2).
//! - I3: the seat goes to another wait only when the bits are cleared. A granter that was stopped before the wake then wakes the next task
//!   in the seat: for nothing, once.
//! - I4: a waker is a function of somebody else's. It may panic: the panic ends here, and the granter goes on. It may drop the task, and so
//!   end waits and objects: a granter that has a lock of chappe's calls it when it has released that (plat, `later`). One for which
//!   another thread waits with a lock hands the call over to that thread, and one that ends, to a new thread. A panic of
//!   its drop ends where chappe drops it, so a poll loses nothing that it was granted. Nothing of the task's is half done when it is cloned.
//!
//! Ordering edges:
//! - E1: the sitter's mutex. If the granter had it first, its swap of the word is before the poll's look; else it finds the poll's waker.
//!   (Named: besides, C1 of the chime, between the driver's bits and the word.)
//!
//! A death of the process is that of its members. A forked child has no tasks of its parent: a wait that it inherited is refused, and its end
//! changes nothing.
//!
//! A waker may lock and allocate. So a signal handler must not give to a private object for which tasks wait. (In a named one it rings.)
//!
//! Explored: `tests/crash_bell.rs` (a member that sleeps at a bell, its time-outs, and drops), `tests/crash_task_tubes.rs`. Left out there: the sitter and its waker, the
//! seat, the driver and its bits.

#[cfg(not(any(feature = "sim", feature = "loom")))]
pub mod crowd;
#[cfg(not(any(feature = "sim", feature = "loom")))]
mod driver;
#[cfg(not(any(feature = "sim", feature = "loom")))]
mod seat;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub mod timer;

#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use driver::DRIVERS;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use seat::{FREE, Seat};

use crate::claim::granted;
use crate::lull::look;
#[cfg(not(any(feature = "sim", feature = "loom")))]
use crate::operation::Site;
use crate::operation::{Arm, Mode, Refused, Taken, WaitSpec};
use crate::order::Order;
use crate::wait::{Arrival, Begun, Ended, Parties, Patience, Terms, arrive, begin, end, sleeps};
use std::cell::Cell;

/// A task's wait for one of several arms, from its first poll until it is over or dropped.
pub struct Waiting {
    /// How much it needs, from its next turn on: see the drainers.
    pub need: u32,
    /// See [`Terms::packet`].
    pub packet: u64,
    /// The arm whose queue it enters first.
    pub first: usize,
    /// A time has come that no granter tells: the next poll ends this turn of the wait, and tries all arms.
    pub is_due: bool,
    arrival: Arrival,
    /// The present turn of the wait. `None`: it is not in any queue.
    begun: Option<Begun>,
    priority: u8,
}

/// How a task's wait goes on.
pub enum Step {
    /// It goes on: the waker that was noted before will be called.
    Waits,
    /// It goes on, but nobody will say so: it is to be polled again soon.
    Soon,
    /// It is over: which arm, and what was taken.
    Over(Result<(usize, Taken), Refused>),
}

impl Waiting {
    /// Takes its place in the order of arrival. The first [`Waiting::poll`] puts it into the queues.
    pub fn new(who: &Parties, priority: u8) -> Waiting {
        let arrival = arrive(who, &patience(&Cell::new(0), priority));
        Waiting { need: 1, packet: 0, first: 0, is_due: false, arrival, begun: None, priority }
    }

    /// Looks whether the wait is over, after the waker was noted (I1). `bell`: the member whose bell is to be rung, in an arena that other
    /// processes use.
    pub fn poll<A: Arm + ?Sized>(&mut self, who: &Parties, arms: &[&A], biased: bool, bell: Option<u32>) -> Step {
        let budget = Cell::new(0);
        let patience = &patience(&budget, self.priority);
        loop {
            let kept = self.begun.take();
            let is_due = std::mem::take(&mut self.is_due);
            // If it has looked without its fence, it may have missed something: it looks again.
            let looks = kept.as_ref().is_some_and(|begun| begun.is_blind || is_due);
            let begun = kept.unwrap_or_else(|| begin(who, arms, self.terms(patience)));
            if !looks && begun.dead.is_none() && sleeps(who, begun.number, bell) {
                let step = if begun.is_blind { Step::Soon } else { Step::Waits };
                self.begun = Some(begun);
                return step;
            }
            let over = match end(who, arms, &begun) {
                Ended::Granted(grant, number) => {
                    let wish = WaitSpec { biased, ..WaitSpec::to_take(None, patience) };
                    granted(who, arms, &begun, grant, number, &wish)
                }
                Ended::TimedOut => look(arms, who, Order::new(arms.len(), biased), Mode::Take),
                Ended::Dead(arm) => Err(Refused::Dead(arm)),
                Ended::TooMany => Err(Refused::TooMany),
            };
            if self.need > 1 {
                pass_on(arms);
            }
            // `None`: what it was told of is gone. It waits again, in its old place.
            if let Some(over) = over.transpose() {
                return Step::Over(over);
            }
        }
    }

    /// Ends the wait before it is over (I2). `None`: it had not been granted anything. Else that goes back, all but a meeting, which has been.
    pub fn leave<A: Arm + ?Sized>(&mut self, who: &Parties, arms: &[&A]) -> Option<Taken> {
        let begun = self.begun.take()?;
        let given = match end(who, arms, &begun) {
            Ended::Granted(grant, number) => {
                let budget = Cell::new(0);
                let patience = &patience(&budget, self.priority);
                let wish = WaitSpec { aim: Mode::Look, ..WaitSpec::to_take(None, patience) };
                Some(granted(who, arms, &begun, grant, number, &wish))
            }
            _ => None,
        };
        match given {
            // It was told, and has only looked: nobody else was told.
            Some(Ok(Some((at, taken)))) if arms[at].site().nature.is_tube() => {
                arms[at].pass_on();
                return Some(taken);
            }
            // It was told, and tried in vain: the next may wait for that. (An error is nobody's: the object has gone.)
            Some(Ok(None)) => pass_on(arms),
            _ if self.need > 1 => pass_on(arms),
            _ => {}
        }
        given.map(|_| Taken::UNIT)
    }

    /// When it is called, if it stands: see [`crowd::turn`].
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    pub fn turn(&self, site: &Site) -> crowd::Turn {
        crowd::turn(site, self.priority, self.arrival.tickets.0)
    }

    fn terms<'a>(&self, patience: &'a Patience<'a>) -> Terms<'a> {
        Terms {
            first: self.first,
            arrival: self.arrival,
            need: self.need,
            packet: self.packet,
            deadline: None,
            patience,
        }
    }
}

/// A turn is over. What was set aside for it piece by piece, or waits until it has tried, goes on to the next waiter.
fn pass_on<A: Arm + ?Sized>(arms: &[&A]) {
    arms.iter().for_each(|arm| arm.pass_on());
}

/// Of a waiter that neither spins nor sleeps.
fn patience(budget: &Cell<u32>, priority: u8) -> Patience<'_> {
    Patience { budget, forever: false, none: true, interrupt: None, priority, bell: None }
}
