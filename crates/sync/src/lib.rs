//! Pools, locks, tubes, maps, and a choice among them: the protocols of each kind of object, and their names and handles.
//!
//! What each kind of object has, and how a waiter gets it, is in `permit`, `drain` and `many` (pools), `semaphore_word` (semaphores), `lock` and
//! `contend` (mutexes), `rwlock`, `condvar`; `kinds` registers them with the arenas. `owned` composes a pool and a semaphore. `choice` chooses,
//! `lease` keeps a permit for a job. The public API is in `pool`, `guard`, `semaphore`, `mutex`, `condition` and `select`.
//! `plan9` stands apart: semaphores on plain words, which need no arena and record no holder.
//!
//! What sends, receives and deaths do to a tube's words is `chappe-tube`: here are the tubes' names, handles, descriptors and filters.
//! The wait queue, what can be waited for and the calling thread's memberships are `chappe-wait`, which knows no kind.
//! The rings, tables, stacks and words below all this are `chappe-structures`: they know neither names nor waits.
//!
//! The terms that the heads of modules share are in the glossary: `book/src/glossary.md`.
//!
//! A file imports files of its own room and of those below it: the lint `rooms` reads this table.
//!
//! | room | files |
//! |---|---|
//! | explorer | `model` |
//! | inspection | `examine`, `inspect` |
//! | choice | `acquire_any`, `macros`, `raw`, `rwlock`, `select`, `task`, `took`, `tube/interruptible` |
//! | choice | `tube/mod.rs` |
//! | ends | `armed`, `choice`, `descriptor`, `tube` |
//! | handles | `barrier`, `condition`, `counter`, `guard`, `helplock`, `hold`, `map`, `monitor`, `mutex` |
//! | handles | `owned`, `pool`, `schemas`, `semaphore`, `server`, `stack`, `words` |
//! | arenas | `bodied`, `family`, `guarded`, `handle`, `lease/leftover`, `membership`, `named` |
//! | arenas | `found`, `registry` |
//! | kinds | `kinds` |
//! | threads | `fork`, `interruptible`, `priority`, `timed` |
//! | objects | `awaited`, `barrier/arm`, `barrier/kind`, `barrier/round`, `barrier/word`, `bias`, `condvar`, `contend`, `drain`, `holders`, `lease`, `lock`, `many` |
//! | objects | `map/atlas`, `monitor/form`, `owned/flags`, `owned/pair`, `permit`, `rwlock/row` |
//! | objects | `rwlock/word`, `semaphore_word`, `server/form`, `stack/form` |
//! | words | `called`, `directory`, `error` |
//! | words | `lease/origin`, `map/datum`, `map/error`, `map/heap` |
//! | words | `plan9`, `tube/broadcast/subscribe`, `tube/named/error`, `tube/named/message` |

#[cfg(not(feature = "loom"))]
mod awaited;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod barrier;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod bias;
mod condvar;
mod contend;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod counter;
mod drain;
#[cfg(not(any(feature = "sim", feature = "loom")))]
mod interruptible;
mod kinds;
mod lock;
mod many;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod map;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod monitor;
#[doc(hidden)]
pub mod owned;
mod permit;
pub mod plan9;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod rwlock;
mod semaphore_word;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod server;
#[cfg(all(not(all(feature = "loom", not(feature = "sim"))), any(target_arch = "x86_64", target_arch = "aarch64")))]
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod stack;
#[cfg(not(feature = "sim"))]
mod timed;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod tube;

pub use bias::{Bias, biases};
pub use chappe_structures::tries;
pub use chappe_tube::kinds::wake_after_death;
pub use chappe_wait::interrupt::Interrupt;
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[doc(hidden)]
pub use chappe_wait::interrupt::park as park_interruptibly;
pub use chappe_wait::kinds::{clear, used};
pub use chappe_wait::recover::{notify_dead, recover};
pub use chappe_wait::wait::Discipline;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub use descriptor::whenever;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use interruptible::interruptible;

#[cfg(any(feature = "sim", feature = "loom"))]
pub mod model;

