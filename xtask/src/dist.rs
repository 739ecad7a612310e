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
//! chappe-V.tar.gz, chappe-V-cp39-abi3-*.whl   by `cargo xtask dist wheels`: for pip, see [`wheels`]
//! chappe-V-A-linux-musl.tar.gz       so too: the command alone, static, for systems with another C library or none
//! SHA256SUMS
//! ```
//!
//! All is built by the profile `dist` with all features, in a target directory of its own, with the places of the source, of cargo's
//! and of the target taken out of what is built. Files have the time of the commit, or of `SOURCE_DATE_EPOCH`. What also matters is
//! the system: the C library and the linker, and for the packages dpkg's tools and rpmbuild.
//!
//! Each of the two calls puts its files in the place of its own earlier ones, once it has built all of them; the other's stay.
//!
//! [`check`] installs what was made. `--again` makes it once more, elsewhere: each file must come out the same to the byte.
//!
//! `--built DIR` packs what was built before, as `cargo xtask install --built` does.

mod check;
mod contents;
mod crates;
mod deb;
mod files;
mod rpm;
mod wheels;

use self::files::{all, flags, fresh, is_debug, own, pack, remove, set_rights, stage, tool};
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
    let (own, flags) = (own(), flags()?);
    let libraries = Cargo::new("build").args(DIST).args(install::LIBRARIES).args(["--locked"]);
    for call in [libraries, install::building("dist").args(LINKED)] {
        let call = call.env("CARGO_TARGET_DIR", &own.display().to_string()).env("SOURCE_DATE_EPOCH", epoch);
        call.env("RUSTFLAGS", &flags).env("CARGO_INCREMENTAL", "0").run()?;
    }
    Ok(own.join("dist"))
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
    let graph = crates::graph(&[crates::COMMAND, crates::LIBRARY])?;
    crates::documents(&base, &graph.keys().flatten().cloned().collect())?;
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

/// How the names of the files end that [`native`] makes.
const NATIVE: [&str; 5] = [".deb", ".rpm", ".cdx.json", "-linux-gnu.tar.gz", "-linux-gnu-debug.tar.gz"];

fn clear(packages: &Path) -> Result<()> {
    remove(packages, |name| NATIVE.iter().any(|end| name.ends_with(end)))
}

/// Makes what a system's own packages need, of what was built before or is built now.
fn native(built: Option<PathBuf>, packages: &Path, epoch: &str) -> Result<()> {
    let version = install::version()?;
    let built = match built {
        Some(built) => built,
        None => build(epoch)?,
    };
    install::is_built(&built)?;
    fs::create_dir_all(packages)?;
    clear(packages)?;
    let work = target().join("dist-work");
    fresh(&work)?;
    archives(&built, &work, packages, &version, epoch)?;
    deb::packages(&built, &work, packages, &version, epoch)?;
    rpm::packages(&built, &work, packages, &version, epoch)?;
    fs::remove_dir_all(&work).map_err(Into::into)
}

/// Makes all that was made once more, in another target directory.
///
/// # Errors
/// What does not build; what is not the same to the byte.
fn again(packages: &Path) -> Result<()> {
    let read = |directory: &Path| {
        let sums = directory.join("SHA256SUMS");
        fs::read_to_string(&sums).with_context(|| format!("{} is not there: `cargo xtask dist` first", sums.display()))
    };
    let (before, other) = (read(packages)?, target().join("dist-again"));
    let parts: [(&str, &[&str]); 2] = [(".deb\n", &["dist"]), (".whl\n", &["dist", "wheels"])];
    for (_, args) in parts.iter().filter(|(made, _)| before.contains(made)) {
        let status = Command::new(std::env::current_exe()?).args(*args).env("CARGO_TARGET_DIR", &other).status()?;
        ensure!(status.success(), "{args:?} ended with {status}");
    }
    let after = read(&other.join("packages"))?;
    let differ: Vec<&str> = before.lines().filter(|line| !after.lines().any(|other| other == *line)).collect();
    ensure!(differ.is_empty(), "these came out differently from those in {}:\n{}", other.display(), differ.join("\n"));
    println!("{} files came out the same to the byte", before.lines().count());
    Ok(())
}

/// Makes everything.
///
/// # Errors
/// What does not build, a tool that is not there, a command that is too large.
pub fn command(args: &[&str]) -> Result<()> {
    let (epoch, packages) = (epoch()?, target().join("packages"));
    match args {
        ["--check"] => return check::command(),
        ["--again"] => return again(&packages),
        [] | ["--built", _] => native(args.get(1).map(PathBuf::from), &packages, &epoch)?,
        ["wheels", only @ ..] => {
            fs::create_dir_all(&packages)?;
            wheels::packages(only, &packages, &epoch)?;
        }
        other => {
            bail!(
                "`{}` is not known here\nusage: cargo xtask dist [wheels [TARGET...] | --built DIR | --check | --again]",
                other.join(" ")
            )
        }
    }
    let files: Vec<PathBuf> = all(&packages)?.into_iter().filter(|file| !file.ends_with("SHA256SUMS")).collect();
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = tool(Command::new("sha256sum").args(names).current_dir(&packages))?;
    fs::write(packages.join("SHA256SUMS"), format!("{sums}\n"))?;
    for file in files {
        println!("{:>12} bytes  {}", fs::metadata(&file)?.len(), file.display());
    }
    println!("{sums}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_takes_the_place_of_its_own_packages_alone_and_of_a_whole_build() {
        let base = std::env::temp_dir().join(format!("chappe-dist-{}", std::process::id()));
        let (packages, built) = (base.join("packages"), base.join("built"));
        fresh(&packages).unwrap();
        fresh(&built).unwrap();
        let own =
            ["chappe_0.1.0-1_amd64.deb", "chappe-0.1.0-x86_64-linux-gnu-debug.tar.gz", "chappe-0.1.0-x86_64.cdx.json"];
        let others = [
            "chappe-0.1.0-cp39-abi3-musllinux_1_2_x86_64.whl",
            "chappe-0.1.0-x86_64-linux-musl.tar.gz",
            "chappe-0.1.0.tar.gz",
        ];
        for name in own.iter().chain(&others) {
            fs::write(packages.join(name), "").unwrap();
        }
        let there = || all(&packages).unwrap().len();
        fs::write(built.join("chappe"), "").unwrap();
        let refused = native(Some(built.clone()), &packages, "0").unwrap_err().to_string();
        assert!(refused.contains("libchappe_ffi.a") && there() == own.len() + others.len(), "{refused}");
        clear(&packages).unwrap();
        assert!(others.iter().all(|name| packages.join(name).exists()) && there() == others.len());
        fs::remove_dir_all(&base).unwrap();
    }
}
