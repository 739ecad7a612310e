//! An end of a tube: which threads wait there, and how they are told that there is something for them.
//!
//! A tube has two ends: receivers wait for messages at one, senders wait for holes at the other. Messages and holes are in the
//! ring. An end has the wait set, which is an object of the arena made when a thread first waits there; the number of its
//! handles; two counts that say when it turns (below), and a descriptor, if a caller has asked for one; and one word:
//!
//! | bits | field | |
//! |---|---|---|
//! | 0-31 | waiting | how many wait here and have not been told, or a few more |
//! | 32 | GONE | set when the last handle of this end goes, or by `close`: there will never be a handle here again |
//! | 33 | EVENT | a descriptor is to be made readable when there is something for this end |
//! | 34 | LIGHT | a light thread has waited here, or is about to: see `lights` |
//! | 35 | SURE | every thread sees LIGHT by now |
//! | 36 | TURNING | a waiter is about to set BOTH |
//! | 37 | BOTH | waiters come often: the acting side makes a full fence, and a waiter makes its own one alone |
//! | 38 | LEFT | at the senders' end of a tube without slots: messages are left there (`left`), so receivers look for one |
//! | 39 | COMES | with EVENT, at the receivers' end: a receiver has found nothing, and comes again when it is told (`left`, F1) |
//! | 40-63 | came | one more with each waiter that has come here: so a choice that looks twice sees that one has (`mark`, `lull`) |
//!
//! ```text
//!   waiter:    waiting + 1 -- fence for all threads -- look at the ring -- sleep
//!   sender:    message there -- fence for itself -- waiting? -- tell the first of them; waiting - 1
//! ```
//!
//! The fence for all threads interrupts every processor that runs one of them. It takes some microseconds, which pays where a thousand
//! messages go by without a wait. Where a wait comes with every few messages ([`OFTEN`]) the end *turns*: TURNING, one more fence for
//! all threads, BOTH. From then on the sender that finds either bit makes a full fence and looks again, and the waiter needs no help
//! of the kernel. After [`CALM`] such looks that found no waiter the sender clears BOTH.
//!
//! A waiter is told, not granted: it wakes up, and tries again. If another thread was faster, it waits again in its old place. So the
//! order among receivers is that of their takes. In return a message for which nobody waits costs one load of a word that hardly ever
//! changes.
//!
//! Invariants:
//! - I1: a waiter has set its bit and counted itself before the fence. So of a waiter and a sender, one sees the other (the asymmetric
//!   fence, see the ring's E2): the waiter finds the message, or is told.
//! - I2: each message tells one waiter that would take it, and so does each hole; waiters that only look are told besides. Several
//!   holes may come at once (the ring's I5): so a waiter that was told and has taken something looks for more, and tells the next.
//! - I3: each wait is subtracted from `waiting` once: by the thread that told the waiter, after the wake; else by the waiter. Recovery
//!   does not know the end, so it tells with [`AFTER_DEATH`], and the waiter subtracts itself. While a told waiter is still counted, other
//!   threads walk the wait set, and repeat the wake if the teller was stopped before it.
//! - I4: GONE is set before all waiters are told, and before the look at the waiters; a waiter looks at GONE after I1's fence. So no
//!   thread sleeps at an end whose other end has gone.
//! - I5: a waiter that finds BOTH after it was counted needs only its own fence. The acting thread reads one of three states. From
//!   before TURNING: then the fence of the turning thread came after the message, and before BOTH. TURNING or BOTH: then the acting
//!   thread makes a fence of its own, and one of the two sees the other. From after BOTH was cleared: then it finds the count as well.
//!   Only the thread that set TURNING clears it, and BOTH is cleared only where TURNING is not set: so BOTH never stands for another
//!   turn's fence.
//!
//! A descriptor that is watched elsewhere (epoll, a runtime) is told like a waiter, by the thread that clears EVENT. A watcher that has
//! found nothing sets EVENT again, and then looks, as in I1.
//!
//! A thread that only looks (a choice's `ready`) waits with need 0, is told besides, and takes nothing.
//!
//! Explored: `tests/crash_tube.rs`.

use crate::mark::Mark;
use crate::owner::unheld;
use crate::wait::{AFTER_DEATH, Candidate, MET, RETRY, each, make_up, tell};
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{Admin, ArenaError, Map, Place};
use chappe_plat::atomic::{self, AtomicU32, AtomicU64, Ordering, give_way, pause};
use chappe_plat::poll::Event;
use chappe_plat::{Life, Made, fence, step};

