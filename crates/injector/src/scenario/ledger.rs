//! What survivors gave to a semaphore and took from it.
//!
//! A unit has no owner: that one is missing can be seen only by counting. Whatever the keeper and the helpers do is noted
//! here; what the value then differs by is the victim's doing, and the scenario says which differences its operation allows.

use std::sync::atomic::Ordering::SeqCst;

use chappe::{Arena, DownError, Semaphore};

use super::world::{OPTIONS, World, fault, fine};
use crate::board::{Fault, Verdict};

/// Units that survivors gave to semaphore `i`, those that it was made with among them: word `GIVEN + i`.
const GIVEN: usize = 32;
/// Units that they took: word `TAKEN + i`.
const TAKEN: usize = 40;
/// Units that the keeper gave for what the victim may have used up.
const PROVIDED: usize = 15;

/// Semaphores have single messages as names.
fn number(name: &str) -> usize {
    name.bytes().next_back().map_or(0, |b| usize::from(b) % 8)
}

impl World<'_> {
    /// Notes units that a survivor gives.
    pub fn note_given(&self, name: &str, n: u32) {
        self.stage().word(GIVEN + number(name)).fetch_add(n.into(), SeqCst);
    }

    /// Notes a unit that a survivor has taken.
    pub fn note_taken(&self, name: &str) {
        self.stage().word(TAKEN + number(name)).fetch_add(1, SeqCst);
    }

    /// What survivors gave, less what they took.
    pub fn left(&self, name: &str) -> i64 {
        let read = |base: usize| self.stage().word(base + number(name)).load(SeqCst) as i64;
        read(GIVEN) - read(TAKEN)
    }

    /// Whether the keeper may give one more in the victim's place; `most` in all.
    pub fn may_provide(&self, most: u64) -> bool {
        let given = self.stage().word(PROVIDED);
        let may = given.load(SeqCst) < most;
        given.fetch_add(u64::from(may), SeqCst);
        may
    }

    /// How many the keeper gave in the victim's place.
    pub fn provided(&self) -> u64 {
        self.stage().word(PROVIDED).load(SeqCst)
    }

    /// The keeper makes a semaphore of arena `default`, and will count its waiters.
    pub fn make_semaphore(&self, name: &'static str, value: u32, barging: bool) -> Verdict {
        fine("making the arena", Arena::open_or_create("default", &OPTIONS))?;
        let made = if barging { Semaphore::create_barging(name, value) } else { Semaphore::create(name, value) };
        fine(&format!("making {name}"), made)?;
        self.note_given(name, value);
        self.count_waiters_of(name);
        Ok(())
    }

    /// Opens a semaphore for the life of this process.
    pub fn semaphore(&self, name: &str) -> Result<&'static Semaphore, (Fault, String)> {
        let semaphore = fine(&format!("opening {name}"), Semaphore::open(name))?;
        Ok(Box::leak(Box::new(semaphore)))
    }

    /// A survivor waits for a unit.
    pub fn take_unit(&self, name: &str) -> Verdict {
        fine("waiting for a unit", self.semaphore(name)?.down())?;
        self.note_taken(name);
        Ok(())
    }

    /// A survivor adds a unit.
    pub fn give_unit(&self, name: &str) -> Verdict {
        self.note_given(name, 1);
        fine("giving a unit", self.semaphore(name)?.up())
    }

    /// The keeper adds a unit when it lets go.
    pub fn owe_unit(&self, name: &'static str) -> Verdict {
        let (stage, scene, semaphore) = (*self.stage(), self.scene(), self.semaphore(name)?);
        self.owe(move || {
            World::new(&stage, scene).note_given(name, 1);
            // A refusal leaves those that wait where they are, which is found.
            let _ = semaphore.up();
        });
        Ok(())
    }

    /// A survivor waits for a unit, and adds it again.
    pub fn pass_unit(&self, name: &str) -> Verdict {
        self.take_unit(name)?;
        self.give_unit(name)
    }

    /// While the victim is stopped: a unit can be had at once, and put back. False: there is none.
    pub fn try_unit(&self, name: &str) -> Result<bool, (Fault, String)> {
        match self.semaphore(name)?.try_down() {
            Ok(()) => {
                self.note_taken(name);
                self.give_unit(name)?;
                Ok(true)
            }
            Err(DownError::WouldBlock) => Ok(false),
            Err(e) => fault(Fault::Torn, format!("trying while the victim is stopped: {e}")),
        }
    }

    /// Gives those that wait a unit if the dead victim may have used theirs up.
    pub fn provide_unit(&self, name: &str, most: u64) {
        let Ok(semaphore) = self.semaphore(name) else { return };
        if self.is_stuck(|| semaphore.value() == 0) && self.may_provide(most) {
            // A refusal leaves them stuck, which is found.
            let _ = self.give_unit(name);
        }
    }

    /// What the victim has added (or, negative, taken). Nobody else uses the semaphore any more: all units can be had,
    /// nobody waits.
    pub fn difference(&self, name: &str) -> Result<i64, (Fault, String)> {
        // Sweeps the dead: the victim may have been alone.
        fine("sweeping", chappe::doctor())?;
        let semaphore = self.semaphore(name)?;
        let (value, left) = (semaphore.value(), self.left(name));
        for had in 0..value {
            if let Err(e) = semaphore.try_down() {
                return fault(Fault::Wedged, format!("{name} is {value}, and after {had}: {e}"));
            }
        }
        match semaphore.try_down() {
            Err(DownError::WouldBlock) => {}
            Ok(()) => return fault(Fault::Doubled, format!("{name} was {value}, and gave one more")),
            Err(e) => return fault(Fault::Torn, format!("trying {name}: {e}")),
        }
        // One that is just being swept may still be listed.
        if !self.stage().until(|| semaphore.waiters().is_empty()) {
            return fault(Fault::Torn, format!("{name} shows waiters: {:?}", semaphore.waiters()));
        }
        fine("adding them again", semaphore.up_many(value))?;
        if semaphore.value() != value {
            return fault(Fault::Torn, format!("{name} is {}, not {value} as before", semaphore.value()));
        }
        Ok(i64::from(value) - left)
    }

    /// What a victim that takes one unit may have added.
    pub fn of_a_down(&self) -> &'static [i64] {
        match (self.was_done(), self.scene().waits() && !self.was_woken()) {
            (true, _) => &[-1],
            // There was nothing to take before it died.
            (false, true) => &[0],
            (false, false) => &[-1, 0],
        }
    }

    /// The victim has added one of these numbers of units.
    pub fn balance(&self, name: &str, allowed: &[i64]) -> Verdict {
        weigh(name, self.difference(name)?, allowed)
    }
}

/// Judges what the victim has added.
pub fn weigh(name: &str, difference: i64, allowed: &[i64]) -> Verdict {
    if allowed.contains(&difference) {
        return Ok(());
    }
    let text = format!("{name} has {difference:+} of the victim's, where {allowed:?} can be");
    let (least, most) = (allowed.iter().min(), allowed.iter().max());
    if least.is_some_and(|l| difference < *l) {
        fault(Fault::Lost, text)
    } else if most.is_some_and(|m| difference > *m) {
        fault(Fault::Doubled, text)
    } else {
        fault(Fault::Torn, text)
    }
}
