//! Where a seccomp filter refuses system calls, as sandboxes do: a process whose death could not be detected is refused, and of all else
//! the commands do without, or say what they lack.
//!
//! The filter is installed between fork and exec: so it holds from the program's first instruction on.

use crate::place::{Place, Ran, until};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A system call, and how it is refused.
type Refused = (i64, i32);

/// The program runs without these calls.
fn without(mut command: Command, refused: &[Refused]) -> Command {
    let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = vec![rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (call, error) in refused {
        filter.push(rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | *error as u32, 0, 0));
    }
    filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    // SAFETY: system calls alone between fork and exec, with memory that was made ready before.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let installed = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0;
            if installed { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command
}

fn run(here: &Place, refused: &[Refused], args: &[&str]) -> Ran {
    let ran = Place::spawn(&mut without(here.command(args), refused)).end();
    assert!(!ran.err.contains("panicked") && ran.signal.is_none(), "{args:?} without {refused:?}: {ran:?}");
    ran
}

#[test]
fn a_process_whose_death_could_not_be_seen_gets_nothing_and_is_told_why() {
    let here = Place::new();
    let refused = [(libc::SYS_set_robust_list, libc::ENOSYS)];
    here.ok(&["pool", "create", "p"]);
    here.ok(&["tube", "create", "t"]);
    for (args, status) in [(&["acquire", "p", "--", "true"][..], 125), (&["send", "t"], 1), (&["recv", "t"], 1)] {
        let ran = run(&here, &refused, args);
        assert_eq!(ran.status, Some(status), "{args:?}: {ran:?}");
        assert!(ran.err.contains("set_robust_list") && ran.err.contains("seccomp"), "{args:?}: {}", ran.err);
    }
    // It has nothing, and no slot of a member is in use for it.
    assert_eq!(here.json(&["show", "p"])["holders"], serde_json::json!([]));
    assert!(here.ok(&["acquire", "--nonblock", "p", "--", "echo", "free"]).contains("free"));
    // A process under the same filter sees the same, and is told.
    let shown = run(&here, &refused, &["show", "p"]);
    assert_eq!(shown.status, Some(0), "{shown:?}");
    for args in [&["doctor"][..], &["--json", "doctor"]] {
        let ran = run(&here, &refused, args);
        assert!(ran.out.contains("set_robust_list") && !ran.out.contains("has all that chappe can use"), "{ran:?}");
    }
}

/// Whether the doctor was in order, or left out a part, and said so: on a machine that is busy for seconds, a look takes too long. (A part
/// that was left out is no answer: the doctor is asked again.)
fn examined(here: &Place, refused: &[Refused], args: &[&str]) -> Ran {
    until("an answer of the doctor about all parts", || {
        let ran = run(here, refused, args);
        let left_out = ran.err.contains("takes too long to look at");
        assert!(ran.status == Some(u8::from(left_out).into()), "{ran:?}");
        (!left_out).then_some(ran)
    })
}

#[test]
fn the_doctor_says_how_threads_wait_for_files_where_rings_are_refused() {
    let here = Place::new();
    let refused = [(libc::SYS_io_uring_setup, libc::EPERM)];
    let ran = examined(&here, &refused, &["doctor"]);
    let line = "light threads wait for files by: a kernel thread for each wait (no io_uring: Operation not permitted";
    assert!(ran.out.contains(line), "{ran:?}");
    let ran = examined(&here, &refused, &["--json", "doctor"]);
    let health: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
    assert_eq!(health["files"]["ring"], serde_json::Value::Bool(false));
}

#[test]
fn the_doctor_says_why_queries_run_as_closures_where_code_of_ones_own_is_refused() {
    if chappe::synth::engine::machine_code().is_err() {
        return println!("not tested: why there is no machine code: it is not built in");
    }
    let here = Place::new();
    let ran = examined(&here, &[(libc::SYS_memfd_create, libc::EPERM)], &["doctor"]);
    let line = "queries over records run as: closures, at 2 to 5 times the cost (the system allows no machine code made at \
                run time: Operation not permitted";
    assert!(ran.out.contains(line), "{ran:?}");
}

/// All that the commands do with what there is, but for what `refused` is about: a job, a killed holder, a stream, a choice.
fn goes_on(refused: &[Refused]) {
    let here = Place::new();
    let ok = |args: &[&str]| {
        let ran = run(&here, refused, args);
        assert_eq!(ran.status, Some(0), "{args:?} without {refused:?}: {ran:?}");
        ran.out
    };
    let spawn = |args: &[&str]| Place::spawn(&mut without(here.command(args), refused));
    assert_eq!(ok(&["acquire", "--create", "p", "--", "echo", "one"]), "one\n");
    // A holder is killed, with its job; the one that waits gets the permit.
    let holder = spawn(&["acquire", "p", "--", "sh", "-c", "echo $$ > job.new; mv job.new job; exec sleep 1000"]);
    let job: u32 = until("the job", || std::fs::read_to_string(here.file("job")).ok()?.trim().parse().ok());
    let waiter = spawn(&["acquire", "p", "--", "echo", "two"]);
    until("a waiter", || (here.json(&["show", "p"])["waiters"].as_array()?.len() == 1).then_some(()));
    holder.kill(libc::SIGKILL);
    crate::place::kill(job, libc::SIGKILL);
    let ran = waiter.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "two\n"), "without {refused:?}: {ran:?}");
    holder.end();
    // A stream of more than a tube has room for.
    ok(&["tube", "create", "t", "--size", "4096", "--slots", "4"]);
    let receiver = spawn(&["recv", "t", "--records", "--count", "12"]);
    let mut send = without(here.command(&["send", "t", "--records"]), refused);
    std::fs::write(here.file("in"), vec![b'x'; 12 * 4096]).expect("room");
    send.stdin(std::fs::File::open(here.file("in")).expect("our own"));
    let (sent, received) = (Place::spawn(&mut send).end(), receiver.end());
    assert_eq!((sent.status, received.status), (Some(0), Some(0)), "without {refused:?}: {sent:?} {}", received.err);
    assert_eq!(received.out.len(), 12 * 4096);
    ok(&["map", "create", "m"]);
    ok(&["ls"]);
    examined(&here, refused, &["doctor"]);
    ok(&["tube", "rm", "t"]);
    ok(&["arena", "rm", "default", "--force"]);
}

#[test]
fn a_refused_system_call_is_done_without() {
    goes_on(&[(libc::SYS_madvise, libc::EPERM)]);
    goes_on(&[(libc::SYS_membarrier, libc::EPERM)]);
    goes_on(&[(libc::SYS_futex_waitv, libc::ENOSYS), (libc::SYS_pidfd_open, libc::ENOSYS)]);
    goes_on(&[
        (libc::SYS_madvise, libc::ENOSYS),
        (libc::SYS_membarrier, libc::ENOSYS),
        (libc::SYS_futex_waitv, libc::EPERM),
        (libc::SYS_pidfd_open, libc::EPERM),
        (libc::SYS_rseq, libc::ENOSYS),
    ]);
}
