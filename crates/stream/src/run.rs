//! A graph that runs: the linker's plan, executed by light threads.
//!
//! Each thread gets a block from its feed and puts it into its limb, until the feed ends, the limb wants no more, or a
//! stage has failed. When a source ends, every stage behind it hands on the data that it still holds. When a stage
//! fails, the graph ends, and [`Running::wait`] says which stage and why.
//!
//! No loss is silent: a block that is given up (by a queue that may drop, by a device that was late, by a stage without
//! a reader) is counted at its node, and stands in the [`Report`].

use crate::contest::{Lap, Meter, Spent};
use crate::fused::{self, Members};
use crate::graph::Graph;
use crate::kind::{Anew, Job, Role, WhenFull};
use crate::limb::{Into, LiveLimb, LiveTail, Lock, Slot};
use crate::link::{Feed, Limb, Links, Tail, link};
use crate::process::{self, InQueue, Parts, Shared};
use crate::queue::{Callbacks, Getter, Putter, When, queue};
use crate::report::{NodeReport, QueueReport, Report, RunError};
use crate::sched::{Quantum, press};
use crate::seat::{Floor, Seat, SourceSlot};
use crate::stage::{Body, Fault, Gather, Lost, Source, Stage};
use crate::types::Block;
use chappe_plat::atomic::Ordering;
use chappe_plat::clock;
use chappe_sync::tube;
use chappe_thread::{Builder, JoinHandle, Runtime};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Stack of a thread: as much as [`crate::link::MAX_CALLS`] stages that call each other take in a build without optimisation.
const STACK: usize = 512 * 1024;

enum LiveFeed {
    Source(SourceSlot),
    Queue(Getter<Block>, Option<(InQueue, u64)>),
    Gather(Box<dyn Gather>, Arc<Seat>, Vec<LiveFeed>),
    Turns(Arc<Seat>, Vec<Option<LiveFeed>>, usize),
    Through(Box<LiveFeed>, Box<LiveLimb>, bool),
}

impl LiveFeed {
    fn fill(&self) -> f64 {
        match self {
            LiveFeed::Source(_) => 0.0,
            LiveFeed::Queue(getter, _) => getter.fill(),
            LiveFeed::Gather(_, _, feeds) => feeds.iter().map(LiveFeed::fill).fold(0.0, f64::max),
            LiveFeed::Turns(_, feeds, _) => feeds.iter().flatten().map(LiveFeed::fill).fold(0.0, f64::max),
            LiveFeed::Through(feed, _, _) => feed.fill(),
        }
    }

    /// Whether its fill says how far the thread is behind.
    fn waits(&self) -> bool {
        matches!(self, LiveFeed::Queue(..))
    }
}

impl Source for LiveFeed {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        match self {
            LiveFeed::Source(slot) => slot.get(),
            LiveFeed::Queue(getter, written) => {
                if let Some((written, busy)) = written {
                    written.finish(std::mem::take(busy));
                }
                let got = getter.get().ok();
                if let (Some((_, busy)), Some(block)) = (written, &got) {
                    *busy = block.len() as u64;
                }
                Ok(got)
            }
            LiveFeed::Gather(gather, seat, feeds) => {
                let mut inputs: Vec<&mut dyn Source> = feeds.iter_mut().map(|f| f as &mut dyn Source).collect();
                let got = gather.get(&mut inputs).inspect_err(|e| seat.floor.fail(seat.node, &e.0))?;
                if let Some(block) = &got {
                    seat.count(block);
                }
                Ok(got)
            }
            LiveFeed::Turns(seat, feeds, turn) => {
                let count = feeds.len();
                for _ in 0..count {
                    let at = *turn % count;
                    *turn = at + 1;
                    let Some(feed) = &mut feeds[at] else { continue };
                    match feed.get()? {
                        Some(block) => {
                            seat.count(&block);
                            return Ok(Some(block));
                        }
                        None => feeds[at] = None,
                    }
                }
                Ok(None)
            }
            LiveFeed::Through(feed, limb, ended) => loop {
                if let LiveTail::Collect(kept) = collector(limb)
                    && let Some(block) = kept.pop_front()
                {
                    return Ok(Some(block));
                }
                if *ended {
                    return Ok(None);
                }
                match feed.get()? {
                    Some(block) if !limb.is_done() => limb.put(None, block)?,
                    _ => {
                        *ended = true;
                        limb.end()?;
                    }
                }
            },
        }
    }
}

