//! The processes of a soak of tubes, each of which may be killed at any moment, and what they note.
//!
//! Six senders and six receivers share three tubes:
//!
//! | tube | slots | senders | receivers |
//! |---|---|---|---|
//! | `a`, many of both | 4 | 0, 1: copied in, and written in place; 2, 3 | 0, 1: copied out, and looked at in place; 2, 3 |
//! | `b`, many of both | 1 | 2, 3: a choice of sending to `b` or to `a` | 2, 3: a choice of receiving from `b` or from `a` |
//! | `c`, one receiver | 2 | 4, 5: as 0 and 1 | 4 or 5: the other stands by until that one has died |
//!
//! A message has its sender, its number, its tube, and what follows from them. Each sender notes that it is about to send one, then
//! that it was sent; each receiver that it has received one. A receiver that looks in place says before what it looks at, notes
//! it, then gives it back: so that it comes again if the receiver dies. One that copies has it or has it not when it dies:
//! the director counts that as undecided.
//!
//! The ledger has a byte for each message, on shared memory that the director has made. Every access is sequentially
//! consistent. Nothing here is measured.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use chappe::Select;
use chappe::tube::named::{Kind, NotReceived, NotSent, Receiver, Sender, Tube, TubeError};

use super::dice::Dice;

/// The tubes: name, slots, kind.
pub const TUBES: [(&str, u32, Kind); 3] = [("a", 4, Kind::Mpmc), ("b", 1, Kind::Mpmc), ("c", 2, Kind::Mpsc)];
/// Senders, and receivers.
pub const SIX: usize = 6;
/// How many messages one sender can send.
const MESSAGES: usize = 1 << 20;

/// The ledger: it is about to be sent.
pub const TRIED: u8 = 1;
/// It was sent.
pub const SENT: u8 = 2;
/// It was received, unmarked or by a receiver that is not told.
pub const GOT: u8 = 4;
/// It was received, and was marked.
pub const MARKED: u8 = 8;
/// It was received once more by a receiver that is not told of marks.
pub const TWICE: u8 = 16;
/// A receiver has died that had noted it and not given it back.
pub const EXCUSED: u8 = 32;

/// Tubes that have senders and receivers in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// `a` and `b`.
    Choices = 0,
    /// `c`.
    Single = 1,
}

impl Share {
    /// To which a place belongs.
    pub fn of(place: usize) -> Share {
        if place % SIX < 4 { Share::Choices } else { Share::Single }
    }

    /// To which a tube belongs.
    pub fn of_tube(tube: usize) -> Share {
        if tube < 2 { Share::Choices } else { Share::Single }
    }
}

/// What tubes carry.
pub type Message = [u64; 6];

fn message(sender: u64, number: u64, tube: u64) -> Message {
    let name = number << 8 | sender << 4 | tube;
    [sender, number, tube, !name, name.rotate_left(23), name.wrapping_mul(0x9e37_79b9_7f4a_7c15)]
}

/// What one process, or the next in its place, says of itself.
#[repr(C)]
pub struct Place {
    /// Turns that came to their end.
    pub turns: AtomicU64,
    /// Of a sender: its next message.
    next: AtomicU64,
    /// Of a receiver: not 0: it copies one out, and has not noted it yet.
    pub copies: AtomicU32,
    /// Not 0: it has been attached.
    pub attached: AtomicU32,
    /// Of a receiver: sender and number of what it looks at and has noted, and one.
    pub holds: AtomicU64,
    /// How often the backstop has fired in it.
    pub backstops: AtomicU64,
    /// Of a receiver: the number of the last from each sender by each tube, and one.
    last: [[AtomicU64; SIX]; 3],
}

/// What all share. Zeroed memory is a board at the start.
#[repr(C)]
pub struct Board {
    /// Not 0: no process sends any more.
    pub stop: AtomicU32,
    /// Messages that contradict themselves, or were never sent.
    pub torn: AtomicU64,
    /// Messages that came after a later one.
    pub order: AtomicU64,
    /// Messages that came once more, and were not marked; or marked, for the second time.
    pub doubled: AtomicU64,
    /// Records that were dropped because two receivers had died, by [`Share`]: at the end.
    pub dropped: [AtomicU64; 2],
    /// Senders, then receivers.
    pub places: [Place; 2 * SIX],
    /// The ledger.
    messages: [[AtomicU8; MESSAGES]; SIX],
}

impl Board {
    /// The ledger of one message.
    fn entry(&self, sender: u64, number: u64) -> &AtomicU8 {
        &self.messages[sender as usize][number as usize]
    }

    /// How many messages have all of these notes and none of those.
    pub fn count(&self, all: u8, none: u8) -> u64 {
        self.count_in(0..SIX, all, none)
    }

    /// The same of a share.
    pub fn count_of(&self, share: Share, all: u8, none: u8) -> u64 {
        let senders = if share == Share::Choices { 0..4 } else { 4..SIX };
        self.count_in(senders, all, none)
    }

