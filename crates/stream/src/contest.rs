//! Jobs of a graph that share its processors: `deadline` with an importance, and `emergency` (synthesis, 6.4.2).
//!
//! Each [`Graph`](crate::Graph) has a [`Contest`] of its own, in each of its processes. The threads of a job, all that its stage has links with, tell it
//! the time that they use ([`Meter`]). The stage tells the contest how far it is; the stage that finds that all together need more than there is ends the
//! least important job: a word that its stage reads, and a message to each `emergency` stage of that name.
//!
//! - I1: a job ends once: by the contest, or by itself. Its rescuers hear of the first, and that none will come of the second.
//! - I2: a thread holds the contest's locks for no more than a sum over its jobs. What is called when a job ends early is a [`Calls`].

use crate::calls::Calls;
use chappe_feedback::Jobs;
use chappe_feedback::jobs::in_words;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::{clock, topology};
use chappe_sync::tube::{self, Receiver, Sender};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// What the threads of a job have used, and how many there are.
#[derive(Debug, Default)]
pub struct Use {
    nanoseconds: AtomicU64,
    /// Of the thread that has used most.
    most: AtomicU64,
    threads: AtomicU32,
}

impl Use {
    /// So many nanoseconds of a processor more, of a thread that has used so many in all.
    pub fn add(&self, nanoseconds: u64, own: u64) {
        // Relaxed, both: counts.
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.most.fetch_max(own, Ordering::Relaxed);
    }

    /// Seconds of a processor, and how many processors its threads can use at once: they wait for the one that has most to do.
    pub fn so_far(&self) -> (f64, f64) {
        // Relaxed, all: counts.
        let all = self.nanoseconds.load(Ordering::Relaxed) as f64;
        let (most, threads) = (self.most.load(Ordering::Relaxed), self.threads.load(Ordering::Relaxed));
        let width = if most > 0 { all / most as f64 } else { f64::INFINITY };
        (all / 1e9, width.min(threads.into()).max(1.0))
    }
}

/// The use of a job, which its threads add up.
pub type Spent = Arc<Use>;

#[derive(Default)]
struct Board {
    jobs: Option<Jobs>,
    /// By the number of the job: its name, and the word that ends it.
    ends: Vec<(String, Arc<AtomicU32>)>,
    rescuers: HashMap<String, Vec<Sender<String>>>,
}

/// The jobs of a graph.
#[derive(Default)]
pub struct Contest {
    board: Mutex<Board>,
    /// What is called when a job is ended early: its name, and how many processors were needed.
    pub emergency: Calls<f64>,
    /// When somebody looked at the processors last, in tenths of a second.
    looked: AtomicU64,
}

impl fmt::Debug for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contest")
    }
}

impl Contest {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are so many processors.
    pub fn begin(&self, processors: usize) {
        self.board().jobs.get_or_insert_with(|| Jobs::new(1.0)).set_processors(processors as f64);
    }

    /// What an `emergency` hears of the job of that name: a line, or that none comes any more.
    pub fn rescue(&self, name: &str) -> Receiver<String> {
        let (tell, hear) = tube::bounded(1);
        self.board().rescuers.entry(name.to_owned()).or_default().push(tell);
        hear
    }

    /// A job begins: so important, of so many frames, to be done by that time of the machine's clock in seconds.
    pub fn enter(&self, name: &str, importance: f64, frames: f64, deadline: f64) -> Entry {
        let mut board = self.board();
        let job = board.jobs.get_or_insert_with(|| Jobs::new(1.0)).add(importance, frames, deadline);
        let ended = Arc::new(AtomicU32::new(0));
        board.ends.push((name.to_owned(), Arc::clone(&ended)));
        Entry { job, ended }
    }

    /// A job is so far at this time, and can use so many processors at once: ends whichever is to be ended.
    pub fn progress(&self, of: &Entry, now: f64, (used, width): (f64, f64), done: f64) {
        // Relaxed: of those that come in the same tenth of a second one looks.
        let is_first = self.looked.fetch_max((now * 10.0) as u64, Ordering::Relaxed) < (now * 10.0) as u64;
        let own = || topology::allowed().ok().and_then(|own| topology::idle(|processor| own.contains(&processor)));
        let idle = is_first.then(own).flatten();
        let mut board = self.board();
        let Some(jobs) = &mut board.jobs else { return };
        if let Some(idle) = idle {
            jobs.idle(now, idle);
        }
        jobs.set_width(of.job, width);
        jobs.progress(of.job, now, used, done);
        let Some((job, need)) = jobs.excess(now) else { return };
        let (name, ended) = &board.ends[job];
        // Relaxed: its stage looks at each block.
        ended.store(1, Ordering::Relaxed);
        let name = name.clone();
        let line = format!("{name} ended early: all jobs would have needed {}\n", in_words(need));
        for rescuer in board.rescuers.remove(&name).into_iter().flatten() {
            let _ = rescuer.try_send(line.clone());
        }
        drop(board);
        self.emergency.tell(&name, need);
    }

