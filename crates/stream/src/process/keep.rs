//! The keeper: the process that runs a graph starts the graph's parts, restarts those that were killed, and reports how
//! they ended.
//!
//! One kernel thread of that process looks at all parts every three milliseconds and reads what they tell (`told`). For
//! each part the keeper also holds both ends of the part's tubes open. When a part has ended well the keeper drops
//! them, and the part's neighbours learn that nothing more comes.
//!
//! | a part's process | the keeper |
//! |---|---|
//! | told `E` and exited with 0 | drops the held ends |
//! | told `F` or `C` | ends the graph with that fault |
//! | was killed by a signal | starts it again; ends the graph if P3 or P4 of [`super`] forbid that |
//! | exited in any other way | ends the graph: the message says how |
//!
//! If the keeper's own process dies, the system kills the parts; the next graph of this user removes the arena
//! (`sweep`).

use super::command::Command;
use super::counts::{Shared, words};
use super::furnish::furnish;
use super::split::{Is, Piece, cuts, names, view};
use super::told::{TOLD, VARIABLE, object, told_of};
use super::tubes::{self, Keeps};
use crate::calls::Calls;
use crate::graph::Graph;
use crate::link::link;
use crate::report::{NodeReport, PartReport, RunError};
use crate::seat::Floor;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::child::{Child, Ended, own_program};
use chappe_plat::{process, thread};
use chappe_sync::tube::named::{Receiver, Sender, Tube, TubeOptions};
use chappe_sync::words::Words;
use chappe_sync::{Arena, ArenaOptions};
use chappe_synth::Complaint;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the parts are looked at.
const LOOK: Duration = Duration::from_millis(3);
/// So many deaths in a row without a block that was finished end the graph (P4).
const DEATHS: u32 = 4;
/// How arenas of graphs begin; the process's number and the graph's come behind it.
const PREFIX: &str = "graph-";

static GRAPHS: AtomicU32 = AtomicU32::new(0);

struct Part {
    name: String,
    shared: Shared,
    /// Labels of its nodes, and which of the whole graph's they are.
    labels: Vec<String>,
    is: Vec<Is>,
    /// The tubes that it receives from.
    receives: Vec<Tube<[u8]>>,
    /// A stage that keeps it from being begun anew.
    once: Option<String>,
    restarts: AtomicU64,
    /// Its process, while that is stopped; 0.
    stands: AtomicU32,
    says: Mutex<HashMap<usize, String>>,
    last: Mutex<(u64, u64)>,
}

/// The parts of a graph that runs.
pub struct Parts {
    arena: String,
    parts: Vec<Part>,
    fault: Mutex<Option<Complaint>>,
    /// Which process was stopped or goes on, and which of the two.
    stopped: Calls<(u32, bool)>,
    /// Held while a part's process changes `stands`, and is told of: so it is told once.
    telling: Mutex<()>,
    over: AtomicU32,
}

impl Parts {
    /// See [`crate::Running::on_stopped`].
    pub fn on_stopped(&self, mut call: impl FnMut(&str, u32, bool) + Send + 'static) {
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopped.set(Box::new(move |name, (pid, stopped)| call(name, pid, stopped)));
        for part in &self.parts {
            // Relaxed: written under the lock.
            match part.stands.load(Ordering::Relaxed) {
                0 => {}
                pid => self.stopped.tell(&part.name, (pid, true)),
            }
        }
    }

    /// All that [`Parts::on_stopped`] was to be told of has been.
    pub fn settle(&self) {
        self.stopped.settle();
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Another user's, or removed by somebody: then it is not ours to keep.
        let _ = Arena::remove(&self.arena, true);
    }
}

/// The ends of tubes that are held for a part.
type Ends = (Vec<Sender<[u8]>>, Vec<Receiver<[u8]>>);

/// A part's process, and what is held on its behalf.
struct Kept {
    child: Option<Child>,
    told: Receiver<[u8]>,
    ends: Option<Ends>,
    ended_well: bool,
    failed: bool,
    deaths: u32,
    progress: u64,
}

