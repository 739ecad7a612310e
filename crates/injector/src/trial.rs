//! One trial: the cast is forked, the victim is led to its point and killed, the survivors are heard.
//!
//! Everything is bounded. Whoever is waited for has the watchdog's time, every child is killed and reaped before the
//! trial returns, and dies with the director (PDEATHSIG). Children that a victim leaves behind come to the director
//! (subreaper) and end when the play is over. A cast member that panics says so in the verdict.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::board::{self, Cue, Fault, KEEPER, NOTES, Stage, Verdict, WORDS, within};
use crate::step::{self, Kind, Move, Reader, Refusal, Victim};

/// The word of the board that says, not 0, that the trial is over: for children that a victim left behind.
pub const OVER: usize = WORDS - 1;
/// The word that says, not 0, that a victim that is not led was killed by the keeper.
pub const KILLED: usize = WORDS - 2;

/// What happens at the point before the victim dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing.
    None,
    /// It is stopped, and the keeper checks that others go on. It then dies, or every other time runs to its end.
    Check,
    /// It is stopped until somebody else has come as far as it lets them, then dies.
    Meet,
}

/// One operation with its surroundings. `keeper`, `helper` and `victim` run in processes of their own.
pub trait Play {
    /// What the tables call the operation.
    fn name(&self) -> String;

    /// What the tables call the surroundings.
    fn scene(&self) -> String {
        "alone".to_owned()
    }

    /// How many helpers there are: four at most.
    fn helpers(&self) -> usize {
        0
    }

    /// What happens at the point.
    fn pause(&self) -> Pause {
        Pause::None
    }

    /// Sets the stage, takes cues ([`Stage::ready`], [`Stage::acted`]) until the victim is dead, and checks.
    fn keeper(&self, stage: &Stage) -> Verdict;

    /// A survivor that waits for something meanwhile.
    fn helper(&self, _stage: &Stage, _which: usize) -> Verdict {
        Ok(())
    }

    /// Prepares, calls [`Stage::begin`], runs the operation, calls [`Stage::end`].
    fn victim(&self, stage: &Stage);

    /// Whether the victim is led through its operation. If not, it calls neither, gets no death but at the end of the
    /// trial, and the keeper no cue.
    fn led(&self) -> bool {
        true
    }

    /// Before each trial, in the director, while nobody else lives.
    fn reset(&self) {}
}

/// One instruction of the path: where it lies and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its address.
    pub address: u64,
    /// Its kind.
    pub kind: Kind,
}

/// Where the victim dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the instruction at an address, when it comes there for the so-manieth time (from 1).
    Before(u64, u32),
    /// In its so-manieth sleep (from 1).
    Asleep(u32),
    /// When the operation has returned.
    End,
}

/// What became of a trial.
#[derive(Debug)]
pub struct Trial {
    /// The survivors' verdict.
    pub verdict: Verdict,
    /// What went wrong before the victim's death.
    pub before: Verdict,
    /// How often the backstop fired in the survivors.
    pub backstops: u64,
    /// How often survivors were told that a holder had died with a mutex locked.
    pub told: u64,
    /// The instructions run, in order. Recorded for [`Point::End`] only.
    pub path: Vec<Mark>,
    /// How often the victim slept.
    pub sleeps: u32,
    /// Whether it died at its point, not at the end because it never came there.
    pub reached: bool,
    /// The system refuses ptrace: nothing was tried.
    pub refused: bool,
}

/// A child of the director, killed and reaped when dropped.
pub struct Child {
    pid: libc::pid_t,
    status: Option<i32>,
}

impl Child {
    /// Forks; `life` is all that the child does.
    pub fn fork(life: impl FnOnce()) -> Child {
        // SAFETY: the director is single-threaded, so that the child may go on as any process would.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                // SAFETY: no pointers; asks the kernel to end this process with the director.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let code = i32::from(catch_unwind(AssertUnwindSafe(life)).is_err());
                // SAFETY: ends the process at once; the director's exit handlers are not this child's to run.
                unsafe { libc::_exit(code) }
            }
            pid => Child { pid, status: None },
        }
    }

    /// Its process id.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Its wait status, once it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        if self.status.is_none() {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the duration of the call.
            if unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == self.pid {
                self.status = Some(status);
            }
        }
        self.status
    }

    /// Kills it if it lives, and reaps it.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            step::end(self.pid);
            self.status = Some(libc::SIGKILL);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes this process one that can direct: orphans come to it, and short sleeps are short.
