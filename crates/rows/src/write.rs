//! Records as text: CSV, JSON lines, and a table for people.
//!
//! A double has as many digits as tell it from every other one, and always a point or an exponent; so it is read back as one. NULL is an empty
//! field of CSV (an empty text is `""`), `null` in JSON, and nothing in a table. JSON knows neither NaN nor infinity: they are texts there.

use crate::lines::Pattern;
use chappe_synth::ir::{NO_TEXT, load, text_of};
use chappe_synth::{Field, FieldType, Scalar, Schema, TimePattern, suggestion, time, written};
use std::io::Write;

/// How records are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Comma-separated values, with a line of names first.
    Csv,
    /// A line with an object for each record.
    Json,
    /// Columns, one below the other.
    Table,
}

/// Writes records of one schema.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    /// What is between the values of CSV.
    delimiter: u8,
    schema: Schema,
    /// Each name as the style writes it in front of a value.
    names: Vec<Vec<u8>>,
    widths: Vec<usize>,
    began: bool,
}

/// A table's columns are as wide as its first rows need.
const LOOKED_AT: usize = 1000;

impl Writer {
    /// In a style.
    pub fn new(style: Style, schema: &Schema) -> Writer {
        let name = |(at, field): (usize, &Field)| {
            let mut name = Vec::new();
            match style {
                Style::Json => {
                    name.push(if at == 0 { b'{' } else { b',' });
                    json_text(field.name.as_bytes(), &mut name);
                    name.push(b':');
                }
                Style::Table => name.extend_from_slice(shown(field.name.as_bytes()).as_bytes()),
                Style::Csv => name.extend_from_slice(field.name.as_bytes()),
            }
            name
        };
        let names = schema.fields().iter().enumerate().map(name).collect();
        Writer { style, delimiter: b',', schema: schema.clone(), names, widths: Vec::new(), began: false }
    }

    /// With this between the values of CSV.
    #[must_use]
    pub fn delimited(self, delimiter: u8) -> Writer {
        Writer { delimiter, ..self }
    }

    /// The names, if the style has a line for them and they were not written yet. `first`: the name of a column before the others.
    pub fn head(&mut self, first: Option<&str>, out: &mut Vec<u8>) {
        if self.style == Style::Table && !self.began && !self.names.is_empty() {
            return self.table(&[], &[], out);
        }
        if self.style != Style::Csv || self.names.is_empty() || std::mem::replace(&mut self.began, true) {
            return;
        }
        for name in first.map(str::as_bytes).into_iter().chain(self.names.iter().map(Vec::as_slice)) {
            csv_text(name, self.delimiter, out);
            out.push(self.delimiter);
        }
        out.pop();
        out.push(b'\n');
    }

    /// Another writer has written the names.
    pub fn skip_head(&mut self) {
        self.began = true;
    }

    /// Writes records, and the texts that they name. Of a table all that are to be seen together.
    pub fn rows(&mut self, rows: &[u8], texts: &[u8], out: &mut Vec<u8>) {
        if self.style == Style::Table {
            // The first rows say how wide it is.
            if !rows.is_empty() {
                self.table(rows, texts, out);
            }
            return;
        }
        self.head(None, out);
        for row in rows.chunks_exact(self.schema.size() as usize) {
            self.row(row, texts, out);
        }
    }

    /// Writes one record as CSV or JSON.
    pub fn row(&self, row: &[u8], texts: &[u8], out: &mut Vec<u8>) {
        let json = self.style == Style::Json;
        for (field, name) in self.schema.fields().iter().zip(&self.names) {
            if json {
                out.extend_from_slice(name);
                if !value(field, row, texts, None, out) {
                    out.extend_from_slice(b"null");
                }
            } else {
                value(field, row, texts, Some(self.delimiter), out);
                out.push(self.delimiter);
            }
        }
        if json {
            // An object without members has a begin, too.
            out.extend_from_slice(if self.names.is_empty() { b"{}\n" } else { b"}\n" });
        } else {
            out.pop();
            out.push(b'\n');
        }
    }

