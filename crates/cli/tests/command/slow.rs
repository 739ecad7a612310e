//! What a command looks at does not answer: it ends all the same, says what it left out, and tells all the rest.
//!
//! Each look is a thread of the command's own. A debugger lets it begin, and never go on: so what hangs is chosen, and nothing else is
//! slow.

use crate::place::{Place, Ran, not_tested};
use std::io::{Error, Read};
use std::os::unix::process::CommandExt;

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;

/// Lets a stopped thread go on.
fn go_on(tid: i32, signal: i32) {
    // SAFETY: no memory is touched. If it has ended meanwhile, the next wait says so.
    unsafe { libc::ptrace(libc::PTRACE_CONT, tid, 0, signal) };
}

/// Runs `chappe`, whose `nth` thread besides the first does nothing. None: nobody may be traced here.
fn run(here: &Place, nth: usize, args: &[&str]) -> Option<Ran> {
    let mut command = here.command(args);
    // SAFETY: a system call alone between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME) {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        });
    }
    let mut child = command.spawn().ok()?;
    let pid = child.id() as i32;
    let mut began = vec![pid];
    let mut status = 0;
    // It stops first when it has called exec.
    // SAFETY: our own child, traced by this thread; `status` is a valid place.
    unsafe {
        assert_eq!(libc::waitpid(pid, &raw mut status, libc::__WALL), pid);
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
        assert_eq!(libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, OPTIONS), 0, "{}", Error::last_os_error());
    }
    go_on(pid, 0);
    loop {
        // SAFETY: as above; of this thread's children alone.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(tid > 0, "{}", Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            if tid == pid {
                break;
            }
        } else if !began.contains(&tid) {
            began.push(tid);
            if began.len() - 1 != nth {
                go_on(tid, 0);
            }
        } else if status >> 16 != 0 {
            go_on(tid, 0);
        } else {
            go_on(tid, libc::WSTOPSIG(status));
        }
    }
    assert!(began.len() > nth, "{args:?} has begun {} threads", began.len() - 1);
    let mut ran = Ran { status: None, signal: None, out: String::new(), err: String::new() };
    (ran.status, ran.signal) = match libc::WIFEXITED(status) {
        true => (Some(libc::WEXITSTATUS(status)), None),
        false => (None, Some(libc::WTERMSIG(status))),
    };
    child.stdout.take().unwrap().read_to_string(&mut ran.out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut ran.err).unwrap();
    Some(ran)
}

/// Runs it as a person would and as a program would. It must fail, and say of this alone that it takes too long. Answers both stdouts.
fn says(here: &Place, nth: usize, command: &[&str], what: &str) -> Option<[String; 2]> {
    let text = format!("{what} takes too long to look at, and is left out");
    let said = |json: bool| {
        let args = if json { [&["--json"], command].concat() } else { command.to_vec() };
        let ran = run(here, nth, &args)?;
        let lines: Vec<&str> = ran.err.lines().collect();
        let [line] = lines[..] else { panic!("{args:?}: {ran:?}") };
        let line = match json {
            true => serde_json::from_str::<serde_json::Value>(line).unwrap()["error"].as_str().unwrap().to_owned(),
            false => line.strip_prefix("chappe: ").unwrap().to_owned(),
        };
        assert!(ran.status == Some(1) && line.starts_with(&text), "{args:?}: {ran:?}");
        Some(ran.out)
    };
    // At once: each takes as long as the command waits. The starter of the command is its tracer.
    std::thread::scope(|s| {
        let both = [s.spawn(|| said(false)), s.spawn(|| said(true))];
        let both = both.map(|one| one.join().unwrap());
        let [Some(text), Some(json)] = both else {
            not_tested("what takes too long to look at: nobody may be traced here");
            return None;
        };
        Some([text, json])
    })
}

#[test]
#[ignore = "storm: what does not answer has its seconds"]
fn doctor_says_which_part_does_not_answer_and_tells_the_rest() {
    let here = Place::new();
    std::thread::scope(|s| {
        for (nth, what) in
            [(2, "what is around the arenas"), (3, "what job servers have left"), (4, "what the kernel has")]
        {
            let here = &here;
            s.spawn(move || {
                let Some([text, json]) = says(here, nth, &["doctor"], what) else { return };
                assert!(text.contains("sequences: "), "{text}");
                assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["sequences"].is_object(), "{json}");
            });
        }
    });
}

#[test]
#[ignore = "storm: what does not answer has its seconds"]
fn an_arena_that_does_not_answer_is_named_and_the_others_are_listed() {
    let here = Place::new();
    here.ok(&["pool", "create", "first/p"]);
    here.ok(&["pool", "create", "second/q"]);
    // The first thread lists the arenas.
    let Some([text, json]) = says(&here, 2, &["ls"], "arena `first`") else { return };
    assert!(text.contains("second/q") && !text.contains("first/p"), "{text}");
    assert!(json.contains("second/q") && !json.contains("first/p"), "{json}");
    says(&here, 1, &["ls"], "the directory");
    says(&here, 1, &["show", "first/p"], "`first/p`");
}
