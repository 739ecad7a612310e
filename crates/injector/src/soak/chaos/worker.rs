//! One thread of a process: its random choices, its notes on the board, and what it shows while it has something.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use chappe::{OwnedPermit, Permit, Permits};

use super::board::{Board, CLOSER, Count, Deed, Found, Notes, POSTS};
use super::ledger::Unit;
use super::places::{ARENAS, POOLS};
use crate::soak::dice::Dice;

/// Why a life ends early.
pub type Broken = Box<dyn std::error::Error>;

/// A known mistake that the chaos run must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Receivers give back first what they note then: messages are lost.
    Forgetful,
    /// A worker that has given a permit back goes on as if it had it.
    Careless,
    /// A worker that puts a unit back puts in one more, now and then.
    Generous,
    /// A worker that has a mutex locked leaves it with its data in pieces.
    Untidy,
    /// One keeps a permit for ever.
    Greedy,
}

impl Mistake {
    /// As the command line names it.
    pub fn named(name: &str) -> Option<Mistake> {
        Some(match name {
            "forgetful" => Mistake::Forgetful,
            "careless" => Mistake::Careless,
            "generous" => Mistake::Generous,
            "untidy" => Mistake::Untidy,
            "greedy" => Mistake::Greedy,
            _ => return None,
        })
    }
}

/// What all processes have from the director.
pub struct Chaos {
    /// Where everything is noted.
    pub board: &'static Board,
    /// Where findings are told in words: each by one write at the end.
    pub log: File,
    /// What is to be wrong.
    pub mistake: Option<Mistake>,
    /// A file system that is soon full, if there is one.
    pub small: Option<std::path::PathBuf>,
}

impl Chaos {
    /// Counts a finding, and tells of it.
    pub fn found(&self, what: Found, text: &str) {
        self.board.found(what);
        self.tell(&format!("{what:?}: {text}"));
    }

    /// A line for the findings.
    pub fn tell(&self, text: &str) {
        let line = format!("[{}] {}\n", std::process::id(), text.replace('\n', "\n    "));
        // Where it cannot be written it was counted.
        let _ = (&self.log).write_all(line.as_bytes());
    }
}

/// One thread.
pub struct Worker<'z> {
    /// What it has from the director.
    pub chaos: &'z Chaos,
    /// Which place its process has on the board.
    pub place: usize,
    /// Its own notes.
    pub notes: &'static Notes,
    /// Which life it is.
    pub number: u32,
    dice: Dice,
    slow: bool,
}

impl<'z> Worker<'z> {
    /// Whether its process was forked from another process's, and not by the director.
    pub fn is_forked(&self) -> bool {
        (POSTS..CLOSER).contains(&self.place)
    }

    /// The worker of this number of the process at a place, called from its own thread.
    pub fn new(chaos: &'z Chaos, place: usize, worker: usize, seed: u64) -> Worker<'z> {
        let home = &chaos.board.places[place];
        let notes = &home.workers[worker];
        let number = chaos.board.life(home.number.load(SeqCst));
        notes.turns.store(0, SeqCst);
        // SAFETY: takes nothing, cannot fail.
        notes.tid.store(unsafe { libc::gettid() } as u32, SeqCst);
        notes.at(Deed::Birth, 0);
        notes.number.store(number, SeqCst);
        let mut dice = Dice::new(seed);
        let slow = dice.roll(3) == 0;
        Worker { chaos, place, notes, number, dice, slow }
    }

    /// It has nothing in hand any more, and does nothing.
    pub fn ends(&self) {
        self.notes.number.store(0, SeqCst);
        self.at(Deed::None, 0);
    }

    /// Whether its process is about to be another program.
    pub fn leaves(&self) -> bool {
        self.board().places[self.place].leaves.load(SeqCst) != 0
    }

    /// The board.
    pub fn board(&self) -> &'static Board {
        self.chaos.board
    }

    /// Which life its process is.
    pub fn process(&self) -> u32 {
        self.board().process_of(self.number)
    }

