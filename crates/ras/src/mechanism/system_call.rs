//! The mechanism `SystemCall`: the kernel does it all, a call to take and a call to release.
//!
//! netbsd-restartable-sequences, 4.1: two calls that the author had added to his kernel to compare with. Linux has them: the locks of
//! `chappe_plat::pi`. (Their use is usually the other way round: user code first, the kernel where it must.)
//!
//! The kernel knows the owner of a lock: to take a lock twice, or to release a lock that one does not hold, is an error that it reports.
//! The other mechanisms cannot tell; they wait for ever, or let two threads in.

use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::pi::{self, Refused};

/// Whether the kernel does it, for this thread.
pub(super) fn is_there() -> Result<(), Refused> {
    let word = AtomicU32::new(0);
    pi::try_lock(&word)?;
    pi::unlock(&word)
}

pub(super) fn try_acquire(word: &AtomicU32) -> bool {
    match pi::try_lock(word) {
        Ok(()) => true,
        Err(Refused::Held | Refused::Ours | Refused::Gone) => false,
        Err(why) => {
            panic!("the kernel refuses a lock that it had before: {why:?} (a filter, or the flag was overwritten)")
        }
    }
}

pub(super) fn acquire(word: &AtomicU32) {
    match pi::lock(word) {
        Ok(()) => {}
        // Held for ever, as with the other mechanisms; perhaps by this thread, to which the kernel has given it.
        Err(Refused::Gone) => loop {
            // Relaxed: only what to sleep on.
            futex::wait(word, word.load(Ordering::Relaxed), None, Scope::Private);
        },
        Err(Refused::Ours) => panic!(
            "this thread would wait for itself for ever: it has the flag already, or who has it waits for one that this \
                 thread has"
        ),
        Err(why) => {
            panic!("the kernel refuses a lock that it had before: {why:?} (a filter, or the flag was overwritten)")
        }
    }
}

pub(super) fn release(word: &AtomicU32) {
    match pi::unlock(word) {
        Ok(()) => {}
        Err(Refused::NotOurs) => panic!("this thread does not have the flag: who acquires it releases it"),
        Err(why) => panic!("the kernel refuses to release a lock: {why:?} (a filter, or the flag was overwritten)"),
    }
}
