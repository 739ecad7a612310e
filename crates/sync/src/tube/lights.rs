//! Where light threads wait at a tube: a list at each end, under a lock of one word.
//!
//! Synthesis' threads wait in the queue of the object itself, and are resumed by whoever brings what they wait for (synthesis, 4.1.3
//! and 5.3.2). So here: a light thread has no seat in an arena, and needs none. It puts a node, which lies on its stack, into the
//! list of each end that it waits at, and says in its record's word ([`Record::word`]) that it waits:
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-1 | phase | IDLE, WAITING, CLAIMED |
//! | 2 | MET | claimed by somebody who moves a message with it; else told to try |
//! | 3-26 | arm | which of its arms was claimed |
//! | 27-63 | wait | one more each time |
//!
//! ```text
//!   who waits:   word WAITING -- nodes into the lists -- fence -- look -- park ... take the nodes out
//!   who comes:   lock -- first node -- its word WAITING -> CLAIMED -- node out -- unlock -- (message) -- unpark
//! ```
//!
//! Kernel threads wait at the same tubes as ever, by bits in the arena. Where both wait at one end, the two kinds take turns; among
//! light threads it is first in, first out.
//!
//! Invariants:
//! - I1: a node is read and written under the lock only, but for `linked`. Who takes it out says so last; so a thread that finds its node
//!   unlinked needs no lock to let go of it, and one that finds it linked takes the lock first.
//! - I2: of all who claim one wait one wins, since each swaps the same word. A record never goes away, and the number of the wait goes on
//!   across the threads that have it: a claim that comes late fails.
//! - I3: on a tube with slots, who sends has its message there, then looks for light threads, and who waits has its node there, then
//!   looks for messages; a fence on both sides. Where no light thread has ever waited, senders go without theirs: the first to wait
//!   sets the end's mark (`End::admit_lights`), and then makes a fence for all threads.
//! - I4: who finds the lock taken, and only has to tell, leaves word of that in the lock, and goes; who unlocks does it. So sending to a
//!   tube with slots waits for nobody, in a signal handler that has interrupted the holder neither. Only a meeting must know now: it
//!   waits for the lock.
//! - I7: a tube without slots needs neither the fence nor the word for the holder. What its other end has to say (kernel threads that are
//!   counted there, a descriptor to be told, GONE) is said before who says it takes the lock and looks for light threads; who waits has its
//!   node there, and looks at the other end, under the same lock. So one sees the other, and the lock is given back by a plain store. Who
//!   waits at one such end alone has no word either (`direct`): to take its node out is to claim it.
//! - I5: of two light threads that wait for each other none is left alone. Whoever puts its node in looks through the other list under the
//!   same lock. If somebody waits there, and it waits nowhere else yet, it goes and meets it; else the one with the smaller number
//!   gives its wait up and goes, and the other stays where it is.
//! - I6: of a kernel thread and a light thread that wait for each other the light one moves: the kernel thread, which looks after its bit,
//!   tells it to try again, and stays; the light one, which looks after its node is there, gives its wait up (I7).
//!
//! Progress: a light thread that waits holds up nobody. The holder of the lock takes some ns, and cannot park; if the kernel stops it
//! there, meetings at this tube wait for it.
//!
//! In a forked child there are no light threads: whoever first takes the lock there empties the lists.

use super::end::End;
use super::meet::Packet;
use crate::bias::Holds;
use crate::claim::{Aim, Operation, Refused, Taken};
use crate::interrupt::Interrupt;
use crate::wait::Party;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, fence, give_way, pause};
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::{clock, step};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

const PHASE: u64 = 3;
const IDLE: u64 = 0;
const WAITING: u64 = 1;
const CLAIMED: u64 = 2;
const MET: u64 = 4;
const ARM: u32 = 3;
const ARMS: u64 = 0xff_ffff;
const WAIT: u32 = 27;

/// No word of a wait, whose phase is WAITING.
const DIRECT: u64 = 0;

const HELD: u32 = 1;
/// Left by who found the lock taken: so many of an end are to be told, or all.
const TELL: [u32; 2] = [1 << 1, 1 << 15];
const TELLS: u32 = 0x3fff;
const TELL_ALL: [u32; 2] = [1 << 29, 1 << 30];
/// Looks at a lock that is taken before one gives way.
const LOOKS: u32 = 200;

