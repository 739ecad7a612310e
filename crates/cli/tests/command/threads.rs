//! `chappe threads`.

use crate::place::{Place, Running, until};
use std::process::Stdio;

/// What `chappe threads` is shown: this program again, with light threads of each kind. Does nothing as a test.
#[test]
fn threads_to_be_seen() {
    if std::env::var_os("CHAPPE_TEST_THREADS").is_none() {
        return;
    }
    let runtime = chappe::thread::Runtime::new(1).unwrap();
    let begin = |name: &str, level, body: fn()| {
        drop(chappe::thread::Builder::new().name(name).level(level).spawn_on(&runtime, body).unwrap());
    };
    begin("parker", 0, chappe::thread::park);
    begin("receiver", 5, || {
        let (_to, from) = chappe::tube::bounded::<u8>(0);
        let _ = from.recv();
    });
    begin("named", 0, || chappe::Semaphore::open("ready").unwrap().down().unwrap());
    begin("worker", 7, || {
        loop {
            chappe::thread::yield_now();
        }
    });
    loop {
        std::thread::park();
    }
}

fn to_be_seen(here: &Place) -> Running {
    let me = std::env::current_exe().unwrap();
    let args = ["--exact", "threads::threads_to_be_seen", "--nocapture"];
    let mut command = here.program(me.to_str().unwrap(), &args);
    Place::spawn(command.env("CHAPPE_TEST_THREADS", "1").stdout(Stdio::null()).stderr(Stdio::null()))
}

#[test]
fn threads_are_shown_with_what_they_wait_for() {
    let here = Place::new();
    here.ok(&["sem", "create", "ready", "--value", "0"]);
    let shown = to_be_seen(&here);
    let pid = shown.pid().to_string();
    until("all wait", || (here.json(&["show", "ready"])["waiting"] == 1).then_some(()));
    let seen = until("all have begun", || {
        let ran = here.run(&["--json", "threads", &pid, "--sample", "20ms"]);
        let seen: serde_json::Value = serde_json::from_str(&ran.out).ok().filter(|_| ran.status == Some(0))?;
        let waiting = seen["threads"].as_array()?.iter().filter(|t| t["state"] == "waiting").count();
        (waiting == 3).then_some(seen)
    });
    let all = seen["threads"].as_array().unwrap();
    let thread = |name: &str| all.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}: {seen}"));
    assert_eq!(thread("parker")["waits_for"], "is parked");
    assert!(thread("receiver")["waits_for"].as_str().unwrap().starts_with("waits to receive from tube 0x"), "{seen}");
    assert_eq!(thread("receiver")["level"], 5);
    assert!(thread("receiver")["stack"].as_u64().unwrap() > 100, "{seen}");
    assert_eq!(thread("named")["object"], "ready");
    assert!(thread("named")["since_seconds"].is_number());
    assert_ne!(thread("worker")["state"], "waiting");
    assert!(thread("worker")["cpu"].as_f64().unwrap() > thread("parker")["cpu"].as_f64().unwrap(), "{seen}");

    // It may be stopped.
    shown.kill(libc::SIGSTOP);
    let text = here.ok(&["threads", &pid, "--sample", "0"]);
    assert!(text.starts_with("  THREAD NAME") && text.contains("waits for ready since"), "{text}");
    let text = here.ok(&["threads", &pid, "--tree", "--sample", "0"]);
    assert!(text.contains("4 light threads\n  proc 0.0: 4\n"), "{text}");
    drop(shown);
}

#[test]
fn a_process_without_light_threads_is_told_so() {
    let here = Place::new();
    // Not this one: other tests of this program may have some.
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let said = here.fails(1, &["threads", &other.id().to_string()]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(said.contains("has no light threads"), "{said}");
    let said = here.fails(1, &["threads", "999999999"]);
    assert!(said.contains("there is no process 999999999"), "{said}");
    here.fails(2, &["threads", "nobody"]);
}
