//! Streams: quajects as a typed graph (synthesis, chapters 4 and 6).
//!
//! A graph is a small text. It names stages and what leads to what; the linker finds the types, and puts a plain call, a queue or a pump between
//! two stages, by what their ends are; light threads run it, each with a quantum that follows the fill of its queues.
//!
//! ```
//! use chappe_stream::Graph;
//!
//! let graph = Graph::new("sine 440 seconds=0.1 | gain -6dB | tee (spectrum 1024 | null) | lowpass 800 | count | null")?;
//! println!("{}", chappe_stream::explain::text(&graph));
//! let report = graph.run()?.wait()?;
//! assert_eq!(report.node("count").unwrap().says.as_deref(), Some("4800 frames"));
//! assert_eq!(report.dropped(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`text`] has the grammar, [`node`] all kinds of stages, [`link`] the table of who is joined how.
//! - [`Graph::new`] checks a text, [`Graph::run`] runs it, [`explain`] shows it.
//! - [`Running::replace`] puts another stage into one's place while data flows, [`Running::relink`] all that changed in a text; [`Running::on_late`] hears what is late.
//! - [`Kind::new`] adds a kind of one's own, [`Options::kinds`] hands it to a graph; [`Builder`] writes a graph's text.
//! - [`queue`] is the queue quaject by itself, [`sched::background`] begins threads that compute beside graphs.
//!
//! - [`process`] has `@name`: parts of a graph in other processes, begun anew when they are killed.
//!
//! Blocking: `run` does not wait, `wait` does. A process that is killed takes its part of the graph with it, and what was in its queues.

pub mod build;
pub mod explain;
mod fused;
mod graph;
mod kind;
mod limb;
pub mod link;
pub mod node;
pub mod process;
pub mod queue;
mod relink;
mod report;
pub mod run;
pub mod sched;
mod seat;
mod stage;
pub mod text;
mod types;

pub use build::Builder;
/// Clients of a JACK server, for programs that play or record without a graph.
pub use chappe_plat::jack;
pub use chappe_synth::Complaint;
pub use graph::{Graph, Node, Options, run};
pub use kind::{Anew, Call, End, Kind, Kinds, Make, Plan, Planner, Role, WhenFull, Wrong};
pub use relink::Replaced;
pub use report::{NodeReport, QueueReport, Report, RunError};
pub use run::{Running, Stopper};
pub use seat::{Counts, LateCall};
pub use stage::{Body, Fault, Gather, Kept, Out, Source, Stage};
pub use types::{Block, Data, Element, Type};
