//! What all processes of the chaos run write to and all others read: which live, what each worker is doing and has in hand, the holders of each
//! permit, and what was found.
//!
//! One anonymous shared mapping, all of it atomics, every access sequentially consistent; zeroed memory is a board on which nothing has
//! happened. A process that is killed at any instruction leaves it as it stands, and that is the point: a worker notes what it is about to do
//! *before* it does it and what became of it *after*, each by one store. So of each that is killed at most one operation is undecided, and
//! [`Board::settle`] says which.
//!
//! | word of a worker | says |
//! |---|---|
//! | `number` | which life this is: no two lives of a round have the same |
//! | `turns` | how many turns came to their end: a worker that makes none is stuck |
//! | `deed`, `needs`, `bars` | what it is at, what it may wait for, what others may wait for because of it: a bit for each kind of object of each arena |
//! | `unit` | what it is doing with a unit of a semaphore: see [`ledger`](super::ledger) |
//! | `copies`, `holds` | what it has of tubes: see [`ledger`](super::ledger) |
//!
//! **Dead processes.** The director, or any other process that ends a life, first notes that it is condemned. So another holder that is found
//! under a permit is a finding, unless it was condemned: no look at a process id that may be another's by now.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

use super::places::{ARENAS, GROUPS, MESSAGES, MOST_PERMITS, POOLS, SEMAPHORES};
use super::units::Units;
use crate::board::shared;

/// Processes that the director keeps alive.
pub const POSTS: usize = 12;
/// Forked children that can be there at once.
pub const CHILDREN: usize = 6;
/// The place of the helper at the end of a round.
pub const CLOSER: usize = POSTS + CHILDREN;
/// All places.
pub const PLACES: usize = CLOSER + 1;
/// Threads that a process can have.
pub const WORKERS: usize = 6;
/// How many lives one round can have.
const LIVES: usize = 1 << 20;

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Deed {
    /// Nothing: it has not begun, or has ended.
    None,
    /// It opens what it will use.
    Birth,
    /// Pools of an arena.
    Pools,
    /// Pools and semaphores of an arena, in one choice.
    Choice,
    /// Semaphores of an arena.
    Units,
    /// The mutex of an arena.
    Store,
    /// A tube of an arena.
    Tube,
    /// A tube or a semaphore of an arena.
    TubeOrUnit,
    /// It attaches an end.
    Attach,
    /// What others make and remove.
    Churn,
    /// It forks, with a permit in hand.
    Fork,
    /// It waits for its forked child, whatever that is at.
    Await,
    /// Anything of an arena but tubes.
    Anything,
    /// It looks after an arena, and waits for nothing.
    Refill,
}

const DEEDS: [Deed; 14] = [
    Deed::None,
    Deed::Birth,
    Deed::Pools,
    Deed::Choice,
    Deed::Units,
    Deed::Store,
    Deed::Tube,
    Deed::TubeOrUnit,
    Deed::Attach,
    Deed::Churn,
    Deed::Fork,
    Deed::Await,
    Deed::Anything,
    Deed::Refill,
];

impl Deed {
    /// What it may have to wait for.
    fn needs(self, arena: usize) -> u32 {
        match self {
            Deed::Refill => 0,
            Deed::Await => u32::MAX,
            other => other.bars(arena),
        }
    }

    /// What others may have to wait for while it does this and is stopped.
    fn bars(self, arena: usize) -> u32 {
        let of = |kinds: u32| kinds << (4 * arena);
        // Making, removing and attaching take locks that a stopped one keeps; a fork waits for those of its process.
        const ADMIN: u32 = 1 << 31;
        match self {
            Deed::None | Deed::Await => 0,
            Deed::Birth | Deed::Churn => ADMIN,
            Deed::Pools => of(1),
            Deed::Choice => of(1 | 2),
            Deed::Units => of(2),
            Deed::Store => of(4),
            Deed::Tube => of(8),
            Deed::TubeOrUnit => of(8 | 2),
            Deed::Attach => of(8) | ADMIN,
            Deed::Fork => of(1) | ADMIN,
            Deed::Anything => of(1 | 2 | 4),
            Deed::Refill => of(2 | 4),
        }
    }
}

/// What one worker says of itself.
#[repr(C)]
pub struct Notes {
    /// Which life it is; 0: none.
    pub number: AtomicU32,
    /// Its thread.
    pub tid: AtomicU32,
    /// Turns that came to their end.
    pub turns: AtomicU64,
    deed: AtomicU32,
    needs: AtomicU32,
    bars: AtomicU32,
    /// What it does with a unit.
    pub unit: AtomicU32,
    /// It copies a message out of a tube of this group, and one.
    pub copies: AtomicU32,
    /// The message that it has noted and not given back, and one.
    pub holds: AtomicU32,
}

