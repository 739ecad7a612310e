//! How many waits and guards of tasks use a handle, which is not closed while there are some.

use crate::failure::{Answer, Failure};
use chappe::raw::incarnation;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many waits and guards of this process use a handle. In a forked child there are none.
///
/// | bits | |
/// |---|---|
/// | 32-63 | the process: the low half of its incarnation |
/// | 0-31 | how many |
#[derive(Default)]
pub struct Uses(AtomicU64);

/// The part of the word that says how many.
const COUNT: u64 = 0xffff_ffff;

fn here() -> u64 {
    incarnation() << 32
}

impl Uses {
    /// Refuses to close the handle while there are some.
    pub fn end(&self) -> Answer<()> {
        // Acquire: what the last one did with the handle; pairs with its drop.
        let word = self.0.load(Ordering::Acquire);
        if word & !COUNT != here() || word & COUNT == 0 {
            return Ok(());
        }
        let text =
            c"a wait or a guard of this process uses the lock's handle: cancel it, or unlock it, before this is closed";
        Err(Failure::new(libc::EBUSY, text))
    }

    /// One more.
    pub fn add(&'static self) -> Use {
        let one_more = |word: u64| Some(if word & !COUNT == here() { word + 1 } else { here() | 1 });
        // Relaxed: the caller's use of the handle is before and after it; only an end is waited for.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        Use(self)
    }
}

/// One of them.
pub struct Use(&'static Uses);

impl Drop for Use {
    fn drop(&mut self) {
        let one_less = |word: u64| (word & !COUNT == here() && word & COUNT != 0).then(|| word - 1);
        // Release: what was done with the handle; pairs with `end`. Relaxed: nothing is read by it.
        let _ = self.0.0.fetch_update(Ordering::Release, Ordering::Relaxed, one_less);
    }
}
