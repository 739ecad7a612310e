//! What an operation executes: instructions, and among them locked ones and full fences, counted one by one.
//!
//! The processor is told to trap after each instruction (x86-64's trap flag); the handler counts, and looks whether the next one
//! is locked. So the counts are the same in every run that goes the same way, however busy the machine is. Elsewhere than on
//! x86-64 nothing is counted: zeros.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All instructions.
    pub instructions: u64,
    /// Those that are locked, and full fences.
    pub locked: u64,
}

static INSTRUCTIONS: AtomicU64 = AtomicU64::new(0);
static LOCKED: AtomicU64 = AtomicU64::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What one run of the operation executes. It must not block.
///
/// # Panics
/// When the operation does.
pub fn stepped(operation: &mut impl FnMut()) -> Counts {
    let _turn = ONE_AT_A_TIME.lock();
    let (with, without) = (steps(operation), steps(&mut || {}));
    Counts {
        instructions: with.instructions.saturating_sub(without.instructions),
        locked: with.locked.saturating_sub(without.locked),
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn steps(operation: &mut impl FnMut()) -> Counts {
    // SAFETY: the action is valid for the call; the handler has the arguments that SA_SIGINFO promises.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stepped_once as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
    INSTRUCTIONS.store(0, SeqCst);
    LOCKED.store(0, SeqCst);
    // SAFETY: sets the trap flag and no other; the handler is there.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    operation();
    // SAFETY: clears it again.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    Counts { instructions: INSTRUCTIONS.load(SeqCst), locked: LOCKED.load(SeqCst) }
}

#[cfg(not(target_arch = "x86_64"))]
fn steps(operation: &mut impl FnMut()) -> Counts {
    operation();
    Counts { instructions: INSTRUCTIONS.load(SeqCst), locked: LOCKED.load(SeqCst) }
}

#[cfg(target_arch = "x86_64")]
extern "C" fn stepped_once(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context, of this machine.
    let at = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] } as *const u8;
    INSTRUCTIONS.fetch_add(1, SeqCst);
    if is_locked(at) {
        LOCKED.fetch_add(1, SeqCst);
    }
}

/// Whether the instruction there is locked, exchanges with memory (which is locked, too), or is a full fence.
#[cfg(target_arch = "x86_64")]
fn is_locked(at: *const u8) -> bool {
    // SAFETY: the processor is about to execute it, and what is read is no more than it reads: prefixes up to the opcode, then
    // what belongs to that opcode.
    let byte = |i: usize| unsafe { at.add(i).read() };
    let (mut i, mut lock) = (0, false);
    while matches!(byte(i), 0x66 | 0xf0 | 0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x40..=0x4f) {
        lock |= byte(i) == 0xf0;
        i += 1;
    }
    match byte(i) {
        _ if lock => true,
        0x86 | 0x87 => byte(i + 1) < 0xc0,
        0x0f => byte(i + 1) == 0xae && byte(i + 2) == 0xf0,
        _ => false,
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::fence;

    #[test]
    fn locked_operations_and_fences_are_seen() {
        let word = AtomicU64::new(0);
        let swap = || _ = word.compare_exchange(1, 2, SeqCst, SeqCst);
        let locked = |f: &mut dyn FnMut()| stepped(&mut || f()).locked;
        assert_eq!(locked(&mut || _ = word.fetch_add(1, SeqCst)), 1);
        assert_eq!(locked(&mut || swap()), 1);
        assert_eq!(locked(&mut || _ = black_box(word.swap(3, SeqCst))), 1);
        assert_eq!(locked(&mut || fence(SeqCst)), 1);
        assert_eq!(locked(&mut || _ = black_box(word.load(SeqCst))), 0);
        assert_eq!(stepped(&mut || {}), Counts::default());
    }

    #[test]
    fn twice_as_much_is_more() {
        let word = AtomicU64::new(0);
        let times = |n| stepped(&mut || (0..n).for_each(|_| _ = black_box(word.load(SeqCst)))).instructions;
        assert!(times(20) > times(10) + 9);
    }
}
