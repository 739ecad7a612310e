//! Stacks, counters, lists, servers and named words: what they promise in words, between threads and processes; recorded histories of threads.

use crate::history::Model;
use crate::house::{Dice, House, ROLE, eventually, say};
use chappe::map::{List, Map, MapOptions};
use chappe::words::Change;
use chappe::{
    Arena, ArenaError, Counter, HelpLock, MapError, ObjectError, ObjectState, Serve, Server, Service, SharedError,
    Stack, Words, WordsError, remove_service,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Takes numbers out of a store; answers the first of them.
struct Tickets;

impl Serve for Tickets {
    type State = [u64; 2];
    type Request = u64;
    type Answer = u64;
    fn serve(state: &mut [u64; 2], many: &u64) -> u64 {
        state[1] += many;
        state[0] += many;
        state[0] - many
    }
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "work" => {
            let stack = Stack::<[u64; 3]>::open("s").unwrap();
            let list = List::<i64>::open("l").unwrap();
            let counter = Counter::open("c").unwrap();
            let tickets = Service::<Tickets>::open("t").unwrap();
            let words = Words::open("w").unwrap();
            say("ready");
            for i in 0.. {
                let _ = stack.push([i; 3]);
                list.insert(i as i64 % 8).unwrap();
                counter.add(1).unwrap();
                tickets.call(&1).unwrap();
                words.update([0, 1, 2], |w| w.iter_mut().for_each(|v| *v += 1)).unwrap();
                stack.pop().unwrap();
                list.remove(i as i64 % 8).unwrap();
            }
        }
        "mark" => {
            Stack::<u64>::open("s").unwrap().push(7).unwrap();
            Counter::open("c").unwrap().add(5).unwrap();
            Service::<Tickets>::open("t").unwrap().call(&3).unwrap();
            Words::open("w").unwrap().store(1, 9).unwrap();
            HelpLock::<[u64; 2]>::steps_named("h", [0; 2]).unwrap().with(|h| h[1] += 4).unwrap();
            List::<i64>::open("l").unwrap().insert(-3).unwrap();
            say("done");
            crate::house::listen();
        }
        other => panic!("{other}"),
    }
}

fn is_a_stack(stack: &Stack<u64>) {
    assert_eq!(stack.pop().unwrap(), None);
    assert!(stack.is_empty().unwrap() && stack.capacity() == 3);
    for i in 1..=3 {
        stack.push(i).unwrap();
    }
    let full = stack.push(4).unwrap_err();
    assert_eq!(full.value, 4);
    assert!(full.to_string().contains("is full: it was made for 3"), "{full}");
    assert_eq!(stack.len().unwrap(), 3);
    assert_eq!([3, 2, 1].map(|_| stack.pop().unwrap()), [Some(3), Some(2), Some(1)]);
    assert_eq!(stack.pop().unwrap(), None);
}

#[test]
fn a_stack_says_what_it_does() {
    let _house = House::new("stacks-words");
    is_a_stack(&Stack::private_bounded(3).unwrap());
    let named = Stack::create("s", 3).unwrap();
    is_a_stack(&named);
    assert_eq!(named.peek().unwrap(), None);
    named.push(9).unwrap();
    assert_eq!(Stack::<u64>::open("s").unwrap().peek().unwrap(), Some(9));
    // What cannot be.
    for capacity in [0, (1 << 20) + 1] {
        assert!(matches!(Stack::<u64>::create("x", capacity), Err(SharedError::Capacity { .. })));
    }
    assert!(matches!(Stack::<u64>::private_bounded(0), Err(SharedError::Capacity { .. })));
    assert!(matches!(Stack::<[u64; 2]>::open("s"), Err(SharedError::OtherType { .. })));
    assert!(matches!(Stack::<u64>::open_or_create("s", 4), Err(SharedError::OtherShape { .. })));
    assert!(matches!(Stack::<u64>::create("s", 3), Err(SharedError::Object(ObjectError::Exists { .. }))));
    assert!(matches!(Counter::open("s"), Err(SharedError::Object(ObjectError::OtherKind { .. }))));
    let used = Stack::unmake("s", false).unwrap_err();
    assert!(used.to_string().contains("1 elements in it"), "{used}");
    Stack::unmake("s", true).unwrap();
    assert!(matches!(named.pop(), Err(SharedError::Dead { .. })));
    assert!(matches!(named.push(1).unwrap_err().why, SharedError::Dead { .. }));
    assert!(named.len().is_err() && named.peek().is_err() && named.is_dead());
}

