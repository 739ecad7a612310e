//! Plan 9's semaphores: words of the board, no arena, no queue of chappe's. Nothing returns with a death.
//!
//! What they promise all the same: an operation has happened or has not; a waiter for what is there gets it, at the second look if the
//! wake-up has died. What they say they lose (a `Usem`'s release half-way under waiters, a lock whose holder dies) is not played, or is a
//! control (see `mistakes`).

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::time::Duration;

use chappe::plan9::{Lock, Usem, semacquire, semrelease};

use super::Operation;
use super::Scene::{Alone, Stopped, Waiters};
use super::ledger::weigh;
use super::world::{SLEEPERS, World, fault, fine};
use crate::board::{Fault, Stage, Verdict};

/// The word of the board in which the structure lies.
const WORD: usize = 18;
/// What the ledger calls it.
const NAME: &str = "w";

/// A plain word, or the two words with which one stays out of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Usem,
}

fn word(stage: &Stage) -> &'static AtomicI32 {
    // SAFETY: half of a word of the board, which is never unmapped; while a trial runs it is used in no other way.
    unsafe { &*stage.word(WORD).as_ptr().cast::<AtomicI32>() }
}

fn usem(stage: &Stage) -> &'static Usem {
    // SAFETY: as for `word`; its two words are the size of one of the board, and zero is a semaphore of 0.
    unsafe { &*stage.word(WORD).as_ptr().cast::<Usem>() }
}

/// A lock that knows nothing of deaths.
pub fn lock(stage: &Stage) -> &'static Lock {
    // SAFETY: as for `usem`; zero is unlocked.
    unsafe { &*stage.word(WORD).as_ptr().cast::<Lock>() }
}

impl Kind {
    /// Its value, those subtracted that wait; a death there keeps its place.
    fn value(self, stage: &Stage) -> i64 {
        // Both halves of the board's word; of a plain word the second is 0.
        let both = stage.word(WORD).load(SeqCst);
        i64::from(both as i32) + i64::from((both >> 32) as i32)
    }

    fn take(self, stage: &Stage) -> Result<bool, (Fault, String)> {
        match self {
            Kind::Word => fine("acquiring", semacquire(word(stage), true)),
            Kind::Usem => fine("acquiring", usem(stage).acquire()).map(|()| true),
        }
    }

    fn try_take(self, stage: &Stage) -> Result<bool, (Fault, String)> {
        match self {
            Kind::Word => fine("trying", semacquire(word(stage), false)),
            Kind::Usem => Ok(usem(stage).try_acquire()),
        }
    }

    fn put(self, stage: &Stage, n: i32) -> Verdict {
        match self {
            Kind::Word => fine("releasing", semrelease(word(stage), n)).map(drop),
            Kind::Usem => (0..n).try_for_each(|_| fine("releasing", usem(stage).release())),
        }
    }

    fn give(self, w: &World) -> Verdict {
        w.note_given(NAME, 1);
        self.put(w.stage(), 1)
    }

    fn build(self, w: &World, value: u32) -> Verdict {
        w.count_sleepers();
        w.note_given(NAME, value);
        self.put(w.stage(), value as i32)
    }

    /// A helper, the first or the second, takes one.
    fn wait(self, w: &World, which: usize) -> Verdict {
        come(w, which);
        let got = self.take(w.stage())?;
        w.note_taken(NAME);
        if got { Ok(()) } else { fault(Fault::Torn, "asked to wait, it did not") }
    }

    /// While the victim is stopped, at least one is there.
    fn pass(self, w: &World) -> Verdict {
        if self.try_take(w.stage())? {
            w.note_taken(NAME);
            return self.give(w);
        }
        fault(Fault::Wedged, "the stopped one keeps more than one away")
    }

    fn balance(self, w: &World, allowed: &[i64]) -> Verdict {
        weigh(NAME, self.value(w.stage()) - w.left(NAME), allowed)
    }
}

/// A helper is about to wait where only the kernel can see it.
fn come(w: &World, which: usize) {
    w.stage().word(SLEEPERS + which).store(u64::from(std::process::id()), SeqCst);
}

/// Nothing is there, and for a while no waiter goes on: what they wait for has died with the victim.
fn is_stuck(w: &World, nothing: impl Fn() -> bool) -> bool {
    let before = w.done_helpers();
    std::thread::sleep(Duration::from_millis(2));
    nothing() && w.done_helpers() == before && w.waiting() > 0
}

