//! Steps: a stopped thread runs one instruction, by the processor's trap flag.
//!
//! The stopped thread sets the flag itself when it is dispatched for a step. The trap's handler runs on that thread's
//! stack and gives the proc up there. The signal frame that the kernel has put on the stack keeps the thread's
//! registers until the next step, or until the thread is resumed.
//!
//! A thread that is at its proc's queue cannot be taken out: it goes on, instruction by instruction, until it has left
//! the queue. If it switches to another thread meanwhile, that thread runs with the flag set: its first trap clears the
//! flag. The stepped thread sets it again when it comes back.

use crate::proc::run;
use crate::record::{Thread, current};
use chappe_plat::atomic::Ordering;
use chappe_plat::light::asked::STEP;
use chappe_plat::trap::{self, Goes};

/// From now on threads can step. False: this machine cannot do it.
pub(crate) fn prepare() -> bool {
    trap::watch(stepped).is_ok()
}

/// Sets the trap flag if the calling thread is to step.
pub(crate) fn go(me: &Thread) {
    // Relaxed: the thread's own, now that it runs.
    if me.core.control.load(Ordering::Relaxed) & STEP != 0 {
        trap::step();
    }
}

/// The trap's handler, after one instruction.
fn stepped() -> Goes {
    let Some(me) = current() else { return Goes::On };
    let steps = || me.core.control.load(Ordering::Relaxed) & STEP != 0; // Relaxed: as above.
    if !steps() {
        return Goes::On;
    }
    if me.away.get() || me.proc().is_busy() {
        return Goes::Step;
    }
    // AcqRel: publishes what the step did to an observer that reads that the thread is stopped again.
    me.core.control.fetch_and(!STEP, Ordering::AcqRel);
    run::give_way(me);
    // The thread was resumed, or must make another step.
    if steps() { Goes::Step } else { Goes::On }
}
