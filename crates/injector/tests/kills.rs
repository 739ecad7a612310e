//! The injector's share of the tests. Each runs the injector's own program: the director must have one thread.
//!
//! `cargo xtask kill-sweep` tries everything, `cargo xtask soak` a thousand kills,
//! `cargo xtask soak --minutes N` kills in the chaos run for as long as you like.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// The command, built by the profile of this test.
fn chappe() -> PathBuf {
    let target = Path::new(INJECTOR).parent().expect("a program lies in its profile's directory");
    let profile = target.file_name().and_then(OsStr::to_str).expect("whose name is the profile's");
    let profile = if profile == "debug" { "dev" } else { profile };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", profile, "-p", "chappe-cli"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.env("CARGO_TARGET_DIR", target.parent().expect("the profile's directory lies in the target directory"));
    assert!(cargo.status().expect("cargo starts").success(), "chappe-cli does not build");
    target.join("chappe")
}

/// Each control is tried; in the gate those that take no luck, a fifth of them also by deaths at each instruction, another fifth with each
/// commit: that these find the same depends on the injector alone, and takes nine tenths of the time.
#[test]
fn an_injector_that_finds_nothing_would_be_seen() {
    let turn = std::env::var("CHAPPE_TEST_TURN").ok();
    let fifth: Vec<&str> = turn.iter().flat_map(|turn| ["--every", "5", "--from", turn]).collect();
    let said = nothing_found(&[&["control"][..], &fifth].concat());
    // One supposes that a sleeper has come within some time.
    assert_eq!(said.matches("as it must be").count(), if turn.is_some() { 21 } else { 22 });
}

/// A tenth of the operations, which is another one with each commit (`CHAPPE_TEST_TURN`), at the same points each time. With all
/// that takes luck, all of them, each time at other points: a failure names the seed.
#[test]
fn operations_killed_anywhere_happened_or_did_not_and_keep_nobody_waiting() {
    // Without optimisation there are ten times as many instructions.
    let share = if cfg!(debug_assertions) { "600" } else { "60" };
    let plan = ["sweep", "--share", share, "--part", "10", "--jobs", "2"];
    if std::env::var_os("CHAPPE_TEST_ALL").is_some() {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs()).to_string();
        nothing_found(&[&plan[..], &["--seed", &seed]].concat());
    } else {
        let turn = std::env::var("CHAPPE_TEST_TURN").unwrap_or_else(|_| "0".into());
        nothing_found(&[&plan[..], &["--every", "10", "--from", &turn]].concat());
    }
}

/// A process that makes an object while another that does so is stopped waits for it: the table says so, how often, and why.
#[test]
fn waits_for_a_stopped_process_are_counted_with_the_reason() {
    let said = nothing_found(&["sweep", "--share", "1000", "--only", "create pool, met"]);
    let line = said.lines().find_map(|line| line.strip_prefix("    held up ")).expect("somebody was held up");
    let (times, why) = line.split_once(" times: ").expect("how often, and why");
    assert!(times.parse::<u32>().is_ok_and(|times| times > 0), "{line}");
    assert!(why.contains("the arena's lock"), "{line}");
    let said = nothing_found(&["sweep", "--share", "1000", "--only", "doctor, met"]);
    assert!(!said.contains("held up 1") && said.contains("\nin all"), "{said}");
}

#[test]
#[ignore = "storm: kills at random"]
fn random_kills_bring_no_two_jobs_under_one_permit_and_every_permit_back() {
    let chappe = chappe();
    nothing_found(&["soak", "--kills", "150", "--chappe", &chappe.display().to_string()]);
}

