//! Suspending threads, as Synthesis does (synthesis, 5.3.2, figure 5.10): whoever asks only leaves word of it, and the dispatcher acts on that.
//!
//! The word `control` of a thread's record:
//!
//! | STOPME | STOPPED | the thread | who goes on from here |
//! |---|---|---|---|
//! | 0 | 0 | runs, is ready, or waits | suspend: STOPME |
//! | 1 | 0 | the same, and is to be taken out at its next dispatch | the dispatcher: STOPPED; resume: back to 0 0 |
//! | 1 | 1 | is in no queue | resume: back to 0 0, and into the queue |
//! | 0 | 1 | cannot be | |
//!
//! - S1: a thread that is STOPPED is in no queue and no inbox. The dispatcher says so after it has taken it out, by a swap of STOPME alone; who
//!   swaps STOPPED away puts it back. So it is in at most one (the proc's I1).
//! - S2: a thread that waits is taken out when it has been woken and it is its turn: no wake-up is lost, and its wait is over by then.
//!
//! Left out of the paper: the interrupt of another processor. A thread that computes goes on until it waits, yields or ends.

use crate::proc;
use crate::record::Thread;
use chappe_plat::atomic::Ordering;

pub(crate) const STOPME: u32 = 1;
pub(crate) const STOPPED: u32 = 2;

/// It is to be taken out at its next dispatch.
pub(crate) fn suspend(thread: &Thread) {
    // AcqRel: against the dispatcher and who resumes.
    thread.control.fetch_or(STOPME, Ordering::AcqRel);
}

/// It is to go on.
pub(crate) fn resume(thread: &'static Thread) {
    // AcqRel: S1; what the dispatcher has left.
    if thread.control.swap(0, Ordering::AcqRel) & STOPPED != 0 {
        proc::ready(thread);
    }
}

/// The dispatcher has taken a thread out of its queue: whether it is to run. At the queue.
#[inline(always)]
pub(crate) fn may_run(thread: &Thread) -> bool {
    // Relaxed: the swap decides; who asks just now is seen at the next dispatch.
    thread.control.load(Ordering::Relaxed) == 0 || !stops(thread)
}

#[cold]
fn stops(thread: &Thread) -> bool {
    // AcqRel: S1. Relaxed: it was resumed.
    thread.control.compare_exchange(STOPME, STOPME | STOPPED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    /// Figure 5.10: what each does in each state. (Resuming one that is STOPPED needs a proc: `tests/threads.rs`.)
    #[test]
    fn the_diagram_of_states_holds() {
        record::prepare().unwrap();
        let thread = record::take().unwrap();
        let both = STOPME | STOPPED;
        // SeqCst: nobody else is here.
        let set = |state| thread.control.store(state, Ordering::SeqCst);
        // SeqCst: as above.
        let state = || thread.control.load(Ordering::SeqCst);
        for (from, to) in [(0, STOPME), (STOPME, STOPME), (both, both)] {
            set(from);
            suspend(thread);
            assert_eq!(state(), to, "suspend in {from}");
        }
        for (from, runs, to) in [(0, true, 0), (STOPME, false, both)] {
            set(from);
            assert_eq!((may_run(thread), state()), (runs, to), "dispatch in {from}");
        }
        for from in [0, STOPME] {
            set(from);
            resume(thread);
            assert_eq!((state(), may_run(thread)), (0, true), "resume in {from}");
        }
        record::put(std::iter::once(thread));
    }
}
