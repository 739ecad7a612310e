//! The words of a barrier, taken apart: the table is in `round`, whose invariants and edges these are.

use chappe_arena::layout::{MAX_MEMBERS, Slot};
use chappe_plat::atomic::Ordering;

/// The most parties: each has a member.
pub const MOST_PARTIES: u32 = MAX_MEMBERS;

/// What the state says is under way.
pub(super) const IDLE: u64 = 0;
pub(super) const ARRIVE: u64 = 1;
pub(super) const TAKE_BACK: u64 = 2;
pub(super) const JOIN: u64 = 3;
pub(super) const LEAVE: u64 = 4;
pub(super) const DEATH: u64 = 5;
pub(super) const TURN: u64 = 6;
pub(super) const BREAK: u64 = 7;
pub(super) const RESET: u64 = 8;
pub(super) const WAKE: u64 = 9;
pub(super) const SUCCEED: u64 = 10;

/// TURN: no arrival of its own made the round turn.
pub(super) const NOBODY: u32 = 0xffff;
const _: () = assert!(MAX_MEMBERS <= NOBODY && MOST_PARTIES <= 0xffff);

/// More deaths in a round are not counted.
pub(super) const MOST_DIED: u64 = 0xff;

/// Why a round did not turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Reset = 0,
    Aborted = 1,
    TimedOut = 2,
    Died = 3,
}

impl Cause {
    pub fn of(bits: u64) -> Cause {
        [Cause::Reset, Cause::Aborted, Cause::TimedOut, Cause::Died][bits as usize & 3]
    }
}

/// The value of the counts' cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts(pub u64);

impl Counts {
    pub const DEAD: u64 = 1;
    pub const JOINED: u64 = 1 << 16;
    pub const GONE: u64 = 1 << 32;
    pub const ONCE: u64 = 1 << 48;

    pub fn dead(self) -> u64 {
        field(self.0, 0, 16)
    }
    pub fn joined(self) -> u64 {
        field(self.0, 16, 16)
    }
    pub fn gone(self) -> u64 {
        field(self.0, 32, 16)
    }
    pub fn once(self) -> u64 {
        field(self.0, 48, 16)
    }
    /// How many more may join.
    pub fn room(self, parties: u32) -> u64 {
        self.expected(parties).saturating_sub(self.joined())
    }
    /// I9: with one party less.
    pub fn without(self, then: Counts) -> u64 {
        if self.joined() <= 1 { 0 } else { then.less(Counts::JOINED).0 }
    }
    /// How many are expected of so many parties.
    pub fn expected(self, parties: u32) -> u64 {
        u64::from(parties).saturating_sub(self.dead() + self.gone())
    }
    /// Of the next round: so many of those that had joined for once had arrived, and are no parties any more. I9: perhaps none is left.
    pub fn next(self, once: u64) -> Counts {
        let (joined, more) = (self.joined().saturating_sub(once), self.once().saturating_sub(once));
        Counts(if joined == 0 { 0 } else { self.dead() | joined << 16 | more << 48 })
    }
    pub fn less(self, one: u64) -> Counts {
        Counts(self.0.saturating_sub(one))
    }
    pub fn more(self, one: u64) -> Counts {
        Counts(self.0.wrapping_add(one))
    }
}

/// A field of a word.
pub(super) fn field(word: u64, at: u32, bits: u32) -> u64 {
    word >> at & ((1 << bits) - 1)
}

pub(super) fn with(word: u64, at: u32, bits: u32, value: u64) -> u64 {
    let mask = ((1 << bits) - 1) << at;
    word & !mask | value << at & mask
}

/// A cell, as it was read or is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub word: u64,
    pub stamp: u64,
}

/// Both words of one moment: a stamp is never there again (I1).
pub(super) fn read(cell: &Slot) -> Seen {
    loop {
        // SeqCst, these three: E1.
        let stamp = cell.since.load(Ordering::SeqCst);
        let word = cell.word.load(Ordering::SeqCst);
        if cell.since.load(Ordering::SeqCst) == stamp {
            return Seen { word, stamp };
        }
    }
}

