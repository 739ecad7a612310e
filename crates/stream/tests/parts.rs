//! Graphs in several processes: the same output wherever they are cut, and what a kill of a part loses.
//!
//! A part's program is this test program, run with the one test [`a_part_of_a_graph_serves`].

use crate::patience::{ended, until};
use chappe_stream::process::{Command, serve};
use chappe_stream::{Anew, Block, Body, Data, Graph, Kind, Options, Plan, Report, RunError, Running};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Kinds of the tests: `dies AT FILE`, which kills its process at the block that begins with this number (of bytes and records: at its
/// so manieth block), as often as the file has letters; `slowly MS`.
fn options() -> Options {
    let mut options = Options::default();
    options.kinds.add(Kind::new("dies", "AT \"FILE\" [signal=N]", "kills its process", |call| {
        let at = call.needs_number(0, "at", (0.0, 1e9))? as u64;
        let file = call.needs_text(1, "file")?.0.to_owned();
        let gives = call.input()?.clone();
        Ok(Plan::filter(gives, move || Ok(Body::Stage(Box::new(Dies { at, file, first: None })))))
    }));
    options.kinds.add(Kind::new("stops", "", "stops its process at its first block", |call| {
        Ok(Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Stops(false))))))
    }));
    options.kinds.add(Kind::new("fails", "", "fails", |call| {
        Ok(Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Fails)))))
    }));
    options.kinds.add(Kind::new("writes", "", "cannot go on in the middle", |call| {
        Ok(Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Passes)))).anew(Anew::Never))
    }));
    options
}

struct Dies {
    at: u64,
    file: String,
    first: Option<f32>,
}

impl chappe_stream::Stage for Dies {
    fn put(&mut self, block: Block, out: &mut dyn chappe_stream::Out) -> Result<(), chappe_stream::Fault> {
        self.first = match &block.data {
            Data::F32(numbers) => numbers.first().copied(),
            // The how manieth of this process.
            _ if !block.is_empty() => Some(self.first.unwrap_or_default() + 1.0),
            _ => self.first,
        };
        if self.first == Some(self.at as f32) {
            let lives = std::fs::read_to_string(&self.file).unwrap();
            if !lives.is_empty() {
                std::fs::write(&self.file, &lives[1..]).unwrap();
                // SAFETY: a plain call.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
                std::thread::sleep(Duration::from_secs(100));
            }
        }
        out.put(block)
    }
}

struct Stops(bool);
impl chappe_stream::Stage for Stops {
    fn put(&mut self, block: Block, out: &mut dyn chappe_stream::Out) -> Result<(), chappe_stream::Fault> {
        if !std::mem::replace(&mut self.0, true) {
            // SAFETY: a plain call.
            unsafe { libc::kill(libc::getpid(), libc::SIGSTOP) };
        }
        out.put(block)
    }
}

struct Fails;
impl chappe_stream::Stage for Fails {
    fn put(&mut self, _: Block, _: &mut dyn chappe_stream::Out) -> Result<(), chappe_stream::Fault> {
        Err(chappe_stream::Fault("it did not like it".into()))
    }
}

struct Passes;
impl chappe_stream::Stage for Passes {
    fn put(&mut self, block: Block, out: &mut dyn chappe_stream::Out) -> Result<(), chappe_stream::Fault> {
        out.put(block)
    }
}

#[test]
fn a_part_of_a_graph_serves() {
    // In the test program itself it does nothing.
    serve(&options());
}

fn run(text: &str) -> Result<Report, RunError> {
    ended(begun(text)?)
}

fn begun(text: &str) -> Result<Running, RunError> {
    let args = ["--exact", "parts::a_part_of_a_graph_serves", "--nocapture", "--test-threads=1"];
    let command = Command { program: None, args: args.map(Into::into).to_vec() };
    Graph::with(text, options())?.parts_by(command).run()
}