/// Where a limb collects: at its end, or at that of one of its branches.
fn collector(limb: &mut LiveLimb) -> &mut LiveTail {
    let branch = match &limb.tail {
        LiveTail::Fork(limbs) | LiveTail::Share(limbs, _) => limbs.iter().position(collects),
        _ => None,
    };
    match (branch, &mut limb.tail) {
        (Some(at), LiveTail::Fork(limbs) | LiveTail::Share(limbs, _)) => collector(&mut limbs[at]),
        (_, tail) => tail,
    }
}

fn collects(limb: &LiveLimb) -> bool {
    match &limb.tail {
        LiveTail::Collect(_) => true,
        LiveTail::Fork(limbs) | LiveTail::Share(limbs, _) => limbs.iter().any(collects),
        _ => false,
    }
}

/// A graph that runs.
pub struct Running {
    graph: Graph,
    links: Links,
    floor: Arc<Floor>,
    pub(crate) seats: Vec<Arc<Seat>>,
    queues: Vec<Getterless>,
    threads: Vec<JoinHandle<()>>,
    pub(crate) parts: Option<Arc<Parts>>,
    /// What was written for stages that have been replaced since.
    pub(crate) texts: Mutex<HashMap<usize, String>>,
    pub(crate) members: Members,
    began: u64,
}

/// Stops a graph that somebody waits for: see [`Running::stopper`].
#[derive(Clone)]
pub struct Stopper(Arc<Floor>);

impl Stopper {
    /// As [`Running::stop`].
    pub fn stop(&self) {
        // Relaxed: as in `Floor::fail`.
        self.0.stop.store(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stopper")
    }
}

/// A look at a queue that does not keep it open.
type Getterless = Box<dyn Fn() -> crate::queue::Counts + Send + Sync>;

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("threads", &self.threads.len()).finish()
    }
}

struct Maker<'a> {
    graph: &'a Graph,
    bodies: HashMap<usize, Body>,
    seats: &'a [Arc<Seat>],
    putters: Vec<Putter<Block>>,
    getters: Vec<Getter<Block>>,
    plans: &'a Links,
    locks: HashMap<usize, Lock>,
    shared: Option<&'a Shared>,
    members: Members,
}

impl Maker<'_> {
    fn limb(&mut self, plan: &Limb) -> LiveLimb {
        let mut slots: Vec<Slot> = Vec::new();
        let mut nodes = plan.nodes.iter();
        for (count, whole) in fused::loops(self.graph, &plan.nodes) {
            let stages = nodes.by_ref().take(count).filter_map(|at| match self.bodies.remove(at) {
                Some(Body::Stage(stage)) => Some((*at, stage)),
                // Forks and pumps do nothing themselves.
                _ => None,
            });
            let stages: Vec<(usize, Box<dyn Stage>)> = stages.collect();
            let seats: Vec<_> = stages.iter().map(|(at, _)| Arc::clone(&self.seats[*at])).collect();
            let stages = match whole {
                Some(whole) => fused::members(stages, &whole, &mut self.members),
                None => stages.into_iter().map(|(_, stage)| stage).collect(),
            };
            let slot = |(stage, seat): (Box<dyn Stage>, _)| Slot { alters: stage.alters(), stage, seat };
            slots.extend(stages.into_iter().zip(seats).map(slot));
        }
        let tail = match &plan.tail {
            Tail::End => LiveTail::End,
            Tail::Fork(limbs) => LiveTail::Fork(limbs.iter().map(|l| self.limb(l)).collect()),
            Tail::Share(limbs) => LiveTail::Share(limbs.iter().map(|l| self.limb(l)).collect(), 0),
            Tail::Queue(queue) => {
                let plan = &self.plans.queues[*queue];
                let seat = Arc::clone(
                    &self.seats[if self.graph.nodes[plan.to].role == Role::Plain { plan.from } else { plan.to }],
                );
                let getter = (plan.full == WhenFull::DropOld).then(|| self.getters[*queue].clone());
                LiveTail::Queue(Into {
                    putter: self.putters[*queue].clone(),
                    getter,
                    full: plan.full,
                    seat,
                    gone: false,
                    written: self.shared.map(|s| s.queue(*queue)),
                })
            }
            Tail::Locked(at) => {
                let lock = self.locks[at].clone();
                // Relaxed: no thread runs yet.
                lock.left.fetch_add(1, Ordering::Relaxed);
                LiveTail::Locked(lock)
            }
            Tail::Collect => LiveTail::Collect(VecDeque::new()),
        };
        LiveLimb { slots, tail }
    }

    fn feed(&mut self, plan: &Feed) -> LiveFeed {
        match plan {
            Feed::Node(at) => {
                let Some(Body::Source(source)) = self.bodies.remove(at) else {
                    unreachable!("a node without inputs has a source")
                };
                let replays = self.graph.nodes[*at].anew == Anew::Replay;
                LiveFeed::Source(SourceSlot::new(source, Arc::clone(&self.seats[*at]), replays))
            }
            Feed::Queue(queue) => {
                LiveFeed::Queue(self.getters[*queue].clone(), self.shared.map(|s| (s.queue(*queue), 0)))
            }
            Feed::Gather(at, feeds) => {
                let feeds = feeds.iter().map(|f| self.feed(f)).collect();
                let Some(Body::Gather(gather)) = self.bodies.remove(at) else {
                    unreachable!("a node that calls its inputs and is called gathers")
                };
                LiveFeed::Gather(gather, Arc::clone(&self.seats[*at]), feeds)
            }
            Feed::Turns(at, feeds) => {
                let feeds = feeds.iter().map(|f| Some(self.feed(f))).collect();
                LiveFeed::Turns(Arc::clone(&self.seats[*at]), feeds, 0)
            }
            Feed::Through(feed, limb) => {
                let feed = self.feed(feed);
                LiveFeed::Through(Box::new(feed), Box::new(self.limb(limb)), false)
            }
        }
    }
}

