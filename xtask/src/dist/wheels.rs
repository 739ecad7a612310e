//! Wheels, with the library for Python and the command, for pip on machines without a compiler; the source distribution; and an archive of
//! the static command.
//!
//! Made of the source distribution, by zig, which brings the C library of each system: `manylinux_2_28` is for glibc 2.28 and later. One
//! wheel is for each Python from 3.9 on (abi3), but for those without a GIL. For musl there is no wheel ([`NO_WHEEL`]), and the command is
//! linked statically, and so has no `chappe run` and no sound by JACK, which load libraries. pip fetches the tools, in the versions of
//! [`TOOLS`], into target/dist-tools; auditwheel and twine check what was made.
//!
//! `CHAPPE_DIST_RUSTC` names the rustc of another toolchain, for systems whose standard library the workspace's own lacks: as built or as
//! source. A system that neither has is left out, and that is said.

use super::crates::{self, notices};
use super::files::{flags, fresh, own, pack, remove, set_rights, tool};
use crate::install;
use crate::run::{Cargo, DIST_ALL, root, target};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: [&str; 5] =
    ["auditwheel==6.8.2", "cargo-zigbuild==0.24.1", "maturin==1.16.0", "twine==7.0.0", "ziglang==0.17.1"];

/// One system: as rustc calls it, the C library's version where there are several, and as pip does.
struct System {
    target: &'static str,
    version: &'static str,
    /// None: it gets no wheel, and its command is linked statically.
    tag: Option<&'static str>,
}

impl System {
    /// Whether its programs run on this processor; those for glibc need that of this machine to be as new.
    fn is_here(&self) -> bool {
        self.processor() == std::env::consts::ARCH
    }

    /// As the names of its variables for build scripts end.
    fn variable(&self) -> String {
        self.target.replace('-', "_")
    }

    /// As the name of the archive of its static command ends.
    fn archive(&self) -> String {
        format!("-{}-linux-musl.tar.gz", self.processor())
    }

    /// Whether its command is linked statically.
    fn is_static(&self) -> bool {
        self.tag.is_none()
    }

    fn processor(&self) -> &str {
        self.target.split_once('-').map_or(self.target, |(processor, _)| processor)
    }
}

/// Of a system that is left out.
const NEEDED: &str = "the toolchain lacks its standard library; CHAPPE_DIST_RUSTC=PATH can name the rustc of one that has it, or \
                      that has its source (lib/rustlib/src/rust/library), of which it is built";

/// Of a wheel that is left out. `chappe-plat`'s words of a thread (`real/tls.rs`) have one distance from each thread's pointer, also in a library
/// that is loaded late: glibc keeps room for such, musl refuses the library.
const NO_WHEEL: &str = "musl's loader takes no library, behind a program's start, whose threads' data lies at a fixed place, as this one's \
                        does (\"initial-exec TLS resolves to dynamic definition\")";

/// Of an archive that is left out.
const SPEAKS: &str =
    "its manual and completions are told by a command of this machine's processor: name its system as well";

const SYSTEMS: [System; 4] = [
    System { target: "x86_64-unknown-linux-gnu", version: ".2.28", tag: Some("manylinux_2_28") },
    System { target: "aarch64-unknown-linux-gnu", version: ".2.28", tag: Some("manylinux_2_28") },
    System { target: "x86_64-unknown-linux-musl", version: "", tag: None },
    System { target: "aarch64-unknown-linux-musl", version: "", tag: None },
];

/// What a wheel is made with.
struct Tools {
    /// The directory of their programs.
    programs: PathBuf,
    /// The PATH with them.
    path: OsString,
    epoch: String,
}

impl Tools {
    fn fetch(epoch: &str) -> Result<Tools> {
        let at = target().join("dist-tools");
        let programs = at.join("bin");
        if !programs.join("pip").exists() {
            tool(Command::new("python3").args(["-m", "venv"]).arg(&at)).context("the tools live in a venv")?;
        }
        tool(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(TOOLS))?;
        let before = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([programs.clone()].into_iter().chain(std::env::split_paths(&before)))?;
        Ok(Tools { programs, path, epoch: epoch.to_owned() })
    }

