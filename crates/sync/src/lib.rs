//! Pools, choice, and the wait queue they share: the protocols.
//!
//! `wait` is the wait queue: the waiters, their order, and grants. What each kind of object has, and how a waiter gets it, is in `cell`,
//! `permit`, `drain` and `many` (pools), `semaphore_word` (semaphores), `lock` and `contend` (mutexes), `rwlock`, `condvar`; `kinds` dispatches to
//! them. `owned` composes a pool and a semaphore. `operation` is what can be waited for, `claim` waits until one
//! succeeds, `choice` chooses, `recover` does what a dead member no longer can, `lease` keeps a permit for a job. The public API is in
//! `pool`, `guard`, `semaphore`, `mutex`, `condition` and `select`; what a process must remember of arenas and its threads is in `known`,
//! `private` and `attachment`. `plan9` stands apart: semaphores on plain words, which need no arena and record no holder.
//!
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
//! | choice | `acquire_any`, `macros`, `raw`, `rwlock`, `select`, `took`, `tube/interruptible` |
//! | choice | `tube/mod.rs` |
//! | ends | `armed`, `choice`, `descriptor`, `tube/broadcast/ends`, `tube/broadcast/heard` |
//! | ends | `tube/broadcast/made`, `tube/broadcast/mod.rs`, `tube/broadcast/route`, `tube/make` |
//! | ends | `tube/named/attach`, `tube/named/awaited`, `tube/named/chosen` |
//! | ends | `tube/named/descriptor`, `tube/named/ends`, `tube/named/fault`, `tube/named/made` |
//! | ends | `tube/named/mod.rs`, `tube/named/place`, `tube/named/polled`, `tube/schema` |
//! | handles | `barrier`, `condition`, `counter`, `guard`, `helplock`, `hold`, `map`, `monitor`, `mutex` |
//! | handles | `owned`, `pool`, `schemas`, `semaphore`, `server`, `stack`, `words` |
//! | arenas | `bodied`, `family`, `guarded`, `handle`, `lease/leftover`, `membership`, `named` |
//! | arenas | `object_id/found`, `registry` |
//! | kinds | `kinds` |
//! | tubes | `tube` |
//! | threads | `attachment`, `fork`, `object_id`, `patience`, `priority`, `timed` |
//! | objects | `barrier/arm`, `barrier/round`, `barrier/word`, `bias`, `body`, `condvar`, `contend`, `drain`, `holders`, `lease`, `lock`, `many` |
//! | objects | `map/atlas`, `monitor/form`, `owned/flags`, `owned/pair`, `permit`, `rwlock/row` |
//! | objects | `rwlock/word`, `semaphore_word`, `server/form`, `stack/form` |
//! | waiting | `bell`, `claim`, `kinds.rs`, `lent`, `lull`, `operation`, `owner`, `part` |
//! | waiting | `private`, `recover`, `tube/end.rs`, `tube/lights.rs`, `tube/spin`, `wait` |
//! | waiting | `waiters` |
//! | words | `bias/holds`, `called`, `cell`, `directory`, `error`, `inside`, `interrupt`, `known` |
//! | words | `label`, `lease/origin`, `lent/holders`, `map/datum`, `map/error`, `map/heap` |
//! | words | `mark`, `order`, `plan9`, `role`, `tube/broadcast/subscribe`, `tube/clock` |
//! | words | `tube/error`, `tube/handoff`, `tube/left.rs`, `tube/named/error` |
//! | words | `tube/named/message`, `tube/named/pipe/bits` |

#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod barrier;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod bias;
mod body;
mod cell;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod claim;
mod condvar;
mod contend;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod counter;
mod drain;
mod interrupt;
mod kinds;
mod lock;
mod lull;
mod many;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod map;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod mark;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
pub mod monitor;
#[cfg_attr(feature = "sim", allow(dead_code, reason = "what needs an attachment is not explored"))]
mod operation;
mod order;
#[doc(hidden)]
pub mod owned;
mod owner;
mod part;
mod permit;
pub mod plan9;
mod recover;
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
mod wait;

