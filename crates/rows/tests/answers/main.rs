//! What is asked is answered, whatever the text looks like and however it comes; and what cannot be answered is refused with its place.

mod agree;
mod coming;
#[path = "../../../synth/tests/dice/mod.rs"]
mod dice;
mod files;
mod fuzz;
mod layouts;
mod rules;

use chappe_rows::{Ask, Format, Input, OnBad, Parser, Pattern, Report, Style, Writer, columns, run, with_nulls};
use chappe_synth::Schema;
use std::io::Read;

const CSV: Format = Format::Csv(b',');

fn ask(format: &Format, query: &str) -> Ask {
    Ask {
        format: format.clone(),
        query: query.into(),
        params: Vec::new(),
        schema: None,
        on_bad: OnBad::Stop,
        memory: 1 << 24,
        threads: 1,
    }
}

fn input(name: &str, text: impl AsRef<[u8]>) -> Input {
    Input { name: name.into(), bytes: Box::new(std::io::Cursor::new(text.as_ref().to_vec())) }
}

fn answered(ask: &Ask, inputs: Vec<Input>, style: Style) -> Result<(String, Report), String> {
    let mut out = Vec::new();
    let report = run(ask, inputs, style, &mut out, &mut |_| ()).map_err(|e| e.to_string())?;
    Ok((String::from_utf8(out).unwrap(), report))
}

fn of(format: &Format, text: &str, query: &str) -> String {
    answered(&ask(format, query), vec![input("t", text)], Style::Csv).unwrap().0
}

fn refused(format: &Format, text: impl AsRef<[u8]>, query: &str) -> String {
    answered(&ask(format, query), vec![input("t", text)], Style::Csv).unwrap_err()
}

const TRADES: &str = "sym,px,qty,note\nA,10.5,2,x\nB,9,1,\nA,12.25,,\"\"\n,20,4,y\nC,11,5,x\n";

#[test]
fn the_output_of_a_query_is_the_input_of_another() {
    // A NULL of the only column is an empty line.
    let nulls = of(&CSV, "a,b\n1,\n2,5\n3,\n", "select b");
    assert_eq!(nulls, "b\n\n5\n\n");
    assert_eq!(of(&CSV, &nulls, "select count() as all, count(b) as n, sum(b) as s"), "all,n,s\n3,1,5\n");
    assert_eq!(of(&CSV, "b\r\n\r\n5\r\n", "select count() as n"), "n\n2\n");
    assert_eq!(of(&CSV, "a,b\n\n1,2\n", "select count() as n"), "n\n1\n");
    // No row at all has its names, and they can be asked.
    for query in
        ["where px > 99 select sum(qty * px) as s by sym", "where px > 99 select max(qty) as s", "select px as s top 0"]
    {
        let none = of(&CSV, TRADES, query);
        assert!(none == "sym,s\n" || none == "s\n", "{none}");
        assert_eq!(of(&CSV, &none, "where s > 1.5 select sum(s) as t, max(2.0 * s) as m"), "t,m\n");
        assert_eq!(of(&CSV, &none, "select count() as n by s"), "s,n\n");
        assert_eq!(of(&CSV, &none, "select math.bitAnd(s, 1) as t"), "t\n");
    }
    assert_eq!(of(&Format::Json, "", "where a > 1 select a, b.startsWith('x') as c"), "a,c\n");
    assert_eq!(of(&Format::Json, "", "select *"), "");
    let numbers = of(&CSV, "a\n1.0\n-1.0\n0.0\n", "select a / 0.0 as q");
    assert_eq!(of(&CSV, &numbers, "where q > 0.0 select count() as n"), "n\n1\n", "{numbers}");
}

#[test]
fn of_two_members_of_one_name_the_last_counts_with_all_in_it() {
    let ask = |text: &str| of(&Format::Json, text, "select `a.b` as b, a");
    assert_eq!(ask("{\"a\":{\"b\":1},\"a\":{\"b\":2}}\n"), "b,a\n2,\"{\"\"b\"\":2}\"\n");
    assert_eq!(ask("{\"a\":{\"b\":1},\"a\":{\"c\":2}}\n"), "b,a\n,\"{\"\"c\"\":2}\"\n");
    assert_eq!(ask("{\"a\":{\"b\":1},\"a\":5}\n"), "b,a\n,5\n");
    assert_eq!(of(&Format::Json, "{\"a.b\":7,\"a\":{\"b\":1}}\n", "select `a.b` as b"), "b\n7\n");
}

#[test]
fn columns_are_guessed_by_records_however_long_those_are() {
    let long = "x".repeat(if cfg!(debug_assertions) { 300_000 } else { 3_000_000 });
    let text = format!("a,b,c\n1,2.5,{long}\n2,3.5,y\n");
    assert_eq!(of(&CSV, &text, "select sum(a) as a, sum(b) as b"), "a,b\n3,6.0\n");
    // What came later is said with the way to read it.
    let two = |second: &str| {
        let ask = ask(&CSV, "select max(q) as m");
        answered(&ask, vec![input("one", "q\n1\n"), input("two", second)], Style::Csv).unwrap_err()
    };
    let said = two("q\n2.5\n");
    assert!(
        said.starts_with("two:2: `q` is `2.5`, and no i64, which the first lines are: --schema 'q: f64' takes it; "),
        "{said}"
    );
    assert!(two("q\nx\n").contains("--schema 'q: str' takes it"));
}

