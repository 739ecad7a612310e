//! Kinds of nodes: each word of the text that names a stage has a [`Kind`].
//!
//! A [`Kind`] plans a node from the values behind its word and from the types of its inputs. The plan says the type of
//! the node's output, whether its ends are active or passive, and how its body is made. Planning opens the files that
//! the node reads (a sound file states its rate) and writes nothing; making the body does the rest.

use crate::contest::Spent;
use crate::stage::{Body, Fault};
use crate::telling::References;
use crate::text::{Argument, Value, Written};
use crate::touched::Touched;
use crate::types::{Element, Type};
use chappe_synth::{Bound, Span};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Whether an end calls or is called (synthesis, 4.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It runs on a thread of its own, and calls the other side.
    Active,
    /// It waits to be called.
    Passive,
    /// It runs on a thread of its own that looks again and again.
    Polled,
    /// It runs on the thread that calls it, and calls the next stage: a filter.
    Follows,
}

/// What the linker makes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A source, a stage or a gatherer.
    Plain,
    /// A queue, of so many blocks.
    Queue {
        /// How many blocks it has room for.
        slots: usize,
        /// What becomes of a block that finds it full.
        full: WhenFull,
    },
    /// A thread that takes from before and hands on.
    Pump,
    /// Every block goes to each reader.
    Tee,
    /// Every block goes to one reader: in turn, or to a reader that has room.
    Share,
    /// Blocks of all inputs, as they come.
    Merge,
}

/// What a full queue does with one more block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// The caller waits: figure 4.2.
    #[default]
    Wait,
    /// The new block is dropped and counted.
    DropNew,
    /// The oldest block is dropped and counted.
    DropOld,
}

/// What is wrong with a stage, and where in its text.
#[derive(Clone, PartialEq, Debug)]
pub struct Wrong {
    /// The part of the text, if it is not the stage's word.
    pub span: Option<Span>,
    /// What, and what to do.
    pub what: String,
}

impl Wrong {
    /// About the stage's word.
    pub fn new(what: impl Into<String>) -> Wrong {
        Wrong { span: None, what: what.into() }
    }

    /// About one value.
    pub fn at(span: Span, what: impl Into<String>) -> Wrong {
        Wrong { span: Some(span), what: what.into() }
    }
}

/// What becomes of a stage in another process (`@name`) when that process was killed, and is begun anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anew {
    /// It begins with nothing: what it remembered is lost. Filters, and sinks that keep nothing.
    Fresh,
    /// It gives the same blocks again from its begin, of which those that were done are skipped. Files and generators.
    Replay,
    /// It goes on with what comes from then on. The block that it had in work is lost, and counted as dropped: sources that read what comes once,
    /// as devices give it.
    Live,
    /// It cannot go on in the middle of what it wrote: its process is not begun anew.
    Never,
    /// It stands for something that only the process that runs the graph has: its standard input.
    Here,
}

impl Anew {
    /// Whether it makes its part one that cannot be begun anew.
    pub(crate) fn stays_dead(self) -> bool {
        self == Anew::Never
    }
}

/// What a stage has to do with the jobs of its graph.
#[derive(Clone, Debug)]
pub enum Job {
    /// It is one, of this name; its threads tell here what they use of a processor.
    Is(String, Spent),
    /// It waits for the end of the one of that name.
    Waits(String),
}

/// What makes a body.
pub type Make = Box<dyn FnOnce() -> Result<Body, Fault> + Send>;

/// A node that can be made.
pub struct Plan {
    /// What comes out of it; nothing from a sink.
    pub gives: Option<Type>,
    /// Its input's end.
    pub input: End,
    /// Its output's end.
    pub output: End,
    /// What the linker makes of it.
    pub role: Role,
    /// What becomes of it when its process was killed.
    pub anew: Anew,
    /// What it asks of each record, if that is all that it does: such stages become one loop where they call each other.
    pub query: Option<Bound>,
    /// Under which name its time is told to clocks of its graph.
    pub offers: Option<String>,
    /// The file that it hands on from its begin, as it is: a stage behind it may look at what comes.
    pub reads: Option<String>,
    /// The name of the stage whose time it keeps, and where it stands in the text.
    pub follows: Option<(String, Span)>,
    /// It is a job of the graph, or waits for the end of one.
    pub job: Option<Job>,
    /// Makes its body.
    pub make: Make,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { gives, input, output, role, .. } = self;
        write!(f, "Plan {{ gives: {gives:?}, {input:?} -> {output:?}, {role:?} }}")
    }
}

impl Plan {
    /// Something that answers `get`.
    pub fn source(gives: Type, make: impl FnOnce() -> Result<Body, Fault> + Send + 'static) -> Plan {
        Plan {
            gives: Some(gives),
            input: End::Passive,
            output: End::Passive,
            role: Role::Plain,
            anew: Anew::Replay,
            query: None,
            offers: None,
            reads: None,
            follows: None,
            job: None,
            make: Box::new(make),
        }
    }

