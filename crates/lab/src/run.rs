//! Runs the rows, and shows how far it is.
//!
//! ```text
//!   sweep 1: every row once      sweep 2: those whose time is not spent      ...      until none is left, or all time is
//!
//!   chappe-lab             --one ID --rounds N --result FILE        a visit: one process, one pass through the row's benchmark
//!      |  stdout: what the benchmark prints; that of the first visit is kept as the row's text
//!      |  FILE:   the tables, as JSON, written when the pass is done
//! ```
//! What bounds a run is time, not rounds: a row is visited again while its time ([`Row::seconds`](crate::row::Row)) is likely to last for another visit. So a
//! slow machine measures less, not longer, and each row is measured at several moments of the run.
//!
//! A row that panics, ends without a result or does not end within `LONGEST` becomes a row that says so; the run goes on. Ctrl-C ends the row and the
//! run: the terminal sends it to both. What a row that was killed has left in /dev/shm the next run removes.

use crate::machine::{Machine, load};
use crate::report::{FORM, Outcome, Raw, Report, joined};
use crate::row::{Absent, Figures, Lab, Row};
use anyhow::{Context, Result, bail};
use chappe_bench::house::House;
use chappe_bench::table::recorded;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Rounds of a case in a visit, quick and whole: few, since what differs from process to process is known only by many visits.
const ROUNDS: (u32, u32) = (1, 3);
/// A row is visited so often at most.
const VISITS: (u32, u32) = (30, 90);
/// Nothing is visited a second time after so many seconds.
const ENOUGH: (f64, f64) = (165.0, 1420.0);
/// What one visit may take, whatever it measures.
const LONGEST: Duration = Duration::from_secs(150);
/// In the environment of a row: the program in Go.
const GO: &str = "CHAPPE_LAB_GO";

fn pick<T>(quick: bool, of: (T, T)) -> T {
    if quick { of.0 } else { of.1 }
}

/// What the process of a row leaves in its file.
#[derive(serde::Serialize, serde::Deserialize)]
struct Left {
    absent: Option<String>,
    tables: Vec<Raw>,
}

/// The process of one visit.
///
/// # Errors
/// The result cannot be written.
pub fn one(row: &Row, rounds: u32, result: &Path) -> Result<()> {
    let program = std::env::current_exe().context("a program has a file")?;
    let go = std::env::var_os(GO).map(PathBuf::from);
    let lab = Lab { house: House::new(&format!("lab-{}", row.id)), rounds, program, go };
    // Programs that need locks have threads: with none, the C library leaves out half of its work.
    std::thread::spawn(|| {
        loop {
            std::thread::park()
        }
    });
    let mut absent = None;
    let tables = recorded(|| absent = (row.measure)(&lab).err());
    let tables = tables.iter().filter(|t| !t.rows().is_empty() && (row.shows)(t.title())).map(Raw::new).collect();
    let text = serde_json::to_string(&Left { absent: absent.map(|Absent(why)| why), tables })?;
    std::fs::write(result, text).with_context(|| format!("cannot write {}", result.display()))
}

/// Files of this process that go when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("chappe-lab-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Scratch(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file left behind is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What has come of a row so far, and whether it is visited again.
struct Course {
    budget: f64,
    most: u32,
    used: f64,
    longest: f64,
    visits: Vec<Vec<Raw>>,
    absent: Option<String>,
    text: String,
}

impl Course {
    fn new(budget: u32, most: u32) -> Course {
        let budget = f64::from(budget);
        Course { budget, most, used: 0.0, longest: 0.0, visits: Vec::new(), absent: None, text: String::new() }
    }

    fn begun(&self) -> bool {
        !self.visits.is_empty() || self.absent.is_some()
    }

    fn goes_on(&self) -> bool {
        let again = (self.visits.len() as u32) < self.most && self.used + self.longest <= self.budget;
        !self.begun() || (self.absent.is_none() && again)
    }

    /// The seconds that it is still going to take.
    fn left(&self) -> f64 {
        if self.goes_on() { (self.budget - self.used).max(0.0) } else { 0.0 }
    }

    fn add(&mut self, seconds: f64, came: Result<Vec<Raw>, String>) {
        self.used += seconds;
        self.longest = self.longest.max(seconds);
        match came {
            Ok(tables) => self.visits.push(tables),
            // What other visits brought stays.
            Err(_) if !self.visits.is_empty() => self.most = 0,
            Err(why) => self.absent = Some(why),
        }
    }
}

