//! A graph: its nodes, its links, and the type of each link.
//!
//! A graph is made from a text in three steps: names are resolved, loops are refused, and types are inferred from the
//! sources on. Each step ends at the first mistake, with its place in the text. A node that several stages read gets a
//! `tee` behind it.

use crate::kind::{Anew, Call, Job, Kinds, Plan, Role, Wrong};
use crate::locks;
use crate::placed::{Node, order};
use crate::process::Command;
use crate::stage::{Body, Fault, Out, Stage};
use crate::telling::References;
use crate::text::{Written, parse};
use crate::touched::{self, Use};
use crate::types::{Block, Type};
use chappe_synth::{Complaint, Span};
use std::collections::HashMap;
use std::sync::Arc;

/// A graph whose types agree.
#[derive(Debug)]
pub struct Graph {
    pub(crate) text: String,
    pub(crate) nodes: Vec<Node>,
    /// From the sources on.
    pub(crate) order: Vec<usize>,
    pub(crate) kinds: Kinds,
    pub(crate) lazy: bool,
    pub(crate) in_turn: bool,
    /// How its parts are begun.
    pub(crate) command: Command,
    /// Where its bodies meet: its own, as other graphs may have the same kinds.
    pub(crate) references: Arc<References>,
}

/// How a text is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A stage that nobody knows is an error only when data reaches it (synthesis, 4.2.3: run-link).
    pub lazy: bool,
    /// The kinds of nodes that there are.
    pub kinds: Kinds,
    /// Threads run in turn, for equal quanta, whatever their queues hold: what fine-grain scheduling (6.3.1) is compared with.
    pub in_turn: bool,
}

