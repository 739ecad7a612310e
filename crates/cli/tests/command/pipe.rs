//! `chappe pipe`: parsing, exit statuses, signals, what it says and leaves behind. How well it steers is measured, not tested here, but in a storm.

use crate::place::{Place, Ran, kill, runs, state, until};
use crate::terminal::Screen;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Nothing here is about shares: by the means that needs nothing and touches least.
const PLAIN: [&str; 3] = ["pipe", "--means", "none"];

fn pipe(here: &Place, args: &[&str]) -> Ran {
    here.run(&[&PLAIN[..], args].concat())
}

/// What `--json` said.
fn events(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e} in {l:?}"))).collect()
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["event"] == kind).collect()
}

#[test]
fn data_flows_and_the_status_is_that_of_pipefail() {
    let here = Place::new();
    for (pipeline, status, out) in [
        ("echo a | tr a b | cat", 0, "b\n"),
        ("echo a", 0, "a\n"),
        ("echo a | (read x; echo $x; exit 3) | cat", 3, "a\n"),
        ("exit 5 | exit 4 | cat", 4, ""),
        ("(exit 5) | true", 5, ""),
        ("! echo a | grep -q b", 0, ""),
        ("! echo a | cat", 1, "a\n"),
        ("yes | head -n 1", 141, "y\n"),
        ("sh -c 'kill -KILL $$' | cat", 137, ""),
        ("cat <<E | tr x y\nx\nE\n", 0, "y\n"),
        ("for i in 1 2; do echo $i | cat; done | sort -r", 0, "2\n1\n"),
        ("printf '%s|' \"a b\" 'c|d' | cat", 0, "a b|c|d|"),
        ("nothing-of-this-name | cat", 127, ""),
        ("-x | cat", 127, ""),
    ] {
        let ran = pipe(&here, &["--quiet", "--", pipeline]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(status), out), "{pipeline}: {ran:?}");
    }
}

#[test]
fn stdin_and_stdout_are_the_first_and_the_last_stages() {
    let here = Place::new();
    std::fs::write(here.file("in"), "3\n1\n2\n").unwrap();
    let mut c = here.command(&["pipe", "--quiet", "--means", "none", "cat | sort"]);
    c.stdin(std::fs::File::open(here.file("in")).unwrap());
    assert_eq!(Place::spawn(&mut c).end().out, "1\n2\n3\n");
}

#[test]
fn no_end_of_a_pipe_is_kept() {
    let here = Place::new();
    // A writer to the first stage gets SIGPIPE once that stage is gone, and a reader from the last one an end once that has let go, though
    // it lives.
    let script = "sh -c 'echo $$ >writer; exec yes' | \
                  $CHAPPE pipe --quiet --means none 'head -n 1 | { cat; exec >&-; echo $$ >pid; exec sleep 1000; }' | (cat; echo end >end)";
    let running = Place::spawn(&mut here.program("sh", &["-c", script]));
    let (writer, sleeper): (u32, u32) = (here.read("writer").parse().unwrap(), here.read("pid").parse().unwrap());
    until("the writer ends", || (!runs(writer)).then_some(()));
    assert_eq!(here.read("end"), "end");
    assert!(runs(sleeper));
    kill(sleeper, libc::SIGKILL);
    assert_eq!(running.end().out, "y\n");
}

#[test]
fn an_invalid_pipeline_is_refused_before_anything_runs() {
    let here = Place::new();
    for (args, parts) in [
        (&["echo >made | "][..], &["stage 2 is empty"][..]),
        (&["| echo >made"], &["stage 1 is empty"]),
        (&[""], &["the pipeline is empty", "chappe pipe 'a | b'"]),
        (&["echo >made 'x | cat"], &["a single quote is missing"]),
        (&["echo >made \"x | cat"], &["a double quote is missing"]),
        (&["echo >made; cat"], &["`;` makes a list", "'(a; b) | c'"]),
        (&["echo >made | cat &"], &["`&` makes a list"]),
        (&["echo >made | cat )"], &["the shell does not understand", "yntax error"]),
        (&["echo >made | if x"], &["`fi` is missing"]),
        (&["echo >made |& cat"], &["2>&1 |"]),
        (&["--rate", "0", "echo >made"], &["--rate", "192K"]),
        (&["--rate", "fast", "echo >made"], &["is not a number of bytes"]),
        (&["--fill", "120%", "echo >made"], &["from 0% to 90%"]),
        (&["--deadline", "0", "echo >made"], &["has passed"]),
        (&["--interval", "1ms", "echo >made"], &["from 100ms to 1h"]),
        (&["--means", "magic", "echo >made"], &["deadline", "weight", "nice", "none"]),
        (&["--attach", "0"], &["--attach"]),
        (&["--attach", "1", "echo >made"], &["cannot be used with"]),
        (&[], &["PIPELINE"]),
        (&["echo >made", "cat"], &["cat"]),
    ] {
        let ran = here.run(&[&["pipe"], args].concat());
        assert_eq!(ran.status, Some(2), "{args:?}: {ran:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{part:?} is not in {:?}", ran.err);
        }
        assert!(!here.file("made").exists(), "{args:?}");
    }
    let ran = here.run(&["--json", "pipe", "a |"]);
    assert_eq!(events(&ran.err)[0]["status"], 2);
    let ran = pipe(&here, &["--report", "/nowhere/x.html", "echo >made"]);
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(ran.err.contains("cannot write the report to /nowhere/x.html") && !here.file("made").exists(), "{ran:?}");
}

