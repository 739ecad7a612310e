//! The linker: puts a plain call, a queue or a pump between two ends, depending on which of them has a thread
//! (synthesis, 4.4.1).
//!
//! An *active* end has a thread and calls the other side; a *passive* end waits to be called.
//!
//! | producer | consumer | 1:1 | n:1 (`merge`) | 1:n (`tee`) |
//! |---|---|---|---|---|
//! | active | active | a queue | one queue for all | a queue before each |
//! | active | passive | a call | calls, one at a time | each is called in turn |
//! | passive | active | a call | the consumer calls each in turn | a pump, a queue before each |
//! | passive | passive | a pump | one pump that takes from each in turn | a pump that calls each in turn |
//!
//! A filter *follows*: it runs on the thread that calls it. A *polled* end has a thread that looks for data again and
//! again; the linker treats it as active. `share` is a `tee` that gives each block to one reader only: active readers
//! share one queue.
//!
//! **Depth.** A chain of calls has at most [`MAX_CALLS`] stages. Behind that the linker puts a queue and a pump, so
//! that a thread's stack does not overflow.
//!
//! The result is a plan, which [`crate::explain`] shows and `run` executes: [`Thread`]s, each with a [`Feed`] from
//! which it gets blocks and a [`Limb`] into which it puts them.
//!
//! - I1: each node stands in exactly one limb or feed.
//! - I2: each queue has at least one putter and one getter.

use crate::graph::Graph;
use crate::kind::{End, Role, WhenFull};
use std::collections::{HashMap, VecDeque};

/// How many stages call each other before a queue comes.
pub const MAX_CALLS: usize = 100;
/// How many blocks a queue has room for that the linker puts.
pub const SLOTS: usize = 8;

/// From one node to another; `port` tells inputs of one node apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Edge {
    /// The node that gives.
    pub from: usize,
    /// The node that takes.
    pub to: usize,
    /// Which of its inputs.
    pub port: usize,
}

/// A queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuePlan {
    /// The node that puts into it, for people.
    pub from: usize,
    /// The node that gets from it, or that it is.
    pub to: usize,
    /// Blocks.
    pub slots: usize,
    /// When there is no room.
    pub full: WhenFull,
    /// How many threads get from it.
    pub getters: usize,
    /// How many put into it.
    pub putters: usize,
}

/// Where a thread gets from.
#[derive(Clone, PartialEq, Debug)]
pub enum Feed {
    /// A source.
    Node(usize),
    /// A queue.
    Queue(usize),
    /// A gatherer, and where it gets from.
    Gather(usize, Vec<Feed>),
    /// One after the other (a `merge`).
    Turns(usize, Vec<Feed>),
    /// Another feed, and what its blocks go through.
    Through(Box<Feed>, Limb),
}

/// What a block is put into: some stages that call each other, and what is behind them.
#[derive(Clone, PartialEq, Debug)]
pub struct Limb {
    /// The stages.
    pub nodes: Vec<usize>,
    /// What is behind the last one.
    pub tail: Tail,
}

/// The end of a limb.
#[derive(Clone, PartialEq, Debug)]
pub enum Tail {
    /// Nothing: a sink, or a stage that nobody reads.
    End,
    /// Each is called in turn with every block.
    Fork(Vec<Limb>),
    /// Each is called with the next block.
    Share(Vec<Limb>),
    /// A queue.
    Queue(usize),
    /// A limb that several threads call, one at a time: that of this `merge`.
    Locked(usize),
    /// The block is kept here until the getter of this feed takes it.
    Collect,
}

/// A light thread.
#[derive(Clone, PartialEq, Debug)]
pub struct Thread {
    /// The node whose thread it is.
    pub owner: usize,
    /// Whether the linker made it for two passive ends.
    pub pump: bool,
    /// Whether its end is polled.
    pub polls: bool,
    /// Where it gets from.
    pub feed: Feed,
    /// What it puts into.
    pub limb: Limb,
}

/// What a graph has become.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Links {
    /// The threads.
    pub threads: Vec<Thread>,
    /// The queues.
    pub queues: Vec<QueuePlan>,
    /// The limbs of `merge`s that several threads call.
    pub joins: Vec<(usize, Limb)>,
}

/// How a `merge` is made.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Merged {
    Turns,
    Locked,
    Queue(usize),
}

