//! A task's choice among several arms: one wait, in the queues of all of them, of which one swap decides (wait queue).
//!
//! ```text
//!   first poll:  tries the arms that need no member -- seats -- tries all -- waits: bits at all arms -- pending
//!   a granter:   of one arm: the word GRANTED, the waker called, as of any task
//!   next poll:   takes what was granted, or tries the arm that it was told of -- chosen: the bits of all are cleared
//!   a drop:      as of any task: what was granted goes back, the next is told
//! ```
//!
//! A choice has its seats from its first poll on, one in the named arena and one in the private one, as its arms have it (its member's word is that in the
//! named one): it never stands, since it would stand at several objects. The waker is noted in both. It waits without a packet: so it is never met at a tube
//! without slots (I5 of the meetings), and what it is to send is made only when it is chosen. Two without packets would not meet, so a choice that
//! would send through such a tube is refused.
//!
//! What no granter tells (a clock, a descriptor that the kernel does not watch, the choice's own time) is an alarm's: when it is due, the poll ends this turn
//! of the wait and tries all arms.
//!
//! Explored: `tests/crash_bell.rs` (a choice of two semaphores, and its drops). Left out there: the seats, the alarm, the arms of tubes.

use super::rwlock::BySeat;
use super::tube::soon;
use crate::armed::{Armed, operations};
use crate::choice::{arenas, failed, glance};
use crate::error::SelectError;
use chappe_arena::Map;
use chappe_plat::clock;
use chappe_wait::attachment::priority;
use chappe_wait::lull::{look, lull};
use chappe_wait::operation::{Arm, Mode, Nature, Refused, Taken, due};
use chappe_wait::order::Order;
use chappe_wait::tasks::timer::Alarm;
use chappe_wait::tasks::{Seat, Step, Waiting};
use chappe_wait::wait::Parties;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Up to so many arms are listed without an allocation.
const FEW: usize = 16;

