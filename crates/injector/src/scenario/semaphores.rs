//! Semaphores: nothing returns with a death, and nothing may vanish with one. See the ledger.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{DownError, Pool, Select, Semaphore};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::ledger::weigh;
use super::world::{World, fault, fine};
use super::{Operation, Reason, Row};
use crate::board::{Fault, Verdict};

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![
        Box::new(Down { barging: false }),
        Box::new(Down { barging: true }),
        Box::new(TryDown),
        Box::new(TimedOut),
        Box::new(Up { n: 1, barging: false, joined: true }),
        Box::new(Up { n: 1, barging: true, joined: true }),
        Box::new(Up { n: 2, barging: false, joined: true }),
        Box::new(Up { n: 2, barging: true, joined: true }),
        Box::new(Up { n: 1, barging: false, joined: false }),
        Box::new(Choice),
        Box::new(Create),
        Box::new(Remove),
    ]
}

/// A semaphore `s`, beside pool `p` by which the victim joins the arena.
pub fn build(w: &mut World, value: u32, barging: bool) -> Verdict {
    w.make("p", 1)?;
    w.make_semaphore("s", value, barging)
}

/// Joins the arena, and leaves the semaphore as it is.
pub fn warm(w: &World) -> &'static Semaphore {
    w.warm("p");
    w.semaphore("s").expect("the keeper has made it")
}

/// For a victim that wants one unit: one too many where others are to have one past it, none where helpers wait.
fn build_wanted(w: &mut World, barging: bool) -> Verdict {
    let value = match w.scene() {
        Waiters | StoppedWaiter => 0,
        Stopped => 2,
        Alone | Met => 1,
    };
    build(w, value, barging)?;
    if w.scene().waits() { w.owe_unit("s") } else { Ok(()) }
}

/// The stopped one has one of two at most.
fn one_is_left(w: &World) -> Verdict {
    if w.try_unit("s")? { Ok(()) } else { fault(Fault::Wedged, "of two units the stopped one keeps both away") }
}

/// The victim has added one of these numbers of units, and nothing is out of use.
fn check(w: &World, allowed: &[i64]) -> Verdict {
    w.balance("s", allowed)?;
    w.in_order(&["p", "s"])
}

struct Down {
    barging: bool,
}

impl Operation for Down {
    fn row(&self) -> Row {
        Row {
            victim_sleeps: true,
            held_up_by: Some(Reason::Unit),
            ..Row::of(
                if self.barging { "down, barging" } else { "down" },
                &[Alone, Waiters, Met, Stopped, StoppedWaiter],
            )
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        build_wanted(w, self.barging)
    }
    fn perform(&self, w: &World) {
        let s = warm(w);
        w.stage().begin();
        let got = s.down();
        w.stage().end(got.is_ok());
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.pass_unit("s")
    }
    fn others(&self, w: &mut World) -> Verdict {
        if w.scene() == StoppedWaiter {
            w.let_go();
            return w.demand(|| w.done_helpers() > 0, "who came first waits for the stopped one;");
        }
        one_is_left(w)
    }
    fn provide(&self, w: &World) {
        w.provide_unit("s", 1);
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w, w.of_a_down())
    }
}

struct TryDown;

impl Operation for TryDown {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Unit), ..Row::of("try_down", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        build_wanted(w, false)
    }
    fn perform(&self, w: &World) {
        let s = warm(w);
        w.stage().begin();
        let got = s.try_down();
        w.stage().end(matches!((got, w.scene()), (Err(DownError::WouldBlock), Waiters) | (Ok(()), _)));
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.pass_unit("s")
    }
    fn others(&self, w: &mut World) -> Verdict {
        one_is_left(w)
    }
    fn provide(&self, w: &World) {
        w.provide_unit("s", u64::from(w.scene() == Met));
    }
    fn check(&self, w: &mut World) -> Verdict {
        let allowed: &[i64] = match (w.scene(), w.was_done()) {
            (Waiters, _) => &[0],
            (_, true) => &[-1],
            (_, false) => &[-1, 0],
        };
        check(w, allowed)
    }
}

struct TimedOut;

