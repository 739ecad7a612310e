//! Processes that make, open, use and remove arenas and objects of a few names, also by force, while others do the same with the same names.
//!
//! A churner that opens something gets what it asked for, or an error that is documented for that. What an object is can be told from its
//! name and what it was made with: a pool `n2` has 3 or 5 permits, a semaphore a thousand units, the data of a mutex and each message of a
//! tube begin with a word of their type. The holder of a mutex writes its life into the data and finds it there again, whatever is removed
//! under it.
//!
//! | what | where |
//! |---|---|
//! | objects `n0` to `n3` of any kind | in the three arenas that stay, and in those that come and go |
//! | arenas `x0`, `x1` | come and go; some are made by making an object in them |

use chappe::tube::named::{Kind, NotReceived, NotSent, Tube, TubeError, TubeOptions};
use chappe::{
    AcquireError, Arena, ArenaError, ArenaOptions, Condvar, DownError, LockError, Mutex, MutexGuard, ObjectError, Pool,
    PoolError, Semaphore, UpError,
};

use super::board::{Count, Deed, Found};
use super::places::ARENAS;
use super::worker::{Broken, Worker};

/// The arenas that come and go.
pub const PASSING: [&str; 2] = ["x0", "x1"];
/// How they are made, if on purpose.
pub const SMALL: ArenaOptions = ArenaOptions { members: Some(24), objects: Some(6), cells: Some(8), data: Some(4096) };
/// How many objects come and go in an arena.
const NAMES: u64 = 4;
/// How many turns one process makes before it ends, so that it does not have too many arenas mapped.
const TURNS: u64 = 400;
/// How many units a semaphore has here: more than can die.
const PLENTY: u32 = 1000;

/// An error that is not documented for what was done.
struct Unclear(String);

/// What an operation answered: what is documented is no error here.
type Said<T> = Result<Option<T>, Unclear>;

/// What came of a turn.
type Done = Result<(), Unclear>;

/// All its turns.
///
/// # Errors
/// What should not have failed.
pub fn live(worker: &mut Worker) -> Result<(), Broken> {
    worker.at(Deed::Churn, 0);
    for _ in 0..TURNS {
        if worker.board().is_over() {
            return Ok(());
        }
        turn(worker);
        worker.turn();
    }
    leave(worker)
}

/// Ends the whole process at once, with whatever its workers have in hand.
fn leave(worker: &Worker) -> ! {
    worker.board().condemn(worker.process());
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(0) }
}

fn turn(worker: &mut Worker) {
    let arena = match worker.roll(5) {
        0..3 => ARENAS[worker.roll(3) as usize],
        _ => PASSING[worker.roll(2) as usize],
    };
    let passing = arena.starts_with('x');
    let which = worker.roll(NAMES);
    let name = format!("{arena}/n{which}");
    let (what, said) = match worker.roll(if passing { 11 } else { 8 }) {
        0 => ("removing", remove(worker, &name)),
        1 | 2 => ("a pool", pool(worker, &name, which as u32 + 1)),
        3 => ("a semaphore", semaphore(worker, &name)),
        4 => ("a mutex of two words", mutex::<2>(worker, &name)),
        5 => ("a mutex of four words", mutex::<4>(worker, &name)),
        6 => ("a tube of two words", tube::<2>(worker, &name)),
        7 => ("a tube of four words", tube::<4>(worker, &name)),
        what => passes(worker, arena, what),
    };
    if let Err(Unclear(e)) = said {
        worker.chaos.found(Found::Unclear, &format!("{what}, {name}: {e}"));
    }
}

/// Makes, opens or removes an arena.
fn passes(worker: &mut Worker, arena: &str, what: u64) -> (&'static str, Done) {
    let force = worker.roll(2) == 0;
    let (name, counted, said) = match what {
        8 => ("making the arena", Some(Count::Made), Arena::create(arena, &SMALL).map(drop)),
        9 => ("opening the arena", None, Arena::open(arena).map(drop)),
        _ => ("removing the arena", Some(Count::Removed), Arena::remove(arena, force)),
    };
    let said = documented(said.map_err(ObjectError::from));
    if let (Some(what), Ok(Some(()))) = (counted, &said) {
        worker.board().count(what, 1);
    }
    (name, said.map(drop))
}

