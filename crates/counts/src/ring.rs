//! A ring that a kernel thread polls: requests without a system call.

use io_uring::{IoUring, opcode::Nop};
use std::hint::spin_loop;

/// Longer than any measurement: a kernel thread that sleeps has to be woken by a system call.
const AWAKE_MS: u32 = 600_000;
/// More than one: the kernel thread answers a request before it gives its place back.
const PLACES: u32 = 16;

/// A ring that a kernel thread polls.
pub struct Polled(IoUring);

impl Polled {
    /// Makes the ring and its kernel thread, and has one request done.
    ///
    /// # Errors
    /// Where the kernel has no such rings, or permits none.
    pub fn new() -> std::io::Result<Polled> {
        let mut polled = Polled(IoUring::builder().setup_sqpoll(AWAKE_MS).build(PLACES)?);
        polled.push();
        // Wakes the kernel thread if it has not begun yet.
        polled.0.submit()?;
        polled.reap();
        Ok(polled)
    }

    fn push(&mut self) {
        // SAFETY: a request without memory.
        unsafe { self.0.submission().push(&Nop::new().build()).expect("an empty ring") };
    }

    fn reap(&mut self) {
        while self.0.completion().next().is_none() {
            spin_loop();
        }
    }

    /// Has the kernel do nothing, once, without a system call.
    pub fn nothing(&mut self) {
        self.push();
        self.reap();
    }
}
