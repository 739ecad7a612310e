//! Packages for Debian and what descends from it: the command, the library, and what is needed to build against it.
//!
//! What each depends on is found as Debian finds it, by dpkg-shlibdeps: so they are for the system on which they are built, and later ones.
//! The maintainer is that of `DEBFULLNAME` and `DEBEMAIL`, or the author of the commit.

use super::contents::{self, Package};
use super::crates::{self, notices};
use super::files::{all, compress, set_rights, stage, tool};
use crate::run::root;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    for (package, files) in contents::shares(&whole)? {
        build.package(package, &whole, &files)?;
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
                compress(&to)?;
            }
        }
        let documents = tree.join("usr/share/doc").join(package.name);
        fs::create_dir_all(&documents)?;
        fs::write(documents.join("copyright"), copyright()?)?;
        notices(&crates::linked(&[package.linked])?, &documents)?;
        compress(&documents.join("third-party.txt"))?;
        let changes = documents.join("changelog.Debian");
        fs::write(&changes, self.changes()?)?;
        compress(&changes)?;

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
        if package.name == "chappe" {
            // What its packed addresses need, which dpkg-shlibdeps does not see.
            depends.push("libc6 (>= 2.36)".to_owned());
        }
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
