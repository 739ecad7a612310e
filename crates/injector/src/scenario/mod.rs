//! Scenarios over chappe's own operations.
//!
//! An [`Operation`] says what the victim does and what the survivors demand; a [`Scene`] says which other processes there are. A [`Case`]
//! is one in the other. Each trial has an arena directory of its own, empty at the start.
//!
//! | scene | other processes | when the victim is at its point |
//! |---|---|---|
//! | alone | none | it dies |
//! | waiters | two processes that sleep in the pool's queue; where the victim sleeps too, one before, one behind it | it dies |
//! | met | one process begins an operation of the same kind while the victim is stopped | once it is through or waits as it may (see `reasons`), it dies |
//! | stopped | none; or with *waiter*, one that waits ahead | a process that needs nothing of the victim's must make progress; then it dies, or goes on |
//!
//! The keeper's demand after the death is the same everywhere: every helper gets what it came for, every permit can be had
//! exactly once, the names are those that should be there, nothing is out of use.
//!
//! Orderings: the words of a scenario are sequentially consistent, as all on the [board](crate::board). They are the scene's own
//! books: nothing is concluded from them about the order of what the object does.

mod conditions;
mod handlers;
mod house;
mod interrupts;
mod ledger;
mod light;
mod lives;
mod messages;
mod mistakes;
mod mutexes;
mod nix;
mod objects;
mod owned;
mod permits;
mod reasons;
mod remedies;
mod semaphores;
mod several;
mod structures;
mod tubes;
mod words;
mod world;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

use crate::board::{Cue, Fault, INSIDE, Stage, Verdict};
use crate::step;
use crate::trial::{Pause, Scenario};
pub use lives::REST;
pub use mistakes::Must;
use reasons::Reason;
pub use world::{DATA, World};
use world::{DONE_HELPERS, HERE, MEET, SECOND, VICTIM};

/// The surroundings of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Nobody else.
    Alone,
    /// Two processes wait in the queue.
    Waiters,
    /// Another process comes while the victim is stopped at its point.
    Met,
    /// The victim is stopped at its point, and others must get on.
    Stopped,
    /// The same, and a process waits ahead of the victim, or for what it has.
    StoppedWaiter,
}

impl Scene {
    fn helpers(self) -> usize {
        match self {
            Scene::Alone | Scene::Stopped => 0,
            Scene::Met | Scene::StoppedWaiter => 1,
            Scene::Waiters => 2,
        }
    }

    /// Whether helpers wait from the start.
    pub fn waits(self) -> bool {
        matches!(self, Scene::Waiters | Scene::StoppedWaiter)
    }
}

/// What a process does about the victim's operation, and what it finds.
type Act = Box<dyn Fn(&World) -> Verdict>;
/// The same, told which helper it is.
type Each = Box<dyn Fn(&World, usize) -> Verdict>;
/// What a process does that judges nothing.
type Deed = Box<dyn Fn(&World)>;

/// One of chappe's operations: a row of a table, by default as most operations are.
pub struct Operation {
    /// What the tables call it.
    name: &'static str,
    /// The scenes in which it is tried.
    scenes: &'static [Scene],
    victim_holds: bool,
    victim_sleeps: bool,
    victim_interrupted: bool,
    held_up_by: Option<Reason>,
    recovers: bool,
    led: bool,
    long: bool,
    retold: Box<dyn Fn(Scene) -> bool>,
    build: Act,
    perform: Deed,
    wait: Each,
    meet: Option<Act>,
    others: Act,
    asleep: Act,
    provide: Deed,
    bereaved: Act,
    check: Act,
}

