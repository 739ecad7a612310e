//! `chappe jobserver`: a build whose processes share job slots by GNU make's fifo protocol, and lose none.
//!
//! In that protocol a slot is a byte in a fifo: a client that reads it may run one more job, and writes it back. The command has one slot
//! from the beginning, so N slots are N-1 bytes. A byte has no owner: when its reader is killed, it is gone. So here no two clients have
//! the same fifo. The name that they open stands for a fresh one each time:
//!
//! ```text
//!           opens                       .--- jobs-0 --- make                  2 given, 1 in it: it has 1
//!   client ------> jobs -> jobs-3       |--- jobs-1 --- sub-make              1 given, 0 in it: it has 1
//!                  (then the name   server - jobs-2 --- rustc, killed         1 given, 0 in it, and no process has it
//!                   moves on)           |--- jobs-3 --- for the next          open: 1 is lost, and comes back
//!                                       '--- pool: 3 permits of its 4 are behind these, 1 behind the command itself
//! ```
//!
//! What a client has is what was put into its fifo less what is there; when it is dead, exactly that comes back. No privilege is needed, no
//! client need be changed, and the server counts what the kernel counts: nothing is guessed from a client's behaviour. [`accounts`] has the
//! states and the invariants, [`scan`] tells which processes have a fifo open, [`serve`] moves tokens to where they may be wanted, [`fifo`]
//! makes the fifos outlive chappe, [`tokens`] has the permits, [`makeflags`] the environment.
//!
//! Why not otherwise: with one fifo for all, a bound on what each living client may have (its threads, its children) would have to be
//! guessed, and a cargo with twenty threads would hide every loss of its rustcs until the end. Fanotify tells which process read, and needs
//! CAP_SYS_ADMIN; so does a character device in user space, which would tell, too; ptrace and seccomp see every system call of every
//! compiler.
//!
//! | killed with -9             | what happens                                                                          |
//! |----------------------------|---------------------------------------------------------------------------------------|
//! | a compiler                 | its make sees it die, and has its token                                               |
//! | a client with tokens       | they come back once the jobs that it started have ended ([`accounts`] I2)              |
//! | the command itself         | chappe ends as it did; what still runs keeps its permits by the lease                  |
//! | chappe                     | every client goes on with the tokens that it has and those in its fifo; a new one      |
//! |                            | opens the last fifo, which the job keeps open, and runs one job if nothing is in it    |
//! | chappe and the command     | the same; the directory is removed by the next job server or by `chappe doctor`        |
//!
//! GNU make before 4.4 knows no fifo by name: it is told the numbers of two descriptors, which all of the job inherits beside the name. So
//! all such makes share one fifo, and what one of them had when it was killed cannot be seen in it. It is inferred ([`pipe`]): late, and only
//! while no process that has it has threads or children that could hide it. Clients that open the name are not concerned.
//!
//! Limits. What a client gives back is its own business: a make that lost a sub-make's shell gives that job's token to the next although
//! the sub-make still runs. A client that reads a token, hands it to another process, and ends, counts as dead. A subreaper within the job
//! (another `chappe`, say) takes its orphans out of the server's sight.

mod accounts;
mod fifo;
mod lock;
mod makeflags;
mod pipe;
mod scan;
mod serve;
mod tokens;

pub use fifo::clean_up;

use crate::args::Jobserver;
use crate::ended::{self, FAILED, say};
use crate::family::Process;
use crate::job::{Start, wants_own_group};
use crate::keep;
use crate::look::{arena_of, ms};
use crate::said::{Failure, tell};
use crate::supervise::Watch;
use crate::take::{self, Until, permits};
use crate::terminal::Terminal;
use anyhow::{Result, anyhow, bail};
use chappe::{LEASE_VARIABLE, Pool, PoolError};
use fifo::{Fifo, Place};
use serde_json::json;
use serve::Server;
use std::env::var_os;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;
use tokens::{First, SharedFirst, Tokens};

