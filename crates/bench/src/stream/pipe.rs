//! `chappe pipe` beside the plain shell: a device of 1 kHz under hogs, a step of load, and a pipeline that needs no help.
//!
//! The device makes 192 bytes each millisecond, and loses what finds its pipe full (4 KB: 21 blocks). Three stages take 150, 150 and 20 us of processor
//! for each block; eight hogs compute beside them. In the step the first takes 700 us from the middle on. *Late* is a block that is older than 33 ms when the last
//! stage is done with it, or was lost.

use super::part;
use crate::process::now;
use crate::table::{Aim, Table, Unit, times};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Blocks of a run.
const BLOCKS: u64 = 3_000;
const STEP: u64 = 1_500;
const HOGS: usize = 8;
/// Microseconds.
const LATE: u64 = 33_000;

/// How a pipeline is run.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Shell,
    Nice,
    /// With the first means to try.
    Chappe(&'static str),
}

/// What one run came to.
#[derive(Clone, Copy, Default)]
struct Ran {
    lost: f64,
    late: f64,
    /// The oldest block, in milliseconds.
    oldest: f64,
    /// Milliseconds from the step to the last block that is older than a quarter of what the first pipe holds.
    settled: f64,
    /// Reserved by used.
    reserved: f64,
}

struct Bench<'a> {
    chappe: &'a Path,
    own: PathBuf,
    room: PathBuf,
}

impl Bench<'_> {
    fn part(&self, words: &str) -> String {
        format!("{} {} {words}", self.own.display(), part::WORD)
    }

    /// A shell's command line, run one way or the other.
    fn command(&self, how: How, line: &str) -> Command {
        let mut command = match how {
            How::Shell => Command::new("sh"),
            How::Nice => Command::new("nice"),
            How::Chappe(_) => Command::new(self.chappe),
        };
        match how {
            How::Shell => command.args(["-c", line]),
            How::Nice => command.args(["-n", "-20", "sh", "-c", line]),
            How::Chappe(means) => command.args(["--json", "pipe", "--quiet", "--means", means, line]),
        };
        command
    }

    fn hogs(&self) -> Vec<Child> {
        let hog = |_| Command::new(&self.own).args([part::WORD, "hog"]).spawn().expect("a hog");
        (0..HOGS).map(hog).collect()
    }

    /// One run of the device: the first stage takes `us`, and `then` from the step on.
    fn device(&self, how: How, us: u64, then: u64) -> Ran {
        let (lost, ages) = (self.room.join("lost"), self.room.join("ages"));
        for file in [&lost, &ages, &self.room.join("lost.ready")] {
            let _ = std::fs::remove_file(file);
        }
        let stage = self.part(&format!("stage {us} {then} {STEP}"));
        let second = self.part("stage 150 150 0");
        let line = format!("{stage} | {second} | {}", self.part(&format!("sink 20 {}", ages.display())));
        let mut hogs = self.hogs();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = self.command(how, &line);
        let mut pipeline = command.stdin(reader).stderr(Stdio::piped()).spawn().expect("a pipeline");
        drop(command);
        let mut device = Command::new(&self.own);
        device.args([part::WORD, "device", &BLOCKS.to_string(), &lost.display().to_string()]).stdout(writer);
        let mut made = device.spawn().expect("a device");
        drop(device);
        made.wait().expect("its end");
        let mut said = String::new();
        let err = pipeline.stderr.take().expect("a pipe");
        let _ = std::io::read_to_string(err).map(|text| said = text);
        pipeline.wait().expect("its end");
        for hog in &mut hogs {
            let _ = hog.kill();
            let _ = hog.wait();
        }
        ran(&lost, &ages, &said)
    }

    /// Seconds of a pipeline that nothing has to keep up with.
    fn throughput(&self, how: How, line: &str) -> f64 {
        let began = now();
        let status = self.command(how, line).stderr(Stdio::null()).stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|s| s.success()), "`{line}` fails");
        (now() - began) as f64
    }
}

/// A number behind a name in JSON: the first, or the last.
fn field(text: &str, name: &str, last: bool) -> Option<f64> {
    let key = format!("\"{name}\":");
    let at = if last { text.rfind(&key) } else { text.find(&key) }? + key.len();
    let end = text[at..].find([',', '}']).unwrap_or(text.len() - at);
    text[at..at + end].parse().ok()
}

fn ran(lost: &Path, ages: &Path, said: &str) -> Ran {
    let lost: f64 = std::fs::read_to_string(lost).ok().and_then(|t| t.parse().ok()).unwrap_or(f64::NAN);
    let ages = std::fs::read_to_string(ages).unwrap_or_default();
    let ages: Vec<(u64, u64)> = ages
        .lines()
        .filter_map(|l| {
            let (number, age) = l.split_once(' ')?;
            Some((number.parse().ok()?, age.parse().ok()?))
        })
        .collect();
    let old = ages.iter().filter(|(_, age)| *age > LATE).count();
    let oldest = ages.iter().map(|(_, age)| *age).max().unwrap_or(0);
    let behind =
        ages.iter().rfind(|(number, age)| *number >= STEP && *age > 10_000).map_or(0, |(number, _)| number - STEP);
    let ended = said.lines().find(|l| l.contains("\"event\":\"ended\"")).unwrap_or_default();
    // Keys are sorted: the whole's come before and behind the stages'.
    let reserved = field(ended, "reserved", false).zip(field(ended, "used", true)).map_or(f64::NAN, |(r, u)| r / u);
    Ran { lost, late: lost + old as f64, oldest: oldest as f64 / 1e3, settled: behind as f64, reserved }
}

