//! Owned semaphores: locks that return with a death, until they prove to be none. Then nothing returns.
//!
//! One is a lock as long as it is not demoted: its unit is there again after its holder's death. A process that posts without holding it,
//! or that dies having said that it ends in good order, has demoted it: what the books then allow is said at each operation.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::owned::{self, RobustSemaphore};
use chappe::{Arena, DownError, ObjectError, UpError};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::ledger::weigh;
use super::world::{OPTIONS, VICTIM, World, fault, fine};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};

/// What the semaphore is called, and what the ledger calls it.
const NAME: &str = "o";
/// The process inside the lock. SeqCst: in the scene's own books, by whose swap two inside are found.
const INSIDE: usize = 18;

fn arena() -> Result<Arena, (Fault, String)> {
    fine("opening the arena", Arena::open("default"))
}

fn find() -> Result<RobustSemaphore, (Fault, String)> {
    fine("finding it", RobustSemaphore::in_arena(&arena()?, NAME))
}

/// The victim's, which has joined the arena as a process: it leaves all as it is.
pub fn warm(w: &World) -> RobustSemaphore {
    w.warm("p");
    let it = find().expect("the keeper has made it");
    it.prepare_to_wait().expect("there is room for the victim");
    it
}

/// The same, and the victim holds it: the waiters of the scene have come.
fn warm_holding(w: &World) -> RobustSemaphore {
    let it = warm(w);
    it.try_wait().expect("it is free");
    w.holding_while(|| it.waiters().len());
    it
}

/// A survivor takes a unit, and puts it back. As long as it is a lock, no other process is inside.
pub fn pass(w: &World) -> Verdict {
    let it = find()?;
    let got = it.wait();
    pass_through(w, it, got)
}

fn pass_through(w: &World, it: RobustSemaphore, got: Result<(), DownError>) -> Verdict {
    fine("waiting for it", got)?;
    w.note_taken(NAME);
    let inside = w.stage().word(INSIDE);
    let other = inside.swap(u64::from(std::process::id()), SeqCst);
    // Once it is demoted, it is no lock.
    if other != 0 && it.is_owned() {
        return fault(Fault::Doubled, format!("it is a lock, and {other} is inside"));
    }
    inside.store(0, SeqCst);
    give(w, it)
}

/// A survivor posts: what it holds, or one more.
fn give(w: &World, it: RobustSemaphore) -> Verdict {
    w.note_given(NAME, 1);
    fine("posting", it.post())
}

fn victim_has(w: &World, it: &RobustSemaphore) -> bool {
    // SeqCst: stored before the victim began.
    let victim = w.stage().word(VICTIM).load(SeqCst);
    it.holder().is_some_and(|who| u64::from(who.pid) == victim)
}

/// For [`Reason::Owned`].
pub fn is_the_victims(w: &World) -> bool {
    find().is_ok_and(|it| victim_has(w, &it))
}

/// While the victim is stopped: a unit can be had at once, unless the victim has the one that there is.
pub fn take_or_victim_has(w: &World) -> Verdict {
    let it = find()?;
    match it.try_wait() {
        Err(DownError::WouldBlock) if victim_has(w, &it) => Ok(()),
        // Set aside for the only process that has waited. Whether it ever comes back is asked after
        // the victim's death.
        Err(DownError::WouldBlock) if it.holder().is_none() && w.scene() == Stopped => Ok(()),
        Err(DownError::WouldBlock) => {
            fault(Fault::Wedged, format!("it is neither free nor the stopped victim's: {:?}", it.holder()))
        }
        got => pass_through(w, it, got),
    }
}

/// While the victim is stopped: the waiter makes progress, unless the victim has it.
fn waiter_gets_it(w: &World) -> Verdict {
    w.let_go();
    let it = find()?;
    // Any process that comes by finishes what the stopped one began.
    if let Ok(()) = it.try_wait() {
        pass_through(w, it, Ok(()))?;
    }
    w.demand(|| w.done_helpers() > 0 || victim_has(w, &it), "a waiter waits for the stopped victim;")
}

/// Makes it, beside pool `p`.
pub fn build(w: &World) -> Result<RobustSemaphore, (Fault, String)> {
    w.make("p", 1)?;
    let it = fine("making it", RobustSemaphore::create_in(&arena()?, Some(NAME)))?;
    w.note_given(NAME, 1);
    w.count_waiters_of(NAME);
    Ok(it)
}

