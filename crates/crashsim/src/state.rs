//! The state of one virtual world between two steps: processes, threads, sleepers and their words, the clock.
//!
//! What can happen next is in `offer.rs`, what then happens in `kernel.rs`.

use crate::disk::Files;
use crate::event::{Anchor, Event, Offer};
use crate::report::{Counts, Failure, Fault};
use crate::stored::Stored;
use crate::story::{Names, Story};
use crate::trace::Trace;
use std::collections::VecDeque;

/// A wait of at least this long counts as a backstop: nothing should depend on its coming to an end.
pub(crate) const BACKSTOP_NS: u64 = 900_000_000;
/// When the virtual clock begins.
pub(crate) const EPOCH_NS: u64 = 1_000_000_000_000;

/// The PID namespace of each process for which the world names no other.
pub(crate) const NAMESPACE: u64 = 0x4000_0001;

/// What a thread is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not begun: has no body yet, or waits for the others to be done.
    Unborn,
    /// It can make a step.
    Ready,
    /// It sleeps.
    Blocked(Block),
    /// Its body has returned.
    Finished,
    /// It was killed, or its process has exited.
    Dead,
}

/// What a thread sleeps on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// A futex, or several.
    Futex,
    /// The end of a process.
    Exit,
    /// The lock of a directory.
    Lock,
    /// Nothing: it has no more to do, and its process stays.
    Linger,
}

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    No,
    ByWake,
    ByTime,
    ByChance,
}

pub(crate) struct Thread {
    pub process: usize,
    pub name: String,
    pub tid: u32,
    /// May still sleep at the end.
    pub daemon: bool,
    /// Begins when the others are done.
    pub last: bool,
    pub state: State,
    pub deadline: Option<u64>,
    /// The wait with this deadline began so long before it that its expiry counts as a backstop.
    pub backstop: bool,
    pub woken: Woken,
    /// Words it sleeps on, for telling.
    pub on: Vec<usize>,
    pub steps: u32,
    /// Robust words it holds, oldest first.
    pub held: Vec<usize>,
    /// A robust word that it has released and not yet woken for.
    pub pending: Option<usize>,
    /// Its process was killed or has exited; it has not died yet.
    pub doomed: bool,
    /// What the kernel has still to mark: `(word, only to be woken)`.
    pub marks: Vec<(usize, bool)>,
    /// Called when it dies.
    pub on_death: Vec<Box<dyn FnOnce()>>,
    /// Stores that only it sees, oldest first.
    pub buffer: VecDeque<Stored>,
    /// How many recoveries of others' deaths it is in the middle of.
    pub recovers: u32,
    /// The processor on which it was put.
    pub cpu: Option<u32>,
    pub section: Section,
    /// Its fences, and its visits of processors, are refused.
    pub refused: (bool, bool),
}

/// Whether a thread is in a restartable section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    Without,
    Within,
    Aborted,
}

impl Thread {
    pub fn over(&self) -> bool {
        matches!(self.state, State::Finished | State::Dead)
    }
}

/// What befalls a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fall {
    Kill,
    Stop,
}

pub(crate) struct Process {
    pub name: String,
    pub pid: u32,
    /// Its PID namespace: numbers of processes and threads are unique within one.
    pub namespace: u64,
    /// When it started: no two processes have this in common.
    pub born: u64,
    /// It begins when this one is gone, and has its number.
    pub after: Option<usize>,
    pub threads: Vec<usize>,
    pub immortal: bool,
    /// It is stopped, and not killed; or killed, and not stopped.
    pub only: Option<Fall>,
    pub killed: bool,
    pub stopped: bool,
    /// All its threads have ended, by themselves or not.
    pub ended: bool,
    /// Nothing of it is left but its number.
    pub gone: bool,
    /// Something about it has changed since the last decision: killing it now differs from killing it then.
    pub dirty: bool,
    pub steps: u32,
    /// Steps that it made while it recovered from another's death.
    pub recovery: u32,
}

impl Process {
    /// Whether it can be killed or stopped now: one that has not begun is not there.
    pub fn can_fall(&self) -> bool {
        !self.immortal && !self.ended && !self.killed && !self.stopped && self.after.is_none()
    }
}