#[test]
fn a_private_stack_keeps_and_drops_values_of_any_kind() {
    let stack = Stack::private();
    let kept = Arc::new(());
    for _ in 0..1_000 {
        stack.push(kept.clone()).unwrap();
    }
    for _ in 0..400 {
        assert!(stack.pop().unwrap().is_some());
    }
    assert_eq!((stack.len().unwrap(), Arc::strong_count(&kept)), (600, 601));
    drop(stack);
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn a_counter_says_what_it_does() {
    let _house = House::new("counters-words");
    for counter in [Counter::private(-1), Counter::create("c", -1).unwrap()] {
        assert_eq!(counter.add(3).unwrap(), -1);
        assert_eq!(counter.get().unwrap(), 2);
        assert_eq!(counter.add_within(1, 0..=3).unwrap(), Some(2));
        assert_eq!(counter.add_within(1, 0..=3).unwrap(), None);
        assert_eq!(counter.add_within(i64::MAX, i64::MIN..=i64::MAX).unwrap(), None);
        assert_eq!(counter.update(|v| Some(v * 10)).unwrap(), Some(3));
        assert_eq!(counter.get().unwrap(), 30);
    }
    assert_eq!(Counter::open_or_create("c", 5).unwrap().get().unwrap(), 30);
    let one = Counter::open("c").unwrap();
    Counter::unmake("c", false).unwrap();
    assert!(matches!(one.add(1), Err(SharedError::Dead { .. })) && one.get().is_err());
}

fn is_a_list(list: &List<i64>) {
    for value in [5, -7, 0, i64::MAX, i64::MIN] {
        assert!(list.insert(value).unwrap());
        assert!(!list.insert(value).unwrap());
    }
    assert!(matches!(list.insert(1), Err(MapError::Full { entries: 5, .. })));
    let all = |list: &List<i64>| list.iter().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(all(list), [i64::MIN, -7, 0, 5, i64::MAX]);
    assert_eq!(list.iter_after(-8).unwrap().map(Result::unwrap).collect::<Vec<_>>(), [-7, 0, 5, i64::MAX]);
    assert!(list.contains(0).unwrap() && !list.contains(1).unwrap());
    assert!(list.remove(0).unwrap() && !list.remove(0).unwrap());
    assert_eq!(list.first().unwrap(), Some(i64::MIN));
    assert_eq!([0; 5].map(|_| list.pop_first().unwrap()), [Some(i64::MIN), Some(-7), Some(5), Some(i64::MAX), None]);
    assert!(list.is_empty());
}

#[test]
fn a_list_says_what_it_does() {
    let _house = House::new("lists-words");
    is_a_list(&List::private(5).unwrap());
    is_a_list(&List::create("l", 5).unwrap());
    assert!(matches!(List::<u64>::open("l"), Err(MapError::OtherType { .. })));
    assert!(List::<i64>::create("m", 0).is_err());
    assert_eq!(List::<i64>::open("l").unwrap().len(), 0);
    Map::unmake("l", false).unwrap();
}

#[test]
fn a_server_says_what_it_does() {
    let _house = House::new("servers-words");
    let server = Server::new(vec![1]);
    assert_eq!(server.call(|all| all.len()), 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        server.call(|all| {
            all.push(2);
            panic!("within a request");
        });
    }));
    assert!(panicked.is_err());
    // It goes on, with the data as that left it.
    server.call(|all| all.push(3));
    assert_eq!(server.into_inner(), [1, 2, 3]);
    let tickets = Service::<Tickets>::create("t", &[10, 0]).unwrap();
    assert_eq!([tickets.call(&1).unwrap(), tickets.call(&2).unwrap()], [10, 11]);
    assert_eq!(Service::<Tickets>::open("t").unwrap().look().unwrap(), [13, 3]);
    struct Other;
    impl Serve for Other {
        type State = u8;
        type Request = u8;
        type Answer = u8;
        fn serve(_: &mut u8, _: &u8) -> u8 {
            0
        }
    }
    assert!(matches!(Service::<Other>::open("t"), Err(SharedError::OtherType { .. })));
    remove_service("t", false).unwrap();
    assert!(matches!(tickets.call(&1), Err(SharedError::Dead { .. })));
}

