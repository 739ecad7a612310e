//! The job server, as its clients meet it. They are shells here: the protocol is a read and a write.

use crate::place::{Place, Ran, Running, kill, not_tested, runs, until, wait_for_go};
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;

/// Shell: what clients do. `take` waits for a slot, `try` does not.
pub const CLIENT: &str = r#"
fifo=${MAKEFLAGS##*fifo:} fifo=${fifo%% *}
enter() { exec 3<>"$fifo"; }
# It waits in the read, unless a `try` made that one not wait.
take() { until dd bs=1 count=1 <&3 2>/dev/null | grep -q . ; do sleep 0.01; done; }
try() { dd bs=1 count=1 iflag=nonblock <&3 2>/dev/null | grep -q . ; }
give() { printf + >&3; }
say() { echo "$2" > "$1.new"; mv "$1.new" "$1"; }
"#;

/// `chappe --json jobserver` with these options, running a shell script.
fn server(here: &Place, options: &[&str], script: &str) -> Command {
    let script = format!("{CLIENT}\n{script}");
    let args = [&["--json", "jobserver"], options, &["--", "sh", "-c", &script]].concat();
    let mut c = here.command(&args);
    c.env("TMPDIR", here.path()).env_remove("MAKEFLAGS");
    c
}

/// The same in the background.
pub fn serve(here: &Place, options: &[&str], script: &str) -> Running {
    Place::spawn(&mut server(here, options, script))
}

/// What chappe said. Its clients may say anything on stderr, but chappe itself JSON alone.
#[track_caller]
pub fn events(ran: &Ran) -> Vec<Value> {
    for line in ran.err.lines() {
        assert!(!line.starts_with("chappe: ") && !line.starts_with("thread '"), "{line}: {ran:?}");
    }
    ran.err.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// The last of the events of this kind.
#[track_caller]
pub fn event(ran: &Ran, kind: &str) -> Value {
    let found = events(ran).into_iter().rfind(|e| e["event"] == kind);
    found.unwrap_or_else(|| panic!("no event `{kind}`: {ran:?}"))
}

/// What job servers left behind.
pub fn left(here: &Place) -> Vec<PathBuf> {
    let all = std::fs::read_dir(here.path()).unwrap().map(|e| e.unwrap().path());
    all.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("chappe-jobserver-")).collect()
}

/// Shell: a client in the background that takes so many slots and keeps them until `go-NAME` is there.
fn client(name: &str, slots: usize) -> String {
    let wait = wait_for_go(name);
    let takes = "take; ".repeat(slots);
    let gives = "give; ".repeat(slots);
    format!("( enter; {takes} say has-{name} $(exec sh -c 'echo $PPID'); {wait}; {gives} ) & ")
}

/// The command itself has them all, and gives them back: if it ended with them, they might be counted as recovered, or it might have
/// ended first.
const ALL_OF_THREE: &str = "enter; take; take; take; give; give; give; echo all";

#[track_caller]
fn pid_of(here: &Place, name: &str) -> u32 {
    here.read(&format!("has-{name}")).parse().expect("a pid")
}

#[test]
fn there_are_as_many_slots_as_permits_and_no_more() {
    for (permits, pool) in [(1, false), (2, false), (5, false), (5, true)] {
        let here = Place::new();
        let n = permits.to_string();
        let mut options = vec!["--permits", &n];
        if pool {
            options.extend(["--pool", "cpu", "--create"]);
        }
        let takes = "take; ".repeat(permits - 1);
        let more = "try && echo more; sleep 0.01; ".repeat(20);
        let ran = serve(&here, &options, &format!("enter; {takes} echo all; {more} true")).end();
        assert_eq!((ran.status, ran.out.as_str()), (Some(0), "all\n"), "{permits}: {ran:?}");
        let ended = event(&ran, "ended");
        assert_eq!((&ended["most_at_once"], &ended["clients"]), (&permits.into(), &1.into()), "{ran:?}");
        assert_eq!(left(&here), Vec::<PathBuf>::new());
        if pool {
            assert_eq!(here.free("cpu"), 5, "what a client did not give back ends with it");
        }
    }
}

#[test]
fn a_killed_clients_slots_go_to_others() {
    for options in [&["--permits", "4"][..], &["--pool", "cpu", "--permits", "4", "--create"]] {
        let here = Place::new();
        let script = format!("{} while [ ! -e killed ]; do sleep 0.01; done; {ALL_OF_THREE}", client("a", 2));
        let server = serve(&here, options, &script);
        kill(pid_of(&here, "a"), libc::SIGKILL);
        std::fs::write(here.file("killed"), "").unwrap();
        let ran = server.end();
        assert_eq!((ran.status, ran.out.as_str()), (Some(0), "all\n"), "{ran:?}");
        assert_eq!(event(&ran, "recovered")["tokens"], 2);
        assert_eq!(event(&ran, "ended")["recovered"], 2);
    }
}

#[test]
fn a_killed_clients_slot_stays_away_as_long_as_its_job_goes_on() {
    let here = Place::new();
    let job = format!("( exec 3>&-; say job $(exec sh -c 'echo $PPID'); {} )", wait_for_go("job"));
    let script = format!(
        "( enter; take; say has-a $(exec sh -c 'echo $PPID'); {job}; true ) &
        while [ ! -e killed ]; do sleep 0.01; done; enter
        for i in $(seq 30); do try && echo early; sleep 0.01; done; say tried 1
        take; [ -e go-job ] && echo late"
    );
    let server = serve(&here, &["--permits", "2"], &script);
    let job: u32 = here.read("job").parse().unwrap();
    kill(pid_of(&here, "a"), libc::SIGKILL);
    std::fs::write(here.file("killed"), "").unwrap();
    here.read("tried");
    assert!(runs(job));
    here.go("job");
    assert_eq!(server.end().out, "late\n");
}

#[test]
fn a_client_that_closes_the_fifo_and_lives_keeps_its_slot() {
    let here = Place::new();
    let script = format!(
        "( enter; take; exec 3>&-; say has-a $(exec sh -c 'echo $PPID'); {}; enter; give; say back 1; {} ) &
        while [ ! -e has-a ]; do sleep 0.01; done; enter
        for i in $(seq 30); do try && echo early; sleep 0.01; done
        say tried 1; take; echo late; say late 1; wait",
        wait_for_go("a"),
        wait_for_go("end")
    );
    let server = serve(&here, &["--permits", "2"], &script);
    here.read("tried");
    here.go("a");
    here.read("back");
    here.read("late");
    here.go("end");
    let ran = server.end();
    assert_eq!(ran.out, "late\n");
    assert_eq!(event(&ran, "ended")["most_at_once"], 2);
}

#[test]
fn a_surplus_token_that_a_client_writes_is_taken_out() {
    let here = Place::new();
    // Before it is taken out, its writer may read it. So all are read and written back until only one is there.
    let script = "enter; take; n=5
        for round in $(seq 500); do
            while [ $n -gt 0 ]; do give; n=$((n - 1)); done
            sleep 0.02
            while try; do n=$((n + 1)); done
            [ $n -ne 1 ] || break
        done
        echo $n; for i in $(seq 20); do try && echo more; sleep 0.01; done; true";
    let ran = serve(&here, &["--permits", "2"], script).end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "1\n"), "{ran:?}");
}

