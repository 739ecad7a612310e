//! Which other processes have an end of a pipe, as `/proc` says: the proof that an end is one process' alone.
//!
//! The kernel hands a descriptor on by fork and exec, in a message between sockets, and to processes that open it in `/proc` or take it by
//! `pidfd_getfd`. A process that has it when the look begins keeps it until the look comes to it, or has handed it to a child: the numbers of
//! processes rise, and the look goes through them in that order. A look in which the numbers begin again from the lowest proves nothing.
//! Within its table a process may move it to a number that the look has passed, as a child does before exec. So a table is looked through until
//! two looks in turn have found the same (numbers, and what they are); one of the run's that never rests proves nothing, either.
//! What the whole finds stays true: only this process can hand the end on, and it does not.
//!
//! Not seen: a descriptor that lies in a socket, or is registered with an io_uring; one that a process hands in a message to another that the look
//! has passed, and closes before the look comes to it; one that a thread closes while another thread of its process is forking a child that has
//! it; one that is moved behind the look's back in both of two looks, with all that it passed put back between them; a table of its own that a
//! thread has of a process older than the run; one that such a process, of another user, has; what another process takes by
//! `pidfd_getfd` or opens in `/proc` later. What may not be looked at, and is younger than the run, is taken for a holder.
//!
//! No memory is allocated: a program may be in its allocator when a signal handler of it writes.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::RawFd;

/// The facts of a run by which its processes know that they can see all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// When it began, in the ticks of `/proc/PID/stat`.
    pub since: u64,
    /// The inode numbers of its namespaces of processes, and of times.
    pub processes: u64,
    /// As above.
    pub times: u64,
}

/// Which ends of a pipe other processes have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// One that reads.
    pub read: bool,
    /// One that writes.
    pub write: bool,
}

/// How often a table is looked through that does not rest. A look takes microseconds: a program that opens one file after the other rests between
/// two of them, sooner or later.
const LOOKS: usize = 64;

/// A folder, or a file.
struct Open(RawFd);

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: opened by this, and nobody else has it. Not the C library's function, which is the program's own entry.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// A path, which ends in 0.
struct Text([u8; 64]);

impl Text {
    fn of(what: std::fmt::Arguments) -> Text {
        let mut text = Text([0; 64]);
        // What is cut off names nothing.
        let _ = io::Write::write_fmt(&mut &mut text.0[..63], what);
        text
    }
}

impl Open {
    fn new(at: &Open, path: &Text, flags: libc::c_int) -> io::Result<Open> {
        // SAFETY: a path that ends in 0.
        let fd = unsafe { libc::syscall(libc::SYS_openat, at.0, path.0.as_ptr(), flags | libc::O_CLOEXEC) };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Open(fd as RawFd)) }
    }

    fn folder(&self, path: &Text) -> io::Result<Open> {
        Open::new(self, path, libc::O_DIRECTORY)
    }

    /// The facts about a name in it; of a link, about the link.
    fn facts(&self, name: &CStr) -> io::Result<libc::stat> {
        let mut facts = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: a name, and a place for the facts, which the call fills where it succeeds.
        unsafe {
            match libc::fstatat(self.0, name.as_ptr(), facts.as_mut_ptr(), libc::AT_SYMLINK_NOFOLLOW) {
                0 => Ok(facts.assume_init()),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// What a link in it says.
    fn link<'a>(&self, name: &CStr, into: &'a mut [u8; 64]) -> io::Result<&'a [u8]> {
        // SAFETY: a name, and a place for as many bytes.
        let count = unsafe { libc::readlinkat(self.0, name.as_ptr(), into.as_mut_ptr().cast(), into.len()) };
        usize::try_from(count).map(|count| &into[..count]).map_err(|_| io::Error::last_os_error())
    }

    /// The beginning of a file in it.
    fn text<'a>(&self, path: &Text, into: &'a mut [u8; 1024]) -> io::Result<&'a str> {
        let file = Open::new(self, path, libc::O_RDONLY)?;
        // SAFETY: a place for as many bytes.
        let count = unsafe { libc::syscall(libc::SYS_read, file.0, into.as_mut_ptr(), into.len()) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        std::str::from_utf8(&into[..count]).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Each name in it that is a number.
    fn numbers(&self, mut act: impl FnMut(u32, &CStr) -> ControlFlow<()>) -> io::Result<()> {
        const NAME: usize = 19;
        let mut room = [0u64; 512];
        loop {
            // SAFETY: a place for as many bytes, aligned as the kernel wants it.
            let count =
                unsafe { libc::syscall(libc::SYS_getdents64, self.0, room.as_mut_ptr(), std::mem::size_of_val(&room)) };
            let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
            if count == 0 {
                return Ok(());
            }
            // SAFETY: the bytes of the numbers.
            let bytes = unsafe { std::slice::from_raw_parts(room.as_ptr().cast::<u8>(), count) };
            let mut at = 0;
            while at < count {
                let len = usize::from(u16::from_ne_bytes([bytes[at + 16], bytes[at + 17]]));
                let name = CStr::from_bytes_until_nul(&bytes[at + NAME..at + len]).unwrap_or_default();
                at += len;
                if let Some(number) = name.to_str().ok().and_then(|name| name.parse().ok())
                    && act(number, name).is_break()
                {
                    return Ok(());
                }
            }
        }
    }
}

