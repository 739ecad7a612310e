//! `chappe threads`.

use crate::place::{Place, Running, until};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

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
    to_be_seen_as(here, |_| {})
}

fn to_be_seen_as(here: &Place, prepare: impl FnOnce(&mut Command)) -> Running {
    let me = std::env::current_exe().unwrap();
    let args = ["--exact", "threads::threads_to_be_seen", "--nocapture"];
    let mut command = here.program(me.to_str().unwrap(), &args);
    prepare(&mut command);
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
    if cfg!(not(feature = "backtrace")) {
        let said = here.fails(1, &["threads", &pid, "--backtrace", "--sample", "0"]);
        assert!(said.contains("built without backtraces (feature `backtrace`): `cargo install"), "{said}");
    }
    drop(shown);
}

#[test]
fn the_core_file_of_a_process_shows_what_its_threads_did() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if !pattern.trim().chars().all(|c| c.is_ascii_alphanumeric()) {
        eprintln!("not tried: core files go to {pattern}");
        return;
    }
    let here = Place::new();
    here.ok(&["sem", "create", "ready", "--value", "0"]);
    let cores = here.path().join("cores");
    std::fs::create_dir(&cores).unwrap();
    let shown = to_be_seen_as(&here, |command| {
        command.current_dir(&cores);
        let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a system call.
        let allow = move || match unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const unlimited) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        // SAFETY: it makes a system call, and nothing else.
        unsafe { command.pre_exec(allow) };
    });
    let pid = shown.pid();
    let waiting = || {
        let ran = here.run(&["--json", "threads", &pid.to_string(), "--sample", "0"]);
        let seen: serde_json::Value = serde_json::from_str(&ran.out).ok().filter(|_| ran.status == Some(0))?;
        let waiting = seen["threads"].as_array()?.iter().filter(|t| t["state"] == "waiting").count();
        (waiting == 3).then_some(())
    };
    until("all wait", waiting);
    shown.kill(libc::SIGABRT);
    assert_eq!(shown.status().signal(), Some(libc::SIGABRT));
    let left = std::fs::read_dir(&cores).unwrap().next().unwrap().unwrap();
    // Of all that is reserved it has what was used.
    assert!(left.metadata().unwrap().len() < 1 << 30, "{left:?}");
    let core = left.path().display().to_string();
    let args = ["--json", "threads", "--core", &core, "--backtrace"];
    let args = if cfg!(feature = "backtrace") { &args[..] } else { &args[..4] };
    let seen: serde_json::Value = serde_json::from_str(&here.ok(args)).unwrap();
    assert_eq!(seen["pid"], pid);
    let all = seen["threads"].as_array().unwrap();
    let thread = |name: &str| all.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}: {seen}"));
    assert_eq!(thread("parker")["waits_for"], "is parked");
    assert!(thread("receiver")["waits_for"].as_str().unwrap().starts_with("waits to receive from tube 0x"), "{seen}");
    assert_eq!(thread("named")["state"], "waiting");
    assert!(thread("worker")["cpu"].is_null() && thread("worker")["state"] != "waiting", "{seen}");
    if cfg!(feature = "backtrace") {
        let frames = thread("parker")["frames"].as_array().unwrap();
        assert!(frames.iter().any(|f| f["function"].as_str().is_some_and(|f| f.contains("park"))), "{seen}");
    }
    let text = here.ok(&["threads", "--core", &core]);
    assert!(text.starts_with("  THREAD NAME") && text.contains("is parked"), "{text}");

    // What is none, or not whole, is told so.
    here.fails(2, &["threads", "--core", &core, "--suspend", "1"]);
    let (other, cut) = (cores.join("other"), cores.join("cut"));
    std::fs::write(&other, b"no core file, but as long as the head of one would be: sixty-four bytes").unwrap();
    let said = here.fails(1, &["threads", "--core", other.to_str().unwrap()]);
    assert!(said.contains("no core file"), "{said}");
    std::fs::write(&cut, &std::fs::read(&core).unwrap()[..100]).unwrap();
    let said = here.fails(1, &["threads", "--core", cut.to_str().unwrap()]);
    assert!(said.contains("cut off"), "{said}");
    let said = here.fails(1, &["threads", "--core", "nowhere"]);
    assert!(said.contains("cannot read the core file nowhere"), "{said}");
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

