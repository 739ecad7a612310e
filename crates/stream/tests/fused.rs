//! Queries that call each other are one loop: what comes out is the same, to the bit, and no row is written in between.

use chappe_stream::{Graph, explain, run};
use std::path::{Path, PathBuf};

const SCHEMA: &str = "price: f64, qty: i32, n: u32";
/// Bytes of a record, and of a row that comes out: `value`, `m` and `n`.
const SIZE: u64 = 16;
const OUT: u64 = 24;
const MANY: u32 = 30_000;

/// Records by splitmix64.
fn records(dir: &Path) -> String {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let bytes: Vec<u8> = (0..MANY)
        .flat_map(|n| {
            let price = (next() as i64 as f64) / 3e16;
            [&price.to_le_bytes()[..], &(next() as i32 % 1000).to_le_bytes(), &n.to_le_bytes()].concat()
        })
        .collect();
    let at = dir.join("records");
    std::fs::write(&at, bytes).unwrap();
    format!("records {at:?} \"{SCHEMA}\"")
}

const STAGES: [&str; 5] = [
    "where \"price > -200.0 && qty != 0\"",
    "select \"price / double(qty) as ratio, price, n\"",
    "where \"ratio < 1.5 || n % 3u == 0u\"",
    "select \"ratio * 2.0 - price as value, n % 1000u as m, n\"",
    "where \"m >= 100u\"",
];

fn lines(text: &str, to: &PathBuf) -> String {
    run(&format!("{text} | csv | lines {to:?}")).unwrap();
    std::fs::read_to_string(to).unwrap()
}

#[test]
fn stages_that_call_each_other_are_one_loop() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (records(dir.path()), dir.path().join("out"));
    let text = format!("{from} | {}", STAGES.join(" | "));
    let graph = Graph::new(&format!("{text} | csv | lines {to:?}")).unwrap();
    let shown = explain::text(&graph);
    let with = |what: &str| shown.lines().filter(|line| line.trim().starts_with(what)).count();
    assert_eq!((with("in one loop with it: "), with("calls where"), with("calls select")), (4, 1, 0), "{shown}");
    let report = graph.run().unwrap().wait().unwrap();
    let fused = std::fs::read_to_string(&to).unwrap();

    // With a queue between each two it is five loops.
    let apart = format!("{from} | {}", STAGES.join(" | queue 4 | "));
    let shown = explain::text(&Graph::new(&format!("{apart} | null")).unwrap());
    assert!(!shown.contains("in one loop"), "{shown}");
    let apart = lines(&apart, &to);
    assert!(fused.lines().count() > 1000 && fused == apart, "not the same to the bit");

    // What came to the second stage is what came out at the end: nothing was there in between.
    let queries: Vec<_> = report.nodes.iter().filter(|n| ["where", "select"].contains(&&*n.label)).collect();
    let rows = fused.lines().count() as u64 - 1;
    assert_eq!(queries[0].counts.elements, u64::from(MANY) * SIZE);
    assert_eq!(queries[1].counts.elements, rows * OUT, "a row was written between two of them");
    assert_eq!(report.dropped(), 0);
}

#[test]
fn what_two_read_or_another_process_runs_is_no_part_of_a_loop() {
    let dir = tempfile::tempdir().unwrap();
    let from = records(dir.path());
    let shown = |text: &str| explain::text(&Graph::new(&format!("{from} | {text}")).unwrap());
    for text in [
        "where \"qty > 0\" | tee (where \"qty > 5\" | null) | where \"qty > 7\" | null",
        "where \"qty > 0\" | json | null",
        "where \"qty > 0\" | where \"qty > 5\" @other | null",
    ] {
        let shown = shown(text);
        assert!(!shown.contains("in one loop"), "{shown}");
    }
    let two = shown("where \"qty > 0\" | tee (where \"qty > 5\" | select \"n\" | null) | where \"qty > 7\" | null");
    assert_eq!(two.matches("in one loop").count(), 1, "{two}");
}

#[test]
fn a_stage_of_a_loop_is_replaced_between_two_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (records(dir.path()), dir.path().join("out"));
    let (five, two, three) =
        (|n: u32| !n.is_multiple_of(5), |n: u32| n.is_multiple_of(2), |n: u32| n.is_multiple_of(3));
    for (which, new) in [("second", "n % 3u == 0u"), ("first", "n % 3u == 0u")] {
        let text = format!(
            "{from} | first: where \"n % 5u != 0u\" | second: where \"n % 2u == 0u\" | select \"n\" | csv | lines {to:?}"
        );
        let running = Graph::new(&text).unwrap().run().unwrap();
        running.replace(which, &format!("where \"{new}\"")).unwrap();
        running.wait().unwrap();
        let text = std::fs::read_to_string(&to).unwrap();
        let got: Vec<u32> = text.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        let old = |n: u32| five(n) && two(n);
        let new = |n: u32| if which == "second" { five(n) && three(n) } else { three(n) && two(n) };
        // Until some record the old ones, from there on the new one: each record went through one of the two, whole. That record lies between
        // the last one that is as before, and the next that would be.
        let before: Vec<u32> = (0..MANY).filter(|n| old(*n)).collect();
        let same = before.iter().zip(&got).take_while(|(a, b)| a == b).count();
        let least = same.checked_sub(1).map_or(0, |last| got[last] + 1);
        let most = before.get(same).copied().unwrap_or(MANY);
        let is_from = |turn: u32| (turn..MANY).filter(|n| new(*n)).eq(got[same..].iter().copied());
        assert!((least..=most).any(is_from), "{which}: a block went through both, or neither");
    }
}
