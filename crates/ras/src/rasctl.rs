//! `rasctl`: the paper's interface to restartable atomic sequences.
//!
//! netbsd-restartable-sequences, section 3.1: a program tells the address range of a piece of its code; a thread that is
//! preempted within the range goes on at the range's beginning. Sixteen at most; errors as NetBSD's; inherited by fork, dropped by
//! exec; a count of restarts for each, which here can be read (the paper's has no interface, section 3.2).
//!
//! ```no_run
//! use chappe_ras::rasctl;
//!
//! unsafe extern "C" {
//!     static ras_start: u8;
//!     static ras_end: u8;
//! }
//! let (from, len) = (&raw const ras_start, &raw const ras_end as usize - &raw const ras_start as usize);
//! // SAFETY: the code between the two is position-independent, restartable, and writes once, last.
//! let entry = unsafe { rasctl::install(from, len)? };
//! // SAFETY: it takes the address of a word and gives what the word held. The result's register may be that of the first
//! // argument, which must stay as it was until the write: so the word's address is the second.
//! let test_and_set = unsafe { std::mem::transmute::<*const (), extern "C" fn(usize, *mut u32) -> u32>(entry) };
//! let mut word = 0;
//! assert_eq!((test_and_set(0, &mut word), test_and_set(0, &mut word)), (0, 1));
//! # Ok::<(), rasctl::RasError>(())
//! ```
//!
//! # What is different from the paper's kernel
//!
//! Linux' kernel does not know ranges; it knows what each thread declares of itself. So the range is copied, once, into a wrapper that
//! declares it (`synthesis.rs`), and:
//!
//! 1. **It is entered through a pointer**, which [`install`] and [`entry`] give. A thread that runs the code where it was written runs it
//!    unprotected. A search for program counters within the range finds none: the copies are elsewhere.
//! 2. **It is a function**: the copy is called, and returns to its caller behind the last byte of the range (or at a return within it, if
//!    nothing was written before). The stack pointer at the end is what it was at the beginning. The range may jump within itself and to
//!    its own end, but neither refer to anything else relative to itself, nor jump or call out of it: addresses come in registers. No check
//!    finds out.
//! 3. **Registers**: only the program counter is reset, as in the paper. Registers are as the aborted run left them, so arguments must
//!    still be there when it begins anew: the range must not overwrite what it takes. The wrapper has for itself r10 and r11 on x86_64,
//!    x15, x16 and x17 on aarch64; the flags are undefined at the beginning. Of vector registers only those that carry arguments are kept,
//!    to 128 bits, the first time that a thread enters, if its C library gives it no area.
//! 4. **It is atomic only against threads on the same processor**, as the paper's, which is for machines of one. Here machines have more:
//!    it is for words of one processor, or for threads that stay on one. Two threads on two processors lose updates.
//! 5. **Signals restart as well**: a handler that ran in the middle starts it again. (The paper's design: "asynchronous events ... do not
//!    cause a restart".) So it is atomic against handlers of the same thread, too.
//! 6. **Purging** "affects the sequence immediately" for threads that enter it afterwards: the same pointer then runs it unprotected. A
//!    thread that is in it at the time is still started again. Its pages stay; the same range with the same bytes installed anew has the
//!    same pointer and counts from 0. Others have pages of their own: a program that installs and purges ever different code grows.
//! 7. **Debuggers are not kept off**: NetBSD refuses `PT_WRITE_I` into a range and steps over it as a whole. Linux does neither: a
//!    breakpoint within the copy traps, which starts it again, for ever, and so does stepping through it. A breakpoint behind the call and
//!    `finish` work. (Tools learn where sequences end from a section of the program; copies are not in it.)
//! 8. **An installation is of this process's memory**: `fork` copies it, with the counts so far, and the copies count apart. `exec` drops
//!    it. A fork waits until no thread is in a call of this module: a signal handler that may have interrupted such a call of its own
//!    thread must not fork, because it would wait for ever. A bare `clone` by another thread during an installation is not handled; the
//!    child of `vfork`, which is in its parent's memory, must not call this module.
//! 9. **It may be unavailable**: where there are no sequences (an old kernel, a filter, an emulator, a self-test that failed),
//!    [`RasError::Unsupported`], as NetBSD's `EOPNOTSUPP`; nothing is installed then, so purging finds nothing, and purging all succeeds.
//!    Where a policy forbids code that is made at run time, [`RasError::Memory`].
//!
//! The paper's five requirements of a range (section 2) hold: one entry, at its beginning; one exit; one write to what others see, as the
//! last instruction; no system call or instruction that traps; no call.

