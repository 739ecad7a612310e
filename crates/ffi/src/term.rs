//! Terminals: programs that run, are asked and answer, and whose screens outlive them.
//!
//! Only in a library that was built with the feature `term`: cargo build --profile dist -p chappe-ffi --features term. Terminals are made by the command
//! chappe, built with that feature, too: that of CHAPPE_COMMAND in the environment, or of the PATH. See "Terminals that outlive their programs" in
//! the guide. This header is not a part of <chappe.h>.
//!
//! `chappe_terminal_text` and `chappe_terminal_exit` begin to wait, and answer something whose descriptor is readable once the answer is there: an arm
//! of a choice by `chappe_arm_readable`, or of poll(2). Each has a thread of its own. The calls that wait directly need none.
//!
//! A handle may be used by any number of threads at once, until it is closed. In a forked child a terminal's handle works; what was begun to be
//! awaited is the parent's.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle::{self, Object};
use crate::input::{self, Limit};
use chappe::terminal::{After, Awaited, Ended, Found, Terminal, TerminalError, TerminalOptions};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A handle of a terminal.
pub struct chappe_terminal(());

/// What is awaited of a terminal.
pub struct chappe_awaited(());

/// Room for a mark, with the 0 at its end.
pub const CHAPPE_MARK_SIZE: usize = 128;

/// No other user may look at it, also in a directory that several users share.
pub const CHAPPE_TERMINAL_PRIVATE: u32 = 1;

/// How a terminal is made. Set it to zeros first: 0 stands for what is usual.
#[repr(C)]
pub struct chappe_terminal_options {
    /// How many columns it has (80).
    pub columns: u16,
    /// How many rows (24).
    pub rows: u16,
    /// 0, or `CHAPPE_TERMINAL_PRIVATE`.
    pub flags: u32,
    /// How many bytes of lines that have left the screen are kept (4 MiB).
    pub history: u64,
    /// 0.
    pub reserved: [u64; 2],
}

struct Held(Box<Terminal>);

impl Object for Held {
    type Name = chappe_terminal;
    const KIND: u32 = 32;
    const REFUSAL: &'static CStr = c"this is no open handle of a terminal: NULL, closed already, or of something else";
}

enum Asked {
    /// And how many lines were lost, once it was taken.
    Text(Awaited<Found>, AtomicU64),
    Exit(String, Awaited<Ended>),
}

struct Waits(Box<Asked>);

impl Object for Waits {
    type Name = chappe_awaited;
    const KIND: u32 = 33;
    const REFUSAL: &'static CStr = c"this is nothing that is awaited: NULL, closed already, or something else";
}

fn terminal<'a>(handle: *const chappe_terminal) -> Answer<&'a Terminal> {
    handle::get::<Held>(handle).map(|held| &*held.0)
}

fn opened(to: *mut *mut chappe_terminal, make: impl FnOnce() -> Result<Terminal, TerminalError>) -> c_int {
    done(|| {
        let place = input::place(to)?;
        place.write(handle::open_as(|| Ok(Held(Box::new(make()?))))?);
        Ok(())
    })
}

/// Where the text of a mark is to be put, if it is.
fn put_mark(to: *mut c_char, mark: impl std::fmt::Display) -> Answer<()> {
    if !to.is_null() {
        input::put_text(to, CHAPPE_MARK_SIZE, &mark.to_string())?;
    }
    Ok(())
}

fn after(mark: *const c_char) -> Answer<Option<After>> {
    let mark = input::text_if(mark)?;
    mark.map(|mark| mark.parse().map_err(|why: String| Failure::told(libc::EINVAL, why))).transpose()
}

fn patience(ns: i64) -> Answer<Option<Duration>> {
    Ok(match input::within(ns)? {
        Limit::Within(duration) => Some(duration),
        _ => None,
    })
}

