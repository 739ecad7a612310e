//! The handler, the hogs, and the windows that take turns.

use crate::args::lateness::Policy;
use crate::within::no_thread;
use anyhow::{Context, Result};
use chappe::{HelpLock, Mutex, Words};
use std::hint::black_box;
use std::thread::Builder;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(50);
/// What is left out at a window's begin: hogs still leave the last one's lock.
const SETTLING: u32 = 8;

/// Which word says what the window is of, and which that all is over.
const KIND: u32 = 0;
const STOP: u32 = 1;

/// What is measured.
pub struct Plan {
    pub seconds: u32,
    pub period_us: u32,
    pub hogs: usize,
    pub policy: Policy,
    pub priority: u8,
}

/// What came of the windows of one kind.
pub struct Window {
    pub what: &'static str,
    /// Nanoseconds after the begin of the period.
    pub late: Vec<u32>,
    /// Periods that had passed when the one before was done.
    pub missed: u64,
}

/// What the hogs and the handler share.
struct Locks {
    steps: HelpLock<u64>,
    inherited: HelpLock<u64>,
    ours: Mutex<u64>,
    theirs: std::sync::Mutex<u64>,
}

const KINDS: [&str; 5] = ["no lock", "HelpLock, steps", "HelpLock, inherited", "chappe::Mutex", "std::sync::Mutex"];

fn work(turns: u64) -> u64 {
    (0..turns).fold(1u64, |sum, i| black_box(sum.wrapping_mul(31).wrapping_add(i)))
}

impl Locks {
    fn new() -> Result<Locks> {
        Ok(Locks {
            steps: HelpLock::steps("lateness", 0).context("cannot make a lock of steps")?,
            inherited: HelpLock::inherited("lateness", 0).context("cannot make a lock that inherits priorities")?,
            ours: Mutex::private(0)?,
            theirs: std::sync::Mutex::new(0),
        })
    }

    /// One section, of some hundred nanoseconds to a few microseconds.
    fn section(&self, kind: usize, turns: u64) {
        let section = |count: &mut u64| *count = count.wrapping_add(work(turns));
        match kind {
            1 => drop(self.steps.with(section)),
            2 => drop(self.inherited.with(section)),
            3 => drop(self.ours.lock().map(|mut count| section(&mut count))),
            4 => drop(self.theirs.lock().map(|mut count| section(&mut count))),
            _ => _ = black_box(work(turns)),
        }
    }
}

/// The kernel's form of what sched_setattr(2) is told.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SCHED_DEADLINE: u32 = 6;

/// Asks for the policy; says why not.
fn scheduled(plan: &Plan) -> Option<String> {
    let attributes = match plan.policy {
        Policy::Other => return None,
        Policy::Fifo => Attributes {
            size: size_of::<Attributes>() as u32,
            policy: libc::SCHED_FIFO as u32,
            flags: 0,
            nice: 0,
            priority: plan.priority.into(),
            runtime: 0,
            deadline: 0,
            period: 0,
        },
        Policy::Deadline => {
            let period = u64::from(plan.period_us) * 1000;
            Attributes {
                size: size_of::<Attributes>() as u32,
                policy: SCHED_DEADLINE,
                flags: 0,
                nice: 0,
                priority: 0,
                runtime: period / 2,
                deadline: period,
                period,
            }
        }
    };
    // SAFETY: the calling thread; the kernel reads as many bytes as the size says.
    let r = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if r == 0 {
        return None;
    }
    let e = std::io::Error::last_os_error();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) };
    Some(format!(
        "not permitted ({e}): the limit `rtprio` is {}; raise it in /etc/security/limits.conf, or ask rtkit, or give the program CAP_SYS_NICE. \
         Measured without it",
        limit.rlim_cur
    ))
}

fn now() -> Duration {
    // SAFETY: writes the time.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t);
        t
    };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn sleep_until(due: Duration) {
    let at = libc::timespec { tv_sec: due.as_secs() as i64, tv_nsec: due.subsec_nanos().into() };
    // SAFETY: reads the time.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

fn handle(plan: &Plan, locks: &Locks, now_is: &Words) -> Vec<Window> {
    let period = Duration::from_micros(plan.period_us.into());
    let room = (plan.seconds as usize * 1_000_000 / plan.period_us as usize) / KINDS.len() + 1024;
    let window = |what: &&'static str| Window { what, late: Vec::with_capacity(room), missed: 0 };
    let mut windows: Vec<Window> = KINDS.iter().map(window).collect();
    let end = Instant::now() + Duration::from_secs(plan.seconds.into());
    let mut at = 0;
    while Instant::now() < end {
        // Word 0 is there.
        let _ = now_is.store(KIND, at as u64);
        let mut due = now() + period;
        let last = due + WINDOW;
        let mut settling = SETTLING;
        while due < last {
            sleep_until(due);
            locks.section(at, 20);
            let done = now();
            if settling > 0 {
                settling -= 1;
            } else {
                windows[at].late.push(done.saturating_sub(due).as_nanos().min(u32::MAX.into()) as u32);
            }
            due += period;
            while due < done {
                due += period;
                windows[at].missed += 1;
            }
        }
        at = (at + 1) % KINDS.len();
    }
    windows
}

/// Measures; answers also why the policy was refused, if it was.
pub fn measure(plan: &Plan) -> Result<(Vec<Window>, Option<String>)> {
    let locks = Locks::new()?;
    let now_is = Words::private(2)?;
    let said = |word| now_is.load(word).unwrap_or(0);
    std::thread::scope(|s| {
        let hog = || {
            while said(STOP) == 0 {
                locks.section(said(KIND) as usize, 2_000);
                black_box(work(2_000));
            }
        };
        let hogs: std::io::Result<Vec<_>> = (0..plan.hogs).map(|_| Builder::new().spawn_scoped(s, hog)).collect();
        let handler = hogs.and_then(|_| {
            Builder::new().spawn_scoped(s, || {
                let refused = scheduled(plan);
                (handle(plan, &locks, &now_is), refused)
            })
        });
        let result = match handler {
            Ok(handler) => handler.join().map_err(|_| anyhow::anyhow!("the handler panicked")),
            Err(e) => Err(no_thread(&e)),
        };
        now_is.store(STOP, 1)?;
        result
    })
}
