//! Tubes: channels between the threads of this process.
//!
//! | | room | blocks |
//! |---|---|---|
//! | [`bounded`]`(n)` | n messages | a sender while it is full, a receiver while it is empty |
//! | [`bounded`]`(0)` | none: a sender hands its message to a receiver that is there | both |
//! | [`unbounded`] | any number | a receiver while it is empty |
//! | [`spsc`], [`mpsc`], [`spmc`] | n messages, one sender or receiver or both | as `bounded` |
//! | [`after`], [`at`], [`tick`] | the next moment | a receiver, until then |
//! | [`never()`] | - | for ever |
//!
//! Names, types and behaviour are those of crossbeam-channel: a program written for it changes its import. What is better here:
//! no sender or receiver of a tube with slots waits for another one that was descheduled in the middle of an operation (`try_send` and
//! `try_recv` are lock-free there); a choice allocates nothing; a choice takes semaphores, pools and descriptors as well ([`select!`](crate::select!)).
//!
//! Cost: two locked operations a message, and none with one sender and one receiver. No system call unless a thread must block. No
//! allocation, except that an unbounded tube allocates when it holds more messages than in the last second or so, and frees what that
//! second did not need. A tube without slots takes 160 bytes, one with some 700 (an unbounded one 2 KB), and 16 a message besides the
//! message, and an entry in the private arena for each end where a thread has waited.
//!
//! A thread that must wait first spins for some microseconds, as long as that pays, then sleeps: see [`Role`](crate::Role). A forked
//! child has its own copy of the tube.
//!
//! Paper: nix-semaphores-tubes, 3 and 4.3; synthesis, 3.3.1 and 5.2 (four kinds).

pub mod broadcast;
pub mod named;

#[cfg(not(feature = "sim"))]
mod ends;
#[cfg(not(feature = "sim"))]
mod interruptible;
#[cfg(not(feature = "sim"))]
mod make;
#[cfg(not(feature = "sim"))]
mod parts;
#[cfg(not(feature = "sim"))]
pub(crate) mod schema;
#[cfg(not(feature = "sim"))]
mod single;

#[cfg(not(feature = "sim"))]
pub use self::{
    ends::{IntoIter, Iter, Receiver, Sender, TryIter},
    interruptible::Ended,
    make::{after, at, bounded, mpsc, never, spmc, spsc, tick, unbounded},
    single::{SingleReceiver, SingleSender},
};
#[cfg(not(feature = "sim"))]
pub use crate::select::{ReceivingEnd, Select, SelectedOperation, SendingEnd};
#[cfg(not(feature = "sim"))]
pub use crate::{select, select_biased};
#[cfg(not(feature = "sim"))]
pub use chappe_tube::error::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError, SendTimeoutError, TryReadyError,
    TryRecvError, TrySelectError, TrySendError,
};
