//! The soak of structures: workers that share a map, a stack, a monitor and helping locks, killed at random.
//!
//! Each worker has a place on the board, which the next life of that place reads. Before a change it notes what it is about to do, and after it that it was
//! done. So the next life knows what must be there: what was noted as done, or what was about to be.
//!
//! | | |
//! |---|---|
//! | torn | a value was read whose words do not belong together, and no death was told |
//! | lost | what a worker had noted as done was not there |
//! | doubled | a token came off the stack while a worker held it |
//! | refused | an operation failed for no reason |
//! | crashes | a worker ended by itself, or by a signal that was not sent |
//! | wedges | no worker made a turn within the watchdog |

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use chappe::{Arena, ArenaOptions, HelpError, HelpLock, Map, MapOptions, Monitor, MonitorError, Stack};

use super::dice::Dice;
use crate::board::shared;
use crate::child::Child;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// How many kills.
    pub kills: u64,
    /// Where the random choices begin.
    pub seed: u64,
    /// The watchdog.
    pub limit: Duration,
    /// A mistake that must be found: the map's values are written in two steps.
    pub careless: bool,
}

const WORKERS: usize = 6;
/// Keys of its own that each place has.
const KEYS: usize = 4;
/// Tokens that there may ever be.
const TOKENS: usize = 1 << 17;
/// Tokens in use at a time.
const AT_ONCE: u64 = 32;
/// The key that all change.
const COMMON: u64 = u64::MAX;
const MARK: u64 = 0x5DEE_CE66_D1CE_4E5B;

type Value = [u64; 3];

/// What the next life of a place must know.
struct Place {
    /// Of each key the step that was done last, and the one that was begun last. At odd steps it is there, with that number.
    done: [AtomicU64; KEYS],
    begun: [AtomicU64; KEYS],
    /// 1: a token may have been taken that is not yet noted.
    taking: AtomicU64,
    /// The token that it holds.
    holds: AtomicU64,
    /// The token that it is about to put back.
    putting: AtomicU64,
}

struct Board {
    places: [Place; WORKERS],
    /// Which life holds a token.
    owner: [AtomicU32; TOKENS],
    /// The last token that was made.
    made: AtomicU64,
    /// Tokens that were in the hand of the dead, not known which.
    gone: AtomicU64,
    /// Additions to the common key, to the monitor and to the locks, as noted.
    added: [AtomicU64; 4],
    turns: AtomicU64,
    over: AtomicU32,
    torn: AtomicU64,
    lost: AtomicU64,
    doubled: AtomicU64,
    refused: AtomicU64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Workers killed.
    pub kills: u64,
    /// Operations.
    pub turns: u64,
    /// What was found: see the module.
    pub found: [(&'static str, u64); 6],
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
        let seconds = self.took.as_secs_f64();
        format!("{} kills, {} turns, {seconds:.0} s: {} (seed {seed})", self.kills, self.turns, found.join(", "))
    }
}

fn value(key: u64, number: u64) -> Value {
    [number, number ^ MARK, key]
}

fn is_whole(key: u64, v: &Value) -> bool {
    *v == value(key, v[0])
}

/// What a key has after a step.
fn after(step: u64) -> Option<u64> {
    (step % 2 == 1).then_some(step)
}

/// All that is shared, and the process's own place.
struct Worker {
    board: &'static Board,
    place: usize,
    life: u32,
    careless: bool,
    map: Map<u64, Value>,
    stack: Stack<[u64; 2]>,
    monitor: Monitor<[u64; 2]>,
    inherited: HelpLock<[u64; 2]>,
    steps: HelpLock<[u64; 4]>,
}

type Told<T> = Result<T, Box<dyn std::error::Error>>;

impl Worker {
    fn open(board: &'static Board, place: usize, life: u32, careless: bool) -> Told<Worker> {
        Ok(Worker {
            board,
            place,
            life,
            careless,
            map: Map::open("structures/map")?,
            stack: Stack::open("structures/stack")?,
            monitor: Monitor::open("structures/monitor")?,
            inherited: HelpLock::inherited_open("structures/inherited")?,
            steps: HelpLock::steps_named("structures/steps", [0; 4])?,
        })
    }

