//! `chappe watch`.

use crate::eyes::figures::ALL;
use crate::time::parse;
use std::ffi::OsString;
use std::time::Duration;

/// `chappe watch`.
#[derive(clap::Args, Debug)]
pub struct Watch {
    /// The condition: `gpu.waiting > 0 for 30s`, `jobs.fill >= 0.9 or jobs.redelivered > 0`
    #[arg(value_name = "EXPR")]
    pub expr: String,
    /// How often to look (500ms, 30s, or seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse, default_value = "1s")]
    pub interval: Duration,
    /// Run the command the first time, and end with its exit status
    #[arg(long)]
    pub once: bool,
    /// With --once: wait at most this long, then exit with 124
    #[arg(long, value_name = "DURATION", value_parser = parse, requires = "once")]
    pub timeout: Option<Duration>,
    /// The command to run and its arguments; it gets CHAPPE_WATCH, the expression, in its environment
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The end of its short help.
pub const SHORT: &str = "\
Examples:
  chappe watch 'gpu.longest_wait > 30s' -- notify-send 'the gpu pool starves'
  chappe watch --once --timeout 1h 'jobs.messages == 0' -- echo drained";

/// The end of its help.
pub fn end() -> String {
    let mut text = String::from("Figures:\n");
    for f in ALL {
        text += &format!("  {:<20} {}\n", f.name, f.help);
    }
    text + "\
Examples:
  chappe watch 'gpu.longest_wait > 30s' -- notify-send 'the gpu pool starves'
  chappe watch 'jobs.fill >= 0.9 for 10s and jobs.receivers == 0' -- ./start-worker
  chappe watch --once --timeout 1h 'jobs.messages == 0' -- echo drained

Exit status:
  with --once the command's own; 124 if the time was up before; 125 chappe
  failed; 126 the command cannot be run; 127 it was not found. Without
  --once it goes on until a signal ends it, whatever the command's status.

A signal that comes while the command runs (TERM, INT, HUP, QUIT, USR1, USR2)
is passed on to the command and what it has started. Behind the command's end
watch ends, too: by the first of TERM, INT, HUP and QUIT that came."
}
