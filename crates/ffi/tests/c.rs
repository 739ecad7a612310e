//! Programs in C and C++ against the library as it is installed: every function's contract, bad input, deaths, and the examples.
//!
//! Each is compiled with all warnings as errors, run, compiled once more with the address and undefined-behaviour sanitizers, and run
//! again, in a directory of arenas of its own. The gate (`CHAPPE_TEST_TURN`) does so with the sanitizers for a third of the programs, another
//! third with each commit: they take more of its time than all else here. Without a C compiler nothing of this can be: then each test says
//! so, and passes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

// -g1: lines and functions for what a sanitizer says, a quarter less to compile than with types and variables.
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-g1", "-O1", "-D_GNU_SOURCE"];
const SANITIZERS: &str = "-fsanitize=address,undefined";

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Says that something is not tested here, and why. `cargo xtask test` repeats it at its end.
fn not_tested(what: &str) {
    // Past the harness, which shows only what failed.
    let _ = writeln!(std::io::stderr(), "not tested: {what}");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Runs it; ends the test if it fails, with all that it said.
fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    judged(&format!("{command:?}"), out)
}

/// What it said; ends the test if it failed.
fn judged(command: &str, out: Output) -> String {
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(out.status.success(), "{command} ended with {}:\n{said}", out.status);
    said
}

/// Where the archive, the command and what it preloads are, if `cargo xtask test` has built them already.
fn built() -> Option<PathBuf> {
    std::env::var_os("CHAPPE_TEST_BUILT").map(PathBuf::from)
}

/// The library, built (unless it is) and linked once as `cargo xtask install` does it; where it is. `None`: there is no C compiler.
fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            if !is_there("cc") || !is_there("ld") {
                return None;
            }
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
            let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chappe-ffi");
            fs::create_dir_all(&to).unwrap();
            let archive = built().map_or_else(
                || {
                    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
                    run(Command::new(cargo)
                        .args(["build", "--quiet", "-p", "chappe-ffi", "--lib", "--target-dir"])
                        .arg(&target)
                        .args(cfg!(feature = "term").then_some("--features=term"))
                        .args(cfg!(feature = "remote").then_some("--features=remote"))
                        .current_dir(own("../..")));
                    target.join("debug/libchappe_ffi.a")
                },
                |built| built.join("libchappe_ffi.a"),
            );
            let so = to.join("libchappe.so.0");
            run(Command::new(own("link.sh")).arg(&archive).arg(&so));
            for (name, of) in [("libchappe.so", Path::new("libchappe.so.0")), ("libchappe.a", archive.as_path())] {
                let _ = fs::remove_file(to.join(name));
                std::os::unix::fs::symlink(of, to.join(name)).unwrap();
            }
            Some(to)
        })
        .as_deref()
}

/// A directory of arenas, removed afterwards.
struct House(PathBuf);

