//! Leading one process of a trial to its point: the victim, or the recoverer of its death.
//!
//! It goes instruction by instruction where its path is recorded, else straight to the point. If the process falls asleep on its way, the
//! survivors are told, and wake it.

use std::sync::atomic::Ordering::SeqCst;

use crate::board::{self, Cue, Fault, Role, Stage, Verdict};
use crate::child::Survivors;
use crate::patience::within;
use crate::sight::Sight;
use crate::step::{Kind, Move, Reader, Refusal, Victim};

/// One instruction of the recorded path.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Where it lies.
    pub address: u64,
    /// Its kind.
    pub kind: Kind,
    /// What survivors would see, if the process died before it: the so-manieth state of its operation.
    pub state: u32,
}

/// Where a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the instruction at an address, when it comes there for the so-manieth time (from 1).
    Before(u64, u32),
    /// In its so-manieth sleep (from 1).
    Asleep(u32),
    /// When the operation has returned.
    End,
    /// The same, and on the way each instruction is recorded.
    Recorded,
}

/// A process on its way.
pub struct Lead<'a> {
    stage: &'a Stage,
    role: Role,
    process: Victim,
    /// The survivors have been told of the present sleep.
    told: bool,
    /// The instructions run, in order, if they were recorded.
    pub path: Vec<Mark>,
    /// How often it slept.
    pub sleeps: u32,
    /// Whether it came to its point.
    pub reached: bool,
    /// What went wrong first.
    verdict: Verdict,
}

impl<'a> Lead<'a> {
    /// Takes a process that has begun its operation.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn take(stage: &'a Stage, role: Role, pid: libc::pid_t) -> Result<Lead<'a>, Refusal> {
        let phase = stage.phase_of(role);
        let thread = || stage.thread_of(role).load(SeqCst) as libc::pid_t;
        let process = Victim::take(pid, thread, stage.limit * 2, || phase.load(SeqCst) == board::REFUSED)?;
        Ok(Lead { stage, role, process, told: false, path: Vec::new(), sleeps: 0, reached: false, verdict: Ok(()) })
    }

    fn phase(&self) -> u32 {
        self.stage.phase_of(self.role).load(SeqCst)
    }

    /// Notes what went wrong.
    pub fn fail(&mut self, fault: Fault, what: &str) {
        let who = if self.role == Role::Victim { "" } else { "the recoverer: " };
        // The first is what the others follow from.
        if self.verdict.is_ok() {
            self.verdict = Err((fault, format!("{who}{what}")));
        }
    }

    /// Leads it to its point. It is stopped there, or asleep.
    pub fn go(&mut self, point: Point, reader: &mut Reader, cast: &mut Survivors) {
        match point {
            Point::Recorded => self.reached = self.record(reader, cast),
            Point::End => self.reached = self.run_out(cast),
            Point::Before(address, times) => {
                self.reached = (0..times).all(|_| self.approach(address, reader, cast));
            }
            Point::Asleep(times) => {
                let mut came = self.process.run();
                while came == Move::Asleep {
                    self.sleeps += 1;
                    if self.sleeps == times {
                        self.reached = true;
                        return;
                    }
                    came = self.sleep_on(cast);
                }
                self.note(came);
            }
        }
    }

    /// What went wrong on its way.
    pub fn judge(&mut self) -> Verdict {
        if self.phase() == board::FAILED {
            self.fail(Fault::Torn, "the operation did not return what it should");
        }
        std::mem::replace(&mut self.verdict, Ok(()))
    }

    /// Whether it is inside its operation.
    pub fn is_inside(&self) -> bool {
        self.phase() == board::INSIDE
    }

    /// Runs to the end of the operation, from where it is.
    pub fn run_out(&mut self, cast: &mut Survivors) -> bool {
        self.told = false;
        let mut came = Move::Stopped;
        while came == Move::Stopped && self.is_inside() {
            came = match self.process.run() {
                Move::Asleep => self.sleep_on(cast),
                came => came,
            };
        }
        self.note(came);
        came == Move::Stopped
    }

    /// Kills it, and returns once the kernel has taken it down.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Steps to the end of the operation and records the path. False if it does not get there.
    fn record(&mut self, reader: &mut Reader, cast: &mut Survivors) -> bool {
        let mut state = 0;
        let mut sight = Sight::new(self.process.pid());
        while self.is_inside() {
            let address = self.process.at();
            let kind = reader.kind(address);
            let mut came = self.process.step(kind);
            if came == Move::Asleep {
                self.sleeps += 1;
                came = self.sleep_on(cast);
            }
            self.note(came);
            if came != Move::Stopped {
                return false;
            }
            self.path.push(Mark { address, kind, state });
            match sight.as_mut().map_err(|why| why.clone()).and_then(|sight| sight.look(kind)) {
                Ok(changed) => state += u32::from(changed),
                Err(why) => {
                    self.fail(Fault::Torn, &format!("it cannot be looked at: {why}"));
                    return false;
                }
            }
        }
        true
    }

    /// Goes on to where it comes to the address next. False if the operation ends before.
    fn approach(&mut self, address: u64, reader: &mut Reader, cast: &mut Survivors) -> bool {
        loop {
            let mut came = match self.process.run_to(address) {
                Some(came) => came,
                None => {
                    let kind = reader.kind(self.process.at());
                    self.process.step(kind)
                }
            };
            if came == Move::Asleep {
                came = self.sleep_on(cast);
            }
            self.note(came);
            if came != Move::Stopped || !self.is_inside() {
                return false;
            }
            if self.process.at() == address {
                return true;
            }
        }
    }

    /// It sleeps: the survivor that is to wake it is told. Its next move, or asleep for longer than the watchdog allows.
    fn sleep_on(&mut self, cast: &mut Survivors) -> Move {
        if !self.told {
            self.told = true;
            match self.role {
                Role::Victim => self.stage.give(Cue::Asleep),
                // What it waits for is theirs.
                Role::Recoverer => cast.thaw(),
            }
        }
        let mut came = Move::Asleep;
        within(self.stage.limit, || {
            came = self.process.again();
            came != Move::Asleep || cast.keeper.ended().is_some()
        });
        came
    }

    fn note(&mut self, came: Move) {
        match came {
            Move::Stopped => {}
            Move::Asleep => self.fail(Fault::Wedged, "the living process was not woken"),
            Move::Ended(status) => self.fail(Fault::Torn, &format!("the process ended by itself, status {status:#x}")),
        }
    }
}
