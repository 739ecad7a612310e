//! Records of a text that comes in pieces, as it does through a stage of a graph, or that goes where each record must fit.

use crate::ask::OnBad;
use crate::batch::{Batch, Fill};
use crate::count::LineEnds;
use crate::cut::{Cut, MAX_RECORD_TEXT};
use crate::format::{Format, Reader};
use crate::report::Report;
use crate::seps::PAD;
use chappe_synth::{FieldType, Schema, TimePattern, suggestion};
use std::sync::Arc;

/// What came of a piece.
#[derive(Debug, Default)]
pub struct Parsed {
    /// Records, one behind the other.
    pub records: Vec<u8>,
    /// Where their texts of any length lie; none: the schema has none.
    pub texts: Option<Arc<Vec<u8>>>,
    /// How many records were left out.
    pub left_out: u64,
    /// Behind these records something is wrong, and no more come: what, and where.
    pub stopped: Option<String>,
    /// It is a record that [`OnBad::Skip`] and [`OnBad::Keep`] go on behind.
    pub is_record: bool,
}

/// Makes records of one text. It keeps what is no whole record yet; of each byte it has one copy.
#[derive(Debug)]
pub struct Parser {
    format: Format,
    schema: Schema,
    cut: Cut,
    /// None: the line with the names of the columns is to come.
    reader: Option<Reader>,
    rest: Vec<u8>,
    lines: u64,
    /// Those of the piece in work.
    line_ends: Option<LineEnds>,
    on_bad: OnBad,
    times: Vec<(String, TimePattern)>,
    doubtful: Vec<String>,
    guessed: Vec<String>,
    strict: bool,
    has_texts: bool,
    stopped: bool,
    report: Report,
}

impl Parser {
    /// For the columns of a schema: others are skipped. Those that JSON lacks, and empty ones, are NULL; where the schema has no NULL, the record is bad.
    ///
    /// # Errors
    /// The pattern lacks a column.
    pub fn new(format: &Format, schema: &Schema, on_bad: OnBad) -> Result<Parser, String> {
        let mut parser = Parser {
            format: format.clone(),
            schema: schema.clone(),
            cut: Cut::new(format),
            reader: None,
            rest: Vec::new(),
            lines: 0,
            line_ends: None,
            on_bad,
            times: Vec::new(),
            doubtful: Vec::new(),
            guessed: Vec::new(),
            strict: false,
            has_texts: schema.fields().iter().any(|f| f.kind == FieldType::Str),
            stopped: false,
            report: Report::default(),
        };
        if !format.is_values() {
            parser.read_by(&mut [], 0)?;
        }
        Ok(parser)
    }

    /// Times of these columns are written so.
    #[must_use]
    pub fn with_times(mut self, times: Vec<(String, TimePattern)>) -> Parser {
        self.reader = self.reader.map(|reader| reader.with_times(&times));
        Parser { times, ..self }
    }

    /// The columns were guessed, and these had no value there: one that is a number is something wrong, as one is, in any column, that begins with 0.
    #[must_use]
    pub fn doubting(mut self, names: Vec<String>) -> Parser {
        let guessed: Vec<String> = self.schema.fields().iter().map(|f| f.name.clone()).collect();
        self.reader = self.reader.map(|reader| reader.doubting(&names, &guessed).of_all(true, &[]));
        Parser { doubtful: names, guessed, ..self }
    }

    /// Each column of the text must be one of the schema, and each of the schema must be there: in JSON, unless it may be NULL.
    #[must_use]
    pub fn strict(mut self) -> Parser {
        self.strict = true;
        if let Some(Reader::Json(json)) = &mut self.reader {
            json.strict = true;
        }
        self
    }

    /// What it has come to so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Whether there is something that is no whole record yet.
    pub fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// What reads the records, by the names of the columns; where the records begin.
    fn read_by(&mut self, text: &mut [u8], len: usize) -> Result<usize, String> {
        let (columns, from) = self.format.names(text, len).map_err(|e| e.told(&[], &[]))?;
        if self.strict
            && let Some(more) = columns.iter().find(|c| self.schema.field(c).is_none())
        {
            let known: Vec<&str> = self.schema.fields().iter().map(|f| f.name.as_str()).collect();
            return Err(format!("it has a field `{more}`, which the schema has not: {}", known.join(", ")));
        }
        let reader = self.format.reader(&self.schema, &columns).map_err(|lacks| {
            format!("there is no column `{lacks}`{}", suggestion(&lacks, columns.iter().map(String::as_str)))
        })?;
        self.reader = Some(reader.with_times(&self.times).doubting(&self.doubtful, &self.guessed));
        Ok(from)
    }

