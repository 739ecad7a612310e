//! Waits that are ended from outside: by a handled signal, or by another thread's word. A unit that was on its way by then is the
//! waiter's, or the next one's.

use std::sync::atomic::Ordering::SeqCst;

use chappe::owned::RobustSemaphore;
use chappe::{BarrierError, DownError, Interrupt, interruptible};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::barriers::Ends;
use super::ledger::weigh;
use super::world::{VICTIM, World, fault};
use super::{Operation, barriers, owned, semaphores};
use crate::board::Fault;

const SIGNAL: i32 = libc::SIGUSR2;

/// What the wait came to: 0 for nothing yet. SeqCst: in the scene's own books, and nothing else is read by it.
const CAME_TO: usize = 19;
/// It has a unit.
const TAKEN: u64 = 1;
/// It was interrupted.
const INTERRUPTED: u64 = 2;
/// Neither.
const FAILED: u64 = 3;

static BY: Interrupt = Interrupt::new();

extern "C" fn nothing(_signal: i32) {}

/// Signals interrupt a sleep, and do nothing else.
fn handle() {
    // SAFETY: a zeroed sigaction is valid; the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
    }
}

fn send(w: &World) {
    // SeqCst: stored before the victim began.
    let victim = w.stage().word(VICTIM).load(SeqCst) as libc::pid_t;
    // SAFETY: the director has not reaped its child, so the number is still its own.
    unsafe { libc::kill(victim, SIGNAL) };
}

/// Notes what a wait came to. False: what it should not.
fn note(w: &World, got: &Result<(), DownError>) -> bool {
    let came_to = match got {
        Ok(()) => TAKEN,
        Err(DownError::Interrupted) => INTERRUPTED,
        Err(_) => FAILED,
    };
    w.stage().word(CAME_TO).store(came_to, SeqCst);
    came_to != FAILED
}

/// What the victim's wait may have taken.
fn allowed(w: &World) -> &'static [i64] {
    match w.stage().word(CAME_TO).load(SeqCst) {
        TAKEN => &[-1],
        INTERRUPTED => &[0],
        _ => &[-1, 0],
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        // The victim waits for a unit, and is interrupted. Where it is stopped a unit comes for it
        // meanwhile.
        Operation::of("down, interrupted", &[Alone, Waiters, Stopped, StoppedWaiter])
            .victim_interrupted(true)
            .build(|w| semaphores::build(w, 0, false))
            .perform(|w| {
                let s = semaphores::warm(w);
                handle();
                w.stage().begin();
                let got = interruptible(&BY, || s.down());
                w.stage().end(note(w, &got) && (got.is_err() || w.scene() == Stopped));
            })
            .asleep(|w| {
                send(w);
                Ok(())
            })
            .wait(|w| w.take_unit("s"))
            .others(|w| {
                w.give_unit("s")?;
                if w.scene() == StoppedWaiter {
                    return w.first_through();
                }
                // It is there, or the stopped one's.
                Ok(())
            })
            .provide(|w| w.provide_unit("s", 2))
            .check(|w| {
                // Only where the victim is stopped is there ever a unit that no waiter ahead of it takes.
                weigh("s", w.difference("s")?, if w.scene() == Stopped { allowed(w) } else { &[0] })?;
                w.in_order(&["p", "s"])
            }),
        // The same with an owned semaphore, in both lines of which it stands. What it has taken
        // comes back.
        Operation::of("owned wait, interrupted", &[Alone, Waiters, Stopped, StoppedWaiter])
            .victim_interrupted(true)
            .build(|w| {
                let it: RobustSemaphore = owned::build(w)?;
                owned::hold(w, it)
            })
            .perform(|w| {
                let it = owned::warm(w);
                handle();
                w.stage().begin();
                let got = interruptible(&BY, || it.wait());
                w.stage().end(note(w, &got) && (got.is_err() || matches!(w.scene(), Stopped | StoppedWaiter)));
            })
            .asleep(|w| {
                send(w);
                Ok(())
            })
            .wait(owned::pass)
            .others(|w| {
                w.let_go();
                if w.scene() == StoppedWaiter {
                    return w.first_through();
                }
                owned::take_or_victim_has(w)
            })
            .check(owned::check_lock),
        // The victim waits at a barrier, and is interrupted: its arrival is taken back, unless the round turns beside it.
        Operation::of("barrier wait, interrupted", &[Alone, Waiters, Stopped, StoppedWaiter])
            .victim_interrupted(true)
            .build(barriers::late)
            .perform(|w| {
                let barrier = barriers::warm(w);
                barrier.join().expect("there is a place");
                handle();
                w.stage().begin();
                let got = interruptible(&BY, || barrier.wait());
                let is_back = matches!(got, Err(BarrierError::Interrupted));
                let is_turn = !is_back && barriers::victim_notes(w, &got);
                w.stage().end(is_back || is_turn && matches!(w.scene(), Stopped | StoppedWaiter));
            })
            .asleep(|w| {
                send(w);
                Ok(())
            })
            .wait_each(barriers::pass)
            .others(barriers::others)
            .provide(barriers::provide)
            .check(|w| barriers::check(w, Ends::Told, &["b", "p"])),
        // A thread of the victim waits, and another, which is led, interrupts it. Helpers wait
        // behind.
        Operation::of("interrupt a thread in down", &[Alone, Waiters, Met, Stopped])
            .victim_holds(true)
            .build(|w| semaphores::build(w, 0, false))
            .perform(|w| {
                let s = semaphores::warm(w);
                let (stage, scene) = (*w.stage(), w.scene());
                std::thread::spawn(move || {
                    let got = interruptible(&BY, || s.down());
                    note(&World::new(&stage, scene), &got);
                });
                assert!(w.stage().until(|| s.waiters().len() == 1), "the thread comes to wait");
                w.holding_while(|| s.waiters().len() - 1);
                w.stage().begin();
                BY.interrupt();
                w.stage().end(BY.is_asked());
            })
            .wait(|w| w.take_unit("s"))
            .meet(|w| w.give_unit("s"))
            .others(|w| {
                w.give_unit("s")?;
                let may_take = || w.stage().word(CAME_TO).load(SeqCst) == TAKEN || matches!(w.try_unit("s"), Ok(true));
                w.demand(may_take, "the unit is neither free nor the waiting thread's:")
            })
            .provide(|w| w.provide_unit("s", 2))
            .check(|w| {
                if w.stage().word(CAME_TO).load(SeqCst) == FAILED {
                    return fault(Fault::Torn, "the wait ended otherwise");
                }
                weigh("s", w.difference("s")?, if w.helpers() == 2 { &[0] } else { allowed(w) })?;
                w.in_order(&["p", "s"])
            }),
    ]
}
