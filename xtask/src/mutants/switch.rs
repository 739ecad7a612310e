//! All mutants in one build: in a copy of the tree each function that a mutant changes has its mistaken body beside its own, and a
//! number in the environment says which of them is in force.
//!
//! ```text
//! fn release(&self) -> bool {
//!     ...
//! }
//!                 fn release(&self) -> bool { if chappe_plat::mutant(17) {
//! becomes             ...the body with the mistake...
//!                 } else {
//!                     ...
//!                 } }
//! ```
//!
//! With `CHAPPE_MUTANT=17` the program has mistake 17 and no other; without, none. Whole bodies, not expressions: where a change begins
//! and ends in its function need not be known, and no expression's type, nor any borrow, is touched.
//!
//! Some mutants cannot be switched, and need a build of their own: what they change lies outside of functions, in a `const fn`, in one that
//! returns `impl ...`, beside assembly (whose symbols would be there twice), or around another mutant's function; or in a crate that does not
//! stand on the lowest one. Those are refused, by number.
//!
//! A scanner for braces, not a parser: it knows comments, strings, raw strings, characters and lifetimes.

use std::collections::{BTreeMap, BTreeSet};

/// A change of a file by a mutant of that number: a piece that occurs once, and what comes in its place.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The mutant's.
    pub number: u32,
    /// What is there.
    pub old: &'a str,
    /// What is to be there.
    pub new: &'a str,
}

/// What the tree's lowest crate gets at its end: the question which mistake is in force.
pub const QUESTION: &str = "
/// Whether that mistake is in force.
pub fn mutant(number: u32) -> bool {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static CHOSEN: AtomicU32 = AtomicU32::new(u32::MAX);
    let mut chosen = CHOSEN.load(Relaxed);
    if chosen == u32::MAX {
        // SAFETY: a name that ends, and nobody changes the environment. No allocation: this may be in a signal handler.
        chosen = unsafe {
            let text = libc::getenv(c\"CHAPPE_MUTANT\".as_ptr());
            if text.is_null() { 0 } else { libc::atoi(text) as u32 }
        };
        CHOSEN.store(chosen, Relaxed);
    }
    chosen == number
}
";

/// The body of a function, braces included, in bytes of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Body {
    open: usize,
    end: usize,
}

