//! Visits: how a thread that has no other right to an object's memory keeps it from being used again while it writes there.
//!
//! Most threads that change an object have something in it that keeps its slot (objects, I4, I6): a wait bit, a user's bit, a handle. A thread
//! that *recovers* a dead member, clears up after it, or leaves, comes to all objects, and has nothing there. It may be stopped for any time
//! between a look and the change that relies on it, and the object may be removed meanwhile. So it says where it is before it looks, in
//! memory that is its own: a hazard pointer (Michael, Hazard Pointers, 2004), for one object at a time.
//!
//! ```text
//!   visitor:  word := object, generation -- head: LIVE or DEAD, of that generation? -- change the object -- word := 0
//!   maker:    head: DEAD, no bit, not in use -- head := CLOSED -- does a word name it? -- no: head := FREE
//! ```
//!
//! The maker of an object, under `admin`, is the only thread that makes a slot free: there is one gate, [`Map::clear`]. A slot's cells and blocks
//! go by its head, so a visit keeps them too.
//!
//! - V1: a thread that may come late (objects) writes to an object's slot, cells or blocks only within a visit, or by one swap of a word that no
//!   later object can have: one with the dead member's generation in it.
//! - V2: a visit counts if its word was stored before the visitor found the head LIVE or DEAD. The maker stores CLOSED before it reads the
//!   words. All four are sequentially consistent (E1). So if the maker misses the word, the visitor sees CLOSED, or what came later, and begins
//!   no visit. Without CLOSED the maker could look, find no visit, and be overtaken by one before it stores FREE: the head is DEAD for both.
//! - V3: the word of a member slot is used by the owner of the slot's life word alone: the member; or the thread that has claimed the word of a dead
//!   one, to clear up or to join. It is taken from 0, and given back, by a swap. A thread that cleans needs none besides: the slot's last owner
//!   is dead, and writes no more, so its visit ends with the claim (`forget_visit`). Hence a cleaner always has a word. An attachment that is lent
//!   to a light thread is that thread's: the owner of the life word does nothing. (No visit lasts over a yield.)
//! - V4: a thread without a slot takes one of eight guests' words, by a robust lock. If none is free, or the thread is a signal handler in the
//!   middle of the interrupted thread's visit and there is none, it leaves the work to others, and says so: [`Visitor::has_left_out`]. The dead
//!   member is then not swept.
//! - V5: the word of an owner that died counts for nothing: the maker looks at the life word of a slot whose word names the object. So a visitor that
//!   is killed keeps nothing from reuse; one that is stopped keeps one slot.
//! - V6: a forked child that goes on with its parent's visit (a signal handler forked) does not end it.
//! - V7: visits do not nest, since [`Visitor::visit`] borrows the visitor. No visit is held while a user's code runs.
//! - V8: under `admin` no slot becomes free: its holder visits without a word.
//! - V9: what makes up for a death in an object's memory takes a `&Visit`, which only [`Visitor::visit`] gives. So the compiler refuses a recovery
//!   without a visit. What takes a `Visitor` instead makes the visit itself, after it has looked; the lint `late` sees to it that it changes nothing before.
//!
//! A maker that dies after CLOSED leaves it so: to everybody but the next maker the object is gone, and that one goes on from there.
//!
//! Both sides pay for the order by a locked instruction. A visitor has one for each object that names the dead member, and a maker one for each slot that it
//! frees. An asymmetric fence would cost each maker a system call, and reach only processes that have registered.
//!
//! Progress: a visit is wait-free, but for the search of a word. The maker reads a word for each member; nobody waits.
//!
//! Explored: `tests/crash_visit.rs`, with stores that stay in buffers. Not by loom, which takes sequentially consistent operations for acquire and
//! release ones (V2 needs more). Left out there: a thread that is taken for dead while it runs.

use crate::admin::Admin;
use crate::gate;
use crate::layout::{Guest, Head};
use crate::map::{At, Map, Place, Visitor};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::life::{Claim, LifeLock};
use chappe_plat::{Life, process, step};
use std::marker::PhantomData;

/// The right to change an object's slot, cells and blocks, until this is dropped: none of them becomes another object's.
pub struct Visit<'v> {
    /// Where it says so; none under `admin`.
    word: Option<&'v AtomicU64>,
    mine: u64,
    incarnation: u64,
    /// V7.
    visitor: PhantomData<&'v mut ()>,
}

impl Visit<'_> {
    /// For memory that nobody can remove meanwhile: that of the tests of what lies in blocks. Not for what ships (lint `late`).
    #[doc(hidden)]
    pub fn of_own_memory() -> Visit<'static> {
        Visit { word: None, mine: 0, incarnation: 0, visitor: PhantomData }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if let Some(word) = self.word
            && process::incarnation() == self.incarnation
        {
            // Release: after what was changed. A failure: the thread was taken for dead, and the word is another's.
            let _ = word.compare_exchange(self.mine, 0, Ordering::Release, Ordering::Relaxed);
        }
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        if let At::Guest(at, gates) = &self.at {
            let _pass = gates.pass(gate::guest(*at));
            self.guest(*at).life.release();
        }
    }
}

/// What a word says of a visit.
fn named(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index + 1)
}

