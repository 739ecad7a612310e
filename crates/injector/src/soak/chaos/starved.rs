//! Processes that run out of memory, of descriptors, or of room for arenas.
//!
//! | short of | how | what may happen |
//! |---|---|---|
//! | memory | `RLIMIT_AS` a little above what it has, and it keeps taking more | errors; then it aborts, wherever it is: to all others a death as any other |
//! | descriptors | `RLIMIT_NOFILE` a little above those it has | errors; with the limit as before, all works again |
//! | room | a file system of half a megabyte, now and then filled to the last page | [`ArenaError::NoSpace`]; what is there works on, removals make room |
//!
//! A crash (SIGSEGV, SIGBUS) is a finding in any case.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use chappe::{Arena, ArenaError, ArenaOptions, Pool, PoolError};

use super::board::{Board, Count, Deed, Found};
use super::forkers;
use super::places::{self, Place, TUBES};
use super::worker::{Broken, Worker};

/// What one is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Memory.
    Memory,
    /// Descriptors.
    Descriptors,
    /// Room in the file system.
    Room,
}

/// How large the small file system is.
pub const ROOM: u64 = 512 << 10;
/// What fills it to the last page.
const FILLER: &str = ".filler";
/// An arena of which some dozens fit.
const SMALL: ArenaOptions = ArenaOptions { members: Some(8), objects: Some(4), cells: Some(4), data: Some(1024) };
const ARENAS: u64 = 24;
const TURNS: u64 = 200;

