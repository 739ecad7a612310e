//! Tubes, as shell users have them: `chappe tube`, `chappe send`, `chappe recv`.

use crate::place::{Place, Ran, Running, feed, until};
use serde_json::json;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

/// `chappe send` that is fed by and by.
fn sender(here: &Place, args: &[&str]) -> Child {
    let mut command = here.command(&[&["send"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Sends this, and answers how it ended.
fn send(here: &Place, args: &[&str], input: &[u8]) -> (Option<i32>, String) {
    let mut child = sender(here, args);
    // It may end before it has read all.
    feed(&mut child, input);
    let ended = child.wait_with_output().expect("it ends");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

fn recv(here: &Place, args: &[&str]) -> Running {
    Place::spawn(&mut here.command(&[&["recv"], args].concat()))
}

fn ended(running: Running) -> Ran {
    let ran = running.end();
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    ran
}

#[test]
fn lines_go_from_one_shell_to_another() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "80", "--slots", "4"]);
    let receiver = recv(&here, &["t", "--lines"]);
    assert_eq!(send(&here, &["t", "--lines"], b"one\n\nthree\nlast").0, Some(0));
    assert_eq!(ended(receiver).out, "one\n\nthree\nlast\n");
    // And once more, after all have gone.
    let receiver = recv(&here, &["t", "-l", "--tag"]);
    assert_eq!(send(&here, &["t", "-l"], b"x\n").0, Some(0));
    assert_eq!(ended(receiver).out, "t\tx\n");
    here.ok(&["tube", "rm", "t"]);
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn a_stream_without_a_record_ends_as_others_do() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "80"]);
    here.ok(&["tube", "create", "b", "--size", "80", "--broadcast"]);
    let there = |name: &str, key: &str| {
        until(key, || {
            let there = &here.json(&["show", name])[key];
            (*there == 1 || there.as_array().is_some_and(|all| all.len() == 1)).then_some(())
        });
    };
    let waits = |name: &str, key: &str, args: &[&str]| {
        let receiver = recv(&here, &[&[name], args].concat());
        there(name, key);
        receiver
    };
    for _ in 0..2 {
        let receiver = waits("t", "receiving", &[]);
        assert_eq!(send(&here, &["t"], b"").0, Some(0));
        assert_eq!(ended(receiver).out, "");
        // Now it is a tube that has had senders: what comes next is waited for.
        let receiver = waits("t", "receiving", &["-l"]);
        assert_eq!(send(&here, &["t", "-l"], b"x\n").0, Some(0));
        assert_eq!(ended(receiver).out, "x\n");
    }
    let receiver = waits("b", "subscribers", &[]);
    assert_eq!(send(&here, &["b"], b"").0, Some(0));
    assert_eq!(ended(receiver).out, "");
    // A sender that was there before the receiver, and goes without a word.
    for (name, sends, receives) in [("t", "sending", "receiving"), ("b", "publishers", "subscribers")] {
        let mut sender = sender(&here, &[name]);
        there(name, sends);
        let receiver = waits(name, receives, &[]);
        drop(sender.stdin.take());
        assert!(sender.wait().unwrap().success());
        assert_eq!(ended(receiver).out, "");
    }
}

#[test]
fn a_stream_of_bytes_comes_out_as_it_went_in() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "1000", "--slots", "3"]);
    let bytes: Vec<u8> = (0..1_234_567u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let file = here.file("out");
    let mut command = here.command(&["recv", "t"]);
    command.stdout(std::fs::File::create(&file).expect("a file"));
    let receiver = Place::spawn(&mut command);
    let (status, why) = send(&here, &["t"], &bytes);
    assert_eq!(status, Some(0), "{why}");
    assert_eq!(receiver.end().status, Some(0));
    assert!(std::fs::read(&file).expect("the file") == bytes, "it is another");
}

#[test]
fn of_several_tubes_whichever_has_a_record_is_received() {
    let here = Place::new();
    for name in ["a", "b"] {
        here.ok(&["tube", "create", name, "--size", "10"]);
    }
    let receiver = recv(&here, &["a", "b", "--lines", "--tag", "--count", "3"]);
    let mut a = sender(&here, &["a", "--lines"]);
    for (name, line) in [("b", "1\n"), ("b", "2\n")] {
        assert_eq!(send(&here, &[name, "--lines"], line.as_bytes()).0, Some(0));
    }
    a.stdin.take().expect("a pipe").write_all(b"3\n").expect("it reads");
    assert!(a.wait().expect("it ends").success());
    let mut lines: Vec<String> = ended(receiver).out.lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a\t3", "b\t1", "b\t2"]);
}

