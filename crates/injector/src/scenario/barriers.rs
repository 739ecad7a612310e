//! Barriers: a round turns for all of its parties or for none, each index is one party's, and of a party that died each of the others is told, or none.
//!
//! The parties of barrier `b` are the keeper, the victim and the helpers. The keeper has joined from the start: so there is always a party (where none
//! is left, the barrier is as new, and those that come wait for all). It arrives last, when the victim sleeps or is dead; or, *early*, before all others.
//! A victim that was no party when it died is replaced by the keeper: see [`provide`].

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{Arrival, Barrier, BarrierError, Broke, ObjectError, Select, Turn};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::world::{MEET, World, fault, fine};
use super::{Operation, Reason};
use crate::board::{Fault, Verdict};

/// What a party has seen of its arrival: word `SEEN + party`. 0: nothing yet; else see [`note`].
const SEEN: usize = 48;
/// The parties: the keeper, the victim, and the helpers from here on.
const KEEPER: usize = 0;
const VICTIM: usize = 1;
const HELPER: usize = 2;
/// It broke.
const BROKE: u64 = 1 << 32;
/// The round turned, and it was told of a death: beside the index.
const TOLD: u64 = 1 << 16;

/// What the victim has seen of its arm: 1 for the turn, 2 for the unit.
const ARM: usize = 52;

thread_local! {
    /// The keeper's arrival.
    static KEPT: Cell<Option<Arrival<'static>>> = const { Cell::new(None) };
}

pub(super) fn open() -> Result<&'static Barrier, (Fault, String)> {
    Ok(Box::leak(Box::new(fine("opening the barrier", Barrier::open("b"))?)))
}

/// Joins the arena, and does not touch the barrier.
fn cold(w: &World) -> &'static Barrier {
    w.warm("p");
    open().expect("the keeper has made it")
}

/// Joins the arena, and does at the barrier what a first use does, but is no party.
pub(super) fn warm(w: &World) -> &'static Barrier {
    let barrier = cold(w);
    barrier.leave().expect("it has not arrived");
    barrier
}

fn survivors(w: &World) -> usize {
    w.helpers() + 1
}

/// Arrives for the keeper, unless it has. False: the barrier is broken.
fn arrive() -> Result<bool, (Fault, String)> {
    if let Some(kept) = KEPT.take() {
        KEPT.set(Some(kept));
        return Ok(true);
    }
    match open()?.arrive() {
        Err(BarrierError::Broken { .. }) => Ok(false),
        got => {
            KEPT.set(Some(fine("arriving", got)?));
            Ok(true)
        }
    }
}

/// The barrier, for the keeper and all others.
fn build(w: &World, early: bool, breaks: bool) -> Verdict {
    w.make("p", 1)?;
    let parties = survivors(w) as u32 + 1;
    let made = if breaks { Barrier::create_breaking("b", parties) } else { Barrier::create("b", parties) };
    fine("joining", fine("making the barrier", made)?.join())?;
    w.count_waiters_of("b");
    if early || w.scene() == Met {
        return arrive().map(drop);
    }
    w.owe(|| {
        arrive().expect("the keeper can arrive");
    });
    Ok(())
}

pub(super) fn late(w: &World) -> Verdict {
    build(w, false, false)
}

/// Notes what became of a party's arrival in the first round. False: what should not.
fn note(w: &World, party: usize, got: &Result<Turn, BarrierError>) -> bool {
    let of = |turn: &Turn, told: u64| (turn.round == 0).then_some(1 + u64::from(turn.index) + told);
    let seen = match got {
        Ok(turn) => of(turn, 0),
        Err(BarrierError::PartyDied { turn, died: 1, .. }) => of(turn, TOLD),
        Err(BarrierError::Broken { .. }) => Some(BROKE),
        Err(_) => None,
    };
    // SeqCst: in the scene's own books.
    w.stage().word(SEEN + party).store(seen.unwrap_or(0), SeqCst);
    seen.is_some()
}

/// The victim notes what it has seen. False: what should not be.
pub(super) fn victim_notes(w: &World, got: &Result<Turn, BarrierError>) -> bool {
    note(w, VICTIM, got)
}

