//! A holder that forks, calls exec, or ends one of its threads.
//!
//! Fork is led through instruction by instruction. Exec cannot be: the kernel does it in one. Here the process calls it
//! many times, from its first thread and from another, and in one scenario is killed meanwhile after a random time.
//!
//! And a second thread that has something in two arenas and comes to a third, where it claims the words by which its exec would be
//! seen once more, in all of them.

use std::ffi::CString;
use std::mem::forget;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Scene::{Alone, Met, Stopped, Waiters};
use super::world::{CHILD, VICTIM, World, fault, fine};
use super::{Operation, Reason};
use crate::board::{Fault, NOTES, Verdict};
use crate::patience::within;
use crate::step;
use crate::trial::{KILLED, OVER};

/// The argument with which this program does nothing for a while: what a victim execs.
pub const REST: &str = "rest";

fn held(w: &World) -> (&'static chappe::Pool, chappe::Permit<'static>) {
    let pool = w.open("p").expect("the keeper has made it");
    let permit = pool.acquire().expect("it is free");
    w.holding(pool);
    (pool, permit)
}

/// Runs a part on a second thread.
fn elsewhere(w: &World, part: impl FnOnce(&World) + Send) {
    let (stage, scene) = (*w.stage(), w.scene());
    std::thread::scope(|s| {
        s.spawn(move || part(&World::new(&stage, scene)));
    });
}

/// The calling process becomes one that does nothing.
pub fn become_another(w: &World) {
    let program = CString::new("/proc/self/exe").expect("no zero byte");
    let argument = CString::new(REST).expect("no zero byte");
    let arguments = [program.as_ptr(), argument.as_ptr(), std::ptr::null()];
    w.stage().arrive();
    // SAFETY: no pointers in the first call; this thread's own setting is the one that survives. The second gets
    // C strings and a list that ends in null.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::execv(program.as_ptr(), arguments.as_ptr());
    }
    panic!("exec: {}", std::io::Error::last_os_error());
}

/// The victim has become another.
pub fn has_become_another(w: &World) -> Verdict {
    let text = format!("/proc/{}/cmdline", w.stage().word(VICTIM).load(SeqCst));
    let there = || std::fs::read(&text).is_ok_and(|line| line.split(|b| *b == 0).any(|a| a == REST.as_bytes()));
    if w.stage().until(there) { Ok(()) } else { fault(Fault::Torn, "exec has not come about") }
}

/// The calling process forks. The child lives on while its parent dies and others look, and uses
/// nothing that it has inherited.
pub fn fork_away(w: &World, at_first: impl FnOnce()) -> bool {
    let stage = w.stage();
    // SAFETY: this process has one thread of its own; the child goes on as any process would.
    let child = unsafe { libc::fork() };
    if child == 0 {
        stage.word(CHILD).store(u64::from(std::process::id()), SeqCst);
        at_first();
        within(stage.limit * 4, || stage.word(OVER).load(SeqCst) != 0);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(0) };
    }
    child > 0
}

/// `thread`: the second of two calls it. `killed`: meanwhile.
fn exec(thread: bool, killed: bool) -> Operation {
    let call = |w: &World| {
        forget(held(w));
        become_another(w);
    };
    Operation::of(
        match (thread, killed) {
            (false, _) => "exec, holding",
            (true, false) => "exec by 2nd thread",
            (true, true) => "exec by 2nd, killed",
        },
        &[Alone, Waiters],
    )
    .victim_holds(true)
    .led(false)
    .build(|w| w.make("p", 1).map(drop))
    .perform(move |w| {
        if thread {
            elsewhere(w, |w| call(w));
        } else {
            call(w);
        }
    })
    .others(move |w| {
        let victim = w.stage().word(VICTIM).load(SeqCst);
        if killed {
            // The clock's low digits are as random as is needed.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
            std::thread::sleep(Duration::from_micros(u64::from(now) % 500));
            w.stage().word(KILLED).store(1, SeqCst);
            // SAFETY: the director has not reaped its child, so the number is still its own.
            unsafe { libc::kill(victim as i32, libc::SIGKILL) };
            return Ok(());
        }
        has_become_another(w)
    })
    .check(move |w| {
        w.in_order(&["p"])?;
        alive(w, !killed)
    })
}

/// The process is still there: it was not its end that gave back what it had.
pub fn alive(w: &World, wanted: bool) -> Verdict {
    let victim = w.stage().word(VICTIM).load(SeqCst) as i32;
    let lives = step::state(victim).is_some_and(|s| s != b'Z');
    if lives || !wanted { Ok(()) } else { fault(Fault::Torn, "the victim has ended, which was not intended") }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        Operation::of("fork, holding", &[Alone, Waiters, Stopped])
            .victim_holds(true)
            .build(|w| w.make("p", 1).map(drop))
            .perform(|w| {
                let (_, permit) = held(w);
                let stage = w.stage();
                let mut permit = Some(permit);
                stage.begin();
                let done = fork_away(w, || {
                    let permit = permit.take();
                    let verdict = if permit.as_ref().is_some_and(chappe::Permit::is_valid) {
                        fault(Fault::Doubled, "a forked child thinks that it has its parent's permit")
                    } else {
                        Ok(())
                    };
                    stage.judge(NOTES - 1, &verdict);
                    // In the child this gives nothing back: the parent, if it lives, still has it.
                    drop(permit);
                });
                stage.end(done);
                forget(permit);
            }),
        exec(false, false),
        exec(true, false),
        exec(true, true),
        Operation::of("thread ends, holding", &[Alone, Waiters])
            .victim_holds(true)
            .led(false)
            .build(|w| w.make("p", 1).map(drop))
            .perform(|w| {
                elsewhere(w, |w| {
                    forget(held(w));
                    w.stage().arrive();
                });
            })
            .others(|_| Ok(()))
            .check(|w| {
                w.in_order(&["p"])?;
                alive(w, true)
            }),
        Operation::of("2nd thread, 3rd arena", &[Alone, Waiters, Met])
            .victim_holds(true)
            .held_up_by(Reason::Permit)
            .build(|w| {
                w.make("c/p", 1)?;
                w.make("b/p", 1)?;
                w.make("p", 1).map(|_| ())
            })
            .perform(|w| {
                elsewhere(w, |w| {
                    forget(w.open("b/p").and_then(|b| fine("taking it", b.acquire())));
                    forget(held(w));
                    let pool = w.open("c/p").expect("the keeper has made it");
                    w.stage().begin();
                    let permit = pool.acquire();
                    w.stage().end(permit.is_ok());
                    forget(permit);
                });
            })
            .check(|w| {
                for arena in ["b", "c"] {
                    w.audit(&format!("{arena}/p"), 1)?;
                    w.full_house(arena, &["p"])?;
                }
                w.in_order(&["p"])
            }),
    ]
}