#[test]
fn a_line_that_is_no_record_is_kept_as_one_without_values() {
    let kept = |format: &Format, text: &str, query: &str| {
        let (out, report) =
            answered(&Ask { on_bad: OnBad::Keep, ..ask(format, query) }, vec![input("t", text)], Style::Csv).unwrap();
        (out, report.records, report.bad)
    };
    let json = "{\"a\":1,\"b\":\"x\"}\nno json\n[2]\n{\"a\":3,\"b\":}\n{\"a\":4}\n";
    assert_eq!(kept(&Format::Json, json, "select a, b"), ("a,b\n1,x\n,\n,\n,\n4,\n".into(), 5, 3));
    let lines = "1 [x]\nother\n2 [y\n3 [z]\n";
    for pattern in ["{a} [{b}]", r"^(?P<a>[0-9]+) \[(?P<b>.*)\]$"] {
        let format = Format::Lines(Pattern::parse(pattern).unwrap());
        assert_eq!(kept(&format, lines, "select a, b"), ("a,b\n1,x\n,\n,\n3,z\n".into(), 4, 2), "{pattern}");
        assert_eq!(kept(&format, lines, "select count() as n, count(a) as a"), ("n,a\n4,2\n".into(), 4, 2));
        // In pieces, and where the schema has no NULL they are left out and counted.
        let with = |fields: &str| {
            let schema = Schema::parse_columns(fields).unwrap();
            let mut parser = Parser::new(&format, &schema, OnBad::Keep).unwrap();
            let parsed = parser.piece(lines.as_bytes(), true);
            (parsed.records.len() / schema.size() as usize, parsed.left_out, parser.report().bad)
        };
        assert_eq!((with("a: i64?, b: str"), with("a: i64, b: str")), ((4, 0, 2), (2, 2, 2)));
    }
    let no_utf8 = b"1 [x]\n\xff [y]\n";
    let format = Format::Lines(Pattern::parse(r"(?P<a>\S+) \[(?P<b>.)\]").unwrap());
    let asked = Ask { on_bad: OnBad::Keep, ..ask(&format, "select count() as n, count(b) as b") };
    assert_eq!(answered(&asked, vec![input("t", no_utf8)], Style::Csv).unwrap().0, "n,b\n2,1\n");
}

#[test]
fn a_bad_field_of_a_kept_record_is_null() {
    let keep = |text: &str| {
        answered(&Ask { on_bad: OnBad::Keep, ..ask(&CSV, "select *") }, vec![input("t", text)], Style::Csv)
    };
    let (out, report) = keep("a,b,c\n1,\"x\"y,3\n2,\"z\",4\n").unwrap();
    assert_eq!((out.as_str(), report.bad), ("a,b,c\n1,,3\n2,z,4\n", 1));
    let typed = Ask { schema: Some("a: f64".into()), ..ask(&CSV, "select a") };
    let said = answered(&typed, vec![input("t", "a\n1e400\n")], Style::Csv).unwrap_err();
    assert!(said.contains("`a` is `1e400`, and no f64"), "{said}");
    let said = answered(
        &Ask { schema: Some("a: i64".into()), ..ask(&CSV, "select a, b") },
        vec![input("t", "a,b\n\"\",1\n")],
        Style::Csv,
    )
    .unwrap_err();
    assert!(
        said.contains("`a` is an empty text, \"\", and no i64: write nothing for NULL") && !said.contains("i64?"),
        "{said}"
    );
}

#[test]
fn lines_that_are_no_objects_say_what_to_do() {
    for (text, says) in [
        ("[{\"a\":1},{\"a\":2}]\n", "the first line: it is a list, and an object a line is read: `jq -c '.[]'`"),
        ("{\"a\":1} {\"a\":2}\n", "something stands behind the object, and one object a line is read"),
        ("7\n", "expected an object: `7`"),
    ] {
        let said = refused(&Format::Json, text, "select a");
        assert!(said.contains(says), "{said}");
    }
    let said = refused(&Format::Json, "{\"a\":1}\n[1]\n", "select a");
    assert!(said.starts_with("t:2: it is a list"), "{said}");
}

#[test]
fn a_sum_over_text_is_refused_at_the_text() {
    for query in ["select sum(note * px)", "select px * note", "select note - 1"] {
        let text = refused(&CSV, TRADES, query);
        assert!(text.contains("a number is needed here, and this is a string"), "{query}: {text}");
    }
}

