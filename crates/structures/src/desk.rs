//! A server among processes, any of which may be killed or stopped at any step: data that a fixed function changes.
//!
//! Herlihy's small objects with announcements (as in Fatourou and Kallimanis' P-Sim): a caller announces its request, copies the data, carries out all
//! announced requests in the copy, and puts the copy in place by one swap. If another caller was first, it looks whether that caller has carried out its
//! request as well. What is copied, put in place and given back is an entry of a table (see `table`), which says what deaths leave of it.
//!
//! ```text
//!   seats: owner, turn, request ..        the table's one entry: data | turn, answer of seat 0 | turn, answer of seat 1 ..
//! ```
//!
//! Invariants:
//! - I1: a seat (a place for one caller's request) is a caller's from its swap of `owner` until it gives it back, or its death is recovered. The word
//!   has a turn (see `turns`), which rises each time: a recoverer that was stopped gives back no seat of a later member of the same number.
//! - I2: a request is announced by the seat's turn, which rises by one, after the request's bytes. It is carried out in the entry whose turn of the seat
//!   is that turn. A caller writes a request only when the entry has the seat's turn: if the seat's last owner died, its request is carried out first.
//! - I3: a caller that has read an entry, a seat's turn that the entry does not have, and the request's bytes, and then puts its copy in place of that
//!   entry, has read that turn's request: the request is written over only when another entry has the turn.
//! - I4: each change carries out all requests that were announced before it began. So a caller is done when two others have succeeded after its
//!   announcement.
//! - I5: a caller has the cell for its change in hand before it announces its request: it does not find the table full afterwards. So a caller that is
//!   told that nothing was done has announced nothing, which another might carry out later.
//!
//! Ordering edges: E1 (release/acquire) a request before its turn. The rest is the table's.
//!
//! Progress: wait-free for a caller with a seat, except for the table's cells (lock-free there); lock-free if there are more callers at once than
//! seats. The function runs once for each copy, so more often than once for a request; one of the runs counts.
//!
//! Deaths: a request of a dead member is carried out once, or not at all. Explored: `tests/crash_server.rs`.

use crate::table::{Cell, Change, Decide, Full, Shape, Table};
use crate::turns::{self, read, write};
use chappe_arena::Visit;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::step;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// How many callers at once have a seat.
pub const SEATS: usize = if cfg!(feature = "sim") { 3 } else { 16 };
/// The most bytes of data, of a request, and of an answer.
pub const MOST_BYTES: u32 = 1 << 16;
/// The one entry.
const KEY: [u8; 1] = [1];

/// The sizes in bytes. All users of a server pass the same sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of the data.
    pub state: u32,
    /// Of a request.
    pub request: u32,
    /// Of an answer.
    pub answer: u32,
    /// The number of members for which the table has spare cells.
    pub spare: u32,
}

fn round(bytes: u32) -> usize {
    (bytes as usize).next_multiple_of(8)
}

impl Sizes {
    /// Whether there can be such a server.
    pub fn is_possible(self) -> bool {
        [self.state, self.request, self.answer].iter().all(|n| *n <= MOST_BYTES) && self.shape().is_possible()
    }

    fn shape(self) -> Shape {
        Shape::new(1, 1, self.entry() as u32, self.spare)
    }

    /// The bytes of the entry.
    pub fn entry(self) -> usize {
        round(self.state) + SEATS * self.of_seat()
    }

    /// The seat's part of the entry.
    fn of_seat(self) -> usize {
        8 + round(self.answer)
    }

    fn seat_words(self) -> usize {
        2 + round(self.request) / 8
    }

    fn table_at(self) -> usize {
        (SEATS * self.seat_words() * 8).next_multiple_of(64)
    }

    /// How many bytes it takes, from an address that is a multiple of 64.
    pub fn bytes(self) -> usize {
        self.table_at() + self.shape().bytes()
    }
}

/// What changes the data: `(data, request, answer)`, each of as many bytes as the sizes say.
pub type Function<'f> = &'f dyn Fn(&mut [u8], &[u8], &mut [u8]);

/// A server in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Desk<'a> {
    seats: NonNull<AtomicU64>,
    table: Table<'a>,
    sizes: Sizes,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: all that is shared is atomic words.
unsafe impl Send for Desk<'_> {}
// SAFETY: as above.
unsafe impl Sync for Desk<'_> {}

/// Copies of a caller: the entry, and a request.
struct Copies<'a, 'f> {
    desk: &'f Desk<'a>,
    function: Function<'f>,
    /// The seat, and the turn that is to be carried out; none: the request here.
    seat: Option<(usize, u64)>,
    request: &'f [u8],
    entry: Vec<u8>,
    scratch: Vec<u8>,
    answer: Vec<u8>,
}

