//! The files that stages name: opened, and found to end too early.

use crate::kind::Wrong;
use crate::stage::Fault;
use chappe_rows::WholeFile;
use chappe_synth::Span;
use std::fs::File;
use std::io::BufWriter;

/// A file to be read. That it becomes shorter meanwhile is an error of the read.
pub(super) fn opened(path: &str, span: Span) -> Result<WholeFile, Wrong> {
    File::open(path).and_then(WholeFile::new).map_err(|e| Wrong::at(span, format!("cannot read {path}: {e}")))
}

pub(super) fn created(path: &str) -> Result<BufWriter<File>, Fault> {
    let file = File::create(path).map_err(|e| Fault::new(format!("cannot write {path}: {e}")))?;
    Ok(BufWriter::with_capacity(65_536, file))
}

/// What came ends in the middle of something.
pub(super) fn no_whole(rest: usize, what: &str, bytes: usize) -> Fault {
    Fault(format!("the last {rest} bytes are no whole {what} of {bytes} bytes"))
}
