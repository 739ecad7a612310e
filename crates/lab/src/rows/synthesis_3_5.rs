//! table 3.5 of synthesis: a null system call by each way.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};

/// The row.
pub struct Calls;

impl Row for Calls {
    fn about(&self) -> About {
        About {
            id: "synthesis-3-5",
            paper: Paper::Synthesis,
            part: "table 3.5",
            title: "a null system call by each way",
            note: "",
            seconds: (0, 0),
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

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("system calls by a ring to a kernel's core (io_uring) are not there yet"))
    }
}
