//! Where light threads wait at a tube: a list at each end, under a lock of one word.
//!
//! Synthesis' threads wait in the queue of the object itself, and are resumed by the thread that brings what they wait for (synthesis,
//! 4.1.3 and 5.3.2). So here: a light thread needs no attachment in an arena. It puts a node, which lies on its stack, into the list of each
//! end that it waits at, and stores in its record's word ([`Record::word`]) that it waits:
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-1 | phase | IDLE, WAITING, CLAIMED |
//! | 2 | MET | claimed by a thread that moves a message with it; else told to try |
//! | 3-26 | arm | which of its arms was claimed |
//! | 27-63 | wait | one more each time |
//!
//! ```text
//!   waiter:    word WAITING -- nodes into the lists -- fence -- look -- park ... take the nodes out
//!   claimer:   lock -- first node -- its word WAITING -> CLAIMED -- node out -- unlock -- (message) -- unpark
//! ```
//!
//! Kernel threads wait at the same tubes by bits in the arena. Where both kinds wait at one end, they take turns. Light threads are
//! served first in, first out.
//!
//! Invariants:
//! - I1: a node is read and written under the lock only, except for `linked`. The thread that takes it out stores `linked` last. So a
//!   thread that finds its node unlinked lets go of it without the lock; a thread that finds it linked takes the lock first.
//! - I2: of all claims of one wait one wins, since each swaps the same word. A record never goes away, and the number of the wait goes
//!   on across the threads that use it: a late claim fails.
//! - I3: on a tube with slots, a sender puts its message there, then looks for light threads; a waiter puts its node there, then looks
//!   for messages; both make a fence in between. Where no light thread has ever waited, senders go without theirs: the first light
//!   thread to wait sets the end's mark (`End::admit_lights`), and then makes a fence for all threads.
//! - I4: a thread that finds the lock taken, and only has to tell, leaves that as a count in the lock word, and goes; the holder tells
//!   when it unlocks. So sending to a tube with slots waits for no thread, not even in a signal handler that has interrupted the
//!   holder. Only a meeting needs its result now: it waits for the lock.
//! - I7: a tube without slots needs neither the fence nor the count for the holder. What the other end reports (kernel threads counted
//!   there, a descriptor to be told, GONE) is stored before the reporting thread takes the lock and looks for light threads. A waiter
//!   puts its node in, and looks at the other end, under the same lock. So one sees the other, and a plain store releases the lock. A
//!   thread that waits at one such end alone has no word either (`direct`): taking its node out claims it.
//! - I5: of two light threads that wait for each other none is left alone. A thread that puts its node in looks through the other list
//!   under the same lock. If a thread waits there, and the arriving one waits nowhere else yet, the arriving one goes and meets it.
//!   Otherwise the one with the smaller number gives its wait up and goes, and the other stays where it is.
//! - I6: of a kernel thread and a light thread that wait for each other the light thread moves. The kernel thread looks after its bit is
//!   set, tells the light thread to try again, and stays. The light thread looks after its node is there, and gives its wait up (I7).
//!
//! Progress: a waiting light thread delays no other thread. The holder of the lock takes some ns, and cannot park; if the kernel
//! deschedules it there, meetings at this tube wait for it.
//!
//! A forked child has no light threads of its parent: the first thread there that takes the lock empties the lists.

#[cfg(not(feature = "sim"))]
pub mod straight;
pub mod waits;

use super::end::End;
use super::handoff::Handoff;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, give_way, pause};
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::step;
use chappe_structures::stamp::Stamp;
use std::cell::{Cell, UnsafeCell};
use std::ptr::null;

const PHASE: u64 = 3;
const IDLE: u64 = 0;
const WAITING: u64 = 1;
const CLAIMED: u64 = 2;
const MET: u64 = 4;
const ARM: u32 = 3;
const ARMS: u64 = 0xff_ffff;
type Wait = Stamp<27, 37>;

/// A node without a word of its wait, whose phase would be WAITING.
const DIRECT: u64 = 0;

const HELD: u32 = 1;
/// Left in the lock word by threads that found it taken: so many waiters of an end are to be told, or all.
const TELL: [u32; 2] = [1 << 1, 1 << 15];
const TELLS: u32 = 0x3fff;
const TELL_ALL: [u32; 2] = [1 << 29, 1 << 30];
/// Looks at a lock that is taken before a thread gives way.
const LOOKS: u32 = 200;

/// Which end of a tube.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Where receivers wait.
    Recv = 0,
    /// Where senders wait.
    Send = 1,
}

