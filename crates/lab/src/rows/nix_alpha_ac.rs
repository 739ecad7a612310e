//! figure 19 of nix-semaphores-tubes: experiment 1, a mutex: application cores.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::machine::processors;
use chappe_bench::nix;

/// The row.
pub struct AlphaApplication;

impl Row for AlphaApplication {
    fn about(&self) -> About {
        About {
            id: "nix-alpha-ac",
            paper: Paper::Nix,
            part: "figure 19",
            title: "experiment 1, a mutex: application cores",
            note: "As many processes as processors, each on its own, spinning. The paper has up to 32.",
            seconds: (4, 30),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        if processors() < 2 {
            return Err(Absent::new(
                "this machine has one processor: an application core needs one for itself, beside another",
            ));
        }
        nix::alpha_application(lab.rounds);
        Ok(())
    }
}
