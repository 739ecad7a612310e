//! Times at which tasks are woken: what a clock has is granted by nobody. One kernel thread of the process sees to them, from the first on, whatever
//! their number; it sleeps until the earliest.
//!
//! - T1: a time is noted under the lock, then the thread is told. It reads what it is told before it takes the lock, and sleeps only while that is as
//!   it was: so it has seen each time that is earlier than the one for which it sleeps.
//!
//! No other lock of chappe's is taken under that of the times, and no waker is called there.

use super::seat::{lend_sitter, return_sitter};
use crate::lent::holders::Sitter;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::{clock, light, process, thread};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::task::Waker;

/// Which time comes first: by the clock, then by arrival.
type Turn = (u64, u64);

pub struct Times {
    incarnation: u64,
    came: u64,
    all: BTreeMap<Turn, &'static Sitter>,
}

/// Those of this process.
pub static TIMES: Mutex<Times> = Mutex::new(Times { incarnation: 0, came: 0, all: BTreeMap::new() });
/// Counts the times that were noted.
static NOTED: AtomicU32 = AtomicU32::new(0);

/// A time at which a task is woken.
pub struct Alarm {
    turn: Turn,
    sitter: &'static Sitter,
    incarnation: u64,
}

impl Alarm {
    /// At that time, on the monotonic clock, the waker is called.
    ///
    /// # Errors
    /// The system's when it refuses the thread.
    pub fn set(due: u64, waker: &Waker) -> io::Result<Alarm> {
        let incarnation = process::incarnation();
        let sitter = lend_sitter();
        sitter.note(waker);
        let noted = note(due, sitter, incarnation);
        if noted.is_err() {
            return_sitter(sitter);
        }
        let turn = noted?;
        // Release: T1.
        NOTED.fetch_add(1, Ordering::Release);
        futex::wake(&NOTED, 1, Scope::Private);
        Ok(Alarm { turn, sitter, incarnation })
    }

    /// Whether it is for that time, in this process, which has not come: then this waker is the one to be called.
    pub fn is_for(&self, due: u64, waker: &Waker) -> bool {
        if self.turn.0 != due || self.incarnation != process::incarnation() {
            return false;
        }
        // First: the thread that finds the time noted below calls this one.
        self.sitter.note(waker);
        light::lock(&TIMES).all.contains_key(&self.turn)
    }
}

fn note(due: u64, sitter: &'static Sitter, incarnation: u64) -> io::Result<Turn> {
    let mut times = light::lock(&TIMES);
    if times.incarnation != incarnation {
        // The parent's. A thread that cannot be started is tried again.
        thread::background("chappe-timer", run)?;
        *times = Times { incarnation, came: 0, all: BTreeMap::new() };
    }
    times.came += 1;
    let turn = (due, times.came);
    times.all.insert(turn, sitter);
    Ok(turn)
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.incarnation == process::incarnation() {
            light::lock(&TIMES).all.remove(&self.turn);
            return_sitter(self.sitter);
        }
    }
}

fn run() {
    loop {
        // Acquire: T1.
        let noted = NOTED.load(Ordering::Acquire);
        let now = clock::now();
        let (due, next) = {
            let mut times = light::lock(&TIMES);
            let later = times.all.split_off(&(now + 1, 0));
            let next = later.keys().next().map(|(due, _)| *due);
            (std::mem::replace(&mut times.all, later), next)
        };
        due.into_values().for_each(Sitter::wake);
        futex::wait(&NOTED, noted, next, Scope::Private);
    }
}
