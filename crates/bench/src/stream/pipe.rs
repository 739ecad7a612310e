//! `chappe pipe` beside the plain shell: a device of 1 kHz under hogs, a step of load, and a pipeline that needs no help.
//!
//! The device makes 192 bytes each millisecond, and loses what finds its pipe full (4 KB: 21 blocks). Three stages take 150, 150 and 20 us of processor
//! for each block; eight hogs compute beside them. In the step the first takes 700 us from the middle on. *Late* is a block that is older than 33 ms when the last
//! stage is done with it, or was lost.
//!
//! The *source* is a device that is the first stage: it waits for a timer of 1 kHz and loses the ticks that it is late for, from its first one on. In turns with the same
//! pipeline under SCHED_FIFO. A witness for each processor, of a priority above these, says when a virtual processor itself stood still: ticks lost then
//! are counted apart.

use super::part;
use crate::process::{now, pin};
use crate::table::{Aim, Table, Unit, times};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
    Fifo,
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

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.room);
    }
}

impl<'a> Bench<'a> {
    fn of(chappe: &'a Path) -> Result<Bench<'a>, String> {
        let room = PathBuf::from(format!("/dev/shm/chappe-stream-{}", std::process::id()));
        std::fs::create_dir(&room).map_err(|e| format!("cannot make {}: {e}", room.display()))?;
        let own = std::env::current_exe().map_err(|e| format!("a program has a file: {e}"))?;
        Ok(Bench { chappe, own, room })
    }

    fn part(&self, words: &str) -> String {
        format!("{} {} {words}", self.own.display(), part::WORD)
    }

    /// A shell's command line, run one way or the other.
    fn command(&self, how: How, line: &str) -> Command {
        let mut command = match how {
            How::Shell => Command::new("sh"),
            How::Nice => Command::new("nice"),
            How::Fifo => Command::new("chrt"),
            How::Chappe(_) => Command::new(self.chappe),
        };
        match how {
            How::Shell => command.args(["-c", line]),
            How::Nice => command.args(["-n", "-20", "sh", "-c", line]),
            How::Fifo => command.args(["-f", "5", "sh", "-c", line]),
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

    /// One run of the source: ticks lost, and those of them that were lost while all processors ran.
    fn source(&self, how: How) -> (f64, f64) {
        let missed = self.room.join("missed");
        let _ = std::fs::remove_file(&missed);
        let source = self.part(&format!("source {BLOCKS} {}", missed.display()));
        let line = format!("{source} | {stage} | {stage} >/dev/null", stage = self.part("stage 150 150 0"));
        let mut hogs = self.hogs();
        let witness = Witness::begin();
        let ran = self.command(how, &line).stdin(Stdio::null()).stderr(Stdio::null()).status();
        let stood = witness.end();
        for hog in &mut hogs {
            let _ = hog.kill();
            let _ = hog.wait();
        }
        assert!(ran.is_ok(), "`{line}` does not begin: {ran:?}");
        lost(&std::fs::read_to_string(missed).unwrap_or_default(), &stood)
    }

    /// Seconds of a pipeline that nothing has to keep up with.
    fn throughput(&self, how: How, line: &str) -> f64 {
        let began = now();
        let status = self.command(how, line).stderr(Stdio::null()).stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|s| s.success()), "`{line}` fails");
        (now() - began) as f64
    }
}

/// A thread on each processor that looks when it is woken, above all of SCHED_FIFO that is measured.
struct Witness {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<(u64, u64)>>>,
}

impl Witness {
    /// Microseconds.
    const EACH: u64 = 500;
    const STILL: u64 = 300;

    fn begin() -> Witness {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |cpu| {
            let stop = stop.clone();
            std::thread::spawn(move || Witness::watch(cpu, &stop))
        };
        Witness { threads: (0..std::thread::available_parallelism().map_or(1, usize::from)).map(watch).collect(), stop }
    }

