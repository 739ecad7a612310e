//! Positive controls: operations known to break when their process is killed, and one known not to.
//!
//! | control | known | the survivors' check |
//! |---|---|---|
//! | bounded ring with a stamp per cell (Vyukov's), push and pop | wedged between claim and stamp | two rounds of push and pop |
//! | robust mutex around `a += 1; b += 1` | torn between the two, never wedged | lock, `a == b` |
//! | the same, stopped instead of killed | wedged while it holds the lock | timed lock |
//! | one atomic add, killed and stopped | nothing | add once more |
//! | recovery in two steps that forgets before it gives back | lost, if its recoverer dies between the two | the permit is there |
//!
//! Most of those in which the victim only dies, and some operations that are sound, are swept in two ways: it dies in each
//! state, and at each instruction. Both must find the same at the same instructions: one death tells of all of a state's.
//!
//! What they keep lies on the board's own words. They are models of mistakes: nothing else may use them. With them go the mistakes made
//! with chappe's own objects ([`scenario::mistakes`]), which the scenarios' own checks must see. So there is one at least for each column of the
//! table: wedged (dead, stopped, and waited for by a newcomer), torn, lost, after one fault and after two, duplicated, leaked, told, and
//! the backstop.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use crate::board::{Cue, Fault, Stage, Verdict};
use crate::plan::Plan;
use crate::scenario::{self, Case, Must};
use crate::sweep::sweep;
use crate::tally::Tally;
use crate::trial::{Pause, Scenario};

/// A control, and what must be found in it.
pub struct Control {
    scenario: Box<dyn Scenario>,
    must: Must,
    /// It takes a second fault to see it.
    second: bool,
    /// Deaths at each instruction find what deaths in each state find.
    compared: bool,
}

impl Control {
    /// Sweeps it whole. The second is whether the injector saw what there is to see, and nothing else; with `both_ways`, whether it sees the
    /// same by deaths at each instruction, where that can be compared. That takes ten times as long.
    pub fn try_out(&self, both_ways: bool) -> (Tally, bool) {
        // A wedged process stays so here: there is no point in waiting long. A process that is not wedged is never waited for.
        let limit = Duration::from_millis(if self.is_slow() { 500 } else { 20_000 });
        let enough = if self.compared { u64::MAX } else { 4 };
        let plan = Plan { limit, enough, doubles: u64::from(self.second), ..Plan::all() };
        let t = sweep(&*self.scenario, plan);
        let seen = match self.must {
            Must::Nothing => t.clean(),
            Must::Backstops => t.backstops > 0 && t.faults() == 0,
            Must::Faults(fault) => {
                t.of(fault) > 0 && t.of(fault) == t.faults() && t.backstops == 0 && t.faulty.is_empty() == self.second
            }
        };
        // How often a loop turns may differ between two runs, and so the names of what comes after it.
        (t, seen && (!self.compared || !both_ways || (0..3).any(|_| self.is_alike(plan))))
    }

    /// Whether a slow machine may hide what is to be seen: the sleepers must have announced themselves when their announcements are taken away.
    pub fn takes_luck(&self) -> bool {
        matches!(self.must, Must::Backstops)
    }

    /// Each of its faults costs a watchdog.
    fn is_slow(&self) -> bool {
        matches!(self.must, Must::Faults(Fault::Wedged | Fault::Leaked))
    }

    fn is_alike(&self, plan: Plan) -> bool {
        let plan = plan.single();
        let (by_state, each) = (sweep(&*self.scenario, plan), sweep(&*self.scenario, Plan { each: true, ..plan }));
        by_state.trials < each.trials && by_state.faulty == each.faulty
    }
}

/// All controls; the arenas of those that need some lie in `home`.
pub fn all(home: &Path) -> Vec<Control> {
    let control = |scenario: Box<dyn Scenario>, must, compared| Control { scenario, must, second: false, compared };
    let own = [
        control(Box::new(Ring { pop: false }), Must::Faults(Fault::Wedged), true),
        control(Box::new(Ring { pop: true }), Must::Faults(Fault::Wedged), true),
        control(Box::new(Mutex { stopped: false }), Must::Faults(Fault::Torn), true),
        control(Box::new(Mutex { stopped: true }), Must::Faults(Fault::Wedged), false),
        control(Box::new(Single { stopped: false }), Must::Nothing, true),
        control(Box::new(Single { stopped: true }), Must::Nothing, false),
        Control { scenario: Box::new(Recovery), must: Must::Faults(Fault::Lost), second: true, compared: true },
    ];
    let mistake = |(case, must)| {
        let one = control(Box::new(case), must, true);
        // Not those in which each finding takes its time.
        Control { compared: !one.is_slow() && must != Must::Backstops, ..one }
    };
    let short = |case: &Case| SHORT.contains(&(case.name().as_str(), case.scene().as_str()));
    let sound = scenario::all(home).into_iter().filter(short).map(|case| control(Box::new(case), Must::Nothing, true));
    own.into_iter().chain(scenario::mistakes(home).into_iter().map(mistake)).chain(sound).collect()
}

