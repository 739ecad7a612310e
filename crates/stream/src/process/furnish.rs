//! Gives the piece of a graph that one process runs what makes its nodes.

use super::split::{Is, Piece, cuts};
use super::told::object;
use super::tubes::{FromTube, Keeps, ToTube};
use crate::graph::Graph;
use crate::stage::Body;

/// Gives the nodes of a piece what makes their bodies.
pub fn furnish(whole: &mut Graph, piece: &mut Piece, arena: &str, parts: Option<&Keeps>) {
    let gives: Vec<_> =
        cuts(whole.nodes()).iter().map(|c| whole.nodes[c.from].gives.clone().expect("it is linked")).collect();
    for (node, is) in piece.graph.nodes.iter_mut().zip(&piece.is) {
        let (name, parts) = (|cut: usize| object(arena, "cut", cut), parts.cloned());
        node.make = match *is {
            Is::Node(at) => whole.nodes[at].make.take(),
            Is::Sends(cut) => {
                let (name, of) = (name(cut), gives[cut].clone());
                Some(Box::new(move || Ok(Body::Stage(Box::new(ToTube::new(&name, of, parts)?)))))
            }
            Is::Receives(cut) => {
                let name = name(cut);
                Some(Box::new(move || Ok(Body::Source(Box::new(FromTube::new(&name, parts)?)))))
            }
        };
    }
}
