//! Leases: a permit that stays taken while a job runs, whatever happens to its holder.
//!
//! A permit returns when its holder dies. If what it protects is used by a *job* that the holder
//! started, that is too early when the holder is killed and the job continues. So the job inherits
//! an open file with a lock on one byte, which only the job and its descendants can release, and a
//! mark in its environment, in case it closes the file. (Terms: `book/src/glossary.md`.)
//!
//! ```text
//!   HELD m -- lease --> LEASED m -- m gives back: job gone --> FREE
//!                          |                      job goes on --> LEASED nobody (orphan)
//!                          +------- m dies ---------------------> LEASED nobody --- job gone --> FREE
//! ```
//!
//! - I1: the order is: the record of the holder's namespaces (I4), the cell says LEASED, the lock
//!   on the byte, the job. If the lock came before the cell, recovery could free the cell of a dead
//!   holder whose job may start.
//! - I2: the byte and the mark belong to the cell and to one use of it: they have its number and
//!   version. If a permit is taken by force, its version rises: the job that goes on keeps the old
//!   byte, and never blocks the next use.
//! - I3: a process frees an orphan after it has seen that no process has the lock and none bears
//!   the mark. The reapers of the waiters do so (a thread waits for the lock, and then for the
//!   marked processes to end), or a non-blocking acquire in passing. The swap is of the exact word.
//! - I4: a process that cannot be seen is not gone. The lock is the kernel's, and visible everywhere. A mark is visible only to a process that
//!   sees the job's PID namespace and may read the environment of its processes. So the holder records its namespaces before the cell
//!   says LEASED (see `origin`), and only a look that would have shown the job frees its permit. Any other process leaves it taken.
//!
//! The file lies beside its arena, and nowhere else: all processes that share the arena share the file. Whatever removes the arena
//! (systemd's RemoveIPC) removes the file too. If only the file is removed, the mark remains. A process that closes the file *and*
//! was started with a cleaned environment is not seen.

pub(crate) mod leftover;
pub(crate) mod locks;
mod origin;

use crate::drain::{CellRef, cell_of};
use crate::error::LeaseError;
use chappe_arena::layout::{Head, Kind};
use chappe_arena::{ArenaError, Map, Place, Who, io_at};
use chappe_plat::atomic::Ordering;
use chappe_plat::dir::Dir;
use chappe_plat::marks::{self, Bearers, Blind, Marked};
use chappe_plat::{clock, lease as lock, light, process, quiet, thread};
use chappe_wait::cell::{Tag, Word};
use chappe_wait::kinds::drain;
use chappe_wait::label::label;
use chappe_wait::operation::Taken;
use origin::{Leaser, TABLE, VERSION_BITS};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// How long to wait for processes that are just ending before they count as a running job.
const PATIENT_NS: u64 = 100_000_000;

/// The sleep between two looks for a job that cannot be seen from here.
const BLIND: Duration = Duration::from_secs(5);

/// The prefix of lease files' names; the arena's name and id follow.
const PREFIX: &str = ".lease-";

/// The environment variable that marks a job.
pub const VARIABLE: &str = "CHAPPE_LEASE";

/// A lease on a permit. The job must inherit [`Lease::as_fd`], and the mark [`Lease::cookie`] in its environment
/// as `CHAPPE_LEASE`; the holder may then drop the lease at any time.
///
/// The permit becomes free only when it was given back (or its holder died) *and* every process that has the file
/// open, this one included, or bears the mark, has ended.
#[derive(Debug)]
pub struct Lease {
    file: OwnedFd,
    cookie: String,
}

impl Lease {
    /// The open file that the job must inherit. It is closed on exec unless its flag is cleared after the fork.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
    /// The value that `CHAPPE_LEASE` must have in the job's environment. It includes the marks of jobs that this
    /// process itself is part of.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }
}

fn place_of(map: &Map) -> Result<(Dir, String), ArenaError> {
    let home = map.directory().map_or_else(PathBuf::new, PathBuf::from);
    let failed = |source| ArenaError::Io { what: format!("cannot open directory {}", home.display()), source };
    Ok((Dir::open(&home).map_err(failed)?, format!("{PREFIX}{}-{:x}", map.name(), map.id())))
}

fn open(map: &Map) -> Result<(OwnedFd, String), LeaseError> {
    let (dir, name) = place_of(map)?;
    let path = dir.path().join(&name);
    let file = dir.open_or_make(&name).map_err(|e| io_at("open", &path, e))?;
    Ok((file, path.display().to_string()))
}

