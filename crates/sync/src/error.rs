//! What can go wrong with a pool, in words that say what to do.

use chappe_arena::ArenaError;
use std::io;

fn listed(names: &[String]) -> String {
    match names {
        [] => "no pools exist here yet".into(),
        [one] => format!("there is only `{one}`"),
        many if many.len() <= 12 => format!("there are `{}`", many.join("`, `")),
        many => format!("there are {}, among them `{}`", many.len(), many[..12].join("`, `")),
    }
}

fn inside(source: &io::Error) -> String {
    source.to_string()
}

/// Why a permit was not acquired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// None is free now, or those that are belong to earlier waiters.
    #[error("no permit is free")]
    WouldBlock,
    /// The time was up before one came free.
    #[error("timed out waiting for a permit")]
    Timeout,
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
    /// A choice of nothing.
    #[error("a choice needs at least one pool")]
    NoPools,
    /// The arena cannot take another member, or is gone.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The system refused the thread that watches for deaths, without which nobody should sleep.
    #[error("cannot start the thread that watches for deaths: {}", inside(.0))]
    System(#[source] io::Error),
}

/// Why a pool could not be opened, made, changed or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There is no pool of this name.
    #[error("there is no pool `{name}` in arena `{arena}` ({}); `chappe pool create {name}` makes one", listed(.existing))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where.
        arena: String,
        /// Those that are there.
        existing: Vec<String>,
    },
    /// There is one already.
    #[error("pool `{name}` is already there, with {permits} permit(s); open it, resize it, or remove it first")]
    Exists {
        /// Which.
        name: String,
        /// How many permits it has.
        permits: u32,
    },
    /// It is there with another number of permits.
    #[error(
        "pool `{name}` has {has} permit(s), not {wanted}; leave the number out, or `chappe pool resize {name} {wanted}`"
    )]
    OtherSize {
        /// Which.
        name: String,
        /// What it has.
        has: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// Not a number of permits.
    #[error("a pool cannot have {permits} permits: between 1 and {most} are possible")]
    Permits {
        /// What was asked for.
        permits: u64,
        /// The limit.
        most: u32,
    },
    /// Somebody holds or awaits a permit.
    #[error(
        "pool `{name}` is in use: {held} permit(s) held, first by {first}; {waiting} waiting; wait for them, or remove it all the same with --force, which ends them with an error"
    )]
    InUse {
        /// Which.
        name: String,
        /// Permits held.
        held: usize,
        /// How many wait.
        waiting: usize,
        /// One of them.
        first: String,
    },
    /// Nobody holds this permit.
    #[error("permit {index} of pool `{name}` is not held by anybody (it has {permits})")]
    NotHeld {
        /// The pool.
        name: String,
        /// The permit.
        index: u32,
        /// How many it has.
        permits: u32,
    },
    /// It was removed.
    #[error("pool `{name}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        name: String,
    },
    /// The arena is not there, not usable, full, or the name is not one.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}

/// Why a permit could not be made a lease.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The permit was taken away by force before.
    #[error("the permit is no longer ours: it was released by force")]
    Lost,
    /// Its lease file cannot be had.
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
}
