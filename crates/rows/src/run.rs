//! Answers a question: the text goes in parts to as many threads as there are processors, each reads its parts, and either adds them up or
//! writes what is asked for, which goes out in the order of the parts.
//!
//! Parts go round: the answer is the same whichever thread is faster.
//!
//! Reading and the question are two loops over a thousand records at a time, and not one of machine code for this schema: of the instructions of a filter and a sum by
//! key the question's own loop has 5 % (CSV with quotes) or 2 % (JSON), which is the most that one loop could save; finding and reading fields has 66 and 86 %, adding up
//! by key 18 and 8 %.

use crate::ask::{Ask, AskError, Asked, OnBad};
use crate::batch::{Batch, Fill, Trouble};
use crate::count::LineEnds;
use crate::format::Reader;
use crate::infer::leads_with_zero;
use crate::number;
use crate::place::Slot;
use crate::report::{Report, SHOWN};
use crate::seps::PAD;
use crate::text::{Input, Part, Text};
use crate::write::{Style, Writer, schema_text};
use chappe_plat::clock::time_of_day;
use chappe_synth::{
    Bound, Evaluator, FieldType, Live, Ordered, Records, Rows, Scalar, Schema, SummaryError, Trust, Windows, written,
};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// A part that is read.
pub(crate) struct Task {
    pub part: Part,
    pub reader: Arc<Reader>,
    pub from: usize,
}

/// What has become of it.
#[derive(Default)]
pub(crate) struct Done {
    input: usize,
    room: Vec<u8>,
    lines: u64,
    records: u64,
    bad: u64,
    /// The first bad ones, by the line within the part.
    shown: Vec<(u64, String)>,
    /// How the first one could be read.
    advice: String,
    /// Members, or columns, that are not read: the name, the line of the first one within the part, how many.
    unread: Vec<(Option<String>, u64, u64)>,
    out: Vec<u8>,
    rows: Rows,
    failed: Option<SummaryError>,
}

/// What a thread has.
pub(crate) struct Worker {
    evaluator: Evaluator,
    pub windows: Option<Windows>,
    /// Rows go out as text, unless they are ordered or shown as a table.
    writer: Option<Writer>,
    batch: Batch,
    on_bad: OnBad,
    projected: Vec<u8>,
    bound: Bound,
    guessed: Vec<String>,
}

impl Worker {
    pub fn new(ask: &Ask, asked: &Asked, style: Style, share: usize) -> Result<Worker, AskError> {
        let query = asked.bound.query();
        let windows = Windows::new(query).map(|w| w.limit(ask.memory / share));
        let kept = windows.is_some() || style == Style::Table || Ordered::new(query).is_some();
        let rows = query.rows().unwrap_or(query.schema());
        Ok(Worker {
            evaluator: Live::of(asked.bound.clone(), Trust::Own)?.evaluator(),
            windows,
            writer: (!kept).then(|| Writer::new(style, rows)),
            batch: Batch::new(asked.schema.size() as usize),
            on_bad: ask.on_bad,
            projected: Vec::new(),
            bound: asked.bound.clone(),
            guessed: asked.guessed.clone(),
        })
    }

    /// How long it is until a window ends by the clock, if one is open.
    pub fn ends_in(&self) -> Option<Duration> {
        self.windows.as_ref()?.ends_in(time_of_day()).map(Duration::from_nanos)
    }

    /// Nothing has come: windows by the clock may have ended.
    pub fn time_goes_by(&mut self) -> Done {
        let mut done = Done::default();
        if let Some(windows) = &mut self.windows {
            let size = self.bound.program().record as usize;
            let results = self.bound.query().rows().unwrap_or(self.bound.query().schema());
            let ended = |rows: &Rows| done.rows.extend(results, rows);
            let added = windows.add(&mut self.evaluator, Records::new(&[], size, size), time_of_day, ended);
            done.failed = added.err();
        }
        done
    }

