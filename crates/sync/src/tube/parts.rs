//! What the ends of private tubes have alike: those that are cloned and those of one thread, senders
//! and receivers. Written once; each end has it under its own name.

/// How many messages there are, and for how many there is room.
macro_rules! both {
    ($end:ident) => {
        /// Whether there is no message in the tube.
        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }

        /// Whether there is no room: always, in a tube without slots.
        pub fn is_full(&self) -> bool {
            self.capacity().is_some_and(|capacity| self.len() >= capacity)
        }

        /// How many messages there are in the tube.
        pub fn len(&self) -> usize {
            self.$end.0.count()
        }

        /// How many messages there is room for; `None`: for any number.
        pub fn capacity(&self) -> Option<usize> {
            self.$end.0.capacity()
        }
    };
}

/// What each sender can do, by the tube's operation that sends now.
macro_rules! sending {
    ($now:ident) => {
        /// Sends a message if there is room for it now; in a tube without slots, if a receiver waits. It never waits for
        /// room. In a tube without slots it may wait for another thread: if it meets a choice, until the choosing thread
        /// has taken the message (not if the message is small); and for the lock of its light threads, if the holder is
        /// descheduled.
        ///
        /// # Errors
        /// `Full`, `Disconnected`, both with the message.
        #[inline]
        pub fn try_send(&self, message: T) -> Result<(), $crate::tube::TrySendError<T>> {
            let sent = self.out.0.$now(message).or_else(|why| self.out.0.or_leave(why));
            sent.map_err(chappe_tube::refused::try_send_error)
        }

        $crate::timed::timed! {
            /// As `send`, blocking at most for `timeout`.
            ///
            /// # Errors
            /// `Timeout`, `Disconnected`, both with the message.
            pub fn send_timeout, send_deadline(&self, message: T) -> Result<(), $crate::tube::SendTimeoutError<T>> { |until|
                match self.out.0.$now(message) {
                    Err((chappe_tube::body::Not::Now, message)) => chappe_tube::block::send(&self.out, message, until()),
                    other => other,
                }
                .map_err(chappe_tube::refused::send_timeout_error)
            }
        }

        /// A descriptor (an eventfd) that becomes readable when there is room to send, or no receiver any more: see
        /// [`Receiver::descriptor`](crate::tube::Receiver::descriptor).
        ///
        /// # Errors
        /// The system's, when it refuses a descriptor.
        pub fn descriptor(&self) -> std::io::Result<std::os::fd::BorrowedFd<'_>> {
            chappe_tube::block::descriptor(&self.out.0, chappe_wait::lights::Side::Send)
        }

        /// Makes the descriptor unreadable, and ready to become readable again. False: there is room now, or no receiver
        /// any more, and it stays readable.
        pub fn rearm(&self) -> bool {
            self.out.0.rearm(chappe_wait::lights::Side::Send)
        }

        $crate::tube::parts::both!(out);
    };
}

/// What each receiver can do, by the tube's operation that receives now.
macro_rules! receiving {
    ($now:ident) => {
        /// Receives the next message if there is one now; in a tube without slots, if a sender waits. It never waits for a
        /// message to be sent. In a tube without slots it may wait for another thread: if it meets a choice, until the
        /// choosing thread has handed the message over; and for the lock of its light threads, if the holder is
        /// descheduled.
        ///
        /// # Errors
        /// `Empty`, `Disconnected`.
        #[inline]
        pub fn try_recv(&self) -> Result<T, $crate::tube::TryRecvError> {
            self.into.0.$now().map_err(chappe_tube::refused::try_recv_error)
        }

        $crate::timed::timed! {
            /// As `recv`, blocking at most for `timeout`.
            ///
            /// # Errors
            /// `Timeout`, `Disconnected`.
            pub fn recv_timeout, recv_deadline(&self) -> Result<T, $crate::tube::RecvTimeoutError> { |until|
                match self.into.0.$now() {
                    Err(chappe_tube::body::Not::Now) => chappe_tube::block::recv(&self.into, until()),
                    other => other,
                }
                .map_err(chappe_tube::refused::recv_timeout_error)
            }
        }

        /// A descriptor (an eventfd) that becomes readable when there is something to receive, or no sender any more: for
        /// epoll and runtimes. All receivers of the tube in this process share it. It is made on the first call; a tube
        /// without it costs nothing more. Only poll it: do not read it. It becomes readable once, and
        /// [`rearm`](Self::rearm) makes it ready for the next time.
        ///
        /// At a tube without slots a thread that waits so is not there to be met. If both sides wait so, `try_send`
        /// succeeds once for each `rearm` of the receivers, and leaves the message, which the next `try_recv`, `recv` or
        /// choice of any receiver gets. If all receivers go before that, it is dropped with the last.
        ///
        /// # Errors
        /// The system's, when it refuses a descriptor; `Unsupported` for clocks and [`never`](crate::tube::never()).
        ///
        /// ```
        /// let (tx, rx) = chappe_sync::tube::bounded(1);
        /// let descriptor = rx.descriptor()?; // register it
        /// while let Ok(message) = rx.try_recv() {
        ///     println!("{message}");
        /// }
        /// assert!(rx.rearm(), "nothing has come meanwhile: wait until the descriptor is readable");
        /// # tx.send(1u8).unwrap();
        /// # assert!(!rx.rearm());
        /// # Ok::<(), std::io::Error>(())
        /// ```
        pub fn descriptor(&self) -> std::io::Result<std::os::fd::BorrowedFd<'_>> {
            chappe_tube::block::descriptor(&self.into.0, chappe_wait::lights::Side::Recv)
        }

        /// Makes the descriptor unreadable, and ready to become readable again. False: there is something to receive now,
        /// or no sender any more, and it stays readable.
        pub fn rearm(&self) -> bool {
            self.into.0.rearm(chappe_wait::lights::Side::Recv)
        }

        $crate::tube::parts::both!(into);
    };
}

/// Shows no more than its name.
macro_rules! opaque {
    ($($of:ty: $name:literal),*) => {$(
        impl<T> std::fmt::Debug for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(concat!($name, " { .. }"))
            }
        }
    )*};
}

pub(super) use {both, opaque, receiving, sending};
