//! A graph at a JACK server of 48 kHz and 64 frames a period, without a card (`jackd -d dummy`, package jackd2), beside hogs; and its clock through a DLL.
//!
//! Xruns are what the server itself says: periods that a client had not finished (*client*), and its own late wakes (*server*), which no client can help. The
//! peer is `jack_simple_client`, which computes a sine in the server's period; the graph computes one, filters it, and has it 50 ms ahead. What it plays
//! of silence because it was late counts as well, in periods.
//!
//! The DLL (F. Adriaensen, 2 Hz) hears when a client's periods begin. Jitter is the rms of an interval's difference from the mean, as heard and as the DLL
//! gives it, 3 s after the begin. Where a server is late by more than a period it begins its periods anew (and says xrun): from there on it is another series,
//! and no filter of the old one is right. So the DLL is reset where it is told of a period more than half a period from where it expects it; these breaks are
//! counted. Within a series theory says `sqrt(2) w` times the rms of what is told late, with `w = 2 pi 2 Hz 64 / 48,000`: 1 us where wake-ups are 42 us late, rms.

use super::part;
use crate::process::now;
use crate::table::{Aim, Unit};
use chappe::feedback::Dll;
use chappe::stream::jack::{Client, Handler, Period, Way};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const RATE: u32 = 48_000;
const FRAMES: u32 = 64;
const HOGS: usize = 8;
const GRAPH: &str = "sine 440 level=0.2 | lowpass 8000 | gain 0.9 | jack";

struct Server {
    name: String,
    said: std::path::PathBuf,
    jackd: Child,
}

fn started(command: &mut Command, what: &str) -> Result<Child, String> {
    command.spawn().map_err(|e| format!("{what} does not begin (packages jackd2, libjack-jackd2-0): {e}"))
}

impl Server {
    fn new() -> Result<Server, String> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // Relaxed: a number of its own for each.
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("chappe-bench-{}-{number}", std::process::id());
        let said = std::env::temp_dir().join(format!("{name}.log"));
        let log = std::fs::File::create(&said).map_err(|e| e.to_string())?;
        let again = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new("jackd");
        command.args(["-n", &name, "-R", "-d", "dummy", "-r", &RATE.to_string(), "-p", &FRAMES.to_string()]);
        let jackd = started(command.stdout(log).stderr(again), "jackd")?;
        let server = Server { name, said, jackd };
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(50));
            let mut wait = Command::new("jack_wait");
            wait.arg("-c").env("JACK_DEFAULT_SERVER", &server.name);
            let answers = wait.output().map_err(|e| format!("jack_wait: {e}"))?;
            if String::from_utf8_lossy(&answers.stdout).trim() == "running" {
                return Ok(server);
            }
        }
        Err(format!("jackd does not answer: {}", std::fs::read_to_string(&server.said).unwrap_or_default()))
    }

    /// Xruns until now: of clients, and of its own.
    fn xruns(&self) -> (f64, f64) {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let count = |what: &str| said.lines().filter(|l| l.contains(what)).count() as f64;
        (count("JackEngine::XRun"), count("Process XRun"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a plain system call, to our child.
        unsafe { libc::kill(self.jackd.id() as i32, libc::SIGTERM) };
        let _ = self.jackd.wait();
        let _ = std::fs::remove_file(&self.said);
    }
}

/// Xruns of clients, of the server, and periods of silence, each a minute.
type Ran = [f64; 3];

/// One client beside hogs.
fn client(chappe: &Path, seconds: u64, graph: bool) -> Result<Ran, String> {
    let server = Server::new()?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let file = std::env::temp_dir().join(format!("{}.graph", server.name));
    let mut command = if graph {
        std::fs::write(
            &file,
            format!("sine 440 level=0.2 seconds={seconds} | {}", GRAPH.split_once("| ").expect("a chain").1),
        )
        .map_err(|e| e.to_string())?;
        let mut command = Command::new(chappe);
        command.args(["--json", "graph", "run", &file.display().to_string()]);
        command
    } else {
        Command::new("jack_simple_client")
    };
    command.env("JACK_DEFAULT_SERVER", &server.name).stdout(Stdio::piped()).stderr(Stdio::piped());
    let hog = |_| Command::new(&own).args([part::WORD, "hog"]).spawn();
    let mut hogs = (0..HOGS).filter_map(|at| hog(at).ok()).collect::<Vec<_>>();
    let began = now();
    let running = started(&mut command, "the client");
    let ran = running.and_then(|mut running| {
        if !graph {
            std::thread::sleep(Duration::from_secs(seconds));
            let _ = running.kill();
        }
        running.wait_with_output().map_err(|e| e.to_string())
    });
    let minutes = (now() - began) as f64 / 60e9;
    hogs.iter_mut().for_each(|hog| drop(hog.kill()));
    hogs.iter_mut().for_each(|hog| drop(hog.wait()));
    let _ = std::fs::remove_file(&file);
    let ran = ran?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    let silence = if graph {
        let (before, _) = said.split_once(" frames of silence").ok_or_else(|| format!("the graph failed: {said}"))?;
        let frames = before.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN);
        frames / f64::from(FRAMES)
    } else {
        0.0
    };
    let (clients, own) = server.xruns();
    Ok([clients / minutes, own / minutes, silence / minutes])
}

/// Tells when each period begins.
struct Hears(mpsc::SyncSender<u64>);

impl Handler for Hears {
    fn period(&mut self, period: &mut Period<'_>) {
        let _ = self.0.try_send(now());
        period.output(0).fill(0.0);
    }
}

fn rms(intervals: &[f64]) -> f64 {
    let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
    (intervals.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / intervals.len() as f64).sqrt()
}