pub fn prepare() {
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_000);
    }
}

/// Runs one trial. `spare` lets a victim that was stopped and checked run on to its end, instead of dying there.
pub fn run(play: &dyn Play, stage: &Stage, point: Point, spare: bool, reader: &mut Reader) -> Trial {
    let mut trial = Trial {
        verdict: Ok(()),
        before: Ok(()),
        backstops: 0,
        told: 0,
        path: Vec::new(),
        sleeps: 0,
        reached: false,
        refused: false,
    };
    assert!(play.helpers() < NOTES);
    play.reset();
    stage.clear();
    let mut keeper = Child::fork(|| speak(stage, KEEPER, || play.keeper(stage)));
    let mut helpers: Vec<Child> = (0..play.helpers())
        .map(|which| Child::fork(|| speak(stage, KEEPER + 1 + which, || play.helper(stage, which))))
        .collect();

    let set = within(stage.limit * 2, || stage.board().ready.load(SeqCst) == 1 || keeper.ended().is_some());
    if set && keeper.ended().is_none() {
        let mut actor = Child::fork(|| {
            play.victim(stage);
            // Holds what it has until it is killed.
            loop {
                std::thread::park();
            }
        });
        if play.led() {
            let manner = play.pause();
            Lead { stage, point, manner, spare, reader, keeper: &mut keeper, trial: &mut trial, told: false }
                .go(&mut actor);
            drop(actor);
            stage.give(Cue::Dead);
        } else {
            within(stage.limit * 3, || keeper.ended().is_some());
        }
    }

    // The survivors' own waits are bounded by the limit each; this is for a wait that is not.
    if within(stage.limit * 3, || keeper.ended().is_some()) {
        // With a finding the rest does not matter.
        let hung = stage.verdict().is_ok() && !within(stage.limit, || helpers.iter_mut().all(|h| h.ended().is_some()));
        let ends = std::iter::once(&mut keeper).chain(&mut helpers).filter_map(Child::ended);
        trial.verdict = match ends.max() {
            Some(0) if hung => {
                stage.verdict().and(Err((Fault::Wedged, "a survivor hangs after the keeper's verdict".to_owned())))
            }
            Some(0) => stage.verdict(),
            status => Err((Fault::Torn, format!("a survivor died of status {status:x?}"))),
        };
    } else {
        let hangs = Err((Fault::Wedged, "the keeper hangs in a call that should be bounded".to_owned()));
        trial.verdict = stage.verdict().and(hangs);
    }
    drop(helpers);
    drop(keeper);
    stage.word(OVER).store(1, SeqCst);
    reap_orphans(stage.limit);
    trial.told = stage.board().told.load(SeqCst);
    trial.backstops = stage.board().backstops.load(SeqCst);
    trial.reached |= stage.word(KILLED).load(SeqCst) != 0;
    trial
}

/// Runs a survivor and leaves its verdict on the board.
fn speak(stage: &Stage, whose: usize, life: impl FnOnce() -> Verdict) {
    let verdict = catch_unwind(AssertUnwindSafe(life))
        .unwrap_or_else(|panic| Err((Fault::Torn, format!("a survivor panicked: {}", words_of(&*panic)))));
    stage.judge(whose, &verdict);
}

/// Leading the victim to its point.
struct Lead<'a> {
    stage: &'a Stage,
    point: Point,
    manner: Pause,
    spare: bool,
    reader: &'a mut Reader,
    keeper: &'a mut Child,
    trial: &'a mut Trial,
    /// The keeper has been told of the present sleep.
    told: bool,
}