    fn watch(cpu: usize, stop: &AtomicBool) -> Vec<(u64, u64)> {
        pin(cpu);
        // SAFETY: a parameter that lives; the calling thread.
        unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            param.sched_priority = 95;
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param);
        }
        let (mut stood, mut due) = (Vec::new(), now() / 1000);
        // Relaxed: it hands nothing over but that it is time to end.
        while !stop.load(Ordering::Relaxed) {
            due += Witness::EACH;
            std::thread::sleep(Duration::from_micros(due.saturating_sub(now() / 1000)));
            let woken = now() / 1000;
            if woken - due.min(woken) > Witness::STILL {
                stood.push((due, woken));
                due = woken;
            }
        }
        stood
    }

    /// When a processor stood still, in microseconds.
    fn end(self) -> Vec<(u64, u64)> {
        // Relaxed: as above.
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|t| t.join().unwrap_or_default()).collect()
    }
}

/// All ticks lost, and those that no processor's standing still explains.
fn lost(report: &str, stood: &[(u64, u64)]) -> (f64, f64) {
    let lines = report.lines().filter_map(|l| l.split_once(' '));
    let late: Vec<(u64, u64)> = lines.filter_map(|(at, n)| Some((at.parse().ok()?, n.parse().ok()?))).collect();
    // A look that lost n ticks was due n + 1 ms before, and half a millisecond of the witness's.
    let still = |at: u64, n: u64| stood.iter().any(|(from, to)| *from < at && *to + (n + 1) * 1000 + 500 > at);
    let sum = |all: &mut dyn Iterator<Item = &(u64, u64)>| all.map(|(_, n)| *n).sum::<u64>() as f64;
    (sum(&mut late.iter()), sum(&mut late.iter().filter(|(at, n)| !still(*at, *n))))
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

/// Measures and prints how many ticks a source loses under hogs, beside SCHED_FIFO, its start included.
///
/// # Errors
/// What is missing.
pub fn measure_source(chappe: &Path, runs: usize) -> Result<Vec<Aim>, String> {
    let bench = Bench::of(chappe)?;
    let mut source = [("SCHED_FIFO", How::Fifo), ("chappe pipe", How::Chappe("deadline"))].map(|of| (of, Vec::new()));
    for _ in 0..runs {
        source.iter_mut().for_each(|((_, how), all)| all.push(bench.source(*how)));
    }
    println!("\na source of 1 kHz: ticks lost of {BLOCKS}, and those while no processor stood still, each run");
    for ((name, _), all) in &source {
        let runs: Vec<String> = all.iter().map(|(all, own)| format!("{all:.0} ({own:.0})")).collect();
        println!("  {name:<40} {}", runs.join(" "));
    }
    let sum = |at: usize| source[at].1.iter().map(|(_, own)| own).sum::<f64>();
    let name = "source: ticks lost in all runs, SCHED_FIFO's and five more";
    Ok(vec![Aim::at_most(name, sum(0) + 5.0, sum(1), |n| format!("{n:.0}"))])
}

/// Measures and prints: what keeps up, a step of load, and a pipeline that needs no help.
///
/// # Errors
/// What is missing.
pub fn measure(chappe: &Path, runs: usize) -> Result<Vec<Aim>, String> {
    let bench = Bench::of(chappe)?;
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
    fn ticks_are_the_machines_loss_where_a_processor_stood_still() {
        // Two at 10 ms, while one stood from 8.2 to 9.4; one at 20 ms; three at 40 ms, the first of which was due at 36.
        let report = "10000 2\n20000 1\n40000 3\n";
        assert_eq!(lost(report, &[(8_200, 9_400), (21_000, 22_000), (30_000, 35_000)]), (6.0, 4.0));
        assert_eq!(lost(report, &[]), (6.0, 6.0));
    }

    #[test]
    fn the_output_of_a_run_is_parsed() {
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
