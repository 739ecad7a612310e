//! Locks with helping: a waiter helps the holder to finish its section, instead of waiting until the scheduler lets the holder run.
//!
//! nonblocking-real-time, 3.3 and 4.3: locking with helping is priority inheritance. A kernel of one processor helps by passing its
//! processor to the holder. A program has three ways, behind one interface:
//!
//! | form | the section | the helper | a holder that is stopped |
//! |---|---|---|---|
//! | steps (a) | a function of at most eight words, without effects beside | any thread finishes its changes (`mcas`), and does not call it | delays nobody |
//! | inherited (b) | anything that does not wait | the kernel, by priority inheritance | delays others until it goes on; a death is reported |
//! | light (c) | anything that does not wait, of a light thread | the waiter passes its turn to the holder | is stopped with its process |
//!
//! Steps: the function is applied to a copy of one moment; any thread that meets the record of the changes finishes it. Private data of
//! one word or two changes by one instruction, without a record: no thread is ever in the middle. If another thread was first, the
//! function is called again: lock-free. In a system of hard priorities that happens at most as often as a thread of higher priority
//! comes in between (2.3). Inherited: `entry`. Light: `light`.
//!
//! Deviation: the paper's waiters form a stack, on top of which the highest priority stands because it does not sleep; here they are in
//! order of priority, and by arrival among equals.
//!
//! Progress: steps lock-free; inherited and light blocking, bounded by the sections before it, if no section waits. Deaths: steps: the section
//! happened or not. Light: threads end with their process. Inherited: the data stays as it was, torn. A torn lock, also a light one: `lock`
//! answers `OwnerDied` with the guard, and its holder says that the data is whole, or condemns it; `with` answers `OwnerDied` and runs nothing,
//! and the lock stays torn.
//!
//! Panics in a section: steps: nothing has changed, since the copy is lost. Inherited and light: the data is torn, as after a death. (Not if the
//! thread was panicking already when it locked: then the section is a destructor's.)
//!
//! Explored: steps as `mcas`. The explorer does not model the inherited form, which is the C library's mutex and the kernel's. The light form
//! runs on one proc (a kernel thread that runs light threads), in an order that its test decides: `crates/chappe/tests/in_process/helplock.rs`.

mod entry;
mod error;
mod light;

pub(crate) use entry::{Entry, Inherited, this_process};
pub use error::HelpError;

use crate::bodied::unmake;
use crate::words::Words;
use bytemuck::Pod;
use chappe_arena::layout::Kind;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::pair::Pair;
use chappe_plat::process;
use chappe_structures::tries::{self, Loop};
use chappe_wait::attachment::{enter_within, leave_within};
use chappe_wait::body::Body;
use chappe_wait::inside;
use entry::Shared;
use light::{Light, LightLock};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;

/// Of which size it is: see [`Figures`](crate::bodied::Figures).
pub(crate) fn figures(body: &Body<'static>) -> Option<(i64, u32, u32)> {
    Some((0, 0, body.form.numbers[0]))
}

enum Form<T> {
    /// Of one word, and of two: one instruction changes them, without a record.
    One(AtomicU64),
    Two(Pair),
    Steps(Words),
    Inherited(Box<Inherited<T>>),
    Shared(Shared<T>),
    Light(Box<Light<T>>),
}

