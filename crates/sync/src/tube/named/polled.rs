//! The ends of a named tube, for epoll and runtimes.

use super::descriptor::not_ours;
use super::ends::{Receiver, Sender};
use super::error::{NotReceived, NotSent};
use super::fault::name_of;
use std::io;
use std::os::fd::BorrowedFd;

impl<T: ?Sized> Sender<T> {
    /// A descriptor (an eventfd) that becomes readable when there is room to send, no receiver any more, or no tube: see
    /// [`Receiver::descriptor`].
    ///
    /// # Errors
    /// As [`Receiver::descriptor`].
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let tube = || name_of(&self.out.at.pipe);
        self.out.at.here().map_err(|_| not_ours(NotSent::Inherited { tube: tube(), message: () }))?;
        self.watched.descriptor(self.out.arm)
    }

    /// Makes the descriptor unreadable, and ready to become readable again. False: a `try_send` would not return `Full`
    /// now, and the descriptor is readable.
    pub fn rearm(&self) -> bool {
        self.out.at.here().is_ok() && self.watched.rearm(&self.out.arm)
    }
}

impl<T: ?Sized> Receiver<T> {
    /// A descriptor (an eventfd) that becomes readable when there is something to receive, no sender any more (gone or
    /// dead), or no tube: for epoll and runtimes. It belongs to this handle: it is made on the first call, and closed
    /// with the handle. Only poll it: do not read it. It becomes readable once, and [`rearm`](Self::rearm) makes it
    /// ready for the next time. Another receiver may be faster: then a `try_recv` finds nothing.
    ///
    /// The first one in an arena starts a thread of this process, one for all tubes of that arena, and waits until it has started. The
    /// thread takes a place among the arena's members, and ends a second after the last handle with a descriptor has gone. A process
    /// without descriptors has no such thread, and pays nothing. Each rearming and each becoming readable wakes that
    /// thread, which looks at all armed ends of the arena: ten microseconds, so a thread that may block is better off
    /// with `recv`. Neither method waits for another process; while armed, the end has a waiter in listings.
    ///
    /// In a forked child the parent's descriptor is useless: the child asks again, and gets one of its own.
    ///
    /// # Errors
    /// The system's, when it refuses a descriptor or a thread; the arena's, when it cannot take another member;
    /// `PermissionDenied` if the end is the parent process's.
    ///
    /// ```no_run
    /// use chappe_sync::tube::named::{NotReceived, Tube};
    /// let jobs = Tube::<u64>::open("jobs")?.receiver()?;
    /// let descriptor = jobs.descriptor()?; // register it
    /// loop {
    ///     match jobs.try_recv() {
    ///         Ok(job) => println!("{job}"),
    ///         Err(NotReceived::Empty) if jobs.rearm() => break, // nothing has come meanwhile: wait for the descriptor
    ///         Err(NotReceived::Empty) => {}
    ///         Err(e) => return Err(e.into()),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let tube = || name_of(&self.into.at.pipe);
        self.into.at.here().map_err(|_| not_ours(NotReceived::Inherited { tube: tube() }))?;
        self.watched.descriptor(self.into.arm)
    }

    /// Makes the descriptor unreadable, and ready to become readable again. False: a `try_recv` would not return
    /// `Empty` now, and the descriptor is readable.
    pub fn rearm(&self) -> bool {
        self.into.at.here().is_ok() && self.watched.rearm(&self.into.arm)
    }
}
