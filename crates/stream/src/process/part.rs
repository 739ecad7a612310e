//! A part in its own process: the work of [`serve`].
//!
//! The part reads the graph's text on its standard input, cuts out its piece, and runs it with its counts in the arena.
//! By a tube of the arena it tells the keeper: `S NODE\nTEXT`, what a stage says; then `E`, it has ended well, `F
//! NODE\nWHY`, a stage has failed, or `C\nWHY`, it could not begin. Its exit status is 0 if it could tell, whatever it
//! told.

use super::counts::Shared;
use super::furnish::furnish;
use super::split::{Is, Piece, cuts, view};
use super::told::{TOLD, VARIABLE, object, told_of};
use crate::graph::{Graph, Options};
use crate::seat::Floor;
use crate::stage::Fault;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::{child, process, thread};
use chappe_sync::tube::named::{Sender, Tube};
use chappe_sync::words::Words;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// How often a part looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(20);

static SERVED: AtomicU32 = AtomicU32::new(0);

/// Whether this process was begun as a part, and its program has not called [`serve`]: it would run the whole graph again, and so on.
pub fn is_unserved_part() -> bool {
    // Relaxed: `main` calls `serve` before anything runs a graph.
    SERVED.load(Ordering::Relaxed) == 0 && child::variable(VARIABLE).is_some()
}

/// In a process that was begun as a part of a graph: runs that part, and ends the process. In any other: does nothing.
///
/// A program that runs graphs with `@process` calls it first in `main`; `kinds` are those of its graphs. The command `chappe` does.
///
/// ```no_run
/// use chappe_stream::{Options, process::serve, run};
/// // First in `main`:
/// serve(&Options::default());
/// run("sine 440 seconds=1 | lowpass 800 @filter | wav \"out.wav\"").unwrap();
/// ```
pub fn serve(options: &Options) {
    let Some(said) = child::variable(VARIABLE) else { return };
    // Relaxed: as above.
    SERVED.store(1, Ordering::Relaxed);
    let status = match told(&said, options) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("chappe: part of a graph: {why}");
            1
        }
    };
    process::exit(status);
}

/// `ARENA/NUMBER/LAZY/NAME`.
fn told(said: &str, options: &Options) -> Result<(), Fault> {
    let mut words = said.splitn(4, '/');
    let (Some(arena), Some(number), Some(lazy), Some(name)) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Fault(format!("`{VARIABLE}={said}` says nothing")));
    };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let sender = Tube::<[u8]>::open(&told_of(arena, number)).and_then(|t| t.sender()).map_err(Fault::new)?;
    let options = Options { lazy: lazy == "lazy", ..options.clone() };
    let failed = match Graph::with(&text, options) {
        Ok(graph) => run(graph, arena, number, name, &sender)?,
        Err(why) => Some(Failed::Begin(why.to_string())),
    };
    match failed {
        None => tell(&sender, 'E', 0, ""),
        Some(Failed::Stage(node, why)) => tell(&sender, 'F', node, &why),
        Some(Failed::Begin(why)) => tell(&sender, 'C', 0, &why),
    }
}

fn tell(to: &Sender<[u8]>, what: char, node: usize, text: &str) -> Result<(), Fault> {
    let said = format!("{what}{node}\n{text}");
    let mut end = said.len().min(TOLD);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    to.send(&said.as_bytes()[..end]).map_err(Fault::new)
}

/// How a part failed.
enum Failed {
    /// At which of the whole graph's nodes, and why.
    Stage(usize, String),
    /// It did not begin.
    Begin(String),
}

fn run(
    mut graph: Graph,
    arena: &str,
    number: &str,
    name: &str,
    tell_to: &Sender<[u8]>,
) -> Result<Option<Failed>, Fault> {
    let mut piece = view(&graph, Some(name));
    furnish(&mut graph, &mut piece, arena, None);
    let Piece { graph: own, is } = piece;
    let whole = |at: usize| match is[at] {
        Is::Node(at) => at,
        Is::Sends(cut) => cuts(graph.nodes())[cut].from,
        Is::Receives(cut) => cuts(graph.nodes())[cut].to,
    };
    let words = Words::open(&object(arena, "part", number)).map_err(Fault::new)?;
    let shared = Shared::new(words, own.nodes().len());
    let runtime = chappe_thread::Runtime::standard()?;
    let floor = Arc::new(Floor::default());
    let running = match own.begin(runtime, &floor, Some(&shared)) {
        Ok(running) => running,
        Err(e) => return Ok(Some(Failed::Begin(e.to_string()))),
    };
    thread::background("graph-part", move || {
        loop {
            std::thread::sleep(LOOK);
            if shared.stops() {
                // Relaxed: as in `Floor::fail`.
                floor.stop.store(1, Ordering::Relaxed);
            }
        }
    })?;
    let (report, fault) = running.end();
    for (at, node) in report.nodes.iter().enumerate() {
        if let (Is::Node(_), Some(says)) = (is[at], &node.says) {
            tell(tell_to, 'S', at, says)?;
        }
    }
    Ok(fault.map(|(at, why)| Failed::Stage(whole(at), why)))
}
