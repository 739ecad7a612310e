//! What ten thousand named pools take of one process, and what one pool takes of its arena.

use crate::table::Aim;
pub use chappe_counts::footprint::{MANY, each, take};

/// Counts and prints; the aims.
pub fn measure() -> Vec<Aim> {
    let f = take();
    let more = f.descriptors_after - f.descriptors_before;
    println!("\n{MANY} named pools, all held by one thread of one process");
    println!("  descriptors before and with them          {} and {}", f.descriptors_before, f.descriptors_after);
    println!("  mappings of their arena                   {}", f.mappings);
    println!("  bytes of arena for each, index and all    {} (256 members), {} (1024)", f.bytes_each, f.bytes_usual);
    println!("  made in                                   {} ms", f.milliseconds);
    let whole = |n: f64| format!("{n:.0}");
    vec![
        Aim::at_most(format!("descriptors for {MANY} named pools"), 1.0, more as f64, whole),
        Aim::at_most(
            "bytes for a named pool of one (256 members; the index of names aside)",
            128.0,
            (f.bytes_each - INDEX) as f64,
            whole,
        ),
    ]
}

/// The index of names has two places for each object, of eight bytes each.
const INDEX: u64 = 16;