// ---- what is documented ----

/// What may be wrong with an arena that others make, fill and remove.
fn is_documented(e: &ArenaError) -> bool {
    use ArenaError as E;
    matches!(
        e,
        E::NotFound { .. }
            | E::Exists { .. }
            | E::InUse { .. }
            | E::Removed { .. }
            | E::MembersFull { .. }
            | E::ObjectsFull { .. }
            | E::CellsFull { .. }
            | E::BlocksFull { .. }
    )
}

fn documented<T>(said: Result<T, ObjectError>) -> Said<T> {
    use ObjectError as E;
    match said {
        Ok(it) => Ok(Some(it)),
        Err(E::Unknown { .. } | E::Exists { .. } | E::OtherKind { .. } | E::OtherType { .. } | E::InUse { .. }) => {
            Ok(None)
        }
        Err(E::Arena(e)) if is_documented(&e) => Ok(None),
        Err(e) => Err(Unclear(e.to_string())),
    }
}

fn of_pool<T>(said: Result<T, PoolError>) -> Said<T> {
    use PoolError as E;
    match said {
        Ok(it) => Ok(Some(it)),
        Err(
            E::Unknown { .. }
            | E::Exists { .. }
            | E::OtherKind { .. }
            | E::OtherSize { .. }
            | E::InUse { .. }
            | E::Dead { .. },
        ) => Ok(None),
        Err(E::Arena(e)) if is_documented(&e) => Ok(None),
        Err(e) => Err(Unclear(e.to_string())),
    }
}

fn of_tube<T>(said: Result<T, TubeError>) -> Said<T> {
    use TubeError as E;
    match said {
        Ok(it) => Ok(Some(it)),
        Err(E::OtherType { .. } | E::OtherShape { .. } | E::Single { .. } | E::Dead { .. }) => Ok(None),
        Err(E::Object(e)) => documented(Err(e)),
        Err(e) => Err(Unclear(e.to_string())),
    }
}

/// Which of the three ways one comes by an object, and notes if it was by making it.
fn come_by<T, E>(
    worker: &mut Worker,
    open: impl FnOnce() -> Result<T, E>,
    create: impl FnOnce() -> Result<T, E>,
    either: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    match worker.roll(4) {
        0 | 1 => open(),
        2 => either(),
        _ => create().inspect(|_| worker.board().count(Count::Made, 1)),
    }
}

/// Removes whatever is there, or tries to as what it may be.
fn remove(worker: &mut Worker, name: &str) -> Done {
    let force = worker.roll(2) == 0;
    let gone = match worker.roll(5) {
        0 => of_pool(Pool::remove(name, force))?,
        1 => documented(Semaphore::remove(name, force))?,
        2 => documented(Mutex::remove(name, force))?,
        3 => documented(Condvar::remove(name, force))?,
        _ => of_tube(Tube::remove(name, force))?,
    };
    if gone.is_some() {
        worker.board().count(Count::Removed, 1);
    }
    Ok(())
}

// ---- what is used ----

fn pool(worker: &mut Worker, name: &str, few: u32) -> Done {
    let sizes = [few, few + 2];
    let size = sizes[worker.roll(2) as usize];
    let got = come_by(worker, || Pool::open(name), || Pool::create(name, size), || Pool::open_or_create(name, size));
    let Some(pool) = of_pool(got)? else { return Ok(()) };
    let time = worker.moment(5_000);
    match pool.acquire_timeout(time) {
        // Looked at while the permit is held: one of a pool that was removed and another one made is void. A removed pool has no permits.
        Ok(permit) => {
            let (index, permits) = (permit.index(), pool.permits());
            worker.dawdle();
            if permit.is_valid() && (index >= sizes[1] || permits != 0 && !sizes.contains(&permits)) {
                worker
                    .chaos
                    .found(Found::Torn, &format!("pool {name} has {permits} permits, and gave out number {index}"));
            }
            Ok(())
        }
        Err(AcquireError::Timeout | AcquireError::WouldBlock | AcquireError::Dead { .. }) => Ok(()),
        Err(AcquireError::Arena(e)) if is_documented(&e) => Ok(()),
        Err(e) => Err(Unclear(format!("acquiring: {e}"))),
    }
}

