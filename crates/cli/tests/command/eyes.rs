//! `chappe top`, `chappe metrics`, `chappe watch`.

use crate::place::{Place, Running, until};
#[cfg(not(feature = "top"))]
use crate::terminal::Screen;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A pool of two: one permit is held, the other set aside for a process that waits for both; a semaphore; a tube.
pub fn scene(here: &Place) -> (Running, Running) {
    here.ok(&["pool", "create", "gpu", "--permits", "2"]);
    here.ok(&["sem", "create", "ready", "--value", "3"]);
    here.ok(&["tube", "create", "jobs", "--size", "64"]);
    let holder = Place::spawn(&mut here.command(&["acquire", "gpu", "--", "sleep", "1000"]));
    until("the permit is held", || (here.free("gpu") == 1).then_some(()));
    let waiter = Place::spawn(&mut here.command(&["acquire", "-n", "2", "gpu", "--", "true"]));
    until("one waits", || (here.json(&["show", "gpu"])["waiting"] == 1).then_some(()));
    (holder, waiter)
}

pub fn object<'a>(seen: &'a Value, name: &str) -> &'a Value {
    seen["objects"].as_array().unwrap().iter().find(|o| o["name"] == name).unwrap_or_else(|| panic!("{name}: {seen}"))
}

#[test]
fn top_says_once_what_is_held_and_who_waits() {
    let here = Place::new();
    let (holder, waiter) = scene(&here);
    let seen = here.json(&["top", "--once", "--interval", "100ms"]);
    let gpu = object(&seen, "gpu");
    assert_eq!(
        (&gpu["permits"], &gpu["held"], &gpu["free"], &gpu["waiting"]),
        (&2.into(), &2.into(), &0.into(), &1.into())
    );
    assert_eq!(object(&seen, "ready")["value"], 3);
    assert_eq!(object(&seen, "jobs")["messages"], 0);
    assert_eq!(object(&seen, "jobs")["sent_per_second"], 0);
    let process = &seen["processes"][0];
    assert_eq!((process["pid"].as_u64(), &process["wants"]), (Some(waiter.pid().into()), &"gpu".into()));
    assert_eq!(seen["arenas"][0]["name"], "default");

    let text = here.ok(&["top", "--once", "--interval", "100ms"]);
    // By the number that wait: gpu comes first.
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[1].starts_with("gpu"), "{text}");
    assert!(text.contains(&format!("pid {} ", waiter.pid())) && text.contains("2 permits, 0 free, 2 held"), "{text}");
    drop(holder);
}

#[test]
fn top_without_a_terminal_says_what_to_do() {
    let here = Place::new();
    let ran = here.run(&["top"]);
    assert!(ran.status == Some(1) && ran.err.contains("top --once"), "{ran:?}");
    let ran = here.run(&["top", "nowhere", "--once"]);
    assert!(ran.status == Some(1) && ran.err.contains("nowhere"), "{ran:?}");
}

#[cfg(not(feature = "top"))]
#[test]
fn a_command_without_the_screen_says_what_builds_it_in_and_what_there_is() {
    let here = Place::new();
    let mut screen = Screen::sized(&here, "TERM=xterm $CHAPPE top; echo status $?", 24, 200);
    for said in ["(feature `top`)", "--features full", "top --once", "status 1"] {
        screen.expect(said);
    }
    screen.end();
}

#[test]
fn an_arena_that_is_damaged_keeps_nobody_from_seeing_the_others() {
    let here = Place::new();
    here.ok(&["pool", "create", "good/p"]);
    std::fs::write(here.arenas().join("bad"), "no arena").unwrap();
    let ran = here.run(&["top", "--once", "--json", "--interval", "50ms"]);
    let seen: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.status, &seen["refused"][0]["arena"]), (Some(1), &"bad".into()));
    assert_eq!(object(&seen, "good/p")["free"], 1);
    let text = here.ok(&["metrics"]);
    assert!(
        text.contains("chappe_arena_up{arena=\"bad\"} 0") && text.contains("chappe_arena_up{arena=\"good\"} 1"),
        "{text}"
    );
}