/// Writes the part of a row that each of these names.
macro_rules! parts {
    ($($(#[$about:meta])* $part:ident: $what:ty = $value:ident => $kept:expr;)*) => {
        impl Operation {
            $($(#[$about])* fn $part(mut self, $value: $what) -> Operation {
                self.$part = $kept;
                self
            })*
        }
    };
}

parts! {
    /// Whether the victim comes first: helpers come after it has the permit, or, where it sleeps, behind it.
    victim_holds: bool = yes => yes;
    /// Whether the victim sleeps in its operation where helpers wait: then the second comes after it.
    victim_sleeps: bool = yes => yes;
    /// Whether the victim's sleep is interrupted: [`Operation::asleep`] sends the signal, whether or not others wait.
    victim_interrupted: bool = yes => yes;
    /// Why a helper that comes while the victim is stopped may have to wait until that goes on or dies. Nothing: it may not.
    held_up_by: impl Into<Option<Reason>> = why => why.into();
    /// Whether there is something to make up for: not where nothing returns with a death.
    recovers: bool = yes => yes;
    /// Whether the victim is led (see [`Scenario::led`]).
    led: bool = yes => yes;
    /// Whether it is too long for a share: tens of thousands of instructions, or more.
    long: bool = yes => yes;
    /// Whether what happens in a scene happens in another operation too, but for a swap or two: a share leaves it out.
    retold: impl Fn(Scene) -> bool + 'static = is => Box::new(is);
    /// The keeper makes what is there, and takes what it holds until the victim sleeps or is dead.
    build: impl Fn(&World) -> Verdict + 'static = act => Box::new(act);
    /// The victim prepares, and runs the operation between [`Stage::begin`] and [`Stage::end`].
    perform: impl Fn(&World) + 'static = act => Box::new(act);
    /// A helper that comes while the victim is stopped: it does as one that waits, unless said otherwise.
    meet: impl Fn(&World) -> Verdict + 'static = act => Some(Box::new(act));
    /// The keeper, while the victim is stopped: do the others make progress all the same?
    others: impl Fn(&World) -> Verdict + 'static = act => Box::new(act);
    /// The keeper, when the victim sleeps, and all helpers of the scene have come to wait.
    asleep: impl Fn(&World) -> Verdict + 'static = act => Box::new(act);
    /// The keeper, again and again until all helpers are through: gives what the dead victim has used up, which nobody but
    /// the survivors can replace.
    provide: impl Fn(&World) + 'static = act => Box::new(act);
    /// The keeper, right after the victim's death.
    bereaved: impl Fn(&World) -> Verdict + 'static = act => Box::new(act);
    /// The keeper, after the victim's death and all helpers' ends.
    check: impl Fn(&World) -> Verdict + 'static = act => Box::new(act);
}

impl Operation {
    /// One that does nothing yet, and for which helpers wait at pool `p`.
    fn of(name: &'static str, scenes: &'static [Scene]) -> Operation {
        Operation {
            name,
            scenes,
            victim_holds: false,
            victim_sleeps: false,
            victim_interrupted: false,
            held_up_by: None,
            recovers: true,
            led: true,
            long: false,
            retold: Box::new(|_| false),
            build: Box::new(|_| Ok(())),
            perform: Box::new(move |_| panic!("{name}: nothing to perform")),
            wait: Box::new(|w, _| w.pass("p")),
            meet: None,
            others: Box::new(|w| {
                if w.scene() == Scene::StoppedWaiter { w.waiter_gets_it("p") } else { w.take_or_victim_has("p") }
            }),
            asleep: Box::new(|w| {
                w.let_go();
                Ok(())
            }),
            provide: Box::new(|_| ()),
            bereaved: Box::new(|_| Ok(())),
            check: Box::new(|w| w.in_order(&["p"])),
        }
    }

    /// A helper that waits.
    fn wait(self, act: impl Fn(&World) -> Verdict + 'static) -> Operation {
        self.wait_each(move |w, _| act(w))
    }

    /// The same, told which helper it is.
    fn wait_each(mut self, act: impl Fn(&World, usize) -> Verdict + 'static) -> Operation {
        self.wait = Box::new(act);
        self
    }
}

/// Makes up for the dead victim, between [`Stage::begin`] and [`Stage::end`], as a reaper does, and takes nothing for itself. Where no
/// other process is it does so as a stranger to the arena (so does `doctor`), else as a member of it.
fn make_up(w: &World) {
    if w.scene() != Scene::Alone {
        w.join();
    }
    let arenas = w.attach_all();
    w.stage().begin();
    for arena in &arenas {
        arena.map().recover_dead();
    }
    w.stage().end(true);
}

/// An operation in a scene.
pub struct Case {
    operation: Rc<Operation>,
    scene: Scene,
    home: PathBuf,
}

impl Case {
    /// Whether a share leaves it out.
    pub fn is_left_out(&self) -> bool {
        self.operation.long || (self.operation.retold)(self.scene)
    }

    fn world<'a>(&self, stage: &'a Stage) -> World<'a> {
        World::new(stage, self.scene)
    }
}

