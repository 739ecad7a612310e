//! A wrapper around a sequence, made at run time: the body's machine code, behind the code that arms it and the code that restarts it.
//!
//! netbsd-restartable-sequences, section 3.2, in user space. The paper's kernel compares the program counter with the ranges that were
//! registered. Linux' kernel looks at one range only, which the thread itself names in its rseq area beforehand: so the wrapper has to name
//! it. (The idea of code made for one purpose is that of synthesis, "code synthesis".)
//!
//! ```text
//!   data (rw-)          code (r-x), from a template, the values marked * filled in
//!   +-----------+       +------------------------------------------------------------------+
//!   | armed     |<--.   | descriptor   { version 0, flags 0, body *, length *, abort * }    |
//!   | restarts  |<-. \  | area *       how far a thread's area is from its thread pointer   |
//!   +-----------+   \ \ | enter *      what gives a thread an area                          |
//!                    \ \|                                                                  |
//!                     \ | cold:    if armed == 0 goto arm; call enter; goto entry          |
//!                      \|          SIGNATURE                                                |
//!                       | abort:   restarts += 1   (atomically)                            |
//!                       | entry:   if area.cpu_id < 0 goto cold      <-- the caller comes here
//!                       | arm:     area.descriptor = armed                                 |
//!                       | body:    ...copied...                                            |
//!                       | tail:    return to the caller                                    |
//!                       +------------------------------------------------------------------+
//! ```
//!
//! - I1: a thread whose program counter is in the body, and which was armed, resumes at `abort` after another thread has run on its
//!   processor, after a signal's handler, and after a migration. Between `arm` and `body` there is no instruction; so it is never in the
//!   body and not armed, unless it was purged.
//! - I2: `armed` holds the descriptor's address, or 0 once it was purged. It is one load for each entry and each restart, so a purge holds
//!   for all that enter after it. A thread that is in the body at that time goes on as it was.
//! - I3: what was made stays for ever, and its code and descriptor never change: the area of any thread may hold the descriptor's address
//!   until that thread enters another sequence, whatever became of this one. (`tail` does not take it away: the kernel does so by itself
//!   once it meets the thread elsewhere.)
//! - I4: a restart changes no register but those that the body must leave alone, and the flags.
//! - I5: no page of it is ever writable and executable at one time (`chappe_plat::code`).
//!
//! Progress: none is promised. A thread that is aborted each time starts again each time, as in the paper, since the body's author has
//! allowed nothing else. A preemption needs a time slice, so in practice that is a debugger that steps through the body.

use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::code::Fresh;
use chappe_plat::rseq;
use std::io;

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod entered;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64::enter;
#[cfg(target_arch = "x86_64")]
use x86_64::enter;

// SAFETY: the template's marks: only where they lie is used, and what lies between two of them is read.
unsafe extern "C" {
    static chappe_ras_head: u8;
    static chappe_ras_head_start: u8;
    static chappe_ras_head_length: u8;
    static chappe_ras_head_stub: u8;
    static chappe_ras_head_area: u8;
    static chappe_ras_head_enter: u8;
    static chappe_ras_head_abort: u8;
    static chappe_ras_head_entry: u8;
    static chappe_ras_head_end: u8;
    static chappe_ras_tail: u8;
    static chappe_ras_tail_end: u8;
}

/// How far a mark is from the template's beginning.
macro_rules! mark {
    ($name:ident) => {
        // Only addresses are taken.
        (&raw const $name) as usize - (&raw const chappe_ras_head) as usize
    };
}

/// The template between two marks.
macro_rules! part {
    ($from:ident, $to:ident) => {{
        let (from, to) = (&raw const $from, &raw const $to);
        // SAFETY: constant bytes of this program, from one mark to the next.
        unsafe { std::slice::from_raw_parts(from, to as usize - from as usize) }
    }};
}

/// The contents of `data`. Zeros mean a purged one.
#[repr(C)]
struct Data {
    /// I2.
    armed: AtomicU64,
    /// How often it was started again.
    restarts: AtomicU64,
}

/// A sequence that was made. It stays, whatever becomes of this handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    code: *const u8,
    data: *const Data,
}

// SAFETY: I3: what it points to stays, and is read, executed, or changed by atomic operations.
unsafe impl Send for Made {}

impl Made {
    /// Makes one, unarmed. Only where there are sequences.
    ///
    /// # Errors
    /// The system's, when it refuses memory, or memory that can be executed.
    pub fn new(body: &[u8]) -> io::Result<Made> {
        let head = part!(chappe_ras_head, chappe_ras_head_end);
        let tail = part!(chappe_ras_tail, chappe_ras_tail_end);
        let mut fresh = Fresh::map(head.len() + body.len() + tail.len())?;
        let made = Made { code: fresh.code_at(), data: fresh.data_at().cast::<Data>() };
        let code = fresh.code();
        let (at_body, at_tail) = (head.len(), head.len() + body.len());
        code[..at_body].copy_from_slice(head);
        code[at_body..at_tail].copy_from_slice(body);
        code[at_tail..at_tail + tail.len()].copy_from_slice(tail);
        let mut fill = |at: usize, value: usize| code[at..at + 8].copy_from_slice(&(value as u64).to_ne_bytes());
        fill(mark!(chappe_ras_head_start), made.code as usize + at_body);
        fill(mark!(chappe_ras_head_length), body.len());
        fill(mark!(chappe_ras_head_stub), made.code as usize + mark!(chappe_ras_head_abort));
        fill(mark!(chappe_ras_head_area), rseq::offset() as usize);
        fill(mark!(chappe_ras_head_enter), enter as *const () as usize);
        fresh.seal()?;
        Ok(made)
    }

