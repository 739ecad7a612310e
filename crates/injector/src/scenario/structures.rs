//! Structures without waiting, and locks for threads with deadlines: an operation has happened, or has not; a process that comes while the
//! victim is stopped in the middle of a change gets through; nothing stays out of use.
//!
//! They lie in an arena of their own, `s`, whose blocks the structure takes nearly all: made anew, it needs them back. What has happened is
//! counted by a look at the structure afterwards, beside what the survivors have noted.

use std::hint::black_box;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::words::{Change, Words};
use chappe::{
    Arena, ArenaOptions, Counter, HelpError, HelpLock, Map, MapOptions, Monitor, MonitorError, RwLock, RwLockError,
    Serve, Service, Stack, WriteGuard, remove_service,
};

use super::Operation;
use super::Scene::{Alone, Met, Stopped};
use super::world::{World, fault, fine};
use crate::board::{Fault, Verdict};

/// What the survivors have done.
const NOTED: usize = 20;
/// The structure.
const NAME: &str = "s/x";
/// What there is at first.
const FIRST: u64 = 3;

type Two = [u64; 2];
type Numbered = Map<u64, Two>;
/// An operation, ready to be done; given the number of the process that does it.
type Act = Box<dyn Fn(u64) -> Verdict>;

/// Adds to two numbers, which are the same.
struct Add;

impl Serve for Add {
    type State = Two;
    type Request = u64;
    type Answer = u64;
    fn serve(state: &mut Two, by: &u64) -> u64 {
        for one in state.iter_mut() {
            *black_box(one) += by;
        }
        state[0]
    }
}

/// One operation on one structure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Push,
    Pop,
    Insert { ordered: bool },
    Update,
    Remove { ordered: bool },
    Count,
    Call,
    Mcas,
    Help,
    Inside,
    WaitInside,
    Share,
}

/// An error of any structure, in words.
fn told<T>(what: &str, result: Result<T, impl std::fmt::Display>) -> Result<T, (Fault, String)> {
    fine(what, result)
}

/// The process: a number of its own, small.
fn own(w: &World) -> u64 {
    10 + w.stage().word(NOTED).load(SeqCst) + if w.is_victim() { 50 } else { 0 }
}

impl What {
    fn options(self) -> MapOptions {
        let ordered = matches!(self, What::Insert { ordered: true } | What::Remove { ordered: true });
        MapOptions { entries: 8, ordered, ..MapOptions::default() }
    }

    /// Makes it, with what there is at first.
    fn make(self) -> Verdict {
        match self {
            What::Push | What::Pop => {
                let stack = told("making", Stack::create(NAME, 8))?;
                (1..=FIRST).try_for_each(|n| told("pushing", stack.push([n; 2]).map_err(|e| e.why)))
            }
            What::Insert { .. } | What::Update | What::Remove { .. } => {
                let map = told("making", Numbered::create(NAME, &self.options()))?;
                (1..=FIRST).try_for_each(|n| told("inserting", map.insert(&n, &[n; 2])).map(drop))
            }
            What::Count => told("making", Counter::create(NAME, FIRST as i64)).map(drop),
            What::Call => told("making", Service::<Add>::create(NAME, &[FIRST; 2])).map(drop),
            What::Mcas => {
                let words = told("making", Words::create(NAME, 2))?;
                told("setting", words.update([0, 1], |w| *w = [FIRST; 2])).map(drop)
            }
            What::Help => told("making", HelpLock::inherited_create(NAME, [FIRST; 2])).map(drop),
            What::Inside | What::WaitInside => told("making", Monitor::create(NAME, [FIRST; 2], &["some"])).map(drop),
            What::Share => told("making", RwLock::create(NAME, [FIRST; 2])).map(drop),
        }
    }

