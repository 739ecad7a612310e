//! `cargo xtask`: everything that is done to this repository by command.
//!
//! ```text
//! cargo xtask test                       what must hold before a change goes in; the README's second command. Deterministic
//! cargo xtask test --all                 that, and all that takes luck or long: storms, soaks, random searches, every mutant and model
//! cargo xtask test [--all] --keep-going  the same, and goes on after a failure
//! cargo xtask test [--all] --only WORD   the stages with WORD in their names alone
//! cargo xtask test --changed [COMMIT]    what reaches what has changed: for daily work, beside `test`
//! cargo xtask check                      format, house rules, clippy in all three builds, documentation: before a commit
//! cargo xtask lint                       the house rules alone
//! cargo xtask engines                    etcd, for the tests of `test --all` that need an engine; needs Go
//! cargo xtask guest KERNEL BUSYBOX [ARG...]  test programs under another kernel, or for another processor, in a guest of QEMU
//! cargo xtask emulated [ARG...] [-- ARG...]  test programs for AArch64, each in QEMU's emulation of one process
//! cargo xtask count [COMMIT]             lines of code by crate, without blank ones and comments; beside those of a commit
//! cargo xtask bench pool [--quick]       pools beside their peers, one run
//! cargo xtask bench sync [--quick]       semaphores, mutexes and choice beside theirs, and Plan 9's tables
//! cargo xtask bench tube [--quick]       channels between threads and between processes beside theirs
//! cargo xtask bench ras [--quick]        restartable sequences, biased locks and per-processor objects beside theirs
//! cargo xtask bench realtime [--quick]   words at once, helping locks and maps beside theirs; priority inversion
//! cargo xtask bench synth [--quick]      queries that become code beside hand-written Rust, cel, NumPy and polars
//! cargo xtask bench waiters [N...]       many processes that wait: idle, at a death, on one semaphore
//! cargo xtask bench c [--quick]          semaphores in C, and under `chappe run`, beside the C library's and Rust's
//! cargo xtask bench thread [--quick]     light threads beside Go's, tokio, may, corosensei, Boost and kernel threads
//! cargo xtask bench remote [--quick]     pools and tubes of many machines beside Go's Mutex, etcdctl and JetStream; needs Go
//! cargo xtask bench query [MIB] [--quick]  questions about text beside mawk, jq, DuckDB, polars, ripgrep and tshark (1024 MiB each)
//! cargo xtask bench stream [N | --quick] [stages|turns|notes|cook|shown|file|jack|source|pipe] [--seconds S]
//!                                        `chappe pipe` beside the plain shell, graphs beside calls by hand, equal turns, cat and
//!                                        a client of a JACK server; N runs (10), S seconds for each row of the server (30)
//! cargo xtask bench python [--quick] [ROW...]  the Python package beside multiprocessing and, where they are installed, its peers
//! cargo xtask bench term [--quick] [ROW...]  terminals beside tmux, screen, dtach and pexpect, where they are installed
//! cargo xtask bench python --kills [N]   what each stands when its workers are killed N times (1,000)
//! cargo xtask bench robustness [ARG...]  what ships beside the same code with what deaths need left out
//! cargo xtask crashsim [--seconds N] [--schedules N] [--seed N]
//!                                        a long exploration, and which places of the source it killed at
//! cargo xtask mutants [NAME]             planted mistakes: each must be found
//! cargo xtask mutants --turn N            a tenth of them, as `test` does it, which says what its N was
//! cargo xtask mutants --known            those that plant a known race or fault
//! cargo xtask mutants [NAME] --sweep     those that the injector is said to find as well, by the injector
//! cargo xtask mutants --table            which check finds which, as Markdown
//! cargo xtask models [NAME] [--mistakes] every state of the protocols' models; with their mistakes, each must be found
//! cargo xtask kill-sweep [--all | --share N] [--only WORDS] [--jobs N] [--markdown FILE]
//!                                        SIGKILL at every instruction of every operation, and of its recovery;
//!                                        without arguments everything, on all processors (an hour or more on two)
//! cargo xtask soak [ARG...]              random SIGKILLs while jobs share pools
//! cargo xtask soak --minutes N           random SIGKILLs and SIGSTOPs of processes that use everything: the chaos run
//! cargo xtask soak structures [ARG...]   the same of workers that share a map, a stack, a monitor and helping locks
//! cargo xtask soak churn [ARG...]        the same of workers that make and remove objects in one small arena, and are stopped
//! cargo xtask soak ras [--seconds N]     storms over the per-CPU operations, with delays between the steps of their sections
//! cargo xtask soak jobserver [KILLS]     the same of what builds under the job server start; needs GNU make 4.4
//! cargo xtask churn [WHICH] [ARG...]     the same storm over chappe, iceoryx2, python, or all of them
//! cargo xtask man                        manual pages and completions, into target/man and target/completions
//! cargo xtask header                     the C headers, from the source of crates/ffi
//! cargo xtask wheel [ARG...]             the Python package as a wheel, by pip, into target/wheels
//! cargo xtask dist [--built DIR]         archives, Debian and RPM packages, the same to the byte each time, into target/packages
//! cargo xtask dist wheels                beside those: the Python package as wheels for many systems, and as source; the static command
//! cargo xtask dist --check | --again     installs all that into a bare Debian, uses and removes it | builds it twice
//! cargo xtask install [--prefix DIR] [--libdir DIR] [--destdir DIR] [--profile NAME | --built DIR] [--debug]
//!                                        the C library with all that belongs to it, stripped; --debug: debug files beside;
//!                                        --built: of what was built before
//! ```
//!
//! [`stages`] says what `test` is made of, [`lint`] holds the rules, [`run`] starts other programs.