/// One place in the queue of a futex.
pub(crate) struct Sleeper {
    /// One more than the index of the process, or 0 for a shared futex.
    pub scope: u32,
    pub word: usize,
    pub thread: usize,
}

/// What a search lets happen in each schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub kills: u32,
    pub stops: u32,
    pub resume: bool,
    pub spurious: u32,
    /// Stores held back: none, and there are no store buffers.
    pub holds: u32,
    pub steps: u64,
    pub backstops: u32,
    /// Background threads of this name are refused.
    pub refused: Option<&'static str>,
}

/// What `apply` leaves to its caller.
pub(crate) enum Next {
    /// This thread runs.
    Run(usize),
    /// Decide again.
    Again,
    /// Ask the world whether the threads that sleep for ever are excused, then decide again.
    Ask,
    /// Call these, then decide again.
    Call(Vec<Box<dyn FnOnce()>>),
    /// The schedule is over.
    End,
}

pub(crate) struct Engine {
    pub threads: Vec<Thread>,
    pub processes: Vec<Process>,
    pub queue: Vec<Sleeper>,
    pub now: u64,
    pub files: Files,
    /// The thread that ran last.
    pub cur: usize,
    pub anchor: Anchor,
    pub limits: Limits,
    /// Steps of this schedule.
    pub steps: u64,
    /// Steps that `cur` has made without a break.
    pub run: u32,
    /// Threads that gave way and wait for another thread's step: one bit each.
    pub yielded: u64,
    /// Threads that have spun since anything was changed.
    pub spun: u64,
    /// This thread's store has just gone into its empty buffer: does it stay there?
    pub undecided: Option<usize>,
    /// By how much time passes when all threads only spin.
    pub tick: u64,
    /// Short waits of daemons that were let expire since the others were done.
    pub idle_jumps: u32,
    /// What the world says about threads that sleep for ever, once asked.
    pub excused: Option<bool>,
    pub can_excuse: bool,
    pub ended: bool,
    pub failure: Option<Failure>,
    pub record: Vec<Event>,
    /// What the world says it has come to.
    pub outcomes: Vec<String>,
    pub counts: Counts,
    pub offers: Vec<Offer>,
    pub trace: Trace,
    pub names: Names,
    pub story: Option<Story>,
}

impl Engine {
    pub fn new() -> Engine {
        Engine {
            threads: Vec::new(),
            processes: Vec::new(),
            queue: Vec::new(),
            now: EPOCH_NS,
            files: Files::default(),
            cur: 0,
            anchor: Anchor::default(),
            limits: Limits {
                kills: 0,
                stops: 0,
                resume: false,
                spurious: 0,
                holds: 0,
                steps: 0,
                backstops: 0,
                refused: None,
            },
            steps: 0,
            run: 0,
            yielded: 0,
            spun: 0,
            undecided: None,
            tick: 0,
            idle_jumps: 0,
            excused: None,
            can_excuse: false,
            ended: false,
            failure: None,
            record: Vec::new(),
            outcomes: Vec::new(),
            counts: Counts::default(),
            offers: Vec::new(),
            trace: Trace::default(),
            names: Names::default(),
            story: None,
        }
    }

    /// Begins a schedule: an empty world, with the process that sets it up and looks at it afterwards.
    pub fn begin(&mut self, limits: Limits, trace: bool, story: bool) {
        self.threads.clear();
        self.processes.clear();
        self.queue.clear();
        self.now = EPOCH_NS;
        self.files = Files::default();
        self.cur = 0;
        self.anchor = Anchor::default();
        self.limits = limits;
        self.steps = 0;
        self.run = 0;
        self.yielded = 0;
        self.spun = 0;
        self.undecided = None;
        self.tick = 0;
        self.idle_jumps = 0;
        self.excused = None;
        self.can_excuse = false;
        self.ended = false;
        self.failure = None;
        self.record.clear();
        self.outcomes.clear();
        self.counts = Counts::default();
        self.trace.clear(trace);
        self.names = Names::default();
        self.story = story.then(Story::new);
        let world = self.add_process("world");
        self.processes[world].immortal = true;
        self.processes[world].dirty = false;
        self.threads[0].state = State::Blocked(Block::Linger);
        self.threads[0].daemon = true;
    }