/// The bar goes to stderr, if that is a terminal; otherwise a line a row.
struct Progress {
    bar: ProgressBar,
    began: Instant,
}

impl Progress {
    fn new() -> Progress {
        let bar = ProgressBar::new(1000);
        let style = "{bar:30} {percent:>3} %  {msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, began: Instant::now() }
    }

    fn show(&self, left: f64, what: &str) {
        let gone = self.began.elapsed().as_secs_f64();
        self.bar.set_position((1000.0 * gone / (gone + left).max(0.001)) as u64);
        let left = indicatif::HumanDuration(Duration::from_secs(left as u64));
        self.bar.set_message(format!("{left} left   {what}"));
        self.bar.tick();
    }

    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}

/// Waits for it, and shows the time meanwhile; after `LONGEST` it is ended.
fn wait(command: &mut Command, mut meanwhile: impl FnMut(f64)) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().context("cannot start a process for the row")?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        meanwhile(began.elapsed().as_secs_f64());
        // Rarely: this process must not be what the row measures.
        std::thread::sleep(Duration::from_millis(if began.elapsed() < Duration::from_secs(1) { 20 } else { 200 }));
    }
}

fn visit(
    row: &Row,
    rounds: u32,
    scratch: &Scratch,
    go: Option<&Path>,
    meanwhile: impl FnMut(f64),
) -> Result<(Result<Vec<Raw>, String>, String)> {
    let (result, out, err) = (scratch.file("result"), scratch.file("out"), scratch.file("err"));
    // What a visit before has left is none of this one's.
    let _ = std::fs::remove_file(&result);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", row.id, "--rounds", &rounds.to_string(), "--result"]).arg(&result);
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    if let Some(go) = go {
        command.env(GO, go);
    }
    let status = wait(&mut command, meanwhile)?;
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let left: Option<Left> = std::fs::read_to_string(&result).ok().and_then(|text| serde_json::from_str(&text).ok());
    let came = match (left, status) {
        (_, None) => Err(format!("the measurement did not end within {} s", LONGEST.as_secs())),
        (Some(Left { absent: Some(why), .. }), Some(status)) if status.success() => Err(why),
        (Some(Left { tables, .. }), Some(status)) if status.success() && !tables.is_empty() => Ok(tables),
        (Some(_), Some(status)) if status.success() => Err("the benchmark made no table on this machine".into()),
        (_, Some(status)) => Err(format!("the measurement ended with {status}: {}", reason(&read(&err)))),
    };
    Ok((came, read(&out)))
}

/// What a process said of its end: of a panic its words, which stand behind the place; of anything else the last line.
fn reason(said: &str) -> String {
    let lines: Vec<&str> = said.trim().lines().collect();
    let panic = lines.iter().position(|l| l.contains("panicked at")).and_then(|at| lines.get(at + 1));
    panic.or(lines.last()).copied().unwrap_or("it said nothing").to_owned()
}

