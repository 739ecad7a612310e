//! figure 21 of nix-semaphores-tubes: ratios of the critical section to the rest: application cores.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::machine::processors;
use chappe_bench::nix;

/// The row.
pub struct BetaApplication;

impl Row for BetaApplication {
    fn about(&self) -> About {
        About {
            id: "nix-beta-ac",
            paper: Paper::Nix,
            part: "figure 21",
            title: "ratios of the critical section to the rest: application cores",
            note: "As figure 19.",
            seconds: (4, 30),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        if processors() < 2 {
            return Err(Absent::new(
                "this machine has one processor: an application core needs one for itself, beside another",
            ));
        }
        nix::beta_application(lab.rounds);
        Ok(())
    }
}
