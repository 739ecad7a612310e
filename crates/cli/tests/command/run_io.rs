//! `chappe run --io`: a program whose pipes go through memory ends as it does without, and the run leaves nothing behind. (What the library does is
//! tested in its own crate.)

use crate::place::{Place, Ran};
use crate::run::library;

fn with_lanes(place: &Place, options: &[&str], script: &str) -> Ran {
    let all = [&["run"], options, &["--", "sh", "-c", script]].concat();
    Place::spawn(place.command(&all).env("CHAPPE_PRELOAD", library())).end()
}

/// The folders of runs.
fn folders(place: &Place) -> usize {
    let names = std::fs::read_dir(place.arenas()).expect("ours").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".io-")).count()
}

#[test]
fn a_run_with_pipes_through_memory_ends_as_its_program_and_leaves_no_folder() {
    let place = Place::new();
    for options in [&["--io"][..], &["--owned", "--io"]] {
        let ran = with_lanes(&place, options, "head -c 50M /dev/zero | cat | wc -c; exit 7");
        assert_eq!((ran.status, ran.out.as_str()), (Some(7), "52428800\n"), "{ran:?}");
        assert_eq!(with_lanes(&place, options, "kill -TERM $$").signal, Some(15));
    }
    assert_eq!(folders(&place), 0);
}

#[test]
fn the_folder_of_a_run_whose_chappe_was_killed_goes_with_the_next_run() {
    let place = Place::new();
    let ran = with_lanes(&place, &["--io"], "kill -KILL $PPID");
    assert_eq!((ran.signal, folders(&place)), (Some(9), 1), "{ran:?}");
    assert!(!place.ok(&["doctor"]).contains("is not chappe's"));
    assert_eq!(with_lanes(&place, &["--io"], "echo $CHAPPE_RUN_IO | cut -d : -f 5 | grep -c /.io-").out, "1\n");
    assert_eq!(folders(&place), 0);
}

#[test]
fn a_report_counts_every_byte_of_each_pipe_and_says_who_was_left_alone() {
    const BYTES: u64 = 50 << 20;
    let place = Place::new();
    let script = format!("head -c {BYTES} /dev/zero | cat | wc -c; exit 7");
    let ran = with_lanes(&place, &["--json", "--io", "--report"], &script);
    assert_eq!((ran.status, ran.out.trim()), (Some(7), BYTES.to_string().as_str()), "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&ran.err).expect("one line of JSON");
    let alone = told["left_alone"].as_array().expect("a list");
    if cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        assert!(alone.iter().any(|program| program["name"] == "sh" && program["why"] != ""), "{told}");
        let pipes = told["pipes"].as_array().expect("a list");
        let ends = |which: &str| -> Vec<(String, u64)> {
            let all = pipes.iter().flat_map(|pipe| pipe[which].as_array().expect("a list"));
            let bytes = |end: &serde_json::Value, way: &str| end[way]["bytes"].as_u64().expect("a number");
            let of = |end: &serde_json::Value| bytes(end, "by_memory") + bytes(end, "by_kernel");
            let all = all.map(|end| (end["name"].as_str().expect("text").to_owned(), of(end)));
            // What `wc` says goes into a pipe, too.
            let mut all: Vec<_> = all.filter(|(_, bytes)| *bytes > 100).collect();
            all.sort();
            all
        };
        let each = |names: [&str; 2]| names.map(|name| (name.to_owned(), BYTES));
        assert_eq!(ends("writers"), each(["cat", "head"]), "{told}");
        assert_eq!(ends("readers"), each(["cat", "wc"]), "{told}");
    }
    let ran = with_lanes(&place, &["--io", "--report"], "echo 1 | cat");
    assert!(ran.out == "1\n" && ran.err.starts_with("pipes of this run:\n"), "{ran:?}");
    let ran = with_lanes(&place, &["--report"], "true");
    assert!(ran.status == Some(125) && ran.err.contains("--io"), "a report is of pipes: {ran:?}");
}

/// Whether this test may run what is behind such a command. If not, says what is not tested.
fn may(prefix: &str) -> bool {
    let tried = std::process::Command::new("sh").args(["-c", &format!("{prefix} true")]).output();
    let may = tried.is_ok_and(|ran| ran.status.success());
    if !may {
        eprintln!("not tested: pipes of a run behind `{prefix}`: that may not be run here");
    }
    may
}

#[test]
fn pipes_between_users_and_namespaces_of_processes_lose_no_byte() {
    let place = Place::new();
    let namespace = "unshare --user --map-root-user --pid --fork --mount-proc";
    for prefix in ["setpriv --reuid 65534 --regid 65534 --clear-groups", namespace] {
        if !may(prefix) {
            continue;
        }
        for script in [
            format!("head -c 40M /dev/zero | {prefix} cat | wc -c"),
            format!("{prefix} head -c 40M /dev/zero | cat | {prefix} wc -c"),
            format!("{prefix} sh -c 'head -c 40M /dev/zero | cat | wc -c'"),
        ] {
            let ran = with_lanes(&place, &["--owned", "--io"], &script);
            assert_eq!((ran.status, ran.out.as_str()), (Some(0), "41943040\n"), "{script}: {ran:?}");
        }
    }
    if may(namespace) {
        // All of a run in a namespace of its own, as in a container.
        let run = format!("{namespace} \"$0\" run --io -- sh -c 'head -c 40M /dev/zero | cat | wc -c'");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &run, env!("CARGO_BIN_EXE_chappe")]).env("CHAPPE_DIR", place.arenas());
        let ran = shell.env("CHAPPE_PRELOAD", library()).output().expect("every system has a shell");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "41943040\n", "{ran:?}");
    }
    assert_eq!(folders(&place), 0);
}

#[test]
fn semaphores_stay_the_c_librarys_unless_an_option_asks_for_chappes() {
    let place = Place::new();
    let loaded = |options: &[&str]| with_lanes(&place, options, "echo $LD_PRELOAD").out;
    for (options, has) in [(&["--io"][..], false), (&["--io", "--owned"], true), (&["--barging", "--io"], true)] {
        let loaded = loaded(options);
        assert!(loaded.contains("libchappe_io.so"), "{options:?}: {loaded}");
        assert_eq!(loaded.contains("libchappe_preload.so"), has, "{options:?}: {loaded}");
    }
}
