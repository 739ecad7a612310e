//! What writes to a terminal's file: bytes to be typed, and another size. One writer at a time.

use crate::layout::{self, TYPED};
use crate::place::Place;
use crate::search::Mark;
use crate::view::{Watch, nanos};
use chappe_plat::atomic::Ordering;
use chappe_plat::{clock, lease, viewed};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Why bytes were not typed, or not all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The time was up. The program does not read what is typed.
    #[error(
        "the program has not read its input: {left} of {all} bytes are not typed; {kept} of them will be when it reads"
    )]
    Unread {
        /// How many bytes are left.
        left: u64,
        /// How many of these are kept for the program; the others are not.
        kept: u64,
        /// How many there were.
        all: u64,
    },
    /// The holder was killed while it typed.
    #[error("the terminal's holder was killed while it typed this: the program has got a beginning of it, or nothing")]
    Doubt,
    /// Another writer types, and its text is not taken yet.
    #[error("another text is being typed, and the program does not read it")]
    Busy,
    /// There is no one that could type.
    #[error("the terminal has ended")]
    Over,
    /// Another user's may only be looked at.
    #[error("it is another user's: only that user and root may use it")]
    NotYours,
    /// The system's.
    #[error("cannot reach the terminal: {0}")]
    Io(#[from] io::Error),
}

/// The right to type. Given back on drop, and by a death; of a process that has forked meanwhile, when the child has ended, too.
///
/// It is a lock of an open file of its own: threads, and processes that have a terminal's handle by a fork, exclude each other.
pub struct Writer<'a> {
    place: &'a Place,
    own: OwnedFd,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        lease::unlock(&self.own, layout::WRITER_BYTE);
    }
}

/// How often the right to type is asked for.
const ASK_AGAIN: Duration = Duration::from_millis(2);

impl Place {
    /// The right to type, once no other has it, at most after `patience`.
    ///
    /// # Errors
    /// `Busy`, `Io`; `NotYours`, also of one that was not found to write.
    pub fn writer(&self, patience: Duration) -> Result<Writer<'_>, TypeError> {
        if !self.is_written() {
            return Err(TypeError::NotYours);
        }
        let until = clock::now().saturating_add(nanos(patience));
        let own = viewed::again(self.file())?;
        loop {
            if lease::try_lock(&own, layout::WRITER_BYTE)? {
                return Ok(Writer { place: self, own });
            }
            if clock::now() >= until {
                return Err(TypeError::Busy);
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

impl Writer<'_> {
    /// Types bytes, all of them in one piece: what others type comes before or behind. Blocks until the program's side of the terminal has
    /// taken them, at most for `patience`. Answers what was there when the first one was typed.
    ///
    /// # Errors
    /// See [`TypeError`].
    pub fn type_bytes(
        &self,
        bytes: &[u8],
        patience: Option<Duration>,
        watch: &mut Watch<'_>,
    ) -> Result<Mark, TypeError> {
        let place = self.place;
        let deadline = patience.map(|patience| clock::now().saturating_add(nanos(patience)));
        let load = |at: usize| place.word(at).load(Ordering::Acquire); // E4 acquire.
        let typing = place.typing();
        // A holder that is closing the ring has not said yet which texts are in doubt.
        loop {
            watch.look();
            if !typing.is_closing() {
                break;
            }
            if watch.is_gone() {
                return Err(TypeError::Over);
            }
            if !watch.sleep(deadline) {
                let all = bytes.len() as u64;
                return Err(TypeError::Unread { left: all, kept: 0, all });
            }
        }
        let (begin, doubts) = typing.open();
        // Relaxed: read behind the number. There is one writer (I6).
        place.word(layout::MARK).store(begin, Ordering::Relaxed);
        let number = place.word(layout::SENDS).fetch_add(1, Ordering::AcqRel) + 1; // AcqRel: the mark comes before.
        place.ring();
        let mut rest = bytes;
        let end = begin + bytes.len() as u64;
        loop {
            watch.look();
            // First: what was typed before the end counts.
            let is_over = watch.is_gone() || load(layout::OVER) == 2;
            let given = typing.typed(doubts).ok_or(TypeError::Doubt)?;
            let at = end - rest.len() as u64;
            let room = TYPED - at.saturating_sub(given) as usize;
            let (now, later) = rest.split_at(rest.len().min(room));
            if !now.is_empty() {
                self.put(at, now)?;
                rest = later;
            }
            if given >= end && load(layout::AT_SEND) == number {
                let place = load(layout::AT_PLACE);
                return Ok(Mark {
                    line: load(layout::AT_LINE),
                    byte: load(layout::AT_BYTE),
                    row: (place >> 32) as u32,
                    column: place as u32,
                    typed: begin,
                    text: load(layout::AT_TEXT),
                });
            }
            if is_over {
                return Err(TypeError::Over);
            }
            if !watch.sleep(deadline) {
                let left = (end - load(layout::GIVEN).min(end)).min(bytes.len() as u64);
                let kept = left - (rest.len() as u64).min(left);
                return Err(TypeError::Unread { left, kept, all: bytes.len() as u64 });
            }
        }
    }

    /// Puts bytes at a position, unless the ring was closed.
    fn put(&self, position: u64, bytes: &[u8]) -> Result<(), TypeError> {
        let from = (position % TYPED as u64) as usize;
        let first = bytes.len().min(TYPED - from);
        let start = self.place.typed_ring().ok_or(TypeError::NotYours)?;
        let ring = |at: usize| start.wrapping_add(at);
        // SAFETY: within the ring; the holder does not read what is not put, and there is one writer (I6).
        unsafe {
            ring(from).copy_from_nonoverlapping(bytes.as_ptr(), first);
            ring(0).copy_from_nonoverlapping(bytes[first..].as_ptr(), bytes.len() - first);
        }
        let end = position + bytes.len() as u64;
        let done = self.place.typing().add(position, end); // E4.
        self.place.ring();
        done.then_some(()).ok_or(TypeError::Doubt)
    }

    /// Asks for another size, and waits for the holder's answer; false: there is no room for it.
    ///
    /// # Errors
    /// `Over`, `Unread` where the holder does not answer, `Io`.
    pub fn resize(
        &self,
        columns: u16,
        rows: u16,
        patience: Option<Duration>,
        watch: &mut Watch<'_>,
    ) -> Result<bool, TypeError> {
        let place = self.place;
        let deadline = patience.map(|patience| clock::now().saturating_add(nanos(patience)));
        let wanted = place.word(layout::WANTED);
        // Relaxed: there is one writer (I6).
        let number = (wanted.load(Ordering::Relaxed) >> 33) + 1;
        wanted.store(number << 33 | u64::from(rows) << 16 | u64::from(columns), Ordering::Release); // E5.
        place.ring();
        loop {
            watch.look();
            let sized = place.word(layout::SIZED).load(Ordering::Acquire); // E5 acquire.
            if sized >> 1 == number {
                return Ok(sized & 1 == 0);
            }
            if watch.is_gone() {
                return Err(TypeError::Over);
            }
            if !watch.sleep(deadline) {
                return Err(TypeError::Unread { left: 0, kept: 0, all: 0 });
            }
        }
    }
}
