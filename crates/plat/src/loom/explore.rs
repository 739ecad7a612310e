//! Searches all that a few threads can do to a few words, stale reads included.
//!
//! loom's atomics are large, must be made in the execution that uses them, and must be made before the threads are. This library's atomics
//! lie in mapped memory. So one thread writes that memory once, while the scene is set up; then it stays as it is. In each execution every
//! word has one of loom's atomics beside it, found by the word's address, which begins with the value in memory. A word that the set-up did
//! not touch holds zero, and gets one of a few that are kept ready.
//!
//! loom treats a SeqCst access as AcqRel only, and a SeqCst fence as what it is. So each SeqCst access is an AcqRel one with a fence, as a
//! compiler makes it for a machine that has fences alone. There are two such ways, the fence before each ([`Fences::Before`]) or after
//! ([`Fences::After`]), and both are right for every program: what is found is a mistake. But each hides some mistakes that the other
//! shows: an access that should be SeqCst and is not, behind or before one that is. So everything is searched both ways ([`SOUND`]).
//!
//! A fence also hides a mistake between two accesses of which neither is its own. [`Fences::AfterStores`] has fewer fences, as compilers do
//! it for x86. Without its store buffers that is too weak: two readers may see two stores in opposite orders. Two threads cannot tell, so
//! it is for models of two ([`TWO_THREADS`]).
//!
//! Left out: all the schedules beyond the preemption bound; a compare-and-swap that fails reads the newest value; histories of more than
//! seven stores; deaths. loom's fences order a little more than those of the language, and it is known to miss executions: a mistake that
//! it finds is real, but it may miss mistakes.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Condvar, Mutex};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

/// What a failure begins with.
pub const FOUND: &str = "found by loom";

/// How many words of each size an execution may touch that its set-up did not.
const SPARE: usize = 24;

/// Where the fence of a SeqCst access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fences {
    /// Before each.
    Before,
    /// After each.
    After,
    /// After each that stores.
    AfterStores,
}

/// Right for every program.
pub const SOUND: &[Fences] = &[Fences::Before, Fences::After];
/// Right for programs of two threads.
pub const TWO_THREADS: &[Fences] = &[Fences::Before, Fences::After, Fences::AfterStores];

/// What stands for a word.
#[derive(Debug)]
pub(super) enum Word {
    Half(AtomicU32),
    Whole(AtomicU64),
}

/// What the kernel keeps of a futex.
pub(super) struct Queue {
    pub sleepers: Mutex<u32>,
    pub bell: Condvar,
}

/// All that one thread of the system's knows.
#[derive(Default)]
struct Scene {
    /// Which words the set-up touched, and whether each is a whole one.
    touched: BTreeMap<usize, bool>,
    /// How much data there is.
    data: usize,
    live: Option<Live>,
    time: u64,
}

/// What belongs to one execution.
struct Live {
    fences: Fences,
    words: BTreeMap<usize, Rc<Word>>,
    halves: Vec<Rc<Word>>,
    wholes: Vec<Rc<Word>>,
    queues: BTreeMap<usize, Rc<Queue>>,
    data: Vec<Rc<UnsafeCell<u64>>>,
    /// The threads that went to sleep, one entry each time.
    slept: Vec<loom::thread::ThreadId>,
    /// Which light thread each is, if it is one.
    lights: Vec<(loom::thread::ThreadId, usize)>,
}

thread_local! {
    /// loom runs all threads of a model in one of the system's.
    static SCENE: RefCell<Scene> = RefCell::default();
}

fn in_memory(at: usize, whole: bool) -> u64 {
    // SAFETY: the address is that of a word of this size that lies in a mapping, or in the program; neither goes.
    // Relaxed, both: no thread writes the memory while a model runs.
    unsafe {
        if whole {
            (*(at as *const std::sync::atomic::AtomicU64)).load(Ordering::Relaxed)
        } else {
            // Relaxed: as above.
            (*(at as *const std::sync::atomic::AtomicU32)).load(Ordering::Relaxed).into()
        }
    }
}

impl Word {
    fn new(value: u64, whole: bool) -> Rc<Word> {
        Rc::new(if whole { Word::Whole(AtomicU64::new(value)) } else { Word::Half(AtomicU32::new(value as u32)) })
    }
}