#[test]
fn a_build_gets_its_slots_although_others_processes_are_hidden() {
    const CAP_SYS_PTRACE: libc::c_ulong = 19;
    let here = Place::new();
    // /proc as `hidepid=1` has it, for a user that is not exempt from it.
    let hide = |command: &mut Command| {
        // SAFETY: system calls only, between fork and exec; all strings are C strings.
        unsafe {
            command.pre_exec(|| {
                let (none, here) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
                let options = c"hidepid=1".as_ptr().cast();
                let done = libc::unshare(libc::CLONE_NEWNS) == 0
                    && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, here, none.cast()) == 0
                    && libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), 0, options) == 0
                    && libc::setgroups(0, none.cast()) == 0
                    && libc::setgid(65534) == 0
                    && libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0) == 0;
                if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
    };
    let mut cat = here.program("cat", &["/proc/1/stat"]);
    hide(&mut cat);
    if cat.output().map_or(true, |out| out.status.success()) {
        return not_tested("a build where processes are hidden: that takes root, and to be allowed to mount /proc");
    }
    let script = format!("( enter; take; take; kill -9 $(exec sh -c 'echo $PPID') ); {ALL_OF_THREE}");
    let mut server = server(&here, &["--permits", "4"], &script);
    hide(&mut server);
    let ran = Place::spawn(&mut server).end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "all\n"), "{ran:?}");
    assert_eq!(event(&ran, "ended")["recovered"], 2);
}

