//! table 1 of plan9-semaphores: semaphore system calls.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::sync::plan9;

/// The row.
pub struct Table1;

impl Row for Table1 {
    fn about(&self) -> About {
        About {
            id: "plan9-1",
            paper: Paper::Plan9,
            part: "table 1",
            title: "semaphore system calls",
            note: "A round trip of the ping-pong has four operations; the time is that of one.",
            seconds: (4, 25),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds a system call",
            &[
                "machine|ping-pong|semacquire|semrelease",
                "PentiumIII/Xeon, 598 MHz, 1 cpu|2.18|1.35|1.91",
                "PentiumIII/Xeon, 797 MHz, 2 cpus|0.887|0.949|1.38",
                "PentiumIV/Xeon, 2196 MHz, 4 cpus|0.970|1.38|1.84",
                "AMD64, 2201 MHz, 2 cpus|1.08|0.266|0.326",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        plan9::table_1(lab.rounds);
        Ok(())
    }
}
