//! tables 1 and 2 of netbsd-restartable-sequences: a test-and-set by each mechanism, and the index M.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::ras::mechanisms;

/// The row.
pub struct Table1;

impl Row for Table1 {
    fn about(&self) -> About {
        About {
            id: "netbsd-1",
            paper: Paper::Netbsd,
            part: "tables 1 and 2",
            title: "a test-and-set by each mechanism, and the index M",
            note: "The row's text has the index M = 100 (t_NI - t) / t_NI of each mechanism.",
            seconds: (3, 15),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds a test-and-set",
            &[
                "system|RAS|system call",
                "DECstation 5000/25|0.40|35.6",
                "100MHz i486DX|0.32|21.5",
                "DECstation 5000/260|0.17|9.7",
                "Alchemy Pb1000 EVB|0.04|2.4",
                "Broadcom BCM91250A EVB|0.04|1.4",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        mechanisms::measure(lab.rounds);
        Ok(())
    }
}
