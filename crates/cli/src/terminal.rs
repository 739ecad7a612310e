//! The terminal, and which process group has it.

use crate::signals::{Set, send};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};

/// The controlling terminal of this process's session, if it has one.
pub struct Terminal {
    tty: Option<File>,
    group: i32,
}

/// This process's group.
pub fn own_group() -> i32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::getpgrp() }
}

fn foreground_of(tty: RawFd) -> i32 {
    // SAFETY: a plain call on a descriptor.
    unsafe { libc::tcgetpgrp(tty) }
}

/// Makes `group` the terminal's foreground. May be called between fork and exec.
pub fn set_foreground(tty: RawFd, group: i32) {
    // SAFETY: a plain call on a descriptor. It fails when the session has ended, and then nobody minds.
    unsafe { libc::tcsetpgrp(tty, group) };
}

/// Whether a descriptor is the terminal and this process is in its foreground.
pub fn may_write(fd: RawFd) -> bool {
    foreground_of(fd) == own_group()
}

/// Whether a descriptor is the terminal and this process or that group is in its foreground.
pub fn is_of(fd: RawFd, group: i32) -> bool {
    may_write(fd) || foreground_of(fd) == group
}

/// How many columns the terminal has.
pub fn columns(fd: RawFd) -> usize {
    size(fd).map_or(80, |(columns, _)| columns.into())
}

/// How many columns and rows it has; None: it is no terminal, or does not know.
pub fn size(fd: RawFd) -> Option<(u16, u16)> {
    // SAFETY: an all-zero winsize is a valid value, and a valid place for the call to fill in.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(fd, libc::TIOCGWINSZ, &mut size);
        size
    };
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Whether the descriptor is one end of a pipe or socket: a pipeline may be at work.
pub fn is_pipe(fd: RawFd) -> bool {
    // SAFETY: an all-zero stat is a valid value, and a valid place for the call to fill in.
    let mode = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut stat);
        stat.st_mode
    };
    matches!(mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK)
}

impl Terminal {
    /// Looks for it.
    pub fn find() -> Terminal {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok();
        Terminal { tty, group: own_group() }
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.tty.is_some()
    }

    /// Its descriptor, if this process is in its foreground.
    pub fn ours(&self) -> Option<RawFd> {
        let fd = self.tty.as_ref()?.as_raw_fd();
        (foreground_of(fd) == self.group).then_some(fd)
    }

    /// Hands the terminal to `group` if it is chappe's. True if it was.
    pub fn give(&self, group: i32) -> bool {
        let Some(fd) = self.ours() else { return false };
        with_ttou_blocked(|| set_foreground(fd, group));
        true
    }

    /// Takes it back from a group that is no longer to have it. With `None`: from any group that has it.
    pub fn take_back(&self, from: Option<i32>) {
        let Some(tty) = &self.tty else { return };
        let fd = tty.as_raw_fd();
        let has = foreground_of(fd);
        if from.is_none_or(|group| group == has) {
            with_ttou_blocked(|| set_foreground(fd, self.group));
        }
    }
}

/// A background process that asks for the terminal is stopped, unless it blocks that signal.
fn with_ttou_blocked(then: impl FnOnce()) {
    let before = Set::blocked_now();
    Set::of(&[libc::SIGTTOU]).block();
    then();
    before.set();
}

/// Does to a group that lost its terminal for good what the kernel does to orphaned ones.
pub fn hang_up(group: i32) {
    send(-group, libc::SIGHUP);
    send(-group, libc::SIGCONT);
}
