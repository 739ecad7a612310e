//! The self-test: two threads of its own try what the kernel does to a section that is under way.
//!
//! The first is confined to one processor, and is within a section all the time. The second goes to the other processors first, if there
//! are any, and uses the fence:
//!
//! ```text
//!   within the section         the second thread
//!   round = flag               closed = round + 1
//!   closed == round?           fence: on that processor, or on all
//!   flag == round? ...         flag = round + 1
//! ```
//!
//! A section that was under way at the fence must be aborted; one that begins after it sees that it is closed. So none may see the flag
//! change. The second thread waits until it has seen the section take a turn: a section that is preempted just then is aborted anyway, and
//! proves nothing.
//!
//! Then the second thread is confined to the same processor. It sleeps for a moment, changes the flag, and sleeps again. It can only run
//! when it takes the processor from the first, so no section may ever see the flag change here, either.
//!
//! ```text
//!   FENCES --enough, by the first--> FENCED --it has come over, by the second--> PREEMPTIONS --> OVER
//!          --there is no other processor, by the second-->
//! ```
//!
//! If the caller alone is confined to one processor, other threads of its process may run elsewhere, and its fence has something to do. So
//! the second thread goes to all processors that the process may use. Only a process that is confined goes without trying the fence.
//!
//! While both take their turns at once, the second thread compares their concurrency ids, too. Two that are equal prove that the kernel
//! mixes them up, and none are used. That they differ proves little: see `rseq::has_concurrency_ids`.
//!
//! Both first give up a real-time priority that they inherit from the caller: threads of equal real-time priority do not preempt each
//! other.
//!
//! - T1 Broken only if a section saw the change, and its thread is still confined to its processor: another thread may have changed where
//!   it may run.
//! - T2 Proven only after [`ENOUGH`] aborts of each kind with `closed` (or the flag) changed under the section: by the fence on one
//!   processor, by the fence on all, by preemption.
//! - T3 The caller's processors, signals and area are left as they are; it sleeps meanwhile, and not longer than [`LIMIT`] and a bit. The
//!   two threads end by themselves.

use super::section::{Ending, watch};
use super::verdict::Verdict;
use chappe_plat::atomic::{self, AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::{clock, rseq, thread, topology};
use std::io;
use std::sync::Arc;

/// How many aborts of each kind prove it.
const ENOUGH: u32 = 3;
/// How long it may take, in nanoseconds: where many want the processor it takes its share of it only.
const LIMIT: u64 = 4_000_000_000;
/// How long the second thread sleeps.
const NAP: u64 = 50_000;
/// How often a section looks at the flag: about a millisecond.
const TURNS: u32 = 1 << 14;

const FENCES: u32 = 0;
const FENCED: u32 = 1;
const PREEMPTIONS: u32 = 2;
const OVER: u32 = 3;

/// What is tried. The default is what is; the others are what must not pass.
#[derive(Clone, Copy)]
pub struct Trial {
    /// Whether the sections of the fences, and those of the preemptions, are armed.
    pub armed: [bool; 2],
    /// The fence.
    pub fence: fn(Option<u32>) -> bool,
    /// Goes to all processors but this; false if there are no others.
    pub leave: fn(u32) -> io::Result<bool>,
    /// Whether the calling thread has this concurrency id.
    pub is_mine: fn(u32) -> bool,
    /// How long it may take.
    pub limit: u64,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial { armed: [true; 2], fence: rseq::fence, leave: topology::allow_others, is_mine, limit: LIMIT }
    }
}

fn is_mine(id: u32) -> bool {
    rseq::concurrency_id() == id
}

/// Words on a line of their own.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

/// What the two threads and the caller share.
#[derive(Default)]
struct Words {
    flag: Line<AtomicU32>,
    closed: Line<AtomicU32>,
    inside: Line<[AtomicU32; 3]>,
    phase: Line<AtomicU32>,
    /// The threads that have not ended.
    left: Line<AtomicU32>,
    found: Line<AtomicU32>,
    /// How often both had one concurrency id.
    twins: Line<AtomicU32>,
}

impl Words {
    fn phase(&self) -> u32 {
        // Acquire: what was there before.
        self.phase.0.load(Ordering::Acquire)
    }

    fn enter(&self, phase: u32) {
        // AcqRel: as above. Never back: either may find that it is over.
        self.phase.0.fetch_max(phase, Ordering::AcqRel);
        futex::wake(&self.phase.0, u32::MAX, Scope::Private);
    }

    /// A thread of the two has ended.
    fn leave(&self) {
        // AcqRel: what it found.
        self.left.0.fetch_sub(1, Ordering::AcqRel);
        futex::wake(&self.left.0, u32::MAX, Scope::Private);
    }

