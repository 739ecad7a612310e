//! Ctrl-C for commands that add up what comes: what has come by then is written.

use crate::signals::{Set, heeded};
use chappe::{ReceivingEnd, Select};
use std::io::Result;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Ctrl-C, if it is not ignored: what is read ends, and the answer is of what has come. One while the answer is written, or behind the end of
/// what is read, ends the process.
pub struct Interrupt {
    signals: Set,
    pending: OwnedFd,
    /// It has come, and all inputs end.
    noted: OnceLock<()>,
    /// How many inputs have not ended.
    inputs: Mutex<usize>,
}

impl Interrupt {
    /// From now on.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> Result<Interrupt> {
        let signals = Set::of(&heeded(&[libc::SIGINT]));
        signals.block();
        Ok(Interrupt { pending: signals.descriptor()?, signals, noted: OnceLock::new(), inputs: Mutex::new(0) })
    }

    /// Waits until an input has something, or it comes; of none: looks whether it has come.
    pub fn came(&self, input: Option<&OwnedFd>) -> Result<bool> {
        let entry = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut list = [entry(self.pending.as_raw_fd()), entry(input.map_or(-1, AsRawFd::as_raw_fd))];
        let most = if input.is_some() { -1 } else { 0 };
        // SAFETY: two valid entries; descriptors below 0 are left out.
        if unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, most) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(list[0].revents != 0)
    }

    /// It has come, which all inputs know from now on; the next one ends the process.
    pub fn taken(&self) {
        if self.noted.set(()).is_ok() {
            self.signals.wait(Some(Duration::ZERO));
            self.signals.unblock();
        }
    }

    /// Whether it was taken.
    pub fn was_taken(&self) -> bool {
        self.noted.get().is_some()
    }

    /// A further input: `1`; an input has ended: `-1`. When the last one has, nothing more is read, and one ends the process.
    pub fn inputs(&self, more: isize) {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        *inputs = inputs.saturating_add_signed(more);
        if *inputs == 0 {
            self.signals.unblock();
        }
    }

    /// Does what may be held up for long: one that comes meanwhile ends the process.
    pub fn unless<R>(&self, act: impl FnOnce() -> R) -> R {
        let before = Set::blocked_now();
        self.signals.unblock();
        let done = act();
        before.set();
        done
    }

    /// Waits until one of these has something, or has ended, or the time has come. Whether it has come.
    ///
    /// # Errors
    /// The system's.
    pub fn before<'a, R: ReceivingEnd + 'a>(
        &self,
        all: impl IntoIterator<Item = &'a R>,
        until: Option<Instant>,
    ) -> Result<bool> {
        let mut choice = Select::new();
        for end in all {
            choice.recv_on(end);
        }
        choice.readable(&self.pending);
        match until {
            None => _ = choice.ready(),
            Some(until) => _ = choice.ready_deadline(until),
        }
        self.came(None)
    }
}