impl House {
    fn new() -> House {
        // Relaxed: a number.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
        let path = PathBuf::from(format!("/dev/shm/chappe-test-ffi-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        House(path)
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).env("CHAPPE_DIR", &self.0).env("LD_LIBRARY_PATH", library().unwrap());
        command
    }

    fn run(&self, program: &Path, args: &[&str]) -> String {
        let mut command = self.command(program, args);
        // The suppressions name the function that allocated the leaked memory: finding it in Rust's frames needs the
        // slow unwinder. The library has no sanitizer of its own: what is freed is written over, so that it is found
        // out if it reads it.
        let asan = "fast_unwind_on_malloc=0:max_free_fill_size=4096:free_fill_byte=165";
        command.env("ASAN_OPTIONS", asan).env("UBSAN_OPTIONS", "halt_on_error=1");
        let known = format!("suppressions={}:print_suppressions=0", own("tests/c/leaks.txt").display());
        command.env("LSAN_OPTIONS", known);
        // The search for leaks stops all threads first. Where one escapes it, it says that what it finds may be none: then it is no verdict.
        let mut out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        for _ in 0..20 {
            if out.status.success() || !String::from_utf8_lossy(&out.stderr).contains("False leaks are possible") {
                break;
            }
            // Some have left objects behind, by name.
            let _ = fs::remove_dir_all(&self.0);
            fs::create_dir(&self.0).unwrap();
            out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        }
        judged(&format!("{command:?}"), out)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles a program; answers where it is. `None`: there is no compiler for it.
fn compiled(source: &str, standard: &str, more: &[&str]) -> Option<PathBuf> {
    compiled_with(source, standard, more, &[])
}

/// The same, with what the linker is told besides.
fn compiled_with(source: &str, standard: &str, more: &[&str], libraries: &[&str]) -> Option<PathBuf> {
    let library = library()?;
    let compiler = if source.ends_with(".cpp") { "c++" } else { "cc" };
    if !is_there(compiler) {
        return None;
    }
    let stem = Path::new(source).file_stem().unwrap().to_string_lossy().into_owned();
    let flags = more.concat().replace(|c: char| !c.is_alphanumeric(), "");
    let program = library.join(format!("{stem}-{standard}{flags}"));
    let mut command = Command::new(compiler);
    command.arg(format!("-std={standard}")).args(WARNINGS).args(more).arg("-I").arg(own("include"));
    command.arg(own(source)).arg("-o").arg(&program).arg("-L").arg(library);
    run(command.args(["-lchappe", "-lpthread"]).args(libraries));
    Some(program)
}

/// A program of `tests/c`, plain and with the sanitizers.
fn holds(source: &str, args: &[&str], sanitized: &[&str]) {
    runs(&format!("tests/c/{source}"), args, sanitized);
}

fn runs(source: &str, args: &[&str], sanitized: &[&str]) {
    let standard = if source.ends_with(".cpp") { "c++17" } else { "c11" };
    let Some(program) = compiled(source, standard, &[]) else {
        return not_tested(&format!("{source}: there is no C or C++ compiler"));
    };
    print!("{}", House::new().run(&program, args));
    if !is_due(source.bytes().map(usize::from).sum()) {
        return;
    }
    let Some(program) = can_sanitize().then(|| compiled(source, standard, &[SANITIZERS])).flatten() else {
        return not_tested(&format!("{source} with sanitizers: the compiler has none"));
    };
    print!("{}", House::new().run(&program, sanitized));
}

/// Whether what has this number is of the third that the gate runs; outside of the gate all is due.
fn is_due(number: usize) -> bool {
    let turn = std::env::var("CHAPPE_TEST_TURN").ok().and_then(|turn| turn.parse::<usize>().ok());
    turn.is_none_or(|turn| number % 3 == turn % 3)
}

fn can_sanitize() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let Some(library) = library() else { return false };
        let (source, program) = (library.join("probe.c"), library.join("probe"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let made = Command::new("cc").arg(SANITIZERS).arg(&source).arg("-o").arg(&program).output();
        made.is_ok_and(|out| out.status.success())
            && Command::new(&program).status().is_ok_and(|status| status.success())
    })
}

/// The command, which makes terminals.
#[cfg(feature = "term")]
fn command() -> &'static Path {
    static COMMAND: OnceLock<PathBuf> = OnceLock::new();
    COMMAND.get_or_init(|| {
        built().map_or_else(
            || {
                let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
                let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
                run(Command::new(cargo)
                    .args(["build", "--quiet", "-p", "chappe-cli", "--features", "term", "--target-dir"])
                    .arg(&target)
                    .current_dir(own("../..")));
                target.join("debug/chappe")
            },
            |built| built.join("chappe"),
        )
    })
}

#[cfg(feature = "term")]
#[test]
fn terminals_hold_their_contract() {
    holds("term.c", &[command().to_str().expect("a path")], &[command().to_str().expect("a path")]);
}

#[cfg(feature = "remote")]
#[allow(dead_code, reason = "the tests of the engine's own crate use all of it")]
#[path = "../../remote/tests/engine/nodes.rs"]
mod nodes;

#[cfg(feature = "remote")]
#[test]
#[ignore = "storm: it starts engines"]
fn objects_on_an_engine_hold_their_contract() {
    let Some(nodes) = nodes::Nodes::own(1, &[]) else { return };
    holds("remote.c", &[&nodes.url("plain")], &[&nodes.url("sanitized")]);
}

#[test]
fn semaphores_hold_their_contract() {
    holds("semaphore.c", &[], &[]);
}

#[test]
fn pools_hold_their_contract() {
    holds("pool.c", &[], &[]);
}

#[test]
fn waits_of_a_loop_hold_their_contract() {
    holds("dispatch.c", &[], &[]);
}

#[test]
fn waits_for_locks_tubes_and_maps_hold_their_contract() {
    holds("waits.c", &[], &[]);
}

/// libuv's, GLib's, libevent's: where they are installed.
#[test]
fn loops_of_events_wait_for_permits() {
    for (package, example) in [("libuv", "loop_libuv"), ("glib-2.0", "loop_glib"), ("libevent", "loop_libevent")] {
        let says =
            |what| Command::new("pkg-config").args([what, package]).output().ok().filter(|out| out.status.success());
        let (Some(flags), Some(libraries)) = (says("--cflags"), says("--libs")) else {
            not_tested(&format!("{example}.c: {package} is not installed, or pkg-config is not"));
            continue;
        };
        let [flags, libraries] = [flags, libraries].map(|out| String::from_utf8(out.stdout).unwrap());
        let (flags, libraries): (Vec<_>, Vec<_>) =
            (flags.split_whitespace().collect(), libraries.split_whitespace().collect());
        let source = format!("../../examples/c/{example}.c");
        let Some(program) = compiled_with(&source, "c11", &flags, &libraries) else {
            return not_tested("loops of events: there is no C compiler");
        };
        let said = House::new().run(&program, &[]);
        assert!(said.ends_with("12 jobs done on 2 GPUs, 4 by another process\n"), "{example}: {said}");
    }
}

#[test]
fn mutexes_and_condition_variables_hold_their_contract() {
    holds("mutex.c", &[], &[]);
}

#[test]
fn barriers_hold_their_contract() {
    holds("barrier.c", &[], &[]);
}

#[test]
fn maps_hold_their_contract() {
    holds("map.c", &[], &[]);
}

#[test]
fn counters_and_words_hold_their_contract() {
    holds("nonblocking.c", &[], &[]);
}

#[test]
fn tubes_hold_their_contract() {
    holds("tube.c", &[], &[]);
}

#[test]
fn broadcast_tubes_hold_their_contract() {
    holds("broadcast.c", &[], &[]);
}

#[test]
fn choices_hold_their_contract() {
    holds("choice.c", &[], &[]);
}

#[test]
fn waits_end_early_when_they_are_interrupted() {
    holds("interrupt.c", &[], &[]);
}

#[test]
fn arenas_and_handles_hold_their_contract() {
    holds("arena.c", &[], &[]);
}

#[test]
fn plan9s_words_hold_their_contract() {
    holds("plan9.c", &[], &[]);
}

#[test]
fn schemas_of_structs_hold_their_contract() {
    holds("schema.c", &[], &[]);
}

#[test]
fn streams_of_bytes_hold_their_contract() {
    holds("stdio.c", &[], &[]);
}

/// Entry by entry: the table in the guide says which check is for which. Without the sanitizers, which see little of it: they are below.
#[test]
fn plan9s_threads_hold_their_contract() {
    let Some(program) = compiled("tests/c/libthread.c", "c11", &[]) else {
        return not_tested("libthread.c: there is no C compiler");
    };
    House::new().run(&program, &[]);
}

#[test]
#[ignore = "storm: more compiling than is worth it in the gate"]
fn plan9s_threads_hold_their_contract_with_sanitizers() {
    let Some(program) = can_sanitize().then(|| compiled("tests/c/libthread.c", "c11", &[SANITIZERS])).flatten() else {
        return not_tested("libthread.c with sanitizers: the compiler has none");
    };
    run(House::new().command(&program, &[]).env("ASAN_OPTIONS", "detect_leaks=0"));
}

/// It describes an address by the frame of the thread that the stack is, finds no fault where there is none, and takes
/// nothing for lost that only such a stack leads to.
#[test]
#[ignore = "storm: a program is compiled with the sanitizers, and runs four times"]
fn the_address_sanitizer_knows_the_stacks_of_light_threads() {
    let Some(program) = can_sanitize().then(|| compiled("tests/c/asan.c", "c11", &[SANITIZERS])).flatten() else {
        return not_tested("asan.c: the compiler has no sanitizers");
    };
    let house = House::new();
    for option in ["detect_stack_use_after_return=0", "detect_stack_use_after_return=1"] {
        let said = judged(option, house.command(&program, &[]).env("ASAN_OPTIONS", option).output().unwrap());
        assert_eq!(said, "");
    }
    for (what, fault, variable) in
        [("overflow", "stack-buffer-overflow", "'overrun'"), ("return", "stack-use-after-return", "'outlived'")]
    {
        let mut command = house.command(&program, &[what]);
        let out = command.env("ASAN_OPTIONS", "detect_stack_use_after_return=1").output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(&format!("AddressSanitizer: {fault}")), "{said}");
        let line = said.lines().find(|line| line.contains(variable));
        assert!(said.contains("is located in stack of thread") && line.is_some(), "{said}");
    }
}