#[test]
fn bad_input_to_a_tube_is_refused_and_nothing_is_lost() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "4", "--slots", "8"]);
    let receiver = recv(&here, &["t", "--lines", "--count", "2"]);
    let (status, why) = send(&here, &["t", "--records"], b"abcdefghij");
    assert_eq!(status, Some(1));
    assert!(why.contains("2 records, 8 bytes") && why.contains("2 bytes of 4 are left"), "{why}");
    assert_eq!(ended(receiver).out, "abcd\nefgh\n");
    let (status, why) = send(&here, &["t", "--lines"], b"too long\n");
    assert_eq!(status, Some(1));
    assert!(why.contains("line 1") && why.contains("--size"), "{why}");
    let why = here.fails(1, &["recv", "none"]);
    assert!(why.contains("there is no tube `none`") && why.contains("`chappe tube create none` makes one"), "{why}");
    assert!(here.fails(1, &["tube", "create", "t"]).contains("`t`"));
    assert!(here.fails(1, &["tube", "create", "u", "--slots", "0"]).contains("slots"));
    assert!(here.fails(1, &["tube", "create", "u", "--size", "5000000000"]).contains("5000000000"));
    let why = here.fails(124, &["recv", "t", "--timeout", "50ms"]);
    assert_eq!(why, "chappe: no record came in time from t\n");
    here.ok(&["tube", "seal", "t"]);
    assert!(send(&here, &["t"], b"x").1.contains("sealed"));
    assert_eq!(here.ok(&["recv", "t"]), "");
    here.ok(&["pool", "create", "p"]);
    assert!(here.fails(1, &["recv", "p"]).contains("pool"));
}

#[test]
fn a_second_end_of_a_single_one_is_told_who_has_it() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "8", "--kind", "spsc"]);
    let first = recv(&here, &["t"]);
    let receiving = || here.json(&["show", "t"])["receivers"].as_u64() == Some(1);
    until("it receives", || receiving().then_some(()));
    let why = here.fails(1, &["recv", "t"]);
    assert!(why.contains(&format!("pid {}", first.pid())) && why.contains("chappe recv t"), "{why}");
    first.kill(libc::SIGKILL);
    first.end();
    // Its death is its end.
    let second = recv(&here, &["t"]);
    assert_eq!(send(&here, &["t"], b"x").0, Some(0));
    assert_eq!(ended(second).out, "x");
}

#[test]
fn a_killed_sender_or_receiver_loses_and_doubles_nothing_unsaid() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16", "--slots", "4"]);
    let mut all = Vec::new();
    for round in 0..4u32 {
        let mut from = sender(&here, &["t", "--lines"]);
        let lines: Vec<String> = (0..50).map(|n| format!("{round}-{n}")).collect();
        let (last, most) = lines.split_last().expect("some");
        // All of it has room in the pipe.
        let mut pipe = from.stdin.take().expect("a pipe");
        pipe.write_all((most.join("\n") + "\n").as_bytes()).expect("it reads");
        // One that takes a few and is killed, then one that takes the rest.
        let short = recv(&here, &["t", "--lines", "--count", "20"]).end();
        let killed = recv(&here, &["t", "--lines", "--follow"]);
        std::thread::sleep(std::time::Duration::from_millis(u64::from(3 * round)));
        killed.kill(libc::SIGKILL);
        let killed = killed.end();
        let rest = recv(&here, &["t", "--lines"]);
        // One is left for it, or it would wait for the first. (The killed receiver may be counted for a while.)
        let receives = || {
            let shown = here.json(&["show", "t"]);
            shown["receiving"].as_array().expect("a list").iter().any(|one| one["pid"] == rest.pid())
        };
        until("it receives", || receives().then_some(()));
        writeln!(pipe, "{last}").expect("it reads");
        drop(pipe);
        let rest = rest.end();
        assert!(from.wait().expect("it ends").success());
        let got = short.out + &killed.out + &rest.out;
        let mut got: Vec<String> = got.lines().map(str::to_owned).collect();
        let said = u32::from(rest.err.contains("once more"));
        let before = got.len();
        got.sort();
        got.dedup();
        assert!((before - got.len()) as u32 <= said, "doubled, and not said: {}", rest.err);
        let mut lines = lines;
        lines.sort();
        assert_eq!(got, lines, "round {round}");
        all.extend(got);
    }
    assert_eq!(all.len(), 200);
}

