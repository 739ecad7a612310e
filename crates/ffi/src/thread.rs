//! Which thread it is: permits and locks belong to the one that took them, and C hands them on without a word.

use std::cell::Cell;

thread_local! {
    static HERE: Cell<u8> = const { Cell::new(0) };
}

/// The calling thread, among those that live; never 0. A thread that began later may have the number of one that has ended, whose
/// permits and locks are nobody's by then; a forked child's has that of the thread that forked.
#[inline(always)]
pub fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}
