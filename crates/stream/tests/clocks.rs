//! Clocks that are locked to another one: what graphs refuse of them while they run, and that graphs of the same kinds keep theirs apart. And in real time: N ticks in N/f of its seconds, one more or less (synthesis, 6.4.1, "integral stability").
//! `CHAPPE_CLOCK_SECONDS=600` makes it ten minutes. The same in virtual time stands beside the code (`node/clocks.rs`, `chappe-feedback`).

use chappe_stream::{
    Block, Body, Element, Fault, Graph, Kind, Kinds, Options, Out, Plan, RunError, Source, Stage, Type,
};
use chappe_sync::tube::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Runs a graph whose `keep` keeps ticks: when each was made, in seconds of the machine's clock; and what the clock said.
fn ticks(text: &str) -> (Vec<f64>, String) {
    struct Keep(Arc<Mutex<Vec<f64>>>);
    impl Stage for Keep {
        fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
            let record = block.octets();
            let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            let mut all = self.0.lock().unwrap();
            assert_eq!(word(0), all.len() as u64);
            all.push(word(8) as f64 / 1e9);
            Ok(())
        }
    }
    let all = Arc::new(Mutex::new(Vec::new()));
    let (to, mut kinds) = (Arc::clone(&all), Kinds::standard());
    kinds.add(Kind::new("keep", "", "for tests", move |call| {
        call.input()?;
        let to = Arc::clone(&to);
        Ok(Plan::sink(move || Ok(Body::Stage(Box::new(Keep(to))))))
    }));
    let graph = Graph::with(text, Options { kinds, ..Options::default() }).unwrap_or_else(|e| panic!("{e}"));
    let report = graph.run().unwrap().wait().unwrap_or_else(|e| panic!("{e}"));
    let says = report.node("clock").unwrap().says.clone().unwrap();
    let all = std::mem::take(&mut *all.lock().unwrap());
    (all, says)
}

/// Blocks of 480 frames at 48 kHz, which are given when the test says so.
struct Blocks(u64, Receiver<()>);

impl Source for Blocks {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        if self.1.recv().is_err() && self.0 == 0 {
            return Ok(None);
        }
        self.0 -= 1;
        Ok(Some(Block::f32(vec![0.0; 480])))
    }
}

#[test]
fn clocks_of_graphs_that_share_their_kinds_hear_their_own_reference() {
    let doors: Arc<Mutex<Vec<Sender<()>>>> = Arc::default();
    let (ours, mut kinds) = (Arc::clone(&doors), Kinds::standard());
    kinds.add(Kind::new("blocks", "N", "for tests", move |call| {
        let n = call.needs_number(0, "n", (0.0, 1e6))? as u64;
        let (open, door) = tube::bounded(1);
        ours.lock().unwrap().push(open);
        let gives = Type { rate: Some(48_000.0), ..Type::of(Element::F32) };
        Ok(Plan::source(gives, move || Ok(Body::Source(Box::new(Blocks(n, door))))))
    }));
    let run = |n: u64| {
        let text = format!("blocks {n} | reference card | null\nclock 100 lock=card | null");
        let options = Options { kinds: kinds.clone(), ..Options::default() };
        Graph::with(&text, options).unwrap_or_else(|e| panic!("{e}")).run().unwrap()
    };
    // No block comes before all three graphs have made their bodies. A block is 10 ms, which is a tick.
    let running = [run(2), run(10), run(0)];
    assert_eq!(doors.lock().unwrap().len(), 3);
    for (running, n) in running.into_iter().zip([2, 10, 0]) {
        // Without its door, which is the first one that is left, the blocks come.
        drop(doors.lock().unwrap().remove(0));
        let report = running.wait().unwrap_or_else(|e| panic!("{e}"));
        let came = |label: &str| report.node(label).unwrap().counts.blocks;
        // A clock may be ahead by the ticks of two blocks, with one at each end.
        let most = if n == 0 { 0 } else { n + 3 };
        assert!(came("blocks") == n && (n..=most).contains(&came("clock")), "{n}: {} ticks", came("clock"));
    }
}

#[test]
fn a_clock_that_waits_for_a_reference_has_a_thread_of_its_own() {
    let text = |ends: &str| {
        let source = "silence rate=48000 block=480 frames=480 | reference card | null";
        format!("{source}\nclock 100 lock=card ends={ends} | null")
    };
    let e = Graph::new(&text("passive")).unwrap_err().to_string();
    let what = "`clock` waits for `reference card`, so it needs a thread of its own: leave `ends=passive` out";
    assert!(e.contains(what) && e.contains("(line 2, column 21)"), "{e}");
    for ends in ["active", "poll"] {
        assert!(Graph::new(&text(ends)).is_ok(), "{ends}");
    }
    // It waits for nobody but the time.
    assert!(Graph::new("clock 100 lock=ntp ends=passive | null").is_ok());
}

