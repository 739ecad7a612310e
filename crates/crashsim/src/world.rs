//! How a world is described: its processes, what they share, and what must hold.

use crate::memory::{self, Shared};
use crate::state::{Fall, State};
use crate::story::Show;
use crate::turn::{as_thread, calls, embody, me, with};
use std::marker::PhantomData;
use std::rc::Rc;

/// Something that a story can name.
pub trait Word {
    /// Its address.
    fn place(&self) -> usize;
}

/// A world under construction.
///
/// The closure that builds it is called once a schedule, before anything runs. Facade operations in it act at
/// once, in the name of a process `world` that never ends.
pub struct World(PhantomData<*const ()>);

impl World {
    pub(crate) fn new() -> World {
        World(PhantomData)
    }

    /// A process whose main thread runs `body`. When that returns, the process exits.
    pub fn process(&self, name: &str, body: impl FnOnce() + 'static) -> Process {
        self.prepare(name).run(body)
    }

    /// A process whose main thread has no body yet. Without one it is idle for ever, and can be killed.
    pub fn prepare(&self, name: &str) -> Process {
        Process(with(|e| e.add_process(name)), PhantomData)
    }

    /// A process that begins once nothing of `dead` is left, and has its number: what looks for the dead by number finds
    /// it. Where `dead` stays, it never begins.
    pub fn successor(&self, name: &str, dead: Process) -> Process {
        let p = self.prepare(name);
        with(|e| {
            let pid = e.processes[dead.0].pid;
            e.processes[p.0].pid = pid;
            e.processes[p.0].after = Some(dead.0);
            let main = e.processes[p.0].threads[0];
            e.threads[main].tid = pid;
        });
        p
    }

    /// Puts a value where all processes of this schedule can reach it.
    pub fn share<T: 'static>(&self, value: T) -> Shared<T> {
        memory::share(value)
    }

    /// `len` zeroed bytes that all processes of this schedule can reach.
    pub fn zeroed(&self, len: usize) -> *mut u8 {
        memory::zeroed(len, 64)
    }

    /// What stories call a word.
    pub fn name(&self, word: &impl Word, name: impl Into<String>) {
        let (place, name) = (word.place(), name.into());
        with(|e| e.names.set(place, name, None));
    }

    /// What stories call a word, and how they show its values.
    pub fn name_with(&self, word: &impl Word, name: impl Into<String>, show: fn(u64) -> String) {
        let (place, name, show): (_, _, Show) = (word.place(), name.into(), show);
        with(|e| e.names.set(place, name, Some(show)));
    }

    /// Holds after every step: panics if it does not. Its own operations on words are no steps.
    pub fn invariant(&self, holds: impl Fn() + 'static) {
        calls(|c| c.invariants.push(Box::new(holds)));
    }

    /// Runs after everything has come to rest: panics if something is wrong. Its operations act at once, and may
    /// not sleep.
    pub fn check(&self, check: impl FnOnce() + 'static) {
        calls(|c| c.checks.push(Box::new(check)));
    }

    /// Sets the function that says whether the threads that still sleep when nothing more can happen may do so (because what they wait for
    /// is held by a stopped process, say). Called only when the world would otherwise be wedged.
    pub fn may_wait(&self, excuse: impl Fn() -> bool + 'static) {
        calls(|c| c.excuse = Some(Rc::new(excuse)));
        with(|e| e.can_excuse = true);
    }

    /// Called when nothing more can happen, no process is stopped, and the world excuses the threads that sleep: panics if something is wrong. Its
    /// operations act at once. The threads that it wakes go on; it is called again when all sleep again. The search may kill a process at rest: then
    /// [`falls`] says another number the next time.
    pub fn at_rest(&self, look: impl Fn() + 'static) {
        calls(|c| c.looks.push(Rc::new(look)));
    }

    /// A schedule with more steps than this is a failure. 20,000 unless told.
    pub fn steps_at_most(&self, steps: u64) {
        with(|e| e.limits.steps = steps);
    }

    /// Says what the world has come to: the report counts each outcome. No step.
    pub fn reached(outcome: impl Into<String>) {
        let outcome = outcome.into();
        with(|e| e.outcomes.push(outcome));
    }

    /// The system refuses background threads of this name.
    pub fn refuses_threads(&self, name: &'static str) {
        with(|e| e.limits.refused = Some(name));
    }

    /// How many waits of a second or more may come to their end in one schedule. 0 unless told.
    pub fn backstops_at_most(&self, count: u32) {
        with(|e| e.limits.backstops = count);
    }

    /// How many bytes files can have together.
    pub fn room(&self, bytes: u64) {
        with(|e| e.files.room = Some(bytes));
    }

    /// This world's kernel has no futex_waitv.
    pub fn without_waitv(&self) {
        with(|e| e.files.no_waitv = true);
    }
}

