//! `chappe keep`, as chappe starts it.

/// `chappe keep`.
#[derive(clap::Args, Debug)]
pub struct Keep {
    /// Their numbers
    #[arg(required_unless_present = "object")]
    pub pids: Vec<i32>,
    /// The pool whose permit that is, or the lock: given back at once when they have ended
    #[arg(long)]
    pub object: Option<String>,
}
