//! The job server and makes before 4.4, which know no fifo by name, wherever they are below the command; and as many slots as there can be.

use crate::jobserver::{event, serve};
use crate::place::{Place, Ran, kill, not_tested, until};
use std::process::Command;

/// GNU make 4.2 or 4.3, if `make` is one.
fn old_make(test: &str) -> bool {
    let said = Command::new("make").arg("--version").output();
    let text = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let is_old = text.starts_with("GNU Make 4.2") || text.starts_with("GNU Make 4.3");
    if !is_old {
        not_tested(&format!("{test}: it needs GNU make 4.2 or 4.3 as `make`"));
    }
    is_old
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        not_tested(&format!("an old make below {program}: there is none"));
    }
    there
}

/// Six jobs, each of which notes that it runs, and waits until three do, or have done.
const MAKEFILE: &str = "\
all: sub j1 j2 j3\n\
sub:\n\t+@$(MAKE) --no-print-directory j4 j5 j6\n\
j%:\n\t@touch now-$@; set -- now-*; echo $$# >> most; touch did-$@; \
while set -- did-*; [ $$# -lt 3 ]; do sleep 0.01; done; rm now-$@\n";

fn build(here: &Place, command: &[&str]) -> Ran {
    std::fs::write(here.file("Makefile"), MAKEFILE).unwrap();
    let mut c = here.command(&[&["--json", "jobserver", "-p", "3", "--"], command].concat());
    c.env("TMPDIR", here.path()).env_remove("MAKEFLAGS").env_remove("CARGO_MAKEFLAGS");
    Place::spawn(&mut c).end()
}

#[test]
fn an_old_make_below_whatever_command_has_the_slots_and_no_more() {
    if !old_make("an_old_make_below_whatever_command_has_the_slots_and_no_more") {
        return;
    }
    let ninja = "rule m\n  command = make -s\nbuild out: m\n";
    let commands: [(&str, &[&str]); 6] = [
        ("sh", &["sh", "-c", "make -s; true"]),
        ("env", &["env", "A=1", "make", "-s"]),
        ("nice", &["nice", "sh", "-c", "exec make -s"]),
        ("make", &["make", "-s", "-j9"]),
        ("cmake", &["cmake", "-E", "env", "make", "-s"]),
        ("ninja", &["ninja", "-f", "b.ninja"]),
    ];
    for (name, command) in commands {
        if matches!(name, "cmake" | "ninja") && !is_there(name) {
            continue;
        }
        let here = Place::new();
        std::fs::write(here.file("b.ninja"), ninja).unwrap();
        let ran = build(&here, command);
        assert_eq!(ran.status, Some(0), "{name}: {ran:?}");
        assert!(!ran.err.contains("jobserver unavailable") && !ran.err.contains("forced"), "{name}: {ran:?}");
        let most = here.read("most").lines().map(|n| n.parse::<u32>().unwrap()).max();
        assert_eq!(most, Some(3), "{name}: so many at once");
        assert_eq!(event(&ran, "ended")["recovered"], 0, "{name}: {ran:?}");
    }
}

#[test]
fn a_killed_old_sub_makes_slots_come_back_below_a_script() {
    if !old_make("a_killed_old_sub_makes_slots_come_back_below_a_script") {
        return;
    }
    let here = Place::new();
    // A sub-make takes both tokens for its jobs, and is killed; its jobs end. Then the first make's own three must run at the same time.
    let makefile = "\
all: last\n\
lost:\n\t-+@$(MAKE) --no-print-directory j1 j2 j3\n\
j%:\n\t@echo $$PPID > maker; touch begun-$@; while [ ! -e killed ]; do sleep 0.01; done\n\
last: lost\n\t+@$(MAKE) --no-print-directory p1 p2 p3\n\
p%:\n\t@touch $@; while [ ! -e p1 ] || [ ! -e p2 ] || [ ! -e p3 ]; do sleep 0.01; done\n";
    std::fs::write(here.file("Makefile"), makefile).unwrap();
    let mut c = here.command(&["--json", "jobserver", "-p", "3", "--", "sh", "-c", "make -s; exit $?"]);
    let running = Place::spawn(c.env("TMPDIR", here.path()).env_remove("MAKEFLAGS"));
    until("the sub-make's jobs run at once", || {
        ["j1", "j2", "j3"].iter().all(|j| here.file(&format!("begun-{j}")).exists()).then_some(())
    });
    kill(here.read("maker").parse().unwrap(), libc::SIGKILL);
    std::fs::write(here.file("killed"), "").unwrap();
    let ran = running.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert_eq!(event(&ran, "ended")["recovered"], 2, "{ran:?}");
}

#[test]
fn a_make_of_each_kind_shares_the_slots_with_clients_of_the_other() {
    if !old_make("a_make_of_each_kind_shares_the_slots_with_clients_of_the_other") {
        return;
    }
    let here = Place::new();
    // A client of the fifo has one of the two tokens, so only one is left for the old make; then it gives it back, and takes both when make has ended.
    let makefile = "all: a b c\n%:\n\t@touch now-$@; set -- now-*; echo $$# >> most; while [ -e hold ]; do sleep 0.01; done; rm now-$@\n";
    std::fs::write(here.file("Makefile"), makefile).unwrap();
    std::fs::write(here.file("hold"), "").unwrap();
    let script =
        "enter; take; make -s & while [ ! -e now-a ] || [ ! -e now-b ]; do sleep 0.01; done; [ -e now-c ] && echo three
        rm hold; wait; give; take; take; give; give; cat most";
    let ran = serve(&here, &["-p", "3"], script).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.out.lines().all(|n| n == "1" || n == "2"), "{ran:?}");
}

#[test]
fn as_many_slots_as_there_can_be_are_all_of_use() {
    for permits in [20_000, 65_536] {
        let here = Place::new();
        let n = permits.to_string();
        // All are taken by one client, and then given back. (How many the server saw out at once depends on when it looked.)
        let script = format!("enter; head -c {0} <&3 | wc -c; head -c {0} /dev/zero | tr '\\0' + >&3", permits - 1);
        let ran = serve(&here, &["--permits", &n], &script).end();
        assert_eq!((ran.status, ran.out.trim()), (Some(0), (permits - 1).to_string().as_str()), "{ran:?}");
        assert_eq!(event(&ran, "ended")["recovered"], 0, "{ran:?}");
    }
}
