//! Error traps are the light thread's own (synthesis, 4.3: each thread has a vector table, with the error traps in it).
//!
//! The kernel knows no light threads: it sends SIGFPE, SIGSEGV, SIGBUS and SIGILL to the kernel thread, on whose stack for
//! handlers `chappe_plat::faults` calls `told`. There the thread is found that runs, and its handler is called, in place:
//!
//! | the trap | what happens |
//! |---|---|
//! | of a kernel thread, or of a program without light threads there | it is the previous handler's |
//! | of a light thread without a handler | the same; if that ends the process, the report names the thread |
//! | in the guard below the thread's stack, without a handler | the report says so, and the process ends (SIGABRT) |
//! | of a light thread with a handler | the handler's answer: once more, end the thread, or as without a handler |
//! | inside of a handler of traps, on another stack, or at the proc's queue | as without a handler, and the report says where |
//!
//! A thread that is ended is left as it is: the dispatcher goes on from the stack for handlers (`run::finish`), which is
//! free again once it has been left. Nothing is unwound: the compiler promises nothing about an instruction that is no
//! call. What the thread holds of chappe's objects comes back as when it is killed there: its members die (`lent`), so permits
//! return, and a mutex says `OwnerDied`. The rest stays as it was, for good: memory, locks of others, the stack (`end`), ends of
//! private tubes, sections of the process's own helping locks, and what is the process's (an `OwnedPermit`).
//!
//! A thread cannot be ended where the kernel thread, or others, are in the middle of something: within `block_in_place`,
//! in an interrupt, in what must be finished first (chappe's own mutexes are of these), while it is being unwound, and where
//! its stack is used up within the C library, whose locks it may hold. The report says which.
//!
//! Beside it: `std` ends the process without a word, but for its own threads' guards. Go makes a panic of a trap in Go
//! code, and ends the process at one in other code and at a stack that is used up.
//!
//! Deaths: all of this ends with the process.

use crate::end;
use crate::proc::run;
use crate::record::{Thread, current};
use crate::trap::{AfterTrap, Trap, TrapKind};
use chappe_plat::atomic::Ordering;
use chappe_plat::faults::{self, Answer, Fault, Said};
use chappe_plat::light::asked::{DYING, INSIDE, SHIELD};
use chappe_plat::stacks;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Traps of light threads are told from now on.
pub(crate) fn prepare() {
    faults::watch(told);
}

/// Names what the calling light thread does when an instruction of its own cannot be carried out: SIGFPE, SIGSEGV, SIGBUS,
/// SIGILL, and a stack that is used up. The last that was named counts. (Synthesis' error traps.)
///
/// The handler runs as a signal handler does, in the middle of the instruction, on a stack of 64 KiB of the kernel
/// thread, with other signals held back. It must not wait (that panics; a panic counts as [`AfterTrap::Pass`]) and, if the
/// trap may come from within the allocator, not allocate. A trap inside of it ends the process.
///
/// Of a thread that it ends ([`AfterTrap::End`]) nothing is dropped: its stack and memory are never given back, and locks
/// that are not chappe's stay locked. What it holds of chappe's objects comes back as if it had been killed: permits
/// return, a [`Mutex`](chappe_sync::Mutex) says `OwnerDied`. The other threads go on. Three things do not come back, since they
/// are no thread's in particular: the end of a private tube, an [`OwnedPermit`](chappe_sync::OwnedPermit), and a
/// [`HelpLock`](chappe_sync::HelpLock), [`Monitor`](chappe_sync::Monitor) or [`Server`](chappe_sync::Server) of this process alone,
/// inside of whose section the trap was: all others would wait for it. A handler that answers `End` belongs to threads that have none.
///
/// It is not ended within [`block_in_place`](crate::block_in_place), in an interrupt, while it unwinds, where it has one of chappe's own
/// mutexes, or where it uses up its stack within the C library, and so perhaps with the allocator's locks (an allocator that is linked
/// into the program is not recognised): the process ends then, with a report that names thread and reason.
///
/// A handler of one of the four signals that the program installs later (a virtual machine's, Python's `faulthandler`) takes
/// the traps instead of this one.
///
/// ```
/// # #[cfg(target_arch = "x86_64")] {
/// use chappe_thread::{AfterTrap, Trap, TrapKind, set_trap, spawn};
/// let divides = spawn(|| {
///     // SAFETY: nothing refers to this thread's frames.
///     unsafe { set_trap(|_| AfterTrap::End) };
///     unsafe { std::arch::asm!("xor ecx, ecx", "div ecx", out("ecx") _, inout("eax") 1 => _, inout("edx") 0 => _) };
/// });
/// let trap = divides.join().unwrap_err().downcast::<Trap>().unwrap();
/// assert_eq!(trap.kind, TrapKind::Arithmetic);
/// # }
/// ```
///
/// # Safety
/// Where the handler answers [`AfterTrap::End`], no frame of the thread, at the instruction that is trapped, is one that others rely on to be
/// left before what they refer to goes: a scope whose threads run ([`scope`](crate::scope()), `std::thread::scope`) and that refers to what is not this
/// thread's, or `unsafe` code that is in the middle of changing what others see.
///
/// # Panics
/// If the caller is a kernel thread.
///
/// Paper: synthesis, 4.3.
pub unsafe fn set_trap(handler: impl Fn(&Trap) -> AfterTrap + Send + Sync + 'static) {
    let me = current().expect("a kernel thread has the process's handlers of traps (sigaction)");
    me.extra().trap = Some(Arc::new(handler));
}

