//! The forms of text that records are read from.

use crate::batch::{Batch, Fill, Trouble};
use crate::csv::{self, Csv};
use crate::infer::Column;
use crate::json::{self, Json, Unread};
use crate::lines::{Lines, Pattern};
use crate::place::{Slot, slots};
use crate::seps::PAD;
use chappe_synth::ir::{NO_TEXT, load, text_of};
use chappe_synth::{FieldType, Scalar, Schema, TimePattern};
use memchr::memrchr;
use std::collections::HashSet;

/// How far a text has been looked at that has no whole record yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    seen: usize,
    csv: csv::Looked,
}

/// A form of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// Values with this byte between them, and a line of names first.
    Csv(u8),
    /// The same without such a line: the first columns have these names, each other one is `c` and its number, counted from 1.
    Bare(u8, Vec<String>),
    /// An object a line.
    Json,
    /// Lines that a pattern fits.
    Lines(Pattern),
}

impl Format {
    /// Values without a line of names. The fields of a schema are the columns, in their order, unless all of them are called as those are that have
    /// no other name: `c1`, `c2` and so on.
    pub fn bare(delimiter: u8, schema: Option<&Schema>) -> Format {
        let is_plain = |name: &str| {
            let number = name.strip_prefix('c').unwrap_or_default();
            number.parse::<usize>().is_ok_and(|n| n.to_string() == number && n > 0)
        };
        let names: Vec<String> = schema.map_or(&[][..], Schema::fields).iter().map(|f| f.name.clone()).collect();
        Format::Bare(delimiter, if names.iter().all(|name| is_plain(name)) { Vec::new() } else { names })
    }

    /// Whether it is values with something between them.
    pub(crate) fn is_values(&self) -> bool {
        matches!(self, Format::Csv(_) | Format::Bare(..))
    }

    /// The end of the last whole record of a text that begins with one. Of a text that grows until there is one each byte is looked at once.
    pub(crate) fn whole(&self, text: &[u8], len: usize, looked: &mut Looked) -> Option<usize> {
        let seen = std::mem::replace(&mut looked.seen, len);
        let last = seen + memrchr(b'\n', &text[seen..len])?;
        let end = match self {
            Format::Csv(delimiter) | Format::Bare(delimiter, _) => {
                csv::whole(text, len, last, *delimiter, &mut looked.csv)?
            }
            _ => last + 1,
        };
        *looked = Looked::default();
        Some(end)
    }

    /// The names of the columns, as an input's begin says, and where its records begin.
    ///
    /// # Errors
    /// The first line of a CSV is none.
    pub(crate) fn names(&self, text: &mut [u8], len: usize) -> Result<(Vec<String>, usize), Trouble> {
        /// So many objects say which members there are.
        const OBJECTS: usize = 1000;
        if let Some(what) = no_text(&text[..len]) {
            return Err(Trouble::Other(what.into()));
        }
        match self {
            Format::Csv(_) if text[..len].starts_with(b"{\"") => {
                Err(Trouble::Other("it is a JSON object, and no line of names: it is to be read as JSON".into()))
            }
            Format::Csv(delimiter) => {
                if text[..len].split(|b| *b == b'\n').next().is_some_and(|first| first.contains(&0)) {
                    return Err(Trouble::Other("its line of names has NUL bytes: it is no text".into()));
                }
                let (names, from) = csv::names(text, len, *delimiter)?;
                let line = &text[..from];
                if line.windows(2).any(|two| two[0] == b'\r' && !matches!(two[1], b'\r' | b'\n'))
                    && !line.contains(&b'"')
                {
                    let what =
                        "its lines end with CR alone, as on old Macs: `tr '\\r' '\\n'` before it makes lines of them";
                    return Err(Trouble::Other(what.into()));
                }
                Ok((names, from))
            }
            Format::Bare(delimiter, given) => {
                // Finding the ends of fields changes a text: this line is read again.
                let mut first = text.to_vec();
                let many = csv::names(&mut first, len, *delimiter)?.0.len();
                if given.len() > many {
                    let what = format!("it has {many} columns, and there are names for {}", given.len());
                    return Err(Trouble::Other(what));
                }
                let name = |at: usize| given.get(at).cloned().unwrap_or_else(|| format!("c{}", at + 1));
                Ok(((0..many).map(name).collect(), 0))
            }
            Format::Json => Ok((json::names(&text[..len], OBJECTS)?, 0)),
            Format::Lines(pattern) => Ok((pattern.names(), 0)),
        }
    }

