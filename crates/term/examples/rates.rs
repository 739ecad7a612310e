//! How fast streams become a screen: for each file, in pieces of 4 KiB, the best of five. `cargo xtask bench term` runs it.

use chappe_term::feed::Emulator;
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let best = (0..5).map(|_| once(&bytes)).min().unwrap_or_default();
        println!("{path}\t{:.0}", bytes.len() as f64 / best.as_secs_f64() / 1e6);
    }
    Ok(())
}

fn once(bytes: &[u8]) -> Duration {
    let (mut it, began) = (Emulator::new(80, 24), Instant::now());
    for piece in bytes.chunks(4096) {
        it.feed(piece);
        let scrolled = it.screen_mut().take_scrolled();
        it.screen_mut().reuse(scrolled);
    }
    began.elapsed()
}
