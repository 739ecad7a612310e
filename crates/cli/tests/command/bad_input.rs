//! What is wrong is said so that one knows what to do.

use crate::place::{CHAPPE, Place, kill};
use serde_json::Value;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    assert!(text.starts_with("chappe: ") || text.starts_with("error: "), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

fn is_root() -> bool {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn an_unknown_pool_names_those_that_are_there_and_the_command_that_makes_one() {
    let here = Place::new();
    let parts = ["no pool `gpu9` in arena `default`", "`chappe pool create gpu9` makes one"];
    says(&here.fails(125, &["acquire", "gpu9", "--", "true"]), &parts);
    says(&here.fails(125, &["acquire", "gpu9", "--", "true"]), &["no pools exist here yet"]);
    here.ok(&["pool", "create", "gpu0"]);
    says(&here.fails(1, &["release", "gpu9"]), &["there is only `gpu0`"]);
    here.ok(&["pool", "create", "gpu1"]);
    for args in [&["pool", "rm", "gpu9"][..], &["pool", "resize", "gpu9", "2"], &["release", "gpu9"]] {
        says(&here.fails(1, args), &parts);
        says(&here.fails(1, args), &["there are `gpu0`, `gpu1`"]);
    }
    says(&here.fails(1, &["pool", "rm", "lab/x"]), &["no pool `lab/x`", "`chappe pool create lab/x` makes one"]);
    here.ok(&["pool", "create", "lab/y"]);
    says(&here.fails(1, &["pool", "rm", "lab/x"]), &["there is only `lab/y`"]);
    here.ok(&["pool", "create", "alone", "lab/alone"]);
    assert!(here.ok(&["ls", "alone"]).contains("alone  pool"));
    assert!(here.ok(&["ls", "lab/alone"]).contains("lab/alone  pool"));
    here.ok(&["rm", "alone", "lab/alone"]);
    says(&here.fails(1, &["ls", "nowhere"]), &["no arena `nowhere`", "`chappe arena create nowhere` makes one"]);
    says(&here.fails(1, &["arena", "rm", "nowhere"]), &["no arena `nowhere`"]);
}

#[test]
fn a_bad_name_says_what_is_wrong_with_it() {
    let here = Place::new();
    let long = "x".repeat(48);
    for (name, what, why) in [
        ("", "pool", "it is empty"),
        (long.as_str(), "pool", "it has 48 bytes"),
        (".hidden", "pool", "it starts with `.`"),
        ("a b", "pool", "it contains ' '"),
        ("a/b/c", "pool", "it contains '/'"),
        ("lab/", "pool", "it is empty"),
        ("/x", "pool", "it is a path"),
        ("../x", "pool", "it is a path"),
        (".x/y/z", "pool", "it is a path"),
        ("gpü", "pool", "it contains 'ü'"),
        ("new\nline", "pool", "it contains '\\n'"),
    ] {
        let parts = [&format!("not a valid {what} name")[..], why, "allowed: 1 to 47 of"];
        says(&here.fails(1, &["pool", "create", name]), &parts);
        says(&here.fails(125, &["acquire", "--create", name, "--", "true"]), &parts);
    }
    says(&here.fails(1, &["arena", "create", "a/b"]), &["`a/b` is not a valid arena name"]);
}

#[test]
fn an_error_about_a_number_says_which_number_is_wanted() {
    let here = Place::new();
    for (status, args, wanted) in [
        (2, &["pool", "create", "p", "--permits", "x"][..], "How many permits it has"),
        (2, &["pool", "resize", "p", ""], "The new number of permits"),
        (2, &["pool", "create", "p", "-p", "99999999999999999999999"], "How many permits it has"),
        (125, &["acquire", "-n", "x", "p", "--", "true"], "permits of the pool at once"),
        (125, &["acquire", "--priority", "high", "p", "--", "true"], "(0 to 255)"),
        (125, &["acquire", "--create=x", "p", "--", "true"], "with this many permits"),
        (125, &["jobserver", "-p", "x", "--", "true"], "How many jobs"),
        (125, &["--json", "jobserver", "-p", "x", "--", "true"], "How many jobs"),
        (2, &["release", "p", "first"], "Which of the pool's permits"),
        (2, &["recv", "-n", "x", "t"], "End after so many records"),
        (2, &["threads", "x"], "The process"),
    ] {
        let text = here.fails(status, args);
        assert!(text.contains(wanted) && text.contains("write a ") && !text.contains("digit"), "{args:?}: {text}");
    }
}

#[test]
fn permits_must_be_possible() {
    let here = Place::new();
    for n in ["0", "2147483648", "4294967295"] {
        let parts = [&format!("a pool cannot have {n} permits")[..], "between 1 and"];
        says(&here.fails(1, &["pool", "create", "p", "--permits", n]), &parts);
        says(&here.fails(125, &["acquire", &format!("--create={n}"), "p", "--", "true"]), &parts);
    }
    let huge = ["a pool cannot have 99999999999 permits", "more than any pool can have"];
    says(&here.fails(1, &["pool", "create", "p", "-p", "99999999999"]), &huge);
    says(&here.fails(2, &["pool", "create", "p", "--permits", "-1"]), &["-1"]);
    says(&here.fails(2, &["pool", "create", "p", "--permits", "some"]), &["some"]);
    here.ok(&["pool", "create", "p"]);
    says(&here.fails(1, &["pool", "resize", "p", "0"]), &["a pool cannot have 0 permits"]);
    says(&here.fails(2, &["tube", "create", "t", "--size", "0"]), &["a tube's records cannot have 0 bytes"]);
    assert_eq!(here.free("p"), 1);
}

#[test]
fn create_with_other_permits_than_it_has_is_refused() {
    let here = Place::new();
    here.ok(&["pool", "create", "p", "--permits", "2"]);
    let parts = ["pool `p` has 2 permit(s), not 3", "chappe pool resize p 3"];
    says(&here.fails(125, &["acquire", "--create=3", "p", "--", "true"]), &parts);
    says(&here.fails(1, &["pool", "create", "p"]), &["pool `p` is already there, with 2 permit(s)"]);
    here.ok(&["arena", "create", "lab"]);
    says(&here.fails(1, &["arena", "create", "lab"]), &["arena `lab` is already there", "chappe arena rm lab"]);
}

/// Runs `change` on the file of an arena with one pool, and says what chappe says then.
fn spoilt(change: impl FnOnce(&std::fs::File)) -> String {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    let path = here.arenas().join("default");
    change(&std::fs::File::options().write(true).open(&path).unwrap());
    let text = here.fails(125, &["acquire", "--create", "p", "--", "true"]);
    says(&text, &[path.to_str().unwrap()]);
    assert_eq!(here.fails(1, &["show", "p"]), text);
    assert_eq!(here.fails(1, &["pool", "create", "q"]), text);
    let health = here.run(&["doctor"]);
    assert_eq!(health.status, Some(1));
    assert!(
        health.out.contains("default: cannot be used: ")
            && health.out.contains(text.trim_start_matches("chappe: ").trim())
    );
    let listed = here.run(&["ls"]);
    assert_eq!((listed.status, &listed.err), (Some(1), &text));
    assert_eq!(here.fails(1, &["arena", "rm", "default"]), text);
    if text.contains("is not an arena") {
        // It may be anybody's file.
        let before = std::fs::read(&path).unwrap();
        assert_eq!(here.fails(1, &["arena", "rm", "default", "--force"]), text);
        assert!(std::fs::read(&path).unwrap() == before);
        std::fs::remove_file(&path).unwrap();
    } else {
        here.ok(&["arena", "rm", "default", "--force"]);
    }
    here.ok(&["acquire", "--create", "p", "--", "true"]);
    text
}

#[test]
fn a_spoilt_arena_is_refused_with_what_is_wrong() {
    says(
        &spoilt(|f| f.write_all_at(b"not chappe", 0).unwrap()),
        &["is not an arena", "move it away, or set CHAPPE_DIR"],
    );
    says(&spoilt(|f| f.set_len(0).unwrap()), &["is not an arena"]);
    says(&spoilt(|f| f.set_len(20).unwrap()), &["is truncated: 20 bytes where", "chappe arena rm --force default"]);
    says(&spoilt(|f| f.set_len(8192).unwrap()), &["is truncated: 8192 bytes where"]);
    let version = |f: &std::fs::File| f.write_all_at(&77u32.to_le_bytes(), 8).unwrap();
    says(&spoilt(version), &["has layout version 77", "this chappe speaks version", "chappe arena rm --force default"]);
    let abi = |f: &std::fs::File| f.write_all_at(&0x6409_u32.to_le_bytes(), 12).unwrap();
    says(&spoilt(abi), &["another C library or processor"]);
    let sizes = |f: &std::fs::File| f.write_all_at(&0u32.to_le_bytes(), 40).unwrap();
    says(&spoilt(sizes), &["is damaged: its header's sizes contradict each other", "chappe arena rm --force default"]);
}

#[test]
fn another_users_arena_and_directory_are_refused() {
    let here = Place::new();
    // Only the super-user can give a file away; others meet a directory that lets others in.
    if is_root() {
        here.ok(&["pool", "create", "p"]);
        chown(here.arenas().join("default"), Some(65534), None).unwrap();
        let parts = ["belongs to user 65534, not to", "set CHAPPE_DIR"];
        says(&here.fails(125, &["acquire", "p", "--", "true"]), &parts);
        chown(here.arenas().join("default"), Some(0), None).unwrap();
        here.ok(&["acquire", "p", "--", "true"]);
        chown(here.arenas(), Some(65534), None).unwrap();
        says(&here.fails(125, &["acquire", "p", "--", "true"]), &parts);
        chown(here.arenas(), Some(0), None).unwrap();
    }
    std::fs::set_permissions(here.arenas(), PermissionsExt::from_mode(0o777)).unwrap();
    says(
        &here.fails(125, &["acquire", "--create", "q", "--", "true"]),
        &["has mode 777, which lets others in", "chmod 1777"],
    );
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let here = Place::new();
    symlink(here.arenas(), here.file("link")).unwrap();
    let mut c = here.command(&["acquire", "--create", "p", "--", "true"]);
    let ran = Place::spawn(c.env("CHAPPE_DIR", here.file("link"))).end();
    assert_eq!(ran.status, Some(125));
    says(&ran.err, &["/link is a symbolic link", "set CHAPPE_DIR to where it points"]);
    symlink("/etc/passwd", here.arenas().join("default")).unwrap();
    says(&here.fails(125, &["acquire", "--create", "p", "--", "true"]), &["/default is a symbolic link"]);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let here = Place::new();
    for args in [&["ls"][..], &["pool", "create", "p"], &["doctor"]] {
        let ran = Place::spawn(here.command(args).env("CHAPPE_DIR", here.file("nowhere"))).end();
        assert_eq!(ran.status, Some(1));
        says(&ran.err, &["cannot open directory", "/nowhere", "No such file"]);
        says(&ran.err, &["which CHAPPE_DIR names", "mkdir -m 700", "or unset CHAPPE_DIR"]);
    }
    let mut send = here.command(&["send", "t"]);
    let ran = Place::spawn(send.env("CHAPPE_DIR", here.file("nowhere"))).end();
    says(&ran.err, &["after 0 records", "or unset CHAPPE_DIR"]);
    assert_eq!(ran.err.matches("No such file").count(), 1, "the cause is said once: {}", ran.err);
}

#[test]
fn removed_while_in_use() {
    for arena in [false, true] {
        let here = Place::new();
        let (holder, job) = here.holder("a", &["--create", "p"]);
        let waiter = here.job(&["p"], "true");
        here.wait_for_waiters("p", 1);
        let (pool_rm, arena_rm) = (["pool", "rm", "p"], ["arena", "rm", "default"]);
        let first = format!("pid {}", holder.pid());
        says(&here.fails(1, &pool_rm), &["pool `p` is in use: 1 permit(s) held", &first, "1 waiting", "--force"]);
        says(&here.fails(1, &arena_rm), &["arena `default` is in use by 2 member(s)", "--force"]);
        let rm: &[&str] = if arena { &arena_rm } else { &pool_rm };
        here.ok(&[rm, &["--force"]].concat());
        let ran = waiter.end();
        assert_eq!(ran.status, Some(125));
        says(&ran.err, &["pool `p` was removed while it was in use"]);
        assert!(crate::place::runs(job), "its job goes on");
        let gone = here.fails(1, &["show", "p"]);
        says(&gone, &["no object `p`"]);
        here.ok(&["acquire", "--create", "p", "--", "true"]);
        here.go("a");
        assert_eq!(holder.end().status, Some(0));
    }
}

#[test]
fn a_full_file_system_is_an_error_and_no_crash() {
    let parts =
        ["no room for arena `default`", "bytes needed in", ", or make a smaller one first (`chappe arena create"];
    let here = Place::new();
    let mut limited = here.command(&["acquire", "--create", "p", "--", "true"]);
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        limited.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 65536, rlim_max: 65536 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            Ok(())
        });
    }
    let ran = Place::spawn(&mut limited).end();
    assert_eq!(ran.status, Some(125), "{ran:?}");
    says(&ran.err, &parts);
    if is_root() {
        let mut full = here.command(&["acquire", "--create", "p", "--", "true"]);
        on_a_small_tmpfs(&mut full, &here);
        let ran = Place::spawn(&mut full).end();
        assert_eq!(ran.status, Some(125), "{ran:?}");
        says(&ran.err, &parts);
        let mut small =
            here.command(&["arena", "create", "default", "--members=4", "--objects=4", "--cells=4", "--data=64"]);
        on_a_small_tmpfs(&mut small, &here);
        assert_eq!(Place::spawn(&mut small).end().status, Some(0));
    }
    assert_eq!(
        std::fs::read_dir(here.arenas()).unwrap().filter(|e| e.as_ref().unwrap().file_name() != ".lock").count(),
        0
    );
}

