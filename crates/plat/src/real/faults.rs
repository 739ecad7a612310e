//! Error traps: SIGFPE, SIGSEGV, SIGBUS and SIGILL of an instruction that the processor cannot carry out.
//!
//! One handler for the four signals asks a function of the layer above first ([`watch`]). What that function does not
//! answer goes to the handler that was there before, with the mask that this handler would have had: the standard
//! library's (its own threads' guards), a virtual machine's, Python's `faulthandler`. A signal that a process has sent
//! (`kill`) is no trap and goes there at once.
//!
//! The handler runs on the kernel thread's stack for handlers, since the stack of the thread may be used up. Another
//! trap inside the handler is delivered (SA_NODEFER), further down the same stack; all other signals wait. The function
//! may answer, or leave for good ([`Fault::leave`]): the kernel does not keep count of handlers that return.

use super::stacks::{dump, guard, page, reserve};
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// For the handler of a thread that has no stack for handlers, with a guard.
const HANDLER_STACK: usize = 68 * 1024;
/// The four.
const SIGNALS: [libc::c_int; 4] = [libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL];
/// Those that are let through while one of them is handled: a fault whose signal is blocked ends the process without a word.
const THROUGH: [libc::c_int; 5] = [libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP];

/// What an instruction could not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// SIGFPE: a division by zero, or a floating-point exception that was made to trap.
    Arithmetic,
    /// SIGSEGV: there is no memory at the address, or none that may be used so.
    Memory,
    /// SIGBUS: the file behind the memory is shorter, or has lost its storage.
    Bus,
    /// SIGILL: the processor has no such instruction.
    Instruction,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Arithmetic => "SIGFPE",
            Kind::Memory => "SIGSEGV",
            Kind::Bus => "SIGBUS",
            Kind::Instruction => "SIGILL",
        })
    }
}

/// A trap of the calling kernel thread, whose handler has called the holder.
#[derive(Debug)]
pub struct Fault {
    /// What could not be done.
    pub kind: Kind,
    /// The address that was used; of [`Kind::Arithmetic`] and [`Kind::Instruction`] that of the instruction. 0 where
    /// the processor does not say.
    pub address: usize,
    /// Where the instruction lies.
    pub instruction: usize,
    /// Where its stack pointer was.
    pub stack: usize,
    frame: *mut libc::ucontext_t,
}

impl Fault {
    /// Whether the instruction lies in the library that has the allocator (mostly the C library), whose locks the thread
    /// may have. False where that is a part of the program.
    pub fn is_in_allocator(&self) -> bool {
        // Relaxed: stored before the handlers are there.
        let [low, high] = [0, 1].map(|at| ALLOCATOR[at].load(Ordering::Relaxed));
        (low..high).contains(&self.instruction)
    }

    /// The caller will not return to the handler: restores the mask of signals and the floating-point modes that the
    /// interrupted code had. What floating-point exceptions it had met is forgotten.
    pub fn leave(&self) {
        // SAFETY: the kernel's frame, which is there until the caller has left this stack.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                /// Where the kernel has the x87's control word and MXCSR in what it has saved.
                const X87: usize = 0;
                const SSE: usize = 24;
                /// Of MXCSR: exceptions that were met.
                const MET: u32 = 0x3f;
                // The address of what was saved follows the registers.
                let saved = (&raw const (*self.frame).uc_mcontext.gregs).add(1).cast::<*const u8>().read();
                if !saved.is_null() {
                    let x87 = saved.add(X87).cast::<u16>().read_unaligned();
                    let sse = saved.add(SSE).cast::<u32>().read_unaligned() & !MET;
                    std::arch::asm!("fnclex", "ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const sse, in(reg) &raw const x87, options(nostack, preserves_flags));
                }
            }
            let mask = mask_of(self.frame);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut());
        }
    }
}

