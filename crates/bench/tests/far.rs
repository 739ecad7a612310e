//! A clock keeps the time of another machine's over a link with a millisecond of jitter, put on by a relay (synthesis, 6.4.3).

use chappe_bench::far::{By, PPM, follow, jittered};
use std::time::Duration;

fn keeps(by: By) {
    let (long, from) = (Duration::from_secs(40), Duration::from_secs(15));
    let seen = follow(by, jittered(by), long, from).unwrap();
    let off = |errors: &[f64], share: f64| {
        let mut all: Vec<f64> = errors.iter().map(|error| error.abs() * 1e6).collect();
        all.sort_by(f64::total_cmp);
        all[((all.len() - 1) as f64 * share) as usize]
    };
    let (least, usual, each) = (off(&seen.errors, 1.0), off(&seen.errors, 0.99), off(&seen.each, 1.0));
    // A relay that was held up itself has put more on the link than it was to.
    let held = seen.delays.iter().map(|(wanted, was)| was - wanted).fold(0.0, f64::max);
    let added = seen.delays.iter().map(|(_, was)| was * 1e6);
    let (many, most) = (seen.delays.len(), added.clone().fold(0.0, f64::max));
    let mean = added.sum::<f64>() / many as f64;
    println!(
        "{by:?}: 99 of 100 within {usual:.1} us, at worst {least:.1} us off in {} looks (each exchange by itself: {each:.1}), {:+.2} ppm of {PPM:+}, surely within {:.0} us; \
         {many} delays, {mean:.0} us in the mean, {most:.0} at most",
        seen.errors.len(),
        seen.ppm,
        seen.bound * 1e6
    );
    assert!(seen.errors.len() > 1_000 && mean > 500.0, "{} looks, {mean} us of delay", seen.errors.len());
    assert!(usual < 50.0, "{usual} us");
    assert!(least < 50.0 || held > 5e-3, "{least} us, and the relay was held up for {held} s at most");
    assert!(each > least, "{each} us: the link did nothing");
}

#[test]
#[ignore = "storm: 40 s of real time, on a quiet machine"]
fn a_clock_keeps_a_peers_time_within_50_us_over_datagrams() {
    keeps(By::Udp);
}

#[test]
#[ignore = "storm: 40 s of real time, on a quiet machine"]
fn a_clock_keeps_a_peers_time_within_50_us_over_a_stream() {
    keeps(By::Tcp);
}
