//! table 7.1 of synthesis: the loops of appendix A.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::kernel;

/// The row.
pub struct Programs;

impl Row for Programs {
    fn about(&self) -> About {
        About {
            id: "synthesis-7-1",
            paper: Paper::Synthesis,
            part: "table 7.1",
            title: "the loops of appendix A",
            note: "Unmodified programs under chappe (`chappe run --io`) are not built: the kernel's figures stand beside tubes that a program calls itself.",
            seconds: (3, 15),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "seconds; SUN 3/160, and Synthesis' emulator of it",
            &[
                "program|SUNOS|Synthesis|ratio",
                "1 compute|20.3|21.42|0.95",
                "2 pipe, 1 B|10.0|0.18|56",
                "3 pipe, 1,024 B|15.1|2.42|6.2",
                "4 pipe, 4,096 B|37.9|9.64|3.9",
                "5 file|20.6|2.91|7.1",
                "6 open /dev/null, close|17.8|0.69|26",
                "7 open /dev/tty, close|42.6|0.88|48",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        kernel::programs(&lab.house, lab.rounds);
        Ok(())
    }
}
