//! Table 7.1 of the Synthesis thesis: the seven programs of its appendix A, as they are printed there, compiled, and run by the kernel and under
//! `chappe run --io`.
//!
//! The programs that write and read a pipe are there a second time with a hundred times as many rounds, which the start of a process does not hide.

use crate::house::House;
use crate::table::{Aim, Case, Table, times};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const COMPUTE: &str = include_str!("../c/appendix/compute.c");
const PIPE: &str = include_str!("../c/appendix/pipe.c");
const DEVICE: &str = include_str!("../c/appendix/device.c");
const FILE: &str = include_str!("../c/appendix/file.c");

/// How often a program is run for one figure: what starts them is in it once.
const RUNS: u32 = 20;
const PASSES_OF_LONG_ONES: u32 = 3;

/// A program of the table, and what is printed to be changed in it.
struct Program {
    name: &'static str,
    text: String,
    runs: u32,
}

fn programs() -> Vec<Program> {
    let all = [
        ("1, compute", COMPUTE.to_owned()),
        ("2, pipe, 1 B", with_size(PIPE, 1)),
        ("3, pipe, 1,024 B", PIPE.to_owned()),
        ("4, pipe, 4,096 B", with_size(PIPE, 4096)),
        ("5, file", FILE.to_owned()),
        ("6, open and close /dev/null", DEVICE.to_owned()),
        ("7, open and close /dev/tty, or be refused", replaced(DEVICE, "\"/dev/null\" ", "\"/dev/tty\" ")),
    ];
    all.into_iter().map(|(name, text)| Program { name, text, runs: RUNS }).collect()
}

/// The same with a million rounds, and the most of the kernel's processor time that we want each to take.
fn long_ones() -> [(Program, f64); 3] {
    let sizes = [("1 B", 1, 0.05), ("1,024 B", 1024, 0.1), ("4,096 B", 4096, 0.3)];
    sizes.map(|(name, size, most)| {
        let text = replaced(&with_size(PIPE, size), "i=10000;", "i=1000000;");
        (Program { name, text, runs: 1 }, most)
    })
}

fn with_size(text: &str, size: u32) -> String {
    replaced(text, "#define N      1024 ", &format!("#define N      {size} "))
}

fn replaced(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{old}");
    text.replace(old, new)
}

/// What runs the programs.
struct Desk<'a> {
    folder: PathBuf,
    chappe: &'a Path,
}

impl Desk<'_> {
    /// The program's file.
    fn compile(&self, number: usize, program: &Program) -> Result<PathBuf, String> {
        let file = self.folder.join(format!("program{number}"));
        let source = file.with_extension("c");
        std::fs::write(&source, &program.text).map_err(|e| format!("{}: {e}", source.display()))?;
        // The C of its time: functions without types, and none declared.
        let made = Command::new("cc").args(["-std=gnu89", "-w", "-O1", "-o"]).arg(&file).arg(&source).output();
        let made = made.map_err(|_| "there is no C compiler (cc)".to_owned())?;
        if made.status.success() { Ok(file) } else { Err(String::from_utf8_lossy(&made.stderr).into_owned()) }
    }

    /// Nanoseconds of processor time that a shell takes which runs this so often.
    fn took(&self, program: &Path, runs: u32, is_emulated: bool) -> f64 {
        let script = "i=0; while [ $i -lt $1 ]; do \"$0\"; i=$((i+1)); done";
        let mut command = Command::new(if is_emulated { self.chappe } else { Path::new("sh") });
        if is_emulated {
            command.args(["run", "--io", "--", "sh"]);
        }
        command.args(["-c", script]).arg(program).arg(runs.to_string());
        let child = command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (mut status, mut used) = (0, std::mem::MaybeUninit::<libc::rusage>::uninit());
        // SAFETY: our own child, for which nobody else waits; places for what is told.
        let used = unsafe {
            assert_eq!(libc::wait4(child.id() as i32, &raw mut status, 0, used.as_mut_ptr()), child.id() as i32);
            used.assume_init()
        };
        // None of them says how it ends, as they have no `return`; but none is killed.
        assert!(libc::WIFEXITED(status), "{command:?}: {status}");
        let nanoseconds = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
        nanoseconds(used.ru_utime) + nanoseconds(used.ru_stime)
    }

    /// By the kernel, and by chappe: of one run, without what runs it.
    fn measure(&self, title: String, file: &Path, runs: u32, rounds: u32) -> Table {
        let case = |name: &str, is_emulated| {
            Case::new(name, move || {
                let start = self.took(file, 0, is_emulated);
                (self.took(file, runs, is_emulated) - start).max(0.0) / f64::from(runs)
            })
        };
        Table::measure(title, rounds, vec![case(KERNEL, false), case(CHAPPE, true)])
    }
}

const KERNEL: &str = "kernel";
const CHAPPE: &str = "chappe run --io";

/// Measures and prints: processor time, as the thesis does. `chappe`: the command, with its libraries beside it.
///
/// # Errors
/// There is no C compiler, or the command cannot run programs so.
pub fn measure(house: &House, chappe: &Path, rounds: u32) -> Result<(), String> {
    let tried = Command::new(chappe).args(["run", "--io", "--", "true"]).output();
    let tried = tried.map_err(|_| format!("there is no {}", chappe.display()))?;
    if !tried.status.success() {
        return Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned());
    }
    let desk = Desk { folder: house.path().join("appendix"), chappe };
    std::fs::create_dir_all(&desk.folder).map_err(|e| format!("{}: {e}", desk.folder.display()))?;
    let programs = programs();
    let short = programs.len();
    for (number, program) in programs.into_iter().enumerate() {
        let file = desk.compile(number, &program)?;
        print!("{}", desk.measure(format!("table 7.1, {}", program.name), &file, program.runs, rounds).report());
    }
    let mut aims = Vec::new();
    for (number, (program, most)) in long_ones().into_iter().enumerate() {
        let file = desk.compile(short + number, &program)?;
        let title = format!("table 7.1, a pipe in a million rounds of {}", program.name);
        let table = desk.measure(title, &file, program.runs, rounds.min(PASSES_OF_LONG_ONES));
        print!("{}", table.report());
        aims.push(Aim::at_most(format!("of the kernel's, {}", program.name), most, table.ratio(CHAPPE), times));
    }
    println!("{}", Aim::report(&aims));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seven_programs_differ_only_where_the_thesis_says_so() {
        let texts: Vec<String> = programs().into_iter().map(|program| program.text).collect();
        let sizes = |at: usize| texts[at].lines().find(|line| line.contains("define N")).map(str::to_owned);
        assert_eq!(texts.len(), 7);
        assert_eq!(sizes(1).as_deref(), Some("#define N      1    /* or 1 or 4096 */"));
        assert_eq!(sizes(3).as_deref(), Some("#define N      4096    /* or 1 or 4096 */"));
        assert!(texts[6].contains("\"/dev/tty\"") && texts[5].contains("\"/dev/null\""));
        assert!(long_ones().iter().all(|(program, _)| program.text.contains("i=1000000;")));
    }
}
