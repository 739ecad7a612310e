//! `chappe lab`: hands over to `chappe-lab`, which is a program of its own, since it brings the peers that it measures.

use crate::said::{Failure, failed};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "chappe-lab";

/// The one that was built or installed with this program, or else the one in PATH.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PROGRAM.into())
}

/// Becomes that program; comes back only if it cannot.
pub fn run(words: &[OsString]) -> Failure {
    let program = program();
    let e = Command::new(&program).args(words).exec();
    if e.kind() == ErrorKind::NotFound {
        failed(anyhow::anyhow!(
            "there is no {PROGRAM} beside this program nor in PATH: `cargo install --path crates/lab --profile dist` in chappe's source installs it"
        ))
    } else {
        failed(anyhow::anyhow!("cannot start {}: {e}", program.display()))
    }
}
