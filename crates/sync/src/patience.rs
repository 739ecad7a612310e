//! How long a caller waits, and how it spends the time: deadlines and roles.

use crate::interrupt;
use crate::seat::ThreadSeat;
use crate::wait::Patience;
use chappe_plat::clock;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How a thread spends its time before it sleeps (nix-semaphores-tubes, 2.2 and 4: roles of cores).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Spins for as long as spinning has paid lately, at most some microseconds, then sleeps.
    #[default]
    TimeSharing,
    /// Has a core of its own: spins and never sleeps. Waiting makes no system call.
    Application,
    /// Sleeps at once.
    Sleeper,
}

impl Role {
    /// Does something in this role: for one call.
    ///
    /// ```
    /// # use chappe_sync::{Role, Semaphore};
    /// # let ready = Semaphore::private(1)?;
    /// Role::Application.during(|| ready.down())?;
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
    ROLE.get() == Role::Application
}

pub(crate) fn patience(seat: &ThreadSeat) -> Patience<'_> {
    let role = ROLE.get();
    Patience { budget: &seat.spin, forever: role == Role::Application, none: role == Role::Sleeper, interrupt: None }
}

/// The same for a wait that [`crate::interruptible`] is meant for.
pub(crate) fn impatience(seat: &ThreadSeat) -> Patience<'_> {
    Patience { interrupt: interrupt::current(), ..patience(seat) }
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