/// Removes arenas of graphs whose process has died.
fn sweep() {
    for name in Arena::list().unwrap_or_default() {
        let pid = name.strip_prefix(PREFIX).and_then(|n| n.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| process::state(pid).is_none()) {
            // One of another PID namespace lives, and is in use.
            let _ = Arena::remove(&name, false);
        }
    }
}

fn wrong(graph: &Graph, what: impl Display) -> RunError {
    let at = graph.nodes().iter().position(|n| n.process.is_some()).unwrap_or(0);
    graph.complain(at, format!("the parts of this graph: {what}")).into()
}

/// Makes the arena and begins the parts. Answers the piece that this process runs, furnished, and the parts.
pub fn begin(mut whole: Graph, floor: &Arc<Floor>) -> Result<(Piece, Arc<Parts>), RunError> {
    sweep();
    let names = names(whole.nodes());
    let pieces: Vec<Piece> = names.iter().map(|name| view(&whole, Some(name))).collect();
    let cuts = cuts(whole.nodes());
    let gives = |from: usize| whole.nodes()[from].gives.as_ref().expect("it is linked");
    let room: u64 =
        cuts.iter().map(|c| u64::from(tubes::options(gives(c.from)).size + 128) * u64::from(tubes::SLOTS)).sum();
    let counts: u64 = pieces.iter().map(|p| p.graph.nodes().len() as u64 * 256).sum();
    // Relaxed: a number, no other data.
    let arena = format!("{PREFIX}{}-{}", process::pid(), GRAPHS.fetch_add(1, Ordering::Relaxed));
    let data = (room + counts + (64 << 20)).min(4 << 30);
    let objects = (3 * names.len() + 2 * cuts.len() + 64).next_power_of_two().max(1024) as u32;
    let options = ArenaOptions { data: Some(data), objects: Some(objects), ..ArenaOptions::default() };
    Arena::create(&arena, &options).map_err(|e| wrong(&whole, e))?;
    let mut parts = Parts {
        arena: arena.clone(),
        parts: Vec::new(),
        fault: Mutex::default(),
        stopped: Calls::default(),
        telling: Mutex::default(),
        over: AtomicU32::new(0),
    };
    let mut made = Vec::new();
    for (number, cut) in cuts.iter().enumerate() {
        let tube = Tube::<[u8]>::create(&object(&arena, "cut", number), &tubes::options(gives(cut.from)));
        made.push(tube.map_err(|e| wrong(&whole, e))?);
    }
    let mut kept = Vec::new();
    for (number, (name, piece)) in names.iter().zip(pieces).enumerate() {
        let nodes = piece.graph.nodes();
        let queues = link(&piece.graph).queues.len();
        let words = Words::create(&object(&arena, "part", number), words(nodes.len(), queues));
        let words = words.map_err(|e| wrong(&whole, e))?;
        let options = TubeOptions { size: TOLD as u32, slots: 16, ..TubeOptions::default() };
        let told = Tube::<[u8]>::create(&told_of(&arena, number), &options).and_then(|t| t.receiver());
        let told = told.map_err(|e| wrong(&whole, e))?;
        let (mut sends, mut receives, mut tubes) = (Vec::new(), Vec::new(), Vec::new());
        for is in &piece.is {
            match *is {
                Is::Sends(cut) => sends.push(made[cut].sender().map_err(|e| wrong(&whole, e))?),
                Is::Receives(cut) => {
                    receives.push(made[cut].receiver().map_err(|e| wrong(&whole, e))?);
                    tubes.push(made[cut].clone());
                }
                Is::Node(_) => {}
            }
        }
        let once = nodes.iter().find(|n| n.anew.stays_dead()).map(|n| n.label.clone());
        parts.parts.push(Part {
            name: name.clone(),
            shared: Shared::new(words, nodes.len()),
            labels: nodes.iter().map(|n| n.label.clone()).collect(),
            is: piece.is,
            receives: tubes,
            once,
            restarts: AtomicU64::new(0),
            stands: AtomicU32::new(0),
            says: Mutex::default(),
            last: Mutex::default(),
        });
        kept.push(Kept {
            child: None,
            told,
            ends: Some((sends, receives)),
            ended_well: false,
            failed: false,
            deaths: 0,
            progress: 0,
        });
    }
    let parts = Arc::new(parts);
    let mut own = view(&whole, None);
    let keeps: Keeps = parts.clone();
    furnish(&mut whole, &mut own, &arena, Some(&keeps));
    let keeper = Keeper { parts: Arc::clone(&parts), kept, floor: Arc::clone(floor), whole };
    let told = |e| RunError::Thread("parts".into(), e);
    thread::background("graph-parts", move || keeper.run()).map_err(told)?;
    Ok((own, parts))
}

