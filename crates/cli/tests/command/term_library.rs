//! Terminals as Rust programs use them: `chappe::Terminal`, which runs the command.

use crate::place::{CHAPPE, Place};
use chappe::terminal::{After, Ended, Terminal, TerminalError, TerminalOptions};
use chappe::tube::bounded;
use chappe::{Pool, select};
use std::time::Duration;

/// Set in the process that runs a test's inside: the library takes its directory from the environment.
const INSIDE: &str = "CHAPPE_TEST_INSIDE";

/// Runs a test in a process of its own, in a directory of its own; true: this is that process.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("this program");
    let here = Place::new();
    let name = format!("term_library::{test}");
    let mut command = here.program(own.to_str().expect("a path"), &["--exact", &name, "--nocapture"]);
    let ran = Place::spawn(command.env(INSIDE, "1")).end();
    assert_eq!(ran.status, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("1 passed"), "{}", ran.out);
    false
}

fn run(name: &str, script: &str) -> Terminal {
    let options = TerminalOptions { chappe: Some(CHAPPE.into()), size: Some((40, 10)), ..TerminalOptions::default() };
    Terminal::run_with(name, ["sh", "-c", script], &options).expect("a terminal")
}

#[test]
fn a_program_is_asked_and_answers() {
    if !is_inside("a_program_is_asked_and_answers") {
        return;
    }
    let long = Duration::from_secs(300);
    let sh = run("sh", "while read -r line; do echo \"got $line\"; done; exit 3");
    let mark = sh.send("one\r").expect("typed");
    let found = sh.wait_text_timeout("[a-z]* one", Some(After::Mark(mark)), long).expect("an answer");
    assert_eq!((found.text.as_str(), found.matched.as_str(), found.lost), ("got one", "got one", 0));
    assert_eq!(sh.show(0).expect("a screen"), "one\ngot one\n");
    assert!(matches!(sh.wait_text_timeout("never", None, Duration::from_millis(1)), Err(TerminalError::Timeout(..))));
    assert!(matches!(sh.wait_exit_timeout(Duration::from_millis(1)), Err(TerminalError::Timeout(..))));
    assert!(matches!(sh.wait_text("a(b", None), Err(TerminalError::Expression(_))));
    assert!(matches!(sh.press("Nonsense"), Err(TerminalError::Key(_))));
    sh.resize(60, 20).expect("room");
    assert_eq!(sh.screen().expect("a screen").columns(), 60);
    sh.paste("two\n").expect("typed");
    sh.wait_text("got two", None).expect("an answer");
    assert_eq!((sh.ended().expect("known"), Terminal::names().expect("names")), (None, vec!["sh".to_owned()]));
    sh.press("C-d").expect("typed");
    assert_eq!(sh.wait_exit().expect("an end"), Ended::Exited(3));
    assert!(matches!(sh.wait_text("never", None), Err(TerminalError::Over(_, 0))));
    assert!(matches!(sh.send("x"), Err(TerminalError::Typing(..))));
    sh.remove().expect("removed");
    assert!(matches!(Terminal::open("sh"), Err(TerminalError::Terminal(_))));
    let options = TerminalOptions { chappe: Some("/dev/null".into()), ..TerminalOptions::default() };
    let refused = Terminal::run_with("x", ["true"], &options).expect_err("no command").to_string();
    assert!(refused.contains("set CHAPPE_COMMAND"), "{refused}");
    // A handle is of the very terminal that it was opened at, whatever has its name by now.
    let old = run("again", "exit 3");
    old.wait_exit().expect("an end");
    Terminal::open("again").and_then(Terminal::remove).expect("removed");
    let new = run("again", "sleep 1000");
    assert!(matches!(old.kill(9), Err(TerminalError::Signal(_))));
    assert!(matches!(old.remove(), Err(TerminalError::Terminal(_))));
    assert_eq!(new.ended().expect("known"), None);
    new.kill(9).expect("sent");
    assert!(matches!(Terminal::run("--help", ["true"]), Err(TerminalError::Terminal(_))));
    let asked = std::cell::Cell::new(0);
    let deaf = run("deaf", "stty raw -echo; echo ready; exec sleep 1000");
    deaf.wait_text("ready", None).expect("a text");
    let goes_on = || asked.replace(asked.get() + 1) < 3;
    assert!(matches!(deaf.send_while([b'x'; 200_000], None, &goes_on), Err(TerminalError::Typing(..))));
    deaf.kill(9).expect("sent");
    let options = TerminalOptions { chappe: Some(CHAPPE.into()), ..TerminalOptions::default() };
    let refused = Terminal::run_with("x", ["no-such-command"], &options).expect_err("no command").to_string();
    assert_eq!(refused, "cannot run `no-such-command`: No such file or directory");
    // SAFETY: a plain call, in a process of its own. Children are nobody's then.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let sleeper = run("sleeper", "sleep 1000");
    sleeper.kill(9).expect("sent");
    assert_eq!(sleeper.wait_exit().expect("an end"), Ended::Killed(9));
}