/// The numbers of those that cannot be switched in this file.
pub fn refused(source: &str, changes: &[Change<'_>]) -> BTreeSet<u32> {
    let bodies = bodies(source);
    let all: Vec<(u32, Option<Body>)> = changes.iter().map(|c| (c.number, home(source, &bodies, c))).collect();
    let around =
        |body: &Body| all.iter().filter_map(|(_, b)| *b).any(|b| b != *body && body.open < b.open && b.end <= body.end);
    all.iter().filter(|(_, body)| body.as_ref().is_none_or(around)).map(|(number, _)| *number).collect()
}

/// The file with all these mistakes in it. None of them may be one of [`refused`].
pub fn planted(source: &str, changes: &[Change<'_>], question: &str) -> String {
    let bodies = bodies(source);
    // A mutant may change one body in several places: all of them are in force together.
    let mut by_body: BTreeMap<Body, BTreeMap<u32, Vec<&Change<'_>>>> = BTreeMap::new();
    for change in changes {
        if let Some(body) = home(source, &bodies, change) {
            by_body.entry(body).or_default().entry(change.number).or_default().push(change);
        }
    }
    let (mut out, mut at) = (String::new(), 0);
    for (body, mutants) in by_body {
        out += &source[at..body.open];
        out += "{ ";
        for (number, changes) in mutants {
            let mistaken = changes.iter().fold(source.to_owned(), |text, c| text.replacen(c.old, c.new, 1));
            let end = body.end + mistaken.len() - source.len();
            out += &format!("if {question}({number}) {} else ", &mistaken[body.open..end]);
        }
        out += &source[body.open..body.end];
        out += " }";
        at = body.end;
    }
    out + &source[at..]
}

/// The innermost body in which all that differs lies, if it can be switched.
fn home(source: &str, bodies: &[(Body, usize)], change: &Change<'_>) -> Option<Body> {
    let at = source.find(change.old)?;
    let (old, new) = (change.old.as_bytes(), change.new.as_bytes());
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (from, to) = (at + before, at + old.len() - after);
    let (body, header) =
        bodies.iter().filter(|(b, _)| b.open < from && to < b.end).max_by_key(|(b, _)| b.open).copied()?;
    let header = code(&source[header..body.open]);
    let is_const = header.split_whitespace().any(|word| word == "const") && !header.contains("*const");
    // Two bodies would be two hidden types.
    let is_hidden = header
        .rsplit_once("->")
        .is_some_and(|(_, answer)| answer.split(|c: char| !c.is_alphanumeric()).any(|w| w == "impl"));
    let has_assembly = source[body.open..body.end].contains("asm!");
    (!is_const && !is_hidden && !has_assembly).then_some(body)
}

/// Without its comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The bodies of all functions, each with where its header begins: behind the last brace or semicolon before it.
fn bodies(source: &str) -> Vec<(Body, usize)> {
    let bytes = source.as_bytes();
    // Open braces with where their headers begin and how many brackets are open around them.
    let mut open: Vec<(usize, usize, u32)> = Vec::new();
    let mut all = Vec::new();
    let (mut header, mut brackets, mut at) = (0, 0u32, 0);
    while at < bytes.len() {
        if let Some(end) = no_code(source, at) {
            at = end;
            continue;
        }
        match bytes[at] {
            b'{' => {
                open.push((at, header, brackets));
                (header, brackets) = (at + 1, 0);
            }
            b'}' => {
                if let Some((from, its, outer)) = open.pop() {
                    if is_function(&source[its..from]) {
                        all.push((Body { open: from, end: at + 1 }, its));
                    }
                    (header, brackets) = (at + 1, outer);
                }
            }
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if brackets == 0 => header = at + 1,
            _ => {}
        }
        at += 1;
    }
    all
}

/// Whether a header is that of a function: `fn NAME`.
fn is_function(header: &str) -> bool {
    let header = code(header);
    let words: Vec<&str> = header.split_whitespace().collect();
    words.windows(2).any(|w| w[0] == "fn" && w[1].starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$'))
}

/// Where a comment, a string, a character or a lifetime ends that begins here.
fn no_code(source: &str, at: usize) -> Option<usize> {
    let (bytes, rest) = (source.as_bytes(), &source.as_bytes()[at..]);
    let find = |from: usize, what: &str| {
        source.get(from..).and_then(|s| s.find(what)).map_or(bytes.len(), |n| from + n + what.len())
    };
    if rest.starts_with(b"//") {
        return Some(find(at, "\n"));
    }
    if rest.starts_with(b"/*") {
        let (mut depth, mut end) = (1, at + 2);
        while depth > 0 && end < bytes.len() {
            match (bytes[end], bytes.get(end + 1)) {
                (b'/', Some(b'*')) => (depth, end) = (depth + 1, end + 2),
                (b'*', Some(b'/')) => (depth, end) = (depth - 1, end + 2),
                _ => end += 1,
            }
        }
        return Some(end);
    }
    let within_a_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let prefix = if within_a_name { 0 } else { rest.iter().take_while(|b| matches!(b, b'b' | b'c')).count() };
    if !within_a_name && rest.get(prefix) == Some(&b'r') {
        let hashes = rest[prefix + 1..].iter().take_while(|b| **b == b'#').count();
        if rest.get(prefix + 1 + hashes) == Some(&b'"') {
            return Some(find(at + prefix + 2 + hashes, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    if rest[0] == b'"' {
        let mut end = at + 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        return Some(end + 1);
    }
    if rest[0] == b'\'' {
        // A character if it ends soon, else a lifetime.
        let mut chars = source[at + 1..].char_indices();
        let first = chars.next()?.1;
        if first == '\\' {
            return Some(find(at + 3, "'"));
        }
        return Some(match chars.next() {
            Some((n, '\'')) => at + 1 + n + 1,
            _ => at + 1,
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "const A: u32 = { 1 };\n/// fn no {\nimpl X<'_> {\n    fn one(&self, a: [u8; 4]) -> char {\n        // }\n        \
                          let s = \"}\";\n        let r = r#\"}\"#;\n        f('{', s, r)\n    }\n    const fn two() -> u32 {\n        2\n    }\n}\n\
                          fn outer() {\n    fn inner() {\n        three();\n    }\n    four();\n}\n";

    fn change<'a>(number: u32, old: &'a str, new: &'a str) -> Change<'a> {
        Change { number, old, new }
    }

    #[test]
    fn the_bodies_of_functions_are_found() {
        let found: Vec<&str> = bodies(SOURCE).iter().map(|(b, _)| &SOURCE[b.open..b.end]).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("f('{', s, r)") && found[1].contains('2') && found[2].contains("three"));
    }

    #[test]
    fn a_mistake_stands_beside_what_it_replaces() {
        let all =
            [change(7, "f('{', s, r)", "g(s)"), change(8, "        let s = \"}\";\n", ""), change(9, "three();", "5;")];
        assert!(refused(SOURCE, &all).is_empty());
        let text = planted(SOURCE, &all, "m");
        assert_eq!(text.matches("f('{', s, r)").count(), 2);
        assert!(
            text.contains("{ if m(7) {") && text.contains("} else if m(8) {") && text.contains("g(s)\n    } else if")
        );
        assert!(text.contains("fn inner() { if m(9) {\n        5;\n    } else {\n        three();\n    } }"), "{text}");
        assert_eq!(bodies(&text).len(), 4);
    }

    #[test]
    fn a_mistake_in_two_places_of_one_body_is_planted_whole() {
        let text =
            planted(SOURCE, &[change(7, "f('{', s, r)", "g(s)"), change(7, "        let s = \"}\";\n", "")], "m");
        assert_eq!(text.matches("m(7)").count(), 1, "{text}");
        let (mistaken, right) = text.split_once(" else {").expect("both");
        assert!(mistaken.contains("g(s)") && !mistaken.contains("let s = "), "{text}");
        assert!(right.contains("f('{', s, r)") && right.contains("let s = "), "{text}");
    }

    #[test]
    fn a_change_that_cannot_be_switched_is_refused() {
        let all = [
            change(1, "{ 1 }", "{ 2 }"),
            change(2, "        2\n", "        3\n"),
            change(3, "four();", ""),
            change(4, "three();", ""),
            change(5, "-> char {", "-> u8 {"),
        ];
        assert_eq!(refused(SOURCE, &all), BTreeSet::from([1, 2, 3, 5]));
        assert_eq!(refused(SOURCE, &all[2..3]), BTreeSet::new());
        let assembly = "fn a() {\n    asm!(\"nop\");\n    b();\n}\n";
        assert_eq!(refused(assembly, &[change(6, "b();", "")]), BTreeSet::from([6]));
        let hidden = "fn a(&self) -> impl Iterator<Item = u32> {\n    b()\n}\n";
        assert_eq!(refused(hidden, &[change(7, "b()", "c()")]), BTreeSet::from([7]));
    }
}
