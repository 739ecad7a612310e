//! What becomes of units and messages: what is noted before and after, and what may be missing after a death in between.
//!
//! **Units** of a semaphore have no owner: a process that dies with one takes it along. Each semaphore has one at the start, and a process
//! that takes it puts it back. A worker notes where it is:
//!
//! | note | means | if it dies there, of its one unit is |
//! |---|---|---|
//! | `TAKING` | it is in `down`, or in a choice of several | gone, or not: one of them |
//! | `HAS` | it has one of this semaphore | gone |
//! | `GIVING` | it is in `up` | gone, or not |
//! | `ADDING` | it puts in one more, for those that are gone | there once more, or not |
//!
//! So for each semaphore, and for those of each arena together, there is a least and a greatest value, which differ by the deaths in
//! the middle of `down` and `up`. A refiller puts in one more when it is possible that none is left.
//!
//! **Messages** have a number each, and a word in the ledger: a sender notes first that it is about to, then that it has sent it, and by
//! which tube; a receiver notes that. A receiver that copies a message out notes before that it is about to, and which tubes it may be from:
//! if it dies, one message of these may be missing. A receiver that looks at it in place notes first which one, then that it was received,
//! then gives it back: if it dies, that one may come once more, and is flagged.

// SeqCst everywhere here: what a process notes is in one order with what it does, and it costs nothing beside that.
use std::sync::atomic::Ordering::SeqCst;

use super::board::{Board, Count, Found};
use super::places::{ARENAS, GROUPS, MESSAGES, Message, SEMAPHORES, TUBES, UNITS};

// ---- units ----

/// In `down` of these semaphores of all arenas.
const TAKING: u32 = 1 << 16;
/// Has one of this.
const HAS: u32 = 2 << 16;
/// In `up` of this.
const GIVING: u32 = 3 << 16;
/// In an `up` that makes up for one that is gone.
const ADDING: u32 = 4 << 16;

/// A semaphore's number among those of all arenas.
pub fn number(arena: usize, which: usize) -> usize {
    arena * SEMAPHORES.len() + which
}

/// What a worker is about to do with units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing.
    Idle,
    /// Takes one of any of an arena's.
    TakingAny(usize),
    /// Takes one of this.
    Taking(usize),
    /// Has one of this.
    Has(usize),
    /// Puts it back.
    Giving(usize),
    /// Puts one in for one that is gone.
    Adding(usize),
}

impl Unit {
    /// As it is noted.
    pub fn word(self) -> u32 {
        match self {
            Unit::Idle => 0,
            Unit::TakingAny(arena) => TAKING | 1 << number(arena, 0) | 1 << number(arena, 1),
            Unit::Taking(s) => TAKING | 1 << s,
            Unit::Has(s) => HAS | 1 << s,
            Unit::Giving(s) => GIVING | 1 << s,
            Unit::Adding(s) => ADDING | 1 << s,
        }
    }
}

impl Board {
    /// A worker has died with this note.
    pub fn settle_unit(&self, word: u32) {
        let (least, most) = match word & !0xffff {
            TAKING | GIVING => (-1, 0),
            HAS => (-1, -1),
            ADDING => (0, 1),
            _ => return,
        };
        let mut arena = None;
        for s in (0..self.units.len()).filter(|s| word >> s & 1 != 0) {
            self.units[s].change(least, most);
            arena = Some(s / SEMAPHORES.len());
        }
        // Of several, it took one at most.
        if let Some(arena) = arena {
            self.sums[arena].change(least, most);
        }
    }

    /// One more was put in.
    pub fn added(&self, s: usize) {
        self.units[s].change(1, 1);
        self.sums[s / SEMAPHORES.len()].change(1, 1);
    }
}

// ---- messages ----

/// It is about to be sent.
const TRIED: u16 = 1;
/// It was sent; by which tube stands beside it.
const SENT: u16 = 2;
/// It was received.
const GOT: u16 = 4;
/// It was received, and was marked.
const MARKED: u16 = 8;
/// A receiver has died that had noted it and not given it back.
const EXCUSED: u16 = 16;
/// How far to the left the tube stands.
const TUBE: u32 = 8;

