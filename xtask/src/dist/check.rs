//! `cargo xtask dist --check`: what lies in target/packages, installed as people do, in the root of a bare Debian without a compiler.
//!
//! Each package is installed, does the README's main job, is upgraded while a job runs under a permit, and removed; then no file of it is
//! left. (An RPM package is upgraded to itself, and no job runs then.) The static command does its job in a root with nothing else in it.
//! Needs root's rights, debootstrap, lintian and rpm. A kind of package that was not made is left out, and that is said.

use super::files::{all, fresh, tool};
use crate::install;
use crate::run::{root, target};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The README's main job.
const JOB: &str = r#"
mkdir -p /tmp/job
printf '#!/bin/sh\necho "train $*"\n' > /tmp/job/train
chmod +x /tmp/job/train
PATH=$PATH:/tmp/job
chappe acquire --create gpu0 gpu1 -- sh -c 'train --device $CHAPPE_INDEX' | grep -qx 'train --device [01]'
chappe show gpu0 | grep -q '1 free'
"#;

/// A job that runs on under its permit while another is made to wait for `upgrade`.
const UPGRADE: &str = r#"
chappe acquire --create held -- sh -c 'until [ -e /tmp/go ]; do sleep 0.1; done; echo went on > /tmp/went' &
until chappe acquire --nonblock held -- true; [ $? = 124 ]; do sleep 0.1; done
UPGRADE
if chappe acquire --nonblock held -- true; then echo 'the job under the old command lost its permit'; exit 1; fi
touch /tmp/go
wait $!
chappe acquire --timeout 1m held -- cat /tmp/went | grep -qx 'went on'
"#;

/// A directory that is the root of a system.
struct Root(PathBuf);

impl Root {
    /// A bare Debian with Python; fetched once.
    fn debian(name: &str) -> Result<Root> {
        let base = target().join("dist-base");
        if !base.join("usr/bin/python3").exists() {
            let what = ["--variant=minbase", "--include=python3-venv", "bookworm"];
            let mut fetch = Command::new("debootstrap");
            // Whose directory is not there, inside.
            fetch.args(what).arg(&base).env_remove("TMPDIR");
            tool(&mut fetch).context("debootstrap makes the root, as root")?;
        }
        let at = target().join("dist-root").join(name);
        fresh(at.parent().context("a root lies in a directory")?)?;
        tool(Command::new("cp").arg("-a").arg(&base).arg(&at))?;
        Ok(Root(at))
    }

    /// One with nothing in it but where the system's own files go.
    fn empty(name: &str) -> Result<Root> {
        let at = target().join("dist-root").join(name);
        fresh(&at)?;
        for directory in ["dev/shm", "proc", "tmp"] {
            fs::create_dir_all(at.join(directory))?;
        }
        fs::write(at.join("dev/null"), "")?;
        Ok(Root(at))
    }

    /// A command in it, with processes and shared memory of its own; what it wrote to stdout.
    fn start(&self, words: &[&str]) -> Result<String> {
        let inside = "mount -t proc proc \"$0/proc\"; mount -t tmpfs shm \"$0/dev/shm\"; exec chroot \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-ec", inside]).arg(&self.0).args(words);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C");
        tool(&mut command)
    }

    fn run(&self, script: &str) -> Result<String> {
        self.start(&["/bin/sh", "-ec", script])
    }

    /// The files and links that are there, but for what a system writes anew by itself. (Directories may be another package's as well.)
    fn files(&self) -> Result<Vec<PathBuf>> {
        let own = ["dev", "proc", "tmp", "var", "run", "root", "etc/ld.so.cache"];
        let inside = |path: PathBuf| path.strip_prefix(&self.0).map(Path::to_owned).ok();
        let found = all(&self.0)?.into_iter().filter(|path| path.is_symlink() || !path.is_dir()).filter_map(inside);
        Ok(found.filter(|path| own.iter().all(|own| !path.starts_with(own))).collect())
    }

    /// Copies files to where its programs find them: /tmp.
    fn give(&self, files: &[PathBuf]) -> Result<()> {
        for file in files {
            fs::copy(file, self.0.join("tmp").join(file.file_name().context("a package has a name")?))?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        fs::remove_dir_all(&self.0).with_context(|| format!("cannot remove {}", self.0.display()))
    }
}

/// What was made whose name begins and ends so.
fn made(begins: &str, ends: &str) -> Result<Vec<PathBuf>> {
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begins) && name.ends_with(ends)
    };
    Ok(all(&target().join("packages"))?.into_iter().filter(named).collect())
}