const GONE: u64 = 1 << 32;
const EVENT: u64 = 1 << 33;
const LIGHT: u64 = 1 << 34;
const SURE: u64 = 1 << 35;
const TURNING: u64 = 1 << 36;
const BOTH: u64 = TURNING << 1;
const LEFT: u64 = BOTH << 1;
const COMES: u64 = LEFT << 1;
const WAITING: u64 = GONE - 1;
/// What a waiter adds: one in `waiting`, one in `came`.
const ONE: u64 = 1 | COMES << 1;
/// The end turns if no more messages than these go by between two waits: a fence for all threads costs as much as some
/// hundred full ones.
const OFTEN: u64 = 256;
/// After so many looks without a waiter the end turns back.
const CALM: u32 = 1024;
/// How often `mark` looks again at waiters that are just coming or going.
const TURNS: u32 = if cfg!(any(feature = "sim", feature = "loom")) { 1 } else { 128 };

/// One end of a tube. Small, since there are programs with a hundred thousand tubes: senders and receivers read both
/// ends, and only a waiter, or a thread that tells a waiter, writes.
pub struct End {
    state: AtomicU64,
    /// Handles of this end.
    handles: AtomicU64,
    map: &'static Map,
    rare: Made<Rare>,
}

/// What an end has where a kernel thread has waited, or a caller has asked for a descriptor.
#[derive(Default)]
struct Rare {
    place: Made<Place>,
    /// How many messages had gone in at the last fence for all threads, plus one; 0: there was none.
    last: AtomicU64,
    /// How many looks have found BOTH and no waiter since the last wait.
    calm: AtomicU32,
    event: Made<Event>,
}

impl End {
    /// An end with one handle.
    #[inline(always)]
    pub fn new(map: &'static Map) -> End {
        fence::prepare();
        End { state: AtomicU64::new(0), handles: AtomicU64::new(1), map, rare: Made::new() }
    }

    #[inline]
    fn made_place(&self) -> Option<&Place> {
        self.rare.get()?.place.get()
    }

    fn made_event(&self) -> Option<&Event> {
        self.rare.get()?.event.get()
    }

    /// A descriptor that is readable when there is something for this end, once it was armed; and whether it is new.
    ///
    /// # Errors
    /// The system's.
    #[inline]
    pub fn event(&self) -> std::io::Result<(&Event, bool)> {
        let event = &self.rare.get_or(Rare::default).event;
        let is_new = event.get().is_none();
        Ok((event.get_or_try(Event::new)?, is_new))
    }

    /// From now on the descriptor becomes readable when something comes for this end. `comes`: a receiver will come then.
    #[inline]
    pub fn arm(&self, comes: bool) {
        if let Some(event) = self.made_event() {
            event.clear();
            // SeqCst: I1, before the fence.
            self.state.fetch_or(if comes { EVENT | COMES } else { EVENT }, Ordering::SeqCst);
            fence::heavy();
        }
    }

    /// Makes the descriptor readable, if it is armed: whether a receiver was to come then.
    #[inline]
    pub fn signal(&self) -> bool {
        let Some(event) = self.made_event() else { return false };
        // AcqRel: what there is comes before the signal. Once: only the thread that clears the bit signals.
        let before = self.state.fetch_and(!(EVENT | COMES), Ordering::AcqRel);
        if before & EVENT != 0 {
            event.signal();
        }
        before & COMES != 0
    }

    /// Whether a receiver comes if the descriptor is made readable.
    #[inline]
    pub fn comes(&self) -> bool {
        // SeqCst: `left`, F2, after the fence.
        self.state.load(Ordering::SeqCst) & COMES != 0
    }

    /// From now on a message may have been left here.
    #[inline]
    pub fn leaves(&self) {
        // Relaxed: never cleared. SeqCst: `left`, F4, before the message.
        if self.state.load(Ordering::Relaxed) & LEFT == 0 {
            self.state.fetch_or(LEFT, Ordering::SeqCst);
        }
    }

    /// A light thread is about to wait here: from now on threads that have something for this end look for light
    /// threads. `slots`: the tube has slots, so a thread that has just sent or received may not have looked yet.
    #[inline(always)]
    pub fn admit_lights(&self, slots: bool) {
        if !self.admits_lights() {
            self.admit_first(slots);
        }
    }

    /// Whether `admit_lights` was done.
    #[inline(always)]
    pub fn admits_lights(&self) -> bool {
        // Acquire: the fence of the thread that first set SURE comes before our look at the other end.
        self.state.load(Ordering::Acquire) & SURE != 0
    }

