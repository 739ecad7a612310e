//! What the guide shows is true: each command line in it runs, and prints what the guide says. See `book/README.md` for the blocks.

use crate::place::{CHAPPE, Place};
use std::path::{Path, PathBuf};

/// A part of a chapter that is not prose.
#[derive(Debug, Default)]
struct Block {
    line: usize,
    script: String,
    /// What it prints; a hidden one prints nothing that matters.
    prints: Option<String>,
    /// Whether it needs an engine.
    engine: bool,
}

/// What a chapter shows of a file that is tested elsewhere.
#[derive(Debug)]
struct Quotation {
    line: usize,
    file: String,
    text: String,
}

impl Quotation {
    /// Whether the file has these lines, one behind the other, whatever their indentation.
    fn is_true(&self) -> bool {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&self.file);
        let Ok(whole) = std::fs::read_to_string(path) else { return false };
        let lines = |text: &str| -> Vec<String> {
            text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect()
        };
        let (there, shown) = (lines(&whole), lines(&self.text));
        !shown.is_empty() && there.windows(shown.len()).any(|part| part == shown)
    }
}

fn chapters() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src");
    let all = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    all.sort();
    all
}

/// The blocks of a chapter, in order, and what it shows of files.
fn blocks(text: &str) -> (Vec<Block>, Vec<Quotation>) {
    let (mut all, mut quotations) = (Vec::<Block>::new(), Vec::new());
    let mut lines = (1..).zip(text.lines());
    // Whether an `output` would belong to the last block.
    let mut behind = false;
    while let Some((at, line)) = lines.next() {
        let mut until = |end: &str| {
            let body: Vec<&str> = lines.by_ref().map(|(_, l)| l).take_while(|l| *l != end).collect();
            body.iter().map(|l| format!("{l}\n")).collect::<String>()
        };
        match line {
            "```sh,run" | "```sh,engine" => {
                let engine = line == "```sh,engine";
                all.push(Block { line: at, script: until("```"), prints: Some(String::new()), engine });
                behind = true;
            }
            "<!-- run" => {
                all.push(Block { line: at, script: until("-->"), prints: None, engine: false });
                behind = false;
            }
            "```output" => {
                assert!(behind, "line {at}: output of nothing");
                all.last_mut().expect("there is one").prints = Some(until("```"));
                behind = false;
            }
            // Pictures of protocols are `text`.
            "```python" | "```text" => drop(until("```")),
            other if let Some((_, file)) = other.strip_prefix("```").and_then(|o| o.split_once(",from=")) => {
                quotations.push(Quotation { line: at, file: file.to_owned(), text: until("```") });
                behind = false;
            }
            other => {
                assert!(!other.trim_start().starts_with("```"), "line {at}: `{other}` is shown and not run");
                behind &= other.is_empty();
            }
        }
    }
    (all, quotations)
}

/// Between what blocks print.
const MARK: char = '\u{1e}';

/// The same text, whichever user ran it, when and where.
fn normal(text: &str, arenas: &Path) -> String {
    let text = text.replace(&arenas.display().to_string(), "/dev/shm/chappe-1000");
    let line = |line: &str| {
        let mut before = "";
        let mut words = Vec::new();
        for word in line.split(' ') {
            let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != ':').unwrap_or(word.len());
            let (bare, rest) = word.split_at(end);
            let is_number = !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
            let is_time = bare.len() == 8 && bare.matches(':').count() == 2;
            let is_long = bare.starts_with(|c: char| c.is_ascii_digit()) && bare.ends_with(['s', 'm', 'h']);
            words.push(match before.trim_start_matches('`') {
                "pid" | "-CONT" | "-9" if is_number => format!("N{rest}"),
                "for" | "least" if is_long => format!("D{rest}"),
                "since" if is_time => format!("T{rest}"),
                _ => word.to_owned(),
            });
            before = word;
        }
        words.join(" ")
    };
    text.lines().map(|l| line(l) + "\n").collect()
}

/// Whether the lines are those that are expected, where `...` stands for any.
fn fits(expected: &[&str], found: &[&str]) -> bool {
    match expected {
        [] => found.is_empty(),
        ["...", rest @ ..] => (0..=found.len()).any(|skip| fits(rest, &found[skip..])),
        [first, rest @ ..] => found.first() == Some(first) && fits(rest, &found[1..]),
    }
}

