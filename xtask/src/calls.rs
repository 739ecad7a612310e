//! Cargo's calls that go on at the same time: what each has had of the processors, and how all are ended.

use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard};

/// Calls that go on.
#[derive(Default)]
struct Calls {
    going: Vec<Child>,
    /// No other begins.
    stopped: bool,
    /// Seconds of processors that those had which have ended.
    seconds: f64,
}

static CALLS: Mutex<Calls> = Mutex::new(Calls { going: vec![], stopped: false, seconds: 0.0 });

thread_local! {
    /// The same, of this thread's.
    static OWN: Cell<f64> = const { Cell::new(0.0) };
    /// Whether this thread's calls come last.
    static LAST: Cell<bool> = const { Cell::new(false) };
}

/// Runs a program silently; what it wrote.
pub fn run(command: &mut Command) -> Result<Output> {
    if LAST.get() { run_among(&CALLS, &mut last(command)) } else { run_among(&CALLS, command) }
}

/// From now on this thread's calls have a tenth of a processor that others want as well: tests beside them are nearly as quick as alone.
pub fn come_last() {
    LAST.set(true);
}

/// The same command, at a low priority.
fn last(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    nice
}

/// Seconds of processors that this thread's calls have had.
pub fn seconds() -> f64 {
    OWN.get()
}

/// Seconds of processors that other threads' calls have had.
pub fn seconds_elsewhere() -> f64 {
    locked(&CALLS).seconds - OWN.get()
}

/// Ends all calls that go on; no other begins.
pub fn stop() {
    stop_among(&CALLS);
}

fn locked(calls: &Mutex<Calls>) -> MutexGuard<'_, Calls> {
    calls.lock().expect("nothing panics here")
}

fn run_among(calls: &Mutex<Calls>, command: &mut Command) -> Result<Output> {
    let (id, mut out, mut err) = {
        let mut calls = locked(calls);
        ensure!(!calls.stopped, "not begun: something else has failed");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let id = child.id();
        let pipes = (child.stdout.take(), child.stderr.take());
        calls.going.push(child);
        (id, pipes.0.context("its output is ours")?, pipes.1.context("its errors are ours")?)
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    std::thread::scope(|s| {
        let errors = s.spawn(|| err.read_to_end(&mut stderr));
        out.read_to_end(&mut stdout).and(errors.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })?;
    // All that it has started has ended: they had the pipes as well.
    let had = seconds_of_all(Some(id));
    let mut child = {
        let mut calls = locked(calls);
        let at = calls.going.iter().position(|child| child.id() == id).context("nobody else takes it out")?;
        calls.going.swap_remove(at)
    };
    let status = child.wait()?;
    locked(calls).seconds += had;
    OWN.set(OWN.get() + had);
    Ok(Output { status, stdout, stderr })
}

fn stop_among(calls: &Mutex<Calls>) -> usize {
    let mut calls = locked(calls);
    calls.stopped = true;
    // One that has ended by itself has nothing to be ended.
    calls.going.iter_mut().filter_map(|child| child.kill().ok()).count()
}

/// Seconds of processors that all children of this process have had which have ended, and theirs; or a child of it, that has not been
/// waited for, and its children. The kernel counts in hundredths.
pub fn seconds_of_all(child: Option<u32>) -> f64 {
    let name = child.map_or("self".to_owned(), |id| id.to_string());
    let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // Fields 14 to 17 of proc_pid_stat(5), of which the name was the second: its own, and its children's.
    let of = |n: usize| fields.get(n - 3).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let own = if child.is_some() { of(14) + of(15) } else { 0 };
    (own + of(16) + of(17)) as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_calls_output_status_and_time_are_its_own() {
        let (calls, before) = (Mutex::default(), seconds());
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo out; echo err >&2; exit 3";
        let ran = run_among(&calls, &mut shell(spin)).unwrap();
        assert_eq!((ran.status.code(), &ran.stdout[..], &ran.stderr[..]), (Some(3), &b"out\n"[..], &b"err\n"[..]));
        let had = locked(&calls).seconds;
        assert!(had > 0.0 && (seconds() - before - had).abs() < 1e-6);
        assert!(locked(&calls).going.is_empty());
    }

    #[test]
    fn a_call_that_comes_last_is_the_same_at_a_low_priority() {
        let (mut own, mut command) = (shell("nice"), shell("pwd; echo $HERE; nice"));
        let said =
            |command: &mut Command| String::from_utf8(run_among(&Mutex::default(), command).unwrap().stdout).unwrap();
        let level = said(&mut own).trim().parse::<i32>().unwrap();
        let last = said(&mut last(command.current_dir("/dev").env("HERE", "a b")));
        assert_eq!(last, format!("/dev\na b\n{}\n", (level + 10).min(19)));
    }

    #[test]
    fn a_stop_ends_the_call_that_goes_on_and_no_other_begins() {
        let calls = Mutex::default();
        std::thread::scope(|s| {
            let long = s.spawn(|| run_among(&calls, &mut shell("exec sleep 1000")));
            while locked(&calls).going.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(stop_among(&calls), 1);
            assert!(!long.join().unwrap().unwrap().status.success());
        });
        assert!(run_among(&calls, &mut shell("true")).unwrap_err().to_string().contains("not begun"));
    }
}