#[test]
fn a_request_that_calls_its_own_server_panics_and_the_server_goes_on() {
    let server = Server::new(0);
    let nested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.call(|_| server.call(|v| *v += 1))));
    assert!(nested.is_err());
    assert_eq!(server.call(|v| *v), 0);
}

#[test]
fn requests_of_many_threads_are_served_once_each() {
    const EACH: u64 = 2_000;
    let server = Server::new(0u64);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..EACH).for_each(|_| server.call(|v| *v += 1)));
        }
    });
    assert_eq!(server.into_inner(), 4 * EACH);
}

#[test]
fn named_words_are_one_for_all() {
    let _house = House::new("words-named");
    let words = Words::create("w", 3).unwrap();
    let other = Words::open("w").unwrap();
    let both = [Change { word: 0, old: 0, new: 1 }, Change { word: 2, old: 0, new: 2 }];
    assert!(words.mcas(&both).unwrap());
    assert_eq!(other.load_all([0, 1, 2]).unwrap(), [1, 0, 2]);
    assert!(!other.mcas(&both).unwrap());
    assert!(matches!(Words::open_or_create("w", 4), Err(WordsError::Shared(SharedError::OtherShape { .. }))));
    assert!(matches!(Words::create("v", 0), Err(WordsError::Shared(SharedError::Capacity { .. }))));
    Words::unmake("w", false).unwrap();
    assert!(words.is_dead() && words.load(0).is_err() && words.mcas(&both).is_err());
}

#[test]
fn changes_of_one_process_are_seen_by_another_and_survive_its_end() {
    let house = House::new("structures-processes");
    let stack = Stack::<u64>::create("s", 4).unwrap();
    let counter = Counter::create("c", 0).unwrap();
    let tickets = Service::<Tickets>::create("t", &[0, 0]).unwrap();
    let words = Words::create("w", 2).unwrap();
    let lock = HelpLock::<[u64; 2]>::steps_named("h", [1, 2]).unwrap();
    let list = List::<i64>::create("l", 4).unwrap();
    let mut child = house.actor("mark");
    assert_eq!(child.hear(), "done");
    let ObjectState::Shared(info) = Arena::open("default").unwrap().object("s").unwrap().state else {
        panic!("a stack")
    };
    assert_eq!((info.kind, info.value, info.capacity, info.size, info.users.len()), ("stack", 1, 4, 8, 1));
    let used = Counter::unmake("c", false).unwrap_err();
    assert!(used.to_string().contains("changes it"), "{used}");
    child.kill();
    assert_eq!(stack.pop().unwrap(), Some(7));
    assert_eq!(counter.get().unwrap(), 5);
    assert_eq!(tickets.look().unwrap(), [3, 3]);
    assert_eq!(words.load_all([0, 1]).unwrap(), [0, 9]);
    assert_eq!(lock.with(|h| *h).unwrap(), [1, 6]);
    assert_eq!(list.first().unwrap(), Some(-3));
    eventually("it is nobody's", || Counter::unmake("c", false).is_ok());
}

#[test]
#[ignore = "storm: processes that are killed at random"]
fn killed_processes_leave_all_of_them_whole() {
    let house = House::new("structures-kills");
    let stack = Stack::<[u64; 3]>::create("s", 8).unwrap();
    let counter = Counter::create("c", 0).unwrap();
    let tickets = Service::<Tickets>::create("t", &[0, 0]).unwrap();
    let words = Words::create("w", 3).unwrap();
    let list = List::<i64>::create("l", 8).unwrap();
    let mut dice = Dice(7);
    for _ in 0..60 {
        let mut children: Vec<_> = (0..2).map(|_| house.actor("work")).collect();
        children.iter_mut().for_each(|c| assert_eq!(c.hear(), "ready"));
        std::thread::sleep(Duration::from_micros(dice.roll(20_000) as u64));
        children.into_iter().for_each(crate::house::Actor::kill);
        let before = counter.get().unwrap();
        // All room is there: nothing that the dead had in hand is lost.
        while let Some(value) = stack.pop().unwrap() {
            assert!(value.iter().all(|v| *v == value[0]), "torn: {value:?}");
        }
        (0..8).for_each(|i| stack.push([i; 3]).unwrap());
        assert!(stack.push([9; 3]).is_err());
        (0..8).for_each(|_| assert!(stack.pop().unwrap().is_some()));
        let [next, sold] = tickets.look().unwrap();
        assert_eq!(next, sold, "half a request");
        let [a, b, c] = words.load_all([0, 1, 2]).unwrap();
        assert!(a == b && b == c, "half a change: {a} {b} {c}");
        (0..8).for_each(|i| _ = list.insert(i).unwrap());
        assert_eq!(list.iter().unwrap().collect::<Result<Vec<_>, _>>().unwrap(), (0..8).collect::<Vec<_>>());
        (0..8).for_each(|i| assert!(list.remove(i).unwrap()));
        assert!(counter.get().unwrap() == before && before >= 0);
    }
}