    /// Opens it, for good, and comes to be one that changes it. Answers the operation.
    fn open(self) -> Result<Act, (Fault, String)> {
        Ok(match self {
            What::Push | What::Pop => {
                let stack = told("opening", Stack::<Two>::open(NAME))?;
                if let Some(top) = told("popping", stack.pop())? {
                    told("pushing", stack.push(top).map_err(|e| e.why))?;
                }
                if self == What::Push {
                    return Ok(Box::new(move |n| told("pushing", stack.push([n; 2]).map_err(|e| e.why))));
                }
                Box::new(move |_| match told("popping", stack.pop())? {
                    Some([a, b]) if a == b => Ok(()),
                    other => fault(Fault::Torn, format!("popped {other:?}")),
                })
            }
            What::Insert { .. } | What::Update | What::Remove { .. } => {
                let map = told("opening", Numbered::open(NAME))?;
                told("inserting", map.insert(&99, &[0; 2]))?;
                told("removing", map.remove(&99))?;
                match self {
                    What::Insert { .. } => Box::new(move |n| told("inserting", map.insert(&n, &[n; 2])).map(drop)),
                    What::Update => Box::new(move |_| {
                        let add = |old: Option<Two>| old.map(|[a, b]| [a + 1, b + 1]);
                        told("updating", map.update(&1, add)).map(drop)
                    }),
                    _ => Box::new(move |n| {
                        // The victim's, the first survivor's, and so on.
                        let key = if n >= 60 { 1 } else { n % 10 + 2 };
                        told("removing", map.remove(&key)).map(drop)
                    }),
                }
            }
            What::Count => {
                let counter = told("opening", Counter::open(NAME))?;
                told("adding", counter.add(0))?;
                Box::new(move |_| told("adding", counter.add(1)).map(drop))
            }
            What::Call => {
                let service = told("opening", Service::<Add>::open(NAME))?;
                told("calling", service.call(&0))?;
                Box::new(move |_| told("calling", service.call(&1)).map(drop))
            }
            What::Mcas => {
                let words = told("opening", Words::open(NAME))?;
                told("changing", words.update([0, 1], |_| ()))?;
                Box::new(move |_| {
                    loop {
                        let [a, b] = told("looking", words.load_all([0, 1]))?;
                        let changes = [Change { word: 0, old: a, new: a + 1 }, Change { word: 1, old: b, new: b + 1 }];
                        if told("changing", words.mcas(&changes))? {
                            return Ok(());
                        }
                    }
                })
            }
            What::Help => {
                let lock = told("opening", HelpLock::<Two>::inherited_open(NAME))?;
                drop(mended(&lock)?);
                Box::new(move |_| {
                    mended(&lock)?.iter_mut().for_each(|one| *black_box(one) += 1);
                    Ok(())
                })
            }
            What::Share => {
                let lock = told("opening", RwLock::<Two>::open(NAME))?;
                drop(written(&lock)?);
                Box::new(move |_| {
                    match lock.read() {
                        Ok(both) if both[0] != both[1] => return fault(Fault::Torn, format!("read {:?}", *both)),
                        Ok(_) | Err(RwLockError::OwnerDied(_)) => {}
                        Err(e) => return fault(Fault::Torn, format!("reading: {e}")),
                    }
                    let mut both = written(&lock)?;
                    both.iter_mut().for_each(|one| *black_box(one) += 1);
                    drop(WriteGuard::downgrade(both));
                    Ok(())
                })
            }
            What::Inside | What::WaitInside => {
                let monitor = told("opening", Monitor::<Two>::open(NAME))?;
                drop(entered(&monitor)?);
                let waits = self == What::WaitInside;
                Box::new(move |_| {
                    let mut inside = entered(&monitor)?;
                    if waits {
                        let limit = Duration::from_micros(50);
                        inside = told("waiting", inside.wait_timeout("some", limit))?.0;
                    }
                    inside.iter_mut().for_each(|one| *black_box(one) += 1);
                    told("signalling", inside.signal("some"))
                })
            }
        })
    }