/// The hash is that of the recurrence, as Rust's example has it.
#[test]
fn the_power_series_comes_to_its_hash() {
    let Some(program) = compiled("../../examples/c/power_series.c", "c11", &[]) else {
        return not_tested("power_series.c: there is no C compiler");
    };
    let house = House::new();
    let said = house.run(&program, &["20"]);
    assert!(said.starts_with("hash 1387105995, ") && said.contains(" lock calls, "), "{said}");
    let said = house.run(&program, &["-p", "5"]);
    assert!(said.starts_with("hash 90433309, "), "in procs: {said}");
}

/// Not with the sanitizers, which need address space of their own.
#[test]
fn no_address_space_is_an_error() {
    let Some(program) = compiled("tests/c/no_space.c", "c11", &[]) else {
        return not_tested("no_space.c: there is no C compiler");
    };
    let said = House::new().run(&program, &[]);
    assert_eq!(said, "", "a panic, and what else was said");
}

/// And the faults of the paper's source that its text rules out.
#[test]
fn the_nix_papers_interface_holds_its_contract() {
    holds("nix.c", &[], &[]);
}

#[test]
#[ignore = "storm: a thread's end that races a removal"]
fn a_tube_is_freed_while_a_thread_leaves_a_talt() {
    holds("nix_freed.c", &[], &[]);
}

