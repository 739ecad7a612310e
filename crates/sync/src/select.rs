//! Choices as users write them: `acquire_any`, [`Select`](crate::Select) and [`select!`](crate::select!).

use crate::choice::choose;
use crate::claim::Operation;
use crate::error::{AcquireError, DownError, SelectError};
use crate::guard::Permit;
use crate::patience::Until;
use crate::pool::{Pool, here};
use crate::semaphore::Semaphore;
use std::time::{Duration, Instant};

/// Takes one permit of whichever of the pools has one first; answers which pool, counted from 0. Waits in the order of
/// arrival in each of them.
///
/// Fair: of several pools with a free permit, each is as likely. A pool may occur more than once.
///
/// # Errors
/// `Dead` if one of them is or gets removed; `TwoArenas`, `NoPools`; else as [`Pool::acquire`].
pub fn acquire_any<'a>(pools: &[&'a Pool]) -> Result<(usize, Permit<'a>), AcquireError> {
    any(pools, Until::Forever)
}

/// Takes one permit of any of the pools if one is free. Never sleeps.
///
/// # Errors
/// `WouldBlock`; else as [`acquire_any`].
pub fn try_acquire_any<'a>(pools: &[&'a Pool]) -> Result<(usize, Permit<'a>), AcquireError> {
    any(pools, Until::Now)
}

/// As [`acquire_any`], waiting at most for `duration`.
///
/// # Errors
/// `Timeout`; else as [`acquire_any`].
pub fn acquire_any_timeout<'a>(pools: &[&'a Pool], duration: Duration) -> Result<(usize, Permit<'a>), AcquireError> {
    any(pools, Until::after(duration))
}

/// As [`acquire_any`], waiting at most until `deadline`.
///
/// # Errors
/// `Timeout`; else as [`acquire_any`].
pub fn acquire_any_deadline<'a>(pools: &[&'a Pool], deadline: Instant) -> Result<(usize, Permit<'a>), AcquireError> {
    any(pools, Until::at(deadline))
}

fn any<'a>(pools: &[&'a Pool], until: Until) -> Result<(usize, Permit<'a>), AcquireError> {
    if pools.is_empty() {
        return Err(AcquireError::NoPools);
    }
    match choose(pools, until, false) {
        Ok((at, taken)) => Ok((at, pools[at].permit(taken, here()))),
        Err(SelectError::Dead { arm, .. }) => Err(pools[arm].dead()),
        Err(SelectError::WouldBlock) => Err(AcquireError::WouldBlock),
        Err(SelectError::Timeout) => Err(AcquireError::Timeout),
        Err(SelectError::TwoArenas { first, second }) => Err(AcquireError::TwoArenas { first, second }),
        Err(SelectError::Nothing) => Err(AcquireError::NoPools),
        Err(SelectError::Arena(e)) => Err(AcquireError::Arena(e)),
        Err(SelectError::System(e)) => Err(AcquireError::System(e)),
    }
}

/// A choice that is made many times: the arms are listed once, and making it allocates nothing.
///
/// An arm consumes a wake-up of a semaphore or takes a permit of a pool. Exactly one arm happens; the others are as if
/// they had not been there. In each object the choice waits in the order of arrival. Of several arms that are ready each
/// is as likely, unless it is [`biased`](Select::biased). The same object may occur more than once, private and named ones
/// may be mixed; objects of two different named arenas may not.
///
/// [`select!`](crate::select!) is shorter where a choice is made once.
///
/// Paper: nix-semaphores-tubes, 2.2.3 and 2.3.3 (`altsems`).
///
/// ```
/// use chappe_sync::{Pool, Select, Semaphore};
/// let (stop, slots) = (Semaphore::private(0)?, Pool::private(1)?);
/// let mut select = Select::new();
/// let s = select.down(&stop);
/// let p = select.acquire(&slots);
/// let chosen = select.wait()?;
/// assert_eq!(chosen.arm(), p);
/// let permit = chosen.permit();
/// stop.up()?;
/// assert_eq!(select.wait()?.arm(), s);
/// # drop(permit);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Select<'a> {
    arms: Vec<&'a dyn Operation>,
    /// What each arm takes permits of, if it does.
    pools: Vec<Option<&'a Pool>>,
    numbers: Vec<usize>,
    next: usize,
    biased: bool,
}

impl std::fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Select of {} arms", self.arms.len())
    }
}

