//! What is published: what the crates ask of the crates of others, licences and versions, and the guide as a site.

use crate::run::{Cargo, root, target};
use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::process::Command;

/// Whether the licences and versions of what is linked in are those that deny.toml allows. Needs cargo-deny.
///
/// # Errors
/// What it finds.
pub fn licences() -> Result<String> {
    if !Cargo::new("deny").args(["--version"]).both()?.0 {
        return Ok("not tested: licences: cargo-deny is not installed".to_owned());
    }
    let (well, said) = Cargo::new("deny").args(["--offline", "check", "bans", "licenses", "sources"]).quiet()?;
    ensure!(well, "{said}");
    Ok(String::new())
}

/// Whether the guide can be made into a site, in `target/guide`, and nothing in it is doubtful. Its links are the lint's business.
///
/// # Errors
/// What mdBook finds.
pub fn guide() -> Result<String> {
    let (book, site) = (root().join("book"), target().join("guide"));
    let made = match Command::new("mdbook").arg("build").arg(book).arg("--dest-dir").arg(&site).output() {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Ok("not tested: the guide as a site: mdBook is not installed (cargo install mdbook)".to_owned());
        }
        made => made.context("cannot run mdbook")?,
    };
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success() && !said.contains("WARN") && !said.contains("ERROR"), "{said}");
    Ok(format!("in {}", site.display()))
}

#[cfg(test)]
mod tests {
    use crate::run::root;
    use std::fs;

    /// The name and the version of a dependency, where the line names one.
    fn asked(line: &str) -> Option<(&str, &str)> {
        let (name, what) = line.split_once(" = ")?;
        let version = what.strip_prefix("{ version = ").unwrap_or(what).strip_prefix('"')?;
        (!what.contains("path = ")).then_some((name, version.split('"').next()?))
    }

    /// An older version is one that nobody has tried: with `serde_json = "1"` the crates did not build with the oldest that this allows.
    #[test]
    fn no_older_version_of_a_dependency_is_promised_than_is_tested() {
        let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
        let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("Cargo.toml"));
        let mut asks = 0;
        for manifest in crates.chain([root().join("Cargo.toml")]) {
            let text = fs::read_to_string(&manifest).unwrap();
            if text.contains("\npublish.workspace = true") {
                continue;
            }
            let parts = text.split("\n[").filter(|part| {
                part.starts_with("dependencies]")
                    || part.starts_with("build-dependencies]")
                    || part.starts_with("workspace.dependencies]")
            });
            for (name, version) in parts.flat_map(str::lines).filter_map(asked) {
                asks += 1;
                let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
                let at = manifest.display();
                assert!(lock.contains(&entry), "{at}: {name} = \"{version}\": Cargo.lock has another, which is tested");
            }
        }
        assert!(asks > 30, "{asks}");
        assert_eq!(asked("clap = { version = \"4.6\", features = [\"derive\"] }"), Some(("clap", "4.6")));
        assert_eq!(asked("chappe = { version = \"0.1.0\", path = \"x\" }").or(asked("libc.workspace = true")), None);
    }

    /// A registry takes no crate that depends on one without a version, or on one that it does not have.
    #[test]
    fn a_published_crate_depends_on_published_crates_alone() {
        let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let (mut published, mut all) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(root().join("crates")).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap();
            let name = text.split("name = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
            if !text.contains("\npublish.workspace = true") {
                published.push(name.clone());
                all.push((name, text));
            }
        }
        let mut own = 0;
        for (of, text) in &all {
            let linked = text
                .split("\n[")
                .filter(|part| part.starts_with("dependencies]") || part.starts_with("build-dependencies]"));
            let names = linked.flat_map(str::lines).filter_map(|line| line.split(['.', ' ']).next());
            for name in names.filter(|name| *name == "chappe" || name.starts_with("chappe-")) {
                own += 1;
                assert!(published.iter().any(|other| other == name), "{of} is published, {name} is not");
                let line = workspace.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
                assert!(line.contains("version = "), "{of} is published, and asks for no version: {line}");
            }
        }
        assert!(own > 30, "{own}");
    }

    #[test]
    fn the_oldest_toolchain_that_is_promised_is_the_one_that_tests() {
        let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
        let (manifest, toolchain) = (read("Cargo.toml"), read("rust-toolchain.toml"));
        let of = |text: &'_ str, begin: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(begin)).unwrap();
            line.trim_matches('"').to_owned()
        };
        assert_eq!(of(&toolchain, "channel = "), of(&manifest, "rust-version = ") + ".0");
    }
}
