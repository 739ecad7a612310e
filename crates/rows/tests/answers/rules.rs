//! Rules of queries: what a window is named by, which keys are one, what shifts give, what a message says.

use crate::{CSV, answered, ask, input, of, refused};
use chappe_rows::{Ask, Format, Pattern, Style};
use chappe_synth::Value;

/// By columns of said types.
fn typed(schema: &str, text: &str, query: &str) -> String {
    let ask = Ask { schema: Some(schema.into()), ..ask(&CSV, query) };
    answered(&ask, vec![input("t", text)], Style::Csv).unwrap().0
}

#[test]
fn windows_are_named_by_what_their_field_can_say_each_by_another() {
    let far = "ts\n10000000000000000000\n18446744073709551615\n";
    let named = typed("ts: u64", far, "select count() as n every 1000 on ts");
    assert_eq!(named, "window,n\n10000000000000000000,1\n18446744073709551000,1\n");
    // No unsigned window begins below 0, and each record is in one.
    assert_eq!(typed("ts: u64", "ts\n3\n", "select count() as n every 10 on ts hop 2"), "window,n\n0,1\n2,1\n");
    let least = "ts\n-9223372036854775808\n";
    let named = typed("ts: i64", least, "select count() as n every 3000 on ts hop 1000");
    assert_eq!(named, "window,n\n-9223372036854775808,1\n");
    let named = typed("ts: time", "ts\n1677-09-21T00:12:43.2Z\n", "select count() as n every 10s on ts hop 2s");
    let names: Vec<&str> = named.lines().skip(1).collect();
    let mut different = names.clone();
    different.dedup();
    assert!(!names.is_empty() && names == different, "{named}");
}

#[test]
fn windows_of_doubles_begin_where_people_would_write_it() {
    for (every, times) in [
        ("0.001", vec!["4.6", "0.29", "-4.6", "1.0", "0.0"]),
        ("0.01", vec!["0.29", "0.57", "1.1"]),
        ("0.3", vec!["0.9", "0.0"]),
        ("2.5", vec!["7.5", "-2.5"]),
        ("1000", vec!["1000.0", "2000.0"]),
    ] {
        for time in times {
            let (query, text) = (format!("select count() as n every {every} on ts"), format!("ts\n{time}\n"));
            assert_eq!(typed("ts: f64", &text, &query), format!("window,n\n{time},1\n"), "every {every}");
        }
    }
    // Doubles do not tell such windows apart.
    let ask = ask(&CSV, "select count() as n every 0.001 on ts");
    let (out, report) = answered(&ask, vec![input("t", "ts\n1e300\nNaN\n0.5\n")], Style::Csv).unwrap();
    assert_eq!((out.as_str(), report.late), ("window,n\n0.5,1\n", 2));
}

#[test]
fn late_are_records_that_were_asked_for() {
    let late = |query: &str| {
        let text = "ts,k\n5,a\n25,a\n3,a\n4,b\n,a\n,b\n";
        answered(&ask(&CSV, query), vec![input("t", text)], Style::Csv).unwrap().1.late
    };
    assert_eq!(late("select count() every 10 on ts"), 4);
    assert_eq!(late("where k == 'a' select count() every 10 on ts"), 2);
}

#[test]
fn equal_values_are_one_group() {
    let zeros = "d\n0.0\n-0.0\nNaN\n-0.0\nNaN\n1.5\n";
    assert_eq!(of(&CSV, zeros, "select d, count() as n by d"), "d,n\n0.0,3\nNaN,2\n1.5,1\n");
    assert_eq!(of(&CSV, zeros, "select distinct(d) as n"), "n\n3\n");
    assert_eq!(typed("d: f32", zeros, "select d, count() as n by d"), "d,n\n0.0,3\nNaN,2\n1.5,1\n");
}

#[test]
fn bits_are_shifted_as_cel_has_it() {
    for (shift, is) in [
        ("math.bitShiftRight(a, 3)", "2305843009213693824"),
        ("math.bitShiftRight(a, 64)", "0"),
        ("math.bitShiftLeft(1, 64)", "0"),
        ("math.bitShiftLeft(a, b)", "0"),
        ("math.bitShiftLeft(1, 62)", "4611686018427387904"),
        ("math.bitShiftRight(a, -b)", "0"),
    ] {
        assert_eq!(of(&CSV, "a,b\n-1024,64\n", &format!("select {shift} as s")), format!("s\n{is}\n"), "{shift}");
    }
}

#[test]
fn a_time_is_a_parameter_as_a_text() {
    let with = |value: &str| {
        let params = vec![("from".to_owned(), Value::Text(value.into()))];
        let schema = Some("ts: time".to_owned());
        let ask = Ask { params, schema, ..ask(&CSV, "where ts >= time($from) select count() as n") };
        answered(&ask, vec![input("t", "ts\n2026-11-28T23:59:59Z\n2026-11-29\n")], Style::Csv).map(|(out, _)| out)
    };
    assert_eq!(with("2026-11-29").unwrap(), "n\n1\n");
    assert!(with("yesterday").unwrap_err().contains("`$from` is of type int: `yesterday` does not fit"));
}

