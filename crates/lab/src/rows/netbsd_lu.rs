//! section 5, LU decomposition of netbsd-restartable-sequences: a program that locks often.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::ras::applications;
use chappe_bench::ras::locks::Locks;

/// The row.
pub struct Decomposition;

impl Row for Decomposition {
    fn about(&self) -> About {
        About {
            id: "netbsd-lu",
            paper: Paper::Netbsd,
            part: "section 5, LU decomposition",
            title: "a program that locks often",
            note: "The paper: about 14,000 lock operations a thread, and no difference.",
            seconds: (6, 60),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        applications::decomposition(&Locks::new(), lab.rounds);
        Ok(())
    }
}
