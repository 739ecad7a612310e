//! How a light thread waits at one or several tubes: its nodes go into their lists, it looks, it parks. The invariants are in the parent's
//! head.

use super::{ARM, ARMS, IDLE, Lights, MET, Node, PHASE, Side, WAIT, WAITING};
use crate::bias::Holds;
use crate::claim::{Aim, Operation, Refused, Taken};
use crate::interrupt::Interrupt;
use crate::tube::{body, meet};
use crate::wait::Party;
use chappe_plat::atomic::{AtomicU32, Ordering, fence};
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::{clock, step};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Whether a light thread can wait for all of these so.
pub(crate) fn can_wait<A: Operation + ?Sized>(arms: &[&A]) -> bool {
    arms.iter().all(|arm| !arm.is_queued() || arm.standing().is_some())
}

/// What a light thread waits for.
#[derive(Clone, Copy)]
pub(crate) struct Hope {
    pub aim: Aim,
    /// The arm that is looked at first.
    pub first: usize,
    pub deadline: Option<u64>,
    /// See `meet`.
    pub packet: u64,
    /// What ends the wait early.
    pub by: Option<&'static Interrupt>,
}

/// A few nodes on the stack; more, in a box.
const FEW: usize = 4;

/// Waits for one of the arms, for each of which [`can_wait`] holds. The caller has found none ready.
pub(crate) fn wait_for<A: Operation + ?Sized>(
    me: &'static Record,
    arms: &[&A],
    hope: Hope,
) -> Result<(usize, Taken), Refused> {
    if arms.len() <= FEW {
        let mut nodes = [const { MaybeUninit::uninit() }; FEW];
        return wait_with(me, arms, hope, &mut nodes[..arms.len()]);
    }
    let mut nodes: Vec<_> = arms.iter().map(|_| MaybeUninit::uninit()).collect();
    wait_with(me, arms, hope, &mut nodes)
}

/// The same with a node for each arm.
#[inline]
pub(crate) fn wait_with<A: Operation + ?Sized>(
    me: &'static Record,
    arms: &[&A],
    hope: Hope,
    nodes: &mut [MaybeUninit<Node>],
) -> Result<(usize, Taken), Refused> {
    let nobody = Party { map: arms[0].map(), member: u32::MAX, generation: 0, holds: Holds::NONE };
    let look = || arms.iter().enumerate().find_map(|(at, arm)| Some((at, hope.aim.attempt(*arm, &nobody).ok()?)));
    let is_late = || hope.deadline.is_some_and(|at| clock::now() >= at);
    let mut front = false;
    let is_interrupted = || hope.by.is_some_and(Interrupt::has_come) || light::is_destroyed();
    loop {
        let due = arms.iter().filter_map(|arm| arm.due()).min();
        let until = [hope.deadline, due].into_iter().flatten().min();
        // Relaxed: only we leave IDLE.
        let waits = (me.word.load(Ordering::Relaxed) >> WAIT).wrapping_add(1) << WAIT | WAITING;
        // Relaxed: published by the lock of the first list.
        me.word.store(waits, Ordering::Relaxed);
        let (enlisted, stays) = begin(me, arms, hope, nodes, waits, front);
        if stays {
            note(me, arms);
            hope.by.into_iter().for_each(|by| by.parks(me));
            // SeqCst: who claims.
            while me.word.load(Ordering::SeqCst) == waits
                && until.is_none_or(|at| clock::now() < at)
                && !is_interrupted()
            {
                light::park(until);
            }
            hope.by.into_iter().for_each(Interrupt::left);
            me.waits.set(Waits::Nothing);
        }
        // SeqCst: I2, this or the claim.
        let decided = me.word.compare_exchange(waits, waits & !PHASE | IDLE, Ordering::SeqCst, Ordering::SeqCst);
        step!("decided, nodes still in the lists");
        for k in 0..enlisted {
            let at = (hope.first + k) % arms.len();
            if let Some(standing) = arms[at].standing() {
                // SAFETY: `begin` has made it.
                let node = unsafe { nodes[at].assume_init_ref() };
                // Acquire: I1.
                if node.linked.load(Ordering::Acquire) != 0 {
                    let locked = standing.lights.lock();
                    // Relaxed: under the lock.
                    if node.linked.load(Ordering::Relaxed) != 0 {
                        locked.unlink(standing.side, node);
                    }
                }
            }
        }
        let Err(claimed) = decided else {
            match look() {
                Some(found) => return Ok(found),
                None if is_interrupted() => return Err(Refused::Interrupted),
                None if is_late() => return Err(Refused::TimedOut),
                None => continue,
            }
        };
        let at = (claimed >> ARM & ARMS) as usize;
        if claimed & MET != 0 {
            return Ok((at, body::met_by(hope.packet)));
        }
        match hope.aim.attempt(arms[at], &nobody) {
            Ok(taken) => {
                if hope.aim == Aim::Take {
                    arms[at].took();
                }
                return Ok((at, taken));
            }
            Err(_) if is_late() => return look().ok_or(Refused::TimedOut),
            // Somebody was faster: in the old place.
            Err(_) => front = true,
        }
    }
}