#[test]
fn cpp_uses_all_of_it() {
    holds("cpp.cpp", &[], &[]);
}

#[test]
fn the_examples_do_what_they_say() {
    for example in ["producer_consumer", "philosophers", "gpu_pool", "broadcast"] {
        runs(&format!("../../examples/c/{example}.c"), &[], &[]);
    }
    for experiment in [&["1", "3", "10", "10"][..], &["2", "3", "4", "10", "10"], &["3", "2", "64"]] {
        runs("../../examples/c/nix_experiments.c", experiment, experiment);
    }
}

/// `producer_consumer | head -12`: when nobody reads any more it ends, and leaves no process behind.
#[test]
fn an_example_whose_reader_goes_leaves_nobody_behind() {
    let Some(program) = compiled("../../examples/c/producer_consumer.c", "c11", &[]) else {
        return not_tested("producer_consumer.c: there is no C compiler");
    };
    let house = House::new();
    let mut all = house.command(&program, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(all.stdout.take().unwrap()).lines();
    (0..12).for_each(|_| drop(lines.next().unwrap().unwrap()));
    drop(lines);
    // Each of its processes has this pipe's other end.
    let mut errors = all.stderr.take().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(std::io::read_to_string(&mut errors)));
    let ended = told.recv_timeout(std::time::Duration::from_secs(120));
    assert!(ended.is_ok(), "a process of it is there still");
    all.wait().unwrap();
}

/// Into a directory of its own; a program is compiled with what pkg-config says, and finds the library and its manual there.
#[test]
fn an_installation_is_complete() {
    if library().is_none() {
        return not_tested("installing: there is no C compiler");
    }
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chappe-installed");
    let _ = fs::remove_dir_all(&to);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let mut install = Command::new(cargo);
    install.args(["run", "--quiet", "-p", "xtask", "--target-dir"]).arg(&target).args(["--", "install"]);
    match built() {
        Some(built) => install.arg("--built").arg(built),
        None => install.args(["--profile", "dev"]),
    };
    install.args(["--prefix", "/usr", "--libdir", "lib64", "--destdir"]).arg(&to).env("CARGO_TARGET_DIR", &target);
    run(install.current_dir(own("../..")));
    let base = to.join("usr");
    for (link, of) in [("libchappe.so", "libchappe.so.0"), ("libchappe.so.0", "libchappe.so.0.1.0")] {
        assert_eq!(fs::read_link(base.join("lib64").join(link)).unwrap(), Path::new(of));
    }
    let description = fs::read_to_string(base.join("lib64/pkgconfig/chappe.pc")).unwrap();
    assert!(
        description.contains("prefix=/usr\n") && description.contains("/lib64\n") && !description.contains('@'),
        "{description}"
    );
    let page = fs::read_to_string(base.join("share/man/man3/chappe_pool.3")).unwrap();
    assert!(page.contains(".SS chappe_pool_acquire\n"), "{page}");
    let link = fs::read_to_string(base.join("share/man/man3/chappe_pool_acquire.3")).unwrap();
    assert_eq!(link, ".so man3/chappe_pool.3\n");
    assert!(base.join("lib64/libchappe.a").is_file() && base.join("include/chappe/plan9.h").is_file());

    the_command_runs_programs_from_there(&base);
    let program = to.join("cpp");
    let mut compile = Command::new("c++");
    if !is_there("c++") || !is_there("pkg-config") {
        return not_tested("pkg-config: there is no C++ compiler, or no pkg-config");
    }
    let mut says = Command::new("pkg-config");
    says.args(["--cflags", "--libs", "chappe"]).env("PKG_CONFIG_PATH", base.join("lib64/pkgconfig"));
    let flags = run(says.env("PKG_CONFIG_SYSROOT_DIR", &to));
    run(compile.arg(own("tests/c/cpp.cpp")).arg("-o").arg(&program).args(flags.split_whitespace()).arg("-lpthread"));
    links_wholly_statically(&to, &base.join("lib64/pkgconfig"));
    let mut cpp = Command::new(&program);
    run(cpp.env("LD_LIBRARY_PATH", base.join("lib64")));
}

