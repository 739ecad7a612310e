//! Records as people and programs read them: fields by a tube's schema, as lines of JSON or as CSV; and which of them, and what of each.

use anyhow::Result;
use chappe::rows::{self, Input, Style, Writer, clock};
use chappe::synth::{Live, Ordered, Query, Records, Schema, Summary, SummaryError, Trust, Value, Windows};
use std::io::{Error, ErrorKind, Read, Write};
use std::time::Duration;

/// How records are written and read.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line with an object for each record.
    Json,
    /// Comma-separated values, with a line of names first.
    Csv,
}

/// All of a query in one text, and how its rows are written.
#[derive(Clone, Debug)]
pub struct Whole {
    /// `where ... select ...`.
    pub text: String,
    /// How.
    pub style: Style,
    /// So many bytes for groups and rows that are kept.
    pub memory: usize,
}

/// A parameter of an expression, `NAME=VALUE`. What the value is, a number or a text, the expression says.
///
/// # Errors
/// What is wrong with the text.
pub fn param(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is no parameter: write NAME=VALUE"))?;
    let name = name.strip_prefix('$').unwrap_or(name).to_owned();
    Ok((name, Value::Text(value.as_bytes().to_vec())))
}

/// Reads records from text, each as many bytes as the schema says.
pub fn encode(
    schema: &Schema,
    format: Format,
    input: impl Read + Send + 'static,
    record: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let format = match format {
        Format::Json => rows::Format::Json,
        Format::Csv => rows::Format::Csv(b','),
    };
    rows::records(&format, schema, Input { name: "stdin".into(), bytes: Box::new(input) }, record)
}

/// So many records are added up together at most.
const BATCH: usize = 512;

/// Writes records as text, or as they are; those that are asked for, and of them what is.
pub struct Output<W: Write> {
    out: W,
    /// None: as they are.
    writer: Option<Writer>,
    /// The names of columns are the first line.
    has_head: bool,
    is_table: bool,
    /// The name of a column before them.
    pub first: Option<&'static str>,
    /// Bytes of what is written.
    row: usize,
    size: usize,
    query: Option<chappe::synth::Evaluator>,
    windows: Option<Windows>,
    ordered: Option<Ordered>,
    memory: usize,
    /// Records that are to be added up together.
    batch: Vec<u8>,
    selects: bool,
    rows: Vec<u8>,
    text: Vec<u8>,
}

impl<W: Write> Output<W> {
    /// For records of a schema: which (`condition`), what of them (`list`), and how written.
    ///
    /// # Errors
    /// What makes no sense, with the place.
    pub fn new(
        out: W,
        schema: &Schema,
        condition: Option<&str>,
        list: Option<&str>,
        params: &[(String, Value)],
        format: Option<Format>,
    ) -> Result<Output<W>> {
        let asked = match (condition, list) {
            (None, None) => None,
            _ => Some(Query::new(schema, condition, list)?),
        };
        let format = if list.is_some() { format.or(Some(Format::Json)) } else { format };
        let style = format.map(|f| if f == Format::Json { Style::Json } else { Style::Csv });
        Output::made(out, schema, asked.map(|asked| (asked, list.is_some())), params, (style, Summary::MEMORY))
    }

    /// The same for a query in one text.
    ///
    /// # Errors
    /// What makes no sense, with the place.
    pub fn of_query(out: W, schema: &Schema, whole: &Whole, params: &[(String, Value)]) -> Result<Output<W>> {
        let query = Query::parse(schema, &whole.text)?;
        Output::made(out, schema, Some((query, true)), params, (Some(whole.style), whole.memory))
    }

    /// For a query, and whether rows are made of records; a style, and the memory that there is.
    fn made(
        out: W,
        schema: &Schema,
        asked: Option<(Query, bool)>,
        params: &[(String, Value)],
        (style, memory): (Option<Style>, usize),
    ) -> Result<Output<W>> {
        let (mut query, mut windows, mut ordered, mut rows, mut selects) = (None, None, None, schema.clone(), false);
        if let Some((asked, has_list)) = asked {
            let params: Vec<(&str, Value)> = params.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
            if let Some(of) = asked.rows().filter(|_| has_list) {
                rows = of.clone();
            }
            windows = Windows::new(&asked).map(|windows| windows.limit(memory));
            ordered = if windows.is_some() { None } else { Ordered::new(&asked) };
            selects = has_list;
            query = Some(Live::new(&asked, &params, Trust::Own)?.evaluator());
        }
        Ok(Output {
            out,
            writer: style.map(|style| Writer::new(style, &rows)),
            has_head: style == Some(Style::Csv),
            is_table: style == Some(Style::Table),
            first: None,
            row: rows.size() as usize,
            size: schema.size() as usize,
            query,
            windows,
            ordered,
            memory,
            batch: Vec::new(),
            selects,
            rows: Vec::new(),
            text: Vec::new(),
        })
    }

