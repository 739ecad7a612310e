//! Files that the users of one directory share.
//!
//! A file of a directory admits the users that may write in the directory: its mode and its group follow from the directory's, whatever the
//! umask of the process that makes it.
//!
//! - I1: a file has its mode and group before it has a name. So no user meets a file that is not open to it yet, and a maker that is killed
//!   leaves no file that keeps other users out.
//! - I2: a file that may exist is never opened with `O_CREAT`: in a sticky directory the kernel refuses that for another user's file
//!   (`fs.protected_regular`). The file is opened without it, and made only if there is none.
//!
//! On a file system without unnamed files a file is made under its name: there I1 does not hold for the instant between two system calls.

use super::dir::{Dir, File};
use std::fs::File as StdFile;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, fchown};

/// The mode of a file in a directory of this mode: the users that may write in the directory may read and write the file.
pub(super) fn file_mode(directory: u32) -> u32 {
    let group = if directory & 0o020 != 0 { 0o060 } else { 0 };
    let others = if directory & 0o002 != 0 { 0o006 } else { 0 };
    0o600 | group | others
}

impl Dir {
    /// Opens a file for reading and writing, making an empty one if there is none; a symbolic link is refused.
    /// Each call gives an open file of its own.
    ///
    /// # Errors
    /// The system's.
    pub fn open_or_make(&self, name: &str) -> io::Result<OwnedFd> {
        loop {
            match self.openat(name, libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOCTTY, 0) {
                Ok(file) => {
                    self.mend(&file);
                    return Ok(file.into());
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
            // I1, I2.
            let made = match self.unnamed() {
                Ok(file) => self.link(&file, name).map(|()| file.inner),
                Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
                    let file = self.openat(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600);
                    file.and_then(|file| self.admit(&file).map(|()| file))
                }
                Err(e) => Err(e),
            };
            match made {
                Ok(file) => return Ok(file.into()),
                // Another process was faster.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes an empty file without a name that admits the users that the directory admits.
    pub(super) fn unnamed(&self) -> io::Result<File> {
        let inner = self.openat(".", libc::O_TMPFILE | libc::O_RDWR, 0o600)?;
        self.admit(&inner)?;
        Ok(File { inner })
    }

    /// Gives a file of this user the directory's group, where that may write in the directory, and the mode that follows from the directory's.
    fn admit(&self, file: &StdFile) -> io::Result<()> {
        let directory = self.facts()?;
        if directory.mode & 0o020 != 0 && file.metadata()?.gid() != directory.gid {
            // Refused to a user that is not in the group, and uses the directory for another reason: then the file is as good as it can be.
            let _ = fchown(file, None, Some(directory.gid));
        }
        let mode = file_mode(directory.mode);
        // SAFETY: a plain call on an open descriptor.
        if unsafe { libc::fchmod(file.as_raw_fd(), mode) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Opens a file of this user to the users that the directory admits by now: an older version left files with the umask's mode.
    fn mend(&self, file: &StdFile) {
        let wants = |here: &StdFile| Some((here.metadata().ok()?, file_mode(self.facts().ok()?.mode)));
        if let Some((has, mode)) = wants(file)
            && has.uid() == super::process::uid()
            && has.mode() & mode != mode
        {
            // The file is open, which is what the caller wants; another user's chance to open it is no reason to fail.
            let _ = self.admit(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_has_the_directorys_mode_whatever_the_umask() {
        let home = std::env::temp_dir().join(format!("chappe-admit-{}", std::process::id()));
        std::fs::create_dir(&home).expect("a directory of its own");
        // SAFETY: a plain call. Other tests of this process make their files with modes of their own.
        let before = unsafe { libc::umask(0o077) };
        for (directory, wanted) in [(0o700, 0o600), (0o1777, 0o666), (0o2770, 0o660), (0o755, 0o600)] {
            std::fs::set_permissions(&home, std::fs::Permissions::from_mode(directory)).expect("our own");
            let dir = Dir::open(&home).expect("it is there");
            let mode = |file: OwnedFd| StdFile::from(file).metadata().expect("it is open").mode() & 0o7777;
            assert_eq!(mode(dir.open_or_make("made").expect("made")), wanted);
            // One that an older version made.
            std::fs::set_permissions(home.join("made"), std::fs::Permissions::from_mode(0o600)).expect("our own");
            assert_eq!(mode(dir.open_or_make("made").expect("opened")), wanted);
            assert_eq!(dir.create_unnamed(4096, &[]).expect("made").facts().expect("it is open").mode, wanted);
            std::fs::remove_file(home.join("made")).expect("our own");
        }
        // SAFETY: as above.
        unsafe { libc::umask(before) };
        std::fs::remove_dir_all(&home).expect("our own");
    }
}
