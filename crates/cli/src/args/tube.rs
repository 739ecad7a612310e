//! `chappe tube`, as it is written.

use crate::size;
use clap::Subcommand;

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe tube create jobs --size 1K
  seq 100 | chappe send --lines jobs
  chappe recv --lines --follow jobs";

/// `chappe tube`.
#[derive(Subcommand, Debug)]
pub enum TubeCommand {
    /// Make a tube, or several
    ///
    /// JSON, a line for each: {"name": TEXT, "slots": N, "size": N, "kind": TEXT, "bytes": N}, and "schema" of one that has it
    Create {
        /// The name; ARENA/NAME in another arena than `default`, which is made if it is not there. Several names make several
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// The most bytes that one record can have (65536, 64K, 1M); with --schema the fields decide
        #[arg(long, short, value_name = "BYTES", default_value = "64K", value_parser = record)]
        size: u64,
        /// How many records it has room for [default: 16; with --schema as many as fit 64 KiB, from 16 to 1024]
        #[arg(long, short = 'm', value_name = "N")]
        slots: Option<u64>,
        /// How many processes may send to it and receive from it: one or many
        #[arg(long, short, value_enum, default_value_t = Ends::Mpmc)]
        kind: Ends,
        /// Drop a record whose receiver dies with it, instead of delivering it once more
        #[arg(long)]
        drops: bool,
        /// The fields of a record, as C lays them out: 'ts: u64, price: f64, sym: str[8]'. They say how long each is
        #[arg(long, value_name = "FIELDS", conflicts_with = "size")]
        schema: Option<String>,
        /// Each record goes to every receiver that is there at that time, and not to one
        #[arg(long, conflicts_with_all = ["kind", "drops"])]
        broadcast: bool,
        /// Of a broadcast tube: how many may receive at a time
        #[arg(long, value_name = "N", default_value_t = 16, requires = "broadcast")]
        subscribers: u64,
    },
    /// Let no sender come any more; what is in the tube is still received
    ///
    /// JSON: {"sealed": TEXT}
    Seal {
        /// The tube
        name: String,
    },
    /// Remove tubes that are not in use
    ///
    /// JSON, a line for each: {"removed": TEXT}
    Rm {
        /// The tubes
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also one in use, with the records in it: its waiters get an error
        #[arg(long)]
        force: bool,
    },
}

/// How many a tube has at each end.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum Ends {
    /// One sender, one receiver.
    Spsc,
    /// Many senders, one receiver.
    Mpsc,
    /// One sender, many receivers.
    Spmc,
    /// Many of both.
    Mpmc,
}

/// The bytes of a record: there are some.
fn record(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        0 => Err("a tube's records cannot have 0 bytes".to_owned()),
        bytes => Ok(bytes),
    }
}
