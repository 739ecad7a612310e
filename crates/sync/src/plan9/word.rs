//! The calls on a word. Invariants, races and edges: those of the head of this module's parent.

use chappe_plat::atomic::{AtomicI32, AtomicU64, Ordering, unsigned};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::{clock, step};

/// A sleeper looks again after so long.
const LOOK_AGAIN_NS: u64 = 2_000_000_000;

static RESCUES: AtomicU64 = AtomicU64::new(0);

/// Why a word was not acquired or released. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Plan9Error {
    /// A signal was handled while the call slept: Plan 9's -1.
    #[error("interrupted by a signal while waiting for a semaphore; call again to go on waiting")]
    Interrupted,
    /// A null address.
    #[error("a semaphore is a word in memory, and the address given is null")]
    Null,
    /// Not at a multiple of four bytes.
    #[error("the word at {address:#x} cannot be a semaphore: its address must be a multiple of 4")]
    Misaligned {
        /// Where it was to lie.
        address: usize,
    },
    /// What is to be unlocked is not locked.
    #[error("the lock at {address:#x} is unlocked, and nobody holds it (its key is {key}): nothing was changed")]
    NotLocked {
        /// Where it lies.
        address: usize,
        /// What its first word holds.
        key: i32,
    },
    /// The word is no semaphore.
    #[error(
        "the word at {address:#x} holds {value}: a semaphore is never negative; store 0 or more there before it is used"
    )]
    Negative {
        /// Where it lies.
        address: usize,
        /// What it holds.
        value: i32,
    },
    /// A release of a negative count.
    #[error("cannot release a semaphore {count} times: the count must be 0 or more")]
    NegativeCount {
        /// What was asked for.
        count: i32,
    },
    /// More than the word can hold.
    #[error(
        "the word at {address:#x} holds {value}, and cannot be released {count} times: {} is the most; nothing was released",
        i32::MAX
    )]
    Overflow {
        /// Where it lies.
        address: usize,
        /// What it holds.
        value: i32,
        /// What was to be added.
        count: i32,
    },
}

/// Waits until the word is positive, and takes 1 from it.
///
/// `Ok(true)`: taken (Plan 9's 1). `Ok(false)`: there is nothing to take, and `block` is false (0).
///
/// *Blocks* while the word is 0, unless `block` is false: then it never enters the kernel. *Fairness*: the kernel
/// wakes sleepers in the order of their sleep, those of real-time priority first; before they run, any thread may
/// overtake them. *Signals*: any handled signal ends the wait, also if its handler was installed with SA_RESTART.
/// *Fork*: parent and child go on sharing a word in shared memory; in private memory each has its own from then on.
/// *Death*: what a dead process had taken stays taken.
///
/// # Errors
/// [`Plan9Error::Interrupted`] (-1), and [`Plan9Error::Negative`] for a word that is no semaphore. Nothing was taken
/// then.
///
/// ```
/// # #[cfg(not(feature = "sim"))] {
/// use chappe_sync::plan9::{semacquire, semrelease};
/// use std::sync::atomic::AtomicI32;
///
/// let word = AtomicI32::new(1);
/// assert!(semacquire(&word, true)?);
/// assert!(!semacquire(&word, false)?);
/// std::thread::scope(|s| {
///     s.spawn(|| semrelease(&word, 1));
///     semacquire(&word, true)
/// })?;
/// # }
/// # Ok::<(), chappe_sync::plan9::Plan9Error>(())
/// ```
///
/// plan9-semaphores, section 1; `int semacquire(long *addr, int block)`.
#[doc(alias = "sem_wait")]
pub fn semacquire(word: &AtomicI32, block: bool) -> Result<bool, Plan9Error> {
    let mut second_look = false;
    loop {
        // Relaxed: a guess; the swap below confirms it, or the kernel does before the sleep, I2.
        let mut value = word.load(Ordering::Relaxed);
        if second_look && value > 0 {
            RESCUES.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
        }
        while value > 0 {
            // Acquire: E1. Relaxed on failure: another guess.
            match word.compare_exchange_weak(value, value - 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(true),
                Err(now) => value = now,
            }
        }
        if value < 0 {
            return Err(Plan9Error::Negative { address: word.as_ptr() as usize, value });
        }
        if !block {
            return Ok(false);
        }
        // E2; I2: it sleeps only if the value is still 0.
        second_look = match futex::wait(unsigned(word), 0, Some(clock::now() + LOOK_AGAIN_NS), Scope::Shared) {
            Wait::Interrupted => return Err(Plan9Error::Interrupted),
            Wait::TimedOut => true,
            // R1, R2: a wake-up obliges to look.
            Wait::Woken | Wait::Changed | Wait::Unsupported => false,
        };
    }
}

