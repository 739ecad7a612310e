//! Text into records, and questions about it: CSV, JSON lines, lines by a pattern, in files or pipes, by the query language of
//! [`chappe_synth`]; and records as text.
//!
//! ```
//! use chappe_rows::{Ask, Format, Input, OnBad, Style, run};
//!
//! let trades = "sym,px,qty\nA,10.5,2\nB,9.0,1\nA,12.0,\n";
//! let ask = Ask {
//!     format: Format::Csv(b','),
//!     query: "where px > 10 select sym, sum(px * qty) as value, count() as n by sym".into(),
//!     params: Vec::new(),
//!     schema: None,
//!     on_bad: OnBad::Stop,
//!     memory: 1 << 20,
//!     threads: 1,
//! };
//! let input = Input { name: "trades.csv".into(), bytes: Box::new(trades.as_bytes()) };
//! let mut answer = Vec::new();
//! run(&ask, vec![input], Style::Csv, &mut answer, &mut |_| ())?;
//! assert_eq!(String::from_utf8(answer)?, "sym,value,n\nA,21.0,2\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a column is is guessed from the first records (`infer`), unless a schema says it. Only the columns that the query names are read. Keys and
//! texts lie where they were read; nothing is allocated for a record.
//!
//! The layers, each knows those above it: `seps` and `number` (bytes), `place` (fields into records), `plain`, `csv`, `json`, `lines`, `infer`, `format` (forms of
//! text), `count` (lines), `cut` (whole records of a text), `text` (parts of files), `ask`, `run`, `grow` (texts that grow); `parser` (a text that comes in pieces), `records`, `whole` (files that shrink); `write` (records as
//! text).

mod ask;
mod batch;
mod count;
mod csv;
mod cut;
#[cfg(test)]
mod dice;
mod format;
mod grow;
mod infer;
mod json;
mod lines;
mod number;
mod parser;
mod place;
mod plain;
mod records;
mod report;
mod run;
mod seps;
mod text;
mod whole;
mod write;

pub use ask::{Ask, AskError, OnBad};
pub use chappe_plat::clock::time_of_day as clock;
pub use cut::{MAX_RECORD_TEXT, with_nulls};
pub use format::{Format, no_text};
pub use grow::Growing;
pub use lines::Pattern;
pub use parser::{Parsed, Parser};
pub use records::records;
pub use report::{Member, Report, SHOWN};
pub use run::{columns, run};
pub use text::{Input, ReadError, Stopped};
pub use whole::{WholeFile, shorter};
pub use write::{LineWriter, Style, Writer, schema_text};