/// Runs the command. `file_size`: SIGXFSZ had its default action when chappe started.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Jobserver, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    chappe::set_label(&ended::label(&a.command));
    let pool = [slots(a).map_err(failed)?];
    let began = Instant::now();
    let (_, mut first) = take::wait(&pool, 1, Until::of(a.timeout, a.nonblock), json)?;
    let waited = began.elapsed();
    let lease = a.pool.is_some().then(|| first.lease()).transpose().map_err(|e| failed(e.into()))?;

    let pool = &pool[0];
    let pool_name = pool.name();
    let mut place = Place::make().map_err(failed)?;
    // All of the job inherits this one, open for reading and for writing.
    let first_fifo = place.fifo().map_err(|e| failed(place.cannot(e)))?;
    let ends = first_fifo.ends().map_err(|e| {
        let has_proc = std::path::Path::new("/proc/self").exists();
        failed(if has_proc {
            place.cannot(e)
        } else {
            anyhow!("a job server opens its fifos by /proc, which is not mounted")
        })
    })?;
    let next = place.fifo().and_then(|next| place.show(&next).map(|()| next)).map_err(|e| failed(place.cannot(e)))?;
    let name = place.name();
    let flags = var_os("MAKEFLAGS").unwrap_or_default();
    if makeflags::has_server(&flags) {
        say(json, "there is a job server already, in MAKEFLAGS: the command uses this one instead");
    }
    let flags = makeflags::compose(&flags, pool.permits(), &name, ends.each_ref().map(AsRawFd::as_raw_fd));
    let mut environment = vec![("MAKEFLAGS", flags.clone())];
    environment.extend(var_os("CARGO_MAKEFLAGS").map(|_| ("CARGO_MAKEFLAGS", flags)));
    let handed_on = lease.as_ref().filter(|_| !a.job.close);
    environment.extend(handed_on.map(|l| (LEASE_VARIABLE, OsString::from(l.cookie()))));
    let command = makeflags::without_jobs(&a.command);

    let terminal = Terminal::find();
    let own_group = wants_own_group(&terminal, a.job.foreground);
    let watch = Watch::begin(own_group);
    let heir = place.heir().try_clone_to_owned().map_err(|e| failed(e.into()))?;
    let inherited = handed_on.map(|l| l.as_fd().try_clone_to_owned()).transpose();
    let inherited = inherited.map_err(|e| failed(e.into()))?;
    let shared = First::shared(lease);
    let server = serve(place, first_fifo, next, pool, &shared, json).map_err(failed)?;
    if json {
        let named = a.pool.as_ref().map(|_| pool.name());
        let event = json!({
            "event": "serving", "pool": named, "permits": pool.permits(), "fifo": name, "waited_ms": ms(waited),
        });
        tell(event);
    }
    let inherits: Vec<BorrowedFd<'_>> =
        [Some(&heir), inherited.as_ref()].into_iter().flatten().chain(&ends).map(AsFd::as_fd).collect();
    let start = Start {
        command: &command,
        environment: &environment,
        inherits: &inherits,
        mask: watch.before,
        file_size,
        own_group,
    };
    let job = match start.start(&terminal) {
        Ok(job) => job,
        Err(e) => {
            server.end().tokens.end(0);
            return Err(ended::not_started(&command[0], &e));
        }
    };
    server.job_is(job.pid);
    drop((heir, inherited, ends));
    let held_from = Instant::now();
    let ended = watch.stay(&job, &terminal, a.job.grace.0, None);

    let served = server.end();
    let survivors = keep::survivors(None);
    let kept = !survivors.is_empty() && !a.job.close;
    let out = if kept { served.out } else { 0 };
    served.tokens.end(out);
    let lease = tokens::open(&shared).lease.take();
    if let Some(lease) = lease.filter(|_| kept) {
        // Tokens that are out have no mark: the lease alone keeps their permits.
        let kept = match out {
            0 => keep::look_after(&survivors, &lease, &pool.name(), watch.before),
            _ => keep::stay_for(
                &survivors.iter().map(|p| p.pid.to_string()).collect::<Vec<_>>(),
                &lease,
                &pool.name(),
                watch.before,
            ),
        };
        if let Err(e) = kept {
            say(json, &e.to_string());
        }
        if !json {
            say(false, &left_running(&survivors, 1 + out, &pool.name()));
        }
    }
    let removed = pool.is_removed();
    let taken_away = !first.lost().is_empty();
    drop(first);
    if json {
        let (status, signal) = ended.parts();
        let event = json!({
            "event": "ended", "status": status, "signal": signal, "held_ms": ms(held_from.elapsed()),
            "left_running": survivors.len(), "left": survivors.iter().map(|p| p.pid).collect::<Vec<_>>(),
            "taken_away": taken_away, "removed": removed, "clients": served.clients,
            "most_at_once": served.most, "recovered": served.recovered,
        });
        tell(event);
    } else if removed {
        say(false, &format!("pool {pool_name} was removed while the command ran"));
    } else if taken_away {
        say(false, "the command's own slot was taken away while it ran");
    }
    Ok(ended::as_it_did(ended, a.pool.as_ref().and_then(|_| arena_of(pool))))
}

/// What a build has left running in a pool that others use, and so keeps from them.
fn left_running(survivors: &[Process], slots: usize, pool: &str) -> String {
    const MOST: usize = 4;
    let named: Vec<String> = survivors.iter().take(MOST).map(|p| p.with_name()).collect();
    let more = survivors.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (it, ends) = if survivors.len() == 1 { ("it", "ends") } else { ("they", "end") };
    let slots = if slots == 1 { "1 slot".to_owned() } else { format!("{slots} slots") };
    format!(
        "the command has ended, and left running: {}{more}; {it} may keep up to {slots} of pool `{pool}` until {it} {ends}. A daemon that builds \
         start is to be started outside of them, or the build with --close",
        named.join(", ")
    )
}

/// The pool whose permits are the slots.
fn slots(a: &Jobserver) -> Result<Pool> {
    let wanted = a.permits.map(permits).transpose()?;
    let Some(name) = &a.pool else {
        return Ok(Pool::private(wanted.unwrap_or(1))?);
    };
    if a.create {
        return take::open(name, Some(a.permits), 1);
    }
    let pool = Pool::open(name)?;
    let has = pool.permits();
    match wanted {
        Some(0) => bail!("a job server needs one slot at least"),
        Some(wanted) if wanted != has => Err(PoolError::OtherSize { name: pool.name(), has, wanted }.into()),
        _ => Ok(pool),
    }
}

fn serve(place: Place, inherited: Fifo, next: Fifo, pool: &Pool, first: &SharedFirst, json: bool) -> Result<Server> {
    let (wake, woken) = UnixStream::pair()?;
    let most = pool.permits().saturating_sub(1) as usize;
    let tokens = Tokens::new(pool.clone(), first.clone(), most, wake);
    Server::begin(place, [inherited, next], tokens, woken, json)
}
