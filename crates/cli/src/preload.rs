//! `chappe run`: a program with its POSIX semaphores on chappe's.
//!
//! By LD_PRELOAD, and then exec: there is no process of chappe's beside the program. What would ignore LD_PRELOAD is refused
//! beforehand ([`program`](crate::program)): a program that runs, and not on chappe's semaphores, would be a wrong answer.

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

/// Becomes the program. `file_size`: SIGXFSZ had its default action when chappe started. Answers only what went wrong.
pub fn run(a: &Run, file_size: bool) -> Failure {
    let name = &a.program[0];
    let failed = |why| Failure { status: FAILED, why };
    if cfg!(target_feature = "crt-static") {
        return failed(anyhow!(
            "this chappe is the static one, for any system, and has no `chappe run`: what it preloads is made for the GNU C library, and comes with the package for a system that has it"
        ));
    }
    let library = match library() {
        Ok(library) => library,
        Err(why) => return failed(why),
    };
    let path = match program::find(name) {
        Ok(path) => path,
        Err(e) => return not_started(name, &e),
    };
    match program::check(&path) {
        Ok(()) => {}
        Err(Refusal::Cannot(e)) => return not_started(name, &e),
        Err(Refusal::Deaf(why)) => {
            return failed(anyhow!("cannot put chappe's semaphores under `{}`: {why}", shown(name)));
        }
    }
    // No other code does it before the next such arena is made.
    Arena::sweep_families();
    if let Err(e) = usable() {
        return failed(anyhow!("cannot put chappe's semaphores under `{}`: {e}", shown(name)));
    }
    let mut command = Command::new(&path);
    command
        .arg0(name)
        .args(&a.program[1..])
        .env("LD_PRELOAD", in_front(&library, env::var_os("LD_PRELOAD").as_deref()));
    for (variable, is_on) in [(OWNED, a.owned), (BARGING, a.barging)] {
        if is_on {
            command.env(variable, "1")
        } else {
            command.env_remove(variable)
        };
    }
    // The program may change its working directory.
    if env::var_os("CHAPPE_DIR").is_some_and(|d| !d.is_empty()) {
        match chappe::directory() {
            Ok(directory) => command.env("CHAPPE_DIR", directory),
            Err(e) => return failed(e.into()),
        };
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
