//! What `chappe run --io` puts before a program's C library: pipes between unmodified programs whose bytes go through memory (section 1.3.5,
//! table 7.1).
//!
//! | | |
//! |---|---|
//! | `known` | the functions of the C library that this library understands |
//! | `gate` | whether a program uses these alone |
//! | `patch` | the C library's entry points, turned to `calls` |
//! | `calls` | what takes the place of read, write, close and others |
//! | `ends` | the pipes of the process: when a lane is begun, and when it is left |
//! | `asked` | what `chappe run` says of the run |
//!
//! - I1 A program is left as it is unless all of it is understood: each name that its relocations and those of its libraries import is in `known`,
//!   their code has no system call instruction, and the C library's entries could be turned. Such a program has one thread, starts no other, and
//!   hands no descriptor on. One of which that cannot be told is left as it is.
//! - I2 A pipe is the kernel's until it has brought much. Then, if its writer is understood and the only process that has the writing end, and
//!   so its reader, the two begin a lane (`chappe_pipes`). Of a pipe that the process has made itself, since it was understood, nobody else has an
//!   end: that need not be looked for. Nobody else can read or write there as long as the lane is used, but for the holders
//!   that `chappe_pipes` does not see.
//! - I3 Any call on a pipe with a lane that is neither read nor write leaves the lane before: close, dup2 over it, most of fcntl, poll, writev. So
//!   does the first use of another descriptor of the same pipe. Where the lane cannot be left, the call fails, but for close and dup2.
//! - I4 A lane begins only between two calls of the program: not in a handler that has interrupted one, whichever descriptor it is on, as the kernel
//!   may begin that one again. No lane begins at an end that is asked for signals (`O_ASYNC`) or for packets (`O_DIRECT`).
//! - I5 A process that is killed, or ends, with an end of a lane leaves no process behind that could miss a byte: the other owner drains the ring, or
//!   is told by the kernel that nobody reads.
//!
//! A program that is interrupted in a call by a handler which reads or writes finds what the kernel would give it: the handler's call leaves the
//! lane in which the program is in a call, and begins none.
//!
//! Limits: where a pipe's next bytes are the kernel's and those behind them in memory, a read answers with the first alone, as read(2) may. A buffer that is not the program's own is SIGSEGV, and EFAULT without this library. What `chappe_pipes` does not see of holders is told
//! there. A program in which a system call is made by the instruction of 32-bit programs is not recognised, nor is a library that has a
//! function of its own under the name of one of the C library's, which the C library's then replaces. The C library's last words before it ends a
//! program (`free(): invalid pointer`) are written past a lane at descriptor 2. A program that makes its first pipe when it has a
//! handler for a signal is left as it is.
//!
//! With `--report` each process counts in a file of the run's (`chappe_pipes::Report`): a load and a store a call, and no more system calls
//! but where it is opened.
//!
//! On processors other than x86-64 all programs are left as they are.

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod asked;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod calls;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod ends;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod gate;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod known;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod patch;

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod begin {
    use crate::{asked, calls, ends, gate, patch};
    use libc::{c_char, c_int};
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Runs when the library is loaded.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

    extern "C" fn begin(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
        // SAFETY: the program's environment, as the dynamic linker hands it over.
        if unsafe { asked::look(environment) } && (0..3).any(|fd| ends::pipe_number(fd).is_some()) {
            arm();
        }
    }

    /// The C library's entries are turned.
    static IS_ARMED: AtomicBool = AtomicBool::new(false);

    /// Turns the C library's entries, if this is a program for it: once.
    fn arm() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        // Relaxed: a program with several threads is none for it, whichever of them looks.
        if asked::is_on() && !IS_DONE.swap(true, Ordering::Relaxed) {
            if let Err(why) = gate::imports() {
                asked::left_alone(format_args!("{why}"));
            } else if let Err(why) = patch::turn(&calls::TURNED) {
                asked::left_alone(format_args!("{why}"));
            } else {
                IS_ARMED.store(true, Ordering::Relaxed); // Relaxed: there is one thread.
            }
        }
    }

    /// The same in the middle of the program. A handler may have interrupted one of the functions that are turned, and be the caller here, or
    /// come while they are: so only in a program that has none.
    fn arm_late() {
        // Relaxed: as above.
        if asked::is_on() && !IS_ARMED.load(Ordering::Relaxed) && !has_handlers() {
            arm();
        }
    }

    /// # Safety
    /// As POSIX has it.
    unsafe fn make(both: *mut c_int, flags: c_int) -> c_int {
        arm_late();
        // SAFETY: the caller's.
        let made = unsafe { libc::syscall(libc::SYS_pipe2, both, flags) as c_int };
        // Relaxed: as above.
        if made == 0 && IS_ARMED.load(Ordering::Relaxed) {
            // SAFETY: the kernel has filled it.
            ends::made(unsafe { [*both, *both.add(1)] });
        }
        made
    }

    /// Whether the program handles a signal.
    fn has_handlers() -> bool {
        const SIGNALS: c_int = 64;
        /// The kernel's `sigaction`, which has the handler first.
        type Kernels = [usize; 4];
        (1..=SIGNALS).any(|signal| {
            let mut now = MaybeUninit::<Kernels>::uninit();
            let nothing = std::ptr::null::<Kernels>();
            // SAFETY: a place for what is told, of the kernel's size; a mask has eight bytes.
            unsafe {
                let told = libc::syscall(libc::SYS_rt_sigaction, signal, nothing, now.as_mut_ptr(), 8usize);
                told != 0 || ![libc::SIG_DFL, libc::SIG_IGN].contains(&now.assume_init()[0])
            }
        })
    }

    /// POSIX' function: a program that makes a pipe may be one for it, though it began without.
    ///
    /// # Safety
    /// As POSIX has it.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn pipe(both: *mut c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { make(both, 0) }
    }

    /// Linux's function, as above.
    ///
    /// # Safety
    /// As its manual has it.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn pipe2(both: *mut c_int, flags: c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { make(both, flags) }
    }
}
