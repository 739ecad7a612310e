//! Unmodified programs with this library and without: the same bytes, statuses and ends, whether their pipes had lanes or not.

#[path = "../../pipes/tests/machine/mod.rs"]
mod machine;

use chappe_pipes::Run;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
        Stage { said: format!("{since}:{processes}:{times}:{}", folder.display()), folder }
    }

    fn with(&self, program: &str, arguments: &[&str]) -> Command {
        let library = std::env::current_exe().expect("this test is a file").with_file_name("libchappe_io.so");
        assert!(library.is_file(), "cargo puts it beside the tests: {}", library.display());
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", library).env("CHAPPE_RUN_IO", &self.said);
        command
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

/// Whether programs can have lanes here. If not, says what is not tested.
fn has_lanes(test: &str) -> bool {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let is_told = Run::of_this_process().is_ok_and(|run| run.others(reader.as_raw_fd()).is_some());
    let has = cfg!(all(target_arch = "x86_64", target_env = "gnu")) && is_told;
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
    until("both have a lane", || (has_lane(&writer, &stage) && has_lane(&reader, &stage)).then_some(()));
    // The reader removes it as soon as it is there.
    until("the file is gone", || {
        let files = std::fs::read_dir(&stage.folder).expect("ours");
        (!files.flatten().any(|file| file.file_name().to_string_lossy().parse::<u64>().is_ok())).then_some(())
    });
    // SAFETY: a signal for this test's own program, which runs until then.
    unsafe { libc::kill(reader.trim().parse().expect("a number"), libc::SIGTERM) };
    assert!(shell.wait().is_ok(), "the writer is told that nobody reads");
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
    for script in PIPELINES {
        let [with, without] = [stage.with("sh", &["-c", script]), plain(script)].map(|mut command| {
            let ran = command.output().expect("every system has a shell");
            (ran.status.code(), String::from_utf8(ran.stdout).expect("text"))
        });
        assert_eq!(with, without, "{script}");
    }
}

fn plain(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
#[ignore = "storm: kills"]
fn a_program_killed_between_two_pipes_leaves_the_others_a_beginning_of_the_stream() {
    let stage = Stage::new("kills");
    let all: String = (0..5_000_000).map(|n| format!("{n}\n")).collect();
    let [stream, out] = ["stream", "out"].map(|name| stage.file(name));
    std::fs::write(&stream, &all).expect("room");
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
}
