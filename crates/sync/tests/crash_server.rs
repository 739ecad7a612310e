//! Servers, explored. Among processes: every order of a few requests, every process killed and stopped at every step, recoverers as well. Among the
//! threads of a process: every order, no thread killed alone. What must hold: histories are linearizable, a request of the dead was carried out once
//! or not at all; a stopped process delays no other; when all is over, no seat and no cell is out of use.

use crate::history::{Model, assert_linearizable};
use chappe_arena::Visit;
use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::{AtomicU32, pause};
use chappe_structures::combine::Combined;
use chappe_structures::desk::{Desk, Sizes};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

const MEMBERS: usize = 5;
const LAST: u16 = 9;

/// Adds; returns what was there before.
#[derive(Clone, Copy, Debug)]
struct Add(u64);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Sum(u64);

impl Model for Sum {
    type Op = Add;
    type Answer = u64;
    fn apply(&mut self, op: &Add) -> u64 {
        let old = self.0;
        self.0 += op.0;
        old
    }
}

type Journal = crate::journal::Journal<Add, u64>;

/// What a call has executed: state, request, answer.
type Function<'a> = dyn Fn(&mut [u8], &[u8], &mut [u8]) + 'a;

fn number(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The data is the sum, and the sum again: it can be torn.
fn serve(state: &mut [u8], request: &[u8], answer: &mut [u8]) {
    let (sum, again) = (number(state), number(&state[8..]));
    assert_eq!(sum, again, "torn");
    answer.copy_from_slice(&sum.to_ne_bytes());
    let next = (sum + number(request)).to_ne_bytes();
    state[..8].copy_from_slice(&next);
    state[8..].copy_from_slice(&next);
}

#[derive(Clone, Copy)]
struct Stage {
    desk: Desk<'static>,
    journal: Journal,
    lives: Shared<[[AtomicU32; MEMBERS]; 2]>,
    who: Shared<RefCell<Vec<(u16, Process)>>>,
}

impl Stage {
    fn new(world: &World) -> Stage {
        Stage::with_spare(world, 4)
    }

    fn with_spare(world: &World, spare: u32) -> Stage {
        let sizes = Sizes { state: 16, request: 8, answer: 8, spare };
        let place = NonNull::new(world.zeroed(sizes.bytes())).expect("memory");
        // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
        let desk: Desk<'static> = unsafe { Desk::new(place, sizes) };
        desk.each_word(&mut |word, name, show| world.name_with(word, name, show));
        desk.begin_with(&[0; 16]);
        Stage {
            desk,
            journal: Journal::new(world),
            lives: world.share(Default::default()),
            who: world.share(RefCell::default()),
        }
    }

    fn does(&self, me: u16, add: u64) -> u64 {
        self.journal.note(me, Add(add), || {
            let mut answer = [0; 8];
            self.desk.call(me, &add.to_ne_bytes(), &mut answer, &serve).expect("a cell");
            number(&answer)
        })
    }

    /// A member whose death the recoverers see. It does not end with what it does.
    fn member(&self, world: &World, name: &str, me: u16, adds: &'static [u64]) {
        let p = world.prepare(name);
        let (stage, lives) = (*self, self.lives);
        p.before(|| {
            lives.iter().for_each(|l| assert_eq!(robust::try_claim(&l[usize::from(me)]), robust::Claim::Fresh));
        });
        self.who.borrow_mut().push((me, p));
        p.run(move || {
            adds.iter().for_each(|n| _ = stage.does(me, *n));
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
                    chappe_plat::recovering(|| stage.desk.recover(&Visit::of_own_memory(), me, || true));
                    process::linger();
                });
            }
        }
    }

    fn finally(&self, world: &World) {
        let stage = *self;
        world.prepare("last").last().run(move || {
            let who = stage.who.borrow().clone();
            let of = |fate| who.iter().filter(|(_, p)| p.fate() == fate).map(|(m, _)| *m).collect::<Vec<_>>();
            let (killed, stopped) = (of(Fate::Killed), of(Fate::Stopped));
            for me in &killed {
                stage.desk.recover(&Visit::of_own_memory(), *me, || true);
                reached("past a dead one");
            }
            stage.does(LAST, 1000);
            let mut state = [0; 16];
            stage.desk.look(&mut state);
            assert_eq!(state[..8], state[8..], "torn");
            assert_linearizable(Sum(0), &stage.journal.history());
            if stopped.is_empty() {
                stage.desk.recover(&Visit::of_own_memory(), LAST, || true);
                assert_eq!(stage.desk.taken(), (0, (1, 1)), "a seat, node or cell is lost");
            } else {
                reached("past a stopped one");
            }
        });
    }
}

