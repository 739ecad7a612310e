//! A terminal's file: made, found and mapped.

use crate::layout;
use crate::screen::fit;
use crate::store;
use crate::words::{End, Floor, Typing, Versions};
use chappe_plat::atomic::{AtomicU64, Ordering, low_half};
use chappe_plat::dir::Dir;
use chappe_plat::futex::{self, Scope};
use chappe_plat::viewed::{self, Mapping};
use chappe_plat::{clock, dir, lease, process, room};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// How the names of terminals' files begin in the directory of arenas.
pub const PREFIX: &str = ".term-";

/// What went wrong with a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TermError {
    /// The name is taken.
    #[error(
        "there is a terminal `{0}` already: take another name, or remove it (`chappe term rm {0}`) when its command has ended"
    )]
    Taken(String),
    /// The name is taken, by another user.
    #[error("there is a terminal `{0}` of another user: take another name")]
    TakenByOther(String),
    /// The name cannot be one.
    #[error("`{0}` cannot be the name of a terminal: {1}")]
    Name(String, &'static str),
    /// There is no such terminal.
    #[error("there is no terminal `{0}`")]
    Missing(String),
    /// It is another user's.
    #[error("terminal `{0}` is another user's: only that user may {1}")]
    NotYours(String, &'static str),
    /// It has not ended.
    #[error(
        "terminal `{0}` is in use: its command runs, or processes that it left have it open; `chappe term kill {0}` ends them, with `--signal KILL` also those that ignore it"
    )]
    InUse(String),
    /// The file is of another version of chappe, or not chappe's.
    #[error("{0} is not a terminal of this version of chappe: remove it with the version that made it")]
    Foreign(String),
    /// There is no room.
    #[error("no room for terminal `{0}` in {1}: {2}; or give it less --history")]
    Full(String, String, String),
    /// The system's.
    #[error("cannot {0}: {1}")]
    Io(String, #[source] io::Error),
}

/// A terminal's file, mapped.
pub struct Place {
    name: String,
    file: OwnedFd,
    at: Arc<Mapping>,
    history: usize,
}

fn name_of(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Refuses what cannot be a name: it is one part of a path, and no option.
///
/// # Errors
/// `Name`.
pub fn check(name: &str) -> Result<(), TermError> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "._@:+-".contains(c);
    let why = match name.chars().next() {
        None => "it is empty",
        Some('.' | '-' | '@') => "it begins with `.`, `-` or `@`",
        _ if name.contains('/') => "it contains `/`; terminals are not in arenas",
        _ if !name.chars().all(is_fit) => "use letters, digits and `._@:+-`",
        _ if name.len() > MOST_NAME => "it has more than 120 bytes",
        _ => return Ok(()),
    };
    Err(TermError::Name(name.into(), why))
}

const MOST_NAME: usize = 120;

/// The names of the terminals in a directory, sorted; those that can be one.
///
/// # Errors
/// The system's.
pub fn names(dir: &Dir) -> io::Result<Vec<String>> {
    let names = dir.dotted_names()?.into_iter();
    Ok(names
        .filter_map(|name| name.strip_prefix(PREFIX).filter(|name| check(name).is_ok()).map(str::to_owned))
        .collect())
}

/// Takes the name of a terminal away that has ended, if it is still this one's.
///
/// # Errors
/// `Missing`, `NotYours`, `InUse`, `Foreign`, `Io`.
pub fn remove(dir: &Dir, place: &Place) -> Result<(), TermError> {
    let name = place.name();
    let io = |e: io::Error| TermError::Io(format!("remove terminal `{name}`"), e);
    // No other can take the name away, or give it to another terminal, between the look and the act.
    let _locked = dir.lock().map_err(io)?;
    let now = Place::find(dir, name, true)?;
    if now.inode().map_err(io)? != place.inode().map_err(io)? {
        return Err(TermError::Missing(name.into()));
    }
    // Also what has outlived a hang-up: by this name it is found, to be ended.
    if now.is_alive().map_err(io)? || !now.left().map_err(io)?.is_empty() {
        return Err(TermError::InUse(name.into()));
    }
    dir.unlink(&name_of(name)).map_err(|e| refused(e, name, "remove it"))
}

/// Takes the name away of a terminal whose program could not be started. The caller has made it, or is its keeper, and lives: so the name is still
/// its, as no other can take it away.
///
/// # Errors
/// `Io`.
pub fn unmake(dir: &Dir, name: &str) -> Result<(), TermError> {
    dir.unlink(&name_of(name)).map_err(|e| refused(e, name, "remove it"))
}

