//! Cancellation of a thread that waits on one of this library's semaphores.
//!
//! The C library's `pthread_cancel` marks the thread, and wakes it only from the C library's own waits. So this library's version marks the
//! thread through it, and then ends the thread's wait here, if it is in one. The thread finds that it is marked, and acts upon it by
//! `pthread_testcancel`, in a frame that owns nothing. Each thread that has ever waited has an *ear*, a record by which a canceller finds
//! it.
//!
//! ```text
//!   OUT --arm--> ARMED --enter--> IN --leave--> OUT
//!                  | told           | told: the wait is interrupted, then HEARD
//!                  v                v
//!                goes round       goes round
//! ```
//!
//! - I1: a waiter arms its ear, and then looks whether it is marked (`pthread_testcancel`); a canceller marks, and then looks at the ear.
//!   So one of the two sees the other (E1). A thread that is cancelled there leaves its ear armed, without a wait.
//! - I2: the interrupt of an ear is made new before each wait. Another thread touches it only between IN | TOLD and HEARD, and its thread
//!   waits for HEARD before it leaves.
//! - I3: ears are never given back to memory, so a late look is harmless; an ear that its thread has given up serves the next thread.
//! - I4: a canceller holds the list's lock up to TOLD, and a thread that ends takes it to give its ear up, behind HEARD. A waiter takes no
//!   lock.
//! - I5: a canceller does not wait for what may last: a handler may run in the thread on top of its wait, or may have jumped out of it.
//!   After some tries a background thread goes on with it.
//! - I6: a wait that was jumped out of leaves its ear IN. Its thread corrects that (`forsake`) before it waits again, or ends.

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
pub struct Ear {
    state: AtomicU32,
    interrupt: UnsafeCell<Interrupt>,
}

// SAFETY: I2: no other thread touches the interrupt except while its thread waits for that.
unsafe impl Sync for Ear {}

impl Ear {
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
        // SAFETY: I2, the ear is not IN.
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

    /// Ends the wait, after [`Ear::tell`]. False: it goes on after so many tries.
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
struct Ears {
    used: Vec<(pthread_t, &'static Ear)>,
    free: Vec<&'static Ear>,
}

static EARS: Mutex<Ears> = Mutex::new(Ears { used: Vec::new(), free: Vec::new() });

fn ears() -> std::sync::MutexGuard<'static, Ears> {
    EARS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a thread that forks.
pub fn quiet() -> impl Sized {
    ears()
}

fn me() -> pthread_t {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() }
}

/// In a forked child: the other threads are not there.
pub fn only_this_thread() {
    let mut ears = ears();
    let me = me();
    ears.used.retain(|(thread, _)| *thread == me);
    for (_, ear) in &ears.used {
        // SeqCst, both: I2. The canceller that told this one in the parent is not here; a handler forks on top of its wait.
        if ear.state.load(Ordering::SeqCst) == IN | TOLD {
            ear.state.store(IN | TOLD | HEARD, Ordering::SeqCst); // SeqCst: I2.
        }
    }
}

struct Mine(Cell<Option<&'static Ear>>);

impl Drop for Mine {
    fn drop(&mut self) {
        without_signals(|| {
            if let Some(ear) = self.0.take() {
                ear.forsake();
                let mut ears = ears();
                ears.used.retain(|(_, other)| !std::ptr::eq(*other, ear));
                ears.free.push(ear);
            }
        });
    }
}

thread_local! {
    static MINE: Mine = const { Mine(Cell::new(None)) };
}

/// The calling thread's. None: it ends, and is not cancelled any more. The caller's frame must own nothing.
#[inline]
pub fn mine() -> Option<&'static Ear> {
    MINE.try_with(|mine| mine.0.get()).unwrap_or(None).or_else(new)
}

/// The first time: with locks and allocations.
#[cold]
fn new() -> Option<&'static Ear> {
    let was_on = off();
    forks::prepare();
    let ear = contained(None, || {
        // A thread whose local data has gone is not cancelled, either.
        MINE.try_with(|mine| {
            without_signals(|| {
                let mut ears = ears();
                let me = me();
                // A thread whose end was not seen may have had this number.
                ears.used.retain(|(thread, _)| *thread != me);
                let ear = ears.free.pop().unwrap_or_else(|| {
                    Box::leak(Box::new(Ear {
                        state: AtomicU32::new(OUT),
                        interrupt: UnsafeCell::new(Interrupt::new()),
                    }))
                });
                ear.state.store(OUT, Ordering::SeqCst); // SeqCst: no canceller finds it yet.
                ears.used.push((me, ear));
                mine.0.set(Some(ear));
                ear
            })
        })
        .ok()
    });
    back(was_on);
    ear
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
                let ears = ears();
                let its = ears.used.iter().find(|(other, _)| *other == thread);
                let told = its.map(|(_, ear)| *ear).filter(|ear| ear.tell());
                // I4.
                drop(ears);
                if let Some(ear) = told {
                    ear.see_to_it();
                }
            });
        });
    }
    back(was_on);
    answer
}
