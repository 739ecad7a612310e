//! Records with fields: schemas, text in and out, queries; and broadcast tubes.

use crate::place::{Place, until};
use serde_json::Value;
use std::io::Write;
use std::process::{Child, Stdio};

const FIELDS: &str = "ts: u64, price: f64, sym: str[4]";
const CSV: &str = "ts,price,sym\n1,10.5,X\n2,99.0,Y\n3,120.25,X\n";

fn json(place: &Place, args: &[&str]) -> Value {
    serde_json::from_str(&place.ok(&[args, &["--json"]].concat())).expect("JSON")
}

/// `chappe send` that was fed with this.
fn feed(place: &Place, args: &[&str], input: &str) -> Child {
    let mut command = place.command(&[&["send"], args].concat());
    command.stdin(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    crate::place::feed(&mut child, input.as_bytes());
    child
}

#[test]
fn a_sum_that_does_not_fit_is_no_fault_of_stdout() {
    let place = Place::new();
    place.ok(&["tube", "create", "t", "--schema", "n: i64"]);
    let mut sender = feed(&place, &["--format", "csv", "t"], "n\n9223372036854775807\n1\n");
    let why = place.fails(1, &["recv", "t", "--select", "sum(n)"]);
    assert!(why.contains("`sum_n` does not fit 64 bits") && !why.contains("stdout"), "{why}");
    sender.wait().unwrap();
}

#[test]
fn a_foreign_file_among_the_arenas_is_named_once() {
    let place = Place::new();
    place.ok(&["schema", "create", "trade", "a: i64"]);
    std::fs::write(place.arenas().join("foreign"), "junk\n").unwrap();
    let why = place.fails(1, &["schema", "ls"]);
    assert_eq!(why.matches("is not an arena").count(), 1, "{why}");
}

#[test]
fn records_go_in_and_out_as_text() {
    let place = Place::new();
    let made = json(&place, &["tube", "create", "t", "--schema", FIELDS]);
    assert_eq!(made["schema"], "ts: u64 @ 0, price: f64 @ 8, sym: str[4] @ 16; size 24");
    assert_eq!(made["size"], 24);
    assert!(place.ok(&["show", "t"]).contains("price: f64 @ 8"));
    assert_eq!(json(&place, &["show", "t"])["schema"], made["schema"]);
    for (args, expected) in [
        (vec!["--format", "csv"], CSV.to_owned()),
        (vec!["--format", "json", "-n1"], "{\"ts\":1,\"price\":10.5,\"sym\":\"X\"}\n".into()),
        (
            vec!["--where", "price > $min && sym == 'X'", "--select", "ts, price * 2.0 as twice", "--param", "min=50"],
            "{\"ts\":3,\"twice\":240.5}\n".into(),
        ),
        (vec!["--select", "count() as n, max(price) as high", "--format", "csv"], "n,high\n3,120.25\n".into()),
    ] {
        let mut sender = feed(&place, &["--format", "csv", "t"], CSV);
        assert_eq!(place.ok(&[vec!["recv", "t"], args].concat()), expected);
        // What was not asked for is there for the next.
        let _ = place.run(&["recv", "t", "--timeout", "10ms"]);
        let _ = sender.wait();
    }
}

#[test]
fn a_schema_error_is_reported_with_its_column() {
    let place = Place::new();
    let fails = |args: &[&str]| {
        let ran = place.run(args);
        assert_ne!(ran.status, Some(0), "{args:?}");
        ran.err
    };
    assert!(fails(&["tube", "create", "t", "--schema", "ts: u65"]).contains("column 5"));
    place.ok(&["tube", "create", "t", "--schema", FIELDS]);
    place.ok(&["tube", "create", "plain", "--size", "100"]);
    assert!(fails(&["recv", "t", "--where", "price > sym"]).contains("column 9"));
    assert!(fails(&["recv", "plain", "--where", "price > 1.0"]).contains("no schema"));
    assert!(fails(&["recv", "t", "--slow", "block"]).contains("broadcast"));
}

#[test]
fn each_subscriber_gets_what_it_asks_for() {
    let place = Place::new();
    let made = json(&place, &["tube", "create", "b", "--broadcast", "--schema", FIELDS, "--slots", "10"]);
    assert_eq!((&made["kind"], &made["slots"]), (&"broadcast".into(), &16.into()));
    let recv = |args: &[&str]| Place::spawn(&mut place.command(&[&["recv", "b"], args].concat()));
    let all = recv(&["--format", "csv"]);
    let filter = ["--where", "price > $min", "--param", "min=50", "--slow", "drop-newest:4"];
    let dear = recv(&[&["--format", "json"], filter.as_slice()].concat());
    until("both subscribe", || (json(&place, &["show", "b"])["subscribers"] == 2).then_some(()));
    assert!(place.ok(&["show", "b"]).contains("where price > $min with $min = 50"));
    assert!(place.ok(&["ls"]).contains("broadcast tube"));
    let mut sender = feed(&place, &["--format", "csv", "b"], CSV);
    assert!(sender.wait().expect("it ends").success());
    assert_eq!(all.end().out, CSV);
    assert_eq!(dear.end().out, "{\"ts\":2,\"price\":99.0,\"sym\":\"Y\"}\n{\"ts\":3,\"price\":120.25,\"sym\":\"X\"}\n");
    place.ok(&["rm", "b"]);
}

#[test]
fn a_tube_is_asked_like_a_file() {
    let place = Place::new();
    place.ok(&["tube", "create", "t", "u", "--schema", FIELDS]);
    for tube in ["t", "u"] {
        assert!(feed(&place, &[tube, "--format", "csv"], CSV).wait().unwrap().success());
    }
    let asked = "where price > $min select sym, count() as n, max(price) as most by sym order sym";
    let both = ["query", "--tube", "t", "--tube", "u", asked, "--param", "min=50"];
    assert_eq!(place.ok(&both), "sym,n,most\nX,2,120.25\nY,2,99.0\n");
    assert!(feed(&place, &["t", "--format", "csv"], CSV).wait().unwrap().success());
    let table = ["query", "--tube", "t", "select ts, sym top 2", "--format", "table"];
    assert_eq!(place.ok(&table), "ts  sym\n--  ---\n 1  X\n 2  Y\n");
    let why = place.fails(2, &["query", "--tube", "t", "select ts", "--from", "csv"]);
    assert!(why.contains("cannot be used with"), "{why}");
    place.ok(&["tube", "create", "plain"]);
    assert!(place.fails(1, &["query", "--tube", "plain", "select ts"]).contains("tube `plain` has no schema"));
}

#[test]
fn a_schema_has_a_name_that_stands_wherever_one_may_be_said() {
    let place = Place::new();
    assert_eq!(place.ok(&["schema", "ls"]), "");
    let none = place.fails(1, &["tube", "create", "t", "--schema", "trade"]);
    assert!(none.contains("there is no schema `trade`: `chappe schema ls`"), "{none}");
    assert!(place.fails(1, &["schema", "show", "trade"]).contains("there is no schema `trade`"));
    place.ok(&["schema", "create", "trade", FIELDS]);
    // The same once more is no fault; another one is.
    place.ok(&["schema", "create", "trade", FIELDS]);
    let taken = place.fails(1, &["schema", "create", "trade", "a: i64"]);
    assert!(taken.contains("schema `trade` is there as `ts: u64, price: f64, sym: str[4]`"), "{taken}");
    assert!(place.fails(1, &["schema", "create", "x", "a: i6"]).contains("the schema makes no sense: "));
    assert!(place.fails(1, &["schema", "create", "a b", "a: i64"]).contains("`a b`"));
    place.ok(&["schema", "create", "lab/day", "at: time '%d.%m.%Y', n: i64"]);
    assert_eq!(place.ok(&["schema", "show", "trade"]), format!("{FIELDS}\n"));
    let listed = place.ok(&["schema", "ls"]);
    assert!(
        listed.contains("trade            ts: u64, price") && listed.contains("lab/day          at: time"),
        "{listed}"
    );
    assert_eq!(place.ok(&["schema", "ls", "lab"]).lines().count(), 1);
    assert_eq!(json(&place, &["schema", "show", "lab/day"])["schema"], "at: time '%d.%m.%Y', n: i64");
    // In tubes, questions about text, and graphs.
    let made = json(&place, &["tube", "create", "t", "--schema", "trade"]);
    assert_eq!(made["schema"], "ts: u64 @ 0, price: f64 @ 8, sym: str[4] @ 16; size 24");
    let csv = place.file("in.csv");
    std::fs::write(&csv, "at,n\n29.11.2026,4\n").unwrap();
    let csv = csv.to_str().unwrap();
    assert_eq!(place.ok(&["query", "--schema", "lab/day", "select at", csv]), "at\n2026-11-29T00:00:00Z\n");
    assert!(place.fails(1, &["query", "--schema", "week", "select at", csv]).contains("there is no schema `week`"));
    #[cfg(feature = "graph")]
    {
        let graph = place.file("x.graph");
        std::fs::write(&graph, format!("file {csv:?} | parse csv lab/day | json | print")).unwrap();
        let ran = place.ok(&["graph", "run", "--quiet", graph.to_str().unwrap()]);
        assert_eq!(ran, "{\"at\":\"2026-11-29T00:00:00Z\",\"n\":4}\n");
        std::fs::write(&graph, "tube \"t\" as=records schema=trade | json | print").unwrap();
        place.ok(&["graph", "check", graph.to_str().unwrap()]);
    }
    place.ok(&["schema", "rm", "trade"]);
    assert!(place.fails(1, &["schema", "rm", "trade"]).contains("there is no schema `trade`"));
    // What was made by it keeps its own.
    assert!(place.ok(&["show", "t"]).contains("price: f64 @ 8"));
}

#[test]
fn a_mistake_in_a_question_costs_no_sender_its_receiver() {
    let place = Place::new();
    place.ok(&["tube", "create", "t", "--schema", FIELDS]);
    let mut command = place.command(&["send", "t", "--format", "csv"]);
    let mut sender = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = sender.stdin.take().unwrap();
    pipe.write_all(CSV.as_bytes()).unwrap();
    until("it has sent", || (json(&place, &["show", "t"])["sent"] == 3).then_some(()));
    assert!(place.fails(1, &["recv", "t", "--where", "prise > 1"]).contains("is it `price`?"));
    assert!(place.fails(1, &["recv", "t", "--tag", "--select", "count()"]).contains("--tag says of each record"));
    assert!(place.fails(1, &["recv", "t", "--where", "price > $p"]).contains("parameter `$p` has no value"));
    pipe.write_all(b"4,1.5,Z\n").unwrap();
    until("it has sent more", || (json(&place, &["show", "t"])["sent"] == 4).then_some(()));
    // So many records, also where they are added up; and they are counted.
    let ran = place.run(&["recv", "t", "-n", "2", "--select", "count() as n, sum(ts) as s", "--json"]);
    assert_eq!(ran.out, "{\"n\":2,\"s\":3}\n", "{}", ran.err);
    assert!(ran.err.contains("\"records\":2"), "{}", ran.err);
    let rest = Place::spawn(&mut place.command(&["recv", "t", "--select", "count() as n"]));
    until("it receives", || (json(&place, &["show", "t"])["received"] == 4).then_some(()));
    sender.kill().unwrap();
    sender.wait().unwrap();
    let ran = rest.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(3), "{\"n\":2}\n"));
    assert!(ran.err.contains("what came (2 records, 48 bytes) may be a part"), "{}", ran.err);
}

#[test]
fn no_record_that_its_readers_could_not_get_past_comes_into_a_tube() {
    let place = Place::new();
    place.ok(&["tube", "create", "t", "--schema", FIELDS]);
    let sent = |args: &[&str], input: &str| {
        let child = feed(&place, &[args, &["t"]].concat(), input);
        child.wait_with_output().map(|o| (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())).unwrap()
    };
    // As many bytes as a record has are one.
    assert_eq!(sent(&["--lines"], &format!("{}\n", "x".repeat(24))).0, Some(0));
    let (status, why) = sent(&["--lines"], "hello\n");
    let says = "line 1 has 5 bytes, and by the tube's schema a record has 24; it was not sent: `--format csv`";
    assert!(status == Some(1) && why.contains(says), "{why}");
    assert_eq!(sent(&[], "hello").0, Some(1));
    assert_eq!(sent(&["--format", "csv"], CSV).0, Some(0));
    let ran = place.ok(&["recv", "t", "-n", "4", "--select", "count() as n"]);
    assert_eq!(ran, "{\"n\":4}\n");
}
