//! What keeper and helpers do: hold, pass on, count, and look for what is out of use.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use chappe::{AcquireError, Arena, ArenaError, ArenaOptions, Permit, Pool, PoolError};

use super::desk::Desk;
use super::scene::Scene;
use crate::board::{DONE, Fault, Stage, Verdict};
use crate::cast::lives;
use crate::child::Child;
use crate::patience::within;
use crate::step;
use crate::trial::OVER;

/// Words of the board. The first helper may come.
pub const FIRST: usize = 0;
/// The second helper may come.
pub const SECOND: usize = 1;
/// The helper that meets the stopped victim may come.
pub const MEET: usize = 2;
/// That helper's process, once it is about to begin.
pub const HERE: usize = 3;
/// How many helpers are through.
pub const DONE_HELPERS: usize = 4;
/// The victim's process.
pub const VICTIM: usize = 5;
/// The process of a child that the victim made.
pub const CHILD: usize = 6;
/// The job that a victim left may end.
const JOB_MAY_END: usize = 7;
/// The job has ended.
const JOB_HAS_ENDED: usize = 8;
/// The keeper has let go.
pub const LET_GO: usize = 9;
/// The keeper had let go before the victim died.
pub const WOKEN: usize = 14;
/// The process of helper `i`: word `HELPERS + i`.
pub const HELPERS: usize = 248;
/// The process of helper `i` that is about to sleep outside any arena: word `SLEEPERS + i`.
pub const SLEEPERS: usize = 10;
/// The holder of permit `i` of pool `j`: word `OWNERS + 16 * j + i`.
const OWNERS: usize = 64;
/// What is said of helpers that should wait by now.
pub const ABSENT: &str = "helpers do not come to wait:";

/// Capacities of every arena here: small enough to fill in a moment.
pub const OPTIONS: ArenaOptions =
    ArenaOptions { members: Some(16), objects: Some(6), cells: Some(12), data: Some(DATA) };
/// Bytes for the data of mutexes, and for tubes.
pub const DATA: u64 = 2048;

/// A fault with its description.
pub fn fault<T>(fault: Fault, text: impl Into<String>) -> Result<T, (Fault, String)> {
    Err((fault, text.into()))
}

/// An operation that had no reason to fail.
pub fn fine<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> Result<T, (Fault, String)> {
    result.map_err(|e| (Fault::Torn, format!("{what}: {e}")))
}

/// Whose waiters the keeper counts.
#[derive(Default)]
enum Queue {
    #[default]
    Nobodys,
    Pool(&'static Pool),
    /// Any kind of object of arena `default`.
    Object(&'static str),
    /// What this says.
    By(Box<dyn Fn() -> usize>),
    /// Helpers and victim, as far as the kernel has them asleep: helpers' processes are in [`SLEEPERS`].
    Sleepers,
}

/// One survivor's (or the victim's) hold on the scenario.
pub struct World<'a> {
    stage: &'a Stage,
    scene: Scene,
    /// What ends the keeper's hold on what others wait for.
    owed: RefCell<Vec<Box<dyn FnOnce()>>>,
    queue: RefCell<Queue>,
    /// The ends of tubes that this process has.
    pub(super) desk: Desk,
    /// The victim's operation is to leave an end of a tube.
    pub(super) leaves: Cell<bool>,
}

impl<'a> World<'a> {
    /// With nothing in hand.
    pub fn new(stage: &'a Stage, scene: Scene) -> World<'a> {
        World {
            stage,
            scene,
            owed: RefCell::default(),
            queue: RefCell::default(),
            desk: Desk::default(),
            leaves: Cell::new(false),
        }
    }

    /// The board.
    pub fn stage(&self) -> &'a Stage {
        self.stage
    }

    /// The surroundings.
    pub fn scene(&self) -> Scene {
        self.scene
    }

    /// How many helpers there are.
    pub fn helpers(&self) -> usize {
        self.scene.helpers()
    }

    /// Whether the operation ran to its end before its process was killed.
    pub fn was_done(&self) -> bool {
        self.stage.board().phase.load(SeqCst) == DONE
    }

    // ---- words ----

    /// Lets the process come that attends to the word.
    pub fn call(&self, word: usize) {
        self.stage.word(word).store(1, SeqCst);
    }

