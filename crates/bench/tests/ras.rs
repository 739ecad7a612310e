//! `bench ras --quick` measures all of its tables: it is by what it prints that its parts are known to be there, and by its
//! end that every lock kept all others out, every answer was right, and no process was left behind.

use std::process::Command;

const TABLES: [&str; 22] = [
    "table 1: test-and-set and release",
    "table 2: performance index M",
    "acquire and release through start-up's pointers",
    "figure 3: a context switch, sequences",
    "LU decomposition, 120 x 120",
    "LU decomposition, all rounds",
    "web server, 8 threads: a request",
    "web server, all rounds",
    "uncontended lock and unlock  ",
    "uncontended lock and unlock, bias off",
    "one lock, hammered from two processors",
    "a thread that moves every 1000 pairs",
    "two threads in turns, 100 pairs",
    "two threads in turns, 1000 pairs",
    "two threads in turns, 10000 pairs",
    "first taken by another thread",
    "add 1 to a counter: one thread",
    "add 1 to a counter: two processors",
    "pop and push of a free list: one thread",
    "pop and push of a free list: two processors",
    "down and up, 1024 permits: two processors",
    "aims",
];

#[test]
#[ignore = "storm: a benchmark"]
fn all_tables_are_made_in_one_run() {
    let run = Command::new(env!("CARGO_BIN_EXE_chappe-bench")).args(["ras", "--quick"]).output();
    let run = run.expect("the program starts");
    let (said, why) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}{why}");
    for table in TABLES {
        let found = said.lines().filter(|l| l.starts_with(table)).count();
        assert_eq!(found, 1, "`{table}` in\n{said}");
    }
    // None was left out because its table could not be made.
    let aims = said.lines().filter(|l| l.ends_with(" met") || l.ends_with(" MISSED")).count();
    assert_eq!(aims, 17, "{said}");
}
