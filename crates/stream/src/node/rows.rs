//! Stages that make records of text, select records and their fields, add them up, and write them as text. The expressions are those of
//! [`chappe_synth`]: closures and vector plans. What the stages do that make records and that add up is in [`parse`](super::parse) and [`sums`](super::sums).

use super::parse::Parse;
use super::sums::Sums;
use crate::kind::{Anew, Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_rows::{Format, MAX_RECORD_TEXT, OnBad, Parser, Pattern, Style, Writer, schema_text, with_nulls};
use chappe_sync::schemas::resolved;
use chappe_synth::{Bound, Evaluator, FieldType, Live, LiveError, Query, Records, Scalar, Schema, Summary, Trust};
use std::sync::Arc;

fn schema(call: &Call<'_>) -> Result<Arc<Schema>, Wrong> {
    let input = call.input()?;
    match &input.element {
        Element::Record(schema) => Ok(Arc::clone(schema)),
        Element::Byte | Element::Line => Err(call.mismatch(
            input,
            "records",
            "`parse csv`, `parse json` or `parse lines \"PATTERN\"` before it makes them of text",
        )),
        _ => Err(call.mismatch(input, "records", "`parse` makes them of text, and `records FILE SCHEMA` reads them")),
    }
}

/// A query over each block.
struct Run {
    evaluator: Evaluator,
    size: usize,
}

impl Stage for Run {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        if block.is_empty() {
            return out.put(block);
        }
        let mut rows = Vec::with_capacity(block.len());
        let Data::Bytes(bytes) = &block.data else { return Ok(()) };
        let records = Records::new(bytes, self.size, self.size).with_texts(block.texts());
        self.evaluator.project(records, &mut rows);
        // The texts that rows name are where they were.
        if rows.is_empty() { Ok(()) } else { out.put(Block { data: Data::Bytes(rows), ..block }) }
    }
}

/// A stage that asks this of each record.
///
/// # Errors
/// It makes no sense any more.
pub fn queries(asked: &Bound) -> Result<Box<dyn Stage>, LiveError> {
    let size = asked.query().schema().size() as usize;
    let live = Live::new(asked.query(), &[], Trust::Own)?;
    Ok(Box::new(Run { evaluator: live.evaluator(), size }))
}

/// Which part of a query a stage has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Condition,
    List,
    All,
}

fn query(call: &Call<'_>, has: Has) -> Result<Plan, Wrong> {
    let schema = schema(call)?;
    let (text, span) = call.needs_text(0, if has == Has::Condition { "expression" } else { "list" })?;
    let wrong = |what: &str| Wrong::at(span, what.to_owned());
    let query = match has {
        Has::Condition => Query::new(&schema, Some(text), None),
        Has::List => Query::new(&schema, None, Some(text)),
        Has::All => Query::parse(&schema, text),
    };
    let query = query.map_err(|e| wrong(e.message()))?;
    let gives =
        query.rows().map_or(Element::Record(Arc::clone(&schema)), |rows| Element::Record(Arc::new(rows.clone())));
    let asked = query.bind(&[]).map_err(|e| wrong(&e.to_string()))?;
    if query.sums_up() || query.top().is_some() || !query.order().is_empty() {
        let memory = call.number_or(usize::MAX, "memory", (1.0, 1e15), Summary::MEMORY as f64)? as usize;
        let live = Live::new(&query, &[], Trust::Own).map_err(|e| wrong(&e.to_string()))?;
        let sums = Sums::new(&query, live.evaluator(), memory);
        // What it has added up is lost with its process.
        return Ok(Plan::filter(Type::of(gives), move || stage(sums)).anew(Anew::Never));
    }
    let run = queries(&asked).map_err(|e| wrong(&e.to_string()))?;
    let rate = if has == Has::List { call.input()?.rate } else { None };
    Ok(Plan::filter(Type { rate, ..Type::of(gives) }, move || Ok(Body::Stage(run))).asks(asked))
}

/// Records to lines.
struct ToLines {
    writer: Writer,
    /// The names were handed on, or there are none.
    is_named: bool,
}

impl ToLines {
    /// Before each text: of the processes and stages that write here one after the other the first one writes the names.
    fn begin(&mut self, out: &dyn Out) {
        if !self.is_named && out.is_begun() {
            self.writer.skip_head();
            self.is_named = true;
        }
    }

    fn hand_on(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        out.put(block)?;
        if !std::mem::replace(&mut self.is_named, true) {
            out.begun();
        }
        Ok(())
    }
}

