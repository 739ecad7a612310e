//! The area that the kernel keeps for each thread for restartable sequences (rseq), and the fence that aborts them.
//!
//! The kernel writes into the area on which processor the thread runs (and its concurrency id, where the kernel has one), and reads from it
//! which sequence the thread is in. If it takes a thread off the processor within a sequence, it makes the thread resume at that sequence's
//! abort address. A C library may have registered an area for each thread already. Otherwise this library has an area for each thread,
//! registered at the thread's first use of it.
//!
//! Both lie at a fixed distance from the thread pointer: [`offset`]. Where there is none (an old kernel, a filter, an emulator, or another
//! library has registered an area of its own), the offset is that of an area that is never written: its processor number equals none that a
//! sequence could compare it with, so that all sequences give up by themselves, without a check.
//!
//! That the kernel accepts an area does not prove that it aborts sequences: see the self-test of `chappe-ras`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering};

/// What stands in front of each abort address.
#[cfg(target_arch = "x86_64")]
pub const SIGNATURE: u32 = 0x5305_3053;
/// What stands in front of each abort address.
#[cfg(target_arch = "aarch64")]
pub const SIGNATURE: u32 = 0xd428_bc00;
/// What stands in front of each abort address: there are no sequences here.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const SIGNATURE: u32 = 0;

/// Where the number of the processor is in the area, or what says that there is none: never below 2^31 - 1 then.
pub const CPU_ID: usize = 4;
/// Where the address of the sequence's descriptor is in the area.
pub const DESCRIPTOR: usize = 8;
/// Where the thread's concurrency id is in the area.
pub const CONCURRENCY_ID: usize = 24;

/// The size that every kernel with rseq takes.
const LEN: u32 = 32;
/// Where it is noted, behind this library's own area, that its thread has given it up.
const GONE: usize = 32;
/// The area is not registered.
const UNREGISTERED: u32 = u32::MAX;
/// The attempt to register it failed.
const FAILED: u32 = u32::MAX - 1;
const UNREGISTER: libc::c_int = 1;
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

const MEMBARRIER_RSEQ: libc::c_int = 1 << 7;
const MEMBARRIER_REGISTER_RSEQ: libc::c_int = 1 << 8;
const ON_ONE_CPU: libc::c_int = 1;

/// Why there are no sequences, or whose area it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The C library has registered it.
    Library,
    /// This library registers it, thread by thread.
    Own,
    /// There is none: the kernel's answer to the attempt to register.
    None(i32),
    /// There is one, but the kernel has no fence that aborts sequences: its answer.
    NoFence(i32),
    /// There are no sequences for this processor architecture.
    Architecture,
}

/// What was found: `offset:32 | error number:24 | kind:8`; 0: not yet looked. No lock: a fork may come while another thread
/// looks, or a signal handler ask. The first that is found is kept.
// Ordering: Relaxed: a word, which says all.
static FOUND: AtomicU64 = AtomicU64::new(0);

const LIBRARY: u64 = 1;
const OWN: u64 = 2;
const NONE: u64 = 3;
const NO_FENCE: u64 = 4;
const ARCHITECTURE: u64 = 5;

fn to_word(area: Area, offset: isize) -> u64 {
    let with = |kind, e: i32| kind | u64::from(e as u32 & 0xff_ffff) << 8;
    let area = match area {
        Area::Library => LIBRARY,
        Area::Own => OWN,
        Area::None(e) => with(NONE, e),
        Area::NoFence(e) => with(NO_FENCE, e),
        Area::Architecture => ARCHITECTURE,
    };
    area | (offset as u64) << 32
}

fn from_word(word: u64) -> (Area, isize) {
    let e = (word >> 8) as i32 & 0xff_ffff;
    let area = match word & 0xff {
        LIBRARY => Area::Library,
        OWN => Area::Own,
        NONE => Area::None(e),
        NO_FENCE => Area::NoFence(e),
        _ => Area::Architecture,
    };
    (area, ((word >> 32) as i32) as isize)
}

