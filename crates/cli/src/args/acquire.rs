//! `chappe acquire`, as it is written.

use super::Job;
use crate::time::parse;
use std::ffi::OsString;
use std::time::Duration;

/// `chappe acquire`.
#[derive(clap::Args, Debug)]
pub struct Acquire {
    /// The pools to choose from, all in one arena, in any order: of several that are free none is preferred; with -n of several permits, only one
    #[arg(required = true, value_name = "POOL")]
    pub pools: Vec<String>,
    /// Take so many permits of the pool at once
    ///
    /// All at one moment, or none: a waiter for several permits is not overtaken, and those behind it wait until it has
    /// got them, or has given up.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Wait at most this long (500ms, 30s, 5m, 1h, or seconds), then exit with 124
    #[arg(long, value_name = "DURATION", value_parser = parse, conflicts_with = "nonblock")]
    pub timeout: Option<Duration>,
    /// Do not wait: exit with 124 if too few permits are free
    #[arg(long)]
    pub nonblock: bool,
    /// Where waiters are served by priority: before all of a lower one (0 to 255)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub priority: u8,
    /// Make pools that are not there, with this many permits (as many as are taken at once)
    ///
    /// With a number, a pool that is there with another number of permits is an error.
    #[arg(long, value_name = "PERMITS", num_args = 0..=1, require_equals = true)]
    pub create: Option<Option<u64>>,
    #[command(flatten)]
    pub job: Job,
    /// Replace STR, wherever it stands in the command's arguments, by the permit's name
    #[arg(short = 'I', long = "replace", value_name = "STR", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub replace: Option<String>,
    /// Set this variable of the command's to what was taken: the pool's name, without its arena
    ///
    /// Of a pool of several permits, to their numbers, with a comma between. Can be given several times.
    #[arg(long, value_name = "VARIABLE", value_parser = variable)]
    pub env: Vec<String>,
    /// Acquire although the process runs under a permit of one of these pools already
    ///
    /// Without it that is refused: a process that waits for a permit that only its own end gives back waits for ever.
    #[arg(long)]
    pub nested: bool,
    /// On an engine: how long a machine that is cut off keeps the permit (2s to 1h; 10s)
    ///
    /// The job is ended before that, since another's may begin then.
    #[arg(long, value_name = "DURATION", value_parser = parse, hide_short_help = true)]
    pub ttl: Option<Duration>,
    /// On an engine: what is done when the permit is lost while the command runs; chappe ends with 125 in each case
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = OnLoss::Term, hide_short_help = true)]
    pub on_loss: OnLoss,
    /// On an engine: how long to try to reach it (5s, or as long as --timeout if that is less)
    #[arg(long, value_name = "DURATION", value_parser = parse, hide_short_help = true)]
    pub connect_timeout: Option<Duration>,
    /// On an engine: also one that may end leases of jobs that live
    #[arg(long, hide_short_help = true)]
    pub allow_old_engine: bool,
    /// On an engine: also under a local permit, where two that wait for each other's would wait for ever
    #[arg(long, hide_short_help = true)]
    pub local_first: bool,
    /// The command to run and its arguments
    ///
    /// They are handed on as they stand; with -I, STR in them becomes CHAPPE_PERMIT.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A name that a variable can have.
fn variable(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains('=') { Err("a variable's name alone is wanted") } else { Ok(text.to_owned()) }
}

/// What becomes of a job whose permit is lost.
#[derive(clap::ValueEnum, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// TERM, and KILL of all of it before another's can begin.
    Term,
    /// KILL.
    Kill,
    /// Nothing: it checks its fencing token itself.
    Warn,
}

/// The end of its short help.
pub const SHORT: &str = "\
Examples:
  chappe acquire --create gpu0 gpu1 -- train
  chappe acquire -n 2 --timeout 5m licences -- make sign

Exit status: the command's own; 124 timed out, or not free with --nonblock; 125 chappe failed;
126 the command cannot be run; 127 it was not found";