    pub fn work(&mut self, task: Task) -> Done {
        let Task { part, reader, from } = task;
        let Part { input, mut text, len, number, .. } = part;
        let mut reader = (*reader).clone();
        let slots = reader.slots().to_vec();
        let mut done = Done { input, ..Done::default() };
        let mut place = from;
        if let Some(windows) = &mut self.windows {
            windows.begin_at(number << 32);
        }
        let size = self.bound.program().record as usize;
        // Lines are counted where one must be named, and only on from there.
        let mut line_ends = LineEnds::new(&reader, &text[..len]);
        while place < len && done.failed.is_none() {
            self.batch.clear();
            let (bad, shown, advice) = (&mut done.bad, &mut done.shown, &mut done.advice);
            let mut wrong = |text: &[u8], at: usize, what: &Trouble| {
                *bad += 1;
                if let (0, Trouble::Field(slot, from, to)) = (shown.len(), what)
                    && self.guessed.contains(&slots[*slot].name)
                {
                    *advice = otherwise(&slots[*slot], &text[*from..*to]);
                }
                if shown.len() < SHOWN {
                    shown.push((line_ends.before(text, at) + 1, what.told(text, &slots)));
                }
            };
            let keep = self.on_bad == OnBad::Keep;
            let mut job = Fill { text: &mut text, len, from: place, batch: &mut self.batch, keep, bad: &mut wrong };
            reader.fill(&mut job);
            place = job.from;
            done.records += self.batch.places.len() as u64;
            if self.on_bad == OnBad::Stop && done.bad > 0 {
                break;
            }
            if self.batch.places.is_empty() {
                continue;
            }
            let records = Records::new(&self.batch.records, size, size).with_texts(&text);
            if let Some(windows) = &mut self.windows {
                let results = self.bound.query().rows().unwrap_or(self.bound.query().schema());
                let ended = |rows: &Rows| done.rows.extend(results, rows);
                done.failed = windows.add(&mut self.evaluator, records, time_of_day, ended).err();
                continue;
            }
            self.projected.clear();
            self.evaluator.project(records, &mut self.projected);
            match &self.writer {
                // The names come first, once for all threads.
                Some(writer) => {
                    let rows = self.projected.chunks_exact(self.bound.program().row.max(1) as usize);
                    rows.for_each(|row| writer.row(row, &text, &mut done.out));
                }
                None => {
                    let query = self.bound.query();
                    let schema = query.rows().unwrap_or(query.schema());
                    for row in self.projected.chunks_exact(schema.size() as usize) {
                        done.rows.push(schema, row, &text);
                    }
                }
            }
        }
        for unread in reader.unread() {
            done.unread.push((unread.name, line_ends.before(&text, unread.place) + 1, unread.count));
        }
        done.lines = line_ends.before(&text, len);
        done.room = text;
        done
    }
}

/// Where what threads have done comes together, in the order of the parts.
pub(crate) struct Sink<'a> {
    on_bad: OnBad,
    memory: usize,
    pub names: Vec<String>,
    out: &'a mut dyn Write,
    /// Lines of each input before the next part.
    lines: Vec<u64>,
    report: Report,
    ordered: Option<Ordered>,
    style: Style,
    writer: Writer,
    results: Schema,
    text: Vec<u8>,
}

