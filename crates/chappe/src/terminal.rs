//! Terminals as programs use them: run a command in one, type, wait for a text, look. Feature `term`.
//!
//! ```no_run
//! use chappe::terminal::{After, Ended, Terminal};
//! use std::time::{Duration, Instant};
//!
//! let python = Terminal::run("py", ["python3", "-q"])?;
//! python.wait_text(">>>", None)?;
//! let mark = python.send("print(6 * 7)\r")?;
//! let answer = python.wait_text_timeout("^[0-9]+$", Some(After::Mark(mark)), Duration::from_secs(10))?;
//! assert_eq!(answer.text, "42");
//! python.press("C-d")?;
//! assert_eq!(python.wait_exit()?, Ended::Exited(0));
//! python.remove()?;
//! # Ok::<(), chappe::terminal::TerminalError>(())
//! ```
//!
//! A text and an end stand in choices with all else: [`Terminal::text`] and [`Terminal::exit`] answer an [`Awaited`], which is a descriptor.
//!
//! ```no_run
//! use chappe::{Pool, Terminal, select};
//! use std::time::{Duration, Instant};
//!
//! let (server, gpu) = (Terminal::open("server")?, Pool::open("gpu")?);
//! let (text, exit) = (server.text("listening on", None)?, server.exit()?);
//! select! {
//!     readable(text) -> ready => { ready?; println!("{}", text.take().expect("it came")?.text) }
//!     readable(exit) -> ready => { ready?; println!("{:?}", exit.take().expect("it ended")?) }
//!     acquire(gpu) -> permit => { permit?; }
//!     default(Duration::from_secs(30)) => println!("not in time"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it costs
//! | | |
//! |---|---|
//! | [`Terminal::run`] | a process: the command `chappe`, as a terminal's keeper cannot be forked of a program that has threads. It is that of `CHAPPE_COMMAND`, or of the `PATH`, and was built with the feature `term` |
//! | a wait | a look at the screen for each change, and none while nothing changes; one sleeping thread with a descriptor for each terminal that runs and was ever waited at, until the terminal ends, also when no handle of it is left |
//! | an [`Awaited`] | a descriptor and a thread of its own, which looks at each change; it ends with the text, with the terminal, or when it is dropped |
//! | a [`Terminal`] | a mapping and a descriptor, until it is dropped |
//!
//! A thread, and no event that the holder writes: the holder knows no one that waits for it, so it cannot be held up, and no event is lost: a thread that
//! looks goes by the count of changes in the terminal's memory ([`crate::term::layout`]).
//!
//! # Deaths
//! The terminal and its command outlive the process that uses them. When its holder is killed, waits go on with the next one. A forked child may use what it
//! inherits, but for what is [`Awaited`]: the thread is the parent's.

