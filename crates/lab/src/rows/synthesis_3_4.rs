//! table 3.4 of synthesis: interrupt handlers rewritten as sources come and go.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::synth::period;

/// The row.
pub struct Interrupts;

impl Row for Interrupts {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-4",
            paper: Paper::Synthesis,
            part: "table 3.4",
            title: "interrupt handlers rewritten as sources come and go",
            note: "The callback of a device with one input and one output, 64 samples a period, in place of an interrupt a sample. Machine code only where the feature `jit` is built in.",
            seconds: (3, 8),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds",
            &[
                "handler|CD-in|CD+DA",
                "synthesised|3.7|5.1",
                "assembler|6.0|7.7",
                "C|9.7|11.3",
                "C and UNIX|17.1|18.9",
                "null interrupt|2.0|",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        period::measure(lab.rounds);
        Ok(())
    }
}
