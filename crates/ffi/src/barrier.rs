//! Barriers: threads and processes wait for each other, round by round.
//!
//! A barrier is made for a number of parties. Each round, all of them arrive; then all go on, and the next round begins. A
//! thread joins a named barrier when it first arrives there (or by `chappe_barrier_join`), and each round waits for it until
//! it leaves, ends or dies; one that waits by `chappe_barrier_wait_once` is a party of that round only. A party that dies
//! does not block the others, unless it was the only one there: they go on without it, and each is told once
//! (CHAPPE_PARTY_DIED). With CHAPPE_BREAKS_ON_DEATH its death breaks the barrier instead, if it waits; one that dies between
//! two rounds is not noticed. At such a barrier, and at a private one, any thread may come to any round.
//!
//! A broken barrier answers -ECANCELED to all that wait and all that come, until it is reset.
//!
//! What a party wrote before it arrived, all others see after the turn. An arrival makes no system call but that of its own
//! wait; the last one wakes each thread that sleeps, in no certain order.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use chappe::raw::{self, KeptArrival};
use chappe::{Barrier, BarrierError, Turn};
use std::ffi::{CStr, c_char, c_int};
use std::mem::ManuallyDrop;

/// A handle of a barrier.
pub struct chappe_barrier(());

/// A handle of an arrival at a barrier.
pub struct chappe_arrival(());

/// The most parties.
pub const CHAPPE_BARRIER_MAX: i64 = 65535;

/// A flag: a party that dies while it waits breaks the barrier.
pub const CHAPPE_BREAKS_ON_DEATH: u32 = 1;

/// An answer: the round has turned, and parties died in it.
pub const CHAPPE_PARTY_DIED: c_int = 1;

/// A turn of a barrier, as one of its parties sees it.
#[repr(C)]
pub struct chappe_turn {
    /// Which round has turned, counted from 0.
    pub round: u64,
    /// 0 for exactly one party of the round: usually the one that arrived last.
    pub index: u32,
    /// How many parties died in it; 255: so many or more.
    pub died: u32,
    /// The process of the one that died last; 0: none died.
    pub pid: i32,
    /// 0.
    pub reserved: u32,
}

/// A barrier, in single looks.
#[repr(C)]
pub struct chappe_barrier_info {
    /// How many rounds have turned.
    pub rounds: u64,
    /// For how many parties it was made.
    pub parties: u32,
    /// How many have arrived in the round under way.
    pub arrived: u32,
    /// How many have joined.
    pub joined: u32,
    /// How many died that had joined, and whose places nobody has taken yet.
    pub dead: u32,
    /// 1: it is broken.
    pub is_broken: i32,
    /// 1: a death breaks it.
    pub breaks_on_death: i32,
    /// 0.
    pub reserved: [u64; 2],
}

const _: () = assert!(CHAPPE_BARRIER_MAX == Barrier::MOST_PARTIES as i64);

/// What a handle has: a barrier is larger than a slot.
pub type Boxed = Box<Barrier>;

impl Object for Boxed {
    type Name = chappe_barrier;
    const KIND: u32 = 19;
    const REFUSAL: &'static CStr = c"this is no open handle of a barrier: NULL, closed already, or of something else";
}

/// An arrival, and the process whose it is.
pub struct Arriving {
    kept: ManuallyDrop<Box<KeptArrival>>,
    incarnation: u64,
}

impl Object for Arriving {
    type Name = chappe_arrival;
    const KIND: u32 = 20;
    const REFUSAL: &'static CStr = c"this is no open handle of an arrival: NULL, closed already, or of something else";
}

impl Arriving {
    /// The arrival, if it is the calling thread's: no other may look at it.
    pub fn mine(&self) -> Answer<&KeptArrival> {
        if self.incarnation == raw::incarnation() && self.kept.is_mine() {
            return Ok(&self.kept);
        }
        let text = c"this arrival is another thread's, or the parent process's: each arrives, and waits, itself";
        Err(Failure::new(libc::EPERM, text))
    }
}

fn opened(place: *mut *mut chappe_barrier, make: impl FnOnce() -> Answer<Barrier>) -> c_int {
    done(|| {
        let place = input::place(place)?;
        place.write(handle::open_as(|| make().map(Box::new))?);
        Ok(())
    })
}

/// Whether a death breaks it.
fn breaks(flags: u32) -> Answer<bool> {
    input::flags(flags, CHAPPE_BREAKS_ON_DEATH).map(|()| flags & CHAPPE_BREAKS_ON_DEATH != 0)
}

