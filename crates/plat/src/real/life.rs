//! Life words: a word that the kernel marks when the thread that owns it dies.
//!
//! The word is that of a real robust, process-shared pthread mutex, which its owner holds for the thread's life. So the kernel finds the
//! word in the thread's robust list at every kind of death: kill, exit of the thread, exec, a fault. This works with glibc and musl, and
//! needs no robust list of its own on the program's threads. `probe` is a load.

use super::atomic::AtomicU32;
use crate::word::{Life, OWNER_DIED, TID_MASK, WATCHED};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32 as Plain, Ordering};

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller owns it; its last owner released it.
    Fresh,
    /// The caller owns it; its last owner died with it.
    AfterDeath,
    /// A living thread owns it.
    Busy,
}

/// A robust, process-shared lock whose word can be watched.
#[repr(C, align(8))]
pub struct LifeLock {
    mutex: UnsafeCell<[u64; BYTES / 8]>,
}

/// What a mutex has of fields, in both C libraries; of the type's last eight bytes, on AArch64, glibc uses none once it is made.
const BYTES: usize = 40;
const _: () = assert!(size_of::<libc::pthread_mutex_t>() >= BYTES && align_of::<libc::pthread_mutex_t>() <= 8);

// SAFETY: a process-shared pthread mutex is made to be used from many threads; all access to it goes
// through pthread calls or through its atomic lock word.
unsafe impl Sync for LifeLock {}
// SAFETY: as above; the place where it lies does not move (it lies in an arena).
unsafe impl Send for LifeLock {}

/// Which C library's mutex layout this is; programs of two layouts may not share an arena.
pub const LAYOUT: u32 = if cfg!(target_env = "musl") { 2 } else { 1 };

const WORD_OFFSET: usize = if cfg!(target_env = "musl") { 4 } else { 0 };
/// Where the C library keeps the mutex's kind.
const KIND_OFFSET: usize = if cfg!(target_env = "musl") { 0 } else { 16 };

/// Where the C library keeps the link to the previous entry of its owner's list: the list itself, if this is the only entry.
const BEFORE_OFFSET: usize = 24;
/// Bytes of the head of a robust list.
const HEAD: usize = 24;

/// Why the kernel would mark no word of a thread that was started without the C library.
const NOT_BEGUN: &str = "this thread was begun by clone without the C library, which still takes it for the one that began it, so nobody would see it die; \
     use fork or pthread_create, or call exec first";
/// Why it would mark no word of any thread.
const NOT_REGISTERED: &str = "the kernel refuses set_robust_list (a seccomp filter?), so nobody would see this thread die; permit the call, as the \
     usual container runtimes do";

/// Refuses a thread whose words the kernel would not mark at its death.
///
/// The C library caches a thread's id, and writes it into the words that the thread claims; the kernel compares them with the id that it
/// knows. In a child of a bare clone(2) the C library's id is the parent's. And the kernel has to know the thread's list: a filter may have
/// refused that when the thread began.
///
/// # Errors
/// Why not, and what to do.
pub fn fit() -> Result<(), &'static str> {
    let mut lock = MaybeUninit::<LifeLock>::uninit();
    // SAFETY: the place is ours, and large enough.
    let lock = unsafe {
        LifeLock::init(lock.as_mut_ptr());
        lock.assume_init_ref()
    };
    lock.try_claim();
    let at = |offset: usize| lock.mutex.get().cast::<u8>().wrapping_add(offset);
    // SAFETY: both are within the mutex and aligned, in both C libraries; written by the claim, and nobody else knows of them.
    let (word, list) =
        unsafe { (at(WORD_OFFSET).cast::<u32>().read_volatile(), at(BEFORE_OFFSET).cast::<usize>().read_volatile()) };
    lock.release();
    if word & TID_MASK != super::process::tid() {
        return Err(NOT_BEGUN);
    }
    let (mut head, mut len) = (0usize, 0usize);
    // SAFETY: two places for what the kernel says.
    let asked = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len) };
    if asked == 0 && head != 0 {
        return Ok(());
    }
    // The kernel knows none, or does not answer. The list is the one that the C library has made for this thread.
    // SAFETY: the head of the thread's list, which stays as long as the thread.
    let told = unsafe { libc::syscall(libc::SYS_set_robust_list, list, HEAD) };
    if told == 0 { Ok(()) } else { Err(NOT_REGISTERED) }
}

/// The kind in a mutex that [`LifeLock::init`] has made; 0: not yet looked at.
static KIND: Plain = Plain::new(0);

fn kind_of_ours() -> u32 {
    // Relaxed, both: every thread finds the same. No lock here: this may be a child that was forked in the midst of it.
    let known = KIND.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut lock = MaybeUninit::<LifeLock>::uninit();
    // SAFETY: the place is ours, and large enough.
    let made = unsafe {
        LifeLock::init(lock.as_mut_ptr());
        lock.assume_init_ref()
    };
    let kind = made.kind().load(Ordering::Relaxed); // Relaxed: no other thread knows of it.
    KIND.store(kind, Ordering::Relaxed); // Relaxed: every thread finds the same.
    kind
}