impl Side {
    #[inline(always)]
    pub fn other(self) -> Side {
        if self == Side::Recv { Side::Send } else { Side::Recv }
    }
}

/// A place in a list, on the waiter's stack.
pub struct Node {
    record: &'static Record,
    /// The record's word while the thread waits; [`DIRECT`]: taking the node out claims it.
    waits: u64,
    arm: u32,
    /// 0: the thread only looks.
    need: u32,
    packet: u64,
    /// 1 while the node is in a list.
    linked: AtomicU32,
    next: Cell<*const Node>,
    last: Cell<*const Node>,
}

struct List {
    /// Read without the lock, too.
    head: AtomicU64,
    tail: Cell<*const Node>,
}

/// The light threads at both ends of a tube.
pub struct Lights {
    lock: AtomicU32,
    /// The process that made it, or that first locked it as a forked child: see the head.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    incarnation: AtomicU32,
    lists: UnsafeCell<[List; 2]>,
    /// How many have come, to either end.
    came: AtomicU32,
    /// Which kind's turn it is, where both kinds wait.
    turn: Cell<bool>,
    /// The tube has no slots: I7.
    meets: bool,
}

// SAFETY: I1: nodes and lists are used under the lock alone.
unsafe impl Sync for Lights {}
// SAFETY: I1, as above: the lock goes with it.
unsafe impl Send for Lights {}

/// What an arm is to a light thread: its end, the other end, and the lists.
pub struct Standing<'t> {
    pub lights: &'t Lights,
    pub side: Side,
    pub own: &'t End,
    pub other: &'t End,
    /// It has no slots.
    pub meets: bool,
}

/// Notes the one end that `me` waits at.
#[inline(always)]
pub fn note_one(me: &Record, side: Side, lights: &Lights) {
    me.waits.set(if side == Side::Send { Waits::Send } else { Waits::Recv });
    me.at.set(std::ptr::from_ref(lights) as u64);
}

struct Locked<'l>(&'l Lights);

impl Lights {
    #[inline(always)]
    pub fn new(meets: bool) -> Lights {
        let list = || List { head: AtomicU64::new(0), tail: Cell::new(null()) };
        Lights {
            lock: AtomicU32::new(0),
            #[cfg(not(any(feature = "sim", feature = "loom")))]
            incarnation: AtomicU32::new(chappe_plat::process::incarnation() as u32),
            lists: UnsafeCell::new([list(), list()]),
            came: AtomicU32::new(0),
            turn: Cell::new(false),
            meets,
        }
    }

    #[inline(always)]
    fn head(&self, side: Side) -> &AtomicU64 {
        // SAFETY: the heads are atomic; a list is never moved.
        unsafe { &(*self.lists.get())[side as usize].head }
    }

    /// Whether that list was empty just now.
    #[inline(always)]
    pub fn is_empty(&self, side: Side) -> bool {
        // Relaxed: I3, after the caller's fence; or a hint.
        self.head(side).load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<Locked<'_>> {
        // Acquire: what the last holder did.
        self.lock.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(self.locked())
    }