/// What `/proc/PID/stat` says of a process, as far as it matters here.
struct Process {
    /// It has no descriptors: a thread of the kernel, or nothing but a number.
    is_bare: bool,
    began: u64,
}

impl Run {
    /// The one that begins with this process, whose own facts these are.
    ///
    /// # Errors
    /// There is no `/proc`, or it is another one's.
    pub fn of_this_process() -> io::Result<Run> {
        let proc = proc()?;
        let began = process(&proc, std::process::id()).map(|this| this.began)?;
        Ok(Run { since: began, processes: namespace(&proc, c"pid"), times: namespace(&proc, c"time") })
    }

    /// Which ends of this descriptor's pipe other processes have. None: that cannot be known.
    pub fn others(&self, pipe: RawFd) -> Option<Others> {
        let proc = proc().ok()?;
        let here = Run { since: self.since, processes: namespace(&proc, c"pid"), times: namespace(&proc, c"time") };
        // Where other users' processes are hidden, the first one is.
        if here != *self || process(&proc, 1).is_err() {
            return None;
        }
        let (own, mut name) = (std::process::id(), [0; 64]);
        let folder = proc.folder(&Text::of(format_args!("self/fd"))).ok()?;
        let number = Text::of(format_args!("{pipe}"));
        let wanted = folder.link(CStr::from_bytes_until_nul(&number.0).ok()?, &mut name).ok()?;
        // A pipe of a file system has a name, which says nothing.
        if !wanted.starts_with(b"pipe:[") {
            return None;
        }
        let before = last(&proc)?;
        let (mut others, mut is_known) = (Others::default(), true);
        let look = |pid, _: &CStr| {
            if pid != own && self.look_at(&proc, pid, wanted, &mut others).is_err() {
                is_known = false;
            }
            if is_known { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        proc.numbers(look).ok()?;
        (is_known && last(&proc)? >= before).then_some(others)
    }

    /// Adds what this process has. An error: that cannot be known.
    fn look_at(&self, proc: &Open, pid: u32, wanted: &[u8], others: &mut Others) -> io::Result<()> {
        match proc.folder(&Text::of(format_args!("{pid}/fd"))) {
            Ok(folder) => self.look_in(proc, pid, &folder, wanted, others)?,
            Err(why) if is_gone(&why) => return Ok(()),
            Err(why) => return if self.has_none(proc, pid) { Ok(()) } else { Err(why) },
        }
        let Ok(tasks) = proc.folder(&Text::of(format_args!("{pid}/task"))) else { return Ok(()) };
        // Its threads have one table, if they were not made to have several. Two names of the folder's are its own.
        if tasks.facts(c".").is_ok_and(|facts| facts.st_nlink <= 3) || self.is_older(proc, pid) {
            return Ok(());
        }
        let mut result = Ok(());
        tasks.numbers(|tid, _| {
            if tid != pid {
                result = match tasks.folder(&Text::of(format_args!("{tid}/fd"))) {
                    Ok(folder) => self.look_in(proc, pid, &folder, wanted, others),
                    Err(why) if is_gone(&why) => Ok(()),
                    Err(why) => Err(why),
                };
            }
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result
    }

    /// Adds what is in this table of the process'. An error: that cannot be known.
    fn look_in(&self, proc: &Open, pid: u32, table: &Open, wanted: &[u8], others: &mut Others) -> io::Result<()> {
        match has_settled(table, wanted, others) {
            Ok(true) => Ok(()),
            // What has begun before the run was not made by a holder of the run's.
            Ok(false) if self.is_older(proc, pid) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(why) if is_gone(&why) || self.has_none(proc, pid) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Whether a process at which this one may not look cannot have what the run has made.
    fn has_none(&self, proc: &Open, pid: u32) -> bool {
        match process(proc, pid) {
            Ok(it) => it.is_bare || it.began < self.since,
            Err(why) => is_gone(&why),
        }
    }

    fn is_older(&self, proc: &Open, pid: u32) -> bool {
        process(proc, pid).is_ok_and(|it| it.began < self.since)
    }
}

/// A table of descriptors, as `/proc` shows it.
trait Table {
    /// Each number in it, in order, while it may change.
    fn numbers(&self, act: impl FnMut(u32, &CStr) -> ControlFlow<()>) -> io::Result<()>;
    /// What the kernel says of a number.
    fn link<'a>(&self, name: &CStr, into: &'a mut [u8; 64]) -> io::Result<&'a [u8]>;
    /// The mode of that, in which the kernel shows what it was opened for. None: it is gone.
    fn mode(&self, name: &CStr) -> Option<u32>;
}

impl Table for Open {
    fn numbers(&self, act: impl FnMut(u32, &CStr) -> ControlFlow<()>) -> io::Result<()> {
        // SAFETY: touches no memory: the first name again.
        unsafe { libc::lseek(self.0, 0, libc::SEEK_SET) };
        Open::numbers(self, act)
    }

    fn link<'a>(&self, name: &CStr, into: &'a mut [u8; 64]) -> io::Result<&'a [u8]> {
        Open::link(self, name, into)
    }

    fn mode(&self, name: &CStr) -> Option<u32> {
        self.facts(name).ok().map(|facts| facts.st_mode)
    }
}

/// Adds what is in a table. False: no two looks in turn have found the same.
fn has_settled(table: &impl Table, wanted: &[u8], others: &mut Others) -> io::Result<bool> {
    let mut before = None;
    for _ in 0..LOOKS {
        let now = look_through(table, wanted, others)?;
        if before.replace(now) == Some(now) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds what is in a table, and answers a number for all that was seen.
fn look_through(table: &impl Table, wanted: &[u8], others: &mut Others) -> io::Result<u64> {
    let (mut room, mut seen, mut result) = ([0; 64], DefaultHasher::new(), Ok(()));
    table.numbers(|number, name| {
        seen.write_u32(number);
        match table.link(name, &mut room) {
            Ok(link) => {
                seen.write(link);
                if link == wanted {
                    // Closed since: it was there.
                    let mode = table.mode(name).unwrap_or(0o600);
                    others.read |= mode & 0o400 != 0;
                    others.write |= mode & 0o200 != 0;
                }
            }
            Err(why) if is_gone(&why) => seen.write_u8(0),
            Err(why) => result = Err(why),
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result.map(|()| seen.finish())
}

/// `/proc` of the namespace of processes that this one is in.
fn proc() -> io::Result<Open> {
    let mut root = Text::of(format_args!("/proc"));
    let proc = Open::new(&Open(libc::AT_FDCWD), &root, libc::O_DIRECTORY)?;
    root = Text::of(format_args!("{}", std::process::id()));
    let mut room = [0; 64];
    let own = proc.link(c"self", &mut room)?;
    if root.0.starts_with(own) && root.0[own.len()] == 0 { Ok(proc) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// The number of one of this process' namespaces; 0 where the kernel has none of that kind.
fn namespace(proc: &Open, kind: &CStr) -> u64 {
    let Ok(folder) = proc.folder(&Text::of(format_args!("self/ns"))) else { return 0 };
    let mut room = [0; 64];
    let link = folder.link(kind, &mut room).unwrap_or_default();
    let digits = link.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// The number of the process that was made last.
fn last(proc: &Open) -> Option<u32> {
    let mut room = [0; 1024];
    proc.text(&Text::of(format_args!("loadavg")), &mut room).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

fn process(proc: &Open, pid: u32) -> io::Result<Process> {
    const KERNEL: u64 = 0x0020_0000;
    let mut room = [0; 1024];
    let text = proc.text(&Text::of(format_args!("{pid}/stat")), &mut room)?;
    // Behind the command's name, which may have anything in it.
    let mut words = text.rsplit_once(')').map_or("", |(_, behind)| behind).split_ascii_whitespace();
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let state = words.next().ok_or_else(wrong)?;
    let flags: u64 = words.nth(5).and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
    let began = words.nth(12).and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
    Ok(Process { is_bare: flags & KERNEL != 0 || state == "Z" || state == "X", began })
}

fn is_gone(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::ffi::CString;

    /// A table that changes before the looks at its links: so many of them, and what is where from then on.
    struct Moved {
        now: RefCell<BTreeMap<u32, &'static str>>,
        changes: RefCell<Vec<(u32, BTreeMap<u32, &'static str>)>>,
        links: Cell<u32>,
    }

    impl Table for Moved {
        fn numbers(&self, mut act: impl FnMut(u32, &CStr) -> ControlFlow<()>) -> io::Result<()> {
            let mut at = 0;
            // As the kernel: the next one that is there when its turn has come.
            loop {
                let next = self.now.borrow().range(at..).next().map(|(number, _)| *number);
                let Some(number) = next else { return Ok(()) };
                if act(number, &CString::new(number.to_string()).expect("no 0")).is_break() {
                    return Ok(());
                }
                at = number + 1;
            }
        }

        fn link<'a>(&self, name: &CStr, into: &'a mut [u8; 64]) -> io::Result<&'a [u8]> {
            let number: u32 = name.to_str().expect("digits").parse().expect("digits");
            let link = self.now.borrow().get(&number).copied();
            self.links.set(self.links.get() + 1);
            let mut changes = self.changes.borrow_mut();
            if changes.first().is_some_and(|(links, _)| *links == self.links.get()) {
                *self.now.borrow_mut() = changes.remove(0).1;
            }
            let link = link.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
            into[..link.len()].copy_from_slice(link.as_bytes());
            Ok(&into[..link.len()])
        }

        fn mode(&self, _: &CStr) -> Option<u32> {
            Some(0o200)
        }
    }

    const WANTED: &str = "pipe:[7]";

    fn seen(first: &[(u32, &'static str)], changes: &[(u32, &[(u32, &'static str)])]) -> (bool, Others) {
        let table = Moved {
            now: RefCell::new(first.iter().copied().collect()),
            changes: RefCell::new(changes.iter().map(|(at, now)| (*at, now.iter().copied().collect())).collect()),
            links: Cell::new(0),
        };
        let mut others = Others::default();
        let has_settled = has_settled(&table, WANTED.as_bytes(), &mut others).expect("no error");
        (has_settled, others)
    }

    #[test]
    fn a_holder_that_moves_its_descriptor_while_it_is_looked_at_is_seen() {
        let written = Others { read: false, write: true };
        assert_eq!(seen(&[(1, "tty"), (4, WANTED)], &[]), (true, written));
        assert_eq!(seen(&[(1, "tty"), (4, "other")], &[]), (true, Others::default()));
        // dup2(4, 1), close(4) behind the look at 1, as a shell's child does it: to a number that was there, and to a free one.
        assert_eq!(seen(&[(1, "tty"), (4, WANTED)], &[(1, &[(1, WANTED)])]), (true, written));
        assert_eq!(seen(&[(2, "tty"), (4, WANTED)], &[(1, &[(1, WANTED), (2, "tty")])]), (true, written));
        // Something else comes to where it was: the numbers stay as they are.
        assert_eq!(seen(&[(1, "tty"), (4, WANTED)], &[(1, &[(1, WANTED), (4, "tty")])]), (true, written));
    }

    #[test]
    fn a_table_that_never_rests_proves_nothing() {
        const FILES: [&[(u32, &str)]; 2] = [&[(3, "one")], &[(3, "two")]];
        let changes: Vec<_> = (1..100).map(|at| (at, FILES[at as usize % 2])).collect();
        assert_eq!(seen(&[(3, "none")], &changes), (false, Others::default()));
        assert_eq!(seen(&[(3, "none")], &changes[..4]), (true, Others::default()));
    }
}
