//! A synthesizer with a light thread for each note: how many sound at once in real time, at 48 kHz and 64 frames a block, on one processor.

use crate::process::now;
use crate::table::Aim;
use chappe::stream::Graph;
use chappe::thread::Runtime;

const RATE: f64 = 48_000.0;
const SECONDS: f64 = 4.0;
const NOTES: [u32; 4] = [250, 500, 1000, 2000];

/// A file in which so many keys go down at once, for four seconds.
fn file(notes: u32) -> Vec<u8> {
    let key = |n: u32| [(n / 100 % 16) as u8, (20 + n % 100) as u8];
    let mut track = Vec::new();
    for n in 0..notes {
        let [channel, key] = key(n);
        track.extend([0, 0x90 | channel, key, 40]);
    }
    for n in 0..notes {
        let [channel, key] = key(n);
        // 3,840 ticks of 480 a quarter, two quarters a second; in two bytes.
        let delta: &[u8] = if n == 0 { &[0x9e, 0x00] } else { &[0] };
        track.extend(delta);
        track.extend([0x80 | channel, key, 0]);
    }
    track.extend([0, 0xff, 0x2f, 0]);
    let mut all = b"MThd\0\0\0\x06\0\0\0\x01\x01\xe0MTrk".to_vec();
    all.extend((track.len() as u32).to_be_bytes());
    all.extend(track);
    all
}

/// Seconds of time for a second of sound.
fn run(runtime: &Runtime, notes: u32) -> f64 {
    let path = std::env::temp_dir().join(format!("chappe-bench-{}-{notes}.mid", std::process::id()));
    std::fs::write(&path, file(notes)).expect("room for a file");
    let graph = Graph::new(&format!("midi {path:?} block=64 | null")).unwrap_or_else(|e| panic!("{e}"));
    let _ = std::fs::remove_file(&path);
    let began = now();
    let report = graph.run_on(runtime).unwrap_or_else(|e| panic!("{e}")).wait().unwrap_or_else(|e| panic!("{e}"));
    let frames = report.node("null").map_or(0, |n| n.counts.elements);
    assert!(frames as f64 >= SECONDS * RATE, "{frames} frames");
    (now() - began) as f64 / 1e9 / (frames as f64 / RATE)
}

/// Measures and prints.
pub fn measure(runs: usize) -> Vec<Aim> {
    let runtime = Runtime::new(1).expect("one proc");
    println!(
        "a light thread a note, 48 kHz, 64 frames a block, one processor: seconds for a second of sound, each run"
    );
    let mut of_thousand = f64::INFINITY;
    for notes in NOTES {
        let mut all: Vec<f64> = (0..runs.min(5)).map(|_| run(&runtime, notes)).collect();
        let shown: Vec<String> = all.iter().map(|s| format!("{s:.3}")).collect();
        println!("  {notes:>5} notes  {}", shown.join("  "));
        all.sort_by(f64::total_cmp);
        if notes == 1000 {
            of_thousand = all[all.len() / 2];
        }
    }
    println!();
    vec![Aim::at_most("1,000 notes at once, seconds for a second of sound", 1.0, of_thousand, |s| format!("{s:.3} s"))]
}