#[test]
fn rows_are_filtered_computed_and_added_up() {
    let t = |query| of(&CSV, TRADES, query);
    assert_eq!(t("where px > 10 select sym, sum(qty * px) as v by sym"), "sym,v\nA,21.0\n,80.0\nC,55.0\n");
    assert_eq!(
        t("select sum(qty), count() as n, count(qty) as q by sym order sym"),
        "sym,sum_qty,n,q\nA,2,2,1\nB,1,1,1\nC,5,1,1\n,4,1,1\n"
    );
    assert_eq!(t("where sym == 'A'"), "sym,px,qty,note\nA,10.5,2,x\nA,12.25,,\"\"\n");
    assert_eq!(t("select px + qty as s, note order s desc top 2"), "s,note\n24.0,y\n16.0,x\n");
    assert_eq!(
        t("select min(px), max(px), mean(px) as m, quantile(px, 0.5) as h, distinct(sym) as d"),
        "min_px,max_px,m,h,d\n9.0,20.0,12.55,11.0,3\n"
    );
    assert_eq!(t("select first(sym) as f, last(sym) as l, min(note) as a, max(note) as b"), "f,l,a,b\nA,C,\"\",y\n");
    assert_eq!(t("where qty == null || note == null select count()"), "count\n2\n");
    assert_eq!(t("where note.contains('x') || sym < 'B' select sym, qty top 2"), "sym,qty\nA,2\nA,\n");
    assert_eq!(t("where px > 100 select sum(px)"), "sum_px\n");
    assert_eq!(t("select count(*) as n"), "n\n5\n");
}

#[test]
fn a_column_that_few_values_make_text_is_named_with_the_way_out() {
    let text = "a,px\n1,2.5\n2,dear\n3,4\n4,5\n5,6\n";
    let said = refused(&CSV, text, "select sum(px) as s");
    assert!(said.contains("`sum` is not for strings"), "{said}");
    assert!(said.contains("`px` is text, as `dear` stands in it: --schema 'px: f64' --on-bad skip"), "{said}");
    assert!(!refused(&CSV, text, "select sum(py)").contains("--schema"));
    assert!(!refused(&CSV, "a,px\n1,x\n2,dear\n3,4\n", "select sum(px)").contains("--schema"));
}

#[test]
fn members_that_no_column_was_made_of_are_told() {
    let first = "{\"a\":1}\n".repeat(1000);
    let later = "{\"a\":2,\"x\":{\"y\":3}}\n{\"b c\":5,\"a\":4}\n\n{\"a\":6,\"x\":null}\n";
    let all = format!("{first}{later}{}", "{\"a\":0}\n".repeat(50_000));
    for threads in [1, 3] {
        let ask = Ask { threads, ..ask(&Format::Json, "select * top 3") };
        let (rows, report) = answered(&ask, vec![input("t", &all)], Style::Csv).unwrap();
        assert_eq!(rows, "a\n1\n1\n1\n");
        let told = report.unread_told("--schema").unwrap();
        assert_eq!(
            told,
            "members that the first objects have not were left out: `x` (first at t:1001, 2 times), `b c` (t:1002); --schema 'x: str' reads one"
        );
    }
    // A question that names one is told how it is read.
    let wrong = refused(&Format::Json, &all, "select sum(x) as s");
    assert!(wrong.contains("there is no field `x`") && wrong.contains("--schema 'x: f64'"), "{wrong}");
    // Another form is not read as values.
    let wrong = answered(&ask(&CSV, "select count() as n"), vec![input("t", "a\n1\n"), input("u", &all)], Style::Csv);
    assert!(wrong.unwrap_err().contains("u: the first line: it is a JSON object"));
    let unread = |ask: &Ask, text: &str| answered(ask, vec![input("t", text)], Style::Csv).unwrap().1.unread.len();
    // A question that names columns wants no others.
    assert_eq!(unread(&ask(&Format::Json, "select a"), &all), 0);
    let said = Ask { schema: Some("x: str, `b c`: i64".into()), ..ask(&Format::Json, "select *") };
    assert_eq!(unread(&said, &all), 0);
    let many: String = (0..200).map(|n| format!("{{\"m{n}\":1}}\n")).collect();
    let (_, report) = answered(&ask(&Format::Json, "select *"), vec![input("t", first + &many)], Style::Csv).unwrap();
    assert_eq!((report.unread.len(), report.more_unread), (10, 190));
    assert!(report.unread_told("x").unwrap().contains(", others (190 times); x 'm0: str' reads one"));
}

