//! Plan 9's words, explored: `semacquire`, `semrelease`, `Usem` and `Lock` between two to four processes.
//!
//! Without deaths every process comes through, by wake-ups alone: no second look is ever needed. With kills and stops nothing returns, which
//! is all that these words promise; but no permit is doubled, and no thread sleeps for good beside a positive word.

use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, backstops, reached};
use chappe_plat::atomic::AtomicI32;
use chappe_sync::plan9::{Lock, Plan9Error, Usem, semacquire, semrelease};
use std::cell::Cell;

/// Two words, in memory of no other meaning, and what has become of them.
struct Page {
    words: [AtomicI32; 2],
    /// Taken from each word.
    taken: [Cell<i32>; 2],
    /// Added to each word: by calls that began, and by those that came back.
    offered: [Cell<i32>; 2],
    given: [Cell<i32>; 2],
    inside: Cell<i32>,
}

#[derive(Clone, Copy)]
struct Stage {
    page: Shared<Page>,
    /// The processes, and which word each waits for.
    cast: Shared<[Cell<Option<Process>>; 4]>,
    wants: Shared<[Cell<Option<usize>>; 4]>,
}

impl Stage {
    /// Two words that begin with these values; `names` is what stories call them.
    fn new(world: &World, names: [&str; 2], values: [i32; 2]) -> Stage {
        let page = Page {
            words: values.map(AtomicI32::new),
            taken: Default::default(),
            offered: Default::default(),
            given: Default::default(),
            inside: Cell::new(0),
        };
        let stage = Stage {
            page: world.share(page),
            cast: world.share(Default::default()),
            wants: world.share(Default::default()),
        };
        for (word, name) in stage.page.words.iter().zip(names) {
            world.name_with(word, name, |value| (value as i32).to_string());
        }
        // How often a process may look again in one schedule: asserted below to be never, unless one is dead or
        // stopped.
        world.backstops_at_most(20);
        // A process that sleeps on a word that is 0 has nothing to come for.
        world.may_wait(move || stage.sleepers().all(|word| stage.page.words[word].peek() == 0));
        stage
    }

    fn players(self) -> impl Iterator<Item = (usize, Process)> {
        (0..4).filter_map(move |i| Some((i, self.cast[i].get()?)))
    }

    /// Which words the living wait for.
    fn sleepers(self) -> impl Iterator<Item = usize> {
        self.players().filter(|(_, p)| p.fate() == Fate::Alive).filter_map(move |(i, _)| self.wants[i].get())
    }

    /// A process.
    fn player(self, world: &World, name: &'static str, body: impl FnOnce(Player) + 'static) {
        let index = self.players().count();
        let player = Player { stage: self, index };
        let process = world.process(name, move || {
            body(player);
            reached(format!("{name} done"));
        });
        self.cast[index].set(Some(process));
    }

    /// At the end, with whether any process was killed or stopped: if not, no process sleeps, and none had to look
    /// again.
    fn at_the_end(self, world: &World, check: impl FnOnce(&Page, bool) + 'static) {
        world.check(move || {
            let lost = self.players().any(|(_, p)| matches!(p.fate(), Fate::Killed | Fate::Stopped));
            if !lost {
                assert_eq!(self.sleepers().count(), 0, "everybody lives, and somebody sleeps for ever");
                assert_eq!(backstops(), 0, "everybody lives, and only a second look got the world on");
            } else if backstops() > 0 {
                reached("found by a second look");
            }
            check(&self.page, lost);
        });
    }

    /// A plain word that began with `first` is what it must be: all that was given and not taken, and perhaps what a
    /// dead process gave without living to report it.
    fn conserved(self, world: &World, word: usize, first: i32) {
        world.invariant(move || assert!(self.page.words[word].peek() >= 0, "a semaphore is negative"));
        self.at_the_end(world, move |page, lost| {
            let less = first - page.taken[word].get();
            let (given, offered) = (page.given[word].get(), page.offered[word].get());
            assert!(lost || given == offered, "a release never came back");
            let possible = less + given..=less + offered;
            let value = page.words[word].peek();
            assert!(possible.contains(&value), "the word is {value}, and must be in {possible:?}");
        });
    }

