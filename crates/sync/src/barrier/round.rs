//! Barriers as a protocol: parties arrive, and the round turns when all that are expected have.
//!
//! A barrier is made for some *parties*. A member *joins* with its first arrival, and is a party until it leaves or dies. A party that dies is
//! not expected any more, until another takes its place. One that joined for *once* leaves its place when its round turns or breaks; if it dies
//! before, that round does not expect it: `expected = parties - dead - gone`, `room = expected - joined`, `left = expected - arrived`. An arrival
//! is *current* until its round turns or breaks, or the member takes it back.
//!
//! Two sorts of barrier are *anonymous*: nobody joins, any member may arrive, and a round turns with as many as there are parties. A private one (no
//! party dies alone: recovery takes back the arrival that a thread has leaked), and one that breaks when a party dies.
//!
//! All words are cells of 16 bytes, a value and the *stamp* of the operation that wrote it:
//!
//! | cell | value |
//! |---|---|
//! | state | left:16, once:1, member:16, op:4, cause:2, died:8 |
//! | round | how many rounds have turned |
//! | counts | dead:16, joined:16, gone:16 (died in this round, had joined for once), once:16 (of those that have joined) |
//! | death | the process that died last |
//! | a record for each member | state:2 FREE ARRIVED BROKEN, JOINED, ONCE, WAS, cause:2, index:16, died:8, pid:32 |
//!
//! *Cause*: what broke the barrier; 0: it is whole. *Died*: how many died in this round. *WAS* stands in the record of a dead member
//! from its DEATH, which alone reads it, until the record is written anew: its arrival was current.
//!
//! The state's stamp rises by one with each change, and one operation at a time is under way: *op*, *member* and *once* say which. Any thread that finds
//! one finishes it (helping), then begins its own:
//!
//! ```text
//!   IDLE --begin--> ARRIVE m --+-> IDLE            cells: m's record
//!                              +-> TURN -> WAKE -> IDLE   (left = 0)   round, counts; a record gets index 0
//!   IDLE ---------> TAKE_BACK, JOIN, SUCCEED, LEAVE m -> IDLE    m's record, counts
//!   IDLE ---------> DEATH m --> IDLE, TURN or BREAK       all current records, death, m's record, counts
//!   IDLE ---------> BREAK, RESET -> WAKE -> IDLE          all current records, counts
//! ```
//!
//! Invariants:
//! - I1: in an operation a cell changes at most once, from an older stamp to the operation's; a stamp is never used again. So what a
//!   thread reads between two looks at the same state's stamp is that operation's, and a swap of a cell from what was read there fails once
//!   another thread has done it, however late it comes. Outside of operations only `free` changes a cell: I6.
//! - I2: what an operation does to its cells depends on the state and on cells that it has not changed yet. In DEATH the counts change after m's record,
//!   and that after the others; a helper reads them in the other order: if m's record is unchanged, the counts are. In BREAK and
//!   RESET the counts change before all records; a helper reads the counts, then the records: if one of these has changed, so have the counts, and its swap
//!   fails. So all helpers do the same, and a killed one is followed by any other.
//! - I3: an operation begins by one swap of the state from IDLE, after its conditions were read: they hold at that swap.
//! - I4: an arrival is current if its record says ARRIVED with a younger stamp than the round's. At IDLE, `expected - left` arrivals are current, with
//!   the indices 1 to that number (in TAKE_BACK and DEATH the last index moves to the gap); one that makes `left` 0 gets 0. A round
//!   that a death turns has no such arrival: TURN gives 0 to the one with the last index. So in a turned round each index below its
//!   number of arrivals is one member's.
//! - I5: the step at which all current arrivals turn is the change of the round's cell. A record that says ARRIVED with a stamp not younger than the
//!   round's has turned, for ever, and stays so until its member frees it: no waiter can miss its turn, however many rounds pass.
//!   At the turn `left` is 0, so each party has arrived: TURN takes those that joined for once out of the counts, and the round's cell makes their
//!   records those of no parties, in the same operation. BREAK and RESET do so with those that have arrived. One that has joined for once, and has not
//!   arrived yet, stays a party: it arrives in the next round, or leaves as it finds the barrier broken.
//! - I6: `free` frees a record that is not current, and leaves its stamp: by its member, none of whose operations is under way; or by a recoverer of the
//!   dead member, which has read it at one IDLE state: its swap fails if the record has changed. No operation of another member changes such a record. A record of a member that died,
//!   or left the arena, is FREE and not JOINED before another thread has the member's number.
//! - I7: a waiter sets its bit, then looks at round and record (E1); WAKE looks at the bits after the round or the records have changed. WAKE ends
//!   only when a thread has told every waiter whose arrival is no longer current, and woken it; until then each thread that begins something, or
//!   wakes up here, does that. Recovery does it, too. A task waits in a member that has not arrived (`task/barrier.rs`): each WAKE tells that.
//! - I8: a death counts in the round that is under way when it is recovered. All that are current then, and all that arrive later in that round, are
//!   told once, at its turn, by their records. (Not if the round breaks, nor if the last party leaves in it: I9.)
//! - I9: when no party is left, the barrier is as new (but stays broken, if it is): LEAVE and DEATH of the last one see to it, and so does the end of a
//!   round in which all had joined for once.
//!
//! Races: R1 the last arrival against a time-out: one swap of the state decides (I3). R2 a helper that was stopped: I1. R3 a recoverer that was
//! stopped: it reads m's record, sees that the death is not swept, and swaps the state it read before: a later occupant of the slot would
//! have changed the state. It frees the record only after it has seen that state again. R4 a signal handler that uses the barrier in the middle of its
//! thread's operation: it finishes that one.
//!
//! Ordering: E1: every access is sequentially consistent: bit before look, change before the look at the bits. What a member writes of itself before it joins
//! the arena (its process) comes before any operation of it.
//!
//! Progress: lock-free, and all that waits is a party for the others. An arrival of one that has joined takes three swaps, the last one in a round six or seven, and
//! a look at the wait set; one more frees the record. To join takes four more, and so does to leave, but not at the turn. What is rare (a death, an arrival taken back, a reset) looks at all records. With no member asleep no
//! operation makes a system call; else WAKE makes one for each that sleeps. A thread that is *stopped* between the first swap of the last arrival and the
//! end of WAKE holds up those that sleep until any other thread comes, or one of them wakes up.
//!
//! Deaths: before the first swap nothing has happened. After it the operation is finished by the next thread that comes, or by recovery,
//! which then lets the dead member die as a party (DEATH), if it was one. A wake that was left out is made up for by WAKE's next helper. Writers: a
//! member with its bit in the body (body: I1), or a recoverer in a visit.
//!
//! Left out: a stamp wraps after 2^64 changes. Explored: `tests/crash_barrier.rs`. Not by loom: it has no swap of two words.