/// Operations that are as they should be, whichever way they are killed.
const SHORT: [(&str, &str); 3] = [("up", "alone"), ("unlock", "alone"), ("tube try_send, mpmc", "alone")];

const CELLS: u64 = 4;
const HEAD: usize = 0;
const TAIL: usize = 1;
const STAMPS: usize = 2;
const VALUES: usize = STAMPS + CELLS as usize;

/// The ring: a position is claimed by CAS, then its cell is stamped. A death in between wedges it.
struct Ring {
    pop: bool,
}

fn ring_push(stage: &Stage, value: u64) -> bool {
    loop {
        let at = stage.word(TAIL).load(SeqCst);
        let cell = (at % CELLS) as usize;
        let stamp = stage.word(STAMPS + cell).load(SeqCst);
        if stamp < at {
            return false;
        }
        if stamp == at && stage.word(TAIL).compare_exchange(at, at + 1, SeqCst, SeqCst).is_ok() {
            stage.word(VALUES + cell).store(value, Relaxed); // Relaxed: published by the stamp.
            stage.word(STAMPS + cell).store(at + 1, SeqCst);
            return true;
        }
    }
}

fn ring_pop(stage: &Stage) -> Option<u64> {
    loop {
        let at = stage.word(HEAD).load(SeqCst);
        let cell = (at % CELLS) as usize;
        let stamp = stage.word(STAMPS + cell).load(SeqCst);
        if stamp < at + 1 {
            return None;
        }
        if stamp == at + 1 && stage.word(HEAD).compare_exchange(at, at + 1, SeqCst, SeqCst).is_ok() {
            let value = stage.word(VALUES + cell).load(Relaxed); // Relaxed: published by the stamp.
            stage.word(STAMPS + cell).store(at + CELLS, SeqCst);
            return Some(value);
        }
    }
}

impl Scenario for Ring {
    fn name(&self) -> String {
        if self.pop { "ring pop" } else { "ring push" }.to_owned()
    }

    fn keeper(&self, stage: &Stage) -> Verdict {
        for cell in 0..CELLS {
            stage.word(STAMPS + cell as usize).store(cell, SeqCst);
        }
        if self.pop {
            ring_push(stage, 7);
        }
        stage.ready();
        // What the victim left: at most its one value.
        while let Some(value) = ring_pop(stage) {
            if value != 7 {
                return Err((Fault::Torn, format!("popped {value}, which nobody pushed")));
            }
        }
        for value in 100..100 + 2 * CELLS {
            if !ring_push(stage, value) {
                return Err((Fault::Wedged, "an empty ring is full".to_owned()));
            }
            match ring_pop(stage) {
                Some(got) if got == value => {}
                Some(got) => return Err((Fault::Torn, format!("pushed {value}, popped {got}"))),
                None => return Err((Fault::Wedged, "a ring with a value in it is empty".to_owned())),
            }
        }
        Ok(())
    }

    fn victim(&self, stage: &Stage) {
        stage.begin();
        let right = if self.pop { ring_pop(stage) == Some(7) } else { ring_push(stage, 7) };
        stage.end(right);
    }
}

/// The mutex lies at the start of the board's words, the two counts at their end.
struct Mutex {
    stopped: bool,
}

const A: usize = crate::board::WORDS - 2;
const B: usize = crate::board::WORDS - 1;

fn mutex(stage: &Stage) -> *mut libc::pthread_mutex_t {
    const { assert!(size_of::<libc::pthread_mutex_t>() <= 8 * A) };
    stage.word(0).as_ptr().cast()
}

fn add_one(word: &AtomicU64) {
    // Relaxed: the mutex orders; that the two adds are separate stores is the point.
    word.store(word.load(Relaxed) + 1, Relaxed);
}