    /// Sleeps while the word says that, until the deadline.
    fn sleep(word: &AtomicU32, what: u32, deadline: u64) {
        // Acquire: what the thread that changed it did before.
        while word.load(Ordering::Acquire) == what && clock::now() < deadline {
            futex::wait(word, what, Some(deadline), Scope::Private);
        }
    }
}

impl Trial {
    /// Tries it. Where two threads had one concurrency id, none are used from now on.
    pub fn run(self) -> Verdict {
        let (verdict, twins) = self.find();
        if twins > 0 {
            rseq::distrust_concurrency_ids();
        }
        verdict
    }

    /// The verdict, and how often two threads that ran at once had one concurrency id.
    fn find(self) -> (Verdict, u32) {
        // The asking thread need not have an area: it may be about to end.
        let (Some(cpu), Ok(mut others)) = (topology::here(), topology::allowed()) else {
            return (Verdict::Unproven, 0);
        };
        others.retain(|n| *n != cpu);
        let deadline = clock::now() + self.limit;
        let shared = Arc::new(Words::default());
        shared.left.0.store(2, Ordering::Relaxed); // Relaxed: no other thread knows of it.
        let (one, two) = (shared.clone(), shared.clone());
        let begun = thread::background("chappe-gate", move || {
            thread::be_ordinary();
            if let Some(verdict) = self.be_within(&one, cpu, deadline) {
                // Relaxed: one word, which says all.
                one.found.0.store(verdict.word() as u32, Ordering::Relaxed);
            }
            one.enter(OVER);
            one.leave();
        });
        let begun = begun.and_then(|()| {
            thread::background("chappe-gate-2", move || {
                thread::be_ordinary();
                thread::ask_for_short_slices();
                self.disturb(&two, cpu, &others, deadline);
                two.enter(OVER);
                two.leave();
            })
        });
        if begun.is_err() {
            shared.enter(OVER);
            return (Verdict::Unproven, 0);
        }
        // T3: one of them may not get to run at all.
        let deadline = deadline + self.limit / 4;
        for left in [2, 1] {
            Words::sleep(&shared.left.0, left, deadline);
        }
        // Relaxed, both: a word each, which says all.
        let found = Verdict::of(shared.found.0.load(Ordering::Relaxed).into());
        (found.unwrap_or(Verdict::Unproven), shared.twins.0.load(Ordering::Relaxed))
    }

    /// The first thread. None: it has found nothing.
    fn be_within(self, s: &Words, cpu: u32, deadline: u64) -> Option<Verdict> {
        thread::ask_for_short_slices();
        if topology::allow(&[cpu]).is_err() || (rseq::cpu().is_none() && !rseq::enter()) {
            return None;
        }
        // T1.
        let saw = || {
            let stayed = topology::allowed().is_ok_and(|all| all == [cpu]);
            Some(if stayed { Verdict::Broken } else { Verdict::Unproven })
        };
        let mut fenced = [0; 2];
        while s.phase() == FENCES && fenced.iter().any(|n| *n < ENOUGH) {
            let (ending, round) = watch(&s.flag.0, &s.closed.0, &s.inside.0, TURNS, self.armed[0]);
            if ending == Ending::Seen {
                return saw();
            }
            // Relaxed: the fence orders it.
            let closed = ending == Ending::Aborted && s.closed.0.load(Ordering::Relaxed) != round;
            fenced[round as usize % 2] += u32::from(closed);
            if clock::now() > deadline {
                return None;
            }
        }
        s.enter(FENCED);
        Words::sleep(&s.phase.0, FENCED, deadline);
        let mut preempted = 0;
        while preempted < ENOUGH {
            let (ending, round) = watch(&s.flag.0, &s.flag.0, &s.inside.0, TURNS, self.armed[1]);
            // It is closed if the flag changes between two looks at it.
            if matches!(ending, Ending::Seen | Ending::Closed) {
                return saw();
            }
            // Relaxed: it was changed on this processor.
            preempted += u32::from(ending == Ending::Aborted && s.flag.0.load(Ordering::Relaxed) != round);
            if clock::now() > deadline || s.phase() == OVER {
                return None;
            }
        }
        // T2.
        Some(Verdict::Proven { aborts: preempted + fenced[0] + fenced[1] })
    }

