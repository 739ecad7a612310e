//! tables 2.1 and 2.2 of synthesis: pipes, files, the shortest system call, a context switch.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::kernel;

/// The row.
pub struct Overheads;

impl Row for Overheads {
    fn about(&self) -> About {
        About {
            id: "synthesis-2-1",
            paper: Paper::Synthesis,
            part: "tables 2.1 and 2.2",
            title: "pipes, files, the shortest system call, a context switch",
            note: "Files are in memory: no disk is in the way.",
            seconds: (3, 15),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds; UNIX 4.0C on a Sony NEWS, and Mach 2.1 on a NeXT, both 68030 at 25 MHz",
            &[
                "function|UNIX, 1 B|UNIX, 1,024 B|Mach, 1 B|Mach, 1,024 B",
                "write to a pipe|260|450|470|740",
                "write to a file|340|420|370|600",
                "read from a pipe|190|610|550|760",
                "read from a file|380|460|350|580",
                "getpid|40||88|",
                "context switch|170||510|",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        kernel::overheads(&lab.house, lab.rounds);
        Ok(())
    }
}
