//! Terminals: what shell users, scripts and agents do with them, and what kills do to them.

use crate::place::{Place, kill, runs, state, until};
use crate::terminal::Screen;
use chappe::term::feed::Emulator;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A terminal that is ended with the test, also by a panic.
struct Term<'a> {
    here: &'a Place,
    name: &'a str,
}

impl<'a> Term<'a> {
    fn run(here: &'a Place, name: &'a str, options: &[&str], command: &[&str]) -> Term<'a> {
        let said = here.ok(&[&["term", "run", name, "--size", "40x10"], options, &["--"], command].concat());
        assert_eq!(said, format!("{name}\n"));
        Term { here, name }
    }

    fn view(&self) -> Value {
        self.here.json(&["term", "show", self.name])
    }

    fn pid(&self, what: &str) -> u32 {
        self.view()[what].as_u64().unwrap_or_else(|| panic!("no {what}")) as u32
    }

    fn lines(&self, history: &str) -> Vec<String> {
        self.here.ok(&["term", "show", self.name, "--history", history]).lines().map(str::to_owned).collect()
    }
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        // It may have ended, or was never whole.
        let _ = self.here.run(&["term", "kill", self.name, "--signal", "KILL"]);
    }
}

#[test]
fn a_command_is_run_looked_at_and_removed() {
    let here = Place::new();
    let term = Term::run(&here, "t", &[], &["sh", "-c", "echo one; printf '\\033[31mred\\033[m'; exit 7"]);
    let ran = here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]);
    assert_eq!(ran.status, Some(7));
    assert_eq!(here.ok(&["term", "show", "t"]), "one\nred\n");
    assert!(here.ok(&["term", "show", "t", "--ansi"]).contains("\x1b[0;31mred"));
    let view = term.view();
    assert_eq!((&view["state"], &view["status"], &view["columns"]), (&"exited".into(), &7.into(), &40.into()));
    assert_eq!((&view["lines"][1]["text"], &view["cursor"]["column"]), (&"red".into(), &3.into()));
    assert!(here.ok(&["term", "ls"]).contains("exited 7"));
    until("keeper and holder end", || here.run(&["term", "rm", "t"]).status.filter(|status| *status == 0));
    assert_eq!(here.ok(&["term", "ls"]), "");
    assert_eq!(here.fails(1, &["term", "show", "t"]), "chappe: there is no terminal `t`\n");
}

#[test]
fn the_answer_to_typed_text_is_found_behind_its_echo() {
    let here = Place::new();
    let term = Term::run(&here, "sh", &[], &["sh", "-c", "while read -r line; do echo \"got $line\"; done; echo end"]);
    for round in 0..5 {
        let line = here.ok(&["term", "send", "sh", "--enter", &format!("round {round}")]);
        let found =
            here.ok(&["term", "wait", "sh", "--after", line.trim(), &format!("round {round}"), "--timeout", "5m"]);
        assert_eq!(found, format!("got round {round}\n"));
    }
    here.ok(&["term", "send", "sh", "--key", "C-d"]);
    let found = here.json(&["term", "wait", "sh", "^e(n)d$", "--timeout", "5m"]);
    assert_eq!((&found["text"], &found["lost"]), (&"end".into(), &0.into()));
    assert_eq!(here.run(&["term", "wait", "--exit", "sh", "--timeout", "5m"]).status, Some(0));
    let why = here.fails(1, &["term", "wait", "sh", "never"]);
    assert!(why.contains("has ended without"), "{why}");
    drop(term);
}

