//! `chappe top`.

use crate::time;
use std::net::SocketAddr;
use std::time::Duration;

/// Which table is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Pools, semaphores, mutexes, tubes, maps
    #[default]
    Objects,
    /// Processes that wait for one of them
    Processes,
    /// Pipes of the kernel's between processes: how full, and which side is behind
    Pipes,
    /// Processes that have light threads
    Light,
    /// Terminals: how their commands are, and how much they write
    Terminals,
}

/// `chappe top`.
#[derive(clap::Args, Debug)]
pub struct Top {
    /// Only this arena; @REMOTE shows the pools, semaphores and tubes of an engine
    pub arena: Option<String>,
    /// How often to look (500ms, 30s, or seconds)
    #[arg(long, short, value_name = "DURATION", value_parser = time::parse, default_value = "1s")]
    pub interval: Duration,
    /// Print the table once, after one interval for the rates, and end; with --json as JSON
    #[arg(long)]
    pub once: bool,
    /// Which table comes first; with --once, which is printed
    #[arg(long, value_enum, default_value_t)]
    pub view: View,
    /// Show it in a browser on this machine: prints the address, and goes on until a signal ends it
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0", conflicts_with = "once")]
    pub web: Option<SocketAddr>,
}

/// The end of its help.
pub const END: &str = "\
With --json, once:
  {\"arenas\": [{\"name\": TEXT, \"members_used\": N, \"members\": N,
    \"objects_used\": N, \"objects\": N}],
   \"objects\": [{\"name\": TEXT, \"arena\": TEXT, \"kind\": TEXT, and each figure
    that `chappe help watch` lists and the object has}],
   \"processes\": [{\"pid\": N, \"label\": TEXT, \"waiting\": N,
    \"waiting_light\": N, \"longest_wait_seconds\": N, \"wants\": TEXT}],
   \"refused\": [{\"arena\": TEXT, \"error\": TEXT}]}
with --view pipes also
   \"pipes\": [{\"inode\": N, \"bytes\": N, \"room\": N, \"bytes_per_second\": N,
    \"writers\": [{\"pid\": N, \"name\": TEXT, \"sleeps_in\": read, write or null}],
    \"readers\": the same, \"state\": TEXT, \"writers_in_all\": N,
    \"readers_in_all\": N}]; of each side the first eight
with --view light also
   \"light\": [{\"pid\": N, \"name\": TEXT, \"threads\": N, \"running\": N,
    \"ready\": N, \"waiting\": N, \"blocking\": N, \"suspended\": N}]
with --view terminals also
   \"terminals\": [{\"name\": TEXT, \"state\": TEXT, \"age_seconds\": N, \"written_bytes\": N,
    \"written_bytes_per_second\": N or null, \"command\": TEXT}]

Of an engine: \"objects\" as `chappe ls @REMOTE` has them, with \"longest_wait_seconds\" since this
command saw the waiter, and \"processes\" with \"host\".

Pipes and light threads are those of processes that the user may look into.
To ask a pipe what is in it, its read end is opened for some microseconds.

Exit status:
  0 done; 1 an arena could not be looked at, or there is no terminal";
