//! A test in a process of its own: what is installed, chosen, or refused by a filter is a whole process's.

#![allow(dead_code, reason = "each suite has its own needs")]

use std::io::Write;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What says to a test that it is the one in a process of its own.
const MARK: &str = "CHAPPE_TEST_ALONE";

/// Whether this is the process that [`run`] began for it. Then it ends in time.
pub fn is(test: &str) -> bool {
    let is = std::env::var(MARK).is_ok_and(|t| t == test);
    if is {
        std::mem::forget(watch(test));
    }
    is
}

/// Ends the process if a test hangs: by then it has waited for what does not come.
pub struct Watch(#[allow(dead_code, reason = "its end is what is told")] Sender<()>);

/// Watches until the answer is dropped.
pub fn watch(test: &str) -> Watch {
    let soak: u64 = std::env::var("RAS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let (end, ended) = std::sync::mpsc::channel();
    let test = test.to_owned();
    std::thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(50 + 10 * soak)) == Err(RecvTimeoutError::Timeout) {
            // Past the test harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "{test} panicked at its watch: it hangs");
            std::process::abort();
        }
    });
    Watch(end)
}

/// Ends the process if the others do not get on. It counts its own looks, not seconds: where the machine stands still, or stops
/// this process, it does not look either.
pub struct Stall {
    last: u64,
    looks: u32,
    at: Instant,
}

impl Stall {
    /// How far looks that count are apart.
    const APART: Duration = Duration::from_millis(20);
    /// How many without progress are a hang: on a machine that does nothing else, 40 s.
    const MOST: u32 = 2000;

    /// From now on.
    pub fn new() -> Stall {
        Stall { last: 0, looks: 0, at: Instant::now() }
    }

    /// How far the others have come.
    pub fn look(&mut self, progress: u64) {
        if progress != self.last {
            *self = Stall { last: progress, ..Stall::new() };
        } else if self.at.elapsed() >= Stall::APART {
            (self.looks, self.at) = (self.looks + 1, Instant::now());
        }
        if self.looks >= Stall::MOST {
            // Past the test harness, which would keep it to itself.
            let _ = writeln!(
                std::io::stderr(),
                "panicked at: somebody sleeps for ever: nobody has got on in {} looks",
                self.looks
            );
            std::process::abort();
        }
    }
}

/// With what cargo has begun this one, where that is an emulator.
const RUNNER: &str = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER";

/// Begins this program again, for one test alone, which must pass there. False: it can not be begun here (an emulator), and a
/// line says so.
pub fn run(test: &str, environment: &[(&str, &str)]) -> bool {
    let program = std::env::current_exe().expect("/proc");
    let mut command = match std::env::var(RUNNER) {
        Ok(runner) if cfg!(target_arch = "aarch64") => {
            let mut parts = runner.split(' ');
            let mut command = Command::new(parts.next().expect("a program"));
            command.args(parts).arg(program);
            command
        }
        _ => Command::new(program),
    };
    command
        .args([test, "--exact", "--include-ignored", "--quiet", "--nocapture", "--test-threads=1"])
        .env(MARK, test)
        .env_remove("CHAPPE_RAS");
    command.envs(environment.iter().copied());
    let output = command.output().expect("this program can be begun");
    if output.status.code() == Some(127) {
        println!("not tested: {test}: this program can not be begun by itself here");
        return false;
    }
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{environment:?}: {}\n{out}\n{err}", output.status);
    for line in out.lines().filter(|l| l.starts_with("not tested") || l.starts_with("  ")) {
        println!("{line}");
    }
    true
}

/// From now on the kernel answers ENOSYS to this thread, and to those that it begins, where a call is one of these and, if one
/// is named, its second argument has one of these values. False: it takes no filter.
pub fn refuse(call: libc::c_long, second: &[u32]) -> bool {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let no = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let n = second.len() as u8;
    let mut program = vec![step(LOAD, 0, 0, 0)];
    if second.is_empty() {
        program.push(step(EQUAL, call as u32, 1, 0));
    } else {
        program.push(step(EQUAL, call as u32, 0, n + 1));
        program.push(step(LOAD, 24, 0, 0));
        program.extend(second.iter().enumerate().map(|(at, value)| step(EQUAL, *value, n - at as u8, 0)));
    }
    program.push(step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0));
    program.push(step(ANSWER, no, 0, 0));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program is whole, and copied by the kernel.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    }
}

/// Keeps this thread, and those that it begins, to one processor.
pub fn one_processor() {
    let on = chappe_plat::topology::allowed().expect("one");
    chappe_plat::topology::allow(&on[on.len() - 1..]).expect("it is allowed");
}
