//! The text of a graph: what stages there are, and what leads to what.
//!
//! ```text
//! # a comment
//! music: wav "in.wav" | resample 48000 | lowpass 800
//! music | tee (spectrum 1024 | png "s.png") | wav "out.wav"
//! mix (sine 440 | gain -6dB) (noise | gain 0.1) | wav "both.wav"
//! ```
//!
//! ```text
//! graph  = line ...                               lines end at a newline, unless `|` follows or a parenthesis is open; or at `;`
//! line   = stage | stage ...
//! stage  = [name :] kind value ... key=value ... (line) ... [@process]
//!        | name                                   a stage that has its name elsewhere: one more reader of it, or one more that feeds it
//! value  = 48000  -6dB  10ms  48k  "text"  word
//! ```
//!
//! Units are Hz kHz MHz, s ms us, dB (a factor of amplitude), % and k M; Ki Mi are 1,024 and its square.

mod lex;
mod parse;

pub use lex::{Token, TokenKind, tokens};
pub use parse::{MAX_STAGES, parse};

use chappe_synth::Span;

/// A value behind a kind.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number, in the unit's base: Hz, seconds, a factor.
    Number(f64),
    /// In quotation marks.
    Text(String),
    /// A bare word.
    Word(String),
}

/// A value, and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// `key=value`.
    pub key: Option<String>,
    /// What.
    pub value: Value,
    /// Where.
    pub span: Span,
}

/// A stage as it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    /// `name:` before it.
    pub name: Option<String>,
    /// What kind, or the name of another.
    pub kind: String,
    /// Where the kind stands.
    pub span: Span,
    /// The whole stage, for a message about all of it.
    pub whole: Span,
    /// Its values.
    pub arguments: Vec<Argument>,
    /// Lines in parentheses.
    pub branches: Vec<Vec<Written>>,
    /// `@process`.
    pub process: Option<String>,
}
