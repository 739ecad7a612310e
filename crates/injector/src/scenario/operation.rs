//! One of chappe's operations, as the table of scenarios has it: what the victim does, and what the survivors demand.

use super::reasons::Reason;
use super::scene::Scene;
use super::world::World;
use crate::board::Verdict;

/// What a process does about the victim's operation, and what it finds.
pub(super) type Act = Box<dyn Fn(&World) -> Verdict>;
/// The same, told which helper it is.
pub(super) type Each = Box<dyn Fn(&World, usize) -> Verdict>;
/// What a process does that judges nothing.
pub(super) type Deed = Box<dyn Fn(&World)>;

/// One of chappe's operations: a row of a table, by default as most operations are.
pub struct Operation {
    /// What the tables call it.
    pub(super) name: &'static str,
    /// The scenes in which it is tried.
    pub(super) scenes: &'static [Scene],
    pub(super) victim_holds: bool,
    pub(super) victim_sleeps: bool,
    pub(super) victim_interrupted: bool,
    pub(super) held_up_by: Option<Reason>,
    pub(super) recovers: bool,
    pub(super) led: bool,
    pub(super) long: bool,
    pub(super) retold: Box<dyn Fn(Scene) -> bool>,
    pub(super) build: Act,
    pub(super) perform: Deed,
    pub(super) wait: Each,
    pub(super) meet: Option<Act>,
    pub(super) others: Act,
    pub(super) asleep: Act,
    pub(super) provide: Deed,
    pub(super) bereaved: Act,
    pub(super) check: Act,
}

/// Writes the part of a row that each of these names.
macro_rules! parts {
    ($($(#[$about:meta])* $part:ident: $what:ty = $value:ident => $kept:expr;)*) => {
        impl Operation {
            $($(#[$about])* pub(super) fn $part(mut self, $value: $what) -> Operation {
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
    pub(super) fn of(name: &'static str, scenes: &'static [Scene]) -> Operation {
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
    pub(super) fn wait(self, act: impl Fn(&World) -> Verdict + 'static) -> Operation {
        self.wait_each(move |w, _| act(w))
    }

    /// The same, told which helper it is.
    pub(super) fn wait_each(mut self, act: impl Fn(&World, usize) -> Verdict + 'static) -> Operation {
        self.wait = Box::new(act);
        self
    }
}