    fn table(&mut self, rows: &[u8], texts: &[u8], out: &mut Vec<u8>) {
        let fields = self.schema.fields();
        let cell = |field: &Field, row: &[u8]| {
            let mut text = Vec::new();
            if let FieldType::Str | FieldType::Text(_) = field.kind {
                return shown(bytes_of(field, row, texts).unwrap_or_default());
            }
            value(field, row, texts, Some(b','), &mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        let size = self.schema.size() as usize;
        if !std::mem::replace(&mut self.began, true) {
            let wide = |(field, name): (&Field, &Vec<u8>)| {
                let cells = rows.chunks_exact(size).take(LOOKED_AT).map(|row| cell(field, row).chars().count());
                cells.max().unwrap_or(0).max(String::from_utf8_lossy(name).chars().count())
            };
            self.widths = fields.iter().zip(&self.names).map(wide).collect();
            let names = self.names.iter().map(|n| String::from_utf8_lossy(n).into_owned());
            line(fields, &self.widths, names, out);
            let rules = self.widths.iter().map(|w| "-".repeat(*w));
            line(fields, &self.widths, rules, out);
        }
        for row in rows.chunks_exact(size) {
            line(fields, &self.widths, fields.iter().map(|f| cell(f, row)), out);
        }
    }
}

/// What the columns of a schema are, as people write it where text is read: any of them may be empty.
pub fn schema_text(schema: &Schema, times: &[(String, TimePattern)]) -> String {
    let column = |f: &Field| {
        let pattern = times.iter().find(|(name, _)| *name == f.name);
        let pattern = pattern.map_or(String::new(), |(_, pattern)| format!(" '{}'", pattern.text()));
        format!("{}: {}{pattern}", written(&f.name), f.kind.to_string().trim_end_matches('?'))
    };
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

/// Writes records as lines by a pattern, so that it reads them again: no value, and an empty text, is `-`; a line end within a text is a blank.
#[derive(Debug)]
pub struct LineWriter {
    size: usize,
    first: Vec<u8>,
    /// Values, and what stands behind each.
    parts: Vec<(Option<Field>, Vec<u8>)>,
}

impl LineWriter {
    /// For records that have the fields of the pattern.
    ///
    /// # Errors
    /// They lack one.
    pub fn new(pattern: &Pattern, schema: &Schema) -> Result<LineWriter, String> {
        if pattern.regex.is_some() {
            return Err(
                "lines are written by a pattern as in \"{ip} [{time}]\", and not by a regular expression".into()
            );
        }
        let part = |(name, behind): &(String, Vec<u8>)| {
            let field = schema.field(name).cloned();
            if field.is_none() && !name.is_empty() {
                let near = suggestion(name, schema.fields().iter().map(|f| f.name.as_str()));
                return Err(format!("there is no field `{name}`{near}"));
            }
            Ok((field, behind.clone()))
        };
        let parts = pattern.columns.iter().map(part).collect::<Result<_, _>>()?;
        Ok(LineWriter { size: schema.size() as usize, first: pattern.first.clone(), parts })
    }

    /// Writes records, and the texts that they name.
    pub fn rows(&self, rows: &[u8], texts: &[u8], out: &mut Vec<u8>) {
        for row in rows.chunks_exact(self.size) {
            out.extend_from_slice(&self.first);
            for (field, behind) in &self.parts {
                let start = out.len();
                match field {
                    Some(field) if matches!(field.kind, FieldType::Str | FieldType::Text(_)) => {
                        out.extend_from_slice(bytes_of(field, row, texts).unwrap_or_default());
                        let line_ends = out[start..].iter_mut().filter(|b| matches!(b, b'\n' | b'\r'));
                        line_ends.for_each(|b| *b = b' ');
                    }
                    Some(field) => _ = value(field, row, texts, Some(b','), out),
                    None => {}
                }
                if out.len() == start {
                    out.push(b'-');
                }
                out.extend_from_slice(behind);
            }
            out.push(b'\n');
        }
    }
}

/// A text, or a column's name, as a table for people has it: a terminal takes no commands from what was read.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).replace(char::is_control, " ")
}

/// Numbers stand to the right, texts to the left.
fn line(fields: &[Field], widths: &[usize], cells: impl Iterator<Item = String>, out: &mut Vec<u8>) {
    let start = out.len();
    for ((field, width), cell) in fields.iter().zip(widths).zip(cells) {
        let blanks = width.saturating_sub(cell.chars().count());
        let left = matches!(field.kind, FieldType::Str | FieldType::Text(_));
        let (before, behind) = if left { (0, blanks) } else { (blanks, 0) };
        out.resize(out.len() + before, b' ');
        out.extend_from_slice(cell.as_bytes());
        out.resize(out.len() + behind + 2, b' ');
    }
    while out.len() > start && out.last() == Some(&b' ') {
        out.pop();
    }
    out.push(b'\n');
}

/// A text of a record; none: NULL.
fn bytes_of<'a>(field: &Field, row: &'a [u8], texts: &'a [u8]) -> Option<&'a [u8]> {
    let at = field.at as usize;
    if let FieldType::Text(width) = field.kind {
        let bytes = &row[at..at + width as usize];
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        return Some(&bytes[..end]);
    }
    let word = load(row, field.at, Scalar::U64);
    (word >> 32 != NO_TEXT >> 32).then(|| text_of(word, texts))
}

/// Writes a field's value as CSV has it, with this between values, or as JSON. False: it is NULL, and nothing was written.
fn value(field: &Field, row: &[u8], texts: &[u8], csv: Option<u8>, out: &mut Vec<u8>) -> bool {
    let scalar = match field.kind {
        FieldType::Text(_) | FieldType::Str => {
            let Some(text) = bytes_of(field, row, texts) else { return false };
            match csv {
                None => json_text(text, out),
                // A text of fixed length cannot be NULL.
                Some(_) if text.is_empty() && field.kind == FieldType::Str => out.extend_from_slice(b"\"\""),
                Some(delimiter) => csv_text(text, delimiter, out),
            }
            return true;
        }
        FieldType::Maybe(scalar) if row[(field.at + scalar.width()) as usize] == 0 => return false,
        FieldType::Maybe(scalar) | FieldType::Scalar(scalar) => scalar,
    };
    let word = load(row, field.at, scalar);
    match scalar {
        Scalar::Bool => out.extend_from_slice(if word == 0 { b"false" } else { b"true" }),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
            let number = word.cast_signed();
            if number < 0 {
                out.push(b'-');
            }
            digits(number.unsigned_abs(), out);
        }
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => digits(word, out),
        Scalar::Time => {
            let quote: &[u8] = if csv.is_none() { b"\"" } else { b"" };
            out.extend_from_slice(quote);
            time::write(word.cast_signed(), out);
            out.extend_from_slice(quote);
        }
        Scalar::F32 | Scalar::F64 => {
            let number = f64::from_bits(word);
            let quoted = csv.is_none() && !number.is_finite();
            if quoted {
                out.push(b'"');
            }
            // As short as it can be: 0.1, not 0.10000000149011612.
            let written =
                if scalar == Scalar::F32 { write!(out, "{:?}", number as f32) } else { write!(out, "{number:?}") };
            written.expect("a vector takes all");
            if quoted {
                out.push(b'"');
            }
        }
    }
    true
}

fn digits(mut number: u64, out: &mut Vec<u8>) {
    let mut room = [0; 20];
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&room[at..]);
}

