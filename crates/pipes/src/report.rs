//! What the programs of a run tell of their pipes: a file in the run's folder, which each of them maps and counts in.
//!
//! Each row has one process that writes it, by plain stores: what a killed process has counted stays. A handler that comes between the load and the
//! store of a count is not counted, and a line of text that is read while it is written may be half of each: no more depends on it than a report.
//! The file has room for so many rows, and how many there were beyond is told.
//!
//! A row is zeroes until its process has it, and these say nothing.

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The file's name, which no pipe's lane has.
const NAME: &CStr = c"report";
const ENDS: usize = 4096;
const PROGRAMS: usize = 1024;

/// How many system calls were made, or calls answered, and what they brought.
#[derive(Debug)]
pub struct Count {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    /// Nothing yet.
    pub const fn new() -> Count {
        Count { calls: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// One more. For the row's only thread.
    #[inline]
    pub fn add(&self, bytes: u64) {
        // Relaxed, all: nothing is read behind it.
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed); // Relaxed: as above.
    }

    /// Calls, and bytes.
    #[inline]
    pub fn now(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)) // Relaxed: as above.
    }
}

impl Default for Count {
    fn default() -> Count {
        Count::new()
    }
}

/// A line of text in shared memory.
#[derive(Debug)]
struct Line<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Line<WORDS> {
    fn set(&self, text: fmt::Arguments) {
        /// What there is no room for is cut off.
        struct Room<'a>(&'a mut [u8]);
        impl Write for Room<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let count = text.len().min(self.0.len());
                let (now, rest) = std::mem::take(&mut self.0).split_at_mut(count);
                now.copy_from_slice(&text.as_bytes()[..count]);
                self.0 = rest;
                Ok(())
            }
        }
        let mut words = [[0u8; 8]; WORDS];
        // It never fails.
        let _ = Room(words.as_flattened_mut()).write_fmt(text);
        for (to, from) in self.0.iter().zip(words) {
            to.store(u64::from_ne_bytes(from), Ordering::Relaxed); // Relaxed: the head has it.
        }
    }

    fn text(&self) -> String {
        // Relaxed: as above.
        let words = self.0.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        String::from_utf8_lossy(words.as_flattened()).trim_end_matches('\0').to_owned()
    }
}

/// A process' end of a pipe.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct EndRow {
    pipe: AtomicU64,
    process: AtomicU32,
    /// Whether it is for writing, and [`EndRow::begun`].
    flags: AtomicU32,
    /// Calls that the kernel alone has answered.
    pub kernel: Count,
    /// Calls that a lane has answered, wherever the bytes were.
    pub lane: Count,
    /// System calls among these.
    pub within: Count,
    name: Line<2>,
    why: Line<6>,
}

const WRITES: u32 = 1;
const HAS_LANE: u32 = 2;

impl EndRow {
    /// Nothing yet.
    pub const fn new() -> EndRow {
        EndRow {
            pipe: AtomicU64::new(0),
            process: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            kernel: Count::new(),
            lane: Count::new(),
            within: Count::new(),
            name: Line([const { AtomicU64::new(0) }; 2]),
            why: Line([const { AtomicU64::new(0) }; 6]),
        }
    }

    /// The same as it was in the beginning, for another pipe.
    pub fn cleared(&self) -> &EndRow {
        for count in [&self.kernel, &self.lane, &self.within] {
            // Relaxed, both: as in `Count`.
            count.calls.store(0, Ordering::Relaxed);
            count.bytes.store(0, Ordering::Relaxed); // Relaxed: as above.
        }
        self
    }

    /// It owns its end of a lane.
    pub fn begun(&self) {
        self.flags.store(self.flags.load(Ordering::Relaxed) | HAS_LANE, Ordering::Relaxed); // Relaxed, both: as in `Count`.
        self.why(format_args!(""));
    }

    /// Why its calls are the kernel's from here on, or are so still.
    pub fn why(&self, text: fmt::Arguments) {
        self.why.set(text);
    }
}

impl Default for EndRow {
    fn default() -> EndRow {
        EndRow::new()
    }
}

/// A program that is left as it is.
#[repr(C, align(64))]
struct ProgramRow {
    process: AtomicU32,
    name: Line<2>,
    why: Line<12>,
}

#[repr(C)]
struct Rows {
    /// How many rows were wanted.
    ends: AtomicU32,
    /// As above.
    programs: AtomicU32,
    end: [EndRow; ENDS],
    program: [ProgramRow; PROGRAMS],
}

/// An end, as a report has it.
#[derive(Debug)]
pub struct End {
    /// The pipe's number.
    pub pipe: u64,
    /// The process that had it.
    pub process: u32,
    /// The program's name, as far as there is room for it.
    pub name: String,
    /// Whether it is the writer.
    pub writes: bool,
    /// Whether it ever had a lane.
    pub has_lane: bool,
    /// Calls of the program that its lane has answered, and bytes that no system call has moved.
    pub memory: (u64, u64),
    /// System calls, and bytes that they brought.
    pub kernel: (u64, u64),
    /// Why not more of it went through memory. Nothing: it has not carried enough, or until the process was gone.
    pub why: String,
}

