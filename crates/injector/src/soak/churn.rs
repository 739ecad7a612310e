//! The soak of slots: workers make, use and remove objects of all kinds under a few names of one small arena, are killed, and are stopped
//! for up to a minute, until every slot of the arena has been used so many times.
//!
//! A thread that was stopped in the middle of anything goes on when its slot, its blocks and its member number have been others' many times.
//! Whatever it then writes, must reach nothing of theirs. Each kind's data tells by itself whether somebody else has written to it.
//!
//! | | |
//! |---|---|
//! | torn | an object's data contradicts itself, or is another kind's |
//! | unclear | an operation failed with an error that is not documented for it |
//! | crashes | a worker ended by itself, or by a signal that was not sent |
//! | wedges | no worker made a turn within the watchdog, while none was stopped |
//! | leaks | a slot, a block or a member that cannot be had at the end |
//!
//! A stopped maker holds up other makers as long as it is stopped: the longest such pause is told, and is no finding.

mod board;
mod told;
mod worker;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use chappe::{Arena, ArenaOptions, Mutex, Semaphore};

use self::board::{ARENA, Board};
use self::worker::Worker;
use super::dice::Dice;
use crate::board::shared;
use crate::child::Child;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// How many times each slot is used.
    pub uses: u32,
    /// The longest time for which a worker is stopped.
    pub stop: Duration,
    /// Where the random choices begin.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
    /// A mistake that must be found: workers change the data of locks that they do not have.
    pub careless: bool,
}

/// Few slots, so that each is soon used again; few names, so that workers meet.
const OPTIONS: ArenaOptions =
    ArenaOptions { members: Some(64), objects: Some(24), cells: Some(32), data: Some(24 * 2048) };