#[test]
#[ignore = "storm: processes that race"]
fn a_slot_goes_round_among_clients_that_do_not_want_it() {
    let here = Place::new();
    let idle = |i| format!("( enter; say in-{i} 1; {} ) & ", wait_for_go("x"));
    let idle: String = (0..6).map(idle).collect();
    let wait = "while [ ! -e in-5 ]; do sleep 0.01; done";
    let script = format!("{idle} {wait}; enter; take; echo got; give; take; echo again; give; : > go-x; wait");
    for options in [&["--permits", "2"][..], &["--pool", "cpu", "--permits", "2", "--create"]] {
        let server = serve(&here, options, &script);
        assert_eq!(server.end().out, "got\nagain\n");
        std::fs::remove_file(here.file("go-x")).unwrap();
        std::fs::remove_file(here.file("in-5")).unwrap();
    }
}

#[test]
fn the_clients_of_a_killed_chappe_go_on() {
    let here = Place::new();
    let script = format!(
        "{} while [ ! -e killed ]; do sleep 0.01; done
        # A make opens it for reading first, which waits for a writer.
        ( exec 4<\"$fifo\" 5>\"$fifo\"; say opened 1 ); {}",
        client("a", 1),
        wait_for_go("end")
    );
    let server = serve(&here, &["--pool", "cpu", "--permits", "4", "--create"], &script);
    pid_of(&here, "a");
    server.kill(libc::SIGKILL);
    assert_eq!(server.status().signal(), Some(libc::SIGKILL));
    std::fs::write(here.file("killed"), "").unwrap();
    here.read("opened");
    let free = here.free("cpu");
    assert!(free <= 2, "the command's slot and its client's are in use: {free} free");
    assert_eq!(left(&here).len(), 1);
    let doctor = |here: &Place| {
        let mut c = here.command(&["--json", "doctor"]);
        let ran = Place::spawn(c.env("TMPDIR", here.path())).end();
        let all: Value = serde_json::from_str(&ran.out).unwrap();
        all["job_servers_removed"].as_array().unwrap().len()
    };
    assert_eq!(doctor(&here), 0, "it is in use");
    let pid = pid_of(&here, "a");
    here.go("a");
    until("the client's end", || (!runs(pid)).then_some(()));
    assert!(here.free("cpu") <= 2, "whether it gave its slot back, nobody knows");
    here.go("end");
    until("all permits", || (here.free("cpu") == 4).then_some(()));
    assert_eq!(doctor(&here), 1);
    assert_eq!(left(&here), Vec::<PathBuf>::new());
}

#[test]
fn the_next_job_server_cleans_up_too() {
    let here = Place::new();
    let server = serve(&here, &["--permits", "2"], &format!("say up 1; {}", wait_for_go("end")));
    here.read("up");
    server.kill(libc::SIGKILL);
    server.status();
    here.go("end");
    until("nothing left", || {
        let ran = serve(&here, &["--permits", "1"], "true").end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        left(&here).is_empty().then_some(())
    });
}

#[test]
fn two_job_servers_share_a_pool() {
    let here = Place::new();
    here.ok(&["pool", "create", "cpu", "--permits", "3"]);
    let one = serve(&here, &["--pool", "cpu"], &format!("{} wait", client("a", 1)));
    pid_of(&here, "a");
    // Its own slot is the third.
    let two = serve(&here, &["--pool", "cpu"], &format!("say up 1; {} wait", client("b", 1)));
    here.read("up");
    // Both ask for one more: each has a client that may want it.
    until("somebody in line", || {
        (!here.json(&["show", "cpu"])["waiters"].as_array().unwrap().is_empty()).then_some(())
    });
    assert!(!here.file("has-b").exists());
    assert_eq!(here.free("cpu"), 0);
    here.go("a");
    pid_of(&here, "b");
    assert_eq!(one.end().status, Some(0));
    here.go("b");
    assert_eq!(two.end().status, Some(0));
    assert_eq!(here.free("cpu"), 3);
}

#[test]
fn a_slot_that_nobody_uses_goes_to_who_waits() {
    let here = Place::new();
    let script = format!("enter; say up 1; {}", wait_for_go("end"));
    let server = serve(&here, &["--pool", "cpu", "--permits", "2", "--create"], &script);
    here.read("up");
    // It is offered to the client, which does not take it.
    until("an offer", || (here.free("cpu") == 0).then_some(()));
    for _ in 0..3 {
        assert_eq!(here.job(&["cpu"], "echo got").end().out, "got\n");
    }
    here.go("end");
    assert_eq!(server.end().status, Some(0));
    assert_eq!(here.free("cpu"), 2);
}

#[test]
fn a_slot_that_another_command_gives_back_goes_to_a_waiting_client() {
    let here = Place::new();
    let (holder, _) = here.holder("h", &["--create=2", "cpu"]);
    let server = serve(&here, &["--pool", "cpu"], "enter; say up 1; take; echo got; give");
    here.read("up");
    here.wait_for_waiters("cpu", 1);
    here.go("h");
    assert_eq!(holder.end().status, Some(0));
    assert_eq!(server.end().out, "got\n");
    assert_eq!(here.free("cpu"), 2);
}

#[test]
fn a_slot_that_cannot_be_had_now_is_asked_for_again() {
    let here = Place::new();
    // Room for the two commands, and for no thread that takes another slot.
    here.ok(&["arena", "create", "default", "--members", "2"]);
    here.ok(&["pool", "create", "cpu", "--permits", "2"]);
    let (holder, _) = here.holder("h", &["--create", "other"]);
    let mut c = server(&here, &["--pool", "cpu"], "enter; take; echo got; give");
    let running = Place::spawn(c.stderr(File::create(here.file("said")).unwrap()));
    until("that there is no slot", || here.read_now("said").contains("member slots in use").then_some(()));
    here.go("h");
    assert_eq!(holder.end().status, Some(0));
    let ran = running.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "got\n"), "{ran:?}");
    let said = here.read("said");
    assert_eq!(said.matches("it is tried again").count(), 1, "{said}");
}