use super::word::{
    ARRIVE, ARRIVED, BREAK, BROKEN, Counts, DEATH, IDLE, JOIN, LEAVE, MOST_DIED, NOBODY, RESET, Record, SUCCEED, Seen,
    State, TAKE_BACK, TURN, WAKE, is_current, is_joined, read, swap, with,
};
pub(crate) use super::word::{Cause, MOST_PARTIES};
use chappe_arena::layout::{Kind, Slot};
use chappe_arena::{Admin, ArenaError, Map, Place};
#[cfg(feature = "sim")]
use chappe_plat::atomic::AtomicU64;
use chappe_plat::atomic::Ordering;
use chappe_plat::step;
use chappe_wait::body;
use chappe_wait::body::{Body, Form};
use chappe_wait::wait::{RETRY, each, make_up, tell};
use std::mem::size_of;
use std::ptr::NonNull;

/// In the third number of the form: a death breaks the barrier.
const BREAKS: u32 = 1;

/// How many operations follow from one, with it.
const CHAIN: u64 = 3;

/// What has become of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is current.
    Waits,
    /// Its round has turned; `died`: how many parties died in it, and the process of the last.
    Turned { index: u32, died: u32, pid: u32 },
    /// Its round will not turn.
    Broken(Cause, u32),
    /// It was taken back.
    Gone,
}

/// Why an operation did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Not {
    /// The barrier is broken.
    Broken(Cause, u32),
    /// The member has arrived, or joined, already.
    Twice,
    /// There are as many parties as it was made for.
    Full,
}

