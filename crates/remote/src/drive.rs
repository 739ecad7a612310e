//! Has an engine do what the machines say, and waits for it.

use crate::acquire::{Acquire, Outcome, Step};
use crate::add::{self, Add};
use crate::engine::{Engine, EngineError, Keys, News, Watch};
use crate::keys::Space;
use crate::release::{self, Release};
use crate::tube_end::{Next, TubeEnd};
use std::time::{Duration, Instant};

/// Why a machine was left before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The lease's deadline has passed: whatever it had is lost, and so is its place.
    #[error("the lease's deadline has passed")]
    Over,
    /// The time was up, and the engine did not say what has become of the attempt. It ends with the lease.
    #[error("the engine does not answer: {0}")]
    Silent(String),
}

/// What a driver asks between two steps.
pub trait Circumstances {
    /// Whether the lease's deadline has passed.
    fn is_over(&self) -> bool;
    /// Whether to give up: the time is up, or somebody wants it to end. It is asked while something is waited for, be it an answer that did not come:
    /// what can be had at once is had, however short the time is.
    fn gives_up(&self) -> bool;
    /// The longest that an answer may be waited for; at least [`GRACE`].
    fn answers_within(&self) -> Duration {
        Duration::MAX
    }
    /// The longest that may pass before these are asked again.
    fn look_again(&self) -> Duration;
    /// What is waited for, each time that it changes.
    fn waits(&self, _machine: &Acquire) {}
    /// The engine said that the lease has ended.
    fn lease_gone(&self) {}
    /// The engine did not answer.
    fn silent(&self, _why: &str) {}
}

/// How long one that has no more time waits for an answer.
pub const GRACE: Duration = Duration::from_millis(500);

/// How long one that has no more time waits for the engine to say whether it has got units.
pub const LAST_WORDS: Duration = Duration::from_secs(3);

/// How many transactions what can be had at once takes, if others come between once. One that loses more often waits, though it is in no line.
const AT_ONCE: u32 = 6;

/// The time until then in which an answer is waited for.
pub fn answers_until(until: Option<Instant>) -> Duration {
    until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()).max(GRACE))
}

/// Gets permits. `space` and `pools` are the machine's.
///
/// Blocks until they are granted, refused, or given up. What can be had at once is had, if the engine answers: the time counts from when they must be
/// waited for. After the time is up it waits for one answer of the engine, for [`GRACE`]: what was granted meanwhile
/// is not lost. When the lease's deadline has passed while units were waited for, it ends the lease, and waits to be told whether it has got
/// them: after the time is up for [`LAST_WORDS`] at most. Permits may be granted under a lease whose deadline has passed by then: look before they
/// are used.
///
/// # Errors
/// `Silent`, of permits.
pub fn acquire<E: Engine>(
    engine: &E,
    space: &Space,
    pools: &[String],
    machine: &mut Acquire,
    around: &impl Circumstances,
) -> Result<Outcome, DriveError> {
    let (mut watch, mut help_at, mut over) = (None, None, false);
    let mut leaving: Option<Instant> = None;
    let (mut unanswered, mut in_line, mut asked) = (false, false, 0);
    loop {
        if !over && around.is_over() {
            over = true;
            machine.lease_is_over();
            if machine.wants_units() {
                // Nothing more is given to it from then on. Without an answer that is so when the engine ends it.
                let _ = engine.revoke(machine.lease());
            }
        }
        in_line |= machine.place().is_some();
        if leaving.is_none() && (in_line || unanswered || asked >= AT_ONCE) && around.gives_up() {
            leaving = Some(Instant::now() + LAST_WORDS);
            machine.cancel();
        }
        let too_late = leaving.is_some_and(|at| Instant::now() >= at);
        let (from, help) = match machine.step() {
            Step::Done(outcome) => return Ok(outcome),
            Step::Call(txn) => {
                let most = around.answers_within();
                let answer = if machine.glances() { engine.glance(&txn, most) } else { engine.txn_within(&txn, most) };
                asked += 1;
                unanswered = matches!(answer, Err(EngineError::Unknown(_)));
                if let Err(EngineError::Unknown(why)) = &answer {
                    if leaving.is_some() && !machine.wants_units() {
                        return Err(DriveError::Silent(why.clone()));
                    } else if too_late {
                        return Ok(Outcome::Unsure);
                    }
                    around.silent(why);
                }
                machine.answered(&answer);
                continue;
            }
            Step::Wait { from, help } => (from, help),
        };
        if too_late {
            return Ok(Outcome::Unsure);
        }
        around.waits(machine);
        help_at = help.map(|after| help_at.unwrap_or(Instant::now() + after));
        let keys = || pools.iter().map(|pool| space.pool(pool)).collect::<Vec<Keys>>();
        let stream = match &mut watch {
            Some(stream) => stream,
            None => match engine.watch(&keys(), from) {
                Ok(stream) => watch.insert(stream),
                Err(e) => {
                    unanswered = true;
                    around.silent(&e.to_string());
                    machine.missed_some();
                    continue;
                }
            },
        };
        let look_again = leaving.map_or_else(|| around.look_again(), |at| at.saturating_duration_since(Instant::now()));
        let helps_in = help_at.map(|at| at.saturating_duration_since(Instant::now()));
        let patience = helps_in.map_or(look_again, |time| time.min(look_again));
        match stream.next(Some(patience)) {
            News::Changes(pool, changes) => machine.news(pool, &changes),
            News::Broken(why) => {
                around.silent(&why);
                watch = None;
                machine.missed_some();
            }
            News::Forgotten(why) => {
                around.silent(&why);
                watch = None;
                machine.cannot_be_told();
            }
            News::Nothing if help_at.is_some_and(|at| at <= Instant::now()) => {
                help_at = None;
                machine.patience_is_over();
            }
            News::Nothing => {}
        }
    }
}

