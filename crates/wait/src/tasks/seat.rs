//! Seats: the attachments in which tasks wait, each with a place for a waker. A seat is a wait's until it is over, then the next one's.

use super::driver::{self, Driver};
use crate::attachment::WATCH;
use crate::holds::Holds;
use crate::lent;
use crate::lent::holders::{self, Sitter, key};
use crate::operation::Refused;
use crate::wait::{Parties, Party};
use chappe_arena::{ArenaError, Joined, Map};
use chappe_plat::{light, process};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::task::Waker;

/// An attachment in which a task can wait.
pub struct Seat {
    map: &'static Map,
    joined: Joined,
    sitter: &'static Sitter,
    /// In an arena that other processes use.
    driver: Option<&'static Driver>,
    incarnation: u64,
}

pub struct Free {
    incarnation: u64,
    /// By arena.
    seats: Vec<(usize, Vec<ManuallyDrop<Seat>>)>,
}

/// Seats that no wait has.
pub static FREE: Mutex<Free> = Mutex::new(Free { incarnation: 0, seats: Vec::new() });

impl Seat {
    /// A seat in an arena, whose dead members are recovered from now on.
    ///
    /// # Errors
    /// The arena's when it is full, and the system's when it refuses a thread.
    pub fn take(map: &'static Map) -> Result<Seat, ArenaError> {
        let now = process::incarnation();
        let mut free = light::lock(&FREE);
        if free.incarnation != now {
            // The parent's.
            *free = Free { incarnation: now, seats: Vec::new() };
        }
        if let Some((_, seats)) = free.seats.iter_mut().find(|(of, _)| *of == key(map))
            && let Some(seat) = seats.pop()
        {
            return Ok(ManuallyDrop::into_inner(seat));
        }
        drop(free);
        Seat::make(map, now)
    }

    #[cold]
    fn make(map: &'static Map, incarnation: u64) -> Result<Seat, ArenaError> {
        let cannot = |source| ArenaError::Io { what: "cannot start the thread that recovers the dead".into(), source };
        let mut driver = None;
        if !map.is_private() {
            WATCH.add(map).map_err(cannot)?;
            driver = Some(driver::of(map)?);
        }
        let joined = lent::take(map)?;
        let sitter: &'static Sitter = Box::leak(Box::default());
        holders::seat(map, joined.index, sitter);
        Ok(Seat { map, joined, sitter, driver, incarnation })
    }

    /// As a waiter.
    pub fn party(&self) -> Party {
        let Joined { index: member, generation, .. } = self.joined;
        Party { map: self.map, member, generation, holds: Holds::NONE }
    }

    /// The member whose bell is rung for it.
    pub fn bell(&self) -> Option<u32> {
        self.driver.map(|driver| driver.member)
    }

    /// Whether this is the process that took it.
    pub fn is_here(&self) -> bool {
        self.incarnation == process::incarnation()
    }

    /// Notes the waker that is to be called: I1 of the tasks, before a look at the member's word.
    pub fn note(&self, waker: &Waker) {
        self.sitter.waker.register(waker);
        if let Some(driver) = self.driver {
            driver.enlist(self.joined.index);
        }
    }

    /// Nobody is to be called any more.
    pub fn forget(&self) {
        if let Some(driver) = self.driver {
            driver.dismiss(self.joined.index);
        }
        // Its task may live longer than the seat's wait: the waker keeps what the runtime keeps with it.
        drop(self.sitter.waker.take());
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        self.forget();
        let mut free = light::lock(&FREE);
        if free.incarnation != self.incarnation {
            return;
        }
        let Seat { map, joined, sitter, driver, incarnation } = *self;
        let seat = ManuallyDrop::new(Seat { map, joined, sitter, driver, incarnation });
        match free.seats.iter_mut().find(|(of, _)| *of == key(map)) {
            Some((_, seats)) => seats.push(seat),
            None => free.seats.push((key(map), vec![seat])),
        }
    }
}

/// The seats of a wait: in the arena of its wait word, and, if the arms are mixed, in the private arena.
pub struct Seats {
    main: Seat,
    private: Option<Seat>,
}

impl Seats {
    /// # Errors
    /// As [`Seat::take`].
    pub fn take(main: &'static Map, private: Option<&'static Map>) -> Result<Seats, ArenaError> {
        Ok(Seats { main: Seat::take(main)?, private: private.map(Seat::take).transpose()? })
    }

    /// As a waiter.
    pub fn parties(&self) -> Parties {
        Parties { main: self.main.party(), private: self.private.as_ref().map(Seat::party) }
    }

    /// See [`Seat::note`]. Where the arms are mixed, a granter of this process calls the waker by the private member.
    ///
    /// # Errors
    /// `Inherited` in a forked child.
    pub fn note(&self, waker: &Waker) -> Result<(), Refused> {
        if !self.is_here() {
            return Err(Refused::Inherited(0));
        }
        self.main.note(waker);
        if let Some(private) = &self.private {
            private.note(waker);
        }
        Ok(())
    }

    /// See [`Seat::bell`].
    pub fn bell(&self) -> Option<u32> {
        self.main.bell()
    }

    /// See [`Seat::is_here`].
    pub fn is_here(&self) -> bool {
        self.main.is_here()
    }
}