/// A sender of three, before which no receiver has come; the first takes one and goes.
fn received_once(here: &Place, how: &[&str], input: &[u8]) -> Child {
    here.ok(&["tube", "create", "t", "--size", "2", "--slots", "1"]);
    let mut from = sender(here, &[&["t"], how].concat());
    until("it sends", || (here.json(&["show", "t"])["senders"] == 1).then_some(()));
    feed(&mut from, input);
    assert!(recv(here, &["t", "--lines", "--count", "1"]).end().out.starts_with("a\n"));
    from
}

#[test]
fn a_sender_of_records_waits_for_the_next_receiver() {
    let here = Place::new();
    let mut from = received_once(&here, &["--lines"], b"a\nb\nc\n");
    for line in ["b\n", "c\n"] {
        assert_eq!(recv(&here, &["t", "--lines", "--count", "1"]).end().out, line);
    }
    assert!(from.wait().expect("it ends").success());
}

#[test]
fn a_sender_of_a_stream_ends_with_its_last_receiver() {
    for (how, input) in [(&[][..], &b"a\nb\nc\n"[..]), (&["--lines", "--pipe"], b"a\nb\nc\n")] {
        let here = Place::new();
        let from = received_once(&here, how, input).wait_with_output().expect("it ends");
        let why = String::from_utf8_lossy(&from.stderr).into_owned();
        assert_eq!(from.status.code(), Some(1), "{why}");
        assert!(why.contains("has no receiver any more"), "{why}");
    }
}

#[test]
fn a_broken_streams_rest_is_told_by_its_sender_with_what_takes_it_out() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "2", "--slots", "4"]);
    let mut from = sender(&here, &["t"]);
    until("it sends", || (here.json(&["show", "t"])["senders"] == 1).then_some(()));
    let mut input = from.stdin.take().expect("a pipe");
    input.write_all(b"a\nb\nc\nd\n").expect("it reads");
    until("the tube is full", || (here.json(&["show", "t"])["messages"] == 4).then_some(()));
    assert_eq!(recv(&here, &["t", "--count", "1"]).end().out, "a\n");
    // More to send, and no receiver.
    input.write_all(b"e\n").expect("it reads");
    drop(input);
    let why = String::from_utf8_lossy(&from.wait_with_output().expect("it ends").stderr).into_owned();
    assert!(why.contains("; 3 of the records are still in the tube, before what is sent next: "), "{why}");
    let told = why.split("`chappe recv").nth(1).and_then(|told| told.split('`').next()).expect("what to do");
    let done = Place::spawn(&mut here.program("sh", &["-c", &format!("$CHAPPE recv{told}")])).end();
    // It is told that they are a part; the next receiver is not, whenever that comes.
    assert_eq!((done.status, here.json(&["show", "t"])["messages"].as_u64()), (Some(3), Some(0)), "{told}: {done:?}");
    let receiver = recv(&here, &["t"]);
    assert_eq!(send(&here, &["t"], b"next").0, Some(0));
    assert_eq!(ended(receiver).out, "next");
}

#[test]
fn a_sender_that_fails_before_its_first_record_leaves_no_word_of_it() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "4"]);
    assert_eq!(send(&here, &["t", "--lines"], b"too long\n").0, Some(1));
    let receiver = recv(&here, &["t", "--lines"]);
    assert_eq!(send(&here, &["t", "--lines"], b"good\n").0, Some(0));
    assert_eq!(ended(receiver).out, "good\n");
}