    fn data(&self) -> &'static Data {
        // SAFETY: I3: it stays; zeroed by the kernel, aligned to a page.
        unsafe { &*self.data }
    }

    /// Where it is entered, as a function.
    pub fn entry(&self) -> *const () {
        self.code.wrapping_add(mark!(chappe_ras_head_entry)).cast()
    }

    /// Arms or disarms it for all threads that enter from now on.
    pub fn arm(&self, on: bool) {
        let descriptor = if on { self.code as u64 } else { 0 };
        // SeqCst: a purge "affects immediately": before whatever the caller does next.
        self.data().armed.store(descriptor, Ordering::SeqCst);
    }

    /// How often it was started again since it was armed first, or forgotten last.
    pub fn restarts(&self) -> u64 {
        // Relaxed: a count, of which nothing else depends.
        self.data().restarts.load(Ordering::Relaxed)
    }

    /// Counts from 0 again.
    pub fn forget_restarts(&self) {
        // Relaxed: as above.
        self.data().restarts.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_laid_out_as_the_kernel_wants_it() {
        assert_eq!((&raw const chappe_ras_head) as usize % 32, 0);
        let places = [mark!(chappe_ras_head_start), mark!(chappe_ras_head_length), mark!(chappe_ras_head_stub)];
        assert_eq!(places, [8, 16, 24]);
        let head = part!(chappe_ras_head, chappe_ras_head_end);
        let abort = mark!(chappe_ras_head_abort);
        assert_eq!(head[abort - 4..abort], rseq::SIGNATURE.to_ne_bytes());
        assert!(abort < mark!(chappe_ras_head_entry), "the stub falls through or jumps to the entry");
    }

    /// What the processor does with it, also where the kernel does nothing: unarmed it runs through, and a thread that comes to the stub is
    /// counted and begins anew, with its arguments.
    #[test]
    fn the_stub_counts_and_begins_anew() {
        rseq::prepare();
        let (from, len) = crate::mechanism::tas::Synthesised::range();
        // SAFETY: code of this program.
        let made = Made::new(unsafe { std::slice::from_raw_parts(from, len) }).expect("code can be made here");
        let function = |at: *const ()| {
            // SAFETY: that is what the body is; the stub is to be reached with what the body takes.
            unsafe { std::mem::transmute::<*const (), extern "C" fn(usize, *mut u32) -> u32>(at) }
        };
        let abort = made.code.wrapping_add(mark!(chappe_ras_head_abort)).cast();
        let mut word = 0;
        assert_eq!((function(made.entry())(7, &mut word), word, made.restarts()), (0, 1, 0));
        assert_eq!((function(abort)(7, &mut word), word, made.restarts()), (1, 1, 1));
        word = 0;
        assert_eq!((function(abort)(7, &mut word), word, made.restarts()), (0, 1, 2));
        made.forget_restarts();
        assert_eq!(made.restarts(), 0);
    }

    /// I1, I2: by the entry and by the stub alike. The kernel takes the address away when it likes: so once in many.
    #[test]
    fn the_entry_and_the_stub_are_armed_until_purged() {
        if !crate::gate::sequences() || (rseq::cpu().is_none() && !rseq::enter()) {
            println!("not tested: the_entry_and_the_stub_are_armed_until_purged: there are no sequences here");
            return;
        }
        let (from, len) = crate::mechanism::tas::Synthesised::range();
        // SAFETY: code of this program.
        let made = Made::new(unsafe { std::slice::from_raw_parts(from, len) }).expect("code can be made here");
        let place = rseq::thread_pointer().wrapping_add_signed(rseq::offset()) + rseq::DESCRIPTOR;
        let armed_by = |at: *const ()| {
            // SAFETY: that is what the body is; the stub is to be reached with what the body takes.
            let function = unsafe { std::mem::transmute::<*const (), extern "C" fn(usize, *mut u32) -> u32>(at) };
            function(0, &mut 0);
            // SAFETY: the calling thread's area.
            unsafe { (place as *const u64).read_volatile() == made.code as u64 }
        };
        let abort: *const () = made.code.wrapping_add(mark!(chappe_ras_head_abort)).cast();
        for at in [made.entry(), abort] {
            made.arm(true);
            assert!((0..1_000).any(|_| armed_by(at)));
            made.arm(false);
            assert!(!(0..1_000).any(|_| armed_by(at)));
        }
    }
}
