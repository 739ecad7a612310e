//! `chappe keep`, as chappe starts it.

/// `chappe keep`.
#[derive(clap::Args, Debug)]
pub struct Keep {
    /// Their numbers
    #[cfg_attr(feature = "remote", arg(required_unless_present_any = ["object", "line"]))]
    #[cfg_attr(not(feature = "remote"), arg(required_unless_present = "object"))]
    pub pids: Vec<i32>,
    /// The open file by which the job of a permit on an engine is known; what it is about comes on stdin
    #[cfg(feature = "remote")]
    #[arg(long, requires = "told")]
    pub line: Option<i32>,
    /// The open file in which chappe tells what is new
    #[cfg(feature = "remote")]
    #[arg(long)]
    pub told: Option<i32>,
    /// The pool whose permit that is, or the lock: given back at once when they have ended
    #[arg(long)]
    pub object: Option<String>,
}