impl Graph {
    /// Reads and checks a text.
    ///
    /// # Errors
    /// The first thing that is wrong, with the line and a caret.
    ///
    /// ```
    /// use chappe_stream::Graph;
    /// let wrong = Graph::new("sine 440 rate=48000 | cast i16 | lowpass 800 | null").unwrap_err();
    /// assert_eq!(wrong.to_string(), "\
    /// `lowpass` takes f32, and this is i16 at 48000 Hz: put `cast f32` before it (line 1, column 34)
    ///   sine 440 rate=48000 | cast i16 | lowpass 800 | null
    ///                                    ^^^^^^^");
    /// ```
    pub fn new(text: &str) -> Result<Graph, Complaint> {
        Graph::with(text, Options::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn with(text: &str, options: Options) -> Result<Graph, Complaint> {
        let lines = parse(text)?;
        let mut maker = Maker { text, kinds: &options.kinds, names: HashMap::new(), nodes: Vec::new() };
        let shapes = lines.into_iter().map(|line| maker.enter(line)).collect::<Result<Vec<_>, _>>()?;
        for line in &shapes {
            maker.connect(line, None)?;
        }
        let mut nodes = maker.nodes;
        if nodes.is_empty() {
            return Err(Complaint::new(text, Span::default(), "there is no stage in this graph"));
        }
        fork(&mut nodes);
        let order = order(text, &nodes)?;
        let mut graph = Graph {
            text: text.to_owned(),
            nodes,
            order,
            kinds: options.kinds,
            lazy: options.lazy,
            in_turn: options.in_turn,
            command: Command::default(),
            references: Arc::default(),
        };
        graph.check(options.lazy)?;
        Ok(graph)
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// With another program for its parts (`@process`) than the one that runs the graph: see [`crate::process`].
    #[must_use]
    pub fn parts_by(self, command: Command) -> Graph {
        Graph { command, ..self }
    }

    /// Its nodes, as they stand in the text.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Works out the types.
    fn check(&mut self, lazy: bool) -> Result<(), Complaint> {
        let references = Arc::clone(&self.references);
        for at in self.order.clone() {
            let mut takes = Vec::new();
            for from in &self.nodes[at].inputs {
                let node = &self.nodes[*from];
                let Some(gives) = &node.gives else {
                    let what = format!(
                        "`{}` gives nothing to whatever is behind it, and `{}` is",
                        node.label, self.nodes[at].label
                    );
                    return Err(Complaint::new(&self.text, self.nodes[at].written.span, what));
                };
                if gives.names_texts() && node.process != self.nodes[at].process {
                    let what = format!(
                        "`{}` and `{}` are in different processes, and texts of any length do not go from one to another: say how long \
                         they may be, as in `sym: str[8]`, or make text of the records before",
                        node.label, self.nodes[at].label
                    );
                    return Err(Complaint::new(&self.text, self.nodes[at].written.span, what));
                }
                takes.push(gives.clone());
            }
            let node = &self.nodes[at];
            let reads = self.read_before(at);
            let call =
                Call::new(&node.written, &takes, !node.outputs.is_empty()).within(&references).behind(reads.clone());
            let plan = if lazy && self.kinds.get(&node.written.kind).is_none() {
                Ok(undefined(node, &takes))
            } else {
                self.kinds.plan(&call)
            };
            let plan = plan
                .map_err(|Wrong { span, what }| Complaint::new(&self.text, span.unwrap_or(node.written.span), what))?;
            let touches = call.touched();
            let node = &mut self.nodes[at];
            if let (Some(process), Anew::Here) = (&node.process, plan.anew) {
                let what = format!(
                    "`{}` belongs to the process that runs the graph, and not to `@{process}`: leave that out",
                    node.label
                );
                return Err(Complaint::new(&self.text, node.written.whole, what));
            }
            (node.takes, node.gives, node.role, node.anew) = (takes, plan.gives, plan.role, plan.anew);
            (node.ends, node.make, node.query) = ((plan.input, plan.output), Some(plan.make), plan.query);
            (node.offers, node.follows) = (plan.offers, plan.follows);
            (node.job, node.touches) = (plan.job, touches);
            // The linker's own hand on what comes.
            node.reads = plan.reads.or(reads.filter(|_| plan.role != Role::Plain));
        }
        self.check_jobs()?;
        touched::check(&self.text, self.uses(None))?;
        locks::check(&self.text, &self.nodes)
    }

    /// Each `emergency` waits for one job, of its own process.
    fn check_jobs(&self) -> Result<(), Complaint> {
        for node in &self.nodes {
            let Some(Job::Waits(name)) = &node.job else { continue };
            let is = |of: &&Node| matches!(&of.job, Some(Job::Is(of, _)) if of == name);
            let what = match self.nodes.iter().filter(is).collect::<Vec<_>>()[..] {
                [of] if of.process == node.process => continue,
                [_] => format!("the job `{name}` is in another process: both need the same `@` name, or none"),
                [] => format!("there is no job `{name}` in this graph: `{name}: deadline ... importance=1` is one"),
                _ => format!("there are several jobs `{name}`: give them other names"),
            };
            return Err(Complaint::new(&self.text, node.written.span, what));
        }
        Ok(())
    }

    /// What its stages do with files, but for the one at this place.
    fn uses(&self, but: Option<usize>) -> Vec<Use<'_>> {
        let others = self.nodes.iter().enumerate().filter(|(at, _)| Some(*at) != but);
        others
            .filter_map(|(_, node)| {
                let file = node.touches.as_ref()?;
                Some(Use { label: &node.label, file, writes: !node.inputs.is_empty() })
            })
            .collect()
    }

    /// The file that the only stage before a node hands on from its begin.
    fn read_before(&self, at: usize) -> Option<String> {
        let [from] = self.nodes[at].inputs[..] else { return None };
        self.nodes[from].reads.clone()
    }

    /// Plans another stage for a node's place: it must take and give the same types.
    pub(crate) fn plan_for(&self, at: usize, text: &str) -> Result<Plan, Complaint> {
        let lines = parse(text)?;
        let [line] = &lines[..] else {
            return Err(Complaint::new(text, Span::default(), "one stage takes the place of another"));
        };
        let [written] = &line[..] else {
            return Err(Complaint::new(text, line[1].span, "one stage takes the place of another"));
        };
        let node = &self.nodes[at];
        let call = Call::new(written, &node.takes, !node.outputs.is_empty()).behind(self.read_before(at));
        let plan = self
            .kinds
            .plan(&call)
            .map_err(|Wrong { span, what }| Complaint::new(text, span.unwrap_or(written.span), what))?;
        let touched = call.touched();
        let uses = touched.as_ref().map(|file| Use { label: &written.kind, file, writes: !node.inputs.is_empty() });
        if let Some(what) = uses.and_then(|it| touched::beside(&self.uses(Some(at)), &it)) {
            return Err(Complaint::new(text, written.span, what));
        }
        let follows = plan.follows.as_ref().map(|(name, _)| name.as_str());
        if let Some(what) = locks::keeps_its_place(node, plan.offers.as_deref(), follows) {
            return Err(Complaint::new(text, written.span, what));
        }
        let shown = |t: &Option<Type>| t.as_ref().map_or("nothing".to_owned(), Type::to_string);
        if plan.gives != node.gives {
            let what = format!(
                "`{}` gives {}, and what is behind `{}` was linked for {}",
                written.kind,
                shown(&plan.gives),
                node.label,
                shown(&node.gives)
            );
            return Err(Complaint::new(text, written.span, what));
        }
        if plan.role != Role::Plain || (plan.input, plan.output) != node.ends {
            let what = format!("`{}` has other ends than `{}`", written.kind, node.label);
            return Err(Complaint::new(text, written.span, what));
        }
        Ok(plan)
    }

    /// The place of a node in the text, for a message about it.
    pub(crate) fn complain(&self, at: usize, what: impl Into<String>) -> Complaint {
        Complaint::new(&self.text, self.nodes[at].written.span, what)
    }
}

struct Maker<'a> {
    text: &'a str,
    kinds: &'a Kinds,
    names: HashMap<String, usize>,
    nodes: Vec<Node>,
}

/// A stage of a line, by number.
enum Shape {
    Node { at: usize, branches: Vec<Vec<Shape>> },
    Other { name: String, span: Span },
}

impl Maker<'_> {
    /// Gives each stage that is no mere name a number.
    fn enter(&mut self, line: Vec<Written>) -> Result<Vec<Shape>, Complaint> {
        let mut shapes = Vec::new();
        for mut written in line {
            let bare = written.name.is_none() && written.arguments.is_empty() && written.branches.is_empty();
            if bare && written.process.is_none() && self.kinds.get(&written.kind).is_none() {
                shapes.push(Shape::Other { name: written.kind, span: written.span });
                continue;
            }
            let at = self.nodes.len();
            if let Some(name) = &written.name {
                if self.kinds.get(name).is_some() {
                    let what = format!("`{name}` is a kind of stage: give this one another name");
                    return Err(Complaint::new(self.text, written.whole, what));
                }
                if self.names.insert(name.clone(), at).is_some() {
                    let what = format!("there are two stages of the name `{name}`");
                    return Err(Complaint::new(self.text, written.whole, what));
                }
            }
            let branches = std::mem::take(&mut written.branches);
            let label = written.name.clone().unwrap_or_else(|| written.kind.clone());
            self.nodes.push(Node { process: written.process.clone(), ..Node::new(label, written) });
            let branches = branches.into_iter().map(|b| self.enter(b)).collect::<Result<Vec<_>, _>>()?;
            shapes.push(Shape::Node { at, branches });
        }
        Ok(shapes)
    }