/// Which end of a tube.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
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

/// A place in a list: on the waiter's stack.
pub(crate) struct Node {
    record: &'static Record,
    /// The word while it waits; [`DIRECT`]: whoever takes it out has it.
    waits: u64,
    arm: u32,
    /// 0: it only looks.
    need: u32,
    packet: u64,
    /// 1 while it is in a list.
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
pub(crate) struct Lights {
    lock: AtomicU32,
    /// The process that made it, see the head.
    #[cfg(not(any(feature = "sim", feature = "loom")))]
    incarnation: AtomicU32,
    lists: UnsafeCell<[List; 2]>,
    /// How many have come, to either end.
    came: AtomicU32,
    /// Whose turn it is, where both kinds wait.
    turn: Cell<bool>,
    /// The tube has no slots: I7.
    meets: bool,
}

// SAFETY: I1: nodes and lists are used under the lock alone.
unsafe impl Sync for Lights {}
// SAFETY: I1, as above: the lock goes with it.
unsafe impl Send for Lights {}

/// What an arm is to a light thread: its end, the other end, and the lists.
pub(crate) struct Standing<'t> {
    pub lights: &'t Lights,
    pub side: Side,
    pub own: &'t End,
    pub other: &'t End,
    /// It has no slots.
    pub meets: bool,
}

struct Locked<'l>(&'l Lights);

