//! Rule `ordering` (style 2): every atomic operation names its edge.
//!
//! Where a line names a memory ordering, a comment beside it must name it too, or the edge that it makes (`E2`): on
//! the same line, or above it with at most three lines of code between, so that one comment can speak for the two or
//! three accesses of one step. Or the declaration of the atomic in the same file says it once for all accesses by its name, in an ordinary
//! comment above it: `// Ordering: Relaxed: a count.` In the protocol layers this goes for `SeqCst` as well; elsewhere, and in
//! what stands in for Linux under the explorer, that is taken as it is.

use super::Finding;
use super::house::{House, room, ships};
use super::source::{Line, has_word};

const NAMES: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
const REACH: usize = 3;
const PROTOCOLS: [&str; 7] = ["plat", "arena", "lane", "structures", "wait", "tube", "sync"];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in house.rust() {
        let bare = source.lines.iter().any(|l| is_use(l) && l.code.contains("Ordering::"));
        let declared = declared(&source.lines);
        let protocol = room(path).is_some_and(|r| PROTOCOLS.contains(&r)) && ships(path) && !path.contains("/sim/");
        for (at, line) in source.lines.iter().enumerate() {
            let orderings = named(&line.code, bare);
            let strict = protocol && !line.test;
            if is_use(line) || orderings.is_empty() || (!strict && orderings == ["SeqCst"]) {
                continue;
            }
            let said = |(name, reason): &(&str, String)| {
                has_word(&line.code, name) && orderings.iter().all(|o| has_word(reason, o))
            };
            if !declared.iter().any(said) && !explained(&source.lines, at, &orderings) {
                let text = format!(
                    "{} without a comment that names it or its edge (E1, ...), here or at most {REACH} lines above",
                    orderings.join(", ")
                );
                findings.push(Finding::new(path, at + 1, "ordering", text));
            }
        }
    }
    findings
}

fn is_use(line: &Line) -> bool {
    let code = line.code.trim_start();
    code.starts_with("use ") || code.starts_with("pub use ")
}

fn named(code: &str, bare: bool) -> Vec<&'static str> {
    let all = NAMES.into_iter();
    all.filter(|n| code.contains(&format!("Ordering::{n}")) || (bare && has_word(code, n) && !code.contains("::*")))
        .collect()
}

/// The atomics of a file whose declarations bear the reason, and what that says.
fn declared(lines: &[Line]) -> Vec<(&str, String)> {
    let reason = |at: usize| {
        let above = lines[..at].iter().rev();
        let about =
            above.take_while(|l| !l.is_blank() && (l.code.trim().is_empty() || l.code.trim().starts_with("#[")));
        let text =
            about.map(|l| l.comment.as_str()).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(" ");
        text.split_once("Ordering:").map(|(_, reason)| reason.to_owned())
    };
    let all = lines.iter().enumerate().filter_map(|(at, line)| Some((atomic(&line.code)?, reason(at)?)));
    all.collect()
}

/// The name of a field or a static that is declared here, if it is an atomic.
fn atomic(code: &str) -> Option<&str> {
    let (name, kind) = code.trim().split_once(": ")?;
    let name = name.rsplit(' ').next()?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && kind.split('=').next()?.contains("Atomic")).then_some(name)
}

fn explained(lines: &[Line], at: usize, orderings: &[&str]) -> bool {
    let fits = |text: &str| orderings.iter().any(|o| has_word(text, o)) || names_edge(text);
    if !lines[at].comment.is_empty() {
        return fits(&lines[at].comment);
    }
    let (mut code, mut above) = (0, at);
    while above > 0 && code <= REACH {
        above -= 1;
        if lines[above].is_blank() || lines[above].code.trim() == "}" {
            return false;
        }
        if !lines[above].is_comment() {
            if fits(&lines[above].comment) {
                return true;
            }
            code += 1;
            continue;
        }
        // The whole block of comment, whose first line may name it.
        let mut block = String::new();
        let mut top = above + 1;
        while top > 0 && lines[top - 1].is_comment() {
            top -= 1;
            block = format!("{} {block}", lines[top].comment);
        }
        return fits(&block);
    }
    false
}