impl<'a> Sink<'a> {
    pub fn new(ask: &Ask, asked: &Asked, names: Vec<String>, style: Style, out: &'a mut dyn Write) -> Sink<'a> {
        let query = asked.bound.query();
        let results = query.rows().unwrap_or(query.schema()).clone();
        Sink {
            on_bad: ask.on_bad,
            memory: ask.memory,
            names,
            out,
            lines: Vec::new(),
            report: Report {
                odd_name: asked.odd_name.clone(),
                of_columns: ask.format.is_values(),
                ..Report::default()
            },
            ordered: if query.sums_up() { None } else { Ordered::new(query) },
            style,
            writer: Writer::new(style, &results),
            results,
            text: Vec::new(),
        }
    }

    /// How many lines of an input have been.
    pub fn lines_of(&self, input: usize) -> u64 {
        self.lines.get(input).copied().unwrap_or(0)
    }

    /// An input begins anew.
    pub fn no_lines(&mut self, input: usize) {
        self.lines.iter_mut().skip(input).take(1).for_each(|lines| *lines = 0);
    }

    /// Takes the next part's. Whether more is wanted; and its room.
    pub fn take(&mut self, done: Done) -> Result<(bool, Vec<u8>), AskError> {
        let before = self.lines_of(done.input);
        let file = &self.names[done.input];
        self.report.records += done.records;
        self.report.bad += done.bad;
        if let (OnBad::Stop, Some((line, what))) = (self.on_bad, done.shown.first()) {
            return Err(AskError::Bad { file: file.clone(), line: before + line, what: what.clone() + &done.advice });
        }
        for (line, what) in done.shown {
            if !self.report.is_full() {
                self.report.shown.push(format!("{file}:{}: {what}", before + line));
            }
        }
        for (name, line, count) in done.unread {
            self.report.unread(name, || format!("{file}:{}", before + line), count);
        }
        if let Some(e) = done.failed {
            return Err(failed(self.memory, e));
        }
        self.lines.resize(self.lines.len().max(done.input + 1), 0);
        self.lines[done.input] += done.lines;
        if let Some(ordered) = &mut self.ordered {
            ordered.add(&done.rows.bytes, &done.rows.texts);
            if ordered.size() > self.memory {
                let what = format!("the rows that are kept to be ordered need more than {} bytes", self.memory);
                return Err(AskError::Memory(what));
            }
            return Ok((!ordered.is_full(), done.room));
        }
        self.text.clear();
        let mut text = std::mem::take(&mut self.text);
        if !done.rows.bytes.is_empty() {
            self.writer.rows(&done.rows.bytes, &done.rows.texts, &mut text);
        } else if !done.out.is_empty() {
            self.writer.head(None, &mut text);
        }
        self.put(&text)?;
        self.put(&done.out)?;
        self.text = text;
        Ok((true, done.room))
    }

    /// Tells whether no more was to be read.
    fn stopped(&mut self, text: &Text) {
        if let Some(half) = text.stopped {
            self.report.stopped = true;
            self.report.halves.extend(half.map(|input| self.names[input].clone()));
        }
    }

    fn put(&mut self, text: &[u8]) -> Result<(), AskError> {
        if text.is_empty() {
            return Ok(());
        }
        self.out.write_all(text).and_then(|()| self.out.flush()).map_err(AskError::Write)
    }

    pub fn finish(mut self, windows: Option<Windows>) -> Result<Report, AskError> {
        let mut rows = self.ordered.take().map(Ordered::finish).unwrap_or_default();
        if let Some(mut windows) = windows {
            windows.finish(|ended| rows.extend(&self.results, ended)).map_err(|e| failed(self.memory, e))?;
            self.report.late = windows.late();
        }
        /// So many rows are written at once. A table needs all of them for its widths.
        const ROWS: usize = 4096;
        let at_once = if self.style == Style::Table { usize::MAX } else { ROWS * self.results.size() as usize };
        let mut text = Vec::new();
        for part in rows.bytes.chunks(at_once.max(1)) {
            text.clear();
            self.writer.rows(part, &rows.texts, &mut text);
            self.put(&text)?;
        }
        // Names are there even if nothing else is.
        if rows.bytes.is_empty() {
            self.writer.head(None, &mut text);
            self.put(&text)?;
        }
        Ok(self.report)
    }
}

/// How a value can be read that is not what its column was guessed to be.
fn otherwise(slot: &Slot, value: &[u8]) -> String {
    if slot.doubtful && slot.kind == FieldType::Str {
        return String::new();
    }
    // A number of digits alone that is no i64 would lose some as a double.
    let is_whole = value.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'));
    let is_double = !leads_with_zero(value) && !is_whole && number::double(value).is_some();
    let kind = if slot.kind == FieldType::Maybe(Scalar::I64) && is_double { "f64" } else { "str" };
    format!(", which the first lines are: --schema '{}: {kind}' takes it", written(&slot.name))
}

fn failed(memory: usize, e: SummaryError) -> AskError {
    match e {
        // A thread has a share of it.
        SummaryError::Memory { .. } => AskError::Memory(format!(
            "the groups and their values need more than the {} bytes that they may have",
            memory
        )),
        e => AskError::Overflow(e.to_string()),
    }
}

/// Answers a question about inputs, one behind the other. `progress` is called with how many bytes each part had. For an answer in [`Style::Table`] rows that
/// are not added up are written part by part.
///
/// Memory: groups, rows that are ordered and the values of quantiles have [`Ask::memory`]; beside that each thread has some MiB, and a record
/// has at most [`MAX_RECORD_TEXT`](crate::MAX_RECORD_TEXT).
///
/// # Errors
/// What makes no sense, cannot be read or written, or has no room. That no more is to be read is none ([`Stopped`](crate::Stopped)).
pub fn run(
    ask: &Ask,
    inputs: Vec<Input>,
    style: Style,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(usize),
) -> Result<Report, AskError> {
    let names: Vec<String> = inputs.iter().map(|i| i.name.clone()).collect();
    let mut text = Text::new(&ask.format, inputs);
    let begun = begin(ask, &mut text, &names);
    if let (Err(AskError::Nothing(_)), Some(_)) = (&begun, text.stopped) {
        return Ok(Report { stopped: true, ..Report::default() });
    }
    let mut part = begun?;
    let mut further = text.begins_behind(part.input);
    let (asked, reader, from) = Asked::new(ask, &names[part.input], &mut part, &mut further)?;
    drop(further);
    let query = asked.bound.query();
    let mut sink = Sink::new(ask, &asked, names, style, out);
    let mut source = Source { ask, asked: &asked, reader: Arc::new(reader), text };
    // What comes slowly, or is small, is one thread's; so are windows, which end in the order of the records.
    let alone = source.text.is_over() || part.short || query.window().is_some();
    let first = Task { part, reader: Arc::clone(&source.reader), from };
    let threads = if alone { 1 } else { ask.threads.max(1) };
    let mut workers = Vec::new();
    for _ in 0..threads {
        workers.push(Worker::new(ask, &asked, style, threads)?);
    }
    if threads == 1 {
        let mut worker = workers.remove(0);
        let mut next = Some(first);
        while let Some(task) = next {
            progress(task.part.len);
            let (more, room) = sink.take(worker.work(task))?;
            source.text.give_back(room);
            next = if more { source.next()? } else { None };
        }
        sink.stopped(&source.text);
        return sink.finish(worker.windows);
    }
    let windows = std::thread::scope(|scope| -> Result<Option<Windows>, AskError> {
        let crew: Vec<Hand<'_>> = workers
            .into_iter()
            .map(|mut worker| {
                let (tasks, come) = sync_channel::<Task>(2);
                let (give, done) = sync_channel(3);
                let thread = scope.spawn(move || {
                    for task in come {
                        if give.send(worker.work(task)).is_err() {
                            break;
                        }
                    }
                    worker.windows
                });
                Hand { tasks, done, thread }
            })
            .collect();
        round(&crew, first, &mut source, &mut sink, progress)?;
        sink.stopped(&source.text);
        let mut all: Option<Windows> = None;
        for Hand { tasks, done, thread } in crew {
            drop((tasks, done));
            let windows = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (&mut all, windows) {
                (Some(all), Some(more)) => all.merge(&more).map_err(|e| failed(ask.memory, e))?,
                (all, more) => *all = more,
            }
        }
        Ok(all.map(|w| w.limit(ask.memory)))
    })?;
    sink.finish(windows)
}

/// The first part. Of texts that have no line of names nothing is as good as something.
fn begin(ask: &Ask, text: &mut Text, names: &[String]) -> Result<Part, AskError> {
    match text.next()? {
        None if ask.format.is_values() => Err(AskError::Nothing(names.join(", "))),
        part => Ok(part.unwrap_or_else(|| Part { text: vec![0; PAD], first: true, ..Part::default() })),
    }
}

/// What the columns that a question names are: as [`Ask::schema`] takes it.
///
/// # Errors
/// As [`run`], as far as the begin of the first text shows it.
pub fn columns(ask: &Ask, inputs: Vec<Input>) -> Result<String, AskError> {
    let names: Vec<String> = inputs.iter().map(|i| i.name.clone()).collect();
    let mut text = Text::new(&ask.format, inputs);
    let mut part = begin(ask, &mut text, &names)?;
    let mut further = text.begins_behind(part.input);
    let (asked, ..) = Asked::new(ask, &names[part.input], &mut part, &mut further)?;
    Ok(schema_text(&asked.schema, &asked.times))
}

/// A thread: where its tasks go, and where what it has done comes from.
struct Hand<'s> {
    tasks: SyncSender<Task>,
    done: Receiver<Done>,
    thread: std::thread::ScopedJoinHandle<'s, Option<Windows>>,
}