mod calls;
mod changed;
mod count;
mod dist;
mod emulated;
mod engines;
mod explore;
mod guest;
mod install;
mod lint;
mod manual;
mod models;
mod mutants;
mod published;
mod python;
mod run;
mod show;
mod stage;
mod stages;
mod suites;
mod sum;
mod turn;

use anyhow::{Context, Result, bail, ensure};
use run::{Cargo, DIST, DIST_ALL, root, target};
use show::Bar;
use std::process::{Command, ExitCode, Stdio};

/// What `--help` says: the list at the head of this file, without its marks.
fn usage() -> String {
    let head = include_str!("main.rs").lines().skip_while(|line| *line != "//! ```text").skip(1);
    head.take_while(|line| *line != "//! ```").map(|line| line.trim_start_matches("//!").trim_start_matches(' ')).fold(
        String::new(),
        |mut text, line| {
            // A line that goes on with the one before stands under what that says.
            let indent = if line.starts_with("cargo") { "" } else { "                                       " };
            text += &format!("{indent}{line}\n");
            text
        },
    )
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let [rustc, rest @ ..] = &args[..]
        && rustc.ends_with("rustc")
    {
        eprintln!("xtask: cannot start {rustc}: {}", run::compiler(rustc, rest));
        return ExitCode::FAILURE;
    }
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[&str]) -> Result<()> {
    match args {
        ["test", rest @ ..] => stages::test(rest),
        ["check"] => stages::check(),
        ["lint"] => lint::command(&root()),
        ["engines"] => engines::build().map(|at| println!("{}", at.display())),
        ["guest", kernel, busybox, rest @ ..] => guest::command(kernel, busybox, rest),
        ["emulated", rest @ ..] => emulated::command(rest),
        ["count"] => count::command(None),
        ["count", commit] => count::command(Some(*commit)),
        ["bench", what @ ("pool" | "sync" | "tube" | "ras" | "realtime" | "waiters" | "queue"), rest @ ..] => {
            Cargo::new("run").args(DIST).args(["-p", "chappe-bench", "--", what]).args(rest).run()
        }
        ["bench", "synth", rest @ ..] => {
            let with = ["-p", "chappe-bench", "--features", "jit,expressions", "--", "synth"];
            Cargo::new("run").args(DIST).args(with).args(rest).run()
        }
        ["bench", "robustness", rest @ ..] => robustness(rest),
        ["bench", "python", rest @ ..] => python::bench(rest),
        ["bench", "term", rest @ ..] => python::bench_terminals(rest),
        ["bench", "c", rest @ ..] => bench_c(rest),
        ["bench", "task", rest @ ..] => {
            let with = ["-p", "chappe-bench", "--features", "tasks", "--", "task"];
            Cargo::new("run").args(DIST).args(with).args(rest).run()
        }
        ["bench", "thread", rest @ ..] => bench_thread(rest),
        ["bench", "remote", rest @ ..] => bench_remote(rest),
        ["bench", what @ ("stream" | "query"), rest @ ..] => bench_command(what, rest),
        ["crashsim", rest @ ..] => explore::command(rest),
        ["kill-sweep"] => injector("sweep", &["--all", "--jobs", &stages::processors().to_string()]),
        ["kill-sweep", rest @ ..] => injector("sweep", rest),
        ["soak", "jobserver"] => soak_jobserver("150"),
        ["soak", "jobserver", kills] => soak_jobserver(kills),
        ["soak", "ras"] => soak_ras("60"),
        ["soak", "ras", "--seconds", seconds] => soak_ras(seconds),
        ["soak", "chaos" | "structures" | "churn", ..] => injector("soak", &args[1..]),
        ["soak", rest @ ..] if rest.contains(&"--minutes") => injector("soak", &[&["chaos"][..], rest].concat()),
        ["soak", rest @ ..] => {
            Cargo::new("build").args(DIST_ALL).args(["-p", "chappe-cli"]).run()?;
            injector("soak", rest)
        }
        ["churn", rest @ ..] => churn(rest),
        ["mutants", "--table"] => mutants::table().map(|table| print!("{table}")),
        ["mutants", "--known"] => {
            mutants::hunted(mutants::Which::Known, &Bar::new("mutants")).map(|all| println!("{all}"))
        }
        ["mutants", "--turn", turn] => {
            let turn = turn.parse().with_context(|| format!("`{turn}` is not a number"))?;
            mutants::hunted(mutants::Which::Due(turn), &Bar::new("mutants")).map(|all| println!("{all}"))
        }
        ["mutants", "--sweep"] => mutants::hunt("", true).map(|all| println!("{all}")),
        ["mutants"] => mutants::hunt("", false).map(|all| println!("{all}")),
        ["mutants", filter] => mutants::hunt(filter, false).map(|all| println!("{all}")),
        ["mutants", filter, "--sweep"] => mutants::hunt(filter, true).map(|all| println!("{all}")),
        ["models", rest @ ..] => models::command(rest),
        ["man"] => man(),
        ["header"] => header(),
        ["wheel", rest @ ..] => python::wheel(rest),
        ["dist", rest @ ..] => dist::command(rest),
        ["install", rest @ ..] => install::command(rest),
        ["--help" | "-h" | "help"] => {
            print!("{}", usage());
            Ok(())
        }
        [] => bail!("nothing to do; these are the commands:\n{}", usage()),
        other => bail!("`{}` is not known here; these are the commands:\n{}", other.join(" "), usage()),
    }
}

