//! The batches of an arena's objects.

use super::Map;
#[cfg(feature = "sim")]
use crate::batches::PROCESSES;
use crate::batches::{BATCHES, Batch};
use chappe_plat::atomic::AtomicU64;
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;

impl Map {
    /// Where this process may have the object's waiters in the order of arrival.
    #[inline]
    pub fn batch(&self, object: u32) -> Option<&Batch> {
        let at = object as usize % BATCHES;
        #[cfg(feature = "sim")]
        if self.batches.enlisting.is_empty() {
            let process = chappe_plat::process::pid() as usize % PROCESSES;
            return self.batches.named.get().then(|| &self.batches.all[process * BATCHES + at]);
        }
        self.batches.all.get(at)
    }

    /// In a world whose processes have batches of a named arena.
    #[cfg(feature = "sim")]
    pub fn keep_batches(&self) {
        self.batches.named.set(true);
    }

    /// In a forked child, which has one thread: nobody there goes on with what the parent's threads were at. In the parent this does nothing.
    #[cfg(not(feature = "sim"))]
    pub fn forget_parents_batches(&self) {
        let now = chappe_plat::process::incarnation();
        // Relaxed, these: only the child's one thread finds another number.
        if self.batches.incarnation.swap(now, Ordering::Relaxed) == now {
            return;
        }
        // Relaxed: as above.
        self.batches.enlisting.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.batches.all.iter().for_each(|batch| batch.tag.store(0, Ordering::Relaxed)); // Relaxed: as above.
    }

    /// The ticket with which a member is just setting its bits; 0: it is not.
    #[inline]
    pub fn enlisting(&self, member: u32) -> Option<&AtomicU64> {
        #[cfg(feature = "sim")]
        if self.batches.enlisting.is_empty() && !self.batches.named.get() {
            return None;
        }
        let own = self.batches.enlisting.get(member as usize);
        Some(own.unwrap_or_else(|| &self.member(member).alias))
    }

    /// All waiters of smaller tickets may be in a batch that some process has of the object.
    #[inline]
    pub fn batched(&self, object: u32) -> &AtomicU64 {
        &self.header().batched[object as usize % BATCHES]
    }

    /// How often a waiter came late, so that a batch of the object may lack it.
    #[inline]
    pub fn late(&self, object: u32) -> &AtomicU64 {
        &self.header().late[object as usize % BATCHES]
    }
}
