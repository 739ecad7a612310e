//! Roles: how a thread spends its time before it sleeps.

use std::cell::Cell;

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
    /// use chappe_wait::role::Role;
    /// let answer = Role::Spin.during(|| "what waits here spins");
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
    /// The calling thread's.
    #[doc(hidden)]
    pub static ROLE: Cell<Role> = const { Cell::new(Role::TimeSharing) };
}

/// Sets the calling thread's role.
#[inline]
pub fn set_role(role: Role) {
    ROLE.set(role);
}

/// Whether the calling thread never sleeps.
#[inline]
pub fn has_own_core() -> bool {
    ROLE.get() == Role::Spin
}
