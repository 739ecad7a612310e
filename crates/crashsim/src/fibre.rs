//! Fibres: one stack a virtual thread, all on one thread of the system.
//!
//! A killed fibre is discarded where it stands: nothing is unwound and no destructor runs, as when a process
//! gets SIGKILL. What it had allocated leaks, its stack is used again.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::cell::{Cell, RefCell};

const STACK: usize = 256 * 1024;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
}

/// A body of code that can be left and entered again.
pub(crate) struct Fibre(Coroutine<(), (), (), DefaultStack>);

impl Fibre {
    /// A fibre that will run `body` when it is first resumed.
    pub fn new(body: Box<dyn FnOnce()>) -> Fibre {
        let stack = STACKS
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| DefaultStack::new(STACK).expect("address space for a fibre's stack"));
        Fibre(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            body();
        }))
    }

    /// Runs it until it suspends itself or ends. Answers whether it has ended.
    pub fn resume(&mut self) -> bool {
        self.0.resume(()).as_return().is_some()
    }

    /// Drops it where it stands, keeping the stack for the next.
    pub fn discard(mut self) {
        if !self.0.started() {
            // Only the body as it was given is dropped: none of it has run.
            self.0.force_unwind();
        } else if !self.0.done() {
            // SAFETY: the frames on the stack are never resumed nor looked at again; that their destructors do
            // not run is the point. Nothing outside holds a reference into them but the engine's queues, which
            // forget the thread when it dies and are cleared before the next schedule.
            unsafe { self.0.force_reset() };
        }
        STACKS.with_borrow_mut(|s| s.push(self.0.into_stack()));
    }
}

/// Leaves the running fibre; returns when it is resumed.
pub(crate) fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "suspend outside a fibre");
    // SAFETY: set by the fibre that is running, on whose stack the yielder lies; it is running now.
    unsafe { (*yielder).suspend(()) };
    YIELDER.set(yielder);
}
