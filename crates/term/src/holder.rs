//! The holder's side of a terminal's file: bytes of the program come in, states and history go out. [`crate::layout`] has the protocol.

use crate::feed::{At, Emulator};
use crate::layout::{self, READ, TAKEN_BYTES, TYPED, UNSAVED};
use crate::line;
use crate::place::{Place, words_of};
use crate::screen::{Screen, Scrolled, fit};
use crate::store::{self, Beside, Kept};
use crate::words::End;
pub use crate::words::Read;
use chappe_plat::atomic::{Ordering, low_half};
use chappe_plat::futex::{self, Scope};
use chappe_plat::poll::Event;
use chappe_plat::{clock, thread};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How many words a record of the history has beside its text: length and flags, line, when it was last changed, and its size once more behind it.
pub(crate) const FRAME: u64 = 4;
/// A state of so many bytes of cells takes longer to copy than a flood takes to fill the ring of taken bytes.
const LARGE: u64 = 256 << 10;

/// So many bytes of rows that have left the screen are put into the history together, and those of one more sequence.
const MOST_SCROLLED: usize = 1 << 20;

/// More than the kernel keeps between the program and the holder: pty(7)'s limit of 8 KiB counts buffers by half of what they hold, small ones that
/// were used before come on top, and the line discipline has 4 KiB; that is 41 KiB at most.
pub const PIPELINE: u64 = 48 << 10;

/// In the first word of a record: the line goes on in the next one.
pub(crate) const WRAPS: u64 = 1 << 63;

/// How many bytes behind the counted ones a dead holder had read: up to the last that is not zero (I3).
pub(crate) fn found(place: &Place, counted: u64) -> u64 {
    let byte = |at: u64| {
        let at = (counted + at) % TAKEN_BYTES as u64;
        // SAFETY: within the ring; the holder that wrote there is dead.
        unsafe { *place.bytes_at(layout::TAKEN_AT * 8 + at as usize) }
    };
    (0..READ as u64).rev().find(|at| byte(*at) != 0).map_or(0, |last| last + 1)
}

/// What holds a terminal.
pub struct Holder<'a> {
    place: &'a Place,
    emulator: Emulator,
    beside: Beside,
    /// How many bytes the last whole state comes from.
    saved: u64,
    version: u64,
    kept: [Kept; 2],
    /// The last text that is to be typed, and how much had been parsed when it was seen.
    coming: (u64, u64),
    /// When the last state was written.
    saved_at: u64,
}

