//! tables 5.2 and 5.3 of synthesis: thread operations and switches.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct ThreadOperations;

impl Row for ThreadOperations {
    fn about(&self) -> About {
        About {
            id: "synthesis-5-2",
            paper: Paper::Synthesis,
            part: "tables 5.2 and 5.3",
            title: "thread operations and switches",
            note: "",
            seconds: (0, 0),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds",
            &[
                "operation|time",
                "create, shared vector table|19.2",
                "destroy|2.2 + 6.1",
                "suspend|2.2 + 3.7",
                "resume|3.0 or 6.6",
                "signal|4.6 + 4.4",
                "step|25",
                "switch, integer registers|14",
                "switch, floating point|56",
            ],
        ))
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("no benchmark of light threads is joined to this row yet"))
    }
}
