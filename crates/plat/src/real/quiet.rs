//! Whether all kernel threads of this process sleep so that only one of them could wake another: then none ever goes on.
//!
//! A thread that sleeps in futex(2) without a time-out, on a private word, is woken by threads of its process alone. So
//! is one that sleeps on a word that holds the number of a thread of this process, as `pthread_join` does: the kernel
//! wakes it when that thread ends. proc(5) tells what each thread sleeps in (`task/TID/syscall`), and how often it has
//! given its processor up (`task/TID/status`).
//!
//! - Q1: each thread's count is read, then that it sleeps; later that it sleeps, then its count. If the counts are the
//!   same, the thread has slept from the one look to the other: one that had run in between would have been counted when
//!   it went to sleep again. So all slept at one moment: between the last first look and the first second one. What is
//!   read then fits together.
//! - Q2: the only other code of a process that can wake a thread is a signal handler. A handler of a signal that tells
//!   of a fault runs only in a thread that runs; the C library's two, and the one that [`wakes_none`] has named, wake
//!   nobody. Where the program handles another signal, nothing is certain.
//! - Q3: a thread of this library that never wakes a thread which waits for something private says so
//!   ([`serves_others`]). It may sleep in any call, and must sleep as the others do.
//!
//! Where proc(5) is not mounted, or does not tell, the answer is no.

use super::process::{self, read_all};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that have said Q3, each with the low half of its process's incarnation above its number; 0: a free place. One
/// that finds no place is taken for any other thread.
static SERVE: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn entry(tid: u32) -> u64 {
    process::incarnation() << 32 | u64::from(tid)
}

