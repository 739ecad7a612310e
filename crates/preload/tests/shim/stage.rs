//! Programs in C, compiled once, run with the library in front of their C library, or without it; each test has arenas of its own.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a test gives up after.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// The library under test: cargo puts it beside the tests.
pub fn library() -> PathBuf {
    let exe = std::env::current_exe().expect("this test is a file");
    let there = exe.with_file_name("libchappe_preload.so");
    assert!(there.is_file(), "no {}", there.display());
    there
}

/// Says that something is not tested here, and why. `cargo xtask test` repeats it at its end.
pub fn not_tested(what: &str) {
    // Not by a macro: those are heard only of tests that fail.
    let _ = writeln!(std::io::stderr(), "not tested: {what}");
}

/// Whether a program can be run.
pub fn is_there(program: &str) -> bool {
    let tried = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|s| s.success())
}

/// Polls until `then` gives something.
#[track_caller]
pub fn until<T>(what: &str, mut then: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = then() {
            return found;
        }
        assert!(began.elapsed() < WATCHDOG, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Where the programs are. Statics are not dropped: `clean` removes it.
static DIR: OnceLock<TempDir> = OnceLock::new();

extern "C" fn clean() {
    if let Some(dir) = DIR.get() {
        let _ = std::fs::remove_dir_all(dir.path());
    }
}

/// A program of `tests/c`, compiled with all warnings as errors. None, and it is said, where there is no compiler.
pub fn compiled(name: &str) -> Option<PathBuf> {
    compiled_with(name, &[])
}

/// The same with more words for the compiler.
pub fn compiled_with(name: &str, words: &[&str]) -> Option<PathBuf> {
    static MADE: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    if !is_there("cc") {
        not_tested(&format!("{name}: there is no C compiler (cc)"));
        return None;
    }
    let dir = DIR.get_or_init(|| {
        // SAFETY: a plain call. What is registered runs when the program of tests ends.
        unsafe { libc::atexit(clean) };
        tempfile::Builder::new().prefix("chappe-c-").tempdir().expect("a directory")
    });
    let key = format!("{name} {}", words.join(" "));
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(there) = made.get(&key) {
        return Some(there.clone());
    }
    let to = dir.path().join(format!("{}-{name}", made.len()));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let ran = Command::new("cc")
        .args(["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&to, &from])
        .args(words)
        .output()
        .expect("cc was there");
    assert!(ran.status.success(), "{name} does not compile:\n{}", String::from_utf8_lossy(&ran.stderr));
    made.insert(key, to.clone());
    Some(to)
}

/// A directory of arenas for one test.
pub struct Stage {
    dir: TempDir,
}

impl Stage {
    pub fn new() -> Stage {
        Stage { dir: tempfile::Builder::new().prefix("chappe-shim-").tempdir_in("/dev/shm").expect("a directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A program with the C library alone.
    pub fn plain(&self, program: impl AsRef<Path>) -> Command {
        let mut c = Command::new(program.as_ref());
        c.env("CHAPPE_DIR", self.path()).env_remove("LD_PRELOAD");
        c.env_remove("CHAPPE_RUN_OWNED").env_remove("CHAPPE_RUN_BARGING");
        c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        c
    }

    /// The same with the library in front.
    pub fn under(&self, program: impl AsRef<Path>) -> Command {
        let mut c = self.plain(program);
        c.env("LD_PRELOAD", library());
        c
    }

    /// The same, as `--owned` has it.
    pub fn owned(&self, program: impl AsRef<Path>) -> Command {
        let mut c = self.under(program);
        c.env("CHAPPE_RUN_OWNED", "1");
        c
    }

    /// The same, as `--barging` has it.
    pub fn barging(&self, program: impl AsRef<Path>) -> Command {
        let mut c = self.under(program);
        c.env("CHAPPE_RUN_BARGING", "1");
        c
    }

    /// The files of named semaphores.
    pub fn files(&self) -> Vec<String> {
        let Ok(all) = std::fs::read_dir(self.path().join(".posix")) else { return Vec::new() };
        let names = all.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|n| n != ".lock").collect();
        names.sort();
        names
    }
}

/// A process that is killed when the test is over.
pub struct Running(Child);

impl Running {
    pub fn begin(c: &mut Command) -> Running {
        // A group of its own, with all that it starts.
        Running(c.process_group(0).spawn().expect("it can be started"))
    }

    /// It may have ended, and so may all that it has started.
    fn kill_all(&self) {
        // SAFETY: a plain system call; nobody else's group has the number while there is anybody in it, or it was not waited for.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
    }

    /// Waits for its end, which comes before the watchdog.
    #[track_caller]
    pub fn end(mut self) -> Output {
        let reading = [reader(self.0.stdout.take()), reader(self.0.stderr.take())];
        let status = until("a program's end", || self.0.try_wait().expect("it is our child"));
        if !status.success() {
            // What it has left running has its output still.
            self.kill_all();
        }
        let [stdout, stderr] = reading.map(|r| r.join().expect("reading ends"));
        Output { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended, and was waited for, may have lost its number to another.
        if matches!(self.0.try_wait(), Ok(None)) {
            self.kill_all();
            let _ = self.0.wait();
        }
    }
}

fn reader<R: Read + Send + 'static>(from: Option<R>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut all);
        }
        all
    })
}

/// Runs it to its end.
#[track_caller]
pub fn run(c: &mut Command) -> Output {
    Running::begin(c).end()
}

/// Runs it to its end, which is to be a good one; answers what it printed.
#[track_caller]
pub fn well(c: &mut Command) -> String {
    let ran = run(c);
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{c:?}: {}\n{out}\n{err}", ran.status);
    out.into_owned()
}