#[test]
fn requests_of_processes_are_carried_out_once_or_not_at_all() {
    let world = |world: &World| {
        let stage = Stage::new(world);
        stage.member(world, "one", 1, &[1, 2]);
        stage.member(world, "other", 2, &[10, 20]);
        stage.recoverers(world, &[1, 2], true);
        stage.finally(world);
    };
    let name = "server";
    let all: Vec<Report> = [
        Search::depth(&format!("{name}_depth"), 2).schedules(2_000),
        Search::sweep(&format!("{name}_kill")).kills(1),
        Search::sweep(&format!("{name}_kills")).kills(2).schedules(2_000),
        Search::priorities(&format!("{name}_kills_pct"), 5).kills(2).schedules(1_000),
        Search::uniform(&format!("{name}_buffers")).kills(1).store_buffers(4).schedules(500),
        Search::sweep(&format!("{name}_stop")).stops(1),
        Search::priorities(&format!("{name}_resume_pct"), 5).stops(2).kills(1).resume().schedules(1_000),
    ]
    .iter()
    .map(|search| search.run(world))
    .collect();
    for report in &all {
        report.assert_clean();
    }
    for outcome in ["past a dead one", "past a stopped one"] {
        assert!(
            all.iter().any(|r| r.outcomes().contains_key(outcome)) || std::env::var_os("CRASHSIM_REPLAY").is_some(),
            "never came to `{outcome}`"
        );
    }
}

/// Small enough to be searched whole: found on any machine.
#[test]
fn a_request_that_another_carried_out_is_not_carried_out_again() {
    let report = Search::depth("server_once", 1).whole().run(|world: &World| {
        let stage = Stage::new(world);
        stage.member(world, "one", 1, &[1]);
        stage.member(world, "other", 2, &[10]);
        stage.finally(world);
    });
    report.assert_clean();
    assert!(report.complete());
}

/// Two callers that have died have all the cells. A third is told that nothing was done: nobody carries its request out later.
#[test]
fn a_request_that_was_refused_is_not_carried_out_later() {
    let report = Search::depth("server_full", 1).whole().run(|world: &World| {
        let (s, dead) = (Stage::with_spare(world, 1), world.share(Cell::new(0)));
        for (name, me, add) in [("one", 1, 1u64), ("two", 2, 10)] {
            world.process(name, move || {
                s.journal.note(me, Add(add), || {
                    let dies = move |_: &mut [u8], _: &[u8], _: &mut [u8]| {
                        dead.set(dead.get() + 1);
                        process::linger();
                    };
                    s.desk.call(me, &add.to_ne_bytes(), &mut [0; 8], &dies).expect("a cell");
                    0
                });
            });
        }
        world.process("third", move || {
            if dead.get() == 2 {
                assert!(s.desk.call(3, &100u64.to_ne_bytes(), &mut [0; 8], &serve).is_err(), "where is a cell?");
                reached("refused");
            }
        });
        world.prepare("last").last().run(move || {
            [1, 2].iter().for_each(|me| s.desk.recover(&Visit::of_own_memory(), *me, || true));
            s.does(LAST, 1000);
            assert_linearizable(Sum(0), &s.journal.history());
            assert_eq!(s.desk.taken(), (0, (1, 1)), "a seat, node or cell is lost");
        });
    });
    report.assert_clean().assert_reached(&["refused"]);
    assert!(report.complete());
}

/// The dead's request is carried out before an heir of its seat writes another there. A third caller, which comes
/// between the heir's writing and its announcement, would take what is written for the dead's. (The dead one stopped
/// where it had announced, and the heir makes up for its death.)
#[test]
fn an_heir_of_a_seat_writes_over_nothing_that_is_announced() {
    let report = Search::depth("server_heir", 1).whole().run(|world: &World| {
        let stage = Stage::new(world);
        let (s, dead) = (stage, world.share(Cell::new(false)));
        let dies = move |_: &mut [u8], _: &[u8], _: &mut [u8]| {
            dead.set(true);
            process::linger();
        };
        world.process("one", move || {
            s.journal.note(1, Add(1), || {
                s.desk.call(1, &1u64.to_ne_bytes(), &mut [0; 8], &dies).expect("a cell");
                0
            });
        });
        // Takes the same seat.
        world.process("heir", move || {
            if dead.get() {
                s.desk.recover(&Visit::of_own_memory(), 1, || true);
                s.does(1, 10);
                reached("an heir");
            }
        });
        world.process("third", move || {
            if dead.get() {
                s.does(2, 100);
            }
        });
        world.prepare("last").last().run(move || {
            s.desk.recover(&Visit::of_own_memory(), 1, || true);
            s.does(LAST, 1000);
            assert_linearizable(Sum(0), &s.journal.history());
            assert_eq!(s.desk.taken(), (0, (1, 1)), "a seat, node or cell is lost");
        });
    });
    report.assert_clean().assert_reached(&["an heir"]);
    assert!(report.complete());
}

