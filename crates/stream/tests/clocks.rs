//! Clocks that are locked to another one, in real time: N ticks in N/f of its seconds, one more or less (synthesis, 6.4.1, "integral stability").
//! `CHAPPE_CLOCK_SECONDS=600` makes it ten minutes. The same in virtual time stands beside the code (`node/clocks.rs`, `chappe-feedback`).

use chappe_stream::{Block, Body, Fault, Graph, Kind, Kinds, Options, Out, Plan, Stage};
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