    /// One of them.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.env("PATH", &self.path).env("SOURCE_DATE_EPOCH", &self.epoch);
        command
    }

    /// Programs that call zig's parts for a system. The same for the command and for the library, or cargo would compile all crates for each.
    fn calls_of_zig(&self, system: &System) -> Result<Vec<(String, OsString)>> {
        let at = target().join("dist-tools/zig").join(system.target);
        fs::create_dir_all(&at)?;
        let zig = self.programs.join("cargo-zigbuild");
        let short = system.target.replace("-unknown", "");
        let compiles = format!("-fno-sanitize=all -target {short}{} ", system.version);
        let linker = format!("CARGO_TARGET_{}_LINKER", system.variable().to_uppercase());
        let mut all = Vec::new();
        for (part, first, names) in [
            ("cc", &*compiles, &["CC", &linker][..]),
            ("c++", &compiles, &["CXX"]),
            ("ar", "", &["AR"]),
            ("ranlib", "", &["RANLIB"]),
        ] {
            let file = at.join(part);
            fs::write(&file, format!("#!/bin/sh\nexec '{}' zig {part} -- {first}\"$@\"\n", zig.display()))?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
            let whole =
                |name: &&str| if *name == linker { linker.clone() } else { format!("{name}_{}", system.variable()) };
            all.extend(names.iter().map(|name| (whole(name), file.clone().into())));
        }
        Ok(all)
    }

    /// What both the command and the library are built with.
    fn environment(&self, system: &System, toolchain: &Toolchain) -> Result<Vec<(String, OsString)>> {
        let mut all: Vec<(&str, OsString)> = vec![
            ("PATH", self.path.clone()),
            ("SOURCE_DATE_EPOCH", self.epoch.clone().into()),
            ("CARGO_INCREMENTAL", "0".into()),
            // As [`install::building`] has it; a trial of the steps says `off`.
            ("CARGO_PROFILE_DIST_LTO", std::env::var_os("CARGO_PROFILE_DIST_LTO").unwrap_or_else(|| "fat".into())),
            // By the linker: strip(1) knows the files of its own processor alone.
            ("CARGO_PROFILE_DIST_STRIP", "symbols".into()),
            ("CARGO_TARGET_DIR", own().into()),
            ("RUSTFLAGS", toolchain.flags(system)?.into()),
        ];
        all.extend(toolchain.rustc.iter().map(|rustc| ("RUSTC", rustc.clone())));
        if toolchain.builds_std {
            all.push(("RUSTC_BOOTSTRAP", "1".into()));
        }
        let all = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        Ok(all.chain(self.calls_of_zig(system)?).collect())
    }
}

/// What compiles for a system.
#[derive(Clone, Default)]
struct Toolchain {
    /// Another than the workspace's own.
    rustc: Option<OsString>,
    /// Whether it has the standard library as source alone.
    builds_std: bool,
}

impl Toolchain {
    /// One that has the standard library of this system, if there is one.
    fn of(system: &System) -> Option<Toolchain> {
        let given = std::env::var_os("CHAPPE_DIST_RUSTC");
        let all = [(None, false), (given.clone(), false), (given, true)]
            .map(|(rustc, builds_std)| Toolchain { rustc, builds_std });
        all.into_iter().find(|one| (one.rustc.is_some() || !one.builds_std) && one.has(system))
    }

    fn has(&self, system: &System) -> bool {
        let rustc = self.rustc.clone().unwrap_or_else(|| "rustc".into());
        let says = |args: &[&str]| tool(Command::new(&rustc).args(args).current_dir(root())).map(PathBuf::from);
        if self.builds_std {
            return says(&["--print", "sysroot"])
                .is_ok_and(|at| at.join("lib/rustlib/src/rust/library/Cargo.lock").is_file());
        }
        let Ok(at) = says(&["--print", "target-libdir", "--target", system.target]) else { return false };
        let Ok(mut files) = fs::read_dir(at) else { return false };
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().starts_with("libstd-")))
    }

    /// The flags of rustc for all crates.
    fn flags(&self, system: &System) -> Result<String> {
        let mut flags = flags()?;
        if system.is_static() {
            flags += " -Ctarget-feature=+crt-static";
            // What musl's programs begin with comes with zig.
            flags += if self.builds_std { " -Clink-self-contained=no" } else { "" };
        }
        Ok(flags)
    }
}

/// The source distribution, and it unpacked; the wheels are made of that.
fn unpacked(tools: &Tools, packages: &Path) -> Result<(PathBuf, PathBuf)> {
    let ask = "import build_package, sys; print(build_package.build_sdist(sys.argv[1]))";
    let source = root().join("crates/py");
    let said = tool(tools.program("python").args(["-c", ask]).arg(packages).current_dir(source))?;
    let name = said.lines().last().context("the source distribution has a name")?;
    let work = target().join("dist-source");
    fresh(&work)?;
    let source = packages.join(name);
    tool(Command::new("tar").arg("-xzf").arg(&source).arg("-C").arg(&work))?;
    let tree = work.join(name.trim_end_matches(".tar.gz"));
    let licences = tree.join("python/chappe/licences");
    let linked = crates::linked(&[crates::COMMAND, crates::PYTHON])?;
    fs::create_dir_all(&licences)?;
    notices(&linked, &licences)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(file), licences.join(file))?;
    }
    Ok((source, tree))
}