#[test]
fn a_process_without_pipes_cannot_be_attached_to() {
    let here = Place::new();
    let mut sleeper = here.program("sleep", &["1000"]);
    let sleeper = Place::spawn(sleeper.stdout(Stdio::null()).stderr(Stdio::null()));
    let said = here.fails(1, &["pipe", "--attach", &sleeper.pid().to_string()]);
    assert!(said.contains("has no pipe as standard input or output"), "{said}");
    let said = here.fails(1, &["pipe", "--attach", "2147483647"]);
    assert!(said.contains("there is no process 2147483647"), "{said}");
}

#[test]
fn json_says_what_began_and_how_it_ended() {
    let here = Place::new();
    let ran = here.run(&["--json", "pipe", "--means", "none", "echo abc | cat | (cat; exit 3)"]);
    assert_eq!((ran.status, ran.out.as_str()), (Some(3), "abc\n"));
    let all = events(&ran.err);
    let started = of(&all, "started")[0];
    assert_eq!(started["attached"], false);
    assert_eq!(started["stages"][1]["command"], "cat");
    assert_eq!(started["stages"][2]["stage"], 3);
    let ended = of(&all, "ended")[0];
    assert_eq!((&ended["status"], ended["stages"].as_array().unwrap().len()), (&3.into(), 3));
    assert_eq!((&ended["stages"][2]["status"], &ended["stages"][2]["signal"]), (&3.into(), &Value::Null));
    assert!(ended["seconds"].is_number() && ended["used"].is_number() && ended["reserved"].is_number(), "{ended}");
}

#[test]
fn looks_are_told_while_it_runs() {
    let here = Place::new();
    let script =
        "exec $CHAPPE --json pipe --means none --interval 100ms --rate 1M --size 1M --deadline 1h 'cat | cat' 2>said";
    let running = Place::spawn(here.program("sh", &["-c", script]).stdin(Stdio::piped()));
    let looks = || {
        let text = here.read_now("said");
        let whole = text.rfind('\n').map_or("", |at| &text[..at]);
        of(&events(whole), "look").into_iter().cloned().collect::<Vec<Value>>()
    };
    // Nothing is written: both stages wait for input.
    let look = until("both wait for input", || {
        looks().into_iter().find(|l| l["stages"].as_array().unwrap().iter().all(|s| s["waits_in"].as_f64() > Some(0.5)))
    });
    for stage in look["stages"].as_array().unwrap() {
        assert_eq!((&stage["fill"], &stage["waits_out"], &stage["stopped"]), (&0.0.into(), &0.0.into(), &false.into()));
        assert_eq!((&stage["left_alone"], &stage["reserved"]), (&false.into(), &Value::Null));
    }
    assert_eq!(look["late"], false);
    running.kill(libc::SIGTERM);
    assert_eq!(running.end().signal, Some(libc::SIGTERM));
}

