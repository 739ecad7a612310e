//! Table 7.2 of the thesis: a long file into a terminal's window of 80 columns and 24 rows.
//!
//! In each terminal the same script prints the file and asks for the cursor's place: the terminal answers when it has taken in all that came before. So a terminal
//! that has a large buffer gains nothing. A terminal of `chappe term` and one of tmux have their screens in memory, and no one looks; xterm draws on a display in memory
//! (Xvfb).

use crate::house::House;
use crate::table::{Case, Table};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// As long as the thesis' file.
const LENGTH: usize = 110_620;
/// What has no answer by then has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Text as a file of terminals' abilities has it.
fn text() -> String {
    let entry = |n: u32| {
        format!(
            "vt{n}|dec-vt{n}|vt{n}-am|terminal number {n} of many:\\\n\t:am:bs:km:mi:ms:xn:xo:\\\n\t:co#80:it#8:li#{}:\\\n\t:AL=\\E[%dL:DC=\\E[%dP:DL=\\E[%dM:DO=\\E[%dB:IC=\\E[%d@:\\\n\t:cl=\\E[H\\E[2J:cm=\\E[%i%d;%dH:ce=\\E[K:cd=\\E[J:\n",
            20 + n % 60
        )
    };
    let mut text: String = (100..)
        .map(entry)
        .scan(0, |len, entry| {
            let is_wanted = *len < LENGTH;
            *len += entry.len();
            is_wanted.then_some(entry)
        })
        .collect();
    text.truncate(LENGTH - 1);
    text + "\n"
}

/// The files of one measurement.
struct Desk {
    script: PathBuf,
    answer: PathBuf,
}

impl Desk {
    fn new(at: &Path) -> Desk {
        let (file, script, answer) = (at.join("termcap"), at.join("script"), at.join("answer"));
        std::fs::write(&file, text()).expect("room");
        let lines = format!(
            "stty -echo -icanon\na=${{EPOCHREALTIME/./}}\ncat '{}'\nprintf '\\033[6n'\nIFS= read -rsd R _\nb=${{EPOCHREALTIME/./}}\n\
             echo $((b - a)) > '{}.new'\nmv '{}.new' '{}'\n",
            file.display(),
            answer.display(),
            answer.display(),
            answer.display()
        );
        std::fs::write(&script, lines).expect("room");
        Desk { script, answer }
    }

    /// Starts the script in a terminal; nanoseconds that it took.
    fn run(&self, mut start: Command) -> f64 {
        // It may not be there yet.
        let _ = std::fs::remove_file(&self.answer);
        let mut child =
            start.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap_or_else(|e| panic!("{start:?}: {e}"));
        let began = Instant::now();
        let micros = loop {
            let found = std::fs::read_to_string(&self.answer).ok().and_then(|text| text.trim().parse::<f64>().ok());
            if let Some(micros) = found {
                break micros;
            }
            assert!(began.elapsed() < PATIENCE, "{start:?}: no answer");
            std::thread::sleep(Duration::from_millis(2));
        };
        // It may have ended long ago.
        let _ = child.wait();
        micros * 1e3
    }
}

/// A display in memory, ended with this.
struct Display {
    server: Child,
    name: String,
}

impl Display {
    fn new() -> Option<Display> {
        let is_there = |program: &str| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|path| path.join(program).exists())
        };
        if !is_there("xterm") || !is_there("Xvfb") {
            return None;
        }
        let mut xvfb = Command::new("Xvfb");
        xvfb.args(["-displayfd", "1", "-screen", "0", "1024x768x24", "-nolisten", "tcp"]);
        let mut server = xvfb.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        let read = BufReader::new(server.stdout.take()?).read_line(&mut line);
        let display = Display { server, name: format!(":{}", line.trim()) };
        (read.is_ok() && display.name.len() > 1).then_some(display)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Measures and prints. `chappe`: the command, with terminals.
///
/// # Errors
/// There is no command `chappe` with terminals.
pub fn measure(house: &House, chappe: &Path, rounds: u32) -> Result<(), String> {
    let lists = Command::new(chappe).args(["term", "ls"]).output();
    if !lists.is_ok_and(|out| out.status.success()) {
        return Err(format!("{} has no terminals: build the command with the feature `term`", chappe.display()));
    }
    let (desk, display) = (&Desk::new(house.path()), Display::new());
    let script = || desk.script.as_os_str();
    let mut number = 0;
    let mut cases = vec![Case::new("chappe term", move || {
        number += 1;
        let name = format!("cat{number}");
        let mut run = Command::new(chappe);
        run.args(["term", "run", &name, "--size", "80x24", "--", "bash"]).arg(script());
        let took = desk.run(run);
        let ended = Command::new(chappe).args(["term", "wait", "--exit", &name]).status();
        assert!(ended.is_ok_and(|status| status.success()), "{name}");
        let removed = Command::new(chappe).args(["term", "rm", &name]).status();
        assert!(removed.is_ok_and(|status| status.success()), "{name}");
        took
    })];
    if Command::new("tmux").arg("-V").output().is_ok_and(|out| out.status.success()) {
        let socket = house.path().join("tmux");
        cases.push(Case::new("tmux", move || {
            let mut run = Command::new("tmux");
            run.arg("-S").arg(&socket).args(["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "bash"]);
            run.arg(script());
            desk.run(run)
        }));
    } else {
        println!("tmux is not there");
    }
    match &display {
        Some(display) => cases.push(Case::new("xterm", move || {
            let mut run = Command::new("xterm");
            run.args(["-display", &display.name, "-geometry", "80x24", "-e", "bash"]).arg(script());
            desk.run(run)
        })),
        None => println!("xterm or Xvfb is not there"),
    }
    let table = Table::measure(format!("cat of {LENGTH} bytes into a window of 80x24"), rounds, cases);
    println!("{}", table.report());
    Ok(())
}