    /// Waits for a call. The keeper always calls in the end, unless it has failed: then nothing matters any more. The limit is for a director
    /// that was killed: else the director ends the helpers, and a trial may take longer where a processor stands still.
    pub fn attend(&self, word: usize) -> Verdict {
        let limit = self.stage.limit * 20;
        if within(limit, || self.stage.word(word).load(SeqCst) != 0) {
            return Ok(());
        }
        fault(Fault::Wedged, "a helper is never called")
    }

    /// The victim has the permit: helpers may come, and it begins once they wait.
    pub fn holding(&self, pool: &Pool) {
        self.holding_while(|| pool.waiters().len());
    }

    /// The same with anything that can be taken; `waiting` counts its waiters.
    pub fn holding_while(&self, waiting: impl Fn() -> usize) {
        if self.scene.waits() {
            self.call(FIRST);
            self.call(SECOND);
            let all = self.scene.helpers();
            self.gathered(|| waiting() == all);
        }
    }

    /// The victim waits until its helpers do.
    pub fn gathered(&self, all_wait: impl FnMut() -> bool) {
        assert!(self.stage.until(all_wait), "{ABSENT} {}", self.describe());
    }

    /// Whether the keeper had let go before the victim died.
    pub fn was_woken(&self) -> bool {
        self.stage.word(WOKEN).load(SeqCst) != 0
    }

    /// Whether the keeper has let go.
    pub fn has_let_go(&self) -> bool {
        self.stage.word(LET_GO).load(SeqCst) != 0
    }

    /// Whether the caller is the victim.
    pub fn is_victim(&self) -> bool {
        self.stage.word(VICTIM).load(SeqCst) == u64::from(std::process::id())
    }

    /// Whether the victim is dead, or on its way out.
    pub fn is_leaving(&self) -> bool {
        let victim = self.stage.word(VICTIM).load(SeqCst) as u32;
        victim != 0 && !lives(victim)
    }

    /// How many helpers are through.
    pub fn done_helpers(&self) -> usize {
        self.stage.word(DONE_HELPERS).load(SeqCst) as usize
    }

    /// The victim has been recovered, no waiter goes on, and that for a while: it may have used up what others wait for.
    /// That others are slow is no mistake: what the keeper then gives is counted.
    pub fn is_stuck(&self, without: impl Fn() -> bool) -> bool {
        let stuck = || self.waiting() > 0 && without() && self.is_recovered();
        let before = self.done_helpers();
        stuck() && {
            std::thread::sleep(Duration::from_millis(2));
            stuck() && self.done_helpers() == before
        }
    }

    /// A process takes something, and ends with it: that is what the victim will recover.
    pub fn die_with(&self, take: impl FnOnce(), otherwise: &str) -> Verdict {
        let mut holder = Child::fork(take);
        // Dropping it would kill it before it holds.
        if self.stage.until(|| holder.ended().is_some()) && holder.ended() == Some(0) {
            return Ok(());
        }
        fault(Fault::Torn, format!("the holder to be recovered {otherwise}"))
    }

    /// The victim leaves a child behind that has inherited what it has open, a lease among it.
    pub fn leave_a_job(&self) {
        let stage = self.stage;
        // SAFETY: this process has one thread of its own; the child goes on as any process would.
        if unsafe { libc::fork() } == 0 {
            let told = || stage.word(JOB_MAY_END).load(SeqCst) + stage.word(OVER).load(SeqCst) != 0;
            within(stage.limit * 4, told);
            stage.word(JOB_HAS_ENDED).store(1, SeqCst);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(0) };
        }
    }

    /// Nobody has the permit while the job goes on; then it ends.
    pub fn end_the_job(&self, name: &str) -> Verdict {
        let pool = self.open(name)?;
        let passed = self.stage.word(DONE_HELPERS).load(SeqCst) > 0;
        let runs = self.stage.word(JOB_HAS_ENDED).load(SeqCst) == 0;
        match pool.try_acquire() {
            Err(AcquireError::WouldBlock) if !passed && runs => {}
            Ok(_) => return fault(Fault::Doubled, "the permit is to be had while its job goes on"),
            _ if passed => return fault(Fault::Doubled, "a waiter got the permit while its job goes on"),
            Err(e) => return fault(Fault::Torn, format!("trying while the job goes on: {e}")),
        }
        self.call(JOB_MAY_END);
        Ok(())
    }

    // ---- pools ----

