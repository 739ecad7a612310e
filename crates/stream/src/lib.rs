//! Streams: quajects as a typed graph (synthesis, chapters 4 and 6).
//!
//! A graph is a small text that names stages and the links between them. The linker infers the type of each link, and
//! puts a plain call, a queue or a pump between two stages, depending on whether their ends are active or passive.
//! Light threads run the graph; the quantum of each follows the fill of its queues.
//!
//! ```
//! use chappe_stream::Graph;
//!
//! let graph = Graph::new("sine 440 seconds=0.128 | gain -6dB | tee (spectrum 1024 | null) | lowpass 800 | count | null")?;
//! println!("{}", chappe_stream::explain::text(&graph));
//! let report = graph.run()?.wait()?;
//! assert_eq!(report.node("count").unwrap().says.as_deref(), Some("6144 frames"));
//! assert_eq!(report.dropped(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`text`] has the grammar, [`node`] all kinds of stages, [`link`] the table of how two ends are joined.
//! - [`Graph::new`] checks a text, [`Graph::run`] runs it, [`explain`] shows it.
//! - [`Running::replace`] replaces a stage while data flows, [`Running::relink`] all stages that changed in a text;
//!   [`Running::on_late`] reports what is late, [`Running::on_emergency`] which job was ended for a more important one.
//! - [`Kind::new`] defines a new kind of stage, [`Options::kinds`] hands it to a graph; [`Builder`] writes a graph's
//!   text.
//! - [`queue`] is the queue quaject by itself, [`sched::background`] begins threads that compute beside graphs.
//! - [`inactive`] has the lists of stages that are used again.
//! - [`process`] has `@name`: parts of a graph in other processes, begun anew when they are killed.
//!
//! Blocking: `run` does not wait, `wait` does. A graph ends with the process that runs it. If a part's process is
//! killed, the part is begun anew, or the graph ends with an error (see [`process`]); the blocks that lay in the part's
//! own queues are lost and counted as dropped.

pub mod build;
mod calls;
mod contest;
mod counted;
pub mod explain;
mod fused;
mod graph;
pub mod inactive;
mod kind;
mod limb;
pub mod link;
mod locks;
pub mod node;
mod placed;
pub mod process;
pub mod queue;
mod relink;
mod report;
pub mod run;
pub mod sched;
mod seat;
mod stage;
mod telling;
pub mod text;
mod touched;
mod types;

pub use build::Builder;
/// Clients of a JACK server, for programs that play or record without a graph.
pub use chappe_plat::jack;
pub use chappe_synth::Complaint;
pub use counted::Counts;
pub use graph::{Graph, Options};
pub use kind::{Anew, Call, End, Job, Kind, Kinds, Make, Plan, Planner, Role, WhenFull, Wrong};
pub use node::window::Pictures;
pub use placed::Node;
pub use relink::Replaced;
pub use report::{NodeReport, QueueReport, Report, RunError};
pub use run::{Running, Stopper, run};
pub use stage::{Body, Fault, Gather, Kept, Lost, Out, Source, Stage};
pub use types::{Block, Data, Element, Type};