/// Gives permits back. Answers those that were another's by then.
///
/// Blocks until the engine has answered, or `gives_up` says that it takes too long.
///
/// # Errors
/// What the engine said, or that it did not answer: then they come back when the lease ends.
pub fn release<E: Engine>(engine: &E, machine: &mut Release, gives_up: impl Fn() -> bool) -> Result<Vec<u32>, String> {
    release_until(engine, machine, None, gives_up)
}

/// The same; no answer is waited for beyond that time and [`GRACE`].
///
/// # Errors
/// As [`release`].
pub fn release_until<E: Engine>(
    engine: &E,
    machine: &mut Release,
    until: Option<Instant>,
    gives_up: impl Fn() -> bool,
) -> Result<Vec<u32>, String> {
    loop {
        let most = answers_until(until);
        let answer = match machine.step() {
            release::Step::Done(end) => return end,
            release::Step::Call(txn) => engine.txn_within(&txn, most),
            release::Step::Glance(txn) => engine.glance(&txn, most),
        };
        if let Err(EngineError::Unknown(why)) = &answer
            && gives_up()
        {
            return Err(why.clone());
        }
        machine.answered(&answer);
    }
}

/// Adds units to a semaphore.
///
/// Blocks until the engine has answered, or `gives_up` says that it takes too long.
///
/// # Errors
/// That the engine did not answer: they may have been added.
pub fn add<E: Engine>(engine: &E, machine: &mut Add, gives_up: impl Fn() -> bool) -> Result<add::Outcome, String> {
    loop {
        match machine.step() {
            add::Step::Done(outcome) => return Ok(outcome),
            add::Step::Call(txn) => {
                let answer = engine.txn(&txn);
                if let Err(EngineError::Unknown(why)) = &answer
                    && gives_up()
                {
                    return Err(why.clone());
                }
                machine.answered(&answer);
            }
        }
    }
}

/// Has an end of a tube go on until its user is wanted. `watch` is kept from one call to the next. Answers whether it got there: otherwise the
/// time was up while it waited for news.
///
/// # Errors
/// `Over`, `Silent`.
pub fn tube<E: Engine, M: TubeEnd>(
    engine: &E,
    machine: &mut M,
    watch: &mut Option<E::Watch>,
    around: &impl Circumstances,
) -> Result<bool, DriveError> {
    loop {
        if around.is_over() {
            return Err(DriveError::Over);
        }
        let from = match machine.next() {
            Next::User => return Ok(true),
            Next::Call(txn) => {
                let answer = engine.txn_within(&txn, around.answers_within());
                // Also before it is left: its user asks it what may have been done.
                machine.answered(&answer);
                if answer == Err(EngineError::LeaseGone) {
                    around.lease_gone();
                }
                if let Err(EngineError::Unknown(why)) = &answer {
                    if around.gives_up() {
                        return Err(DriveError::Silent(why.clone()));
                    }
                    around.silent(why);
                }
                continue;
            }
            Next::News(from) => from,
        };
        if around.gives_up() {
            return Ok(false);
        }
        let stream = match watch {
            Some(stream) => stream,
            None => match engine.watch(&machine.watched(), from) {
                Ok(stream) => watch.insert(stream),
                Err(e) => {
                    around.silent(&e.to_string());
                    machine.missed_some();
                    continue;
                }
            },
        };
        match stream.next(Some(around.look_again())) {
            News::Changes(_, changes) => machine.news(&changes),
            News::Broken(why) | News::Forgotten(why) => {
                around.silent(&why);
                *watch = None;
                machine.missed_some();
            }
            News::Nothing => {}
        }
    }
}
