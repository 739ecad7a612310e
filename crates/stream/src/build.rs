//! Writes a graph's text from Rust: names, numbers and texts quoted as they must be.
//!
//! The result is the text itself, so every message about the graph, with its caret, refers to a text that the user can
//! read and keep.

use std::fmt::Write;

/// A graph's text in the making.
///
/// ```
/// use chappe_stream::Builder;
///
/// let mut builder = Builder::default();
/// builder.stage("sine").number(440.0).set("seconds", 0.01).named("tone").then("gain").number(0.5).then("null");
/// builder.line().reference("tone").then("wav").text("/tmp/a \"quoted\" name.wav");
/// assert_eq!(builder.text_so_far(), "tone: sine 440 seconds=0.01 | gain 0.5 | null\ntone | wav \"/tmp/a \\\"quoted\\\" name.wav\"");
/// assert!(builder.build().is_ok());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    text: String,
    /// Where the last stage begins.
    last: usize,
}

impl Builder {
    /// A new line.
    pub fn line(&mut self) -> &mut Builder {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.last = self.text.len();
        self
    }

    /// A stage at the begin of a line.
    pub fn stage(&mut self, kind: &str) -> &mut Builder {
        self.last = self.text.len();
        self.text.push_str(kind);
        self
    }

    /// A stage that has its name elsewhere.
    pub fn reference(&mut self, name: &str) -> &mut Builder {
        self.stage(name)
    }

    /// A stage behind the last one.
    pub fn then(&mut self, kind: &str) -> &mut Builder {
        self.text.push_str(" | ");
        self.stage(kind)
    }

    /// The last stage's name.
    pub fn named(&mut self, name: &str) -> &mut Builder {
        self.text.insert_str(self.last, &format!("{name}: "));
        self
    }

    /// A number.
    pub fn number(&mut self, number: f64) -> &mut Builder {
        let _ = write!(self.text, " {number}");
        self
    }

    /// `key=number`.
    pub fn set(&mut self, key: &str, number: f64) -> &mut Builder {
        let _ = write!(self.text, " {key}={number}");
        self
    }

    /// A text, in quotation marks.
    pub fn text(&mut self, text: &str) -> &mut Builder {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
        let _ = write!(self.text, " \"{quoted}\"");
        self
    }

    /// A branch, in parentheses.
    pub fn branch(&mut self, line: &Builder) -> &mut Builder {
        let _ = write!(self.text, " ({})", line.text);
        self
    }

    /// The process that the last stage runs in.
    pub fn process(&mut self, name: &str) -> &mut Builder {
        let _ = write!(self.text, " @{name}");
        self
    }

    /// What was written until now.
    pub fn text_so_far(&self) -> &str {
        &self.text
    }

    /// The graph, checked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn build(&self) -> Result<crate::Graph, crate::Complaint> {
        crate::Graph::new(&self.text)
    }
}