/// Removes what rows of runs that were interrupted have left: their arenas.
fn tidy() {
    let Ok(all) = std::fs::read_dir("/dev/shm") else { return };
    for entry in all.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("chappe-lab-").and_then(|rest| rest.rsplit('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Somebody else's stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Builds the peers in Go, where `go` is; the program's sources are in this one.
fn build_go(scratch: &Scratch, meanwhile: impl FnMut(f64)) -> Result<PathBuf, String> {
    let directory = scratch.file("go");
    std::fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
    for (name, text) in chappe_bench::thread::GO_SOURCES {
        std::fs::write(directory.join(name), text).map_err(|e| e.to_string())?;
    }
    let (program, err) = (scratch.file("peers"), scratch.file("go-err"));
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).arg(".").current_dir(&directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&err).map_err(|e| e.to_string())?);
    match wait(&mut command, meanwhile) {
        Ok(Some(status)) if status.success() => Ok(program),
        Ok(_) => {
            let said = std::fs::read_to_string(&err).unwrap_or_default();
            Err(said.trim().lines().next_back().unwrap_or("it took too long").to_owned())
        }
        Err(_) => Err("there is no `go` here".into()),
    }
}

fn outcome(row: &Row, course: Course) -> Outcome {
    Outcome {
        id: row.id.into(),
        paper: row.paper,
        part: row.part.into(),
        title: row.title.into(),
        note: row.note.into(),
        figures: row.figures.map(|(on, lines)| Figures::new(on, lines)),
        tables: joined(&course.visits),
        visits: course.visits.len() as u32,
        absent: course.absent,
        text: course.text,
        seconds: course.used,
    }
}

/// Runs these rows.
///
/// # Errors
/// There is no row, or no process can be started.
pub fn all(rows: &[&Row], quick: bool) -> Result<Report> {
    if rows.is_empty() {
        bail!("no row is selected: `chappe lab --list` names them");
    }
    tidy();
    let (mut machine, scratch, progress) = (Machine::look(), Scratch::new()?, Progress::new());
    let mut courses: Vec<Course> =
        rows.iter().map(|row| Course::new(pick(quick, row.seconds), pick(quick, VISITS))).collect();
    let left = |courses: &[Course]| courses.iter().map(Course::left).sum::<f64>();
    let mut go = None;
    if rows.iter().any(|row| row.wants_go) {
        let all = left(&courses);
        match build_go(&scratch, |_| progress.show(all, "builds the peers in Go")) {
            Ok(program) => go = Some(program),
            Err(why) => progress.say(&format!("no peers in Go: {why}")),
        }
    }
    let mut sweep = 0;
    loop {
        let mut visited = false;
        for (at, row) in rows.iter().enumerate() {
            let late = progress.began.elapsed().as_secs_f64() > pick(quick, ENOUGH);
            if !courses[at].goes_on() || (late && courses[at].begun()) {
                continue;
            }
            visited = true;
            let what = format!("{}: {}", row.id, row.title);
            let all = left(&courses);
            let went = Instant::now();
            let shown = |gone: f64| progress.show((all - gone).max(0.0), &what);
            let (came, text) = visit(row, pick(quick, ROUNDS), &scratch, go.as_deref(), shown)?;
            let course = &mut courses[at];
            course.add(went.elapsed().as_secs_f64(), came);
            if sweep == 0 {
                course.text = text;
                let came = match &course.absent {
                    Some(why) => format!("not measured: {why}"),
                    None => format!("{} tables", course.visits.first().map_or(0, Vec::len)),
                };
                progress.say(&format!("{:<18}{:>6.1} s  {came}", row.id, course.used));
            }
        }
        if !visited {
            break;
        }
        sweep += 1;
    }
    progress.bar.finish_and_clear();
    machine.load.1 = load();
    machine.seconds = progress.began.elapsed().as_secs_f64();
    let outcomes = rows.iter().zip(courses).map(|(row, course)| outcome(row, course)).collect();
    Ok(Report { form: FORM, version: env!("CARGO_PKG_VERSION").into(), quick, machine, rows: outcomes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_panic_is_what_it_says() {
        let said = "\nthread 'main' panicked at a.rs:1:2:\nno room\nstack backtrace:\nnote: Some details are omitted\n";
        assert_eq!(reason(said), "no room");
        assert_eq!(reason("a\nit cannot start\n"), "it cannot start");
        assert_eq!(reason(""), "it said nothing");
    }

    #[test]
    fn a_row_is_visited_while_its_time_lasts() {
        let mut course = Course::new(10, 30);
        assert!(course.goes_on() && course.left() == 10.0);
        course.add(4.0, Ok(Vec::new()));
        assert!(course.goes_on() && course.left() == 6.0);
        course.add(3.0, Ok(Vec::new()));
        // The next may take four seconds, and three are left.
        assert!(!course.goes_on() && course.left() == 0.0);
    }

    #[test]
    fn a_row_that_takes_longer_than_it_may_has_one_visit() {
        let mut course = Course::new(1, 30);
        course.add(20.0, Ok(Vec::new()));
        assert!(!course.goes_on());
    }

    #[test]
    fn a_row_that_is_absent_is_asked_once_and_one_that_fails_later_keeps_what_it_has() {
        let mut course = Course::new(10, 30);
        course.add(0.1, Err("there is no such thing".into()));
        assert!(!course.goes_on() && course.absent.is_some());
        let mut course = Course::new(10, 30);
        course.add(0.1, Ok(Vec::new()));
        course.add(0.1, Err("it fell over".into()));
        assert!(!course.goes_on() && course.absent.is_none() && course.visits.len() == 1);
    }
}
