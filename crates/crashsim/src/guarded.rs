//! What each thread came through, and a look at each of its writes: `guard.rs` explains it.

use crate::kernel::TID_MASK;
use crate::report::Fault;
use crate::story::place;
use crate::turn::{Mode, buffered, me, mode, with};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::panic::Location;

/// Neighbours of one size, each with a word that says whose it is.
#[derive(Clone, Debug)]
pub struct Row {
    /// Where the first lies.
    pub base: usize,
    /// From one to the next.
    pub stride: usize,
    /// How many.
    pub count: usize,
    /// Where the word of the first lies.
    pub word: usize,
    /// From the word of one to that of the next.
    pub words: usize,
    /// The bytes of each that are no part of a use: they say whose it is, or are written by late threads by design.
    pub apart: Vec<Range<usize>>,
}

impl Row {
    /// Which one, and which byte of it.
    #[inline]
    fn of(&self, at: usize) -> Option<(usize, usize)> {
        let from = at.checked_sub(self.base).filter(|from| *from < self.stride * self.count)?;
        Some((from / self.stride, from % self.stride))
    }

    fn is_apart(&self, byte: usize) -> bool {
        self.apart.iter().any(|bytes| bytes.contains(&byte))
    }

    fn word_of(&self, i: usize) -> u64 {
        // SAFETY: the world's memory, which lives as long as the schedule; all its threads are one of the system's.
        unsafe { ((self.word + i * self.words) as *const u64).read_volatile() }
    }

    /// Whose word that is.
    #[inline]
    fn whose(&self, word: usize) -> Option<usize> {
        let from = word.checked_sub(self.word).filter(|from| *from < self.words * self.count)?;
        from.is_multiple_of(self.words).then_some(from / self.words)
    }
}

/// What is guarded, and how its words are read.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The slots, with their heads.
    pub slots: Row,
    /// Rows of pieces, with their owner words.
    pub pieces: Vec<Row>,
    /// Rows of lines, with their locks.
    pub lines: Vec<Row>,
    /// Which use a head names: an object in service and the same one removed have one use, and a free slot has one of its own.
    pub use_of: fn(u64) -> u64,
    /// The use that a maker will make of a slot with this head, if that is free.
    pub makes: fn(u64) -> Option<u64>,
    /// Which slot, and which use of it, an owner word names.
    pub owner: fn(u64) -> Option<(usize, u64)>,
    /// A head, in words.
    pub show: fn(u64) -> String,
    /// Lines of the source that may write late, by design: the end of the file's path, and the number.
    pub exempt: &'static [(String, u32)],
}

/// What is known in a schedule. The slots of all guards are counted through.
#[derive(Default)]
struct State {
    /// The guards, and the number of the first slot of each.
    all: Vec<(Guard, usize)>,
    /// The heads when the schedule began.
    start: Vec<u64>,
    /// For each thread the heads that it came through.
    via: Vec<Vec<u64>>,
    /// For each thread, where there are store buffers: the heads that it came through before, each with its slot.
    before: Vec<Vec<(usize, u64)>>,
    /// Of the lines of the source that were late: how often, and whether with a swap that failed.
    late: BTreeMap<(String, bool), u64>,
    /// Lines of the source that are known: whether they are exempt.
    known: HashMap<usize, bool>,
}

impl State {
    /// Which slot's head a word is.
    fn headed(&self, word: usize) -> Option<usize> {
        self.all.iter().find_map(|(guard, first)| Some(first + guard.slots.whose(word)?))
    }

    fn came(&mut self, thread: usize, slot: usize, head: u64) {
        while self.via.len() <= thread {
            self.via.push(self.start.clone());
            self.before.push(Vec::new());
        }
        let was = std::mem::replace(&mut self.via[thread][slot], head);
        if buffered() {
            self.before[thread].push((slot, was));
        }
    }

    /// The head that a thread came through: now, or when it had come through so many.
    fn via(&self, thread: usize, slot: usize, since: Option<usize>) -> u64 {
        let later = since.and_then(|since| self.before.get(thread)?.get(since..)).unwrap_or_default();
        let then = later.iter().find(|(s, _)| *s == slot).map(|(_, head)| *head);
        then.or_else(|| Some(self.via.get(thread)?[slot])).unwrap_or(self.start[slot])
    }

