//! The deadlock watch: see `runtime`.

use super::{Proc, Shared};
use crate::{offers, report};
use chappe_plat::atomic::Ordering;
use chappe_plat::{clock, light, process, quiet};
use std::sync::{Mutex, PoisonError};

/// How long all procs must idle before the last of them checks for a deadlock.
const LULL: u64 = 100_000_000;
/// After so many checks that found nothing it is 16 times as long.
const PATIENT: u32 = 4;

/// All that were made.
pub(crate) static ALL: Mutex<Vec<&'static Shared>> = Mutex::new(Vec::new());

impl Shared {
    /// Until when the last proc to idle sleeps before it checks whether any thread can still be woken; `None`: no check.
    /// `looks`: how many checks have found nothing since it last ran a thread.
    pub fn watch_for_deadlock(&self, looks: u32) -> Option<u64> {
        // SeqCst: the bits of the procs that idle.
        let all_idle = self.idle.load(Ordering::SeqCst).count_ones() as usize == self.procs;
        // Relaxed: set once.
        let watches = self.watches.load(Ordering::Relaxed) == 1;
        // Two procs that look at the same moment see each other awake: so that they do not meet again, no two wait for
        // the same time.
        let own = || u64::from(process::tid() % 61) * 1_000_000;
        (watches && all_idle && self.timers.earliest() == u64::MAX && !light::waits_from_outside())
            .then(|| clock::now().saturating_add((LULL << looks.min(PATIENT)) + own()))
    }

    /// All procs have idled for long: reports a deadlock, if nothing can wake a thread. The caller is the proc `me`.
    pub fn look_for_deadlock(&self, me: &Proc) {
        let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let procs = || all.iter().filter(|shared| !shared.stops()).flat_map(|shared| shared.all());
        let rests = |proc: &Proc| std::ptr::eq(proc, me) || proc.is_asleep();
        let holds = || {
            !light::waits_from_outside()
                && !offers::may_act()
                && all.iter().all(|shared| shared.timers.earliest() == u64::MAX)
                && procs().all(|proc| rests(proc) && proc.has_nobody())
        };
        // Relaxed: a number for observers.
        let of_procs = |tid| procs().any(|proc| proc.is_asleep() && proc.tid.load(Ordering::Relaxed) == tid);
        if self.live() > 0 && holds() && quiet::all_sleep(of_procs, holds) {
            report::deadlock();
        }
    }
}