/// A lock with helping around data: between threads, processes, or light threads.
///
/// Blocking: a lock of [`HelpLock::steps`] never blocks, and a holder that is stopped or preempted delays nobody. A lock of
/// [`HelpLock::inherited`] blocks while another thread is inside; the holder runs at the highest priority of the waiters. A lock of
/// [`HelpLock::light`] blocks while another light thread is inside that gave way there; a waiter passes its turns to the holder, and gets
/// the lock and its turn back at once. The highest priority (level) is next, first come first served among equals. No section may wait
/// for an event: builds with debug assertions panic where a section begins a wait of this library, and say where the section began.
///
/// Priorities are the system's: a thread that may not have the priority that it asks for (`RLIMIT_RTPRIO`, rtkit) keeps its own, and
/// the lock works as before.
///
/// Signals: a handler must not lock what its thread may hold. In a forked child a private lock is a copy: what another thread held
/// stays locked there for ever. A named lock is shared with the parent; the parent's guards are void: using one panics. Light threads: a
/// section of [`HelpLock::inherited`] must end before the thread gives way.
///
/// A named lock takes 64 bytes and its data. Its layout is that of glibc or musl: all processes use the same C library.
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
    /// Makes a lock whose sections are steps, which any thread finishes. The name is for messages. A section must be a function of the
    /// data alone: it may run more than once, and its effect is kept only once.
    ///
    /// # Errors
    /// `Words`: there is no memory for it.
    pub fn steps(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        const { assert!(size_of::<T>() <= MOST_BYTES, "data of more than eight words: use HelpLock::inherited") };
        if size_of::<T>() <= 16 {
            let [low, high] = to_words(&value);
            let form =
                if size_of::<T>() <= 8 { Form::One(AtomicU64::new(low)) } else { Form::Two(Pair::new(low, high)) };
            return Ok(HelpLock { name: name.into(), form });
        }
        let words = Words::private(size_of::<T>().div_ceil(8) as u32).map_err(HelpError::Words)?;
        for (i, word) in (0..words.len()).zip(to_words::<T, 8>(&value)) {
            words.store(i, word).map_err(HelpError::Words)?;
        }
        Ok(HelpLock { name: name.into(), form: Form::Steps(words) })
    }

    /// The same between processes, under this name in an arena: attaches it, or makes it, with this data. If a process is killed in the
    /// middle of a section, the section has happened or not, and nobody is delayed. The type of the data is not recorded: all users of
    /// the name must use the same `T`.
    ///
    /// # Errors
    /// `Words`: the words under that name are of another number, or the object is something else; the arena has no room.
    pub fn steps_named(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        const { assert!(size_of::<T>() <= MOST_BYTES, "data of more than eight words: use Service") };
        let first = &to_words::<T, 8>(&value)[..size_of::<T>().div_ceil(8).max(1)];
        let words = Words::begun_with(name, first).map_err(HelpError::Words)?;
        Ok(HelpLock { name: name.into(), form: Form::Steps(words) })
    }
}

impl<T: Pod> HelpLock<T> {
    /// As [`HelpLock::inherited`], between processes, under a name in an arena: makes it with this data, and, if need be, an arena with room for it.
    ///
    /// # Errors
    /// `Shared`: there is one already, or something else; the arena has no room.
    pub fn inherited_create(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        Ok(HelpLock::shared(Shared::made(name, &value, false)?))
    }

    /// Attaches a lock by name, whatever its data; or makes it.
    ///
    /// # Errors
    /// `Shared`: its data is no `T` (name without modules, size); else as [`HelpLock::inherited_create`].
    pub fn inherited_named(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        Ok(HelpLock::shared(Shared::made(name, &value, true)?))
    }

    /// Attaches a lock by name.
    ///
    /// # Errors
    /// `Shared`: there is none, its data is no `T`, or it is something else.
    pub fn inherited_open(name: &str) -> Result<HelpLock<T>, HelpError> {
        Ok(HelpLock::shared(Shared::open(name)?))
    }

    fn shared(shared: Shared<T>) -> HelpLock<T> {
        HelpLock { name: shared.name().into(), form: Form::Shared(shared) }
    }
}

impl HelpLock<()> {
    /// Removes a named lock of the inherited form, whatever its data. A lock that another process has locked, and may lock again, is refused
    /// unless `force`: then its users get [`SharedError::Dead`](crate::SharedError::Dead). (Locks of steps are [`Words`].)
    ///
    /// # Errors
    /// `Shared`: there is none, it is in use, or something else.
    pub fn unmake(name: &str, force: bool) -> Result<(), HelpError> {
        Ok(unmake(Kind::HelpLock, name, force, figures, |_| None)?)
    }
}

