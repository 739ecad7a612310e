//! The public interface of barriers.

use super::arm::Arrived;
use super::error::{BarrierError, Broke, Turn};
use super::round::{self, Cause, MOST_PARTIES, Not, Outcome, Rounds};
use crate::handle::Handle;
use crate::named::{Named, NamedKind};
use crate::registry::ArenaOptions;
use chappe_arena::layout::{BLOCK, Kind, USUAL_MEMBERS};
use chappe_arena::{Admin, ArenaError, Joined, Map, Place};
use chappe_plat::{clock, process};
use chappe_wait::attachment::{ThreadAttachment, Within, attachment, enter, party, tidy, watched, watched_meanwhile};
use chappe_wait::body::{Body, blocks_wanted};
use chappe_wait::claim::wait_for;
use chappe_wait::operation::{Refused, WaitSpec};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::Parties;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// The state of a barrier, in single looks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BarrierInfo {
    /// For how many parties it was made.
    pub parties: u32,
    /// How many have arrived in the round under way.
    pub arrived: u32,
    /// How many have joined.
    pub joined: u32,
    /// How many died that had joined, and whose places nobody has taken yet: no round waits for these.
    pub dead: u32,
    /// How many rounds have turned.
    pub rounds: u64,
    /// Whether it is broken, and how. (Which process died is told to those that wait.)
    pub broken: Option<&'static str>,
    /// Whether it breaks when a party dies while it waits.
    pub breaks_on_death: bool,
}

/// The state of a barrier in a body; `None` if its shape is impossible.
pub(crate) fn info(body: Body<'_>) -> Option<BarrierInfo> {
    let rounds = Rounds::of(body)?;
    let round::Figures { parties, arrived, joined, dead, rounds: turned, broken } = rounds.figures();
    let broken = broken.map(|cause| match cause {
        Cause::Reset => "reset",
        Cause::Aborted => "aborted",
        Cause::TimedOut => "timed out",
        Cause::Died => "a party died",
    });
    let breaks_on_death = rounds.breaks;
    Some(BarrierInfo { parties, arrived, joined, dead, rounds: turned, broken, breaks_on_death })
}

/// A cyclic barrier: each round, `parties` threads or processes wait until all have arrived; then all go on, and the next round begins. For the
/// threads of this process (private), or by name for any process.
///
/// Parties: a thread *joins* a named barrier by its first [`wait`](Barrier::wait) (or by [`join`](Barrier::join), before), and each round from then on waits for
/// it, until it [leaves](Barrier::leave), ends, or dies. One that waits by [`wait_once`](Barrier::wait_once) is a party of that round only. A barrier that is
/// private, or that breaks when a party dies, has no list of its parties: any thread may come to any round.
///
/// Blocks: `wait` and its variants, until the round turns. An arrival makes no system call but that of its own wait, and none if
/// the round turns while the thread still spins. The last arrival wakes each thread that sleeps, by one call each. A thread that is stopped in the middle
/// of that holds up those that sleep until any other comes, or wakes up there.
///
/// Memory: what a party wrote before it arrived, all others see once the round has turned.
///
/// Deaths: a party that dies does not block the others, also if it dies between two rounds. No round waits for it, until another takes its
/// place; for one that waited once, only the round in which it died does not. Each of the others is told once, by
/// [`BarrierError::PartyDied`], at the turn of that round (not if it breaks). When no party is left, it is as if none had come: those that come then wait
/// for all. So if the only party that is there dies, the others wait for another in its place. A death is found while a party waits or asks
/// [`Arrival::is_over`], or when a thread joins the arena or asks for a place in vain.
///
/// A barrier that was made with [`create_breaking`](Barrier::create_breaking) breaks when a party dies while it waits, as Python's do: all get
/// [`BarrierError::Broken`] until it is reset. It does not notice one that dies between two rounds: the others wait, so use
/// [`wait_timeout_or_break`](Barrier::wait_timeout_or_break). A barrier that is broken stays so until it is reset, also if no party is left.
///
/// A thread that ends leaves; of a process that exits, the first thread and all others that have not left count as dead.
///
/// Fairness: all parties of a round go on at its turn; they wake in no certain order. A new party takes a free place, and if there is none that of one that
/// died. So a party that is started again may take the place of one that lives and has not come yet; the round then turns without that one, which takes the
/// dead one's place in the next.
///
/// Signals: a handled signal does not end a wait (except inside of [`interruptible`](crate::interruptible)). A handler may look ([`info`](Barrier::info)),
/// but not wait, nor ask [`Arrival::is_over`]. In a forked child a private barrier is a copy in which nobody has arrived (as soon as the child uses something private: before,
/// [`info`](Barrier::info) shows the parent's arrivals); arrivals and places at a named one are the parent's.
///
/// Sizes: 1 to 65,535 parties, and not more than the arena has room for members (4,095 in one of the usual size; one that is made for the barrier has
/// enough); 16 bytes for each of these members. A thread arrives once at a time.
///
/// ```
/// use chappe_sync::Barrier;
/// let barrier = Barrier::private(3)?;
/// let firsts: u32 = std::thread::scope(|s| {
///     let all = [(); 3].map(|()| s.spawn(|| barrier.wait().unwrap()));
///     all.into_iter().map(|t| u32::from(t.join().unwrap().index == 0)).sum()
/// });
/// assert_eq!(firsts, 1);
/// assert_eq!(barrier.info()?.rounds, 1);
/// # Ok::<(), chappe_sync::BarrierError>(())
/// ```
#[derive(Clone)]
pub struct Barrier {
    pub(crate) handle: Handle,
    pub(crate) rounds: Rounds<'static>,
}

