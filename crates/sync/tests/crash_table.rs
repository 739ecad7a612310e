//! The table of a map, explored: every order of a few puts, gets, removals and walks, every process killed and stopped at every step, recoverers as
//! well. What must hold: histories are linearizable, an operation of the dead happened or not; a table is full only if as many keys as it was made for
//! were there at one moment; a walk sees every key that was there throughout, none twice; when all is over, no node and no cell is out of use.

use crate::history::{Event, Model, assert_linearizable};
use chappe_arena::Visit;
use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::AtomicU32;
use chappe_structures::table::{Change, Decide, Full, Shape, Table};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;

const MEMBERS: usize = 5;
const LAST: u16 = 9;
/// Longer than a word: it can be torn.
type Value = [u8; 12];

fn value(v: u8) -> Value {
    [v; 12]
}

fn whole(bytes: &[u8]) -> u8 {
    assert!(bytes.len() == 12 && bytes.iter().all(|b| *b == bytes[0]), "torn: {bytes:?}");
    bytes[0]
}

#[derive(Clone, Debug)]
enum Op {
    Get(u8),
    Put(u8, u8),
    Insert(u8, u8),
    Swap(u8, u8, u8),
    Remove(u8),
    /// A key that was refused because the table was full. The answer is 1 if so many entries were there, and not the key.
    Full(u8, u32),
}

/// What the entry had.
type Answer = Option<u8>;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Dictionary(BTreeMap<u8, u8>);

impl Model for Dictionary {
    type Op = Op;
    type Answer = Answer;
    fn apply(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Get(k) => self.0.get(&k).copied(),
            Op::Put(k, v) => self.0.insert(k, v),
            Op::Insert(k, v) => {
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
            Op::Full(k, entries) => Some(u8::from(self.0.len() >= entries as usize && !self.0.contains_key(&k))),
        }
    }
}

struct Does(Op, Value);

impl Decide for Does {
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        match (&self.0, old.map(whole)) {
            (Op::Put(..), _) | (Op::Insert(..), None) => Change::Put(&self.1),
            (Op::Swap(_, from, _), Some(old)) if old == *from => Change::Put(&self.1),
            (Op::Remove(_), Some(_)) => Change::Remove,
            _ => Change::Keep,
        }
    }
}

#[derive(Clone, Copy)]
struct Stage {
    table: Table<'static>,
    /// Three keys of one list, and one of another.
    keys: [u8; 4],
    clock: Shared<Cell<u64>>,
    history: Shared<RefCell<Vec<Event<Op, Answer>>>>,
    before: Shared<RefCell<Dictionary>>,
    lives: Shared<[[AtomicU32; MEMBERS]; 2]>,
    who: Shared<RefCell<Vec<(u16, Process)>>>,
}

impl Stage {
    fn new(world: &World, entries: u32) -> Stage {
        Stage::shaped(world, Shape { entries, key: 1, value: 12, spare: 4, ordered: false })
    }

    fn shaped(world: &World, shape: Shape) -> Stage {
        let place = world.zeroed(shape.bytes());
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let table: Table<'static> = unsafe { Table::new(NonNull::new(place).expect("memory"), shape) };
        table.each_word(&mut |word, name, show| world.name_with(word, name, show));
        let near = |k: &u8| table.is_one_list(&[0], &[*k]);
        let one: Vec<u8> = (0..=255).filter(near).take(3).collect();
        let far = (0..=255).find(|k| !near(k)).unwrap_or(255);
        Stage {
            table,
            keys: [one[0], one[1], one[2], far],
            clock: world.share(Cell::new(0)),
            history: world.share(RefCell::default()),
            before: world.share(RefCell::new(Dictionary(BTreeMap::new()))),
            lives: world.share(Default::default()),
            who: world.share(RefCell::default()),
        }
    }