#[test]
fn the_report_is_one_page_with_all_stages() {
    let here = Place::new();
    let path = here.file("out.html").display().to_string();
    let ran = pipe(&here, &["--quiet", "--report", &path, "echo '<b>' | cat >/dev/null"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let page = here.read("out.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"), "{page}");
    assert!(page.contains("echo '&lt;b&gt;'") && page.contains("cat &gt;/dev/null"), "{page}");
    assert_eq!(page.matches("<svg").count(), 2);
}

#[test]
fn a_signal_is_passed_on_and_ends_all_stages() {
    let here = Place::new();
    let running = Place::spawn(&mut here.command(
        &[&PLAIN[..], &["sh -c 'echo $$ >one; exec sleep 1000' | sh -c 'echo $$ >two; exec sleep 1000'"]].concat(),
    ));
    let pids: Vec<u32> = ["one", "two"].map(|f| here.read(f).parse().unwrap()).into();
    running.kill(libc::SIGTERM);
    let ran = running.end();
    assert_eq!(ran.signal, Some(libc::SIGTERM), "{ran:?}");
    for pid in pids {
        until("a stage's end", || (!runs(pid)).then_some(()));
    }
}

#[test]
fn a_stage_decides_for_itself_what_a_signal_means() {
    let here = Place::new();
    let stage = "trap \"echo caught >caught; exit 7\" TERM; echo up >up; while [ -d arenas ]; do sleep 0.02; done";
    let running = Place::spawn(&mut here.command(&[&PLAIN[..], &[&format!("sh -c '{stage}'")]].concat()));
    here.read("up");
    running.kill(libc::SIGTERM);
    assert_eq!(running.end().status, Some(7));
    assert_eq!(here.read("caught"), "caught");
}

#[test]
fn a_killed_chappe_leaves_the_stages_and_their_data_alone() {
    let here = Place::new();
    std::fs::write(here.file("data"), vec![b'x'; 300_000]).unwrap();
    let stages = "(echo $$ >one; read go <fifo; cat data) | (echo $$ >two; cat >copy)";
    std::process::Command::new("mkfifo").arg(here.file("fifo")).status().unwrap();
    let running = Place::spawn(&mut here.command(&["pipe", "--quiet", stages]));
    let pids: Vec<u32> = ["one", "two"].map(|f| here.read(f).parse().unwrap()).into();
    running.kill(libc::SIGKILL);
    assert!(!running.status().success());
    assert!(pids.iter().all(|p| runs(*p)), "they go on");
    std::fs::write(here.file("fifo"), "go\n").unwrap();
    for pid in pids {
        until("a stage's end", || (!runs(pid)).then_some(()));
    }
    assert_eq!(std::fs::read(here.file("copy")).unwrap().len(), 300_000);
}

/// A process's policy, as the kernel shows it: 0 for everybody's.
fn policy(pid: u32) -> Option<u32> {
    policy_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn policy_in(stat: &str) -> Option<u32> {
    stat[stat.rfind(')')? + 2..].split(' ').nth(38)?.parse().ok()
}

/// Whether this user may have reservations here.
fn permitted(here: &Place) -> bool {
    let ran = here.run(&["--json", "pipe", "sleep 0.2"]);
    let means = events(&ran.err);
    let permitted = of(&means, "means").iter().any(|m| m["means"] == "deadline");
    if !permitted {
        crate::place::not_tested("reservations of `chappe pipe`: they are not permitted here");
    }
    permitted
}

#[test]
fn each_stage_has_its_reservation_before_its_first_instruction() {
    let here = Place::new();
    if !permitted(&here) {
        return;
    }
    let says = "cat /proc/self/stat";
    let ran = here.run(&["pipe", "--quiet", &format!("{says} | {says} - | {says} -")]);
    let policies: Vec<_> = ran.out.lines().map(policy_in).collect();
    assert_eq!(policies, [Some(6); 3], "{ran:?}");
}

#[test]
fn a_detached_pipeline_has_its_old_policies_again() {
    let here = Place::new();
    if !permitted(&here) {
        return;
    }
    let script = "sh -c 'echo $$ >one; exec sleep 1000' | sh -c 'echo $$ >two; exec cat'";
    let pipeline = Place::spawn(&mut here.program("sh", &["-c", script]));
    let pids: Vec<u32> = ["one", "two"].map(|f| here.read(f).parse().unwrap()).into();
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let attached = Place::spawn(&mut here.command(&["--json", "pipe", "--attach", &pids[1].to_string()]));
        for pid in &pids {
            // SCHED_DEADLINE.
            until("a reservation", || (policy(*pid) == Some(6)).then_some(()));
        }
        attached.kill(signal);
        let ran = attached.end();
        assert_eq!(ran.signal, Some(signal), "{ran:?}");
        let all = events(&ran.err);
        assert_eq!(of(&all, "started")[0]["stages"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&of(&all, "ended")[0]["status"], of(&all, "started")[0]["attached"].as_bool()),
            (&Value::Null, Some(true))
        );
        assert!(pids.iter().all(|pid| policy(*pid) == Some(0) && runs(*pid)));
    }
    // And when it ends by itself.
    let attached = Place::spawn(&mut here.command(&["--json", "pipe", "--attach", &pids[0].to_string()]));
    until("a reservation", || (policy(pids[0]) == Some(6)).then_some(()));
    kill(pids[0], libc::SIGTERM);
    let ran = attached.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    drop(pipeline);
}

#[test]
fn without_the_right_the_next_means_is_taken_and_told() {
    let here = Place::new();
    // SAFETY: takes nothing, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let command = if root {
        // Root without that right.
        "exec setpriv --bounding-set -sys_nice --inh-caps -sys_nice $CHAPPE --json pipe 'sleep 1000' 2>said"
    } else {
        "exec $CHAPPE --json pipe 'sleep 1000' 2>said"
    };
    let running = Place::spawn(&mut here.program("sh", &["-c", command]));
    let means = until("a means", || {
        let text = here.read_now("said");
        let whole = text.rfind('\n').map_or("", |at| &text[..at]);
        of(&events(whole), "means").first().map(|m| (*m).clone())
    });
    assert!(means["refused"].as_str().unwrap().contains("CAP_SYS_NICE"), "{means}");
    assert_ne!(means["means"], "deadline");
    running.kill(libc::SIGTERM);
    running.end();
}

