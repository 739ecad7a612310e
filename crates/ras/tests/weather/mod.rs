//! What makes the kernel abort sections: threads that are moved, preempted, interrupted.

use chappe_plat::topology;
use std::cell::Cell;
use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What the threads are exposed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Another thread, and each itself, has them run here and there.
    Moved,
    /// More threads than processors, and others that spin, or wake up again and again.
    Preempted,
    /// Each has a timer, whose handler does the same with the same things.
    Interrupted,
}

/// Pseudo-random numbers.
pub struct Dice(pub u64);

impl Dice {
    /// The next one, below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// How long a storm over everything takes: a second and a half, or its share of what the soak asks for. There are three of them, and
/// six over one operation each, which take a fifth of it.
pub fn duration() -> Duration {
    let asked = std::env::var("RAS_SECONDS").ok().and_then(|s| s.parse::<f64>().ok());
    Duration::from_secs_f64(asked.map_or(1.5, |s| s / 4.2).max(0.3))
}

/// One storm at a time: they share delays, counts and a handler.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is done until it is over, by each thread and by its handler.
pub trait Work: Sync {
    /// What a thread keeps.
    type Own: Send;
    /// At its beginning.
    fn begin(&self, thread: usize) -> Self::Own;
    /// Once round.
    fn round(&self, own: &mut Self::Own);
    /// At its end.
    fn end(&self, own: Self::Own);
    /// In a handler that interrupts any of these.
    fn interrupt(&self);
}

static INTERRUPT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static WORK: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// How often a thread is interrupted within one round. The timer does not wait for the handler: where a handler takes longer than
/// from one expiry to the next (it looks again, and gives way each time, while a thief is stopped), the next is there when it
/// returns, and a thread that is a thief itself would never get on.
const INTERRUPTIONS: u32 = 4;

thread_local! {
    /// How often it may be interrupted still, until its next round.
    static LEFT: Cell<u32> = const { Cell::new(0) };
}

extern "C" fn handler(_: libc::c_int) {
    let Some(left) = LEFT.get().checked_sub(1) else { return };
    LEFT.set(left);
    let (call, work) = (INTERRUPT.load(Ordering::SeqCst), WORK.load(Ordering::SeqCst));
    // SAFETY: errno is the interrupted code's.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: `weather` has set both, and outlives all timers.
    unsafe { std::mem::transmute::<*mut (), fn(*mut ())>(call)(work) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

struct Timer(libc::timer_t);

impl Timer {
    fn start(every: Duration) -> Timer {
        // SAFETY: plain data, and valid places.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = MaybeUninit::uninit();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()), 0);
            let timer = timer.assume_init();
            let every = libc::timespec { tv_sec: 0, tv_nsec: every.as_nanos() as i64 };
            let when = libc::itimerspec { it_interval: every, it_value: every };
            assert_eq!(libc::timer_settime(timer, 0, &raw const when, std::ptr::null_mut()), 0);
            Timer(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Has another thread run on one processor only.
fn move_to(tid: u32, cpu: u32) {
    // SAFETY: plain data; zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a number that the kernel has told; the set is of the size that is said. The thread may have ended.
    unsafe {
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(tid as i32, size_of_val(&set), &raw const set);
    }
}

/// Has so many threads work for so long, exposed to that; longer, if nothing was tried by then: a machine may stand still.
pub fn weather<W: Work>(weather: Weather, threads: usize, time: Duration, work: &W, tried: impl Fn() -> bool) {
    fn call<W: Work>(work: *mut ()) {
        // SAFETY: what is stored beside it.
        unsafe { &*work.cast::<W>() }.interrupt();
    }
    WORK.store(std::ptr::from_ref(work).cast_mut().cast(), Ordering::SeqCst);
    INTERRUPT.store(call::<W> as *mut (), Ordering::SeqCst);
    let (over, ended) = (AtomicBool::new(false), AtomicU32::new(0));
    let tids: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    let cpus = topology::allowed().expect("the kernel tells");
    let begun = Barrier::new(threads + 1);
    std::thread::scope(|s| {
        for thread in 0..threads {
            let (over, ended, tids, begun, cpus) = (&over, &ended, &tids, &begun, &cpus);
            s.spawn(move || {
                let _ended = Ended(ended);
                tids[thread].store(chappe_plat::process::tid(), Ordering::SeqCst);
                let mut own = work.begin(thread);
                let mut dice = Dice(thread as u64 + 1);
                begun.wait();
                let timer = (weather == Weather::Interrupted).then(|| Timer::start(Duration::from_micros(120)));
                // Relaxed: a look.
                while !over.load(Ordering::Relaxed) {
                    LEFT.set(INTERRUPTIONS);
                    work.round(&mut own);
                    if weather == Weather::Moved && dice.below(64) == 0 {
                        let cpu = cpus[dice.below(cpus.len() as u64) as usize];
                        topology::allow(&[cpu]).expect("it is allowed");
                    }
                }
                drop(timer);
                work.end(own);
            });
        }
        begun.wait();
        let end = Instant::now() + time;
        let stop = Ending(&over);
        disturb(weather, &tids, &cpus, (end, &tried), s, &over);
        drop(stop);
        watch(&ended, threads);
    });
}

/// All end, even if the thread that says so has failed.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Counts the threads that have ended, or failed.
struct Ended<'a>(&'a AtomicU32);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A list that was damaged may have no end: then some thread never ends either, and nobody could say so.
fn watch(ended: &AtomicU32, threads: usize) {
    let late = Instant::now() + Duration::from_secs(20);
    while (ended.load(Ordering::SeqCst) as usize) < threads {
        if Instant::now() > late {
            // Past the test harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "the test's watchdog has panicked at this: threads do not end");
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn disturb<'s>(
    weather: Weather,
    tids: &[AtomicU32],
    cpus: &[u32],
    (end, tried): (Instant, &dyn Fn() -> bool),
    scope: &'s std::thread::Scope<'s, '_>,
    over: &'s AtomicBool,
) {
    if weather == Weather::Preempted {
        for &cpu in cpus {
            scope.spawn(move || {
                topology::allow(&[cpu]).expect("it is allowed");
                // Relaxed: a look.
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            scope.spawn(move || {
                topology::allow(&[cpu]).expect("it is allowed");
                // Relaxed: a look.
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_micros(40));
                }
            });
        }
    }
    let mut dice = Dice(4711);
    let late = end + Duration::from_secs(30);
    while Instant::now() < end || (Instant::now() < late && !tried()) {
        delay(&mut dice);
        if weather == Weather::Moved {
            for tid in tids {
                let cpu = cpus[dice.below(cpus.len() as u64) as usize];
                move_to(tid.load(Ordering::SeqCst), cpu);
            }
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    calm();
}

/// Another step of all sections takes long from now on, and often a second one: some mistakes need two.
#[cfg(feature = "inject")]
fn delay(dice: &mut Dice) {
    use chappe_ras::delays::{POINTS, TURNS};
    let places = [0, 1].map(|_| dice.below(POINTS as u64) as usize);
    for (at, rounds) in TURNS.iter().enumerate() {
        // Relaxed: how long it is does not matter.
        rounds.store(if places.contains(&at) { dice.below(6000) as u32 } else { 0 }, Ordering::Relaxed);
    }
}

#[cfg(feature = "inject")]
fn calm() {
    use chappe_ras::delays::TURNS;
    // Relaxed: as above.
    TURNS.iter().for_each(|rounds| rounds.store(0, Ordering::Relaxed));
}

#[cfg(not(feature = "inject"))]
fn delay(_: &mut Dice) {}

#[cfg(not(feature = "inject"))]
fn calm() {}
