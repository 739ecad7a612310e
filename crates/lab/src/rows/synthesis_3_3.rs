//! table 3.3 of synthesis: a context switch by what is live.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct Switch;

impl Row for Switch {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-3",
            paper: Paper::Synthesis,
            part: "table 3.3",
            title: "a context switch by what is live",
            note: "",
            seconds: (0, 0),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds",
            &[
                "kind|time",
                "integer registers|10.5",
                "floating point|52",
                "integer, another address space|16",
                "floating point, another address space|56",
                "null procedure call|1.4",
                "Sony NEWS, UNIX|170",
                "NeXT, Mach|510",
            ],
        ))
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("no benchmark of light threads is joined to this row yet"))
    }
}
