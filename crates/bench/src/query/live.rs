//! What comes live: four senders give so many records a second together, and `chappe query --tube` adds them up second by second, by the time that
//! each record has.

use crate::table::{Aim, Table, Unit};
use chappe::tube::named::{Tube, TubeOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const SENDERS: u64 = 4;
/// Records a second, of all senders.
const RATE: u64 = 1_000_000;
/// So often a sender gives what is due.
const BEAT: Duration = Duration::from_millis(1);

/// The processor time of this process (`RUSAGE_SELF`), or of those that it has waited for.
fn processor(who: libc::c_int) -> Duration {
    // SAFETY: the call fills it, and all zeros are one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), t.tv_usec.unsigned_abs() as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// A sender: what is due at each beat. How many records it gave; how many beats began a second or more behind their time.
fn sender(tube: &Tube<[u64; 2]>, seconds: u64) -> Result<(u64, u64), String> {
    let sender = tube.sender().map_err(|e| e.to_string())?;
    let beats = seconds * 1000;
    let (began, mut behind) = (Instant::now(), 0);
    for beat in 0..beats {
        let due = began + BEAT * beat as u32;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        behind += u64::from(due.elapsed() >= Duration::from_secs(1));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        for n in 0..RATE / SENDERS / 1000 {
            sender.send([now, n]).map_err(|e| e.to_string())?;
        }
    }
    Ok((beats * (RATE / SENDERS / 1000), behind))
}

/// Measures it for so many seconds, and answers the aims.
///
/// # Errors
/// The system's, and the command's.
pub fn measure(chappe: &Path, seconds: u64) -> Result<Vec<Aim>, String> {
    let options = TubeOptions { slots: 1 << 16, ..TubeOptions::default() };
    let tube = Tube::<[u64; 2]>::open_or_create_of("live", &options, "ts: time, v: u64").map_err(|e| e.to_string())?;
    let query = "select count() as n, sum(v) as s every 1s on ts late 500ms";
    let mut receiver = Command::new(chappe);
    receiver.args(["query", "--tube", "live", "--format", "csv", query]).stdout(Stdio::piped());
    let receiver = receiver.spawn().map_err(|e| format!("{}: {e}", chappe.display()))?;
    let before = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(processor);
    let began = Instant::now();
    let gave: Result<Vec<(u64, u64)>, String> = thread::scope(|scope| {
        let all: Vec<_> = (0..SENDERS).map(|_| scope.spawn(|| sender(&tube, seconds))).collect();
        all.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("a sender panicked".into()))).collect()
    });
    let gave = gave?;
    let output = receiver.wait_with_output().map_err(|e| e.to_string())?;
    let took = began.elapsed();
    let [senders, receiver] = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(processor);
    let (senders, receiver) = (senders - before[0], receiver - before[1]);
    // The receiver is a child that has been waited for now, with all that it did.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let counts = text.lines().skip(1).filter_map(|row| row.split(',').nth(1)?.parse::<u64>().ok());
    let (windows, came) = counts.fold((0, 0), |(rows, all), n| (rows + 1, all + n));
    let given: u64 = gave.iter().map(|(given, _)| given).sum();
    let behind: u64 = gave.iter().map(|(_, behind)| behind).sum();
    let of = |used: Duration| used.as_secs_f64() / took.as_secs_f64();
    println!(
        "\nlive: {given} records of {SENDERS} senders in {:.2} s, {windows} windows; processors: {:.2} the receiver, {:.2} the senders",
        took.as_secs_f64(),
        of(receiver),
        of(senders)
    );
    Table::counted(
        "live records, by what became of them",
        Unit::Count,
        vec![("given".into(), vec![given as f64]), ("in a window of their time".into(), vec![came as f64])],
    );
    let count = |n: f64| format!("{n:.0}");
    let share = |n: f64| format!("{n:.2}");
    Ok(vec![
        Aim::at_most(
            "live, a million records a second of 4 senders: processors of the receiver",
            1.0,
            of(receiver),
            share,
        ),
        Aim::at_most("live: lost, or too late for the window of their time", 0.0, given as f64 - came as f64, count),
        Aim::at_most("live: seconds beyond those that were asked for", 1.0, took.as_secs_f64() - seconds as f64, share),
        Aim::at_most("live: beats of senders that began a second behind", 0.0, behind as f64, count),
    ])
}
