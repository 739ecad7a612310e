//! section 4, the power series of plan9-semaphores: McIlroy's power series, a thread a coefficient.

use crate::row::{About, Absent, Lab, Paper, Row};

/// The row.
pub struct Series;

impl Row for Series {
    fn about(&self) -> About {
        About {
            id: "plan9-series",
            paper: Paper::Plan9,
            part: "section 4, the power series",
            title: "McIlroy's power series, a thread a coefficient",
            note: "",
            seconds: (0, 0),
        }
    }

    fn measure(&self, _lab: &Lab) -> Result<(), Absent> {
        Err(Absent::new("no benchmark of light threads is joined to this row yet"))
    }
}
