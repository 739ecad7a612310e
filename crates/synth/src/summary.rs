//! Aggregates: rows of counts, sums, least, greatest and last values, by key or of all, of one window or of the whole stream ([`Windows`](crate::Windows)
//! has several).
//!
//! What the query's program writes are rows of a key and values (filter and values in one loop), which are added to a table here; without keys, and where nothing can
//! overflow or be NULL, the program adds up by itself.
//!
//! Groups, sets and the values of quantiles have [`Summary::MEMORY`] bytes together, or what [`Summary::limit`] says: what would go beyond is an error.
//!
//! Several threads add up parts of a stream each with a summary of its own ([`Summary::begin_at`] says which part), and [`Summary::merge`] makes one of two.

use crate::adding::{Outcome, Overflow, States};
use crate::ir::{Fold, NO_TEXT, load, settled};
use crate::list::Keyed;
use crate::live::Evaluator;
use crate::order::{Ordered, Rows};
use crate::query::Query;
use crate::records::Records;
use crate::schema::{FieldType, Scalar, Schema};
use crate::table::Table;
use crate::time;
use std::sync::Arc;

/// Why records cannot be added up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// Groups, sets and values need more memory than they may have.
    #[error("{groups} groups and their values need more than the {limit} bytes that they may have")]
    Memory {
        /// How many groups there are.
        groups: usize,
        /// How many bytes there may be.
        limit: usize,
    },
    /// An integer sum does not fit 64 bits, with all values added up.
    #[error("`{column}`{key} does not fit 64 bits: sum doubles, as in sum(double(x))")]
    Overflow {
        /// The column of the result.
        column: String,
        /// Which of its rows, by the keys: ` of sym=A, side=B`.
        key: String,
    },
}

/// What has been added up in a window so far.
pub struct Summary {
    query: Arc<Query>,
    results: Arc<Schema>,
    row: usize,
    limit: usize,
    /// Where the window begins, if there are several.
    start: u64,
    passed: u64,
    /// The number of the next record, for what comes first and last.
    order: u64,
    /// The number at which the last batch began of which a record has passed, counted from 1.
    passed_at: u64,
    /// What the program adds up by itself.
    folds: Vec<Fold>,
    folded: Vec<u64>,
    keys: Table,
    states: States,
    /// Of each group the number of its first record.
    first: Vec<u64>,
    rows: Vec<u8>,
    key: Vec<u8>,
}

impl Summary {
    /// How many bytes groups and their values may have, unless another number is said.
    pub const MEMORY: usize = 1 << 30;

    /// For a query that has aggregates; none: it has none.
    pub fn new(query: &Query) -> Option<Summary> {
        if !query.sums_up() {
            return None;
        }
        Some(Summary::of(Arc::new(query.clone()), Arc::new(query.rows()?.clone()), Summary::MEMORY))
    }

    /// One more for the same query.
    pub(crate) fn another(&self) -> Summary {
        Summary::of(Arc::clone(&self.query), Arc::clone(&self.results), self.limit)
    }

    fn of(query: Arc<Query>, results: Arc<Schema>, limit: usize) -> Summary {
        let added = query.keyed().map_or(&[][..], |keyed| &keyed.added);
        let mut summary = Summary {
            row: query.program().row as usize,
            limit,
            start: 0,
            passed: 0,
            order: 0,
            passed_at: 0,
            folds: query.program().aggregates.iter().map(|a| a.fold).collect(),
            folded: Vec::new(),
            keys: Table::default(),
            states: States::new(added),
            first: Vec::new(),
            rows: Vec::new(),
            key: Vec::new(),
            query,
            results,
        };
        summary.begin();
        summary
    }

    /// So many bytes for groups and their values.
    #[must_use]
    pub fn limit(self, bytes: usize) -> Summary {
        Summary { limit: bytes, ..self }
    }

    fn begin(&mut self) {
        (self.passed, self.passed_at) = (0, 0);
        self.keys.clear();
        self.states.clear();
        self.first.clear();
        self.folded.clear();
        self.folded.extend(self.folds.iter().map(|f| f.start()));
    }

    /// The next record is the one of this number of the stream.
    pub fn begin_at(&mut self, order: u64) {
        self.order = order;
    }

    /// A window begins, at this place.
    pub(crate) fn begin_window(&mut self, start: u64, order: u64) {
        (self.start, self.order) = (start, order);
    }