    /// Opens a pool for the life of this process.
    pub fn open(&self, name: &str) -> Result<&'static Pool, (Fault, String)> {
        let pool = fine(&format!("opening {name}"), Pool::open(name))?;
        Ok(Box::leak(Box::new(pool)))
    }

    /// The victim joins the pool's arena, and leaves the pool as it is.
    pub fn warm(&self, name: &str) -> &'static Pool {
        let pool = self.open(name).expect("the keeper has made it");
        drop(pool.try_acquire());
        pool
    }

    /// Joins arena `default`, if there is a pool to join it by, and leaves all as it is.
    pub fn join(&self) {
        for name in ["p", "a"] {
            if let Ok(pool) = Pool::open(name) {
                drop(pool.try_acquire());
                return;
            }
        }
    }

    /// Every arena that there is, attached.
    pub fn attach_all(&self) -> Vec<Arena> {
        let names = Arena::list().expect("the directory is there");
        names.iter().filter_map(|name| Arena::open(name).ok()).collect()
    }

    /// The keeper makes a pool in arena `default`, and the arena with the first.
    pub fn make(&self, name: &str, permits: u32) -> Result<&'static Pool, (Fault, String)> {
        let (arena, object) = name.split_once('/').unwrap_or(("default", name));
        let arena = fine("making the arena", Arena::open_or_create(arena, &OPTIONS))?;
        let pool = fine(&format!("making {name}"), Pool::create_in(arena, object, permits))?;
        let pool: &'static Pool = Box::leak(Box::new(pool));
        self.queue.replace(Queue::Pool(pool));
        Ok(pool)
    }

    /// The same; where helpers wait, the keeper holds all its permits.
    pub fn make_held(&self, name: &str, permits: u32) -> Verdict {
        let pool = self.make(name, permits)?;
        let held = if self.scene.waits() { permits } else { 0 };
        (0..held).try_for_each(|_| self.hold(pool))
    }

    /// The keeper holds one more permit.
    pub fn hold(&self, pool: &'static Pool) -> Verdict {
        let permit = fine("taking a free permit", pool.try_acquire())?;
        claim(self.stage, &permit)?;
        let stage = *self.stage;
        self.owe(move || unclaim(&stage, &permit));
        Ok(())
    }

    /// The keeper does this when the victim sleeps or is dead: those that wait get on by it.
    pub fn owe(&self, act: impl FnOnce() + 'static) {
        self.owed.borrow_mut().push(Box::new(act));
    }

    /// The keeper gives back what it holds, and does what it owes.
    pub fn let_go(&self) {
        self.call(LET_GO);
        self.owed.take().into_iter().for_each(|act| act());
    }

    /// The keeper counts the waiters of this object of arena `default`.
    pub fn count_waiters_of(&self, name: &'static str) {
        self.queue.replace(Queue::Object(name));
    }

    /// The keeper counts the waiters by this function.
    pub fn count_waiters(&self, count: impl Fn() -> usize + 'static) {
        self.queue.replace(Queue::By(Box::new(count)));
    }

    /// The keeper counts which helpers sleep.
    pub fn count_sleepers(&self) {
        self.queue.replace(Queue::Sleepers);
    }

    /// How many wait where the keeper looks.
    pub fn waiting(&self) -> usize {
        match &*self.queue.borrow() {
            Queue::Nobodys => 0,
            Queue::Pool(pool) => pool.waiters().len(),
            Queue::Object(name) => waiters_of(name),
            Queue::By(count) => count(),
            Queue::Sleepers => (SLEEPERS..SLEEPERS + self.scene.helpers())
                .chain([VICTIM])
                .filter(|word| {
                    let pid = self.stage.word(*word).load(SeqCst) as i32;
                    // More than once: on its way there it may have waited for a page of memory.
                    pid != 0 && (0..3).all(|_| step::state(pid) == Some(b'S'))
                })
                .count(),
        }
    }

    /// Whether the dead victim is no member any more: survivors have seen to what it left.
    pub fn is_recovered(&self) -> bool {
        let victim = self.stage.word(VICTIM).load(SeqCst);
        let without = |arena: Arena| arena.members().iter().all(|m| u64::from(m.pid) != victim);
        match &*self.queue.borrow() {
            Queue::By(_) => self.attach_all().into_iter().all(without),
            _ => Arena::open("default").is_ok_and(without),
        }
    }

    /// The helpers' processes, what each does, and holders and waiters, for findings.
    pub fn describe(&self) -> String {
        let helper = |which: usize| {
            let pid = self.stage.word(HELPERS + which).load(SeqCst);
            let state = step::state(pid as libc::pid_t).map_or('?', char::from);
            let file = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            format!("helper {which} is {pid}, {state} in {}, call {}; ", file("wchan"), file("syscall").trim_end())
        };
        let called = [FIRST, SECOND, MEET].map(|word| self.stage.word(word).load(SeqCst));
        let helpers: String = (0..self.scene.helpers()).map(helper).collect();
        format!("called {called:?}, {} through; {helpers}{}", self.done_helpers(), self.owners())
    }

    fn owners(&self) -> String {
        let Queue::Pool(pool) = *self.queue.borrow() else {
            let all = Arena::open("default").map_or(Vec::new(), |arena| arena.objects());
            let states: Vec<_> = all.iter().map(|o| (&o.name, &o.state, o.waiting)).collect();
            return format!("{states:?}");
        };
        let holders: Vec<_> = pool.holders().iter().map(|h| (h.index, h.who.pid, h.who.life)).collect();
        let waiters: Vec<_> = pool.waiters().iter().map(|h| (h.who.pid, h.who.life)).collect();
        let victim = self.stage.word(VICTIM).load(SeqCst);
        format!("of {} held {holders:?}, waiting {waiters:?}, the victim was {victim}", pool.name())
    }

    /// A helper's part: waits for a permit of the pool, makes sure that no other process has it, gives it back.
    pub fn pass(&self, name: &str) -> Verdict {
        self.pass_through(self.open(name)?.acquire())
    }

    /// The same with a permit that has just been acquired.
    pub fn pass_through(&self, got: Result<Permit<'_>, AcquireError>) -> Verdict {
        let permit = fine("waiting for a permit", got)?;
        claim(self.stage, &permit)?;
        unclaim(self.stage, &permit);
        Ok(())
    }

    /// As [`World::pass`], where the pool or its arena may be removed meanwhile: `remade` makes it again.
    pub fn pass_or_dead(&self, name: &str, remade: bool) -> Verdict {
        loop {
            let pool = if remade { remake(name) } else { Pool::open(name) };
            let result = match &pool {
                Ok(pool) => pool.acquire(),
                Err(PoolError::Unknown { .. } | PoolError::Dead { .. }) if !remade => return Ok(()),
                Err(PoolError::Dead { .. }) => continue,
                Err(e) => return fault(Fault::Torn, format!("opening {name}: {e}")),
            };
            match result {
                Err(AcquireError::Dead { .. } | AcquireError::Arena(ArenaError::Removed { .. })) if remade => {}
                Err(AcquireError::Dead { .. } | AcquireError::Arena(ArenaError::Removed { .. })) => return Ok(()),
                other => return self.pass_through(other),
            }
        }
    }

    // ---- demands ----

    /// This comes true within the watchdog. If not, a process is wedged: `text` says how, and holders and waiters are added.
    pub fn demand(&self, true_now: impl Fn() -> bool, text: &str) -> Verdict {
        if self.stage.until(true_now) {
            return Ok(());
        }
        fault(Fault::Wedged, format!("{text} {}", self.describe()))
    }

    /// While the victim is stopped, a helper gets through; `text` says what it is if it does not.
    pub fn through(&self, text: &str) -> Verdict {
        self.demand(|| self.done_helpers() > 0, text)
    }

    /// The same of the first waiter.
    pub fn first_through(&self) -> Verdict {
        self.through("the first waiter waits for the stopped one:")
    }

    /// While the victim is stopped: the permit can be had at once, unless it is the victim's.
    pub fn take_or_victim_has(&self, name: &str) -> Verdict {
        let pool = self.open(name)?;
        match pool.try_acquire() {
            Ok(permit) => {
                claim(self.stage, &permit)?;
                unclaim(self.stage, &permit);
                Ok(())
            }
            Err(AcquireError::WouldBlock) if self.victim_has(pool) => Ok(()),
            Err(AcquireError::WouldBlock) => {
                let what = format!("the permit is neither free nor the stopped victim's; {}", self.describe());
                fault(Fault::Wedged, what)
            }
            Err(e) => fault(Fault::Torn, format!("trying while the victim is stopped: {e}")),
        }
    }

    /// Whether the victim is among the pool's holders.
    pub fn victim_has(&self, pool: &Pool) -> bool {
        let victim = self.stage.word(VICTIM).load(SeqCst);
        pool.holders().iter().any(|h| u64::from(h.who.pid) == victim)
    }

    /// While the victim is stopped: the helper that waits gets the permit, unless it is the victim's.
    pub fn waiter_gets_it(&self, name: &str) -> Verdict {
        self.let_go();
        // Any process that comes by finishes what the stopped one began.
        self.take_or_victim_has(name).or_else(
            |(fault, text)| {
                if fault == Fault::Wedged { Ok(()) } else { Err((fault, text)) }
            },
        )?;
        let pool = self.open(name)?;
        let through = || self.done_helpers() > 0 || self.victim_has(pool);
        self.demand(through, "a waiter waits for the stopped victim;")
    }

    /// Every permit of the pool can be had, each once, and comes back.
    pub fn audit(&self, name: &str, permits: u32) -> Verdict {
        let pool = self.open(name)?;
        if pool.permits() != permits {
            return fault(Fault::Torn, format!("{name} has {} permits, not {permits}", pool.permits()));
        }
        let mut got: Vec<Permit<'_>> = Vec::new();
        for _ in 0..permits {
            match pool.acquire_timeout(self.stage.limit) {
                Ok(permit) => {
                    if permit.index() >= permits || got.iter().any(|p| p.index() == permit.index()) {
                        return fault(Fault::Doubled, format!("permit {} of {name} twice", permit.index()));
                    }
                    claim(self.stage, &permit)?;
                    got.push(permit);
                }
                Err(AcquireError::Timeout) => {
                    let (kind, what) = if pool.available() > 0 {
                        (Fault::Wedged, "a free permit is not to be had")
                    } else {
                        (Fault::Lost, "a permit does not come back")
                    };
                    let holders: Vec<_> = pool.holders().iter().map(|h| (h.index, h.who.pid, h.who.life)).collect();
                    return fault(kind, format!("{what}: {name} has {} of {permits}, {holders:?}", got.len()));
                }
                Err(e) => return fault(Fault::Torn, format!("acquiring {name}: {e}")),
            }
        }
        match pool.try_acquire() {
            Err(AcquireError::WouldBlock) => {}
            Ok(permit) => return fault(Fault::Doubled, format!("one permit too many of {name}: {}", permit.index())),
            Err(e) => return fault(Fault::Torn, format!("trying {name}: {e}")),
        }
        // One that is just being swept may still be listed.
        self.stage.until(|| pool.waiters().is_empty());
        let (holders, waiters) = (pool.holders().len(), pool.waiters().len());
        if holders != permits as usize || waiters != 0 {
            return fault(Fault::Torn, format!("{name} shows {holders} holders of {permits}, {waiters} waiters"));
        }
        for permit in got.drain(..) {
            unclaim(self.stage, &permit);
        }
        if pool.available() == permits {
            return Ok(());
        }
        fault(Fault::Lost, format!("{} of {permits} permits of {name} came back", pool.available()))
    }
}

