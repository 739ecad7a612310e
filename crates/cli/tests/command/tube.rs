//! Tubes, as shell users have them: `chappe tube`, `chappe send`, `chappe recv`.

use crate::place::{Place, Ran, Running, until};
use std::io::Write;
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
    let _ = child.stdin.take().expect("a pipe").write_all(input);
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
fn what_makes_no_sense_is_refused_and_nothing_is_lost() {
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
        let mut from = sender(&here, &["t", "--lines", "--follow"]);
        let lines: Vec<String> = (0..50).map(|n| format!("{round}-{n}")).collect();
        let text = lines.join("\n") + "\n";
        let mut pipe = from.stdin.take().expect("a pipe");
        let feed = std::thread::spawn(move || pipe.write_all(text.as_bytes()).is_ok());
        // One that takes a few and is killed, then one that takes the rest.
        let short = recv(&here, &["t", "--lines", "--count", "20"]).end();
        let killed = recv(&here, &["t", "--lines", "--follow"]);
        std::thread::sleep(std::time::Duration::from_millis(u64::from(3 * round)));
        killed.kill(libc::SIGKILL);
        let killed = killed.end();
        let rest = recv(&here, &["t", "--lines"]).end();
        assert!(feed.join().expect("it writes") && from.wait().expect("it ends").success());
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
