//! A dictionary in memory that threads or processes share, any of which may be killed or stopped at any step.
//!
//! Buckets of sorted lists (synthesis, 5.2.3: safe traversal of a list from which others delete,
//! figure 5.7; nonblocking-real-time, 2.1). Synthesis counts the readers of an element, and lets
//! the last one unlink it: a reader that dies there keeps it for ever. Here there are no reader
//! counts: memory is type-stable, each link has a tag that rises with every change of it, and a
//! reader of an element looks at the link that led there once more (Michael's lists with tags). A
//! value is a cell of its own, which one swap of the element's value word puts in place of another.
//! So each operation has one step at which it happens, and no operation waits for another member.
//! (Terms: `book/src/glossary.md`, and `turns`.)
//!
//! ```text
//!  bucket --> node: next ------> node: next, flagged ------> node: next --> 0      sorted by id (hash and length), then key;
//!                                                                                     an ordered table has one list, sorted by key
//!             value -> cell      value: flagged (removed)    value -> cell
//! ```
//!
//! | step | by | what happened |
//! |---|---|---|
//! | `link`: its last word --> the new node | insert | the key is there |
//! | `value` --> another cell | put, compare-and-swap | it has another value |
//! | `value` flagged | remove | the key is not there |
//! | `next` flagged, then unlinked, then freed | remove, or any later search | nothing that can be seen |
//!
//! A node or cell is FREE, OWNED by a member (it prepares it, has just put it in place, or will
//! give it back: it has it *in hand*), or USED: see `turns`.
//!
//! Invariants:
//! - I1: tags and turns only rise. A swap of a word from what was seen means that nothing has happened to it since.
//! - I2: only its owner puts an OWNED node or cell in place. A node or cell that is USED, or whose owner is dead, is not put in place
//!   (again) before it was FREE.
//! - I3: a value is flagged before its node's `next`, that before the node is unlinked, that before
//!   it is freed. A flagged word changes only when its node has an owner again. So if a node's
//!   `next` is flagged, and a search for its key does not meet the node after that, it is not
//!   linked.
//! - I4: a search unlinks each node that is over (removed) before it goes past it, and goes past none whose key is not smaller. So
//!   keys rise along a list, and none is there twice.
//! - I5: a reader that has read the words of a node, and then the link to it unchanged, has read what was that node's while it was linked:
//!   a link changes when its own node is deleted, or the one behind is unlinked.
//! - I6: a reader that has read a cell, and then the value word that led to it unchanged, has read that value, and it was the key's at
//!   that moment: removal flags the value first.
//! - I7: the turn of a node that is freed was read while it was linked, that of a cell while a value led to it. So no member frees
//!   what is another's by now, and if several members free one only the first does.
//! - I8: a cell says of which node it is before that node's value leads to it. So a USED cell to which the value of its node
//!   does not lead is not in use.
//! - I9: the value of a node that is FREE is flagged, or has never led anywhere.
//! - I10: each member has at most one node that is in hand, or removed and not yet free, and the
//!   table has as many spare nodes as it can have members. So while fewer keys are there than the
//!   table was made for, a node is free. "Full" is answered only after as many nodes as that were
//!   in place at one moment: the thread has seen each USED, with a value that is not flagged, twice
//!   in the same turn (I3, I7). And the key was not among them: the link behind which it belongs
//!   did not change meanwhile (I4).
//! - I11: the number of a dead member is a later one's as soon as its death is made up for, which another recoverer may do at any time. So a recoverer
//!   swaps a word from what it read only if that was still left to do after it had read that. (The memory is the table's: it visits, arena, visit.rs.)
//!
//! Races: R1 two insert one key, or change one value: one swap. R2 insert behind a node that is
//! being removed (the new node would be unlinked with it, and lost): the flag is in the word that
//! both swap. R3 a value is changed while its key is removed: one word. R4 two unlink, or free, one
//! node: I1, I7. R5 a recoverer that was stopped, and a later owner of the number: a recoverer that
//! has read the state, and then sees the member's death not yet recovered, has read a state of the
//! dead member; the swap is from that state.
//!
//! Ordering edges: E1 (release/acquire) a node's and a cell's words before the link or value that
//! leads there. E2 (release/acquire) a cell is taken before it is written over, and it was let go
//! of before that: a reader of a word of the new content sees afterwards that the value, or the
//! link, has changed. E3 (SeqCst): the change before the look for members that wait for one.
//!
//! Progress: all operations are lock-free: a swap fails, or a search begins again, because another member's change succeeded. A look-up that meets no
//! change is a few loads, and writes nothing. The number of retries is bounded by the number of changes that others make to one list
//! meanwhile (nonblocking-real-time, 2.3).
//!
//! Deaths: before its one step, an operation has not happened; after it, it has. `recovery` finds
//! what the dead member had taken and not put in place, and what it had taken out and not freed. A
//! search unlinks and frees a node that a dead member has removed, but not the cell of its value:
//! recovery frees that, or a member that finds no room. Iteration holds nothing.
//!
//! Explored: `tests/crash_table.rs`. Left out: a member that was stopped for 2^42 changes of one word, or for 2^44 turns of one node.

