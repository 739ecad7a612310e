//! Questions about CSV, JSON and lines.

use crate::place::{Place, Ran, Running};
use std::io::Write;
use std::process::Stdio;

const TRADES: &str = "sym,px,qty\nA,10.5,2\nB,9,1\nA,12.25,4\n";

/// The command, fed with this.
fn fed(place: &Place, args: &[&str], input: &str) -> Ran {
    let mut command = place.command(&[&["query"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    Running::from(child).end()
}

#[test]
fn files_and_stdin_are_asked() {
    let place = Place::new();
    let (csv, json) = (place.file("trades.csv"), place.file("log.jsonl"));
    std::fs::write(&csv, TRADES).unwrap();
    std::fs::write(&json, "{\"level\":\"error\",\"ms\":7}\n{\"level\":\"info\"}\n{\"level\":\"error\",\"ms\":2.5}\n")
        .unwrap();
    let (csv, json) = (csv.to_str().unwrap(), json.to_str().unwrap());
    let by_sym = "where px > 9 select sym, sum(qty * px) as value by sym";
    assert_eq!(place.ok(&["query", by_sym, csv]), "sym,value\nA,70.0\n");
    assert_eq!(place.ok(&["query", by_sym, csv, csv, "--format", "table"]), "sym  value\n---  -----\nA    140.0\n");
    let errors = "where level == $level select count() as n, max(ms) as most";
    let asked = ["query", errors, json, "--param", "level=error"];
    assert_eq!(place.ok(&asked), "n,most\n2,7.0\n");
    let as_json = place.run(&[&asked[..], &["--json"]].concat());
    assert_eq!(as_json.out, "{\"n\":2,\"most\":7.0}\n");
    assert!(
        as_json.err.starts_with("{\"bad\":0,\"late\":0,\"ms\":") && as_json.err.contains("\"records\":3"),
        "{}",
        as_json.err
    );
    assert_eq!(place.ok(&["query", "select *", csv, "--print-schema"]), "sym: str, px: f64, qty: i64\n");
    // What comes on stdin says by its first character what it is.
    assert_eq!(fed(&place, &[by_sym], TRADES).out, "sym,value\nA,70.0\n");
    assert_eq!(fed(&place, &["select a"], " {\"a\":1}").out, "a\n1\n");
    assert_eq!(fed(&place, &["select b", "-d;"], "a;b\n1;2\n").out, "b\n2\n");
    assert_eq!(fed(&place, &["select b", "--lines", "{a}={b}"], "x=y\n").out, "b\ny\n");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let place = Place::new();
    let csv = place.file("t.csv");
    std::fs::write(&csv, format!("{TRADES}C,dear,1\n")).unwrap();
    let name = csv.to_str().unwrap();
    let typed = ["query", "select sum(px) as s", name, "--schema", "px: f64"];
    let why = place.fails(1, &typed);
    assert!(why.contains("t.csv:5: `px` is `dear`, and no f64; --on-bad skip"), "{why}");
    let skipped = place.run(&[&typed[..], &["--on-bad", "skip"]].concat());
    assert_eq!((skipped.status, skipped.out.as_str()), (Some(0), "s\n31.75\n"));
    assert!(
        skipped.err.contains("1 line had something wrong:\n") && skipped.err.contains("t.csv:5: `px` is `dear`"),
        "{}",
        skipped.err
    );
    let why = place.fails(1, &["query", "where pxx > 3", name]);
    assert!(
        why.contains("there is no field `pxx`: is it `px`? (line 1, column 7)") && why.contains("\n        ^^^"),
        "{why}"
    );
    assert!(
        place
            .fails(1, &["query", "select a", "/nowhere/x.csv"])
            .contains("cannot read /nowhere/x.csv: No such file or directory")
    );
    assert!(place.fails(1, &["query", "select a", "/"]).contains("/ is a directory"));
    assert!(
        place
            .fails(1, &["query", "select a", name, "--lines", "{a}{b}"])
            .contains("nothing stands between {a} and {b}")
    );
    assert!(place.fails(2, &["query", "select a", name, "--memory", "x"]).contains("number of bytes"));
    assert!(
        place
            .fails(1, &["query", "select sym, count() by sym", name, "--memory", "10"])
            .contains("--memory allows more")
    );
    assert!(fed(&place, &["select a"], "").err.contains("nothing to read in stdin"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let place = Place::new();
    let rows: String = "n\n".to_owned() + &(0..200_000).map(|n| format!("{n}\n")).collect::<String>();
    let file = place.file("n.csv");
    std::fs::write(&file, rows).unwrap();
    let mut command = place.command(&["query", "select n"]);
    let child = command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = child;
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}
