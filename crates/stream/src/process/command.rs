//! How a part is begun.

use std::ffi::OsString;
use std::path::PathBuf;

/// How a part is begun: a program that calls [`serve`](super::serve), and what it is told.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The program; nothing for the one that runs the graph.
    pub program: Option<PathBuf>,
    /// Its arguments.
    pub args: Vec<OsString>,
}
