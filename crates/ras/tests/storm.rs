//! Every per-CPU operation at once, by 2 to 8 threads that are moved, preempted, interrupted: nothing is lost, nothing doubled.
//!
//! With the feature `inject` each step of each section takes long now and then, and that sections were aborted is asserted. With
//! RAS_SECONDS all storms take that long together.

#![cfg(not(feature = "sim"))]

mod weather;

use chappe_plat::topology;
use chappe_ras::sequence::{Link, Outcome};
use chappe_ras::{Counter, FreeList, Index, PairCounter, PerCpu, Taken, gate};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use weather::{Dice, Weather, Work, alone, duration, weather};

const THINGS: usize = 24;
const NODES: usize = 64;
const ROOM: usize = 96;
const RECORD: usize = 5;

/// What the storm is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Everything,
    Add,
    AddTwo,
    CompareStore,
    PushAndPop,
    PushAndFetch,
    Copy,
}

/// What was done, and must be found again.
#[derive(Default)]
struct Tally {
    added: AtomicU64,
    drained: AtomicU64,
    pairs: AtomicU64,
    stored: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
}

fn count(tally: &AtomicU64, n: u64) {
    tally.fetch_add(n, SeqCst);
}

#[repr(C)]
struct Node {
    link: Link,
    /// 1: somebody's.
    taken: AtomicU32,
}

struct Log {
    length: AtomicU64,
    words: [AtomicU64; ROOM],
}

/// Something for each operation, and its holders.
struct World {
    what: What,
    tally: Tally,
    counter: Counter,
    pair: PairCounter,
    things: FreeList<AtomicU32>,
    words: PerCpu<AtomicU64>,
    bags: PerCpu<AtomicU64>,
    nodes: Vec<Node>,
    stocked: AtomicU64,
    logs: PerCpu<Log>,
}

struct Own<'w> {
    dice: Dice,
    held: Vec<Taken<'w, AtomicU32>>,
    /// Nodes that are this thread's.
    stock: Vec<u64>,
}

