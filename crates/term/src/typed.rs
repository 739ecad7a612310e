//! What writes to a terminal's file: bytes to be typed, and another size. One writer at a time.

use crate::layout::{self, TYPED};
use crate::place::Place;
use crate::search::Mark;
use crate::view::{Watch, nanos};
use crate::words::{Desk, Unsent};
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

/// A text on its way into the ring.
struct Text<'a, 'b> {
    place: &'a Place,
    ring: *mut u8,
    bytes: &'a [u8],
    watch: &'a mut Watch<'b>,
    deadline: Option<u64>,
    /// Which text it is of all, once it has begun.
    number: u64,
}

impl Desk for Text<'_, '_> {
    fn look(&mut self) {
        self.watch.look();
    }

    fn is_gone(&self) -> bool {
        self.watch.is_gone()
    }

    fn is_over(&self) -> bool {
        self.place.word(layout::OVER).load(Ordering::Acquire) == 2 // E5 acquire.
    }

    fn begin(&mut self, position: u64) {
        // Relaxed: read behind the number. There is one writer (I6).
        self.place.word(layout::MARK).store(position, Ordering::Relaxed);
        self.number = self.place.word(layout::SENDS).fetch_add(1, Ordering::AcqRel) + 1; // AcqRel: the mark comes before.
        self.place.ring();
    }

    fn write(&mut self, position: u64, from: u64, to: u64) {
        let bytes = &self.bytes[from as usize..to as usize];
        let at = (position % TYPED as u64) as usize;
        let first = bytes.len().min(TYPED - at);
        // SAFETY: within the ring; the holder does not read what is not put, and there is one writer (I6).
        unsafe {
            self.ring.wrapping_add(at).copy_from_nonoverlapping(bytes.as_ptr(), first);
            self.ring.copy_from_nonoverlapping(bytes[first..].as_ptr(), bytes.len() - first);
        }
    }

    fn ring(&mut self) {
        self.place.ring();
    }

    fn is_come_to(&self) -> bool {
        self.place.word(layout::AT_SEND).load(Ordering::Acquire) == self.number // Acquire: the place comes before.
    }

    fn sleep(&mut self) -> bool {
        self.watch.sleep(self.deadline)
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
        let Some(file) = self.own_file().filter(|_| self.is_written()) else { return Err(TypeError::NotYours) };
        let until = clock::now().saturating_add(nanos(patience));
        let own = viewed::again(file)?;
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
        let ring = place.typed_ring().ok_or(TypeError::NotYours)?;
        let deadline = patience.map(|patience| clock::now().saturating_add(nanos(patience)));
        let all = bytes.len() as u64;
        let mut text = Text { place, ring, bytes, watch, deadline, number: 0 };
        let begin = place.typing().send(all, TYPED as u64, &mut text).map_err(|why| match why {
            Unsent::Over => TypeError::Over,
            Unsent::Doubt => TypeError::Doubt,
            Unsent::Late { left, kept } => TypeError::Unread { left, kept, all },
        })?;
        let load = |at: usize| place.word(at).load(Ordering::Acquire); // Acquire: as in `is_come_to`.
        let at = load(layout::AT_PLACE);
        Ok(Mark {
            line: load(layout::AT_LINE),
            byte: load(layout::AT_BYTE),
            row: (at >> 32) as u32,
            column: at as u32,
            typed: begin,
            text: load(layout::AT_TEXT),
        })
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

#[cfg(test)]
mod tests {
    use crate::words::{Desk, Typing, Unsent};
    use chappe_plat::atomic::{AtomicU64, Ordering};

    /// Its time is up at the first sleep, in which something happens.
    struct Once<F> {
        happens: F,
        come_to: bool,
    }

    impl<F: FnMut()> Desk for Once<F> {
        fn look(&mut self) {}
        fn is_gone(&self) -> bool {
            false
        }
        fn is_over(&self) -> bool {
            false
        }
        fn begin(&mut self, _: u64) {}
        fn write(&mut self, _: u64, _: u64, _: u64) {}
        fn ring(&mut self) {}
        fn is_come_to(&self) -> bool {
            self.come_to
        }
        fn sleep(&mut self) -> bool {
            (self.happens)();
            false
        }
    }

    #[test]
    fn a_text_that_is_typed_or_doubted_while_its_time_runs_out_is_told_so() {
        let sent = |len, come_to, happens: &dyn Fn(Typing<'_>)| {
            let [put, given, giving, doubts] = &[0; 4].map(AtomicU64::new);
            let typing = Typing { put, given, giving, doubts };
            typing.send(len, 8, &mut Once { happens: || happens(typing), come_to })
        };
        let gives = |count: u64| move |t: Typing<'_>| assert_eq!(t.pass(count, || Ok::<_, ()>(count)), Ok(count));
        // Eight have room in the ring.
        assert!(matches!(sent(10, true, &|_| ()), Err(Unsent::Late { left: 10, kept: 8 })));
        assert!(matches!(sent(10, true, &gives(3)), Err(Unsent::Late { left: 7, kept: 5 })));
        // The holder is killed in the middle of its typing, and the next one settles that.
        let dies = |t: Typing<'_>| {
            t.giving.store(9, Ordering::Release); // Release: as in `gives`.
            t.settle();
        };
        assert!(matches!(sent(10, true, &dies), Err(Unsent::Doubt)));
        // All of a text that has room goes.
        assert!(matches!(sent(5, true, &gives(5)), Ok(0)));
        assert!(matches!(sent(5, false, &gives(5)), Err(Unsent::Doubt)));
    }
}