fn soak_jobserver(kills: &str) -> Result<()> {
    let kills: u32 = kills.parse().with_context(|| format!("`{kills}` is not a number"))?;
    Cargo::new("test")
        .args(["-p", "chappe-cli", "--test", "command", "--", "--include-ignored", "--nocapture", "--exact"])
        .args(["jobserver_make::soak_a_build_whose_processes_are_killed_at_random"])
        .env("CHAPPE_SOAK_KILLS", &kills.to_string())
        .run()
}

fn soak_ras(seconds: &str) -> Result<()> {
    let seconds: u32 = seconds.parse().with_context(|| format!("`{seconds}` is not a number"))?;
    Cargo::new("test")
        .args([
            "--profile",
            "explore",
            "-p",
            "chappe-ras",
            "--features",
            "inject",
            "--test",
            "storm",
            "--test",
            "lock",
            "--test",
            "sharded",
            "--test",
            "rasctl",
            "--test",
            "mechanism",
            "--",
            "--include-ignored",
            "--nocapture",
        ])
        .env("RAS_SECONDS", &seconds.to_string())
        .run()
}

fn injector(command: &str, rest: &[&str]) -> Result<()> {
    Cargo::new("run").args(DIST).args(["-p", "chappe-injector", "--", command]).args(rest).run()
}

/// What is only measured is a program of its own.
fn robustness(rest: &[&str]) -> Result<()> {
    let only = ["-p", "chappe-bench", "-p", "chappe-sync", "--bin", "chappe-bench-fragile"];
    Cargo::new("build").args(DIST).args(only).args(["--features", "chappe-bench/fragile,chappe-sync/fragile"]).run()?;
    let fragile = target().join("dist/chappe-bench-fragile").display().to_string();
    let call = ["-p", "chappe-bench", "--", "robustness", "--fragile", &fragile];
    Cargo::new("run").args(DIST).args(call).args(rest).run()
}

/// The programs in C are compiled as their users' are: against the library, with the C compiler.
fn bench_c(rest: &[&str]) -> Result<()> {
    Cargo::new("build").args(DIST).args(["-p", "chappe-ffi", "-p", "chappe-preload"]).run()?;
    let (ffi, to) = (root().join("crates/ffi"), target().join("c"));
    std::fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    let run = |command: &mut Command| -> Result<()> {
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(())
    };
    let library = to.join("libchappe.so.0");
    run(Command::new(ffi.join("link.sh")).arg(target().join("dist/libchappe_ffi.a")).arg(&library))?;
    for name in ["glibc", "chappe", "nix"] {
        let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.args(["-O2", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        cc.arg(format!("-D{}", name.to_uppercase())).arg("-I").arg(ffi.join("include"));
        cc.arg(root().join("crates/bench/c/pairs.c")).arg("-o").arg(to.join(name));
        if name != "glibc" {
            cc.arg(&library).arg(format!("-Wl,-rpath,{}", to.display()));
        }
        run(&mut cc)?;
    }
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]).arg("-I").arg(ffi.join("include"));
    cc.arg(root().join("crates/bench/c/stdio.c")).arg("-o").arg(to.join("stdio"));
    run(cc.arg(&library).arg(format!("-Wl,-rpath,{}", to.display())))?;
    run(&mut Command::new(to.join("stdio")))?;
    let (pairs, preload) = (to.display().to_string(), target().join("dist/libchappe_preload.so").display().to_string());
    Cargo::new("run").args(DIST).args(["-p", "chappe-bench", "--", "c", &pairs, &preload]).args(rest).run()
}