/// The status, or 128 and the signal.
fn status(name: &str, ended: Ended) -> Answer<c_int> {
    match ended {
        Ended::Exited(status) => Ok(status.into()),
        Ended::Killed(signal) => Ok(128 + signal),
        Ended::Unknown => Err(Failure::told(
            libc::EOWNERDEAD,
            format_args!("how the command of terminal `{name}` ended is not known: its keeper was killed"),
        )),
    }
}

/// Runs a command in a new terminal; blocks until it runs. `command` ends with NULL, as that of execv(3). `options`: NULL for what is usual. The command goes on
/// when this process ends.
///
/// Errors: -ECHILD if the command chappe has not done it: the name is taken, the command is not there, no room; chappe_last_error() says what;
/// -ENAMETOOLONG for a word of more than 131,071 bytes; -EINVAL, -EFAULT, -EMFILE; else as `chappe_terminal_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_run(
    name: *const c_char,
    command: *const *const c_char,
    options: *const chappe_terminal_options,
    terminal: *mut *mut chappe_terminal,
) -> c_int {
    done(|| {
        let place = input::place(terminal)?;
        let name = input::text(name)?;
        let mut words = Vec::new();
        let mut at = command;
        loop {
            let word = *input::given(at)?;
            if word.is_null() {
                break;
            }
            words.push(input::long_text(word)?);
            at = at.wrapping_add(1);
        }
        if words.is_empty() {
            return Err(Failure::new(libc::EINVAL, c"there is no command to run"));
        }
        let mut wanted = TerminalOptions::default();
        if let Some(given) = input::given_if(options)? {
            input::unused(&[(given.flags & !CHAPPE_TERMINAL_PRIVATE).into()])?;
            input::unused(&given.reserved)?;
            wanted.private = given.flags & CHAPPE_TERMINAL_PRIVATE != 0;
            let or = |given: u16, usual| if given == 0 { usual } else { given };
            wanted.size = Some((or(given.columns, 80), or(given.rows, 24)));
            wanted.history = (given.history > 0).then_some(given.history);
        }
        place.write(handle::open_as(|| Ok(Held(Box::new(Terminal::run_with(name, words, &wanted)?))))?);
        Ok(())
    })
}

/// Opens the terminal of this name, whatever made it. Another user's, in a directory that several users share, is there to be looked at and waited for; root may
/// use it.
///
/// Errors: -ENOENT; -EACCES if it is another user's private one; -EINVAL: the name cannot be one; -ENAMETOOLONG: it does not end within 255 bytes; -EFAULT, -EMFILE; the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_open(name: *const c_char, terminal: *mut *mut chappe_terminal) -> c_int {
    match input::text(name) {
        Ok(name) => opened(terminal, || Terminal::open(name)),
        Err(failure) => done(|| Err(failure)),
    }
}

/// Closes a handle. The terminal and its command stay.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_close(terminal: *mut chappe_terminal) -> c_int {
    done(|| handle::close::<Held>(terminal).map(drop))
}

/// Removes the terminal of this name, with its screen. Its command has ended; waits up to a second for the terminal's own processes.
///
/// Errors: -EBUSY if its command runs, or processes that it left have the terminal open; else as `chappe_terminal_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_remove(name: *const c_char) -> c_int {
    done(|| Ok(Terminal::open(input::text(name)?)?.remove()?))
}

/// Writes its name, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_name(handle: *const chappe_terminal, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, terminal(handle)?.name()))
}

/// Writes what it runs, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_command(handle: *const chappe_terminal, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &terminal(handle)?.command()))
}

/// Types bytes, in one piece: what others type comes before or behind. A carriage return is the Enter key. Blocks until the program's side has taken them, at
/// most for `ns` nanoseconds (CHAPPE_FOREVER: without end); up to 64 KiB of what is left then are typed when the program reads. `mark`: room of CHAPPE_MARK_SIZE for
/// the moment, or NULL.
///
/// Errors: -ETIMEDOUT; -EPIPE if it has ended; -EIO if its holder was killed while it typed: the program has got a beginning, or nothing; -EBADF, -EFAULT, -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_send(
    handle: *const chappe_terminal,
    bytes: *const c_void,
    size: usize,
    ns: i64,
    mark: *mut c_char,
) -> c_int {
    done(|| {
        let (terminal, bytes) = (terminal(handle)?, input::bytes(bytes, size)?);
        put_mark(
            mark,
            match patience(ns)? {
                None => terminal.send(bytes)?,
                Some(patience) => terminal.send_timeout(bytes, patience)?,
            },
        )
    })
}

