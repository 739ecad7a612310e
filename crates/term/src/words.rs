//! The steps of the protocol on the control words, and nothing else: [`crate::layout`] has the protocol, its invariants (I) and its edges (E).
//!
//! They stand apart so that they are searched as they are: with kills at each step by the explorer (`crates/sync/tests/crash_term.rs`), with all stale
//! reads by loom (`crates/plat/tests/loom_term.rs`). Both programs take this file, and nothing else of this crate.

use chappe_plat::atomic::{AtomicU64, Ordering, fence};

/// In `put`: a holder was killed while it typed, and nothing more is to be put of the text that was being put.
pub const CLOSED: u64 = 1 << 63;

/// The versions of the state: I1, E1, E2.
#[derive(Clone, Copy)]
pub struct Versions<'a> {
    /// The one that is being written.
    pub begun: &'a AtomicU64,
    /// The last one that is whole.
    pub done: &'a AtomicU64,
}

impl Versions<'_> {
    /// The last one that is whole; 0: there is none.
    pub fn last(self) -> u64 {
        self.done.load(Ordering::Acquire) // E1 acquire: the words are written.
    }

    /// The holder: the words of this one are written from here on.
    pub fn begin(self, version: u64) {
        self.begun.store(version, Ordering::Relaxed); // Relaxed: E2, the fence orders it before the state's words.
        fence(Ordering::Release); // E2.
    }

    /// The holder: it is whole.
    pub fn end(self, version: u64) {
        self.done.store(version, Ordering::Release); // E1 release: the words come before.
    }

    /// A viewer, behind its reading of this one: whether none of what it has read is of a later one.
    pub fn stood(self, version: u64) -> bool {
        fence(Ordering::Acquire); // E2.
        self.begun.load(Ordering::Relaxed) < version + 2 // Relaxed: E2, the fence orders it behind the words.
    }
}

/// Positions of the history below this one are overwritten: I5, E3.
#[derive(Clone, Copy)]
pub struct Floor<'a>(pub &'a AtomicU64);

impl Floor<'_> {
    /// The holder: what lies below this position is overwritten from here on. It never goes back (I5).
    pub fn raise(self, first: u64) {
        // Relaxed, both: only holders write it; E3, the fence orders it before the history's words.
        self.0.store(first.max(self.0.load(Ordering::Relaxed)), Ordering::Relaxed);
        fence(Ordering::Release); // E3.
    }

    /// A viewer, behind its reading from this position on: whether that was not overwritten before.
    pub fn stood(self, position: u64) -> bool {
        fence(Ordering::Acquire); // E3.
        self.0.load(Ordering::Relaxed) <= position // Relaxed: E3, behind the fence.
    }
}

/// The ring of typed bytes: E4, and the deaths of a holder that types.
#[derive(Clone, Copy)]
pub struct Typing<'a> {
    /// How many bytes were put, and [`CLOSED`].
    pub put: &'a AtomicU64,
    /// How many of them were typed.
    pub given: &'a AtomicU64,
    /// What `given` is to be, plus 1, while bytes are being typed; else 0.
    pub giving: &'a AtomicU64,
    /// How often a holder was killed while it typed.
    pub doubts: &'a AtomicU64,
}

