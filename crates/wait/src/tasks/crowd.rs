//! Crowds: of the tasks of this process that wait for one object at once, so many sit, each in a seat; the others stand, and sit down in their
//! order as those are served.
//!
//! A seat is a member of the arena, and the processes have some 4,000 of these together. So tasks without number cost an object at most
//! [`SEATS`] of them, and what gives to it looks at no more.
//!
//! ```text
//!   come:   fewer than SEATS sit, and nobody stands -- sits            else: stands: arrival noted, waker noted -- pending
//!   a wait is over, or dropped:  its right to sit goes to the first task that stands -- its waker is called
//!   next poll:  waker noted -- called? -- no: pending      yes: takes a seat, and waits there, in its old place by arrival
//! ```
//!
//! - W1: a waker is noted before its task looks, under the lock of the crowds, whether it was called. It is called after the caller has said so, under
//!   the same lock. So the poll sees the call, or the caller the waker of this poll.
//! - W2: a right to sit is a sitter's or a called task's. It goes on when its wait is over, and when a called task is dropped. So while anybody stands,
//!   at least one has the right. Where fewer have it than there are seats (the arena had no more members, or all went while one came), each that goes
//!   on calls one more: as many have it soon, and in an arena that stays full one task at a time tries in vain.
//! - W3: the place in line by arrival is taken when the task comes. So a task that sat down late is served before all that came after it. Until then what
//!   comes free may go to a later waiter of another process or thread: the standing tasks are overtaken, while all that sit before them have been granted
//!   something and were not polled yet.
//!
//! No other lock of chappe's is taken under that of the crowds, and no waker is called there.

use super::seat::{lend_sitter, return_sitter};
use crate::lent::holders::{Sitter, key};
use crate::operation::{Refused, Site};
use crate::wait::Discipline;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{light, process};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::task::Waker;

/// How many tasks of a process have a seat at one object.
pub const SEATS: usize = 64;

/// An object: by its arena, slot and use of the slot.
type Object = (usize, u32, u32);
/// Which task is called first: by rank, and by arrival.
type Turn = (u8, u64);

/// The tasks of this process at one object.
#[derive(Default)]
struct Crowd {
    /// How many have the right to sit.
    sit: usize,
    /// The standing tasks: where the waker is, and whether it was called.
    stand: BTreeMap<Turn, (&'static Sitter, bool)>,
    /// Arrivals so far.
    came: u64,
}

pub struct Crowds {
    incarnation: u64,
    all: BTreeMap<Object, Crowd>,
}

/// Those of this process.
pub static CROWDS: Mutex<Crowds> = Mutex::new(Crowds { incarnation: 0, all: BTreeMap::new() });
/// How many stand, at all objects.
static STAND: AtomicU64 = AtomicU64::new(0);

/// The right to sit at an object.
pub struct Right {
    object: Object,
    /// When it stands, or stands again.
    turn: Turn,
    incarnation: u64,
}

/// A task that stands.
pub struct Standing {
    object: Object,
    turn: Turn,
    sitter: &'static Sitter,
    incarnation: u64,
    /// It has its right, and stands no longer.
    has_left: bool,
}

/// What becomes of a task that comes to an object.
pub enum Came {
    Sits(Right),
    Stands(Standing),
}

fn object_of(site: &Site) -> Object {
    (key(site.map), site.place.index, site.place.head.generation())
}

/// Does something with the crowds of this process.
fn with<R>(then: impl FnOnce(&mut BTreeMap<Object, Crowd>) -> R) -> R {
    let now = process::incarnation();
    let mut crowds = light::lock(&CROWDS);
    if crowds.incarnation != now {
        // The parent's.
        *crowds = Crowds { incarnation: now, all: BTreeMap::new() };
        STAND.store(0, Ordering::Relaxed); // Relaxed: written under the lock of the crowds.
    }
    then(&mut crowds.all)
}

/// Whether tasks of this process stand at an object: then no other task of it takes what comes free there.
pub fn stand_at(site: &Site) -> bool {
    // Relaxed: a task that came before the caller in its own thread, or by what the caller has seen, counts; of others either order will do.
    STAND.load(Ordering::Relaxed) > 0
        && with(|all| all.get(&object_of(site)).is_some_and(|crowd| !crowd.stand.is_empty()))
}

/// A task comes to an object. Where waiters are served by priority, the standing tasks are called by it.
pub fn come(site: &Site, priority: u8) -> Came {
    let (object, incarnation) = (object_of(site), process::incarnation());
    let by_priority = Discipline::of(site.map.object(site.place.index)).is_by_priority();
    let rank = if by_priority { u8::MAX - priority } else { 0 };
    let sits = with(|all| {
        let crowd = all.entry(object).or_default();
        let sits = crowd.sit < SEATS && crowd.stand.is_empty();
        sits.then(|| crowd.sits(rank))
    });
    match sits {
        Some(turn) => Came::Sits(Right { object, turn, incarnation }),
        None => stand(object, rank, incarnation),
    }
}

/// A task that has no right to sit stands; or, if no task is left that would call it, sits.
#[cold]
fn stand(object: Object, rank: u8, incarnation: u64) -> Came {
    let sitter = lend_sitter();
    let (turn, stands) = with(|all| {
        let crowd = all.entry(object).or_default();
        if crowd.sit == 0 {
            return (crowd.sits(rank), false);
        }
        let turn = crowd.turn(rank);
        crowd.stands(turn, sitter);
        (turn, true)
    });
    if stands {
        return Came::Stands(Standing { object, turn, sitter, incarnation, has_left: false });
    }
    return_sitter(sitter);
    Came::Sits(Right { object, turn, incarnation })
}

impl Crowd {
    fn turn(&mut self, rank: u8) -> Turn {
        self.came += 1;
        (rank, self.came)
    }