/// Makes a barrier for so many threads of this process. It goes when the last handle is closed.
///
/// Errors: -EINVAL for no parties, or more than CHAPPE_BARRIER_MAX; -ENOMEM if there is no address space for what is private;
/// -ENOSPC if there are 65536 private objects; -EFAULT, -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_private(parties: i64, barrier: *mut *mut chappe_barrier) -> c_int {
    opened(barrier, || Ok(Barrier::private(input::count(parties)?)?))
}

/// Opens the barrier of this name: "step", or "lab/step" for one in the arena "lab".
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_open(name: *const c_char, barrier: *mut *mut chappe_barrier) -> c_int {
    opened(barrier, || Ok(Barrier::open(input::name(name)?)?))
}

/// Makes the barrier of this name, which must not be there, and its arena if need be. `flags`: 0 or CHAPPE_BREAKS_ON_DEATH.
///
/// Errors: -EEXIST; -EINVAL for no parties, or more than CHAPPE_BARRIER_MAX or than the arena has room for members (4095, if it is
/// there and of the usual size), or a flag that is not known; -ENOSPC or -EUSERS if the arena is full; else as `chappe_barrier_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_create(
    name: *const c_char,
    parties: i64,
    flags: u32,
    barrier: *mut *mut chappe_barrier,
) -> c_int {
    opened(barrier, || {
        let (name, parties) = (input::name(name)?, input::count(parties)?);
        Ok(if breaks(flags)? { Barrier::create_breaking(name, parties) } else { Barrier::create(name, parties) }?)
    })
}

/// Opens the barrier of this name, or makes it.
///
/// Errors: -EPROTOTYPE if it is there with another number of parties, or with other flags; else as `chappe_barrier_create`, but for
/// -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_open_or_create(
    name: *const c_char,
    parties: i64,
    flags: u32,
    barrier: *mut *mut chappe_barrier,
) -> c_int {
    opened(barrier, || {
        let (name, parties) = (input::name(name)?, input::count(parties)?);
        Ok(if breaks(flags)? {
            Barrier::open_or_create_breaking(name, parties)
        } else {
            Barrier::open_or_create(name, parties)
        }?)
    })
}

/// Closes a handle. A named barrier stays, and so do its parties; arrivals keep what they need. No other thread may be in a call with this
/// handle, or call with it later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_close(barrier: *mut chappe_barrier) -> c_int {
    done(|| handle::close::<Boxed>(barrier).map(drop))
}

/// Removes the barrier of this name. One at which a thread waits, or that one has joined, is refused unless `force`: then they get
/// -EIDRM, but those whose round has turned get their turn.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_barrier_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Barrier::remove(input::name(name)?, input::truth(force))?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length, 0 for a private one.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_name(barrier: *const chappe_barrier, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Boxed>(barrier)?.name()))
}

/// For how many parties it was made.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_parties(barrier: *const chappe_barrier) -> i64 {
    answer(|| Ok(handle::get::<Boxed>(barrier)?.parties().into()))
}

/// Writes how it is now; that may change at once.
///
/// Errors: -EIDRM, -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_look(barrier: *const chappe_barrier, info: *mut chappe_barrier_info) -> c_int {
    done(|| {
        let (barrier, place) = (handle::get::<Boxed>(barrier)?, input::place(info)?);
        let now = barrier.info()?;
        place.write(chappe_barrier_info {
            rounds: now.rounds,
            parties: now.parties,
            arrived: now.arrived,
            joined: now.joined,
            dead: now.dead,
            is_broken: now.broken.is_some().into(),
            breaks_on_death: now.breaks_on_death.into(),
            reserved: [0; 2],
        });
        Ok(())
    })
}

/// Writes the turn, if there is one and a place for it; the answer.
pub fn told(result: Result<Turn, BarrierError>, to: *mut chappe_turn) -> Answer<c_int> {
    let (turn, died, pid) = match result {
        Ok(turn) => (turn, 0, 0),
        Err(BarrierError::PartyDied { turn, died, pid, .. }) => (turn, died, pid),
        Err(e) => return Err(e.into()),
    };
    if let Some(place) = input::place_if(to)? {
        place.write(chappe_turn { round: turn.round, index: turn.index, died, pid: pid as i32, reserved: 0 });
    }
    Ok(if died > 0 { CHAPPE_PARTY_DIED } else { 0 })
}

