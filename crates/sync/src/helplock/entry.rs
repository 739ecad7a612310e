//! The inherited form: a lock of the kernel's, whose holder runs at the highest priority of the waiters, and a note whether the data is whole.
//!
//! | `state` | set by | the next locker |
//! |---|---|---|
//! | WHOLE | its maker; a holder that says that the data is whole | has it |
//! | TORN | the locker after a holder that died; a holder that panicked | has it, and is told |
//! | CONDEMNED | a holder | is refused, for ever |
//!
//! Between processes it lies in a body of an arena, with the data behind it. A member that locks it has its bit there, so that the blocks go to
//! another object only when no member can lock it any more.

use super::HelpError;
use crate::bodied::{Bodied, Plan, SharedError, fits, type_hash, type_name};
use bytemuck::Pod;
use chappe_arena::layout::Kind;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::inherit::{Held, InheritLock, Unheld};
use chappe_plat::process;
use chappe_wait::body::Form;
use std::cell::UnsafeCell;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

const WHOLE: u32 = 0;
const TORN: u32 = 1;
const CONDEMNED: u32 = 2;

/// The most bytes of data of a named lock.
const MOST_BYTES: u32 = 1 << 20;

/// The lock, and what is known of the data. It stays where it was made.
#[repr(C, align(64))]
pub(crate) struct Entry {
    lock: InheritLock,
    /// See above. Changed by the holder.
    state: AtomicU32,
}

impl Entry {
    /// Makes a lock at this place.
    ///
    /// # Safety
    /// The place is valid, aligned, no other thread's yet, and the entry is not moved from there.
    pub unsafe fn init(at: *mut Entry) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            InheritLock::init(&raw mut (*at).lock)?;
            (&raw mut (*at).state).write(AtomicU32::new(WHOLE));
        }
        Ok(())
    }

    /// Locks it. Answers whether the data is whole.
    #[inline]
    pub fn lock(&self, name: &Arc<str>, wait: bool) -> Result<bool, HelpError> {
        let held = if wait { self.lock.lock() } else { self.lock.try_lock() };
        // Relaxed: under the lock.
        if held == Ok(Held::Whole) && self.state.load(Ordering::Relaxed) == WHOLE {
            return Ok(true);
        }
        self.not_whole(held, name)
    }

    /// Locked after a death, or in a state other than WHOLE, or not at all.
    #[cold]
    fn not_whole(&self, held: Result<Held, Unheld>, name: &Arc<str>) -> Result<bool, HelpError> {
        let name = || name.clone();
        match held {
            Ok(Held::Whole) => {}
            Ok(Held::AfterDeath) => self.tear(),
            Err(Unheld::Busy) => return Err(HelpError::WouldBlock { name: name() }),
            Err(Unheld::Deadlock) => return Err(HelpError::Deadlock { name: name() }),
            Err(Unheld::System(e)) => return Err(HelpError::System(io::Error::from_raw_os_error(e))),
        }
        // Relaxed: under the lock.
        match self.state.load(Ordering::Relaxed) {
            WHOLE => Ok(true),
            CONDEMNED => {
                self.lock.unlock();
                Err(HelpError::Condemned { name: name() })
            }
            _ => Ok(false),
        }
    }

    /// Unlocks. Does nothing if the calling thread does not hold the lock.
    #[inline]
    pub fn unlock(&self, unwinding: bool) {
        if !unwinding && std::thread::panicking() {
            self.tear();
        }
        self.lock.unlock();
    }

    /// Unlocks with the state as it is, even if this thread is panicking.
    pub fn give_back(&self) {
        self.lock.unlock();
    }

    /// Condemned data stays condemned.
    fn tear(&self) {
        // Relaxed: under the lock.
        if self.state.load(Ordering::Relaxed) != CONDEMNED {
            self.state.store(TORN, Ordering::Relaxed); // Relaxed: under the lock.
        }
    }

    pub fn make_whole(&self) {
        self.state.store(WHOLE, Ordering::Relaxed); // Relaxed: under the lock.
    }

    pub fn condemn(&self) {
        self.state.store(CONDEMNED, Ordering::Relaxed); // Relaxed: under the lock.
    }

    pub fn is_whole(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WHOLE // Relaxed: under the lock.
    }
}