/// Called by the handler of the four signals.
fn told(fault: &Fault, said: &mut Said) -> Answer {
    let Some(me) = current() else { return Answer::Others };
    let (low, top) = me.stack();
    let page = stacks::page();
    let used_up = (low - page..low).contains(&fault.address) && fault.kind != TrapKind::Arithmetic;
    let used_up = used_up.then_some(top - low);
    let Fault { kind, address, instruction, .. } = *fault;
    let trap = Trap { kind, address, instruction, used_up };
    // SAFETY: the thread's own.
    let extra = unsafe { &*me.extra.get() }.as_deref();
    let elsewhere = if extra.is_some_and(|extra| extra.in_trap) {
        " inside of its handler of traps"
    } else if !(low - page..=top).contains(&fault.stack) {
        " on another stack: in a signal handler, or a coroutine's"
    } else if !me.away.get() && me.proc().is_busy() {
        " at its proc's queue"
    } else {
        ""
    };
    let handler = extra.filter(|_| elsewhere.is_empty()).and_then(|extra| extra.trap.clone());
    let why = match handler {
        Some(handler) => match call(me, &trap, &*handler) {
            AfterTrap::Again => return Answer::Again,
            AfterTrap::Pass => "",
            AfterTrap::End => match cannot_end(me, used_up.is_some() && fault.is_in_allocator()) {
                Some(why) => why,
                None => {
                    drop(handler);
                    end::abandon(me, trap);
                    fault.leave();
                    run::finish(me)
                }
            },
        },
        None => elsewhere,
    };
    let name = me.name().map(|name| name.get(..100).unwrap_or(name));
    let (open, name, close) = name.map_or(("", "", ""), |name| (" (", name, ")"));
    let _ = writeln!(said, "chappe: light thread {}{open}{name}{close} {trap}{why}", me.number());
    if used_up.is_some() { Answer::Ends } else { Answer::Others }
}

fn call(me: &Thread, trap: &Trap, handler: &dyn Fn(&Trap) -> AfterTrap) -> AfterTrap {
    me.extra().in_trap = true;
    // Relaxed, both: the thread's own.
    let was = me.core.control.fetch_or(INSIDE, Ordering::Relaxed) & INSIDE;
    let then = catch_unwind(AssertUnwindSafe(|| handler(trap))).unwrap_or(AfterTrap::Pass);
    if was == 0 {
        me.core.control.fetch_and(!INSIDE, Ordering::Relaxed); // Relaxed: as above.
    }
    me.extra().in_trap = false;
    then
}

/// Why the thread cannot be ended where it is.
fn cannot_end(me: &Thread, in_allocator: bool) -> Option<&'static str> {
    let now = me.core.control.load(Ordering::Relaxed); // Relaxed: the thread's own.
    if me.away.get() {
        Some(", and cannot be ended within block_in_place")
    } else if now & INSIDE != 0 {
        Some(", and cannot be ended in an interrupt")
    } else if now & SHIELD != 0 {
        Some(", and cannot be ended in something that must be finished")
    } else if now & DYING != 0 || std::thread::panicking() {
        Some(", and cannot be ended while it is unwound")
    } else if in_allocator {
        Some(", and cannot be ended within the C library, where it may hold the allocator's locks")
    } else {
        None
    }
}
