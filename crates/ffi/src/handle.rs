//! Handles: a C program's references to objects.
//!
//! A handle is the address of a slot in one table, which lies in the library and is never unmapped. The library checks
//! that an address is that of a slot before it reads there, so it refuses garbage, NULL, a closed handle and a handle
//! of another kind.
//!
//! | kind | the slot | changed by |
//! |---|---|---|
//! | FREE | is empty | `claim`: to BUSY |
//! | BUSY | is being filled or emptied by one thread | that thread: to an object's kind, or to FREE |
//! | an object's | is open | `close`: to BUSY |
//!
//! - I1: the object is written and taken out only while the slot is BUSY, and read only while the slot is of the
//!   object's kind.
//! - I2: a slot that was closed is reused as late as possible: after a round through all slots in use. Twice as many
//!   slots as are open are in use, 64 at least.
//! - I3: the caller that closes a handle makes sure that no other thread uses it any more: in C only the caller can.
//!
//! Edges: E1 (release/acquire), from the store of the kind, after the object was written, to the thread that reads that
//! kind.
//!
//! The table is lock-free, so a forked child finds it whole, except for a slot that another thread of its parent was
//! filling: that slot stays BUSY in the child.

use crate::failure::{Answer, Failure};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const BUSY: u32 = 1;
/// How many can be open at once.
const SLOTS: usize = 1 << 16;
const WORDS: usize = 15;

#[repr(C, align(128))]
struct Slot {
    kind: AtomicU32,
    body: UnsafeCell<MaybeUninit<[u64; WORDS]>>,
}

// SAFETY: I1; what is shared of an object is up to its kind, and to what its header says of threads.
unsafe impl Sync for Slot {}

static TABLE: [Slot; SLOTS] =
    [const { Slot { kind: AtomicU32::new(FREE), body: UnsafeCell::new(MaybeUninit::zeroed()) } }; SLOTS];
// Ordering: Relaxed: a count.
static OPEN: AtomicU32 = AtomicU32::new(0);
// Ordering: Relaxed: a guess of how many there are; the swap decides.
static IN_USE: AtomicU32 = AtomicU32::new(64);
static NEXT: AtomicU32 = AtomicU32::new(0);

/// What has handles.
pub trait Object: Sized + 'static {
    /// What C calls it.
    type Name;
    /// One number a type, from 2.
    const KIND: u32;
    /// A message for what is none.
    const REFUSAL: &'static std::ffi::CStr;
}

/// What has room in a slot.
struct Fits<T>(std::marker::PhantomData<T>);

impl<T> Fits<T> {
    const IT: () = assert!(size_of::<T>() <= WORDS * 8 && align_of::<T>() <= 8);
}

fn claim() -> Option<&'static Slot> {
    loop {
        let in_use = IN_USE.load(Ordering::Relaxed);
        let (open, all) = (OPEN.load(Ordering::Relaxed), SLOTS as u32);
        if open * 2 >= in_use && in_use < all {
            IN_USE.fetch_max((in_use * 2).min(all), Ordering::Relaxed);
            continue;
        }
        for _ in 0..in_use {
            let at = NEXT.fetch_add(1, Ordering::Relaxed) % in_use; // Relaxed: any order of them will do.
            let slot = &TABLE[at as usize];
            // Acquire: E1, from the thread that emptied it. Relaxed on failure: nothing was taken.
            if slot.kind.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                OPEN.fetch_add(1, Ordering::Relaxed);
                return Some(slot);
            }
        }
        if in_use == all {
            return None;
        }
    }
}

/// A slot that is BUSY, by us; FREE again if nothing is put in.
struct Claimed(&'static Slot);

impl Drop for Claimed {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        self.0.kind.store(FREE, Ordering::Release); // Release: E1; nothing was put in.
    }
}

/// Opens a handle.
pub fn open<T: Object>(object: T) -> Answer<*mut T::Name> {
    open_as(|| Ok(object))
}

/// Opens a handle of what is made, or attached, when it is sure that there is one for it.
pub fn open_as<T: Object>(make: impl FnOnce() -> Answer<T>) -> Answer<*mut T::Name> {
    let () = Fits::<T>::IT;
    let slot = claim().ok_or_else(|| Failure::new(libc::EMFILE, c"65536 handles are open: close some"))?;
    let claimed = Claimed(slot);
    let object = make()?;
    std::mem::forget(claimed);
    // SAFETY: I1: the slot is BUSY, by us; the object fits.
    unsafe { slot.body.get().cast::<T>().write(object) };
    // Release: E1.
    slot.kind.store(T::KIND, Ordering::Release);
    Ok(std::ptr::from_ref(slot).cast_mut().cast())
}

