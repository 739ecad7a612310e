//! table 3.3 of synthesis: a context switch by what is live.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::thread::Rows;

/// The row.
pub struct Switch;

impl Row for Switch {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-3",
            paper: Paper::Synthesis,
            part: "table 3.3",
            title: "a context switch by what is live",
            note: "Whole switches, scheduler included, in processor time. Floating-point registers need no saving here: the compiler's rules say that no call keeps them.",
            seconds: (22, 80),
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

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        Rows::new(&lab.program, lab.go.clone()).switches((lab.rounds / 3).max(1));
        Ok(())
    }

    fn wants_go(&self) -> bool {
        true
    }
}
