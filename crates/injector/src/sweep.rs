//! All points of one operation: chosen, tried, counted.
//!
//! A **kill point** is a place before one instruction of the operation: between [`Stage::begin`] and [`Stage::end`], in our
//! code and in the C library's alike. It is named by an address and the so-manieth time that the victim comes there. The
//! kernel's instructions are none: a system call is one instruction, before it and after it are two points, and each sleep
//! in one is a point of its own.
//!
//! A first trial lets the operation run to its end, one instruction at a time, and records the path: which instruction,
//! and in which **state** of what survivors can see. Then come the trials:
//!
//! - The victim **dies**, once in each state. All points of one state are **collapsed** into that one death: between two of
//!   them nothing has changed that outlives the victim, so survivors could not tell which of them it was
//!   ([`sight`](crate::sight) says why that is exact). [`Tally::points`] counts the points of which a death has told so.
//!   With [`Plan::each`] it dies at every instruction all the same: [`control`](crate::control) compares the two.
//! - Where a victim that was stopped **goes on** afterwards ([`Pause::Check`]) nothing is collapsed: what it had loaded matters
//!   to it. It goes on from every instruction of a short path ([`SHORT`](crate::plan::SHORT)); of a longer one, or in a share, from every
//!   so-manieth, and always from both sides of each store to shared memory, atomic instruction and system call.
//! - Both the victim and the recoverer of its death die: see [`double`].
//!
//! How often a loop turns varies a little between runs (digits of a process id, spinning): a victim that never comes to
//! its point dies at the operation's end, and is not counted as killed inside. Of a loop the first turns are taken
//! ([`Plan::turns`]): some operations read all of /proc, half a million instructions that are the same few thousand again
//! and again.

use std::time::Instant;

use crate::board::Stage;
use crate::double;
use crate::lead::Point;
use crate::plan::{Aim, Path, Plan};
use crate::step::Reader;
use crate::tally::Tally;
use crate::trial::{Pause, Route, Scenario, run};

/// Sweeps one scenario.
pub fn sweep(scenario: &dyn Scenario, plan: Plan) -> Tally {
    let start = Instant::now();
    let stage = Stage::new(plan.limit);
    let mut reader = Reader::default();
    let mut tally = Tally::of_scenario(scenario.name(), scenario.scene());
    tally.why = scenario.held_up_by().unwrap_or_default().to_owned();

    let whole = run(scenario, &stage, Route::to(Point::Recorded), &mut reader);
    let path = Path::of(&whole.path);
    tally.instructions = whole.path.len() as u64;
    tally.count(&whole, "at its end");
    // An operation that fails without a kill tells nothing by being killed.
    let broken = tally.faults() > 0;
    let enough = |tally: &Tally| broken || tally.wedged + tally.leaked >= plan.enough;

    let offset = plan.offset(scenario);
    let deaths = plan.part_of(path.deaths(plan).into_iter().chain(asleep(whole.sleeps)).collect(), offset);
    let spared = if scenario.pause() == Pause::Check { path.spared(plan, offset) } else { Vec::new() };
    let spared = plan.part_of(spared, offset);
    for aim in deaths.iter().chain(&spared) {
        if enough(&tally) {
            break;
        }
        let route = Route { spare: aim.spare, ..Route::to(aim.point) };
        let faulty = tally.count(&run(scenario, &stage, route, &mut reader), &aim.whence);
        if !aim.spare {
            tally.points += aim.covers.len() as u64;
            if faulty {
                tally.faulty.extend(aim.covers.iter().map(|at| path.places[*at]));
            }
        }
    }
    tally.states = path.states(deaths.iter().flat_map(|aim| &aim.covers));
    if scenario.recovers() && !broken {
        let last = Aim { point: Point::End, spare: false, whence: "at its end".to_owned(), covers: Vec::new() };
        double::sweep(scenario, plan, &stage, deaths.into_iter().chain([last]), &mut reader, &mut tally, enough);
    }
    if enough(&tally) {
        tally.note("the rest was not tried".to_owned());
    }
    tally.took = start.elapsed();
    tally
}

/// Runs a scenario that is not led, several times.
pub fn repeat(scenario: &dyn Scenario, times: u64, plan: Plan) -> Tally {
    let start = Instant::now();
    let stage = Stage::new(plan.limit);
    let mut tally = Tally::of_scenario(scenario.name(), scenario.scene());
    for turn in 1..=times {
        if tally.wedged + tally.leaked >= plan.enough {
            break;
        }
        let trial = run(scenario, &stage, Route::to(Point::End), &mut Reader::default());
        tally.count(&trial, &format!("time {turn}"));
    }
    tally.took = start.elapsed();
    tally
}

fn asleep(sleeps: u32) -> impl Iterator<Item = Aim> {
    let aim = |n| Aim { point: Point::Asleep(n), spare: false, whence: format!("in sleep {n}"), covers: Vec::new() };
    (1..=sleeps).map(aim)
}
