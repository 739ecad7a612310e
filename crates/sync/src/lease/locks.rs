//! Leases on readers-writer locks: a lock stays taken while a job runs that a holder started, whatever happens to the holder.
//!
//! The lock itself goes to the next in line when its holder gives it back or dies. A locker that heeds jobs is *inside* by then, and waits there until
//! the jobs of earlier holders have ended: a writer for all of them, a reader for the writer's. So jobs follow each other in the order of the
//! lock, and no word of the arena says that there is a job.
//!
//! The file of leases has a byte for each job, [`SLOTS`] for a lock in one use of its slot: the first for the writer's job, the others for
//! readers' jobs. The byte and the mark in the environment are those of a permit's lease (see [`super`]), and so is the record.
//!
//! - J1: a job's byte is locked and its record written before the job starts, by a holder that is inside and has found no job in its way.
//! - J2: a record stands until it was seen that no process has the byte and none bears the mark, by a look that would have shown the job (I4 of the
//!   leases). It is cleared by a process that has the byte.
//! - J3: the holder locks its byte before it leaves the lock, and the next one looks after it has entered. So it finds the job.
//!
//! A death at each step: byte locked, no record yet, or no job yet: the byte goes with the process; the next look clears the record. If the file is
//! removed, running jobs keep nothing any more.

use super::origin::{self, LEN, LOCKS, Leaser, SLOTS};
use super::{BLIND, Lease, PATIENT_NS, Unseen, VARIABLE, known_by, mark, open, place_of, runs_still};
use crate::error::LeaseError;
use chappe_arena::{LifeState, Map, Place, Who};
use chappe_plat::marks::{Bearers, Blind, Marked};
use chappe_plat::{clock, lease as lock, process, quiet, thread};
use chappe_wait::label::label;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The bytes of a lock's jobs.
fn bytes(lock: Place) -> Range<u64> {
    let first = LOCKS | u64::from(lock.index) << 37 | u64::from(lock.head.generation() & 0x1ff_ffff) << 12;
    first..first + SLOTS
}

/// The bytes of the jobs that keep a writer, or a reader, out.
fn in_the_way(lock: Place, writes: bool) -> Range<u64> {
    let all = bytes(lock);
    if writes { all } else { all.start..all.start + 1 }
}

/// A job that keeps a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockJob {
    byte: u64,
    /// Whether it is a writer's.
    pub writes: bool,
    /// A process of it, if one can be seen.
    pub who: Option<Who>,
    /// Otherwise the holder that started it, and why it is not known whether it runs.
    pub unseen: Option<Unseen>,
    leaser: Process,
    locked: bool,
    marked: Vec<u32>,
}

/// A process's number, and the PID namespace of that number.
type Process = (u32, u64);

/// The records of these jobs. One read, and none for a lock that never had one: the file has a hole there, or ends.
fn records(file: &OwnedFd, map: &Map, bytes: &Range<u64>) -> io::Result<Vec<(u64, Leaser)>> {
    let (place, len) = (origin::place(map, bytes.start), (bytes.end - bytes.start) as usize * LEN);
    if !lock::is_written(file, place, len as u64) {
        return Ok(Vec::new());
    }
    let mut all = vec![0; len];
    let got = lock::read_at(file, &mut all, place)?;
    let each = all[..got].as_chunks::<LEN>().0.iter().zip(bytes.clone());
    Ok(each.filter_map(|(record, byte)| Some((byte, Leaser::of(record, byte)?))).collect())
}