/// The calling thread of this library lets go on only what waits for something from outside the process. It says so when
/// it has done whatever another thread waits for, and until it drops the answer.
#[must_use = "it is said until this is dropped"]
pub fn serves_others() -> impl Sized {
    struct Over(Option<&'static AtomicU64>);
    impl Drop for Over {
        fn drop(&mut self) {
            self.0.inspect(|place| place.store(0, Ordering::SeqCst)); // SeqCst: before the number can be another's.
        }
    }
    let me = entry(process::tid());
    // SeqCst: the place is ours. Relaxed: another's.
    let take = |place: &&AtomicU64| place.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    Over(SERVE.iter().find(take))
}

/// A signal, and its handler, which wakes nobody.
static HARMLESS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// This handler of that signal wakes nobody (Q2).
pub fn wakes_none(signal: i32, handler: usize) {
    HARMLESS[0].store(signal as usize, Ordering::SeqCst); // SeqCst, both: before the handler is installed.
    HARMLESS[1].store(handler, Ordering::SeqCst);
}

/// Whether the program handles a signal, and the handler may wake a thread (Q2). `None`: it cannot be told.
fn handles_signals() -> Option<bool> {
    let status = read_all("/proc/thread-self/status")?;
    let status = String::from_utf8_lossy(&status);
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    // The first real-time signals are the C library's own.
    let known = (32..libc::SIGRTMIN()).chain(faults).fold(0u64, |all, signal| all | 1 << (signal - 1));
    let [signal, handler] = [0, 1].map(|at: usize| HARMLESS[at].load(Ordering::SeqCst)); // SeqCst: as in `wakes_none`.
    let mut harmless = 0;
    if signal != 0 {
        let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a valid place; it only answers.
        let now = unsafe {
            libc::sigaction(signal as i32, std::ptr::null(), now.as_mut_ptr());
            now.assume_init()
        };
        harmless = u64::from(now.sa_sigaction == handler) << (signal - 1);
    }
    Some(caught & !known & !harmless != 0)
}

/// What a thread sleeps in.
#[derive(Debug, PartialEq)]
enum Sleep {
    /// It runs, or is about to.
    None,
    /// In futex(2), without a time-out: on a private word, or on the one at that address.
    Private,
    Shared(u64),
    /// In something else.
    Otherwise,
}

fn sleep_of(tid: u32) -> Option<Sleep> {
    let call = read_all(&format!("/proc/self/task/{tid}/syscall"))?;
    let call = String::from_utf8_lossy(&call);
    let mut fields = call.split_ascii_whitespace();
    let Ok(number) = fields.next()?.parse::<i64>() else { return Some(Sleep::None) };
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    if number != libc::SYS_futex {
        return Some(if number < 0 { Sleep::None } else { Sleep::Otherwise });
    }
    let (at, operation, _, until) = (argument()?, argument()?, argument()?, argument()?);
    Some(match (until, operation & libc::FUTEX_PRIVATE_FLAG as u64) {
        (0, 0) => Sleep::Shared(at),
        (0, _) => Sleep::Private,
        _ => Sleep::Otherwise,
    })
}

/// The threads of this process, but for the calling one.
fn others() -> Option<Vec<u32>> {
    let me = process::tid();
    let all = std::fs::read_dir("/proc/self/task").ok()?;
    let all = all.map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect::<Option<Vec<u32>>>()?;
    // Where proc(5) is another namespace's, the numbers are, too.
    all.contains(&me).then(|| all.into_iter().filter(|tid| *tid != me).collect())
}

/// How often a thread has given its processor up; of one that has ended: `u64::MAX`.
fn count(tid: u32) -> Option<u64> {
    let status = read_all(&format!("/proc/self/task/{tid}/status"))?;
    let status = String::from_utf8_lossy(&status);
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?.trim_start();
    let counts = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
    let sum = counts.filter_map(|line| line.rsplit(char::is_whitespace).next()?.parse::<u64>().ok()).sum();
    Some(if state.starts_with(['Z', 'X']) { u64::MAX } else { sum })
}

/// Whether a thread sleeps as it should. `all`: the others.
fn is_quiet(tid: u32, all: &[u32], may_rest: &impl Fn(u32) -> bool) -> bool {
    // SeqCst: as in `serves_others`.
    let serves = || SERVE.iter().any(|place| place.load(Ordering::SeqCst) == entry(tid)) || may_rest(tid);
    match sleep_of(tid) {
        Some(Sleep::Private) => true,
        Some(Sleep::Otherwise) => serves(),
        Some(Sleep::Shared(at)) => serves() || ends_with(at, all),
        Some(Sleep::None) | None => count(tid) == Some(u64::MAX),
    }
}

/// Whether the word at that address holds the number of one of these threads.
fn ends_with(at: u64, all: &[u32]) -> bool {
    let mut word = [0; 4];
    process::read_memory(process::pid(), at, &mut word).is_ok() && all.contains(&u32::from_ne_bytes(word))
}

/// Whether, at one moment, every other thread of this process slept so that only threads of the process could wake it,
/// and `holds` was true. `may_rest`: a thread that the caller answers for; it may sleep in any call. False where that
/// cannot be told.
pub fn all_sleep(may_rest: impl Fn(u32) -> bool, holds: impl FnOnce() -> bool) -> bool {
    let Some(all) = others() else { return false };
    let mut counts = Vec::with_capacity(all.len());
    for tid in &all {
        let Some(switches) = count(*tid) else { return false };
        counts.push(switches);
        if !is_quiet(*tid, &all, &may_rest) {
            return false;
        }
    }
    let unmoved = |(tid, before): (&u32, &u64)| is_quiet(*tid, &all, &may_rest) && count(*tid) == Some(*before);
    holds()
        && handles_signals() == Some(false)
        && all.iter().zip(&counts).all(unmoved)
        && others().is_some_and(|now| now == all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A thread that does this, and what it sleeps in once it sleeps.
    fn asleep_in(what: impl FnOnce() + Send + 'static) -> (u32, Sleep, std::thread::JoinHandle<()>) {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(process::tid()).unwrap();
            what();
        });
        let tid = told.recv().unwrap();
        loop {
            match sleep_of(tid).expect("/proc") {
                Sleep::None => std::thread::yield_now(),
                sleep => return (tid, sleep, thread),
            }
        }
    }

    #[test]
    fn a_thread_is_quiet_if_only_threads_of_its_process_can_wake_it() {
        let (go, goes) = mpsc::channel::<()>();
        let (tid, sleep, waits) = asleep_in(move || assert!(goes.recv().is_err()));
        assert!(sleep == Sleep::Private && is_quiet(tid, &[], &|_| false));
        let (joiner, sleep, joins) = asleep_in(move || waits.join().unwrap());
        assert!(is_quiet(joiner, &[tid], &|_| false), "{sleep:?}");
        let before = count(tid).unwrap();
        drop(go);
        joins.join().unwrap();
        assert_ne!(count(tid), Some(before), "it has run, or is not there any more");
        let (until, untils) = mpsc::channel::<()>();
        let (tid, sleep, sleeps) = asleep_in(move || assert!(untils.recv_timeout(Duration::from_secs(3600)).is_err()));
        assert!(sleep == Sleep::Otherwise && !is_quiet(tid, &[], &|_| false) && is_quiet(tid, &[], &|_| true));
        drop(until);
        sleeps.join().unwrap();
    }

    #[test]
    fn a_thread_that_serves_others_is_quiet_until_it_says_otherwise() {
        let (go, goes) = mpsc::channel::<()>();
        let (tid, _, sleeps) = asleep_in(move || {
            let serves = serves_others();
            assert!(goes.recv_timeout(Duration::from_secs(3600)).is_err());
            drop(serves);
        });
        assert!(is_quiet(tid, &[], &|_| false));
        drop(go);
        sleeps.join().unwrap();
        assert!(SERVE.iter().all(|place| place.load(Ordering::SeqCst) != entry(tid)));
    }
}
