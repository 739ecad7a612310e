//! `chappe run`: what it becomes, what it refuses, and what is seen of the program's semaphores. (What the library does is tested in its own
//! crate.)

use crate::place::{CHAPPE, Place, Ran, executable, not_tested, until};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The library, built now unless `cargo xtask test` has: nothing here links it.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(built) = std::env::var_os("CHAPPE_TEST_BUILT") {
            return Path::new(&built).join("libchappe_preload.so");
        }
        // Of the same target directory as the command; cargo is told by itself where that is.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package=chappe-preload", "--package=chappe-io", "--message-format=json"]);
        build.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
        let built = build.output().expect("cargo can be run");
        let told = String::from_utf8_lossy(&built.stdout);
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let files = told.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
        let mut files = files.flat_map(|m| m["filenames"].as_array().cloned().unwrap_or_default());
        let is_it = |f: &serde_json::Value| f.as_str().is_some_and(|f| f.ends_with("/libchappe_preload.so"));
        PathBuf::from(
            files.find(is_it).and_then(|f| Some(f.as_str()?.to_owned())).expect("cargo says which files it made"),
        )
    })
}

fn run(place: &Place, args: &[&str]) -> Ran {
    let mut all = vec!["run"];
    all.extend(args);
    Place::spawn(place.command(&all).env("CHAPPE_PRELOAD", library())).end()
}

#[track_caller]
fn refused(place: &Place, status: i32, program: &Path, wanted: &str) {
    let ran = run(place, &["--", program.to_str().expect("text")]);
    assert_eq!(ran.status, Some(status), "{ran:?}");
    assert!(ran.err.contains(wanted) && ran.err.contains(program.to_str().expect("text")), "{ran:?}");
}

/// A file to be run, with these bytes.
fn made(place: &Place, name: &str, bytes: &[u8]) -> PathBuf {
    let path = place.file(name);
    executable(&path, bytes);
    path
}