/// What a run of the DLL gives, in microseconds, rms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jitter {
    heard: f64,
    filtered: f64,
    /// How late periods were told, within series.
    late: f64,
    /// Series of periods that ended, a minute.
    breaks: f64,
}

impl Jitter {
    /// Of periods that were heard at these times in seconds; of the first `settled` nothing counts.
    fn of(heard: &[f64], settled: usize) -> Jitter {
        let period = f64::from(FRAMES) / f64::from(RATE);
        let mut dll = Dll::new(2.0, period);
        let (mut before, mut breaks) = (None, 0);
        let (mut filtered, mut late) = (Vec::new(), Vec::new());
        for (at, heard) in heard.iter().enumerate() {
            if dll.next().is_some_and(|next| (heard - next).abs() > period / 2.0) {
                dll.reset();
                (before, breaks) = (None, breaks + 1);
            }
            let begun = dll.update(*heard);
            if let Some(before) = before.replace(begun)
                && at >= settled
            {
                filtered.push(begun - before);
                late.push(heard - begun);
            }
        }
        let raw: Vec<f64> = heard[settled..].windows(2).map(|w| w[1] - w[0]).collect();
        let minutes = (heard[heard.len() - 1] - heard[0]) / 60.0;
        let us = |all: &[f64]| rms(all) * 1e6;
        Jitter { heard: us(&raw), filtered: us(&filtered), late: us(&late), breaks: f64::from(breaks) / minutes }
    }
}

/// Jitter of a client's periods in so many seconds.
fn jitter(seconds: u64) -> Result<Jitter, String> {
    let server = Server::new()?;
    let periods = (seconds * u64::from(RATE / FRAMES)) as usize;
    // SAFETY: this program has no other thread that reads the environment meanwhile: hogs and clients are processes.
    unsafe { std::env::set_var("JACK_DEFAULT_SERVER", &server.name) };
    let mut client = Client::open("hears", Way::Plays, 1).map_err(|e| format!("no client: {e:?}"))?;
    let (tell, hear) = mpsc::sync_channel(periods);
    client.activate(Box::new(Hears(tell))).map_err(|e| format!("no client: {e}"))?;
    let began = hear.recv().map_err(|e| e.to_string())?;
    let heard: Vec<f64> = hear.iter().take(periods).map(|at| (at - began) as f64 / 1e9).collect();
    drop(client);
    let settled = (3 * RATE / FRAMES) as usize;
    Ok(Jitter::of(&heard, settled.min(heard.len() / 2)))
}

/// Measures and prints.
///
/// # Errors
/// What is missing.
pub fn measure(chappe: &Path, runs: usize, seconds: u64) -> Result<Vec<Aim>, String> {
    let runs = runs.min(3);
    let (mut simple, mut graph, mut heard) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        simple.push(client(chappe, seconds, false)?);
        graph.push(client(chappe, seconds, true)?);
        heard.push(jitter(seconds.min(20))?);
    }
    println!(
        "JACK, 48 kHz, 64 frames, beside {HOGS} hogs, {seconds} s each; a minute: xruns of clients, of the server itself, periods of silence"
    );
    let line = |name: &str, all: &[Ran]| {
        let shown: Vec<String> = all.iter().map(|[a, b, c]| format!("{a:.1} + {b:.1}, {c:.1}")).collect();
        println!("  {name:<24} {}", shown.join("   "));
    };
    line("jack_simple_client", &simple);
    line("graph", &graph);
    println!(
        "jitter of a client's periods, us rms: as heard, through a DLL of 2 Hz (told so late within a series of periods; series that ended a minute); each run"
    );
    let shown = |j: &Jitter| format!("{:.1} {:.2} ({:.0}; {:.0})", j.heard, j.filtered, j.late, j.breaks);
    println!("  {}\n", heard.iter().map(shown).collect::<Vec<_>>().join("   "));
    let sum = |all: &[Ran], of: usize| all.iter().map(|r| r[of]).sum::<f64>() / all.len() as f64;
    let count = |n: f64| Unit::Count.show(n);
    let worst = heard.iter().map(|j| j.filtered).fold(0.0, f64::max);
    Ok(vec![
        Aim::at_most(
            "xruns of clients a minute: the graph, at most jack_simple_client's",
            sum(&simple, 0),
            sum(&graph, 0),
            count,
        ),
        Aim::at_most("periods of silence a minute", 0.0, sum(&graph, 2), count),
        Aim::at_most("DLL at 2 Hz, jitter rms, worst of all runs", 1.0, worst, |us| format!("{us:.2} us")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_that_of_the_filtered_periods_and_breaks_are_counted() {
        let period = f64::from(FRAMES) / f64::from(RATE);
        // Each second period is told 84 us late: 42 us rms about the mean; 5 ms are lost at each 3,000th.
        let told =
            |k: usize| k as f64 * period + if k.is_multiple_of(2) { 84e-6 } else { 0.0 } + (k / 3_000) as f64 * 5e-3;
        let heard: Vec<f64> = (0..15_000).map(told).collect();
        let jitter = Jitter::of(&heard, 2_000);
        assert!(jitter.heard > 84.0 && jitter.late > 35.0 && jitter.late < 60.0, "{jitter:?}");
        // A frequency that the loop takes out wholly, but for what each telling moves it: 0.0237 of 42 us.
        assert!(jitter.filtered > 0.8 && jitter.filtered < 1.3, "{jitter:?}");
        let minutes = (heard[14_999] - heard[0]) / 60.0;
        assert_eq!(jitter.breaks * minutes, 4.0);
    }
}
