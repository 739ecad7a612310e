//! A worker of the soak of slots: it comes by an object of any kind, uses it, and looks whether its data is its own.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Subscribe};
use chappe::tube::named::{Tube, TubeOptions};
use chappe::{
    AcquireError, Arena, Condvar, Counter, DownError, HelpError, LockError, Map, MapOptions, Monitor, MonitorError,
    Mutex, MutexGuard, Pool, RwLock, RwLockError, Semaphore, Stack, UpError, WriteGuard,
};

use super::board::{ARENA, Board, NAMES};
use super::told::{Ends, Told, told};
use crate::soak::dice::Dice;

/// More units than can be in hand.
const PLENTY: u32 = 1000;
const MARK: u64 = 0x5DEE_CE66_D1CE_4E5B;

/// One thread.
pub struct Worker {
    board: &'static Board,
    arena: Arena,
    dice: Dice,
    careless: bool,
}

type Done = Result<(), Ends>;

/// The data of a kind with such a number in it.
fn data(kind: u64, number: u64) -> [u64; 4] {
    [kind, number, number ^ MARK, kind ^ MARK]
}

fn is_whole(kind: u64, words: &[u64; 4]) -> bool {
    *words == data(kind, words[1])
}

impl Worker {
    /// Begins somewhere.
    pub fn new(board: &'static Board, arena: Arena, seed: u64, careless: bool) -> Worker {
        Worker { board, arena, dice: Dice::new(seed), careless }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice.roll(below)
    }

    fn moment(&mut self) -> Duration {
        Duration::from_micros(self.roll(2_000))
    }

