//! table 5.1 of synthesis: lock-free structures, and locked ones.

use crate::row::{About, Absent, Figures, Lab, Paper, Row};
use chappe_bench::objects;
use chappe_bench::realtime::several;

/// The row.
pub struct Objects;

impl Row for Objects {
    fn about(&self) -> About {
        About {
            id: "synthesis-5-1",
            paper: Paper::Synthesis,
            part: "table 5.1",
            title: "lock-free structures, and locked ones",
            note: "Nobody else is about, as in the paper. Its retry is another compare-and-swap; lists in order are missing, a table of keys stands for them.",
            seconds: (3, 30),
        }
    }

    fn figures(&self) -> Option<Figures> {
        Some(Figures::new(
            "microseconds",
            &[
                "operation|not synchronised|locked|lock-free, no retry|one retry",
                "increment|0.3|2.4|1.3|2.3",
                "list insert|0.6|2.7|1.4|2.3",
                "list delete|1.0|3.2|2.1|4.1",
                "queue insert|2.0|4.2|3.3|6.0",
                "queue delete|2.1|4.3|3.3|6.0",
                "stack push|0.7|2.8|2.0|3.5",
                "stack pop|0.7|2.8|2.0|3.5",
            ],
        ))
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        objects::measure(lab.rounds);
        several::measure(lab.rounds);
        Ok(())
    }
}