    /// A new process with its main thread, which has no body yet. Answers its index.
    pub fn add_process(&mut self, name: &str) -> usize {
        let index = self.processes.len();
        self.processes.push(Process {
            name: name.to_owned(),
            pid: 1000 * (index as u32 + 1),
            namespace: NAMESPACE,
            born: 10_000 * (index as u64 + 1) + 7,
            after: None,
            threads: Vec::new(),
            immortal: false,
            only: None,
            killed: false,
            stopped: false,
            ended: false,
            gone: false,
            dirty: true,
            steps: 0,
            recovery: 0,
        });
        self.add_thread(index, "main");
        index
    }

    /// A new thread of a process. Answers its index.
    pub fn add_thread(&mut self, process: usize, name: &str) -> usize {
        let index = self.threads.len();
        assert!(index < 60, "a world has 60 threads at most");
        let p = &mut self.processes[process];
        let tid = p.pid + p.threads.len() as u32;
        p.threads.push(index);
        self.threads.push(Thread {
            process,
            name: name.to_owned(),
            tid,
            daemon: false,
            last: false,
            state: State::Unborn,
            deadline: None,
            backstop: false,
            woken: Woken::No,
            on: Vec::new(),
            steps: 0,
            held: Vec::new(),
            pending: None,
            doomed: p.killed,
            marks: Vec::new(),
            on_death: Vec::new(),
            buffer: VecDeque::new(),
            recovers: 0,
            cpu: None,
            section: Section::Without,
            refused: (false, false),
        });
        index
    }

    /// Whether a thread can make a step if it is let.
    pub fn runnable(&self, t: usize) -> bool {
        self.threads[t].state == State::Ready && !self.processes[self.threads[t].process].stopped
    }

    /// Whether a process is in the middle of recovering from another's death.
    pub fn recovers(&self, p: usize) -> bool {
        self.processes[p].threads.iter().any(|t| self.threads[*t].recovers > 0 && !self.threads[*t].over())
    }

    /// Whether a number is that of a thread's process, or of a thread of this process.
    pub fn is_of(&self, t: usize, id: u32) -> bool {
        let process = &self.processes[self.threads[t].process];
        process.pid == id || process.threads.iter().any(|other| self.threads[*other].tid == id)
    }

    /// What to call a thread in a story.
    pub fn title(&self, t: usize) -> String {
        let thread = &self.threads[t];
        let p = &self.processes[thread.process];
        if p.threads.len() == 1 { p.name.clone() } else { format!("{}.{}", p.name, thread.name) }
    }

    /// Ends the schedule with a fault.
    pub fn fail(&mut self, fault: Fault, text: String) {
        if self.failure.is_none() {
            self.tell(|_| format!("-- {text}"));
            self.failure = Some(Failure { fault, text });
        }
    }

    /// Adds a line to the story, if one is kept.
    pub fn tell(&mut self, line: impl FnOnce(&Engine) -> String) {
        if self.story.is_some() {
            let line = line(self);
            if let Some(s) = &mut self.story {
                s.add(line);
            }
        }
    }

    /// All sleepers, in words.
    pub fn sleepers(&self) -> Vec<(usize, String)> {
        let mut out = Vec::new();
        for (t, thread) in self.threads.iter().enumerate() {
            if let State::Blocked(block) = thread.state
                && block != Block::Linger
            {
                let words: Vec<_> = thread.on.iter().map(|w| self.names.of(*w)).collect();
                let what = match block {
                    Block::Futex => format!("sleeps on {}", words.join(", ")),
                    Block::Exit => "waits for a process to end".to_owned(),
                    Block::Lock => "waits for the lock of a directory".to_owned(),
                    Block::Linger => unreachable!("excluded above"),
                };
                let stopped = if self.processes[thread.process].stopped { " (stopped)" } else { "" };
                let until = if thread.deadline.is_some() { ", with a deadline" } else { "" };
                out.push((t, format!("{} {what}{until}{stopped}", self.title(t))));
            }
        }
        out
    }
}
