//! `chappe top` on a terminal.

use crate::eyes::{object, scene};
use crate::place::{Place, not_tested, until};
use crate::terminal::{Screen, pair, start_on};
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;

#[test]
fn top_on_a_terminal_shows_looks_into_and_takes_away() {
    let here = Place::new();
    let (holder, waiter) = scene(&here);
    let mut screen = Screen::sized(
        &here,
        "TERM=xterm $CHAPPE top --interval 100ms; echo status $?; stty -a | grep -o ' icanon'",
        24,
        80,
    );
    // Of a screen only what changes is written, and blanks are stepped over: so one word at a time.
    screen.expect("gpu");
    screen.expect("permits,");
    screen.press("\r");
    screen.expect("permit");
    screen.expect("line:");
    // No is no.
    screen.press("r");
    screen.expect("Take");
    screen.press("n");
    screen.expect("back");
    assert_eq!(here.json(&["show", "gpu"])["waiting"], 1);
    screen.press("r");
    screen.expect("Take");
    screen.press("y");
    // The waiter for two gets them.
    assert_eq!(waiter.end().status, Some(0));
    // Out of the pool, and out.
    screen.press("q");
    screen.press("q");
    screen.expect("status 0");
    screen.expect("icanon");
    screen.end();
    drop(holder);
}

#[test]
fn top_looks_into_a_holder() {
    let here = Place::new();
    let (holder, waiter) = scene(&here);
    let mut screen = Screen::sized(&here, "TERM=xterm $CHAPPE top --interval 100ms; echo status $?", 24, 80);
    screen.expect("permits,");
    screen.press("\r");
    screen.expect("held");
    screen.press("\r");
    // Of a screen only what changes is written: this begins where "gpu" was.
    screen.expect("all that pid");
    // Nothing is asked here; one step back it is.
    screen.press("r");
    screen.press("q");
    screen.press("r");
    screen.expect("Take");
    screen.press("n");
    screen.press("q");
    screen.press("q");
    screen.expect("status 0");
    screen.end();
    drop((holder, waiter));
}

#[test]
fn top_draws_in_whatever_room_there_is() {
    let here = Place::new();
    let (holder, waiter) = scene(&here);
    for (rows, columns) in [(5, 20), (1, 1), (3, 10), (60, 300)] {
        let script = "NO_COLOR=1 TERM=xterm $CHAPPE top --interval 50ms; echo status $?";
        let mut screen = Screen::sized(&here, script, rows, columns);
        // It clears the screen when it begins.
        screen.expect("\x1b[");
        for key in ["?", "x", "\t", "\t", "s", "/gp\r", "\r", "\x1b"] {
            screen.press(key);
        }
        screen.press("\x03");
        screen.expect("status 0");
        screen.end();
    }
    drop((holder, waiter));
}

#[test]
fn a_signal_ends_top_and_leaves_the_terminal_as_it_was() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu"]);
    let script = "TERM=xterm sh -c 'echo $$ > pid; exec $CHAPPE top --interval 50ms'; echo status $?; stty -a | grep -o ' icanon'";
    let mut screen = Screen::sized(&here, script, 24, 80);
    screen.expect("permit,");
    let pid = std::fs::read_to_string(here.file("pid")).unwrap().trim().parse().unwrap();
    crate::place::kill(pid, libc::SIGTERM);
    screen.expect("status 143");
    screen.expect("icanon");
    screen.end();
}

#[test]
fn top_ends_as_by_a_hang_up_when_its_terminal_closes() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu"]);
    for view in ["objects", "pipes"] {
        let (mut screen, slave) = pair(24, 80);
        let mut top = here.command(&["top", "--interval", "50ms", "--view", view]);
        top.env("TERM", "xterm");
        let top = start_on(top, slave);
        let (mut seen, mut part) = (Vec::new(), [0; 4096]);
        // It hides the cursor once it has drawn.
        while !String::from_utf8_lossy(&seen).contains("\x1b[?25l") {
            let n = screen.read(&mut part).expect("it has the terminal open");
            seen.extend_from_slice(&part[..n]);
        }
        drop(screen);
        assert_eq!(top.status().signal(), Some(libc::SIGHUP), "{view}");
    }
}