/// As `chappe_terminal_send` without a limit, a key: Enter, Up, F5, C-c, M-x or a character.
///
/// Errors: -EINVAL: there is no such key; -ENAMETOOLONG; else as `chappe_terminal_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_press(
    handle: *const chappe_terminal,
    key: *const c_char,
    mark: *mut c_char,
) -> c_int {
    done(|| put_mark(mark, terminal(handle)?.press(input::text(key)?)?))
}

/// As `chappe_terminal_send` without a limit, a text that is pasted: programs do not take it for commands.
///
/// Errors: -ENAMETOOLONG for a text of more than 131,071 bytes; else as `chappe_terminal_send`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_paste(
    handle: *const chappe_terminal,
    text: *const c_char,
    mark: *mut c_char,
) -> c_int {
    done(|| put_mark(mark, terminal(handle)?.paste(input::long_text(text)?)?))
}

/// Waits for a line that has a text, at most for `ns` nanoseconds: among those on the screen and later ones, or what was written after `mark` (NULL: the former).
/// The expression is of the syntax of the Rust crate regex. Writes what counts of the line, as much as has room, with a 0 behind it; answers its length.
/// A handled signal does not end the wait.
///
/// Errors: -ETIMEDOUT; -EPIPE if the command has ended without it; -EINVAL: a wrong expression or mark; -ENAMETOOLONG for an expression of more than 131,071 bytes, or
/// a mark of more than 255; -EBADF, -EFAULT; the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_wait_text(
    handle: *const chappe_terminal,
    regex: *const c_char,
    mark: *const c_char,
    ns: i64,
    to: *mut c_char,
    size: usize,
) -> isize {
    answer(|| {
        let (terminal, regex, after) = (terminal(handle)?, input::long_text(regex)?, after(mark)?);
        let found = match patience(ns)? {
            None => terminal.wait_text(regex, after)?,
            Some(patience) => terminal.wait_text_timeout(regex, after, patience)?,
        };
        input::put_text(to, size, &found.text)
    })
}

/// Waits for the end of the command, at most for `ns` nanoseconds; answers its status, or 128 and the number of the signal that ended it.
///
/// Errors: -ETIMEDOUT; -EOWNERDEAD if that is not known, as the terminal's keeper was killed; -EBADF, -EINVAL; the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_wait_exit(handle: *const chappe_terminal, ns: i64) -> c_int {
    answer(|| {
        let terminal = terminal(handle)?;
        let ended = match patience(ns)? {
            None => terminal.wait_exit()?,
            Some(patience) => terminal.wait_exit_timeout(patience)?,
        };
        status(terminal.name(), ended)
    })
}

/// Writes the text on the screen, a line each row, and before it `history` of the lines that have left it, as much as has room, with a 0 behind it; answers its length.
///
/// Errors: -EBADF, -EFAULT; the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_show(
    handle: *const chappe_terminal,
    history: u64,
    to: *mut c_char,
    size: usize,
) -> isize {
    answer(|| input::put_text(to, size, &terminal(handle)?.show(history)?))
}

/// Gives it another size; the program is told by SIGWINCH.
///
/// Errors: -ENOSPC: there is no room for it; -EPIPE if it has ended; -ETIMEDOUT if its holder is stopped; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_resize(handle: *const chappe_terminal, columns: u16, rows: u16) -> c_int {
    done(|| Ok(terminal(handle)?.resize(columns, rows)?))
}

