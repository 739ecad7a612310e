//! What a task's choice can do, arm by arm, for [`select_async!`](crate::select_async): each borrows its object until it has completed what was chosen. An
//! end of which only one task has the use is borrowed for itself alone, so that the choice may go from thread to thread with it.

use super::choice::{End, Seated};
use super::pool::owned;
use super::rwlock::{OwnedReadResult, OwnedWriteResult};
use super::tube::sending;
use crate::armed::Armed;
use crate::descriptor::outcome;
use crate::error::{AcquireError, DownError};
use crate::guard::OwnedPermit;
use crate::pool::Pool;
use crate::rwlock::RwLock;
use crate::select::{ReceivingEnd, SendingEnd};
use crate::semaphore::Semaphore;
use crate::took::Took;
use crate::tube::broadcast::Subscription;
use crate::tube::named::{self, NotReceived, Record};
use crate::tube::{Receiver, RecvError, SendError, Sender, SingleReceiver, SingleSender};
use chappe_tube::body::arms::{In, Out};
use chappe_tube::body::{Not, Tube};
use chappe_tube::named::arms;
use chappe_wait::operation::Taken;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A `recv` arm at a tube of this process.
pub struct Recv<'a, T>(&'a In<Arc<Tube<T>>>);
/// A `send` arm at one.
pub struct Send<'a, T>(&'a Out<Arc<Tube<T>>>);
/// A `recv` arm at a tube that processes share, or a broadcast.
pub struct RecvNamed<'a, R>(&'a mut R);
/// A `send` arm at one.
pub struct SendNamed<'a, S>(&'a mut S);
/// A `down` arm.
pub struct Down<'a>(&'a Semaphore);
/// An `acquire` arm.
pub struct Acquire<'a>(&'a Pool);
/// A `read` arm.
pub struct Read<'a, T>(&'a RwLock<T>);
/// A `write` arm.
pub struct Write<'a, T>(&'a RwLock<T>);
/// A `readable` or `writable` arm.
pub struct Ready<'a, F>(&'a F, bool);

// SAFETY: the end is one that threads share, or is the arm's alone meanwhile; the message goes from thread to thread.
unsafe impl<T: std::marker::Send> std::marker::Send for Recv<'_, T> {}
// SAFETY: as above.
unsafe impl<T: std::marker::Send> std::marker::Send for Send<'_, T> {}

macro_rules! armed {
    ($([$($of:tt)*] $arm:ty: |$me:ident| $armed:expr;)*) => {$(
        // SAFETY: what it borrows has one arm.
        unsafe impl<$($of)*> End for $arm {
            fn armed(&self) -> Armed<'_> {
                let $me = self;
                $armed
            }
        }
    )*};
}

armed! {
    [T] Recv<'_, T>: |me| Armed(me.0);
    [T] Send<'_, T>: |me| Armed(me.0);
    [R: ReceivingEnd] RecvNamed<'_, R>: |me| me.0.__arm();
    [S: SendingEnd] SendNamed<'_, S>: |me| me.0.__arm();
    [] Down<'_>: |me| Armed(me.0);
    [] Acquire<'_>: |me| Armed(me.0);
    [T] Read<'_, T>: |me| me.0.__read_arm();
    [T] Write<'_, T>: |me| me.0.__write_arm();
    [F: AsFd] Ready<'_, F>: |me| if me.1 { Armed::writable(me.0) } else { Armed::readable(me.0) };
}

impl<T> Receiver<T> {
    #[doc(hidden)]
    pub fn __task_recv(&self) -> Recv<'_, T> {
        Recv(&self.into)
    }
}

impl<T> SingleReceiver<T> {
    #[doc(hidden)]
    pub fn __task_recv(&mut self) -> Recv<'_, T> {
        Recv(&self.into)
    }
}

impl<T: Record + ?Sized> named::Receiver<T> {
    #[doc(hidden)]
    pub fn __task_recv(&mut self) -> RecvNamed<'_, Self> {
        RecvNamed(self)
    }
}