    /// A job has ended by itself.
    pub fn over(&self, of: &Entry) {
        let mut board = self.board();
        if let Some(jobs) = &mut board.jobs {
            jobs.over(of.job);
        }
        let name = board.ends[of.job].0.clone();
        board.rescuers.remove(&name);
    }

    /// A job that never began ends.
    pub fn never(&self, name: &str) {
        self.board().rescuers.remove(name);
    }
}

/// A job of a contest.
pub struct Entry {
    job: usize,
    ended: Arc<AtomicU32>,
}

impl Entry {
    /// Whether it was ended early.
    pub fn is_ended(&self) -> bool {
        // Relaxed: looked at again with the next block.
        self.ended.load(Ordering::Relaxed) != 0
    }
}

/// What a thread of a job does with a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lap {
    /// It takes the block, and may wait for it.
    Get,
    /// It works on the block, and hands it on.
    Put,
}

/// What a kernel thread has used, how often its proc has switched, and which it is.
type Stamp = (u64, u32, ThreadId);

/// Measures what a light thread uses, block by block.
///
/// What the kernel thread uses between two looks is the light thread's if its proc has run no other one meanwhile. Of a lap in which another
/// one ran, the mean of those before is taken. Laps are measured apart: a thread that waits for each block does not work on it meanwhile.
pub struct Meter {
    spent: Spent,
    /// What it has used.
    own: u64,
    began: Stamp,
    means: [f64; 2],
}

impl Meter {
    /// For the threads of a job.
    pub fn new(spent: Spent) -> Meter {
        spent.threads.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
        Meter { spent, own: 0, began: Meter::now(), means: [0.0; 2] }
    }

    fn now() -> Stamp {
        (clock::used(), chappe_thread::switches(), std::thread::current().id())
    }

    /// A block begins.
    pub fn begin(&mut self) {
        self.began = Meter::now();
    }

    /// A lap is done, and the next one begins.
    pub fn end(&mut self, lap: Lap) {
        self.end_at(lap, Meter::now());
    }

    fn end_at(&mut self, lap: Lap, now: Stamp) {
        let (before, had, by) = std::mem::replace(&mut self.began, now);
        let (used, switches, kernel) = now;
        let mean = &mut self.means[lap as usize];
        let took = if (had, by) == (switches, kernel) {
            let took = used - before;
            *mean = if *mean > 0.0 { *mean + (took as f64 - *mean) / 16.0 } else { took as f64 };
            took
        } else {
            *mean as u64
        };
        self.own += took;
        self.spent.add(took, self.own);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.spent.threads.fetch_sub(1, Ordering::Relaxed); // Relaxed: a count.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn no_job_stands_while_an_emergency_is_called() {
        let contest = Contest::default();
        contest.begin(1);
        let ((go, gone), (tell, told)) = (channel::<()>(), channel());
        contest.emergency.set(Box::new(move |name, _| {
            gone.recv().unwrap();
            tell.send(name.to_owned()).unwrap();
        }));
        let jobs = [("a", 3.0), ("b", 2.0), ("c", 1.0)];
        let entries = jobs.map(|(name, importance)| contest.enter(name, importance, 1000.0, 100.0));
        for second in 1..=20 {
            let now = f64::from(second);
            entries.iter().for_each(|entry| contest.progress(entry, now, (now, 1.0), now * 15.0));
        }
        // The calls wait for this thread, which has found the excess.
        assert!(!entries[0].is_ended() && entries[1].is_ended() && entries[2].is_ended() && told.try_recv().is_err());
        (0..2).for_each(|_| go.send(()).unwrap());
        contest.emergency.settle();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn a_thread_that_waits_for_each_block_is_told_its_work() {
        let spent = Spent::default();
        let mut meter = Meter::new(Arc::clone(&spent));
        let kernel = std::thread::current().id();
        for block in 0..10 {
            let used = u64::from(block) * 1000;
            meter.began = (used, block, kernel);
            // Others use 500 meanwhile.
            meter.end_at(Lap::Get, (used + 500, block + 1, kernel));
            meter.end_at(Lap::Put, (used + 600, block + 1, kernel));
        }
        assert_eq!(spent.so_far(), (1e-6, 1.0));
        // Where one of them ran in the work, it is the mean.
        meter.end_at(Lap::Put, (20_000, 90, kernel));
        assert_eq!(spent.so_far().0, 1.1e-6);
        // Another thread does a tenth as much beside it: so both together can use little more than one processor, and two that do as much use two.
        let mut other = Meter::new(Arc::clone(&spent));
        let mut does = |used: u64| {
            other.began = (0, 7, kernel);
            other.end_at(Lap::Put, (used, 7, kernel));
            spent.so_far().1
        };
        assert!((does(110) - 1.1).abs() < 1e-9 && (does(990) - 2.0).abs() < 1e-9);
        // It has ended: one is left.
        drop(other);
        assert_eq!(spent.so_far().1, 1.0);
    }
}
