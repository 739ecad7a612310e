//! chappe in the storms, as it ships: no call for recovery anywhere.
//!
//! In a churned storm a process in four removes the object when it has finished, and one in eight the arena: refused while any process uses
//! them. So arenas are made, linked, initialised and unlinked all the time, too. A process that finds that an object was removed under it
//! begins again; any other error counts.

use std::path::Path;
use std::time::Duration;

use chappe::tube::named::{NotReceived, NotSent, Tube, TubeError, TubeOptions};
use chappe::{AcquireError, Arena, ArenaError, LockError, Mutex, MutexGuard, ObjectError, Pool, PoolError, Semaphore};

use super::subject::{Here, Storm, Subject, for_a_second, message, read};

const TUBE: &str = "churn/tube";
const POOL: &str = "churn/pool";
const MUTEX: &str = "churn/mutex";
const UNITS: &str = "churn/units";

/// All of them.
pub fn all() -> Vec<Box<dyn Subject>> {
    let messages = [Storm::Churned, Storm::Steady].map(|storm| Box::new(Messages(storm)) as Box<dyn Subject>);
    messages.into_iter().chain(LOCKS.map(|lock| Box::new(lock) as Box<dyn Subject>)).collect()
}

/// The directory of the arenas of all processes that are started from here.
fn set(home: &Path) {
    // SAFETY: the director has one thread.
    unsafe { std::env::set_var("CHAPPE_DIR", home) };
}

/// What a turn or a part of it came to.
type Came = Result<(), Broken>;

/// Why a turn does not come to its end.
enum Broken {
    /// The object was removed meanwhile: a turn as good as any.
    Removed,
    Refused(String),
}

impl From<TubeError> for Broken {
    fn from(e: TubeError) -> Broken {
        match e {
            TubeError::Dead { .. } | TubeError::Object(ObjectError::InUse { .. } | ObjectError::Unknown { .. }) => {
                Broken::Removed
            }
            TubeError::Object(e) => e.into(),
            e => Broken::Refused(e.to_string()),
        }
    }
}

impl From<ObjectError> for Broken {
    fn from(e: ObjectError) -> Broken {
        match e {
            ObjectError::InUse { .. } | ObjectError::Unknown { .. } => Broken::Removed,
            ObjectError::Arena(e) => e.into(),
            e => Broken::Refused(e.to_string()),
        }
    }
}

impl From<ArenaError> for Broken {
    fn from(e: ArenaError) -> Broken {
        match e {
            ArenaError::InUse { .. } | ArenaError::NotFound { .. } | ArenaError::Removed { .. } => Broken::Removed,
            e => Broken::Refused(e.to_string()),
        }
    }
}

fn turn(came: Came) -> Result<(), String> {
    match came {
        Ok(()) | Err(Broken::Removed) => Ok(()),
        Err(Broken::Refused(why)) => Err(why),
    }
}

/// Now and then what was used is removed, and the arena with it.
fn tidy<E: Into<Broken>>(here: &mut Here, remove: impl FnOnce() -> Result<(), E>) -> Came {
    if here.dice.roll(4) == 0 {
        remove().map_err(Into::into)?;
    }
    if here.dice.roll(8) == 0 {
        Arena::remove("churn", false)?;
    }
    Ok(())
}

/// A witness whose object was removed under it begins again.
fn prove(once: impl Fn() -> Came) -> Result<(), String> {
    for_a_second("it was removed again and again", || match once() {
        Ok(()) => Ok(true),
        Err(Broken::Removed) => Ok(false),
        Err(Broken::Refused(why)) => Err(why),
    })
}

// ---- tubes ----

/// A tube of many senders and receivers.
struct Messages(Storm);

fn tube() -> Result<Tube<u64>, TubeError> {
    Tube::open_or_create(TUBE, &TubeOptions { slots: 16, ..TubeOptions::default() })
}

