//! Records as people and programs read them: fields by a tube's schema, as lines of JSON or as CSV; and which of them, and what of each.

use anyhow::{Context, Result, anyhow, bail};
use chappe::synth::{FieldType, Live, Query, Records, Scalar, Schema, Summary, Trust, Value};
use std::io::{BufRead, Write};

/// How records are written and read.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line with an object for each record.
    Json,
    /// Comma-separated values, with a line of names first.
    Csv,
}

/// A parameter of an expression, `NAME=VALUE`.
///
/// # Errors
/// What is wrong with the text.
pub fn param(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is no parameter: write NAME=VALUE"))?;
    let name = name.strip_prefix('$').unwrap_or(name).to_owned();
    let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    let value = match value {
        "true" | "false" => Value::Bool(value == "true"),
        _ => match value.parse::<i64>() {
            Ok(n) => Value::Int(n),
            Err(_) => match (value.parse::<u64>(), value.parse::<f64>()) {
                (Ok(n), _) => Value::Uint(n),
                (_, Ok(d)) if number(value) => Value::Double(d),
                _ => Value::Text(value.as_bytes().to_vec()),
            },
        },
    };
    Ok((name, value))
}

/// The value of a field, as JSON has it.
fn value(record: &[u8], at: u32, kind: FieldType) -> serde_json::Value {
    let bytes = &record[at as usize..][..kind.width() as usize];
    let whole = || {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all)
    };
    // Sign and all.
    let signed = || {
        let spare = 64 - 8 * bytes.len() as u32;
        (whole() << spare).cast_signed() >> spare
    };
    match kind {
        FieldType::Scalar(Scalar::Bool) => (bytes[0] != 0).into(),
        FieldType::Scalar(Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64) => signed().into(),
        FieldType::Scalar(Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64) => whole().into(),
        FieldType::Scalar(Scalar::F32) => {
            let single = f32::from_bits(whole() as u32);
            // As short as it can be: 0.1, not 0.10000000149011612.
            double(single.to_string().parse().unwrap_or(f64::from(single)))
        }
        FieldType::Scalar(Scalar::F64) => double(f64::from_bits(whole())),
        FieldType::Text(_) => {
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into()
        }
    }
}

/// JSON has no NaN, and no infinities.
fn double(number: f64) -> serde_json::Value {
    serde_json::Number::from_f64(number).map_or_else(|| format!("{number:?}").into(), serde_json::Value::Number)
}

/// Writes a value into a field.
fn put(record: &mut [u8], at: u32, kind: FieldType, value: &serde_json::Value) -> Result<()> {
    let place = &mut record[at as usize..][..kind.width() as usize];
    let wrong = || anyhow!("{value} is no {kind}");
    let text = value.as_str();
    match kind {
        FieldType::Scalar(Scalar::Bool) => {
            let is = value.as_bool().or_else(|| text.and_then(|t| t.parse().ok())).ok_or_else(wrong)?;
            place[0] = is.into();
        }
        FieldType::Scalar(Scalar::F32 | Scalar::F64) => {
            let number = value.as_f64().or_else(|| text.and_then(|t| t.parse().ok())).ok_or_else(wrong)?;
            match place.len() {
                4 => place.copy_from_slice(&(number as f32).to_le_bytes()),
                _ => place.copy_from_slice(&number.to_le_bytes()),
            }
        }
        FieldType::Scalar(Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64) => {
            let number = value.as_u64().or_else(|| text.and_then(|t| t.parse().ok())).ok_or_else(wrong)?;
            let bytes = number.to_le_bytes();
            if bytes[place.len()..].iter().any(|b| *b != 0) {
                return Err(wrong());
            }
            place.copy_from_slice(&bytes[..place.len()]);
        }
        FieldType::Scalar(_) => {
            let number = value.as_i64().or_else(|| text.and_then(|t| t.parse().ok())).ok_or_else(wrong)?;
            let spare = 64 - 8 * place.len() as u32;
            if number << spare >> spare != number {
                return Err(wrong());
            }
            place.copy_from_slice(&number.to_le_bytes()[..place.len()]);
        }
        FieldType::Text(most) => {
            let text = text.ok_or_else(wrong)?;
            if text.len() > most as usize {
                bail!("{value} has more than {most} bytes");
            }
            place[..text.len()].copy_from_slice(text.as_bytes());
        }
    }
    Ok(())
}

