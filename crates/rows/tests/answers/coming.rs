//! What comes later than a guess, in pieces, or in more than one text.

use crate::{CSV, answered, ask, dice, input, refused};
use chappe_rows::{Ask, Format, Growing, Input, OnBad, Parser, Pattern, Style};
use chappe_synth::Schema;

#[test]
fn texts_that_grow_in_any_order_are_one_table() {
    let texts = ["sym,qty\nA,1\nB,2\r\n\"C\nD\",3\nA,", "\u{feff}qty,sym\n5,B\n6,\"q\"\"q\"\n7,A"];
    let query = "select sym, sum(qty) as s, count() as n by sym order sym";
    // The last line of the first one is cut off.
    let expected = "sym,s,n\nA,8,3\nB,7,2\n\"C\nD\",3,1\n\"q\"\"q\",6,1\n";
    let mut dice = dice::Dice(7);
    for _ in 0..200 {
        let mut out = Vec::new();
        let mut growing = Growing::new(ask(&CSV, query), Style::Csv, &mut out);
        let mut rest: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        assert_eq!(["one", "two"].map(|name| growing.begin(name)), [0, 1]);
        while rest.iter().any(|text| !text.is_empty()) {
            let text = dice.below(2);
            let (piece, left) = rest[text].split_at(dice.below(9).min(rest[text].len()));
            rest[text] = left;
            assert!(growing.piece(text, piece).unwrap());
        }
        let report = growing.finish().unwrap();
        assert_eq!((String::from_utf8(out).unwrap().as_str(), report.records), (expected, 7));
    }
    // What may go on is no record yet, and what is left out is none.
    let mut out = Vec::new();
    let mut growing = Growing::new(ask(&CSV, "select sum(b) as s"), Style::Csv, &mut out);
    assert_eq!(["one", "two", "three"].map(|name| growing.begin(name)), [0, 1, 2]);
    assert!(growing.piece(0, b"a,b\nx,1\ny,12").unwrap());
    assert!(growing.piece(1, b"a\nx\n").is_err());
    growing.leave_out(1);
    assert!(growing.piece(1, b"y\n").unwrap() && growing.piece(2, b"b\n5\n").unwrap());
    let report = growing.stop().unwrap();
    assert_eq!((report.halves, report.records, out), (vec!["one".to_owned()], 2, b"s\n6\n".to_vec()));
    let mut out = Vec::new();
    let mut growing = Growing::new(ask(&CSV, "select a"), Style::Csv, &mut out);
    let one = growing.begin("one");
    assert!(growing.piece(one, b"a\n1\n2\nha").unwrap());
    growing.begin_anew(one);
    assert!(growing.piece(one, b"b,a\n3,4\n5\n").unwrap_err().to_string().starts_with("one:3: it has 1 field"));
    assert!(growing.piece(one, b"b,a\n3,4\n5\n").is_err());
    drop(growing);
    assert_eq!(out, b"a\n1\n2\n");
}

#[test]
fn a_line_is_named_by_its_number_whatever_was_written_in_its_text() {
    let csv = "i,t\n1,\"say \"\"hi\"\"\nand \"\"bye\"\"\n\"\nx,y\n";
    let typed = |format: &Format, text: &str, pieces: usize| {
        let asked = Ask { schema: Some("i: i64, t: str".into()), ..ask(format, "select sum(i) as s, count(t) as n") };
        let schema = Schema::parse_columns("i: i64?, t: str").unwrap();
        let mut parser = Parser::new(format, &schema, OnBad::Stop).unwrap();
        let (first, second) = text.as_bytes().split_at(text.len() / pieces);
        let stopped =
            [(first, false), (second, false), (&[][..], true)].map(|(piece, end)| parser.piece(piece, end).stopped);
        (
            answered(&asked, vec![input("t", text)], Style::Csv).unwrap_err(),
            stopped.into_iter().flatten().next().unwrap(),
        )
    };
    let json = "{\"i\":1,\"t\":\"a\\nb\\n\\u000a\"}\n{\"i\":2,\"t\":\"\\n\"}\n{\"i\":\"x\"}\n";
    for pieces in 1..5 {
        let (said, stopped) = typed(&CSV, csv, pieces);
        assert!(said.starts_with("t:5: `i` is `x`") && stopped.starts_with("line 5: "), "{said} {stopped}");
        let (said, stopped) = typed(&Format::Json, json, pieces);
        assert!(said.starts_with("t:3: `i` is `\"x\"`") && stopped.starts_with("line 3: "), "{said} {stopped}");
    }
}

