//! Aggregates over windows are those of a plain program: every kind over every type, by keys and without, whatever the windows and parts are,
//! and whichever engine computes them. Numbers are such that each sum is exact.

use crate::dice::Dice;
use chappe_synth::{Form, Live, Query, Records, Schema, Summary, Trust};

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
    let list = if keyed { format!("{LIST} by k, s") } else { LIST.to_owned() };
    let query = Query::new(&schema, Some("i % 3 != 0 && x < 200.0"), Some(&list)).unwrap();
    let live = Live::new(&query, &[], Trust::Own).unwrap();
    if compiled {
        live.compile(if keyed { Form::Project } else { Form::Fold });
    }
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.bytes(&schema)).collect();
    let (mut evaluator, mut summary) = (live.evaluator(), Summary::new(&query, Some(every as u64)).unwrap());
    let mut found = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (part, behind) = rest.split_at((1 + dice.below(700)).min(rest.len() / size) * size);
        let part = Records::new(part, size, size);
        summary.add(&mut evaluator, part, |rows| found.push(rows.bytes.clone())).unwrap();
        rest = behind;
    }
    if !rows.len().is_multiple_of(every) {
        found.push(summary.finish().bytes);
    }
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