/// Removes the lease file of an arena that is gone. Jobs that have it open keep it.
pub(crate) fn forget(map: &Map) {
    if let Ok((dir, name)) = place_of(map) {
        // It may not exist.
        let _ = dir.unlink(&name);
    }
}

/// I2: every cell, and every use of it, has a byte of its own.
fn byte(map: &Map, object: u32, position: u32, word: Word) -> u64 {
    let mut left = position;
    let mut cell = u64::from(object);
    if position > 0 {
        left -= 1;
        for (first, len) in map.extents(object) {
            if left < len {
                cell = TABLE + u64::from(first + left);
                break;
            }
            left -= len;
        }
    }
    cell << VERSION_BITS | word.version()
}

fn mark(map: &Map, byte: u64) -> String {
    format!("{:x}:{byte:x}", map.id())
}

/// The permits of a pool under which this process runs, by the marks in its environment.
pub(crate) fn around(map: &Map, place: Place) -> Vec<u32> {
    let marks = std::env::var(VARIABLE).unwrap_or_default();
    if marks.is_empty() || map.directory().is_none() {
        return Vec::new();
    }
    let all = (0..).map_while(|position| cell_of(map, place, position).map(|cell| (position, cell.load())));
    let leased = all.filter(|(_, word)| word.tag() == Tag::Leased || word.is_orphan());
    let is_named = |position, word| {
        let own = mark(map, byte(map, place.index, position, word));
        marks.split(',').any(|one| one == own)
    };
    leased.filter(|(position, word)| is_named(*position, *word)).map(|(position, _)| position).collect()
}

/// Turns held permits of one pool into a lease: one file, one mark. Their words change to the cells' new ones.
pub(crate) fn begin<'t>(
    map: &Map,
    place: Place,
    permits: impl Iterator<Item = &'t mut Taken>,
) -> Result<Lease, LeaseError> {
    if map.directory().is_none() {
        return Err(LeaseError::Private);
    }
    let (file, path) = open(map)?;
    let mut marks = match std::env::var(VARIABLE) {
        Ok(outer) if !outer.is_empty() => vec![outer],
        _ => Vec::new(),
    };
    let leaser = Leaser::here(&label());
    for taken in permits {
        let byte = byte(map, place.index, taken.position, taken.word);
        // I4: while the caller still holds the cell.
        leaser.write(&file, map, byte).map_err(|source| LeaseError::Record { path: path.clone(), source })?;
        taken.word = lease_one(map, place, *taken, &file, &path, byte)?;
        marks.push(mark(map, byte));
    }
    Ok(Lease { file, cookie: marks.join(",") })
}

/// Turns one permit into a lease. Returns the cell's new word.
fn lease_one(map: &Map, place: Place, taken: Taken, file: &OwnedFd, path: &str, byte: u64) -> Result<Word, LeaseError> {
    let held = taken.word;
    let cell = cell_of(map, place, taken.position).ok_or(LeaseError::Lost)?;
    let leased = if held.tag() == Tag::Leased { held } else { held.leased() };
    // I1.
    if held != leased && !cell.swap(held, leased) {
        return Err(LeaseError::Lost);
    }
    cell.note(leased, true);
    let refused = match lock::try_lock(file, byte) {
        Ok(true) => return Ok(leased),
        Ok(false) => LeaseError::Leased,
        Err(source) => LeaseError::Lock { path: path.to_owned(), source },
    };
    if held != leased {
        cell.swap(leased, held);
    }
    Err(refused)
}

/// Whether a process has the lock or bears the mark. What cannot be checked counts as running. Processes that are just
/// ending get [`PATIENT_NS`] to finish; after that they count too.
fn runs(map: &Map, byte: u64) -> bool {
    gone(map, &[byte]).is_empty()
}

/// Whether all that this process starts descends from it as long as it lives: see [`keeps_descendants`].
static KEEPS_DESCENDANTS: OnceLock<()> = OnceLock::new();

/// Declares that this process has been the subreaper of its descendants since before it started the first one. Then it has none when it has no
/// child, and no process bears a mark that it has handed on: the end of its leases need not look at all processes of the machine.
#[doc(hidden)]
pub fn keeps_descendants() {
    // It may have been said before.
    let _ = KEEPS_DESCENDANTS.set(());
}

/// As [`runs`], for a lease that this process has begun.
fn runs_still(map: &Map, byte: u64) -> bool {
    if KEEPS_DESCENDANTS.get().is_some() && process::is_childless() {
        return !open(map).is_ok_and(|(file, _)| lock::is_locked(&file, byte).is_ok_and(|locked| !locked));
    }
    runs(map, byte)
}