/// A holder that is killed at a known point: what was written is on the screen, and the program waits.
#[test]
fn a_holder_that_is_killed_while_the_program_waits_goes_on_in_the_same_line() {
    let here = Place::new();
    let script =
        "stty -echo; printf 'one\\033[1'; read x; printf ';31mtwo'; read x; seq 2000; read x; seq 2001 4000; read x";
    let term = Term::run(&here, "t", &["--history", "64K"], &["sh", "-c", script]);
    let next = |text: &str, holders: u64| {
        here.ok(&["term", "wait", "t", text, "--timeout", "5m"]);
        kill(term.pid("holder"), libc::SIGKILL);
        until("another holder", || {
            let view = term.view();
            (view["holders"] == holders && !view["holder"].is_null()).then_some(())
        });
        here.ok(&["term", "send", "t", "--enter"]);
    };
    next("^one$", 2);
    here.ok(&["term", "wait", "t", "^onetwo$", "--timeout", "5m"]);
    assert!(here.ok(&["term", "show", "t", "--ansi"]).contains("one\x1b[0;1;31mtwo"));
    next("^onetwo$", 3);
    next("^2000$", 4);
    next("^4000$", 5);
    let kept: Vec<u64> = term.lines("100000").iter().filter_map(|line| line.parse().ok()).collect();
    assert!(kept.len() > 500 && kept.windows(2).all(|two| two[0] + 1 == two[1]) && kept.last() == Some(&4000));
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(0));
}

/// All that `seq` writes, whatever is killed.
#[test]
#[ignore = "storm: holders that are killed at random in a flood"]
fn a_holder_that_is_killed_in_a_flood_loses_nothing() {
    const LAST: u64 = 60_000;
    let here = Place::new();
    let script = format!("stty -echo; read x; seq {LAST}; read x");
    let term = Term::run(&here, "t", &["--history", "16M"], &["sh", "-c", &script]);
    here.ok(&["term", "send", "t", "--enter"]);
    let mut killed = Vec::new();
    for _ in 0..15 {
        let pid = until("another holder", || {
            let view = term.view();
            view["holder"].as_u64().map(|pid| pid as u32).filter(|pid| !killed.contains(pid))
        });
        kill(pid, libc::SIGKILL);
        killed.push(pid);
    }
    here.ok(&["term", "wait", "t", &format!("^{LAST}$"), "--after", "0", "--timeout", "5m"]);
    let lines = term.lines("100000");
    let wanted: Vec<String> = (1..=LAST).map(|n| n.to_string()).collect();
    let from = lines.iter().position(|line| line == "1").expect("the first line");
    assert!(lines[from..].iter().zip(&wanted).all(|(line, wanted)| line == wanted) && lines.len() >= wanted.len());
    assert_eq!(term.view()["holders"], 16);
    here.ok(&["term", "send", "t", "--enter"]);
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(0));
}

#[test]
fn a_terminal_whose_keeper_and_holder_are_killed_hangs_up_and_says_so() {
    let here = Place::new();
    let gone = here.file("gone");
    let script = format!("trap 'echo hup > {}; exit' HUP; echo ready; while :; do sleep 1; done", gone.display());
    let term = Term::run(&here, "t", &[], &["sh", "-c", &script]);
    here.ok(&["term", "wait", "t", "ready", "--timeout", "5m"]);
    let waiter = Place::spawn(&mut here.command(&["term", "wait", "--exit", "t"]));
    let (keeper, holder) = (term.pid("keeper"), term.pid("holder"));
    kill(keeper, libc::SIGKILL);
    until("the keeper ends", || term.view()["keeper"].is_null().then_some(()));
    assert_eq!(term.view()["state"], "running");
    kill(holder, libc::SIGKILL);
    let ended = waiter.end();
    assert_eq!(ended.status, Some(125), "{}", ended.err);
    assert!(ended.err.contains("its keeper was killed"), "{}", ended.err);
    until("the program is hung up", || std::fs::read_to_string(&gone).ok().filter(|text| text == "hup\n"));
    let shown = here.run(&["term", "show", "t"]);
    assert_eq!(shown.out, "ready\n");
    assert!(shown.err.contains("is not known"), "{}", shown.err);
    let why = here.fails(1, &["term", "send", "t", "x"]);
    assert!(why.contains("the terminal has ended"), "{why}");
    here.ok(&["term", "rm", "t"]);
}

