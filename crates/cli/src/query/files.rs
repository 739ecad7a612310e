//! Files that grow: what is read of them, in the order in which it comes.
//!
//! A file is what its device and inode say, whatever it is called. What is named, or lies in a directory that is named, is read from its begin, and on
//! as it grows. A name that stands for another file (a log that was rotated) is followed: the file before is read for some seconds more, as who writes
//! it may not know yet, and has ended then. One that is shorter than what was read of it, or has other bytes where the last ones were read, was
//! truncated, and begins anew.

use crate::said::stdin_is_there;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, Metadata, read_dir};
use std::io::{ErrorKind, Read, Seek, stdin};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file that is no longer where it was is read so long.
const GRACE: Duration = Duration::from_secs(5);
/// So many bytes are read at once.
const PIECE: usize = 1 << 20;
/// So often one file is read before the next one has its turn.
const TURN: usize = 64;

/// The taker of what is read. Each call answers whether more is wanted.
pub trait Takes {
    /// A text begins, under this number: they count from 0. It is `named`, or lies in a directory that is.
    fn begin(&mut self, name: &str, named: bool);
    /// It begins anew.
    fn begin_anew(&mut self, text: usize);
    /// More of it.
    fn piece(&mut self, text: usize, piece: &[u8]) -> Result<bool>;
    /// It has ended.
    fn end(&mut self, text: usize) -> Result<bool>;
}

/// What a file is.
type Id = (u64, u64);

fn id_of(facts: &Metadata) -> Id {
    (facts.dev(), facts.ino())
}

/// One that is open.
struct Open {
    file: File,
    id: Id,
    /// So many bytes of it were read.
    read: u64,
    /// The last ones of them.
    last: Vec<u8>,
    /// It is not where it was: it ends then.
    ends: Option<Instant>,
}

impl Open {
    /// How many of the last bytes are remembered.
    const LAST: usize = 256;

    /// Remembers the last bytes.
    fn add(&mut self, piece: &[u8]) {
        self.read += piece.len() as u64;
        self.last.extend_from_slice(&piece[piece.len().saturating_sub(Open::LAST)..]);
        self.last.drain(..self.last.len().saturating_sub(Open::LAST));
    }

    /// Whether it was truncated behind the last look: it is shorter, or what has grown since is something else.
    fn is_truncated(&self) -> std::io::Result<bool> {
        let mut now = [0; Open::LAST];
        let now = &mut now[..self.last.len()];
        match self.file.read_exact_at(now, self.read - self.last.len() as u64) {
            Ok(()) => Ok(now != self.last),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(true),
            Err(e) => Err(e),
        }
    }
}

/// What a look has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    /// All that there was has been read.
    All,
    /// There is more.
    More,
    /// No more is wanted.
    Enough,
}

/// Files, and directories of files.
pub struct Files {
    named: Vec<PathBuf>,
    /// By the numbers of their texts.
    open: BTreeMap<usize, Open>,
    known: HashMap<Id, usize>,
    begun: usize,
    room: Vec<u8>,
    /// The number of stdin's text, if it is read, and has not ended.
    pub stdin: Option<usize>,
}

impl Files {
    /// These; `-` is stdin. None of them is read yet.
    ///
    /// # Errors
    /// One that is not there, or is neither a file nor a directory.
    pub fn new(named: &[PathBuf]) -> Result<Files> {
        let has_stdin = named.is_empty() || named.iter().any(|path| path == Path::new("-"));
        if has_stdin {
            stdin_is_there()?;
        }
        let named: Vec<PathBuf> = named.iter().filter(|path| *path != Path::new("-")).cloned().collect();
        for path in &named {
            let facts = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
            if !facts.is_file() && !facts.is_dir() {
                bail!("{} is neither a file nor a directory: --follow reads those, and stdin", path.display());
            }
        }
        let (open, known, begun, room) = (BTreeMap::new(), HashMap::new(), 0, vec![0; PIECE]);
        Ok(Files { named, open, known, begun, room, stdin: has_stdin.then_some(usize::MAX) })
    }

    /// What is named.
    pub fn named(&self) -> &[PathBuf] {
        &self.named
    }

    /// Whether nothing can come any more.
    pub fn is_over(&self) -> bool {
        self.named.is_empty() && self.stdin.is_none()
    }

