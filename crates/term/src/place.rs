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
/// How the names of what is a user's alone begin; its inode's number follows.
const OWN_PREFIX: &str = ".typed-";

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
    #[error("terminal `{0}` is another user's: only that user and root may {1}")]
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

/// A terminal's files, mapped.
pub struct Place {
    name: String,
    file: OwnedFd,
    at: Arc<Mapping>,
    history: usize,
    user: u32,
    /// What is its user's alone, as that user and root have it.
    own: Option<Own>,
    writes: bool,
}

/// The second file.
struct Own {
    file: OwnedFd,
    at: Mapping,
    /// Which it is. The user can write the word that says so.
    inode: u64,
}

/// What a terminal is to be.
pub struct Making<'a> {
    /// Its columns and rows.
    pub size: (usize, usize),
    /// How many bytes of history it has.
    pub history: u64,
    /// What it runs, as text.
    pub command: &'a str,
    /// What [`Place::note`] has again.
    pub note: &'a [u8],
    /// Whether no other user may look at it, also in a directory that several users share.
    pub private: bool,
}

fn name_of(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn own_name(inode: u64) -> String {
    format!("{OWN_PREFIX}{inode}")
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
    unmake(dir, place)
}

/// Takes the name away of a terminal whose program could not be started. The caller has made it, or is its keeper, and lives: so the name is still
/// its, as no other can take it away.
///
/// # Errors
/// `Io`.
pub fn unmake(dir: &Dir, place: &Place) -> Result<(), TermError> {
    let name = place.name();
    dir.unlink(&name_of(name)).map_err(|e| refused(e, name, "remove it"))?;
    // What stays here the next maker sweeps away.
    let _ = place.own.as_ref().map(|own| dir.unlink(&own_name(own.inode)));
    Ok(())
}

/// Removes what killed processes have left of this user's terminals: second files without a first one. The caller has the directory's lock, under which
/// both get and lose their names.
fn sweep(dir: &Dir) -> io::Result<()> {
    let names = dir.dotted_names()?;
    let of = |prefix: &'static str| names.iter().filter(move |name| name.starts_with(prefix));
    if of(OWN_PREFIX).count() <= of(PREFIX).count() {
        return Ok(());
    }
    let is_mine = |name: &&String| dir::file_at(&dir.path().join(name)).is_some_and(|of| of.uid == process::uid());
    let mut known = Vec::new();
    for name in of(PREFIX).filter(is_mine) {
        let mut head = [0; HEAD];
        viewed::open(dir, name, false)?.read_start(&mut head)?;
        known.push(own_name(head_word(&head, layout::OWN)));
    }
    of(OWN_PREFIX).filter(|name| !known.contains(name)).filter(is_mine).try_for_each(|name| dir.unlink(name))
}

/// How many bytes are read of a file before it is mapped.
const HEAD: usize = (layout::OWN + 1) * 8;

fn head_word(head: &[u8; HEAD], at: usize) -> u64 {
    head.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word))
}

fn refused(e: io::Error, name: &str, what: &'static str) -> TermError {
    match e.kind() {
        io::ErrorKind::NotFound => TermError::Missing(name.into()),
        io::ErrorKind::PermissionDenied => TermError::NotYours(name.into(), what),
        _ => TermError::Io(format!("open terminal `{name}`"), e),
    }
}