impl Mutex {
    fn check(stage: &Stage) -> Verdict {
        // SAFETY: a zeroed timespec is valid, and a valid place for the clock.
        let mut end: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: as above; the mutex was initialised by the keeper before the victim started.
        let got = unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &mut end);
            end.tv_sec += stage.limit.as_secs() as i64;
            end.tv_nsec += i64::from(stage.limit.subsec_nanos());
            if end.tv_nsec >= 1_000_000_000 {
                end.tv_sec += 1;
                end.tv_nsec -= 1_000_000_000;
            }
            libc::pthread_mutex_timedlock(mutex(stage), &end)
        };
        match got {
            0 => {}
            libc::EOWNERDEAD => {
                // SAFETY: this process has just locked it.
                unsafe { libc::pthread_mutex_consistent(mutex(stage)) };
            }
            libc::ETIMEDOUT => return Err((Fault::Wedged, "the lock does not come free".to_owned())),
            error => return Err((Fault::Torn, format!("the lock fails with {error}"))),
        }
        let (a, b) = (stage.word(A).load(SeqCst), stage.word(B).load(SeqCst));
        // SAFETY: this process holds it.
        unsafe { libc::pthread_mutex_unlock(mutex(stage)) };
        if a == b { Ok(()) } else { Err((Fault::Torn, format!("a is {a}, b is {b}"))) }
    }
}

impl Scenario for Mutex {
    fn name(&self) -> String {
        "robust mutex".to_owned()
    }

    fn scene(&self) -> String {
        if self.stopped { "stopped" } else { "alone" }.to_owned()
    }

    fn pause(&self) -> Pause {
        if self.stopped { Pause::Check } else { Pause::None }
    }

    fn keeper(&self, stage: &Stage) -> Verdict {
        // SAFETY: the words are zeroed, large and aligned enough, and no other process uses them yet.
        unsafe {
            let mut kind: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut kind);
            libc::pthread_mutexattr_setpshared(&mut kind, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&mut kind, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(mutex(stage), &kind);
        }
        let mut cue = stage.ready();
        while cue != Cue::Dead {
            if cue == Cue::Stopped {
                // What it sees of a and b before the victim is dead is no fault.
                if let Err((Fault::Wedged, text)) = Mutex::check(stage) {
                    return Err((Fault::Wedged, text));
                }
            }
            cue = stage.acted(cue);
        }
        Mutex::check(stage)
    }

    fn victim(&self, stage: &Stage) {
        stage.begin();
        // SAFETY: the keeper has initialised it; unlocked by the thread that locked it.
        unsafe { libc::pthread_mutex_lock(mutex(stage)) };
        add_one(stage.word(A));
        add_one(stage.word(B));
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(mutex(stage)) };
        stage.end(true);
    }
}

/// One atomic add.
struct Single {
    stopped: bool,
}

impl Scenario for Single {
    fn name(&self) -> String {
        "one atomic add".to_owned()
    }

    fn scene(&self) -> String {
        if self.stopped { "stopped" } else { "alone" }.to_owned()
    }

    fn pause(&self) -> Pause {
        if self.stopped { Pause::Check } else { Pause::None }
    }

    fn keeper(&self, stage: &Stage) -> Verdict {
        let mut cue = stage.ready();
        while cue != Cue::Dead {
            cue = stage.acted(cue);
        }
        let before = stage.word(0).fetch_add(1, SeqCst);
        if before <= 1 { Ok(()) } else { Err((Fault::Torn, format!("{before} after one add"))) }
    }

    fn victim(&self, stage: &Stage) {
        stage.begin();
        stage.word(0).fetch_add(1, SeqCst);
        stage.end(true);
    }
}

/// A permit, and a note that it is held. A recoverer takes the note away, then gives the permit back.
struct Recovery;

const NOTE: usize = 0;
const FREE: usize = 1;

impl Recovery {
    fn recover(stage: &Stage) {
        if stage.word(NOTE).swap(0, SeqCst) != 0 {
            stage.word(FREE).store(1, SeqCst);
        }
    }
}

impl Scenario for Recovery {
    fn name(&self) -> String {
        "recovery in two steps".to_owned()
    }

    fn keeper(&self, stage: &Stage) -> Verdict {
        stage.word(FREE).store(1, SeqCst);
        stage.ready();
        Recovery::recover(stage);
        let free = stage.word(FREE).load(SeqCst);
        if free == 1 { Ok(()) } else { Err((Fault::Lost, format!("{free} of 1 permits came back"))) }
    }

    fn victim(&self, stage: &Stage) {
        stage.begin();
        // Noted first: its death before the second step is made up for as well.
        stage.word(NOTE).store(1, SeqCst);
        stage.word(FREE).store(0, SeqCst);
        stage.end(true);
    }

    fn recovers(&self) -> bool {
        true
    }

    fn recoverer(&self, stage: &Stage) {
        stage.begin();
        Recovery::recover(stage);
        stage.end(true);
    }
}
