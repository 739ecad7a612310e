//! The director of a storm: starts the processes, kills them, asks the witness.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::subject::Storm;
use super::subject::{ALL, Churn, Dice, Here, KEEPER, OVER, PER_PLACE, READY, REFUSED, Round, Subject, TURNS, WITNESS};
use super::subject::{WORKERS, Wedge};
use crate::board::Stage;
use crate::child::Child;
use crate::patience::within;

/// What a witness leaves when it was refused.
const REFUSAL: i32 = 3;
/// What one leaves that there is nothing to try.
const NOTHING: i32 = 4;

/// All rounds. `home` is a directory for them.
///
/// # Errors
/// What keeps a round from beginning.
pub fn rounds(subject: &dyn Subject, churn: Churn, home: &Path) -> Result<Vec<Round>, String> {
    let stage = Stage::new(churn.limit);
    let mut dice = Dice(churn.seed | 1);
    let mut all = Vec::new();
    for number in 0..churn.rounds {
        let own = home.join(format!("round-{number}"));
        let dir = |e: std::io::Error| format!("{}: {e}", own.display());
        std::fs::create_dir(&own).map_err(dir)?;
        stage.clear();
        subject.set(&own)?;
        let round =
            Director { subject, churn, stage: &stage, home: &own, dice: &mut dice, round: Round::default() }.go();
        subject.clean();
        std::fs::remove_dir_all(&own).map_err(dir)?;
        all.push(round);
    }
    Ok(all)
}

/// A worker, and when it last was seen to come on, after how many turns.
struct Worker {
    child: Child,
    since: Instant,
    turns: u64,
}

struct Director<'a> {
    subject: &'a dyn Subject,
    churn: Churn,
    stage: &'a Stage,
    home: &'a Path,
    dice: &'a mut Dice,
    round: Round,
}