fn csv_text(text: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    if !text.iter().any(|b| *b == delimiter || matches!(b, b'"' | b'\n' | b'\r')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// What is no UTF-8 has U+FFFD in its place.
fn json_text(text: &[u8], out: &mut Vec<u8>) {
    let lossy = String::from_utf8_lossy(text);
    if serde_json::to_writer(&mut *out, &*lossy).is_err() {
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_so_that_they_can_be_read_back() {
        let schema = Schema::parse_columns("a: i8, b: f64?, c: str, d: f32, e: bool?, f: u64").unwrap();
        let at = |name: &str| schema.field(name).unwrap().at as usize;
        let texts = b"x,\"y";
        let mut row = vec![0; schema.size() as usize];
        row[at("a")] = (-7i8).cast_unsigned();
        row[at("b")..at("b") + 8].copy_from_slice(&1e16f64.to_le_bytes());
        row[at("b") + 8] = 1;
        row[at("c")..at("c") + 8].copy_from_slice(&(4u64 << 32).to_le_bytes());
        row[at("d")..at("d") + 4].copy_from_slice(&0.1f32.to_le_bytes());
        row[at("f")..at("f") + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut nulls = vec![0; schema.size() as usize];
        nulls[at("c")..at("c") + 8].copy_from_slice(&NO_TEXT.to_le_bytes());
        nulls[at("d")..at("d") + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        let rows = [row, nulls].concat();
        let written = |style| {
            let mut out = Vec::new();
            Writer::new(style, &schema).rows(&rows, texts, &mut out);
            String::from_utf8(out).unwrap()
        };
        let csv = "a,b,c,d,e,f\n-7,1e16,\"x,\"\"y\",0.1,,18446744073709551615\n0,,,NaN,,0\n";
        assert_eq!(written(Style::Csv), csv);
        let json = "{\"a\":-7,\"b\":1e16,\"c\":\"x,\\\"y\",\"d\":0.1,\"e\":null,\"f\":18446744073709551615}\n\
                    {\"a\":0,\"b\":null,\"c\":null,\"d\":\"NaN\",\"e\":null,\"f\":0}\n";
        assert_eq!(written(Style::Json), json);
        let table = written(Style::Table);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[..3],
            [
                " a     b  c       d  e                     f",
                "--  ----  ----  ---  -  --------------------",
                "-7  1e16  x,\"y  0.1     18446744073709551615"
            ]
        );
    }
}
