//! `chappe lock`, as it is written.

use super::Job;
use crate::time::parse;
use std::ffi::OsString;
use std::time::Duration;

/// `chappe lock`.
#[derive(clap::Args, Debug)]
pub struct Lock {
    /// The lock; ARENA/NAME in another arena than `default`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Share the lock with others that do so, too
    #[arg(long, short)]
    pub shared: bool,
    /// Wait at most this long (500ms, 30s, 5m, 1h, or seconds), then exit with 124
    #[arg(long, short = 'w', value_name = "DURATION", value_parser = parse, conflicts_with = "nonblock")]
    pub timeout: Option<Duration>,
    /// Do not wait: exit with 124 if the lock is not free
    #[arg(long, short)]
    pub nonblock: bool,
    #[command(flatten)]
    pub job: Job,
    /// Lock although the process runs under this lock already
    ///
    /// Without it that is refused: a process that waits for a lock that only its own end gives back waits for ever.
    #[arg(long)]
    pub nested: bool,
    /// The command to run and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

pub const SHORT: &str = "\
Examples:
  chappe lock deploy -- ./deploy.sh
  chappe lock --nonblock cron-job -- ./job || echo 'it runs already'

Exit status: as `chappe acquire`";

pub const END: &str = "\
Examples:
  chappe lock deploy -- ./deploy.sh
  chappe lock --shared cpu -- make        # many at a time,
  chappe lock cpu -- ./benchmark          # and none beside this one
  chappe lock --nonblock cron-job -- ./job || echo 'it runs already'
  chappe show deploy

What the command gets in its environment:
  CHAPPE_LOCK   the lock's name
  CHAPPE_LEASE  the lease's mark. One open file is inherited, too: what
                has either keeps the lock

Exit status, signals, what stays running:
  as `chappe help acquire` says.

Programs that use the lock of that name themselves (RwLock<()> in Rust)
wait for chappe, and chappe for them. They do not wait for a job that
goes on when chappe was killed: they get the error that a holder died.

With --json:
  chappe's own messages are JSON on stderr, one object a line:
  {\"event\": \"acquired\", \"lock\": TEXT, \"shared\": BOOL,
    \"waited_ms\": N}
  {\"event\": \"ended\", \"lock\": TEXT, \"shared\": BOOL,
    \"status\": N or null, \"signal\": N or null, \"held_ms\": N,
    \"left_running\": N, \"removed\": BOOL}
  {\"error\": TEXT, \"status\": N or null}";
