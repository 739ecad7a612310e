//! `chappe gpus`, on a driver's tool that the test plays.

use crate::place::{Place, Ran, executable, runs, until};
use serde_json::{Value, json};
use std::os::unix::fs::OpenOptionsExt;

/// `nvidia-smi`: lists what is in file `there`, says that programs compute on what is in `used`.
const TOOL: &str = "#!/bin/sh\ncase $1 in -L) exec cat there;; *) exec cat used;; esac\n";

fn machine() -> Place {
    let here = Place::new();
    std::fs::create_dir(here.file("bin")).unwrap();
    executable(&here.file("bin/nvidia-smi"), TOOL.as_bytes());
    there(&here, &["GPU-a", "GPU-b"]);
    used(&here, &[]);
    here
}

fn there(here: &Place, gpus: &[&str]) {
    let lines: String = (0..).zip(gpus).map(|(i, name)| format!("GPU {i}: A100 (UUID: {name})\n")).collect();
    std::fs::write(here.file("there"), lines).unwrap();
}

fn used(here: &Place, gpus: &[&str]) {
    std::fs::write(here.file("used"), gpus.join("\n")).unwrap();
}

fn gpus(here: &Place, args: &[&str]) -> Ran {
    let mut command = here.command(&[&["gpus"], args].concat());
    let path = format!("{}:{}", here.file("bin").display(), std::env::var("PATH").unwrap());
    Place::spawn(command.env("PATH", path)).end()
}

/// Pools that are there.
fn pools(here: &Place) -> Vec<String> {
    let listed = here.json(&["ls"]);
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    let mut all: Vec<String> = listed.as_array().unwrap().iter().map(name).collect();
    all.sort();
    all
}

#[test]
fn each_gpu_gets_a_pool_and_a_job_learns_which_it_has() {
    let here = machine();
    let ran = gpus(&here, &[]);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (Some(0), "GPU-a\nGPU-b\n", ""));
    assert_eq!(pools(&here), ["GPU-a", "GPU-b"]);
    let (holder, _) = here.holder("a", &["GPU-a"]);
    let job = here.job(&["--env", "CUDA_VISIBLE_DEVICES", "GPU-a", "GPU-b"], "echo $CUDA_VISIBLE_DEVICES");
    assert_eq!(job.end().out, "GPU-b\n");
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
    let job = here.job(&["--create=3", "-n", "2", "--env", "A", "--env", "B", "lab/gpus"], "echo $A $B");
    assert_eq!(job.end().out, "0,1 0,1\n");
    let job = here.job(&["--create", "--env", "A", "lab/one"], "echo $A");
    assert_eq!(job.end().out, "one\n");
    assert!(here.fails(125, &["acquire", "--env", "A=1", "GPU-a", "--", "true"]).contains("a variable's name alone"));
}

#[test]
fn a_gpu_that_falls_off_leaves_service_and_its_waiters_go_on_with_others() {
    let here = machine();
    gpus(&here, &[]);
    let (a, _) = here.holder("a", &["GPU-a"]);
    let (b, _) = here.holder("b", &["GPU-b"]);
    let either = here.job(&["-I", "{}", "GPU-a", "GPU-b"], "echo {}");
    here.wait_for_waiters("GPU-b", 1);
    let only = here.job(&["GPU-b"], "true");
    here.wait_for_waiters("GPU-b", 2);
    there(&here, &["GPU-a"]);
    let ran = gpus(&here, &["--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&ran.out).unwrap(),
        json!({ "gpus": ["GPU-a"], "passed_over": [], "removed": [] })
    );
    // This caller may see a part of the GPUs: the job keeps its own, until somebody says that it has fallen off.
    assert!(ran.err.contains("GPU-b") && ran.err.contains(&format!("pid {} ", b.pid())), "{ran:?}");
    assert!(ran.err.contains("`chappe rm --force GPU-b`"), "{ran:?}");
    assert_eq!(pools(&here), ["GPU-a", "GPU-b"]);
    here.ok(&["rm", "--force", "GPU-b"]);
    assert_eq!(pools(&here), ["GPU-a"]);
    let only = only.end();
    assert!(only.status == Some(125) && only.err.contains("`GPU-b` was removed"), "{only:?}");
    // It waits for what is left.
    here.wait_for_waiters("GPU-a", 1);
    here.go("a");
    assert_eq!(a.end().status, Some(0));
    let either = either.end();
    assert_eq!((either.status, either.out.as_str()), (Some(0), "GPU-a\n"), "{either:?}");
    assert!(either.err.contains("pool GPU-b was removed; chappe goes on with GPU-a"), "{either:?}");
    here.go("b");
    assert!(b.end().err.contains("was removed while the command ran"));
    // It has been reset.
    there(&here, &["GPU-a", "GPU-b"]);
    assert_eq!(gpus(&here, &[]).out, "GPU-a\nGPU-b\n");
    assert_eq!(here.free("GPU-b"), 1);
    // Nobody has it.
    there(&here, &["GPU-a"]);
    let ran = gpus(&here, &["--json"]);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["removed"], json!(["GPU-b"]));
    assert!(ran.err.contains("GPU-b") && ran.err.contains("out of service"), "{ran:?}");
    assert_eq!(pools(&here), ["GPU-a"]);
}

