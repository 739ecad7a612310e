//! `cargo xtask guest KERNEL BUSYBOX [ARG...]`: test programs under another kernel, and on another processor, in a guest of QEMU.
//!
//! KERNEL is an image that QEMU boots, as a distribution has it; BUSYBOX a static one for the guest's processor, which it names; ARGs are
//! those of `cargo test` (`-p chappe-plat`; storms are left out). Each program runs at its own path, alone, and the guest has no disk.
//!
//! A kernel of its own is the point: QEMU's emulation of a processor alone (`qemu-user`) has no robust lists, so nobody sees a death there,
//! and in older versions it does not see code that is changed by way of another mapping.
//!
//! Another processor's programs are built by the rustc that `CHAPPE_DIST_RUSTC` names, if the workspace's own lacks the target.

use crate::run::{Cargo, root, target};
use crate::suites::{self, Program, Sum};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// So many seconds may a program take.
const LIMIT: u64 = 900;
/// What test programs link with, and the shell's programs that they start.
const LIBRARIES: [&str; 6] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"];
const SHELL: [&str; 24] = [
    "sh", "mount", "ls", "cat", "echo", "sleep", "timeout", "poweroff", "mkdir", "true", "false", "env", "ps", "kill",
    "seq", "grep", "head", "id", "test", "yes", "wc", "sort", "tr", "dd",
];

/// Where the C library for AArch64 lies.
pub const AARCH64_SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// One kind of processor.
pub struct Processor {
    /// As ELF has it.
    number: u8,
    target: &'static str,
    /// Where its C library lies.
    libraries: &'static str,
    /// Its loader: where it is here, and where programs look for it.
    loader: (&'static str, &'static str),
    linker: &'static str,
    strip: &'static str,
    qemu: &'static [&'static str],
    console: &'static str,
}

const PROCESSORS: [Processor; 2] = [
    Processor {
        number: 62,
        target: "x86_64-unknown-linux-gnu",
        libraries: "/lib/x86_64-linux-gnu",
        loader: ("/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
        linker: "cc",
        strip: "strip",
        qemu: &["qemu-system-x86_64", "-M", "q35", "-cpu", "max"],
        console: "ttyS0",
    },
    Processor {
        number: 183,
        target: "aarch64-unknown-linux-gnu",
        libraries: "/usr/aarch64-linux-gnu/lib",
        loader: ("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1", "lib/ld-linux-aarch64.so.1"),
        linker: "aarch64-linux-gnu-gcc",
        strip: "aarch64-linux-gnu-strip",
        qemu: &["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a76"],
        console: "ttyAMA0",
    },
];

impl Processor {
    /// AArch64.
    pub fn aarch64() -> &'static Processor {
        &PROCESSORS[1]
    }

    /// What its programs are built with, and is not here.
    pub fn lacks(&self) -> Option<String> {
        let rustc = std::env::var_os("CHAPPE_DIST_RUSTC").unwrap_or_else(|| "rustc".into());
        let out = Command::new(rustc)
            .args(["--print", "target-libdir", "--target", self.target])
            .current_dir(root())
            .output();
        let libraries = out.map(|out| String::from_utf8_lossy(&out.stdout).trim_end().to_owned()).unwrap_or_default();
        if !Path::new(&libraries).is_dir() {
            return Some(format!("Rust's standard library for {}", self.target));
        }
        Command::new(self.linker).arg("--version").output().is_err().then(|| self.linker.to_owned())
    }

    /// That of a program.
    fn of(program: &Path) -> Result<&'static Processor> {
        let bytes = fs::read(program).with_context(|| program.display().to_string())?;
        let number = bytes.get(18).copied().filter(|_| bytes.starts_with(b"\x7fELF"));
        let found = PROCESSORS.iter().find(|one| Some(one.number) == number);
        found.with_context(|| format!("{} is no program for a processor that is known here", program.display()))
    }

    /// Builds test programs for it.
    ///
    /// # Errors
    /// What does not compile.
    pub fn build(&self, args: &[&str]) -> Result<Vec<Program>> {
        let mut call = Cargo::new("test").args(["--target", self.target]).args(args);
        if let Ok(rustc) = std::env::var("CHAPPE_DIST_RUSTC") {
            call = call.env("RUSTC", &rustc);
        }
        let linker = format!("CARGO_TARGET_{}_LINKER", self.target.to_uppercase().replace('-', "_"));
        suites::build(call.env(&linker, self.linker))
    }
}