/// A program of the system's, with something changed in its head: `(bytes, where its dynamic linker is named)`.
fn system_program() -> (Vec<u8>, usize) {
    let bytes = std::fs::read("/bin/true").expect("every system has it");
    let number = |at: usize, n: usize| (0..n).rev().fold(0usize, |sum, i| sum << 8 | usize::from(bytes[at + i]));
    let (from, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let part = (0..count).map(|i| from + i * size).find(|at| number(*at, 4) == 3).expect("it is linked dynamically");
    (bytes, part)
}

#[test]
fn chappe_becomes_the_program() {
    let place = Place::new();
    let ran = run(&place, &["--", "sh", "-c", "echo $0 $1; exit 7", "zero", "one"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(7), "zero one\n"));
    // The separator can be left out.
    let ran = run(&place, &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(ran.signal, Some(15), "{ran:?}");
}

#[test]
fn arenas_of_families_that_nobody_has_any_more_go_with_the_next_program() {
    let place = Place::new();
    let [left, used] = ["family-0123456789abcdef", "family-fedcba9876543210"].map(|name| place.arenas().join(name));
    for to in [&left, &used] {
        place.ok(&["arena", "create", "x", "--members=4", "--objects=4"]);
        std::fs::rename(place.arenas().join("x"), to).expect("a directory of ours");
    }
    let user = std::fs::File::open(&used).expect("ours");
    assert_eq!(run(&place, &["true"]).status, Some(0));
    assert!(!left.exists() && used.exists());
    drop(user);
    gone(&used, || assert_eq!(run(&place, &["true"]).status, Some(0)));
}

/// Looks until the directory is gone: what another test has just forked uses it too, until it becomes a program of its own.
fn gone(used: &Path, mut look: impl FnMut()) {
    until("nobody uses the arena, and the next look removes it", || {
        look();
        (!used.exists()).then_some(())
    });
}

#[test]
fn arenas_of_families_that_nobody_has_any_more_go_when_somebody_looks() {
    let place = Place::new();
    let [left, used] = ["family-0123456789abcdef", "family-fedcba9876543210"].map(|name| place.arenas().join(name));
    for command in [&["ls"][..], &["--json", "ls"], &["doctor"]] {
        for to in [&left, &used] {
            place.ok(&["arena", "create", "x", "--members=4", "--objects=4"]);
            std::fs::rename(place.arenas().join("x"), to).expect("a directory of ours");
        }
        let user = std::fs::File::open(&used).expect("ours");
        let told = place.run(command);
        assert!(!left.exists() && used.exists(), "{told:?}");
        drop(user);
        gone(&used, || drop(place.run(command)));
    }
}

#[test]
fn the_library_is_in_front_and_what_was_there_behind_it() {
    let place = Place::new();
    let ours = library().to_str().expect("text");
    let script = "echo $LD_PRELOAD $CHAPPE_RUN_OWNED $CHAPPE_RUN_BARGING";
    assert_eq!(run(&place, &["--", "sh", "-c", script]).out, format!("{ours}\n"));
    assert_eq!(run(&place, &["--owned", "--", "sh", "-c", script]).out, format!("{ours} 1\n"));
    assert_eq!(run(&place, &["--barging", "--owned", "--", "sh", "-c", script]).out, format!("{ours} 1 1\n"));
    let mut with_another = place.command(&["run", "--", "sh", "-c", script]);
    with_another.env("CHAPPE_PRELOAD", library()).env("LD_PRELOAD", ours);
    with_another.env("CHAPPE_RUN_OWNED", "1").env("CHAPPE_RUN_BARGING", "1");
    assert_eq!(Place::spawn(&mut with_another).end().out, format!("{ours}\n"), "once, and not owned");
}

#[test]
fn the_directory_of_arenas_does_not_move_with_the_program() {
    let place = Place::new();
    let mut c = place.command(&["run", "--", "sh", "-c", "echo $CHAPPE_DIR"]);
    c.env("CHAPPE_PRELOAD", library()).env("CHAPPE_DIR", "arenas");
    assert_eq!(Place::spawn(&mut c).end().out, format!("{}\n", place.arenas().display()));
}

#[test]
fn a_program_that_could_have_no_semaphores_is_not_started() {
    let place = Place::new();
    let refused = |directory: &str, wanted: &str| {
        let mut c = place.command(&["run", "--", "sh", "-c", "echo started"]);
        let ran = Place::spawn(c.env("CHAPPE_PRELOAD", library()).env("CHAPPE_DIR", directory)).end();
        assert!(ran.status == Some(125) && ran.out.is_empty() && ran.err.contains(wanted), "{ran:?}");
        assert!(ran.err.contains("cannot put chappe's semaphores under `sh`"), "{ran:?}");
    };
    refused("nowhere", "nowhere, which CHAPPE_DIR names");
    let arenas = place.arenas();
    std::fs::write(arenas.join("posix"), [7; 5000]).expect("room");
    refused(arenas.to_str().expect("text"), "chappe leaves it as it is: move it away");
}

#[test]
fn a_program_that_would_not_load_the_library_is_refused() {
    let place = Place::new();
    let (whole, part) = system_program();
    let changed = |name, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        made(&place, name, &bytes)
    };
    refused(&place, 125, &changed("static", &|b| b[part..part + 4].fill(0)), "linked statically");
    refused(&place, 125, &changed("small", &|b| b[4] = 1), "32-bit");
    refused(&place, 125, &changed("foreign", &|b| b[18] ^= 0x55), "another processor");
    let musl = changed("musl", &|b| {
        let at = u64::from_le_bytes(b[part + 8..part + 16].try_into().expect("8 bytes")) as usize;
        b[at..at + 14].copy_from_slice(b"/lib/ld-musl-x");
    });
    refused(&place, 125, &musl, "musl");
    let script = made(&place, "script", format!("#! {} -x\n", place.file("static").display()).as_bytes());
    refused(&place, 125, &script, "script for");
    assert_eq!(run(&place, &["--", changed("same", &|_| {}).to_str().expect("text")]).status, Some(0));
    let script = made(&place, "good", b"#!/bin/sh\necho $LD_PRELOAD\n");
    assert_eq!(run(&place, &["--", script.to_str().expect("text")]).out.trim_end(), library().to_str().expect("text"));
}

#[test]
fn a_program_with_more_rights_than_its_caller_is_refused() {
    // SAFETY: takes nothing.
    if unsafe { libc::getuid() } != 0 {
        return not_tested("set-uid programs under `chappe run`: only root can make one that is another's");
    }
    let place = Place::new();
    let path = made(&place, "set-uid", &system_program().0);
    std::os::unix::fs::chown(&path, Some(12345), Some(12345)).expect("root may");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).expect("root may");
    refused(&place, 125, &path, "set-uid");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2755)).expect("root may");
    refused(&place, 125, &path, "set-gid");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("root may");
    assert_eq!(run(&place, &["--", path.to_str().expect("text")]).status, Some(0));
}

