//! A thread that is stopped goes on for one instruction: the processor's trap flag.
//!
//! The thread sets the flag itself, when it is dispatched for that. The trap's handler runs on its stack, and goes out of the proc's queue there: the frame
//! that the kernel has put on the stack keeps what it had in registers until the next step, or until it is resumed.
//!
//! Inside of its proc's queue a thread cannot be taken out: it goes on, step by step, until it has left that. If it has switched to another thread by then,
//! the flag is on there, and is taken away; it sets it again when it comes back.

use crate::asks::Refusal;
use crate::proc;
use crate::record::Thread;
use chappe_plat::atomic::Ordering;
use chappe_plat::light::asked::STEP;
use chappe_plat::trap::{self, Goes};

/// From now on threads can step.
pub(crate) fn prepare() -> Result<(), Refusal> {
    trap::watch(stepped).map_err(|_| Refusal::Unsupported)
}

/// A thread that is to step: from here on.
pub(crate) fn go(me: &Thread) {
    // Relaxed: the thread's own, now that it runs.
    if me.core.control.load(Ordering::Relaxed) & STEP != 0 {
        trap::step();
    }
}

/// After an instruction.
fn stepped() -> Goes {
    let Some(me) = proc::current() else { return Goes::On };
    let steps = || me.core.control.load(Ordering::Relaxed) & STEP != 0; // Relaxed: as above.
    if !steps() {
        return Goes::On;
    }
    if me.away.get() || me.proc().is_busy() {
        return Goes::Step;
    }
    // AcqRel: what the step did, for whoever sees that it is out.
    me.core.control.fetch_and(!STEP, Ordering::AcqRel);
    proc::give_way(me);
    // It was resumed, or is to make another step.
    if steps() { Goes::Step } else { Goes::On }
}