/// The pool of this name, with one permit, in an arena of the usual size.
fn remake(name: &str) -> Result<Pool, PoolError> {
    Arena::open_or_create(name.split_once('/').map_or("default", |(arena, _)| arena), &OPTIONS)?;
    Pool::open_or_create(name, 1)
}

/// How many wait for an object of arena `default`.
pub fn waiters_of(name: &str) -> usize {
    let all = Arena::open("default").map_or(Vec::new(), |arena| arena.objects());
    all.iter().find(|o| o.name == name).map_or(0, |o| o.waiting as usize)
}

fn owner<'a>(stage: &'a Stage, pool: &Pool, index: u32) -> &'a std::sync::atomic::AtomicU64 {
    // Pools have single messages as names, or are alone.
    let pool = pool.name().bytes().next_back().map_or(0, |b| usize::from(b) % 8);
    stage.word(OWNERS + 16 * pool + index as usize % 16)
}

/// Notes that this process has the permit; another holder is a fault.
fn claim(stage: &Stage, permit: &Permit<'_>) -> Verdict {
    claim_index(stage, permit.pool(), permit.index())
}

fn unclaim(stage: &Stage, permit: &Permit<'_>) {
    unclaim_index(stage, permit.pool(), permit.index());
}

/// As for a permit, for one of several that came together.
pub fn claim_index(stage: &Stage, pool: &Pool, index: u32) -> Verdict {
    match owner(stage, pool, index).swap(u64::from(std::process::id()), SeqCst) {
        0 => Ok(()),
        pid => fault(Fault::Doubled, format!("permit {index} of {} is {pid}'s", pool.name())),
    }
}

/// This process is about to give it back.
pub fn unclaim_index(stage: &Stage, pool: &Pool, index: u32) {
    owner(stage, pool, index).store(0, SeqCst);
}
