//! A process that has the pairs of the program that it runs, and does them when it is told to.
//!
//! One line each way: `time GROUP|ROW|COUNT` answers nanoseconds, `count GROUP|ROW` instructions and locked operations. It ends with its
//! starter.

use crate::house::House;
use crate::process::pin;
use crate::robustness::pairs::{Pair, make};
pub use crate::steps::Counts;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that makes the program one of these.
pub const WORD: &str = "pairs";

/// Does what it is told until it is told no more.
///
/// # Panics
/// When it is told nonsense.
pub fn serve() {
    // Before there are threads: the environment names it.
    let _house = House::new("pairs");
    // Programs that need locks have threads; with none, the C library leaves out half of its work.
    std::thread::spawn(|| {
        loop {
            std::thread::park()
        }
    });
    pin(0);
    let mut pairs: HashMap<String, Box<dyn Pair>> = HashMap::new();
    for line in stdin().lines() {
        let line = line.expect("whoever asks asks in words");
        let (what, of) = line.split_once(' ').expect("what, and of which pair");
        let mut parts = of.split('|');
        let (group, row) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let pair =
            pairs.entry(format!("{group}|{row}")).or_insert_with(|| make(group, row).expect("a pair that is known"));
        let answer = match (what, parts.next()) {
            ("time", Some(count)) => pair.time(count.parse().expect("a number")).to_string(),
            _ => {
                let counts = pair.count();
                format!("{} {}", counts.instructions, counts.locked)
            }
        };
        println!("{answer}");
        stdout().flush().expect("whoever asks listens");
    }
}

/// One of them, in another process.
pub struct Worker {
    child: Child,
    /// None: it has been told to end.
    tell: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the program.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(program: &Path) -> Result<Worker, String> {
        let mut command = Command::new(program);
        let started = command.arg(WORD).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|e| format!("{}: {e}", program.display()))?;
        let (Some(tell), Some(told)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        Ok(Worker { child, tell: Some(tell), told: BufReader::new(told) })
    }

    fn ask(&mut self, line: &str) -> Result<String, String> {
        let mut answer = String::new();
        let told = self.tell.as_mut().is_some_and(|tell| writeln!(tell, "{line}").is_ok());
        match self.told.read_line(&mut answer) {
            Ok(n) if told && n > 0 => Ok(answer.trim().to_owned()),
            _ => Err(format!("the program that does the pairs ended when it was asked `{line}`")),
        }
    }

    /// Nanoseconds of one pair, of so many.
    ///
    /// # Panics
    /// When it has ended.
    pub fn time(&mut self, group: &str, row: &str, count: u32) -> f64 {
        let answer = self.ask(&format!("time {group}|{row}|{count}"));
        answer.and_then(|a| a.parse().map_err(|_| a)).expect("a time")
    }

    /// What one pair executes.
    ///
    /// # Errors
    /// It has ended.
    pub fn count(&mut self, group: &str, row: &str) -> Result<Counts, String> {
        let answer = self.ask(&format!("count {group}|{row}"))?;
        let numbers: Vec<u64> = answer.split(' ').filter_map(|n| n.parse().ok()).collect();
        match numbers[..] {
            [instructions, locked] => Ok(Counts { instructions, locked }),
            _ => Err(answer),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It ends at the end of what it is told, and takes its directory along.
        self.tell = None;
        let end = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        // It is ours; one that hangs must not stay.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
