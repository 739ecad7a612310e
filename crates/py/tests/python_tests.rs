//! Runs the package's Python tests, in `tests/python`, against the library that was just built, where there is a Python 3.9 or later.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter, if there is one that is new enough.
fn python() -> Option<String> {
    let name = std::env::var("CHAPPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 9))";
    let status = Command::new(&name).args(["-c", new_enough]).status().ok()?;
    status.success().then_some(name)
}

/// The package, put together of its source and the library that was built with this test.
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
    let test = std::env::current_exe().unwrap();
    let built: PathBuf = test.ancestors().map(|dir| dir.join("lib_chappe.so")).find(|path| path.exists()).unwrap();
    std::fs::copy(built, into.join("_chappe.abi3.so")).unwrap();
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
    let status = Command::new(python)
        .args(["-X", "dev", "-m", "unittest", "discover", "-t", ".", "-s", "."])
        .current_dir(&tests)
        .env("PYTHONPATH", &to)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .unwrap();
    std::fs::remove_dir_all(&to).unwrap();
    assert!(status.success(), "{status}");
}
