//! An instruction that no processor has, emulated by a signal handler: netbsd-restartable-sequences, section 4.2.
//!
//! There the kernel emulates load-locked and store-conditional: two traps a test-and-set. Here a program does it to itself, and
//! the invalid instruction is a whole test-and-set: one trap, a signal, and the return from it. The address goes in, and what was
//! there comes out, in the registers of an argument and of the result.

use std::sync::atomic::{AtomicU32, Ordering};

/// The signal's handler, in place as long as this lives. One at a time: it is the process's.
pub struct Emulator {
    before: libc::sigaction,
}

impl Emulator {
    /// Takes SIGILL over. Signals of any other instruction end the process, as they would have.
    ///
    /// # Panics
    /// When the system refuses a handler.
    pub fn new() -> Emulator {
        // SAFETY: zeroes are a valid action; both live across the call; the handler has the arguments that SA_SIGINFO promises.
        unsafe {
            let (mut action, mut before): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
            action.sa_sigaction = emulate as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGILL, &action, &mut before), 0, "no handler for SIGILL");
            Emulator { before }
        }
    }

    /// Sets the word to 1; whether it was set.
    #[inline(always)]
    pub fn test_and_set(&self, word: &AtomicU32) -> bool {
        let old: u32;
        // SAFETY: the handler, in place as long as `self`, takes this for a test-and-set of the word, and changes nothing else.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("ud2", in("rdi") word.as_ptr(), lateout("rax") old)
        };
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("udf #0", in("x1") word.as_ptr(), lateout("w0") old)
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            old = emulated(word.as_ptr());
        }
        old != 0
    }
}

impl Default for Emulator {
    fn default() -> Emulator {
        Emulator::new()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // SAFETY: the action that was there before.
        unsafe { libc::sigaction(libc::SIGILL, &self.before, std::ptr::null_mut()) };
    }
}

fn emulated(word: *mut u32) -> u32 {
    // SAFETY: the program that executes the instruction gives the address of a word that it may change.
    // Acquire: pairs with the store of zero there.
    unsafe { AtomicU32::from_ptr(word) }.swap(1, Ordering::Acquire)
}

extern "C" fn emulate(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid context, of this machine, which no other thread touches before we return.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if !emulates(context) {
        // Not ours: executed again, it ends the process.
        // SAFETY: takes numbers.
        unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
    }
}

#[cfg(target_arch = "x86_64")]
fn emulates(context: &mut libc::ucontext_t) -> bool {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize];
    // SAFETY: the processor has just read it.
    if unsafe { (at as *const [u8; 2]).read_unaligned() } != [0x0f, 0x0b] {
        return false;
    }
    registers[libc::REG_RAX as usize] = i64::from(emulated(registers[libc::REG_RDI as usize] as *mut u32));
    registers[libc::REG_RIP as usize] = at + 2;
    true
}

#[cfg(target_arch = "aarch64")]
fn emulates(context: &mut libc::ucontext_t) -> bool {
    let machine = &mut context.uc_mcontext;
    // SAFETY: the processor has just read it.
    if unsafe { (machine.pc as *const u32).read() } != 0 {
        return false;
    }
    machine.regs[0] = u64::from(emulated(machine.regs[1] as *mut u32));
    machine.pc += 4;
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn emulates(_context: &mut libc::ucontext_t) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Child;

    #[test]
    fn the_emulated_instruction_sets_the_word_and_answers_what_it_was() {
        // In a process of its own: the handler is the whole process's.
        let child = Child::fork(|| {
            let (word, emulator) = (AtomicU32::new(0), Emulator::new());
            assert_eq!([0, 1].map(|_| emulator.test_and_set(&word)), [false, true]);
            assert_eq!(word.swap(0, Ordering::SeqCst), 1);
            assert!(!emulator.test_and_set(&word));
        });
        assert_eq!(child.end(), 0);
    }

    #[test]
    fn without_the_handler_it_ends_the_process() {
        if cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
            println!("not tested: without_the_handler_it_ends_the_process: no such instruction is used here");
            return;
        }
        let child = Child::fork(|| {
            let emulator = Emulator::new();
            // SAFETY: takes numbers.
            unsafe { libc::signal(libc::SIGILL, libc::SIG_DFL) };
            emulator.test_and_set(&AtomicU32::new(0));
        });
        assert_eq!(child.end() & 0x7f, libc::SIGILL);
    }
}
