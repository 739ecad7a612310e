//! The job server under real builds. They need GNU make 4.4 or later: `$CHAPPE_TEST_MAKE`, `make` or `gmake`. Without it
//! these tests say so and do nothing (the soak, which somebody asked for, fails); `jobserver` holds the protocol.

use crate::jobserver::{event, events, left, serve};
use crate::place::{Place, Ran, kill, not_tested, runs, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

/// What the tests need.
const WANTED: &str = "it needs GNU make 4.4 or later; CHAPPE_TEST_MAKE says where one is";

/// A make that knows `fifo:`, for this test.
fn make(test: &str) -> Option<String> {
    let good = find_make();
    if good.is_none() {
        not_tested(&format!("{test}: {WANTED}"));
    }
    good
}

fn find_make() -> Option<String> {
    let asked = std::env::var("CHAPPE_TEST_MAKE").ok();
    asked.into_iter().chain(["make".into(), "gmake".into()]).find(|make| {
        let Ok(out) = Command::new(make).arg("--version").output() else { return false };
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let version = text.strip_prefix("GNU Make ").and_then(|v| v.split_whitespace().next()).unwrap_or("0.0");
        let mut parts = version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
        (parts.next(), parts.next()) >= (Some(4), Some(4))
    })
}

/// Shell, in a makefile: notes its beginning, waits until as many have begun as there are slots, and notes its end.
const MARKED: &str = "@echo + >>marks; while [ $$(grep -c + marks) -lt $$SLOTS ]; do sleep 0.01; done; echo - >>marks";

/// How many of the marked recipes ran at once.
fn most_at_once(here: &Place) -> i64 {
    let (mut now, mut most) = (0, 0);
    for mark in here.read("marks").lines() {
        now += if mark == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!(now, 0, "all have ended");
    most
}

#[test]
fn a_build_runs_as_many_jobs_at_once_as_there_are_slots() {
    let Some(make) = make("a_build_runs_as_many_jobs_at_once_as_there_are_slots") else { return };
    for options in [&["-p", "3"][..], &["-p", "3", "--pool", "cpu", "--create"], &["-p", "1"]] {
        let here = Place::new();
        // Jobs of its own, and sub-makes that have some.
        let makefile = format!(
            "all: a1 a2 a3 a4 a5 a6 s1 s2 s3\na%:\n\t{MARKED}\ns%:\n\t+@$(MAKE) --no-print-directory b1$@ b2$@ b3$@ b4$@\nb%:\n\t{MARKED}\n"
        );
        std::fs::write(here.file("Makefile"), makefile).unwrap();
        let args = [&["--json", "jobserver"], options, &["--", &make, "-j", "all"]].concat();
        let mut c = here.command(&args);
        c.env("TMPDIR", here.path()).env_remove("MAKEFLAGS").env("SLOTS", options[1]);
        let ran = Place::spawn(&mut c).end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        assert!(!ran.err.contains("warning"), "{ran:?}");
        let permits: i64 = options[1].parse().unwrap();
        // A recipe's end is noted before its slot is free.
        assert_eq!(most_at_once(&here), permits, "{ran:?}");
        let ended = event(&ran, "ended");
        assert_eq!((&ended["most_at_once"], &ended["recovered"]), (&permits.into(), &0.into()));
        assert_eq!(left(&here).len(), 0);
        if options.len() > 2 {
            assert_eq!(here.free("cpu"), 3);
        }
    }
}

#[test]
fn a_failing_build_fails_as_it_does_without() {
    let Some(make) = make("a_failing_build_fails_as_it_does_without") else { return };
    let here = Place::new();
    std::fs::write(here.file("Makefile"), "all: a b c\na b:\n\t@true\nc:\n\t@exit 9\n").unwrap();
    for args in [&["-k"][..], &["-q"], &["no-such-target"]] {
        let plain = Place::spawn(here.program(&make, args).env_remove("MAKEFLAGS")).end();
        let ours = [&["jobserver", "-p", "4", "--", &make, "-j9"], args].concat();
        let ours = Place::spawn(here.command(&ours).env("TMPDIR", here.path()).env_remove("MAKEFLAGS")).end();
        assert_eq!((plain.status, plain.err), (ours.status, ours.err), "{args:?}");
    }
}

#[test]
fn a_killed_sub_makes_slots_come_back() {
    let Some(make) = make("a_killed_sub_makes_slots_come_back") else { return };
    let here = Place::new();
    // Its three jobs have its own slot and the two others.
    let makefile = "all:\n\t+-@echo $$$$ >sub.new; mv sub.new sub; exec $(MAKE) --no-print-directory x1 x2 x3\n\
        x%:\n\t@echo in >in-$@; while [ ! -e go ]; do sleep 0.01; done\n";
    std::fs::write(here.file("Makefile"), makefile).unwrap();
    let script = format!(
        "'{make}'; echo made; enter; for i in $(seq 30); do try && echo early; sleep 0.01; done; say tried 1
        take; take; [ -e go ] && echo late"
    );
    let server = serve(&here, &["-p", "3", "--pool", "cpu", "--create"], &script);
    for x in ["x1", "x2", "x3"] {
        here.read(&format!("in-{x}"));
    }
    kill(here.read("sub").parse().unwrap(), libc::SIGKILL);
    here.read("tried");
    assert_eq!(here.free("cpu"), 0, "its jobs go on");
    std::fs::write(here.file("go"), "").unwrap();
    let ran = server.end();
    assert_eq!(ran.out, "made\nlate\n", "{ran:?}");
    assert_eq!(event(&ran, "ended")["recovered"], 2);
    assert_eq!(here.free("cpu"), 3);
}

#[test]
fn the_shell_example_loses_no_slot() {
    let Some(make) = make("the_shell_example_loses_no_slot") else { return };
    let here = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shell/jobserver.sh");
    let mut c = here.program("sh", &[example]);
    c.env("MAKE", make).env("DIRECTORIES", "3").env("KILLS", "5").env("TMPDIR", here.path()).env_remove("MAKEFLAGS");
    let ran = Place::spawn(&mut c).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for line in ["one: done after", "two: done after", "both builds done, all 4 slots free"] {
        assert!(ran.out.contains(line), "{line}: {ran:?}");
    }
}

/// A project of C files in directories with a makefile each.
fn project(here: &Place, directories: usize, files: usize) {
    let mut top = String::from("DIRS =");
    for d in 0..directories {
        let _ = write!(top, " d{d}");
        let dir = here.file(&format!("d{d}"));
        std::fs::create_dir(&dir).unwrap();
        let mut objects = String::from("OBJECTS =");
        for f in 0..files {
            let _ = write!(objects, " f{f}.o");
            let mut source = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
            for i in 0..20 {
                let _ = writeln!(
                    source,
                    "int f{d}_{f}_{i}(int x) {{ char b[64]; snprintf(b, sizeof b, \"%d\", x); return atoi(b) + (int)strlen(b); }}"
                );
            }
            std::fs::write(dir.join(format!("f{f}.c")), source).unwrap();
        }
        let makefile = "\nlib.a: $(OBJECTS)\n\t@ar rcs $@ $^\n%.o: %.c\n\t@cc -O1 -c -o $@ $<\n.DELETE_ON_ERROR:\n";
        std::fs::write(dir.join("Makefile"), objects + makefile).unwrap();
    }
    top += "\nall: $(DIRS)\n$(DIRS):\n\t+@$(MAKE) --no-print-directory -C $@\n.PHONY: all $(DIRS)\n";
    std::fs::write(here.file("Makefile"), top).unwrap();
}

/// Numbers that look random (xorshift).
pub struct Dice(pub u64);

impl Dice {
    /// Less than `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// What descends from a process, with its name.
fn descendants(of: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for task in std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
                let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
                found.push((child, name.trim().to_owned()));
                parents.push(child);
            }
        }
    }
    found
}