/// Go's rows are there where `go` is, Boost's where its fibers are.
fn bench_thread(rest: &[&str]) -> Result<()> {
    let program = target().join("bench-go").display().to_string();
    let mut go = Command::new("go");
    go.args(["build", "-o", &program, "."]).current_dir(root().join("crates/bench/go"));
    let built = go.status().is_ok_and(|status| status.success());
    let mut all = vec!["-p", "chappe-bench", "--features", "threads", "--", "thread"];
    if built {
        all.extend(["--go", &program]);
    }
    let fibers = target().join("bench-fibers").display().to_string();
    let mut boost = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    boost.args(["-O2", "-std=c++17", "-o", &fibers]).arg(root().join("crates/bench/c/fibers.cpp"));
    boost.args(["-lboost_fiber", "-lboost_context", "-lpthread"]).stderr(Stdio::null());
    if boost.status().is_ok_and(|status| status.success()) {
        all.extend(["--boost", &fibers]);
    }
    Cargo::new("run").args(DIST).args(&all).args(rest).run()
}

/// The command itself is measured.
fn bench_command(what: &str, rest: &[&str]) -> Result<()> {
    install::building("dist").run()?;
    let chappe = target().join("dist/chappe").display().to_string();
    Cargo::new("run")
        .args(DIST)
        .args(["-p", "chappe-bench", "--features", "stream", "--", what, &chappe])
        .args(rest)
        .run()
}

/// The command itself is measured, beside what Go builds. An engine's answers take the time, and not the calls between crates: so it is built
/// by the profile that is quick to build, and without what has no part in it.
fn bench_remote(rest: &[&str]) -> Result<()> {
    let engines = engines::build()?;
    engines::peers(&engines)?;
    let with = "--release -p chappe-cli -p chappe-bench --bin chappe --bin chappe-bench --features chappe-cli/remote,chappe-bench/remote";
    // At once: their crates have the same features.
    Cargo::new("build").args(with.split_whitespace()).run()?;
    println!("chappe is built by the profile `release`, with the feature `remote` alone; its peers by Go");
    let built = target().join("release");
    let status = Command::new(built.join("chappe-bench"))
        .arg("remote")
        .args([built.join("chappe"), engines])
        .args(rest)
        .status()?;
    ensure!(status.success(), "chappe-bench ended with {status}");
    Ok(())
}

/// iceoryx2 is built only if it is asked for, alone or with all.
fn churn(rest: &[&str]) -> Result<()> {
    let without = matches!(rest.first(), Some(&("chappe" | "python" | "control")));
    let feature = if without { "rivals" } else { "iceoryx2" };
    let call = Cargo::new("run").args(DIST).args(["-p", "chappe-injector", "--features", feature]);
    call.args(["--", "churn"]).args(rest).run()
}

/// A test compares them, and the same test writes them.
fn header() -> Result<()> {
    let test = ["-p", "chappe-ffi", "--test", "headers", "--", "they_are_what_the_source_says"];
    Cargo::new("test").args(test).env("CHAPPE_WRITE_HEADERS", "1").run()
}

fn man() -> Result<()> {
    let (pages, completions) = (target().join("man"), target().join("completions"));
    let chappe = ["--release", "-p", "chappe-cli", "--"];
    Cargo::new("run").args(chappe).args(["man", &pages.display().to_string()]).run()?;
    manual::write_all(&pages)?;
    std::fs::create_dir_all(&completions)?;
    for (shell, file) in [("bash", "chappe.bash"), ("zsh", "_chappe"), ("fish", "chappe.fish")] {
        let text = Cargo::new("run").args(["--quiet"]).args(chappe).args(["completions", shell]).output()?;
        let to = completions.join(file);
        std::fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    println!("{}\n{}", pages.display(), completions.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_the_commands() {
        let help = usage();
        assert!(help.starts_with("cargo xtask test ") && help.contains("cargo xtask install"), "{help}");
        assert!(dispatch(&["test", "--help"]).is_ok() && dispatch(&["--help"]).is_ok());
        assert!(dispatch(&["test", "--most"]).unwrap_err().to_string().contains("these are the commands"));
    }
}
