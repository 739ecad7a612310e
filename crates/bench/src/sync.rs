//! `bench sync`: semaphores, mutexes and choice beside their peers, and Plan 9's tables.
//!
//! | table | module |
//! |---|---|
//! | uncontended pairs | [`pair`] |
//! | contended, threads and processes | [`contended`] |
//! | three threads on one semaphore | [`strong`] |
//! | there and back, asleep and spinning | [`handoff`] |
//! | choice, ready and blocked | [`choice`] |
//! | the tables of plan9-semaphores | [`plan9`] |

pub mod choice;
pub mod contended;
pub mod handoff;
pub mod pair;
pub mod plan9;
pub mod strong;

use crate::house::House;
use crate::table::Aim;

/// Measures and prints all; the aims.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn measure(_house: &House, rounds: u32) -> Vec<Aim> {
    let mut aims = pair::measure(rounds);
    aims.extend(contended::measure(rounds));
    strong::measure(rounds);
    aims.extend(handoff::measure(rounds));
    aims.extend(choice::measure(rounds));
    plan9::measure(rounds);
    aims
}
