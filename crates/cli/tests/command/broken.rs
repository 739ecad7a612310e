//! `ls`, `show` and `doctor` end by themselves, and say something sensible, whatever is broken.
//!
//! What becomes of an arena's words is tried word for word in `crates/chappe/tests/broken/main.rs`; here a sample of it goes through
//! the command, and all that else can lie in the directory, or be in the way.

#[allow(dead_code, reason = "not every program uses all of it")]
#[path = "../../../chappe/tests/broken/cast.rs"]
pub mod cast;
#[path = "../../../chappe/tests/broken/damage.rs"]
mod damage;

use crate::place::{Place, Ran, Running, kill, not_tested, state, until};
use cast::{ARENA, Cast, OBJECTS, PART};
use damage::Whole;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the processes of this file do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(part) = std::env::var(PART) else { return };
    match part.as_str() {
        "changer" => {
            let arena = chappe::Arena::open("default").unwrap();
            std::mem::forget(arena.map().admin());
        }
        "locker" => lock_the_directory(),
        _ => return cast::act(&part),
    }
    std::fs::write("has-it", "").unwrap();
    loop {
        std::thread::park();
    }
}

/// As a process that creates or removes an arena does.
fn lock_the_directory() {
    let path = chappe::directory().unwrap().join(".lock");
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    // SAFETY: an all-zero flock is a valid value; the descriptor is open.
    unsafe {
        let mut range: libc::flock = std::mem::zeroed();
        range.l_type = libc::F_WRLCK as i16;
        assert_eq!(libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_SETLK, &range), 0);
    }
    std::mem::forget(file);
}

/// Starts a process of this file that takes something, and stops it when it has it.
fn stopped(here: &Place, part: &str) -> Running {
    let me = std::env::current_exe().unwrap();
    let mut c = here.program(me.to_str().unwrap(), &["--exact", "broken::actor", "--test-threads=1"]);
    let taker = Place::spawn(c.env(PART, part).stdout(Stdio::null()));
    until("it has it", || here.file("has-it").exists().then_some(()));
    taker.kill(libc::SIGSTOP);
    until("it has stopped", || (state(taker.pid()) == Some('T')).then_some(()));
    taker
}

/// Every command that looks.
const LOOKS: [&[&str]; 4] = [&["ls"], &["--json", "ls"], &["doctor"], &["--json", "doctor"]];

/// Runs one, which must end by itself and say something; JSON must be JSON.
#[track_caller]
fn looked(here: &Place, args: &[&str], what: &str) -> Ran {
    let ran = here.run(args);
    let how = || format!("{what}: {args:?}: {ran:?}");
    assert!(matches!(ran.status, Some(0 | 1)), "{}", how());
    assert!(!ran.err.contains("panicked"), "{}", how());
    let json = args[0] == "--json";
    for line in ran.err.lines() {
        let is_said = if json { serde_json::from_str::<serde_json::Value>(line).is_ok() } else { !line.is_empty() };
        assert!(is_said, "{}", how());
    }
    if json && !ran.out.is_empty() {
        assert!(serde_json::from_str::<serde_json::Value>(&ran.out).is_ok(), "{}", how());
    }
    // Nothing that could drive a terminal.
    let drives = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
    assert!(json || !(drives(&ran.out) || drives(&ran.err)), "{}", how());
    if ran.status == Some(1) && args.last() != Some(&"doctor") {
        assert!(!ran.err.is_empty(), "{}", how());
    }
    ran
}

#[track_caller]
fn look_at_all(here: &Place, what: &str) {
    for args in LOOKS {
        looked(here, args, what);
    }
}

/// How many damages of each image go through the commands.
const SAMPLE: u64 = 40;

