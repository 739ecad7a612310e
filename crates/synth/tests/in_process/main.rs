//! The engines, and what watches them, in one program: what its suites share is built and linked once. What counts forks has one of its own.

#[path = "../dice/mod.rs"]
mod dice;

mod engines;
mod guarded;
mod guide;
mod live;
mod period;
mod switchboard;
mod windows;
