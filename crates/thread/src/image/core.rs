//! A core file: the memory of a process as it was when it died, and what it had mapped.
//!
//! Only what is read here of the format (ELF, 64 bits, of this machine): the segments that say where which memory lies in the file, and of the notes the
//! process's number and the list of mapped files (`NT_PRSTATUS`, `NT_FILE`; core(5), elf(5)).

use chappe_plat::dumped::{self, Dumped};
use std::io::{self, Error, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
const CORE: u16 = 4;
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const WRITABLE: u32 = 2;
const EXECUTABLE: u32 = 1;
/// Where the number of segments stands if it is larger than its field: in the first section.
const MANY: u16 = 0xffff;
const SEGMENT: usize = 56;
/// Of the notes that are read, at most.
const NOTES: u64 = 64 << 20;
const PRSTATUS: u32 = 1;
const FILES: u32 = 0x4649_4c45;
/// Where the process's number stands in a thread's state.
const PID: usize = 32;

/// Memory that lies in the file.
#[derive(Debug)]
struct Load {
    range: Range<u64>,
    /// So many bytes of it are in the file, from there on.
    there: u64,
    at: u64,
    flags: u32,
}

/// A file that the process had mapped as code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapped {
    /// Its name at that time.
    pub path: PathBuf,
    /// From where to where.
    pub range: Range<u64>,
    /// Where its first byte lies.
    pub begin: u64,
}

/// A core file.
#[derive(Debug)]
pub(super) struct Core {
    file: Dumped,
    loads: Vec<Load>,
    pub pid: u32,
    pub files: Vec<Mapped>,
}

fn bad(why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, why)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; N]> {
    let part = at.checked_add(N).and_then(|end| bytes.get(at..end));
    part.and_then(|part| part.try_into().ok()).ok_or_else(|| bad("the core file is cut off"))
}

fn half(bytes: &[u8], at: usize) -> io::Result<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> io::Result<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> io::Result<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

impl Core {
    /// Reads what is where.
    ///
    /// # Errors
    /// The system's; `InvalidData`: it is no core file of this kind of machine, or is cut off.
    pub fn open(path: &Path) -> io::Result<Core> {
        let file = dumped::open(path)?;
        let piece = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, at).map(|()| bytes).map_err(|e| match e.kind() {
                ErrorKind::UnexpectedEof => bad("it is no core file, or is cut off: see ulimit -c"),
                _ => e,
            })
        };
        let head = piece(0, 64)?;
        if head[..6] != MAGIC || half(&head, 16)? != CORE {
            return Err(bad("it is no core file of a 64-bit process"));
        }
        if half(&head, 18)? != MACHINE {
            return Err(bad("it is a core file of another kind of machine"));
        }
        let (first, sections) = (long(&head, 32)?, long(&head, 40)?);
        let many = match half(&head, 56)? {
            MANY => word(&piece(sections, 64)?, 44)? as usize,
            many => many.into(),
        };
        let table = piece(first, many.checked_mul(SEGMENT).ok_or_else(|| bad("the core file is damaged"))?)?;
        let (mut loads, mut notes) = (Vec::new(), Vec::new());
        for segment in table.chunks_exact(SEGMENT) {
            let (kind, flags) = (word(segment, 0)?, word(segment, 4)?);
            let (at, from, there, len) =
                (long(segment, 8)?, long(segment, 16)?, long(segment, 32)?, long(segment, 40)?);
            match kind {
                LOAD => loads.push(Load { range: from..from.saturating_add(len), there, at, flags }),
                NOTE if there <= NOTES => notes.extend(piece(at, there as usize)?),
                _ => {}
            }
        }
        let (mut pid, mut files) = (0, Vec::new());
        let mut rest = &notes[..];
        while rest.len() >= 12 {
            let (name, len, kind) = (word(rest, 0)? as usize, word(rest, 4)? as usize, word(rest, 8)?);
            let from = 12 + name.next_multiple_of(4);
            let end = from.saturating_add(len);
            let Some(note) = rest.get(from..end) else { break };
            match kind {
                PRSTATUS if pid == 0 => pid = word(note, PID)?,
                FILES => files = mapped(note, &loads)?,
                _ => {}
            }
            rest = rest.get(end.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(Core { file, loads, pid, files })
    }

    /// Reads memory.
    ///
    /// # Errors
    /// `UnexpectedEof`: it is not in the file.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let there = |load: &&Load| (load.range.start..load.range.start.saturating_add(load.there)).contains(&at);
        let load = self.loads.iter().find(there).ok_or(ErrorKind::UnexpectedEof)?;
        let within = at - load.range.start;
        let here = into.len().min((load.there - within) as usize);
        let (first, rest) = into.split_at_mut(here);
        self.file.read_exact_at(first, load.at + within)?;
        // What goes on in the next segment: the kernel may have split a mapping.
        if rest.is_empty() { Ok(()) } else { self.read(at + here as u64, rest) }
    }

    /// The memory that the process could write: from where, to where.
    pub fn writable(&self) -> Vec<(u64, u64)> {
        let writable = |load: &&Load| load.flags & WRITABLE != 0 && load.there != 0;
        self.loads.iter().filter(writable).map(|load| (load.range.start, load.range.end)).collect()
    }
}

/// The files that were mapped as code.
fn mapped(note: &[u8], loads: &[Load]) -> io::Result<Vec<Mapped>> {
    let (many, page) = (long(note, 0)? as usize, long(note, 8)?);
    let names = note.get(many.saturating_mul(24).saturating_add(16)..).unwrap_or_default();
    let mut all: Vec<Mapped> = Vec::new();
    let mut codes = Vec::new();
    for (entry, name) in names.split(|byte| *byte == 0).take(many).enumerate() {
        let field = |n: usize| long(note, 16 + entry * 24 + n * 8);
        let (from, to, offset) = (field(0)?, field(1)?, field(2)?);
        let path = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let begin = from.wrapping_sub(offset.wrapping_mul(page));
        if loads.iter().any(|load| load.flags & EXECUTABLE != 0 && load.range.start == from) {
            codes.push(path.clone());
        }
        match all.iter_mut().find(|file| file.path == path) {
            Some(file) => {
                file.range = file.range.start.min(from)..file.range.end.max(to);
                file.begin = file.begin.min(begin);
            }
            None => all.push(Mapped { path, range: from..to, begin }),
        }
    }
    all.retain(|file| codes.contains(&file.path));
    Ok(all)
}