impl std::fmt::Debug for Barrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Barrier({:?})", self.name())
    }
}

/// For how many parties, and whether a death breaks it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    parties: u32,
    breaks: bool,
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} parties{}", self.parties, if self.breaks { ", breaking when one dies" } else { "" })
    }
}

impl NamedKind for Barrier {
    const KIND: Kind = Kind::Barrier;
    type Error = BarrierError;
    type Plan<'a> = Plan;
    fn room(plan: &Plan) -> Result<ArenaOptions, BarrierError> {
        if !(1..=MOST_PARTIES).contains(&plan.parties) {
            return Err(BarrierError::Parties { parties: plan.parties.into(), most: MOST_PARTIES });
        }
        // With room for those that only look.
        let members = plan.parties.saturating_add(64).clamp(USUAL_MEMBERS, MOST_PARTIES);
        let (bytes, _) = round::plan(members, plan.parties, plan.breaks);
        let options = ArenaOptions::with_room(u64::from(blocks_wanted(bytes, members)) * BLOCK as u64);
        Ok(if members > USUAL_MEMBERS { ArenaOptions { members: Some(members), ..options } } else { options })
    }
    fn lay_out(plan: &Plan, map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        let members = map.geometry().members;
        if plan.parties > members {
            let what = format!(
                "make a barrier of {} parties in arena `{}`, which has room for {members} members",
                plan.parties,
                map.name()
            );
            return Err(ArenaError::Io { what, source: io::ErrorKind::InvalidInput.into() });
        }
        round::make(map, admin, name, plan.parties, plan.breaks)
    }
    fn attach(handle: Handle, wanted: Option<&Plan>) -> Result<Barrier, BarrierError> {
        let Some(rounds) = Body::of(handle.map, handle.place).and_then(Rounds::of) else {
            return Err(BarrierError::Dead { barrier: handle.shown() });
        };
        let has = Plan { parties: rounds.parties, breaks: rounds.breaks };
        match wanted {
            Some(wanted) if *wanted != has => {
                let (name, has, wanted) = (handle.name(), has.to_string(), wanted.to_string());
                Err(BarrierError::OtherShape { name, has, wanted })
            }
            _ => Ok(Barrier { handle, rounds }),
        }
    }
    fn in_use(handle: &Handle) -> Option<String> {
        let info = info(Body::of(handle.map, handle.place)?)?;
        let used = info.arrived + info.joined > 0 || handle.map.anybody_waits(handle.place.index);
        used.then(|| format!("{} of {} parties have arrived, {} have joined", info.arrived, info.parties, info.joined))
    }
}

impl Barrier {
    /// The most parties.
    pub const MOST_PARTIES: u32 = MOST_PARTIES;

    /// Makes a barrier for so many threads of this process.
    ///
    /// # Errors
    /// `Parties`; `Object` if the private arena is full, or there is no address space for it.
    pub fn private(parties: u32) -> Result<Barrier, BarrierError> {
        Named::private(&Plan { parties, breaks: false })
    }

