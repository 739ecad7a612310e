//! figure 26 of nix-semaphores-tubes: experiment 3, tubes between processes: application cores.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::machine::processors;
use chappe_bench::tube::between;

/// The row.
pub struct EpsilonApplication;

impl Row for EpsilonApplication {
    fn about(&self) -> About {
        About {
            id: "nix-epsilon-ac",
            paper: Paper::Nix,
            part: "figure 26",
            title: "experiment 3, tubes between processes: application cores",
            note: "One process on each of two processors.",
            seconds: (9, 90),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        if processors() < 2 {
            return Err(Absent::new(
                "this machine has one processor: an application core needs one for itself, beside another",
            ));
        }
        between::measure(lab.rounds);
        Ok(())
    }

    fn shows(&self, title: &str) -> bool {
        title.contains("two processors") || title.starts_with("one way")
    }
}