impl Live {
    /// One execution's words. Called in it, before it has more than one thread.
    fn new(scene: &Scene, fences: Fences) -> Live {
        let spare = |whole| (0..SPARE).map(|_| Word::new(0, whole)).collect();
        Live {
            fences,
            words: scene.touched.iter().map(|(at, whole)| (*at, Word::new(in_memory(*at, *whole), *whole))).collect(),
            halves: spare(false),
            wholes: spare(true),
            queues: BTreeMap::new(),
            data: (0..scene.data).map(|_| Rc::new(UnsafeCell::new(0))).collect(),
            slept: Vec::new(),
            lights: Vec::new(),
        }
    }

    fn word(&mut self, at: usize, whole: bool) -> Rc<Word> {
        let Live { words, halves, wholes, .. } = self;
        let fresh = || {
            assert_eq!(in_memory(at, whole), 0, "a word that the set-up did not touch holds something");
            let ready = if whole { wholes } else { halves };
            ready.pop().expect("touch some more words in the set-up")
        };
        words.entry(at).or_insert_with(fresh).clone()
    }
}

/// Whether a model runs, and not its set-up.
pub(super) fn is_live() -> bool {
    SCENE.with_borrow(|s| s.live.is_some())
}

/// What stands for the word at this address; `None` in a set-up.
pub(super) fn word(at: usize, whole: bool) -> Option<Rc<Word>> {
    SCENE.with_borrow_mut(|s| match &mut s.live {
        Some(live) => Some(live.word(at, whole)),
        None => {
            s.touched.insert(at, whole);
            None
        }
    })
}

/// The kernel's queue for the word at this address; `None` in a set-up.
pub(super) fn queue(at: usize) -> Option<Rc<Queue>> {
    let make = || Rc::new(Queue { sleepers: Mutex::new(0), bell: Condvar::new() });
    SCENE.with_borrow_mut(|s| Some(s.live.as_mut()?.queues.entry(at).or_insert_with(make).clone()))
}

/// What the kernel sees in a word, or in the low half of one.
pub(super) fn low_half(at: usize) -> u32 {
    let word = SCENE.with_borrow(|s| s.live.as_ref().and_then(|l| l.words.get(&at).cloned()));
    match &*word.expect("whoever sleeps on a word has written it") {
        Word::Half(w) => w.load(Ordering::Relaxed), // Relaxed: the queue's lock orders what it must see.
        Word::Whole(w) => w.load(Ordering::Relaxed) as u32,
    }
}

/// The calling thread goes to sleep.
pub(super) fn note_sleep() {
    let me = loom::thread::current().id();
    SCENE.with_borrow_mut(|s| s.live.as_mut().expect("a model runs").slept.push(me));
}

/// The calling thread is this light thread from now on.
pub fn set_light_here(record: usize) {
    let me = loom::thread::current().id();
    SCENE.with_borrow_mut(|s| s.live.as_mut().expect("a model runs").lights.push((me, record)));
}

/// The address of the calling light thread's record; 0: none.
pub fn light_here() -> usize {
    if !is_live() {
        return 0;
    }
    let me = loom::thread::current().id();
    let last = |l: &Live| l.lights.iter().rev().find(|(who, _)| *who == me).map_or(0, |(_, record)| *record);
    SCENE.with_borrow(|s| s.live.as_ref().map_or(0, last))
}

/// How often threads went to sleep in this execution.
pub fn sleeps() -> u64 {
    SCENE.with_borrow(|s| s.live.as_ref().map_or(0, |l| l.slept.len() as u64))
}

/// How often the calling thread did.
pub fn my_sleeps() -> u64 {
    let me = loom::thread::current().id();
    SCENE.with_borrow(|s| s.live.as_ref().map_or(0, |l| l.slept.iter().filter(|who| **who == me).count() as u64))
}

/// The time, so much later than when it was last asked for.
pub(super) fn later(ns: u64) -> u64 {
    SCENE.with_borrow_mut(|s| {
        s.time += ns;
        s.time
    })
}

