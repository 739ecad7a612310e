//! The threads of another process, read out of its memory. That process takes no part, and may be stopped.
//!
//! The first place of the table of records belongs to no thread: it holds a header that identifies the table. A reader
//! with the right to read the process's memory (as a debugger has) finds the table among the process's mappings and
//! copies the records as they are at that moment. The threads run on meanwhile: each field was true when it was read,
//! but two fields of one record may be some nanoseconds apart.
//!
//! Of a process that has died, [`Image::of_core`] reads the same out of its core file. A core file holds only the used
//! part of the regions, and the stacks of the first threads at most: see `record`.

mod core;

pub use self::core::Mapped;

use self::core::Core;
use crate::proc::Proc;
use crate::record::{Extra, FEWEST, Header, MAGIC, MOST, STACK, Thread, VERSION};
use crate::report;
use crate::words::token::{self, ASLEEP, PARKED};
use chappe_plat::light::asked::{HELD, STOPPED};
use chappe_plat::light::{Record, Waits};
use chappe_plat::{mappings, process, stacks};
use std::collections::BTreeMap;
use std::io;
use std::mem::offset_of;
use std::path::Path;
use std::sync::Arc;

/// What `examples/gdb/chappe_threads.py` goes by.
const _: () = {
    let core = offset_of!(Thread, core);
    assert!(core + offset_of!(Record, token) == 8 && core + offset_of!(Record, waits) == 16);
    assert!(core + offset_of!(Record, control) == 20 && core + offset_of!(Record, at) == 24);
    assert!(offset_of!(Thread, sp) == 48 && offset_of!(Thread, proc) == 56 && offset_of!(Thread, extra) == 88);
    assert!(offset_of!(Thread, level) == 104 && offset_of!(Thread, away) == 106 && offset_of!(Thread, lives) == 107);
    assert!(offset_of!(Header, version) == 8 && offset_of!(Header, fresh) == 12 && offset_of!(Header, stacks) == 24);
    assert!(offset_of!(Extra, name_at) == 0 && offset_of!(Extra, name_len) == 8);
};

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// A proc has it.
    Running,
    /// It will have a proc when it is its turn.
    Ready,
    /// It waits.
    Waiting,
    /// It is in a call that blocks, on a kernel thread of its own.
    Blocking,
    /// It is kept from running: `Thread::suspend`.
    Suspended,
    /// The same, and it runs no interrupts: `Thread::stop`.
    Stopped,
}

impl State {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Ready => "ready",
            State::Waiting => "waiting",
            State::Blocking => "blocking",
            State::Suspended => "suspended",
            State::Stopped => "stopped",
        }
    }
}

/// A light thread of some process, as it was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// Its number.
    pub number: u32,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What it is doing.
    pub state: State,
    /// What it waits for, in words; empty if it waits for nothing.
    pub waits: String,
    /// If that is something named: its attachment in the arena.
    pub attachment: Option<u32>,
    /// The number of its proc within its runtime.
    pub proc: u32,
    /// Which runtime: the same number for the same one.
    pub runtime: u32,
    /// Its level.
    pub level: u8,
    /// Whether it stays with its proc.
    pub pinned: bool,
    /// Bytes of its stack that it uses, if it is not running.
    pub stack: Option<u64>,
    /// Bytes of its stack, the guard aside.
    pub stack_size: u64,
    sp: u64,
    record: u64,
}

/// Where a thread that is not running was left: what an unwinder begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Where it goes on.
    pub ip: u64,
    /// Its stack pointer there.
    pub sp: u64,
    /// Its frame pointer.
    pub fp: u64,
}

/// What a proc is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// How often it has gone from thread to thread; wraps.
    pub dispatches: u32,
    /// The number of the light thread that it runs.
    pub thread: Option<u32>,
    /// The kernel thread that it is, by its number in the process's namespace.
    pub kernel_thread: u32,
}

/// The light threads of a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Image {
    /// By number.
    pub threads: Vec<Seen>,
    procs: Vec<u64>,
    memory: Memory,
}

/// What is read: copies are of the same.
#[derive(Clone, Debug)]
enum Memory {
    Process(u32),
    Core(Arc<Core>),
}

