//! How many system calls Plan 9's words make: a release always one, everything else none until somebody waits.

use chappe::plan9::{Lock, Usem, semacquire, semrelease};
use chappe_counts::silence::counted;
use std::sync::atomic::{AtomicI32, Ordering};

/// Futex calls, and others, of a thousand runs of the operation.
fn calls(mut operation: impl FnMut()) -> (u32, u32) {
    counted(1000, || (), |()| operation())
}

#[test]
fn the_filter_counts() {
    let asks = || {
        // SAFETY: takes nothing, cannot fail.
        unsafe { libc::getppid() };
    };
    assert_eq!(calls(asks), (0, 1000));
    assert_eq!(calls(|| ()), (0, 0));
}

#[test]
fn a_bare_release_makes_one_and_an_acquire_none() {
    let word = AtomicI32::new(0);
    let pair = || {
        semrelease(&word, 1).unwrap();
        assert!(semacquire(&word, true).unwrap());
    };
    assert_eq!(calls(pair), (1000, 0));
    // Whatever the value and the count.
    let many = || {
        semrelease(&word, 1000).unwrap();
        semrelease(&word, 0).unwrap();
    };
    assert_eq!(calls(many), (2000, 0));
}

#[test]
fn calls_that_do_not_block_make_no_system_call() {
    let (word, usem, lock) = (AtomicI32::new(0), Usem::new(0), Lock::new());
    lock.lock();
    assert_eq!(calls(|| assert!(!semacquire(&word, false).unwrap())), (0, 0));
    assert_eq!(calls(|| assert!(!usem.try_acquire())), (0, 0));
    assert_eq!(calls(|| assert!(!lock.canlock())), (0, 0));
    // Nor does what is refused.
    assert_eq!(calls(|| assert!(semrelease(&word, -1).is_err())), (0, 0));
    word.store(-1, Ordering::SeqCst);
    assert_eq!(calls(|| assert!(semrelease(&word, 1).is_err() && semacquire(&word, true).is_err())), (0, 0));
}

#[test]
fn an_uncontended_pair_makes_none() {
    let (usem, lock) = (Usem::new(1), Lock::new());
    let take_and_give = || {
        usem.acquire().unwrap();
        usem.release().unwrap();
    };
    assert_eq!(calls(take_and_give), (0, 0));
    let try_and_give = || {
        assert!(usem.try_acquire());
        usem.release().unwrap();
    };
    assert_eq!(calls(try_and_give), (0, 0));
    let lock_and_unlock = || {
        lock.lock();
        lock.unlock();
        assert!(lock.canlock());
        lock.unlock();
    };
    assert_eq!(calls(lock_and_unlock), (0, 0));
}
