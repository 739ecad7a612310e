//! Where the files of named arenas lie.
//!
//! | CHAPPE_DIR | directory | admits |
//! |---|---|---|
//! | set | the directory that it names, which must exist | the users that its mode admits |
//! | not set | `/dev/shm/chappe-UID`, made if need be | this user |
//! | not set, and another user has made that | `chappe` in `$XDG_RUNTIME_DIR`, made if need be | this user |
//!
//! Every user may make names in `/dev/shm`, so another user can make this user's directory there first, and only that user or root can remove it.
//! `$XDG_RUNTIME_DIR` is used only if it is an absolute path to a directory on a tmpfs that is this user's and that no other user may enter.
//! Once `chappe` exists in it, it is used even if the other user has removed the first one since: else a new process would not find the arenas
//! of those that run. Where `$XDG_RUNTIME_DIR` is not fit, the other user's directory is refused, and the error says what to do.

use chappe_arena::{ArenaError, io_at};
use chappe_plat::dir::{self, Dir};
use chappe_plat::{Made, process};
use std::io;
use std::path::{Path, PathBuf};

/// Where named arenas lie: `$CHAPPE_DIR`, from the working directory if it is relative; or `/dev/shm/chappe-<uid>`; or, if
/// another user has made that, `$XDG_RUNTIME_DIR/chappe`.
///
/// # Errors
/// `Io` if it is relative, and the working directory does not exist any more.
pub fn directory() -> Result<PathBuf, ArenaError> {
    match said().directory {
        // Absolute: the working directory may change.
        Some(d) => std::path::absolute(d).map_err(|e| io_at("find", Path::new("CHAPPE_DIR"), e)),
        None => Ok(own_place()),
    }
}

/// What the environment says about the directory.
#[derive(Clone)]
struct Said {
    directory: Option<PathBuf>,
    runtime: Option<PathBuf>,
}

/// What the environment said when it was to be kept.
static KEPT: Made<Said> = Made::new();

fn said() -> Said {
    let path = |name| std::env::var_os(name).filter(|d| !d.is_empty()).map(PathBuf::from);
    let now = || Said { directory: path("CHAPPE_DIR"), runtime: path("XDG_RUNTIME_DIR") };
    KEPT.get().cloned().unwrap_or_else(now)
}

/// Reads CHAPPE_DIR, XDG_RUNTIME_DIR and CHAPPE_NO_WAITV for good: for a library in a program that knows nothing of them, and changes its
/// environment and its working directory in any thread.
#[doc(hidden)]
pub fn keep_environment() {
    chappe_plat::futex::wait_any_supported();
    // Without a working directory a relative path is an error each time. Another thread that was first has read the same.
    KEPT.get_or(|| {
        let now = said();
        let directory = now.directory.map(|said| std::path::absolute(&said).unwrap_or(said));
        Said { directory, ..now }
    });
}

pub(crate) fn shared_by_choice() -> bool {
    said().directory.is_some()
}

/// This user's own directory, whether it exists or not.
fn own_place() -> PathBuf {
    let me = process::uid();
    let usual = PathBuf::from(format!("/dev/shm/chappe-{me}"));
    let Some(runtime) = said().runtime.filter(|r| r.is_absolute()) else { return usual };
    let other = runtime.join("chappe");
    let private = |d: Dir| d.facts().is_ok_and(|is| is.uid == me && is.mode & 0o077 == 0);
    let is_fit = || Dir::open(&runtime).is_ok_and(private) && dir::is_tmpfs(&runtime);
    let is_wanted = dir::owner_of(&other) == Some(me) || is_taken(&usual);
    if is_wanted && is_fit() { other } else { usual }
}

/// Whether another user has something at a path.
fn is_taken(path: &Path) -> bool {
    dir::owner_of(path).is_some_and(|uid| uid != process::uid())
}

/// Opens the directory, made if need be where that is wanted. Refuses a directory that others could have prepared.
///
/// # Errors
/// `Io`, `Owner`, `Mode`, `Taken` and others, with what to do.
#[doc(hidden)]
pub fn open_directory(make: bool) -> Result<Dir, ArenaError> {
    let path = directory()?;
    if !shared_by_choice() {
        if is_taken(&path) {
            let uid = dir::owner_of(&path).unwrap_or(0);
            return Err(ArenaError::Taken { path: path.display().to_string(), uid, me: process::uid() });
        }
        return if make { own_directory(&path) } else { open_own(&path) };
    }
    let dir = Dir::open(&path).map_err(|e| no_directory(&path, e))?;
    let facts = dir.facts().map_err(|e| io_at("look at", &path, e))?;
    let (shown, me) = (path.display().to_string(), process::uid());
    if facts.uid != me && facts.uid != 0 && facts.mode & 0o022 == 0 {
        return Err(ArenaError::Owner { path: shown, uid: facts.uid, me });
    }
    // All users may write, and any of them may rename what others wrote.
    if facts.mode & 0o002 != 0 && facts.mode & 0o1000 == 0 {
        return Err(ArenaError::Mode { path: shown, mode: facts.mode, wanted: 0o1777 });
    }
    Ok(dir)
}

/// Why the directory that CHAPPE_DIR names cannot be used. A missing directory is not made: several users may be meant to share it.
fn no_directory(path: &Path, why: io::Error) -> ArenaError {
    if why.kind() != io::ErrorKind::NotFound {
        return io_at("open directory", path, why);
    }
    let shown = path.display();
    let what = format!(
        "cannot open directory {shown}, which CHAPPE_DIR names: make it (`mkdir -m 700 {shown}`; for several users \
         `chappe arena create default --share group`), or unset CHAPPE_DIR"
    );
    ArenaError::Io { what, source: why }
}

/// Opens a directory of this user's own, making it if need be.
///
/// # Errors
/// What is wrong with it.
pub fn own_directory(path: &Path) -> Result<Dir, ArenaError> {
    Dir::make(path, 0o700).map_err(|e| io_at("create", path, e))?;
    open_own(path)
}

fn open_own(path: &Path) -> Result<Dir, ArenaError> {
    let dir = Dir::open(path).map_err(|e| io_at("open directory", path, e))?;
    let facts = dir.facts().map_err(|e| io_at("look at", path, e))?;
    let (shown, me) = (path.display().to_string(), process::uid());
    if facts.uid != me {
        return Err(ArenaError::Owner { path: shown, uid: facts.uid, me });
    }
    if facts.mode & 0o077 != 0 {
        return Err(ArenaError::Mode { path: shown, mode: facts.mode, wanted: 0o700 });
    }
    Ok(dir)
}
