//! Memory that the virtual processes share, the same at every schedule: zeroed, at the same addresses.

use std::cell::{Cell, RefCell};
use std::ops::Deref;

const CHUNK: usize = 256 * 1024;

struct Chunk {
    // Sixteen-byte units, so that whatever lies in it can be aligned.
    bytes: Box<[u128]>,
    used: usize,
}

/// A value to be dropped, and how.
type Drop = (*mut u8, unsafe fn(*mut u8));

#[derive(Default)]
struct Memory {
    chunks: Vec<Chunk>,
    drops: Vec<Drop>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory::default());
    static EPOCH: Cell<u64> = const { Cell::new(0) };
}

/// Ends the life of all that was handed out, and zeroes it.
pub(crate) fn reset() {
    EPOCH.set(EPOCH.get() + 1);
    let drops = MEMORY.with_borrow_mut(|m| std::mem::take(&mut m.drops));
    for (place, drop) in drops.into_iter().rev() {
        // SAFETY: `share` wrote a value of the type that `drop` was made for, and no thread reaches it any more: the epoch has changed and
        // the fibres are gone.
        unsafe { drop(place) };
    }
    MEMORY.with_borrow_mut(|m| {
        for c in &mut m.chunks {
            c.bytes[..c.used.div_ceil(16)].fill(0);
            c.used = 0;
        }
    });
}

/// `len` zeroed bytes, aligned to `align` or 4096 if they are many, until the end of the schedule.
pub(crate) fn zeroed(len: usize, align: usize) -> *mut u8 {
    let align = if len >= 4096 { 64.max(align) } else { align.max(16) };
    MEMORY.with_borrow_mut(|m| {
        for c in &mut m.chunks {
            let base = c.bytes.as_mut_ptr().cast::<u8>();
            let at = (base as usize + c.used).next_multiple_of(align) - base as usize;
            if at + len <= c.bytes.len() * 16 {
                c.used = at + len;
                // SAFETY: within the chunk, which is never freed while this thread lives.
                return unsafe { base.add(at) };
            }
        }
        let units = (len + align).max(CHUNK).div_ceil(16);
        let mut bytes = vec![0u128; units].into_boxed_slice();
        let base = bytes.as_mut_ptr().cast::<u8>();
        let at = (base as usize).next_multiple_of(align) - base as usize;
        m.chunks.push(Chunk { bytes, used: at + len });
        // SAFETY: as above; the boxed slice does not move when the box does.
        unsafe { base.add(at) }
    })
}

/// A value that all virtual processes of one schedule see.
///
/// A copy of the handle costs nothing. The value is dropped after the schedule; a handle that outlives it
/// panics when it is used.
pub struct Shared<T: 'static> {
    place: *const T,
    epoch: u64,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        assert_eq!(self.epoch, EPOCH.get(), "a shared value is used after its schedule");
        // SAFETY: `share` wrote the value, and the epoch says that it has not been dropped. The handle is neither
        // Send nor Sync, so this is the thread that made it.
        unsafe { &*self.place }
    }
}

/// Puts a value where all virtual processes of the schedule can reach it.
pub(crate) fn share<T: 'static>(value: T) -> Shared<T> {
    /// # Safety
    /// A `T` was written at `place`, and no thread reaches it any more.
    unsafe fn drop_as<T>(place: *mut u8) {
        // SAFETY: the caller passes the place where a T was written.
        unsafe { place.cast::<T>().drop_in_place() };
    }
    let place = zeroed(size_of::<T>().max(1), align_of::<T>()).cast::<T>();
    // SAFETY: fresh memory of the right size and alignment.
    unsafe { place.write(value) };
    if std::mem::needs_drop::<T>() {
        MEMORY.with_borrow_mut(|m| m.drops.push((place.cast(), drop_as::<T>)));
    }
    Shared { place, epoch: EPOCH.get() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn values_are_dropped_and_memory_is_zeroed_at_the_same_place() {
        let witness = Rc::new(());
        let kept = share(witness.clone());
        assert_eq!(Rc::strong_count(&witness), 2);
        let first = zeroed(10_000, 8);
        // SAFETY: just handed out.
        unsafe { first.write_bytes(7, 10_000) };
        reset();
        assert_eq!(Rc::strong_count(&witness), 1);
        let again = share(witness.clone());
        assert_eq!(kept.place, again.place);
        let second = zeroed(10_000, 8);
        assert_eq!(first, second);
        // SAFETY: as above.
        assert!((0..10_000).all(|i| unsafe { second.add(i).read() } == 0));
        reset();
    }

    #[test]
    #[should_panic(expected = "after its schedule")]
    fn a_handle_does_not_outlive_its_schedule() {
        let handle = share(1u32);
        reset();
        let _ = *handle;
    }
}
