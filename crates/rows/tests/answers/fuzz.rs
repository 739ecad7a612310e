//! No text makes a reader panic, or read beside its bytes; and whatever pieces a text comes in, the records and what is wrong with them are the same.

use crate::dice::Dice;
use chappe_rows::{Ask, Format, Input, OnBad, Parser, Pattern, Report, Style, Writer, run};
use chappe_synth::Schema;

const CSV: [&[u8]; 20] = [
    b"\"",
    b"\"",
    b"\"\"",
    b",",
    b",",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b"a",
    b"b",
    b"1",
    b"-2",
    b".5",
    b" ",
    b"\0",
    b"\xff",
    b"true",
    b"9223372036854775807",
    b"\xef\xbb\xbf",
];
const JSON: [&[u8]; 26] = [
    b"{\"a\":",
    b"{\"b\":",
    b",\"a\":",
    b",\"c\":",
    b"}\n",
    b"}\n",
    b"}",
    b"{",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\"x\\u00e9\"",
    b"\"y\"",
    b"\\",
    b"null",
    b"1",
    b"-",
    b".5",
    b"e3",
    b"true",
    b"\n",
    b" ",
    b"\xff",
    b"99999999999999999999",
];
const LINES: [&[u8]; 12] = [b"[", b"]", b"] ", b" ", b"-", b"a", b"1", b"\n", b"\n", b"\r\n", b"\0", b"\xff"];

/// What is read, and how texts for it are thrown.
struct Form {
    format: Format,
    tokens: &'static [&'static [u8]],
    schemas: Vec<Schema>,
}

fn forms() -> Vec<Form> {
    let lines = Pattern::parse("[{a}] {b} {c}").unwrap();
    let all = [(Format::Csv(b','), &CSV[..]), (Format::Json, &JSON), (Format::Lines(lines), &LINES)];
    let schemas = ["a: i64?, b: str, c: f64?", "b: str, a: bool?", "a: i8, c: str[3]", "c: u16?"];
    let schemas: Vec<Schema> = schemas.iter().map(|s| Schema::parse_columns(s).unwrap()).collect();
    all.into_iter().map(|(format, tokens)| Form { format, tokens, schemas: schemas.clone() }).collect()
}

/// What comes of a text in pieces: its records as JSON, the report, and why it has stopped.
fn parsed(format: &Format, schema: &Schema, on_bad: OnBad, pieces: &[&[u8]]) -> (Vec<u8>, Report, Option<String>) {
    let (mut out, mut writer) = (Vec::new(), Writer::new(Style::Json, schema));
    let mut parser = Parser::new(format, schema, on_bad).unwrap();
    let mut why = None;
    for (at, piece) in pieces.iter().enumerate() {
        let parsed = parser.piece(piece, at + 1 == pieces.len());
        // Each text is read where its record says that it lies.
        writer.rows(&parsed.records, parsed.texts.as_ref().map_or(&[], |t| t), &mut out);
        why = why.or(parsed.stopped);
    }
    (out, parser.report().clone(), why)
}

fn throw(many: u64, seed: u64) {
    let (forms, mut dice) = (forms(), Dice(seed));
    let (mut records, mut bad) = (0, 0);
    for round in 0..many {
        let form = dice.of(&forms);
        let mut text =
            if form.tokens.len() == CSV.len() && dice.below(8) > 0 { b"a,b,c\n".to_vec() } else { Vec::new() };
        for _ in 0..dice.below(24) {
            let token: &&[u8] = dice.of(form.tokens);
            text.extend_from_slice(token);
        }
        let (schema, on_bad) = (dice.of(&form.schemas), *dice.of(&[OnBad::Stop, OnBad::Skip, OnBad::Keep]));
        let whole = parsed(&form.format, schema, on_bad, &[&text]);
        let (first, second) = text.split_at(dice.below(text.len() + 1));
        let pieces = parsed(&form.format, schema, on_bad, &[first, second, b""]);
        assert_eq!(pieces, whole, "{:?}, cut at {}", String::from_utf8_lossy(&text), first.len());
        (records, bad) = (records + whole.1.records, bad + whole.1.bad);
        if round % 64 == 0 {
            asked(form, &text, &mut dice);
        }
    }
    assert!(records > many / 16 && bad > many / 16, "{records} records, {bad} bad ones of {many} texts");
}

/// The same text, asked: it is answered or refused.
fn asked(form: &Form, text: &[u8], dice: &mut Dice) {
    let queries = [
        "select *",
        "select count(), distinct(b) by a",
        "where a > 0 select b, c order c top 3",
        "select min(b) every 2",
    ];
    let ask = Ask {
        format: form.format.clone(),
        query: (*dice.of(&queries)).into(),
        params: Vec::new(),
        schema: None,
        on_bad: *dice.of(&[OnBad::Stop, OnBad::Skip, OnBad::Keep]),
        memory: 1 << 20,
        threads: 1,
    };
    let input = Input { name: "t".into(), bytes: Box::new(std::io::Cursor::new(text.to_vec())) };
    let _ = run(&ask, vec![input], *dice.of(&[Style::Csv, Style::Json, Style::Table]), &mut Vec::new(), &mut |_| ());
}

#[test]
fn texts_thrown_together_are_read_or_refused_however_they_come() {
    throw(5_000, 7);
}

#[test]
#[ignore = "storm: ten million texts"]
fn ten_million_texts_thrown_together_are_read_or_refused() {
    std::thread::scope(|scope| (0..2).for_each(|seed| _ = scope.spawn(move || throw(5_000_000, 100 + seed))));
}