impl Typing<'_> {
    /// A new holder: a dead one's bytes that it was just typing are not typed again, nor what was put behind them.
    pub fn settle(self) {
        // Relaxed: only holders write them, and the others are dead.
        let (had, intent) = (self.given.load(Ordering::Relaxed), self.giving.load(Ordering::Relaxed));
        if intent > had + 1 {
            // AcqRel: from here on no writer can put more of this text; what it had put before is seen.
            let put = self.put.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
            // Release: the writer that waits for them sees that they are in doubt.
            self.doubts.fetch_add(1, Ordering::Release);
            self.given.store(put.max(intent - 1), Ordering::Release); // E4 release.
        }
        self.giving.store(0, Ordering::Release); // Release: a writer that has seen CLOSED goes on behind all of this.
    }

    /// The holder: how many bytes were typed, and how many were put.
    pub fn ready(self) -> (u64, u64) {
        let given = self.given.load(Ordering::Relaxed); // Relaxed: its own word.
        (given, self.put.load(Ordering::Acquire) & !CLOSED) // E4 acquire: the bytes are there.
    }

    /// The holder: bytes up to this one are typed from here on.
    pub fn gives(self, end: u64) {
        self.giving.store(end + 1, Ordering::Release); // Release: before they are typed.
    }

    /// The holder: so many of them were typed.
    pub fn gave(self, count: u64) {
        // Relaxed: its own word. E4 release: their place is free.
        self.given.store(self.given.load(Ordering::Relaxed) + count, Ordering::Release);
        self.giving.store(0, Ordering::Release); // Release: after it.
    }

    /// A writer: whether a holder is closing the ring, and has not yet said which texts are in doubt.
    pub fn is_closing(self) -> bool {
        // Acquire, both: behind a holder that closed it, and behind all that it did then.
        self.put.load(Ordering::Acquire) & CLOSED != 0 && self.giving.load(Ordering::Acquire) != 0
    }

    /// A writer begins a text: where, and how many doubts there were before it.
    pub fn open(self) -> (u64, u64) {
        // AcqRel: what was in doubt is another text's.
        let begin = self.put.fetch_and(!CLOSED, Ordering::AcqRel) & !CLOSED;
        (begin, self.doubts.load(Ordering::Acquire)) // Acquire: as above.
    }

    /// A writer: how many bytes were typed; none: its text, begun at so many doubts, is in doubt.
    pub fn typed(self, doubts: u64) -> Option<u64> {
        // First: what was typed before a doubt of another text counts. E4 acquire.
        let given = self.given.load(Ordering::Acquire);
        (self.doubts.load(Ordering::Acquire) == doubts).then_some(given) // Acquire: see `settle`.
    }

    /// A writer: the bytes from one position to another are there. False: the ring was closed, and they are not.
    pub fn add(self, from: u64, to: u64) -> bool {
        // E4 release. Relaxed where it fails: nothing is read.
        self.put.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// How the program ended, and how much of what it wrote is on the screen: E5.
#[derive(Clone, Copy)]
pub struct End<'a> {
    /// How; 0: it runs, or is not known.
    pub status: &'a AtomicU64,
    /// When.
    pub time: &'a AtomicU64,
    /// 1: all that it wrote until it ended; 2: nothing can follow.
    pub over: &'a AtomicU64,
}

impl End<'_> {
    /// The keeper: so it ended.
    pub fn say(self, how: u64, time: u64) {
        self.time.store(time, Ordering::Relaxed); // Relaxed: read behind the status.
        self.status.store(how, Ordering::Release); // E5 release.
    }

    /// The holder, before a reading: whether what that finds is all that the program wrote until it ended.
    pub fn is_said(self) -> bool {
        self.status.load(Ordering::Acquire) != 0 // E5 acquire.
    }

    /// The holder: all that counts is on the screen. Whether that is new.
    pub fn reach(self, level: u64) -> bool {
        // Relaxed: its own word.
        let is_new = self.over.load(Ordering::Relaxed) < level;
        if is_new {
            self.over.store(level, Ordering::Release); // E5 release: the screen comes before.
        }
        is_new
    }

    /// A viewer: how and when it ended; how is 0: that is not known. None: it runs. `is_alive`: whether keeper or holder lives.
    pub fn seen<E>(self, is_alive: impl FnOnce() -> Result<bool, E>) -> Result<Option<(u64, u64)>, E> {
        let status = || self.status.load(Ordering::Acquire); // E5 acquire.
        let mut now = status();
        if now == 0 {
            // A holder says that it is over only when the keeper has said how, or is dead. E5 acquire.
            if self.over.load(Ordering::Acquire) < 2 && is_alive()? {
                return Ok(None);
            }
            // It may have been written just before the last process ended.
            now = status();
        }
        Ok(Some((now, self.time.load(Ordering::Relaxed)))) // Relaxed: written before the status.
    }

    /// A viewer: whether all that the program wrote until it ended is on the screen.
    pub fn is_complete<E>(self, is_alive: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        Ok(self.over.load(Ordering::Acquire) > 0 || !is_alive()?) // E5 acquire.
    }
}