#[test]
fn a_process_that_the_command_left_running_keeps_its_slots() {
    let here = Place::new();
    let script = format!(
        "{} while [ ! -e has-a ]; do sleep 0.01; done; exit 3",
        client("a", 1).replace(") &", ") >/dev/null 2>&1 &")
    );
    let ran = serve(&here, &["--pool", "cpu", "--permits", "4", "--create"], &script).end();
    assert_eq!(ran.status, Some(3), "{ran:?}");
    assert!(event(&ran, "ended")["left_running"].as_u64() > Some(0));
    // Another may be on its way back.
    until("its own and its client's alone", || (here.free("cpu") == 2).then_some(()));
    here.go("a");
    until("all permits", || (here.free("cpu") == 4).then_some(()));
}

#[test]
fn the_command_learns_of_it_by_makeflags() {
    let here = Place::new();
    let print = "printf '%s\\n' \"$MAKEFLAGS\" \"$CARGO_MAKEFLAGS\"";
    let mut c = here.command(&["jobserver", "-p", "3", "--", "sh", "-c", print]);
    let ran = Place::spawn(c.env("MAKEFLAGS", "k -j7 -- V=1").env("CARGO_MAKEFLAGS", "-j9")).end();
    let mut lines = ran.out.lines();
    let flags = lines.next().unwrap();
    // For makes that know no fifo, an expression that every make expands.
    let (fifo, older) = flags.split_once("/jobs $(if $(filter jobserver-fifo,$(.FEATURES)),,--jobserver-fd=").unwrap();
    assert!(fifo.starts_with("k -j3 --jobserver-auth=fifo:/") && older.ends_with(") -- V=1"), "{flags}");
    assert_eq!(lines.next(), Some(flags));
    assert_eq!(ran.err, "");
    let mut c = here.command(&["jobserver", "-p", "3", "--", "sh", "-c", print]);
    let ran = Place::spawn(c.env("MAKEFLAGS", " -j7 --jobserver-auth=3,4").env_remove("CARGO_MAKEFLAGS")).end();
    assert!(ran.out.starts_with(" -j3 --jobserver-auth=fifo:") && ran.out.ends_with(")\n\n"), "{ran:?}");
    assert!(ran.err.contains("there is a job server already, in MAKEFLAGS"), "{ran:?}");
}