/// Ends whatever a chapter has left running: all that knows of its directory.
struct LeftOver(String);

impl Drop for LeftOver {
    fn drop(&mut self) {
        let wanted = format!("CHAPPE_DIR={}", self.0);
        let ours = std::process::id();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if pid != ours && environ.split(|b| *b == 0).any(|v| v == wanted.as_bytes()) {
                // SAFETY: a plain system call; it may have ended meanwhile.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            }
        }
    }
}

/// Runs a chapter's blocks in one shell, with more in its environment. Answers what each printed, and its status.
fn run(all: &[Block], here: &Place, more: &[(&str, &Path)]) -> Vec<(String, String)> {
    let mut script = String::new();
    for block in all {
        script += &format!("{}\nprintf '{MARK}%s{MARK}' $?\n", block.script.trim_end());
    }
    std::fs::write(here.file("chapter"), script).unwrap();
    let binaries = Path::new(CHAPPE).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    // Not to pipes: what it leaves running would keep them open.
    let (out, err) = (here.file("out"), here.file("err"));
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    let mut shell = here.program("bash", &["chapter"]);
    shell.envs(more.iter().copied());
    let ended = Place::spawn(shell.env("PATH", path).stdout(file(&out)).stderr(file(&err))).status();
    let (out, err) = (std::fs::read_to_string(out).unwrap(), std::fs::read_to_string(err).unwrap());
    assert!(ended.success(), "{ended}: {err}");
    let parts: Vec<&str> = out.split(MARK).collect();
    let each: Vec<_> = parts.chunks_exact(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
    assert_eq!(each.len(), all.len(), "{err}");
    each
}

#[test]
fn the_guide_shows_what_happens() {
    for chapter in chapters() {
        let here = Place::new();
        let (mut all, quotations) = blocks(&std::fs::read_to_string(&chapter).unwrap());
        // The first build has no graphs; that it says so is tested elsewhere.
        all.retain(|b| !b.engine && (cfg!(feature = "graph") || !b.script.contains("chappe graph ")));
        for q in quotations {
            assert!(q.is_true(), "{}, line {}: {} has no such lines", chapter.display(), q.line, q.file);
        }
        check(&chapter, &all, &here, &[]);
    }
}

fn check(chapter: &Path, all: &[Block], here: &Place, more: &[(&str, &Path)]) {
    let _left = LeftOver(here.arenas().display().to_string());
    for (block, (printed, status)) in all.iter().zip(run(all, here, more)) {
        let at = format!("{}, line {}:\n{}", chapter.display(), block.line, block.script);
        assert_eq!(status, "0", "{at}");
        let Some(prints) = &block.prints else { continue };
        let (expected, found) = (normal(prints, &here.arenas()), normal(&printed, &here.arenas()));
        let lines = |text| str::lines(text).collect::<Vec<_>>();
        assert!(fits(&lines(&expected), &lines(&found)), "{at}prints:\n{printed}and not:\n{prints}");
    }
}

/// What needs an engine of a chapter does what it shows, with this directory of configuration.
#[cfg(feature = "remote")]
pub fn with_an_engine(chapter: &str, config: &Path) {
    let chapter = chapters().into_iter().find(|path| path.ends_with(chapter)).expect("a chapter");
    let mut all = blocks(&std::fs::read_to_string(&chapter).unwrap()).0;
    all.retain(|b| b.engine);
    assert!(!all.is_empty());
    check(&chapter, &all, &Place::new(), &[("XDG_CONFIG_HOME", config)]);
}

#[test]
fn every_command_that_the_guide_names_is_there() {
    let here = Place::new();
    let is_word = |w: &&str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase());
    for chapter in chapters() {
        let text = std::fs::read_to_string(&chapter).unwrap();
        let prose = text.lines().filter(|l| !l.starts_with("    "));
        for named in prose.flat_map(|l| l.split('`').skip(1).step_by(2)).filter_map(|n| n.strip_prefix("chappe ")) {
            let words: Vec<&str> = named.split(' ').take_while(is_word).collect();
            let Some(first) = words.first() else { continue };
            // A group of commands, or a command and what it is about.
            let group = ["pool", "sem", "barrier", "tube", "arena", "term"].contains(first);
            let asked = words.iter().take(if group { 2 } else { 1 }).copied();
            let command: Vec<&str> = if *first == "help" { words.clone() } else { asked.chain(["--help"]).collect() };
            // A program of its own, which the gate does not build.
            if *first == "lab" && here.run(&command).err.contains("there is no chappe-lab beside this program") {
                continue;
            }
            let help = here.ok(&command);
            // What stands behind `--` are another program's.
            let options = named.split(' ').take_while(|w| *w != "--").filter(|w| w.starts_with("--"));
            for option in options.filter_map(|option| option.split('=').next()) {
                assert!(help.contains(option), "{}: `chappe {named}`: there is no {option}", chapter.display());
            }
        }
    }
}