    fn count(&self, what: &AtomicU64, why: std::fmt::Arguments<'_>) {
        eprintln!("life {} of place {}: {why}", self.life, self.place);
        what.fetch_add(1, SeqCst);
    }

    fn key(place: usize, at: usize) -> u64 {
        (place * KEYS + at) as u64
    }

    /// What the life before has left.
    fn inherit(&self) -> Told<()> {
        let (b, p) = (self.board, &self.board.places[self.place]);
        for at in 0..KEYS {
            let (done, begun) = (p.done[at].load(SeqCst), p.begun[at].load(SeqCst));
            let there = self.read(Worker::key(self.place, at))?;
            let step = match [begun, done].into_iter().find(|step| after(*step) == there) {
                Some(step) => step,
                None => {
                    self.count(&b.lost, format_args!("key {at} has {there:?} after step {done}, {begun} was begun"));
                    begun
                }
            };
            p.done[at].store(step, SeqCst);
            p.begun[at].store(step, SeqCst);
        }
        let held = p.holds.swap(0, SeqCst);
        let unsure = p.taking.swap(0, SeqCst) == 1 && held == 0 || p.putting.swap(0, SeqCst) != 0;
        if held != 0 {
            self.put_back(held)?;
        } else if unsure {
            // Mostly it is on the stack all the same.
            b.gone.fetch_add(1, SeqCst);
            if u64::from(self.stack.len()?) < AT_ONCE / 2 {
                self.put_back(b.made.fetch_add(1, SeqCst) + 1)?;
            }
        }
        Ok(())
    }

    fn read(&self, key: u64) -> Told<Option<u64>> {
        Ok(self.map.get(&key)?.map(|v| {
            if !is_whole(key, &v) {
                self.count(&self.board.torn, format_args!("key {key} has {v:x?}"));
            }
            v[0]
        }))
    }

    fn change_own(&self, at: usize) -> Told<()> {
        let p = &self.board.places[self.place];
        let (key, step) = (Worker::key(self.place, at), p.done[at].load(SeqCst) + 1);
        p.begun[at].store(step, SeqCst);
        match after(step) {
            Some(number) if self.careless => {
                self.map.insert(&key, &[number, 0, key])?;
                self.map.insert(&key, &value(key, number))?;
            }
            Some(number) => _ = self.map.insert(&key, &value(key, number))?,
            None => _ = self.map.remove(&key)?,
        }
        p.done[at].store(step, SeqCst);
        Ok(())
    }

    fn put_back(&self, token: u64) -> Told<()> {
        let p = &self.board.places[self.place];
        p.putting.store(token, SeqCst);
        p.holds.store(0, SeqCst);
        self.board.owner[token as usize % TOKENS].store(0, SeqCst);
        self.stack.push([token, token ^ MARK])?;
        p.putting.store(0, SeqCst);
        Ok(())
    }

    fn take_and_put(&self) -> Told<()> {
        let p = &self.board.places[self.place];
        p.taking.store(1, SeqCst);
        let Some(token) = self.stack.pop()? else {
            p.taking.store(0, SeqCst);
            return Ok(());
        };
        p.holds.store(token[0], SeqCst);
        p.taking.store(0, SeqCst);
        if token[1] != token[0] ^ MARK {
            self.count(&self.board.torn, format_args!("a token {token:x?}"));
        }
        let before = self.board.owner[token[0] as usize % TOKENS].swap(self.life, SeqCst);
        if before != 0 {
            self.count(&self.board.doubled, format_args!("token {} is life {before}'s", token[0]));
        }
        self.put_back(token[0])
    }

    /// One after the other, so that a death in between tears them.
    fn add(&self, which: usize, two: &mut [u64; 2], whole: bool) {
        if !whole {
            *two = [two[0].max(two[1]); 2];
        } else if two[0] != two[1] {
            self.count(&self.board.torn, format_args!("{two:?}, and no death was told ({which})"));
        }
        for one in two.iter_mut() {
            *std::hint::black_box(one) += 1;
            std::hint::spin_loop();
        }
        self.board.added[which].fetch_add(1, SeqCst);
    }