/// A survivor waits for the turn, and leaves.
pub(super) fn pass(w: &World, which: usize) -> Verdict {
    let barrier = open()?;
    let got = barrier.wait();
    if !note(w, HELPER + which, &got) {
        return fault(Fault::Torn, format!("the helper's wait came to {got:?}"));
    }
    fine("leaving", barrier.leave())
}

/// Comes in the place of a victim that died, or left, as no party: nothing tells the others of it, and they wait for another. Where the victim is (or
/// died as) a party they need nobody else.
pub(super) fn provide(w: &World) {
    let Ok(barrier) = Barrier::open("b") else { return };
    let all = survivors(w) as u32;
    let is_missing = || {
        let Ok(info) = barrier.info() else { return false };
        let joined = if info.breaks_on_death { all } else { info.joined };
        (info.rounds, info.arrived, joined, info.dead, info.broken) == (0, all, all, 0, None) && w.is_recovered()
    };
    if !is_missing() {
        return;
    }
    std::thread::sleep(Duration::from_millis(2));
    if is_missing() && w.may_provide(1) {
        // A thread is a party of its own. What it comes to is seen by the others.
        std::thread::spawn(move || barrier.wait_once().is_ok());
    }
}

/// Met while it is stopped: whether the victim has not arrived, and all others have.
pub(super) fn lacks_the_victim(w: &World) -> bool {
    let all = survivors(w) as u32;
    Barrier::open("b").and_then(|barrier| barrier.info()).is_ok_and(|info| (info.rounds, info.arrived) == (0, all))
}

/// Beside the stopped victim: any thread that comes by finishes what that has begun. If the round is over then, it is for all.
pub(super) fn others(w: &World) -> Verdict {
    let barrier = open()?;
    let kept = if let Some(early) = KEPT.take() {
        match barrier.join() {
            Err(BarrierError::Twice { .. }) => early,
            other => return fault(Fault::Torn, format!("the keeper joins again: {other:?}")),
        }
    } else if arrive()? {
        let late = KEPT.take().expect("it has arrived");
        if !late.is_over() {
            // It comes again once the victim sleeps or is dead.
            let text = "an arrival that was not over is not to be taken back";
            return if late.take_back() { Ok(()) } else { fault(Fault::Torn, text) };
        }
        late
    } else {
        return Ok(());
    };
    let is_over = kept.is_over();
    KEPT.set(Some(kept));
    if is_over && w.scene() == StoppedWaiter { w.first_through() } else { Ok(()) }
}

/// How the round may have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The round turned. A victim that was done had its turn.
    Turned,
    /// The same, but a victim that was done had none: the others are told of its death.
    Told,
    /// The same, but a victim that was done is no party.
    Without,
    /// The round turned, or broke for all; a victim that was done has broken it.
    Broke,
    /// The round turned or broke for all; a victim that was done had its turn.
    Either,
}

/// All survivors have seen the same; the barrier is whole, nobody is a party, and nothing is out of use.
pub(super) fn check(w: &World, ends: Ends, names: &[&str]) -> Verdict {
    let barrier = open()?;
    if let Some(kept) = KEPT.take() {
        let is_over = || {
            provide(w);
            kept.is_over()
        };
        w.demand(is_over, "the keeper's arrival does not come to an end:")?;
        let got = kept.wait();
        if !note(w, KEEPER, &got) {
            return fault(Fault::Torn, format!("the keeper's wait came to {got:?}"));
        }
    } else {
        // It came to a broken barrier.
        w.stage().word(SEEN + KEEPER).store(BROKE, SeqCst);
    }
    judge(w, ends)?;
    if fine("looking", barrier.info())?.broken.is_some() {
        fine("resetting", barrier.reset())?;
    }
    fine("leaving", barrier.leave())?;
    let is_as_new = || {
        // Sweeps the dead: the victim may be a party still.
        let swept = chappe::doctor().is_ok();
        let of = barrier.info().map(|info| (info.arrived, info.joined, info.dead, info.broken, info.rounds <= 1));
        swept && matches!(of, Ok((0, 0, 0, None, true)))
    };
    if !w.stage().until(is_as_new) {
        return fault(Fault::Torn, format!("nobody is a party any more, and it is {:?}", barrier.info()));
    }
    w.in_order(names)
}

