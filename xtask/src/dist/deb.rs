//! Packages for Debian and what descends from it: the command, the library, and what is needed to build against it.
//!
//! What each depends on is found as Debian finds it, by dpkg-shlibdeps: so they are for the system on which they are built, and later ones.
//! The maintainer is that of `DEBFULLNAME` and `DEBEMAIL`, or the author of the commit.

use super::{all, crates, is_debug, notices, set_rights, stage, tool};
use crate::run::root;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One package.
struct Package {
    name: &'static str,
    section: &'static str,
    /// Beside what its programs and libraries link with; `=` stands for this very version.
    depends: &'static [&'static str],
    about: &'static str,
    /// What is linked into it, as cargo names it.
    linked: &'static [&'static str],
    /// Whether a file below /usr belongs to it, by its path there.
    has: fn(&str) -> bool,
}

const PACKAGES: [Package; 3] = [
    Package {
        name: "libchappe-dev",
        section: "libdevel",
        depends: &["libchappe0 (=)"],
        about: "development files of libchappe\n\
                Headers, the static library and the manual pages of libchappe: pools of\n\
                permits, semaphores, locks and channels for threads and processes.",
        linked: crates::LIBRARY,
        has: |path| {
            let library = path.starts_with("lib/") && (path.ends_with(".so") || path.ends_with(".a"));
            let described = path.contains("/pkgconfig/") || path.starts_with("share/man/man3/");
            path.starts_with("include/") || described || library && !path.starts_with("lib/chappe/")
        },
    },
    Package {
        name: "libchappe0",
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

/// Debian's name of the processor, and that of its directory of libraries.
fn architecture() -> Result<(String, String)> {
    let ask = |what: &str| {
        tool(Command::new("dpkg-architecture").args(["-q", what])).context("dpkg-dev makes Debian packages")
    };
    Ok((ask("DEB_HOST_ARCH")?, ask("DEB_HOST_MULTIARCH")?))
}

fn maintainer() -> Result<String> {
    match (std::env::var("DEBFULLNAME"), std::env::var("DEBEMAIL")) {
        (Ok(name), Ok(email)) => Ok(format!("{name} <{email}>")),
        _ => tool(Command::new("git").args(["log", "-1", "--format=%an <%ae>"]).current_dir(root()))
            .context("DEBFULLNAME and DEBEMAIL name the maintainer of the packages"),
    }
}

/// What is the same for all of them.
struct Build<'a> {
    work: &'a Path,
    packages: &'a Path,
    version: String,
    architecture: String,
    maintainer: String,
    epoch: &'a str,
}

/// Makes all of them.
///
/// # Errors
/// A tool that is not there, or what it says.
pub fn packages(built: &Path, work: &Path, packages: &Path, version: &str, epoch: &str) -> Result<()> {
    let (architecture, directory) = architecture()?;
    let whole = stage(built, &work.join("whole"), "/usr", &format!("lib/{directory}"))?;
    // Where Debian's zsh looks.
    fs::rename(whole.join("share/zsh/site-functions"), whole.join("share/zsh/vendor-completions"))?;
    let build =
        Build { work, packages, version: format!("{version}-1"), architecture, maintainer: maintainer()?, epoch };
    let files = all(&whole)?.into_iter().filter(|path| path.is_symlink() || !path.is_dir() && !is_debug(path));
    let mut left: Vec<PathBuf> = files.collect();
    for package in &PACKAGES {
        let own = |path: &PathBuf| path.strip_prefix(&whole).is_ok_and(|p| (package.has)(&p.display().to_string()));
        let (own, rest): (Vec<PathBuf>, Vec<PathBuf>) = left.into_iter().partition(own);
        ensure!(!own.is_empty(), "nothing is installed that belongs to {}", package.name);
        left = rest;
        build.package(package, &whole, &own)?;
    }
    Ok(())
}

impl Build<'_> {
    fn package(&self, package: &Package, whole: &Path, files: &[PathBuf]) -> Result<()> {
        let tree = self.work.join(package.name);
        for file in files {
            let to = tree.join("usr").join(file.strip_prefix(whole)?);
            fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
            fs::rename(file, &to)?;
            if to.components().any(|part| part.as_os_str() == "man") {
                self.compress(&to)?;
            }
        }
        let documents = tree.join("usr/share/doc").join(package.name);
        fs::create_dir_all(&documents)?;
        fs::write(documents.join("copyright"), copyright()?)?;
        notices(&crates::linked(package.linked)?, &documents)?;
        self.compress(&documents.join("third-party.txt"))?;
        let changes = documents.join("changelog.Debian");
        fs::write(&changes, self.changes()?)?;
        self.compress(&changes)?;

        let overrides = tree.join("usr/share/lintian/overrides");
        fs::create_dir_all(&overrides)?;
        let text = format!(
            "# Not for Debian's archive, where a bug asks for it.\n{}: initial-upload-closes-no-bugs\n",
            package.name
        );
        fs::write(overrides.join(package.name), text)?;

        let depends = self.depends(package, &tree)?;
        let control = tree.join("DEBIAN");
        fs::create_dir_all(&control)?;
        let bytes: u64 = all(&tree.join("usr"))?.iter().filter_map(|p| Some(p.symlink_metadata().ok()?.len())).sum();
        fs::write(control.join("control"), self.control(package, &depends, bytes))?;
        if package.name == "libchappe0" {
            fs::write(control.join("shlibs"), format!("libchappe 0 libchappe0 (>= {})\n", self.version))?;
            fs::write(control.join("triggers"), "activate-noawait ldconfig\n")?;
        }
        set_rights(&tree)?;
        let sums = all(&tree.join("usr"))?.into_iter().filter(|path| path.is_file() && !path.is_symlink());
        let names: Vec<PathBuf> = sums.map(|path| Ok(path.strip_prefix(&tree)?.to_owned())).collect::<Result<_>>()?;
        let sums = tool(Command::new("md5sum").args(names).current_dir(&tree))?;
        fs::write(control.join("md5sums"), format!("{sums}\n"))?;

        let name = format!("{}_{}_{}.deb", package.name, self.version, self.architecture);
        let mut deb = Command::new("dpkg-deb");
        deb.args(["--root-owner-group", "--build"]).arg(&tree).arg(self.packages.join(name));
        // How many threads compress is seen in what comes out.
        tool(deb.env("SOURCE_DATE_EPOCH", self.epoch).env("DPKG_DEB_THREADS_MAX", "1")).map(drop)
    }

    /// Puts a compressed file in the place of one.
    fn compress(&self, file: &Path) -> Result<()> {
        tool(Command::new("gzip").args(["-9", "-n", "-f"]).arg(file)).map(drop)
    }

    /// What the package's programs and libraries link with, and what stands in the table.
    fn depends(&self, package: &Package, tree: &Path) -> Result<Vec<String>> {
        let linked = all(tree)?.into_iter().filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            !path.is_symlink() && path.is_file() && (path.ends_with("bin/chappe") || name.contains(".so"))
        });
        let linked: Vec<PathBuf> = linked.collect();
        let mut depends: Vec<String> =
            package.depends.iter().map(|d| d.replace("(=)", &format!("(= {})", self.version))).collect();
        if linked.is_empty() {
            return Ok(depends);
        }
        // It wants to be called in a package's source.
        let source = self.work.join("source");
        fs::create_dir_all(source.join("debian"))?;
        fs::write(source.join("debian/control"), "Source: chappe\n\nPackage: chappe\nArchitecture: any\n")?;
        let mut ask = Command::new("dpkg-shlibdeps");
        ask.arg("-O").args(linked.iter().map(|path| format!("-e{}", path.display()))).current_dir(&source);
        let said = tool(&mut ask)?;
        let found = said.strip_prefix("shlibs:Depends=").context("dpkg-shlibdeps says what is linked")?;
        depends.extend(found.split(", ").map(str::to_owned));
        Ok(depends)
    }

    fn control(&self, package: &Package, depends: &[String], bytes: u64) -> String {
        let Package { name, section, about, .. } = package;
        let (short, long) = about.split_once('\n').unwrap_or((about, ""));
        let same = if name.starts_with("lib") { "Multi-Arch: same\n" } else { "" };
        let long: String = long.lines().map(|line| format!(" {line}\n")).collect();
        format!(
            "Package: {name}\nSource: chappe\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\nDepends: {}\nSection: \
             {section}\nPriority: optional\n{same}Description: {short}\n{long}",
            self.version,
            self.architecture,
            self.maintainer,
            bytes.div_ceil(1024),
            depends.join(", ")
        )
    }

    fn changes(&self) -> Result<String> {
        let date = tool(Command::new("date").args(["-u", "-R", "-d", &format!("@{}", self.epoch)]).env("LC_ALL", "C"))?;
        Ok(format!(
            "chappe ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md in the source.\n\n -- {}  {date}\n",
            self.version, self.maintainer
        ))
    }
}

/// In the form that Debian's machines read.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let holder =
        mit.lines().find_map(|line| line.strip_prefix("Copyright ")).context("LICENSE-MIT names the holder")?;
    let text = |text: &str| -> String {
        text.lines().map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
    };
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: chappe\nComment:\n What is linked in, \
         and under which licences, is in third-party.txt.gz and\n rust-library.html beside this file.\n\nFiles: *\nCopyright: \
         {holder}\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\nLicense: Apache-2.0\n On Debian systems, the text of the Apache \
         License 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n",
        text(mit.split_once("\n\n").map_or("", |(_, rest)| rest.split_once("\n\n").map_or(rest, |(_, rest)| rest)))
    ))
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
        let command = ["bin/chappe", "lib/chappe/libchappe_preload.so", "share/man/man1/chappe.1"];
        assert!(command.iter().all(|path| of(path) == Some("chappe")));
    }
}
