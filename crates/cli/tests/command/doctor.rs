//! What `chappe doctor` finds with processes and files, and says of it. What it finds in an arena's words is tested in
//! `crates/chappe/tests/between_processes/doctor.rs`; that it never hangs, in `broken`.

use crate::broken::cast::{Cast, PART};
use crate::place::{Place, Running, kill, state, until};
use serde_json::Value;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// What the processes of this file do; nothing when it is run as a test.
#[test]
fn actor() {
    if std::env::var(PART).as_deref() != Ok("half-maker") {
        return;
    }
    let dir = std::fs::File::open(chappe::directory().unwrap()).unwrap();
    // SAFETY: a C string and an open directory; the file and its mapping are this process's alone.
    let file = unsafe {
        let fd = libc::openat(dir.as_raw_fd(), c".".as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o600);
        assert!(fd >= 0);
        let file = std::fs::File::from_raw_fd(fd);
        file.set_len(8192).unwrap();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        assert_ne!(libc::mmap(std::ptr::null_mut(), 8192, rights, libc::MAP_SHARED, fd, 0), libc::MAP_FAILED);
        file
    };
    std::mem::forget(file);
    std::fs::write("has-it", "").unwrap();
    loop {
        std::thread::park();
    }
}

fn actor_of(here: &Place, part: &str) -> Running {
    let me = std::env::current_exe().unwrap();
    let mut c = here.program(me.to_str().unwrap(), &["--exact", "doctor::actor", "--test-threads=1"]);
    Place::spawn(c.env(PART, part).stdout(Stdio::null()))
}

fn stop(process: &Running) {
    process.kill(libc::SIGSTOP);
    until("it has stopped", || (state(process.pid()) == Some('T')).then_some(()));
}

/// The findings of a kind: those of all arenas, and those around them.
fn found(here: &Place, kind: &str) -> Vec<Value> {
    let health = here.json(&["doctor"]);
    let arenas = health["arenas"].as_array().unwrap().iter().flat_map(|a| a["findings"].as_array().unwrap());
    let all = arenas.chain(health["around"].as_array().unwrap());
    all.filter(|f| f["kind"] == kind).cloned().collect()
}

fn says(finding: &Value, part: &str, text: &str) -> bool {
    finding[part].as_str().is_some_and(|t| t.contains(text))
}

#[test]
fn the_dead_are_named_with_what_they_had() {
    let here = Place::new();
    let _cast = Cast::start("broken::actor", &here.arenas(), "victim");
    let all = found(&here, "dead-member");
    // Of the victim: its thread, and what stands for the process.
    let [thread, process] = &all[..] else { panic!("{all:?}") };
    for had in [
        "permit 0 of pool `whole/one`",
        "of pool `whole/many`",
        "mutex `whole/left`, mutex `whole/torn`",
        "1 unsent message(s) in tube `whole/tube`",
        "2 unreleased message(s) of tube `whole/tube`",
        "1 unreleased message(s) of tube `whole/dropping`",
    ] {
        assert!(says(thread, "what", had), "{had}: {thread}");
    }
    for done in ["its permits are free", "who locks its mutexes next is told", "comes once more, or is dropped"] {
        assert!(says(thread, "done", done), "{done}: {thread}");
    }
    for had in ["of pool `whole/owned`", "a sending end of tube `whole/single`", "a receiving end of tube `whole/tube`"]
    {
        assert!(says(process, "what", had), "{had}: {process}");
    }
    assert!(says(process, "done", "it has left its tubes"), "{process}");
    assert_eq!(found(&here, "dead-member"), Vec::<Value>::new(), "once");
    assert!(found(&here, "torn-mutex").iter().any(|f| says(f, "what", "`whole/torn`")));
    assert!(found(&here, "condemned-mutex").iter().any(|f| says(f, "advice", "`chappe rm whole/condemned`")));
    assert_eq!(found(&here, "removed-in-use").len(), 2);
}

#[test]
fn a_stopped_holder_is_named() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    assert_eq!(found(&here, "stuck-member"), Vec::<Value>::new());
    stop(&holder);
    let all = found(&here, "stuck-member");
    assert!(all.len() == 1 && says(&all[0], "what", "is stopped, and has permit 0 of pool `p`"), "{all:?}");
    assert!(says(&all[0], "advice", &format!("`kill -CONT {}`", holder.pid())), "{all:?}");
    kill(holder.pid(), libc::SIGCONT);
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
}

