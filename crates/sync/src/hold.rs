//! A permit without a pool that is borrowed, and without a destructor.

use crate::drain::cell_of;
use crate::error::{AcquireError, LeaseError};
use crate::lease::{self, Lease};
use crate::permit::give;
use crate::pool::Pool;
use chappe_arena::{Map, Place};
use chappe_plat::process;
use chappe_wait::attachment::process_attachment;
use chappe_wait::cell::{Tag, Word};
use chappe_wait::operation::Taken;

/// A permit, as a value: copied it is the same permit, dropped it is still held.
#[derive(Clone, Copy)]
pub struct Hold {
    map: &'static Map,
    place: Place,
    taken: Taken,
    incarnation: u32,
}

impl Hold {
    #[inline(always)]
    pub(crate) fn new(pool: &Pool, taken: Taken, incarnation: u32) -> Hold {
        Hold { map: pool.handle.map, place: pool.handle.place, taken, incarnation }
    }

    pub(crate) fn parts(&self) -> (Taken, u32) {
        (self.taken, self.incarnation)
    }

    fn pool(&self) -> Pool {
        Pool::at(self.map, self.place)
    }

    /// What distinguishes this permit from all that its pool's first permit has been, and will be; never 0.
    #[inline(always)]
    pub fn bits(&self) -> u64 {
        self.taken.word.0
    }

    /// The permit of a pool of one that had these bits in this process.
    #[inline(always)]
    pub fn of_bits(pool: &Pool, bits: u64, incarnation: u64) -> Hold {
        Hold::new(pool, Taken { position: 0, word: Word(bits) }, incarnation as u32)
    }

    /// Makes a thread's permit of a named pool the process's: any thread may give it back, and it returns when the process dies, not when the
    /// thread does. Inner error: the thread's permit, which could not be converted.
    ///
    /// # Errors
    /// `Arena` if the process cannot become a member; `WouldBlock` if it was taken by force just then.
    ///
    /// # Safety
    /// It is the calling thread's, and no biased one.
    pub unsafe fn into_process(self) -> Result<Hold, Box<(Hold, AcquireError)>> {
        let process = process_attachment(self.map).map_err(|e| Box::new((self, AcquireError::Arena(e))))?;
        let word = self.taken.word.held(process.index, process.generation);
        match cell_of(self.map, self.place, self.taken.position) {
            Some(cell) if cell.swap(self.taken.word, word) => Ok(Hold { taken: Taken { word, ..self.taken }, ..self }),
            _ => Err(Box::new((self, AcquireError::WouldBlock))),
        }
    }

    /// Which of the pool's permits it is, counted from 0.
    pub fn index(&self) -> u32 {
        self.taken.position
    }

    /// Whether this is the process that took it.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        process::is_incarnation(self.incarnation)
    }

    /// As [`Permit::is_valid`](crate::Permit::is_valid).
    ///
    /// # Safety
    /// A thread's permit is looked at by that thread.
    pub unsafe fn is_valid(&self) -> bool {
        self.is_here() && self.pool().still(self.taken)
    }

    /// Gives it back, as dropping a permit does.
    ///
    /// # Safety
    /// A thread's permit is given back by that thread, and only once.
    // By reference, and word by word: words that were just written cannot be read in larger pieces without a stall.
    #[inline(always)]
    pub unsafe fn release(&self) {
        if self.is_here() {
            // SAFETY: the caller's promise, and just seen.
            unsafe { self.release_here() };
        }
    }

    /// As [`Hold::release`], for a caller that has just checked that this is the process that took it.
    ///
    /// # Safety
    /// As for [`Hold::release`].
    #[inline(always)]
    pub unsafe fn release_here(&self) {
        if self.is_leased() {
            lease::end(self.map, self.place, self.taken.position, self.taken.word);
        } else {
            give(self.map, self.place, self.map.object(self.place.index), self.taken);
        }
    }

    /// Whether it is a lease.
    pub fn is_leased(&self) -> bool {
        self.taken.word.tag() == Tag::Leased
    }

    /// Gives leases of one pool back, as [`Hold::release`] does each, with one look for the jobs of all of them.
    ///
    /// # Safety
    /// As for [`Hold::release`], of each; and they are of one pool.
    pub unsafe fn release_leases(holds: &[Hold]) {
        if let Some(first) = holds.first().filter(|first| first.is_here()) {
            let all: Vec<Taken> = holds.iter().map(|hold| hold.taken).collect();
            lease::end_each(first.map, first.place, &all);
        }
    }

    /// Whether both are one permit, had once.
    pub fn is(&self, other: &Hold) -> bool {
        self.is_of_pool_of(other) && (self.index(), self.taken.word) == (other.index(), other.taken.word)
    }

    /// Whether both are, or were, of one pool.
    pub fn is_of_pool_of(&self, other: &Hold) -> bool {
        std::ptr::eq(self.map, other.map) && self.place == other.place
    }

    /// As [`Permits::lease`](crate::Permits::lease): one lease for all of them.
    ///
    /// # Errors
    /// As [`Permits::lease`](crate::Permits::lease); some may have become leases by then, as [`Hold::take_back_lease`] undoes it.
    ///
    /// # Safety
    /// As for [`Hold::release`], of each; and they are of one pool.
    pub unsafe fn lease_many(holds: &mut [Hold]) -> Result<Lease, LeaseError> {
        let Some(&Hold { map, place, .. }) = holds.first() else { return Err(LeaseError::Lost) };
        if !holds.iter().all(Hold::is_here) {
            return Err(LeaseError::Lost);
        }
        lease::begin(map, place, holds.iter_mut().map(|hold| &mut hold.taken))
    }

    /// Takes a lease back that [`Hold::lease_many`] has just made of `before`, and whose mark no job was told. A permit that was a lease before
    /// stays one: its job may bear the mark.
    ///
    /// # Safety
    /// As for [`Hold::release`].
    pub unsafe fn take_back_lease(&mut self, before: Hold) {
        // The exact word: a permit that was taken away by force meanwhile is left alone.
        if cell_of(self.map, self.place, self.taken.position)
            .is_some_and(|cell| cell.swap(self.taken.word, before.taken.word))
        {
            self.taken = before.taken;
        }
    }
}
