//! Operations on a thread: the asker (the caller of an operation) only sets flags in the thread's control word; the
//! dispatcher, or the thread itself at its next safe point, acts on them.
//!
//! The word (`Record::control`): eleven flags (`chappe_plat::light::asked`), and above them the generation: the number
//! of threads that have had the record before. An operation names the generation, so it cannot reach a later thread
//! with the same record. Figure 5.10 of Synthesis has STOPME and STOPPED; `stop` adds HELD, `destroy` adds KILL:
//!
//! | STOPME | STOPPED | HELD | KILL | the thread | called |
//! |---|---|---|---|---|---|
//! | 0 | 0 | 0 | 0 | runs, is ready, or waits | running |
//! | 1 | 0 | 0 | 0 | the same, and is to be taken out at its next dispatch | suspending |
//! | 1 | 1 | 0 | 0 | is in no queue, and runs interrupts | suspended |
//! | 1 | 0 | 1 | 0 | as suspending | stopping |
//! | 1 | 1 | 1 | 0 | is in no queue, and runs nothing, but for a step | stopped |
//! | 0 | 0 | 0 | 1 | runs or is ready, and unwinds its stack at its next safe point | killed |
//!
//! - S1: a thread that is STOPPED is in no queue and no inbox. The dispatcher takes the thread out of its queue, then
//!   sets STOPPED by a compare-exchange; the asker that clears STOPPED puts the thread back. So it is in at most one
//!   queue (the proc's I1).
//! - S2: a thread that waits is taken out only after it has been woken, at its next turn. So no wake-up is lost, and
//!   its wait is over by then.
//! - S3: if the thread itself must act, the asker sets the flag first and gives the thread its token second; the thread
//!   reads the flags after each park. So it does not sleep over a request.
//! - S4: the asker checks the generation in the same compare-exchange that sets the flag, so nothing is asked of the
//!   next thread with the record.
//!
//! Visibility: the compare-exchange of the asker publishes the flag; what it wrote before is visible to the thread once
//! that has its token (S3).
//!
//! Deaths: the word is private to the process and ends with it.

use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::light::asked::{DUE, FLAGS, GENERATION, HELD, KILL, MODES, SIGNAL, STEP, STOPME, STOPPED};

/// An operation on a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Suspend,
    Resume,
    Stop,
    Step,
    Interrupt,
    Destroy,
}

/// What the asker must do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Nothing,
    /// The asker puts the thread into a queue: S1.
    Ready,
    /// The asker gives the thread its token, so that a waiting thread reads its flags: S3.
    Wake,
}

/// Why an operation is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Ended,
    NotStopped,
}

/// What an operation makes of the flags.
pub(crate) fn after(op: Op, flags: u32) -> Result<(u32, Then), Refused> {
    if flags & KILL != 0 {
        return if op == Op::Destroy { Ok((flags, Then::Nothing)) } else { Err(Refused::Ended) };
    }
    let is_out = flags & STOPPED != 0;
    let put_back = if is_out { Then::Ready } else { Then::Nothing };
    Ok(match op {
        Op::Suspend => (flags | STOPME, Then::Nothing),
        Op::Stop => (flags | STOPME | HELD, Then::Nothing),
        // An interrupt that came while it was held has woken nobody.
        Op::Resume => {
            let then = if !is_out && flags & SIGNAL != 0 { Then::Wake } else { put_back };
            (flags & !(STOPME | STOPPED | HELD | STEP), then)
        }
        Op::Step if is_out && flags & HELD != 0 => (flags & !STOPPED | STEP, Then::Ready),
        Op::Step => return Err(Refused::NotStopped),
        Op::Interrupt if flags & HELD != 0 => (flags | SIGNAL, Then::Nothing),
        Op::Interrupt if is_out => (flags & !STOPPED | SIGNAL, Then::Ready),
        Op::Interrupt => (flags | SIGNAL, Then::Wake),
        Op::Destroy => {
            let then = if is_out { Then::Ready } else { Then::Wake };
            (flags & !(STOPME | STOPPED | HELD | STEP) | KILL, then)
        }
    })
}