struct Keeper {
    parts: Arc<Parts>,
    kept: Vec<Kept>,
    floor: Arc<Floor>,
    whole: Graph,
}

impl Parts {
    /// A part's process was stopped, or goes on.
    fn stands(&self, at: usize, pid: u32, stopped: bool) {
        let part = &self.parts[at];
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: under the lock.
        part.stands.store(if stopped { pid } else { 0 }, Ordering::Relaxed);
        self.stopped.tell(&part.name, (pid, stopped));
    }
}

impl Keeper {
    fn run(mut self) {
        for at in 0..self.kept.len() {
            self.start(at);
        }
        loop {
            if self.floor.failed() || self.parts.failed() {
                self.kept.iter_mut().for_each(Kept::abandon);
                break;
            }
            if self.floor.stops() {
                self.parts.parts.iter().for_each(|p| p.shared.stop());
            }
            for at in 0..self.kept.len() {
                self.look(at);
            }
            if self.kept.iter().all(|k| k.child.is_none()) {
                break;
            }
            std::thread::sleep(LOOK);
        }
        self.parts.parts.iter().for_each(Part::remember);
        // Release: an observer that reads it finds all that the parts told; the locks around that order it as well.
        self.parts.over.store(1, Ordering::Release);
    }

    /// The graph has failed, by a part.
    fn fail(&self, at: usize, node: Option<usize>, why: &str) {
        let part = &self.parts.parts[at];
        let first = part.is.iter().find_map(|is| if let Is::Node(at) = is { Some(*at) } else { None });
        let complaint = match node {
            Some(node) => self
                .whole
                .complain(node, format!("`{}` failed in @{}: {why}", self.whole.nodes()[node].label, part.name)),
            None => self.whole.complain(first.unwrap_or(0), format!("@{} {why}", part.name)),
        };
        let mut fault = self.parts.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(complaint);
        // Relaxed: as in `Floor::fail`.
        self.floor.stop.store(1, Ordering::Relaxed);
    }

    fn start(&mut self, at: usize) {
        let Command { program, args } = self.whole.command.clone();
        let program = program.map_or_else(own_program, Ok::<PathBuf, std::io::Error>);
        let lazy = if self.whole.lazy { "lazy" } else { "" };
        let said = format!("{}/{at}/{lazy}/{}", self.parts.arena, self.parts.parts[at].name);
        let begun = program.and_then(|p| Child::begin(&p, &args, (VARIABLE, &said), self.whole.text()));
        match begun {
            Ok(child) => self.kept[at].child = Some(child),
            Err(e) => self.fail(at, None, &format!("cannot be begun: {e}")),
        }
    }

    /// Takes what a part tells.
    fn hear(&mut self, at: usize) {
        loop {
            // No message at the moment, or no sender: a part that is begun anew opens the tube again.
            let Ok(said) = self.kept[at].told.try_recv() else { return };
            let said = String::from_utf8_lossy(&said).into_owned();
            let (head, text) = said.split_once('\n').unwrap_or((&said, ""));
            let node = head[1..].parse().unwrap_or(0);
            match head.chars().next() {
                Some('E') => self.kept[at].ended_well = true,
                Some('C') => {
                    self.kept[at].failed = true;
                    self.fail(at, None, &format!("cannot run: {text}"));
                }
                Some('F') => {
                    self.kept[at].failed = true;
                    self.fail(at, Some(node), text);
                }
                Some('S') => {
                    let mut says = self.parts.parts[at].says.lock().unwrap_or_else(PoisonError::into_inner);
                    says.insert(node, text.to_owned());
                }
                _ => {}
            }
        }
    }