/// Judges what all have seen together.
fn judge(w: &World, ends: Ends) -> Verdict {
    let seen = |party: usize| w.stage().word(SEEN + party).load(SeqCst);
    let all: Vec<u64> = std::iter::once(KEEPER).chain(HELPER..HELPER + w.helpers()).map(seen).collect();
    let victims = seen(VICTIM);
    let count = |is: &dyn Fn(u64) -> bool| all.iter().filter(|seen| is(**seen)).count();
    let (broke, told) = (count(&|seen| seen == BROKE), count(&|seen| seen != BROKE && seen & TOLD != 0));
    let text = |what: &str| format!("{what}: survivors saw {all:x?}, the victim {victims:x}, {} came", w.provided());
    for (what, some) in [("it turned for some, and broke for others", broke), ("some were told of a death", told)] {
        if some != 0 && some != all.len() {
            return fault(Fault::Torn, text(what));
        }
    }
    let may_break = matches!(ends, Ends::Broke | Ends::Either);
    if broke > 0 {
        return if may_break { Ok(()) } else { fault(Fault::Torn, text("it broke")) };
    }
    // The victim's own turn is one of the round's, too; one that was killed before it could note that may have had any.
    let mut indices: Vec<u64> = all.iter().map(|seen| seen & (TOLD - 1)).collect();
    if victims & TOLD != 0 {
        return fault(Fault::Torn, text("the dead was told of its own death"));
    }
    indices.extend((victims != 0 && victims != BROKE).then_some(victims));
    indices.sort_unstable();
    let parties = if told > 0 { all.len() } else { all.len() + 1 } as u64;
    if indices.windows(2).any(|two| two[0] == two[1]) || indices.iter().any(|index| !(1..=parties).contains(index)) {
        return fault(Fault::Doubled, text("an index is another's, or none"));
    }
    let had_turn = !matches!(victims, 0 | BROKE);
    if told > 0 && (had_turn || w.provided() > 0) {
        return fault(Fault::Torn, text("they were told of one that had its turn, or was no party"));
    }
    match ends {
        _ if !w.was_done() => Ok(()),
        Ends::Turned | Ends::Either if !had_turn => fault(Fault::Lost, text("it is done, and has seen no turn")),
        Ends::Told if told == 0 && !had_turn => fault(Fault::Lost, text("nobody was told of a party's death")),
        Ends::Without if told > 0 || w.provided() == 0 => fault(Fault::Torn, text("it was a party no more")),
        Ends::Broke => fault(Fault::Torn, text("it turned although it was broken")),
        _ => Ok(()),
    }
}

/// When the victim sleeps the keeper comes, or the helper that meets it.
fn asleep(w: &World) -> Verdict {
    w.let_go();
    if w.scene() == Met {
        w.call(MEET);
    }
    Ok(())
}

/// How the victim comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// It has joined.
    Joined,
    /// As a party of this round only.
    Once,
    /// The same, by its first use of the barrier.
    First,
}

fn wait(comes: Comes) -> Operation {
    let (name, scenes): (_, &'static [_]) = match comes {
        Comes::Joined => ("barrier wait", &[Alone, Waiters, Met, Stopped, StoppedWaiter]),
        Comes::Once => ("barrier wait_once", &[Alone, Waiters, Met, Stopped, StoppedWaiter]),
        Comes::First => ("barrier wait_once, first use", &[Waiters]),
    };
    Operation::of(name, scenes)
        .victim_sleeps(true)
        .held_up_by(Reason::Party)
        .build(late)
        .perform(move |w| {
            let barrier = if comes == Comes::First { cold(w) } else { warm(w) };
            if comes == Comes::Joined {
                barrier.join().expect("there is a place");
            }
            w.stage().begin();
            let got = if comes == Comes::Joined { barrier.wait() } else { barrier.wait_once() };
            w.stage().end(note(w, VICTIM, &got));
        })
        .wait_each(pass)
        .others(others)
        .asleep(asleep)
        .provide(provide)
        .check(|w| check(w, Ends::Turned, &["b", "p"]))
}

