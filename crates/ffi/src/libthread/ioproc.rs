//! I/O procs, which do system calls for other threads: ioproc(2). The caller waits as at a channel, and its proc runs
//! other threads.
//!
//! - O1: the caller notes in `state` that a call is asked for before it asks; the I/O proc notes there that the call
//!   has begun, and that it is over. The interrupter signals the I/O proc's kernel thread until the call is over: if a
//!   signal came before the system call began, another one follows. The calls that are defined here end then. A
//!   program's own operation may go on after EINTR: the interrupter gives up two seconds after it has begun.
//! - O2: a caller that is interrupted interrupts the call and waits for its end, since the call writes to the caller's
//!   memory.

use super::fatal;
use super::task::{Task, enters, serve};
use chappe::tube::{Ended, Receiver, Sender, bounded};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MAGIC: u32 = 0x696f_7072;
/// Between two pokes.
const PAUSE: Duration = Duration::from_micros(50);
/// How long one pokes an operation of the program's.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an ioproc is at.
const IDLE: u32 = 0;
const ASKED: u32 = 1;
/// In an operation of the program's.
const CALLS: u32 = 2;
/// In one of the calls here.
const CALLS_OWN: u32 = 3;

/// What is called, and with what.
#[derive(Clone, Copy)]
struct Call {
    op: unsafe extern "C" fn(*mut c_void) -> c_long,
    arg: *mut c_void,
    /// CALLS or CALLS_OWN.
    kind: u32,
}
// SAFETY: the caller waits until it is over.
unsafe impl Send for Call {}

/// What it answered, and errno.
type Answer = (c_long, c_int);

/// A proc that does calls.
pub struct Ioproc {
    magic: u32,
    state: Arc<AtomicU32>,
    asks: Sender<Call>,
    told: Receiver<Answer>,
    task: Arc<Task>,
}

fn errno() -> &'static mut c_int {
    // SAFETY: the kernel thread's own.
    unsafe { &mut *libc::__errno_location() }
}

fn of<'a>(io: *mut Ioproc, what: &str) -> &'a Ioproc {
    // SAFETY: the caller's promise: NULL, or what `ioproc` answered.
    match unsafe { io.as_ref() } {
        Some(io) if io.magic == MAGIC => io,
        _ => fatal(format_args!("{what}: {io:p} is no ioproc: it was closed, or not made with ioproc()")),
    }
}

/// `ioproc`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_ioproc() -> *mut Ioproc {
    let (asks, asked) = bounded::<Call>(1);
    let (tells, told) = bounded(1);
    let state = Arc::new(AtomicU32::new(IDLE));
    let its = Arc::clone(&state);
    let task = serve(Box::new(move || {
        while let Ok(call) = asked.recv() {
            *errno() = 0;
            its.store(call.kind, Ordering::Release); // Release: O1.
            // SAFETY: the caller's promise.
            let answer = (unsafe { (call.op)(call.arg) }, *errno());
            its.store(IDLE, Ordering::Release); // Release: O1.
            if tells.send(answer).is_err() {
                break;
            }
        }
    }));
    Box::into_raw(Box::new(Ioproc { magic: MAGIC, state, asks, told, task }))
}

/// `closeioproc`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_closeioproc(io: *mut Ioproc) {
    if io.is_null() {
        return;
    }
    // Acquire: O1.
    if of(io, "closeioproc").state.load(Ordering::Acquire) != IDLE {
        fatal(format_args!(
            "closeioproc: the ioproc {io:p} is in a call: end it with iointerrupt, and wait for its caller"
        ));
    }
    // SAFETY: made by `ioproc`, and nobody is in it.
    let mut io = unsafe { Box::from_raw(io) };
    io.magic = 0;
}

/// `iointerrupt`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_iointerrupt(io: *mut Ioproc) {
    let io = of(io, "iointerrupt");
    let mut begun: Option<Instant> = None;
    loop {
        // Acquire: O1.
        match io.state.load(Ordering::Acquire) {
            IDLE => return,
            CALLS if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE => return,
            _ => {}
        }
        io.task.proc.pokes();
        std::thread::sleep(PAUSE);
    }
}

/// `iocall`, with what the operation is given.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_iocall(
    io: *mut Ioproc,
    op: Option<unsafe extern "C" fn(*mut c_void) -> c_long>,
    arg: *mut c_void,
) -> c_long {
    let Some(op) = op else { fatal("iocall: no operation was given") };
    asks(io, Call { op, arg, kind: CALLS })
}