#[cfg(not(feature = "sim"))]
mod acquire_any;
#[cfg(not(feature = "sim"))]
mod armed;
#[cfg(not(feature = "sim"))]
mod bodied;
#[cfg(not(feature = "sim"))]
mod called;
#[cfg(not(feature = "sim"))]
mod choice;
#[cfg(not(feature = "sim"))]
mod condition;
#[cfg(not(feature = "sim"))]
mod descriptor;
#[cfg(not(feature = "sim"))]
mod directory;
#[cfg(not(feature = "sim"))]
mod error;
#[cfg(not(feature = "sim"))]
mod examine;
#[cfg(not(feature = "sim"))]
mod family;
#[cfg(not(feature = "sim"))]
mod fork;
#[cfg(not(feature = "sim"))]
mod found;
#[cfg(not(feature = "sim"))]
mod guard;
#[cfg(not(feature = "sim"))]
mod guarded;
#[cfg(not(feature = "sim"))]
mod handle;
#[cfg(not(feature = "sim"))]
mod hold;
#[cfg(not(feature = "sim"))]
mod holders;
#[cfg(not(feature = "sim"))]
mod inspect;
#[cfg(not(feature = "sim"))]
mod lease;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod macros;
#[cfg(not(feature = "sim"))]
mod membership;
#[cfg(not(feature = "sim"))]
mod mutex;
#[cfg(not(feature = "sim"))]
mod named;
#[cfg(not(feature = "sim"))]
mod pool;
#[cfg(not(feature = "sim"))]
mod priority;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod raw;
#[cfg(not(feature = "sim"))]
mod registry;
#[cfg(not(feature = "sim"))]
pub mod schemas;
#[cfg(not(feature = "sim"))]
mod select;
#[cfg(not(feature = "sim"))]
mod semaphore;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub mod task;
#[cfg(not(feature = "sim"))]
mod took;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod helplock;
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod words;

#[cfg(not(feature = "sim"))]
pub use self::{
    acquire_any::{acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any},
    barrier::{Arrival, Barrier, BarrierError, BarrierInfo, Broke, Turn},
    bodied::{SharedError, SharedInfo},
    condition::Condvar,
    counter::Counter,
    directory::{directory, keep_environment, open_directory},
    error::{AcquireError, DownError, LeaseError, LockError, ObjectError, PoolError, SelectError, UpError},
    examine::{Belonging, Damage, Removed, Righted},
    fork::prepare as prepare_forks,
    guard::{OwnedPermit, OwnedPermits, Permit, Permits},
    holders::{Holder, PoolInfo},
    inspect::row::{Fact, FactSort, Had, ObjectInfo, ObjectState},
    lease::leftover::{LeaseFile, has_leases, leftover_leases},
    lease::locks::{LockJob, LockLease},
    lease::{Lease, Unseen, VARIABLE as LEASE_VARIABLE, keeps_descendants},
    mutex::{ByProcess, ByThread, LockResult, Mutex, MutexGuard, OwnedLockResult, OwnedMutexGuard},
    pool::Pool,
    priority::{Priority, set_priority},
    registry::{Arena, ArenaOptions, Capacity},
    rwlock::{ReadGuard, ReadResult, RwLock, RwLockError, WriteGuard, WriteResult, lock_jobs},
    select::{ReceivingEnd, Select, SelectedOperation, SendingEnd},
    semaphore::Semaphore,
    server::{Serve, Server, Service, remove_service},
};
#[cfg(not(any(feature = "loom", feature = "sim")))]
#[doc(hidden)]
pub use chappe_wait::inside;
#[cfg(not(feature = "sim"))]
pub use chappe_wait::{
    attachment::reaped,
    label::set_label,
    object_id::ObjectId,
    role::{Role, set_role},
    waiters::Waiter,
};

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use self::{
    helplock::{HelpError, HelpGuard, HelpLock, lock_all},
    monitor::{Inside, Monitor, MonitorError},
    stack::{PushError, Stack},
};
