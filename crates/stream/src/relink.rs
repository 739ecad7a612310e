//! Re-linking while data flows: a new text replaces the stages of a running graph whose words or values have changed
//! (synthesis, 4.2.3).
//!
//! The new text must have the same nodes with the same links. A node may have another stage, or other values, if its
//! input and output types stay the same. All changed stages are planned and made first. Only if none of them has a
//! mistake do they replace the old ones, each between two blocks (`seat`). So a text with a mistake changes nothing. A
//! `reference` keeps its place and its name, as the clocks that are locked to it do (`locks`).

use crate::fused;
use crate::graph::{Graph, Options};
use crate::locks;
use crate::report::RunError;
use crate::run::Running;
use crate::stage::{Body, Stage};
use chappe_synth::{Complaint, Span};
use std::sync::PoisonError;

/// A stage that took another one's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// What people call it.
    pub label: String,
    /// As it was written.
    pub old: String,
    /// As it is written now.
    pub new: String,
}

/// A stage as it stands in a text, without what leads away from it.
fn written(graph: &Graph, at: usize) -> &str {
    let whole = graph.nodes()[at].written.whole;
    let text = graph.text().get(whole.start as usize..whole.end as usize).unwrap_or_default();
    let text = text.split('(').next().unwrap_or_default();
    let text = text.split('@').next().unwrap_or_default();
    text.split_once(':').filter(|(name, _)| !name.contains(['"', ' '])).map_or(text, |(_, rest)| rest).trim()
}

impl Running {
    /// Puts another stage into the place of the one of that label, between two blocks: it must take and give the same types.
    ///
    /// # Errors
    /// There is no such node, or the stage does not fit.
    pub fn replace(&self, label: &str, text: &str) -> Result<(), RunError> {
        let at = self.seats.iter().position(|s| s.label == label);
        let elsewhere = self.parts.as_ref().and_then(|p| p.find(label));
        if let (None, Some(part)) = (at, elsewhere) {
            let why = format!("`{label}` runs in @{part}: a stage is replaced in the process that runs the graph");
            return Err(Complaint::new(label, chappe_synth::Span::default(), why).into());
        }
        let Some(at) = at else {
            return Err(Complaint::new(label, chappe_synth::Span::default(), "there is no stage of this name").into());
        };
        let plan = self.graph().plan_for(at, text)?;
        match (plan.make)() {
            Ok(Body::Stage(stage)) => {
                self.seat_at(at, stage, text.trim());
                Ok(())
            }
            Ok(_) => {
                Err(self.graph().complain(at, "only a stage that blocks go through, or a sink, can be replaced").into())
            }
            Err(e) => Err(Complaint::new(text, chappe_synth::Span::default(), e.to_string()).into()),
        }
    }