    /// A record: it is written, or added up, or not asked for. Answers whether it was written, or is to be added up: its condition is asked then.
    ///
    /// # Errors
    /// The system's; a record that is too short for the schema; what does not fit a sum.
    pub fn record(&mut self, tag: Option<&str>, record: &[u8], line: bool) -> std::io::Result<bool> {
        if record.len() < self.size {
            let what = format!(
                "a record of {} bytes, and by the tube's schema each has {}: `chappe recv --count 1 NAME` takes it out as it is",
                record.len(),
                self.size
            );
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
        if self.windows.is_some() {
            self.batch.extend_from_slice(&record[..self.size]);
            if self.batch.len() >= BATCH * self.size {
                self.add_up()?;
            }
            return Ok(true);
        }
        let one = Records::new(record, self.size, self.size);
        match &mut self.query {
            None => self.write(tag, record, line)?,
            Some(query) if self.selects => {
                self.rows.clear();
                if query.project(one, &mut self.rows) == 0 {
                    return Ok(false);
                }
                if let Some(ordered) = &mut self.ordered {
                    ordered.add(&self.rows, &[]);
                    if ordered.size() > self.memory {
                        let what = format!("the rows to be ordered need more than {} bytes", self.memory);
                        return Err(Error::new(ErrorKind::OutOfMemory, what));
                    }
                    return Ok(false);
                }
                let row = std::mem::take(&mut self.rows);
                self.write(tag, &row, line)?;
                self.rows = row;
            }
            Some(query) => {
                if !query.test(record) {
                    return Ok(false);
                }
                self.write(tag, record, line)?;
            }
        }
        self.out.flush()?;
        Ok(true)
    }

    /// Adds up the records that have been handed over: before nothing comes for a while, or they would be seen late.
    ///
    /// # Errors
    /// The system's; what does not fit a sum.
    pub fn add_up(&mut self) -> std::io::Result<()> {
        if self.batch.is_empty() { Ok(()) } else { self.time_goes_by() }
    }

    /// Whether rows are made of many records, or wait for them.
    pub fn keeps(&self) -> bool {
        self.windows.is_some() || self.ordered.is_some()
    }

    /// How long it is until a window ends by the clock, if one is open.
    pub fn ends_in(&self) -> Option<Duration> {
        self.windows.as_ref()?.ends_in(clock()).map(Duration::from_nanos)
    }

    /// Nothing has come for a while: windows may have ended.
    ///
    /// # Errors
    /// The system's.
    pub fn time_goes_by(&mut self) -> std::io::Result<()> {
        let (mut ended, size) = (Vec::new(), self.size);
        if let (Some(query), Some(windows)) = (&mut self.query, &mut self.windows) {
            let records = Records::new(&self.batch, size, size);
            let added = windows.add(query, records, clock, |rows| ended.extend_from_slice(&rows.bytes));
            self.batch.clear();
            added.map_err(refused)?;
        }
        if ended.is_empty() {
            return Ok(());
        }
        self.all(&ended)?;
        self.out.flush()
    }

    /// No sender is left, though others may come: what was added up so far is written, and what comes is added up anew.
    ///
    /// # Errors
    /// The system's.
    pub fn pause(&mut self) -> std::io::Result<()> {
        self.add_up()?;
        let mut rows = Vec::new();
        if let Some(windows) = &mut self.windows {
            windows.finish(|ended| rows.extend_from_slice(&ended.bytes)).map_err(refused)?;
        }
        self.all(&rows)?;
        self.out.flush()
    }

    /// There are no more: what was counted is written.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(&mut self) -> std::io::Result<()> {
        if let Some(ordered) = self.ordered.take() {
            self.all(&ordered.finish().bytes)?;
        }
        self.pause()?;
        // Names are there even if nothing else is.
        let mut text = Vec::new();
        self.writer.iter_mut().for_each(|writer| writer.head(self.first, &mut text));
        self.out.write_all(&text).and_then(|()| self.out.flush())
    }

    fn all(&mut self, rows: &[u8]) -> std::io::Result<()> {
        if let Some(writer) = self.writer.as_mut().filter(|_| self.is_table) {
            self.text.clear();
            writer.rows(rows, &[], &mut self.text);
            return self.out.write_all(&self.text);
        }
        rows.chunks_exact(self.row.max(1)).try_for_each(|row| self.write(None, row, true))
    }