    fn be_inside(&self, dice: &mut Dice) -> Told<()> {
        let (mut inside, whole) = match self.monitor.enter() {
            Ok(inside) => (inside, true),
            Err(MonitorError::Lock(HelpError::OwnerDied { .. })) => (self.monitor.enter_torn()?, false),
            Err(e) => return Err(e.into()),
        };
        self.add(1, &mut inside, whole);
        if !whole {
            inside.make_consistent();
        }
        match dice.roll(4) {
            0 => match inside.wait_timeout("changed", Duration::from_millis(1)) {
                Ok(_) | Err(MonitorError::Lock(HelpError::OwnerDied { .. })) => {}
                Err(e) => return Err(e.into()),
            },
            1 => inside.broadcast("changed")?,
            _ => inside.signal("changed")?,
        }
        Ok(())
    }

    fn lock(&self) -> Told<()> {
        let (mut guard, whole) = match self.inherited.lock() {
            Ok(guard) => (guard, true),
            Err(HelpError::OwnerDied { guard, .. }) => (guard, false),
            Err(e) => return Err(e.to_string().into()),
        };
        self.add(2, &mut guard, whole);
        if !whole {
            guard.make_consistent();
        }
        Ok(())
    }

    fn step(&self) -> Told<()> {
        let whole = self.steps.with(|four| {
            let whole = four.iter().all(|n| *n == four[0]);
            four.iter_mut().for_each(|n| *n += 1);
            whole
        })?;
        self.board.added[3].fetch_add(1, SeqCst);
        if !whole {
            self.count(&self.board.torn, format_args!("steps"));
        }
        Ok(())
    }