/// A process that has been asleep at so many looks will sleep on: everything else that it could sleep for is shorter.
const ASLEEP: u32 = 30;

/// Every operation in each of its scenes; their arenas lie in `home`.
pub fn all(home: &Path) -> Vec<Case> {
    let pools = [permits::all(), several::all(), objects::all(), remedies::all(), lives::all()];
    let units = [semaphores::all(), handlers::all(), words::all(), owned::all(), interrupts::all(), nix::all()];
    let others = [mutexes::all(), conditions::all(), tubes::all(), structures::all(), light::all()];
    let operations = pools.into_iter().chain(units).chain(others).flatten().map(Rc::new);
    let case =
        |operation: &Rc<Operation>, scene| Case { operation: Rc::clone(operation), scene, home: home.to_owned() };
    operations.flat_map(|it| it.scenes.iter().map(|scene| case(&it, *scene)).collect::<Vec<_>>()).collect()
}

/// Operations that are wrong on purpose, and what must be found in each; their arenas lie in `home`.
pub fn mistakes(home: &Path) -> Vec<(Case, Must)> {
    let case = |operation, scene| Case { operation: Rc::new(operation), scene, home: home.to_owned() };
    mistakes::all().into_iter().map(|(operation, scene, must)| (case(operation, scene), must)).collect()
}

impl Scenario for Case {
    fn name(&self) -> String {
        self.operation.name.to_owned()
    }

    fn scene(&self) -> String {
        match self.scene {
            Scene::Alone => "alone",
            Scene::Waiters => "waiters",
            Scene::Met => "met",
            Scene::Stopped => "stopped",
            Scene::StoppedWaiter => "stopped, waiter",
        }
        .to_owned()
    }

    fn helpers(&self) -> usize {
        self.scene.helpers()
    }

    fn pause(&self) -> Pause {
        match self.scene {
            Scene::Alone | Scene::Waiters => Pause::None,
            Scene::Met => Pause::Meet,
            Scene::Stopped | Scene::StoppedWaiter => Pause::Check,
        }
    }

    fn held_up_by(&self) -> Option<&'static str> {
        self.operation.held_up_by.filter(|_| self.scene == Scene::Met).map(Reason::why)
    }

    fn led(&self) -> bool {
        self.operation.led
    }

    fn recovers(&self) -> bool {
        self.operation.led && self.operation.recovers && self.pause() != Pause::Check
    }

    fn recoverer(&self, stage: &Stage) {
        make_up(&self.world(stage));
    }

    fn reset(&self) {
        for entry in std::fs::read_dir(&self.home).expect("the trials' directory").flatten() {
            // What is gone already is gone.
            let _ = std::fs::remove_file(entry.path());
        }
    }

    fn keeper(&self, stage: &Stage) -> Verdict {
        let verdict = self.keep(&self.world(stage));
        stage.board().backstops.fetch_add(chappe::recoveries().backstops, SeqCst);
        verdict
    }

    fn helper(&self, stage: &Stage, which: usize) -> Verdict {
        let w = self.world(stage);
        stage.word(world::HELPERS + which).store(u64::from(std::process::id()), SeqCst);
        let verdict = if self.scene == Scene::Met {
            w.attend(MEET)?;
            stage.word(HERE).store(u64::from(std::process::id()), SeqCst);
            self.operation.meet.as_ref().map_or_else(|| (self.operation.wait)(&w, 0), |meet| meet(&w))
        } else {
            w.attend(if which == 0 { world::FIRST } else { SECOND })?;
            (self.operation.wait)(&w, which)
        };
        // What it has of tubes goes before it is said to be through.
        drop(w);
        stage.board().backstops.fetch_add(chappe::recoveries().backstops, SeqCst);
        stage.word(DONE_HELPERS).fetch_add(1, SeqCst);
        verdict
    }

    fn victim(&self, stage: &Stage) {
        stage.word(VICTIM).store(u64::from(std::process::id()), SeqCst);
        (self.operation.perform)(&self.world(stage));
    }
}