    /// The page as a `Usem` or a `Lock`.
    ///
    /// # Safety
    /// `T` is two `AtomicI32`, and nothing else.
    unsafe fn lies_here<T>(self) -> &'static T {
        assert_eq!(size_of::<T>(), 8);
        // SAFETY: the caller's promise; the page outlives the processes of its schedule, the only users of the answer.
        unsafe { &*std::ptr::from_ref(&self.page.words).cast::<T>() }
    }

    /// A `Usem` of this value.
    fn usem(world: &World, value: i32) -> (Stage, &'static Usem) {
        let stage = Stage::new(world, ["u", "k"], [value, 0]);
        world.invariant(move || assert!(stage.page.words[1].peek() >= 0, "k is negative"));
        // SAFETY: a Usem is its two words.
        (stage, unsafe { stage.lies_here() })
    }

    /// A `Lock`, unlocked.
    fn lock(world: &World) -> (Stage, &'static Lock) {
        let stage = Stage::new(world, ["key", "sem"], [0, 0]);
        world.invariant(move || assert!((0..=1).contains(&stage.page.words[1].peek()), "sem is neither 0 nor 1"));
        // SAFETY: a Lock is its two words.
        (stage, unsafe { stage.lies_here() })
    }
}

/// A process's view.
#[derive(Clone, Copy)]
struct Player {
    stage: Stage,
    index: usize,
}

impl Player {
    /// Runs what may sleep on this word.
    fn waiting_for<R>(self, word: usize, wait: impl FnOnce() -> R) -> R {
        self.stage.wants[self.index].set(Some(word));
        let r = wait();
        self.stage.wants[self.index].set(None);
        r
    }

