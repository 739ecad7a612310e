//! Ends of tubes of any kind as arms of a choice.

use crate::armed::Armed;
use crate::took::Took;
use crate::tube::broadcast::Subscription;
use crate::tube::named::{self, Record};
use crate::tube::{Receiver, RecvError, SendError, Sender, SingleReceiver, SingleSender};

mod sealed {
    pub trait Sealed {}
}

/// A receiving end of a tube, of any kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no receiving end of a tube",
    note = "`Select::recv` and `recv_on` take the receivers of `tube`, `tube::named` and `tube::broadcast` by reference, and not what holds one: `&*receiver`"
)]
pub trait ReceivingEnd: sealed::Sealed {
    /// What comes out.
    type Message;
    #[doc(hidden)]
    fn __arm(&self) -> Armed<'_>;
    #[doc(hidden)]
    fn __finish(&self, took: Took) -> Result<Self::Message, RecvError>;
    /// Whether only the thread that has it may choose it.
    #[doc(hidden)]
    fn __is_single(&self) -> bool;
}

/// A sending end of a tube, of any kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no sending end of a tube",
    note = "`Select::send` and `send_on` take the senders of `tube` and `tube::named` by reference, and not what holds one: `&*sender`"
)]
pub trait SendingEnd: sealed::Sealed {
    /// What goes in.
    type Message;
    #[doc(hidden)]
    fn __arm(&self) -> Armed<'_>;
    #[doc(hidden)]
    fn __finish(&self, took: Took, message: Self::Message) -> Result<(), SendError<Self::Message>>;
    /// Whether only the thread that has it may choose it.
    #[doc(hidden)]
    fn __is_single(&self) -> bool;
}

macro_rules! ends {
    ($($receiver:ident $sender:ident $single:literal),*) => {$(
        impl<T> sealed::Sealed for $receiver<T> {}
        impl<T> ReceivingEnd for $receiver<T> {
            type Message = T;
            #[inline]
            fn __arm(&self) -> Armed<'_> {
                Armed(&self.into)
            }
            #[inline]
            fn __finish(&self, Took(taken): Took) -> Result<T, RecvError> {
                chappe_tube::block::recv_taken(&self.into, taken.ok_or(RecvError)?)
            }
            fn __is_single(&self) -> bool {
                $single
            }
        }
        impl<T> sealed::Sealed for $sender<T> {}
        impl<T> SendingEnd for $sender<T> {
            type Message = T;
            #[inline]
            fn __arm(&self) -> Armed<'_> {
                Armed(&self.out)
            }
            #[inline]
            fn __finish(&self, Took(taken): Took, message: T) -> Result<(), SendError<T>> {
                match taken {
                    Some(taken) => chappe_tube::block::send_taken(&self.out, taken, message),
                    None => Err(SendError(message)),
                }
            }
            fn __is_single(&self) -> bool {
                $single
            }
        }
    )*};
}

ends!(Receiver Sender false, SingleReceiver SingleSender true);

impl<T: Record + ?Sized> sealed::Sealed for named::Receiver<T> {}
impl<T: Record + ?Sized> ReceivingEnd for named::Receiver<T> {
    type Message = T::Owned;
    fn __arm(&self) -> Armed<'_> {
        Armed(&self.into)
    }
    fn __finish(&self, Took(taken): Took) -> Result<T::Owned, RecvError> {
        self.finish(taken.ok_or(RecvError)?).map(|(message, _)| message).ok_or(RecvError)
    }
    fn __is_single(&self) -> bool {
        true
    }
}
impl<T: Record + ?Sized> sealed::Sealed for named::Sender<T> {}
impl<T: Record + ?Sized> SendingEnd for named::Sender<T> {
    type Message = T::Owned;
    fn __arm(&self) -> Armed<'_> {
        Armed(&self.out)
    }
    fn __finish(&self, Took(taken): Took, message: T::Owned) -> Result<(), SendError<T::Owned>> {
        match taken {
            Some(taken) => self.finish(taken, message).map_err(SendError),
            None => Err(SendError(message)),
        }
    }
    fn __is_single(&self) -> bool {
        true
    }
}

impl<T: Record + ?Sized> sealed::Sealed for Subscription<T> {}
/// Messages that pass the subscription's filter. An error if all publishers have gone: the subscription's own receive then says how.
impl<T: Record + ?Sized> ReceivingEnd for Subscription<T> {
    type Message = T::Owned;
    fn __arm(&self) -> Armed<'_> {
        Armed(&self.heard)
    }
    fn __finish(&self, Took(taken): Took) -> Result<T::Owned, RecvError> {
        taken.and_then(|_| self.finish()).ok_or(RecvError)
    }
    fn __is_single(&self) -> bool {
        true
    }
}
