//! Packages for Fedora, openSUSE and what descends from them: the same three as Debian's, by rpmbuild, of files that are built already.
//!
//! rpmbuild finds what each needs of the C library, as it does on those systems: so they are for systems with this C library or a later one.
//! Two builds are equal to the byte: every time is that of the commit, and the name of the machine is taken out.

use super::contents::{self, Package};
use super::crates::{self, notices};
use super::files::{all, compress, set_rights, stage, tool};
use crate::run::root;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What rpmbuild would do on its own: strip again, look for sources to debug, put the time and the machine into the packages.
const SETTINGS: &str = "%global debug_package %{nil}
%global _build_id_links none
%global __os_install_post %{nil}
%global _buildhost chappe
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
";

/// Makes all of them.
///
/// # Errors
/// A tool that is not there, or what it says.
pub fn packages(built: &Path, work: &Path, packages: &Path, version: &str, epoch: &str) -> Result<()> {
    let (tree, top) = (work.join("rpm-tree"), work.join("rpm"));
    let whole = stage(built, &tree, "/usr", "lib64")?;
    let shares = contents::shares(&whole)?;
    let mut sections = String::new();
    for (package, files) in &shares {
        sections += &section(package, &whole, files)?;
    }
    set_rights(&whole)?;
    let spec = work.join("chappe.spec");
    fs::write(&spec, format!("{SETTINGS}{}{sections}", opening(&shares, &tree, version)))?;
    let mut build = Command::new("rpmbuild");
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", packages.display().to_string()),
        ("_rpmfilename", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".into()),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    tool(build.arg("-bb").arg(&spec).env("SOURCE_DATE_EPOCH", epoch))
        .context("rpmbuild makes the RPM packages")
        .map(drop)
}

/// What stands before the sections of the packages: the first tags are those of the command, whose source the others share.
fn opening(shares: &[(&Package, Vec<PathBuf>)], tree: &Path, version: &str) -> String {
    let command = shares.iter().find(|(package, _)| package.rpm == "chappe").map_or("", |(package, _)| package.about);
    let (short, long) = parts(command);
    let from = tree.display();
    format!(
        "Name: chappe\nVersion: {version}\nRelease: 1\nLicense: MIT OR Apache-2.0\nSummary: {short}\n\n%description\n{long}\n\n%install\n\
         cp -a {from}/. %{{buildroot}}\nfind %{{buildroot}} -name '*.debug' -delete\n\n"
    )
}

/// The short description, and the long one.
fn parts(about: &str) -> (&str, &str) {
    about.split_once('\n').unwrap_or((about, about))
}

/// Puts a package's licences beside its files, compresses its manual pages, and says what belongs to it.
fn section(package: &Package, whole: &Path, files: &[PathBuf]) -> Result<String> {
    let name = package.rpm;
    let licences = whole.join("share/licenses").join(name);
    fs::create_dir_all(&licences)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(file), licences.join(file))?;
    }
    notices(&crates::linked(&[package.linked])?, &licences)?;

    let mut text = String::new();
    if name != "chappe" {
        let (short, long) = parts(package.about);
        write!(text, "%package -n {name}\nSummary: {short}\n")?;
        for other in package.depends {
            writeln!(text, "Requires: {}", other.replace("(=)", "= %{version}-%{release}"))?;
        }
        write!(text, "\n%description -n {name}\n{long}\n\n")?;
    }
    if name == "libchappe0" {
        text += "%post -n libchappe0 -p /sbin/ldconfig\n%postun -n libchappe0 -p /sbin/ldconfig\n\n";
    }
    writeln!(text, "%files -n {name}")?;
    let mut own = Vec::new();
    for file in files {
        let is_page = file.components().any(|part| part.as_os_str() == "man");
        if is_page {
            compress(file)?;
        }
        let path = file.strip_prefix(whole)?.display().to_string();
        own.extend(
            file.ancestors().find(|directory| directory.ends_with("chappe") && directory.is_dir()).map(Path::to_owned),
        );
        writeln!(text, "/usr/{path}{}", if is_page { ".gz" } else { "" })?;
    }
    own.push(licences.clone());
    own.sort();
    own.dedup();
    for directory in own {
        writeln!(text, "%dir /usr/{}", directory.strip_prefix(whole)?.display())?;
    }
    for file in all(&licences)? {
        writeln!(text, "%license /usr/{}", file.strip_prefix(whole)?.display())?;
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_names_its_files_and_those_of_its_licences() {
        let whole = std::env::temp_dir().join(format!("chappe-rpm-{}", std::process::id()));
        let header = whole.join("include/chappe/nix.h");
        fs::create_dir_all(header.parent().unwrap()).unwrap();
        fs::write(&header, "").unwrap();
        let package = contents::PACKAGES.iter().find(|package| package.rpm == "libchappe-devel").unwrap();
        let text = section(package, &whole, &[header]).unwrap();
        fs::remove_dir_all(&whole).unwrap();
        for line in [
            "%package -n libchappe-devel",
            "Requires: libchappe0 = %{version}-%{release}",
            "/usr/include/chappe/nix.h",
            "%dir /usr/include/chappe",
            "%license /usr/share/licenses/libchappe-devel/LICENSE-MIT",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
    }
}
