//! figures 16 to 18 of nix-semaphores-tubes: experiment 1, a mutex: time-sharing cores.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::nix;

/// The row.
pub struct Alpha;

impl Row for Alpha {
    fn about(&self) -> About {
        About {
            id: "nix-alpha",
            paper: Paper::Nix,
            part: "figures 16 to 18",
            title: "experiment 1, a mutex: time-sharing cores",
            note: "The paper has 32 processors. With fewer than processes, a strong semaphore passes each turn on to the longest waiter, which is a change of process; sem_t and a barging one let the running process go on.",
            seconds: (15, 80),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        nix::alpha(lab.rounds);
        Ok(())
    }
}
