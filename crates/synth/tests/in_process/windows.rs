//! Aggregates over windows are those of a plain program: every kind over every type, by keys and without, whatever the windows and parts are,
//! and whichever engine computes them. Numbers are such that each sum is exact.

use crate::dice::Dice;
use chappe_synth::{Form, Live, Query, Records, Rows, Schema, Trust, Windows};

const SCHEMA: &str = "i: i32, u: u32, x: f64, k: u8, s: str[4]";
const LIST: &str = "count() as n, sum(i) as si, min(i) as li, max(i) as hi, last(i) as ei, sum(u) as su, min(u) as lu, max(u) as hu, \
                    last(u) as eu, sum(x) as sx, min(x) as lx, max(x) as hx, last(x) as ex, sum(i * 3 - int(u)) as st";

struct Row {
    i: i32,
    u: u32,
    x: f64,
    k: u8,
    s: &'static str,
}

impl Row {
    fn roll(dice: &mut Dice) -> Row {
        Row {
            i: dice.next() as i32,
            u: dice.next() as u32,
            x: dice.below(4000) as f64 / 8.0 - 250.0,
            k: dice.below(3) as u8,
            s: ["", "A", "BC", "LONG"][dice.below(4)],
        }
    }

    fn bytes(&self, schema: &Schema) -> Vec<u8> {
        let mut bytes = vec![0; schema.size() as usize];
        let mut put = |name: &str, value: &[u8]| {
            let at = schema.field(name).unwrap().at as usize;
            bytes[at..at + value.len()].copy_from_slice(value);
        };
        put("i", &self.i.to_le_bytes());
        put("u", &self.u.to_le_bytes());
        put("x", &self.x.to_le_bytes());
        put("k", &[self.k]);
        put("s", self.s.as_bytes());
        bytes
    }
}

/// What the list says of some rows, as bits.
fn plainly(rows: &[&Row]) -> Vec<u64> {
    let int = |n: i64| n as u64;
    let (i, u) = (|r: &&Row| i64::from(r.i), |r: &&Row| u64::from(r.u));
    let last = rows.last().expect("a group has a row");
    let x = |pick: fn(f64, f64) -> f64| rows.iter().map(|r| r.x).reduce(pick).expect("as above").to_bits();
    vec![
        rows.len() as u64,
        int(rows.iter().map(i).sum()),
        int(rows.iter().map(i).min().expect("as above")),
        int(rows.iter().map(i).max().expect("as above")),
        int(i64::from(last.i)),
        rows.iter().map(u).sum(),
        rows.iter().map(u).min().expect("as above"),
        rows.iter().map(u).max().expect("as above"),
        u64::from(last.u),
        rows.iter().map(|r| r.x).fold(0.0, |a: f64, b| a + b).to_bits(),
        x(f64::min),
        x(f64::max),
        last.x.to_bits(),
        int(rows.iter().map(|r| i64::from(r.i) * 3 - i64::from(r.u)).sum()),
    ]
}