#[test]
fn a_sample_of_damaged_arenas_goes_through_the_commands() {
    let scene = Place::new();
    let cast = Cast::start("broken::actor", &scene.arenas(), "victim-with-job");
    let seed = std::env::var("CHAPPE_TEST_SEED").map_or(1, |s| s.parse().unwrap());
    let whole = Whole::new(std::fs::read(scene.arenas().join(ARENA)).unwrap(), &cast.parts, seed);
    // As it is, nothing is wrong but the dead; `gone` and `removed` are.
    let here = Place::new();
    std::fs::copy(scene.arenas().join(ARENA), here.arenas().join(ARENA)).unwrap();
    for object in OBJECTS {
        let status = i32::from(["gone", "removed"].contains(&object));
        assert_eq!(
            looked(&here, &["show", &format!("{ARENA}/{object}")], "undamaged").status,
            Some(status),
            "{object}"
        );
    }
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            // Relaxed: a number of its own for each is all it is for.
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= SAMPLE {
                return;
            }
            // Spread over all of them, the same for the same seed.
            let damaged = whole.damaged((n * (whole.count() / SAMPLE) + seed % 97) % whole.count());
            let what = format!("CHAPPE_TEST_SEED={seed}: {}", damaged.how);
            let here = Place::new();
            std::fs::write(here.arenas().join(ARENA), &damaged.bytes).unwrap();
            looked(&here, LOOKS[n as usize % LOOKS.len()], &what);
            let objects = [OBJECTS[n as usize % OBJECTS.len()], OBJECTS[(seed + n * 5) as usize % OBJECTS.len()]];
            for object in objects.map(|object| format!("{ARENA}/{object}")) {
                looked(&here, &["show", &object], &what);
                looked(&here, &["--json", "show", &object], &what);
            }
            look_at_all(&here, &what);
        }
    };
    std::thread::scope(|s| {
        s.spawn(work);
        s.spawn(work);
    });
}

/// Everything that changes an arena, or what is in it; `A` stands for the arena, `O` for one of its objects.
const CHANGES: [&[&str]; 14] = [
    &["pool", "create", "A/new"],
    &["pool", "resize", "O", "3"],
    &["sem", "create", "A/fresh"],
    &["tube", "create", "A/tube", "--size", "4096"],
    &["map", "create", "A/map"],
    &["show", "O"],
    &["acquire", "--nonblock", "O", "--", "true"],
    &["rm", "O"],
    &["rm", "--force", "O"],
    &["pool", "rm", "--force", "A/new"],
    &["ls", "A"],
    &["doctor"],
    &["arena", "rm", "A"],
    &["arena", "rm", "--force", "A"],
];

/// What changes a damaged arena ends by itself: so many damages from number `from` on, some of its words or some bits of it.
fn change_damaged(from: u64, count: u64) {
    let scene = Place::new();
    let mut cast = Cast::start("broken::actor", &scene.arenas(), "victim");
    cast.kill_all();
    let seed = std::env::var("CHAPPE_TEST_SEED").map_or(1, |s| s.parse().unwrap());
    let whole = Whole::new(std::fs::read(scene.arenas().join(ARENA)).unwrap(), &cast.parts, seed);
    let next = AtomicU64::new(from);
    let work = || {
        loop {
            // Relaxed: a number of its own for each is all it is for.
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= from + count {
                return;
            }
            let damaged = if n.is_multiple_of(2) {
                whole.damaged(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) % whole.count())
            } else {
                whole.flipped(n)
            };
            let what = format!("CHAPPE_TEST_SEED={seed}, damage {n}: {}", damaged.how);
            let here = Place::new();
            std::fs::write(here.arenas().join(ARENA), &damaged.bytes).unwrap();
            let object = format!("{ARENA}/{}", OBJECTS[n as usize % OBJECTS.len()]);
            for args in CHANGES {
                let args: Vec<String> =
                    args.iter().map(|a| if *a == "O" { object.clone() } else { a.replace('A', ARENA) }).collect();
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let ran = here.run(&args);
                // 125: `acquire` itself has failed.
                let ended = matches!(ran.status, Some(0 | 1 | 124 | 125)) && !ran.err.contains("panicked");
                assert!(ended, "{what}: {args:?}: {ran:?}");
            }
        }
    };
    std::thread::scope(|s| {
        s.spawn(work);
        s.spawn(work);
    });
}

