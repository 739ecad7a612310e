//! Choice among pools: exactly one permit, of whichever pool has one first.
//!
//! `altsems` of Nix (nix-semaphores-tubes, 2.3.3) as users know it. First every arm is tried, in a random rotation;
//! if none has a permit to give, one wait stands on all of them (the wait queue's head says how), so that a choice
//! over thousands costs one record and one bit an arm, whatever their number.
//!
//! Private and named pools mix: the wait word is then the one in the named arena. Two named arenas do not: no
//! process that shares only one of them could grant.

use crate::error::AcquireError;

use crate::guard::Permit;
use crate::patience::{Until, patience};
use crate::permit::{self, Refused, take};
use crate::pool::{Pool, here, party};
use crate::seat::{seat, watched};
use crate::wait::{Parties, Party};
use chappe_arena::Map;
use std::time::{Duration, Instant};

/// Takes one permit of whichever of the pools has one first; answers which pool, counted from 0. Waits in the order of
/// arrival in each of them.
///
/// Fair: of several pools with a free permit, each is as likely. A pool may occur more than once.
///
/// # Errors
/// `Dead` if one of them is or gets removed; `TwoArenas`, `NoPools`; else as [`Pool::acquire`].
pub fn acquire_any<'a>(pools: &[&'a Pool]) -> Result<(usize, Permit<'a>), AcquireError> {
    choose(pools, Until::Forever, false)
}

/// Takes one permit of any of the pools if one is free. Never sleeps.
///
/// # Errors
/// `WouldBlock`; else as [`acquire_any`].
pub fn try_acquire_any<'a>(pools: &[&'a Pool]) -> Result<(usize, Permit<'a>), AcquireError> {
    choose(pools, Until::Now, false)
}

/// As [`acquire_any`], waiting at most for `duration`.
///
/// # Errors
/// `Timeout`; else as [`acquire_any`].
pub fn acquire_any_timeout<'a>(pools: &[&'a Pool], duration: Duration) -> Result<(usize, Permit<'a>), AcquireError> {
    choose(pools, Until::after(duration), false)
}

/// As [`acquire_any`], waiting at most until `deadline`.
///
/// # Errors
/// `Timeout`; else as [`acquire_any`].
pub fn acquire_any_deadline<'a>(pools: &[&'a Pool], deadline: Instant) -> Result<(usize, Permit<'a>), AcquireError> {
    choose(pools, Until::at(deadline), false)
}

/// A choice that is made many times: the arms are listed once.
///
/// ```
/// use chappe_sync::{Pool, Select};
/// let (left, right) = (Pool::private(1)?, Pool::private(1)?);
/// let mut select = Select::new();
/// let l = select.acquire(&left);
/// let r = select.acquire(&right);
/// let held = left.acquire()?;
/// let (which, permit) = select.wait()?;
/// assert_eq!(which, r);
/// # drop((held, permit)); let _ = l;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Select<'a> {
    pools: Vec<&'a Pool>,
    numbers: Vec<usize>,
    next: usize,
    biased: bool,
}

