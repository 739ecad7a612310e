//! A killed test program leaves no process behind.
//!
//! ```text
//! program (the pid that cargo knows) --- guard --- tests --- all that they start
//! ```
//!
//! The guard is the subreaper of all that the tests start, whatever session, group and environment that has. It kills what is left when the
//! tests have ended, or when the program was killed, which the kernel tells it. The tests stay in the program's group, so that Ctrl-C ends
//! both. All three are made before `main`, where there is one thread.

use crate::place::{Place, runs, until};
use std::ffi::CStr;
use std::process::Command;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// What has this in its environment was started by tests that have a guard already.
const GUARDED: &CStr = c"CHAPPE_TEST_GUARDED";

/// Makes the guard and the process of the tests, in which it returns.
extern "C" fn begin() {
    // SAFETY: system calls of a process with one thread, with memory of its own.
    unsafe {
        if !libc::getenv(GUARDED.as_ptr()).is_null() {
            return;
        }
        libc::setenv(GUARDED.as_ptr(), c"".as_ptr(), 1);
        let (program, group) = (libc::getpid(), libc::getpgrp());
        let guard = libc::fork();
        if guard != 0 {
            let mut status = 0;
            libc::waitpid(guard, &raw mut status, 0);
            end_as(status);
        }
        libc::setpgid(0, 0);
        let (mut told, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigaddset(&raw mut told, libc::SIGTERM);
        libc::sigaddset(&raw mut told, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const told, &raw mut before);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        let tests = libc::fork();
        if tests == 0 {
            libc::setpgid(0, group);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            return;
        }
        let (mut status, mut came) = (libc::SIGKILL, 0);
        // A program that was killed before the kernel was asked to tell that is no parent any more.
        while reap(tests, &mut status) && libc::getppid() == program {
            libc::sigwait(&raw const told, &raw mut came);
        }
        // What a killed process leaves behind comes here, too.
        while let Some(left) = std::fs::read_to_string("/proc/thread-self/children").ok().filter(|l| !l.is_empty()) {
            left.split_whitespace().filter_map(|pid| pid.parse().ok()).for_each(|pid| {
                libc::kill(pid, libc::SIGKILL);
            });
            libc::waitpid(-1, std::ptr::null_mut(), 0);
        }
        end_as(status);
    }
}

/// Reaps the guard's children that have ended; answers whether the tests go on, or how they ended.
fn reap(tests: i32, status: &mut i32) -> bool {
    loop {
        let mut ended = 0;
        // SAFETY: a plain system call.
        match unsafe { libc::waitpid(-1, &raw mut ended, libc::WNOHANG) } {
            pid if pid == tests => {
                *status = ended;
                return false;
            }
            0 | -1 => return true,
            _ => {}
        }
    }
}

/// Ends as another process has.
fn end_as(status: i32) -> ! {
    if libc::WIFSIGNALED(status) {
        // SAFETY: plain system calls of a process with one thread.
        unsafe {
            libc::signal(libc::WTERMSIG(status), libc::SIG_DFL);
            libc::raise(libc::WTERMSIG(status));
        }
    }
    // SAFETY: ends this process; nothing is to be tidied.
    unsafe {
        libc::_exit(if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) })
    }
}

/// Where the program to be killed finds the place to tell of itself.
const VICTIM: &str = "CHAPPE_TEST_VICTIM";

#[test]
fn a_killed_test_program_leaves_no_process_behind() {
    if let Some(to) = std::env::var_os(VICTIM) {
        let place = Place::new();
        // Its chappe is killed: it is nobody's child, in a session of its own, and has no environment.
        let script = "exec env -i setsid -f sh -c 'echo $$ > job; exec sleep 1000' >/dev/null 2>&1";
        place.run(&["acquire", "--create", "p", "--", "sh", "-c", script]);
        std::fs::write(to, format!("{} {}", place.read("job"), place.file("").display())).unwrap();
        until("the end", || None::<()>);
    }
    let here = Place::new();
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let at = here.file(&format!("pid-{signal}"));
        let test = "guard::a_killed_test_program_leaves_no_process_behind";
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", test]).env(VICTIM, &at).env_remove(GUARDED.to_str().unwrap());
        let program = Place::spawn(&mut program);
        let told = here.read(&format!("pid-{signal}"));
        let (job, left) = told.split_once(' ').unwrap();
        let job = job.parse().unwrap();
        assert!(runs(job));
        program.kill(signal);
        until("the job's end", || (!runs(job)).then_some(()));
        // It has not done this itself.
        std::fs::remove_dir_all(left).unwrap();
    }
}
