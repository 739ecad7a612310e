//! Mutexes: what a holder leaves half done is seen only by threads that were told.

use std::hint::black_box;
use std::mem::forget;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{Arena, LockError, LockResult, Mutex, MutexGuard, ObjectState};

use super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::world::{OPTIONS, VICTIM, World, fault, fine, waiters_of};
use super::{Operation, Reason};
use crate::board::{Fault, Stage, Verdict};

/// Two counts that are equal whenever no thread is in the middle of a section.
pub type Data = [u64; 2];

/// How many survivors were told that the mutex is condemned.
const CONDEMNED: usize = 17;

/// The keeper makes mutex `m`, and will count its waiters; beside it pool `p`, by which the victim joins the arena.
pub fn build(w: &World) -> Verdict {
    w.make("p", 1)?;
    fine("making the mutex", Mutex::create("m", [0u64, 0]))?;
    w.count_waiters_of("m");
    Ok(())
}

/// The same; where helpers wait, the keeper has it locked.
fn build_held(w: &World) -> Verdict {
    build(w)?;
    if w.scene().waits() { hold(w) } else { Ok(()) }
}

/// Opens it for the life of this process.
pub fn open() -> Result<&'static Mutex<Data>, (Fault, String)> {
    Ok(Box::leak(Box::new(fine("opening the mutex", Mutex::open("m"))?)))
}

/// Joins the arena, and leaves the mutex as it is.
pub fn warm(w: &World) -> &'static Mutex<Data> {
    w.warm("p");
    open().expect("the keeper has made it")
}

/// A survivor has locked it: the counts are equal, or it was told that they may not be, and makes them so.
pub fn enter<'a>(stage: &Stage, got: LockResult<'a, Data>) -> Result<MutexGuard<'a, Data>, (Fault, String)> {
    match got {
        Ok(guard) if guard[0] == guard[1] => Ok(guard),
        Ok(guard) => fault(Fault::Torn, format!("nobody was told that the counts are {:?}", *guard)),
        Err(LockError::OwnerDied(mut guard)) => {
            stage.board().told.fetch_add(1, SeqCst);
            guard[1] = guard[0];
            MutexGuard::make_consistent(&mut guard);
            Ok(guard)
        }
        Err(e) => fault(Fault::Torn, format!("locking: {e}")),
    }
}

/// One section: both counts, one after the other.
#[inline(never)]
fn count(data: &mut Data) {
    for one in data {
        *black_box(one) += 1;
    }
}

/// A survivor's section.
fn pass(w: &World) -> Verdict {
    let mutex = open()?;
    count(&mut *enter(w.stage(), mutex.lock())?);
    Ok(())
}

/// The keeper has it locked until it lets go.
fn hold(w: &World) -> Verdict {
    let guard = enter(w.stage(), open()?.try_lock())?;
    w.owe(move || drop(guard));
    Ok(())
}

/// While the victim is stopped: the mutex can be locked at once, unless the victim has it.
pub fn lock_or_victim_has(w: &World) -> Verdict {
    match open()?.try_lock() {
        Err(LockError::WouldBlock) if victim_has(w) => Ok(()),
        Err(LockError::WouldBlock) => {
            fault(Fault::Wedged, format!("it is neither free nor the stopped victim's: {}", w.describe()))
        }
        // A living holder that was stopped in its section has it; so this is whole.
        other => enter(w.stage(), other).map(drop),
    }
}

pub fn victim_has(w: &World) -> bool {
    let victim = w.stage().word(VICTIM).load(SeqCst);
    let all = Arena::open("default").map_or(Vec::new(), |arena| arena.objects());
    all.iter().any(|o| matches!(&o.state, ObjectState::Mutex { holder: Some(who), .. } if u64::from(who.pid) == victim))
}

/// While the victim is stopped: the helper that waits gets the mutex, unless it is the victim's.
fn waiter_gets_it(w: &World) -> Verdict {
    w.let_go();
    // Any process that comes by finishes what the stopped one began.
    if let Ok(guard) = open()?.try_lock() {
        drop(guard);
    }
    w.demand(|| w.done_helpers() > 0 || victim_has(w), "a waiter waits for the stopped victim:")
}

/// Survivors were told of this many deaths; the mutex is whole and free, and nothing is out of use.
pub fn check(w: &World, told: &[u64], houses: &[&str]) -> Verdict {
    let limit = w.stage().limit;
    count(&mut *enter(w.stage(), open()?.lock_timeout(limit))?);
    let now = w.stage().board().told.load(SeqCst);
    if !told.contains(&now) {
        return fault(Fault::Torn, format!("{now} survivors were told of a death, where {told:?} should be"));
    }
    w.in_order(houses)
}