impl Stage for ToLines {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.begin(out);
        let mut text = Vec::new();
        if let Data::Bytes(records) = &block.data {
            self.writer.rows(records, block.texts(), &mut text);
        }
        self.hand_on(block.instead(Data::Bytes(text)), out)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        self.begin(out);
        // Names are there even if nothing else is.
        let mut text = Vec::new();
        self.writer.head(None, &mut text);
        if text.is_empty() { Ok(()) } else { self.hand_on(Block::bytes(text), out) }
    }
}

/// A number of each record.
struct Take {
    at: usize,
    scalar: Scalar,
    /// Where the byte stands that says whether there is a value.
    there: Option<usize>,
    size: usize,
}

impl Stage for Take {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let at = self.at;
        macro_rules! number {
            ($t:ty, $r:expr) => {
                <$t>::from_le_bytes($r[at..at + size_of::<$t>()].try_into().expect("a field lies in its record")) as f32
            };
        }
        let one = |r: &[u8]| match self.scalar {
            _ if self.there.is_some_and(|there| r[there] == 0) => f32::NAN,
            Scalar::Bool => f32::from(u8::from(r[at] != 0)),
            Scalar::I8 => number!(i8, r),
            Scalar::I16 => number!(i16, r),
            Scalar::I32 => number!(i32, r),
            Scalar::I64 | Scalar::Time => number!(i64, r),
            Scalar::U8 => number!(u8, r),
            Scalar::U16 => number!(u16, r),
            Scalar::U32 => number!(u32, r),
            Scalar::U64 => number!(u64, r),
            Scalar::F32 => number!(f32, r),
            Scalar::F64 => number!(f64, r),
        };
        let numbers = block.octets().chunks_exact(self.size).map(one).collect();
        out.put(block.instead(Data::F32(numbers)))
    }
}

fn field(call: &Call<'_>) -> Result<Plan, Wrong> {
    let schema = schema(call)?;
    let (name, span) = call.needs_text(0, "name")?;
    let names = || schema.fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    let field = schema
        .field(name)
        .ok_or_else(|| Wrong::at(span, format!("there is no field `{name}`: there are {}", names())))?;
    let (at, size) = (field.at as usize, schema.size() as usize);
    let (scalar, there) = match field.kind {
        FieldType::Scalar(scalar) => (scalar, None),
        FieldType::Maybe(scalar) => (scalar, Some(at + scalar.width() as usize)),
        FieldType::Text(_) | FieldType::Str => {
            return Err(Wrong::at(span, format!("`{name}` is a text, and no number")));
        }
    };
    let gives = Type { rate: call.input()?.rate, ..Type::of(Element::F32) };
    Ok(Plan::filter(gives, move || stage(Take { at, scalar, there, size })))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t"))
}

/// What is between values; `is_csv`: they may have something between them.
fn delimiter(call: &Call<'_>, is_csv: bool) -> Result<u8, Wrong> {
    Ok(match call.text(usize::MAX, "delimiter")? {
        None => b',',
        Some((_, span)) if !is_csv => return Err(Wrong::at(span, "only csv has a delimiter")),
        Some(("tab" | "\t", _)) => b'\t',
        Some((text, span)) => match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() && *byte != b'"' => *byte,
            _ => return Err(Wrong::at(span, "a delimiter is one character, as in delimiter=\";\", or delimiter=tab")),
        },
    })
}

