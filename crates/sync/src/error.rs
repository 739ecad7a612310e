//! The errors of objects: each message says what to do.

use chappe_arena::ArenaError;
use std::io;
use std::path::Path;

fn listed(names: &[String], what: &str) -> String {
    match names {
        [] => format!("no {what} exist here yet"),
        [one] => format!("there is only `{one}`"),
        many if many.len() <= 12 => format!("there are `{}`", many.join("`, `")),
        many => format!("there are {}, among them `{}`", many.len(), many[..12].join("`, `")),
    }
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "semaphore" => "semaphores",
        "owned semaphore" => "owned semaphores",
        "mutex" => "mutexes",
        "condition variable" => "condition variables",
        "tube" => "tubes",
        "map" => "maps",
        _ => "objects",
    }
}

/// How an object of this kind is made.
fn made(kind: &str, name: &str) -> String {
    match kind {
        "semaphore" => format!("`chappe sem create {name}` makes one"),
        "tube" => format!("`chappe tube create {name}` makes one"),
        "map" => format!("`chappe map create {name}` makes one"),
        "barrier" => format!("`chappe barrier create {name} --parties N` makes one"),
        "mutex" | "condition variable" | "owned semaphore" => "programs make them: make it first".into(),
        _ => {
            format!("`chappe pool create {name}`, `chappe sem create {name}` and `chappe tube create {name}` make one")
        }
    }
}

pub(crate) fn inside(source: &io::Error) -> String {
    source.to_string()
}

/// Why a permit was not acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// No permit is free now, or the free ones belong to earlier waiters.
    #[error("no permit is free")]
    WouldBlock,
    /// The time was up before a permit came free.
    #[error("timed out waiting for a permit")]
    Timeout,
    /// A signal was handled, or another thread interrupted the wait: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for a permit")]
    Interrupted,
    /// The pool was removed, or its arena was.
    #[error("pool `{pool}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        pool: String,
    },
    /// A choice names pools of two different named arenas.
    #[error(
        "one choice cannot wait in two arenas, `{first}` and `{second}`; keep what is chosen among in one arena (this process's private one may be mixed in)"
    )]
    TwoArenas {
        /// The arena of an earlier arm.
        first: String,
        /// The arena of a later one.
        second: String,
    },
    /// A choice without pools.
    #[error("a choice needs at least one pool")]
    NoPools,
    /// More permits at once than the pool has.
    #[error(
        "pool `{pool}` has {permits} permit(s): {wanted} at once can never be had; ask for fewer, or `chappe pool resize`"
    )]
    TooMany {
        /// The pool.
        pool: String,
        /// What was asked for.
        wanted: u32,
        /// What it has.
        permits: u32,
    },
    /// A task's wait that a forked child inherited: its place in the line is the parent's.
    #[error("the wait for pool `{pool}` began before this process was forked, and is the parent's; wait anew")]
    Inherited {
        /// Which.
        pool: String,
    },
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The system refused the thread that watches for deaths, without which no thread should sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}

/// Why a pool could not be opened, made, changed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There is no pool of this name.
    #[error("there is no pool `{name}` in arena `{arena}` ({}); `chappe pool create {name}` makes one", listed(.existing, "pools"))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where.
        arena: String,
        /// The pools that are there.
        existing: Vec<String>,
    },
    /// Another kind of object has the name.
    #[error(
        "`{name}` is a {is}, not a pool; all objects of an arena share one set of names: take another, or another arena"
    )]
    OtherKind {
        /// What was asked for.
        name: String,
        /// What it is.
        is: &'static str,
    },
    /// There is a pool of this name already.
    #[error("pool `{name}` is already there, with {permits} permit(s); open it, resize it, or remove it first")]
    Exists {
        /// Which.
        name: String,
        /// How many permits it has.
        permits: u32,
    },
    /// The pool has another number of permits.
    #[error(
        "pool `{name}` has {has} permit(s), not {wanted}; leave the number out, or `chappe pool resize {name} {wanted}`"
    )]
    OtherSize {
        /// Which.
        name: String,
        /// How many it has.
        has: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// That number of permits is not possible.
    #[error("a pool cannot have {permits} permits: between 1 and {most} are possible")]
    Permits {
        /// What was asked for.
        permits: u64,
        /// The limit.
        most: u32,
    },
    /// A member holds a permit or waits for one.
    #[error(
        "pool `{name}` is in use: {held} permit(s) held, first by {first}; {waiting} waiting; wait for them, or remove it all the same with --force, which ends them with an error"
    )]
    InUse {
        /// Which.
        name: String,
        /// Permits held.
        held: usize,
        /// How many members wait.
        waiting: usize,
        /// One of these members.
        first: String,
    },
    /// No member holds this permit.
    #[error("permit {index} of pool `{name}` is not held by anybody (it has {permits})")]
    NotHeld {
        /// The pool.
        name: String,
        /// The permit.
        index: u32,
        /// How many it has.
        permits: u32,
    },
    /// The pool was removed.
    #[error("pool `{name}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        name: String,
    },
    /// The arena does not exist, cannot be used or is full, or the name is not valid.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

