//! Whether a recorded history is linearizable: whether there is an order of all its operations, each at one moment between its begin
//! and its end, in which a sequential model gives the same answers. An operation without an end may have happened, or not.
//!
//! By search (Wing and Gong), with a memory of what was seen: which operations are done, and the model's state.

#![allow(dead_code, reason = "each suite uses a part of it")]

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// An operation as it was recorded: what, what it answered if it ended, and when.
#[derive(Clone, Debug)]
pub struct Event<O, A> {
    pub who: usize,
    pub what: O,
    pub answer: Option<A>,
    pub begun: u64,
    pub ended: u64,
}

/// A sequential model: what an operation answers, and what it leaves.
pub trait Model: Clone + Eq + Hash {
    type Op: Debug + Clone;
    type Answer: Debug + Clone + PartialEq;
    /// Does it.
    fn apply(&mut self, op: &Self::Op) -> Self::Answer;
}

/// # Panics
/// If there is no such order.
pub fn assert_linearizable<M: Model>(initial: M, history: &[Event<M::Op, M::Answer>]) {
    assert!(is_linearizable(initial, history), "not linearizable: {history:#?}");
}

pub fn is_linearizable<M: Model>(initial: M, history: &[Event<M::Op, M::Answer>]) -> bool {
    assert!(history.len() <= 64, "at most 64 operations");
    let mut seen = HashSet::new();
    goes(&initial, 0, history, &mut seen)
}

fn goes<M: Model>(state: &M, done: u64, history: &[Event<M::Op, M::Answer>], seen: &mut HashSet<(u64, M)>) -> bool {
    let left = || history.iter().enumerate().filter(|(i, _)| done & 1 << i == 0);
    if left().all(|(_, e)| e.answer.is_none()) {
        return true;
    }
    if !seen.insert((done, state.clone())) {
        return false;
    }
    // The first that ends must not be overtaken by what begins after it.
    let first_end = left().filter(|(_, e)| e.answer.is_some()).map(|(_, e)| e.ended).min().unwrap_or(u64::MAX);
    left().filter(|(_, e)| e.begun <= first_end).any(|(i, e)| {
        let mut next = state.clone();
        let answer = next.apply(&e.what);
        e.answer.as_ref().is_none_or(|a| *a == answer) && goes(&next, done | 1 << i, history, seen)
    })
}
