//! Files that change while they are read, and lines without an end.

use crate::{CSV, answered, ask, input};
use chappe_rows::{Format, Input, MAX_RECORD_TEXT, OnBad, Parser, Style};
use chappe_synth::Schema;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// A file that something happens to once its first bytes have been read.
struct Meanwhile<F> {
    file: File,
    act: Option<F>,
}

impl<F: FnOnce()> Read for Meanwhile<F> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        // Few at a time, so that much is left.
        let some = to.len().min(1000);
        let read = self.file.read(&mut to[..some]);
        if let Some(act) = self.act.take() {
            act();
        }
        read
    }
}

/// `n` from 0 to 999, all of four digits, and what a question says of it while this happens to the file.
fn with(act: impl FnOnce(&Path) + Send + 'static) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.csv");
    let text: String = (0..1000).map(|n| format!("{n:04},x\n")).collect();
    std::fs::write(&path, format!("nnnn,k\n{text}")).unwrap();
    let file = File::open(&path).unwrap();
    let bytes = Box::new(Meanwhile { file, act: Some(move || act(&path)) });
    let ask = chappe_rows::Ask { schema: Some("nnnn: i64".into()), ..ask(&CSV, "select count() as n, max(nnnn) as m") };
    answered(&ask, vec![Input { name: "n.csv".into(), bytes }], Style::Csv).map(|(out, _)| out)
}

#[test]
fn a_file_that_changes_while_it_is_read_is_what_it_was_where_it_was_read() {
    assert_eq!(with(|_| ()).unwrap(), "n,m\n1000,999\n");
    let grown = with(|path| {
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"5000,y\n").unwrap();
    });
    assert_eq!(grown.unwrap(), "n,m\n1001,5000\n");
    // What another file of its name has is not mixed into it.
    let replaced = with(|path| {
        let other = path.with_extension("new");
        std::fs::write(&other, "nnnn,k\n7777,z\n").unwrap();
        std::fs::rename(other, path).unwrap();
    });
    assert_eq!(replaced.unwrap(), "n,m\n1000,999\n");
    let shrunk = |to: u64| with(move |path| File::options().write(true).open(path).unwrap().set_len(to).unwrap());
    // The head, and 200 rows of 7 bytes; half a row is told.
    assert_eq!(shrunk(7 + 1400).unwrap(), "n,m\n200,199\n");
    let half = shrunk(7 + 1400 + 3).unwrap_err();
    assert!(half.starts_with("n.csv:202: it has 1 field, and the first line 2"), "{half}");
    // A thousand bytes were read: 141 rows, and one but for its line end.
    assert_eq!(shrunk(0).unwrap(), "n,m\n142,141\n");
}

fn endless(cases: &[(Format, &'static str)]) {
    for (format, begin) in cases {
        let endless = std::io::Cursor::new(*begin).chain(std::io::repeat(b'x'));
        let bytes = Box::new(endless);
        let said = answered(&ask(format, "select a"), vec![Input { name: "t".into(), bytes }], Style::Csv).unwrap_err();
        let line = 1 + begin.matches('\n').count();
        assert!(said.starts_with(&format!("t:{line}: this record has more than {MAX_RECORD_TEXT} bytes")), "{said}");
    }
}

#[test]
#[ignore = "storm: of each form, some seconds with a memchr that is not optimised"]
fn a_line_of_any_form_without_an_end_is_refused_within_its_bound() {
    endless(&[(CSV, "a\n\""), (CSV, ""), (Format::Json, ""), (Format::Json, "{\"a\":1}\n")]);
}

#[test]
fn a_line_without_an_end_is_refused_within_its_bound() {
    endless(&[(CSV, "a\n")]);
    let schema = Schema::parse_columns("a: str").unwrap();
    let mut parser = Parser::new(&CSV, &schema, OnBad::Skip).unwrap();
    let piece = vec![b'x'; MAX_RECORD_TEXT / 4];
    assert!(parser.piece(b"a\n1\n", false).stopped.is_none());
    let parsed = (0..5).map(|_| parser.piece(&piece, false)).find(|parsed| parsed.stopped.is_some()).unwrap();
    assert!(!parsed.is_record && parsed.stopped.unwrap().starts_with("line 3: this record has more than"));
    // The record before the longest is read.
    let long = format!("a,b\n1,{}\n2,y\n", "x".repeat(MAX_RECORD_TEXT / 2));
    let (out, _) = answered(&ask(&CSV, "select sum(a) as s"), vec![input("t", long)], Style::Csv).unwrap();
    assert_eq!(out, "s\n3\n");
}
