//! What a viewer of a terminal may read while its holder writes, with all stale reads: a state that was, and lines of the history that were.

#[allow(dead_code, reason = "the ring of typed bytes is explored with kills, in chappe-sync")]
#[path = "../../term/src/words.rs"]
mod words;

use chappe_plat::atomic::{AtomicU64, Ordering::Relaxed};
use chappe_plat::explore::{TWO_THREADS, search, together};
use std::collections::BTreeSet;
use words::{Floor, Versions};

/// How many states the holder writes.
const STATES: u64 = 3;
/// How many lines it puts into the history, which has room for two.
const LINES: u64 = 4;

#[derive(Clone, Copy)]
struct Scene {
    begun: &'static AtomicU64,
    done: &'static AtomicU64,
    floor: &'static AtomicU64,
    /// Two states of two words each; or the history.
    words: [&'static AtomicU64; 4],
}

impl Scene {
    fn versions(&self) -> Versions<'static> {
        Versions { begun: self.begun, done: self.done }
    }
}

fn scene() -> Scene {
    let word = || &*Box::leak(Box::new(AtomicU64::new(0)));
    Scene { begun: word(), done: word(), floor: word(), words: [word(), word(), word(), word()] }
}

/// A viewer read nothing whole: it would read again.
const OVERTAKEN: u64 = 100;

fn writes_states(scene: Scene) -> u64 {
    for version in 1..=STATES {
        scene.versions().begin(version);
        for half in 0..2 {
            // Relaxed: E2 and E1 order it.
            scene.words[(version as usize & 1) * 2 + half].store(version, Relaxed);
        }
        scene.versions().end(version);
    }
    0
}

fn reads_a_state(scene: Scene) -> u64 {
    let version = scene.versions().last();
    if version == 0 {
        return 0;
    }
    // Relaxed: E2.
    let read = [0, 1].map(|half| scene.words[(version as usize & 1) * 2 + half].load(Relaxed));
    if !scene.versions().stood(version) {
        return OVERTAKEN;
    }
    assert_eq!(read, [version; 2], "a state that never was");
    version
}

#[test]
fn a_viewer_reads_a_state_that_was_or_knows_that_it_was_overtaken() {
    let (reached, _) = search(TWO_THREADS, 3, scene, |scene| together(scene, [writes_states, reads_a_state]));
    let read: BTreeSet<u64> = reached.into_iter().map(|[_, read]| read).collect();
    assert_eq!(read, BTreeSet::from([0, 1, 2, 3, OVERTAKEN]));
}

fn writes_lines(scene: Scene) -> u64 {
    for line in 0..LINES {
        Floor(scene.floor).raise(line.saturating_sub(1));
        scene.words[line as usize % 2].store(line + 1, Relaxed); // Relaxed: E3, and E1 behind it.
        scene.versions().end(line + 1);
    }
    0
}

fn reads_the_line_before_the_last(scene: Scene) -> u64 {
    let Some(line) = scene.versions().last().checked_sub(2) else { return 0 };
    let read = scene.words[line as usize % 2].load(Relaxed); // Relaxed: E3.
    if !Floor(scene.floor).stood(line) {
        return OVERTAKEN;
    }
    assert_eq!(read, line + 1, "another line");
    read
}

#[test]
fn a_viewer_reads_a_line_that_was_or_knows_that_it_is_overwritten() {
    let (reached, _) =
        search(TWO_THREADS, 3, scene, |scene| together(scene, [writes_lines, reads_the_line_before_the_last]));
    let read: BTreeSet<u64> = reached.into_iter().map(|[_, read]| read).collect();
    assert_eq!(read, BTreeSet::from([0, 1, 2, 3, OVERTAKEN]));
}
