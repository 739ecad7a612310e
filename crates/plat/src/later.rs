//! What a thread puts off until it has let go of chappe's locks: a call of somebody else's function, which may come to the same locks.

use std::cell::{Cell, RefCell};

type Act = Box<dyn FnOnce()>;

thread_local! {
    /// How many [`Busy`] there are. A light thread stays on its kernel thread while it has one: it waits for nothing then.
    static BUSY: Cell<u32> = const { Cell::new(0) };
    static LATER: RefCell<Vec<Act>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread has one of chappe's locks, or is in the middle of what it keeps for itself. To be dropped after that: then the thread does
/// what it has put off.
pub struct Busy(());

impl Busy {
    /// From here on.
    pub fn begin() -> Busy {
        BUSY.set(BUSY.get() + 1);
        Busy(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(BUSY.get() - 1);
        while BUSY.get() == 0
            && let Ok(Some(act)) = LATER.try_with(|later| later.borrow_mut().pop())
        {
            act();
        }
    }
}

/// Does it now, or, if the thread is busy, as soon as it no longer is. At the end of a thread, which can put off nothing any more, now.
pub fn later(act: impl FnOnce() + 'static) {
    let mut act = Some(Box::new(act) as Act);
    if BUSY.get() > 0 {
        let _ = LATER.try_with(|later| later.borrow_mut().extend(act.take()));
    }
    if let Some(act) = act {
        act();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn an_act_that_is_put_off_follows_the_last_release() {
        let done = Rc::new(Cell::new(0));
        let more = || {
            let done = done.clone();
            move || done.set(done.get() + 1)
        };
        later(more());
        assert_eq!(done.get(), 1, "nothing is locked");
        let outer = Busy::begin();
        drop(Busy::begin());
        later(more());
        assert_eq!(done.get(), 1);
        let (again, next) = (more(), more());
        later(move || {
            drop(Busy::begin());
            later(next);
            again();
        });
        drop(outer);
        assert_eq!(done.get(), 4);
    }
}