#[test]
fn commands_that_change_a_damaged_arena_end_by_themselves() {
    change_damaged(0, 6);
}

#[test]
#[ignore = "storm: 400 damaged arenas and 14 commands to each"]
fn any_command_on_any_damaged_arena_ends_by_itself() {
    change_damaged(1_000, 400);
}

#[test]
fn a_file_that_is_no_arena_is_named_and_the_others_are_shown() {
    let here = Place::new();
    here.ok(&["pool", "create", "good/p"]);
    let at = |name: &str| here.arenas().join(name);
    std::fs::write(at("empty"), "").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    symlink(at("loop"), at("loop")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let fifo = std::ffi::CString::new(at("fifo").to_str().unwrap()).unwrap();
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    std::fs::write(at("no name"), "").unwrap();
    std::fs::write(at("esc\u{1b}[2Jape"), "").unwrap();
    look_at_all(&here, "what is no arena");
    let listed = here.run(&["ls"]);
    assert!(listed.out.contains("good/p") && listed.status == Some(1), "{listed:?}");
    let health = here.run(&["doctor"]);
    for (name, why) in [
        ("directory", "it is no file"),
        ("fifo", "it is no file"),
        ("socket", "it is no file"),
        ("link", "is a symbolic link"),
        ("loop", "is a symbolic link"),
        ("empty", "is not an arena"),
        ("no name", "not a valid arena name"),
    ] {
        let says = |text: &str| text.lines().any(|l| l.contains(name) && l.contains(why));
        assert!(says(&listed.err) && says(&health.out), "{name}: {}{}", listed.err, health.out);
        let arg = format!("{name}/p");
        assert!(looked(&here, &["show", &arg], name).err.contains(why), "{name}");
    }
}

#[test]
fn a_lock_file_that_is_none_is_in_nobodys_way() {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    let lock = here.arenas().join(".lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    for state in [1, 3] {
        let file = std::fs::File::options().write(true).open(here.arenas().join("default")).unwrap();
        file.write_all_at(&[state], 20).unwrap();
        look_at_all(&here, "a directory for a lock");
        looked(&here, &["show", "p"], "a directory for a lock");
    }
}

#[test]
fn an_arena_without_read_permission_is_reported() {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return not_tested("an arena that its own user may not read: needs root, to be another user");
    }
    const OTHER: u32 = 65534;
    let here = Place::new();
    let as_other = |args: &[&str]| {
        let mut c = here.command(args);
        c.uid(OTHER).gid(OTHER);
        Place::spawn(&mut c).end()
    };
    chown(here.arenas(), Some(OTHER), Some(OTHER)).unwrap();
    for dir in [here.path().to_owned(), here.arenas()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let Ok(mut first) = here.command(&["pool", "create", "p"]).uid(OTHER).gid(OTHER).spawn() else {
        return not_tested("an arena that its own user may not read: another user cannot run the binary where it lies");
    };
    assert!(first.wait().unwrap().success());
    std::fs::set_permissions(here.arenas().join("default"), PermissionsExt::from_mode(0o0)).unwrap();
    for args in [&["ls"][..], &["doctor"], &["show", "p"]] {
        let ran = as_other(args);
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert!(format!("{}{}", ran.out, ran.err).contains("Permission denied"), "{ran:?}");
    }
    std::fs::set_permissions(here.arenas().join("default"), PermissionsExt::from_mode(0o600)).unwrap();
    chown(here.arenas().join("default"), Some(0), Some(0)).unwrap();
    look_at_all(&here, "of another owner");
    std::fs::set_permissions(here.arenas(), PermissionsExt::from_mode(0o0)).unwrap();
    let ran = as_other(&["ls"]);
    assert!(ran.status == Some(1) && ran.err.contains("Permission denied"), "{ran:?}");
}

#[test]
fn a_remover_that_is_stopped_holds_up_nobody_who_looks() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    let locker = stopped(&here, "locker");
    // It has begun to remove the arena, and has not decided.
    let file = std::fs::File::options().write(true).open(here.arenas().join("default")).unwrap();
    file.write_all_at(&[3], 20).unwrap();
    look_at_all(&here, "a stopped remover");
    assert!(here.ok(&["show", "p"]).contains("held by pid"));
    let health = here.ok(&["doctor"]);
    let by = format!("pid {} `", locker.pid());
    assert!(health.contains(&by) && health.contains("(stopped) has the lock of the directory"), "{health}");
    assert!(health.contains("is just being removed by somebody who does not get on"), "{health}");
    // A process that wants to be a member is told so, and does not wait for ever.
    let why = here.fails(125, &["acquire", "p", "--", "true"]);
    assert!(why.contains("is just being removed by somebody who does not get on"), "{why}");
    kill(locker.pid(), libc::SIGKILL);
    locker.end();
    assert!(!here.ok(&["doctor"]).contains("lock of the directory"));
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
    here.ok(&["acquire", "p", "--", "true"]);
}