/// Applies an operation to the thread of that generation.
pub(crate) fn ask(control: &AtomicU32, generation: u32, op: Op) -> Result<Then, Refused> {
    // Relaxed: the swap decides.
    let mut now = control.load(Ordering::Relaxed);
    loop {
        if now >> GENERATION != generation {
            return Err(Refused::Ended);
        }
        let (flags, then) = after(op, now & FLAGS)?;
        // AcqRel: S1, orders this asker with the dispatcher and with other askers. Relaxed: the loop retries.
        match control.compare_exchange(now, now & !FLAGS | flags, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Ok(then),
            Err(other) => now = other,
        }
    }
}

/// Whether the dispatcher must skip a thread with these flags at its turn.
fn stays_out(flags: u32) -> bool {
    let interrupted = flags & SIGNAL != 0 && flags & HELD == 0;
    flags & STOPME != 0 && flags & STEP == 0 && !interrupted
}

/// Of a thread whose turn it is: whether the dispatcher need not look further. At the queue.
#[inline(always)]
pub(crate) fn is_plain(control: &AtomicU32) -> bool {
    // Relaxed: an asker of this moment is seen at the next dispatch; MODES stays as it was when the thread began.
    control.load(Ordering::Relaxed) & (STOPME | MODES) == 0
}

/// The dispatcher has taken a thread out of its queue: whether it is to run. At the queue.
#[inline(always)]
pub(crate) fn may_run(control: &AtomicU32) -> bool {
    // Relaxed: the compare-exchange decides; the next dispatch sees a request of this moment.
    control.load(Ordering::Relaxed) & STOPME == 0 || !stops(control)
}