fn down(kind: Kind) -> Operation {
    Operation::of(if kind == Kind::Word { "semacquire" } else { "Usem::acquire" }, &[Alone, Waiters, Stopped])
        .victim_sleeps(true)
        .recovers(false)
        .build(move |w| {
            let value = match w.scene() {
                Alone => 1,
                Stopped => 2,
                _ => 0,
            };
            kind.build(w, value)?;
            // One for each; what the dead victim does not take is left over.
            let (stage, scene, kind) = (*w.stage(), w.scene(), kind);
            w.owe(move || {
                for _ in 0..if scene == Waiters { 3 } else { 0 } {
                    // A refusal leaves them asleep, which is found.
                    let _ = kind.give(&World::new(&stage, scene));
                }
            });
            Ok(())
        })
        .perform(move |w| {
            w.stage().begin();
            let got = kind.take(w.stage());
            w.stage().end(got == Ok(true));
        })
        .wait_each(move |w, which| kind.wait(w, which))
        .others(move |w| kind.pass(w))
        .check(move |w| kind.balance(w, w.of_a_down()))
}

/// Two at once, or one of the `Usem`.
fn up(kind: Kind) -> Operation {
    Operation::of(
        if kind == Kind::Word { "semrelease(2)" } else { "Usem::release" },
        if kind == Kind::Word { &[Alone, Waiters, Stopped] } else { &[Alone, Stopped] },
    )
    .recovers(false)
    .build(move |w| kind.build(w, u32::from(w.scene() == Stopped)))
    .perform(move |w| {
        let n = if kind == Kind::Word { 2 } else { 1 };
        w.stage().begin();
        let done = kind.put(w.stage(), n);
        w.stage().end(done.is_ok());
    })
    .wait_each(move |w, which| kind.wait(w, which))
    .others(move |w| kind.pass(w))
    .provide(move |w| {
        // Beside a positive value they wait for their second look, and nothing else is to be done.
        if is_stuck(w, || word(w.stage()).load(SeqCst) == 0) && w.may_provide(2) {
            // A refusal leaves them asleep, which is found.
            let _ = kind.give(w);
        }
    })
    .check(move |w| {
        let all = if kind == Kind::Word { 2 } else { 1 };
        kind.balance(w, &[if w.was_done() { all } else { 0 }, all])
    })
}

/// No process waits, and none need: one of two is taken.
fn try_down(kind: Kind) -> Operation {
    Operation::of(if kind == Kind::Word { "semacquire, not waiting" } else { "Usem::try_acquire" }, &[Alone, Stopped])
        .recovers(false)
        .build(move |w| kind.build(w, 2))
        .perform(move |w| {
            w.stage().begin();
            let got = kind.try_take(w.stage()) == Ok(true);
            w.stage().end(got);
        })
        .others(move |w| kind.pass(w))
        .check(move |w| kind.balance(w, if w.was_done() { &[-1] } else { &[-1, 0] }))
}

/// Nothing is on its semaphore, and a waiter is counted. The living ones wait or are through: the dead one has it.
fn is_held(stage: &Stage) -> bool {
    let both = stage.word(WORD).load(SeqCst);
    both as u32 > 0 && both >> 32 == 0
}

/// A survivor's turn.
fn pass(w: &World) -> Verdict {
    lock(w.stage()).lock();
    lock(w.stage()).unlock();
    Ok(())
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let kinds = [Kind::Word, Kind::Usem];
    let others = [
        Operation::of("plan9::Lock::canlock, unlock", &[Alone])
            .recovers(false)
            .perform(|w| {
                w.stage().begin();
                let got = lock(w.stage()).canlock();
                if got {
                    lock(w.stage()).unlock();
                }
                w.stage().end(got);
            })
            .check(|w| {
                // Its dead holder keeps it.
                if is_held(w.stage()) {
                    lock(w.stage()).unlock();
                }
                pass(w)
            }),
        // The keeper has it; a death while waiting for it keeps it from no other process. If the
        // victim dies with it, any process may unlock.
        Operation::of("plan9::Lock::lock", &[Waiters])
            .victim_sleeps(true)
            .recovers(false)
            .build(|w| {
                w.count_sleepers();
                lock(w.stage()).lock();
                let lock = lock(w.stage());
                w.owe(move || lock.unlock());
                Ok(())
            })
            .perform(|w| {
                w.stage().begin();
                lock(w.stage()).lock();
                w.stage().end(true);
            })
            .wait_each(|w, which| {
                come(w, which);
                pass(w)
            })
            .provide(|w| {
                if is_stuck(w, || is_held(w.stage())) && w.was_woken() && w.may_provide(1) {
                    lock(w.stage()).unlock();
                }
            })
            .check(|w| {
                let held = is_held(w.stage());
                match (held, w.was_woken(), w.was_done() && w.provided() == 0) {
                    (true, false, _) => return fault(Fault::Wedged, "it is held, and the victim never had it"),
                    (false, _, true) => return fault(Fault::Lost, "the victim has it, and it is not held"),
                    (true, true, _) => lock(w.stage()).unlock(),
                    (false, _, false) => {}
                }
                // A waiter that died is still counted: `lock` gets it, `canlock` need not.
                pass(w)
            }),
    ];
    let of_both = kinds.map(down).into_iter().chain(kinds.map(up)).chain(kinds.map(try_down));
    of_both.chain(others).collect()
}
