//! The running process, whether another process still exists, and background threads.
//!
//! Process and thread ids are valid within one PID namespace: a process finds only those of its own.
//!
//! Dead processes stay zombies: their ids stay valid, and their start times can be read. The exception is a process for which the world has
//! a successor ([`World::successor`](crate::World::successor)): when nothing of the dead process is left, the successor begins with its id.

use crate::state::{Block, NAMESPACE, State};
use crate::trace::{PROCESS, Touch};
use crate::turn::{Mode, block, embody, me, mode, saw, turn_in_order, with};
use std::io;
use std::panic::Location;

const ESRCH: i32 = 3;
fn mine<R>(then: impl FnOnce(&crate::state::Process, &crate::state::Thread) -> R) -> Option<R> {
    if mode() == Mode::Outside {
        return None;
    }
    Some(with(|e| {
        let t = &e.threads[me()];
        then(&e.processes[t.process], t)
    }))
}

/// This process.
pub fn pid() -> u32 {
    mine(|p, _| p.pid).unwrap_or(1)
}

/// This thread; the number of the process in its main thread.
pub fn tid() -> u32 {
    mine(|_, t| t.tid).unwrap_or(1)
}

/// The effective user, the same for all.
pub fn uid() -> u32 {
    1000
}

/// The inode of this process's PID namespace.
pub fn namespace() -> u64 {
    mine(|p, _| p.namespace).unwrap_or(NAMESPACE)
}

/// A number that is this process's alone.
pub fn incarnation() -> u64 {
    mine(|p, _| p.born).unwrap_or(1) << 32 | 1
}

/// The index of the running virtual thread: for what one thread has for itself.
pub fn thread_index() -> usize {
    me()
}

/// When the process started, or `None` if there never was such a process.
pub fn start_time(pid: u32) -> Option<u64> {
    with(|e| index_in(e, pid).map(|p| e.processes[p].born))
}

/// Whether the process that started then is not there any more.
pub fn has_ended(pid: u32, started: u64) -> bool {
    start_time(pid) != Some(started)
}

/// What the process is called.
pub fn name(pid: u32) -> Option<String> {
    with(|e| index_in(e, pid).map(|p| e.processes[p].name.clone()))
}

/// The process that has this number in the caller's namespace: the last that has begun with it.
fn index_in(e: &crate::state::Engine, pid: u32) -> Option<usize> {
    let here = if mode() == Mode::Outside { NAMESPACE } else { e.processes[e.threads[me()].process].namespace };
    e.processes.iter().rposition(|p| p.pid == pid && p.namespace == here && p.after.is_none())
}

fn index_of(pid: u32) -> Option<usize> {
    with(|e| index_in(e, pid))
}

/// Whether the process maps a file with this inode.
#[track_caller]
pub fn maps_inode(pid: u32, inode: u64) -> bool {
    let Some(p) = index_of(pid) else { return false };
    turn_in_order();
    let there = with(|e| !e.processes[p].gone && e.files.maps(p, inode));
    saw(PROCESS + p, 60, Touch::Read, Location::caller(), |_| {
        format!("looks whether {pid} maps the arena: {}", if there { "yes" } else { "no" })
    });
    there
}

/// What becomes readable when every thread of a process has gone.
#[derive(Debug)]
pub struct Exit(usize);

/// A descriptor that becomes readable when every thread of the process has gone.
///
/// # Errors
/// `ESRCH` when there never was such a process.
pub fn watch_exit(pid: u32) -> io::Result<Exit> {
    index_of(pid).map(Exit).ok_or_else(|| io::Error::from_raw_os_error(ESRCH))
}

/// Sleeps until one of the descriptors is readable; `timeout_ms` of -1 waits for ever. Tells which are.
#[track_caller]
pub fn poll_readable(fds: &[&Exit], timeout_ms: i32) -> Vec<bool> {
    let at = Location::caller();
    let deadline = (timeout_ms >= 0).then(|| crate::clock::now() + timeout_ms.unsigned_abs() as u64 * 1_000_000);
    loop {
        turn_in_order();
        let ready: Vec<_> = with(|e| fds.iter().map(|f| e.processes[f.0].gone).collect());
        for (fd, gone) in fds.iter().zip(&ready) {
            saw(PROCESS + fd.0, 61, Touch::Read, at, |_| {
                let name = with_name(fd.0);
                format!("looks whether {name} is gone: {}", if *gone { "yes" } else { "no" })
            });
        }
        let over = deadline.is_some_and(|d| d <= crate::clock::now());
        if ready.contains(&true) || over || mode() == Mode::Failing {
            return ready;
        }
        block(Block::Exit, &[], deadline, "poll");
    }
}

fn with_name(p: usize) -> String {
    format!("process {p}")
}

/// Starts a thread of this process that may still sleep when all is over, and lets it go.
///
/// # Errors
/// EAGAIN, if the world refuses threads of this name.
#[track_caller]
pub fn background(name: &str, body: impl FnOnce() + 'static) -> io::Result<()> {
    turn_in_order();
    assert!(mode() != Mode::Outside, "threads are started in a world");
    if with(|e| e.limits.refused == Some(name)) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let t = with(|e| {
        let process = e.threads[me()].process;
        let t = e.add_thread(process, name);
        e.threads[t].daemon = true;
        e.threads[t].state = State::Ready;
        if mode() == Mode::Fibre {
            e.trace.follow(t, me());
        }
        t
    });
    embody(t, Box::new(body));
    saw(0, 0, Touch::Read, Location::caller(), |_| format!("starts thread {name}"));
    Ok(())
}

/// Ends the calling thread's part in the world, while its process stays.
pub fn linger() {
    block(Block::Linger, &[], None, "linger");
}
