//! How a command is run that chappe stays with, as it is written.

use crate::time::{Grace, parse_grace};

/// What `chappe acquire` and `chappe jobserver` have in common.
#[derive(clap::Args, Debug)]
pub struct Job {
    /// After a SIGTERM, SIGINT or SIGHUP was passed on: KILL the command when this time is over (`never`: do not)
    #[arg(long, value_name = "DURATION", value_parser = parse_grace, default_value = "10s")]
    pub grace: Grace,
    /// Keep the command in chappe's process group
    ///
    /// For callers that end jobs by `kill -9 -GROUP`, as some CI runners do: otherwise that ends chappe, and the command goes on.
    #[arg(long)]
    pub foreground: bool,
    /// Do not hand on to the command what keeps the permits taken: they come back when the command ends, whatever it left running
    ///
    /// For a command that starts a daemon. If chappe is killed, they come back although the command runs.
    #[arg(long)]
    pub close: bool,
}
