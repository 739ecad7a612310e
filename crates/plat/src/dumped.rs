//! A file that holds what a process had in its memory when it died. No process changes it, so the explorer has nothing to see there.

use std::io;
use std::path::Path;

/// Opened to be read.
pub type Dumped = std::fs::File;

/// Opens one.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> io::Result<Dumped> {
    Dumped::open(path)
}