/// Swaps both.
pub(super) fn swap(cell: &Slot, from: Seen, to: Seen) -> bool {
    // A swap of both is a full fence: E1.
    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    return cell.pair().compare_exchange([from.word, from.stamp], [to.word, to.stamp]).is_ok();
    // loom has no such swap, and searches nothing here.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    {
        // SeqCst, both: E1.
        let stamped = cell.since.compare_exchange(from.stamp, to.stamp, Ordering::SeqCst, Ordering::SeqCst);
        stamped.is_ok() && cell.word.compare_exchange(from.word, to.word, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// The value of the state's cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub u64);

impl State {
    pub fn left(self) -> u64 {
        field(self.0, 0, 16)
    }
    pub fn is_once(self) -> bool {
        field(self.0, 16, 1) != 0
    }
    pub fn member(self) -> u32 {
        field(self.0, 32, 16) as u32
    }
    pub fn op(self) -> u64 {
        field(self.0, 48, 4)
    }
    /// The cause's bits; 0: it is whole.
    pub fn cause(self) -> u64 {
        field(self.0, 52, 2)
    }
    pub fn died(self) -> u64 {
        field(self.0, 54, 8)
    }
    pub fn to(self, op: u64, member: u32) -> State {
        State(with(with(with(self.0, 48, 4, op), 32, 16, member.into()), 16, 1, 0))
    }
    pub fn for_once(self, once: bool) -> State {
        State(with(self.0, 16, 1, once.into()))
    }
    /// With so many left.
    pub fn of(self, left: u64) -> State {
        State(with(self.0, 0, 16, left))
    }
    pub fn because(self, cause: u64) -> State {
        State(with(self.0, 52, 2, cause))
    }
    pub fn after(self, deaths: u64) -> State {
        State(with(self.0, 54, 8, deaths.min(MOST_DIED)))
    }
}

/// The value of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Record(pub u64);

pub(super) const ARRIVED: u64 = 1;
pub(super) const BROKEN: u64 = 2;

impl Record {
    pub const JOINED: u64 = 1 << 2;
    /// It joined for one round.
    pub const ONCE: u64 = 1 << 3;
    /// Of a dead member in its DEATH: its arrival was current.
    pub const WAS: u64 = 1 << 4;

    pub fn state(self) -> u64 {
        self.0 & 3
    }
    pub fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    pub fn cause(self) -> Cause {
        Cause::of(field(self.0, 5, 2))
    }
    pub fn index(self) -> u64 {
        field(self.0, 8, 16)
    }
    /// FREE, and joined as before.
    pub fn freed(self) -> u64 {
        self.0 & (Record::JOINED | Record::ONCE)
    }
    /// FREE, of an arrival that is not current: one that joined for once has left by the turn, or the break.
    pub fn over(self) -> u64 {
        if self.state() != 0 && self.has(Record::ONCE) { 0 } else { self.freed() }
    }
    pub fn arrived(self, index: u64, died: u64, pid: u64) -> u64 {
        self.freed() | ARRIVED | Record(0).told(died, pid) | with(0, 8, 16, index)
    }
    pub fn indexed(self, index: u64) -> Record {
        Record(with(self.0, 8, 16, index))
    }
    pub fn told(self, died: u64, pid: u64) -> u64 {
        with(with(self.0, 24, 8, died), 32, 32, pid)
    }
    pub fn died(self) -> u32 {
        field(self.0, 24, 8) as u32
    }
    pub fn pid(self) -> u32 {
        (self.0 >> 32) as u32
    }
    pub fn broken(self, cause: u64, pid: u64) -> u64 {
        self.freed() | BROKEN | cause << 5 | pid << 32
    }
}

/// Whether a record is a party's: one that joined for once has left by the turn, or the break.
pub(super) fn is_joined(record: Seen, round: Seen) -> bool {
    let there = Record(record.word);
    there.has(Record::JOINED) && (is_current(record, round) || there.over() != 0)
}

/// I4: whether a record is a current arrival's.
pub(super) fn is_current(record: Seen, round: Seen) -> bool {
    Record(record.word).state() == ARRIVED && record.stamp > round.stamp
}