    fn turn(&self, dice: &mut Dice) -> Told<()> {
        match dice.roll(7) {
            0 | 1 => self.change_own(dice.roll(KEYS as u64) as usize),
            2 => self.read(dice.roll((WORKERS * KEYS) as u64)).map(|_| ()),
            3 => {
                let add = |v: &Value| Some(value(COMMON, v[0] + 1));
                self.map.update(&COMMON, |v: Option<Value>| v.as_ref().and_then(add))?;
                self.board.added[0].fetch_add(1, SeqCst);
                Ok(())
            }
            4 => self.take_and_put(),
            5 => self.be_inside(dice),
            _ if dice.roll(2) == 0 => self.lock(),
            _ => self.step(),
        }
    }
}

/// A worker's life.
fn live(board: &'static Board, place: usize, life: u32, mix: Mix, seed: u64) {
    let refuse = |why: &dyn std::fmt::Display| {
        eprintln!("life {life} of place {place}: {why}");
        board.refused.fetch_add(1, SeqCst);
    };
    let worker = match Worker::open(board, place, life, mix.careless) {
        Ok(worker) => worker,
        Err(e) => return refuse(&e),
    };
    let mut dice = Dice::new(seed);
    if let Err(e) = worker.inherit() {
        return refuse(&e);
    }
    while board.over.load(SeqCst) == 0 {
        if let Err(e) = worker.turn(&mut dice) {
            refuse(&e);
        }
        board.turns.fetch_add(1, SeqCst);
    }
}

fn make() -> Told<()> {
    let options = ArenaOptions { members: Some(64), objects: Some(64), ..ArenaOptions::default() };
    Arena::create("structures", &options)?;
    let map = Map::<u64, Value>::create("structures/map", &MapOptions { entries: 64, ..MapOptions::default() })?;
    map.insert(&COMMON, &value(COMMON, 0))?;
    let stack = Stack::create("structures/stack", 256)?;
    for token in 1..=AT_ONCE {
        stack.push([token, token ^ MARK])?;
    }
    Monitor::create("structures/monitor", [0u64; 2], &["changed"])?;
    HelpLock::inherited_create("structures/inherited", [0u64; 2])?;
    HelpLock::steps_named("structures/steps", [0u64; 4])?;
    Ok(())
}

/// When all have gone: what must be there is there.
fn survive(board: &'static Board, kills: u64) -> Told<()> {
    for place in 0..WORKERS {
        Worker::open(board, place, u32::MAX, false)?.inherit()?;
    }
    let w = Worker::open(board, 0, u32::MAX, false)?;
    let mut there = 0;
    let mut seen = std::collections::HashSet::new();
    while let Some([token, _]) = w.stack.pop()? {
        there += 1;
        if !seen.insert(token) {
            w.count(&board.doubled, format_args!("token {token} was on the stack twice"));
        }
    }
    let (made, gone) = (board.made.load(SeqCst), board.gone.load(SeqCst));
    if there + gone < made {
        w.count(&board.lost, format_args!("{there} tokens of {made}; {gone} died with their holders"));
    }
    let numbers = [
        w.read(COMMON)?.unwrap_or(0),
        w.monitor.enter_torn()?[0],
        w.inherited.with(|two| two[0]).unwrap_or(u64::MAX),
        w.steps.with(|four| four[0])?,
    ];
    for (which, (number, added)) in numbers.into_iter().zip(&board.added).enumerate() {
        let added = added.load(SeqCst);
        if number < added || number > added + kills && number != u64::MAX {
            w.count(&board.lost, format_args!("{number} after {added} additions were noted ({which})"));
        }
    }
    Ok(())
}

fn wait_for(child: &mut Child) -> i32 {
    loop {
        if let Some(status) = child.ended() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills so many workers.
///
/// # Errors
/// What keeps it from beginning.
pub fn soak(mix: Mix) -> Result<Sum, String> {
    // SAFETY: atomics, of which zeros are valid.
    let board = unsafe { shared::<Board>() };
    board.made.store(AT_ONCE, SeqCst);
    let mut maker = Child::fork(|| make().expect("structures"));
    if wait_for(&mut maker) != 0 {
        return Err("the structures cannot be made".into());
    }
    let (mut dice, start) = (Dice::new(mix.seed), Instant::now());
    let (mut born, mut crashes, mut wedges, mut sum) = (0u32, 0, 0, Sum::default());
    let mut begin = |place: usize, dice: &mut Dice| {
        born += 1;
        let (life, seed) = (born, dice.seed());
        Child::fork(move || live(board, place, life, mix, seed))
    };
    let mut crew: Vec<Child> = (0..WORKERS).map(|place| begin(place, &mut dice)).collect();
    let mut seen = (0, Instant::now());
    while sum.kills < mix.kills && wedges == 0 {
        std::thread::sleep(Duration::from_micros(dice.roll(1500)));
        let place = dice.roll(WORKERS as u64) as usize;
        if let Some(status) = crew[place].ended() {
            eprintln!("the worker of place {place} has ended with status {status:#x}");
            crashes += 1;
        } else {
            crew[place].kill();
            sum.kills += 1;
        }
        crew[place] = begin(place, &mut dice);
        let turns = board.turns.load(SeqCst);
        if turns != seen.0 {
            seen = (turns, Instant::now());
        } else if seen.1.elapsed() > mix.limit {
            eprintln!("nobody has made a turn for {:?}", mix.limit);
            wedges += 1;
        }
    }
    board.over.store(1, SeqCst);
    let until = Instant::now() + mix.limit;
    for child in &mut crew {
        while child.ended().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        match child.ended() {
            Some(0) => {}
            Some(status) => {
                eprintln!("a worker has ended with status {status:#x}");
                crashes += 1;
            }
            None => wedges += 1,
        }
    }
    drop(crew);
    let kills = sum.kills;
    let mut survivor = Child::fork(move || survive(board, kills).expect("the structures are there"));
    crashes += u64::from(wait_for(&mut survivor) != 0);
    let load = |count: &AtomicU64| count.load(SeqCst);
    sum.turns = load(&board.turns);
    sum.took = start.elapsed();
    sum.found = [
        ("torn", load(&board.torn)),
        ("lost", load(&board.lost)),
        ("doubled", load(&board.doubled)),
        ("refused", load(&board.refused)),
        ("crashes", crashes),
        ("wedges", wedges),
    ];
    Ok(sum)
}
