//! Where a graph is cut, and the piece of it that one process runs.

use crate::graph::Graph;
use crate::kind::End;
use crate::placed::{Node, order};
use chappe_synth::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// A link from one process to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The node that gives.
    pub from: usize,
    /// Which of its outputs.
    pub output: usize,
    /// The node that takes.
    pub to: usize,
    /// Which of its inputs.
    pub port: usize,
}

/// What a node of a piece is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is {
    /// That node of the whole graph.
    Node(usize),
    /// The sending end of that cut.
    Sends(usize),
    /// The receiving end of that cut.
    Receives(usize),
}

/// What one process runs: a graph of its own, without what makes its bodies.
#[derive(Debug)]
pub struct Piece {
    /// The graph.
    pub graph: Graph,
    /// What each of its nodes is.
    pub is: Vec<Is>,
}

/// The names of processes, in the order of the text.
pub fn names(nodes: &[Node]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in nodes.iter().filter_map(|n| n.process.as_ref()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The links between processes. The same in each process that reads the text.
pub fn cuts(nodes: &[Node]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (from, node) in nodes.iter().enumerate() {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for (output, to) in node.outputs.iter().enumerate() {
            let nth = seen.entry(*to).or_insert(0);
            let mut inputs = nodes[*to].inputs.iter().enumerate().filter(|(_, i)| **i == from);
            let port = inputs.nth(*nth).expect("links are known at both sides").0;
            *nth += 1;
            if nodes[*to].process != node.process {
                cuts.push(Cut { from, output, to: *to, port });
            }
        }
    }
    cuts
}

fn end_of(label: String, of: &Node) -> Node {
    let mut written = of.written.clone();
    (written.kind, written.name, written.whole) = ("tube".into(), None, Span::default());
    written.arguments.clear();
    Node { ends: (End::Passive, End::Passive), ..Node::new(label, written) }
}

fn called(node: &Node) -> String {
    node.process.as_ref().map_or_else(|| node.label.clone(), |name| format!("@{name}"))
}

/// The piece of a process: that of a name, or of the one that runs the graph.
pub fn view(graph: &Graph, which: Option<&str>) -> Piece {
    let nodes = graph.nodes();
    let ours = |at: usize| nodes[at].process.as_deref() == which;
    let mut is: Vec<Is> = (0..nodes.len()).filter(|at| ours(*at)).map(Is::Node).collect();
    let new: HashMap<usize, usize> =
        (0..nodes.len()).filter(|at| ours(*at)).enumerate().map(|(n, at)| (at, n)).collect();
    let known = |links: &[usize]| links.iter().map(|at| new.get(at).copied().unwrap_or(usize::MAX)).collect();
    let mut piece: Vec<Node> = (0..nodes.len())
        .filter(|at| ours(*at))
        .map(|at| {
            let node = &nodes[at];
            Node {
                label: node.label.clone(),
                written: node.written.clone(),
                inputs: known(&node.inputs),
                outputs: known(&node.outputs),
                takes: node.takes.clone(),
                gives: node.gives.clone(),
                ends: node.ends,
                role: node.role,
                anew: node.anew,
                process: node.process.clone(),
                make: None,
                query: node.query.clone(),
                offers: node.offers.clone(),
                reads: None,
                touches: None,
                follows: node.follows.clone(),
                job: node.job.clone(),
            }
        })
        .collect();
    for (number, cut) in cuts(nodes).into_iter().enumerate() {
        let at = piece.len();
        let gives = nodes[cut.from].gives.clone().expect("what is linked gives something");
        if ours(cut.from) {
            let mut end = end_of(format!("to {}", called(&nodes[cut.to])), &nodes[cut.from]);
            (end.inputs, end.takes) = (vec![new[&cut.from]], vec![gives]);
            piece[new[&cut.from]].outputs[cut.output] = at;
            piece.push(end);
            is.push(Is::Sends(number));
        } else if ours(cut.to) {
            let mut end = end_of(format!("from {}", called(&nodes[cut.from])), &nodes[cut.to]);
            (end.outputs, end.gives, end.ends) = (vec![new[&cut.to]], Some(gives), (End::Passive, End::Active));
            piece[new[&cut.to]].inputs[cut.port] = at;
            piece.push(end);
            is.push(Is::Receives(number));
        }
    }
    let order = order(graph.text(), &piece).expect("a part of what has no loop has none");
    let graph = Graph {
        text: graph.text.clone(),
        nodes: piece,
        order,
        kinds: graph.kinds.clone(),
        lazy: graph.lazy,
        in_turn: graph.in_turn,
        command: graph.command.clone(),
        references: Arc::clone(&graph.references),
    };
    Piece { graph, is }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::link;

    fn shown(piece: &Piece) -> Vec<String> {
        let nodes = piece.graph.nodes();
        let names = |links: &[usize]| links.iter().map(|at| nodes[*at].label.clone()).collect::<Vec<_>>().join(",");
        nodes.iter().map(|n| format!("{} > {} > {}", names(&n.inputs), n.label, names(&n.outputs))).collect()
    }

    #[test]
    fn a_graph_falls_into_pieces_whose_ends_are_tubes() {
        let graph = Graph::new("sine 440 seconds=1 | gain 0.5 @a | lowpass 800 @a | null").unwrap();
        assert_eq!(names(graph.nodes()), ["a"]);
        assert_eq!(
            shown(&view(&graph, None)),
            [" > sine > to @a", "from @a > null > ", "sine > to @a > ", " > from @a > null"]
        );
        let part = view(&graph, Some("a"));
        assert_eq!(
            shown(&part),
            ["from sine > gain > lowpass", "gain > lowpass > to null", " > from sine > gain", "lowpass > to null > "]
        );
        // One thread gets, calls both, and sends: nothing is in between that a kill could take.
        let links = link(&part.graph);
        assert_eq!((links.threads.len(), links.queues.len()), (1, 0));
    }

    #[test]
    fn each_link_between_two_processes_is_cut_once_also_where_two_lead_the_same_way() {
        let graph = Graph::new("a: sine 1\nmix (a) (a | gain 2 @p) @q | null").unwrap();
        let cuts = cuts(graph.nodes());
        assert_eq!(cuts.len(), 4, "{cuts:?}");
        for which in [None, Some("p"), Some("q")] {
            let piece = view(&graph, which);
            for (at, node) in piece.graph.nodes().iter().enumerate() {
                assert!(node.inputs.iter().all(|i| piece.graph.nodes()[*i].outputs.contains(&at)), "{piece:?}");
                assert!(node.outputs.iter().all(|o| piece.graph.nodes()[*o].inputs.contains(&at)), "{piece:?}");
            }
        }
    }
}