    /// One more has the right to sit.
    fn sits(&mut self, rank: u8) -> Turn {
        self.sit += 1;
        self.turn(rank)
    }

    /// Gives the right to sit to the first standing task that has it not, if a seat may be had. The caller wakes it.
    fn call(&mut self) -> Option<&'static Sitter> {
        if self.sit >= SEATS {
            return None;
        }
        let (sitter, called) = self.stand.values_mut().find(|(_, called)| !called)?;
        *called = true;
        self.sit += 1;
        Some(*sitter)
    }

    fn stands(&mut self, turn: Turn, sitter: &'static Sitter) {
        self.stand.insert(turn, (sitter, false));
        STAND.fetch_add(1, Ordering::Relaxed); // Relaxed: as in `with`.
    }
}

impl Right {
    /// Gives it up for want of a seat, if another task sits at the object, which will call this one. It stands where it stood, or would have.
    ///
    /// # Errors
    /// The right: nobody else sits there.
    pub fn stand_again(self) -> Result<Standing, Right> {
        let Right { object, turn, incarnation } = self;
        let sitter = lend_sitter();
        let stands = with(|all| {
            let crowd = all.get_mut(&object).filter(|crowd| crowd.sit > 1);
            crowd.map(|crowd| {
                crowd.sit -= 1;
                crowd.stands(turn, sitter);
            })
        });
        if stands.is_none() {
            return_sitter(sitter);
            return Err(self);
        }
        std::mem::forget(self);
        Ok(Standing { object, turn, sitter, incarnation, has_left: false })
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        if self.incarnation != process::incarnation() {
            return;
        }
        // W2.
        let called = with(|all| {
            let Some(crowd) = all.get_mut(&self.object) else { return [None; 2] };
            crowd.sit -= 1;
            let called = [crowd.call(), crowd.call()];
            if crowd.sit == 0 {
                all.remove(&self.object);
            }
            called
        });
        called.into_iter().flatten().for_each(Sitter::wake);
    }
}

impl Standing {
    /// Notes the waker (W1), and looks whether the task may sit down.
    ///
    /// # Errors
    /// `Inherited` in a forked child.
    pub fn poll(&mut self, waker: &Waker) -> Result<Option<Right>, Refused> {
        if self.incarnation != process::incarnation() {
            return Err(Refused::Inherited(0));
        }
        self.sitter.note(waker);
        let (right, first) = self.try_leave();
        first.into_iter().for_each(Sitter::wake);
        self.has_left = right.is_some();
        Ok(right)
    }

    /// Stands no longer, if it was called; or its right is that of a task before it which stands again (W2), and which the caller wakes.
    fn try_leave(&self) -> (Option<Right>, Option<&'static Sitter>) {
        with(|all| {
            let stand = all.get_mut(&self.object).map(|crowd| &mut crowd.stand);
            let Some(stand) = stand.filter(|stand| stand.get(&self.turn).is_some_and(|(_, called)| *called)) else {
                return (None, None);
            };
            let Some((first, called)) = stand.range_mut(..self.turn).map(|(_, one)| one).find(|(_, called)| !called)
            else {
                return (self.leave(stand), None);
            };
            *called = true;
            let first = *first;
            stand.entry(self.turn).and_modify(|(_, called)| *called = false);
            (None, Some(first))
        })
    }

    /// Stands no longer. If it was called, it has the right to sit.
    fn leave(&self, stand: &mut BTreeMap<Turn, (&'static Sitter, bool)>) -> Option<Right> {
        let Standing { object, turn, incarnation, .. } = *self;
        let (_, called) = stand.remove(&turn)?;
        STAND.fetch_sub(1, Ordering::Relaxed); // Relaxed: as in `with`.
        // Made only if it is: one that goes takes the lock.
        called.then(|| Right { object, turn, incarnation })
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if self.incarnation != process::incarnation() {
            return;
        }
        // If it was called and did not sit down, its right goes on. What has its turn by now may be its right, which stands again.
        if !self.has_left {
            drop(with(|all| self.leave(&mut all.get_mut(&self.object)?.stand)));
        }
        return_sitter(self.sitter);
    }
}
