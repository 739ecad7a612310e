//! table 2 of plan9-semaphores: spin locks and semaphore locks.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::sync::plan9;

/// The row.
pub struct Table2;

impl Row for Table2 {
    fn about(&self) -> About {
        About {
            id: "plan9-2",
            paper: Paper::Plan9,
            part: "table 2",
            title: "spin locks and semaphore locks",
            note: "A bare contest, then a thousand threads that talk over channels under one lock, as McIlroy's power series do.",
            seconds: (14, 90),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds a lock operation",
            &[
                "machine|spin locks|semaphore locks",
                "PentiumIII/Xeon, 598 MHz, 1 cpu|5.4|5.4",
                "PentiumIII/Xeon, 797 MHz, 2 cpus|18.2|5.6",
                "AMD64, 2201 MHz, 2 cpus|22.6|2.5",
                "PentiumIV/Xeon, 2196 MHz, 4 cpus|43.8|4.9",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        plan9::table_2(lab.rounds);
        Ok(())
    }
}
