//! What `chappe map` can be told.

use crate::size;
use crate::time::parse;
use clap::Subcommand;
use std::ffi::OsString;
use std::time::Duration;

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe map create hosts
  chappe map put hosts gpu7 ready
  chappe map watch hosts";

/// `chappe map`.
#[derive(Subcommand, Debug)]
pub enum MapCommand {
    /// Make a map, or several
    ///
    /// JSON, a line for each: {"name": TEXT, "entries": N, "key_size": N, "value_size": N, "ordered": BOOL,
    /// "bytes": N}
    Create {
        /// The name; ARENA/NAME in another arena than `default`, which is made if it is not there. Several names make several
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How many entries it has room for
        #[arg(long, short = 'm', value_name = "N", default_value_t = 1024)]
        entries: u64,
        /// The most bytes that a key can have (64, 1K)
        #[arg(long, short, value_name = "BYTES", default_value = "64", value_parser = size::parse)]
        key_size: u64,
        /// The most bytes that a value can have (256, 64K)
        #[arg(long, short, value_name = "BYTES", default_value = "256", value_parser = size::parse)]
        value_size: u64,
        /// Keep the keys in order, byte by byte: `ls` lists them so. A look-up then goes past all smaller keys
        #[arg(long)]
        ordered: bool,
    },
    /// Give a key a value
    ///
    /// With --new or --if, exits with 1 and changes nothing if the key has another value.
    ///
    /// JSON: {"key": TEXT, "old": TEXT or null, "done": BOOL}; bytes that are no UTF-8 come as {"hex": TEXT}
    Put {
        /// The map
        name: String,
        /// The key
        key: OsString,
        /// The value; without it, what comes on stdin, but for the newline at its end
        value: Option<OsString>,
        /// Keep the newline at the end of stdin
        #[arg(long, short, conflicts_with = "value")]
        raw: bool,
        /// Only if the key is not there yet
        #[arg(long, conflicts_with = "expected")]
        new: bool,
        /// Only if the key has this value now
        #[arg(long = "if", value_name = "VALUE")]
        expected: Option<OsString>,
    },
    /// Write the value of a key to stdout, and a newline; exits with 1 if it is not there
    ///
    /// JSON: {"key": TEXT, "value": TEXT}; bytes that are no UTF-8 come as {"hex": TEXT}
    Get {
        /// The map
        name: String,
        /// The key
        key: OsString,
        /// Write its bytes as they are, without a newline behind
        #[arg(long, short)]
        raw: bool,
    },
    /// List the entries, sorted by key: key, tab, value
    ///
    /// Every key that is there throughout is listed, none twice. Control characters are written as `?`, so that an entry is one line of text, and what is
    /// no UTF-8 as U+FFFD: `get --raw` and --json have the bytes.
    ///
    /// JSON, a line for each: {"key": TEXT, "value": TEXT}; bytes that are no UTF-8 come as {"hex": TEXT}
    Ls {
        /// The map
        name: String,
    },
    /// Remove keys; exits with 1 if one was not there
    ///
    /// JSON, a line for each: {"key": TEXT, "old": TEXT or null, "done": BOOL}
    #[command(visible_alias = "del")]
    Delete {
        /// The map
        name: String,
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<OsString>,
        /// Only if it has this value now
        #[arg(long = "if", value_name = "VALUE")]
        expected: Option<OsString>,
    },
    /// Write what is there, and then each change as it comes: key, tab, value; or `-`, tab, key
    ///
    /// Of several changes to one key before it can be looked at, the last one is seen. Ends when the map is removed. Bytes that are no text are written as
    /// by `ls`.
    ///
    /// JSON, a line for each: {"key": TEXT, "old": TEXT or null, "new": TEXT or null}
    Watch {
        /// The map
        name: String,
        /// Only this key
        key: Option<OsString>,
        /// End after so long without a change (500ms, 30s, or seconds), with status 124
        #[arg(long, short, value_name = "DURATION", value_parser = parse)]
        timeout: Option<Duration>,
        /// Leave out what is there already
        #[arg(long)]
        changes: bool,
        /// End after so many lines
        #[arg(long, short = 'n', value_name = "N")]
        count: Option<u64>,
    },
    /// Remove maps that are empty and not in use
    ///
    /// JSON, a line for each: {"removed": TEXT}
    Rm {
        /// The maps
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also one in use, and what is in it: its users get an error
        #[arg(long)]
        force: bool,
    },
}
