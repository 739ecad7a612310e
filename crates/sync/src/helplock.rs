//! Locks with helping: whoever waits pushes the holder out of its section, instead of waiting for as long as others let the holder wait.
//!
//! nonblocking-real-time, 3.3 and 4.3: locking with helping is priority inheritance. A kernel of one processor helps by passing its processor to the
//! holder; a program has two ways, and this is both behind one interface:
//!
//! | form | the section | who helps | a holder that is stopped |
//! |---|---|---|---|
//! | steps | a function of at most eight words, without effects beside | anybody finishes it (`mcas`) | holds nobody up |
//! | inherited | anything that does not wait | the kernel, by priority inheritance | holds up, until it goes on; one that dies is told |
//!
//! Steps: the function is applied to a copy of one moment; the record of what is to change is then finished by whoever meets it. It is called again if another was
//! first. Lock-free; in a system of hard priorities it is called again at most as often as somebody of higher priority comes in
//! between (2.3).
//!
//! Deviations: the paper's waiters form a stack, on top of which the highest priority stands because it does not sleep; the kernel keeps them in
//! order of priority, and by arrival among equals. Between light threads there is no form of its own: see the guide.
//!
//! Progress: steps lock-free; inherited blocking, bounded by the sections before it, if no section waits. Deaths: steps: it happened or
//! not; inherited: the next holder is told, with the data as it was, until somebody says that it is whole, or condemns it.
//!
//! Explored: steps as `mcas`. The other form is the C library's mutex and the kernel's, which the explorer does not model: `crates/chappe/tests/helplock.rs`.

use crate::inside;
use crate::words::{Words, WordsError};
use bytemuck::Pod;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::inherit::{Held, InheritLock, Unheld};
use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;

/// Why a section was not run, or not as usual.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HelpError<G = ()> {
    /// Locked; a holder died or panicked, and the data is as it left it. See [`HelpGuard::make_consistent`] and [`HelpGuard::condemn`]. Of
    /// [`HelpLock::with`]: not locked, and nothing was run; lock it, and look.
    #[error(
        "an earlier holder of `{name}` died in the middle of its section: lock it, look at the data, and say that it is consistent, or condemn it"
    )]
    OwnerDied {
        /// Which.
        name: Arc<str>,
        /// The lock.
        guard: G,
    },
    /// Somebody has it.
    #[error("`{name}` is locked")]
    WouldBlock {
        /// Which.
        name: Arc<str>,
    },
    /// This thread has it, or its holder waits for one that this thread has.
    #[error("`{name}` would be waited for by its own holder: sections of one lock do not nest")]
    Deadlock {
        /// Which.
        name: Arc<str>,
    },
    /// Its data was given up.
    #[error("`{name}` was condemned: a holder died, and its data could not be made whole; make it anew")]
    Condemned {
        /// Which.
        name: Arc<str>,
    },
    /// A lock whose sections are steps has no guard.
    #[error("sections of `{name}` are steps, which anybody finishes, so nobody holds it: use `with`")]
    Steps {
        /// Which.
        name: Arc<str>,
    },
    /// The words refused.
    #[error(transparent)]
    Words(WordsError),
    /// The system did.
    #[error("the system refuses: {0}")]
    System(io::Error),
}

impl<G> std::fmt::Debug for HelpError<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HelpError({self})")
    }
}

const WHOLE: u32 = 0;
const TORN: u32 = 1;
const CONDEMNED: u32 = 2;

/// A lock of the inherited form, and its data.
pub(crate) struct Inherited<T> {
    lock: InheritLock,
    /// Whether the data is whole. Changed by the holder.
    state: AtomicU32,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached by the holder alone.
unsafe impl<T: Send> Sync for Inherited<T> {}

impl<T> Inherited<T> {
    pub fn new(value: T) -> io::Result<Box<Inherited<T>>> {
        let mut place = Box::<Inherited<T>>::new_uninit();
        let at = place.as_mut_ptr();
        // SAFETY: each field is written once before all are said to be there; the lock stays in its box.
        unsafe {
            InheritLock::init(&raw mut (*at).lock)?;
            (&raw mut (*at).state).write(AtomicU32::new(WHOLE));
            (&raw mut (*at).data).write(UnsafeCell::new(value));
            Ok(place.assume_init())
        }
    }

