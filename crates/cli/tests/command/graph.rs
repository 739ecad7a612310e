//! `chappe graph`, as shell users have it.

use crate::place::{Place, until};
use crate::terminal::Screen;

/// A graph's file with this text.
fn file(here: &Place, text: &str) -> String {
    let path = here.path().join("x.graph");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_graph_in_two_processes_does_the_same_and_leaves_nothing() {
    let here = Place::new();
    let (from, to) = (here.path().join("in.txt"), here.path().join("out.txt"));
    std::fs::write(&from, (0..5_000).map(|i| format!("line {i}\n")).collect::<String>()).unwrap();
    let graph = file(&here, &format!("lines {from:?} | count @a | hash @a | lines {to:?}"));
    let checked = here.ok(&["graph", "check", &graph]);
    assert!(checked.ends_with("4 stages, 3 threads, 0 queues, 2 processes, 2 tubes; all types agree\n"), "{checked}");
    assert_eq!(here.json(&["graph", "check", &graph])["processes"], 2);
    let explained = here.ok(&["graph", "explain", &graph]);
    assert!(explained.contains("=== @a, begun anew when it is killed: "), "{explained}");
    here.ok(&["graph", "run", "--quiet", &graph]);
    assert_eq!(std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap());
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn a_graph_waits_at_an_empty_tube_for_its_next_sender() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "80"]);
    let sent = |text: &str| {
        let mut child = here.command(&["send", "-l", "t"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    };
    let graph = file(&here, "tube \"t\" as=lines | print");
    for text in ["one\n", "", "two\n"] {
        let running = Place::spawn(&mut here.command(&["graph", "run", "--quiet", &graph]));
        let comes = || here.json(&["show", "t"])["receiving"].as_array().map(|all| all.len() == 1);
        until("the graph receives", || comes().filter(|there| *there));
        sent(text);
        let ran = running.end();
        assert_eq!((ran.status, ran.out.as_str()), (Some(0), text), "{}", ran.err);
    }
}

/// On the user's terminal, as long as it runs.
#[test]
fn a_graph_that_is_shown_draws_what_flows_through_each_stage() {
    let here = Place::new();
    let path = here.file("fifo");
    assert!(here.program("mkfifo", &["fifo"]).status().expect("it is there").success());
    let graph = file(&here, &format!("lines {path:?} | count | null"));
    let mut screen = Screen::run(&here, &format!("$CHAPPE graph run --show {graph}; echo status $?"));
    let mut to = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut to, b"one\ntwo\nthree\n").unwrap();
    for text in ["STAGE", "A SECOND", "count", "so far"] {
        screen.expect(text);
    }
    drop(to);
    screen.expect("status 0");
    screen.end();
}