struct Linker<'g> {
    graph: &'g Graph,
    links: Links,
    /// Queues that nodes are.
    own: HashMap<usize, usize>,
    /// Queues on edges.
    between: HashMap<Edge, usize>,
    merged: HashMap<usize, Merged>,
    /// Feeds of gatherers' and merges' inputs.
    feeds: HashMap<Edge, Feed>,
    /// How many feeds stand in each other.
    nested: HashMap<usize, usize>,
    /// Chains that were cut: a queue, and the edge behind it.
    cut: VecDeque<(usize, Edge)>,
}

/// What stands at the ends of everything that a producer's blocks go through.
struct Reach {
    active: Vec<Edge>,
    passive: Vec<Edge>,
    longest: usize,
}

/// Links a graph.
pub fn link(graph: &Graph) -> Links {
    let mut linker = Linker {
        graph,
        links: Links::default(),
        own: HashMap::new(),
        between: HashMap::new(),
        merged: HashMap::new(),
        feeds: HashMap::new(),
        nested: HashMap::new(),
        cut: VecDeque::new(),
    };
    for at in &graph.order {
        if let Role::Queue { slots, full } = graph.nodes[*at].role {
            let id = linker.queue(*at, *at, slots, full);
            linker.own.insert(*at, id);
        }
    }
    for at in graph.order.clone() {
        linker.node(at);
    }
    while let Some((queue, edge)) = linker.cut.pop_front() {
        let limb = linker.along(edge, 0, None);
        linker.thread(edge.to, true, Feed::Queue(queue), limb);
    }
    linker.count();
    linker.links
}

