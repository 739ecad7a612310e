//! Double faults: the victim dies at its point, and the recoverer dies as well, at its own.
//!
//! The **recoverer** is one more process, which does what every survivor's reaper does ([`Scenario::recoverer`]), or what `doctor` does,
//! without being a member of the arena. All others are stopped until it is dead: so the rest have to recover from its death, and no faster
//! survivor comes first. For each first point its path is recorded once, since it depends on what the dead victim left. It is then killed
//! in each of its states, as the victim is. In every other trial of a scenario with helpers they meet the stopped recoverer before it dies;
//! else they go on when it is dead.
//!
//! A survivor recovers the recoverer, and is not killed here: three deaths in a row are the explorer's (crashsim). Scenarios in which nothing
//! returns with a death ([`Scenario::recovers`]) have no double faults, nor have those whose victim goes on.

use crate::board::Stage;
use crate::lead::Point;
use crate::plan::{Aim, Path, Plan};
use crate::step::Reader;
use crate::tally::Tally;
use crate::trial::{Route, Scenario, Second, run};

/// Tries second faults after these first ones.
pub fn sweep(
    scenario: &dyn Scenario,
    plan: Plan,
    stage: &Stage,
    firsts: impl Iterator<Item = Aim>,
    reader: &mut Reader,
    tally: &mut Tally,
    enough: impl Fn(&Tally) -> bool,
) {
    if plan.doubles == 0 {
        return;
    }
    let offset = plan.offset(scenario);
    let stride = (plan.doubles as usize / 10).max(1);
    for (turn, first) in
        firsts.enumerate().filter(|(turn, _)| (*turn as u64).wrapping_add(offset).is_multiple_of(plan.doubles))
    {
        if enough(tally) {
            return;
        }
        let route = |point, met| Route { second: Some(Second { point, met }), ..Route::to(first.point) };
        let recorded = run(scenario, stage, route(Point::Recorded, false), reader);
        tally.count(&recorded, &format!("{}, then the recoverer at its end", first.whence));
        let path = Path::of(&recorded.path);
        let met = scenario.helpers() > 0;
        for (at, second) in path.deaths(plan.by_state()).iter().enumerate().skip(turn % stride).step_by(stride) {
            if enough(tally) {
                return;
            }
            let trial = run(scenario, stage, route(second.point, met && at % 2 == 1), reader);
            tally.count(&trial, &format!("{}, then the recoverer at {}", first.whence, second.whence));
        }
    }
}