/// How a barrier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub parties: u32,
    /// How many arrivals are current.
    pub arrived: u32,
    pub joined: u32,
    /// How many parties that had joined died, and are not expected.
    pub dead: u32,
    pub rounds: u64,
    pub broken: Option<Cause>,
}

#[repr(C, align(64))]
struct Cells {
    state: Slot,
    round: Slot,
    counts: Slot,
    death: Slot,
}

/// Bytes of a barrier in an arena of so many members.
fn bytes(members: u32) -> usize {
    size_of::<Cells>() + members as usize * size_of::<Slot>()
}

/// Makes a barrier. The caller holds `admin` and has checked that the name is free.
pub(crate) fn make(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    parties: u32,
    breaks: bool,
) -> Result<Place, ArenaError> {
    let made = plan(map.geometry().members, parties, breaks);
    body::make(map, admin, name, Kind::Barrier, Some(made), |at| begin(at, parties))
}

/// What a barrier is made for, and its bytes.
pub(crate) fn plan(members: u32, parties: u32, breaks: bool) -> (usize, Form) {
    (bytes(members), Form { numbers: [parties, members, if breaks { BREAKS } else { 0 }, 0], types: [0; 2] })
}

/// Fills the zeroed bytes of a barrier that no other thread knows.
fn begin(at: NonNull<u8>, parties: u32) {
    // SAFETY: at least so many zeroed bytes, from a multiple of 64; zeros are cells.
    let cells = unsafe { at.cast::<Cells>().as_ref() };
    let state = State(0).of(parties.into());
    cells.state.word.store(state.0, Ordering::Relaxed); // Relaxed: published by the head.
    cells.state.since.store(1, Ordering::Relaxed); // Relaxed: as above.
}

/// The rounds of a barrier.
#[derive(Clone, Copy)]
pub(crate) struct Rounds<'m> {
    pub body: Body<'m>,
    cells: &'m Cells,
    records: &'m [Slot],
    pub parties: u32,
    pub breaks: bool,
    /// It is not anonymous.
    pub(super) joins: bool,
}

impl<'m> Rounds<'m> {
    /// Those in a body; `None` if there cannot be such.
    pub fn of(body: Body<'m>) -> Option<Rounds<'m>> {
        let [parties, members, how, _] = body.form.numbers;
        let fits = (1..=MOST_PARTIES).contains(&parties) && members == body.map().geometry().members;
        if !fits || bytes(members) > body.room {
            return None;
        }
        let joins = how & BREAKS == 0 && !body.map().is_private();
        // SAFETY: within the body, as checked; it was zeroed when the barrier was made, and is accessed by atomic words only.
        let cells = unsafe { body.at.cast::<Cells>().as_ref() };
        // SAFETY: as above: the records come after the cells.
        let records = unsafe {
            std::slice::from_raw_parts(body.at.add(size_of::<Cells>()).cast::<Slot>().as_ptr(), members as usize)
        };
        Some(Rounds { body, cells, records, parties, breaks: how & BREAKS != 0, joins })
    }

    pub(super) fn record(&self, member: u32) -> &'m Slot {
        &self.records[member as usize % self.records.len()]
    }

