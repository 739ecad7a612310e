//! Waits at one end of a private tube that an interrupt can end: see [`interruptible`](crate::interruptible). They have an error type of
//! their own, since crossbeam's have no such case.
//!
//! A light thread at a tube without slots goes the short way (`direct`), and looks at its interrupt each time it is woken. Every other
//! wait is a choice of one arm. The module also closes a tube while both its ends are in use.

use super::ends::{Receiver, Sender};
use crate::error::SelectError;
use crate::raw::{Time, choose};
use crate::select::{ReceivingEnd, SendingEnd};
use chappe_plat::light;
use chappe_tube::body::{Body, Not};
use chappe_tube::direct;
use chappe_tube::error::SendError;
use chappe_wait::interrupt;

/// Why a wait at one end of a private tube came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The wait was interrupted: nothing was sent, or received.
    Interrupted,
    /// The other end has no handle any more.
    Disconnected,
}

impl<T> Sender<T> {
    /// As [`Sender::send`], inside of [`interruptible`](crate::interruptible): an interrupt ends the wait. A message
    /// that was taken before is sent.
    ///
    /// # Errors
    /// The message, and why it was not sent.
    ///
    /// # Panics
    /// If there is no room in the private arena for one more kernel thread that waits.
    pub fn send_interruptible(&self, message: T) -> Result<(), (Ended, T)> {
        let mut message = message;
        if matches!(self.out.0.body, Body::Rendezvous(_))
            && let Some(me) = light::current()
        {
            match direct::send_ended_by(&self.out.0, me, message, interrupt::current()) {
                Ok(()) => return Ok(()),
                Err((Some(not), message)) => return Err((ended(not), message)),
                Err((None, back)) => message = back,
            }
        }
        match choose(&[self.__arm()], false, Time::Forever) {
            Ok(chosen) => chosen.send_on(self, message).map_err(|SendError(message)| (Ended::Disconnected, message)),
            Err(SelectError::Interrupted) => Err((Ended::Interrupted, message)),
            Err(e) => panic!("send: {e}"),
        }
    }

    /// Sends if that is seen to be possible at a glance; else the message comes back, which does not say that it is
    /// impossible.
    #[doc(hidden)]
    #[inline]
    pub fn send_at_once(&self, message: T) -> Result<(), T> {
        match self.out.0.body {
            Body::Rendezvous(_) if light::current().is_some() => direct::send_at_once(&self.out.0, message),
            _ => self.out.0.try_send(message).map_err(|(_, message)| message),
        }
    }

    /// Disconnects both sides: nothing is sent any more, and receivers get the messages that are there, and then an
    /// error.
    #[doc(hidden)]
    pub fn close(&self) {
        let tube = &*self.out.0;
        if tube.senders.close() {
            tube.no_sender();
        }
        if tube.receivers.close() {
            tube.no_receiver();
        }
    }
}

impl<T> Receiver<T> {
    /// Receives if that is seen to be possible at a glance.
    #[doc(hidden)]
    #[inline]
    pub fn recv_at_once(&self) -> Option<T> {
        match self.into.0.body {
            Body::Rendezvous(_) if light::current().is_some() => direct::recv_at_once(&self.into.0),
            _ => self.into.0.try_recv().ok(),
        }
    }

    /// As [`Receiver::recv`], inside of [`interruptible`](crate::interruptible): an interrupt ends the wait. A message that has come before is
    /// received.
    ///
    /// # Errors
    /// Why none was received.
    ///
    /// # Panics
    /// As [`Sender::send_interruptible`].
    pub fn recv_interruptible(&self) -> Result<T, Ended> {
        if matches!(self.into.0.body, Body::Rendezvous(_))
            && let Some(me) = light::current()
        {
            match direct::recv_ended_by(&self.into.0, me, interrupt::current()) {
                Ok(message) => return Ok(message),
                Err(Some(not)) => return Err(ended(not)),
                Err(None) => {}
            }
        }
        match choose(&[self.__arm()], false, Time::Forever) {
            Ok(chosen) => chosen.recv_on(self).map_err(|_| Ended::Disconnected),
            Err(SelectError::Interrupted) => Err(Ended::Interrupted),
            Err(e) => panic!("recv: {e}"),
        }
    }
}

fn ended(not: Not) -> Ended {
    match not {
        Not::Now => Ended::Interrupted,
        Not::Ever => Ended::Disconnected,
    }
}
