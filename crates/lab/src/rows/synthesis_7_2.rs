//! table 7.2 of synthesis: cat of a long file into a terminal window.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct Terminal;

impl Row for Terminal {
    fn about(&self) -> About {
        About {
            id: "synthesis-7-2",
            paper: Paper::Synthesis,
            part: "table 7.2",
            title: "cat of a long file into a terminal window",
            note: "",
            seconds: (0, 0),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "seconds for 110,620 bytes",
            &[
                "system|machine|time",
                "Synthesis|Sony NEWS, 68030|2.9",
                "UNIX, X11 R5|Sony NEWS, 68030|23",
                "UNIX, console|Sony NEWS, 68030|127",
                "Mach, NextStep|NeXT, 68030|55",
                "Mach, NextStep|NeXT, 68040|13",
                "SUNOS, X11 R5|SparcStation II|6.5",
            ],
        ))
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("chappe has no terminal yet (`chappe term`)"))
    }
}