#[test]
fn a_record_that_could_not_be_written_is_received_by_the_next() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16", "--slots", "1"]);
    let mut from = sender(&here, &["t", "--lines"]);
    from.stdin.take().expect("a pipe").write_all(b"one\ntwo\nthree\nfour\n").expect("it reads");
    assert_eq!(recv(&here, &["t", "--lines", "--count", "1"]).end().out, "one\n");
    // Nobody reads: no process but its own has ever had the other end, as one that another test has just forked would.
    let mut command = here.command(&["recv", "t", "--lines", "--timeout", "30s"]);
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let mut ends = [-1; 2];
            let done = libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) == 0 && libc::dup2(ends[1], 1) == 1;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    let ran = command.stdout(Stdio::null()).output().expect("it starts");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let ran = recv(&here, &["t", "--lines", "--count", "1"]).end();
    assert_eq!(ran.out, "two\n");
    assert!(ran.err.contains("once more"), "{}", ran.err);
    // There is no room.
    let mut command = here.command(&["recv", "t", "--lines", "--timeout", "30s"]);
    command.stdout(std::fs::File::create("/dev/full").expect("the device")).stderr(Stdio::piped());
    let ran = command.spawn().expect("it starts").wait_with_output().expect("it ends");
    let why = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && why.contains("cannot write to stdout: No space left"), "{why}");
    // Nor a stdout at all.
    let mut command = here.command(&["recv", "t", "--lines", "--timeout", "30s"]);
    // SAFETY: `close` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::close(1);
            Ok(())
        });
    }
    let ran = command.stderr(Stdio::piped()).spawn().expect("it starts").wait_with_output().expect("it ends");
    let why = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && why.contains("cannot write to stdout: it is closed"), "{why}");
    assert_eq!(ended(recv(&here, &["t", "--lines"])).out, "three\nfour\n");
    assert!(from.wait().expect("it ends").success());
}

#[test]
fn a_tubes_contents_and_users_are_shown() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "1K", "--slots", "2", "--kind", "mpsc", "--drops"]);
    assert_eq!(
        here.ok(&["show", "t"]),
        "t: tube, mpsc, 0 of 2 messages of 1024 bytes, 0 sending, 0 receiving, 0 waiting\n  \
         since it was made: 0 sent, 0 received; what a dead receiver had is dropped\n"
    );
    // Two are in it, and the sender waits for room for the third.
    let mut from = sender(&here, &["t", "--lines"]);
    let mut pipe = from.stdin.take().expect("a pipe");
    pipe.write_all(b"1\n2\n3\n").expect("it reads");
    let waits = || here.json(&["show", "t"])["waiters_for_room"][0]["pid"].as_u64() == Some(from.id().into());
    until("it waits for room", || waits().then_some(()));
    // Anew: what is shown was counted before the waiters were seen.
    let shown = here.json(&["show", "t"]);
    for (what, is) in [("messages", 2), ("slots", 2), ("size", 1024), ("sent", 2), ("received", 0), ("senders", 1)] {
        assert_eq!(shown[what], is, "{what} in {shown}");
    }
    assert_eq!((&shown["ends"], &shown["drops"], &shown["sealed"]), (&"mpsc".into(), &true.into(), &false.into()));
    assert_eq!(shown["sending"][0]["pid"], from.id());
    assert!(shown["waiters"].as_array().is_some_and(Vec::is_empty) && shown["rates"].is_null(), "{shown}");
    let text = here.ok(&["show", "t"]);
    let line = |does: &str| text.lines().any(|l| l.starts_with(&format!("  {does}: pid {} `", from.id())));
    assert!(text.contains(", 1 waiting\n  since it was made: 2 sent, 0 received"), "{text}");
    assert!(line("sends") && line("1. in line for room"), "{text}");
    // Now somebody takes all, and waits for a message.
    let receiver = recv(&here, &["t", "--lines", "--follow"]);
    until("it has received all", || {
        let shown = here.json(&["show", "t"]);
        (shown["received"] == 3 && shown["waiters"][0]["pid"] == receiver.pid()).then_some(())
    });
    let shown = here.json(&["show", "t"]);
    assert_eq!((&shown["sent"], &shown["messages"], &shown["waiters_for_room"]), (&3.into(), &0.into(), &json!([])));
    assert_eq!(shown["receiving"][0]["pid"], receiver.pid());
    let text = here.ok(&["show", "t"]);
    assert!(text.contains(&format!("  1. in line for a message: pid {} `", receiver.pid())), "{text}");
    drop(pipe);
    assert!(from.wait().expect("it ends").success());
    here.ok(&["tube", "seal", "t"]);
    assert!(here.ok(&["show", "t"]).contains(" receiving, sealed, "));
    assert_eq!(here.json(&["ls"])[0]["sealed"], true);
}