/// An access of this order, that stores or does not, with its fence if it is SeqCst.
pub(super) fn in_order<R>(order: Ordering, stores: bool, access: impl FnOnce(Ordering) -> R) -> R {
    // SeqCst: see the head.
    if order != Ordering::SeqCst {
        return access(order);
    }
    let fences = SCENE.with_borrow(|s| s.live.as_ref().expect("a model runs").fences);
    if fences == Fences::Before {
        fence(Ordering::SeqCst); // SeqCst: this is the access's own.
    }
    let result = access(Ordering::AcqRel); // AcqRel: all that loom makes of SeqCst.
    if fences == Fences::After || stores && fences == Fences::AfterStores {
        fence(Ordering::SeqCst); // SeqCst: as above.
    }
    result
}

/// Of an order, what a load can have.
pub(super) fn of_load(order: Ordering) -> Ordering {
    // AcqRel, SeqCst: see `in_order`.
    if matches!(order, Ordering::AcqRel | Ordering::SeqCst) { Ordering::Acquire } else { order }
}

/// Of an order, what a store can have.
pub(super) fn of_store(order: Ordering) -> Ordering {
    // AcqRel: see `in_order`.
    if order == Ordering::AcqRel { Ordering::Release } else { order }
}

/// Data without a word of its own: two threads at it, one of them writing, with nothing that orders them, are a mistake.
#[derive(Clone, Copy)]
pub struct Data(usize);

impl Data {
    /// Zero. Made while the scene is set up.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Data {
        SCENE.with_borrow_mut(|s| {
            s.data += 1;
            Data(s.data - 1)
        })
    }

    fn cell(self) -> Rc<UnsafeCell<u64>> {
        SCENE.with_borrow(|s| s.live.as_ref().expect("a model runs").data[self.0].clone())
    }

    /// Reads it.
    pub fn get(self) -> u64 {
        // SAFETY: loom has seen to it that nobody writes; the cell lives as long as the execution.
        self.cell().with(|p| unsafe { *p })
    }

    /// Writes it.
    pub fn set(self, value: u64) {
        // SAFETY: loom has seen to it that nobody else is at it; as above.
        self.cell().with_mut(|p| unsafe { *p = value });
    }
}

/// Runs all, each a thread of its own but the last, which is this one; answers what they answered.
pub fn together<S: Copy + 'static, R: 'static, const N: usize>(scene: S, bodies: [fn(S) -> R; N]) -> [R; N] {
    let last = bodies[N - 1];
    let others: Vec<_> = bodies[..N - 1].iter().copied().map(|b| loom::thread::spawn(move || b(scene))).collect();
    let last = last(scene);
    let answers = others.into_iter().map(|t| t.join().expect("a thread that fails ends the model"));
    let all: Vec<R> = answers.chain([last]).collect();
    all.try_into().ok().expect("as many answers as threads")
}

/// Does `execution` in every way that its threads and their stale reads allow with so many preemptions, from one scene,
/// with the fences in each of these places. Answers all that it answered, and in how many executions.
///
/// # Panics
/// When an execution does, begins with [`FOUND`]; a deadlock is one.
pub fn search<S, O>(ways: &[Fences], preemptions: usize, set_up: fn() -> S, execution: fn(S) -> O) -> (BTreeSet<O>, u64)
where
    S: Copy + Send + Sync + 'static,
    O: Ord + Send + 'static,
{
    let reached = Arc::new(StdMutex::new((BTreeSet::new(), 0)));
    SCENE.set(Scene::default());
    let scene = set_up();
    for &fences in ways {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 10_000;
        let seen = reached.clone();
        let one = move || {
            SCENE.with_borrow_mut(|s| {
                s.time = 0;
                s.live = None;
                s.live = Some(Live::new(s, fences));
            });
            let outcome = execution(scene);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.0.insert(outcome);
            seen.1 += 1;
        };
        let ended = catch_unwind(AssertUnwindSafe(|| builder.check(one)));
        // What loom made must not outlive the model.
        SCENE.with_borrow_mut(|s| s.live = None);
        if let Err(why) = ended {
            let text = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
            let tried = reached.lock().unwrap_or_else(PoisonError::into_inner).1;
            panic!("{FOUND}, fences {fences:?}, execution {tried}: {}", text.unwrap_or("something went wrong"));
        }
    }
    let mut reached = reached.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *reached)
}
