//! What the suites share. It knows no more of a channel library than that `channel` names one.

#![allow(dead_code, reason = "each suite is a crate of its own and uses only some of these")]

use chappe::tube::{Receiver, Sender, bounded, unbounded};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Longer than any wait that is meant to end, so a shared machine cannot trip it.
pub const LONG: Duration = Duration::from_secs(120);

/// Longer than any test takes, also on a machine with ten times as much to do as it has processors.
const STUCK: Duration = Duration::from_secs(120);

/// Gives another thread the time to go to sleep in a call. No test relies on it having done so.
pub fn nap() {
    thread::sleep(ms(15));
}

/// Runs `body` on a thread of its own, so that a lost wake-up is a failure and not a hang.
#[track_caller]
pub fn in_time<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel();
    let thread = roomy(move || {
        let result = body();
        // The waiter may have given up.
        let _ = done.send(());
        result
    });
    match wait.recv_timeout(STUCK) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test is stuck"),
        // Disconnected: the body panicked, and `join` says how.
        _ => match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// Spawns a thread whose stack has room for the many copies an unoptimized build makes of a large message.
pub fn roomy<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> thread::JoinHandle<R> {
    thread::Builder::new().stack_size(32 << 20).spawn(body).unwrap()
}

/// Polls `holds` until it does, and fails when it never does.
#[track_caller]
pub fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "the condition never came to hold");
        thread::sleep(Duration::from_micros(200));
    }
}

/// What `look` saw, looked at anew until that took less than `span`. Of a test that says what is so before `span` has
/// passed, a machine that stopped for longer proves nothing.
#[track_caller]
pub fn within<R>(span: Duration, mut look: impl FnMut() -> R) -> R {
    let start = Instant::now();
    loop {
        let began = Instant::now();
        let seen = look();
        if began.elapsed() < span {
            return seen;
        }
        assert!(start.elapsed() < LONG, "it never took less than {span:?}");
    }
}

/// Runs `body` in a child process, which must end abnormally and say each of `texts` on its standard error.
/// For what aborts and so cannot be a `#[should_panic]` test. `name` is the calling test's own name within `panics`.
#[track_caller]
pub fn dies_saying(name: &str, texts: &[&str], body: impl FnOnce()) {
    const KEY: &str = "CHAPPE_CHANNELS_CHILD";
    if std::env::var_os(KEY).is_some() {
        body();
        std::process::exit(0);
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("panics::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(KEY, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success(), "the child lived; it said: {said}");
    for text in texts {
        assert!(said.contains(text), "the child did not say {text:?} but: {said}");
    }
}

/// Keeps count of how often each of its tokens was dropped.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<Vec<usize>>>);

impl Tally {
    pub fn token(&self) -> Token {
        let mut drops = self.0.lock().unwrap();
        drops.push(0);
        Token { id: drops.len() - 1, tally: self.clone() }
    }

    pub fn made(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// How many drops there were, double ones counted double.
    pub fn dropped(&self) -> usize {
        self.0.lock().unwrap().iter().sum()
    }

    #[track_caller]
    pub fn assert_each_dropped_once(&self) {
        let drops = self.0.lock().unwrap();
        for (id, &count) in drops.iter().enumerate() {
            assert_eq!(count, 1, "token {id} of {} was dropped {count} times", drops.len());
        }
    }
}

pub struct Token {
    pub id: usize,
    tally: Tally,
}

impl Drop for Token {
    fn drop(&mut self) {
        // A poisoned lock must not turn a failing test into an abort.
        if let Ok(mut drops) = self.tally.0.lock() {
            drops[self.id] += 1;
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

static MISPLACED: AtomicUsize = AtomicUsize::new(0);

/// A message with an alignment of 64 that notices being dropped at an address not so aligned.
#[repr(align(64))]
#[derive(Debug, PartialEq)]
pub struct Aligned(pub u64);

impl Aligned {
    /// How many were dropped at a wrong address so far, in this process.
    pub fn misplaced() -> usize {
        MISPLACED.load(Ordering::SeqCst)
    }

    pub fn well_placed(&self) -> bool {
        std::hint::black_box(std::ptr::from_ref(self) as usize).is_multiple_of(64)
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if !self.well_placed() {
            MISPLACED.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A 64 KiB message whose every word depends on `seed`, so that a torn copy shows.
pub struct Big(pub [u64; 8192]);

impl Big {
    pub fn new(seed: u64) -> Big {
        let mut words = [0; 8192];
        for (i, word) in words.iter_mut().enumerate() {
            *word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i as u64;
        }
        Big(words)
    }

    pub fn is(&self, seed: u64) -> bool {
        self.0.iter().enumerate().all(|(i, &word)| word == seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ i as u64)
    }
}

pub fn counts<K: Hash + Eq>(items: impl IntoIterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(item).or_insert(0) += 1;
    }
    counts
}

/// A small generator of numbers, the same on every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// An unbounded channel that already holds the messages.
pub fn holding<T>(messages: impl IntoIterator<Item = T>) -> (Sender<T>, Receiver<T>) {
    let (tx, rx) = unbounded();
    for message in messages {
        tx.send(message).unwrap_or_else(|_| panic!("closed"));
    }
    (tx, rx)
}

/// A sender whose channel is full, and the receiver that keeps it open.
pub fn full() -> (Sender<u8>, Receiver<u8>) {
    let (tx, rx) = bounded(1);
    tx.send(0).unwrap();
    (tx, rx)
}

/// What one thread sent: its number, and how many it had sent before.
pub type Stamp = (usize, usize);

/// Each list is what one thread received; together they must be `count` messages of each of `senders`, each once,
/// and each list must have those of any one sender in order.
#[track_caller]
pub fn assert_complete_and_in_order(lists: &[Vec<Stamp>], senders: usize, count: usize, kind: &str) {
    for list in lists {
        let mut next = vec![0; senders];
        for &(sender, n) in list {
            assert!(n >= next[sender], "{kind}: message {n} of sender {sender} came after a later one");
            next[sender] = n + 1;
        }
    }
    let all: Vec<Stamp> = lists.concat();
    let distinct: HashSet<Stamp> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "{kind}: some message was received twice");
    assert_eq!(all.len(), senders * count, "{kind}: some message was lost");
    assert!(distinct.iter().all(|&(sender, n)| sender < senders && n < count), "{kind}: a message nobody sent");
}