    /// What is wrong with a write there, in words.
    fn look(&self, thread: usize, at: usize, since: Option<usize>) -> Option<String> {
        for (guard, first) in &self.all {
            let Guard { slots, pieces, use_of, makes, owner, show, .. } = guard;
            let told = |slot: usize, place: std::fmt::Arguments<'_>| {
                let (via, now) = (self.via(thread, first + slot, since), slots.word_of(slot));
                (use_of(via) != use_of(now))
                    .then(|| format!("{place} of slot {slot}: came through {}, and there is {}", show(via), show(now)))
            };
            if let Some((slot, byte)) = slots.of(at) {
                let apart = slots.whose(at).is_some() || slots.is_apart(byte);
                return if apart { None } else { told(slot, format_args!("into byte {byte}")) };
            }
            let Some((row, (i, byte))) = pieces.iter().find_map(|row| Some((row, row.of(at)?))) else { continue };
            let (slot, its) = owner(row.word_of(i)).filter(|(slot, _)| *slot < slots.count)?;
            let now = slots.word_of(slot);
            // An owner that has gone: it is nobody's.
            let is_owned = use_of(now) == its || makes(now) == Some(its);
            return if is_owned && !row.is_apart(byte) {
                told(slot, format_args!("into byte {byte} of piece {i}"))
            } else {
                None
            };
        }
        None
    }

    /// What is wrong with a write into a line. `is_own`: whether the writer's process has this number, or a thread with it.
    fn look_at_line(&self, at: usize, is_own: impl FnOnce(u32) -> bool) -> Option<String> {
        let lines = self.all.iter().flat_map(|(guard, _)| &guard.lines);
        let (row, (i, byte)) = lines.filter_map(|row| Some((row, row.of(at)?))).next()?;
        if row.is_apart(byte) {
            return None;
        }
        let holder = row.word_of(i) as u32 & TID_MASK;
        let of = if holder == 0 { "nobody".into() } else { format!("thread {holder}") };
        (!is_own(holder)).then(|| format!("into byte {byte} of line {i}, which is that of {of}"))
    }

    /// Whether a line is exempt.
    fn is_exempt(&mut self, at: &'static Location<'static>) -> bool {
        let all = &self.all;
        *self.known.entry(std::ptr::from_ref(at) as usize).or_insert_with(|| {
            let is_it = |(file, line): &(String, u32)| *line == at.line() && at.file().ends_with(file.as_str());
            all.iter().any(|(guard, _)| guard.exempt.iter().any(is_it))
        })
    }
}

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static STATE: RefCell<State> = RefCell::default();
}

/// A schedule's set-up begins.
pub(crate) fn reset() {
    ON.set(false);
    STATE.with_borrow_mut(|s| {
        s.all.clear();
        s.start.clear();
        s.via.clear();
        s.before.clear();
    });
}

/// The set-up is over.
pub(crate) fn begin() {
    STATE.with_borrow_mut(|s| {
        let heads =
            |(guard, _): &(Guard, usize)| (0..guard.slots.count).map(|i| guard.slots.word_of(i)).collect::<Vec<_>>();
        s.start = s.all.iter().flat_map(heads).collect();
        ON.set(!s.all.is_empty());
    });
}

/// What was late in the search, and how often.
pub(crate) fn take_late() -> BTreeMap<String, u64> {
    let late = STATE.with_borrow_mut(|s| std::mem::take(&mut s.late));
    let told = |failed| if failed { "swap that failed" } else { "exempt" };
    late.into_iter().map(|((at, failed), times)| (format!("{} at {at}", told(failed)), times)).collect()
}

/// Guards so, until the schedule's end. For a world's set-up, whose own writes are not looked at.
pub fn guard(guard: Guard) {
    STATE.with_borrow_mut(|s| {
        let first = s.all.last().map_or(0, |(last, first)| first + last.slots.count);
        s.all.push((guard, first));
    });
}

/// The running thread named a head, or wrote it.
#[inline]
pub(crate) fn came(word: usize, head: u64) {
    if ON.get() && mode() == Mode::Fibre {
        STATE.with_borrow_mut(|s| {
            if let Some(slot) = s.headed(word) {
                s.came(me(), slot, head);
            }
        });
    }
}

/// How many heads a thread has come through: its next store waits in a buffer.
pub(crate) fn since(thread: usize) -> usize {
    STATE.with_borrow(|s| s.before.get(thread).map_or(0, Vec::len))
}

/// How a word was touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Written.
    Wrote,
    /// A swap failed.
    Failed,
}

/// The running thread did this. After the act.
#[inline]
pub(crate) fn touched(at: usize, act: Act, from: &'static Location<'static>) {
    if ON.get()
        && mode() == Mode::Fibre
        && let Some(text) = judge(me(), at, act, None, from, |id| with(|e| e.is_of(me(), id)))
    {
        with(|e| e.fail(Fault::ForeignWrite, format!("{} {text}", e.title(me()))));
    }
}

/// A store of a thread that had come through so many heads then arrives: what is wrong with it.
pub(crate) fn arrived(
    thread: usize,
    at: usize,
    since: usize,
    from: &'static Location<'static>,
    is_own: impl FnOnce(u32) -> bool,
) -> Option<String> {
    if ON.get() { judge(thread, at, Act::Wrote, Some(since), from, is_own) } else { None }
}

fn judge(
    thread: usize,
    at: usize,
    act: Act,
    since: Option<usize>,
    from: &'static Location<'static>,
    is_own: impl FnOnce(u32) -> bool,
) -> Option<String> {
    STATE.with_borrow_mut(|s| {
        let Some(what) = s.look(thread, at, since).or_else(|| s.look_at_line(at, is_own)) else {
            if since.is_none()
                && act == Act::Wrote
                && let Some(slot) = s.headed(at)
            {
                let (guard, first) = s.all.iter().rfind(|(_, first)| *first <= slot).expect("the slot's");
                let head = guard.slots.word_of(slot - first);
                s.came(thread, slot, head);
            }
            return None;
        };
        let failed = act == Act::Failed;
        if failed || s.is_exempt(from) {
            *s.late.entry((place(from), failed)).or_default() += 1;
            return None;
        }
        Some(format!("wrote at {} {what}", place(from)))
    })
}
