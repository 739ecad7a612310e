//! Where what is asked comes from, until Ctrl-C, and where the answer goes.

use crate::interrupt::Interrupt;
use crate::progress::Late;
use chappe::rows::{Stopped, WholeFile};
use std::fs::File;
use std::io::{IsTerminal, Read, Result, StdoutLock, Write, stdout};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// An input, until Ctrl-C. What one input has seen of it, all know: later ones are looked at before the first is read.
pub struct Until {
    from: Box<dyn Read + Send>,
    /// It is a pipe, or a terminal: something may be long in coming.
    waits: Option<OwnedFd>,
    interrupt: Arc<Interrupt>,
    has_ended: bool,
}

impl Until {
    /// A file that is open.
    ///
    /// # Errors
    /// The system's.
    pub fn open(file: File, interrupt: &Arc<Interrupt>) -> Result<Until> {
        let waits = Some(OwnedFd::from(file.try_clone()?));
        Ok(Until::begin(Box::new(WholeFile::new(file)?), waits, interrupt))
    }

    /// One that is opened when it is read, and closed at its end.
    pub fn later(path: PathBuf, interrupt: &Arc<Interrupt>) -> Until {
        Until::begin(Box::new(Later { path, file: None }), None, interrupt)
    }

    fn begin(from: Box<dyn Read + Send>, waits: Option<OwnedFd>, interrupt: &Arc<Interrupt>) -> Until {
        interrupt.inputs(1);
        Until { from, waits, interrupt: Arc::clone(interrupt), has_ended: false }
    }
}

impl Read for Until {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        if self.interrupt.was_taken() || self.interrupt.came(self.waits.as_ref())? {
            self.interrupt.taken();
            return Err(std::io::Error::other(Stopped));
        }
        let read = self.from.read(to)?;
        if read == 0 && !to.is_empty() && !std::mem::replace(&mut self.has_ended, true) {
            self.interrupt.inputs(-1);
        }
        Ok(read)
    }
}

/// A process has a thousand files at a time, and a question may have more.
struct Later {
    path: PathBuf,
    file: Option<WholeFile>,
}

impl Read for Later {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        if self.file.is_none() {
            if self.path.as_os_str().is_empty() {
                return Ok(0);
            }
            self.file = Some(WholeFile::new(File::open(&self.path)?)?);
        }
        let read = self.file.as_mut().map_or(Ok(0), |file| file.read(to))?;
        if read == 0 && !to.is_empty() {
            *self = Later { path: PathBuf::new(), file: None };
        }
        Ok(read)
    }
}

/// stdout. On a terminal the first row takes the bar away, as both would be in each other's way.
pub struct Answer {
    out: StdoutLock<'static>,
    bar: Option<Late>,
    interrupt: Option<Arc<Interrupt>>,
}

impl Answer {
    /// With a bar.
    pub fn new(bar: &Late, interrupt: Option<&Arc<Interrupt>>) -> Answer {
        let bar = stdout().is_terminal().then(|| bar.clone());
        Answer { out: stdout().lock(), bar, interrupt: interrupt.cloned() }
    }
}

impl Write for Answer {
    fn write(&mut self, rows: &[u8]) -> Result<usize> {
        if let Some(bar) = self.bar.take() {
            bar.clear();
        }
        let Some(interrupt) = &self.interrupt else { return self.out.write(rows) };
        if interrupt.came(None).unwrap_or(false) {
            interrupt.taken();
        }
        // A reader that does not read holds it up: Ctrl-C, or another one, ends that.
        interrupt.unless(|| self.out.write(rows))
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}