/// As in the word: what sequences read. From 0 to its value, and never again.
// Ordering: Relaxed: all store the same, and each thread has been in `prepare` before it reads.
static OFFSET: AtomicIsize = AtomicIsize::new(0);

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .tdata.chappe_rseq_own,\"awT\",@progbits",
    ".balign 32",
    ".hidden chappe_rseq_own",
    ".globl chappe_rseq_own",
    ".type chappe_rseq_own, @object",
    ".size chappe_rseq_own, 64",
    "chappe_rseq_own:",
    ".long 0, 0xffffffff, 0, 0, 0, 0, 0, 0",
    // This library's own: see `GONE`.
    ".long 0, 0, 0, 0, 0, 0, 0, 0",
    ".popsection",
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .tdata.chappe_rseq_own,\"awT\",%progbits",
    ".balign 32",
    ".hidden chappe_rseq_own",
    ".globl chappe_rseq_own",
    ".type chappe_rseq_own, %object",
    ".size chappe_rseq_own, 64",
    "chappe_rseq_own:",
    ".long 0, 0xffffffff, 0, 0, 0, 0, 0, 0",
    // This library's own: see `GONE`.
    ".long 0, 0, 0, 0, 0, 0, 0, 0",
    ".popsection",
);

/// The distance of this library's own area from the thread pointer.
fn own() -> isize {
    let at: isize;
    // SAFETY: reads where the linker says that the symbol is.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {at}, qword ptr [rip + chappe_rseq_own@GOTTPOFF]", at = out(reg) at, options(nostack, pure, readonly))
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "adrp {at}, :gottprel:chappe_rseq_own",
            "ldr {at}, [{at}, :gottprel_lo12:chappe_rseq_own]",
            at = out(reg) at,
            options(nostack, pure, readonly)
        )
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        at = 0;
    }
    at
}

/// The C library's distance, if it has registered an area, and how much of it the kernel knows.
fn library() -> Option<(isize, u32)> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: weak: null where there is no such symbol.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {o}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {s}, qword ptr [rip + __rseq_size@GOTPCREL]",
            o = out(reg) offset,
            s = out(reg) size,
            options(nostack, pure, readonly)
        )
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "adrp {o}, :got:__rseq_offset",
            "ldr {o}, [{o}, :got_lo12:__rseq_offset]",
            "adrp {s}, :got:__rseq_size",
            "ldr {s}, [{s}, :got_lo12:__rseq_size]",
            o = out(reg) offset,
            s = out(reg) size,
            options(nostack, pure, readonly)
        )
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        (offset, size) = (std::ptr::null(), std::ptr::null());
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: the C library's variables, constant since before main.
    let (offset, size) = unsafe { (*offset, *size) };
    (size > 0).then_some((offset, size))
}

/// The thread pointer.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let tp: usize;
    // SAFETY: the first word of the thread's control block is its own address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("mov {tp}, qword ptr fs:[0]", tp = out(reg) tp, options(nostack, preserves_flags, pure, readonly))
    };
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("mrs {tp}, tpidr_el0", tp = out(reg) tp, options(nostack, preserves_flags, pure, nomem))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        tp = 0;
    }
    tp
}

fn field(at: usize) -> *mut AtomicU32 {
    (thread_pointer().wrapping_add_signed(offset()) + at) as *mut AtomicU32
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn call(area: usize, flags: libc::c_int) -> Result<(), i32> {
    // SAFETY: the area is the calling thread's, 32 bytes aligned to 32, and lives as long as the thread.
    let done = unsafe { libc::syscall(libc::SYS_rseq, area, LEN, flags, SIGNATURE) };
    if done == 0 { Ok(()) } else { Err(errno()) }
}

/// Registers the calling thread's own area, until the thread ends. Allocates nothing and takes no lock: it may be called by a signal
/// handler that has interrupted an allocation, or that has interrupted this function.
fn register() -> Result<(), i32> {
    let key = KEY.load(Ordering::Relaxed).wrapping_sub(1);
    // It is given up at the thread's end at the latest: its stack may be unmapped before its last instruction.
    // SAFETY: a key of ours; the value is no pointer that anybody follows.
    match unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) } {
        0 => match call(own_area(), 0) {
            // It was, by a handler: the kernel says EINVAL or EPERM of an area or a signature that is not this one.
            Err(libc::EBUSY) => Ok(()),
            done => done,
        },
        e => Err(e),
    }
}

fn membarrier(command: libc::c_int, flags: libc::c_int, cpu: u32) -> bool {
    // SAFETY: reads no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
}

