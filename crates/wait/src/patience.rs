//! How long a caller waits, and how it spends the time, by its role.

use crate::attachment::{ThreadAttachment, priority};
use crate::interrupt;
use crate::role::{ROLE, Role};
use crate::wait::Patience;
use chappe_plat::{clock, light};
use std::time::{Duration, Instant};

#[inline]
pub fn patience(attachment: &ThreadAttachment) -> Patience<'_> {
    if light::current().is_some() {
        // It parks at once: its proc runs other light threads, or spins itself.
        let interrupt = interrupt::current();
        return Patience {
            budget: &attachment.spin,
            forever: false,
            none: true,
            interrupt,
            priority: priority(),
            bell: None,
        };
    }
    let (role, interrupt) = (ROLE.get(), interrupt::current());
    Patience {
        budget: &attachment.spin,
        forever: role == Role::Spin,
        none: role == Role::Sleeper,
        interrupt,
        priority: priority(),
        bell: None,
    }
}

/// How long to wait.
#[derive(Clone, Copy)]
pub enum Until {
    Now,
    Forever,
    /// Monotonic nanoseconds.
    Time(u64),
}

impl Until {
    #[inline]
    pub fn after(duration: Duration) -> Until {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        clock::now().checked_add(ns).map_or(Until::Forever, Until::Time)
    }
    #[inline]
    pub fn at(deadline: Instant) -> Until {
        Until::after(deadline.saturating_duration_since(Instant::now()))
    }
}

/// Lets so much time pass: a light thread gives its processor up meanwhile.
#[inline]
pub fn pass(time: Duration) {
    if light::current().is_none() {
        return std::thread::sleep(time);
    }
    let until = clock::now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    while clock::now() < until {
        light::park(Some(until));
    }
    light::come_by();
}
