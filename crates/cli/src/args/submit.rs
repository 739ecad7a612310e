//! `chappe submit`, as it is written.

use crate::size;
use crate::time::parse_grace;
use std::ffi::OsString;

/// `chappe submit`.
#[derive(clap::Args, Debug)]
pub struct Submit {
    /// The pool whose permit the job needs; several: of whichever has one first. Without it `jobs`, which is made with one permit if it is not there
    #[arg(long, short, value_name = "POOL")]
    pub pool: Vec<String>,
    /// Take so many permits of the pool at once
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Where waiters are served by priority (0 to 255): before those of a lower one that have not waited for long, see `chappe pool create --aging`
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub priority: u8,
    /// Make pools that are not there, with this many permits (as many as are taken at once)
    #[arg(long, value_name = "PERMITS", num_args = 0..=1, require_equals = true)]
    pub create: Option<Option<u64>>,
    /// After `chappe term kill` with HUP, TERM or INT: KILL the command when this time is over (10s; `never`: do not)
    #[arg(long, value_name = "DURATION", value_parser = grace)]
    pub grace: Option<String>,
    /// The terminal's name; without it the command's, with a number
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// How many bytes of lines that have left the screen are kept (1M, 64M); without it 4M, or as many as with the job that is run again
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    pub history: Option<u64>,
    /// Let no other user look at its terminal, where users share the directory of arenas
    #[arg(long)]
    pub private: bool,
    /// Run a job again that has ended: its command under its pools, in its directory, with its environment; what it wrote stays under its name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pool", "count", "priority", "create", "grace"])]
    pub retry: Option<String>,
    /// The command to run and its arguments
    #[arg(last = true, required_unless_present = "retry", conflicts_with = "retry", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Checks a grace, and leaves it as it is written: `chappe acquire` reads it.
fn grace(text: &str) -> Result<String, String> {
    parse_grace(text).map(|_| text.to_owned())
}

/// The end of its short help.
pub const SHORT: &str = "\
Examples:
  job=$(chappe submit -p gpus -- train --epochs 9)
  chappe term ls
  chappe term wait --exit \"$job\" || chappe submit --retry \"$job\"";

/// The end of all of its help.
pub const END: &str = "\
Examples:
  chappe pool create gpus --permits 2
  job=$(chappe submit -p gpus -- train --epochs 9)
  chappe submit -- make -j4                # one after the other
  chappe term ls                           # each job's place in the line
  chappe show gpus                         # holders, and the line in order
  chappe term show \"$job\"                # what it has written
  chappe term attach \"$job\"
  chappe term kill \"$job\"                # also while it waits
  chappe term wait --exit \"$job\" || chappe submit --retry \"$job\"
  chappe term rm \"$job\"

What runs in the terminal is `chappe acquire POOL -- COMMAND`: the command
has its environment (CHAPPE_PERMIT, CHAPPE_INDEX), and what `chappe help
acquire` says of kills holds for it.

A job that gets HUP, TERM or INT (`chappe term kill`, `--signal`) has ten
seconds, or --grace, for its last words, as under `chappe acquire`; then it
is killed.

The directory, the environment and the command are kept with the terminal
until `chappe term rm`, for --retry. The variables of a permit that this
command runs under are left out: the job is not a part of that one's.

Exit status:
  0 it is in line, or runs; 1 the same, and its name cannot be written to
  stdout (`chappe term ls` has it); 125 it could not be handed in: no such pool, the
  name is taken, no room; 126, 127 the command cannot be run, is not found";
