//! `bench ras`: restartable sequences, the locks and the per-processor objects made with them, beside their peers; and the tables
//! and figures of netbsd-restartable-sequences, as they are today.
//!
//! | table | module |
//! |---|---|
//! | 1 and 2: a test-and-set by each mechanism, and the index M | [`mechanisms`], [`index`] |
//! | figure 3: context switches beside the number of sequences | [`switches`] |
//! | section 5: an LU decomposition, a web server | [`applications`] |
//! | uncontended pairs, biased and fallen back | [`pairs`] |
//! | hammered, moved, in turns | [`restless`] |
//! | taking a bias away | [`revoke`] |
//! | counters, free lists, semaphores of each processor | [`percpu`] |

pub mod again;
pub mod applications;
pub mod both;
pub mod illegal;
pub mod index;
pub mod locks;
pub mod lu;
pub mod mechanisms;
pub mod pairs;
pub mod percpu;
pub mod plain;
pub mod plot;
pub mod restless;
pub mod revoke;
pub mod sequence;
pub mod spread;
pub mod switches;
pub mod treiber;
pub mod web;

use crate::house::House;
use crate::table::Aim;
use again::Again;
use locks::Locks;

/// Measures and prints all; the aims. Some of it runs in this program anew.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn measure(_house: &House, again: &Again, rounds: u32) -> Vec<Aim> {
    mechanisms::measure(rounds);
    switches::measure(again, rounds);
    applications::decomposition(&Locks::new(), rounds);
    applications::server(&Locks::new(), rounds);
    let mut aims = pairs::measure(again, rounds);
    aims.extend(restless::measure(rounds));
    revoke::measure(rounds);
    aims.extend(percpu::measure(rounds));
    aims
}

/// A part that is a program of its own: its name, and what it is told.
///
/// # Panics
/// When there is no such part, or it cannot be done.
pub fn part(args: &[&str]) {
    match args {
        [pairs::PART, rounds] => pairs::part(rounds.parse().expect("a number")),
        [switches::PART, rest @ ..] => switches::part(rest),
        other => panic!("no part {other:?}"),
    }
}
