//! What ends the process with a report: a stack that is used up, and threads that wait for each other for ever. Each in a process of its own.

use chappe_sync::tube;
use chappe_thread::{Builder, Runtime, spawn};
use std::process::{Command, Output};

const WHAT: &str = "CHAPPE_TEST_REPORT";

fn in_a_process(what: &str) -> Output {
    let me = std::env::current_exe().unwrap();
    Command::new(me).args(["--exact", "body", "--nocapture", "--test-threads=1"]).env(WHAT, what).output().unwrap()
}

#[inline(never)]
fn dig(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { dig(depth + 1) + room[3] }
}

/// What the others run, in a process of their own.
#[test]
fn body() {
    match std::env::var(WHAT).as_deref() {
        Ok("overflow") => {
            let deep = Builder::new().name("mole").spawn(|| dig(0)).unwrap();
            drop(deep.join());
        }
        Ok("overflow of another size") => {
            let deep = Builder::new().name("mole").stack_size(32 * 1024).spawn(|| dig(0)).unwrap();
            drop(deep.join());
        }
        Ok("under valgrind") => {
            let runtime = Runtime::new(2).unwrap();
            runtime.run(|| {
                let (tx, rx) = tube::bounded(0);
                for size in [None, Some(64 * 1024), None] {
                    let tx = tx.clone();
                    let builder = Builder::new().name("sender");
                    let builder = if let Some(size) = size { builder.stack_size(size) } else { builder };
                    drop(builder.spawn(move || (0..20).for_each(|n| tx.send(vec![n; 100]).unwrap())).unwrap());
                }
                drop(tx);
                assert_eq!(rx.iter().map(|all| all.len()).sum::<usize>(), 6000);
            });
        }
        Ok("too many") => {
            // Room for the smallest table, and no more.
            let limit = libc::rlimit { rlim_cur: 3 << 30, rlim_max: 3 << 30 };
            // SAFETY: of this process alone.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
            let runtime = Runtime::new(1).unwrap();
            let mut all = Vec::new();
            let why = loop {
                match Builder::new().spawn_on(&runtime, chappe_thread::park) {
                    Ok(handle) => all.push(handle),
                    Err(why) => break why,
                }
            };
            println!("{} began: {why}", all.len());
            let why = Builder::new().stack_size(4 << 30).spawn_on(&runtime, || ()).unwrap_err();
            println!("{:?}: {why}", why.kind());
            // One that ends makes room.
            let last = all.pop().unwrap();
            last.thread().destroy().unwrap();
            assert!(last.join().is_err());
            all.push(Builder::new().spawn_on(&runtime, chappe_thread::park).unwrap());
            std::process::exit(0);
        }
        Ok("forked") => {
            spawn(|| ()).join().unwrap();
            // SAFETY: the child makes no light thread, writes and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let why = Builder::new().spawn(|| ()).unwrap_err();
                println!("{:?}: {why}", why.kind());
                std::process::exit(7);
            }
            let mut status = 0;
            // SAFETY: our own child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(libc::WEXITSTATUS(status), 7);
        }
        _ => {}
    }
}

#[test]
fn too_many_threads_and_too_large_a_stack_are_refused_in_words() {
    let output = in_a_process("too many");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let began = said.lines().find_map(|line| {
        line.rsplit("... ").next()?.strip_suffix(" light threads already, as many as the address space has room for")
    });
    let (n, rest) = began.and_then(|line| line.split_once(" began: there are ")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(n, rest);
    assert!(said.contains("OutOfMemory: no memory for a stack of 4294967296 bytes"), "{said}");
}

#[test]
fn a_forked_child_is_told_that_it_cannot_begin_light_threads() {
    let output = in_a_process("forked");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Unsupported: this is a forked child: the parent's procs are not here"), "{said}");
}

#[test]
fn a_stack_that_no_address_space_has_is_refused() {
    for size in [usize::MAX, usize::MAX / 2] {
        let why = Builder::new().stack_size(size).spawn(|| ()).unwrap_err();
        assert_eq!(why.kind(), std::io::ErrorKind::OutOfMemory);
        assert!(why.to_string().contains(&format!("a stack of {size} bytes")), "{why}");
    }
}

#[test]
fn a_stack_that_is_used_up_is_told_by_the_threads_name() {
    for (what, size) in [("overflow", "124 KiB"), ("overflow of another size", "32 KiB")] {
        let output = in_a_process(what);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("(mole) has used up its stack of ") && said.contains(size), "{said}");
        assert!(!output.status.success());
    }
}