/// Parts in, what was done out, each thread in its turn.
fn round(
    crew: &[Hand<'_>],
    first: Task,
    source: &mut Source<'_>,
    sink: &mut Sink<'_>,
    progress: &mut dyn FnMut(usize),
) -> Result<(), AskError> {
    let mut under_way: VecDeque<usize> = VecDeque::new();
    let (mut next, mut turn) = (Some(first), 0);
    let mut take = |hand: usize, source: &mut Source<'_>| -> Result<bool, AskError> {
        // A thread that panicked has said so: joining it goes on with that.
        let Ok(done) = crew[hand].done.recv() else { return Ok(false) };
        let (more, room) = sink.take(done)?;
        source.text.give_back(room);
        Ok(more)
    };
    while let Some(task) = next {
        progress(task.part.len);
        let short = task.part.short;
        if crew[turn].tasks.send(task).is_err() {
            return Ok(());
        }
        under_way.push_back(turn);
        turn = (turn + 1) % crew.len();
        // What a slow writer has written is answered before it is waited for.
        while under_way.len() > if short { 0 } else { 2 * crew.len() - 1 } {
            let Some(hand) = under_way.pop_front() else { break };
            if !take(hand, source)? {
                return Ok(());
            }
        }
        next = source.next()?;
    }
    for hand in under_way {
        if !take(hand, source)? {
            break;
        }
    }
    Ok(())
}

/// Where tasks come from.
struct Source<'a> {
    ask: &'a Ask,
    asked: &'a Asked,
    reader: Arc<Reader>,
    text: Text,
}

impl Source<'_> {
    fn next(&mut self) -> Result<Option<Task>, AskError> {
        let Some(mut part) = self.text.next()? else { return Ok(None) };
        let mut from = 0;
        if part.first {
            let name = self.text.name(part.input).to_owned();
            let (reader, begin) = self.asked.reader_of(self.ask, &name, &mut part)?;
            (self.reader, from) = (Arc::new(reader), begin);
        }
        Ok(Some(Task { part, reader: Arc::clone(&self.reader), from }))
    }
}