impl Lights {
    #[inline(always)]
    pub const fn new(meets: bool) -> Lights {
        const fn list() -> List {
            List { head: AtomicU64::new(0), tail: Cell::new(null()) }
        }
        Lights {
            lock: AtomicU32::new(0),
            #[cfg(not(any(feature = "sim", feature = "loom")))]
            incarnation: AtomicU32::new(0),
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

    /// Whether nobody was in that list just now.
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

    /// The lock, or word for its holder.
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
                // More than there is room for: all.
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

    /// A lock that another thread of the parent held when this process was forked is free here.
    fn free_inherited(&self) {
        #[cfg(not(any(feature = "sim", feature = "loom")))]
        {
            // Relaxed: a number.
            let made = self.incarnation.load(Ordering::Relaxed);
            let now = chappe_plat::process::incarnation() as u32;
            // Relaxed: one of the child's threads does it.
            if made != 0
                && made != now
                && self.incarnation.compare_exchange(made, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                self.clear();
                // Release: the lists are empty.
                self.lock.store(0, Ordering::Release);
            }
        }
    }

    /// By the holder: forgets what a parent's threads have left here.
    #[inline(always)]
    fn purge(&self) {
        #[cfg(not(any(feature = "sim", feature = "loom")))]
        {
            // Relaxed: a number, under the lock.
            let made = self.incarnation.load(Ordering::Relaxed);
            if made != 0 && !chappe_plat::process::is_incarnation(made) {
                self.clear();
                self.incarnation.store(0, Ordering::Relaxed); // Relaxed: as above.
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

    /// Tells the first that waits at an end, if any does, and all that only look; false: nobody waits, or another will do it.
    pub fn tell_one(&self, side: Side) -> bool {
        self.lock_or_leave(TELL[side as usize], true).is_some_and(|locked| locked.tell_one(side))
    }

    /// Tells all. At a tube without slots the caller has seen that there may be some.
    pub fn tell_all(&self, side: Side) {
        if !self.meets && self.is_empty(side) {
            return;
        }
        if let Some(locked) = self.lock_or_leave(TELL_ALL[side as usize], false) {
            locked.tell_all(side);
        }
    }

    /// Meets the first that waits there: its packet.
    #[inline(always)]
    pub fn meet(&self, side: Side) -> Option<u64> {
        if self.is_empty(side) {
            return None;
        }
        self.lock().meet(side)
    }

    /// A light thread meets who came first at the other end of a tube without slots, if that is a light thread and no kernel thread may be there.
    #[inline(always)]
    pub fn meet_first(&self, side: Side, end: &End) -> Option<u64> {
        if self.is_empty(side) {
            return None;
        }
        let locked = self.lock();
        if end.is_awaited_by_others() { None } else { locked.meet(side) }
    }

    /// A light thread comes to a tube without slots, to one end and nowhere else: one look at both ends, I7.
    #[inline(always)]
    pub fn come(&self, side: Side, other: &End, node: &Node, front: bool) -> Comes {
        let locked = self.lock();
        if other.is_awaited_by_others() {
            return Comes::Seated;
        }
        if !self.is_empty(side.other()) {
            if let Some(packet) = locked.meet(side.other()) {
                return Comes::Meets(packet);
            }
            // They only look.
            locked.tell_all(side.other());
        }
        if other.is_gone() {
            return Comes::Gone;
        }
        locked.push(side, node, front);
        Comes::Waits
    }

    /// Takes a node out whose thread waits no longer. False: somebody else has, and will say so in its packet.
    pub fn withdraw(&self, side: Side, node: &Node) -> bool {
        let locked = self.lock();
        // Relaxed: under the lock.
        let linked = node.linked.load(Ordering::Relaxed) != 0;
        if linked {
            locked.unlink(side, node);
        }
        linked
    }

    /// Whether somebody waits there whom one could meet.
    pub fn is_awaited(&self, side: Side) -> bool {
        (self.meets || !self.is_empty(side)) && self.lock().nodes(side).any(|node| node.need > 0 && node.is_waiting())
    }

    /// How many light threads have ever come to wait at either end.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Acquire).into() // Acquire: before a look at who waits.
    }

    /// Whose turn it is: false, light threads'.
    pub fn take_turn(&self) -> bool {
        // A hint: a turn may count twice.
        self.turn.replace(!self.turn.get())
    }
}

/// What a light thread finds that comes to a tube without slots.
pub(crate) enum Comes {
    /// Somebody waited, whose packet this is.
    Meets(u64),
    /// Nobody will ever be there.
    Gone,
    /// Kernel threads may be there.
    Seated,
    /// Nobody: it waits.
    Waits,
}

impl Node {
    /// One whose packet says all that becomes of it.
    #[inline(always)]
    pub fn direct(record: &'static Record, packet: &Packet) -> Node {
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
        // Acquire: what who gave up did before.
        self.record.word.load(Ordering::Acquire) == self.waits
    }

    /// Of all who claim this wait one wins. It is to be taken out in any case: if another was faster it waits no longer.
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

    /// The nodes; each may be taken out when it is its turn.
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
        #[cfg(not(any(feature = "sim", feature = "loom")))]
        // Relaxed: under the lock.
        if self.0.incarnation.load(Ordering::Relaxed) == 0 {
            // Relaxed: as above.
            self.0.incarnation.store(chappe_plat::process::incarnation() as u32, Ordering::Relaxed);
        }
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
        // Release: I1, the last that is done with it.
        node.linked.store(0, Ordering::Release);
    }

    /// Tells one to try again, and takes it out. False: it waits no longer.
    fn tell(&self, side: Side, node: &Node) -> bool {
        let (who, packet) = (node.record, (node.waits == DIRECT).then_some(node.packet));
        let told = node.claim(0);
        self.unlink(side, node);
        if told {
            if let Some(packet) = packet {
                // SAFETY: its owner waits until this is said.
                unsafe { super::meet::tell(packet) };
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

    #[inline(always)]
    fn meet(&self, side: Side) -> Option<u64> {
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

    /// I5: looks through the other list. False: it is to go and try.
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

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.meets {
            // Release: what was done here; nobody leaves word in it, I7.
            self.0.lock.store(0, Ordering::Release);
            return;
        }
        // SeqCst: what was done here; and it is the fence of who waits, I3 and I6.
        if self.0.lock.compare_exchange(HELD, 0, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            self.unlock_slow();
        }
    }
}

impl Locked<'_> {
    /// I4: does what others have left word of.
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
    let is_interrupted = || hope.by.is_some_and(Interrupt::has_come);
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
            return Ok((at, super::body::met_by(hope.packet)));
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
            standing.other.is_gone() || super::meet::is_awaited_by_light(standing.other)
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

const _: () = assert!(size_of::<Lights>() <= 48);
