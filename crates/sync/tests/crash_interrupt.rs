//! Interrupted waits, explored: a request of another thread, or a signal, beside a grant, beside deaths. What must hold: an interrupted waiter
//! does not sleep on, and the interrupting thread goes on; a unit that was on its way is the waiter's, or the next one's.

use crate::counted::{Counted, enough, last, more};
use crate::crash::{Stage, searched, searched_in, stopped_in};
use crate::owned::Owned;
use chappe_crashsim::{Fate, Search, World, reached};
use chappe_sync::Interrupt;
use chappe_sync::model::Refusal;
use std::cell::Cell;

/// So many sleeps are interrupted at most.
const SIGNALS: u32 = 3;

/// A waiter is interrupted by another thread of its process; a unit comes meanwhile, for which another waits as well.
fn asked(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("waiter");
    let me = s.downer(&stage, p, "waiter");
    let by = world.share(Interrupt::default());
    let [is_asked, over] = [(); 2].map(|()| world.share(Cell::new(false)));
    p.thread("asks", move || {
        by.interrupt();
        is_asked.set(true);
    });
    stage.reaper(stage.lasting(p, move || {
        match me.down_interruptible(s.semaphore, None, &by) {
            Ok(()) => {
                more(&s.books.downs);
                reached("served");
            }
            Err(Refusal::Interrupted) => reached("interrupted"),
            Err(e) => panic!("{e:?}"),
        }
        over.set(true);
    }));
    s.upper(&stage, world, "upper", 1);
    s.lasting_customer(&stage, world, "other", "other served");
    // One unit for two; the first need not wait for it.
    world.may_wait(move || s.semaphore.units() == 0 && (over.get() && is_asked.get() || p.fate() != Fate::Alive));
    last(world, stage, &[s]);
}

#[test]
fn an_interrupt_beside_a_grant_survives_kills() {
    searched("interrupt_asked", asked, &["served", "interrupted", "other served", "raised"]);
    stopped_in(2_000, "interrupt_asked", asked);
}

/// The same by signals, and the waiter waits again each time. No thread asks. Its reaper is in another process: in a
/// process with a reaper, the reaper's sleeps would be interrupted first.
fn signalled(world: &World) {
    let (stage, _) = Stage::new(world, 8, &[], 1);
    let s = Counted::new(world, &stage, "s", 0, 1, false);
    let p = world.prepare("waiter");
    let me = s.downer(&stage, p, "waiter");
    let by = world.share(Interrupt::default());
    stage.lasting(p, move || {
        let mut ended = 0;
        while let Err(e) = me.down_interruptible(s.semaphore, None, &by) {
            assert_eq!(e, Refusal::Interrupted);
            reached("interrupted");
            ended += 1;
            assert!(ended <= SIGNALS, "a signal ends one wait");
        }
        more(&s.books.downs);
        reached("served");
    });
    s.upper(&stage, world, "upper", 2);
    s.lasting_customer(&stage, world, "other", "other served");
    enough(world, &[s]);
    last(world, stage, &[s]);
}

#[test]
fn a_signal_beside_a_grant_survives_kills() {
    let all = [
        Search::depth("interrupt_signalled_depth", 2).spurious(1).schedules(20_000),
        Search::depth("interrupt_signalled_kill", 1).kills(1).spurious(1).schedules(20_000),
        Search::uniform("interrupt_signalled_dice").kills(1).spurious(SIGNALS).schedules(10_000),
        Search::priorities("interrupt_signalled_pct", 4).kills(1).spurious(SIGNALS).schedules(10_000),
    ]
    .map(|search| search.run(signalled));
    all.iter().for_each(|report| _ = report.assert_clean());
    for outcome in ["served", "interrupted", "other served"] {
        assert!(all.iter().any(|r| r.outcomes().contains_key(outcome)), "never came to `{outcome}`");
    }
}

/// A waiter in both lines of an owned semaphore, whose holder gives it back or dies.
fn in_two_lines(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let it = s.it;
    s.giver(world, &stage, "holder");
    let p = world.prepare("waiter");
    let a = s.actors(world, p, "waiter");
    let by = world.share(Interrupt::default());
    let [is_asked, over] = [(); 2].map(|()| world.share(Cell::new(false)));
    p.thread("asks", move || {
        by.interrupt();
        is_asked.set(true);
    });
    stage.reaper(stage.lasting(p, move || {
        match a.wait_interruptible(&by) {
            Ok(()) => {
                reached("served");
                assert!(a.post());
            }
            Err(Refusal::Interrupted) => reached("interrupted"),
            Err(e) => panic!("{e:?}"),
        }
        over.set(true);
    }));
    s.locker(world, &stage, "other", "other done");
    let done = move || over.get() && is_asked.get() || p.fate() != Fate::Alive;
    world.may_wait(move || !it.is_there() && it.count() == 0 && done());
    s.last(world);
}

#[test]
fn an_interrupt_in_two_lines_survives_kills() {
    let outcomes = ["given back", "served", "interrupted", "other done", "settled, owned"];
    searched_in(6_000, "interrupt_owned", in_two_lines, &outcomes);
}
