//! Rule `unsafe` (style 2): every `unsafe` says on what it stands.
//!
//! A block or an `impl` has a `// SAFETY:` comment of at least two words on the same line or above it; an
//! `unsafe fn` or trait has a `# Safety` section in its documentation, unless the trait that it implements has it.

use super::Finding;
use super::house::House;
use super::source::{Line, has_word};

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in house.rust() {
        for (at, line) in source.lines.iter().enumerate() {
            if !has_word(&line.code, "unsafe") || line.code.trim_start().starts_with('#') {
                continue;
            }
            let after = line.code.split("unsafe").nth(1).unwrap_or_default().trim_start();
            // A type, as in `Option<unsafe fn()>`, promises nothing yet.
            let kind = ["fn ", "fn(", "extern ", "trait "].into_iter().find(|k| after.starts_with(k));
            let is_item = line.code.trim_start().split("unsafe").next().is_some_and(|before| {
                before.split_whitespace().all(|w| w.starts_with("pub") || w == "const" || w == "async")
            });
            let missing = match kind {
                Some("fn(") => false,
                Some("fn ") if implements(&source.lines, at) => false,
                // A block of declarations, not a function of that calling convention.
                Some("extern ") if is_item && after.contains('{') && !has_word(after, "fn") => {
                    !has_safety(&source.lines, at)
                }
                Some(_) if is_item => !documented(&source.lines, at) && !has_safety(&source.lines, at),
                Some(_) => false,
                None => !has_safety(&source.lines, at),
            };
            if missing {
                let wanted = if kind.is_some() { "a `# Safety` section" } else { "a `// SAFETY:` comment" };
                findings.push(Finding::new(
                    path,
                    at + 1,
                    "unsafe",
                    format!("`unsafe` without {wanted} that says on what it stands"),
                ));
            }
        }
    }
    findings
}

fn says(comment: &str) -> Option<&str> {
    comment.split("SAFETY:").nth(1)
}

/// Above it there may be the start of the statement, attributes, and other comments.
fn has_safety(lines: &[Line], at: usize) -> bool {
    let enough = |text: &str| text.split_whitespace().count() >= 2;
    if says(&lines[at].comment).is_some_and(enough) {
        return true;
    }
    let mut text = String::new();
    for line in lines[..at].iter().rev() {
        let code = line.code.trim_end();
        if line.is_blank() || (code.ends_with([';', '}']) && !code.trim().is_empty()) {
            return false;
        }
        text = format!("{} {text}", line.comment);
        if let Some(reason) = says(&text) {
            return enough(reason);
        }
    }
    false
}

/// Whether the function belongs to the implementation of a trait.
fn implements(lines: &[Line], at: usize) -> bool {
    let indent = |l: &Line| l.code.len() - l.code.trim_start().len();
    let around = lines[..at].iter().rev().find(|l| !l.code.trim().is_empty() && indent(l) < indent(&lines[at]));
    around.is_some_and(|l| has_word(&l.code, "impl") && l.code.contains(" for "))
}

fn documented(lines: &[Line], at: usize) -> bool {
    let own = lines[..at]
        .iter()
        .rev()
        .take_while(|l| !l.doc.is_empty() || l.code.trim_start().starts_with('#') || l.is_comment());
    own.into_iter().any(|l| l.doc.contains("# Safety"))
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn found(text: &str) -> usize {
        check(&house("crates/plat/src/x.rs", text)).len()
    }

    #[test]
    fn a_block_without_a_reason_is_caught() {
        assert_eq!(found("fn f() {\n    unsafe { g() };\n}"), 1);
        assert_eq!(found("fn f() {\n    // it works\n    unsafe { g() };\n}"), 1);
        assert_eq!(found("fn f() {\n    // SAFETY: fine\n    unsafe { g() };\n}"), 1);
        assert_eq!(found("// SAFETY: of something else, further up.\na();\nunsafe { g() };"), 1);
        assert_eq!(found("unsafe impl Sync for A {}"), 1);
    }

    #[test]
    fn a_reason_on_the_line_or_above_is_enough() {
        assert_eq!(found("    // SAFETY: the page stays mapped.\n    unsafe { g() };"), 0);
        assert_eq!(found("    // SAFETY: the page\n    // stays mapped.\n    let x =\n        unsafe { g() };"), 0);
        assert_eq!(found("    unsafe { g() }; // SAFETY: the page stays mapped."), 0);
    }

    #[test]
    fn an_unsafe_function_documents_its_conditions() {
        assert_eq!(found("/// Does it.\npub unsafe fn f() {}"), 1);
        assert_eq!(found("/// Does it.\n///\n/// # Safety\n/// `p` is valid.\n#[inline]\npub unsafe fn f() {}"), 0);
        assert_eq!(found("// SAFETY: it is so.\nunsafe impl T for A {\n    unsafe fn f() {}\n}"), 0);
        assert_eq!(found("impl A {\n    unsafe fn f() {}\n}"), 1);
        let c = "/// Does it.\n///\n/// # Safety\n/// `p` is valid.\npub unsafe extern \"C\" fn f() {}";
        assert_eq!((found(c), found(&c.replace("# Safety", "# Panics"))), (0, 1));
        assert_eq!(found("struct A(Option<unsafe fn()>, unsafe fn(u8));"), 0);
    }

    #[test]
    fn the_word_in_a_string_or_a_lint_name_is_nothing() {
        assert_eq!(found("let a = \"unsafe {\"; // unsafe {"), 0);
        assert_eq!(found("#![deny(unsafe_op_in_unsafe_fn)]"), 0);
    }
}
