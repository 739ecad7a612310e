//! Files on their way into a package: where they lie, what rights they have, and the programs that are called for them.

use crate::install;
use crate::run::{root, target};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program; what it wrote to stdout, without the line's end.
pub fn tool(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {command:?}: is it installed?"))?;
    let [said, why] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text).trim_end().to_owned());
    ensure!(out.status.success(), "{command:?} ended with {}: {why}\n{said}", out.status);
    Ok(said)
}

/// Installs what was built as it is to lie below `prefix`, into an empty directory.
pub fn stage(built: &Path, to: &Path, prefix: &str, libdir: &str) -> Result<PathBuf> {
    fresh(to)?;
    let (built, destdir) = (built.display().to_string(), to.display().to_string());
    let places = ["--built", &built, "--destdir", &destdir, "--prefix", prefix, "--libdir", libdir];
    install::command(&[&places[..], &["--debug"]].concat())?;
    let base = to.join(prefix.trim_start_matches('/'));
    tool(
        Command::new("strip")
            .args(["--strip-debug", "--enable-deterministic-archives"])
            .arg(base.join(libdir).join("libchappe.a")),
    )?;
    Ok(base)
}

/// The target directory of what is packaged.
pub fn own() -> PathBuf {
    target().join("dist-build")
}

/// The flags of rustc that take this machine's places out of what it builds.
pub fn flags() -> Result<String> {
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    // A later one wins where several fit: the target directory may lie in the source's.
    let places =
        [(root(), "/chappe"), (target().join("dist-source"), "/chappe"), (home.into(), "/cargo"), (own(), "/target")];
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    for (from, to) in places {
        flags += &format!(" --remap-path-prefix={}={to}", from.display());
    }
    Ok(flags.trim().to_owned())
}

/// Makes an empty directory.
pub fn fresh(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

/// Removes the files of a directory with such a name.
pub fn remove(directory: &Path, is_old: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| is_old(&name.to_string_lossy())) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Packs a directory, whose name begins each path, as a tar.
pub fn pack(directory: &Path, to: &Path, epoch: &str) -> Result<()> {
    let (parent, name) = directory.parent().zip(directory.file_name()).context("a directory has a name")?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("--use-compress-program=gzip -9n").arg("--file").arg(to);
    tool(tar.arg("--directory").arg(parent).arg(name)).map(drop)
}

/// All files and links below a directory, and the directories; in order.
pub fn all(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(all(&path)?);
        }
        found.push(path);
    }
    found.sort();
    Ok(found)
}

/// Gives each file the rights that it is to have, whatever this process's umask is: programs may be run, all may be read.
pub fn set_rights(base: &Path) -> Result<()> {
    for path in all(base)?.into_iter().chain([base.to_owned()]) {
        if path.is_symlink() {
            continue;
        }
        let program = path.is_dir() || path.parent().is_some_and(|p| p.ends_with("bin")) && !is_debug(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(if program { 0o755 } else { 0o644 }))?;
    }
    Ok(())
}

pub fn is_debug(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "debug")
}

/// Puts a compressed file in the place of one.
pub fn compress(file: &Path) -> Result<()> {
    tool(Command::new("gzip").args(["-9", "-n", "-f"]).arg(file)).map(drop)
}
