//! [`select!`](crate::select!) and [`select_biased!`](crate::select_biased!): a choice that is made once, written arm by arm as a
//! `match`. The arms are in an array, so a choice allocates nothing.

use crate::armed::{Armed, operations};
use crate::barrier::{Arrival, BarrierError, Turn};
use crate::choice::{How, glance};
#[cfg(not(any(feature = "sim", feature = "loom")))]
use crate::error::SelectError;
use crate::pool::Pool;
use crate::select::chosen;
use crate::semaphore::Semaphore;
#[cfg(not(any(feature = "sim", feature = "loom")))]
use crate::task::{
    self,
    choice::{Arms, Seated, choose},
};
pub use crate::took::{Took, descriptor_of, down_of, permit_of};
use chappe_wait::operation::{Mode, Taken};
use chappe_wait::patience::Until;
use std::mem::ManuallyDrop;
use std::ops::RangeFrom;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a choice waits.
pub enum Time {
    /// Until an arm is ready.
    Forever,
    /// Not at all.
    Now,
    /// At most so long.
    Within(Duration),
}

/// A `down` arm.
pub fn down(semaphore: &Semaphore) -> Armed<'_> {
    Armed::new(semaphore)
}

/// An `acquire` arm.
pub fn acquire(pool: &Pool) -> Armed<'_> {
    Armed::new(pool)
}

/// A `turn` arm.
pub fn turn<'a>(arrival: &'a Arrival<'_>) -> Armed<'a> {
    Armed::new(arrival.arm())
}

/// The result of a `turn` arm.
///
/// # Errors
/// As [`Barrier::wait`](crate::Barrier::wait).
pub fn turn_of(arrival: &Arrival<'_>, _took: Took) -> Result<Turn, BarrierError> {
    arrival.conclude()
}

/// A `readable` arm.
pub fn readable<F: AsFd>(descriptor: &F) -> Armed<'_> {
    Armed::readable(descriptor)
}

/// A `writable` arm.
pub fn writable<F: AsFd>(descriptor: &F) -> Armed<'_> {
    Armed::writable(descriptor)
}