#[test]
fn a_reference_keeps_its_place_while_the_graph_runs() {
    let text = "sine 1 rate=48000 | pace 48000 | reference card | gain 2 | null\nclock 100 lock=card | null";
    let running = Graph::new(text).unwrap().run().unwrap();
    let refused = |e: RunError| {
        let e = e.to_string();
        assert!(e.contains("clocks are locked to a `reference` when the graph begins: "), "{e}");
        e
    };
    let e = refused(running.replace("reference", "gain 1").unwrap_err());
    assert!(e.contains("nothing takes the place of `reference card` while it runs"), "{e}");
    let e = refused(running.replace("gain", "reference other").unwrap_err());
    assert!(e.contains("no other stage becomes `reference other` while it runs"), "{e}");
    // Moved, renamed, and one more.
    for (from, to, column) in [
        ("reference card | gain 2", "gain 2 | reference card", 34),
        ("reference card | gain 2", "reference card | reference other", 51),
        ("gain 2 | null", "gain 3 | null", 0),
    ] {
        match running.relink(&text.replace(from, to)) {
            Err(e) => assert!(refused(e).contains(&format!("(line 1, column {column})")), "{to}"),
            Ok(replaced) => assert_eq!((replaced.len(), column), (1, 0), "{to}"),
        }
    }
    let renamed = text.replace("card", "other");
    let e = refused(running.relink(&renamed).unwrap_err());
    assert!(e.contains("nothing takes the place of `reference card`"), "{e}");
    running.stop();
    running.wait().unwrap();
}

#[test]
fn a_stage_that_is_locked_takes_no_others_place() {
    struct Hands;
    impl Stage for Hands {
        fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
            out.put(block)
        }
    }
    let mut kinds = Kinds::standard();
    kinds.add(Kind::new("keeps", "NAME", "for tests", |call| {
        let (name, span) = call.needs_text(0, "name")?;
        let plan = Plan::filter(call.input()?.clone(), || Ok(Body::Stage(Box::new(Hands))));
        Ok(Plan { follows: Some((name.into(), span)), ..plan })
    }));
    let text = "sine 1 rate=48000 | pace 48000 | tee (reference card | null) (gain 2 | null)";
    let running = Graph::with(text, Options { kinds, ..Options::default() }).unwrap().run().unwrap();
    for e in [running.replace("gain", "keeps card"), running.relink(&text.replace("gain 2", "keeps card")).map(drop)] {
        let e = e.unwrap_err().to_string();
        assert!(e.contains("a stage that is locked to `card` takes no other's place while it runs"), "{e}");
    }
    running.stop();
    running.wait().unwrap();
}

fn seconds() -> f64 {
    std::env::var("CHAPPE_CLOCK_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(60.0)
}

/// By how many ticks of `hz` (by the machine's clock) they go wrong from the second tenth to the last: in each the tick that is least late counts, so that a
/// thread that is held up changes nothing.
fn drift(ticks: &[f64], hz: f64) -> f64 {
    let late = |k: usize| ticks[k] * hz - k as f64;
    let tenth = ticks.len() / 10;
    let least = |from: usize| (from..from + tenth).map(late).fold(f64::INFINITY, f64::min);
    least(ticks.len() - tenth) - least(tenth)
}

#[test]
#[ignore = "storm: a minute of real time"]
fn a_clock_in_a_graph_keeps_the_time_of_a_device_that_is_200_ppm_fast() {
    let seconds = seconds();
    // One that is late catches up: with less slack `pace` pauses, and the clock with it.
    let device = 48_000.0 * (1.0 + 200e-6);
    let (ticks, says) = ticks(&format!(
        "silence rate=48000 block=480 seconds={seconds} | pace {device} slack=1000 | rate 48000 | reference card | null\nclock 1000 lock=card | keep"
    ));
    let off = drift(&ticks, 1_000.0 * (1.0 + 200e-6));
    println!("{} ticks, {off:+.3} off; {says}", ticks.len());
    // At the device's end the clock may be ahead by two of its blocks.
    let more = ticks.len() as f64 - seconds * 1_000.0;
    assert!((0.0..=21.0).contains(&more), "{more}");
    assert!(off.abs() <= 1.0, "{off}: {says}");
}

#[test]
#[ignore = "storm: a minute of real time"]
fn a_clock_in_a_graph_keeps_the_systems_time() {
    let seconds = seconds();
    let day = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let (began, at) = (day(), Instant::now());
    let (ticks, says) = ticks(&format!("clock 1000 lock=ntp count={} | keep", seconds * 1_000.0));
    let (ended, took) = (day(), at.elapsed().as_secs_f64());
    // The machine's seconds in the system's: the two differ while the system's time is being corrected.
    let off = drift(&ticks, 1_000.0 * (ended - began) / took);
    println!("{} ticks, {off:+.3} off, in {:.4} s of the system's time; {says}", ticks.len(), ended - began);
    assert!(off.abs() <= 1.0, "{off}: {says}");
    // All within their time, and what the last one was late.
    assert!(ended - began >= seconds - 0.001 && ended - began < seconds + 2.0, "{}", ended - began);
}
