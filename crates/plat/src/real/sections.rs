//! Companions of sections of restartable sequences: the frequent side of their fence, and a fence by moving to the processor.

use super::{rseq, topology};
use std::sync::atomic::{Ordering, compiler_fence};

/// The frequent side of `rseq::fence`, which interrupts the processor: here only the compiler must leave the order as it is.
#[inline(always)]
pub fn light() {
    // SeqCst: between the caller's store and its load.
    compiler_fence(Ordering::SeqCst);
}

/// Makes the calling thread run on this processor for a moment: a thread that was in a section there was taken off, and so its section
/// aborted. For a thread to which `rseq::fence` is refused. False: it may not run there, and nothing is known.
#[cold]
pub fn visit(cpu: u32) -> bool {
    let Ok(before) = topology::allowed() else { return false };
    let been = topology::allow(&[cpu]).is_ok() && rseq::cpu() == Some(cpu);
    go_back(cpu, &before);
    been
}

/// Undoes what [`visit`] has set, unless another thread has set something since. (Between the look and the change it still may.)
fn go_back(cpu: u32, before: &[u32]) {
    if topology::allowed().is_ok_and(|now| now == [cpu]) {
        // A thread may return to processors that it was allowed, unless they have just been taken away: then it stays where it is.
        let _ = topology::allow(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affinity_that_another_thread_set_meanwhile_stays() {
        std::thread::spawn(|| {
            let all = topology::allowed().unwrap();
            let Some(other) = all.get(1) else {
                println!("not tested: an_affinity_that_another_thread_set_meanwhile_stays: there is one processor");
                return;
            };
            topology::allow(&[*other]).unwrap();
            go_back(all[0], &all);
            assert_eq!(topology::allowed().unwrap(), [*other]);
            go_back(*other, &all);
            assert_eq!(topology::allowed().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_visit_of_a_processor_restores_the_affinity() {
        std::thread::spawn(|| {
            let all = topology::allowed().unwrap();
            let has_area = rseq::prepare() == rseq::Area::Library || rseq::enter();
            for cpu in &all {
                assert_eq!(visit(*cpu), has_area);
                assert_eq!(topology::allowed().unwrap(), all);
            }
            assert!(!visit(1_000_000) && topology::allowed().unwrap() == all);
        })
        .join()
        .unwrap();
    }
}
