//! table 3.4 of synthesis: interrupt handlers rewritten as sources come and go.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct Interrupts;

impl Row for Interrupts {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-4",
            paper: Paper::Synthesis,
            part: "table 3.4",
            title: "interrupt handlers rewritten as sources come and go",
            note: "",
            seconds: (0, 0),
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

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("the periods of a graph of stages are not there yet (`chappe graph`)"))
    }
}