#[test]
fn the_dynamic_linker_loads_it_for_the_program_that_it_is_given() {
    let place = Place::new();
    let (bytes, part) = system_program();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
    let name = &bytes[number(part + 8)..number(part + 8) + number(part + 32) - 1];
    let linker = std::str::from_utf8(name).expect("text");
    let ran =
        run(&place, &["--", linker, "/bin/sh", "-c", "echo $LD_PRELOAD; grep -c libchappe_preload /proc/$$/maps >&2"]);
    assert_eq!((ran.status, ran.out.trim_end()), (Some(0), library().to_str().expect("text")), "{ran:?}");
    assert!(ran.err.trim_end().parse::<u32>().is_ok_and(|mapped| mapped > 0), "{ran:?}");
}

#[test]
fn a_program_that_cannot_be_run_is_reported_as_by_env() {
    let place = Place::new();
    refused(&place, 127, &place.file("none"), "No such file");
    assert_eq!(run(&place, &["--", "no-such-program-here"]).status, Some(127));
    let text = made(&place, "text", b"just text");
    refused(&place, 126, &text, "Exec format error: it is neither a program nor begins with `#!`");
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o644)).expect("our own");
    refused(&place, 126, &text, "Permission denied");
    refused(&place, 126, place.path(), "Permission denied");
    let orphan = made(&place, "orphan", b"#!/no/such/interpreter\n");
    refused(&place, 127, &orphan, "its interpreter /no/such/interpreter");
    assert_eq!(place.run(&["run"]).status, Some(125), "no program");
    assert_eq!(place.run(&["run", "--nonsense", "--", "true"]).status, Some(125));
}

#[test]
fn the_library_is_found_beside_the_command_or_where_it_is_installed() {
    let place = Place::new();
    for directory in ["bin", "lib", "lib/chappe"] {
        std::fs::create_dir(place.file(directory)).expect("room");
    }
    let command = place.file("bin/chappe");
    executable(&command, &std::fs::read(CHAPPE).expect("cargo has made it"));
    let tried = || {
        let mut c = place.program(command.to_str().expect("text"), &["run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
        Place::spawn(&mut c).end()
    };
    let ran = tried();
    assert!(ran.status == Some(125) && ran.err.contains("libchappe_preload.so is neither beside"), "{ran:?}");
    for there in ["lib/chappe/libchappe_preload.so", "bin/libchappe_preload.so"] {
        std::fs::copy(library(), place.file(there)).expect("room");
        assert_eq!(tried().out.trim_end(), place.file(there).to_str().expect("text"));
    }
    let mut c = place.command(&["run", "--", "true"]);
    let ran = Place::spawn(c.env("CHAPPE_PRELOAD", "/nowhere/x.so")).end();
    assert!(ran.status == Some(125) && ran.err.contains("/nowhere/x.so"), "{ran:?}");
}

#[test]
fn a_programs_semaphores_are_listed() {
    listed(&[], false);
}

#[test]
fn a_programs_semaphores_let_newcomers_overtake_if_it_is_asked_for() {
    listed(&["--barging"], true);
}

/// A program makes a semaphore and takes a unit, and `chappe ls` shows it.
fn listed(options: &[&str], barging: bool) {
    if Command::new("python3").arg("--version").output().is_err() {
        return not_tested("semaphores of programs in `chappe ls`: there is no python3");
    }
    let place = Place::new();
    let script = "import ctypes, os, sys
c = ctypes.CDLL(None)
c.sem_open.restype = ctypes.c_void_p
s = c.sem_open(b'/listed', os.O_CREAT, 0o600, 3)
assert s and c.sem_wait(ctypes.c_void_p(s)) == 0
print('ready', flush=True)
sys.stdin.read()";
    let mut c = place.command(&[&["run"], options, &["--", "python3", "-c", script]].concat());
    let mut program = c.env("CHAPPE_PRELOAD", library()).stdin(Stdio::piped()).spawn().expect("start");
    let mut line = String::new();
    let out = program.stdout.as_mut().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("it says something");
    assert_eq!(line, "ready\n");
    let listed = place.json(&["ls", "posix"]);
    assert_eq!(listed[0]["name"], "posix/listed", "{listed}");
    assert_eq!((&listed[0]["kind"], &listed[0]["value"]), (&"semaphore".into(), &2.into()));
    assert_eq!(place.ok(&["show", "posix/listed"]).contains("barging"), barging);
    assert!(!place.ok(&["doctor"]).contains(".posix"), "that is nobody's else");
    drop(program.stdin.take());
    assert!(program.wait().expect("our child").success());
    // As with the C library, it stays until somebody unlinks it.
    assert_eq!(place.json(&["ls", "posix"])[0]["value"], 2);
}
