//! What must hold between two rounds, when no process is in the chaos run: a survivor looks, as in the scenarios.
//!
//! Every permit can be had, each once. Each semaphore has as many units as it may have, given what the deaths interrupted. Stores can be
//! locked, and are whole. Of the messages none is missing but those that may, and every slot of every tube can be filled. No process is a
//! member any more, nothing waits, and nothing is in the directory that should not be. At the very end every slot of every arena is used
//! once.

use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use chappe::tube::named::{NotReceived, NotSent, Tube};
use chappe::{Arena, ArenaError, Condvar, LockError, Mutex, MutexGuard, ObjectState, Pool, Semaphore};

use super::board::Found;
use super::churners::PASSING;
use super::ledger::{TOGETHER, number};
use super::places::{self, ARENAS, Channel, EMPTY, GROUPS, Message, POOLS, SEMAPHORES, TUBES, UNITS};
use super::starved;
use super::store_users;
use super::worker::Chaos;
use crate::board::{Fault, Stage, Verdict};
use crate::scenario::{Scene, World};

fn torn(what: &str, e: impl std::fmt::Display) -> (Fault, String) {
    (Fault::Torn, format!("{what}: {e}"))
}

/// All of it; `last`: every slot too, after which nothing is there any more.
///
/// # Errors
/// The first finding; those of units and messages are counted beside it.
pub fn audit(chaos: &Chaos, stage: &Stage, last: bool) -> Verdict {
    chappe::doctor().map_err(|e| torn("seeing to the dead", e))?;
    let world = World::new(stage, Scene::Alone);
    for name in PASSING {
        match Arena::remove(name, true) {
            Ok(()) | Err(ArenaError::NotFound { .. }) => {}
            Err(e) => return Err(torn(&format!("removing arena {name}"), e)),
        }
    }
    let (mut dropped, mut messages) = ([0; GROUPS], Ok(()));
    for (arena, name) in ARENAS.into_iter().enumerate() {
        sweep_out(stage, name, &places::names(arena))?;
        for (pool, permits) in POOLS {
            world.audit(&places::full(arena, pool), permits)?;
        }
        units(chaos, stage, arena)?;
        store(arena)?;
        for (which, tube) in TUBES.iter().enumerate().filter(|(_, tube)| tube.arena == arena) {
            messages = messages.and(empty(chaos, stage, which, tube).map(|count| dropped[tube.group] += count));
        }
    }
    messages?;
    for (now, before) in dropped.iter_mut().zip(&chaos.board.dropped) {
        *now -= before.swap(*now, SeqCst);
    }
    for (what, text) in chaos.board.check_messages(dropped) {
        chaos.found(what, &text);
    }
    world.files(&ARENAS)?;
    if last {
        for (arena, name) in ARENAS.into_iter().enumerate() {
            world.full_house(name, &places::names(arena))?;
        }
    }
    chaos.board.backstops.fetch_add(chappe::recoveries().backstops, SeqCst);
    Ok(())
}

/// Removes what came and went; then the arena has what stays, and only this process is there.
fn sweep_out(stage: &Stage, arena: &str, names: &[&str]) -> Verdict {
    let handle = Arena::open(arena).map_err(|e| torn(&format!("opening {arena}"), e))?;
    for object in handle.objects().iter().filter(|object| !names.contains(&object.name.as_str())) {
        let name = format!("{arena}/{}", object.name);
        let gone = match &object.state {
            ObjectState::Pool(_) => Pool::remove(&name, true).map_err(|e| e.to_string()),
            ObjectState::Semaphore { .. } => Semaphore::remove(&name, true).map_err(|e| e.to_string()),
            ObjectState::Mutex { .. } => Mutex::remove(&name, true).map_err(|e| e.to_string()),
            ObjectState::Condvar => Condvar::remove(&name, true).map_err(|e| e.to_string()),
            ObjectState::Tube(_) => Tube::remove(&name, true).map_err(|e| e.to_string()),
            other => Err(format!("it is {other:?}, which nobody made")),
        };
        gone.map_err(|e| torn(&format!("removing {name}"), e))?;
    }
    let all = handle.objects();
    let there: Vec<&str> = all.iter().map(|object| object.name.as_str()).collect();
    if there != names {
        return Err((Fault::Torn, format!("{arena} has {there:?} instead of {names:?}")));
    }
    let others = || -> Vec<_> { handle.members().into_iter().filter(|m| m.pid != std::process::id()).collect() };
    // A member that is swept at this moment is still listed.
    if !stage.until(|| chappe::doctor().is_ok() && others().is_empty()) {
        return Err((Fault::Leaked, format!("{arena} still has the members {:?}", others())));
    }
    match all.iter().find(|object| object.waiting > 0) {
        Some(object) => {
            Err((Fault::Leaked, format!("at {}, where nobody is, somebody waits: {object:?}", object.name)))
        }
        None => Ok(()),
    }
}

