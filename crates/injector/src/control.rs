//! Positive controls: operations known to break when their process is killed, and one known not to.
//!
//! | control | known | the survivors' check |
//! |---|---|---|
//! | bounded ring with a stamp per cell (Vyukov's), push and pop | wedged between claim and stamp | two rounds of push and pop |
//! | robust mutex around `a += 1; b += 1` | torn between the two, never wedged | lock, `a == b` |
//! | the same, stopped instead of killed | wedged while it holds the lock | timed lock |
//! | one atomic add, killed and stopped | nothing | add once more |
//!
//! What they keep lies on the board's own words. They are models of mistakes: nothing else may use them.
//! With them go the mistakes made with chappe's own objects ([`play::mistakes`]), which the plays' own checks must see.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use crate::board::{Cue, Fault, Stage, Verdict};
use crate::play;
use crate::sweep::{Plan, Tally, sweep};
use crate::trial::{Pause, Play};

/// A control, and what must be found in it: one kind of fault and no other, or nothing.
pub struct Control {
    play: Box<dyn Play>,
    must: Option<Fault>,
}

impl Control {
    /// Sweeps it whole. The second is whether the injector saw what there is to see, and nothing else.
    pub fn try_out(&self) -> (Tally, bool) {
        // Who is wedged here stays so: there is no point in waiting long. Who is not is never waited for.
        let limit = Duration::from_millis(if self.must == Some(Fault::Wedged) { 500 } else { 20_000 });
        let t = sweep(&*self.play, Plan { limit, ..Plan::all() });
        let seen = match self.must {
            None => t.clean(),
            Some(fault) => t.of(fault) > 0 && t.of(fault) == t.faults(),
        };
        (t, seen)
    }
}

/// All controls; the arenas of those that need some lie in `home`.
pub fn all(home: &Path) -> Vec<Control> {
    let control = |play: Box<dyn Play>, must| Control { play, must };
    let own = [
        control(Box::new(Ring { pop: false }), Some(Fault::Wedged)),
        control(Box::new(Ring { pop: true }), Some(Fault::Wedged)),
        control(Box::new(Mutex { stopped: false }), Some(Fault::Torn)),
        control(Box::new(Mutex { stopped: true }), Some(Fault::Wedged)),
        control(Box::new(Single { stopped: false }), None),
        control(Box::new(Single { stopped: true }), None),
    ];
    let mistakes = play::mistakes(home).into_iter().map(|(case, fault)| control(Box::new(case), Some(fault)));
    own.into_iter().chain(mistakes).collect()
}

const CELLS: u64 = 4;
const HEAD: usize = 0;
const TAIL: usize = 1;
const STAMPS: usize = 2;
const VALUES: usize = STAMPS + CELLS as usize;

/// The ring: a position is claimed by CAS, then its cell is stamped. Who dies in between wedges it.
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

impl Play for Ring {
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

impl Play for Mutex {
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
        // SAFETY: the words are zeroed, large and aligned enough, and nobody else uses them yet.
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
                // What it sees of a and b before the victim is dead is nobody's fault.
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

impl Play for Single {
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
