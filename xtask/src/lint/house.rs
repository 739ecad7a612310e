//! The files of the workspace, read once.

use super::source::{Line, lines};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A file of Rust.
pub struct Source {
    /// Its lines, code and comments apart.
    pub lines: Vec<Line>,
}

/// Everything that the rules look at, by path from the workspace's directory.
#[derive(Default)]
pub struct House {
    /// Every file, also those that no rule reads.
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
}

const SPOKEN: [&str; 13] = ["rs", "toml", "md", "sh", "h", "c", "py", "pml", "yml", "html", "css", "txt", "mutant"];

impl House {
    /// Reads the workspace.
    pub fn read(root: &Path) -> Result<House> {
        let mut house = House::default();
        let mut todo = vec![root.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let at = path.strip_prefix(root)?.to_string_lossy().into_owned();
                if path.is_symlink() || name == "target" || (name.starts_with('.') && name != ".ci" && name != ".cargo")
                {
                    continue;
                }
                if path.is_dir() {
                    todo.push(path);
                    continue;
                }
                if at.starts_with(".ci/") || SPOKEN.iter().any(|e| name.ends_with(&format!(".{e}"))) {
                    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {at}"))?;
                    house.add(&at, &text);
                }
                house.paths.insert(at);
            }
        }
        Ok(house)
    }

    /// Adds a file.
    pub fn add(&mut self, path: &str, text: &str) {
        if path.ends_with(".rs") {
            self.sources.insert(path.to_owned(), Source { lines: lines(text) });
        }
        self.paths.insert(path.to_owned());
        self.texts.insert(path.to_owned(), text.to_owned());
    }

    /// Files of Rust.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|(p, s)| (p.as_str(), s))
    }

    /// All files, as they are.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(p, t)| (p.as_str(), t.as_str()))
    }

    /// One file, as it is.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Whether a file is there, or a directory that has any.
    pub fn has(&self, path: &str) -> bool {
        let inside = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path) || self.paths.iter().any(|p| p.starts_with(&inside))
    }
}

/// The crate whose directory this file is in: `arena` for `crates/arena/src/map.rs`, `xtask` for its own.
pub fn room(path: &str) -> Option<&str> {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, ..] => Some(name),
        ["xtask", ..] => Some("xtask"),
        _ => None,
    }
}

/// Whether the file is part of what its crate ships, not of its tests.
pub fn ships(path: &str) -> bool {
    path.contains("/src/")
}

/// For the rules' own tests: a house of one file.
#[cfg(test)]
pub fn house(path: &str, text: &str) -> House {
    let mut house = House::default();
    house.add(path, text);
    house
}
