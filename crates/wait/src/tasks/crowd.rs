//! Crowds: of the tasks of this process that wait for one object at once, so many sit, each in a seat; the others stand, and sit down in their
//! order as those are served.
//!
//! A seat is a member of the arena, and the processes have some 4,000 of these together. So tasks without number cost an object at most
//! `SEATS` of them, and what gives to it looks at no more; where it must look at all that wait, at `FEW`.
//!
//! ```text
//!   come:   fewer than SEATS sit, and nobody stands -- sits            else: stands: arrival noted, waker noted -- pending
//!   a wait is over, or dropped:  its right to sit goes to the first task that stands -- its waker is called
//!   next poll:  waker noted -- called? -- no: pending      yes: takes a seat, and waits there, in its old place by arrival
//! ```
//!
//! How many sit is counted in a word an object (`Map::crowd`), by one swap each that comes and goes. As soon as one stands, the word only says so, and the count
//! lies with those that stand, under the lock of the crowds; when nobody stands any more it goes back to the word.
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-6 | count | how many sit, unless STANDS |
//! | 7 | STANDS | others stand: the crowd has the count |
//! | 8-31 | use | the low bits of the slot's generation |
//! | 32-63 | process | the low half of the incarnation |
//!
//! A word of another use of the slot, or of the parent of a forked child, counts as 0. A task that comes to an object which has gone sits uncounted: so no old
//! object's word takes the place of a newer one's. What still has its right at an old object when a newer one's word has come finds the crowd under the
//! lock, or, if there is none, nothing to do. (A right that outlives 2^24 uses of its slot is taken for one of the last: one task more, or one less, sits there.)
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
use crate::wait::{Discipline, has_batches, is_still};
use chappe_arena::Map;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{light, process};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::task::Waker;

/// How many tasks of a process have a seat at one object, if the next to be served is found without a look at all of them ([`batch`](crate::wait)).
const SEATS: u64 = 64;
/// The same at other objects.
const FEW: u64 = 8;

const COUNT: u64 = STANDS - 1;
const STANDS: u64 = 1 << 7;
/// What a word says of its object.
const STATE: u64 = COUNT | STANDS;
const _: () = assert!(SEATS < COUNT && FEW < SEATS);

/// An object, for the tasks of this process.
#[derive(Clone, Copy)]
struct Object {
    map: &'static Map,
    index: u32,
    /// Of its words: which use of the slot, and which process. 0: a task that is not counted.
    of: u64,
}

/// Which task is called first: by rank, and by arrival.
pub type Turn = (u8, u64);

/// The tasks of this process at one object, while some stand.
struct Crowd {
    /// How many have the right to sit.
    sit: u64,
    /// How many may.
    seats: u64,
    /// The standing tasks that have it not: where the waker is.
    stand: BTreeMap<Turn, &'static Sitter>,
    /// Those that were called.
    called: Vec<(Turn, &'static Sitter)>,
}

pub struct Crowds {
    incarnation: u64,
    /// By arena, slot, and [`Object::of`].
    all: BTreeMap<(usize, u32, u64), Crowd>,
}

/// Those of this process.
pub static CROWDS: Mutex<Crowds> = Mutex::new(Crowds { incarnation: 0, all: BTreeMap::new() });

/// The right to sit at an object.
pub struct Right(Object);

/// A task that stands.
pub struct Standing {
    object: Object,
    turn: Turn,
    sitter: &'static Sitter,
    /// It has its right, and stands no longer.
    has_left: bool,
}

/// What becomes of a task that comes to an object.
pub enum Came {
    Sits(Right),
    Stands(Standing),
}

impl Object {
    fn new(site: &Site) -> Object {
        let used = u64::from(site.place.head.generation()) & 0xff_ffff;
        Object { map: site.map, index: site.place.index, of: process::incarnation() << 32 | used << 8 }
    }

    /// For a task that is not counted.
    fn uncounted(self) -> Object {
        Object { of: 0, ..self }
    }

