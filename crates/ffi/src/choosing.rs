//! Choices of loops of events: the arms of a wait, each with what it needs until the wait is over, and what is made of the one that happened.

use crate::choice::{
    CHAPPE_ARM_ACQUIRE, CHAPPE_ARM_DOWN, CHAPPE_ARM_NOTHING, CHAPPE_ARM_READABLE, CHAPPE_ARM_RECV, CHAPPE_ARM_SEND,
    CHAPPE_ARM_SUBSCRIPTION, CHAPPE_ARM_WRITABLE, Ended, armed, chappe_arm, write,
};
use crate::failure::{Answer, Failure, Why, later};
use crate::handle;
use crate::input;
use crate::lending::Lent;
use crate::permit::Place;
use crate::receiver::{Receives, ReceivingEnd};
use crate::sender::{SendingEnd, Sends};
use crate::subscription::Hearing;
use chappe::raw::{self, Armed, Hold};
use chappe::task::choice::{Chosen, End, Seated, choose};
use chappe::task::ends::{Acquire, Down, Ready};
use chappe::tube::broadcast::Subscription;
use chappe::{OwnedPermit, Pool, ReceivingEnd as _, SelectError, Semaphore};
use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

/// An arm, for as long as the wait has it.
enum Arm {
    Down(Semaphore),
    Acquire(Pool),
    Send(Sends),
    Recv(Receives),
    Hear(Lent<Subscription<[u8]>>),
    Ready(Descriptor, bool),
}

/// The caller's, which keeps it open.
struct Descriptor(RawFd);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the caller's promise; the system reports one that was closed.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

// SAFETY: what it has makes the same arm each time.
unsafe impl End for Arm {
    fn armed(&self) -> Armed<'_> {
        match self {
            Arm::Down(semaphore) => raw::down(semaphore),
            Arm::Acquire(pool) => raw::acquire(pool),
            Arm::Send(end) => end.armed(),
            Arm::Recv(end) => end.armed(),
            Arm::Hear(end) => (**end).__arm(),
            Arm::Ready(descriptor, false) => Armed::readable(descriptor),
            Arm::Ready(descriptor, true) => Armed::writable(descriptor),
        }
    }
}

/// What an arm has done.
enum Done {
    Plain,
    Permit(OwnedPermit),
    Record(Vec<u8>, bool),
}

/// What a choice has come to: the arm's number in the caller's array, and how it ended.
pub struct Came(usize, Result<Done, Why>);

fn arm(given: &chappe_arm) -> Answer<Arm> {
    // Looked at as the arm of a thread, first: nothing is lent for one that cannot be.
    armed(given)?;
    Ok(match given.kind {
        CHAPPE_ARM_DOWN => Arm::Down(handle::get::<Semaphore>(given.object.cast())?.clone()),
        CHAPPE_ARM_ACQUIRE => Arm::Acquire(handle::get::<Pool>(given.object.cast())?.clone()),
        CHAPPE_ARM_SEND => {
            let end: &'static SendingEnd = handle::get(given.object.cast())?;
            Arm::Send(end.sends(input::bytes(given.data, given.size)?)?)
        }
        CHAPPE_ARM_RECV => {
            let end: &'static ReceivingEnd = handle::get(given.object.cast())?;
            Arm::Recv(end.receives()?)
        }
        CHAPPE_ARM_SUBSCRIPTION => {
            let end: &'static Hearing = handle::get(given.object.cast())?;
            Arm::Hear(end.lend()?)
        }
        CHAPPE_ARM_READABLE | CHAPPE_ARM_WRITABLE => {
            Arm::Ready(Descriptor(given.descriptor), given.kind == CHAPPE_ARM_WRITABLE)
        }
        _ => {
            let text = c"a wait of a loop of events locks, borrows and arrives for no thread: it has no such arm";
            return Err(Failure::new(libc::EOPNOTSUPP, text));
        }
    })
}

/// The wait for one of the arms.
pub fn chooses(
    all: &[chappe_arm],
    biased: bool,
) -> Answer<impl Future<Output = Result<Came, SelectError>> + Send + use<>> {
    let given = all.iter().enumerate().filter(|(_, given)| given.kind != CHAPPE_ARM_NOTHING);
    let (numbers, arms): (Vec<usize>, Vec<Arm>) =
        given.map(|(at, given)| Ok((at, arm(given)?))).collect::<Answer<Vec<_>>>()?.into_iter().unzip();
    if arms.is_empty() {
        return Err(SelectError::Nothing.into());
    }
    Ok(async move {
        let Chosen { at, mut arms, took } = choose(arms, biased, None).await?;
        let arm = arms.swap_remove(at);
        drop(arms);
        Ok(Came(numbers[at], complete(at, arm, took).await))
    })
}

/// Completes what was taken.
async fn complete(at: usize, arm: Arm, took: Seated) -> Result<Done, Why> {
    if let Some(name) = took.dead() {
        return Err(later(SelectError::Dead { arm: at, name: name.to_owned() }));
    }
    match arm {
        Arm::Down(semaphore) => Down::of(&semaphore).finish(took).map(|()| Done::Plain).map_err(later),
        Arm::Acquire(pool) => Acquire::of(&pool).finish(took).map(Done::Permit).map_err(later),
        Arm::Send(end) => end.finish(took).await.map(|()| Done::Plain),
        Arm::Recv(end) => end.finish(took).map(|(record, again)| Done::Record(record, again)),
        Arm::Hear(mut end) => {
            end.__task_recv().finish_told(took).map(|record| Done::Record(record, false)).map_err(later)
        }
        Arm::Ready(descriptor, writes) => {
            Ready::of(&descriptor, writes).finish(took).map(|()| Done::Plain).map_err(later)
        }
    }
}

impl Came {
    /// Writes it into the caller's array; answers the arm's number.
    pub fn tell(self, arms: *mut chappe_arm, n: usize) -> Answer<c_int> {
        let Came(at, done) = self;
        let arm = &input::array(arms.cast_const(), n)?[at];
        let ended = match done.map_err(|why| why()) {
            Ok(Done::Plain) => Ok(Ended::default()),
            Ok(Done::Permit(permit)) => {
                Place::new(arm.permit)?.of_process(Hold::of_owned(permit));
                Ok(Ended::default())
            }
            Ok(Done::Record(record, again)) => {
                input::buffer(arm.data, record.len())?.copy_from_slice(&record);
                Ok(Ended { result: record.len() as isize, again, borrowed: None })
            }
            Err(failure) => Err(failure),
        };
        write(arms, at, ended);
        Ok(at as c_int)
    }
}