/// A round of which all but the victim have arrived: the victim ends it, one way or the other.
fn last(name: &'static str, ends: Ends, act: impl Fn(&World, &Barrier) -> bool + 'static) -> Operation {
    Operation::of(name, &[Alone, Waiters, Stopped, StoppedWaiter])
        .build(|w| build(w, true, false))
        .perform(move |w| {
            let barrier = warm(w);
            barrier.join().expect("there is a place");
            w.stage().begin();
            let done = act(w, barrier);
            w.stage().end(done);
        })
        .wait_each(pass)
        .others(others)
        .provide(provide)
        .check(move |w| check(w, ends, &["b", "p"]))
}

/// `by_unit`: the unit comes first, and the arrival is taken back.
fn choice(by_unit: bool) -> Operation {
    Operation::of(
        if by_unit { "choice of a turn and a down, by the unit" } else { "choice of a turn and a down" },
        &[Alone, Waiters, Stopped],
    )
    .victim_sleeps(true)
    .build(|w| {
        late(w)?;
        w.make_semaphore("s", 0, false)?;
        w.count_waiters_of("b");
        Ok(())
    })
    .perform(|w| {
        let (barrier, s) = (warm(w), w.semaphore("s").expect("the keeper has made it"));
        barrier.join().expect("there is a place");
        w.stage().begin();
        let arrival = barrier.arrive().expect("it is whole");
        let mut select = Select::new();
        let turn = select.turn(&arrival);
        select.down(s);
        let got = select.wait().expect("nothing ends it");
        if got.index() == turn {
            let got = got.turn(&arrival);
            w.stage().word(ARM).store(1, SeqCst);
            w.stage().end(note(w, VICTIM, &got));
        } else {
            let got = got.down(s);
            w.stage().word(ARM).store(2, SeqCst);
            drop(select);
            // The round may have turned beside that.
            let turn = arrival.wait_timeout(Duration::ZERO);
            let is_over = matches!(turn, Err(BarrierError::Timeout)) || note(w, VICTIM, &turn);
            w.stage().end(got.is_ok() && is_over);
        }
    })
    .wait_each(pass)
    .others(others)
    .asleep(move |w| if by_unit { w.give_unit("s") } else { asleep(w) })
    .provide(provide)
    .check(move |w| {
        // SeqCst: in the scene's own books.
        let arm = w.stage().word(ARM).load(SeqCst);
        let allowed: &[i64] = match (arm, by_unit) {
            (2, _) => &[-1],
            (0, true) => &[-1, 0],
            _ => &[0],
        };
        w.balance("s", allowed)?;
        check(w, if arm == 2 { Ends::Told } else { Ends::Turned }, &["b", "p", "s"])
    })
}

/// One that claims to stay a party, and leaves for a moment.
pub(super) fn leaves_and_joins() -> Operation {
    let act = |_: &World, barrier: &Barrier| barrier.leave().is_ok() && barrier.join().is_ok();
    last("barrier leave, then join", Ends::Told, act).check(|w| {
        check(w, Ends::Told, &["b", "p"])?;
        if w.provided() > 0 { fault(Fault::Lost, "a party died, and nobody was told") } else { Ok(()) }
    })
}

