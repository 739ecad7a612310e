//! What can go wrong with an arena, in words that say what to do.

use crate::layout::{BLOCK, MAX_MEMBERS};
use chappe_plat::{dir, process, room};
use std::io;
use std::path::Path;

/// What an arena's file says of its name.
fn named(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Why an arena could not be made, attached, joined or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// There is no arena of this name.
    #[error(
        "there is no arena `{name}` in {dir}; `chappe arena create {name}` makes one, and so does creating an object in it"
    )]
    NotFound {
        /// The arena.
        name: String,
        /// Where it was looked for.
        dir: String,
    },
    /// There is one already.
    #[error("arena `{name}` is already there; open it, or remove it first with `chappe arena rm {name}`")]
    Exists {
        /// The arena.
        name: String,
    },
    /// It cannot be kept in memory.
    #[error(
        "cannot keep {bytes} bytes of arena `{name}` in memory: {source}; this process may lock {limit} bytes: raise that (`ulimit -l`, LimitMEMLOCK= of a systemd unit, CAP_IPC_LOCK), or make a smaller arena"
    )]
    Unpinned {
        /// The arena.
        name: String,
        /// How many bytes were to be kept.
        bytes: u64,
        /// How many this process may.
        limit: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not an arena.
    #[error(
        "{path} is not an arena (its first bytes are not chappe's), and chappe leaves it as it is: move it away, or set CHAPPE_DIR to a directory for arenas"
    )]
    Garbage {
        /// The file.
        path: String,
    },
    /// The file is shorter than its header says.
    #[error(
        "arena {path} is truncated: {has} bytes where {wants} are needed; remove it with `chappe arena rm --force {}`", named(.path)
    )]
    Truncated {
        /// The file.
        path: String,
        /// Its length.
        has: u64,
        /// The length it should have.
        wants: u64,
    },
    /// Another layout version wrote it.
    #[error(
        "arena {path} has layout version {found}, this chappe speaks version {wanted}; use the chappe that made it, or remove it once nobody uses it: `chappe arena rm --force {}`", .path.rsplit('/').next().unwrap_or_default()
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
        /// Ours.
        wanted: u32,
    },
    /// A program with another C library or byte order made it.
    #[error(
        "arena {path} was made by a program with another C library or processor (ABI {found:#x}, this one is {wanted:#x}); they cannot share it"
    )]
    Abi {
        /// The file.
        path: String,
        /// Its ABI number.
        found: u32,
        /// Ours.
        wanted: u32,
    },
    /// The header contradicts itself.
    #[error("arena {path} is damaged: {what}; remove it with `chappe arena rm --force {}`", named(.path))]
    Damaged {
        /// The file.
        path: String,
        /// What does not fit.
        what: String,
    },
    /// Another user owns the file or directory.
    #[error(
        "{path} belongs to user {uid}, not to {me}; set CHAPPE_DIR to a directory prepared for sharing, or to one of your own"
    )]
    Owner {
        /// The file or directory.
        path: String,
        /// Its owner.
        uid: u32,
        /// The user that asks.
        me: u32,
    },
    /// Another user has made this user's own directory.
    #[error(
        "{path} was made by user {uid}, and is to be user {me}'s: have user {uid} or root remove it, or set CHAPPE_DIR to a directory of your own \
         (XDG_RUNTIME_DIR, which chappe would use instead, is not set, or is no tmpfs of yours)"
    )]
    Taken {
        /// The directory.
        path: String,
        /// Its owner.
        uid: u32,
        /// The user that asks.
        me: u32,
    },
    /// The arena is another user's, and this is for its owner.
    #[error(
        "arena `{arena}` belongs to user {uid}: only that user and root may {act} what is in it; ask them, or use an arena of your own \
         (`chappe arena create`)"
    )]
    NotOwner {
        /// The arena.
        arena: String,
        /// Its owner.
        uid: u32,
        /// What was to be done.
        act: &'static str,
    },
    /// A file of another user does not admit this one.
    #[error(
        "{path} belongs to user {uid}, and its mode {mode:03o} keeps you out; that user shares its directory with \
         `chappe arena create --share group` (or `all`), or opens this file with `chmod`"
    )]
    Denied {
        /// The file.
        path: String,
        /// Its owner.
        uid: u32,
        /// Its mode.
        mode: u32,
    },
    /// Others may write to the directory or file.
    #[error(
        "{path} has mode {mode:03o}, which lets others in; `chmod {wanted:03o} {path}`, or set CHAPPE_DIR to a directory prepared for sharing"
    )]
    Mode {
        /// The file or directory.
        path: String,
        /// Its mode.
        mode: u32,
        /// The mode it should have.
        wanted: u32,
    },
    /// A symbolic link stands where a directory or file should.
    #[error(
        "{path} is a symbolic link (or no directory), and chappe does not follow it; remove the link, or set CHAPPE_DIR to where it points"
    )]
    Symlink {
        /// The path.
        path: String,
    },
    /// Somebody is attached.
    #[error(
        "arena `{name}` is in use by {members} member(s), first {first}; end them, or remove it all the same with --force, which makes everything in it dead"
    )]
    InUse {
        /// The arena.
        name: String,
        /// How many are attached.
        members: u32,
        /// One of them.
        first: String,
    },
    /// The file system of the directory has too little of something, or the process may not use so much.
    #[error("no room for arena `{name}`: {bytes} bytes needed in {dir}; {missing}")]
    NoSpace {
        /// The arena.
        name: String,
        /// What it needs.
        bytes: u64,
        /// Where.
        dir: String,
        /// What there is too little of, and what to do.
        missing: String,
    },
    /// Every member slot is taken by somebody alive.
    #[error(
        "arena `{name}` has all its {capacity} member slots in use by living threads, each of which waits, holds something or watches: end some, or \
         use another arena (`chappe arena create --members N NAME`: {MAX_MEMBERS} are the most)"
    )]
    MembersFull {
        /// The arena.
        name: String,
        /// Its member slots.
        capacity: u32,
    },
    /// Threads of several PID namespaces use it, and its file cannot be opened.
    #[error(
        "cannot join: threads of several PID namespaces use the arena {path}, and its file cannot be opened ({source}); join before this process gives up its access to the file, or its descriptors"
    )]
    Unreachable {
        /// The file.
        path: String,
        /// Why it cannot be opened.
        source: io::Error,
    },
    /// The kernel would not tell anybody of the calling thread's death.
    #[error("cannot join arena `{name}`: {why}")]
    Unwatched {
        /// The arena.
        name: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// Every object slot is taken.
    #[error(
        "arena `{name}` is full: it has {capacity} objects; remove some, or make an arena with more (`chappe arena create --objects`)"
    )]
    ObjectsFull {
        /// The arena.
        name: String,
        /// Its object slots.
        capacity: u32,
    },
    /// Not enough cells in one piece.
    #[error(
        "arena `{name}` has no room for {wanted} more permits (it has {capacity} cells); remove pools, or make an arena with more (`chappe arena create --cells`)"
    )]
    CellsFull {
        /// The arena.
        name: String,
        /// How many were asked for.
        wanted: u32,
        /// How many there are in all.
        capacity: u32,
    },
    /// Not enough blocks in one piece.
    #[error(
        "arena `{name}` has no room for {} bytes of data in one piece (it has {} in all); remove some, or make an arena with more (`chappe arena create --data`)",
        u64::from(*wanted) * BLOCK as u64, u64::from(*capacity) * BLOCK as u64
    )]
    BlocksFull {
        /// The arena.
        name: String,
        /// How many blocks were asked for.
        wanted: u32,
        /// How many there are in all.
        capacity: u32,
    },
    /// Not a name.
    #[error(
        "`{name}` is not a valid {what} name: {why} (allowed: 1 to 47 of A-Z a-z 0-9 . _ @ : + -, not starting with . or -)"
    )]
    Name {
        /// What was given.
        name: String,
        /// Arena or object.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The capacities asked for cannot be had.
    #[error("an arena cannot have {count} {what}: between 1 and {most} are possible")]
    Capacity {
        /// Members, objects or cells.
        what: &'static str,
        /// What was asked for.
        count: u64,
        /// The limit.
        most: u64,
    },
    /// It was removed while we were attached.
    #[error(
        "arena `{name}` was removed while it was in use; open it again to get the one that has the name now, if any"
    )]
    Removed {
        /// The arena.
        name: String,
    },
    /// Somebody is just removing it, and does not get on.
    #[error(
        "arena `{name}` is just being removed by somebody who does not get on: a stopped process, which `chappe doctor` names; continue or end it"
    )]
    Undecided {
        /// The arena.
        name: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, to which file.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// Puts a path and what was tried in front of a system error.
pub fn io_at(what: &str, path: &Path, source: io::Error) -> ArenaError {
    let others = || dir::file_at(path).filter(|found| found.uid != process::uid());
    match source.raw_os_error() {
        // EACCES.
        Some(13) if let Some(found) = others() => {
            ArenaError::Denied { path: path.display().to_string(), uid: found.uid, mode: found.mode }
        }
        // ELOOP, ENOTDIR: what O_NOFOLLOW answers for a link.
        Some(40 | 20) => ArenaError::Symlink { path: path.display().to_string() },
        _ => {
            let why = room::missing(path, &source).map_or_else(String::new, |missing| format!("; {missing}"));
            ArenaError::Io { what: format!("cannot {what} {}{why}", path.display()), source }
        }
    }
}
