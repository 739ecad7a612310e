//! section 4, the power series of plan9-semaphores: McIlroy's power series, a thread a coefficient.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::thread::Rows;

/// The row.
pub struct Series;

impl Row for Series {
    fn about(&self) -> About {
        About {
            id: "plan9-series",
            paper: Paper::Plan9,
            part: "section 4, the power series",
            title: "McIlroy's power series, a thread a coefficient",
            note: "The paper: 1,000 processes, 207,631 lock calls, of which 127 to 490 waited; it names no time. Go is today's heir of those threads.",
            seconds: (5, 40),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        Rows::new(&lab.program, lab.go.clone()).series((lab.rounds / 3).max(1));
        Ok(())
    }

    fn wants_go(&self) -> bool {
        true
    }
}
