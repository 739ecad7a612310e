//! The tasks of a loop that are to be polled, and a descriptor by which the loop learns of them: for loops that are not Rust's.
//!
//! A task has a number. Its waker notes the number in the list; the loop, which sleeps on the descriptor, takes the list and polls these tasks. One
//! descriptor serves any number of tasks, and what a thread does that wakes one is a push under a lock, and a `write` if the list was empty.
//!
//! - L1: the loop clears the descriptor before it takes the list, and the waker pushes before it signals. So what is pushed after the list was
//!   taken finds it empty, and signals after the clearing. A signal that comes late finds an empty list: the loop wakes for nothing, once.
//!
//! The waker never waits but for the list's lock, under which only a vector grows. So the driver of an arena is not kept by a loop that is slow, and what
//! the loop's language needs for its objects (the GIL) is not asked for here.

use chappe_plat::poll::Event;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Those that were woken since they were taken last, and the descriptor that is readable while there are some.
pub struct Woken(Arc<List>);

struct List {
    event: Event,
    tasks: Mutex<Vec<u64>>,
}

/// The waker of one task.
struct Notes {
    list: Arc<List>,
    task: u64,
}

impl Woken {
    /// None yet.
    ///
    /// # Errors
    /// The system's, if it has no descriptor left.
    pub fn new() -> io::Result<Woken> {
        Ok(Woken(Arc::new(List { event: Event::new()?, tasks: Mutex::new(Vec::new()) })))
    }

    /// What wakes the task of this number.
    pub fn waker(&self, task: u64) -> Waker {
        Waker::from(Arc::new(Notes { list: self.0.clone(), task }))
    }

    /// The tasks that were woken since the last call: each at least once. The descriptor is not readable any more (L1).
    pub fn take(&self) -> Vec<u64> {
        self.0.event.clear();
        std::mem::take(&mut *self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Woken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl Wake for Notes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let was_empty = {
            let mut tasks = self.list.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.push(self.task);
            tasks.len() == 1
        };
        // L1.
        if was_empty {
            self.list.event.signal();
        }
    }
}
