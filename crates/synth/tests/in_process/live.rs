//! Queries in use: what they mean, parameters that change, machine code that comes and goes, complaints.

use crate::dice::Dice;
use chappe_synth::{Bound, Form, Live, LiveError, Query, Records, Schema, Summary, Trust, Value, Windows, explain};

fn trade() -> Schema {
    Schema::parse("price: f64, qty: i32, sym: str[8], id: u32, live: bool").unwrap()
}

fn record(price: f64, qty: i32, sym: &str, id: u32) -> Vec<u8> {
    let mut r = vec![0; trade().size() as usize];
    r[..8].copy_from_slice(&price.to_le_bytes());
    r[8..12].copy_from_slice(&qty.to_le_bytes());
    r[12..12 + sym.len()].copy_from_slice(sym.as_bytes());
    r[20..24].copy_from_slice(&id.to_le_bytes());
    r
}

fn passes(expression: &str, record: &[u8]) -> bool {
    Live::filter(&trade(), expression, &[]).unwrap_or_else(|e| panic!("{e}")).evaluator().test(record)
}

#[test]
fn expressions_mean_what_the_table_says() {
    let r = record(2.5, -7, "AAPL", 3);
    for (expression, expected) in [
        ("price > 2.0 && qty < 0 && sym == 'AAPL'", true),
        ("sym == 'AAP'", false),
        ("sym == 'AAPLE'", false),
        ("sym.startsWith('AAP')", true),
        ("sym in ['X', 'AAPL']", true),
        ("!(sym != 'AAPL') || false", true),
        ("qty / 2 == -3 && qty % 2 == -1", true),
        ("qty / 0 == 0 && qty % 0 == qty", true),
        ("id / 0u == 0u && id % 2 == 1", true),
        ("9223372036854775807 + 1 == -9223372036854775807 - 1", true),
        ("(qty - 9223372036854775802) < 0", false),
        ("id - 4u > 100", true),
        ("double(qty) / 0.0 < -1e300", true),
        ("math.isNaN(0.0 / 0.0) && 0.0 / 0.0 != 0.0 / 0.0", true),
        ("int(1e300) == 9223372036854775807 && int(0.0 / 0.0) == 0 && uint(-1.0) == 0u", true),
        ("int(price) == 2 && uint(qty) > 100u", true),
        ("math.abs(qty) == 7 && math.least(qty, 3) == -7 && math.greatest(price, 9.0) == 9.0", true),
        ("math.bitAnd(id, 1) == 1 && math.bitShiftRight(qty, 1) == 9223372036854775804 && math.bitNot(qty) == 6", true),
        ("live ? price > 100.0 : price < 3.0", true),
        ("qty == 3 ? true : live == false", true),
        ("1 < 2", true),
    ] {
        assert_eq!(passes(expression, &r), expected, "{expression}");
    }
}

#[test]
fn a_type_error_is_reported_with_its_column() {
    for (expression, column, says) in [
        ("qty > id", 7, "int(id)"),
        ("prize > 1.0", 1, "is it `price`?"),
        ("venue > 1.0", 1, "there are price, qty, sym, id, live"),
        ("sym > 'A'", 1, "string of fixed length"),
        ("sym == 3", 8, "a string is needed"),
        ("'A' == 'B'", 1, "string field"),
        ("qty", 1, "qty != 0"),
        ("qty + 1", 1, "bool is needed"),
        ("id > -1", 6, "not negative"),
        ("count() > 3", 1, "list of columns"),
        ("f(qty)", 1, "no function"),
        ("sym.endsWith('A')", 1, "startsWith"),
        ("-id > 1", 1, "no sign"),
        ("$a > 1 && $a == 'X'", 11, "field"),
        ("qty > $p && id > $p", 18, "elsewhere"),
        ("null > 1", 1, "x == null"),
        ("qty == math", 8, "math.abs"),
        ("math > 1", 1, "math.abs"),
    ] {
        let e = Query::filter(&trade(), expression).expect_err(expression);
        assert!(e.column() == column && e.to_string().contains(says), "{expression}: {e}");
    }
    for (list, column, says) in [
        ("qty, qty", 6, "two columns"),
        ("count(), qty", 10, "do not mix"),
        ("qty by sym", 5, "aggregates"),
        ("sum(sym)", 5, "not for strings"),
        ("sum(qty) by nobody", 13, "no field"),
        ("sum(qty) + 1", 1, "many records"),
        ("max(live)", 1, "not for bools"),
        ("price * 2.0 as", 15, "name is missing"),
        ("count(qty, id)", 1, "one argument"),
        ("qty order id", 11, "no column `id` in the list"),
        ("qty top x", 9, "a number is missing"),
    ] {
        let e = Query::new(&trade(), None, Some(list)).expect_err(list);
        assert!(e.column() == column && e.to_string().contains(says), "{list}: {e}");
    }
}

