//! Makes commands that only look end, whatever is broken: a thread does the looking, and the command waits for it for a limited time.
//!
//! Nothing that they call waits for another process. What may hold them up all the same lies outside: a file system that does not answer, a
//! process whose /proc entries do not, an arena with thousands of dead and a million objects. Then they say what they have seen, and of
//! what they have not.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a command looks in all.
const IN_ALL: Duration = Duration::from_secs(8);
/// How long at one thing.
const AT_ONE: Duration = Duration::from_secs(4);

/// The time that a command has.
pub struct Patience {
    until: Instant,
}

impl Patience {
    /// From now on.
    pub fn new() -> Patience {
        Patience { until: Instant::now() + IN_ALL }
    }

    /// Looks at one thing, for at most so much longer than usual. None: it takes too long.
    pub fn look<T: Send + 'static>(&self, more: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let most = self.until.saturating_duration_since(Instant::now()).min(AT_ONE) + more;
        let (tell, told) = channel();
        let worker = std::thread::spawn(move || {
            // The receiver may be gone by now.
            let _ = tell.send(work());
        });
        match told.recv_timeout(most) {
            Ok(seen) => {
                // Whatever it has of an arena is given up when it ends.
                let _ = worker.join();
                Some(seen)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => None,
            },
        }
    }
}

/// What is said of something that took too long.
pub fn too_long(what: &str) -> String {
    format!(
        "{what} takes too long to look at, and is left out: a file system or a process does not answer, or more has died than \
         can be made up for at once; try again, and see `chappe doctor`"
    )
}
