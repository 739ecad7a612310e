//! What `chappe graph` can be told.

use clap::Subcommand;
use std::path::PathBuf;

/// `chappe graph`.
#[derive(Subcommand, Debug)]
pub enum GraphCommand {
    /// Run a graph to its end, and report what each stage has done
    ///
    /// The report goes to stderr: blocks, elements, what was dropped, what was late. Exits with 3 if a sender of a tube that it
    /// read died, or stopped with an error, before it was done, or a capture file ends within a packet (what came may be a part), and if anything was late, and --late was given.
    ///
    /// Ctrl-C, SIGTERM and SIGHUP end the sources, and all stages hand on and write what they have; a second one ends the command at once, and so does the
    /// first after five seconds.
    ///
    /// JSON: {"seconds": N, "nodes": [{"label": TEXT, "blocks": N, "elements": N, "dropped": N, "late": N, "latest": N, "again": N, "broken": N, "says": TEXT or null,
    /// "process": TEXT or null}],
    /// "queues": [{"from": TEXT, "to": TEXT, "puts": N, "full": N, "empty": N}], "parts": [{"name": TEXT, "restarts": N, "again": N,
    /// "dropped_blocks": N}]}
    Run {
        /// The file; - is stdin
        file: PathBuf,
        /// Print nothing when all is well
        #[arg(long, short)]
        quiet: bool,
        /// A stage of an unknown kind is an error only when data reaches it
        #[arg(long)]
        lazy: bool,
        /// Exit with 3 if anything was late
        #[arg(long)]
        late: bool,
        /// While it runs, draw what flows through each stage, on stderr where that is a terminal
        #[arg(long)]
        show: bool,
    },
    /// Check a graph's text and types; write nothing
    ///
    /// JSON: {"nodes": N, "threads": N, "queues": N, "processes": N, "tubes": N}
    Check {
        /// The file; - is stdin
        file: PathBuf,
    },
    /// Show how a graph is linked: threads, calls, queues, types
    Explain {
        /// The file; - is stdin
        file: PathBuf,
        /// Print a picture (SVG)
        #[arg(long)]
        svg: bool,
    },
    /// Run a graph, and change it whenever its file is saved
    ///
    /// Stages whose values or kinds have changed are replaced between two blocks, while data flows: all of them, or none if something is wrong with the
    /// text, which stderr says. Stages that come or go need a new run.
    Edit {
        /// The file
        file: PathBuf,
    },
    /// Write, run, look at and change a graph by commands on stdin
    ///
    /// `help` lists the commands. Single stages can be made, and called by hand. Exits with 1 if a command failed, and stdin is no terminal.
    Repl {
        /// The text to begin with
        file: Option<PathBuf>,
    },
    /// List the kinds of stages
    ///
    /// JSON, a line for each: {"name": TEXT, "usage": TEXT, "about": TEXT}
    Kinds,
}
