//! What the tests of lanes ask of this machine.

use std::io;
use std::os::fd::AsRawFd;

/// Whether this machine can have lanes: asked of the kernel, not of the lanes. If not, says what is not tested.
pub fn has_lanes(test: &str) -> bool {
    const FUTEX_WAITV: libc::c_long = 449;
    let (reader, _writer) = io::pipe().expect("a pipe");
    // SAFETY: calls that touch no memory. The second has no words to sleep at: EINVAL where it exists.
    let (size, _) = unsafe {
        (
            libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20),
            libc::syscall(FUTEX_WAITV, 0usize, 0u32, 0u32, 0usize, 0i32),
        )
    };
    let sleeps = io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    let sleeps = sleeps && std::env::var_os("CHAPPE_NO_WAITV").is_none_or(|v| v != "1");
    let has = size >= 1 << 20 && sleeps;
    if !has {
        eprintln!(
            "not tested: {test}: pipes may not be wide (fs.pipe-max-size, fs.pipe-user-pages-soft), or there is no futex_waitv"
        );
    }
    has
}