const HOUSES: [&str; 2] = ["m", "p"];

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("lock", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_sleeps(true)
            .held_up_by(Reason::Mutex)
            .build(build_held)
            .perform(|w| {
                let mutex = warm(w);
                w.stage().begin();
                let got = mutex.lock();
                w.stage().end(got.is_ok());
                forget(got);
            })
            .wait(pass)
            .others(|w| if w.scene() == StoppedWaiter { waiter_gets_it(w) } else { lock_or_victim_has(w) })
            .check(|w| {
                let told: &[u64] = match (w.was_done(), w.scene().waits() && !w.was_woken()) {
                    (true, _) => &[1],
                    // The keeper had it when the victim died.
                    (false, true) => &[0],
                    (false, false) => &[0, 1],
                };
                check(w, told, &HOUSES)
            }),
        Operation::of("try_lock", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Mutex)
            .build(build_held)
            .perform(|w| {
                let mutex = warm(w);
                w.stage().begin();
                let got = mutex.try_lock();
                w.stage().end(matches!((&got, w.scene()), (Err(LockError::WouldBlock), Waiters | Met) | (Ok(_), _)));
                forget(got);
            })
            .wait(pass)
            .others(lock_or_victim_has)
            .check(|w| check(w, if w.scene().waits() { &[0] } else { &[0, 1] }, &HOUSES)),
        Operation::of("lock, timed out", &[Alone, Waiters, Stopped])
            .build(|w| {
                build(w)?;
                hold(w)
            })
            .perform(|w| {
                let mutex = warm(w);
                // Starts what a first wait starts.
                drop(mutex.lock_timeout(Duration::from_micros(1)));
                w.stage().begin();
                let got = mutex.lock_timeout(Duration::from_millis(1));
                // It comes free while the victim is stopped.
                w.stage().end(matches!(got, Err(LockError::Timeout)) || got.is_ok() && w.scene() == Stopped);
                forget(got);
            })
            .wait(pass)
            .others(|w| {
                w.let_go();
                lock_or_victim_has(w)
            })
            .check(|w| check(w, if w.scene() == Stopped { &[0, 1] } else { &[0] }, &HOUSES)),
        // The counts are whole when it begins: the next holder is told of the death, or the lock
        // was free.
        Operation::of("unlock", &[Alone, Waiters, Met, Stopped, StoppedWaiter])
            .victim_holds(true)
            .held_up_by(Reason::Mutex)
            .build(build)
            .perform(|w| {
                let mutex = warm(w);
                let guard = mutex.lock();
                w.holding_while(|| waiters_of("m"));
                w.stage().begin();
                let had = guard.is_ok();
                drop(guard);
                w.stage().end(had);
            })
            .wait(pass)
            .others(|w| if w.scene() == StoppedWaiter { waiter_gets_it(w) } else { lock_or_victim_has(w) })
            .check(|w| check(w, if w.was_done() { &[0] } else { &[0, 1] }, &HOUSES)),
        // `a += 1; b += 1` under the lock.
        Operation::of("lock, a += 1, b += 1, unlock", &[Alone, Waiters, Met, Stopped])
            .victim_sleeps(true)
            .held_up_by(Reason::Mutex)
            .build(build_held)
            .perform(|w| {
                let mutex = warm(w);
                w.stage().begin();
                let mut got = mutex.lock();
                if let Ok(guard) = &mut got {
                    count(guard);
                }
                let had = got.is_ok();
                drop(got);
                w.stage().end(had);
            })
            .wait(pass)
            .others(lock_or_victim_has)
            .check(|w| check(w, if w.was_done() { &[0] } else { &[0, 1] }, &HOUSES)),
        // An earlier holder has died between the two counts; the victim makes them equal, and says
        // so.
        Operation::of("lock torn, make_consistent", &[Alone, Met, Stopped])
            .held_up_by(Reason::Mutex)
            .build(|w| {
                build(w)?;
                let tear = || {
                    let mut guard = enter(w.stage(), open().expect("it is there").try_lock()).expect("it is free");
                    guard[0] += 1;
                    forget(guard);
                };
                w.die_with(tear, "did not lock")
            })
            .perform(|w| {
                let mutex = warm(w);
                w.stage().begin();
                let got = mutex.lock();
                let was_told = matches!(got, Err(LockError::OwnerDied(_)));
                if let Err(LockError::OwnerDied(mut guard)) = got {
                    guard[1] = guard[0];
                    MutexGuard::make_consistent(&mut guard);
                }
                // Met: the process that came meanwhile may have made it whole.
                w.stage().end(was_told || w.scene() != Alone);
            })
            .meet(pass)
            .others(lock_or_victim_has)
            .check(|w| {
                let told: &[u64] = match (w.scene(), w.was_done()) {
                    (Alone, true) => &[0],
                    (Alone, false) => &[0, 1],
                    // The helper before the victim, and once more after its death.
                    _ => &[0, 1, 2],
                };
                check(w, told, &HOUSES)
            }),
        Operation::of("condemn", &[Alone, Waiters, Stopped])
            .victim_holds(true)
            .build(build)
            .perform(|w| {
                let mutex = warm(w);
                let guard = mutex.lock().expect("it is free");
                w.holding_while(|| waiters_of("m"));
                w.stage().begin();
                MutexGuard::condemn(guard);
                w.stage().end(true);
            })
            .wait(|w| match open()?.lock() {
                Err(LockError::Condemned { .. }) => {
                    w.stage().word(CONDEMNED).fetch_add(1, SeqCst);
                    Ok(())
                }
                other => enter(w.stage(), other).map(drop),
            })
            .others(|w| if open()?.is_condemned() { Ok(()) } else { lock_or_victim_has(w) })
            .check(|w| {
                let mutex = open()?;
                // Sees to the victim, if it was alone.
                let got = mutex.lock_timeout(w.stage().limit);
                let condemned = match got {
                    Err(LockError::Condemned { .. }) => true,
                    other => {
                        drop(enter(w.stage(), other)?);
                        false
                    }
                };
                let seen = w.stage().word(CONDEMNED).load(SeqCst) as usize;
                let told = w.stage().board().told.load(SeqCst);
                let wanted = if condemned { (w.done_helpers(), 0) } else { (0, 1) };
                if (seen, told) != wanted || condemned != mutex.is_condemned() || w.was_done() && !condemned {
                    let text = format!("condemned: {condemned}; {seen} saw that, {told} were told of the death");
                    return fault(Fault::Torn, text);
                }
                w.in_order(&HOUSES)
            }),
        Operation::of("create mutex", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let made = Mutex::create("m", [7u64, 7]);
                w.stage().end(made.is_ok());
            })
            .meet(|w| {
                let mutex = fine("making it too", Mutex::open_or_create("m", [7u64, 7]))?;
                count(&mut *enter(w.stage(), mutex.lock())?);
                Ok(())
            })
            .check(|w| {
                if !w.has_made(Mutex::<Data>::open("m"))? {
                    fine("making it anew", Mutex::create("m", [7u64, 7]))?;
                }
                let data = *enter(w.stage(), open()?.try_lock())?;
                let most = if w.scene() == Met { 8 } else { 7 };
                if !(7..=most).contains(&data[0]) {
                    return fault(Fault::Torn, format!("a fresh mutex has {data:?}"));
                }
                check(w, &[0], &HOUSES)
            }),
        Operation::of("open mutex", &[Alone, Waiters, Stopped])
            .build(build_held)
            .perform(|w| {
                w.stage().begin();
                let opened = Mutex::<Data>::open("m");
                w.stage().end(opened.is_ok());
                forget(opened);
            })
            .wait(pass)
            .others(lock_or_victim_has)
            .check(|w| check(w, &[0], &HOUSES)),
        // With waiters it is by force, and the keeper has it locked.
        Operation::of("remove mutex", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(build_held)
            .perform(|w| {
                warm(w);
                w.stage().begin();
                let gone = Mutex::remove("m", w.scene() == Waiters);
                // Met: the process that came meanwhile may hold it.
                w.stage().end(gone.is_ok() || w.scene() == Met);
            })
            .wait(|w| match open()?.lock() {
                Err(LockError::Dead { .. }) => Ok(()),
                other => enter(w.stage(), other).map(drop),
            })
            .meet(|w| {
                loop {
                    let mutex = fine("making it again", Mutex::open_or_create("m", [0u64, 0]))?;
                    match mutex.lock() {
                        Err(LockError::Dead { .. }) => {}
                        other => return enter(w.stage(), other).map(drop),
                    }
                }
            })
            .check(|w| {
                if w.has_removed(Mutex::<Data>::open("m"))? {
                    // Of whatever size the arena was made.
                    fine("opening the arena", Arena::open_or_create("default", &OPTIONS))?;
                    fine("making it anew", Mutex::create("m", [0u64, 0]))?;
                }
                // A process that removes it without force locks it first: killed then, it leaves a death to be told of.
                check(w, &[0, 1], &HOUSES)
            }),
        // The mutex was removed by force under its holder, which unlocks it now: its slot and its
        // data come back, not before.
        Operation::of("unlock, removed", &[Alone, Stopped])
            .build(build)
            .perform(|w| {
                let mutex = warm(w);
                let guard = mutex.lock().expect("it is free");
                Mutex::remove("m", true).expect("by force");
                w.stage().begin();
                drop(guard);
                w.stage().end(true);
            })
            .others(|_| {
                // Another of the same name, which is none of the stopped one's business.
                let mutex = fine("making it again", Mutex::create("m", [0u64, 0]))?;
                drop(fine("locking it", mutex.try_lock().map_err(|e| e.to_string()))?);
                fine("removing it", Mutex::remove("m", false))
            })
            .check(|w| w.in_order(&["p"])),
    ]
}
