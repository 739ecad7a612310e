//! Queries that call each other are one loop: what comes out is the same, to the bit, and no row is written in between.

use chappe_stream::{
    Block, Body, Data, Element, Fault, Graph, Kind, Options, Out, Plan, Running, Source, Stage, Type, explain, run,
};
use chappe_synth::Schema;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
fn a_stage_with_two_readers_or_in_another_process_is_in_no_loop() {
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

/// Records that come when the test says so.
struct Fed(Receiver<Vec<u8>>);

impl Source for Fed {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        Ok(self.0.recv().ok().map(Block::bytes))
    }
}

/// Tells the test what has come.
struct Told(Sender<Vec<u8>>);

impl Stage for Told {
    fn put(&mut self, block: Block, _out: &mut dyn Out) -> Result<(), Fault> {
        let Data::Bytes(bytes) = block.data else { panic!("no records") };
        self.0.send(bytes).map_err(Fault::new)
    }
}

/// A graph that is given one block after the other, and what comes out of each.
struct Driven {
    running: Running,
    give: Sender<Vec<u8>>,
    take: Receiver<Vec<u8>>,
}

impl Driven {
    fn new(stages: &str) -> Driven {
        let ((give, fed), (tell, take)) = (channel(), channel());
        let (fed, tell) = (Mutex::new(Some(fed)), Mutex::new(Some(tell)));
        let mut options = Options::default();
        options.kinds.add(Kind::new("fed", "", "records of the test", move |_| {
            let (of, fed) = (Element::Record(Arc::new(Schema::parse("n: u32").unwrap())), fed.lock().unwrap().take());
            Ok(Plan::source(Type::of(of), || Ok(Body::Source(Box::new(Fed(fed.expect("one source")))))))
        }));
        options.kinds.add(Kind::new("told", "", "tells the test", move |_| {
            let tell = tell.lock().unwrap().take();
            Ok(Plan::sink(|| Ok(Body::Stage(Box::new(Told(tell.expect("one sink")))))))
        }));
        let graph = Graph::with(&format!("fed | {stages} | told"), options).unwrap();
        assert!(explain::text(&graph).contains("in one loop with it: "), "no loop: {stages}");
        Driven { running: graph.run().unwrap(), give, take }
    }

    /// What comes out of one block of these numbers. Each block gives one, which may be empty.
    fn through(&self, numbers: Range<u32>) -> Vec<u32> {
        self.give.send(numbers.flat_map(u32::to_le_bytes).collect()).unwrap();
        let rows = self.take.recv_timeout(Duration::from_secs(60)).unwrap();
        rows.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect()
    }

    fn replace(&self, label: &str, condition: &str) {
        self.running.replace(label, &format!("where \"{condition}\"")).unwrap();
    }

    fn end(self) -> chappe_stream::Report {
        drop(self.give);
        self.running.wait().unwrap()
    }
}

/// Those that no number of these divides.
fn without(numbers: Range<u32>, divisors: &[u32]) -> Vec<u32> {
    numbers.filter(|n| divisors.iter().all(|d| !n.is_multiple_of(*d))).collect()
}

#[test]
fn a_stage_of_a_loop_is_replaced_between_two_blocks() {
    for which in ["first", "second", "third"] {
        let graph = Driven::new(
            "first: where \"n % 2u != 0u\" | second: where \"n % 3u != 0u\" | third: where \"n % 5u != 0u\"",
        );
        let divisors = |new: u32| {
            let at = ["first", "second", "third"].iter().position(|label| *label == which).unwrap();
            let mut all = [2, 3, 5];
            all[at] = new;
            all
        };
        assert_eq!(graph.through(0..500), without(0..500, &[2, 3, 5]));
        // From the next block on, and in each that follows, the new one and none of the old one.
        for (new, from) in [(7, 500), (11, 1500)] {
            graph.replace(which, &format!("n % {new}u != 0u"));
            for from in [from, from + 500] {
                assert_eq!(graph.through(from..from + 500), without(from..from + 500, &divisors(new)), "{which}");
            }
        }
        let report = graph.end();
        assert_eq!(report.node(which).unwrap().counts.replaced, 2, "{which}");
        assert_eq!(report.dropped(), 0);
    }
}

#[test]
fn stages_of_a_loop_are_replaced_one_after_the_other() {
    let graph = Driven::new("first: where \"n % 2u != 0u\" | second: where \"n % 3u != 0u\"");
    assert_eq!(graph.through(0..100), without(0..100, &[2, 3]));
    graph.replace("second", "n % 7u != 0u");
    assert_eq!(graph.through(100..200), without(100..200, &[2, 7]));
    graph.replace("first", "n % 11u != 0u");
    assert_eq!(graph.through(200..300), without(200..300, &[11, 7]));
    // As it was written: still two stages.
    graph.replace("first", "n % 2u != 0u");
    graph.replace("second", "n % 3u != 0u");
    assert_eq!(graph.through(300..400), without(300..400, &[2, 3]));
    graph.end();
}
