//! `cargo xtask emulated [ARG...] [-- ARG...]`: test programs for AArch64, each in QEMU's emulation of one process.
//!
//! Quicker than [`guest`], which has a kernel of its own: the system calls are this machine's. The first ARGs are those of `cargo test`
//! (`-p chappe-ras`), without which they are [`PROGRAMS`]; the others are for the programs: `--include-ignored` for the storms.
//! The rustc that `CHAPPE_DIST_RUSTC` names builds them, if the workspace's own lacks the target.
//!
//! What a test starts is emulated as well: QEMU is entered as the interpreter of the other processor's programs, in a user namespace, which
//! has such a table of its own from Linux 6.7 on. Nothing of this machine is changed. The programs run in a PID namespace, which ends with
//! them.
//!
//! QEMU 7.2 passes on no robust lists: nobody would see a thread die, and chappe refuses to join an arena. So what needs one is tested in a
//! guest alone. [`LEFT_OUT`] names each other test that cannot pass, and says why.

use crate::guest::{AARCH64_SYSROOT, Processor};
use crate::suites::{self, Program, Sum};
use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Stdio};

/// So many seconds may a program take.
const LIMIT: &str = "300";

/// Programs whose tests join no arena, but for some.
const PROGRAMS: &str = "-p chappe-feedback -p chappe-structures -p chappe-wait -p chappe-plat -p chappe-arena -p chappe-ras \
                        -p chappe-thread --lib --test clock --test pipelines --test descriptors --test edges --test fallback \
                        --test lock --test mechanism --test rasctl --test sharded --test storm --test float_modes \
                        --test interruptible --test forks_first --test operations";

/// Enters the interpreter `$0` of programs for AArch64, and begins `$@`. QEMU itself takes twice the memory that a program asks for.
const ENTER: &str = r#"
mount -t proc proc /proc
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
head='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":chappe:M::$head:$mask:$0:F" >/proc/sys/fs/binfmt_misc/register
ulimit -v 12000000
exec "$@"
"#;

/// Tests that cannot pass there.
struct LeftOut {
    package: &'static str,
    tests: &'static [&'static str],
    why: &'static str,
}

const LEFT_OUT: [LeftOut; 9] = [
    LeftOut { package: "chappe-ras", tests: &["the_first_waiter_is_served_first"], why: "its threads join an arena" },
    LeftOut {
        package: "chappe-thread",
        tests: &[
            "a_destroyed_threads_wait_reports_the_interruption",
            "a_thread_is_destroyed_whatever_it_waits_for_and_gives_back_what_it_holds",
        ],
        why: "they join an arena",
    },
    LeftOut {
        package: "chappe-thread",
        tests: &[
            "events_are_told_once_and_are_not_lost_to_other_waits",
            "image::tests::a_process_sees_its_own_threads",
            "outside::tests::one_asks_at_a_time_and_the_page_is_free_when_its_descriptor_goes",
            "record::tests::a_table_that_came_second_is_not_found",
        ],
        why: "QEMU has no process_vm_readv, by which threads are looked at",
    },
    LeftOut {
        package: "chappe-plat",
        tests: &[
            "life::tests::a_thread_that_ends_wakes_who_sleeps_on_the_word_it_named",
            "inherit::tests::a_holder_that_ended_is_told_and_the_lock_goes_on",
        ],
        why: "QEMU passes on no robust lists, and no mutexes that inherit priority",
    },
    LeftOut {
        package: "chappe-plat",
        tests: &[
            "clock::tests::a_kernel_that_does_not_say_whether_the_time_is_synchronised_is_an_error",
            "process::tests::a_child_has_a_number_of_its_own_where_no_page_may_be_wiped",
        ],
        why: "QEMU has no seccomp, by which these take calls away",
    },
    LeftOut {
        package: "chappe-plat",
        tests: &[
            "file::tests::a_file_has_places_and_a_position",
            "file::tests::an_operation_that_must_wait_is_not_done_at_once",
        ],
        why: "QEMU has no preadv2",
    },
    LeftOut {
        package: "chappe-plat",
        tests: &["twofold::tests::a_forked_child_has_none_and_knows_it"],
        why: "QEMU takes no advice: a child has the pages that it is not to have",
    },
    LeftOut {
        package: "chappe-plat",
        tests: &["twofold::tests::code_is_replaced_and_no_view_has_both_rights"],
        why: "QEMU does not see code that is changed by way of another mapping",
    },
    LeftOut {
        package: "chappe-plat",
        tests: &[
            "code::tests::code_is_recognised_after_the_first_thread_has_ended",
            "quiet::tests::a_thread_is_quiet_if_only_threads_of_its_process_can_wake_it",
        ],
        why: "what /proc tells of a thread is QEMU's own state",
    },
];