/// Adds `count` to the word, and wakes at most `count` of its sleepers. Answers the new value.
///
/// *Never waits*, and makes exactly one system call. *Signals*: a handler may call it, whatever it interrupts,
/// another `semrelease` or a `semacquire` of the same word too. *Death*: it has happened entirely or not at all; if
/// the caller is killed or stopped in between, sleepers notice within two seconds. Once another thread can take what was released,
/// only the word's address is used, so the taker may unmap the word.
///
/// # Errors
/// [`Plan9Error::NegativeCount`]; [`Plan9Error::Overflow`] beyond `i32::MAX`; [`Plan9Error::Negative`] for a word
/// that is no semaphore. Nothing was released then, and no thread woken.
///
/// ```
/// # #[cfg(not(feature = "sim"))] {
/// use chappe_sync::plan9::{Plan9Error, semrelease};
/// use std::sync::atomic::AtomicI32;
///
/// let word = AtomicI32::new(0);
/// assert_eq!(semrelease(&word, 3)?, 3);
/// assert!(matches!(semrelease(&word, i32::MAX), Err(Plan9Error::Overflow { value: 3, .. })));
/// # }
/// # Ok::<(), chappe_sync::plan9::Plan9Error>(())
/// ```
///
/// plan9-semaphores, section 1; `long semrelease(long *addr, long count)`.
#[doc(alias = "sem_post")]
pub fn semrelease(word: &AtomicI32, count: i32) -> Result<i32, Plan9Error> {
    if count < 0 {
        return Err(Plan9Error::NegativeCount { count });
    }
    let address = word.as_ptr() as usize;
    // Relaxed: a guess; the swap confirms it.
    let mut value = word.load(Ordering::Relaxed);
    let raised = loop {
        if value < 0 {
            return Err(Plan9Error::Negative { address, value });
        }
        let Some(raised) = value.checked_add(count) else {
            return Err(Plan9Error::Overflow { address, value, count });
        };
        // Release: E1; and before the wake-up, E2. Relaxed on failure: another guess.
        match word.compare_exchange_weak(value, raised, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break raised,
            Err(now) => value = now,
        }
    };
    step!("released, nobody woken yet");
    // I3, R3: whatever the value was.
    futex::wake(unsigned(word), count as u32, Scope::Shared);
    Ok(raised)
}

/// [`semacquire`] on an address.
///
/// # Errors
/// Those of [`semacquire`]; [`Plan9Error::Null`] and [`Plan9Error::Misaligned`].
///
/// # Safety
/// Unless it is null or misaligned, `word` is valid for reads and writes of four bytes until the call returns, and
/// every other access to them meanwhile, from any process, is atomic and of four bytes (as those of these calls
/// are).
pub unsafe fn semacquire_at(word: *mut i32, block: bool) -> Result<bool, Plan9Error> {
    // SAFETY: the caller's promise.
    semacquire(unsafe { at(word) }?, block)
}

/// [`semrelease`] on an address.
///
/// # Errors
/// Those of [`semrelease`]; [`Plan9Error::Null`] and [`Plan9Error::Misaligned`].
///
/// # Safety
/// As for [`semacquire_at`], until the value is raised; the taker of what was released may then end the word's life.
pub unsafe fn semrelease_at(word: *mut i32, count: i32) -> Result<i32, Plan9Error> {
    // SAFETY: the caller's promise.
    semrelease(unsafe { at(word) }?, count)
}

/// The word at an address, if one can be there.
///
/// # Safety
/// As for [`semacquire_at`], for as long as the answer is used.
unsafe fn at<'a>(word: *mut i32) -> Result<&'a AtomicI32, Plan9Error> {
    let address = word as usize;
    if word.is_null() {
        Err(Plan9Error::Null)
    } else if !address.is_multiple_of(align_of::<AtomicI32>()) {
        Err(Plan9Error::Misaligned { address })
    } else {
        // SAFETY: it is neither null nor misaligned; the rest is the caller's promise.
        Ok(unsafe { &*word.cast::<AtomicI32>() })
    }
}