    /// Once: false when interrupted.
    fn acquire_once(self, word: usize) -> bool {
        let page = self.stage.page;
        match self.waiting_for(word, || semacquire(&page.words[word], true)) {
            Ok(taken) => {
                assert!(taken, "a blocking semacquire came back with nothing");
                page.taken[word].set(page.taken[word].get() + 1);
                true
            }
            Err(Plan9Error::Interrupted) => {
                reached("interrupted");
                false
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn acquire(self, word: usize) {
        while !self.acquire_once(word) {}
    }

    fn release(self, word: usize, count: i32) {
        let page = self.stage.page;
        page.offered[word].set(page.offered[word].get() + count);
        semrelease(&page.words[word], count).expect("room");
        page.given[word].set(page.given[word].get() + count);
    }

    /// Between taking and giving back: no more than `most` at a time. A dead process stays inside: nothing returns.
    fn inside(self, most: i32) {
        let inside = &self.stage.page.inside;
        inside.set(inside.get() + 1);
        assert!(inside.get() <= most, "{} are inside, for {most} permits", inside.get());
        chappe_plat::step!("is inside");
        inside.set(inside.get() - 1);
    }
}

/// More preemptions than the worlds for which it is used have steps: all schedules.
const ALL: u32 = 40;

/// All schedules of so many preemptions, and many random ones: without deaths, with signals that interrupt, with kills,
/// with stops. `outcomes` must be reached without deaths, those of `deaths` with them.
fn searched(name: &str, preemptions: u32, world: impl Fn(&World) + Sync, outcomes: &[&str], deaths: &[&str]) {
    let called = |kind: &str| format!("{name}_{kind}");
    let peaceful = [
        Search::depth(&called("depth"), preemptions).schedules(1_000_000).whole(),
        Search::depth(&called("signals"), 2).spurious(2).schedules(30_000),
        Search::priorities(&called("pct"), 5).schedules(5_000),
        Search::uniform(&called("dice")).spurious(2).schedules(5_000),
    ];
    let violent = [
        Search::sweep(&called("sweep")).kills(1),
        Search::sweep(&called("sweep2")).kills(2).schedules(10_000),
        Search::uniform(&called("kill_buffers")).kills(1).store_buffers(3).schedules(3_000),
        Search::depth(&called("kill"), 2).kills(1).schedules(30_000),
        Search::priorities(&called("kill_pct"), 4).kills(2).schedules(5_000),
        Search::uniform(&called("kill_dice")).kills(2).spurious(1).schedules(5_000),
        Search::sweep(&called("stop")).stops(1),
        Search::priorities(&called("stop_pct"), 4).stops(1).kills(1).schedules(3_000),
    ];
    let run = |all: &[Search]| -> Vec<Report> { all.iter().map(|s| s.run(&world)).collect() };
    let (peaceful, violent) = (run(&peaceful), run(&violent));
    for report in peaceful.iter().chain(&violent) {
        report.assert_clean();
    }
    if std::env::var_os("CRASHSIM_REPLAY").is_some() {
        return;
    }
    assert!(peaceful[0].complete(), "{name}: more schedules than that");
    let came = |all: &[Report], o: &str| all.iter().any(|r| r.outcomes().contains_key(o));
    let missed: Vec<_> = outcomes.iter().filter(|o| !came(&peaceful, o)).collect();
    assert!(missed.is_empty(), "{name} never came to {missed:?}");
    let missed: Vec<_> = deaths.iter().filter(|o| !came(&violent, o)).collect();
    assert!(missed.is_empty(), "{name} never came to {missed:?} with deaths");
    let needless = peaceful.iter().any(|r| r.counts().backstops > 0);
    assert!(!needless, "{name}: a second look, and nobody dead");
}

/// All schedules without a death, and with one, at each step of each process.
fn all(name: &str, world: impl Fn(&World) + Sync) {
    let report = Search::depth(name, ALL).kills(1).schedules(2_000_000).whole().run(world);
    assert!(
        report.assert_clean().complete() || std::env::var_os("CRASHSIM_REPLAY").is_some(),
        "{name}: more than that"
    );
}

const LOOK: &[&str] = &["found by a second look"];

/// Two wait, each release lets in one: R1, and a release that finds the word positive.
fn releases(world: &World) {
    let stage = Stage::new(world, ["word", "other"], [0, 0]);
    stage.player(world, "a", |me| me.acquire(0));
    stage.player(world, "b", |me| me.acquire(0));
    stage.player(world, "c", |me| {
        me.release(0, 1);
        me.release(0, 1);
    });
    stage.conserved(world, 0, 0);
}

#[test]
fn each_release_lets_in_one() {
    searched("releases", 4, releases, &["a done", "b done", "c done", "interrupted"], LOOK);
}

/// The paper's section 6, process for process: A takes what is there, B sleeps, C releases.
fn section_six(world: &World) {
    let stage = Stage::new(world, ["word", "other"], [1, 0]);
    stage.player(world, "A", |me| me.acquire(0));
    stage.player(world, "B", |me| me.acquire(0));
    stage.player(world, "C", |me| me.release(0, 1));
    stage.conserved(world, 0, 1);
}

#[test]
fn section_sixs_wake_up_is_not_lost() {
    all("section_six_all", section_six);
    searched("section_six", ALL, section_six, &["A done", "B done", "C done"], LOOK);
}

/// One release for two waiters, and a process that only looks.
fn at_once(world: &World) {
    let stage = Stage::new(world, ["word", "other"], [0, 0]);
    stage.player(world, "a", |me| me.acquire(0));
    stage.player(world, "b", |me| me.acquire(0));
    stage.player(world, "c", |me| me.release(0, 3));
    stage.player(world, "looker", |me| {
        let page = me.stage.page;
        if semacquire(&page.words[0], false).expect("a semaphore") {
            page.taken[0].set(page.taken[0].get() + 1);
            reached("took in passing");
        } else {
            reached("nothing there");
        }
    });
    stage.conserved(world, 0, 0);
}

#[test]
fn one_release_wakes_as_many_as_it_gives() {
    searched("at_once", 3, at_once, &["a done", "b done", "c done", "took in passing", "nothing there"], LOOK);
}

/// A waiter that gives up when it is interrupted, R2: what woke it must not be lost to the other.
fn gives_up(world: &World) {
    let stage = Stage::new(world, ["word", "other"], [0, 0]);
    stage.player(world, "hasty", |me| {
        if me.acquire_once(0) {
            me.release(0, 1);
        }
    });
    stage.player(world, "patient", |me| {
        me.acquire(0);
        me.release(0, 1);
    });
    stage.player(world, "c", |me| me.release(0, 1));
    stage.conserved(world, 0, 0);
}

#[test]
fn an_interrupted_waiter_keeps_no_wake_up() {
    searched("gives_up", 4, gives_up, &["hasty done", "patient done", "c done", "interrupted"], LOOK);
}

/// Section 7's ping-pong between two semaphores.
fn ping_pong(world: &World) {
    let stage = Stage::new(world, ["ping", "pong"], [0, 0]);
    stage.player(world, "one", |me| {
        for _ in 0..2 {
            me.acquire(0);
            me.release(1, 1);
        }
    });
    stage.player(world, "two", |me| {
        for _ in 0..2 {
            me.release(0, 1);
            me.acquire(1);
        }
    });
    stage.conserved(world, 0, 0);
}

#[test]
fn ping_pong_goes_on() {
    searched("ping_pong", ALL, ping_pong, &["one done", "two done"], &[]);
}

/// Some processes share one permit of a `Usem`, one of them without waiting for it.
fn usem(world: &World, patient: &[&'static str]) {
    let (stage, usem) = Stage::usem(world, 1);
    for name in patient.iter().copied() {
        stage.player(world, name, move |me| {
            me.waiting_for(1, || usem.acquire()).expect("a semaphore");
            me.inside(1);
            usem.release().expect("room");
        });
    }
    stage.player(world, "taster", move |me| {
        if usem.try_acquire() {
            reached("took in passing");
            me.inside(1);
            usem.release().expect("room");
        }
    });
    stage.at_the_end(world, |page, lost| {
        let [u, k] = [0, 1].map(|i| page.words[i].peek());
        if !lost {
            assert_eq!((u, k), (1, 0), "what was given back");
        }
        assert!(u + k <= 1, "u {u} and k {k} are more than there was");
    });
}

#[test]
fn a_usem_gives_each_permit_once() {
    all("usem_all", |w| usem(w, &["a"]));
    let outcomes = ["a done", "b done", "taster done", "took in passing"];
    searched("usem", 3, |w| usem(w, &["a", "b"]), &outcomes, LOOK);
}

/// Section 4: a process that runs what others put into its queue, and sleeps when there is nothing.
fn run_queue(world: &World) {
    let (stage, nready) = Stage::usem(world, 0);
    let (queued, got) = (world.share(Cell::new(0)), world.share(Cell::new(0)));
    stage.player(world, "runner", move |me| {
        for _ in 0..2 {
            me.waiting_for(1, || nready.acquire()).expect("a semaphore");
            got.set(got.get() + 1);
            assert!(queued.get() >= got.get(), "awake, and nothing is queued");
        }
    });
    for name in ["p", "q"] {
        stage.player(world, name, move |_| {
            queued.set(queued.get() + 1);
            nready.release().expect("room");
        });
    }
    stage.at_the_end(world, move |page, lost| {
        if !lost {
            assert_eq!((page.words[0].peek(), page.words[1].peek(), got.get()), (0, 0, 2));
        }
    });
}

#[test]
fn a_run_queue_is_counted() {
    searched("run_queue", 3, run_queue, &["runner done", "p done", "q done"], LOOK);
}

/// Some processes lock, one of them only if it can at once.
fn lock(world: &World, patient: &[&'static str]) {
    let (stage, lock) = Stage::lock(world);
    for name in patient.iter().copied() {
        stage.player(world, name, move |me| {
            me.waiting_for(1, || lock.lock());
            me.inside(1);
            lock.unlock();
        });
    }
    stage.player(world, "taster", move |me| {
        if lock.canlock() {
            reached("locked in passing");
            me.inside(1);
            lock.unlock();
        }
    });
    stage.at_the_end(world, |page, lost| {
        let [key, sem] = [0, 1].map(|i| page.words[i].peek());
        assert!(lost || (key, sem) == (0, 0), "nobody is there, and key is {key}, sem {sem}");
    });
}

#[test]
fn a_lock_lets_in_one_at_a_time() {
    all("lock_all", |w| lock(w, &["a"]));
    let outcomes = ["a done", "b done", "taster done", "locked in passing"];
    searched("lock", 3, |w| lock(w, &["a", "b"]), &outcomes, LOOK);
}

/// A locker dies, or not, before it has the lock: the others are not delayed.
fn forsaken(world: &World) {
    let (stage, lock) = Stage::lock(world);
    for name in ["a", "b", "c"] {
        stage.player(world, name, move |me| {
            me.waiting_for(1, || lock.lock());
            me.inside(1);
            lock.unlock();
        });
    }
    stage.at_the_end(world, move |page, lost| {
        if lost && page.words[1].peek() == 1 {
            reached("one who waited is gone, and the lock is free all the same");
        }
    });
}

#[test]
fn a_lock_survives_who_waits_for_it() {
    let free = "one who waited is gone, and the lock is free all the same";
    searched("forsaken", 3, forsaken, &["a done", "b done", "c done"], &[free]);
}
