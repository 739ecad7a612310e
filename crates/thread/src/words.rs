//! The scheduler's protocols, each on words alone: what ships is what loom searches (`tests/loom_thread.rs`).

pub(crate) mod asked;
pub(crate) mod inbox;
pub(crate) mod page;
pub(crate) mod ticks;
pub(crate) mod token;
pub(crate) mod told;
pub(crate) mod turns;
