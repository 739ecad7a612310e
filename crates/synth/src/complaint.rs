//! What is wrong with a text, and where: a message, the line it stands in, and a caret below the place.

use std::fmt;

/// A range of bytes of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// From the start of one range to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// An error in a text that somebody wrote: an expression, a list of fields, a schema.
///
/// It prints as the message, the line that it is about, and a caret:
///
/// ```text
/// `price` is a double and this is text: compare numbers with numbers (line 1, column 9)
///   price > 'X'
///           ^^^
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Complaint {
    message: String,
    excerpt: String,
    line: u32,
    column: u32,
    /// Where the caret stands in the excerpt, and how many there are; both in characters.
    caret: (usize, usize),
}

/// An excerpt shows so many characters on each side of the place.
const AROUND: usize = 36;

impl Complaint {
    /// A complaint about a range of a text. Ranges that leave the text, or split a character, are moved into it.
    pub fn new(text: &str, span: Span, message: impl Into<String>) -> Complaint {
        let start = floor(text, span.start as usize);
        let end = floor(text, span.end as usize).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let before: Vec<char> = text[line_start..start].chars().collect();
        let marked = text[start..end.min(line_end)].chars().count().max(1);
        let skipped = before.len().saturating_sub(AROUND);
        let shown = before.len() - skipped + marked.min(2 * AROUND);
        let mut excerpt: String = if skipped > 0 { "...".into() } else { String::new() };
        let shift = excerpt.chars().count();
        let rest = text[line_start..line_end].chars().skip(skipped);
        // A tab is as wide as the caret's line thinks.
        excerpt.extend(rest.clone().take(shown + AROUND).map(|c| if c.is_control() { ' ' } else { c }));
        if rest.count() > shown + AROUND {
            excerpt.push_str("...");
        }
        Complaint {
            message: message.into(),
            excerpt,
            line: text[..start].matches('\n').count() as u32 + 1,
            column: before.len() as u32 + 1,
            caret: (shift + before.len() - skipped, marked.min(2 * AROUND)),
        }
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The line, counted from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column, in characters, counted from 1.
    pub fn column(&self) -> u32 {
        self.column
    }
}

fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (line {}, column {})", self.message, self.line, self.column)?;
        writeln!(f, "  {}", self.excerpt)?;
        write!(f, "  {}{}", " ".repeat(self.caret.0), "^".repeat(self.caret.1))
    }
}

impl std::error::Error for Complaint {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, start: u32, end: u32) -> String {
        Complaint::new(text, Span { start, end }, "no").to_string()
    }

    #[test]
    fn the_caret_stands_below_the_place() {
        assert_eq!(at("a > 'X'", 4, 7), "no (line 1, column 5)\n  a > 'X'\n      ^^^");
        assert_eq!(at("a >\n é > b", 8, 9), "no (line 2, column 4)\n   é > b\n     ^");
        assert_eq!(at("", 0, 0), "no (line 1, column 1)\n  \n  ^");
        assert_eq!(at("a &&", 4, 4), "no (line 1, column 5)\n  a &&\n      ^");
    }

    #[test]
    fn a_long_text_is_shown_in_part() {
        let text = format!("{}!{}", "x".repeat(100_000), "y".repeat(100_000));
        let shown = at(&text, 100_000, 100_001);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "no (line 1, column 100001)");
        assert!(lines[1].len() < 100 && lines[1].starts_with("  ...x") && lines[1].ends_with("y..."), "{shown}");
        assert_eq!(lines[1].find('!'), lines[2].find('^'));
    }

    #[test]
    fn a_place_outside_the_text_is_moved_into_it() {
        at("é", 1, 900);
        at("é", 800, 900);
        at("a\tb", 2, 1);
    }
}
