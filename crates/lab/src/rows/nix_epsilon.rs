//! figure 25 of nix-semaphores-tubes: experiment 3, tubes between processes: asleep.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::tube::between;

/// The row.
pub struct Epsilon;

impl Row for Epsilon {
    fn about(&self) -> About {
        About {
            id: "nix-epsilon",
            paper: Paper::Nix,
            part: "figure 25",
            title: "experiment 3, tubes between processes: asleep",
            note: "Beside the kernel's pipes, sockets and message queues.",
            seconds: (9, 90),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        between::measure(lab.rounds);
        Ok(())
    }

    fn shows(&self, title: &str) -> bool {
        title.starts_with("half a round trip") && title.contains("same processor")
    }
}
