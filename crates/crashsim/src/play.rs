//! One schedule of a world, from its set-up to its checks.

use crate::coverage;
use crate::guarded;
use crate::memory;
use crate::report::{Counts, Failure, Fault};
use crate::state::{Block, Limits, State};
use crate::story::place;
use crate::strategy::Strategy;
use crate::turn::{
    BUFFERED, CALLS, CHECKED, Calls, ENGINE, FAILING_STEPS, FIBRES, INVARIANTS, ME, MODE, Mode, NEXT, PANIC, STRATEGY,
    WATCHED, ask, calls, decide, direct, message, with,
};
use crate::world::World;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Once;

/// Takes panics of virtual threads out of the test's output: the report tells them.
fn catch_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let mode = MODE.try_with(Cell::get).unwrap_or(Mode::Outside);
            if mode == Mode::Outside {
                return before(info);
            }
            let at = info.location().map(place).unwrap_or_default();
            let text = format!("panicked: {} ({at})", message(info.payload()));
            if mode == Mode::Fibre {
                MODE.set(Mode::Failing);
                FAILING_STEPS.set(0);
                let told = ENGINE.with(|e| {
                    e.try_borrow_mut().map(|mut e| {
                        let who = e.title(ME.get());
                        e.fail(Fault::Panic, format!("{who} {text}"));
                    })
                });
                if told.is_err() {
                    before(info);
                }
            } else {
                PANIC.set(Some(text));
            }
        }));
    });
}

/// What became of one schedule.
pub(crate) struct Played {
    pub failure: Option<Failure>,
    pub counts: Counts,
    pub record: Vec<crate::event::Event>,
    pub outcomes: Vec<String>,
    pub story: String,
}

/// Plays one schedule of a world.
pub(crate) fn play(
    world: &dyn Fn(&World),
    strategy: &mut Option<Box<dyn Strategy>>,
    limits: Limits,
    story: bool,
) -> Played {
    catch_panics();
    memory::reset();
    guarded::reset();
    coverage::begin();
    BUFFERED.set(limits.holds > 0);
    let wants_trace = strategy.as_ref().is_some_and(|s| s.wants_trace());
    STRATEGY.set(strategy.take());
    CALLS.set(Calls::default());
    with(|e| e.begin(limits, wants_trace, story));
    WATCHED.set(wants_trace || story);
    CHECKED.set(false);
    direct("set-up", || world(&World::new()));
    guarded::begin();
    with(|e| {
        for (t, thread) in e.threads.iter_mut().enumerate() {
            let bodiless = FIBRES.with_borrow(|f| f.get(t).is_none_or(Option::is_none));
            if thread.state == State::Unborn && bodiless {
                thread.state = State::Blocked(Block::Linger);
                thread.daemon = true;
            }
        }
    });
    let invariants = calls(|c| std::mem::take(&mut c.invariants));
    CHECKED.set(!invariants.is_empty());
    INVARIANTS.set(Rc::new(invariants));

    let mut next = decide();
    while let Some(t) = next {
        let mut fibre = FIBRES.with_borrow_mut(|f| f[t].take()).expect("a thread that runs has a body");
        ME.set(t);
        MODE.set(Mode::Fibre);
        NEXT.set(None);
        let over = fibre.resume();
        MODE.set(Mode::Outside);
        FIBRES.with_borrow_mut(|f| f[t] = Some(fibre));
        next = if over {
            with(|e| e.finish(t));
            decide()
        } else {
            NEXT.take()
        };
    }

    let excused = ask();
    with(|e| e.judge(excused));
    CHECKED.set(false);
    INVARIANTS.take();
    let checks = calls(|c| std::mem::take(&mut c.checks));
    for check in checks {
        if with(|e| e.failure.is_none()) {
            direct("check", check);
        }
    }
    for fibre in FIBRES.take().into_iter().rev().flatten() {
        fibre.discard();
    }
    CALLS.take();
    *strategy = STRATEGY.take();
    with(|e| Played {
        failure: e.failure.take(),
        counts: {
            e.counts.steps = e.steps;
            e.counts
        },
        record: std::mem::take(&mut e.record),
        outcomes: std::mem::take(&mut e.outcomes),
        story: e.story.as_ref().map(|s| s.text()).unwrap_or_default(),
    })
}
