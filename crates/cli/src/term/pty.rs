//! Pseudo-terminals: opening one, its size, its program, and calls that do not block.

use super::wanted::Wanted;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// The two ends of a pseudo-terminal.
pub struct Pty {
    /// The one that is read and typed into; calls on it do not block.
    pub master: OwnedFd,
    /// The one that the program has.
    pub slave: OwnedFd,
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens one of this size.
///
/// # Errors
/// The system's: there are no more of them, or none in this container.
pub fn open(columns: u16, rows: u16) -> io::Result<Pty> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: plain calls; the descriptors are checked.
    let master = owned(unsafe { libc::posix_openpt(flags | libc::O_NONBLOCK) })?;
    let fd = master.as_raw_fd();
    // SAFETY: plain calls on an open descriptor.
    if unsafe { libc::grantpt(fd) != 0 || libc::unlockpt(fd) != 0 } {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above. It opens the other end, wherever its file system is mounted.
    let slave = owned(unsafe { libc::ioctl(fd, libc::TIOCGPTPEER, flags) })?;
    set_size(&master, columns, rows)?;
    // SAFETY: an all-zero termios is a valid value, and a valid place for the call to fill in.
    unsafe {
        let mut now: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(slave.as_raw_fd(), &mut now) == 0 {
            now.c_iflag |= libc::IUTF8;
            libc::tcsetattr(slave.as_raw_fd(), libc::TCSANOW, &now);
        }
    }
    Ok(Pty { master, slave })
}

/// Gives it a size; the program is told by SIGWINCH.
///
/// # Errors
/// The system's.
pub fn set_size(master: &OwnedFd, columns: u16, rows: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: an open descriptor and a valid struct.
    if unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &size) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Starts a program whose controlling terminal it is. `first` is called in its process, with its number, before it is the program.
///
/// # Errors
/// The system's, of the fork or of the exec.
pub fn start(pty: &Pty, wanted: &Wanted<'_>, first: impl Fn(u32) + Send + Sync + 'static) -> io::Result<Child> {
    let end = || pty.slave.try_clone();
    let file_size = wanted.file_size;
    let mut child = Command::new(&wanted.command[0]);
    child.args(&wanted.command[1..]).stdin(end()?).stdout(end()?).stderr(end()?);
    if let Some(within) = wanted.within {
        // A process may stand in a directory that it is not permitted to enter.
        if std::env::current_dir().ok().is_none_or(|own| own != *within.directory) {
            child.current_dir(&within.directory);
        }
        child.env_clear().envs(within.environment.iter().map(|(k, v)| (k, v)));
    }
    child.env("TERM", "xterm-256color").env("COLORTERM", "truecolor").env("CHAPPE_TERM", wanted.name);
    // Of the terminal that this was called in: programs would take themselves to be there.
    const OTHERS: [&str; 10] = [
        "LINES",
        "COLUMNS",
        "TMUX",
        "TMUX_PANE",
        "STY",
        "WINDOW",
        "WINDOWID",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "VTE_VERSION",
    ];
    OTHERS.iter().for_each(|name| _ = child.env_remove(name));
    // SAFETY: between fork and exec the keeper, which has one thread, makes system calls, and reads a file of /proc in `first`.
    unsafe {
        child.pre_exec(move || {
            // As a login has it: what a script's background job ignores is not the program's.
            let wanted = |signal: &i32| *signal != libc::SIGXFSZ || file_size;
            (1..32).filter(wanted).for_each(crate::signals::default);
            crate::signals::Set::of(&[]).set();
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            first(libc::getpid() as u32);
            Ok(())
        });
    }
    child.spawn()
}

/// Reads without blocking. None: there is nothing now. 0: the other end is closed.
///
/// # Errors
/// The system's.
///
/// # Safety
/// `to` has room for `len` bytes.
pub unsafe fn read(master: &OwnedFd, to: *mut u8, len: usize) -> io::Result<Option<usize>> {
    // SAFETY: by the caller.
    let got = unsafe { libc::read(master.as_raw_fd(), to.cast(), len) };
    count(got)
}

/// Types without blocking. None: the program's side is full.
///
/// # Errors
/// The system's.
pub fn write(master: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: the bytes are ours.
    let put = unsafe { libc::write(master.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    count(put)
}

fn count(got: isize) -> io::Result<Option<usize>> {
    if got >= 0 {
        return Ok(Some(got as usize));
    }
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(None),
        // No process has the other end open.
        Some(libc::EIO) => Ok(Some(0)),
        _ => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe::term::holder::PIPELINE;
    use chappe::term::place::{Making, Place, Role, directory};
    use chappe::term::screen::fit;

    #[test]
    fn a_program_stands_in_its_terminal_before_it_runs() {
        let home = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let making = Making { size: fit(80, 24), history: 0, command: "true", note: &[], private: false };
        let place = Place::make(&directory(home.path()).expect("ours"), "t", &making).expect("room");
        let command = ["true".into()];
        let label = String::from("true");
        let (name, within, note, private, file_size) = ("t", None, &[][..], false, false);
        let wanted =
            Wanted { name, size: None, history: 0, command: &command, label, within, note, private, file_size };
        let pty = open(80, 24).expect("a pseudo-terminal");
        let mut child = start(&pty, &wanted, place.naming(Role::Program)).expect("it is there");
        assert_eq!(place.process(Role::Program), Some(child.id()));
        child.wait().expect("ours");
    }

    /// What the line discipline has when it is full.
    const DISCIPLINE: usize = 4095;

    /// How many bytes the line discipline has for the reader.
    fn waiting(master: &OwnedFd) -> usize {
        let mut count: libc::c_int = 0;
        // SAFETY: an open descriptor and a valid place for the answer.
        assert_eq!(unsafe { libc::ioctl(master.as_raw_fd(), libc::FIONREAD, &mut count) }, 0);
        count as usize
    }

    /// Writes of sizes that fill the kernel's buffers badly and well: the small ones are used again, beyond its limit.
    #[test]
    fn the_kernel_keeps_less_than_a_holder_counts_on() {
        let Pty { master, slave } = open(80, 24).expect("a pseudo-terminal");
        // SAFETY: plain calls on an open descriptor, with a valid place for the settings.
        unsafe {
            let mut now: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(slave.as_raw_fd(), &mut now), 0);
            libc::cfmakeraw(&mut now);
            assert_eq!(libc::tcsetattr(slave.as_raw_fd(), libc::TCSANOW, &now), 0);
            assert_eq!(libc::fcntl(slave.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK), 0);
        }
        let mut to = [0; 4096];
        for sizes in [&[1][..], &[256], &[257], &[513], &[255, 256, 257, 300, 513, 4000], &[4096]] {
            let (mut kept, mut refused) = (0, 0);
            // The kernel moves what it has, beside this, until the line discipline is full: from then on, refused is refused.
            for size in sizes.iter().cycle() {
                let is_full = waiting(&master) >= DISCIPLINE;
                match write(&slave, &vec![b'x'; *size]).expect("open") {
                    Some(put) => (kept, refused) = (kept + put, 0),
                    // The next may be smaller.
                    None if is_full => refused += 1,
                    None => std::thread::yield_now(),
                }
                if refused == sizes.len() {
                    break;
                }
            }
            assert!(kept > DISCIPLINE && kept as u64 <= PIPELINE, "{kept} bytes of {sizes:?}");
            while kept > 0 {
                // SAFETY: the place is this long.
                kept -= unsafe { read(&master, to.as_mut_ptr(), to.len()) }.expect("open").unwrap_or(0);
            }
        }
    }
}
