//! Children in surroundings of their own: this test program once more, with another environment, behind a filter, or under
//! something that runs it.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Says to a child what it is to do.
pub const PART: &str = "CHAPPE_RAS_PART";

/// Of the C library: it registers no area.
pub const NO_AREA_OF_THE_LIBRARY: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// How often one that could prove nothing is run again.
const TRIES: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(120);

/// What this program is run by itself, if the kernel cannot run it: then its children are, too.
pub const EMULATOR: &str = "CHAPPE_RAS_EMULATOR";

/// This program, to be run by `runner`, as the part of the test `actor`.
pub fn child(runner: &[&str], part: &str) -> Command {
    let emulator = std::env::var(EMULATOR).unwrap_or_default();
    let program = std::env::current_exe().unwrap();
    let all = emulator.split_ascii_whitespace().chain(runner.iter().copied()).chain(program.to_str());
    let all: Vec<&str> = all.collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).args(["--exact", "actor", "--nocapture", "--test-threads=1"]);
    command.env(PART, part).env_remove("CHAPPE_SEQUENCES").env_remove("CHAPPE_BIAS").env_remove("GLIBC_TUNABLES");
    command
}

/// Runs a child that must end well, and in time; answers what it said after `says: `, a line each. Where so many want the
/// processor that it could prove nothing, it is run again.
#[track_caller]
pub fn said(command: &mut Command) -> Vec<String> {
    said_by(command, TRIES)
}

/// The same, of one that takes its time when it can prove nothing: it is run again so often.
#[track_caller]
pub fn said_by(command: &mut Command, tries: u32) -> Vec<String> {
    let mut said = said_once(command);
    for _ in 0..tries {
        if said[0] != "Unproven" {
            break;
        }
        said = said_once(command);
    }
    said
}

#[track_caller]
fn said_once(command: &mut Command) -> Vec<String> {
    let output = ends(command);
    let all = text(&output);
    assert!(output.status.success(), "{command:?}: {all}");
    let said: Vec<String> = all.lines().filter_map(|l| Some(l.split_once("says: ")?.1.trim().to_owned())).collect();
    assert!(!said.is_empty(), "{command:?}: {all}");
    said
}

/// Runs a child that must end in time.
#[track_caller]
pub fn ends(command: &mut Command) -> Output {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let id = child.id();
    let watched = std::thread::spawn(move || {
        use std::io::Read;
        let mut err = Vec::new();
        child.stderr.take().unwrap().read_to_end(&mut err).unwrap();
        (child, err)
    });
    while !watched.is_finished() {
        if begun.elapsed() > PATIENCE {
            // SAFETY: a child of ours, which nobody has waited for.
            unsafe { libc::kill(id as i32, libc::SIGKILL) };
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let (child, err) = watched.join().unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = err;
    output
}

/// Both outputs.
pub fn text(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    let _ = write!(text, "{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Whether a program can be run here.
pub fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Says that something is not tested here, and why: also where the output of tests is kept back.
pub fn not_tested(test: &str, why: impl Display) {
    let _ = writeln!(std::io::stderr(), "not tested: {test}: {why}");
}

/// From now on these calls answer that there is no such call, to this thread and those that it begins.
pub fn refuse(calls: &[libc::c_long]) {
    answer(calls, libc::ENOSYS);
}

/// From now on these calls do nothing and answer that, to this thread and those that it begins; 0: that all went well.
pub fn answer(calls: &[libc::c_long], errno: i32) {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = vec![step(LOAD, 0, 0, 0)];
    for call in calls {
        steps.push(step(EQUAL, 0, 1, *call as u32));
        steps.push(step(RETURN, 0, 0, ERROR | errno as u32));
    }
    steps.push(step(RETURN, 0, 0, ALLOW));
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter and its steps live across the call; it binds this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let r = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter);
        assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
    }
}
