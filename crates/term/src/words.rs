//! The steps of the protocol on the control words, the loops around them, and nothing else: [`crate::layout`] has the protocol, its invariants (I) and its
//! edges (E). What a loop does beside, as sleeping, reading and starting processes, are traits: [`Desk`], [`House`].
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
    fn gives(self, end: u64) {
        self.giving.store(end + 1, Ordering::Release); // Release: before they are typed.
    }

    /// The holder: has `write` type bytes up to this one. How many it has typed, which may be none.
    ///
    /// # Errors
    /// That of `write`; then none was typed.
    pub fn pass<E>(self, end: u64, write: impl FnOnce() -> Result<u64, E>) -> Result<u64, E> {
        self.gives(end);
        let typed = write();
        self.gave(*typed.as_ref().unwrap_or(&0));
        typed
    }

    /// A writer: has a text of so many bytes typed, by way of a ring of so many. Where in all that was ever typed it begins.
    ///
    /// # Errors
    /// See [`Unsent`].
    pub fn send(self, len: u64, ring: u64, desk: &mut impl Desk) -> Result<u64, Unsent> {
        // A holder that is closing the ring has not said yet which texts are in doubt.
        loop {
            desk.look();
            if !self.is_closing() {
                break;
            }
            if desk.is_gone() {
                return Err(Unsent::Over);
            }
            if !desk.sleep() {
                return Err(Unsent::Late { left: len, kept: 0 });
            }
        }
        let (begin, doubts) = self.open();
        desk.begin(begin);
        let (mut at, end) = (begin, begin + len);
        loop {
            desk.look();
            // First: what was typed before the end counts.
            let is_over = desk.is_gone() || desk.is_over();
            let given = self.typed(doubts).ok_or(Unsent::Doubt)?;
            let to = end.min(at + ring - at.saturating_sub(given));
            if to > at {
                desk.write(at, at - begin, to - begin);
                let is_put = self.add(at, to);
                desk.ring();
                if !is_put {
                    return Err(Unsent::Doubt);
                }
                at = to;
            }
            if given >= end && desk.is_come_to() {
                return Ok(begin);
            }
            if is_over {
                return Err(Unsent::Over);
            }
            if !desk.sleep() {
                // Once more: a holder that was killed meanwhile leaves nothing to be typed, and doubts it.
                let given = self.typed(doubts).ok_or(Unsent::Doubt)?;
                return match end.saturating_sub(given).min(len) {
                    0 if desk.is_come_to() => Ok(begin),
                    0 => Err(Unsent::Doubt),
                    left => Err(Unsent::Late { left, kept: left.saturating_sub(end - at) }),
                };
            }
        }
    }

    /// The holder: so many of them were typed.
    fn gave(self, count: u64) {
        // Relaxed: its own word. E4 release: their place is free.
        self.given.store(self.given.load(Ordering::Relaxed) + count, Ordering::Release);
        self.giving.store(0, Ordering::Release); // Release: after it.
    }

    /// A writer: whether a holder is closing the ring, and has not yet said which texts are in doubt.
    fn is_closing(self) -> bool {
        // Acquire, both: behind a holder that closed it, and behind all that it did then.
        self.put.load(Ordering::Acquire) & CLOSED != 0 && self.giving.load(Ordering::Acquire) != 0
    }

    /// A writer begins a text: where, and how many doubts there were before it.
    fn open(self) -> (u64, u64) {
        // AcqRel: what was in doubt is another text's.
        let begin = self.put.fetch_and(!CLOSED, Ordering::AcqRel) & !CLOSED;
        (begin, self.doubts.load(Ordering::Acquire)) // Acquire: as above.
    }

    /// A writer: how many bytes were typed; none: its text, begun at so many doubts, is in doubt.
    fn typed(self, doubts: u64) -> Option<u64> {
        // First: what was typed before a doubt of another text counts. E4 acquire.
        let given = self.given.load(Ordering::Acquire);
        (self.doubts.load(Ordering::Acquire) == doubts).then_some(given) // Acquire: see `settle`.
    }

    /// A writer: the bytes from one position to another are there. False: the ring was closed, and they are not.
    fn add(self, from: u64, to: u64) -> bool {
        // E4 release. Relaxed where it fails: nothing is read.
        self.put.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// What a writer has beside the words.
pub trait Desk {
    /// Before a look at the words: what changes from now on ends the next sleep.
    fn look(&mut self);
    /// Whether keeper and holder have ended.
    fn is_gone(&self) -> bool;
    /// Whether the program can read nothing any more.
    fn is_over(&self) -> bool;
    /// The text begins at this position of all that was ever typed.
    fn begin(&mut self, position: u64);
    /// Writes a part of the text into the ring, from this position of all that was ever typed on.
    fn write(&mut self, position: u64, from: u64, to: u64);
    /// Says to the holder that there is something to do.
    fn ring(&mut self);
    /// Whether the holder has said what was there when it came to the text.
    fn is_come_to(&self) -> bool;
    /// Sleeps until something has changed since the look; false: the time is up.
    fn sleep(&mut self) -> bool;
}

/// Why a text was not typed.
pub enum Unsent {
    /// There is no one that could type.
    Over,
    /// A holder was killed while it typed: the program has got a beginning of it, or nothing.
    Doubt,
    /// The time was up: so many bytes are left, not 0, and so many of these will be typed.
    Late {
        /// How many are left.
        left: u64,
        /// How many of these are in the ring.
        kept: u64,
    },
}

/// What a round of the holder's reading ended with.
#[derive(PartialEq, Eq, Clone, Copy)]
pub enum Read {
    /// There may be more.
    More,
    /// There is nothing now.
    Empty,
    /// No process has the program's side open.
    Closed,
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

    /// The holder, behind a round of reading: what it is to say by [`End::reach`]; 0: nothing. `is_said`: as it was before that round.
    pub fn level(is_said: bool, read: Read, is_orphan: bool) -> u64 {
        match read {
            Read::Closed if is_said || is_orphan => 2,
            Read::Closed | Read::Empty if is_said => 1,
            _ => 0,
        }
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

/// How a process ended: with this status, or by this signal.
pub type How = Result<u8, i32>;

/// What a keeper has beside the words: its children.
pub trait House {
    /// Starts a holder: its process id; None: the system has no process left.
    fn start(&mut self) -> Option<i32>;
    /// Waits until a child has ended, or, without `patiently`, only looks; None: none has.
    fn wait(&mut self, patiently: bool) -> Option<(i32, How)>;
    /// Before another holder is started: how many were started in vain just before. Sleeps the longer the more.
    fn pause(&mut self, failed: u32);
    /// Whether the last holder was of use: it took something from the program, or lived for long.
    fn was_of_use(&mut self) -> bool;
    /// Of a job whose own `chappe` has ended: its command, if that runs.
    fn heir(&mut self, of: i32) -> Option<i32>;
    /// The program has ended.
    fn ended(&mut self, how: How);
}

/// How many holders count as failed while the system has no process left for one.
const NO_PROCESS: u32 = 10;

/// The keeper's loop: starts a holder whenever there is none, and says how the program ended, until nothing can follow.
pub fn keep(mut program: i32, house: &mut impl House) {
    let mut held = house.start();
    let (mut has_ended, mut is_over, mut failed) = (false, false, 0);
    while !(has_ended && is_over) {
        // It is asked again and again, as without a holder the program waits for ever.
        if held.is_none() {
            house.pause(NO_PROCESS);
            held = house.start();
        }
        let Some((pid, how)) = house.wait(held.is_some()) else {
            if held.is_none() {
                continue;
            }
            // It has no child.
            break;
        };
        // A number can be another process's when its own was waited for.
        if pid == program && !has_ended {
            if let Some(heir) = house.heir(program) {
                program = heir;
                continue;
            }
            house.ended(how);
            has_ended = true;
        } else if Some(pid) == held && !is_over {
            is_over = how == Ok(0);
            if !is_over {
                failed = if house.was_of_use() { 0 } else { failed + 1 };
                // One that cannot even begin, for want of a thread, is not begun again without a pause.
                house.pause(failed);
                held = house.start();
            }
        }
    }
}
