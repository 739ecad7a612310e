//! `bench realtime`: what nonblocking-real-time and chapter 5 of synthesis measured, as it is today.
//!
//! | table | module |
//! |---|---|
//! | table 2: one counter under each kind of synchronisation | [`counters`] |
//! | priority inversion: three priorities on one processor | [`inversion`] |
//! | several words at once | [`several`] |
//! | look-ups in maps | [`maps`] |
//! | table 5.1 of synthesis: stacks, tables of keys, and operations that have to begin again | [`structures`] |
//!
//! What one's own periodic handler suffers is `chappe lateness`'s business.

pub mod counters;
pub mod inversion;
pub mod maps;
pub mod several;
pub mod structures;

use crate::house::House;
use crate::table::Aim;

/// Measures and prints all; the aims.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(house: &House, rounds: u32) -> Vec<Aim> {
    let mut aims = counters::measure(rounds);
    aims.extend(several::measure(rounds));
    aims.extend(structures::measure(house, rounds));
    aims.extend(maps::measure(house, rounds));
    aims.extend(inversion::measure(rounds * 8));
    aims
}