/// Installs, uses, upgrades and removes, by scripts in a root.
fn installed(root: &Root, install: &str, more: &str, upgrade: &str, remove: &str) -> Result<()> {
    let before = root.files()?;
    root.run(install).context("installing")?;
    root.run(&format!("{JOB}{more}")).context("the README's job")?;
    root.run(&UPGRADE.replace("UPGRADE", upgrade)).context("the upgrade beside a job")?;
    root.run(remove).context("removing")?;
    let left: Vec<PathBuf> = root.files()?.into_iter().filter(|path| !before.contains(path)).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

/// Each kind of package, and whether there was one.
type Check = fn() -> Result<bool>;
const CHECKS: [(&str, Check); 5] = [
    ("Debian's packages", debian),
    ("RPM packages", rpm),
    ("the archive", archive),
    ("the static command", alone),
    ("the wheel", wheel),
];

/// Checks all.
///
/// # Errors
/// The first that is not as it should be.
pub fn command() -> Result<()> {
    for (what, check) in CHECKS {
        let there = check().with_context(|| format!("checking {what}"))?;
        println!("{}: {what}", if there { "checked" } else { "not made" });
    }
    Ok(())
}

/// `chappe run`, and the library where programs look for it.
const RUN: &str = "chappe run -- sh -c 'echo runs' | grep -qx runs\nldconfig -p | grep -q 'libchappe.so.0 '\n";
/// The same where a Debian does not look.
const RUN_64: &str = "chappe run -- sh -c 'echo runs' | grep -qx runs\ntest -e /usr/lib64/libchappe.so.0\n";

fn debian() -> Result<bool> {
    let packages = [made("chappe_", ".deb")?, made("libchappe", ".deb")?].concat();
    if packages.is_empty() {
        return Ok(false);
    }
    let system = Root::debian("deb")?;
    system.give(&packages)?;
    // The same as a later version, as `dpkg` sees it.
    let version = install::version()?;
    let upgrade = format!(
        "for one in chappe libchappe0 libchappe-dev; do dpkg-deb -R /tmp/${{one}}_*.deb /tmp/$one; \
         sed -i 's/{version}-1/{version}-2/' /tmp/$one/DEBIAN/control; dpkg-deb -Znone -b /tmp/$one /tmp/new-$one.deb; done >&2\n\
         dpkg -i /tmp/new-*.deb >&2\ndpkg -s chappe | grep -qx 'Version: {version}-2'\n"
    );
    let install = "dpkg -i /tmp/*.deb >&2";
    installed(&system, install, RUN, &upgrade, "dpkg --purge chappe libchappe-dev libchappe0 >&2")?;
    system.end()?;
    let work = target().join("dist-work/lintian");
    fresh(&work)?;
    let small: Vec<PathBuf> = packages.iter().map(|package| with_one_member(package, &work)).collect::<Result<_>>()?;
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]).args(&small);
    tool(&mut lintian).context("lintian")?;
    fs::remove_dir_all(&work)?;
    Ok(true)
}

/// Makes a package anew whose static library has one member alone, into `$2`, with the sums that fit; `$1` is the package.
const SHORTEN: &str = r#"
name=$(basename "$1")
mkdir "$2/member"
dpkg-deb -R "$1" "$2/tree"
cd "$2/tree"
library=$(find usr -name '*.a')
member=$(ar t "$library" | sed 1q)
(cd ../member && ar x "../tree/$library" "$member")
rm "$library"
ar rcD "$library" "../member/$member"
chmod 644 "$library"
sed -i "s|.*  $library\$|$(md5sum "$library")|" DEBIAN/md5sums
dpkg-deb --root-owner-group -b . "../$name"
rm -r ../member ../tree
"#;

/// What lintian is to see: the package, or, of one with a static library, another whose library has one member alone. (lintian takes a
/// second for each of some 700 members.) What it would look for in the others is looked for here.
fn with_one_member(package: &Path, work: &Path) -> Result<PathBuf> {
    let name = package.file_name().context("a package has a name")?;
    if !name.to_string_lossy().starts_with("libchappe-dev") {
        return Ok(package.to_owned());
    }
    let whole = work.join("whole");
    tool(Command::new("dpkg-deb").arg("-x").arg(package).arg(&whole))?;
    for library in all(&whole)?.iter().filter(|path| path.extension().is_some_and(|end| end == "a")) {
        let sections = tool(Command::new("readelf").args(["--wide", "--sections"]).arg(library))?;
        let member = unstripped(&sections);
        ensure!(member.is_none(), "{}: {} is not stripped", library.display(), member.unwrap_or_default());
    }
    fs::remove_dir_all(&whole)?;
    tool(Command::new("sh").args(["-euc", SHORTEN, "sh"]).arg(package).arg(work)).context("a short static library")?;
    Ok(work.join(name))
}

/// A member of an archive with debugging information or intermediate code, by what `readelf --sections` says of it.
fn unstripped(sections: &str) -> Option<&str> {
    let members = sections.split("\nFile: ");
    let found =
        members.filter(|part| [" .debug_info ", " .zdebug_info ", " .gnu.lto"].iter().any(|one| part.contains(one)));
    found.filter_map(|part| part.lines().next()).next()
}