#[test]
fn a_csv_without_a_line_of_names_has_numbers_or_those_of_a_schema() {
    let bare = |schema: Option<&str>, text: &str, query: &str| {
        let read = schema.map(|text| chappe_synth::Schema::parse_text(text).unwrap().0);
        let format = Format::bare(b',', read.as_ref());
        let ask = Ask { schema: schema.map(str::to_owned), ..ask(&format, query) };
        answered(&ask, vec![input("t", text), input("u", text)], Style::Csv).map(|(rows, _)| rows)
    };
    let text = "\"a, \"\"b\"\"\",1,x\nc,2,y\n";
    assert_eq!(
        bare(None, text, "select c2, c1").unwrap(),
        "c2,c1\n1,\"a, \"\"b\"\"\"\n2,c\n".to_owned() + "1,\"a, \"\"b\"\"\"\n2,c\n"
    );
    assert_eq!(bare(Some("k: str, n: f64"), text, "select sum(n) as s, count(c3) as m").unwrap(), "s,m\n6.0,4\n");
    // Plain names are those of their columns.
    assert_eq!(bare(Some("c2: str"), text, "select c2 top 1").unwrap(), "c2\n1\n");
    let wrong = bare(Some("a: str, b: i64, c: str, d: str"), text, "select a").unwrap_err();
    assert!(wrong.contains("t: the first line: it has 3 columns, and there are names for 4"), "{wrong}");
    let wrong = bare(None, "1,2\n3\n", "select c1").unwrap_err();
    assert!(wrong.contains("t:2: it has 1 field, and the first line 2"), "{wrong}");
    assert!(bare(None, "", "select c1").unwrap_err().contains("nothing to read in t, u"));
}

#[test]
fn null_is_neither_true_nor_false() {
    let text = "a,b\n1,2\n,2\n1,\n,\n";
    let count = |condition: &str| {
        of(&CSV, text, &format!("where {condition} select count() as n")).lines().nth(1).unwrap_or("0").to_owned()
    };
    // What SQL says of the four rows.
    for (condition, expected) in [
        ("a == 1", "2"),
        ("!(a == 2)", "2"),
        ("a == 1 || b == 2", "3"),
        ("a == 1 && b == 2", "1"),
        ("!(a == 2 && b == 2)", "2"),
        ("!(a == 1 || b == 1)", "0"),
        ("!(a == 2 || b == 1)", "1"),
        ("a in [1, 7]", "2"),
        ("!(a in [7])", "2"),
        ("0 in [b]", "0"),
        ("!(1 in [b, 1])", "0"),
        ("!(7 in [b, 8])", "2"),
        ("(a == 1) == (b == 2)", "1"),
        ("(a == null ? 1 : a) == 1", "4"),
        ("a != null && b != null", "1"),
        ("a + b > 0", "1"),
        ("!(a + b > 5)", "1"),
    ] {
        assert_eq!(count(condition), expected, "{condition}");
    }
    let sums = of(&CSV, text, "select b, sum(a) as s, mean(a) as m, count(a) as n by b order b");
    assert_eq!(sums, "b,s,m,n\n2,1,1.0,1\n,1,1.0,1\n");
    let none = of(&CSV, text, "where a == null select sum(b + a) as s, min(a) as m, distinct(a) as d, first(a) as f");
    assert_eq!(none, "s,m,d,f\n,,0,\n");
}

#[test]
fn csv_has_quotes_line_ends_and_marks_as_it_likes() {
    let text =
        "\u{feff}\"na\"\"me\",\"two\nlines\",x\r\n\"a,\"\"b\"\"\",\"c\r\nd\",1\r\n\r\n\"\",,\"2\"\r\nplain,e\"f,3";
    let all = "\"na\"\"me\",\"two\nlines\",x\n\"a,\"\"b\"\"\",\"c\r\nd\",1\n\"\",,2\nplain,\"e\"\"f\",3\n";
    assert_eq!(of(&CSV, text, "select *"), all);
    assert_eq!(of(&CSV, text, "select sum(x) as s"), "s\n6\n");
    assert_eq!(of(&CSV, "a,a,,b c\n1,2,3,4\n", "select a, a_2, column3, `b c`"), "a,a_2,column3,b c\n1,2,3,4\n");
    assert_eq!(of(&Format::Csv(b';'), "a;b\n1,5;2\n", "select a, b"), "a,b\n\"1,5\",2\n");
    assert_eq!(of(&CSV, "a,b\n1,2", "select b"), "b\n2\n");
}

#[test]
fn columns_are_guessed_and_can_be_said() {
    let text = "zip,n,x,b,big\n01234,1,1,true,9223372036854775808\n99999,2,2.5,false,1\n";
    let shown = columns(&ask(&CSV, "select *"), vec![input("t", text)]).unwrap();
    assert_eq!(shown, "zip: str, n: i64, x: f64, b: bool, big: str");
    let said = Ask { schema: Some("n: f64, zip: i64, big: u64".into()), ..ask(&CSV, "select zip, n, big") };
    assert_eq!(
        answered(&said, vec![input("t", text)], Style::Csv).unwrap().0,
        "zip,n,big\n1234,1.0,9223372036854775808\n99999,2.0,1\n"
    );
}

#[test]
fn json_is_read_member_by_member() {
    let text = r#"{"a":1,"b":"x\u00e9\n\"","deep":{"a":[1,{"a":2}]},"c":null}
{"b":"y","a":-2.5,"new":true}

{"c":"z","deep":[1, 2]}
"#;
    let t = |query| answered(&ask(&Format::Json, query), vec![input("t", text)], Style::Json).unwrap().0;
    assert_eq!(
        t("select a, b"),
        "{\"a\":1.0,\"b\":\"xé\\n\\\"\"}\n{\"a\":-2.5,\"b\":\"y\"}\n{\"a\":null,\"b\":null}\n"
    );
    assert_eq!(t("where c != null select c, deep"), "{\"c\":\"z\",\"deep\":\"[1, 2]\"}\n");
    assert_eq!(t("where new select count() as n"), "{\"n\":1}\n");
    assert_eq!(t("where deep.contains('{') select deep"), "{\"deep\":\"{\\\"a\\\":[1,{\\\"a\\\":2}]}\"}\n");
}

