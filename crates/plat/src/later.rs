//! What a thread puts off until it has let go of chappe's locks: a call of somebody else's function, which may come to the same locks.
//!
//! - L1: what was put off is taken from the list as a whole before the first of it is called, and nothing of the kernel thread's is looked at
//!   afterwards. So an act may park the light thread in which it runs, and the rest follows on whatever kernel thread that goes on.
//! - L2: a thread that others wait for with a lock of chappe's calls nothing itself: it hands what it has put off over to the one that waits
//!   ([`Busy::hand_over`]), which has put off calls as well until it lets go of that lock.
//! - L3: the list has no destructor: what the last of a thread's locals puts off when they go is not lost.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

type Act = Box<dyn FnOnce() + Send>;

/// The explorers' threads are not threads, and call nobody.
const CALLS: bool = !cfg!(any(feature = "sim", feature = "loom"));

thread_local! {
    /// How many [`Busy`] there are. A light thread stays on its kernel thread while it has one: it waits for nothing then.
    static BUSY: Cell<u32> = const { Cell::new(0) };
    static LATER: RefCell<ManuallyDrop<Vec<Act>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// What was put off, for another thread to do.
#[must_use = "somebody waits for it"]
pub struct Acts(Vec<Act>);

impl Acts {
    /// What the calling thread has put off.
    fn taken() -> Acts {
        Acts(ManuallyDrop::into_inner(LATER.replace(ManuallyDrop::new(Vec::new()))))
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Does all, now, or as soon as the calling thread is no longer busy.
    pub fn run(self) {
        if BUSY.get() > 0 {
            LATER.with_borrow_mut(|later| later.extend(self.0));
        } else {
            self.0.into_iter().for_each(|act| act());
        }
    }
}

/// The calling thread has one of chappe's locks, or is in the middle of what it keeps for itself. To be dropped after that: then the thread does
/// what it has put off.
pub struct Busy(());

impl Busy {
    /// From here on.
    pub fn begin() -> Busy {
        if CALLS {
            BUSY.set(BUSY.get() + 1);
        }
        Busy(())
    }

    /// It is over, and another thread is to do what was put off (L2). Nothing, if there is another `Busy` here.
    pub fn hand_over(self) -> Acts {
        let acts = if BUSY.get() == 1 { Acts::taken() } else { Acts(Vec::new()) };
        drop(self);
        acts
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if !CALLS {
            return;
        }
        BUSY.set(BUSY.get() - 1);
        if BUSY.get() == 0 {
            // L1.
            Acts::taken().run();
        }
    }
}

/// Does it now, or, if the thread is busy, as soon as it no longer is.
pub fn later(act: impl FnOnce() + Send + 'static) {
    if BUSY.get() > 0 {
        LATER.with_borrow_mut(|later| later.push(Box::new(act)));
    } else {
        act();
    }
}

#[cfg(all(test, not(any(feature = "sim", feature = "loom"))))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A counter, and an act that raises it.
    fn counter() -> (Arc<AtomicU32>, impl Fn() -> Act) {
        let done = Arc::new(AtomicU32::new(0));
        let raised = done.clone();
        let more = move || {
            let raised = raised.clone();
            // Relaxed: read behind a join, or in the same thread.
            Box::new(move || _ = raised.fetch_add(1, Ordering::Relaxed)) as Act
        };
        (done, more)
    }

    fn count(done: &AtomicU32) -> u32 {
        // Relaxed: as above.
        done.load(Ordering::Relaxed)
    }

    #[test]
    fn an_act_that_is_put_off_follows_the_last_release() {
        let (done, more) = counter();
        later(more());
        assert_eq!(count(&done), 1, "nothing is locked");
        let outer = Busy::begin();
        drop(Busy::begin());
        later(more());
        assert_eq!(count(&done), 1);
        let (again, next) = (more(), more());
        later(move || {
            drop(Busy::begin());
            later(next);
            again();
        });
        drop(outer);
        assert_eq!(count(&done), 4);
    }

    #[test]
    fn an_act_finds_none_of_those_behind_it_in_its_threads_list() {
        let (done, more) = counter();
        let busy = Busy::begin();
        // As one that goes on, on another kernel thread, which has put off nothing.
        later(|| assert!(Acts::taken().is_empty(), "L1"));
        later(more());
        drop(busy);
        assert_eq!(count(&done), 1);
    }

    #[test]
    fn a_thread_that_is_waited_for_hands_its_acts_over() {
        let (done, more) = counter();
        let _waits = Busy::begin();
        let one = more();
        let handed = std::thread::spawn(move || {
            let busy = Busy::begin();
            later(one);
            busy.hand_over()
        });
        let acts = handed.join().unwrap();
        assert!(!acts.is_empty() && count(&done) == 0);
        acts.run();
        assert_eq!(count(&done), 0, "this one is busy, too");
        drop(_waits);
        assert_eq!(count(&done), 1);
    }

    #[test]
    fn an_act_put_off_at_the_end_of_a_thread_is_done() {
        struct Last(Option<Act>);
        impl Drop for Last {
            fn drop(&mut self) {
                let busy = Busy::begin();
                later(self.0.take().unwrap());
                drop(busy);
            }
        }
        thread_local! {
            static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        let (done, more) = counter();
        let act = more();
        std::thread::spawn(move || LAST.set(Some(Last(Some(act))))).join().unwrap();
        assert_eq!(count(&done), 1);
    }
}