/// A message.
pub fn message(number: u32, sender: u32, count: u64, tube: usize) -> Message {
    let (number, sender, tube) = (u64::from(number), u64::from(sender), tube as u64);
    let name = number << 32 | count << 4 | tube;
    [number, sender, count, tube, !name ^ sender, name.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)]
}

/// Number, sender, count and tube, if it is whole.
fn read(it: &Message) -> Option<(u32, u32, u64, usize)> {
    let (number, sender, count, tube) = (it[0] as u32, it[1] as u32, it[2], it[3] as usize);
    (message(number, sender, count, tube) == *it && (number as usize) < MESSAGES)
        .then_some((number, sender, count, tube))
}

impl Board {
    /// The number of a message that is about to be sent.
    pub fn next_message(&self) -> u32 {
        let number = self.next_message.fetch_add(1, SeqCst);
        assert!((number as usize) < MESSAGES, "more messages than there are numbers");
        self.messages[number as usize].fetch_or(TRIED, SeqCst);
        number
    }

    /// It was sent.
    pub fn sent(&self, number: u32, tube: usize) {
        self.messages[number as usize].fetch_or(SENT | (tube as u16 + 1) << TUBE, SeqCst);
        self.count(Count::Sent, 1);
    }

    /// A message was received from this tube. `again`: it was marked. Answers whose it is and which of that one's, if all is
    /// well; else what is wrong.
    pub fn received(&self, it: &Message, from: usize, again: bool) -> Result<(u32, u64), (Found, String)> {
        let wrong = |what, text: &str| Err((what, format!("from tube {} {text}: {it:x?}", TUBES[from].name)));
        let Some((number, sender, count, tube)) = read(it) else {
            return wrong(Found::Torn, "a message that contradicts itself");
        };
        if tube != from {
            return wrong(Found::Torn, "a message that was sent by another");
        }
        let before = self.messages[number as usize].fetch_or(if again { MARKED } else { GOT }, SeqCst);
        if before & TRIED == 0 {
            return wrong(Found::Torn, "a message that nobody has sent");
        }
        if before & MARKED != 0 || !again && before & GOT != 0 {
            return wrong(Found::Doubled, &format!("a message once more, marked: {again}, noted before: {before:#x}"));
        }
        self.count(if again { Count::Marked } else { Count::Got }, 1);
        Ok((sender, count))
    }

    /// A worker has died with these notes.
    pub fn settle_tube(&self, copies: u32, holds: u32) {
        if let Some(group) = copies.checked_sub(1) {
            self.undecided[group as usize].fetch_add(1, SeqCst);
        }
        if let Some(number) = holds.checked_sub(1) {
            self.messages[number as usize].fetch_or(EXCUSED, SeqCst);
        }
    }

    /// At the end of a round: what should not be, given how many messages each group of tubes has dropped in it.
    pub fn check_messages(&self, dropped: [u64; GROUPS]) -> Vec<(Found, String)> {
        let mut missing = [0; GROUPS];
        let mut twice = 0;
        let used = self.next_message.load(SeqCst) as usize;
        for entry in &self.messages[..used] {
            let noted = entry.load(SeqCst);
            let tube = usize::from(noted >> TUBE).wrapping_sub(1);
            if noted & SENT != 0 && noted & (GOT | MARKED) == 0 {
                missing[TUBES[tube].group] += 1;
            }
            twice += u64::from(noted & GOT != 0 && noted & MARKED != 0 && noted & EXCUSED == 0);
        }
        let mut all = Vec::new();
        for (group, missing) in missing.into_iter().enumerate() {
            let may = self.undecided[group].load(SeqCst) + dropped[group];
            self.count(Count::Missing, missing);
            self.count(Count::MayMiss, may);
            if missing > may {
                let tubes: Vec<_> = TUBES.iter().filter(|t| t.group == group).map(|t| t.name).collect();
                all.push((
                    Found::Lost,
                    format!("{missing} messages of tubes {tubes:?} are missing, at most {may} may"),
                ));
            }
        }
        if twice > 0 {
            all.push((Found::Doubled, format!("{twice} messages came once more though nobody died with them in hand")));
        }
        all
    }