    /// Leaves a stage at a node's seat, and remembers its text.
    pub(crate) fn seat_at(&self, at: usize, stage: Box<dyn Stage>, text: &str) {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).insert(at, text.to_owned());
        let stage = match self.members.get(&at) {
            Some(of) => fused::instead(stage, of),
            None => stage,
        };
        self.seats[at].replace(stage);
    }

    /// The text of a stage that was replaced.
    pub(crate) fn now_at(&self, at: usize) -> Option<String> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned()
    }

    /// Changes a graph that runs into what a new text says, between two blocks. Answers what was replaced; nothing if the text says the same.
    ///
    /// ```
    /// use chappe_stream::Graph;
    /// let running = Graph::new("sine 440 seconds=0.5 | pace 48k | loud: gain 1 | null")?.run()?;
    /// let replaced = running.relink("sine 440 seconds=0.5 | pace 48k | loud: gain 0.5 | null")?;
    /// assert_eq!((replaced.len(), replaced[0].new.as_str()), (1, "gain 0.5"));
    /// assert!(running.relink("sine 440 | null").unwrap_err().to_string().contains("has 2 stages, and the graph that runs has 4"));
    /// running.stop();
    /// running.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong with the text; stages that came, went or are linked otherwise; a stage that does not fit, or runs in another process. Nothing was
    /// changed then.
    pub fn relink(&self, text: &str) -> Result<Vec<Replaced>, RunError> {
        let now = self.graph();
        let options = Options { lazy: now.lazy, kinds: now.kinds.clone(), in_turn: now.in_turn };
        let mut new = Graph::with(text, options)?;
        let wrong = |at: usize, what: String| Complaint::new(text, new_span(&new, at), what);
        if now.nodes().iter().any(|n| n.written.kind == "tube") || new.nodes().iter().any(|n| n.process.is_some()) {
            let what = "a graph with parts in other processes is not changed while it runs".to_owned();
            return Err(wrong(0, what).into());
        }
        if new.nodes().len() != now.nodes().len() {
            let (has, had) = (new.nodes().len(), now.nodes().len());
            let what = format!(
                "this text has {has} stages, and the graph that runs has {had}: stages are replaced while it runs, none come or go"
            );
            return Err(wrong(0, what).into());
        }
        let mut changed = Vec::new();
        for (at, (a, b)) in now.nodes().iter().zip(new.nodes()).enumerate() {
            if (&a.inputs, &a.outputs) != (&b.inputs, &b.outputs) {
                let what = format!("`{}` is linked otherwise than in the graph that runs", b.label);
                return Err(wrong(at, what).into());
            }
            let before = |x: &crate::text::Written, y: &crate::text::Written| {
                (&x.kind, x.arguments.len()) == (&y.kind, y.arguments.len())
                    && x.arguments.iter().zip(&y.arguments).all(|(x, y)| (&x.key, &x.value) == (&y.key, &y.value))
            };
            let same = match self.now_at(at) {
                Some(text) => text == written(&new, at),
                None => before(&a.written, &b.written),
            };
            if same {
                continue;
            }
            let follows = b.follows.as_ref().map(|(name, _)| name.as_str());
            if let Some(what) = locks::keeps_its_place(a, b.offers.as_deref(), follows) {
                return Err(wrong(at, what).into());
            }
            if (&a.takes, &a.gives) != (&b.takes, &b.gives) {
                let shown = |t: &Option<crate::Type>| t.as_ref().map_or("nothing".to_owned(), ToString::to_string);
                let what = format!(
                    "`{}` gives {}, and what is behind `{}` was linked for {}",
                    b.label,
                    shown(&b.gives),
                    a.label,
                    shown(&a.gives)
                );
                return Err(wrong(at, what).into());
            }
            if (a.ends, a.role) != (b.ends, b.role) {
                let what = format!("`{}` has other ends than `{}`", b.label, a.label);
                return Err(wrong(at, what).into());
            }
            changed.push(at);
        }
        let mut made = Vec::new();
        for at in changed {
            let make = new.nodes[at].make.take();
            let label = new.nodes()[at].label.clone();
            match make.map(|make| make()) {
                Some(Ok(Body::Stage(stage))) => made.push((at, stage)),
                Some(Err(e)) => return Err(Complaint::new(text, new_span(&new, at), format!("`{label}`: {e}")).into()),
                _ => {
                    let what = format!("`{label}`: only a stage that blocks go through, or a sink, can be replaced");
                    return Err(Complaint::new(text, new_span(&new, at), what).into());
                }
            }
        }
        let mut replaced = Vec::new();
        for (at, stage) in made {
            let old = self.now_at(at).unwrap_or_else(|| written(now, at).to_owned());
            let one = Replaced { label: now.nodes()[at].label.clone(), old, new: written(&new, at).to_owned() };
            self.seat_at(at, stage, &one.new);
            replaced.push(one);
        }
        Ok(replaced)
    }
}

fn new_span(graph: &Graph, at: usize) -> Span {
    graph.nodes()[at].written.span
}
