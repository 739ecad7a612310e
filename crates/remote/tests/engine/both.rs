//! A mutual exclusion and a semaphore as their users see them: what is done with them, what that answers, and a sequential model of it.

#![allow(dead_code, reason = "each suite uses a part of it")]

pub use history::{Event, assert_linearizable, is_linearizable};

#[path = "../../../sync/tests/history/mod.rs"]
mod history;

/// A pool of one permit, and a semaphore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Both {
    holder: Option<usize>,
    value: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Act {
    Take(usize),
    Give(usize),
    Up(u32),
    Down,
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    Done,
    WouldBlock,
    Value(u32),
}

impl history::Model for Both {
    type Op = Act;
    type Answer = Answer;

    fn apply(&mut self, act: &Act) -> Answer {
        match act {
            Act::Take(_) if self.holder.is_some() => Answer::WouldBlock,
            Act::Take(by) => {
                self.holder = Some(*by);
                Answer::Done
            }
            Act::Give(by) if self.holder == Some(*by) => {
                self.holder = None;
                Answer::Done
            }
            Act::Give(_) => Answer::WouldBlock,
            Act::Up(n) => {
                self.value += n;
                Answer::Value(self.value)
            }
            Act::Down if self.value == 0 => Answer::WouldBlock,
            Act::Down => {
                self.value -= 1;
                Answer::Done
            }
            Act::Value => Answer::Value(self.value),
        }
    }
}