#[test]
fn parameters_are_asked_for_by_name_and_type() {
    let query = Query::filter(&trade(), "price > $limit && sym == $who && id > $id").unwrap();
    let (limit, who) = (("limit", Value::Int(2)), ("who", Value::Text(b"X".to_vec())));
    let says = |values: &[(&str, Value)]| query.bind(values).map(|_: Bound| ()).unwrap_err().to_string();
    assert!(says(std::slice::from_ref(&limit)).contains("`$who` has no value"));
    assert!(says(&[limit.clone(), who.clone(), ("id", Value::Int(-1))]).contains("of type uint"));
    assert!(says(&[limit.clone(), who.clone(), ("ip", Value::Int(1))]).contains("no parameter `$ip`"));
    query.bind(&[limit, who.clone(), ("id", Value::Int(1))]).unwrap();
    // A number is taken as another kind of number, if it is one.
    query.bind(&[("limit", Value::Uint(2)), who.clone(), ("id", Value::Uint(1))]).unwrap();
    assert!(says(&[("limit", Value::Uint(2)), who, ("id", Value::Double(1.0))]).contains("of type uint"));
    let of_int = Query::filter(&trade(), "qty > $min").unwrap();
    of_int.bind(&[("min", Value::Uint(i64::MAX as u64))]).unwrap();
    let e = of_int.bind(&[("min", Value::Uint(u64::MAX))]).map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("of type int"), "{e}");
}

#[test]
fn a_changed_parameter_holds_at_once() {
    let live = Live::filter(
        &trade(),
        "qty >= $min && sym == $who",
        &[("min", Value::Int(5)), ("who", Value::Text(b"A".to_vec()))],
    )
    .unwrap();
    let mut evaluator = live.evaluator();
    let r = record(1.0, 5, "A", 0);
    assert!(evaluator.test(&r));
    let compiled = live.compile(Form::Test);
    assert_eq!(compiled, cfg!(feature = "jit"));
    assert!(evaluator.test(&r));
    for (name, value, expected) in [
        ("min", Value::Int(6), false),
        ("min", Value::Int(-1), true),
        ("who", Value::Text(b"AA".to_vec()), false),
        ("who", Value::Text(b"A".to_vec()), true),
    ] {
        live.set(&[(name, value)]).unwrap();
        assert_eq!(evaluator.test(&r), expected);
        // What was machine code is machine code again.
        assert_eq!(evaluator.engine(Form::Test) == "machine code", compiled);
    }
    assert!(live.set(&[("min", Value::Bool(true))]).is_err());
    assert!(evaluator.test(&r));
}

#[test]
fn another_users_query_is_only_interpreted_and_small() {
    let small = Query::filter(&trade(), "qty > 1").unwrap();
    let live = Live::new(&small, &[], Trust::Foreign).unwrap();
    assert!(!live.compile(Form::Test) && live.evaluator().test(&record(0.0, 2, "", 0)));
    let large = format!("qty > 0{}", (1..400).map(|i| format!(" || qty == -{i}")).collect::<String>());
    let large = Query::filter(&trade(), &large).unwrap();
    assert!(matches!(Live::new(&large, &[], Trust::Foreign), Err(LiveError::Foreign(n)) if n > 400));
    Live::new(&large, &[], Trust::Own).unwrap();
}