/// The bytes, of these, that no process has locked and whose mark none bears: as [`runs`], with one look at /proc for all.
fn gone(map: &Map, bytes: &[u64]) -> Vec<u64> {
    let Ok((file, _)) = open(map) else { return Vec::new() };
    let until = clock::now() + PATIENT_NS;
    loop {
        // The locks first: each is one system call, while looking for marks reads all of /proc; and a process that gave up a lock may
        // have passed the mark on to another.
        let free = |byte: &u64| !lock::is_locked(&file, *byte).unwrap_or(true);
        let mut left: Vec<u64> = bytes.iter().copied().filter(free).collect();
        if left.is_empty() {
            return left;
        }
        let marked = Marked::look(VARIABLE);
        left.retain(|byte| marked.bearers(&mark(map, *byte)).bear.is_empty());
        // I4.
        left.retain(|byte| seen_by(&marked, Leaser::read(&file, map, *byte).as_ref()).is_ok());
        if left.is_empty() || marked.is_settled() {
            return left;
        }
        if clock::now() >= until {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// I4: whether a look would have shown the job of this lease.
fn seen_by(marked: &Marked, leaser: Option<&Leaser>) -> Result<(), Blind> {
    marked.can_tell(leaser.map(|leaser| &leaser.origin))
}

/// Gives a leased permit back: free if its job is gone, else an orphan. False: it was taken away earlier.
pub(crate) fn end(map: &'static Map, place: Place, position: u32, leased: Word) -> bool {
    let orphan = runs_still(map, byte(map, place.index, position, leased));
    end_as(map, place, position, leased, orphan)
}

/// As [`end`], for permits that became leases together: they share one file and one mark, so what keeps one keeps all. To
/// look for each by itself would read all of /proc each time. Permits that are no leases are left alone.
pub(crate) fn end_all(map: &'static Map, place: Place, all: impl Iterator<Item = Taken>) {
    let mut orphan = None;
    for Taken { position, word } in all.filter(|taken| taken.word.tag() == Tag::Leased) {
        let orphan = *orphan.get_or_insert_with(|| runs_still(map, byte(map, place.index, position, word)));
        end_as(map, place, position, word, orphan);
    }
}

/// As [`end`], for leases of one pool that may each have a job of its own: one look at /proc for all.
pub(crate) fn end_each(map: &'static Map, place: Place, all: &[Taken]) {
    let bytes: Vec<u64> = all.iter().map(|taken| byte(map, place.index, taken.position, taken.word)).collect();
    let gone: HashSet<u64> = gone(map, &bytes).into_iter().collect();
    for (taken, byte) in all.iter().zip(&bytes) {
        end_as(map, place, taken.position, taken.word, !gone.contains(byte));
    }
}

fn end_as(map: &'static Map, place: Place, position: u32, leased: Word, orphan: bool) -> bool {
    let object = place.index;
    let Some(cell) = cell_of(map, place, position) else { return false };
    let next = if orphan { leased.orphaned() } else { leased.freed() };
    if !cell.swap(leased, next) {
        return false;
    }
    if orphan {
        map.call_reapers();
    } else if map.anybody_waits(object) {
        drain(map, object);
    }
    true
}

/// Frees an orphan whose job is gone. Returns whether it did.
fn settle(map: &Map, place: Place, position: u32, seen: Word) -> bool {
    let object = place.index;
    let gone = seen.is_orphan() && !runs(map, byte(map, object, position, seen));
    let freed = gone && cell_of(map, place, position).is_some_and(|cell| cell.swap(seen, seen.freed()));
    if freed && map.anybody_waits(object) {
        drain(map, object);
    }
    freed
}

/// The orphans of a pool. The caller must name a pool: other objects use the same fields for other things.
fn orphans(map: &Map, place: Place) -> impl Iterator<Item = (u32, CellRef<'_>, Word)> {
    let there =
        (0..).map_while(move |position| cell_of(map, place, position).map(|cell| (position, cell, cell.load())));
    there.filter(|(_, _, seen)| seen.is_orphan())
}

/// Frees those of a pool's orphans whose jobs are gone. Returns how many.
pub(crate) fn settle_all(map: &Map, place: Place) -> usize {
    let object = place.index;
    let byte_of = |position, seen| byte(map, object, position, seen);
    let all: Vec<_> = orphans(map, place).map(|(position, cell, seen)| (byte_of(position, seen), cell, seen)).collect();
    let bytes: Vec<u64> = all.iter().map(|(byte, ..)| *byte).collect();
    let gone: HashSet<u64> = gone(map, &bytes).into_iter().collect();
    let freed =
        all.into_iter().filter(|(byte, cell, seen)| gone.contains(byte) && cell.swap(*seen, seen.freed())).count();
    if freed > 0 && map.anybody_waits(object) {
        drain(map, object);
    }
    freed
}

/// The process that a job is known by.
fn known_by(all: &Bearers) -> Option<Who> {
    let pid = all.eldest()?;
    Some(Who::job(pid, process::start_time(pid).unwrap_or(0), process::name(pid).unwrap_or_default()))
}

/// The jobs that keep orphans, as far as /proc shows them. Looks there once, at the first question.
#[derive(Default)]
pub(crate) struct Jobs(OnceCell<Marked>);

impl Jobs {
    /// The job of this orphan: a visible process of it. Otherwise the holder that leased it, and why it cannot be told here whether the job runs.
    pub fn of(&self, map: &Map, object: u32, position: u32, word: Word) -> (Option<Who>, Option<Unseen>) {
        let marked = self.0.get_or_init(|| Marked::look(VARIABLE));
        let byte = byte(map, object, position, word);
        if let Some(who) = known_by(&marked.bearers(&mark(map, byte))) {
            return (Some(who), None);
        }
        let leaser = open(map).ok().and_then(|(file, _)| Leaser::read(&file, map, byte));
        let why = seen_by(marked, leaser.as_ref()).err();
        (None, why.map(|why| Unseen::of(leaser, &why)))
    }
}

/// A job that cannot be seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unseen {
    /// The process that started the job: its pid in its own PID namespace; 0 if unknown.
    pub pid: u32,
    /// That namespace's inode; 0 if unknown.
    pub namespace: u64,
    /// Its user, in its own user namespace.
    pub uid: Option<u32>,
    /// Its label.
    pub label: String,
    /// Why it cannot be told here whether the job runs.
    pub why: String,
}

impl Unseen {
    fn of(leaser: Option<Leaser>, why: &Blind) -> Unseen {
        let why = why.to_string();
        match leaser {
            Some(Leaser { origin, pid, label }) => {
                Unseen { pid, namespace: origin.pid_namespace, uid: Some(origin.uid), label, why }
            }
            None => Unseen { pid: 0, namespace: 0, uid: None, label: String::new(), why },
        }
    }
}

/// Orphans for which a thread of this process waits: the process (a forked child has no such thread), the arena, the byte.
pub(crate) static WATCHED: Mutex<Vec<(u64, u64, u64)>> = Mutex::new(Vec::new());

/// The arena's hook: starts a thread for every orphan that has none in this process, to wait for its job's end.
pub(crate) fn look_after(map: &'static Map) {
    if map.directory().is_none() {
        return;
    }
    for object in 0..map.objects_used() {
        // Acquire: the object as its maker left it.
        let head = Head(map.object(object).head.load(Ordering::Acquire));
        if !head.is_live(Kind::Pool) {
            continue;
        }
        let place = Place { index: object, head };
        for (position, _, seen) in orphans(map, place) {
            let key = (process::incarnation(), map.id(), byte(map, object, position, seen));
            let mut watched = light::lock(&WATCHED);
            if watched.contains(&key) {
                continue;
            }
            let started = thread::background("chappe-lease", move || {
                let _serves = quiet::serves_others();
                outlive(map, place, position, seen);
                light::lock(&WATCHED).retain(|k| *k != key);
            });
            // If refused, the reaper tries again in its next round.
            if started.is_ok() {
                watched.push(key);
            }
        }
    }
}

/// Sleeps until the job of an orphan is gone, then frees it.
fn outlive(map: &'static Map, place: Place, position: u32, seen: Word) {
    let byte = byte(map, place.index, position, seen);
    let Ok((file, _)) = open(map) else {
        std::thread::sleep(Duration::from_secs(1));
        return;
    };
    while cell_of(map, place, position).is_some_and(|cell| cell.load() == seen) {
        if lock::wait_unlocked(&file, byte, 1).is_err() {
            std::thread::sleep(Duration::from_secs(1));
            return;
        }
        let all = marks::bearers(VARIABLE, &mark(map, byte));
        let marked = [all.bear, all.ending].concat();
        if marked.is_empty() && settle(map, place, position, seen) {
            return;
        }
        let fds: Vec<OwnedFd> = marked.iter().filter_map(|pid| process::watch_exit(*pid).ok()).collect();
        match fds.first() {
            Some(first) => {
                process::poll_readable(&[first], -1);
            }
            // I4: it cannot be told here. A process that can tell frees the permit, and hands it on.
            None if marked.is_empty() && runs(map, byte) => std::thread::sleep(BLIND),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