fn waited(
    barrier: *mut chappe_barrier,
    turn: *mut chappe_turn,
    limit: Answer<Limit>,
    once: bool,
    breaks: bool,
) -> c_int {
    answer(|| {
        let barrier = handle::get::<Boxed>(barrier)?;
        // Before it arrives: it would arrive in vain.
        input::place_if(turn)?;
        told(raw::pass(barrier, once, limit?.into(), breaks), turn)
    })
}

/// Joins, if need be, arrives, and waits until all others have. A handled signal does not end the wait. Writes the turn to `turn`, unless
/// that is NULL. Answers 0, or CHAPPE_PARTY_DIED: in both cases the round has turned.
///
/// Errors: -ECANCELED if the barrier is broken, or breaks, or is reset meanwhile; -ENOSPC if it has its parties already; -EALREADY if
/// this thread has an arrival there that it has not waited for; -EIDRM if it is or gets removed; -EUSERS if the thread cannot become a member of
/// its arena; -EBADF, -EFAULT; the system's, if it refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_wait(barrier: *mut chappe_barrier, turn: *mut chappe_turn) -> c_int {
    waited(barrier, turn, Ok(Limit::Forever), false, false)
}

/// As `chappe_barrier_wait`, for at most `ns` nanoseconds; then the arrival is taken back, and the others wait on.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_barrier_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_wait_timeout(barrier: *mut chappe_barrier, turn: *mut chappe_turn, ns: i64) -> c_int {
    waited(barrier, turn, input::within(ns), false, false)
}

/// As `chappe_barrier_wait`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_barrier_wait_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_wait_deadline(barrier: *mut chappe_barrier, turn: *mut chappe_turn, at: i64) -> c_int {
    waited(barrier, turn, input::until(at), false, false)
}

/// As `chappe_barrier_wait`, for at most `ns` nanoseconds; then the barrier breaks: this call and those of all others answer -ECANCELED.
///
/// Errors: -EINVAL if `ns` is negative; else as `chappe_barrier_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_wait_timeout_or_break(
    barrier: *mut chappe_barrier,
    turn: *mut chappe_turn,
    ns: i64,
) -> c_int {
    waited(barrier, turn, input::within(ns), false, true)
}

/// As `chappe_barrier_wait`, by a thread that, if it has not joined before, is a party of this round only.
///
/// Errors: as `chappe_barrier_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_wait_once(barrier: *mut chappe_barrier, turn: *mut chappe_turn) -> c_int {
    waited(barrier, turn, Ok(Limit::Forever), true, false)
}

fn arrived(barrier: *mut chappe_barrier, arrival: *mut *mut chappe_arrival, once: bool) -> c_int {
    done(|| {
        let (place, barrier) = (input::place(arrival)?, handle::get::<Boxed>(barrier)?);
        place.write(handle::open_as(|| {
            let kept = ManuallyDrop::new(Box::new(KeptArrival::new(barrier, once)?));
            Ok(Arriving { kept, incarnation: raw::incarnation() })
        })?);
        Ok(())
    })
}

/// Joins, if need be, and arrives. Never waits. The thread may do something else before it waits for the turn, by `chappe_arrival_wait` or
/// in a choice (`chappe_arm_turn`). Only this thread may use the arrival, and it closes it by `chappe_arrival_close`. When the thread ends,
/// the arrival is taken back; the handle stays open, and any thread may close it.
///
/// Errors: as `chappe_barrier_wait`; -EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_arrive(barrier: *mut chappe_barrier, arrival: *mut *mut chappe_arrival) -> c_int {
    arrived(barrier, arrival, false)
}

/// As `chappe_barrier_arrive`, for this round only: see `chappe_barrier_wait_once`.
///
/// Errors: as `chappe_barrier_arrive`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_arrive_once(barrier: *mut chappe_barrier, arrival: *mut *mut chappe_arrival) -> c_int {
    arrived(barrier, arrival, true)
}

/// Makes the calling thread a party before it arrives: each round from now on waits for it. Does nothing at a private barrier, and at one
/// that a death breaks. Never waits.
///
/// Errors: -ENOSPC if it has its parties already; -EALREADY if this thread is one; -EIDRM, -EUSERS, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_join(barrier: *mut chappe_barrier) -> c_int {
    done(|| Ok(handle::get::<Boxed>(barrier)?.join()?))
}

/// The calling thread is a party no longer, if it is one; its place waits for another. Never waits.
///
/// Errors: -EALREADY if it has an arrival there that is not closed or waited for; -EIDRM, -EUSERS, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_leave(barrier: *mut chappe_barrier) -> c_int {
    done(|| Ok(handle::get::<Boxed>(barrier)?.leave()?))
}

