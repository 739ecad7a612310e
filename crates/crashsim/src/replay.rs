//! Playing a known schedule again, making it smaller, and telling it.

use crate::event::{Deviation, Event, token};
use crate::play::{Played, play};
use crate::report::{Counts, Failure, Fault, Found};
use crate::state::{Engine, Limits};
use crate::strategy::Strategy;
use crate::world::World;
use std::cell::RefCell;
use std::rc::Rc;

/// How many schedules may be tried to make a failing one smaller.
const TRIALS: u32 = 600;

enum Script {
    /// Every event.
    Whole(Vec<Event>, usize),
    /// The default but for these; one that cannot be had is left out.
    Sparse(Vec<Deviation>),
}

/// Follows a script, and notes where it deviates from the default.
struct Follow {
    script: Script,
    taken: Rc<RefCell<Vec<Deviation>>>,
}

impl Strategy for Follow {
    fn choose(&mut self, e: &mut Engine) -> Event {
        let default = e.offers[0].event;
        let event = match &mut self.script {
            Script::Whole(events, at) => {
                *at += 1;
                events.get(*at - 1).copied().unwrap_or(default)
            }
            Script::Sparse(list) => {
                let wanted = list.iter().find(|d| d.at == e.anchor).map(|d| d.event);
                wanted.filter(|w| e.possible(*w)).unwrap_or(default)
            }
        };
        if event != default {
            self.taken.borrow_mut().push(Deviation { at: e.anchor, event });
        }
        event
    }
}

fn once(world: &dyn Fn(&World), limits: Limits, script: Script, story: bool) -> (Played, Vec<Deviation>) {
    let taken = Rc::new(RefCell::new(Vec::new()));
    let mut strategy: Option<Box<dyn Strategy>> = Some(Box::new(Follow { script, taken: Rc::clone(&taken) }));
    let played = play(world, &mut strategy, limits, story);
    (played, taken.take())
}

/// Plays a token's schedule and tells it, whether it fails or not.
pub(crate) fn follow(
    name: &str,
    world: &dyn Fn(&World),
    limits: Limits,
    deviations: &[Deviation],
    counts: &mut Counts,
) -> Option<Found> {
    let (played, taken) = once(world, limits, Script::Sparse(deviations.to_vec()), true);
    counts.add(&played.counts);
    match played.failure {
        Some(f) => Some(Found { fault: f.fault, text: f.text, token: token(name, &taken), story: played.story }),
        None => {
            println!("{}\n\n{name}: replayed, no failure", played.story);
            None
        }
    }
}

/// Whether two failures are the same, numbers aside.
fn alike(a: &Failure, b: &Failure) -> bool {
    let plain = |s: &str| s.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    a.fault == b.fault && (a.fault != Fault::Panic || plain(&a.text) == plain(&b.text))
}

/// Makes a failing schedule smaller, and tells it.
pub(crate) fn explain(
    name: &str,
    world: &dyn Fn(&World),
    limits: Limits,
    failure: &Failure,
    record: &[Event],
) -> Option<Found> {
    let (played, mut list) = once(world, limits, Script::Whole(record.to_vec(), 0), false);
    if !played.failure.as_ref().is_some_and(|f| alike(f, failure)) {
        return None;
    }
    if failure.fault != Fault::Nondeterminism {
        let mut trials = 0;
        let mut chunk = list.len().div_ceil(2);
        while chunk > 0 && trials < TRIALS {
            let before = list.len();
            let mut at = 0;
            while at < list.len() && trials < TRIALS {
                let mut fewer = list.clone();
                fewer.drain(at..(at + chunk).min(list.len()));
                trials += 1;
                let (played, taken) = once(world, limits, Script::Sparse(fewer), false);
                if taken.len() < list.len() && played.failure.as_ref().is_some_and(|f| alike(f, failure)) {
                    list = taken;
                } else {
                    at += chunk;
                }
            }
            if list.len() == before || chunk > 1 {
                chunk /= 2;
            }
        }
    }
    let (played, taken) = once(world, limits, Script::Sparse(list), true);
    let f = played.failure?;
    Some(Found { fault: f.fault, text: f.text, token: token(name, &taken), story: played.story })
}
