//! The processes of a soak, each of which may be killed at any moment: jobs and holders.
//!
//! A **job** runs under a permit that `chappe acquire` holds for it. A **holder** takes permits by itself, through the library. Both show
//! that they have a permit alone: for as long as they have it they keep an exclusive lock (flock) on the file that is named after it, and
//! write their process id into it.
//!
//! A process that was killed can still have its lock for some microseconds after its permit has gone on: the kernel closes files after it
//! has reported the death. So a process that finds the file locked checks whether the process named in it is on its way out, and then
//! waits; it reports a collision if that process lives.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chappe::{Permit, Pool, acquire_any};

use crate::patience::within;

/// The pools of a soak, and how many permits each has.
pub const POOLS: [(&str, u32); 3] = [("a", 1), ("b", 1), ("c", 2)];
/// The status of a process that found another under its permit.
pub const COLLISION: i32 = 99;
/// Where in the soak's directory the files are that permits are named after.
pub const LOCKS: &str = "locks";
/// The file that gets a byte whenever a job or a holder's turn ends undisturbed.
pub const DONE: &str = "done";
/// The file that gets a byte for each time that the backstop fired in a holder.
pub const BACKSTOPS: &str = "backstops";
/// How long a process that is on its way out may take.
const LAST_BREATH: Duration = Duration::from_secs(20);

/// A job's life: `home`, how long it works, whether it leaves the second half to a child. Answers its exit status.
pub fn job(home: &Path, work: Duration, forks: bool) -> i32 {
    let Ok(permit) = std::env::var("CHAPPE_PERMIT") else { return 2 };
    let Ok(file) = alone(home, &permit) else { return COLLISION };
    std::thread::sleep(work / 2);
    if forks {
        // SAFETY: this process has one thread; the child goes on as any process would. It has the locked file too.
        let child = unsafe { libc::fork() };
        if child != 0 {
            return 0;
        }
        if sign(&file).is_err() {
            return 2;
        }
    }
    std::thread::sleep(work / 2);
    note(home, DONE, 1);
    0
}

/// A holder's life: some turns of acquiring any of the pools. Answers its exit status.
pub fn hold(home: &Path, work: Duration) -> i32 {
    let mut status = 0;
    for turn in 0..3 {
        let opened: Result<Vec<Pool>, _> = POOLS.iter().map(|(name, _)| Pool::open(name)).collect();
        let Ok(pools) = opened else { return 2 };
        let under = |permit: &Permit<'_>| {
            let lock = alone(home, &name(permit.pool(), permit.index()));
            std::thread::sleep(work);
            lock.map(drop)
        };
        let alone = if turn == 1 {
            // A permit of the process, which another thread gives back.
            let Ok(permit) = pools[2].acquire_owned() else { return 2 };
            let lock = alone(home, &name(&pools[2], permit.index()));
            std::thread::sleep(work);
            let lock = lock.map(drop);
            std::thread::scope(|s| {
                s.spawn(move || drop(permit));
            });
            lock
        } else {
            let Ok((_, permit)) = acquire_any(&pools.iter().collect::<Vec<_>>()) else { return 2 };
            under(&permit)
        };
        match alone {
            Ok(()) => note(home, DONE, 1),
            Err(Collision) => status = COLLISION,
        }
    }
    note(home, BACKSTOPS, chappe::recoveries().backstops);
    status
}

/// A supervisor that makes a known mistake: no lease. When it is killed, its permit goes on while its job still runs.
/// A soak with it in the place of the `chappe` command must see collisions. `words`: pools, `--`, the job.
pub fn supervise_without_a_lease(words: &[&str]) -> i32 {
    let mut parts = words.splitn(2, |word| *word == "--");
    let opened: Result<Vec<Pool>, _> = parts.next().unwrap_or_default().iter().map(|name| Pool::open(name)).collect();
    let (Ok(pools), Some([program, arguments @ ..])) = (opened, parts.next()) else { return 2 };
    let Ok((at, permit)) = acquire_any(&pools.iter().collect::<Vec<_>>()) else { return 2 };
    let mut command = Command::new(program);
    command.args(arguments).env("CHAPPE_PERMIT", name(&pools[at], permit.index()));
    command.status().map_or(2, |status| status.code().unwrap_or(0))
}

/// As `chappe acquire` names a permit.
fn name(pool: &Pool, index: u32) -> String {
    if pool.permits() == 1 { pool.name() } else { format!("{}:{index}", pool.name()) }
}

/// Somebody else is under this permit.
struct Collision;

/// Takes the lock of a permit's file, which no live process may have.
fn alone(home: &Path, permit: &str) -> Result<File, Collision> {
    let path = home.join(LOCKS).join(permit);
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(|_| Collision)?;
    let mut living = false;
    let got = within(LAST_BREATH, || {
        // SAFETY: a plain call on an open descriptor.
        let got = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        living = !got && signature(&file).is_some_and(lives);
        got || living
    });
    if !got || living || sign(&file).is_err() {
        return Err(Collision);
    }
    Ok(file)
}

fn sign(mut file: &File) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    // Of one length, so that a longer one leaves nothing.
    write!(file, "{:10}", std::process::id())
}

fn signature(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether a process runs, and is not on its way out.
pub fn lives(pid: u32) -> bool {
    const EXITING: u64 = 4;
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((_, rest)) = text.rsplit_once(')') else { return false };
    let mut fields = rest.split_ascii_whitespace();
    let dead = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    let flags: u64 = fields.nth(5).and_then(|f| f.parse().ok()).unwrap_or(0);
    !dead && flags & EXITING == 0
}

/// Adds so many bytes to a file.
fn note(home: &Path, file: &str, count: u64) {
    let opened = OpenOptions::new().append(true).create(true).open(home.join(file));
    // A count that cannot be written is missing in the summary, where it is seen.
    let _ = opened.and_then(|mut f| f.write_all(&vec![b'.'; count as usize]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_living_hands_is_a_collision_and_one_in_dead_hands_is_not() {
        let home = std::env::temp_dir().join(format!("chappe-cast-{}", std::process::id()));
        std::fs::create_dir_all(home.join(LOCKS)).unwrap();
        let held = alone(&home, "a").ok().expect("nobody has it");
        assert!(alone(&home, "a").is_err(), "this process has it and lives");
        drop(held);
        assert!(alone(&home, "a").is_ok(), "what is written in it is old");
        assert!(lives(std::process::id()));
        assert!(!lives(u32::MAX));
        std::fs::remove_dir_all(home).unwrap();
    }
}