    /// What reads the fields of a schema. A name that is no column is answered.
    ///
    /// # Errors
    /// The name.
    pub(crate) fn reader(&self, schema: &Schema, columns: &[String]) -> Result<Reader, String> {
        Ok(match self {
            Format::Csv(delimiter) | Format::Bare(delimiter, _) => {
                Reader::Csv(Csv::new(*delimiter, columns.len(), slots(schema, columns)?))
            }
            Format::Json => {
                let names: Vec<String> = schema.fields().iter().map(|f| f.name.clone()).collect();
                let slots = slots(schema, &names)?;
                Reader::Json(Json::new(slots))
            }
            Format::Lines(pattern) => Reader::Lines(Lines::new(pattern, slots(schema, columns)?)),
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
    ) -> Result<Vec<Column>, String> {
        /// So many bytes are looked at.
        const SAMPLE: usize = 1 << 18;
        let sample = len.min(from + SAMPLE);
        // Of a record that is longer all is looked at.
        let len = self.whole(text, sample, &mut Looked::default()).filter(|end| *end > from).unwrap_or(len);
        let mut text = text[..len + PAD].to_vec();
        let schema = Schema::laid_out(wanted.iter().map(|name| (name.clone(), FieldType::Str)))?;
        let mut reader = self.reader(&schema, columns)?;
        let mut guesses = vec![Column::default(); wanted.len()];
        let mut batch = Batch::new(schema.size() as usize);
        while from < len {
            batch.clear();
            let mut job = Fill { text: &mut text, len, from, batch: &mut batch, keep: true, bad: &mut |_, _, _| () };
            reader.fill(&mut job);
            from = job.from;
            for record in batch.records.chunks_exact(schema.size() as usize) {
                for (guess, field) in guesses.iter_mut().zip(schema.fields()) {
                    let word = load(record, field.at, Scalar::U64);
                    if word == NO_TEXT {
                        continue;
                    }
                    let at = word as u32 as usize;
                    let quoted = *self == Format::Json && at > 0 && text[at - 1] == b'"';
                    guess.see(text_of(word, &text), quoted);
                }
            }
        }
        Ok(guesses)
    }
}

/// What it is that begins so, if that is surely no text that can be read.
pub fn no_text(begin: &[u8]) -> Option<&'static str> {
    match begin {
        [0x1f, 0x8b, ..] => Some("it is compressed, and no text: `zcat` (gzip) before it makes text of it"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("it is compressed, and no text: `zstdcat` before it makes text of it"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("it is UTF-16: `iconv -f UTF-16 -t UTF-8` makes text of it that is read")
        }
        [0xd4, 0xc3, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0xc3, 0xd4, ..]
        | [0x4d, 0x3c, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0x3c, 0x4d, ..] => {
            Some("it is a capture of packets, and no text: a graph reads it, `pcap \"FILE\" | ...` (`chappe graph`)")
        }
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => Some(
            "it is a capture of packets (pcapng), and no text: `tcpdump -r X -w Y` makes one of it that a graph reads, `pcap \"FILE\" | ...`",
        ),
        _ => None,
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
    /// With patterns of times, by the names of their columns.
    pub fn with_times(mut self, times: &[(String, TimePattern)]) -> Reader {
        let (Reader::Csv(Csv { slots, .. }) | Reader::Json(Json { slots, .. }) | Reader::Lines(Lines { slots, .. })) =
            &mut self;
        for slot in slots {
            slot.pattern = times.iter().find(|(name, _)| *name == slot.name).map(|(_, pattern)| pattern.clone());
        }
        self
    }

    /// Numbers in these columns are no texts, and of columns that nobody has said none loses a digit.
    pub fn doubting(mut self, names: &[String], guessed: &[String]) -> Reader {
        let (Reader::Csv(Csv { slots, .. }) | Reader::Json(Json { slots, .. }) | Reader::Lines(Lines { slots, .. })) =
            &mut self;
        for slot in slots {
            (slot.doubtful, slot.guessed) = (names.contains(&slot.name), guessed.contains(&slot.name));
        }
        self
    }

    /// If all columns are asked for, as they were guessed: the columns of this text, or the members of its objects, that are none of them are told.
    pub fn of_all(mut self, all: bool, columns: &[String]) -> Reader {
        match &mut self {
            Reader::Json(json) => json.all = all,
            Reader::Csv(csv) if all => {
                let is_read: HashSet<&str> = csv.slots.iter().map(|s| s.name.as_str()).collect();
                csv.others = columns.iter().filter(|c| !is_read.contains(c.as_str())).cloned().collect();
            }
            _ => {}
        }
        self
    }

    /// The columns and members that were not read, since the last call.
    pub fn unread(&mut self) -> Vec<Unread> {
        match self {
            Reader::Json(json) => std::mem::take(&mut json.unread),
            Reader::Csv(csv) => {
                let Some((place, count)) = csv.unread.take() else { return Vec::new() };
                csv.others.iter().map(|name| Unread { name: Some(name.clone()), place, count }).collect()
            }
            Reader::Lines(_) => Vec::new(),
        }
    }

    /// What is read.
    pub fn slots(&self) -> &[Slot] {
        match self {
            Reader::Csv(Csv { slots, .. }) | Reader::Json(Json { slots, .. }) | Reader::Lines(Lines { slots, .. }) => {
                slots
            }
        }
    }

    /// Reads records.
    pub fn fill(&mut self, job: &mut Fill<'_>) {
        match self {
            Reader::Csv(csv) => csv.fill(job),
            Reader::Json(json) => json.fill(job),
            Reader::Lines(lines) => lines.fill(job),
        }
    }
}
