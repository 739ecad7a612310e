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
    assert_eq!(with_lanes(&place, &["--io"], "echo $CHAPPE_RUN_IO | cut -d : -f 4 | grep -c /.io-").out, "1\n");
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
