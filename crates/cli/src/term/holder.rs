//! The holder of a terminal: it reads what the program writes, and types what is put for it.

use super::pty;
use chappe::term::holder::{Holder, Read};
use chappe::term::place::{Place, Role};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Within this time after a state the next one waits for more: a flood is not copied for each line.
const TOGETHER: Duration = Duration::from_micros(500);

/// A state is written after this time at the latest, also in a flood.
const LATEST: Duration = Duration::from_millis(4);

/// How many readings there are between two looks at what else is to be done.
const READINGS: usize = 16;

/// How often it is tried again to read where no process has the program's side open, and the program runs.
const AGAIN: Duration = Duration::from_secs(1);

/// Holds the terminal to its end. It never returns: this is a process of its own.
pub fn hold(place: &Place, master: &OwnedFd, size: (u16, u16), keeper: u32) -> ! {
    let done = held(place, master, size, keeper);
    chappe::process::exit(if done.is_ok() { 0 } else { 1 })
}

fn held(place: &Place, master: &OwnedFd, size: (u16, u16), keeper: u32) -> io::Result<()> {
    let mut holder = Holder::begin(place, size.0.into(), size.1.into());
    place.is(Role::Holder, chappe::process::pid());
    // The last one may have been killed between its screen's size and this one.
    pty::set_size(master, holder.screen().columns() as u16, holder.screen().rows() as u16)?;
    let bell = holder.bell()?;
    let watched = chappe::process::watch_exit(keeper).ok();
    let (mut answers, mut saved) = (Vec::new(), Instant::now());
    // Whether the program's side has no room for what is typed.
    let mut is_full = false;
    loop {
        bell.clear();
        let has_ended = holder.has_ended();
        holder.resize(|columns, rows| pty::set_size(master, columns as u16, rows as u16));
        // A closed end is asked again: a process may have opened it.
        let state = read(&mut holder, master, !is_full)?;
        let is_due = saved.elapsed() >= if state == Read::More { LATEST } else { TOGETHER };
        if holder.unsaved() > 0 && is_due {
            holder.save();
            saved = Instant::now();
        }
        // SAFETY: a plain call.
        let is_orphan = unsafe { libc::getppid() } as u32 != keeper;
        if holder.is_over(has_ended, state, is_orphan) {
            return Ok(());
        }
        // The others wait in the screen, which is bounded.
        if answers.is_empty() {
            answers = holder.take_answers();
        }
        is_full = !type_all(&mut holder, master, &mut answers, state != Read::More)?;
        if state == Read::More {
            continue;
        }
        let patience = match state {
            Read::Closed => Some(AGAIN),
            _ if holder.unsaved() > 0 => Some(TOGETHER.saturating_sub(saved.elapsed())),
            _ => None,
        };
        let events = if is_full { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        let of = |fd: i32, events| libc::pollfd { fd, events, revents: 0 };
        let keeper_fd = watched.as_ref().filter(|_| !is_orphan).map_or(-1, AsRawFd::as_raw_fd);
        // A closed end is always ready.
        let master_fd = if state == Read::Closed { -1 } else { master.as_raw_fd() };
        let bell_fd = bell.as_fd().as_raw_fd();
        wait(&mut [of(master_fd, events), of(bell_fd, libc::POLLIN), of(keeper_fd, libc::POLLIN)], patience);
    }
}

fn wait(fds: &mut [libc::pollfd], patience: Option<Duration>) {
    let limit = patience.map(|d| libc::timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
    let at = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the descriptors and the time are valid for the call; without a time, null waits for ever.
    unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as u64, at, std::ptr::null()) };
}

/// Reads what there is, up to a bound. In a flood a key comes to the program behind one reading, if it `may_type`, and not behind all of them.
fn read(holder: &mut Holder<'_>, master: &OwnedFd, may_type: bool) -> io::Result<Read> {
    let began = Instant::now();
    for _ in 0..READINGS {
        holder.hear();
        let (to, room) = holder.room();
        // SAFETY: the room is the holder's, and this long.
        match unsafe { pty::read(master, to, room) }? {
            None => return Ok(Read::Empty),
            Some(0) => return Ok(Read::Closed),
            Some(count) => holder.took(count),
        }
        // A few bytes can be much work.
        if began.elapsed() >= LATEST || may_type && holder.can_type() {
            break;
        }
    }
    Ok(Read::More)
}

/// Types answers, and what was put; false: the program's side is full. `is_empty`: all that it has written was read.
fn type_all(holder: &mut Holder<'_>, master: &OwnedFd, answers: &mut Vec<u8>, is_empty: bool) -> io::Result<bool> {
    while !answers.is_empty() {
        match pty::write(master, answers)? {
            Some(0) => answers.clear(),
            Some(count) => _ = answers.drain(..count),
            None => return Ok(false),
        }
    }
    loop {
        match holder.type_some(is_empty, |bytes| pty::write(master, bytes).map(Option::unwrap_or_default))? {
            None => return Ok(true),
            Some(0) => return Ok(false),
            Some(_) => {}
        }
    }
}
