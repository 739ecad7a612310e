//! Aggregates over windows: rows of counts, sums, least, greatest and last values, by key or of all.
//!
//! A window is so many records that were looked at, or as long as the caller likes ([`Summary::finish`]). By key, what the query's
//! program writes are rows of a key and values (filter and values in one loop), which are added to a table here; without
//! keys the program adds up by itself.
//!
//! There are at most [`MAX_GROUPS`] keys in a window; records of further ones are counted ([`Summary::left_out`]), not added up.

use crate::ir::{Fold, settled};
use crate::live::Evaluator;
use crate::query::{Keyed, Query};
use crate::records::Records;
use crate::schema::{FieldType, Scalar, Schema};
use std::collections::HashMap;

/// The most keys of a window.
pub const MAX_GROUPS: usize = 1 << 16;

/// What has been added up in a window so far.
pub struct Summary {
    results: Schema,
    folds: Vec<Fold>,
    keyed: Option<Keyed>,
    row: usize,
    every: Option<u64>,
    looked: u64,
    passed: u64,
    left_out: u64,
    /// One after the other: the states of each group; without keys there is one.
    states: Vec<u64>,
    groups: HashMap<Vec<u8>, usize>,
    order: Vec<Vec<u8>>,
    rows: Vec<u8>,
}

impl Summary {
    /// For a query that has aggregates; a window ends after every so many records that were looked at, or never by itself. None: the query
    /// has none.
    pub fn new(query: &Query, every: Option<u64>) -> Option<Summary> {
        let results = query.rows()?.clone();
        let folds: Vec<Fold> = match query.keyed() {
            Some(keyed) => keyed.folds.iter().map(|(fold, _)| *fold).collect(),
            None => query.program().aggregates.iter().map(|a| a.fold).collect(),
        };
        if folds.is_empty() {
            return None;
        }
        let mut summary = Summary {
            results,
            folds,
            keyed: query.keyed().cloned(),
            row: query.program().row as usize,
            every: every.map(|n| n.max(1)),
            looked: 0,
            passed: 0,
            left_out: 0,
            states: Vec::new(),
            groups: HashMap::new(),
            order: Vec::new(),
            rows: Vec::new(),
        };
        summary.begin();
        Some(summary)
    }

    fn begin(&mut self) {
        (self.looked, self.passed, self.left_out) = (0, 0, 0);
        self.groups.clear();
        self.order.clear();
        self.states.clear();
        if self.keyed.is_none() {
            self.states.extend(self.folds.iter().map(|f| f.start()));
        }
    }

    /// Records that passed in this window and were not added up, since there were too many keys.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Adds records; hands out the rows of each window that ends with one of them.
    pub fn add(&mut self, evaluator: &mut Evaluator, mut records: Records<'_>, mut ended: impl FnMut(&[u8])) {
        loop {
            let room = self.every.map_or(u64::MAX, |n| n - self.looked).min(records.len() as u64) as usize;
            self.add_some(evaluator, records.part(0, room));
            self.looked += room as u64;
            if self.every == Some(self.looked) {
                ended(&self.finish());
            }
            if room == records.len() {
                return;
            }
            records = records.part(room, records.len() - room);
        }
    }

    fn add_some(&mut self, evaluator: &mut Evaluator, records: Records<'_>) {
        let Some(keyed) = &self.keyed else {
            self.passed += evaluator.fold(records, &mut self.states) as u64;
            return;
        };
        self.rows.clear();
        let count = evaluator.project(records, &mut self.rows);
        self.passed += count as u64;
        let (width, folds) = (keyed.width as usize, &keyed.folds);
        let keys = &self.results.fields()[..self.results.fields().len() - folds.len()];
        for row in self.rows.chunks_exact_mut(self.row).take(count) {
            settle_texts(&mut row[..width], keys.iter().map(|k| k.kind));
            let group = match self.groups.get(&row[..width]) {
                Some(group) => *group,
                None if self.order.len() == MAX_GROUPS => {
                    self.left_out += 1;
                    continue;
                }
                None => {
                    let key = row[..width].to_owned();
                    self.groups.insert(key.clone(), self.order.len());
                    self.order.push(key);
                    self.states.extend(folds.iter().map(|(f, _)| f.start()));
                    self.order.len() - 1
                }
            };
            let states = &mut self.states[group * folds.len()..][..folds.len()];
            for ((state, (fold, at)), field) in states.iter_mut().zip(folds).zip(&self.results.fields()[keys.len()..]) {
                let value = at.map_or(0, |at| match field.kind {
                    FieldType::Scalar(Scalar::Bool) => u64::from(row[at as usize]),
                    _ => u64::from_le_bytes(row[at as usize..at as usize + 8].try_into().expect("8 bytes")),
                });
                *state = fold.step(*state, value);
            }
        }
    }

    /// Ends the window: its rows, in the order in which their keys came first, of the query's [`rows`](Query::rows). Without keys: one
    /// row, or none if no record has passed.
    pub fn finish(&mut self) -> Vec<u8> {
        let size = self.results.size() as usize;
        let fields = self.results.fields();
        let keys = fields.len() - self.folds.len();
        let groups = if self.keyed.is_some() { self.order.len() } else { usize::from(self.passed > 0) };
        let mut out = vec![0; groups * size];
        for (group, row) in out.chunks_exact_mut(size.max(1)).enumerate() {
            let mut from = 0;
            for field in &fields[..keys] {
                let width = field.kind.width() as usize;
                row[field.at as usize..][..width].copy_from_slice(&self.order[group][from..from + width]);
                from += width;
            }
            for (i, field) in fields[keys..].iter().enumerate() {
                let state = self.states[group * self.folds.len() + i];
                match field.kind {
                    FieldType::Scalar(Scalar::Bool) => row[field.at as usize] = state as u8,
                    FieldType::Scalar(Scalar::F64) => {
                        row[field.at as usize..][..8].copy_from_slice(&settled(state).to_le_bytes());
                    }
                    _ => row[field.at as usize..][..8].copy_from_slice(&state.to_le_bytes()),
                }
            }
        }
        self.begin();
        out
    }
}

/// What lies behind the end of a text is no part of it: two keys that read the same are the same.
fn settle_texts(key: &mut [u8], kinds: impl Iterator<Item = FieldType>) {
    let mut at = 0;
    for kind in kinds {
        let width = kind.width() as usize;
        if let FieldType::Text(_) = kind {
            let text = &mut key[at..at + width];
            if let Some(end) = text.iter().position(|b| *b == 0) {
                text[end..].fill(0);
            }
        }
        at += width;
    }
}
