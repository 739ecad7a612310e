//! What ships executes no more locked operations than it is said to; the build without what deaths need does without what it is
//! said to do without. By counts, not times: `cargo xtask bench robustness` has those.

use chappe_bench::house::House;
use chappe_bench::robustness::WITHOUT;
use chappe_bench::robustness::pairs::{OURS, make};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

const BENCH: &str = env!("CARGO_BIN_EXE_chappe-bench");

/// The same sources with the feature `fragile`, built as this test was.
fn fragile() -> String {
    let directory = Path::new(BENCH).parent().expect("a program lies in its profile's directory");
    let profile = directory.file_name().and_then(OsStr::to_str).expect("whose name is the profile's");
    let profile = if profile == "debug" { "dev" } else { profile };
    let target = directory.parent().expect("and that in another").display().to_string();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "chappe-bench", "-p", "chappe-sync", "--bin", "chappe-bench-fragile"]);
    cargo.args(["--features", "chappe-bench/fragile,chappe-sync/fragile"]);
    cargo.args(["--profile", profile, "--target-dir", &target]).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().expect("cargo starts").success(), "the fragile build does not build");
    directory.join("chappe-bench-fragile").display().to_string()
}

fn counts(fragile: &str) -> Output {
    let args = ["robustness", "--fragile", fragile, "--counts", "--json"];
    Command::new(BENCH).args(args).output().expect("the program starts")
}

/// Instructions and locked operations of a row.
fn of(lines: &str, group: &str, row: &str) -> (u64, u64) {
    let line = lines.lines().find(|l| l.contains(&format!("\"{group}\"")) && l.contains(&format!("\"{row}\"")));
    let line = line.unwrap_or_else(|| panic!("no `{row}` of `{group}` in\n{lines}"));
    let number = |key: &str| {
        let rest = line.split_once(&format!("\"{key}\":")).expect("it has that").1;
        rest.split([',', '}']).next().and_then(|n| n.parse().ok()).expect("a number")
    };
    (number("instructions"), number("locked"))
}

#[test]
#[ignore = "storm: builds a program of its own and steps through it"]
fn a_pair_has_as_many_locked_operations_as_it_is_said_to() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("not tested: locked operations: only x86-64's are counted");
        return;
    }
    let _house = House::new("robustness");
    for (group, locked) in [("pool", 2), ("semaphore", 2), ("mutex", 2), ("tube 1:1", 0), ("tube m:n", 3)] {
        let counts = make(group, OURS).expect("a pair").count();
        assert_eq!(counts.locked, locked, "{group}");
        assert!(counts.instructions > locked, "{group}");
    }
}

#[test]
#[ignore = "storm: builds a program of its own and steps through it"]
fn the_build_without_robustness_has_fewer_instructions() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("not tested: what deaths need: only x86-64's instructions are counted");
        return;
    }
    let output = counts(&fragile());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for group in ["pool", "mutex", "tube 1:1", "tube m:n"] {
        let (ships, without) = (of(&said, group, OURS), of(&said, group, WITHOUT));
        assert!(without.0 < ships.0 && without.1 == ships.1, "{group}: {ships:?}, without {without:?}");
    }
    assert_eq!(of(&said, "semaphore", OURS), of(&said, "semaphore", WITHOUT));
}

/// A comparison with itself would find that deaths cost nothing.
#[test]
#[ignore = "storm: builds a program of its own and steps through it"]
fn the_shipped_build_is_not_taken_for_the_fragile_one() {
    if cfg!(not(target_arch = "x86_64")) {
        println!("not tested: which build it is: only x86-64's instructions are counted");
        return;
    }
    let output = counts(BENCH);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && why.contains("is not built with the feature `fragile`"), "{why}");
}