use crate::gate;
use crate::mechanism::interlocked as latch;
use crate::synthesis::Made;
use chappe_plat::atomic::AtomicU32;
use chappe_plat::code;
use chappe_plat::forks::{Around, Nest};
use std::cell::UnsafeCell;

/// The most that a process may have installed at a time.
pub const MOST: usize = 16;

/// The paper's number for [`Op::Install`].
pub const RAS_INSTALL: i32 = 0;
/// The paper's number for [`Op::Purge`].
pub const RAS_PURGE: i32 = 1;
/// The paper's number for [`Op::PurgeAll`].
pub const RAS_PURGE_ALL: i32 = 2;

const ESRCH: i32 = 3;
const ENOMEM: i32 = 12;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// What [`rasctl`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Installs the range.
    Install,
    /// Removes the range, which was installed exactly so.
    Purge,
    /// Removes all, whatever the range says.
    PurgeAll,
}

impl TryFrom<i32> for Op {
    type Error = RasError;

    fn try_from(op: i32) -> Result<Op, RasError> {
        match op {
            RAS_INSTALL => Ok(Op::Install),
            RAS_PURGE => Ok(Op::Purge),
            RAS_PURGE_ALL => Ok(Op::PurgeAll),
            other => Err(RasError::Operation(other)),
        }
    }
}

/// Why it was not done. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RasError {
    /// `EINVAL`: no such operation.
    #[error("{0} is no operation on a sequence: 0 installs, 1 purges, 2 purges all")]
    Operation(i32),
    /// `EINVAL`: the range is empty.
    #[error("the sequence is empty: its length is 0")]
    Length,
    /// `EINVAL`: the range is not, or not as a whole, memory of this process that can be read and executed.
    #[error("the sequence is not code of this process: not all of it can be read and executed")]
    Address,
    /// `EINVAL`: there are [`MOST`] already.
    #[error("{MOST} sequences are installed already: purge one that is not needed")]
    Full,
    /// `EEXIST`: the range overlaps with one that is installed.
    #[error("the sequence overlaps with one that is installed")]
    Overlap,
    /// `ESRCH`: this very range is not installed.
    #[error("no sequence of exactly this address and length is installed")]
    NotInstalled,
    /// The system's answer, when it refuses memory, or code that is made at run time.
    #[error("the system refuses memory for code that is made at run time: error {0}")]
    Memory(i32),
    /// `EOPNOTSUPP`: there are no restartable sequences here, or it cannot be seen what is code because there is no /proc. See
    /// `chappe doctor`.
    #[error("there are no restartable sequences here: use another mechanism (`chappe doctor` says what there is)")]
    Unsupported,
}

impl RasError {
    /// NetBSD's number for it.
    pub fn errno(&self) -> i32 {
        match self {
            RasError::Operation(_) | RasError::Length | RasError::Address | RasError::Full => EINVAL,
            RasError::Overlap => EEXIST,
            RasError::NotInstalled => ESRCH,
            RasError::Memory(errno) => *errno,
            RasError::Unsupported => EOPNOTSUPP,
        }
    }
}

