//! Readiness of descriptors: asking for it, being told of it, and telling.

use std::io;
pub use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
pub use std::os::unix::net::{UnixListener, UnixStream};

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether a descriptor can be read (written) now without waiting, or has an error to tell. Never waits.
///
/// # Errors
/// If it is not open, or the system's.
pub fn is_ready(fd: RawFd, out: bool) -> io::Result<bool> {
    let events = if out { libc::POLLOUT } else { libc::POLLIN | libc::POLLRDHUP };
    let mut list = libc::pollfd { fd, events, revents: 0 };
    loop {
        // SAFETY: one entry, on our stack.
        match unsafe { libc::poll(&raw mut list, 1, 0) } {
            0 => return Ok(false),
            1 if list.revents & libc::POLLNVAL != 0 => return Err(io::Error::from_raw_os_error(libc::EBADF)),
            1 => return Ok(true),
            _ => {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::Interrupted {
                    return Err(e);
                }
            }
        }
    }
}

/// From now on what would wait fails with `WouldBlock` instead.
///
/// # Errors
/// The system's.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: touches no memory of ours.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A receiver of notices that descriptors become ready.
pub struct Watcher(OwnedFd);

/// What has become of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which.
    pub fd: RawFd,
    /// It can be read, or has something to tell.
    pub read: bool,
    /// It can be written, or has something to tell.
    pub write: bool,
}

impl Watcher {
    /// One that watches nothing yet.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Watcher> {
        // SAFETY: touches no memory of ours.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Watcher)
    }

    /// Asks to be told once, of what a descriptor is or becomes ready for. Takes the place of what was asked before.
    ///
    /// # Errors
    /// The system's: some descriptors cannot be watched.
    pub fn ask(&self, fd: RawFd, read: bool, write: bool) -> io::Result<()> {
        let what = |yes: bool, events: libc::c_int| if yes { events } else { 0 };
        let events = libc::EPOLLONESHOT | what(read, libc::EPOLLIN | libc::EPOLLRDHUP) | what(write, libc::EPOLLOUT);
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: the event lives through the call.
        let mut control = |how| unsafe { libc::epoll_ctl(self.0.as_raw_fd(), how, fd, &raw mut event) } == 0;
        if control(libc::EPOLL_CTL_MOD) {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.raw_os_error() != Some(libc::ENOENT) || control(libc::EPOLL_CTL_ADD) {
            return if e.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(e) };
        }
        Err(io::Error::last_os_error())
    }

    /// Asks to be told each time an event is signalled, whether or not it is cleared. For good.
    ///
    /// # Errors
    /// The system's.
    pub fn ask_always(&self, event: RawFd) -> io::Result<()> {
        let mut asked = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: event as u64 };
        // SAFETY: the event lives through the call.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, event, &raw mut asked) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits until something that was asked for has come, and says what.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self, mut see: impl FnMut(Ready)) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: so many places.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1) };
        if count < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(e) };
        }
        for event in &events[..count as usize] {
            let (what, fd) = (event.events as i32, event.u64 as RawFd);
            let both = what & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            let read = both || what & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0;
            see(Ready { fd, read, write: both || what & libc::EPOLLOUT != 0 });
        }
        Ok(())
    }
}

/// A descriptor that is readable from a signal on until it is cleared (an eventfd).
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// One that is not readable yet.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Event> {
        // SAFETY: touches no memory of ours.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(Event)
    }

    /// From now on it is readable.
    pub fn signal(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of ours. It fails only if it has been signalled 2^64 times and never cleared.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// From now on it is not.
    pub fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: eight bytes of ours. It fails if it was not readable.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_readable_from_its_signal_until_it_is_cleared() {
        let event = Event::new().unwrap();
        let fd = event.as_fd().as_raw_fd();
        assert!(!is_ready(fd, false).unwrap());
        event.signal();
        event.signal();
        assert!(is_ready(fd, false).unwrap());
        event.clear();
        assert!(!is_ready(fd, false).unwrap());
        // The kernel passes over negative numbers.
        assert!(!is_ready(-7, false).unwrap());
    }

    #[test]
    fn each_readiness_asked_for_is_reported_once() {
        let (watcher, event) = (Watcher::new().unwrap(), Event::new().unwrap());
        let fd = event.as_fd().as_raw_fd();
        for _ in 0..3 {
            watcher.ask(fd, true, false).unwrap();
            event.signal();
            let mut told = Vec::new();
            watcher.wait(|ready| told.push(ready)).unwrap();
            assert_eq!(told, [Ready { fd, read: true, write: false }]);
        }
        watcher.ask(fd, false, true).unwrap();
        watcher.wait(|ready| assert_eq!(ready, Ready { fd, read: false, write: true })).unwrap();
        // Of this one each signal is told, though nobody clears it.
        let event = Event::new().unwrap();
        let fd = event.as_fd().as_raw_fd();
        watcher.ask_always(fd).unwrap();
        for _ in 0..3 {
            event.signal();
            watcher.wait(|ready| assert_eq!(ready, Ready { fd, read: true, write: false })).unwrap();
        }
        assert!(watcher.ask(-7, true, false).is_err());
    }
}
