//! A stage that adds up, window by window or all, or brings rows in order: by [`chappe_synth`]'s own.
//!
//! Rows come when a window ends, and at the end. A window by the clock ends with the first block, if an empty one, that comes behind it. A record that comes
//! when a window of its own has ended, or that has no time, is counted as dropped.

use crate::stage::{Fault, Out, Stage};
use crate::types::{Block, Data};
use chappe_rows::clock;
use chappe_synth::{Evaluator, Ordered, Query, Records, Rows, Schema, Windows};
use std::sync::Arc;

/// What a stage keeps until a window, or all, has ended.
enum Kept {
    Sums(Box<Windows>),
    /// Rows to be ordered, or the first ones; and how many bytes they may have.
    Rows(Option<Ordered>, usize),
}

/// Adds up, or orders.
pub struct Sums {
    evaluator: Evaluator,
    kept: Kept,
    late: u64,
    size: usize,
    results: Schema,
}

impl Sums {
    /// For a query that does so, whose groups or rows may have so many bytes.
    pub fn new(query: &Query, evaluator: Evaluator, memory: usize) -> Sums {
        let kept = match Windows::new(query) {
            Some(windows) => Kept::Sums(Box::new(windows.limit(memory))),
            None => Kept::Rows(Ordered::new(query), memory),
        };
        let (size, results) = (query.schema().size() as usize, query.rows().unwrap_or(query.schema()).clone());
        Sums { evaluator, kept, late: 0, size, results }
    }

    fn hand_on(&self, rows: Rows, again: bool, out: &mut dyn Out) -> Result<(), Fault> {
        if rows.bytes.is_empty() {
            return Ok(());
        }
        let texts = (!rows.texts.is_empty()).then(|| Arc::new(rows.texts));
        out.put(Block { texts, again, ..Block::bytes(rows.bytes) })
    }
}

impl Stage for Sums {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let Data::Bytes(bytes) = &block.data else { return Ok(()) };
        let records = Records::new(bytes, self.size, self.size).with_texts(block.texts());
        let mut rows = Rows::default();
        match &mut self.kept {
            Kept::Sums(windows) => {
                let ended = |ended: &Rows| rows.extend(&self.results, ended);
                windows.add(&mut self.evaluator, records, clock, ended).map_err(Fault::new)?;
                let late = windows.late() - self.late;
                if late > 0 {
                    self.late += late;
                    out.drop_frames(late);
                }
            }
            Kept::Rows(None, _) => {}
            Kept::Rows(Some(ordered), memory) => {
                let mut projected = Vec::new();
                self.evaluator.project(records, &mut projected);
                ordered.add(&projected, block.texts());
                if ordered.size() > *memory {
                    return Err(Fault(format!(
                        "the rows that are kept need more than {memory} bytes: memory=BYTES allows more"
                    )));
                }
                if ordered.is_full() {
                    out.finish();
                }
            }
        }
        self.hand_on(rows, block.again, out)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let mut rows = Rows::default();
        match &mut self.kept {
            Kept::Sums(windows) => {
                windows.finish(|ended| rows.extend(&self.results, ended)).map_err(Fault::new)?;
            }
            Kept::Rows(ordered, _) => rows = ordered.take().map(Ordered::finish).unwrap_or_default(),
        }
        self.hand_on(rows, false, out)
    }

    fn says(&self) -> Option<String> {
        let came = if self.late == 1 { "1 record" } else { &format!("{} records", self.late) };
        (self.late > 0).then(|| format!("{came} came when a window of theirs had ended, or had no time"))
    }
}