    /// Takes the next piece of the text; with `ended` it is the last one, and may be empty.
    pub fn piece(&mut self, piece: &[u8], ended: bool) -> Parsed {
        if self.stopped {
            return Parsed::default();
        }
        let mut text = std::mem::take(&mut self.rest);
        text.extend_from_slice(piece);
        let mut len = text.len();
        text.resize(len + 1 + PAD, 0);
        let Some(whole) = self.cut.whole(&mut text, &mut len, ended) else {
            text.truncate(len);
            self.rest = text;
            if len < MAX_RECORD_TEXT {
                return Parsed::default();
            }
            let what = format!(
                "this record has more than {MAX_RECORD_TEXT} bytes: is a quote not closed, or is it no text of lines?"
            );
            return self.stop(0, Parsed::default(), &what);
        };
        self.rest.extend_from_slice(&text[whole..len]);
        if whole == 0 {
            return Parsed::default();
        }
        let mut from = 0;
        if self.reader.is_none() {
            match self.read_by(&mut text, whole) {
                Ok(begin) => from = begin,
                Err(what) => return self.stop(0, Parsed::default(), &what),
            }
        }
        self.line_ends = self.reader.as_ref().map(|reader| LineEnds::new(reader, &text[..whole]));
        let parsed = self.parse(&mut text, whole, from);
        self.lines += self.line_ends.take().map_or(0, |mut ends| ends.before(&text, whole));
        if !self.has_texts || parsed.records.is_empty() {
            return parsed;
        }
        Parsed { texts: Some(Arc::new(text)), ..parsed }
    }

    fn parse(&mut self, text: &mut [u8], len: usize, from: usize) -> Parsed {
        let Some(reader) = &mut self.reader else { return Parsed::default() };
        let slots = reader.slots().to_vec();
        let mut batch = Batch::of_all(self.schema.size() as usize);
        let (report, stops, before) = (&mut self.report, self.on_bad == OnBad::Stop, self.lines);
        let (line_ends, mut first) = (&mut self.line_ends, None);
        let mut bad = |text: &[u8], at: usize, what: &crate::batch::Trouble| {
            // What comes behind the one that ends all was not asked for.
            if first.is_some() {
                return;
            }
            report.bad += 1;
            if report.is_full() {
                return;
            }
            let line = before + 1 + line_ends.as_mut().map_or(0, |ends| ends.before(text, at));
            let what = what.told(text, &slots);
            if stops {
                first = Some((at, line, what));
            } else {
                report.shown.push(format!("line {line}: {what}"));
            }
        };
        let keep = self.on_bad == OnBad::Keep;
        reader.fill(&mut Fill { text, len, from, batch: &mut batch, keep, bad: &mut bad });
        for unread in reader.unread() {
            let line = before + 1 + line_ends.as_mut().map_or(0, |ends| ends.before(text, unread.place));
            report.unread(unread.name, || format!("line {line}"), unread.count);
        }
        let Batch { mut records, mut places, left_out, .. } = batch;
        if let Some((at, ..)) = &first {
            places.truncate(places.partition_point(|place| (*place as usize) < *at));
            records.truncate(places.len() * self.schema.size() as usize);
        }
        self.report.records += places.len() as u64;
        let parsed = Parsed { records, left_out, ..Parsed::default() };
        match first {
            Some((_, line, what)) => self.stop(line, Parsed { is_record: true, ..parsed }, &what),
            None => parsed,
        }
    }

    /// `line` 0: the one that is next.
    fn stop(&mut self, line: u64, parsed: Parsed, what: &str) -> Parsed {
        self.stopped = true;
        let line = if line == 0 { self.lines + 1 } else { line };
        Parsed { stopped: Some(format!("line {line}: {what}")), ..parsed }
    }
}
