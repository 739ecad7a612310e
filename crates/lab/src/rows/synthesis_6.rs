//! chapter 6 of synthesis: the frequency-locked loop and the scheduler that listens to the data.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::feedback;

/// The row.
pub struct Feedback;

impl Row for Feedback {
    fn about(&self) -> About {
        About {
            id: "synthesis-6",
            paper: Paper::Synthesis,
            part: "chapter 6",
            title: "the frequency-locked loop and the scheduler that listens to the data",
            note: "In simulation. What the loop makes of pipelines, step by step, is in docs/feedback.md; streams over real devices are missing.",
            seconds: (1, 10),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        feedback::measure(lab.rounds);
        Ok(())
    }
}
