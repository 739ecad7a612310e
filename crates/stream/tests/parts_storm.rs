//! Parts of a graph that are killed at random. In a program of its own: it kills whatever part it finds.

use chappe_stream::process::{Command, serve};
use chappe_stream::{Graph, Options};
use std::path::Path;
use std::time::Duration;

#[test]
fn a_part_of_a_graph_serves() {
    // In the test program itself it does nothing.
    serve(&Options::default());
}

/// The children of this process that serve a part.
fn parts() -> Vec<i32> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let children = std::fs::read_to_string(entry.path().join("children")).unwrap_or_default();
        for pid in children.split_ascii_whitespace() {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environment.windows(17).any(|w| w == b"CHAPPE_GRAPH_PART") {
                all.push(pid.parse().unwrap());
            }
        }
    }
    all
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |m| m.len())
}

#[test]
#[ignore = "storm: kills parts at random"]
fn parts_that_are_killed_at_any_instruction_lose_what_is_counted_and_no_more() {
    const BLOCKS: u64 = 40_000;
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("in.raw"), dir.path().join("out.raw"));
    std::fs::write(&from, (0..BLOCKS * 100).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let text = format!("raw {from:?} rate=1000 block=100 | gain 1 @a | offset 0 @a | gain 1 @b | file {to:?}");
    let args = ["--exact", "parts_storm::a_part_of_a_graph_serves", "--test-threads=1"];
    let command = Command { program: None, args: args.map(Into::into).to_vec() };
    let running = Graph::new(&text).unwrap().parts_by(command).run().unwrap();
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut before = 0;
    while !running.is_finished() {
        // Each gets on between two deaths.
        std::thread::sleep(Duration::from_micros(500 + random(3_000)));
        let now = length(&to);
        let parts = parts();
        if now > before && parts.len() == 2 {
            before = now;
            // SAFETY: a plain call on a child of ours.
            unsafe { libc::kill(parts[random(2) as usize], libc::SIGKILL) };
        }
    }
    let report = running.wait().unwrap();
    let mut came = vec![0u32; BLOCKS as usize];
    let bytes = std::fs::read(&to).unwrap();
    let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    for block in numbers.chunks(100) {
        assert!(block.iter().enumerate().all(|(i, x)| *x == block[0] + i as f32) && block.len() == 100, "half a block");
        came[block[0] as usize / 100] += 1;
    }
    let missing = came.iter().filter(|n| **n == 0).count() as u64;
    let twice: u64 = came.iter().map(|n| u64::from(n.saturating_sub(1))).sum();
    let restarts: u64 = report.parts.iter().map(|p| p.restarts).sum();
    println!("{restarts} kills: {missing} missing, {twice} came again, {:?}", report.parts);
    assert!(restarts >= 20, "{report:?}");
    assert!(missing <= report.parts.iter().map(|p| p.dropped).sum(), "{report:?}");
    assert!(twice <= report.node("file").unwrap().counts.again, "{report:?}");
}