fn sent(came: Result<(), NotSent<u64>>) -> Came {
    match came {
        Ok(()) | Err(NotSent::Full(_)) => Ok(()),
        Err(NotSent::Dead { .. }) => Err(Broken::Removed),
        Err(e) => Err(Broken::Refused(e.to_string())),
    }
}

/// Whether there was a message.
fn received(came: Result<u64, NotReceived>) -> Result<bool, Broken> {
    match came {
        Ok(message) => read(message).map(|_| true).map_err(Broken::Refused),
        Err(NotReceived::Empty | NotReceived::Timeout) => Ok(false),
        Err(NotReceived::Dead { .. }) => Err(Broken::Removed),
        Err(e) => Err(Broken::Refused(e.to_string())),
    }
}

impl Messages {
    fn turn(here: &mut Here) -> Came {
        let tube = tube()?;
        let (out, into) = (tube.sender()?, tube.receiver()?);
        for number in 0..4 {
            sent(out.try_send(message(here.place(), number)))?;
            here.dawdle(50);
        }
        for _ in 0..4 {
            // Another may have it.
            received(into.recv_timeout(Duration::from_micros(200)))?;
            here.dawdle(50);
        }
        drop((out, into, tube));
        tidy(here, || Tube::remove(TUBE, false))
    }

    fn stream(here: &mut Here) -> Came {
        let out = tube()?.sender()?;
        here.ready();
        let mut number = read(here.next()).map_err(Broken::Refused)?.1;
        while !here.is_over() {
            out.send_timeout(message(here.place(), number), here.limit())
                .map_err(|e| Broken::Refused(e.to_string()))?;
            number += 1;
            here.done(Ok(()));
            here.dawdle(30);
        }
        Ok(())
    }

    fn listen(here: &mut Here) -> Came {
        let into = tube()?.receiver()?;
        here.ready();
        while !here.is_over() {
            match into.recv_timeout(Duration::from_millis(10)) {
                Ok(message) => here.hear(message).map_err(Broken::Refused)?,
                Err(NotReceived::Timeout | NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => {}
                Err(e) => return Err(Broken::Refused(e.to_string())),
            }
        }
        Ok(())
    }
}

impl Subject for Messages {
    fn name(&self) -> &'static str {
        "chappe, tube"
    }

    fn storm(&self) -> Storm {
        self.0
    }

    fn set(&self, home: &Path) -> Result<(), String> {
        set(home);
        Ok(())
    }

    fn keep(&self, here: &mut Here) {
        let came = turn(Messages::listen(here));
        here.done(came);
    }

    fn work(&self, here: &mut Here) {
        match self.0 {
            Storm::Steady => {
                let came = turn(Messages::stream(here));
                here.done(came);
            }
            _ => here.turns(|here| turn(Messages::turn(here))),
        }
    }

    fn prove(&self, here: &mut Here) -> Result<(), String> {
        if self.0 == Storm::Steady {
            let out = tube().and_then(|t| t.sender()).map_err(|e| e.to_string())?;
            return here.be_heard(|message| match out.try_send(message) {
                Ok(()) | Err(NotSent::Full(_)) => Ok(()),
                Err(e) => Err(e.to_string()),
            });
        }
        prove(|| {
            let tube = tube()?;
            let (out, into) = (tube.sender()?, tube.receiver()?);
            out.send_timeout(message(here.place(), 0), here.limit()).map_err(|e| match e {
                NotSent::Dead { .. } => Broken::Removed,
                e => Broken::Refused(e.to_string()),
            })?;
            // The others may have had this one, but then they send others.
            for_a_second("nothing was received", || {
                received(into.recv_timeout(Duration::from_millis(10))).or_else(|e| match e {
                    Broken::Removed => Ok(true),
                    Broken::Refused(why) => Err(why),
                })
            })
            .map_err(Broken::Refused)?;
            if tube.is_dead() { Err(Broken::Removed) } else { Ok(()) }
        })
    }
}

// ---- locks ----

/// What gives a turn to one at a time.
struct Lock {
    name: &'static str,
    /// One turn, waiting so long at most; of a witness, which goes when it has it, without a place of its own.
    turn: fn(Duration, Option<&mut Here>) -> Came,
}