    /// Attaches a barrier by name: `ready`, or `lab/ready` for one in arena `lab`.
    ///
    /// # Errors
    /// `Object`: there is none, or it is something else.
    pub fn open(name: &str) -> Result<Barrier, BarrierError> {
        Named::open(name)
    }

    /// Makes a barrier for so many parties by name, and its arena if need be. A party that dies does not block the others.
    ///
    /// # Errors
    /// `Parties`; `Object`: there is one already, or the arena has no room.
    pub fn create(name: &str, parties: u32) -> Result<Barrier, BarrierError> {
        Named::make(name, &Plan { parties, breaks: false }, false)
    }

    /// Attaches a barrier by name, or makes it.
    ///
    /// # Errors
    /// `OtherShape`: it is there with other parties, or breaks when one dies; else as [`Barrier::open`] and [`Barrier::create`].
    pub fn open_or_create(name: &str, parties: u32) -> Result<Barrier, BarrierError> {
        Named::make(name, &Plan { parties, breaks: false }, true)
    }

    /// As [`Barrier::create`]; a party that dies while it waits breaks it. One that dies between two rounds does not.
    ///
    /// # Errors
    /// As [`Barrier::create`].
    pub fn create_breaking(name: &str, parties: u32) -> Result<Barrier, BarrierError> {
        Named::make(name, &Plan { parties, breaks: true }, false)
    }

    /// As [`Barrier::open_or_create`]; a party that dies while it waits breaks it. One that dies between two rounds does not.
    ///
    /// # Errors
    /// As [`Barrier::open_or_create`].
    pub fn open_or_create_breaking(name: &str, parties: u32) -> Result<Barrier, BarrierError> {
        Named::make(name, &Plan { parties, breaks: true }, true)
    }

    /// Removes a barrier by name. One at which a thread waits, or that one has joined, is refused unless `force`: then they get [`BarrierError::Dead`], but
    /// those whose round has turned get their turn.
    ///
    /// # Errors
    /// `Object`: there is none, it is in use, or something else.
    pub fn remove(name: &str, force: bool) -> Result<(), BarrierError> {
        Named::<Barrier>::remove(name, force)
    }

    /// Its name; empty for a private one.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    /// For how many parties it was made.
    pub fn parties(&self) -> u32 {
        self.rounds.parties
    }

    /// How it is now; that may change at once.
    ///
    /// # Errors
    /// `Dead`.
    pub fn info(&self) -> Result<BarrierInfo, BarrierError> {
        info(self.rounds.body).filter(|_| self.rounds.body.is_live()).ok_or_else(|| self.dead())
    }

    /// Joins, if need be, arrives, and waits until all others have. Blocks until then.
    ///
    /// # Errors
    /// `PartyDied`: the round has turned, and parties died in it. `Broken`, `Full`, `Twice`, `Dead`; `Interrupted` inside of
    /// [`interruptible`](crate::interruptible); `System`; `Object` if the arena cannot take another member.
    pub fn wait(&self) -> Result<Turn, BarrierError> {
        self.arrive()?.wait()
    }

    crate::timed::timed! {
        /// As [`Barrier::wait`], for at most `timeout`. If the round has not turned by then, the arrival is taken back: the others wait on, also for this
        /// thread.
        ///
        /// # Errors
        /// `Timeout`; else as [`Barrier::wait`].
        pub fn wait_timeout, wait_deadline(&self) -> Result<Turn, BarrierError> { |until|
            self.arrive()?.finish(until(), false)
        }
    }

    crate::timed::timed! {
        /// As [`Barrier::wait`], for at most `timeout`. If the round has not turned by then, the barrier breaks, as Python's do: all get
        /// `Broken` until it is reset. (An interrupt only takes the arrival back.)
        ///
        /// # Errors
        /// `Broken`; else as [`Barrier::wait`].
        pub fn wait_timeout_or_break, wait_deadline_or_break(&self) -> Result<Turn, BarrierError> { |until|
            self.arrive()?.finish(until(), true)
        }
    }

    /// As [`Barrier::wait`], by a thread that, if it has not joined before, is a party of this round only. Its place is free once the round has turned or
    /// broken, however late the thread goes on.
    ///
    /// # Errors
    /// As [`Barrier::wait`].
    pub fn wait_once(&self) -> Result<Turn, BarrierError> {
        self.arrive_for(true)?.wait()
    }