#[test]
#[ignore = "storm: a measurement for seconds"]
fn how_fast_messages_go_is_measured_for_as_long_as_is_said() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16"]);
    let shown = here.ok(&["show", "t", "--interval", "50ms"]);
    assert!(shown.contains("\n  a second: 0 sent, 0 received, over "), "{shown}");
    let mut from = sender(&here, &["t", "--lines"]);
    let mut pipe = from.stdin.take().expect("a pipe");
    // What it says is more than a pipe holds that is read in the end.
    let receiver = Place::spawn(here.command(&["recv", "t", "--lines"]).stdout(Stdio::null()));
    let feed = std::thread::spawn(move || while pipe.write_all(&b"line\n".repeat(100)).is_ok() {});
    let rates = until("messages go through", || {
        let rates = here.json(&["show", "t", "--interval", "200ms"])["rates"].take();
        // Not always both: what was sent before is received while the sender is held up.
        let both = rates["received_per_s"].as_f64() > Some(0.0) && rates["sent_per_s"].as_f64() > Some(0.0);
        both.then_some(rates)
    });
    assert!(rates["interval_ms"].as_u64() >= Some(200), "{rates}");
    from.kill().expect("it is ours");
    from.wait().expect("it ends");
    feed.join().expect("it ends with its reader");
    assert_eq!(receiver.end().status, Some(0));
    here.ok(&["pool", "create", "p"]);
    assert!(here.fails(1, &["show", "p", "--interval", "1s"]).contains("`p` is a pool: only a tube"));
    assert!(here.fails(1, &["show", "t", "--interval", "0"]).contains("measures nothing"));
    assert!(here.fails(2, &["show", "t", "--interval", "soon"]).contains("write 500ms"));
}

#[test]
fn sizes_have_units() {
    let here = Place::new();
    for (n, (size, bytes)) in [("64", 64), ("4K", 4096), ("2KiB", 2048), ("1m", 1 << 20)].iter().enumerate() {
        let made = here.json(&["tube", "create", &format!("a{n}/t"), "--slots", "2", "--size", size]);
        assert_eq!(made["size"], *bytes, "{size}");
    }
    assert_eq!(here.json(&["tube", "create", "t"])["size"], 65536);
    assert_eq!(here.json(&["arena", "create", "b", "--data", "3M"])["data"], 3 << 20);
    for what in [["tube", "create", "u", "--size"], ["arena", "create", "c", "--data"]] {
        for size in ["64KB", "1.5M", "K"] {
            let why = here.fails(2, &[&what[..], &[size]].concat());
            assert!(why.contains(&format!("`{size}` is not a number of bytes: write 65536, 64K")), "{why}");
        }
        assert!(here.fails(2, &[&what[..], &["99999999999G"]].concat()).contains("too many bytes"));
    }
    assert!(here.fails(1, &["tube", "create", "u", "--size", "5G"]).contains("5368709120"));
}

#[test]
fn a_hundred_tubes_fit_the_arena_that_a_pool_has_made() {
    use std::os::unix::fs::MetadataExt;
    let here = Place::new();
    here.ok(&["pool", "create", "gpu0"]);
    let taken = || std::fs::metadata(here.arenas().join("default")).expect("it is there").blocks() * 512;
    let before = taken();
    assert!(before < 4 << 20, "{before} bytes are taken for nothing");
    here.ok(&["tube", "create", "jobs"]);
    here.ok(&["tube", "create", "urgent"]);
    let two = taken() - before;
    assert!((2 << 20..3 << 20).contains(&two), "{two} bytes for two tubes of 1 MiB");
    let names: Vec<String> = (2..100).map(|n| format!("t{n}")).collect();
    here.ok(&[&["tube", "create"], names.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat());
    assert_eq!(here.ok(&["ls"]).lines().count(), 102);
}

/// Numbers, a line each.
fn numbers(range: std::ops::RangeInclusive<u32>) -> String {
    range.map(|n| format!("{n}\n")).collect()
}

fn messages(here: &Place) -> u64 {
    here.json(&["show", "t"])["messages"].as_u64().expect("a number")
}

fn received(here: &Place) -> u64 {
    here.json(&["show", "t"])["received"].as_u64().expect("a number")
}

/// A receiver whose first record has no room in the pipe to which it writes; and where that pipe ends.
fn stuck(here: &Place, args: &[&str]) -> (Running, std::io::PipeReader) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // SAFETY: it changes what is ours.
    let room = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    writer.write_all(&vec![b'.'; room as usize]).expect("room");
    let mut command = here.command(&[&["recv", "t"], args].concat());
    command.stdout(writer).stderr(Stdio::null());
    (Running::from(command.spawn().expect("it starts")), reader)
}

