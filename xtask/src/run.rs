//! Starting cargo on this workspace.

use crate::calls;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The directory of the workspace in which cargo runs this: with a copied target directory it may have been built in another one.
pub fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), PathBuf::from)
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// What is installed, packaged and measured: optimised across crates.
pub const DIST: [&str; 2] = ["--profile", "dist"];
/// The same with all features, of the command and of the Python package.
pub const DIST_ALL: [&str; 4] = ["--profile", "dist", "--features", "full"];

/// What [`Cargo::unmovable`] lets cargo call in the compiler's place: the compiler, which is told how to link the command. It returns what
/// keeps it from starting. Flags for all crates would make programs of the libraries that compilers load.
pub fn compiler(rustc: &str, args: &[&str]) -> std::io::Error {
    Command::new(rustc).args(args).args(is_the_command(args).then_some("-Clink-arg=-no-pie")).exec()
}

/// The library that Rust's programs use has the same name.
fn is_the_command(args: &[&str]) -> bool {
    let says = |two: [&str; 2]| args.windows(2).any(|pair| pair == two);
    says(["--crate-name", "chappe"]) && says(["--crate-type", "bin"])
}

/// One call of the cargo that runs us.
pub struct Cargo(Command);

impl Cargo {
    /// `cargo SUBCOMMAND`, in the workspace's directory.
    pub fn new(subcommand: &str) -> Cargo {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg(subcommand).current_dir(root());
        Cargo(command)
    }

    /// The same, which is ended with all that it started when it has taken so many seconds.
    pub fn within(seconds: u64, subcommand: &str) -> Cargo {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5".to_owned(), seconds.to_string()]).arg(cargo).arg(subcommand).current_dir(root());
        Cargo(command)
    }

    /// In another directory.
    pub fn directory(mut self, directory: &std::path::Path) -> Cargo {
        self.0.current_dir(directory);
        self
    }

    /// Adds arguments.
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = impl AsRef<str> + 'a>) -> Cargo {
        self.0.args(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: &str) -> Cargo {
        self.0.env(name, value);
        self
    }

    /// Nothing is kept for a next build that is nearly the same: a twelfth less to do. Nor are lines, of which a panic names its own: a
    /// tenth less, and backtraces name functions alone.
    pub fn at_once(self) -> Cargo {
        self.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false")
    }

    /// The command `chappe` gets its addresses when it is linked (no PIE). The tests start it some five thousand times, and one that can lie
    /// anywhere writes 161,290 addresses at each start: two fifths of its page faults. What is installed can lie anywhere.
    pub fn unmovable(self) -> Cargo {
        match std::env::current_exe() {
            Ok(own) if cfg!(target_arch = "x86_64") => self.env("RUSTC_WORKSPACE_WRAPPER", &own.display().to_string()),
            _ => self,
        }
    }

    /// Runs it on our terminal.
    pub fn run(mut self) -> Result<()> {
        let status = self.0.status().with_context(|| format!("cannot start {:?}", self.0.get_program()))?;
        if !status.success() {
            bail!("`{}` ended with {status}", self.shown());
        }
        Ok(())
    }

    /// Runs it and gives what it wrote to stdout.
    pub fn output(mut self) -> Result<Vec<u8>> {
        let out = self.0.stderr(Stdio::inherit()).output()?;
        if !out.status.success() {
            bail!("`{}` ended with {}", self.shown(), out.status);
        }
        Ok(out.stdout)
    }

    /// Hands each line that it prints to `each`; its errors are shown as they come. Whether it succeeded.
    pub fn lines(mut self, mut each: impl FnMut(&str)) -> Result<bool> {
        let shown = format!("cannot start {}", self.shown());
        let mut child = self.0.stdout(Stdio::piped()).spawn().context(shown)?;
        let out = child.stdout.take().context("its output is ours")?;
        for line in BufReader::new(out).lines() {
            each(&line?);
        }
        Ok(child.wait()?.success())
    }

    /// Runs it silently; whether it succeeded, and what it wrote, by streams.
    pub fn both(mut self) -> Result<(bool, String, String)> {
        let out = calls::run(&mut self.0)?;
        let [stdout, stderr] = [out.stdout, out.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
        Ok((out.status.success(), stdout, stderr))
    }

    /// Runs it silently; what it wrote, both streams, and whether it succeeded.
    pub fn quiet(self) -> Result<(bool, String)> {
        let (well, stdout, stderr) = self.both()?;
        Ok((well, stdout + &stderr))
    }

    /// The line that one would type.
    pub fn shown(&self) -> String {
        let envs = self.0.get_envs().filter_map(|(k, v)| Some(format!("{}='{}'", k.to_str()?, v?.to_str()?)));
        let args = self.0.get_args().map(|a| a.to_string_lossy().into_owned());
        let words: Vec<String> = envs.chain(std::iter::once("cargo".to_owned())).chain(args).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_alone_is_linked_at_addresses_of_its_own() {
        let said = |name, kind| is_the_command(&["--crate-name", name, "--edition=2024", "--crate-type", kind]);
        assert!(said("chappe", "bin"));
        assert!(!said("chappe", "lib") && !said("chappe_lab", "bin") && !said("build_script_build", "bin"));
    }
}