    /// Locks it. Answers whether the data is whole.
    #[inline]
    pub fn lock(&self, name: &Arc<str>, wait: bool) -> Result<bool, HelpError> {
        let name = || name.clone();
        match if wait { self.lock.lock() } else { self.lock.try_lock() } {
            Ok(Held::Whole) => {}
            // Relaxed: under the lock.
            Ok(Held::AfterDeath) if self.state.load(Ordering::Relaxed) == CONDEMNED => {}
            Ok(Held::AfterDeath) => self.state.store(TORN, Ordering::Relaxed), // Relaxed: under the lock.
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

    #[inline]
    pub fn unlock(&self) {
        if std::thread::panicking() {
            self.say(TORN);
        }
        self.lock.unlock();
    }

    pub fn make_whole(&self) {
        self.say(WHOLE);
    }

    pub fn is_whole(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WHOLE // Relaxed: under the lock.
    }

    pub fn data(&self) -> *mut T {
        self.data.get()
    }

    fn say(&self, state: u32) {
        self.state.store(state, Ordering::Relaxed); // Relaxed: under the lock.
    }
}

enum Form<T> {
    Steps(Words),
    Inherited(Box<Inherited<T>>),
}

/// A lock with helping around data, between the threads of a process.
///
/// Blocking: a lock of [`HelpLock::steps`] never blocks, and a holder that is stopped or preempted holds up nobody. One of
/// [`HelpLock::inherited`] blocks while another is inside; the holder runs at the highest priority of those who wait. The highest priority is
/// next, first come first served among equals. No section may wait for an event: builds with debug assertions panic where a wait of this library is begun
/// inside of one, and say where the section was.
///
/// Signals: a handler must not lock what its thread may hold. In a forked child the lock is a copy; what another thread held is
/// held for ever there. Light threads: a section must end before the thread gives way.
///
/// Paper: nonblocking-real-time, 3.3 and 4.3.
///
/// ```
/// use chappe_sync::HelpLock;
/// let (hits, log) = (HelpLock::steps("hits", [0u64; 2])?, HelpLock::inherited("log", Vec::new())?);
/// hits.with(|h| h[0] += 1)?;
/// log.with(|l| l.push("one"))?;
/// assert_eq!(hits.with(|h| h[0])?, 1);
/// # Ok::<(), chappe_sync::HelpError>(())
/// ```
pub struct HelpLock<T> {
    name: Arc<str>,
    form: Form<T>,
}

impl<T> std::fmt::Debug for HelpLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HelpLock({:?})", self.name)
    }
}

/// The most bytes of data whose sections can be steps.
pub const MOST_BYTES: usize = 64;

impl<T: Pod> HelpLock<T> {
    /// Makes one whose sections are steps, which anybody finishes. The name is for messages. What a section does must be a function of the data alone: it may be
    /// run more than once, and what it did is kept only once.
    ///
    /// # Errors
    /// `Words`: there is no memory for it.
    pub fn steps(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        const { assert!(size_of::<T>() <= MOST_BYTES, "data of more than eight words: use HelpLock::inherited") };
        let words = Words::private(size_of::<T>().div_ceil(8).max(1) as u32).map_err(HelpError::Words)?;
        let mut bytes = [0u8; MOST_BYTES];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        for (i, word) in bytes.chunks_exact(8).enumerate().take(words.len() as usize) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            words.store(i as u32, word).map_err(HelpError::Words)?;
        }
        Ok(HelpLock { name: name.into(), form: Form::Steps(words) })
    }

    /// The same between processes, under this name in an arena: attaches it, or makes it, with this data. A process that is killed in the middle of a section has run it, or not; nobody is held up. What the
    /// data is, is not written down there: all who use the name say the same `T`.
    ///
    /// # Errors
    /// `Words`: there are words of another number under that name, or something else; the arena has no room.
    pub fn steps_named(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        const { assert!(size_of::<T>() <= MOST_BYTES, "data of more than eight words: use Service") };
        let mut bytes = [0u8; MOST_BYTES];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
        let first: Vec<u64> = words.take(size_of::<T>().div_ceil(8).max(1)).collect();
        let words = Words::begun_with(name, &first).map_err(HelpError::Words)?;
        Ok(HelpLock { name: name.into(), form: Form::Steps(words) })
    }
}

impl<T> HelpLock<T> {
    /// Makes one for any section; its holder inherits the priority of those who wait. The name is for messages.
    ///
    /// # Errors
    /// `System`: this kernel has no such locks.
    pub fn inherited(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        let inherited = Inherited::new(value).map_err(HelpError::System)?;
        Ok(HelpLock { name: name.into(), form: Form::Inherited(inherited) })
    }

    /// Whether anybody finishes its sections.
    pub fn is_steps(&self) -> bool {
        matches!(self.form, Form::Steps(_))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a section. Of a lock of steps, it may be run several times, and is kept once.
    ///
    /// # Errors
    /// `OwnerDied`, `Condemned`, `Deadlock`, `Words`, `System`: nothing was run.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, mut section: impl FnMut(&mut T) -> R) -> Result<R, HelpError> {
        match &self.form {
            Form::Steps(words) => match words.len() {
                1 => run::<T, R, 1>(words, &mut section),
                2 => run::<T, R, 2>(words, &mut section),
                3 => run::<T, R, 3>(words, &mut section),
                4 => run::<T, R, 4>(words, &mut section),
                5 => run::<T, R, 5>(words, &mut section),
                6 => run::<T, R, 6>(words, &mut section),
                7 => run::<T, R, 7>(words, &mut section),
                _ => run::<T, R, 8>(words, &mut section),
            },
            Form::Inherited(_) => match self.lock() {
                Ok(mut guard) => Ok(section(&mut guard)),
                Err(HelpError::OwnerDied { name, .. }) => Err(HelpError::OwnerDied { name, guard: () }),
                Err(e) => Err(e.without()),
            },
        }
    }

