//! The soak of PID namespaces: workers that are all number 1 of a namespace of their own, killed at random.
//!
//! Each worker shares one arena with the others: a pool of one permit, semaphores that come and go, and an attachment that it gives up and
//! takes again. It has a second thread, whose number is the same as the others' second threads'. When a worker is killed, its namespace
//! goes with it, and another worker begins in a new one.
//!
//! | | |
//! |---|---|
//! | overlaps | a worker had the permit while another one had it that was not about to be killed |
//! | robbed | a worker's permit was not its own any more when it gave it back |
//! | time-outs | a worker waited in vain, although no worker keeps the permit for long |
//! | refused | joining, creating or removing failed for no reason |
//! | crashes | a worker ended by itself, or by a signal that was not sent |
//! | wedges | no worker made a turn within the watchdog |
//! | leaks | at the end a member slot, or the permit, was not to be had |

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use chappe::{Arena, ArenaOptions, Pool, Semaphore};

use super::dice::Dice;
use crate::board::shared;
use crate::child::Child;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many kills.
    pub kills: u64,
    /// How many namespaces at a time.
    pub spaces: usize,
    /// Where the random choices begin.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
}

/// How many workers there are before a number comes again.
const LIVES: usize = 1 << 20;
/// What ends a worker that was told to: by [`Board::over`].
const DONE: i32 = 0;

/// What all see.
struct Board {
    /// The worker that has the permit: which life it is; 0 for none.
    inside: AtomicU32,
    /// 1 for each life that is about to be killed, or has been.
    doomed: [AtomicU8; LIVES],
    turns: AtomicU64,
    over: AtomicU32,
    overlaps: AtomicU64,
    robbed: AtomicU64,
    timeouts: AtomicU64,
    refused: AtomicU64,
    slots: AtomicU64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Workers killed.
    pub kills: u64,
    /// Times a worker had the permit.
    pub turns: u64,
    /// What was found: see the module.
    pub found: [(&'static str, u64); 7],
    /// How long it took.
    pub took: Duration,
}

impl Sum {
    /// Whether nothing was found.
    pub fn clean(&self) -> bool {
        self.found.iter().all(|(_, n)| *n == 0)
    }

    /// In a line.
    pub fn summary(&self, crowd: Crowd) -> String {
        let found: Vec<_> = self.found.iter().map(|(what, n)| format!("{n} {what}")).collect();
        format!(
            "{} kills in {} PID namespaces, {} turns, {:.0} s: {} (seed {})",
            self.kills,
            crowd.spaces,
            self.turns,
            self.took.as_secs_f64(),
            found.join(", "),
            crowd.seed
        )
    }
}

/// Forks a process that is the first one of a new PID namespace.
fn fork_first(own: &File, life: impl FnOnce()) -> Result<Child, String> {
    let failed = |what: &str| format!("{what}: {}; PID namespaces need root", std::io::Error::last_os_error());
    // SAFETY: a plain call; it concerns the children of this process.
    if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
        return Err(failed("unshare"));
    }
    let child = Child::fork(life);
    // SAFETY: an open descriptor of this process's own namespace: further children are in there again.
    let back = unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) };
    if back == 0 { Ok(child) } else { Err(failed("setns")) }
}

/// One thread of a worker: takes the permit again and again.
fn work(board: &Board, life: u32, seed: u64, limit: Duration) {
    let mut dice = Dice::new(seed);
    let refuse = |why: &dyn std::fmt::Display| {
        eprintln!("life {life}: {why}");
        board.refused.fetch_add(1, SeqCst);
    };
    let pool = match Pool::open("spaces/g") {
        Ok(pool) => pool,
        Err(e) => return refuse(&e),
    };
    while board.over.load(SeqCst) == 0 {
        match pool.acquire_timeout(limit) {
            Ok(permit) => {
                let before = board.inside.swap(life, SeqCst);
                if before != 0 && board.doomed[before as usize % LIVES].load(SeqCst) == 0 {
                    eprintln!("life {life} has the permit, and so has life {before}");
                    board.overlaps.fetch_add(1, SeqCst);
                }
                for _ in 0..dice.roll(400) {
                    std::hint::spin_loop();
                }
                if board.inside.compare_exchange(life, 0, SeqCst, SeqCst).is_err() {
                    board.robbed.fetch_add(1, SeqCst);
                }
                drop(permit);
                board.turns.fetch_add(1, SeqCst);
            }
            Err(e) => {
                eprintln!("life {life}: {e}");
                board.timeouts.fetch_add(1, SeqCst);
            }
        }
        match dice.roll(6) {
            0 => {
                if let Ok(arena) = Arena::open("spaces") {
                    arena.leave();
                }
            }
            1 => {
                let name = format!("spaces/s{}", dice.roll(3));
                if let Err(e) = Semaphore::open_or_create(&name, 0) {
                    refuse(&e);
                }
                // Another worker may have removed it.
                let _ = Semaphore::remove(&name, true);
            }
            _ => {}
        }
    }
}