/// A lock for the threads of this process, and its data.
pub(crate) struct Inherited<T> {
    pub entry: Entry,
    data: UnsafeCell<T>,
}

// SAFETY: only the holder reaches the data.
unsafe impl<T: Send> Sync for Inherited<T> {}

impl<T> Inherited<T> {
    pub fn new(value: T) -> io::Result<Box<Inherited<T>>> {
        let mut place = Box::<Inherited<T>>::new_uninit();
        let at = place.as_mut_ptr();
        // SAFETY: each field is written once before all are said to be there; the lock stays in its box.
        unsafe {
            Entry::init(&raw mut (*at).entry)?;
            (&raw mut (*at).data).write(UnsafeCell::new(value));
            Ok(place.assume_init())
        }
    }

    pub fn data(&self) -> *mut T {
        self.data.get()
    }
}

/// A named lock.
pub(crate) struct Shared<T> {
    named: Bodied,
    entry: NonNull<Entry>,
    data: NonNull<T>,
}

// SAFETY: both are in an arena, which is never unmapped; only the holder reaches the data.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T: Pod> Shared<T> {
    fn checked(named: Bodied) -> Result<Shared<T>, SharedError> {
        let named = named.of_types([type_hash::<T>(), 0], || format!("data {}", type_name::<T>()))?;
        if named.body.room < bytes::<T>() {
            return Err(named.gone());
        }
        let entry: NonNull<Entry> = named.body.at.cast();
        // SAFETY: within the body, as was just seen.
        let data = unsafe { named.body.at.add(size_of::<Entry>()) }.cast();
        Ok(Shared { named, entry, data })
    }

    pub fn open(name: &str) -> Result<Shared<T>, SharedError> {
        Shared::checked(Bodied::open(Kind::HelpLock, name)?)
    }

    pub fn made(name: &str, value: &T, or_open: bool) -> Result<Shared<T>, SharedError> {
        fits(Kind::HelpLock, "bytes of data", size_of::<T>() as u64, 0, MOST_BYTES)?;
        let form = Form { numbers: [size_of::<T>() as u32, 0, 0, 0], types: [type_hash::<T>(), 0] };
        let failed = std::cell::Cell::new(None);
        let fill = |at: NonNull<u8>, _: Form| {
            // SAFETY: so many bytes from a multiple of 64, of which nobody else knows yet.
            unsafe {
                failed.set(Entry::init(at.cast().as_ptr()).err());
                at.add(size_of::<Entry>()).cast::<T>().write(*value);
            }
        };
        let plan = Plan { kind: Kind::HelpLock, of: &|_| (bytes::<T>(), form), fill: &fill };
        let made = Shared::checked(Bodied::make(&plan, name, or_open)?);
        debug_assert!(failed.take().is_none(), "the system has refused a lock that `InheritLock` is made of");
        made
    }
}

impl<T> Shared<T> {
    pub fn name(&self) -> String {
        self.named.handle.name()
    }

    /// Locks it. Answers the lock, and whether the data is whole.
    #[inline]
    pub fn lock(&self, name: &Arc<str>, wait: bool) -> Result<(&Entry, bool), HelpError> {
        self.named.me()?;
        // SAFETY: in the body, which stays for as long as this member's bit stands.
        let entry = unsafe { self.entry.as_ref() };
        let whole = entry.lock(name, wait)?;
        if let Err(e) = self.named.seen(()) {
            entry.give_back();
            return Err(e.into());
        }
        Ok((entry, whole))
    }

    pub fn data(&self) -> *mut T {
        self.data.as_ptr()
    }
}

/// How many bytes a named lock takes.
fn bytes<T>() -> usize {
    const { assert!(align_of::<T>() <= 64, "data that must lie at a multiple of more than 64 bytes") };
    size_of::<Entry>() + size_of::<T>()
}

/// The process of a guard, where that matters: in a forked child the parent's guards of shared locks are void.
pub(crate) fn this_process() -> u32 {
    process::incarnation() as u32 | 1 << 31
}
