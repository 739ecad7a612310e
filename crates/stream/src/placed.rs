//! The nodes of a graph, their links, and their order.

use crate::kind::{Anew, End, Job, Make, Role};
use crate::text::Written;
use crate::touched::Touched;
use crate::types::Type;
use chappe_synth::{Bound, Complaint, Span};
use std::collections::VecDeque;
use std::fmt;

/// A node.
pub struct Node {
    /// What people call it: its name, or its kind.
    pub label: String,
    /// As it was written.
    pub written: Written,
    /// What leads to it, in order.
    pub inputs: Vec<usize>,
    /// What it leads to, in order.
    pub outputs: Vec<usize>,
    /// The type of each input.
    pub takes: Vec<Type>,
    /// What comes out.
    pub gives: Option<Type>,
    /// Its ends.
    pub ends: (End, End),
    /// What the linker makes of it.
    pub role: Role,
    /// What becomes of it when its process was killed.
    pub anew: Anew,
    /// The process that it runs in; nothing for the one that runs the graph.
    pub process: Option<String>,
    pub(crate) make: Option<Make>,
    /// What it asks of each record, if that is all that it does.
    pub(crate) query: Option<Bound>,
    /// Under which name it tells its time to clocks.
    pub(crate) offers: Option<String>,
    /// The file that it hands on from its begin.
    pub(crate) reads: Option<String>,
    /// The file that it reads, or writes if something leads to it.
    pub(crate) touches: Option<Touched>,
    /// Whose time it keeps, and where that stands in the text.
    pub(crate) follows: Option<(String, Span)>,
    /// What it has to do with the jobs of its graph.
    pub(crate) job: Option<Job>,
}

impl Node {
    /// One that has no links, and was not planned.
    pub(crate) fn new(label: String, written: Written) -> Node {
        Node {
            label,
            written,
            inputs: Vec::new(),
            outputs: Vec::new(),
            takes: Vec::new(),
            gives: None,
            ends: (End::Follows, End::Follows),
            role: Role::Plain,
            anew: Anew::Fresh,
            process: None,
            make: None,
            query: None,
            offers: None,
            reads: None,
            touches: None,
            follows: None,
            job: None,
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} -> {:?}", self.label, self.inputs, self.outputs)
    }
}

/// Numbers below `count` in an order in which each comes behind all that are before it.
///
/// # Errors
/// A ring: each stands before the next one, from the smallest number back to it.
pub(crate) fn sort<'a>(
    count: usize,
    before: impl Fn(usize) -> &'a [usize],
    after: impl Fn(usize) -> &'a [usize],
) -> Result<Vec<usize>, Vec<usize>> {
    let mut missing: Vec<usize> = (0..count).map(|at| before(at).len()).collect();
    let mut ready: VecDeque<usize> = (0..count).filter(|at| missing[*at] == 0).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(at) = ready.pop_front() {
        order.push(at);
        for to in after(at) {
            missing[*to] -= 1;
            if missing[*to] == 0 {
                ready.push_back(*to);
            }
        }
    }
    if order.len() == count {
        return Ok(order);
    }
    // Backwards from any that is left one comes into a ring.
    let left = |at: &usize| missing[*at] > 0;
    let mut at = (0..count).find(left).expect("one is left");
    let (mut path, mut place) = (Vec::new(), vec![None; count]);
    let round = loop {
        if let Some(begin) = place[at].replace(path.len()) {
            break path.split_off(begin);
        }
        path.push(at);
        at = *before(at).iter().find(|i| left(i)).expect("what is left has something left before it");
    };
    let first = round.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(i, _)| i);
    Err((0..=round.len()).map(|i| round[(first + round.len() * 2 - i) % round.len()]).collect())
}

/// The nodes from the sources on.
pub(crate) fn order(text: &str, nodes: &[Node]) -> Result<Vec<usize>, Complaint> {
    let ring = match sort(nodes.len(), |at| &nodes[at].inputs, |at| &nodes[at].outputs) {
        Ok(order) => return Ok(order),
        Err(ring) => ring,
    };
    let names: Vec<&str> = ring.iter().map(|at| nodes[*at].label.as_str()).collect();
    let shown = if names.len() > 8 {
        format!("{} | ... | {}", names[..4].join(" | "), names[names.len() - 3..].join(" | "))
    } else {
        names.join(" | ")
    };
    let what = format!(
        "this is a loop, in which nothing would ever come first: {shown}; `echo` and `reverb` feed back within themselves"
    );
    Err(Complaint::new(text, nodes[ring[0]].written.span, what))
}