/// Passes on a wake that a thread may have taken along into its death.
///
/// A thread that dies just after it was woken cannot pass the wake on. The kernel helps if the thread's robust list names a word as
/// pending: when the thread dies, it wakes one sleeper on that word, if the word names no thread (since Linux 5.5). That is meant for a
/// thread that is killed within a robust mutex. Here it serves a sleeper: the sleeper names the word before it sleeps.
///
/// Every claim or release of a life word by this thread ends that.
pub struct PassOn(*mut Listed);

/// The head of a thread's robust list, as the kernel defines it.
#[repr(C)]
struct Listed {
    first: usize,
    /// From an entry to its word.
    offset: isize,
    pending: usize,
}

const _: () = assert!(size_of::<Listed>() == HEAD);

impl PassOn {
    /// For the calling thread, which alone may use it. If the kernel does not say where its list is, nothing is passed on.
    pub fn of_this_thread() -> PassOn {
        let (mut head, mut len) = (std::ptr::null_mut::<Listed>(), 0usize);
        // SAFETY: two places for what the kernel says.
        let asked = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len) };
        PassOn(if asked == 0 && len == HEAD { head } else { std::ptr::null_mut() })
    }

    /// If this thread dies from now on, one sleeper on `word` is woken. The word stays mapped, and is always 0.
    pub fn to(&self, word: &AtomicU32) {
        if !self.0.is_null() {
            // SAFETY: the C library's head of this thread's list, which stays as long as the thread does; no operation on a
            // robust mutex is under way in it, since it is here, and no signal handler runs in a thread of ours.
            unsafe {
                let offset = (&raw const (*self.0).offset).read();
                (&raw mut (*self.0).pending).write_volatile((word.as_ptr() as usize).wrapping_sub_signed(offset));
            }
        }
    }

    /// From now on no sleeper is woken.
    pub fn to_nobody(&self) {
        if !self.0.is_null() {
            // SAFETY: as in `to`.
            unsafe { (&raw mut (*self.0).pending).write_volatile(0) };
        }
    }
}

impl LifeLock {
    /// Initialises the lock at `place`, free.
    ///
    /// # Safety
    /// `place` is valid for writes, and no other thread uses the lock yet.
    pub unsafe fn init(place: *mut LifeLock) {
        let mut made = MaybeUninit::<libc::pthread_mutex_t>::zeroed();
        // SAFETY: place is valid by the caller's promise; the attribute lives across the calls; a mutex that nobody has yet, whose fields
        // are all that is copied, has no address of its own in it.
        unsafe {
            let mut attr = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
            assert_eq!(libc::pthread_mutexattr_init(attr.as_mut_ptr()), 0);
            assert_eq!(libc::pthread_mutexattr_setpshared(attr.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED), 0);
            assert_eq!(libc::pthread_mutexattr_setrobust(attr.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST), 0);
            assert_eq!(libc::pthread_mutex_init(made.as_mut_ptr(), attr.as_ptr()), 0);
            libc::pthread_mutexattr_destroy(attr.as_mut_ptr());
            place.cast::<u8>().copy_from_nonoverlapping(made.as_ptr().cast(), BYTES);
        }
    }