/// The program itself, and what it has started and does not outlive.
#[test]
fn a_process_that_outlives_a_hang_up_is_named_and_ended_by_kill() {
    for (script, state) in [
        ("trap '' HUP; echo ready; read x; exec sleep 1000", "itself"),
        ("trap '' HUP; sleep 1000 & trap - HUP; echo ready; read x", "its child"),
    ] {
        let here = Place::new();
        let term = Term::run(&here, "t", &[], &["sh", "-c", script]);
        here.ok(&["term", "wait", "t", "ready", "--timeout", "5m"]);
        let waiter = Place::spawn(&mut here.command(&["term", "wait", "--exit", "t"]));
        let (keeper, holder) = (term.pid("keeper"), term.pid("holder"));
        kill(keeper, libc::SIGKILL);
        kill(holder, libc::SIGKILL);
        let ended = waiter.end();
        assert!(ended.status == Some(125) && ended.err.contains("runs all the same"), "{state}: {}", ended.err);
        let shown = here.run(&["term", "show", "t"]);
        assert!(shown.out == "ready\n" && shown.err.contains("was hung up"), "{state}: {}", shown.err);
        assert_eq!(term.view()["state"], "hung-up", "{state}");
        assert!(here.ok(&["term", "ls"]).contains("hung up, runs on"), "{state}");
        assert!(here.ok(&["metrics"]).contains("chappe_terminal_running{name=\"t\"} 1"), "{state}");
        assert!(here.run(&["doctor"]).out.contains("was hung up"), "{state}");
        assert!(here.fails(1, &["term", "rm", "t"]).contains("--signal KILL"), "{state}");
        assert!(here.fails(1, &["term", "send", "t", "x"]).contains("the terminal has ended"), "{state}");
        assert_eq!(here.json(&["term", "kill", "t", "--signal", "KILL"])["processes"], 1, "{state}");
        // It is waited for where it is still ending.
        here.ok(&["term", "rm", "t"]);
    }
}

/// As in a container whose first process waits for nobody.
#[test]
fn a_hung_up_terminal_keeps_its_name_while_nobody_waits_for_its_keeper() {
    let here = Place::new();
    let script = "\"$0\" term run t -- sh -c 'trap \"\" HUP; echo ready; exec sleep 1000' && exec sleep 1000";
    let mut adopts = Command::new("sh");
    adopts.args(["-c", script, crate::place::CHAPPE]).env("CHAPPE_DIR", here.arenas());
    // SAFETY: a system call only, between fork and exec.
    unsafe {
        adopts.pre_exec(|| match libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let adopts = Place::spawn(adopts.stdout(Stdio::null()).stderr(Stdio::null()));
    let term = Term { here: &here, name: "t" };
    until("the command", || {
        here.run(&["term", "wait", "t", "ready", "--timeout", "5m"]).status.filter(|status| *status == 0)
    });
    // A shell would wait for whatever it adopts, and nothing would be left of it: it is to be the other program first.
    until("the shell's end", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", adopts.pid())).ok()?;
        (name == "sleep\n").then_some(())
    });
    // A keeper that is killed in its wait for a holder that has just been killed takes that one's remains along. Nobody waits for its own.
    let [keeper, holder] = ["keeper", "holder"].map(|role| term.pid(role));
    [keeper, holder].into_iter().for_each(|pid| kill(pid, libc::SIGKILL));
    until("the keeper's remains", || (state(keeper) == Some('Z')).then_some(()));
    until("the holder's end", || (!runs(holder)).then_some(()));
    assert_eq!(term.view()["state"], "hung-up");
    assert!(here.fails(1, &["term", "rm", "t"]).contains("--signal KILL"));
    assert_eq!(here.json(&["term", "kill", "t", "--signal", "KILL"])["processes"], 1);
    here.ok(&["term", "rm", "t"]);
    adopts.kill(libc::SIGKILL);
    adopts.end();
}

/// In the background, in a session of its own, and deaf to what ends others.
#[test]
fn a_process_that_a_command_left_is_ended_by_kill() {
    let here = Place::new();
    let script = "\"$0\" term run u -- sleep 1000; trap '' HUP; setsid sleep 1000 & sleep 1000 & exit 3";
    let term = Term::run(&here, "t", &[], &["sh", "-c", script, crate::place::CHAPPE]);
    let other = Term { here: &here, name: "u" };
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(3));
    assert!(here.fails(1, &["term", "rm", "t"]).contains("--signal KILL"));
    assert_eq!(here.json(&["term", "kill", "t", "--signal", "KILL"])["processes"], 2);
    // The terminal that was made in it is no part of it.
    assert_eq!(other.view()["state"], "running");
    until("keeper and holder end", || here.run(&["term", "rm", "t"]).status.filter(|status| *status == 0));
    drop(term);
}