    /// The second thread.
    fn disturb(self, s: &Words, cpu: u32, others: &[u32], deadline: u64) {
        let left = if others.is_empty() { (self.leave)(cpu) } else { topology::allow(others).map(|()| true) };
        match left {
            Ok(true) => {}
            // The process is confined: no thread runs elsewhere that a fence could reach.
            Ok(false) => s.enter(FENCED),
            Err(_) => return,
        }
        let ids = rseq::has_concurrency_ids() && (rseq::cpu().is_some() || rseq::enter());
        while s.phase() == FENCES && clock::now() < deadline {
            // Relaxed: this thread's own.
            let round = s.flag.0.load(Ordering::Relaxed);
            if !takes_a_turn(&s.inside.0, round) {
                atomic::give_way();
                continue;
            }
            if ids && self.are_twins(&s.inside.0, round) {
                s.twins.0.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
            }
            s.closed.0.store(round + 1, Ordering::Relaxed); // Relaxed: the fence orders it.
            if !(self.fence)(round.is_multiple_of(2).then_some(cpu)) {
                return;
            }
            s.flag.0.store(round + 1, Ordering::Relaxed); // Relaxed: as above.
        }
        if topology::allow(&[cpu]).is_err() {
            return;
        }
        s.enter(PREEMPTIONS);
        while s.phase() == PREEMPTIONS && clock::now() < deadline {
            s.flag.0.fetch_add(1, Ordering::Relaxed); // Relaxed: on one processor.
            futex::wait(&s.phase.0, PREEMPTIONS, Some(clock::now() + NAP), Scope::Private);
        }
    }
}

impl Trial {
    /// Whether the calling thread and the first, which takes turns before and after, have one concurrency id.
    fn are_twins(self, inside: &[AtomicU32; 3], round: u32) -> bool {
        // Relaxed: it was stored before the turn that was seen.
        let same = || (self.is_mine)(inside[2].load(Ordering::Relaxed));
        same() && takes_a_turn(inside, round) && same()
    }
}

