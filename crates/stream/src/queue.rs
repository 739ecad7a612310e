//! The queue quaject (synthesis, figures 4.1 to 4.3): callentries `Q_put` and `Q_get`, callbacks `Q_full`, `Q_full-1`, `Q_empty`, `Q_empty+1`.
//!
//! The queue is a private tube with callbacks. Only the callbacks distinguish a queue that blocks from one that does
//! not:
//!
//! | callback | figure 4.2: blocking | figure 4.3: not blocking |
//! |---|---|---|
//! | `Q_full` | suspends the caller | returns to it: [`Refused`] |
//! | `Q_full-1` | resumes it | calls it |
//! | `Q_empty` | suspends the caller | returns to it |
//! | `Q_empty+1` | resumes it | calls it |
//!
//! The putter that is refused sets a mark (`refused_put`); the getter that takes an element next clears the mark and
//! calls `Q_full-1`. `refused_get` and `Q_empty+1` do the same for the other direction.
//!
//! - I1: `Q_full-1` is called once after any number of refused puts and a get that follows them; `Q_empty+1` once after
//!   any number of gets that found nothing and a put that follows them.
//! - R1 (race): a getter may take an element between the refusal and the mark, and so miss the mark. Therefore the
//!   putter tries once more after it has set the mark. If this succeeds, the putter clears the mark, unless the getter
//!   has cleared it already and called `Q_full-1`. The getter does the same with its mark. Both sides access the marks
//!   SeqCst, each after its access to the tube.
//!
//! Deaths: the queue is private to its process and ends with it; for parts in other processes see [`crate::process`].

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_sync::tube::{self, Receiver, Sender, TryRecvError, TrySendError};
use std::sync::Arc;

/// Something that is called.
pub type Callback = Arc<dyn Fn() + Send + Sync>;

/// What is done when a put finds no room, or a get finds nothing.
#[derive(Clone, Default)]
pub enum When {
    /// The caller waits, lightly: the callback is its `suspend`, and its `resume` is linked to the other one.
    #[default]
    Suspend,
    /// The caller is told.
    Return,
    /// This is called, and the caller told.
    Call(Callback),
}

/// Callbacks of a queue.
#[derive(Clone, Default)]
pub struct Callbacks {
    /// `Q_full`: a put found no room.
    pub full: When,
    /// `Q_full-1`: there is room again.
    pub not_full: Option<Callback>,
    /// `Q_empty`: a get found nothing.
    pub empty: When,
    /// `Q_empty+1`: there is something again.
    pub not_empty: Option<Callback>,
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Callbacks { .. }")
    }
}

/// Why nothing was put or got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The queue is full, or empty.
    #[error("the queue has no room, or nothing to get")]
    Now,
    /// The other side was dropped.
    #[error("nobody is at the other side of the queue")]
    Gone,
}

#[derive(Default)]
struct Marks {
    refused_put: AtomicU32,
    refused_get: AtomicU32,
    full: AtomicU64,
    empty: AtomicU64,
    puts: AtomicU64,
}

/// What a queue has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// How many were put.
    pub puts: u64,
    /// How often a put found it full.
    pub full: u64,
    /// How often a get found it empty.
    pub empty: u64,
    /// How many are in it.
    pub len: usize,
}

/// The side that puts.
pub struct Putter<T> {
    tube: Sender<T>,
    marks: Arc<Marks>,
    calls: Callbacks,
}

/// The side that gets.
pub struct Getter<T> {
    tube: Receiver<T>,
    marks: Arc<Marks>,
    calls: Callbacks,
}

impl<T> std::fmt::Debug for Putter<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Putter { .. }")
    }
}

impl<T> std::fmt::Debug for Getter<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad("Getter { .. }")
    }
}

impl<T> Clone for Putter<T> {
    fn clone(&self) -> Putter<T> {
        Putter { tube: self.tube.clone(), marks: Arc::clone(&self.marks), calls: self.calls.clone() }
    }
}

impl<T> Clone for Getter<T> {
    fn clone(&self) -> Getter<T> {
        Getter { tube: self.tube.clone(), marks: Arc::clone(&self.marks), calls: self.calls.clone() }
    }
}

/// A queue of so many elements.
pub fn queue<T>(slots: usize, calls: &Callbacks) -> (Putter<T>, Getter<T>) {
    let (tx, rx) = tube::bounded(slots.max(1));
    let marks = Arc::new(Marks::default());
    let putter = Putter { tube: tx, marks: Arc::clone(&marks), calls: calls.clone() };
    (putter, Getter { tube: rx, marks, calls: calls.clone() })
}

fn call(callback: Option<&Callback>) {
    if let Some(callback) = callback {
        callback();
    }
}

impl<T> Putter<T> {
    /// `Q_put`. Waits if `Q_full` is linked so.
    ///
    /// # Errors
    /// The element comes back, with why.
    pub fn put(&self, element: T) -> Result<(), (Refused, T)> {
        let mut element = match self.try_put(element) {
            Err((Refused::Now, element)) => element,
            other => return other,
        };
        // Relaxed: a count for people.
        self.marks.full.fetch_add(1, Ordering::Relaxed);
        let wait = match &self.calls.full {
            When::Suspend => true,
            When::Return => false,
            When::Call(callback) => {
                callback();
                false
            }
        };
        if wait {
            return match self.tube.send(element) {
                Ok(()) => {
                    self.has_put();
                    Ok(())
                }
                Err(e) => Err((Refused::Gone, e.0)),
            };
        }
        self.marks.refused_put.store(1, Ordering::SeqCst);
        element = match self.try_put(element) {
            Ok(()) => {
                self.marks.refused_put.swap(0, Ordering::SeqCst);
                return Ok(());
            }
            Err((_, element)) => element,
        };
        Err((Refused::Now, element))
    }