    /// The members that have ever been there.
    fn used(&self) -> &'m [Slot] {
        &self.records[..(self.body.map().members_used() as usize).min(self.records.len())]
    }

    fn counts(&self) -> Counts {
        Counts(read(&self.cells.counts).word)
    }

    /// How many are expected in the round under way.
    fn expected(&self) -> u64 {
        self.counts().expected(self.parties)
    }

    /// The state of a round that begins, with nothing under way.
    fn anew(&self, state: State) -> State {
        state.of(self.expected()).after(0)
    }

    /// The state with nothing under way.
    pub(super) fn idle(&self) -> Seen {
        loop {
            let seen = read(&self.cells.state);
            if State(seen.word).op() == IDLE {
                return seen;
            }
            self.advance(seen);
        }
    }

    /// Which state is there. E1: after what the caller has read.
    pub(super) fn state_stamp(&self) -> u64 {
        self.cells.state.since.load(Ordering::SeqCst) // SeqCst: E1.
    }

    /// I3: begins an operation from the state that was seen, and finishes it, with all that follows from it.
    pub(super) fn perform(&self, seen: Seen, to: State) -> bool {
        let first = seen.stamp + 1;
        if !swap(&self.cells.state, seen, Seen { word: to.0, stamp: first }) {
            return false;
        }
        step!("an operation is under way");
        loop {
            let now = read(&self.cells.state);
            if State(now.word).op() == IDLE || now.stamp >= first + CHAIN {
                return true;
            }
            self.advance(now);
        }
    }

    /// I1: changes a cell in the operation that was seen under way, unless that was done already. `to` gets what is there; `None`: it stays.
    fn put(&self, seen: Seen, cell: &Slot, to: impl Fn(Seen) -> Option<u64>) {
        let there = read(cell);
        if there.stamp != seen.stamp
            && let Some(word) = to(there)
            // SeqCst: E1: the operation is still under way, and what was read is its own.
            && self.cells.state.since.load(Ordering::SeqCst) == seen.stamp
        {
            step!("about to change a cell");
            swap(cell, there, Seen { word, stamp: seen.stamp });
        }
    }

    /// Does what is under way, and begins what follows from it. A failure: another thread has.
    fn advance(&self, seen: Seen) {
        let state = State(seen.word);
        let next = match state.op() {
            ARRIVE => self.arriving(seen, state),
            TAKE_BACK => self.taking_back(seen, state),
            JOIN | SUCCEED => self.joining(seen, state),
            LEAVE => self.leaving(seen, state),
            DEATH => self.dying(seen, state),
            TURN => self.turning(seen, state),
            BREAK => self.breaking(seen, state, state.cause(), false),
            RESET => self.breaking(seen, state, Cause::Reset as u64, true),
            _ => {
                self.wake();
                state.to(IDLE, 0)
            }
        };
        step!("done, and still under way");
        swap(&self.cells.state, seen, Seen { word: next.0, stamp: seen.stamp + 1 });
    }

    fn arriving(&self, seen: Seen, state: State) -> State {
        let index = if state.left() == 1 { 0 } else { self.expected().saturating_sub(state.left()) + 1 };
        let pid = if state.died() > 0 { read(&self.cells.death).word } else { 0 };
        self.put(seen, self.record(state.member()), |r| Some(Record(r.word).arrived(index, state.died(), pid)));
        let next = state.of(state.left().saturating_sub(1));
        if next.left() == 0 { next.to(TURN, state.member()) } else { next.to(IDLE, 0) }
    }

    fn taking_back(&self, seen: Seen, state: State) -> State {
        let (record, last) = (self.record(state.member()), self.expected().saturating_sub(state.left()));
        let there = read(record);
        if there.stamp != seen.stamp {
            self.fill_gap(seen, record, Record(there.word).index(), last, |r| r);
            self.put(seen, record, |r| Some(Record(r.word).freed()));
        }
        state.of(state.left() + 1).to(IDLE, 0)
    }

    /// I4: the current arrival with the last index gets that of the one which goes. What else changes in all current ones: `also`.
    fn fill_gap(&self, seen: Seen, but: &Slot, gap: u64, last: u64, also: impl Fn(Record) -> Record) {
        let round = read(&self.cells.round);
        for cell in self.used().iter().filter(|cell| !std::ptr::eq(*cell, but)) {
            self.put(seen, cell, |r| {
                let there = Record(r.word);
                let moved = if there.index() == last && gap != 0 { there.indexed(gap) } else { there };
                let changed = also(moved);
                (is_current(r, round) && changed != there).then_some(changed.0)
            });
        }
    }

    fn joining(&self, seen: Seen, state: State) -> State {
        let succeeds = state.op() == SUCCEED;
        let one = if state.is_once() { Counts::JOINED + Counts::ONCE } else { Counts::JOINED };
        self.put(seen, &self.cells.counts, |c| {
            let joined = Counts(c.word).more(one);
            // First the place that the next round expects to be taken anyway: else it would wait for one more.
            let place = if joined.gone() > 0 { Counts::GONE } else { Counts::DEAD };
            Some(if succeeds { joined.less(place).0 } else { joined.0 })
        });
        let once = if state.is_once() { Record::ONCE } else { 0 };
        self.put(seen, self.record(state.member()), |_| Some(Record::JOINED | once));
        state.of(state.left() + u64::from(succeeds)).to(IDLE, 0)
    }

    fn leaving(&self, seen: Seen, state: State) -> State {
        // I2: before the counts; if it has changed, they have.
        let was = Record(read(self.record(state.member())).word);
        let once = if was.has(Record::ONCE) { Counts::ONCE } else { 0 };
        self.put(seen, &self.cells.counts, |c| Some(Counts(c.word).without(Counts(c.word).less(once))));
        self.put(seen, self.record(state.member()), |_| Some(0));
        self.less_one(state, state.left())
    }

    /// I9: with so many left, unless no party is.
    fn less_one(&self, state: State, left: u64) -> State {
        if self.counts().joined() > 0 { state.of(left).to(IDLE, 0) } else { self.anew(state).to(IDLE, 0) }
    }

    fn dying(&self, seen: Seen, state: State) -> State {
        let member = state.member();
        let (record, round) = (self.record(member), read(&self.cells.round));
        // Relaxed: written before the member had its number; read while its death is not swept, or in vain (I1).
        let pid = u64::from(self.body.map().member(member).pid.load(Ordering::Relaxed));
        // I2: in this order.
        let last = self.expected().saturating_sub(state.left());
        let there = read(record);
        if there.stamp != seen.stamp {
            let (was, had_arrived) = (Record(there.word), is_current(there, round));
            let gap = if had_arrived { was.index() } else { 0 };
            let died = (state.died() + 1).min(MOST_DIED);
            self.fill_gap(seen, record, gap, last, |r| Record(r.told(died, pid)));
            self.put(seen, &self.cells.death, |_| Some(pid));
            let arrived = if had_arrived { Record::WAS } else { 0 };
            self.put(seen, record, |_| Some(was.0 & Record::ONCE | arrived));
        }
        let was = Record(read(record).word);
        if !self.joins {
            return state.because(Cause::Died as u64).to(BREAK, 0);
        }
        self.put(seen, &self.cells.counts, |c| {
            let (counts, once) = (Counts(c.word), was.has(Record::ONCE));
            let then = if once { counts.less(Counts::ONCE).more(Counts::GONE) } else { counts.more(Counts::DEAD) };
            Some(counts.without(then))
        });
        let left = state.left().saturating_sub(u64::from(!was.has(Record::WAS)));
        let next = self.less_one(state.after(state.died() + 1), left);
        if next.left() == 0 { next.to(TURN, NOBODY) } else { next }
    }

    fn turning(&self, seen: Seen, state: State) -> State {
        if state.member() == NOBODY {
            let (round, last) = (read(&self.cells.round), self.expected());
            for cell in self.used() {
                self.put(seen, cell, |r| {
                    let there = Record(r.word);
                    (is_current(r, round) && there.index() == last).then_some(there.indexed(0).0)
                });
            }
        }
        // I5.
        self.put(seen, &self.cells.round, |r| Some(r.word + 1));
        self.put(seen, &self.cells.counts, |c| {
            let counts = Counts(c.word);
            Some(counts.next(counts.once()).0).filter(|next| *next != c.word)
        });
        self.anew(state).to(WAKE, 0)
    }

    /// Breaks the round under way. As new: with all parties, and whole.
    fn breaking(&self, seen: Seen, state: State, cause: u64, as_new: bool) -> State {
        let round = read(&self.cells.round);
        let pid = if cause == Cause::Died as u64 { read(&self.cells.death).word } else { 0 };
        // I2: before the records, which say how many go.
        self.put(seen, &self.cells.counts, |c| {
            let next = Counts(c.word).next(self.arrived_for_once(round, Counts(c.word)));
            Some(if as_new { with(next.0, 0, 16, 0) } else { next.0 })
        });
        for cell in self.used() {
            self.put(seen, cell, |r| is_current(r, round).then(|| Record(r.word).broken(cause, pid)));
        }
        self.anew(state).because(if as_new { 0 } else { cause }).to(WAKE, 0)
    }

    /// How many of those that have joined for once have arrived.
    fn arrived_for_once(&self, round: Seen, counts: Counts) -> u64 {
        let has_arrived = |cell: &&Slot| {
            let there = read(cell);
            is_current(there, round) && Record(there.word).has(Record::ONCE)
        };
        // At most barriers none has joined so.
        if counts.once() == 0 { 0 } else { self.used().iter().filter(has_arrived).count() as u64 }
    }

    /// I7: tells all waiters whose arrival is no longer current, and repeats the wakes that their tellers may have left out.
    pub(super) fn wake(&self) {
        let (map, at) = (self.body.map(), self.body.place());
        each(map, at, |c| {
            if !c.state.is_waiting() {
                make_up(map, c.member, c.state);
            } else if self.outcome(c.member) != Outcome::Waits {
                tell(map, c.member, c.state, at.index, RETRY);
            }
        });
    }

    /// What has become of a member's arrival.
    pub fn outcome(&self, member: u32) -> Outcome {
        self.seen(member).0
    }

    fn seen(&self, member: u32) -> (Outcome, Seen) {
        // In this order: if the round has turned, the record has all that TURN gave it.
        let round = read(&self.cells.round);
        let there = read(self.record(member));
        let record = Record(there.word);
        let outcome = match record.state() {
            ARRIVED if is_current(there, round) => Outcome::Waits,
            ARRIVED => Outcome::Turned { index: record.index() as u32, died: record.died(), pid: record.pid() },
            BROKEN => Outcome::Broken(record.cause(), record.pid()),
            _ => Outcome::Gone,
        };
        (outcome, there)
    }

    /// As [`Rounds::outcome`], by the member; if the arrival is not current, the record is free from now on (I6).
    pub fn collect(&self, member: u32) -> Outcome {
        let (outcome, there) = self.seen(member);
        if outcome != Outcome::Waits {
            self.free(member, there);
            self.help_to_wake();
        }
        outcome
    }

    /// I7: the thread that should wake the others may be stopped.
    fn help_to_wake(&self) {
        let seen = read(&self.cells.state);
        if State(seen.word).op() == WAKE {
            self.advance(seen);
        }
    }

    /// I6: frees the record of an arrival that is not current.
    pub(super) fn free(&self, member: u32, there: Seen) {
        swap(self.record(member), there, Seen { word: Record(there.word).over(), stamp: there.stamp });
    }

    /// Begins an operation of a member: which, or why none, by the state, the member's record and the counts. Answers the operation, and the number of
    /// the round.
    fn enter(
        &self,
        member: u32,
        once: bool,
        which: impl Fn(State, Record, Counts) -> Result<u64, Not>,
    ) -> Result<(u64, u64), Not> {
        loop {
            let seen = self.idle();
            let (state, round) = (State(seen.word), read(&self.cells.round));
            match which(state, Record(read(self.record(member)).word), self.counts()) {
                Ok(op) => {
                    if self.perform(seen, state.to(op, member).for_once(once)) {
                        return Ok((op, round.word));
                    }
                }
                // E1: what was read was of one moment.
                Err(not) if self.state_stamp() == seen.stamp => return Err(not),
                Err(_) => {}
            }
        }
    }

    /// How a member that has not joined can.
    fn way_in(&self, counts: Counts) -> Result<u64, Not> {
        match counts.room(self.parties) {
            0 if counts.dead() + counts.gone() == 0 => Err(Not::Full),
            0 => Ok(SUCCEED),
            _ => Ok(JOIN),
        }
    }

    /// Arrives, and joins before, if need be, for once or until it leaves; answers the number of the round.
    pub fn arrive(&self, member: u32, once: bool) -> Result<u64, Not> {
        let mut has_joined = false;
        loop {
            let entered = self.enter(member, once, |state, there, counts| {
                if state.cause() != 0 {
                    return Err(Not::Broken(Cause::of(state.cause()), read(&self.cells.death).word as u32));
                }
                if there.state() != 0 {
                    return Err(Not::Twice);
                }
                if there.has(Record::JOINED) || !self.joins { Ok(ARRIVE) } else { self.way_in(counts) }
            });
            match entered {
                Ok((ARRIVE, round)) => return Ok(round),
                Ok(_) => has_joined = true,
                Err(not) => {
                    // It broke in between: as if this member had not come.
                    if has_joined {
                        self.leave(member);
                    }
                    return Err(not);
                }
            }
        }
    }

    /// Takes a member's arrival back. False: it is not current any more.
    pub fn take_back(&self, member: u32) -> bool {
        self.end_arrival(member, |state| state.to(TAKE_BACK, member))
    }

    /// Breaks the barrier because a member's time is up. False: its arrival is not current any more.
    pub fn time_out(&self, member: u32) -> bool {
        self.end_arrival(member, |state| state.because(Cause::TimedOut as u64).to(BREAK, 0))
    }

    fn end_arrival(&self, member: u32, to: impl Fn(State) -> State) -> bool {
        loop {
            let seen = self.idle();
            let (round, there) = (read(&self.cells.round), read(self.record(member)));
            if !is_current(there, round) {
                return false;
            }
            if self.perform(seen, to(State(seen.word))) {
                return true;
            }
        }
    }

    /// Becomes a party.
    pub fn join(&self, member: u32) -> Result<(), Not> {
        if !self.joins {
            return Ok(());
        }
        let joined = self.enter(member, false, |_, there, counts| {
            if there.0 & (3 | Record::JOINED) != 0 { Err(Not::Twice) } else { self.way_in(counts) }
        });
        joined.map(|_| ())
    }

    /// Is a party no longer: takes its arrival back, and leaves its place to another.
    pub fn leave(&self, member: u32) {
        loop {
            let seen = self.idle();
            let (round, there) = (read(&self.cells.round), read(self.record(member)));
            if is_current(there, round) {
                self.take_back(member);
            } else if !is_joined(there, round) {
                return self.free(member, there);
            } else if self.perform(seen, State(seen.word).to(LEAVE, member)) {
                return;
            }
        }
    }

    /// As [`Rounds::leave`], if it joined for once, and its round has not turned.
    pub fn leave_once(&self, member: u32) {
        if Record(read(self.record(member)).word).has(Record::ONCE) {
            self.leave(member);
        }
    }

    /// Breaks the barrier until it is reset.
    pub fn abort(&self) {
        loop {
            let seen = self.idle();
            let state = State(seen.word);
            if state.cause() != 0 || self.perform(seen, state.because(Cause::Aborted as u64).to(BREAK, 0)) {
                return;
            }
        }
    }

    /// Breaks the round under way, and makes the barrier whole, with all its parties.
    pub fn reset(&self) {
        loop {
            let seen = self.idle();
            if self.perform(seen, State(seen.word).to(RESET, 0)) {
                return;
            }
        }
    }

    /// How it is. Parts of it may be of different moments.
    pub fn figures(&self) -> Figures {
        let (state, counts) = (State(read(&self.cells.state).word), self.counts());
        let arrived = counts.expected(self.parties).saturating_sub(state.left()) as u32;
        let broken = (state.cause() != 0).then(|| Cause::of(state.cause()));
        let (joined, dead) = (counts.joined() as u32, counts.dead() as u32);
        Figures { parties: self.parties, arrived, joined, dead, rounds: read(&self.cells.round).word, broken }
    }

    /// Names all words.
    #[cfg(feature = "sim")]
    pub fn each_word(&self, name: &mut dyn FnMut(&'m AtomicU64, String)) {
        let cells = [(&self.cells.state, "state"), (&self.cells.round, "round"), (&self.cells.counts, "counts")];
        let records = self.records.iter().enumerate().map(|(i, cell)| (cell, format!("record {i}")));
        for (cell, what) in cells.map(|(cell, what)| (cell, what.to_owned())).into_iter().chain(records) {
            name(&cell.word, what.clone());
            name(&cell.since, format!("stamp of {what}"));
        }
    }

    /// Whether a member is a party: it has joined, or its arrival is current.
    pub fn is_party(&self, member: u32) -> bool {
        let (round, there) = (read(&self.cells.round), read(self.record(member)));
        is_current(there, round) || is_joined(there, round)
    }
}