impl<T: Record + ?Sized> Subscription<T> {
    #[doc(hidden)]
    pub fn __task_recv(&mut self) -> RecvNamed<'_, Self> {
        RecvNamed(self)
    }
}

impl<T> Recv<'_, T> {
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> Result<T, RecvError> {
        // It was taken in this poll, and nobody else takes it.
        self.0.0.recv_taken(took.taken.ok_or(RecvError)?).map_err(|_| RecvError)
    }
}

impl<R: ReceivingEnd> RecvNamed<'_, R> {
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> Result<R::Message, RecvError> {
        self.0.__finish(Took(took.taken))
    }
}

impl RecvNamed<'_, Subscription<[u8]>> {
    /// As `finish`, and says how the publishers have gone.
    #[doc(hidden)]
    pub fn finish_told(self, took: Seated) -> Result<Vec<u8>, NotReceived> {
        let mut message = vec![0; self.0.size()];
        let len = self.0.finish_into(took.taken, &mut message)?;
        message.truncate(len);
        Ok(message)
    }
}

impl RecvNamed<'_, named::Receiver<[u8]>> {
    /// As `finish`, with whether a receiver died that had the record before, and says why there is none.
    #[doc(hidden)]
    pub fn finish_told(self, took: Seated) -> Result<(Vec<u8>, bool), NotReceived> {
        let mut record = vec![0; self.0.into.0.ring.size() as usize];
        let (len, again) = self.0.finish_into(took.taken, &mut record)?;
        record.truncate(len);
        Ok((record, again))
    }
}

/// Two waiters without a packet do not meet.
#[track_caller]
fn sends<T>(out: &Out<Arc<Tube<T>>>) -> Send<'_, T> {
    assert!(
        !out.0.has_meetings(),
        "select_async!: a choice of a task cannot send through a tube without slots; give it one, or use send_async"
    );
    Send(out)
}

impl<T> Sender<T> {
    #[doc(hidden)]
    #[track_caller]
    pub fn __task_send(&self) -> Send<'_, T> {
        sends(&self.out)
    }
}

impl<T> SingleSender<T> {
    #[doc(hidden)]
    #[track_caller]
    pub fn __task_send(&mut self) -> Send<'_, T> {
        sends(&self.out)
    }
}

impl<T: Record + ?Sized> named::Sender<T> {
    #[doc(hidden)]
    pub fn __task_send(&mut self) -> SendNamed<'_, Self> {
        SendNamed(self)
    }
}

/// A `send` arm that was chosen, and the slot that it has, until the message is there. Dropped before, as the message's expression has panicked or its record
/// does not fit, it gives the slot back: others wait for it.
pub struct Place<A: Gives>(Option<(A, Seated)>);

/// A `send` arm, which can give its slot back.
pub trait Gives {
    #[doc(hidden)]
    fn give_up(&self, taken: Taken, took: &Seated);
}

impl<'a, T> Send<'a, T> {
    #[doc(hidden)]
    pub fn place(self, took: Seated) -> Place<Send<'a, T>> {
        Place(Some((self, took)))
    }
}

impl<T> Gives for Send<'_, T> {
    fn give_up(&self, taken: Taken, _took: &Seated) {
        self.0.0.give_up(taken);
    }
}

impl<'a, T: Record + ?Sized> SendNamed<'a, named::Sender<T>> {
    #[doc(hidden)]
    pub fn place(self, took: Seated) -> Place<SendNamed<'a, named::Sender<T>>> {
        Place(Some((self, took)))
    }
}

impl<T: Record + ?Sized> Gives for SendNamed<'_, named::Sender<T>> {
    fn give_up(&self, taken: Taken, took: &Seated) {
        let pipe = self.0.out.0;
        if let Ok(slot) = arms::reserved(taken, took.member_in(pipe.map)) {
            arms::give_up(&pipe, slot);
        }
    }
}