fn rows(name: &str, rows: &[(&str, Vec<Ran>)], of: fn(&Ran) -> f64) -> Table {
    let rows = rows.iter().map(|(name, all)| ((*name).to_owned(), all.iter().map(of).collect()));
    Table::counted(name, Unit::Count, rows.collect())
}

/// A column of whole numbers for each run, as no median shows them.
fn each(title: &str, all: &[(&str, Vec<Ran>)], of: fn(&Ran) -> f64) -> String {
    let line = |(name, runs): &(&str, Vec<Ran>)| {
        let numbers: Vec<String> = runs.iter().map(|r| format!("{:.0}", of(r))).collect();
        format!("  {name:<40} {}\n", numbers.join(" "))
    };
    format!("\n{title}\n{}", all.iter().map(line).collect::<String>())
}

/// Measures and prints.
///
/// # Errors
/// What is missing.
pub fn measure(chappe: &Path, runs: usize) -> Result<Vec<Aim>, String> {
    let room = PathBuf::from(format!("/dev/shm/chappe-stream-{}", std::process::id()));
    std::fs::create_dir(&room).map_err(|e| format!("cannot make {}: {e}", room.display()))?;
    let own = std::env::current_exe().map_err(|e| format!("a program has a file: {e}"))?;
    let bench = Bench { chappe, own, room };
    let kinds = [
        ("plain shell", How::Shell),
        ("nice -n -20", How::Nice),
        ("chappe pipe", How::Chappe("deadline")),
        ("chappe pipe --means weight", How::Chappe("weight")),
        ("chappe pipe --means nice", How::Chappe("nice")),
    ];
    let mut steady: Vec<(&str, Vec<Ran>)> = kinds.iter().map(|(name, _)| (*name, Vec::new())).collect();
    let mut step = vec![("plain shell", Vec::new()), ("chappe pipe", Vec::new())];
    for _ in 0..runs {
        for (row, (_, how)) in steady.iter_mut().zip(kinds) {
            row.1.push(bench.device(how, 150, 150));
        }
        step[0].1.push(bench.device(How::Shell, 150, 700));
        step[1].1.push(bench.device(How::Chappe("deadline"), 150, 700));
    }
    print!("{}", each(&format!("lost of {BLOCKS} blocks, each run"), &steady, |r| r.lost));
    print!("{}", each("oldest block in ms, each run", &steady, |r| r.oldest));
    print!("{}", each("150 to 700 us: lost or older than 33 ms", &step, |r| r.late));
    print!("{}", each("150 to 700 us: ms until blocks are younger than 10 ms for good", &step, |r| r.settled));
    let reserved = rows("reserved by used", &steady[2..3], |r| r.reserved);
    print!("{}", reserved.report());
    // What is there on every machine, as an archive; twice to have it in memory.
    let line = "tar cf - -C /usr/share doc locale 2>/dev/null | gzip -1 | cat >/dev/null";
    bench.throughput(How::Shell, line);
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for round in 0..runs {
        let one = |how, to: &mut Vec<f64>| to.push(bench.throughput(how, line));
        if round % 2 == 0 {
            one(How::Shell, &mut plain);
            one(How::Chappe("deadline"), &mut ours);
        } else {
            one(How::Chappe("deadline"), &mut ours);
            one(How::Shell, &mut plain);
        }
    }
    let table = Table::of("tar | gzip -1 | cat", vec![("plain shell".into(), plain), ("chappe pipe".into(), ours)]);
    print!("{}", table.report());
    let _ = std::fs::remove_dir_all(&bench.room);
    let worst = |all: &[Ran], of: fn(&Ran) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let whole = |n: f64| format!("{n:.0}");
    Ok(vec![
        Aim::at_most("lost under 8 hogs, worst of all runs", 0.0, worst(&steady[2].1, |r| r.lost), whole),
        Aim::at_most("reserved by used, median", 1.3, reserved.row("chappe pipe").quantile(0.5), times),
        Aim::at_most("step: lost or late, worst of all runs", 2.0, worst(&step[1].1, |r| r.late), whole),
        Aim::at_most("step: ms until it is over, worst of all runs", 50.0, worst(&step[1].1, |r| r.settled), whole),
        Aim::at_most(
            "time of a pipeline that needs no help (0.98x throughput)",
            1.0 / 0.98,
            table.ratio("chappe pipe"),
            |r| format!("{r:.3}x"),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_says_is_read() {
        let dir = std::env::temp_dir().join(format!("chappe-stream-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (lost, ages) = (dir.join("lost"), dir.join("ages"));
        std::fs::write(&lost, "3").unwrap();
        std::fs::write(&ages, "1 2000\n1600 40000\n1610 11000\n1611 900\n").unwrap();
        let said = "{\"event\":\"started\"}\n{\"event\":\"ended\",\"reserved\":0.5,\"stages\":[{\"reserved\":0.1,\"used\":0.2}],\"status\":0,\"used\":0.4}\n";
        let ran = ran(&lost, &ages, said);
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!((ran.lost, ran.late, ran.oldest, ran.settled), (3.0, 4.0, 40.0, 110.0));
        assert!((ran.reserved - 1.25).abs() < 1e-9);
    }
}
