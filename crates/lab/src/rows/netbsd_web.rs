//! section 5, a web server of netbsd-restartable-sequences: a program that mostly does something else.

use crate::row::{About, Absent, Lab, Paper, Row};
use chappe_bench::ras::applications;
use chappe_bench::ras::locks::Locks;

/// The row.
pub struct Server;

impl Row for Server {
    fn about(&self) -> About {
        About {
            id: "netbsd-web",
            paper: Paper::Netbsd,
            part: "section 5, a web server",
            title: "a program that mostly does something else",
            note: "The paper: no difference.",
            seconds: (4, 40),
        }
    }

    fn measure(&self, lab: &Lab) -> Result<(), Absent> {
        applications::server(&Locks::new(), lab.rounds);
        Ok(())
    }
}
