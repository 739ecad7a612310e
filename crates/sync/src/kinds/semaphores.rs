//! In the table of kinds: semaphores. The count of an owned semaphore is shown with the other part, which is a pool.

use crate::semaphore_word;
use chappe_arena::layout::Head;
use chappe_arena::{Map, Place, Protocol, Visitor};
use chappe_wait::wait::State;

pub(super) struct Semaphores;

impl Protocol for Semaphores {
    fn drain(&self, map: &Map, object: u32, head: Head) {
        semaphore_word::drain(map, object, head);
    }

    fn before(&self, map: &Map, object: u32) {
        semaphore_word::before(map, object);
    }

    fn announce(&self, map: &Map, object: u32) {
        semaphore_word::mark(map, object);
    }

    fn left(&self, map: &Map, object: u32, member: u32) {
        semaphore_word::left(map, object, member);
    }

    fn take_back(&self, map: &Map, object: u32, member: u32, word: u64, whose: Option<u32>) {
        semaphore_word::take_back(map, object, member, State(word), whose);
    }

    fn notify_dead(&self, map: &Map, at: Place, me: &mut Visitor<'_>) {
        if let Some(_visit) = me.visit(at) {
            semaphore_word::settle(map, at.index);
        }
    }
}
