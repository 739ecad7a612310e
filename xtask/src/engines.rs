//! `cargo xtask engines`: etcd and etcdctl, which the storms of `crates/remote` start, built by Go in the versions that
//! `crates/remote/engines/go.mod` names. Go fetches their sources, and keeps what it has built.

use crate::run::{root, target};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs, and what Go calls them.
const PROGRAMS: [(&str, &str); 2] = [("etcd", "go.etcd.io/etcd/server/v3"), ("etcdctl", "go.etcd.io/etcd/etcdctl/v3")];

/// Builds them, where they are not there yet; answers the directory.
///
/// # Errors
/// There is no Go, or what it says.
pub fn build() -> Result<PathBuf> {
    let to = target().join("engines");
    std::fs::create_dir_all(&to)?;
    for (name, package) in PROGRAMS {
        go(&to.join(name), package, "crates/remote/engines")?;
    }
    Ok(to)
}

/// Builds the peers of `bench remote` beside them: a client of etcd in Go, and NATS.
///
/// # Errors
/// As [`build`].
pub fn peers(to: &Path) -> Result<()> {
    go(&to.join("peers"), ".", "crates/bench/engines")
}

fn go(to: &Path, package: &str, module: &str) -> Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(to).arg(package).current_dir(root().join(module));
    let out = go.output().context("engines are built by Go, and `go` cannot be started")?;
    ensure!(out.status.success(), "Go cannot build {package}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}

/// Builds them, where that can be; else a line says what is not tested, and why.
pub fn said() -> String {
    build().err().map_or_else(String::new, |e| format!("not tested: what needs an engine: {e:#}"))
}

#[cfg(test)]
mod tests {
    use crate::run::Cargo;
    use std::collections::BTreeSet;

    /// The crates of others that a build needs; `None`: their sources are not on this machine.
    fn crates(features: &str) -> Option<BTreeSet<String>> {
        let tree = Cargo::new("tree").args(["--workspace", "--features", features, "-e", "normal,build"]);
        let (well, out, _) = tree.args(["--prefix", "none", "--locked", "--offline"]).both().unwrap();
        let name = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        well.then(|| out.lines().map(name).collect())
    }

    #[test]
    fn an_engines_client_is_in_no_build_but_its_own_and_brings_few_crates() {
        let is_client = |name: &String| ["tonic ", "prost ", "rustls ", "h2 "].iter().any(|of| name.starts_with(of));
        let all = crates("chappe-cli/full").expect("the gate builds all of it");
        assert!(all.len() > 50 && !all.iter().any(is_client), "{all:?}");
        let Some(with) = crates("chappe-cli/full,chappe-cli/remote") else {
            println!("not tested: how many crates an engine's client brings: cargo has not fetched them");
            return;
        };
        let more: Vec<&String> = with.difference(&all).collect();
        assert!(with.iter().any(is_client) && more.len() <= 75, "{} more: {more:?}", more.len());
    }
}