impl Case {
    fn keep(&self, w: &World) -> Verdict {
        let stage = w.stage();
        (self.operation.build)(w)?;
        if self.scene.waits() && !self.operation.victim_holds {
            let first = if self.operation.victim_sleeps { 1 } else { self.scene.helpers() };
            w.call(world::FIRST);
            if first == 2 {
                w.call(SECOND);
            }
            w.demand(|| w.waiting() >= first, world::ABSENT)?;
        }
        if !self.operation.led {
            // There are no cues: the victim says when it is where it should be.
            stage.board().ready.store(1, SeqCst);
            if !stage.until(|| stage.board().phase.load(SeqCst) == INSIDE) {
                return Err((Fault::Wedged, "the victim does not come to hold the permit".to_owned()));
            }
            (self.operation.others)(w)?;
        } else {
            let mut cue = stage.ready();
            while cue != Cue::Dead {
                match cue {
                    Cue::Asleep if self.operation.victim_interrupted => (self.operation.asleep)(w)?,
                    Cue::Asleep if self.operation.victim_sleeps => {
                        let all = if self.scene.waits() { self.scene.helpers() + 1 } else { 0 };
                        if self.scene.waits() {
                            w.call(world::FIRST);
                            w.call(SECOND);
                        }
                        if stage.until(|| w.waiting() >= all || stage.urged(cue)) && !stage.urged(cue) {
                            (self.operation.asleep)(w)?;
                        }
                    }
                    Cue::Stopped if self.scene == Scene::Met => self.have_it_met(w)?,
                    Cue::Stopped => (self.operation.others)(w)?,
                    Cue::Asleep | Cue::Dead => {}
                }
                cue = stage.acted(cue);
            }
            stage.word(world::WOKEN).store(stage.word(world::LET_GO).load(SeqCst), SeqCst);
            (self.operation.bereaved)(w)?;
            w.let_go();
        }
        for word in [world::FIRST, SECOND, MEET] {
            w.call(word);
        }
        let helpers = self.scene.helpers();
        let done = || stage.word(DONE_HELPERS).load(SeqCst) as usize;
        let through = stage.until(|| {
            let through = done() == helpers;
            if !through {
                (self.operation.provide)(w);
            }
            through
        });
        if self.scene.waits() {
            stage.settle();
        }
        if !through {
            return Err((Fault::Wedged, format!("{} of {helpers} helpers get on; {}", done(), w.describe())));
        }
        let verdict = (self.operation.check)(w);
        stage.settle();
        verdict
    }

    /// Lets the helper come. It gets through beside the stopped victim; or, where there is a reason for it, sleeps until that
    /// goes on or dies.
    fn have_it_met(&self, w: &World) -> Verdict {
        let stage = w.stage();
        w.call(MEET);
        let through = || w.done_helpers() > 0;
        let text = "the helper waits for the stopped one:";
        let Some(reason) = self.operation.held_up_by else { return w.demand(through, text) };
        let mut asleep = 0;
        stage.until(|| {
            let here = stage.word(HERE).load(SeqCst) as libc::pid_t;
            asleep = if here != 0 && step::state(here) == Some(b'S') { asleep + 1 } else { 0 };
            asleep >= ASLEEP || through()
        });
        w.demand(|| through() || reason.is_so(w), text)?;
        stage.board().held.store(u64::from(!through()), SeqCst);
        Ok(())
    }
}
