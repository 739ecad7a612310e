//! The same tests in a build for AArch64, run by an emulator: it has no rseq, so all that goes without sections is tested, and that
//! the sections assemble. Those that take their time only where `RAS_SECONDS` is set.

#![cfg(all(target_arch = "x86_64", not(feature = "sim"), not(feature = "inject")))]

use std::path::Path;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// Where the other architecture's C library is.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// Programs of tests.
const QUICK: &[&str] = &["fallback", "edges", "storm", "descriptors", "rasctl"];
const LONG: &[&str] = &["lock", "sharded", "mechanism"];

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// What is needed, and not there.
fn missing() -> Option<String> {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output().ok()?;
    let libraries = String::from_utf8_lossy(&libraries.stdout).trim().to_owned();
    if !Path::new(&libraries).is_dir() {
        return Some(format!("rust's {TARGET}"));
    }
    [LINKER, EMULATOR].into_iter().find(|p| !starts(p)).map(str::to_owned)
}

#[test]
#[ignore = "storm: builds and runs the storms for another architecture"]
fn all_falls_back_on_aarch64_without_rseq() {
    if let Some(what) = missing() {
        println!("not tested: all_falls_back_on_aarch64_without_rseq: {what} is not installed");
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut run = Command::new(cargo);
    run.args(["test", "--offline", "-p", "chappe-ras", "--lib", "--target", TARGET]);
    let long = std::env::var_os("RAS_SECONDS").is_some();
    let programs = if long { &[QUICK, LONG].concat()[..] } else { QUICK };
    programs.iter().for_each(|program| _ = run.args(["--test", program]));
    let run = run
        .args(["--", "--include-ignored", "--nocapture"])
        // It starts itself, by the kernel.
        .args(["--skip", "the_bias_is_switched_off_by_the_environment"])
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("aarch64"))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("{EMULATOR} -L {SYSROOT}"))
        // Children that the tests start are run as they are themselves.
        .env("CHAPPE_RAS_EMULATOR", format!("{EMULATOR} -L {SYSROOT}"))
        .env("RAS_SECONDS", "1")
        // What is built once is built sooner without.
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .expect("cargo starts");
    let text = [run.stdout, run.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat();
    assert!(run.status.success(), "{text}");
    assert_eq!(text.matches("test result: ok.").count(), 1 + programs.len(), "{text}");
    // What it could not test there.
    for line in text.lines().filter_map(|l| l.split_once("not tested: ")) {
        println!("not tested: aarch64: {}", line.1);
    }
}
