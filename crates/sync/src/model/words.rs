//! The protocols' state words as an onlooker reads them: as text, for the explorer's stories, and whether a member waits.

use crate::semaphore_word::Units;
use chappe_arena::Map;
use chappe_plat::atomic::Ordering;
use chappe_wait::cell::Word;
use chappe_wait::owner;
use chappe_wait::wait::State;

/// A cell's value as text, for stories.
pub fn cell_in_words(value: u64) -> String {
    format!("{:?}", Word(value))
}

/// A wait word's value as text, for stories.
pub fn state_in_words(value: u64) -> String {
    let state = State(value);
    match state.grant() {
        Some(g) if g.dead => format!("granted an error in wait {}", state.wait()),
        Some(g) if g.is_retry() => format!("told to try object {} again in wait {}", g.object, state.wait()),
        Some(g) if g.returned => {
            format!("granted {} of object {}, gone back, wait {}", g.permit, g.object, state.wait())
        }
        Some(g) => format!("granted permit {} of object {} in wait {}", g.permit, g.object, state.wait()),
        None if state.is_idle() => format!("idle after wait {}", state.wait()),
        None => format!("waiting, wait {}", state.wait()),
    }
}

/// Whether a member waits, or was told something that it has not seen.
pub fn is_waiting(map: &Map, member: u32) -> bool {
    // SeqCst: an onlooker.
    !State(map.member(member).state.load(Ordering::SeqCst)).is_idle()
}

/// A semaphore's word as text, for stories.
pub fn units_in_words(value: u64) -> String {
    format!("{:?}", Units(value))
}

/// A mutex's word as text, for stories.
pub fn lock_in_words(value: u64) -> String {
    owner::in_words(value)
}