fn go(mut feed: LiveFeed, mut limb: LiveLimb, floor: &Floor, polls: bool, in_turn: bool, mut meter: Option<Meter>) {
    let mut quantum = Quantum::default();
    let run = |limb: &mut LiveLimb| -> Result<(), Fault> {
        while !floor.stops() && !limb.is_done() {
            meter.iter_mut().for_each(Meter::begin);
            let Some(block) = feed.get()? else { break };
            if block.is_empty() && polls {
                chappe_thread::yield_now();
                continue;
            }
            meter.iter_mut().for_each(|meter| meter.end(Lap::Get));
            limb.put(None, block)?;
            meter.iter_mut().for_each(|meter| meter.end(Lap::Put));
            if !in_turn {
                press(if feed.waits() { feed.fill().max(limb.fill()) } else { limb.fill() });
            }
            if quantum.block() {
                let (fill_in, fill_out) = (feed.fill(), limb.fill());
                limb.tell_fill(fill_in);
                let balance = if in_turn { (0.0, 0.0) } else { (fill_in, fill_out) };
                quantum.next(balance.0, balance.1);
                chappe_thread::yield_now();
                // What the others took is none of this thread's time.
                quantum.restart();
            }
        }
        // A graph that failed hands on nothing more.
        if floor.stops() && floor.failed() { Ok(()) } else { limb.end() }
    };
    // The fault is told at the seat where it was.
    let _ = { run }(&mut limb);
}

/// Runs a text to its end.
///
/// # Errors
/// What is wrong with the text, or what failed.
pub fn run(text: &str) -> Result<Report, RunError> {
    Graph::new(text)?.run()?.wait()
}

impl Graph {
    /// Makes all bodies and begins, on the process' standard light threads.
    ///
    /// # Errors
    /// A stage that cannot be made (a file that cannot be written): which, and where in the text.
    pub fn run(self) -> Result<Running, RunError> {
        let runtime = Runtime::standard().map_err(|e| RunError::Thread("graph".into(), e))?;
        self.run_on(runtime)
    }

    /// The same on other light threads.
    ///
    /// # Errors
    /// As [`Graph::run`].
    pub fn run_on(self, runtime: &Runtime) -> Result<Running, RunError> {
        if process::is_unserved_part() {
            return Err(RunError::Unserved);
        }
        let floor = Arc::new(Floor::default());
        if self.nodes.iter().all(|n| n.process.is_none()) {
            return self.begin(runtime, &floor, None);
        }
        let (piece, parts) = process::begin(self, &floor)?;
        let begun = piece.graph.begin(runtime, &floor, None);
        if begun.is_err() {
            // The parts end with it.
            floor.fail(0, "");
        }
        Ok(Running { parts: Some(parts), ..begun? })
    }