    /// No message has been sent.
    pub fn forget_messages(&self) {
        for entry in &self.messages[..self.next_message.swap(0, SeqCst) as usize] {
            entry.store(0, SeqCst);
        }
        self.undecided.iter().for_each(|count| count.store(0, SeqCst));
    }
}

/// What all semaphores of an arena have at the start.
pub const TOGETHER: u32 = UNITS * SEMAPHORES.len() as u32;
const _: () = assert!(ARENAS.len() * SEMAPHORES.len() <= 16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::chaos::board::Board;

    #[test]
    fn a_death_inside_down_leaves_one_unit_undecided() {
        let board = Board::shared();
        let bounds = |s: usize| board.units[s].bounds(UNITS);
        board.settle_unit(Unit::Idle.word());
        assert_eq!(bounds(0), (1, 1));
        board.settle_unit(Unit::Taking(0).word());
        assert_eq!(bounds(0), (0, 1));
        board.settle_unit(Unit::Has(1).word());
        assert_eq!(bounds(1), (0, 0));
        board.settle_unit(Unit::Giving(2).word());
        board.settle_unit(Unit::Adding(2).word());
        assert_eq!(bounds(2), (0, 2));
        // A choice has taken one of the two, if any.
        board.settle_unit(Unit::TakingAny(2).word());
        assert_eq!((bounds(4), bounds(5), board.sums[2].bounds(TOGETHER)), ((0, 1), (0, 1), (1, 2)));
        board.added(4);
        assert_eq!((bounds(4), board.sums[2].bounds(TOGETHER)), ((1, 2), (2, 3)));
    }

    fn sent(board: &Board, count: u64, tube: usize) -> Message {
        let number = board.next_message();
        board.sent(number, tube);
        message(number, 7, count, tube)
    }

    fn found(said: Result<(u32, u64), (Found, String)>) -> Option<Found> {
        said.err().map(|(what, _)| what)
    }

    #[test]
    fn a_letter_that_is_torn_from_elsewhere_or_never_sent_is_found() {
        let board = Board::shared();
        let it = sent(board, 1, 2);
        let mut torn = it;
        torn[2] = 9;
        assert_eq!(found(board.received(&torn, 2, false)), Some(Found::Torn));
        assert_eq!(found(board.received(&it, 3, false)), Some(Found::Torn));
        assert_eq!(found(board.received(&message(99, 7, 1, 2), 2, false)), Some(Found::Torn));
        assert_eq!(board.received(&it, 2, false).ok(), Some((7, 1)));
    }

    #[test]
    fn a_message_is_redelivered_only_marked_and_only_after_a_death() {
        let board = Board::shared();
        let (first, second) = (sent(board, 1, 0), sent(board, 2, 0));
        for it in [&first, &second] {
            assert_eq!(found(board.received(it, 0, false)), None);
            assert_eq!(found(board.received(it, 0, false)), Some(Found::Doubled));
            assert_eq!(found(board.received(it, 0, true)), None);
            assert_eq!(found(board.received(it, 0, true)), Some(Found::Doubled));
        }
        board.settle_tube(0, first[0] as u32 + 1);
        board.settle_tube(0, second[0] as u32 + 1);
        assert_eq!(board.check_messages([0; GROUPS]), []);
        let third = sent(board, 3, 0);
        assert_eq!(found(board.received(&third, 0, false)), None);
        assert_eq!(found(board.received(&third, 0, true)), None);
        assert_eq!(board.check_messages([0; GROUPS])[0].0, Found::Doubled);
    }

    #[test]
    fn as_many_messages_may_be_missing_as_receivers_died_copying_and_as_were_dropped() {
        let board = Board::shared();
        let group = TUBES[2].group;
        for count in 0..3 {
            sent(board, count, 2);
        }
        let lost = |dropped: u64| {
            let mut all = [0; GROUPS];
            all[group] = dropped;
            board.check_messages(all).len()
        };
        assert_eq!((lost(0), lost(2), lost(3)), (1, 1, 0));
        board.settle_tube(group as u32 + 1, 0);
        assert_eq!((lost(1), lost(2)), (1, 0));
        board.forget_messages();
        assert_eq!(lost(0), 0);
    }
}
