//! A debugger steps and breaks around sequences, and none hangs: a thread that is traced step by step is aborted at each attempt, tries a
//! few times, and then has another way.
//!
//! Breaking *within* a section needs one precaution. To go on from a breakpoint gdb runs the instruction that was there somewhere else
//! (displaced stepping; uprobes do so, too). The kernel then finds the thread outside its section and forgets it: the rest of this one pass
//! is not aborted any more. `set displaced-stepping off` makes gdb put the instruction back instead, and the section is aborted as it
//! should be. Stepping without a breakpoint at that place, and breakpoints outside of sections, are harmless in any case.
//!
//! gdb in batch mode runs this program once more, as `actor`.

#![cfg(not(feature = "sim"))]

#[allow(dead_code, reason = "not every program uses all of it")]
mod surroundings;

use chappe_ras::gate;
use chappe_ras::{Counter, Index};
use std::process::Command;
use surroundings::{PART, ends, has, not_tested, text};

/// Breakpoints at each copy of the section that the compiler has made; there may be fewer than are asked for.
const BREAK: &str = "break in the section";
/// So that a breakpoint in a section does not undo it.
const IN_PLACE: &str = "set displaced-stepping off";

const ADDS: u64 = 20_000;
const THREADS: u64 = 3;

/// What gdb runs; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(part) = std::env::var(PART) else { return };
    let counter = Counter::new(Index::Cpu);
    let add = || (0..ADDS).for_each(|n| counter.add(n));
    match part.as_str() {
        "one" => (0..THREADS).for_each(|_| add()),
        "some" => std::thread::scope(|s| (0..THREADS).for_each(|_| _ = s.spawn(add))),
        other => panic!("no such part: {other}"),
    }
    println!("says: {}, sequences: {}", counter.sum(), gate::verdict().name());
}

/// All that gdb and the program said, if there is a gdb. The program has ended well, and has counted right.
fn debugged(test: &str, part: &str, commands: &[&str]) -> Option<String> {
    if !has("gdb") {
        not_tested(test, "gdb is not installed");
        return None;
    }
    if !gate::sequences() {
        not_tested(test, gate::verdict());
        return None;
    }
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx"]);
    for setting in ["pagination off", "confirm off", "debuginfod enabled off", "auto-load off"] {
        gdb.args(["-iex", &format!("set {setting}")]);
    }
    let break_in_each = |command: &&str| match *command {
        BREAK => (1..=4).map(|n| format!("break chappe_ras_add_{n}")).collect(),
        other => vec![other.to_owned()],
    };
    for command in commands.iter().flat_map(break_in_each) {
        gdb.args(["-ex", &command]);
    }
    gdb.arg("--args").arg(std::env::current_exe().unwrap());
    gdb.args(["--exact", "actor", "--nocapture", "--test-threads=1"]).env(PART, part);
    gdb.env_remove("CHAPPE_SEQUENCES");
    let all = text(&ends(&mut gdb));
    if all.contains("ptrace: Operation not permitted") {
        not_tested(test, "this process may not trace others");
        return None;
    }
    let sum = THREADS * (ADDS * (ADDS - 1) / 2);
    assert!(all.contains(&format!("says: {sum}, sequences: ")) && all.contains("exited normally"), "{all}");
    Some(all)
}

#[test]
#[ignore = "storm: gdb and the self-test must find the time"]
fn one_steps_through_a_section() {
    let script = [BREAK, "run", "info symbol $pc", "delete", "stepi 200", "continue"];
    let Some(all) = debugged("one_steps_through_a_section", "some", &script) else { return };
    let line = all.lines().find(|l| l.contains(" in section ")).unwrap_or_else(|| panic!("{all}"));
    assert!(line.starts_with("chappe_ras_add_"), "where one is has a name: {line}");
    assert!(!all.contains("sequences: broken"), "{all}");
}

#[test]
#[ignore = "storm: gdb and the self-test must find the time"]
fn one_steps_over_what_has_sections_in_it() {
    let script = [BREAK, "run", "delete", "next 20", "up", "step 20", "continue"];
    debugged("one_steps_over_what_has_sections_in_it", "some", &script);
}

#[test]
#[ignore = "storm: gdb and the self-test must find the time"]
fn one_breaks_in_a_section_again_and_again() {
    for (part, first) in [("some", IN_PLACE), ("one", "set displaced-stepping auto")] {
        let mut script = vec![first, BREAK, "run"];
        script.extend(["continue"; 100]);
        script.extend(["delete", "continue"]);
        let Some(all) = debugged("one_breaks_in_a_section_again_and_again", part, &script) else { return };
        assert!(all.matches("Breakpoint").count() > 100, "{all}");
    }
}

#[test]
#[ignore = "storm: gdb and the self-test must find the time"]
fn one_steps_through_the_self_test() {
    let script = |first| {
        let rest = ["break chappe_ras_gate_section", "run", "info symbol $pc", "stepi 50", "delete", "stepi 150"];
        [&[first][..], &rest, &["continue"]].concat()
    };
    let test = "one_steps_through_the_self_test";
    let Some(all) = debugged(test, "some", &script(IN_PLACE)) else { return };
    assert!(all.lines().any(|l| l.starts_with("chappe_ras_gate") && l.contains("in section .text")), "{all}");
    assert!(!all.contains("sequences: broken"), "{all}");
    // What a section does that the debugger has undone is seen, and none is used.
    debugged(test, "some", &script("set displaced-stepping on"));
}

#[test]
#[ignore = "storm: gdb and the self-test must find the time"]
fn sections_and_their_exits_are_listed() {
    let script = [BREAK, "run", "info symbol $pc + 4", "info files", "delete", "continue"];
    let Some(all) = debugged("sections_and_their_exits_are_listed", "some", &script) else { return };
    for section in ["__rseq_cs", "__rseq_cs_ptr_array", "__rseq_exit_point_array"] {
        assert!(all.lines().any(|l| l.trim_end().ends_with(&format!(" is {section}"))), "{section}: {all}");
    }
    assert!(all.lines().any(|l| l.starts_with("chappe_ras_add_") && l.contains(" + 4 in section ")), "{all}");
}