    #[inline(always)]
    fn locked(&self) -> Locked<'_> {
        self.purge();
        Locked(self)
    }

    #[inline(always)]
    fn lock(&self) -> Locked<'_> {
        match self.try_lock() {
            Some(locked) => locked,
            None => self.lock_slow(),
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self) -> Locked<'_> {
        let mut looks = 0;
        loop {
            // Relaxed: the swap below decides.
            if self.lock.load(Ordering::Relaxed) == 0
                && let Some(locked) = self.try_lock()
            {
                return locked;
            }
            looks += 1;
            if looks < LOOKS {
                pause();
            } else {
                looks = 0;
                self.free_inherited();
                give_way();
            }
        }
    }

    /// Takes the lock, or leaves `word` for its holder.
    #[inline]
    fn lock_or_leave(&self, word: u32, counts: bool) -> Option<Locked<'_>> {
        if self.meets {
            return Some(self.lock());
        }
        loop {
            if let Some(locked) = self.try_lock() {
                return Some(locked);
            }
            // Relaxed: the swap below decides.
            let now = self.lock.load(Ordering::Relaxed);
            let all = TELL_ALL[usize::from(word == TELL[1])];
            let left = if !counts {
                now | word
            } else if (now / word) & TELLS == TELLS {
                // The count is full: all are to be told.
                now | all
            } else {
                now.wrapping_add(word)
            };
            // Release: I4, what is there comes before. Relaxed: once more.
            if now & HELD != 0 && self.lock.compare_exchange(now, left, Ordering::Release, Ordering::Relaxed).is_ok() {
                return None;
            }
        }
    }

    /// If another thread of the parent held the lock when this process was forked, it is freed here.
    fn free_inherited(&self) {
        #[cfg(not(any(feature = "sim", feature = "loom")))]
        {
            // Relaxed: a number.
            let made = self.incarnation.load(Ordering::Relaxed);
            let now = chappe_plat::process::incarnation() as u32;
            // Relaxed: one of the child's threads does it.
            if made != now && self.incarnation.compare_exchange(made, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                self.clear();
                // Release: the lists are empty.
                self.lock.store(0, Ordering::Release);
            }
        }
    }

    /// Called by the holder: forgets the nodes of a forking parent's threads.
    #[inline(always)]
    fn purge(&self) {
        #[cfg(not(any(feature = "sim", feature = "loom")))]
        {
            // Relaxed: a number, under the lock.
            let made = self.incarnation.load(Ordering::Relaxed);
            if !chappe_plat::process::is_still(made) {
                self.clear();
                self.incarnation.store(chappe_plat::process::incarnation() as u32, Ordering::Relaxed); // Relaxed: as above.
            }
        }
    }

    #[cfg(not(any(feature = "sim", feature = "loom")))]
    #[cold]
    fn clear(&self) {
        for side in [Side::Recv, Side::Send] {
            self.head(side).store(0, Ordering::Relaxed); // Relaxed: under the lock.
            // SAFETY: I1, by the holder of the lock.
            unsafe { (&(*self.lists.get()))[side as usize].tail.set(null()) };
        }
    }

    /// Tells the first waiter at an end, if there is one, and all that only look. False: nobody waits, or the lock's
    /// holder will tell.
    #[inline]
    pub fn tell_one(&self, side: Side) -> bool {
        self.lock_or_leave(TELL[side as usize], true).is_some_and(|locked| locked.tell_one(side))
    }

    /// Tells all waiters. At a tube without slots the caller has seen that there may be some.
    #[inline]
    pub fn tell_all(&self, side: Side) {
        if !self.meets && self.is_empty(side) {
            return;
        }
        if let Some(locked) = self.lock_or_leave(TELL_ALL[side as usize], false) {
            locked.tell_all(side);
        }
    }

    /// Meets the first waiter there: its packet.
    #[inline(always)]
    pub fn meet(&self, side: Side) -> Option<u64> {
        if self.is_empty(side) {
            return None;
        }
        self.lock().meet(side)
    }

    /// A light thread meets the first waiter at the other end of a tube without slots, if that is a light thread and no
    /// kernel thread may be there.
    #[inline(always)]
    pub fn meet_first(&self, side: Side, end: &End) -> Option<u64> {
        if self.is_empty(side) {
            return None;
        }
        let locked = self.lock();
        let met = if end.is_awaited_by_others() { None } else { locked.meet(side) };
        locked.unlock_meeting();
        met
    }

    /// A light thread comes to one end of a tube without slots, and waits nowhere else: one look at both ends, I7.
    /// `node` is called if it waits.
    #[inline(always)]
    pub fn come<'n>(&self, side: Side, other: &End, front: bool, node: impl FnOnce() -> &'n Node) -> Comes {
        let locked = self.lock();
        if other.is_awaited_by_others() {
            return Comes::Attached;
        }
        if !self.is_empty(side.other()) {
            if let Some(packet) = locked.meet(side.other()) {
                return Comes::Meets(packet);
            }
            // These waiters only look.
            locked.tell_all(side.other());
        }
        if other.is_gone() {
            return Comes::Gone;
        }
        locked.push(side, node(), front);
        locked.unlock_meeting();
        Comes::Waits
    }

    /// The same where there is nothing to do but wait: nobody waits at the other end, which has not gone. False: there
    /// is, and nothing was done.
    #[inline(always)]
    pub fn wait_alone<'n>(&self, side: Side, other: &End, node: impl FnOnce() -> &'n Node) -> bool {
        let locked = self.lock();
        let waits = other.is_deserted() && self.is_empty(side.other());
        if waits {
            locked.push(side, node(), false);
        }
        locked.unlock_meeting();
        waits
    }

    /// Takes out a node whose thread waits no longer. False: another thread has taken it out, and will store a state in
    /// its packet.
    #[inline]
    pub fn withdraw(&self, side: Side, node: &Node) -> bool {
        let locked = self.lock();
        // Relaxed: under the lock.
        let linked = node.linked.load(Ordering::Relaxed) != 0;
        if linked {
            locked.unlink(side, node);
        }
        linked
    }

    /// Whether a light thread waits there that can be met.
    #[inline]
    pub fn is_awaited(&self, side: Side) -> bool {
        (self.meets || !self.is_empty(side)) && self.lock().nodes(side).any(|node| node.need > 0 && node.is_waiting())
    }

    /// How many light threads have ever come to wait at either end.
    #[inline]
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Acquire).into() // Acquire: before a look at the waiters.
    }

    /// Which kind's turn it is; false: the light threads'.
    #[inline]
    pub fn take_turn(&self) -> bool {
        // A hint: a turn may count twice.
        self.turn.replace(!self.turn.get())
    }
}