#[test]
fn a_graph_says_that_a_sender_has_died_or_its_tube_has_gone() {
    let here = Place::new();
    let graph = |text: &str| file(&here, text);
    for process in ["", " @apart"] {
        here.ok(&["tube", "create", "t", "--size", "80"]);
        let mut sender = here.command(&["send", "-l", "t"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(sender.stdin.as_mut().unwrap(), b"{\"a\":1}\n{\"a\":2}\n").unwrap();
        let counts = || here.json(&["show", "t"])["sent"].as_u64().filter(|n| *n == 2);
        until("it has sent", counts);
        let text = format!(
            "tube \"t\"{process} | parse json \"a: i64\"{process} | select \"sum(a) as s\"{process} | json | print"
        );
        let running = Place::spawn(&mut here.command(&["graph", "run", "--quiet", &graph(&text)]));
        until("it receives", || here.json(&["show", "t"])["received"].as_u64().filter(|n| *n == 2));
        sender.kill().unwrap();
        sender.wait().unwrap();
        let ran = running.end();
        // What came is handed on to the end.
        assert_eq!((ran.status, ran.out.as_str()), (Some(3), "{\"s\":3}\n"), "{}", ran.err);
        assert!(ran.err.contains("a sender of `t` died, or stopped with an error, before it was done"), "{}", ran.err);
        here.ok(&["tube", "rm", "t"]);
    }
    here.ok(&["tube", "create", "t", "--size", "80"]);
    let running = Place::spawn(&mut here.command(&["graph", "run", "--quiet", &graph("tube \"t\" as=lines | print")]));
    until("it receives", || here.json(&["show", "t"])["receiving"].as_array().filter(|all| all.len() == 1).map(|_| ()));
    here.ok(&["tube", "rm", "--force", "t"]);
    let ran = running.end();
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("tube `t` was removed while it was read"), "{}", ran.err);
}

#[test]
fn records_of_a_tube_are_those_of_its_schema() {
    let here = Place::new();
    let csv = here.file("in.csv");
    std::fs::write(&csv, "ts,sym\n1,A\n2,B\n").unwrap();
    let ran = |text: &str| here.run(&["graph", "run", "--quiet", &file(&here, text)]);
    let fields = "ts: i64, sym: str[4]";
    let sends = |fields: &str| format!("file {csv:?} | parse csv \"{fields}\" | select \"ts, sym\" | tube \"t\"");
    // One that is made by a graph has the schema of what comes.
    let sent = ran(&sends(fields));
    assert_eq!(sent.status, Some(0), "{}", sent.err);
    let stored = here.json(&["show", "t"])["schema"].as_str().unwrap().to_owned();
    assert_eq!(stored, "ts: i64? @ 0, sym: str[4] @ 9; size 16");
    // It is known where it is read.
    let read = ran("tube \"t\" | json | print");
    assert_eq!(read.out, "{\"ts\":1,\"sym\":\"A\"}\n{\"ts\":2,\"sym\":\"B\"}\n", "{}", read.err);
    let other = ran(&sends("ts: u32, sym: str[4]"));
    assert_eq!(other.status, Some(1));
    let both = ["tube `t` has records of another schema: it has `", "and this is `ts: u32?", &stored[..8]];
    assert!(both.iter().all(|part| other.err.contains(part)), "{}", other.err);
    let other = ran("tube \"t\" as=records schema=\"ts: u64, sym: str[4]\" | json | print");
    let both = ["it has `ts: i64? @ 0", "and this is `ts: u64 @ 0", "(line 1, column "];
    assert!(other.status == Some(1) && both.iter().all(|part| other.err.contains(part)), "{}", other.err);
    for (text, says) in [
        ("tube \"t\" as=lines | print", "tube `t` has records of `ts: i64?"),
        ("tube \"u\" as=records | json | print", "there is no tube `u` that has a schema: say what its records are"),
        ("sine 1 | cast i16 | tube \"t\"", "tube `t` has records of `ts: i64?"),
    ] {
        let said = ran(text);
        assert!(said.status == Some(1) && said.err.contains(says), "{text}: {}", said.err);
    }
}

#[test]
fn a_graph_ends_well_when_the_reader_of_its_output_has_seen_enough() {
    let here = Place::new();
    let graph = file(&here, "sine 440 seconds=1e9 | print");
    let mut command = here.command(&["graph", "run", "--quiet", &graph]);
    let mut running =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    let ran = running.wait_with_output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn an_error_in_a_graph_is_reported_with_its_place() {
    let here = Place::new();
    let said = |text: &str| here.fails(1, &["graph", "check", &file(&here, text)]);
    for (text, expected) in [
        ("sine 440 | lowpas 800 | null", "there is no stage `lowpas`: is it `lowpass`? (line 1, column 12)"),
        ("a: gain 1 | b: gain 2 | a", "this is a loop, in which nothing would ever come first: "),
        ("sine 440 | cast i16 | lowpass 800 | null", "`lowpass` takes f32, and this is i16 at 48000 Hz"),
        ("stdin @a | null", "`stdin` belongs to the process that runs the graph, and not to `@a`"),
    ] {
        let wrong = said(text);
        assert!(wrong.contains(expected) && wrong.contains("x.graph: "), "{wrong}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_with_the_reason() {
    let here = Place::new();
    let missing = here.fails(1, &["graph", "run", "missing.graph"]);
    assert!(missing.contains("cannot read missing.graph: No such file"), "{missing}");
    assert!(!missing.contains("stdin"), "{missing}");
    let text = here.fails(1, &["graph", "run", "sine 440 | null"]);
    assert!(text.contains("No such file") && text.contains("is read from stdin if FILE is `-`"), "{text}");
}

#[test]
fn a_graph_is_changed_when_its_file_is_saved_and_not_by_a_mistake() {
    let here = Place::new();
    let text = |gain: &str| format!("clock 1000 count=100000 | take {gain} | null");
    let graph = file(&here, &text("90000"));
    let mut command = here.command(&["graph", "edit", &graph]);
    let mut running = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(running.stderr.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        // Nothing more comes of one that has ended.
        assert_ne!(std::io::BufRead::read_line(&mut said, &mut line).unwrap(), 0);
        line
    };
    assert!(line().ends_with("x.graph runs; what is saved there is changed in it\n"));
    file(&here, &text("tow"));
    let wrong = line();
    assert!(wrong.starts_with("chappe: ") && wrong.contains("x.graph: ") && wrong.contains("column"), "{wrong}");
    while !line().contains("the graph goes on as it was") {}
    file(&here, &text("1"));
    assert_eq!(line(), "chappe: `take`: `take 90000` is now `take 1`\n");
    // One more than it has had, and it wants no more.
    assert!(running.wait().unwrap().success());
}

#[test]
fn commands_write_a_graph_and_call_a_stage() {
    let here = Place::new();
    let mut command = here.command(&["graph", "repl"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::piped());
    let mut running = command.spawn().unwrap();
    let commands = "make gain 2\nput 1 2\nfly\nadd sine 440 seconds=0.01 | count | null\nrun\nwait\nquit\n";
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), commands.as_bytes()).unwrap();
    let ran = running.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(out.starts_with("2 4\nSTAGE") && out.contains("480 frames"), "{out}");
    assert_eq!(err, "chappe: there is no command `fly`: `help` lists them\n");
    assert_eq!(ran.status.code(), Some(1));
}

#[test]
#[ignore = "storm: a graph has five seconds of real time to end in"]
fn a_graph_that_is_asked_to_end_hands_on_what_it_has_and_ends_well() {
    use std::io::{BufRead, BufReader, Read};
    let here = Place::new();
    for line in
        ["sine 440 block=48 seconds=1e6 | pace | print", "sine 440 block=48 seconds=1e6 | gain 1 @a | pace | print"]
    {
        let graph = file(&here, line);
        let mut command = here.command(&["graph", "run", &graph]);
        let piped = std::process::Stdio::piped;
        let mut running = command.stdout(piped()).stderr(piped()).spawn().unwrap();
        let mut out = BufReader::new(running.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        // SAFETY: a plain system call on our own child.
        unsafe { libc::kill(running.id() as i32, libc::SIGTERM) };
        let (mut rest, mut said) = (String::new(), String::new());
        out.read_to_string(&mut rest).unwrap();
        running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(running.wait().unwrap().success(), "{said}");
        assert!(said.contains("STAGE") && (rest.lines().count() + 1).is_multiple_of(48), "{said}");
    }
}