/// Breaks the barrier: all that wait, and all that come, get -ECANCELED until it is reset. Never waits.
///
/// Errors: -EIDRM, -EUSERS, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_abort(barrier: *mut chappe_barrier) -> c_int {
    done(|| Ok(handle::get::<Boxed>(barrier)?.abort()?))
}

/// Makes it whole, with all its parties: all that wait get -ECANCELED, a broken barrier is as new, and those that died are expected
/// again. Never waits.
///
/// Errors: -EIDRM, -EUSERS, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_reset(barrier: *mut chappe_barrier) -> c_int {
    done(|| Ok(handle::get::<Boxed>(barrier)?.reset()?))
}

fn arrival_waited(arrival: *mut chappe_arrival, turn: *mut chappe_turn, limit: Answer<Limit>, breaks: bool) -> c_int {
    answer(|| {
        let kept = handle::get::<Arriving>(arrival)?.mine()?;
        input::place_if(turn)?;
        told(kept.wait(limit?.into(), breaks), turn)
    })
}

/// Waits for the turn of the arrival's round; as `chappe_barrier_wait`. The outcome is told once; the handle stays open.
///
/// Errors: -ECANCELED if the barrier breaks, or is reset meanwhile; -EALREADY if the outcome was told, or the arrival taken back; -EPERM if
/// the arrival is another thread's, or the parent process's; -EIDRM if the barrier gets removed; -EBADF, -EFAULT; the system's, if it
/// refuses the thread that watches for deaths.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arrival_wait(arrival: *mut chappe_arrival, turn: *mut chappe_turn) -> c_int {
    arrival_waited(arrival, turn, Ok(Limit::Forever), false)
}

/// As `chappe_arrival_wait`, for at most `ns` nanoseconds; then the arrival is taken back, and the others wait on.
///
/// Errors: -ETIMEDOUT; -EINVAL if `ns` is negative; else as `chappe_arrival_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arrival_wait_timeout(arrival: *mut chappe_arrival, turn: *mut chappe_turn, ns: i64) -> c_int {
    arrival_waited(arrival, turn, input::within(ns), false)
}

/// As `chappe_arrival_wait`, waiting at most until `at` (see `chappe_now`).
///
/// Errors: as `chappe_arrival_wait_timeout`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arrival_wait_deadline(arrival: *mut chappe_arrival, turn: *mut chappe_turn, at: i64) -> c_int {
    arrival_waited(arrival, turn, input::until(at), false)
}

/// As `chappe_arrival_wait`, for at most `ns` nanoseconds; then the barrier breaks, as at `chappe_barrier_wait_timeout_or_break`.
///
/// Errors: -EINVAL if `ns` is negative; else as `chappe_arrival_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arrival_wait_timeout_or_break(
    arrival: *mut chappe_arrival,
    turn: *mut chappe_turn,
    ns: i64,
) -> c_int {
    arrival_waited(arrival, turn, input::within(ns), true)
}

/// 1 if the round has turned, or is broken, or the barrier was removed: then to wait does not block. Else 0. Never waits. The first call that
/// answers 0 starts the thread that watches for deaths in this process.
///
/// Errors: -EPERM, -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arrival_is_over(arrival: *mut chappe_arrival) -> c_int {
    answer(|| Ok(handle::get::<Arriving>(arrival)?.mine()?.arrival().is_over().into()))
}

/// Closes a handle. Answers 1 if the arrival was taken back by this: the round goes on without it; else 0. In a forked child it only
/// closes the child's.
///
/// Errors: -EPERM if it is another thread's that has not ended; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_arrival_close(arrival: *mut chappe_arrival) -> c_int {
    answer(|| {
        let arriving = handle::get::<Arriving>(arrival)?;
        if arriving.incarnation != raw::incarnation() || arriving.kept.has_ended() {
            ManuallyDrop::into_inner(handle::close::<Arriving>(arrival)?.kept).let_go();
            return Ok(0);
        }
        let is_back = arriving.mine()?.take_back();
        drop(ManuallyDrop::into_inner(handle::close::<Arriving>(arrival)?.kept));
        Ok(is_back.into())
    })
}

/// Ends a `turn` arm that was chosen.
pub fn chosen(kept: &KeptArrival, chosen: chappe::SelectedOperation<'_>, to: *mut chappe_turn) -> Answer<isize> {
    told(chosen.turn(kept.arrival()), to).map(|answer| answer as isize)
}