impl<'a> Holder<'a> {
    /// Takes over where the last holder was killed, or begins with an empty screen of this size.
    pub fn begin(place: &'a Place, columns: usize, rows: usize) -> Holder<'a> {
        // Acquire: all holders before are dead, and what they have written is there.
        let load = |at: usize| place.word(at).load(Ordering::Acquire);
        let version = load(layout::DONE);
        let known = if version == 0 { None } else { store::load(&place.copy(version)) };
        // After a state that makes no sense: an empty screen, and no history, from what comes next on.
        let after_harm = Beside {
            parsed: load(layout::TAKEN),
            first: load(layout::FLOOR) + place.history() as u64,
            end: load(layout::FLOOR) + place.history() as u64,
            ..Beside::default()
        };
        let beside = if version == 0 { Beside::default() } else { after_harm };
        let empty = || Emulator::of(Screen::new(columns, rows), At::Text, Vec::new(), beside.parsed);
        let (emulator, beside) = known.unwrap_or_else(|| (empty(), beside));
        let saved = beside.parsed;
        let mut it =
            Holder { place, emulator, beside, saved, version, kept: Default::default(), coming: (0, 0), saved_at: 0 };
        // What was overwritten already is no history, and cannot be read: I5 says where the rest begins.
        let floor = load(layout::FLOOR).clamp(it.beside.first, it.beside.end);
        if floor > it.beside.first {
            it.beside.first = floor;
            // Relaxed: no other process writes.
            it.beside.first_line = place.past(floor + 1).load(Ordering::Relaxed);
        }
        place.typing().settle();
        place.tell();
        it.take_over();
        it.save();
        it
    }

    /// Counts what a dead holder had read and not counted, and parses what no whole state comes from.
    fn take_over(&mut self) {
        let taken = self.place.word(layout::TAKEN);
        // Relaxed: only holders write it, and the others are dead.
        let counted = taken.load(Ordering::Relaxed);
        // I3.
        let found = found(self.place, counted);
        self.clear(counted + READ as u64, found);
        taken.store(counted + found, Ordering::Relaxed); // Relaxed: as above.
        while self.beside.parsed < counted + found {
            let left = (counted + found - self.beside.parsed).min(READ as u64);
            self.parse(left);
        }
    }

    /// Where bytes of the ring of taken ones lie, from a position on, and how many of so many are in one piece.
    fn ring(&self, position: u64, most: u64) -> (*mut u8, usize) {
        let from = (position % TAKEN_BYTES as u64) as usize;
        (self.place.bytes_at(layout::TAKEN_AT * 8 + from), (most as usize).min(TAKEN_BYTES - from))
    }

    /// Zeroes bytes of the ring.
    fn clear(&mut self, position: u64, count: u64) {
        let mut at = position;
        while at < position + count {
            let (start, len) = self.ring(at, position + count - at);
            // SAFETY: within the ring, which only the one holder writes. These bytes come from no reading yet, and every whole state has those
            // of the lap before (I2).
            unsafe { start.write_bytes(0, len) };
            at += len as u64;
        }
    }

    /// Where the next bytes of the program are to be read to, and how many there is room for.
    pub fn room(&mut self) -> (*mut u8, usize) {
        // Relaxed: its own word.
        let taken = self.place.word(layout::TAKEN).load(Ordering::Relaxed);
        self.ring(taken, READ as u64)
    }

    /// So many bytes were read to there.
    pub fn took(&mut self, count: usize) {
        let taken = self.place.word(layout::TAKEN);
        // Relaxed: its own word.
        let counted = taken.load(Ordering::Relaxed);
        // I3: first what comes into the window.
        self.clear(counted + READ as u64, count as u64);
        // Release: the successor sees the zeros.
        taken.store(counted + count as u64, Ordering::Release);
        self.parse(count as u64);
        if self.unsaved() >= UNSAVED as u64 {
            self.save();
        }
    }

    fn parse(&mut self, count: u64) {
        let (start, len) = self.ring(self.beside.parsed, count);
        // SAFETY: within the ring, of which nothing is written while it is parsed.
        let mut rest = unsafe { std::slice::from_raw_parts(start, len) };
        while !rest.is_empty() {
            // A few bytes can clear a large screen.
            rest = &rest[self.emulator.feed_some(rest, MOST_SCROLLED)..];
            let scrolled = self.emulator.screen_mut().take_scrolled();
            self.remember(&scrolled);
            self.emulator.screen_mut().reuse(scrolled);
        }
        self.beside.parsed += len as u64;
        // In the middle of taking over there may be more than is unsaved at most otherwise.
        if self.unsaved() >= (TAKEN_BYTES / 2) as u64 {
            self.save();
        }
    }

    /// How many bytes were parsed that no whole state comes from.
    pub fn unsaved(&self) -> u64 {
        self.beside.parsed - self.saved
    }

    /// The screen.
    pub fn screen(&self) -> &Screen {
        self.emulator.screen()
    }

    /// Writes a state, and says so.
    pub fn save(&mut self) {
        let pace = self.pace().saturating_sub(clock::now() - self.saved_at);
        if pace > 0 {
            std::thread::sleep(Duration::from_nanos(pace));
        }
        self.version += 1;
        self.beside.time = clock::time_of_day();
        self.place.versions().begin(self.version); // E2.
        let kept = &mut self.kept[(self.version & 1) as usize];
        store::save(&mut self.emulator, self.beside, self.place.state(self.version), kept);
        self.place.versions().end(self.version); // E1.
        self.saved = self.beside.parsed;
        self.saved_at = clock::now();
        self.place.tell();
    }

    /// How long a state of a large screen stands at least, in nanoseconds: a viewer that copies it is not to be overtaken for ever.
    fn pace(&self) -> u64 {
        let bytes = 16 * (self.screen().columns() * self.screen().rows()) as u64;
        if bytes < LARGE { 0 } else { bytes * 2 }
    }

    /// Writes rows that have left the screen into the history.
    fn remember(&mut self, scrolled: &Scrolled) {
        let mut from = 0;
        // The lines end where the screen begins.
        let first = self.emulator.screen().base() - scrolled.ends.len() as u64;
        for ((line, (end, wraps)), changed) in (first..).zip(&scrolled.ends).zip(&scrolled.changed) {
            self.remember_line(&scrolled.text[from..*end], *wraps, line, *changed);
            from = *end;
        }
    }

    fn remember_line(&mut self, text: &[u8], wraps: bool, line: u64, changed: u64) {
        let all = self.place.history() as u64;
        // A line alone never takes more than a part of the history.
        let text = &text[..text.len().min((all * 2) as usize)];
        let size = FRAME + text.len().div_ceil(8) as u64;
        while self.beside.end + size - self.beside.first > all {
            self.forget_first();
        }
        self.place.floor().raise(self.beside.first); // E3, I5.
        let head = [text.len() as u64 | if wraps { WRAPS } else { 0 }, line, changed];
        let (whole, rest) = text.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&last);
        let text = whole.iter().chain(last).map(|part| u64::from_le_bytes(*part));
        self.place.put_past(self.beside.end, head.into_iter().chain(text).chain([size]));
        if self.beside.first == self.beside.end {
            self.beside.first_line = line;
        }
        self.beside.end += size;
    }

