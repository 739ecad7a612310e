//! The interfaces of a quaject: the callentries of its ends, its callouts, and their defaults (synthesis, 4.1.1 to
//! 4.1.3).
//!
//! A *source* has the callentry `get`. A *stage* has the callentry `put` and the callout [`Out`], through which it
//! hands its results on. A stage without a reader has the default callout, which counts the results as dropped. A
//! *gatherer* has `get`, and a callout to each of its inputs.
//!
//! None of them knows its neighbours: the linker fills the callouts with plain calls, queues or pumps.

use crate::types::Block;
use std::fmt;

/// Why a stage cannot go on. It ends its graph, which says which stage it was.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

impl Fault {
    /// With what was tried.
    pub fn new(what: impl fmt::Display) -> Fault {
        Fault(what.to_string())
    }
}

impl From<std::io::Error> for Fault {
    fn from(e: std::io::Error) -> Fault {
        Fault(e.to_string())
    }
}

/// What became of a stage's device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Lost {
    /// It has gone, and the stage looks for it.
    Gone,
    /// It is there again, after so many seconds.
    Back(f64),
}

/// The callout of a stage.
pub trait Out {
    /// Hands a block on. Returns when the next stage or queue has taken it: if a queue is full, the calling light
    /// thread parks.
    ///
    /// # Errors
    /// A stage behind has failed; the caller passes that on.
    fn put(&mut self, block: Block) -> Result<(), Fault>;

    /// Counts frames that this stage gives up.
    fn drop_frames(&mut self, count: u64);

    /// Says that this stage wants nothing more.
    fn finish(&mut self);

    /// Says that something that had its time was late by so many seconds: the callout `late`.
    fn late(&mut self, by: f64);

    /// Says that the stage's device has gone, or is there again: the callout `lost`.
    fn lost(&mut self, what: Lost) {
        let _ = what;
    }

    /// Whether what stands once at the begin was handed on already: by this stage, by one whose seat it took, or in a process that was killed.
    fn is_begun(&self) -> bool {
        false
    }

    /// It has been handed on: said behind [`Out::put`], so a kill between the two repeats it with a block that is marked, and never loses it.
    fn begun(&mut self) {}

    /// Whether the graph is to stop: a stage that waits for something outside looks at this.
    fn is_stopped(&self) -> bool {
        false
    }

    /// At a stage's end: whether what came in was cut off, since the graph is to stop, or nobody wants more. What is no whole line then is none.
    fn is_cut(&self) -> bool {
        false
    }
}

/// Something that blocks are put into.
pub trait Stage: Send {
    /// Takes a block.
    ///
    /// # Errors
    /// The stage cannot go on.
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault>;

    /// Whether this stage gives one block for each, which it changes where it lies: then the linker calls [`Stage::alter`] in place of `put`, and the next
    /// stage itself.
    fn alters(&self) -> bool {
        false
    }

    /// Changes a block. Called of a stage that [`Stage::alters`]; it does what `put` does, and cannot fail.
    fn alter(&mut self, block: &mut Block) {
        let _ = block;
    }

    /// No block comes any more: hands on what is left.
    ///
    /// # Errors
    /// The stage cannot do it.
    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let _ = out;
        Ok(())
    }

    /// How full its input is, from 0 to 1, before each block; for those that steer by it.
    fn fill(&mut self, fill: f64) {
        let _ = fill;
    }

    /// What there is to say at the end, in a line.
    fn says(&self) -> Option<String> {
        None
    }
}

/// Something that blocks are got from.
pub trait Source: Send {
    /// The next block; nothing when there is no more.
    ///
    /// # Errors
    /// It cannot go on.
    fn get(&mut self) -> Result<Option<Block>, Fault>;

    /// Frames that this source has given up since it was last asked: of a device that does not wait. It is asked after each `get`.
    fn dropped(&mut self) -> u64 {
        0
    }

    /// Whether its device has gone, or is there again, since it was last asked: the callout `lost`. It is asked after each `get` that gives an empty block.
    fn lost(&mut self) -> Option<Lost> {
        None
    }

    /// Whether it has ended before those that feed it were done: one died, or stopped with an error. It is asked when there is no next block.
    fn is_broken(&self) -> bool {
        false
    }

    /// What there is to say at the end, in a line.
    fn says(&self) -> Option<String> {
        None
    }
}

/// Something that gets blocks from several inputs and makes one of them.
pub trait Gather: Send {
    /// The next block; nothing when there is no more.
    ///
    /// # Errors
    /// It, or something before it, cannot go on.
    fn get(&mut self, inputs: &mut [&mut dyn Source]) -> Result<Option<Block>, Fault>;
}

/// The working part of a node.
pub enum Body {
    /// Nothing comes in.
    Source(Box<dyn Source>),
    /// Something comes in, and something may go out.
    Stage(Box<dyn Stage>),
    /// Several come in, and are got from.
    Gather(Box<dyn Gather>),
    /// It is the linker's own: a queue, a pump, a fork, a join.
    Link,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Body::Source(_) => "Source",
            Body::Stage(_) => "Stage",
            Body::Gather(_) => "Gather",
            Body::Link => "Link",
        })
    }
}

/// A callout that keeps what is handed to it: for tests, and to drive a stage by hand.
#[derive(Debug, Default)]
pub struct Kept {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// Frames given up.
    pub dropped: u64,
    /// Whether the stage wants no more.
    pub finished: bool,
    /// How often it was late.
    pub late: u64,
    /// What became of its device.
    pub lost: Vec<Lost>,
    /// Whether what stands at the begin was handed on.
    pub begun: bool,
}

impl Out for Kept {
    fn put(&mut self, block: Block) -> Result<(), Fault> {
        self.blocks.push(block);
        Ok(())
    }

    fn drop_frames(&mut self, count: u64) {
        self.dropped += count;
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn late(&mut self, _: f64) {
        self.late += 1;
    }

    fn lost(&mut self, what: Lost) {
        self.lost.push(what);
    }

    fn is_begun(&self) -> bool {
        self.begun
    }

    fn begun(&mut self) {
        self.begun = true;
    }
}

/// A body of a stage that cannot fail to be made.
pub(crate) fn stage(stage: impl Stage + 'static) -> Result<Body, Fault> {
    Ok(Body::Stage(Box::new(stage)))
}
