//! Delays between the steps of all sections: with the feature `inject`, for tests; else there are none.
//!
//! A section is a nanosecond long; with a delay at one of its points, preemption, signals and migration come there often. The loop counts
//! in a register that the section does not use otherwise.

#[cfg(feature = "inject")]
use chappe_plat::atomic::AtomicU32;

/// How many points there are at which a section can be delayed: no section has more.
#[cfg(feature = "inject")]
pub const POINTS: usize = 6;

/// How many turns of an empty loop a section makes at each point. All sections look here.
#[cfg(feature = "inject")]
pub static TURNS: [AtomicU32; POINTS] = [const { AtomicU32::new(0) }; POINTS];

/// Nothing: this is the section that ships.
#[cfg(not(feature = "inject"))]
macro_rules! delay {
    ($point:literal) => {
        ""
    };
}
#[cfg(all(feature = "inject", target_arch = "x86_64"))]
macro_rules! delay {
    ($point:literal) => {
        concat!(
            "mov {turn:e}, dword ptr [rip + {turns} + 4 * ",
            $point,
            "]\n88: test {turn:e}, {turn:e}\njz 99f\ndec {turn:e}\njmp 88b\n99:"
        )
    };
}
#[cfg(all(feature = "inject", target_arch = "aarch64"))]
macro_rules! delay {
    ($point:literal) => {
        concat!(
            "adrp {turn}, {turns}\nadd {turn}, {turn}, :lo12:{turns}\nldr {turn:w}, [{turn}, #4 * ",
            $point,
            "]\n88: cbz {turn:w}, 99f\nsub {turn:w}, {turn:w}, #1\nb 88b\n99:"
        )
    };
}
pub(crate) use delay;
