//! table 3.6 of synthesis: what each object takes of memory.

use crate::row::{About, Absent, Lab, Paper, Row};

/// The row.
pub struct Sizes;

impl Row for Sizes {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-6",
            paper: Paper::Synthesis,
            part: "table 3.6",
            title: "what each object takes of memory",
            note: "",
            seconds: (0, 0),
        }
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("no benchmark of chappe-synth is joined to this row yet"))
    }
}