/// Sends a signal to its command, as `chappe term kill` does.
///
/// Errors: -ESRCH: it has ended, and has left nothing; -EPERM, -EINVAL: the system's; -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_kill(handle: *const chappe_terminal, signal: c_int) -> c_int {
    done(|| Ok(terminal(handle)?.kill(signal)?))
}

/// Begins to wait for a text, as `chappe_terminal_wait_text` does.
///
/// Errors: -EINVAL, -ENAMETOOLONG, -EBADF, -EFAULT, -EMFILE; the system's, if it refuses a thread or a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_text(
    handle: *const chappe_terminal,
    regex: *const c_char,
    mark: *const c_char,
    awaited: *mut *mut chappe_awaited,
) -> c_int {
    done(|| {
        let (terminal, regex, after) = (terminal(handle)?, input::long_text(regex)?, after(mark)?);
        let place = input::place(awaited)?;
        place.write(handle::open_as(|| {
            Ok(Waits(Box::new(Asked::Text(terminal.text(regex, after)?, AtomicU64::new(0)))))
        })?);
        Ok(())
    })
}

/// Begins to wait for the end of the command.
///
/// Errors: as `chappe_terminal_text`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_terminal_exit(handle: *const chappe_terminal, awaited: *mut *mut chappe_awaited) -> c_int {
    done(|| {
        let terminal = terminal(handle)?;
        let place = input::place(awaited)?;
        let make = || Ok(Waits(Box::new(Asked::Exit(terminal.name().to_owned(), terminal.exit()?))));
        place.write(handle::open_as(make)?);
        Ok(())
    })
}

/// Its descriptor, which is readable once the answer is there. It is this library's: do not read or close it.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_awaited_descriptor(awaited: *const chappe_awaited) -> c_int {
    answer(|| {
        Ok(match &*handle::get::<Waits>(awaited)?.0 {
            Asked::Text(text, _) => text.as_fd().as_raw_fd(),
            Asked::Exit(_, exit) => exit.as_fd().as_raw_fd(),
        })
    })
}

/// Takes the answer, once. Of a text: writes what counts of the line, as much as has room, with a 0 behind it, and answers its length. Of an end: answers the status, or
/// 128 and the number of the signal, and writes nothing. Does not block. There is no second time: what has no
/// room is lost (`size` 0: all of it), but for NULL and a size that is not 0, with which nothing is taken.
///
/// Errors: -EAGAIN: it is not there yet, or was taken; else as `chappe_terminal_wait_text` and `chappe_terminal_wait_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_awaited_take(awaited: *mut chappe_awaited, to: *mut c_char, size: usize) -> isize {
    let none = || Failure::new(libc::EAGAIN, c"the answer is not there yet, or was taken");
    answer(|| match &*handle::get::<Waits>(awaited)?.0 {
        Asked::Text(text, lost) => {
            // Before it is taken: what cannot be written is not lost.
            input::buffer(to.cast(), size)?;
            let found = text.take().ok_or_else(none)??;
            lost.store(found.lost, Ordering::Relaxed); // Relaxed: the caller that asks for it has taken the answer, or was told so.
            input::put_text(to, size, &found.text)
        }
        Asked::Exit(name, exit) => Ok(status(name, exit.take().ok_or_else(none)??)? as isize),
    })
}

/// Of a text that was taken: how many lines left the history before they were looked at. 0 as long as it was not taken, and of an end.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_awaited_lost(awaited: *const chappe_awaited) -> isize {
    answer(|| {
        Ok(match &*handle::get::<Waits>(awaited)?.0 {
            // Relaxed: see where it is written. So many lines are never written.
            Asked::Text(_, lost) => lost.load(Ordering::Relaxed) as isize,
            Asked::Exit(..) => 0,
        })
    })
}

/// Waits no longer, and closes the descriptor. No other thread may be in a call with this handle, or in a wait for its descriptor.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_awaited_close(awaited: *mut chappe_awaited) -> c_int {
    done(|| handle::close::<Waits>(awaited).map(drop))
}
