//! What `chappe graph` can be told.

use clap::Subcommand;
use std::path::PathBuf;

/// `chappe graph`.
#[derive(Subcommand, Debug)]
pub enum GraphCommand {
    /// Run a graph to its end, and say what each stage has done
    ///
    /// The report goes to stderr: blocks, elements, what was dropped, what was late. Exits with 3 if anything was late, and --late was given.
    ///
    /// JSON: {"seconds": N, "nodes": [{"label": TEXT, "blocks": N, "elements": N, "dropped": N, "late": N, "latest": N, "says": TEXT or null}],
    /// "queues": [{"from": TEXT, "to": TEXT, "puts": N, "full": N, "empty": N}]}
    Run {
        /// The file; - is stdin
        file: PathBuf,
        /// Say nothing when all is well
        #[arg(long, short)]
        quiet: bool,
        /// A stage that nobody knows is an error only when data reaches it
        #[arg(long)]
        lazy: bool,
        /// Exit with 3 if anything was late
        #[arg(long)]
        late: bool,
    },
    /// Check a graph's text and types; write nothing
    ///
    /// JSON: {"nodes": N, "threads": N, "queues": N}
    Check {
        /// The file; - is stdin
        file: PathBuf,
    },
    /// Show how a graph is linked: threads, calls, queues, types
    Explain {
        /// The file; - is stdin
        file: PathBuf,
        /// As a picture (SVG)
        #[arg(long)]
        svg: bool,
    },
    /// List the kinds of stages
    ///
    /// JSON, a line for each: {"name": TEXT, "usage": TEXT, "about": TEXT}
    Kinds,
}