/// Keeps the arena in memory; false, and says so: this process may not.
fn pinned() -> bool {
    match Arena::open("default").unwrap().pin() {
        Ok(bytes) => {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
            let locked: u64 = locked.trim().trim_end_matches(" kB").parse().unwrap();
            assert!(bytes > 100_000 && locked * 1024 >= bytes, "{bytes} bytes, {locked} kB are locked");
            true
        }
        Err(ArenaError::Unpinned { limit, .. }) => {
            println!("not tested: this process may lock {limit} bytes");
            false
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_structure_in_use_is_kept_in_memory() {
    let _house = House::new("structures-kept");
    let _stack = Stack::<[u64; 8]>::create("s", 1_000).unwrap();
    pinned();
}

#[test]
#[ignore = "storm: the system may take the program's own code out of memory meanwhile"]
fn a_pinned_arena_has_no_page_faults() {
    let _house = House::new("structures-pinned");
    let counter = Counter::create("c", 0).unwrap();
    let stack = Stack::<[u64; 8]>::create("s", 1_000).unwrap();
    if !pinned() {
        return;
    }
    let faults = || {
        // SAFETY: zeros are an rusage, and it is written alone.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
        usage.ru_minflt + usage.ru_majflt
    };
    let work = |times: u64| {
        for i in 0..times {
            counter.add(1).unwrap();
            if i % 1_000 < 500 {
                stack.push([i; 8]).unwrap();
            } else {
                stack.pop().unwrap();
            }
        }
    };
    // The code itself, and this thread's stack.
    work(1_000);
    let before = faults();
    work(1_000_000);
    assert_eq!(faults(), before);
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(u8),
    Pop,
    Add(i64),
    AddWithin(i64, i64),
    Insert(i64),
    Remove(i64),
    Ask(u64),
}

/// The stack, the number, the list, the server's data.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct All(Vec<u8>, i64, BTreeSet<i64>, u64);

const CAPACITY: usize = 3;

impl Model for All {
    type Op = Op;
    type Answer = Option<i64>;
    fn apply(&mut self, op: &Op) -> Option<i64> {
        match *op {
            Op::Push(_) if self.0.len() == CAPACITY => None,
            Op::Push(v) => {
                self.0.push(v);
                Some(1)
            }
            Op::Pop => self.0.pop().map(i64::from),
            Op::Add(n) => {
                self.1 += n;
                Some(self.1 - n)
            }
            Op::AddWithin(n, most) => (self.1 + n <= most).then(|| {
                self.1 += n;
                self.1 - n
            }),
            Op::Insert(v) => Some(self.2.insert(v).into()),
            Op::Remove(v) => Some(self.2.remove(&v).into()),
            Op::Ask(n) => {
                self.3 += n;
                Some((self.3 - n) as i64)
            }
        }
    }
}

/// So many histories of each: of stacks, counters, lists, servers.
fn histories(stack: &Stack<u8>, counter: &Counter, list: &List<i64>, ask: &(dyn Fn(u64) -> u64 + Sync), count: usize) {
    let act = |op: &Op| match *op {
        Op::Push(v) => stack.push(v).is_ok().then_some(1),
        Op::Pop => stack.pop().unwrap().map(i64::from),
        Op::Add(n) => Some(counter.add(n).unwrap()),
        Op::AddWithin(n, most) => counter.add_within(n, i64::MIN..=most).unwrap(),
        Op::Insert(v) => Some(list.insert(v).unwrap().into()),
        Op::Remove(v) => Some(list.remove(v).unwrap().into()),
        Op::Ask(n) => Some(ask(n) as i64),
    };
    let begin = || {
        while stack.pop().unwrap().is_some() {}
        while list.pop_first().unwrap().is_some() {}
        let value = counter.get().unwrap();
        All(Vec::new(), value, BTreeSet::new(), ask(0))
    };
    let two = |dice: &mut Dice, a: Op, b: Op| if dice.roll(2) == 0 { a } else { b };
    crate::recorder::recorded(
        count,
        begin,
        |d| {
            let v = d.roll(50) as u8;
            two(d, Op::Push(v), Op::Pop)
        },
        act,
    );
    crate::recorder::recorded(
        count,
        begin,
        |d| {
            let n = d.roll(3) as i64;
            two(d, Op::Add(n - 1), Op::AddWithin(n, 2))
        },
        act,
    );
    crate::recorder::recorded(
        count,
        begin,
        |d| {
            let v = d.roll(3) as i64;
            two(d, Op::Insert(v), Op::Remove(v))
        },
        act,
    );
    crate::recorder::recorded(count, begin, |d| Op::Ask(d.roll(9) as u64), act);
}

fn all_histories(name: &str, count: usize) {
    let _house = House::new(name);
    let server = Server::new(0u64);
    let ask = |n| server.call(move |v| std::mem::replace(v, *v + n));
    let (stack, list) = (Stack::private_bounded(CAPACITY as u32).unwrap(), List::private(3).unwrap());
    histories(&stack, &Counter::private(0), &list, &ask, count);
    let tickets = Service::<Tickets>::create("t", &[0, 0]).unwrap();
    let (stack, list) = (Stack::create("s", CAPACITY as u32).unwrap(), List::create("l", 3).unwrap());
    histories(&stack, &Counter::create("c", 0).unwrap(), &list, &|n| tickets.call(&n).unwrap(), count);
}

#[test]
fn recorded_histories_are_linearizable() {
    all_histories("structures-histories", 60);
}

#[test]
#[ignore = "storm: a hundred thousand histories of each"]
fn a_hundred_thousand_recorded_histories_of_each_are_linearizable() {
    all_histories("structures-storm", 50_000);
}

#[test]
#[ignore = "storm: writers that race with a walker"]
fn a_walk_of_a_list_sees_what_was_there_throughout_in_order() {
    let list = List::private(100).unwrap();
    let stays = |v: i64| v % 4 == 0;
    (0..100).filter(|v| stays(*v)).for_each(|v| assert!(list.insert(v).unwrap()));
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        for seed in 0..8 {
            let (list, over) = (&list, &over);
            s.spawn(move || {
                let mut dice = Dice(seed + 1);
                while !over.load(Ordering::SeqCst) {
                    let value = dice.roll(100) as i64;
                    if !stays(value) {
                        if dice.roll(2) == 0 {
                            list.insert(value).unwrap()
                        } else {
                            list.remove(value).unwrap()
                        };
                    }
                }
            });
        }
        for _ in 0..200 {
            let all: Vec<i64> = list.iter().unwrap().map(Result::unwrap).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "not in order, or twice");
            assert_eq!(all.iter().filter(|v| stays(**v)).count(), 25, "one that stayed was not seen");
        }
        over.store(true, Ordering::SeqCst);
    });
}

