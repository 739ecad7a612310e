//! Clocks: tubes whose other end is the time. No thread sends there, and none waits in a queue: a thread that waits for a clock sleeps
//! until it is due.
//!
//! The word is when the next message is due, in monotonic nanoseconds; the message is that moment. A receiver moves the word on by a
//! compare-and-swap: of several receivers one gets the message. A tick that is late comes once, and the next is a period after that.

use crate::mark::Mark;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::{Made, clock};
use std::time::{Duration, Instant};

/// Never, or never again.
/// The mark of a clock that never strikes again.
pub const NEVER: u64 = u64::MAX;

/// One clock.
pub struct Clock {
    next: AtomicU64,
    /// 0: it strikes once.
    period: u64,
}

/// One moment on both scales: the second was read a little earlier. So only the first scale says whether a clock has
/// struck.
fn beginning() -> (Instant, u64) {
    static BEGINNING: Made<(Instant, u64)> = Made::new();
    *BEGINNING.get_or(|| {
        // Of a few tries the one in which the two were read closest together.
        let both = || {
            let before = clock::now();
            (Instant::now(), before, clock::now())
        };
        let tries = [(); 8].map(|()| both());
        let (instant, ns, _) = tries[(0..8).min_by_key(|i| tries[*i].2 - tries[*i].1).unwrap_or(0)];
        (instant, ns)
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

/// An instant as monotonic nanoseconds.
fn from_instant(at: Instant) -> u64 {
    let (instant, ns) = beginning();
    match at.checked_duration_since(instant) {
        Some(later) => ns.saturating_add(nanoseconds(later)),
        None => ns.saturating_sub(nanoseconds(instant - at)),
    }
}

fn now() -> u64 {
    from_instant(Instant::now())
}

fn to_instant(at: u64) -> Instant {
    let (instant, ns) = beginning();
    if at >= ns { instant + Duration::from_nanos(at - ns) } else { instant - Duration::from_nanos(ns - at) }
}

impl Clock {
    /// A clock that strikes once, at this moment.
    pub fn at(when: Instant) -> Clock {
        Clock { next: AtomicU64::new(from_instant(when)), period: 0 }
    }

    /// A clock that strikes once, after so long; never, if that is beyond what the word can hold.
    pub fn after(duration: Duration) -> Clock {
        Clock { next: AtomicU64::new(from_now(duration)), period: 0 }
    }

    /// A clock that strikes once a period.
    pub fn tick(period: Duration) -> Clock {
        // Not more often than the clock can tell.
        Clock { next: AtomicU64::new(from_now(period)), period: nanoseconds(period).max(1) }
    }

    /// When the clock strikes next.
    pub fn due(&self) -> Option<u64> {
        // Acquire: what the last receiver did before.
        Some(self.next.load(Ordering::Acquire)).filter(|due| *due != NEVER)
    }

    /// Whether the clock has struck, and no thread has received that.
    pub fn is_due(&self) -> bool {
        self.due().is_some_and(|due| due <= now())
    }

    /// A look for a choice: see `lull`.
    pub fn mark(&self) -> Mark {
        match self.due() {
            Some(due) if due <= now() => Mark::Something,
            due => Mark::Nothing(due.unwrap_or(NEVER)),
        }
    }

    /// Receives the stroke that is due.
    pub fn take(&self) -> Option<u64> {
        loop {
            let due = self.due()?;
            let now = now();
            if due > now {
                return None;
            }
            let next = if self.period == 0 { NEVER } else { now.saturating_add(self.period) };
            // AcqRel: one stroke, one receiver. Acquire: look again.
            if self.next.compare_exchange(due, next, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Some(due);
            }
        }
    }

    /// The stroke of that moment.
    pub fn stroke(due: u64) -> Instant {
        to_instant(due)
    }
}

fn from_now(duration: Duration) -> u64 {
    // `beginning` first, before the clock is read: else it could be later.
    beginning();
    now().saturating_add(nanoseconds(duration))
}
