//! Rule `late`: the lines of the source that may write into memory which is another object's by now are a closed list.
//!
//! The explorer takes each such write for a failure (`crates/crashsim/src/guard.rs`), but for the lines of
//! `crates/sync/tests/crash/exempt.rs`, which has a reason for each. A line that is not there any more, or twice, is to be struck off.
//! The explorer goes by where the source looks objects up, and says so by `through`; a function that asks whether an object is still
//! there (`is_..`, `has_..`, `may_..`) does not say it: a write behind a check that came too early would go unseen.
//!
//! What makes up for a death takes a `&Visit` (the memory stays the object's), or a `Visitor`, and then changes nothing before it visits: V9 of
//! `crates/arena/src/visit.rs`. A change by one swap of an exact word may come late.

use super::Finding;
use super::house::{House, ships};
use super::source::{Line, has_word};

/// Where the list is.
const LIST: &str = "crates/sync/tests/crash/exempt.rs";

/// How many lines it may have.
const MOST: usize = 8;

/// How the names of functions that check begin.
const CHECKS: [&str; 3] = ["is_", "has_", "may_"];

/// What functions are called that threads call which may be late.
const RECOVER: [&str; 3] = ["recover", "keep_from_all", "notify_dead"];

/// Those that need no visit: they change only words with the dead generation, by one swap.
const EXACT: [&str; 2] = ["crates/sync/src/drain.rs", "crates/sync/src/lock.rs"];

/// How a line names wait bits. Only the owner of the member's life word changes one, and while it stands, it holds the slot.
const BITS: &str = ".waiting(";

/// Whose functions are held to it.
const HELD: [&str; 4] = ["crates/structures/src/", "crates/wait/src/", "crates/tube/src/", "crates/sync/src/"];

/// The explorer's ways in: threads of worlds, which have the right to all.
const MODEL: &str = "crates/sync/src/model";

/// Changes that succeed whatever the word is.
const CHANGES: [&str; 3] = [".store(", ".fetch_", ".swap("];

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
    findings.extend(
        house
            .rust()
            .filter(|(path, _)| ships(path) && !path.ends_with("/tests.rs"))
            .flat_map(|(path, source)| visits(path, &source.lines)),
    );
    findings
}

/// V9 in one file.
fn visits(path: &str, lines: &[Line]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut head, mut is_late) = (None::<String>, false);
    for (at, line) in lines.iter().enumerate().filter(|(_, l)| !l.test) {
        let mut found = |text: &str| findings.push(Finding::new(path, at + 1, "late", text));
        if line.code.contains("Visit::of_own_memory") {
            found("memory that is an arena's is visited by `Visitor::visit`");
        }
        if let Some((_, rest)) = line.code.split_once("fn ").filter(|(before, _)| !before.contains("//")) {
            (head, is_late) = (Some(rest.to_owned()), false);
        } else if let Some(head) = &mut head {
            head.push_str(&line.code);
        }
        if let Some(whole) = head.take_if(|head| head.contains(['{', ';'])) {
            let name = whole.split(['(', '<']).next().unwrap_or_default();
            is_late = whole.contains("Visitor<");
            let has_right = whole.contains("Visit<") || is_late || EXACT.contains(&path);
            let is_held = HELD.iter().any(|room| path.starts_with(room)) && !path.starts_with(MODEL);
            if is_held && RECOVER.contains(&name) && !has_right {
                found("what makes up for a death takes a `&Visit`: the memory may be another object's");
            }
        }
        if line.code.contains("visit(") || line.code.contains("unfinished_by(") {
            is_late = false;
        } else if is_late && !line.code.contains(BITS) && CHANGES.iter().any(|change| line.code.contains(change)) {
            found("a thread that may be late changes nothing before it visits the object");
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

    #[test]
    fn a_recovery_without_a_visit_is_caught() {
        let of = |code: &str| found("", &format!("//! A head.\n{code}"));
        assert_eq!(of("fn recover(&self, member: u16) {\n}\n").len(), 1);
        assert_eq!(of("fn recover(\n    &self,\n    member: u16,\n) {\n}\n").len(), 1);
        assert!(of("fn recover(&self, _: &Visit<'_>, member: u16) {\n    x.store(1);\n}\n").is_empty());
        let late = |first: &str| {
            of(&format!("fn clear(map: &Map, me: &mut Visitor<'_>) {{\n    {first}\n    x.fetch_and(1);\n}}\n"))
        };
        assert_eq!(late("let y = 1;").len(), 1);
        assert!(late("let Some(_visit) = me.visit(at) else { return };").is_empty());
        assert!(late("}\nfn other(map: &Map) {").is_empty(), "it ends with the function");
        assert_eq!(of("fn f() {\n    g(&Visit::of_own_memory());\n}\n").len(), 1);
    }
}