    /// The files that are there now, each once, and what they are called.
    fn there(&self) -> Result<Vec<(Id, PathBuf)>> {
        let mut all: Vec<(Id, PathBuf)> = Vec::new();
        let mut seen = HashSet::new();
        let mut one = |path: PathBuf| {
            // One that is not there may come.
            let facts = path.metadata().ok().filter(Metadata::is_file);
            if let Some(id) = facts.as_ref().map(id_of).filter(|id| seen.insert(*id)) {
                all.push((id, path));
            }
        };
        for named in &self.named {
            if !named.is_dir() {
                one(named.clone());
                continue;
            }
            let entries = match read_dir(named) {
                Ok(entries) => entries,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => bail!("cannot read {}: {e}", named.display()),
            };
            let is_shown =
                |path: &PathBuf| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_shown).collect();
            paths.sort();
            paths.into_iter().for_each(&mut one);
        }
        Ok(all)
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// What cannot be read; what the taker says.
    pub fn look(&mut self, to: &mut impl Takes) -> Result<Looked> {
        let (there, now) = (self.there()?, Instant::now());
        for (id, path) in &there {
            if self.known.contains_key(id) {
                continue;
            }
            let file = match File::open(path) {
                Ok(file) => file,
                // It has gone meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => bail!("cannot read {}: {e}", path.display()),
            };
            let facts = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
            if facts.is_file() && !self.known.contains_key(&id_of(&facts)) {
                to.begin(&path.display().to_string(), self.named.contains(path));
                self.known.insert(id_of(&facts), self.begun);
                self.open.insert(self.begun, Open { file, id: id_of(&facts), read: 0, last: Vec::new(), ends: None });
                self.begun += 1;
            }
        }
        let ids: HashSet<Id> = there.iter().map(|(id, _)| *id).collect();
        let (mut more, mut over) = (false, Vec::new());
        for (text, open) in &mut self.open {
            if open.is_truncated().context("cannot read a file that is followed")? {
                to.begin_anew(*text);
                (open.read, open.last) = (0, Vec::new());
                open.file.rewind()?;
            }
            let mut turns = 0;
            let mut grew = false;
            loop {
                let len = match open.file.read(&mut self.room) {
                    Ok(len) => len,
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    Err(e) => bail!("cannot read a file that is followed: {e}"),
                };
                if len == 0 {
                    break;
                }
                grew = true;
                open.add(&self.room[..len]);
                if !to.piece(*text, &self.room[..len])? {
                    return Ok(Looked::Enough);
                }
                turns += 1;
                if turns == TURN {
                    more = true;
                    break;
                }
            }
            let is_there = ids.contains(&open.id);
            open.ends = match open.ends {
                _ if is_there => None,
                Some(ends) if !grew => Some(ends),
                _ => Some(now + GRACE),
            };
            if open.ends.is_some_and(|ends| now >= ends) && !grew {
                over.push(*text);
            }
        }
        for text in over {
            if let Some(open) = self.open.remove(&text) {
                self.known.remove(&open.id);
            }
            if !to.end(text)? {
                return Ok(Looked::Enough);
            }
        }
        Ok(if more { Looked::More } else { Looked::All })
    }

    /// Reads what stdin has: it is known to have something, or to have ended.
    ///
    /// # Errors
    /// As of [`Files::look`].
    pub fn read_stdin(&mut self, to: &mut impl Takes) -> Result<Looked> {
        let Some(text) = self.stdin else { return Ok(Looked::All) };
        let text = if text == usize::MAX {
            to.begin("stdin", true);
            self.begun += 1;
            self.begun - 1
        } else {
            text
        };
        self.stdin = Some(text);
        let len = match stdin().lock().read(&mut self.room) {
            Ok(len) => len,
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(Looked::All),
            Err(e) => bail!("cannot read stdin: {e}"),
        };
        let wanted = if len == 0 {
            self.stdin = None;
            to.end(text)?
        } else {
            to.piece(text, &self.room[..len])?
        };
        Ok(if wanted { Looked::All } else { Looked::Enough })
    }

    /// When the next file ends that is no longer where it was.
    pub fn ends(&self) -> Option<Instant> {
        self.open.values().filter_map(|open| open.ends).min()
    }
}
