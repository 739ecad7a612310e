//! figure 20 of nix-semaphores-tubes: ratios of the critical section to the rest: time-sharing cores.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::nix;

/// The row.
pub struct Beta;

impl Row for Beta {
    fn about(&self) -> About {
        About {
            id: "nix-beta",
            paper: Paper::Nix,
            part: "figure 20",
            title: "ratios of the critical section to the rest: time-sharing cores",
            note: "As figures 16 to 18.",
            seconds: (12, 60),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        nix::beta(lab.rounds);
        Ok(())
    }
}
