//! The keeper of a terminal: it starts the program, has its pseudo-terminal, and starts a holder whenever there is none.

use super::found::directory;
use super::holder;
use super::pty::{self, Pty};
use super::scope;
use super::wanted::Wanted;
use chappe::term::kill::OWN;
use chappe::term::place::{self, Place, Role};
use chappe::term::words::{self, House, How};
use std::fs::OpenOptions;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// A holder that has lived for so long was no failure.
const LIVED: Duration = Duration::from_secs(1);

/// By how much longer the next holder waits after each that failed, and how long at most.
const LATER: Duration = Duration::from_millis(10);

/// Keeps the terminal to its end. It never returns: this is a process of its own.
pub fn keep(place: &Place, pty: Pty, wanted: &Wanted<'_>, size: (u16, u16), mut tells: PipeWriter) -> ! {
    // SAFETY: a plain call. The shell's hang-up does not reach a session of its own.
    unsafe { libc::setsid() };
    crate::signals::ignore(libc::SIGHUP);
    crate::signals::default(libc::SIGCHLD);
    crate::signals::default(libc::SIGBUS);
    // SAFETY: a plain call on a text that ends.
    unsafe { libc::prctl(libc::PR_SET_NAME, OWN.as_ptr()) };
    // What the command leaves behind becomes this process's child, and `chappe term kill` finds it.
    // SAFETY: a plain call.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    have_only(&[place.as_fd(), pty.master.as_fd(), pty.slave.as_fd(), tells.as_fd()]);
    scope::enter(wanted.name);
    place.is(Role::Keeper, chappe::process::pid());
    // Itself, before it runs: a program that asks at once whose terminal this is must find its own.
    let started = pty::start(&pty, wanted, place.naming(Role::Program));
    let Pty { master, slave } = pty;
    // With it open, the end of the program's side would never be seen.
    drop(slave);
    let program = match started {
        Ok(child) => child.id(),
        Err(e) => {
            let errno = e.raw_os_error().unwrap_or(libc::EINVAL);
            // As long as it lives the name is its own. What cannot be removed is found by `doctor`.
            let _ = directory(false).map(|dir| place::unmake(&dir, place));
            // The one that waits for it may be gone.
            let _ = tells.write_all(&(-errno).to_le_bytes());
            chappe::process::exit(1);
        }
    };
    leave_the_shell();
    // Before there is another process that has the pipe.
    let _ = tells.write_all(&(program as i32).to_le_bytes());
    drop(tells);
    words::keep(program as i32, &mut Here { place, master, size, taken: 0, began: Instant::now() });
    chappe::process::exit(0)
}

/// The keeper's children, as the system has them.
struct Here<'a> {
    place: &'a Place,
    master: OwnedFd,
    size: (u16, u16),
    /// How much had been taken when the last holder ended, and when it was started.
    taken: u64,
    began: Instant,
}

impl House for Here<'_> {
    fn start(&mut self) -> Option<i32> {
        let keeper = chappe::process::pid();
        self.began = Instant::now();
        self.place.count_holder();
        // SAFETY: this process has one thread: the child has all that it needs.
        match unsafe { libc::fork() } {
            0 => holder::hold(self.place, &self.master, self.size, keeper),
            pid => Some(pid).filter(|pid| *pid > 0),
        }
    }

    fn wait(&mut self, patiently: bool) -> Option<(i32, How)> {
        let mut status = 0;
        // SAFETY: the status is a valid place.
        let pid = unsafe { libc::waitpid(-1, &mut status, if patiently { 0 } else { libc::WNOHANG }) };
        let how =
            if libc::WIFSIGNALED(status) { Err(libc::WTERMSIG(status)) } else { Ok(libc::WEXITSTATUS(status) as u8) };
        (pid > 0).then_some((pid, how))
    }

    fn pause(&mut self, failed: u32) {
        std::thread::sleep(LATER * failed.min(100));
    }

    fn was_of_use(&mut self) -> bool {
        let before = std::mem::replace(&mut self.taken, self.place.taken());
        before != self.taken || self.began.elapsed() >= LIVED
    }

    fn heir(&mut self, of: i32) -> Option<i32> {
        // A job's chappe was killed: its command, if that runs, is this process's child by now, and goes on as the program.
        let job = self.place.process(Role::Job).filter(|job| *job as i32 != of)?;
        self.place.is(Role::Program, job);
        Some(job as i32)
    }

    fn ended(&mut self, how: How) {
        self.place.program_ended(how);
    }
}

/// Closes whatever else the shell has left open: its pipes and locks are not to live as long as the terminal.
fn have_only(wanted: &[BorrowedFd<'_>]) {
    let Ok(all) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let others = open.into_iter().filter(|fd| *fd > 2 && !wanted.iter().any(|wanted| wanted.as_raw_fd() == *fd));
    // SAFETY: no one uses them in this process: it keeps the terminal, and nothing else.
    others.for_each(|fd| _ = unsafe { libc::close(fd) });
}

/// Has no file and no directory of the shell's.
fn leave_the_shell() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        // SAFETY: plain calls on open descriptors.
        (0..3).for_each(|fd| _ = unsafe { libc::dup2(null.as_raw_fd(), fd) });
    }
    // It stays where it is if that cannot be.
    let _ = std::env::set_current_dir("/");
}
