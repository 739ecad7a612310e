//! Messages in place: a slot to be written, and a record that is read where it lies.

use super::error::{NotReceived, NotSent};
use super::fault::{Fault, fits, name_of, not_sent};
use super::message::Record;
use bytemuck::Pod;
use chappe_plat::light;
use chappe_plat::process;
use chappe_structures::record::{self, Borrowed, Unsent};
use chappe_tube::block::{alone, deaf_rest};
use chappe_tube::named::arms::{Mapped, Not, commit, commit_attached, give_up, put_back, release};
use chappe_wait::attachment::{attachment, watched};
use chappe_wait::attachment::{here, party};
use chappe_wait::patience::Until;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A slot of a tube to be written in place, by the thread that reserved it: [`commit`](Slot::commit) sends it. Dropping
/// it gives it up, and so does the death of its thread: nothing was sent.
///
/// It holds an earlier message at first, or zeros. While a thread has a slot, only this slot is out of use for others.
/// It belongs to the thread:
///
/// ```compile_fail
/// fn must_be_send<T: Send>(_: T) {}
/// must_be_send(chappe_sync::tube::named::Tube::<u64>::open("t").unwrap().sender().unwrap().reserve().unwrap());
/// ```
///
/// A slot that is leaked ([`std::mem::forget`]) is out of use for as long as the tube lasts.
#[must_use = "a slot that is not committed is given up"]
pub struct Slot<'a, T: ?Sized> {
    pipe: &'a Mapped,
    slot: Option<record::Slot>,
    incarnation: u32,
    sender: PhantomData<&'a mut T>,
    here: PhantomData<*const ()>,
}

/// A message that is read in place, by the thread that borrowed it. [`release`](Loan::release), or dropping it,
/// receives it. If the thread dies before that, or panics, the message is delivered once more, marked
/// ([`again`](Loan::again)). A leaked loan keeps its slot for as long as the tube lasts.
///
/// ```compile_fail
/// fn must_be_send<T: Send>(_: T) {}
/// must_be_send(chappe_sync::tube::named::Tube::<u64>::open("t").unwrap().receiver().unwrap().borrow().unwrap());
/// ```
#[must_use = "a loan that is not kept is released at once"]
pub struct Loan<'a, T: ?Sized> {
    pipe: &'a Mapped,
    borrowed: Option<Borrowed>,
    incarnation: u32,
    panicking: bool,
    receiver: PhantomData<&'a T>,
    here: PhantomData<*const ()>,
}

#[cold]
fn void(what: &str) -> ! {
    panic!("a {what} of a tube is used after fork: it is the parent's; take another in the child")
}

impl<'a, T: ?Sized> Slot<'a, T> {
    #[inline]
    pub(super) fn new(pipe: &'a Mapped, slot: record::Slot) -> Self {
        Slot { pipe, slot: Some(slot), incarnation: here(), sender: PhantomData, here: PhantomData }
    }

    fn at(&self) -> *mut u8 {
        let Some(slot) = &self.slot else { unreachable!("it is there until it is committed") };
        if !process::is_incarnation(self.incarnation) {
            void("slot");
        }
        self.pipe.ring.place(slot)
    }

    #[inline]
    fn send(mut self, len: u32) -> Result<(), NotSent> {
        if !process::is_incarnation(self.incarnation) {
            void("slot");
        }
        let Some(slot) = self.slot.take() else { unreachable!("it is there until it is committed") };
        match commit(self.pipe, slot, len) {
            Ok(()) => Ok(()),
            Err(why) => sent_later(self.pipe, why, len),
        }
    }
}

/// Commits a slot that was not committed at once: it was passed over.
#[cold]
fn sent_later(pipe: &Mapped, why: Unsent, len: u32) -> Result<(), NotSent> {
    let fault = match why {
        Unsent::Revoked => Fault::Not(Not::Lost),
        Unsent::Full(slot) => {
            let mut slot = Some(slot);
            let sent = attachment(pipe.map, |attachment| {
                let _ = watched(attachment);
                slot.take().map(|slot| {
                    light::shielded(|| {
                        commit_attached(pipe, slot, len, &alone(attachment), &deaf_rest(attachment, false))
                    })
                })
            });
            if let Some(slot) = slot {
                give_up(pipe, slot);
            }
            match sent {
                Ok(Some(Err(why))) => Fault::Not(why),
                Ok(_) => return Ok(()),
                Err(e) => Fault::Arena(e),
            }
        }
    };
    Err(not_sent(pipe, fault, Until::Forever, ()))
}

