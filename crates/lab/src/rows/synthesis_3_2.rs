//! table 3.2 of synthesis: putchar.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct Stdio;

impl Row for Stdio {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-2",
            paper: Paper::Synthesis,
            part: "table 3.2",
            title: "putchar",
            note: "",
            seconds: (0, 0),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "seconds for ten million",
            &[
                "function|time|bytes a call",
                "UNIX putchar, macro|21.4|132",
                "Synthesis putchar, macro|13.0|30",
                "Synthesis putchar, function|19.0|8",
            ],
        ))
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("it is C against the C library: `cargo xtask bench c` compiles and prints it"))
    }
}
