//! Priority inversion: three threads of fixed priorities on one processor. The lowest takes the lock; the highest wants it; the middle one computes, and
//! wants nothing of theirs. How long does the highest wait?
//!
//! ```text
//!   L  lock |--section--|                          unlock        without inheritance: M runs before L is done
//!   M            |------- computes, 3 ms -------|
//!   H            wants it ........................|
//! ```

use crate::table::{Aim, Table, nanoseconds};
use chappe::{HelpLock, Words};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SECTION: Duration = Duration::from_micros(200);
const MIDDLE: Duration = Duration::from_millis(3);

/// Runs at this priority on the first processor that it may use. False: it may not.
fn at_priority(priority: i32) -> bool {
    // SAFETY: plain data, for the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        let first = (0..libc::CPU_SETSIZE as usize).find(|c| libc::CPU_ISSET(*c, &set)).unwrap_or(0);
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
        let of = libc::sched_param { sched_priority: priority };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const of) == 0
    }
}

/// How long this thread has had a processor.
fn own_time() -> Duration {
    // SAFETY: plain data.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t);
        t
    };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn compute(time: Duration) {
    let end = own_time() + time;
    while own_time() < end {
        std::hint::spin_loop();
    }
}

/// How long the highest waits for the lock, each time; nothing if priorities are not to be had.
fn waits(tries: u32, locked: impl Fn(&mut dyn FnMut()) + Sync) -> Option<Vec<f64>> {
    let (inside, ready) = (Barrier::new(3), Barrier::new(3));
    let permitted = AtomicBool::new(true);
    let may = |priority| {
        if !at_priority(priority) {
            permitted.store(false, Ordering::SeqCst);
        }
        ready.wait();
        permitted.load(Ordering::SeqCst)
    };
    let mut all = Vec::new();
    std::thread::scope(|s| {
        s.spawn(|| {
            if may(10) {
                for _ in 0..tries {
                    let mut first = true;
                    locked(&mut || {
                        // A section of steps may be run again: it lets the others go once.
                        if std::mem::take(&mut first) {
                            inside.wait();
                        }
                        compute(SECTION);
                    });
                    ready.wait();
                }
            }
        });
        s.spawn(|| {
            if may(20) {
                for _ in 0..tries {
                    inside.wait();
                    compute(MIDDLE);
                    ready.wait();
                }
            }
        });
        let highest = s.spawn(|| {
            let mut all = Vec::new();
            if may(30) {
                for _ in 0..tries {
                    inside.wait();
                    let start = Instant::now();
                    let mut took = Duration::ZERO;
                    locked(&mut || took = start.elapsed());
                    all.push(took.as_nanos() as f64);
                    ready.wait();
                }
            }
            all
        });
        all = highest.join().expect("measured");
    });
    (!all.is_empty()).then_some(all)
}

/// The table, and what was wanted.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(tries: u32) -> Vec<Aim> {
    let (plain, inherited) = (parking_lot::Mutex::new(()), HelpLock::inherited("section", ()).expect("a lock"));
    let steps = Words::private(1).expect("memory");
    let rows = [
        (
            "parking_lot::Mutex",
            waits(tries / 4, |section| {
                let _held = plain.lock();
                section();
            }),
        ),
        ("HelpLock (b), inherited", waits(tries, |section| inherited.with(|()| section()).expect("whole"))),
        (
            "HelpLock (a), steps",
            waits(tries, |section| {
                steps
                    .update([0], |w| {
                        section();
                        w[0] += 1;
                    })
                    .map(|_| ())
                    .expect("a word");
            }),
        ),
    ];
    let there: Vec<(String, Vec<f64>)> = rows.into_iter().filter_map(|(n, w)| Some((n.to_owned(), w?))).collect();
    if there.len() < 3 {
        println!(
            "\npriority inversion: SCHED_FIFO is not permitted here (RLIMIT_RTPRIO is 0, no CAP_SYS_NICE): no table"
        );
        return Vec::new();
    }
    let table = Table::of("wait of the highest of three priorities", there);
    println!("{}", table.report());
    let most = (SECTION + Duration::from_micros(100)).as_nanos() as f64;
    let worst = |name: &str| table.row(name).quantile(1.0);
    println!(
        "  most of {tries}: (b) {}, (a) {}",
        nanoseconds(worst("HelpLock (b), inherited")),
        nanoseconds(worst("HelpLock (a), steps"))
    );
    vec![
        Aim::at_most("H's longest wait, HelpLock (b)", most, worst("HelpLock (b), inherited"), nanoseconds),
        Aim::at_most("H's longest wait, HelpLock (a)", most, worst("HelpLock (a), steps"), nanoseconds),
    ]
}