#[test]
fn an_error_of_a_terminal_command_says_what_to_do() {
    let here = Place::new();
    let why = here.fails(127, &["term", "run", "t", "--", "no-such-command"]);
    assert_eq!(why, "chappe: cannot run `no-such-command`: No such file or directory\n");
    assert_eq!(here.ok(&["term", "ls"]), "");
    let term = Term::run(&here, "t", &[], &["sleep", "1000"]);
    for (status, args, part) in [
        (125, &["term", "run", "t", "--", "true"][..], "already"),
        (125, &["term", "run", "a/b", "--", "true"], "not in arenas"),
        (125, &["term", "run", "12", "--", "true"], "is a number"),
        (1, &["term", "rm", "t"], "is in use"),
        (1, &["term", "send", "t", "--key", "Nonsense"], "is no key"),
        (1, &["term", "attach", "t"], "no terminal to attach to"),
        (2, &["term", "wait", "t", "a(b"], "^"),
        (2, &["term", "wait", "t", "x", "--after", "1.2"], "is no mark"),
        (2, &["term", "resize", "t", "80"], "COLUMNSxROWS"),
        (2, &["term", "resize", "t", "10001x1"], "`10001x1` is too large: 10000x1 is the next size"),
        (2, &["term", "run", "--size", "1000x1000", "t", "--", "true"], "is too large: 1000x262 is the next size"),
        (2, &["term", "run", "u", "--size", "0x0", "--", "true"], "COLUMNSxROWS"),
        (124, &["term", "wait", "t", "x", "--timeout", "1ms"], "no line that has this"),
        (124, &["term", "wait", "--exit", "t", "--timeout", "1ms"], "runs"),
    ] {
        let why = here.fails(status, args);
        assert!(why.contains(part), "{args:?}: {why}");
    }
    here.ok(&["term", "kill", "t"]);
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(129));
    drop(term);
}

#[test]
fn text_on_stdin_is_typed_by_a_dash_and_keys_alone_leave_it_there() {
    let here = Place::new();
    let term = Term::run(&here, "t", &[], &["sh", "-c", "while read -r line; do echo \"got $line.\"; done"]);
    std::fs::write(here.file("text"), "from a file").unwrap();
    let send = |args: &[&str]| {
        let mut command = here.command(&[&["term", "send", "t"], args].concat());
        Place::spawn(command.stdin(std::fs::File::open(here.file("text")).unwrap())).end()
    };
    assert_eq!(send(&["--enter", "before"]).status, Some(0), "a text was asked for");
    assert_eq!(send(&["-", "--enter"]).status, Some(0));
    here.ok(&["term", "wait", "t", "got from a file\\.", "--timeout", "5m"]);
    // A loop that reads keys, of which each `send` leaves the next.
    let keys = "printf 'x\\ny\\nEnter\\n' | while read -r key; do $CHAPPE term send t --key $key || exit 1; done";
    assert_eq!(Place::spawn(&mut here.program("sh", &["-c", keys])).end().status, Some(0));
    here.ok(&["term", "wait", "t", "got xy\\.", "--timeout", "5m"]);
    here.ok(&["term", "kill", "t"]);
    drop(term);
}

#[test]
fn a_program_that_does_not_read_holds_back_what_is_typed_and_gets_it_later() {
    let here = Place::new();
    let script = "stty raw -echo; echo ready; cat fifo > /dev/null; head -c 100000 | wc -c";
    std::fs::create_dir_all(here.path()).expect("a directory");
    let made = here.program("mkfifo", &["fifo"]).status().expect("mkfifo runs");
    assert!(made.success());
    let term = Term::run(&here, "t", &[], &["sh", "-c", script]);
    here.ok(&["term", "wait", "t", "ready", "--timeout", "5m"]);
    let why = here.fails(124, &["term", "send", "t", &"x".repeat(50_000), "--timeout", "100ms"]);
    assert!(why.contains("has not read its input"), "{why}");
    std::fs::write(here.path().join("fifo"), "go").expect("it is read");
    here.ok(&["term", "send", "t", &"y".repeat(50_000), "--timeout", "5m"]);
    here.ok(&["term", "wait", "t", "^ *100000", "--timeout", "5m"]);
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(0));
    drop(term);
}

