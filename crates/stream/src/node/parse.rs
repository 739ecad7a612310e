//! Text into records: CSV, JSON lines, and lines by a pattern, by the readers of [`chappe_rows`].
//!
//! The columns are those of a schema, which need not have all that the text has. Without one they are guessed from the begin of the file that the stage
//! before reads; what the guess was is said at the end, so that it can be kept. Any field may be empty: numbers are `i64?` and so on behind this stage.
//! Texts of any length (`str`) lie beside the records ([`Block::texts`]).
//!
//! A record with something wrong ends the graph with its line (`onbad=stop`), is left out and counted as dropped (`skip`), or is kept with NULL for what is
//! wrong (`keep`).

use crate::stage::{Fault, Out, Stage};
use crate::types::Block;
use chappe_rows::{Parsed, Parser};

/// Makes records of text.
pub struct Parse {
    /// Does it.
    pub parser: Parser,
    /// How the stage is written with the columns that were guessed.
    pub guessed: Option<String>,
}

impl Parse {
    fn hand_on(&mut self, parsed: Parsed, again: bool, out: &mut dyn Out) -> Result<(), Fault> {
        let Parsed { records, texts, left_out, stopped, is_record } = parsed;
        if left_out > 0 && stopped.is_none() {
            out.drop_frames(left_out);
        }
        if !records.is_empty() {
            out.put(Block { texts, again, ..Block::bytes(records) })?;
        }
        match stopped {
            None => Ok(()),
            Some(what) if !is_record => Err(Fault(what)),
            Some(what) => Err(Fault(format!(
                "{what}; onbad=skip leaves such records out, onbad=keep takes NULL for what is wrong"
            ))),
        }
    }
}

