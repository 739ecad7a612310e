//! What has become of the records of a text.

/// So many messages about bad records are kept.
pub const SHOWN: usize = 10;

/// What reading has come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Records that were read.
    pub records: u64,
    /// Records with something wrong.
    pub bad: u64,
    /// Records that came when a window of theirs had ended, or that had no time.
    pub late: u64,
    /// What was wrong with the first ones, with their places.
    pub shown: Vec<String>,
}

impl Report {
    /// Whether as many messages are kept as there may be.
    pub fn is_full(&self) -> bool {
        self.shown.len() >= SHOWN
    }
}
