//! What a build may leave out: features of this crate, in one table. A command whose part is not there says how to get it.

use anyhow::{Result, ensure};

/// Feature, what it is for, whether this build has it, and with which feature it is built.
const PARTS: [(&str, &str, bool, &str); 6] = [
    ("backtrace", "backtraces", cfg!(feature = "backtrace"), FULL),
    ("graph", "graphs", cfg!(feature = "graph"), FULL),
    ("jit", "machine code for queries", cfg!(feature = "jit"), FULL),
    // Not in the other: HTTP, TLS and a runtime, which no job on one machine needs.
    ("remote", "names on other machines", cfg!(feature = "remote"), "remote"),
    ("term", "terminals", cfg!(feature = "term"), FULL),
    ("top", "the screen of `chappe top`", cfg!(feature = "top"), FULL),
];
const FULL: &str = "full";

/// Checks that the part is there.
///
/// # Errors
/// That it is not, and which command builds it.
pub fn need(feature: &str) -> Result<()> {
    let (_, what, is_there, with) = PARTS.iter().find(|(name, ..)| *name == feature).expect("a feature of the table");
    ensure!(
        is_there,
        "this chappe was built without {what} (feature `{feature}`): `cargo install --path crates/cli --features {with}` builds them in"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_has_each_part_of_the_table() {
        let manifest = include_str!("../Cargo.toml");
        let full = manifest.lines().find_map(|line| line.strip_prefix("full = ")).unwrap();
        let named: Vec<String> =
            PARTS.iter().filter(|(.., with)| *with == FULL).map(|(feature, ..)| format!("{feature:?}")).collect();
        assert_eq!(full, format!("[{}]", named.join(", ")));
        for (feature, what, here, _) in PARTS {
            let said = need(feature).err().map(|e| e.to_string());
            assert_eq!(here, said.is_none());
            assert!(said.is_none_or(|said| said.contains(what) && said.contains(&format!("`{feature}`"))));
        }
    }
}
