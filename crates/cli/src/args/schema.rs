//! What `chappe schema` can be told.

use clap::Subcommand;

/// `chappe schema`.
#[derive(Subcommand, Debug)]
pub enum SchemaCommand {
    /// Keep a schema under a name
    ///
    /// JSON: {"name": TEXT, "schema": TEXT}
    Create {
        /// The name; ARENA/NAME in another arena than `default`, which is made if it is not there
        name: String,
        /// The fields: 'ts: u64, price: f64, sym: str[8]'; as text has them: 'at: time "%d.%m.%Y", note: str'
        fields: String,
    },
    /// Print a schema, as it was kept
    ///
    /// JSON: {"name": TEXT, "schema": TEXT}
    Show {
        /// The schema
        name: String,
    },
    /// List the schemas of an arena, or of all
    ///
    /// JSON, a line for each: {"name": TEXT, "schema": TEXT}
    Ls {
        /// The arena
        arena: Option<String>,
    },
    /// Remove schemas; what was made by them keeps its own
    ///
    /// JSON, a line for each: {"removed": TEXT}
    Rm {
        /// The schemas
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe schema create trade 'ts: time, sym: str[8], px: f64, qty: i64'
  chappe query --schema trade 'select sym, sum(qty) by sym' today.csv
  chappe tube create trades --schema trade

A name stands wherever a schema is asked for: chappe query --schema, tube create
--schema, parse, records and tube in graphs, and where programs make tubes.
An arena keeps 64 schemas of 4096 bytes at most, in its map `schemas`.";