impl<T> HelpLock<T> {
    /// Makes a lock for any section; its holder inherits the priority of the waiters. The name is for messages.
    ///
    /// # Errors
    /// `System`: this kernel has no such locks.
    pub fn inherited(name: &str, value: T) -> Result<HelpLock<T>, HelpError> {
        let inherited = Inherited::new(value).map_err(HelpError::System)?;
        Ok(HelpLock { name: name.into(), form: Form::Inherited(inherited) })
    }

    /// Makes a lock for the light threads of this process. A waiter passes its turns to the holder if both are with one proc: in a runtime
    /// with one proc, or pinned. Else it waits as for anything. A section may give way; the name is for messages.
    ///
    /// A guard that is leaked leaves the lock locked.
    pub fn light(name: &str, value: T) -> HelpLock<T> {
        HelpLock { name: name.into(), form: Form::Light(Light::new(value)) }
    }

    /// Whether any thread finishes its sections.
    pub fn is_steps(&self) -> bool {
        matches!(self.form, Form::One(_) | Form::Two(_) | Form::Steps(_))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a section. A section of a lock of steps may run several times, and is kept once.
    ///
    /// # Errors
    /// `OwnerDied`, `Condemned`, `Deadlock`, `Words`, `System`: nothing was run.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, mut section: impl FnMut(&mut T) -> R) -> Result<R, HelpError> {
        match &self.form {
            Form::One(word) => Ok(run_one(word, &mut section)),
            Form::Two(pair) => Ok(run_two(pair, &mut section)),
            Form::Steps(words) => run_steps(words, &mut section),
            Form::Inherited(of) => {
                let whole = of.entry.lock(&self.name, true)?;
                let inside = Section::begin(&of.entry, &self.name, Location::caller());
                if !whole {
                    return Err(HelpError::OwnerDied { name: self.name.clone(), guard: () });
                }
                // SAFETY: this thread holds the lock, and nobody else has a reference while it does.
                let answer = section(unsafe { &mut *of.data() });
                inside.end();
                Ok(answer)
            }
            Form::Shared(_) | Form::Light(_) => self.with_guard(&mut section),
        }
    }

    /// Not inlined: its frame would be that of all forms.
    #[inline(never)]
    #[track_caller]
    fn with_guard<R>(&self, section: &mut impl FnMut(&mut T) -> R) -> Result<R, HelpError> {
        match self.lock() {
            Ok(mut guard) => Ok(section(&mut guard)),
            Err(HelpError::OwnerDied { name, .. }) => Err(HelpError::OwnerDied { name, guard: () }),
            Err(e) => Err(e.without()),
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
        let (holds, data, whole, process) = match &self.form {
            Form::One(_) | Form::Two(_) | Form::Steps(_) => {
                return Err(HelpError::Steps { name: self.name.clone() });
            }
            Form::Inherited(of) => {
                let whole = of.entry.lock(&self.name, wait).map_err(HelpError::without)?;
                (Holds::Entry(&of.entry), of.data(), whole, 0)
            }
            Form::Shared(of) => {
                let (entry, whole) = of.lock(&self.name, wait).map_err(HelpError::without)?;
                (Holds::Entry(entry), of.data(), whole, this_process())
            }
            Form::Light(of) => {
                let whole = of.lock.lock(&self.name, wait).map_err(HelpError::without)?;
                (Holds::Light(&of.lock), of.data(), whole, 0)
            }
        };
        if cfg!(debug_assertions) {
            inside::begin(holds.address(), &self.name, Location::caller());
        }
        if process != 0 {
            enter_within();
        }
        let guard = HelpGuard { holds, data, process, unwinding: std::thread::panicking(), thread: PhantomData };
        if whole { Ok(guard) } else { Err(HelpError::OwnerDied { name: self.name.clone(), guard }) }
    }

    /// The order of `lock_all`: locks of this process by address, then named locks by name, which all processes have in common.
    fn order(&self) -> (Option<&str>, usize) {
        match &self.form {
            Form::Shared(_) => (Some(&self.name), 0),
            _ => (None, std::ptr::from_ref(self).addr()),
        }
    }
}

/// Locks several locks, in an order that all callers have in common, also those in other processes, so that no two callers wait for each
/// other. The guards come in the order of `locks`.
///
/// # Errors
/// As [`HelpLock::lock`], of the first lock that is refused; those before it are unlocked. `Deadlock` if a lock occurs twice.
#[track_caller]
pub fn lock_all<'a, T>(locks: &[&'a HelpLock<T>]) -> Result<Vec<HelpGuard<'a, T>>, HelpError<HelpGuard<'a, T>>> {
    let mut order: Vec<usize> = (0..locks.len()).collect();
    order.sort_by_key(|i| locks[*i].order());
    let mut guards: Vec<Option<HelpGuard<'a, T>>> = locks.iter().map(|_| None).collect();
    for i in order {
        guards[i] = Some(locks[i].lock()?);
    }
    Ok(guards.into_iter().flatten().collect())
}