    /// Joins, if need be, and arrives. The thread may do something else before it waits for the turn; see [`Arrival`].
    ///
    /// # Errors
    /// `Broken`, `Full`, `Twice`, `Dead`; `Object` if the arena cannot take another member.
    pub fn arrive(&self) -> Result<Arrival<'_>, BarrierError> {
        self.arrive_for(false)
    }

    /// As [`Barrier::arrive`], for one round: see [`Barrier::wait_once`].
    ///
    /// # Errors
    /// As [`Barrier::arrive`].
    pub fn arrive_once(&self) -> Result<Arrival<'_>, BarrierError> {
        self.arrive_for(true)
    }

    fn arrive_for(&self, once: bool) -> Result<Arrival<'_>, BarrierError> {
        let me = self.me()?;
        let within = Within::begin();
        let round = self.places(|| self.rounds.arrive(me.member, once))?;
        let Me { member, incarnation, .. } = me;
        let arm = Arrived { rounds: self.rounds, member, incarnation, concluded: Cell::new(false) };
        Ok(Arrival { barrier: self, arm, me, round, _within: within, here: PhantomData })
    }

    /// Makes the calling thread a party before it arrives: each round from now on waits for it, until it leaves, ends or dies. Does nothing at a barrier
    /// that is private, or that breaks when a party dies. Never waits.
    ///
    /// # Errors
    /// `Full`, `Twice`, `Dead`; `Object` if the arena cannot take another member.
    pub fn join(&self) -> Result<(), BarrierError> {
        let me = self.me()?;
        self.places(|| self.rounds.join(me.member))
    }

    /// Ends the calling thread's being a party, if it is one; its place waits for another. Never waits.
    ///
    /// # Errors
    /// `Twice`: an [`Arrival`] of the thread lives; `Dead`; `Object` if the arena cannot take another member.
    pub fn leave(&self) -> Result<(), BarrierError> {
        let me = self.me()?;
        // The thread's next arrival would be taken for the one that lives.
        if self.rounds.outcome(me.member) != Outcome::Gone {
            return Err(self.refused(Not::Twice));
        }
        self.rounds.leave(me.member);
        Ok(())
    }

    /// What asks for a place, and asks again if there is none: a party may have died, and nobody has seen that yet.
    pub(crate) fn places<R>(&self, ask: impl Fn() -> Result<R, Not>) -> Result<R, BarrierError> {
        let asked = match ask() {
            // Also if that finds none: another thread may just have recovered one.
            Err(Not::Full) => {
                self.handle.map.recover_dead();
                ask()
            }
            other => other,
        };
        asked.map_err(|not| self.refused(not))
    }

    /// Breaks the barrier: all that wait, and all that come, get `Broken` until it is reset. Never waits.
    ///
    /// # Errors
    /// `Dead`; `Object` if the arena cannot take another member.
    pub fn abort(&self) -> Result<(), BarrierError> {
        self.me()?;
        self.rounds.abort();
        Ok(())
    }

    /// Makes it whole, with all its parties: a broken barrier is as new, and those that died are expected again. All that wait get `Broken`. Those
    /// that have joined stay so, but for those that have arrived for once. Never waits.
    ///
    /// # Errors
    /// `Dead`; `Object` if the arena cannot take another member.
    pub fn reset(&self) -> Result<(), BarrierError> {
        self.me()?;
        self.handle.map.recover_dead();
        self.rounds.reset();
        Ok(())
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        self.handle.is_dead()
    }

    /// The calling thread, which may change the barrier.
    fn me(&self) -> Result<Me, BarrierError> {
        let (map, body) = (self.handle.map, self.rounds.body);
        let me = Me::here(map)?;
        if body.may_change(me.member) { Ok(me) } else { self.enter() }
    }

    #[cold]
    fn enter(&self) -> Result<Me, BarrierError> {
        // Bits at removed barriers go: else a thread that only waits at private ones keeps their memory.
        tidy();
        enter(&self.rounds.body)?.ok_or_else(|| self.dead())?;
        Ok(Me::here(self.handle.map)?)
    }

    #[cold]
    pub(crate) fn dead(&self) -> BarrierError {
        BarrierError::Dead { barrier: self.handle.shown() }
    }

    #[cold]
    fn refused(&self, not: Not) -> BarrierError {
        let barrier = self.handle.shown();
        match not {
            Not::Broken(cause, pid) => BarrierError::Broken { barrier, how: Broke::of(cause, pid) },
            Not::Twice => BarrierError::Twice { barrier },
            Not::Full => BarrierError::Full { barrier, parties: self.rounds.parties },
        }
    }

    /// Deaths are found from now on, as `how` has it. Only at a named one can a party die alone.
    fn watched(&self, attachment: &ThreadAttachment, how: fn(&ThreadAttachment) -> io::Result<()>) -> io::Result<()> {
        if self.handle.map.directory().is_some() { how(attachment) } else { Ok(()) }
    }

    /// Waits until an arrival is over.
    fn rest(&self, arm: &Arrived, until: Until) -> Result<(), BarrierError> {
        let deadline = match until {
            Until::Forever => None,
            Until::Now => Some(0),
            Until::Time(at) => Some(at),
        };
        if deadline.is_some_and(|at| at <= clock::now()) {
            // It does not sleep, and looks for deaths itself, as one that has slept until then.
            self.handle.map.recover_dead();
            return match arm.is_over() {
                Ok(true) => Ok(()),
                Ok(false) => Err(BarrierError::Timeout),
                Err(_) => Err(self.dead()),
            };
        }
        attachment(self.handle.map, |attachment| {
            self.watched(attachment, watched).map_err(BarrierError::System)?;
            let who = Parties { main: party(attachment), private: None };
            match wait_for(&who, &[arm], WaitSpec::to_take(deadline, &patience(attachment))) {
                Ok(_) => Ok(()),
                Err(Refused::Dead(_)) => Err(self.dead()),
                Err(Refused::Interrupted) => Err(BarrierError::Interrupted),
                Err(_) => Err(BarrierError::Timeout),
            }
        })?
    }
}