    /// The same, whatever `Q_full` is linked to: never waits, calls nothing back to the caller.
    ///
    /// # Errors
    /// As [`Putter::put`].
    pub fn try_put(&self, element: T) -> Result<(), (Refused, T)> {
        match self.tube.try_send(element) {
            Ok(()) => {
                self.has_put();
                Ok(())
            }
            Err(TrySendError::Full(element)) => Err((Refused::Now, element)),
            Err(TrySendError::Disconnected(element)) => Err((Refused::Gone, element)),
        }
    }

    fn has_put(&self) {
        // Relaxed: a count for people.
        self.marks.puts.fetch_add(1, Ordering::Relaxed);
        if self.marks.refused_get.load(Ordering::SeqCst) == 1 && self.marks.refused_get.swap(0, Ordering::SeqCst) == 1 {
            call(self.calls.not_empty.as_ref());
        }
    }

    /// How full it is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        self.tube.len() as f64 / self.tube.capacity().unwrap_or(1).max(1) as f64
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        counts(&self.marks, self.tube.len())
    }

    /// A look at the counts that does not keep the queue open: without how many are in it.
    pub fn look(&self) -> impl Fn() -> Counts + Send + Sync + use<T> {
        let marks = Arc::clone(&self.marks);
        move || counts(&marks, 0)
    }
}

impl<T> Getter<T> {
    /// `Q_get`. Waits if `Q_empty` is linked so.
    ///
    /// # Errors
    /// There is nothing, and why.
    pub fn get(&self) -> Result<T, Refused> {
        match self.try_get() {
            Err(Refused::Now) => {}
            other => return other,
        }
        // Relaxed: a count for people.
        self.marks.empty.fetch_add(1, Ordering::Relaxed);
        match &self.calls.empty {
            When::Suspend => {
                let got = self.tube.recv().map_err(|_| Refused::Gone)?;
                self.has_got();
                return Ok(got);
            }
            When::Return => {}
            When::Call(callback) => callback(),
        }
        self.marks.refused_get.store(1, Ordering::SeqCst);
        let again = self.try_get();
        if again.is_ok() {
            self.marks.refused_get.swap(0, Ordering::SeqCst);
        }
        again
    }

    /// The same, whatever `Q_empty` is linked to: never waits, calls nothing back to the caller.
    ///
    /// # Errors
    /// As [`Getter::get`].
    pub fn try_get(&self) -> Result<T, Refused> {
        match self.tube.try_recv() {
            Ok(element) => {
                self.has_got();
                Ok(element)
            }
            Err(TryRecvError::Empty) => Err(Refused::Now),
            Err(TryRecvError::Disconnected) => Err(Refused::Gone),
        }
    }

    fn has_got(&self) {
        if self.marks.refused_put.load(Ordering::SeqCst) == 1 && self.marks.refused_put.swap(0, Ordering::SeqCst) == 1 {
            call(self.calls.not_full.as_ref());
        }
    }

    /// How full it is, from 0 to 1.
    pub fn fill(&self) -> f64 {
        self.tube.len() as f64 / self.tube.capacity().unwrap_or(1).max(1) as f64
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        counts(&self.marks, self.tube.len())
    }
}

fn counts(marks: &Marks, len: usize) -> Counts {
    // Relaxed: counts for people.
    let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
    Counts { puts: read(&marks.puts), full: read(&marks.full), empty: read(&marks.empty), len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn told() -> (Arc<Mutex<Vec<&'static str>>>, impl Fn(&'static str) -> Callback) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        (told, move |what| {
            let to = Arc::clone(&to);
            Arc::new(move || to.lock().unwrap().push(what))
        })
    }

    #[test]
    fn figure_4_3_a_queue_that_does_not_block_calls_back_once_for_each_edge() {
        let (told, callback) = told();
        let calls = Callbacks {
            full: When::Call(callback("full")),
            not_full: Some(callback("full-1")),
            empty: When::Call(callback("empty")),
            not_empty: Some(callback("empty+1")),
        };
        let (tx, rx) = queue(2, &calls);
        assert_eq!(rx.get(), Err(Refused::Now));
        assert_eq!(rx.get(), Err(Refused::Now));
        for i in 1..=2 {
            tx.put(i).unwrap();
        }
        assert_eq!(tx.put(3), Err((Refused::Now, 3)));
        assert_eq!(tx.put(3), Err((Refused::Now, 3)));
        assert_eq!((rx.get(), rx.get()), (Ok(1), Ok(2)));
        assert_eq!(*told.lock().unwrap(), ["empty", "empty", "empty+1", "full", "full", "full-1"]);
        assert_eq!(rx.counts(), Counts { puts: 2, full: 2, empty: 2, len: 0 });
    }

    #[test]
    fn figure_4_2_the_same_queue_blocks_if_its_callbacks_are_linked_so() {
        let (tx, rx) = queue(1, &Callbacks::default());
        chappe_thread::Runtime::new(1).unwrap().run(move || {
            let putter = chappe_thread::spawn(move || {
                for i in 0..100 {
                    tx.put(i).unwrap();
                }
                tx.counts().full
            });
            let got: Vec<i32> = std::iter::from_fn(|| rx.get().ok()).collect();
            assert_eq!(got, (0..100).collect::<Vec<_>>());
            assert!(putter.join().unwrap() > 0);
        });
    }

    #[test]
    fn a_queue_without_its_other_end_says_so() {
        let (tx, rx) = queue::<u8>(1, &Callbacks::default());
        drop(rx);
        assert_eq!(tx.put(1), Err((Refused::Gone, 1)));
        let (tx, rx) = queue::<u8>(1, &Callbacks::default());
        drop(tx);
        assert_eq!(rx.get(), Err(Refused::Gone));
    }
}
