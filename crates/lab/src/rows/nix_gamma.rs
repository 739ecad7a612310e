//! figure 23 of nix-semaphores-tubes: experiment 2, a choice of semaphores.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::sync::choice;

/// The row.
pub struct Gamma;

impl Row for Gamma {
    fn about(&self) -> About {
        About {
            id: "nix-gamma",
            paper: Paper::Nix,
            part: "figure 23",
            title: "experiment 2, a choice of semaphores",
            note: "The paper compares with a program that simulates a choice by a central semaphore; the peer here is the kernel's own wait for several words. examples/c/nix_experiments.c is the paper's program to the letter: docs/nix-experiments.md.",
            seconds: (5, 100),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        choice::measure(lab.rounds);
        Ok(())
    }
}