/// The bytes of plain data as words, the last word filled up with zeros.
#[inline(always)]
fn to_words<T, const K: usize>(value: &T) -> [u64; K] {
    const { assert!(size_of::<T>() <= 64) };
    let mut words = [0u64; K];
    let len = size_of::<T>().min(size_of_val(&words));
    // SAFETY: so many bytes of both; what `steps` makes locks of is plain data.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), words.as_mut_ptr().cast(), len) };
    words
}

/// Runs a section on a copy. Answers the new words, and the section's answer.
#[inline(always)]
fn run_on<T, R, const K: usize>(words: [u64; K], section: &mut impl FnMut(&mut T) -> R) -> ([u64; K], R) {
    let mut copy = MaybeUninit::<T>::zeroed();
    let len = size_of::<T>().min(size_of_val(&words));
    // SAFETY: so many bytes of both; any bytes are a value of plain data.
    let copy = unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), copy.as_mut_ptr().cast(), len);
        copy.assume_init_mut()
    };
    let answer = section(copy);
    (to_words(copy), answer)
}

/// A section whose data is one word: a compare-and-swap. A value that comes again is harmless: the section is a function of it.
#[inline(always)]
fn run_one<T, R>(word: &AtomicU64, section: &mut impl FnMut(&mut T) -> R) -> R {
    // Acquire: what led to this value.
    let mut seen = word.load(Ordering::Acquire);
    let mut tries = 0;
    loop {
        let ([new], answer) = run_on([seen], section);
        // AcqRel: as of a lock. Acquire: as above.
        match word.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return answer,
            Err(now) => seen = now,
        }
        tries += 1;
        tries::retried(Loop::Swap, tries);
    }
}

/// The same of two words. The section is given the value of one moment: so that is a swap as well.
#[inline(always)]
fn run_two<T, R>(pair: &Pair, section: &mut impl FnMut(&mut T) -> R) -> R {
    let mut seen = pair.load();
    let mut tries = 0;
    loop {
        let (new, answer) = run_on(seen, section);
        match pair.compare_exchange(seen, new) {
            Ok(()) => return answer,
            Err(now) => seen = now,
        }
        tries += 1;
        tries::retried(Loop::Swap, tries);
    }
}

