//! table 3.5 of synthesis: a null system call by each way.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::ring;

/// The row.
pub struct Calls;

impl Row for Calls {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-5",
            paper: Paper::Synthesis,
            part: "table 3.5",
            title: "a null system call by each way",
            note: "A ring that a kernel thread polls is the kernel core of the Nix paper: the caller's processor makes no system call.",
            seconds: (1, 15),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds",
            &[
                "way|cold cache|warm cache",
                "C procedure call|1.2|1.0",
                "null trap|1.9|1.6",
                "kernel call, general dispatch|4.2|3.5",
                "general, in line|3.5|2.9",
                "cached trap|3.5|2.7",
                "cached and in line|2.7|2.1",
                "UNIX getpid|40|",
                "Mach getpid|88|",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        ring::measure(lab.rounds);
        Ok(())
    }
}