pub use bias::{Bias, biases};
pub use chappe_structures::tries;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub use descriptor::whenever;
pub use interrupt::Interrupt;
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub use interrupt::interruptible;
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[doc(hidden)]
pub use interrupt::park as park_interruptibly;
pub use kinds::tubes::wake_after_death;
pub use kinds::{clear, used};
pub use recover::{notify_dead, recover};
pub use wait::Discipline;

#[cfg(any(feature = "sim", feature = "loom"))]
pub mod model;

#[cfg(not(feature = "sim"))]
mod acquire_any;
#[cfg(not(feature = "sim"))]
mod armed;
#[cfg(not(feature = "sim"))]
mod attachment;
#[cfg(not(any(feature = "sim", feature = "loom")))]
mod bell;
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
mod known;
#[cfg(not(feature = "sim"))]
mod label;
#[cfg(not(feature = "sim"))]
mod lease;
#[cfg(not(feature = "sim"))]
mod lent;
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
mod object_id;
#[cfg(not(feature = "sim"))]
mod patience;
#[cfg(not(feature = "sim"))]
mod pool;
#[cfg(not(feature = "sim"))]
mod priority;
#[cfg(not(feature = "sim"))]
mod private;
#[cfg(not(feature = "sim"))]
#[doc(hidden)]
pub mod raw;
#[cfg(not(feature = "sim"))]
mod registry;
#[cfg(not(feature = "sim"))]
mod role;
#[cfg(not(feature = "sim"))]
pub mod schemas;
#[cfg(not(feature = "sim"))]
mod select;
#[cfg(not(feature = "sim"))]
mod semaphore;
#[cfg(not(feature = "sim"))]
mod took;
#[cfg(not(feature = "sim"))]
mod waiters;

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod helplock;
#[cfg(not(any(feature = "loom", feature = "sim")))]
#[doc(hidden)]
pub mod inside;
#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub mod words;

#[cfg(not(feature = "sim"))]
pub use self::{
    acquire_any::{acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any},
    attachment::reaped,
    barrier::{Arrival, Barrier, BarrierError, BarrierInfo, Broke, Turn},
    bodied::{SharedError, SharedInfo},
    condition::Condvar,
    counter::Counter,
    directory::{directory, keep_environment, open_directory},
    error::{AcquireError, DownError, LeaseError, LockError, ObjectError, PoolError, SelectError, UpError},
    examine::{Belonging, Damage, Removed, Righted},
    fork::prepare as prepare_forks,
    guard::{OwnedPermit, Permit, Permits},
    holders::{Holder, PoolInfo},
    inspect::row::{Fact, FactSort, Had, ObjectInfo, ObjectState},
    label::set_label,
    lease::leftover::{LeaseFile, leftover_leases},
    lease::locks::{LockJob, LockLease},
    lease::{Lease, Unseen, VARIABLE as LEASE_VARIABLE, keeps_descendants},
    mutex::{LockResult, Mutex, MutexGuard},
    object_id::ObjectId,
    pool::Pool,
    priority::{Priority, set_priority},
    registry::{Arena, ArenaOptions, Capacity},
    role::{Role, set_role},
    rwlock::{ReadGuard, ReadResult, RwLock, RwLockError, WriteGuard, WriteResult, lock_jobs},
    select::{ReceivingEnd, Select, SelectedOperation, SendingEnd},
    semaphore::Semaphore,
    server::{Serve, Server, Service, remove_service},
    waiters::Waiter,
};

#[cfg(all(not(any(feature = "loom", feature = "sim")), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use self::{
    helplock::{HelpError, HelpGuard, HelpLock, lock_all},
    monitor::{Inside, Monitor, MonitorError},
    stack::{PushError, Stack},
};