/// As `with_guard`, of steps.
#[inline(never)]
fn run_steps<T, R>(words: &Words, section: &mut impl FnMut(&mut T) -> R) -> Result<R, HelpError> {
    match words.len() {
        1 => run::<T, R, 1>(words, section),
        2 => run::<T, R, 2>(words, section),
        3 => run::<T, R, 3>(words, section),
        4 => run::<T, R, 4>(words, section),
        5 => run::<T, R, 5>(words, section),
        6 => run::<T, R, 6>(words, section),
        7 => run::<T, R, 7>(words, section),
        _ => run::<T, R, 8>(words, section),
    }
}

/// A section of steps: a function of a copy of one moment; then all words change at once.
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

/// A section of the inherited form: unlocks when the section has ended, also by a panic. A [`HelpGuard`] does the same, but moving one in its
/// `Result` takes twice the time of the lock.
struct Section<'a>(&'a Entry);

impl<'a> Section<'a> {
    #[inline(always)]
    fn begin(entry: &'a Entry, name: &Arc<str>, place: &'static Location<'static>) -> Section<'a> {
        if cfg!(debug_assertions) {
            inside::begin(std::ptr::from_ref(entry).addr(), name, place);
        }
        Section(entry)
    }

    /// The section has returned: the data is whole, even if this thread is panicking.
    #[inline(always)]
    fn end(self) {
        if cfg!(debug_assertions) {
            inside::end(std::ptr::from_ref(self.0).addr());
        }
        self.0.give_back();
        std::mem::forget(self);
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            inside::end(std::ptr::from_ref(self.0).addr());
        }
        // The section itself has panicked: `end` keeps this from being called after it.
        self.0.unlock(false);
    }
}

/// The lock that a guard holds.
#[derive(Clone, Copy)]
enum Holds<'a> {
    Entry(&'a Entry),
    Light(&'a LightLock),
}

impl Holds<'_> {
    fn address(self) -> usize {
        match self {
            Holds::Entry(of) => std::ptr::from_ref(of).addr(),
            Holds::Light(of) => std::ptr::from_ref(of).addr(),
        }
    }
}

/// The right to the data of a [`HelpLock`] of the inherited or the light form, until it is dropped.
pub struct HelpGuard<'a, T> {
    holds: Holds<'a>,
    data: *mut T,
    /// The process whose guard it is, of a named lock; else 0.
    process: u32,
    /// The thread was unwinding when it locked: it runs a destructor, whose section the panic does not break off.
    unwinding: bool,
    /// The guard belongs to its thread.
    thread: PhantomData<&'a mut T>,
}

impl<T> std::fmt::Debug for HelpGuard<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HelpGuard")
    }
}

impl<T> HelpGuard<'_, T> {
    /// Says that the data is whole again, after a holder died.
    pub fn make_consistent(&self) {
        match self.holds {
            _ if self.is_void() => {}
            Holds::Entry(of) => of.make_whole(),
            Holds::Light(of) => of.make_whole(),
        }
    }

    /// Gives the data up: no thread locks it any more.
    pub fn condemn(self) {
        match self.holds {
            _ if self.is_void() => {}
            Holds::Entry(of) => of.condemn(),
            Holds::Light(of) => of.condemn(),
        }
    }

    /// Whether this is a forked child, and the guard is the parent's.
    fn is_void(&self) -> bool {
        self.process != 0 && !process::is_incarnation_in(self.process, u32::MAX >> 1)
    }

    fn checked(&self) -> *mut T {
        assert!(
            !self.is_void(),
            "a guard of a HelpLock is used after fork: the parent has the lock; lock it again in the child"
        );
        self.data
    }
}

impl<T> Deref for HelpGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.checked() }
    }
}

impl<T> DerefMut for HelpGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and there is one guard.
        unsafe { &mut *self.checked() }
    }
}

impl<T> Drop for HelpGuard<'_, T> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            inside::end(self.holds.address());
        }
        match self.holds {
            _ if self.is_void() => {}
            Holds::Entry(of) => of.unlock(self.unwinding),
            Holds::Light(of) => of.unlock(self.unwinding),
        }
        if self.process != 0 {
            leave_within();
        }
    }
}