/// With the library that lies beside it, which it finds by itself.
fn the_command_runs_programs_from_there(base: &Path) {
    let preload = fs::canonicalize(base.join("lib/chappe/libchappe_preload.so")).unwrap();
    let house = House::new();
    let mut runs = Command::new(base.join("bin/chappe"));
    runs.args(["run", "--", "/bin/cat", "/proc/self/maps"]).env("CHAPPE_DIR", &house.0).env_remove("CHAPPE_PRELOAD");
    let maps = run(runs.env_remove("LD_PRELOAD"));
    assert!(maps.contains(&preload.display().to_string()), "{maps}");
    for page in ["chappe.1", "chappe-run.1"] {
        assert!(base.join("share/man/man1").join(page).is_file(), "{page}");
    }
    for completion in
        ["bash-completion/completions/chappe", "zsh/site-functions/_chappe", "fish/vendor_completions.d/chappe.fish"]
    {
        assert!(fs::read_to_string(base.join("share").join(completion)).unwrap().contains("chappe"), "{completion}");
    }
}

/// With what pkg-config says for it; and it runs with no shared library at all.
fn links_wholly_statically(to: &Path, descriptions: &Path) {
    let asked = |what: &str| Command::new("cc").arg(format!("-print-file-name={what}")).output();
    // A compiler that has none answers with the bare name.
    let is_had = |what: &str| asked(what).is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains('/'));
    if !is_had("libc.a") || !is_had("libgcc_eh.a") {
        return not_tested("-static: there is no libc.a, or no libgcc_eh.a");
    }
    let mut says = Command::new("pkg-config");
    says.args(["--static", "--cflags", "--libs", "chappe"]).env("PKG_CONFIG_PATH", descriptions);
    let flags = run(says.env("PKG_CONFIG_SYSROOT_DIR", to));
    let program = to.join("wholly-static");
    let mut compile = Command::new("cc");
    compile.args(WARNINGS).arg("-static").arg(own("tests/c/semaphore.c")).arg("-o").arg(&program);
    run(compile.args(flags.split_whitespace()));
    House::new().run(&program, &[]);
}

/// CHAPPE_C_KILLS: how many (1000).
#[test]
#[ignore = "storm: kills at random"]
fn nothing_is_lost_when_c_programs_are_killed_at_random() {
    let kills = std::env::var("CHAPPE_C_KILLS").unwrap_or_else(|_| "1000".into());
    holds("kills.c", &[&kills], &["100"]);
}

/// What Rust made as a type, C opens by the type's name; what either writes the other reads.
#[test]
fn c_and_rust_share_data() {
    let Some(program) = compiled("tests/c/shares.c", "c11", &[]) else {
        return not_tested("shares.c: there is no C compiler");
    };
    let house = House::new();
    let mut rust = Command::new(std::env::current_exe().unwrap());
    rust.args(["--exact", "rusts_side", "--nocapture"]).env("CHAPPE_DIR", &house.0);
    rust.env("LD_LIBRARY_PATH", library().unwrap()).env("SHARES", program);
    run(&mut rust);
}

/// The other side of `c_and_rust_share_data`; nothing when it is run as a test.
#[test]
fn rusts_side() {
    use chappe::tube::named::{Tube, TubeOptions};
    let Some(program) = std::env::var_os("SHARES") else { return };
    let counts = chappe::Mutex::<[u64; 2]>::create("counts", [3, 4]).unwrap();
    let numbers = Tube::<[u32; 3]>::create("numbers", &TubeOptions::default()).unwrap();
    let words = Tube::<[u8]>::create("words", &TubeOptions::default()).unwrap();
    let (from, to) = (numbers.receiver().unwrap(), words.sender().unwrap());
    to.send(b"said in Rust").unwrap();
    run(&mut Command::new(program));
    assert_eq!(*counts.lock().unwrap(), [4, 5]);
    assert_eq!(from.recv().unwrap(), [1, 2, 3]);
    let made = chappe::Mutex::<u64>::open("made-in-c").unwrap();
    assert_eq!(*made.lock().unwrap(), 42);
}

