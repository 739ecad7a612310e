//! Queries over records that become code while the program runs: code synthesis, after chapter 3 of the Synthesis thesis.
//!
//! A subscriber that wants one message in a hundred says which, in a line of text; what looks at the messages is made for that line, and
//! costs a nanosecond or two for each.
//!
//! - [`Schema`]: which fields a record has, and where.
//! - [`Query`]: an expression over them, and what is to come out. A subset of CEL; see [`Query`] and the list below.
//! - [`Live`] and [`Evaluator`]: a query in use. Three engines do the same: closures, loops over blocks of records, and machine
//!   code (feature `jit`). Which one is chosen by what it costs to make and to use.
//! - [`Summary`]: counts, sums, means, least, greatest, first and last values, quantiles, by key; [`Windows`]: over windows. [`Ordered`]: rows in order.
//! - [`Switchboard`]: all subscriptions of a stream as one: a record goes in, a bit for each that wants it comes out.
//! - [`Period`]: the callback of a device, made anew as its sources come and go.
//! - [`explain`]: what a query has become.
//! - [`fixed`]: a number in decimal, by fixed-point arithmetic.
//!
//! # What of CEL there is
//! Literals of int, uint (`1u`), double, bool, string (with `\n \t \r \\ \' \" \xHH`); fields by name; `! - * / % + < <= > >= == !=
//! in && || ?:`; `int() uint() double()`; `math.abs least greatest isNaN bitAnd bitOr bitXor bitNot bitShiftLeft bitShiftRight`;
//! `startsWith endsWith contains`; `null` behind `==` and `!=`. Beyond CEL: parameters `$name`, names between backticks, NULL by SQL's rules,
//! and a number beside a double is one. Not there: lists other than behind `in`, maps, messages, time, `has`, macros, regular
//! expressions, `size`, concatenation. Other than in CEL nothing fails while it runs: see [`ir`] for what is answered instead
//! (`a + b` wraps, `a / 0` is 0). The aggregate `sum` of integers has 128 bits, and its final value is checked ([`SummaryError`]).

mod adding;
pub mod build;
mod check;
pub mod closure;
#[cfg(feature = "jit")]
pub mod code;
mod compiler;
mod complaint;
mod cost;
pub mod engine;
mod every;
mod explain;
mod fixed;
mod form;
pub mod interpret;
pub mod ir;
mod lex;
mod list;
mod live;
#[cfg(feature = "jit")]
pub mod machine;
mod meaning;
mod nearest;
mod ops;
mod order;
mod pattern;
mod period;
mod published;
mod query;
mod records;
mod refused;
mod schema;
mod summary;
mod switchboard;
mod table;
pub mod time;
mod tree;
pub mod vector;
mod version;
mod window;
mod windows;
mod words;

pub use complaint::{Complaint, Span};
pub use explain::explain;
pub use fixed::{FIXED_BYTES, FIXED_PLACES, fixed};
pub use form::Form;
pub use ir::{Kind, Value};
pub use list::{Added, How, Keyed, Order};
pub use live::{Evaluator, Live};
pub use nearest::{nearest, suggestion};
pub use order::{Ordered, Rows};
pub use pattern::TimePattern;
pub use period::{Callback, Feed, MAX_CHANNELS, MAX_DEPTH, MAX_FRAMES, MAX_SOURCES, Period, PeriodError, Tap};
pub use query::{BindError, Bound, Mentions, Query};
pub use records::Records;
pub use refused::{FOREIGN_OPS, LiveError, MAX_SUBSCRIPTIONS, Trust};
pub use schema::{AsField, Field, FieldType, Fields, MAX_FIELDS, MAX_RECORD, Scalar, Schema, field_name, written};
pub use summary::{Summary, SummaryError};
pub use switchboard::{Subscription, Switchboard, SwitchboardReader};
pub use window::{By, Step, Window};
pub use windows::Windows;