#[test]
fn members_of_objects_within_are_columns_by_their_path() {
    let text = r#"{"a":{"b":1,"c":{"d":"x\u00e9"},"no":2},"a.b":7,"t":"u"}
{"t":"v","a":{"c":{"d":"y"},"b":2.5}}
{"a":5,"t":"w"}
{"a":{"c":3,"b":null}}
"#;
    let t = |query| answered(&ask(&Format::Json, query), vec![input("t", text)], Style::Csv).unwrap().0;
    // A member of that very name comes first.
    assert_eq!(t("select `a.b` as b, `a.c.d` as d, t"), "b,d,t\n7.0,xé,u\n2.5,y,v\n,,w\n,,\n");
    assert_eq!(t("where `a.b` > 2 select count() as n, max(`a.c.d`) as m"), "n,m\n2,y\n");
    assert_eq!(
        of(&Format::Json, text.lines().nth(1).unwrap(), "select a, `a.c.d` as d"),
        "a,d\n\"{\"\"c\"\":{\"\"d\"\":\"\"y\"\"},\"\"b\"\":2.5}\",y\n"
    );
    assert!(refused(&Format::Json, text, "select a, `a.c.d`").contains("ask for one of them"));
    assert!(refused(&Format::Json, text, "select `b.c`").contains("there is no field `b.c`"));
}

#[test]
fn lines_are_read_by_a_pattern() {
    let log = "10.0.0.1 - ann [29/Nov/2026] \"GET /a HTTP/1.1\" 200 17\n10.0.0.2 - - [29/Nov/2026] \"GET /b HTTP/1.1\" 404 -\r\n";
    let format = Format::Lines(Pattern::parse("{ip} {} {user} [{time}] \"{request}\" {status} {bytes}").unwrap());
    assert_eq!(
        of(&format, log, "select ip, user, request, status, bytes"),
        "ip,user,request,status,bytes\n10.0.0.1,ann,GET /a HTTP/1.1,200,17\n10.0.0.2,,GET /b HTTP/1.1,404,\n"
    );
    assert_eq!(of(&format, log, "where status >= 400 select count(), sum(bytes) as b"), "count,b\n1,\n");
    let wrong = refused(&format, format!("{log}nonsense\n"), "select ip");
    assert!(wrong.starts_with("t:3: the pattern does not fit `nonsense`"), "{wrong}");
}

#[test]
fn files_of_one_kind_are_one_table() {
    let two = || vec![input("one", "a,b\n1,x\n"), input("none", ""), input("two", "b,c,a\ny,7,2")];
    assert_eq!(answered(&ask(&CSV, "select a, b"), two(), Style::Csv).unwrap().0, "a,b\n1,x\n2,y\n");
    assert!(
        answered(&ask(&CSV, "select sym"), vec![input("one", "sym\n1\n"), input("two", "syn\n1\n")], Style::Csv)
            .unwrap_err()
            .contains("two: there is no column `sym`: is it `syn`?")
    );
    assert_eq!(
        answered(&ask(&CSV, "select a"), vec![input("x", "")], Style::Csv).unwrap_err(),
        "there is nothing to read in x"
    );
    assert_eq!(of(&CSV, "a,b\n", "select a, b"), "a,b\n");
}

/// Gives a text in pieces of other sizes each time.
struct Pieces(Vec<u8>, usize, usize);

impl Read for Pieces {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        self.2 = self.2 * 5 % 7919 + 1;
        let n = self.2.min(room.len()).min(self.0.len() - self.1);
        room[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
        self.1 += n;
        Ok(n)
    }
}

