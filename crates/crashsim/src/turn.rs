//! The order of execution: the heart of the explorer.
//!
//! All fibres of a world run on one thread of the system. Each operation of the facade first takes its turn: the search decides what
//! happens next, on the stack of the asking fibre. If it is the asker's own step, it goes on without any switch; else it suspends itself,
//! and the loop in [`play`] resumes the fibre whose turn it is.

use crate::coverage;
use crate::fibre::{Fibre, suspend};
use crate::guard;
use crate::kernel::Next;
use crate::memory;
use crate::report::{Counts, Failure, Fault};
use crate::search::Strategy;
use crate::state::{Block, Engine, Limits, State};
use crate::story::{Names, place};
use crate::trace::Touch;
use crate::world::World;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

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
    static ENGINE: RefCell<Engine> = RefCell::new(Engine::new());
    static STRATEGY: RefCell<Option<Box<dyn Strategy>>> = const { RefCell::new(None) };
    static FIBRES: RefCell<Vec<Option<Fibre>>> = const { RefCell::new(Vec::new()) };
    static CALLS: RefCell<Calls> = RefCell::new(Calls::default());
    static INVARIANTS: RefCell<Rc<Invariants>> = RefCell::new(Rc::new(Vec::new()));
    static CHECKED: Cell<bool> = const { Cell::new(false) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static BUFFERED: Cell<bool> = const { Cell::new(false) };
    static PROGRESS: Cell<bool> = const { Cell::new(false) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Outside) };
    static ME: Cell<usize> = const { Cell::new(0) };
    static NEXT: Cell<Option<usize>> = const { Cell::new(None) };
    static FAILING_STEPS: Cell<u32> = const { Cell::new(0) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
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
fn decide() -> Option<usize> {
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
fn ask() -> bool {
    let Some(excuse) = calls(|c| c.excuse.clone()) else { return false };
    direct("may_wait", || excuse()).unwrap_or(false)
}

/// Runs code of the world that is no virtual thread's. A panic is a failure of the schedule.
fn direct<R>(what: &str, f: impl FnOnce() -> R) -> Option<R> {
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

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}

/// Takes panics of virtual threads out of the test's output: the report tells them.
fn catch_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let mode = MODE.try_with(Cell::get).unwrap_or(Mode::Outside);
            if mode == Mode::Outside {
                return before(info);
            }
            let at = info.location().map(place).unwrap_or_default();
            let text = format!("panicked: {} ({at})", message(info.payload()));
            if mode == Mode::Fibre {
                MODE.set(Mode::Failing);
                FAILING_STEPS.set(0);
                let told = ENGINE.with(|e| {
                    e.try_borrow_mut().map(|mut e| {
                        let who = e.title(ME.get());
                        e.fail(Fault::Panic, format!("{who} {text}"));
                    })
                });
                if told.is_err() {
                    before(info);
                }
            } else {
                PANIC.set(Some(text));
            }
        }));
    });
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

/// What became of one schedule.
pub(crate) struct Played {
    pub failure: Option<Failure>,
    pub counts: Counts,
    pub record: Vec<crate::event::Event>,
    pub outcomes: Vec<String>,
    pub story: String,
}

/// Plays one schedule of a world.
pub(crate) fn play(
    world: &dyn Fn(&World),
    strategy: &mut Option<Box<dyn Strategy>>,
    limits: Limits,
    story: bool,
) -> Played {
    catch_panics();
    memory::reset();
    guard::reset();
    coverage::begin();
    BUFFERED.set(limits.holds > 0);
    let wants_trace = strategy.as_ref().is_some_and(|s| s.wants_trace());
    STRATEGY.set(strategy.take());
    CALLS.set(Calls::default());
    with(|e| e.begin(limits, wants_trace, story));
    WATCHED.set(wants_trace || story);
    CHECKED.set(false);
    direct("set-up", || world(&World::new()));
    guard::begin();
    with(|e| {
        for (t, thread) in e.threads.iter_mut().enumerate() {
            let bodiless = FIBRES.with_borrow(|f| f.get(t).is_none_or(Option::is_none));
            if thread.state == State::Unborn && bodiless {
                thread.state = State::Blocked(Block::Linger);
                thread.daemon = true;
            }
        }
    });
    let invariants = calls(|c| std::mem::take(&mut c.invariants));
    CHECKED.set(!invariants.is_empty());
    INVARIANTS.set(Rc::new(invariants));

    let mut next = decide();
    while let Some(t) = next {
        let mut fibre = FIBRES.with_borrow_mut(|f| f[t].take()).expect("a thread that runs has a body");
        ME.set(t);
        MODE.set(Mode::Fibre);
        NEXT.set(None);
        let over = fibre.resume();
        MODE.set(Mode::Outside);
        FIBRES.with_borrow_mut(|f| f[t] = Some(fibre));
        next = if over {
            with(|e| e.finish(t));
            decide()
        } else {
            NEXT.take()
        };
    }

    let excused = ask();
    with(|e| e.judge(excused));
    CHECKED.set(false);
    INVARIANTS.take();
    let checks = calls(|c| std::mem::take(&mut c.checks));
    for check in checks {
        if with(|e| e.failure.is_none()) {
            direct("check", check);
        }
    }
    for fibre in FIBRES.take().into_iter().rev().flatten() {
        fibre.discard();
    }
    CALLS.take();
    *strategy = STRATEGY.take();
    with(|e| Played {
        failure: e.failure.take(),
        counts: {
            e.counts.steps = e.steps;
            e.counts
        },
        record: std::mem::take(&mut e.record),
        outcomes: std::mem::take(&mut e.outcomes),
        story: e.story.as_ref().map(|s| s.text()).unwrap_or_default(),
    })
}
