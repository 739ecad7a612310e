//! Storms over terminals: holders that are killed while vim, htop and make draw, and viewers that are killed and stopped. `script` records what the
//! program writes on its way to the terminal; an emulator that no one kills makes a screen of the record.

use crate::place::{Place, kill, not_tested, runs, until};
use chappe::term::cell::Style;
use chappe::term::feed::Emulator;
use chappe::term::line;
use chappe::term::place::{self, Role};
use chappe::term::screen::Screen;
use chappe::term::view::Watch;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often each program's holder is killed; together a thousand times.
const KILLS: u32 = 334;

/// How many viewers are killed; every fourth was stopped before.
const VIEWERS: u32 = 10_000;

/// Numbers that look random; those of the same seed are the same.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64);
        let seed = std::env::var("CHAPPE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(now);
        eprintln!("CHAPPE_SEED={seed}");
        Random(seed | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// A program in a terminal, with the record of what it writes.
struct Session<'a> {
    here: &'a Place,
    name: &'a str,
    place: place::Place,
    record: PathBuf,
    script: u32,
    oracle: Emulator,
    /// How much of the record the oracle has.
    fed: usize,
    /// The lines that have left the oracle's screen.
    lines: Vec<String>,
}

impl<'a> Session<'a> {
    fn run(here: &'a Place, name: &'a str, command: &str) -> Session<'a> {
        let record = here.file(&format!("{name}-record"));
        let script = ["script", "-q", "-f", "-O", record.to_str().expect("a path"), "-c", command];
        let options = ["term", "run", name, "--size", "80x24", "--history", "64M", "--"];
        here.ok(&[&options[..], &script].concat());
        let dir = place::directory(&here.arenas()).expect("it is there");
        let place = place::Place::find(&dir, name, true).expect("it runs");
        let script = until("the program", || place.process(Role::Program));
        Session { here, name, place, record, script, oracle: Emulator::new(80, 24), fed: 0, lines: Vec::new() }
    }

    /// What `script` runs: the first process of its own session.
    fn program(&self) -> u32 {
        until("the program within", || {
            let path = format!("/proc/{0}/task/{0}/children", self.script);
            std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
        })
    }

    /// All that was written so far, behind the first line, which is `script`'s own.
    fn written(&self) -> Vec<u8> {
        let mut all = std::fs::read(&self.record).expect("a record");
        let first = all.iter().position(|byte| *byte == b'\n').map_or(all.len(), |at| at + 1);
        all.split_off(first)
    }

    /// Kills the holder that there is now.
    fn kill_holder(&self, last: &mut u32) {
        let holder = until("another holder", || self.place.process(Role::Holder).filter(|pid| pid != last));
        kill(holder, libc::SIGKILL);
        *last = holder;
    }

    /// Types, where it can be: not while there is no holder.
    fn type_bytes(&self, bytes: &[u8]) {
        let mut watch = Watch::begin(&self.place).expect("a watch");
        let writer = self.place.writer(Duration::from_secs(1));
        let _ = writer.and_then(|writer| writer.type_bytes(bytes, Some(Duration::from_millis(300)), &mut watch));
    }

    /// Stops the program, and compares all that it wrote with what the terminal has. `script` stops itself when what it runs is stopped.
    fn compare(&mut self) {
        let group = -(self.program() as i32);
        // SAFETY: plain system calls.
        let signal = |to: i32, signal| unsafe { libc::kill(to, signal) };
        signal(group, libc::SIGSTOP);
        let (mut before, mut since) = (0, Instant::now());
        let (written, now) = until("the terminal has all that was written", || {
            let written = self.written();
            let now = self.place.snapshot()?;
            if written.len() != before {
                (before, since) = (written.len(), Instant::now());
            }
            let is_all = now.beside.parsed == written.len() as u64 && since.elapsed() > Duration::from_millis(50);
            is_all.then_some((written, now))
        });
        self.oracle.feed(&written[self.fed..]);
        self.fed = written.len();
        let scrolled = self.oracle.screen_mut().take_scrolled();
        let mut from = 0;
        for (end, _) in scrolled.ends {
            self.lines.push(line::plain(&scrolled.text[from..end]));
            from = end;
        }
        assert_eq!(seen(&now.screen), seen(self.oracle.screen()), "behind {} bytes", self.fed);
        let kept = self.place.lines(&now, 0);
        assert_eq!(kept.lost, 0);
        let past = kept.lines.iter().take(self.lines.len()).map(|line| line::plain(&line.encoded));
        assert!(past.eq(self.lines.iter().cloned()), "the history behind {} bytes", self.fed);
        // Its answers are typed by the holder.
        let answers = self.oracle.screen().answers().len();
        self.oracle.screen_mut().answered(answers);
        signal(self.script as i32, libc::SIGCONT);
        signal(group, libc::SIGCONT);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.here.run(&["term", "kill", self.name, "--signal", "CONT"]);
        let _ = self.here.run(&["term", "kill", self.name, "--signal", "KILL"]);
    }
}

