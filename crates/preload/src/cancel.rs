//! Cancellation of a thread that waits on one of this library's semaphores.
//!
//! The C library's `pthread_cancel` marks the thread, and wakes it only from the C library's own waits. So this library's version marks the
//! thread through it, and then ends the thread's wait here, if it is in one. The thread finds that it is marked, and acts upon it by
//! `pthread_testcancel`, in a frame that owns nothing. Each thread that has ever waited has a *listener*, a record by which a canceller finds
//! it.
//!
//! ```text
//!   OUT --arm--> ARMED --enter--> IN --leave--> OUT
//!                  | told           | told: the wait is interrupted, then HEARD
//!                  v                v
//!                goes round       goes round
//! ```
//!
//! - I1: a waiter arms its listener, and then looks whether it is marked (`pthread_testcancel`); a canceller marks, and then looks at the listener.
//!   So one of the two sees the other (E1). A thread that is cancelled there leaves its listener armed, without a wait.
//! - I2: the interrupt of a listener is made new before each wait. Another thread touches it only between IN | TOLD and HEARD, and its thread
//!   waits for HEARD before it leaves.
//! - I3: listeners are never given back to memory, so a late look is harmless; a listener that its thread has given up serves the next thread.
//! - I4: a canceller holds the list's lock up to TOLD, and a thread that ends takes it to give its listener up, behind HEARD. A waiter takes no
//!   lock.
//! - I5: a canceller does not wait for what may last: a handler may run in the thread on top of its wait, or may have jumped out of it.
//!   After some tries a background thread goes on with it.
//! - I6: a wait that was jumped out of leaves its listener IN. Its thread corrects that (`forsake`) before it waits again, or ends.

use crate::shield::{back, contained, off, without_signals};
use crate::{forks, real};
use chappe::{Interrupt, kernel_thread as thread};
use libc::{c_int, pthread_t};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const OUT: u32 = 0;
const ARMED: u32 = 1;
const IN: u32 = 2;
const TOLD: u32 = 4;
const HEARD: u32 = 8;

/// How often a canceller tries by itself.
const TRIES: u32 = 100;
/// How long it is until the next try from then on: first, and at most.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);
/// How long a thread that was told waits before it looks again.
const SOON: Duration = Duration::from_micros(20);

/// By what a thread hears that it is cancelled.
pub struct Listener {
    state: AtomicU32,
    interrupt: UnsafeCell<Interrupt>,
}

// SAFETY: I2: no other thread touches the interrupt except while its thread waits for that.
unsafe impl Sync for Listener {}