impl<'a> Desk<'a> {
    /// The server at a place. It is begun with [`Desk::begin_with`].
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as the sizes say, for as long as `'a`, which nothing touches but by atomic words.
    ///
    /// # Panics
    /// If there can be no such server.
    pub unsafe fn new(place: NonNull<u8>, sizes: Sizes) -> Desk<'a> {
        assert!(sizes.is_possible(), "a server of {sizes:?}");
        // SAFETY: within the bytes that the caller promises.
        let table = unsafe { Table::new(place.add(sizes.table_at()), sizes.shape()) };
        Desk { seats: place.cast(), table, sizes, memory: PhantomData }
    }

    /// Its sizes.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The data, before any other member knows of it.
    pub fn begin_with(&self, state: &[u8]) {
        let mut entry = vec![0; self.sizes.entry()];
        entry[..state.len()].copy_from_slice(state);
        let begun = self.table.change(0, &KEY, &mut [], &mut First(&entry));
        debug_assert!(begun.is_ok(), "zeroed memory is an empty table");
    }

    fn seat(&self, seat: usize) -> &'a [AtomicU64] {
        let words = self.sizes.seat_words();
        // SAFETY: one of as many seats as there are.
        unsafe { std::slice::from_raw_parts(self.seats.add(seat * words).as_ptr(), words) }
    }

    fn owner(&self, seat: usize) -> &'a AtomicU64 {
        &self.seat(seat)[0]
    }

    fn turn(&self, seat: usize) -> &'a AtomicU64 {
        &self.seat(seat)[1]
    }

    /// I1: a seat that is free.
    fn sit(&self, me: u16) -> Option<usize> {
        (0..SEATS).map(|i| (i + usize::from(me)) % SEATS).find(|seat| {
            let owner = self.owner(*seat);
            let seen = owner.load(Ordering::Relaxed); // Relaxed: the swap looks again.
            let mine = turns::owned_by(seen, me);
            turns::kind(seen) == turns::FREE
                // AcqRel: I1: after what its last owner did. Relaxed, a failure: it is another's.
                && owner.compare_exchange(seen, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Carries out a request, unless another caller does it first. The answer is copied out.
    ///
    /// # Errors
    /// More members than there are spare cells are at work; nothing was done, and nobody will do it.
    pub fn call(&self, me: u16, request: &[u8], answer: &mut [u8], function: Function<'_>) -> Result<(), Full> {
        let mut copies = Copies {
            desk: self,
            function,
            seat: None,
            request,
            entry: vec![0; self.sizes.entry()],
            scratch: vec![0; round(self.sizes.request)],
            answer: vec![0; round(self.sizes.answer)],
        };
        if let Some(seat) = self.sit(me) {
            let done = self.call_from(me, seat, &mut copies);
            let owner = self.owner(seat);
            let mine = owner.load(Ordering::Relaxed); // Relaxed: ours.
            owner.store(turns::freed(mine), Ordering::Release); // Release: I1.
            done?;
        } else {
            // I4: without a seat, lock-free.
            self.change(me, None, &mut copies)?;
        }
        answer.copy_from_slice(&copies.answer[..answer.len()]);
        Ok(())
    }

    fn call_from(&self, me: u16, seat: usize, copies: &mut Copies<'a, '_>) -> Result<(), Full> {
        // Relaxed: I1: ours.
        let last = self.turn(seat).load(Ordering::Relaxed);
        self.table.get(&KEY, &mut copies.entry);
        if copies.turn_of(seat) != last {
            // I2: its last owner died.
            copies.seat = Some((seat, last));
            self.change(me, None, copies)?;
        }
        // I5.
        let hand = self.table.reserve(me)?;
        step!("cell in hand, nothing announced");
        write(&self.seat(seat)[2..], copies.request);
        step!("request written, not yet announced");
        let turn = last.wrapping_add(1);
        // Release: E1, I2.
        self.turn(seat).store(turn, Ordering::Release);
        step!("announced");
        copies.seat = Some((seat, turn));
        self.change(me, Some(hand), copies)
    }

    fn change(&self, me: u16, hand: Option<Cell>, copies: &mut Copies<'a, '_>) -> Result<(), Full> {
        let mut old = std::mem::take(&mut copies.scratch);
        old.resize(self.sizes.entry(), 0);
        let changed = match hand {
            Some(hand) => {
                self.table.change_with(hand, me, &KEY, &mut old, copies);
                Ok(())
            }
            None => self.table.change(me, &KEY, &mut old, copies).map(|_| ()),
        };
        old.truncate(round(self.sizes.request));
        copies.scratch = old;
        changed
    }

    /// Copies the data out, as it was at one moment.
    pub fn look(&self, state: &mut [u8]) {
        let mut entry = vec![0; self.sizes.entry()];
        self.table.get(&KEY, &mut entry);
        state.copy_from_slice(&entry[..state.len()]);
    }

    /// Recovers a dead member. `is_dead` says that this is not yet done: the number is still the dead member's. When this has
    /// completed, the number may be reused.
    pub fn recover(&self, visit: &Visit<'_>, member: u16, is_dead: impl Fn() -> bool) {
        for seat in 0..SEATS {
            let owner = self.owner(seat);
            // Acquire: before the look whether it is dead.
            let seen = owner.load(Ordering::Acquire);
            if turns::is_owned_by(seen, member) && is_dead() {
                // AcqRel: I1. Relaxed, a failure: another recoverer did; the seat may be a later member's of that number by now.
                let _ = owner.compare_exchange(seen, turns::freed(seen), Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        self.table.recover(visit, member, is_dead);
    }

    /// How many seats are taken, and how many nodes and cells the table has in use, for onlookers.
    #[cfg(feature = "sim")]
    pub fn taken(&self) -> (usize, (usize, usize)) {
        // Relaxed: when all is over.
        (
            (0..SEATS).filter(|s| turns::kind(self.owner(*s).load(Ordering::Relaxed)) != turns::FREE).count(),
            self.table.taken(),
        )
    }

    /// Names its words, for the explorer's reports.
    #[cfg(feature = "sim")]
    pub fn each_word(&self, name: &mut dyn FnMut(&'a AtomicU64, String, fn(u64) -> String)) {
        for seat in 0..SEATS {
            name(self.owner(seat), format!("owner of seat {seat}"), turns::state_in_words);
            name(self.turn(seat), format!("turn of seat {seat}"), |v| v.to_string());
        }
        self.table.each_word(name);
    }
}

impl Copies<'_, '_> {
    fn place_of(&self, seat: usize) -> usize {
        round(self.desk.sizes.state) + seat * self.desk.sizes.of_seat()
    }

    /// The turn of a seat that was carried out last.
    fn turn_of(&self, seat: usize) -> u64 {
        let at = self.place_of(seat);
        u64::from_ne_bytes(self.entry[at..at + 8].try_into().expect("eight bytes"))
    }

    fn run(&mut self, request: &[u8]) {
        let Sizes { state, request: asked, answer, .. } = self.desk.sizes;
        let state = &mut self.entry[..state as usize];
        (self.function)(state, &request[..asked as usize], &mut self.answer[..answer as usize]);
    }

    /// I4: carries out what is announced.
    fn run_all(&mut self) {
        let mut request = vec![0; round(self.desk.sizes.request)];
        for seat in 0..SEATS {
            // Acquire: E1.
            let turn = self.desk.turn(seat).load(Ordering::Acquire);
            if turn == self.turn_of(seat) {
                continue;
            }
            read(&self.desk.seat(seat)[2..], &mut request);
            step!("read a request, not yet sure of it");
            // The owner has announced another request: then this one is in an entry by now, and our copy will not get in place.
            // Acquire: I3.
            if self.desk.turn(seat).load(Ordering::Acquire) != turn {
                continue;
            }
            self.run(&request);
            let at = self.place_of(seat);
            self.entry[at..at + 8].copy_from_slice(&turn.to_ne_bytes());
            let len = self.answer.len();
            self.entry[at + 8..at + 8 + len].copy_from_slice(&self.answer);
        }
    }

    /// Copies the answer to the seat's request out.
    fn answered(&mut self, seat: usize) {
        let (at, len) = (self.place_of(seat) + 8, self.answer.len());
        self.answer.copy_from_slice(&self.entry[at..at + len]);
    }
}

impl Decide for Copies<'_, '_> {
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        let Some(old) = old else { return Change::Keep };
        self.entry.copy_from_slice(old);
        match self.seat {
            Some((seat, turn)) if self.turn_of(seat) == turn => {
                // Another caller was first, and has done it.
                self.answered(seat);
                return Change::Keep;
            }
            Some((seat, _)) => {
                self.run_all();
                self.answered(seat);
            }
            None => {
                self.run_all();
                let request = self.request;
                let mut padded = vec![0; round(self.desk.sizes.request)];
                padded[..request.len()].copy_from_slice(request);
                self.run(&padded);
            }
        }
        Change::Put(&self.entry)
    }
}

struct First<'b>(&'b [u8]);

impl Decide for First<'_> {
    fn decide(&mut self, _old: Option<&[u8]>) -> Change<'_> {
        Change::Put(self.0)
    }
}
