//! The table of kinds: the protocols that are registered with every arena.

use super::bodies::{Bodied, Maps, Monitors, Servers, Stacks, Still};
use super::{locks, pools, semaphores};
use crate::barrier::kind::Barriers;
use crate::rwlock::row::{LockParts, RwLocks};
use chappe_arena::Kinds;
use chappe_arena::layout::Kind;
use chappe_tube::kinds as tubes;

/// The table.
pub(crate) static TABLE: Kinds = Kinds::NONE
    .with(Kind::Pool, &pools::Pools)
    .with(Kind::Semaphore, &semaphores::Semaphores)
    .with(Kind::Mutex, &locks::Mutexes)
    .with(Kind::Condvar, &locks::Condvars)
    .with(Kind::End, &tubes::Ends)
    .with(Kind::Tube, &tubes::Tubes)
    .with(Kind::Broadcast, &tubes::Broadcasts)
    .with(Kind::Map, &Maps)
    .with(Kind::Stack, &Bodied(Stacks))
    .with(Kind::Counter, &Bodied(Still))
    .with(Kind::Words, &Bodied(Still))
    .with(Kind::Server, &Bodied(Servers))
    .with(Kind::HelpLock, &Bodied(Still))
    .with(Kind::Monitor, &Bodied(Monitors))
    .with(Kind::RwLock, &RwLocks)
    .with(Kind::Line, &LockParts { is_line: true })
    .with(Kind::Inside, &LockParts { is_line: false })
    .with(Kind::Barrier, &Barriers);