/// Each semaphore has what it may have; then each has its unit again.
fn units(chaos: &Chaos, stage: &Stage, arena: usize) -> Verdict {
    let mut sum = 0;
    for (which, name) in SEMAPHORES.into_iter().enumerate() {
        let full = places::full(arena, name);
        let semaphore = Semaphore::open(&full).map_err(|e| torn(&full, e))?;
        let (least, most) = chaos.board.units[number(arena, which)].bounds(UNITS);
        let fits = || (least..=most).contains(&i64::from(semaphore.value()));
        // What a dead one was handed is on its way to where it can be had.
        if !stage.until(fits) {
            let text = format!("{full} has the value {}, between {least} and {most} are possible", semaphore.value());
            chaos.found(if i64::from(semaphore.value()) < least { Found::Lost } else { Found::Doubled }, &text);
        }
        sum += i64::from(semaphore.value());
        while semaphore.value() > UNITS {
            semaphore.try_down().map_err(|e| torn(&full, e))?;
        }
        while semaphore.value() < UNITS {
            semaphore.up().map_err(|e| torn(&full, e))?;
        }
    }
    let (least, most) = chaos.board.sums[arena].bounds(TOGETHER);
    if !(least..=most).contains(&sum) {
        let text =
            format!("the semaphores of {} have {sum} units, between {least} and {most} are possible", ARENAS[arena]);
        chaos.found(if sum < least { Found::Lost } else { Found::Doubled }, &text);
    }
    Ok(())
}

/// The mutex can be had at once, and its data made whole.
fn store(arena: usize) -> Verdict {
    let full = places::full(arena, "store");
    let store = Mutex::open(&full).map_err(|e| torn(&full, e))?;
    match store.try_lock() {
        Ok(guard) => match store_users::is_whole(&guard) {
            true => Ok(()),
            false => Err((Fault::Torn, format!("the data of {full} is {:?}", *guard))),
        },
        Err(LockError::OwnerDied(mut guard)) => {
            *guard = EMPTY;
            MutexGuard::make_consistent(&mut guard);
            Ok(())
        }
        Err(e) => Err(torn(&full, e)),
    }
}

/// Receives what is left in a tube, and fills every slot once. Answers how many messages it has dropped since it was made.
fn empty(chaos: &Chaos, stage: &Stage, which: usize, tube: &Channel) -> Result<u64, (Fault, String)> {
    let at = |e: &dyn std::fmt::Display| torn(&format!("at the end, tube {}", tube.name), e);
    let handle = tube.open().map_err(|e| at(&e))?;
    let (out, into) = (handle.sender().map_err(|e| at(&e))?, handle.receiver().map_err(|e| at(&e))?);
    let drain = || loop {
        match into.try_borrow() {
            Ok(loan) => {
                // Zeros are not in the ledger: see below.
                if *loan != Message::default()
                    && let Err((what, text)) = chaos.board.received(&loan, which, loan.again())
                {
                    chaos.found(what, &text);
                }
            }
            Err(NotReceived::Empty) => return Ok(()),
            Err(e) => return Err(at(&e)),
        }
    };
    let fill = || -> Result<u32, (Fault, String)> {
        let mut room = 0;
        loop {
            match out.try_send(Message::default()) {
                Ok(()) => room += 1,
                Err(NotSent::Full(_)) => break,
                Err(e) => return Err(at(&e)),
            }
        }
        drain().map(|()| room)
    };
    // Somebody may just be seeing to the dead: so more than once, and what comes of it is received.
    let mut last = Ok(0);
    stage.until(|| {
        last = drain().and_then(|()| fill());
        last.as_ref().is_ok_and(|room| *room == tube.slots) || last.is_err()
    });
    let room = last?;
    if room != tube.slots {
        return Err((Fault::Leaked, format!("tube {} has room for {room} messages, not {}", tube.name, tube.slots)));
    }
    let info = handle.info().map_err(|e| at(&e))?;
    if info.messages > 0 || info.senders.len() + info.receivers.len() != 2 {
        return Err((Fault::Torn, format!("at last tube {} is {info:?}", tube.name)));
    }
    Ok(info.dropped)
}

/// In the small file system: all that is there is an arena that can be removed, and then there is as much room as at the
/// start.
///
/// # Errors
/// What is left, or what cannot be removed.
pub fn small(path: &Path) -> Verdict {
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var("CHAPPE_DIR", path) };
    starved::clear(path).map_err(|e| torn("emptying the small file system", e))?;
    let there: Vec<_> = std::fs::read_dir(path)
        .map_err(|e| torn("listing the small file system", e))?
        .flatten()
        .filter(|entry| entry.file_name() != ".lock")
        .map(|entry| entry.file_name())
        .collect();
    if !there.is_empty() {
        return Err((Fault::Leaked, format!("emptied, the small file system has {there:?}")));
    }
    Ok(())
}

/// How many bytes of a file system are in use, when no process has anything mapped.
///
/// # Errors
/// The system's.
pub fn used(path: &Path) -> std::io::Result<u64> {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: an all-zero statvfs is a valid value.
    let mut all: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a valid place for the duration of the call.
    if unsafe { libc::statvfs(name.as_ptr(), &mut all) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok((all.f_blocks - all.f_bfree) * all.f_frsize)
}