/// Reads records from text, each as many bytes as the schema says.
pub fn encode(
    schema: &Schema,
    format: Format,
    input: impl BufRead,
    mut record: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut bytes = vec![0; schema.size() as usize];
    let mut one = |at: u64, value: &dyn Fn(&str) -> Option<serde_json::Value>| -> Result<()> {
        bytes.fill(0);
        for field in schema.fields() {
            let value = value(&field.name).ok_or_else(|| anyhow!("line {at} has no `{}`", field.name))?;
            put(&mut bytes, field.at, field.kind, &value).with_context(|| format!("line {at}, `{}`", field.name))?;
        }
        record(&bytes)
    };
    let unknown = |at: u64, name: &str| {
        let all: Vec<&str> = schema.fields().iter().map(|f| f.name.as_str()).collect();
        anyhow!("line {at} has a field `{name}`, which the schema has not: {}", all.join(", "))
    };
    match format {
        Format::Json => {
            for (at, line) in (1..).zip(input.lines()) {
                let line = line.context("cannot read stdin")?;
                if line.trim().is_empty() {
                    continue;
                }
                let object: serde_json::Map<String, serde_json::Value> =
                    serde_json::from_str(&line).with_context(|| format!("line {at} is no JSON object"))?;
                if let Some(name) = object.keys().find(|name| schema.field(name).is_none()) {
                    return Err(unknown(at, name));
                }
                one(at, &|name| object.get(name).cloned())?;
            }
        }
        Format::Csv => {
            let mut reader = csv::Reader::from_reader(input);
            let names = reader.headers().context("cannot read the line of names")?.clone();
            if let Some(name) = names.iter().find(|name| schema.field(name.trim()).is_none()) {
                return Err(unknown(1, name));
            }
            for row in reader.records() {
                let row = row.context("cannot read stdin")?;
                let at = row.position().map_or(0, csv::Position::line);
                let value = |name: &str| {
                    let column = names.iter().position(|n| n.trim() == name)?;
                    row.get(column).map(|text| text.into())
                };
                one(at, &value)?;
            }
        }
    }
    Ok(())
}

