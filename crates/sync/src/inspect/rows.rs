//! The observers' table of kinds.

use super::row::Inspected;
use super::{bodies, locks, pools, rwlocks, semaphores, tubes};
use chappe_arena::layout::Kind;

/// What observers ask a kind.
pub(crate) fn of(kind: Kind) -> &'static dyn Inspected {
    match kind {
        Kind::Pool => &pools::Pools,
        Kind::Semaphore => &semaphores::Semaphores,
        Kind::Mutex => &locks::Mutexes,
        Kind::Condvar => &locks::Condvars,
        Kind::End => &tubes::Ends,
        Kind::Tube => &tubes::Tubes,
        Kind::Broadcast => &tubes::Broadcasts,
        Kind::Map => &bodies::Maps,
        Kind::Stack => &bodies::STACKS,
        Kind::Counter => &bodies::COUNTERS,
        Kind::Words => &bodies::WORDS,
        Kind::Server => &bodies::SERVERS,
        Kind::HelpLock => &bodies::HELP_LOCKS,
        Kind::Monitor => &bodies::MONITORS,
        Kind::RwLock => &rwlocks::RwLocks,
        Kind::Barrier => &bodies::Barriers,
        Kind::Line | Kind::Inside => &rwlocks::LockParts,
    }
}
