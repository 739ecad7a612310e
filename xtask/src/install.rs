//! `cargo xtask install`: the C library, the command and what `chappe run` preloads, as packagers want it.
//!
//! ```text
//! bin/chappe                    the command
//! lib/chappe/libchappe_preload.so, lib/chappe/libchappe_io.so   where it looks for them, whatever LIBDIR is
//! LIBDIR/libchappe.so.0.1.0     the library; libchappe.so.0 and libchappe.so are links to it
//! LIBDIR/libchappe.a            for static linking
//! LIBDIR/pkgconfig/chappe.pc    `pkg-config --cflags --libs chappe`
//! include/chappe.h, include/chappe/*.h
//! share/man/man1/*.1, share/man/man3/*.3
//! share/bash-completion/completions/chappe, share/zsh/site-functions/_chappe, share/fish/vendor_completions.d/chappe.fish
//! ```
//!
//! A file is put in the place of an older one whole, by its name: programs that use that one go on with it. (The pages of the manual
//! alone are written in place.)
//!
//! `--prefix` is where it will lie (/usr/local), `--libdir` below that (lib; or an absolute path that is below it), `--destdir` is put before
//! all of it and stands in no file, `--profile` is cargo's (dist). With `--built DIR` nothing is built: the library's archive, the command
//! and what it preloads (libchappe_ffi.a, chappe, libchappe_preload.so, libchappe_io.so) are taken from DIR, for packagers that build in a step of their own.
//!
//! What is installed has no debugging information. With `--debug` a file NAME.debug lies beside each program and shared library, where
//! debuggers find it, and libchappe.a keeps its own.

use crate::manual;
use crate::run::{Cargo, root, target};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const USAGE: &str =
    "usage: cargo xtask install [--prefix DIR] [--libdir DIR] [--destdir DIR] [--profile NAME | --built DIR] [--debug]";

/// The library, of which the shared one is made.
pub const ARCHIVE: &str = "libchappe_ffi.a";
/// What `chappe run` preloads, and what `chappe run --io` does beside it.
pub const PRELOAD: &str = "libchappe_preload.so";
const PIPES: &str = "libchappe_io.so";

struct Wanted {
    prefix: String,
    libdir: String,
    destdir: String,
    profile: String,
    built: Option<PathBuf>,
    debug: bool,
}

fn wanted(args: &[&str]) -> Result<Wanted> {
    let (prefix, libdir, profile) = ("/usr/local".into(), "lib".into(), "dist".into());
    let debug = args.contains(&"--debug");
    let mut wanted = Wanted { prefix, libdir, destdir: String::new(), profile, built: None, debug };
    let args: Vec<&str> = args.iter().copied().filter(|arg| *arg != "--debug").collect();
    for pair in args.chunks(2) {
        let [name, value] = pair else { bail!("`{}` wants a value\n{USAGE}", pair[0]) };
        if *name == "--built" {
            wanted.built = Some(value.into());
            continue;
        }
        *match *name {
            "--prefix" => &mut wanted.prefix,
            "--libdir" => &mut wanted.libdir,
            "--destdir" => &mut wanted.destdir,
            "--profile" => &mut wanted.profile,
            other => bail!("`{other}` is not known here\n{USAGE}"),
        } = (*value).into();
    }
    ensure!(wanted.prefix.starts_with('/'), "--prefix {}: an absolute path is wanted", wanted.prefix);
    wanted.libdir = below(&wanted.prefix, &wanted.libdir)?;
    Ok(wanted)
}

/// A directory as seen from the prefix. One that is not below it would be written past `--destdir`, and is refused.
fn below(prefix: &str, libdir: &str) -> Result<String> {
    let path = Path::new(libdir);
    let inside = if path.is_absolute() { path.strip_prefix(prefix).ok() } else { Some(path) };
    let plain = |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let inside = inside.filter(plain).and_then(Path::to_str);
    Ok(inside.with_context(|| format!("--libdir {libdir}: a path below --prefix ({prefix}) is wanted"))?.to_owned())
}

/// The version, as the manifest of the workspace has it.
pub fn version() -> Result<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    Ok(line.and_then(|rest| rest.strip_suffix('"')).context("Cargo.toml has no version")?.to_owned())
}