    /// Something that blocks go through.
    pub fn filter(gives: Type, make: impl FnOnce() -> Result<Body, Fault> + Send + 'static) -> Plan {
        let gives = Some(gives);
        Plan {
            gives,
            input: End::Follows,
            output: End::Follows,
            role: Role::Plain,
            anew: Anew::Fresh,
            query: None,
            offers: None,
            reads: None,
            follows: None,
            job: None,
            make: Box::new(make),
        }
    }

    /// Something that blocks go into.
    pub fn sink(make: impl FnOnce() -> Result<Body, Fault> + Send + 'static) -> Plan {
        Plan {
            gives: None,
            input: End::Passive,
            output: End::Passive,
            role: Role::Plain,
            anew: Anew::Never,
            query: None,
            offers: None,
            reads: None,
            follows: None,
            job: None,
            make: Box::new(make),
        }
    }

    /// Something of the linker's own.
    pub fn link(gives: Type, input: End, output: End, role: Role) -> Plan {
        Plan { input, output, role, ..Plan::filter(gives, || Ok(Body::Link)) }
    }

    /// With other ends.
    #[must_use]
    pub fn ends(self, input: End, output: End) -> Plan {
        Plan { input, output, ..self }
    }

    /// As a query over each record, and nothing else.
    #[must_use]
    pub fn asks(self, query: Bound) -> Plan {
        Plan { query: Some(query), ..self }
    }

    /// As one that hands on a file from its begin, as it is.
    #[must_use]
    pub fn reads(self, path: &str) -> Plan {
        Plan { reads: Some(path.to_owned()), ..self }
    }

    /// With something else that becomes of it when its process was killed.
    #[must_use]
    pub fn anew(self, anew: Anew) -> Plan {
        Plan { anew, ..self }
    }
}

/// A stage as it is written, with the types of what comes in: what a kind plans from.
#[derive(Debug)]
pub struct Call<'a> {
    written: &'a Written,
    /// The types of the inputs, in order.
    pub inputs: &'a [Type],
    /// Whether something reads its output.
    pub is_read: bool,
    references: Arc<References>,
    reads: Option<String>,
    touches: RefCell<Option<Touched>>,
    used: RefCell<Vec<usize>>,
}