    /// How many groups there are.
    pub(crate) fn groups(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of memory: of the groups, and of what their rows need at the end.
    pub fn size(&self) -> usize {
        let rows = self.first.len() * (self.results.size() as usize + size_of::<usize>()) + self.keys.bytes();
        // Rows in order are moved twice.
        let copies = if self.query.order().is_empty() { 1 } else { 2 };
        self.keys.size() + self.states.size() + 8 * self.first.capacity() + copies * rows
    }

    /// Adds records.
    ///
    /// # Errors
    /// What needs more memory than there is. Then the window is incomplete, and is given up by [`Summary::finish`].
    pub fn add(&mut self, evaluator: &mut Evaluator, records: Records<'_>) -> Result<(), SummaryError> {
        let begin = self.order;
        self.order += records.len() as u64;
        let Some(keyed) = self.query.keyed() else {
            let passed = evaluator.fold(records, &mut self.folded) as u64;
            self.passed += passed;
            if passed > 0 {
                self.passed_at = begin + 1;
            }
            return Ok(());
        };
        self.rows.clear();
        let count = evaluator.project(records, &mut self.rows);
        self.passed += count as u64;
        let texts = records.texts();
        for (at, row) in self.rows.chunks_exact(self.row.max(1)).take(count).enumerate() {
            let key = key_of(&mut self.key, keyed, row, texts);
            let group = self.keys.add(key);
            let order = begin + at as u64;
            if group == self.first.len() {
                self.first.push(order);
                self.states.group();
            }
            self.states.add(group, row, texts, order);
        }
        self.within()
    }

    /// A sum of a group does not fit.
    fn overflow(&self, group: usize, aggregate: usize) -> SummaryError {
        let (mut column, mut keys) = (String::new(), Vec::new());
        if let Some(keyed) = self.query.keyed() {
            let name = |field: usize| self.results.fields()[field].name.clone();
            column = name(keyed.added[aggregate].field);
            if self.query.window().is_some() {
                let window = &self.results.fields()[0];
                keys.push(format!("{}={}", window.name, shown(window.kind, Some(&self.start.to_le_bytes()))));
            }
            let mut key = self.keys.get(group);
            for (kind, field) in &keyed.keys {
                let (value, rest) = next_of(*kind, key);
                keys.push(format!("{}={}", name(*field), shown(*kind, value)));
                key = rest;
            }
        }
        let key = if keys.is_empty() { String::new() } else { format!(" of {}", keys.join(", ")) };
        SummaryError::Overflow { column, key }
    }

    fn within(&self) -> Result<(), SummaryError> {
        if self.size() > self.limit {
            return Err(SummaryError::Memory { groups: self.keys.len(), limit: self.limit });
        }
        Ok(())
    }

    /// Adds what another summary of the same query has added up. Which of two records came first is told by the number at which each summary
    /// [began](Summary::begin_at).
    ///
    /// # Errors
    /// What needs more memory than there is.
    pub fn merge(&mut self, other: &Summary) -> Result<(), SummaryError> {
        self.passed += other.passed;
        for ((state, fold), more) in self.folded.iter_mut().zip(&self.folds).zip(&other.folded) {
            *state = match fold {
                Fold::Count => *state + more,
                Fold::Last if other.passed_at < self.passed_at || other.passed == 0 => *state,
                fold => fold.step(*state, *more),
            };
        }
        self.passed_at = self.passed_at.max(other.passed_at);
        if self.query.keyed().is_none() {
            return Ok(());
        }
        for (of, key) in other.keys.iter().enumerate() {
            let group = self.keys.add(key);
            if group == self.first.len() {
                self.first.push(other.first[of]);
                self.states.group();
            }
            self.first[group] = self.first[group].min(other.first[of]);
            self.states.merge(group, &other.states, of);
        }
        self.within()
    }

    /// Ends the window: its rows, of the query's [`rows`](Query::rows), in the order in which their keys came first or in that of the query. Without
    /// keys: one row, or none if no record has passed.
    ///
    /// # Errors
    /// A sum of integers that does not fit, in the order of the rows. The window has ended all the same.
    pub fn finish(&mut self) -> Result<Rows, SummaryError> {
        let mut rows = Rows::default();
        let collected = if self.passed > 0 { self.collect(&mut rows) } else { Ok(()) };
        self.begin();
        collected?;
        Ok(match Ordered::new(&self.query) {
            None => rows,
            Some(ordered) => ordered.of(rows),
        })
    }

    fn collect(&mut self, out: &mut Rows) -> Result<(), SummaryError> {
        let size = self.results.size() as usize;
        // Of several windows each row says first which one it is of.
        let (is_window, start) = (usize::from(self.query.window().is_some()), self.start);
        let windows = &self.results.fields()[..is_window];
        let Some(keyed) = self.query.keyed() else {
            out.bytes.resize(size, 0);
            windows.iter().for_each(|w| put(&mut out.bytes[w.at as usize..], w.kind, Outcome::Word(start), 0));
            for (state, field) in self.folded.iter().zip(&self.results.fields()[is_window..]) {
                put(&mut out.bytes[field.at as usize..], field.kind, Outcome::Word(*state), 0);
            }
            return Ok(());
        };
        let mut groups: Vec<usize> = (0..self.first.len()).collect();
        groups.sort_by_key(|group| self.first[*group]);
        for group in groups {
            let row = out.bytes.len();
            out.bytes.resize(row + size, 0);
            let mut key = self.keys.get(group);
            windows.iter().for_each(|w| put(&mut out.bytes[row + w.at as usize..], w.kind, Outcome::Word(start), 0));
            for (kind, field) in &keyed.keys {
                let at = row + self.results.fields()[*field].at as usize;
                let (value, rest) = next_of(*kind, key);
                if *kind == FieldType::Str {
                    let word = value.map_or(NO_TEXT, |text| out.text(text));
                    out.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
                } else if let Some(value) = value {
                    out.bytes[at..at + value.len()].copy_from_slice(value);
                }
                key = rest;
            }
            for (number, added) in keyed.added.iter().enumerate() {
                let field = &self.results.fields()[added.field];
                let outcome = match self.states.outcome(group, number) {
                    Ok(outcome) => outcome,
                    Err(Overflow(aggregate)) => return Err(self.overflow(group, aggregate)),
                };
                let word = if let Outcome::Text(text) = outcome { out.text(text) } else { NO_TEXT };
                put(&mut out.bytes[row + field.at as usize..], field.kind, outcome, word);
            }
        }
        Ok(())
    }
}

/// The first field of a key, and what is behind it; of a text of any length none: NULL.
fn next_of(kind: FieldType, key: &[u8]) -> (Option<&[u8]>, &[u8]) {
    if kind != FieldType::Str {
        let (value, rest) = key.split_at(kind.width() as usize);
        return (Some(value), rest);
    }
    let (word, rest) = key.split_at(4);
    let len = u32::from_le_bytes(word.try_into().expect("4 bytes"));
    if len == u32::MAX {
        return (None, rest);
    }
    let (text, rest) = rest.split_at(len as usize);
    (Some(text), rest)
}

/// A field of a key, to people.
fn shown(kind: FieldType, value: Option<&[u8]>) -> String {
    let Some(value) = value else { return "NULL".into() };
    let scalar = match kind {
        FieldType::Maybe(scalar) if value[scalar.width() as usize] == 0 => return "NULL".into(),
        FieldType::Maybe(scalar) | FieldType::Scalar(scalar) => scalar,
        FieldType::Text(_) | FieldType::Str => {
            let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
            return String::from_utf8_lossy(&value[..end]).chars().filter(|c| !c.is_control()).take(40).collect();
        }
    };
    let word = load(value, 0, scalar);
    match scalar {
        Scalar::Bool => (word != 0).to_string(),
        Scalar::F32 | Scalar::F64 => f64::from_bits(word).to_string(),
        Scalar::Time => time::written(word.cast_signed()),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => word.cast_signed().to_string(),
        _ => word.to_string(),
    }
}

/// Writes a result into its field; `text` names it, if it is one.
fn put(place: &mut [u8], kind: FieldType, outcome: Outcome<'_>, text: u64) {
    match (kind, outcome) {
        (FieldType::Str, _) => place[..8].copy_from_slice(&text.to_le_bytes()),
        (FieldType::Scalar(scalar) | FieldType::Maybe(scalar), Outcome::Word(word)) => {
            let word = if scalar == Scalar::F64 { settled(word) } else { word };
            let width = scalar.width() as usize;
            place[..width].copy_from_slice(&word.to_le_bytes()[..width]);
            if let FieldType::Maybe(_) = kind {
                place[width] = 1;
            }
        }
        // The row was zeroed: it says that there is no value.
        _ => {}
    }
}

/// Adds to a key what all values have that are equal: zeros of both signs, NaNs, whatever is true.
#[inline]
fn equal(key: &mut Vec<u8>, scalar: Scalar, value: &[u8]) {
    let start = key.len();
    key.extend_from_slice(value);
    match scalar {
        Scalar::Bool => key[start] = u8::from(value[0] != 0),
        Scalar::F32 | Scalar::F64 => {
            let number = f64::from_bits(load(value, 0, scalar));
            if number == 0.0 {
                key[start..].fill(0);
            } else if number.is_nan() {
                let nan = if scalar == Scalar::F32 { &f32::NAN.to_le_bytes()[..] } else { &f64::NAN.to_le_bytes()[..] };
                key[start..].copy_from_slice(nan);
            }
        }
        _ => {}
    }
}

/// The key of a row: its fields' bytes, of a text of any length first how many there are. What lies behind the end of a text of fixed length is no
/// part of it, nor is what lies where there is no value: two keys that read the same are the same.
#[inline]
fn key_of<'k>(key: &'k mut Vec<u8>, keyed: &Keyed, row: &'k [u8], texts: &[u8]) -> &'k [u8] {
    key.clear();
    let mut at = 0;
    for (kind, _) in &keyed.keys {
        let width = kind.width() as usize;
        let value = &row[at..at + width];
        at += width;
        match kind {
            FieldType::Scalar(scalar) => equal(key, *scalar, value),
            FieldType::Text(_) => {
                let end = value.iter().position(|b| *b == 0).unwrap_or(width);
                key.extend_from_slice(&value[..end]);
                key.resize(key.len() + width - end, 0);
            }
            FieldType::Maybe(_) if value[width - 1] == 0 => key.resize(key.len() + width, 0),
            FieldType::Maybe(scalar) => {
                equal(key, *scalar, &value[..width - 1]);
                key.push(1);
            }
            FieldType::Str => {
                let word = u64::from_le_bytes(value.try_into().expect("8 bytes"));
                key.extend_from_slice(&((word >> 32) as u32).to_le_bytes());
                if word >> 32 != NO_TEXT >> 32 {
                    key.extend_from_slice(crate::ir::text_of(word, texts));
                }
            }
        }
    }
    key
}
