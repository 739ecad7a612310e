//! Lines by a pattern: `{ip} {user} [{time}] "{request}" {status} {bytes}`.
//!
//! What is between braces names a column, `{}` one that is left out; all else stands in the line as it stands in the pattern. A column goes to the
//! first place where what follows it in the pattern stands. An empty column, and a lone `-` as logs have it, is NULL. `{{` is a brace.
//!
//! What has a named group, `(?P<status>[0-9]+)` or `(?<status>...)`, is a regular expression (of `regex-lite`): it is looked for anywhere in the line, and
//! its groups are the columns.

use crate::batch::{Fill, Trouble, shown};
use crate::place::{Slot, may_be_null, none};
use crate::seps;
use memchr::memchr;
use regex_lite::Regex;

/// A pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Its groups are the columns.
    pub(crate) regex: Option<Regex>,
    /// What stands before the first column.
    pub(crate) first: Vec<u8>,
    /// The columns, and what stands behind each.
    pub(crate) columns: Vec<(String, Vec<u8>)>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        let text = |pattern: &Pattern| pattern.regex.as_ref().map(|r| r.as_str().to_owned());
        self.first == other.first && self.columns == other.columns && text(self) == text(other)
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Reads it.
    ///
    /// # Errors
    /// What is no pattern.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if text.contains("(?P<") || text.contains("(?<") {
            return Pattern::of_regex(text);
        }
        let mut pattern = Pattern { regex: None, first: Vec::new(), columns: Vec::new() };
        let mut rest = text;
        loop {
            let open = rest.find('{').unwrap_or(rest.len());
            let literal = match pattern.columns.last_mut() {
                Some((_, literal)) => literal,
                None => &mut pattern.first,
            };
            literal.extend_from_slice(&rest.as_bytes()[..open]);
            if open == rest.len() {
                break;
            }
            rest = &rest[open + 1..];
            if let Some(more) = rest.strip_prefix('{') {
                literal.push(b'{');
                rest = more;
                continue;
            }
            let close = rest
                .find('}')
                .ok_or_else(|| format!("`{{{rest}` is not closed: write {{name}}, or {{{{ for a brace"))?;
            let name = &rest[..close];
            if let Some((before, _)) = pattern.columns.last().filter(|(_, literal)| literal.is_empty()) {
                return Err(format!("nothing stands between {{{before}}} and {{{name}}}: where does the one end?"));
            }
            if !name.is_empty() && pattern.columns.iter().any(|(n, _)| n == name) {
                return Err(format!("{{{name}}} stands there twice"));
            }
            pattern.columns.push((name.to_owned(), Vec::new()));
            rest = &rest[close + 1..];
        }
        if pattern.columns.is_empty() {
            return Err("a pattern has columns: {ip} {user} [{time}]".into());
        }
        Ok(pattern)
    }

    fn of_regex(text: &str) -> Result<Pattern, String> {
        let regex = Regex::new(text).map_err(|e| format!("this regular expression cannot be read: {e}"))?;
        // The first group is all of it.
        let groups = regex.capture_names().skip(1);
        let columns = groups.map(|name| (name.unwrap_or_default().to_owned(), Vec::new())).collect();
        Ok(Pattern { regex: Some(regex), first: Vec::new(), columns })
    }

    /// The names of the columns; of one that is left out it is empty.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// Reads the columns of some slots.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What a line looks like.
    pattern: Pattern,
    /// What is read, by column.
    pub slots: Vec<Slot>,
    steps: Vec<Step>,
}

/// Where a column ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// With the line.
    Line,
    /// Before what the line ends with: the last one goes as far as can be.
    Last,
    /// Before this byte.
    Byte(u8),
    /// Before what stands behind it. The byte at this place of that is the rarest in logs.
    Text(usize),
}

/// A column: where it ends, and its slot.
#[derive(Clone, Copy, Debug)]
struct Step {
    end: End,
    slot: Option<usize>,
}

