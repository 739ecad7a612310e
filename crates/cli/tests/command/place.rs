//! A directory of arenas for one test, and processes in it. Nothing here waits for a time: events are polled for, and only
//! a watchdog that is far away ends a test that hangs.

use serde_json::Value;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The binary under test.
pub const CHAPPE: &str = env!("CARGO_BIN_EXE_chappe");

/// What a test gives up after.
const WATCHDOG: Duration = Duration::from_secs(300);

/// Polls until `then` gives something.
#[track_caller]
pub fn until<T>(what: &str, mut then: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = then() {
            return found;
        }
        assert!(began.elapsed() < WATCHDOG, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says that something is not tested here, and why. `cargo xtask test` repeats it at its end.
pub fn not_tested(what: &str) {
    // Not by a macro: those are heard only of tests that fail.
    let _ = writeln!(std::io::stderr(), "not tested: {what}");
}

/// Makes a file that can be executed at once. Whatever another test has just forked has it open for writing until it becomes a
/// program of its own, and the kernel executes nothing that is: so this waits until nobody has.
pub fn executable(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("room");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our own");
    let file = std::fs::File::open(path).expect("our own");
    // A lease for reading is given only while nobody writes. It goes with the descriptor.
    let leased = || {
        // SAFETY: a plain system call.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) } == 0;
        done || std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock
    };
    until("nobody writes to what is to be executed", || leased().then_some(()));
}

/// Gives the command its input, and no more. One that refuses what it is asked may have ended before it reads.
pub fn feed(child: &mut Child, input: &[u8]) {
    if let Err(e) = child.stdin.take().expect("a pipe").write_all(input) {
        assert_eq!(e.kind(), std::io::ErrorKind::BrokenPipe);
    }
}

/// Sends a signal to a process that the test started.
pub fn kill(pid: u32, signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "kill -{signal} {pid}");
}

/// Whether a process is there and has not ended.
pub fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|s| s != 'Z' && s != 'X')
}

/// A process's state as ps shows it.
pub fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(o: Output) -> Ran {
        Ran {
            status: o.status.code(),
            signal: o.status.signal(),
            out: String::from_utf8_lossy(&o.stdout).into_owned(),
            err: String::from_utf8_lossy(&o.stderr).into_owned(),
        }
    }
}

/// A process in the background, killed when the test is over.
pub struct Running(Option<Child>);

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.as_ref().expect("still ours").id()
    }

    pub fn kill(&self, signal: i32) {
        kill(self.pid(), signal);
    }

    /// Waits for its end only: what it started may have its stdout still.
    #[track_caller]
    pub fn status(mut self) -> ExitStatus {
        until("a process's end", || self.0.as_mut().expect("still ours").try_wait().expect("wait"))
    }

    /// Waits for its end, and for that of all processes that have its stdout.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let child = self.0.as_mut().expect("still ours");
        let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
        let status = until("a process's end", || child.try_wait().expect("wait"));
        let [stdout, stderr] = [out, err].map(|read| read.join().expect("output"));
        Output { status, stdout, stderr }.into()
    }
}

/// Reads a pipe while its writer runs: one that has more to say than the pipe has room for would wait for ever.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut all)).transpose().expect("output");
        all
    })
}

impl From<Child> for Running {
    fn from(child: Child) -> Running {
        Running(Some(child))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A directory of arenas.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let dir = tempfile::Builder::new().prefix("chappe-test-").tempdir_in("/dev/shm").expect("a directory");
        std::fs::create_dir(dir.path().join("arenas")).expect("a directory");
        Place { dir }
    }

    /// Where arenas lie.
    pub fn arenas(&self) -> PathBuf {
        self.dir.path().join("arenas")
    }

