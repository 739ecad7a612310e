//! Stacks, explored. The array that processes share: every order of a few pushes and pops, every process killed and stopped at every step, recoverers as
//! well. The linked one of a process: every order, no thread killed alone. What must hold: histories are linearizable, an operation of the dead happened
//! or not; a stack is full only if it was so at one moment; when all is over, no cell is out of use.

use crate::history::{Model, assert_linearizable};
use chappe_arena::Visit;
use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::AtomicU32;
use chappe_structures::linked::Linked;
use chappe_structures::pile::{Full, Pile, Shape};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

const MEMBERS: usize = 5;
const LAST: u16 = 9;

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(u8),
    Pop,
    Peek,
}

/// The bound, and what is there.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Sequential(usize, Vec<u8>);

impl Model for Sequential {
    type Op = Op;
    /// What came out; of a push, whether it fitted.
    type Answer = Option<u8>;
    fn apply(&mut self, op: &Op) -> Option<u8> {
        match *op {
            Op::Push(_) if self.1.len() == self.0 => None,
            Op::Push(v) => {
                self.1.push(v);
                Some(1)
            }
            Op::Pop => self.1.pop(),
            Op::Peek => self.1.last().copied(),
        }
    }
}

type Journal = crate::journal::Journal<Op, Option<u8>>;

/// Longer than a word: it can be torn.
type Value = [u8; 12];

fn whole(bytes: Value) -> u8 {
    assert!(bytes.iter().all(|b| *b == bytes[0]), "torn: {bytes:?}");
    bytes[0]
}

#[derive(Clone, Copy)]
struct Stage {
    pile: Pile<'static>,
    journal: Journal,
    before: Shared<RefCell<Sequential>>,
    lives: Shared<[[AtomicU32; MEMBERS]; 2]>,
    who: Shared<RefCell<Vec<(u16, Process)>>>,
}

impl Stage {
    fn new(world: &World, capacity: u32, there: &[u8]) -> Stage {
        Stage::with_spare(world, capacity, 4, there)
    }

    fn with_spare(world: &World, capacity: u32, spare: u32, there: &[u8]) -> Stage {
        let shape = Shape { capacity, size: 12, spare };
        let place = world.zeroed(shape.bytes());
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let pile: Pile<'static> = unsafe { Pile::new(NonNull::new(place).expect("memory"), shape) };
        pile.each_word(&mut |word, name, show| world.name_with(word, name, show));
        for v in there {
            pile.push(LAST, &[*v; 12]).expect("room");
        }
        Stage {
            pile,
            journal: Journal::new(world),
            before: world.share(RefCell::new(Sequential(capacity as usize, there.to_vec()))),
            lives: world.share(Default::default()),
            who: world.share(RefCell::default()),
        }
    }

    fn does(&self, me: u16, op: Op) -> Option<u8> {
        self.journal.note(me, op, || {
            let mut value = [0; 12];
            match op {
                Op::Push(v) => match self.pile.push(me, &[v; 12]) {
                    Ok(()) => Some(1),
                    Err(full) => {
                        assert_eq!(full, Full::Elements, "no more are at work than there are spare cells");
                        reached("full");
                        None
                    }
                },
                Op::Pop => self.pile.pop(&mut value).then(|| whole(value)),
                Op::Peek => self.pile.peek(&mut value).then(|| whole(value)),
            }
        })
    }

    /// A member whose death the recoverers see. It does not end with what it does.
    fn member(&self, world: &World, name: &str, me: u16, ops: &'static [Op]) {
        let p = world.prepare(name);
        let (stage, lives) = (*self, self.lives);
        p.before(|| {
            lives.iter().for_each(|l| assert_eq!(robust::try_claim(&l[usize::from(me)]), robust::Claim::Fresh));
        });
        self.who.borrow_mut().push((me, p));
        p.run(move || {
            ops.iter().for_each(|op| _ = stage.does(me, *op));
            process::linger();
        });
    }

