//! The sharded semaphore, explored: permits go to and fro between caches and the middle, while threads on two virtual processors take,
//! wait and give.
//!
//! In the middle is a simple semaphore here: a word and a futex. There are caches whenever nobody waits, so that they come and go all
//! the time.

use chappe_crashsim::{Report, Search, Shared, World, cpu, reached};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_ras::sharded::{Central, Shape, Sharded};
use std::cell::Cell;

/// A word, and its sleepers.
struct Middle {
    word: AtomicU32,
    sleeps: Cell<bool>,
}

impl Central for Middle {
    type Error = ();

    fn try_down(&self) -> bool {
        let mut seen = self.word.load(Ordering::SeqCst);
        while seen > 0 {
            match self.word.compare_exchange(seen, seen - 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    fn down(&self, deadline: Option<u64>) -> Result<bool, ()> {
        while !self.try_down() {
            if deadline.is_some_and(|d| d <= chappe_plat::clock::now()) {
                return Ok(false);
            }
            self.sleeps.set(true);
            futex::wait(&self.word, 0, deadline, Scope::Private);
        }
        Ok(true)
    }

    fn up(&self, n: u32) -> Result<(), ()> {
        self.word.fetch_add(n, Ordering::SeqCst);
        futex::wake(&self.word, n, Scope::Private);
        Ok(())
    }

    fn value(&self) -> u32 {
        self.word.load(Ordering::SeqCst)
    }
}

struct Hall {
    permits: Sharded<Middle>,
    first: u32,
    taken: Cell<u32>,
}

/// So many permits; caches of one while there is any in the middle.
fn hall(world: &World, first: u32) -> Shared<Hall> {
    let middle = Middle { word: AtomicU32::new(first), sleeps: Cell::new(false) };
    let permits = Sharded::new(middle, Shape { caches: 2, room: 1, many: 1, calm: 1 });
    let hall = world.share(Hall { permits, first, taken: Cell::new(0) });
    world.check(move || {
        assert_eq!(hall.taken.get(), 0);
        assert_eq!(hall.permits.available(), hall.first, "permits were lost, or invented");
        if hall.permits.central().sleeps.get() {
            reached("somebody slept");
        }
    });
    hall
}

fn took(hall: &Hall) {
    hall.taken.set(hall.taken.get() + 1);
    assert!(hall.taken.get() <= hall.first, "more were taken than there are");
    chappe_plat::step!("has a permit");
}

fn give(hall: &Hall) {
    hall.taken.set(hall.taken.get() - 1);
    hall.permits.up().expect("there is room");
    reached(if hall.permits.is_sharded() { "given while sharded" } else { "given while central" });
}

fn pass(hall: &Hall) {
    assert_eq!(hall.permits.down(None), Ok(true));
    took(hall);
    give(hall);
}

/// One process of three threads, each begun on a processor.
fn three(world: &World, on: [u32; 3], body: impl Fn(usize) + Copy + 'static) {
    let process = world.prepare("p");
    for (at, name) in [(1, "b"), (2, "c")] {
        process.thread(name, move || {
            cpu::begin_on(on[at]);
            body(at);
        });
    }
    process.run(move || {
        cpu::begin_on(on[0]);
        body(0);
    });
}

fn explored(name: &str, preemptions: u32, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let called = |kind: &str| format!("{name}_{kind}");
    let all: Vec<Report> = [
        Search::depth(&called("depth"), preemptions).schedules(60_000),
        Search::depth(&called("buffers_depth"), 2).store_buffers(1).schedules(40_000),
        Search::priorities(&called("pct"), 5).schedules(10_000),
        Search::uniform(&called("dice")).spurious(1).schedules(10_000),
        Search::uniform(&called("buffers")).store_buffers(4).schedules(10_000),
        Search::priorities(&called("buffers_pct"), 5).store_buffers(3).schedules(10_000),
    ]
    .iter()
    .map(|s| s.run(&world))
    .collect();
    all.iter().for_each(|r| _ = r.assert_clean());
    if std::env::var_os("CRASHSIM_REPLAY").is_none() {
        let came = |o: &str| all.iter().any(|r| r.outcomes().contains_key(o));
        let missed: Vec<_> = outcomes.iter().filter(|o| !came(o)).collect();
        assert!(missed.is_empty(), "{name} never came to {missed:?}");
    }
}

const BOTH: &[&str] = &["somebody slept", "given while sharded", "given while central"];

#[test]
fn permits_are_neither_lost_nor_invented_and_nobody_sleeps_beside_one() {
    let world = |world: &World| {
        let hall = hall(world, 1);
        three(world, [0, 0, 1], move |_| {
            pass(&hall);
            pass(&hall);
        });
    };
    explored("scarce", 3, world, BOTH);
}

#[test]
fn a_permit_in_another_processors_cache_is_found() {
    let world = |world: &World| {
        let hall = hall(world, 2);
        three(world, [0, 1, 1], move |me| {
            if me == 0 {
                // Into this processor's cache; then nobody is here any more.
                pass(&hall);
                return;
            }
            if hall.permits.try_down() {
                took(&hall);
                give(&hall);
            }
            pass(&hall);
        });
    };
    explored("elsewhere", 3, world, &BOTH[1..]);
}

#[test]
fn a_cancelled_wait_consumes_no_permit() {
    let world = |world: &World| {
        let hall = hall(world, 1);
        three(world, [0, 1, 0], move |me| {
            if me < 2 {
                pass(&hall);
                return;
            }
            let soon = chappe_plat::clock::now() + 1_000;
            match hall.permits.down(Some(soon)) {
                Ok(true) => {
                    took(&hall);
                    give(&hall);
                }
                other => {
                    assert_eq!(other, Ok(false));
                    reached("its time was up");
                }
            }
        });
    };
    explored("impatient", 3, world, &["its time was up", BOTH[1]]);
}

#[test]
fn threads_that_change_processors_lose_nothing() {
    let world = |world: &World| {
        let hall = hall(world, 2);
        three(world, [0, 1, 0], move |me| {
            assert_eq!(hall.permits.down(None), Ok(true));
            took(&hall);
            cpu::go_to(me as u32 % 2);
            give(&hall);
            pass(&hall);
        });
    };
    explored("moved", 3, world, BOTH);
}

#[test]
fn a_thread_without_the_fence_waits_for_a_permit_within_reach() {
    let world = |world: &World| {
        let hall = hall(world, 1);
        three(world, [0, 1, 0], move |me| {
            if me == 1 {
                cpu::refuse(true);
            }
            pass(&hall);
            pass(&hall);
        });
    };
    explored("refused", 2, world, BOTH);
}
