//! How a light thread waits at one or several tubes: it puts its nodes into their lists, looks, and parks. The invariants are in the
//! parent's head.

use super::{ARM, ARMS, IDLE, MET, Node, PHASE, Standing, WAITING, Wait, note_one};
use crate::cell::Word;
use crate::interrupt::Interrupt;
use crate::mark::Mark;
use crate::operation::{Arm, Looking, Mode, Nature, Refused, Taken, due, is_for_light};
use crate::wait::Party;
use chappe_plat::atomic::{Ordering, fence};
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::{clock, step};
use std::mem::MaybeUninit;

/// How a thread took what it has at a tube without slots: it waited, and another thread met it, by its packet.
pub const MET_BY: u32 = 3;

/// What a thread has taken that waited and was met with this packet.
pub fn met_by(packet: u64) -> Taken {
    Taken { position: MET_BY, word: Word(packet) }
}

/// Whether a light thread can wait for all of these by nodes.
pub fn can_wait<A: Arm + ?Sized>(arms: &[&A]) -> bool {
    arms.iter().all(|arm| is_for_light(*arm))
}

/// What a light thread waits for.
#[derive(Clone, Copy)]
pub struct Hope {
    pub aim: Mode,
    /// The arm that is looked at first.
    pub first: usize,
    pub deadline: Option<u64>,
    /// See `meet`.
    pub packet: u64,
    /// What ends the wait early.
    pub by: Option<&'static Interrupt>,
    /// The thread has waited before, and goes to its old place.
    pub front: bool,
}

/// So many places lie on the stack; more, in a box.
const FEW: usize = 4;

/// Where an arm waits; `None`: no other thread need tell it.
pub type ObjectId<'t> = Option<(Node, Standing<'t>)>;

/// What became of a wait's beginning.
struct Begun {
    /// So many arms have their spot, from the first one on.
    many: usize,
    /// The thread is to park: it found nothing, and nobody.
    stays: bool,
    /// Some arms wait for a moment.
    clocks: bool,
}

/// Waits for one of the arms, for each of which [`can_wait`] holds. The caller has found none ready.
pub fn wait_for<'a, A: Arm + ?Sized>(
    me: &'static Record,
    arms: &[&'a A],
    hope: Hope,
) -> Result<(usize, Taken), Refused> {
    if arms.len() <= FEW {
        let mut spots = [const { MaybeUninit::uninit() }; FEW];
        return wait_with(me, arms, hope, &mut spots[..arms.len()]);
    }
    let mut spots: Vec<MaybeUninit<ObjectId<'a>>> = arms.iter().map(|_| MaybeUninit::uninit()).collect();
    wait_with(me, arms, hope, &mut spots)
}

/// The next arm in turn.
#[inline(always)]
pub fn after(at: usize, all: usize) -> usize {
    if at + 1 == all { 0 } else { at + 1 }
}

/// Begins one more wait of this thread, which is in no list yet: its word.
#[inline(always)]
pub(crate) fn begin_word(me: &Record) -> u64 {
    // Relaxed: only this thread leaves IDLE.
    let waits = Wait::next(Wait::alone(me.word.load(Ordering::Relaxed))) | WAITING;
    // Relaxed: published by the lock of the first list.
    me.word.store(waits, Ordering::Relaxed);
    waits
}

/// The same with a spot for each arm.
#[inline]
pub fn wait_with<'a, A: Arm + ?Sized>(
    me: &'static Record,
    arms: &[&'a A],
    hope: Hope,
    spots: &mut [MaybeUninit<ObjectId<'a>>],
) -> Result<(usize, Taken), Refused> {
    let nobody = Party::nobody(arms[0].site().map);
    let look =
        || arms.iter().enumerate().find_map(|(at, arm)| Some((at, hope.aim.attempt(*arm, &nobody, false).ok()?)));
    let is_late = || hope.deadline.is_some_and(|at| clock::now() >= at);
    let mut front = hope.front;
    let is_interrupted = || hope.by.is_some_and(Interrupt::has_come) || light::is_destroyed();
    loop {
        let waits = begin_word(me);
        let begun = begin(me, arms, hope, spots, waits, front);
        if begun.stays {
            let due = if begun.clocks { due(arms, &nobody) } else { None };
            let until = [hope.deadline, due].into_iter().flatten().min();
            note(me, arms);
            hope.by.into_iter().for_each(|by| by.parks(me));
            // SeqCst: the claimer's swap.
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
        let mut at = hope.first;
        for _ in 0..begun.many {
            // SAFETY: `begin` has made it.
            if let Some((node, place)) = unsafe { spots[at].assume_init_ref() }
                // Acquire: I1.
                && node.linked.load(Ordering::Acquire) != 0
            {
                let locked = place.lights.lock();
                // Relaxed: under the lock.
                if node.linked.load(Ordering::Relaxed) != 0 {
                    locked.unlink(place.side, node);
                }
            }
            at = after(at, arms.len());
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
            return Ok((at, met_by(hope.packet)));
        }
        match hope.aim.attempt(arms[at], &nobody, true) {
            Ok(taken) => return Ok((at, taken)),
            Err(_) if is_late() => return look().ok_or(Refused::TimedOut),
            // Another thread was faster: wait again, in the old place.
            Err(_) => front = true,
        }
    }
}

/// Puts the nodes into the lists, and looks.
#[inline]
fn begin<'a, A: Arm + ?Sized>(
    me: &'static Record,
    arms: &[&'a A],
    hope: Hope,
    spots: &mut [MaybeUninit<ObjectId<'a>>],
    waits: u64,
    front: bool,
) -> Begun {
    let need = u32::from(hope.aim == Mode::Take);
    let mut begun = Begun { many: 0, stays: false, clocks: false };
    let (mut waits_elsewhere, mut slots, mut at) = (false, false, hope.first);
    for _ in arms {
        let spot = spots[at]
            .write(arms[at].standing().map(|place| (Node::of_choice(me, waits, at as u32, need, hope.packet), place)));
        begun.many += 1;
        if let Some((node, place)) = spot {
            place.own.admit_lights(!place.meets);
            let locked = place.lights.lock();
            if place.meets && !locked.clear_way(place.side.other(), node, waits_elsewhere) {
                return begun;
            }
            locked.push(place.side, node, front);
            drop(locked);
            waits_elsewhere = true;
            slots |= !place.meets;
        } else {
            begun.clocks = true;
        }
        at = after(at, arms.len());
    }
    if slots {
        // SeqCst: I3.
        fence(Ordering::SeqCst);
    }
    let nobody = Party::nobody(arms[0].site().map);
    begun.stays = arms.iter().zip(&*spots).all(|(arm, spot)| {
        // SAFETY: made above.
        let is_told = unsafe { spot.assume_init_ref() }.is_some();
        !is_told || matches!(arm.look(&nobody, Looking::Waiting), Ok(Mark::Nothing(_)))
    });
    begun
}

/// Notes what `me` waits for, for threads that inspect it from elsewhere.
#[inline(always)]
fn note<A: Arm + ?Sized>(me: &Record, arms: &[&A]) {
    let what = match arms {
        [arm] => match (arm.site().nature, arm.standing()) {
            (Nature::Descriptor(fd), _) => (Waits::Descriptor, fd as u64),
            (_, Some(at)) => return note_one(me, at.side, at.lights),
            _ => (Waits::Sleep, 0),
        },
        _ => (Waits::Choice, arms.len() as u64),
    };
    me.waits.set(what.0);
    me.at.set(what.1);
}