/// Writes records as text, or as they are; those that are asked for, and of them what is.
pub struct Output<W: Write> {
    out: W,
    /// None: as they are.
    format: Option<Format>,
    /// Of what is written.
    schema: Schema,
    size: usize,
    query: Option<chappe::synth::Evaluator>,
    summary: Option<Summary>,
    selects: bool,
    rows: Vec<u8>,
    has_names: bool,
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
        let (mut query, mut summary, mut rows, size) = (None, None, schema.clone(), schema.size() as usize);
        if condition.is_some() || list.is_some() {
            let asked = Query::new(schema, condition, list)?;
            let params: Vec<(&str, Value)> = params.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
            if let (Some(_), Some(of)) = (list, asked.rows()) {
                rows = of.clone();
            }
            summary = Summary::new(&asked, None);
            query = Some(Live::new(&asked, &params, Trust::Own)?.evaluator());
        }
        let format = if list.is_some() { format.or(Some(Format::Json)) } else { format };
        let (schema, selects) = (rows, list.is_some());
        Ok(Output { out, format, schema, size, query, summary, selects, rows: Vec::new(), has_names: false })
    }

    /// A record: it is written, or counted, or not asked for. Answers whether something was written.
    ///
    /// # Errors
    /// The system's; a record that is too short for the schema.
    pub fn record(&mut self, tag: Option<&str>, record: &[u8], line: bool) -> std::io::Result<bool> {
        if record.len() < self.size {
            let what = format!("a record of {} bytes, and by the tube's schema each has {}", record.len(), self.size);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
        }
        let one = Records::new(record, self.size, self.size);
        match (&mut self.query, &mut self.summary) {
            (None, _) => self.write(tag, record, line)?,
            (Some(query), Some(summary)) => {
                summary.add(query, one, |_| ());
                return Ok(false);
            }
            (Some(query), None) if self.selects => {
                self.rows.clear();
                if query.project(one, &mut self.rows) == 0 {
                    return Ok(false);
                }
                let row = std::mem::take(&mut self.rows);
                self.write(tag, &row, line)?;
                self.rows = row;
            }
            (Some(query), None) => {
                if !query.test(record) {
                    return Ok(false);
                }
                self.write(tag, record, line)?;
            }
        }
        self.out.flush()?;
        Ok(true)
    }

    /// There are no more: what was counted is written.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(&mut self) -> std::io::Result<()> {
        if let Some(mut summary) = self.summary.take() {
            let rows = summary.finish();
            for row in rows.chunks_exact(self.schema.size().max(1) as usize) {
                self.write(None, row, true)?;
            }
        }
        self.out.flush()
    }

    fn write(&mut self, tag: Option<&str>, record: &[u8], line: bool) -> std::io::Result<()> {
        let fields = self.schema.fields();
        match self.format {
            Some(Format::Json) => {
                if let Some(tag) = tag {
                    write!(self.out, "{tag}\t")?;
                }
                // In the order of the schema.
                for (at, field) in fields.iter().enumerate() {
                    let begin = if at == 0 { "{" } else { "," };
                    let name = serde_json::Value::from(field.name.as_str());
                    write!(self.out, "{begin}{name}:{}", value(record, field.at, field.kind))?;
                }
                self.out.write_all(b"}\n")
            }
            Some(Format::Csv) => {
                let mut row = csv::WriterBuilder::new().from_writer(Vec::new());
                if !std::mem::replace(&mut self.has_names, true) {
                    row.write_record(tag.map(|_| "tube").into_iter().chain(fields.iter().map(|f| f.name.as_str())))?;
                }
                let text = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let values = fields.iter().map(|f| text(value(record, f.at, f.kind)));
                row.write_record(tag.map(str::to_owned).into_iter().chain(values))?;
                let row = row.into_inner().map_err(|e| std::io::Error::other(e.to_string()))?;
                self.out.write_all(&row)
            }
            None => {
                if let Some(tag) = tag {
                    write!(self.out, "{tag}\t")?;
                }
                self.out.write_all(record)?;
                if line { self.out.write_all(b"\n") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "a: i8, b: u64, c: f32, d: f64, e: bool, f: str[4], g: i64";

    #[test]
    fn what_is_encoded_is_decoded() {
        let schema = Schema::parse(ALL).unwrap();
        let text =
            r#"{"a":-128,"b":18446744073709551615,"c":0.1,"d":"NaN","e":true,"f":"é\"x","g":-9223372036854775808}"#;
        for (format, read) in [(Format::Json, text.to_owned() + "\n"), (Format::Csv, String::new())] {
            let mut records = Vec::new();
            encode(&schema, Format::Json, text.as_bytes(), |r| {
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
            encode(&schema, format, out.as_slice(), |r| {
                again.extend_from_slice(r);
                Ok(())
            })
            .unwrap();
            assert_eq!(again, records);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_line() {
        let schema = Schema::parse("a: i8, f: str[2]").unwrap();
        let said =
            |format, text: &str| format!("{:#}", encode(&schema, format, text.as_bytes(), |_| Ok(())).unwrap_err());
        assert_eq!(said(Format::Json, "{\"a\":128,\"f\":\"x\"}"), "line 1, `a`: 128 is no i8");
        assert_eq!(said(Format::Json, "{\"a\":1,\"f\":\"x\"}\n{\"a\":1}"), "line 2 has no `f`");
        assert!(said(Format::Csv, "a,f\n1,abc\n").contains("more than 2 bytes"));
        assert!(said(Format::Csv, "a,q\n1,abc\n").contains("`q`"));
        assert!(said(Format::Json, "7").contains("line 1 is no JSON object"));
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
