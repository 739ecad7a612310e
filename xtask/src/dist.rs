//! `cargo xtask dist`: what people install without a compiler, the same to the byte wherever a commit is built.
//!
//! Into target/packages, with V the version and A the processor:
//!
//! ```text
//! chappe-V-A-linux-gnu.tar.gz        what `cargo xtask install` installs, with licences: tar -C /usr/local --strip-components=1 -xzf
//! chappe-V-A-linux-gnu-debug.tar.gz  the debugging information of its programs and libraries, unpacked over it
//! chappe_V-1_A.deb, libchappe0_V-1_A.deb, libchappe-dev_V-1_A.deb
//! chappe-V-1.A.rpm, libchappe0-V-1.A.rpm, libchappe-devel-V-1.A.rpm
//! chappe-V-A.cdx.json                the crates that are linked in: a bill of materials (CycloneDX)
//! SHA256SUMS
//! ```
//!
//! All is built by the profile `dist` with all features, in a target directory of its own, with the places of the source, of cargo's
//! and of the target taken out of what is built. Files have the time of the commit, or of `SOURCE_DATE_EPOCH`. What also matters is
//! the system: the C library and the linker, and for the packages dpkg's tools and rpmbuild.
//!
//! [`check`] installs what was made.
//!
//! `--built DIR` packs what was built before, as `cargo xtask install --built` does.

mod check;
mod contents;
mod crates;
mod deb;
mod files;
mod rpm;

use self::files::{all, fresh, is_debug, set_rights, stage, tool};
use crate::install;
use crate::run::{Cargo, DIST, root, target};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The stripped command has at most so many bytes.
const BUDGET: u64 = 18_500_000;

/// How the packaged command is linked: addresses to be moved as bits (glibc reads them from 2.36 on), and functions of equal code once. No
/// code here compares the addresses of functions.
const LINKED: [&str; 2] = ["-Clink-arg=-Wl,-z,pack-relative-relocs", "-Clink-arg=-Wl,--icf=all"];

/// The time that everything has: seconds since 1970.
fn epoch() -> Result<String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => Ok(epoch),
        Err(_) => tool(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))
            .context("this is no git repository: SOURCE_DATE_EPOCH says what time the files are to have"),
    }
}

/// Builds everything; where it lies.
fn build(epoch: &str) -> Result<PathBuf> {
    let own = target().join("dist-build");
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    // A later one wins where several fit: the target directory may lie in the source's.
    let places = [(root(), "/chappe"), (home.into(), "/cargo"), (own.clone(), "/target")];
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    for (from, to) in places {
        flags += &format!(" --remap-path-prefix={}={to}", from.display());
    }
    let libraries = Cargo::new("build").args(DIST).args(install::LIBRARIES).args(["--locked"]);
    for call in [libraries, install::building("dist").args(LINKED)] {
        let call = call.env("CARGO_TARGET_DIR", &own.display().to_string()).env("SOURCE_DATE_EPOCH", epoch);
        call.env("RUSTFLAGS", flags.trim()).env("CARGO_INCREMENTAL", "0").run()?;
    }
    Ok(own.join("dist"))
}

/// Packs a directory, whose name begins each path, as a tar.
fn pack(directory: &Path, to: &Path, epoch: &str) -> Result<()> {
    let (parent, name) = directory.parent().zip(directory.file_name()).context("a directory has a name")?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("--use-compress-program=gzip -9n").arg("--file").arg(to);
    tool(tar.arg("--directory").arg(parent).arg(name)).map(drop)
}

/// Moves the debugging information out of one tree into another.
fn part(base: &Path, debug: &Path) -> Result<()> {
    for path in all(base)?.iter().filter(|path| is_debug(path)) {
        let to = debug.join(path.strip_prefix(base)?);
        fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
        fs::rename(path, to)?;
    }
    Ok(())
}

/// The archives, for every system with this C library or a later one.
fn archives(built: &Path, work: &Path, packages: &Path, version: &str, epoch: &str) -> Result<()> {
    let name = format!("chappe-{version}-{}-linux-gnu", std::env::consts::ARCH);
    let base = stage(built, &work.join("archive"), "/usr/local", "lib")?;
    let licences = base.join("share/doc/chappe");
    fs::create_dir_all(&licences)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        fs::copy(root().join(file), licences.join(file))?;
    }
    let graph = crates::graph(&[crates::COMMAND, crates::LIBRARY])?;
    crates::notices(&graph.keys().flatten().cloned().collect(), &licences)?;
    let bill = crates::bill(&graph, version, epoch)?;
    fs::write(packages.join(format!("chappe-{version}-{}.cdx.json", std::env::consts::ARCH)), bill)?;
    let (tree, debug) = (work.join(&name), work.join("debug").join(&name));
    for old in [&tree, &debug] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    fs::rename(base, &tree)?;
    part(&tree, &debug)?;
    set_rights(&tree)?;
    set_rights(&debug)?;
    let size = fs::metadata(tree.join("bin/chappe"))?.len();
    println!("the command, stripped: {size} bytes of at most {BUDGET}");
    ensure!(size <= BUDGET, "the command is larger than it may be: what came in with the last change?");
    pack(&tree, &packages.join(format!("{name}.tar.gz")), epoch)?;
    pack(&debug, &packages.join(format!("{name}-debug.tar.gz")), epoch)
}

/// Makes everything.
///
/// # Errors
/// What does not build, a tool that is not there, a command that is too large.
pub fn command(args: &[&str]) -> Result<()> {
    let built = match args {
        ["--check"] => return check::command(),
        [] => None,
        ["--built", built] => Some(PathBuf::from(built)),
        other => bail!("`{}` is not known here\nusage: cargo xtask dist [--built DIR | --check]", other.join(" ")),
    };
    let (epoch, version) = (epoch()?, install::version()?);
    let built = match built {
        Some(built) => built,
        None => build(&epoch)?,
    };
    let (work, packages) = (target().join("dist-work"), target().join("packages"));
    fresh(&work)?;
    fresh(&packages)?;
    archives(&built, &work, &packages, &version, &epoch)?;
    deb::packages(&built, &work, &packages, &version, &epoch)?;
    rpm::packages(&built, &work, &packages, &version, &epoch)?;
    fs::remove_dir_all(&work)?;
    let files = all(&packages)?;
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = tool(Command::new("sha256sum").args(names).current_dir(&packages))?;
    fs::write(packages.join("SHA256SUMS"), format!("{sums}\n"))?;
    for file in files {
        println!("{:>12} bytes  {}", fs::metadata(&file)?.len(), file.display());
    }
    println!("{sums}");
    Ok(())
}