fn timed_out(breaks: bool) -> Operation {
    let wait = move |barrier: &Barrier, time| {
        if breaks { barrier.wait_timeout_or_break(time) } else { barrier.wait_timeout(time) }
    };
    let name = if breaks { "barrier wait, timed out and broken" } else { "barrier wait, timed out" };
    Operation::of(name, &[Alone, Waiters, Stopped])
        .build(late)
        .perform(move |w| {
            let barrier = warm(w);
            // Starts what a first wait starts, and joins.
            let _ = barrier.wait_timeout(Duration::from_micros(1));
            w.stage().begin();
            let got = wait(barrier, Duration::from_millis(1));
            let is_over = match &got {
                Err(BarrierError::Timeout) => !breaks,
                Err(BarrierError::Broken { how: Broke::TimedOut, .. }) => breaks && note(w, VICTIM, &got),
                // All others came while the victim was stopped.
                _ => note(w, VICTIM, &got) && w.scene() == Stopped,
            };
            w.stage().end(is_over);
        })
        .wait_each(pass)
        .others(others)
        .provide(provide)
        .check(move |w| {
            let had_turn = w.scene() == Stopped && w.stage().word(SEEN + VICTIM).load(SeqCst) & (BROKE - 1) != 0;
            let ends = match (breaks, had_turn) {
                (false, _) => Ends::Told,
                (true, true) => Ends::Either,
                (true, false) => Ends::Broke,
            };
            check(w, ends, &["b", "p"])
        })
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        wait(Comes::Joined),
        wait(Comes::Once),
        wait(Comes::First),
        timed_out(false),
        timed_out(true),
        choice(false),
        choice(true),
        last("barrier wait, the last", Ends::Turned, |w, barrier| note(w, VICTIM, &barrier.wait())),
        last("barrier leave", Ends::Without, |_, barrier| barrier.leave().is_ok()),
        last("barrier abort", Ends::Broke, |_, barrier| barrier.abort().is_ok()),
        last("barrier reset", Ends::Broke, |_, barrier| barrier.reset().is_ok()),
        Operation::of("barrier join", &[Alone, Waiters, Stopped, StoppedWaiter])
            .build(|w| build(w, true, false))
            .perform(|w| {
                let barrier = warm(w);
                w.stage().begin();
                let joined = barrier.join();
                w.stage().end(joined.is_ok());
            })
            .wait_each(pass)
            .others(others)
            .provide(provide)
            .check(|w| check(w, Ends::Told, &["b", "p"])),
        // The victim's death breaks it, once it has arrived.
        Operation::of("barrier wait, breaking on death", &[Alone, Waiters])
            .victim_sleeps(true)
            .build(|w| build(w, false, true))
            .perform(|w| {
                let barrier = warm(w);
                w.stage().begin();
                let got = barrier.wait();
                w.stage().end(note(w, VICTIM, &got));
            })
            .wait_each(pass)
            .asleep(asleep)
            .provide(provide)
            .check(|w| check(w, Ends::Either, &["b", "p"])),
        Operation::of("create barrier", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let made = Barrier::create("b", 1);
                w.stage().end(made.is_ok());
            })
            .meet(|_| {
                let barrier = fine("making it too", Barrier::open_or_create("b", 1))?;
                fine("waiting for nobody", barrier.wait_once()).map(drop)
            })
            .check(|w| {
                if !w.has_made(found())? {
                    fine("making it anew", Barrier::create("b", 1))?;
                }
                fine("waiting for nobody", open()?.wait_once())?;
                w.in_order(&["b", "p"])
            }),
        // With waiters it is by force.
        Operation::of("remove barrier", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                // First, so that its slot is not the last that was taken.
                w.make("p", 1)?;
                let made = Barrier::create("b", survivors(w) as u32);
                w.count_waiters_of("b");
                fine("making the barrier", made).map(drop)
            })
            .perform(|w| {
                warm(w);
                w.stage().begin();
                let gone = Barrier::remove("b", w.scene() == Waiters);
                w.stage().end(gone.is_ok());
            })
            .wait(|_| match open()?.wait() {
                Err(BarrierError::Dead { .. }) => Ok(()),
                other => fault(Fault::Torn, format!("waiting at what is removed and does not turn: {other:?}")),
            })
            .meet(|w| {
                // It may be removed in between, each time.
                let made = || fine("making it again", Barrier::open_or_create("b", survivors(w) as u32));
                loop {
                    let barrier = made()?;
                    if barrier.join().is_ok() {
                        return if barrier.is_dead() { Ok(()) } else { fine("leaving", barrier.leave()) };
                    }
                }
            })
            .bereaved(|w| {
                if w.has_removed(found())? || w.scene() != Waiters {
                    return Ok(());
                }
                fine("removing it all the same", Barrier::remove("b", true))
            })
            .check(|w| {
                let barrier = fine("making it again", Barrier::open_or_create("b", survivors(w) as u32))?;
                let is_new = || {
                    let swept = chappe::doctor().is_ok();
                    swept && barrier.info().is_ok_and(|info| (info.arrived, info.joined, info.rounds) == (0, 0, 0))
                };
                w.demand(is_new, "made again, it is not as new:")?;
                w.in_order(&["b", "p"])
            }),
    ]
}

/// The barrier, if it is there.
fn found() -> Result<Barrier, ObjectError> {
    Barrier::open("b").map_err(|e| match e {
        BarrierError::Object(e) => e,
        other => panic!("opening the barrier: {other}"),
    })
}
