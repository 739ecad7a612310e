//! Which stage keeps whose time: the part of a graph's check that is about `lock=` and `reference`.
//!
//! A locked clock waits for its reference as a stage waits for what leads to it. So links and `lock=` together must have no ring, in which every stage would
//! wait for all others. Clocks are bound to their reference when the graph begins. So nothing takes a reference's place while the graph runs.

use crate::placed::{Node, sort};
use chappe_synth::Complaint;
use std::collections::HashMap;

/// Checks that each name is offered once, is offered in the process of those that follow it, and that there is no ring.
pub fn check(text: &str, nodes: &[Node]) -> Result<(), Complaint> {
    let mut offers: HashMap<&str, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        if let Some(name) = &node.offers
            && offers.insert(name, at).is_some()
        {
            return Err(Complaint::new(text, node.written.span, format!("there are two references `{name}`")));
        }
    }
    let mut binds = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some((name, span)) = &node.follows else { continue };
        let what = match offers.get(name.as_str()) {
            Some(of) if nodes[*of].process == node.process => {
                binds.push((*of, at));
                continue;
            }
            Some(_) => format!("`reference {name}` is in another process: both need the same `@` name, or none"),
            None => format!("there is no `reference {name}` in this graph: put it where the frames go by"),
        };
        return Err(Complaint::new(text, *span, what));
    }
    no_ring(text, nodes, &binds)
}

/// Checks that nothing waits for itself, where the second of each pair is locked to the first.
fn no_ring(text: &str, nodes: &[Node], binds: &[(usize, usize)]) -> Result<(), Complaint> {
    if binds.is_empty() {
        return Ok(());
    }
    let mut before: Vec<Vec<usize>> = nodes.iter().map(|n| n.inputs.clone()).collect();
    let mut after: Vec<Vec<usize>> = nodes.iter().map(|n| n.outputs.clone()).collect();
    for (of, at) in binds {
        before[*at].push(*of);
        after[*of].push(*at);
    }
    let Err(ring) = sort(nodes.len(), |at| &before[at], |at| &after[at]) else { return Ok(()) };
    let called = |at: usize| match &nodes[at].offers {
        Some(name) if nodes[at].label == nodes[at].written.kind => format!("{} {name}", nodes[at].label),
        _ => nodes[at].label.clone(),
    };
    let (mut shown, last) = (called(ring[0]), ring.len() - 1);
    for (i, pair) in ring.windows(2).enumerate() {
        let arrow = if nodes[pair[0]].outputs.contains(&pair[1]) { "|" } else { "->" };
        // A long one without its middle.
        match i {
            4 if last > 8 => shown.push_str(" | ..."),
            5.. if last > 8 && i + 3 < last => {}
            _ => shown.push_str(&format!(" {arrow} {}", called(pair[1]))),
        }
    }
    // Links alone have no loop, so one of the ring is locked to another of it.
    let locked = ring.windows(2).filter(|pair| !nodes[pair[0]].outputs.contains(&pair[1])).map(|pair| pair[1]).min();
    let at = locked.unwrap_or(ring[0]);
    let span = nodes[at].follows.as_ref().map_or(nodes[at].written.span, |(_, span)| *span);
    let what = format!(
        "`{}` is locked to what waits for its own ticks, so neither would ever begin: {shown} (`->` is `lock=`); lock it to a reference that it does not \
         lead to, or leave `lock=` out",
        nodes[at].label
    );
    Err(Complaint::new(text, span, what))
}

/// Why a stage cannot take a node's place while the graph runs, as far as clocks are concerned: whether it tells its time, and whose time it keeps.
pub fn keeps_its_place(old: &Node, offers: Option<&str>, follows: Option<&str>) -> Option<String> {
    let begins = "clocks are locked to a `reference` when the graph begins";
    if let Some(name) = old.offers.as_deref().or(offers) {
        let which = if old.offers.is_some() { "nothing takes the place of" } else { "no other stage becomes" };
        return Some(format!("{begins}: {which} `reference {name}` while it runs; run the new text as a new graph"));
    }
    follows.map(|name| format!("{begins}: a stage that is locked to `{name}` takes no other's place while it runs"))
}