fn refused(e: io::Error, name: &str, what: &'static str) -> TermError {
    match e.kind() {
        io::ErrorKind::NotFound => TermError::Missing(name.into()),
        io::ErrorKind::PermissionDenied => TermError::NotYours(name.into(), what),
        _ => TermError::Io(format!("open terminal `{name}`"), e),
    }
}

impl Place {
    /// Makes a terminal of this size, with so many bytes of history, what it runs as text, and a note, which [`Place::note`] has again. The
    /// caller's open file keeps it alive: it, and what is forked from it, is the terminal's keeper and holder. The file is its user's alone: what
    /// is typed lies in it, too.
    ///
    /// # Errors
    /// `Name`, `Taken`, `TakenByOther`, `Full`, `Io`, also for a note of more than 8 MiB.
    pub fn make(
        dir: &Dir,
        name: &str,
        size: (usize, usize),
        history: u64,
        command: &str,
        note: &[u8],
    ) -> Result<Place, TermError> {
        check(name)?;
        if note.len() as u64 > layout::MOST_NOTE {
            return Err(TermError::Io(format!("make terminal `{name}`"), io::ErrorKind::ArgumentListTooLong.into()));
        }
        let history = history.clamp(layout::LEAST_HISTORY, layout::MOST_HISTORY).div_ceil(8) as usize;
        let len = layout::words(history, note.len()) * 8;
        let full = |e: io::Error| match room::missing(dir.path(), &e) {
            Some(what) => TermError::Full(name.into(), dir.path().display().to_string(), what),
            None => TermError::Io(format!("make terminal `{name}` in {}", dir.path().display()), e),
        };
        // Backed later, for the size that it has. The last page is: with it the file has its length.
        let states = layout::HISTORY_AT + history..layout::note_at(history);
        let hole = states.start as u64 * 8..(states.end as u64 * 8).min(len as u64 - 4096);
        let file: OwnedFd = viewed::create(dir, len as u64, hole).map_err(full)?.into();
        // A mapping keeps its open file, with the locks of it (I7), as long as it is there, in a process that may not be the keeper.
        let at = Arc::new(viewed::again(&file).and_then(|again| Mapping::new(&again, len, true)).map_err(full)?);
        let place = Place { name: name.into(), at, file, history };
        place.back(size.0, size.1).map_err(full)?;
        let set = |at: usize, value: u64| place.words()[at].store(value, Ordering::Relaxed); // Relaxed: no one has it yet.
        set(layout::IS_VERSION, layout::VERSION);
        set(layout::HISTORY_WORDS, history as u64);
        set(layout::BEGAN, clock::time_of_day());
        let text = &command.as_bytes()[..command.len().min(layout::MOST_COMMAND)];
        set(layout::COMMAND, text.len() as u64);
        set(layout::NOTE, note.len() as u64);
        for (from, bytes) in [(layout::COMMAND + 1, text), (layout::note_at(history), note)] {
            for (at, part) in bytes.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                set(from + at, u64::from_le_bytes(word));
            }
        }
        set(layout::IS_MAGIC, layout::MAGIC);
        lease::try_lock(&place.file, layout::ALIVE_BYTE).map_err(full)?;
        let linked = dir.lock().and_then(|_locked| {
            let again = place.file.try_clone().map(dir::File::of)?;
            dir.link(&again, &name_of(name))
        });
        linked.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => match Place::find(dir, name, false) {
                Err(TermError::NotYours(..)) => TermError::TakenByOther(name.into()),
                _ => TermError::Taken(name.into()),
            },
            _ => full(e),
        })?;
        Ok(place)
    }

    /// Finds a terminal: to look at it, or to `write`.
    ///
    /// # Errors
    /// `Name`, `Missing`, `NotYours`, `Foreign`, `Io`.
    pub fn find(dir: &Dir, name: &str, write: bool) -> Result<Place, TermError> {
        check(name)?;
        let what = if write { "use it" } else { "look at it" };
        let file = viewed::open(dir, &name_of(name), write).map_err(|e| refused(e, name, what))?;
        let io = |e: io::Error| TermError::Io(format!("read terminal `{name}`"), e);
        let facts = file.facts().map_err(io)?;
        if facts.uid != process::uid() {
            return Err(TermError::NotYours(name.into(), what));
        }
        let len = facts.len as usize;
        let foreign = || TermError::Foreign(dir.path().join(name_of(name)).display().to_string());
        let mut head = [0; (layout::NOTE + 1) * 8];
        file.read_start(&mut head).map_err(io)?;
        let word = |at: usize| u64::from_le_bytes(head[at * 8..at * 8 + 8].try_into().unwrap_or_default());
        let is_ours = word(layout::IS_MAGIC) == layout::MAGIC && word(layout::IS_VERSION) == layout::VERSION;
        let (history, note) = (word(layout::HISTORY_WORDS), word(layout::NOTE));
        let is_fit = history <= layout::MOST_HISTORY / 8 && note <= layout::MOST_NOTE;
        if !is_ours || !is_fit || layout::words(history as usize, note as usize) * 8 != len {
            return Err(foreign());
        }
        let file: OwnedFd = file.into();
        let at = Arc::new(Mapping::new(&file, len, write).map_err(io)?);
        Ok(Place { name: name.into(), at, file, history: history as usize })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which file it is, as long as it is open.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        Ok(dir::File::of(self.file.try_clone()?).facts()?.inode)
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// The memory, for a thread that may outlive this.
    pub(crate) fn memory(&self) -> Arc<Mapping> {
        Arc::clone(&self.at)
    }

    fn words(&self) -> &[AtomicU64] {
        words_of(&self.at)
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words()[at]
    }

    /// The words of its state's versions.
    pub(crate) fn versions(&self) -> Versions<'_> {
        Versions { begun: self.word(layout::BEGUN), done: self.word(layout::DONE) }
    }

    /// The word that says where its history begins.
    pub(crate) fn floor(&self) -> Floor<'_> {
        Floor(self.word(layout::FLOOR))
    }

    /// The words of its ring of typed bytes.
    pub(crate) fn typing(&self) -> Typing<'_> {
        Typing {
            put: self.word(layout::PUT),
            given: self.word(layout::GIVEN),
            giving: self.word(layout::GIVING),
            doubts: self.word(layout::DOUBTS),
        }
    }

    /// The words of its program's end.
    pub(crate) fn end(&self) -> End<'_> {
        End { status: self.word(layout::STATUS), time: self.word(layout::STATUS_TIME), over: self.word(layout::OVER) }
    }

    /// A byte of the file.
    pub(crate) fn bytes_at(&self, byte: usize) -> *mut u8 {
        debug_assert!(byte < layout::HISTORY_AT * 8);
        self.at.start().wrapping_add(byte)
    }

    /// How many words the history has.
    pub(crate) fn history(&self) -> usize {
        self.history
    }

    /// The history's word of a position.
    pub(crate) fn past(&self, position: u64) -> &AtomicU64 {
        &self.words()[layout::HISTORY_AT + (position % self.history as u64) as usize]
    }

    /// Writes words into the history, from a position on.
    pub(crate) fn put_past(&self, position: u64, words: impl Iterator<Item = u64>) {
        let history = &self.words()[layout::HISTORY_AT..layout::HISTORY_AT + self.history];
        let mut at = (position % self.history as u64) as usize;
        words.for_each(|word| {
            history[at].store(word, Ordering::Relaxed); // Relaxed: E3.
            at = if at + 1 == history.len() { 0 } else { at + 1 };
        });
    }

    /// The place of a version's state.
    pub(crate) fn state(&self, version: u64) -> &[AtomicU64] {
        let from = layout::state_at(self.history, version);
        &self.words()[from..from + store::WORDS]
    }

    /// Has storage behind both states for this size.
    pub(crate) fn back(&self, columns: usize, rows: usize) -> io::Result<()> {
        let (columns, rows) = fit(columns, rows);
        for version in [0, 1] {
            let state = &self.state(version)[..store::words_for(columns, rows)];
            dir::back(state.as_ptr().cast_mut().cast(), std::mem::size_of_val(state))?;
        }
        Ok(())
    }

    /// Whether the keeper or a holder lives.
    ///
    /// # Errors
    /// The system's.
    pub fn is_alive(&self) -> io::Result<bool> {
        lease::is_locked(&self.file, layout::ALIVE_BYTE)
    }

    /// What it runs.
    pub fn command(&self) -> String {
        // Relaxed: written before it had a name.
        let len = self.words()[layout::COMMAND].load(Ordering::Relaxed).min(layout::MOST_COMMAND as u64);
        String::from_utf8_lossy(&self.bytes_from(layout::COMMAND + 1, len as usize)).into_owned()
    }

    /// The note that it was made with.
    pub fn note(&self) -> Vec<u8> {
        // Relaxed: written before it had a name. More than there is room for it has not.
        let len = self.words()[layout::NOTE].load(Ordering::Relaxed) as usize;
        let from = layout::note_at(self.history);
        self.bytes_from(from, len.min((self.words().len() - from) * 8))
    }

    fn bytes_from(&self, from: usize, len: usize) -> Vec<u8> {
        // Relaxed: written before it had a name.
        let words = self.words()[from..from + len.div_ceil(8)].iter().map(|word| word.load(Ordering::Relaxed));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        bytes.truncate(len);
        bytes
    }

    /// The program has ended: the keeper's part. With this status, or by this signal.
    pub fn program_ended(&self, status: Result<u8, i32>) {
        let word = status.map_or_else(|signal| 2 << 32 | signal as u64, |status| 1 << 32 | u64::from(status));
        self.end().say(word, clock::time_of_day());
        self.tell();
        self.ring();
    }

    /// How many bytes of the program were taken so far.
    pub fn taken(&self) -> u64 {
        self.word(layout::TAKEN).load(Ordering::Relaxed) // Relaxed: a count.
    }

    /// Another holder begins: the keeper's part.
    pub fn count_holder(&self) {
        self.word(layout::HOLDERS).fetch_add(1, Ordering::Relaxed); // Relaxed: a count, to be shown.
    }

    /// Says that something has changed.
    pub(crate) fn tell(&self) {
        let event = self.word(layout::EVENT);
        event.fetch_add(1, Ordering::Release); // E5 release: what has changed comes before.
        futex::wake(low_half(event), u32::MAX, Scope::Shared);
    }

    /// Says to the holder that there is something to do.
    pub(crate) fn ring(&self) {
        let bell = self.word(layout::BELL);
        bell.fetch_add(1, Ordering::Release); // E4 release: what is to be done comes before.
        futex::wake(low_half(bell), u32::MAX, Scope::Shared);
    }

    /// Writes down which process is the keeper, the holder or the program.
    pub fn is(&self, what: Role, pid: u32) {
        let started = process::start_time(pid).unwrap_or(0);
        let at = what as usize;
        // Relaxed: to be shown, and confirmed by the start time.
        self.word(at).store(pid.into(), Ordering::Relaxed);
        self.word(at + 1).store(started, Ordering::Relaxed);
    }

    /// Whether its program is a job's `chappe`, which starts the command: it has a note.
    pub fn is_job(&self) -> bool {
        self.words()[layout::NOTE].load(Ordering::Relaxed) != 0 // Relaxed: written before it had a name.
    }

    /// Whether there ever was such a process.
    pub fn had(&self, what: Role) -> bool {
        self.word(what as usize).load(Ordering::Relaxed) != 0 // Relaxed: to be shown.
    }

    /// As long as what this answers lives, the terminal is recorded. Several may record it; then others see the first of them.
    ///
    /// # Errors
    /// The system's.
    pub fn record(&self) -> io::Result<OwnedFd> {
        let own = viewed::again(&self.file)?;
        lease::try_lock(&own, layout::RECORD_BYTE)?;
        Ok(own)
    }

    /// Whether a process records it.
    ///
    /// # Errors
    /// The system's.
    pub fn is_recorded(&self) -> io::Result<bool> {
        lease::is_locked(&self.file, layout::RECORD_BYTE)
    }

    /// The process that is the keeper, the holder or the program, as its own namespace numbers it; None: it has ended, as far as can be seen.
    pub fn process(&self, what: Role) -> Option<u32> {
        let at = what as usize;
        // Relaxed: confirmed by the start time.
        let (pid, started) = (self.word(at).load(Ordering::Relaxed), self.word(at + 1).load(Ordering::Relaxed));
        let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0)?;
        (process::start_time(pid) == Some(started)).then_some(pid)
    }

    /// The same; not one that has ended, and was not waited for.
    pub fn running(&self, what: Role) -> Option<u32> {
        self.process(what).filter(|pid| process::state(*pid) != Some('Z'))
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A process of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It starts holders, and has the pseudo-terminal.
    Keeper = layout::KEEPER as isize,
    /// It reads, parses and types.
    Holder = layout::HOLDER as isize,
    /// What the terminal was made for.
    Program = layout::PROGRAM as isize,
    /// Of a job, its command, which the program has started.
    Job = layout::JOB as isize,
}

/// The memory as words.
pub(crate) fn words_of(memory: &Mapping) -> &[AtomicU64] {
    // SAFETY: the mapping has this length, is aligned to a page, and stays as long as it is borrowed; every pattern is a valid word, and
    // all access is atomic.
    unsafe { std::slice::from_raw_parts(memory.start().cast::<AtomicU64>(), memory.bytes() / 8) }
}

/// Opens the directory of terminals.
///
/// # Errors
/// `Io`.
pub fn directory(path: &Path) -> Result<Dir, TermError> {
    Dir::open(path).map_err(|e| TermError::Io(format!("open {}", path.display()), e))
}