    fn count_in(&self, senders: Range<usize>, all: u8, none: u8) -> u64 {
        let used = |sender: usize| self.places[sender].next.load(SeqCst) as usize;
        let is = |entry: &AtomicU8| {
            let noted = entry.load(SeqCst);
            noted & all == all && noted & none == 0
        };
        senders.map(|s| self.messages[s][..used(s)].iter().filter(|e| is(e)).count() as u64).sum()
    }

    /// The director has killed a receiver: what it had noted and not given back may come once more.
    pub fn excuse(&self, place: usize) {
        if let Some(held) = self.places[place].holds.swap(0, SeqCst).checked_sub(1) {
            self.entry(held % SIX as u64, held / SIX as u64).fetch_or(EXCUSED, SeqCst);
        }
    }

    /// A message was received. `again`: whether it was marked, if that was said; `place`: its receiver.
    pub fn receive(&self, place: Option<usize>, it: &Message, tube: usize, again: Option<bool>) {
        let [sender, number, of, ..] = *it;
        if *it != message(sender, number, of) || sender >= SIX as u64 || number >= MESSAGES as u64 || of != tube as u64
        {
            self.torn.fetch_add(1, SeqCst);
            return;
        }
        let mark = if again == Some(true) { MARKED } else { GOT };
        let before = self.entry(sender, number).fetch_or(mark, SeqCst);
        let twice = before & (GOT | MARKED) != 0;
        if before & TRIED == 0 {
            self.torn.fetch_add(1, SeqCst);
        } else if again == Some(false) && twice || again == Some(true) && before & MARKED != 0 {
            self.doubled.fetch_add(1, SeqCst);
        } else if again.is_none() && twice {
            self.entry(sender, number).fetch_or(TWICE, SeqCst);
        }
        if again == Some(false)
            && let Some(place) = place
            && self.places[place].last[tube][sender as usize].swap(number + 1, SeqCst) > number
        {
            self.order.fetch_add(1, SeqCst);
        }
    }
}

/// One life.
pub struct Life<'a> {
    board: &'a Board,
    place: usize,
    dice: Dice,
    /// Sleeps a little at each turn.
    slow: bool,
    /// Makes a known mistake: looks in place always, and gives a message back before it has noted it.
    forgetful: bool,
}

/// Why a life ends early.
type Broken = Box<dyn std::error::Error>;

fn tube(which: usize) -> Result<Tube<Message>, TubeError> {
    Tube::open(TUBES[which].0)
}

impl<'a> Life<'a> {
    /// At this place, with random choices of its own.
    pub fn new(board: &'a Board, place: usize, seed: u64, forgetful: bool) -> Life<'a> {
        let mut life = Life { board, place, dice: Dice::new(seed), slow: false, forgetful };
        life.slow = life.dice.roll(3) == 0;
        life
    }

    fn here(&self) -> &'a Place {
        &self.board.places[self.place]
    }

    fn is_over(&self) -> bool {
        self.board.stop.load(SeqCst) != 0
    }

    /// A turn has come to its end.
    fn turn(&mut self) {
        self.here().turns.fetch_add(1, SeqCst);
        self.here().backstops.store(chappe::recoveries().backstops, SeqCst);
        if self.slow || self.dice.roll(64) == 0 {
            std::thread::sleep(Duration::from_micros(200 + self.dice.roll(400)));
        }
    }