#[test]
fn a_mistake_is_told_by_what_is_needed_and_what_is_there() {
    let text = "sym,other,px,ts\nA,B,1,2\n";
    for (query, says) in [
        ("select px > 1 ? sym : \"no\" as s", "a choice is between numbers or bools, and this is a string"),
        ("select sym + \"x\" as s", "a number is needed here, and this is a string"),
        ("select sym + other as s", "a number is needed here, and this is a string"),
        ("select math.least(sym, 'a') as s", "strings are compared, and nothing else is computed of them"),
        ("where sym.startsWith(null)", "a string is needed here, and this is `null`"),
        ("where px > time('29 Nov')", "this is no time: one is written as in time('2026-11-29T07:00:00Z')"),
        ("where px > time('2300-01-01')", "times are from 1677-09-21T00:12:44Z to 2262"),
        ("select count() every 10 hop 20", "a hop is no longer than its window"),
        ("select count() every 10 hop 3", "a whole number of hops"),
        ("select count() every 10 on ts late -5", "none is negative"),
        ("select count() every 2.5", "records are whole"),
        ("select count() order count every 5", "`every` stands before `order` and `top`"),
    ] {
        let said = refused(&CSV, text, query);
        assert!(said.contains(says), "{query}: {said}");
    }
    let ask = Ask { schema: Some("ts: time".into()), ..ask(&CSV, "select ts") };
    let said = answered(&ask, vec![input("t", "ts\n2300-01-01\n")], Style::Csv).unwrap_err();
    assert!(said.contains("and no time: they are from 1677"), "{said}");
    let few = Ask { memory: 100, threads: 2, ..crate::ask(&CSV, "select count() by sym") };
    let said = answered(&few, vec![input("t", text)], Style::Csv).unwrap_err();
    assert!(said.contains("more than the 100 bytes"), "{said}");
}

#[test]
fn times_are_read_by_the_pattern_of_their_column_and_it_can_be_kept() {
    let schema = "ts: time '%d.%m.%Y %H:%M'";
    let text = "ts,n\n29.11.2026 07:00,1\n30.11.2026 08:30,2\n";
    assert_eq!(typed(schema, text, "select ts, n"), "ts,n\n2026-11-29T07:00:00Z,1\n2026-11-30T08:30:00Z,2\n");
    assert_eq!(
        typed(schema, text, "select sum(n) as s every 1d on ts"),
        "window,s\n2026-11-29T00:00:00Z,1\n2026-11-30T00:00:00Z,2\n"
    );
    let with = |schema: &str, text: &str| {
        let ask = Ask { schema: Some(schema.into()), ..ask(&CSV, "select ts") };
        answered(&ask, vec![input("t", text)], Style::Csv).unwrap_err()
    };
    assert!(with(schema, "ts\n2026-11-29\n").contains("`ts` is `2026-11-29`, and no time as `%d.%m.%Y %H:%M` has it"));
    assert!(with("ts: time '%Q'", "ts\n1\n").contains("`%Q` is not known in a pattern of times (line 1, column 10)"));
    assert!(with("ts: i64 '%Y'", "ts\n1\n").contains("a comma is missing"));
    let ask = Ask { schema: Some(schema.into()), ..ask(&CSV, "select *") };
    let kept = chappe_rows::columns(&ask, vec![input("t", text)]).unwrap();
    assert_eq!(kept, "ts: time '%d.%m.%Y %H:%M', n: i64");
    assert_eq!(typed(&kept, text, "where n > 1 select ts"), "ts\n2026-11-30T08:30:00Z\n");
}

#[test]
fn the_named_groups_of_a_regular_expression_are_columns() {
    let pattern = Pattern::parse(
        r#"^(?P<ip>\S+) (?:\S+) \S+ \[[^\]]*\] "(?<verb>\w+) (?P<path>\S+)[^"]*" (?P<status>\d+)(?: (?P<bytes>\d+))?"#,
    )
    .unwrap();
    let lines = Format::Lines(pattern);
    let log = "10.0.0.1 - ann [x] \"GET /a HTTP/1.1\" 200 17\n10.0.0.2 - - [y] \"PUT /b HTTP/1.1\" 500\n";
    assert_eq!(
        of(&lines, log, "select ip, verb, path, status, bytes"),
        "ip,verb,path,status,bytes\n10.0.0.1,GET,/a,200,17\n10.0.0.2,PUT,/b,500,\n"
    );
    assert_eq!(of(&lines, log, "where status >= 500 select sum(status) as s by verb"), "verb,s\nPUT,500\n");
    assert!(
        refused(&lines, format!("{log}nothing\n"), "select ip").contains("t:3: the pattern does not fit `nothing`")
    );
    assert!(refused(&lines, b"\xff\n".as_slice(), "select ip").contains("is no UTF-8"));
}