impl<T: Pod> Slot<'_, T> {
    /// Sends the message. Blocks only if its slot was passed over because this took long, and the tube has been full
    /// since.
    ///
    /// # Errors
    /// `Disconnected`, `Dead`, `Lost`: the slot is given up.
    pub fn commit(self) -> Result<(), NotSent> {
        self.send(size_of::<T>() as u32)
    }
}

impl Slot<'_, [u8]> {
    /// Sends the first `len` bytes. Blocks only if its slot was passed over because this took long, and the tube has
    /// been full since.
    ///
    /// # Errors
    /// `TooLong` if the slot has not so many, `TooShort` if the tube has a schema, by which each record is longer, `Disconnected`, `Dead`, `Lost`: the slot is given up.
    pub fn commit(self, len: usize) -> Result<(), NotSent> {
        fits(self.pipe, len)?;
        self.send(len as u32)
    }
}

impl<T: ?Sized> Drop for Slot<'_, T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && process::is_incarnation(self.incarnation)
        {
            give_up(self.pipe, slot);
        }
    }
}

impl<T: Record + ?Sized> Deref for Slot<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: as many bytes as a record has, aligned as it wants; ours until they are committed, and always plain data.
        unsafe { &*T::__at(self.at(), self.pipe.ring.size() as usize) }
    }
}

impl<T: Record + ?Sized> DerefMut for Slot<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` makes it the only reference.
        unsafe { &mut *T::__at(self.at(), self.pipe.ring.size() as usize) }
    }
}

impl<'a, T: ?Sized> Loan<'a, T> {
    #[inline]
    pub(super) fn new(pipe: &'a Mapped, borrowed: Borrowed) -> Self {
        let panicking = std::thread::panicking();
        let (receiver, place) = (PhantomData, PhantomData);
        Loan { pipe, borrowed: Some(borrowed), incarnation: here(), panicking, receiver, here: place }
    }

    fn borrowed(&self) -> &Borrowed {
        let Some(borrowed) = &self.borrowed else { unreachable!("it is there until it is released") };
        borrowed
    }

    /// Whether a receiver that had the message before has died: its work may have been done already.
    pub fn again(&self) -> bool {
        self.borrowed().again()
    }

    /// Receives the message: its slot is free.
    ///
    /// # Errors
    /// `Lost` if the thread has left the arena meanwhile: the message may come again.
    #[inline]
    pub fn release(mut self) -> Result<(), NotReceived> {
        match self.end() {
            Some(false) => Err(NotReceived::Lost { tube: name_of(self.pipe) }),
            _ => Ok(()),
        }
    }

    /// The message's place in the order of the commits. The next record's number is one more, except where a sender
    /// gave up a slot, or other receivers got what is in between. The number wraps, after 2^32 rounds of all slots.
    pub fn position(&self) -> u64 {
        self.pipe.ring.order(self.borrowed())
    }

    /// Gives the message back, unreceived: it comes once more, marked, before all that was sent later, however often it
    /// has come. (A tube that was made to drop drops and counts it.)
    pub fn put_back(mut self) {
        self.back(false);
    }

    fn back(&mut self, died: bool) {
        if let Some(borrowed) = self.borrowed.take().filter(|_| process::is_incarnation(self.incarnation)) {
            // As a member: if this thread dies in between, recovery must see it.
            let _ = attachment(self.pipe.map, party);
            put_back(self.pipe, &borrowed, died);
        }
    }

    #[inline]
    fn end(&mut self) -> Option<bool> {
        let borrowed = self.borrowed.take().filter(|_| process::is_incarnation(self.incarnation))?;
        Some(release(self.pipe, borrowed))
    }
}

impl<T: ?Sized> Drop for Loan<'_, T> {
    fn drop(&mut self) {
        if !std::thread::panicking() || self.panicking {
            self.end();
        } else {
            self.back(true);
        }
    }
}

impl<T: Record + ?Sized> Deref for Loan<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        if !process::is_incarnation(self.incarnation) {
            void("loan");
        }
        let (at, len) = self.pipe.ring.record(self.borrowed());
        let len = T::__whole(self.pipe.ring.size() as usize, len as usize);
        // SAFETY: so many bytes, aligned as a record wants; no thread writes them until they are released; always plain
        // data.
        unsafe { &*T::__at(at.cast_mut(), len) }
    }
}

impl<T: Record + std::fmt::Debug + ?Sized> std::fmt::Debug for Slot<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slot({:?})", &**self)
    }
}

impl<T: Record + std::fmt::Debug + ?Sized> std::fmt::Debug for Loan<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loan({:?})", &**self)
    }
}