impl Stage for Parse {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        if block.is_empty() {
            // Time goes by, and nothing comes: windows may end.
            return out.put(block);
        }
        let parsed = self.parser.piece(block.octets(), false);
        self.hand_on(parsed, block.again, out)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        if out.is_cut() {
            if self.parser.has_rest() {
                out.drop_frames(1);
            }
            return Ok(());
        }
        let parsed = self.parser.piece(&[], true);
        self.hand_on(parsed, false, out)
    }

    fn says(&self) -> Option<String> {
        let report = self.parser.report();
        let mut says = format!("{} records", report.records);
        if report.bad > 0 {
            says += &format!(", {} with something wrong: {}", report.bad, report.shown.join("; "));
            says += if report.is_full() { "; ..." } else { "" };
        }
        if let Some(told) = report.unread_told("a schema with") {
            says += &format!("; {told}");
        }
        if let Some(guessed) = &self.guessed {
            says += &format!("; with the columns that it has guessed: {guessed}");
        }
        Some(says)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Graph, Report, RunError};
    use std::path::Path;

    /// Runs a text in which `@NAME` stands for a file of a directory; what `@out` then has.
    fn ran(dir: &Path, text: &str) -> Result<(String, Report), RunError> {
        let report = crate::run(&text.replace('@', &format!("{}/", dir.display())))?;
        Ok((std::fs::read_to_string(dir.join("out")).unwrap_or_default(), report))
    }

    fn with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(dir.path().join(name), text).unwrap());
        dir
    }

    const TRADES: &str = "ts,sym,px,qty\n1,A,10.5,2\n2,B,9.0,1\n3,A,12.25,\n4,\"C, D\",11.0,5\n";

    #[test]
    fn a_csv_is_filtered_and_added_up_by_symbol() {
        let dir = with(&[("in.csv", TRADES)]);
        let (out, report) = ran(
            dir.path(),
            "file \"@in.csv\" | parse csv | where \"px > 10\" | select \"sym, sum(qty * px) as v, count() as n by sym\" | csv | lines \"@out\"",
        )
        .unwrap();
        assert_eq!(out, "sym,v,n\nA,21.0,2\n\"C, D\",55.0,1\n");
        let says = report.node("parse").unwrap().says.clone().unwrap();
        assert_eq!(
            says,
            "4 records; with the columns that it has guessed: parse csv \"ts: i64, sym: str, px: f64, qty: i64\""
        );
        // With something else between values, there and back.
        let text = "file \"@in.csv\" | parse csv \"sym: str, px: f64\" | csv delimiter=\";\" | lines \"@out\"";
        let (semicolons, _) = ran(dir.path(), text).unwrap();
        assert_eq!(semicolons, "sym;px\nA;10.5\nB;9.0\nA;12.25\nC, D;11.0\n");
        let quoted = semicolons.replace("C, D", "\"C; D\"");
        std::fs::write(dir.path().join("semi"), &quoted).unwrap();
        let text = "file \"@semi\" | parse csv delimiter=\";\" | csv delimiter=\";\" | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, quoted);
        // As it says, and by columns that are said: others are skipped.
        let text =
            "lines \"@in.csv\" | parse csv \"qty: i64, sym: str[4]\" | where \"qty != null\" | json | lines \"@out\"";
        let (out, report) = ran(dir.path(), text).unwrap();
        assert_eq!(out, "{\"qty\":2,\"sym\":\"A\"}\n{\"qty\":1,\"sym\":\"B\"}\n{\"qty\":5,\"sym\":\"C, D\"}\n");
        assert_eq!(report.node("parse").unwrap().says.as_deref(), Some("4 records"));
    }

    #[test]
    fn log_lines_become_json_and_lines_again() {
        let log = "10.0.0.1 - ann [29/Nov/2026] \"GET /a HTTP/1.1\" 200 17\n10.0.0.2 - - [29/Nov/2026] \"GET /b HTTP/1.1\" 404 -\n";
        let dir = with(&[("log", log)]);
        let pattern = r#""{ip} {} {user} [{time}] \"{request}\" {status} {bytes}""#;
        let text = format!("lines \"@log\" | parse lines {pattern} | json | lines \"@out\"");
        assert_eq!(
            ran(dir.path(), &text).unwrap().0,
            "{\"ip\":\"10.0.0.1\",\"user\":\"ann\",\"time\":\"29/Nov/2026\",\"request\":\"GET /a HTTP/1.1\",\"status\":200,\"bytes\":17}\n\
             {\"ip\":\"10.0.0.2\",\"user\":null,\"time\":\"29/Nov/2026\",\"request\":\"GET /b HTTP/1.1\",\"status\":404,\"bytes\":null}\n"
        );
        let text = format!("file \"@log\" | queue 2 | parse lines {pattern} | lines {pattern} | lines \"@out\"");
        assert_eq!(ran(dir.path(), &text).unwrap().0, log);
        let json = "{\"a\":1,\"t\":\"x\\u00e9\"}\n{\"t\":\"y\",\"new\":true}\n";
        std::fs::write(dir.path().join("json"), json).unwrap();
        let text = "lines \"@json\" | parse json | select \"t, a, new\" | csv | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, "t,a,new\nxé,1,\ny,,true\n");
        // What the first objects have not is told.
        std::fs::write(dir.path().join("more"), "{\"a\":1}\n".repeat(1000) + "{\"a\":2,\"late\":3}\n").unwrap();
        let (_, report) =
            ran(dir.path(), "lines \"@more\" | parse json | select \"sum(a) as s\" | csv | lines \"@out\"").unwrap();
        let says = report.node("parse").unwrap().says.clone().unwrap();
        assert!(says.contains("1001 records; members that the first objects have not were left out: `late` (line 1001); a schema with 'late: str' reads one"), "{says}");
    }

    #[test]
    fn bad_records_stop_are_left_out_and_counted_or_are_kept() {
        let dir = with(&[("in", "a,b\n1,2\nx,3\n4\n5,6\n")]);
        let text =
            |on_bad: &str| format!("file \"@in\" | parse csv \"a: i64, b: i64\" onbad={on_bad} | csv | lines \"@out\"");
        let why = ran(dir.path(), &text("stop")).unwrap_err().to_string();
        assert!(why.contains("line 3: `a` is `x`, and no i64; onbad=skip leaves such records out"), "{why}");
        let (out, report) = ran(dir.path(), &text("skip")).unwrap();
        assert_eq!((out.as_str(), report.dropped()), ("a,b\n1,2\n5,6\n", 2));
        let says = report.node("parse").unwrap().says.clone().unwrap();
        assert_eq!(
            says,
            "2 records, 2 with something wrong: line 3: `a` is `x`, and no i64; line 4: it has 1 field, and the first line 2"
        );
        let (out, report) = ran(dir.path(), &text("keep")).unwrap();
        assert_eq!((out.as_str(), report.dropped()), ("a,b\n1,2\n,3\n4,\n5,6\n", 0));
    }

    #[test]
    fn a_number_in_a_column_that_was_guessed_without_a_value_is_no_text() {
        let empty: String = (0..60_000).map(|n| format!("{n},,\n")).collect();
        let dir = with(&[("in", &format!("n,q,r\n{empty}1,9,x\n2,10,y\n")), ("short", "n,q\n1,\n2,\n")]);
        let why =
            ran(dir.path(), "file \"@in\" | parse csv | select \"max(q) as m\" | csv | lines \"@out\"").unwrap_err();
        let why = why.to_string();
        assert!(why.contains("line 60002: `q` is `9`, and had no value where columns are guessed"), "{why}");
        let text =
            "file \"@in\" | parse csv \"q: i64, r: str\" | select \"max(q) as m, max(r) as r\" | csv | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, "m,r\n10,y\n");
        assert_eq!(ran(dir.path(), "file \"@short\" | parse csv | csv | lines \"@out\"").unwrap().0, "n,q\n1,\n2,\n");
        // A first record that is longer than people look says what the columns are, and a postal code keeps its digits.
        let long = format!("a,b\n1,{}\n2,y\n03,z\n", "x".repeat(300_000));
        std::fs::write(dir.path().join("long"), &long).unwrap();
        let text = "file \"@long\" | parse csv | select \"a\" | csv | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, "a\n1\n2\n03\n");
    }

    #[test]
    fn a_text_that_is_cut_off_has_no_half_a_record() {
        let rows: String = (0..5_000).map(|n| format!("{n},x\n")).collect();
        let json: String = (0..5_000).map(|n| format!("{{\"a\":{n}}}\n")).collect();
        let dir = with(&[("csv", &format!("a,b\n{rows}")), ("json", &json)]);
        for (file, form) in [("csv", "csv"), ("json", "json")] {
            for behind in ["take 2", "queue 2 | take 2", "tee (null) | take 2", "take 2 | queue 2"] {
                let text = format!(
                    "file \"@{file}\" | parse {form} \"a: i64\" | {behind} | select \"sum(a) as s\" | csv | lines \"@out\""
                );
                let (out, _) = ran(dir.path(), &text).unwrap();
                assert_eq!(out, "s\n1\n", "{text}");
            }
        }
        // What has no line end at the end of its file is a line.
        std::fs::write(dir.path().join("csv"), "a\n1\n2").unwrap();
        let text = "file \"@csv\" | parse csv \"a: i64\" | select \"sum(a) as s\" | csv | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, "s\n3\n");
    }

    #[test]
    fn a_failed_graph_leaves_only_what_came_before() {
        let rows: String = (0..3000).map(|n| format!("{n}\n")).collect();
        let dir = with(&[("in", &format!("a\n{rows}x\n9\n"))]);
        let text = "file \"@in\" | parse csv \"a: i64\" | csv | lines \"@out\"";
        let why = ran(dir.path(), text).unwrap_err().to_string();
        assert!(why.contains("line 3002: `a` is `x`"), "{why}");
        // The sink that a failed graph leaves behind has no more than what came.
        let out = std::fs::read_to_string(dir.path().join("out")).unwrap_or_default();
        assert!(format!("a\n{rows}").starts_with(&out));
    }

    #[test]
    fn sums_come_window_by_window_and_rows_in_order() {
        let dir = with(&[("in", "ts,k,n\n1,a,1\n4,b,2\n9,a,3\n12,a,4\n8,b,5\n31,b,6\n2,a,7\n,a,8\n")]);
        let by = |list: &str| format!("file \"@in\" | parse csv | select \"{list}\" | csv | lines \"@out\"");
        let (out, report) = ran(dir.path(), &by("sum(n) as s by k every 10 on ts late 5")).unwrap();
        assert_eq!(out, "window,k,s\n0,a,4\n0,b,7\n10,a,4\n30,b,6\n");
        assert_eq!(report.dropped(), 2);
        let says = report.node("select").unwrap().says.clone().unwrap();
        assert_eq!(says, "2 records came when a window of theirs had ended, or had no time");
        assert_eq!(ran(dir.path(), &by("max(n) as m every 3")).unwrap().0, "window,m\n0,3\n3,6\n6,8\n");
        assert_eq!(ran(dir.path(), &by("k, n order n desc top 2")).unwrap().0, "k,n\na,8\na,7\n");
        assert_eq!(ran(dir.path(), &by("k, n top 2")).unwrap().0, "k,n\na,1\nb,2\n");
        // One text is one question, as `chappe query` has it: windows count what `where` leaves out.
        let text =
            "file \"@in\" | parse csv | query \"where k == 'a' select sum(n) as s every 3\" | csv | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, "window,s\n0,4\n3,4\n6,15\n");
        let text = "file \"@in\" | parse csv header=no \"a: str, b: str, c: str\" | query \"where b == 'b'\" | csv | lines \"@out\"";
        assert_eq!(ran(dir.path(), text).unwrap().0, "a,b,c\n4,b,2\n8,b,5\n31,b,6\n");
        let why = ran(dir.path(), &by("count() by n\" memory=\"1")).unwrap_err().to_string();
        assert!(why.contains("`memory` of `select` is a number"), "{why}");
    }

    #[test]
    fn a_text_of_any_length_goes_where_it_can() {
        let dir = with(&[("in.csv", TRADES)]);
        let wrong = |behind: &str| {
            let text = format!("file \"{}/in.csv\" | parse csv | {behind}", dir.path().display());
            Graph::new(&text).map(|g| format!("{g:?}")).unwrap_err().to_string()
        };
        for behind in ["tube \"x\"", "records \"x\"", "hash | null", "cast bytes | null", "buffer 9 | null", "print"] {
            let said = wrong(behind);
            assert!(said.contains("say how long texts may be, as in `sym: str[8]`"), "{behind}: {said}");
        }
        assert!(wrong("where \"px > 1\" @other | null").contains("are in different processes"));
        let (out, _) = ran(
            dir.path(),
            "file \"@in.csv\" | parse csv | tee (null) | skip 1 | take 2 | unbuffer | select \"sym, px\" | csv | lines \"@out\"",
        )
        .unwrap();
        assert_eq!(out, "sym,px\nB,9.0\nA,12.25\n");
        let (_, report) = ran(dir.path(), "file \"@in.csv\" | parse csv | field qty | where2: count | null").unwrap();
        assert_eq!(report.node("where2").unwrap().says.as_deref(), Some("4 frames"));
    }

    #[test]
    fn a_mistake_names_the_way_that_helps() {
        let dir = with(&[("in.csv", TRADES)]);
        let wrong = |text: &str| {
            let text = text.replace('@', &format!("{}/", dir.path().display()));
            Graph::new(&text).map(|g| format!("{g:?}")).unwrap_err().to_string()
        };
        let said = wrong("file \"@in.csv\" | where \"px > 1\" | null");
        assert!(said.contains("`where` takes records, and this is bytes: `parse csv`, `parse json` or"), "{said}");
        for (text, says) in [
            ("stdin | parse csv | null", "say what they are, as in parse csv \"sym: str, px: f64\""),
            ("stdin | parse | null", "of what: csv, json or lines"),
            ("stdin | parse lines \"{a}{b}\" | null", "nothing stands between {a} and {b}"),
            ("stdin | parse lines \"{a}\" \"b: str\" | null", "there is no column `b`"),
            ("stdin | parse csv \"a: i6\" | null", "the schema: "),
            ("stdin | parse json delimiter=\";\" | null", "only csv has a delimiter"),
            ("file \"@in.csv\" | parse csv | json delimiter=\";\" | print", "only csv has a delimiter"),
            ("sine 1 | parse csv | null", "`parse` takes lines or bytes, and this is f32"),
            ("file \"@in.csv\" | parse csv | lines \"{sim}\" | null", "there is no field `sim`: is it `sym`?"),
            ("file \"@in.csv\" | parse csv | select \"sum(px) every 5s on ts\" | null", "has a unit of its own"),
        ] {
            let said = wrong(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
