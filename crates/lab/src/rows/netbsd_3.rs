//! figure 3 of netbsd-restartable-sequences: what registered sequences cost a context switch.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::ras::again::Again;
use chappe_bench::ras::switches;

/// The row.
pub struct Figure3;

impl Row for Figure3 {
    fn about(&self) -> About {
        About {
            id: "netbsd-3",
            paper: Paper::Netbsd,
            part: "figure 3",
            title: "what registered sequences cost a context switch",
            note: "Needs processes of another environment: with the C library's area, with one of chappe's own, and with none.",
            seconds: (5, 40),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        switches::measure(&Again::new(&lab.program), lab.rounds);
        Ok(())
    }
}
