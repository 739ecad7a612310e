//! The guards of permits: permits of a thread, and permits of a process.

use crate::drain::cell_of;
use crate::error::{AcquireError, LeaseError};
use crate::hold::Hold;
use crate::lease::{self, Lease};
use crate::many::Many;
use crate::pool::Pool;
use chappe_plat::process;
use chappe_wait::attachment::process_attachment;
use chappe_wait::operation::Taken;
use std::marker::PhantomData;

/// A permit of the calling thread. It goes back when it is dropped, and when the thread ends or dies, however that happens.
///
/// In a child made by fork it is void: the parent still has it.
#[must_use = "a permit that is not kept is given back at once"]
pub struct Permit<'a> {
    pool: &'a Pool,
    taken: Taken,
    /// The process that it belongs to: a forked child has another incarnation.
    incarnation: u32,
    here: PhantomData<*const ()>,
}

impl std::fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({} of {:?})", self.index(), self.pool.name())
    }
}

impl<'a> Permit<'a> {
    #[inline(always)]
    pub(crate) fn new(pool: &'a Pool, taken: Taken, incarnation: u32) -> Permit<'a> {
        Permit { pool, taken, incarnation, here: PhantomData }
    }

    /// Which of the pool's permits it is, counted from 0.
    pub fn index(&self) -> u32 {
        self.taken.position
    }

    /// The pool it belongs to.
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// Gives it back, as dropping it does.
    #[inline(always)]
    pub fn release(self) {}

    /// Whether the permit still belongs to this guard: false once it was taken by force or the pool was removed, and in a forked child.
    pub fn is_valid(&self) -> bool {
        process::is_incarnation(self.incarnation) && self.pool.still(self.taken)
    }

    /// Makes it a lease, too: it is free only when it was given back *and* the job that inherits the lease has ended.
    /// Take the lease before the job starts. Named pools only.
    ///
    /// # Errors
    /// `Lost` if it was taken by force, or in a forked child; `Private`, `Leased`; `Arena`, `Lock`.
    pub fn lease(&mut self) -> Result<Lease, LeaseError> {
        if !process::is_incarnation(self.incarnation) {
            return Err(LeaseError::Lost);
        }
        lease::begin(self.pool.handle.map, self.pool.handle.place, std::iter::once(&mut self.taken))
    }

    #[inline(always)]
    pub(crate) fn into_hold(self) -> Hold {
        let hold = Hold::new(self.pool, self.taken, self.incarnation);
        std::mem::forget(self);
        hold
    }

    pub(crate) fn into_owned(self, pool: &Pool) -> Result<OwnedPermit, AcquireError> {
        let process = process_attachment(pool.handle.map)?;
        let word = self.taken.word.held(process.index, process.generation);
        let taken = Taken { word, ..self.taken };
        let mine = self.taken.word;
        let incarnation = self.incarnation;
        std::mem::forget(self);
        let cell = cell_of(pool.handle.map, pool.handle.place, taken.position);
        if cell.is_some_and(|c| c.swap(mine, word)) {
            return Ok(OwnedPermit { pool: pool.clone(), taken, incarnation });
        }
        // The permit was taken by force within these few instructions.
        Err(AcquireError::WouldBlock)
    }
}

impl Drop for Permit<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if process::is_incarnation(self.incarnation) {
            self.pool.back(self.taken);
        }
    }
}

/// A permit of the process: it may go from thread to thread. It goes back when it is dropped or when the whole process
/// has ended (confirmed by its pidfd), not with the thread that took it.
///
/// In a child made by fork it is void.
#[must_use = "a permit that is not kept is given back at once"]
pub struct OwnedPermit {
    pool: Pool,
    taken: Taken,
    /// The process that it belongs to: a forked child has another incarnation.
    incarnation: u32,
}

impl std::fmt::Debug for OwnedPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnedPermit({} of {:?})", self.index(), self.pool.name())
    }
}

impl OwnedPermit {
    /// Which of the pool's permits it is, counted from 0.
    pub fn index(&self) -> u32 {
        self.taken.position
    }

    /// The pool it belongs to.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Gives it back, as dropping it does.
    #[inline(always)]
    pub fn release(self) {}

    /// Whether the permit still belongs to this guard: false once it was taken by force or the pool was removed, and in a forked child.
    pub fn is_valid(&self) -> bool {
        process::is_incarnation(self.incarnation) && self.pool.still(self.taken)
    }
}

impl OwnedPermit {
    pub(crate) fn of(pool: &Pool, hold: Hold) -> OwnedPermit {
        let (taken, incarnation) = hold.parts();
        OwnedPermit { pool: pool.clone(), taken, incarnation }
    }

    pub(crate) fn into_hold(self) -> Hold {
        let hold = Hold::new(&self.pool, self.taken, self.incarnation);
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: never used again; a private pool's last handle goes with it, as it would have with the permit.
        unsafe { std::ptr::drop_in_place(&raw mut this.pool) };
        hold
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        if process::is_incarnation(self.incarnation) {
            self.pool.back(self.taken);
        }
    }
}