/// In the line of the question, in a line that is drawn again, and on the alternate screen.
#[test]
fn an_answer_is_found_wherever_it_is_written() {
    let here = Place::new();
    let script = "stty -echo; printf 'old\\nName: '; read -r x; printf 'hello, %s' \"$x\"; read -r x; printf '\\033[A\\rup %s' \"$x\"; \\
        read -r x; printf '\\033[?1049h\\033[3Hhere'; read -r x; printf '\\033[Hthere'; read -r x";
    let term = Term::run(&here, "t", &[], &["sh", "-c", script]);
    here.ok(&["term", "wait", "t", "Name:", "--timeout", "5m"]);
    for (typed, regex, found) in
        [("Ann", "Ann", "hello, Ann"), ("xy", "^up xy", "up xy"), ("", "here", "here"), ("", "^t?here", "there")]
    {
        let sent = here.json(&["term", "send", "t", "--enter", typed]);
        let mark = sent["mark"].as_str().expect("a mark");
        assert_eq!(here.ok(&["term", "wait", "t", "--after", mark, regex, "--timeout", "5m"]), format!("{found}\n"));
    }
    drop(term);
}

/// Each place of two words over the edge of a row.
#[test]
fn a_text_that_goes_over_the_edge_is_found() {
    let here = Place::new();
    let script = "stty -echo; echo ready; for n in $(seq 30 40); do printf \"%${n}sone two;\\n\" ''; done; read x";
    let term = Term::run(&here, "t", &[], &["sh", "-c", script]);
    for n in 30..=40 {
        let wanted = format!("^ {{{n}}}one two;$");
        let found = here.json(&["term", "wait", "t", &wanted, "--after", "0", "--timeout", "5m"]);
        assert_eq!(found["text"], format!("{}one two;", " ".repeat(n)));
    }
    drop(term);
}

/// A history that is full, of lines of all lengths, and a holder that is killed in a flood: what was not overwritten is there.
#[test]
#[ignore = "storm: holders that are killed at random in a flood"]
fn a_killed_holder_leaves_a_full_history() {
    let here = Place::new();
    let script = "stty -echo; read x; awk 'BEGIN { for (n = 1; n < 40000; n++) printf \"%d %*s;\\n\", n, n % 37, \"\" }'; echo last; read x";
    let term = Term::run(&here, "t", &["--history", "64K"], &["sh", "-c", script]);
    here.ok(&["term", "send", "t", "--enter"]);
    let numbers = || -> Vec<u64> {
        let lines = term.lines("100000");
        lines.iter().filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
    };
    for _ in 0..20 {
        let before = term.view();
        if let Some(pid) = before["holder"].as_u64() {
            // It may be killed already, and another one on its way.
            let _ = here.program("kill", &["-9", &pid.to_string()]).status();
        }
    }
    here.ok(&["term", "wait", "t", "^last$", "--after", "0", "--timeout", "5m"]);
    let kept = numbers();
    assert!(kept.len() > 500, "{}", kept.len());
    assert!(kept.windows(2).all(|two| two[0] + 1 == two[1]) && kept.last() == Some(&39_999));
}

#[test]
fn a_size_is_changed_and_the_program_learns_of_it() {
    let here = Place::new();
    let script = "trap 'stty size' WINCH; echo ready; while read -r x; do :; done";
    let term = Term::run(&here, "t", &[], &["bash", "-c", script]);
    here.ok(&["term", "wait", "t", "ready", "--timeout", "5m"]);
    let sized = here.json(&["term", "resize", "t", "100x30"]);
    assert_eq!((&sized["columns"], &sized["rows"]), (&100.into(), &30.into()));
    here.ok(&["term", "send", "t", "--enter"]);
    here.ok(&["term", "wait", "t", "30 100", "--timeout", "5m"]);
    here.ok(&["term", "send", "t", "--key", "C-d"]);
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(0));
    drop(term);
}

