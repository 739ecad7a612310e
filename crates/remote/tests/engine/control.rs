//! What is done to nodes from outside.

use crate::nodes::{Nodes, program};
use std::process::Command;
use std::time::{Duration, Instant};

/// Looks until it holds; what does not come about fails the test.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    const WATCHDOG: Duration = Duration::from_secs(300);
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WATCHDOG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a node a signal.
pub fn signal(nodes: &Nodes, at: usize, signal: i32) {
    // SAFETY: a plain system call; the node is a child that nobody has waited for.
    assert_eq!(unsafe { libc::kill(nodes.pids[at], signal) }, 0);
}

/// What etcd's own command does.
pub fn etcdctl(nodes: &Nodes, args: &[&str]) {
    let mut command = Command::new(program("etcdctl").expect("it is built with the engine"));
    let out = command
        .args(["--command-timeout", "60s", "--endpoints", &nodes.endpoints.join(",")])
        .args(args)
        .output()
        .unwrap();
    assert!(out.status.success(), "etcdctl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}