    /// Whether this is the process whose it is, and the task is counted.
    fn is_here(&self) -> bool {
        self.of != 0 && process::is_incarnation((self.of >> 32) as u32)
    }

    /// How many tasks of a process have a seat there.
    fn seats(&self) -> u64 {
        if has_batches(self.map, self.index) { SEATS } else { FEW }
    }

    /// What the word says of it. `None`: it is another's.
    fn state(&self, word: u64) -> Option<u64> {
        (word & !STATE == self.of).then_some(word & STATE)
    }

    /// Swaps the word.
    fn swap(&self, from: u64, to: u64) -> bool {
        // Relaxed, both: the word counts, and what else there is lies under the lock of the crowds.
        let swap = |word: &AtomicU64| word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.map.crowd(self.index).is_some_and(swap)
    }

    fn load(&self) -> u64 {
        self.map.crowd(self.index).map_or(0, |word| word.load(Ordering::Relaxed)) // Relaxed: as above.
    }

    /// Does something with its crowd, under the lock of the crowds, where the count is meanwhile. `None`: a newer object's word has come, and nobody stands.
    #[cold]
    fn with<R>(&self, then: impl FnOnce(&mut Crowd) -> R) -> Option<R> {
        let now = process::incarnation();
        let mut crowds = light::lock(&CROWDS);
        if crowds.incarnation != now {
            // The parent's.
            *crowds = Crowds { incarnation: now, all: BTreeMap::new() };
        }
        let at = (key(self.map), self.index, self.of);
        loop {
            let word = self.load();
            match self.state(word) {
                Some(sit) if sit & STANDS == 0 => {
                    if self.swap(word, self.of | STANDS) {
                        let crowd = Crowd { sit, seats: self.seats(), stand: BTreeMap::new(), called: Vec::new() };
                        crowds.all.insert(at, crowd);
                        break;
                    }
                }
                _ => break,
            }
        }
        let crowd = crowds.all.get_mut(&at)?;
        let done = then(crowd);
        if crowd.stand.is_empty() && crowd.called.is_empty() {
            // A failure: a newer object's word has come.
            self.swap(self.of | STANDS, self.of | crowd.sit);
            crowds.all.remove(&at);
        }
        Some(done)
    }
}

/// Whether tasks of this process stand at an object: then no other task of it takes what comes free there.
pub fn stand_at(site: &Site) -> bool {
    let object = Object::new(site);
    // A task that came before the caller in its own thread, or by what the caller has seen, counts; of others either order will do.
    object.state(object.load()).is_some_and(|state| state & STANDS != 0)
}

/// When a task with this priority and arrival is called at an object: where waiters are served by priority, by that first.
pub fn turn(site: &Site, priority: u8, arrival: u64) -> Turn {
    let by_priority = Discipline::of(site.map.object(site.place.index)).is_by_priority();
    (if by_priority { u8::MAX - priority } else { 0 }, arrival)
}

/// A task comes to an object. `turn`: see [`turn()`].
pub fn come(site: &Site, turn: impl FnOnce() -> Turn) -> Came {
    let object = Object::new(site);
    loop {
        let word = object.load();
        let to = match object.state(word) {
            Some(state) if state < FEW || state & STANDS == 0 && state < object.seats() => word + 1,
            Some(_) => return stand(object, turn()),
            None if is_still(site.map, site.place.index, site.place.head) => object.of | 1,
            None => return Came::Sits(Right(object.uncounted())),
        };
        if object.swap(word, to) {
            return Came::Sits(Right(object));
        }
    }
}

/// A task that finds no seat stands; or, if it is the next, sits.
#[cold]
fn stand(object: Object, turn: Turn) -> Came {
    let sitter = lend_sitter();
    let stands = object.with(|crowd| {
        let sits = crowd.sit == 0 || crowd.sit < crowd.seats && crowd.stand.is_empty() && crowd.called.is_empty();
        if sits {
            crowd.sit += 1;
        } else {
            crowd.stand.insert(turn, sitter);
        }
        !sits
    });
    match stands {
        Some(true) => Came::Stands(Standing { object, turn, sitter, has_left: false }),
        counted => {
            return_sitter(sitter);
            Came::Sits(Right(if counted.is_some() { object } else { object.uncounted() }))
        }
    }
}

impl Crowd {
    /// Gives the right to sit to the first standing task that has it not, if a seat may be had. The caller wakes it.
    fn call(&mut self) -> Option<&'static Sitter> {
        if self.sit >= self.seats {
            return None;
        }
        let sitter = self.next()?;
        self.sit += 1;
        Some(sitter)
    }