impl<A: Gives> Place<A> {
    /// The slot is filled now.
    fn filled(mut self) -> (A, Seated) {
        self.0.take().expect("only this takes it")
    }
}

impl<A: Gives> Drop for Place<A> {
    fn drop(&mut self) {
        if let Some((arm, took)) = &self.0
            && let Some(taken) = took.taken
        {
            arm.give_up(taken, took);
        }
    }
}

impl<T> Place<Send<'_, T>> {
    #[doc(hidden)]
    pub async fn finish(self, message: T) -> Result<(), SendError<T>> {
        let (arm, took) = self.filled();
        let Some(taken) = took.taken else { return Err(SendError(message)) };
        drop(took);
        match arm.0.0.send_taken(taken, message) {
            Ok(()) => Ok(()),
            Err((Not::Ever, message)) => Err(SendError(message)),
            // Its slot was passed over while the message was made, and others have filled all there are.
            Err((Not::Now, message)) => sending(arm.0, message).await,
        }
    }
}

impl<T: Record + ?Sized> Place<SendNamed<'_, named::Sender<T>>> {
    #[doc(hidden)]
    pub async fn finish(self, message: T::Owned) -> Result<(), SendError<T::Owned>> {
        let record = T::__bytes(&message);
        let fits =
            |(arm, _): &(SendNamed<'_, named::Sender<T>>, Seated)| record.len() <= arm.0.out.0.ring.size() as usize;
        if !self.0.as_ref().is_some_and(fits) {
            return Err(SendError(message));
        }
        let (SendNamed(sender), took) = self.filled();
        let Some(taken) = took.taken else { return Err(SendError(message)) };
        let (pipe, me) = (sender.out.0, took.member_in(sender.out.0.map));
        let sent = arms::send_taken(&pipe, me, taken, record);
        drop(took);
        let sent = match sent {
            // As in a private tube.
            Err(arms::Not::Now) => sender.put_as_task(record, || ()).await.is_ok(),
            sent => sent.is_ok(),
        };
        if sent { Ok(()) } else { Err(SendError(message)) }
    }
}

impl Down<'_> {
    #[doc(hidden)]
    pub fn of(semaphore: &Semaphore) -> Down<'_> {
        Down(semaphore)
    }
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> Result<(), DownError> {
        took.taken.map(|_| ()).ok_or_else(|| self.0.dead())
    }
}

impl Acquire<'_> {
    #[doc(hidden)]
    pub fn of(pool: &Pool) -> Acquire<'_> {
        Acquire(pool)
    }
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> Result<OwnedPermit, AcquireError> {
        owned(self.0, took.taken.ok_or_else(|| self.0.dead())?)
    }
}

impl<'a, T> Read<'a, T> {
    #[doc(hidden)]
    pub fn of(lock: &'a RwLock<T>) -> Read<'a, T> {
        Read(lock)
    }
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> OwnedReadResult<'a, T> {
        let (lock, taken) = (self.0, took.taken);
        let by = taken.and_then(|_| took.by(lock.__read_arm().0.site().map)).ok_or_else(|| lock.gone())?;
        lock.came_to_read(taken, by)
    }
}

impl<'a, T> Write<'a, T> {
    #[doc(hidden)]
    pub fn of(lock: &'a RwLock<T>) -> Write<'a, T> {
        Write(lock)
    }
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> OwnedWriteResult<'a, T> {
        let (lock, taken) = (self.0, took.taken);
        let by = taken.and_then(|_| took.by(lock.__write_arm().0.site().map)).ok_or_else(|| lock.gone())?;
        lock.came_to_write(taken, by)
    }
}

impl<F> Ready<'_, F> {
    #[doc(hidden)]
    pub fn of(descriptor: &F, writable: bool) -> Ready<'_, F> {
        Ready(descriptor, writable)
    }
    #[doc(hidden)]
    pub fn finish(self, took: Seated) -> io::Result<()> {
        took.taken.map_or(Ok(()), outcome)
    }
}