impl<'m> Visitor<'m> {
    /// The holder of `admin`.
    pub fn under(admin: &'m Admin) -> Visitor<'m> {
        Visitor { map: admin.map(), at: At::Admin, left_out: false }
    }

    /// Whether something was not done for want of a word.
    pub fn has_left_out(&self) -> bool {
        self.left_out
    }

    /// Visits an object. None: it is gone, or there is no word (then [`Visitor::has_left_out`]). The object may be removed during the visit.
    pub fn visit(&mut self, place: Place) -> Option<Visit<'_>> {
        let mine = named(place.index, place.head.generation());
        let word = self.announce(mine)?;
        let visit = Visit { word, mine, incarnation: process::incarnation(), visitor: PhantomData };
        // SeqCst: E1, after the announcement; pairs with the maker's.
        let now = Head(self.map.object(place.index).head.load(Ordering::SeqCst));
        (now.stands() && now.generation() == place.head.generation()).then_some(visit)
    }

    /// Stores what is visited where a maker sees it.
    #[expect(clippy::option_option, reason = "no word, or none needed")]
    fn announce(&mut self, mine: u64) -> Option<Option<&'m AtomicU64>> {
        loop {
            let word = match &self.at {
                At::Admin => return Some(None),
                At::Slot(i) => self.map.visit_of(*i),
                At::Guest(at, _) => &self.guest(*at).visit,
                At::Unknown => {
                    self.at = self.map.slot_of_caller().map_or_else(|| self.map.guest_word(), At::Slot);
                    continue;
                }
                At::Nowhere => {
                    self.left_out = true;
                    return None;
                }
            };
            // SeqCst: E1, before the look at the head. A failure: this is a signal handler, V4.
            if word.compare_exchange(0, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                step!("visits, head not yet looked at");
                return Some(Some(word));
            }
            self.at = self.map.guest_word();
        }
    }

    fn guest(&self, at: usize) -> &'m Guest {
        &self.map.header().guests[at]
    }
}

impl Map {
    /// The calling thread. It is given a word when it first visits.
    pub fn visitor(&self) -> Visitor<'_> {
        Visitor { map: self, at: At::Unknown, left_out: false }
    }

    /// The owner of a slot's life word, or the light thread that has its attachment: V3.
    pub fn visitor_in(&self, slot: u32) -> Visitor<'_> {
        Visitor { map: self, at: At::Slot(slot), left_out: false }
    }

    /// A member slot that the calling thread has. Not one that it is cleaning: there `ident` names nobody.
    fn slot_of_caller(&self) -> Option<u32> {
        let tid = process::tid();
        (0..self.members_used()).find(|i| {
            let m = self.member(*i);
            // Relaxed, all: the caller's own, or not what is looked for.
            m.ident.load(Ordering::Relaxed) as u32 == tid
                && m.life.probe() == Life::Alive(tid)
                && m.pid.load(Ordering::Relaxed) == process::pid() // Relaxed: as above.
                && m.namespace.load(Ordering::Relaxed) == process::namespace() // Relaxed: as above.
        })
    }

    /// V4: takes a guest's word.
    fn guest_word(&self) -> At {
        for (at, guest) in self.header().guests.iter().enumerate() {
            if matches!(guest.life.probe(), Life::Alive(_)) {
                continue;
            }
            let Ok(gates) = self.gates() else { break };
            let claimed = gates.try_pass(gate::guest(at)).is_some_and(|pass| {
                // G2 of the gates.
                !(pass.counts() && matches!(guest.life.probe(), Life::Alive(_)))
                    && guest.life.try_claim() != Claim::Busy
            });
            if claimed {
                // Relaxed: that of the last thread, which is dead: V5.
                guest.visit.store(0, Ordering::Relaxed);
                return At::Guest(at, gates);
            }
        }
        At::Nowhere
    }

    /// V3: the caller has claimed the life word of a slot. What its last owner visited is over.
    pub(crate) fn forget_visit(&self, i: u32) {
        // Release: as at a visit's end.
        self.visit_of(i).store(0, Ordering::Release);
    }

    /// The one gate to FREE. Frees the slot of a removed object, if no trace of its users is left, and no visit of it. Whether it did. The caller
    /// holds `admin`; `head` is the slot's.
    pub(crate) fn clear(&self, index: u32, head: Head) -> bool {
        if !head.is_closed() && !head.is_dead() {
            return false;
        }
        // I4, I6 of the objects; F3 of far.rs.
        let is_done = || head.is_closed() || !(self.hooks.used)(self, index);
        if self.has_a_bit(index) || !is_done() {
            return false;
        }
        // SeqCst: E1, before the look at the visits. Under admin no other thread changes the head of a removed object.
        self.object(index).head.swap(head.closed().0, Ordering::SeqCst);
        step!("closed, visits not yet looked at");
        if self.is_visited(named(index, head.generation())) {
            return false;
        }
        step!("closed, and not visited");
        self.free(index, head);
        true
    }

    /// Whether a living thread visits an object, which is CLOSED.
    fn is_visited(&self, place: u64) -> bool {
        // SeqCst: E1, after CLOSED; `members_used` is as well: a visitor is counted in before it visits. V5.
        let stands = |visit: &AtomicU64, of: &LifeLock| {
            visit.load(Ordering::SeqCst) == place && matches!(of.probe(), Life::Alive(_))
        };
        (0..self.members_used()).any(|i| stands(self.visit_of(i), &self.member(i).life))
            || self.header().guests.iter().any(|guest| stands(&guest.visit, &guest.life))
    }
}
