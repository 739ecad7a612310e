//! Table 5.1 of synthesis: insert, delete, push and pop: without synchronisation, under a lock, and without one, where nothing has to begin
//! again, and where it has to once because another operation came in between.
//!
//! The operation itself makes the interfering change, the first time that it is asked what it wants: its price is in the row, and in the row
//! "twice" as well, which is what the retry is to be compared with.

use crate::house::House;
use crate::table::{Aim, Case, Table, times};
use chappe::map::List;
use chappe::{Counter, Map, MapOptions, Stack, Words};
use crossbeam_epoch::{self as epoch, Atomic, Owned};
use crossbeam_queue::{ArrayQueue, SegQueue};
use std::collections::{BTreeSet, HashMap};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::Ordering;

const COUNT: u32 = 20_000;
/// How many elements there are while one more comes and goes.
const THERE: u64 = 100;

/// Treiber's stack over crossbeam's epochs: what its documentation builds.
struct Treiber<T> {
    head: Atomic<Node<T>>,
}

struct Node<T> {
    value: ManuallyDrop<T>,
    next: Atomic<Node<T>>,
}

impl<T> Treiber<T> {
    fn push(&self, value: T) {
        let guard = epoch::pin();
        let mut node = Owned::new(Node { value: ManuallyDrop::new(value), next: Atomic::null() });
        loop {
            let head = self.head.load(Ordering::Relaxed, &guard); // Relaxed: the swap looks again.
            node.next.store(head, Ordering::Relaxed); // Relaxed: published by the swap.
            // Release: the node. Relaxed, a failure: it is looked at again.
            match self.head.compare_exchange(head, node, Ordering::Release, Ordering::Relaxed, &guard) {
                Ok(_) => return,
                Err(e) => node = e.new,
            }
        }
    }

    fn pop(&self) -> Option<T> {
        let guard = epoch::pin();
        loop {
            // Acquire: the node.
            let head = self.head.load(Ordering::Acquire, &guard);
            // SAFETY: nothing that the guard has seen is freed before it goes.
            let node = unsafe { head.as_ref() }?;
            let next = node.next.load(Ordering::Relaxed, &guard); // Relaxed: written before the node was there.
            // Relaxed, both: what is taken out was read by the acquire above.
            if self.head.compare_exchange(head, next, Ordering::Relaxed, Ordering::Relaxed, &guard).is_ok() {
                // SAFETY: it is out, and ours; its value is moved out once.
                unsafe {
                    guard.defer_destroy(head);
                    return Some(ManuallyDrop::into_inner(ptr::read(&raw const node.value)));
                }
            }
        }
    }
}

fn stacks(rounds: u32) -> Vec<Aim> {
    let mut plain: Vec<u64> = (0..THERE).collect();
    let locked = parking_lot::Mutex::new((0..THERE).collect::<Vec<u64>>());
    let treiber = Treiber { head: Atomic::null() };
    let (segments, array) = (SegQueue::new(), ArrayQueue::new(2 * THERE as usize));
    let (linked, bounded) = (Stack::private(), Stack::private_bounded(2 * THERE as u32).expect("memory"));
    let named = Stack::create("realtime-stack", 2 * THERE as u32).expect("room");
    for i in 0..THERE {
        treiber.push(i);
        segments.push(i);
        array.push(i).expect("room");
        [&linked, &bounded, &named].into_iter().for_each(|stack| stack.push(i).expect("room"));
    }
    let pair = |stack: &Stack<u64>| {
        stack.push(7).expect("room");
        stack.pop().expect("alive")
    };
    let table = Table::measure(
        "push and pop, nobody else about (table 5.1)",
        rounds,
        vec![
            Case::repeat("crossbeam-epoch, Treiber's stack", COUNT, || {
                treiber.push(7);
                treiber.pop()
            }),
            Case::repeat("Vec, unsynchronised", COUNT, || {
                std::hint::black_box(&mut plain).push(7);
                std::hint::black_box(&mut plain).pop()
            }),
            Case::repeat("Vec under parking_lot::Mutex", COUNT, || {
                locked.lock().push(7);
                locked.lock().pop()
            }),
            Case::repeat("crossbeam SegQueue (first in, first out)", COUNT, || {
                segments.push(7);
                segments.pop()
            }),
            Case::repeat("crossbeam ArrayQueue (the same)", COUNT, || {
                array.push(7).expect("room");
                array.pop()
            }),
            Case::repeat("chappe::Stack, private", COUNT, || pair(&linked)),
            Case::repeat("chappe::Stack, private, bounded", COUNT, || pair(&bounded)),
            Case::repeat("chappe::Stack, named", COUNT, || pair(&named)),
        ],
    );
    println!("{}", table.report());
    let best = ["chappe::Stack, private", "chappe::Stack, private, bounded"].map(|name| table.ratio(name));
    vec![Aim::at_most("Stack pair beside Treiber's of crossbeam-epoch", 1.0, best[0].min(best[1]), times)]
}

