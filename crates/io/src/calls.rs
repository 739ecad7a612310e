//! What takes the place of the C library's functions. They are no points of cancellation any more: a program with several threads, in which
//! one could be cancelled, is left as it is.

use crate::ends;
use crate::patch::Turned;
use libc::{c_int, c_long, c_void};

/// What is turned. All of it, or a descriptor could be closed, or a pipe written, behind the back of `ends`.
pub static TURNED: [Turned; 19] = [
    Turned { name: c"read", to: read as *const c_void },
    Turned { name: c"__read_nocancel", to: read as *const c_void },
    Turned { name: c"write", to: write as *const c_void },
    Turned { name: c"__write_nocancel", to: write as *const c_void },
    Turned { name: c"close", to: close as *const c_void },
    Turned { name: c"__close_nocancel", to: close as *const c_void },
    Turned { name: c"dup2", to: dup2 as *const c_void },
    Turned { name: c"dup3", to: dup3 as *const c_void },
    Turned { name: c"fcntl", to: fcntl as *const c_void },
    Turned { name: c"ioctl", to: ioctl as *const c_void },
    Turned { name: c"readv", to: readv as *const c_void },
    Turned { name: c"writev", to: writev as *const c_void },
    Turned { name: c"poll", to: poll as *const c_void },
    Turned { name: c"ppoll", to: ppoll as *const c_void },
    Turned { name: c"select", to: select as *const c_void },
    Turned { name: c"splice", to: splice as *const c_void },
    Turned { name: c"tee", to: tee as *const c_void },
    Turned { name: c"vmsplice", to: vmsplice as *const c_void },
    Turned { name: c"sendfile", to: sendfile as *const c_void },
];

/// # Safety
/// As POSIX has it.
unsafe extern "C" fn read(fd: c_int, into: *mut u8, len: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { ends::read(fd, into, len) }
}

/// # Safety
/// As POSIX has it.
unsafe extern "C" fn write(fd: c_int, from: *const u8, len: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { ends::write(fd, from, len) }
}

extern "C" fn close(fd: c_int) -> c_int {
    // SAFETY: the program's own descriptor.
    ends::replace(fd, "close", || unsafe { libc::syscall(libc::SYS_close, fd) as c_int })
}

extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    // SAFETY: as above.
    let call = || unsafe { libc::syscall(libc::SYS_dup2, from, to) as c_int };
    if from == to { call() } else { ends::replace(to, "dup2", call) }
}

extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: as above.
    let call = || unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) as c_int };
    if from == to { call() } else { ends::replace(to, "dup3", call) }
}

extern "C" fn fcntl(fd: c_int, what: c_int, argument: c_long) -> c_int {
    const STREAM: c_int = libc::O_NONBLOCK | libc::O_APPEND | libc::O_ACCMODE;
    let makes_no_difference = match what {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_GETFD | libc::F_SETFD | libc::F_GETFL => true,
        // Not packets, and no signals.
        libc::F_SETFL => argument as c_int & !STREAM == 0,
        _ => false,
    };
    // SAFETY: the caller's argument.
    let call = || unsafe { libc::syscall(libc::SYS_fcntl, fd, what, argument) };
    (if makes_no_difference { call() } else { ends::apart(Some(fd), "fcntl", call) }) as c_int
}

extern "C" fn ioctl(fd: c_int, what: libc::c_ulong, argument: c_long) -> c_int {
    // SAFETY: the caller's argument.
    ends::apart(Some(fd), "ioctl", || unsafe { libc::syscall(libc::SYS_ioctl, fd, what, argument) }) as c_int
}

/// Calls that know nothing of lanes, and are the kernel's for all pipes from then on.
macro_rules! unlearned {
    ($($name:ident = $number:ident($($argument:ident),*);)*) => {$(
        extern "C" fn $name($($argument: c_long),*) -> c_long {
            // SAFETY: the caller's arguments, as the kernel has them.
            ends::apart(None, stringify!($name), || unsafe { libc::syscall(libc::$number, $($argument),*) })
        }
    )*};
}

unlearned! {
    readv = SYS_readv(fd, pieces, count);
    writev = SYS_writev(fd, pieces, count);
    poll = SYS_poll(asked, count, limit);
    select = SYS_select(count, read, write, fail, limit);
    splice = SYS_splice(from, at, to, place, len, flags);
    tee = SYS_tee(from, to, len, flags);
    vmsplice = SYS_vmsplice(fd, pieces, count, flags);
    sendfile = SYS_sendfile(to, from, at, len);
}

extern "C" fn ppoll(asked: c_long, count: c_long, limit: *const libc::timespec, mask: c_long) -> c_long {
    // The kernel writes into it what is left, and the C library's function does not.
    // SAFETY: the caller's time, or none.
    let mut limit = unsafe { limit.as_ref() }.copied();
    let limit = limit.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the caller's arguments; a mask has eight bytes.
    ends::apart(None, "ppoll", || unsafe { libc::syscall(libc::SYS_ppoll, asked, count, limit, mask, 8usize) })
}
