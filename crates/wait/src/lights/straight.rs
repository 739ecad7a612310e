//! A light thread waits for one of a few arms, each a tube without slots, and for nothing else. Servers, and streams that merge several
//! sources, do this all the time.
//!
//! It is the wait of `waits` in a straight line, and in one frame. A thread that waits so is mostly in no cache, and each line of its
//! stack that is touched on the way there and back costs more than the work itself. So what a call finds again (where an arm stands) is
//! not kept. What is not the common case is left to `waits`: an arm of another kind, a kernel thread at one of the other ends, an end
//! that has gone, a thread that only looks, a wait that can be interrupted.
//!
//! The invariants are in the parent's head. The other end is looked at under the lock under which the node goes in, as the seventh says.
//!
//! Searched: `tests/loom_light.rs`.

use super::waits::{after, begin_word};
use super::{ARM, ARMS, IDLE, MET, Node, PHASE};
use crate::operation::Arm;
use chappe_plat::atomic::Ordering;
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::step;
use std::mem::MaybeUninit;

/// The most arms.
const FEW: usize = 4;

/// How such a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A thread has met that arm, by the packet.
    Met(usize),
    /// That arm is to be tried; if the try fails, the thread waits again in its old place.
    Told(usize),
    /// As if the wait had not begun: `waits` does it.
    Not,
}

/// Whether these are such arms.
#[inline(always)]
pub fn fits(arms: &[&dyn Arm]) -> bool {
    let meets = |arm: &&dyn Arm| arm.standing().is_some_and(|place| place.meets);
    (2..=FEW).contains(&arms.len()) && arms.iter().all(meets)
}

/// Waits for one of the arms, which [`fits`] has seen; the node of the `first` goes in first. The packet is for the
/// thread that meets it.
#[inline(always)]
pub fn wait(me: &'static Record, arms: &[&dyn Arm], first: usize, packet: u64) -> Ended {
    let mut nodes = [const { MaybeUninit::<Node>::uninit() }; FEW];
    let waits = begin_word(me);
    let (mut at, mut begun, mut stays) = (first, 0, true);
    while stays && begun < arms.len() {
        let Some(place) = arms[at].standing() else {
            // The nodes of the arms before it are in their lists.
            stays = false;
            break;
        };
        let node = &*nodes[at].write(Node::of_choice(me, waits, at as u32, 1, packet));
        place.own.admit_lights(false);
        let locked = place.lights.lock();
        let theirs = place.side.other();
        stays = place.lights.is_empty(theirs) || locked.clear_way(theirs, node, begun > 0);
        if stays {
            locked.push(place.side, node, false);
            begun += 1;
            at = after(at, arms.len());
            stays = place.other.is_deserted();
        }
        locked.unlock_meeting();
    }
    if stays {
        me.waits.set(Waits::Choice);
        me.at.set(arms.len() as u64);
        // SeqCst: the claimer's swap.
        while me.word.load(Ordering::SeqCst) == waits && !light::is_destroyed() {
            light::park(None);
        }
        me.waits.set(Waits::Nothing);
    }
    // SeqCst: as above. A claimed word stays so.
    let mut now = me.word.load(Ordering::SeqCst);
    if now == waits {
        let idle = waits & !PHASE | IDLE;
        // SeqCst, both: I2, this or the claim.
        now = me.word.compare_exchange(waits, idle, Ordering::SeqCst, Ordering::SeqCst).err().unwrap_or(idle);
    }
    step!("decided, nodes still in the lists");
    let mut at = first;
    for _ in 0..begun {
        // SAFETY: made above.
        let node = unsafe { nodes[at].assume_init_ref() };
        // Acquire: I1.
        if node.linked.load(Ordering::Acquire) != 0
            && let Some(place) = arms[at].standing()
        {
            let locked = place.lights.lock();
            // Relaxed: under the lock.
            if node.linked.load(Ordering::Relaxed) != 0 {
                locked.unlink(place.side, node);
            }
            locked.unlock_meeting();
        }
        at = after(at, arms.len());
    }
    let arm = (now >> ARM & ARMS) as usize;
    match (now & PHASE, now & MET) {
        (IDLE, _) => Ended::Not,
        (_, 0) => Ended::Told(arm),
        _ => Ended::Met(arm),
    }
}