/// What a light thread finds when it comes to a tube without slots.
pub enum Comes {
    /// A light thread waited, whose packet this is.
    Meets(u64),
    /// The other end has gone.
    Gone,
    /// Kernel threads may be there.
    Attached,
    /// Nobody was there: the light thread waits.
    Waits,
}

impl Node {
    /// A node for one arm of a choice; `need` is 0 if the thread only looks.
    #[inline(always)]
    fn of_choice(record: &'static Record, waits: u64, arm: u32, need: u32, packet: u64) -> Node {
        let (linked, next, last) = (AtomicU32::new(0), Cell::new(null()), Cell::new(null()));
        Node { record, waits, arm, need, packet, linked, next, last }
    }

    /// A node whose packet alone tells what becomes of the wait.
    #[inline(always)]
    pub fn direct(record: &'static Record, packet: &Handoff) -> Node {
        Node {
            record,
            waits: DIRECT,
            arm: 0,
            need: 1,
            packet: packet.address(),
            linked: AtomicU32::new(0),
            next: Cell::new(null()),
            last: Cell::new(null()),
        }
    }

    #[inline(always)]
    fn is_waiting(&self) -> bool {
        if self.waits == DIRECT {
            return true;
        }
        // Acquire: what a thread that gave up did before.
        self.record.word.load(Ordering::Acquire) == self.waits
    }

    /// Of all claims of this wait one wins. The caller takes the node out in any case: if another claim won, the thread
    /// waits no longer.
    #[inline(always)]
    fn claim(&self, met: u64) -> bool {
        if self.waits == DIRECT {
            return true;
        }
        let claimed = self.waits & !(PHASE | ARMS << ARM) | CLAIMED | met | u64::from(self.arm) << ARM;
        // SeqCst: I2.
        let won = self.record.word.compare_exchange(self.waits, claimed, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        step!("claimed, still in the list");
        won
    }
}

impl Locked<'_> {
    #[inline(always)]
    fn list(&self, side: Side) -> &List {
        // SAFETY: I1, we hold the lock.
        unsafe { &(*self.0.lists.get())[side as usize] }
    }

    /// The nodes; each may be taken out while it is visited.
    #[inline(always)]
    fn nodes(&self, side: Side) -> impl Iterator<Item = &Node> {
        // Relaxed: under the lock.
        let mut at = self.list(side).head.load(Ordering::Relaxed) as *const Node;
        std::iter::from_fn(move || {
            // SAFETY: I1: what is in a list is there until it is taken out, under this lock.
            let node = unsafe { at.as_ref() }?;
            at = node.next.get();
            Some(node)
        })
    }

