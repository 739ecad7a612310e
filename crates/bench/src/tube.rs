//! `bench tube`: channels beside their peers, between threads and between processes.
//!
//! | table | module |
//! |---|---|
//! | memory of a channel | [`footprint`] |
//! | as fast as it goes, one to one | [`stream`] |
//! | uncontended pairs | [`pair`] |
//! | four to one, four to four | [`crowd`] |
//! | choice, ready and blocked | [`choice`] |
//! | choice by many threads at once | [`stress`] |
//! | there and back | [`pingpong`] |
//! | processor time of a message that comes alone | [`paced`] |
//! | from a take to the return of the thread that waited for it | [`resume`] |
//! | between two processes | [`between`] |
//!
//! [`channel`] and [`chooser`] say what a row must do, and have the peers; [`ours`] has the tubes. Between processes that
//! is [`wire`]; the tubes are in [`named`], the floor in [`floor`].
//!
//! iceoryx2 has rows between processes when it is built in: `cargo run --profile dist -p chappe-bench --features iceoryx2 -- tube`.

pub mod between;
pub mod channel;
pub mod choice;
pub mod chooser;
pub mod clock;
pub mod crowd;
pub mod floor;
pub mod footprint;
#[cfg(feature = "iceoryx2")]
pub mod iceoryx;
pub mod named;
pub mod ours;
pub mod paced;
pub mod pair;
pub mod pingpong;
pub mod resume;
pub mod stream;
pub mod stress;
pub mod wire;

use crate::house::House;
use crate::table::Aim;

/// Measures and prints all; the aims.
///
/// # Panics
/// When a channel cannot be made, or does not work.
pub fn measure(_house: &House, rounds: u32) -> Vec<Aim> {
    // First: as long as this process has little.
    let mut aims = footprint::measure();
    aims.extend(stream::measure(rounds));
    aims.extend(pair::measure(rounds));
    aims.extend(crowd::measure(rounds));
    aims.extend(choice::measure(rounds));
    aims.extend(stress::measure(rounds));
    aims.extend(pingpong::measure(rounds));
    aims.extend(paced::measure(rounds));
    aims.extend(resume::measure(rounds));
    aims.extend(between::measure(rounds));
    aims
}
