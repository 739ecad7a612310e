//! table 3.1 of synthesis: putting into a buffer.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::synth;

/// The row.
pub struct BufferPut;

impl Row for BufferPut {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-1",
            paper: Paper::Synthesis,
            part: "table 3.1",
            title: "putting into a buffer",
            note: "Code made for what stays the same: here a subscriber's condition, where the paper has a buffer's put.",
            seconds: (1, 15),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "cycles of a 68030",
            &["code|cold cache|warm cache", "synthesised|29|20", "hand-crafted assembly|37|28"],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        synth::measure(lab.rounds);
        Ok(())
    }
}
