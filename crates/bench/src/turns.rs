//! Taking turns by a mutex and a condition variable: a number says whose turn it is.

use crate::peers::{Flavour, InPage, Lock, PthreadMutex};
use crate::process::shared;
use crate::raw::Scope;

/// A number of the turn, that one waits for and the other sets.
pub trait Turns: Sync {
    /// Sets it.
    fn pass(&self, next: u64);
    /// Sleeps until it is this.
    fn wait(&self, ours: u64);
    /// Back to the beginning; no thread waits.
    fn reset(&self);
}

/// Rust's own.
#[derive(Default)]
pub struct Std(std::sync::Mutex<u64>, std::sync::Condvar);

impl Turns for Std {
    fn pass(&self, next: u64) {
        *self.0.lock().expect("nobody panics here") = next;
        self.1.notify_one();
    }
    fn wait(&self, ours: u64) {
        let seen = self.0.lock().expect("nobody panics here");
        drop(self.1.wait_while(seen, |turn| *turn != ours).expect("nobody panics here"));
    }
    fn reset(&self) {
        *self.0.lock().expect("nobody panics here") = 0;
    }
}

/// parking_lot's.
#[derive(Default)]
pub struct Parking(parking_lot::Mutex<u64>, parking_lot::Condvar);

impl Turns for Parking {
    fn pass(&self, next: u64) {
        *self.0.lock() = next;
        self.1.notify_one();
    }
    fn wait(&self, ours: u64) {
        self.1.wait_while(&mut self.0.lock(), |turn| *turn != ours);
    }
    fn reset(&self) {
        *self.0.lock() = 0;
    }
}

/// The C library's, between processes.
pub struct Pthread(PthreadMutex, &'static InPage<libc::pthread_cond_t>);

impl Pthread {
    /// Makes one.
    #[expect(clippy::new_without_default, reason = "it takes pages that are never given back")]
    pub fn new() -> Pthread {
        let place = shared::<InPage<libc::pthread_cond_t>>();
        // SAFETY: no other thread uses the page yet; the attribute lives across the calls.
        unsafe {
            let mut attr: libc::pthread_condattr_t = std::mem::zeroed();
            libc::pthread_condattr_init(&mut attr);
            libc::pthread_condattr_setpshared(&mut attr, libc::PTHREAD_PROCESS_SHARED);
            assert_eq!(libc::pthread_cond_init(place.object(), &attr), 0);
        }
        Pthread(PthreadMutex::new(Flavour::Robust, Scope::Shared), place)
    }

    fn set(&self, turn: u64) {
        self.0.lock();
        // SAFETY: the number is touched only by the holder of the mutex.
        unsafe { *self.0.place().number() = turn };
        self.0.unlock();
    }
}

impl Turns for Pthread {
    fn pass(&self, next: u64) {
        self.set(next);
        // SAFETY: `new` initialised it.
        unsafe { libc::pthread_cond_signal(self.1.object()) };
    }
    fn wait(&self, ours: u64) {
        self.0.lock();
        // SAFETY: `new` initialised both; the number is touched only by the holder of the mutex, which is this thread.
        unsafe {
            while *self.0.place().number() != ours {
                libc::pthread_cond_wait(self.1.object(), self.0.place().object());
            }
        }
        self.0.unlock();
    }
    fn reset(&self) {
        self.set(0);
    }
}

/// Ours.
pub struct Ours(pub chappe::Mutex<u64>, pub chappe::Condvar);

impl Turns for Ours {
    fn pass(&self, next: u64) {
        *self.0.lock().expect("no holder dies here") = next;
        self.1.notify_one();
    }
    fn wait(&self, ours: u64) {
        let mut seen = self.0.lock().expect("no holder dies here");
        while *seen != ours {
            seen = self.1.wait(seen).expect("no holder dies here");
        }
    }
    fn reset(&self) {
        *self.0.lock().expect("no holder dies here") = 0;
    }
}