#[test]
fn top_knows_broadcast_tubes_and_maps() {
    let here = Place::new();
    here.ok(&["tube", "create", "news", "--size", "64", "--broadcast"]);
    here.ok(&["map", "create", "ages", "-m", "2"]);
    let seen = here.json(&["top", "--once", "--interval", "50ms"]);
    let news = object(&seen, "news");
    let figures =
        ["messages", "subscribers", "publishers", "lost", "sent_per_second"].map(|figure| news[figure].clone());
    assert_eq!(figures, [0, 0, 0, 0, 0].map(Value::from), "{news}");
    let ages = object(&seen, "ages");
    assert!(ages["entries"] == 0 && ages["room"].as_u64() > Some(0), "{ages}");
    // Every figure of theirs has a place in Prometheus' text.
    let text = here.ok(&["metrics"]);
    let all = samples(&text);
    let named = |start: &str| all.iter().any(|s| s.0.starts_with(start));
    assert!(named("chappe_map_entries{") && named("chappe_broadcast_tube_subscribers{"), "{text}");
}

/// How often it stands there, by the C library's search: the program is large.
fn count(mut bytes: &[u8], what: &[u8]) -> usize {
    let mut count = 0;
    loop {
        // SAFETY: both are that long.
        let at = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), what.as_ptr().cast(), what.len()) };
        if at.is_null() {
            return count;
        }
        count += 1;
        bytes = &bytes[at as usize - bytes.as_ptr() as usize + what.len()..];
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn the_program_has_its_probes() {
    let bytes = std::fs::read(env!("CARGO_BIN_EXE_chappe")).unwrap();
    for probe in ["wait", "grant", "wake", "death", "redelivery"] {
        let name = format!("chappe\0{probe}\x008@");
        assert!(count(&bytes, b"stapsdt\0") >= 5 && count(&bytes, name.as_bytes()) == 1, "{probe}");
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn top_shows_who_has_light_threads() {
    let here = Place::new();
    // This program is its own example: the harness's thread stays, and its light threads are parked.
    let runtime = chappe::thread::Runtime::new(1).unwrap();
    let stays: Vec<_> = (0..7).map(|_| runtime.spawn(chappe::thread::park)).collect();
    let me = u64::from(std::process::id());
    until("seven wait", || {
        let seen = here.json(&["top", "--once", "--view", "light", "--interval", "50ms"]);
        let of = seen["light"].as_array().unwrap().iter().find(|l| l["pid"] == me)?.clone();
        (of["waiting"].as_u64() >= Some(7)).then_some(())
    });
    let text = here.ok(&["top", "--once", "--view", "light", "--interval", "50ms"]);
    assert!(text.lines().any(|l| l.trim_start().starts_with(&me.to_string())), "{text}");
    for stay in stays {
        stay.thread().unpark();
        stay.join().unwrap();
    }
}

/// Reads a text as the exposition format has it: each sample's metric has a HELP and a TYPE before it, and stands in one piece.
fn samples(text: &str) -> Vec<(String, f64)> {
    let (mut all, mut current, mut done) = (Vec::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            done.push(std::mem::take(&mut current));
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(current.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{current} is no metric's name");
            assert!(!done.contains(&current), "{current} stands twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, sort) = rest.split_once(' ').unwrap();
            assert!(name == current && (sort == "gauge" || sort == "counter"), "{line}");
            assert_eq!(name.ends_with("_total"), sort == "counter", "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next().unwrap(), current, "{line}");
            all.push((series.to_owned(), value.parse().unwrap()));
        }
    }
    all
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let here = Place::new();
    let (holder, waiter) = scene(&here);
    // A kind whose name has a character that no metric's has.
    here.ok(&["lock", "exclusive", "--", "true"]);
    let file = here.file("chappe.prom");
    here.ok(&["metrics", "--output", file.to_str().unwrap()]);
    for text in [here.ok(&["metrics"]), std::fs::read_to_string(&file).unwrap()] {
        let all = samples(&text);
        let value = |series: &str| all.iter().find(|s| s.0 == series).unwrap_or_else(|| panic!("{series}: {text}")).1;
        assert_eq!(value("chappe_pool_held{arena=\"default\",name=\"gpu\"}"), 2.0);
        assert_eq!(value("chappe_pool_waiting{arena=\"default\",name=\"gpu\"}"), 1.0);
        assert!(value("chappe_pool_longest_wait_seconds{arena=\"default\",name=\"gpu\"}") >= 0.0);
        assert_eq!(value("chappe_semaphore_value{arena=\"default\",name=\"ready\"}"), 3.0);
        assert_eq!(value("chappe_tube_sent_total{arena=\"default\",name=\"jobs\"}"), 0.0);
        assert_eq!(value("chappe_readers_writer_lock_waiting{arena=\"default\",name=\"exclusive\"}"), 0.0);
    }
    // Nothing is left beside it.
    let beside = std::fs::read_dir(file.parent().unwrap()).unwrap();
    assert!(!beside.map(|e| e.unwrap().file_name().into_string().unwrap()).any(|n| n.starts_with(".chappe.prom")));
    let ran = here.run(&["metrics", "--output", "/nowhere/at/all.prom"]);
    assert!(ran.status == Some(1) && ran.err.contains("/nowhere/at/all.prom"), "{ran:?}");
    drop((holder, waiter));
}

#[test]
fn metrics_are_written_to_what_stands_where_the_file_should() {
    let here = Place::new();
    let (file, link) = (here.file("real.prom"), here.file("link.prom"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    here.ok(&["metrics", "--output", link.to_str().unwrap()]);
    assert!(link.is_symlink() && std::fs::read_to_string(&file).unwrap().contains("chappe_arena_up"));
    // As root, a rename would take the device away from the whole machine: nothing can be renamed beside this one.
    let ran = here.run(&["metrics", "--output", "/proc/self/fd/1"]);
    assert!(ran.status == Some(0) && ran.out.contains("chappe_arena_up"), "{ran:?}");
    let ran = here.run(&["metrics", "--output", "/proc/self"]);
    assert!(ran.status == Some(1) && ran.err.contains("cannot write"), "{ran:?}");
}

/// The head and body of an answer.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn metrics_answers_scrapes() {
    let here = Place::new();
    here.ok(&["pool", "create", "gpu"]);
    let mut child = here.command(&["metrics", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
    let address = first.trim().split("http://").nth(1).unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let (head, body) = ask(&address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
    assert!(samples(&body).iter().any(|s| s.0.contains("gpu")), "{body}");
    assert!(ask(&address, "GET /else HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 404"));
    assert!(ask(&address, "POST /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 405"));
    // One that says nothing and goes away harms nobody.
    drop(TcpStream::connect(&address).unwrap());
    assert!(ask(&address, "GET /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 200"));
    // Several that say nothing hold up no other: each has 5 s.
    let (silent, begun) = ([(); 20].map(|()| TcpStream::connect(&address).unwrap()), Instant::now());
    assert!(ask(&address, "GET /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() < Duration::from_secs(50), "it waited for each of {} clients", silent.len());
    // A port in use is said.
    let ran = here.run(&["metrics", "--listen", &address]);
    assert!(ran.status == Some(1) && ran.err.contains(&address) && ran.err.contains("another port"), "{ran:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn watch_runs_a_command_when_it_holds() {
    let here = Place::new();
    here.ok(&["sem", "create", "ready"]);
    let args = [
        "watch",
        "--once",
        "--interval",
        "20ms",
        "ready.value >= 2",
        "--",
        "sh",
        "-c",
        "echo \"$CHAPPE_WATCH\"; exit 7",
    ];
    let watch = Place::spawn(&mut here.command(&args));
    here.ok(&["sem", "up", "ready", "-n", "2"]);
    let ran = watch.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(7), "ready.value >= 2\n"), "{ran:?}");
    let ran = here.run(&["watch", "--once", "--interval", "10ms", "ready.value > 0 for 50ms", "--", "true"]);
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn a_signal_to_watch_is_its_commands_and_ends_watch_behind_it() {
    for (once, signal) in [(false, libc::SIGTERM), (true, libc::SIGHUP)] {
        let here = Place::new();
        here.ok(&["sem", "create", "ready"]);
        let script =
            "trap 'echo got > got; exit 7' TERM HUP; (echo $$ > up; while [ -e up ]; do sleep 0.02; done) & wait $!";
        let options: &[&str] = if once { &["--once", "ready.value == 0"] } else { &["ready.value == 0"] };
        let watch = here.job_of("watch", options, script);
        here.read("up");
        watch.kill(signal);
        let ran = watch.end();
        // With --once the command decides.
        let wanted = if once { (Some(7), None) } else { (None, Some(signal)) };
        assert_eq!(((ran.status, ran.signal), here.read_now("got").as_str()), (wanted, "got\n"), "{ran:?}");
    }
}

#[test]
fn a_signal_between_two_runs_of_watchs_command_ends_watch() {
    let here = Place::new();
    here.ok(&["sem", "create", "ready"]);
    let watch = here.job_of("watch", &["--interval", "1h", "ready.value == 0"], "echo $PPID > ran");
    here.read("ran");
    // It may run still, or have ended.
    watch.kill(libc::SIGTERM);
    assert_eq!(watch.end().signal, Some(libc::SIGTERM));
}

#[test]
fn watch_says_what_is_wrong() {
    let here = Place::new();
    here.ok(&["sem", "create", "ready"]);
    let status = |args: &[&str]| {
        let ran = here.run(args);
        (ran.status, ran.err)
    };
    let (s, err) = status(&["watch", "ready.speed > 1", "--", "true"]);
    assert!(s == Some(125) && err.contains("figures are waiting"), "{err}");
    let (s, err) =
        status(&["watch", "--once", "--timeout", "50ms", "--interval", "10ms", "ready.value > 1", "--", "true"]);
    assert!(s == Some(124) && err.contains("ready.value > 1"), "{err}");
    let (s, err) =
        status(&["watch", "--once", "--timeout", "50ms", "--interval", "10ms", "no/thing.value > 1", "--", "true"]);
    assert!(s == Some(124) && err.matches("arena").count() >= 1, "{err}");
    // What can make it true is not there.
    let (s, err) =
        status(&["watch", "--once", "--timeout", "50ms", "ready.free > 1 or nothing.free > 1", "--", "true"]);
    assert_eq!(err.matches("`ready` has no figure `free`").count(), 1, "{err}");
    assert_eq!(err.matches("there is no object `nothing` now").count(), 1, "{err}");
    assert_eq!(s, Some(124), "{err}");
    // It does not wait for the next look.
    let (s, err) =
        status(&["watch", "--once", "--timeout", "50ms", "--interval", "1h", "ready.value > 1", "--", "true"]);
    assert!(s == Some(124) && err.contains("did not become true within 50ms"), "{err}");
    let (s, err) = status(&["watch", "--once", "ready.value == 0", "--", "/no/such/command"]);
    assert!(s == Some(127) && err.contains("/no/such/command"), "{err}");
}

#[test]
fn top_in_a_browser_answers_with_its_token_and_from_here_alone() {
    let here = Place::new();
    let (holder, waiter) = scene(&here);
    let mut child = here.command(&["top", "--web"]).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
    let (address, token) = first.trim().split("http://").nth(1).unwrap().split_once("/?token=").unwrap();
    let get = |path: &str, host: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let ok = |path: &str| {
        let (head, body) = get(&format!("{path}token={token}"), address);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body
    };
    assert!(ok("/?").contains("<title>chappe top</title>"));
    let seen: Value = serde_json::from_str(&ok("/snapshot?")).unwrap();
    assert_eq!(object(&seen, "gpu")["waiting"], 1);
    let gpu: Value = serde_json::from_str(&ok("/object?name=gpu&")).unwrap();
    assert_eq!(gpu["holders"][0]["pid"].as_u64(), Some(holder.pid().into()));
    // Without the token, with another one, from a page of another host: nothing.
    let other = token.replace(|c: char| c != '0', "0");
    for (path, host) in [
        ("/snapshot", address),
        (&format!("/snapshot?token={other}"), address),
        (&format!("/?token={token}"), "evil.example"),
    ] {
        assert!(get(path, host).0.starts_with("HTTP/1.1 403"), "{path} {host}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let ran = here.run(&["top", &format!("--web={taken}")]);
    assert!(ran.status == Some(1) && ran.err.contains(&taken) && ran.err.contains("another port"), "{ran:?}");
    let ran = here.run(&["top", "--web", &taken]);
    assert!(ran.status == Some(1) && ran.err.contains(&format!("--web={taken}")), "{ran:?}");
    let ran = here.run(&["top", "--web", "nosuch"]);
    assert!(ran.status == Some(1) && ran.err.contains("no arena `nosuch`"), "{ran:?}");
    let ran = here.run(&["top", "--web=0.0.0.0:0"]);
    assert!(ran.status == Some(1) && ran.err.contains("other machines"), "{ran:?}");
    drop((holder, waiter));
}