#[test]
fn two_versions_run_side_by_side_and_doctor_tells_when_the_older_is_done() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    // To this chappe, the job's is of another version from now on: no program reads that word again once it has the arena.
    let file = std::fs::File::options().write(true).open(here.arenas().join("default")).unwrap();
    file.write_all_at(&77u32.to_le_bytes(), 8).unwrap();
    assert!(here.fails(125, &["acquire", "p", "--", "true"]).contains("has layout version 77"));
    let said = || here.run(&["doctor"]).out;
    let text = said();
    let by = format!("is of another version of chappe, and still in use by pid {} `chappe`", holder.pid());
    assert!(text.contains(&by) && text.contains("by CHAPPE_DIR meanwhile"), "{text}");
    // As that advises.
    let other = Place::new();
    other.ok(&["acquire", "--create", "p", "--", "true"]);
    // Its chappe is killed; the job keeps the permit.
    holder.kill(libc::SIGKILL);
    holder.status();
    let text = said();
    assert!(text.contains("still in use by a job whose chappe was killed"), "{text}");
    here.go("a");
    until("the job's end", || said().contains("no process that is seen from here uses it any more").then_some(()));
    assert!(here.fails(1, &["arena", "rm", "default"]).contains("has layout version 77"));
    here.ok(&["arena", "rm", "default", "--force"]);
    here.ok(&["acquire", "--create", "p", "--", "true"]);
}

#[test]
fn an_arena_that_lost_its_file_is_named_with_those_who_still_use_it() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    let by = format!("pid {} `chappe`", holder.pid());
    std::fs::remove_file(here.arenas().join("default")).unwrap();
    let all = found(&here, "unlinked-arena");
    assert!(all.len() == 1 && says(&all[0], "what", &by), "{all:?}");
    assert!(
        says(&all[0], "what", "arena `default` has lost its file") && says(&all[0], "what", "nothing has its name now")
    );
    here.ok(&["pool", "create", "p"]);
    let all = found(&here, "unlinked-arena");
    assert!(
        all.len() == 1 && says(&all[0], "what", &by) && says(&all[0], "what", "another one has its name"),
        "{all:?}"
    );
    assert!(here.ok(&["doctor"]).contains("they are cut off from all processes that open that name"));
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
    assert_eq!(found(&here, "unlinked-arena"), Vec::<Value>::new());
}

#[test]
fn an_arena_that_was_removed_by_force_is_not_taken_for_one_that_lost_its_file() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    here.ok(&["arena", "rm", "default", "--force"]);
    let all = found(&here, "removed-arena");
    assert!(all.len() == 1 && says(&all[0], "what", &format!("while pid {} `chappe` had it", holder.pid())), "{all:?}");
    assert_eq!(found(&here, "unlinked-arena"), Vec::<Value>::new());
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
}

#[test]
fn an_arena_that_a_stopped_maker_has_not_named_is_nobodys_else() {
    let here = Place::new();
    let maker = actor_of(&here, "half-maker");
    until("it has it", || here.file("has-it").exists().then_some(()));
    assert_eq!(found(&here, "unnamed-arena"), Vec::<Value>::new(), "it may get on");
    stop(&maker);
    let all = found(&here, "unnamed-arena");
    assert!(all.len() == 1 && says(&all[0], "what", &format!("half-made by pid {} `", maker.pid())), "{all:?}");
    assert!(says(&all[0], "advice", "nothing is left of it"));
    maker.kill(libc::SIGKILL);
    maker.end();
    assert_eq!(found(&here, "unnamed-arena"), Vec::<Value>::new());
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn files_of_leases_go_with_their_arenas_and_their_jobs() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    let leases = || {
        let names = std::fs::read_dir(here.arenas()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.starts_with(".lease-")).count()
    };
    assert_eq!((leases(), found(&here, "lease-file")), (1, Vec::new()));
    std::fs::remove_file(here.arenas().join("default")).unwrap();
    let all = found(&here, "lease-file");
    assert!(all.len() == 1 && says(&all[0], "advice", "a job that began under one still runs"), "{all:?}");
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
    let all = found(&here, "lease-file");
    assert!(all.len() == 1 && says(&all[0], "done", "removed"), "{all:?}");
    assert_eq!((leases(), found(&here, "lease-file")), (0, Vec::new()));
}

#[test]
fn files_that_are_not_chappes_are_left_and_named() {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    std::fs::write(here.arenas().join(".mine"), "").unwrap();
    let all = found(&here, "stray-file");
    assert!(all.len() == 1 && says(&all[0], "what", "/.mine is not chappe's"), "{all:?}");
    assert!(here.arenas().join(".mine").exists());
}

#[test]
fn a_nearly_full_arena_is_reported_with_the_option_that_enlarges_it() {
    let here = Place::new();
    here.ok(&["arena", "create", "default", "--objects", "2"]);
    here.ok(&["pool", "create", "a"]);
    assert_eq!(found(&here, "full"), Vec::<Value>::new());
    here.ok(&["pool", "create", "b"]);
    let all = found(&here, "full");
    assert!(all.len() == 1 && says(&all[0], "what", "2 of 2 object slots are in use"), "{all:?}");
    assert!(says(&all[0], "advice", "--objects"), "{all:?}");
}