fn parse(call: &Call<'_>) -> Result<Plan, Wrong> {
    let input = call.input()?;
    if !matches!(input.element, Element::Byte | Element::Line) {
        return Err(call.mismatch(input, "lines or bytes", "`file FILE`, `lines FILE` and `stdin` read text"));
    }
    let missing = || Wrong::new("`parse` needs to know of what: csv, json or lines");
    let of = call.choice(0, "of", &["csv", "json", "lines"])?.ok_or_else(missing)?;
    let delimiter = delimiter(call, of == "csv")?;
    let (mut begin, mut at) = (format!("parse {of}"), 1);
    let header = call.choice(usize::MAX, "header", &["yes", "no"])?;
    if header.is_some() && of != "csv" {
        return Err(Wrong::new("only csv has a header"));
    }
    let mut format = match of {
        "csv" if header == Some("no") => Format::bare(delimiter, None),
        "csv" => Format::Csv(delimiter),
        "json" => Format::Json,
        _ => {
            let (text, span) = call.needs_text(1, "pattern")?;
            (begin, at) = (format!("{begin} {}", quoted(text)), 2);
            Format::Lines(Pattern::parse(text).map_err(|why| Wrong::at(span, why))?)
        }
    };
    let on_bad = match call.choice(usize::MAX, "onbad", &["stop", "skip", "keep"])? {
        Some("skip") => OnBad::Skip,
        Some("keep") => OnBad::Keep,
        _ => OnBad::Stop,
    };
    let said = call.text(at, "schema")?;
    let (mut times, mut doubtful) = (Vec::new(), Vec::new());
    // A record may be longer than people look.
    let begins = [1 << 18, MAX_RECORD_TEXT as u64 + (1 << 18)];
    let guess = || {
        let mut guessed = None;
        for most in begins {
            let (text, all) = call.begin(most)?;
            guessed = Some(format.infer(&text, all));
            if guessed.as_ref().is_some_and(Result::is_ok) || all {
                break;
            }
        }
        guessed
    };
    let schema = match (said, if said.is_some() { None } else { guess() }) {
        (Some((text, span)), _) => {
            let text = resolved(text).map_err(|e| Wrong::at(span, e.to_string()))?;
            let read =
                Schema::parse_text(&text).map_err(|e| Wrong::at(span, format!("the schema: {}", e.message())))?;
            let schema = read.0;
            times = read.1;
            with_nulls(&schema).map_err(|why| Wrong::at(span, why))?
        }
        (None, Some(guessed)) => {
            let (schema, empty) = guessed.map_err(|why| Wrong::new(format!("the columns cannot be guessed: {why}")))?;
            doubtful = empty;
            schema
        }
        (None, None) => {
            return Err(Wrong::new(format!(
                "`parse` guesses columns at the begin of a file alone: say what they are, as in {begin} \"sym: str, px: f64\"; \
                 `chappe query --print-schema 'select *' FILE` guesses them"
            )));
        }
    };
    if let (Format::Bare(..), Some(_)) = (&format, said) {
        format = Format::bare(delimiter, Some(&schema));
    }
    let wrong = |why| Wrong { span: said.map(|(_, span)| span), what: why };
    let parser = Parser::new(&format, &schema, on_bad).map_err(wrong)?.with_times(times);
    let parser = if said.is_none() { parser.doubting(doubtful) } else { parser };
    let header = header.map_or(String::new(), |header| format!(" header={header}"));
    let guessed = said.is_none().then(|| format!("{begin} {}{header}", quoted(&schema_text(&schema, &[]))));
    let gives = Type::of(Element::Record(Arc::new(schema)));
    // Names that stand in the first line, and half a record, are lost with the process.
    let anew = if of == "csv" || input.element == Element::Byte { Anew::Never } else { Anew::Fresh };
    Ok(Plan::filter(gives, move || stage(Parse { parser, guessed })).anew(anew))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    let to_lines = |json: bool| {
        move |call: &Call<'_>| {
            let schema = schema(call)?;
            let delimiter = delimiter(call, !json)?;
            let writer = Writer::new(if json { Style::Json } else { Style::Csv }, &schema).delimited(delimiter);
            Ok(Plan::filter(Type::of(Element::Line), move || stage(ToLines { writer, is_named: json })))
        }
    };
    vec![
        Kind::new(
            "parse",
            "csv|json|lines [\"PATTERN\"] [\"SCHEMA\"] [delimiter=\",\"] [header=no] [onbad=stop|skip|keep]",
            "records of text: parse lines \"{ip} [{time}] {status}\" \"ip: str, status: i64\"; without a schema columns are guessed",
            parse,
        ),
        Kind::new("where", "\"EXPRESSION\"", "the records for which it is true", |call| query(call, Has::Condition)),
        Kind::new(
            "select",
            "\"LIST\" [memory=BYTES]",
            "other records, of expressions (\"price * 2 as double, sym\"), or of sums, at the end or window by window (\"sum(qty) by sym every 10s\")",
            |call| query(call, Has::List),
        ),
        Kind::new(
            "query",
            "\"where EXPRESSION select LIST\" [memory=BYTES]",
            "both in one text, as `chappe query` has it: windows by number count the records that `where` leaves out, too",
            |call| query(call, Has::All),
        ),
        Kind::new("field", "NAME", "one number of each record; NaN where there is none", field),
        Kind::new("csv", "[delimiter=\",\"]", "records as rows of text, with their names first", to_lines(false)),
        Kind::new("json", "", "records as JSON, one a line", to_lines(true)),
    ]
}
