//! Serial lines: a terminal device at its rate, raw (termios(3), ioctl_tty(2)).
//!
//! A line belongs to one program at a time by flock(2), as terminal programs agree. Its settings are what they were when it is closed; of a
//! program that is killed they stay. Nothing here waits: reads and writes say `WouldBlock`.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The bit behind the data bits that says whether they are even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parity {
    /// There is none.
    None,
    /// The sum of all bits is even.
    Even,
    /// The sum of all bits is odd.
    Odd,
}

/// What stops a sender that is too fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Nobody.
    None,
    /// The wires RTS and CTS.
    Hardware,
    /// The bytes XON and XOFF, which are no data then.
    Software,
}

/// How bytes go over a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bits a second.
    pub baud: u32,
    /// Data bits of a byte, 5 to 8.
    pub bits: u8,
    /// The bit behind them.
    pub parity: Parity,
    /// Stop bits, 1 or 2.
    pub stop: u8,
    /// What stops a sender.
    pub flow: Flow,
}

impl Settings {
    /// Bytes a second: a byte has a start bit, too.
    pub fn bytes_a_second(&self) -> f64 {
        let bits = 1 + self.bits + u8::from(self.parity != Parity::None) + self.stop;
        f64::from(self.baud) / f64::from(bits)
    }
}

/// Why there is no line.
#[derive(Debug)]
pub enum Refused {
    /// It is no terminal device.
    NoLine,
    /// Another program has it.
    Busy,
    /// It goes at another rate than was asked for.
    Rate(u32),
    /// The system's.
    System(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoLine => f.write_str("it is no serial line, and no terminal"),
            Refused::Busy => f.write_str("another program has it"),
            Refused::Rate(baud) => write!(f, "it goes at {baud} baud instead"),
            Refused::System(e) if e.kind() == ErrorKind::PermissionDenied => {
                write!(f, "{e}: are you in the group of that device? (`ls -l` shows it; often `dialout`)")
            }
            Refused::System(e) => e.fmt(f),
        }
    }
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Refused {
        match e.raw_os_error() {
            Some(libc::ENOTTY) => Refused::NoLine,
            Some(libc::EBUSY) => Refused::Busy,
            _ => Refused::System(e),
        }
    }
}

/// An open line.
pub struct Line {
    file: File,
    before: libc::termios2,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Line").field(&self.file).finish()
    }
}

/// One of the calls that take a pointer.
fn control<T>(file: &File, what: libc::Ioctl, about: *mut T) -> io::Result<()> {
    // SAFETY: each caller hands what this call reads or fills in.
    if unsafe { libc::ioctl(file.as_raw_fd(), what, about) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn settings(file: &File) -> io::Result<libc::termios2> {
    // SAFETY: numbers, of which zero is one each.
    let mut now: libc::termios2 = unsafe { zeroed() };
    control(file, libc::TCGETS2, &raw mut now)?;
    Ok(now)
}

impl Line {
    /// Opens a line with these settings, for this program alone.
    ///
    /// # Errors
    /// Why not.
    pub fn open(path: &str, wanted: &Settings) -> Result<Line, Refused> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK);
        let file = options.open(path)?;
        let before = settings(&file)?;
        file.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => Refused::Busy,
            TryLockError::Error(e) => e.into(),
        })?;
        let mut raw = before;
        raw.c_iflag = if wanted.flow == Flow::Software { libc::IXON | libc::IXOFF } else { 0 };
        (raw.c_oflag, raw.c_lflag) = (0, 0);
        raw.c_cflag = libc::CREAD | libc::CLOCAL | libc::BOTHER;
        raw.c_cflag |= [libc::CS5, libc::CS6, libc::CS7, libc::CS8][usize::from(wanted.bits.clamp(5, 8) - 5)];
        raw.c_cflag |= match wanted.parity {
            Parity::None => 0,
            Parity::Even => libc::PARENB,
            Parity::Odd => libc::PARENB | libc::PARODD,
        };
        if wanted.stop == 2 {
            raw.c_cflag |= libc::CSTOPB;
        }
        if wanted.flow == Flow::Hardware {
            raw.c_cflag |= libc::CRTSCTS;
        }
        (raw.c_ispeed, raw.c_ospeed) = (wanted.baud, wanted.baud);
        (raw.c_cc[libc::VMIN], raw.c_cc[libc::VTIME]) = (1, 0);
        let line = Line { file, before };
        control(&line.file, libc::TCSETS2, &raw mut raw)?;
        // Drivers round to what they can do, and say so; a line stands 2 % or so.
        let is = settings(&line.file)?.c_ospeed;
        if is.abs_diff(wanted.baud) > wanted.baud / 50 {
            return Err(Refused::Rate(is));
        }
        Ok(line)
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// `WouldBlock`: nothing. The system's; a line that has gone says EIO.
    pub fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        match (&self.file).read(to)? {
            // A line that hung up has no more.
            0 => Err(io::Error::from_raw_os_error(libc::EIO)),
            n => Ok(n),
        }
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// `WouldBlock`: nothing. The system's; a line that has gone says EIO.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }

    /// How many bytes the device has not sent yet.
    ///
    /// # Errors
    /// The system's.
    pub fn unsent(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        control(&self.file, libc::TIOCOUTQ, &raw mut bytes)?;
        Ok(bytes.unsigned_abs() as usize)
    }

    /// How often since the machine's begin something that came found no room, in the device or in its driver: each time one byte or more was lost. Nothing
    /// of a line whose driver does not count (a pseudo-terminal).
    pub fn overruns(&self) -> Option<u32> {
        // serial_icounter_struct of <linux/serial.h>: eleven counts, and room for more.
        let mut counts = [0 as libc::c_int; 20];
        control(&self.file, libc::TIOCGICOUNT, counts.as_mut_ptr()).ok()?;
        let [device, driver] = [counts[7], counts[10]].map(libc::c_int::cast_unsigned);
        Some(device.wrapping_add(driver))
    }

    /// Whether an error of a read or a write says that the device has gone.
    pub fn is_gone(e: &io::Error) -> bool {
        matches!(e.raw_os_error(), Some(libc::EIO | libc::ENXIO | libc::ENODEV | libc::EPIPE))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // It may have gone.
        let _ = control(&self.file, libc::TCSETS2, &raw mut self.before);
    }
}