/// A process of another PID namespace (each container has a process 1) that has the same number is another.
#[test]
fn an_object_in_use_by_the_same_pid_of_another_namespace_is_not_removed() {
    let _house = House::new("structures-elsewhere");
    let map = Map::<u64, u64>::create("map", &MapOptions::default()).unwrap();
    let count = Counter::create("count", 0).unwrap();
    std::thread::scope(|s| {
        let (told, tell) = std::sync::mpsc::channel();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let (map, count) = (&map, &count);
        s.spawn(move || {
            map.insert(&1, &1).unwrap();
            map.remove(&1).unwrap();
            count.add(1).unwrap();
            told.send(()).unwrap();
            _ = end.recv();
        });
        tell.recv().unwrap();
        let user = map.info().unwrap().users[0].clone();
        let namespace = &Arena::open("default").unwrap().map().member(user.member).namespace;
        // As if the thread were such a process's. SeqCst: no other thread reads it meanwhile.
        namespace.store(user.namespace + 1, Ordering::SeqCst);
        let map = Map::unmake("map", false).unwrap_err();
        assert!(matches!(&map, MapError::Object(ObjectError::InUse { .. })), "{map}");
        let count = Counter::unmake("count", false).unwrap_err();
        assert!(matches!(&count, SharedError::Object(ObjectError::InUse { .. })), "{count}");
        namespace.store(user.namespace, Ordering::SeqCst); // SeqCst: as above.
        drop(ends);
    });
    Map::unmake("map", false).unwrap();
    Counter::unmake("count", false).unwrap();
}
