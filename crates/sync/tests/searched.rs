//! All that loom searches of this crate, in one program: each suite is a module of it.
//!
//! One suite alone: `cargo test --profile explore -p chappe-sync --features loom --test searched -- loom_pool::`.

#[path = "loom/arena.rs"]
mod arena;
mod loom;
mod loom_bias;
mod loom_lane;
mod loom_light;
mod loom_mutex;
mod loom_plan9;
mod loom_pool;
mod loom_ring;
mod loom_semaphore;
mod loom_thread;
mod loom_tube;
