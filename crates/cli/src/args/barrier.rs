//! `chappe barrier`.

use crate::time::parse;
use clap::Subcommand;
use std::time::Duration;

/// The end of its help.
pub const END: &str = "\
Examples:
  for n in 1 2 3; do (prepare $n; chappe barrier wait -n 3 start; run $n) & done";

/// `chappe barrier`.
#[derive(Subcommand, Debug)]
pub enum BarrierCommand {
    /// Make a barrier, or several
    ///
    /// JSON, a line for each: {"name": TEXT, "parties": N, "breaks_on_death": BOOL}
    Create {
        /// The name; ARENA/NAME in another arena than `default`, which is made if it is not there. Several names make several
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How many wait for each other
        #[arg(allow_negative_numbers = true, long, short = 'n', value_name = "N")]
        parties: u64,
        /// Break the barrier when a party dies while it waits: all get an error until it is reset
        ///
        /// One that dies between two rounds does not break it. Without this option the others go on without the dead one, and their waits say so.
        #[arg(long)]
        break_on_death: bool,
    },
    /// Arrive, and wait until all others have arrived
    ///
    /// Exit status 0 if the round has turned; 3 if it has, and a party that had arrived or joined was killed before (stderr says which);
    /// 124 if the others were not there in time, and then this arrival is taken back; 1 if the barrier is broken, is not there, has its
    /// parties already, was made for another number or with --break-on-death and -n is given, or is removed meanwhile.
    ///
    /// JSON: {"name": TEXT, "index": N, "round": N, "died": N, "pid": N or null, "waited_ms": N}. One party of each round has index 0; died is how many
    /// were killed, pid the last of them
    Wait {
        /// The barrier
        name: String,
        /// How many wait for each other: the barrier is made if it is not there
        #[arg(allow_negative_numbers = true, long, short = 'n', value_name = "N")]
        parties: Option<u64>,
        /// Wait at most this long (500ms, 30s, 5m, 1h, or seconds), then exit with 124 (with --or-break: 1)
        #[arg(long, value_name = "DURATION", value_parser = parse)]
        timeout: Option<Duration>,
        /// When the time is up, break the barrier: this one and the others exit with 1, and so do all until it is reset
        #[arg(long, requires = "timeout")]
        or_break: bool,
    },
    /// Break barriers: all that wait exit with 1, and so do all that come, until it is reset
    ///
    /// JSON, a line for each: {"name": TEXT, "broken": true}
    Abort {
        /// The barriers
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Make barriers whole, with all their parties: all that wait exit with 1
    ///
    /// JSON, a line for each: {"name": TEXT, "broken": false}
    Reset {
        /// The barriers
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Remove barriers without waiters and without living parties
    ///
    /// JSON, a line for each: {"removed": TEXT}
    Rm {
        /// The barriers
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also one in use: its waiters get an error
        #[arg(long)]
        force: bool,
    },
}
