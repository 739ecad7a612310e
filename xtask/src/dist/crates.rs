//! The crates that are linked into what is packaged: their licences, and a bill of materials (CycloneDX).

use super::files::tool;
use crate::install::FEATURES;
use crate::run::{Cargo, root};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates of the command, with all features, and of what `chappe run` loads.
pub const COMMAND: &[&str] = &["-p", "chappe-cli", "-p", "chappe-preload", "-p", "chappe-io", "--features", FEATURES];
/// The crates of the library.
pub const LIBRARY: &[&str] = &["-p", "chappe-ffi", "--features", "chappe-ffi/term"];
/// The crates of the library for Python.
pub const PYTHON: &[&str] = &["-p", "chappe-py", "--features", "chappe-py/full"];

/// One crate of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    name: String,
    version: String,
    /// As SPDX has it.
    licence: String,
}

impl Crate {
    /// A line of `cargo tree`; none of a crate of this workspace.
    fn read(line: &str) -> Option<Crate> {
        let (package, licence) = line.split_once('|')?;
        let (name, version) = package.split_once(" v")?;
        // Before SPDX, a slash stood for OR.
        let licence = licence.replace(" / ", "/").replace('/', " OR ");
        (!version.contains(' ')).then(|| Crate { name: name.into(), version: version.into(), licence })
    }
}

/// Crates of others, and which of them each depends on; None: this workspace's, as one.
pub type Graph = BTreeMap<Option<Crate>, BTreeSet<Crate>>;

/// Adds what `cargo tree` says: before each crate stands how deep it is, and what is below it stands where it comes first.
fn add(graph: &mut Graph, tree: &str) {
    let mut above: Vec<Option<Crate>> = Vec::new();
    for line in tree.lines() {
        let Some(begin) = line.find(|c: char| !c.is_ascii_digit()) else { continue };
        above.truncate(line[..begin].parse().unwrap_or(0));
        let one = Crate::read(line[begin..].trim_end_matches(" (*)"));
        if let Some(one) = &one {
            graph.entry(above.last().cloned().flatten()).or_default().insert(one.clone());
            graph.entry(Some(one.clone())).or_default();
        }
        above.push(one);
    }
}

/// The crates of others that are linked into these packages, and those that depend on them.
pub fn graph(each: &[&[&str]]) -> Result<Graph> {
    let mut graph = Graph::new();
    for packages in each {
        let tree = ["-e", "normal,no-proc-macro", "--prefix", "depth", "--locked", "-f", "{p}|{l}"];
        let out = Cargo::new("tree").args(*packages).args(tree).output()?;
        add(&mut graph, &String::from_utf8_lossy(&out));
    }
    Ok(graph)
}

/// The crates of others that are linked into these packages.
pub fn linked(each: &[&[&str]]) -> Result<BTreeSet<Crate>> {
    Ok(graph(each)?.into_keys().flatten().collect())
}

/// Where the source of each crate lies, by cargo's own account.
fn sources() -> Result<Vec<PathBuf>> {
    let out = Cargo::new("metadata").args(["--format-version", "1", "--locked", "--all-features"]).output()?;
    let text = String::from_utf8_lossy(&out).into_owned();
    let each = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split_once("/Cargo.toml\""));
    Ok(each.map(|(directory, _)| PathBuf::from(directory)).collect())
}

/// The texts that a crate comes with, by their file's names.
fn texts(source: &Path) -> Result<Vec<String>> {
    let of = |directory: &Path| -> Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut files = of(source)?;
    // Fonts have licences of their own, beside them.
    let fonts = source.join("fonts");
    if fonts.is_dir() {
        files.extend(of(&fonts)?);
    }
    files.sort();
    let is_text = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_of_a_font = path.parent() == Some(&fonts) && name.ends_with(".txt");
        path.is_file()
            && (is_of_a_font
                || ["licen", "copying", "notice", "unlicense", "authors"].iter().any(|begin| name.starts_with(begin)))
    };
    files.iter().filter(is_text).map(|path| Ok(fs::read_to_string(path)?.trim_end().to_owned())).collect()
}

/// All licences: which crate has which, and each text once.
pub fn licences(crates: &BTreeSet<Crate>) -> Result<String> {
    let sources = sources()?;
    let mut all = String::from(
        "What is linked in, beside chappe itself and Rust's standard library, and under which licence.\n\n",
    );
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in crates {
        let called = format!("{} {}", one.name, one.version);
        let directory = format!("{}-{}", one.name, one.version);
        let source = sources.iter().find(|source| source.ends_with(&directory));
        let source = source.with_context(|| format!("cargo does not say where the source of {called} lies"))?;
        let texts = texts(source)?;
        ensure!(!one.licence.is_empty(), "{called} names no licence: it cannot be packaged");
        let none = if texts.is_empty() { " (it comes without the text)" } else { "" };
        all += &format!("{called}: {}{none}\n", one.licence);
        for text in texts {
            by_text.entry(text).or_default().push(called.clone());
        }
    }
    for (text, of) in by_text {
        all += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), of.join(", "));
    }
    Ok(all)
}

/// The notices of Rust's standard library, as the toolchain has them.
pub fn of_the_standard_library() -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = tool(Command::new(rustc).args(["--print", "sysroot"]).current_dir(root()))?;
    let notices = Path::new(&sysroot).join("share/doc/rust/COPYRIGHT-library.html");
    ensure!(notices.is_file(), "the toolchain lacks {}: what is packaged must have it", notices.display());
    Ok(notices)
}

