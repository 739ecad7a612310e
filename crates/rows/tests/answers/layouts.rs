//! Three layouts in which people publish data, made by the generator of `cargo xtask bench query`: trips of New York's cabs (CSV), events of GitHub
//! Archive (JSON lines), the combined log of Apache and nginx. The answers are those of a plain program.

use crate::{CSV, answered, ask, input};
use chappe_rows::{Ask, Format, Pattern, Style};
use std::collections::BTreeMap;
use texts::Form;

#[path = "../../../bench/src/query/texts.rs"]
#[allow(dead_code, reason = "the bench has more forms")]
mod texts;

fn made(form: Form) -> String {
    let mut out = Vec::new();
    texts::write(form, 300_000, 7, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The rows behind the line of names, in order.
fn rows(format: &Format, text: &str, query: &str) -> Vec<String> {
    let of = |threads| {
        let ask = Ask { threads, ..ask(format, query) };
        let rows = answered(&ask, vec![input("t", text)], Style::Csv).unwrap().0;
        let mut rows: Vec<String> = rows.lines().skip(1).map(str::to_owned).collect();
        rows.sort();
        rows
    };
    assert_eq!(of(1), of(3));
    of(1)
}

fn written<V>(all: BTreeMap<String, V>, value: impl Fn(V) -> String) -> Vec<String> {
    let mut rows: Vec<String> = all.into_iter().map(|(key, v)| format!("{key},{}", value(v))).collect();
    rows.sort();
    rows
}

#[test]
fn trips_of_cabs_are_added_up_by_how_they_are_paid() {
    let text = made(Form::Taxi);
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        assert_eq!(f.len(), 18);
        if f[4].parse::<f64>().unwrap() > 5.0 {
            let (n, passengers) = all.entry(f[9].into()).or_default();
            *n += 1;
            *passengers += f[3].parse::<u64>().unwrap_or(0);
        }
    }
    let query = "where trip_distance > 5 select payment_type, count() as n, sum(passenger_count) as p by payment_type";
    assert_eq!(rows(&CSV, &text, query), written(all, |(n, p)| format!("{n},{p}")));
    // Its times have no zone, and are read by their pattern.
    let times = Ask {
        schema: Some("tpep_pickup_datetime: time \"%Y-%m-%d %H:%M:%S\"".into()),
        ..ask(&CSV, "select count() as n every 1h on tpep_pickup_datetime")
    };
    let hours = answered(&times, vec![input("t", &text)], Style::Csv).unwrap().0;
    assert!(hours.starts_with("window,n\n2026-11-01T00:00:00Z,540\n2026-11-01T01:00:00Z,540\n"), "{hours}");
}

#[test]
fn events_of_repositories_are_counted_by_a_member_within() {
    let text = made(Form::Events);
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["type"] == "PushEvent" {
            *all.entry(event["repo"]["name"].as_str().unwrap().into()).or_default() += 1;
        }
    }
    let query = "where type == \"PushEvent\" select `repo.name`, count() as n by `repo.name`";
    assert_eq!(rows(&Format::Json, &text, query), written(all, |n| n.to_string()));
    let with_org = text.lines().filter(|line| line.contains("\"org\":{")).count();
    assert_eq!(rows(&Format::Json, &text, "where `org.login` != null select count() as n"), [with_org.to_string()]);
}

#[test]
fn requests_of_a_combined_log_are_counted_by_their_status() {
    let text = made(Form::Combined);
    let pattern = r#"{ip} {} {user} [{time}] "{request}" {status} {bytes} "{referer}" "{agent}""#;
    let format = Format::Lines(Pattern::parse(pattern).unwrap());
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        let f: Vec<&str> = line.split('"').collect();
        if f[2].starts_with(" 404 ") {
            *all.entry(f[1].into()).or_default() += 1;
        }
    }
    let query = "where status == 404 select request, count() as n by request";
    assert_eq!(rows(&format, &text, query), written(all, |n| n.to_string()));
    let no_bytes = text.lines().filter(|line| line.contains(" 304 - ")).count();
    assert_eq!(rows(&format, &text, "where bytes == null select count() as n"), [no_bytes.to_string()]);
}
