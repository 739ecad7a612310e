//! Processes of the director's: killed and reaped at the latest when it lets go of them.

use crate::step;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A child of the director, killed and reaped when dropped.
pub struct Child {
    pid: libc::pid_t,
    status: Option<i32>,
}

impl Child {
    /// Forks; `life` is all that the child does.
    pub fn fork(life: impl FnOnce()) -> Child {
        // SAFETY: the director is single-threaded, so that the child may go on as any process would.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                // SAFETY: no pointers; asks the kernel to end this process with the director.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let code = i32::from(catch_unwind(AssertUnwindSafe(life)).is_err());
                // SAFETY: ends the process at once; the director's exit handlers are not this child's to run.
                unsafe { libc::_exit(code) }
            }
            pid => Child { pid, status: None },
        }
    }

    /// Its process id.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Its wait status, once it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        if self.status.is_none() {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the duration of the call.
            if unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == self.pid {
                self.status = Some(status);
            }
        }
        self.status
    }

    /// Somebody else sees to its end.
    pub fn hand_over(self) {
        std::mem::forget(self);
    }

    /// Stops it as a whole, and returns when it is stopped; or has ended.
    pub fn freeze(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let mut status = 0;
        // SAFETY: our own child, not yet reaped; `status` is a valid place for the duration of the call.
        let got = unsafe {
            libc::kill(self.pid, libc::SIGSTOP);
            libc::waitpid(self.pid, &mut status, libc::WUNTRACED)
        };
        if got == self.pid && !libc::WIFSTOPPED(status) {
            self.status = Some(status);
        }
    }

    /// Lets it go on.
    pub fn thaw(&mut self) {
        if self.ended().is_none() {
            // SAFETY: our own child, not yet reaped.
            unsafe { libc::kill(self.pid, libc::SIGCONT) };
        }
    }

    /// Kills it if it lives, and reaps it.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            step::end(self.pid, self.pid);
            self.status = Some(libc::SIGKILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The processes that are to live.
pub struct Survivors {
    /// The keeper.
    pub keeper: Child,
    /// Those that wait for something.
    pub helpers: Vec<Child>,
}

impl Survivors {
    /// Stops them.
    pub fn freeze(&mut self) {
        self.keeper.freeze();
        self.helpers.iter_mut().for_each(Child::freeze);
    }

    /// Those that were stopped go on.
    pub fn thaw(&mut self) {
        self.keeper.thaw();
        self.helpers.iter_mut().for_each(Child::thaw);
    }
}
