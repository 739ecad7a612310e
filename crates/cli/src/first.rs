//! As the first process of a PID namespace (`docker run IMAGE chappe ...`, `unshare --pid --fork`): an init beside the command.
//!
//! To the first process the kernel delivers no signal that it has no handler for, and gives it every orphan of the namespace. A command that
//! waits would end by nothing but KILL, and dead orphans would stay. So this process stays what it is: it passes signals on to its only child,
//! which is the command, and takes note of every process that ends. It ends as the command does; as the first process it cannot die by a
//! signal, so of that it has the status that a shell shows. With it the kernel ends all that is left in the namespace.
//!
//! It holds nothing, and starts nothing else. Signals are blocked first and taken one by one; one that comes before that is lost, as to any
//! first process. What the terminal sends reaches the command by itself, which is in the same group.

use crate::signals::{self, Set};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Whether this process is the child of such a one.
static HAS_INIT: OnceLock<()> = OnceLock::new();

/// Those that an init passes on: all but what cannot be had, what only tells of a child, and what tells of a fault of its own.
fn passed_on() -> Vec<i32> {
    use libc::{SIGABRT, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP};
    let own = [SIGABRT, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP];
    (1..=libc::SIGRTMAX()).filter(|s| !own.contains(s) && !(32..libc::SIGRTMIN()).contains(s)).collect()
}

/// If this is the first process of its namespace: stays, and answers how the command has ended. None: this process is the command. Called before
/// any thread is started.
pub fn stay() -> Option<ExitCode> {
    if std::process::id() != 1 {
        return None;
    }
    let before = Set::blocked_now();
    let mut all = passed_on();
    all.push(libc::SIGCHLD);
    let set = Set::of(&all);
    set.block();
    // If it was inherited ignored, the command's status would be lost.
    signals::default(libc::SIGCHLD);
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        // Without a child it is the command itself, as well as it can.
        -1 => before.set(),
        0 => {
            before.set();
            // It is said once.
            let _ = HAS_INIT.set(());
        }
        command => return Some(attend(command, &set)),
    }
    None
}

fn attend(command: i32, set: &Set) -> ExitCode {
    loop {
        let mut status = 0;
        // SAFETY: the status is a valid place.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid == command && libc::WIFSIGNALED(status) {
            return ExitCode::from(128u8.wrapping_add(libc::WTERMSIG(status) as u8));
        } else if pid == command {
            return ExitCode::from(libc::WEXITSTATUS(status) as u8);
        } else if pid <= 0
            && let Some(came) = set.wait(None)
            && came.signal != libc::SIGCHLD
            && !came.by_kernel
        {
            signals::send(command, came.signal);
        }
    }
}

/// Whether an init stays beside this process, which ends with it, and with that all that is in the namespace.
pub fn has_init() -> bool {
    HAS_INIT.get().is_some()
}

/// Whether a process is the init that stays beside this one: it is in no pipeline.
pub fn is_init(pid: i32) -> bool {
    pid == 1 && has_init()
}
