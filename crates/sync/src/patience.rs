//! How long a caller waits, and how it spends the time: deadlines and roles.

use crate::attachment::{ThreadAttachment, priority};
use crate::interrupt;
use crate::wait::Patience;
use chappe_plat::{clock, light};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How a thread spends its time before it sleeps (nix-semaphores-tubes, 2.2 and 4: roles of cores).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Spins for as long as spinning has paid lately, at most a few microseconds, then sleeps.
    #[default]
    TimeSharing,
    /// Has a core of its own: spins and never sleeps. Waiting makes no system call.
    Spin,
    /// Sleeps at once.
    Sleeper,
}

impl Role {
    /// Runs a function in this role.
    ///
    /// ```
    /// # use chappe_sync::{Role, Semaphore};
    /// # let ready = Semaphore::private(1)?;
    /// Role::Spin.during(|| ready.down())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn during<R>(self, act: impl FnOnce() -> R) -> R {
        struct Back(Role);
        impl Drop for Back {
            fn drop(&mut self) {
                ROLE.set(self.0);
            }
        }
        let _back = Back(ROLE.replace(self));
        act()
    }
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::TimeSharing) };
}

/// Sets the calling thread's role.
pub fn set_role(role: Role) {
    ROLE.set(role);
}

/// Whether the calling thread never sleeps.
pub(crate) fn has_own_core() -> bool {
    ROLE.get() == Role::Spin
}

pub(crate) fn patience(attachment: &ThreadAttachment) -> Patience<'_> {
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
pub(crate) enum Until {
    Now,
    Forever,
    /// Monotonic nanoseconds.
    Time(u64),
}

impl Until {
    pub fn after(duration: Duration) -> Until {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        clock::now().checked_add(ns).map_or(Until::Forever, Until::Time)
    }
    pub fn at(deadline: Instant) -> Until {
        Until::after(deadline.saturating_duration_since(Instant::now()))
    }
}

/// Lets so much time pass: a light thread gives its processor up meanwhile.
pub(crate) fn pass(time: Duration) {
    if light::current().is_none() {
        return std::thread::sleep(time);
    }
    let until = clock::now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    while clock::now() < until {
        light::park(Some(until));
    }
    light::come_by();
}