    /// In the middle of something: where death or a stop should find it.
    fn dawdle(&mut self) {
        match self.roll(4) {
            0 => std::thread::sleep(Duration::from_micros(self.roll(300))),
            1 => (0..self.roll(2_000)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }

    fn torn(&self, what: &str) {
        eprintln!("torn: {what}");
        self.board.torn.fetch_add(1, SeqCst);
    }

    /// That what a lock guards is whole, unless `told` that somebody died with it; then writes what is whole again.
    fn section(&mut self, kind: u64, words: &mut [u64; 4], told: bool, name: &str) {
        if !told && !is_whole(kind, words) {
            self.torn(&format!("{name}, of kind {kind}, has {words:x?}"));
        }
        let number = self.roll(u64::MAX);
        words[0] = kind;
        words[1] = number;
        self.dawdle();
        *words = data(kind, number);
    }

    /// One of the three ways to come by an object.
    fn come_by<T, E>(
        &mut self,
        open: impl FnOnce() -> Result<T, E>,
        create: impl FnOnce() -> Result<T, E>,
        either: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        match self.roll(3) {
            0 => open(),
            1 => either(),
            _ => create().inspect(|_| {
                self.board.made.fetch_add(1, SeqCst);
            }),
        }
    }

    /// One operation.
    pub fn turn(&mut self) {
        let name = format!("n{}", self.roll(NAMES));
        let full = format!("{ARENA}/{name}");
        let kind = self.roll(17);
        let done = match kind {
            0 => self.pool(&full),
            1 => self.semaphore(&full),
            2 => self.mutex(kind, &full),
            3 => self.rwlock(kind, &full),
            4 => self.condvar(&full),
            5 => self.tube(kind, &full),
            6 => self.broadcast(kind, &full),
            7 => self.stack(kind, &full),
            8 => self.map(kind, &full),
            9 => self.monitor(kind, &full),
            10 => self.counter(&full),
            _ => self.remove(&name),
        };
        if let Err(Ends::Unclear(e)) = done {
            eprintln!("unclear: {full}, {kind}: {e}");
            self.board.unclear.fetch_add(1, SeqCst);
        }
        self.board.turns.fetch_add(1, SeqCst);
    }

    /// Whatever it is, in use or not.
    fn remove(&mut self, name: &str) -> Done {
        let force = self.roll(4) != 0;
        // Which of the documented reasons it was, only the kind knows.
        if self.arena.remove_object(name, force).is_ok() {
            self.board.removed.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    fn pool(&mut self, name: &str) -> Done {
        let pool = self.come_by(|| Pool::open(name), || Pool::create(name, 3), || Pool::open_or_create(name, 3))?;
        let moment = self.moment();
        match pool.acquire_timeout(moment) {
            Ok(permit) => {
                self.dawdle();
                // None: it was removed.
                let (index, permits) = (permit.index(), pool.permits());
                if permit.is_valid() && (index >= 3 || !matches!(permits, 0 | 3)) {
                    self.torn(&format!("pool {name} has {permits} permits, and gave out number {index}"));
                }
                Ok(())
            }
            Err(AcquireError::Timeout | AcquireError::Dead { .. }) => Ok(()),
            Err(AcquireError::Arena(e)) => Err(e.told()),
            Err(e) => Err(told(false, e)),
        }
    }

    fn semaphore(&mut self, name: &str) -> Done {
        let semaphore = self.come_by(
            || Semaphore::open(name),
            || Semaphore::create(name, PLENTY),
            || Semaphore::open_or_create(name, PLENTY),
        )?;
        match semaphore.try_down() {
            Ok(()) => {}
            Err(DownError::Dead { .. }) => return Ok(()),
            Err(DownError::Arena(e)) => return Err(e.told()),
            Err(e) => return Err(told(false, e)),
        }
        self.dawdle();
        match semaphore.up() {
            Ok(()) | Err(UpError::Dead { .. }) => {}
            Err(UpError::Arena(e)) => return Err(e.told()),
            Err(e) => return Err(told(false, e)),
        }
        let value = semaphore.value();
        if value > PLENTY {
            self.torn(&format!("semaphore {name} has {value} of {PLENTY} units"));
        }
        Ok(())
    }

    fn mutex(&mut self, kind: u64, name: &str) -> Done {
        let first = data(kind, 0);
        let mutex = self.come_by(
            || Mutex::<[u64; 4]>::open(name),
            || Mutex::create(name, first),
            || Mutex::open_or_create(name, first),
        )?;
        let moment = self.moment();
        let (mut guard, told) = match mutex.lock_timeout(moment) {
            Ok(guard) => (guard, false),
            Err(LockError::OwnerDied(guard)) => (guard, true),
            Err(LockError::Timeout | LockError::Dead { .. }) => return Ok(()),
            Err(LockError::Arena(e)) => return Err(e.told()),
            Err(e) => return Err(Ends::Unclear(format!("locking: {e}"))),
        };
        self.section(kind, &mut guard, told, name);
        if self.careless {
            guard[3] = 0;
        }
        if told {
            MutexGuard::make_consistent(&mut guard);
        }
        Ok(())
    }

    fn rwlock(&mut self, kind: u64, name: &str) -> Done {
        let first = data(kind, 0);
        let lock = self.come_by(
            || RwLock::<[u64; 4]>::open(name),
            || RwLock::create(name, first),
            || RwLock::open_or_create(name, first),
        )?;
        let (moment, reads) = (self.moment(), self.roll(2) == 0);
        let unclear = |e: &dyn std::fmt::Display| Ends::Unclear(format!("locking: {e}"));
        if reads {
            return match lock.read_timeout(moment) {
                Ok(guard) => {
                    self.dawdle();
                    if !is_whole(kind, &guard) {
                        self.torn(&format!("{name}, read, has {:x?}", *guard));
                    }
                    Ok(())
                }
                Err(RwLockError::OwnerDied(_) | RwLockError::Timeout | RwLockError::Dead { .. }) => Ok(()),
                Err(RwLockError::Arena(e)) => Err(e.told()),
                Err(e) => Err(unclear(&e)),
            };
        }
        let (mut guard, told) = match lock.write_timeout(moment) {
            Ok(guard) => (guard, false),
            Err(RwLockError::OwnerDied(guard)) => (guard, true),
            Err(RwLockError::Timeout | RwLockError::Dead { .. }) => return Ok(()),
            Err(RwLockError::Arena(e)) => return Err(e.told()),
            Err(e) => return Err(unclear(&e)),
        };
        self.section(kind, &mut guard, told, name);
        if told {
            WriteGuard::make_consistent(&mut guard);
        }
        Ok(())
    }

    /// A late notifier is one of those that write into the next object.
    fn condvar(&mut self, name: &str) -> Done {
        let condvar =
            self.come_by(|| Condvar::open(name), || Condvar::create(name), || Condvar::open_or_create(name))?;
        match self.roll(3) {
            0 => condvar.notify_all(),
            1 => condvar.notify_one(),
            _ => {
                let lock = Mutex::<[u64; 4]>::private(data(0, 0)).map_err(Ends::from)?;
                let moment = self.moment();
                let Ok(guard) = lock.lock() else { return Err(told(false, "a private mutex cannot be locked")) };
                match condvar.wait_timeout(guard, moment).0 {
                    Ok(_) | Err(LockError::CondvarDead { .. }) => {}
                    Err(LockError::Arena(e)) => return Err(e.told()),
                    Err(e) => return Err(Ends::Unclear(format!("waiting: {e}"))),
                }
            }
        }
        Ok(())
    }

    fn tube(&mut self, kind: u64, name: &str) -> Done {
        let options = TubeOptions { slots: 3, ..TubeOptions::default() };
        let tube = self.come_by(
            || Tube::<[u64; 4]>::open(name),
            || Tube::create(name, &options),
            || Tube::open_or_create(name, &options),
        )?;
        let moment = self.moment();
        if self.roll(2) == 0 {
            let number = self.roll(u64::MAX);
            return Ok(tube.sender()?.send_timeout(data(kind, number), moment)?);
        }
        let message = tube.receiver()?.recv_timeout(moment)?;
        if !is_whole(kind, &message) {
            self.torn(&format!("from tube {name} came {message:x?}"));
        }
        Ok(())
    }

    fn broadcast(&mut self, kind: u64, name: &str) -> Done {
        let options = BroadcastOptions::default();
        let tube = self.come_by(
            || Broadcast::<[u64; 4]>::open(name),
            || Broadcast::create(name, &options),
            || Broadcast::open_or_create(name, &options),
        )?;
        let moment = self.moment();
        if self.roll(2) == 0 {
            let number = self.roll(u64::MAX);
            return Ok(tube.publisher()?.send_timeout(data(kind, number), moment)?);
        }
        let message = tube.subscribe(Subscribe::to_all())?.recv_timeout(moment)?;
        if !is_whole(kind, &message) {
            self.torn(&format!("from broadcast tube {name} came {message:x?}"));
        }
        Ok(())
    }

    fn stack(&mut self, kind: u64, name: &str) -> Done {
        let stack = self.come_by(
            || Stack::<[u64; 4]>::open(name),
            || Stack::create(name, 8),
            || Stack::open_or_create(name, 8),
        )?;
        if self.roll(2) == 0 {
            let number = self.roll(u64::MAX);
            return match stack.push(data(kind, number)) {
                Ok(()) => Ok(()),
                Err(e) => Err(e.why.told()),
            };
        }
        match stack.pop()? {
            Some(element) if !is_whole(kind, &element) => self.torn(&format!("from stack {name} came {element:x?}")),
            _ => {}
        }
        Ok(())
    }

    fn map(&mut self, kind: u64, name: &str) -> Done {
        let options = MapOptions { entries: 8, ..MapOptions::default() };
        let map = self.come_by(
            || Map::<u64, [u64; 4]>::open(name),
            || Map::create(name, &options),
            || Map::open_or_create(name, &options),
        )?;
        let (key, number) = (self.roll(8), self.roll(u64::MAX));
        let there = match self.roll(3) {
            0 => map.insert(&key, &data(kind, number))?,
            1 => map.remove(&key)?,
            _ => map.get(&key)?,
        };
        match there {
            Some(value) if !is_whole(kind, &value) => self.torn(&format!("map {name} had {value:x?} at {key}")),
            _ => {}
        }
        Ok(())
    }

    fn monitor(&mut self, kind: u64, name: &str) -> Done {
        let first = data(kind, 0);
        let conditions = ["go"];
        let monitor = self.come_by(
            || Monitor::<[u64; 4]>::open(name),
            || Monitor::create(name, first, &conditions),
            || Monitor::open_or_create(name, first, &conditions),
        )?;
        let (mut inside, told) = match monitor.enter() {
            Err(MonitorError::Lock(HelpError::OwnerDied { .. })) => (monitor.enter_torn()?, true),
            other => (other?, false),
        };
        self.section(kind, &mut inside, told, name);
        if told {
            inside.make_consistent();
        }
        match self.roll(3) {
            0 => inside.signal("go")?,
            1 => inside.broadcast("go")?,
            _ => {
                let moment = self.moment();
                drop(inside.wait_timeout("go", moment)?);
            }
        }
        Ok(())
    }

    fn counter(&mut self, name: &str) -> Done {
        let counter =
            self.come_by(|| Counter::open(name), || Counter::create(name, 0), || Counter::open_or_create(name, 0))?;
        let by = self.roll(3) as i64 - 1;
        counter.add_within(by, 0..=1000)?;
        let value = counter.get()?;
        if !(0..=1000).contains(&value) {
            self.torn(&format!("counter {name} is {value}"));
        }
        Ok(())
    }
}