impl World {
    fn new(index: Index, what: What) -> World {
        World {
            what,
            tally: Tally::default(),
            counter: Counter::new(index),
            pair: PairCounter::new(index),
            things: FreeList::new(index, THINGS, || AtomicU32::new(0)),
            words: PerCpu::new(index, || AtomicU64::new(0)),
            bags: PerCpu::new(index, || AtomicU64::new(0)),
            nodes: (0..NODES).map(|_| Node { link: Link::new(), taken: AtomicU32::new(1) }).collect(),
            stocked: AtomicU64::new(0),
            logs: PerCpu::new(index, || Log { length: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; ROOM] }),
        }
    }

    fn node(&self, address: u64) -> &Node {
        // SAFETY: all addresses in bags and stocks are of `nodes`.
        unsafe { &*(address as *const Node) }
    }

    fn has(&self, what: What) -> bool {
        self.what == what || self.what == What::Everything
    }

    fn add(&self) {
        if self.has(What::Add) {
            self.counter.add(1);
            count(&self.tally.added, 1);
        }
        if self.has(What::AddTwo) {
            self.pair.add(1, 3);
            count(&self.tally.pairs, 1);
        }
    }

    fn look(&self) {
        let (a, b) = self.pair.sum();
        assert_eq!(b, a.wrapping_mul(3), "add_two: one of two is seen without the other");
    }

    fn take(&self) -> Option<Taken<'_, AtomicU32>> {
        let thing = self.things.take()?;
        assert_eq!(thing.swap(1, SeqCst), 0, "pop: taken by two at once");
        Some(thing)
    }

    fn give(&self, thing: Taken<'_, AtomicU32>) {
        assert_eq!(thing.swap(0, SeqCst), 1, "pop: given back by two");
        drop(thing);
    }

    fn store(&self) {
        // SAFETY: only this writes to the words.
        let done = self.words.attempt(|h, s| unsafe {
            let old = s.value().load(SeqCst);
            h.compare_store(s.owner(), s.value(), old, old + 1)
        });
        count(&self.tally.stored, u64::from(done == Outcome::Done(())));
    }

    /// Puts a chain into the bag of whatever CPU this is.
    fn put(&self, first: u64, last: u64) -> bool {
        // SAFETY: the nodes are the caller's, and stay readable.
        let put = self.bags.attempt(|h, s| unsafe { h.push(s.owner(), s.value(), first, last) });
        put == Outcome::Done(())
    }

    fn put_or_empty(&self, stock: &mut Vec<u64>) {
        let Some(node) = stock.pop() else {
            *stock = self.empty();
            return;
        };
        self.node(node).taken.store(0, SeqCst);
        if !self.put(node, node) {
            self.node(node).taken.store(1, SeqCst);
            stock.push(node);
        }
    }

    /// Takes all that is in that bag: it is the caller's.
    fn empty(&self) -> Vec<u64> {
        // SAFETY: as above.
        let all = self.bags.attempt(|h, s| unsafe { h.fetch(s.owner(), s.value(), 0) });
        if let Outcome::Done(first) = all { self.walk(first, |_| {}) } else { Vec::new() }
    }

    fn walk(&self, first: u64, mut each: impl FnMut(u64)) -> Vec<u64> {
        let mut all = Vec::new();
        let mut next = first;
        while next != 0 {
            assert_eq!(self.node(next).taken.swap(1, SeqCst), 0, "push or fetch: a node in two lists");
            assert!(all.len() < NODES, "push or fetch: a list without an end");
            each(next);
            all.push(next);
            next = self.node(next).link.next();
        }
        all
    }

    /// Takes all of a bag and puts it back as one chain: allocates nothing.
    fn shake(&self) {
        // SAFETY: as above.
        let all = self.bags.attempt(|h, s| unsafe { h.fetch(s.owner(), s.value(), 0) });
        let Outcome::Done(first @ 1..) = all else { return };
        let (mut last, mut next) = (first, first);
        while next != 0 {
            assert_eq!(self.node(next).taken.swap(1, SeqCst), 0, "push or fetch: a node in two lists");
            last = next;
            next = self.node(next).link.next();
        }
        next = first;
        while next != 0 {
            self.node(next).taken.store(0, SeqCst);
            next = self.node(next).link.next();
        }
        while !self.put(first, last) {}
    }

    fn write(&self, id: u64) {
        let record = [id, !id, id ^ 1, id.rotate_left(7), id.wrapping_mul(3)];
        // SAFETY: only this writes to the logs, and the thread that has seized them.
        let done = self.logs.attempt(|h, s| unsafe { h.copy(s.owner(), &s.value().length, &s.value().words, &record) });
        count(&self.tally.written, if done == Outcome::Done(()) { id } else { 0 });
    }

    /// Reads and empties a log.
    fn read(&self, slot: usize) {
        let Ok(log) = self.logs.seize(slot) else { return };
        let length = log.length.load(SeqCst) as usize;
        assert_eq!(length % RECORD, 0, "copy: a record in part");
        for record in log.words[..length].chunks(RECORD) {
            let [id, rest @ ..] = [0, 1, 2, 3, 4].map(|n: usize| record[n].load(SeqCst));
            assert_eq!(rest, [!id, id ^ 1, id.rotate_left(7), id.wrapping_mul(3)], "copy: a record is mixed");
            count(&self.tally.read, id);
        }
        log.length.store(0, SeqCst);
    }

    /// Nobody is there any more: all is found again.
    fn settle(&self) {
        let t = |tally: &AtomicU64| tally.load(SeqCst);
        assert_eq!(t(&self.tally.drained) + self.counter.sum(), t(&self.tally.added), "add: lost or doubled");
        let pairs = t(&self.tally.pairs);
        assert_eq!(self.pair.sum(), (pairs, 3 * pairs), "add_two: lost or doubled");
        let stored: u64 = self.words.values().map(|w| w.load(SeqCst)).sum();
        assert_eq!(stored, t(&self.tally.stored), "compare_store: lost or doubled");
        let all: Vec<_> = std::iter::from_fn(|| self.take()).collect();
        assert_eq!(all.len(), THINGS, "push and pop: lost");
        all.into_iter().for_each(|thing| self.give(thing));
        let bagged: usize = self.bags.values().map(|b| self.walk(b.load(SeqCst), |_| {}).len()).sum();
        assert_eq!(bagged as u64 + t(&self.stocked), NODES as u64, "push and fetch: lost");
        (0..self.logs.len()).for_each(|slot| self.read(slot));
        assert_eq!(t(&self.tally.read), t(&self.tally.written), "copy: lost or doubled");
    }
}

