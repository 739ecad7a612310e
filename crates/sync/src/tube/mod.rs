//! Tubes: channels between the threads of this process.
//!
//! | | room | waits |
//! |---|---|---|
//! | [`bounded`]`(n)` | n messages | who sends into a full one, who receives from an empty one |
//! | [`bounded`]`(0)` | none: who sends meets who receives | both |
//! | [`unbounded`] | any number | who receives from an empty one |
//! | [`spsc`], [`mpsc`], [`spmc`] | n messages, one sender or receiver or both | as `bounded` |
//! | [`after`], [`at`], [`tick`] | the next moment | who receives, until then |
//! | [`never()`] | - | for ever |
//!
//! The same names, types and behaviour as crossbeam-channel's: a program written for that needs another import. What is better here:
//! no sender or receiver waits for one that was descheduled in the middle (`try_send` and `try_recv` are lock-free), a choice
//! allocates nothing, and chooses among semaphores, pools and descriptors as well ([`select!`](crate::select!)).
//!
//! Cost: two locked operations a message, and none with one sender and one receiver; no system call while nobody has to
//! wait, no allocation (an unbounded tube allocates when it holds more messages than in the last second or so; what that second did not need it gives back). A tube without slots takes 160 bytes, one with some 700 (an unbounded one 2 KB), and 16
//! a message besides the message, and an entry in the private arena for each end where somebody has waited.
//!
//! Who waits first looks for some microseconds, as long as that pays, then sleeps: see [`Role`](crate::Role). In a forked child
//! a tube is a copy.
//!
//! Paper: nix-semaphores-tubes, 3 and 4.3; synthesis, 3.3.1 and 5.2 (four kinds).

pub(crate) mod body;
pub mod broadcast;
pub(crate) mod clock;
pub(crate) mod direct;
pub(crate) mod end;
pub(crate) mod lights;
pub(crate) mod meet;
pub mod named;
mod notice;
pub(crate) mod wait;

#[cfg(not(feature = "sim"))]
mod block;
#[cfg(not(feature = "sim"))]
mod ends;
#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod interruptible;
#[cfg(not(feature = "sim"))]
mod make;
#[cfg(not(feature = "sim"))]
pub(crate) mod schema;
#[cfg(not(feature = "sim"))]
mod single;
#[cfg(not(feature = "sim"))]
mod spin;

#[cfg(not(feature = "sim"))]
pub(crate) use self::{
    block::{packet, put_packet, recv_taken, send_taken},
    end::End,
    spin::{Looks, spin},
};

#[cfg(not(feature = "sim"))]
pub use self::{
    ends::{IntoIter, Iter, Receiver, Sender, TryIter},
    error::{
        ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError, SendTimeoutError, TryReadyError,
        TryRecvError, TrySelectError, TrySendError,
    },
    interruptible::Ended,
    make::{after, at, bounded, mpsc, never, spmc, spsc, tick, unbounded},
    single::{SingleReceiver, SingleSender},
};
#[cfg(not(feature = "sim"))]
pub use crate::select::{ReceivingEnd, Select, SelectedOperation, SendingEnd};
#[cfg(not(feature = "sim"))]
pub use crate::{select, select_biased};
