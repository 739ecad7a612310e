//! `chappe threads`.

use crate::time;
use std::path::PathBuf;
use std::time::Duration;

/// `chappe threads`.
#[derive(clap::Args, Debug)]
pub struct Threads {
    /// The process
    #[arg(required_unless_present = "core")]
    pub pid: Option<u32>,
    /// The process that has left this core file, as it was when it died
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "top", "warn", "sample", "Asks"])]
    pub core: Option<PathBuf>,
    /// How long to look at what runs, for the shares of processors; 0 for not at all
    #[arg(long, value_name = "DURATION", value_parser = time::parse, default_value = "100ms")]
    pub sample: Duration,
    /// Show the threads below the procs that run them
    #[arg(long)]
    pub tree: bool,
    /// Show them again and again, every --sample, the busiest first, until Ctrl-C
    #[arg(long, conflicts_with_all = ["tree", "warn"])]
    pub top: bool,
    /// With --top: end after so many times
    #[arg(long, value_name = "N", requires = "top")]
    pub count: Option<u32>,
    /// Show the stack of each thread that is not running, by symbols (in builds with the feature `backtrace`)
    #[arg(long, visible_alias = "bt", conflicts_with = "top")]
    pub backtrace: bool,
    /// Show only threads that compute, or block their proc, without a pause for longer than this (10ms without a value): looks for a second, or for
    /// --sample
    #[arg(long, value_name = "DURATION", value_parser = time::parse, num_args = 0..=1, require_equals = true, default_missing_value = "10ms")]
    pub warn: Option<Duration>,
    #[command(flatten)]
    pub asks: Asks,
}

/// What is asked of a thread.
#[derive(clap::Args, Debug, Default)]
#[group(multiple = false)]
pub struct Asks {
    /// Keep a thread from running; it still runs interrupts
    #[arg(long, value_name = "THREAD")]
    pub suspend: Option<u32>,
    /// Keep a thread from running anything
    #[arg(long, value_name = "THREAD")]
    pub stop: Option<u32>,
    /// Let a thread go on that was suspended or stopped
    #[arg(long, value_name = "THREAD")]
    pub resume: Option<u32>,
    /// End a thread: its stack is unwound
    #[arg(long, value_name = "THREAD")]
    pub destroy: Option<u32>,
    /// Let a thread go on that is parked
    #[arg(long, value_name = "THREAD")]
    pub unpark: Option<u32>,
    /// Have a thread run its handler of a signal, 0 to 31
    #[arg(long, value_name = "THREAD:SIGNAL")]
    pub signal: Option<String>,
    /// Have a thread run what the program offers by that name
    #[arg(long, value_name = "THREAD:NAME")]
    pub interrupt: Option<String>,
    /// Tell a thread of events: a number whose bits 0 to 23 they are
    #[arg(long, value_name = "THREAD:EVENTS")]
    pub notify: Option<String>,
    /// Begin what the program offers by that name, and print the new thread's number
    #[arg(long, value_name = "NAME")]
    pub create: Option<String>,
    /// Wait until a thread has ended
    #[arg(long, value_name = "THREAD")]
    pub wait: Option<u32>,
}

/// The end of its help.
pub const END: &str = "\
STATE is running, ready, waiting, suspended, stopped, or blocking: in a call that
keeps a kernel thread. CPU is the share of the samples in which a proc was running it. STACK is
what it uses of its stack, where it is not running.

With --json:
  {\"pid\": N, \"threads\": [{\"number\": N, \"name\": TEXT or null,
    \"state\": TEXT, \"waits_for\": TEXT or null, \"object\": TEXT or null,
    \"since_seconds\": N or null, \"runtime\": N, \"proc\": N, \"level\": N,
    \"pinned\": BOOL, \"cpu\": N or null, \"stack\": N or null,
    \"stack_size\": N}]}
with --backtrace each also \"frames\": [{\"address\": TEXT, \"function\": TEXT or
    null, \"place\": TEXT or null}]
with --warn {\"pid\": N, \"late\": [{\"number\": N, \"name\": TEXT or null,
    \"seconds\": N, \"call\": TEXT or null}]}; call: it sleeps in that system call

With --core nothing runs, so there are no shares. What a thread waits for by name is
shown as long as its arena is there and no process has recovered what the dead one had.
The stacks of the first 16,383 threads are in a core file.

--suspend and its like ask the process itself, which must not be stopped; it does
so at the thread's next safe point (a wait, a yield, a meeting at a tube).

Reading another process's memory takes the right to debug it: the same user,
and, where kernel.yama.ptrace_scope is 1, root, or a process that the reader
has begun.

Exit status:
  0 done; 1 there is no such process, no such thread, it has no light threads, it
  cannot be read, or does not answer; 3 with --warn, some compute too long";
