//! A copy of the crates and their documentation, in which mutants are planted.

use crate::run::root;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies all crates, as a workspace of their own; files that have not changed keep their time,
/// so that only what a mutant touches is built again.
pub fn copy_house(tree: &Path) -> Result<()> {
    copy_house_with(tree, &BTreeMap::new())
}

/// The same, with other texts in place of some files.
pub fn copy_house_with(tree: &Path, texts: &BTreeMap<PathBuf, String>) -> Result<()> {
    // Tests compare what a crate makes with what the documentation shows.
    for part in ["crates", "docs", "Cargo.lock", "rust-toolchain.toml"] {
        copy(&root().join(part), &tree.join(part), Path::new(part), texts)?;
    }
    let manifest: String = fs::read_to_string(root().join("Cargo.toml"))?
        .lines()
        .filter(|l| !l.starts_with("default-members"))
        .map(|l| if l.starts_with("members") { "members = [\"crates/*\"]\n".to_owned() } else { format!("{l}\n") })
        .collect();
    write_if_new(&tree.join("Cargo.toml"), manifest.as_bytes())
}

/// `name` is the path within the tree.
fn copy(from: &Path, to: &PathBuf, name: &Path, texts: &BTreeMap<PathBuf, String>) -> Result<()> {
    if !from.is_dir() {
        if let Some(text) = texts.get(name) {
            return write_if_new(to, text.as_bytes());
        }
        return write_if_new(to, &fs::read(from).with_context(|| from.display().to_string())?);
    }
    fs::create_dir_all(to)?;
    for old in fs::read_dir(to)? {
        let old = old?;
        if !from.join(old.file_name()).exists() && old.path().is_file() {
            fs::remove_file(old.path())?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()), &name.join(entry.file_name()), texts)?;
    }
    Ok(())
}

fn write_if_new(to: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(to, bytes).with_context(|| to.display().to_string())
}