#[test]
fn the_status_is_the_commands_or_says_what_failed() {
    let here = Place::new();
    for n in [0, 2, 124] {
        assert_eq!(serve(&here, &["-p", "2"], &format!("exit {n}")).end().status, Some(n));
    }
    let ran = serve(&here, &["-p", "2", "--pool", "cpu", "--create"], "kill -9 $$").end();
    assert_eq!((ran.status, ran.signal), (None, Some(libc::SIGKILL)));
    assert_eq!(event(&ran, "ended")["signal"], 9);
    here.fails(127, &["jobserver", "-p", "2", "--", "./no-such-command"]);
    here.fails(126, &["jobserver", "-p", "2", "--", "/"]);
    let (holder, _) = here.holder("h", &["--create", "one"]);
    let err = here.fails(124, &["jobserver", "--pool", "one", "--nonblock", "--", "true"]);
    assert!(err.contains("no permit of one is free"), "{err}");
    here.fails(124, &["jobserver", "--pool", "one", "--timeout", "20ms", "--", "true"]);
    drop(holder);
}

#[test]
fn signals_reach_the_command() {
    let here = Place::new();
    let server = serve(&here, &["-p", "2"], "trap 'echo term; exit 7' TERM; say up 1; while :; do sleep 0.01; done");
    here.read("up");
    server.kill(libc::SIGTERM);
    let ran = server.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(7), "term\n"), "{ran:?}");
}

#[test]
fn bad_input_is_refused_with_what_would_do() {
    let here = Place::new();
    here.ok(&["pool", "create", "cpu", "--permits", "3"]);
    let said = |args: &[&str]| here.fails(125, &[&["jobserver"], args].concat());
    for (args, why) in [
        (&["--", "true"][..], "--permits <N>"),
        (&["-p", "2"], "-- COMMAND"),
        (&["-p", "many", "--", "true"], "write a whole number: How many jobs"),
        (&["-p", "-1", "--", "true"], "'-1'"),
        (&["-p", "0", "--", "true"], "0 permits"),
        (&["-p", "70000", "--", "true"], "70000"),
        (&["-p", "99999999999", "--", "true"], "99999999999 permits"),
        (&["--pool", "cpu", "-p", "0", "--", "true"], "one slot at least"),
        (&["--pool", "cpu", "-p", "2", "--", "true"], "cpu"),
        (&["--pool", "cpu", "-p", "2", "--create", "--", "true"], "cpu"),
        (&["--pool", "cpu", "--create", "--", "true"], "--permits <N>"),
        (&["-p", "2", "--create", "--", "true"], "--pool <NAME>"),
        (&["--pool", "gpu", "--", "true"], "gpu"),
        (&["--pool", "", "--", "true"], "name"),
        (&["--pool", "a/b/c", "--", "true"], "name"),
        (&["-p", "2", "--timeout", "1s", "--nonblock", "--", "true"], "cannot be used with"),
    ] {
        let err = said(args);
        assert!(err.contains(why), "{args:?}: {err}");
    }
    let err: Value =
        serde_json::from_str(&here.fails(125, &["--json", "jobserver", "--pool", "gpu", "--", "true"])).unwrap();
    assert_eq!(err["status"], 125);
    assert_eq!(here.free("cpu"), 3);
}