fn asks(io: *mut Ioproc, call: Call) -> c_long {
    let me = enters();
    let it = of(io, "iocall");
    // AcqRel: O1.
    if it.state.swap(ASKED, Ordering::AcqRel) != IDLE {
        fatal(format_args!(
            "iocall: the ioproc {io:p} is in a call: it does one at a time, others take another ioproc"
        ));
    }
    if it.asks.send(call).is_err() {
        fatal(format_args!("iocall: the proc of the ioproc {io:p} has ended: its last operation called threadexits"));
    }
    let (answer, error) = loop {
        match it.told.recv_interruptible() {
            Ok(answer) => break answer,
            Err(Ended::Interrupted) => {
                // O2.
                me.inspect(|me| me.interrupt.clear());
                chappe_iointerrupt(io);
            }
            Err(_) => {
                fatal(format_args!("iocall: the operation of the ioproc {io:p} called threadexits: it is to return"))
            }
        }
    };
    me.inspect(|me| me.dies_if_killed());
    *errno() = error;
    answer
}

/// What a call of the library's own is given.
struct With {
    fd: c_int,
    at: *mut c_void,
    n: c_long,
}

fn calls(io: *mut Ioproc, op: unsafe extern "C" fn(*mut c_void) -> c_long, mut with: With) -> c_long {
    asks(io, Call { op, arg: (&raw mut with).cast(), kind: CALLS_OWN })
}

fn with<'a>(arg: *mut c_void) -> &'a With {
    // SAFETY: as `calls` gives it.
    unsafe { &*arg.cast() }
}

/// `ioopen`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_ioopen(io: *mut Ioproc, file: *const c_char, mode: c_int) -> c_int {
    extern "C" fn opens(arg: *mut c_void) -> c_long {
        let with = with(arg);
        // SAFETY: the caller's string.
        unsafe { libc::open(with.at.cast(), with.fd) }.into()
    }
    calls(io, opens, With { fd: mode, at: file.cast_mut().cast(), n: 0 }) as c_int
}

/// `ioclose`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_ioclose(io: *mut Ioproc, fd: c_int) -> c_int {
    extern "C" fn closes(arg: *mut c_void) -> c_long {
        // SAFETY: it only answers.
        unsafe { libc::close(with(arg).fd) }.into()
    }
    calls(io, closes, With { fd, at: std::ptr::null_mut(), n: 0 }) as c_int
}

/// `ioread`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_ioread(io: *mut Ioproc, fd: c_int, a: *mut c_void, n: c_long) -> c_long {
    extern "C" fn reads(arg: *mut c_void) -> c_long {
        let with = with(arg);
        // SAFETY: the caller's memory.
        unsafe { libc::read(with.fd, with.at, with.n as usize) as c_long }
    }
    calls(io, reads, With { fd, at: a, n })
}

/// `ioreadn`: as many as were asked for, unless the end comes first.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_ioreadn(io: *mut Ioproc, fd: c_int, a: *mut c_void, n: c_long) -> c_long {
    extern "C" fn reads(arg: *mut c_void) -> c_long {
        let (with, mut done) = (with(arg), 0);
        while done < with.n {
            // SAFETY: the caller's memory.
            let some = unsafe { libc::read(with.fd, with.at.byte_add(done as usize), (with.n - done) as usize) };
            if some <= 0 {
                return if done > 0 { done } else { some as c_long };
            }
            done += some as c_long;
        }
        done
    }
    calls(io, reads, With { fd, at: a, n })
}

/// `iowrite`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_iowrite(io: *mut Ioproc, fd: c_int, a: *const c_void, n: c_long) -> c_long {
    extern "C" fn writes(arg: *mut c_void) -> c_long {
        let with = with(arg);
        // SAFETY: the caller's memory.
        unsafe { libc::write(with.fd, with.at, with.n as usize) as c_long }
    }
    calls(io, writes, With { fd, at: a.cast_mut(), n })
}

/// `iosleep`: milliseconds; 0, or -1 if it was interrupted.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_iosleep(io: *mut Ioproc, ms: c_long) -> c_int {
    extern "C" fn sleeps(arg: *mut c_void) -> c_long {
        let ms = with(arg).n;
        let time = libc::timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
        // SAFETY: a valid place.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }.into()
    }
    calls(io, sleeps, With { fd: 0, at: std::ptr::null_mut(), n: ms }) as c_int
}