    /// Nobody is at the other end now: the next one is about to come.
    fn alone(&mut self) {
        self.here().turns.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_millis(1));
    }

    /// In the middle of a message: where it should be found.
    fn dawdle(&mut self) {
        match self.dice.roll(4) {
            0 => std::thread::sleep(Duration::from_micros(self.dice.roll(300))),
            1 => (0..self.dice.roll(2_000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// All of it.
    ///
    /// # Errors
    /// What should not have failed.
    pub fn live(&mut self) -> Result<(), Broken> {
        match (self.place / SIX, self.place % SIX) {
            (0, 2 | 3) => self.send_either(),
            (0, who) => self.send(if who < 2 { 0 } else { 2 }),
            (_, 2 | 3) => self.receive_either(),
            (_, who) => self.receive(if who < 2 { 0 } else { 2 }),
        }
    }

    // ---- senders ----

    /// The next message's number, noted; none when no process is to send any more.
    fn next(&self) -> Option<u64> {
        let number = self.here().next.load(SeqCst);
        if self.is_over() || number >= MESSAGES as u64 {
            return None;
        }
        // First the note: a number that is taken has one.
        self.board.entry(self.place as u64, number).fetch_or(TRIED, SeqCst);
        self.here().next.store(number + 1, SeqCst);
        Some(number)
    }

    fn sent(&mut self, number: u64, sent: Result<(), Option<Broken>>) -> Result<(), Broken> {
        match sent {
            Ok(()) => {
                self.board.entry(self.place as u64, number).fetch_or(SENT, SeqCst);
                self.turn();
                Ok(())
            }
            Err(None) => {
                self.alone();
                Ok(())
            }
            Err(Some(e)) => Err(e),
        }
    }

    fn send(&mut self, which: usize) -> Result<(), Broken> {
        let mut out = tube(which)?.sender()?;
        self.here().attached.store(1, SeqCst);
        while let Some(number) = self.next() {
            let it = message(self.place as u64, number, which as u64);
            let sent = if self.dice.roll(2) == 0 { out.send(it).map_err(unsent) } else { self.write(&mut out, it) };
            self.sent(number, sent)?;
        }
        Ok(())
    }

    fn write(&mut self, out: &mut Sender<Message>, it: Message) -> Result<(), Option<Broken>> {
        // One that is given up first, now and then.
        if self.dice.roll(8) == 0 {
            drop(out.reserve().map_err(unsent)?);
        }
        let mut slot = out.reserve().map_err(unsent)?;
        slot[..3].copy_from_slice(&it[..3]);
        self.dawdle();
        *slot = it;
        slot.commit().map_err(unsent)
    }

    fn send_either(&mut self) -> Result<(), Broken> {
        let outs = [tube(0)?.sender()?, tube(1)?.sender()?];
        self.here().attached.store(1, SeqCst);
        while let Some(number) = self.next() {
            let mut select = Select::new();
            outs.iter().for_each(|out| {
                select.send_on(out);
            });
            let chosen = select.wait()?;
            let which = chosen.index();
            self.dawdle();
            let it = message(self.place as u64, number, which as u64);
            let sent = chosen.send_on(&outs[which], it).map_err(|_| None);
            self.sent(number, sent)?;
        }
        Ok(())
    }

    // ---- receivers ----

    fn receive(&mut self, which: usize) -> Result<(), Broken> {
        let into = loop {
            match tube(which)?.receiver() {
                Ok(into) => break into,
                Err(TubeError::Single { .. }) if self.is_over() => return Ok(()),
                Err(TubeError::Single { .. }) => self.alone(),
                Err(e) => return Err(e.into()),
            }
        };
        self.here().attached.store(1, SeqCst);
        loop {
            let copies = !self.forgetful && self.dice.roll(2) == 0;
            let got = if copies { self.copy(&into, which) } else { self.look(&into, which) };
            match got {
                Ok(()) => self.turn(),
                Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) if self.is_over() => {
                    return Ok(());
                }
                Err(NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => self.alone(),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn copy(&self, into: &Receiver<Message>, which: usize) -> Result<(), NotReceived> {
        self.here().copies.store(1, SeqCst);
        let got = into.recv_redelivered().map(|(it, again)| {
            self.board.receive(Some(self.place), &it, which, Some(again));
        });
        self.here().copies.store(0, SeqCst);
        got
    }

    fn look(&mut self, into: &Receiver<Message>, which: usize) -> Result<(), NotReceived> {
        let loan = into.borrow()?;
        self.dawdle();
        let it = *loan;
        if self.forgetful {
            let again = loan.again();
            loan.release()?;
            self.dawdle();
            self.board.receive(Some(self.place), &it, which, Some(again));
            return Ok(());
        }
        // First the holder: what is noted and comes again is excused by that.
        let name = it[1].wrapping_mul(SIX as u64).wrapping_add(it[0] % SIX as u64);
        self.here().holds.store(1 + name % (MESSAGES * SIX) as u64, SeqCst);
        self.board.receive(Some(self.place), &it, which, Some(loan.again()));
        self.dawdle();
        let released = loan.release();
        self.here().holds.store(0, SeqCst);
        released
    }

    fn receive_either(&mut self) -> Result<(), Broken> {
        let intos = [tube(0)?.receiver()?, tube(1)?.receiver()?];
        self.here().attached.store(1, SeqCst);
        let mut ended = [false; 2];
        while ended != [true; 2] {
            let mut select = Select::new();
            let listed: Vec<usize> = (0..2).filter(|which| !ended[*which]).collect();
            listed.iter().for_each(|which| {
                select.recv_on(&intos[*which]);
            });
            self.here().copies.store(1, SeqCst);
            let chosen = select.wait()?;
            let which = listed[chosen.index()];
            self.dawdle();
            match chosen.recv_on(&intos[which]) {
                Ok(it) => {
                    self.board.receive(None, &it, which, None);
                    self.here().copies.store(0, SeqCst);
                    self.turn();
                }
                Err(_) => {
                    self.here().copies.store(0, SeqCst);
                    ended[which] = self.is_over();
                    self.alone();
                }
            }
        }
        Ok(())
    }
}

/// Why it was not sent: nothing, if only no receiver is there.
fn unsent<M>(why: NotSent<M>) -> Option<Broken> {
    match why {
        NotSent::Disconnected { .. } => None,
        other => Some(other.to_string().into()),
    }
}