    fn prefill(&self, keys: &[u8]) {
        for key in keys {
            self.does(LAST, Op::Put(*key, 200)).expect("room");
        }
        *self.before.borrow_mut() = Dictionary(keys.iter().map(|k| (*k, 200)).collect());
        self.history.borrow_mut().clear();
    }

    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn does(&self, me: u16, op: Op) -> Result<Answer, Full> {
        let begun = self.now();
        let at = self.history.borrow().len();
        let event = Event { who: me.into(), what: op.clone(), answer: None, begun, ended: u64::MAX };
        self.history.borrow_mut().push(event);
        let answer = self.act(me, &op);
        let mut history = self.history.borrow_mut();
        match answer {
            Ok(answer) => {
                history[at].ended = self.now();
                history[at].answer = Some(answer);
            }
            // It did nothing, and it was right: there was a moment at which it was full.
            Err(full) => {
                assert_eq!(full, Full::Entries, "no more are at work than there are spare nodes");
                let (Op::Put(k, _) | Op::Insert(k, _)) = op else { panic!("{op:?} takes no room") };
                history[at] = Event {
                    what: Op::Full(k, self.table.shape().entries),
                    answer: Some(Some(1)),
                    ended: self.now(),
                    ..history[at].clone()
                };
                reached("full");
            }
        }
        answer
    }

    fn act(&self, me: u16, op: &Op) -> Result<Answer, Full> {
        let mut old = [0; 12];
        let (key, new) = match *op {
            Op::Get(k) => return Ok(self.table.get(&[k], &mut old).map(|len| whole(&old[..len]))),
            Op::Put(k, v) | Op::Insert(k, v) | Op::Swap(k, _, v) => (k, v),
            Op::Remove(k) => (k, 0),
            Op::Full(..) => unreachable!("an answer, and nothing to be done"),
        };
        let changed = self.table.change(me, &[key], &mut old, &mut Does(op.clone(), value(new)))?;
        Ok(changed.old.map(|len| whole(&old[..len])))
    }

    fn walk(&self) -> Vec<u8> {
        let (mut walk, mut value, mut keys) = (Table::start(), [0; 12], Vec::new());
        while let Some((key, len)) = self.table.step(&mut walk, &mut value) {
            whole(&value[..len]);
            keys.push(key[0]);
        }
        keys
    }

    /// A member whose death the recoverers see. It does not end with what it does.
    fn member(&self, world: &World, name: &str, me: u16, body: impl FnOnce(Stage) + 'static) -> Process {
        let p = world.prepare(name);
        let (stage, lives) = (*self, self.lives);
        p.before(|| {
            lives.iter().for_each(|l| assert_eq!(robust::try_claim(&l[usize::from(me)]), robust::Claim::Fresh));
        });
        self.who.borrow_mut().push((me, p));
        p.run(move || {
            body(stage);
            process::linger();
        })
    }

    fn recoverers(&self, world: &World, members: &[u16], both: bool) {
        for (i, name) in ["recoverer", "another"].into_iter().enumerate().take(1 + usize::from(both)) {
            let p = world.prepare(name);
            for me in members.iter().copied() {
                let stage = *self;
                p.daemon(&format!("of {me}"), move || {
                    robust::claim(&stage.lives[i][usize::from(me)]);
                    chappe_plat::recovering(|| stage.table.recover(&Visit::of_own_memory(), me, || true));
                    process::linger();
                });
            }
        }
    }

    /// When all is over: what must hold.
    fn finally(&self, world: &World) {
        let stage = *self;
        world.prepare("last").last().run(move || stage.settled());
    }

    fn settled(&self) {
        let who = self.who.borrow().clone();
        let of = |fate| who.iter().filter(|(_, p)| p.fate() == fate).map(|(m, _)| *m).collect::<Vec<_>>();
        let (killed, stopped) = (of(Fate::Killed), of(Fate::Stopped));
        for me in &killed {
            self.table.recover(&Visit::of_own_memory(), *me, || true);
            assert_eq!(self.table.in_hand(*me), 0, "the dead {me} has something in hand");
            reached("past a dead one");
        }
        for key in self.keys {
            self.does(LAST, Op::Get(key)).expect("a look");
        }
        assert_linearizable(self.before.borrow().clone(), &self.history.borrow());
        let there = self.walk();
        if stopped.is_empty() {
            // Passing operations have unlinked what is over; what the dead had not freed, their recovery has freed.
            self.table.recover(&Visit::of_own_memory(), LAST, || true);
            assert_eq!(self.table.taken(), (there.len(), there.len()), "nodes or cells are lost");
            for key in &there {
                self.does(LAST, Op::Remove(*key)).expect("a removal");
            }
            // A recoverer may have died, or sleep, before it freed what it had unlinked: the next recovery does it.
            self.table.recover(&Visit::of_own_memory(), LAST, || true);
            assert_eq!(self.table.taken(), (0, 0), "nodes or cells are lost");
        } else {
            reached("past a stopped one");
        }
    }
}

