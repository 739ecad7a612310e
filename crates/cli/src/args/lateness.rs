//! What `chappe lateness` can be told.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How the handler is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Before all others of lower priority: SCHED_FIFO
    Fifo,
    /// By its deadline: SCHED_DEADLINE
    Deadline,
    /// As any other program: SCHED_OTHER
    Other,
}

/// `chappe lateness`.
#[derive(Args, Debug)]
pub struct Lateness {
    /// How long to measure, all windows together
    #[arg(long, short, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// The handler's period in microseconds
    #[arg(long, short, value_name = "US", default_value_t = 250, value_parser = clap::value_parser!(u32).range(50..=100_000))]
    pub period: u32,
    /// How many threads compute beside it; as many as there are processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=256))]
    pub hogs: Option<u16>,
    /// How the handler is scheduled, if that is permitted
    #[arg(long, value_enum, default_value = "fifo")]
    pub policy: Policy,
    /// The handler's priority under SCHED_FIFO
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub priority: u8,
    /// Also write a histogram, as SVG, to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// What `chappe help lateness` ends with.
pub const END: &str = "\
A handler wakes every 250 us, as the paper's did, runs a section of the window's lock, and
records how late after the period's begin it was done. Hogs run sections of the same lock all the
time. Windows of 50 ms take turns, so that the load of the machine is the same for all: no lock,
two helping locks, a mutex of chappe's, a mutex of Rust's. `added` is the ratio of a window's
99.9th percentile to that without a lock.

Paper: nonblocking-real-time, 5.1 and table 1.";
