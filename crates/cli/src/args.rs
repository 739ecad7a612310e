//! What can be written on the command line. Help, manual and completions are made from this.

mod acquire;
mod arena;
mod barrier;
mod gpus;
mod graph;
mod job;
mod json;
mod keep;
pub mod lateness;
mod lock;
mod map;
pub mod metrics;
mod order;
mod pipe;
mod query;
mod run;
mod schema;
mod sem;
mod stream;
pub mod submit;
pub mod term;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod threads;
pub mod top;
mod tube;
pub mod watch;

use crate::time::parse;
pub use acquire::Acquire;
#[cfg(feature = "remote")]
pub use acquire::OnLoss;
pub use arena::ArenaCommand;
pub use barrier::BarrierCommand;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
pub use gpus::Gpus;
pub use graph::GraphCommand;
pub use job::Job;
pub use json::END as JSON;
pub use keep::Keep;
pub use lock::Lock;
pub use map::MapCommand;
use metrics::Metrics;
use order::Order;
pub use pipe::Pipe;
pub use query::{From, Query, To};
pub use run::Run;
pub use schema::SchemaCommand;
pub use sem::SemCommand;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
pub use stream::{Recv, Send};
pub use tube::{Ends, TubeCommand};

/// Pools of permits, locks and channels between processes, that lose nothing when one is killed.
///
/// `chappe acquire` runs a command under a permit of a pool, `chappe lock` under a lock: it comes back however the command ends. There is no daemon: all
/// lives in a file in /dev/shm/chappe-UID. `gpu` is an object of arena `default`, `lab/gpu` of arena `lab`.
#[derive(Parser, Debug)]
#[command(name = "chappe", version, after_long_help = ROOT_END, max_term_width = 100)]
pub struct Cli {
    /// Print JSON, and errors as JSON on stderr; `chappe help json` lists the fields
    ///
    /// What `metrics`, `completions`, `json` and `man` print has a form of its own, with --json too.
    #[arg(long, global = true)]
    pub json: bool,
    /// All names are on this engine: etcd://HOST[:PORT],.../NAMESPACE, or etcds:// for TLS; `chappe help acquire` has more
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub on: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// Help, and what is wrong with it.
    pub fn read() -> Result<Cli, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let mut command = command(&|name| words.iter().any(|word| word == name));
        let matches =
            command.try_get_matches_from_mut(&words).map_err(|e| help_of(&mut command, &words, &e).unwrap_or(e))?;
        let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command));
        // It is a sixth of all that a short command does to give this back piece by piece; the end of the process does it at once.
        std::mem::forget(command);
        cli
    }
}

/// What `chappe help NAME` says where there is no such command: what `chappe NAME` does, with the command that was probably meant; `chappe help --help` is
/// `chappe --help`.
fn help_of(command: &mut clap::Command, words: &[OsString], e: &clap::Error) -> Option<clap::Error> {
    let [program, help, asked @ ..] = words else { return None };
    let without: Vec<&OsString> = (help == "help" && e.kind() == ErrorKind::InvalidSubcommand)
        .then(|| std::iter::once(program).chain(asked).collect())?;
    command.try_get_matches_from_mut(without).err()
}

/// The command line as it is read: `--help` is one screen of each command, `chappe help COMMAND` has all of it, as the manual page. Only those commands are
/// prepared for it that `is_written`: the others are not come to.
fn command(is_written: &dyn Fn(&str) -> bool) -> clap::Command {
    with_short_help(Cli::command(), "chappe help", is_written)
}

