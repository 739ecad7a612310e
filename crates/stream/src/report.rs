//! A graph's report: the counts of each node, queue and part; and the error of a graph that did not run, or not to its
//! end.

use crate::counted::Counts;
use chappe_synth::Complaint;

/// Why a graph did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A stage could not be made, or failed: which, where, and why.
    #[error(transparent)]
    Stage(#[from] Complaint),
    /// There is no room for its threads.
    #[error("no light thread for `{0}`: {1}")]
    Thread(String, std::io::Error),
    /// This process was begun as a part of a graph, and its program does not know.
    #[error(
        "this process was begun for a part (`@process`) of a graph, and would run it all: its program must call \
         `chappe::stream::process::serve` first in `main`"
    )]
    Unserved,
}

/// What one node has come to.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// What people call it.
    pub label: String,
    /// The part that it is in, if it is in one.
    pub process: Option<String>,
    /// What was counted.
    pub counts: Counts,
    /// What it says itself.
    pub says: Option<String>,
}

/// What a queue has come to.
#[derive(Clone, Copy, Debug)]
pub struct QueueReport {
    /// The node that puts.
    pub from: usize,
    /// The node that gets.
    pub to: usize,
    /// What was counted.
    pub counts: crate::queue::Counts,
}

/// What a part has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartReport {
    /// `@name`.
    pub name: String,
    /// How often it was begun anew, since it was killed.
    pub restarts: u64,
    /// Blocks that came to it once more.
    pub again: u64,
    /// Blocks that were dropped because two receivers had died of them.
    pub dropped: u64,
}

/// What a graph has come to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each node: those of this process, with the ends of tubes to others, and then those of each part.
    pub nodes: Vec<NodeReport>,
    /// Each queue.
    pub queues: Vec<QueueReport>,
    /// Each part in another process.
    pub parts: Vec<PartReport>,
    /// Seconds from its begin.
    pub seconds: f64,
}

impl Report {
    /// Frames that were given up anywhere, and blocks that killed two receivers.
    pub fn dropped(&self) -> u64 {
        let blocks: u64 = self.parts.iter().map(|p| p.dropped).sum();
        self.nodes.iter().map(|n| n.counts.dropped).sum::<u64>() + blocks
    }

    /// How many inputs have ended before they were done: a sender of a tube died, or stopped with an error; a capture file ends within a packet. What came
    /// of them may be a part.
    pub fn broken(&self) -> u64 {
        self.nodes.iter().map(|n| n.counts.broken).sum()
    }

    /// How often anything was late.
    pub fn late(&self) -> u64 {
        self.nodes.iter().map(|n| n.counts.late).sum()
    }

    /// The first node of that label.
    pub fn node(&self, label: &str) -> Option<&NodeReport> {
        self.nodes.iter().find(|n| n.label == label)
    }
}
