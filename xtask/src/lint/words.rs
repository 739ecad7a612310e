//! Rule `words` (style 1, 3, 8, 15): nothing unfinished, no apology, nobody's own machine, no private word.
//!
//! A private word is one that the glossary does not have and that the field has another for. Those that are gone from the
//! documentation may not come back: [`PRIVATE`].
//!
//! A path in the text must be one that every Linux has; a package registry is none of the reader's business (what is
//! needed is Rust). The words are put together from parts here, so that this file does not break its own rule.

use super::Finding;
use super::house::House;

const UNFINISHED: [&str; 7] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
];

const APOLOGY: [&str; 5] = [
    concat!("hope", "fully"),
    concat!("unfortu", "nately"),
    concat!("should be go", "od enough"),
    concat!("quick and di", "rty"),
    concat!("work in pro", "gress"),
];

const REGISTRY: [&str; 4] =
    [concat!("crates", ".io"), concat!("index.crates", ".io"), concat!("py", "pi.org"), concat!("npm", "js.")];

/// Words that documentation used to have, and the field's.
const PRIVATE: [(&str, &str); 17] = [
    ("askew", "misaligned"),
    ("burier", "remover"),
    ("couriers", "users of tubes"),
    ("custodian", "process member"),
    ("grazers", "users of pools"),
    ("groom", "refiller"),
    ("late one", "late thread"),
    ("late ones", "late threads"),
    ("namesake", "object of the same number"),
    ("nudge", "tell, wake"),
    ("nudged", "told, woken"),
    ("nudges", "tells, wakes"),
    ("sippers", "users of semaphores"),
    ("usher", "closing process"),
    ("whoever", "a thread, a process, a user"),
    ("whom", "a thread, a process, a user"),
    ("wanderer", "forking process"),
];

/// First parts of paths that mean the same on every Linux.
const EVERYWHERE: [&str; 18] = [
    "dev",
    "proc",
    "sys",
    "tmp",
    "usr",
    "bin",
    "sbin",
    "etc",
    "run",
    "var",
    "lib",
    "no",
    "nowhere",
    "nonexistent",
    "path",
    "name",
    "shm",
    "x",
];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in house.texts() {
        for (at, line) in text.lines().enumerate() {
            let mut found = |text: String| findings.push(Finding::new(path, at + 1, "words", text));
            let small = line.to_lowercase();
            if let Some(word) = UNFINISHED.iter().find(|w| stands(line, w)) {
                found(format!("`{word}`: finish it, or make it an issue"));
            }
            if let Some(word) = APOLOGY.iter().find(|w| small.contains(**w)) {
                found(format!("`{word}`: no history, no apology; say what is"));
            }
            if let Some(word) = REGISTRY.iter().find(|w| small.contains(**w)) {
                found(format!("`{word}`: what is needed is Rust alone"));
            }
            for root in rooted(line).filter(|r| !EVERYWHERE.contains(r)) {
                found(format!("`/{root}/...` is a path of somebody's own machine"));
            }
        }
    }
    let docs = house.rust().flat_map(|(path, source)| {
        source.lines.iter().enumerate().map(move |(at, line)| (path, at, line.doc.as_str()))
    });
    let pages = house.texts().filter(|(path, _)| path.ends_with(".md") && *path != "CHANGELOG.md");
    let pages = pages.flat_map(|(path, text)| text.lines().enumerate().map(move |(at, line)| (path, at, line)));
    for (path, at, line) in docs.chain(pages) {
        let small = line.to_lowercase();
        if let Some((word, instead)) = PRIVATE.iter().find(|(word, _)| stands(&small, word)) {
            let text = format!("`{word}` is no word of the field's or of the glossary: {instead}");
            findings.push(Finding::new(path, at + 1, "words", text));
        }
    }
    findings
}

fn stands(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let letter = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back().is_some_and(letter);
        let after = line[at + word.len()..].chars().next().is_some_and(letter);
        !before && (!after || word.ends_with('('))
    })
}

/// The first parts of absolute paths in a line: `/name/more`, opened by a quotation mark, a space or a backquote.
fn rooted(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('/').filter_map(|(at, _)| {
        let opened = at == 0 || line[..at].ends_with(['"', '`', ' ', '(', '=', '\'']);
        let rest = &line[at + 1..];
        let name = &rest[..rest.find(|c: char| !c.is_ascii_lowercase() && c != '.' && c != '-').unwrap_or(rest.len())];
        let goes_on = rest[name.len()..]
            .strip_prefix('/')
            .is_some_and(|r| r.starts_with(|c: char| c.is_alphanumeric() || c == '.'));
        (opened && name.starts_with(|c: char| c.is_ascii_lowercase()) && goes_on).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    fn found(text: &str) -> usize {
        check(&house("crates/arena/src/map.rs", text)).len()
    }

    #[test]
    fn every_listed_word_is_caught() {
        for word in UNFINISHED.iter().chain(&APOLOGY) {
            assert_eq!(found(&format!("// {word} )")), 1, "{word}");
        }
        for word in REGISTRY {
            assert!(found(&format!("see https://{word}/x")) >= 1, "{word}");
        }
        assert_eq!(found("// a mastodon's HACKLES"), 0);
    }

    #[test]
    fn a_private_word_is_caught_in_documentation_alone() {
        assert_eq!(found("//! The late one, or whoever comes, is nudged."), 1);
        assert_eq!(found("/// A nudge.\nfn f() {}"), 1);
        assert_eq!(found("// A nudge.\nfn nudge() {}"), 0);
        assert_eq!(found("//! The latest one of a chain."), 0);
        assert_eq!(check(&house("book/src/start.md", "Whom it concerns.")).len(), 1);
        assert_eq!(check(&house("CHANGELOG.md", "- Whom it concerns.")).len(), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_caught() {
        assert_eq!(found(concat!("let p = \"/ho", "me/ann/chappe\";")), 1);
        assert_eq!(found(concat!("# see /wor", "k/notes.md")), 1);
        assert_eq!(found("let p = \"/dev/shm/chappe-0\"; // either/or, and/or/not"), 0);
    }
}
