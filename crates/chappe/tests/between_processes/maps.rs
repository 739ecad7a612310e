//! Maps: what they promise in words, between threads and processes; recorded histories of threads.

use crate::history::Model;
use crate::house::{Dice, House, LONG, ROLE, eventually, listen, say};
use chappe::map::{Datum, Event};
use chappe::{Arena, Map, MapError, MapOptions, ObjectError, ObjectState};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn small(entries: u32) -> MapOptions {
    MapOptions { entries, key: 8, value: 16, ordered: false }
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let map = Map::<[u8], [u8]>::open("m").unwrap();
    match role.as_str() {
        "put" => {
            map.insert(b"its", b"here").unwrap();
            say("done");
            listen();
        }
        "watch" => {
            let mut watch = map.watch(None);
            watch.changes().unwrap();
            say("ready");
            let events = watch.next(Some(LONG)).unwrap();
            say(&String::from_utf8_lossy(&events[0].key));
        }
        "write" => {
            say("ready");
            for i in 0_u64.. {
                let value = [i as u8; 16];
                map.insert(&(i % 20).to_le_bytes(), &value).unwrap();
                if i % 3 == 0 {
                    map.remove(&(i * 7 % 20).to_le_bytes()).unwrap();
                }
            }
        }
        other => panic!("{other}"),
    }
}

fn says_what_it_does(map: &Map<[u8], [u8]>) {
    assert!(map.is_empty());
    assert_eq!(map.insert(b"a", b"1").unwrap(), None);
    assert_eq!(map.insert(b"a", b"22").unwrap(), Some(b"1".to_vec()));
    assert_eq!(map.get(b"a").unwrap(), Some(b"22".to_vec()));
    assert_eq!(map.get(b"b").unwrap(), None);
    assert!(map.contains(b"a").unwrap() && !map.contains(b"b").unwrap());
    assert_eq!(map.get_or_insert(b"a", b"x").unwrap(), (b"22".to_vec(), false));
    assert_eq!(map.get_or_insert(b"b", b"").unwrap(), (Vec::new(), true));
    assert_eq!(map.compare_exchange(b"a", Some(b"1"), Some(b"2")).unwrap(), Err(Some(b"22".to_vec())));
    assert_eq!(map.compare_exchange(b"a", Some(b"22"), Some(b"2")).unwrap(), Ok(()));
    assert_eq!(map.compare_exchange(b"a", None, Some(b"3")).unwrap(), Err(Some(b"2".to_vec())));
    assert_eq!(map.compare_exchange(b"c", None, Some(b"3")).unwrap(), Ok(()));
    assert_eq!(map.compare_exchange(b"c", Some(b"3"), None).unwrap(), Ok(()));
    assert_eq!(map.compare_exchange(b"c", None, None).unwrap(), Ok(()));
    assert_eq!(map.update(b"a", |old| old.map(|o| [&o[..], b"!"].concat())).unwrap(), Some(b"2!".to_vec()));
    assert_eq!(map.update(b"a", |_| None).unwrap(), None);
    assert_eq!(map.update(b"a", |old| old).unwrap(), None);
    assert_eq!(map.remove(b"a").unwrap(), None);
    let all: Result<Vec<_>, _> = map.iter().unwrap().collect();
    assert_eq!(all.unwrap(), [(b"b".to_vec(), Vec::new())]);
    assert_eq!(map.remove(b"b").unwrap(), Some(Vec::new()));
    assert!(map.is_empty());
}

#[test]
fn a_map_says_what_it_does() {
    let _house = House::new("maps-words");
    says_what_it_does(&Map::private(&small(4)).unwrap());
    says_what_it_does(&Map::create("m", &small(4)).unwrap());
    says_what_it_does(&Map::open("m").unwrap());
}

