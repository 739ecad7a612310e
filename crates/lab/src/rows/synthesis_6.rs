//! chapter 6 of synthesis: the frequency-locked loop and the scheduler that listens to the data.

use crate::row::{About, Absent, Lab, Paper, Row};

/// The row.
pub struct Feedback;

impl Row for Feedback {
    fn about(&self) -> About {
        About {
            id: "synthesis-6",
            paper: Paper::Synthesis,
            part: "chapter 6",
            title: "the frequency-locked loop and the scheduler that listens to the data",
            note: "",
            seconds: (0, 0),
        }
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("streams are not there yet"))
    }
}
