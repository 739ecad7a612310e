//! The biased lock, explored: threads on two virtual processors lock, take the bias away, give it again, sleep and wake.
//!
//! The source is that which ships; the section is three steps, which the explorer aborts as the kernel does. The lock takes to a
//! processor at the first chance, so that each world is full of biases and of their ends.

use chappe_crashsim::{Report, Search, Shared, World, cpu, reached};
use chappe_ras::lock::{RawCpuLock, RawLock, RawPlainLock};
use std::cell::Cell;

/// A lock, and the threads inside.
struct Room<L> {
    lock: L,
    inside: Cell<bool>,
    entered: Cell<u32>,
}

impl<L: RawLock + 'static> Room<L> {
    fn new(world: &World, lock: L) -> Shared<Room<L>> {
        world.share(Room { lock, inside: Cell::new(false), entered: Cell::new(0) })
    }

    /// Something is done under the lock; then it is given up.
    fn inside(&self, does: impl FnOnce()) {
        assert!(!self.inside.replace(true), "two are inside");
        self.entered.set(self.entered.get() + 1);
        chappe_plat::step!("is inside");
        does();
        assert!(self.inside.replace(false), "two were inside");
        // SAFETY: the caller has locked it.
        unsafe { self.lock.unlock() };
    }

    /// In the end all have been inside that often, and nobody is.
    fn at_the_end(room: Shared<Self>, world: &World, times: u32) {
        world.check(move || {
            assert_eq!(room.entered.get(), times);
            assert!(!room.lock.is_locked(), "it is still held");
        });
    }
}

type Biased = Shared<Room<RawCpuLock>>;

fn biased(world: &World) -> Biased {
    Room::new(world, RawCpuLock::after(true, 1))
}

/// Locks, tells how that came, and unlocks.
fn pass(room: &Biased, does: impl FnOnce()) {
    room.lock.lock();
    pass_held(room, does);
}

fn pass_held(room: &Biased, does: impl FnOnce()) {
    if room.lock.is_held_fast() {
        reached("came through the section");
    }
    if room.lock.is_awaited() {
        reached("somebody waited");
    }
    if room.lock.biases() > 1 {
        reached("biased again");
    }
    room.inside(does);
}