#[test]
fn machine_code_is_made_when_it_pays_and_nothing_changes() {
    let live = Live::filter(&trade(), "qty >= 3 && price < 50.0 && sym != 'B'", &[]).unwrap();
    let mut evaluator = live.evaluator();
    let (yes, no) = (record(1.0, 3, "A", 0), record(1.0, 3, "B", 0));
    let mut uses = 0u64;
    // As many uses as it takes: only where there is no machine code there is an end.
    while evaluator.engine(Form::Test) != "machine code" && (cfg!(feature = "jit") || uses < 100_000) {
        assert!(evaluator.test(&yes) && !evaluator.test(&no));
        uses += 1;
    }
    assert!(evaluator.test(&yes) && !evaluator.test(&no));
    assert_eq!(evaluator.engine(Form::Test), if cfg!(feature = "jit") { "machine code" } else { "closures" });
}

#[test]
fn few_records_are_not_worth_machine_code() {
    let live = Live::filter(&trade(), "qty >= 3", &[]).unwrap();
    let mut evaluator = live.evaluator();
    let r = record(1.0, 3, "A", 0);
    for _ in 0..10 {
        assert!(evaluator.test(&r));
    }
    assert_eq!(evaluator.engine(Form::Test), "closures");
}

#[test]
fn aggregates_by_key_are_those_of_a_plain_program() {
    let schema = trade();
    let mut dice = Dice(9);
    let syms = ["A", "B", "AAPL", "LONGNAME"];
    let rows: Vec<(f64, i32, &str, u32)> = (0..5000)
        .map(|_| (dice.below(1000) as f64 / 8.0, dice.below(100) as i32 - 50, *dice.of(&syms), dice.below(3) as u32))
        .collect();
    let mut bytes: Vec<u8> = rows.iter().flat_map(|(p, q, s, i)| record(*p, *q, s, *i)).collect();
    // What stands behind the end of a text is no part of the key.
    bytes[14] = b'!';
    if rows[0].2.len() > 1 {
        bytes[14] = rows[0].2.as_bytes().get(2).copied().unwrap_or(0);
    }
    let size = schema.size() as usize;
    let text = "count(), sum(qty), max(price) as high, last(id) by sym, id every 2000";
    let query = Query::new(&schema, Some("qty > -40"), Some(text)).unwrap();
    let live = Live::new(&query, &[], Trust::Own).unwrap();
    for compiled in [false, true] {
        if compiled {
            live.compile(Form::Project);
        }
        let mut evaluator = live.evaluator();
        let mut summary = Windows::new(&query).unwrap();
        let mut windows = Vec::new();
        for part in bytes.chunks(333 * size) {
            let part = Records::new(part, size, size);
            summary.add(&mut evaluator, part, || 0, |rows| windows.push(rows.bytes.clone())).unwrap();
        }
        summary.finish(|rows| windows.push(rows.bytes.clone())).unwrap();
        assert_eq!(windows.len(), 3);
        for (window, rows) in windows.iter().zip(rows.chunks(2000)) {
            type Group<'a> = ((&'a str, u32), (u64, i64, f64, u32));
            let mut plain: Vec<Group<'_>> = Vec::new();
            for (price, qty, sym, id) in rows.iter().filter(|r| r.1 > -40) {
                let at = plain.iter().position(|(k, _)| *k == (*sym, *id)).unwrap_or_else(|| {
                    plain.push(((sym, *id), (0, 0, f64::NEG_INFINITY, 0)));
                    plain.len() - 1
                });
                let (count, sum, high, last) = &mut plain[at].1;
                (*count, *sum, *high, *last) = (*count + 1, *sum + i64::from(*qty), high.max(*price), *id);
            }
            let out = query.rows().unwrap();
            assert_eq!(
                out.fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
                ["window", "sym", "id", "count", "sum_qty", "high", "last_id"]
            );
            let found: Vec<_> = window.chunks(out.size() as usize).collect();
            assert_eq!(found.len(), plain.len());
            let at = |name: &str| out.field(name).unwrap().at as usize;
            for (row, ((sym, id), (count, sum, high, last))) in found.iter().zip(&plain) {
                let mut name = sym.as_bytes().to_vec();
                name.resize(8, 0);
                assert_eq!(row[at("sym")..at("sym") + 8], name);
                assert_eq!(row[at("id")..at("id") + 4], id.to_le_bytes());
                assert_eq!(row[at("count")..at("count") + 8], count.to_le_bytes());
                assert_eq!(row[at("sum_qty")..at("sum_qty") + 8], sum.to_le_bytes());
                assert_eq!(row[at("high")..at("high") + 8], high.to_le_bytes());
                assert_eq!(row[at("last_id")..at("last_id") + 8], u64::from(*last).to_le_bytes());
            }
        }
    }
}