/// `more`: what prints all of its help.
fn with_short_help(mut command: clap::Command, more: &str, is_written: &dyn Fn(&str) -> bool) -> clap::Command {
    // What asks another program.
    if command.is_disable_help_flag_set() {
        return command;
    }
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    command = command.disable_help_flag(true).arg(help);
    // A number below zero is a value that is refused with the reason, and no unknown option.
    command = command.mut_args(|a| if a.get_action().takes_values() { a.allow_negative_numbers(true) } else { a });
    let long = command.get_long_about().is_some() || command.get_after_long_help().is_some();
    if long || command.get_arguments().any(|a| a.get_long_help().is_some()) {
        let short = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        let long = command.get_after_long_help().cloned().unwrap_or_default();
        command = command.after_help(format!("{short}Full help: `{more}`")).after_long_help(long);
    }
    command.mut_subcommands(|one| {
        if !is_written(one.get_name()) && !one.get_all_aliases().any(is_written) {
            return one;
        }
        let more = format!("{more} {}", one.get_name());
        with_short_help(one, &more, is_written)
    })
}

const ROOT_END: &str = "\
Examples:
  chappe acquire --create gpu0 gpu1 -- train
  chappe lock --shared cpu -- make
  chappe show gpu0

Environment:
  CHAPPE_DIR       the directory of arenas, instead of /dev/shm/chappe-UID;
                   for several users see `chappe arena create --share`
  CHAPPE_NO_WAITV  if set: without futex_waitv, as before Linux 5.16

Exit status:
  0 done; 1 failed, reason on stderr; 2 wrong usage. Commands that wait or
  run a command have others: `chappe help COMMAND` lists them";