/// The mask of the interrupted code.
///
/// # Safety
/// The kernel's frame.
unsafe fn mask_of(frame: *const libc::ucontext_t) -> libc::sigset_t {
    // SAFETY: the kernel has written the first 64 signals, and knows no others.
    unsafe {
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        (&raw const (*frame).uc_sigmask).cast::<u64>().copy_to(mask.as_mut_ptr().cast(), 1);
        mask.assume_init()
    }
}

/// What is to be said if the trap ends the process. Takes no memory; what does not fit is cut off.
#[derive(Debug)]
pub struct Said {
    text: [u8; 512],
    len: usize,
}

impl Said {
    fn say(&self) {
        // SAFETY: the buffer is ours.
        unsafe { libc::write(2, self.text.as_ptr().cast(), self.len) };
    }
}

impl fmt::Write for Said {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let len = text.len().min(self.text.len() - self.len);
        self.text[self.len..self.len + len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// What becomes of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The instruction is carried out once more.
    Again,
    /// It is the previous handler's. Where that one lets the process end, what was written is said.
    Others,
    /// What was written is said, and the process ends (SIGABRT).
    Ends,
}

/// Asked at a trap of the calling thread.
pub type Told = fn(&Fault, &mut Said) -> Answer;

// Ordering: AcqRel and Acquire: the function as it was stored.
static TELL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// Where the object lies that has the allocator, if it is not the program itself. Relaxed, both: stored before the handlers are there.
static ALLOCATOR: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static mut BEFORE: [MaybeUninit<libc::sigaction>; 4] = [MaybeUninit::uninit(); 4];

/// From now on `told` is asked at each error trap of this process. Once.
pub fn watch(told: Told) {
    if cfg!(miri) || !TELL.swap(told as *mut c_void, Ordering::AcqRel).is_null() {
        return;
    }
    find_allocator();
    for (at, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: the action is whole; what was there before is kept where the handler finds it, before another thread can be in the handler.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            action.sa_sigaction = trapped as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigfillset(&raw mut action.sa_mask);
            THROUGH.into_iter().for_each(|signal| _ = libc::sigdelset(&raw mut action.sa_mask, signal));
            libc::sigaction(signal, std::ptr::null(), (&raw mut BEFORE[at]).cast());
            libc::sigaction(signal, &raw const action, null_mut());
        }
    }
}

/// Notes where the allocator lies: a thread that is trapped there may have its locks.
fn find_allocator() {
    /// Called for each object of the process.
    ///
    /// # Safety
    /// The loader's description of one, and `find_allocator`'s flag.
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _len: usize, first: *mut c_void) -> libc::c_int {
        // SAFETY: the caller's promise.
        unsafe {
            let is_program = std::mem::replace(&mut *first.cast::<bool>(), false);
            let base = (*info).dlpi_addr as usize;
            let parts = std::slice::from_raw_parts((*info).dlpi_phdr, usize::from((*info).dlpi_phnum));
            let loaded = parts.iter().filter(|part| part.p_type == libc::PT_LOAD);
            let ranges =
                loaded.map(|part| (base + part.p_vaddr as usize, base + (part.p_vaddr + part.p_memsz) as usize));
            let (low, high) = ranges.fold((usize::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
            let is_there = (low..high).contains(&(libc::malloc as *const () as usize));
            if is_there && !is_program {
                ALLOCATOR[0].store(low, Ordering::Relaxed); // Relaxed: before the handlers are there.
                ALLOCATOR[1].store(high, Ordering::Relaxed); // Relaxed: as above.
            }
            libc::c_int::from(is_there)
        }
    }
    let mut first = true;
    // SAFETY: the flag lives until this returns.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut first).cast()) };
}

/// Gives the calling kernel thread a stack for signal handlers, if it has none. Lets the signals of traps through, which
/// end a process without a word where they are blocked.
pub fn prepare_thread() {
    // SAFETY: of the calling thread alone; the places are ours, and the stack is never given back.
    unsafe {
        let mut traps = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(traps.as_mut_ptr());
        THROUGH.into_iter().for_each(|signal| _ = libc::sigaddset(traps.as_mut_ptr(), signal));
        libc::pthread_sigmask(libc::SIG_UNBLOCK, traps.as_ptr(), null_mut());
        let mut now = MaybeUninit::<libc::stack_t>::zeroed().assume_init();
        if libc::sigaltstack(std::ptr::null(), &raw mut now) != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        if let Ok(at) = reserve(HANDLER_STACK, c"chappe-handler") {
            dump(at, HANDLER_STACK);
            // What a handler may use up is not its neighbour's.
            let _ = guard(at, page());
            let mine = libc::stack_t { ss_sp: at.cast(), ss_flags: 0, ss_size: HANDLER_STACK };
            libc::sigaltstack(&raw const mine, null_mut());
        }
    }
}

/// Where the instruction lay, and its stack.
///
/// # Safety
/// The kernel's frame.
unsafe fn registers(frame: *const libc::ucontext_t) -> (usize, usize) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        let registers = {
            let all = &(*frame).uc_mcontext.gregs;
            (all[libc::REG_RIP as usize] as usize, all[libc::REG_RSP as usize] as usize)
        };
        #[cfg(target_arch = "aarch64")]
        let registers = ((*frame).uc_mcontext.pc as usize, (*frame).uc_mcontext.sp as usize);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let registers = (_ = frame, (0, 0)).1;
        registers
    }
}

