//! An alarm: a descriptor that can be read from some time since boot on, the time asleep with it. The kernel keeps it, and no thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// An alarm. What waits for it polls it, and does not read it: to read it is to turn it off. It is closed by exec; a forked child has the
/// same one.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// One that rings at this time, at once if that is over.
    ///
    /// # Errors
    /// The system's: no descriptor is left.
    pub fn at(time: Duration) -> io::Result<Alarm> {
        // SAFETY: a plain call.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_BOOTTIME, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let alarm = Alarm(unsafe { OwnedFd::from_raw_fd(fd) });
        alarm.set(time);
        Ok(alarm)
    }

    /// Lets it ring at another time. Answers whether it had rung already: then it was quiet for a moment, and a poller that looked then did not see it.
    pub fn set(&self, time: Duration) -> bool {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of 0 would turn it off.
        let nanos = libc::c_long::from(time.subsec_nanos()).max(1);
        let seconds = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
        let when = libc::itimerspec { it_interval: none, it_value: libc::timespec { tv_sec: seconds, tv_nsec: nanos } };
        let mut before = libc::itimerspec { it_interval: none, it_value: none };
        // SAFETY: both are valid for the call, which fails for no descriptor and no time that can be here.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &raw const when, &raw mut before) };
        (before.it_value.tv_sec, before.it_value.tv_nsec) == (0, 0)
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::poll::is_ready;

    #[test]
    fn an_alarm_rings_when_its_time_has_come_and_says_so_when_it_is_set_anew() {
        let now = || Duration::from_nanos(clock::boot());
        let rings = |alarm: &Alarm| is_ready(alarm.as_fd().as_raw_fd(), false).unwrap();
        // The processor's timer rings it, perhaps after the call that set it.
        let rang = |alarm: &Alarm| {
            while !rings(alarm) {
                std::thread::yield_now();
            }
        };
        let alarm = Alarm::at(now() + Duration::from_secs(3600)).unwrap();
        assert!(!rings(&alarm) && !alarm.set(Duration::ZERO));
        rang(&alarm);
        assert!(alarm.set(now() + Duration::from_secs(3600)), "it had rung");
        assert!(!rings(&alarm) && !alarm.set(now()));
        rang(&alarm);
    }
}
