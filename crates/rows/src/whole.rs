//! A file that is read to the end that it had when it was opened, or further if it grows.
//!
//! A file that becomes shorter meanwhile ends in the middle of a record, and nothing of what was read tells that: an answer about it would be
//! wrong without a word. So its end is an error then. (A file that says more bytes than it has, as those of /sys do, is read to its end.)

use chappe_plat::file::File;
use std::io::{Error, Read, Result, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};

/// A file that is told if it becomes shorter while it is read. What is no regular file is read as it is.
///
/// ```
/// use chappe_rows::WholeFile;
/// use std::io::Read;
///
/// let named = tempfile::NamedTempFile::new()?;
/// std::fs::write(named.path(), "a,b\n1,2\n")?;
/// let mut whole = WholeFile::new(std::fs::File::open(named.path())?)?;
/// named.as_file().set_len(6)?;
/// let why = whole.read_to_end(&mut Vec::new()).unwrap_err().to_string();
/// assert_eq!(why, "the file had 8 bytes, and has become shorter while it was read: it ends after 6");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// How long it was. A pipe has no length.
    had: u64,
    /// Where the next read begins.
    at: u64,
}

impl WholeFile {
    /// From where the file is read next.
    ///
    /// # Errors
    /// The system's.
    pub fn new(mut file: File) -> Result<WholeFile> {
        let facts = file.metadata()?;
        let (had, at) = if facts.is_file() { (facts.len(), file.stream_position()?) } else { (0, 0) };
        Ok(WholeFile { file, had, at })
    }
}

/// What is said of a file that became shorter while it was read.
pub fn shorter(had: u64, has: u64) -> String {
    format!("had {had} bytes, and has become shorter while it was read: it ends after {has}")
}

impl Read for WholeFile {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let read = self.file.read(to)?;
        self.at += read as u64;
        if read == 0 && !to.is_empty() && self.at < self.had {
            let has = self.file.metadata()?.len();
            if has < self.had {
                return Err(Error::other(format!("the file {}", shorter(self.had, has))));
            }
        }
        Ok(read)
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

impl AsFd for WholeFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_grow_while_it_is_read_and_not_shrink() {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), "12345678").unwrap();
        let opened = || WholeFile::new(File::open(named.path()).unwrap()).unwrap();
        let mut grows = opened();
        std::fs::write(named.path(), "123456789").unwrap();
        assert_eq!(std::io::read_to_string(&mut grows).unwrap(), "123456789");
        let (mut shrinks, mut sought, mut room) = (opened(), opened(), [0; 4]);
        shrinks.read_exact(&mut room).unwrap();
        sought.seek(SeekFrom::End(0)).unwrap();
        named.as_file().set_len(2).unwrap();
        // Each read says so.
        for _ in 0..2 {
            let why = shrinks.read(&mut room).unwrap_err().to_string();
            assert!(why.ends_with("had 9 bytes, and has become shorter while it was read: it ends after 2"), "{why}");
        }
        assert_eq!(sought.read(&mut room).unwrap(), 0, "all of it had been passed over");
    }

    #[test]
    fn a_device_is_read_to_its_end() {
        let mut null = WholeFile::new(File::open("/dev/null").unwrap()).unwrap();
        assert_eq!(null.read(&mut [0; 4]).unwrap(), 0);
        // It says that it has a page.
        let mut says_more = WholeFile::new(File::open("/sys/kernel/mm/transparent_hugepage/enabled").unwrap()).unwrap();
        assert!(says_more.had > 0 && says_more.read_to_end(&mut Vec::new()).unwrap() > 0);
    }
}