    fn forget_first(&mut self) {
        // Relaxed: written by this process, or by a dead one.
        let head = self.place.past(self.beside.first).load(Ordering::Relaxed);
        let size = FRAME + (head & !WRAPS).div_ceil(8);
        // What makes no sense is forgotten as a whole.
        self.beside.first = self.beside.first.saturating_add(size).min(self.beside.end);
        self.beside.first_line += 1;
    }

    /// A descriptor that is readable when there is something to do, from a thread that waits for the bell.
    ///
    /// # Errors
    /// The system's.
    pub fn bell(&self) -> io::Result<Arc<Event>> {
        let event = Arc::new(Event::new()?);
        let (to, memory) = (Arc::clone(&event), self.place.memory());
        thread::background("term-bell", move || {
            let bell = &words_of(&memory)[layout::BELL];
            let mut seen = 0;
            loop {
                // Acquire: what is to be done came before.
                let now = bell.load(Ordering::Acquire);
                if now != seen {
                    seen = now;
                    to.signal();
                }
                futex::wait(low_half(bell), seen as u32, None, Scope::Shared);
            }
        })?;
        Ok(event)
    }

    /// Sees whether there is another text to be typed. Before a reading: what that finds was written before the text was seen.
    pub fn hear(&mut self) {
        let send = self.place.word(layout::SENDS).load(Ordering::Acquire); // Acquire: as in `to_type`.
        if self.coming.0 != send {
            self.coming = (send, self.beside.parsed);
        }
    }

    /// Whether [`Holder::to_type`] has something to do, also when the program has written more than was taken.
    pub fn can_type(&self) -> bool {
        let (given, put) = self.place.typing().ready();
        self.next_text(given).1.map_or(put > given, |send| self.is_come_to(send, false))
    }

    /// Where the last text begins, and its number if it begins here and its place was not told yet.
    fn next_text(&self, given: u64) -> (u64, Option<u64>) {
        // Acquire: where it begins was said before; and it was put after that.
        let send = self.place.word(layout::SENDS).load(Ordering::Acquire);
        let mark = self.place.word(layout::MARK).load(Ordering::Relaxed); // Relaxed: behind the acquire.
        // Relaxed: only holders write it. A holder that takes over does not say it again.
        let told = self.place.word(layout::AT_SEND).load(Ordering::Relaxed);
        (mark, (given >= mark && told != send).then_some(send))
    }

    /// Whether all was taken that the program had written before this text was heard of.
    fn is_come_to(&self, send: u64, is_empty: bool) -> bool {
        self.coming.0 == send && (is_empty || self.beside.parsed >= self.coming.1 + PIPELINE)
    }