/// The end of all of its help.
pub const END: &str = "\
Examples:
  chappe acquire --create gpu0 gpu1 -- train
  chappe acquire -I {} slot -- convert in.png /scratch/{}/out.png

What the command gets in its environment:
  CHAPPE_PERMIT          the permit: POOL, or POOL:NUMBER if its pool has
                         several; no two running commands have the same.
                         With -n, the first
  CHAPPE_PERMITS         all of them, with a space between
  CHAPPE_COUNT           how many there are
  CHAPPE_INDEX           which of the pools it came from, from 0, in the
                         order given
  CHAPPE_PERMIT_INDEX    the (first) permit's number in its pool, from 0
  CHAPPE_PERMIT_INDEXES  all the numbers, with a space between
  CHAPPE_LEASE           the lease's mark. One open file is inherited,
                         too: a process with either keeps all permits taken

On an engine that many machines share (etcd):
  @REMOTE/POOL names a pool of the engine REMOTE of
  ~/.config/chappe/remotes.toml or /etc/chappe/remotes.toml, @/POOL one of
  CHAPPE_ON's; with --on URL all names are there.
    [lab]
    url = \"etcds://h1,h2,h3/lab\"
    ca = \"/etc/chappe/ca.pem\"
  The command gets also CHAPPE_TOKEN, a number that grows with each grant
  of the permit (CHAPPE_TOKENS with -n), and CHAPPE_REMOTE, the URL.
  Of a pool made with --mutex, CHAPPE_OWNER_DIED=1 if the last holder
  was killed or lost it: a status other than 0 says that this one has
  not mended what the mutex guards.
  A permit goes with a lease of --ttl, which chappe renews. If it cannot,
  the command is ended before the permit can be another's. If chappe is
  killed, a keeper beside it renews the lease while the command runs.

Its stdin, stdout and stderr are chappe's. One that is closed is /dev/null
for the command.

Exit status, as env(1) and timeout(1) have it:
  the command's own; if a signal killed it, chappe dies of the same one
       (128+n in the shell)
  124  timed out, or --nonblock and too few free
  125  chappe failed
  126  the command was found but cannot be run
  127  the command was not found

Signals:
  While chappe waits, a signal ends it as usual. Stopped by Ctrl-Z it
  keeps its place in the queue, and may be given the permit.

  TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to the command. After
  the first three it is killed when --grace is over. What the terminal
  sends (Ctrl-C, Ctrl-Z) works as if chappe were not there, and no grace
  begins.

  The command has a process group of its own, and the terminal when
  chappe has it. In a pipeline or script that has a terminal it stays in
  chappe's group, so that Ctrl-C and Ctrl-Z reach all of it together; with
  --foreground it always does, so that `kill -9 -GROUP` ends it, too.
  A container's first process: chappe is an init beside the command.

What stays running:
  chappe ends when the command does. Descendants that the command left
  behind keep the permit taken until they have ended. For one that closed
  all files and cleared its environment, too, `chappe keep` stays in the
  background; what such a one starts after chappe has ended is not seen.

With --json:
  chappe's own messages are JSON on stderr, one object a line:
  {\"event\": \"acquired\", \"permit\": TEXT, \"permits\": [TEXT],
    \"pool\": TEXT, \"index\": N, \"permit_index\": N, \"waited_ms\": N}
  {\"event\": \"ended\", \"permit\": TEXT, \"permits\": [TEXT],
    \"status\": N or null, \"signal\": N or null, \"held_ms\": N,
    \"left_running\": N, \"taken_away\": BOOL, \"lost\": [TEXT],
    \"removed\": BOOL (the pool, and with it the permits)}
  on an engine also, in the first, \"token\": N, \"remote\": TEXT (@REMOTE
  or the URL), and in the second \"reason\": \"unreachable\", \"revoked\",
  \"forced\" or null
  {\"error\": TEXT, \"status\": N or null}";