    /// Locks it; waits until it is free.
    ///
    /// # Errors
    /// `OwnerDied`, with the guard; `Condemned`, `Deadlock`, `System`; `Steps`: such a lock has no guard.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> Result<HelpGuard<'_, T>, HelpError<HelpGuard<'_, T>>> {
        self.locked(true)
    }

    /// Locks it if it is free.
    ///
    /// # Errors
    /// `WouldBlock`; else as [`HelpLock::lock`].
    #[track_caller]
    pub fn try_lock(&self) -> Result<HelpGuard<'_, T>, HelpError<HelpGuard<'_, T>>> {
        self.locked(false)
    }

    #[inline]
    #[track_caller]
    fn locked(&self, wait: bool) -> Result<HelpGuard<'_, T>, HelpError<HelpGuard<'_, T>>> {
        let Form::Inherited(of) = &self.form else { return Err(HelpError::Steps { name: self.name.clone() }) };
        let whole = of.lock(&self.name, wait).map_err(HelpError::without)?;
        if cfg!(debug_assertions) {
            inside::begin(std::ptr::from_ref(&**of).addr(), &self.name, Location::caller());
        }
        let guard = HelpGuard { of, thread: PhantomData };
        if whole { Ok(guard) } else { Err(HelpError::OwnerDied { name: self.name.clone(), guard }) }
    }
}

/// Locks several, in an order that all callers have in common, so that no two callers wait for each other. The guards come in the order of `locks`.
///
/// # Errors
/// As [`HelpLock::lock`], of the first that is refused; those before it are unlocked. `Deadlock` if one is named twice.
#[track_caller]
pub fn lock_all<'a, T>(locks: &[&'a HelpLock<T>]) -> Result<Vec<HelpGuard<'a, T>>, HelpError<HelpGuard<'a, T>>> {
    let mut order: Vec<usize> = (0..locks.len()).collect();
    order.sort_by_key(|i| std::ptr::from_ref(locks[*i]).addr());
    let mut guards: Vec<Option<HelpGuard<'a, T>>> = locks.iter().map(|_| None).collect();
    for i in order {
        guards[i] = Some(locks[i].lock()?);
    }
    Ok(guards.into_iter().flatten().collect())
}

impl<G> HelpError<G> {
    /// The same for another kind of guard: that of a dead owner is given up.
    fn without<H>(self) -> HelpError<H> {
        match self {
            HelpError::OwnerDied { name, .. } | HelpError::Condemned { name } => HelpError::Condemned { name },
            HelpError::WouldBlock { name } => HelpError::WouldBlock { name },
            HelpError::Deadlock { name } => HelpError::Deadlock { name },
            HelpError::Steps { name } => HelpError::Steps { name },
            HelpError::Words(e) => HelpError::Words(e),
            HelpError::System(e) => HelpError::System(e),
        }
    }
}

/// A section of steps: a function of a copy, of one moment; then all words at once.
#[inline(always)]
fn run<T, R, const K: usize>(words: &Words, section: &mut impl FnMut(&mut T) -> R) -> Result<R, HelpError> {
    let mut answer = None;
    let all: [u32; K] = std::array::from_fn(|i| i as u32);
    words
        .update(all, |w| {
            let mut copy = MaybeUninit::<T>::uninit();
            let (at, len) = (copy.as_mut_ptr().cast::<u8>(), size_of::<T>());
            // SAFETY: `steps` alone makes such locks, of plain data of at most so many bytes, for which any bytes are a value.
            unsafe {
                std::ptr::copy_nonoverlapping(w.as_ptr().cast::<u8>(), at, len);
                answer = Some(section(&mut *copy.as_mut_ptr()));
                std::ptr::copy_nonoverlapping(at, w.as_mut_ptr().cast::<u8>(), len);
            }
        })
        .map_err(HelpError::Words)?;
    Ok(answer.expect("it was run"))
}

/// The right to the data of a [`HelpLock`] of the inherited form, until it is dropped.
pub struct HelpGuard<'a, T> {
    of: &'a Inherited<T>,
    /// It belongs to its thread.
    thread: PhantomData<*mut T>,
}

impl<T> std::fmt::Debug for HelpGuard<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HelpGuard")
    }
}

impl<T> HelpGuard<'_, T> {
    /// The data is whole again, after a holder died.
    pub fn make_consistent(&self) {
        self.of.say(WHOLE);
    }

    /// Gives the data up: nobody locks it any more.
    pub fn condemn(self) {
        self.of.say(CONDEMNED);
    }
}

impl<T> Deref for HelpGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.of.data.get() }
    }
}

impl<T> DerefMut for HelpGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and there is one guard.
        unsafe { &mut *self.of.data.get() }
    }
}

impl<T> Drop for HelpGuard<'_, T> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            inside::end(std::ptr::from_ref(self.of).addr());
        }
        self.of.unlock();
    }
}