/// Which searches: by depth, and with so many killed.
fn explored(name: &str, kills: u32, schedules: u64, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let all: Vec<Report> = [
        Search::depth(&format!("{name}_depth"), 3).schedules(schedules),
        Search::sweep(&format!("{name}_kill")).kills(1),
        Search::sweep(&format!("{name}_kills")).kills(kills).schedules(schedules),
        Search::depth(&format!("{name}_kill_depth"), 2).kills(1).schedules(schedules),
        Search::priorities(&format!("{name}_kills_pct"), 5).kills(kills).schedules(schedules / 2),
        Search::uniform(&format!("{name}_buffers")).kills(1).store_buffers(4).schedules(schedules / 4),
        Search::sweep(&format!("{name}_stop")).stops(1),
        Search::depth(&format!("{name}_stop_depth"), 2).stops(1).schedules(schedules),
        Search::priorities(&format!("{name}_stop_pct"), 5).stops(1).kills(1).schedules(schedules / 2),
        Search::priorities(&format!("{name}_resume_pct"), 5).stops(2).kills(1).resume().schedules(schedules / 2),
    ]
    .iter()
    .map(|search| search.run(&world))
    .collect();
    for report in &all {
        report.assert_clean();
    }
    for outcome in outcomes {
        assert!(
            all.iter().any(|r| r.outcomes().contains_key(*outcome)) || std::env::var_os("CRASHSIM_REPLAY").is_some(),
            "{name} never came to `{outcome}`"
        );
    }
}

#[test]
fn one_key_is_put_and_removed_by_three_at_once() {
    let world = |world: &World| {
        let stage = Stage::new(world, 3);
        let [a, ..] = stage.keys;
        stage.member(world, "one", 1, move |s| _ = (s.does(1, Op::Put(a, 1)), s.does(1, Op::Remove(a))));
        stage.member(world, "other", 2, move |s| _ = (s.does(2, Op::Insert(a, 2)), s.does(2, Op::Swap(a, 2, 3))));
        stage.member(world, "reader", 3, move |s| _ = (s.does(3, Op::Get(a)), s.does(3, Op::Remove(a))));
        stage.recoverers(world, &[1, 2], false);
        stage.finally(world);
    };
    explored("table_one_key", 2, 8_000, world, &["past a dead one", "past a stopped one"]);
}

#[test]
fn neighbours_come_and_go() {
    let world = |world: &World| {
        let stage = Stage::new(world, 4);
        let [a, b, c, _] = stage.keys;
        stage.prefill(&[a, b, c]);
        stage.member(world, "one", 1, move |s| _ = (s.does(1, Op::Remove(a)), s.does(1, Op::Put(a, 1))));
        stage.member(world, "other", 2, move |s| _ = (s.does(2, Op::Remove(b)), s.does(2, Op::Put(b, 2))));
        stage.member(world, "third", 3, move |s| _ = (s.does(3, Op::Remove(c)), s.does(3, Op::Get(b))));
        stage.recoverers(world, &[1, 2], true);
        stage.finally(world);
    };
    explored("table_neighbours", 3, 8_000, world, &["past a dead one", "past a stopped one"]);
}

#[test]
fn a_walk_sees_what_was_there_throughout_and_nothing_twice() {
    let world = |world: &World| {
        let stage = Stage::new(world, 4);
        let [a, b, c, d] = stage.keys;
        stage.prefill(&[a, b, d]);
        stage.member(world, "one", 1, move |s| {
            _ = (s.does(1, Op::Put(c, 1)), s.does(1, Op::Put(a, 1)), s.does(1, Op::Remove(c)));
        });
        stage.member(world, "other", 2, move |s| _ = (s.does(2, Op::Remove(b)), s.does(2, Op::Put(b, 2))));
        stage.member(world, "walker", 3, move |s| {
            let mut keys = s.walk();
            for key in [a, d] {
                assert!(keys.contains(&key), "{key} was there, and was not seen: {keys:?}");
            }
            let all = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), all, "something came twice");
            reached(format!("{all} seen"));
        });
        stage.recoverers(world, &[1, 2], false);
        stage.finally(world);
    };
    explored("table_walk", 2, 8_000, world, &["2 seen", "3 seen", "4 seen", "past a dead one"]);
}