impl<'a> Select<'a> {
    /// A choice of nothing yet.
    pub fn new() -> Select<'a> {
        Select::default()
    }

    fn add(&mut self, arm: &'a dyn Operation, pool: Option<&'a Pool>) -> usize {
        self.arms.push(arm);
        self.pools.push(pool);
        self.numbers.push(self.next);
        self.next += 1;
        self.next - 1
    }

    /// Adds an arm that takes a permit; answers its number.
    pub fn acquire(&mut self, pool: &'a Pool) -> usize {
        self.add(pool, Some(pool))
    }

    /// Adds an arm that consumes a wake-up; answers its number.
    pub fn down(&mut self, semaphore: &'a Semaphore) -> usize {
        self.add(semaphore, None)
    }

    /// Takes an arm out. The other arms keep their numbers. An unknown number is ignored.
    pub fn remove(&mut self, arm: usize) {
        if let Ok(at) = self.numbers.binary_search(&arm) {
            self.arms.remove(at);
            self.pools.remove(at);
            self.numbers.remove(at);
        }
    }

    /// With `true`: of several arms that are ready the first listed is taken, instead of any.
    pub fn biased(&mut self, yes: bool) -> &mut Self {
        self.biased = yes;
        self
    }

    /// Waits for one.
    ///
    /// # Errors
    /// `Dead` if an arm's object is or gets removed; `TwoArenas`, `Nothing`, `Arena`, `System`.
    pub fn wait(&self) -> Result<Chosen<'a>, SelectError> {
        self.made(Until::Forever)
    }

    /// Takes one that is ready, without waiting.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`Select::wait`].
    pub fn try_wait(&self) -> Result<Chosen<'a>, SelectError> {
        self.made(Until::Now)
    }

    /// Waits for one, at most for `duration`.
    ///
    /// # Errors
    /// `Timeout`; else as [`Select::wait`].
    pub fn wait_timeout(&self, duration: Duration) -> Result<Chosen<'a>, SelectError> {
        self.made(Until::after(duration))
    }

    /// Waits for one, at most until `deadline`.
    ///
    /// # Errors
    /// `Timeout`; else as [`Select::wait`].
    pub fn wait_deadline(&self, deadline: Instant) -> Result<Chosen<'a>, SelectError> {
        self.made(Until::at(deadline))
    }

    fn made(&self, until: Until) -> Result<Chosen<'a>, SelectError> {
        match choose(&self.arms, until, self.biased) {
            Ok((at, taken)) => {
                let permit = self.pools[at].map(|pool| pool.permit(taken, here()));
                Ok(Chosen { arm: self.numbers[at], permit })
            }
            Err(SelectError::Dead { arm, name }) => Err(SelectError::Dead { arm: self.numbers[arm], name }),
            Err(e) => Err(e),
        }
    }
}

/// What a choice came to.
#[derive(Debug)]
#[must_use = "what was chosen is taken: a permit that is not kept is given back at once"]
pub struct Chosen<'a> {
    arm: usize,
    permit: Option<Permit<'a>>,
}

impl<'a> Chosen<'a> {
    /// The number of the arm, as it was given when the arm was added.
    pub fn arm(&self) -> usize {
        self.arm
    }

    /// The permit that was taken.
    ///
    /// # Panics
    /// If the arm takes none (a `down`).
    #[track_caller]
    pub fn permit(self) -> Permit<'a> {
        let arm = self.arm;
        self.permit.unwrap_or_else(|| panic!("arm {arm} of the choice is a down: it has no permit"))
    }
}

/// An arm of [`select!`](crate::select!) that happened, or whose object is dead.
#[doc(hidden)]
pub struct Fired<'a> {
    arm: usize,
    chosen: Option<Chosen<'a>>,
}

impl<'a> Fired<'a> {
    /// What the macro makes of a choice: `None` for the default arm.
    ///
    /// # Panics
    /// When the choice could not be made at all.
    #[track_caller]
    pub fn new(made: Result<Chosen<'a>, SelectError>) -> Option<Fired<'a>> {
        match made {
            Ok(chosen) => Some(Fired { arm: chosen.arm, chosen: Some(chosen) }),
            Err(SelectError::Dead { arm, .. }) => Some(Fired { arm, chosen: None }),
            Err(SelectError::WouldBlock | SelectError::Timeout) => None,
            Err(e) => panic!("select!: {e}"),
        }
    }
    /// Its number.
    pub fn arm(&self) -> usize {
        self.arm
    }
    /// The value of a `down` arm.
    pub fn down(self, semaphore: &Semaphore) -> Result<(), DownError> {
        self.chosen.map(|_| ()).ok_or_else(|| semaphore.dead())
    }
    /// The value of an `acquire` arm.
    pub fn acquire(self, pool: &Pool) -> Result<Permit<'a>, AcquireError> {
        self.chosen.map(Chosen::permit).ok_or_else(|| pool.dead())
    }
}

