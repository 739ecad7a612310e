//! All that is explored of this crate, in one program: each suite is a module of it, `crash_POOL`.
//!
//! What the suites share is built and linked once. One suite alone: `cargo test --profile explore -p chappe-sync --features sim --test
//! explored -- crash_pool::`.

mod counted;
mod crash;
mod crash_arena;
mod crash_barrier;
mod crash_batch;
mod crash_bell;
mod crash_bias;
mod crash_broadcast;
mod crash_condvar;
mod crash_endings;
mod crash_far;
mod crash_interrupt;
mod crash_lane;
mod crash_late_writes;
mod crash_left;
mod crash_lull;
mod crash_many;
mod crash_mcas;
mod crash_monitor;
mod crash_mutex;
mod crash_named;
mod crash_namespaces;
mod crash_numbers;
mod crash_owed;
mod crash_owned;
mod crash_plan9;
mod crash_pool;
mod crash_priority;
mod crash_process;
mod crash_record;
mod crash_record_queue;
mod crash_reuse;
mod crash_reuse_tubes;
mod crash_ring;
mod crash_ring_queue;
mod crash_rwlock;
mod crash_semaphore;
mod crash_server;
mod crash_stack;
mod crash_stopped;
mod crash_table;
mod crash_task_tubes;
mod crash_term;
mod crash_tube;
mod crash_visit;
mod crash_watchers;
mod history;
mod journal;
mod owned;
mod records;

#[path = "../../term/src/words.rs"]
#[allow(dead_code, reason = "what viewers do is loom's")]
mod term_words;
