//! The examples of `examples/rust`, in one program: each is linked with all of the library. Not those that run themselves again, but one that names its test.

#![allow(dead_code, reason = "what an example's `main` alone needs")]

#[path = "../../../examples/rust/async_named_tube.rs"]
mod async_named_tube;
#[path = "../../../examples/rust/async_pool.rs"]
mod async_pool;
#[path = "../../../examples/rust/async_tube.rs"]
mod async_tube;
#[path = "../../../examples/rust/du.rs"]
mod du;
#[path = "../../../examples/rust/echo.rs"]
mod echo;
#[path = "../../../examples/rust/power_series.rs"]
mod power_series;
#[path = "../../../examples/rust/prime_sieve.rs"]
mod prime_sieve;
#[path = "../../../examples/rust/run_queue.rs"]
mod run_queue;
