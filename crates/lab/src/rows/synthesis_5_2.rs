//! tables 5.2 and 5.3 of synthesis: thread operations and switches.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::thread::Rows;

/// The row.
pub struct ThreadOperations;

impl Row for ThreadOperations {
    fn about(&self) -> About {
        About {
            id: "synthesis-5-2",
            paper: Paper::Synthesis,
            part: "tables 5.2 and 5.3",
            title: "thread operations and switches",
            note: "Suspend, resume, signal and step are there (crates/thread), and have no benchmark yet; switches are in table 3.3.",
            seconds: (6, 50),
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

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        Rows::new(&lab.program, lab.go.clone()).operations((lab.rounds / 3).max(1));
        Ok(())
    }

    fn wants_go(&self) -> bool {
        true
    }
}
