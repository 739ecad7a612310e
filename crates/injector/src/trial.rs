//! One trial: the cast is forked, the victim is led to its point and killed, the survivors are heard.
//!
//! In a trial of a **double fault** a recoverer is led too. It has begun to lead a life of its own before the victim does; when the victim
//! has died, the survivors stay stopped (SIGSTOP) and it alone recovers from the death, until it has come to its own point. There it dies
//! as well, at once or after the survivors have gone on beside it. So its death does not depend on luck: all others could have been
//! descheduled for that long.
//!
//! Everything is bounded. Every wait has the watchdog's time, every child is killed and reaped before the trial returns, and dies with the
//! director (PDEATHSIG). Children that a victim leaves behind come to the director (subreaper) and end when the scenario is over. A cast member
//! that panics says so in the verdict.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::board::Role;
use crate::board::{self, Cue, Fault, KEEPER, NOTES, Stage, Verdict, WORDS};
use crate::child::{Child, Survivors};
use crate::lead::{Lead, Mark, Point};
use crate::patience::within;
use crate::step::{Reader, Refusal};

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
    /// It is stopped until another process has come as far as it lets them, then dies.
    Meet,
}

/// One operation with its surroundings. `keeper`, `helper` and `victim` run in processes of their own.
pub trait Scenario {
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

    /// Why a process that comes while the victim is stopped may have to wait until that goes on or dies; nothing: it may not.
    fn held_up_by(&self) -> Option<&'static str> {
        None
    }

    /// Sets the stage, takes cues ([`Stage::ready`], [`Stage::acted`]) until the victim is dead, and checks.
    fn keeper(&self, stage: &Stage) -> Verdict;

    /// A survivor that waits for something meanwhile.
    fn helper(&self, _stage: &Stage, _which: usize) -> Verdict {
        Ok(())
    }

    /// Prepares, calls [`Stage::begin`], runs the operation, calls [`Stage::end`].
    fn victim(&self, stage: &Stage);

    /// Whether a process can be led through recovering the victim's death: see [`Scenario::recoverer`].
    fn recovers(&self) -> bool {
        false
    }

    /// Prepares, calls [`Stage::begin`], makes up for the death of the victim, calls [`Stage::end`].
    fn recoverer(&self, _stage: &Stage) {}

    /// Whether the victim is led through its operation. If not, it calls neither, gets no death but at the end of the
    /// trial, and the keeper no cue.
    fn led(&self) -> bool {
        true
    }

    /// Before each trial, in the director, while no other process lives.
    fn reset(&self) {}
}

/// How a trial goes.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Where the victim dies.
    pub point: Point,
    /// Whether a victim that was stopped and checked runs on to its end, instead of dying there.
    pub spare: bool,
    /// The recoverer of its death, which dies too.
    pub second: Option<Second>,
}

/// A second fault.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// Where the recoverer dies.
    pub point: Point,
    /// The survivors go on while it is stopped there; if not, when it is dead.
    pub met: bool,
}

impl Route {
    /// The victim dies at this point, and no other process.
    pub fn to(point: Point) -> Route {
        Route { point, spare: false, second: None }
    }
}

/// What became of a trial.
#[derive(Debug)]
pub struct Trial {
    /// The survivors' verdict.
    pub verdict: Verdict,
    /// What went wrong before the victim's death, or the recoverer's.
    pub before: Verdict,
    /// How often the backstop fired in the survivors.
    pub backstops: u64,
    /// How often survivors were told that a holder had died with a mutex locked.
    pub told: u64,
    /// Whether a process that came while the victim was stopped had to wait for it.
    pub held: bool,
    /// The recorded path: the recoverer's if there is one, else the victim's.
    pub path: Vec<Mark>,
    /// How often the recorded process slept.
    pub sleeps: u32,
    /// Whether the victim died at its point, not at the end because it never came there.
    pub reached: bool,
    /// Whether the recoverer did.
    pub doubled: bool,
    /// From the (last) kill until those that waited had got on, or all was found to be there.
    pub recovery: Duration,
    /// The system refuses ptrace: nothing was tried.
    pub refused: bool,
}

/// Makes this process one that can direct: orphans come to it, and short sleeps are short.
pub fn prepare() {
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_000);
    }
}

