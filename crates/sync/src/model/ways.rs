//! Operations on objects of every kind, for the explorer: given, taken, and chosen among, with a default.

use super::{Actor, HeardAt, NamedAt, PoolAt, SemaphoreAt, TubeAt};
use crate::permit;
use chappe_arena::Map;
use chappe_tube::body::arms::{In, Out};
use chappe_tube::named::arms;
use chappe_wait::claim::wait_for;
use chappe_wait::handoff::Handoff;
use chappe_wait::lights::Standing;
use chappe_wait::lull::{look, lull};
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Refused, Site, Taken, WaitSpec};
use chappe_wait::order::Order;
use chappe_wait::wait::{Grant, Parties, Party, Patience};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Deref;

/// An arm of a choice.
#[derive(Clone, Copy)]
pub enum Way<'t> {
    /// A unit.
    Down(SemaphoreAt),
    /// A permit.
    Acquire(PoolAt),
    /// A message.
    Recv(&'t TubeAt),
    /// A hole.
    Send(&'t TubeAt),
    /// A message of a named tube.
    Get(NamedAt),
    /// That all publishers of a subscription's tube have gone.
    Gone(&'t HeardAt),
}

/// An arm, in a box or where it is kept.
enum Armed<'t> {
    Own(Box<dyn Arm + 't>),
    Lent(&'t dyn Arm),
}

impl<'t> Deref for Armed<'t> {
    type Target = dyn Arm + 't;
    fn deref(&self) -> &Self::Target {
        match self {
            Armed::Own(arm) => &**arm,
            Armed::Lent(arm) => *arm,
        }
    }
}

impl<'t> Way<'t> {
    fn operation(&self) -> Armed<'t> {
        Armed::Own(match *self {
            Way::Down(semaphore) => Box::new(semaphore),
            Way::Acquire(pool) => Box::new(pool),
            Way::Recv(tube) => Box::new(In(tube.tube())),
            Way::Send(tube) => Box::new(Out(tube.tube())),
            Way::Get(tube) => Box::new(arms::In(tube.pipe())),
            Way::Gone(heard) => return Armed::Lent(&heard.heard),
        })
    }
}

/// An arm, and what happens after each look at it.
struct Watched<'w> {
    arm: Armed<'w>,
    seen: &'w dyn Fn(),
}

impl Arm for Watched<'_> {
    fn site(&self) -> Site {
        self.arm.site()
    }
    fn standing(&self) -> Option<Standing<'_>> {
        self.arm.standing()
    }
    fn attempt(&self, me: &Party, told: bool) -> Result<Taken, Refused> {
        let tried = self.arm.attempt(me, told);
        (self.seen)();
        tried
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        let mark = self.arm.look(me, how);
        if matches!(how, Looking::Mark | Looking::Queued) {
            (self.seen)();
        }
        mark
    }
    fn collect(&self, me: &Party, grant: Option<Grant>, number: u32, aim: Mode) -> Collected {
        self.arm.collect(me, grant, number, aim)
    }
}

/// What a member has taken and is to give back: a permit.
#[derive(Default)]
pub struct Share(Cell<Option<Taken>>);

fn sleeper(budget: &Cell<u32>) -> Patience<'_> {
    Patience { budget, forever: false, none: true, interrupt: None, priority: 0, bell: None }
}

impl Actor {
    fn on_one(&self) -> Parties {
        Parties { private: None, ..self.who }
    }

    fn complete(&self, way: &Way<'_>, taken: Taken) {
        match way {
            Way::Recv(tube) => _ = tube.tube().recv_taken(taken),
            Way::Send(tube) => _ = tube.tube().send_taken(taken, 0),
            Way::Get(tube) => {
                let mut buffer = [MaybeUninit::new(0); 8];
                _ = arms::recv_taken(&tube.pipe(), taken, &mut buffer);
            }
            Way::Down(_) | Way::Acquire(_) | Way::Gone(_) => {}
        }
    }

    /// Takes one, if one is there.
    pub fn take_share(&self, way: &Way<'_>, share: &Share) -> bool {
        if let Way::Gone(heard) = way {
            return self.ends(heard, false);
        }
        let Ok(taken) = way.operation().attempt(&self.who.main, false) else { return false };
        share.0.set(Some(taken));
        self.complete(way, taken);
        true
    }

    /// Gives one.
    pub fn give_share(&self, way: &Way<'_>, share: &Share) {
        match *way {
            Way::Down(semaphore) => assert!(semaphore.up(1)),
            Way::Acquire(pool) => {
                if let Some(taken) = share.0.take() {
                    permit::give(pool.map, pool.place, pool.map.object(pool.place.index), taken);
                }
            }
            Way::Recv(tube) => _ = tube.try_send(7),
            Way::Send(tube) => _ = tube.try_recv(),
            Way::Gone(heard) => _ = self.ends(heard, true),
            Way::Get(tube) => _ = arms::try_send(&tube.pipe(), self.who.main.member as u16, &7u64.to_le_bytes()),
        }
    }

    /// Completes one of several arms, or reports that none was ready: now, or by the deadline. `seen` is called after
    /// each look at an arm.
    pub fn one_of(&self, ways: &[Way<'_>], deadline: Option<u64>, seen: &dyn Fn(usize)) -> Option<usize> {
        let seen: Vec<_> = (0..ways.len()).map(|at| move || seen(at)).collect();
        let arms = ways.iter().zip(&seen).map(|(way, seen)| Watched { arm: way.operation(), seen });
        let arms: Vec<_> = arms.collect();
        let arms: Vec<&dyn Arm> = arms.iter().map(|arm| arm as &dyn Arm).collect();
        let who = self.on_one();
        let found = match look(&arms, &who, Order::new(arms.len(), true), Mode::Take).expect("they are there") {
            Some(found) => Some(found),
            None if deadline.is_none() => lull(&arms, &who, true, Mode::Take).expect("they are there"),
            None => {
                let budget = Cell::new(0);
                let patience = sleeper(&budget);
                // As a choice's; leaked.
                let packet = Box::into_raw(Box::new(Handoff::new(std::ptr::null_mut()))) as u64;
                let wish = WaitSpec { biased: true, packet, ..WaitSpec::to_take(deadline, &patience) };
                match wait_for(&who, &arms, wish) {
                    Ok(found) => Some(found),
                    Err(Refused::TimedOut) => None,
                    Err(e) => panic!("{e:?}"),
                }
            }
        };
        let (at, taken) = found?;
        self.complete(&ways[at], taken);
        Some(at)
    }
}

impl NamedAt {
    /// Attaches a sender and a receiver, which this member stands for.
    pub fn both_ends(&self, map: &'static Map, me: &Actor) {
        let (member, admin) = (me.who.main, map.admin());
        for side in [super::named::side(true), super::named::side(false)] {
            self.pipe().attach(&admin, side, member.member, member.generation).expect("in service");
        }
    }
}