impl Listener {
    /// From here on a cancellation is either seen by a look at the mark, or told.
    pub fn arm(&self) {
        // Relaxed: E1 is the fence's.
        self.state.store(ARMED, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SeqCst: E1.
    }

    /// There will be no wait in which the thread could be told. Always false.
    pub fn disarm(&self) -> bool {
        self.state.store(OUT, Ordering::SeqCst); // SeqCst: E1.
        false
    }

    /// Begins a wait. None: the thread was told meanwhile.
    pub fn enter(&self) -> Option<&Interrupt> {
        // SAFETY: I2, the listener is not IN.
        unsafe { *self.interrupt.get() = Interrupt::new() };
        // SeqCst: E1; publishes the interrupt.
        match self.state.compare_exchange(ARMED, IN, Ordering::SeqCst, Ordering::SeqCst) {
            // SAFETY: I2: no other thread changes it until this thread has left.
            Ok(_) => Some(unsafe { &*self.interrupt.get() }),
            Err(_) => {
                self.state.store(OUT, Ordering::SeqCst); // SeqCst: E1.
                None
            }
        }
    }

    /// Ends it; whether the thread was told.
    pub fn leave(&self) -> bool {
        // SeqCst: I2, this or being told.
        if self.state.compare_exchange(IN, OUT, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return false;
        }
        // SeqCst: I2. The canceller is almost done: the wait is over. It may need this processor for that.
        while self.state.load(Ordering::SeqCst) & HEARD == 0 {
            std::thread::sleep(SOON);
        }
        self.state.store(OUT, Ordering::SeqCst); // SeqCst: E1.
        true
    }

    /// Its thread, which calls this, has left the wait that it was in by a jump, if it was in one: I6.
    pub fn forsake(&self) {
        // SeqCst: I2.
        if self.state.load(Ordering::SeqCst) & IN != 0 {
            // SAFETY: I2: this thread does not change it before HEARD.
            unsafe { (*self.interrupt.get()).forsake() };
            self.leave();
        }
    }

    /// True: its thread is in a wait, which the caller is to end.
    fn tell(&self) -> bool {
        // SeqCst: E1, after the mark.
        let armed = self.state.compare_exchange(ARMED, ARMED | TOLD, Ordering::SeqCst, Ordering::SeqCst);
        // SeqCst: I2.
        armed == Err(IN) && self.state.compare_exchange(IN, IN | TOLD, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Ends the wait, after [`Listener::tell`]. False: it goes on after so many tries.
    fn end_wait(&self, tries: u32) -> bool {
        // SAFETY: I2: its thread leaves it as it is until HEARD.
        let has_ended = unsafe { (*self.interrupt.get()).try_interrupt(tries) };
        if has_ended {
            self.state.store(IN | TOLD | HEARD, Ordering::SeqCst); // SeqCst: I2.
        }
        has_ended
    }

    /// The same, in the end: I5.
    fn see_to_it(&'static self) {
        let go_on = move || {
            let mut pause = PAUSE;
            while !self.end_wait(1) {
                std::thread::sleep(pause);
                pause = (pause * 5 / 4).min(LONGEST);
            }
        };
        if !self.end_wait(TRIES) && thread::background("chappe-cancel", go_on).is_err() {
            go_on();
        }
    }
}

/// Those that are in use, by thread, and those that are not.
struct Listeners {
    used: Vec<(pthread_t, &'static Listener)>,
    free: Vec<&'static Listener>,
}

static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { used: Vec::new(), free: Vec::new() });

fn listeners() -> std::sync::MutexGuard<'static, Listeners> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a thread that forks.
pub fn quiet() -> impl Sized {
    listeners()
}

fn me() -> pthread_t {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() }
}

/// In a forked child: the other threads are not there.
pub fn only_this_thread() {
    let mut listeners = listeners();
    let me = me();
    listeners.used.retain(|(thread, _)| *thread == me);
    for (_, listener) in &listeners.used {
        // SeqCst, both: I2. The canceller that told this one in the parent is not here; a handler forks on top of its wait.
        if listener.state.load(Ordering::SeqCst) == IN | TOLD {
            listener.state.store(IN | TOLD | HEARD, Ordering::SeqCst); // SeqCst: I2.
        }
    }
}

struct Mine(Cell<Option<&'static Listener>>);

impl Drop for Mine {
    fn drop(&mut self) {
        without_signals(|| {
            if let Some(listener) = self.0.take() {
                listener.forsake();
                let mut listeners = listeners();
                listeners.used.retain(|(_, other)| !std::ptr::eq(*other, listener));
                listeners.free.push(listener);
            }
        });
    }
}

thread_local! {
    static MINE: Mine = const { Mine(Cell::new(None)) };
}

/// The calling thread's. None: it ends, and is not cancelled any more. The caller's frame must own nothing.
#[inline]
pub fn mine() -> Option<&'static Listener> {
    MINE.try_with(|mine| mine.0.get()).unwrap_or(None).or_else(new)
}

/// The first time: with locks and allocations.
#[cold]
fn new() -> Option<&'static Listener> {
    let was_on = off();
    forks::prepare();
    let listener = contained(None, || {
        // A thread whose local data has gone is not cancelled, either.
        MINE.try_with(|mine| {
            without_signals(|| {
                let mut listeners = listeners();
                let me = me();
                // A thread whose end was not seen may have had this number.
                listeners.used.retain(|(thread, _)| *thread != me);
                let listener = listeners.free.pop().unwrap_or_else(|| {
                    Box::leak(Box::new(Listener {
                        state: AtomicU32::new(OUT),
                        interrupt: UnsafeCell::new(Interrupt::new()),
                    }))
                });
                listener.state.store(OUT, Ordering::SeqCst); // SeqCst: no canceller finds it yet.
                listeners.used.push((me, listener));
                mine.0.set(Some(listener));
                listener
            })
        })
        .ok()
    });
    back(was_on);
    listener
}

/// POSIX' function: cancels a thread, also one that waits on one of this library's semaphores.
///
/// # Safety
/// As POSIX has it: the thread has not ended and been joined or detached.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    if thread == me() {
        // This thread does not wait. With the asynchronous type, this does not come back.
        // SAFETY: the caller's.
        return unsafe { real::pthread_cancel(thread) };
    }
    let was_on = off();
    // SAFETY: the caller's.
    let answer = unsafe { real::pthread_cancel(thread) };
    fence(Ordering::SeqCst); // SeqCst: E1, the mark before the look.
    if answer == 0 {
        contained((), || {
            forks::prepare();
            without_signals(|| {
                let listeners = listeners();
                let its = listeners.used.iter().find(|(other, _)| *other == thread);
                let told = its.map(|(_, listener)| *listener).filter(|listener| listener.tell());
                // I4.
                drop(listeners);
                if let Some(listener) = told {
                    listener.see_to_it();
                }
            });
        });
    }
    back(was_on);
    answer
}
