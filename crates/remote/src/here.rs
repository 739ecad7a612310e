//! What this process says of itself to others, and reads of this machine.

use crate::keys::Who;
use chappe_plat::file::File;
use chappe_plat::process;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a label: each waiter reads that of each, and an engine takes no entry of any length.
const MOST: usize = 200;

/// What others see of this process.
pub fn who(label: &str) -> Who {
    Who { host: host(), pid: process::pid(), label: short(label.to_owned()) }
}

/// A label of a length that everybody can read.
pub fn short(label: String) -> String {
    if label.len() <= MOST { label } else { format!("{}...", &label[..label.floor_char_boundary(MOST - 3)]) }
}

/// This machine's name.
pub fn host() -> String {
    let name = contents(Path::new("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "?".into(), |name| String::from_utf8_lossy(&name).trim().to_owned())
}

/// All of a file.
///
/// # Errors
/// The system's.
pub fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
