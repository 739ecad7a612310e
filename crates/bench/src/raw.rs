//! The kernel's own means of waiting, with nothing around them: what the tables compare with.

use std::sync::atomic::{AtomicU32, Ordering};

/// Words of one process, or of several.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One.
    Private,
    /// Several.
    Shared,
}

impl Scope {
    fn flag(self) -> i32 {
        if self == Scope::Private { libc::FUTEX_PRIVATE_FLAG } else { 0 }
    }
}

/// Sleeps while the word holds `value`.
pub fn wait(word: &AtomicU32, value: u32, scope: Scope) {
    // SAFETY: the word is aligned and stays mapped; no timeout is given.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | scope.flag(), value, 0usize) };
}

/// Wakes one.
pub fn wake(word: &AtomicU32, scope: Scope) {
    // SAFETY: the kernel uses the address as a key only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | scope.flag(), 1) };
}

/// One of the words of a `futex_waitv`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Waitv {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

impl Waitv {
    /// This word, while it holds `value`.
    pub fn new(word: &AtomicU32, value: u32, scope: Scope) -> Waitv {
        Waitv { value: value.into(), address: word.as_ptr() as u64, flags: 2 | scope.flag() as u32, reserved: 0 }
    }

    /// Changes the value.
    pub fn expect(&mut self, value: u32) {
        self.value = value.into();
    }
}

/// Sleeps while every word holds its value.
pub fn wait_any(words: &[Waitv]) -> i64 {
    // SAFETY: the list is valid for its length, its words stay mapped; no timeout is given.
    unsafe { libc::syscall(libc::SYS_futex_waitv, words.as_ptr(), words.len(), 0usize, 0usize, 0usize) }
}

/// Spins until the word holds `value`.
pub fn spin(word: &AtomicU32, value: u32) {
    // Acquire: pairs with the other side's release store of the turn.
    while word.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}