#[test]
fn the_answer_is_the_same_however_the_text_comes_and_whoever_reads_it() {
    let mut text = String::from("k,n,x,t\n");
    let mut seed = 7u64;
    for row in 0..12_000u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let t = if seed >> 60 == 3 { format!("\"a,{}\n\"\"\"", seed >> 50) } else { format!("t{}", seed >> 55) };
        text += &format!("k{},{row},{}.{:02},{t}\n", seed >> 33 & 31, seed >> 40 & 1023, seed >> 35 & 63);
    }
    assert!(text.len() > 3 << 16, "more than one part");
    for query in [
        "where n % 7 != 3 select sum(n), sum(x) as x, first(t) as f, last(t) as l, distinct(t) as d, quantile(x, 0.9) as q, min(t) as m by k order k",
        "select k, last(n), first(n) as g by k",
        "where x > 1000 && t.startsWith('t1') select n, t",
        "select max(x), last(t) as l, count()",
        "select n, x, t order x desc, n top 50",
    ] {
        let one = answered(&ask(&CSV, query), vec![input("t", &text)], Style::Csv).unwrap();
        assert!(one.0.lines().count() > 1, "{query}");
        let pieces = Input { name: "t".into(), bytes: Box::new(Pieces(text.clone().into_bytes(), 0, 1)) };
        let in_pieces = answered(&ask(&CSV, query), vec![pieces], Style::Csv).unwrap();
        let many = answered(&Ask { threads: 3, ..ask(&CSV, query) }, vec![input("t", &text)], Style::Csv).unwrap();
        // All are sums of quarters of hundredths below 2^53: their order can be seen in the last digits alone.
        for (name, other) in [("pieces", in_pieces), ("threads", many)] {
            assert_eq!(other.1, one.1, "{query}, {name}");
            for (a, b) in one.0.lines().zip(other.0.lines()) {
                let same = a.split(',').zip(b.split(',')).all(|(a, b)| {
                    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if (a - b).abs() <= a.abs() * 1e-12)
                });
                assert!(same, "{query}, {name}:\n{a}\n{b}");
            }
            assert_eq!(one.0.lines().count(), other.0.lines().count(), "{query}, {name}");
        }
    }
}

#[test]
fn a_text_in_pieces_has_the_same_records_wherever_it_is_cut() {
    let csv = "\u{feff}a,b\r\n1,\"x\"\"\n,\"\r\n\r\n2,\n\"3\",\"\"\"\"\"\"\n4,q\"q\nx,5\n6,\"last\"";
    let json = "{\"a\":1,\"b\":\"x\\n\"}\n\n{\"b\":null}\n{\"a\":}\n{\"a\":2,\"b\":\"y\"}";
    let schema = with_nulls(&Schema::parse_columns("a: i64, b: str").unwrap()).unwrap();
    for (format, text) in [(CSV, csv), (Format::Json, json)] {
        let parsed = |cuts: &[usize]| {
            let mut parser = Parser::new(&format, &schema, OnBad::Skip).unwrap();
            let (mut out, mut writer, mut from) = (Vec::new(), Writer::new(Style::Json, &schema), 0);
            for to in cuts.iter().copied().chain([text.len()]) {
                let parsed = parser.piece(&text.as_bytes()[from..to], to == text.len());
                writer.rows(&parsed.records, parsed.texts.as_ref().map_or(&[], |t| t), &mut out);
                assert_eq!(parsed.stopped, None);
                from = to;
            }
            (String::from_utf8(out).unwrap(), parser.report().clone())
        };
        let whole = parsed(&[]);
        assert!(whole.1.bad == 1 && whole.1.records >= 3, "{whole:?}");
        for first in 0..text.len() {
            for second in [first, (first + 1).min(text.len() - 1), (first + 7).min(text.len() - 1)] {
                assert_eq!(parsed(&[first, second]), whole, "{text:?} cut at {first} and {second}");
            }
        }
        let each: Vec<usize> = (0..text.len()).collect();
        assert_eq!(parsed(&each), whole, "byte by byte");
    }
}

#[test]
fn bad_lines_stop_are_left_out_or_are_kept() {
    let text = "a,b\n1,2\nx,3\n4\n5,6,7\n\"open,8\n9,10\n";
    let with = |on_bad| {
        answered(
            &Ask { on_bad, schema: Some("a: i64".into()), ..ask(&CSV, "select a, b") },
            vec![input("t", text)],
            Style::Csv,
        )
    };
    assert_eq!(
        with(OnBad::Stop).unwrap_err(),
        "t:3: `a` is `x`, and no i64; --on-bad skip leaves such lines out, keep takes NULL for what is wrong"
    );
    let (rows, report) = with(OnBad::Skip).unwrap();
    assert_eq!((rows.as_str(), report.bad, report.records), ("a,b\n1,2\n9,10\n", 4, 2));
    let shown = [
        "t:3: `a` is `x`, and no i64",
        "t:4: it has 1 field, and the first line 2",
        "t:5: it has 3 fields, and the first line 2",
        "t:6: a quote is not closed",
    ];
    assert_eq!(report.shown, shown);
    let (rows, report) = with(OnBad::Keep).unwrap();
    assert_eq!((rows.lines().collect::<Vec<_>>(), report.bad), (vec!["a,b", "1,2", ",3", "4,", "5,6", ",", "9,10"], 4));
    let wrong = refused(&CSV, "a,b\n\"x\"y,1\n", "select a");
    assert!(wrong.starts_with("t:2: something stands behind the quote"), "{wrong}");
    let wrong = refused(&Format::Json, "{\"a\":1}\n{\"a\":}\n", "select a");
    assert!(wrong.starts_with("t:2: column 6: expected value: `{\"a\":}`"), "{wrong}");
    let wrong = refused(&Format::Json, "{\"a\":1}\n[1]\n", "select a");
    assert!(wrong.starts_with("t:2: it is a list"), "{wrong}");
}

