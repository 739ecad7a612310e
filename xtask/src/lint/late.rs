//! Rule `late`: the lines of the source that may write into memory which is another object's by now are a closed list.
//!
//! The explorer takes each such write for a failure (`crates/crashsim/src/guard.rs`), but for the lines of
//! `crates/sync/tests/crash/exempt.rs`, which has a reason for each. A line that is not there any more, or twice, is to be struck off.
//! The explorer goes by where the source looks objects up, and says so by `through`; a function that asks whether an object is still
//! there (`is_..`, `has_..`, `may_..`) does not say it: a write behind a check that came too early would go unseen.

use super::Finding;
use super::house::{House, ships};
use super::source::has_word;

/// Where the list is.
const LIST: &str = "crates/sync/tests/crash/exempt.rs";

/// How many lines it may have.
const MOST: usize = 8;

/// How the names of functions that check begin.
const CHECKS: [&str; 3] = ["is_", "has_", "may_"];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    let at_list = |line: usize, text: String| Finding::new(LIST, line, "late", text);
    let list = house.text(LIST).map(entries).unwrap_or_default();
    if list.len() > MOST {
        findings.push(at_list(0, format!("{} lines may write late: {MOST} at most", list.len())));
    }
    for Entry { line, file, code, why } in list {
        if why.is_empty() {
            findings.push(at_list(line, "say why it may write late".into()));
        }
        let text = house.text(&file).unwrap_or_default();
        let times = text.lines().filter(|l| l.trim() == code).count();
        if times != 1 {
            findings
                .push(at_list(line, format!("`{code}` is {times} times in {file}: strike it off, or name one line")));
        }
    }
    for (path, source) in house.rust().filter(|(path, _)| ships(path)) {
        let mut name = "";
        for (at, line) in source.lines.iter().enumerate().filter(|(_, l)| !l.test) {
            if let Some((_, rest)) = line.code.split_once("fn ") {
                name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            }
            if has_word(&line.code, "through") && CHECKS.iter().any(|check| name.starts_with(check)) {
                let text = format!("`{name}` checks, and does not look up: a late write behind it would go unseen");
                findings.push(Finding::new(path, at + 1, "late", text));
            }
        }
    }
    findings
}

/// An entry of the list.
#[derive(Default)]
struct Entry {
    line: usize,
    file: String,
    code: String,
    why: String,
}

/// The entries, as they are written.
fn entries(text: &str) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    let mut inside = false;
    for (at, line) in text.lines().enumerate() {
        match line.trim() {
            "Exempt {" => {
                all.push(Entry { line: at + 1, ..Entry::default() });
                inside = true;
            }
            "}," => inside = false,
            field if inside => {
                let entry = all.last_mut().expect("an entry is open");
                let value = |name| field.strip_prefix(name).and_then(|v| v.strip_prefix(": \"")?.strip_suffix("\","));
                for (name, to) in [("file", &mut entry.file), ("code", &mut entry.code), ("why", &mut entry.why)] {
                    if let Some(value) = value(name) {
                        *to = value.replace("\\\"", "\"");
                    }
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn listed(code: &str, why: &str) -> String {
        format!(
            "const A: [Exempt; 1] = [\n    Exempt {{\n        file: \"crates/sync/src/a.rs\",\n        code: \"{code}\",\n        why: \"{why}\",\n    }},\n];\n"
        )
    }

    fn found(list: &str, source: &str) -> Vec<String> {
        let mut house = house("crates/sync/src/a.rs", source);
        house.add(LIST, list);
        check(&house).into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn an_entry_names_one_line_that_is_there_and_says_why() {
        let source = "//! A head.\nfn f() {\n    x.swap(1);\n    y.swap(1);\n    y.swap(1);\n}\n";
        assert!(found(&listed("x.swap(1);", "it may"), source).is_empty());
        assert_eq!(found(&listed("z.swap(1);", "it may"), source).len(), 1, "it is gone");
        assert_eq!(found(&listed("y.swap(1);", "it may"), source).len(), 1, "it is there twice");
        assert_eq!(found(&listed("x.swap(1);", ""), source), ["say why it may write late"]);
        assert_eq!(found(&listed("x.swap(1);", "it may").repeat(MOST + 1), source).len(), 1, "they are too many");
    }

    #[test]
    fn a_check_that_counts_as_a_look_is_caught() {
        let asks = |name: &str| {
            format!("//! A head.\nfn {name}(map: &Map) -> bool {{\n    map.through(place);\n    true\n}}\n")
        };
        for name in ["is_still", "has_blocks", "may_change"] {
            assert_eq!(found("", &asks(name)).len(), 1, "{name}");
        }
        assert!(found("", &asks("find")).is_empty());
    }
}