#[test]
fn a_number_that_would_lose_a_digit_is_none() {
    let text: String = "zip,x\n".to_owned() + &"10001,1.5\n".repeat(30_000) + "02139,2\n";
    let said = refused(&CSV, &text, "select zip");
    assert!(
        said.contains("t:30002: `zip` is `02139`, and no i64, which the first lines are: --schema 'zip: str'"),
        "{said}"
    );
    let said = refused(&CSV, text.replace("02139,2", "1,07.5"), "select x");
    assert!(said.contains("`x` is `07.5`, and no f64, which the first lines are: --schema 'x: str'"), "{said}");
    // Nor by the way out that is told.
    let said = refused(&CSV, text.replace("02139", "99999999999999999999"), "select zip");
    assert!(said.contains("which the first lines are: --schema 'zip: str' takes it"), "{said}");
    let typed = Ask { schema: Some("zip: i64".into()), ..ask(&CSV, "select max(zip) as z, last(zip) as l") };
    assert_eq!(answered(&typed, vec![input("t", &text)], Style::Csv).unwrap().0, "z,l\n10001,2139\n");
}

#[test]
fn input_that_is_no_text_is_refused_with_advice() {
    for (text, says) in [
        (&b"\x1f\x8b\x08\0\0\n"[..], "the first line: it is compressed, and no text: `zcat` (gzip)"),
        (b"\x28\xb5\x2f\xfd\x04\n", "`zstdcat` before it"),
        (b"\xff\xfea\0\n\0", "it is UTF-16: `iconv -f UTF-16 -t UTF-8`"),
    ] {
        for format in [CSV, Format::Json, Format::Lines(Pattern::parse("{a} {b}").unwrap())] {
            let said = refused(&format, text, "select *");
            assert!(said.contains(says), "{said}");
        }
    }
    let said = refused(&CSV, "a,b\r1,2\r", "select *");
    assert!(said.contains("its lines end with CR alone") && said.contains("`tr '\\r' '\\n'`"), "{said}");
    // What stands in a line is shown as it is.
    let said = refused(&Format::Lines(Pattern::parse("{a} {b}").unwrap()), "a\tb\n", "select *");
    assert!(said.contains("the pattern does not fit `a\\tb`;"), "{said}");
}

#[test]
fn a_column_without_a_value_at_first_is_what_comes_later() {
    let asked = |query: &str, files: &[(&str, &str)]| {
        answered(&ask(&CSV, query), files.iter().map(|(name, text)| input(name, text)).collect(), Style::Csv)
    };
    let files = [("one", "k,q\na,\n"), ("two", "k,q\nb,9\nb,10\n"), ("three", "q,k\n,c\n2.5,c\n")];
    // As texts 9 would be the greatest.
    let answer = asked("select max(q) as m, min(q) as l, count(q) as n", &files[..2]).unwrap().0;
    assert_eq!(answer, "m,l,n\n10,9,2\n");
    assert_eq!(asked("select k, q order q desc top 2", &files[..2]).unwrap().0, "k,q\nb,10\nb,9\n");
    assert_eq!(asked("where q > 9 select q", &files[..2]).unwrap().0, "q\n10\n");
    // The first value says what it is, as in one file.
    let said = asked("select max(q) as m", &files).unwrap_err();
    assert!(said.contains("three:3: `q` is `2.5`, and no i64"), "{said}");
    // What comes further on than anyone looks is refused, where the answer would be another one by texts.
    let empty: String = (0..40_000).map(|n| format!("{n},,,,,,\n")).collect();
    let text = format!("n,q,a,b,c,d,e\n{empty}1,9,,,,,\n2,10,,,,,\n");
    for query in
        ["select max(q) as m", "select q order q desc top 1", "where q == a select q", "select min(q) as m by n"]
    {
        let said = asked(query, &[("far", &text)]).unwrap_err();
        assert!(said.contains("far:40002: `q` is `9`, and had no value where columns are guessed"), "{query}: {said}");
        assert!(said.contains("the schema must say what it is, `q: f64` or `q: str`"), "{said}");
    }
    assert_eq!(asked("where n > 39999 select q", &[("far", &text)]).unwrap().0, "q\n");
    assert_eq!(asked("where q != null select q", &[("far", &text)]).unwrap().0, "q\n9\n10\n");
    for (said, most) in [("q: i64", "10"), ("q: str", "9")] {
        let asked = Ask { schema: Some(said.into()), ..ask(&CSV, "select max(q) as m") };
        assert_eq!(answered(&asked, vec![input("far", &text)], Style::Csv).unwrap().0, format!("m\n{most}\n"));
    }
    // What JSON quotes is a text; a member that comes later is one of numbers.
    let empty: String = (0..20_000).map(|_| "{\"a\":null,\"b\":1}\n").collect();
    let json = |last: &str| {
        let text = format!("{empty}{last}\n");
        answered(&ask(&Format::Json, "select max(a) as m"), vec![input("t", text)], Style::Csv)
    };
    assert_eq!(json("{\"a\":\"9\"}").unwrap().0, "m\n9\n");
    assert!(json("{\"a\":9}").unwrap_err().contains("t:20001: `a` is `9`, and had no value"));
}

