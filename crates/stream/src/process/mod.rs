//! A graph in several processes: `@name` behind a stage puts it into the part of that name (synthesis, 4.2.1: stubs and the dispatcher).
//!
//! ```text
//! wav "in.wav" | lowpass 800 @filter | wav "out.wav"
//!   this process: wav | (to @filter)          (from @filter) | wav
//!   @filter:              (from wav) | lowpass | (to wav)
//! ```
//!
//! Stages of one name are one process, wherever they stand. A link that leads from one process to another is *cut*: its ends become a
//! sink that sends its blocks to a named tube, and a source that receives them. The tubes lie in an arena of the graph's own, which nobody else may open,
//! and which goes with the graph. A part is begun by the program that runs the graph: that program begins itself again, and [`serve`], called
//! first in `main`, does the part's work there.
//!
//! **Kills.** The process that runs the graph holds both ends of each tube open on a part's behalf. So the death of a
//! part is a pause for its neighbours, not an end. A part that was killed by a signal is begun anew:
//!
//! - P1: a block that the part had taken and not finished is redelivered and marked ([`crate::Block::again`]); so are
//!   the blocks that result from it. A block is finished when all calls to which it led have returned; by then their
//!   results are in the next tubes. If two receivers die with the same block, the tube drops and counts it.
//! - P2: blocks that lay in a queue *within* the part are lost, and counted as dropped at the stage behind the queue.
//!   The linker puts no queue into a part where calls suffice; [`crate::explain`] shows the queues that there are.
//! - P3: each stage begins anew as its kind says ([`Anew`]): filters without their memory, files and generators behind
//!   the last block that was finished, devices with what comes from then on (what they had given and nobody finished is lost, and counted). If a part has a stage that cannot begin anew (one that writes a file), the part
//!   is not begun anew: the graph ends with an error.
//! - P4: a part that dies four times in a row without having finished a block ends the graph. So does a part whose
//!   stage fails: the message is the stage's, with its place in the text.
//!
//! If the process that runs the graph dies, the system kills its parts, and the next graph of this user removes the
//! arena.
//!
//! The counts of a part's stages lie in the arena (`counts`), so they survive a kill; [`crate::Report::nodes`] has them
//! all.
//!
//! Left out: `says` of a part that was killed is that of its last incarnation. Parts run on this machine, as this user.

mod command;
mod counts;
mod furnish;
mod keep;
mod part;
mod split;
mod told;
pub(crate) mod tubes;

pub use crate::report::PartReport;
pub use command::Command;
pub use part::serve;

pub(crate) use counts::{InQueue, Shared};
pub(crate) use keep::{Parts, begin};
pub(crate) use part::is_unserved_part;
pub(crate) use split::{Is, cuts, names, view};

use crate::graph::Graph;

/// What each process runs, the one that runs the graph first: to look at, not to run.
pub fn pieces(graph: &Graph) -> Vec<Graph> {
    let names = names(graph.nodes());
    std::iter::once(None).chain(names.iter().map(|n| Some(n.as_str()))).map(|which| view(graph, which).graph).collect()
}

/// How many tubes lead from one process to another.
pub fn tubes(graph: &Graph) -> usize {
    cuts(graph.nodes()).len()
}
