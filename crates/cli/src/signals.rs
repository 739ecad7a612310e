//! Signals, taken one at a time where the command wants them, never in a handler.

use std::mem::MaybeUninit;
use std::time::Duration;

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Set(libc::sigset_t);

/// A signal that came.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// Which.
    pub signal: i32,
    /// Whether the kernel sent it, as it does for Ctrl-C, and not a process.
    pub by_kernel: bool,
}

impl Set {
    /// The set of these.
    pub fn of(signals: &[i32]) -> Set {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset makes the set valid before it is added to.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for s in signals {
                libc::sigaddset(set.as_mut_ptr(), *s);
            }
            Set(set.assume_init())
        }
    }

    /// The calling thread's blocked signals.
    pub fn blocked_now() -> Set {
        Set::of(&[]).mask(libc::SIG_BLOCK)
    }

    /// Blocks these in the calling thread.
    pub fn block(&self) {
        self.mask(libc::SIG_BLOCK);
    }

    /// Lets these through in the calling thread.
    pub fn unblock(&self) {
        self.mask(libc::SIG_UNBLOCK);
    }

    /// Blocks exactly these in the calling thread. May be called between fork and exec.
    pub fn set(&self) {
        self.mask(libc::SIG_SETMASK);
    }

    fn mask(&self, how: i32) -> Set {
        let mut old = MaybeUninit::uninit();
        // SAFETY: both are places of the right type; the call fills in the old one.
        unsafe {
            libc::pthread_sigmask(how, &self.0, old.as_mut_ptr());
            Set(old.assume_init())
        }
    }

    /// Waits for one of these, which must be blocked, at most for `patience`. `None` also after a stop.
    pub fn wait(&self, patience: Option<Duration>) -> Option<Came> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let limit = patience.map(|d| libc::timespec {
            tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: libc::c_long::from(d.subsec_nanos()),
        });
        let at = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the set, the info and the time are valid for the call; without a time, null waits for ever.
        let signal = unsafe { libc::sigtimedwait(&self.0, info.as_mut_ptr(), at) };
        // SAFETY: zeroed above, which is a valid siginfo, and filled in by the call.
        let info = unsafe { info.assume_init() };
        (signal > 0).then_some(Came { signal, by_kernel: info.si_code == libc::SI_KERNEL })
    }

    /// A descriptor that is readable while one of these, blocked, is pending.
    ///
    /// # Errors
    /// The system's.
    pub fn descriptor(&self) -> std::io::Result<std::os::fd::OwnedFd> {
        use std::os::fd::FromRawFd;
        // SAFETY: the set is valid; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &self.0, libc::SFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
    }
}

/// The signals that the process which started chappe did not ask to ignore (nohup, a shell's `&`).
pub fn heeded(signals: &[i32]) -> Vec<i32> {
    signals.iter().copied().filter(|s| !is_ignored(*s)).collect()
}

fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only; the place is valid, and zeroed is a valid sigaction if the call should fail.
    let now = unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_IGN
}

/// Ignores a signal; true if it was not ignored before.
pub fn ignore(signal: i32) -> bool {
    let before = is_ignored(signal);
    // SAFETY: SIG_IGN installs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
    !before
}

/// Gives a signal its default action. May be called between fork and exec.
pub fn default(signal: i32) {
    // SAFETY: SIG_DFL installs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Sends a signal to a process, or with a negative number to a group. That it is gone already is no error.
pub fn send(to: i32, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(to, signal) };
}

/// Stops this process as `signal` would; returns when it was continued, or at once where the system ignores stop signals (no process could
/// continue it).
pub fn stop_by(signal: i32) {
    let before = Set::blocked_now();
    send(std::process::id() as i32, signal);
    // If it was blocked, it comes here.
    Set::of(&[signal]).unblock();
    before.set();
}

/// Ends this process as the signal would have, leaving no core file of chappe's.
pub fn die_by(signal: i32) -> ! {
    // SAFETY: a plain system call that takes one number.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    if signal != libc::SIGKILL {
        default(signal);
    }
    send(std::process::id() as i32, signal);
    Set::of(&[signal]).unblock();
    std::process::exit(128 + signal)
}
