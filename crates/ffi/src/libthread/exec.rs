//! Other programs: procexec, threadspawn, threadwaitchan.
//!
//! A program is started with posix_spawn(3), which reports a failed start, and a kernel thread waits for its end. Its exit status goes to the
//! channel of `threadwaitchan`, or is kept until there is one.

use super::channel::{Channel, chappe_chancreate, chappe_channbsend, chappe_chansend, chappe_sendul};
use super::fatal;
use super::task::{current, enters};
use std::ffi::{c_char, c_int, c_ulong};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

/// How many ends of programs the channel has room for.
const ROOM: c_int = 16;

/// What a program came to, as the header has it; one block, with its text behind it.
#[repr(C)]
pub struct Waitmsg {
    pid: c_int,
    /// Of the user, of the system, and in all: milliseconds.
    time: [c_ulong; 3],
    msg: *mut c_char,
}

struct Waits {
    channel: *mut Channel,
    kept: Vec<*mut Waitmsg>,
}
// SAFETY: used under its lock; what is kept is nobody else's.
unsafe impl Send for Waits {}

static WAITS: Mutex<Waits> = Mutex::new(Waits { channel: null_mut(), kept: Vec::new() });

// SAFETY: libc's, as environ(7) has it.
unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// `threadwaitchan`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadwaitchan() -> *mut Channel {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    if waits.channel.is_null() {
        waits.channel = chappe_chancreate(size_of::<*mut Waitmsg>() as c_int, ROOM);
        let channel = waits.channel;
        // What there is no room for is dropped: nobody has asked for so many.
        for kept in std::mem::take(&mut waits.kept) {
            if chappe_channbsend(channel, (&raw const kept).cast()) != 1 {
                // SAFETY: one block of malloc's.
                unsafe { libc::free(kept.cast()) };
            }
        }
    }
    waits.channel
}

fn tell(message: *mut Waitmsg) {
    let channel = {
        let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.channel.is_null() {
            waits.kept.push(message);
            return;
        }
        waits.channel
    };
    chappe_chansend(channel, (&raw const message).cast());
}

fn message(pid: c_int, status: c_int, usage: &libc::rusage, lasted: u128) -> *mut Waitmsg {
    let text = if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else if libc::WEXITSTATUS(status) != 0 {
        libc::WEXITSTATUS(status).to_string()
    } else {
        String::new()
    };
    let ms = |time: libc::timeval| time.tv_sec as c_ulong * 1000 + time.tv_usec as c_ulong / 1000;
    // SAFETY: one block, with room for the text and its end behind the struct.
    unsafe {
        let at: *mut Waitmsg = libc::malloc(size_of::<Waitmsg>() + text.len() + 1).cast();
        if at.is_null() {
            fatal("threadwaitchan: no memory for the message of a program that has ended");
        }
        let msg: *mut c_char = at.add(1).cast();
        msg.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        msg.add(text.len()).write(0);
        at.write(Waitmsg { pid, time: [ms(usage.ru_utime), ms(usage.ru_stime), lasted as c_ulong], msg });
        at
    }
}

/// Begins a program; `fd`: what it has as its first three descriptors, which are closed here. -1: errno says why not.
fn spawn(fd: *mut c_int, file: *const c_char, args: *const *mut c_char, directory: *const c_char) -> c_int {
    if file.is_null() || args.is_null() {
        fatal("procexec: it needs a file's name, and an array of arguments that ends with nil");
    }
    let begun = std::time::Instant::now();
    let mut pid = 0;
    let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
    let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: valid places, and the caller's strings; the descriptors are the caller's to close.
    let why = unsafe {
        libc::posix_spawn_file_actions_init(actions.as_mut_ptr());
        libc::posix_spawnattr_init(attributes.as_mut_ptr());
        // The signals that the kernel thread that is here just now does not take are no concern of the program's.
        libc::sigemptyset(none.as_mut_ptr());
        libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), none.as_ptr());
        libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), libc::POSIX_SPAWN_SETSIGMASK as _);
        if !directory.is_null() {
            libc::posix_spawn_file_actions_addchdir_np(actions.as_mut_ptr(), directory);
        }
        if !fd.is_null() {
            for at in 0..3 {
                libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), *fd.add(at), at as c_int);
            }
        }
        let why = libc::posix_spawnp(&raw mut pid, file, actions.as_ptr(), attributes.as_ptr(), args, environ);
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        if why == 0 && !fd.is_null() {
            for at in (0..3).map(|at| *fd.add(at)).filter(|at| *at > 2) {
                libc::close(at);
            }
        }
        why
    };
    if why != 0 {
        // SAFETY: the kernel thread's own.
        unsafe { *libc::__errno_location() = why };
        return -1;
    }
    let waits = move || {
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
        loop {
            // SAFETY: valid places.
            let ended = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
            if ended == pid {
                break;
            }
            if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                return;
            }
        }
        // SAFETY: filled in.
        let usage = unsafe { usage.assume_init() };
        tell(message(pid, status, &usage, begun.elapsed().as_millis()));
    };
    if let Err(e) = std::thread::Builder::new().name(format!("wait-{pid}")).spawn(waits) {
        fatal(format_args!("procexec: no kernel thread to wait for the end of process {pid}: {e}"));
    }
    pid
}

/// Replaces the calling thread: it ends if the program could be begun.
fn exec(cpid: *mut Channel, fd: *mut c_int, file: *const c_char, args: *const *mut c_char) {
    enters();
    let pid = spawn(fd, file, args, null());
    // SAFETY: the kernel thread's own.
    let why = unsafe { *libc::__errno_location() };
    if !cpid.is_null() {
        // As an unsigned long, which -1 fills; or as an int.
        // SAFETY: made by the caller.
        chappe_sendul(cpid, pid as c_ulong);
    }
    if pid >= 0 && current().is_some() {
        super::task::chappe_threadexits(null());
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = why };
}

/// `procexec`: does not return if the program has begun.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_procexec(cpid: *mut Channel, file: *const c_char, args: *const *mut c_char) {
    exec(cpid, null_mut(), file, args);
}

/// `threadexec` of plan9port: -1, if it returns.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadexec(
    cpid: *mut Channel,
    fd: *mut c_int,
    file: *const c_char,
    args: *const *mut c_char,
) -> c_int {
    exec(cpid, fd, file, args);
    -1
}

/// `threadspawn` of plan9port: the process, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadspawn(fd: *mut c_int, file: *const c_char, args: *const *mut c_char) -> c_int {
    chappe_threadspawnd(fd, file, args, null())
}

/// `threadspawnd` of plan9port: the same in a directory; NULL: in the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadspawnd(
    fd: *mut c_int,
    file: *const c_char,
    args: *const *mut c_char,
    directory: *const c_char,
) -> c_int {
    let me = enters();
    let pid = spawn(fd, file, args, directory);
    super::task::leaves(me);
    pid
}
