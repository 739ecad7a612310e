//! Seats: the attachments in which tasks wait, each with a place for a waker. A seat is a wait's until it is over, then the next one's.

use super::driver::{self, Driver};
use crate::attachment::WATCH;
use crate::holds::Holds;
use crate::lent::holders::{self, Needless, Sitter, key};
use crate::lent::{self, spare};
use crate::operation::Refused;
use crate::wait::{Parties, Party};
use chappe_arena::{ArenaError, Joined, Map};
use chappe_plat::light::{self, End};
use chappe_plat::process;
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::task::Waker;

/// An attachment in which a task can wait.
pub struct Seat(ManuallyDrop<Box<Chair>>);

struct Chair {
    map: &'static Map,
    joined: Joined,
    sitter: &'static Sitter,
    /// In an arena that other processes use.
    driver: Option<&'static Driver>,
    /// Whether this process's reaper watches the arena.
    watched: bool,
    incarnation: u64,
}

pub struct Free {
    incarnation: u64,
    /// By arena.
    seats: Vec<(usize, Vec<Seat>)>,
    /// Of seats that are no more. A late granter may wake the next task there, for nothing.
    sitters: Vec<&'static Sitter>,
}

impl Free {
    const fn none(incarnation: u64) -> Free {
        Free { incarnation, seats: Vec::new(), sitters: Vec::new() }
    }
}

/// Seats that no wait has.
pub static FREE: Mutex<Free> = Mutex::new(Free::none(0));

/// A place for a waker.
pub(super) fn lend_sitter() -> &'static Sitter {
    let old = with_free(|free| free.sitters.pop());
    old.unwrap_or_else(|| Box::leak(Box::default()))
}

/// The place is not needed any more.
pub(super) fn return_sitter(sitter: &'static Sitter) {
    // Dropped last, with nothing locked, as a seat's.
    let _needless = sitter.forget();
    with_free(|free| free.sitters.push(sitter));
}

fn with_free<R>(then: impl FnOnce(&mut Free) -> R) -> R {
    let now = process::incarnation();
    let mut free = light::lock(&FREE);
    if free.incarnation != now {
        // The parent's.
        *free = Free::none(now);
    }
    then(&mut free)
}

impl Seat {
    /// A seat in an arena. `dies`: what is waited for may be another thread's, whose death must be noticed.
    ///
    /// # Errors
    /// The arena's when it is full, and the system's when it refuses a thread.
    pub fn take(map: &'static Map, dies: bool) -> Result<Seat, ArenaError> {
        let old =
            with_free(|free| free.seats.iter_mut().find(|(of, _)| *of == key(map)).and_then(|(_, seats)| seats.pop()));
        let mut seat = match old {
            Some(seat) => seat,
            None => Seat::make(map)?,
        };
        if dies && !seat.0.watched {
            let cannot =
                |source| ArenaError::Io { what: "cannot start the thread that recovers the dead".into(), source };
            WATCH.add(map).map_err(cannot)?;
            seat.0.watched = true;
        }
        Ok(seat)
    }

    #[cold]
    fn make(map: &'static Map) -> Result<Seat, ArenaError> {
        let driver = if map.is_private() { None } else { Some(driver::of(map)?) };
        let joined = lent::take(map)?;
        let sitter = lend_sitter();
        holders::seat(map, joined.index, sitter);
        let chair = Chair { map, joined, sitter, driver, watched: false, incarnation: process::incarnation() };
        Ok(Seat(ManuallyDrop::new(Box::new(chair))))
    }

    /// As a waiter.
    pub fn party(&self) -> Parties {
        let Joined { index: member, generation, .. } = self.0.joined;
        Parties { main: Party { map: self.0.map, member, generation, holds: Holds::NONE }, private: None }
    }

    /// The member whose bell is rung for it.
    pub fn bell(&self) -> Option<u32> {
        self.0.driver.map(|driver| driver.member)
    }

    /// Whether this is the process that took it.
    pub fn is_here(&self) -> bool {
        self.0.incarnation == process::incarnation()
    }

    /// Notes the waker that is to be called: I1 of the tasks, before a look at the member's word.
    ///
    /// # Errors
    /// `Inherited` in a forked child.
    pub fn note(&self, waker: &Waker) -> Result<(), Refused> {
        if !self.is_here() {
            return Err(Refused::Inherited(0));
        }
        self.0.sitter.note(waker);
        if let Some(driver) = self.0.driver {
            driver.enlist(self.0.joined.index);
        }
        Ok(())
    }

    /// The wait is over, and the seat may be kept for what was taken: no waker is to be called any more. Answers the one that was, to be dropped with
    /// nothing locked. It holds its task, which may have the seat: kept, neither would ever go.
    pub fn forget(&self) -> Needless {
        if let Some(driver) = self.0.driver {
            driver.dismiss(self.0.joined.index);
        }
        self.0.sitter.forget()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let is_here = self.is_here();
        // Dropped last, with nothing locked: its task may live longer than this wait, and may come here again.
        let _needless = is_here.then(|| self.forget());
        // SAFETY: not used any more.
        let chair = unsafe { ManuallyDrop::take(&mut self.0) };
        if !is_here {
            return;
        }
        let mut free = light::lock(&FREE);
        if free.incarnation != chair.incarnation {
            return;
        }
        let Chair { map, joined, sitter, .. } = *chair;
        let seat = || Seat(ManuallyDrop::new(chair));
        match free.seats.iter_mut().find(|(of, _)| *of == key(map)) {
            Some((_, seats)) if seats.len() < spare(map) => seats.push(seat()),
            None => free.seats.push((key(map), vec![seat()])),
            Some(_) => {
                free.sitters.push(sitter);
                drop(free);
                lent::give_back(map, joined, End::Leaves);
            }
        }
    }
}