/// The keeper holds it until it lets go, where a waiter is there.
fn build_held(w: &World) -> Verdict {
    let it = build(w)?;
    if w.scene().waits() { hold(w, it) } else { Ok(()) }
}

pub fn hold(w: &World, it: RobustSemaphore) -> Verdict {
    fine("taking a free one", it.try_wait())?;
    w.note_taken(NAME);
    let (stage, scene) = (*w.stage(), w.scene());
    w.owe(move || {
        // A refusal leaves those that wait where they are, which is found.
        let _ = give(&World::new(&stage, scene), it);
    });
    Ok(())
}

/// Those that wait get one more, if the dead victim has used up what was theirs; so many in all.
fn provide(w: &World, most: u64) {
    let Ok(it) = find() else { return };
    if w.is_stuck(|| it.value() == 0) && w.may_provide(most) {
        // A refusal leaves them stuck, which is found.
        let _ = give(w, it);
    }
}

/// What the victim has added (or, negative, taken). No other process uses it any more; all units can be taken, none waits.
fn difference(w: &World) -> Result<i64, (Fault, String)> {
    // Sweeps the dead: the victim may have been alone.
    fine("sweeping", chappe::doctor())?;
    let it = find()?;
    // What a helper held at its end is its death's, which is seen to as well.
    if !w.stage().until(|| it.waiters().is_empty()) {
        return fault(Fault::Torn, format!("it shows waiters: {:?}", it.waiters()));
    }
    let (value, left, owned) = (it.value(), w.left(NAME), it.is_owned());
    for had in 0..value {
        if let Err(e) = it.try_wait() {
            return fault(Fault::Wedged, format!("it is {value}, and after {had}: {e}"));
        }
    }
    match it.try_wait() {
        Err(DownError::WouldBlock) => {}
        Ok(()) => return fault(Fault::Doubled, format!("it was {value}, and gave one more")),
        Err(e) => return fault(Fault::Torn, format!("trying it: {e}")),
    }
    for _ in 0..value {
        fine("putting them back", it.post())?;
    }
    if (it.value(), it.is_owned()) != (value, owned) {
        return fault(Fault::Torn, format!("it is {}, owned: {}, not {value}, {owned}", it.value(), it.is_owned()));
    }
    Ok(i64::from(value) - left)
}

/// It is a lock still, and free.
pub fn check_lock(w: &World) -> Verdict {
    weigh(NAME, difference(w)?, &[0])?;
    if !find()?.is_owned() {
        return fault(Fault::Torn, "it was demoted, and everybody gave back what was theirs");
    }
    w.in_order(&[NAME, "p"])
}

/// The keeper has it, and lives on. The victim, which has not, posts: it is demoted, and has one unit more; or neither, or demoted alone.
/// `plain`: It was demoted before.
fn post_foreign(plain: bool) -> Operation {
    Operation::of(
        if plain { "owned post, demoted before" } else { "owned post, by another" },
        &[Alone, Waiters, Met, Stopped, StoppedWaiter],
    )
    .retold(move |_| plain)
    .build(move |w| {
        let it = build(w)?;
        fine("taking a free one", it.try_wait())?;
        w.note_taken(NAME);
        if plain { fine("demoting it", it.demote()) } else { Ok(()) }
    })
    .perform(|w| {
        let it = warm(w);
        w.stage().begin();
        let done = it.post();
        w.stage().end(done.is_ok());
    })
    .wait(pass)
    .meet(|w| give(w, find()?))
    .others(|w| {
        // Its own, which it has.
        let it = find()?;
        give(w, it)?;
        if w.scene() == StoppedWaiter {
            return w.through("the waiter gets no unit past the stopped one:");
        }
        let got = it.try_wait();
        pass_through(w, it, got)
    })
    .provide(|w| provide(w, 2))
    .check(|w| {
        let it = find()?;
        let added = difference(w)?;
        weigh(NAME, added, if w.was_done() { &[1] } else { &[0, 1] })?;
        if added > 0 && it.is_owned() {
            return fault(Fault::Torn, "a process that did not hold it has posted, and it is a lock still");
        }
        w.in_order(&[NAME, "p"])
    })
}