#[test]
fn a_block_of_the_guide_that_is_not_run_is_caught() {
    let text = "# A\n\n```sh,run\nls\n```\n\n```output\na\n```\n<!-- run\ntrue\n-->\n```sh,run\npwd\n```\n";
    let (all, quotations) = blocks(text);
    assert!(quotations.is_empty());
    assert_eq!(
        all.iter().map(|b| (b.line, b.prints.as_deref())).collect::<Vec<_>>(),
        [(3, Some("a\n")), (10, None), (13, Some(""))]
    );
    for bad in [
        "```sh\nls\n```\n",
        "```rust\nls();\n```\n",
        "```\nls\n```\n",
        "```sh,run\nls\n```\nprose\n```output\na\n```\n",
    ] {
        assert!(std::panic::catch_unwind(|| blocks(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_quotation_in_the_guide_stands_in_its_file() {
    let quoted = |text: &str| {
        let (all, quotations) = blocks(&format!("```rust,from=crates/cli/src/main.rs\n{text}```\n"));
        assert!(all.is_empty() && quotations.len() == 1);
        quotations[0].is_true()
    };
    let main = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")).unwrap();
    let lines: Vec<&str> = main.lines().filter(|l| !l.trim().is_empty()).take(3).collect();
    let (whole, gap) =
        (format!("  {}\n\n{}\n{}\n", lines[0], lines[1], lines[2]), format!("{}\n{}\n", lines[0], lines[2]));
    assert!(quoted(&whole) && !quoted(&gap) && !quoted("") && !quoted("nothing of the kind\n"));
    assert!(!blocks("```c,from=nowhere.c\n#include <chappe.h>\n```\n").1[0].is_true());
}

#[test]
fn the_rust_of_the_readme_is_that_of_a_test() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let shown = text.split("```rust\n").skip(1).map(|rest| rest.split("```").next().expect("a part").to_owned());
    let shown: Vec<_> =
        shown.map(|text| Quotation { line: 0, file: "crates/chappe/tests/guide.rs".into(), text }).collect();
    assert!(!shown.is_empty() && shown.iter().all(Quotation::is_true), "{shown:?}");
}

#[test]
fn only_what_differs_from_run_to_run_may_differ() {
    let arenas = Path::new("/dev/shm/x/arenas");
    let same = |a: &str, b: &str| normal(a, arenas) == normal(b, arenas);
    assert!(same("in /dev/shm/chappe-1000: 1", "in /dev/shm/x/arenas: 1"));
    let held = |pid: u32, long: &str| {
        format!("  gpu  held by pid {pid} `sleep 9` for {long}, since 10:32:0{}, leased", pid % 10)
    };
    assert!(same(&held(1, "2s"), &held(4242, "1m03s")));
    assert!(same("`kill -CONT 3` or `kill -9 3`", "`kill -CONT 44` or `kill -9 44`"));
    for (a, b) in
        [("1 free", "2 free"), ("pid 1 `a`", "pid 1 `b`"), ("permit 0", "permit 1"), ("`sleep 9`", "`sleep 8`")]
    {
        assert!(!same(a, b), "{a}");
    }
    assert!(fits(&["a", "...", "c"], &["a", "b", "b", "c"]) && fits(&["..."], &[]) && fits(&["a", "..."], &["a"]));
    assert!(!fits(&["a"], &["a", "b"]) && !fits(&["...", "c"], &["c", "d"]) && !fits(&["a"], &[]));
}
