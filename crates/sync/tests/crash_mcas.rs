//! Words that change together, explored: every order of a few operations on words that they share, every process killed and stopped at every
//! step, and those that take over from the dead as well. What must hold: histories are linearizable, an operation of the dead happened or not,
//! none half; a stopped process delays no other.

use crate::history::{Event, Model, assert_linearizable};
use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::AtomicU32;
use chappe_structures::mcas::{Field, Shape, Step};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

const WORDS: u32 = 3;
const PARTIES: u32 = 5;
const LAST: u16 = 4;

#[derive(Clone, Debug)]
enum Op {
    Load(u32),
    Swap(Vec<Step>),
}

/// `(word, old, new)`.
fn swap(steps: &[(u32, u64, u64)]) -> Op {
    Op::Swap(steps.iter().map(|(word, old, new)| Step { word: *word, old: *old, new: *new }).collect())
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Words([u64; WORDS as usize]);

impl Model for Words {
    type Op = Op;
    /// What was read; of a swap, whether it was done.
    type Answer = u64;
    fn apply(&mut self, op: &Op) -> u64 {
        match op {
            Op::Load(word) => self.0[*word as usize],
            Op::Swap(steps) => {
                let fits = steps.iter().all(|s| self.0[s.word as usize] == s.old);
                if fits {
                    steps.iter().for_each(|s| self.0[s.word as usize] = s.new);
                }
                fits.into()
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Stage {
    field: Field<'static>,
    clock: Shared<Cell<u64>>,
    history: Shared<RefCell<Vec<Event<Op, u64>>>>,
    before: Shared<RefCell<Words>>,
    lives: Shared<[AtomicU32; PARTIES as usize]>,
    who: Shared<RefCell<Vec<(u16, Process)>>>,
}

impl Stage {
    fn new(world: &World, records: u32) -> Stage {
        let shape = Shape { words: WORDS, parties: PARTIES, records };
        let place = world.zeroed(shape.bytes());
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let field: Field<'static> = unsafe { Field::new(NonNull::new(place).expect("memory"), shape) };
        field.each_word(&mut |word, name, show| world.name_with(word, name, show));
        Stage {
            field,
            clock: world.share(Cell::new(0)),
            history: world.share(RefCell::default()),
            before: world.share(RefCell::new(Words([0; WORDS as usize]))),
            lives: world.share(Default::default()),
            who: world.share(RefCell::default()),
        }
    }

    fn begins_with(&self, word: u32, value: u64) {
        self.field.begin_with(word, value);
        self.before.borrow_mut().0[word as usize] = value;
    }

    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn does(&self, me: u16, op: Op) -> u64 {
        let begun = self.now();
        let at = self.history.borrow().len();
        let event = Event { who: me.into(), what: op.clone(), answer: None, begun, ended: u64::MAX };
        self.history.borrow_mut().push(event);
        let answer = match &op {
            Op::Load(word) => self.field.load(*word),
            Op::Swap(steps) => self.field.swap(me, steps).into(),
        };
        let mut history = self.history.borrow_mut();
        history[at].ended = self.now();
        history[at].answer = Some(answer);
        answer
    }

    fn member(&self, world: &World, name: &str, me: u16, body: impl FnOnce(Stage) + 'static) -> Process {
        let p = world.prepare(name);
        let (stage, lives) = (*self, self.lives);
        p.before(|| {
            assert_eq!(robust::try_claim(&lives[usize::from(me)]), robust::Claim::Fresh);
        });
        self.who.borrow_mut().push((me, p));
        p.run(move || {
            body(stage);
            process::linger();
        })
    }

    /// Takes over the party of a dead one, and goes on under its number.
    fn heir(&self, world: &World, of: u16, ops: Vec<Op>) {
        let stage = *self;
        world.prepare("heir").daemon(&format!("of {of}"), move || {
            robust::claim(&stage.lives[usize::from(of)]);
            reached("taken over");
            for op in ops {
                stage.does(of, op);
            }
            process::linger();
        });
    }

    /// When all is over: what must hold.
    fn finally(&self, world: &World) {
        let stage = *self;
        world.prepare("last").last().run(move || {
            let fates = stage.who.borrow().iter().map(|(_, p)| p.fate()).collect::<Vec<_>>();
            for (fate, what) in [(Fate::Killed, "past a dead one"), (Fate::Stopped, "past a stopped one")] {
                if fates.contains(&fate) {
                    reached(what);
                }
            }
            for word in 0..WORDS {
                stage.does(LAST, Op::Load(word));
            }
            // Changes what the dead and the stopped may have left: each of those that are under way is met once.
            let through = (0..=PARTIES).any(|i| {
                let now: Vec<u64> = (0..WORDS).map(|w| stage.field.load(w)).collect();
                let steps: Vec<_> = (0..WORDS).map(|w| (w, now[w as usize], u64::from(w + i) + 100)).collect();
                stage.does(LAST, swap(&steps)) == 1
            });
            assert!(through, "nobody else is there");
            for word in 0..WORDS {
                stage.does(LAST, Op::Load(word));
            }
            assert_linearizable(stage.before.borrow().clone(), &stage.history.borrow());
        });
    }
}

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
        Search::priorities(&format!("{name}_resume_pct"), 5).stops(2).kills(1).resume().schedules(schedules),
        Search::depth(&format!("{name}_resume_depth"), 2).stops(1).resume().schedules(schedules),
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
fn two_words_change_at_once_for_three() {
    let world = |world: &World| {
        let stage = Stage::new(world, 2);
        stage.member(world, "one", 1, move |s| {
            if s.does(1, swap(&[(0, 0, 1), (1, 0, 1)])) == 1 {
                reached("the first is through");
            }
        });
        stage.member(world, "other", 2, move |s| {
            s.does(2, swap(&[(1, 0, 2), (2, 0, 2)]));
            s.does(2, swap(&[(0, 1, 0), (1, 1, 0)]));
        });
        stage.member(world, "reader", 3, move |s| _ = (s.does(3, Op::Load(0)), s.does(3, Op::Load(1))));
        stage.finally(world);
    };
    explored("mcas_two", 2, 8_000, world, &["the first is through", "past a dead one", "past a stopped one"]);
}

#[test]
fn a_value_that_comes_back_deceives_nobody() {
    let world = |world: &World| {
        let stage = Stage::new(world, 2);
        stage.member(world, "one", 1, move |s| _ = s.does(1, swap(&[(0, 0, 5), (1, 9, 5)])));
        stage.member(world, "other", 2, move |s| {
            for _ in 0..2 {
                s.does(2, swap(&[(0, 0, 1), (1, 0, 1)]));
                s.does(2, swap(&[(0, 1, 0), (1, 1, 0)]));
            }
            s.does(2, swap(&[(0, 0, 7)]));
        });
        stage.member(world, "single", 3, move |s| {
            s.does(3, swap(&[(1, 0, 9)]));
            s.does(3, swap(&[(1, 9, 0)]));
        });
        stage.finally(world);
    };
    explored("mcas_again", 2, 8_000, world, &["past a dead one", "past a stopped one"]);
}

#[test]
fn records_are_used_again_when_no_word_leads_there() {
    let world = |world: &World| {
        let stage = Stage::new(world, 1);
        stage.member(world, "one", 1, move |s| {
            s.does(1, swap(&[(0, 0, 1), (1, 0, 1)]));
            s.does(1, swap(&[(1, 1, 2), (2, 0, 2)]));
        });
        stage.member(world, "other", 2, move |s| {
            s.does(2, swap(&[(0, 1, 3), (1, 1, 3)]));
            s.does(2, swap(&[(1, 3, 4), (2, 0, 4)]));
        });
        stage.member(world, "reader", 3, move |s| _ = (s.does(3, Op::Load(0)), s.does(3, Op::Load(0))));
        stage.heir(world, 1, vec![swap(&[(0, 0, 3), (1, 0, 3)]), swap(&[(0, 3, 4), (1, 3, 4)])]);
        stage.finally(world);
    };
    explored("mcas_reuse", 2, 8_000, world, &["past a dead one", "past a stopped one", "taken over"]);
}

#[test]
fn a_helper_that_is_late_touches_no_word() {
    let world = |world: &World| {
        let stage = Stage::new(world, 1);
        stage.begins_with(1, 9);
        // Found failed, or not, by its observer; then its record is used for another operation.
        stage.member(world, "one", 1, move |s| {
            s.does(1, swap(&[(0, 0, 1), (1, 0, 1)]));
            s.does(1, swap(&[(0, 0, 5), (2, 0, 5)]));
        });
        stage.member(world, "there and back", 2, move |s| _ = s.does(2, swap(&[(1, 9, 0)])));
        stage.member(world, "helper", 3, move |s| _ = s.does(3, swap(&[(0, 0, 2), (1, 7, 2)])));
        stage.finally(world);
    };
    explored("mcas_late", 1, 20_000, world, &["past a dead one", "past a stopped one"]);
}