#[test]
fn the_headers_compile_in_every_dialect_without_a_warning() {
    let Some(library) = library() else { return not_tested("headers: there is no C compiler") };
    let headers = fs::read_dir(own("include/chappe")).unwrap().map(|entry| entry.unwrap().file_name());
    let alone: Vec<String> = headers.map(|name| format!("#include <chappe/{}>\n", name.to_string_lossy())).collect();
    let both =
        "#include <chappe.h>\n#include <chappe.h>\n#include <chappe/plan9.h>\n#include <chappe/nix.h>\n".to_owned();
    // Which has a main of its own otherwise.
    let threads = "#include <chappe.h>\n#include <chappe/libc9.h>\n#include <chappe/thread.h>\n".to_owned();
    for (at, includes) in alone.into_iter().chain([both, threads]).enumerate() {
        let source = library.join(format!("include-{at}.c"));
        let text = format!("#define CHAPPE_THREAD_NO_MAIN\n{includes}int main(void) {{ return 0; }}\n");
        fs::write(&source, text).unwrap();
        let dialects = [
            ("cc", "c", "c99"),
            ("cc", "c", "c11"),
            ("cc", "c", "c17"),
            ("c++", "c++", "c++11"),
            ("c++", "c++", "c++17"),
            ("c++", "c++", "c++20"),
        ];
        // In the gate in one dialect of each language, in another one with each commit.
        let due = dialects.into_iter().enumerate().filter(|(n, _)| is_due(at + n)).map(|(_, dialect)| dialect);
        for (compiler, language, standard) in due.filter(|(compiler, ..)| is_there(compiler)) {
            let mut command = Command::new(compiler);
            command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", "-fsyntax-only"]);
            command.args(["-x", language]).arg(format!("-std={standard}")).arg("-I").arg(own("include"));
            run(command.arg(&source));
        }
    }
}

#[test]
fn only_what_is_declared_is_exported_with_its_version() {
    let Some(library) = library() else { return not_tested("symbols: there is no C compiler") };
    if !is_there("nm") || !is_there("readelf") {
        return not_tested("symbols: there is no nm, or no readelf");
    }
    let so = library.join("libchappe.so.0");
    let said = run(Command::new("nm").args(["--dynamic", "--defined-only", "--with-symbol-versions"]).arg(&so));
    let symbols: Vec<&str> = said.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let mut declared = String::new();
    for entry in fs::read_dir(own("include/chappe")).unwrap() {
        declared += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    let mut count = 0;
    for symbol in symbols.iter().filter(|symbol| **symbol != "CHAPPE_0.1") {
        let name = symbol.strip_suffix("@@CHAPPE_0.1").unwrap_or_else(|| panic!("{symbol} has no version"));
        assert!(declared.contains(&format!("{name}(")), "{name} is in no header");
        count += 1;
    }
    assert!(count > 100, "{count} symbols");
    let said = run(Command::new("readelf").args(["--dynamic", "--wide"]).arg(&so));
    assert!(said.contains("[libchappe.so.0]") && said.contains("NODELETE") && !said.contains("TEXTREL"), "{said}");
}

/// A program that is linked with the archive, and one that loads the library and lets it go while its threads run.
#[test]
fn it_links_statically_and_loads_at_run_time() {
    let Some(library) = library() else { return not_tested("linking: there is no C compiler") };
    let archive = library.join("libchappe.a").display().to_string();
    let program = library.join("static");
    run(Command::new("cc")
        .args(WARNINGS)
        .arg("-I")
        .arg(own("include"))
        .arg(own("tests/c/semaphore.c"))
        .arg("-o")
        .arg(&program)
        .args([archive.as_str(), "-lpthread", "-ldl", "-lm", "-lgcc_s"]));
    House::new().run(&program, &[]);
    let Some(program) = compiled("tests/c/load.c", "c11", &["-ldl"]) else { return };
    // Another file than the one that the program is linked with: that is there from the start.
    let late = library.join("late.so");
    fs::copy(library.join("libchappe.so.0"), &late).unwrap();
    House::new().run(&program, &[&late.display().to_string()]);
}