impl<'a> Select<'a> {
    /// A choice of nothing yet.
    pub fn new() -> Select<'a> {
        Select::default()
    }

    /// Adds an arm; answers its number, which [`Select::wait`] gives back.
    pub fn acquire(&mut self, pool: &'a Pool) -> usize {
        self.pools.push(pool);
        self.numbers.push(self.next);
        self.next += 1;
        self.next - 1
    }

    /// Takes an arm out. The other arms keep their numbers. An unknown number is ignored.
    pub fn remove(&mut self, arm: usize) {
        if let Ok(at) = self.numbers.binary_search(&arm) {
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
    /// As [`acquire_any`].
    pub fn wait(&self) -> Result<(usize, Permit<'a>), AcquireError> {
        self.made(Until::Forever)
    }

    /// Takes one that is ready, without waiting.
    ///
    /// # Errors
    /// As [`try_acquire_any`].
    pub fn try_wait(&self) -> Result<(usize, Permit<'a>), AcquireError> {
        self.made(Until::Now)
    }

    /// Waits for one, at most for `duration`.
    ///
    /// # Errors
    /// As [`acquire_any_timeout`].
    pub fn wait_timeout(&self, duration: Duration) -> Result<(usize, Permit<'a>), AcquireError> {
        self.made(Until::after(duration))
    }

    /// Waits for one, at most until `deadline`.
    ///
    /// # Errors
    /// As [`acquire_any_deadline`].
    pub fn wait_deadline(&self, deadline: Instant) -> Result<(usize, Permit<'a>), AcquireError> {
        self.made(Until::at(deadline))
    }

    fn made(&self, until: Until) -> Result<(usize, Permit<'a>), AcquireError> {
        let (at, permit) = choose(&self.pools, until, self.biased)?;
        Ok((self.numbers[at], permit))
    }
}

/// The named arena of a choice, if any of it is in one, and the private one, if any is there.
fn arenas(pools: &[&Pool]) -> Result<(Option<&'static Map>, Option<&'static Map>), AcquireError> {
    let (mut named, mut private): (Option<&'static Map>, Option<&'static Map>) = (None, None);
    let mut last: *const Map = std::ptr::null();
    for pool in pools {
        if std::ptr::eq(pool.map, last) {
            continue;
        }
        last = pool.map;
        if pool.map.directory().is_none() {
            private = Some(pool.map);
            continue;
        }
        match named {
            Some(first) if !std::ptr::eq(first, pool.map) => {
                return Err(AcquireError::TwoArenas { first: first.name().into(), second: pool.map.name().into() });
            }
            _ => named = Some(pool.map),
        }
    }
    Ok((named, private))
}

fn choose<'a>(pools: &[&'a Pool], until: Until, biased: bool) -> Result<(usize, Permit<'a>), AcquireError> {
    let (named, private) = arenas(pools)?;
    let Some(main) = named.or(private) else { return Err(AcquireError::NoPools) };
    let second: Option<Party> = match private {
        Some(map) if named.is_some() => Some(seat(map, party)?),
        _ => None,
    };
    seat(main, |seat| {
        let who = Parties { main: party(seat), private: second };
        let first = if biased { 0 } else { roll(&seat.dice) % pools.len() };
        if let Some(found) = look(pools, &who, first)? {
            return Ok(found);
        }
        let deadline = match until {
            Until::Now => {
                // Each of them, not only the first that helps.
                let revived = pools.iter().filter(|p| p.revive()).count() > 0;
                let again = if revived { look(pools, &who, first)? } else { None };
                return again.ok_or(AcquireError::WouldBlock);
            }
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        watched(seat).map_err(AcquireError::System)?;
        match permit::wait_for(&who, pools, first, deadline, &patience(seat)) {
            Ok((at, taken)) => Ok((at, pools[at].permit(taken, here()))),
            Err(Refused::Dead(at)) => Err(pools[at].dead()),
            Err(Refused::TimedOut | Refused::NoneFree) => Err(AcquireError::Timeout),
        }
    })?
}

/// Tries every arm once, from `first` on.
fn look<'a>(pools: &[&'a Pool], who: &Parties, first: usize) -> Result<Option<(usize, Permit<'a>)>, AcquireError> {
    for k in 0..pools.len() {
        let at = if first + k < pools.len() { first + k } else { first + k - pools.len() };
        let pool = pools[at];
        let me = who.party(pool.map);
        if let Some(taken) = pool.take_one(me) {
            return Ok(Some((at, pool.permit(taken, here()))));
        }
        match take(pool.place, me) {
            Ok(taken) => return Ok(Some((at, pool.permit(taken, here())))),
            Err(Refused::Dead(_)) => return Err(pool.dead()),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// A cheap generator (xorshift, 32 bits), one a thread: which arm is tried first need not be secret.
fn roll(dice: &std::cell::Cell<u32>) -> usize {
    let mut x = dice.get();
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    dice.set(x);
    x as usize
}
