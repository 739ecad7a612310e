//! What is shown, to people and to programs.

use crate::place::Place;
use serde_json::{Value, json};

#[test]
fn every_command_speaks_json() {
    let here = Place::new();
    assert_eq!(here.json(&["ls"]), json!([]));
    assert_eq!(here.json(&["pool", "create", "gpu", "--permits", "2"]), json!({"name": "gpu", "permits": 2}));
    assert_eq!(here.json(&["pool", "resize", "gpu", "3"]), json!({"name": "gpu", "permits": 3}));
    let made = here.json(&["arena", "create", "lab", "--members", "8", "--objects", "16", "--cells", "32"]);
    let path = here.arenas().join("lab").display().to_string();
    assert_eq!(made, json!({"name": "lab", "path": path, "members": 8, "objects": 16, "cells": 32, "data": 256 << 20}));
    let made = here.json(&["arena", "create", "tiny", "--data", "65"]);
    assert_eq!(made["data"], 128, "in steps of 64");
    here.ok(&["arena", "rm", "tiny"]);
    assert_eq!(here.json(&["pool", "create", "lab/x"]), json!({"name": "lab/x", "permits": 1}));
    let (a, _) = here.holder("a", &["gpu"]);
    assert_eq!(
        here.json(&["ls"]),
        json!([
            {"name": "gpu", "arena": "default", "kind": "pool", "permits": 3, "free": 2, "held": 1, "waiting": 0},
            {"name": "lab/x", "arena": "lab", "kind": "pool", "permits": 1, "free": 1, "held": 0, "waiting": 0},
        ])
    );
    assert_eq!(here.json(&["ls", "lab"]).as_array().unwrap().len(), 1);
    let shown = here.json(&["show", "gpu"]);
    assert_eq!(
        (&shown["name"], &shown["arena"], &shown["kind"], &shown["permits"], &shown["free"]),
        (&"gpu".into(), &"default".into(), &"pool".into(), &3.into(), &2.into())
    );
    let holder = &shown["holders"][0];
    assert_eq!((&holder["pid"], &holder["tid"]), (&a.pid().into(), &a.pid().into()));
    assert_eq!((&holder["leased"], &holder["orphan"]), (&true.into(), &false.into()));
    assert_eq!(holder["permit"], format!("gpu:{}", holder["index"]));
    assert!(holder["held_ms"].is_u64() && holder["label"].as_str().unwrap().starts_with("sh -c"));
    assert_eq!(shown["waiters"], json!([]));
    let health = here.json(&["doctor"]);
    assert_eq!(health["directory"], here.arenas().display().to_string());
    assert_eq!(health["arenas"][0]["name"], "default");
    assert_eq!(health["arenas"][0]["error"], Value::Null);
    let capacity = &health["arenas"][0]["capacity"];
    assert_eq!((&capacity["objects_used"], &capacity["data"]), (&1.into(), &(256 << 20).into()));
    assert_eq!(capacity["data_used"], 0);
    assert!(health["kernel"].is_array());
    let index = holder["index"].to_string();
    let taken = here.json(&["release", "gpu", &index, "--force"]);
    assert_eq!(taken["taken_from"]["pid"], a.pid());
    here.go("a");
    a.end();
    assert_eq!(here.json(&["pool", "rm", "gpu"]), json!({"removed": "gpu"}));
    assert_eq!(here.json(&["arena", "rm", "lab"]), json!({"removed": "lab"}));
    assert_eq!(here.json(&["ls"]), json!([]));
    let error: Value = serde_json::from_str(&here.fails(1, &["--json", "show", "gone"])).unwrap();
    assert!(error["error"].as_str().unwrap().contains("no object `gone`"));
}

