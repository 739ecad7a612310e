//! Taking what a job is to run under: one permit of whichever of some pools has one first, or several of one pool.

use crate::args::Acquire;
use crate::ended::{FAILED, TIMED_OUT, say};
use crate::line::{self, Line, held_by, named};
use crate::look::{Name, holder_text, permits_text, split};
use crate::names;
use crate::said::Failure;
use crate::time;
use anyhow::{Error, Result, anyhow, bail};
use chappe::{AcquireError, Lease, LeaseError, Permit, Permits, Pool, PoolError};
use std::time::{Duration, Instant};

/// What was taken.
pub enum Held<'a> {
    /// A permit of one of the pools.
    One(Permit<'a>),
    /// Several of the only pool.
    Many(Permits<'a>),
}

impl Held<'_> {
    /// Which of the pool's permits, in ascending order.
    pub fn indices(&self) -> Vec<u32> {
        match self {
            Held::One(permit) => vec![permit.index()],
            Held::Many(permits) => permits.indices().collect(),
        }
    }

    /// Those that were taken away by force.
    pub fn lost(&self) -> Vec<u32> {
        match self {
            Held::One(permit) => if permit.is_valid() { None } else { Some(permit.index()) }.into_iter().collect(),
            Held::Many(permits) => permits.lost().collect(),
        }
    }

    /// One lease on all of it.
    ///
    /// # Errors
    /// As [`Permit::lease`].
    pub fn lease(&mut self) -> Result<Lease, LeaseError> {
        match self {
            Held::One(permit) => permit.lease(),
            Held::Many(permits) => permits.lease(),
        }
    }
}

/// Permits as the library counts them.
pub fn permits(n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| anyhow!("a pool cannot have {n} permits: that is more than any pool can have"))
}

/// The pools to take from, made if that was asked for.
///
/// # Errors
/// That what is asked for makes no sense; else the library's.
pub fn pools(a: &Acquire) -> Result<Vec<Pool>> {
    let n = a.count;
    if n > 1 && a.pools.len() > 1 {
        bail!(
            "-n {n} needs all {n} permits from one pool, and {} are named ({}): a choice takes one permit of one pool, and \
             jobs that each had some of several pools would wait for each other for ever; name one pool with enough \
             permits, or leave -n out",
            a.pools.len(),
            a.pools.join(", ")
        );
    }
    if let Some(Some(most)) = a.create
        && n > 1
        && most < n.into()
    {
        bail!("--create={most} makes a pool that never has {n} permits at once; make it larger, or ask for fewer");
    }
    if a.create.is_some() {
        names::refuse_numbers(&a.pools, "pool", "--create=N")?;
        // Before anything is made.
        let arena = |name: &String| split(name).0.to_owned();
        if let Some(other) = a.pools.iter().find(|name| arena(name) != arena(&a.pools[0])) {
            let (first, second) = (arena(&a.pools[0]), arena(other));
            return Err(AcquireError::TwoArenas { first, second }.into());
        }
    }
    a.pools.iter().map(|name| open(name, a.create, n).map_err(|e| perhaps_a_count(name, e))).collect()
}

/// A number that is no pool's name was meant as something else.
fn perhaps_a_count(name: &str, e: Error) -> Error {
    let is_unknown = matches!(e.downcast_ref(), Some(PoolError::Unknown { .. }));
    if is_unknown && names::is_number(name) { anyhow!("{e}; did you mean `-n {name}`?") } else { e }
}

/// Refuses pools of which the process runs under a permit already: that one comes back only when the process that would wait for
/// another has ended.
///
/// # Errors
/// Which permit, and whose it is.
pub fn refuse_nested(pools: &[Pool]) -> Result<()> {
    for pool in pools {
        let Some(held) = pool.leased_around().into_iter().next() else { continue };
        let (permit, whose) = (Name::of(pool).permit(held.index), holder_text(&held));
        bail!(
            "this command runs under permit {permit} of pool `{}` already: {whose} has it, and gives it back only when this has ended. \
             One permit is enough for both; with --nested chappe waits for another one, perhaps for ever",
            pool.name()
        );
    }
    Ok(())
}

