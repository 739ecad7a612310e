//! table 7.3 of synthesis: files and devices.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::kernel;

/// The row.
pub struct Devices;

impl Row for Devices {
    fn about(&self) -> About {
        About {
            id: "synthesis-7-3",
            paper: Paper::Synthesis,
            part: "table 7.3",
            title: "files and devices",
            note: "The kernel alone.",
            seconds: (2, 10),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds; native Synthesis, and by its emulation of SUNOS",
            &[
                "operation|native|emulated",
                "open /dev/null|43|49",
                "open /dev/tty|62|68",
                "open a file|73|85",
                "close|18|22",
                "read 1 byte from a file|9|10",
                "read N bytes from a file|9+N/8|10+N/8",
                "read N from /dev/null|6|8",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        kernel::devices(&lab.house, lab.rounds);
        Ok(())
    }
}
