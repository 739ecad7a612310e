//! The line that says what chappe waits for: its place in the queue, and the holders.
//!
//! Only where stderr is a terminal and chappe is in its foreground, and not with --json. It is rewritten in place and erased when the wait
//! is over, also when a signal ends it: the thread that writes the line holds the signals back until it has erased it.

use crate::keep::APART;
use crate::look::{find, holder_text, job_text, jobs, kept_for, permits_text, state_text, who_text};
use crate::signals::{Set, heeded};
use crate::terminal;
use chappe::{Holder, Pool, Semaphore, Waiter};
use std::io::{IsTerminal, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

/// The line, for as long as this lives.
pub struct Line {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    before: Set,
}

impl Line {
    /// Begins to show what `text` says, if there is a terminal and `json` is not wanted there. Without it nothing is lost,
    /// so nothing of it is an error.
    pub fn show(json: bool, text: impl Fn() -> String + Send + 'static) -> Option<Line> {
        // A job's terminal has what the job writes, and nothing else.
        if json || std::env::var_os(APART).is_some() || !std::io::stderr().is_terminal() {
            return None;
        }
        let (stop, stopped) = UnixStream::pair().ok()?;
        let held_back = Set::of(&heeded(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT]));
        let came = held_back.descriptor().ok()?;
        let before = Set::blocked_now();
        held_back.block();
        let thread = std::thread::Builder::new().name("chappe-line".into());
        let thread = thread.spawn(move || write_until(&text, &stopped, &came, held_back)).ok();
        Some(Line { stop: Some(stop), thread, before })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic in a way that matters here.
            let _ = thread.join();
        }
        self.before.set();
    }
}

fn write_until(text: &dyn Fn() -> String, stop: &UnixStream, came: &OwnedFd, held_back: Set) {
    Set::of(&[libc::SIGTTOU]).block();
    let mut shown = false;
    // A wait that is over at once is not worth a line.
    let mut pause = Duration::from_millis(100);
    loop {
        let (stop, signal) = either(stop.as_raw_fd(), came.as_raw_fd(), pause);
        if stop || signal {
            if shown {
                put("\r\x1b[K");
            }
            // Ends the process if a signal came.
            held_back.unblock();
            return;
        }
        if terminal::may_write(2) {
            put(&format!("\r{}\x1b[K", fit(&text(), terminal::columns(2) - 1)));
            shown = true;
        }
        pause = Duration::from_millis(500);
    }
}

/// Which of two descriptors is readable or closed, after `patience` at the latest.
fn either(one: i32, two: i32, patience: Duration) -> (bool, bool) {
    let mut list = [one, two].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the list is valid for its length.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, patience.as_millis() as i32) };
    (list[0].revents != 0, list[1].revents != 0)
}

fn put(text: &str) {
    let mut err = std::io::stderr().lock();
    // If the terminal is gone, the line is not read.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// "chappe: waiting for gpu0 or gpu1, 2nd in line; held by pid 4242 `make` for 3m12s, ..."
pub fn for_pools(pools: &[Pool], n: u32) -> String {
    let queues = pools.iter().map(Pool::waiters);
    format!("chappe: waiting for {}{}; {}", wanted(pools, n), place(queues), held_by(pools))
}

/// "chappe: waiting for semaphore ready, 2nd in line".
pub fn for_semaphore(sem: &Semaphore) -> String {
    format!("chappe: waiting for semaphore {}{}", sem.name(), place(std::iter::once(sem.waiters())))
}

/// "chappe: waiting for lock release, 2nd in line; written by pid 4242 `make`".
pub fn for_lock(name: &str) -> String {
    let queue = find(name).ok().and_then(|(arena, info)| arena.waiters(&info.name).ok());
    format!("chappe: waiting for lock {name}{}; {}", place(queue.into_iter()), lock_text(name))
}

/// "written by pid 4242 `make`, kept for a job, pid 4243 `cc`, alone": how a lock stands.
pub fn lock_text(name: &str) -> String {
    let state = match find(name) {
        Ok((_, info)) if kept_for(&info.state).is_some() => None,
        Ok((_, info)) => Some(state_text(&info.state)),
        Err(e) => Some(e.to_string()),
    };
    state.into_iter().chain(jobs(name).iter().map(job_text)).collect::<Vec<_>>().join(", ")
}

/// ", 2nd in line": the best of chappe's places.
fn place(queues: impl Iterator<Item = Vec<Waiter>>) -> String {
    place_of(std::process::id(), queues).map_or_else(String::new, |p| format!(", {} in line", ordinal(p)))
}

/// The best of a process's places, from 1.
pub fn place_of(pid: u32, queues: impl Iterator<Item = Vec<Waiter>>) -> Option<usize> {
    let place = |q: Vec<Waiter>| q.iter().position(|w| w.who.pid == pid && w.who.elsewhere().is_none());
    queues.filter_map(place).min().map(|place| place + 1)
}

/// "gpu0 or gpu1", "4 permits of cpu".
pub fn wanted(pools: &[Pool], n: u32) -> String {
    if n == 1 { named(pools) } else { format!("{} of {}", permits_text(n), named(pools)) }
}

/// "gpu0, gpu1 or gpu2".
pub fn named<'a>(pools: impl IntoIterator<Item = &'a Pool>) -> String {
    let names: Vec<String> = pools.into_iter().map(Pool::name).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// "held by pid 4242 `make` for 3m12s, pid 4243 `make` for 2s and 2 more".
pub fn held_by(pools: &[Pool]) -> String {
    const MOST: usize = 4;
    let (set_aside, held): (Vec<Holder>, Vec<Holder>) =
        pools.iter().flat_map(Pool::holders).partition(|holder| holder.set_aside);
    let all: Vec<String> = held.iter().map(holder_text).collect();
    match (all.len(), set_aside.first()) {
        // That one may be stopped.
        (0, Some(first)) => {
            format!("a permit is set aside for {}, which has not taken it yet", who_text(&first.who))
        }
        (0, None) => "a permit is coming back".into(),
        (n, _) if n <= MOST => format!("held by {}", all.join(", ")),
        (n, _) => format!("held by {} and {} more", all[..MOST].join(", "), n - MOST),
    }
}

/// "2nd".
pub fn ordinal(n: usize) -> String {
    let end = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}

/// At most `columns` characters, so that the line stays one.
fn fit(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.into();
    }
    text.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_people_do() {
        for (n, text) in
            [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (21, "21st"), (112, "112th")]
        {
            assert_eq!(ordinal(n), text);
        }
    }

    #[test]
    fn a_long_line_stays_one_line() {
        assert_eq!(fit("abcdefgh", 8), "abcdefgh");
        assert_eq!(fit("abcdefgh", 7), "abcd...");
        assert_eq!(fit("äöüäöüäö", 8), "äöüäöüäö");
    }
}