fn keys(rounds: u32) {
    let options = MapOptions { entries: 2 * THERE as u32, ..MapOptions::default() };
    let (map, named) = (Map::private(&options).expect("room"), Map::create("realtime-keys", &options).expect("room"));
    let list = List::private(2 * THERE as u32).expect("room");
    let mut plain = HashMap::new();
    let locked = parking_lot::Mutex::new(HashMap::new());
    let tree = parking_lot::Mutex::new(BTreeSet::new());
    let shards = dashmap::DashMap::new();
    for i in 0..THERE {
        plain.insert(i, i);
        locked.lock().insert(i, i);
        tree.lock().insert(i as i64);
        shards.insert(i, i);
        map.insert(&i, &i).expect("room");
        named.insert(&i, &i).expect("room");
        list.insert(i as i64).expect("room");
    }
    let table = Table::measure(
        "insert and delete, nobody else about (table 5.1)",
        rounds,
        vec![
            Case::repeat("HashMap, unsynchronised", COUNT, || {
                std::hint::black_box(&mut plain).insert(777, 7);
                std::hint::black_box(&mut plain).remove(&777)
            }),
            Case::repeat("HashMap under parking_lot::Mutex", COUNT, || {
                locked.lock().insert(777, 7);
                locked.lock().remove(&777)
            }),
            Case::repeat("dashmap", COUNT, || {
                shards.insert(777, 7);
                shards.remove(&777)
            }),
            Case::repeat("chappe::Map, private", COUNT, || {
                map.insert(&777, &7).expect("room");
                map.remove(&777).expect("alive")
            }),
            Case::repeat("chappe::Map, named", COUNT, || {
                named.insert(&777, &7).expect("room");
                named.remove(&777).expect("alive")
            }),
            Case::repeat("BTreeSet under parking_lot::Mutex, first", COUNT, || {
                tree.lock().insert(-1);
                tree.lock().remove(&-1)
            }),
            Case::repeat("chappe::map::List, first", COUNT, || {
                list.insert(-1).expect("room");
                list.remove(-1).expect("alive")
            }),
        ],
    );
    println!("{}", table.report());
}

/// What a retry costs: twice the same, and one of which begins again because of the other.
fn retries(rounds: u32) {
    let (counter, words) = (Counter::private(0), Words::private(2).expect("memory"));
    let map = Map::<u64, u64>::private(&MapOptions { entries: 16, ..MapOptions::default() }).expect("room");
    map.insert(&1, &0).expect("room");
    let add = |old: Option<u64>| old.map(|n| n + 1);
    let both = |w: &mut [u64; 2]| *w = [w[0] + 1, w[1] + 1];
    let (again_c, again_w, again_m) = (counter.clone(), words.clone(), map.clone());
    let table = Table::measure(
        "begun again once, nobody else about (table 5.1)",
        rounds,
        vec![
            Case::repeat("Counter::update", COUNT, || counter.update(|n| Some(n + 1))),
            Case::repeat("Counter::update, twice", COUNT, || {
                counter.update(|n| Some(n + 1)).expect("alive");
                counter.update(|n| Some(n + 1))
            }),
            Case::repeat("Counter::update, one within the other", COUNT, || {
                let mut first = true;
                counter.update(|n| {
                    if std::mem::take(&mut first) {
                        again_c.update(|n| Some(n + 1)).expect("alive");
                    }
                    Some(n + 1)
                })
            }),
            Case::repeat("Words::update of two", COUNT, || words.update([0, 1], both).expect("words")),
            Case::repeat("Words::update of two, twice", COUNT, || {
                words.update([0, 1], both).expect("words");
                words.update([0, 1], both).expect("words")
            }),
            Case::repeat("Words::update of two, one within the other", COUNT, || {
                let mut first = true;
                words
                    .update([0, 1], |w| {
                        if std::mem::take(&mut first) {
                            again_w.update([0, 1], both).expect("words");
                        }
                        both(w);
                    })
                    .expect("words")
            }),
            Case::repeat("Map::update", COUNT, || map.update(&1, add).expect("alive")),
            Case::repeat("Map::update, twice", COUNT, || {
                map.update(&1, add).expect("alive");
                map.update(&1, add).expect("alive")
            }),
            Case::repeat("Map::update, one within the other", COUNT, || {
                let mut first = true;
                map.update(&1, |old| {
                    if std::mem::take(&mut first) {
                        again_m.update(&1, add).expect("alive");
                    }
                    add(old)
                })
                .expect("alive")
            }),
        ],
    );
    println!("{}", table.report());
}

/// The tables, and what was wanted.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(_house: &House, rounds: u32) -> Vec<Aim> {
    let aims = stacks(rounds);
    keys(rounds);
    retries(rounds);
    aims
}