/// An arena that exists has its room; the record of whose job has a permit takes some beside it.
#[test]
fn a_job_is_not_started_where_its_record_has_no_room() {
    if !is_root() {
        return;
    }
    let here = Place::new();
    let script = format!(
        "c() {{ {CHAPPE} \"$@\"; echo $?; }}; c arena create default --members=4 --objects=8 --cells=4 --data=64
         c pool create p; cat /dev/zero >$CHAPPE_DIR/.filler 2>/dev/null
         c acquire p -- echo started; c lock l -- echo started; rm $CHAPPE_DIR/.filler; c acquire p -- echo started"
    );
    let mut filled = Command::new("sh");
    filled.args(["-c", &script]).env("CHAPPE_DIR", here.arenas());
    filled.stdout(Stdio::piped()).stderr(Stdio::piped());
    on_a_tmpfs(&mut filled, &here, c"size=256k,mode=700");
    let ran = Place::spawn(&mut filled).end();
    let told = format!("; make room in {0} (`df {0}` shows what is left)", here.arenas().display());
    assert_eq!(ran.err.matches("cannot write down in ").count(), 2, "{ran:?}");
    assert_eq!(ran.err.matches(&told).count(), 2, "{ran:?}");
    assert_eq!(ran.err.matches("No space left on device").count(), 2, "each says it once: {ran:?}");
    let ends: Vec<&str> = ran.out.lines().filter(|l| l.parse::<u8>().is_ok() || *l == "started").collect();
    assert_eq!(ends, ["0", "0", "125", "125", "started", "0"], "{ran:?}");
}

