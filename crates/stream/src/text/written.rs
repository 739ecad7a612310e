//! What the text of a stage says.

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