    fn link(&mut self, from: usize, to: usize) {
        self.nodes[from].outputs.push(to);
        self.nodes[to].inputs.push(from);
    }

    /// Links a line, behind another stage if there is one. Answers its last stage.
    fn connect(&mut self, line: &[Shape], before: Option<usize>) -> Result<usize, Complaint> {
        let mut last = before;
        for shape in line {
            let at = match shape {
                Shape::Node { at, .. } => *at,
                Shape::Other { name, span } => match self.names.get(name) {
                    Some(at) => *at,
                    // The types' check says that there is no such stage.
                    None => self.unknown(name, *span),
                },
            };
            if let Some(last) = last {
                self.link(last, at);
            }
            if let Shape::Node { branches, .. } = shape {
                let kind = self.kinds.get(&self.nodes[at].written.kind);
                let gathers = kind.is_some_and(|k| k.gathers);
                let forks = matches!(self.nodes[at].written.kind.as_str(), "tee" | "share");
                if !branches.is_empty() && !gathers && !forks && kind.is_some() {
                    let what = format!(
                        "`{}` has no branches: `tee` and `share` lead away, `mix` and `merge` together",
                        self.nodes[at].label
                    );
                    return Err(Complaint::new(self.text, self.nodes[at].written.whole, what));
                }
                for branch in branches {
                    if gathers {
                        let end = self.connect(branch, None)?;
                        self.link(end, at);
                    } else {
                        self.connect(branch, Some(at))?;
                    }
                }
            }
            last = Some(at);
        }
        Ok(last.expect("a line has a stage"))
    }

    fn unknown(&mut self, name: &str, span: Span) -> usize {
        let written = Written {
            name: None,
            kind: name.to_owned(),
            span,
            whole: span,
            arguments: Vec::new(),
            branches: Vec::new(),
            process: None,
        };
        self.nodes.push(Node::new(name.to_owned(), written));
        self.nodes.len() - 1
    }
}

/// Puts a `tee` behind what several read and is none.
fn fork(nodes: &mut Vec<Node>) {
    for at in 0..nodes.len() {
        if nodes[at].outputs.len() < 2 || matches!(nodes[at].written.kind.as_str(), "tee" | "share") {
            continue;
        }
        let tee = nodes.len();
        let outputs = std::mem::replace(&mut nodes[at].outputs, vec![tee]);
        for to in &outputs {
            nodes[*to].inputs.iter_mut().filter(|i| **i == at).for_each(|i| *i = tee);
        }
        let mut written = nodes[at].written.clone();
        (written.kind, written.name) = ("tee".into(), None);
        written.arguments.clear();
        let process = nodes[at].process.clone();
        nodes.push(Node { process, inputs: vec![at], outputs, ..Node::new("tee".into(), written) });
    }
}

/// A stage that nobody knows, where that is an error only when data comes.
fn undefined(node: &Node, takes: &[Type]) -> Plan {
    struct Undefined(String);
    impl Stage for Undefined {
        fn put(&mut self, _: Block, _: &mut dyn Out) -> Result<(), Fault> {
            Err(Fault(format!("there is no stage `{}`, and data has reached it", self.0)))
        }
    }
    let name = node.written.kind.clone();
    let make = move || Ok(Body::Stage(Box::new(Undefined(name))));
    match takes.first() {
        Some(first) => Plan::filter(first.clone(), make),
        None => Plan::sink(make),
    }
}