use crate::term::kill::KillError;
use crate::term::place::{self, Place, TermError};
use crate::term::search::Search;
pub use crate::term::search::{After, Found, Mark};
use crate::term::typed::TypeError;
pub use crate::term::view::Ended;
use crate::term::view::{Line, Watch, nanos};
use crate::term::{keys, screen::Screen};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::dir::Dir;
use chappe_plat::futex::{self, Scope};
use chappe_plat::poll::Event;
use chappe_plat::{child, clock, thread};
use regex::Regex;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What went wrong with a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TerminalError {
    /// The time was up.
    #[error("terminal `{0}`: {1} in time")]
    Timeout(String, &'static str),
    /// The command has ended, and no line has the text; so many lines left the history before they were looked at.
    #[error("the command of terminal `{0}` has ended without a line that has this{but}", but = unseen(*.1))]
    Over(String, u64),
    /// The expression is none.
    #[error("{0}")]
    Expression(#[source] regex::Error),
    /// There is no such key.
    #[error("`{0}` is no key: write Enter, Tab, Escape, Up, F5, C-c, M-x or a character")]
    Key(String),
    /// The command `chappe` cannot be run, or has not done what it was asked.
    #[error("{0}")]
    Command(String),
    /// The text was not typed, or not all of it.
    #[error("terminal `{0}`: {1}")]
    Typing(String, #[source] TypeError),
    /// A signal was not sent.
    #[error(transparent)]
    Signal(#[from] KillError),
    /// The terminal is not there, or not to be used.
    #[error(transparent)]
    Terminal(#[from] TermError),
    /// The directory of arenas.
    #[error("{0}")]
    Directory(String),
    /// There is no room for this size.
    #[error("no room for this size of terminal `{0}`: the directory of arenas is full")]
    Full(String),
    /// The system's.
    #[error("cannot look at terminal `{0}`: {1}")]
    Io(String, #[source] io::Error),
}

/// What an answer without a line says of those that were not looked at.
fn unseen(lost: u64) -> String {
    if lost == 0 { String::new() } else { format!("; {lost} lines left the history before they were looked at") }
}

/// How a terminal is made.
#[derive(Clone, Debug, Default)]
pub struct TerminalOptions {
    /// How many columns and rows it has; None: 80 and 24.
    pub size: Option<(u16, u16)>,
    /// How many bytes of lines that have left the screen are kept; None: 4 MiB.
    pub history: Option<u64>,
    /// Whether no other user may look at it, also in a directory that several users share.
    pub private: bool,
    /// The command `chappe`; None: that of `CHAPPE_COMMAND`, or of the `PATH`.
    pub chappe: Option<PathBuf>,
}

/// How long a holder may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// A terminal, in which a command runs, or has run. Its screen and its end outlive the command, and both outlive this.
pub struct Terminal {
    place: Arc<Place>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Runs the command `chappe`.
fn chappe(own: Option<&PathBuf>, args: &[OsString]) -> Result<(), TerminalError> {
    let named = || std::env::var_os("CHAPPE_COMMAND").filter(|own| !own.is_empty());
    let found = own.map(|own| own.clone().into_os_string()).or_else(named);
    let program = found.unwrap_or_else(|| "chappe".into());
    let ran = child::run(&program, args).map_err(|e| {
        let what = "it is the command that makes terminals; set CHAPPE_COMMAND, or put it into the PATH";
        TerminalError::Command(format!("cannot run `{}`: {e}: {what}", program.to_string_lossy()))
    })?;
    ran.map_err(|said| TerminalError::Command(said.strip_prefix("chappe: ").unwrap_or(&said).to_owned()))
}

impl Terminal {
    /// Runs a command in a new terminal of 80 columns and 24 rows. Blocks until it runs. The command goes on when this process ends.
    ///
    /// # Errors
    /// `Command`: the name is taken, the command is not there, no room, or there is no command `chappe`; `Terminal`: the name cannot be one.
    pub fn run<S: AsRef<OsStr>>(name: &str, command: impl IntoIterator<Item = S>) -> Result<Terminal, TerminalError> {
        Terminal::run_with(name, command, &TerminalOptions::default())
    }

    /// As [`Terminal::run`], with options.
    ///
    /// # Errors
    /// As [`Terminal::run`].
    pub fn run_with<S: AsRef<OsStr>>(
        name: &str,
        command: impl IntoIterator<Item = S>,
        options: &TerminalOptions,
    ) -> Result<Terminal, TerminalError> {
        place::check(name)?;
        let (columns, rows) = options.size.unwrap_or((80, 24));
        let mut words = ["term", "run", "--size", &format!("{columns}x{rows}")].map(OsString::from).to_vec();
        words.extend(options.history.map(|history| format!("--history={history}").into()));
        words.extend(options.private.then(|| "--private".into()));
        words.extend([name, "--"].map(OsString::from));
        words.extend(command.into_iter().map(|word| word.as_ref().to_owned()));
        chappe(options.chappe.as_ref(), &words)?;
        Terminal::open(name)
    }

    /// Opens a terminal that is there, whatever made it. Another user's, in a directory that several users share, is there to be looked at and waited for; root
    /// may use it.
    ///
    /// # Errors
    /// `Terminal`: it is not there, or another user's private one; `Directory`.
    pub fn open(name: &str) -> Result<Terminal, TerminalError> {
        let dir = directory()?.ok_or_else(|| TermError::Missing(name.into()))?;
        let found = match Place::find(&dir, name, true) {
            Err(TermError::NotYours(..)) => Place::find(&dir, name, false),
            found => found,
        };
        Ok(Terminal { place: Arc::new(found?) })
    }

    /// The names of all terminals in the directory, sorted; of other users', too, where users share it.
    ///
    /// # Errors
    /// `Directory`.
    pub fn names() -> Result<Vec<String>, TerminalError> {
        let Some(dir) = directory()? else { return Ok(Vec::new()) };
        place::names(&dir).map_err(|e| TerminalError::Directory(e.to_string()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.place.name()
    }

    /// What it runs.
    pub fn command(&self) -> String {
        self.place.command()
    }

    /// How its command has ended; None: it runs.
    ///
    /// # Errors
    /// `Io`.
    pub fn ended(&self) -> Result<Option<Ended>, TerminalError> {
        Ok(self.place.ended().map_err(self.io())?.map(|(how, _)| how))
    }

    /// Types bytes, in one piece: what others type comes before or behind. `\r` is the Enter key. Blocks until the program's side has taken them, for ever
    /// if the program does not read. Answers the moment, for [`Terminal::wait_text`].
    ///
    /// # Errors
    /// `Typing`: the terminal has ended, or its holder was killed meanwhile.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> Result<Mark, TerminalError> {
        self.typed(bytes.as_ref(), None, &|| true)
    }

    /// As [`Terminal::send`], at most for so long. Up to 64 KiB of what is left then are typed when the program reads.
    ///
    /// # Errors
    /// As [`Terminal::send`]; `Typing` also when the time was up.
    pub fn send_timeout(&self, bytes: impl AsRef<[u8]>, patience: Duration) -> Result<Mark, TerminalError> {
        self.typed(bytes.as_ref(), Some(patience), &|| true)
    }

    /// As [`Terminal::send_timeout`] or, without a time, [`Terminal::send`], as long as `goes_on` says true: it is asked at least each 50 ms that this waits.
    ///
    /// # Errors
    /// As [`Terminal::send_timeout`]: when `goes_on` has said false, as if the time were up.
    pub fn send_while(
        &self,
        bytes: impl AsRef<[u8]>,
        patience: Option<Duration>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Mark, TerminalError> {
        self.typed(bytes.as_ref(), patience, goes_on)
    }

    /// As [`Terminal::send`], a key: `Enter`, `Up`, `F5`, `C-c`, `M-x` or a character.
    ///
    /// # Errors
    /// `Key`; as [`Terminal::send`].
    pub fn press(&self, key: &str) -> Result<Mark, TerminalError> {
        let bytes = keys::bytes(key, self.modes()).ok_or_else(|| TerminalError::Key(key.into()))?;
        self.typed(&bytes, None, &|| true)
    }

    /// As [`Terminal::send`], a text that is pasted: programs do not take it for commands.
    ///
    /// # Errors
    /// As [`Terminal::send`].
    pub fn paste(&self, text: &str) -> Result<Mark, TerminalError> {
        self.typed(&keys::paste(text.as_bytes(), self.modes()), None, &|| true)
    }

    fn modes(&self) -> crate::term::modes::Modes {
        self.place.snapshot().map(|now| now.screen.modes()).unwrap_or_default()
    }

    fn typed(
        &self,
        bytes: &[u8],
        patience: Option<Duration>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Mark, TerminalError> {
        let mut watch = Watch::begin(&self.place).map_err(self.io())?.as_long_as(goes_on);
        let left = time_left(patience);
        let writer = loop {
            let now = left().unwrap_or(Duration::MAX);
            match self.place.writer(now.min(ASKED)) {
                Err(TypeError::Busy) if now > ASKED && goes_on() => {}
                done => break done,
            }
        };
        let typed = writer.and_then(|writer| writer.type_bytes(bytes, left(), &mut watch));
        typed.map_err(|e| TerminalError::Typing(self.name().into(), e))
    }

    /// Waits for a line that has a text: among those on the screen and later ones, or what was written `after` a mark. A line that is longer than a row is
    /// one line. No line is missed between two looks.
    ///
    /// # Errors
    /// `Expression`, `Over`, `Io`.
    pub fn wait_text(&self, regex: &str, after: Option<After>) -> Result<Found, TerminalError> {
        self.wait(texts(regex, after)?, None, "no line has this")
    }

    /// As [`Terminal::wait_text`], at most for so long.
    ///
    /// # Errors
    /// As [`Terminal::wait_text`]; `Timeout`.
    pub fn wait_text_timeout(
        &self,
        regex: &str,
        after: Option<After>,
        patience: Duration,
    ) -> Result<Found, TerminalError> {
        self.wait(texts(regex, after)?, Some(patience), "no line has this")
    }

    /// Waits for the end of the command. What it wrote until then is on the screen.
    ///
    /// # Errors
    /// `Io`.
    pub fn wait_exit(&self) -> Result<Ended, TerminalError> {
        self.wait(exits, None, "the command has not ended")
    }

    /// As [`Terminal::wait_exit`], at most for so long.
    ///
    /// # Errors
    /// `Timeout`, `Io`.
    pub fn wait_exit_timeout(&self, patience: Duration) -> Result<Ended, TerminalError> {
        self.wait(exits, Some(patience), "the command has not ended")
    }

    /// What waits for a text, as [`Terminal::wait_text`] does, as an arm of a choice.
    ///
    /// # Errors
    /// `Expression`; `Io`: no descriptor or thread is to be had.
    pub fn text(&self, regex: &str, after: Option<After>) -> Result<Awaited<Found>, TerminalError> {
        Awaited::begin(&self.place, texts(regex, after)?)
    }

    /// What waits for the end of the command, as an arm of a choice.
    ///
    /// # Errors
    /// `Io`: no descriptor or thread is to be had.
    pub fn exit(&self) -> Result<Awaited<Ended>, TerminalError> {
        Awaited::begin(&self.place, exits)
    }

    fn wait<T>(
        &self,
        mut look: impl Look<T>,
        patience: Option<Duration>,
        late: &'static str,
    ) -> Result<T, TerminalError> {
        let deadline = patience.map(|patience| clock::now().saturating_add(nanos(patience)));
        let mut watch = Watch::begin(&self.place).map_err(self.io())?;
        loop {
            watch.look();
            if let Some(answer) = look(&self.place)? {
                return Ok(answer);
            }
            if !watch.sleep(deadline) {
                return Err(TerminalError::Timeout(self.name().into(), late));
            }
        }
    }

    /// The text on the screen, a line each row, without the empty rows at its end; before it so many of the lines that have left it.
    ///
    /// # Errors
    /// `Io`: its memory makes no sense.
    pub fn show(&self, history: u64) -> Result<String, TerminalError> {
        let now = self.place.snapshot().ok_or_else(|| self.io()(io::ErrorKind::InvalidData.into()))?;
        let lines = self.place.lines(&now, now.screen.base().saturating_sub(history)).lines;
        let used = lines.iter().rposition(|line| !line.encoded.is_empty()).map_or(0, |last| last + 1);
        Ok(lines[..used].iter().map(|line| line.text() + "\n").collect())
    }

    /// The screen now, with its styles, cursor, title and modes; None: its memory makes no sense.
    pub fn screen(&self) -> Option<Screen> {
        self.place.snapshot().map(|now| now.screen)
    }

    /// The lines from this number on, of the history and of the screen, and how many of these have left the history.
    ///
    /// # Errors
    /// `Io`: its memory makes no sense.
    pub fn lines(&self, from: u64) -> Result<(Vec<Line>, u64), TerminalError> {
        let now = self.place.snapshot().ok_or_else(|| self.io()(io::ErrorKind::InvalidData.into()))?;
        let lines = self.place.lines(&now, from);
        Ok((lines.lines, lines.lost))
    }

    /// Gives it another size; the program is told by SIGWINCH.
    ///
    /// # Errors
    /// `Full`; `Typing`: it has ended, or its holder is stopped.
    pub fn resize(&self, columns: u16, rows: u16) -> Result<(), TerminalError> {
        let mut watch = Watch::begin(&self.place).map_err(self.io())?;
        let left = time_left(Some(ANSWER));
        let writer = self.place.writer(ANSWER);
        match writer.and_then(|writer| writer.resize(columns, rows, left(), &mut watch)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TerminalError::Full(self.name().into())),
            Err(e) => Err(TerminalError::Typing(self.name().into(), e)),
        }
    }

    /// Sends a signal to the command and to what it has in the foreground, as `chappe term kill` does; when it has ended, to all processes that it has left.
    ///
    /// # Errors
    /// `Signal`: it has ended and has left nothing; the system's.
    pub fn kill(&self, signal: i32) -> Result<(), TerminalError> {
        self.place.kill(signal)?;
        Ok(())
    }

    /// Takes its name away, and its memory when no process looks at it any more. Its command has ended; waits up to a second for the processes of its own.
    ///
    /// # Errors
    /// `Terminal`: it is in use; it was removed, also if another has its name by now.
    pub fn remove(self) -> Result<(), TerminalError> {
        self.removed()
    }

    /// As [`Terminal::remove`]; the handle still has what was there.
    #[doc(hidden)]
    pub fn removed(&self) -> Result<(), TerminalError> {
        let dir = directory()?.ok_or_else(|| TermError::Missing(self.name().into()))?;
        self.place.await_last_words().map_err(self.io())?;
        Ok(place::remove(&dir, &self.place)?)
    }

    fn io(&self) -> impl Fn(io::Error) -> TerminalError + use<> {
        let name = self.name().to_owned();
        move |e| TerminalError::Io(name.clone(), e)
    }
}

/// How often a wait asks whether it is to go on.
const ASKED: Duration = Duration::from_millis(50);

/// The directory that terminals are in; none where nothing was ever made.
fn directory() -> Result<Option<Dir>, TerminalError> {
    match crate::open_directory(false) {
        Ok(dir) => Ok(Some(dir)),
        Err(_) if crate::directory().is_ok_and(|path| !path.exists()) => Ok(None),
        Err(e) => Err(TerminalError::Directory(e.to_string())),
    }
}

/// What is left of a time, from now on.
fn time_left(patience: Option<Duration>) -> impl Fn() -> Option<Duration> {
    let began = Instant::now();
    move || patience.map(|patience| patience.saturating_sub(began.elapsed()))
}

/// One look at a terminal: what was waited for, if it is there.
trait Look<T>: FnMut(&Place) -> Result<Option<T>, TerminalError> {}

impl<T, F: FnMut(&Place) -> Result<Option<T>, TerminalError>> Look<T> for F {}

fn texts(regex: &str, after: Option<After>) -> Result<impl Look<Found> + Send + use<>, TerminalError> {
    let mut search = Search::new(Regex::new(regex).map_err(TerminalError::Expression)?, after);
    Ok(move |place: &Place| {
        // Before the lines: what came before the end is among them.
        let is_over = place.is_complete().map_err(|e| TerminalError::Io(place.name().into(), e))?;
        match place.snapshot().and_then(|now| search.look(place, &now)) {
            None if is_over => Err(TerminalError::Over(place.name().into(), search.lost())),
            found => Ok(found),
        }
    })
}

fn exits(place: &Place) -> Result<Option<Ended>, TerminalError> {
    let io = |e| TerminalError::Io(place.name().into(), e);
    let Some((how, _)) = place.ended().map_err(io)? else { return Ok(None) };
    // What it wrote to its end is on the screen, too.
    Ok(place.is_complete().map_err(io)?.then_some(how))
}

/// What was asked of a terminal and is waited for: a descriptor that is readable once the answer is there, also when that is an error. Dropped, it is waited for
/// no longer.
pub struct Awaited<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    event: Event,
    /// Not 0: the thread is to end.
    stop: AtomicU32,
    answer: Mutex<Option<Result<T, TerminalError>>>,
}

impl<T: Send + 'static> Awaited<T> {
    fn begin(place: &Arc<Place>, mut look: impl Look<T> + Send + 'static) -> Result<Awaited<T>, TerminalError> {
        let io = |e| TerminalError::Io(place.name().into(), e);
        let event = Event::new().map_err(io)?;
        let shared = Arc::new(Shared { event, stop: AtomicU32::new(0), answer: Mutex::new(None) });
        let (to, place) = (Arc::clone(&shared), Arc::clone(place));
        let name = place.name().to_owned();
        thread::background("term-awaits", move || {
            // A wait that does not come back is worse than one that says what happened.
            let looked = catch_unwind(AssertUnwindSafe(|| to.look(&place, &mut look)));
            let panicked =
                |_| Err(TerminalError::Io(place.name().into(), io::Error::other("a look at it has panicked")));
            let answer = looked.unwrap_or_else(panicked);
            *to.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer.transpose();
            to.event.signal();
        })
        .map_err(|e| TerminalError::Io(name, e))?;
        Ok(Awaited { shared })
    }
}

impl<T> Shared<T> {
    /// Looks until the answer is there; None: nobody waits for it any more.
    fn look(&self, place: &Place, look: &mut impl Look<T>) -> Result<Option<T>, TerminalError> {
        let mut watch = Watch::begin(place).map_err(|e| TerminalError::Io(place.name().into(), e))?;
        // Relaxed: nothing is read behind it.
        while self.stop.load(Ordering::Relaxed) == 0 {
            watch.look();
            if let Some(answer) = look(place)? {
                return Ok(Some(answer));
            }
            watch.sleep_unless(Some(&self.stop), None);
        }
        Ok(None)
    }
}

impl<T> Awaited<T> {
    /// The answer, once; None: it is not there yet, or was taken. Does not block. The descriptor stays readable.
    pub fn take(&self) -> Option<Result<T, TerminalError>> {
        self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> AsFd for Awaited<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        // Relaxed: nothing is read behind it.
        self.shared.stop.store(1, Ordering::Relaxed);
        futex::wake(&self.shared.stop, 1, Scope::Private);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::place::Making;

    #[test]
    fn a_look_that_panics_is_an_answer() {
        let here = tempfile::tempdir().expect("a directory");
        let dir = Dir::open(here.path()).expect("a directory");
        let making = Making { size: (10, 2), history: 1 << 16, command: "", note: b"", private: true };
        let place = Arc::new(Place::make(&dir, "t", &making).expect("a place"));
        let awaited: Awaited<()> = Awaited::begin(&place, |_: &Place| panic!("as wanted")).expect("a thread");
        let answer = loop {
            match awaited.take() {
                Some(answer) => break answer,
                None => std::thread::yield_now(),
            }
        };
        assert!(answer.expect_err("a panic").to_string().contains("has panicked"));
    }
}