    /// How many operations have happened, by what is there; all of it is whole.
    fn happened(self) -> Result<u64, (Fault, String)> {
        let whole = |[a, b]: Two| if a == b { Ok(a) } else { fault(Fault::Torn, format!("there is {:?}", [a, b])) };
        match self {
            What::Push | What::Pop => {
                let stack = told("opening", Stack::<Two>::open(NAME))?;
                let mut there = Vec::new();
                while let Some(one) = told("popping", stack.pop())? {
                    there.push(whole(one)?);
                }
                let (all, len) = (format!("{there:?}"), there.len() as u64);
                there.sort_unstable();
                there.dedup();
                if there.len() as u64 != len {
                    return fault(Fault::Doubled, format!("popped {all}"));
                }
                if self == What::Push { lacks(len, FIRST) } else { lacks(FIRST, len) }
            }
            What::Insert { .. } | What::Remove { .. } => {
                let map = told("opening", Numbered::open(NAME))?;
                let mut keys = Vec::new();
                for entry in told("walking", map.iter())? {
                    let (key, value) = told("walking", entry)?;
                    if whole(value)? != key || keys.contains(&key) {
                        return fault(Fault::Torn, format!("{key} has {value:?}, after {keys:?}"));
                    }
                    keys.push(key);
                }
                let len = keys.len() as u64;
                if matches!(self, What::Insert { .. }) { lacks(len, FIRST) } else { lacks(FIRST, len) }
            }
            What::Update => {
                let map = told("opening", Numbered::open(NAME))?;
                let one = told("looking", map.get(&1))?;
                lacks(one.map_or(Ok(0), whole)?, 1)
            }
            What::Count => lacks(told("looking", told("opening", Counter::open(NAME))?.get())? as u64, FIRST),
            What::Call => {
                let service = told("opening", Service::<Add>::open(NAME))?;
                lacks(whole(told("looking", service.look())?)?, FIRST)
            }
            What::Mcas => {
                let words = told("opening", Words::open(NAME))?;
                lacks(whole(told("looking", words.load_all([0, 1]))?)?, FIRST)
            }
            What::Help => {
                let lock = told("opening", HelpLock::<Two>::inherited_open(NAME))?;
                lacks(whole(*mended(&lock)?)?, FIRST)
            }
            What::Share => {
                let lock = told("opening", RwLock::<Two>::open(NAME))?;
                lacks(whole(*written(&lock)?)?, FIRST)
            }
            What::Inside | What::WaitInside => {
                let monitor = told("opening", Monitor::<Two>::open(NAME))?;
                lacks(whole(*entered(&monitor)?)?, FIRST)
            }
        }
    }

    /// Removes it. Nobody else may be at it any more.
    fn unmake(self) -> Result<(), String> {
        match self {
            What::Push | What::Pop => Stack::unmake(NAME, false).map_err(|e| e.to_string()),
            What::Insert { .. } | What::Update | What::Remove { .. } => {
                let map = Numbered::open(NAME).map_err(|e| e.to_string())?;
                (0..128).for_each(|key| _ = map.remove(&key));
                chappe::Map::unmake(NAME, false).map_err(|e| e.to_string())
            }
            What::Count => Counter::unmake(NAME, false).map_err(|e| e.to_string()),
            What::Call => remove_service(NAME, false).map_err(|e| e.to_string()),
            What::Mcas => Words::unmake(NAME, false).map_err(|e| e.to_string()),
            What::Help => HelpLock::unmake(NAME, false).map_err(|e| e.to_string()),
            What::Inside | What::WaitInside => Monitor::unmake(NAME, false).map_err(|e| e.to_string()),
            What::Share => RwLock::remove(NAME, false).map_err(|e| e.to_string()),
        }
    }

    /// A survivor does it too.
    fn come(self, w: &World) -> Verdict {
        let act = self.open()?;
        act(own(w))?;
        w.stage().word(NOTED).fetch_add(1, SeqCst);
        Ok(())
    }

    fn is_blocking(self) -> bool {
        matches!(self, What::Help | What::Inside | What::WaitInside | What::Share)
    }
}

/// How many more there are than these.
fn lacks(there: u64, of: u64) -> Result<u64, (Fault, String)> {
    there.checked_sub(of).ok_or_else(|| (Fault::Lost, format!("{there} where there were {of}")))
}

/// Locked; what the dead left half done is done.
fn mended(lock: &HelpLock<Two>) -> Result<chappe::HelpGuard<'_, Two>, (Fault, String)> {
    match lock.lock() {
        Err(HelpError::OwnerDied { mut guard, .. }) => {
            guard[1] = guard[0];
            guard.make_consistent();
            Ok(guard)
        }
        got => got.map_err(|e| (Fault::Torn, format!("locking: {e}"))),
    }
}

