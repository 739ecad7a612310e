//! `chappe arena create --share`: a directory of arenas for several users.
//!
//! | with | mode | users of the arenas |
//! |---|---|---|
//! | `group`, `group:NAME` | 2770 | the group's members; files get the group by the setgid bit |
//! | `all` | 1777 | every user; the sticky bit keeps users from removing each other's files |
//!
//! The directory is made private and then opened, so a process that is killed in between leaves an empty directory that no other user can
//! use, and the next call finishes it. A directory with something in it is never opened to others.

use anyhow::{Context, Result, anyhow, bail};
use std::ffi::CString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::PathBuf;

/// The users to share with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// With a group: the process's own, or the one of this name.
    Group(Option<String>),
    /// With every user.
    All,
}

impl Share {
    fn mode(&self) -> u32 {
        match self {
            Share::Group(_) => 0o2770,
            Share::All => 0o1777,
        }
    }
}

/// What is written behind `--share`.
///
/// # Errors
/// What can be written there.
pub fn parse(text: &str) -> Result<Share, String> {
    match text.split_once(':') {
        None if text == "group" => Ok(Share::Group(None)),
        None if text == "all" => Ok(Share::All),
        Some(("group", name)) if !name.is_empty() => Ok(Share::Group(Some(name.into()))),
        _ => Err("it is `group` (your own group), `group:NAME`, or `all`".into()),
    }
}

/// The number of a group.
fn number_of(name: &str) -> Result<u32> {
    let asked = CString::new(name)?;
    // SAFETY: a C string; no other thread of this command asks for groups.
    let found = unsafe { libc::getgrnam(asked.as_ptr()) };
    // SAFETY: the call's answer, which is null or valid until the next call.
    match unsafe { found.as_ref() } {
        Some(group) => Ok(group.gr_gid),
        None => {
            name.parse().map_err(|_| anyhow!("there is no group `{name}`; `getent group` lists those that there are"))
        }
    }
}

/// Makes the directory that CHAPPE_DIR names and opens it to those that it is to be shared with. Answers where it is.
///
/// # Errors
/// What is in the way, with what to do.
pub fn prepare(with: &Share) -> Result<PathBuf> {
    let Some(said) = std::env::var_os("CHAPPE_DIR").filter(|d| !d.is_empty()) else {
        bail!(
            "--share makes a directory that its users have in common: set CHAPPE_DIR to it, here and for each of them, for instance \
             `export CHAPPE_DIR=/dev/shm/team`"
        );
    };
    let path = std::path::absolute(said)?;
    let shown = path.display();
    let group = match with {
        Share::Group(Some(name)) => Some(number_of(name)?),
        Share::Group(None) => None,
        Share::All => None,
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            return Err(e).with_context(|| format!("cannot make {shown}"));
        }
        _ => {}
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let dir = OpenOptions::new().read(true).custom_flags(flags).open(&path);
    let dir = dir.with_context(|| format!("cannot open {shown} as a directory"))?;
    let is = dir.metadata()?;
    let is_right = |is: &std::fs::Metadata| is.mode() & 0o7777 == with.mode() && group.is_none_or(|g| g == is.gid());
    if is_right(&is) {
        return Ok(path);
    }
    // SAFETY: takes nothing.
    let me = unsafe { libc::geteuid() };
    if is.uid() != me && me != 0 {
        bail!("{shown} belongs to user {}: only that user and root can share it", is.uid());
    }
    if std::fs::read_dir(&path)?.next().is_some() {
        bail!(
            "{shown} has mode {:03o} and is not empty: set CHAPPE_DIR to a directory that is empty or not there yet, so that nothing is shared by accident",
            is.mode() & 0o7777
        );
    }
    open_to(&dir, with, group).with_context(|| format!("cannot share {shown}"))?;
    if !is_right(&dir.metadata()?) {
        bail!("cannot share {shown} with that group: only root and the group's members can");
    }
    Ok(path)
}

fn open_to(dir: &File, with: &Share, group: Option<u32>) -> std::io::Result<()> {
    if let Share::Group(_) = with {
        // SAFETY: takes nothing.
        let group = group.unwrap_or_else(|| unsafe { libc::getegid() });
        fchown(dir, None, Some(group))?;
    }
    dir.set_permissions(Permissions::from_mode(with.mode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_share_is_parsed() {
        assert_eq!(parse("all"), Ok(Share::All));
        assert_eq!(parse("group"), Ok(Share::Group(None)));
        assert_eq!(parse("group:gpu"), Ok(Share::Group(Some("gpu".into()))));
        for wrong in ["", "group:", "everybody", "all:x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