/// Several permits of the calling thread. All go back when this is dropped, and when the thread ends or dies, however that happens.
///
/// In a child made by fork they are void: the parent still has them.
#[must_use = "permits that are not kept are given back at once"]
pub struct Permits<'a> {
    pool: &'a Pool,
    many: Many,
    /// The process that they belong to: a forked child has another incarnation.
    incarnation: u32,
    here: PhantomData<*const ()>,
}

impl std::fmt::Debug for Permits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permits({:?} of {:?})", self.indices().collect::<Vec<_>>(), self.pool.name())
    }
}

impl<'a> Permits<'a> {
    pub(crate) fn new(pool: &'a Pool, many: Many, incarnation: u32) -> Permits<'a> {
        Permits { pool, many, incarnation, here: PhantomData }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.many.len()
    }

    /// Whether there are none: `n` was 0.
    pub fn is_empty(&self) -> bool {
        self.many.len() == 0
    }

    /// Which of the pool's permits they are, counted from 0, in ascending order.
    pub fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.many.all().map(|taken| taken.position)
    }

    /// The pool they belong to.
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// Gives them back, as dropping does.
    pub fn release(self) {}

    /// Whether all of them still belong to this guard: false once one was taken by force or the pool was removed, and in a
    /// forked child.
    pub fn is_valid(&self) -> bool {
        process::is_incarnation(self.incarnation) && self.many.all().all(|taken| self.pool.still(taken))
    }

    /// The permits that were taken away by force; all, if the pool was removed.
    pub fn lost(&self) -> impl Iterator<Item = u32> + '_ {
        self.many.all().filter(|taken| !self.pool.still(*taken)).map(|taken| taken.position)
    }

    /// Makes all of them leases, with one file and one mark. See [`Permit::lease`].
    ///
    /// # Errors
    /// As [`Permit::lease`]. Those that became leases before the error stay leases.
    pub fn lease(&mut self) -> Result<Lease, LeaseError> {
        if !process::is_incarnation(self.incarnation) {
            return Err(LeaseError::Lost);
        }
        lease::begin(self.pool.handle.map, self.pool.handle.place, self.many.all_mut())
    }
}

/// Several permits of the process, taken at one moment: they may go from thread to thread. All go back when this is dropped, or when the whole
/// process has ended (confirmed by its pidfd).
///
/// In a child made by fork they are void.
#[must_use = "permits that are not kept are given back at once"]
pub struct OwnedPermits {
    pool: Pool,
    many: Many,
    /// The process that they belong to: a forked child has another incarnation.
    incarnation: u32,
}

impl std::fmt::Debug for OwnedPermits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnedPermits({:?} of {:?})", self.indices().collect::<Vec<_>>(), self.pool.name())
    }
}

impl OwnedPermits {
    #[cfg(not(feature = "loom"))]
    pub(crate) fn new(pool: &Pool, many: Many) -> OwnedPermits {
        OwnedPermits { pool: pool.clone(), many, incarnation: chappe_wait::attachment::here() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.many.len()
    }

    /// Whether there are none: `n` was 0.
    pub fn is_empty(&self) -> bool {
        self.many.len() == 0
    }

    /// As [`Permits::indices`].
    pub fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.many.all().map(|taken| taken.position)
    }

    /// The pool they belong to.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Gives them back, as dropping does.
    pub fn release(self) {}

    /// As [`Permits::is_valid`].
    pub fn is_valid(&self) -> bool {
        process::is_incarnation(self.incarnation) && self.lost().next().is_none()
    }

    /// As [`Permits::lost`].
    pub fn lost(&self) -> impl Iterator<Item = u32> + '_ {
        self.many.all().filter(|taken| !self.pool.still(*taken)).map(|taken| taken.position)
    }
}

impl Drop for OwnedPermits {
    fn drop(&mut self) {
        if process::is_incarnation(self.incarnation) {
            self.pool.back_many(&mut self.many);
        }
    }
}

impl Permits<'_> {
    pub(crate) fn into_holds(mut self) -> impl Iterator<Item = Hold> {
        let (pool, incarnation) = (self.pool, self.incarnation);
        let many = std::mem::replace(&mut self.many, Many::new());
        many.into_all().map(move |taken| Hold::new(pool, taken, incarnation))
    }
}

impl Drop for Permits<'_> {
    fn drop(&mut self) {
        if process::is_incarnation(self.incarnation) {
            self.pool.back_many(&mut self.many);
        }
    }
}

impl Hold {
    /// Of a thread.
    #[inline(always)]
    pub fn of(permit: Permit<'_>) -> Hold {
        permit.into_hold()
    }

    /// Of the process.
    pub fn of_owned(permit: OwnedPermit) -> Hold {
        permit.into_hold()
    }

    /// Several of the process, in ascending order.
    #[cfg(not(feature = "loom"))]
    pub fn of_owned_many(mut permits: OwnedPermits, each: impl FnMut(Hold)) {
        let many = std::mem::replace(&mut permits.many, Many::new());
        many.into_all().map(|taken| Hold::new(&permits.pool, taken, permits.incarnation)).for_each(each);
    }

    /// Several of a thread, in ascending order.
    pub fn of_many(permits: Permits<'_>, each: impl FnMut(Hold)) {
        permits.into_holds().for_each(each);
    }
}