    /// The same for a piece, whose counts may be written down.
    pub(crate) fn begin(
        mut self,
        runtime: &Runtime,
        floor: &Arc<Floor>,
        shared: Option<&Shared>,
    ) -> Result<Running, RunError> {
        let (links, floor) = (link(&self), Arc::clone(floor));
        let mut bodies = HashMap::new();
        for at in 0..self.nodes.len() {
            let make = self.nodes[at].make.take().expect("a graph that was checked has been planned");
            let body = make().map_err(|e| self.complain(at, format!("`{}`: {e}", self.nodes[at].label)))?;
            bodies.insert(at, body);
        }
        let seat = |(at, node): (usize, &crate::placed::Node)| {
            let gives = node.gives.as_ref().or(node.takes.first());
            let bytes = gives.is_some_and(|t| matches!(t.element, crate::types::Element::Record(_)));
            let frame = gives.map_or(1, |t| if bytes { t.frame_bytes() } else { t.shape as usize });
            if let (Anew::Live, Some(shared)) = (node.anew, shared) {
                shared.settle(at, frame as u64);
            }
            Arc::new(Seat::new(at, node.label.clone(), frame as u64, Arc::clone(&floor), shared.cloned()))
        };
        let seats: Vec<Arc<Seat>> = self.nodes.iter().enumerate().map(seat).collect();
        for (at, plan) in links.queues.iter().enumerate() {
            // What lay there when the part was killed.
            let lost = shared.map_or(0, |s| s.queue(at).lost());
            seats[plan.to].drop_elements(lost as usize);
        }
        let calls = Callbacks { full: When::Suspend, empty: When::Suspend, ..Callbacks::default() };
        let (putters, getters): (Vec<_>, Vec<_>) = links.queues.iter().map(|q| queue::<Block>(q.slots, &calls)).unzip();
        let queues = putters.iter().map(|p: &Putter<Block>| {
            let look = p.look();
            Box::new(look) as Getterless
        });
        let queues = queues.collect();
        let mut ends = HashMap::new();
        let mut locks = HashMap::new();
        for (at, _) in &links.joins {
            let (back, take) = tube::bounded(1);
            ends.insert(*at, back.clone());
            locks.insert(*at, Lock { take, back, left: Arc::default() });
        }
        let (graph, members) = (&self, Members::new());
        let mut maker = Maker { graph, bodies, seats: &seats, putters, getters, plans: &links, locks, shared, members };
        for (at, limb) in &links.joins {
            let limb = maker.limb(limb);
            let _ = ends[at].send(Box::new(limb));
        }
        drop(ends);
        let live: Vec<_> = links.threads.iter().map(|t| (maker.feed(&t.feed), maker.limb(&t.limb), t)).collect();
        let members = std::mem::take(&mut maker.members);
        drop(maker);
        let jobs = self.jobs();
        self.references.1.begin(runtime.procs());
        let mut threads = Vec::new();
        for (feed, limb, plan) in live {
            let (floor, polls, owner, in_turn) = (Arc::clone(&floor), plan.polls, plan.owner, self.in_turn);
            let meter = jobs.get(&owner).map(|spent| Meter::new(Arc::clone(spent)));
            let label =
                if plan.pump { format!("pump {}", self.nodes[owner].label) } else { self.nodes[owner].label.clone() };
            let begun = Builder::new().name(label.clone()).stack_size(STACK).level(0).spawn_on(runtime, move || {
                let run = std::panic::AssertUnwindSafe(|| go(feed, limb, &floor, polls, in_turn, meter));
                if let Err(panic) = std::panic::catch_unwind(run) {
                    let said = panic.downcast_ref::<String>().cloned();
                    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                    floor.fail(owner, &format!("panicked: {}", said.unwrap_or_default()));
                }
            });
            threads.push(begun.map_err(|e| RunError::Thread(label, e))?);
        }
        Ok(Running {
            graph: self,
            links,
            floor,
            seats,
            queues,
            threads,
            parts: None,
            texts: Mutex::default(),
            members,
            began: clock::now(),
        })
    }
}

impl Graph {
    /// Where the threads of each node count the time that they use: at the job that it has links with, over any others.
    fn jobs(&self) -> HashMap<usize, Spent> {
        let mut all = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(Job::Is(_, spent)) = &node.job else { continue };
            let mut open = vec![at];
            while let Some(at) = open.pop() {
                if all.insert(at, Arc::clone(spent)).is_none_or(|before| !Arc::ptr_eq(&before, spent)) {
                    open.extend(self.nodes[at].inputs.iter().chain(&self.nodes[at].outputs));
                }
            }
        }
        all
    }
}