impl Linker<'_> {
    fn queue(&mut self, from: usize, to: usize, slots: usize, full: WhenFull) -> usize {
        self.links.queues.push(QueuePlan { from, to, slots, full, getters: 0, putters: 0 });
        self.links.queues.len() - 1
    }

    fn thread(&mut self, owner: usize, pump: bool, feed: Feed, limb: Limb) {
        let ends = self.graph.nodes[owner].ends;
        let polls = !pump && (ends.0 == End::Polled || ends.1 == End::Polled);
        self.links.threads.push(Thread { owner, pump, polls, feed, limb });
    }

    fn edges(&self, from: usize) -> Vec<Edge> {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        let outputs = self.graph.nodes[from].outputs.iter();
        outputs
            .map(|to| {
                let nth = seen.entry(*to).or_insert(0);
                let inputs = self.graph.nodes[*to].inputs.iter().enumerate();
                let port = inputs.filter(|(_, i)| **i == from).nth(*nth).expect("links are known at both sides").0;
                *nth += 1;
                Edge { from, to: *to, port }
            })
            .collect()
    }

    fn gathers(&self, at: usize) -> bool {
        let node = &self.graph.nodes[at];
        node.role == Role::Plain
            && node.ends == (End::Active, End::Passive)
            && node.gives.is_some()
            && !node.inputs.is_empty()
    }

    /// Whether an end at this node's input calls.
    fn calls(&self, at: usize) -> bool {
        matches!(self.graph.nodes[at].ends.0, End::Active | End::Polled)
    }

    /// A follower: filters, forks.
    fn follows(&self, at: usize) -> bool {
        self.graph.nodes[at].ends.0 == End::Follows && self.graph.nodes[at].role != Role::Merge
    }

    fn reach(&self, from: usize) -> Reach {
        let mut reach = Reach { active: Vec::new(), passive: Vec::new(), longest: 0 };
        let mut open: Vec<(Edge, usize)> = self.edges(from).into_iter().map(|e| (e, 0)).collect();
        while let Some((edge, length)) = open.pop() {
            reach.longest = reach.longest.max(length);
            if self.follows(edge.to) {
                let behind = self.edges(edge.to);
                if behind.is_empty() {
                    reach.passive.push(edge);
                }
                open.extend(behind.into_iter().map(|e| (e, length + 1)));
            } else if self.calls(edge.to) {
                reach.active.push(edge);
            } else {
                reach.passive.push(edge);
            }
        }
        reach
    }

    /// The producer whose blocks come along this edge.
    fn producer(&self, edge: Edge) -> usize {
        let mut at = edge.from;
        while self.follows(at) {
            match self.graph.nodes[at].inputs.first() {
                Some(before) => at = *before,
                None => break,
            }
        }
        at
    }

    fn is_active_producer(&self, at: usize) -> bool {
        match self.graph.nodes[at].role {
            Role::Merge => self.merged.get(&at) != Some(&Merged::Turns),
            _ => matches!(self.graph.nodes[at].ends.1, End::Active | End::Polled),
        }
    }

    /// Whether the only active end behind a passive producer drives it: answers that end's edge.
    fn is_inline(&self, from: usize) -> Option<Edge> {
        let reach = self.reach(from);
        let short = reach.longest <= MAX_CALLS && self.nested.get(&from).is_none_or(|n| *n < 32);
        match (&reach.active[..], short && !self.is_active_producer(from)) {
            ([only], true) => Some(*only),
            _ => None,
        }
    }

    /// Decides about one node; all before it are decided.
    fn node(&mut self, at: usize) {
        let node = &self.graph.nodes[at];
        if node.role == Role::Merge {
            self.merge(at);
            return;
        }
        if self.gathers(at) {
            let feeds = self.inputs(at);
            let depth = 1 + feeds.iter().map(|(_, n)| *n).max().unwrap_or(0);
            self.nested.insert(at, depth);
            let feed = Feed::Gather(at, feeds.into_iter().map(|(f, _)| f).collect());
            self.drive(at, feed);
        } else if node.inputs.is_empty() && !self.follows(at) {
            self.drive(at, Feed::Node(at));
        } else if let Some(queue) = self.own.get(&at) {
            self.drive(at, Feed::Queue(*queue));
        } else if self.calls(at) {
            // A sink, a pump or a device with a thread; driven inline it has its thread already.
            let edge = Edge { from: node.inputs[0], to: at, port: 0 };
            if let Some(queue) = self.between.get(&edge).copied() {
                let limb = self.along_from(at, 0, None);
                self.thread(at, false, Feed::Queue(queue), limb);
            }
        }
    }

    /// What a gatherer's inputs are got from, and how deep.
    fn inputs(&mut self, at: usize) -> Vec<(Feed, usize)> {
        let froms = self.graph.nodes[at].inputs.clone();
        let edges = froms.iter().enumerate().map(|(port, from)| Edge { from: *from, to: at, port });
        edges
            .map(|edge| match self.feeds.remove(&edge) {
                Some(feed) => (feed, self.nested.get(&self.producer(edge)).copied().unwrap_or(0)),
                None => (Feed::Queue(self.between[&edge]), 0),
            })
            .collect()
    }

    /// Places a producer with its feed: plans a thread for it, or leaves the feed to the consumer that calls it.
    fn drive(&mut self, at: usize, feed: Feed) {
        let inline = self.is_inline(at);
        match inline {
            Some(edge) if self.gathers(edge.to) => {
                let limb = self.after(at, 0, inline);
                let empty = limb == Limb { nodes: Vec::new(), tail: Tail::Collect };
                let feed = if empty { feed } else { Feed::Through(Box::new(feed), limb) };
                self.feeds.insert(edge, feed);
            }
            Some(edge) => {
                let limb = self.after(at, 0, inline);
                self.thread(edge.to, false, feed, limb);
            }
            None => {
                if let [only] = &self.reach(at).passive[..]
                    && self.turns_at(*only)
                {
                    let limb = self.after(at, 0, Some(*only));
                    let empty = limb == Limb { nodes: Vec::new(), tail: Tail::Collect };
                    let feed = if empty { feed } else { Feed::Through(Box::new(feed), limb) };
                    self.feeds.insert(*only, feed);
                    return;
                }
                let limb = self.after(at, 0, None);
                let pump = !self.is_active_producer(at);
                self.thread(at, pump, feed, limb);
            }
        }
    }

    /// Whether an edge leads to a `merge` that takes from its inputs in turn: all their producers are passive and have it alone behind them.
    fn turns_at(&self, edge: Edge) -> bool {
        let merge = self.graph.nodes[edge.to].role == Role::Merge;
        merge && !self.merged.contains_key(&edge.to) && self.may_turn(edge.to, 0)
    }

    fn may_turn(&self, merge: usize, depth: usize) -> bool {
        let inputs = &self.graph.nodes[merge].inputs;
        inputs.iter().enumerate().all(|(port, from)| {
            let producer = self.producer(Edge { from: *from, to: merge, port });
            let reach = self.reach(producer);
            let passive = match (self.graph.nodes[producer].role, self.merged.get(&producer)) {
                (Role::Merge, None) => depth < 8 && self.may_turn(producer, depth + 1),
                (Role::Merge, Some(how)) => *how == Merged::Turns,
                _ => !self.is_active_producer(producer),
            };
            let nested = self.nested.get(&producer).copied().unwrap_or(0);
            passive && reach.active.is_empty() && reach.passive.len() == 1 && reach.longest <= MAX_CALLS && nested < 32
        })
    }

    fn merge(&mut self, at: usize) {
        let edges: Vec<Edge> = self.graph.nodes[at]
            .inputs
            .iter()
            .enumerate()
            .map(|(port, from)| Edge { from: *from, to: at, port })
            .collect();
        if edges.iter().all(|e| self.feeds.contains_key(e)) {
            self.merged.insert(at, Merged::Turns);
            let depth =
                1 + edges.iter().map(|e| self.nested.get(&self.producer(*e)).copied().unwrap_or(0)).max().unwrap_or(0);
            self.nested.insert(at, depth);
            let feeds = edges.iter().map(|e| self.feeds.remove(e).expect("they were seen")).collect();
            self.drive(at, Feed::Turns(at, feeds));
            return;
        }
        let tail = self.tail_of_merge(at);
        for edge in edges {
            if let Some(feed) = self.feeds.remove(&edge) {
                let limb = Limb { nodes: Vec::new(), tail: tail.clone() };
                self.thread(self.producer(edge), true, feed, limb);
            }
        }
        if self.merged[&at] == Merged::Locked {
            let limb = self.after(at, 0, None);
            self.links.joins.push((at, limb));
        }
    }

    /// Before a merge is reached: whether those that put into it put into a queue that an active end reads.
    fn tail_of_merge(&mut self, at: usize) -> Tail {
        if let Some(Merged::Queue(queue)) = self.merged.get(&at) {
            return Tail::Queue(*queue);
        }
        if let [edge] = self.edges(at)[..]
            && self.calls(edge.to)
            && !self.merged.contains_key(&at)
        {
            let queue = self.queue(at, edge.to, SLOTS, WhenFull::Wait);
            self.between.insert(edge, queue);
            self.merged.insert(at, Merged::Queue(queue));
            return Tail::Queue(queue);
        }
        self.merged.entry(at).or_insert(Merged::Locked);
        Tail::Locked(at)
    }

    /// What is behind a node that does not stand in the limb itself.
    fn after(&mut self, at: usize, depth: usize, inline: Option<Edge>) -> Limb {
        self.build(Vec::new(), at, depth, inline)
    }

    /// The same with the node as the first.
    fn along_from(&mut self, at: usize, depth: usize, inline: Option<Edge>) -> Limb {
        self.build(vec![at], at, depth + 1, inline)
    }

    fn along(&mut self, edge: Edge, depth: usize, inline: Option<Edge>) -> Limb {
        match self.step(edge, depth, inline) {
            Ok(tail) => Limb { nodes: Vec::new(), tail },
            Err(next) => self.along_from(next, depth, inline),
        }
    }

    /// Goes along an edge: the end of a limb, or the node that it goes on with.
    fn step(&mut self, edge: Edge, depth: usize, inline: Option<Edge>) -> Result<Tail, usize> {
        let to = edge.to;
        if let Some(queue) = self.own.get(&to) {
            return Ok(Tail::Queue(*queue));
        }
        if self.graph.nodes[to].role == Role::Merge {
            return Ok(if inline == Some(edge) { Tail::Collect } else { self.tail_of_merge(to) });
        }
        if self.calls(to) {
            if inline != Some(edge) {
                let queue = match self.between.get(&edge) {
                    Some(queue) => *queue,
                    None => self.queue(edge.from, to, SLOTS, WhenFull::Wait),
                };
                self.between.insert(edge, queue);
                return Ok(Tail::Queue(queue));
            }
            return if self.gathers(to) { Ok(Tail::Collect) } else { Err(to) };
        }
        if depth >= MAX_CALLS && !self.graph.nodes[to].outputs.is_empty() {
            let queue = self.queue(edge.from, to, SLOTS, WhenFull::Wait);
            self.cut.push_back((queue, edge));
            return Ok(Tail::Queue(queue));
        }
        Err(to)
    }

    fn build(&mut self, mut nodes: Vec<usize>, at: usize, mut depth: usize, inline: Option<Edge>) -> Limb {
        let mut now = at;
        loop {
            let edges = self.edges(now);
            let role = self.graph.nodes[now].role;
            // Behind an active end it is another producer.
            let inline = if nodes.contains(&now) && self.calls(now) { None } else { inline };
            match &edges[..] {
                [] => return Limb { nodes, tail: Tail::End },
                [edge] => match self.step(*edge, depth, inline) {
                    Ok(tail) => return Limb { nodes, tail },
                    Err(next) => {
                        nodes.push(next);
                        (now, depth) = (next, depth + 1);
                    }
                },
                _ if role == Role::Share && edges.iter().all(|e| self.calls(e.to)) => {
                    let queue = self.queue(now, edges[0].to, SLOTS, WhenFull::Wait);
                    for edge in &edges {
                        self.between.insert(*edge, queue);
                    }
                    return Limb { nodes, tail: Tail::Queue(queue) };
                }
                _ => {
                    let limbs = edges.iter().map(|e| self.along(*e, depth, inline)).collect();
                    let tail = if role == Role::Share { Tail::Share(limbs) } else { Tail::Fork(limbs) };
                    return Limb { nodes, tail };
                }
            }
        }
    }

    /// How many put into each queue and get from it.
    fn count(&mut self) {
        let Links { threads, queues, joins } = &mut self.links;
        for thread in threads.iter() {
            count_feed(&thread.feed, queues);
            count_limb(&thread.limb, queues);
        }
        joins.iter().for_each(|(_, limb)| count_limb(limb, queues));
    }
}