/// Kills one that descends from `of`, not its first one, and not `spared`.
fn kill_one(of: u32, dice: &mut Dice, spared: u32, killed: &mut BTreeMap<String, usize>) -> bool {
    let all: Vec<_> = descendants(of).into_iter().filter(|(pid, _)| *pid != spared).collect();
    if all.is_empty() {
        return false;
    }
    // Each kind as often as any other: there are more shells than makes.
    let mut kinds: Vec<&String> = all.iter().map(|(_, name)| name).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let kind = kinds[dice.below(kinds.len())];
    let of_kind: Vec<u32> = all.iter().filter(|(_, name)| name == kind).map(|(pid, _)| *pid).collect();
    let pid = of_kind[dice.below(of_kind.len())];
    // SAFETY: a plain system call; it descends from the process that we started, or has just ended.
    if unsafe { libc::kill(pid as i32, libc::SIGKILL) } == 0 {
        *killed.entry(kind.clone()).or_default() += 1;
        return true;
    }
    false
}

/// Shell: a build, and then a client that takes every slot there is: it can only end if none was lost.
fn build_and_take(build: &str, slots: usize) -> String {
    format!("{build} >build.log 2>&1; s=$?; : >built; enter; {} exit $s", "take; ".repeat(slots))
}

#[test]
#[ignore = "storm: kills at random, for minutes"]
fn soak_a_build_whose_processes_are_killed_at_random() {
    const SLOTS: usize = 4;
    let kills: usize = std::env::var("CHAPPE_SOAK_KILLS").map_or(150, |n| n.parse().expect("a number"));
    let Some(make) = make("soak_a_build_whose_processes_are_killed_at_random") else { return };
    let here = Place::new();
    project(&here, 20, 10);
    here.ok(&["pool", "create", "cpu", "--permits", "4"]);
    let mut dice = Dice(std::process::id().into());
    let (mut killed, mut builds, mut failed, mut whole, mut recovered) = (BTreeMap::new(), 0, 0, 0, 0);
    let mut chappes = 0;
    while killed.values().sum::<usize>() < kills {
        builds += 1;
        let clean = dice.below(3) == 0;
        if clean {
            Place::spawn(&mut here.program("sh", &["-c", "rm -f d*/*.o d*/*.a"])).end();
        }
        // Gone with what the last one made.
        let _ = std::fs::remove_file(here.file("built"));
        let script = build_and_take(&format!("'{make}' -k"), SLOTS - 1);
        let server = serve(&here, &["--pool", "cpu"], &script);
        let pid = server.pid();
        let job = until("the command", || descendants(pid).first().map(|d| d.0));
        let mut hits = 0;
        let end_chappe = dice.below(6) == 0;
        while !here.file("built").exists() && runs(pid) {
            std::thread::sleep(Duration::from_millis(20 + dice.below(60) as u64));
            if hits > 4 && end_chappe {
                break;
            }
            hits += usize::from(!here.file("built").exists() && kill_one(pid, &mut dice, job, &mut killed));
        }
        if end_chappe && runs(pid) {
            chappes += 1;
            server.kill(libc::SIGKILL);
            assert_eq!(server.status().signal(), Some(libc::SIGKILL));
            // It cannot take every slot now: nobody brings them.
            until("the build's end", || here.file("built").exists().then_some(()));
            // SAFETY: a plain system call; the group is the command's own.
            unsafe { libc::kill(-(job as i32), libc::SIGKILL) };
        } else {
            let ran = server.end();
            let log = here.read_now("build.log");
            // As make: 0, or 2 with an error; 137 when the make itself was killed.
            assert!(matches!(ran.status, Some(0 | 2 | 137)), "{ran:?} {log}");
            let hurt = log.contains("***") || ran.status == Some(137);
            assert_eq!(ran.status != Some(0), hurt, "{ran:?} {log}");
            assert!(!events(&ran).iter().any(|e| e["error"] != Value::Null), "{ran:?}");
            let ended = event(&ran, "ended");
            assert!(ended["most_at_once"].as_u64() <= Some(SLOTS as u64), "{ran:?}");
            recovered += ended["recovered"].as_u64().unwrap();
            failed += usize::from(ran.status != Some(0));
            whole += usize::from(ran.status == Some(0));
        }
        until("all permits", || (here.free("cpu") == SLOTS as u64).then_some(()));
    }
    let ran: Ran = serve(&here, &["--pool", "cpu"], &build_and_take(&format!("'{make}'"), SLOTS - 1)).end();
    assert_eq!(ran.status, Some(0), "{ran:?} {}", here.read_now("build.log"));
    assert_eq!(here.free("cpu"), SLOTS as u64);
    let plain = Place::spawn(here.program(&make, &["-q"]).env_remove("MAKEFLAGS")).end();
    assert_eq!(plain.status, Some(0), "nothing is left to do");
    let _ = writeln!(
        std::io::stderr(),
        "soak: {builds} builds ({whole} whole, {failed} failed, {chappes} whose chappe was killed), {} kills {killed:?}; \
         {recovered} tokens came back, 0 lost",
        killed.values().sum::<usize>()
    );
}