#[test]
fn ctrl_c_ends_all_stages_and_chappe_as_a_shell_expects() {
    let here = Place::new();
    // By exec: a shell that is just starting a program may take Ctrl-C for itself.
    let line = "sh -c 'echo $$ >one; exec sleep 1000' | sh -c 'echo $$ >two; exec cat'";
    std::fs::write(here.file("script"), format!("$CHAPPE pipe --quiet --means none \"{}\"", line.replace('$', "\\$")))
        .unwrap();
    let mut screen = Screen::run(&here, "set -m; trap : INT; . ./script; echo ended $?");
    let pids: Vec<u32> = ["one", "two"].map(|f| here.read(f).parse().unwrap()).into();
    screen.press("\x03");
    screen.expect("ended 130");
    assert_eq!(screen.end().status, Some(0));
    for pid in pids {
        until("a stage's end", || (!runs(pid)).then_some(()));
    }
}

#[test]
fn ctrl_z_stops_all_stages_and_fg_goes_on() {
    let here = Place::new();
    let line = "sh -c 'echo $$ >one; read x; echo $x' | sh -c 'echo $$ >two; read y; echo got $y'";
    std::fs::write(here.file("script"), format!("$CHAPPE pipe --quiet --means none \"{}\"", line.replace('$', "\\$")))
        .unwrap();
    let mut screen =
        Screen::run(&here, "set -m; . ./script; echo stopped $?; read z; echo shell $z; fg; echo ended $?");
    let pids: Vec<u32> = ["one", "two"].map(|f| here.read(f).parse().unwrap()).into();
    screen.press("\x1a");
    screen.expect("stopped 148");
    assert!(pids.iter().all(|pid| state(*pid) == Some('T')), "all are stopped");
    screen.press("mine\n");
    screen.expect("shell mine");
    until("both go on", || pids.iter().all(|pid| state(*pid) != Some('T')).then_some(()));
    screen.press("theirs\n");
    screen.expect("got theirs");
    screen.expect("ended 0");
    screen.end();
}

#[test]
fn a_stage_that_is_stopped_alone_is_told_and_waited_for() {
    let here = Place::new();
    let script = "exec $CHAPPE pipe --quiet --means none 'sh -c \"echo \\$\\$ >one; exec sleep 1000\" | cat' 2>said";
    let running = Place::spawn(&mut here.program("sh", &["-c", script]));
    let pid: u32 = here.read("one").parse().unwrap();
    kill(pid, libc::SIGSTOP);
    until("it is told", || here.read_now("said").contains("is stopped (pid").then_some(()));
    assert!(here.read_now("said").contains("lets it go on"), "{}", here.read_now("said"));
    running.kill(libc::SIGTERM);
    assert_eq!(running.end().signal, Some(libc::SIGTERM));
}

#[test]
fn a_stage_that_is_killed_is_told() {
    let here = Place::new();
    let ran = pipe(&here, &["--quiet", "sh -c 'kill -SEGV $$' | cat"]);
    assert_eq!(ran.status, Some(139), "{ran:?}");
    assert!(ran.err.contains("chappe: stage 1 `sh -c 'kill -SEGV $$'` was killed by signal 11"), "{ran:?}");
}