mod place;
mod recovery;

pub use place::{MOST_BYTES, MOST_ENTRIES, Shape, Table};

use crate::tries::{self, Loop};
#[cfg(feature = "sim")]
use crate::turns::is_owned_by;
use crate::turns::{self, FREE, USED, kind, read, turn, write};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::step;
use place::{flagged, index, is_flagged, leading};
use std::cmp::Ordering as Order;

/// How often a member looks for a free node while others have nodes in hand.
const MOST_TRIES: u32 = 100;

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// For another entry.
    Entries,
    /// For a change: too many members are changing something just now.
    Values,
}

/// What is to become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'b> {
    /// It stays, or is not made.
    Keep,
    /// It has this value from now on.
    Put(&'b [u8]),
    /// It goes.
    Remove,
}

/// Decides what becomes of an entry, each time that it is found to have another value.
pub trait Decide {
    /// `old` is what it has, if it is there.
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_>;
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// How many bytes of the old value were copied out, if there was one.
    pub old: Option<usize>,
    /// Whether anything was changed.
    pub done: bool,
}

/// A cell that a member has in hand, for one change.
#[derive(Clone, Copy)]
pub struct Cell {
    cell: u32,
    /// Its state.
    mine: u64,
}

/// A key, and where it belongs.
#[derive(Clone, Copy)]
struct Key<'k> {
    hash: u64,
    id: u64,
    bytes: &'k [u8],
}

/// The result of a search.
#[derive(Clone, Copy)]
struct Found<'a> {
    /// The link to the first node that is not before the key, and what it said.
    link: &'a AtomicU64,
    said: u64,
    /// That node, if it has the key, and its value word.
    node: Option<(u32, u64)>,
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let all = u128::from(a) * u128::from(b);
    all as u64 ^ (all >> 64) as u64
}

/// The first four bytes, for comparison.
#[inline(always)]
fn beginning(bytes: &[u8]) -> u64 {
    let mut first = [0; 4];
    let len = bytes.len().min(4);
    first[..len].copy_from_slice(&bytes[..len]);
    u32::from_be_bytes(first).into()
}

#[inline(always)]
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let parts = bytes.chunks_exact(8);
    let rest = parts.remainder();
    let last = (!rest.is_empty()).then(|| {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(word)
    });
    parts.map(|part| u64::from_le_bytes(part.try_into().expect("eight bytes"))).chain(last)
}