const LOCKS: [Lock; 2] =
    [Lock { name: "chappe, pool of 1", turn: with_permit }, Lock { name: "chappe, mutex", turn: with_lock }];

/// A pool of one permit.
fn with_permit(limit: Duration, here: Option<&mut Here>) -> Came {
    let pool = Pool::open_or_create(POOL, 1).map_err(pool_broken)?;
    let permit = pool.acquire_timeout(limit).map_err(|e| match e {
        AcquireError::Dead { .. } => Broken::Removed,
        AcquireError::Arena(e) => e.into(),
        e => Broken::Refused(e.to_string()),
    })?;
    let Some(here) = here else { return Ok(()) };
    here.dawdle(200);
    drop(permit);
    here.dawdle(200);
    drop(pool);
    tidy(here, || Pool::remove(POOL, false).map_err(pool_broken))
}

fn pool_broken(e: PoolError) -> Broken {
    match e {
        PoolError::InUse { .. } | PoolError::Unknown { .. } => Broken::Removed,
        PoolError::Arena(e) => e.into(),
        e => Broken::Refused(e.to_string()),
    }
}

/// A mutex around two numbers that are the same, except after a kill in between.
fn with_lock(limit: Duration, here: Option<&mut Here>) -> Came {
    let mutex = Mutex::<[u64; 2]>::open_or_create(MUTEX, [0, 0])?;
    let mut guard = match mutex.lock_timeout(limit) {
        Ok(guard) => guard,
        Err(LockError::OwnerDied(mut guard)) => {
            guard[1] = guard[0];
            MutexGuard::make_consistent(&mut guard);
            guard
        }
        Err(LockError::Dead { .. }) => return Err(Broken::Removed),
        // A process that only has it open does not use it yet: the arena may go before the first call that joins it.
        Err(LockError::Arena(e)) => return Err(e.into()),
        Err(e) => return Err(Broken::Refused(e.to_string())),
    };
    if guard[0] != guard[1] {
        return Err(Broken::Refused(format!("torn: {:?}, and nobody was said to have died", *guard)));
    }
    let Some(here) = here else { return Ok(()) };
    guard[0] += 1;
    here.dawdle(200);
    guard[1] += 1;
    drop(guard);
    here.dawdle(200);
    drop(mutex);
    tidy(here, || Mutex::remove(MUTEX, false))
}

impl Subject for Lock {
    fn name(&self) -> &'static str {
        self.name
    }

    fn storm(&self) -> Storm {
        Storm::Churned
    }

    fn set(&self, home: &Path) -> Result<(), String> {
        set(home);
        Ok(())
    }

    fn work(&self, here: &mut Here) {
        here.turns(|here| turn((self.turn)(here.limit(), Some(here))));
    }

    fn prove(&self, here: &mut Here) -> Result<(), String> {
        prove(|| (self.turn)(here.limit(), None))
    }
}

/// A known mistake: a semaphore of 1 as a lock. A unit has no owner, so a death does not give it back.
pub struct Control;

impl Control {
    fn turn(limit: Duration, here: Option<&mut Here>) -> Result<(), String> {
        let lock = Semaphore::open_or_create(UNITS, 1).map_err(|e| e.to_string())?;
        lock.down_timeout(limit).map_err(|e| e.to_string())?;
        if let Some(here) = here {
            here.dawdle(200);
        }
        lock.up().map_err(|e| e.to_string())
    }
}

impl Subject for Control {
    fn name(&self) -> &'static str {
        "control: a semaphore as a lock"
    }

    fn storm(&self) -> Storm {
        Storm::Churned
    }

    fn set(&self, home: &Path) -> Result<(), String> {
        set(home);
        Ok(())
    }

    fn work(&self, here: &mut Here) {
        here.turns(|here| Control::turn(here.limit(), Some(here)));
    }

    fn prove(&self, here: &mut Here) -> Result<(), String> {
        Control::turn(here.limit(), None)
    }
}
