//! What a subscription hears, as an arm of a choice: messages that its filter wants, and no others.
//!
//! An attempt takes the next message that passes out of the tube and holds it; what does not pass (it was sent before the publishers had
//! taken in the filter, or its parameters were others then) is dropped on the way. The held message is the subscription's: the choice that took it
//! completes with it, and if that never happens (it only looked) the next receive gets it, so none is lost. Only the thread that has the
//! subscription takes from it; a forked child does not.
//!
//! - H1: while a message is held, it is older than all that are in the tube for this subscription.
//! - H2: a held message passes the filter with the parameters as they are: a change of these tests it again.
//! - H3: two looks that find the same mark, and nothing, had nothing in between: messages are claimed by a number that only grows, and all
//!   publishers have gone only until another comes, which is counted.
//! - H4: while a message is held, the descriptor is readable. The watching thread sees the tube alone, not what is held; so the look that takes
//!   a message out makes the descriptor readable itself.
//!
//! A descriptor of the subscription is armed for a thread that watches on behalf of a poller ([`Watched`]). A thread that waits for the
//! subscription itself takes its place first: the descriptor becomes readable.
//!
//! A death: what is held lies in the subscriber's own memory, and goes with its subscription.
//!
//! Explored: `tests/crash_broadcast.rs` (H1, H2, deaths), `tests/crash_lull.rs` (H3).

#[cfg(not(feature = "sim"))]
use crate::tube::named::Watched;
#[cfg(not(feature = "sim"))]
use chappe_plat::process;
use chappe_tube::broadcast::cast::Ear;
use chappe_tube::named::arms::Not;
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Refused, Site, Taken};
use chappe_wait::wait::{Grant, Party};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;

/// What a subscriber tests records with.
pub(crate) trait Test {
    /// Whether it wants a record.
    fn passes(&mut self, record: &[u8]) -> bool;
}

/// A subscription's end, with its own test and room for a message.
pub(crate) struct Heard<T> {
    pub(crate) ear: Ear,
    pub(crate) own: RefCell<T>,
    #[cfg(not(feature = "sim"))]
    incarnation: u64,
    #[cfg(not(feature = "sim"))]
    pub(super) watched: Watched,
    /// How long the message is that lies in `buffer`.
    held: Cell<Option<usize>>,
    buffer: RefCell<Vec<u8>>,
}

impl<T: Test> Heard<T> {
    pub(crate) fn new(ear: Ear, own: T, size: usize) -> Heard<T> {
        Heard {
            ear,
            own: RefCell::new(own),
            #[cfg(not(feature = "sim"))]
            incarnation: process::incarnation(),
            #[cfg(not(feature = "sim"))]
            watched: Watched::default(),
            held: Cell::new(None),
            buffer: RefCell::new(vec![0; size]),
        }
    }

    /// Whether this is the process that subscribed. (The explorer's do not fork.)
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        #[cfg(feature = "sim")]
        return true;
        #[cfg(not(feature = "sim"))]
        process::is_incarnation(self.incarnation as u32)
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.get().is_some()
    }

    /// Room for a message, until [`Heard::room_back`]. A held message is not lost by it.
    pub(super) fn room(&self) -> Vec<u8> {
        let buffer = &mut *self.buffer.borrow_mut();
        if self.is_held() { vec![0; buffer.len()] } else { std::mem::take(buffer) }
    }

    pub(super) fn room_back(&self, room: Vec<u8>) {
        *self.buffer.borrow_mut() = room;
    }

    /// Takes the next message that is there and passes its own test.
    #[inline]
    pub(crate) fn take(&self, buffer: &mut [u8]) -> Result<usize, Not> {
        loop {
            let room = std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>];
            // SAFETY: only what was written is written there.
            let len = self.ear.cast.take(self.ear.who, unsafe { &mut *room })?;
            if self.own.borrow_mut().passes(&buffer[..len]) {
                return Ok(len);
            }
        }
    }

    /// The message that is held, in another buffer. In a forked child there is none: it is the parent's.
    #[inline]
    pub(crate) fn given(&self, buffer: &mut [u8]) -> Option<usize> {
        let len = self.held.get()?;
        self.is_here().then(|| {
            self.held.set(None);
            buffer[..len].copy_from_slice(&self.buffer.borrow()[..len]);
            len
        })
    }

    /// The message that is held, as something else.
    pub(super) fn taken<R>(&self, make: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let len = self.held.get()?;
        self.is_here().then(|| {
            self.held.set(None);
            make(&self.buffer.borrow()[..len])
        })
    }

    /// The parameters are others: H2.
    #[cfg(any(feature = "synth", feature = "sim"))]
    pub(crate) fn tests_again(&self) {
        if let Some(len) = self.held.get()
            && !self.own.borrow_mut().passes(&self.buffer.borrow()[..len])
        {
            self.held.set(None);
        }
    }

    /// Arms the descriptor. False: there is something, or was at this moment. What does not pass is dropped here, and makes nothing readable.
    #[cfg(not(feature = "sim"))]
    pub(super) fn rearm(&self) -> bool {
        if let Err(Not::Now) = self.hold() {
            return self.watched.rearm(&self.ear);
        }
        self.watched.fire();
        false
    }

    /// Holds a message that passes, unless one is held. An armed descriptor becomes readable (H4).
    fn hold(&self) -> Result<(), Not> {
        if !self.is_held() {
            let len = self.take(&mut self.buffer.borrow_mut())?;
            self.held.set(Some(len));
            #[cfg(not(feature = "sim"))]
            self.watched.disarm();
        }
        Ok(())
    }
}

impl<T: Test> Arm for Heard<T> {
    fn site(&self) -> Site {
        self.ear.site()
    }
    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        #[cfg(not(feature = "sim"))]
        if !self.is_here() {
            return Err(Refused::Inherited(0));
        }
        if !self.ear.cast.is_live() {
            return Err(Refused::Dead(0));
        }
        match self.hold() {
            // That all publishers have gone is something to tell: nothing is held then.
            Ok(()) | Err(Not::Ever) => Ok(Taken::UNIT),
            Err(Not::Dead) => Err(Refused::Dead(0)),
            Err(_) => Err(Refused::NoneFree),
        }
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        match how {
            // It takes the message all the same, and holds it.
            Looking::Free => match self.attempt(me, false) {
                Ok(_) => Ok(Mark::Something),
                Err(Refused::NoneFree) => Ok(Mark::Nothing(0)),
                Err(why) => Err(why),
            },
            // H3. Nobody else takes from it: what is there stays, unless it is overwritten.
            Looking::Mark => {
                let cast = &self.ear.cast;
                let (claimed, came) = (cast.ring.claimed(), cast.came());
                let some = self.is_held() || !cast.is_live() || cast.is_ready(self.ear.who);
                let mark = claimed ^ u64::from(came).rotate_left(32);
                Ok(if some { Mark::Something } else { Mark::Nothing(mark) })
            }
            _ => {
                #[cfg(not(feature = "sim"))]
                if how == Looking::Waiting {
                    self.watched.disarm();
                }
                self.ear.look(me, how)
            }
        }
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, aim: Mode) -> Collected {
        self.ear.collect(me, grant, number, aim)
    }
}