/// A thread: its name, the processor on which it begins, and what it does.
type Body = (&'static str, u32, Box<dyn FnOnce()>);

/// One process of a few threads, each begun on a processor: threads of one process, since its words are private.
fn threads(world: &World, bodies: Vec<Body>) {
    let process = world.prepare("p");
    let mut bodies = bodies.into_iter();
    let (_, first, main) = bodies.next().expect("one thread at least");
    for (name, on, body) in bodies {
        process.thread(name, move || {
            cpu::begin_on(on);
            body();
        });
    }
    process.run(move || {
        cpu::begin_on(first);
        main();
    });
}

const BIASES: &[&str] = &["came through the section", "somebody waited", "biased again"];

/// Searches in which each store is visible at once.
fn ordered(name: &str, preemptions: u32) -> [Search; 3] {
    let called = |kind: &str| format!("{name}_{kind}");
    [
        Search::depth(&called("depth"), preemptions).schedules(60_000),
        Search::priorities(&called("pct"), 5).schedules(10_000),
        Search::uniform(&called("dice")).spurious(1).schedules(10_000),
    ]
}

fn explored(name: &str, preemptions: u32, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let called = |kind: &str| format!("{name}_{kind}");
    let buffered = [
        Search::depth(&called("buffers_depth"), 2).store_buffers(1).schedules(40_000),
        Search::uniform(&called("buffers")).store_buffers(4).schedules(20_000),
        Search::priorities(&called("buffers_pct"), 5).store_buffers(3).schedules(20_000),
    ];
    let all: Vec<Report> = ordered(name, preemptions).iter().chain(&buffered).map(|s| s.run(&world)).collect();
    all.iter().for_each(|r| _ = r.assert_clean());
    if std::env::var_os("CRASHSIM_REPLAY").is_none() {
        let came = |o: &str| all.iter().any(|r| r.outcomes().contains_key(o));
        let missed: Vec<_> = outcomes.iter().filter(|o| !came(o)).collect();
        assert!(missed.is_empty(), "{name} never came to {missed:?}");
    }
}

/// Two on one processor, one on the other.
fn three(world: &World) {
    let room = biased(world);
    let twice = move || {
        pass(&room, || ());
        pass(&room, || ());
    };
    threads(world, vec![("a", 0, Box::new(twice)), ("b", 0, Box::new(twice)), ("c", 1, Box::new(twice))]);
    Room::at_the_end(room, world, 6);
}

#[test]
fn one_at_a_time_is_inside_and_nobody_is_forgotten() {
    explored("three", 3, three, BIASES);
}

/// One thread that holds fast, and one that has to sleep: with the holder's stores on their way for as long as can be.
fn sleeper(world: &World) {
    let room = biased(world);
    let twice = move || (0..2).for_each(|_| pass(&room, || ()));
    threads(world, vec![("a", 0, Box::new(twice)), ("b", 1, Box::new(move || pass(&room, || ())))]);
    Room::at_the_end(room, world, 3);
}

#[test]
fn a_sleeper_is_seen_by_a_plain_unlock() {
    explored("sleeper", 4, sleeper, &BIASES[..2]);
    Search::depth("sleeper_held", 4).store_buffers(1).schedules(400_000).run(sleeper).assert_clean();
}

/// One is told, and has not looked again, while another locks fast, goes elsewhere, and unlocks there.
#[test]
fn a_woken_waiter_that_has_not_looked_again_is_not_passed_over() {
    let world = |world: &World| {
        let room = biased(world);
        let thrice = move || {
            (0..2).for_each(|_| room_pass(&room));
            pass(&room, || cpu::go_to(1));
        };
        threads(world, vec![("a", 0, Box::new(thrice)), ("b", 0, Box::new(move || room_pass(&room)))]);
        Room::at_the_end(room, world, 4);
    };
    let search = Search::depth("told", 3).store_buffers(1).schedules(200_000);
    search.run(world).assert_clean().assert_reached(&["came through the section", "somebody waited"]);
}

#[test]
fn a_bias_that_was_given_anew_is_not_ended_by_who_fenced_for_the_last() {
    let world = |world: &World| {
        let room = biased(world);
        let thrice = move || (0..3).for_each(|_| room_pass(&room));
        threads(world, vec![("a", 0, Box::new(thrice)), ("b", 1, Box::new(move || room_pass(&room)))]);
        Room::at_the_end(room, world, 4);
    };
    Search::depth("given_anew", 4).schedules(400_000).run(world).assert_clean();
}

fn room_pass(room: &Biased) {
    pass(room, || ());
}

/// Each on a processor of its own: two take the bias of the third away at once.
fn two_against_one(world: &World) {
    let room = biased(world);
    let thrice = move || (0..3).for_each(|_| pass(&room, || ()));
    let once = move || pass(&room, || ());
    threads(world, vec![("a", 0, Box::new(thrice)), ("b", 1, Box::new(once)), ("c", 2, Box::new(once))]);
    Room::at_the_end(room, world, 5);
}

#[test]
fn a_bias_is_taken_away_by_two_at_once() {
    explored("two_against_one", 3, two_against_one, &BIASES[..2]);
}

/// A slow locker on one processor is late, while on the other biases come and go.
fn late(world: &World) {
    let room = biased(world);
    let often = move || {
        (0..2).for_each(|_| pass(&room, || ()));
        // From elsewhere and back: the bias is given again.
        cpu::go_to(1);
        pass(&room, || ());
        (0..2).for_each(|_| pass(&room, || ()));
    };
    threads(world, vec![("a", 0, Box::new(often)), ("b", 2, Box::new(move || pass(&room, || ())))]);
    Room::at_the_end(room, world, 6);
}

#[test]
fn a_late_locker_finds_another_epoch() {
    explored("late", 3, late, BIASES);
}

/// The holder is sent elsewhere while it is inside, and another in the middle of anything.
fn moved(world: &World) {
    let room = biased(world);
    let sent: Shared<Cell<Option<cpu::Mover>>> = world.share(Cell::new(None));
    let process = world.prepare("p");
    process.thread("b", move || {
        sent.set(Some(cpu::begin_on(0)));
        pass(&room, || ());
        pass(&room, || ());
    });
    process.thread("kernel", move || {
        for to in [0, 1] {
            chappe_plat::step!("waits for its chance");
            if let Some(b) = sent.get() {
                b.send(to);
            }
        }
    });
    process.run(move || {
        cpu::begin_on(0);
        pass(&room, || cpu::go_to(1));
        pass(&room, || cpu::go_to(0));
        pass(&room, || ());
    });
    Room::at_the_end(room, world, 5);
}

#[test]
fn threads_that_are_moved_at_any_moment_lose_nothing() {
    explored("moved", 3, moved, BIASES);
}

/// Threads that only try: never inside beside another, and on a free lock they succeed.
fn trying(world: &World) {
    let room = biased(world);
    let tries = world.share(Cell::new(0));
    let attempt = move || {
        if room.lock.try_lock() {
            tries.set(tries.get() + 1);
            pass_held(&room, || ());
        }
    };
    let body = move || (0..2).for_each(|_| attempt());
    threads(world, vec![("a", 0, Box::new(body)), ("b", 1, Box::new(body)), ("c", 0, Box::new(body))]);
    world.check(move || {
        assert_eq!(room.entered.get(), tries.get());
        assert!(room.lock.try_lock(), "it is free, and cannot be got");
    });
}

#[test]
fn a_try_lock_gets_a_free_lock() {
    explored("trying", 3, trying, &["came through the section", "biased again"]);
}

/// One may not fence, nor go to other processors; the others may.
fn refused(world: &World, visits: bool) {
    let room = biased(world);
    let often = move || (0..3).for_each(|_| pass(&room, || ()));
    let without = move || {
        cpu::refuse(visits);
        pass(&room, || ());
        reached("got it without a fence");
    };
    threads(world, vec![("a", 0, Box::new(often)), ("b", 1, Box::new(without)), ("c", 0, Box::new(often))]);
    Room::at_the_end(room, world, 7);
}

#[test]
fn a_thread_without_the_fence_moves_to_the_other_processor() {
    explored("refused", 2, |world| refused(world, true), &["got it without a fence", "came through the section"]);
}

/// Two threads, and the plain lock.
fn plain(world: &World) {
    let room = Room::new(world, RawPlainLock::new());
    let body = move || {
        for _ in 0..2 {
            room.lock.lock();
            room.inside(|| ());
        }
    };
    threads(world, vec![("a", 0, Box::new(body)), ("b", 1, Box::new(body)), ("c", 1, Box::new(body))]);
    Room::at_the_end(room, world, 6);
}

#[test]
fn the_plain_lock_forgets_nobody() {
    // It makes no plain store, so none can wait in a buffer.
    for search in ordered("plain", 3) {
        search.run(plain).assert_clean();
    }
}