/// The emulator's program.
fn emulator() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = |name: &str| std::env::split_paths(&path).map(|at| at.join(name)).find(|file| file.is_file());
    let found = ["qemu-aarch64-static", "qemu-aarch64"].into_iter().find_map(named);
    found.map(|file| file.display().to_string())
}

/// Begins `what` in namespaces of its own.
fn enter(emulator: &str, what: &[&str]) -> Command {
    let alone = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"];
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT, "unshare"]).args(alone).args(["sh", "-ec", ENTER, emulator]).args(what);
    command.stdin(Stdio::null()).env("QEMU_LD_PREFIX", AARCH64_SYSROOT).env("CHAPPE_RAS_EMULATOR", emulator);
    command
}

/// Runs one; whether it ended well, and what it said.
fn run(program: &Program, emulator: &str, args: &[&str]) -> Result<(bool, String)> {
    let out_of = LEFT_OUT.iter().filter(|one| one.package == program.package).flat_map(|one| one.tests);
    let skip = out_of.flat_map(|name| ["--skip", name]);
    let path = program.path.display().to_string();
    let mut command = enter(emulator, &[&path, "--test-threads", "1"]);
    command.args(skip).args(args).current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory);
    let out = command.output().context("cannot start timeout")?;
    let text = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Ok((out.status.success(), format!("{text}\n({})", out.status)))
}

/// What is needed for it and is not here.
fn lacks(emulator: Option<&str>) -> Option<String> {
    let Some(emulator) = emulator else { return Some("qemu-aarch64 (Debian: qemu-user-static)".into()) };
    if let Some(lacking) = Processor::aarch64().lacks() {
        return Some(lacking);
    }
    let entered = enter(emulator, &["true"]).output();
    let is_well = entered.is_ok_and(|out| out.status.success());
    (!is_well).then(|| "a user namespace with programs of its own for other processors (Linux 6.7)".into())
}

/// Builds and runs them; says so if something that is needed is not here.
///
/// # Errors
/// What does not compile; which programs failed, with what they said.
pub fn command(args: &[&str]) -> Result<()> {
    let emulator = emulator();
    if let Some(lacking) = lacks(emulator.as_deref()) {
        println!("not tested: emulated: {lacking} is not here");
        return Ok(());
    }
    let emulator = emulator.context("it is here")?;
    let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
    let (select, rest) = (&args[..at], args.get(at + 1..).unwrap_or_default());
    let usual: Vec<&str> = PROGRAMS.split_whitespace().collect();
    let programs = Processor::aarch64().build(if select.is_empty() { &usual } else { select })?;
    let (mut sum, mut failed, mut out) = (Sum::default(), Vec::new(), 0);
    for program in &programs {
        let Program { package, target, .. } = program;
        let (well, text) = run(program, &emulator, rest)?;
        let [passed, ignored, filtered] =
            [" passed", " ignored", " filtered out"].map(|what| suites::count(&text, what));
        let state = if well { "ok    " } else { "FAILED" };
        println!("{state} {package} {target}: {passed} passed, {filtered} left out, {ignored} not asked for");
        out += filtered;
        sum.add(Sum { passed, left_out: ignored, untested: suites::untested(&text) });
        if !well {
            failed.push(format!("{package} {target}:\n{text}"));
        }
    }
    for one in LEFT_OUT.iter().filter(|one| programs.iter().any(|program| program.package == one.package)) {
        println!("left out: {} {}: {}", one.package, one.tests.join(", "), one.why);
    }
    println!("{} tests passed, {out} left out, {} not asked for", sum.passed, sum.left_out);
    sum.untested.iter().for_each(|line| println!("{line}"));
    if !failed.is_empty() {
        bail!("{}\n{} of {} programs failed", failed.join("\n\n"), failed.len(), programs.len());
    }
    ensure!(sum.passed > 0, "no test passed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    #[test]
    fn each_test_that_is_left_out_is_there() {
        for LeftOut { package, tests, .. } in &LEFT_OUT {
            let of = root().join("crates").join(package.trim_start_matches("chappe-"));
            for test in *tests {
                let name = test.rsplit("::").next().unwrap();
                let mut grep = Command::new("grep");
                grep.args(["-rq", "--include=*.rs", &format!("fn {name}()")]).arg(&of);
                assert!(grep.status().unwrap().success(), "{test}");
            }
        }
    }
}