#[test]
fn an_impossible_key_or_value_is_refused_in_words() {
    let _house = House::new("maps-refused");
    let map = Map::<[u8], [u8]>::create("m", &small(2)).unwrap();
    let said = |e: MapError| e.to_string();
    assert_eq!(said(map.get(b"").unwrap_err()), "a key of 0 byte(s): map `m` takes keys of 1 to 8");
    assert_eq!(said(map.insert(b"123456789", b"").unwrap_err()), "a key of 9 byte(s): map `m` takes keys of 1 to 8");
    assert_eq!(
        said(map.insert(b"a", &[0; 17]).unwrap_err()),
        "a value of 17 bytes: map `m` takes values of at most 16"
    );
    let long = map.update(b"a", |_| Some(vec![0; 17])).unwrap_err();
    assert!(matches!(long, MapError::Value { len: 17, .. }), "{long}");
    assert!(map.is_empty());
    map.insert(b"a", b"1").unwrap();
    map.insert(b"b", b"2").unwrap();
    let full = map.insert(b"c", b"3").unwrap_err();
    assert!(said(full).contains("full: it was made for 2 entries"));
    // A full map goes on with what it has.
    assert_eq!(map.insert(b"a", b"9").unwrap(), Some(b"1".to_vec()));
    map.remove(b"b").unwrap();
    map.insert(b"c", b"3").unwrap();
    assert_eq!(map.len(), 2);
    let other = Map::<u64, [u8]>::open("m").unwrap_err();
    assert!(said(other).contains("keys u64 (8 bytes)"));
    let shape = Map::<[u8], [u8]>::open_or_create("m", &small(3)).unwrap_err();
    assert!(said(shape).contains("2 entries, keys of 8 and values of 16"));
    for options in
        [small(0), small(1 << 21), MapOptions { key: 0, ..small(1) }, MapOptions { value: 1 << 21, ..small(1) }]
    {
        let e = Map::<[u8], [u8]>::private(&options).unwrap_err();
        assert!(matches!(e, MapError::Capacity { .. }), "{options:?}: {e}");
    }
    let there = Map::<[u8], [u8]>::create("m", &small(2)).unwrap_err();
    assert!(matches!(there, MapError::Object(ObjectError::Exists { .. })), "{there}");
    let none = Map::<[u8], [u8]>::open("n").unwrap_err();
    assert!(said(none).contains("`chappe map create n` makes one"));
    let used = Map::unmake("m", false).unwrap_err();
    assert!(said(used).contains("2 entries in it"));
}

#[test]
fn plain_data_is_kept_as_it_is() {
    let _house = House::new("maps-plain");
    let map = Map::<u32, [u64; 2]>::create("m", &MapOptions { entries: 100, ..MapOptions::default() }).unwrap();
    for i in 0..100 {
        assert_eq!(map.insert(&i, &[i.into(), !u64::from(i)]).unwrap(), None);
    }
    assert!(matches!(map.insert(&100, &[0, 0]), Err(MapError::Full { entries: 100, .. })));
    for i in 0..100 {
        assert_eq!(map.get(&i).unwrap(), Some([i.into(), !u64::from(i)]));
    }
    let mut keys: Vec<u32> = map.iter().unwrap().map(|e| e.unwrap().0).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..100).collect::<Vec<_>>());
    // Anything can be listed as bytes.
    assert_eq!(Map::open_as_bytes("m").unwrap().get(&7_u32.to_le_bytes()).unwrap().unwrap().len(), 16);
    for i in 0..100 {
        map.remove(&i).unwrap();
    }
    Map::unmake("m", false).unwrap();
    assert!(matches!(map.get(&1), Err(MapError::Dead { .. })));
    assert!(matches!(map.insert(&1, &[0, 0]), Err(MapError::Dead { .. })));
    assert!(map.iter().is_err() && map.info().is_err());
}

#[test]
fn a_removed_map_that_somebody_may_be_changing_keeps_its_blocks() {
    let house = House::new("maps-reuse");
    let options =
        chappe::ArenaOptions { members: Some(16), objects: Some(8), data: Some(8 << 10), ..Default::default() };
    let arena = Arena::create("default", &options).unwrap();
    let large = MapOptions { entries: 16, key: 8, value: 16, ordered: false };
    let map = Map::<[u8], [u8]>::create("m", &large).unwrap();
    let mut child = house.actor("put");
    assert_eq!(child.hear(), "done");
    assert_eq!(map.get(b"its").unwrap(), Some(b"here".to_vec()));
    let ObjectState::Map(info) = arena.object("m").unwrap().state else { panic!("a map") };
    assert_eq!((info.used, info.users.len()), (1, 1));
    Map::unmake("m", true).unwrap();
    // The child may be in the middle of a change: no other gets its blocks.
    let blocks = info.bytes;
    let room = (8 << 10) / blocks;
    let others: Vec<_> = (0..room).map(|i| Map::<[u8], [u8]>::create(&format!("o{i}"), &large)).collect();
    assert!(others.iter().any(Result::is_err), "{blocks} bytes each: the blocks are another's already");
    child.kill();
    eventually("the blocks come back", || {
        arena.put_right(Duration::from_secs(1)).unwrap();
        let made: Vec<_> = (0..room).map(|i| Map::<[u8], [u8]>::open_or_create(&format!("o{i}"), &large)).collect();
        made.iter().all(Result::is_ok)
    });
}

