//! The calling thread's priority, by which its waits are served where waiters are served by priority.

use chappe_wait::attachment::{priority as own, replace_priority};
#[cfg(doc)]
use chappe_wait::wait::Discipline;

/// A waiter's rank at pools and semaphores that serve by priority ([`Discipline::Priority`]): it is served before all waiters whose number is
/// smaller. Anywhere else it has no effect. The default is 0.
///
/// It is the calling thread's own, light or not, and counts from its next wait on. A wait keeps the priority with which it began.
/// The kernel's scheduler does not use it. A new thread has 0; a forked child has its parent's.
///
/// ```
/// use chappe_sync::{Discipline, Priority, Semaphore};
/// let ready = Semaphore::private_by(1, Discipline::PRIORITY)?;
/// Priority(9).during(|| ready.down())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u8);

impl Priority {
    /// Runs a function with this priority.
    pub fn during<R>(self, act: impl FnOnce() -> R) -> R {
        struct Back(u8);
        impl Drop for Back {
            fn drop(&mut self) {
                replace_priority(self.0);
            }
        }
        let _back = Back(replace_priority(self.0));
        act()
    }

    /// The calling thread's.
    pub fn current() -> Priority {
        Priority(own())
    }
}

/// Sets the calling thread's priority.
pub fn set_priority(priority: Priority) {
    replace_priority(priority.0);
}
