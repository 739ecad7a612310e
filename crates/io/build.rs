//! How the library is linked.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CC");
    unwinder();
}

/// The unwinder, which Rust's panics have, from its archive: as a library of its own it costs each program that is started a tenth of a millisecond
/// more. Where the archive is not to be had, it is linked as always.
fn unwinder() -> Option<()> {
    let told = |name| env::var(name).ok();
    if told("CARGO_CFG_TARGET_ENV")? != "gnu" || told("HOST")? != told("TARGET")? {
        return None;
    }
    let compiler = told("CC").unwrap_or_else(|| "cc".to_owned());
    let said = Command::new(compiler).arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let archive = String::from_utf8(said.stdout).ok()?;
    // Only the name, if there is none.
    let archive = Path::new(archive.trim_end());
    let folder = told("OUT_DIR")?;
    if archive.is_absolute() && archive.is_file() {
        // Under the name of the library that Rust asks for, and found before it.
        std::fs::copy(archive, Path::new(&folder).join("libgcc_s.a")).ok()?;
        println!("cargo::rustc-link-search=native={folder}");
    }
    Some(())
}