impl Memory {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Memory::Process(pid) => process::read_memory(*pid, at, into),
            Memory::Core(core) => core.read(at, into),
        }
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Where a table may lie: from where, to where.
    fn places(&self) -> io::Result<Vec<(u64, u64)>> {
        match self {
            Memory::Process(pid) => mappings::private_of(*pid),
            Memory::Core(core) => Ok(core.writable()),
        }
    }

    fn header(&self, at: u64) -> Option<(u32, u64, u64)> {
        // The whole of it lies on one page; a wrong guess is mostly not mapped.
        if self.word(at).ok()? != MAGIC || self.word(at + offset_of!(Header, version) as u64).ok()? as u32 != VERSION {
            return None;
        }
        let fresh = self.word(at + offset_of!(Header, fresh) as u64).ok()? as u32;
        let most = self.word(at + offset_of!(Header, most) as u64).ok()?;
        let stacks = self.word(at + offset_of!(Header, stacks) as u64).ok()?;
        (u64::from(fresh) <= most && most <= MOST as u64).then_some((fresh, at, stacks))
    }

    /// Where the table is: at the start of a mapping, unless the kernel has joined that with its neighbours.
    fn table(&self) -> io::Result<Option<(u32, u64, u64)>> {
        for (start, end) in self.places()? {
            let mut most = MOST as u64;
            let mut places = vec![start];
            while most >= FEWEST as u64 {
                let len = most * size_of::<Thread>() as u64;
                places.extend([end.wrapping_sub(len), start.wrapping_add(most * STACK as u64)]);
                most /= 4;
            }
            let mut within = places.into_iter().filter(|at| (start..end).contains(at));
            if let Some(found) = within.find_map(|at| self.header(at)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Image {
    /// Reads the light threads of a process. `None`: it has never had any (of this build's kind).
    ///
    /// # Errors
    /// `NotFound` if there is no such process; `PermissionDenied` if the caller may not debug it.
    pub fn of(pid: u32) -> io::Result<Option<Image>> {
        let memory = Memory::Process(pid);
        // Whether it may be read at all.
        let some = memory.places()?.first().copied();
        if let Some((at, _)) = some {
            memory.word(at).or_else(|e| if e.raw_os_error() == Some(BAD_ADDRESS) { Ok(0) } else { Err(e) })?;
        }
        Image::read_out(memory)
    }

    /// Reads the light threads of a process out of its core file: as they were when it died. `None`: it has never had any (of this build's kind).
    ///
    /// # Errors
    /// The system's; `InvalidData`: it is no core file of this kind of machine, or is cut off.
    pub fn of_core(path: &Path) -> io::Result<Option<Image>> {
        Image::read_out(Memory::Core(Arc::new(Core::open(path)?)))
    }

    fn read_out(memory: Memory) -> io::Result<Option<Image>> {
        let Some((fresh, table, stacks)) = memory.table()? else { return Ok(None) };
        let size = size_of::<Thread>();
        let mut bytes = vec![0; fresh as usize * size];
        memory.read(table, &mut bytes)?;
        let mut image = Image { threads: Vec::new(), procs: Vec::new(), memory };
        // Of each proc: its number, its runtime, what it runs.
        let mut procs: BTreeMap<u64, (u32, u64, u64)> = BTreeMap::new();
        let mut runtimes: Vec<u64> = Vec::new();
        for (number, record) in bytes.chunks_exact(size).enumerate().skip(1) {
            let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
            let half = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
            if record[offset_of!(Thread, lives)] != 1 {
                continue;
            }
            let proc = word(offset_of!(Thread, proc));
            if let std::collections::btree_map::Entry::Vacant(entry) = procs.entry(proc) {
                let field = |at: usize| image.memory.word(proc + at as u64);
                let (Ok(index), Ok(shared), Ok(running)) =
                    (field(offset_of!(Proc, index)), field(offset_of!(Proc, shared)), field(offset_of!(Proc, running)))
                else {
                    // It has just begun.
                    continue;
                };
                if !runtimes.contains(&shared) {
                    runtimes.push(shared);
                }
                entry.insert((index as u32, shared, running));
                image.procs.push(proc + offset_of!(Proc, running) as u64);
            }
            let (index, shared, running) = procs[&proc];
            let core = offset_of!(Thread, core);
            let token = token::state(half(core + offset_of!(Record, token)));
            let control = half(core + offset_of!(Record, control));
            let waits = Waits::of(half(core + offset_of!(Record, waits)));
            let at = word(core + offset_of!(Record, at));
            let state = match token {
                _ if record[offset_of!(Thread, away)] == 1 => State::Blocking,
                _ if control & (STOPPED | HELD) == STOPPED | HELD => State::Stopped,
                _ if control & STOPPED != 0 => State::Suspended,
                PARKED | ASLEEP => State::Waiting,
                _ if running == table + (number * size) as u64 => State::Running,
                _ => State::Ready,
            };
            let (mut name, mut own) = (None, None);
            let extra = word(offset_of!(Thread, extra));
            if extra != 0 {
                let field = |at: usize| image.memory.word(extra + at as u64).unwrap_or(0);
                let len = field(offset_of!(Extra, name_len)).min(256) as usize;
                let mut text = vec![0; len];
                if len > 0 && image.memory.read(field(offset_of!(Extra, name_at)), &mut text).is_ok() {
                    name = Some(String::from_utf8_lossy(&text).into_owned());
                }
                let stack = (field(offset_of!(Extra, stack_at)), field(offset_of!(Extra, stack_len)));
                own = Some(stack).filter(|(at, _)| *at != 0);
            }
            let page = stacks::page() as u64;
            let (low, len) = own.unwrap_or((stacks + (number * STACK) as u64, STACK as u64));
            let sp = word(offset_of!(Thread, sp));
            let left = state != State::Running && state != State::Blocking && (low..low + len).contains(&sp);
            image.threads.push(Seen {
                number: number as u32,
                name,
                state,
                waits: if state == State::Waiting { report::words(waits, at) } else { String::new() },
                attachment: (state == State::Waiting && waits == Waits::Named).then_some(at as u32),
                proc: index,
                runtime: runtimes.iter().position(|runtime| *runtime == shared).unwrap_or(0) as u32,
                level: record[offset_of!(Thread, level)],
                pinned: record[offset_of!(Thread, pinned)] == 1,
                stack: left.then(|| low + len - sp),
                stack_size: len - page,
                sp: if left { sp } else { 0 },
                record: table + (number * size) as u64,
            });
        }
        Ok(Some(image))
    }

    /// The descriptor by which others ask something of the process: `None`, it has no light threads; within, nobody answers.
    pub(crate) fn control_of(pid: u32) -> io::Result<Option<Option<u32>>> {
        let memory = Memory::Process(pid);
        let Some((_, table, _)) = memory.table()? else { return Ok(None) };
        let control = memory.word(table + offset_of!(Header, control) as u64)? as u32;
        Ok(Some(control.checked_sub(1)))
    }

    /// Where a thread was left, if it is not running.
    ///
    /// # Errors
    /// The process has gone.
    pub fn context(&self, thread: &Seen) -> io::Result<Option<Context>> {
        if thread.sp == 0 {
            return Ok(None);
        }
        let word = |n: u64| self.memory.word(thread.sp + 8 * n);
        // As `switch` leaves it.
        Ok(Some(if cfg!(target_arch = "x86_64") {
            Context { ip: word(0)?, sp: thread.sp + 24, fp: word(2)? }
        } else {
            Context { ip: word(0)?, sp: thread.sp + 32, fp: word(3)? }
        }))
    }

    /// Reads the process's memory.
    ///
    /// # Errors
    /// Not all of it is there; the process has gone.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read(at, into)
    }

    /// The process's number; 0: its core file does not say.
    pub fn pid(&self) -> u32 {
        match &self.memory {
            Memory::Process(pid) => *pid,
            Memory::Core(core) => core.pid,
        }
    }

    /// The files that the process had mapped as code when it died; `None`: it lives, see /proc/PID/maps.
    pub fn mapped(&self) -> Option<&[Mapped]> {
        match &self.memory {
            Memory::Process(_) => None,
            Memory::Core(core) => Some(&core.files),
        }
    }

    /// What each proc does. Of all procs that have threads, in one order.
    ///
    /// # Errors
    /// The process has gone.
    pub fn turns(&self) -> io::Result<Vec<Turn>> {
        let memory = &self.memory;
        let turn = |running: &u64| {
            let proc = running - offset_of!(Proc, running) as u64;
            let half = |at: usize| Ok::<u32, io::Error>(memory.word(proc + at as u64)? as u32);
            let (dispatches, kernel_thread) = (half(offset_of!(Proc, dispatches))?, half(offset_of!(Proc, tid))?);
            let record = memory.word(*running)?;
            let thread = self.threads.iter().find(|t| t.record == record).map(|t| t.number);
            Ok(Turn { dispatches, thread, kernel_thread })
        };
        self.procs.iter().map(turn).collect()
    }

    /// The numbers of the threads that procs are running just now: for shares of processors, ask often.
    ///
    /// # Errors
    /// The process has gone.
    pub fn running(&self, table: &mut Vec<u32>) -> io::Result<()> {
        let memory = &self.memory;
        for proc in &self.procs {
            let running = memory.word(*proc)?;
            if running != 0 {
                let number = offset_of!(Thread, core) + offset_of!(Record, number);
                table.push(memory.word(running + number as u64)? as u32);
            }
        }
        Ok(())
    }
}

/// EFAULT: nothing is mapped there, or nobody may read it.
const BAD_ADDRESS: i32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "maps memory that is shared, or switches stacks")]
    fn a_process_sees_its_own_threads() {
        let runtime = crate::Runtime::new(1).unwrap();
        let stay = runtime.run(|| {
            let stay = crate::Builder::new().name("stays").level(3).stack_size(64 * 1024).spawn(crate::park).unwrap();
            // Its level has a turn in sixteen.
            (0..32).for_each(|_| crate::yield_now());
            let image = Image::of(std::process::id()).unwrap().unwrap();
            let seen = image.threads.iter().find(|t| t.name.as_deref() == Some("stays")).unwrap();
            assert_eq!((seen.number, seen.level, seen.state), (stay.id().as_u32(), 3, State::Waiting));
            assert_eq!(seen.waits, "is parked");
            assert!(seen.stack.unwrap() > 0 && seen.stack.unwrap() < seen.stack_size);
            let me = crate::current().id().as_u32();
            let mine = image.threads.iter().find(|t| t.number == me).unwrap();
            assert_eq!((mine.state, mine.name.as_deref(), mine.stack), (State::Running, Some("main"), None));
            let mut running = Vec::new();
            image.running(&mut running).unwrap();
            assert!(running.contains(&me));
            stay
        });
        stay.thread().unpark();
        stay.join().unwrap();
        assert!(Image::of(u32::MAX >> 2).is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
    }
}