impl From<ObjectError> for PoolError {
    fn from(e: ObjectError) -> PoolError {
        match e {
            ObjectError::Unknown { name, arena, existing, .. } => PoolError::Unknown { name, arena, existing },
            ObjectError::OtherKind { name, is, .. } => PoolError::OtherKind { name, is },
            ObjectError::Arena(e) => PoolError::Arena(e),
            // Nothing else happens to a pool.
            e => ArenaError::Io { what: e.to_string(), source: std::io::ErrorKind::Unsupported.into() }.into(),
        }
    }
}

/// Why a permit could not be made a lease.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The permit was taken away by force before.
    #[error("the permit is no longer ours: it was released by force")]
    Lost,
    /// The permit is of a private pool: no job could find that pool.
    #[error("a private pool's permit cannot be a lease: only those of pools with a name can")]
    Private,
    /// The permit is a lease already, and its file is open.
    #[error("this permit is leased already, and the file of that lease is open: close it first")]
    Leased,
    /// The lease file could not be opened or made.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The system refused the lock.
    #[error("cannot lock a byte of {path}: {}", inside(.source))]
    Lock {
        /// The lease file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused to write down whose job it is: some hundred bytes beside the arena.
    #[error("cannot write down in {path} whose job has the permit: {source}{}", room(.source, .path))]
    Record {
        /// The lease file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// What to do if there is no room beside an arena.
fn room(source: &io::Error, path: &str) -> String {
    let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let directory = Path::new(path).parent().unwrap_or(Path::new("/")).display();
    if full { format!("; make room in {directory} (`df {directory}` shows what is left)") } else { String::new() }
}

/// Why a semaphore, a mutex, a condition variable or a named tube could not be opened, made or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// There is no object of this kind and name.
    #[error("there is no {kind} `{name}` in arena `{arena}` ({}); {}", listed(.existing, plural(.kind)), made(.kind, .name))]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// Where.
        arena: String,
        /// The objects of this kind that are there.
        existing: Vec<String>,
    },
    /// There is an object of this kind and name already.
    #[error("{kind} `{name}` is already there; open it, or remove it first")]
    Exists {
        /// What it is.
        kind: &'static str,
        /// Which.
        name: String,
    },
    /// Another kind of object has the name.
    #[error(
        "`{name}` is a {is}, not a {wanted}; all objects of an arena share one set of names: take another, or another arena"
    )]
    OtherKind {
        /// What was asked for.
        name: String,
        /// What it is.
        is: &'static str,
        /// The kind that was asked for.
        wanted: &'static str,
    },
    /// A semaphore cannot have this value.
    #[error("a semaphore cannot have the value {value}: between 0 and {most} are possible")]
    Value {
        /// What was asked for.
        value: u64,
        /// The limit.
        most: u32,
    },
    /// The data of a named mutex is of another type.
    #[error("{kind} `{name}` guards {bytes} bytes of another type than {wanted}; open it as what it was made as")]
    OtherType {
        /// What it is.
        kind: &'static str,
        /// Which.
        name: String,
        /// How many bytes of data it has.
        bytes: usize,
        /// The type that was asked for.
        wanted: String,
    },
    /// The type of a named mutex needs a greater alignment than is possible.
    #[error("a named lock cannot guard data that is aligned to {has} bytes: at most {most} are possible")]
    Alignment {
        /// The alignment that it needs.
        has: usize,
        /// The greatest that is possible.
        most: usize,
    },
    /// An object of this kind would be useless in the private arena.
    #[error("an {kind} is for several processes: make it in a named arena, or a semaphore here")]
    Private {
        /// What it is.
        kind: &'static str,
    },
    /// The object is in use.
    #[error(
        "{kind} `{name}` is in use: {how}; wait for them, or remove it all the same with --force, which ends them with an error"
    )]
    InUse {
        /// What it is.
        kind: &'static str,
        /// Which.
        name: String,
        /// How it is used.
        how: String,
    },
    /// The arena does not exist, cannot be used or is full, or the name is not valid.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