impl<'a> Call<'a> {
    /// For a stage of a text.
    pub fn new(written: &'a Written, inputs: &'a [Type], is_read: bool) -> Call<'a> {
        let (references, touches, used) = (Arc::default(), RefCell::default(), RefCell::default());
        Call { written, inputs, is_read, references, reads: None, touches, used }
    }

    /// In a graph that has these references.
    pub(crate) fn within(self, references: &Arc<References>) -> Call<'a> {
        Call { references: Arc::clone(references), ..self }
    }

    /// Behind a stage that hands on this file from its begin.
    pub(crate) fn behind(self, reads: Option<String>) -> Call<'a> {
        Call { reads, ..self }
    }

    /// The begin of what comes in, so many bytes at most, and whether that is all of it. None: it is no file that is read from its begin.
    pub fn begin(&self, most: u64) -> Option<(Vec<u8>, bool)> {
        let file = File::open(self.reads.as_ref()?).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut begin = Vec::new();
        file.take(most).read_to_end(&mut begin).ok()?;
        let all = (begin.len() as u64) < most;
        Some((begin, all))
    }

    /// Where the clocks of its graph meet their references.
    pub(crate) fn references(&self) -> Arc<References> {
        Arc::clone(&self.references)
    }

    /// The stage.
    pub fn written(&self) -> &'a Written {
        self.written
    }

    fn find(&self, position: usize, key: &str) -> Option<&'a Argument> {
        let arguments = &self.written.arguments;
        let keyed = arguments.iter().position(|a| a.key.as_deref() == Some(key));
        let at =
            keyed.or_else(|| arguments.iter().enumerate().filter(|(_, a)| a.key.is_none()).nth(position)?.0.into());
        self.used.borrow_mut().extend(at);
        at.map(|at| &arguments[at])
    }

    /// The number that stands in this place, or behind `key=`.
    ///
    /// # Errors
    /// It is no number, or outside the range.
    pub fn number(&self, position: usize, key: &str, range: (f64, f64)) -> Result<Option<f64>, Wrong> {
        let Some(argument) = self.find(position, key) else { return Ok(None) };
        let (least, most) = range;
        match argument.value {
            Value::Number(n) if n >= least && n <= most => Ok(Some(n)),
            Value::Number(n) => {
                let what = format!("`{key}` of `{}` is {n}, and must be from {least} to {most}", self.written.kind);
                Err(Wrong::at(argument.span, what))
            }
            _ => Err(Wrong::at(argument.span, format!("`{key}` of `{}` is a number", self.written.kind))),
        }
    }

    /// The same, with what it is if it is not there.
    ///
    /// # Errors
    /// As [`Call::number`].
    pub fn number_or(&self, position: usize, key: &str, range: (f64, f64), or: f64) -> Result<f64, Wrong> {
        Ok(self.number(position, key, range)?.unwrap_or(or))
    }

    /// The same, where it must be there.
    ///
    /// # Errors
    /// As [`Call::number`], or it is not there.
    pub fn needs_number(&self, position: usize, key: &str, range: (f64, f64)) -> Result<f64, Wrong> {
        let missing = || Wrong::new(format!("`{}` needs a number: {key}", self.written.kind));
        self.number(position, key, range)?.ok_or_else(missing)
    }

    /// The text or word that stands in this place, or behind `key=`.
    ///
    /// # Errors
    /// It is a number.
    pub fn text(&self, position: usize, key: &str) -> Result<Option<(&'a str, Span)>, Wrong> {
        let Some(argument) = self.find(position, key) else { return Ok(None) };
        match &argument.value {
            Value::Text(text) | Value::Word(text) => Ok(Some((text, argument.span))),
            Value::Number(_) => {
                let what = format!("`{key}` of `{}` is a text: put it in quotation marks", self.written.kind);
                Err(Wrong::at(argument.span, what))
            }
        }
    }

    /// The same, where it must be there.
    ///
    /// # Errors
    /// As [`Call::text`], or it is not there.
    pub fn needs_text(&self, position: usize, key: &str) -> Result<(&'a str, Span), Wrong> {
        let missing = || Wrong::new(format!("`{}` needs a text: {key}", self.written.kind));
        self.text(position, key)?.ok_or_else(missing)
    }

    /// The file that stands first, or behind `file=`: the stage reads it, or writes it if something leads to it. A graph is refused that
    /// would write over a file of its own.
    ///
    /// # Errors
    /// As [`Call::needs_text`].
    pub fn file(&self) -> Result<(&'a str, Span), Wrong> {
        let (path, span) = self.needs_text(0, "file")?;
        self.touch(path, span);
        Ok((path, span))
    }

    /// The stage reads this file, or writes it if something leads to it.
    pub(crate) fn touch(&self, path: &str, span: Span) {
        *self.touches.borrow_mut() = Some(Touched::new(path, span));
    }

    /// The file that its kind has asked for.
    pub(crate) fn touched(&self) -> Option<Touched> {
        self.touches.take()
    }

    /// One of some words.
    ///
    /// # Errors
    /// It is another.
    pub fn choice(&self, position: usize, key: &str, words: &[&'static str]) -> Result<Option<&'static str>, Wrong> {
        let Some((text, span)) = self.text(position, key)? else { return Ok(None) };
        let known = words.iter().find(|w| **w == text).copied();
        let what = || format!("`{key}` of `{}` is one of {}, not `{text}`", self.written.kind, words.join(", "));
        known.map(Some).ok_or_else(|| Wrong::at(span, what()))
    }

    /// The type of the only input.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn input(&self) -> Result<&'a Type, Wrong> {
        match self.inputs {
            [one] => Ok(one),
            [] => Err(Wrong::new(format!("`{}` needs something before it", self.written.kind))),
            more => Err(Wrong::new(format!(
                "`{}` takes one input and has {}: put `mix` or `merge` before it",
                self.written.kind,
                more.len()
            ))),
        }
    }

    /// The same of a stage that takes elements as bytes: records with texts of any length beside them are none.
    ///
    /// # Errors
    /// As [`Call::input`], or it is such records.
    pub fn plain(&self) -> Result<&'a Type, Wrong> {
        let input = self.input()?;
        if input.names_texts() {
            let help = "say how long texts may be, as in `sym: str[8]`, or make text of them: `csv`, `json`, `lines \"PATTERN\"`";
            return Err(self.mismatch(input, "elements of a fixed size", help));
        }
        Ok(input)
    }

    /// That nothing comes in.
    ///
    /// # Errors
    /// Something does.
    pub fn no_input(&self) -> Result<(), Wrong> {
        match self.inputs {
            [] => Ok(()),
            [first, ..] => Err(Wrong::new(format!(
                "`{}` is a source, which takes no input, and {first} leads into it: a source begins a line of its own",
                self.written.kind
            ))),
        }
    }

    /// The only input, which must be numbers with a rate.
    ///
    /// # Errors
    /// It is something else: the message has both types.
    pub fn sound(&self) -> Result<(&'a Type, f64), Wrong> {
        let input = self.floats()?;
        let rate = input
            .rate
            .ok_or_else(|| self.mismatch(input, "f32 at a rate", "`rate 48000` before it says how many a second"))?;
        Ok((input, rate))
    }

    /// The only input, which must be numbers.
    ///
    /// # Errors
    /// It is something else: the message has both types.
    pub fn floats(&self) -> Result<&'a Type, Wrong> {
        let input = self.input()?;
        match input.element {
            Element::F32 => Ok(input),
            Element::I16 => Err(self.mismatch(input, "f32", "put `cast f32` before it")),
            Element::Byte => {
                Err(self.mismatch(input, "f32", "`raw FILE as=f32` reads numbers, `cast f32` takes bytes for them"))
            }
            Element::Line => Err(self.mismatch(input, "f32", "`parse csv | field NAME` makes numbers of text")),
            Element::Record(_) => Err(self.mismatch(input, "f32", "`field NAME` takes one field of the records")),
            Element::Packet(_) => Err(self.mismatch(input, "f32", "`cast bytes` takes packets for bytes")),
        }
    }

    /// A complaint with both types.
    pub fn mismatch(&self, is: &Type, wanted: &str, help: &str) -> Wrong {
        Wrong::new(format!("`{}` takes {wanted}, and this is {is}: {help}", self.written.kind))
    }

    /// The first value that the kind did not ask for.
    fn unasked(&self) -> Option<&'a Argument> {
        let used = self.used.borrow();
        self.written.arguments.iter().enumerate().find(|(at, _)| !used.contains(at)).map(|(_, a)| a)
    }
}

