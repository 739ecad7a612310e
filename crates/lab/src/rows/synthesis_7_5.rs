//! table 7.5 of synthesis: the parts of a window system.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::stream::cook;

/// The row.
pub struct Window;

impl Row for Window {
    fn about(&self) -> About {
        About {
            id: "synthesis-7-5",
            paper: Paper::Synthesis,
            part: "table 7.5",
            title: "the parts of a window system",
            note: "The cooker alone: chappe draws no characters, so there is neither a VT-100 nor a window.",
            seconds: (7, 8),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds",
            &[
                "quaject|create|write",
                "TTY cooker|27|2.3 + 2.1 a character",
                "VT-100|532|14.2 + 1.3 a character",
                "text window|71|23.9 + 27.7 a character",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        cook::measure(lab.rounds).map_err(Absent::new)
    }
}