/// A command.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a command under a permit of one of some pools, or under several of one pool
    ///
    /// Takes a permit of whichever of the pools has one first (with -n, so many of the only pool, all at one moment),
    /// waiting in the order of arrival, runs the command, and
    /// gives the permit back however the command or chappe itself ends. Two commands never run under one permit, even
    /// if chappe is killed with -9 while its command goes on: the permit is free only when the command, and what it
    /// left running, has ended, too.
    #[command(after_help = acquire::SHORT, after_long_help = acquire::END)]
    Acquire(Acquire),
    /// Run a command under a lock: alone, or with --shared beside others that share it
    ///
    /// As flock(1), and first come, first served: a command that comes after one that waits to be alone waits behind it. The lock is made if it is not
    /// there. It is free when the command, and what it left running, has ended, also if chappe is killed with -9 while its command goes on.
    #[command(after_help = lock::SHORT, after_long_help = lock::END)]
    Lock(Lock),
    /// Name the GPUs of this machine, and make a pool of one permit for each
    ///
    /// Prints the names, one a line, as CUDA and ROCm know them: what `chappe acquire` takes. A pool whose GPU the driver does not name any more is removed once no job has it.
    #[command(after_help = gpus::SHORT, after_long_help = gpus::END)]
    Gpus(Gpus),
    /// Run a build whose processes share job slots, by GNU make's fifo protocol
    ///
    /// Runs the command with MAKEFLAGS such that it and all that it starts, make, cargo, rustc, ninja, gcc -flto=jobserver,
    /// run as many jobs at once as there are slots, all together. A slot comes back when the client that had it is killed:
    /// a sub-make, a rustc. With --pool the slots are a pool's permits, shared with other builds and with `chappe
    /// acquire`; chappe takes a permit only when a process of this build wants a slot.
    #[command(after_help = JOBSERVER_SHORT, after_long_help = JOBSERVER_END)]
    Jobserver(Jobserver),
    /// Submit a job: it waits for a permit of a pool and runs, in a terminal of its own
    ///
    /// Returns at once with the name of the terminal. The job survives this shell and a log-out, and not a reboot. There is no daemon: the job's own process waits
    /// in the line of the pool, in the order of arrival.
    ///
    /// JSON: {"name": TEXT, "pid": N}
    #[command(after_help = submit::SHORT, after_long_help = submit::END)]
    Submit(submit::Submit),
    /// Run a pipeline, and give each stage just the processor that keeps data flowing
    ///
    /// For programs that must keep up with a clock: sound, cameras, measurements. They need not be written for it, and
    /// nothing has to be tuned. On a machine where others compute, too, no stage has too little, and none takes more
    /// than it needs.
    #[command(after_help = pipe::SHORT, after_long_help = pipe::END)]
    Pipe(Pipe),
    /// Run a program with its POSIX semaphores on chappe's
    ///
    /// The program need not be written or built for it. Its semaphores, sem_init's and sem_open's, are served in the order of arrival,
    /// leave no waiter stuck when a process is killed, and are listed by `chappe ls`. The processes that it starts use them, too.
    #[command(after_help = run::SHORT, after_long_help = run::END)]
    Run(Run),
    /// Make, resize or remove a pool
    #[command(subcommand, after_help = POOL_END)]
    Pool(PoolCommand),
    /// Make, use or remove a semaphore: a counter of wake-ups
    ///
    /// `up` saves a wake-up, or hands it to the waiter that came first; `down` consumes one, or waits. Any process may
    /// do either: a wake-up has no owner, and a death returns nothing. For permits that return there is `chappe
    /// acquire`.
    #[command(subcommand, after_help = sem::END, visible_alias = "semaphore")]
    Sem(SemCommand),
    /// Wait for other scripts or processes, until all are there: a barrier
    ///
    /// Each round, N processes wait until all N have arrived; then all go on, and the next round begins. One that is killed while it waits
    /// does not block the others: they go on, and exit with 3.
    #[command(subcommand, after_help = barrier::END)]
    Barrier(BarrierCommand),
    /// Make, seal or remove a tube: a channel of records between processes
    #[command(subcommand, after_help = tube::END)]
    Tube(TubeCommand),
    /// Send what comes on stdin to a tube, as records
    ///
    /// Waits while the tube is full, and to a broadcast tube for the first receiver. Records that were sent stay for the receivers,
    /// also for those that come when this command has ended, or was killed; a record is sent whole or not at all. When the command ends, receivers learn that
    /// there is no sender any more.
    #[command(after_help = stream::SEND_SHORT, after_long_help = stream::SEND_END)]
    Send(Send),
    /// Receive from whichever of some tubes has a record first
    ///
    /// Writes records to stdout. Waits for the first one, and ends when the tubes are empty and have no sender. A record is written before it is taken off: if this command is
    /// killed in between, another one gets it once more.
    #[command(after_help = stream::RECV_SHORT, after_long_help = stream::RECV_END, visible_alias = "receive")]
    Recv(Recv),
    /// Make, use or watch a map: a dictionary that survives the death of its writers
    ///
    /// Keys and values are bytes. Each change is one atomic step: a process that is killed in the middle has made it,
    /// or has not. No process waits for another.
    #[command(subcommand, after_help = map::END)]
    Map(MapCommand),
    /// List what there is: in one arena, or in all
    #[command(visible_alias = "list", verbatim_doc_comment)]
    Ls {
        /// The arena, or one object; @REMOTE lists the pools of an engine
        arena: Option<String>,
    },
    /// Show the state of an object: its holders with their times, and its waiters in order
    ///
    /// Of a pool: its permits' holders. A leased permit is kept by a job as well as by its holder: `chappe acquire` holds it, and its job
    /// has another pid. An orphan's holder
    /// is gone, and its job goes on. The time of a hold is exact for commands and for holders that had to wait; a
    /// program that took its permit at once has held it "at least" so long. A permit that is set aside has no holder:
    /// it is for the first waiter, which waits for several. A job that cannot be seen from here (it runs in another PID
    /// namespace, or may not be looked at) keeps its permit, and "unseen" names the process that began it and says why
    /// it is not known whether the job runs.
    ///
    /// Of a semaphore: its value. Of a mutex: its holder; that a holder died, and no later holder has
    /// declared its data whole; that it is condemned, and no thread gets it any more.
    ///
    /// Of a map: how many entries it has, and room for.
    ///
    /// Of a tube: how many messages are in it and have gone through it (one that was begun and
    /// given up counts, too); how many were redelivered, or dropped, because receivers died;
    /// which processes send and receive; the waiters for a message, and those for room. With
    /// --interval, how fast messages go through it.
    #[command(verbatim_doc_comment)]
    Show {
        /// The object
        name: String,
        /// Of a tube: watch it for so long (500ms, 30s, or seconds), and say how many messages a second go in and come out
        #[arg(long, short, value_name = "DURATION", value_parser = parse)]
        interval: Option<Duration>,
    },
    /// Show what waits, what is held and what flows, refreshed on the terminal
    ///
    /// Objects with their waiters, the longest wait, messages a second and state; the processes that wait; of one object its
    /// holders and waiters and a graph of the last minutes. `?` explains the keys. Elsewhere than on a terminal: --once.
    #[command(after_long_help = top::END)]
    Top(top::Top),
    /// Run a command when a condition becomes true: a pool starves, a tube fills up
    #[command(after_help = watch::SHORT, after_long_help = watch::end())]
    Watch(watch::Watch),
    /// Print figures of all objects as Prometheus reads them
    ///
    /// To stdout; with --output into a file for node_exporter's textfile collector; with --listen to a scraper.
    Metrics(Metrics),
    /// Find faults, repair those that can be repaired, and say what to do about the others
    ///
    /// In each arena: recovers members that have died, and names them with what they had;
    /// frees what has no owner; names stopped processes that hold something, permits and
    /// locks that jobs keep, mutexes whose data no holder has made whole, objects that were removed and
    /// are still in use, contents that make no sense, arenas that are nearly full. Around them:
    /// removes what killed job servers and jobs left, and names arenas that processes still use
    /// though their file is gone, locks that a stopped process holds, files that are not
    /// chappe's. Last, what this kernel lacks, and whether restartable sequences are used. Each
    /// finding says what was done, or what to do.
    ///
    /// It counts what it may not look at: other users' processes. It waits for no process.
    /// Exit status 1 if an arena cannot be used, or something took too long to look at;
    /// findings alone are no failure.
    #[command(verbatim_doc_comment)]
    Doctor {
        /// @REMOTE: an engine, its members and whether permits can be had there, in place of this machine
        engine: Option<String>,
    },
    /// Take a permit away from its holder
    ///
    /// Permits come back by themselves. This is for a holder that lives and is stuck: its permit goes to the first
    /// waiter, although the holder may still use what the permit stands for. Without --force nothing is taken, and the
    /// message names the holder.
    ///
    /// JSON: {"permit": TEXT, "taken_from": {"pid": N, "tid": N, "label": TEXT}}; on an engine "host" in place of "tid", and "token": N
    Release {
        /// The pool, or the permit as CHAPPE_PERMIT names it: NAME:INDEX
        #[arg(value_name = "NAME[:INDEX]")]
        name: String,
        /// Which of the pool's permits, counted from 0; needed if it has several
        index: Option<u32>,
        /// Take the permit from a holder that lives
        #[arg(long)]
        force: bool,
    },
    /// Remove objects of any kind that are not in use
    ///
    /// Mutexes, readers-writer locks and condition variables are made by programs; this removes those, too.
    ///
    /// JSON, a line for each: {"removed": TEXT, "kind": TEXT}
    Rm {
        /// The objects
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also one in use: its waiters get an error, and permits and locks held there protect nothing any more. Not a terminal: `chappe term kill` ends its command
        #[arg(long)]
        force: bool,
    },
    /// Make or remove an arena: a region of memory that all objects live in
    #[command(subcommand, after_help = arena::END)]
    Arena(ArenaCommand),
    /// Run programs in terminals that outlive them: show, send, wait for a text, attach
    ///
    /// The screen, the lines that have left it and how the program ended lie in memory: they can be read while it runs and when it has ended, by any number of
    /// commands, which hold nothing up. There is no server: each terminal has two small processes of its own, and loses nothing when
    /// the one that reads is killed.
    #[command(subcommand, after_help = term::END)]
    Term(term::TermCommand),
    /// Query CSV, JSON, logs or tubes: filter, compute, aggregate by keys
    ///
    /// Reads files or stdin once, only the columns that are asked for, on all processors. The language is that of `chappe recv --where --select`.
    #[command(after_help = query::SHORT, after_long_help = query::END)]
    Query(Query),
    /// Keep schemas of records by name; the name stands wherever a schema is asked for
    #[command(subcommand, after_help = schema::END)]
    Schema(SchemaCommand),
    /// Run, check or show a graph: stages through which sound, bytes, lines or records flow
    ///
    /// A graph is a small text: `wav "in.wav" | lowpass 800 | tee (spectrum 1024 | png "s.png") | wav "out.wav"`. Types are checked before anything runs.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Show the light threads of a process: what each does, and what it waits for
    ///
    /// Reads the process's memory; the process does nothing for it, and may be stopped.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[command(after_long_help = threads::END)]
    Threads(threads::Threads),
    /// Measure how late a periodic handler is beside hogs, with locks in common and without
    ///
    /// JSON: {"policy": "fifo", "deadline" or "other", "refused": TEXT or null, "period_us": N, "hogs": N, "windows":
    ///   [{"window": TEXT, "periods": N, "missed": N, "p50_us": N, "p99_9_us": N, "max_us": N, "added": N}], "cyclictest_max_us": N or null}
    #[command(after_long_help = lateness::END)]
    Lateness(lateness::Lateness),
    /// Run the papers' measurements on this machine, with peers beside them
    ///
    /// A report, as a page or as JSON, that says first where chappe is slower than a peer. It is a program of its own, chappe-lab, which
    /// `cargo install --path crates/lab --profile dist` builds: `chappe lab --help` asks it.
    #[command(disable_help_flag = true)]
    Lab {
        /// The arguments of chappe-lab
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Show the fields of what commands print with --json
    ///
    /// One value, or one a line where a command goes on or has several names. TEXT is a string, N a number, BOOL true or false. Of the commands that are not
    /// here `chappe help COMMAND` has the fields.
    #[command(after_long_help = json::END)]
    Json,
    /// Print completions for a shell: of commands, options, and the names of what is there
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print what may stand at the end of a command line, for the shells' completions
    #[command(hide = true)]
    Complete {
        /// What stands behind `chappe`; the last word is the one to complete
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Print the manual page, or write all of them into a directory
    #[command(hide = true)]
    Man {
        /// Where to; made if it is not there
        directory: Option<PathBuf>,
    },
    /// Stay as long as some processes do (chappe starts it to keep a lease for those that dropped theirs)
    #[command(hide = true)]
    Keep(Keep),
}

/// `chappe jobserver`.
#[derive(clap::Args, Debug)]
pub struct Jobserver {
    /// How many jobs may run at once; with --pool, how many permits the pool must have
    #[arg(long, short, value_name = "N", required_unless_present = "pool")]
    pub permits: Option<u64>,
    /// Share the permits of this pool
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Make the pool if it is not there, with --permits permits
    #[arg(long, requires = "pool", requires = "permits")]
    pub create: bool,
    /// Wait at most this long for the first slot (500ms, 30s, 5m, 1h, or seconds), then exit with 124
    #[arg(long, value_name = "DURATION", value_parser = parse, conflicts_with = "nonblock")]
    pub timeout: Option<Duration>,
    /// Do not wait for the first slot: exit with 124 if none is free
    #[arg(long)]
    pub nonblock: bool,
    #[command(flatten)]
    pub job: Job,
    /// The command to run and its arguments
    ///
    /// If it is make, a `-j` among them is left out: with it make would not use the job server.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const JOBSERVER_SHORT: &str = "\
Examples:
  chappe jobserver --permits 8 -- make -j
  chappe jobserver --pool cpu -- cargo build

Exit status: as `chappe acquire`";

const JOBSERVER_END: &str = "\
Examples:
  chappe jobserver --permits 8 -- make -j
  chappe pool create cpu --permits 8
  chappe jobserver --pool cpu -- make -C one &
  chappe jobserver --pool cpu -- cargo build &
  chappe acquire cpu -- ./measure
  chappe show cpu

What the command gets in its environment:
  MAKEFLAGS            what was there and is not about jobs, with
                       -jN --jobserver-auth=fifo:PATH, and an expression for
                       makes that know no fifo
  CARGO_MAKEFLAGS      the same, if it was there
  CHAPPE_LEASE         with --pool: the mark of the first slot's lease

Programs that take part:
  GNU make 4.4 or later, cargo, rustc, gcc 13 or later with
  -flto=jobserver, ninja 1.13 or later (without -j; it begins with one job,
  and asks for slots when one ends), and whatever else knows `fifo:`.
  GNU make before 4.4, wherever it is below the command, gets the older
  form, two inherited descriptors, and so does all that it starts with `+`
  or $(MAKE). Then a killed client's slots come back when nothing
  that has the descriptors open could still use them, after a second at
  the earliest. The command has one slot from the beginning, as the
  protocol has it; it waits for that one before it starts.

When something is killed:
  a client   what it took and did not give back goes to others as soon as
             the jobs that it had started have ended, too. Clients that
             opened the fifo in the same instant count as one. One that
             hands its slot on to another process and ends (`head -c1
             <$fifo`) counts as dead.
  chappe     the build goes on. The slots of killed clients are not handed
             on any more, so it may run fewer jobs at once. With
             --pool, the slots that were in use come back when the whole
             job has ended.
  make       ends the command, as ever; what it left running keeps its
             slots, with --pool and not --close, and is named.

Exit status, signals, what stays running:
  as `chappe help acquire` says.

With --json:
  chappe's own messages are JSON on stderr, one object a line:
  {\"event\": \"serving\", \"pool\": TEXT or null, \"permits\": N,
    \"fifo\": TEXT, \"waited_ms\": N}
  {\"event\": \"recovered\", \"tokens\": N}
  {\"event\": \"ended\", \"status\": N or null, \"signal\": N or null,
    \"held_ms\": N, \"left_running\": N, \"left\": [PID],
    \"taken_away\": BOOL, \"removed\": BOOL, \"clients\": N, \"most_at_once\": N,
    \"recovered\": N}
  {\"error\": TEXT, \"status\": N or null}";

/// A shell that there are completions for.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum Shell {
    /// bash, with or without the package bash-completion.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

const POOL_END: &str = "\
Examples:
  chappe pool create licences --permits 4
  chappe acquire -n 2 licences -- make sign
  chappe show licences";

/// `chappe pool`.
#[derive(Subcommand, Debug)]
pub enum PoolCommand {
    /// Make a pool, or several
    ///
    /// JSON, a line for each: {"name": TEXT, "permits": N}; with --priority also "by_priority": {"aging_ms": N or null}; with --mutex "mutex": true
    Create {
        /// The name; ARENA/NAME in another arena than `default`, which is made if it is not there. Several names make several
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// How many permits it has
        #[arg(long, short, value_name = "N", default_value_t = 1)]
        permits: u64,
        /// On an engine: one permit, whose next holder learns whether the last one died (CHAPPE_OWNER_DIED)
        #[arg(long, conflicts_with = "permits", hide_short_help = true)]
        mutex: bool,
        #[command(flatten)]
        order: Order,
    },
    /// Give a pool another number of permits
    ///
    /// Fewer: those in use beyond the number end as they come back.
    ///
    /// JSON: {"name": TEXT, "permits": N}
    Resize {
        /// The pool
        name: String,
        /// The new number of permits
        #[arg(value_name = "N")]
        permits: u64,
    },
    /// Remove pools that are not in use
    ///
    /// JSON, a line for each: {"removed": TEXT}
    Rm {
        /// The pools
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Also one in use: its waiters get an error; commands under its permits go on without protection
        #[arg(long)]
        force: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        command(&|_| true).debug_assert();
    }

    /// Each command that is listed, with what prints its help.
    fn each(mut command: clap::Command, name: &str, look: &mut impl FnMut(&str, &str, &str)) {
        let text = |text: clap::builder::StyledStr| text.to_string();
        look(name, &text(command.render_help()), &text(command.render_long_help()));
        let below = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
        for one in below.cloned().collect::<Vec<_>>() {
            each(one.clone(), &format!("{name} {}", one.get_name()), look);
        }
    }

    fn of_each(look: &mut impl FnMut(&str, &str, &str)) {
        let mut all = command(&|_| true).term_width(100);
        all.build();
        each(all, "chappe", look);
    }

    #[test]
    fn the_help_of_each_command_fits_one_screen_and_says_where_the_rest_is() {
        let (mut count, mut rests) = (0, 0);
        of_each(&mut |name, short, long| {
            count += 1;
            // `chappe lab --help` asks another program.
            if name == "chappe lab" {
                return;
            }
            let (lines, widest) = (short.lines().count(), short.lines().map(|l| l.chars().count()).max().unwrap_or(0));
            assert!(lines <= 45 && widest <= 100, "{name}: {lines} lines, {widest} columns:\n{short}");
            let more = format!("\n\nFull help: `{}`\n", name.replacen("chappe", "chappe help", 1));
            rests += usize::from(short.ends_with(&more));
            assert_eq!(short.contains("Full help"), short.ends_with(&more), "{name}:\n{short}");
            assert!(!long.contains("Full help"), "{name}:\n{long}");
        });
        assert!(count > 50 && rests > 40, "{count}, {rests}");
    }

    #[test]
    fn help_of_a_command_that_is_not_there_names_the_one_that_was_meant() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let mut command = command(&|_| true);
            let e = command.try_get_matches_from_mut(&words).unwrap_err();
            help_of(&mut command, &words, &e).map(|e| e.to_string())
        };
        assert!(of("chappe help aquire").unwrap().contains("'acquire'"));
        assert!(of("chappe help pool creat").unwrap().contains("'create'"));
        assert!(of("chappe help --help").unwrap().contains("Usage: chappe"));
        // Without `help` it would be a command that is all right, or another one's help.
        assert_eq!(of("chappe help ls ls").or(of("chappe help acquire")).or(of("chappe aquire")), None);
    }

    #[test]
    fn no_line_of_an_end_of_help_is_broken() {
        fn look(one: &clap::Command) {
            for text in [one.get_after_help(), one.get_after_long_help()].into_iter().flatten() {
                let text = text.to_string();
                let long = text.lines().find(|line| line.chars().count() > 100);
                assert_eq!(long, None, "{}", one.get_name());
            }
            one.get_subcommands().for_each(look);
        }
        look(&Cli::command());
    }

    #[test]
    fn help_is_in_plain_words() {
        const RIDDLES: [&str; 13] = [
            "who",
            "whom",
            "whoever",
            "somebody",
            "anybody",
            "nobody",
            "everybody",
            "shall",
            "told",
            "in vain",
            "say it",
            "do it",
            "take it away",
        ];
        let mut found = Vec::new();
        of_each(&mut |name, short, long| {
            // A phrase does not go over the end of a sentence.
            let text = format!("{short}\n{long}").to_lowercase().replace(['.', ',', ':', ';'], " end ");
            let words: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
            let plain = format!(" {} ", words.join(" "));
            let riddles = RIDDLES.iter().filter(|riddle| plain.contains(&format!(" {riddle} ")));
            found.extend(riddles.map(|riddle| format!("{name}: {riddle}")));
        });
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn create_does_not_swallow_the_first_pool() {
        let parsed = Cli::parse_from(["chappe", "acquire", "--create", "gpu0", "gpu1", "--", "true"]);
        let Command::Acquire(a) = parsed.command else { panic!("not acquire") };
        assert_eq!(a.create, Some(None));
        assert_eq!(a.pools, ["gpu0", "gpu1"]);
        let parsed = Cli::parse_from(["chappe", "acquire", "--create=4", "slots", "--", "true", "--create"]);
        let Command::Acquire(a) = parsed.command else { panic!("not acquire") };
        assert_eq!(a.create, Some(Some(4)));
        assert_eq!(a.command, ["true", "--create"]);
    }
}