/// Of another size, and with none at all.
#[test]
fn an_attached_terminal_has_this_ones_size_and_leaves_it_as_it_was() {
    let program = "while :; do echo \"size $(stty size)\"; read -r x || exit 5; echo \"got $x\"; done";
    for (rows, columns, size) in [(9, 50, "9 50"), (0, 0, "10 40")] {
        let here = Place::new();
        let term = Term::run(&here, "t", &[], &["sh", "-c", program]);
        here.ok(&["term", "wait", "t", "size 10 40", "--timeout", "5m"]);
        let attach = "$CHAPPE term attach t; echo status $?; [ \"$(stty -g)\" = \"$before\" ] && echo as before";
        let mut screen = Screen::sized(&here, &format!("before=$(stty -g); {attach}; {attach}"), rows, columns);
        screen.expect("size 10 40");
        screen.press("abc\r");
        screen.expect("got abc");
        screen.expect(&format!("size {size}"));
        // Ctrl-]
        screen.press("\x1d");
        screen.expect("status 0");
        screen.expect("as before");
        screen.expect("got abc");
        screen.press("\x04");
        screen.expect("has ended with 5");
        screen.expect("status 5");
        screen.expect("as before");
        screen.end();
        drop(term);
    }
}

#[test]
fn pasted_text_is_typed_whole_and_a_terminal_that_is_left_has_its_size_again() {
    let here = Place::new();
    let program =
        "stty -echo; echo ready; read -r x; printf %s \"$x\" | od -An -tx1; echo \"size $(stty size)\"; read -r x";
    let term = Term::run(&here, "t", &[], &["sh", "-c", program]);
    here.ok(&["term", "wait", "t", "ready", "--timeout", "5m"]);
    let mut screen = Screen::sized(&here, "$CHAPPE term attach t; echo status $?", 9, 50);
    screen.expect("ready");
    screen.press("\x1b[200~a\x1db\x1b[201~\r");
    screen.expect("61 1d 62");
    screen.expect("size 9 50");
    screen.press("\x1d");
    screen.expect("status 0");
    screen.end();
    assert_eq!((&term.view()["columns"], &term.view()["rows"]), (&40.into(), &10.into()));
}

#[test]
fn a_signal_ends_attach_and_puts_the_terminal_back() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let here = Place::new();
        let _term = Term::run(&here, "t", &[], &["sh", "-c", "printf '\\033[?2004h\\033[?1000h'; echo up; read x"]);
        here.ok(&["term", "wait", "t", "up", "--timeout", "5m"]);
        let attach = "sh -c 'echo $$ > pid; exec \"$CHAPPE\" term attach t'";
        let after = "echo status $?; [ \"$(stty -g)\" = \"$before\" ] && echo as before";
        let mut screen = Screen::run(&here, &format!("before=$(stty -g); {attach}; {after}"));
        screen.expect("\x1b[?2004h");
        kill(here.read("pid").parse().expect("a pid"), signal);
        screen.expect("\x1b[?1000l");
        screen.expect("\x1b[?2004l");
        screen.expect("\x1b[?1049l");
        screen.expect(&format!("status {}", 128 + signal));
        screen.expect("as before");
        screen.end();
    }
}

#[test]
fn a_terminal_is_not_attached_to_itself() {
    let here = Place::new();
    let script = "\"$0\" term attach t; echo status $?; read -r x";
    let term = Term::run(&here, "t", &[], &["sh", "-c", script, crate::place::CHAPPE]);
    here.ok(&["term", "wait", "t", "this is terminal `t` itself", "--timeout", "5m"]);
    here.ok(&["term", "wait", "t", "^status 1$", "--timeout", "5m"]);
    drop(term);
}

