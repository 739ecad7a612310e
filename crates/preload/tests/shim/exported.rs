//! What the library puts in front of the C library's: these functions, whichever of the C library's versions a program asks for, and no other.

use crate::stage::{Stage, compiled, compiled_with, is_there, library, not_tested, well};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const ALL: [&str; 16] = [
    "_Exit",
    "_exit",
    "daemon",
    "pthread_cancel",
    "quick_exit",
    "sem_clockwait",
    "sem_close",
    "sem_destroy",
    "sem_getvalue",
    "sem_init",
    "sem_open",
    "sem_post",
    "sem_timedwait",
    "sem_trywait",
    "sem_unlink",
    "sem_wait",
];

#[test]
fn these_and_no_others() {
    if !is_there("nm") {
        return not_tested("the exported names: there is no nm");
    }
    let text =
        well(Command::new("nm").args(["-D", "--defined-only"]).arg(library()).stdout(std::process::Stdio::piped()));
    let mut names: Vec<&str> = text.lines().filter_map(|l| l.split(' ').nth(2)).collect();
    names.sort_unstable();
    assert_eq!(names, ALL);
    let needed =
        well(Command::new("nm").args(["-D", "--undefined-only"]).arg(library()).stdout(std::process::Stdio::piped()));
    assert!(!needed.contains("__cxa_thread_atexit_impl"), "it takes the dynamic linker's lock: see `locals`");
}

#[test]
fn programs_of_any_age_get_them() {
    let stage = Stage::new();
    for (age, words) in [("now", [].as_slice()), ("before glibc 2.34", &["-DOLD"]), ("by dlsym", &["-DBY_NAME"])] {
        let Some(program) = compiled_with("versions", words) else { return };
        assert_eq!(well(&mut stage.under(&program)), "chappe-s\n", "{age}");
        assert_eq!(well(&mut stage.plain(&program)), "the C library\n", "{age}");
    }
}

#[test]
fn each_kind_is_replaced() {
    let Some(program) = compiled("where") else { return };
    let stage = Stage::new();
    let said = |shared: &str, everybodys: &str| {
        let own = ["on the stack: chappe-s", "on the heap, for processes: chappe-s"].map(str::to_owned);
        let places = ["shared", "shared, of 2", "in a file", "named"];
        let shared = places.map(|p| format!("{p}: {}", if p.contains("of 2") { "chappe-s" } else { shared }));
        let end = [format!("in everybody's file: {everybodys}"), "destroyed: the C library\n".to_owned()];
        [own.as_slice(), &shared, &end].concat().join("\n")
    };
    let theirs = "the C library";
    assert_eq!(well(&mut stage.under(&program)), said("chappe-s", theirs));
    assert_eq!(well(&mut stage.owned(&program)), said("chappe-o", theirs));
    // What was read when the program began counts.
    assert_eq!(well(stage.under(&program).arg("/no/such/place")), said("chappe-s", theirs));
    assert_eq!(well(stage.owned(&program).arg("/no/such/place")), said("chappe-o", theirs));
    // Where all may come to the arenas, they may share the rest.
    std::fs::set_permissions(stage.path(), std::fs::Permissions::from_mode(0o1777)).expect("our own");
    assert_eq!(well(&mut stage.under(&program)), said("chappe-s", "chappe-s"));
}

#[test]
fn a_constructor_that_is_faster_gets_them_as_well() {
    let Some(program) = compiled("early") else { return };
    assert_eq!(well(&mut Stage::new().under(&program)), "done\n");
}

#[test]
fn another_librarys_constructor_is_early_and_forks_go_on() {
    let shared = ["-shared", "-fPIC"];
    // The last one that is loaded with this flag is made ready first: before ours.
    for words in [shared.as_slice(), &[&shared[..], &["-DNONE", "-Wl,-z,initfirst"]].concat()] {
        let Some(first) = compiled_with("first", words) else { return };
        let program = compiled("forks").expect("there is a compiler");
        let stage = Stage::new();
        let wanted = well(&mut stage.plain(&program));
        for mut c in [stage.under(&program), stage.owned(&program)] {
            let both = format!("{} {}", library().display(), first.display());
            assert_eq!(well(c.env("LD_PRELOAD", both)), wanted, "{words:?}");
        }
    }
}

#[test]
fn a_handler_posts_while_its_thread_meets_an_arena() {
    let Some(program) = compiled_with("meets", &["-rdynamic", "-fno-builtin"]) else { return };
    let said = |n: u32| well(Stage::new().under(&program).arg(n.to_string()));
    let ran = (1..100).take_while(|n| said(*n) == "ran 1 times, value 1\n").count();
    // The names of the directory are sorted, and then one is looked for under the lock.
    assert!((2..99).contains(&ran), "{ran}");
}

#[test]
fn a_handler_posts_and_asks_the_program_for_no_memory_after_libraries_came_late() {
    let Some(data) = compiled_with("data", &["-shared", "-fPIC"]) else { return };
    let program = compiled_with("late", &["-rdynamic"]).expect("there is a compiler");
    for shared in ["0", "1"] {
        let stage = Stage::new();
        let copies: Vec<_> = (0..60).map(|n| stage.path().join(format!("data{n}.so"))).collect();
        copies.iter().for_each(|to| _ = std::fs::copy(&data, to).expect("room"));
        assert_eq!(well(stage.under(&program).arg(shared).args(&copies)), "asked 0 times\n");
    }
}

#[test]
fn a_handler_posts_while_its_thread_forks() {
    let Some(program) = compiled_with("forked", &["-rdynamic"]) else { return };
    // Before the locks, and behind them in the parent and in the child.
    assert_eq!(well(&mut Stage::new().under(&program)), "2 times\n");
}

#[test]
fn threads_of_ours_have_a_stack_beside_what_the_program_has_in_each_thread() {
    for size in [1_000, 250_000, 254_000, 256_000, 258_000, 300_000, 5_000_000] {
        let Some(program) = compiled_with("locals", &[&format!("-DSIZE={size}")]) else { return };
        assert_eq!(well(&mut Stage::new().under(&program)), "chappe-reaper\n", "{size}");
    }
}

#[test]
fn a_file_that_is_too_short_is_no_semaphore_and_in_the_way() {
    let Some(program) = compiled("short") else { return };
    let stage = Stage::new();
    let all = "it is there: EINVAL\nit is made if need be: EINVAL\nit is to be new: EEXIST\n".repeat(2);
    assert_eq!(well(stage.under(&program).arg(stage.path().join(".posix"))), all);
}

#[test]
fn a_pair_that_nobody_contends_makes_no_system_call() {
    let Some(program) = compiled("silent") else { return };
    let stage = Stage::new();
    assert_eq!(well(&mut stage.under(&program)), "done\n");
    assert_eq!(well(&mut stage.owned(&program)), "done\n");
    assert_eq!(well(&mut stage.barging(&program)), "done\n");
}

#[test]
fn to_unlink_what_nobody_has_open_takes_sixteen_system_calls() {
    let Some(program) = compiled("calls") else { return };
    match well(&mut Stage::new().under(&program)).trim() {
        "untraced" => not_tested("the system calls of sem_unlink: nobody may be traced here"),
        // Without optimisation, the standard library looks at a descriptor before it closes it.
        counted => {
            let most = 16 + u32::from(cfg!(debug_assertions));
            assert!(counted.parse::<u32>().is_ok_and(|n| (3..=most).contains(&n)), "{counted} system calls");
        }
    }
}