/// The jobs of these bytes. Clears the records of those that have ended (J2).
fn jobs(map: &Map, bytes: &Range<u64>) -> Result<Vec<LockJob>, LeaseError> {
    let (file, path) = open(map)?;
    let until = clock::now() + PATIENT_NS;
    loop {
        let left = records(&file, map, bytes).map_err(|source| LeaseError::Lock { path: path.clone(), source })?;
        if left.is_empty() {
            return Ok(Vec::new());
        }
        // The locks first, as for permits.
        let locked: Vec<bool> = left.iter().map(|(byte, _)| lock::is_locked(&file, *byte).unwrap_or(true)).collect();
        let marked = Marked::look(VARIABLE);
        let late = clock::now() >= until;
        let (mut all, mut again) = (Vec::new(), false);
        for ((byte, leaser), locked) in left.into_iter().zip(locked) {
            let bearers = marked.bearers(&mark(map, byte));
            let blind = marked.can_tell(Some(&leaser.origin)).err();
            match Seen::of(locked, !bearers.bear.is_empty(), blind.is_some(), marked.is_settled()) {
                Seen::Ended => clear(map, byte),
                Seen::JustEnding if !late => again = true,
                Seen::JustEnding | Seen::Runs => {
                    all.push(LockJob::of(byte, byte == bytes.start, leaser, locked, &bearers, blind));
                }
            }
        }
        if !again {
            return Ok(all);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What one look says of a job.
#[derive(Debug, PartialEq)]
enum Seen {
    Runs,
    Ended,
    /// The job ended between the two looks, or its last process gives its memory up before its files: the next look knows.
    JustEnding,
}

impl Seen {
    fn of(locked: bool, borne: bool, blind: bool, settled: bool) -> Seen {
        match (locked, borne || blind, settled) {
            (_, true, _) => Seen::Runs,
            (false, false, true) => Seen::Ended,
            (true, false, _) | (false, false, false) => Seen::JustEnding,
        }
    }
}

impl LockJob {
    fn of(byte: u64, writes: bool, leaser: Leaser, locked: bool, marked: &Bearers, blind: Option<Blind>) -> LockJob {
        let who = known_by(marked);
        let by = leaser.process();
        let why = || blind.map_or_else(|| "it has cleared its environment".into(), |blind| blind.to_string());
        let unseen = who.is_none().then(|| {
            let Leaser { origin, pid, label } = leaser;
            Unseen { pid, namespace: origin.pid_namespace, uid: Some(origin.uid), label, why: why() }
        });
        LockJob { byte, writes, who, unseen, leaser: by, locked, marked: marked.bear.clone() }
    }
}

/// J2: clears the record of a job that has ended.
fn clear(map: &Map, byte: u64) {
    let Ok((file, _)) = open(map) else { return };
    if lock::try_lock(&file, byte).unwrap_or(false) {
        // If it cannot be written, the next look finds the record again.
        let _ = lock::write_at(&file, &[0; LEN], origin::place(map, byte));
    }
}

/// The jobs that keep a lock.
pub(crate) fn all(map: &Map, lock: Place) -> Result<Vec<LockJob>, LeaseError> {
    if map.directory().is_none() {
        return Ok(Vec::new());
    }
    jobs(map, &bytes(lock))
}

/// The jobs whose holders are gone: none of those inside has begun them. Cheap where there is none: no look at processes.
pub(crate) fn left(map: &Map, lock: Place, inside: &[&Who]) -> Vec<LockJob> {
    let is_gone =
        |by: Process| !inside.iter().any(|who| who.life == LifeState::Alive && (who.pid, who.namespace) == by);
    let all = bytes(lock);
    // No file, or none that may be read: nothing is known of jobs.
    let any = leases(map).and_then(|file| records(&file, map, &all).ok()).unwrap_or_default();
    if !any.iter().any(|(_, leaser)| is_gone(leaser.process())) {
        return Vec::new();
    }
    let mut left = jobs(map, &all).unwrap_or_default();
    left.retain(|job| is_gone(job.leaser));
    left
}

/// The file of leases, if there is one.
fn leases(map: &Map) -> Option<OwnedFd> {
    map.directory()?;
    let (dir, name) = place_of(map).ok()?;
    Some(dir.open_file(&name).ok()?.into())
}

/// What the thread is called that waits for the end of jobs.
const WAITS: &str = "chappe-lease";

/// For how long a locker inside has waited for jobs to end: as long as it has had a thread for that. `None`: it heeds no jobs, and has the lock. Of one
/// that cannot be seen (it is of another PID namespace, or hidden) that is not known: it is taken for one that has just begun to wait.
pub(crate) fn heeds(who: &Who) -> Option<Duration> {
    if who.elsewhere().is_some() {
        return Some(Duration::ZERO);
    }
    match process::thread_named(who.pid, WAITS) {
        Ok(thread) => process::start(thread?).map(|began| Duration::from_nanos(clock::boot()).saturating_sub(began)),
        Err(_) => Some(Duration::ZERO),
    }
}

/// The jobs that keep a writer, or a reader, out.
pub(crate) fn others(map: &Map, lock: Place, writes: bool) -> Result<Vec<LockJob>, LeaseError> {
    jobs(map, &in_the_way(lock, writes))
}

/// Waits until no job keeps a writer, or a reader, out. False: the time was up.
pub(crate) fn outlive(
    map: &'static Map,
    lock: Place,
    writes: bool,
    until: Option<Instant>,
) -> Result<bool, LeaseError> {
    let (tell, told) = channel();
    let wait = move || {
        let _serves = quiet::serves_others();
        // The receiver may be gone by now.
        let _ = tell.send(outlive_all(map, &in_the_way(lock, writes)));
    };
    // A thread of its own: to wait for a byte has no limit of time.
    thread::background(WAITS, wait)
        .map_err(|source| LeaseError::Lock { path: "a thread that waits for it".into(), source })?;
    let ended = match until {
        None => told.recv().ok(),
        Some(until) => told.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
    };
    ended.map_or(Ok(false), |all| all.map(|()| true))
}

fn outlive_all(map: &Map, bytes: &Range<u64>) -> Result<(), LeaseError> {
    loop {
        let all = jobs(map, bytes)?;
        let Some(job) = all.first() else { return Ok(()) };
        if job.locked {
            let (file, path) = open(map)?;
            lock::wait_unlocked(&file, job.byte, 1).map_err(|source| LeaseError::Lock { path, source })?;
            continue;
        }
        let fds: Vec<OwnedFd> = job.marked.iter().filter_map(|pid| process::watch_exit(*pid).ok()).collect();
        match fds.first() {
            Some(first) => {
                process::poll_readable(&[first], -1);
            }
            None if job.unseen.is_some() => std::thread::sleep(BLIND),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Whether this process is part of a job that keeps the lock.
pub(crate) fn around(map: &Map, lock: Place) -> bool {
    let marks = std::env::var(VARIABLE).unwrap_or_default();
    // Few marks, many bytes.
    let byte = |one: &str| u64::from_str_radix(one.strip_prefix(&format!("{:x}:", map.id()))?, 16).ok();
    marks.split(',').filter_map(byte).any(|byte| bytes(lock).contains(&byte))
}

/// A lease on a lock, for a holder that has it. Dropped: it has given its copy of the file up, and forgets the job if that has ended.
pub struct LockLease {
    lease: Option<Lease>,
    map: &'static Map,
    byte: u64,
}

impl LockLease {
    /// What the job must inherit.
    pub fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("until it is dropped")
    }
}

impl Drop for LockLease {
    fn drop(&mut self) {
        self.lease = None;
        if !runs_still(self.map, self.byte) {
            clear(self.map, self.byte);
        }
    }
}

/// J1: a lease for the calling holder. `None`: a job is in its way again, or just looked at.
pub(crate) fn begin(map: &'static Map, lock: Place, writes: bool) -> Result<Option<LockLease>, LeaseError> {
    if map.directory().is_none() {
        return Err(LeaseError::Private);
    }
    let (file, path) = open(map)?;
    let refused = |source| LeaseError::Lock { path: path.clone(), source };
    let all = bytes(lock);
    let slots = if writes { all.start..all.start + 1 } else { all.start + 1..all.end };
    let taken = records(&file, map, &all).map_err(refused)?;
    for byte in slots {
        if taken.iter().any(|(other, _)| *other == byte) || !lock::try_lock(&file, byte).map_err(refused)? {
            continue;
        }
        // It may have been taken, and its holder killed, since the look.
        if Leaser::read(&file, map, byte).is_some() {
            lock::unlock(&file, byte);
            continue;
        }
        let written = Leaser::here(&label()).write(&file, map, byte);
        written.map_err(|source| LeaseError::Record { path: path.clone(), source })?;
        let outer = std::env::var(VARIABLE).ok().filter(|outer| !outer.is_empty());
        let cookie = [outer, Some(mark(map, byte))].into_iter().flatten().collect::<Vec<_>>().join(",");
        return Ok(Some(LockLease { lease: Some(Lease { file, cookie }), map, byte }));
    }
    // If there are so many, those that have ended are cleared.
    jobs(map, &all).map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_arena::layout::{Head, Kind};

    /// A job whose byte is locked while no process bears its mark has cleared its environment, or ended between the two looks.
    #[test]
    fn a_job_that_nobody_bears_is_looked_at_again() {
        assert_eq!(Seen::of(true, false, false, true), Seen::JustEnding);
        assert_eq!(Seen::of(false, false, false, false), Seen::JustEnding);
        assert_eq!(Seen::of(false, false, false, true), Seen::Ended);
        for (locked, settled) in [(false, false), (false, true), (true, false), (true, true)] {
            assert_eq!(Seen::of(locked, true, false, settled), Seen::Runs);
            assert_eq!(Seen::of(locked, false, true, settled), Seen::Runs);
        }
    }

    #[test]
    fn bytes_and_records_are_of_one_lock_in_one_use() {
        let lock = |index, generation| Place { index, head: Head::live(generation, Kind::RwLock) };
        let (one, next, other) = (bytes(lock(7, 1)), bytes(lock(7, 2)), bytes(lock(8, 1)));
        assert!(one.end <= next.start && next.end < other.start && other.end < i64::MAX as u64);
        assert_eq!((origin::record(one.start), origin::record(next.start + 3)), (Some(7 << 12), Some(7 << 12 | 3)));
        assert_eq!(origin::record(origin::TABLE << origin::VERSION_BITS), None);
        assert_eq!(in_the_way(lock(7, 1), false), one.start..one.start + 1);
    }
}
