//! Plan 9's semaphores: a word of the board, no arena, no queue of ours. Nothing returns with a death, and a wake-up may die
//! with who was woken; the next release gets everybody on.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use chappe::plan9::{semacquire, semrelease};

use super::Scene::{Alone, Stopped, Waiters};
use super::ledger::weigh;
use super::world::{SLEEPERS, World, fault, fine};
use super::{Operation, Scene};
use crate::board::{Fault, Stage, Verdict};

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![Box::new(Acquire), Box::new(Release)]
}

/// The word of the board in which the semaphore lies.
const WORD: usize = 18;
/// What the ledger calls it.
const NAME: &str = "w";

fn word(stage: &Stage) -> &'static AtomicI32 {
    // SAFETY: half of a word of the board, which is never unmapped; while a trial runs it is used in no other way.
    unsafe { &*stage.word(WORD).as_ptr().cast::<AtomicI32>() }
}

fn give(w: &World) -> Verdict {
    w.note_given(NAME, 1);
    fine("releasing", semrelease(word(w.stage()), 1)).map(drop)
}

/// A helper, the first or the second, takes one.
fn take(w: &World, which: usize) -> Verdict {
    w.stage().word(SLEEPERS + which).store(u64::from(std::process::id()), SeqCst);
    let got = fine("acquiring", semacquire(word(w.stage()), true))?;
    w.note_taken(NAME);
    if got { Ok(()) } else { fault(Fault::Torn, "asked to wait, it did not") }
}

/// While the victim is stopped, at least one is there.
fn pass(w: &World) -> Verdict {
    if fine("trying", semacquire(word(w.stage()), false))? {
        w.note_taken(NAME);
        return give(w);
    }
    fault(Fault::Wedged, "the stopped one keeps more than one away")
}

/// A wake-up may have died with the victim. The word may then be positive while others sleep.
fn provide(w: &World) {
    let before = w.done_helpers();
    std::thread::sleep(std::time::Duration::from_millis(2));
    if w.done_helpers() == before && w.waiting() > 0 && w.may_provide(2) {
        // A refusal leaves them asleep, which is found.
        let _ = give(w);
    }
}

fn balance(w: &World, allowed: &[i64]) -> Verdict {
    weigh(NAME, i64::from(word(w.stage()).load(SeqCst)) - w.left(NAME), allowed)
}

fn build(w: &mut World, value: u32) -> Verdict {
    w.count_sleepers();
    w.note_given(NAME, value);
    fine("releasing", semrelease(word(w.stage()), value as i32)).map(drop)
}

struct Acquire;

impl Operation for Acquire {
    fn name(&self) -> &'static str {
        "semacquire"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Alone, Waiters, Stopped]
    }
    fn victim_sleeps(&self) -> bool {
        true
    }
    fn build(&self, w: &mut World) -> Verdict {
        let value = match w.scene() {
            Alone => 1,
            Stopped => 2,
            _ => 0,
        };
        build(w, value)
    }
    fn perform(&self, w: &World) {
        let word = word(w.stage());
        w.stage().begin();
        let got = semacquire(word, true);
        w.stage().end(got == Ok(true));
    }
    fn wait(&self, w: &World, which: usize) -> Verdict {
        take(w, which)
    }
    fn others(&self, w: &mut World) -> Verdict {
        pass(w)
    }
    fn asleep(&self, w: &mut World) -> Verdict {
        w.let_go();
        (0..3).try_for_each(|_| give(w))
    }
    fn provide(&self, w: &World) {
        provide(w);
    }
    fn check(&self, w: &mut World) -> Verdict {
        let allowed: &[i64] = match (w.was_done(), w.scene().waits() && !w.was_woken()) {
            (true, _) => &[-1],
            (false, true) => &[0],
            (false, false) => &[-1, 0],
        };
        balance(w, allowed)
    }
}

struct Release;

impl Operation for Release {
    fn name(&self) -> &'static str {
        "semrelease(2)"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Alone, Waiters, Stopped]
    }
    fn build(&self, w: &mut World) -> Verdict {
        build(w, u32::from(w.scene() == Stopped))
    }
    fn perform(&self, w: &World) {
        let word = word(w.stage());
        w.stage().begin();
        let done = semrelease(word, 2);
        w.stage().end(done.is_ok());
    }
    fn wait(&self, w: &World, which: usize) -> Verdict {
        take(w, which)
    }
    fn others(&self, w: &mut World) -> Verdict {
        pass(w)
    }
    fn provide(&self, w: &World) {
        provide(w);
    }
    fn check(&self, w: &mut World) -> Verdict {
        balance(w, if w.was_done() { &[2] } else { &[0, 2] })
    }
}