fn find() -> (Area, isize) {
    if SIGNATURE == 0 {
        return (Area::Architecture, 0);
    }
    let (whose, offset) = match library() {
        Some((offset, _)) => (Area::Library, offset),
        None => match make_key().and_then(|()| register()) {
            Ok(()) => (Area::Own, own()),
            Err(e) => return (Area::None(e), own()),
        },
    };
    if membarrier(MEMBARRIER_REGISTER_RSEQ, 0, 0) && fence(None) {
        return (whose, offset);
    }
    let e = errno();
    if whose == Area::Own {
        leave(std::ptr::null_mut());
    }
    (Area::NoFence(e), own())
}

fn own_area() -> usize {
    thread_pointer().wrapping_add_signed(own())
}

/// Finds out what there is, once a process. Early is best: in a process of many threads the first time takes milliseconds.
/// A forked child keeps what it has found; after exec it is another program.
pub fn prepare() -> Area {
    let mut word = FOUND.load(Ordering::Relaxed);
    if word == 0 {
        let (area, offset) = find();
        let found = to_word(area, offset);
        let first = FOUND.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed);
        word = first.map_or_else(|theirs| theirs, |_| found);
    }
    let (area, offset) = from_word(word);
    // A thread that returns from here finds it. Relaxed, both: all store the same.
    if OFFSET.load(Ordering::Relaxed) != offset {
        OFFSET.store(offset, Ordering::Relaxed);
    }
    area
}

/// The distance of every thread's area from its thread pointer. Meaningless before [`prepare`].
#[inline(always)]
pub fn offset() -> isize {
    OFFSET.load(Ordering::Relaxed)
}

/// Where [`offset`] is kept, for sequences that read it themselves.
pub fn offset_place() -> *const isize {
    OFFSET.as_ptr()
}

/// What has the C library call [`leave`] at the end of each thread that has entered: its key and one more. 0: none yet. From 0 to
/// its value, and never again.
// Ordering: Relaxed: a number, which says all; it was made before any thread enters.
static KEY: AtomicU32 = AtomicU32::new(0);
/// Below this the C library has room for each key in each thread. For others it allocates at a thread's first use.
const KEYS: u32 = 32;

fn make_key() -> Result<(), i32> {
    if KEY.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let mut key = 0;
    // SAFETY: a valid place, and a function that stays: nothing that has sequences in it is ever unmapped.
    match unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) } {
        0 => {}
        e => return Err(e),
    }
    let kept = key < KEYS && KEY.compare_exchange(0, key + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if !kept {
        // SAFETY: ours, and nobody has heard of it.
        unsafe { libc::pthread_key_delete(key) };
    }
    if KEY.load(Ordering::Relaxed) == 0 { Err(libc::EAGAIN) } else { Ok(()) }
}

fn gone() -> &'static AtomicU32 {
    // SAFETY: the calling thread's, and used at once.
    unsafe { &*((own_area() + GONE) as *const AtomicU32) }
}

/// Makes sure that the calling thread has an area, if this library registers it: for the slow path of a thread that found no processor
/// number. True: it may have an area now that it did not have before, try again. May be called in a signal handler, whatever that has
/// interrupted, once `prepare` has returned to any thread.
#[cold]
pub fn enter() -> bool {
    // Relaxed: the thread's own.
    if prepare() != Area::Own || gone().load(Ordering::Relaxed) != 0 {
        return false;
    }
    // SAFETY: our own area, of the calling thread.
    let word = unsafe { &*field(CPU_ID) };
    // Relaxed: the thread's own, and the kernel's.
    match word.load(Ordering::Relaxed) {
        UNREGISTERED => {
            let entered = register().is_ok();
            if !entered {
                // The kernel does not know it. Relaxed: as above.
                word.store(FAILED, Ordering::Relaxed);
            }
            entered
        }
        // A handler has entered since.
        cpu => (cpu as i32) >= 0,
    }
}

/// Takes the calling thread's own area away again, for good: the thread ends.
extern "C" fn leave(_: *mut c_void) {
    // Relaxed: the thread's own. First: a handler may come any time, and is not to register it anew.
    gone().store(1, Ordering::Relaxed);
    if call(own_area(), UNREGISTER).is_ok() {
        // SAFETY: our own area, which the kernel does not know any more.
        // Relaxed: the thread's own.
        unsafe { &*((own_area() + CPU_ID) as *const AtomicU32) }.store(FAILED, Ordering::Relaxed);
    }
}

