//! Rule `documents` (style 9, design 8): what a document names is there.
//!
//! - A path of the repository in backquotes, in any Markdown file, exists; `crates/x/tests/y.rs::name` names a function
//!   of that file.
//! - Every dependency from outside is in `docs/dependencies.md`, first column, and nothing else is.

use super::Finding;
use super::house::House;
use super::layers::needs;
use super::source::has_word;
use std::collections::BTreeSet;

const ROOMS: [&str; 9] = ["crates/", "xtask/", "docs/", "examples/", "models/", "tests/", "book/", ".ci/", ".cargo/"];
const DEPENDENCIES: &str = "docs/dependencies.md";

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = paths(house);
    findings.extend(dependencies(house));
    findings
}

fn paths(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in house.texts().filter(|(p, _)| p.ends_with(".md")) {
        for (at, line) in text.lines().enumerate() {
            for named in backquoted(line).filter(|n| ROOMS.iter().any(|r| n.starts_with(r))) {
                let (path, item) = named.split_once("::").map_or((named, None), |(p, i)| (p, Some(i)));
                if !there(house, path) {
                    findings.push(Finding::new(file, at + 1, "documents", format!("there is no `{path}`")));
                } else if let Some(item) = item
                    && !house.text(path).is_some_and(|t| defines(t, item))
                {
                    findings.push(Finding::new(file, at + 1, "documents", format!("`{path}` has no `{item}`")));
                }
            }
        }
    }
    findings
}

/// A star in it stands for anything within one name; something must fit.
fn there(house: &House, path: &str) -> bool {
    let Some((start, end)) = path.split_once('*') else { return house.has(path) };
    house.texts().any(|(p, _)| {
        let middle = p.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        middle.is_some_and(|m| !m.contains('/'))
    })
}

fn backquoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|n| !n.contains([' ', '{', '<']))
}

fn defines(text: &str, item: &str) -> bool {
    let last = item.rsplit("::").next().unwrap_or(item);
    let kinds = ["fn ", "struct ", "enum ", "trait ", "const ", "mod ", "static ", "macro_rules! "];
    text.lines().any(|l| kinds.iter().any(|k| has_word(l, &format!("{k}{last}"))))
}

fn dependencies(house: &House) -> Vec<Finding> {
    let mut used = BTreeSet::new();
    let mut findings = Vec::new();
    let listed: Vec<(usize, &str)> = match house.text(DEPENDENCIES) {
        Some(text) => text
            .lines()
            .enumerate()
            .filter(|(_, l)| l.starts_with("| `"))
            .filter_map(|(at, l)| Some((at + 1, backquoted(l).next()?)))
            .collect(),
        None => Vec::new(),
    };
    for (path, text) in house.texts().filter(|(p, _)| p.ends_with("Cargo.toml")) {
        for need in needs(text).into_iter().filter(|n| n.name != "chappe" && !n.name.starts_with("chappe-")) {
            if !listed.iter().any(|(_, l)| *l == need.name) {
                let text = format!(
                    "`{}` is not in {DEPENDENCIES}: say why it is here, its licence, what dropping it takes",
                    need.name
                );
                findings.push(Finding::new(path, need.line, "documents", text));
            }
            used.insert(need.name);
        }
    }
    for (line, name) in listed.iter().filter(|(_, l)| !used.contains(*l)) {
        findings.push(Finding::new(DEPENDENCIES, *line, "documents", format!("nothing depends on `{name}`")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    #[test]
    fn a_path_that_is_not_there_is_caught() {
        let mut h = house("docs/papers.md", "| 2.1 | `crates/sync/src/wait.rs` | `crates/sync` |\n");
        assert_eq!(check(&h).len(), 2);
        h.add("crates/sync/src/wait.rs", "//! Head.\n");
        assert_eq!(check(&h), []);
    }

    #[test]
    fn a_star_must_fit_something() {
        let mut h = house("README.md", "`crates/sync/tests/crash_*.rs`\n");
        h.add("crates/sync/tests/pool.rs", "//! A head.\n");
        assert_eq!(check(&h).len(), 1);
        h.add("crates/sync/tests/crash_pool.rs", "//! A head.\n");
        assert_eq!(check(&h), []);
    }

    #[test]
    fn a_test_that_is_not_there_is_caught() {
        let mut h = house("README.md", "`crates/sync/tests/crash_pool.rs::killed_while_granted`\n");
        h.add("crates/sync/tests/crash_pool.rs", "//! Head.\n\n#[test]\nfn killed_while_granted_twice() {}\n");
        assert_eq!(check(&h).len(), 1);
        h.add("crates/sync/tests/crash_pool.rs", "//! Head.\n\n#[test]\nfn killed_while_granted() {}\n");
        assert_eq!(check(&h), []);
    }

    #[test]
    fn a_dependency_that_is_not_explained_is_caught() {
        let mut h = house("crates/plat/Cargo.toml", "[dependencies]\nlibc.workspace = true\n");
        assert_eq!(check(&h).len(), 1);
        h.add(DEPENDENCIES, "| name | why |\n| `libc` | the system |\n| `left-pad` | gone |\n");
        let findings = check(&h);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].text.contains("left-pad"));
    }
}