/// What became of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is there.
    Alive,
    /// It has exited.
    Exited,
    /// It was killed.
    Killed,
    /// It is stopped.
    Stopped,
}

/// A virtual process.
#[derive(Clone, Copy)]
pub struct Process(usize, PhantomData<*const ()>);

impl Process {
    fn main(self) -> usize {
        with(|e| e.processes[self.0].threads[0])
    }

    /// Gives the main thread its body.
    pub fn run(self, body: impl FnOnce() + 'static) -> Process {
        self.run_boxed(Box::new(body))
    }

    /// Made once, not for each body.
    fn run_boxed(self, body: Box<dyn FnOnce()>) -> Process {
        let main = self.main();
        embody(main, body);
        with(|e| {
            let waits = e.threads[main].last || e.processes[self.0].after.is_some();
            if !waits {
                e.threads[main].state = State::Ready;
            }
        });
        self
    }

    /// Runs `f` at once, as the process's main thread, before the schedule begins: what it claims there is its own.
    pub fn before<R>(self, f: impl FnOnce() -> R) -> R {
        as_thread(self.main(), f)
    }

    /// A further thread.
    pub fn thread(self, name: &str, body: impl FnOnce() + 'static) -> Process {
        self.spawn(name, false, Box::new(body))
    }

    /// A further thread that may still sleep when all is over, and ends with its process.
    pub fn daemon(self, name: &str, body: impl FnOnce() + 'static) -> Process {
        self.spawn(name, true, Box::new(body))
    }

    fn spawn(self, name: &str, daemon: bool, body: Box<dyn FnOnce()>) -> Process {
        let t = with(|e| {
            let t = e.add_thread(self.0, name);
            e.threads[t].daemon = daemon;
            if e.processes[self.0].after.is_none() {
                e.threads[t].state = State::Ready;
            }
            t
        });
        embody(t, body);
        self
    }

    /// It is never killed nor stopped.
    pub fn immortal(self) -> Process {
        with(|e| e.processes[self.0].immortal = true);
        self
    }

    /// It is stopped, where the search stops processes, and never killed.
    pub fn only_stops(self) -> Process {
        with(|e| e.processes[self.0].only = Some(Fall::Stop));
        self
    }

    /// It is killed, where the search kills processes, and never stopped.
    pub fn only_kills(self) -> Process {
        with(|e| e.processes[self.0].only = Some(Fall::Kill));
        self
    }

    /// It begins when all others are done; several do so one after another. It is immortal.
    pub fn last(self) -> Process {
        let main = self.main();
        with(|e| {
            e.threads[main].last = true;
            e.threads[main].state = State::Unborn;
            e.processes[self.0].immortal = true;
        });
        self
    }

    /// Called at the moment its main thread dies by a kill. Operations in it act at once.
    pub fn on_death(self, f: impl FnOnce() + 'static) -> Process {
        let main = self.main();
        with(|e| e.threads[main].on_death.push(Box::new(f)));
        self
    }

    /// Puts it into a PID namespace of the world's, where it has this number; its threads count on from there. Said before it has
    /// further threads. In such a world a thread names a robust word in its list of pending operations before it claims it,
    /// and still after it has released it: the kernel may take another namespace's thread of the same number for it.
    pub fn in_namespace(self, namespace: u64, pid: u32) -> Process {
        let main = self.main();
        with(|e| {
            e.files.namespaces = true;
            e.processes[self.0].namespace = namespace;
            e.processes[self.0].pid = pid;
            e.threads[main].tid = pid;
        });
        self
    }

    /// Tells it from all others, whatever their numbers. Never 0.
    pub fn identity(self) -> u32 {
        self.0 as u32 + 1
    }

    /// Its number.
    pub fn pid(self) -> u32 {
        with(|e| e.processes[self.0].pid)
    }

    /// What has become of it so far.
    pub fn fate(self) -> Fate {
        with(|e| {
            let p = &e.processes[self.0];
            match (p.killed, p.stopped, p.ended) {
                (true, ..) => Fate::Killed,
                (_, true, _) => Fate::Stopped,
                (_, _, true) => Fate::Exited,
                _ => Fate::Alive,
            }
        })
    }
}

/// Adds a line to the story, if one is told, in the running thread's name. No step.
pub fn note(text: &str) {
    with(|e| e.tell(|e| format!("{}: ({text})", e.title(me()))));
}

/// How many kills and stops there were in this schedule so far. No step.
pub fn falls() -> u64 {
    with(|e| e.counts.kills + e.counts.stops)
}

/// Says what the world has come to: the report counts each outcome. No step.
pub fn reached(outcome: impl Into<String>) {
    let outcome = outcome.into();
    with(|e| e.outcomes.push(outcome));
}

/// How many waits of a second or more have come to their end in this schedule.
pub fn backstops() -> u64 {
    with(|e| e.counts.backstops)
}