    #[cold]
    #[inline(never)]
    fn admit_first(&self, slots: bool) {
        // SeqCst: before the fence.
        self.state.fetch_or(LIGHT, Ordering::SeqCst);
        if slots {
            fence::heavy();
        }
        // Release: after the fence.
        self.state.fetch_or(SURE, Ordering::Release);
    }

    /// Whether light threads may wait here.
    #[inline(always)]
    pub fn has_lights(&self) -> bool {
        // Relaxed: after the caller's fence, or a hint.
        self.state.load(Ordering::Relaxed) & LIGHT != 0
    }

    /// The same after the other end has gone (lights, I7).
    #[inline(always)]
    pub fn may_have_lights(&self) -> bool {
        // SeqCst: after GONE was set there, by a SeqCst operation.
        self.state.load(Ordering::SeqCst) & LIGHT != 0
    }

    /// Whether a kernel thread waits here, a descriptor is to be told, or a message may have been left: after the caller's fence, or under the lock
    /// of the light threads.
    #[inline(always)]
    pub fn is_awaited_by_others(&self) -> bool {
        // SeqCst: after the fence.
        self.state.load(Ordering::SeqCst) & (WAITING | EVENT | LEFT) != 0
    }

    /// Whether no kernel thread waits here, no descriptor is to be told, no message was left, and the end has not gone: under the lock of
    /// the light threads.
    #[inline(always)]
    pub fn is_deserted(&self) -> bool {
        // SeqCst: as above, and in `is_gone`.
        self.state.load(Ordering::SeqCst) & (WAITING | EVENT | LEFT | GONE) == 0
    }

    /// Whether a waiter is counted here.
    #[inline(always)]
    pub fn has_waiters(&self) -> bool {
        // SeqCst: after the caller's lock, which a waiter takes after it was counted.
        self.state.load(Ordering::SeqCst) & WAITING != 0
    }

