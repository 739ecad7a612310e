//! As the first process of a PID namespace, as in a container: signals end each command that waits, and nothing dead stays.

use crate::place::{CHAPPE, Place, Running, not_tested, until};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// How each command is made to wait, with a tube `t`, a semaphore `s`, a held pool `p`, a held lock `l`, a map `m` and a terminal `x` there.
const WAITS: [(&str, &[&str]); 22] = [
    ("acquire", &["acquire", "p", "--", "true"]),
    ("lock", &["lock", "l", "--", "true"]),
    ("jobserver", &["jobserver", "--pool", "p", "--", "true"]),
    ("run", &["run", "--", "sleep", "1000"]),
    ("pipe", &["pipe", "sleep 1000 | cat"]),
    ("sem-down", &["sem", "down", "s"]),
    ("send", &["send", "t"]),
    ("recv", &["recv", "t"]),
    ("query", &["query", "select *"]),
    ("top", &["top", "--web=127.0.0.1:0"]),
    ("metrics", &["metrics", "--listen", "127.0.0.1:0"]),
    ("watch", &["watch", "p.waiting > 100", "--", "true"]),
    ("show", &["show", "t", "--interval", "1000s"]),
    ("lateness", &["lateness", "--seconds", "1000", "--policy", "other", "--hogs", "0"]),
    ("map-watch", &["map", "watch", "m"]),
    ("barrier-wait", &["barrier", "wait", "b", "-n", "2"]),
    ("graph-run", &["graph", "run", "-"]),
    ("graph-repl", &["graph", "repl"]),
    ("term-wait", &["term", "wait", "x", "never"]),
    ("term-log", &["term", "log", "x"]),
    ("term-run", &["term", "run", "y", "--", "sleep", "1000"]),
    ("submit", &["submit", "--", "sleep", "1000"]),
];
/// What ends by itself, at once. (`threads --top` looks at another process, `lab` becomes another program, `graph edit` is `graph run`, `term attach` wants a
/// terminal of its own.)
const ENDS: &str = "release ls rm barrier barrier-create barrier-abort barrier-reset barrier-rm sem sem-create sem-up sem-value sem-rm tube tube-create tube-seal tube-rm map map-create map-put map-get map-delete map-rm \
    map-ls graph graph-check graph-explain graph-edit graph-kinds threads lab pool pool-create pool-resize pool-rm arena arena-create \
    arena-rm doctor completions json schema schema-create schema-ls schema-rm schema-show term term-attach term-kill term-ls term-resize \
    term-rm term-send term-show gpus";

/// The manual's pages: one for each command that the command line's own table has.
fn commands(here: &Place) -> BTreeSet<String> {
    here.ok(&["man", "pages"]);
    let pages = std::fs::read_dir(here.file("pages")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    pages.filter_map(|p| Some(p.strip_prefix("chappe-")?.strip_suffix(".1")?.to_owned())).collect()
}

fn contained(here: &Place, args: &[&str]) -> Command {
    here.program("unshare", &[&["--pid", "--fork", "--mount-proc", "--kill-child", CHAPPE][..], args].concat())
}

fn is_refused() -> bool {
    let tried =
        Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null()).status();
    !tried.is_ok_and(|status| status.success())
}

fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Waits until the first process of the namespace has started the command: from then on it loses no signal. Answers both.
fn started(running: &Running) -> [u32; 2] {
    until("the command", || {
        let first = *children(running.pid()).first()?;
        Some([first, *children(first).first()?])
    })
}

#[test]
fn as_the_first_process_each_command_that_waits_is_ended_by_signals() {
    if is_refused() {
        return not_tested("chappe as the first process of a PID namespace: unshare is refused");
    }
    let here = Place::new();
    let is_built = |name: &str| cfg!(feature = "term") || !name.starts_with("term");
    let all = WAITS.iter().map(|(name, _)| *name).chain(ENDS.split_whitespace());
    let known: BTreeSet<String> = all.filter(|name| is_built(name)).map(str::to_owned).collect();
    assert_eq!(commands(&here), known, "a new command: say here how it is made to wait, or that it ends by itself");
    let (_holder, _) = here.holder("a", &["--create", "p"]);
    let (_locks, _) = here.holder_of("lock", "b", &["l"]);
    here.ok(&["sem", "create", "s"]);
    here.ok(&["tube", "create", "t"]);
    here.ok(&["map", "create", "m"]);
    if cfg!(feature = "term") {
        here.ok(&["term", "run", "x", "--", "sleep", "1000"]);
    }
    let library = crate::run::library();
    let has_graphs = |name: &str| cfg!(feature = "graph") || !name.starts_with("graph");
    let has_jobs = |name: &str| cfg!(feature = "term") || name != "submit";
    for (name, args) in WAITS.into_iter().filter(|(name, _)| has_graphs(name) && has_jobs(name) && is_built(name)) {
        let signals: &[i32] = if name == "acquire" {
            &[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1]
        } else {
            &[libc::SIGTERM]
        };
        for signal in signals {
            let mut command = contained(&here, args);
            let running = Place::spawn(command.stdin(Stdio::piped()).env("CHAPPE_PRELOAD", library));
            let [first, _] = started(&running);
            crate::place::kill(first, *signal);
            let ran = running.end();
            // What takes signals itself ends well.
            let ends_well = name == "graph-run" || name == "lateness";
            assert!(ran.status == Some(128 + signal) || ends_well && ran.signal.is_none(), "{name}, {signal}: {ran:?}");
        }
    }
    if cfg!(feature = "term") {
        here.ok(&["term", "kill", "x"]);
    }
}

#[test]
fn the_first_process_ends_as_its_command_and_leaves_no_zombies() {
    if is_refused() {
        return not_tested("chappe as the first process of a PID namespace: unshare is refused");
    }
    let here = Place::new();
    let ran = Place::spawn(&mut contained(&here, &["acquire", "--create", "p", "--", "sh", "-c", "exit 7"])).end();
    assert_eq!(ran.status, Some(7), "{ran:?}");
    if cfg!(feature = "term") {
        let ran = Place::spawn(&mut contained(&here, &["term", "run", "x", "--", "sh", "-c", "exit 6"])).end();
        assert_eq!((ran.status, ran.out.as_str()), (Some(6), "x\n"), "{ran:?}");
    }
    let ran = Place::spawn(&mut contained(&here, &["acquire", "p", "--", "sh", "-c", "kill -9 $$"])).end();
    assert_eq!(ran.status, Some(137), "{ran:?}");
    // An orphan of a waiting command's namespace: a process that enters it, as by `docker exec`, and leaves a child behind.
    let (_holder, _) = here.holder("a", &["p"]);
    let waiter = Place::spawn(&mut contained(&here, &["acquire", "p", "--", "true"]));
    let [first, _] = started(&waiter);
    here.wait_for_waiters("p", 1);
    let target = first.to_string();
    let entered = ["--target", &target, "--pid", "--mount", "sh", "-c", "true & true & exec true"];
    assert_eq!(Place::spawn(&mut here.program("nsenter", &entered)).end().status, Some(0));
    until("no child but the command", || (children(first).len() == 1).then_some(()));
    drop(waiter);
}
