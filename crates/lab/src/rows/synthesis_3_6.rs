//! table 3.6 of synthesis: what each object takes of memory.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::thread::Rows;
use chappe_bench::tube::footprint;

/// The row.
pub struct Sizes;

impl Row for Sizes {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-6",
            paper: Paper::Synthesis,
            part: "table 3.6",
            title: "what each object takes of memory",
            note: "Bytes, not time. The paper's kernel takes 140 KiB, a thread 0.4 KiB and a stack; a graph of stages is missing.",
            seconds: (3, 15),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        footprint::measure();
        Rows::new(&lab.program, lab.go.clone()).memory();
        Ok(())
    }

    fn wants_go(&self) -> bool {
        true
    }
}
