//! What is counted at a node.

/// What was counted at a node.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// Blocks that came in; of a source, that came out.
    pub blocks: u64,
    /// Their elements; of records and text, bytes.
    pub elements: u64,
    /// Frames that were given up.
    pub dropped: u64,
    /// How often something was late.
    pub late: u64,
    /// By how much at most, in seconds.
    pub latest: f64,
    /// Blocks that may have come twice.
    pub again: u64,
    /// Of a source: how many inputs have ended before they were done: a sender died, or stopped with an error. What came may be a part.
    pub broken: u64,
    /// How often another body was seated.
    pub replaced: u64,
    /// Nanoseconds within it and what it calls, where a probe measures.
    pub ns: u64,
}
