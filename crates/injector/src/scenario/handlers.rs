//! A signal handler adds units, in the middle of its thread's own wait; and what makes ready for that.

use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use chappe::Semaphore;

use super::Operation;
use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::ledger::weigh;
use super::semaphores;
use super::world::{VICTIM, fault};
use crate::board::Fault;

const SIGNAL: i32 = libc::SIGUSR1;

/// Semaphore `s`, and `h`, on which the interrupted thread waits.
static RAISED: [AtomicPtr<Semaphore>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];

extern "C" fn raise_both(_signal: i32) {
    for place in &RAISED {
        // SAFETY: set before the handler was, to semaphores that live as long as the process.
        let semaphore = unsafe { &*place.load(SeqCst) };
        // A refusal leaves the thread asleep, which is found.
        let _ = semaphore.up();
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        // The victim waits on `h`. The handler adds a unit to `s`, for which helpers wait, and then
        // the one to `h`.
        Operation::of("up in a handler, in down", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_interrupted(true)
            .build(|w| {
                w.make("p", 1)?;
                w.make_semaphore("h", 0, false)?;
                w.make_semaphore("s", 0, false)
            })
            .perform(|w| {
                w.warm("p");
                let [s, h] = ["s", "h"].map(|name| w.semaphore(name).expect("the keeper has made it"));
                for (place, semaphore) in RAISED.iter().zip([s, h]) {
                    place.store(std::ptr::from_ref(semaphore).cast_mut(), SeqCst);
                }
                // SAFETY: a zeroed sigaction is valid; the handler adds units, which handlers may.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    action.sa_sigaction = raise_both as extern "C" fn(i32) as usize;
                    libc::sigaction(SIGNAL, &action, std::ptr::null_mut());
                }
                w.stage().begin();
                let got = h.down();
                w.stage().end(got.is_ok());
            })
            .wait(|w| w.take_unit("s"))
            .asleep(|w| {
                let victim = w.stage().word(VICTIM).load(SeqCst) as libc::pid_t;
                // SAFETY: the director has not reaped its child, so the number is still its own.
                unsafe { libc::kill(victim, SIGNAL) };
                Ok(())
            })
            .meet(|w| {
                w.give_unit("s")?;
                w.take_unit("s")
            })
            .others(|w| {
                w.give_unit("s")?;
                if w.scene() == StoppedWaiter {
                    return w.through("the waiter gets no unit past the stopped one:");
                }
                if w.try_unit("s")? {
                    w.take_unit("s")
                } else {
                    fault(Fault::Wedged, "a unit just given is not to be had")
                }
            })
            .provide(|w| w.provide_unit("s", 2))
            .check(|w| {
                let (h, s) = (w.difference("h")?, w.difference("s")?);
                weigh("s", s, if w.was_done() { &[1] } else { &[0, 1] })?;
                // Added after that, and then used up.
                weigh("h", h, if w.was_done() || s == 0 { &[0] } else { &[0, 1] })?;
                if h > s {
                    return fault(Fault::Torn, "the second up has happened, and the first has not");
                }
                w.in_order(&["h", "p", "s"])
            }),
        Operation::of("prepare_handlers", &[Alone, Stopped])
            .build(|w| semaphores::build(w, 1, false))
            .perform(|w| {
                let s = w.semaphore("s").expect("the keeper has made it");
                w.stage().begin();
                let done = s.prepare_handlers();
                w.stage().end(done.is_ok());
            })
            .others(|w| {
                if w.try_unit("s")? {
                    Ok(())
                } else {
                    fault(Fault::Wedged, "the unit is not to be had past the stopped one")
                }
            })
            .check(|w| {
                w.balance("s", &[0])?;
                w.in_order(&["p", "s"])
            }),
    ]
}