#[test]
fn a_thread_that_ends_leaves_nothing_behind() {
    let _house = House::new("maps-threads");
    let map = Map::<[u8], [u8]>::create("m", &small(8)).unwrap();
    std::thread::scope(|s| _ = s.spawn(|| map.insert(b"a", b"1").unwrap()).join().unwrap());
    eventually("its bit goes", || map.info().unwrap().users.is_empty());
    assert_eq!(map.get(b"a").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn a_watch_sees_each_state_that_lasts() {
    let house = House::new("maps-watch");
    let map = Map::<[u8], [u8]>::create("m", &small(8)).unwrap();
    let mut watch = map.watch(None);
    let mut only = map.watch(Some(b"b"));
    assert_eq!(watch.next(Some(Duration::ZERO)).unwrap(), []);
    map.insert(b"b", b"1").unwrap();
    map.insert(b"a", b"2").unwrap();
    let told = |events: Vec<Event>| -> Vec<_> { events.into_iter().map(|e| (e.key, e.old, e.new)).collect() };
    let (a, b) = (b"a".to_vec(), b"b".to_vec());
    let first = [(a, None, Some(b"2".to_vec())), (b.clone(), None, Some(b"1".to_vec()))];
    assert_eq!(told(watch.next(None).unwrap()), first);
    assert_eq!(told(only.next(None).unwrap()), [(b.clone(), None, Some(b"1".to_vec()))]);
    map.remove(b"b").unwrap();
    assert_eq!(told(watch.next(None).unwrap()), [(b, Some(b"1".to_vec()), None)]);
    assert_eq!(only.next(None).unwrap().len(), 1);
    // One that sleeps is woken.
    let mut child = house.actor("watch");
    assert_eq!(child.hear(), "ready");
    eventually("it waits", || map.info().unwrap().waiting == 1);
    map.insert(b"now", b"").unwrap();
    assert_eq!(child.hear(), "now");
    child.ended();
    // One that sleeps when the map is removed is told so.
    let private = Map::<[u8], [u8]>::open("m").unwrap();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let mut watch = private.watch(None);
            watch.changes().unwrap();
            watch.next(Some(LONG))
        });
        eventually("it waits", || private.info().is_ok_and(|info| info.waiting == 1));
        Map::unmake("m", true).unwrap();
        assert!(matches!(waiter.join().unwrap(), Err(MapError::Dead { .. })));
    });
}

#[test]
#[ignore = "storm: processes that are killed at random"]
fn killed_writers_leave_the_map_whole() {
    let house = House::new("maps-kills");
    // As many entries as keys: one that is lost is missed.
    let map = Map::<[u8], [u8]>::create("m", &small(20)).unwrap();
    let mut dice = Dice(7);
    for _ in 0..60 {
        let mut children: Vec<_> = (0..2).map(|_| house.actor("write")).collect();
        children.iter_mut().for_each(|c| assert_eq!(c.hear(), "ready"));
        std::thread::sleep(Duration::from_micros(dice.roll(20_000) as u64));
        children.into_iter().for_each(crate::house::Actor::kill);
        for entry in map.iter().unwrap() {
            let (_, value) = entry.unwrap();
            assert!(value.len() == 16 && value.iter().all(|b| *b == value[0]), "torn: {value:?}");
        }
        for key in 0..20_u64 {
            map.insert(&key.to_le_bytes(), &[1; 16]).unwrap();
        }
        assert_eq!(map.iter().unwrap().count(), 20);
    }
    assert_eq!(map.info().unwrap().used, 20);
}

#[test]
#[ignore = "storm: writers that race with a walker"]
fn a_walk_sees_what_was_there_throughout() {
    let map = Map::<u64, u64>::private(&MapOptions { entries: 400, ..MapOptions::default() }).unwrap();
    let stays = |key: u64| key.is_multiple_of(4);
    (0..400).filter(|k| stays(*k)).for_each(|k| _ = map.insert(&k, &k).unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        for seed in 0..8 {
            let (map, over) = (&map, &over);
            s.spawn(move || {
                let mut dice = Dice(seed + 1);
                while !over.load(Ordering::SeqCst) {
                    let key = dice.roll(400) as u64;
                    if stays(key) {
                        map.update(&key, |old| old.map(|v| v.wrapping_add(400))).unwrap();
                    } else if dice.roll(2) == 0 {
                        map.insert(&key, &key).unwrap();
                    } else {
                        map.remove(&key).unwrap();
                    }
                }
            });
        }
        for _ in 0..3_000 {
            let mut seen = BTreeMap::new();
            for entry in map.iter().unwrap() {
                let (key, value) = entry.unwrap();
                assert_eq!(value % 400, key, "a value that is another's");
                assert!(seen.insert(key, value).is_none(), "{key} came twice");
            }
            assert!((0..400).filter(|k| stays(*k)).all(|k| seen.contains_key(&k)), "one that stayed was not seen");
        }
        over.store(true, Ordering::SeqCst);
    });
}

