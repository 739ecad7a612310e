//! Acquiring one permit of any of several pools: of the first pool that has one.

use crate::choice::{How, choose};
use crate::error::{AcquireError, SelectError};
use crate::guard::Permit;
use crate::pool::Pool;
use chappe_wait::attachment::here;
use chappe_wait::operation::Mode;
use chappe_wait::patience::Until;

/// Takes one permit of the first pool that has one free; answers which pool, counted from 0. Waits until then, in each pool in the order of
/// arrival.
///
/// Fair: of several pools with a free permit, each is as likely. A pool may occur more than once.
///
/// # Errors
/// `Dead` if one of the pools is or gets removed; `TwoArenas`, `NoPools`; else as [`Pool::acquire`].
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

crate::timed::timed! {
    /// As [`acquire_any`], waiting at most for `timeout`.
    ///
    /// # Errors
    /// `Timeout`; else as [`acquire_any`].
    pub fn acquire_any_timeout, acquire_any_deadline<'a>(pools: &[&'a Pool]) -> Result<(usize, Permit<'a>), AcquireError> { |until|
        any(pools, until())
    }
}

fn any<'a>(pools: &[&'a Pool], until: Until) -> Result<(usize, Permit<'a>), AcquireError> {
    if pools.is_empty() {
        return Err(AcquireError::NoPools);
    }
    match choose(pools, How { until, biased: false, aim: Mode::Take }) {
        Ok((at, taken)) => Ok((at, pools[at].permit(taken, here()))),
        Err(SelectError::Dead { arm, .. }) => Err(pools[arm].dead()),
        Err(SelectError::WouldBlock) => Err(AcquireError::WouldBlock),
        Err(SelectError::Timeout) => Err(AcquireError::Timeout),
        Err(SelectError::TwoArenas { first, second }) => Err(AcquireError::TwoArenas { first, second }),
        Err(SelectError::Nothing) => Err(AcquireError::NoPools),
        Err(SelectError::Arena(e)) => Err(AcquireError::Arena(e)),
        Err(SelectError::System(e)) => Err(AcquireError::System(e)),
        Err(SelectError::Interrupted) => Err(AcquireError::Interrupted),
        Err(SelectError::Inherited { .. }) => unreachable!("a pool is nobody's"),
    }
}