/// Nanoseconds of processor that a process has used.
fn used(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    // Of its threads that have ended, too: those are in the sum that `stat` has, by hundredths of a second.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let ticks = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    let all = ticks.map(|t| t.parse::<u64>().unwrap()).sum::<u64>() * 10_000_000;
    all.max(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
#[ignore = "storm: measures, and makes ten thousand objects"]
fn top_costs_one_percent_of_a_processor_with_ten_thousand_objects() {
    if cfg!(debug_assertions) {
        return not_tested("what `chappe top` costs: the program is not optimised (cargo test --release)");
    }
    let here = Place::new();
    here.ok(&["arena", "create", "default", "--objects", "16384"]);
    for thousand in 0..10 {
        let names: Vec<String> = (0..1000).map(|n| format!("licence-{thousand}-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        here.ok(&[&["acquire", "--create"], &names[..], &["--", "true"]].concat());
    }
    let script = "TERM=xterm sh -c 'echo $$ > pid; exec $CHAPPE top --interval 500ms'; echo status $?";
    let mut screen = Screen::sized(&here, script, 24, 80);
    screen.expect("permit,");
    let pid = std::fs::read_to_string(here.file("pid")).unwrap().trim().parse().unwrap();
    let (before, begun) = (used(pid), std::time::Instant::now());
    std::thread::sleep(std::time::Duration::from_secs(20));
    let share = (used(pid) - before) as f64 / begun.elapsed().as_nanos() as f64;
    println!("chappe top, 10,000 objects, 2 looks a second: {:.2} % of a processor", 100.0 * share);
    screen.press("q");
    screen.expect("status 0");
    screen.end();
    assert!(share <= 0.01, "{share}");
}

#[test]
fn top_shows_pipes_and_who_is_behind() {
    let here = Place::new();
    // A reader that never reads: its pipe is full, and its writer sleeps.
    let mut pipeline = here.program("sh", &["-c", "yes | sleep 60"]);
    let running = Place::spawn(&mut pipeline);
    let seen = until("the pipe is full", || {
        // There may be many pipes on this machine.
        let out = here.command(&["top", "--once", "--json", "--view", "pipes", "--interval", "50ms"]).output().unwrap();
        let seen: Value = serde_json::from_slice(&out.stdout).unwrap();
        let ours = |p: &&Value| {
            let alone = p["readers_in_all"] == 1 && p["writers_in_all"] == 1;
            alone && p["readers"][0]["name"] == "sleep" && p["writers"][0]["name"] == "yes"
        };
        let pipes = seen["pipes"].as_array().unwrap();
        let full = pipes.iter().filter(ours).find(|p| p["bytes"] == p["room"] && p["state"] == "the reader is behind");
        full.cloned()
    });
    let writer = seen["writers"][0]["pid"].as_u64().unwrap();
    assert_eq!(seen["writers"][0]["sleeps_in"], "write", "{seen}");
    let out = here.command(&["top", "--once", "--view", "pipes", "--interval", "50ms"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().find(|l| l.contains(&format!("yes {writer} | sleep "))).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("100%") && line.contains("the reader is behind"), "{line}");
    // On a terminal, by Tab; and into it.
    let mut screen =
        Screen::sized(&here, "TERM=xterm $CHAPPE top --view pipes --interval 100ms; echo status $?", 24, 80);
    screen.expect("FULL");
    screen.press("/yes\r");
    screen.expect("behind");
    screen.press("\r");
    screen.expect("percent");
    screen.press("q");
    screen.press("q");
    screen.expect("status 0");
    screen.end();
    crate::place::kill(writer as u32, libc::SIGKILL);
    crate::place::kill(seen["readers"][0]["pid"].as_u64().unwrap() as u32, libc::SIGKILL);
    drop(running);
}

#[test]
fn an_arena_that_may_not_be_looked_at_and_one_that_comes_and_goes_are_no_end() {
    let here = Place::new();
    here.ok(&["pool", "create", "good/p"]);
    here.ok(&["pool", "create", "brief/p"]);
    let script = "TERM=xterm $CHAPPE top --interval 50ms; echo status $?";
    let mut screen = Screen::sized(&here, script, 24, 80);
    screen.expect("brief/p");
    here.ok(&["arena", "rm", "brief"]);
    until("it has gone", || (!here.ok(&["top", "--once", "--interval", "50ms"]).contains("brief")).then_some(()));
    // It comes again, and is seen with what it has now. The screen is sent what has changed alone: of a name on the same
    // line only the letters that differ, whether or not the line was empty in between. So every letter differs.
    here.ok(&["sem", "create", "brief/zonk", "--value", "7"]);
    screen.expect("zonk");
    screen.press("q");
    screen.expect("status 0");
    screen.end();
    let seen = here.json(&["top", "--once", "--interval", "50ms"]);
    assert_eq!(object(&seen, "brief/zonk")["value"], 7);
}