/// Waits for a word, whatever signals come: what [`Usem`](super::Usem) and [`Lock`](super::Lock) do.
pub(super) fn semacquire_uninterrupted(word: &AtomicI32) -> Result<(), Plan9Error> {
    loop {
        match semacquire(word, true) {
            Err(Plan9Error::Interrupted) => {}
            other => return other.map(|_| ()),
        }
    }
}

/// How many times a waiter of this process found by its own second look what a wake-up should have brought.
///
/// Each is a wake-up that was lost with a killed process, or that a stopped process has and does not use.
pub fn rescues() -> u64 {
    RESCUES.load(Ordering::Relaxed) // Relaxed: a count.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_there_and_adds_what_is_given() {
        let word = AtomicI32::new(0);
        assert_eq!(semacquire(&word, false), Ok(false));
        assert_eq!(semrelease(&word, 2), Ok(2));
        assert_eq!(semrelease(&word, 0), Ok(2));
        assert_eq!(semacquire(&word, true), Ok(true));
        assert_eq!(semacquire(&word, false), Ok(true));
        assert_eq!(semacquire(&word, false), Ok(false));
        assert_eq!(word.into_inner(), 0);
    }

    #[test]
    fn the_greatest_value_is_held_and_not_passed() {
        let word = AtomicI32::new(i32::MAX - 1);
        let address = word.as_ptr() as usize;
        let full = |value, count| Err(Plan9Error::Overflow { address, value, count });
        assert_eq!(semrelease(&word, 2), full(i32::MAX - 1, 2));
        assert_eq!(semrelease(&word, i32::MAX), full(i32::MAX - 1, i32::MAX));
        assert_eq!(semrelease(&word, 1), Ok(i32::MAX));
        assert_eq!(semrelease(&word, 1), full(i32::MAX, 1));
        assert_eq!(semrelease(&word, 0), Ok(i32::MAX));
        assert_eq!(semacquire(&word, true), Ok(true));
        assert_eq!(word.into_inner(), i32::MAX - 1);
        let text = full(i32::MAX, 1).unwrap_err().to_string();
        assert!(text.contains("2147483647 is the most"), "{text}");
    }

    #[test]
    fn a_negative_value_is_refused_and_not_changed() {
        for value in [-1, i32::MIN] {
            let word = AtomicI32::new(value);
            let refused = Plan9Error::Negative { address: word.as_ptr() as usize, value };
            assert_eq!(semacquire(&word, true), Err(refused));
            assert_eq!(semacquire(&word, false), Err(refused));
            assert_eq!(semrelease(&word, 1), Err(refused));
            assert_eq!(semrelease(&word, -1), Err(Plan9Error::NegativeCount { count: -1 }));
            assert!(refused.to_string().contains("never negative"), "{refused}");
            assert_eq!(word.into_inner(), value);
        }
        let word = AtomicI32::new(5);
        assert_eq!(semrelease(&word, i32::MIN), Err(Plan9Error::NegativeCount { count: i32::MIN }));
        assert_eq!(word.into_inner(), 5);
    }

    #[test]
    fn an_address_where_no_word_can_be_is_refused() {
        let mut words = [1i32; 2];
        let base = words.as_mut_ptr();
        for off in 1..4 {
            let odd = base.cast::<u8>().wrapping_add(off).cast::<i32>();
            let refused = Plan9Error::Misaligned { address: odd as usize };
            // SAFETY: it is misaligned, which is refused.
            assert_eq!(unsafe { semacquire_at(odd, true) }, Err(refused));
            // SAFETY: as above.
            assert_eq!(unsafe { semrelease_at(odd, 1) }, Err(refused));
            assert!(refused.to_string().contains("multiple of 4"), "{refused}");
        }
        // SAFETY: null is refused.
        assert_eq!(unsafe { semacquire_at(std::ptr::null_mut(), true) }, Err(Plan9Error::Null));
        // SAFETY: as above.
        assert_eq!(unsafe { semrelease_at(std::ptr::null_mut(), 1) }, Err(Plan9Error::Null));
        // SAFETY: two words of our own, used by no other thread meanwhile.
        assert_eq!(unsafe { (semacquire_at(base, true), semrelease_at(base.add(1), 4)) }, (Ok(true), Ok(5)));
        assert_eq!(words, [0, 5]);
    }
}
