//! Which module each file of a crate is: by its place, or by the `#[path]` of the file that declares it.
//!
//! Of several files for one name, the first is that module: the one that ships; the others are what their places say. A file that is declared by
//! its place as well is that module.

use std::collections::{BTreeMap, BTreeSet};

/// A module, by its names from the crate's root on.
pub type Path = Vec<String>;

/// The files of a crate, by their texts.
pub struct Modules<'a> {
    texts: BTreeMap<&'a str, &'a str>,
    /// The files that are another file's module of that name, by `#[path]`.
    named: BTreeMap<String, (&'a str, &'a str)>,
}

impl<'a> Modules<'a> {
    pub fn of(texts: BTreeMap<&'a str, &'a str>) -> Modules<'a> {
        let mut named = BTreeMap::new();
        for (file, text) in &texts {
            let mut taken = BTreeSet::new();
            for (name, path) in declared(text) {
                let Some(path) = path.filter(|_| taken.insert(name)) else { continue };
                named.entry(beside(file, path)).or_insert((*file, name));
            }
        }
        let mut modules = Modules { texts, named };
        let by_place: Vec<String> = modules.named.keys().filter(|f| modules.is_by_place(f)).cloned().collect();
        by_place.iter().for_each(|file| _ = modules.named.remove(file));
        modules
    }

    /// The module that a file is; None: the root of a program of its own, beside the library.
    pub fn module(&self, file: &str) -> Option<Path> {
        if let Some((owner, name)) = self.named.get(file) {
            return self.below(owner, name);
        }
        let (folder, name) = place(file)?;
        let (_, within) = folder.split_once("/src")?;
        match (within, name) {
            ("", "lib" | "main") => Some(Path::new()),
            ("", _) => Some(Path::from([name.to_owned()])),
            _ if within.starts_with("/bin") => None,
            _ => match self.parent(folder) {
                Some(parent) => self.below(parent, name),
                None => Some(within.split('/').skip(1).chain([name]).map(str::to_owned).collect()),
            },
        }
    }

    fn below(&self, file: &str, name: &str) -> Option<Path> {
        let mut module = self.module(file)?;
        module.push(name.to_owned());
        Some(module)
    }

    /// The file whose modules lie in a folder.
    fn parent(&self, folder: &str) -> Option<&'a str> {
        let file = [format!("{folder}/mod.rs"), format!("{folder}.rs")];
        file.iter().find_map(|f| Some(*self.texts.get_key_value(f.as_str())?.0))
    }

    fn is_by_place(&self, file: &str) -> bool {
        let Some((folder, name)) = place(file) else { return false };
        let root = ["lib.rs", "main.rs"].map(|root| format!("{folder}/{root}"));
        let of = |parent: &str| self.texts.get(parent).is_some_and(|text| declared(text).any(|d| d == (name, None)));
        self.parent(folder).is_some_and(of) || root.iter().any(|root| of(root))
    }
}

/// Where a file lies, and the name that it has by that.
fn place(file: &str) -> Option<(&str, &str)> {
    let (folder, name) = file.strip_suffix(".rs")?.rsplit_once('/')?;
    if name == "mod" { folder.rsplit_once('/') } else { Some((folder, name)) }
}

/// A path from the folder of a file on.
fn beside(file: &str, path: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        if part == ".." { _ = parts.pop() } else { parts.push(part) }
    }
    parts.join("/")
}

/// The modules that a file declares, and the paths that it says of them.
fn declared(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut paths: Vec<&str> = Vec::new();
    text.lines().map(str::trim).flat_map(move |line| {
        if line.starts_with("#[") {
            let path = line.split_once("path = \"").and_then(|(_, rest)| rest.split_once('"'));
            paths.extend(path.map(|(path, _)| path));
            return Vec::new();
        }
        let paths = std::mem::take(&mut paths);
        let name = line
            .strip_suffix(';')
            .and_then(|l| l.rsplit_once("mod "))
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        let Some((_, name)) = name else { return Vec::new() };
        if paths.is_empty() { vec![(name, None)] } else { paths.into_iter().map(|path| (name, Some(path))).collect() }
    })
}