    /// A number below `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.dice.roll(below)
    }

    /// An arena: the first more often, so that there is something to wait for.
    pub fn arena(&mut self) -> usize {
        match self.roll(6) {
            0 => 1,
            1 => 2,
            _ => 0,
        }
    }

    /// So many microseconds at most.
    pub fn moment(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.roll(most))
    }

    /// Whether this mistake is to be made, every `of`-th time.
    pub fn errs(&mut self, mistake: Mistake, of: u64) -> bool {
        self.chaos.mistake == Some(mistake) && self.roll(of) == 0
    }

    /// What it is at.
    pub fn at(&self, deed: Deed, arena: usize) {
        self.notes.at(deed, arena);
    }

    /// A turn has come to its end.
    pub fn turn(&mut self) {
        self.notes.turns.fetch_add(1, SeqCst);
        self.board().places[self.place].backstops.store(chappe::recoveries().backstops, SeqCst);
        if self.slow || self.roll(32) == 0 {
            std::thread::sleep(self.moment(600));
        }
    }

    /// Nobody is there to do it with: the next one is about to come.
    pub fn alone(&mut self) {
        self.turn();
        std::thread::sleep(Duration::from_millis(1));
    }

    /// In the middle of something: where death should find it.
    pub fn dawdle(&mut self) {
        match self.roll(4) {
            0 | 1 => std::thread::sleep(self.moment(300)),
            2 => (0..self.roll(2_000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    /// Notes what it does with a unit.
    pub fn unit(&self, unit: Unit) {
        self.notes.unit.store(unit.word(), SeqCst);
    }

    /// Shows that permits of a pool are this worker's, or, if they belong to the process, that one's.
    pub fn claim(&self, arena: usize, pool: usize, indices: impl IntoIterator<Item = u32>, owned: bool) -> Claim<'z> {
        let me = if owned { self.process() } else { self.number };
        Claim::of(self.chaos, me, (arena, pool), indices)
    }
}

/// What can be claimed.
pub trait Held {
    /// The numbers of the permits.
    fn indices(&self) -> Vec<u32>;
}

impl Held for Permit<'_> {
    fn indices(&self) -> Vec<u32> {
        vec![self.index()]
    }
}

impl Held for OwnedPermit {
    fn indices(&self) -> Vec<u32> {
        vec![self.index()]
    }
}

impl Held for Permits<'_> {
    fn indices(&self) -> Vec<u32> {
        Permits::indices(self).collect()
    }
}

/// Permits that one has, as long as it lives: to be dropped before they are given back.
pub struct Claim<'z> {
    chaos: &'z Chaos,
    me: u32,
    words: Vec<&'static AtomicU32>,
    what: (usize, usize),
}

impl<'z> Claim<'z> {
    /// Shows that these permits of a pool, by arena and number, are a life's.
    pub fn of(chaos: &'z Chaos, me: u32, what: (usize, usize), indices: impl IntoIterator<Item = u32>) -> Claim<'z> {
        let mut claim = Claim { chaos, me, words: Vec::new(), what };
        indices.into_iter().for_each(|index| claim.add(index));
        claim
    }

    fn add(&mut self, index: u32) {
        let (arena, pool) = self.what;
        let board = self.chaos.board;
        board.count(Count::Permits, 1);
        if index >= POOLS[pool].1 {
            return self.chaos.found(Found::Torn, &format!("{} has a permit {index}", self.name()));
        }
        let word = &board.owners[arena][pool][index as usize];
        let before = word.swap(self.me, SeqCst);
        if before != 0 && !board.is_gone(before) {
            self.chaos.found(
                Found::Doubled,
                &format!("life {} got permit {index} of {} which is {before}'s", self.me, self.name()),
            );
        }
        self.words.push(word);
    }

    fn name(&self) -> String {
        format!("{}/{}", ARENAS[self.what.0], POOLS[self.what.1].0)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        for word in &self.words {
            if let Err(other) = word.compare_exchange(self.me, 0, SeqCst, SeqCst) {
                let text = format!("life {} had a permit of {}, and {other} got it meanwhile", self.me, self.name());
                self.chaos.found(Found::Doubled, &text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_under_which_a_living_one_is_found_is_doubled_and_one_of_the_dead_is_not() {
        let board = Board::shared();
        let log = File::options().write(true).open("/dev/null").unwrap();
        let chaos = Chaos { board, log, mistake: None, small: None };
        let process = board.life(0);
        let (one, other) = (board.life(process), board.life(0));
        std::mem::forget(Claim::of(&chaos, one, (0, 0), [0]));
        drop(Claim::of(&chaos, other, (0, 1), [0, 1]));
        assert_eq!(board.all_findings(), 0);
        let second = Claim::of(&chaos, other, (0, 0), [0]);
        assert_eq!(board.findings(Found::Doubled), 1);
        // Its process is about to be killed.
        board.condemn(process);
        std::mem::forget(second);
        assert!(board.is_gone(one) && !board.is_gone(other));
        board.owners[0][0][0].store(one, SeqCst);
        let third = Claim::of(&chaos, other, (0, 0), [0]);
        assert_eq!(board.findings(Found::Doubled), 1);
        // Somebody comes while it has it.
        board.owners[0][0][0].store(one, SeqCst);
        drop(third);
        assert_eq!(board.findings(Found::Doubled), 2);
        assert!(board.has_something(process));
        drop(Claim::of(&chaos, other, (0, 1), [2]));
        assert_eq!(board.findings(Found::Torn), 1);
    }
}