#[test]
fn columns_that_a_later_file_alone_has_are_told() {
    let second = "c,a,\"d e\",b\n9,3,9,4\n\n9,5,9,6\n".to_owned() + &"0,0,0,0\n".repeat(20_000);
    let files = || vec![input("t", "a,b\n1,2\n"), input("u", &second), input("v", "b,c,a\n1,2,3\n")];
    for threads in [1, 3] {
        let ask = Ask { threads, ..ask(&CSV, "select * top 3") };
        let (rows, report) = answered(&ask, files(), Style::Csv).unwrap();
        assert_eq!(rows, "a,b\n1,2\n3,4\n5,6\n");
        let told = report.unread_told("--schema").unwrap();
        assert!(told.starts_with("columns that the first file has not were left out: `c` (first at u:2, "), "{told}");
        assert!(
            told.contains(", `d e` (first at u:2, ") && told.contains("comes first, or is asked by itself"),
            "{told}"
        );
        let (_, report) = answered(&Ask { query: "select *".into(), ..ask }, files(), Style::Csv).unwrap();
        assert_eq!([report.unread[0].count, report.unread[1].count], [20_003, 20_002]);
    }
    // A question that names columns wants no others.
    let (_, report) = answered(&ask(&CSV, "select a"), files(), Style::Csv).unwrap();
    assert_eq!(report.unread, []);
}

#[test]
fn no_more_is_read_when_that_is_said_and_the_answer_is_of_what_came() {
    /// A text, and then the word that no more is to be read.
    struct Until(&'static [u8]);
    impl std::io::Read for Until {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Err(std::io::Error::other(chappe_rows::Stopped));
            }
            self.0.read(room)
        }
    }
    let until = |text: &'static str| Input { name: "t".into(), bytes: Box::new(Until(text.as_bytes())) };
    let asked = |format: &Format, query: &str, text: &'static str| {
        let (rows, report) =
            answered(&ask(format, query), vec![until(text), input("u", "a\n9\n")], Style::Csv).unwrap();
        assert!(report.stopped);
        (rows, report.halves.len())
    };
    // Half a line is none.
    assert_eq!(asked(&CSV, "select sum(a) as s", "a\n1\n2\n34"), ("s\n3\n".into(), 1));
    assert_eq!(asked(&CSV, "select sum(a) as s", "a\n1\n2\n"), ("s\n3\n".into(), 0));
    assert_eq!(asked(&Format::Json, "select a", "{\"a\":1}\n{\"a\""), ("a\n1\n".into(), 1));
    // Nothing that can be asked has come.
    assert_eq!(asked(&CSV, "select sum(a) as s", "a\n"), (String::new(), 0));
    assert_eq!(asked(&CSV, "select sum(a) as s", ""), (String::new(), 0));
}