    /// The first that stands has the right from now on.
    fn next(&mut self) -> Option<&'static Sitter> {
        let (turn, sitter) = self.stand.pop_first()?;
        self.called.push((turn, sitter));
        Some(sitter)
    }

    /// A task stands no longer. If it was called, it has the right to sit.
    fn leave(&mut self, by: &Standing) -> Option<Right> {
        self.stand.remove(&by.turn);
        let at = self.called.iter().position(|(turn, _)| *turn == by.turn)?;
        self.called.swap_remove(at);
        Some(Right(by.object))
    }

    /// The same, if it was called; or its right is that of a task before it which stands again (W2), and which the caller wakes.
    fn try_leave(&mut self, by: &Standing) -> (Option<Right>, Option<&'static Sitter>) {
        let Some(called) = self.called.iter_mut().find(|(turn, _)| *turn == by.turn) else { return (None, None) };
        match self.stand.first_entry() {
            Some(first) if *first.key() < by.turn => {
                let (turn, sitter) = first.remove_entry();
                *called = (turn, sitter);
                self.stand.insert(by.turn, by.sitter);
                (None, Some(sitter))
            }
            _ => (self.leave(by), None),
        }
    }
}

impl Right {
    /// Gives it up for want of a seat, if another task sits at the object, which will call this one. It stands where it stood, or would have.
    ///
    /// # Errors
    /// The right: nobody else sits there.
    pub fn stand_again(self, turn: Turn) -> Result<Standing, Right> {
        let object = self.0;
        let sitter = lend_sitter();
        let stands = object.is_here()
            && object.with(|crowd| {
                let others = crowd.sit > 1;
                if others {
                    crowd.sit -= 1;
                    crowd.stand.insert(turn, sitter);
                }
                others
            }) == Some(true);
        if !stands {
            return_sitter(sitter);
            return Err(self);
        }
        std::mem::forget(self);
        Ok(Standing { object, turn, sitter, has_left: false })
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        let object = self.0;
        if !object.is_here() {
            return;
        }
        loop {
            let word = object.load();
            match object.state(word) {
                Some(sit) if sit & STANDS == 0 => {
                    if object.swap(word, object.of | sit.saturating_sub(1)) {
                        return;
                    }
                }
                _ => break,
            }
        }
        // W2.
        let called = object.with(|crowd| {
            crowd.sit = crowd.sit.saturating_sub(1);
            [crowd.call(), crowd.call()]
        });
        called.into_iter().flatten().flatten().for_each(Sitter::wake);
    }
}

impl Standing {
    /// Notes the waker (W1), and looks whether the task may sit down.
    ///
    /// # Errors
    /// `Inherited` in a forked child.
    pub fn poll(&mut self, waker: &Waker) -> Result<Option<Right>, Refused> {
        if !self.object.is_here() {
            return Err(Refused::Inherited(0));
        }
        self.sitter.note(waker);
        let (right, first) = self.object.with(|crowd| crowd.try_leave(self)).unwrap_or_default();
        first.into_iter().for_each(Sitter::wake);
        self.has_left = right.is_some();
        Ok(right)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if !self.object.is_here() {
            return;
        }
        // If it was called and did not sit down, its right goes on. What has its turn by now may be its right, which stands again.
        if !self.has_left {
            drop(self.object.with(|crowd| crowd.leave(self)));
        }
        return_sitter(self.sitter);
    }
}
