//! `chappe run --io`: the folder in which the programs' pipes find their lanes, for as long as the first program runs.
//!
//! A run whose chappe was killed goes on, and leaves its folder to the next such run: a pipe that finds none stays the kernel's.

use crate::args::Job;
use crate::ended::{FAILED, as_it_did};
use crate::said::Failure;
use crate::time::Grace;
use crate::under::Under;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The library's file, beside the one for semaphores.
const LIBRARY: &str = "libchappe_io.so";
/// What tells the library of the run.
const VARIABLE: &str = "CHAPPE_RUN_IO";
/// What a folder's name begins with, before the process, when it began, and the namespace of processes that both are told in.
const BEGINS: &str = ".io-";

/// The library, which is where that for semaphores is.
///
/// # Errors
/// It is not there.
pub fn library(semaphores: &Path) -> Result<PathBuf> {
    let library = semaphores.with_file_name(LIBRARY);
    ensure!(
        library.is_file(),
        "cannot put memory under pipes: there is no {}; `cargo build --release -p chappe-io` makes it",
        library.display()
    );
    Ok(library)
}

/// Runs the program with what is to be in its environment and not, and stays beside it.
///
/// # Errors
/// It was not started.
pub fn run(
    command: &[OsString],
    wanted: Vec<(&str, Option<OsString>)>,
    json: bool,
    file_size: bool,
) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let folder = Folder::new().map_err(failed)?;
    // What is not to be there is empty, which for these options is the same.
    let mut environment: Vec<(&str, OsString)> =
        wanted.into_iter().map(|(variable, value)| (variable, value.unwrap_or_default())).collect();
    environment.push((VARIABLE, folder.said().map_err(failed)?));
    let under = Under {
        command,
        environment,
        lease: None,
        object: "",
        line: None,
        beside: None,
        how: &Job { grace: Grace(None), foreground: false, close: true },
        json,
        file_size,
    };
    let ran = under.run()?;
    drop(folder);
    Ok(as_it_did(ran.ended, None))
}

/// A run's folder, removed behind it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let directory = chappe::directory()?;
        sweep(&directory);
        let path = directory.join(format!("{BEGINS}{}-{}-{}", std::process::id(), began("self")?, namespace("pid")));
        let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory);
        // New, and so this user's: the folder's owner has what the pipes bring.
        made.and_then(|()| fs::DirBuilder::new().mode(0o700).create(&path))
            .with_context(|| format!("cannot make the folder of this run's pipes, {}", path.display()))?;
        Ok(Folder(path))
    }

    /// For the library: when the run began, its namespaces, and the folder.
    fn said(&self) -> Result<OsString> {
        let mut said: OsString = format!("{}:{}:{}:", began("self")?, namespace("pid"), namespace("time")).into();
        said.push(&self.0);
        Ok(said)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is not removed now is by the next such run.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The number of one of this process' namespaces; 0 where the kernel has none of that kind.
fn namespace(kind: &str) -> String {
    let name = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
    let number: String = name.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if number.is_empty() { "0".to_owned() } else { number }
}

/// When a process began, in ticks since the machine did.
fn began(pid: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the command's name, which may have anything in it.
    let word = text.rsplit_once(')').and_then(|(_, behind)| behind.split_ascii_whitespace().nth(19));
    word.and_then(|word| word.parse().ok()).with_context(|| format!("cannot tell when process {pid} began"))
}

/// Removes the folders of runs whose chappe is there no more, as far as this namespace of processes can tell.
fn sweep(directory: &Path) {
    let here = namespace("pid");
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(BEGINS)?.rsplit_once('-'));
        if let Some((process, processes)) = of
            && processes == here
            && let Some((pid, since)) = process.split_once('-')
            && began(pid).map_or(true, |began| began.to_string() != since)
        {
            // Another run may remove it just now.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
