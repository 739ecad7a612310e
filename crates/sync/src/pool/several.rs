//! The public interface of taking several permits of a pool at once. The protocol: `many`.

use super::Pool;
use crate::error::AcquireError;
use crate::guard::Permits;
use crate::lease;
use crate::many::{Many, give_all, take_many, wait_many};
use chappe_wait::attachment::{ThreadAttachment, attachment, watched};
use chappe_wait::attachment::{here, party};
use chappe_wait::cell::Tag;
use chappe_wait::operation::{Arm, Refused};
use chappe_wait::patience::{Until, patience};
use chappe_wait::wait::Parties;

impl Pool {
    /// Takes `n` permits at one moment, or blocks until so many are there. In the order of arrival: a waiter for several
    /// is not overtaken, and waiters behind it wait until it has got all of them.
    ///
    /// Up to eight allocate nothing.
    ///
    /// # Errors
    /// `TooMany` if the pool has fewer than `n`, or gets fewer while it waits; else as [`Pool::acquire`].
    pub fn acquire_many(&self, n: u32) -> Result<Permits<'_>, AcquireError> {
        self.get_many(n, Until::Forever)
    }

    /// Takes `n` permits if so many are free and no thread waits. Does not wait. If another thread takes permits at the same moment,
    /// the call may be refused although there would be enough: then it has given back what it had.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`Pool::acquire_many`].
    pub fn try_acquire_many(&self, n: u32) -> Result<Permits<'_>, AcquireError> {
        self.get_many(n, Until::Now)
    }

    crate::timed::timed! {
        /// Takes `n` permits, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as [`Pool::acquire_many`].
        pub fn acquire_many_timeout, acquire_many_deadline(&self, n: u32) -> Result<Permits<'_>, AcquireError> { |until|
            self.get_many(n, until())
        }
    }

    fn get_many(&self, n: u32, until: Until) -> Result<Permits<'_>, AcquireError> {
        let mut many = Many::new();
        attachment(self.handle.map, |attachment| self.get_many_attached(attachment, n, until, &mut many))??;
        Ok(Permits::new(self, many, here()))
    }

    fn get_many_attached(
        &self,
        attachment: &ThreadAttachment,
        n: u32,
        until: Until,
        many: &mut Many,
    ) -> Result<(), AcquireError> {
        let me = &party(attachment);
        let refused = |e| match e {
            Refused::Dead(_) => self.dead(),
            Refused::TooMany => self.too_many(n),
            Refused::TimedOut => AcquireError::Timeout,
            Refused::NoneFree => AcquireError::WouldBlock,
            Refused::Interrupted => AcquireError::Interrupted,
            Refused::Inherited(_) => unreachable!("a pool is nobody's"),
        };
        match take_many(self.handle.place, me, n, many) {
            Err(Refused::NoneFree) => {}
            other => return other.map_err(refused),
        }
        let deadline = match until {
            Until::Now if self.revive() => return take_many(self.handle.place, me, n, many).map_err(refused),
            Until::Now => return Err(AcquireError::WouldBlock),
            Until::Forever => None,
            Until::Time(at) => Some(at),
        };
        watched(attachment).map_err(AcquireError::System)?;
        let who = Parties { main: *me, private: None };
        wait_many(&who, &self.site(), n, deadline, &patience(attachment), many).map_err(refused)
    }

    pub(crate) fn too_many(&self, wanted: u32) -> AcquireError {
        AcquireError::TooMany { pool: self.handle.shown(), wanted, permits: self.permits() }
    }

    pub(crate) fn back_many(&self, many: &mut Many) {
        if many.all().any(|taken| taken.word.tag() == Tag::Leased) {
            lease::end_all(self.handle.map, self.handle.place, many.all());
            for taken in many.all().filter(|taken| taken.word.tag() != Tag::Leased) {
                self.back(taken);
            }
        } else {
            give_all(self.handle.map, self.handle.place, many);
        }
    }
}
