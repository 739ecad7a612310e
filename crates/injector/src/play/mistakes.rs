//! Operations that claim what they do not keep. The plays' own checks must see it: see `control`.
//!
//! | mistake | claims | must be found |
//! |---|---|---|
//! | a lock that knows no deaths (`plan9::Lock`, which says so) | that others get it | wedged |
//! | a unit taken out and put back | that none is missing | lost |
//! | two units added one by one | all or none | torn |
//! | two counts changed in two sections | that who is not told of a death finds them equal | torn |

use chappe::Mutex;

use super::Operation;
use super::Scene;
use super::mutexes::{self, Data};
use super::semaphores;
use super::words::lock;
use super::world::{World, fault};
use crate::board::{Fault, Verdict};

/// All of them, with what must be found.
pub fn all() -> Vec<(Box<dyn Operation>, Fault)> {
    vec![
        (Box::new(Deathless), Fault::Wedged),
        (Box::new(Borrow), Fault::Lost),
        (Box::new(OneByOne), Fault::Torn),
        (Box::new(TwoSections), Fault::Torn),
    ]
}

struct Deathless;

impl Operation for Deathless {
    fn name(&self) -> &'static str {
        "plan9::Lock, its holder dies"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, _w: &mut World) -> Verdict {
        Ok(())
    }
    fn perform(&self, w: &World) {
        w.stage().begin();
        lock(w.stage()).lock();
        lock(w.stage()).unlock();
        w.stage().end(true);
    }
    fn check(&self, w: &mut World) -> Verdict {
        if w.stage().until(|| lock(w.stage()).canlock()) {
            return Ok(());
        }
        fault(Fault::Wedged, "the lock does not come free")
    }
}

struct Borrow;

impl Operation for Borrow {
    fn name(&self) -> &'static str {
        "down, up, as if at once"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, w: &mut World) -> Verdict {
        semaphores::build(w, 1, false)
    }
    fn perform(&self, w: &World) {
        let s = semaphores::warm(w);
        w.stage().begin();
        let done = s.down().is_ok() && s.up().is_ok();
        w.stage().end(done);
    }
    fn check(&self, w: &mut World) -> Verdict {
        w.balance("s", &[0])
    }
}

struct OneByOne;

impl Operation for OneByOne {
    fn name(&self) -> &'static str {
        "up, up, as if at once"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, w: &mut World) -> Verdict {
        semaphores::build(w, 0, false)
    }
    fn perform(&self, w: &World) {
        let s = semaphores::warm(w);
        w.stage().begin();
        let done = s.up().is_ok() && s.up().is_ok();
        w.stage().end(done);
    }
    fn check(&self, w: &mut World) -> Verdict {
        w.balance("s", &[0, 2])
    }
}

struct TwoSections;

fn section(mutex: &Mutex<Data>, which: usize) -> bool {
    mutex.lock().map(|mut data| data[which] += 1).is_ok()
}

impl Operation for TwoSections {
    fn name(&self) -> &'static str {
        "two sections as if one"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, w: &mut World) -> Verdict {
        mutexes::build(w)
    }
    fn perform(&self, w: &World) {
        let mutex = mutexes::warm(w);
        w.stage().begin();
        let done = section(mutex, 0) && section(mutex, 1);
        w.stage().end(done);
    }
    fn check(&self, w: &mut World) -> Verdict {
        mutexes::check(w, &[0, 1], &["m", "p"])
    }
}