/// Which member the calling thread is, and in which process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Me {
    member: u32,
    generation: u32,
    /// A forked child has another incarnation.
    incarnation: u64,
}

impl Me {
    fn here(map: &'static Map) -> Result<Me, ArenaError> {
        let incarnation = process::incarnation();
        attachment(map, |attachment| {
            let Joined { index: member, generation, .. } = attachment.joined;
            Me { member, generation, incarnation }
        })
    }
}

/// An arrival of the calling thread, which can be waited for, alone or as an arm of a choice: `turn(arrival) -> turn`. Dropped, it is taken back
/// if its round has not turned. If the thread's process dies first, the party has died. While it lives, and if it was forgotten, the thread does not
/// leave the barrier, nor (silently) the arena, and the memory of removed barriers, stacks and the like stays.
///
/// In a child made by fork it is void: over at once.
#[must_use = "an arrival that is not kept is taken back at once"]
pub struct Arrival<'a> {
    barrier: &'a Barrier,
    arm: Arrived,
    me: Me,
    round: u64,
    /// The member's bit stays, and with it the memory.
    _within: Within,
    here: PhantomData<*const ()>,
}

impl std::fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arrival({:?}, round {})", self.barrier.name(), self.round)
    }
}

impl<'a> Arrival<'a> {
    /// Waits for the turn. Blocks until then.
    ///
    /// # Errors
    /// As [`Barrier::wait`]; `Inherited` in a forked child.
    pub fn wait(self) -> Result<Turn, BarrierError> {
        self.finish(Until::Forever, false)
    }

    /// Waits for the turn for at most `timeout`; then the arrival is taken back, unless the round has just turned.
    ///
    /// # Errors
    /// `Timeout`; else as [`Arrival::wait`].
    pub fn wait_timeout(self, timeout: Duration) -> Result<Turn, BarrierError> {
        self.finish(Until::after(timeout), false)
    }

    /// As [`Arrival::wait_timeout`]; then the barrier breaks.
    ///
    /// # Errors
    /// `Broken`; else as [`Arrival::wait`].
    pub fn wait_timeout_or_break(self, timeout: Duration) -> Result<Turn, BarrierError> {
        self.finish(Until::after(timeout), true)
    }

