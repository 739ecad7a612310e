//! The injector's share of the tests. Each runs the injector's own program: the director must have one thread.
//!
//! `cargo xtask kill-sweep` tries every instruction, `cargo xtask soak` and `cargo xtask soak tube` a thousand kills.

use std::path::{Path, PathBuf};
use std::process::Command;

const INJECTOR: &str = env!("CARGO_BIN_EXE_chappe-injector");

/// Runs the injector, which must find nothing; answers what it said.
fn nothing_found(args: &[&str]) -> String {
    let output = Command::new(INJECTOR).args(args).output().expect("the injector starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "chappe-injector {}: {}\n{said}\n{why}", args.join(" "), output.status);
    said.into_owned()
}

/// The command, built as this test was.
fn chappe() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "chappe-cli"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let target = Path::new(INJECTOR).parent().expect("a program lies in a directory");
    cargo.env("CARGO_TARGET_DIR", target.parent().expect("the profile's directory lies in the target directory"));
    assert!(cargo.status().expect("cargo starts").success(), "chappe-cli does not build");
    target.join("chappe")
}

#[test]
fn an_injector_that_finds_nothing_would_be_seen() {
    let said = nothing_found(&["control"]);
    assert_eq!(said.matches("as it must be").count(), 13);
}

#[test]
fn operations_killed_anywhere_happened_or_did_not_and_keep_nobody_waiting() {
    // Without optimisation there are ten times as many instructions.
    let share = if cfg!(debug_assertions) { "800" } else { "80" };
    nothing_found(&["sweep", "--share", share]);
}

#[test]
fn random_kills_bring_no_two_jobs_under_one_permit_and_every_permit_back() {
    let chappe = chappe();
    nothing_found(&["soak", "--kills", "150", "--chappe", &chappe.display().to_string()]);
}

/// Jobs go on when their supervisor is killed. One that holds the permit without a lease lets the next job in.
#[test]
fn a_soak_of_supervisors_without_leases_sees_collisions() {
    let output = Command::new(INJECTOR).args(["soak", "--kills", "100", "--chappe", INJECTOR]).output();
    let output = output.expect("the injector starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("collision seen by"), "{said}");
}

#[test]
fn random_kills_of_senders_and_receivers_lose_and_double_nothing_and_every_slot_comes_back() {
    let said = nothing_found(&["soak", "tube", "--kills", "200"]);
    assert!(said.contains("200 kills") && said.contains("all 7 slots back"), "{said}");
}

/// What is given back before it is noted does not come again when its receiver is killed in between.
#[test]
fn a_soak_of_forgetful_receivers_sees_letters_lost() {
    let output = Command::new(INJECTOR).args(["soak", "tube", "--kills", "600", "--forgetful"]).output();
    let output = output.expect("the injector starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains(" 0 lost"), "{said}");
}

#[test]
fn a_wrong_call_is_told_so() {
    let output = Command::new(INJECTOR).args(["sweep", "--share", "x"]).output().expect("the injector starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("`x` is not a number"));
}
