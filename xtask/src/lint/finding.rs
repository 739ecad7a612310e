//! What a rule finds.

/// A rule that a line breaks.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the workspace's directory.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong and what is wanted.
    pub text: String,
}

impl Finding {
    pub fn new(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, rule, text: text.into() }
    }
}