impl Place {
    /// Makes a terminal. The caller's open file keeps it alive: it, and what is forked from it, is the terminal's keeper and holder.
    ///
    /// # Errors
    /// `Name`, `Taken`, `TakenByOther`, `Full`, `Io`, also for a note of more than 8 MiB.
    pub fn make(dir: &Dir, name: &str, wanted: &Making<'_>) -> Result<Place, TermError> {
        check(name)?;
        let Making { size, history, command, note, private } = *wanted;
        if note.len() as u64 > layout::MOST_NOTE {
            return Err(TermError::Io(format!("make terminal `{name}`"), io::ErrorKind::ArgumentListTooLong.into()));
        }
        let history = history.clamp(layout::LEAST_HISTORY, layout::MOST_HISTORY).div_ceil(8) as usize;
        let (len, own_len) = (layout::words(history) * 8, layout::own_words(note.len()) * 8);
        let full = |e: io::Error| match room::missing(dir.path(), &e) {
            Some(what) => TermError::Full(name.into(), dir.path().display().to_string(), what),
            None => TermError::Io(format!("make terminal `{name}` in {}", dir.path().display()), e),
        };
        // Backed later, for the size that it has. The last page is: with it the file has its length.
        let hole = layout::state_at(history, 0) as u64 * 8..len as u64 - 4096;
        let file: OwnedFd = viewed::create(dir, len as u64, Some(hole), !private).map_err(full)?.into();
        let own_file = viewed::create(dir, own_len as u64, None, false).map_err(full)?;
        let inode = own_file.facts().map_err(full)?.inode;
        let own_file: OwnedFd = own_file.into();
        let own_at = Mapping::new(&own_file, own_len, true).map_err(full)?;
        let own = Own { file: own_file, at: own_at, inode };
        // A mapping keeps its open file, with the locks of it (I7), as long as it is there, in a process that may not be the keeper.
        let at = Arc::new(viewed::again(&file).and_then(|again| Mapping::new(&again, len, true)).map_err(full)?);
        let user = process::uid();
        let place = Place { name: name.into(), at, file, history, user, own: Some(own), writes: true };
        place.back(size.0, size.1).map_err(full)?;
        let set = |at: usize, value: u64| place.words()[at].store(value, Ordering::Relaxed); // Relaxed: no one has it yet.
        set(layout::IS_VERSION, layout::VERSION);
        set(layout::HISTORY_WORDS, history as u64);
        set(layout::BEGAN, clock::time_of_day());
        let text = &command.as_bytes()[..command.len().min(layout::MOST_COMMAND)];
        set(layout::COMMAND, text.len() as u64);
        set(layout::NOTE, note.len() as u64);
        set(layout::OWN, inode);
        let note_words = place.own_words().get(layout::NOTE_AT..).unwrap_or_default();
        for (to, bytes) in [(&place.words()[layout::COMMAND + 1..], text), (note_words, note)] {
            for (word, part) in to.iter().zip(bytes.chunks(8)) {
                let mut all = [0; 8];
                all[..part.len()].copy_from_slice(part);
                word.store(u64::from_le_bytes(all), Ordering::Relaxed); // Relaxed: no one has it yet.
            }
        }
        set(layout::IS_MAGIC, layout::MAGIC);
        lease::try_lock(&place.file, layout::ALIVE_BYTE).map_err(full)?;
        let linked = dir.lock().and_then(|_locked| {
            // What cannot be removed now is left for the next one.
            let _ = sweep(dir);
            let link = |file: &OwnedFd, name: &str| dir.link(&file.try_clone().map(dir::File::of)?, name);
            place.own.iter().try_for_each(|own| link(&own.file, &own_name(inode)))?;
            link(&place.file, &name_of(name)).inspect_err(|_| _ = dir.unlink(&own_name(inode)))
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

    /// Finds a terminal: to look at it, or to `write`. Another user's may be looked at where the directory is shared, unless it was made private; root has all.
    ///
    /// # Errors
    /// `Name`, `Missing`, `NotYours`, `Foreign`, `Io`.
    pub fn find(dir: &Dir, name: &str, write: bool) -> Result<Place, TermError> {
        check(name)?;
        let what = if write { "use it" } else { "look at it" };
        let file = viewed::open(dir, &name_of(name), write).map_err(|e| refused(e, name, what))?;
        let io = |e: io::Error| TermError::Io(format!("read terminal `{name}`"), e);
        let facts = file.facts().map_err(io)?;
        let user = facts.uid;
        let is_own = [0, user].contains(&process::uid());
        if write && !is_own {
            return Err(TermError::NotYours(name.into(), what));
        }
        let len = facts.len as usize;
        let foreign = || TermError::Foreign(dir.path().join(name_of(name)).display().to_string());
        let mut head = [0; HEAD];
        file.read_start(&mut head).map_err(io)?;
        let word = |at: usize| head_word(&head, at);
        let is_ours = word(layout::IS_MAGIC) == layout::MAGIC && word(layout::IS_VERSION) == layout::VERSION;
        let (history, note) = (word(layout::HISTORY_WORDS), word(layout::NOTE));
        let is_fit = history <= layout::MOST_HISTORY / 8 && note <= layout::MOST_NOTE;
        if !is_ours || !is_fit || layout::words(history as usize) * 8 != len {
            return Err(foreign());
        }
        let mut own = None;
        if is_own {
            // Not there: it was removed meanwhile.
            own = match viewed::open(dir, &own_name(word(layout::OWN)), write) {
                Ok(file) => {
                    let (facts, len) = (file.facts().map_err(io)?, layout::own_words(note as usize) * 8);
                    // Root is not led to what is somebody else's, or another terminal's.
                    if facts.uid != user || facts.inode != word(layout::OWN) || facts.len as usize != len {
                        return Err(foreign());
                    }
                    let file: OwnedFd = file.into();
                    let at = Mapping::new(&file, len, write).map_err(io)?;
                    Some(Own { file, at, inode: facts.inode })
                }
                // Root of a user namespace that has no such user is as any other.
                Err(e) if !write && e.kind() == io::ErrorKind::PermissionDenied => None,
                Err(e) => return Err(refused(e, name, what)),
            };
        }
        let file: OwnedFd = file.into();
        let at = Arc::new(Mapping::new(&file, len, write).map_err(io)?);
        Ok(Place { name: name.into(), at, file, history: history as usize, user, own, writes: write })
    }

    /// Whose it is, by number.
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Whether what is typed into it, and its note, are to be had here: for its user, and for root.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether it was found to be written.
    pub(crate) fn is_written(&self) -> bool {
        self.writes
    }

    /// Where the ring of typed bytes begins; none of another user's.
    pub(crate) fn typed_ring(&self) -> Option<*mut u8> {
        self.own.as_ref().map(|own| own.at.start())
    }

    /// The words of what is its user's alone; none of another user's.
    pub(crate) fn own_words(&self) -> &[AtomicU64] {
        self.own.as_ref().map_or(&[], |own| words_of(&own.at))
    }

    /// The file that is its user's alone; none of another user's.
    pub(crate) fn own_file(&self) -> Option<&OwnedFd> {
        self.own.as_ref().map(|own| &own.file)
    }

    /// Whether other users may look at it, where they share the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn is_shown(&self) -> io::Result<bool> {
        Ok(dir::File::of(self.file.try_clone()?).facts()?.mode & 0o044 != 0)
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
        let words = &self.words()[layout::COMMAND + 1..layout::CONTROL];
        String::from_utf8_lossy(&bytes_of(words, len as usize)).into_owned()
    }

    /// The note that it was made with; empty of another user's.
    pub fn note(&self) -> Vec<u8> {
        // Relaxed: written before it had a name. More than there is room for it has not.
        let len = self.words()[layout::NOTE].load(Ordering::Relaxed) as usize;
        bytes_of(self.own_words().get(layout::NOTE_AT..).unwrap_or_default(), len)
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
        write_down(&self.at, what, pid);
    }

    /// The same for a process to call that is about to be it: after its fork, so that it finds itself here from its first instruction on.
    pub fn naming(&self, what: Role) -> impl Fn(u32) + Send + Sync + use<> {
        let at = Arc::clone(&self.at);
        move |pid| write_down(&at, what, pid)
    }

    /// Whether its program is a job's `chappe`, which starts the command: it has a note.
    pub fn is_job(&self) -> bool {
        self.words()[layout::NOTE].load(Ordering::Relaxed) != 0 // Relaxed: written before it had a name.
    }

    /// Whether there ever was such a process.
    pub fn had(&self, what: Role) -> bool {
        self.word(what as usize).load(Ordering::Relaxed) != 0 // Relaxed: to be shown.
    }

    /// As long as what this answers lives, the terminal is recorded. Several may record it; then others see the first of them. None of another user's: what
    /// that user sees are the own recordings.
    ///
    /// # Errors
    /// The system's.
    pub fn record(&self) -> io::Result<Option<OwnedFd>> {
        if !self.is_own() {
            return Ok(None);
        }
        let own = viewed::again(&self.file)?;
        lease::try_lock(&own, layout::RECORD_BYTE)?;
        Ok(Some(own))
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

/// So many bytes of words that are written once, before the terminal has its name.
fn bytes_of(words: &[AtomicU64], len: usize) -> Vec<u8> {
    // Relaxed: see above.
    let mut bytes: Vec<u8> =
        words.iter().take(len.div_ceil(8)).flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// The memory as words.
pub(crate) fn words_of(memory: &Mapping) -> &[AtomicU64] {
    // SAFETY: the mapping has this length, is aligned to a page, and stays as long as it is borrowed; every pattern is a valid word, and
    // all access is atomic.
    unsafe { std::slice::from_raw_parts(memory.start().cast::<AtomicU64>(), memory.bytes() / 8) }
}

fn write_down(memory: &Mapping, what: Role, pid: u32) {
    let (words, at) = (words_of(memory), what as usize);
    let started = process::start_time(pid).unwrap_or(0);
    // Relaxed, both: to be shown, and confirmed by the start time.
    words[at].store(pid.into(), Ordering::Relaxed);
    words[at + 1].store(started, Ordering::Relaxed);
}

/// Opens the directory of terminals.
///
/// # Errors
/// `Io`.
pub fn directory(path: &Path) -> Result<Dir, TermError> {
    Dir::open(path).map_err(|e| TermError::Io(format!("open {}", path.display()), e))
}