/// What can be seen of a screen.
fn seen(screen: &Screen) -> (Vec<String>, Vec<Style>, String) {
    let rows = (0..screen.rows()).map(|row| screen.text(row)).collect();
    let cells = (0..screen.rows()).flat_map(|row| screen.shown().row(row));
    let rest = (screen.cursor(), screen.modes(), screen.title(), screen.base(), screen.shape());
    (rows, cells.map(|cell| screen.style_of(*cell)).collect(), format!("{rest:?}"))
}

fn is_there(program: &str) -> bool {
    let found =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|at| at.join(program).exists());
    if !found {
        not_tested(&format!("terminals with {program}: it is not installed"));
    }
    found
}

/// A holder is killed again and again while a program draws, and somebody types one of these now and then.
fn holders_are_killed(program: &str, command: &str, keys: &[&str]) {
    if !is_there("script") || !is_there(program) {
        return;
    }
    let here = Place::new();
    let mut session = Session::run(&here, program, command);
    let (mut random, mut last) = (Random::new(), 0);
    for round in 1..=KILLS {
        if !keys.is_empty() {
            let keys = keys[random.below(keys.len() as u64) as usize];
            session.type_bytes(keys.as_bytes());
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        session.kill_holder(&mut last);
        if round % 20 == 0 || round == KILLS {
            session.compare();
        }
    }
    let holders = session.place.holders();
    assert!(holders > u64::from(KILLS), "{holders}");
    eprintln!("{program}: {KILLS} kills, {} bytes, {} lines", session.fed, session.lines.len());
}

#[test]
#[ignore = "storm: holders that are killed at random"]
fn a_holder_that_is_killed_while_vim_draws_loses_nothing() {
    let keys = [
        "ggVG~",
        "\x06",
        "\x02",
        ":%s/e/E/g\r",
        "u",
        "Gochappe\x1b",
        ":split\r",
        ":only!\r",
        "\x0c",
        ":set nu!\r",
        "dd",
        "p",
        ":help\r",
    ];
    holders_are_killed("vim", "vim -u NONE -i NONE -n /etc/services", &keys);
}

#[test]
#[ignore = "storm: holders that are killed at random"]
fn a_holder_that_is_killed_while_htop_draws_loses_nothing() {
    holders_are_killed("htop", "htop -d 1", &["t", "H", "\x1b[B", "\x1b[A", "I", "P", "M", "F"]);
}

#[test]
#[ignore = "storm: holders that are killed at random"]
fn a_holder_that_is_killed_while_make_writes_loses_nothing() {
    let rule = r#"f%:; @printf '\033[1;32mcc\033[0m %s -o %s\n' $@ "$$(seq -s ' ' 60)"; echo 'warning: é 中 unused'"#;
    let make = format!("all: $(addprefix f,$(shell seq 500))\n{rule}\n");
    let here = Place::new();
    std::fs::write(here.file("makefile"), make).expect("room");
    let command = format!("while make -j2 -f {}; do :; done", here.file("makefile").display());
    holders_are_killed("make", &command, &[]);
}

#[test]
#[ignore = "storm: ten thousand viewers that are killed, or stopped before"]
fn viewers_that_are_killed_or_stopped_change_nothing() {
    if !is_there("script") {
        return;
    }
    let here = Place::new();
    // Slow enough that a minute of it fits into the history.
    let command =
        "n=0; while :; do n=$((n + 1)); printf '\\033[3%dmline %d\\033[0m\\r\\n' $((n % 8)) $n; sleep 0.002; done";
    let mut session = Session::run(&here, "viewed", command);
    let (mut random, mut stopped) = (Random::new(), VecDeque::new());
    let (keeper, holder) =
        (session.place.process(Role::Keeper), until("a holder", || session.place.process(Role::Holder)));
    for round in 1..=VIEWERS {
        let looks = [&["term", "wait", "viewed", "never"][..], &["term", "show", "viewed", "--history", "1000"]];
        let viewer = Place::spawn(&mut here.command(looks[random.below(2) as usize]));
        std::thread::sleep(Duration::from_micros(random.below(8_000)));
        if round % 4 == 0 {
            // One that has ended is still this process's child.
            viewer.kill(libc::SIGSTOP);
            stopped.push_back(viewer);
        } else {
            viewer.kill(libc::SIGKILL);
            let _ = viewer.status();
        }
        if stopped.len() > 30
            && let Some(viewer) = stopped.pop_front()
        {
            viewer.kill(libc::SIGKILL);
            let _ = viewer.status();
        }
        if round % 500 == 0 {
            session.compare();
        }
    }
    for viewer in stopped {
        viewer.kill(libc::SIGKILL);
        let _ = viewer.status();
    }
    assert_eq!((session.place.process(Role::Keeper), session.place.process(Role::Holder)), (keeper, Some(holder)));
    assert!(session.place.holders() == 1 && runs(holder));
    eprintln!("{VIEWERS} viewers, {} bytes, {} lines", session.fed, session.lines.len());
}
