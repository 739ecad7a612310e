//! A terminal's file that is cut short while it is looked at: the kernel sends SIGBUS to a thread that touches a page that is gone. Then this command says so, and ends.
//!
//! Only its user, and root, can cut the file. Nothing can go on from there: the memory that would have to be looked at is not there.

use std::sync::OnceLock;

/// The settings of this process's terminal, and what is to be written to it before they are put back.
static BACK: OnceLock<(libc::termios, &'static [u8])> = OnceLock::new();

/// From now on SIGBUS is said, and ends this process with status 1.
pub fn say_if_cut() {
    // SAFETY: an all-zero action is valid; the handler makes system calls alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = said as *const () as usize;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

/// What the terminal gets back before the end.
pub fn first_give_back(settings: libc::termios, sequence: &'static [u8]) {
    // A process attaches once.
    let _ = BACK.set((settings, sequence));
}

extern "C" fn said(_: libc::c_int) {
    const TEXT: &[u8] = b"chappe: the file of a terminal was cut short while this looked at it, or its memory cannot be had: it is lost\n";
    let write = |to: i32, bytes: &[u8]| {
        // SAFETY: the bytes are ours. Where it cannot be said, it ends all the same.
        let _ = unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
    };
    if let Some((settings, sequence)) = BACK.get() {
        write(1, sequence);
        // SAFETY: settings that were read from this terminal; the call is safe in a handler.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, settings) };
    }
    write(2, TEXT);
    // SAFETY: it ends the process, and runs nothing of it.
    unsafe { libc::_exit(1) };
}