impl Lines {
    /// For these slots, which are sorted by column.
    pub fn new(pattern: &Pattern, slots: Vec<Slot>) -> Lines {
        let last = pattern.columns.len().saturating_sub(1);
        let steps = pattern.columns.iter().enumerate().map(|(column, (_, behind))| {
            let end = match behind.as_slice() {
                [] => End::Line,
                _ if column == last => End::Last,
                [byte] => End::Byte(*byte),
                text => End::Text(text.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b' ').unwrap_or(0)),
            };
            Step { end, slot: slots.iter().position(|s| s.column == column) }
        });
        Lines { steps: steps.collect(), pattern: pattern.clone(), slots }
    }

    /// Reads records.
    pub fn fill(&mut self, job: &mut Fill<'_>) {
        while !job.is_done() {
            let start = job.from;
            let mut end = memchr(b'\n', &job.text[start..job.len]).map_or(job.len, |at| start + at);
            job.from = (end + 1).min(job.len);
            end -= usize::from(end > start && job.text[end - 1] == b'\r');
            if start == end {
                continue;
            }
            let record = job.batch.begin(start);
            if let Err(trouble) = self.line(job.text, start, end, record) {
                // Of a line that the pattern does not fit nothing is known.
                let is_field = matches!(trouble, Trouble::Field(..));
                let can = if is_field { may_be_null(&self.slots) } else { none(&self.slots, record) };
                job.wrong(start, &trouble, can);
            }
        }
    }

    fn line(&self, text: &[u8], start: usize, end: usize, record: &mut [u8]) -> Result<(), Trouble> {
        let Pattern { first, columns, regex } = &self.pattern;
        let no = || Trouble::Other(format!("the pattern does not fit `{}`", shown(&text[start..end])));
        if let Some(regex) = regex {
            let line = std::str::from_utf8(&text[start..end]);
            let line = line.map_err(|_| Trouble::Other(format!("`{}` is no UTF-8", shown(&text[start..end]))))?;
            let groups = regex.captures(line).ok_or_else(no)?;
            let mut trouble = None;
            for (next, slot) in self.slots.iter().enumerate() {
                let span = groups.get(slot.column + 1).map(|g| (start + g.start(), start + g.end()));
                let span = span.filter(|(from, to)| from < to && &text[*from..*to] != b"-");
                let fits = match span {
                    Some((from, to)) => slot.put(text, from, to, record),
                    None => slot.none(record),
                };
                if !fits && trouble.is_none() {
                    let (from, to) = span.unwrap_or((start, start));
                    trouble = Some(Trouble::Field(next, from, to));
                }
            }
            return trouble.map_or(Ok(()), Err);
        }
        if !text[start..end].starts_with(first) {
            return Err(no());
        }
        let (mut at, mut trouble) = (start + first.len(), None);
        for (Step { end: ends, slot }, (_, behind)) in self.steps.iter().zip(columns) {
            let to = match *ends {
                End::Line => end,
                End::Last => at + text[at..end].strip_suffix(behind.as_slice()).ok_or_else(no)?.len(),
                End::Byte(byte) => seps::find(text, at, end, byte).ok_or_else(no)?,
                End::Text(anchor) => find(text, at, end, behind, anchor).ok_or_else(no)?,
            };
            if let Some(number) = *slot {
                let slot = &self.slots[number];
                let is_none = to == at || (to == at + 1 && text[at] == b'-');
                let fits = if is_none { slot.none(record) } else { slot.put(text, at, to, record) };
                if !fits && trouble.is_none() {
                    trouble = Some(Trouble::Field(number, at, to));
                }
            }
            at = to + behind.len();
        }
        trouble.map_or(Ok(()), Err)
    }
}

/// Where a short text first stands between two places of another. A searcher that is made for each column takes longer than the search: one byte of it is
/// looked for, and what is around it compared.
#[inline]
fn find(text: &[u8], from: usize, to: usize, what: &[u8], anchor: usize) -> Option<usize> {
    let mut next = from + anchor;
    while next < to {
        let at = seps::find(text, next, to, what[anchor])? - anchor;
        // So few bytes are not worth a call.
        if to - at >= what.len() && text[at..].iter().zip(what).all(|(a, b)| a == b) {
            return Some(at);
        }
        next = at + anchor + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seps::PAD;

    #[test]
    fn a_text_is_found_where_it_first_stands() {
        let texts =
            ["", "a", "] ", "] \"", "aab", "ab", "\" ", "  [", "]] \"", "x] \"y] \"", "aaab", " \" \" [", "[ab"];
        for text in texts {
            let padded = [text.as_bytes(), b"\n", &[b']'; PAD]].concat();
            for what in texts.iter().filter(|what| what.len() > 1) {
                for anchor in 0..what.len() {
                    let found = find(&padded, 0, text.len(), what.as_bytes(), anchor);
                    assert_eq!(found, text.find(what), "{what:?} in {text:?}");
                }
            }
        }
    }

    #[test]
    fn a_pattern_says_what_is_wrong_with_it() {
        let wrong = |text: &str| Pattern::parse(text).unwrap_err();
        assert!(wrong("{a").contains("not closed") && wrong("{a}{b}").contains("nothing stands between"));
        assert!(wrong("{a} {a}").contains("twice") && wrong("plain").contains("has columns"));
        assert_eq!(Pattern::parse("{{x} {a}").unwrap().first, b"{x} ");
        assert_eq!(Pattern::parse("[{a}] {} {b}").unwrap().names(), ["a", "", "b"]);
        assert_eq!(Pattern::parse(r"^(?P<a>\d+) (x|y) (?<b>.{2})$").unwrap().names(), ["a", "", "b"]);
        assert!(wrong("(?P<a>[)").contains("cannot be read"));
    }
}