    #[inline(always)]
    pub fn map(&self) -> &'static Map {
        self.map
    }

    /// Another handle.
    #[inline]
    pub fn enter(&self) {
        // Relaxed: a caller that makes a handle has one.
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// One handle less. True: it was the last, and the end has gone.
    #[inline(always)]
    pub fn leave(&self) -> bool {
        // Acquire: what was done with any handle comes before the end is gone; nobody copies the only handle meanwhile.
        // AcqRel: as above.
        if self.handles.load(Ordering::Acquire) != 1 && self.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return false;
        }
        // SeqCst: I4.
        self.state.fetch_or(GONE, Ordering::SeqCst);
        true
    }

    /// Makes the end as if all handles had gone. True: it was not so before.
    #[cfg(not(feature = "sim"))]
    #[inline]
    pub fn close(&self) -> bool {
        // SeqCst: I4.
        self.state.fetch_or(GONE, Ordering::SeqCst) & GONE == 0
    }

    /// Whether this end has gone.
    #[inline(always)]
    pub fn is_gone(&self) -> bool {
        // Acquire: what was done before the end went.
        self.state.load(Ordering::Acquire) & GONE != 0
    }

    /// Whether a thread may wait here that does not see what was done before this.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        // I1.
        fence::light();
        // Relaxed: after the fence.
        self.state.load(Ordering::Relaxed) & (WAITING | EVENT | LIGHT | TURNING | BOTH) != 0
    }

    /// Whether nobody is to be told, after all: the acting side's full fence and second look where the end has turned,
    /// I5.
    #[inline(always)]
    pub fn is_calm(&self) -> bool {
        // Relaxed: what the look before has seen, or later. With LIGHT the caller makes the fence.
        let state = self.state.load(Ordering::Relaxed);
        if state & (TURNING | BOTH) == 0 || state & LIGHT != 0 {
            return false;
        }
        // SeqCst: I5, between the message and the look.
        atomic::fence(Ordering::SeqCst);
        let state = self.state.load(Ordering::Relaxed); // Relaxed: after the fence.
        if state & (WAITING | EVENT | LIGHT) != 0 {
            return false;
        }
        if state & (TURNING | BOTH) == BOTH {
            self.count_calm(state);
        }
        true
    }

    /// Counts a look that found no waiter. After many the end turns back.
    fn count_calm(&self, state: u64) {
        let Some(rare) = self.rare.get() else { return };
        // Relaxed, both: a hint; what two threads count at once may count as one.
        let calm = rare.calm.load(Ordering::Relaxed) + 1;
        rare.calm.store(if calm < CALM { calm } else { 0 }, Ordering::Relaxed);
        if calm >= CALM {
            // SeqCst: I5. A failure: a waiter came.
            let _ = self.state.compare_exchange(state, state & !BOTH, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Whether the waiter's own fence is enough. Called after the waiter was counted.
    #[inline(always)]
    pub fn is_turned(&self) -> bool {
        // Acquire: I5, behind the fence of the thread that turned.
        let turned = self.state.load(Ordering::Acquire) & BOTH != 0;
        if turned && let Some(rare) = self.rare.get() {
            rare.calm.store(0, Ordering::Relaxed); // Relaxed: a hint.
        }
        turned
    }

    /// The waiter is about to make a fence for all threads: whether the end turns with it, since waits come often.
    /// `gone_in`: how many messages have gone in. True: [`End::turn`] follows.
    #[inline]
    pub fn turns(&self, gone_in: u64) -> bool {
        let Some(rare) = self.rare.get() else { return false };
        let now = gone_in.wrapping_add(1);
        // Relaxed: a hint.
        let last = rare.last.swap(now, Ordering::Relaxed);
        fence::is_asymmetric() && last != 0 && now.wrapping_sub(last) < OFTEN && self.begin_turn()
    }

    /// Sets TURNING. False: it is set already, or the end has turned.
    #[inline]
    pub fn begin_turn(&self) -> bool {
        // Relaxed: the swap decides.
        let state = self.state.load(Ordering::Relaxed);
        state & (TURNING | BOTH) == 0
            // SeqCst: I5, before the fence. A failure: others come and go; another time.
            && self.state.compare_exchange(state, state | TURNING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The thread that set TURNING has made its fence, or could not.
    #[inline]
    pub fn turn(&self, is_fenced: bool) {
        // No other thread changes either bit meanwhile, so the sum carries from TURNING into BOTH.
        if is_fenced {
            self.state.fetch_add(TURNING, Ordering::Release); // Release: I5, behind the fence.
        } else {
            self.state.fetch_sub(TURNING, Ordering::Relaxed); // Relaxed: it publishes nothing.
        }
    }

    /// Tells one kernel thread that waits here, if there is one, that there is something for it: whether it has. The
    /// message or hole is there already.
    #[cold]
    #[inline(never)]
    pub fn tell_one(&self) -> bool {
        step!("there, nobody told yet");
        self.signal();
        loop {
            let mut first: Option<Candidate> = None;
            self.each(|c| {
                if !c.state.is_waiting() {
                    make_up(self.map, c.member, c.state);
                } else if c.need == 0 {
                    self.tell(c, RETRY);
                } else if first.is_none_or(|f| c < f) {
                    first = Some(c);
                }
            });
            match first {
                // It was granted something else, or gave up: the next one.
                Some(c) if !self.tell(c, RETRY) => {}
                Some(_) => return true,
                None => return false,
            }
        }
    }

    /// Tells all that wait here.
    #[inline(always)]
    pub fn tell_all(&self) {
        // SeqCst: I4, after GONE.
        if self.state.load(Ordering::SeqCst) & (WAITING | EVENT) != 0 {
            self.tell_each();
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_each(&self) {
        self.signal();
        self.each(|c| {
            if c.state.is_waiting() {
                self.tell(c, RETRY);
            } else {
                make_up(self.map, c.member, c.state);
            }
        });
    }

    /// Tells the waiters that only look.
    #[inline]
    pub fn tell_lookers(&self) {
        self.signal();
        self.each(|c| {
            if c.state.is_waiting() && c.need == 0 {
                self.tell(c, RETRY);
            }
        });
    }

    /// Whether a waiter can be met: its packet is known.
    #[inline]
    pub fn meets(&self, who: Candidate) -> bool {
        // Acquire: I1 of the meetings.
        self.map.member(who.member).packet.load(Ordering::Acquire) != 0
    }

    /// The first among the waiters that can be met and do not only look; this member aside.
    #[inline]
    pub fn first_met_but(&self, member: u32) -> Option<Candidate> {
        self.first_of(member, |c| self.meets(c))
    }

    /// The first among the waiters that do not only look; this member aside.
    #[inline]
    pub fn first_but(&self, member: u32) -> Option<Candidate> {
        self.first_of(member, |_| true)
    }

    #[inline]
    fn first_of(&self, member: u32, also: impl Fn(Candidate) -> bool) -> Option<Candidate> {
        let mut first: Option<Candidate> = None;
        self.each(|c| {
            if !c.state.is_waiting() && c.member != member {
                make_up(self.map, c.member, c.state);
            }
            let counts = c.state.is_waiting() && c.need > 0 && c.member != member;
            if counts && first.is_none_or(|f| c < f) && also(c) {
                first = Some(c);
            }
        });
        first
    }

    /// A look, for a choice, at the waiters that this member could meet: see `lull`. A member that is counted and not
    /// seen to wait is just coming or going; the look is repeated for a while.
    #[inline]
    pub fn mark(&self, member: u32) -> Mark {
        let mut turn = 0;
        loop {
            turn += 1;
            // SeqCst: before the look at the waiters.
            let before = self.state.load(Ordering::SeqCst) & !(EVENT | COMES | TURNING | BOTH);
            let (mut waiting, mut others) = (0, false);
            self.each(|c| {
                if !c.state.is_waiting() {
                    make_up(self.map, c.member, c.state);
                    return;
                }
                waiting += 1;
                others |= c.need > 0 && c.member != member && self.meets(c);
            });
            if others {
                return Mark::Something;
            }
            if waiting == before & WAITING || turn == TURNS {
                return Mark::Nothing(before);
            }
            if turn % 8 == 0 { give_way() } else { pause() }
        }
    }

    /// Each member that waits here, or has waited and been told.
    #[inline]
    fn each(&self, see: impl FnMut(Candidate)) {
        // SeqCst: I4; and the waiter's object is visible with its count.
        if self.state.load(Ordering::SeqCst) & WAITING != 0
            && let Some(place) = self.made_place()
        {
            #[cfg(not(any(feature = "sim", feature = "loom")))]
            // In a forked child, the parent's waiters do not count.
            crate::private::usable();
            each(self.map, *place, see);
        }
    }

    /// Tells a waiter, by granting `what`. False: it no longer waits as was seen.
    #[inline]
    pub fn tell(&self, who: Candidate, what: u32) -> bool {
        let Some(place) = self.made_place() else { return false };
        let told = tell(self.map, who.member, who.state, place.index, what);
        if told {
            step!("told, not yet counted off");
            self.count_off();
        }
        told
    }

    fn count_off(&self) {
        // Release: I3, after the wake.
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Makes the object, if it is not made.
    ///
    /// # Errors
    /// As [`Map::make`].
    #[inline]
    pub fn prepare(&self) -> Result<(), ArenaError> {
        if self.made_place().is_none() {
            let admin = self.map.admin();
            self.rare.get_or(Rare::default).place.get_or_try(|| make(self.map, &admin, 0))?;
        }
        Ok(())
    }

    /// Where the object is; it is made before a thread waits.
    #[inline]
    pub fn place(&self) -> Place {
        const NOWHERE: Place = Place { index: u32::MAX, head: Head(0) };
        self.made_place().copied().unwrap_or(NOWHERE)
    }

    /// A member's bit is about to be set. Before it, lest a thread that sees the bit subtracts it first.
    #[inline]
    pub fn enlists(&self) {
        // SeqCst: I1, before the fence.
        self.state.fetch_add(ONE, Ordering::SeqCst);
    }

    /// A member's wait is over. `what`: what was granted to it here, if anything was.
    #[inline]
    pub fn left(&self, what: Option<u32>) {
        // I3.
        if !what.is_some_and(|what| matches!(what & !1, RETRY | MET)) {
            self.count_off();
        }
    }
}

impl Drop for End {
    #[inline(always)]
    fn drop(&mut self) {
        if self.rare.get().is_some() {
            self.unmake();
        }
    }
}

impl End {
    #[cold]
    fn unmake(&mut self) {
        if let Some(place) = self.made_place() {
            #[cfg(not(feature = "sim"))]
            // In a forked child, this makes the copy of the private arena usable first.
            crate::private::usable();
            let admin = self.map.admin();
            self.map.unmake(&admin, *place);
        }
    }
}

/// Makes the object of an end: of a private tube (0), or of a named one that will say which. The caller holds `admin`.
#[inline]
pub fn make(map: &'static Map, admin: &Admin, tube: u32) -> Result<Place, ArenaError> {
    map.make(admin, "", Kind::End, |index, generation| {
        let o = map.object(index);
        o.permits.store(0, Ordering::Relaxed); // Relaxed: published by the head.
        o.more.store(0, Ordering::Relaxed); // Relaxed: published by the head.
        o.hint.store(tube, Ordering::Relaxed); // Relaxed: published by the head.
        // Release: what the slot's last user did comes before.
        o.slot.word.store(unheld(generation), Ordering::Release);
        Ok(())
    })
}

/// After a death: nobody knows what the dead process was about to tell, so all waiters try again.
#[inline]
pub fn wake_after_death(map: &Map, object: u32, head: Head) {
    each(map, Place { index: object, head }, |c| {
        if c.state.is_waiting() {
            if map.member(c.member).life.probe() != Life::Dead {
                tell(map, c.member, c.state, object, AFTER_DEATH);
            }
        } else {
            make_up(map, c.member, c.state);
        }
    });
}