/// A sequence that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Where the original begins.
    pub addr: *const u8,
    /// How long it is.
    pub len: usize,
    /// Where to enter the copy.
    pub entry: *const (),
    /// How often it was started again since it was installed.
    pub restarts: u64,
}

/// A sequence that was installed once.
struct Sequence {
    addr: usize,
    body: Box<[u8]>,
    made: Made,
    installed: bool,
}

impl Sequence {
    fn is(&self, addr: usize, len: usize) -> bool {
        self.installed && self.addr == addr && self.body.len() == len
    }
}

/// All of them, under a lock that is held while the process forks: so a child finds it free, and the list whole.
struct Registry {
    latch: AtomicU32,
    sequences: UnsafeCell<Vec<Sequence>>,
}

// SAFETY: the list is touched under the lock alone.
unsafe impl Sync for Registry {}

static REGISTRY: Registry = Registry { latch: AtomicU32::new(0), sequences: UnsafeCell::new(Vec::new()) };
static FORKS: Around = Around::new(before_fork, after_fork);
static NEST: Nest = Nest::new();

extern "C" fn before_fork() {
    if !NEST.is_inner() {
        latch::acquire(&REGISTRY.latch);
        NEST.begin();
    }
}

extern "C" fn after_fork() {
    if NEST.end() {
        latch::release(&REGISTRY.latch);
    }
}

fn with<R>(act: impl FnOnce(&mut Vec<Sequence>) -> R) -> R {
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            latch::release(&REGISTRY.latch);
        }
    }
    FORKS.ensure();
    latch::acquire(&REGISTRY.latch);
    let _held = Held;
    // SAFETY: under the lock.
    act(unsafe { &mut *REGISTRY.sequences.get() })
}

/// Installs, purges, or purges all, as the paper's system call. Use [`entry`] for the pointer through which an installed one is
/// entered. See the module's head for what is different. Section 3.1.
///
/// Blocks only while another thread is in a call of this module. Not to be called by a signal handler, which must not fork during such a
/// call either.
///
/// # Errors
/// [`RasError`], whose [`RasError::errno`] is NetBSD's. `addr` and `len` mean nothing to [`RAS_PURGE_ALL`].
///
/// # Safety
/// As [`install`] and [`purge`].
pub unsafe fn rasctl(addr: *const u8, len: usize, op: i32) -> Result<(), RasError> {
    match Op::try_from(op)? {
        // SAFETY: the caller's promise, all three.
        Op::Install => unsafe { install(addr, len) }.map(drop),
        // SAFETY: as above.
        Op::Purge => unsafe { purge(addr, len) },
        Op::PurgeAll => {
            // SAFETY: as above.
            unsafe { purge_all() };
            Ok(())
        }
    }
}

