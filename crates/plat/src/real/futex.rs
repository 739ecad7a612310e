//! Sleeping on words.

use super::atomic::AtomicU32;
use std::sync::atomic::{AtomicU8, Ordering};

/// The threads that can sleep on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only.
    Private,
    /// Any process that maps the word.
    Shared,
}

/// Why a wait came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A thread woke the caller (or sent a wake meant for an earlier user of the word): look again.
    Woken,
    /// The word did not hold the expected value.
    Changed,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// This kernel cannot do it (only [`wait_any`]).
    Unsupported,
}

/// The most words that one [`wait_any`] takes.
pub const WAIT_ANY_MAX: usize = 128;

const FUTEX_WAIT_BITSET: i32 = 9;
const FUTEX_WAKE: i32 = 1;
const FUTEX_PRIVATE: i32 = 128;
const SYS_FUTEX_WAITV: i64 = 449;

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

fn outcome(result: i64) -> Wait {
    if result >= 0 {
        return Wait::Woken;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => Wait::Changed,
        Some(libc::ETIMEDOUT) => Wait::TimedOut,
        Some(libc::EINTR) => Wait::Interrupted,
        // EPERM: a seccomp filter does not know the call.
        Some(libc::ENOSYS | libc::EPERM) => Wait::Unsupported,
        _ => Wait::Changed,
    }
}

/// Sleeps while `word` holds `expected`, until woken, or until `deadline` (monotonic, ns).
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<u64>, scope: Scope) -> Wait {
    let op = FUTEX_WAIT_BITSET | if scope == Scope::Private { FUTEX_PRIVATE } else { 0 };
    let ts = deadline.map(timespec);
    let at = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is aligned and mapped; the timespec outlives the call; FUTEX_WAIT_BITSET
    // takes an absolute monotonic time and the match-any mask.
    let r = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, expected, at, 0usize, u32::MAX) };
    outcome(r)
}

/// Wakes at most `count` sleepers; tells how many.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> u32 {
    let op = FUTEX_WAKE | if scope == Scope::Private { FUTEX_PRIVATE } else { 0 };
    let n = count.min(i32::MAX as u32);
    // SAFETY: the kernel only uses the address as a key; the word is mapped.
    let r = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, n) };
    r.max(0) as u32
}

#[repr(C)]
struct Waitv {
    val: u64,
    uaddr: u64,
    flags: u32,
    reserved: u32,
}

static WAIT_ANY: AtomicU8 = AtomicU8::new(0);

/// Whether this kernel has futex_waitv (Linux 5.16).
pub fn wait_any_supported() -> bool {
    // Relaxed: the answer is the same whichever thread computes it first.
    match WAIT_ANY.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            let forced_off = std::env::var_os("CHAPPE_NO_WAITV").is_some_and(|v| v == "1");
            // SAFETY: zero words is refused with EINVAL where the call exists. Where not, it is ENOSYS, or what a seccomp filter says.
            let r = unsafe { libc::syscall(SYS_FUTEX_WAITV, 0usize, 0u32, 0u32, 0usize, 0i32) };
            let is_known = r >= 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
            let there = !forced_off && is_known;
            // Relaxed: as above.
            WAIT_ANY.store(if there { 1 } else { 2 }, Ordering::Relaxed);
            there
        }
    }
}

/// Sleeps while every word holds its expected value, until one is woken or `deadline` passes.
///
/// Reports readiness only: a wake may have been swallowed for a word other than the one that ended the sleep (evidence: futex_waitv), so
/// the caller must look at all of them again.
pub fn wait_any(words: &[(&AtomicU32, u32)], deadline: Option<u64>, scope: Scope) -> Wait {
    if !wait_any_supported() {
        return Wait::Unsupported;
    }
    wait_any_with(words.iter().map(|(word, expected)| (*word, *expected, scope)), words.len(), deadline)
}

/// The same for words of both scopes. The caller has seen that it is supported.
#[cfg(not(feature = "loom"))]
pub fn wait_any_of(words: &[(&AtomicU32, u32, Scope)], deadline: Option<u64>) -> Wait {
    wait_any_with(words.iter().copied(), words.len(), deadline)
}

fn wait_any_with<'a>(
    words: impl Iterator<Item = (&'a AtomicU32, u32, Scope)>,
    len: usize,
    deadline: Option<u64>,
) -> Wait {
    assert!(len <= WAIT_ANY_MAX, "futex_waitv takes {WAIT_ANY_MAX} words at most");
    let mut list: [Waitv; WAIT_ANY_MAX] = [const { Waitv { val: 0, uaddr: 0, flags: 0, reserved: 0 } }; WAIT_ANY_MAX];
    for (slot, (word, expected, scope)) in list.iter_mut().zip(words) {
        let flags = 2 | if scope == Scope::Private { FUTEX_PRIVATE as u32 } else { 0 };
        *slot = Waitv { val: u64::from(expected), uaddr: word.as_ptr() as u64, flags, reserved: 0 };
    }
    let ts = deadline.map(timespec);
    let at = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the list holds words.len() initialised entries; the timespec outlives the call.
    let r = unsafe { libc::syscall(SYS_FUTEX_WAITV, list.as_ptr(), len as u32, 0u32, at, libc::CLOCK_MONOTONIC) };
    outcome(r)
}