    fn look(&mut self, at: usize) {
        self.hear(at);
        let Some(child) = &mut self.kept[at].child else { return };
        let change = child.stopped().map(|stopped| (child.pid(), stopped));
        let ended = match child.ended() {
            Ok(Some(ended)) => ended,
            Ok(None) => return change.into_iter().for_each(|(pid, stopped)| self.parts.stands(at, pid, stopped)),
            Err(e) => return self.fail(at, None, &format!("cannot be waited for: {e}")),
        };
        // Relaxed: as in `stands`. Killed while it was stopped, perhaps.
        self.parts.parts[at].stands.store(0, Ordering::Relaxed);
        // The part has ended: all that it told is in the tube by now.
        self.hear(at);
        self.kept[at].child = None;
        let kept = &mut self.kept[at];
        match ended {
            _ if kept.failed => {}
            // A graph that is to stop begins nothing anew.
            Ended::Killed(_) if self.floor.stops() => kept.ends = None,
            Ended::Exited(0) if kept.ended_well => kept.ends = None,
            Ended::Exited(0) => {
                let why =
                    "ended without having run: its program must call `chappe::stream::process::serve` first in `main`";
                self.fail(at, None, why);
            }
            Ended::Exited(status) => self.fail(at, None, &format!("ended with status {status}; stderr says why")),
            Ended::Killed(signal) => self.died(at, signal),
        }
    }

    fn died(&mut self, at: usize, signal: i32) {
        let part = &self.parts.parts[at];
        if let Some(once) = &part.once {
            let why = format!(
                "was killed by signal {signal}, and `{once}` in it cannot go on in the middle: leave its @{} out, so that it stays in the process that runs the graph",
                part.name
            );
            return self.fail(at, None, &why);
        }
        let kept = &mut self.kept[at];
        let progress = part.shared.progress();
        kept.deaths = if progress == kept.progress { kept.deaths + 1 } else { 1 };
        kept.progress = progress;
        if kept.deaths >= DEATHS {
            let why = format!(
                "was killed {DEATHS} times in a row without having finished a block, at last by signal {signal}"
            );
            return self.fail(at, None, &why);
        }
        // Relaxed: a count.
        part.restarts.fetch_add(1, Ordering::Relaxed);
        self.start(at);
    }
}

impl Kept {
    fn abandon(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill();
        }
        self.ends = None;
    }
}

impl Part {
    /// What its tubes counted of blocks that came again, or were dropped.
    fn marked(&self) -> (u64, u64) {
        let infos = self.receives.iter().filter_map(|t| t.info().ok());
        infos.fold((0, 0), |(again, dropped), i| (again + i.redelivered, dropped + i.dropped))
    }

    fn remember(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = self.marked();
    }
}

impl Parts {
    /// What failed in them.
    pub fn fault(&self) -> Option<Complaint> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn failed(&self) -> bool {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether all have ended.
    pub fn are_over(&self) -> bool {
        // Acquire: as the store says.
        self.over.load(Ordering::Acquire) != 0
    }

    /// What their nodes have counted.
    pub fn nodes(&self) -> Vec<NodeReport> {
        let mut all = Vec::new();
        for part in &self.parts {
            let says = part.says.lock().unwrap_or_else(PoisonError::into_inner);
            for (at, label) in part.labels.iter().enumerate() {
                let (counts, says) = (part.shared.counts(at), says.get(&at).cloned());
                all.push(NodeReport { label: label.clone(), process: Some(part.name.clone()), counts, says });
            }
        }
        all
    }

    /// What became of each.
    pub fn report(&self) -> Vec<PartReport> {
        let report = |part: &Part| {
            let now = part.marked();
            let last = *part.last.lock().unwrap_or_else(PoisonError::into_inner);
            let (again, dropped) = (now.0.max(last.0), now.1.max(last.1));
            // Relaxed: a count.
            PartReport { name: part.name.clone(), restarts: part.restarts.load(Ordering::Relaxed), again, dropped }
        };
        self.parts.iter().map(report).collect()
    }

    /// Whether one of them has a stage of that label.
    pub fn find(&self, label: &str) -> Option<&str> {
        self.parts.iter().find(|p| p.labels.iter().any(|l| l == label)).map(|p| p.name.as_str())
    }
}