#[derive(Clone, Debug)]
enum Op {
    Get(u8),
    Put(u8, u8),
    New(u8, u8),
    Swap(u8, u8, u8),
    Remove(u8),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Dictionary(BTreeMap<u8, u8>);

impl Model for Dictionary {
    type Op = Op;
    type Answer = Option<u8>;
    fn apply(&mut self, op: &Op) -> Option<u8> {
        match *op {
            Op::Get(k) => self.0.get(&k).copied(),
            Op::Put(k, v) => self.0.insert(k, v),
            Op::New(k, v) => {
                let old = self.0.get(&k).copied();
                self.0.entry(k).or_insert(v);
                old
            }
            Op::Swap(k, from, to) => {
                let old = self.0.get(&k).copied();
                if old == Some(from) {
                    self.0.insert(k, to);
                }
                old
            }
            Op::Remove(k) => self.0.remove(&k),
        }
    }
}

fn act(map: &Map<u8, u8>, op: &Op) -> Option<u8> {
    match *op {
        Op::Get(k) => map.get(&k).unwrap(),
        Op::Put(k, v) => map.insert(&k, &v).unwrap(),
        Op::New(k, v) => {
            let (value, new) = map.get_or_insert(&k, &v).unwrap();
            if new { None } else { Some(value) }
        }
        Op::Swap(k, from, to) => match map.compare_exchange(&k, Some(&from), Some(&to)).unwrap() {
            Ok(()) => Some(from),
            Err(has) => has,
        },
        Op::Remove(k) => map.remove(&k).unwrap(),
    }
}

/// Records and checks so many histories on three keys.
fn recorded(map: &Map<u8, u8>, histories: usize) {
    let begin = || {
        (0..3).for_each(|k| _ = map.remove(&k).unwrap());
        Dictionary(BTreeMap::new())
    };
    let choose = |dice: &mut Dice| {
        let (key, value) = (dice.roll(3) as u8, dice.roll(5) as u8);
        match dice.roll(5) {
            0 => Op::Get(key),
            1 => Op::Put(key, value),
            2 => Op::New(key, value),
            3 => Op::Swap(key, value, value + 1),
            _ => Op::Remove(key),
        }
    };
    crate::recorder::recorded(histories, begin, choose, |op| act(map, op));
    assert!(map.is_empty());
}

#[test]
fn recorded_histories_are_linearizable() {
    let _house = House::new("maps-histories");
    recorded(&Map::private(&small(3)).unwrap(), 300);
    recorded(&Map::create("m", &small(3)).unwrap(), 300);
}

#[test]
#[ignore = "storm: a hundred thousand histories"]
fn a_hundred_thousand_recorded_histories_are_linearizable() {
    let _house = House::new("maps-storm");
    recorded(&Map::private(&small(3)).unwrap(), 50_000);
    recorded(&Map::create("m", &small(3)).unwrap(), 50_000);
}

#[test]
fn a_datum_is_plain_data_or_bytes() {
    fn takes<T: Datum + ?Sized>() {}
    takes::<[u8]>();
    takes::<u8>();
    takes::<[u32; 4]>();
}

#[test]
fn ordered_keys_are_compared_by_their_own_bytes() {
    let _house = House::new("maps-ordered");
    let options = MapOptions { ordered: true, entries: 8, key: 24, value: 8 };
    for map in [Map::<[u8], [u8]>::private(&options).unwrap(), Map::create("m", &options).unwrap()] {
        // All nodes are used for long keys first: a shorter one's further words are not its own.
        for filling in [255_u8, 1] {
            let long = |last: u8| [&[filling; 23][..], &[last]].concat();
            (0..8).for_each(|last| _ = map.insert(&long(last)[..], b"").unwrap());
            (0..8).for_each(|last| _ = map.remove(&long(last)[..]).unwrap());
        }
        let keys: [&[u8]; 7] = [b"b", b"aaaaaaaa", b"aaaaaaaab", b"a", b"aaaaaaaa\0", b"aaaaaaa", b"aaab"];
        for key in keys {
            assert_eq!(map.insert(key, key.get(..1).unwrap()).unwrap(), None, "{key:?}");
        }
        for key in keys {
            assert!(map.contains(key).unwrap(), "{key:?}");
        }
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        let all: Vec<_> = map.iter().unwrap().map(|e| e.unwrap().0).collect();
        assert_eq!(all, sorted);
        let after: Vec<_> = map.iter_after(b"aaaaaaaa").unwrap().map(|e| e.unwrap().0).collect();
        assert_eq!(after, sorted[3..]);
        assert_eq!(map.first().unwrap().unwrap().0, b"a");
    }
    let other = Map::<[u8], [u8]>::open_or_create("m", &MapOptions { ordered: false, ..options }).unwrap_err();
    assert!(other.to_string().contains("in order"), "{other}");
    let unordered = Map::<[u8], [u8]>::private(&small(1)).unwrap().iter_after(b"a").err().unwrap();
    assert!(matches!(unordered, MapError::Unordered { .. }), "{unordered}");
}