    #[inline(always)]
    fn push(&self, side: Side, node: &Node, front: bool) {
        let list = self.list(side);
        let at = std::ptr::from_ref(node);
        // Release: with the lock. Relaxed: under the lock.
        self.0.came.store(self.0.came.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        // Relaxed, these: under the lock; the head is looked at after a fence, I3.
        let head = list.head.load(Ordering::Relaxed) as *const Node;
        node.linked.store(1, Ordering::Relaxed); // Relaxed: our own.
        if head.is_null() {
            node.next.set(null());
            node.last.set(null());
            list.tail.set(at);
            list.head.store(at as u64, Ordering::Relaxed); // Relaxed: as above.
        } else if front {
            node.next.set(head);
            node.last.set(null());
            // SAFETY: I1, it is in the list.
            unsafe { (*head).last.set(at) };
            list.head.store(at as u64, Ordering::Relaxed); // Relaxed: as above.
        } else {
            let tail = list.tail.replace(at);
            node.next.set(null());
            node.last.set(tail);
            // SAFETY: I1, it is in the list.
            unsafe { (*tail).next.set(at) };
        }
    }

    #[inline(always)]
    fn unlink(&self, side: Side, node: &Node) {
        let list = self.list(side);
        let (next, last) = (node.next.get(), node.last.get());
        if last.is_null() {
            list.head.store(next as u64, Ordering::Relaxed); // Relaxed: under the lock.
        } else {
            // SAFETY: I1, its neighbours are in the list.
            unsafe { (*last).next.set(next) };
        }
        if next.is_null() {
            list.tail.set(last);
        } else {
            // SAFETY: as above.
            unsafe { (*next).last.set(last) };
        }
        // Release: I1, the last access to the node.
        node.linked.store(0, Ordering::Release);
    }

    /// Tells a waiter to try again, and takes its node out. False: the thread waits no longer.
    fn tell(&self, side: Side, node: &Node) -> bool {
        let (who, packet) = (node.record, (node.waits == DIRECT).then_some(node.packet));
        let told = node.claim(0);
        self.unlink(side, node);
        if told {
            if let Some(packet) = packet {
                // SAFETY: the packet's owner waits until this is stored.
                unsafe { super::handoff::tell(packet) };
            }
            light::unpark(who);
        }
        told
    }

    fn tell_one(&self, side: Side) -> bool {
        for node in self.nodes(side) {
            let need = node.need;
            if self.tell(side, node) && need > 0 {
                return true;
            }
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn tell_all(&self, side: Side) {
        for node in self.nodes(side) {
            self.tell(side, node);
        }
    }

    /// Takes out the first waiter that can be met: its packet.
    #[inline(always)]
    fn meet(&self, side: Side) -> Option<u64> {
        let list = self.list(side);
        // Relaxed: under the lock.
        let first = list.head.load(Ordering::Relaxed) as *const Node;
        // SAFETY: I1, it is in the list.
        let node = unsafe { first.as_ref() }?;
        if node.waits != DIRECT {
            return self.meet_choice(side);
        }
        let packet = node.packet;
        let next = node.next.get();
        list.head.store(next as u64, Ordering::Relaxed); // Relaxed: under the lock.
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.last.set(null()),
            None => list.tail.set(null()),
        }
        // Release: I1, the last access to the node.
        node.linked.store(0, Ordering::Release);
        Some(packet)
    }

    /// The same where the first is a choice.
    #[inline(never)]
    fn meet_choice(&self, side: Side) -> Option<u64> {
        for node in self.nodes(side) {
            if node.need == 0 {
                continue;
            }
            let packet = node.packet;
            let met = node.claim(MET);
            self.unlink(side, node);
            if met {
                return Some(packet);
            }
        }
        None
    }

    /// I5: looks through the other list. False: `me` is to give up its wait, and try.
    fn clear_way(&self, side: Side, me: &Node, waits_elsewhere: bool) -> bool {
        for node in self.nodes(side) {
            if std::ptr::eq(node.record, me.record) {
                continue;
            }
            if node.need > 0 {
                if !node.is_waiting() {
                    continue;
                }
                if me.need == 0 || !waits_elsewhere || me.record.number < node.record.number {
                    return false;
                }
            }
            self.tell(side, node);
        }
        true
    }
}

impl Locked<'_> {
    /// Releases the lock of a tube without slots.
    #[inline(always)]
    fn unlock_meeting(self) {
        debug_assert!(self.0.meets, "nobody leaves word in it");
        // Release: what was done here; I7.
        self.0.lock.store(0, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.meets {
            // Release: what was done here; nobody leaves a count in it, I7.
            self.0.lock.store(0, Ordering::Release);
            return;
        }
        // SeqCst: what was done here; and it is the waiter's fence, I3 and I6.
        if self.0.lock.compare_exchange(HELD, 0, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            self.unlock_slow();
        }
    }
}

impl Locked<'_> {
    /// I4: does what other threads have left in the lock word.
    #[cold]
    #[inline(never)]
    fn unlock_slow(&self) {
        loop {
            // Acquire: what there is to be told of.
            let left = self.0.lock.swap(HELD, Ordering::Acquire);
            for side in [Side::Recv, Side::Send] {
                if left & TELL_ALL[side as usize] != 0 {
                    self.tell_all(side);
                } else {
                    for _ in 0..(left / TELL[side as usize]) & TELLS {
                        self.tell_one(side);
                    }
                }
            }
            // SeqCst: as in `drop`. Relaxed: once more.
            if self.0.lock.compare_exchange(HELD, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }
}

const _: () = assert!(size_of::<Lights>() <= 48);