/// Whether the first thread is within the section of this round, and runs.
fn takes_a_turn(inside: &[AtomicU32; 3], round: u32) -> bool {
    // Acquire: whose turns they are. Relaxed, both: only whether they change is of interest.
    let (within, before) = (inside[0].load(Ordering::Acquire) == round + 1, inside[1].load(Ordering::Relaxed));
    within
        && (0..100).any(|_| {
            atomic::pause();
            inside[1].load(Ordering::Relaxed) != before // Relaxed: as above.
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_plat::rseq::Area;

    /// There may be much to do on the machine that tests this.
    const PATIENT: Trial =
        Trial { armed: [true; 2], fence: rseq::fence, leave: topology::allow_others, is_mine, limit: 60_000_000_000 };

    /// Also where the output of tests is kept back.
    fn not_tested(test: &str, why: impl std::fmt::Display) {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "not tested: {test}: {why}");
    }

    /// What the self-test says, or None where there is nothing to try.
    fn says(trial: Trial) -> Option<Verdict> {
        match rseq::prepare() {
            Area::Library | Area::Own => Some(trial.run()),
            none => {
                not_tested("the self-test", format_args!("{none:?}"));
                None
            }
        }
    }

    fn is_proven(verdict: Verdict) -> bool {
        matches!(verdict, Verdict::Proven { aborts } if aborts >= ENOUGH)
    }

    #[test]
    fn a_kernel_that_aborts_is_believed() {
        for _ in 0..8 {
            let Some(verdict) = says(PATIENT) else { return };
            assert!(is_proven(verdict), "{verdict:?}");
        }
    }

    /// A kernel that lets sections go on does to an armed one what every kernel does to one that is not armed.
    #[test]
    fn a_kernel_that_does_not_abort_at_preemption_is_found_out() {
        for _ in 0..8 {
            let Some(verdict) = says(Trial { armed: [true, false], ..PATIENT }) else { return };
            assert_eq!(verdict, Verdict::Broken);
        }
    }

    #[test]
    fn a_kernel_that_does_not_abort_at_the_fence_is_found_out() {
        if topology::allowed().unwrap().len() < 2 {
            not_tested("a_kernel_that_does_not_abort_at_the_fence_is_found_out", "one processor only");
            return;
        }
        for trial in [
            Trial { armed: [false, true], ..PATIENT },
            // A filter that says 0 and does nothing.
            Trial { fence: |_| true, ..PATIENT },
            Trial { fence: |cpu| cpu.is_none() || rseq::fence(cpu), ..PATIENT },
            Trial { fence: |cpu| cpu.is_some() || rseq::fence(cpu), ..PATIENT },
        ] {
            let Some(verdict) = says(trial) else { return };
            assert_eq!(verdict, Verdict::Broken);
        }
        let Some(refused) = says(Trial { fence: |_| false, ..PATIENT }) else { return };
        assert_eq!(refused, Verdict::Unproven);
    }

    #[test]
    fn the_callers_processors_are_left_as_they_are() {
        std::thread::spawn(|| {
            let before = topology::allowed().unwrap();
            if says(PATIENT).is_some() {
                assert_eq!(topology::allowed().unwrap(), before);
            }
            if before.len() < 2 {
                not_tested("the_callers_processors_are_left_as_they_are", "one processor only");
            }
        })
        .join()
        .unwrap();
    }

    /// What a trial finds that a thread asks for which is kept to one processor.
    fn kept(trial: Trial) -> Option<Verdict> {
        says(PATIENT)?;
        let work = || {
            let mine = [topology::allowed().unwrap()[0]];
            topology::allow(&mine).unwrap();
            let verdict = trial.run();
            assert_eq!(topology::allowed().unwrap(), mine, "the caller's processors are left as they are");
            verdict
        };
        Some(std::thread::scope(|s| s.spawn(work).join().unwrap()))
    }

    /// In a process that is confined no thread runs elsewhere that a fence could reach.
    #[test]
    fn one_processor_is_enough() {
        let Some(verdict) = kept(Trial { leave: |_| Ok(false), ..PATIENT }) else { return };
        assert_eq!(verdict, Verdict::Proven { aborts: ENOUGH });
    }

    /// Others of its process are elsewhere: there the fence must reach them.
    #[test]
    fn the_fence_is_tried_for_a_thread_that_is_kept_to_one_processor() {
        if topology::allowed().unwrap().len() < 2 {
            not_tested("the_fence_is_tried_for_a_thread_that_is_kept_to_one_processor", "one processor only");
            return;
        }
        let Some(verdict) = kept(PATIENT) else { return };
        assert!(matches!(verdict, Verdict::Proven { aborts } if aborts >= 3 * ENOUGH), "{verdict:?}");
        assert_eq!(kept(Trial { fence: |_| true, ..PATIENT }), Some(Verdict::Broken));
        // It is not known whether there are others.
        let unknown = Trial { leave: |_| Err(io::ErrorKind::PermissionDenied.into()), ..PATIENT };
        assert_eq!(kept(unknown), Some(Verdict::Unproven));
    }

    #[test]
    fn two_threads_with_one_concurrency_id_are_found_out() {
        const TEST: &str = "two_threads_with_one_concurrency_id_are_found_out";
        const AGAIN: &str = "CHAPPE_RAS_AGAIN";
        if says(PATIENT).is_none() || topology::allowed().unwrap().len() < 2 {
            return not_tested(TEST, "it takes sequences and two processors");
        }
        if !rseq::has_concurrency_ids() {
            if std::env::var_os(AGAIN).is_some() {
                return not_tested(TEST, "the kernel has no concurrency ids");
            }
            // The C library's area may be too small for them, where this library's own is not.
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            again.args(["--exact", &format!("gate::trial::tests::{TEST}"), "--nocapture"]);
            let ended = again.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").env(AGAIN, "").status().unwrap();
            assert!(ended.success());
            return;
        }
        let mut twins = 0;
        for _ in 0..20 {
            let (verdict, none) = PATIENT.find();
            assert!(is_proven(verdict) && none == 0, "{none} of {verdict:?}");
            // As if the kernel had given the other's id to this one.
            twins += Trial { is_mine: |_| true, ..PATIENT }.find().1;
        }
        assert!(twins > 0);
    }

    /// Why there are no sequences in memory that processes share: the fence aborts those of the process that calls it alone.
    #[test]
    fn the_fence_does_not_reach_other_processes() {
        const TEST: &str = "the_fence_does_not_reach_other_processes";
        let cpus = topology::allowed().unwrap();
        if says(PATIENT).is_none() || cpus.len() < 2 {
            return not_tested(TEST, "it takes sequences and two processors");
        }
        let (len, both) = (size_of::<Words>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, zeroed, aligned to a page; it stays.
        let words: &Words = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), len, both, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            &*at.cast()
        };
        let deadline = clock::now() + PATIENT.limit;
        // SAFETY: the child uses its own thread and the mapping, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut ending = Ending::Over;
            if topology::allow(&cpus[..1]).is_ok() {
                while !matches!(ending, Ending::Seen) && clock::now() < deadline {
                    ending = watch(&words.flag.0, &words.closed.0, &words.inside.0, TURNS, true).0;
                }
            }
            words.enter(OVER);
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(ending != Ending::Seen)) };
        }
        std::thread::scope(|s| {
            s.spawn(|| {
                PATIENT.disturb(words, cpus[0], &cpus[1..], deadline);
            });
        });
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "an armed section of the other process saw what came after the fence");
    }
}