fn limit(what: libc::__rlimit_resource_t, soft: u64) -> std::io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` is a valid place for the duration of the calls.
    let done = unsafe {
        libc::getrlimit(what, &mut now);
        now.rlim_cur = soft.min(now.rlim_max);
        libc::setrlimit(what, &now)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Where a process that aborts says so.
static BOARD: AtomicPtr<Board> = AtomicPtr::new(std::ptr::null_mut());
static PLACE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

extern "C" fn condemned(_signal: libc::c_int) {
    // SAFETY: the board stays mapped; only its atomics are used, as a signal handler may.
    if let Some(board) = unsafe { BOARD.load(SeqCst).as_ref() } {
        board.condemn(board.places[PLACE.load(SeqCst)].number.load(SeqCst));
    }
}

/// Makes an abort a death like any other: told of beforehand, silent, without a dump.
fn may_abort(worker: &Worker) -> Result<(), Broken> {
    PLACE.store(worker.place, SeqCst);
    BOARD.store(std::ptr::from_ref(worker.board()).cast_mut(), SeqCst);
    let nothing = File::options().write(true).open("/dev/null")?;
    limit(libc::RLIMIT_CORE, 0)?;
    // SAFETY: both descriptors are open; the handler does what one may.
    unsafe {
        libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&nothing), 2);
        libc::signal(libc::SIGABRT, condemned as extern "C" fn(libc::c_int) as libc::sighandler_t);
    }
    // To say why it panics would need memory, and the lock of the allocator that has just run out of it.
    std::panic::set_hook(Box::new(|_| {}));
    Ok(())
}

/// All turns of a process that is short of memory or of descriptors.
///
/// # Errors
/// What should not have failed, but for want of these.
pub fn live(worker: &mut Worker, places: &[Place], want: Want) -> Result<(), Broken> {
    may_abort(worker)?;
    match want {
        Want::Memory => starve(worker, places),
        Want::Descriptors => fumble(worker, places),
        Want::Room => Ok(()),
    }
}

/// How many bytes of address space it has.
fn size() -> Result<u64, Broken> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(pages * 4096)
}

fn starve(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    let more = 64 << 10;
    limit(libc::RLIMIT_AS, size()? + worker.roll(2 << 20))?;
    for _ in 0..TURNS {
        if worker.board().is_over() {
            return Ok(());
        }
        let step = 1 + worker.roll(more) as usize;
        // Never given back. When there is no more, it aborts here, or in chappe.
        std::mem::forget(std::hint::black_box(vec![1u8; step]));
        attempt(worker, places);
        worker.turn();
    }
    Ok(())
}

/// Whatever others do, and what wants memory and descriptors. Where that is refused, it goes on; what it had in hand is as
/// if it had died.
fn attempt(worker: &mut Worker, places: &[Place]) {
    if attempted(worker, places).is_err() {
        worker.board().settle_unit(worker.notes.unit.swap(0, SeqCst));
    }
}

fn attempted(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    match worker.roll(4) {
        0 => {
            let tube = worker.roll(TUBES.len() as u64) as usize;
            worker.at(Deed::Attach, TUBES[tube].arena);
            // Nothing is sent: others would wait for it.
            drop(TUBES[tube].open()?.sender()?);
            Ok(())
        }
        1 => {
            worker.at(Deed::Churn, 0);
            Arena::open(super::churners::PASSING[0])?;
            Ok(())
        }
        2 => {
            worker.at(Deed::Birth, 0);
            drop(places::open()?);
            Ok(())
        }
        _ => forkers::anything(worker, places),
    }
}

/// How many descriptors it has, if they are numbered without gaps.
fn open_files() -> Result<u64, Broken> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count() as u64)
}

fn fumble(worker: &mut Worker, places: &[Place]) -> Result<(), Broken> {
    for _ in 0..TURNS / 20 {
        let few = open_files()? + worker.roll(4);
        limit(libc::RLIMIT_NOFILE, few)?;
        for _ in 0..20 {
            if worker.board().is_over() {
                return Ok(());
            }
            attempt(worker, places);
            worker.turn();
        }
        limit(libc::RLIMIT_NOFILE, u64::MAX)?;
        // With enough of them nothing is missing.
        forkers::anything(worker, places)?;
        worker.at(Deed::Birth, 0);
        places::open()?;
    }
    Ok(())
}

/// All turns of one in the small file system.
///
/// # Errors
/// What should not have failed.
pub fn crowd(worker: &mut Worker, small: &Path) -> Result<(), Broken> {
    // SAFETY: this process has one thread so far.
    unsafe { std::env::set_var("CHAPPE_DIR", small) };
    worker.at(Deed::Churn, 0);
    for _ in 0..TURNS {
        if worker.board().is_over() {
            return Ok(());
        }
        let name = format!("s{}", worker.roll(ARENAS));
        match worker.roll(8) {
            0..4 => make(worker, &name),
            4 => remove(worker, &name),
            5 => fill(worker, small, &name)?,
            _ => visit(worker, &name),
        }
        worker.turn();
    }
    Ok(())
}

fn make(worker: &mut Worker, name: &str) {
    match Arena::create(name, &SMALL) {
        Ok(_) => worker.board().count(Count::Made, 1),
        Err(ArenaError::NoSpace { .. }) => worker.board().count(Count::Full, 1),
        Err(ArenaError::Exists { .. }) => {}
        Err(e) => worker.chaos.found(Found::Unclear, &format!("making {name} in little room: {e}")),
    }
}

fn remove(worker: &mut Worker, name: &str) {
    match Arena::remove(name, worker.place.is_multiple_of(2)) {
        Ok(()) => worker.board().count(Count::Removed, 1),
        Err(ArenaError::NotFound { .. } | ArenaError::InUse { .. }) => {}
        Err(e) => worker.chaos.found(Found::Unclear, &format!("removing {name} in little room: {e}")),
    }
}

/// Takes every page that is left, and tries again; then gives them back.
fn fill(worker: &mut Worker, small: &Path, name: &str) -> Result<(), Broken> {
    let path = small.join(FILLER);
    {
        let mut file = File::options().create(true).append(true).open(&path)?;
        // Until there is no room for a page.
        while file.write_all(&[1; 4096]).is_ok() {}
        make(worker, name);
        visit(worker, name);
        worker.dawdle();
    }
    match std::fs::remove_file(path) {
        // Another one had the same idea, and has removed it.
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}

/// An arena that is there works, however little room there is besides.
fn visit(worker: &mut Worker, name: &str) {
    let pool = format!("{name}/p");
    let arena = match Arena::open(name) {
        Ok(arena) => arena,
        Err(ArenaError::NotFound { .. }) => return,
        Err(e) => return worker.chaos.found(Found::Unclear, &format!("opening {name} in little room: {e}")),
    };
    let made = match Pool::create_in(arena, "p", 2) {
        Err(PoolError::Exists { .. }) => Pool::in_arena(arena, "p"),
        other => other,
    };
    let used = made.map_err(|e| (removed(&e), e.to_string())).and_then(|pool| {
        let got = pool.acquire_timeout(std::time::Duration::from_secs(20)).map(drop);
        got.map_err(|e| (matches!(e, chappe::AcquireError::Dead { .. }), e.to_string()))
    });
    if let Err((false, e)) = used {
        worker.chaos.found(Found::Unclear, &format!("using {pool} in little room: {e}"));
    }
}

/// Whether it is said that the arena was removed meanwhile.
fn removed(e: &PoolError) -> bool {
    matches!(e, PoolError::Dead { .. } | PoolError::Unknown { .. } | PoolError::Arena(ArenaError::Removed { .. }))
}

/// Removes all that is in the small file system: the caller's `CHAPPE_DIR`.
///
/// # Errors
/// What cannot be removed.
pub fn clear(small: &Path) -> Result<(), Broken> {
    for name in Arena::list()? {
        // Each of them is whole, or its remover was killed between the mark and the name: then there is none, and the name can be removed.
        match Arena::open(&name) {
            Ok(_) | Err(ArenaError::NotFound { .. }) => Arena::remove(&name, true)?,
            Err(e) => return Err(e.into()),
        }
    }
    match std::fs::remove_file(small.join(FILLER)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
        _ => Ok(()),
    }
}