/// On which processor the calling thread was a moment ago. None: it has no area, or not yet.
#[inline(always)]
pub fn cpu() -> Option<u32> {
    // SAFETY: the calling thread's area, or the one that nobody writes.
    // Relaxed: the kernel writes it when this thread does not run.
    let cpu = unsafe { &*field(CPU_ID) }.load(Ordering::Relaxed);
    ((cpu as i32) >= 0).then_some(cpu)
}

/// Two threads that ran at once were seen with one concurrency id. From false to true only.
// Ordering: Relaxed: a hint that comes early, from the code that decides whether there are sequences at all.
static DISTRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on no concurrency ids are used: two threads that ran at once had the same.
pub fn distrust_concurrency_ids() {
    DISTRUSTED.store(true, Ordering::Relaxed);
}

/// Whether the kernel keeps concurrency ids: small numbers, of which no two threads of a process that run have the same.
///
/// From Linux 6.4 to 6.8 that was not so where a switch between address spaces is no full barrier, as on aarch64: two threads that
/// run could have the same (Linux commit fe90f3967bdb). No self-test finds a race as rare as that. So there the kernel's
/// version decides, though some kernels of 6.6 and 6.8 have the mend, too.
pub fn has_concurrency_ids() -> bool {
    // SAFETY: reads what the kernel told at the program's start.
    let known = unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) };
    let registered = if prepare() == Area::Library { library().map_or(0, |l| l.1) } else { LEN };
    let trusted = !DISTRUSTED.load(Ordering::Relaxed) && are_told_apart(cfg!(target_arch = "x86_64"), &release());
    known >= 28 && registered >= 28 && trusted && matches!(prepare(), Area::Library | Area::Own)
}

/// Whether a kernel of this release gives no concurrency id to two threads that run.
fn are_told_apart(switches_are_barriers: bool, release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    switches_are_barriers || (numbers.next(), numbers.next()) >= (Some(6), Some(9))
}

/// The kernel's release, as `uname -r` has it.
fn release() -> String {
    let mut name = std::mem::MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: a valid place, which holds C strings before and after.
    let release = unsafe {
        libc::uname(name.as_mut_ptr());
        std::ffi::CStr::from_ptr((*name.as_ptr()).release.as_ptr())
    };
    release.to_string_lossy().into_owned()
}

/// The calling thread's concurrency id a moment ago. Only where [`has_concurrency_ids`], and the thread has an area.
#[inline(always)]
pub fn concurrency_id() -> u32 {
    // SAFETY: as in `cpu`.
    // Relaxed: as above.
    unsafe { &*field(CONCURRENCY_ID) }.load(Ordering::Relaxed)
}

/// When it returns, every sequence of this process that was under way at the call, on this processor or on all, was aborted or
/// has ended; and what the caller stored before is seen by those that follow. False: the kernel refuses it now (a filter was
/// installed): then nothing is known, and the caller must not go on as if it were.
#[must_use]
pub fn fence(cpu: Option<u32>) -> bool {
    // SeqCst: for this thread itself.
    std::sync::atomic::fence(Ordering::SeqCst);
    match cpu {
        Some(cpu) => membarrier(MEMBARRIER_RSEQ, ON_ONE_CPU, cpu),
        None => membarrier(MEMBARRIER_RSEQ, 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_an_area_where_there_are_any() {
        if !matches!(prepare(), Area::Library | Area::Own) {
            println!("not tested: every_thread_has_an_area_where_there_are_any: {:?}", prepare());
            return;
        }
        let has = || cpu().or_else(|| enter().then(cpu).flatten()).is_some();
        assert!(has());
        assert!(std::thread::spawn(has).join().unwrap());
        assert!(fence(None) && fence(cpu()));
    }
    #[test]
    fn a_processor_without_barriers_at_switches_is_judged_by_the_kernel_version() {
        for (release, told) in [
            ("6.9.0", true),
            ("6.18.44-fc-v669", true),
            ("6.10-rc1", true),
            ("7.0.1", true),
            ("6.8.12-generic", false),
            ("6.6.30", false),
            ("6.4", false),
            ("5.15.0", false),
            ("", false),
            ("none", false),
        ] {
            assert_eq!(are_told_apart(false, release), told, "{release}");
            assert!(are_told_apart(true, release), "{release}");
        }
        assert_eq!(release(), std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    }
}