#[test]
fn the_view_shows_each_stage_where_the_output_goes_elsewhere() {
    let here = Place::new();
    let script = "TERM=xterm $CHAPPE pipe --means none --interval 100ms 'sleep 1000 | cat' >out; echo ended $?";
    let mut screen = Screen::run(&here, &format!("set -m; trap : INT; {script}"));
    screen.expect("2 stages, by nothing beyond what everybody has");
    screen.expect("STAGE");
    screen.expect(" 1 sleep 1000");
    screen.expect(" 2 cat");
    screen.press("\x03");
    screen.expect("ended 130");
    screen.end();
}

#[test]
#[ignore = "storm: hangs are told after five seconds"]
fn a_stage_that_hangs_is_told() {
    let here = Place::new();
    let script = "exec $CHAPPE --json pipe --means none 'sh -c \"echo x; exec sleep 1000\" | sleep 1000' 2>said";
    let running = Place::spawn(&mut here.program("sh", &["-c", script]));
    until("it is told", || here.read_now("said").contains("\"kind\":\"hangs\"").then_some(()));
    running.kill(libc::SIGTERM);
    running.end();
}

#[test]
#[ignore = "storm: a device of 1 kHz beside hogs, three seconds"]
fn a_stage_beside_hogs_has_what_it_needs() {
    let here = Place::new();
    if !permitted(&here) {
        return;
    }
    let hog = || Place::spawn(&mut here.program("sh", &["-c", "while :; do :; done"]));
    let hogs: Vec<_> = (0..8).map(|_| hog()).collect();
    // A hundred lines a second, each of which takes some milliseconds; a second and a half with the shell's own loop would take ten with hogs.
    let pipeline = "for i in $(seq 150); do echo $i; sleep 0.01; done | while read x; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; done";
    let ran = here.run(&["--json", "pipe", pipeline]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let ended = events(&ran.err);
    let seconds = of(&ended, "ended")[0]["seconds"].as_f64().unwrap();
    assert!(seconds < 5.0, "{seconds}");
    drop(hogs);
}

/// It and all that it begins may use one processor alone, which is one job's that can use no more: another one finds no room beside it.
fn on_one_processor(command: &mut Command) -> &mut Command {
    // SAFETY: a set of processors is plain numbers; the kernel fills it, and reads it between fork and exec.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&may), &raw mut may), 0);
        let one = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &may)).expect("this thread runs");
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(one, &mut only);
        command.pre_exec(move || match libc::sched_setaffinity(0, size_of_val(&only), &raw const only) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    }
}

#[test]
fn the_less_important_of_two_pipelines_ends_early_and_its_emergency_runs() {
    let here = Place::new();
    // The important one has little to do, and does some of it whenever the other one is looked at: it has what it needs on however slow a machine.
    let limits = ["pipe", "--means", "none", "--quiet", "--deadline", "1h", "--size", "20k", "--importance", "2"];
    let mut important = here.command(&limits);
    important.arg("while [ ! -e go ]; do echo x; sleep 0.02; done | cat >/dev/null");
    let important = Place::spawn(on_one_processor(&mut important));
    let slow = "while :; do echo x; sleep 0.01; done | cat >/dev/null";
    let limits = ["--quiet", "--deadline", "1h", "--size", "100000G", "--importance", "1"];
    let mut less = here.command(&[&PLAIN[..], &limits, &["--emergency", "echo cut short; exit 3", slow]].concat());
    let ran = Place::spawn(on_one_processor(&mut less)).end();
    assert_eq!(ran.status, Some(124), "{ran:?}");
    assert!(ran.err.contains("ends early: all pipelines together would need"), "{ran:?}");
    assert!(ran.err.ends_with("\ncut short\n"), "{ran:?}");
    std::fs::write(here.file("go"), "").unwrap();
    assert_eq!(important.end().status, Some(0));
    // Nobody is left among them: the count of ends alone.
    assert_eq!(here.ok(&["map", "ls", "pipelines"]).lines().count(), 1);
    let said = here.fails(125, &["pipe", "--deadline", "1h", "--importance", "1", "echo x | cat"]);
    assert!(said.contains("say it with --size"), "{said}");
    // Without it nothing is known of how late it will be, which is said.
    let deadline = ["--deadline", "1h", "echo x | cat"];
    let said = pipe(&here, &deadline).err;
    assert!(said.contains("is told to be late at the deadline only") && said.contains("--size"), "{said}");
    let said = pipe(&here, &[&["--quiet"], &deadline[..]].concat()).err;
    assert!(!said.contains("--size"), "{said}");
    let said = here.fails(2, &["pipe", "--importance", "1", "echo x | cat"]);
    assert!(said.contains("--deadline"), "{said}");
}
