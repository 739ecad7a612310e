//! `cargo xtask wheel`, `cargo xtask bench python` and `cargo xtask bench term`: the Python package, built and measured; terminals, measured from Python.

use crate::install;
use crate::run::{Cargo, DIST, DIST_ALL, root, target};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// The interpreter: that of `CHAPPE_PYTHON`, or `python3`.
fn python() -> String {
    std::env::var("CHAPPE_PYTHON").unwrap_or_else(|_| "python3".into())
}

/// Builds the wheel, with the command that is installed, into `target/wheels`. What pip needs for it (maturin) it fetches itself.
///
/// # Errors
/// What pip says.
pub fn wheel(rest: &[&str]) -> Result<()> {
    let to = target().join("wheels");
    std::fs::create_dir_all(&to)?;
    install::building("dist").run()?;
    let mut pip = Command::new(python());
    let all = format!("build-args={}", DIST_ALL.join(" "));
    pip.args(["-m", "pip", "wheel", "--no-deps", "-C", &all, "--wheel-dir"]).arg(&to);
    pip.args(rest).arg(root().join("crates/py"));
    let status = pip
        .env("CHAPPE_WHEEL_COMMAND", target().join("dist/chappe"))
        .env("CARGO_TARGET_DIR", target())
        .status()
        .context("cannot start Python")?;
    ensure!(status.success(), "pip could not build the wheel");
    println!("the wheel is in {}", to.display());
    Ok(())
}

/// Runs the measurements over the package, built as the wheel is and put together beside its library.
///
/// # Errors
/// What the build or the measurement says.
pub fn bench(rest: &[&str]) -> Result<()> {
    Cargo::new("build").args(DIST_ALL).args(["-p", "chappe-py"]).run()?;
    let to: PathBuf = target().join("python-bench");
    let package = to.join("chappe");
    std::fs::create_dir_all(&package)?;
    for entry in std::fs::read_dir(root().join("crates/py/python/chappe"))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file() && !path.is_symlink()) {
            std::fs::copy(&path, package.join(name))?;
        }
    }
    std::fs::copy(target().join("dist/lib_chappe.so"), package.join("_chappe.abi3.so"))?;
    let (program, rest) = match rest {
        ["--kills", rest @ ..] => ("kills.py", rest),
        _ => ("beside.py", rest),
    };
    let mut bench = Command::new(python());
    bench.arg(root().join("crates/py/bench").join(program)).args(rest).env("PYTHONPATH", &to);
    let status = bench.status().context("cannot start Python")?;
    ensure!(status.success(), "the measurement ended with {status}");
    Ok(())
}

/// Runs the measurements of terminals beside their peers.
///
/// # Errors
/// What the build or the measurement says.
pub fn bench_terminals(rest: &[&str]) -> Result<()> {
    Cargo::new("build").args(DIST).args(["-p", "chappe-cli", "--features", "term"]).run()?;
    Cargo::new("build").args(DIST).args(["-p", "chappe-term", "--example", "rates", "--example", "looks"]).run()?;
    let built = target().join("dist");
    let mut bench = Command::new(python());
    bench.arg(root().join("crates/cli/bench/term.py")).arg(built.join("chappe"));
    bench.args(["rates", "looks"].map(|example| built.join("examples").join(example)));
    let status = bench.args(rest).status().context("cannot start Python")?;
    ensure!(status.success(), "the measurement ended with {status}");
    Ok(())
}
