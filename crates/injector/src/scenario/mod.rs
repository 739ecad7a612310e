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

mod barriers;
mod conditions;
mod desk;
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
mod operation;
mod owned;
mod permits;
mod reasons;
mod remedies;
mod scene;
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
use operation::{Deed, Operation};
use reasons::Reason;
pub use scene::Scene;
pub use world::{DATA, World};
use world::{DONE_HELPERS, HERE, MEET, SECOND, VICTIM};

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
    let others = [mutexes::all(), conditions::all(), tubes::all(), structures::all(), light::all(), barriers::all()];
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
        w.demand(|| through() || holds(reason, w), text)?;
        stage.board().held.store(u64::from(!through()), SeqCst);
        Ok(())
    }
}

/// Whether a reason holds, as far as that can be seen from outside. A reason is no excuse by itself: where it is seen that it does not hold (the
/// permit is free, and the process that wants it sleeps), the wait is a fault all the same.
fn holds(reason: Reason, w: &World) -> bool {
    match reason {
        Reason::Permit => w.open("p").is_ok_and(|pool| w.victim_has(pool)),
        Reason::Head => w.open("p").is_ok_and(|pool| pool.waiters().len() > 1),
        Reason::Keeper => w.open("p").is_ok_and(|pool| pool.available() == 0 && !w.victim_has(pool)),
        Reason::Mutex => mutexes::victim_has(w),
        Reason::Unit => w.semaphore("s").is_ok_and(|semaphore| semaphore.value() == 0),
        Reason::Owned => owned::is_the_victims(w),
        Reason::Party => barriers::lacks_the_victim(w),
        Reason::Message => w.tube_info("t").is_ok_and(|info| info.messages == 0),
        // Whose these are cannot be asked without taking them.
        Reason::Arena | Reason::Directory => true,
    }
}
