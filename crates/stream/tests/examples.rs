//! The graphs of `examples/graphs`, on data that is made here.

use chappe_stream::{Options, run};
use std::collections::BTreeSet;

/// An example's text, with the files that it names in a directory.
fn example(name: &str, dir: &std::path::Path) -> String {
    let text =
        std::fs::read_to_string(format!("{}/../../examples/graphs/{name}.graph", env!("CARGO_MANIFEST_DIR"))).unwrap();
    ["in.wav", "out.wav", "spectrum.png", "trades.bin", "x.csv", "ticks.csv"].iter().fold(text, |text, file| {
        text.replace(&format!("\"{file}\""), &format!("{:?}", dir.join(file).display().to_string()))
    })
}

#[test]
fn the_examples_run_and_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    run(&format!("sine 1000 rate=44100 channels=2 seconds=0.2 | wav {:?} bits=i16", at("in.wav"))).unwrap();
    run(&example("filter", dir.path())).unwrap();
    let report = run(&format!("wav {:?} | count | null", at("out.wav"))).unwrap();
    assert_eq!(report.node("count").unwrap().says.as_deref(), Some("8820 frames"));
    assert!(std::fs::metadata(at("spectrum.png")).unwrap().len() > 1000);
    run(&example("oversample", dir.path())).unwrap();
    let report = run(&format!("wav {:?} | count | null", at("out.wav"))).unwrap();
    assert_eq!(report.node("count").unwrap().says.as_deref(), Some("35280 frames"));
    // 8,820 points are eight windows and what is left over: the loss of those 628 is told, and there is no other.
    let report = run(&example("spectrum", dir.path())).unwrap();
    let counts = report.node("spectrum").unwrap().counts;
    assert_eq!((counts.elements, counts.dropped, report.dropped()), (8820, 628, 628));
    assert_eq!(report.node("window").unwrap().counts.elements, 8 * 513);
    let trades = (0..500u32).flat_map(|i| {
        let mut record = f64::from(i).to_le_bytes().to_vec();
        record.extend(i.to_le_bytes());
        record.extend(if i % 2 == 0 { *b"X\0\0\0\0\0\0\0" } else { *b"Y\0\0\0\0\0\0\0" });
        record.extend([0; 4]);
        record
    });
    std::fs::write(at("trades.bin"), trades.collect::<Vec<u8>>()).unwrap();
    let report = run(&example("trades", dir.path())).unwrap();
    assert_eq!(report.node("count").unwrap().says.as_deref(), Some("199 frames"));
    // 0.2 s of the device, however long they took here; at its end the clock may be ahead by two of the device's blocks.
    run(&example("clock", dir.path())).unwrap();
    let ticks = std::fs::read_to_string(at("ticks.csv")).unwrap();
    let numbers: Vec<_> = ticks.lines().skip(1).filter_map(|l| l.split(',').next()?.parse::<u64>().ok()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{ticks}");
    assert!((20..=25).contains(&numbers.len()), "{ticks}");
    assert_eq!(std::fs::read_to_string(at("x.csv")).unwrap().lines().nth(1), Some("102.0,102,X"));
}

#[test]
fn the_guide_lists_each_kind_of_stage_and_no_other() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/streams.md")).unwrap();
    let list = guide.split_once("By use: ").unwrap().1.split_once(". Examples").unwrap().0;
    let listed: BTreeSet<&str> = list.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).collect();
    let options = Options::default();
    let kinds: BTreeSet<&str> = options.kinds.iter().map(|kind| kind.name).collect();
    assert_eq!(listed, kinds);
}