fn rpm() -> Result<bool> {
    let packages = [made("chappe-", ".rpm")?, made("libchappe", ".rpm")?].concat();
    if packages.is_empty() {
        return Ok(false);
    }
    let system = Root::debian("rpm")?;
    let before = system.files()?;
    // The C library is no package of the table of a Debian.
    let call = |args: &[&str], what: &[PathBuf]| {
        tool(Command::new("rpm").arg("--root").arg(&system.0).args(args).args(what)).map(drop)
    };
    call(&["--initdb"], &[])?;
    call(&["-i", "--nodeps"], &packages).context("installing")?;
    system.run(&format!("{JOB}{RUN_64}"))?;
    // The same once more: it takes the files' places as a later one does.
    call(&["-U", "--nodeps", "--replacepkgs"], &packages).context("the upgrade")?;
    system.run(&format!("{JOB}{RUN_64}"))?;
    let names = ["chappe", "libchappe0", "libchappe-devel"].map(PathBuf::from);
    call(&["-e", "--nodeps"], &names).context("removing")?;
    let left: Vec<PathBuf> = system.files()?.into_iter().filter(|path| !before.contains(path)).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    system.end()?;
    Ok(true)
}

fn archive() -> Result<bool> {
    let archives = made("chappe-", "-linux-gnu.tar.gz")?;
    let [one] = archives.as_slice() else { return Ok(false) };
    let system = Root::debian("archive")?;
    system.give(&archives)?;
    let name = one.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unpack = format!("tar -C /usr/local --strip-components=1 -xzf /tmp/{name}\nldconfig\n");
    let remove = format!("cd /usr/local\ntar -tzf /tmp/{name} | cut -d/ -f2- | grep -v '/$' | xargs rm\n");
    installed(&system, &unpack, RUN, &unpack, &remove)?;
    system.end()?;
    Ok(true)
}

/// No shell, no C library: the command starts itself.
fn alone() -> Result<bool> {
    let archives = made("chappe-", &format!("-{}-linux-musl.tar.gz", std::env::consts::ARCH))?;
    let [one] = archives.as_slice() else { return Ok(false) };
    let system = Root::empty("alone")?;
    tool(Command::new("tar").arg("-C").arg(&system.0).args(["--strip-components=1", "-xzf"]).arg(one))?;
    let said = system.start(&["/bin/chappe", "acquire", "--create", "gpu0", "gpu1", "--", "/bin/chappe", "ls"])?;
    ensure!(said.contains("gpu0") && said.contains("1 held"), "{said}");
    let refused = system.start(&["/bin/chappe", "run", "--", "/bin/chappe", "ls"]).err().map(|e| e.to_string());
    let refused = refused.unwrap_or_default();
    ensure!(refused.contains("has no `chappe run`"), "`chappe run` is not there, and does not say so: {refused}");
    system.end()?;
    Ok(true)
}

/// By the pip of the system's Python, without a registry; the first example of the guide's chapter, and the command that it brings.
fn wheel() -> Result<bool> {
    let wheels = made("chappe-", &format!("manylinux_2_28_{}.whl", std::env::consts::ARCH))?;
    let [one] = wheels.as_slice() else { return Ok(false) };
    let guide = fs::read_to_string(root().join("book/src/python.md"))?;
    let first = guide.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
    let (first, _) = first.context("the chapter on Python begins with an example")?;
    let system = Root::debian("wheel")?;
    system.give(&wheels)?;
    fs::write(system.0.join("tmp/first.txt"), first)?;
    let name = one.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pip = "/tmp/v/bin/pip install --no-index --disable-pip-version-check";
    let install = format!("python3 -m venv /tmp/v\n{pip} /tmp/{name} >&2\n");
    let more = "python -m doctest /tmp/first.txt\npython -m chappe ls >&2\n";
    let path = "PATH=/tmp/v/bin:$PATH\n";
    let script = |what: &str| format!("{path}{what}");
    system.run(&install).context("installing")?;
    system.run(&script(&format!("{more}{JOB}"))).context("the guide's example and the README's job")?;
    let upgrade = format!("{pip} --force-reinstall /tmp/{name} >&2");
    system.run(&script(&UPGRADE.replace("UPGRADE", &upgrade))).context("the upgrade beside a job")?;
    system.run(&script("pip uninstall -y chappe >&2\n! python -c 'import chappe' 2>/dev/null")).context("removing")?;
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("chappe"));
    let left: Vec<PathBuf> = all(&system.0.join("tmp/v"))?.into_iter().filter(ours).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    system.end()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_with_debugging_information_is_found() {
        let of = |section: &str| {
            format!("\nFile: l.a(one.o)\n  [ 1] .text PROGBITS\n\nFile: l.a(two.o)\n  [ 1] {section} PROGBITS\n")
        };
        assert_eq!(unstripped(&of(".debug_info")), Some("l.a(two.o)"));
        assert_eq!(unstripped(&of(".gnu.lto_main")), Some("l.a(two.o)"));
        assert_eq!(unstripped(&of(".data")), None);
    }
}
