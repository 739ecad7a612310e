//! The kinds: what recovery and the wait queue call of each one's protocol, by the [`table`] with which all are registered.

pub(crate) mod bodies;
pub(crate) mod locks;
pub(crate) mod pools;
pub(crate) mod semaphores;
pub(crate) mod table;