#[test]
fn a_killed_receivers_record_comes_before_all_later_ones() {
    let cases: [(&str, &[&str]); 5] =
        [("mpmc", &["-l"]), ("mpmc", &["--records"]), ("spsc", &["-l"]), ("mpsc", &[]), ("mpmc", &[])];
    for (kind, args) in cases {
        let here = Place::new();
        here.ok(&["tube", "create", "t", "--size", "16", "--kind", kind]);
        assert_eq!(send(&here, &["t", "-l"], numbers(1..=16).as_bytes()).0, Some(0));
        let (killed, pipe) = stuck(&here, args);
        until("it has the first", || (messages(&here) == 15).then_some(()));
        killed.kill(libc::SIGKILL);
        killed.end();
        drop(pipe);
        let rest = ended(recv(&here, &[&["t"], args].concat()));
        let expected = numbers(1..=16);
        assert_eq!(rest.out, if args == ["-l"] { expected } else { expected.replace('\n', "") }, "{kind} {args:?}");
        assert!(rest.err.contains("1 record came once more"), "{}", rest.err);
    }
}

#[test]
fn an_unread_record_comes_first_however_often() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16"]);
    assert_eq!(send(&here, &["t", "-l"], numbers(1..=16).as_bytes()).0, Some(0));
    for _ in 0..3 {
        let (unread, pipe) = stuck(&here, &["-l"]);
        until("it has the first", || (messages(&here) == 15).then_some(()));
        drop(pipe);
        assert_eq!(unread.end().status, Some(0));
        assert_eq!(messages(&here), 16);
    }
    assert_eq!(ended(recv(&here, &["t", "-l"])).out, numbers(1..=16));
}

#[test]
fn a_stream_that_another_shares_ends_with_an_error_that_names_the_gap() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "1"]);
    let mut from = sender(&here, &["t"]);
    let mut pipe = from.stdin.take().expect("a pipe");
    let stream = recv(&here, &["t"]);
    until("it receives", || (here.json(&["show", "t"])["receivers"].as_u64() == Some(1)).then_some(()));
    pipe.write_all(b"a").expect("it reads");
    until("the first has come", || (received(&here) == 1).then_some(()));
    stream.kill(libc::SIGSTOP);
    pipe.write_all(b"b").expect("it reads");
    assert_eq!(here.ok(&["recv", "t", "--count", "1"]), "b");
    stream.kill(libc::SIGCONT);
    pipe.write_all(b"c").expect("it reads");
    let ran = stream.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(1), "a"), "{}", ran.err);
    assert!(ran.err.contains("gap: behind 1 record, 1 bytes, records 1 to 1"), "{}", ran.err);
    // What it did not write is for the next.
    assert_eq!(here.ok(&["recv", "t", "--count", "1"]), "c");
    drop(pipe);
    assert!(from.wait().expect("it ends").success());
}

#[test]
fn a_sender_that_dies_is_no_end() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16"]);
    for (args, come) in [(&["t", "--lines"][..], 1), (&["t", "--lines", "--json"], 3)] {
        let mut from = sender(&here, &["t", "--lines"]);
        let mut pipe = from.stdin.take().expect("a pipe");
        let receiver = recv(&here, args);
        pipe.write_all(b"one\n").expect("it reads");
        until("it has come", || (received(&here) == come).then_some(()));
        from.kill().expect("it runs");
        from.wait().expect("it ends");
        drop(pipe);
        let ran = receiver.end();
        assert_eq!((ran.status, ran.out.as_str()), (Some(3), "one\n"), "{}", ran.err);
        assert_eq!(ran.err.contains("\"sender_died\":true"), args.contains(&"--json"), "{}", ran.err);
        assert!(ran.err.contains("a sender of `t` died"), "{}", ran.err);
        // That was told; a sender that ends well ends as ever.
        let receiver = recv(&here, &["t", "--lines"]);
        assert_eq!(send(&here, &["t", "--lines"], b"two\n").0, Some(0));
        assert_eq!(ended(receiver).out, "two\n");
    }
    // One that stops with an error is no end either.
    let receiver = recv(&here, &["t"]);
    assert_eq!(send(&here, &["t", "--records"], &[b'x'; 17]).0, Some(1));
    let ran = receiver.end();
    assert_eq!((ran.status, ran.out.len()), (Some(3), 16), "{}", ran.err);
}

