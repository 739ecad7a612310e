//! The forms of text that records are read from.

use crate::batch::{Batch, Trouble};
use crate::csv::{self, Csv};
use crate::infer::Guess;
use crate::json::{self, Json};
use crate::lines::{Lines, Pattern};
use crate::place::{Slot, slots};
use crate::seps::PAD;
use chappe_synth::ir::{NO_TEXT, load, text_of};
use chappe_synth::{FieldType, Scalar, Schema};
use memchr::memrchr;

/// A form of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// Values with this byte between them, and a line of names first.
    Csv(u8),
    /// An object a line.
    Json,
    /// Lines that a pattern fits.
    Lines(Pattern),
}

impl Format {
    /// The end of the last whole record of a text that begins with one.
    pub(crate) fn whole(&self, text: &[u8], len: usize) -> Option<usize> {
        match self {
            Format::Csv(delimiter) => csv::whole(text, len, *delimiter),
            _ => memrchr(b'\n', &text[..len]).map(|at| at + 1),
        }
    }

    /// The names of the columns, as an input's begin says, and where its records begin.
    ///
    /// # Errors
    /// The first line of a CSV is none.
    pub(crate) fn names(&self, text: &mut [u8], len: usize) -> Result<(Vec<String>, usize), Trouble> {
        /// So many objects say which members there are.
        const OBJECTS: usize = 1000;
        match self {
            Format::Csv(delimiter) => csv::names(text, len, *delimiter),
            Format::Json => Ok((json::names(&text[..len], OBJECTS), 0)),
            Format::Lines(pattern) => Ok((pattern.names(), 0)),
        }
    }

    /// What reads the fields of a schema. A name that is no column is answered.
    ///
    /// # Errors
    /// The name.
    pub(crate) fn reader(&self, schema: &Schema, columns: &[String]) -> Result<Reader, String> {
        Ok(match self {
            Format::Csv(delimiter) => {
                Reader::Csv(Csv { delimiter: *delimiter, columns: columns.len(), slots: slots(schema, columns)? })
            }
            Format::Json => {
                let names: Vec<String> = schema.fields().iter().map(|f| f.name.clone()).collect();
                let slots = slots(schema, &names)?;
                Reader::Json(Json { spans: vec![None; slots.len()], slots, strict: false })
            }
            Format::Lines(pattern) => Reader::Lines(Lines { pattern: pattern.clone(), slots: slots(schema, columns)? }),
        })
    }

    /// What the columns of these names are, by the records from `from` on.
    ///
    /// # Errors
    /// Too many columns.
    pub(crate) fn guess(
        &self,
        text: &[u8],
        len: usize,
        mut from: usize,
        columns: &[String],
        wanted: &[String],
    ) -> Result<Vec<FieldType>, String> {
        /// So many bytes are looked at.
        const SAMPLE: usize = 1 << 18;
        let sample = len.min(from + SAMPLE);
        let len = self.whole(&text[..len + PAD], sample).unwrap_or(len);
        let mut text = text[..len + PAD].to_vec();
        let schema = Schema::laid_out(wanted.iter().map(|name| (name.clone(), FieldType::Str)))?;
        let mut reader = self.reader(&schema, columns)?;
        let mut guesses = vec![Guess::Nothing; wanted.len()];
        let mut batch = Batch::new(schema.size() as usize);
        while from < len {
            batch.clear();
            reader.fill(&mut text, len, &mut from, &mut batch, true, &mut |_, _, _| ());
            for record in batch.records.chunks_exact(schema.size() as usize) {
                for (guess, field) in guesses.iter_mut().zip(schema.fields()) {
                    let word = load(record, field.at, Scalar::U64);
                    if word == NO_TEXT {
                        continue;
                    }
                    let at = word as u32 as usize;
                    let quoted = *self == Format::Json && at > 0 && text[at - 1] == b'"';
                    *guess = if quoted { Guess::Text } else { guess.and(text_of(word, &text)) };
                }
            }
        }
        Ok(guesses.into_iter().map(Guess::field).collect())
    }
}

/// What reads records of one form.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    Csv(Csv),
    Json(Json),
    Lines(Lines),
}

impl Reader {
    /// What is read.
    pub fn slots(&self) -> &[Slot] {
        match self {
            Reader::Csv(Csv { slots, .. }) | Reader::Json(Json { slots, .. }) | Reader::Lines(Lines { slots, .. }) => {
                slots
            }
        }
    }

    /// Reads records from a place on into the batch, until it is full or the text ends, which the place then says. What is wrong is handed out, with the
    /// place where its record begins; `keep`: such a record is kept, with NULL for what is wrong.
    pub fn fill(
        &mut self,
        text: &mut [u8],
        len: usize,
        from: &mut usize,
        batch: &mut Batch,
        keep: bool,
        bad: &mut dyn FnMut(&[u8], usize, &Trouble),
    ) {
        match self {
            Reader::Csv(csv) => csv.fill(text, len, from, batch, keep, bad),
            Reader::Json(json) => json.fill(text, len, from, batch, keep, bad),
            Reader::Lines(lines) => lines.fill(text, len, from, batch, keep, bad),
        }
    }
}