/// What `chappe threads` asks something of. Does nothing as a test.
#[test]
fn threads_to_be_asked() {
    let Some(place) = std::env::var_os("CHAPPE_TEST_ASKED") else { return };
    let note = move |name: &str| {
        let at = std::path::Path::new(&place).join(name);
        move || std::fs::write(&at, "").unwrap()
    };
    let runtime = chappe::thread::Runtime::new(1).unwrap();
    let begin = |name: &str, body: Box<dyn FnOnce() + Send>| {
        drop(chappe::thread::Builder::new().name(name).spawn_on(&runtime, body).unwrap());
    };
    let signalled = note("signalled");
    chappe::thread::offer("note", note("noted"));
    chappe::thread::offer("stay", || {
        loop {
            chappe::thread::park();
        }
    });
    begin(
        "asked",
        Box::new(move || {
            chappe::thread::set_signal(5, signalled);
            stays_here();
        }),
    );
    begin(
        "waits",
        Box::new(|| {
            chappe::thread::wait(0b100);
        }),
    );
    begin(
        "worker",
        Box::new(|| {
            loop {
                chappe::thread::yield_now();
            }
        }),
    );
    // On a proc of its own: it leaves that to nobody.
    let other = chappe::thread::Runtime::new(1).unwrap();
    let hog = || {
        loop {
            std::hint::spin_loop();
        }
    };
    drop(chappe::thread::Builder::new().name("hog").spawn_on(&other, hog).unwrap());
    // And one that blocks its own.
    let third = chappe::thread::Runtime::new(1).unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let blocks = move || drop(std::io::Read::read(&mut &reader, &mut [0]));
    drop(chappe::thread::Builder::new().name("blocks").spawn_on(&third, blocks).unwrap());
    loop {
        std::thread::park();
    }
}

#[inline(never)]
fn stays_here() {
    loop {
        chappe::thread::park();
    }
}

/// The process, and the numbers of its threads once all are where they stay.
fn to_be_asked(here: &Place) -> (Running, String, impl Fn(&str) -> String) {
    let me = std::env::current_exe().unwrap();
    let args = ["--exact", "threads::threads_to_be_asked", "--nocapture"];
    let mut command = here.program(me.to_str().unwrap(), &args);
    let asked = Place::spawn(command.env("CHAPPE_TEST_ASKED", here.path()).stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = asked.pid().to_string();
    let seen = until("all have begun", || {
        let seen = look(here, &pid)?;
        let waiting = seen["threads"].as_array()?.iter().filter(|t| t["state"] == "waiting").count();
        (waiting == 2 && seen["threads"].as_array()?.len() == 5).then_some(seen)
    });
    let number = move |name: &str| {
        let all = seen["threads"].as_array().unwrap();
        all.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}: {seen}"))["number"].to_string()
    };
    (asked, pid, number)
}

fn look(here: &Place, pid: &str) -> Option<serde_json::Value> {
    let ran = here.run(&["--json", "threads", pid, "--sample", "0"]);
    serde_json::from_str(&ran.out).ok().filter(|_| ran.status == Some(0))
}

/// Waits until the thread of that number is in that state; `-`: until it is not there.
fn until_state(here: &Place, pid: &str, number: &str, state: &str) {
    let number: u64 = number.parse().unwrap();
    until(state, || {
        let seen = look(here, pid)?;
        let now = seen["threads"].as_array()?.iter().find(|t| t["number"] == number);
        let now = now.map_or("-", |t| t["state"].as_str().unwrap_or_default());
        (now == state || state == "goes on" && ["running", "ready"].contains(&now)).then_some(())
    });
}