/// A text, an end, a permit, a message and a time in one choice: exactly one is taken.
#[test]
fn a_text_and_an_end_are_arms_of_a_choice() {
    if !is_inside("a_text_and_an_end_are_arms_of_a_choice") {
        return;
    }
    let term = run("t", "echo begin; read -r x; echo \"said $x\"; read -r x");
    let gpu = Pool::create("gpu", 1).expect("a pool");
    let taken = gpu.acquire().expect("a permit");
    let (sender, messages) = bounded::<u64>(4);
    let (text, exit) = (term.text("^said", None).expect("an arm"), term.exit().expect("an arm"));
    let mut taken = Some(taken);
    let mut seen = Vec::new();
    while seen.len() < 5 {
        // One thing after the other is made ready, and chosen.
        match seen.len() {
            1 => drop(taken.take()),
            2 => sender.send(7).expect("room"),
            3 => _ = term.send("hello\r").expect("typed"),
            4 => _ = term.press("C-d").expect("typed"),
            _ => {}
        }
        let is_new = |what: &str| !seen.contains(&what);
        let patience = Duration::from_secs(if seen.is_empty() { 0 } else { 300 });
        let next = match (is_new("text"), is_new("permit")) {
            (true, true) => select! {
                readable(text) -> ready => { ready.expect("readable"); "text" }
                readable(exit) -> ready => { ready.expect("readable"); "exit" }
                acquire(gpu) -> permit => { drop(permit.expect("a permit")); "permit" }
                recv(messages) -> message => { assert_eq!(message, Ok(7)); "message" }
                default(patience) => "time",
            },
            (true, false) => select! {
                readable(text) -> ready => { ready.expect("readable"); "text" }
                readable(exit) -> ready => { ready.expect("readable"); "exit" }
                recv(messages) -> message => { assert_eq!(message, Ok(7)); "message" }
                default(patience) => "time",
            },
            (false, _) => select! {
                readable(exit) -> ready => { ready.expect("readable"); "exit" }
                recv(messages) -> message => { assert_eq!(message, Ok(7)); "message" }
                default(patience) => "time",
            },
        };
        seen.push(next);
    }
    assert_eq!(seen, ["time", "permit", "message", "text", "exit"]);
    assert_eq!(text.take().expect("it came").expect("a text").text, "said hello");
    assert!(text.take().is_none());
    assert_eq!(exit.take().expect("it came").expect("an end"), Ended::Exited(1));
    // An answer that is an error comes as well.
    let never = term.text("never", None).expect("an arm");
    let ended = select! { readable(never) -> ready => { ready.expect("readable"); never.take() } };
    assert!(matches!(ended, Some(Err(TerminalError::Over(_, 0)))));
}

/// What is dropped leaves nothing behind: no thread, no descriptor, no memory.
#[test]
fn a_dropped_terminal_leaves_one_thread_and_nothing_else() {
    if !is_inside("a_dropped_terminal_leaves_one_thread_and_nothing_else") {
        return;
    }
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).expect("a list").count();
    let mapped = || {
        let all = std::fs::read_to_string("/proc/self/maps").expect("a list");
        [".term-", ".typed-"].map(|kind| all.matches(kind).count())
    };
    let term = run("t", "echo ready; read -r x");
    let once = || {
        let again = Terminal::open("t").expect("it is there");
        drop((again.text("never", None).expect("an arm"), again.exit().expect("an arm")));
        again.wait_text("ready", None).expect("it came");
    };
    once();
    let ends = || crate::place::until("threads end", || (count("task") <= 3 && mapped() == [1, 1]).then_some(()));
    ends();
    let (descriptors, threads) = (count("fd"), count("task"));
    (0..20).for_each(|_| once());
    ends();
    assert_eq!((count("fd"), count("task")), (descriptors, threads));
    term.kill(9).expect("sent");
}

/// A forked child has the parent's handle, and with it the parent's open file.
#[test]
fn text_typed_by_two_processes_by_one_handle_comes_whole() {
    if !is_inside("text_typed_by_two_processes_by_one_handle_comes_whole") {
        return;
    }
    const TEXTS: usize = 20;
    const LEN: usize = 5_000;
    let cat = run("cat", "stty raw -echo; echo ready; head -c 200000 > all; wc -c < all");
    cat.wait_text("ready", None).expect("it reads");
    let type_all = |letter: u8| (0..TEXTS).all(|_| cat.send(vec![letter; LEN]).is_ok());
    // SAFETY: the child types, and ends without anything of the parent's.
    let child = unsafe { libc::fork() };
    let typed = type_all(if child == 0 { b'c' } else { b'p' });
    if child == 0 {
        // SAFETY: a plain system call.
        unsafe { libc::_exit(i32::from(!typed)) };
    }
    let mut status = -1;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(typed && status == 0, "{status}");
    assert_eq!(cat.wait_exit().expect("an end"), Ended::Exited(0));
    let all = std::fs::read("all").expect("a file");
    assert_eq!(all.len(), 2 * TEXTS * LEN);
    assert!(all.chunks(LEN).all(|text| text.iter().all(|letter| *letter == text[0])), "a text in pieces");
}
