//! A part's counts: words of the graph's arena, which survive a kill of the part's process.
//!
//! ```text
//!  0: stop | of each node: blocks elements dropped late latest again finished broken begun settled | of each queue: put finished
//! ```
//!
//! Each count has one writer at a time: the part's thread at that node. A part that is begun anew goes on from the
//! counts of its predecessor. Words that belong together are changed by one [`Words::update`], so a kill leaves them
//! all old or all new. The process that runs the graph writes `stop`, reads the counts. A part that is begun anew calls
//! [`InQueue::lost`] for each of its queues.

use crate::counted::Counts;
use chappe_sync::words::Words;
use std::sync::Arc;

const NODE: u32 = 10;
const QUEUE: u32 = 2;

/// The words of a part.
#[derive(Clone)]
pub struct Shared {
    words: Arc<Words>,
    nodes: u32,
}

/// The counts of a queue within a part: elements that were put, and elements that their getter has finished.
#[derive(Clone)]
pub struct InQueue {
    words: Arc<Words>,
    at: u32,
}

/// How many words a part has.
pub fn words(nodes: usize, queues: usize) -> u32 {
    1 + NODE * nodes as u32 + QUEUE * queues as u32
}

impl Shared {
    /// Those of a part of so many nodes.
    pub fn new(words: Words, nodes: usize) -> Shared {
        Shared { words: Arc::new(words), nodes: nodes as u32 }
    }

    fn read(&self, word: u32) -> u64 {
        // An error: the arena has gone with its graph, so the count does not matter any more.
        self.words.load(word).unwrap_or(0)
    }

    fn write(&self, word: u32, value: u64) {
        let _ = self.words.store(word, value);
    }

    /// Tells all threads of the part to stop.
    pub fn stop(&self) {
        self.write(0, 1);
    }

    /// Whether the part must stop. Also true if the arena has gone, since the process that runs the graph has then
    /// ended.
    pub fn stops(&self) -> bool {
        !matches!(self.words.load(0), Ok(0))
    }

    /// What was counted at a node.
    pub fn counts(&self, node: usize) -> Counts {
        let at = 1 + NODE * node as u32;
        Counts {
            blocks: self.read(at),
            elements: self.read(at + 1),
            dropped: self.read(at + 2),
            late: self.read(at + 3),
            latest: f64::from_bits(self.read(at + 4)),
            again: self.read(at + 5),
            broken: self.read(at + 7),
            ..Counts::default()
        }
    }

    /// Records a node's counts of blocks, elements and redelivered blocks.
    pub fn count(&self, node: usize, blocks: u64, elements: u64, again: u64) {
        let at = 1 + NODE * node as u32;
        let _ = self.words.update([at, at + 1, at + 5], |now| *now = [blocks, elements, again]);
    }

    /// Records the frames that a node has dropped.
    pub fn dropped(&self, node: usize, frames: u64) {
        self.write(3 + NODE * node as u32, frames);
    }

    /// Records how often a node was late, and by how much at most.
    pub fn late(&self, node: usize, count: u64, latest: u64) {
        let at = 4 + NODE * node as u32;
        let _ = self.words.update([at, at + 1], |now| *now = [count, latest]);
    }

    /// Records how many inputs of a node have ended before they were done.
    pub fn broken(&self, node: usize, count: u64) {
        self.write(8 + NODE * node as u32, count);
    }

    /// A node has handed on what stands once at its begin.
    pub fn begun(&self, node: usize) {
        self.write(9 + NODE * node as u32, 1);
    }

    /// Whether it has.
    pub fn is_begun(&self, node: usize) -> bool {
        self.read(9 + NODE * node as u32) != 0
    }

    /// How many blocks of a source are finished (P1).
    pub fn finished(&self, node: usize) -> u64 {
        self.read(7 + NODE * node as u32)
    }

    /// A source has finished one more block, and with it so many elements in all.
    pub fn finish(&self, node: usize, elements: u64) {
        let at = 1 + NODE * node as u32;
        let _ = self.words.update([at + 6, at + 9], |now| *now = [now[0] + 1, elements]);
    }

    /// Counts what a source gave and nobody finished as dropped, in frames of so many elements: its process was killed. It counts as finished from now on.
    pub fn settle(&self, node: usize, frame: u64) {
        let at = 1 + NODE * node as u32;
        let _ = self.words.update([at + 1, at + 9, at + 2], |now| {
            now[2] += now[0].saturating_sub(now[1]) / frame.max(1);
            now[1] = now[0];
        });
    }

    /// How many blocks the part's sources have finished together: a measure of its progress.
    pub fn progress(&self) -> u64 {
        (0..self.nodes as usize).map(|node| self.finished(node)).sum()
    }

    /// A queue of the part.
    pub fn queue(&self, queue: usize) -> InQueue {
        InQueue { words: Arc::clone(&self.words), at: 1 + NODE * self.nodes + QUEUE * queue as u32 }
    }
}

impl InQueue {
    /// Counts elements that were put, or (negative) that their putter has given up.
    pub fn put(&self, elements: i64) {
        let _ = self.words.update([self.at], |[now]| *now = now.wrapping_add_signed(elements));
    }

    /// The getter has finished these elements.
    pub fn finish(&self, elements: u64) {
        let _ = self.words.update([self.at + 1], |[now]| *now += elements);
    }

    /// The elements that were lost in a kill. They count as finished from now on.
    pub fn lost(&self) -> u64 {
        let mut lost = 0;
        let _ = self.words.update([self.at, self.at + 1], |now| {
            lost = now[0].saturating_sub(now[1]);
            now[1] = now[0];
        });
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_reads_the_counts_and_a_queues_loss_counts_once() {
        let words = Words::private(words(3, 2)).unwrap();
        let shared = Shared::new(words, 3);
        shared.count(1, 5, 500, 1);
        shared.dropped(1, 7);
        shared.late(1, 2, 0.5f64.to_bits());
        shared.broken(1, 1);
        shared.begun(1);
        assert_eq!([0, 1, 2].map(|node| shared.is_begun(node)), [false, true, false]);
        let expected = Counts {
            blocks: 5,
            elements: 500,
            dropped: 7,
            late: 2,
            latest: 0.5,
            again: 1,
            broken: 1,
            ..Counts::default()
        };
        assert_eq!(
            (shared.counts(1), shared.counts(0), shared.counts(2)),
            (expected, Counts::default(), Counts::default())
        );
        [0, 2, 2].into_iter().for_each(|at| shared.finish(at, 50));
        assert_eq!((shared.progress(), shared.finished(2)), (3, 2));
        // Of a device: a block of 60 elements, thirty frames, was not finished.
        shared.count(2, 3, 110, 0);
        (0..2).for_each(|_| shared.settle(2, 2));
        assert_eq!((shared.counts(2).dropped, shared.counts(2).elements, shared.finished(2)), (30, 110, 2));
        let queue = shared.queue(1);
        [100, 50, -50].into_iter().for_each(|n| queue.put(n));
        queue.finish(60);
        assert_eq!((queue.lost(), queue.lost(), shared.queue(0).lost()), (40, 0, 0));
        assert!(!shared.stops());
        shared.stop();
        assert!(shared.stops());
    }
}