/// Attaches a pool, or makes it as `--create` has it.
///
/// # Errors
/// The pool's.
pub fn open(name: &str, create: Option<Option<u64>>, n: u32) -> Result<Pool> {
    match create {
        None => Ok(Pool::open(name)?),
        Some(Some(n)) => Ok(Pool::open_or_create(name, permits(n)?)?),
        Some(None) => loop {
            match Pool::open(name) {
                Err(PoolError::Unknown { .. }) => {}
                other => return Ok(other?),
            }
            match Pool::create(name, n) {
                // Another process was faster.
                Err(PoolError::Exists { .. }) => {}
                other => return Ok(other?),
            }
        },
    }
}

/// How long to wait.
#[derive(Clone, Copy)]
pub enum Until {
    /// Not at all.
    Now,
    /// As long as it takes.
    Forever,
    /// Until this time is over.
    Over(Duration),
}

impl Until {
    /// As `--timeout` and `--nonblock` have it.
    pub fn of(timeout: Option<Duration>, nonblock: bool) -> Until {
        match timeout {
            _ if nonblock => Until::Now,
            Some(patience) => Until::Over(patience),
            None => Until::Forever,
        }
    }
}

/// Pools that are removed meanwhile are left out, as long as there is another.
fn take(pools: &[Pool], n: u32, until: Until, json: bool) -> Result<(usize, Held<'_>), AcquireError> {
    let began = Instant::now();
    let mut left: Vec<usize> = (0..pools.len()).collect();
    loop {
        let arms: Vec<&Pool> = left.iter().map(|&at| &pools[at]).collect();
        let until = match until {
            Until::Over(patience) => Until::Over(patience.saturating_sub(began.elapsed())),
            other => other,
        };
        match take_of(&arms, n, until) {
            Err(AcquireError::Dead { pool }) if left.iter().any(|&at| !pools[at].is_removed()) => {
                left.retain(|&at| !pools[at].is_removed());
                say(
                    json,
                    &format!(
                        "pool {pool} was removed; chappe goes on with {}",
                        named(left.iter().map(|&at| &pools[at]))
                    ),
                );
            }
            got => return got.map(|(at, held)| (left[at], held)),
        }
    }
}

fn take_of<'a>(pools: &[&'a Pool], n: u32, until: Until) -> Result<(usize, Held<'a>), AcquireError> {
    if let ([pool], 2..) = (pools, n) {
        let all = match until {
            Until::Now => pool.try_acquire_many(n),
            Until::Forever => pool.acquire_many(n),
            Until::Over(patience) => pool.acquire_many_timeout(n, patience),
        };
        return Ok((0, Held::Many(all?)));
    }
    let (at, permit) = match until {
        Until::Now => chappe::try_acquire_any(pools),
        Until::Forever => chappe::acquire_any(pools),
        Until::Over(patience) => chappe::acquire_any_timeout(pools, patience),
    }?;
    Ok((at, Held::One(permit)))
}

/// Takes a permit of one of the pools, or `n` of the only one. Answers also of which pool.
///
/// # Errors
/// With the status that says which kind of failure it is; says what is waited for, and which processes hold it.
pub fn wait(pools: &[Pool], n: u32, until: Until, json: bool) -> Result<(usize, Held<'_>), Failure> {
    let got = match (take(pools, n, Until::Now, json), until) {
        (Err(AcquireError::WouldBlock), Until::Forever | Until::Over(_)) => {
            let all = pools.to_vec();
            let _line = Line::show(json, move || line::for_pools(&all, n));
            take(pools, n, until, json)
        }
        (got, _) => got,
    };
    let timed_out = |why| Failure { status: TIMED_OUT, why };
    got.map_err(|e| match (e, until) {
        (AcquireError::WouldBlock, _) if n > 1 => {
            let what = permits_text(n);
            timed_out(anyhow!("there are no {what} of {} to be had now; {}", named(pools), held_by(pools)))
        }
        (AcquireError::WouldBlock, _) => {
            timed_out(anyhow!("no permit of {} is free; {}", named(pools), held_by(pools)))
        }
        (AcquireError::Timeout, Until::Over(patience)) => timed_out(anyhow!(
            "timed out after {} waiting for {}; {}",
            time::show(patience),
            line::wanted(pools, n),
            held_by(pools)
        )),
        (e, _) => Failure { status: FAILED, why: e.into() },
    })
}