    /// Whether the round has turned, or is broken, or the barrier was removed: waiting does not block any more. Never waits, so it may be asked inside of a
    /// section. Not for signal handlers: the first that answers no starts the thread that watches for deaths in this process, so deaths are found while all
    /// parties that live only ask this. If the system refuses that thread, no death is found here; [`Arrival::wait`] says why.
    pub fn is_over(&self) -> bool {
        let is_over = self.arm.is_over().unwrap_or(true);
        if !is_over {
            let _ =
                attachment(self.barrier.handle.map, |attachment| self.barrier.watched(attachment, watched_meanwhile));
        }
        is_over
    }

    /// Takes the arrival back, as dropping it does. True: the round goes on without it. False: it has turned, or is broken.
    pub fn take_back(self) -> bool {
        self.end()
    }

    pub(crate) fn arm(&self) -> &Arrived {
        &self.arm
    }

    /// Whether the calling thread has arrived so.
    pub(crate) fn is_mine(&self) -> bool {
        self.arm.is_ours() && Me::here(self.barrier.handle.map).is_ok_and(|me| me == self.me)
    }

    /// Takes it back if it is current. True: done.
    pub(crate) fn end(&self) -> bool {
        self.is_mine() && self.arm.take_back()
    }

    pub(crate) fn finish(&self, until: Until, breaks: bool) -> Result<Turn, BarrierError> {
        if !self.arm.is_ours() {
            return Err(BarrierError::Inherited { barrier: self.barrier.handle.shown() });
        }
        let waited = if self.arm.is_over().unwrap_or(true) { Ok(()) } else { self.barrier.rest(&self.arm, until) };
        match waited {
            Ok(()) | Err(BarrierError::Dead { .. }) => {}
            // If it is not current any more, it has turned after all, or is broken.
            Err(BarrierError::Timeout) if breaks => {
                self.arm.rounds.time_out(self.me.member);
            }
            Err(e) => {
                if self.end() {
                    return Err(e);
                }
            }
        }
        self.conclude()
    }

    /// The result of an arrival that is over.
    pub(crate) fn conclude(&self) -> Result<Turn, BarrierError> {
        self.arm.conclude(self.barrier, self.round, self.is_mine())
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if self.is_mine() {
            self.arm.let_go();
        }
    }
}

impl Arrived {
    /// Whether it is still to be ended; also at a removed barrier, whose memory the member's bit keeps. What follows is for what has the member alone.
    fn may_change(&self) -> bool {
        !self.concluded.get() && self.is_ours() && self.rounds.body.has_bit(self.member)
    }

    /// Takes it back if it is current. True: done.
    pub(crate) fn take_back(&self) -> bool {
        let is_back = self.may_change() && self.rounds.take_back(self.member);
        if is_back {
            self.done();
        }
        is_back
    }

    /// Takes it back, or lets go of what became of it.
    pub(crate) fn let_go(&self) {
        if !self.take_back() && self.may_change() {
            self.rounds.collect(self.member);
            self.done();
        }
    }

    fn done(&self) {
        self.concluded.set(true);
        self.rounds.leave_once(self.member);
    }

    /// What became of it, once it is over. `is_mine`: the caller has the member.
    pub(crate) fn conclude(&self, of: &Barrier, round: u64, is_mine: bool) -> Result<Turn, BarrierError> {
        let barrier = of.handle.shown();
        if !self.is_ours() {
            return Err(BarrierError::Inherited { barrier });
        }
        if self.concluded.get() {
            return Err(BarrierError::Twice { barrier });
        }
        if !(is_mine && self.may_change()) {
            return Err(BarrierError::Dead { barrier });
        }
        let outcome = self.rounds.collect(self.member);
        if outcome != Outcome::Waits {
            self.done();
        }
        match outcome {
            Outcome::Turned { index, died: 0, .. } => Ok(Turn { index, round }),
            Outcome::Turned { index, died, pid } => {
                Err(BarrierError::PartyDied { barrier, turn: Turn { index, round }, died, pid })
            }
            Outcome::Broken(cause, pid) => Err(BarrierError::Broken { barrier, how: Broke::of(cause, pid) }),
            // The thread has left.
            Outcome::Gone => Err(BarrierError::Twice { barrier }),
            // The barrier was removed.
            Outcome::Waits => Err(BarrierError::Dead { barrier }),
        }
    }
}