impl Director<'_> {
    fn go(mut self) -> Round {
        let start = Instant::now();
        let mut keeper = self.keeper();
        let mut workers: Vec<Worker> = (0..WORKERS).map(|place| self.start(place)).collect();
        let mut said = None;
        while said.is_none() && self.round.kills < self.churn.kills {
            let pause = 500 + self.dice.roll(5_500);
            std::thread::sleep(Duration::from_micros(pause));
            for _ in 0..=self.dice.roll(3) {
                self.strike(&mut workers);
            }
            let keeper_fell = keeper.as_mut().is_some_and(|k| k.ended().is_some());
            said = if keeper_fell {
                Some("the process that keeps it ended by itself".to_owned())
            } else {
                self.look(&mut workers).or_else(|| self.witness().err())
            };
        }
        self.stage.word(OVER).store(1, SeqCst);
        within(self.churn.limit, || workers.iter_mut().all(|w| w.child.ended().is_some()));
        drop(workers);
        self.dismiss(keeper);
        self.round.wedge = said.map(|said| self.after(said));
        for place in 0..=KEEPER {
            self.round.turns += self.word(place, TURNS);
            self.round.refused += self.word(place, REFUSED);
            let words = std::fs::read_to_string(self.home.join(format!("said-{place}"))).ok();
            self.round.last = self.round.last.take().or(words);
        }
        self.round.took = start.elapsed();
        self.round
    }

    fn word(&self, place: usize, which: usize) -> u64 {
        self.stage.word(place * PER_PLACE + which).load(SeqCst)
    }

    /// A process of the storm. One that panics says why.
    fn process(&mut self, place: usize, life: impl FnOnce(&dyn Subject, &mut Here) -> i32) -> Child {
        let dice = Dice(self.dice.roll(u64::MAX >> 12) | 1);
        let (stage, subject, home) = (self.stage, self.subject, self.home);
        Child::fork(|| {
            let mut here = Here { stage, place, home, dice };
            let file = home.join(format!("said-{place}"));
            // If it cannot be written, it is not heard; that the process ended is seen.
            std::panic::set_hook(Box::new(move |panic| drop(std::fs::write(&file, panic.to_string()))));
            let status = life(subject, &mut here);
            // SAFETY: ends this process at once: the director's exit handlers are not for it to run.
            unsafe { libc::_exit(status) }
        })
    }

    fn start(&mut self, place: usize) -> Worker {
        self.stage.word(place * PER_PLACE + READY).store(0, SeqCst);
        let child = self.process(place, |subject, here| {
            subject.work(here);
            0
        });
        Worker { child, since: Instant::now(), turns: u64::MAX }
    }

    /// The process that keeps the object, when it has it.
    fn keeper(&mut self) -> Option<Child> {
        if self.subject.storm() == Storm::Churned {
            return None;
        }
        let mut child = self.process(KEEPER, |subject, here| {
            subject.keep(here);
            0
        });
        within(self.churn.limit, || self.word(KEEPER, READY) != 0 || child.ended().is_some());
        Some(child)
    }

    /// The one that keeps the object ends, too.
    fn dismiss(&self, mut keeper: Option<Child>) {
        self.stage.word(OVER).store(ALL, SeqCst);
        within(self.churn.limit, || keeper.as_mut().is_none_or(|k| k.ended().is_some()));
    }

    /// Kills one that may be killed, if there is one, and has another take its place.
    fn strike(&mut self, workers: &mut [Worker]) {
        let place = self.dice.roll(WORKERS as u64) as usize;
        if self.word(place, READY) != 0 && workers[place].child.ended().is_none() {
            workers[place].child.kill();
            workers[place] = self.start(place);
            self.round.kills += 1;
        }
    }

    /// Whether a process makes no progress. One that ended by itself is followed by another.
    fn look(&mut self, workers: &mut [Worker]) -> Option<String> {
        for (place, worker) in workers.iter_mut().enumerate() {
            let turns = self.word(place, TURNS) + self.word(place, REFUSED);
            if worker.child.ended().is_some() {
                self.round.fell += 1;
                *worker = self.start(place);
            } else if turns != worker.turns {
                (worker.since, worker.turns) = (Instant::now(), turns);
            } else if worker.since.elapsed() > self.churn.limit {
                return Some("one of the processes hangs".to_owned());
            }
        }
        None
    }

    /// Witnesses, one after the other, until one has done it or the time is over.
    fn witness(&mut self) -> Result<(), String> {
        let end = Instant::now() + self.churn.limit;
        let mut refused = None;
        loop {
            let _ = std::fs::remove_file(self.said());
            let mut child = self.process(WITNESS, |subject, here| refusal(here.prove(subject), here));
            within(end.saturating_duration_since(Instant::now()), || child.ended().is_some());
            match child.ended() {
                Some(0) => return Ok(()),
                Some(status) => {
                    let said = std::fs::read_to_string(self.said());
                    refused = Some(said.unwrap_or_else(|_| format!("the witness ended with wait status {status:#x}")));
                }
                None => return Err(refused.map_or_else(hangs, |before| format!("{}; before: {before}", hangs()))),
            }
            if Instant::now() > end {
                return Err(refused.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn said(&self) -> std::path::PathBuf {
        self.home.join(format!("said-{WITNESS}"))
    }

    /// It is wedged, and no other process is there any more.
    fn after(&mut self, said: String) -> Wedge {
        self.stage.word(OVER).store(0, SeqCst);
        let keeper = self.keeper();
        let stays = self.witness().is_err();
        self.dismiss(keeper);
        let resort = if stays { self.resort() } else { None };
        Wedge { said, stays, resort }
    }

    /// The last resort, and whether a witness is content then.
    fn resort(&mut self) -> Option<Result<(), String>> {
        let mut child = self.process(WITNESS, |subject, here| match subject.last_resort(here) {
            None => NOTHING,
            Some(done) => refusal(done, here),
        });
        within(self.churn.limit, || child.ended().is_some());
        match child.ended().map(|status| libc::WEXITSTATUS(status)) {
            Some(NOTHING) => return None,
            Some(0) => {}
            Some(_) => return Some(Err(std::fs::read_to_string(self.said()).unwrap_or_default())),
            None => return Some(Err("it hangs itself".to_owned())),
        }
        self.stage.word(OVER).store(0, SeqCst);
        let keeper = self.keeper();
        let content = self.witness();
        self.dismiss(keeper);
        Some(content)
    }
}

fn hangs() -> String {
    "no answer: it hangs".to_owned()
}

fn refusal(done: Result<(), String>, here: &Here) -> i32 {
    match done {
        Ok(()) => 0,
        Err(why) => {
            here.say(&why);
            REFUSAL
        }
    }
}

impl Here<'_> {
    fn prove(&mut self, subject: &dyn Subject) -> Result<(), String> {
        subject.prove(self)
    }
}
