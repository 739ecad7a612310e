//! Rule `shape` (style 1, 4, 5, 8): one idea a file.
//!
//! A file has at most 700 lines, begins with a head that tells its idea, and its name says what it is about. Errors can
//! grow (`#[non_exhaustive]`). Nothing dead is kept alive by `allow`, and any other `allow` says why.

use super::Finding;
use super::house::{House, ships};
use super::source::{Line, has_word};

const MOST: usize = 700;
const NAMELESS: [&str; 8] = ["util", "utils", "helper", "helpers", "common", "misc", "shared", "stuff"];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |path: &str, line, text: String| findings.push(Finding::new(path, line, "shape", text));
    for (path, text) in house.texts() {
        let count = text.lines().count();
        let code = !path.ends_with(".md") && !path.ends_with(".txt");
        if code && count > MOST {
            found(path, MOST, format!("{count} lines; {MOST} are enough for one idea: split it"));
        }
        let mut names = path.split(['/', '.']);
        if let Some(name) = names.find(|n| NAMELESS.contains(n)) {
            found(path, 0, format!("`{name}` says nothing about what is inside"));
        }
        if let Some(rest) = text.strip_prefix("#!/")
            && !rest.lines().nth(1).is_some_and(|l| l.starts_with("# "))
        {
            found(path, 2, "a script says below its first line what it does".into());
        }
    }
    for (path, source) in house.rust() {
        if source.lines.first().is_none_or(|l| l.doc.trim().split(' ').count() < 2) {
            found(path, 1, "no head: begin with `//!` and the file's idea".into());
        }
        for (at, line) in source.lines.iter().enumerate() {
            if (line.code.contains("#[allow(") || line.code.contains("#![allow(")) && !line.code.contains("reason") {
                let dead = ["dead_code", "unused"].iter().any(|w| line.code.contains(w));
                let text = if dead { "delete what is dead" } else { "an `allow` says why: `reason = ...`, or mend it" };
                found(path, at + 1, text.into());
            }
            if let Some(name) = error_enum(line)
                && ships(path)
                && !source.lines[..at].iter().rev().take(4).any(|l| l.code.contains("non_exhaustive"))
                && !source.lines[..at].iter().rev().take(4).any(|l| l.comment.contains("Exhaustive: "))
            {
                found(
                    path,
                    at + 1,
                    format!("`{name}` cannot grow: mark it #[non_exhaustive], or say why not: `// Exhaustive: ...`"),
                );
            }
        }
    }
    findings
}

fn error_enum(line: &Line) -> Option<&str> {
    let name = line.code.trim_start().strip_prefix("pub enum ")?.split([' ', '<', '{']).next()?;
    (name.ends_with("Error") && has_word(&line.code, "enum")).then_some(name)
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
    fn a_long_file_is_caught() {
        let lines = |n: usize| format!("//! A head.\n{}", "fn f() {}\n".repeat(n - 1));
        assert_eq!(found(HERE, &lines(701)), 1);
        assert_eq!(found(HERE, &lines(700)), 0);
    }

    #[test]
    fn a_file_without_a_head_is_caught() {
        assert_eq!(found(HERE, "use std::io;\n"), 1);
        assert_eq!(found(HERE, "//!\n\nuse std::io;\n"), 1);
        assert_eq!(found(HERE, "//! Arenas as one process sees them.\n"), 0);
        assert_eq!(found("examples/shell/a.sh", "#!/bin/sh\nset -e\n"), 1);
        assert_eq!(found("examples/shell/a.sh", "#!/bin/sh\n# Forty jobs over three pools.\nset -e\n"), 0);
    }

    #[test]
    fn a_name_that_says_nothing_is_caught() {
        assert_eq!(found("crates/arena/src/util.rs", "//! A head."), 1);
        assert_eq!(found("crates/cli/tests/common/mod.rs", "//! A head."), 1);
    }

    #[test]
    fn an_error_that_cannot_grow_is_caught() {
        assert_eq!(found(HERE, "//! A head.\n#[derive(Debug)]\npub enum MapError {\n"), 1);
        assert_eq!(found(HERE, "//! A head.\n#[derive(Debug)]\n#[non_exhaustive]\npub enum MapError {\n"), 0);
    }

    #[test]
    fn an_allow_of_dead_code_is_caught() {
        assert_eq!(found(HERE, "//! A head.\n#[allow(dead_code)]\nfn f() {}"), 1);
        assert_eq!(found(HERE, "//! A head.\n#[allow(clippy::too_many_arguments)]\nfn f() {}"), 1);
        assert_eq!(found(HERE, "//! A head.\n#[allow(clippy::x, reason = \"the interface is C's\")]\nfn f() {}"), 0);
    }
}
