//! One instruction at a time: the processor's trap flag, for a thread that steps itself.
//!
//! A thread that sets the flag is interrupted after the next instruction by SIGTRAP, whose frame holds all its registers. The handler runs
//! on the stack of the thread, and may leave it there for as long as it likes: when it returns, on whatever kernel thread, the thread goes
//! on with the next instruction.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The trap flag.
const TF: i64 = 1 << 8;
/// What the kernel says of a trap after an instruction.
const TRACE: libc::c_int = 2;

/// What the interrupted thread is to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goes {
    /// On, and is interrupted again after one instruction.
    Step,
    /// On.
    On,
}

/// Called after an instruction of a stepping thread: may leave the stack, and come back.
pub type Told = fn() -> Goes;

static TELL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static mut BEFORE: MaybeUninit<libc::sigaction> = MaybeUninit::uninit();

/// From now on SIGTRAP after an instruction goes to `told`; others go to the previous handler.
///
/// # Errors
/// `Unsupported`, where the processor has no such flag; the system's.
pub fn watch(told: Told) -> io::Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // AcqRel: once.
    if !TELL.swap(told as *mut c_void, Ordering::AcqRel).is_null() {
        return Ok(());
    }
    // SAFETY: the action is whole; what was there before is kept where the handler finds it.
    let installed = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = trapped as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART;
        libc::sigaction(libc::SIGTRAP, &raw const action, (&raw mut BEFORE).cast())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The caller is interrupted after its next instruction.
#[inline(always)]
pub fn step() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the flag is cleared by the handler.
    unsafe {
        std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
    }
}

extern "C" fn trapped(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's.
    if unsafe { (*info).si_code } == TRACE {
        // Acquire: the function.
        let told = TELL.load(Ordering::Acquire);
        // SAFETY: `watch` has stored it.
        let goes = unsafe { std::mem::transmute::<*mut c_void, Told>(told) }();
        go_on(context.cast(), goes);
        return;
    }
    // SAFETY: `watch` has kept it; called as the kernel would have.
    unsafe {
        let before = (&raw const BEFORE).cast::<libc::sigaction>();
        let action = (*before).sa_sigaction;
        if action == libc::SIG_DFL {
            libc::sigaction(signal, before, null_mut());
            libc::raise(signal);
        } else if action != libc::SIG_IGN && (*before).sa_flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void)>(action)(
                signal, info, context,
            );
        } else if action != libc::SIG_IGN {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(action)(signal);
        }
    }
}

/// What the frame says when the handler returns: perhaps on another kernel thread than it began on, whose stack for handlers is another.
fn go_on(context: *mut libc::ucontext_t, goes: Goes) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel's frame, on our stack.
    unsafe {
        let flags = &mut (*context).uc_mcontext.gregs[libc::REG_EFL as usize];
        *flags = if goes == Goes::Step { *flags | TF } else { *flags & !TF };
        libc::sigaltstack(std::ptr::null(), &raw mut (*context).uc_stack);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (context, goes, TF);
}