    fn write(&mut self, tag: Option<&str>, record: &[u8], line: bool) -> std::io::Result<()> {
        if self.is_table {
            return self.all(record);
        }
        self.text.clear();
        if let Some(writer) = &mut self.writer {
            writer.head(self.first, &mut self.text);
        }
        if let Some(tag) = tag {
            self.text.extend_from_slice(tag.as_bytes());
            self.text.push(if self.has_head { b',' } else { b'\t' });
        }
        match &self.writer {
            Some(writer) => writer.row(record, &[], &mut self.text),
            None => {
                self.text.extend_from_slice(record);
                self.text.extend_from_slice(if line { b"\n" } else { b"" });
            }
        }
        self.out.write_all(&self.text)
    }
}

fn refused(e: SummaryError) -> Error {
    let is_memory = matches!(e, SummaryError::Memory { .. });
    Error::new(if is_memory { ErrorKind::OutOfMemory } else { ErrorKind::InvalidData }, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "a: i8, b: u64, c: f32, d: f64, e: bool, f: str[4], g: i64";

    #[test]
    fn an_encoded_record_is_decoded() {
        let schema = Schema::parse(ALL).unwrap();
        let text =
            r#"{"a":-128,"b":18446744073709551615,"c":0.1,"d":"NaN","e":true,"f":"é\"x","g":-9223372036854775808}"#;
        for (format, read) in [(Format::Json, text.to_owned() + "\n"), (Format::Csv, String::new())] {
            let mut records = Vec::new();
            encode(&schema, Format::Json, std::io::Cursor::new(text), |r| {
                records.extend_from_slice(r);
                Ok(())
            })
            .unwrap();
            let mut out = Vec::new();
            let mut output = Output::new(&mut out, &schema, None, None, &[], Some(format)).unwrap();
            assert!(output.record(None, &records, false).unwrap());
            drop(output);
            if format == Format::Json {
                assert_eq!(String::from_utf8(out.clone()).unwrap(), read);
            }
            let mut again = Vec::new();
            encode(&schema, format, std::io::Cursor::new(out.clone()), |r| {
                again.extend_from_slice(r);
                Ok(())
            })
            .unwrap();
            assert_eq!(again, records);
        }
    }

    #[test]
    fn an_absent_member_is_null_where_the_schema_has_null() {
        let schema = Schema::parse("a: i8, q: i64?").unwrap();
        let mut records = Vec::new();
        encode(&schema, Format::Json, std::io::Cursor::new("{\"a\":1}\n{\"q\":null,\"a\":1}\n"), |record| {
            records.push(record.to_vec());
            Ok(())
        })
        .unwrap();
        assert!(records.len() == 2 && records[0] == records[1], "{records:?}");
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_its_line() {
        let schema = Schema::parse("a: i8, f: str[2]").unwrap();
        let said =
            |format, text: &'static str| encode(&schema, format, text.as_bytes(), |_| Ok(())).unwrap_err().to_string();
        assert_eq!(said(Format::Json, "{\"a\":128,\"f\":\"x\"}"), "stdin: line 1: `a` is `128`, and no i8");
        assert_eq!(said(Format::Json, "{\"a\":1,\"f\":\"x\"}\n{\"a\":1}"), "stdin: line 2: it has no `f`");
        // What is unescaped where it lies.
        let quoted = r#"{"a":"z\"y\u00e9\n","f":"x"}"#;
        assert_eq!(said(Format::Json, quoted), r#"stdin: line 1: `a` is `"z"yé\n"`, and no i8"#);
        assert_eq!(said(Format::Csv, "a,f\n1,abc\n"), "stdin: line 2: `f` is `abc`, and no str[2]");
        assert_eq!(
            said(Format::Csv, "a,f\n1,ab\n,ab\n"),
            "stdin: line 3: `a` is empty, and i8 has no NULL: the schema may say i8?"
        );
        assert!(said(Format::Csv, "a,q\n1,abc\n").contains("`q`"));
        assert!(said(Format::Json, "7").contains("expected an object on one line"));
        assert!(said(Format::Json, "{\"a\":1,\"f\":\"x\",\"g\":1}").contains("`g`, which the schema has not: a, f"));
    }

    #[test]
    fn a_list_makes_rows_and_aggregates_one_at_the_end() {
        let schema = Schema::parse("a: i64, f: str[2]").unwrap();
        let written = |condition, list, format| {
            let mut out = Vec::new();
            let params = [param("min=2").unwrap()];
            let mut output = Output::new(&mut out, &schema, condition, list, &params, format).unwrap();
            for a in 1i64..5 {
                let mut record = [0; 16];
                record[..8].copy_from_slice(&a.to_le_bytes());
                record[8] = b'x';
                output.record(None, &record, false).unwrap();
            }
            output.finish().unwrap();
            drop(output);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            written(Some("a > $min"), Some("a * 2 as b, f"), None),
            "{\"b\":6,\"f\":\"x\"}\n{\"b\":8,\"f\":\"x\"}\n"
        );
        assert_eq!(written(Some("a > $min"), Some("sum(a) as s"), Some(Format::Csv)), "s\n7\n");
    }
}