/// Puts the nodes into the lists, and looks. How many arms have theirs there; false: there may be something, or somebody.
#[inline]
fn begin<A: Operation + ?Sized>(
    me: &'static Record,
    arms: &[&A],
    hope: Hope,
    nodes: &mut [MaybeUninit<Node>],
    waits: u64,
    front: bool,
) -> (usize, bool) {
    let need = u32::from(hope.aim == Aim::Take);
    let mut waits_elsewhere = false;
    for k in 0..arms.len() {
        let at = (hope.first + k) % arms.len();
        let Some(standing) = arms[at].standing() else { continue };
        let node = nodes[at].write(Node {
            record: me,
            waits,
            arm: at as u32,
            need,
            packet: hope.packet,
            linked: AtomicU32::new(0),
            next: Cell::new(null_mut()),
            last: Cell::new(null_mut()),
        });
        standing.own.admit_lights(!standing.meets);
        let locked = standing.lights.lock();
        if standing.meets && !locked.clear_way(standing.side.other(), node, waits_elsewhere) {
            return (k, false);
        }
        locked.push(standing.side, node, front);
        drop(locked);
        waits_elsewhere = true;
    }
    if arms.iter().any(|arm| arm.standing().is_some_and(|standing| !standing.meets)) {
        // SeqCst: I3.
        fence(Ordering::SeqCst);
    }
    let nobody = Party { map: arms[0].map(), member: u32::MAX, generation: 0, holds: Holds::NONE };
    for arm in arms {
        let Some(standing) = arm.standing() else { continue };
        let there = if standing.meets {
            standing.other.is_gone() || meet::is_awaited_by_light(standing.other)
        } else {
            arm.look(&nobody)
        };
        if there {
            return (arms.len(), false);
        }
    }
    (arms.len(), true)
}

/// The same of one end.
#[inline(always)]
pub(crate) fn note_one(me: &Record, side: Side, lights: &Lights) {
    me.waits.set(if side == Side::Send { Waits::Send } else { Waits::Recv });
    me.at.set(std::ptr::from_ref(lights) as u64);
}

/// For who looks from elsewhere.
#[inline(always)]
fn note<A: Operation + ?Sized>(me: &Record, arms: &[&A]) {
    let what = match arms {
        [arm] if arm.outside().is_some() => (Waits::Descriptor, arm.outside().map_or(0, |fd| fd as u64)),
        [arm] => match arm.standing() {
            Some(at) => return note_one(me, at.side, at.lights),
            None => (Waits::Sleep, 0),
        },
        _ => (Waits::Choice, arms.len() as u64),
    };
    me.waits.set(what.0);
    me.at.set(what.1);
}

/// Whether a packet's owner is met by itself: see `meet`.
#[inline(always)]
pub(crate) fn owner() -> *const Record {
    light::current().map_or(null(), std::ptr::from_ref)
}