fn semaphore(worker: &mut Worker, name: &str) -> Done {
    let got = come_by(
        worker,
        || Semaphore::open(name),
        || Semaphore::create(name, PLENTY),
        || Semaphore::open_or_create(name, PLENTY),
    );
    let Some(semaphore) = documented(got)? else { return Ok(()) };
    match semaphore.try_down() {
        Ok(()) => {}
        Err(DownError::Dead { .. }) => return Ok(()),
        Err(DownError::Arena(e)) if is_documented(&e) => return Ok(()),
        // Nobody waits here, and there are more units than ever are in hand.
        Err(e) => return Err(Unclear(format!("down: {e}"))),
    }
    worker.dawdle();
    match semaphore.up() {
        Ok(()) | Err(UpError::Dead { .. }) => Ok(()),
        Err(UpError::Arena(e)) if is_documented(&e) => Ok(()),
        Err(e) => Err(Unclear(format!("up: {e}"))),
    }
}

/// The first word of what has so many words.
const fn word_of(words: usize) -> u64 {
    0xc0de_0000_0000_0000 | words as u64
}

fn mutex<const N: usize>(worker: &mut Worker, name: &str) -> Done
where
    [u64; N]: bytemuck::Pod,
{
    let mut first = [0; N];
    first[0] = word_of(N);
    let got = come_by(
        worker,
        || Mutex::<[u64; N]>::open(name),
        || Mutex::create(name, first),
        || Mutex::open_or_create(name, first),
    );
    let Some(mutex) = documented(got)? else { return Ok(()) };
    let time = worker.moment(5_000);
    let mut guard = match mutex.lock_timeout(time) {
        Ok(guard) => guard,
        Err(LockError::OwnerDied(mut guard)) => {
            MutexGuard::make_consistent(&mut guard);
            guard
        }
        Err(LockError::Timeout | LockError::Dead { .. }) => return Ok(()),
        Err(LockError::Arena(e)) if is_documented(&e) => return Ok(()),
        Err(e) => return Err(Unclear(format!("locking: {e}"))),
    };
    let mine = u64::from(worker.number);
    guard[N - 1] = mine;
    worker.dawdle();
    if guard[0] != word_of(N) || guard[N - 1] != mine {
        worker.chaos.found(Found::Torn, &format!("the data of {name}, locked by life {mine}, is {:x?}", *guard));
    }
    Ok(())
}

fn tube<const N: usize>(worker: &mut Worker, name: &str) -> Done
where
    [u64; N]: bytemuck::Pod,
{
    let kind = if N == 2 { Kind::Mpmc } else { Kind::Mpsc };
    let options = TubeOptions { slots: N as u32, kind, ..TubeOptions::default() };
    let got = come_by(
        worker,
        || Tube::<[u64; N]>::open(name),
        || Tube::create(name, &options),
        || Tube::open_or_create(name, &options),
    );
    let Some(tube) = of_tube(got)? else { return Ok(()) };
    let time = worker.moment(2_000);
    if worker.roll(2) == 0 {
        let Some(out) = of_tube(tube.sender())? else { return Ok(()) };
        let mut message = [u64::from(worker.number); N];
        message[0] = word_of(N);
        return match out.send_timeout(message, time) {
            Ok(()) | Err(NotSent::Timeout(_) | NotSent::Disconnected { .. } | NotSent::Dead { .. }) => Ok(()),
            Err(NotSent::Arena { source, .. }) if is_documented(&source) => Ok(()),
            Err(e) => Err(Unclear(format!("sending: {e}"))),
        };
    }
    let Some(into) = of_tube(tube.receiver())? else { return Ok(()) };
    match into.recv_timeout(time) {
        Ok(message) => {
            if message[0] != word_of(N) || message[1..].iter().any(|word| *word != message[1]) {
                worker.chaos.found(Found::Torn, &format!("from tube {name} came {message:x?}"));
            }
            Ok(())
        }
        Err(
            NotReceived::Timeout
            | NotReceived::Disconnected { .. }
            | NotReceived::SenderDied { .. }
            | NotReceived::Dead { .. },
        ) => Ok(()),
        Err(NotReceived::Arena(e)) if is_documented(&e) => Ok(()),
        Err(e) => Err(Unclear(format!("receiving: {e}"))),
    }
}