/// A worker, as its process's first thread.
fn live(board: &'static Board, life: u32, seed: u64, limit: Duration) {
    let second = std::thread::spawn(move || work(board, life, seed ^ 0x5555, limit));
    work(board, life, seed, limit);
    let _ = second.join();
}

/// Kills so many workers.
///
/// # Errors
/// What keeps it from beginning.
pub fn soak(crowd: Crowd) -> Result<Sum, String> {
    // SAFETY: atomics, of which zeros are valid.
    let board = unsafe { shared::<Board>() };
    let own = File::open("/proc/self/ns/pid").map_err(|e| format!("/proc/self/ns/pid: {e}"))?;
    let mut maker = Child::fork(|| {
        let options = ArenaOptions { members: Some(64), objects: Some(64), ..ArenaOptions::default() };
        Arena::create("spaces", &options).expect("an arena");
        Pool::create("spaces/g", 1).expect("a pool");
    });
    wait_for(&mut maker);
    let (mut dice, start) = (Dice::new(crowd.seed), Instant::now());
    let (mut born, mut crashes, mut wedges, mut sum) = (0u32, 0, 0, Sum::default());
    let mut begin = |dice: &mut Dice| {
        born += 1;
        let (life, seed) = (born, dice.seed());
        fork_first(&own, || live(board, life, seed, crowd.limit)).map(|child| (life, child))
    };
    let mut crew = Vec::new();
    for _ in 0..crowd.spaces {
        crew.push(begin(&mut dice)?);
    }
    let mut seen = (board.turns.load(SeqCst), Instant::now());
    while sum.kills < crowd.kills && wedges == 0 {
        std::thread::sleep(Duration::from_micros(dice.roll(1500)));
        let at = dice.roll(crew.len() as u64) as usize;
        let (life, child) = &mut crew[at];
        if let Some(status) = child.ended() {
            eprintln!("life {life} has ended with status {status:#x}");
            crashes += 1;
        } else {
            board.doomed[*life as usize % LIVES].store(1, SeqCst);
            child.kill();
            sum.kills += 1;
        }
        crew[at] = begin(&mut dice)?;
        let turns = board.turns.load(SeqCst);
        if turns != seen.0 {
            seen = (turns, Instant::now());
        } else if seen.1.elapsed() > crowd.limit {
            eprintln!("nobody has made a turn for {:?}", crowd.limit);
            wedges += 1;
        }
        if sum.kills.is_multiple_of(10_000) {
            eprintln!("{} kills, {turns} turns, {:.0} s", sum.kills, start.elapsed().as_secs_f64());
        }
    }
    board.over.store(1, SeqCst);
    let until = Instant::now() + crowd.limit;
    for (life, child) in &mut crew {
        while child.ended().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        match child.ended() {
            Some(DONE) => {}
            Some(status) => {
                eprintln!("life {life} has ended with status {status:#x}");
                crashes += 1;
            }
            None => {
                eprintln!("life {life} does not end");
                wedges += 1;
            }
        }
    }
    drop(crew);
    let mut survivor = fork_first(&own, || survive(board, crowd.limit))?;
    wait_for(&mut survivor);
    let load = |count: &AtomicU64| count.load(SeqCst);
    sum.turns = load(&board.turns);
    sum.took = start.elapsed();
    sum.found = [
        ("overlaps", load(&board.overlaps)),
        ("robbed", load(&board.robbed)),
        ("time-outs", load(&board.timeouts)),
        ("refused", load(&board.refused)),
        ("crashes", crashes),
        ("wedges", wedges),
        ("leaks", load(&board.slots)),
    ];
    Ok(sum)
}

fn wait_for(child: &mut Child) {
    while child.ended().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// When all have gone: every slot of the arena and its permit can be had.
fn survive(board: &Board, limit: Duration) {
    let pool = Pool::open("spaces/g").expect("it is there");
    if pool.acquire_timeout(limit).is_err() {
        board.slots.fetch_add(1, SeqCst);
    }
    let arena = Arena::open("spaces").expect("it is there");
    arena.map().recover_dead();
    let there: Vec<_> = arena.members().into_iter().filter(|who| who.pid != std::process::id()).collect();
    for who in &there {
        eprintln!("{who:?} is left");
    }
    board.slots.fetch_add(there.len() as u64, SeqCst);
}
