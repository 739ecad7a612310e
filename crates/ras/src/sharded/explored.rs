//! The sections of [`super`] as the explorer has them: a step for each access, aborted as the kernel would.

use super::cache::{Cache, GIVE, TAKE};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{rseq, sections};

fn section(mode: &AtomicU32, caches: &[Cache], bit: u32, next: impl Fn(u32) -> Option<u32>) -> bool {
    sections::begin();
    // Acquire: E3.
    let open = mode.load(Ordering::Acquire) & bit != 0;
    let cache = rseq::cpu().and_then(|cpu| caches.get(cpu as usize)).filter(|_| open);
    // Relaxed: behind the mode, and of one processor.
    let change = cache.and_then(|cache| Some((&cache.0, next(cache.0.load(Ordering::Relaxed))?)));
    match change {
        Some((word, value)) => sections::commit(word, value),
        None => {
            sections::end();
            false
        }
    }
}

/// Takes one from this processor's cache.
pub(super) fn take(mode: &AtomicU32, caches: &[Cache]) -> bool {
    section(mode, caches, TAKE, |n| n.checked_sub(1))
}

/// Gives one to this processor's cache.
pub(super) fn give(mode: &AtomicU32, caches: &[Cache], room: u32) -> bool {
    section(mode, caches, GIVE, |n| (n < room).then_some(n + 1))
}