/// How far the late recoverer's scene has come.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Scene {
    Begun,
    /// A member has died in its call.
    Died,
    /// The late recoverer has seen that it is dead, and has yet to give its seat back.
    Seen,
    /// It is recovered, and a later member has its number, and is in a call.
    Heir,
    /// The late recoverer has done what it was at.
    Late,
    /// A third caller, whose first choice is the same seat, has been served.
    Third,
}

/// A recoverer is late: it has seen the seat of a dead one, and a later member of the same number has the seat by then. A third caller does not get
/// that seat as well: one would take the other's answer for its own.
#[test]
fn a_late_recoverer_gives_back_no_seat_of_a_later_member() {
    let report = Search::depth("server_late", 1).schedules(500).run(|world: &World| {
        let (s, at) = (Stage::new(world), world.share(Cell::new(Scene::Begun)));
        let until = move |scene| {
            while at.get() < scene {
                pause();
            }
        };
        // In the middle of its call: the first time.
        let stops = move |from, to, then| {
            move |state: &mut [u8], request: &[u8], answer: &mut [u8]| {
                if at.get() == from {
                    at.set(to);
                    until(then);
                }
                serve(state, request, answer);
            }
        };
        let calls = move |me: u16, add: u64, function: &Function<'_>| {
            s.journal.note(me, Add(add), || {
                let mut answer = [0; 8];
                s.desk.call(me, &add.to_ne_bytes(), &mut answer, &function).expect("a cell");
                number(&answer)
            });
        };
        world.process("one", move || {
            calls(1, 1, &move |_, _, _| {
                at.set(Scene::Died);
                process::linger();
            });
        });
        world.process("late", move || {
            until(Scene::Died);
            s.desk.recover(&Visit::of_own_memory(), 1, || {
                let is_dead = at.get() == Scene::Died;
                if is_dead {
                    at.set(Scene::Seen);
                    until(Scene::Heir);
                }
                is_dead
            });
            at.set(Scene::Late);
        });
        world.process("heir", move || {
            until(Scene::Seen);
            s.desk.recover(&Visit::of_own_memory(), 1, || true);
            calls(1, 10, &stops(Scene::Seen, Scene::Heir, Scene::Third));
        });
        world.process("third", move || {
            until(Scene::Late);
            s.does(4, 100);
            at.set(Scene::Third);
            reached("a third");
        });
        world.prepare("last").last().run(move || {
            s.does(LAST, 1000);
            assert_linearizable(Sum(0), &s.journal.history());
            assert_eq!(s.desk.taken().0, 0, "a seat is lost");
        });
    });
    report.assert_clean().assert_reached(&["a third"]);
}

/// Threads that add to a sum that one of them serves.
fn combined(world: &World, threads: &[&'static [u64]]) {
    let server = world.share(Combined::new(0u64));
    let journal = Journal::new(world);
    let inside = world.share(Cell::new(false));
    let house = world.prepare("house").immortal();
    for (me, adds) in threads.iter().copied().enumerate() {
        let adder = move || {
            for add in adds {
                journal.note(me as u16, Add(*add), || {
                    server.call(|sum| {
                        assert!(!inside.replace(true), "two serve");
                        chappe_plat::step!("serves");
                        let old = *sum;
                        *sum += add;
                        inside.set(false);
                        old
                    })
                });
            }
        };
        house.thread(&format!("thread {me}"), adder);
    }
    house.run(|| ());
    world.prepare("last").last().run(move || {
        let sum: u64 = journal.history().iter().map(|e| e.what.0).sum();
        assert_eq!(server.call(|s| *s), sum);
        assert_linearizable(Sum(0), &journal.history());
    });
}

#[test]
fn one_thread_serves_all_that_come() {
    for search in [
        Search::depth("combined_depth", 2).schedules(10_000),
        Search::uniform("combined_buffers").store_buffers(4).schedules(1_000),
        Search::priorities("combined_pct", 5).schedules(2_000),
        Search::uniform("combined_spurious").spurious(2).schedules(1_000),
    ] {
        search.run(|world: &World| combined(world, &[&[1, 2], &[10, 20], &[100]])).assert_clean();
    }
}

#[test]
fn a_thread_that_comes_while_another_serves_is_served() {
    let report = Search::depth("combined_small", 2).whole().run(|world: &World| combined(world, &[&[1], &[10]]));
    report.assert_clean();
    assert!(report.complete());
}
