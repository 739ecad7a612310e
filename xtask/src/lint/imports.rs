//! Which files of a crate import each other, read from their text.
//!
//! An arrow runs from a file to the file that *defines* the name that it uses. Re-exports are followed, so `use crate::Pool` leads to
//! `pool.rs`; a re-export is an arrow of the file that has it, too. `mod x;` is none, nor is a module that is named only for what lies below
//! it. Test modules are left out.
//!
//! Left out: which file's `impl` a method comes from (a method call names no file), and scopes within a file (a `use` inside a function counts
//! for the whole file).

use super::house::{House, Source, room, ships};
use super::modules::{Modules, Path};
use std::collections::{BTreeMap, BTreeSet};

/// For each file, which others it imports, and which of their names.
pub type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

/// The arrows between the files of a crate.
pub fn imports<'a>(house: &'a House, name: &str) -> Arrows<'a> {
    let is_own = |path: &str| ships(path) && room(path) == Some(name);
    let all = house.rust().filter(|(p, _)| is_own(p));
    let modules = Modules::of(house.texts().filter(|(p, _)| p.ends_with(".rs") && is_own(p)).collect());
    let mut texts: BTreeMap<&str, Text> =
        all.filter_map(|(p, s)| Some((p, Text::read(modules.module(p)?, s)))).collect();
    let tests: Vec<Path> =
        texts.values().flat_map(|t| t.tests.iter().map(|x| joined(&t.module, [x.clone()]))).collect();
    texts.retain(|_, t| !tests.iter().any(|test| t.module.starts_with(test)));
    let roots: BTreeMap<Path, &str> = texts.iter().map(|(p, t)| (t.module.clone(), *p)).collect();
    let macros: BTreeMap<&str, &str> =
        texts.iter().flat_map(|(p, t)| t.macros.iter().map(|m| (m.as_str(), *p))).collect();
    let reader = Reader { texts: &texts, roots: &roots, macros: &macros };
    texts.iter().map(|(path, text)| (*path, reader.arrows(path, text))).collect()
}

/// What one file says.
#[derive(Default)]
struct Text {
    /// The module that it is.
    module: Path,
    /// Names that it imports, and the paths that they stand for, as written.
    aliases: BTreeMap<String, Path>,
    /// Paths of which it imports everything.
    globs: Vec<Path>,
    /// Paths that it names.
    paths: Vec<Path>,
    /// Names that it defines.
    defines: BTreeSet<String>,
    /// Macros that it defines.
    macros: BTreeSet<String>,
    /// Macros that it calls by their bare names.
    calls: BTreeSet<String>,
    /// Modules that only tests have.
    tests: BTreeSet<String>,
}

fn joined(base: &[String], rest: impl IntoIterator<Item = String>) -> Path {
    base.iter().cloned().chain(rest).collect()
}

/// Names, `::`, and every other character by itself.
fn tokens(source: &Source) -> (Vec<String>, BTreeSet<String>) {
    let mut tokens: Vec<String> = Vec::new();
    let mut tests = BTreeSet::new();
    for line in &source.lines {
        if line.test {
            if let Some(name) = line.code.trim().strip_prefix("mod ").and_then(|m| m.strip_suffix(';')) {
                tests.insert(name.to_owned());
            }
            continue;
        }
        let mut chars = line.code.chars().peekable();
        while let Some(c) = chars.next() {
            if c.is_alphanumeric() || c == '_' {
                let mut name = String::from(c);
                while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                tokens.push(name);
            } else if c == ':' && chars.next_if_eq(&':').is_some() {
                tokens.push("::".to_owned());
            } else if !c.is_whitespace() && c != '$' {
                tokens.push(c.to_string());
            }
        }
    }
    (tokens, tests)
}

const DEFINES: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "union"];

impl Text {
    fn read(module: Path, source: &Source) -> Text {
        let (tokens, tests) = tokens(source);
        let mut text = Text { module, tests, ..Text::default() };
        // Modules within the file, and the depths at which they began.
        let mut inner: Vec<(String, usize)> = Vec::new();
        let (mut depth, mut at) = (0, 0);
        let is = |at: usize, what: &str| tokens.get(at).is_some_and(|t| t == what);
        while at < tokens.len() {
            let base = joined(&text.module, inner.iter().map(|(name, _)| name.clone()));
            match tokens[at].as_str() {
                "{" => depth += 1,
                "}" => {
                    depth = usize::saturating_sub(depth, 1);
                    inner.pop_if(|(_, began)| *began == depth);
                }
                "mod" if is(at + 2, "{") => {
                    inner.push((tokens[at + 1].clone(), depth));
                    text.defines.insert(tokens[at + 1].clone());
                    at += 1;
                }
                "mod" if is(at + 2, ";") => at += 2,
                "macro_rules" if is(at + 1, "!") => {
                    text.macros.insert(tokens[at + 2].clone());
                    at += 2;
                }
                "use" if !is(at + 1, "<") => {
                    let end = (at..tokens.len()).find(|k| tokens[*k] == ";").unwrap_or(tokens.len());
                    text.imports(&base, &tokens[at + 1..end], &Path::new());
                    at = end;
                }
                word if DEFINES.contains(&word) => {
                    text.defines.extend(tokens.get(at + 1).cloned());
                }
                _ if is(at + 1, "::") && !(at > 0 && is(at - 1, "::")) => {
                    let mut path = Path::from([tokens[at].clone()]);
                    while is(at + 1, "::") && tokens.get(at + 2).is_some_and(|t| is_name(t)) {
                        path.push(tokens[at + 2].clone());
                        at += 2;
                    }
                    if path.len() > 1 {
                        text.paths.push(absolute(&base, path));
                    }
                }
                word if is(at + 1, "!") && !is(at + 2, "=") => {
                    text.calls.insert(word.to_owned());
                }
                _ => {}
            }
            at += 1;
        }
        text
    }

