//! Deadlines: one ordered set for all procs of a runtime.
//!
//! A thread that parks with a deadline is in the set until it is woken. A busy proc reads the earliest deadline every
//! few dispatches; an idle proc sleeps until that moment at most. The proc that finds a deadline due takes it out of
//! the set and gives the thread its token; the thread learns from the clock that its time is up.
//!
//! A proc that goes to sleep sets SLEEPS before it reads `earliest`, and `add` writes `earliest` before its caller
//! wakes an idle proc (all SeqCst): so no proc sleeps past a deadline that it has not seen.

use crate::record::Thread;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::clock;
use chappe_plat::light::{self, Locked};
use std::collections::BTreeSet;
use std::sync::Mutex;

pub(crate) struct Timers {
    earliest: AtomicU64,
    all: Mutex<BTreeSet<(u64, usize)>>,
}

impl Timers {
    pub const fn new() -> Timers {
        Timers { earliest: AtomicU64::new(u64::MAX), all: Mutex::new(BTreeSet::new()) }
    }

    fn all(&self) -> Locked<'_, BTreeSet<(u64, usize)>> {
        light::lock(&self.all)
    }

    fn note_earliest(&self, all: &BTreeSet<(u64, usize)>) {
        let earliest = all.first().map_or(u64::MAX, |first| first.0);
        // SeqCst: the caller looks for an idle proc after this store.
        self.earliest.store(earliest, Ordering::SeqCst);
    }

    /// The earliest moment; `u64::MAX`: none.
    #[inline(always)]
    pub fn earliest(&self) -> u64 {
        // SeqCst: a proc reads it after it has set SLEEPS.
        self.earliest.load(Ordering::SeqCst)
    }

    /// Adds one; whether it is the earliest now.
    pub fn add(&self, at: u64, thread: &'static Thread) -> bool {
        let mut all = self.all();
        let is_first = all.first().is_none_or(|first| at < first.0);
        all.insert((at, std::ptr::from_ref(thread) as usize));
        if is_first {
            self.note_earliest(&all);
        }
        is_first
    }

    /// Takes one out, if it is still there.
    pub fn remove(&self, at: u64, thread: &'static Thread) {
        let mut all = self.all();
        if all.remove(&(at, std::ptr::from_ref(thread) as usize)) {
            self.note_earliest(&all);
        }
    }

    /// Wakes those whose moment has come.
    pub fn ring(&self) {
        if self.earliest() == u64::MAX || self.earliest() > clock::now() {
            return;
        }
        let now = clock::now();
        loop {
            let due = {
                let mut all = self.all();
                let due = all.first().copied().filter(|first| first.0 <= now);
                if let Some(due) = due {
                    all.remove(&due);
                }
                self.note_earliest(&all);
                due
            };
            let Some((_, thread)) = due else { return };
            // SAFETY: a record never goes away.
            light::unpark(unsafe { &(*(thread as *const Thread)).core });
        }
    }
}
