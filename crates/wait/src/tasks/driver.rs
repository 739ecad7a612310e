//! The driver: a kernel thread that sleeps at this process's bell in a named arena, and calls the wakers of the tasks whose waits are over.
//!
//! The bell is that of `bell`, with a thread in the place of the proc: C1 and C2 of the chime hold as there. A process has one driver in
//! each arena in which its tasks wait, from the first such wait on, whatever their number; it makes no system call but to sleep, and wakes
//! for nobody but a ringer.

use crate::lent::holders::{self, Holders};
use crate::lent::take;
use crate::wait::still_waits;
use chappe_arena::{ArenaError, Map};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::later::Busy;
use chappe_plat::light::{self, Chime};
use chappe_plat::{process, thread};
use std::sync::Mutex;
use std::sync::mpsc::channel;

pub struct Driver {
    /// The member whose bell is rung.
    pub member: u32,
    chime: Chime,
    /// The members in which tasks wait: a bit a member.
    waiting: Box<[AtomicU64]>,
    map: &'static Map,
    holders: &'static Holders,
}

/// The incarnation of the process, the arena, and its driver.
type Known = (u64, usize, &'static Driver);

pub static DRIVERS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The process's driver in that arena.
///
/// # Errors
/// The arena's when it is full, and the system's when it refuses a thread.
pub fn of(map: &'static Map) -> Result<&'static Driver, ArenaError> {
    let now = process::incarnation();
    // Wakers that are due meanwhile are called when the lock is released.
    let _busy = Busy::begin();
    let mut drivers = light::lock(&DRIVERS);
    if let Some((.., driver)) = drivers.iter().find(|(of, m, _)| (*of, *m) == (now, holders::key(map))) {
        return Ok(driver);
    }
    // The thread first: what a failure leaves behind ends by itself, and no member is lost by it.
    let (tell, told) = channel::<&'static Driver>();
    let cannot = |source| ArenaError::Io { what: "cannot start the thread that wakes tasks".into(), source };
    thread::background("chappe-tasks", move || told.into_iter().for_each(Driver::run)).map_err(cannot)?;
    let joined = take(map)?;
    let waiting = (0..map.geometry().members.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
    // Before the first wait that is to ring it.
    let chime = Chime::new(&map.member(joined.index).bell, |_, _| {});
    let driver = Driver { member: joined.index, chime, waiting, map, holders: holders::holders(map) };
    let driver: &'static Driver = Box::leak(Box::new(driver));
    let _ = tell.send(driver);
    drivers.push((now, holders::key(map), driver));
    Ok(driver)
}

impl Driver {
    /// A task is about to wait in this member.
    pub fn enlist(&self, member: u32) {
        // SeqCst: C1, before the member's word says ASLEEP.
        self.waiting[member as usize / 64].fetch_or(1 << (member % 64), Ordering::SeqCst);
    }

    /// None waits there any more.
    pub fn dismiss(&self, member: u32) {
        // Relaxed: if it is looked at once more, no harm is done.
        self.waiting[member as usize / 64].fetch_and(!(1 << (member % 64)), Ordering::Relaxed);
    }

    fn run(&'static self) {
        loop {
            if let Some((word, value)) = self.chime.sleeps() {
                futex::wait(word, value, None, Scope::Shared);
            }
            self.chime.is_up();
            if self.chime.is_rung() {
                self.answer();
            }
        }
    }

    /// The bell was rung: calls the waker of each task whose wait is over.
    fn answer(&self) {
        for (at, word) in self.waiting.iter().enumerate() {
            // SeqCst: C1, after the ring.
            let mut waiting = word.load(Ordering::SeqCst);
            while waiting != 0 {
                let member = at as u32 * 64 + waiting.trailing_zeros();
                waiting &= waiting - 1;
                if !still_waits(self.map, member)
                    && let Some(holders::Holder::Task(task)) = holders::held_by(self.holders, member)
                {
                    task.wake();
                }
            }
        }
    }
}
