//! A graph as it was linked, for people: as text, and as a picture (SVG).
//!
//! Both show each thread with the calls that it makes, each queue with its two ends, and the type of each link: figures 4.1 to 4.3 of the thesis for
//! the graph at hand.

use crate::fused::loops;
use crate::graph::Graph;
use crate::kind::WhenFull;
use crate::link::{Feed, Limb, Links, Tail, Thread, link};
use crate::process::{Is, cuts, names, view};
use std::fmt::Write;

/// The plan as text.
pub fn text(graph: &Graph) -> String {
    let names = names(graph.nodes());
    if names.is_empty() {
        return one(graph);
    }
    let cuts = cuts(graph.nodes());
    let (stages, tubes) = (count(graph.nodes().len(), "stage"), count(cuts.len(), "tube"));
    let mut out = format!("{stages}, {} processes, {tubes}\n", names.len() + 1);
    for which in std::iter::once(None).chain(names.iter().map(Some)) {
        let piece = view(graph, which.map(String::as_str));
        let nodes = piece.graph.nodes();
        let once = nodes.iter().find(|n| n.anew.stays_dead());
        let title = match (which, once) {
            (None, _) => "this process".to_owned(),
            (Some(name), None) => format!("@{name}, begun anew when it is killed"),
            (Some(name), Some(once)) => format!("@{name}, not begun anew when it is killed: `{}` writes", once.label),
        };
        let _ = write!(out, "\n=== {title}: {}", one(&piece.graph));
        let queues = link(&piece.graph).queues.len();
        if which.is_some() && once.is_none() && queues > 0 {
            let _ = writeln!(out, "a kill loses what is in {}, and that is counted", count(queues, "queue"));
        }
    }
    out.push('\n');
    for (at, cut) in cuts.iter().enumerate() {
        let node = |at: usize| {
            let node = &graph.nodes()[at];
            node.process.as_ref().map_or_else(|| node.label.clone(), |p| format!("{} @{p}", node.label))
        };
        let gives = graph.nodes()[cut.from].gives.as_ref().map_or_else(String::new, ToString::to_string);
        let _ = writeln!(out, "tube {}: `{}` -> `{}`, {gives}", at + 1, node(cut.from), node(cut.to));
    }
    out
}

