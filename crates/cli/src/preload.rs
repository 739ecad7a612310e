//! `chappe run`: a program with its POSIX semaphores on chappe's.
//!
//! By LD_PRELOAD, and then exec: there is no process of chappe's beside the program. With `--io` there is one, which removes the folder where the
//! lanes of its pipes begin ([`pipes`]); semaphores are the C library's then, unless an option asks for chappe's: each program that is started
//! would pay for their library. What would ignore LD_PRELOAD is refused
//! beforehand ([`program`](crate::program)): a program that runs, and not on chappe's semaphores, would be a wrong answer.

mod pipes;
mod report;

use crate::args::Run;
use crate::ended::{FAILED, not_started};
use crate::program::{self, Refusal};
use crate::said::Failure;
use crate::signals;
use anyhow::{Result, anyhow, bail};
use chappe::{Arena, ArenaError};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's file.
const LIBRARY: &str = "libchappe_preload.so";
/// Where the library is, if it is elsewhere.
const PLACE: &str = "CHAPPE_PRELOAD";
/// The arena of the semaphores that have names.
const ARENA: &str = "posix";
/// What tells the library of `--owned`.
const OWNED: &str = "CHAPPE_RUN_OWNED";
/// What tells it of `--barging`.
const BARGING: &str = "CHAPPE_RUN_BARGING";

/// Becomes the program, or with `--io` stays beside it and answers its status. `file_size`: SIGXFSZ had its default action when chappe started.
///
/// # Errors
/// What went wrong before.
pub fn run(a: &Run, json: bool, file_size: bool) -> Result<u8, Failure> {
    let (library, path) = prepared(a)?;
    if !a.io {
        return Err(become_it(a, &library, &path, file_size));
    }
    let second = pipes::library(&library).map_err(|why| Failure { status: FAILED, why })?;
    let libraries = [second.as_path(), &library];
    let wanted = environment(a, if has_semaphores(a) { &libraries } else { &libraries[..1] })?;
    pipes::run(a, wanted, json, file_size)
}

/// What is chappe's.
fn what(a: &Run) -> &'static str {
    if has_semaphores(a) { "semaphores" } else { "pipes" }
}

/// Whether semaphores are chappe's.
fn has_semaphores(a: &Run) -> bool {
    !a.io || a.owned || a.barging
}

/// The library, and the program's file.
fn prepared(a: &Run) -> Result<(PathBuf, PathBuf), Failure> {
    let name = &a.program[0];
    let failed = |why| Failure { status: FAILED, why };
    if cfg!(target_feature = "crt-static") {
        return Err(failed(anyhow!(
            "this chappe is the static one, for any system, and has no `chappe run`: what it preloads is made for the GNU C library, and comes with the package for a system that has it"
        )));
    }
    let library = library().map_err(failed)?;
    let path = program::find(name).map_err(|e| not_started(name, &e))?;
    program::check(&path).map_err(|refusal| match refusal {
        Refusal::Cannot(e) => not_started(name, &e),
        Refusal::Deaf(why) => failed(anyhow!("cannot put chappe's {} under `{}`: {why}", what(a), shown(name))),
    })?;
    if !has_semaphores(a) {
        return Ok((library, path));
    }
    // No other code does it before the next such arena is made.
    Arena::sweep_families();
    usable().map_err(|e| failed(anyhow!("cannot put chappe's semaphores under `{}`: {e}", shown(name))))?;
    Ok((library, path))
}

/// What the program finds in its environment; None: what it does not.
fn environment(a: &Run, libraries: &[&Path]) -> Result<Vec<(&'static str, Option<OsString>)>, Failure> {
    let mut preloads = env::var_os("LD_PRELOAD");
    for library in libraries.iter().rev() {
        preloads = Some(in_front(library, preloads.as_deref()));
    }
    let mut all = vec![("LD_PRELOAD", preloads)];
    let on = |is_on: bool| is_on.then(|| "1".into());
    all.extend([(OWNED, on(a.owned)), (BARGING, on(a.barging))]);
    // The program may change its working directory.
    if env::var_os("CHAPPE_DIR").is_some_and(|d| !d.is_empty()) {
        let directory = chappe::directory().map_err(|e| Failure { status: FAILED, why: e.into() })?;
        all.push(("CHAPPE_DIR", Some(directory.into())));
    }
    Ok(all)
}

/// Answers only what went wrong.
fn become_it(a: &Run, library: &Path, path: &Path, file_size: bool) -> Failure {
    let name = &a.program[0];
    let mut command = Command::new(path);
    command.arg0(name).args(&a.program[1..]);
    match environment(a, &[library]) {
        Ok(all) => all.into_iter().for_each(|(variable, value)| {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }),
        Err(failure) => return failure,
    }
    if file_size {
        signals::default(libc::SIGXFSZ);
    }
    not_started(name, &command.exec())
}

/// Whether the program can have its semaphores: it would hear of what is wrong here by an errno of `sem_open`, and not why.
fn usable() -> Result<(), ArenaError> {
    Arena::may_be_made()?;
    match Arena::open(ARENA) {
        Ok(_) | Err(ArenaError::NotFound { .. }) => Ok(()),
        Err(e) => Err(e),
    }
}

fn shown(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

/// The library in front of what is to be loaded already; once.
fn in_front(library: &Path, there: Option<&OsStr>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    for other in there.unwrap_or_default().as_bytes().split(|b| b": ".contains(b)) {
        if !other.is_empty() && other != library.as_os_str().as_bytes() {
            all.push(":");
            all.push(OsStr::from_bytes(other));
        }
    }
    all
}

/// Where the library is.
fn library() -> Result<PathBuf> {
    let found = match env::var_os(PLACE).filter(|p| !p.is_empty()) {
        Some(there) => {
            let there = std::path::absolute(there)?;
            if !there.is_file() {
                bail!("there is no library {}, as {PLACE} says", there.display());
            }
            there
        }
        None => beside(&env::current_exe().map_err(|e| anyhow!("cannot tell where chappe itself is: {e}"))?)?,
    };
    if found.as_os_str().as_bytes().iter().any(|b| b": ".contains(b)) {
        bail!(
            "the library's path has a space or a colon, which LD_PRELOAD cannot have: {}; set {PLACE}",
            found.display()
        );
    }
    Ok(found)
}

fn beside(exe: &Path) -> Result<PathBuf> {
    let directory = exe.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(LIBRARY), directory.join("../lib/chappe").join(LIBRARY)];
    match places.iter().find(|p| p.is_file()) {
        Some(found) => Ok(found.canonicalize()?),
        None => bail!(
            "the library {LIBRARY} is neither beside {} nor in ../lib/chappe; `cargo build --release -p chappe-preload` makes it, and {PLACE} says where it is",
            exe.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preloads_that_were_set_stay_behind_the_library() {
        let ours = Path::new("/x/ours.so");
        let all = |there: Option<&str>| in_front(ours, there.map(OsStr::new)).into_string().expect("text");
        assert_eq!(all(None), "/x/ours.so");
        assert_eq!(all(Some("")), "/x/ours.so");
        assert_eq!(all(Some("/x/a.so b.so::/x/c.so")), "/x/ours.so:/x/a.so:b.so:/x/c.so");
        assert_eq!(all(Some("/x/a.so:/x/ours.so")), "/x/ours.so:/x/a.so");
    }
}