#[test]
fn people_get_a_table() {
    let here = Place::new();
    assert_eq!(here.ok(&["ls"]), "");
    assert_eq!(here.ok(&["pool", "create", "a-long-name", "-p", "12"]), "");
    here.ok(&["pool", "create", "b"]);
    assert_eq!(
        here.ok(&["ls"]),
        "NAME         KIND  WAITING  STATE\n\
         a-long-name  pool        0  12 permits, 12 free, 0 held\n\
         b            pool        0  1 permit, 1 free, 0 held\n"
    );
    assert_eq!(here.ok(&["show", "b"]), "b: 1 permit, 1 free, 0 waiting\n");
    let (_a, job) = here.holder("a", &["b"]);
    let waiter = here.job(&["b"], "true");
    here.wait_for_waiters("b", 1);
    let shown = here.ok(&["show", "b"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "b: 1 permit, 0 free, 1 waiting");
    assert!(lines[1].starts_with("  b  held by pid ") && lines[1].contains(", since "), "{shown}");
    // A kernel without the list of a process's children says no pid.
    let listed = std::fs::exists("/proc/thread-self/children").is_ok_and(|there| there);
    let leased = if listed { format!(", leased to its job, pid {job}") } else { ", leased".to_owned() };
    assert!(lines[1].ends_with(&leased), "{shown}");
    assert!(lines[2].starts_with(&format!("  1. in line: pid {} `sh -c true` for ", waiter.pid())), "{shown}");
}

#[test]
fn a_pool_shrinks_as_its_permits_come_back() {
    let here = Place::new();
    let (a, _) = here.holder("a", &["--create=2", "p"]);
    let (b, _) = here.holder("b", &["p"]);
    here.ok(&["pool", "resize", "p", "1"]);
    assert_eq!(here.json(&["show", "p"])["permits"], 1);
    here.go("a");
    here.go("b");
    assert_eq!((a.end().status, b.end().status), (Some(0), Some(0)));
    assert_eq!(here.free("p"), 1);
    here.ok(&["pool", "resize", "p", "4"]);
    assert_eq!(here.free("p"), 4);
}

#[test]
fn the_manual_and_the_completions_are_made() {
    let here = Place::new();
    let page = here.ok(&["man"]);
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    for word in ["chappe", "acquire", "CHAPPE_DIR"] {
        assert!(page.contains(word) || page.contains(&word.replace('_', "\\_")), "{word}: {page}");
    }
    here.ok(&["man", "pages"]);
    for page in [
        "chappe.1",
        "chappe-acquire.1",
        "chappe-show.1",
        "chappe-pool-create.1",
        "chappe-sem-down.1",
        "chappe-rm.1",
        "chappe-doctor.1",
    ] {
        assert!(here.read_now(&format!("pages/{page}")).contains(".TH"), "{page}");
    }
    assert!(here.read_now("pages/chappe-acquire.1").contains("CHAPPE_PERMIT"));
    for (shell, word) in [("bash", "_chappe"), ("zsh", "#compdef chappe"), ("fish", "complete -c chappe")] {
        assert!(here.ok(&["completions", shell]).contains(word), "{shell}");
    }
    for command in [
        &["--help"][..],
        &["acquire", "--help"],
        &["show", "--help"],
        &["doctor", "--help"],
        &["pool", "--help"],
        &["sem", "down", "--help"],
    ] {
        assert!(here.ok(command).contains("Usage:"), "{command:?}");
    }
    assert!(here.ok(&["help", "acquire"]).contains("126  the command was found but cannot be run"));
    let help = here.ok(&["--help"]);
    assert!(help.lines().count() <= 45 && help.contains("chappe help json"), "on one screen:\n{help}");
    let fields = here.ok(&["json"]);
    assert!(fields.starts_with("ls:\n") && fields.contains("\nshow:\n") && fields.contains("\ndoctor:\n"), "{fields}");
    // Long lines are broken there.
    assert!(here.ok(&["help", "json"]).contains("\nls:\n  [OBJECT], where OBJECT is one of\n"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let here = Place::new();
    let mut c = here.program("sh", &["-c", "{ $CHAPPE completions bash; echo $? > status; } | head -c 1 > head"]);
    assert_eq!(Place::spawn(&mut c).end().status, Some(0));
    assert_eq!(here.read("status"), "0");
}

#[test]
fn a_stdout_that_takes_nothing_is_an_error() {
    let here = Place::new();
    let mut c = here.command(&["--json", "ls"]);
    let ran = Place::spawn(c.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())).end();
    assert_eq!(ran.status, Some(1));
    assert!(ran.err.contains("cannot write to stdout: No space left"), "{ran:?}");
}

#[test]
fn bash_completes_commands_options_names_and_what_stands_behind_the_dashes() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu0", "gpu1", "lab/cpu"]);
    here.ok(&["sem", "create", "go"]);
    here.ok(&["tube", "create", "lines", "--size", "64"]);
    std::fs::create_dir(here.file("bin")).unwrap();
    std::os::unix::fs::symlink(crate::place::CHAPPE, here.file("bin/chappe")).unwrap();
    let completed = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "source <(chappe completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
             _chappe; [ ${{#COMPREPLY[@]}} -eq 0 ] || printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|w| format!("'{w}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
        );
        let mut c = here.program("bash", &["--norc", "--noprofile", "-c", &script]);
        let path = format!("{}:{}", here.file("bin").display(), std::env::var("PATH").unwrap());
        let ran = Place::spawn(c.env("PATH", path)).end();
        assert!(ran.status == Some(0) && ran.err.is_empty(), "{line}: {ran:?}");
        ran.out.lines().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(completed("chappe acq"), ["acquire"]);
    assert_eq!(completed("chappe ke"), Vec::<String>::new(), "hidden");
    assert_eq!(completed("chappe acquire g"), ["gpu0", "gpu1"]);
    assert_eq!(completed("chappe acquire gpu0 "), ["gpu0", "gpu1", "lab/cpu"]);
    assert_eq!(completed("chappe acquire --non"), ["--nonblock"]);
    assert_eq!(completed("chappe show "), ["go", "gpu0", "gpu1", "lab/cpu", "lines"]);
    assert_eq!(completed("chappe sem down "), ["go"]);
    assert_eq!(completed("chappe recv "), ["lines"]);
    assert_eq!(completed("chappe jobserver --pool l"), ["lab/cpu"]);
    assert_eq!(completed("chappe arena rm "), ["default", "lab"]);
    assert!(completed("chappe acquire gpu0 -- bas").contains(&"bash".to_owned()), "a command");
    assert_eq!(completed("chappe acquire gpu0 -- cat bi"), ["bin"], "its argument");
}