/// Valgrind is told which memory is a stack, also of another size: it finds no fault in switching, and takes none for a frame of gigabytes.
#[test]
#[ignore = "storm: valgrind runs it at a fiftieth of its speed"]
fn valgrind_knows_the_stacks() {
    let me = std::env::current_exe().unwrap();
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--error-exitcode=9", "--leak-check=no"]).arg(me);
    valgrind.args(["--exact", "body", "--nocapture", "--test-threads=1"]).env(WHAT, "under valgrind");
    let Ok(output) = valgrind.output() else {
        eprintln!("not tried: there is no valgrind here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("switching stacks"), "{said}");
}

/// A program of `tests/deadlock`; one that hangs is ended.
fn program(arguments: &[&str]) -> Output {
    let home = std::env::temp_dir().join(format!("chappe-deadlock-{}-{}", std::process::id(), arguments.join("-")));
    std::fs::create_dir_all(&home).unwrap();
    let mut timeout = Command::new("timeout");
    timeout.args(["120", env!("CARGO_BIN_EXE_deadlock")]).args(arguments).env("CHAPPE_DIR", &home);
    let output = timeout.output().unwrap();
    std::fs::remove_dir_all(home).unwrap();
    output
}

#[test]
fn a_wait_for_a_thread_that_runs_elsewhere_is_no_deadlock() {
    std::thread::scope(|scope| {
        for what in ["elsewhere", "begun", "computing", "other"] {
            scope.spawn(move || {
                let output = program(&[what]);
                assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            });
        }
    });
}

#[test]
fn kernel_threads_that_wait_for_each_other_end_no_wait() {
    let output = program(&["joined"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("deadlock: all 2 light threads wait for each other"), "{said}");
}

/// Runs the random programs of these numbers, so many at a time: those that end, and those in which somebody waits for ever.
fn random_programs(seeds: std::ops::Range<u64>, at_once: usize) {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    // Relaxed: a number.
    let take = || Some(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).filter(|seed| *seed < seeds.end);
    let run = || {
        while let Some(seed) = take() {
            let (seed, short) = (seed.to_string(), seed % 8 == 0);
            let arguments = ["random", &seed, "short"];
            let output = program(&arguments[..if short { 3 } else { 2 }]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(if short { 2 } else { 0 }), "random {seed}: {said}");
            assert_eq!(said.contains("chappe: deadlock: "), short, "random {seed}: {said}");
        }
    };
    std::thread::scope(|scope| (0..at_once).for_each(|_| _ = scope.spawn(run)));
}

#[test]
fn exactly_the_random_programs_that_wait_for_ever_are_reported() {
    random_programs(0..40, 20);
}

#[test]
#[ignore = "storm: twelve thousand processes"]
fn no_random_program_of_ten_thousand_is_reported_falsely() {
    random_programs(1_000..13_000, 32);
}

#[test]
fn a_deadlock_of_all_threads_is_reported_with_each_ones_wait() {
    // The harness has a thread that waits for its tests; a program has none.
    let output = program(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("deadlock: all 3 light threads wait for each other"), "{said}");
    assert!(said.contains("(main) waits for thread "), "{said}");
    assert!(
        said.contains("(left) waits to send on tube") && said.contains("(right) waits to receive from tube"),
        "{said}"
    );
}