impl Operation for TimedOut {
    fn row(&self) -> Row {
        Row::of("down, timed out", &[Alone, Waiters, Stopped])
    }
    fn build(&self, w: &mut World) -> Verdict {
        build(w, 0, false)?;
        w.owe_unit("s")
    }
    fn perform(&self, w: &World) {
        let s = warm(w);
        // Starts what a first wait starts.
        let _ = s.down_timeout(Duration::from_micros(1));
        w.stage().begin();
        let got = s.down_timeout(Duration::from_millis(1));
        // Units come while the victim is stopped.
        w.stage().end(matches!(got, Err(DownError::Timeout)) || got.is_ok() && w.scene() == Stopped);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.pass_unit("s")
    }
    fn others(&self, w: &mut World) -> Verdict {
        w.let_go();
        w.give_unit("s")?;
        one_is_left(w)
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w, if w.scene() == Stopped { &[-1, 0] } else { &[0] })
    }
}

/// All the units are added, or none. Helpers use up one each.
struct Up {
    n: u32,
    barging: bool,
    /// The victim is a member of the arena before it begins.
    joined: bool,
}

impl Operation for Up {
    fn row(&self) -> Row {
        Row::of(
            match (self.n, self.barging, self.joined) {
                (_, _, false) => "up, first use",
                (1, true, _) => "up, barging",
                (1, ..) => "up",
                (_, true, _) => "up_many(2), barging",
                _ => "up_many(2)",
            },
            match (self.n, self.barging, self.joined) {
                (_, _, false) => &[Waiters],
                (1, ..) => &[Alone, Waiters, Met, Stopped, StoppedWaiter],
                _ => &[Alone, Waiters, StoppedWaiter],
            },
        )
    }
    fn build(&self, w: &mut World) -> Verdict {
        build(w, 0, self.barging)
    }
    fn perform(&self, w: &World) {
        let s = if self.joined { warm(w) } else { w.semaphore("s").expect("the keeper has made it") };
        w.stage().begin();
        let done = s.up_many(self.n);
        w.stage().end(done.is_ok());
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.take_unit("s")
    }
    fn meet(&self, w: &World) -> Verdict {
        w.give_unit("s")
    }
    fn others(&self, w: &mut World) -> Verdict {
        w.give_unit("s")?;
        if w.scene() == StoppedWaiter {
            return w.demand(|| w.done_helpers() > 0, "who waits gets no unit past the stopped one;");
        }
        if w.try_unit("s")? { Ok(()) } else { fault(Fault::Wedged, "what was just added is not to be had") }
    }
    fn provide(&self, w: &World) {
        if !self.joined {
            // A victim that died before it had told any process that it is a member is swept at the next look: it has nothing.
            // A failure leaves it there, which is found.
            let _ = chappe::doctor();
        }
        w.provide_unit("s", 2);
    }
    fn check(&self, w: &mut World) -> Verdict {
        let all = i64::from(self.n);
        let least = if w.was_done() { all } else { 0 };
        check(w, &[least, all])
    }
}

/// Two semaphores and a pool; exactly one arm happens.
struct Choice;

const DOWNS: [&str; 2] = ["a", "b"];
/// The arm that the victim's choice took, counted from 1.
const ARM: usize = 16;

fn pool(w: &World) -> &'static Pool {
    w.open("p").expect("the keeper has made it")
}

fn choose<R>(w: &World, then: impl FnOnce(&Select, &Pool) -> R) -> R {
    let [a, b] = DOWNS.map(|name| w.semaphore(name).expect("the keeper has made it"));
    let mut select = Select::new();
    select.down(a);
    select.down(b);
    // The operation is completed with the very pool of its arm.
    let pool = pool(w);
    select.acquire(pool);
    then(&select, pool)
}