    /// One tree of a `use`.
    fn imports(&mut self, base: &[String], tree: &[String], before: &Path) {
        let mut path = before.clone();
        let mut at = 0;
        while at < tree.len() {
            match tree[at].as_str() {
                "{" => {
                    let (mut depth, mut from) = (0, at + 1);
                    for k in at..tree.len() {
                        match tree[k].as_str() {
                            "{" => depth += 1,
                            "}" => depth -= 1,
                            _ => {}
                        }
                        if depth == 0 || depth == 1 && tree[k] == "," {
                            self.imports(base, &tree[from..k], &path);
                            from = k + 1;
                        }
                        if depth == 0 {
                            return;
                        }
                    }
                }
                "*" => {
                    self.globs.push(absolute(base, path));
                    return;
                }
                "as" => break,
                "::" => {}
                // The path before it, by its own name.
                "self" if !path.is_empty() => {}
                name => path.push(name.to_owned()),
            }
            at += 1;
        }
        let Some(name) = (if tree.get(at).is_some_and(|t| t == "as") { tree.get(at + 1) } else { path.last() }) else {
            return;
        };
        let (name, path) = (name.clone(), absolute(base, path));
        self.paths.push(path.clone());
        self.aliases.insert(name, path);
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// A path as written in `base`, from the crate's root on if it begins with `crate`, `self` or `super`; else as it is.
fn absolute(base: &[String], path: Path) -> Path {
    let mut to = base.to_vec();
    let mut rest = path.as_slice();
    match path[0].as_str() {
        "crate" => to.clear(),
        "self" => {}
        "super" => {
            while rest.first().is_some_and(|p| p == "super") {
                to.pop();
                rest = &rest[1..];
            }
            return joined(&["crate".to_owned()], joined(&to, rest.iter().cloned()));
        }
        _ => return path,
    }
    joined(&["crate".to_owned()], joined(&to, rest[1..].iter().cloned()))
}

struct Reader<'a, 'b> {
    texts: &'b BTreeMap<&'a str, Text>,
    roots: &'b BTreeMap<Path, &'a str>,
    macros: &'b BTreeMap<&'b str, &'a str>,
}

impl<'a> Reader<'a, '_> {
    fn arrows(&self, own: &'a str, text: &Text) -> BTreeMap<&'a str, BTreeSet<String>> {
        let mut arrows: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let globs = text.globs.iter().map(|g| joined(g, ["*".to_owned()]));
        for path in text.paths.iter().cloned().chain(globs) {
            if let Some((file, name)) = self.defined(text, &path, 8) {
                arrows.entry(file).or_default().insert(name);
            }
        }
        for call in text.calls.iter().filter(|c| !text.macros.contains(*c)) {
            if let Some(file) = self.macros.get(call.as_str()) {
                arrows.entry(file).or_default().insert(format!("{call}!"));
            }
        }
        arrows.remove(own);
        arrows
    }

    /// Which file defines what a path in a file names. None: another crate's, or a module.
    fn defined(&self, text: &Text, path: &[String], steps: u32) -> Option<(&'a str, String)> {
        if path[0] != "crate" {
            let known = text.aliases.get(&path[0]).filter(|to| steps > 0 && to[0] != path[0]);
            if let Some(to) = known {
                return self.defined(text, &joined(to, path[1..].iter().cloned()), steps - 1);
            }
            let child = joined(&text.module, [path[0].clone()]);
            let child = self.roots.contains_key(&child).then(|| joined(&["crate".to_owned()], child))?;
            return self.defined(text, &joined(&child, path[1..].iter().cloned()), steps);
        }
        let path = &path[1..];
        let long = (0..=path.len()).rev().find(|n| self.roots.contains_key(&path[..*n]))?;
        let (file, name) = (self.roots[&path[..long]], path.get(long)?);
        let there = &self.texts[file];
        if steps == 0 || there.defines.contains(name) {
            return Some((file, name.clone()));
        }
        if let Some(to) = there.aliases.get(name) {
            return self.defined(there, &joined(to, path[long + 1..].iter().cloned()), steps - 1);
        }
        if let Some(file) = self.macros.get(name.as_str()) {
            return Some((file, name.clone()));
        }
        let of_globs = there.globs.iter().filter_map(|g| self.defined(there, &joined(g, [name.clone()]), steps - 1));
        let found = of_globs.into_iter().find(|(file, name)| self.texts[file].defines.contains(name));
        Some(found.unwrap_or((file, name.clone())))
    }
}