/// What a recording plays to, and of what size it is.
fn played(cast: &str) -> (Vec<String>, Value) {
    let mut lines = cast.lines();
    let head: Value = serde_json::from_str(lines.next().expect("a head")).expect("JSON");
    let size = |name: &str| head[name].as_u64().expect("a number") as usize;
    let mut screen = Emulator::new(size("width"), size("height"));
    for line in lines {
        let event: Value = serde_json::from_str(line).expect("JSON");
        assert!(event[0].as_f64().is_some_and(|at| at >= 0.0), "{line}");
        match event[1].as_str() {
            Some("o") => screen.feed(event[2].as_str().expect("a text").as_bytes()),
            _ => panic!("{line}"),
        }
    }
    let screen = screen.screen();
    ((0..screen.rows()).map(|row| screen.text(row)).collect(), head)
}

#[test]
fn a_recording_plays_to_what_the_terminal_shows() {
    let here = Place::new();
    let file = here.file("demo.cast").display().to_string();
    let script =
        format!("printf 'a\\033[31mred\\n'; {}; echo \"say \\\"so\\\"\"; exit 3", crate::place::wait_for_go("on"));
    let term = Term::run(&here, "t", &["--log", &file], &["sh", "-c", &script]);
    assert_eq!(term.view()["recorded"], true);
    here.go("on");
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(3));
    let shown = term.lines("0");
    // It is whole when the end is told.
    let (lines, _) = played(&std::fs::read_to_string(&file).expect("a recording"));
    assert!(lines.starts_with(&shown), "{lines:?}");
    let (lines, head) = played(&here.ok(&["term", "log", "t"]));
    assert!(lines.starts_with(&shown), "{lines:?}");
    assert_eq!((&head["version"], &head["width"], &head["height"]), (&2.into(), &40.into(), &10.into()));
    assert!(head["command"].as_str().is_some_and(|command| command.starts_with("sh -c")));
    // What is there is not written over, and nothing is made.
    let why = here.fails(125, &["term", "run", "u", "--log", &file, "--", "true"]);
    assert!(why.contains("File exists") && why.contains("demo.cast"), "{why}");
    assert!(here.fails(1, &["term", "show", "u"]).contains("there is no terminal"));
    let why = here.fails(1, &["term", "log", "t", "--limit", "10"]);
    assert!(why.contains("--limit"), "{why}");
    let none = here.file("none.cast").display().to_string();
    here.fails(127, &["term", "run", "u", "--log", &none, "--", "no-such-command"]);
    assert!(!std::path::Path::new(&none).exists());
}

#[test]
fn a_picture_is_written_into_a_file() {
    let here = Place::new();
    let _term = Term::run(&here, "t", &[], &["sh", "-c", "echo text"]);
    assert_eq!(here.run(&["term", "wait", "--exit", "t", "--timeout", "5m"]).status, Some(0));
    let file = here.file("t.png").display().to_string();
    assert_eq!(here.ok(&["term", "show", "t", "--png", &file]), "");
    let bytes = std::fs::read(&file).expect("a file");
    assert!(bytes.starts_with(b"\x89PNG\r\n"));
    // 40 and 10 cells.
    assert_eq!((&bytes[16..20], &bytes[20..24]), (&360u32.to_be_bytes()[..], &170u32.to_be_bytes()[..]));
    let why = here.fails(1, &["term", "show", "t", "--png", "/proc/none.png"]);
    assert!(why.contains("/proc/none.png"), "{why}");
}