#[inline(always)]
fn slot_at(handle: usize) -> Option<&'static Slot> {
    // Turned, so that what lies between two slots is as far away as what lies beyond them: one comparison for both.
    let at = handle.wrapping_sub(TABLE.as_ptr() as usize).rotate_right(size_of::<Slot>().ilog2());
    // SAFETY: it is the address of one of them.
    (at < SLOTS).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Slot>(handle) })
}

/// The handle of an object that lies in one, by a part of it.
pub fn of<T>(part: &T) -> usize {
    (part as *const T).expose_provenance() & !(size_of::<Slot>() - 1)
}

/// The object of a handle, for one call.
#[inline(always)]
pub fn get<'a, T: Object>(handle: *const T::Name) -> Answer<&'a T> {
    quick::<T>(handle).ok_or_else(refused::<T>)
}

/// The same without a word of what is wrong.
#[inline(always)]
pub fn quick<'a, T: Object>(handle: *const T::Name) -> Option<&'a T> {
    // Acquire: E1.
    let slot = slot_at(handle as usize).filter(|slot| slot.kind.load(Ordering::Acquire) == T::KIND)?;
    // SAFETY: I1, I3: it stays until the caller closes it.
    Some(unsafe { &*slot.body.get().cast::<T>() })
}

#[cold]
fn refused<T: Object>() -> Failure {
    Failure::new(libc::EBADF, T::REFUSAL)
}

/// Closes a handle; the object is the caller's.
pub fn close<T: Object>(handle: *mut T::Name) -> Answer<T> {
    let slot = slot_at(handle as usize).ok_or_else(refused::<T>)?;
    // Acquire: E1. Relaxed on failure: it is none.
    slot.kind.compare_exchange(T::KIND, BUSY, Ordering::Acquire, Ordering::Relaxed).map_err(|_| refused::<T>())?;
    // SAFETY: I1, I3: the slot is BUSY, by us, and was of this kind.
    let object = unsafe { slot.body.get().cast::<T>().read() };
    OPEN.fetch_sub(1, Ordering::Relaxed);
    // Release: E1: taken out before another is put in.
    slot.kind.store(FREE, Ordering::Release);
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    struct One(Arc<()>);
    struct Name;
    impl Object for One {
        type Name = Name;
        const KIND: u32 = 1000;
        const REFUSAL: &'static std::ffi::CStr = c"no One";
    }
    struct Other;
    impl Object for Other {
        type Name = Name;
        const KIND: u32 = 1001;
        const REFUSAL: &'static std::ffi::CStr = c"no Other";
    }

    /// A handle that was closed may be another test's by now.
    static TURN: Mutex<()> = Mutex::new(());

    fn turn() -> MutexGuard<'static, ()> {
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn a_pointer_that_is_no_open_handle_is_refused() {
        let _turn = turn();
        let (handle, other) = (open(One(Arc::new(()))).unwrap(), open(Other).unwrap());
        let local = 0u64;
        let inside = handle.cast::<u8>().wrapping_add(8).cast();
        for wrong in
            [std::ptr::null_mut(), other, inside, (&raw const local).cast_mut().cast(), usize::MAX as *mut Name]
        {
            assert_eq!(get::<One>(wrong).err().map(|e| e.errno()), Some(libc::EBADF));
            assert_eq!(close::<One>(wrong).err().map(|e| e.errno()), Some(libc::EBADF));
        }
        assert!(close::<One>(handle).is_ok() && close::<One>(handle).is_err() && get::<One>(handle).is_err());
        assert!(close::<Other>(other).is_ok());
    }

    #[test]
    fn a_closed_one_is_not_soon_another() {
        let _turn = turn();
        let first = open(One(Arc::new(()))).unwrap();
        assert!(close::<One>(first).is_ok());
        for _ in 0..16 {
            let next = open(One(Arc::new(()))).unwrap();
            assert!(next != first);
            assert!(close::<One>(next).is_ok());
        }
    }

    #[test]
    fn a_failed_open_leaves_no_handle() {
        let _turn = turn();
        let before = OPEN.load(Ordering::Relaxed);
        let not_made = || open_as::<One>(|| Err(Failure::new(libc::ENOENT, c"no")));
        for _ in 0..SLOTS + 1 {
            assert_eq!(not_made().map_err(|e| e.errno()), Err(libc::ENOENT));
        }
        assert!(std::panic::catch_unwind(|| open_as::<One>(|| panic!("on purpose"))).is_err());
        assert_eq!(OPEN.load(Ordering::Relaxed), before);
    }

    #[test]
    fn many_threads_open_and_close_and_nothing_is_lost() {
        let _turn = turn();
        let shared = Arc::new(());
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let some: Vec<usize> =
                            (0..50).map(|_| open(One(Arc::clone(&shared))).unwrap() as usize).collect();
                        some.into_iter().for_each(|one| assert!(close::<One>(one as *mut Name).is_ok()));
                    }
                });
            }
        });
        assert_eq!(Arc::strong_count(&shared), 1);
        let _ = |one: One| one.0;
    }
}
