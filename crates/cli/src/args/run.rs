//! What can be written after `chappe run`.

use std::ffi::OsString;

/// `chappe run`.
#[derive(clap::Args, Debug)]
pub struct Run {
    /// Locks return when their holder dies: semaphores that processes share, that start at 1, and that each process both takes and
    /// gives back
    #[arg(long)]
    pub owned: bool,
    /// A running process may overtake a waiter that is just being woken, as with the C library: more units a second, in no order
    #[arg(long)]
    pub barging: bool,
    /// Experimental: pipes below the program that carry much go through memory, where both ends are programs that chappe understands
    #[arg(long)]
    pub io: bool,
    /// At the end, tell on stderr which pipes went through memory, how many bytes each way, and why others did not
    #[arg(long, requires = "io")]
    pub report: bool,
    /// The program and its arguments
    #[arg(required = true, value_name = "PROGRAM", trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

pub const SHORT: &str = "\
Examples:
  chappe run -- ./server
  chappe run --owned -- python3 train.py

Exit status: the program's; 125 chappe failed; 126 the program cannot be run; 127 it was not found";

pub const END: &str = "\
Examples:
  chappe run -- ./server
  chappe run --owned -- python3 train.py    # multiprocessing.Lock
                                            # survives a killed worker
  chappe ls posix       # semaphores of sem_open
  chappe run --io -- sh -c 'head -c 2G /dev/zero | cat | wc -c'
  chappe run --io --report -- sh -c 'yes | head -c 1G | wc -c'

What is replaced:
  sem_init, sem_destroy, sem_open, sem_close, sem_unlink, sem_wait,
  sem_trywait, sem_timedwait, sem_clockwait, sem_post, sem_getvalue;
  to the program they are as POSIX and glibc have them. All else goes to
  the C library untouched. Named semaphores are in the arena `posix`,
  those in memory that processes share in one called `family-...`.
  Programs that run without `chappe run` do not see them.

With --owned:
  A semaphore that processes share and that starts at 1 belongs to the
  process that has taken it. If that is killed, the next in line gets
  it. The first post by a process that does not hold it shows that it is
  no lock: from then on it is a semaphore like any other. So does a
  process that ends by itself while it holds it (exit, _exit): what a
  producer has taken must not return when it goes. The system call
  alone, a signal and exec count as deaths. Nor is it a lock any more
  once a process has taken it for which there is no room in the arena.

With --barging:
  Waiters are woken in order, and a process that comes by before one is awake
  may take its unit, as with the C library. A program whose processes
  pass one lock on all the time does more so (Apache with
  `Mutex posixsem`, 2 processors: 1.00 times the requests that it does
  with the C library, 0.87 times without --barging), and a waiter may
  be overtaken any number of times. Owned semaphores are served in order
  all the same. What was made stays as it was made.

With --io (experimental):
  Do not use it for pipelines that compute: there it gains nothing. It is
  for pumps: pipes that carry more than 16 MiB, or 16,000 writes, between
  programs such as cat, head, tail, tee, wc, yes, tr, cut, seq, uniq,
  base64, sha256sum, gzip, and programs that use no more of the C library than
  they do. Such a pipe goes through a ring of memory once each of its two
  ends is one process' alone. All other pipes, and all other programs
  (shells, threads, poll, splice, static programs), are the kernel's as
  without it. A pipe that has begun so is the kernel's again from the
  first call that chappe does not know. End of file, SIGPIPE and signals
  are as without. A wrong address given to read or write is SIGSEGV, not
  EFAULT. Do not open or take the descriptors of such programs from
  outside (/proc/PID/fd, pidfd_getfd): what is in the ring is not there.
  Semaphores are the C library's, as each program that is started would
  pay for chappe's; with --owned or --barging they are chappe's, too.
  chappe stays beside the program, passes signals on, and ends as it does.

With --report:
  When the program has ended, stderr has for each pipe that carried at
  least 1 MiB: its two programs, how many bytes went through memory and how
  many through the kernel, and by which call, or for which reason, each end
  is the kernel's; and which programs were left as they are, and why. With
  --json the same, for all pipes, as one line. A program for which the
  system ignores the library (static, set-uid) is in no report. If chappe
  is killed there is none, and the program goes on.

Which programs:
  Linked dynamically with the GNU C library, of this machine's kind, and
  not set-uid, set-gid or with file capabilities: the system ignores
  LD_PRELOAD there. A script runs if its interpreter does, which it
  names behind `#!`; others as `chappe run -- sh FILE`.

  A static command, for systems without that library, has no `run`.

Environment:
  CHAPPE_PRELOAD   the library, if it is neither beside `chappe` nor in
                   ../lib/chappe: libchappe_preload.so
  LD_PRELOAD       what was there stays, behind the library
  CHAPPE_RUN_OWNED set to 1 for the program by --owned
  CHAPPE_RUN_BARGING
                   the same by --barging
  CHAPPE_RUN_IO    set by --io: what its pipes need to know

Exit status:
  The program's: chappe becomes the program (with --io: ends as it does). 125 if chappe failed,
  126 if the program cannot be run, 127 if there is none.";