const WORKERS: usize = 6;
const THREADS: usize = 2;
/// How many workers are stopped at a time, at most.
const STOPPED: usize = 2;

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Workers killed.
    pub kills: u64,
    /// Workers stopped.
    pub stops: u64,
    /// For how long in all.
    pub stopped: Duration,
    /// Operations.
    pub turns: u64,
    /// Objects made and removed.
    pub made: [u64; 2],
    /// How often the slot was used that was used least.
    pub uses: u64,
    /// The longest time without a turn while somebody was stopped.
    pub pause: Duration,
    /// What was found: see the module.
    pub found: [(&'static str, u64); 5],
    /// How long it took.
    pub took: Duration,
}

impl Sum {
    /// Whether nothing was found.
    pub fn clean(&self) -> bool {
        self.found.iter().all(|(_, n)| *n == 0)
    }

    /// In a line.
    pub fn summary(&self, seed: u64) -> String {
        let found: Vec<_> = self.found.iter().map(|(what, n)| format!("{n} {what}")).collect();
        format!(
            "{} kills, {} stops of {:.1} s on average, {} turns, {} made and {} removed, each slot used {} times or more, held up by a stopped one for {:.1} s \
             at most, {:.0} s: {} (seed {seed})",
            self.kills,
            self.stops,
            self.stopped.as_secs_f64() / self.stops.max(1) as f64,
            self.turns,
            self.made[0],
            self.made[1],
            self.uses,
            self.pause.as_secs_f64(),
            self.took.as_secs_f64(),
            found.join(", ")
        )
    }
}

/// A worker's whole life.
fn live(board: &'static Board, seed: u64, careless: bool) {
    let mut dice = Dice::new(seed);
    let seeds: [u64; THREADS] = std::array::from_fn(|_| dice.seed());
    let arena = Arena::open(ARENA).expect("it is there");
    std::thread::scope(|s| {
        for seed in seeds {
            s.spawn(move || {
                let mut worker = Worker::new(board, arena, seed, careless);
                while board.over.load(SeqCst) == 0 {
                    worker.turn();
                }
            });
        }
    });
}

/// One of the crew, and until when it is stopped.
struct Post {
    child: Child,
    until: Option<Instant>,
}

/// Kills and stops workers until every slot has been used so often.
///
/// # Errors
/// What keeps it from beginning.
pub fn soak(slots: Slots) -> Result<Sum, String> {
    // SAFETY: atomics, of which zeros are valid.
    let board = unsafe { shared::<Board>() };
    alone(|| {
        Arena::create(ARENA, &OPTIONS).expect("an arena");
    })?;
    let (mut dice, start) = (Dice::new(slots.seed), Instant::now());
    let (mut crashes, mut wedges, mut sum) = (0, 0, Sum::default());
    let begin = |dice: &mut Dice| {
        let seed = dice.seed();
        Post { child: Child::fork(|| live(board, seed, slots.careless)), until: None }
    };
    let mut crew: Vec<Post> = (0..WORKERS).map(|_| begin(&mut dice)).collect();
    let (mut seen, mut looked) = ((0, Instant::now()), Instant::now());
    let mut counts: Option<Child> = None;
    while board.uses.load(SeqCst) < u64::from(slots.uses) && wedges == 0 {
        std::thread::sleep(Duration::from_micros(dice.roll(6_000)));
        let now = Instant::now();
        for post in &mut crew {
            if post.until.is_some_and(|until| until <= now) {
                post.until = None;
                post.child.thaw();
            }
            if let Some(status) = post.child.ended() {
                eprintln!("a worker has ended with status {status:#x}");
                crashes += 1;
                *post = begin(&mut dice);
            }
        }
        let stopped = crew.iter().filter(|post| post.until.is_some()).count();
        let turns = board.turns.load(SeqCst);
        if turns != seen.0 {
            seen = (turns, now);
        } else if stopped > 0 {
            sum.pause = sum.pause.max(seen.1.elapsed());
            // The watchdog's time begins when all go on.
            looked = now;
        } else if seen.1.max(looked).elapsed() > slots.limit {
            eprintln!("nobody has made a turn for {:?}", slots.limit);
            wedges += 1;
        }
        let at = dice.roll(crew.len() as u64) as usize;
        match dice.roll(8) {
            0 if crew[at].until.is_none() && stopped < STOPPED => {
                let time = moment(&mut dice, slots.stop);
                sum.stopped += time;
                crew[at].until = Some(now + time);
                crew[at].child.freeze();
                sum.stops += 1;
            }
            // A stopped one mostly goes on.
            1 if crew[at].until.is_none() || dice.roll(1_000) == 0 => {
                crew[at].child.kill();
                sum.kills += 1;
                crew[at] = begin(&mut dice);
            }
            _ => {}
        }
        // A look at the slots makes objects of its own, so that a stopped maker may hold it up, too.
        if counts.as_mut().is_some_and(|child| child.ended().is_some()) {
            counts = None;
        }
        if counts.is_none() && dice.roll(2_000) == 0 {
            counts = Some(Child::fork(|| look(board)));
        }
    }
    board.over.store(1, SeqCst);
    for post in &mut crew {
        post.child.thaw();
        let until = Instant::now() + slots.limit;
        while post.child.ended().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        match post.child.ended() {
            Some(0) => {}
            Some(status) => {
                eprintln!("a worker has ended with status {status:#x}");
                crashes += 1;
            }
            None => {
                eprintln!("a worker does not end");
                wedges += 1;
            }
        }
    }
    drop((crew, counts));
    alone(|| survive(board))?;
    let load = |count: &AtomicU64| count.load(SeqCst);
    sum.turns = load(&board.turns);
    sum.made = [load(&board.made), load(&board.removed)];
    sum.uses = load(&board.uses);
    sum.took = start.elapsed();
    sum.found = [
        ("torn", load(&board.torn)),
        ("unclear", load(&board.unclear)),
        ("crashes", crashes),
        ("wedges", wedges),
        ("leaks", load(&board.leaks)),
    ];
    Ok(sum)
}

/// A time up to the longest, as often short as long: each magnitude from a millisecond on is as likely as the next.
fn moment(dice: &mut Dice, longest: Duration) -> Duration {
    let magnitudes = (longest.as_millis().max(1) as f64).ln();
    Duration::from_secs_f64((dice.roll(1 << 20) as f64 / f64::from(1 << 20) * magnitudes).exp() / 1000.0).min(longest)
}

/// In a process of its own, so that this one never uses chappe.
fn alone(what: impl FnOnce()) -> Result<(), String> {
    let mut child = Child::fork(what);
    while child.ended().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    match child.ended() {
        Some(0) => Ok(()),
        status => Err(format!("a process beside the workers ended with {status:x?}")),
    }
}

/// Makes semaphores until one cannot be made; a semaphore takes one slot. Answers how often each of their slots was used.
fn fill() -> Vec<(u32, u32)> {
    let make = |i: u32| Semaphore::create(&format!("{ARENA}/fill{i}"), 0).ok();
    (0..).map_while(make).map(|s| (s.object_id().object, s.object_id().generation)).collect()
}

/// The fewest uses of a slot that is free at this moment.
fn look(board: &Board) {
    let all = fill();
    (0..all.len()).for_each(|i| drop(Semaphore::remove(&format!("{ARENA}/fill{i}"), true)));
    let Some(fewest) = all.iter().map(|(_, generation)| *generation).min() else { return };
    board.uses.fetch_max(fewest.into(), SeqCst);
}

/// When all have gone: every slot, every block and every member can be had.
fn survive(board: &Board) {
    let arena = Arena::open(ARENA).expect("it is there");
    arena.map().recover_dead();
    let leak = |what: &dyn std::fmt::Display| {
        eprintln!("leak: {what}");
        board.leaks.fetch_add(1, SeqCst);
    };
    for object in arena.objects() {
        if let Err(e) = arena.remove_object(&object.name, true) {
            leak(&e);
        }
    }
    let all = fill();
    let capacity = arena.capacity();
    if all.len() as u32 != capacity.objects {
        leak(&format!("{} of {} slots", all.len(), capacity.objects));
    }
    board.uses.store(all.iter().map(|(_, generation)| u64::from(*generation)).min().unwrap_or(0), SeqCst);
    (0..all.len()).for_each(|i| drop(Semaphore::remove(&format!("{ARENA}/fill{i}"), true)));
    // All blocks at once.
    const BLOCK: u64 = crate::scenario::DATA;
    for i in 0..capacity.data / BLOCK {
        if let Err(e) = Mutex::create(&format!("{ARENA}/data{i}"), [0u64; BLOCK as usize / 8]) {
            leak(&e);
        }
    }
    for member in arena.members().into_iter().filter(|member| member.pid != std::process::id()) {
        leak(&format!("{member:?}"));
    }
}