/// What rows have in common, if they are told apart by keys.
type Key = Option<(u8, &'static str)>;

/// The windows of a plain program: of each its groups, in the order in which they came, with their keys.
fn windows(rows: &[Row], every: usize, keyed: bool) -> Vec<Vec<(Key, Vec<u64>)>> {
    let of = |window: &[Row]| {
        let mut groups: Vec<(Key, Vec<&Row>)> = Vec::new();
        for row in window.iter().filter(|r| r.i % 3 != 0 && r.x < 200.0) {
            let key = keyed.then_some((row.k, row.s));
            match groups.iter_mut().find(|(has, _)| *has == key) {
                Some((_, group)) => group.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        groups.into_iter().map(|(key, group)| (key, plainly(&group))).collect::<Vec<_>>()
    };
    rows.chunks(every).map(of).collect()
}

/// The same by a query, engine and all.
fn by_query(rows: &[Row], every: usize, keyed: bool, compiled: bool, dice: &mut Dice) {
    let schema = Schema::parse(SCHEMA).unwrap();
    let size = schema.size() as usize;
    let keys = if keyed { " by k, s" } else { "" };
    let list = format!("{LIST}{keys} every {every}");
    let query = Query::new(&schema, Some("i % 3 != 0 && x < 200.0"), Some(&list)).unwrap();
    let live = Live::new(&query, &[], Trust::Own).unwrap();
    if compiled {
        live.compile(if keyed { Form::Project } else { Form::Fold });
    }
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.bytes(&schema)).collect();
    let (mut evaluator, mut summary) = (live.evaluator(), Windows::new(&query).unwrap());
    let mut found = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (part, behind) = rest.split_at((1 + dice.below(700)).min(rest.len() / size) * size);
        let part = Records::new(part, size, size);
        summary.add(&mut evaluator, part, || 0, |rows| found.push(rows.bytes.clone())).unwrap();
        rest = behind;
    }
    summary.finish(|rows| found.push(rows.bytes.clone())).unwrap();
    let (out, expected) = (query.rows().unwrap(), windows(rows, every, keyed));
    assert_eq!(found.len(), expected.len(), "windows of {every}");
    for (window, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let found: Vec<&[u8]> = found.chunks(out.size() as usize).collect();
        assert_eq!(found.len(), expected.len(), "groups of window {window}, keyed {keyed}");
        for (row, (key, values)) in found.iter().zip(expected) {
            let at = |name: &str| &row[out.field(name).unwrap().at as usize..];
            if let Some((k, s)) = key {
                let mut text = [0; 4];
                text[..s.len()].copy_from_slice(s.as_bytes());
                assert_eq!((at("k")[0], &at("s")[..4]), (*k, &text[..]), "window {window}");
            }
            let names = ["n", "si", "li", "hi", "ei", "su", "lu", "hu", "eu", "sx", "lx", "hx", "ex", "st"];
            for (name, value) in names.iter().zip(values) {
                let is = u64::from_le_bytes(at(name)[..8].try_into().unwrap());
                assert_eq!(is, *value, "{name} of {key:?} in window {window} of {every}, compiled {compiled}");
            }
        }
    }
}

#[test]
fn every_aggregate_is_that_of_a_plain_program() {
    for seed in 0..6 {
        let mut dice = Dice(seed);
        let many = 1 + dice.below(4000);
        let rows: Vec<Row> = (0..many).map(|_| Row::roll(&mut dice)).collect();
        let every = 1 + dice.below(many + 100);
        for keyed in [false, true] {
            for compiled in [false, true] {
                by_query(&rows, every, keyed, compiled, &mut dice);
            }
        }
    }
}

#[test]
fn a_window_in_which_nothing_passes_has_no_row() {
    let mut dice = Dice(1);
    let mut rows: Vec<Row> = (0..90).map(|_| Row::roll(&mut dice)).collect();
    rows.iter_mut().skip(30).take(30).for_each(|row| row.i = 3);
    for keyed in [false, true] {
        by_query(&rows, 30, keyed, false, &mut dice);
        assert_eq!(windows(&rows, 30, keyed)[1].len(), 0);
    }
}

/// A record of the next tests: when it was, and what it has.
struct Event {
    at: i64,
    n: i64,
}

/// What a plain program says of windows by a field: each with its begin and its sum, in the order in which they end; and how many came late.
fn by_field(events: &[Event], every: i64, hop: i64, late: i64) -> (Vec<(i64, i64)>, u64) {
    let (mut open, mut out, mut missed) = (std::collections::BTreeMap::new(), Vec::new(), 0);
    let mut newest = i64::MIN;
    for event in events {
        newest = newest.max(event.at);
        let reached = (newest - late).div_euclid(hop) * hop;
        let (mut begin, mut misses) = (event.at.div_euclid(hop) * hop, false);
        while begin + every > event.at {
            if begin + every <= reached {
                misses = true;
            } else {
                *open.entry(begin).or_insert(0) += event.n;
            }
            begin -= hop;
        }
        missed += u64::from(misses);
        while let Some((begin, sum)) =
            open.first_key_value().map(|(b, s)| (*b, *s)).filter(|(b, _)| b + every <= reached)
        {
            out.push((begin, sum));
            open.remove(&begin);
        }
    }
    out.extend(open);
    (out, missed)
}

#[test]
fn windows_by_a_field_are_those_of_a_plain_program() {
    let schema = Schema::parse("at: i64, n: i64").unwrap();
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let (hop, many, late) = (1 + dice.below(20) as i64, 1 + dice.below(4) as i64, dice.below(60) as i64);
        let late = if seed % 5 == 0 { 0 } else { late };
        let mut clock = dice.below(200) as i64 - 100;
        let events: Vec<Event> = (0..dice.below(400))
            .map(|_| {
                clock += dice.below(5) as i64;
                Event { at: clock - dice.below(50) as i64, n: dice.below(1000) as i64 }
            })
            .collect();
        let every = hop * many;
        let list = format!("sum(n) as s every {every} on at hop {hop} late {late}");
        let query = Query::new(&schema, None, Some(&list)).unwrap();
        let live = Live::new(&query, &[], Trust::Own).unwrap();
        let (mut evaluator, mut windows) = (live.evaluator(), Windows::new(&query).unwrap());
        let bytes: Vec<u8> = events.iter().flat_map(|e| [e.at.to_le_bytes(), e.n.to_le_bytes()].concat()).collect();
        let mut found = Vec::new();
        let mut take = |rows: &Rows| {
            let word = |bytes: &[u8]| i64::from_le_bytes(bytes[..8].try_into().unwrap());
            found.extend(rows.bytes.chunks_exact(16).map(|row| (word(row), word(&row[8..]))));
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (part, behind) = rest.split_at((1 + dice.below(30)).min(rest.len() / 16) * 16);
            windows.add(&mut evaluator, Records::new(part, 16, 16), || 0, &mut take).unwrap();
            rest = behind;
        }
        windows.finish(&mut take).unwrap();
        let (expected, missed) = by_field(&events, every, hop, late);
        assert_eq!((found, windows.late()), (expected, missed), "{list}, seed {seed}");
        assert_eq!(windows.size(), 0, "what has ended keeps no memory");
    }
}