/// The victim holds it, and says that it is no lock; or that its process ends. What it has then goes with it.
fn demote(at_end: bool) -> Operation {
    Operation::of(if at_end { "owned, ending" } else { "owned demote" }, &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        .victim_holds(true)
        .held_up_by(Reason::Owned)
        .build(|w| build(w).map(drop))
        .perform(move |w| {
            let it = warm_holding(w);
            w.stage().begin();
            if at_end {
                owned::ending();
                w.stage().end(true);
            } else {
                let done = it.demote();
                w.stage().end(done.is_ok());
            }
        })
        .wait(pass)
        .others(|w| {
            let it = find()?;
            match it.try_wait() {
                Err(DownError::WouldBlock) if victim_has(w, &it) => Ok(()),
                other => fault(Fault::Doubled, format!("the stopped victim has it, and trying it: {other:?}")),
            }
        })
        .provide(|w| provide(w, 2))
        .check(|w| {
            let it = find()?;
            let added = difference(w)?;
            let (went, provided) = (added < 0, w.provided() > 0);
            weigh(NAME, added, if w.was_done() { &[-1] } else { &[-1, 0] })?;
            match (went, it.is_owned()) {
                (true, true) => fault(Fault::Torn, "a unit went with a dead holder, and it is a lock still"),
                (false, false) if !provided => fault(Fault::Torn, "it is demoted, and what the dead one had came back"),
                _ => w.in_order(&[NAME, "p"]),
            }
        })
}

/// A process that recovers from the holder's death, by trying, is killed.
/// `ended`: The holder had said that it ends in good order.
fn recover(ended: bool) -> Operation {
    Operation::of(
        if ended { "owned, recover an ended holder" } else { "owned, recover a dead holder" },
        &[Alone, Met, Stopped],
    )
    .held_up_by(Reason::Owned)
    .build(move |w| {
        build(w)?;
        let take = || {
            fine("taking it", find().expect("it is there").try_wait()).expect("it is free");
            if ended {
                owned::ending();
            }
        };
        if ended {
            w.note_taken(NAME);
        }
        w.die_with(take, "did not get it")
    })
    .perform(move |w| {
        let it = find().expect("the keeper has made it");
        w.stage().begin();
        let got = it.try_wait();
        let would_block = matches!(got, Err(DownError::WouldBlock));
        // Others may have recovered it, and had it, meanwhile.
        w.stage().end(if ended { would_block } else { got.is_ok() || w.scene() != Alone && would_block });
    })
    .meet(move |w| {
        if !ended {
            return pass(w);
        }
        none_comes_back(find()?)
    })
    .others(move |w| if ended { none_comes_back(find()?) } else { take_or_victim_has(w) })
    .check(move |w| {
        if !ended {
            return check_lock(w);
        }
        weigh(NAME, difference(w)?, &[0])?;
        let it = find()?;
        if it.is_owned() || it.holder().is_some() {
            return fault(Fault::Torn, format!("its holder ended in good order, and it is {it:?}"));
        }
        w.in_order(&[NAME, "p"])
    })
}

fn none_comes_back(it: RobustSemaphore) -> Verdict {
    match it.try_wait() {
        Err(DownError::WouldBlock) if !it.is_owned() => Ok(()),
        other => fault(Fault::Doubled, format!("its holder ended in good order, and {other:?} of {it:?}")),
    }
}

fn make_if_need_be() -> Result<RobustSemaphore, (Fault, String)> {
    let arena = fine("opening the arena", Arena::open_or_create("default", &OPTIONS))?;
    loop {
        match RobustSemaphore::create_in(&arena, Some(NAME)) {
            Err(ObjectError::Exists { .. }) => {}
            made => return fine("making it again", made),
        }
        match RobustSemaphore::in_arena(&arena, NAME) {
            Err(ObjectError::Unknown { .. }) => {}
            found => return fine("finding it", found),
        }
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("owned wait", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_sleeps(true)
            .held_up_by(Reason::Owned)
            .build(build_held)
            .perform(|w| {
                let it = warm(w);
                w.stage().begin();
                let got = it.wait();
                w.stage().end(got.is_ok());
            })
            .wait(pass)
            .others(|w| if w.scene() == StoppedWaiter { waiter_gets_it(w) } else { take_or_victim_has(w) })
            .check(check_lock),
        // The first use by its process: it joins as one, too.
        Operation::of("owned try_wait, first use", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Owned)
            .build(build_held)
            .perform(|w| {
                let it = find().expect("the keeper has made it");
                w.stage().begin();
                let got = it.try_wait();
                w.stage().end(matches!((got, w.scene()), (Err(DownError::WouldBlock), Waiters) | (Ok(()), _)));
            })
            .wait(pass)
            .others(take_or_victim_has)
            .check(check_lock),
        Operation::of("owned wait, timed out", &[Alone, Waiters, Stopped])
            .build(|w| {
                let it = build(w)?;
                hold(w, it)
            })
            .perform(|w| {
                let it = warm(w);
                w.stage().begin();
                let got = it.wait_timeout(Duration::from_millis(1));
                // It comes free while the victim is stopped.
                w.stage().end(matches!(got, Err(DownError::Timeout)) || got.is_ok() && w.scene() == Stopped);
            })
            .wait(pass)
            .others(|w| {
                w.let_go();
                take_or_victim_has(w)
            })
            .check(check_lock),
        Operation::of("owned post, by its holder", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_holds(true)
            .held_up_by(Reason::Owned)
            .build(|w| build(w).map(drop))
            .perform(|w| {
                let it = warm_holding(w);
                w.stage().begin();
                let done = it.post();
                w.stage().end(done.is_ok());
            })
            .wait(pass)
            .others(|w| if w.scene() == StoppedWaiter { waiter_gets_it(w) } else { take_or_victim_has(w) })
            .check(check_lock),
        post_foreign(false),
        post_foreign(true),
        demote(false),
        demote(true),
        // The process has said that it ends, and a thread of it takes it all the same.
        Operation::of("owned wait, after ending", &[Alone, Waiters, Stopped])
            .victim_sleeps(true)
            .build(build_held)
            .perform(|w| {
                let it = warm(w);
                owned::ending();
                w.stage().begin();
                let got = it.wait();
                w.stage().end(got.is_ok());
            })
            .wait(pass)
            .others(take_or_victim_has)
            .provide(|w| provide(w, 2))
            .check(|w| {
                let it = find()?;
                let added = difference(w)?;
                // Between its swap and its look, a death is one like any other.
                weigh(NAME, added, if w.was_done() { &[-1] } else { &[-1, 0] })?;
                if added < 0 && it.is_owned() {
                    return fault(Fault::Torn, "a unit went with a dead holder, and it is a lock still");
                }
                w.in_order(&[NAME, "p"])
            }),
        recover(false),
        recover(true),
        Operation::of("create owned semaphore", &[Alone, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.warm("p");
                let arena = Arena::open("default").expect("it is there");
                w.stage().begin();
                let made = RobustSemaphore::create_in(&arena, Some(NAME));
                w.stage().end(made.is_ok());
            })
            .meet(|w| {
                make_if_need_be()?;
                pass(w)
            })
            .check(|w| {
                if !w.has_made(RobustSemaphore::in_arena(&arena()?, NAME))? {
                    fine("making it anew", RobustSemaphore::create_in(&arena()?, Some(NAME)))?;
                }
                w.note_given(NAME, 1);
                check_lock(w)
            }),
        // With waiters it is by force.
        Operation::of("remove owned semaphore", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                // First, so that its slots are not the last that were taken.
                let arena = fine("making the arena", Arena::open_or_create("default", &OPTIONS))?;
                let it = fine("making it", RobustSemaphore::create_in(&arena, Some(NAME)))?;
                w.make("p", 1)?;
                w.count_waiters_of(NAME);
                if w.scene().waits() { fine("taking it", it.try_wait()) } else { Ok(()) }
            })
            .perform(|w| {
                let it = warm(w);
                w.stage().begin();
                let gone = it.remove(w.scene() == Waiters);
                w.stage().end(gone.is_ok());
            })
            .wait(|_| match find()?.wait() {
                Err(DownError::Dead { .. }) => Ok(()),
                other => fault(Fault::Torn, format!("waiting for what is removed and never given: {other:?}")),
            })
            .meet(|_| {
                loop {
                    match make_if_need_be()?.post() {
                        Err(UpError::Dead { .. }) => {}
                        posted => return fine("posting", posted),
                    }
                }
            })
            .bereaved(|w| {
                let found = RobustSemaphore::in_arena(&arena()?, NAME);
                let there = found.as_ref().ok().copied();
                if w.has_removed(found)? || w.scene() != Waiters {
                    return Ok(());
                }
                there.map_or(Ok(()), |it| fine("removing it all the same", it.remove(true)))
            })
            .check(|w| {
                let it = make_if_need_be()?;
                let (value, most) = (it.value(), 1 + u32::from(w.scene() == Met));
                if !(1..=most).contains(&value) || it.is_owned() != (value == 1) {
                    return fault(Fault::Torn, format!("made again, it is {it:?}"));
                }
                w.note_given(NAME, value);
                weigh(NAME, difference(w)?, &[0])?;
                w.in_order(&[NAME, "p"])
            }),
    ]
}