/// An arena takes memory for the objects that there are, in steps of 1,024.
#[test]
fn more_objects_than_there_is_memory_for_are_an_error_and_no_signal() {
    if !is_root() {
        return;
    }
    let here = Place::new();
    let names = |range: std::ops::Range<u32>| range.map(|n| format!("s{n}")).collect::<Vec<_>>().join(" ");
    let script = format!(
        "c() {{ {CHAPPE} \"$@\"; echo $?; }}; c arena create default --members=4 --objects=2048 --cells=4 --data=64
         c sem create {} >/dev/null && c sem create s1024; c sem create s1025; c sem up s1023",
        names(0..1024)
    );
    let mut filled = Command::new("sh");
    filled.args(["-c", &script]).env("CHAPPE_DIR", here.arenas());
    filled.stdout(Stdio::piped()).stderr(Stdio::piped());
    // What 1,024 take, and half of what the others would.
    on_a_tmpfs(&mut filled, &here, c"size=256k,mode=700");
    let ran = Place::spawn(&mut filled).end();
    says(&ran.err, &["no room for arena `default`: 131072 bytes needed in"]);
    let ends: Vec<&str> = ran.out.lines().filter(|l| l.parse::<u8>().is_ok()).collect();
    assert_eq!(ends, ["0", "1", "1", "0"], "{ran:?}");
}