/// A program that is left as it is, as a report has it.
#[derive(Debug)]
pub struct Program {
    /// Its process.
    pub process: u32,
    /// The program's name, as far as there is room for it.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A run's report, which stays mapped.
#[derive(Clone, Copy)]
pub struct Report(&'static Rows);

impl Report {
    /// Makes the file in a folder of the run's.
    ///
    /// # Errors
    /// The system's: there is no room, or one is there already.
    pub fn new(folder: &Path) -> io::Result<Report> {
        let name = folder.join(NAME.to_str().unwrap_or_default());
        let file: OwnedFd = std::fs::File::options().read(true).write(true).create_new(true).open(name)?.into();
        crate::meeting::reserve(file.as_fd(), 0, size_of::<Rows>() as i64)?;
        Report::of(&file)
    }

    /// That of a run, for one of its programs. No memory is allocated.
    ///
    /// # Errors
    /// The system's: it is not there, or another user's.
    pub fn open(folder: &CStr) -> io::Result<Report> {
        let folder = crate::meeting::open(libc::AT_FDCWD, folder.as_ptr().cast(), libc::O_DIRECTORY)?;
        let flags = libc::O_RDWR | libc::O_NOFOLLOW;
        let file = crate::meeting::open(folder.as_raw_fd(), NAME.as_ptr().cast(), flags)?;
        Report::of(&file)
    }

    fn of(file: &OwnedFd) -> io::Result<Report> {
        let mut facts = std::mem::MaybeUninit::<libc::stat>::uninit();
        let (len, access) = (size_of::<Rows>(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a place for the facts, which the call fills where it succeeds; a new mapping, where the kernel likes.
        let at = unsafe {
            // A page behind the end of a file kills the process that touches it.
            if libc::fstat(file.as_raw_fd(), facts.as_mut_ptr()) != 0 || facts.assume_init().st_size < len as i64 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as large, aligned as pages are, atomics, and never unmapped.
        Ok(Report(unsafe { &*at.cast::<Rows>() }))
    }

    /// A row for an end of this process. None: there is no more room.
    pub fn end(self, pipe: u64, writes: bool, name: &CStr) -> Option<&'static EndRow> {
        let at = self.0.ends.fetch_add(1, Ordering::Relaxed) as usize; // Relaxed: each gets another number.
        let row = self.0.end.get(at)?;
        row.flags.store(if writes { WRITES } else { 0 }, Ordering::Relaxed); // Relaxed, all: as in `Count`.
        row.process.store(std::process::id(), Ordering::Relaxed); // Relaxed: as above.
        row.name.set(format_args!("{}", name.to_str().unwrap_or("?")));
        row.pipe.store(pipe, Ordering::Relaxed); // Relaxed: as above.
        Some(row)
    }

    /// Tells of this process why it is left as it is.
    pub fn program(self, name: &CStr, why: fmt::Arguments) {
        let at = self.0.programs.fetch_add(1, Ordering::Relaxed) as usize; // Relaxed: each gets another number.
        let Some(row) = self.0.program.get(at) else { return };
        row.process.store(std::process::id(), Ordering::Relaxed); // Relaxed: as in `Count`.
        row.name.set(format_args!("{}", name.to_str().unwrap_or("?")));
        row.why.set(why);
    }

    /// The ends that were told of, and how many there was no room for.
    pub fn ends(self) -> (Vec<End>, usize) {
        let wanted = self.0.ends.load(Ordering::Relaxed) as usize; // Relaxed: as in `Count`.
        let ends = self.0.end.iter().take(wanted).filter_map(|row| {
            let flags = row.flags.load(Ordering::Relaxed); // Relaxed: as above.
            let (kernel, lane, within) = (row.kernel.now(), row.lane.now(), row.within.now());
            let end = End {
                pipe: row.pipe.load(Ordering::Relaxed),       // Relaxed: as above.
                process: row.process.load(Ordering::Relaxed), // Relaxed: as above.
                name: row.name.text(),
                writes: flags & WRITES != 0,
                has_lane: flags & HAS_LANE != 0,
                memory: (lane.0, lane.1.saturating_sub(within.1)),
                kernel: (kernel.0 + within.0, kernel.1 + within.1),
                why: row.why.text(),
            };
            (end.pipe != 0).then_some(end)
        });
        (ends.collect(), wanted.saturating_sub(ENDS))
    }

    /// The programs that were left as they are, and how many there was no room for.
    pub fn programs(self) -> (Vec<Program>, usize) {
        let wanted = self.0.programs.load(Ordering::Relaxed) as usize; // Relaxed: as in `Count`.
        let programs = self.0.program.iter().take(wanted).map(|row| {
            let process = row.process.load(Ordering::Relaxed); // Relaxed: as above.
            Program { process, name: row.name.text(), why: row.why.text() }
        });
        (programs.filter(|program| program.process != 0).collect(), wanted.saturating_sub(PROGRAMS))
    }
}