/// Plans a node.
pub type Planner = Arc<dyn Fn(&Call<'_>) -> Result<Plan, Wrong> + Send + Sync>;

/// A kind of node.
#[derive(Clone)]
pub struct Kind {
    /// The word of the text.
    pub name: &'static str,
    /// What stands behind it, for people.
    pub usage: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether lines in parentheses lead into it; else they lead away from it.
    pub gathers: bool,
    /// How it is planned.
    pub plan: Planner,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({} {})", self.name, self.usage)
    }
}

impl Kind {
    /// A kind of one's own.
    pub fn new(
        name: &'static str,
        usage: &'static str,
        about: &'static str,
        plan: impl Fn(&Call<'_>) -> Result<Plan, Wrong> + Send + Sync + 'static,
    ) -> Kind {
        Kind { name, usage, about, gathers: false, plan: Arc::new(plan) }
    }

    /// Lines in parentheses lead into it.
    #[must_use]
    pub fn gathering(self) -> Kind {
        Kind { gathers: true, ..self }
    }
}

/// The table from words to kinds: the thesis' symbol table (4.1.3, run-link).
#[derive(Clone, Debug)]
pub struct Kinds {
    kinds: BTreeMap<&'static str, Kind>,
}

impl Kinds {
    /// Those.
    pub(crate) fn of(kinds: impl IntoIterator<Item = Kind>) -> Kinds {
        Kinds { kinds: kinds.into_iter().map(|kind| (kind.name, kind)).collect() }
    }

    /// Adds one, or replaces the one of that name.
    pub fn add(&mut self, kind: Kind) {
        self.kinds.insert(kind.name, kind);
    }

    /// Looks one up.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values()
    }

    /// The one whose name is most like this.
    pub fn like(&self, name: &str) -> Option<&'static str> {
        chappe_synth::nearest(name, self.kinds.keys().copied())
    }

    /// Plans a stage, and sees to it that all its values were asked for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn plan(&self, call: &Call<'_>) -> Result<Plan, Wrong> {
        let word = &call.written.kind;
        let Some(kind) = self.get(word) else {
            let like = self.like(word).map_or(String::new(), |k| format!(": is it `{k}`?"));
            return Err(Wrong::new(format!("there is no stage `{word}`{like}")));
        };
        let mut plan = (kind.plan)(call)?;
        if let Some(mode) = call.choice(usize::MAX, "ends", &["active", "passive", "poll"])? {
            let end = match mode {
                "active" => End::Active,
                "passive" => End::Passive,
                _ => End::Polled,
            };
            let waits = plan.follows.as_ref().filter(|_| end == End::Passive);
            if let (Some((name, _)), Some((_, span))) = (waits, call.text(usize::MAX, "ends")?) {
                // The thread that calls it may be the one that it waits for.
                let what = format!(
                    "`{word}` waits for `reference {name}`, so it needs a thread of its own: leave `ends=passive` out"
                );
                return Err(Wrong::at(span, what));
            }
            match plan.role {
                Role::Plain if call.inputs.is_empty() => plan.output = end,
                Role::Plain if plan.gives.is_none() => plan.input = end,
                _ => return Err(Wrong::new("only a source or a sink has `ends=`: whatever is between follows them")),
            }
        }
        if let Some(more) = call.unasked() {
            let what = format!("`{word}` knows nothing of this: its use is `{word} {}`", kind.usage);
            return Err(Wrong::at(more.span, what));
        }
        Ok(plan)
    }
}