impl<'a> Table<'a> {
    #[inline(always)]
    fn locate<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        if self.shape().ordered {
            return Key { hash: 0, id: beginning(bytes) << 32 | bytes.len() as u64, bytes };
        }
        let mut hash = self.seed() ^ FACTOR;
        for word in words_of(bytes) {
            hash = folded(hash ^ word, FACTOR | 1);
        }
        let hash = folded(hash, FACTOR ^ bytes.len() as u64);
        Key { hash, id: hash >> 32 << 32 | bytes.len() as u64, bytes }
    }

    /// How a node's key compares, or a mixture of its old and new bytes: the caller finds out which.
    #[inline(always)]
    fn compare(&self, node: u32, key: &Key<'_>) -> Order {
        // Acquire: E2, before the second look at the link.
        let id = self.id(node).load(Ordering::Acquire);
        if self.shape().ordered {
            return self.compare_in_order(node, id, key);
        }
        if id != key.id {
            return id.cmp(&key.id);
        }
        for (word, wanted) in self.key(node).iter().zip(words_of(key.bytes)) {
            // Acquire: as above.
            let word = word.load(Ordering::Acquire);
            if word != wanted {
                return word.cmp(&wanted);
            }
        }
        Order::Equal
    }

    /// As [`Table::compare`], by the bytes from the first on, and then by length.
    fn compare_in_order(&self, node: u32, id: u64, key: &Key<'_>) -> Order {
        let first = (id >> 32).cmp(&(key.id >> 32));
        // No more than the node's key has: the bytes behind may be an older key's.
        let words = (id as u32 as usize).div_ceil(8);
        let pairs = self.key(node).iter().take(words).zip(words_of(key.bytes));
        // Acquire: as in `compare`.
        let rest = pairs.map(|(word, wanted)| word.load(Ordering::Acquire).swap_bytes().cmp(&wanted.swap_bytes()));
        let rest = if first.is_eq() { rest.fold(Order::Equal, Order::then) } else { first };
        rest.then((id as u32).cmp(&(key.id as u32)))
    }

    /// The first node whose key is not smaller; with `beyond`, greater. Unlinks nodes that are over on the way.
    #[inline(always)]
    fn find(&self, key: &Key<'_>, beyond: bool) -> Found<'a> {
        let mut tries = 0;
        loop {
            if let Some(found) = self.find_once(key, beyond) {
                return found;
            }
            tries += 1;
            tries::retried(Loop::Find, tries);
        }
    }

    #[inline(always)]
    fn find_once(&self, key: &Key<'_>, beyond: bool) -> Option<Found<'a>> {
        let mut link = self.bucket(key.hash);
        // Acquire: E1.
        let mut said = link.load(Ordering::Acquire);
        loop {
            let Some(node) = index(said) else { return Some(Found { link, said, node: None }) };
            // Acquire, both: E1, and before the second look at the link.
            let next = self.next(node).load(Ordering::Acquire);
            let value = self.value(node).load(Ordering::Acquire);
            let order = self.compare(node, key);
            step!("read a node, not yet sure of it");
            // Acquire: I5.
            if link.load(Ordering::Acquire) != said {
                return None;
            }
            if is_flagged(next) || is_flagged(value) {
                said = self.unlink(link, said, node, next)?;
                continue;
            }
            match order {
                Order::Less => (link, said) = (self.next(node), next),
                Order::Equal if beyond => (link, said) = (self.next(node), next),
                Order::Equal => return Some(Found { link, said, node: Some((node, value)) }),
                Order::Greater if beyond => return Some(Found { link, said, node: Some((node, value)) }),
                Order::Greater => return Some(Found { link, said, node: None }),
            }
        }
    }

    /// I3: takes a node that is over out of its list. Answers what the link says then; `None`: it changed meanwhile.
    #[cold]
    fn unlink(&self, link: &AtomicU64, said: u64, node: u32, next: u64) -> Option<u64> {
        let next = if is_flagged(next) { next } else { self.flag(node, next)? };
        // Acquire: I7, before the swap of the link.
        let state = self.node_state(node).load(Ordering::Acquire);
        let onward = leading(said, index(next));
        // AcqRel: E1, of what comes behind. Relaxed, a failure: the caller looks again.
        link.compare_exchange(said, onward, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        step!("unlinked, not yet free");
        self.free(self.node_state(node), turn(state));
        Some(onward)
    }

    /// I3: flags the node's link, so that nothing is put in behind it from here on. Answers what the link says then.
    fn flag(&self, node: u32, next: u64) -> Option<u64> {
        let word = flagged(next);
        // AcqRel: after the value. Relaxed, a failure: another member did, or something was put in behind: the caller looks again.
        self.next(node).compare_exchange(next, word, Ordering::AcqRel, Ordering::Relaxed).ok().map(|_| word)
    }

    /// I7: frees a node or cell, if it still is in that turn.
    #[inline(always)]
    fn free(&self, state: &AtomicU64, its: u64) {
        turns::free(state, its);
    }

    #[inline(always)]
    fn take_node(&self, me: u16) -> Result<(u32, u64), Full> {
        let (entries, hint) = (self.shape().entries, self.node_hint(me));
        match turns::take(me, 0..entries, hint, |i| self.node_state(i)) {
            Some(node) => Ok(node),
            None => self.take_spare_node(me),
        }
    }

    /// I10: takes a free node, unless the table is full.
    #[cold]
    fn take_spare_node(&self, me: u16) -> Result<(u32, u64), Full> {
        let (nodes, hint) = (self.shape().nodes(), self.node_hint(me));
        for tries in 0..MOST_TRIES {
            self.sweep();
            if self.is_full() {
                return Err(Full::Entries);
            }
            if let Some(node) = turns::take(me, 0..nodes, hint, |i| self.node_state(i)) {
                return Ok(node);
            }
            tries::retried(Loop::Change, tries);
        }
        Err(Full::Values)
    }

    /// I10: whether at one moment during this call there were as many entries as the table is made for.
    fn is_full(&self) -> bool {
        let in_place = |node| {
            // Acquire, both: I3, the state before the value, and the first look at all before the second.
            let state = self.node_state(node).load(Ordering::Acquire);
            let value = self.value(node).load(Ordering::Acquire);
            // Acquire: the value was that turn's.
            let same = self.node_state(node).load(Ordering::Acquire) == state;
            (same && kind(state) == USED && !is_flagged(value)).then_some((node, turn(state)))
        };
        let first: Vec<_> = (0..self.shape().nodes()).filter_map(in_place).collect();
        let most = self.shape().entries as usize;
        step!("looked once at what is in place");
        first.len() >= most && first.iter().filter(|seen| in_place(seen.0) == Some(**seen)).count() >= most
    }

    fn take_cell(&self, me: u16) -> Result<(u32, u64), Full> {
        let take = || turns::take(me, 0..self.shape().cells(), self.cell_hint(me), |i| self.cell_state(i));
        take().or_else(|| if self.sweep() { take() } else { None }).ok_or(Full::Values)
    }

    /// A cell with this value, for a node: one in hand, or a free one.
    #[inline(always)]
    fn filled(&self, me: u16, node: u32, bytes: &[u8], hand: Option<Cell>) -> Result<(u32, u64), Full> {
        let (cell, mine) = match hand {
            Some(Cell { cell, mine }) => (cell, mine),
            None => self.take_cell(me)?,
        };
        // Release: E2, I8.
        self.of(cell).store(u64::from(node) | (bytes.len() as u64) << 32, Ordering::Release);
        write(self.bytes(cell), bytes);
        Ok((cell, mine))
    }

    /// The value of a node, of which this word was read. `None`: it has changed meanwhile.
    #[inline(always)]
    fn read_value(&self, node: u32, value: u64, to: &mut [u8]) -> Option<usize> {
        let cell = index(value)?;
        // Acquire: E2, before the second look at the value.
        let len = (self.of(cell).load(Ordering::Acquire) >> 32) as usize;
        // Plain data always has the same length: known at compile time.
        let len = if len == to.len() {
            read(self.bytes(cell), to);
            len
        } else {
            let len = len.min(to.len());
            read(self.bytes(cell), &mut to[..len]);
            len
        };
        step!("read a value, not yet sure of it");
        // Acquire: I6.
        (self.value(node).load(Ordering::Acquire) == value).then_some(len)
    }

    /// Copies the value of a key out, if it is there. Answers how many bytes it has.
    #[inline(always)]
    pub fn get(&self, key: &[u8], to: &mut [u8]) -> Option<usize> {
        let key = self.locate(key);
        let mut tries = 0;
        loop {
            let (node, value) = self.find(&key, false).node?;
            if let Some(len) = self.read_value(node, value, to) {
                return Some(len);
            }
            tries += 1;
            tries::retried(Loop::Get, tries);
        }
    }

    /// Changes an entry as `decide` says, which is called again each time that another member changes it first. The old value is in `old`.
    ///
    /// # Errors
    /// There is no room; nothing is changed.
    ///
    /// # Panics
    /// If a key or value is longer than the table's.
    #[inline]
    pub fn change(&self, me: u16, key: &[u8], old: &mut [u8], decide: &mut impl Decide) -> Result<Changed, Full> {
        self.change_by(me, key, old, decide, None)
    }

    /// A cell for one change, for which there is room then, whatever others do meanwhile.
    ///
    /// # Errors
    /// There is none.
    pub fn reserve(&self, me: u16) -> Result<Cell, Full> {
        self.take_cell(me).map(|(cell, mine)| Cell { cell, mine })
    }

    /// As [`Table::change`], of an entry that is there and stays there, with a cell that was reserved for this.
    pub fn change_with(&self, hand: Cell, me: u16, key: &[u8], old: &mut [u8], decide: &mut impl Decide) {
        let changed = self.change_by(me, key, old, decide, Some(hand));
        debug_assert!(changed.is_ok(), "it has its cell");
        if !changed.is_ok_and(|changed| changed.done) {
            self.free(self.cell_state(hand.cell), turn(hand.mine));
        }
    }

    #[inline(always)]
    fn change_by(
        &self,
        me: u16,
        key: &[u8],
        old: &mut [u8],
        decide: &mut impl Decide,
        hand: Option<Cell>,
    ) -> Result<Changed, Full> {
        assert!(key.len() <= self.shape().key as usize, "a key of {} bytes", key.len());
        let key = self.locate(key);
        let mut tries = 0;
        loop {
            let found = self.find(&key, false);
            let done = match found.node {
                Some((node, value)) => self.change_value(me, &key, (node, value), old, decide, hand)?,
                None => self.insert(me, &key, &found, decide)?,
            };
            if let Some(changed) = done {
                return Ok(changed);
            }
            tries += 1;
            tries::retried(Loop::Change, tries);
        }
    }

    /// Changes an entry that is there. `None`: another member has changed it meanwhile.
    #[inline(always)]
    fn change_value(
        &self,
        me: u16,
        key: &Key<'_>,
        (node, value): (u32, u64),
        old: &mut [u8],
        decide: &mut impl Decide,
        hand: Option<Cell>,
    ) -> Result<Option<Changed>, Full> {
        let Some(len) = self.read_value(node, value, old) else { return Ok(None) };
        let its = index(value).map_or(0, |cell| cell);
        // Acquire: I7, before the swap of the value.
        let state = self.cell_state(its).load(Ordering::Acquire);
        let there = self.value(node);
        match decide.decide(Some(&old[..len])) {
            Change::Keep => return Ok(Some(Changed { old: Some(len), done: false })),
            Change::Put(bytes) => {
                let (cell, mine) = self.filled(me, node, bytes, hand)?;
                step!("value written, not yet in place");
                // SeqCst: E1, E3. Relaxed, a failure: it has another value.
                if there
                    .compare_exchange(value, leading(value, Some(cell)), Ordering::SeqCst, Ordering::Relaxed)
                    .is_err()
                {
                    if hand.is_none() {
                        self.free(self.cell_state(cell), turn(mine));
                    }
                    return Ok(None);
                }
                step!("value in place, not yet said");
                turns::settle(self.cell_state(cell), mine);
            }
            Change::Remove => {
                // SeqCst: I3, E3. Relaxed, a failure: it has another value.
                let removed = flagged(leading(value, None));
                if there.compare_exchange(value, removed, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                    return Ok(None);
                }
                step!("removed, still linked");
                self.find(key, false);
            }
        }
        step!("old value not yet free");
        self.free(self.cell_state(its), turn(state));
        // Relaxed: a hint.
        self.cell_hint(me).store(its.into(), Ordering::Relaxed);
        Ok(Some(Changed { old: Some(len), done: true }))
    }

    /// Inserts an entry that is not there. `None`: the list has changed meanwhile.
    #[inline(always)]
    fn insert(
        &self,
        me: u16,
        key: &Key<'_>,
        found: &Found<'a>,
        decide: &mut impl Decide,
    ) -> Result<Option<Changed>, Full> {
        let Change::Put(bytes) = decide.decide(None) else { return Ok(Some(Changed { old: None, done: false })) };
        let (node, mine) = match self.take_node(me) {
            Ok(node) => node,
            // Acquire: I10, the key was not among those that were there.
            Err(_) if found.link.load(Ordering::Acquire) != found.said => return Ok(None),
            Err(full) => return Err(full),
        };
        step!("node taken");
        let (cell, its) = match self.filled(me, node, bytes, None) {
            Ok(cell) => cell,
            Err(full) => {
                self.free(self.node_state(node), turn(mine));
                return Err(full);
            }
        };
        // Release: E2.
        self.id(node).store(key.id, Ordering::Release);
        write(self.key(node), key.bytes);
        let (next, value) = (self.next(node), self.value(node));
        // Relaxed, both loads: only its owner changes what is flagged, or new. Release: E1, E2.
        next.store(leading(next.load(Ordering::Relaxed), index(found.said)), Ordering::Release);
        value.store(leading(value.load(Ordering::Relaxed), Some(cell)), Ordering::Release); // Release: as above.
        step!("node ready, not yet linked");
        let linked = leading(found.said, Some(node));
        // SeqCst: E1, E3. Relaxed, a failure: the caller looks again.
        if found.link.compare_exchange(found.said, linked, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            self.free(self.cell_state(cell), turn(its));
            // Release: I9. Relaxed: as above.
            value.store(flagged(value.load(Ordering::Relaxed)), Ordering::Release);
            self.free(self.node_state(node), turn(mine));
            return Ok(None);
        }
        step!("linked, not yet said");
        turns::settle(self.node_state(node), mine);
        turns::settle(self.cell_state(cell), its);
        Ok(Some(Changed { old: None, done: true }))
    }

    /// Where a walk begins.
    pub fn start() -> Walk {
        Walk { bucket: 0, key: Vec::new(), begun: false }
    }

    /// Where a walk of an ordered table goes on after a key, whether it is there or not.
    pub fn start_after(key: &[u8]) -> Walk {
        Walk { bucket: 0, key: key.to_vec(), begun: true }
    }

    /// The next entry of a walk: its key and value. A walk returns every key that was there throughout the walk, none twice, and none that
    /// was not there when it was returned.
    pub fn step(&self, walk: &mut Walk, value: &mut [u8]) -> Option<(Vec<u8>, usize)> {
        while walk.bucket < self.shape().buckets() {
            if let Some((key, len)) = self.beyond(walk, value) {
                walk.key.clone_from(&key);
                walk.begun = true;
                return Some((key, len));
            }
            *walk = Walk { bucket: walk.bucket + 1, key: std::mem::take(&mut walk.key), begun: false };
        }
        None
    }

    /// The entry after the last one, in its bucket.
    fn beyond(&self, walk: &Walk, value: &mut [u8]) -> Option<(Vec<u8>, usize)> {
        let mut tries = 0;
        loop {
            // The empty key is smaller than every key: no key has length 0.
            let after =
                if walk.begun { self.locate(&walk.key) } else { Key { hash: walk.bucket.into(), id: 0, bytes: &[] } };
            let found = self.find(&after, true);
            let (node, word) = found.node?;
            // Acquire: as in `compare`.
            let len = (self.id(node).load(Ordering::Acquire) as u32).min(self.shape().key) as usize;
            let mut key = vec![0; len];
            read(self.key(node), &mut key);
            // The value unchanged, and not flagged, says that the node is that key's still: I3.
            if let Some(len) = self.read_value(node, word, value) {
                return Some((key, len));
            }
            tries += 1;
            tries::retried(Loop::Walk, tries);
        }
    }

    /// How many nodes are not free: as many as there are entries, while no member changes any.
    pub fn entries(&self) -> u32 {
        // Relaxed: a count that may be out of date when it is told.
        (0..self.shape().nodes()).filter(|i| kind(self.node_state(*i).load(Ordering::Relaxed)) != FREE).count() as u32
    }

    /// How many nodes and cells a member has in hand, for onlookers.
    #[cfg(feature = "sim")]
    pub fn in_hand(&self, me: u16) -> u32 {
        let (nodes, cells) = self.states();
        nodes.chain(cells).filter(|state| is_owned_by(*state, me)).count() as u32
    }

    /// Whether two keys belong to one list, for onlookers.
    #[cfg(feature = "sim")]
    pub fn is_one_list(&self, one: &[u8], other: &[u8]) -> bool {
        std::ptr::eq(self.bucket(self.locate(one).hash), self.bucket(self.locate(other).hash))
    }

    /// How many nodes and how many cells are not free, for onlookers.
    #[cfg(feature = "sim")]
    pub fn taken(&self) -> (usize, usize) {
        let (nodes, cells) = self.states();
        (nodes.filter(|s| kind(*s) != FREE).count(), cells.filter(|s| kind(*s) != FREE).count())
    }

    #[cfg(feature = "sim")]
    fn states(&self) -> (impl Iterator<Item = u64> + '_, impl Iterator<Item = u64> + '_) {
        // Relaxed, both: when all is over.
        let nodes = (0..self.shape().nodes()).map(|i| self.node_state(i).load(Ordering::Relaxed));
        (nodes, (0..self.shape().cells()).map(|i| self.cell_state(i).load(Ordering::Relaxed))) // Relaxed: as above.
    }
}

/// How far a walk has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    bucket: u32,
    key: Vec<u8>,
    begun: bool,
}
