//! The section that the self-test watches.
//!
//! ```text
//!   arm                                   the descriptor's address into the area, or 0 for one that is not armed
//!   -- start
//!   round = *flag
//!   if round != *closed: CLOSED
//!   inside[2] = the thread's concurrency id
//!   inside[0] = round + 1
//!   turns times: if *flag != round: SEEN, else inside[1] = how many turns are left
//!   -- end
//!   OVER
//!   -- abort
//!   ABORTED
//! ```
//!
//! All but OVER leave in the midst. It commits nothing: what it stores says where it is.

use chappe_plat::atomic::AtomicU32;
use chappe_plat::rseq;

// SAFETY: the symbol is that of this architecture's file, with these arguments.
unsafe extern "C" {
    fn chappe_ras_gate(
        area: usize,
        flag: *const AtomicU32,
        closed: *const AtomicU32,
        inside: *const [AtomicU32; 3],
        turns: u64,
        armed: u64,
    ) -> u64;
}

/// How a section ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The turns were over, and nothing happened.
    Over,
    /// It saw the flag change.
    Seen,
    /// The kernel aborted it.
    Aborted,
    /// It was closed when it began.
    Closed,
}

/// Runs the section. Answers the round that it began in, too: if it was aborted before it knew, what the flag said just before.
pub fn watch(flag: &AtomicU32, closed: &AtomicU32, inside: &[AtomicU32; 3], turns: u32, armed: bool) -> (Ending, u32) {
    let area = rseq::thread_pointer().wrapping_add_signed(rseq::offset());
    // SAFETY: the calling thread's area; the words live; the descriptor is constant, and stays.
    let said = unsafe { chappe_ras_gate(area, flag, closed, inside, turns.max(1).into(), u64::from(armed)) };
    let ending = match said as u32 {
        0 => Ending::Over,
        1 => Ending::Seen,
        2 => Ending::Aborted,
        _ => Ending::Closed,
    };
    (ending, (said >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_plat::atomic::Ordering;

    /// Also where nothing is registered: there is an area, which is never written.
    #[test]
    fn a_section_that_is_not_aborted_ends_as_it_says() {
        rseq::prepare();
        let (flag, closed, inside) = (AtomicU32::new(7), AtomicU32::new(7), [const { AtomicU32::new(0) }; 3]);
        inside[2].store(u32::MAX, Ordering::SeqCst);
        assert_eq!(watch(&flag, &closed, &inside, 1000, false), (Ending::Over, 7));
        assert!(
            (inside[2].load(Ordering::SeqCst) as usize) < chappe_plat::topology::possible(),
            "it says its thread's id"
        );
        assert_eq!([0, 1].map(|n: usize| inside[n].load(Ordering::SeqCst)), [8, 1]);
        closed.store(8, Ordering::SeqCst);
        assert_eq!(watch(&flag, &closed, &inside, 1000, true), (Ending::Closed, 7));
        closed.store(7, Ordering::SeqCst);
        std::thread::scope(|s| {
            s.spawn(|| {
                while inside[1].load(Ordering::SeqCst) <= 1 {
                    std::thread::yield_now();
                }
                flag.store(9, Ordering::SeqCst);
            });
            assert_eq!(watch(&flag, &closed, &inside, u32::MAX, false), (Ending::Seen, 7));
        });
    }
}