/// Makes all that can be made, or those for the systems that are named.
///
/// # Errors
/// A name that is none; what does not build; a tool that cannot be had; what auditwheel or twine find.
pub fn packages(only: &[&str], packages: &Path, epoch: &str) -> Result<()> {
    if let Some(other) = only.iter().find(|name| SYSTEMS.iter().all(|system| system.target != **name)) {
        bail!("`{other}` is no system that wheels are made for: {}", SYSTEMS.map(|system| system.target).join(", "));
    }
    let tools = Tools::fetch(epoch)?;
    let (source, tree) = unpacked(&tools, packages)?;
    let (mut made, mut systems) = (vec![source], Vec::new());
    for system in SYSTEMS.iter().filter(|system| only.is_empty() || only.contains(&system.target)) {
        let Some(toolchain) = Toolchain::of(system) else {
            println!("not made: for {}: {NEEDED}", system.target);
            continue;
        };
        program(&tools, system, &toolchain, &tree)?;
        match system.tag {
            Some(tag) => made.push(wheel(&tools, system, tag, &toolchain, &tree, packages)?),
            None => println!("not made: a wheel for {}: {NO_WHEEL}", system.target),
        }
        systems.push(system);
    }
    let mut archives = Vec::new();
    let speaks = systems.iter().copied().find(|system| system.is_here());
    for system in systems.iter().copied().filter(|system| system.is_static()) {
        let Some(speaks) = Some(system).filter(|system| system.is_here()).or(speaks) else {
            println!("not made: the archive for {}: {SPEAKS}", system.target);
            continue;
        };
        archives.push(alone(system, speaks, packages, epoch)?);
    }
    // Of an earlier version.
    remove(packages, |name| {
        let is_own = name.ends_with(".tar.gz") && !name.contains("-linux-")
            || systems
                .iter()
                .any(|system| name.ends_with(&format!("_{}.whl", system.processor())) && !system.is_static())
            || systems.iter().any(|system| system.is_static() && name.ends_with(&system.archive()));
        is_own && !made.iter().chain(&archives).any(|file| file.ends_with(name))
    })?;
    tool(tools.program("twine").args(["check", "--strict"]).args(made)).map(drop)
}

/// The command of a system.
fn command(system: &System) -> PathBuf {
    own().join(system.target).join("dist/chappe")
}

/// The archive of a static command, with the manual and the completions that the command of another system tells, or the same.
fn alone(system: &System, speaks: &System, packages: &Path, epoch: &str) -> Result<PathBuf> {
    let archive = format!("chappe-{}{}", install::version()?, system.archive());
    let tree = target().join("dist-work").join(archive.trim_end_matches(".tar.gz"));
    fresh(&tree)?;
    fs::create_dir_all(tree.join("bin"))?;
    fs::copy(command(system), tree.join("bin/chappe"))?;
    install::texts(&command(speaks), &tree)?;
    crates::documents(&tree, &crates::linked(&[crates::COMMAND])?)?;
    set_rights(&tree)?;
    pack(&tree, &packages.join(&archive), epoch)?;
    fs::remove_dir_all(&tree)?;
    Ok(packages.join(archive))
}

/// What the standard library is built by, where there is its source alone.
fn std_of(toolchain: &Toolchain) -> Option<&'static str> {
    toolchain.builds_std.then_some("-Zbuild-std=std,panic_unwind")
}

/// Builds the command of a system, of the source in `tree`.
fn program(tools: &Tools, system: &System, toolchain: &Toolchain, tree: &Path) -> Result<()> {
    let mut build = Cargo::new("build").directory(tree).args(["--profile", "dist"]).args(install::COMMAND);
    build = build.args(["--target", system.target]).args(std_of(toolchain));
    for (name, value) in tools.environment(system, toolchain)? {
        build = build.env(&name, &value.to_string_lossy());
    }
    build.run()
}

/// Makes a wheel, of the source in `tree`, with the command that was built of it.
fn wheel(
    tools: &Tools,
    system: &System,
    tag: &str,
    toolchain: &Toolchain,
    tree: &Path,
    packages: &Path,
) -> Result<PathBuf> {
    let std = std_of(toolchain).unwrap_or_default();
    let args = format!("--target {} --compatibility {tag} {} {std}", system.target, DIST_ALL.join(" "));
    let ask = "import build_package, sys; print(build_package.build_wheel(sys.argv[1], {'build-args': sys.argv[2]}))";
    let mut build = tools.program("python");
    build.args(["-c", ask]).arg(packages).arg(args).envs(tools.environment(system, toolchain)?).current_dir(tree);
    let said = tool(build.env("CHAPPE_WHEEL_COMMAND", command(system)))?;
    let made = packages.join(said.lines().last().context("a wheel has a name")?);
    let tag = format!("{tag}_{}", system.processor());
    ensure!(
        made.to_string_lossy().ends_with(&format!("-{tag}.whl")),
        "{}: a wheel for {tag} was wanted",
        made.display()
    );
    let said = tool(tools.program("auditwheel").arg("show").arg(&made))?;
    ensure!(said.replace('\n', " ").contains(&format!("\"{tag}\"")), "{said}");
    Ok(made)
}