impl Notes {
    /// What it is at from now on, where.
    pub fn at(&self, deed: Deed, arena: usize) {
        // A look in between demands too little, not too much.
        self.needs.fetch_or(deed.needs(arena), SeqCst);
        self.bars.fetch_or(deed.bars(arena), SeqCst);
        self.deed.store(deed as u32 | (arena as u32) << 8, SeqCst);
        self.needs.store(deed.needs(arena), SeqCst);
        self.bars.store(deed.bars(arena), SeqCst);
    }

    /// What it may have to wait for.
    pub fn needs(&self) -> u32 {
        self.needs.load(SeqCst)
    }

    /// What others may have to wait for.
    pub fn bars(&self) -> u32 {
        self.bars.load(SeqCst)
    }

    /// What it is at, in words.
    pub fn describe(&self) -> String {
        let word = self.deed.load(SeqCst);
        let deed = DEEDS.get(word as usize & 0xff).copied().unwrap_or(Deed::None);
        let (unit, copies, holds) = (self.unit.load(SeqCst), self.copies.load(SeqCst), self.holds.load(SeqCst));
        let arena = ARENAS[word as usize >> 8 & 3];
        format!("{deed:?} in {arena}, turn {}, unit {unit:#x}, copies {copies}, holds {holds}", self.turns.load(SeqCst))
    }
}

/// What one process says of itself.
#[repr(C)]
pub struct Place {
    /// Which life the process is: condemning it condemns its workers.
    pub number: AtomicU32,
    /// Of a forked child: its process; 0: the place is free.
    pub pid: AtomicU32,
    /// Of a forked child: which life its parent is.
    pub parent: AtomicU32,
    /// How often the backstop has fired in it.
    pub backstops: AtomicU64,
    /// It is about to call exec.
    pub leaves: AtomicU32,
    /// Its threads.
    pub workers: [Notes; WORKERS],
}

/// What can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Found {
    /// One permit or mutex, two holders; or a message twice without a mark.
    Doubled,
    /// A permit, unit, message or slot that does not come back.
    Lost,
    /// A place in an arena that stays out of use.
    Leaked,
    /// Data, messages or objects that contradict themselves, or are another's.
    Torn,
    /// A message after a later one.
    Order,
    /// A holder died with the mutex locked, and the next holder was not told.
    Untold,
    /// An error that is not documented for what was tried.
    Unclear,
    /// Somebody made no turn within the watchdog.
    Wedged,
    /// A process waited for a stopped one of which it needs nothing.
    HeldUp,
    /// A process ended with an error of its own, or crashed.
    Failed,
}

/// All of them, and what the summary calls them.
pub const FOUND: [(Found, &str); 10] = [
    (Found::Doubled, "doubled"),
    (Found::Lost, "lost"),
    (Found::Leaked, "leaked"),
    (Found::Torn, "torn"),
    (Found::Order, "out of order"),
    (Found::Untold, "untold"),
    (Found::Unclear, "unclear errors"),
    (Found::Wedged, "wedged"),
    (Found::HeldUp, "held up"),
    (Found::Failed, "failed"),
];

/// What is counted for the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Permits taken.
    Permits,
    /// Units taken.
    Units,
    /// Sections of a mutex.
    Sections,
    /// Mutexes that told of a death.
    Told,
    /// Arenas and objects made.
    Made,
    /// Arenas and objects removed.
    Removed,
    /// Creations that were refused because the file system was full.
    Full,
    /// Forks.
    Forks,
    /// Processes that were killed by parent or child.
    Family,
    /// Messages sent.
    Sent,
    /// Messages received.
    Got,
    /// Messages that came marked.
    Marked,
    /// Messages that were sent and have not come.
    Missing,
    /// How many may be missing: receivers that died copying, and what was dropped after a second death.
    MayMiss,
}

impl Count {
    /// All of them.
    pub const ALL: [Count; 14] = [
        Count::Permits,
        Count::Units,
        Count::Sections,
        Count::Told,
        Count::Made,
        Count::Removed,
        Count::Full,
        Count::Forks,
        Count::Family,
        Count::Sent,
        Count::Got,
        Count::Marked,
        Count::Missing,
        Count::MayMiss,
    ];
}