#[test]
fn idle_passes_over_a_gpu_that_is_used_without_a_permit() {
    let here = machine();
    gpus(&here, &[]);
    let (holder, _) = here.holder("a", &["GPU-a"]);
    used(&here, &["GPU-a", "GPU-b"]);
    let idle = |args: &[&str]| {
        let mut command = here.command(&[args, &["gpus", "--idle"]].concat());
        Place::spawn(command.env("PATH", format!("{}:/usr/bin:/bin", here.file("bin").display()))).end()
    };
    // What computes on the first has its permit.
    assert_eq!(idle(&[]).out, "GPU-a\n");
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
    let none = idle(&[]);
    assert!(none.status == Some(124) && none.err.contains("compute on all 2 GPUs"), "{none:?}");
    used(&here, &["GPU-b"]);
    assert_eq!(idle(&[]).out, "GPU-a\n");
}

#[test]
fn a_tool_that_fails_changes_nothing() {
    let here = machine();
    gpus(&here, &[]);
    executable(&here.file("bin/nvidia-smi"), b"#!/bin/sh\necho 'driver mismatch' >&2; exit 9\n");
    let ran = gpus(&here, &[]);
    assert!(ran.status == Some(1) && ran.err.contains("driver mismatch"), "{ran:?}");
    assert_eq!(pools(&here), ["GPU-a", "GPU-b"]);
}

#[test]
fn a_tool_that_never_answers_is_given_up_with_what_it_started_and_changes_nothing() {
    let here = machine();
    gpus(&here, &[]);
    // The fifo has no writer. The second has said all before it hangs. The shell waits for its child.
    for said in ["", "cat there; exec >&- 2>&-;"] {
        let child = "sh -c 'echo $$ > child; read x < fifo'";
        let tool = format!("#!/bin/sh\nrm -f child; {said} [ -p fifo ] || mkfifo fifo; {child}; exit 0\n");
        executable(&here.file("bin/nvidia-smi"), tool.as_bytes());
        let ran = gpus(&here, &["--timeout", "100ms"]);
        assert!(ran.status == Some(1) && ran.err.contains("has not ended within 100ms"), "{ran:?}");
        // A tool that did not come so far has started none.
        let child = std::fs::read_to_string(here.file("child")).ok().and_then(|pid| pid.trim().parse().ok());
        until("the tool's child has ended", || (!child.is_some_and(runs)).then_some(()));
    }
    assert_eq!(pools(&here), ["GPU-a", "GPU-b"]);
}

#[test]
fn a_tool_that_hangs_ends_with_what_it_started_when_chappe_is_ended() {
    let here = machine();
    let tool = "#!/bin/sh\nmkfifo fifo; sh -c 'echo $$ > child.new; mv child.new child; read x < fifo'; exit 0\n";
    executable(&here.file("bin/nvidia-smi"), tool.as_bytes());
    let mut command = here.command(&["gpus"]);
    let path = format!("{}:{}", here.file("bin").display(), std::env::var("PATH").unwrap());
    let chappe = Place::spawn(command.env("PATH", path));
    let child = until("the tool has started its child", || {
        std::fs::read_to_string(here.file("child")).ok()?.trim().parse().ok()
    });
    chappe.kill(libc::SIGTERM);
    assert_eq!(chappe.end().signal, Some(libc::SIGTERM));
    until("the tool's child has ended", || (!runs(child)).then_some(()));
}

#[test]
fn a_tool_is_not_waited_for_beyond_its_own_end() {
    let here = machine();
    // Its child has the output open, and waits for a fifo without a writer.
    let tool = "#!/bin/sh\nmkfifo fifo; (read x < fifo) &\ncat there\n";
    executable(&here.file("bin/nvidia-smi"), tool.as_bytes());
    let ran = gpus(&here, &[]);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (Some(0), "GPU-a\nGPU-b\n", ""));
    // Its child reads, once it has begun to.
    until("the child ends", || {
        std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(here.file("fifo")).ok()
    });
}

#[test]
fn a_tool_that_talks_without_end_or_dies_of_a_signal_is_told_as_that() {
    let here = machine();
    executable(&here.file("bin/nvidia-smi"), b"#!/bin/sh\nexec yes 'GPU 0: A100 (UUID: GPU-a)'\n");
    let ran = gpus(&here, &[]);
    assert!(ran.status == Some(1) && ran.err.contains("more than 1 MiB"), "{ran:?}");
    executable(&here.file("bin/nvidia-smi"), b"#!/bin/sh\nkill -9 $$\n");
    let ran = gpus(&here, &[]);
    assert!(ran.status == Some(1) && ran.err.contains("signal: 9 (SIGKILL)"), "{ran:?}");
    executable(&here.file("bin/nvidia-smi"), b"#!/bin/sh\necho GPUs: many\n");
    let ran = gpus(&here, &[]);
    assert!(ran.status == Some(1) && ran.err.contains("says `GPUs: many`"), "{ran:?}");
    assert!(pools(&here).is_empty());
}