fn count_limb(limb: &Limb, queues: &mut [QueuePlan]) {
    match &limb.tail {
        Tail::Queue(queue) => queues[*queue].putters += 1,
        Tail::Fork(limbs) | Tail::Share(limbs) => limbs.iter().for_each(|l| count_limb(l, queues)),
        Tail::Locked(_) | Tail::End | Tail::Collect => {}
    }
}

fn count_feed(feed: &Feed, queues: &mut [QueuePlan]) {
    match feed {
        Feed::Node(_) => {}
        Feed::Queue(queue) => queues[*queue].getters += 1,
        Feed::Gather(_, feeds) | Feed::Turns(_, feeds) => feeds.iter().for_each(|f| count_feed(f, queues)),
        Feed::Through(inner, limb) => {
            count_feed(inner, queues);
            count_limb(limb, queues);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a text is linked, in short: threads with what they get from and put into, queues.
    fn linked(text: &str) -> (Graph, Links) {
        let graph = Graph::new(text).unwrap_or_else(|e| panic!("{e}"));
        let links = link(&graph);
        // I1, I2.
        let mut stands = vec![0; graph.nodes().len()];
        let all_limbs = links.threads.iter().map(|t| &t.limb).chain(links.joins.iter().map(|(_, l)| l));
        all_limbs.for_each(|l| stand(l, &mut stands));
        links.threads.iter().for_each(|t| stand_feed(&t.feed, &mut stands));
        for (at, node) in graph.nodes().iter().enumerate() {
            let own = !matches!(node.role, Role::Queue { .. } | Role::Merge);
            assert!(stands[at] == usize::from(own) || !own, "{}: {} times in {links:#?}", node.label, stands[at]);
        }
        assert!(links.queues.iter().all(|q| q.getters > 0 && q.putters > 0), "{:?}", links.queues);
        (graph, links)
    }

    fn stand(limb: &Limb, stands: &mut [usize]) {
        limb.nodes.iter().for_each(|at| stands[*at] += 1);
        if let Tail::Fork(limbs) | Tail::Share(limbs) = &limb.tail {
            limbs.iter().for_each(|l| stand(l, stands));
        }
    }

    fn stand_feed(feed: &Feed, stands: &mut [usize]) {
        match feed {
            Feed::Node(at) => stands[*at] += 1,
            Feed::Queue(_) => {}
            Feed::Gather(at, feeds) => {
                stands[*at] += 1;
                feeds.iter().for_each(|f| stand_feed(f, stands));
            }
            Feed::Turns(_, feeds) => feeds.iter().for_each(|f| stand_feed(f, stands)),
            Feed::Through(inner, limb) => {
                stand_feed(inner, stands);
                stand(limb, stands);
            }
        }
    }

    /// Threads, of which pumps, and queues with their numbers of putters and getters.
    fn made(text: &str) -> (usize, usize, Vec<(usize, usize)>) {
        let (_, links) = linked(text);
        let pumps = links.threads.iter().filter(|t| t.pump).count();
        (links.threads.len(), pumps, links.queues.iter().map(|q| (q.putters, q.getters)).collect())
    }

    #[test]
    fn two_ends_are_joined_as_the_table_of_4_4_says() {
        let source = |end: &str| format!("sine 1 ends={end}");
        let sink = |end: &str| format!("null ends={end}");
        let one = |p, c| made(&format!("{} | gain 1 | {}", source(p), sink(c)));
        let several = |p: &str, c| made(&format!("merge ({}) ({}) | {}", source(p), source(p), sink(c)));
        let fork = |p, c: &str| made(&format!("{} | tee ({}) ({})", source(p), sink(c), sink(c)));
        // 1:1
        assert_eq!(one("active", "active"), (2, 0, vec![(1, 1)]));
        assert_eq!(one("active", "passive"), (1, 0, vec![]));
        assert_eq!(one("passive", "active"), (1, 0, vec![]));
        assert_eq!(one("passive", "passive"), (1, 1, vec![]));
        // n:1
        assert_eq!(several("active", "active"), (3, 0, vec![(2, 1)]));
        assert_eq!(several("active", "passive"), (2, 0, vec![]));
        assert_eq!(several("passive", "active"), (1, 0, vec![]));
        assert_eq!(several("passive", "passive"), (1, 1, vec![]));
        // 1:n
        assert_eq!(fork("active", "active"), (3, 0, vec![(1, 1), (1, 1)]));
        assert_eq!(fork("active", "passive"), (1, 0, vec![]));
        assert_eq!(fork("passive", "active"), (3, 1, vec![(1, 1), (1, 1)]));
        assert_eq!(fork("passive", "passive"), (1, 1, vec![]));
        // A polled end is linked as an active one, and its thread polls.
        assert_eq!(one("poll", "active"), (2, 0, vec![(1, 1)]));
        assert!(linked("sine 1 ends=poll | null").1.threads[0].polls);
    }

    #[test]
    fn the_active_ends_decide_whose_thread_it_is() {
        let owner = |text: &str| {
            let (graph, links) = linked(text);
            links.threads.iter().map(|t| graph.nodes()[t.owner].label.clone()).collect::<Vec<_>>()
        };
        assert_eq!(owner("a: sine 1 ends=active | b: null"), ["a"]);
        assert_eq!(owner("a: sine 1 | b: null ends=active"), ["b"]);
        assert_eq!(owner("a: sine 1 | p: pump | b: null"), ["p"]);
        assert_eq!(owner("a: sine 1 ends=active | p: pump | b: null"), ["a", "p"]);
        assert_eq!(owner("a: sine 1 | queue 3 | b: null ends=active"), ["a", "b"]);
    }

    #[test]
    fn gatherers_call_what_is_passive_and_have_queues_from_what_is_active() {
        assert_eq!(made("mix (sine 1 | gain 2) (sine 2) | null"), (1, 1, vec![]));
        assert_eq!(made("mix (sine 1 ends=active | gain 2) (sine 2) | null"), (2, 1, vec![(1, 1)]));
        assert_eq!(made("a: sine 1\nmix (a) (a | gain 2) | null"), (2, 2, vec![(1, 1), (1, 1)]));
        assert_eq!(made("mix (mix (sine 1) (sine 2)) (merge (sine 3) (sine 4)) | null"), (1, 1, vec![]));
    }

    #[test]
    fn merges_of_mixed_ends_let_each_producer_call() {
        assert_eq!(made("merge (sine 1) (sine 1 ends=active) | gain 2 | null"), (2, 1, vec![]));
        assert_eq!(made("merge (merge (sine 1) (sine 1)) (sine 1) | null"), (1, 1, vec![]));
        assert_eq!(made("merge (sine 1) (sine 1 ends=active) | gain 2 | null ends=active"), (3, 1, vec![(1, 1)]));
    }

    #[test]
    fn active_readers_share_one_queue() {
        assert_eq!(made("sine 1 | share (null ends=active) (null ends=active)"), (3, 1, vec![(1, 2)]));
        assert_eq!(made("sine 1 | share (gain 1 | null) (null)"), (1, 1, vec![]));
    }

    #[test]
    fn long_chains_are_cut_by_queues() {
        let text = format!("sine 1 | {} null", "gain 1 | ".repeat(10_000));
        let (threads, pumps, queues) = made(&text);
        assert_eq!((threads, pumps, queues.len()), (100, 100, 99));
        let tees = format!("sine 1 | {} null", "tee (null) | ".repeat(3_000));
        assert_eq!(made(&tees).2.len(), 29);
        let mixes = format!("sine 1 | {} null", "mix | ".repeat(1_000));
        assert!(made(&mixes).2.len() >= 28);
    }
}
