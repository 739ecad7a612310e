//! One value that few change and many read: each version is an epoch, and a version goes when its last reader has gone on.
//!
//! ```text
//!   version: n          slots: [ even versions | odd versions ]
//! ```
//!
//! A reader keeps the version that it read last, in a [`Reader`] of its own, and at each use compares one word: as long as nothing
//! was published there is nothing else to do. A writer puts the next version into the other slot, then counts up, then
//! empties the slot of the version before.
//!
//! - I1: when `version` says n, slot `n % 2` has version n, or a later one of the same parity, or is being emptied because `version` has
//!   gone on.
//! - Readers never wait for a writer: the slot that `version` names is not written until `version` has gone on; a
//!   reader that meets a writer there reads `version` again, and finds a newer one. Writers wait for each other, and
//!   for readers that are in the middle of cloning an `Arc`.
//!
//! The atomics are [`chappe_plat::atomic`]'s; the slots are locks of the standard library, of which readers only try.

use chappe_plat::atomic::{AtomicU64, Ordering, pause};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A value that is replaced as a whole.
pub struct Published<T> {
    version: AtomicU64,
    slots: [RwLock<Option<Arc<T>>>; 2],
    writer: Mutex<()>,
}

/// What one reader has read last.
pub struct Reader<T> {
    version: u64,
    value: Arc<T>,
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Reader { version: self.version, value: self.value.clone() }
    }
}

impl<T> Reader<T> {
    /// What was read last.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Which version that is.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl<T> Published<T> {
    /// With its first version.
    pub fn new(value: T) -> Published<T> {
        let slots = [RwLock::new(Some(Arc::new(value))), RwLock::new(None)];
        Published { version: AtomicU64::new(0), slots, writer: Mutex::new(()) }
    }

    /// A reader, at the newest version.
    pub fn reader(&self) -> Reader<T> {
        loop {
            if let Some(reader) = self.read() {
                return reader;
            }
            pause();
        }
    }

    fn read(&self) -> Option<Reader<T>> {
        // Acquire: pairs with the release in `replace`: the slot of this version was written before.
        let version = self.version.load(Ordering::Acquire);
        let slot = self.slots[(version % 2) as usize].try_read().ok()?;
        Some(Reader { version, value: slot.clone()? })
    }

    /// The newest version, through a reader that may have it already: then this is one load.
    #[inline(always)]
    pub fn get<'r>(&self, reader: &'r mut Reader<T>) -> &'r Arc<T> {
        // Acquire: as in `read`; the same version has been read already.
        if self.version.load(Ordering::Acquire) != reader.version {
            self.go_on(reader);
        }
        &reader.value
    }

    /// Whether nothing was published since that version.
    #[inline(always)]
    pub fn is_newest(&self, version: u64) -> bool {
        // Acquire: as in `read`.
        self.version.load(Ordering::Acquire) == version
    }

    #[cold]
    fn go_on(&self, reader: &mut Reader<T>) {
        *reader = self.reader();
    }

    /// Publishes what `change` makes of the newest version. When this returns, every later [`get`](Self::get) answers it or a newer one.
    pub fn replace<E>(&self, change: impl FnOnce(&T) -> Result<T, E>) -> Result<(), E> {
        self.exchange(change).map(drop)
    }

    /// The same, and answers the version before: the caller frees it.
    pub fn exchange<E>(&self, change: impl FnOnce(&T) -> Result<T, E>) -> Result<Arc<T>, E> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: only writers change it, and this one holds their lock.
        let version = self.version.load(Ordering::Relaxed);
        let (old, new) = (&self.slots[(version % 2) as usize], &self.slots[(version as usize + 1) % 2]);
        let current = old.read().unwrap_or_else(PoisonError::into_inner).clone();
        let next = match current {
            Some(current) => change(&current)?,
            // I1: the slot of the newest version is full while the writers' lock is held.
            None => unreachable!("the newest version is there"),
        };
        *new.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(next));
        // Release: a reader that sees the version sees its slot.
        self.version.store(version + 1, Ordering::Release);
        let last = old.write().unwrap_or_else(PoisonError::into_inner).take();
        // I1: only `exchange` empties a slot, under the writers' lock.
        Ok(last.expect("the version before was there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_goes_with_its_last_reader() {
        let published = Published::new(Arc::new(1));
        let mut reader = published.reader();
        let first = Arc::downgrade(published.get(&mut reader));
        published.replace(|_| Ok::<_, ()>(Arc::new(2))).unwrap();
        assert!(first.upgrade().is_some());
        assert_eq!(***published.get(&mut reader), 2);
        assert!(first.upgrade().is_none());
        assert_eq!(published.replace(|_| Err("no")), Err("no"));
        assert_eq!(***published.get(&mut reader), 2);
    }

    #[test]
    fn readers_see_versions_in_order_and_the_newest_at_the_end() {
        let published = Published::new(0u64);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let mut reader = published.reader();
                    let mut last = 0;
                    while last < 2000 {
                        let now = **published.get(&mut reader);
                        assert!(now >= last);
                        last = now;
                    }
                });
            }
            for _ in 0..2000 {
                published.replace(|n| Ok::<_, ()>(n + 1)).unwrap();
            }
        });
    }
}