/// `E1` and the like.
pub fn names_edge(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|w| w.strip_prefix('E').is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit())))
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&house(path, text)).len()
    }
    const HERE: &str = "crates/arena/src/map.rs";

    #[test]
    fn an_ordering_without_a_word_is_caught() {
        assert_eq!(found(HERE, "fn f() {\n    a.load(Ordering::Acquire);\n}"), 1);
        assert_eq!(found(HERE, "fn f() {\n    // Looks at it.\n    a.load(Ordering::Acquire);\n}"), 1);
        assert_eq!(
            found(HERE, "fn f() {\n    /// Acquire: documentation is for others.\n    a.load(Ordering::Acquire);\n}"),
            1
        );
    }

    #[test]
    fn a_comment_beside_it_is_enough() {
        assert_eq!(
            found(HERE, "    // Acquire: pairs with the release in `publish`.\n    a.load(Ordering::Acquire);"),
            0
        );
        assert_eq!(found(HERE, "    a.load(Ordering::Relaxed); // Relaxed: a count."), 0);
        assert_eq!(found(HERE, "    // E2: the slot is whole.\n    a.load(Ordering::Acquire);"), 0);
    }

    #[test]
    fn a_comment_speaks_for_few_lines_and_not_past_a_gap() {
        let far = "// Relaxed: counts.\n    a();\n    b();\n    c();\n    d();\n    x.load(Ordering::Relaxed);";
        assert_eq!(found(HERE, far), 1);
        assert_eq!(found(HERE, "// Relaxed: a count.\n\n    x.load(Ordering::Relaxed);"), 1);
        assert_eq!(
            found(HERE, "// Relaxed, both: counts.\n    x.load(Ordering::Relaxed);\n    y.load(Ordering::Relaxed);"),
            0
        );
    }

    #[test]
    fn a_declaration_speaks_for_all_accesses_by_its_name() {
        let with = |access: &str| {
            let text = "/// How many.\n// Ordering: Relaxed: a count.\nstatic SEEN: AtomicU32 = AtomicU32::new(0);\n\n";
            found(HERE, &format!("{text}fn f() {{\n    {access};\n}}"))
        };
        assert_eq!(with("SEEN.load(Ordering::Relaxed)"), 0);
        assert_eq!(with("SEEN.load(Ordering::Acquire)"), 1);
        assert_eq!(with("SEEN.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)"), 1);
        assert_eq!(with("OTHER.load(Ordering::Relaxed)"), 1);
        let field = "struct S {\n    // Ordering: Release and Acquire: what is written before.\n    pub at: [AtomicU32; 2],\n}\n";
        assert_eq!(found(HERE, &format!("{field}fn f() {{ s.at[0].store(1, Ordering::Release) }}")), 0);
        let doc =
            "/// Ordering: Relaxed: documentation is for others.\nstatic SEEN: AtomicU32 = AtomicU32::new(0);\n\n";
        assert_eq!(found(HERE, &format!("{doc}fn f() {{\n    SEEN.load(Ordering::Relaxed);\n}}")), 1);
    }

    #[test]
    fn the_comment_must_name_this_ordering() {
        assert_eq!(found(HERE, "// Relaxed: a count.\n    x.load(Ordering::Acquire);"), 1);
    }

    #[test]
    fn sequential_consistency_needs_a_word_in_the_protocols_only() {
        assert_eq!(found(HERE, "x.load(Ordering::SeqCst);"), 1);
        assert_eq!(found("crates/injector/src/board.rs", "x.load(Ordering::SeqCst);"), 0);
        assert_eq!(found("crates/injector/src/board.rs", "x.load(Ordering::Relaxed);"), 1);
        assert_eq!(found(HERE, "#[cfg(test)]\nmod tests {\nfn f() { x.load(Ordering::SeqCst); }\n}"), 0);
    }

    #[test]
    fn an_imported_ordering_is_recognised_without_its_type() {
        let text = "use std::sync::atomic::Ordering::{Relaxed, SeqCst};\nfn f() { x.load(Relaxed); }";
        assert_eq!(found("crates/bench/src/main.rs", text), 1);
        assert_eq!(found("crates/cli/src/main.rs", "fn f() { Command::Release }"), 0);
    }
}