#[test]
fn a_process_stopped_while_it_makes_an_object_holds_up_no_look() {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    let changer = stopped(&here, "changer");
    look_at_all(&here, "a stopped maker");
    assert!(here.ok(&["show", "p"]).starts_with("p: 1 permit, 1 free"));
    let health = here.ok(&["doctor"]);
    assert!(health.contains("(stopped) has had the right to make and remove objects"), "{health}");
    here.ok(&["acquire", "p", "--", "true"]);
    kill(changer.pid(), libc::SIGKILL);
    changer.end();
    assert!(!here.ok(&["doctor"]).contains("right to make and remove"));
    here.ok(&["pool", "create", "q"]);
}

#[test]
fn members_that_are_stopped_and_zombies_are_looked_at() {
    let here = Place::new();
    let cast = Cast::start("broken::actor", &here.arenas(), "victim");
    look_at_all(&here, "stopped members");
    let health = here.ok(&["doctor"]);
    let holder = format!("pid {} `", cast.holder.pid());
    let line = health.lines().find(|l| l.contains(&holder) && l.contains("is stopped, and has")).unwrap_or(&health);
    assert!(line.contains("mutex `whole/held`"), "{health}");
    // A zombie: dead, and nobody has waited for it.
    kill(cast.waiters.pid(), libc::SIGKILL);
    until("a zombie", || (state(cast.waiters.pid()) == Some('Z')).then_some(()));
    look_at_all(&here, "a zombie");
    assert_eq!(here.json(&["show", "whole/none"])["waiters"].as_array().unwrap().len(), 0);
}

#[test]
fn a_directory_of_other_things_is_told_in_a_line_and_left_as_it_is() {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    here.ok(&["arena", "rm", "default"]);
    let names: Vec<String> = (0..20).map(|n| format!("note-{n}")).collect();
    for name in &names {
        std::fs::write(here.arenas().join(name), "mine\n").unwrap();
    }
    let listed = here.run(&["ls"]);
    let says =
        format!("{} looks like no directory of arenas: none of the 20 things in it is one", here.arenas().display());
    assert!(
        listed.status == Some(1) && listed.err.contains(&says) && listed.err.lines().count() == 1,
        "{}",
        listed.err
    );
    let health = here.run(&["doctor"]);
    assert!(health.status == Some(1) && health.out.contains(&says) && !health.out.contains("note-1"), "{}", health.out);
    for name in &names {
        assert!(here.fails(1, &["arena", "rm", "--force", name]).contains("chappe leaves it as it is"));
        assert_eq!(std::fs::read(here.arenas().join(name)).unwrap(), b"mine\n");
    }
    // Beside an arena each is named.
    here.ok(&["pool", "create", "p"]);
    assert_eq!(here.run(&["ls"]).err.lines().count(), 20);
}
