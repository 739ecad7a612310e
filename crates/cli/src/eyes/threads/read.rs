//! The light threads of a process, read; and a frame of their stacks.

use anyhow::{Result, anyhow};
use chappe::thread::image::Image;
use std::io::ErrorKind;
use std::path::Path;

/// Of a process that has died.
pub fn image_of_core(core: &Path) -> Result<Image> {
    match Image::of_core(core) {
        Ok(Some(image)) => Ok(image),
        Ok(None) => Err(anyhow!(
            "{}: the process had no light threads, or a chappe of another version made them",
            core.display()
        )),
        Err(e) => Err(anyhow!("cannot read the core file {}: {e}", core.display())),
    }
}

pub fn image(pid: u32) -> Result<Image> {
    match Image::of(pid) {
        Ok(Some(image)) => Ok(image),
        Ok(None) => Err(anyhow!("process {pid} has no light threads, or a chappe of another version made them")),
        Err(e) => Err(unreadable(pid, e)),
    }
}

/// Why a process cannot be looked into.
pub fn unreadable(pid: u32, e: std::io::Error) -> anyhow::Error {
    match e.kind() {
        ErrorKind::NotFound => anyhow!("there is no process {pid}"),
        ErrorKind::PermissionDenied => anyhow!(
            "process {pid} may not be read: run this as its user, and, where kernel.yama.ptrace_scope is 1, as root"
        ),
        _ => anyhow::Error::from(e).context(format!("cannot read process {pid}")),
    }
}

/// A frame of a stack, in words.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The address.
    pub at: u64,
    /// The function, if it is known.
    pub function: Option<String>,
    /// File and line, if they are known.
    pub place: Option<String>,
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.function {
            Some(function) => f.write_str(function)?,
            None => write!(f, "{:#x}", self.at)?,
        }
        self.place.as_ref().map_or(Ok(()), |place| write!(f, " at {place}"))
    }
}