fn tool(command: &mut Command) -> Result<()> {
    let out = command.output().with_context(|| format!("cannot start {command:?}: is it installed?"))?;
    ensure!(out.status.success(), "{command:?} ended with {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    Ok(())
}

/// What the guest's first process does.
fn first(programs: &[Program]) -> String {
    let mut text = String::from(
        "#!/bin/sh\nexport PATH=/bin HOME=/tmp TMPDIR=/tmp\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t devtmpfs dev /dev\n\
         mkdir -p /dev/shm /dev/pts\nmount -t tmpfs shm /dev/shm\nmount -t devpts pts /dev/pts\nmount -t tmpfs tmp /tmp\nln -s /proc/self/fd \
         /dev/fd\n",
    );
    for (nth, program) in programs.iter().enumerate() {
        let (directory, path) = (program.directory.display(), program.path.display());
        let _ = writeln!(
            text,
            "echo \"== begins {nth}\"; cd {directory}; CARGO_MANIFEST_DIR={directory} timeout {LIMIT} {path} --test-threads 1 </dev/null \
             2>&1; echo \"== ended $?\""
        );
    }
    text + "poweroff -f\n"
}

/// Makes the guest's files; where they are packed.
fn pack(processor: &Processor, busybox: &Path, programs: &[Program], more: &[PathBuf]) -> Result<PathBuf> {
    let at = target().join("guest");
    let tree = at.join("root");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    for directory in ["bin", "lib", "lib64", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(tree.join(directory))?;
    }
    fs::copy(busybox, tree.join("bin/busybox"))?;
    fs::set_permissions(tree.join("bin/busybox"), fs::Permissions::from_mode(0o755))?;
    for name in SHELL {
        symlink("busybox", tree.join("bin").join(name))?;
    }
    fs::copy(processor.loader.0, tree.join(processor.loader.1))?;
    for name in LIBRARIES {
        let from = Path::new(processor.libraries).join(name);
        fs::copy(&from, tree.join("lib").join(name)).with_context(|| from.display().to_string())?;
    }
    let inside = |path: &Path| tree.join(path.strip_prefix("/").unwrap_or(path));
    for path in programs.iter().map(|program| &program.path).chain(more) {
        let to = inside(path);
        fs::create_dir_all(to.parent().context("a program lies in a directory")?)?;
        tool(Command::new(processor.strip).arg("-o").arg(&to).arg(path))?;
    }
    // Some read their own source.
    let sources = inside(&root());
    fs::create_dir_all(&sources)?;
    let copy = "tar -c crates Cargo.toml | tar -x -C \"$0\"";
    tool(Command::new("sh").args(["-c", copy]).arg(&sources).current_dir(root()))?;
    let init = tree.join("init");
    fs::write(&init, first(programs))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let packed = at.join("initrd.gz");
    let all = "cd \"$0\" && find . | LC_ALL=C sort | cpio -o -H newc --quiet | gzip -1 >\"$1\"";
    tool(Command::new("sh").args(["-c", all]).arg(&tree).arg(&packed))?;
    Ok(packed)
}

/// What each program said, by what the console has, and whether it ended well.
fn told(console: &str) -> Vec<(usize, bool, &str)> {
    let each = console.split("== begins ").skip(1).filter_map(|part| {
        let (nth, rest) = part.split_once('\n')?;
        let (text, status) = rest.split_once("== ended ").unwrap_or((rest, "it did not end"));
        Some((nth.trim().parse().ok()?, status.lines().next().is_some_and(|line| line.trim() == "0"), text))
    });
    each.collect()
}

/// Runs them.
///
/// # Errors
/// What cannot be built or started; which programs failed, with what they said.
pub fn command(kernel: &str, busybox: &str, args: &[&str]) -> Result<()> {
    let processor = Processor::of(Path::new(busybox))?;
    let programs = processor.build(args)?;
    let command: Vec<PathBuf> =
        [target().join(processor.target).join("debug/chappe")].into_iter().filter(|path| path.is_file()).collect();
    let packed = pack(processor, Path::new(busybox), &programs, &command)?;
    let (name, machine) = processor.qemu.split_first().context("a machine has a name")?;
    let limit = (LIMIT * programs.len() as u64 + 120).to_string();
    let mut guest = Command::new("timeout");
    guest.args([&limit, *name]).args(machine).args([
        "-smp",
        "2",
        "-m",
        "3G",
        "-nographic",
        "-no-reboot",
        "-kernel",
        kernel,
    ]);
    guest.args(["-append", &format!("console={} panic=-1 quiet", processor.console)]).arg("-initrd").arg(&packed);
    let out = guest.output().with_context(|| format!("cannot start {name}"))?;
    let console = String::from_utf8_lossy(&out.stdout).replace('\r', "");
    fs::write(target().join("guest/console"), &console)?;
    let told = told(&console);
    ensure!(!told.is_empty(), "the guest began no program:\n{console}{}", String::from_utf8_lossy(&out.stderr));
    let (mut sum, mut failed) = (Sum::default(), Vec::new());
    for program in programs.iter().enumerate() {
        let (nth, Program { package, target, .. }) = program;
        match told.iter().find(|(of, ..)| *of == nth) {
            Some((_, well, text)) => {
                let (passed, left_out) = (suites::count(text, " passed"), suites::count(text, " ignored"));
                println!("{} {package} {target}: {passed} passed", if *well { "ok    " } else { "FAILED" });
                sum.add(Sum { passed, left_out, untested: suites::untested(text) });
                if !well {
                    failed.push(format!("{package} {target}:\n{text}"));
                }
            }
            None => failed.push(format!("{package} {target} was not begun")),
        }
    }
    println!("{} tests passed, {} left out", sum.passed, sum.left_out);
    sum.untested.iter().for_each(|line| println!("{line}"));
    if !failed.is_empty() {
        bail!("{}\n{} of {} programs failed", failed.join("\n\n"), failed.len(), programs.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_did_not_end_well_is_told_from_one_that_did() {
        let console = "boots\n== begins 0\ntest result: ok. 3 passed; 0 failed\n== ended 0\n== begins 1\n== ended 101\n== begins 2\nrunning";
        let told = told(console);
        assert_eq!(
            told.iter().map(|(nth, well, _)| (*nth, *well)).collect::<Vec<_>>(),
            [(0, true), (1, false), (2, false)]
        );
        assert_eq!(suites::count(told[0].2, " passed"), 3);
    }
}