#[test]
fn a_stream_whose_sender_is_killed_ends_with_a_status_of_its_own() {
    for (more, ends) in [(&[][..], "receivers"), (&["--broadcast"], "subscribers")] {
        let here = Place::new();
        here.ok(&[&["tube", "create", "t", "--size", "100", "--slots", "64"], more].concat());
        // To a file: nobody need read it meanwhile.
        let out = here.file("out");
        let mut command = here.command(&["recv", "t", "--json"]);
        command.stdout(std::fs::File::create(&out).expect("a file")).stderr(Stdio::piped());
        let receiver = Running::from(command.spawn().expect("it starts"));
        until("a receiver", || (here.json(&["show", "t"])[ends] == 1).then_some(()));
        // A stream that has not ended: its pipe stays open until the sender is dead. All of it has room in the pipe, and in the tube.
        let mut from = sender(&here, &["t"]);
        let mut pipe = from.stdin.take().expect("a pipe");
        pipe.write_all(&[b'x'; 2_000]).expect("it reads");
        until("all has come", || (std::fs::metadata(&out).expect("a file").len() == 2_000).then_some(()));
        from.kill().expect("it runs");
        from.wait().expect("it ends");
        drop(pipe);
        let ran = receiver.end();
        assert_eq!(ran.status, Some(3), "{more:?}: {}", ran.err);
        assert!(ran.err.contains("\"sender_died\":true"), "{more:?}: {}", ran.err);
        assert!(ran.err.contains("a sender of `t` died"), "{more:?}: {}", ran.err);
        // That was told; a sender that ends well ends as ever.
        let receiver = recv(&here, &["t", "--lines"]);
        until("another receiver", || (here.json(&["show", "t"])[ends] == 1).then_some(()));
        assert_eq!(send(&here, &["t", "--lines"], b"two\n").0, Some(0));
        assert_eq!(ended(receiver).out, "two\n");
    }
}

#[test]
fn a_sender_waits_for_room_no_longer_than_its_timeout() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16", "--slots", "2"]);
    // No receiver has come yet: what has room goes in, and its sender ends.
    assert_eq!(send(&here, &["t", "--lines"], b"one\ntwo\n"), (Some(0), String::new()));
    let (status, why) = send(&here, &["t", "--lines", "--timeout", "50ms"], b"three\n");
    assert_eq!(status, Some(124), "{why}");
    assert!(why.contains("after 0 records, 0 bytes were sent to `t`: timed out waiting for room"), "{why}");
    assert_eq!(here.ok(&["recv", "t", "-l", "--count", "2"]), "one\ntwo\n");
    // Each record has the time anew, and what went in stays.
    let (status, why) = send(&here, &["t", "--lines", "--timeout", "50ms"], b"1\n2\n3\n");
    assert!(status == Some(124) && why.contains("after 2 records"), "{status:?}: {why}");
    assert_eq!(here.ok(&["recv", "t", "-l", "--count", "2"]), "1\n2\n");

    here.ok(&["tube", "create", "all", "--broadcast", "--size", "16"]);
    let (status, why) = send(&here, &["all", "--lines", "--timeout", "50ms"], b"one\n");
    assert!(status == Some(124) && why.contains("no receiver has come"), "{status:?}: {why}");
    assert_eq!(send(&here, &["all", "--lines", "--follow"], b"one\n"), (Some(0), String::new()));
}

#[test]
fn a_receiver_after_a_senders_death_is_told_if_records_are_left() {
    let here = Place::new();
    here.ok(&["tube", "create", "t", "--size", "16"]);
    let mut from = sender(&here, &["t", "--lines"]);
    from.stdin.as_ref().expect("a pipe").write_all(b"three\nfour\n").expect("it reads");
    until("both are there", || (messages(&here) == 2).then_some(()));
    from.kill().expect("it runs");
    from.wait().expect("it ends");
    assert_eq!(here.ok(&["recv", "t", "-l", "--count", "1"]), "three\n");
    let ran = recv(&here, &["t", "-l"]).end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(3), "four\n"), "{}", ran.err);
}