#[test]
fn without_keys_there_is_one_row_or_none() {
    let query = Query::new(&trade(), Some("qty > 3"), Some("count(), min(price)")).unwrap();
    let live = Live::new(&query, &[], Trust::Own).unwrap();
    let mut evaluator = live.evaluator();
    let mut summary = Summary::new(&query).unwrap();
    let (small, large) = (record(1.5, 1, "", 0), record(2.5, 9, "", 0));
    let size = small.len();
    let one = Records::new(&small, size, size);
    summary.add(&mut evaluator, one).unwrap();
    assert_eq!(summary.finish().unwrap().bytes, []);
    let both = [small, large].concat();
    summary.add(&mut evaluator, Records::new(&both, size, size)).unwrap();
    let row = summary.finish().unwrap().bytes;
    assert_eq!((&row[..8], &row[8..]), (&1u64.to_le_bytes()[..], &2.5f64.to_le_bytes()[..]));
}

#[test]
fn explain_tells_all_of_it() {
    let query = Query::filter(&trade(), "price > $limit && sym == 'X'").unwrap();
    let text = explain(&query.bind(&[("limit", Value::Int(3))]).unwrap(), None);
    for part in ["price > $limit", "$limit: double = 3.0", "parameter 0", "closures", "vector", "pays"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let machine = ["function", "bytes:"].iter().all(|part| text.contains(part));
    assert!(machine == cfg!(feature = "jit"), "{text}");
}

#[test]
#[cfg(feature = "jit")]
fn no_page_may_be_written_and_executed() {
    let live = Live::filter(&trade(), "qty > 3", &[]).unwrap();
    assert!(live.compile(Form::Test) && live.compile(Form::Select));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let rights = |line: &str| line.split_whitespace().nth(1).unwrap_or("").to_owned();
    assert!(maps.lines().all(|l| !(rights(l).contains('w') && rights(l).contains('x'))), "{maps}");
    let ours: Vec<String> = maps.lines().filter(|l| l.contains("chappe synth")).map(rights).collect();
    assert!(ours.iter().any(|r| r == "r-xs") && ours.iter().any(|r| r == "rw-s"), "{ours:?}");
}

#[test]
#[cfg(feature = "jit")]
fn a_forked_child_goes_on_without_machine_code() {
    let live = Live::filter(&trade(), "qty > 3", &[]).unwrap();
    assert!(live.compile(Form::Test));
    let mut evaluator = live.evaluator();
    let (yes, no) = (record(0.0, 4, "", 0), record(0.0, 3, "", 0));
    // SAFETY: the child evaluates, which takes no lock that another thread may hold but by trying, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = evaluator.engine(Form::Test) == "closures" && evaluator.test(&yes) && !evaluator.test(&no);
        // SAFETY: ends this process.
        unsafe { libc::_exit(if right { 0 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(evaluator.engine(Form::Test) == "machine code" && evaluator.test(&yes) && !evaluator.test(&no));
}
