//! Plan 9's semaphores: `semacquire` and `semrelease` on a plain word, and what is built on them.
//!
//! The calls of plan9-semaphores, section 1. A semaphore is an aligned 32-bit word, Plan 9's `long`, in any memory that
//! its users share. The word's address is its name: nothing is made before the first use and nothing is left behind after the last.
//! [`Usem`] (section 3) and [`Lock`] (section 5) are built on such words and make no system call unless a thread must block or be woken.
//!
//! This is the *in-place* class. No holder and no waiter is recorded, so a death returns nothing, and a
//! waiter may be overtaken. For permits that return, for order, or for choice there is the [`Pool`](crate::Pool).
//!
//! Plan 9 keeps the list of waiters in its kernel, under a lock that must not be held while the word is touched;
//! section 6 is about the races that this leaves. Here the list is the kernel's futex queue of the word. The kernel
//! compares the word and puts the sleeper into the queue in one step, and takes it out for one reason only. That
//! settles these races.
//!
//! The word:
//!
//! | value | means | changed by |
//! |---|---|---|
//! | below 0 | not a semaphore: every call refuses it | no call here |
//! | 0 | nothing to take; an acquirer sleeps | |
//! | n above 0 | n may be taken | `semacquire`: n to n - 1; `semrelease(c)`: n to n + c, not beyond `i32::MAX` |
//!
//! There is no bit for "there are waiters": all 32 are the value. So `semrelease` cannot know, and asks the kernel
//! to wake, always, once. On a C `long` of 64 bits the value is the low half.
//!
//! ```text
//!   semacquire                                    semrelease(c)
//!
//!   look: n > 0? --yes--> n to n - 1: done        n to n + c
//!    ^     |no                                       |
//!    |     v                                         v
//!    |   sleep, if still 0                        wake at most c sleepers, once
//!    |     |       |                                 .
//!    |     |       +--- signal handled: Interrupted  .
//!    +-----+ . . . . . . . . . . . . . . . . . . . . .
//!      woken, or two seconds over
//! ```
//!
//! Invariants:
//! - I1: the value is never negative and never wraps: it changes only by compare-and-swap from a value that was
//!   looked at.
//! - I2: a sleeper saw 0, and the kernel saw 0 again as it put it into the queue. An acquirer that is not in the queue looks
//!   before it sleeps.
//! - I3: while any thread sleeps, the value is at most the number of wake-ups on their way: those that a release owes
//!   between its swap and its call, and the woken threads that have not looked yet. It holds when the first goes to sleep (the
//!   value is 0); a release adds as many wake-ups as it adds to the value; the call turns those owed into woken
//!   sleepers, or leaves no sleeper; a woken thread that looks takes 1, or finds 0. Hence no thread sleeps for good beside
//!   a positive value.
//!
//! Races, by name (the first three are those of the comment in Plan 9's kernel):
//! - R1 one wake-up ends two sleeps: the value rises before the first sleep begins, another thread takes it, and the
//!   wake-up comes in the second sleep. Harmless: a woken thread looks again.
//! - R2 the woken thread is interrupted, and the wake-up is lost with it: it may be the only wake-up that I3 has. Either the
//!   wake or the signal takes a sleeper out of the kernel's queue, never both. `Interrupted` is answered only for the
//!   signal; a woken thread looks, whatever else has happened to it, and takes 1 or leaves 0.
//! - R3 section 6's lost wake-up, found with Spin: the wake-up goes to a thread that has just taken, and another
//!   sleeps on beside a positive value. In Plan 9 an acquirer is on the list while it tries. Here it is in the queue
//!   only while it has nothing. The same loss would return if `semrelease` skipped the wake-up because the
//!   value was positive before (and so a wake-up was already on its way): hence it always makes the call.
//! - R4 the value is taken between a release's swap and its wake-up: the woken thread finds 0 and sleeps again.
//! - R5 a wake-up dies: see the table of deaths. The one race that needs the second look.
//!
//! Ordering edges:
//! - E1 (release/acquire): the swap of a release to the swap of an acquire that follows it, with others' swaps between.
//! - E2 (the kernel's): a release's swap, then its call to wake, against the kernel's own look at the word under the
//!   lock of its queue. A system call is at least as strong as the fence that this needs.
//!
//! Progress: `semrelease` never waits. It is lock-free, makes one system call, and touches only the word and
//! no state of its thread or process, so a signal handler may call it in the middle of anything. `semacquire(word,
//! false)` is lock-free and makes no system call. `semacquire(word, true)` waits.
//!
//! The second look. An untimed futex sleep goes on after a handler installed with SA_RESTART; a timed one does not.
//! So every sleep ends after two seconds; then the sleeper looks and sleeps again. That also replaces a
//! wake-up whose thread died, or which a stopped process has and does not use. [`rescues`] counts the looks that found what a
//! wake-up should have brought; as long as no thread dies or is stopped it stays 0.
//!
//! Death, at each step (nothing ever returns; nothing is torn):
//!
//! | killed in | where | what is left |
//! |---|---|---|
//! | `semacquire` | before its swap; asleep | nothing of it: the kernel takes it out of its queue |
//! | | woken, before its look | the value, and one wake-up less: others may sleep until their second look |
//! | | behind its swap | the value is 1 less |
//! | `semrelease` | before its swap | nothing of it |
//! | | between swap and wake | the value is raised; sleepers find it at their second look |
//!
//! Explored: `tests/crash_plan9.rs`. Left out there: store buffers (all is sequentially consistent in the explorer);
//! a signal whose handler runs between the look and the sleep, or together with a wake-up, which does not interrupt
//! (as with `sem_wait`: without the kernel's help it cannot be detected); writes to the word by others than these calls;
//! values near `i32::MAX` (unit tests).

mod lock;
mod usem;
mod word;

/// The steps of [`Usem`] and [`Lock`] on any two words: a C `long` of 64 bits has its value in the low half, so in C
/// the two words are not neighbours.
#[doc(hidden)]
pub mod words {
    pub use super::lock::{canlock, lock, unlock};
    pub use super::usem::{usemacquire, usemrelease, usemtry};
}

pub use lock::Lock;
pub use usem::Usem;
pub use word::{Plan9Error, rescues, semacquire, semacquire_at, semrelease, semrelease_at};