/// What the rounds borrow lives as long as the test.
impl Work for &'static World {
    type Own = Own<'static>;

    fn begin(&self, thread: usize) -> Own<'static> {
        let mine = self.nodes.iter().skip(thread).step_by(8);
        let mine = mine.map(|n| n.link.address()).collect();
        Own { dice: Dice(0x9e37_79b9 + thread as u64), held: Vec::with_capacity(4), stock: mine }
    }

    fn round(&self, own: &mut Own<'static>) {
        self.add();
        if self.has(What::CompareStore) {
            self.store();
        }
        if self.has(What::PushAndPop) {
            match own.dice.below(4) {
                0 | 1 if own.held.len() < 4 => own.held.extend(self.take()),
                _ => own.held.pop().into_iter().for_each(|thing| self.give(thing)),
            }
        }
        if self.has(What::PushAndFetch) {
            self.put_or_empty(&mut own.stock);
        }
        if self.has(What::Copy) {
            self.write(own.dice.below(1 << 40));
            if own.dice.below(16) == 0
                && let Some(slot) = self.logs.here()
            {
                self.read(slot);
            }
        }
        if own.dice.below(50) == 0 {
            self.look();
            count(&self.tally.drained, self.counter.drain().expect("nothing refuses the fence"));
        }
    }

    fn end(&self, own: Own<'static>) {
        own.held.into_iter().for_each(|thing| self.give(thing));
        count(&self.stocked, own.stock.len() as u64);
    }

    fn interrupt(&self) {
        self.add();
        if self.has(What::CompareStore) {
            self.store();
        }
        if self.has(What::PushAndPop) {
            self.take().into_iter().for_each(|thing| self.give(thing));
        }
        if self.has(What::PushAndFetch) {
            self.shake();
        }
        if self.has(What::Copy) {
            self.write(1 << 41 | 7);
        }
        self.look();
    }
}

/// How often sections were aborted until now.
#[cfg(feature = "inject")]
fn aborted() -> Option<u64> {
    Some(chappe_ras::sequence::inject::aborted())
}

#[cfg(not(feature = "inject"))]
fn aborted() -> Option<u64> {
    None
}

fn storm(kind: Weather) {
    let _alone = alone();
    let (before, time) = (aborted(), duration());
    for index in [Index::Cpu, Index::ConcurrencyId] {
        for threads in [2, 8] {
            over(What::Everything, index, kind, threads, time / 4);
        }
    }
    some_were_aborted(before, kind);
}

fn over(what: What, index: Index, kind: Weather, threads: usize, time: Duration) {
    let world: &'static World = Box::leak(Box::new(World::new(index, what)));
    let before = aborted();
    weather(kind, threads, time, &world, || !gate::sequences() || before.is_none() || aborted() > before);
    // Whose stock was never given out.
    let unused: usize = (threads..8).map(|n| world.nodes.iter().skip(n).step_by(8).count()).sum();
    count(&world.stocked, unused as u64);
    world.settle();
}

fn some_were_aborted(before: Option<u64>, kind: Weather) {
    let there = gate::sequences();
    if !there {
        println!("not tested: sections when threads are {kind:?}: no sequences here; what stands in for them is");
    }
    if let (Some(before), Some(after)) = (before, aborted()) {
        println!("{kind:?}: {} sections aborted", after - before);
        assert!(!there || after > before, "no section was aborted: nothing was tested");
    }
}

/// One operation alone, so that each is known to be tried: each of these fails if its sections are not armed.
fn alone_under(what: What, kind: Weather) {
    let _alone = alone();
    let before = aborted();
    over(what, Index::Cpu, kind, 4, duration() / 5);
    some_were_aborted(before, kind);
}

#[test]
#[ignore = "storm: threads that are moved"]
fn no_add_is_lost() {
    alone_under(What::Add, Weather::Moved);
}

#[test]
#[ignore = "storm: threads that are interrupted"]
fn no_half_of_two_adds_is_lost_or_seen() {
    alone_under(What::AddTwo, Weather::Interrupted);
}

#[test]
#[ignore = "storm: threads that are interrupted"]
fn no_store_that_compared_is_lost() {
    alone_under(What::CompareStore, Weather::Interrupted);
}

#[test]
#[ignore = "storm: threads that are interrupted"]
fn each_pushed_element_is_popped_once() {
    alone_under(What::PushAndPop, Weather::Interrupted);
}

#[test]
#[ignore = "storm: threads that are interrupted"]
fn each_pushed_element_is_fetched_once() {
    alone_under(What::PushAndFetch, Weather::Interrupted);
}

#[test]
#[ignore = "storm: threads that are interrupted"]
fn no_copied_record_is_torn_or_lost() {
    alone_under(What::Copy, Weather::Interrupted);
}

#[test]
#[ignore = "storm: threads that are moved"]
fn nothing_is_lost_or_doubled_by_threads_that_are_moved() {
    if topology::allowed().expect("the kernel tells").len() < 2 {
        println!("not tested: nothing_is_lost_or_doubled_by_threads_that_are_moved: one processor only");
        return;
    }
    storm(Weather::Moved);
}

#[test]
#[ignore = "storm: threads that are preempted"]
fn nothing_is_lost_or_doubled_by_threads_that_are_preempted() {
    storm(Weather::Preempted);
}

#[test]
#[ignore = "storm: threads that are interrupted"]
fn nothing_is_lost_or_doubled_by_handlers_that_do_the_same() {
    storm(Weather::Interrupted);
}
