//! What a choice took from the arm that it chose, and what each arm makes of that.

use crate::descriptor::outcome;
use crate::error::{AcquireError, DownError};
use crate::guard::Permit;
use crate::pool::Pool;
use crate::semaphore::Semaphore;
use chappe_wait::attachment::here;
use chappe_wait::operation::Taken;
use std::io;

/// What a choice took from the arm that it chose; nothing from a dead arm.
#[derive(Clone, Copy)]
pub struct Took(pub(crate) Option<Taken>);

/// The result of a `down` arm.
///
/// # Errors
/// `Dead` if the semaphore was removed.
#[inline]
pub fn down_of(semaphore: &Semaphore, took: Took) -> Result<(), DownError> {
    took.0.map(|_| ()).ok_or_else(|| semaphore.dead())
}

/// The permit of an `acquire` arm.
///
/// # Errors
/// `Dead` if the pool was removed.
#[inline]
#[track_caller]
pub fn permit_of(pool: &Pool, took: Took) -> Result<Permit<'_>, AcquireError> {
    let taken = took.0.ok_or_else(|| pool.dead())?;
    Ok(pool.permit(taken, here()))
}

/// The result of a `readable` or `writable` arm.
///
/// # Errors
/// The system's, if the descriptor could not be checked.
pub fn descriptor_of(took: Took) -> io::Result<()> {
    took.0.map_or(Ok(()), outcome)
}