extern "C" fn trapped(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let frame = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel's.
    let (code, address, (instruction, stack)) =
        unsafe { ((*info).si_code, (*info).si_addr() as usize, registers(frame)) };
    // SAFETY: the calling thread's.
    let errno = unsafe { *libc::__errno_location() };
    let mut said = Said { text: [0; 512], len: 0 };
    let is_sent = code <= 0;
    let mut answer = Answer::Others;
    if !is_sent {
        let kind = match signal {
            libc::SIGFPE => Kind::Arithmetic,
            libc::SIGSEGV => Kind::Memory,
            libc::SIGBUS => Kind::Bus,
            _ => Kind::Instruction,
        };
        let told = TELL.load(Ordering::Acquire);
        // SAFETY: `watch` has stored it.
        let told = unsafe { std::mem::transmute::<*mut c_void, Told>(told) };
        answer = told(&Fault { kind, address, instruction, stack, frame }, &mut said);
    }
    match answer {
        Answer::Again => {}
        Answer::Ends => {
            said.say();
            // SAFETY: ends the process.
            unsafe { libc::abort() }
        }
        // SAFETY: as the kernel has called us.
        Answer::Others => unsafe { pass_on(signal, info, frame, is_sent, &said) },
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Calls the previous handler as the kernel would have.
///
/// # Safety
/// In a handler of that signal.
unsafe fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    frame: *mut libc::ucontext_t,
    is_sent: bool,
    said: &Said,
) {
    let at = SIGNALS.iter().position(|one| *one == signal).unwrap_or(0);
    // SAFETY: `watch` has kept it.
    unsafe {
        let before = (&raw const BEFORE[at]).cast::<libc::sigaction>();
        let action = (*before).sa_sigaction;
        if action == libc::SIG_IGN && is_sent {
            return;
        }
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            said.say();
            libc::sigaction(signal, before, null_mut());
            if is_sent {
                libc::raise(signal);
            }
            // A trap comes again at once, and ends the process.
            return;
        }
        let mut mask = mask_of(frame);
        (1..=64).filter(|one| libc::sigismember(&raw const (*before).sa_mask, *one) == 1).for_each(|one| {
            libc::sigaddset(&raw mut mask, one);
        });
        if (*before).sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut());
        if (*before).sa_flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void)>(action)(
                signal,
                info,
                frame.cast(),
            );
        } else {
            std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(action)(signal);
        }
        // The standard library's, for one: what is not its own it leaves to the default action, which ends the process: at the trap that comes
        // again, or, since a signal that was sent does not, at this one.
        let mut now = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        libc::sigaction(signal, std::ptr::null(), &raw mut now);
        if now.sa_sigaction == libc::SIG_DFL {
            said.say();
            if is_sent {
                libc::raise(signal);
            }
        }
    }
}