/// Data takes memory when somebody first has it: where there is no more, what was to have it is not made, and what is there serves.
#[test]
fn more_data_than_there_is_memory_for_is_an_error_and_no_signal() {
    if !is_root() {
        return;
    }
    let here = Place::new();
    let script = format!(
        "c() {{ {CHAPPE} \"$@\"; echo $?; }}; c tube create --size=16K a; c tube create --size=1M b >/dev/null
         c tube create --size=16K d; echo x | {CHAPPE} send a; {CHAPPE} recv a; echo $?"
    );
    let mut filled = Command::new("sh");
    filled.args(["-c", &script]).env("CHAPPE_DIR", here.arenas());
    filled.stdout(Stdio::piped()).stderr(Stdio::piped());
    // What the arena takes without data, two small tubes of 256 KiB, and not one of 16 MiB: of which nothing stays taken.
    on_a_tmpfs(&mut filled, &here, c"size=4m,mode=700");
    let ran = Place::spawn(&mut filled).end();
    says(&ran.err, &["no room for arena `default`: 167", "bytes needed in"]);
    assert_eq!((ran.status, ran.signal), (Some(0), None), "{ran:?}");
    let ends: Vec<&str> = ran.out.lines().filter(|l| l.len() == 1).collect();
    assert_eq!(ends, ["0", "0", "x", "0"], "{ran:?}");
}