    /// A file beside them.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A program, in a session of its own (no terminal), in this place.
    pub fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut c = Command::new(program);
        c.args(args).current_dir(self.path());
        c.env("CHAPPE_DIR", self.arenas()).env("CHAPPE", CHAPPE).env_remove("CHAPPE_LEASE");
        c.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: system calls alone between fork and exec.
        unsafe {
            c.pre_exec(|| {
                libc::setsid();
                // Tests that are run by nohup, or in the background of a script, are born deaf to some signals, and so
                // would be what they start.
                for signal in 1..32 {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        c
    }

    /// `chappe` with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        self.program(CHAPPE, args)
    }

    pub fn spawn(command: &mut Command) -> Running {
        Running(Some(command.spawn().expect("start")))
    }

    /// Runs `chappe` to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        Place::spawn(&mut self.command(args)).end()
    }

    /// Runs `chappe`, which must do what it is asked; answers its stdout.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let mut ran = self.run(args);
        // On a machine that stands still for seconds; then it says that it is to be tried again.
        if ran.status == Some(1) && ran.err.contains("takes too long to look at") {
            ran = self.run(args);
        }
        assert_eq!(ran.status, Some(0), "{args:?}: {ran:?}");
        ran.out
    }

    /// Runs `chappe --json`, which must do what it is asked; answers what it printed.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(args);
        let text = self.ok(&all);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e} in {text:?}"))
    }

    /// Runs `chappe` to its end; it must fail with this status. Answers its stderr.
    #[track_caller]
    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.status, Some(status), "{args:?}: {ran:?}");
        ran.err
    }

    /// `chappe acquire` in the background with these arguments (pools and options), running a shell script.
    pub fn job(&self, args: &[&str], script: &str) -> Running {
        self.job_of("acquire", args, script)
    }

    /// The same of another of chappe's commands that run one.
    pub fn job_of(&self, command: &str, args: &[&str], script: &str) -> Running {
        let mut all = vec![command];
        all.extend(args);
        all.extend(["--", "sh", "-c", script]);
        Place::spawn(&mut self.command(&all))
    }

    /// As `job`, and waits until the job runs. It goes on until file `go-NAME` is there (or this place is gone).
    /// Answers the job's process, too.
    #[track_caller]
    pub fn holder(&self, name: &str, args: &[&str]) -> (Running, u32) {
        self.holder_of("acquire", name, args)
    }

    /// The same of another of chappe's commands that run one.
    #[track_caller]
    pub fn holder_of(&self, command: &str, name: &str, args: &[&str]) -> (Running, u32) {
        let script = format!("echo $$ > pid-{name}.new; mv pid-{name}.new pid-{name}; {}", wait_for_go(name));
        let running = self.job_of(command, args, &script);
        let pid = self.read(&format!("pid-{name}")).parse().expect("a pid");
        (running, pid)
    }

    /// Waits for a file with something in it.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        until(name, || {
            let text = std::fs::read_to_string(self.file(name)).ok()?;
            (!text.is_empty()).then(|| text.trim().to_owned())
        })
    }

    /// Lets a holder go.
    pub fn go(&self, name: &str) {
        std::fs::write(self.file(&format!("go-{name}")), "").expect("a file");
    }

    /// How many permits of a pool are free.
    #[track_caller]
    pub fn free(&self, pool: &str) -> u64 {
        self.json(&["show", pool])["free"].as_u64().expect("a number")
    }

    /// Waits until `n` wait for an object, which the first of them may still have to make.
    #[track_caller]
    pub fn wait_for_waiters(&self, object: &str, n: usize) {
        until(&format!("{n} waiting for {object}"), || {
            let ran = self.run(&["--json", "show", object]);
            if ran.status == Some(1) && ran.err.contains("there is no object") {
                return None;
            }
            (self.json(&["show", object])["waiters"].as_array().expect("a list").len() == n).then_some(())
        });
    }
}

/// Shell: wait until `go-NAME` is there; give up when the test's directory is gone.
pub fn wait_for_go(name: &str) -> String {
    format!("d=$PWD; while [ -d \"$d\" ] && [ ! -e \"$d/go-{name}\" ]; do sleep 0.02; done")
}

impl Place {
    /// What a file has now; nothing if it is not there.
    pub fn read_now(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }
}
