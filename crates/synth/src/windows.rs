//! What a query adds up, window by window: the whole stream is one, where the query says none (`every`).
//!
//! A record that comes when one of its windows has ended, or that has no time, is counted as late ([`Windows::late`]), and is in those that go on. Each window has a
//! [`Summary`]; all of them together have so much memory ([`Windows::limit`]).

use crate::live::Evaluator;
use crate::order::Rows;
use crate::query::Query;
use crate::records::Records;
use crate::summary::{Summary, SummaryError};
use crate::window::{By, Place, Window};
use std::collections::BTreeMap;

/// The windows that are open.
pub struct Windows {
    /// One of no window, from which others are made.
    plain: Summary,
    window: Option<Window>,
    open: BTreeMap<i128, Summary>,
    /// What was used, and can be used again.
    spare: Vec<Summary>,
    /// The first hop whose windows go on.
    mark: i128,
    number: u64,
    late: u64,
    size: usize,
    limit: usize,
}

impl Windows {
    /// For a query that has aggregates; none: it has none.
    pub fn new(query: &Query) -> Option<Windows> {
        let plain = Summary::new(query)?;
        let limit = Summary::MEMORY;
        let window = query.window().cloned();
        let (open, spare) = (BTreeMap::new(), Vec::new());
        Some(Windows { plain, window, open, spare, mark: i128::MIN, number: 0, late: 0, size: 0, limit })
    }

    /// So many bytes for groups and their values, of all windows together.
    #[must_use]
    pub fn limit(self, bytes: usize) -> Windows {
        Windows { limit: bytes, plain: self.plain.limit(bytes), ..self }
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        if self.window.is_some() { self.size } else { self.plain.size() }
    }

    /// How many records that the query asks for came when a window of theirs had ended, or had no time.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The next record is the one of this number of the stream: for several threads, each of which adds up some parts.
    pub fn begin_at(&mut self, order: u64) {
        self.plain.begin_at(order);
    }

    /// When the next window by the clock ends, in nanoseconds from this time on; none: none is open.
    pub fn ends_in(&self, now: u64) -> Option<u64> {
        let (window, first) = (self.window.as_ref().filter(|w| w.by == By::Clock)?, self.open.first_key_value()?.0);
        Some(window.start(first + i128::from(window.many)).saturating_sub(now))
    }

    /// Adds records; hands out the rows of each window that ends with them. `now`: the time in nanoseconds since 1970, for windows by the clock, which end
    /// also if no records come.
    ///
    /// # Errors
    /// What needs more memory than there is; a sum of integers of a window that ends, and does not fit. Then the windows are incomplete.
    pub fn add(
        &mut self,
        evaluator: &mut Evaluator,
        records: Records<'_>,
        now: impl FnOnce() -> u64,
        mut ended: impl FnMut(&Rows),
    ) -> Result<(), SummaryError> {
        let Some(window) = self.window.clone() else { return self.plain.add(evaluator, records) };
        let clock = if window.by == By::Clock { window.at(now().into()) } else { Place { hop: 0, mark: 0 } };
        let place = |at: usize, number: u64| match &window.by {
            By::Number => {
                let Place { hop, .. } = window.at(number.into());
                Some(Place { hop, mark: hop })
            }
            By::Clock => Some(clock),
            By::Field(field) => window.of(field, records.get(at)),
        };
        if window.by == By::Clock {
            self.reach(clock.mark, &window, &mut ended)?;
        }
        let mut from = 0;
        while from < records.len() {
            let first = place(from, self.number);
            let alike = |at: &usize| place(*at, self.number + (*at - from) as u64) == first;
            let many = 1 + (from + 1..records.len()).take_while(alike).count();
            match first {
                None => self.miss(evaluator, records.part(from, many)),
                Some(place) => {
                    self.reach(place.mark, &window, &mut ended)?;
                    self.put(evaluator, records.part(from, many), place.hop, &window)?;
                }
            }
            self.number += many as u64;
            from += many;
        }
        // The record that fills a window ends it.
        if window.by == By::Number {
            self.reach(window.at(self.number.into()).hop, &window, &mut ended)?;
        }
        Ok(())
    }

    /// Counts those that the query asks for.
    fn miss(&mut self, evaluator: &mut Evaluator, records: Records<'_>) {
        let mut passing = Vec::new();
        evaluator.select(records, &mut passing);
        self.late += passing.len() as u64;
    }

    /// Adds records of one hop to its windows that go on.
    fn put(
        &mut self,
        evaluator: &mut Evaluator,
        records: Records<'_>,
        hop: i128,
        window: &Window,
    ) -> Result<(), SummaryError> {
        let many = i128::from(window.many);
        // The youngest one begins here, the oldest one ends here.
        let oldest = (hop - many + 1).max(window.first());
        let first = oldest.max(self.mark.saturating_sub(many).saturating_add(1));
        if first > oldest && window.by != By::Number {
            self.miss(evaluator, records);
        }
        for begin in first..=hop {
            let summary = self.open.entry(begin).or_insert_with(|| {
                let mut summary = self.spare.pop().unwrap_or_else(|| self.plain.another());
                summary.begin_window(window.start(begin), self.number);
                self.size += summary.size() + ITSELF;
                summary
            });
            let before = summary.size();
            summary.begin_at(self.number);
            summary.add(evaluator, records)?;
            self.size = self.size + summary.size() - before;
        }
        if self.size > self.limit {
            let groups = self.open.values().map(Summary::groups).sum();
            return Err(SummaryError::Memory { groups, limit: self.limit });
        }
        Ok(())
    }

    /// Time has reached a hop.
    fn reach(&mut self, mark: i128, window: &Window, ended: &mut impl FnMut(&Rows)) -> Result<(), SummaryError> {
        self.mark = self.mark.max(mark);
        self.close(self.mark, window, ended)
    }

    /// Hands out the windows that end before a hop, the oldest first.
    fn close(&mut self, mark: i128, window: &Window, ended: &mut impl FnMut(&Rows)) -> Result<(), SummaryError> {
        while let Some(first) = self.open.first_entry() {
            if *first.key() + i128::from(window.many) > mark {
                break;
            }
            let mut summary = first.remove();
            self.size -= summary.size() + ITSELF;
            ended(&summary.finish()?);
            if self.spare.len() < KEPT {
                self.spare.push(summary);
            }
        }
        Ok(())
    }

    /// Adds what others have added up of the same query over other parts of the stream, which has one window.
    ///
    /// # Errors
    /// What needs more memory than there is.
    pub fn merge(&mut self, other: &Windows) -> Result<(), SummaryError> {
        self.plain.merge(&other.plain)
    }

    /// No more records come: hands out the rows of all windows that are open, the oldest first.
    ///
    /// # Errors
    /// A sum of integers that does not fit.
    pub fn finish(&mut self, mut ended: impl FnMut(&Rows)) -> Result<(), SummaryError> {
        match self.window.clone() {
            Some(window) => self.close(i128::MAX, &window, &mut ended),
            None => self.plain.finish().map(|rows| ended(&rows)),
        }
    }
}

/// What a window needs beside its groups.
const ITSELF: usize = size_of::<Summary>() + 256;
/// So many ended ones are kept for others.
const KEPT: usize = 8;
