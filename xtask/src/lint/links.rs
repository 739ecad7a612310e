//! Rule `links` (style 4, "Where there is one, the page"): a link leads somewhere.
//!
//! - A relative link or picture of a Markdown file names a file of the repository, and what stands behind its `#` is a heading of it.
//! - A page of the guide links to pages of the guide alone: as a site it has no others. It names the rest in backquotes.
//! - Each page of the guide is in its summary.
//!
//! Addresses in the web are none of its business: a check must not need a network.

use super::Finding;
use super::house::House;

const GUIDE: &str = "book/src/";
const SUMMARY: &str = "book/src/SUMMARY.md";

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pages = || house.texts().filter(|(path, _)| path.ends_with(".md"));
    for (file, text) in pages() {
        for (at, line) in prose(text) {
            for target in targets(line).filter(|t| !t.contains("://") && !t.starts_with("mailto:")) {
                let mut find = |what: String| findings.push(Finding::new(file, at, "links", what));
                let (path, heading) = target.split_once('#').map_or((target, None), |(p, h)| (p, Some(h)));
                let path = if path.is_empty() { Some(file.to_owned()) } else { beside(file, path) };
                let Some(path) = path.filter(|path| house.has(path)) else {
                    find(format!("`{target}` leads nowhere"));
                    continue;
                };
                if file.starts_with(GUIDE) && !path.starts_with(GUIDE) {
                    find(format!("`{target}` is not in the guide: name it in backquotes"));
                }
                if let Some(heading) = heading
                    && !house.text(&path).is_some_and(|text| headings(text).any(|h| h == heading))
                {
                    find(format!("`{path}` has no heading `#{heading}`"));
                }
            }
        }
    }
    let listed: Vec<&str> =
        house.text(SUMMARY).map(|text| prose(text).flat_map(|(_, l)| targets(l)).collect()).unwrap_or_default();
    for page in pages().filter_map(|(path, _)| path.strip_prefix(GUIDE)).filter(|p| *p != "SUMMARY.md") {
        if !listed.contains(&page) {
            findings.push(Finding::new(SUMMARY, 1, "links", format!("`{page}` is in no reader's list")));
        }
    }
    findings
}

/// The lines that are no program or picture of one, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut shown = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        shown ^= fence;
        !shown && !fence
    })
}

/// What the links of a line lead to.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    // Every second piece is code.
    line.split('`')
        .step_by(2)
        .flat_map(|piece| piece.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(t, _)| t)
}

/// The path from the repository's directory of what this file calls so.
fn beside(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The names by which a page's headings are linked: lower case, without punctuation, spaces as hyphens.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let kept = line.trim_start_matches('#').trim().chars();
        kept.filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn said(file: &str, text: &str) -> Vec<String> {
        let mut house = house(file, text);
        house.add("docs/a.md", "# A: the `first`, and more\n");
        check(&house).into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn a_link_to_a_file_or_heading_that_is_not_there_is_caught() {
        assert_eq!(
            said("README.md", "[a](docs/a.md#a-the-first-and-more), [b](docs/), ![c](https://x.org/no)\n"),
            [""; 0]
        );
        assert_eq!(said("docs/b.md", "[a](a.md) [r](../docs/a.md) [here](#here)\n# Here\n"), [""; 0]);
        for (bad, why) in [
            ("[a](docs/b.md)", "leads nowhere"),
            ("![a](b.png) beside [a](docs/a.md)", "leads nowhere"),
            ("[a](docs/a.md#b)", "has no heading `#b`"),
            ("[a](../docs/a.md)", "leads nowhere"),
            ("[a](#b)", "has no heading"),
        ] {
            let found = said("README.md", bad);
            assert!(found.len() == 1 && found[0].contains(why), "{bad}: {found:?}");
        }
    }

    #[test]
    fn code_that_looks_like_a_link_is_none() {
        assert_eq!(said("README.md", "`v[0](b)`\n```rust\nv[0](b);\n```\n"), [""; 0]);
    }

    #[test]
    fn a_page_of_the_guide_is_in_its_summary_and_leads_to_no_other_place() {
        let mut guide = house("book/src/SUMMARY.md", "- [One](one.md)\n");
        guide.add("book/src/one.md", "# One\n[one](one.md#one)\n");
        guide.add("docs/a.md", "");
        assert_eq!(check(&guide), []);
        guide.add("book/src/two.md", "[a](../../docs/a.md)\n");
        let found: Vec<_> = check(&guide).into_iter().map(|f| f.text).collect();
        assert!(
            found.len() == 2 && found[0].contains("not in the guide") && found[1].contains("`two.md`"),
            "{found:?}"
        );
    }
}