/// The same of a readers-writer lock, to write.
fn written(lock: &RwLock<Two>) -> Result<WriteGuard<'_, Two>, (Fault, String)> {
    match lock.write() {
        Err(RwLockError::OwnerDied(mut both)) => {
            both[1] = both[0];
            WriteGuard::make_consistent(&mut both);
            Ok(both)
        }
        got => got.map_err(|e| (Fault::Torn, format!("writing: {e}"))),
    }
}

/// The same of a monitor.
fn entered(monitor: &Monitor<Two>) -> Result<chappe::Inside<'_, Two>, (Fault, String)> {
    match monitor.enter() {
        Err(MonitorError::Lock(HelpError::OwnerDied { .. })) => {
            let mut inside = told("entering", monitor.enter_torn())?;
            inside[1] = inside[0];
            inside.make_consistent();
            Ok(inside)
        }
        entered => told("entering", entered),
    }
}

impl What {
    fn operation(self) -> Operation {
        Operation::of(
            match self {
                What::Push => "stack: push",
                What::Pop => "stack: pop",
                What::Insert { ordered: false } => "map: insert",
                What::Insert { ordered: true } => "ordered map: insert",
                What::Update => "map: update",
                What::Remove { ordered: false } => "map: remove",
                What::Remove { ordered: true } => "ordered map: remove",
                What::Count => "counter: add",
                What::Call => "service: call",
                What::Mcas => "words: mcas of 2",
                What::Help => "helping lock: a += 1, b += 1",
                What::Inside => "monitor: a += 1, b += 1, signal",
                What::WaitInside => "monitor: wait, a += 1, b += 1",
                What::Share => "readers-writer lock: read; write a += 1, b += 1; downgrade",
            },
            if self.is_blocking() { &[Alone] } else { &[Alone, Met, Stopped] },
        )
        // A stopped holder of a lock holds up others: that is said.
        .victim_sleeps(self == What::WaitInside)
        .build(move |w| {
            w.make("p", 1)?;
            let options = ArenaOptions { members: Some(16), objects: Some(4), cells: Some(1), data: Some(1 << 16) };
            fine("making the arena", Arena::open_or_create("s", &options))?;
            self.make()
        })
        .perform(move |w| {
            w.warm("p");
            let act = self.open().expect("the keeper has made it");
            let n = own(w);
            w.stage().begin();
            let done = act(n);
            w.stage().end(done.is_ok());
            // It stays open.
            std::mem::forget(act);
        })
        .meet(move |w| self.come(w))
        .others(move |w| self.come(w))
        .check(move |w| {
            let (happened, noted) = (self.happened()?, w.stage().word(NOTED).load(SeqCst));
            let victims = if w.was_done() { 1..=1 } else { 0..=1 };
            match happened.checked_sub(noted) {
                Some(n) if victims.contains(&n) => {}
                None => return fault(Fault::Lost, format!("{happened} of {noted} have happened")),
                Some(n) => return fault(Fault::Doubled, format!("the victim's happened {n} times, of {victims:?}")),
            }
            // Of a structure that is made anew nothing may be out of use: first all dead members are swept, and the helper is gone.
            let mut gone = Ok(());
            let swept = w.stage().until(|| {
                chappe::doctor().map(drop).unwrap_or_default();
                gone = self.unmake();
                gone.is_ok()
            });
            if !swept {
                return fault(Fault::Leaked, format!("it stays in use: {gone:?}"));
            }
            let mut made = Ok(());
            if !w.stage().until(|| {
                made = self.make();
                made.is_ok()
            }) {
                return fault(Fault::Leaked, format!("it cannot be made again: {made:?}"));
            }
            w.in_order(&["p"])
        })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    use What::{Call, Count, Help, Insert, Inside, Mcas, Pop, Push, Remove, Share, Update, WaitInside};
    let (any, in_order) = (false, true);
    let maps = [any, in_order].into_iter().flat_map(|ordered| [Insert { ordered }, Remove { ordered }]);
    let others = [Push, Pop, Update, Count, Call, Mcas, Help, Inside, WaitInside, Share];
    others.into_iter().chain(maps).map(What::operation).collect()
}