/// The board.
#[repr(C)]
pub struct Board {
    /// 1: the round is over, all end by themselves; 2: so does the closing process.
    pub over: AtomicU32,
    /// The director's process.
    pub director: AtomicU32,
    lives: AtomicU32,
    of: [AtomicU32; LIVES],
    condemned: [AtomicU8; LIVES],
    /// The holder of each permit.
    pub owners: [[[AtomicU32; MOST_PERMITS]; POOLS.len()]; ARENAS.len()],
    /// The holder of each mutex.
    pub lockers: [AtomicU32; ARENAS.len()],
    /// What is known of each semaphore's units.
    pub units: [Units; ARENAS.len() * SEMAPHORES.len()],
    /// The same of each arena's units together.
    pub sums: [Units; ARENAS.len()],
    /// Receivers that died while they copied out of a group of tubes.
    pub undecided: [AtomicU64; GROUPS],
    /// Messages that were dropped by each group of tubes before this round.
    pub dropped: [AtomicU64; GROUPS],
    /// One more than the last message's number.
    pub next_message: AtomicU32,
    /// What is noted of each message.
    pub messages: [AtomicU16; MESSAGES],
    found: [AtomicU64; FOUND.len()],
    counts: [AtomicU64; Count::ALL.len()],
    /// Backstops of those that have ended.
    pub backstops: AtomicU64,
    /// All places.
    pub places: [Place; PLACES],
}

impl Board {
    /// A board that all processes forked from here on share. It stays mapped.
    pub fn shared() -> &'static Board {
        // SAFETY: all its fields are atomics.
        unsafe { shared() }
    }

    /// Whether all are to end.
    pub fn is_over(&self) -> bool {
        self.over.load(SeqCst) != 0
    }

    // ---- lives ----

    /// Whether so many lives have been that the round must end.
    pub fn is_full(&self) -> bool {
        let (lives, messages) = (self.lives.load(SeqCst) as usize, self.next_message.load(SeqCst) as usize);
        lives > LIVES / 4 * 3 || messages > MESSAGES / 4 * 3
    }

    /// A new life; of the process `of`, or, if that is 0, one itself.
    pub fn life(&self, of: u32) -> u32 {
        let number = self.lives.fetch_add(1, SeqCst) + 1;
        assert!((number as usize) < LIVES, "more lives than there are numbers");
        self.of[number as usize].store(if of == 0 { number } else { of }, SeqCst);
        number
    }

    /// The process, or the worker, is about to end, and what it has comes back from here on.
    pub fn condemn(&self, number: u32) {
        self.condemned[number as usize].store(1, SeqCst);
    }

    /// Which process a life belongs to.
    pub fn process_of(&self, number: u32) -> u32 {
        self.of[number as usize].load(SeqCst)
    }

    /// Whether a life has ended, or may have.
    pub fn is_gone(&self, number: u32) -> bool {
        let is = |number: u32| self.condemned[number as usize].load(SeqCst) != 0;
        is(number) || is(self.process_of(number))
    }

    /// Whether something is still noted as this process's: a permit, or a mutex.
    pub fn has_something(&self, process: u32) -> bool {
        let words = self.owners.iter().flatten().flatten().chain(&self.lockers);
        let mut all = words.map(|w| w.load(SeqCst)).filter(|n| *n != 0);
        all.any(|number| self.process_of(number) == process)
    }

    /// A process has ended, or will never do anything any more: what it left undecided is counted. Once for each life.
    pub fn settle(&self, place: usize) {
        let place = &self.places[place];
        for worker in &place.workers {
            if worker.number.swap(0, SeqCst) == 0 {
                continue;
            }
            self.settle_unit(worker.unit.swap(0, SeqCst));
            self.settle_tube(worker.copies.swap(0, SeqCst), worker.holds.swap(0, SeqCst));
            worker.at(Deed::None, 0);
        }
        self.backstops.fetch_add(place.backstops.swap(0, SeqCst), SeqCst);
        place.leaves.store(0, SeqCst);
        place.number.store(0, SeqCst);
        place.parent.store(0, SeqCst);
        // Last: from here on the place is another's.
        place.pid.store(0, SeqCst);
    }

    /// Between two rounds, while no process lives: what was is forgotten.
    pub fn forget(&self) {
        for number in 0..=self.lives.swap(0, SeqCst) as usize {
            self.of[number].store(0, SeqCst);
            self.condemned[number].store(0, SeqCst);
        }
        self.forget_messages();
        self.units.iter().chain(&self.sums).for_each(Units::forget);
        self.owners.iter().flatten().flatten().chain(&self.lockers).for_each(|word| word.store(0, SeqCst));
        self.over.store(0, SeqCst);
    }

    // ---- findings ----

    /// Counts a finding.
    pub fn found(&self, what: Found) {
        self.found[what as usize].fetch_add(1, SeqCst);
    }

    /// How many there are of a kind.
    pub fn findings(&self, what: Found) -> u64 {
        self.found[what as usize].load(SeqCst)
    }

    /// How many there are in all.
    pub fn all_findings(&self) -> u64 {
        FOUND.iter().map(|(what, _)| self.findings(*what)).sum()
    }

    /// Counts what is no finding.
    pub fn count(&self, what: Count, by: u64) {
        self.counts[what as usize].fetch_add(by, SeqCst);
    }

    /// How often that was.
    pub fn counted(&self, what: Count) -> u64 {
        self.counts[what as usize].load(SeqCst)
    }
}