#[test]
fn hostile_texts_are_read_or_refused_in_bounds() {
    // Deep JSON is skipped without a stack, and is text where it is asked for.
    let deep = format!("{{\"a\":1,\"d\":{}{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(of(&Format::Json, &deep, "select a"), "a\n1\n");
    many_columns(3_000);
    // Zero bytes, and what is no UTF-8.
    let raw = b"a,b\n\0\xff,1\n";
    let (rows, _) = answered(&ask(&CSV, "select a, b"), vec![input("t", raw)], Style::Json).unwrap();
    assert_eq!(rows, "{\"a\":\"\\u0000\u{fffd}\",\"b\":1}\n");
    // A number beyond 64 bits in a column of numbers.
    let wrong = refused(&CSV, format!("a\n{}99999999999999999999\n", "1\n".repeat(150_000)), "select sum(a)");
    assert!(wrong.starts_with("t:150002: `a` is `99999999999999999999`, and no i64"), "{wrong}");
}

/// Of so many columns a few are wanted.
fn many_columns(count: usize) {
    let names: Vec<String> = (0..count).map(|n| format!("c{n}")).collect();
    let wide = format!("{}\n{}8\n", names.join(","), "7,".repeat(count - 1));
    let (some, last) = (count / 2, count - 1);
    assert_eq!(of(&CSV, &wide, &format!("select c{some}, c{last}")), format!("c{some},c{last}\n7,8\n"));
    assert!(refused(&CSV, &wide, "select *").contains("at most 1024 fields: name those that are wanted"));
}

#[test]
#[ignore = "storm: a million columns, some seconds with a memchr that is not optimised"]
fn a_million_columns_are_read() {
    many_columns(1_000_000);
}

#[test]
fn a_value_that_does_not_fit_is_refused_with_its_line() {
    let most = i64::MAX;
    let text = format!("n,k\n{most},a\n0,a\n1,a\n");
    let wrong = refused(&CSV, &text, "where k == 'a' select sum(n) as s by k");
    assert!(wrong.starts_with("`s` of k=a does not fit 64 bits"), "{wrong}");
    assert_eq!(of(&CSV, &text, "select sum(n - 1) as s"), format!("s\n{}\n", most - 2));
    let wrong = refused(&CSV, &text, "select sum(n) as s by k every 3");
    assert!(wrong.starts_with("`s` of window=0, k=a does not fit 64 bits"), "{wrong}");
    // Only the final value must fit, whatever the order and the threads.
    let (least, rise, fall) = (i64::MIN, format!("{most}\n").repeat(9_000), format!("-{most}\n").repeat(9_000));
    for text in
        [format!("n\n{rise}{fall}{least}\n"), format!("n\n{least}\n{fall}{rise}"), format!("n\n{fall}{rise}{least}\n")]
    {
        for threads in [1, 2, 5] {
            let ask = Ask { threads, ..ask(&CSV, "select sum(n) as s") };
            assert_eq!(answered(&ask, vec![input("t", &text)], Style::Csv).unwrap().0, format!("s\n{least}\n"));
        }
    }
    let unsigned = Ask { schema: Some("n: u64".into()), ..ask(&CSV, "select sum(n) as s") };
    let of_unsigned = |text: &str| answered(&unsigned, vec![input("t", text)], Style::Csv).map(|(rows, _)| rows);
    assert_eq!(of_unsigned("n\n18446744073709551614\n1\n").unwrap(), "s\n18446744073709551615\n");
    assert!(of_unsigned("n\n18446744073709551615\n1\n").unwrap_err().starts_with("`s` does not fit 64 bits"));
    let halves: String = (0..20_000).map(|_| format!("{},k0\n", most / 15_000)).collect();
    let parts = Ask { threads: 2, ..ask(&CSV, "select sum(n) as s by k") };
    let wrong = answered(&parts, vec![input("t", format!("n,k\n{halves}"))], Style::Csv).unwrap_err();
    assert!(wrong.starts_with("`s` of k=k0 does not fit 64 bits"), "{wrong}");
    let many: String = "k\n".to_owned() + &(0..50_000).map(|n| format!("{n}\n")).collect::<String>();
    let small = Ask { memory: 1 << 16, ..ask(&CSV, "select count() by k") };
    let wrong = answered(&small, vec![input("t", &many)], Style::Csv).unwrap_err();
    assert!(
        wrong.contains("groups and their values need more than the 65536 bytes") && wrong.contains("--memory"),
        "{wrong}"
    );
    let small = Ask { memory: 1 << 16, ..ask(&CSV, "select k order k") };
    assert!(
        answered(&small, vec![input("t", &many)], Style::Csv)
            .unwrap_err()
            .contains("to be ordered need more than 65536")
    );
    // As many as are wanted need no room for all.
    let top = Ask { memory: 1 << 17, ..ask(&CSV, "select k order k desc top 2") };
    assert_eq!(answered(&top, vec![input("t", &many)], Style::Csv).unwrap().0, "k\n49999\n49998\n");
}

#[test]
fn windows_end_one_behind_the_other() {
    let text = "ts,k,n\n1,a,1\n4,b,2\n9,a,3\n12,a,4\n8,b,5\n31,b,6\n2,a,7\n,a,8\n";
    let late =
        answered(&ask(&CSV, "select k, sum(n) as s by k every 10 on ts late 5"), vec![input("t", text)], Style::Csv);
    let (rows, report) = late.unwrap();
    assert_eq!((rows.as_str(), report.late), ("window,k,s\n0,a,4\n0,b,7\n10,a,4\n30,b,6\n", 2));
    assert_eq!(of(&CSV, text, "select sum(n) as s every 4 hop 2"), "window,s\n-2,3\n0,10\n2,18\n4,26\n6,15\n");
    assert_eq!(of(&CSV, "t,n\n0.1,1\n0.2,2\n0.6,4\n", "select sum(n) as s every 0.5 on t"), "window,s\n0.0,3\n0.5,4\n");
    assert_eq!(
        of(&CSV, text, "where n > 5 select k, max(n) as m by k every 4 order m desc top 1"),
        "window,k,m\n4,a,8\n"
    );
}

#[test]
fn times_are_read_compared_put_into_windows_and_written() {
    let text =
        "at,n\n2026-11-29T07:00:01Z,1\n2026-11-29T08:00:09+01:00,2\n1795935610.5,3\n,4\n29/Nov/2026:07:00:31 +0000,5\n";
    let with = |query: &str, style| {
        let asked = Ask { schema: Some("at: time".into()), ..ask(&CSV, query) };
        answered(&asked, vec![input("t", text)], style).unwrap().0
    };
    assert_eq!(
        with("where at > time('2026-11-29T07:00:05Z') select at, n order at desc", Style::Csv),
        "at,n\n2026-11-29T07:00:31Z,5\n2026-11-29T07:00:10.5Z,3\n2026-11-29T07:00:09Z,2\n"
    );
    assert_eq!(
        with("select sum(n) as s, max(at) as m every 10s on at", Style::Json),
        "{\"window\":\"2026-11-29T07:00:00Z\",\"s\":3,\"m\":\"2026-11-29T07:00:09Z\"}\n\
         {\"window\":\"2026-11-29T07:00:10Z\",\"s\":3,\"m\":\"2026-11-29T07:00:10.5Z\"}\n\
         {\"window\":\"2026-11-29T07:00:30Z\",\"s\":5,\"m\":\"2026-11-29T07:00:31Z\"}\n"
    );
    let said = |query: &str| {
        let asked = Ask { schema: Some("at: time".into()), ..ask(&CSV, query) };
        answered(&asked, vec![input("t", text)], Style::Csv).unwrap_err()
    };
    assert!(said("select count() every 10 on at").contains("`at` is a time: write one, as in every 10s"));
    assert!(said("where at > time('soon')").contains("this is no time"));
    let wrong = answered(
        &Ask { schema: Some("n: time".into()), ..ask(&CSV, "select n") },
        vec![input("t", "n\n2026-02-30\n")],
        Style::Csv,
    );
    assert!(wrong.unwrap_err().starts_with("t:2: `n` is `2026-02-30`, and no time"));
}

#[test]
fn a_mistake_in_a_query_is_pointed_at() {
    for (query, says) in [
        ("where prise > 10", "there is no field `px`"),
        ("select px, sum(qty) by sym", "columns and aggregates do not mix"),
        ("select syn", "is it `sym`? (line 1, column 8)\n  select syn\n         ^^^"),
        ("select sum(qty) by sim", "is it `sym`?"),
        ("select sym order sim", "there is no column `sim` in the list: is it `sym`?"),
        ("select meen(px)", "there is no function `meen`: is it `mean`?"),
        ("select avg(px)", "write `mean`"),
        ("select median(px)", "write `quantile(x, 0.5)`"),
        ("px > 10", "a query begins with `where` or `select`"),
        ("select px where px > 10", "`where` stands before `select`"),
        ("select quantile(px, 2)", "from 0 to 1"),
        ("select sum(sym)", "`sum` is not for strings"),
        ("select sym top x", "a number is missing here"),
        ("where sym > 3", "a string is needed here"),
        ("select sym, qty as sym", "two columns `sym`"),
        ("select qty every 10", "`every` is for aggregates"),
        ("select count() every 0", "nothing is in a window of 0"),
        ("select count() every 10 hop 3", "a whole number of hops"),
        ("select count() every x", "so many records (every 1000)"),
        ("select count() every 10s hop 5", "a time is missing here"),
        ("select count() every 10 on note", "windows are over numbers"),
        ("select count() every 10 on pc", "is it `px`?"),
        ("select count() every 10s late 5s", "only windows by a field"),
        ("select count() every 10000 hop 1", "it may be in 1000"),
        ("where px > 10s", "a time stands behind `every` alone"),
        ("where sym = 'A'", "write `==`"),
        ("where $min > 3", "parameter `$min` has no value"),
    ] {
        let says =
            if query.contains("prise") { "there is no field `prise`: there are sym, px, qty, note" } else { says };
        let said = refused(&CSV, TRADES, query);
        assert!(said.contains(says), "{query}: {said}");
    }
}
