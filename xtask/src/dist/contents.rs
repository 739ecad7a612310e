//! What each package has, whatever its format: the command, the library, and what is needed to build against it.

use super::crates;
use super::files::{all, is_debug};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// One package.
pub struct Package {
    /// Debian's name.
    pub name: &'static str,
    /// RPM's.
    pub rpm: &'static str,
    pub section: &'static str,
    /// Beside what its programs and libraries link with; `=` stands for this very version.
    pub depends: &'static [&'static str],
    pub about: &'static str,
    /// What is linked into it, as cargo names it.
    pub linked: &'static [&'static str],
    /// Whether a file below /usr belongs to it, by its path there.
    pub has: fn(&str) -> bool,
}

pub const PACKAGES: [Package; 3] = [
    Package {
        name: "libchappe-dev",
        rpm: "libchappe-devel",
        section: "libdevel",
        depends: &["libchappe0 (=)"],
        about: "development files of libchappe\n\
                Headers, the static library and the manual pages of libchappe: pools of\n\
                permits, semaphores, locks and channels for threads and processes.",
        linked: crates::LIBRARY,
        has: |path| {
            let library = ["lib/", "lib64/"].iter().any(|lib| path.starts_with(lib))
                && (path.ends_with(".so") || path.ends_with(".a"));
            let described = path.contains("/pkgconfig/") || path.starts_with("share/man/man3/");
            path.starts_with("include/") || described || library && !path.starts_with("lib/chappe/")
        },
    },
    Package {
        name: "libchappe0",
        rpm: "libchappe0",
        section: "libs",
        depends: &[],
        about: "semaphores, pools, locks and channels that survive kill -9\n\
                A library for the threads and processes of one machine: pools of permits,\n\
                semaphores, mutexes, channels and a choice among them. When a process is\n\
                killed at any instruction, nothing is lost.",
        linked: crates::LIBRARY,
        has: |path| path.contains("/libchappe.so."),
    },
    Package {
        name: "chappe",
        rpm: "chappe",
        section: "utils",
        depends: &[],
        about: "pools of permits, semaphores, channels and a job server for the shell\n\
                Runs commands under permits of pools that all processes of a machine share:\n\
                GPUs, licences, slots of a build. Waiters are served in the order of arrival.\n\
                When a process is killed at any instruction, nothing is lost.",
        linked: crates::COMMAND,
        has: |_| true,
    },
];

/// The files and links below a directory (that of the prefix) that each package has; each belongs to one.
///
/// # Errors
/// A package without a file.
pub fn shares(whole: &Path) -> Result<Vec<(&'static Package, Vec<PathBuf>)>> {
    let files = all(whole)?.into_iter().filter(|path| path.is_symlink() || !path.is_dir() && !is_debug(path));
    let mut left: Vec<PathBuf> = files.collect();
    let mut shares = Vec::new();
    for package in &PACKAGES {
        let own = |path: &PathBuf| path.strip_prefix(whole).is_ok_and(|p| (package.has)(&p.display().to_string()));
        let (own, rest): (Vec<PathBuf>, Vec<PathBuf>) = left.into_iter().partition(own);
        ensure!(!own.is_empty(), "nothing is installed that belongs to {}", package.name);
        left = rest;
        shares.push((package, own));
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_goes_to_the_package_that_needs_it() {
        let of = |path: &str| PACKAGES.iter().find(|package| (package.has)(path)).map(|package| package.name);
        let dev = ["lib/x/libchappe.so", "lib/x/libchappe.a", "lib/x/pkgconfig/chappe.pc", "include/chappe.h"];
        assert!(dev.iter().chain(&["share/man/man3/chappe.3"]).all(|path| of(path) == Some("libchappe-dev")));
        let library = ["lib/x/libchappe.so.0", "lib/x/libchappe.so.0.1.0"];
        assert!(library.iter().all(|path| of(path) == Some("libchappe0")));
        let command =
            ["bin/chappe", "lib/chappe/libchappe_preload.so", "lib/chappe/libchappe_io.so", "share/man/man1/chappe.1"];
        assert!(command.iter().all(|path| of(path) == Some("chappe")));
    }
}