/// In a mount namespace of the process's own, which goes with it.
fn on_a_small_tmpfs(command: &mut Command, here: &Place) {
    on_a_tmpfs(command, here, c"size=64k,mode=700");
}

fn on_a_tmpfs(command: &mut Command, here: &Place, options: &'static std::ffi::CStr) {
    let at = std::ffi::CString::new(here.arenas().into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: system calls only, between fork and exec; all strings are C strings that live as long as the closure.
    unsafe {
        command.pre_exec(move || {
            let done = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    c"none".as_ptr(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
                && libc::mount(c"t".as_ptr(), at.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

#[test]
fn a_full_member_table_is_an_error_once_the_dead_are_recovered() {
    let here = Place::new();
    here.ok(&["arena", "create", "default", "--members", "2"]);
    let (a, job) = here.holder("a", &["--create", "p"]);
    let (_b, _) = here.holder("b", &["--create", "q"]);
    let parts = ["arena `default` has all its 2 member slots in use", "chappe arena create --members"];
    says(&here.fails(125, &["acquire", "p", "--", "true"]), &parts);
    says(&here.fails(1, &["pool", "create", "r"]), &parts);
    a.kill(libc::SIGKILL);
    kill(job, libc::SIGKILL);
    a.end();
    here.ok(&["acquire", "--timeout", "1h", "p", "--", "true"]);
}

#[test]
fn full_tables_say_what_is_full() {
    let here = Place::new();
    here.ok(&["arena", "create", "default", "--objects", "2", "--cells", "3"]);
    here.ok(&["pool", "create", "a", "--permits", "4"]);
    says(&here.fails(1, &["pool", "create", "b", "--permits", "2"]), &["no room for", "--cells"]);
    here.ok(&["pool", "create", "b"]);
    says(&here.fails(1, &["pool", "create", "c"]), &["it has 2 objects", "--objects"]);
    says(&here.fails(1, &["pool", "resize", "b", "3"]), &["--cells"]);
    says(&here.fails(1, &["arena", "create", "x", "--members", "0"]), &["an arena cannot have 0 members"]);
    says(&here.fails(1, &["arena", "create", "x", "--members", "99999"]), &["an arena cannot have 99999 members"]);
}

#[test]
fn a_choice_is_within_one_arena() {
    let here = Place::new();
    let err = here.fails(125, &["acquire", "--create", "x", "lab/x", "--", "true"]);
    says(&err, &["one choice cannot wait in two arenas, `default` and `lab`"]);
}

#[test]
fn a_kernel_without_waitv_is_made_do_with() {
    let here = Place::new();
    let doctor = Place::spawn(here.command(&["doctor"]).env("CHAPPE_NO_WAITV", "1")).end();
    assert_eq!(doctor.status, Some(0));
    assert!(doctor.out.contains("no futex_waitv") && doctor.out.contains("watched by pidfd"), "{doctor:?}");
    let (a, job) = here.holder("a", &["--create", "p"]);
    let mut c = here.command(&["acquire", "p", "--", "echo", "next"]);
    let next = Place::spawn(c.env("CHAPPE_NO_WAITV", "1"));
    here.wait_for_waiters("p", 1);
    a.kill(libc::SIGKILL);
    kill(job, libc::SIGKILL);
    assert_eq!(next.end().out, "next\n");
}

#[test]
fn wrong_usage_is_explained() {
    let here = Place::new();
    says(
        &here.fails(125, &["acquire", "p", "--timeout", "soon", "--", "true"]),
        &["`soon` is not a duration", "write 500ms, 30s"],
    );
    says(&here.fails(125, &["acquire", "p", "--timeout=1s", "--nonblock", "--", "true"]), &["cannot be used with"]);
    says(&here.fails(125, &["acquire", "p"]), &["behind `--`: chappe acquire p -- COMMAND"]);
    says(&here.fails(125, &["acquire", "-n", "2", "p", "make", "-j"]), &["chappe acquire -n 2 p -- make -j"]);
    says(&here.fails(125, &["watch", "x.free > 1"]), &["behind `--`: chappe watch 'x.free > 1' -- COMMAND"]);
    says(&here.fails(125, &["acquire", "p", "--timeout", "1s", "true"]), &["chappe acquire --timeout 1s p -- true"]);
    says(&here.fails(2, &["lss"]), &["'lss'", "'ls'"]);
}

#[test]
fn wrong_usage_is_explained_as_json_too() {
    let here = Place::new();
    for (status, args, why) in [
        (125, &["--json", "acquire", "-n", "0", "p", "--", "true"][..], "0 is not in"),
        (125, &["jobserver", "--json", "--", "true"], "--permits <N>"),
        (125, &["--json", "lock", "l", "true"], "behind `--`: chappe lock l -- true"),
        (2, &["lss", "--json"], "'lss'"),
        (2, &["--json"], "Usage"),
    ] {
        let said = here.fails(status, args);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"));
        let text = said["error"].as_str().unwrap();
        assert!(text.contains(why) && !text.starts_with("error"), "{args:?}: {said}");
        assert_eq!(said["status"], status, "{args:?}");
    }
    // The job's own.
    says(&here.fails(125, &["acquire", "-n", "0", "p", "--", "true", "--json"]), &["0 is not in"]);
    assert!(here.ok(&["--json", "--help"]).contains("Usage"));
}

#[cfg(not(feature = "graph"))]
#[test]
fn a_command_without_graphs_says_what_builds_them_in() {
    let here = Place::new();
    for args in [&["graph", "kinds"][..], &["graph", "run", "-"]] {
        says(&here.fails(1, args), &["built without graphs (feature `graph`)", "--path crates/cli --features full`"]);
    }
}

#[test]
fn names_that_are_paths_and_permits_that_are_not_there_are_refused_with_the_reason() {
    let here = Place::new();
    here.ok(&["lock", "l", "--", "true"]);
    let refused = here.fails(1, &["release", "l"]);
    assert!(
        refused.contains("only permits of pools are released") && refused.contains("chappe rm l --force"),
        "{refused}"
    );
    here.ok(&["pool", "create", "a"]);
    for args in [&["release", "a", "7"][..], &["release", "a:7", "--force"]] {
        let refused = here.fails(1, args);
        assert!(refused.contains("pool `a` has no permit 7: it has 1 permit, from 0 on"), "{refused}");
    }
    for name in ["/tmp/foo.lock", "./foo", "/x", "../a"] {
        let refused = here.fails(125, &["lock", name, "--", "true"]);
        assert!(
            refused.contains(&format!("`{name}` is not a valid readers-writer lock name: it is a path")),
            "{refused}"
        );
        assert!(here.fails(125, &["acquire", name, "--", "true"]).contains("it is a path"));
        assert!(here.fails(1, &["show", name]).contains("it is a path"));
    }
    for args in [&["acquire", "a", "--timeout", "-1", "--", "true"][..], &["lock", "l", "-w", "-1", "--", "true"]] {
        let refused = here.fails(125, args);
        assert!(refused.contains("invalid value '-1'") && !refused.contains("as a value, use"), "{refused}");
    }
    let refused = here.fails(125, &["acquire", "--create", "-I", "{}", "--", "train", "{}"]);
    assert!(refused.contains("it named none"), "{refused}");
    assert!(here.fails(125, &["lock", "-x", "l", "--", "true"]).contains("an option of flock"));
}

#[test]
fn a_closed_stdin_or_stdout_is_an_error_of_each_command_that_uses_it() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "8"]);
    here.ok(&["map", "create", "m"]);
    for (line, closed) in [
        ("$CHAPPE send t <&-", "cannot read stdin: it is closed"),
        ("$CHAPPE query 'select count()' <&-", "cannot read stdin: it is closed"),
        ("$CHAPPE map watch m >&-", "cannot write to stdout: it is closed"),
    ] {
        let ran = Place::spawn(&mut here.program("sh", &["-c", line])).end();
        assert!(ran.status != Some(0) && ran.err.contains(closed), "{line}: {ran:?}");
    }
}