/// Jobs go on when their supervisor is killed. One that holds the permit without a lease lets the next job in.
#[test]
#[ignore = "storm: kills at random"]
fn a_soak_of_supervisors_without_leases_sees_collisions() {
    let output = Command::new(INJECTOR).args(["soak", "--kills", "100", "--chappe", INJECTOR]).output();
    let output = output.expect("the injector starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("collision seen by"), "{said}");
}

#[test]
#[ignore = "storm: kills at random"]
fn random_kills_lose_and_double_nothing_of_the_structures() {
    let said = nothing_found(&["soak", "structures", "--kills", "2000"]);
    assert!(said.contains("2000 kills") && said.contains("0 torn, 0 lost, 0 doubled"), "{said}");
}

/// A value that is written in two steps is read in between.
#[test]
#[ignore = "storm: kills at random"]
fn a_soak_of_careless_workers_sees_torn_values() {
    let output = Command::new(INJECTOR).args(["soak", "structures", "--kills", "500", "--careless"]).output();
    let output = output.expect("the injector starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains(" 0 torn"), "{said}");
}

#[test]
#[ignore = "storm: kills at random"]
fn kills_among_objects_that_come_and_go_leak_no_slot() {
    let said = nothing_found(&["soak", "churn", "--uses", "100", "--stop", "5"]);
    assert!(said.contains("0 torn, 0 unclear") && said.contains("0 leaks"), "{said}");
}

#[test]
#[ignore = "storm: kills at random"]
fn a_churn_of_careless_workers_sees_torn_data() {
    let output = Command::new(INJECTOR).args(["soak", "churn", "--uses", "5", "--stop", "1", "--careless"]).output();
    let output = output.expect("the injector starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains(" 0 torn"), "{said}");
}

/// Both ways to count, and the page that is made of it.
#[test]
fn a_sweep_by_two_directors_tells_what_one_tells() {
    let path = std::env::temp_dir().join(format!("chappe-sweep-{}.md", std::process::id())).display().to_string();
    let only = ["sweep", "--share", "1000", "--only", "try_down"];
    let counts = |said: &str| -> Vec<String> {
        let mut rows: Vec<String> = said.lines().filter(|l| l.starts_with("try_down")).map(counted).collect();
        rows.sort();
        rows
    };
    let alone = counts(&nothing_found(&only));
    let both = counts(&nothing_found(&[&only[..], &["--jobs", "2", "--markdown", &path]].concat()));
    assert_eq!(alone.len(), 4, "{alone:?}");
    assert_eq!(alone, both);
    let page = std::fs::read_to_string(&path).expect("the page was written");
    std::fs::remove_file(path).expect("it is ours");
    assert_eq!(page.matches("\n| try_down | ").count(), 4, "{page}");
    assert!(page.starts_with("Made on 2") && page.contains("`cargo xtask kill-sweep --share 1000 "), "{page}");
}

/// Operation and scene: what follows differs from run to run.
fn counted(row: &str) -> String {
    row.chars().take(47).collect()
}

#[test]
#[ignore = "storm: kills at random"]
fn random_kills_and_stops_lose_and_double_nothing_of_any_kind() {
    let said = nothing_found(&["soak", "chaos", "--kills", "300"]);
    // Several may be killed in one moment.
    let kills =
        said.strip_prefix("chaos: ").and_then(|said| said.split(' ').next()).and_then(|n| n.parse::<u32>().ok());
    assert!(kills.is_some_and(|n| n >= 300) && said.contains(" 0 backstops without stops"), "{said}");
    for line in said.lines().filter(|line| line.starts_with("not tested: ")) {
        // Not by a macro: those are heard only of tests that fail.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

#[test]
#[ignore = "storm: kills at random"]
fn chaos_sees_each_mistake_that_is_made_in_it() {
    for (mistake, kills, unseen) in [
        ("forgetful", "400", " 0 lost"),
        ("careless", "20", " 0 doubled"),
        ("generous", "20", " 0 doubled"),
        ("untidy", "20", " 0 torn"),
        ("greedy", "20", " 0 wedged"),
    ] {
        let output = Command::new(INJECTOR).args(["soak", "chaos", "--kills", kills, "--mistake", mistake]).output();
        let output = output.expect("the injector starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{mistake}: {said}");
        assert!(!said.contains(unseen), "{mistake}: {said}");
    }
}

#[cfg(feature = "rivals")]
#[test]
#[ignore = "storm: kills at random"]
fn objects_made_and_removed_beside_kills_can_always_be_used() {
    let said = nothing_found(&["churn", "chappe", "--rounds", "1", "--kills", "150"]);
    assert_eq!(said.matches("never").count(), 4, "{said}");
}

/// A semaphore's unit has no owner: as a lock it is wedged by the first death with it in hand.
#[cfg(feature = "rivals")]
#[test]
#[ignore = "storm: kills at random"]
fn a_lock_that_no_death_gives_back_is_found_wedged() {
    let said = nothing_found(&["churn", "control", "--rounds", "1", "--kills", "300", "--limit", "1"]);
    assert!(said.contains("wedged, also when nobody else is there"), "{said}");
}

#[test]
fn a_wrong_call_is_told_so() {
    let output = Command::new(INJECTOR).args(["sweep", "--share", "x"]).output().expect("the injector starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("`x` is not a number"));
}