impl Operation for Choice {
    fn row(&self) -> Row {
        Row {
            victim_sleeps: true,
            ..Row::of("choice of 2 downs and a pool", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)?;
        let value = u32::from(!w.scene().waits());
        for name in DOWNS {
            w.make_semaphore(name, value, false)?;
        }
        if w.scene().waits() { w.owe_unit("b") } else { Ok(()) }
    }
    fn perform(&self, w: &World) {
        w.warm("p");
        choose(w, |select, _| {
            w.stage().begin();
            let got = select.wait();
            if let Ok(chosen) = &got {
                w.stage().word(ARM).store(chosen.index() as u64 + 1, SeqCst);
            }
            w.stage().end(got.is_ok());
            std::mem::forget(got);
        });
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        choose(w, |select, pool| {
            let chosen = fine("choosing", select.wait())?;
            match DOWNS.get(chosen.index()) {
                Some(name) => {
                    w.note_taken(name);
                    w.give_unit(name)
                }
                None => w.pass_through(chosen.permit(pool)),
            }
        })
    }
    fn others(&self, w: &mut World) -> Verdict {
        if w.scene() == StoppedWaiter {
            // Two of its arms can happen then, and the stopped one takes one at most.
            w.let_go();
            return w.demand(|| w.done_helpers() > 0, "who came first waits for the stopped one;");
        }
        let mut gone = 0;
        for name in DOWNS {
            gone += u32::from(!w.try_unit(name)?);
        }
        w.take_or_victim_has("p")?;
        gone += u32::from(w.victim_has(w.open("p")?));
        if gone > 1 { fault(Fault::Doubled, format!("a choice took {gone} arms")) } else { Ok(()) }
    }
    fn check(&self, w: &mut World) -> Verdict {
        let taken = w.stage().word(ARM).load(SeqCst);
        let mut all = 0;
        for (arm, name) in (1..).zip(DOWNS) {
            let one = w.difference(name)?;
            all += one;
            match taken {
                0 => weigh(name, one, &[-1, 0])?,
                _ => weigh(name, one, &[-i64::from(taken == arm)])?,
            }
        }
        weigh("both", all, &[-1, 0])?;
        w.in_order(&["a", "b", "p"])
    }
}

struct Create;

impl Operation for Create {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Arena), ..Row::of("create semaphore", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make_held("p", 1)
    }
    fn perform(&self, w: &World) {
        w.warm("p");
        w.stage().begin();
        let made = Semaphore::create("s", 3);
        w.stage().end(made.is_ok());
    }
    fn meet(&self, _w: &World) -> Verdict {
        let s = fine("making it too", Semaphore::open_or_create("s", 3))?;
        fine("taking of it", s.down())?;
        fine("adding to it", s.up())
    }
    fn check(&self, w: &mut World) -> Verdict {
        if !w.has_made(Semaphore::open("s"))? {
            fine("making it anew", Semaphore::create("s", 3))?;
        }
        w.note_given("s", 3);
        check(w, &[0])
    }
}

/// With waiters it is by force.
struct Remove;

impl Operation for Remove {
    fn row(&self) -> Row {
        Row { held_up_by: Some(Reason::Arena), ..Row::of("remove semaphore", &[Alone, Waiters, Met, Stopped]) }
    }
    fn build(&self, w: &mut World) -> Verdict {
        // First, so that its slot is not the last that was taken.
        w.make_semaphore("s", 0, false)?;
        w.make("p", 1)?;
        w.count_waiters_of("s");
        Ok(())
    }
    fn perform(&self, w: &World) {
        warm(w);
        w.stage().begin();
        let gone = Semaphore::remove("s", w.scene() == Waiters);
        w.stage().end(gone.is_ok());
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        match w.semaphore("s")?.down() {
            Err(DownError::Dead { .. }) => Ok(()),
            other => fault(Fault::Torn, format!("waiting for what is removed and never given: {other:?}")),
        }
    }
    fn meet(&self, _w: &World) -> Verdict {
        loop {
            let s = fine("making it again", Semaphore::open_or_create("s", 0))?;
            if s.up().is_ok() {
                return Ok(());
            }
        }
    }
    fn bereaved(&self, w: &mut World) -> Verdict {
        if w.has_removed(Semaphore::open("s"))? || w.scene() != Waiters {
            return Ok(());
        }
        fine("removing it all the same", Semaphore::remove("s", true))
    }
    fn check(&self, w: &mut World) -> Verdict {
        let s = fine("making it again", Semaphore::open_or_create("s", 0))?;
        if s.value() > u32::from(w.scene() == Met) {
            return fault(Fault::Torn, format!("made again, its value is {}", s.value()));
        }
        w.note_given("s", s.value());
        check(w, &[0])
    }
}