#[test]
fn a_thread_of_another_process_does_what_it_is_asked() {
    let here = Place::new();
    let (asked, pid, number) = to_be_asked(&here);
    let ask = |what: &str, thread: &str| here.ok(&["threads", &pid, what, thread]);
    let worker = number("worker");
    for (how, state) in [("--suspend", "suspended"), ("--stop", "stopped")] {
        ask(how, &worker);
        until_state(&here, &pid, &worker, state);
        ask("--resume", &worker);
        until_state(&here, &pid, &worker, "goes on");
    }
    let target = number("asked");
    ask("--signal", &format!("{target}:5"));
    ask("--interrupt", &format!("{target}:note"));
    ask("--unpark", &target);
    until("both were run", || (here.file("signalled").exists() && here.file("noted").exists()).then_some(()));
    until_state(&here, &pid, &target, "waiting");
    // An event ends the one that waits for it, and so `--wait`.
    let waits = number("waits");
    let end = Place::spawn(here.command(&["threads", &pid, "--wait", &waits]).stdout(Stdio::null()));
    ask("--notify", &format!("{waits}:2"));
    until_state(&here, &pid, &waits, "waiting");
    until("it is waited for", || {
        // It has read the process's mappings by the time it sleeps.
        (crate::place::state(end.pid())? == 'S').then_some(())
    });
    ask("--notify", &format!("{waits}:0x4"));
    assert_eq!(end.status().code(), Some(0));
    let made = ask("--create", "stay");
    until_state(&here, &pid, made.trim(), "waiting");
    for thread in [made.trim(), &worker, &target] {
        ask("--destroy", thread);
        until_state(&here, &pid, thread, "-");
    }
    // What cannot be is told by its name.
    let fails = |what: &str, thread: &str| here.fails(1, &["threads", &pid, what, thread]);
    assert!(fails("--suspend", "99999").contains("it has no light thread 99999"));
    assert!(fails("--wait", "99999").contains("it has no light thread 99999"));
    assert!(fails("--create", "nothing").contains("it offers nothing by the name `nothing`"));
    let hog = number("hog");
    assert!(fails("--interrupt", &format!("{hog}:nothing")).contains("`nothing`"));
    assert!(fails("--signal", &format!("{hog}:32")).contains("signals are 0 to 31"));
    assert!(fails("--notify", &format!("{hog}:0x1000000")).contains("bits 0 to 23"));
    assert!(fails("--signal", "5").contains("as 3:1"));
    here.fails(2, &["threads", &pid, "--suspend", "1", "--stop", "1"]);
    drop(asked);
}

#[cfg(feature = "backtrace")]
#[test]
fn stacks_are_shown_by_symbols_and_who_computes_for_long_is_named() {
    let here = Place::new();
    let (asked, pid, _) = to_be_asked(&here);
    let late = here.run(&["threads", &pid, "--warn=5ms", "--sample", "30ms"]);
    assert!(late.status == Some(3) && late.out.contains("(hog) has computed for "), "{late:?}");
    assert!(late.out.contains("(blocks) has blocked its proc for ") && late.out.contains(" ms, in read: "), "{late:?}");
    assert_eq!(here.run(&["threads", &pid, "--warn=100s", "--sample", "10ms"]).status, Some(0));
    let text = here.ok(&["threads", &pid, "--top", "--count", "2", "--sample", "20ms"]);
    assert_eq!(text.matches("5 light threads\n  THREAD NAME").count(), 2, "{text}");
    // It may be stopped.
    asked.kill(libc::SIGSTOP);
    let text = here.ok(&["threads", &pid, "--backtrace", "--sample", "0"]);
    let stack = text.split("(asked) is ").nth(1).and_then(|text| text.split("\nthread ").next()).unwrap_or_default();
    assert!(stack.starts_with("waiting\n") && stack.contains("stays_here"), "{text}");
    assert!(stack.contains("chappe_thread_start"), "it ends where it began: {text}");
    let seen = here.json(&["threads", &pid, "--backtrace", "--sample", "0"]);
    let frames =
        |name: &str| seen["threads"].as_array().unwrap().iter().find(|t| t["name"] == name).unwrap()["frames"].clone();
    let of = |f: &serde_json::Value| f["function"].as_str().unwrap_or_default().to_owned();
    assert!(frames("asked").as_array().unwrap().iter().any(|f| of(f).ends_with("stays_here")), "{seen}");
    assert_eq!(frames("hog").as_array().map(Vec::len), Some(0));
    drop(asked);
}

#[test]
#[ignore = "storm: waits for seconds, and runs gdb where there is one"]
fn a_stopped_process_does_not_answer_and_gdb_shows_its_threads() {
    let here = Place::new();
    let (asked, pid, number) = to_be_asked(&here);
    asked.kill(libc::SIGSTOP);
    let said = here.fails(1, &["threads", &pid, "--suspend", &number("worker")]);
    assert!(said.contains("it does not answer: it may be stopped; nothing was done"), "{said}");
    asked.kill(libc::SIGCONT);
    until_state(&here, &pid, &number("worker"), "goes on");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gdb/chappe_threads.py");
    let thread = format!("chappe thread {}", number("asked"));
    let args = ["-nx", "-batch", "-p", &pid, "-x", script, "-ex", "chappe threads", "-ex", &thread, "-ex", "bt"];
    let Ok(gdb) = std::process::Command::new("gdb").args(args).output() else {
        return crate::place::not_tested("gdb's script: there is no gdb");
    };
    let said = String::from_utf8_lossy(&gdb.stdout);
    assert!(said.contains("asked            waiting") && said.contains("parked"), "{said}");
    assert!(said.contains("stays_here") && said.contains("chappe_thread_start"), "{said}");
    drop(asked);
}