#[test]
fn a_full_table_says_so_and_loses_nothing() {
    let world = |world: &World| {
        let stage = Stage::new(world, 2);
        let [a, b, c, _] = stage.keys;
        stage.prefill(&[a]);
        stage.member(world, "one", 1, move |s| _ = (s.does(1, Op::Put(b, 1)), s.does(1, Op::Put(a, 1))));
        stage.member(world, "other", 2, move |s| _ = (s.does(2, Op::Put(c, 2)), s.does(2, Op::Remove(a))));
        stage.member(world, "third", 3, move |s| _ = s.does(3, Op::Put(c, 3)));
        stage.recoverers(world, &[1, 2], true);
        stage.finally(world);
    };
    explored("table_full", 2, 8_000, world, &["full", "past a dead one", "past a stopped one"]);
}

#[test]
fn a_table_is_full_only_if_it_was_so_at_one_moment() {
    let world = |world: &World| {
        let stage = Stage::new(world, 2);
        let [a, b, _, d] = stage.keys;
        stage.prefill(&[a]);
        stage.member(world, "one", 1, move |s| _ = s.does(1, Op::Put(b, 1)));
        stage.member(world, "other", 2, move |s| _ = s.does(2, Op::Remove(a)));
        // In another list than those.
        stage.member(world, "third", 3, move |s| _ = s.does(3, Op::Put(d, 3)));
        stage.recoverers(world, &[1, 2], false);
        stage.finally(world);
    };
    explored("table_full_once", 2, 8_000, world, &["full", "past a dead one", "past a stopped one"]);
}

/// Small enough to be searched whole: a process has unlinked a node and frees it late, and the node is another's by
/// then.
#[test]
fn one_that_is_late_frees_nothing_of_anothers() {
    let world = |world: &World| {
        let stage = Stage::new(world, 1);
        let [a, b, ..] = stage.keys;
        stage.prefill(&[a]);
        stage.member(world, "one", 1, move |s| _ = s.does(1, Op::Remove(a)));
        stage.member(world, "other", 2, move |s| {
            // Frees what has been unlinked; then there is room for another key.
            s.table.recover(&Visit::of_own_memory(), LAST, || true);
            if s.does(2, Op::Put(b, 2)).is_ok() {
                reached("in the same room");
            }
        });
        stage.finally(world);
    };
    let report = Search::depth("table_late", 2).whole().run(world);
    report.assert_clean().assert_reached(&["in the same room"]);
    assert!(report.complete(), "{} schedules, and not all", report.schedules());
}

#[test]
fn an_ordered_walk_sees_keys_in_order() {
    let world = |world: &World| {
        let stage = Stage::shaped(world, Shape { entries: 4, key: 1, value: 12, spare: 4, ordered: true });
        let [a, b, c, d] = [10, 20, 30, 40];
        let stage = Stage { keys: [a, b, c, d], ..stage };
        stage.prefill(&[b, d]);
        stage.member(world, "one", 1, move |s| _ = (s.does(1, Op::Put(c, 1)), s.does(1, Op::Remove(b))));
        stage.member(world, "other", 2, move |s| _ = (s.does(2, Op::Put(a, 2)), s.does(2, Op::Remove(c))));
        stage.member(world, "walker", 3, move |s| {
            let keys = s.walk();
            assert!(keys.is_sorted_by(|x, y| x < y), "not in order: {keys:?}");
            assert!(keys.contains(&d), "it was there, and was not seen: {keys:?}");
            reached(format!("{} seen", keys.len()));
        });
        stage.recoverers(world, &[1, 2], false);
        stage.finally(world);
    };
    explored("table_ordered", 2, 2_000, world, &["2 seen", "3 seen", "past a dead one"]);
}
