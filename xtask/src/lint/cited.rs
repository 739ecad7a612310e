//! Rule `cited` (style 1): an invariant that a comment cites is written down in the file's head.
//!
//! Heads number invariants `I1`, races `R1` and ordering edges `E1`. A comment that says `I2` means the head of its own
//! file, unless it says whose: `I2 of the wait queue`, or, in parentheses or before it, another file's name.

use super::Finding;
use super::house::House;
use super::source::Line;
use std::collections::BTreeSet;

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in house.rust() {
        let head: BTreeSet<&str> = source
            .lines
            .iter()
            .take_while(|l| !l.doc.is_empty())
            .flat_map(|l| labels(&l.doc))
            .map(|(l, _)| l)
            .collect();
        if head.is_empty() {
            // A file without numbers of its own speaks of the protocol that it belongs to.
            continue;
        }
        for (at, line) in source.lines.iter().enumerate().filter(|(_, l)| !l.comment.is_empty()) {
            let foreign = |rest: &str| rest.contains(" of the ") || elsewhere(&source.lines, at);
            for (label, rest) in labels(&line.comment) {
                if !head.contains(label) && !foreign(rest) {
                    findings.push(Finding::new(path, at + 1, "cited", format!("`{label}` is not in this file's head")));
                }
            }
        }
    }
    findings
}

/// Whether the comment goes on, on the next line, to say whose.
fn elsewhere(lines: &[Line], at: usize) -> bool {
    lines.get(at + 1).is_some_and(|l| l.comment.starts_with("of the "))
}

/// `I1`, `R7`, `E2`, each with the text behind it.
fn labels(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let bounds = text.char_indices().filter(|(_, c)| matches!(c, 'I' | 'R' | 'E')).map(|(at, _)| at);
    bounds.filter_map(move |at| {
        let digits = text[at + 1..].chars().take_while(char::is_ascii_digit).count();
        let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
        let alone = !text[..at].chars().next_back().is_some_and(part_of_name)
            && !text[at + 1 + digits..].chars().next().is_some_and(part_of_name);
        (digits > 0 && alone).then(|| (&text[at..=at + digits], &text[at + 1 + digits..]))
    })
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn found(text: &str) -> usize {
        check(&house("crates/sync/src/x.rs", text)).len()
    }

    #[test]
    fn a_citation_of_nothing_is_caught() {
        assert_eq!(found("//! Head.\n//! - I1: one.\n\n// I2: here.\nfn f() {}"), 1);
        assert_eq!(found("//! Head.\n//! - I1: one.\n\n// E1 SeqCst: here.\nfn f() {}"), 1);
    }

    #[test]
    fn a_label_of_this_or_another_head_may_be_cited() {
        assert_eq!(found("//! Head.\n//! - I1: one.\n\n// I1: here.\nfn f() {}"), 0);
        assert_eq!(found("//! Head.\n//! - I1: one.\n\n// I2 of the wait queue.\nfn f() {}"), 0);
        assert_eq!(found("//! Head without numbers.\n\n// I2: of its protocol.\nfn f() {}"), 0);
    }

    #[test]
    fn part_of_a_name_is_no_label() {
        assert_eq!(found("//! Head.\n//! - I1: one.\n\n// EI2, R3_x, PI4 and I are names.\nfn f() {}"), 0);
    }
}
