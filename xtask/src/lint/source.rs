//! Rust source as the rules see it: for each line its code, without what strings say, and its comment.
//!
//! A small scanner, not a parser: it knows comments (nested ones, too), strings, raw strings, character literals and
//! lifetimes, and which lines belong to a `#[cfg(test)]` module.

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, comments left out, strings emptied.
    pub code: String,
    /// The text of an ordinary comment (`//`, `/* */`).
    pub comment: String,
    /// The text of a documentation comment (`///`, `//!`).
    pub doc: String,
    /// Whether it lies in a `#[cfg(test)]` module.
    pub test: bool,
}

impl Line {
    /// Whether it has nothing but space.
    pub fn is_blank(&self) -> bool {
        self.code.trim().is_empty() && self.comment.is_empty() && self.doc.is_empty()
    }

    /// Whether it has a comment and no code.
    pub fn is_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.is_empty()
    }
}

enum State {
    Code,
    Comment { depth: u32 },
    Text,
    Raw { hashes: usize },
}

/// Takes a file apart.
pub fn lines(text: &str) -> Vec<Line> {
    let mut state = State::Code;
    let mut out = Vec::new();
    for raw in text.lines() {
        out.push(scan(raw, &mut state));
    }
    mark_tests(&mut out);
    out
}

fn scan(raw: &str, state: &mut State) -> Line {
    let mut line = Line::default();
    let chars: Vec<char> = raw.chars().collect();
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(k, c)| chars.get(at + k) == Some(&c));
    let mut at = 0;
    while at < chars.len() {
        match state {
            State::Comment { depth } => {
                if starts(at, "*/") {
                    *depth -= 1;
                    if *depth == 0 {
                        *state = State::Code;
                    }
                    at += 2;
                } else if starts(at, "/*") {
                    *depth += 1;
                    at += 2;
                } else {
                    line.comment.push(chars[at]);
                    at += 1;
                }
            }
            State::Text => {
                if chars[at] == '"' {
                    line.code.push('"');
                    *state = State::Code;
                }
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            State::Raw { hashes } => {
                let end = format!("\"{}", "#".repeat(*hashes));
                if starts(at, &end) {
                    at += end.len();
                    line.code.push('"');
                    *state = State::Code;
                } else {
                    at += 1;
                }
            }
            State::Code => {
                if starts(at, "//") {
                    let rest: String = chars[at + 2..].iter().collect();
                    let doc = (rest.starts_with('/') && !rest.starts_with("//")) || rest.starts_with('!');
                    if doc {
                        // An empty one still is one.
                        line.doc = format!("{} ", rest[1..].trim());
                    } else {
                        line.comment.push_str(rest.trim());
                    }
                    return line;
                }
                if starts(at, "/*") {
                    *state = State::Comment { depth: 1 };
                    at += 2;
                } else if chars[at] == '"' {
                    line.code.push('"');
                    *state = State::Text;
                    at += 1;
                } else if let Some((skip, hashes)) = raw_string(&chars, at) {
                    line.code.push('"');
                    *state = State::Raw { hashes };
                    at += skip;
                } else if let Some(skip) = character(&chars, at) {
                    line.code.push_str("' '");
                    at += skip;
                } else {
                    line.code.push(chars[at]);
                    at += 1;
                }
            }
        }
    }
    line
}

/// `r"`, `r#"`, `br#"`: how many characters, how many hashes.
fn raw_string(chars: &[char], at: usize) -> Option<(usize, usize)> {
    if at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') {
        return None;
    }
    let r = if chars[at] == 'b' { at + 1 } else { at };
    if chars.get(r) != Some(&'r') {
        return None;
    }
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    (chars.get(r + 1 + hashes) == Some(&'"')).then_some((r + 2 + hashes - at, hashes))
}

/// A character literal, as opposed to a lifetime: how long.
fn character(chars: &[char], at: usize) -> Option<usize> {
    if chars[at] != '\'' {
        return None;
    }
    if chars.get(at + 1) == Some(&'\\') {
        let end = chars[at + 3..].iter().position(|c| *c == '\'')?;
        return Some(end + 4);
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(3)
}

fn mark_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].code.contains("#[cfg(test)]") && !lines[at].code.contains("#[cfg(all(test") {
            at += 1;
            continue;
        }
        let (mut depth, mut opened) = (0i32, false);
        while at < lines.len() {
            lines[at].test = true;
            for c in lines[at].code.chars() {
                depth += i32::from(c == '{') - i32::from(c == '}');
                opened |= c == '{';
            }
            // An item without a body: a `use`, a `mod` in a file of its own.
            let ended = if opened { depth <= 0 } else { lines[at].code.trim_end().ends_with(';') };
            at += 1;
            if ended {
                break;
            }
        }
    }
}

/// Whether `word` stands in `code` with nothing of a name directly before or after it.
pub fn has_word(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].chars().next_back().is_some_and(part_of_name)
            && !code[at + word.len()..].chars().next().is_some_and(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_strings_and_comments_are_told_apart() {
        let l = lines("let a = \"unsafe // no\"; // yes: 'a'\n");
        assert_eq!((l[0].code.trim(), l[0].comment.as_str()), ("let a = \"\";", "yes: 'a'"));
    }

    #[test]
    fn raw_strings_and_nested_comments_span_lines() {
        let l = lines("let a = r#\"one \" // two\nunsafe\"#; b /* x /* y\n */ z */ c\n");
        assert_eq!(l[0].code, "let a = \"");
        assert_eq!(l[1].code, "\"; b ");
        assert_eq!((l[2].code.as_str(), l[2].comment.trim()), (" c", "z"));
    }

    #[test]
    fn a_lifetime_is_not_a_character() {
        assert_eq!(lines("fn f<'a>(x: &'a str) { '\"' }")[0].code, "fn f<'a>(x: &'a str) { ' ' }");
        assert_eq!(lines(r"let q = '\''; // c")[0].comment, "c");
    }

    #[test]
    fn documentation_is_no_ordinary_comment() {
        let l = lines("//! head\n/// doc\n//// rule\n// plain");
        assert_eq!(l.iter().map(|l| !l.doc.is_empty()).collect::<Vec<_>>(), [true, true, false, false]);
    }

    #[test]
    fn lines_of_a_test_module_are_marked() {
        for when in ["test", "all(test, not(feature = \"sim\"))"] {
            let l = lines(&format!("fn a() {{}}\n#[cfg({when})]\nmod tests {{\n    fn b() {{}}\n}}\nfn c() {{}}"));
            assert_eq!(l.iter().map(|l| l.test).collect::<Vec<_>>(), [false, true, true, true, true, false], "{when}");
        }
    }

    #[test]
    fn a_word_is_whole() {
        assert!(has_word("unsafe {", "unsafe") && !has_word("unsafe_code", "unsafe"));
    }
}