#[test]
fn it_says_whether_there_are_sequences_and_why_not() {
    let here = Place::new();
    let told = |variables: &[(&str, &str)]| {
        let run = |args: &[&str]| {
            let me = env!("CARGO_BIN_EXE_chappe");
            let mut c = here.program(me, args);
            let output = c.envs(variables.iter().copied()).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let health: Value = serde_json::from_str(&run(&["--json", "doctor"])).unwrap();
        (health["sequences"].clone(), run(&["doctor"]))
    };
    // Each run tests anew: it sees so many abort, or too few where too many want the processor.
    let but_for_counts = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let (usual, text) = (0..20)
        .map(|_| told(&[]))
        .find(|(usual, text)| {
            let used = if usual["used"] == true { "used" } else { "not used" };
            let line = format!("sequences: {used}: {}", usual["why"].as_str().unwrap());
            but_for_counts(text).contains(&but_for_counts(&line))
        })
        .expect("what is said in words is what is said in JSON");
    let used = usual["used"].as_bool().unwrap();
    assert_eq!(used, usual["verdict"] == "proven", "{usual} {text}");
    assert!(!used || usual["fence"] == true && usual["area"].is_string(), "{usual}");
    let (off, text) = told(&[("CHAPPE_SEQUENCES", "off"), ("CHAPPE_BIAS", "off")]);
    assert_eq!((&off["used"], &off["biases"]), (&Value::Bool(false), &Value::Bool(false)));
    assert_eq!(off["verdict"], "switched-off");
    assert!(text.contains("sequences: not used: CHAPPE_SEQUENCES=off in the environment; "), "{text}");
    assert!(text.contains("mechanism: interlocked: "), "{text}");
    let (forced, text) = told(&[("CHAPPE_RAS", "system-call")]);
    assert_eq!(forced["mechanism"], "system-call");
    assert!(text.contains("mechanism: system-call: forced by CHAPPE_RAS=system-call"), "{text}");
    let (wrong, text) = told(&[("CHAPPE_RAS", "prayer")]);
    assert_eq!(wrong["mechanism"], Value::Null);
    assert!(text.contains("mechanism: none: `prayer` is no mechanism"), "{text}");
    if used {
        let (own, text) = told(&[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]);
        // Unproven where too many want the processor.
        assert!(own["area"] == "own" && (own["used"] == true || own["verdict"] == "unproven"), "{own}");
        assert!(text.contains("an area of our own"), "{text}");
    }
}

#[test]
fn the_status_says_only_whether_all_can_be_used() {
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    stop(&holder);
    std::fs::write(here.arenas().join(".mine"), "").unwrap();
    let health = here.run(&["doctor"]);
    assert_eq!((health.status, health.err.as_str()), (Some(0), ""));
    assert!(health.out.contains("around them:\n") && health.out.contains("kernel: "), "{health:?}");
    std::fs::write(here.arenas().join("spoilt"), "no arena").unwrap();
    assert_eq!(here.run(&["doctor"]).status, Some(1));
    let health: Value = serde_json::from_str(&here.run(&["--json", "doctor"]).out).unwrap();
    assert!(health["unseen"].is_u64() && health["job_servers_removed"].is_array());
    for finding in health["arenas"][0]["findings"].as_array().unwrap() {
        assert!(["kind", "what", "done", "advice"].iter().all(|key| finding.get(key).is_some()), "{finding}");
        assert!(
            finding["done"].is_string() || finding["advice"].is_string(),
            "what was done, or what to do: {finding}"
        );
    }
}

#[test]
fn it_says_how_light_threads_wait_for_files_here() {
    let here = Place::new();
    let files = &here.json(&["doctor"])["files"];
    let way = files["way"].as_str().unwrap();
    match chappe::thread::file_way() {
        chappe::thread::FileWay::Ring => assert_eq!((way, &files["ring"]), ("io_uring", &Value::Bool(true))),
        other => assert_eq!((way, &files["ring"]), (other.to_string().as_str(), &Value::Bool(false))),
    }
    let text = here.ok(&["doctor"]);
    assert!(text.contains(&format!("light threads wait for files by: {way}\n")), "{text}");
}

#[test]
fn it_says_whether_queries_become_machine_code_and_what_is_missing() {
    let here = Place::new();
    let queries = &here.json(&["doctor"])["queries"];
    let way = queries["way"].as_str().unwrap();
    // The command was built of the same crates as this program.
    match chappe::synth::engine::machine_code() {
        Ok(()) => assert_eq!((way, &queries["machine_code"]), ("machine code", &Value::Bool(true))),
        Err(_) => {
            assert!(
                way.starts_with("closures, at 2 to 5 times the cost (") && queries["machine_code"] == false,
                "{way}"
            );
            assert!(way.contains("(feature `jit`): `cargo install --path crates/cli --features full`"), "{way}");
        }
    }
    let text = here.ok(&["doctor"]);
    assert!(text.contains(&format!("queries over records run as: {way}\n")), "{text}");
}