/// The arms of a choice.
///
/// # Safety
/// They are the same each time, until the choice is over or dropped.
pub unsafe trait Arms {
    /// Shows each, in order.
    fn each<'s>(&'s self, then: &mut dyn FnMut(Armed<'s>));
}

/// One arm of a choice.
///
/// # Safety
/// As for [`Arms`].
pub unsafe trait End {
    /// The arm.
    fn armed(&self) -> Armed<'_>;
}

// SAFETY: there is none.
unsafe impl Arms for () {
    fn each<'s>(&'s self, _then: &mut dyn FnMut(Armed<'s>)) {}
}

// SAFETY: the parts' promise.
unsafe impl<E: End, R: Arms> Arms for (E, R) {
    fn each<'s>(&'s self, then: &mut dyn FnMut(Armed<'s>)) {
        then(self.0.armed());
        self.1.each(then);
    }
}

// SAFETY: as above.
unsafe impl<E: End> Arms for Vec<E> {
    fn each<'s>(&'s self, then: &mut dyn FnMut(Armed<'s>)) {
        self.iter().for_each(|end| then(end.armed()));
    }
}

/// Does something with the list of the arms.
fn listed<'s, A: Arms, R>(arms: &'s A, then: impl FnOnce(&[&'s dyn Arm]) -> R) -> R {
    let (mut count, mut first) = (0, None);
    arms.each(&mut |arm| {
        count += 1;
        first.get_or_insert(arm);
    });
    let Some(first) = first else { return then(&[]) };
    let (mut few, mut many);
    let list = if count <= FEW {
        few = [first; FEW];
        &mut few[..count]
    } else {
        many = vec![first; count];
        &mut many[..]
    };
    let mut places = list.iter_mut();
    arms.each(&mut |arm| places.next().into_iter().for_each(|place| *place = arm));
    then(operations(list))
}

/// What a choice has taken, and the seats in whose names.
pub struct Seated {
    /// Nothing: the arm is dead.
    pub(super) taken: Option<Taken>,
    /// The name of that.
    dead: Option<String>,
    seats: Option<Seats>,
}

struct Seats {
    main: Seat,
    private: Option<Seat>,
}

impl Seats {
    fn who(&self) -> Parties {
        Parties { main: self.main.party().main, private: self.private.as_ref().map(|seat| seat.party().main) }
    }

    fn each(&self) -> impl Iterator<Item = &Seat> {
        [Some(&self.main), self.private.as_ref()].into_iter().flatten()
    }

    fn note(&self, waker: &Waker) -> Result<(), Refused> {
        self.each().try_for_each(|seat| seat.note(waker))
    }
}

impl Seated {
    /// The name of the object, if it was removed: then nothing was taken.
    pub fn dead(&self) -> Option<&str> {
        self.dead.as_deref()
    }

    /// The seat in an arena.
    pub(super) fn seat_in(self, map: &Map) -> Option<Seat> {
        let Seats { main, private } = self.seats?;
        [private, Some(main)].into_iter().flatten().find(|seat| std::ptr::eq(seat.party().main.map, map))
    }

    /// The member in whose name it was taken.
    pub(super) fn member_in(&self, map: &Map) -> u16 {
        self.seats.as_ref().map_or(0, |seats| seats.who().party(map).member as u16)
    }

    /// The same, for a guard to keep.
    pub(super) fn by(self, map: &Map) -> Option<BySeat> {
        self.seat_in(map).map(BySeat::new)
    }
}

/// An arm was chosen: it is to be completed.
pub struct Chosen<A> {
    /// Its number.
    pub at: usize,
    /// All arms.
    pub arms: A,
    /// For the chosen one.
    pub took: Seated,
}

/// The future of a choice.
#[must_use = "a future does nothing unless it is polled"]
pub struct Choosing<A: Arms> {
    /// None: it is over.
    arms: Option<A>,
    stays: Stays,
}

/// An arm is moved, never pinned.
impl<A: Arms> Unpin for Choosing<A> {}

struct Stays {
    biased: bool,
    deadline: Option<u64>,
    stay: Option<(Seats, Waiting)>,
    alarm: Option<Alarm>,
}

/// Chooses one of the arms: the first that is ready, of several any, or with `biased` the first of them. At that time, on the monotonic clock, none:
/// `Timeout`.
pub fn choose<A: Arms>(arms: A, biased: bool, deadline: Option<u64>) -> Choosing<A> {
    Choosing { arms: Some(arms), stays: Stays { biased, deadline, stay: None, alarm: None } }
}

impl<A: Arms> Future for Choosing<A> {
    type Output = Result<Chosen<A>, SelectError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Choosing { arms, stays } = self.get_mut();
        let of = arms.as_ref().expect("polled again after it was ready");
        let over = match listed(of, |list| stays.poll(list, cx)) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(over) => over,
        };
        stays.alarm = None;
        let seats = stays.stay.take().map(|(seats, _)| {
            seats.each().for_each(|seat| drop(seat.forget()));
            seats
        });
        let (at, taken, dead) = match over {
            Ok((at, taken)) => (at, Some(taken), None),
            Err(SelectError::Dead { arm, name }) => (arm, None, Some(name)),
            Err(e) => return Poll::Ready(Err(e)),
        };
        let arms = arms.take().expect("seen above");
        Poll::Ready(Ok(Chosen { at, arms, took: Seated { taken, dead, seats } }))
    }
}

impl<A: Arms> Drop for Choosing<A> {
    fn drop(&mut self) {
        let (Some(arms), Some((seats, mut waiting))) = (&self.arms, self.stays.stay.take()) else { return };
        if seats.main.is_here() {
            listed(arms, |list| waiting.leave(&seats.who(), list));
        }
    }
}

impl Stays {
    fn poll(&mut self, arms: &[&dyn Arm], cx: &mut Context<'_>) -> Poll<Result<(usize, Taken), SelectError>> {
        if arms.is_empty() {
            return self.nothing(cx);
        }
        if self.stay.is_none() {
            match self.begin(arms) {
                Ok(None) => {}
                Ok(Some(found)) => return Poll::Ready(Ok(found)),
                // The private arena has no place left: the task looks again and again.
                Err(SelectError::Arena(_)) if dies_unseen(arms) => return soon(cx),
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
        let (seats, waiting) = self.stay.as_mut().expect("it was begun");
        if let Err(refused) = seats.note(cx.waker()) {
            return Poll::Ready(Err(failed(arms, refused)));
        }
        let who = seats.who();
        loop {
            let next = [self.deadline, due(arms, &who.main)].into_iter().flatten().min();
            waiting.is_due = next.is_some_and(is_late);
            let was_due = waiting.is_due;
            match waiting.poll(&who, arms, self.biased, seats.main.bell()) {
                Step::Over(over) => return Poll::Ready(over.map_err(|refused| failed(arms, refused))),
                Step::Soon => return soon(cx),
                Step::Waits => {}
            }
            if self.deadline.is_some_and(is_late) {
                // What it was granted in this moment goes to the next.
                waiting.leave(&who, arms);
                let found = lull(arms, &who, self.biased, Mode::Take).map_err(|refused| failed(arms, refused));
                return Poll::Ready(found.and_then(|found| found.ok_or(SelectError::Timeout)));
            }
            match next {
                None => return Poll::Pending,
                // Its wait began only now, or another thread has taken the stroke.
                Some(_) if was_due => {}
                Some(next) => return alarmed(&mut self.alarm, next, cx),
            }
        }
    }

    /// A choice without arms: of its time alone.
    fn nothing<R>(&mut self, cx: &mut Context<'_>) -> Poll<Result<R, SelectError>> {
        match self.deadline {
            None => Poll::Ready(Err(SelectError::Nothing)),
            Some(at) if is_late(at) => Poll::Ready(Err(SelectError::Timeout)),
            Some(at) => alarmed(&mut self.alarm, at, cx),
        }
    }

    /// Takes what is there, or the seats for a wait.
    fn begin(&mut self, arms: &[&dyn Arm]) -> Result<Option<(usize, Taken)>, SelectError> {
        let order = match glance(arms, self.biased, true) {
            Ok(found) => return Ok(Some(found)),
            Err(order) => order,
        };
        let (named, private) = arenas(arms)?;
        let main = named.or(private).expect("there are arms");
        let dies = !dies_unseen(arms);
        let seats = Seats {
            main: Seat::take(main, dies)?,
            private: private.filter(|_| named.is_some()).map(|map| Seat::take(map, dies)).transpose()?,
        };
        let who = seats.who();
        for standing in arms.iter().filter_map(|arm| arm.standing()) {
            standing.own.prepare()?;
        }
        let mut waiting = Waiting::new(&who, priority());
        waiting.first = Order::new(arms.len(), self.biased).peek().unwrap_or(0);
        self.stay = Some((seats, waiting));
        look(arms, &who, order, Mode::Take).map_err(|refused| failed(arms, refused))
    }
}

/// The task is woken at that time.
fn alarmed<R>(set: &mut Option<Alarm>, at: u64, cx: &mut Context<'_>) -> Poll<R> {
    if !set.as_ref().is_some_and(|alarm| alarm.is_for(at, cx.waker())) {
        match Alarm::set(at, cx.waker()) {
            Ok(alarm) => *set = Some(alarm),
            Err(_) => return soon(cx),
        }
    }
    Poll::Pending
}

fn is_late(at: u64) -> bool {
    clock::now() >= at
}

fn dies_unseen(arms: &[&dyn Arm]) -> bool {
    arms.iter().all(|arm| Nature::dies_unseen(arm.site().nature))
}