#[test]
fn listings_of_all_objects_include_terminals() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu"]);
    let term = Term::run(&here, "build", &[], &["sh", "-c", "echo begun; read x; exit 3"]);
    here.ok(&["term", "wait", "build", "begun", "--timeout", "5m"]);
    let listed = here.ok(&["ls"]);
    let line = listed.lines().find(|line| line.starts_with("build")).expect("a line");
    assert!(line.contains("terminal") && line.contains("running, sh -c"), "{listed}");
    let rows = here.json(&["ls"]);
    assert_eq!((&rows[0]["kind"], &rows[1]["kind"]), (&"pool".into(), &"terminal".into()));
    assert_eq!(
        (&rows[1]["name"], &rows[1]["state"], &rows[1]["arena"]),
        (&"build".into(), &"running".into(), &Value::Null)
    );
    assert!(here.ok(&["ls", "build"]).contains("running"));
    assert!(!here.ok(&["ls", "default"]).contains("build"));
    let shown = here.ok(&["show", "build"]);
    assert!(
        shown.starts_with("build: terminal, running") && shown.contains("40x10") && shown.contains("keeper pid"),
        "{shown}"
    );
    assert_eq!(here.json(&["show", "build"])["holders"], 1);
    assert_eq!(here.ok(&["complete", "--", "show", "b"]), "build\n");
    assert_eq!(here.ok(&["complete", "--", "term", "log", "b"]), "build\n");
    let looked = here.json(&["top", "--once", "--view", "terminals", "--interval", "50ms"]);
    let of = &looked["terminals"][0];
    // The kernel's terminal writes a line's end as two.
    assert_eq!((&of["name"], &of["state"], &of["written_bytes"]), (&"build".into(), &"running".into(), &7.into()));
    assert_eq!(of["written_bytes_per_second"], 0.0);
    let text = here.ok(&["top", "--once", "--view", "terminals", "--interval", "50ms"]);
    assert!(text.starts_with("NAME") && text.contains("build  running"), "{text}");
    let why = here.fails(1, &["rm", "build"]);
    assert!(why.contains("in use"), "{why}");
    let first = term.pid("holder");
    kill(first, libc::SIGKILL);
    until("another holder", || (here.json(&["term", "show", "build"])["holders"] == 2).then_some(()));
    let metrics = here.ok(&["metrics"]);
    for line in ["chappe_terminal_running{name=\"build\"} 1", "chappe_terminal_holders_total{name=\"build\"} 2"] {
        assert!(metrics.lines().any(|l| l == line), "{metrics}");
    }
    let found = here.ok(&["doctor"]);
    assert!(found.contains("terminals: 1") && found.contains("terminal `build` has its holder number 2"), "{found}");
    here.ok(&["term", "send", "build", "--enter", "x"]);
    assert_eq!(here.run(&["term", "wait", "--exit", "build", "--timeout", "5m"]).status, Some(3));
    assert!(here.ok(&["metrics"]).contains("chappe_terminal_exit_status{name=\"build\"} 3"));
    assert!(here.fails(1, &["rm", "none"]).contains("there is no object `none`"));
    // An object of the same name comes first.
    here.ok(&["sem", "create", "build"]);
    assert!(here.ok(&["show", "build"]).contains("semaphore"));
    assert_eq!(here.json(&["rm", "build"])["kind"], "semaphore");
    until("keeper and holder end", || here.run(&["rm", "build"]).status.filter(|status| *status == 0));
    assert_eq!(here.ok(&["term", "ls"]), "");
}

#[test]
fn looking_at_a_file_that_is_cut_short_ends_with_an_error() {
    let here = Place::new();
    let term = Term::run(&here, "t", &[], &["sh", "-c", "echo begun; read x"]);
    here.ok(&["term", "wait", "t", "begun", "--timeout", "5m"]);
    let program = term.pid("pid");
    let looks = Place::spawn(&mut here.command(&["term", "wait", "t", "never"]));
    until("it waits", || {
        let file = here.arenas().join(".term-t").display().to_string();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", looks.pid())).unwrap_or_default();
        // Its two threads sleep: one of them for the terminal's end.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", looks.pid())).map_or(0, Iterator::count);
        (maps.contains(&file) && tasks == 2).then_some(())
    });
    std::fs::OpenOptions::new().write(true).open(here.arenas().join(".term-t")).unwrap().set_len(0).unwrap();
    kill(program, libc::SIGKILL);
    let ran = looks.end();
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("was cut short"), "{}", ran.err);
    let why = here.fails(1, &["term", "show", "t"]);
    assert!(why.contains("is not a terminal of this version"), "{why}");
}

/// A pipe that the caller has open ends with the caller, and not with the recording.
#[test]
fn a_recorder_has_no_file_of_its_callers() {
    let here = Place::new();
    let script = "exec 7>&1; \"$CHAPPE\" term run t --log t.cast -- sleep 1000 > name; exec 7>&-; echo done";
    let ran = Place::spawn(&mut here.program("sh", &["-c", script])).end();
    // It has come to the pipe's end.
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "done\n"), "{}", ran.err);
    let term = Term { here: &here, name: "t" };
    assert_eq!(term.view()["recorded"], true);
}