/// Makes something beside its place, and puts it there whole.
fn whole(to: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut beside = to.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // One that was interrupted may have left it.
    if beside.symlink_metadata().is_ok() {
        fs::remove_file(&beside)?;
    }
    make(&beside)?;
    fs::rename(&beside, to).with_context(|| format!("cannot put {} in its place", to.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = |at: &Path| fs::copy(from, at).map(drop).map_err(Into::into);
    whole(to, copied).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn tool(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}: are the binutils installed?"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Takes the debugging information out of a program or shared library, and puts it beside if `keeps`.
fn strip(at: &Path, keeps: bool) -> Result<()> {
    let mut beside = at.as_os_str().to_owned();
    beside.push(".debug");
    let beside = PathBuf::from(beside);
    if keeps {
        whole(&beside, |new| tool(Command::new("objcopy").arg("--only-keep-debug").arg(at).arg(new)))?;
    }
    let stripped = |new: &Path| {
        tool(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(new).arg(at))?;
        if keeps {
            // By its name alone: a debugger looks beside the program.
            let link = format!("--add-gnu-debuglink={}", beside.display());
            tool(Command::new("objcopy").arg(link).arg(new))?;
        }
        Ok(())
    };
    whole(at, stripped)
}

fn link(to: &str, at: &Path) -> Result<()> {
    whole(at, |new| symlink(to, new).with_context(|| format!("cannot make the link {}", at.display())))
}

fn write(text: impl AsRef<[u8]>, to: &Path) -> Result<()> {
    whole(to, |new| fs::write(new, text).with_context(|| format!("cannot write {}", to.display())))
}

/// Makes a directory, and those above it.
fn directory(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// The libraries that are installed, with all that the installed headers declare.
pub const LIBRARIES: [&str; 9] =
    ["-p", "chappe-ffi", "-p", "chappe-preload", "-p", "chappe-io", "--lib", "--features", "chappe-ffi/term"];

/// What the installed command has: every feature.
pub const FEATURES: &str = "chappe-cli/full,chappe-cli/remote";
/// The command that is installed.
pub const COMMAND: [&str; 4] = ["-p", "chappe-cli", "--features", FEATURES];

/// How the command is built; flags of rustc can follow. By the profile `dist` it is optimised as one piece, which makes it a fifth smaller.
pub fn building(profile: &str) -> Cargo {
    let call = Cargo::new("rustc").args(["--profile", profile, "--bin", "chappe"]).args(COMMAND);
    call.args(if profile == "dist" { &["--locked", "--", "-Clto=fat"][..] } else { &["--"] })
}

/// Builds all that is installed; where it lies then.
fn build(profile: &str) -> Result<PathBuf> {
    Cargo::new("build").args(["--profile", profile]).args(LIBRARIES).run()?;
    building(profile).run()?;
    Ok(target().join(if profile == "dev" { "debug" } else { profile }))
}

/// Whether all that is built for an installation lies in a directory.
///
/// # Errors
/// What lacks.
pub fn is_built(directory: &Path) -> Result<()> {
    let lacks = |file: &&str| !directory.join(file).is_file();
    let lacking = [ARCHIVE, PRELOAD, "chappe"].into_iter().find(lacks);
    ensure!(
        lacking.is_none(),
        "{} has no {}: `--built DIR` names a directory with all three",
        directory.display(),
        lacking.unwrap_or_default()
    );
    Ok(())
}

/// Builds, unless it is built, and installs.
pub fn command(args: &[&str]) -> Result<()> {
    let Wanted { prefix, libdir, destdir, profile, built, debug } = wanted(args)?;
    let (version, own) = (version()?, root().join("crates/ffi"));
    let out = match built {
        Some(out) => out,
        None => build(&profile)?,
    };
    is_built(&out)?;
    let built = out.join(ARCHIVE);

    let base = PathBuf::from(format!("{destdir}{prefix}"));
    let lib = directory(base.join(&libdir))?;
    let full = format!("libchappe.so.{version}");
    whole(&lib.join(&full), |new| {
        let status = Command::new(own.join("link.sh")).arg(&built).arg(new).status().context("link.sh")?;
        ensure!(status.success(), "link.sh ended with {status}: is there a C compiler?");
        Ok(())
    })?;
    strip(&lib.join(&full), debug)?;
    link(&full, &lib.join("libchappe.so.0"))?;
    link("libchappe.so.0", &lib.join("libchappe.so"))?;
    let archive = lib.join("libchappe.a");
    if debug {
        copy(&built, &archive)?;
    } else {
        whole(&archive, |new| tool(Command::new("strip").arg("--strip-debug").arg("-o").arg(new).arg(&built)))?;
    }

    let description = fs::read_to_string(own.join("chappe.pc.in"))?;
    let description =
        description.replace("@PREFIX@", &prefix).replace("@LIBDIR@", &libdir).replace("@VERSION@", &version);
    write(description, &directory(lib.join("pkgconfig"))?.join("chappe.pc"))?;

    let include = directory(base.join("include/chappe"))?;
    copy(&own.join("include/chappe.h"), &base.join("include/chappe.h"))?;
    for entry in fs::read_dir(own.join("include/chappe"))? {
        let entry = entry?;
        copy(&entry.path(), &include.join(entry.file_name()))?;
    }
    manual::write_all(&directory(base.join("share/man/man3"))?)?;
    command_itself(&out, &base, debug)?;
    println!("{}", base.display());
    Ok(())
}

/// The command, what it preloads, its manual and its completions.
fn command_itself(built: &Path, base: &Path, debug: bool) -> Result<()> {
    let chappe = built.join("chappe");
    let places = [
        (chappe.clone(), directory(base.join("bin"))?.join("chappe")),
        (built.join(PRELOAD), directory(base.join("lib/chappe"))?.join(PRELOAD)),
        (built.join(PIPES), directory(base.join("lib/chappe"))?.join(PIPES)),
    ];
    for (from, to) in places {
        copy(&from, &to)?;
        strip(&to, debug)?;
    }
    texts(&chappe, base)
}

/// The command's manual and completions, by a command that runs here.
///
/// # Errors
/// What it says.
pub fn texts(chappe: &Path, base: &Path) -> Result<()> {
    let says = |args: &[&OsStr]| -> Result<Vec<u8>> {
        let out = Command::new(chappe).args(args).output().with_context(|| format!("cannot start {chappe:?}"))?;
        ensure!(out.status.success(), "{chappe:?} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(out.stdout)
    };
    says(&["man".as_ref(), directory(base.join("share/man/man1"))?.as_os_str()])?;
    let completions = [
        ("bash", "share/bash-completion/completions", "chappe"),
        ("zsh", "share/zsh/site-functions", "_chappe"),
        ("fish", "share/fish/vendor_completions.d", "chappe.fish"),
    ];
    for (shell, place, file) in completions {
        write(says(&["completions".as_ref(), shell.as_ref()])?, &directory(base.join(place))?.join(file))?;
    }
    Ok(())
}

/// A directory with what is installed, as a build has made it; `None` if that was not built.
pub fn gathered(files: &[PathBuf]) -> Result<Option<PathBuf>> {
    let find = |begins: &str, ends: &str| {
        files.iter().find(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(begins) && name.ends_with(ends)
        })
    };
    let all = [
        (ARCHIVE, find("libchappe_ffi", ".a")),
        (PRELOAD, find("libchappe_preload", ".so")),
        (PIPES, find("libchappe_io", ".so")),
        ("chappe", find("chappe", "chappe")),
    ];
    let to = target().join("built");
    for (name, file) in all {
        let Some(file) = file else { return Ok(None) };
        fs::create_dir_all(&to)?;
        let link = to.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(file, &link).with_context(|| link.display().to_string())?;
    }
    Ok(Some(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_install_are_checked() {
        let all = ["--prefix", "/usr", "--libdir", "lib64", "--debug", "--destdir", "/tmp/x", "--profile", "dev"];
        let wanted_all = wanted(&all).unwrap();
        assert!(wanted_all.debug && wanted_all.profile == "dev" && !wanted(&[]).unwrap().debug);
        assert_eq!((wanted_all.prefix.as_str(), wanted_all.libdir.as_str()), ("/usr", "lib64"));
        assert!(
            wanted(&["--prefix"]).is_err() && wanted(&["--prefix", "here"]).is_err() && wanted(&["--x", "y"]).is_err()
        );
    }

    #[test]
    fn the_library_stays_below_the_prefix() {
        let libdir = |path| wanted(&["--prefix", "/usr", "--libdir", path]).map(|wanted| wanted.libdir);
        assert_eq!(libdir("/usr/lib/x86_64-linux-gnu").unwrap(), "lib/x86_64-linux-gnu");
        assert_eq!(libdir("lib64").unwrap(), "lib64");
        for outside in ["/lib", "/usrlib", "../lib", "/usr/../lib"] {
            let said = libdir(outside).unwrap_err().to_string();
            assert!(said.contains(outside) && said.contains("--prefix (/usr)"), "{said}");
        }
    }

    #[test]
    fn the_installed_command_has_every_feature() {
        let manifest = fs::read_to_string(root().join("crates/cli/Cargo.toml")).unwrap();
        let features = manifest.split_once("[features]").unwrap().1.split_once("\n[").unwrap().0;
        let full = features.lines().find(|line| line.starts_with("full = ")).unwrap();
        let named = features.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
        let all: Vec<&str> = named.collect();
        assert!(all.len() > 5, "{all:?}");
        for feature in all {
            let has = FEATURES.split(',').any(|one| one.strip_prefix("chappe-cli/") == Some(feature));
            assert!(has || full.contains(&format!("\"{feature}\"")), "the installed command lacks `{feature}`");
        }
    }

    #[test]
    fn the_version_is_found() {
        assert_eq!(version().unwrap(), env!("CARGO_PKG_VERSION"));
    }
}
