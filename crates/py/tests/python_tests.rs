//! Runs the package's Python tests, in `tests/python`, against the library as it is, where there is a Python 3.9 or later.

use std::path::{Path, PathBuf};
use std::process::Command;

#[allow(dead_code, reason = "the tests of the engine's own crate use all of it")]
#[path = "../../remote/tests/engine/nodes.rs"]
mod nodes;

/// The interpreter, if there is one that is new enough.
fn python() -> Option<String> {
    let name = std::env::var("CHAPPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 9))";
    let status = Command::new(&name).args(["-c", new_enough]).status().ok()?;
    status.success().then_some(name)
}

/// The library, as it is now: a test's own build leaves it out.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "-p", "chappe-py", "--features", "remote", "--target-dir"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = Command::new(cargo).args(build).arg(&target).current_dir(root).status().unwrap();
    assert!(status.success(), "{status}");
    target.join("debug/lib_chappe.so")
}

/// The command, with terminals.
fn command() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "-p", "chappe-cli", "--features", "term", "--target-dir"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = Command::new(cargo).args(build).arg(&target).current_dir(root).status().unwrap();
    assert!(status.success(), "{status}");
    target.join("debug/chappe")
}

/// The package, put together of its source and the library.
fn package(to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/chappe");
    let into = to.join("chappe");
    std::fs::create_dir_all(&into).unwrap();
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_file() && !path.is_symlink() {
            std::fs::copy(&path, into.join(name)).unwrap();
        }
    }
    std::fs::copy(library(), into.join("_chappe.abi3.so")).unwrap();
}

#[test]
#[ignore = "storm: starts hundreds of Python processes; `cargo test -p chappe-py -- --ignored`"]
fn the_package_passes_its_tests() {
    let Some(python) = python() else {
        println!("not tested: the Python package: it needs a Python 3.9 or later");
        return;
    };
    let to = std::env::temp_dir().join(format!("chappe-py-{}", std::process::id()));
    package(&to);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let nodes = nodes::Nodes::own(1, &[]);
    let status = Command::new(python)
        .args(["-X", "dev", "-m", "unittest", "discover", "-t", ".", "-s", "."])
        .current_dir(&tests)
        .env("PYTHONPATH", &to)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("CHAPPE_COMMAND", command())
        .envs(nodes.as_ref().map(|nodes| ("CHAPPE_ENGINE", format!("etcd://{}", nodes.endpoints[0]))))
        .status()
        .unwrap();
    std::fs::remove_dir_all(&to).unwrap();
    assert!(status.success(), "{status}");
}