/// Installs the `len` bytes of code at `addr` as a restartable sequence. Answers where to enter it: a pointer to a function whose
/// parameters and result are those of the code, in the registers where the code expects them. The pointer stays valid for
/// ever; it runs unprotected once the sequence was purged.
///
/// Reads the list of the process's mappings first, to see that the range is code: that costs some 10 us or more, and no fault.
/// Maps two pages for each sequence that was never installed before. Blocking and signals: see [`rasctl`].
///
/// # Errors
/// In this order: [`RasError::Length`], [`RasError::Address`], [`RasError::Unsupported`], [`RasError::Overlap`],
/// [`RasError::Full`], [`RasError::Memory`]. (The paper gives no order; NetBSD's own counts first, and looks for overlaps
/// afterwards: one that overlaps where there are sixteen is its `EINVAL`, and `EEXIST` here.)
///
/// # Safety
/// The range is code that can be run elsewhere and started again at any point, as points 2, 3 and 4 of the module's head and the paper's
/// five requirements say; no thread unmaps or changes it during the call.
pub unsafe fn install(addr: *const u8, len: usize) -> Result<*const (), RasError> {
    let at = addr as usize;
    if len == 0 {
        return Err(RasError::Length);
    }
    match code::can_be_executed(at, len) {
        Some(true) => {}
        Some(false) => return Err(RasError::Address),
        None => return Err(RasError::Unsupported),
    }
    if !gate::sequences() {
        return Err(RasError::Unsupported);
    }
    // SAFETY: it can be read, and the caller promises that it stays as it is.
    let body = unsafe { std::slice::from_raw_parts(addr, len) };
    with(|all| {
        if all.iter().any(|s| s.installed && s.addr < at + len && at < s.addr + s.body.len()) {
            return Err(RasError::Overlap);
        }
        if all.iter().filter(|s| s.installed).count() >= MOST {
            return Err(RasError::Full);
        }
        let found = all.iter().position(|s| s.addr == at && *s.body == *body);
        let place = match found {
            Some(place) => place,
            None => {
                let made = Made::new(body).map_err(|e| RasError::Memory(e.raw_os_error().unwrap_or(ENOMEM)))?;
                all.push(Sequence { addr: at, body: body.into(), made, installed: false });
                all.len() - 1
            }
        };
        let sequence = &mut all[place];
        sequence.installed = true;
        sequence.made.forget_restarts();
        sequence.made.arm(true);
        Ok(sequence.made.entry())
    })
}

/// Removes a sequence that was installed with exactly this address and length. A thread that enters it afterwards runs unprotected.
/// Blocking and signals: see [`rasctl`].
///
/// # Errors
/// [`RasError::NotInstalled`].
///
/// # Safety
/// No soundness depends on the sequence from now on: a thread that still enters it, or is in it and "might be executing within the
/// registered atomic sequence at the time of the purge" (section 3.1), may lose updates.
pub unsafe fn purge(addr: *const u8, len: usize) -> Result<(), RasError> {
    with(|all| {
        let sequence = all.iter_mut().find(|s| s.is(addr as usize, len)).ok_or(RasError::NotInstalled)?;
        sequence.installed = false;
        sequence.made.arm(false);
        Ok(())
    })
}

/// Removes all sequences, whichever code has installed them. Blocking and signals: see [`rasctl`].
///
/// # Safety
/// As [`purge`], of each.
pub unsafe fn purge_all() {
    with(|all| {
        for sequence in all.iter_mut().filter(|s| s.installed) {
            sequence.installed = false;
            sequence.made.arm(false);
        }
    });
}

/// Where to enter the sequence that was installed with exactly this address and length.
pub(crate) fn entry_of(addr: *const u8, len: usize) -> Option<*const ()> {
    with(|all| all.iter().find(|s| s.is(addr as usize, len)).map(|s| s.made.entry()))
}

/// Where to enter the installed sequence that begins at `addr`. None: there is none. Keep it: this looks under a lock.
pub fn entry(addr: *const u8) -> Option<*const ()> {
    with(|all| all.iter().find(|s| s.installed && s.addr == addr as usize).map(|s| s.made.entry()))
}

/// How often the sequence was started again since it was installed, in this process and, before it was forked, in its parent. The paper's
/// count (section 3.2).
///
/// # Errors
/// [`RasError::NotInstalled`]: as for [`purge`].
pub fn restarts(addr: *const u8, len: usize) -> Result<u64, RasError> {
    with(|all| all.iter().find(|s| s.is(addr as usize, len)).map(|s| s.made.restarts())).ok_or(RasError::NotInstalled)
}

/// All that are installed, in order of their addresses.
pub fn installed() -> Vec<Installed> {
    let mut found: Vec<Installed> = with(|all| {
        let there = all.iter().filter(|s| s.installed);
        there
            .map(|s| Installed {
                addr: s.addr as *const u8,
                len: s.body.len(),
                entry: s.made.entry(),
                restarts: s.made.restarts(),
            })
            .collect()
    });
    found.sort_by_key(|s| s.addr as usize);
    found
}
