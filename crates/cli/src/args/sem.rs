//! `chappe sem`.

use super::order::Order;
use crate::time::parse;
use clap::Subcommand;
use std::time::Duration;

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe sem create ready
  chappe sem down ready --timeout 30s && echo go
  chappe sem up ready";

/// `chappe sem`.
#[derive(Subcommand, Debug)]
pub enum SemCommand {
    /// Make a semaphore, or several
    ///
    /// JSON, a line for each: {"name": TEXT, "value": N, "barging": BOOL}; with --priority also "by_priority": {"aging_ms": N or null}
    Create {
        /// The name; ARENA/NAME in another arena than `default`, which is made if it is not there. Several names make several
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How many wake-ups it begins with
        #[arg(long, short, value_name = "N", default_value_t = 0)]
        value: u64,
        /// Let newcomers overtake waiters that are just waking up: more throughput, and no promise about order
        #[arg(long, conflicts_with = "priority")]
        barging: bool,
        #[command(flatten)]
        order: Order,
    },
    /// Save wake-ups, or hand them to waiters, in the order of arrival
    ///
    /// Never waits. If the value would become too great, nothing is changed.
    ///
    /// JSON: {"name": TEXT, "added": N, "value": N}, where value is what it had a moment later
    #[command(visible_alias = "post")]
    Up {
        /// The semaphore
        name: String,
        /// How many
        #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Consume a wake-up, waiting for one in the order of arrival
    ///
    /// Exit status 124 if none came in time; 1 if the semaphore is not there, or is removed meanwhile. A signal ends
    /// the wait as usual; what comes later goes to the next.
    ///
    /// JSON: {"name": TEXT, "value": N, "waited_ms": N}, where value is what is left
    #[command(visible_alias = "wait")]
    Down {
        /// The semaphore
        name: String,
        /// Wait at most this long (500ms, 30s, 5m, 1h, or seconds), then exit with 124
        #[arg(long, value_name = "DURATION", value_parser = parse, conflicts_with = "nonblock")]
        timeout: Option<Duration>,
        /// Do not wait: exit with 124 if there is nothing to consume
        #[arg(long)]
        nonblock: bool,
        /// Where waiters are served by priority: before all of a lower one (0 to 255)
        #[arg(long, value_name = "N", default_value_t = 0)]
        priority: u8,
    },
    /// Print how many wake-ups are saved at this moment
    ///
    /// JSON: {"name": TEXT, "value": N}
    Value {
        /// The semaphore
        name: String,
    },
    /// Remove semaphores that have no waiter
    ///
    /// JSON, a line for each: {"removed": TEXT}
    Rm {
        /// The semaphores
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also one in use: its waiters get an error
        #[arg(long)]
        force: bool,
    },
}