/// Why no wake-up was consumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownError {
    /// No wake-up is saved, or the saved ones belong to earlier waiters.
    #[error("no wake-up is saved")]
    WouldBlock,
    /// The time was up before a wake-up came.
    #[error("timed out waiting for a wake-up")]
    Timeout,
    /// A signal was handled, or another thread interrupted the wait: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for a wake-up")]
    Interrupted,
    /// The semaphore was removed, or its memory was damaged.
    #[error(
        "semaphore `{semaphore}` is dead: it was removed, or its memory was damaged; open it again if it was made anew"
    )]
    Dead {
        /// Which.
        semaphore: String,
    },
    /// A task's wait that a forked child inherited: its place in the line is the parent's.
    #[error(
        "the wait for semaphore `{semaphore}` began before this process was forked, and is the parent's; wait anew"
    )]
    Inherited {
        /// Which.
        semaphore: String,
    },
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The system refused the thread that watches for deaths, without which no thread should sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}

/// Why no wake-up was saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpError {
    /// The value would be too great. Nothing was changed.
    #[error("semaphore `{semaphore}` has the value {value}: {by} more would exceed {most}; nothing was changed")]
    Overflow {
        /// Which.
        semaphore: String,
        /// Its value.
        value: u32,
        /// What was to be added.
        by: u32,
        /// The limit.
        most: u32,
    },
    /// The semaphore was removed, or its memory was damaged.
    #[error(
        "semaphore `{semaphore}` is dead: it was removed, or its memory was damaged; open it again if it was made anew"
    )]
    Dead {
        /// Which.
        semaphore: String,
    },
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

/// Why a mutex was not locked; or that it was locked, and what the holder must know. `G` is the guard.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum LockError<G> {
    /// Locked; a holder died or panicked, and the data is as that holder left it. Make it whole and call
    /// [`MutexGuard::make_consistent`](crate::MutexGuard::make_consistent), or
    /// [`MutexGuard::condemn`](crate::MutexGuard::condemn).
    #[error(
        "locked, but an earlier holder died in the middle of its section: look at the data, then say that it is consistent, or condemn the mutex"
    )]
    OwnerDied(G),
    /// Locked, but the condition variable was removed.
    #[error("condition variable `{condvar}` was removed while it was waited on")]
    CondvarDead {
        /// Which.
        condvar: String,
        /// The mutex is locked.
        guard: G,
    },
    /// Another thread has it.
    #[error("the mutex is locked")]
    WouldBlock,
    /// The time was up first.
    #[error("timed out waiting for the mutex")]
    Timeout,
    /// A signal was handled, or another thread interrupted the wait: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for the mutex")]
    Interrupted,
    /// The calling thread has it.
    #[error("mutex `{mutex}` is locked by this very thread: it would wait for itself for ever")]
    Deadlock {
        /// Which.
        mutex: String,
    },
    /// A holder gave its data up.
    #[error(
        "mutex `{mutex}` was condemned: a holder died and its data could not be made whole; remove it and make it anew"
    )]
    Condemned {
        /// Which.
        mutex: String,
    },
    /// A task's wait that a forked child inherited: its place in the line is the parent's.
    #[error("the wait for mutex `{mutex}` began before this process was forked, and is the parent's; wait anew")]
    Inherited {
        /// Which.
        mutex: String,
    },
    /// The mutex was removed.
    #[error("mutex `{mutex}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        mutex: String,
    },
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(ArenaError),
    /// The system refused the thread that watches for deaths, without which no thread should sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}

impl<G> std::fmt::Debug for LockError<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockError({self})")
    }
}

/// Why a choice was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No arm is ready.
    #[error("nothing to choose is ready")]
    WouldBlock,
    /// The time was up before an arm was ready.
    #[error("timed out waiting for a choice")]
    Timeout,
    /// A signal was handled, or another thread interrupted the wait: see [`interruptible`](crate::interruptible).
    #[error("interrupted while waiting for a choice")]
    Interrupted,
    /// An arm's object was removed, or its arena was.
    #[error("`{name}` (arm {arm} of the choice) was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// The arm's number.
        arm: usize,
        /// Its object.
        name: String,
    },
    /// An arm is an end of a tube that only the parent process has.
    #[error(
        "`{name}` (arm {arm} of the choice) may have one such end only, which is the parent process's; after its end another can be attached here"
    )]
    Inherited {
        /// The arm's number.
        arm: usize,
        /// Its object.
        name: String,
    },
    /// A choice names objects of two different named arenas.
    #[error(
        "one choice cannot wait in two arenas, `{first}` and `{second}`; keep what is chosen among in one arena (this process's private one may be mixed in)"
    )]
    TwoArenas {
        /// The arena of an earlier arm.
        first: String,
        /// The arena of a later one.
        second: String,
    },
    /// A choice without arms would never end.
    #[error("a choice of nothing would wait for ever; add an arm, or a time limit")]
    Nothing,
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The system refused the thread that watches for deaths, without which no thread should sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}