    fn recoverers(&self, world: &World, members: &[u16], both: bool) {
        for (i, name) in ["recoverer", "another"].into_iter().enumerate().take(1 + usize::from(both)) {
            let p = world.prepare(name);
            for me in members.iter().copied() {
                let stage = *self;
                p.daemon(&format!("of {me}"), move || {
                    robust::claim(&stage.lives[i][usize::from(me)]);
                    chappe_plat::recovering(|| stage.pile.recover(&Visit::of_own_memory(), me, || true));
                    process::linger();
                });
            }
        }
    }

    /// When all is over: what must hold.
    fn finally(&self, world: &World) {
        let stage = *self;
        world.prepare("last").last().run(move || {
            let who = stage.who.borrow().clone();
            let of = |fate| who.iter().filter(|(_, p)| p.fate() == fate).map(|(m, _)| *m).collect::<Vec<_>>();
            let (killed, stopped) = (of(Fate::Killed), of(Fate::Stopped));
            for me in &killed {
                stage.pile.recover(&Visit::of_own_memory(), *me, || true);
                reached("past a dead one");
            }
            if stopped.is_empty() {
                stage.pile.recover(&Visit::of_own_memory(), LAST, || true);
                assert_eq!(stage.pile.taken(), stage.pile.len() as usize, "cells are lost, or another's");
            }
            stage.does(LAST, Op::Push(99));
            while stage.does(LAST, Op::Pop).is_some() {}
            assert_linearizable(stage.before.borrow().clone(), &stage.journal.history());
            if stopped.is_empty() {
                stage.pile.recover(&Visit::of_own_memory(), LAST, || true);
                assert_eq!(stage.pile.taken(), 0, "cells are lost");
            } else {
                reached("past a stopped one");
            }
        });
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
fn pushes_and_pops_of_three_at_once() {
    let world = |world: &World| {
        let stage = Stage::new(world, 3, &[50]);
        stage.member(world, "one", 1, &[Op::Push(1), Op::Pop]);
        stage.member(world, "other", 2, &[Op::Pop, Op::Push(2)]);
        stage.member(world, "third", 3, &[Op::Peek, Op::Push(3), Op::Pop]);
        stage.recoverers(world, &[1, 2], true);
        stage.finally(world);
    };
    explored("stack", 2, 4_000, world, &["past a dead one", "past a stopped one"]);
}

#[test]
fn a_full_stack_says_so_and_loses_nothing() {
    let world = |world: &World| {
        let stage = Stage::new(world, 2, &[50]);
        stage.member(world, "one", 1, &[Op::Push(1), Op::Push(2)]);
        stage.member(world, "other", 2, &[Op::Pop, Op::Push(3)]);
        stage.recoverers(world, &[1, 2], false);
        stage.finally(world);
    };
    explored("stack_full", 2, 4_000, world, &["full", "past a dead one", "past a stopped one"]);
}

/// Searched to its end, and small: what depends on one order of three steps is found on any machine.
fn searched_whole(name: &str, preemptions: u32, kills: u32, world: impl Fn(&World) + Sync) {
    let report = Search::depth(name, preemptions).kills(kills).whole().run(world);
    report.assert_clean();
    assert!(report.complete(), "{name}: {} schedules, and not all", report.schedules());
}

#[test]
fn the_last_top_is_written_down_by_whoever_comes_next() {
    searched_whole("stack_written_down", 2, 0, |world: &World| {
        let stage = Stage::new(world, 3, &[]);
        stage.member(world, "one", 1, &[Op::Push(1), Op::Push(2)]);
        stage.member(world, "other", 2, &[Op::Pop, Op::Pop]);
        stage.finally(world);
    });
}

#[test]
fn a_late_writer_finds_the_slot_changed() {
    searched_whole("stack_late", 2, 0, |world: &World| {
        let stage = Stage::new(world, 3, &[50]);
        stage.member(world, "one", 1, &[Op::Push(1)]);
        stage.member(world, "other", 2, &[Op::Pop, Op::Push(2), Op::Push(3), Op::Pop]);
        stage.finally(world);
    });
}

#[test]
fn a_late_popper_frees_nothing_of_anothers() {
    searched_whole("stack_late_free", 2, 0, |world: &World| {
        let stage = Stage::with_spare(world, 1, 1, &[50]);
        stage.member(world, "one", 1, &[Op::Pop]);
        let s = stage;
        world.process("other", move || {
            // Frees what was popped; then both cells are used in turn.
            s.pile.recover(&Visit::of_own_memory(), LAST, || true);
            for op in [Op::Push(2), Op::Pop, Op::Push(3)] {
                s.does(2, op);
            }
        });
        stage.finally(world);
    });
}

#[test]
fn a_dead_members_element_comes_back() {
    searched_whole("stack_dead", 0, 1, |world: &World| {
        let stage = Stage::new(world, 2, &[50]);
        stage.member(world, "one", 1, &[Op::Push(1), Op::Pop, Op::Pop]);
        stage.recoverers(world, &[1], false);
        stage.finally(world);
    });
}

/// A linked stack, and threads that do this.
fn linked(world: &World, capacity: u32, there: &[u8], threads: &[&'static [Op]]) {
    let stack = world.share(Linked::<u8>::new(capacity));
    let journal = Journal::new(world);
    for v in there {
        assert!(stack.push(*v).is_ok());
    }
    let before = Sequential(capacity as usize, there.to_vec());
    let does = move |me: u16, op: Op| {
        journal.note(me, op, || match op {
            Op::Push(v) => stack.push(v).is_ok().then_some(1),
            Op::Pop => stack.pop(),
            Op::Peek => unreachable!("a private stack shows nothing"),
        })
    };
    for (me, ops) in threads.iter().copied().enumerate() {
        world.process("thread", move || ops.iter().for_each(|op| _ = does(me as u16, *op))).immortal();
    }
    world.prepare("last").last().run(move || {
        let len = stack.len();
        let mut popped = 0;
        while does(LAST, Op::Pop).is_some() {
            popped += 1;
        }
        assert_eq!(popped, len);
        assert_linearizable(before.clone(), &journal.history());
    });
}

#[test]
fn a_linked_stack_is_one_for_three_threads() {
    for search in [
        Search::depth("linked_depth", 2).schedules(20_000),
        Search::uniform("linked_buffers").store_buffers(4).schedules(2_000),
        Search::priorities("linked_pct", 5).schedules(4_000),
    ] {
        let threads: [&'static [Op]; 3] = [&[Op::Push(1), Op::Pop], &[Op::Pop, Op::Push(2)], &[Op::Push(3), Op::Pop]];
        search.run(|world: &World| linked(world, 2, &[50], &threads)).assert_clean();
    }
}

/// A recoverer is late: another one has made up for the death, and the stack was removed. What it finds is another object's, whose words look like
/// cells in use: it changes none of them.
#[test]
fn a_late_recoverer_changes_nothing_of_another_object() {
    const WORD: u64 = 0x72;
    let report = Search::depth("stack_of_another", 1).whole().run(|world: &World| {
        let shape = Shape { capacity: 2, size: 4, spare: 1 };
        let place = NonNull::new(world.zeroed(shape.bytes())).expect("memory");
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let pile: Pile<'static> = unsafe { Pile::new(place, shape) };
        let (is_left, words) = (world.share(Cell::new(true)), shape.bytes() / 8);
        world.process("late", move || pile.recover(&Visit::of_own_memory(), 1, || is_left.get()));
        world.process("next", move || {
            pile.recover(&Visit::of_own_memory(), 1, || true);
            is_left.set(false);
            // SAFETY: the stack's memory; no other process of the explorer's runs meanwhile.
            unsafe { std::slice::from_raw_parts_mut(place.cast::<u64>().as_ptr(), words).fill(WORD) };
            reached("another's");
        });
        world.prepare("last").last().run(move || {
            // SAFETY: as above.
            let now = unsafe { std::slice::from_raw_parts(place.cast::<u64>().as_ptr(), words) };
            assert!(now.iter().all(|now| *now == WORD), "changed: {now:x?}");
        });
    });
    report.assert_clean().assert_reached(&["another's"]);
    assert!(report.complete());
}
