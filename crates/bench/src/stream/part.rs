//! What a pipeline of the bench is made of: a device that does not wait, stages that take processor time, a sink that says how old what comes is, and hogs.
//!
//! A block is 192 bytes: its number, when the device made it, and nothing. Pipes have room for 4 KB.

use crate::process::now;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::path::Path;

/// How these programs are asked for.
pub const WORD: &str = "stream-part";
/// Bytes.
const BLOCK: usize = 192;
const ROOM: libc::c_int = 4096;

/// A descriptor of this process, for its life.
fn own(fd: i32) -> File {
    // SAFETY: the process has it from its begin, and nothing else here uses it.
    unsafe { File::from_raw_fd(fd) }
}

fn small(fd: i32) {
    // SAFETY: takes numbers. What refuses it has the room that it has.
    unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, ROOM) };
}

/// This thread's processor time, in nanoseconds.
fn used() -> u64 {
    // SAFETY: an all-zero time is a valid value, and a valid place for the call to fill in.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t);
        t
    };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn compute(us: u64) {
    let until = used() + us * 1000;
    while used() < until {
        (0..50).for_each(|n| {
            black_box(n);
        });
    }
}

fn block() -> [u8; BLOCK] {
    [0; BLOCK]
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"))
}

/// Makes a block each millisecond, and loses those for which there is no room. Writes how many into the file.
fn device(blocks: u64, report: &Path) -> std::io::Result<()> {
    small(1);
    // SAFETY: takes numbers; a parameter that lives; the calling process.
    unsafe {
        libc::fcntl(1, libc::F_SETFL, libc::O_NONBLOCK);
        // A device is hardware: nothing that computes holds it up.
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = 90;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param);
    }
    let (mut out, mut lost) = (own(1), 0u64);
    // As a device that is opened: the last stage says that all have begun.
    let ready = report.with_extension("ready");
    let patience = now() + 20_000_000_000;
    while !ready.exists() && now() < patience {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let began = now();
    for k in 0..blocks {
        let due = began + k * 1_000_000;
        let time = libc::timespec { tv_sec: (due / 1_000_000_000) as i64, tv_nsec: (due % 1_000_000_000) as i64 };
        // SAFETY: reads the time.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, std::ptr::null_mut())
        };
        let mut all = block();
        all[..8].copy_from_slice(&k.to_le_bytes());
        all[8..16].copy_from_slice(&now().to_le_bytes());
        if out.write(&all).is_err() {
            lost += 1;
        }
    }
    std::fs::write(report, lost.to_string())
}

/// A device that is a stage: waits for a timer of 1 kHz, and writes a block at each tick without waiting. Writes into the file a line for each look at the timer
/// that was late or found the pipe full: when, in microseconds, and how many ticks that lost.
fn source(ticks: u64, report: &Path) -> std::io::Result<()> {
    // SAFETY: takes numbers; a valid time; the descriptor is this process's, for its life.
    let timer = unsafe {
        libc::fcntl(1, libc::F_SETFL, libc::O_NONBLOCK);
        let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        let each = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let time = libc::itimerspec { it_interval: each, it_value: each };
        if fd < 0 || libc::timerfd_settime(fd, 0, &raw const time, std::ptr::null_mut()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        fd
    };
    let (mut timer, mut out, all, mut text, mut at) = (own(timer), own(1), block(), String::new(), 0);
    while at < ticks {
        let mut passed = [0; 8];
        timer.read_exact(&mut passed)?;
        let passed = u64::from_le_bytes(passed);
        at += passed;
        let lost = passed - u64::from(out.write(&all).is_ok());
        if lost > 0 {
            text += &format!("{} {lost}\n", now() / 1000);
        }
    }
    std::fs::write(report, text)
}

/// Takes so long for each block, and so long from block `at` on.
fn stage(us: u64, then: u64, at: u64) -> std::io::Result<()> {
    small(0);
    let (mut from, mut to, mut all) = (own(0), own(1), block());
    while from.read_exact(&mut all).is_ok() {
        compute(if number(&all, 0) < at { us } else { then });
        to.write_all(&all)?;
    }
    Ok(())
}

/// Writes the number of each block and its age in microseconds when it is done with it into the file.
fn sink(us: u64, report: &Path) -> std::io::Result<()> {
    small(0);
    std::fs::write(report.with_file_name("lost.ready"), "")?;
    let (mut from, mut all, mut text) = (own(0), block(), String::new());
    while from.read_exact(&mut all).is_ok() {
        compute(us);
        text += &format!("{} {}\n", number(&all, 0), (now() - number(&all, 1)) / 1000);
    }
    std::fs::write(report, text)
}

/// Is one of these, if the words ask for one. Answers whether they do.
pub fn serve(words: &[&str]) -> bool {
    let number = |text: &str| text.parse().unwrap_or(0);
    let done = match *words {
        ["device", blocks, report] => device(number(blocks), Path::new(report)),
        ["source", ticks, report] => source(number(ticks), Path::new(report)),
        ["stage", us, then, at] => stage(number(us), number(then), number(at)),
        ["sink", us, report] => sink(number(us), Path::new(report)),
        ["hog"] => loop {
            compute(1_000);
        },
        _ => return false,
    };
    if let Err(e) = done {
        eprintln!("{WORD} {}: {e}", words.join(" "));
        std::process::exit(1);
    }
    true
}
