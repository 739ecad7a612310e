//! A house of its own for each test: a directory of arenas, and actors, which are children that are this same program.

use chappe::directory;
use std::io::{BufRead, BufReader, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub const ROLE: &str = "CHAPPE_TEST_ROLE";
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// This program again, in which the `actor` of the caller's file runs alone, and has this role.
#[track_caller]
pub fn this_as_actor(role: &str) -> Command {
    let suite = Path::new(Location::caller().file()).file_stem().unwrap().to_str().unwrap();
    let is_the_program = module_path!().split("::").next() == Some(suite);
    let test = if is_the_program { "actor".to_owned() } else { format!("{suite}::actor") };
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(ROLE, role);
    program
}

/// A directory for arenas, removed afterwards. Tests take turns: the directory is named by the environment.
pub struct House {
    path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl House {
    pub fn new(name: &str) -> House {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let path = PathBuf::from(format!("/dev/shm/chappe-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        // SAFETY: tests take turns, and no other thread of this program reads the environment meanwhile.
        unsafe { std::env::set_var("CHAPPE_DIR", &path) };
        assert_eq!(directory().unwrap(), path);
        House { path, _turn: turn }
    }

    #[track_caller]
    pub fn actor(&self, role: &str) -> Actor {
        let mut child = this_as_actor(role)
            .env("CHAPPE_DIR", &self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, says) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Actor { child, told: Some(told), says }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

pub struct Actor {
    pub child: Child,
    told: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Actor {
    /// The rest of the next line that begins with `>`.
    pub fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "the actor ended without a word");
            if let Some((_, text)) = line.split_once('>') {
                return text.trim().to_owned();
            }
        }
    }
    pub fn tell(&mut self, text: &str) {
        writeln!(self.told.as_mut().unwrap(), "{text}").unwrap();
    }
    /// Stops it; it is stopped when this returns.
    pub fn stop(&self) {
        self.send(libc::SIGSTOP);
        let mut status = 0;
        let pid = self.child.id() as libc::pid_t;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) }, pid);
    }
    pub fn go_on(&self) {
        self.send(libc::SIGCONT);
    }
    fn send(&self, signal: i32) {
        // SAFETY: a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
    pub fn ended(mut self) {
        self.told = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn say(text: &str) {
    println!(">{text}");
}

pub fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_owned()
}

pub fn exec(args: &[&str]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    Command::new(args[0]).args(&args[1..]).stdout(Stdio::null()).exec()
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}: still not so after 120 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub const LONG: Duration = Duration::from_secs(120);

/// A sequence of numbers of its own for each thread, the same in each run.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}
