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
//! **Kills.** The process that runs the graph keeps both ends of each tube open on a part's behalf, so that a part that dies is a
//! pause for its neighbours, and no end. A part that was killed by a signal is begun anew:
//!
//! - P1: a block that a part had taken and not finished comes once more, marked ([`crate::Block::again`]), and whatever comes of it is marked. A block
//!   is finished when all calls that it led to have returned, which includes that their results are in the next tubes. One whose
//!   receiver dies twice is dropped by the tube, and counted.
//! - P2: blocks that lay in a queue *within* the part are lost, counted as dropped at the stage behind the queue. The linker puts no queue into a part
//!   where calls do; [`crate::explain`] shows those that there are.
//! - P3: stages begin anew as their kind says ([`Anew`]): filters with nothing remembered, files and generators behind the last block that
//!   was finished. A part with a stage that cannot (whatever writes a file) is not begun anew: the graph ends and says so.
//! - P4: a part that dies four times without having finished a block ends the graph. So does one whose stage fails: the message is the stage's, with its
//!   place in the text.
//!
//! If the process that runs the graph dies, its parts are killed by the system, and the next graph of this user removes the arena.
//!
//! Counts of a part's stages lie in the arena (`Words`), so that no kill takes them away; [`crate::Report::nodes`] has them all.
//!
//! Left out: `says` of a part that was killed is that of its last incarnation. Parts run on this machine, as this user.

mod counts;
mod keep;
mod part;
mod split;
pub(crate) mod tubes;

pub use keep::PartReport;
pub use part::serve;

pub(crate) use counts::{InQueue, Shared};
pub(crate) use keep::{Parts, begin};
pub(crate) use part::is_unserved_part;
pub(crate) use split::{Is, cuts, names, view};

use crate::graph::Graph;
use crate::kind::Anew;
use std::ffi::OsString;
use std::path::PathBuf;

/// How a part is begun: a program that calls [`serve`], and what it is told.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The program; nothing for the one that runs the graph.
    pub program: Option<PathBuf>,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// What each process runs, the one that runs the graph first: to look at, not to run.
pub fn pieces(graph: &Graph) -> Vec<Graph> {
    let names = names(graph.nodes());
    std::iter::once(None).chain(names.iter().map(|n| Some(n.as_str()))).map(|which| view(graph, which).graph).collect()
}

/// How many tubes lead from one process to another.
pub fn tubes(graph: &Graph) -> usize {
    cuts(graph.nodes()).len()
}

/// What of a part makes it one that cannot be begun anew, if anything.
pub(crate) fn stays_dead(anew: Anew) -> bool {
    anew == Anew::Never
}