/// Runs one trial.
pub fn run(scenario: &dyn Scenario, stage: &Stage, route: Route, reader: &mut Reader) -> Trial {
    let mut trial = Trial {
        verdict: Ok(()),
        before: Ok(()),
        backstops: 0,
        told: 0,
        held: false,
        path: Vec::new(),
        sleeps: 0,
        reached: false,
        doubled: false,
        recovery: Duration::ZERO,
        refused: false,
    };
    assert!(scenario.helpers() < NOTES);
    scenario.reset();
    stage.clear();
    let mut cast = Survivors {
        keeper: Child::fork(|| speak(stage, KEEPER, || scenario.keeper(stage))),
        helpers: (0..scenario.helpers())
            .map(|which| Child::fork(|| speak(stage, KEEPER + 1 + which, || scenario.helper(stage, which))))
            .collect(),
    };

    let set = within(stage.limit * 2, || stage.board().ready.load(SeqCst) == 1 || cast.keeper.ended().is_some());
    let mut killed = 0;
    if set && cast.keeper.ended().is_none() {
        if scenario.led() {
            killed = direct(scenario, stage, route, reader, &mut cast, &mut trial);
            stage.give(Cue::Dead);
        } else {
            let _actor = act(|| scenario.victim(stage));
            within(stage.limit * 3, || cast.keeper.ended().is_some());
        }
    }

    let Survivors { mut keeper, mut helpers } = cast;
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
    trial.held = stage.board().held.load(SeqCst) != 0;
    trial.told = stage.board().told.load(SeqCst);
    trial.backstops = stage.board().backstops.load(SeqCst);
    trial.reached |= stage.word(KILLED).load(SeqCst) != 0;
    if killed > 0 {
        trial.recovery = Duration::from_nanos(stage.board().settled.load(SeqCst).saturating_sub(killed));
    }
    trial
}

/// Somebody whose part ends with its death: it holds what it has until it is killed.
fn act(part: impl FnOnce()) -> Child {
    Child::fork(|| {
        part();
        loop {
            std::thread::park();
        }
    })
}

/// Leads the victim to its point, and the recoverer to its own. Answers when the last one was killed; 0 if none was led.
fn direct(
    scenario: &dyn Scenario,
    stage: &Stage,
    route: Route,
    reader: &mut Reader,
    cast: &mut Survivors,
    trial: &mut Trial,
) -> u64 {
    let aside = stage.of(Role::Recoverer);
    let mut second = None;
    if let Some(fault) = route.second {
        let Some(lead) = take(&aside, Role::Recoverer, act(|| scenario.recoverer(&aside)), trial) else { return 0 };
        second = Some((lead, fault));
    }
    let Some(mut lead) = take(stage, Role::Victim, act(|| scenario.victim(stage)), trial) else { return 0 };
    lead.go(route.point, reader, cast);
    trial.reached = lead.reached;
    if lead.reached {
        at_point(scenario.pause(), stage, route, &mut lead, cast);
    }
    if second.is_some() {
        cast.freeze();
    }
    let mut killed = Stage::clock();
    lead.kill();
    trial.before = lead.judge();
    (trial.path, trial.sleeps) = (std::mem::take(&mut lead.path), lead.sleeps);
    if let Some((mut lead, fault)) = second
        && trial.reached
    {
        lead.go(fault.point, reader, cast);
        trial.doubled = lead.reached;
        if fault.met {
            cast.thaw();
            std::thread::sleep(ASIDE);
        }
        killed = Stage::clock();
        lead.kill();
        trial.before = std::mem::replace(&mut trial.before, Ok(())).and(lead.judge());
        (trial.path, trial.sleeps) = (std::mem::take(&mut lead.path), lead.sleeps);
    }
    cast.thaw();
    killed
}

/// How long survivors go on beside a stopped recoverer: enough for one that is awake to meet it.
const ASIDE: Duration = Duration::from_millis(1);

fn take<'a>(stage: &'a Stage, role: Role, child: Child, trial: &mut Trial) -> Option<Lead<'a>> {
    match Lead::take(stage, role, child.pid()) {
        Ok(lead) => {
            child.hand_over();
            return Some(lead);
        }
        Err(Refusal::Ended(status)) => {
            child.hand_over();
            trial.before = Err((Fault::Torn, format!("the {role:?} ended before its operation, status {status:#x}")));
        }
        Err(Refusal::Never) => {
            trial.refused = stage.phase_of(role).load(SeqCst) == board::REFUSED;
            trial.before = Err((Fault::Wedged, format!("the {role:?} did not reach its operation")));
        }
    }
    None
}

/// The victim has come to its point. Between two moves it is as stopped as SIGSTOP can make it; asleep it is not.
fn at_point(manner: Pause, stage: &Stage, route: Route, lead: &mut Lead<'_>, cast: &mut Survivors) {
    let asleep = matches!(route.point, Point::Asleep(_));
    if manner == Pause::None || manner == Pause::Check && asleep {
        return;
    }
    stage.give(Cue::Stopped);
    if !within(stage.limit * 3, || stage.answered() || cast.keeper.ended().is_some()) {
        return lead.fail(Fault::Wedged, "survivors wait for the stopped victim");
    }
    if manner == Pause::Check && route.spare && lead.is_inside() {
        lead.run_out(cast);
    }
}

/// Runs a survivor and leaves its verdict on the board.
fn speak(stage: &Stage, whose: usize, life: impl FnOnce() -> Verdict) {
    let verdict = catch_unwind(AssertUnwindSafe(life))
        .unwrap_or_else(|panic| Err((Fault::Torn, format!("a survivor panicked: {}", words_of(&*panic)))));
    stage.judge(whose, &verdict);
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
