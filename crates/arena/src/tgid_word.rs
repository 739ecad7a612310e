//! Tgid words: the words by which the exec of a thread is detected. They are kept in front of the thread's life words in its robust list.
//!
//! The kernel walks a thread's words one after the other, the last claimed first, and reads the link to the next word before it marks a
//! word. So a thread that sees a mark may claim the word at once, although the claim overwrites the link. An exec by a thread that does not
//! lead its process is different: only tgid words are marked. A thread that sees this marks the life word itself, and the life word may be
//! claimed long before the kernel comes to it. There the kernel would follow a link of another list.
//!
//! - T1: of all that a thread owns, tgid words come first. So the kernel has passed every tgid word, in every arena, before it comes to a word that
//!   may be another thread's by then. It marks nothing from there on: life words name threads, and those of the leader, whose id the caller
//!   of exec has taken over, were marked when the leader ended.
//! - T2: a marked tgid word says that its owner called exec only if the owner was not just moving it (`moving`). Meanwhile the tgid word names the
//!   thread, or nobody, and any death would mark it. That is no exec, and the life word is marked as well.
//!
//! A claimed word comes to the front of the list. So a thread that joins one more arena claims the tgid words that it has in others once more.
//! Such a tgid word is free for a moment, and a reaper that looks just then does not watch it: hence the ring of the roster afterwards.

use crate::gate;
use crate::layout::Member;
use crate::map::Map;
use chappe_plat::atomic::Ordering;
use chappe_plat::life::Claim;
use chappe_plat::{Life, process};
use std::cell::RefCell;

thread_local! {
    /// This thread's tgid words: arena and slot. A forked child has a copy, and owns none of them.
    static OWN: RefCell<Vec<(&'static Map, u32)>> = const { RefCell::new(Vec::new()) };
}

/// The thread has just claimed the tgid word of this slot.
pub fn claimed(map: &'static Map, slot: u32) {
    map.member(slot).tgid_word.name_process();
    // The explorer's threads run in many worlds, and its kernel marks all words at once.
    if cfg!(feature = "sim") {
        return;
    }
    // A thread that is ending has no list any more, and will not call exec; nor will a thread that was interrupted here.
    let _ = OWN.try_with(|own| {
        if let Ok(mut own) = own.try_borrow_mut() {
            own.retain(|(map, slot)| put_in_front(map, *slot));
            own.push((map, slot));
        }
    });
}

/// Claims a tgid word of this thread once more. False: the tgid word is not this process's.
fn put_in_front(map: &Map, slot: u32) -> bool {
    let m = map.member(slot);
    let tgid_word = &m.tgid_word;
    if tgid_word.probe() != Life::Alive(process::pid()) {
        return false;
    }
    let Ok(gates) = map.gates() else { return true };
    // In the gate: if this thread dies now, the kernel comes to the tgid word, which is pending, after the life word. The slot's next occupant
    // may not have claimed it by then. A thread that cannot pass leaves the tgid word where it is.
    let Some(_pass) = gates.try_pass(gate::slot(slot)) else { return true };
    // SeqCst, here and below: T2, before the tgid word has another name, and after it.
    m.moving.store(1, Ordering::SeqCst);
    tgid_word.release_as_process();
    // No other thread claims the tgid word of a slot whose life word this thread owns.
    let ours = tgid_word.try_claim() != Claim::Busy;
    if ours {
        tgid_word.name_process();
    }
    m.moving.store(0, Ordering::SeqCst); // SeqCst: as above.
    map.ring_roster(slot);
    ours
}

/// T2: whether the tgid word of this slot says that its owner has called exec.
pub fn says_exec(m: &Member) -> bool {
    // Acquire: after the tgid word. What the owner stored before it died is visible when its words are marked.
    m.tgid_word.probe() == Life::Dead && m.moving.load(Ordering::Acquire) == 0
}

/// Gives up the tgid word of this slot.
pub fn release(map: &'static Map, slot: u32) {
    let _ = OWN.try_with(|own| {
        if let Ok(mut own) = own.try_borrow_mut() {
            own.retain(|(m, s)| !(std::ptr::eq(*m, map) && *s == slot));
        }
    });
    map.member(slot).tgid_word.release_as_process();
}
