//! The order of execution: the heart of the explorer.
//!
//! All fibres of a world run on one thread of the system. Each operation of the facade first takes its turn: the search decides what
//! happens next, on the stack of the asking fibre. If it is the asker's own step, it goes on without any switch; else it suspends itself,
//! and the loop in [`play`](crate::play::play) resumes the fibre whose turn it is.

use crate::coverage;
use crate::fibre::{Fibre, suspend};
use crate::report::Fault;
use crate::state::{Block, Engine, Next, State};
use crate::story::{Names, place};
use crate::strategy::Strategy;
use crate::trace::Touch;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

/// What code that calls the facade is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// No part of a world: operations act at once.
    Outside,
    /// A world's set-up, check or invariant: operations act at once, and none may sleep.
    Direct,
    /// A virtual thread: each operation is a step.
    Fibre,
    /// A virtual thread that panics: operations act at once, and sleeps return.
    Failing,
}

/// What must hold after each step.
type Invariants = Vec<Box<dyn Fn()>>;

/// What a world calls besides its threads.
#[derive(Default)]
pub(crate) struct Calls {
    pub invariants: Invariants,
    pub checks: Vec<Box<dyn FnOnce()>>,
    pub excuse: Option<Rc<dyn Fn() -> bool>>,
    /// Called when the sleepers are excused.
    pub looks: Vec<Rc<dyn Fn()>>,
}