#[cold]
fn stops(control: &AtomicU32) -> bool {
    // Relaxed: as above.
    let mut now = control.load(Ordering::Relaxed);
    while stays_out(now & FLAGS) {
        // AcqRel: S1. Relaxed: once more, it may have been resumed.
        match control.compare_exchange(now, now | STOPPED, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
    false
}

/// The thread with the record ends: nothing more can be asked of it. It goes on for a while, with the modes that it keeps: see `modes`.
/// Answers the flags that it had.
pub(crate) fn end(control: &AtomicU32) -> u32 {
    // Relaxed: the swap decides.
    let mut now = control.load(Ordering::Relaxed);
    loop {
        let next = (now | FLAGS).wrapping_add(1) | now & MODES;
        // AcqRel: S4. Relaxed: once more.
        match control.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return now & FLAGS,
            Err(other) => now = other,
        }
    }
}

/// The thread has had its proc for long. A later thread with the record may get the flag instead: it only yields once.
pub(crate) fn is_due(control: &AtomicU32) {
    control.fetch_or(DUE, Ordering::Relaxed); // Relaxed: looked at at its next safe point.
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [(&str, u32); 6] = [
        ("running", 0),
        ("suspending", STOPME),
        ("suspended", STOPME | STOPPED),
        ("stopping", STOPME | HELD),
        ("stopped", STOPME | STOPPED | HELD),
        ("killed", KILL),
    ];

    fn named(flags: u32) -> &'static str {
        STATES.into_iter().find(|(_, bits)| *bits == flags & !(SIGNAL | STEP)).map_or("no state", |(name, _)| name)
    }

    /// Figure 5.10, with what `stop`, `interrupt` and `destroy` add: each operation in each state, as the table of the guide has it.
    #[test]
    fn the_diagram_of_states_holds() {
        use Op::{Destroy, Interrupt, Resume, Step, Stop, Suspend};
        const OPERATIONS: [Op; 6] = [Suspend, Resume, Stop, Step, Interrupt, Destroy];
        let expected = [
            ("running", ["suspending", "running", "stopping", "not stopped", "running, wake", "killed, wake"]),
            ("suspending", ["suspending", "running", "stopping", "not stopped", "suspending, wake", "killed, wake"]),
            (
                "suspended",
                ["suspended", "running, ready", "stopped", "not stopped", "suspending, ready", "killed, ready"],
            ),
            ("stopping", ["stopping", "running", "stopping", "not stopped", "stopping", "killed, wake"]),
            ("stopped", ["stopped", "running, ready", "stopped", "stopping, ready", "stopped", "killed, ready"]),
            ("killed", ["ended", "ended", "ended", "ended", "ended", "killed"]),
        ];
        for ((state, flags), (row, cells)) in STATES.into_iter().zip(expected) {
            assert_eq!(state, row);
            for (op, cell) in OPERATIONS.into_iter().zip(cells) {
                let control = AtomicU32::new(7 << GENERATION | flags);
                let asked = ask(&control, 7, op);
                // SeqCst: nobody else is here.
                let now = control.load(Ordering::SeqCst);
                assert_eq!(now >> GENERATION, 7);
                let became = match asked {
                    Ok(Then::Nothing) => named(now & FLAGS).to_owned(),
                    Ok(Then::Ready) => format!("{}, ready", named(now & FLAGS)),
                    Ok(Then::Wake) => format!("{}, wake", named(now & FLAGS)),
                    Err(Refused::NotStopped) => "not stopped".into(),
                    Err(Refused::Ended) => "ended".into(),
                };
                assert_eq!(became, cell, "{op:?} in {state}");
                assert!(asked.is_ok() || now & FLAGS == flags, "{op:?} in {state} was refused and done");
                assert_eq!(now & SIGNAL != 0, asked.is_ok() && op == Interrupt, "{op:?} in {state}");
                assert_eq!(ask(&control, 8, op), Err(Refused::Ended), "{op:?} meets another thread");
            }
        }
    }

    /// The dispatcher's and the thread's own transitions.
    #[test]
    fn a_dispatch_takes_out_whoever_is_not_to_run() {
        let cases = [
            (0, true, 0),
            (STOPME, false, STOPME | STOPPED),
            (STOPME | HELD, false, STOPME | HELD | STOPPED),
            (STOPME | SIGNAL, true, STOPME | SIGNAL),
            (STOPME | HELD | SIGNAL, false, STOPME | HELD | SIGNAL | STOPPED),
            (STOPME | HELD | STEP, true, STOPME | HELD | STEP),
            (KILL, true, KILL),
            (SIGNAL, true, SIGNAL),
        ];
        for (from, runs, to) in cases {
            let control = AtomicU32::new(from);
            // SeqCst: nobody else is here.
            assert!(runs || !is_plain(&control), "dispatch in {from:#b}");
            assert_eq!((may_run(&control), control.load(Ordering::SeqCst)), (runs, to), "dispatch in {from:#b}");
        }
        // An interrupt that came to one that was held is run when it is resumed.
        assert_eq!(after(Op::Resume, STOPME | HELD | SIGNAL), Ok((SIGNAL, Then::Wake)));
        assert_eq!(after(Op::Resume, STOPME | STOPPED | HELD | SIGNAL), Ok((SIGNAL, Then::Ready)));
        // One step at a time.
        assert_eq!(after(Op::Step, STOPME | HELD | STEP), Err(Refused::NotStopped));
        let control = AtomicU32::new((u32::MAX - FLAGS) | KILL);
        assert_eq!(end(&control), KILL);
        // SeqCst: as above.
        assert_eq!(control.load(Ordering::SeqCst), 0, "the last generation is followed by the first");
        let control = AtomicU32::new(3 << GENERATION | MODES | SIGNAL);
        assert_eq!(end(&control), MODES | SIGNAL);
        // SeqCst: as above.
        let ended = control.load(Ordering::SeqCst);
        assert_eq!(ended, 4 << GENERATION | MODES, "one that ends keeps its modes until it is off its stack");
    }
}