/// The licences of what is linked in, into a directory.
pub fn notices(linked: &BTreeSet<Crate>, to: &Path) -> Result<()> {
    fs::write(to.join("third-party.txt"), licences(linked)?)?;
    fs::copy(of_the_standard_library()?, to.join("rust-library.html"))?;
    Ok(())
}

/// What an archive has to read.
pub fn documents(base: &Path, linked: &BTreeSet<Crate>) -> Result<()> {
    let to = base.join("share/doc/chappe");
    fs::create_dir_all(&to)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
        fs::copy(root().join(file), to.join(file))?;
    }
    notices(linked, &to)
}

/// The bill of materials as JSON.
pub fn bill(graph: &Graph, version: &str, epoch: &str) -> Result<String> {
    let time = tool(Command::new("date").args(["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let each: Vec<String> = graph.keys().flatten().map(|one| component(one, &lock)).collect();
    let edges: Vec<String> = graph.iter().map(|(one, on)| depends(one.as_ref(), on)).collect();
    Ok(format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {{\n    \"timestamp\": \
         \"{time}\",\n    \"component\": {{\"type\": \"application\", \"bom-ref\": \"chappe\", \"name\": \"chappe\", \"version\": \
         \"{version}\", \"licenses\": [{{\"expression\": \"MIT OR Apache-2.0\"}}]}}\n  }},\n  \"components\": [\n{}\n  ],\n  \
         \"dependencies\": [\n{}\n  ]\n}}\n",
        each.join(",\n"),
        edges.join(",\n")
    ))
}

/// What a crate is called in a bill, by itself or as what another depends on.
fn reference(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version)
}

/// An entry of the graph.
fn depends(one: Option<&Crate>, on: &BTreeSet<Crate>) -> String {
    let on: Vec<String> = on.iter().map(|one| format!("\"{}\"", reference(one))).collect();
    let own = one.map_or("chappe".to_owned(), reference);
    format!("    {{\"ref\": \"{own}\", \"dependsOn\": [{}]}}", on.join(", "))
}

/// Names, versions and SPDX expressions have no character that JSON escapes.
fn component(one: &Crate, lock: &str) -> String {
    let Crate { name, version, licence } = one;
    let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let sum = lock.split("[[package]]\n").find(|package| package.starts_with(&entry));
    let sum = sum.and_then(|package| package.split_once("checksum = \"")?.1.split_once('"'));
    let hashes = sum
        .map_or(String::new(), |(sum, _)| format!(", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{sum}\"}}]"));
    let purl = reference(one);
    format!(
        "    {{\"type\": \"library\", \"bom-ref\": \"{purl}\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \
         \"{purl}\", \"licenses\": [{{\"expression\": \"{licence}\"}}]{hashes}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_has_each_crate_of_others_once() {
        let of =
            |name: &str, licence: &str| Crate { name: name.into(), version: "1.0.7".into(), licence: licence.into() };
        assert_eq!(Crate::read("fnv v1.0.7|Apache-2.0 / MIT"), Some(of("fnv", "Apache-2.0 OR MIT")));
        assert_eq!(Crate::read("csv v1.0.7|Unlicense/MIT"), Some(of("csv", "Unlicense OR MIT")));
        assert_eq!(Crate::read("chappe v0.1.0 (crates/chappe)|MIT OR Apache-2.0"), None);
        let lock = "[[package]]\nname = \"fnv\"\nversion = \"1.0.7\"\nsource = \"x\"\nchecksum = \"3f9e\"\n";
        let shown = component(&of("fnv", "MIT"), lock);
        assert!(shown.contains("pkg:cargo/fnv@1.0.7") && shown.contains("\"content\": \"3f9e\""), "{shown}");
        assert!(!component(&of("other", "MIT"), lock).contains("hashes"));
    }

    #[test]
    fn a_bill_says_which_crate_is_there_for_which() {
        let mut graph = Graph::new();
        let tree = "0chappe v0.1.0 (/x)|MIT\n1own v0.1.0 (/y)|MIT\n2a v1.0.0|MIT\n3b v1.0.0|MIT\n2c v1.0.0|MIT\n3a v1.0.0|MIT (*)\n1b v1.0.0|MIT\n";
        add(&mut graph, tree);
        let entries: Vec<String> = graph.iter().map(|(one, on)| depends(one.as_ref(), on)).collect();
        let entry = |own: &str, on: &[&str]| {
            let on: Vec<String> = on.iter().map(|name| format!("\"pkg:cargo/{name}@1.0.0\"")).collect();
            format!("    {{\"ref\": \"{own}\", \"dependsOn\": [{}]}}", on.join(", "))
        };
        let of = |name: &str, on: &[&str]| entry(&format!("pkg:cargo/{name}@1.0.0"), on);
        assert_eq!(entries, [entry("chappe", &["a", "b", "c"]), of("a", &["b"]), of("b", &[]), of("c", &["a"])]);
    }

    #[test]
    fn each_linked_crate_has_its_licence_in_the_text() {
        let crates = linked(&[LIBRARY]).unwrap();
        let text = licences(&crates).unwrap();
        assert!(crates.iter().any(|one| one.name == "libc"));
        for one in &crates {
            assert!(text.contains(&format!("\n{} {}: ", one.name, one.version)), "{one:?}");
        }
        assert!(text.contains("Permission is hereby granted"), "{text}");
    }
}
