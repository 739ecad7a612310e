//! What is missing where a file could not be made or made longer: the kernel has few numbers for what a user can do several things about.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What there is too little of, and what to do; none if the error is none of that kind. `there` is a path on the file system.
pub fn missing(there: &Path, e: &io::Error) -> Option<String> {
    match e.raw_os_error()? {
        libc::EFBIG => Some(
            "this process may not write files of that size: raise its limit (`ulimit -f`, LimitFSIZE= of a systemd unit)".into(),
        ),
        libc::EDQUOT => Some("the user's quota on that file system is used up: remove some of that user's files".into()),
        libc::ENOSPC => Some(match facts(there) {
            Some(f) if f.f_files > 0 && f.f_ffree == 0 => {
                "no inode is left on that file system (`df -i`): remove files there, or mount it with more of them (nr_inodes=)".into()
            }
            Some(f) => format!("that file system has {} bytes left: free some space there", f.f_bavail.saturating_mul(f.f_frsize)),
            None => "that file system is full: free some space there".into(),
        }),
        _ => None,
    }
}

/// What the kernel says of the file system of a path, or of the first directory above it that is there.
fn facts(there: &Path) -> Option<libc::statvfs> {
    there.ancestors().find_map(|path| {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        let mut facts = MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: a C string, and a place for what the kernel says.
        let asked = unsafe { libc::statvfs(path.as_ptr(), facts.as_mut_ptr()) };
        // SAFETY: the call has filled it in.
        (asked == 0).then(|| unsafe { facts.assume_init() })
    })
}