/// Exactly one of several operations, whichever can be done first.
///
/// | arm | its value |
/// |---|---|
/// | `down(semaphore) -> r => ...` | `Result<(), DownError>`: an error only if the semaphore is dead |
/// | `acquire(pool) -> permit => ...` | `Result<Permit, AcquireError>`: an error only if the pool is dead |
/// | `default => ...` | none is ready |
/// | `default(duration) => ...` | none was ready for so long |
///
/// The arms are as in [`Select`](crate::Select): each that is ready is as likely, or, after `biased;`, the first that is
/// ready is taken. `break`, `continue` and `return` in an arm's expression mean the caller's.
///
/// # Panics
/// If the choice cannot be made at all: objects of two named arenas, no slot in the arena. [`Select`](crate::Select) gives
/// errors instead.
///
/// ```
/// use chappe_sync::{Pool, Semaphore, select};
/// use std::time::Duration;
/// let (stop, slots) = (Semaphore::private(0)?, Pool::private(1)?);
/// let got = select! {
///     down(stop) -> r => { r?; None }
///     acquire(slots) -> permit => Some(permit?),
///     default(Duration::from_secs(1)) => panic!("a slot was free"),
/// };
/// assert!(got.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[macro_export]
macro_rules! select {
    (biased; $($arms:tt)*) => {{
        let mut select = $crate::Select::new();
        select.biased(true);
        $crate::__select!(select [] [] $($arms)*)
    }};
    ($($arms:tt)*) => {{
        let mut select = $crate::Select::new();
        $crate::__select!(select [] [] $($arms)*)
    }};
}

/// Collects the arms of [`select!`](crate::select!) one by one: `select [arms done] [the default] arms to do`.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    ($select:ident [$($done:tt)*] [$($default:tt)*] , $($rest:tt)*) => {
        $crate::__select!($select [$($done)*] [$($default)*] $($rest)*)
    };
    ($select:ident [$($done:tt)*] [$($default:tt)*] down($on:expr) -> $r:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@add $select [$($done)*] [$($default)*] down Semaphore ($on) ($r) ($body) $($rest)*)
    };
    ($select:ident [$($done:tt)*] [$($default:tt)*] down($on:expr) -> $r:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@add $select [$($done)*] [$($default)*] down Semaphore ($on) ($r) ($body) $($($rest)*)?)
    };
    ($select:ident [$($done:tt)*] [$($default:tt)*] acquire($on:expr) -> $r:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@add $select [$($done)*] [$($default)*] acquire Pool ($on) ($r) ($body) $($rest)*)
    };
    ($select:ident [$($done:tt)*] [$($default:tt)*] acquire($on:expr) -> $r:pat => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!(@add $select [$($done)*] [$($default)*] acquire Pool ($on) ($r) ($body) $($($rest)*)?)
    };
    ($select:ident [$($done:tt)*] [] default => $body:block $($rest:tt)*) => {
        $crate::__select!($select [$($done)*] [now ($body)] $($rest)*)
    };
    ($select:ident [$($done:tt)*] [] default => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!($select [$($done)*] [now ($body)] $($($rest)*)?)
    };
    ($select:ident [$($done:tt)*] [] default($time:expr) => $body:block $($rest:tt)*) => {
        $crate::__select!($select [$($done)*] [within ($time) ($body)] $($rest)*)
    };
    ($select:ident [$($done:tt)*] [] default($time:expr) => $body:expr $(, $($rest:tt)*)?) => {
        $crate::__select!($select [$($done)*] [within ($time) ($body)] $($($rest)*)?)
    };
    (@add $select:ident [$($done:tt)*] [$($default:tt)*] $verb:ident $kind:ident ($on:expr) ($r:pat) ($body:expr) $($rest:tt)*) => {{
        let on: &$crate::$kind = &$on;
        let arm = $select.$verb(on);
        $crate::__select!($select [$($done)* {arm on $verb ($r) ($body)}] [$($default)*] $($rest)*)
    }};
    ($select:ident [$($done:tt)*] []) => {
        match $crate::Fired::new($select.wait()) {
            Some(fired) => $crate::__select!(@fire fired $($done)*),
            None => unreachable!("a choice that has no default waits"),
        }
    };
    ($select:ident [$($done:tt)*] [now ($default:expr)]) => {
        match $crate::Fired::new($select.try_wait()) {
            Some(fired) => $crate::__select!(@fire fired $($done)*),
            None => $default,
        }
    };
    ($select:ident [$($done:tt)*] [within ($time:expr) ($default:expr)]) => {
        match $crate::Fired::new($select.wait_timeout($time)) {
            Some(fired) => $crate::__select!(@fire fired $($done)*),
            None => $default,
        }
    };
    (@fire $fired:ident $({$arm:ident $on:ident $verb:ident ($r:pat) ($body:expr)})*) => {
        $(if $fired.arm() == $arm {
            let $r = $fired.$verb($on);
            $body
        } else)* {
            unreachable!("an arm that is none of the choice's")
        }
    };
}
