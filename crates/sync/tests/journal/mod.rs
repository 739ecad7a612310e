//! What the processes of a world did, and when: for `history`.

use crate::history::Event;
use chappe_crashsim::{Shared, World};
use std::cell::{Cell, RefCell};

/// The operations of a world, with their begins and ends.
pub struct Journal<O: 'static, A: 'static> {
    clock: Shared<Cell<u64>>,
    history: Shared<RefCell<Vec<Event<O, A>>>>,
}

impl<O, A> Clone for Journal<O, A> {
    fn clone(&self) -> Journal<O, A> {
        *self
    }
}

impl<O, A> Copy for Journal<O, A> {}

impl<O: Clone, A: Clone> Journal<O, A> {
    pub fn new(world: &World) -> Journal<O, A> {
        Journal { clock: world.share(Cell::new(0)), history: world.share(RefCell::default()) }
    }

    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Does it, and notes what it answered.
    pub fn note(&self, me: u16, op: O, act: impl FnOnce() -> A) -> A {
        let begun = self.now();
        let at = self.history.borrow().len();
        let event = Event { who: me.into(), what: op, answer: None, begun, ended: u64::MAX };
        self.history.borrow_mut().push(event);
        let answer = act();
        let mut history = self.history.borrow_mut();
        history[at].ended = self.now();
        history[at].answer = Some(answer.clone());
        answer
    }

    pub fn history(&self) -> Vec<Event<O, A>> {
        self.history.borrow().clone()
    }
}