/// 64 blocks of 100 numbers, 0 to 6,399, in a file.
fn ramp(dir: &std::path::Path) -> String {
    let path = dir.join("in.raw");
    std::fs::write(&path, (0..6400).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    format!("raw {:?} rate=1000 block=100", path.display().to_string())
}

fn read(dir: &std::path::Path) -> Vec<f32> {
    let bytes = std::fs::read(dir.join("out.raw")).unwrap();
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn out(dir: &std::path::Path) -> String {
    format!("file {:?}", dir.join("out.raw").display().to_string())
}

#[test]
fn a_graph_that_is_cut_anywhere_gives_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (ramp(dir.path()), out(dir.path()));
    let whole: Vec<f32> = (0..6400).map(|i| i as f32 * 2.0 + 1.0).collect();
    for text in [
        format!("{from} @a | gain 2 | offset 1 | {to}"),
        format!("{from} | gain 2 @a | offset 1 @b | {to}"),
        format!("{from} | gain 2 | offset 1 @a | {to} @b"),
    ] {
        let report = run(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(read(dir.path()), whole, "{text}");
        assert_eq!((report.dropped(), report.parts.iter().map(|p| p.restarts).sum::<u64>()), (0, 0));
        let gain = report.node("gain").unwrap();
        assert_eq!((gain.counts.blocks, gain.counts.elements), (64, 6400), "{text}");
    }
}

#[test]
fn a_part_that_is_killed_in_a_block_goes_on_with_it_marked_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let lives = dir.path().join("lives");
    std::fs::write(&lives, "x").unwrap();
    let (from, to) = (ramp(dir.path()), out(dir.path()));
    // The stage before it has done the block by then, and does it again.
    let report = run(&format!("{from} | gain 1 @a | dies 3000 {:?} @a | {to}", lives.display().to_string())).unwrap();
    assert_eq!(read(dir.path()), (0..6400).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!(report.dropped(), 0);
    let part = &report.parts[0];
    assert_eq!((part.name.as_str(), part.restarts, part.again, part.dropped), ("a", 1, 1, 0));
    let counts = |label: &str| report.node(label).unwrap().counts;
    assert_eq!((counts("gain").blocks, counts("gain").again), (65, 1));
    // What comes of it says so in the next process, too.
    assert_eq!((counts("file").blocks, counts("file").again), (64, 1));
}

#[test]
fn a_part_that_is_stopped_is_told_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (ramp(dir.path()), out(dir.path()));
    let running = begun(&format!("{from} | stops @a | {to}")).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&told);
    // It goes on because this is called, and not otherwise.
    running.on_stopped(move |part, pid, stopped| {
        all.lock().unwrap().push((part.to_owned(), stopped));
        // SAFETY: a plain call.
        unsafe { libc::kill(pid as i32, libc::SIGCONT) };
    });
    let report = ended(running).unwrap();
    assert_eq!(read(dir.path()), (0..6400).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!(report.parts[0].restarts, 0);
    assert_eq!(told.lock().unwrap().first(), Some(&("a".to_owned(), true)));
}

#[test]
fn a_source_that_is_killed_goes_on_behind_what_it_had_finished() {
    let dir = tempfile::tempdir().unwrap();
    let lives = dir.path().join("lives");
    let (from, to) = (ramp(dir.path()), out(dir.path()));
    // Of the second four reads are in flight when it is killed.
    for reads in ["", "reads=4"] {
        std::fs::write(&lives, "xx").unwrap();
        let report =
            run(&format!("{from} {reads} @a | dies 5000 {:?} @a | {to}", lives.display().to_string())).unwrap();
        assert_eq!(read(dir.path()), (0..6400).map(|i| i as f32).collect::<Vec<_>>());
        assert_eq!((report.parts[0].restarts, report.node("file").unwrap().counts.again), (2, 1));
    }
}

#[test]
fn the_names_of_columns_come_once_whichever_block_kills_their_part() {
    let dir = tempfile::tempdir().unwrap();
    let quoted = |name: &str| format!("{:?}", dir.path().join(name).display().to_string());
    let numbers = 0..8_000u32;
    std::fs::write(dir.path().join("in"), numbers.clone().flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let (from, lives, to) = (format!("records {} \"n: u32\"", quoted("in")), quoted("lives"), out(dir.path()));
    // Blocks of 2,048 records: four. The first kill comes before rows are made of a block, or before they are handed on.
    for (at, kills) in [(1, "x"), (2, "x"), (4, "x"), (1, "xx")] {
        for stages in [format!("dies {at} {lives} @a | csv @a"), format!("csv @a | dies {at} {lives} @a")] {
            std::fs::write(dir.path().join("lives"), kills).unwrap();
            let report = run(&format!("{from} | {stages} | {to}")).unwrap();
            assert_eq!(
                (report.parts[0].restarts, report.parts[0].dropped),
                (kills.len() as u64, kills.len() as u64 - 1)
            );
            // A block that has killed two processes is dropped.
            let first = if kills == "xx" { 2_048 } else { 0 };
            let rows: String = numbers.clone().skip(first).map(|n| format!("{n}\n")).collect();
            let got = std::fs::read_to_string(dir.path().join("out.raw")).unwrap();
            assert!(got == format!("n\n{rows}"), "{stages}, {kills}: {} bytes: {:.60}", got.len(), got);
        }
    }
}

#[test]
fn a_disk_that_is_killed_goes_on_behind_what_it_had_finished() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let quoted = |name: &str| format!("{:?}", dir.path().join(name).display().to_string());
    let bytes: Vec<u8> = (0..50_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(dir.path().join("disk"), &bytes).unwrap();
    std::fs::write(dir.path().join("lives"), "x").unwrap();
    let text = format!("disk {} block=4096 @a | dies 5 {} @a | {}", quoted("disk"), quoted("lives"), out(dir.path()));
    match run(&text) {
        Ok(report) => {
            assert!(std::fs::read(dir.path().join("out.raw")).unwrap() == bytes);
            assert_eq!((report.parts[0].restarts, report.dropped()), (1, 0));
            assert_eq!(report.node("file").unwrap().counts.again, 1);
        }
        Err(e) => assert!(e.to_string().contains("takes no direct transfers"), "{e}"),
    }
}

#[test]
fn a_serial_line_in_a_killed_part_counts_what_is_lost_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (lives, mut device) = (dir.path().join("lives"), crate::serial::Device::new());
    std::fs::write(&lives, "x").unwrap();
    let text = format!(
        "serial {:?} @a | dies 3 {:?} @a | heard: count | {}",
        device.name,
        lives.display().to_string(),
        out(dir.path())
    );
    let running = begun(&text).unwrap();
    let all = |report: &Report| {
        let got = report.node("heard").unwrap().counts.elements;
        (got, report.dropped())
    };
    let sent: Vec<u8> = (0..250).collect();
    for (at, part) in sent.chunks(10).enumerate() {
        device.outer.write_all(part).unwrap();
        // Each is in the part's hands, or behind it, before the next one comes.
        let has = || {
            let (got, dropped) = all(&running.report());
            got + dropped
        };
        until("the bytes are counted", || has() == (at as u64 + 1) * 10);
    }
    running.stop();
    let report = ended(running).unwrap();
    let (got, dropped) = all(&report);
    assert_eq!((got + dropped, report.parts[0].restarts), (250, 1));
    // All but a run of bytes in the midst.
    let left = std::fs::read(dir.path().join("out.raw")).unwrap();
    let at = left.iter().zip(&sent).take_while(|(a, b)| a == b).count();
    assert!(left == [&sent[..at], &sent[at + dropped as usize..]].concat() && at > 0 && dropped > 0, "{at} {dropped}");
}

#[test]
fn a_block_that_kills_two_receivers_is_dropped_and_then_ends_the_graph() {
    let dir = tempfile::tempdir().unwrap();
    let lives = dir.path().join("lives");
    let (from, to) = (ramp(dir.path()), out(dir.path()));
    let text = format!("{from} | dies 3000 {:?} @a | {to}", lives.display().to_string());
    std::fs::write(&lives, "xx").unwrap();
    let report = run(&text).unwrap();
    assert_eq!(read(dir.path()), (0..3000).chain(3100..6400).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!((report.dropped(), report.parts[0].dropped, report.parts[0].restarts), (1, 1, 2));
    // A generator has no tube that drops for it.
    std::fs::write(&lives, "xxxxxxxx").unwrap();
    let wrong =
        run(&format!("{from} @a | dies 3000 {:?} @a | {to}", lives.display().to_string())).unwrap_err().to_string();
    assert!(
        wrong.contains("@a was killed 4 times in a row without having finished a block, at last by signal 9"),
        "{wrong}"
    );
}

#[test]
fn blocks_in_a_queue_of_a_killed_part_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let lives = dir.path().join("lives");
    std::fs::write(&lives, "x").unwrap();
    let (from, to) = (ramp(dir.path()), out(dir.path()));
    let text = format!("{from} | queue 3 @a | dies 3000 {:?} @a | pump @a | {to}", lives.display().to_string());
    let report = run(&text).unwrap();
    let got = read(dir.path()).len() as u64;
    // Nothing goes without being counted. The block that was being put into the queue comes once more; whether it was counted there before depends on
    // how far its thread had come.
    let all = 6400..=6400 + 100 * report.node("file").unwrap().counts.again;
    assert!(all.contains(&(got + report.dropped())), "{report:#?}");
    assert!(report.dropped() >= 100);
}

#[test]
fn a_part_that_cannot_go_on_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let lives = dir.path().join("lives");
    std::fs::write(&lives, "x").unwrap();
    let from = ramp(dir.path());
    let said = |text: &str| run(text).unwrap_err().to_string();
    let wrong = said(&format!("{from} | dies 100 {:?} @a | writes @a | null", lives.display().to_string()));
    assert!(wrong.contains("@a was killed by signal 9, and `writes` in it cannot go on in the middle"), "{wrong}");
    let wrong = said(&format!("{from} | gain 1 @a | fails @a | null"));
    assert!(wrong.contains("`fails` failed in @a: it did not like it (line 1, column"), "{wrong}");
    let wrong = said("stdin @a | null");
    assert!(wrong.contains("`stdin` belongs to the process that runs the graph, and not to `@a`"), "{wrong}");
    let command = Command { program: Some("/no/such/program".into()), args: Vec::new() };
    let graph = Graph::new(&format!("{from} | gain 1 @a | null")).unwrap().parts_by(command);
    let wrong = ended(graph.run().unwrap()).unwrap_err().to_string();
    assert!(wrong.contains("@a cannot be begun: No such file"), "{wrong}");
    let command = Command { program: Some("/bin/true".into()), args: Vec::new() };
    let graph = Graph::new(&format!("{from} | gain 1 @a | null")).unwrap().parts_by(command);
    let wrong = ended(graph.run().unwrap()).unwrap_err().to_string();
    assert!(wrong.contains("@a ended without having run: its program must call"), "{wrong}");
}

#[test]
fn a_stage_that_has_enough_ends_those_before_it_in_other_processes() {
    let report = run("sine 100 @a | gain 1 @b | take 1000 | null").unwrap();
    assert_eq!(report.node("take").unwrap().counts.blocks, 4);
    assert_eq!(report.parts.len(), 2);
}

#[test]
fn explain_shows_processes_and_what_a_kill_loses() {
    let graph = Graph::new(
        "sine 1 seconds=1 | gain 2 @a | queue 3 @a | pump @a | null\nsine 2 seconds=1 | wav \"/tmp/x.wav\" @b",
    )
    .unwrap();
    let text = chappe_stream::explain::text(&graph);
    for line in [
        "7 stages, 3 processes, 3 tubes",
        "=== this process: ",
        "=== @a, begun anew when it is killed: ",
        "a kill loses what is in 1 queue, and that is counted",
        "=== @b, not begun anew when it is killed: `wav` writes: ",
        "tube 1: `sine` -> `gain @a`, f32 at 48000 Hz",
        "  calls get of from sine  -> f32 at 48000 Hz",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let svg = chappe_stream::explain::svg(&graph);
    assert!(svg.contains("@a thread") && svg.contains("#1e8449"), "{svg}");
}
