//! Makes commands that only look end, whatever is broken: a thread does the looking, and the command waits for it for a limited time.
//!
//! Nothing that they call waits for another process. What may hold them up all the same lies outside: a file system that does not answer, a
//! process whose /proc entries do not, an arena with thousands of dead and a million objects. Then they say what they have seen, and of
//! what they have not.

use anyhow::{Result, anyhow};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{Builder, JoinHandle};
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

    /// Looks at one thing, for at most so much longer than usual. None: it takes too long. Where no thread can be started, it looks
    /// itself, for as long as that takes: it is in want of processes that one wants to look.
    pub fn look<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, more: Duration, work: F) -> Option<T> {
        let most = self.until.saturating_duration_since(Instant::now()).min(AT_ONE) + more;
        let (tell, told) = channel();
        // It is handed over once the thread is there.
        let (hand, handed) = channel::<F>();
        let worker = Builder::new().spawn(move || {
            if let Ok(work) = handed.recv() {
                // The receiver may be gone by now.
                let _ = tell.send(work());
            }
        });
        let Ok(worker) = worker else { return Some(work()) };
        // It waits for it.
        let _ = hand.send(work);
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

/// Starts a thread.
///
/// # Errors
/// It cannot be started; what to look at.
pub fn thread<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(body).map_err(|e| no_thread(&e))
}

/// What is said where no thread can be started.
pub fn no_thread(e: &std::io::Error) -> anyhow::Error {
    anyhow!(
        "cannot start a thread: {e}; `ulimit -u` says how many processes and threads a user may have, `pids.max` of the control group \
         how many it may have"
    )
}

/// What is said of something that took too long.
pub fn too_long(what: &str) -> String {
    format!(
        "{what} takes too long to look at, and is left out: a file system or a process does not answer, or more has died than \
         can be made up for at once; try again, and see `chappe doctor`"
    )
}
