//! Taking one permit of a pool.

use super::Pool;
use crate::error::AcquireError;
use crate::guard::{OwnedPermit, Permit};
use crate::hold::Hold;
use chappe_wait::attachment::{attachment_at_hand, here, party, party_at_hand};
use chappe_wait::cell::Word;
use chappe_wait::operation::Taken;
use chappe_wait::patience::Until;
use std::time::Duration;

impl Pool {
    /// Takes a permit; blocks until one is free, in the order of arrival. A handled signal does not end the wait.
    ///
    /// If a permit is free and no thread waits: one compare-and-swap, no system call, no allocation (after the thread's first use of
    /// the arena).
    ///
    /// # Errors
    /// `Dead` if the pool is or gets removed; `Arena` if the thread cannot become a member; `System`.
    #[inline(always)]
    pub fn acquire(&self) -> Result<Permit<'_>, AcquireError> {
        self.get(Until::Forever)
    }

    /// Takes a permit if one is free and no thread waits for it. Does not wait for one (only, for a tenth of a second at most, for
    /// the processes of a leased job that are just ending). Permits of dead holders are recovered first.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`Pool::acquire`].
    #[inline(always)]
    pub fn try_acquire(&self) -> Result<Permit<'_>, AcquireError> {
        self.get(Until::Now)
    }

    crate::timed::timed! {
        /// Takes a permit, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`Pool::acquire`].
        pub fn acquire_timeout, acquire_deadline(&self) -> Result<Permit<'_>, AcquireError> { |until|
            self.get(until())
        }
    }

    /// As [`Pool::acquire`], for a permit that belongs to the process and may go from thread to thread.
    ///
    /// # Errors
    /// As [`Pool::acquire`].
    pub fn acquire_owned(&self) -> Result<OwnedPermit, AcquireError> {
        self.get_owned(Until::Forever)
    }

    /// As [`Pool::try_acquire`], for a permit that belongs to the process.
    ///
    /// # Errors
    /// As [`Pool::try_acquire`].
    pub fn try_acquire_owned(&self) -> Result<OwnedPermit, AcquireError> {
        self.get_owned(Until::Now)
    }

    /// As [`Pool::acquire_timeout`], for a permit that belongs to the process.
    ///
    /// # Errors
    /// As [`Pool::acquire_timeout`].
    pub fn acquire_owned_timeout(&self, duration: Duration) -> Result<OwnedPermit, AcquireError> {
        self.get_owned(Until::after(duration))
    }

    #[inline]
    fn get_owned(&self, until: Until) -> Result<OwnedPermit, AcquireError> {
        match self.get_owned_now() {
            Some(hold) => Ok(OwnedPermit::of(self, hold)),
            None => self.get(until)?.into_owned(self),
        }
    }

    // The permit is assembled here, from single words: an aggregate passed through memory from several places would
    // cost more than both swaps.
    #[inline(always)]
    fn get(&self, until: Until) -> Result<Permit<'_>, AcquireError> {
        if let Some(permit) = self.get_now::<true>() {
            return Ok(permit);
        }
        match self.get_slow(until) {
            Ok(taken) => Ok(self.permit(Taken { position: taken.position, word: taken.word }, here())),
            Err(e) => Err(e),
        }
    }

    /// The first permit, if it is free, no thread waits, and the caller has an attachment at hand. `LOOKS`: every so many times it considers a bias
    /// for the pool; without `LOOKS` it answers `None` when that is due.
    #[inline(always)]
    pub(crate) fn get_now<const LOOKS: bool>(&self) -> Option<Permit<'_>> {
        let (word, incarnation) = if self.biased {
            // SAFETY: nothing here leaves an arena, or looks for an attachment.
            let attachment = unsafe { attachment_at_hand(self.handle.map) }?;
            (self.take_biased::<LOOKS>(&party(attachment), attachment)?.word, attachment.incarnation as u32)
        } else {
            let (me, incarnation) = party_at_hand(self.handle.map)?;
            (self.take_one(&me)?.word, incarnation)
        };
        Some(self.permit(Taken { position: 0, word }, incarnation))
    }

    /// As [`Pool::get_now`], for the process, if it is a member: one swap takes the permit, which is at no moment the thread's. `None` for a
    /// pool that may be biased, which is this process's alone.
    #[inline(always)]
    pub(crate) fn get_owned_now(&self) -> Option<Hold> {
        if self.biased {
            return None;
        }
        Some(Hold::new(self, Taken { position: 0, word: Word(self.take_owned_now()?) }, here()))
    }

    #[inline]
    pub(crate) fn permit(&self, taken: Taken, incarnation: u32) -> Permit<'_> {
        Permit::new(self, taken, incarnation)
    }
}
