//! Unmodified programs with this library and without: the same bytes, statuses and ends, whether their pipes had lanes or not.

#[path = "../../pipes/tests/machine/mod.rs"]
mod machine;

use chappe_pipes::Run;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const WATCHDOG: Duration = Duration::from_secs(300);

/// A run, as `chappe run --io` makes it.
struct Stage {
    folder: PathBuf,
    said: String,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let folder = std::env::temp_dir().join(format!("chappe-io-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("room");
        let Run { since, processes, times } = Run::of_this_process().expect("a /proc of this machine's");
        Stage { said: format!("{since}:{processes}:{times}:0:{}", folder.display()), folder }
    }

    fn with(&self, program: &str, arguments: &[&str]) -> Command {
        let library = std::env::current_exe().expect("this test is a file").with_file_name("libchappe_io.so");
        assert!(library.is_file(), "cargo puts it beside the tests: {}", library.display());
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", library).env("CHAPPE_RUN_IO", &self.said);
        command
    }

    /// When a file came into its folder last, or went: each lane's does.
    fn changed(&self) -> SystemTime {
        std::fs::metadata(&self.folder).and_then(|facts| facts.modified()).expect("a time")
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn until<T>(what: &str, mut then: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = then() {
            return found;
        }
        assert!(began.elapsed() < WATCHDOG, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether `/proc` tells everything to this user. A process of another one that begins behind this test ends that.
fn is_told() -> bool {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    Run::of_this_process().is_ok_and(|run| run.others(reader.as_raw_fd()).is_some())
}

/// Whether programs can have lanes here. If not, says what is not tested.
fn has_lanes(test: &str) -> bool {
    let has = cfg!(all(target_arch = "x86_64", target_env = "gnu")) && is_told();
    if !has {
        eprintln!("not tested: {test}: no program has lanes on this processor, or for this user");
    }
    has && machine::has_lanes(test)
}

/// Whether the process maps memory of the run's.
fn has_lane(pid: &str, stage: &Stage) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", pid.trim())).unwrap_or_default();
    maps.contains(&format!("{}/", stage.folder.display()))
}

#[test]
fn two_programs_that_are_understood_have_a_lane_and_its_file_is_gone() {
    if !has_lanes("two_programs_that_are_understood_have_a_lane_and_its_file_is_gone") {
        return;
    }
    let stage = Stage::new("lane");
    let [first, second] = ["first", "second"].map(|name| stage.file(name));
    let script = format!("sh -c 'echo $$ > {first}; exec yes' | sh -c 'echo $$ > {second}; exec cat > /dev/null'");
    let mut shell = stage.with("sh", &["-c", &script]).spawn().expect("a shell");
    let [writer, reader] = [first, second].map(|file| {
        until("a program's number", || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')))
    });
    let have = until("both have a lane, or there are none", || {
        let have = has_lane(&writer, &stage) && has_lane(&reader, &stage);
        (have || !has_lanes("two_programs_that_are_understood_have_a_lane_and_its_file_is_gone")).then_some(have)
    });
    // The reader removes it as soon as it is there.
    until("the file is gone", || {
        let files = std::fs::read_dir(&stage.folder).expect("ours");
        let has_file = files.flatten().any(|file| file.file_name().to_string_lossy().parse::<u64>().is_ok());
        (!have || !has_file).then_some(())
    });
    // SAFETY: a signal for this test's own program, which runs until then.
    unsafe { libc::kill(reader.trim().parse().expect("a number"), libc::SIGTERM) };
    assert!(shell.wait().is_ok(), "the writer is told that nobody reads");
}

#[test]
fn a_program_loads_nothing_for_its_pipes_but_the_library() {
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    if !archive.is_ok_and(|said| said.stdout.starts_with(b"/")) {
        return eprintln!("not tested: a_program_loads_nothing_for_its_pipes_but_the_library: no unwinder to link");
    }
    let stage = Stage::new("loaded");
    let maps = stage.with("cat", &["/proc/self/maps"]).output().expect("every system has it").stdout;
    let maps = String::from_utf8(maps).expect("text");
    assert!(maps.contains("libchappe_io.so") && !maps.contains("libgcc_s"), "{maps}");
}

/// Each carries enough for lanes but the last ones.
const PIPELINES: [&str; 20] = [
    "head -c 60M /dev/zero | cat | wc -c",
    "seq 4000000 | cat | tr 0-9 a-j | sha256sum",
    "seq 4000000 | tee /dev/null | tail -n 2",
    "yes | head -c 50M | cksum",
    "seq 4000000 | { cat; echo behind; } | cksum",
    "{ seq 3000000; echo between; seq 3000000; } | cat | cksum",
    "seq 4000000 | { head -c 25000000 | cksum; cksum; }",
    "seq 4000000 | { read first; echo $first; cat; } | cksum",
    "seq 3000000 | { cat & cat; wait; } | wc -c",
    "seq 4000000 | cut -c 2- | uniq | wc -l",
    "seq 3000000 | base64 | base64 -d | cksum",
    "seq 4000000 | cat /dev/stdin | cat - /dev/null | cksum",
    "seq 4000000 | tee /dev/fd/3 3>/dev/null | cksum",
    "seq 4000000 | tail -c +9000000 | cat | cksum",
    "seq 4000000 | cat 2>&1 | head -c 30000001 | cksum",
    "exec 4>/dev/null; seq 4000000 | tee /dev/fd/4 | cat | cksum",
    "yes | cat | cat | head -c 40M | tail -c 5",
    "(seq 3000000; exit 3) | cat | tail -n 1; echo end | cat; true | cat; cat /dev/null | wc -c; exit 9",
    "for i in 1 2 3 4 5 6 7 8; do echo $i | cat | tr 1-8 a-h; done; seq 10 | head -n 2; false | true",
    "(trap '' PIPE; seq 5000000; echo $? >&2) 2>/dev/null | cat | head -n 1",
];

#[test]
fn pipelines_write_the_same_bytes_as_without() {
    let stage = Stage::new("same");
    let before = stage.changed();
    for script in PIPELINES {
        let [with, without] = [stage.with("sh", &["-c", script]), plain(script)].map(|mut command| {
            let ran = command.output().expect("every system has a shell");
            (ran.status.code(), String::from_utf8(ran.stdout).expect("text"))
        });
        assert_eq!(with, without, "{script}");
    }
    let can_tell = has_lanes("pipelines_write_the_same_bytes_as_without: that any of them had a lane");
    assert!(!can_tell || stage.changed() != before, "none of them had a lane");
}

fn plain(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// One of `alone.c` and `random.c`, compiled with these words, and without the bytes of a system call in it, which it could have by chance. None, and it is said, where
/// there is no compiler, or no program has a lane.
fn alone(test: &str, stage: &Stage, words: &[&str]) -> Option<String> {
    compiled("alone", test, stage, words)
}

fn compiled(name: &str, test: &str, stage: &Stage, words: &[&str]) -> Option<String> {
    const SYSTEM_CALLS: [[u8; 2]; 2] = [[0x0f, 0x05], [0x0f, 0x34]];
    if !has_lanes(test) {
        return None;
    }
    if !Command::new("cc").arg("--version").output().is_ok_and(|said| said.status.success()) {
        eprintln!("not tested: {test}: there is no C compiler (cc)");
        return None;
    }
    let program = stage.file(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let made = (0..16).find_map(|pad| {
        let padded = format!("-DPAD={pad}");
        let made = Command::new("cc").args(["-O0", "-w", &padded, "-o", &program]).arg(&source).args(words).output();
        let made = made.expect("as above");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let file = std::fs::read(&program).expect("cc made it");
        (!file.windows(2).any(|pair| SYSTEM_CALLS.iter().any(|call| pair == call))).then(|| program.clone())
    });
    assert!(made.is_some(), "it has no system call of its own");
    made
}

/// What the program says that is run with these words, and may have so many descriptors. It has no pipe but its own.
fn said(stage: &Stage, program: &str, words: &[&str], descriptors: u32) -> String {
    let out = stage.file("out");
    let script = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\" < /dev/null > '{out}' 2>&1");
    let status = stage.with("sh", &["-c", &script, program]).args(words).status().expect("every system has a shell");
    assert!(status.success(), "{words:?}: {status:?}");
    std::fs::read_to_string(out).expect("the shell made it").trim().to_owned()
}

const MANY: u32 = 256;

/// The answer of a program that has a lane if it can, or another one where no lane can be had any more.
fn with_lane(wanted: &str, said: &str, test: &str) {
    assert!(said == wanted || (!said.contains("lane") && !has_lanes(test)), "{said} and not {wanted}");
}

#[test]
fn a_program_that_exports_nothing_is_judged_by_all_that_it_imports() {
    const TEST: &str = "a_program_that_exports_nothing_is_judged_by_all_that_it_imports";
    let stage = Stage::new("imports");
    for kind in [&["-no-pie"][..], &["-pie", "-fPIE"]] {
        let Some(program) = alone(TEST, &stage, kind) else { return };
        with_lane("lane", &said(&stage, &program, &["lane"], MANY), TEST);
        let starts = [kind, &["-DSTARTS"]].concat();
        let Some(program) = alone(TEST, &stage, &starts) else { return };
        assert_eq!(said(&stage, &program, &["enough"], MANY), "none", "{starts:?}: it may start a program");
    }
}

#[test]
fn a_pipe_that_a_program_has_made_itself_is_its_own_without_a_look_at_others() {
    let stage = Stage::new("own");
    let Some(program) = alone("a_pipe_that_a_program_has_made_itself", &stage, &["-no-pie"]) else { return };
    assert_eq!(said(&stage, &program, &["own"], MANY), "lane", "after 300 calls, whatever else runs on the machine");
}

#[test]
fn a_program_that_may_be_in_a_handler_is_left_as_it_is() {
    let stage = Stage::new("handles");
    let Some(program) = alone("a_program_that_may_be_in_a_handler_is_left_as_it_is", &stage, &["-no-pie"]) else {
        return;
    };
    assert_eq!(said(&stage, &program, &["handles"], MANY), "none", "it has a handler when it makes its first pipe");
}

#[test]
fn no_lane_begins_in_a_handler_behind_which_the_kernel_goes_on_with_a_call() {
    const TEST: &str = "no_lane_begins_in_a_handler_behind_which_the_kernel_goes_on_with_a_call";
    let stage = Stage::new("restarts");
    let Some(program) = alone(TEST, &stage, &["-no-pie"]) else { return };
    for (way, last) in [("read", "1 m lane"), ("write", "4096 4096 1 lane")] {
        let mut child = stage.with(&program, &[way]).stdout(Stdio::piped()).spawn().expect("cc made it");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        assert_eq!(line(), "ready");
        // The only place where it sleeps is the call that is to be interrupted.
        until("it sleeps", || {
            let facts = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it is there");
            facts.rsplit_once(')').is_some_and(|(_, behind)| behind.starts_with(" S")).then_some(())
        });
        // SAFETY: a signal for this test's own program, which is there.
        unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
        let in_handler = line();
        if in_handler != "none" {
            child.kill().expect("ours");
        }
        assert_eq!(in_handler, "none", "{way}: within the handler");
        with_lane(last, &line(), TEST);
        assert!(child.wait().expect("ours").success());
    }
}

#[test]
fn an_end_that_is_asked_for_signals_has_no_lane() {
    let stage = Stage::new("signals");
    let Some(program) = alone("an_end_that_is_asked_for_signals_has_no_lane", &stage, &["-no-pie"]) else { return };
    assert_eq!(said(&stage, &program, &["reader"], MANY), "20000", "one for each write");
    assert_eq!(said(&stage, &program, &["writer"], MANY), "none");
}

#[test]
fn a_lane_that_cannot_be_left_fails_each_call_until_it_can() {
    const TEST: &str = "a_lane_that_cannot_be_left_fails_each_call_until_it_can";
    const FEW: u32 = 40;
    let stage = Stage::new("full");
    let Some(program) = alone(TEST, &stage, &["-no-pie"]) else { return };
    with_lane("lane 1 1 6 first second", &said(&stage, &program, &["full"], FEW), TEST);
    let file = stage.file("another");
    // Nothing goes into the file that has the number of a closed end.
    with_lane("lane 0 5 first", &said(&stage, &program, &["closed", &file], FEW), TEST);
}

/// As many calls as this from each seed are answered with the library as without.
fn same_answers(test: &str, seeds: std::ops::Range<u64>, calls: u64) {
    let stage = Stage::new("random");
    let Some(program) = compiled("random", test, &stage, &[]) else { return };
    for seed in seeds {
        let before = stage.changed();
        let words = [seed.to_string(), calls.to_string()];
        let [with, without] = [stage.with(&program, &[]), Command::new(&program)].map(|mut command| {
            let ran = command.args(&words).stdin(Stdio::null()).output().expect("cc made it");
            assert!(ran.status.success(), "seed {seed}: {:?}", ran.status);
            String::from_utf8(ran.stdout).expect("text")
        });
        let differ = with.lines().zip(without.lines()).find(|(with, without)| with != without);
        assert_eq!((differ, with.len()), (None, without.len()), "seed {seed}: within the thousand calls before these");
        assert!(stage.changed() != before, "seed {seed}: no lane was begun");
    }
}

#[test]
fn random_calls_on_pipes_are_answered_as_without() {
    same_answers("random_calls_on_pipes_are_answered_as_without", 1..5, 20_000);
}

#[test]
#[ignore = "storm: ten million calls"]
fn ten_million_random_calls_on_pipes_are_answered_as_without() {
    same_answers("ten_million_random_calls_on_pipes_are_answered_as_without", 100..110, 1_000_000);
}

#[test]
#[ignore = "storm: kills"]
fn a_program_killed_between_two_pipes_leaves_the_others_a_beginning_of_the_stream() {
    let stage = Stage::new("kills");
    let all: String = (0..5_000_000).map(|n| format!("{n}\n")).collect();
    let [stream, out] = ["stream", "out"].map(|name| stage.file(name));
    std::fs::write(&stream, &all).expect("room");
    std::fs::write(&out, "").expect("room");
    let before = stage.changed();
    for round in 0..1000u32 {
        let [(first, to_second), (second, to_third)] = [(); 2].map(|()| std::io::pipe().expect("a pipe"));
        let cat = |input: Stdio, output: Stdio| {
            stage.with("cat", &[]).stdin(input).stdout(output).spawn().expect("every system has it")
        };
        let open = |path: &str| std::fs::File::open(Path::new(path)).expect("it is there");
        let mut all_three = [
            cat(open(&stream).into(), to_second.into()),
            cat(first.into(), to_third.into()),
            cat(second.into(), std::fs::File::create(&out).expect("room").into()),
        ];
        // From before the lanes until behind the end.
        std::thread::sleep(Duration::from_micros(u64::from(round % 250) * 300));
        let victim = (round % 3) as usize;
        all_three[victim].kill().expect("ours");
        let statuses = all_three.map(|mut child| until("they end", || child.try_wait().expect("ours")).code());
        // Whoever wrote to the killed one is killed by SIGPIPE, if it was not done.
        assert!(statuses.iter().skip(victim + 1).all(|status| *status == Some(0)), "round {round}: {statuses:?}");
        assert!(statuses.iter().all(|status| status.is_none_or(|status| status == 0)), "round {round}: {statuses:?}");
        let got = std::fs::read(&out).expect("the last one made it");
        assert!(all.as_bytes().starts_with(&got), "round {round}: other bytes within {}", got.len());
        if statuses[1..].iter().all(|status| *status == Some(0)) && statuses[0] == Some(0) {
            assert_eq!(got.len(), all.len(), "round {round}");
        }
    }
    let can_tell = has_lanes("a_program_killed_between_two_pipes: that any of them had a lane");
    assert!(!can_tell || stage.changed() != before, "none of them had a lane");
}