#[test]
fn windows_by_the_clock_end_when_time_goes_by_and_have_a_bound() {
    let schema = Schema::parse("n: i64").unwrap();
    let query = Query::new(&schema, None, Some("count() as c by n every 10s")).unwrap();
    let live = Live::new(&query, &[], Trust::Own).unwrap();
    let (mut evaluator, mut windows) = (live.evaluator(), Windows::new(&query).unwrap());
    let bytes: Vec<u8> = (0..3i64).flat_map(i64::to_le_bytes).collect();
    let (records, none) = (Records::new(&bytes, 8, 8), Records::new(&[], 8, 8));
    let second = 1_000_000_000;
    let mut ended = 0;
    let mut count = |rows: &Rows| ended += rows.bytes.len() / query.rows().unwrap().size() as usize;
    windows.add(&mut evaluator, records, || 5 * second, &mut count).unwrap();
    windows.add(&mut evaluator, none, || 9 * second, &mut count).unwrap();
    windows.add(&mut evaluator, records, || 12 * second, &mut count).unwrap();
    windows.add(&mut evaluator, none, || 21 * second, &mut count).unwrap();
    windows.finish(&mut count).unwrap();
    assert_eq!(ended, 6);
    let mut small = Windows::new(&query).unwrap().limit(2000);
    let bytes: Vec<u8> = (0..500i64).flat_map(i64::to_le_bytes).collect();
    let refused = small.add(&mut evaluator, Records::new(&bytes, 8, 8), || 1, |_| ());
    assert!(refused.unwrap_err().to_string().contains("than the 2000 bytes"));
}
