//! figure 11 of nix-semaphores-tubes: a locked increment and a spin lock.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::nix;

/// The row.
pub struct Increment;

impl Row for Increment {
    fn about(&self) -> About {
        About {
            id: "nix-11",
            paper: Paper::Nix,
            part: "figure 11",
            title: "a locked increment and a spin lock",
            note: "The paper: 1 to 100 processes on 32 processors; here one thread, and two.",
            seconds: (3, 15),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        nix::increments(lab.rounds);
        Ok(())
    }
}
