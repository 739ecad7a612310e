//! table 2 of nonblocking-real-time: a counter by each way of synchronising.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::realtime::{counters, inversion, maps};

/// The row.
pub struct Counter;

impl Row for Counter {
    fn about(&self) -> About {
        About {
            id: "fiasco-2",
            paper: Paper::Fiasco,
            part: "table 2",
            title: "a counter by each way of synchronising",
            note: "Besides: what three priorities on one processor do to the highest (section 3), and look-ups in a map.",
            seconds: (6, 60),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "cycles of a P5 and of a Pentium II",
            &[
                "way|P5|P-II",
                "unsynchronised|2|2",
                "CAS|13|12",
                "Fiasco's helping lock|245|245",
                "Massalin and Pu's lock, with a context switch|627|607",
                "IPC|653|810",
                "IPC, L4/x86|398|438",
                "IPC, L4/x86, small address space|184|300",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        counters::measure(lab.rounds);
        inversion::measure(lab.rounds * 4);
        maps::measure(&lab.house, lab.rounds);
        Ok(())
    }
}