    /// Makes a free lock of zeros. Any number of threads may do so at once, and it does nothing to what is a lock already, or was written over.
    pub fn make(&self) {
        // Relaxed: the kind alone differs from zeros; a thread that does not see it yet claims nothing.
        let _ = self.kind().compare_exchange(0, kind_of_ours(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// As the C library takes it.
    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.mutex.get().cast()
    }

    fn settle(&self, result: i32) -> Claim {
        match result {
            0 => Claim::Fresh,
            libc::EOWNERDEAD => {
                // SAFETY: this thread has just been given the mutex in the inconsistent state.
                unsafe { libc::pthread_mutex_consistent(self.mutex()) };
                Claim::AfterDeath
            }
            _ => Claim::Busy,
        }
    }

    fn kind(&self) -> &Plain {
        // SAFETY: within the mutex and aligned, in both C libraries; written by `init` alone.
        unsafe { &*self.mutex.get().cast::<u8>().add(KIND_OFFSET).cast::<Plain>() }
    }

    /// Whether the lock is intact. A lock whose kind was written over can be neither taken nor released: what the C library does with other
    /// kinds is unsafe in memory that other processes can write.
    pub fn is_whole(&self) -> bool {
        // Relaxed: written before any other thread saw the lock.
        self.kind().load(Ordering::Relaxed) == kind_of_ours()
    }

    /// Takes the lock for this thread if no living thread has it. Never blocks.
    pub fn try_claim(&self) -> Claim {
        if !self.is_whole() {
            return Claim::Busy;
        }
        // SAFETY: the mutex was initialised by `init` before the arena was published.
        self.settle(unsafe { libc::pthread_mutex_trylock(self.mutex()) })
    }

    /// Releases the lock; wakes the threads that watch the word.
    pub fn release(&self) {
        if !self.is_whole() {
            return;
        }
        // SAFETY: as in `try_claim`; a thread that does not own a robust mutex is refused by it.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }

    /// The word that the kernel marks.
    #[inline(always)]
    pub fn word(&self) -> &AtomicU32 {
        // SAFETY: both C libraries keep the 32-bit lock word at this aligned offset; the kernel and
        // other threads touch it atomically.
        unsafe { &*self.mutex.get().cast::<u8>().add(WORD_OFFSET).cast::<AtomicU32>() }
    }

    /// The present state of the word.
    #[inline(always)]
    pub fn probe(&self) -> Life {
        // Acquire: what the dead owner wrote before it died is visible to every thread that sees the mark.
        Life::of(self.word().load(Ordering::Acquire))
    }

    /// Makes the word name the process instead of the thread that owns it.
    ///
    /// A thread that is not the leader takes the leader's id when it calls exec, before the kernel walks its words: only a word that names
    /// that id is marked then. Call this right after the claim; release with [`LifeLock::release_as_process`].
    pub fn name_process(&self) {
        self.rename(super::process::pid());
    }

    /// Releases a word that [`LifeLock::name_process`] renamed.
    pub fn release_as_process(&self) {
        self.rename(super::process::tid());
        self.release();
    }

    fn rename(&self, id: u32) {
        let word = self.word();
        // Relaxed: only the owner changes the id; watchers only add their bit, hence the loop.
        let mut now = word.load(Ordering::Relaxed);
        while let Err(seen) =
            // Relaxed: as above; nothing is published by the change of name.
            word.compare_exchange(now, (now & !TID_MASK) | id, Ordering::Relaxed, Ordering::Relaxed)
        {
            now = seen;
        }
    }

    /// Asks the kernel to wake a sleeper when the owner dies; returns the value to sleep on, or `None` if there is no living owner to
    /// watch.
    pub fn watch(&self) -> Option<u32> {
        let word = self.word();
        // Acquire: as in `probe`.
        let mut now = word.load(Ordering::Acquire);
        loop {
            match Life::of(now) {
                Life::Free | Life::Dead => return None,
                Life::Alive(_) if now & WATCHED != 0 => return Some(now),
                // AcqRel: pairs with the owner's and the kernel's change of the same word.
                Life::Alive(_) => {
                    match word.compare_exchange(now, now | WATCHED, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => return Some(now | WATCHED),
                        Err(seen) => now = seen,
                    }
                }
            }
        }
    }

    /// Marks the word as the kernel would, for an owner known to be gone although its own id was no
    /// longer the one in the word (exec from a thread that is not the leader).
    pub fn mark_dead(&self, id: u32) {
        let word = self.word();
        // Acquire: as in `probe`.
        let mut now = word.load(Ordering::Acquire);
        while Life::of(now) == Life::Alive(id) {
            // AcqRel: publishes the death to the threads that probe.
            match word.compare_exchange(now, OWNER_DIED | (now & WATCHED), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    super::futex::wake(word, u32::MAX, super::futex::Scope::Shared);
                    return;
                }
                Err(seen) => now = seen,
            }
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::futex::{Scope, Wait, wait};
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_lock_that_is_made_of_zeros_is_as_one_that_the_c_library_makes() {
        // SAFETY: zeros are what `make` is given.
        let (made, mut theirs) = unsafe { (std::mem::zeroed::<LifeLock>(), std::mem::zeroed::<LifeLock>()) };
        assert!(!made.is_whole() && made.try_claim() == Claim::Busy);
        made.make();
        // SAFETY: a place of our own.
        unsafe { LifeLock::init(&mut theirs) };
        // SAFETY: plain bytes, all of them initialised.
        let bytes = |lock: &LifeLock| unsafe { std::ptr::from_ref(lock).cast::<[u8; size_of::<LifeLock>()]>().read() };
        assert_eq!(bytes(&made), bytes(&theirs));
        assert_eq!(made.try_claim(), Claim::Fresh);
        let held = bytes(&made);
        made.make();
        assert_eq!(bytes(&made), held, "one that is there is left alone");
        made.release();
        // SAFETY: as above.
        let spoilt: LifeLock = unsafe { std::mem::transmute([0x5a_u8; size_of::<LifeLock>()]) };
        spoilt.make();
        assert!(!spoilt.is_whole());
    }

    #[test]
    fn a_thread_that_ends_wakes_who_sleeps_on_the_word_it_named() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        static WOKEN: AtomicBool = AtomicBool::new(false);
        let sleeper = std::thread::spawn(|| {
            while wait(&WORD, 0, None, Scope::Shared) != Wait::Woken {}
            // SeqCst: a test.
            WOKEN.store(true, Ordering::SeqCst);
        });
        // Until the sleeper sleeps: threads that end before that wake no sleeper.
        let mut ended = 0;
        // SeqCst: a test.
        while !WOKEN.load(Ordering::SeqCst) {
            assert!(ended < 100_000, "the kernel wakes nobody");
            ended += 1;
            std::thread::spawn(|| PassOn::of_this_thread().to(&WORD)).join().expect("it ends");
        }
        sleeper.join().expect("it was woken");
    }
}