impl Lead<'_> {
    fn phase(&self) -> u32 {
        self.stage.board().phase.load(SeqCst)
    }

    fn fail(&mut self, fault: Fault, what: &str) {
        self.trial.before = Err((fault, what.to_owned()));
    }

    fn go(mut self, actor: &mut Child) {
        let refused = || self.phase() == board::REFUSED;
        let mut victim = match Victim::take(actor.pid(), self.stage.limit * 2, refused) {
            Ok(victim) => victim,
            Err(Refusal::Ended(status)) => {
                actor.status = Some(status);
                return self.fail(Fault::Torn, &format!("the victim ended before its operation, status {status:#x}"));
            }
            Err(Refusal::Never) => {
                self.trial.refused = self.phase() == board::REFUSED;
                return self.fail(Fault::Wedged, "the victim did not reach its operation");
            }
        };
        self.lead(&mut victim);
        if self.trial.before.is_ok() && self.phase() == board::FAILED {
            self.fail(Fault::Torn, "the operation did not return what it should");
        }
        victim.kill();
        actor.status = Some(libc::SIGKILL);
    }

    fn lead(&mut self, victim: &mut Victim) {
        match self.point {
            Point::End => {
                if self.record(victim) {
                    self.at_point(victim, false);
                }
            }
            Point::Before(address, times) => {
                if (0..times).all(|_| self.approach(victim, address)) {
                    self.at_point(victim, false);
                }
            }
            Point::Asleep(times) => {
                let mut came = victim.run();
                while came == Move::Asleep {
                    self.trial.sleeps += 1;
                    if self.trial.sleeps == times {
                        return self.at_point(victim, true);
                    }
                    came = self.sleep_on(victim);
                }
                self.note(came);
            }
        }
    }

    /// Steps to the end of the operation and records the path. False if it does not get there.
    fn record(&mut self, victim: &mut Victim) -> bool {
        while self.phase() == board::INSIDE {
            let address = victim.at();
            let kind = self.reader.kind(address);
            let mut came = victim.step(kind);
            if came == Move::Asleep {
                self.trial.sleeps += 1;
                came = self.sleep_on(victim);
            }
            self.note(came);
            if came != Move::Stopped {
                return false;
            }
            self.trial.path.push(Mark { address, kind });
        }
        true
    }

    /// Goes on to where the victim comes to the address next. False if the operation ends before.
    fn approach(&mut self, victim: &mut Victim, address: u64) -> bool {
        loop {
            let mut came = match victim.run_to(address) {
                Some(came) => came,
                None => {
                    let kind = self.reader.kind(victim.at());
                    victim.step(kind)
                }
            };
            if came == Move::Asleep {
                came = self.sleep_on(victim);
            }
            self.note(came);
            if came != Move::Stopped || self.phase() != board::INSIDE {
                return false;
            }
            if victim.at() == address {
                return true;
            }
        }
    }

    /// The victim sleeps: whoever is to wake it is told. Its next move, or asleep for longer than the watchdog allows.
    fn sleep_on(&mut self, victim: &mut Victim) -> Move {
        if !self.told {
            self.told = true;
            self.stage.give(Cue::Asleep);
        }
        let mut came = Move::Asleep;
        let keeper = &mut *self.keeper;
        within(self.stage.limit, || {
            came = victim.again();
            came != Move::Asleep || keeper.ended().is_some()
        });
        came
    }

    /// The victim has come to its point. Between two moves it is as stopped as SIGSTOP can make it; asleep it is not.
    fn at_point(&mut self, victim: &mut Victim, asleep: bool) {
        self.trial.reached = true;
        if self.manner == Pause::None || self.manner == Pause::Check && asleep {
            return;
        }
        self.stage.give(Cue::Stopped);
        let (stage, keeper) = (self.stage, &mut *self.keeper);
        if !within(stage.limit * 3, || stage.answered() || keeper.ended().is_some()) {
            return self.fail(Fault::Wedged, "survivors wait for the stopped victim");
        }
        if self.manner == Pause::Check && self.spare && self.phase() == board::INSIDE {
            self.told = false;
            let came = match victim.run() {
                Move::Asleep => self.sleep_on(victim),
                came => came,
            };
            self.note(came);
        }
    }

    fn note(&mut self, came: Move) {
        match came {
            Move::Stopped => {}
            Move::Asleep => self.fail(Fault::Wedged, "the living victim was not woken"),
            Move::Ended(status) => self.fail(Fault::Torn, &format!("the victim ended by itself, status {status:#x}")),
        }
    }
}

/// Ends the children that victims left behind and the kernel gave to us.
fn reap_orphans(limit: Duration) {
    let one = || {
        // SAFETY: no status is asked for.
        unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) }
    };
    // -1: no children at all. They end by themselves once the trial is over.
    assert!(within(limit, || one() == -1), "a victim's child outlives the trial");
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}