/// Makes a choice once: which arm, and what was taken; `None` from a dead arm.
#[track_caller]
#[inline(always)]
fn made(arms: &[Armed<'_>], biased: bool, until: impl FnOnce() -> Until) -> Option<(usize, Option<Taken>)> {
    match glance(operations(arms), biased, false) {
        Ok((at, taken)) => Some((at, Some(taken))),
        Err(order) => chosen(arms, How { until: until(), biased, aim: Mode::Take }, order),
    }
}

/// Makes the choice. `None`: no arm was ready in time.
///
/// # Panics
/// If the choice cannot be made at all.
#[track_caller]
#[inline]
pub fn select(arms: &[Armed<'_>], biased: bool, time: Time) -> Option<Chosen> {
    let until = || match time {
        Time::Forever => Until::Forever,
        Time::Now => Until::Now,
        Time::Within(duration) => match Until::after(duration) {
            // A default alone, of a time that never comes.
            Until::Forever if arms.is_empty() => Until::Time(u64::MAX),
            until => until,
        },
    };
    made(arms, biased, until).map(|(index, taken)| Chosen { index, took: Took(taken) })
}

/// The outcome of a choice, until its arm takes it. It has no destructor: for the borrow checker, the last use of what the arms
/// borrow is when the chosen arm takes the outcome, and the arm's expression may use that freely afterwards.
///
/// It contains no arm: the macro knows which it is. A copy of an arm from the array, which was written just before in other pieces, would wait
/// for the processor to complete those stores: a third of the time of a choice.
pub struct Chosen {
    index: usize,
    took: Took,
}

impl Chosen {
    /// What was taken, for the arm to complete.
    #[inline(always)]
    pub fn took(self) -> Took {
        self.took
    }
}

/// Makes the choice of a task: which arm, what was taken, and the arms. `None`: none was ready in time.
///
/// # Panics
/// If the choice cannot be made at all.
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub async fn chosen_async<A: Arms>(arms: A, biased: bool, time: Option<Duration>) -> Option<(usize, Seated, A)> {
    let deadline = time.and_then(|time| match Until::after(time) {
        Until::Time(at) => Some(at),
        Until::Now => Some(0),
        Until::Forever => None,
    });
    match choose(arms, biased, deadline).await {
        Ok(task::choice::Chosen { at, arms, took }) => Some((at, took, arms)),
        Err(SelectError::Timeout) => None,
        // A default alone, of a time that never comes.
        Err(SelectError::Nothing) if time.is_some() => std::future::pending().await,
        Err(e) => panic!("select: {e}"),
    }
}

/// The slot that a `send` arm took, until the message is there.
///
/// # Panics
/// If the expression of the message leaves the arm: threads that wait for that slot would wait for ever.
pub struct Place(Took);

impl Place {
    /// The slot in what was taken.
    #[inline(always)]
    pub fn of(took: Took) -> Place {
        Place(took)
    }

    /// The slot is filled now.
    #[inline(always)]
    pub fn took(self) -> Took {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Place {
    #[cold]
    fn drop(&mut self) {
        panic!("dropped `SelectedOperation` without completing the operation");
    }
}

/// Whether the next arm is the chosen one.
#[inline(always)]
pub fn is_next(chosen: &Chosen, arms: &mut RangeFrom<usize>) -> bool {
    arms.next() == Some(chosen.index)
}

/// Performs exactly one of several operations, the first that is possible.
///
/// | arm | its value |
/// |---|---|
/// | `recv(receiver) -> message => ...` | `Result<T, RecvError>`: an error only if no sender is left; a broadcast subscription gets what its filter wants |
/// | `send(sender, message) -> sent => ...` | `Result<(), SendError<T>>`: an error only if there is no receiver any more |
/// | `down(semaphore) -> r => ...` | `Result<(), DownError>`: an error only if the semaphore is dead |
/// | `acquire(pool) -> permit => ...` | `Result<Permit, AcquireError>`: an error only if the pool is dead |
/// | `read(lock) -> guard => ...` | as [`RwLock::read`](crate::RwLock::read): an error with the guard, or that the lock is condemned or dead |
/// | `write(lock) -> guard => ...` | as [`RwLock::write`](crate::RwLock::write) |
/// | `turn(arrival) -> turn => ...` | as [`Barrier::wait`](crate::Barrier::wait); another arm does not take the arrival back: dropping it does |
/// | `readable(fd) -> r => ...` | `io::Result<()>`: it can be read without waiting, or has an end or an error to report |
/// | `writable(fd) -> r => ...` | `io::Result<()>`: it can be written without waiting, or has an error to report |
/// | `default => ...` | no arm is ready |
/// | `default(duration) => ...` | no arm was ready for so long |
///
/// The arms are as in [`Select`](crate::Select): each that is ready is equally likely. A default is taken only if at some moment no arm
/// was ready. The expressions of the ends are evaluated first, in order, then the duration; that of a message only if its arm was
/// chosen. `break`, `continue` and `return` in an arm's expression act on the surrounding code. An arm's expression may change what the
/// operands borrow: `recv(self.rx) -> m => self.handle(m)`.
///
/// Some 55 arms fit into the default recursion limit of a crate. A choice of 32 takes the compiler 10 ms to check.
///
/// A `send` arm that was chosen has a slot. If its message's expression takes so long that other senders pass the slot over and fill all
/// there are, sending waits for a slot, also in a choice with a `default`.
///
/// # Panics
/// If the choice cannot be made at all: no arms and no default, objects of two named arenas, no slot in the arena;
/// [`Select`](crate::Select) returns errors instead. If the expression of a message leaves the choice.
///
/// ```
/// use chappe_sync::{Pool, Semaphore, select, tube};
/// use std::time::Duration;
/// let (stop, slots, (_tx, rx)) = (Semaphore::private(0)?, Pool::private(1)?, tube::bounded::<u8>(1));
/// let got = select! {
///     down(stop) -> r => { r?; None }
///     acquire(slots) -> permit => Some(permit?),
///     recv(rx) -> _ => None,
///     default(Duration::from_secs(1)) => panic!("a slot was free"),
/// };
/// assert!(got.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! select {
    ($($arms:tt)*) => {
        $crate::__select!(false [] [] $($arms)*)
    };
}

/// As [`select!`](crate::select!), but takes the first of several ready arms.
#[macro_export]
macro_rules! select_biased {
    ($($arms:tt)*) => {
        $crate::__select!(true [] [] $($arms)*)
    };
}

/// As [`select!`](crate::select!), for a task: a future, `select_async! { .. }.await`, which any runtime can poll.
///
/// | arm | its value |
/// |---|---|
/// | `recv(receiver) -> message => ...` | `Result<T, RecvError>`, as in `select!` |
/// | `send(sender, message) -> sent => ...` | `Result<(), SendError<T>>`, as there; not through a private tube without slots |
/// | `down(semaphore) -> r => ...` | `Result<(), DownError>` |
/// | `acquire(pool) -> permit => ...` | `Result<OwnedPermit, AcquireError>`: the permit is the process's |
/// | `read(lock) -> guard => ...`, `write(lock) -> guard => ...` | as [`RwLock::read_async`](crate::RwLock::read_async) and `write_async` |
/// | `readable(fd) -> r => ...`, `writable(fd) -> r => ...` | `io::Result<()>` |
/// | `default(duration) => ...` | no arm was ready for so long |
///
/// The task waits in the lines of all arms, by the rules of [`task`](crate::task); exactly one arm happens. A future that is dropped before it was ready has
/// done none: what it was granted in that moment goes to the next waiter. It is `Send` if what its arms use is. A named end, a subscription and an end of a
/// line are borrowed mutably; a moment is `recv(after(duration))`. It has places at all of its objects from its first poll on, and so it may overtake, as a
/// thread may, tasks of this process that have none yet.
///
/// The message of a `send` arm is made when that arm was chosen: its expression awaits nothing and leaves nothing. If it panics, nothing is sent, and the slot
/// goes back. `return` and `?` in an arm end the future.
///
/// # Panics
/// When it is polled, if the choice cannot be made at all: no arms and no default, objects of two named arenas, no place left in an arena, a sender of a
/// tube without slots, or an inherited future in a forked child.
///
/// ```
/// use chappe_sync::{Pool, Semaphore, select_async, tube};
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         if let std::task::Poll::Ready(over) = future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
/// #             return over;
/// #         }
/// #     }
/// # }
/// let (stop, slots, (_tx, rx)) = (Semaphore::private(0)?, Pool::private(1)?, tube::bounded::<u8>(1));
/// let permit = block_on(async {
///     select_async! {
///         down(stop) -> _ => None,
///         acquire(slots) -> permit => permit.ok(),
///         recv(rx) -> _ => None,
///     }
///     .await
/// });
/// assert!(permit.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[macro_export]
macro_rules! select_async {
    ($($arms:tt)*) => {
        $crate::__select!((async false) [] [] $($arms)*)
    };
}

/// As [`select_async!`](crate::select_async!), but takes the first of several ready arms.
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[macro_export]
macro_rules! select_biased_async {
    ($($arms:tt)*) => {
        $crate::__select!((async true) [] [] $($arms)*)
    };
}

/// Collects the arms of [`select!`](crate::select!) one by one: `biased [arms done] [the default] arms to do`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    ($b:tt $done:tt $default:tt , $($rest:tt)*) => {
        $crate::__select!($b $done $default $($rest)*)
    };
    ($b:tt $done:tt [] default $(())? => $body:block $($rest:tt)*) => {
        $crate::__select!($b $done [now ($body)] $($rest)*)
    };
    ($b:tt $done:tt [] default $(())? => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!($b $done [now ($body)] $($($rest)*)?)
    };
    ($b:tt $done:tt [] default($time:expr $(,)?) => $body:block $($rest:tt)*) => {
        $crate::__select!($b $done [within ($time) ($body)] $($rest)*)
    };
    ($b:tt $done:tt [] default($time:expr $(,)?) => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!($b $done [within ($time) ($body)] $($($rest)*)?)
    };
    ($b:tt $done:tt $default:tt send($on:expr, $m:expr $(,)?) -> $r:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@add $b $done $default send ($on) ($m) ($r) ($body) $($rest)*)
    };
    ($b:tt $done:tt $default:tt send($on:expr, $m:expr $(,)?) -> $r:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@add $b $done $default send ($on) ($m) ($r) ($body) $($($rest)*)?)
    };
    ($b:tt $done:tt $default:tt $verb:ident($on:expr $(,)?) -> $r:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@add $b $done $default $verb ($on) () ($r) ($body) $($rest)*)
    };
    ($b:tt $done:tt $default:tt $verb:ident($on:expr $(,)?) -> $r:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@add $b $done $default $verb ($on) () ($r) ($body) $($($rest)*)?)
    };
    // Each step's `on` is a name different from the others'.
    (@add $b:tt [$($done:tt)*] $default:tt $verb:ident ($on:expr) $m:tt $r:tt $body:tt $($rest:tt)*) => {
        $crate::__select!($b [$($done)* {on ($on) $verb $m $r $body}] $default $($rest)*)
    };
    ((async $b:literal) $arms:tt []) => {
        $crate::__select!(@async $b $arms None, unreachable!("a choice that has no default waits"))
    };
    ((async $b:literal) $arms:tt [now ($default:expr)]) => {
        compile_error!("a choice that does not wait is `select!`: no task need await it")
    };
    ((async $b:literal) $arms:tt [within ($time:expr) ($default:expr)]) => {
        $crate::__select!(@async $b $arms Some($time), $default)
    };
    ($b:tt $arms:tt []) => {
        $crate::__select!(@match $b $arms $crate::macros::Time::Forever, unreachable!("a choice that has no default waits"))
    };
    ($b:tt $arms:tt [now ($default:expr)]) => {
        $crate::__select!(@match $b $arms $crate::macros::Time::Now, $default)
    };
    ($b:tt $arms:tt [within ($time:expr) ($default:expr)]) => {
        $crate::__select!(@match $b $arms $crate::macros::Time::Within($time), $default)
    };
    (@match $b:tt [$({$on:ident ($end:expr) $verb:ident $m:tt ($r:pat) ($body:expr)})*] $time:expr, $default:expr) => {
        match ($(&$end,)*) {
            // The matched value has no destructor; otherwise an arm's body could not touch what an operand borrows.
            ($($on,)*) => match $crate::macros::select(&[$($crate::__select!(@arm $verb $on)),*], $b, $time) {
                Some(chosen) => {
                    let mut arms = 0..;
                    $(
                        if $crate::macros::is_next(&chosen, &mut arms) {
                            let $r = $crate::__select!(@value (chosen.took()) $verb $on $m);
                            $body
                        } else
                    )* {
                        unreachable!("an arm that is none of the choice's")
                    }
                }
                None => $default,
            },
        }
    };
    (@async $b:literal [$({$on:ident ($end:expr) $verb:ident $m:tt ($r:pat) ($body:expr)})*] $time:expr, $default:expr) => {
        async {
            match ($($crate::__select!(@end $verb ($end)),)*) {
                ($($on,)*) => match $crate::macros::chosen_async($crate::__select!(@nest $($on)*), $b, $time).await {
                    Some((chosen, took, $crate::__select!(@nest $($on)*))) => {
                        let mut arms = 0..;
                        $(
                            if arms.next() == Some(chosen) {
                                let $r = $crate::__select!(@completed took $verb $on $m);
                                $body
                            } else
                        )* {
                            unreachable!("an arm that is none of the choice's")
                        }
                    }
                    None => $default,
                },
            }
        }
    };
    (@nest) => {
        ()
    };
    (@nest $first:ident $($on:ident)*) => {
        ($first, $crate::__select!(@nest $($on)*))
    };
    (@end recv ($end:expr)) => {
        $end.__task_recv()
    };
    (@end send ($end:expr)) => {
        $end.__task_send()
    };
    (@end down ($end:expr)) => {
        $crate::task::ends::Down::of(&$end)
    };
    (@end acquire ($end:expr)) => {
        $crate::task::ends::Acquire::of(&$end)
    };
    (@end read ($end:expr)) => {
        $crate::task::ends::Read::of(&$end)
    };
    (@end write ($end:expr)) => {
        $crate::task::ends::Write::of(&$end)
    };
    (@end readable ($end:expr)) => {
        $crate::task::ends::Ready::of(&$end, false)
    };
    (@end writable ($end:expr)) => {
        $crate::task::ends::Ready::of(&$end, true)
    };
    // A closure: what is half chosen is not left by an `.await` or a `?`.
    (@completed $took:ident send $on:ident ($m:expr)) => {
        match $on.place($took) {
            place => match (|| $m)() {
                message => place.finish(message).await,
            },
        }
    };
    (@completed $took:ident $verb:ident $on:ident ()) => {
        $on.finish($took)
    };
    // By method calls, so that any type that dereferences to an end will do.
    (@arm recv $on:ident) => {{
        use $crate::ReceivingEnd as _;
        $on.__arm()
    }};
    (@arm send $on:ident) => {{
        use $crate::SendingEnd as _;
        $on.__arm()
    }};
    (@arm down $on:ident) => {
        $crate::macros::down($on)
    };
    (@arm acquire $on:ident) => {
        $crate::macros::acquire($on)
    };
    (@arm turn $on:ident) => {
        $crate::macros::turn($on)
    };
    (@arm read $on:ident) => {
        $on.__read_arm()
    };
    (@arm write $on:ident) => {
        $on.__write_arm()
    };
    (@arm readable $on:ident) => {
        $crate::macros::readable($on)
    };
    (@arm writable $on:ident) => {
        $crate::macros::writable($on)
    };
    (@value $chosen:tt turn $on:ident ()) => {
        $crate::macros::turn_of($on, $chosen)
    };
    (@value $chosen:tt read $on:ident ()) => {
        $on.__finish_read($chosen)
    };
    (@value $chosen:tt write $on:ident ()) => {
        $on.__finish_write($chosen)
    };
    (@value $chosen:tt readable $on:ident ()) => {
        $crate::macros::descriptor_of($chosen)
    };
    (@value $chosen:tt writable $on:ident ()) => {
        $crate::macros::descriptor_of($chosen)
    };
    (@value $chosen:tt recv $on:ident ()) => {{
        use $crate::ReceivingEnd as _;
        $on.__finish($chosen)
    }};
    (@value $chosen:tt send $on:ident ($m:expr)) => {{
        use $crate::SendingEnd as _;
        let place = $crate::macros::Place::of($chosen);
        match $m {
            message => $on.__finish(place.took(), message),
        }
    }};
    (@value $chosen:tt down $on:ident ()) => {
        $crate::macros::down_of($on, $chosen)
    };
    (@value $chosen:tt acquire $on:ident ()) => {
        $crate::macros::permit_of($on, $chosen)
    };
}
