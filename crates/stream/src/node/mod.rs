//! The kinds of nodes that there are: the quajects of the thesis' tables 4.2 to 4.4 and the stages of its signal processing toolkit (6.3.1).
//!
//! | module | kinds |
//! |---|---|
//! | [`links`] | `queue pump tee share merge null` |
//! | [`wav`] | `wav` |
//! | [`files`] | `file raw lines records stdin print hash` |
//! | [`disk`] | `disk` |
//! | [`cache`] | `cache` |
//! | [`blocks`] | `buffer unbuffer cast rate take skip probe count` |
//! | [`waves`] | `sine noise impulse sweep silence` |
//! | [`sound`] | `gain offset clip mix mono channel delay echo reverb` |
//! | [`filters`] | `lowpass highpass bandpass notch fir` |
//! | [`resample`] | `resample oversample` |
//! | [`spectrum`] | `spectrum power correlate` |
//! | [`picture`] | `png` |
//! | [`rhythm`] | `onset beat drum` |
//! | [`time`] | `pace deadline emergency` |
//! | [`clocks`] | `clock reference` |
//! | [`jack`] | `jack` |
//! | [`alsa`] | `alsa` |
//! | [`serial`] | `serial` |
//! | [`midi`] | `midi` |
//! | [`packets`] | `packets pcap` |
//! | [`fields`] | `fields` |
//! | [`tube`] | `tube` |
//! | [`rows`] | `parse where select field csv json` |
//! | [`cook`] | `cook onlcr tabs` |
//! | [`window`] | `vt100 window` |
//! | [`frame`] | `frame` |

mod absent;
mod ahead;
pub mod alsa;
pub mod blocks;
pub mod cache;
pub mod clocks;
pub mod cook;
pub mod disk;
pub mod fields;
pub mod files;
pub mod filters;
pub mod frame;
pub mod jack;
pub mod links;
pub mod midi;
mod opened;
pub mod packets;
pub mod parse;
pub mod picture;
pub mod resample;
pub mod rhythm;
pub mod rows;
pub mod serial;
pub mod sound;
pub mod spectrum;
pub mod sums;
pub mod time;
pub mod tube;
pub mod wav;
pub mod waves;
pub mod window;

use crate::kind::{Kind, Kinds};

/// All of them.
pub fn all() -> Vec<Kind> {
    let groups = [
        links::kinds(),
        files::kinds(),
        disk::kinds(),
        cache::kinds(),
        wav::kinds(),
        blocks::kinds(),
        waves::kinds(),
        sound::kinds(),
        filters::kinds(),
        resample::kinds(),
        spectrum::kinds(),
        picture::kinds(),
        rhythm::kinds(),
        time::kinds(),
        clocks::kinds(),
        jack::kinds(),
        alsa::kinds(),
        serial::kinds(),
        midi::kinds(),
        packets::kinds(),
        fields::kinds(),
        tube::kinds(),
        rows::kinds(),
        cook::kinds(),
        window::kinds(),
        frame::kinds(),
    ];
    groups.into_iter().flatten().collect()
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds::standard()
    }
}

impl Kinds {
    /// All that this crate has.
    pub fn standard() -> Kinds {
        Kinds::of(all())
    }
}