impl Running {
    /// Calls this whenever a job (`deadline` with `importance`) is ended early for a more important one: with its name, and how many processors it and those
    /// that go on would have needed (infinity: it is late). On a thread of its own, one call after the other; [`Running::wait`] waits for
    /// them. Of jobs in other processes (`@name`) only their `emergency` stages hear.
    pub fn on_emergency(&self, call: impl FnMut(&str, f64) + Send + 'static) {
        self.graph.references.1.emergency.set(Box::new(call));
    }

    /// Calls this whenever the process of a part is stopped by a signal, or goes on: with the part's name, the process's number, and whether it is
    /// stopped. The others wait for a part that is stopped. Those that are stopped already are told at once. On a thread of its own, as
    /// [`Running::on_late`].
    pub fn on_stopped(&self, call: impl FnMut(&str, u32, bool) + Send + 'static) {
        if let Some(parts) = &self.parts {
            parts.on_stopped(call);
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How it was linked.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Calls this whenever something is late: with the node's label, and by how many seconds. Of stages in other
    /// processes (`@name`) it hears nothing; the report counts them. On a thread of its own, one call after the other; [`Running::wait`] waits for
    /// them. Of what comes while 1,024 wait for a call that does not return it hears nothing, and the report counts it.
    pub fn on_late(&self, call: impl FnMut(&str, f64) + Send + 'static) {
        self.floor.late.set(Box::new(call));
    }

    /// Calls this whenever the device of a stage that waits for it (`lost=wait`) has gone, and when it is there again: with the node's label. Of stages in
    /// other processes (`@name`) it hears nothing. On a thread of its own, as [`Running::on_late`].
    pub fn on_lost(&self, call: impl FnMut(&str, Lost) + Send + 'static) {
        self.floor.lost.set(Box::new(call));
    }

    /// Measures the time in each stage from now on: some 50 ns a block.
    pub fn measure(&self) {
        // Relaxed: a switch for people.
        self.floor.timed.store(1, Ordering::Relaxed);
    }

    /// What was counted until now.
    pub fn report(&self) -> Report {
        let of =
            |s: &Arc<Seat>| NodeReport { label: s.label.clone(), process: None, counts: s.counts(), says: s.says() };
        let parts = self.parts.iter().flat_map(|p| p.nodes());
        let nodes = self.seats.iter().map(of).chain(parts);
        let queues = self.links.queues.iter().zip(&self.queues);
        let queues = queues.map(|(plan, look)| QueueReport { from: plan.from, to: plan.to, counts: look() });
        let seconds = (clock::now() - self.began) as f64 / 1e9;
        Report {
            nodes: nodes.collect(),
            queues: queues.collect(),
            parts: self.parts.as_ref().map_or_else(Vec::new, |p| p.report()),
            seconds,
        }
    }

    /// Asks all threads to stop behind the block that they have in work.
    pub fn stop(&self) {
        self.stopper().stop();
    }

    /// What stops the graph while another thread waits for it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.floor))
    }

    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished) && self.parts.as_ref().is_none_or(|p| p.are_over())
    }

    /// Waits until all is done: blocks a kernel thread, parks a light one.
    ///
    /// # Errors
    /// A stage has failed: which, where in the text, and why.
    pub fn wait(mut self) -> Result<Report, RunError> {
        self.join();
        let fault = self.fault();
        match (fault, self.parts.as_ref().and_then(|p| p.fault())) {
            // What failed here may have failed because a part had.
            (_, Some(complaint)) => Err(complaint.into()),
            (Some((at, why)), None) => {
                Err(self.graph.complain(at, format!("`{}` failed: {why}", self.seats[at].label)).into())
            }
            (None, None) => Ok(self.report()),
        }
    }

    fn join(&mut self) {
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        while self.parts.as_ref().is_some_and(|p| !p.are_over()) {
            chappe_thread::sleep(std::time::Duration::from_millis(1));
        }
        self.graph.references.1.emergency.settle();
        self.floor.late.settle();
        self.floor.lost.settle();
        self.parts.iter().for_each(|parts| parts.settle());
    }

    fn fault(&self) -> Option<(usize, String)> {
        self.floor.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The same for a part, with the first fault and its node.
    pub(crate) fn end(mut self) -> (Report, Option<(usize, String)>) {
        self.join();
        (self.report(), self.fault())
    }
}