    /// Types bytes that were put, by `write`, which answers how many the program's side took. How many these are; None: there is nothing to type.
    /// `is_empty`: the last reading has taken all that the program had written. A new text waits until what was written before it was heard of is taken.
    ///
    /// # Errors
    /// That of `write`.
    pub fn type_some(
        &mut self,
        is_empty: bool,
        write: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<Option<usize>> {
        let typing = self.place.typing();
        let (given, put) = typing.ready();
        let (mark, new) = self.next_text(given);
        if let Some(send) = new {
            // The bell rings for one that came behind the last reading.
            if !self.is_come_to(send, is_empty) {
                return Ok(None);
            }
            let (screen, cursor) = (self.screen(), self.screen().cursor());
            let column = cursor.column + usize::from(cursor.is_past);
            let before = screen.text_before(cursor.row, column);
            // Relaxed: read behind the number.
            let set = |at: usize, value: u64| self.place.word(at).store(value, Ordering::Relaxed);
            set(layout::AT_LINE, screen.line());
            set(layout::AT_BYTE, self.beside.parsed);
            set(layout::AT_PLACE, (cursor.row as u64) << 32 | column as u64);
            set(layout::AT_TEXT, line::sum(&before));
            self.place.word(layout::AT_SEND).store(send, Ordering::Release); // Release: the place comes before.
            self.place.tell();
        }
        // Not over the beginning of the next text: its line is not known yet.
        let end = if given < mark { put.min(mark) } else { put };
        let from = (given % TYPED as u64) as usize;
        let len = (end.saturating_sub(given)).min((TYPED - from) as u64).min(1024) as usize;
        // Its own: the holder is its user's.
        let Some(ring) = self.place.typed_ring().filter(|_| len > 0) else { return Ok(None) };
        // SAFETY: within the ring; writers do not touch what is put and not given (E4).
        let bytes = unsafe { std::slice::from_raw_parts(ring.wrapping_add(from), len) };
        let count = typing.pass(given + len as u64, || write(bytes).map(|count| count as u64))?;
        if count > 0 {
            self.place.tell();
        }
        Ok(Some(count as usize))
    }

    /// Answers to the program's questions, to be typed by the caller. They are given once at most: the state without them comes first.
    pub fn take_answers(&mut self) -> Vec<u8> {
        let answers = self.screen().answers().to_vec();
        if !answers.is_empty() {
            self.emulator.screen_mut().answered(answers.len());
            self.save();
        }
        answers
    }

    /// Gives the screen the size that is wanted, if one is, then the pseudo-terminal by `tell`, and answers. Where one of them cannot have it, the
    /// answer says so.
    pub fn resize(&mut self, tell: impl FnOnce(usize, usize) -> io::Result<()>) {
        let wanted = self.place.word(layout::WANTED).load(Ordering::Acquire); // E5 acquire.
        let (number, columns, rows) = (wanted >> 33, wanted & 0xffff, wanted >> 16 & 0xffff);
        let sized = self.place.word(layout::SIZED);
        // Relaxed: its own word.
        if number == sized.load(Ordering::Relaxed) >> 1 {
            return;
        }
        let (columns, rows) = fit(columns as usize, rows as usize);
        let mut done = self.place.back(columns, rows);
        if done.is_ok() {
            // I4: what came before was parsed in the old size.
            self.save();
            self.emulator.screen_mut().resize(columns, rows);
            let scrolled = self.emulator.screen_mut().take_scrolled();
            self.remember(&scrolled);
            self.save();
            done = tell(columns, rows);
        }
        sized.store(number << 1 | u64::from(done.is_err()), Ordering::Release); // E5.
        self.place.tell();
    }

    /// Whether the keeper has said how the program ended.
    pub fn has_ended(&self) -> bool {
        self.place.end().is_said()
    }

    /// Behind a round of reading: says if all that the program wrote until it ended is on the screen; whether nothing can follow. `has_ended`: as it was
    /// before that round.
    pub fn is_over(&mut self, has_ended: bool, read: Read, is_orphan: bool) -> bool {
        let level = End::level(has_ended, read, is_orphan);
        if level > 0 {
            if self.unsaved() > 0 {
                self.save();
            }
            if self.place.end().reach(level) {
                self.place.tell();
            }
        }
        level == 2
    }
}
