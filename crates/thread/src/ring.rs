//! How a light thread waits for a file: by a ring (io_uring) of the process, while its proc runs others.
//!
//! ```text
//!   the thread:  asks the kernel -- parks ............................................ goes on: its result is there
//!   the kernel:        does it ... -- completion -- event
//!   chappe-poll:                                        result, `done` -- gives the token
//! ```
//!
//! - F1: what the kernel reads or writes stays until the completion. The thread does not leave [`Asked`] before `done`, whatever becomes of it: interrupts run
//!   on top of its wait, one that is suspended waits as it is, and one that is to be destroyed, or whose wait is interrupted, has the kernel give the call up
//!   and waits for what it says.
//! - F2: `done` is the last that the reaper does with the frame. The record, which it unparks then, never goes away.
//! - F3: a forked child has neither the ring's threads nor its own procs: it makes plain calls.
//!
//! One ring serves all runtimes; a submission holds its lock for one system call that does not wait. Where there is no ring, the thread's kernel thread waits:
//! `block_in_place`.

use crate::record::Thread;
use chappe_plat::Made;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::file::Call;
use chappe_plat::forks::Once;
use chappe_plat::light::{self, Record, Waits};
use chappe_plat::uring::{self, Ring};
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;

/// Places for completions. More wait in the kernel.
const COMPLETIONS: u32 = 1024;

static RING: Made<Result<Ring, String>> = Made::new();
/// The event of the ring is listened to.
static HEARD: Once = Once::new();
/// 1: it is. 2: it cannot be.
static HOW: AtomicU32 = AtomicU32::new(0);

/// The process's ring, or why there is none.
pub(crate) fn ring() -> Result<&'static Ring, String> {
    let ring = RING.get_or(|| Ring::new(COMPLETIONS).map_err(|e| format!("no io_uring: {e}")));
    let ring = ring.as_ref().map_err(String::clone)?;
    HEARD.call(|| {
        let heard = chappe_sync::whenever(ring.event().as_raw_fd(), reap);
        HOW.store(if heard.is_ok() { 1 } else { 2 }, Ordering::Relaxed); // Relaxed: published by `HEARD`.
    });
    // Relaxed: behind `HEARD`.
    match HOW.load(Ordering::Relaxed) {
        1 => Ok(ring),
        _ => Err("no thread, or no descriptor, to listen to an io_uring with".into()),
    }
}

/// By the thread that sleeps on descriptors: something has completed.
fn reap() {
    let Some(Ok(ring)) = RING.get() else { return };
    ring.completions(|number, result| {
        // SAFETY: F1: the number is the address of a frame that stays until `done`.
        let asked = unsafe { &*(number as usize as *const Asked) };
        let by = asked.by;
        asked.result.store(result as u32, Ordering::Relaxed); // Relaxed: published by `done`.
        asked.done.store(1, Ordering::Release); // Release: F2, the result and the memory. Nothing of the frame is used after it.
        light::unpark(by);
    });
}

/// A call that the kernel has been asked for: on the stack of the thread that waits for it.
struct Asked {
    by: &'static Record,
    done: AtomicU32,
    result: AtomicU32,
    /// The kernel has been asked to give it up.
    given_up: Cell<bool>,
}

impl Asked {
    fn number(&self) -> u64 {
        std::ptr::from_ref(self) as usize as u64
    }

    fn is_done(&self) -> bool {
        // Acquire: F2.
        self.done.load(Ordering::Acquire) != 0
    }

    fn wait(&self, ring: &Ring) {
        while !self.is_done() {
            if self.given_up.get() {
                light::park(None);
            } else if light::is_destroyed() || chappe_sync::park_interruptibly(self.by) {
                self.given_up.set(true);
                ring.cancel(self.number());
            }
        }
    }
}

/// F1, also if somebody unwinds through the wait.
impl Drop for Asked {
    fn drop(&mut self) {
        while !self.is_done() {
            light::park(None);
        }
    }
}

/// Has the kernel do it, and waits. `None`: the ring takes nothing, and nothing was done.
///
/// # Safety
/// The memory is as [`Call::blocking`] wants it.
#[track_caller]
pub(crate) unsafe fn perform(me: &'static Thread, ring: &Ring, call: &Call) -> Option<io::Result<usize>> {
    me.may_wait();
    chappe_sync::inside::may_sleep();
    loop {
        light::safe_point(&me.core);
        let asked =
            Asked { by: &me.core, done: AtomicU32::new(0), result: AtomicU32::new(0), given_up: Cell::new(false) };
        // SAFETY: the caller's promise, and F1.
        if unsafe { ring.submit(call, asked.number()) }.is_err() {
            // Relaxed: nobody else has seen it.
            asked.done.store(1, Ordering::Relaxed);
            return None;
        }
        me.core.waits.set(Waits::Descriptor);
        me.core.at.set(call.fd() as u64);
        light::from_outside(|| asked.wait(ring));
        me.core.waits.set(Waits::Nothing);
        // One that is destroyed ends here, whatever it has come to.
        light::safe_point(&me.core);
        // Relaxed: behind `done`.
        match uring::outcome(asked.result.load(Ordering::Relaxed) as i32) {
            Err(e) if asked.given_up.get() && uring::is_given_up(&e) => return Some(Err(uring::given_up())),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => return Some(result),
        }
    }
}