/// That of one process.
fn one(graph: &Graph) -> String {
    let links = link(graph);
    let mut out = String::new();
    let (nodes, threads, queues) = (graph.nodes().len(), links.threads.len(), links.queues.len());
    let _ = writeln!(out, "{}, {}, {}", count(nodes, "stage"), count(threads, "thread"), count(queues, "queue"));
    for (at, thread) in links.threads.iter().enumerate() {
        let what = match (thread.pump, thread.polls) {
            (true, _) => "a pump",
            (_, true) => "polls",
            _ => "its own end calls",
        };
        let _ = writeln!(out, "\nthread {} `{}` ({what})", at + 1, name(graph, thread));
        feed(graph, &thread.feed, 1, &mut out);
        limb(graph, &thread.limb, 1, &mut out);
    }
    for (at, inner) in &links.joins {
        let _ = writeln!(out, "\nbehind `{}`, one thread at a time", graph.nodes()[*at].label);
        limb(graph, inner, 1, &mut out);
    }
    if queues > 0 {
        out.push('\n');
    }
    for (at, queue) in links.queues.iter().enumerate() {
        let full = match queue.full {
            WhenFull::Wait => "waits",
            WhenFull::DropNew => "drops the new block, and counts it",
            WhenFull::DropOld => "drops the oldest block, and counts it",
        };
        let ends = format!("{} in, {} out", queue.putters, queue.getters);
        let _ = writeln!(out, "queue {}: {} blocks; {ends}; when full {full}", at + 1, queue.slots);
    }
    out
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn name(graph: &Graph, thread: &Thread) -> String {
    graph.nodes()[thread.owner].label.clone()
}

fn line(out: &mut String, depth: usize, text: &str) {
    let _ = writeln!(out, "{}{text}", "  ".repeat(depth.min(40)));
}

fn shown(graph: &Graph, at: usize) -> String {
    let node = &graph.nodes()[at];
    let written = &node.written.whole;
    let text = graph.text().get(written.start as usize..written.end as usize).unwrap_or(&node.label);
    // The end of a tube stands nowhere in the text.
    let text = if text.is_empty() { &node.label } else { text };
    let text = text.split('(').next().unwrap_or(text).trim().replace('\n', " ");
    let text = if node.label == "tee" && !text.starts_with("tee") { "tee".to_owned() } else { text };
    match &node.gives {
        Some(gives) if !node.outputs.is_empty() => format!("{text}  -> {gives}"),
        Some(_) => format!("{text}  (nobody reads it: counted, and dropped)"),
        None => text,
    }
}

fn feed(graph: &Graph, from: &Feed, depth: usize, out: &mut String) {
    match from {
        Feed::Node(at) => line(out, depth, &format!("calls get of {}", shown(graph, *at))),
        Feed::Queue(queue) => line(out, depth, &format!("gets from queue {}", queue + 1)),
        Feed::Gather(at, feeds) => {
            line(out, depth, &format!("calls get of {}, which", shown(graph, *at)));
            feeds.iter().for_each(|f| feed(graph, f, depth + 1, out));
        }
        Feed::Turns(at, feeds) => {
            line(out, depth, &format!("takes turns for {}:", shown(graph, *at)));
            feeds.iter().for_each(|f| feed(graph, f, depth + 1, out));
        }
        Feed::Through(inner, through) => {
            feed(graph, inner, depth, out);
            limb(graph, through, depth, out);
        }
    }
}

fn limb(graph: &Graph, limb_: &Limb, depth: usize, out: &mut String) {
    let mut nodes = limb_.nodes.iter();
    for (count, _) in loops(graph, &limb_.nodes) {
        for (nth, at) in nodes.by_ref().take(count).enumerate() {
            let how = if nth == 0 { "calls" } else { "in one loop with it:" };
            line(out, depth, &format!("{how} {}", shown(graph, *at)));
        }
    }
    match &limb_.tail {
        Tail::End | Tail::Collect => {}
        Tail::Queue(queue) => line(out, depth, &format!("puts into queue {}", queue + 1)),
        Tail::Locked(at) => line(out, depth, &format!("calls `{}`, one thread at a time", graph.nodes()[*at].label)),
        Tail::Fork(limbs) => {
            for (i, one) in limbs.iter().enumerate() {
                line(out, depth, if i == 0 { "each block:" } else { "and:" });
                limb(graph, one, depth + 1, out);
            }
        }
        Tail::Share(limbs) => {
            for (i, one) in limbs.iter().enumerate() {
                line(out, depth, if i == 0 { "in turn:" } else { "or:" });
                limb(graph, one, depth + 1, out);
            }
        }
    }
}

/// Which thread runs each node, by number.
fn runners(graph: &Graph, links: &Links) -> Vec<Option<usize>> {
    fn of_limb(limb: &Limb, thread: usize, by: &mut [Option<usize>]) {
        limb.nodes.iter().for_each(|at| by[*at] = Some(thread));
        if let Tail::Fork(limbs) | Tail::Share(limbs) = &limb.tail {
            limbs.iter().for_each(|l| of_limb(l, thread, by));
        }
    }
    fn of_feed(feed: &Feed, thread: usize, by: &mut [Option<usize>]) {
        match feed {
            Feed::Node(at) => by[*at] = Some(thread),
            Feed::Queue(_) => {}
            Feed::Gather(at, feeds) | Feed::Turns(at, feeds) => {
                by[*at] = Some(thread);
                feeds.iter().for_each(|f| of_feed(f, thread, by));
            }
            Feed::Through(inner, limb) => {
                of_feed(inner, thread, by);
                of_limb(limb, thread, by);
            }
        }
    }
    let mut by = vec![None; graph.nodes().len()];
    for (at, thread) in links.threads.iter().enumerate() {
        of_feed(&thread.feed, at, &mut by);
        of_limb(&thread.limb, at, &mut by);
    }
    by
}

/// The most stages that are drawn.
const DRAWN: usize = 500;
const COLOURS: [&str; 8] = ["#dbe9f6", "#e3f2da", "#fdebd0", "#f6dcea", "#e6e0f3", "#d9f0ee", "#f7f0c6", "#ececec"];

/// The plan as a picture: a box for each stage, in the colour of the thread that runs it; a line for a call, a pipe for a queue.
pub fn svg(graph: &Graph) -> String {
    let nodes = graph.nodes();
    // By process: threads are numbered through.
    let mut by: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut pumps: Vec<Option<usize>> = Vec::new();
    for which in std::iter::once(None).chain(names(nodes).iter().map(|n| Some(n.as_str()))) {
        let piece = view(graph, which);
        let links = link(&piece.graph);
        let whole = |at: usize| if let Is::Node(whole) = piece.is[at] { Some(whole) } else { None };
        for (at, thread) in runners(&piece.graph, &links).into_iter().enumerate() {
            if let Some(whole) = whole(at) {
                by[whole] = thread.map(|t| t + pumps.len());
            }
        }
        pumps.extend(links.threads.iter().map(|t| whole(t.owner).filter(|_| t.pump)));
    }
    let drawn = nodes.len().min(DRAWN);
    // The column is the longest way from a source; the row is the next that is free there.
    let mut column = vec![0usize; nodes.len()];
    for at in &graph.order {
        for to in &nodes[*at].outputs {
            column[*to] = column[*to].max(column[*at] + 1);
        }
    }
    let mut rows: Vec<usize> = Vec::new();
    let mut place = vec![(0, 0); nodes.len()];
    for at in &graph.order {
        let c = column[*at];
        if rows.len() <= c {
            rows.resize(c + 1, 0);
        }
        place[*at] = (c * 190 + 20, rows[c] * 90 + 20);
        rows[c] += 1;
    }
    let shown: Vec<usize> = graph.order.iter().copied().take(drawn).collect();
    let width = shown.iter().map(|at| place[*at].0).max().unwrap_or(0) + 170;
    let height = shown.iter().map(|at| place[*at].1).max().unwrap_or(0) + 90;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">"
    );
    let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
    let queued =
        |from: usize, to: usize| by[from] != by[to] || nodes[to].role != crate::kind::Role::Plain && by[to].is_none();
    let tube = |from: usize, to: usize| nodes[from].process != nodes[to].process;
    for from in &shown {
        for to in nodes[*from].outputs.iter().filter(|to| shown.contains(to)) {
            let ((x1, y1), (x2, y2)) = (place[*from], place[*to]);
            let (x1, y1, x2, y2) = (x1 + 140, y1 + 22, x2, y2 + 22);
            let queue = queued(*from, *to);
            let style = if tube(*from, *to) {
                "stroke=\"#1e8449\" stroke-width=\"6\" stroke-dasharray=\"12 3\""
            } else if queue {
                "stroke=\"#c0392b\" stroke-width=\"5\" stroke-dasharray=\"6 2\""
            } else {
                "stroke=\"#444\" stroke-width=\"1.5\""
            };
            let _ = writeln!(
                out,
                "<path d=\"M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}\" fill=\"none\" {style}/>",
                x1 + 25,
                x2 - 25
            );
            if let Some(gives) = &nodes[*from].gives {
                let text = escaped(&gives.to_string(), 24);
                let _ = writeln!(
                    out,
                    "<text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#666\">{text}</text>",
                    x1 - 138,
                    y1 + 34
                );
            }
        }
    }
    for at in &shown {
        let (x, y) = place[*at];
        let fill = by[*at].map_or("#ffffff", |t| COLOURS[t % COLOURS.len()]);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"140\" height=\"44\" rx=\"6\" fill=\"{fill}\" stroke=\"#333\"/>"
        );
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>",
            x + 8,
            y + 18,
            escaped(&nodes[*at].label, 20)
        );
        let thread = match (by[*at], nodes[*at].role) {
            (Some(t), _) => format!("thread {}{}", t + 1, if pumps[t] == Some(*at) { " (pump)" } else { "" }),
            (None, crate::kind::Role::Queue { slots, .. }) => format!("{slots} blocks"),
            (None, _) => "whoever calls".into(),
        };
        let thread = nodes[*at].process.as_ref().map_or(thread.clone(), |p| format!("@{p} {thread}"));
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\" fill=\"#555\">{thread}</text>", x + 8, y + 35);
    }
    if drawn < nodes.len() {
        let _ = writeln!(out, "<text x=\"20\" y=\"{}\">and {} more stages</text>", height - 6, nodes.len() - drawn);
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str, most: usize) -> String {
    let short: String =
        if text.chars().count() > most { text.chars().take(most - 1).chain(['…']).collect() } else { text.into() };
    short.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
