//! Operations that claim what they do not keep. The plays' own checks must see it: see `control`.
//!
//! | mistake | claims | must be found |
//! |---|---|---|
//! | a lock that knows no deaths (`plan9::Lock`, which says so) | that others get it | wedged |
//! | a unit taken out and put back | that none is missing | lost |
//! | two units added one by one | all or none | torn |
//! | two counts changed in two sections | that who is not told of a death finds them equal | torn |
//! | a letter that is numbered before it is sent | that all numbers come | wedged |
//! | a letter given back to its tube before it is worked on | that it is worked on | lost |
//! | a letter worked on before it is given back, its mark not looked at | that it is worked on once | doubled |

use std::sync::atomic::Ordering::SeqCst;

use chappe::Mutex;
use chappe::tube::named::Kind;

use super::Operation;
use super::Scene;
use super::letters::{Found, KEEPER, Part};
use super::mutexes::{self, Data};
use super::semaphores;
use super::tubes::{SLOTS, receiver, sender};
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
        (Box::new(NumberedFirst), Fault::Wedged),
        (Box::new(GivenBackFirst), Fault::Lost),
        (Box::new(MarkIgnored), Fault::Doubled),
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

/// The next number; so many letters have been, or will be.
const NUMBERS: usize = 18;

fn build_tube(w: &mut World) -> Verdict {
    w.make("p", 1)?;
    w.make_tube("t", Kind::Mpmc, SLOTS)
}

/// As a ring whose senders claim their place by its index.
struct NumberedFirst;

impl Operation for NumberedFirst {
    fn name(&self) -> &'static str {
        "numbered, then sent"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, w: &mut World) -> Verdict {
        build_tube(w)
    }
    fn perform(&self, w: &World) {
        let out = sender(w);
        let it = w.try_write("t");
        w.stage().begin();
        w.stage().word(NUMBERS).fetch_add(1, SeqCst);
        let done = out.try_send(it);
        w.stage().end(done.is_ok());
        std::mem::forget(out);
    }
    fn check(&self, w: &mut World) -> Verdict {
        let (mut come, all) = (0, w.stage().word(NUMBERS).load(SeqCst));
        w.receive_from("t")?;
        if w.stage().until(|| {
            come += u64::from(matches!(w.fetch("t"), Ok(Found::Letter(_))));
            come >= all
        }) {
            return Ok(());
        }
        fault(Fault::Wedged, format!("{all} letters have numbers, and {come} come"))
    }
}

/// A loan that is released before anybody has noticed what was in it.
struct GivenBackFirst;

impl Operation for GivenBackFirst {
    fn name(&self) -> &'static str {
        "release, then work"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, w: &mut World) -> Verdict {
        build_tube(w)?;
        w.post_all("t", KEEPER, 1)
    }
    fn perform(&self, w: &World) {
        let into = receiver(w);
        w.stage().begin();
        let done = into.borrow().is_ok_and(|loan| {
            let it = *loan;
            loan.release().is_ok() && w.keep_letter("t", &it)
        });
        w.stage().end(done);
        std::mem::forget(into);
    }
    fn check(&self, w: &mut World) -> Verdict {
        w.settle("t", SLOTS, Part::Receives(false, 1))
    }
}

struct MarkIgnored;

impl Operation for MarkIgnored {
    fn name(&self) -> &'static str {
        "work, then release, no mark"
    }
    fn scenes(&self) -> &'static [Scene] {
        &[Scene::Alone]
    }
    fn build(&self, w: &mut World) -> Verdict {
        build_tube(w)?;
        w.post_all("t", KEEPER, 1)
    }
    fn perform(&self, w: &World) {
        let into = receiver(w);
        w.stage().begin();
        let done = into.borrow().is_ok_and(|loan| w.keep_letter("t", &loan) && loan.release().is_ok());
        w.stage().end(done);
        std::mem::forget(into);
    }
    fn check(&self, w: &mut World) -> Verdict {
        w.settle("t", SLOTS, Part::Receives(true, 1))
    }
}