thread_local! {
    pub(crate) static ENGINE: RefCell<Engine> = RefCell::new(Engine::new());
    pub(crate) static STRATEGY: RefCell<Option<Box<dyn Strategy>>> = const { RefCell::new(None) };
    pub(crate) static FIBRES: RefCell<Vec<Option<Fibre>>> = const { RefCell::new(Vec::new()) };
    pub(crate) static CALLS: RefCell<Calls> = RefCell::new(Calls::default());
    pub(crate) static INVARIANTS: RefCell<Rc<Invariants>> = RefCell::new(Rc::new(Vec::new()));
    pub(crate) static CHECKED: Cell<bool> = const { Cell::new(false) };
    pub(crate) static WATCHED: Cell<bool> = const { Cell::new(false) };
    pub(crate) static BUFFERED: Cell<bool> = const { Cell::new(false) };
    static PROGRESS: Cell<bool> = const { Cell::new(false) };
    pub(crate) static MODE: Cell<Mode> = const { Cell::new(Mode::Outside) };
    pub(crate) static ME: Cell<usize> = const { Cell::new(0) };
    pub(crate) static NEXT: Cell<Option<usize>> = const { Cell::new(None) };
    pub(crate) static FAILING_STEPS: Cell<u32> = const { Cell::new(0) };
    pub(crate) static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Looks at or changes the world's state.
pub(crate) fn with<R>(then: impl FnOnce(&mut Engine) -> R) -> R {
    ENGINE.with_borrow_mut(then)
}

pub(crate) fn calls<R>(then: impl FnOnce(&mut Calls) -> R) -> R {
    CALLS.with_borrow_mut(then)
}

pub(crate) fn mode() -> Mode {
    MODE.get()
}

/// Whether anything was changed since this was last asked.
pub(crate) fn progressed() -> bool {
    PROGRESS.replace(false)
}

/// The running virtual thread.
pub(crate) fn me() -> usize {
    ME.get()
}

/// Takes a turn: returns when the calling thread's next step may happen.
#[inline]
pub(crate) fn turn() {
    match MODE.get() {
        Mode::Outside | Mode::Direct => {}
        Mode::Fibre => pass(),
        Mode::Failing => {
            let n = FAILING_STEPS.get() + 1;
            FAILING_STEPS.set(n);
            if n > 100_000 {
                // Its destructors would go on for ever: leave it where it is.
                NEXT.set(None);
                suspend();
            }
        }
    }
}

/// As [`turn`], for what the processor makes only when its thread's earlier stores are visible: locked operations,
/// fences, system calls.
#[inline]
pub(crate) fn turn_in_order() {
    turn();
    if buffered() {
        with(|e| e.drain(me()));
    }
}

/// Whether the stores of virtual threads go through buffers here.
#[inline]
pub(crate) fn buffered() -> bool {
    BUFFERED.get() && MODE.get() == Mode::Fibre
}

fn pass() {
    let me = ME.get();
    let next = decide();
    if next != Some(me) {
        NEXT.set(next);
        suspend();
    }
}

/// Sleeps: the caller has marked itself blocked. Returns when it has been woken and its turn has come.
pub(crate) fn sleep(why: &str) {
    match MODE.get() {
        Mode::Fibre => pass(),
        Mode::Failing => turn(),
        Mode::Outside | Mode::Direct => panic!("{why} would sleep, where nobody else runs that could end it"),
    }
}

/// Marks the calling thread blocked and lets others run until it is woken.
pub(crate) fn block(on: Block, words: &[usize], deadline: Option<u64>, why: &str) {
    if MODE.get() == Mode::Fibre {
        let me = ME.get();
        with(|e| {
            e.drain(me);
            let backstop = e.is_backstop(deadline);
            let t = &mut e.threads[me];
            t.state = State::Blocked(on);
            t.deadline = deadline;
            t.backstop = backstop;
            t.on.clear();
            t.on.extend_from_slice(words);
            e.trace.befall(me, 16);
        });
    }
    sleep(why);
    if MODE.get() == Mode::Fibre {
        with(|e| e.threads[ME.get()].deadline = None);
    }
}

/// Notes what a step did: for the state's number, and for the story.
#[inline]
pub(crate) fn saw(
    word: usize,
    what: u64,
    how: Touch,
    at: &'static Location<'static>,
    tell: impl FnOnce(&Names) -> String,
) {
    if how == Touch::Write {
        PROGRESS.set(true);
    }
    if MODE.get() == Mode::Fibre {
        coverage::step(ME.get(), at);
    }
    if WATCHED.get() && MODE.get() == Mode::Fibre {
        let me = ME.get();
        with(|e| {
            if word != 0 {
                e.trace.touch(me, word, what, how);
            }
            let nothing = how == Touch::Read && word != 0 && !matches!(what, 30 | 40);
            if nothing && e.story.as_ref().is_none_or(|s| s.short) {
                return;
            }
            e.tell(|e| format!("{}: {}   [{}]", e.title(me), tell(&e.names), place(at)));
        });
    }
}

/// Decides what happens until it is some thread's turn. `None`: the schedule is over.
pub(crate) fn decide() -> Option<usize> {
    loop {
        if CHECKED.get() {
            let all = INVARIANTS.with_borrow(Rc::clone);
            direct("invariant", || all.iter().for_each(|i| i()));
        }
        let next = STRATEGY.with_borrow_mut(|s| {
            with(|e| {
                if e.failure.is_some() || e.ended {
                    return Next::End;
                }
                let s = s.as_mut().expect("a search is under way");
                let event = match s.scripted(e) {
                    Some(event) => event,
                    None if !e.offer() => return Next::Ask,
                    None => s.choose(e),
                };
                if !e.possible(event) {
                    let text = format!(
                        "the world is not deterministic: {event:?} was possible here the last time. Look for state that \
                         outlives a schedule (statics, thread-locals), addresses or hash maps that decide something"
                    );
                    e.fail(Fault::Nondeterminism, text);
                    return Next::End;
                }
                e.apply(event)
            })
        });
        match next {
            Next::Run(t) => return Some(t),
            Next::Again => {}
            Next::Call(all) => {
                direct("on_death", || all.into_iter().for_each(|f| f()));
            }
            Next::Ask => {
                let excused = ask();
                if excused && with(|e| e.processes.iter().all(|p| !p.stopped)) {
                    let looks = calls(|c| c.looks.clone());
                    direct("at rest", || looks.iter().for_each(|look| look()));
                }
                with(|e| e.excused = Some(excused));
            }
            Next::End => return None,
        }
    }
}

/// Asks the world whether the sleepers may sleep.
pub(crate) fn ask() -> bool {
    let Some(excuse) = calls(|c| c.excuse.clone()) else { return false };
    direct("may_wait", || excuse()).unwrap_or(false)
}

/// Runs code of the world that is no virtual thread's. A panic is a failure of the schedule.
pub(crate) fn direct<R>(what: &str, f: impl FnOnce() -> R) -> Option<R> {
    let (mode, me) = (MODE.replace(Mode::Direct), ME.replace(0));
    let result = catch_unwind(AssertUnwindSafe(f));
    MODE.set(mode);
    ME.set(me);
    match result {
        Ok(r) => Some(r),
        Err(payload) => {
            let text = PANIC.take().unwrap_or_else(|| message(&*payload));
            with(|e| e.fail(Fault::Panic, format!("{what}: {text}")));
            None
        }
    }
}

/// Runs code as the main thread of a process, at once.
pub(crate) fn as_thread<R>(t: usize, f: impl FnOnce() -> R) -> R {
    let me = ME.replace(t);
    let r = f();
    ME.set(me);
    r
}

pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}

/// Gives a thread its body.
pub(crate) fn embody(t: usize, body: Box<dyn FnOnce()>) {
    let fibre = Fibre::new(Box::new(move || {
        // What panicked was noted by the hook.
        let _ = catch_unwind(AssertUnwindSafe(body));
    }));
    FIBRES.with_borrow_mut(|f| {
        if f.len() <= t {
            f.resize_with(t + 1, || None);
        }
        f[t] = Some(fibre);
    });
}
