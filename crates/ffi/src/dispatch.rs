//! Waits for a loop of events: a call that begins to wait and returns, and a callback when what was waited for is the process's.
//!
//! `chappe_dispatch_fd` answers one descriptor for the process. It is readable when a wait may be over; the loop (libuv's, GLib's, libevent's, one of
//! poll(2)) watches it and calls `chappe_dispatch`, which calls the callbacks. However many waits there are, no thread waits for each, and
//! nothing is looked at while nothing is given.
//!
//! A wait has its place in the line of the threads of all processes from the call on. It is granted what it waits for when that is given, and the
//! callback follows in the next `chappe_dispatch`: a loop that does not run keeps it from the others.
//!
//! Threads. The thread that calls `chappe_dispatch` calls back, with none of the library's locks held: a callback may call everything, also
//! begin and cancel waits, close handles, and dispatch. It returns; it leaves by no longjmp(3), exception or pthread_exit(3). Several threads may
//! dispatch at once: each callback is called once. While one callback runs, the descriptor is readable for the others that are to be called: a
//! loop within it, or another thread, calls them. For named objects one thread of the library's sleeps, by arena.
//!
//! Ends. The handle of a semaphore, pool, condition variable or map may be closed while waits for its object go on: close ends none of them. Of an object that is removed the callbacks get
//! -EIDRM. When the process dies, its waits leave the line, and what they were granted goes to the next waiter; a permit returns, as any other.
//! But a wake-up that was saved is consumed by `chappe_semaphore_down_async` itself: if the process ends before the callback, by a kill
//! or by exit(3), it is gone, as one that a thread consumed. `chappe_async_cancel` gives it on. A forked child
//! has no waits of its parent, and a descriptor of its own. exec ends them. At the end of the process no callback is called.

use crate::failure::{Answer, Failure, answer, done};
use crate::handle;
use crate::input;
use crate::permit::{Place, chappe_permit};
use crate::pool::{chappe_pool, is_not_too_many};
use crate::semaphore::chappe_semaphore;
use chappe::raw::{Hold, incarnation};
use chappe::woken::Woken;
use chappe::{OwnedPermit, OwnedPermits, Pool, Semaphore};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::future::{Future, poll_fn};
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is called when a wait is over: `result` is 0 or more, as the call says that began it, or the negative number of errno(3), of which
/// `chappe_last_error` says more within the callback.
/// `data` is what was given when the wait began.
pub type chappe_done = Option<unsafe extern "C" fn(data: *mut c_void, result: c_int)>;

/// A wake-up that was consumed for a callback that is not called yet.
struct Unit(Option<Semaphore>);

impl Drop for Unit {
    fn drop(&mut self) {
        if let Some(semaphore) = self.0.take() {
            let _ = semaphore.up();
        }
    }
}

/// Gives the caller what was taken, or says why nothing was, in the thread that calls back; answers what the callback gets. Dropped, what was taken
/// goes back.
type Finish = Box<dyn FnOnce() -> Answer<c_int> + Send>;
type Awaited = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// How far a wait is.
enum At {
    Waits(Awaited),
    Over(Finish),
    /// It was called back, or cancelled.
    Gone,
}

/// The caller's memory, to which a wait writes when it is over.
pub struct Memory<T>(*mut T);

// SAFETY: an address; only the thread that calls back writes there, by the caller's promise that it is there until then.
unsafe impl<T> Send for Memory<T> {}

impl<T> Memory<T> {
    pub fn new(at: *mut T) -> Memory<T> {
        Memory(at)
    }

    pub fn get(&self) -> *mut T {
        self.0
    }
}

struct Wait {
    at: Mutex<At>,
    waker: Waker,
    call: unsafe extern "C" fn(*mut c_void, c_int),
    /// An address, for the callback alone.
    data: usize,
    /// What it does is done for good: once it is over it is called back.
    stays: bool,
    /// Of one that another thread may end between two polls.
    asked: Option<Asked>,
}

/// Whether a wait is asked to end whose record another thread may have taken since its last poll. It knows when it is polled next: if it is over then, it has
/// come too late to end it; if not, it ends.
#[derive(Clone, Default)]
pub struct Asked(Arc<AtomicBool>);

impl Asked {
    pub fn is(&self) -> bool {
        // Relaxed: it is set, and read, by the thread that has the wait's lock.
        self.0.load(Ordering::Relaxed)
    }

    /// What a part of the wait answers, or `None` once the wait is asked to end.
    pub async fn or<T>(&self, part: impl Future<Output = T>) -> Option<T> {
        let mut part = pin!(part);
        poll_fn(|cx| if self.is() { Poll::Ready(None) } else { part.as_mut().poll(cx).map(Some) }).await
    }
}

/// The waits of a process.
///
/// - D1: what is in `due` is not forgotten, and no callback keeps the others from being called. A thread that has put numbers there takes them
///   one at a time, and says by `tell_rest` that there are more before it calls back, and when it leaves. So while a number is there, the
///   descriptor is readable, or a thread that is not in a callback goes on with them.
struct Waits {
    incarnation: u64,
    woken: Woken,
    /// Those that may be over and were looked at by nobody, in their order.
    due: Mutex<VecDeque<u64>>,
    /// Makes the descriptor readable for what is in `due`. It notes `REST`.
    rest: Waker,
    /// By number. No wait's own lock is taken under this one.
    all: Mutex<HashMap<u64, Arc<Wait>>>,
}

/// Those of this process. What a child inherits stays as it is: another thread of its parent may have been in it.
static WAITS: AtomicPtr<Waits> = AtomicPtr::new(null_mut());
/// The number of no wait.
const REST: u64 = 0;
/// No number is used twice, nor in a child.
static LAST: AtomicU64 = AtomicU64::new(0);

fn waits() -> Answer<&'static Waits> {
    // Acquire: the waits as their maker left them.
    let seen = WAITS.load(Ordering::Acquire);
    // SAFETY: NULL, or leaked.
    if let Some(waits) = unsafe { seen.as_ref() }.filter(|waits| waits.incarnation == incarnation()) {
        return Ok(waits);
    }
    let woken = Woken::new()?;
    let rest = woken.waker(REST);
    let made = Waits { incarnation: incarnation(), woken, due: Mutex::default(), rest, all: Mutex::default() };
    let made = Box::into_raw(Box::new(made));
    // AcqRel: as above, of either maker's.
    match WAITS.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: leaked from now on.
        Ok(_) => Ok(unsafe { &*made }),
        Err(other) => {
            // SAFETY: nobody else has seen it; the other is leaked.
            unsafe {
                drop(Box::from_raw(made));
                Ok(&*other)
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a wait that could not be begun: what the caller would give up for it stays his.
pub fn may_begin(call: chappe_done) -> Answer<()> {
    function(call)?;
    waits().map(drop)
}

fn function(call: chappe_done) -> Answer<unsafe extern "C" fn(*mut c_void, c_int)> {
    call.ok_or_else(|| Failure::new(libc::EFAULT, c"a callback is NULL where there must be one"))
}

/// Begins a wait; answers its number. It is polled at once: its place in the line is of this moment. So a unit that was saved is consumed here
/// already, and belongs to nobody until the callback, but for a cancel (`Unit`). `finish` gives the caller what was taken.
pub fn begin<T: Send + 'static, E: Send + 'static>(
    call: chappe_done,
    data: *mut c_void,
    wait: impl Future<Output = Result<T, E>> + Send + 'static,
    finish: impl FnOnce(T) -> Answer<c_int> + Send + 'static,
) -> Answer<i64>
where
    Failure: From<E>,
{
    begun(call, data, finished(wait, finish), false, None)
}

/// The same of what cannot be given back: once it was done, the wait is not cancelled any more.
pub fn begin_for_good<T: Send + 'static, E: Send + 'static>(
    call: chappe_done,
    data: *mut c_void,
    asked: Option<Asked>,
    wait: impl Future<Output = Result<T, E>> + Send + 'static,
    finish: impl FnOnce(T) -> Answer<c_int> + Send + 'static,
) -> Answer<i64>
where
    Failure: From<E>,
{
    begun(call, data, finished(wait, finish), true, asked)
}

fn finished<T: Send + 'static, E: Send + 'static>(
    wait: impl Future<Output = Result<T, E>> + Send + 'static,
    finish: impl FnOnce(T) -> Answer<c_int> + Send + 'static,
) -> Awaited
where
    Failure: From<E>,
{
    Box::pin(async move {
        let over = wait.await;
        Box::new(move || finish(over?)) as Finish
    })
}

fn begun(call: chappe_done, data: *mut c_void, future: Awaited, stays: bool, asked: Option<Asked>) -> Answer<i64> {
    let (call, waits) = (function(call)?, waits()?);
    // Relaxed: a number.
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let (waker, data) = (waits.woken.waker(number), data.expose_provenance());
    let wait = Arc::new(Wait { at: Mutex::new(At::Waits(future)), waker, call, data, stays, asked });
    locked(&waits.all).insert(number, wait.clone());
    if wait.poll() {
        wait.waker.wake_by_ref();
    }
    Ok(number as i64)
}

impl Waits {
    /// Puts those that were woken behind the others that are due; answers how many these are now.
    fn gather(&self) -> usize {
        let woken = self.woken.take();
        let mut due = locked(&self.due);
        due.extend(woken.into_iter().filter(|&number| number != REST));
        due.len()
    }

    /// D1.
    fn tell_rest(&self) {
        let is_more = !locked(&self.due).is_empty();
        if is_more {
            self.rest.wake_by_ref();
        }
    }

    /// Calls back those that are over of the ones that are due now, not of those that come meanwhile: a loop has other things to do. Answers how many.
    fn dispatch(&self) -> c_int {
        let mut called = 0;
        for _ in 0..self.gather() {
            let next = locked(&self.due).pop_front();
            // A loop within a callback, or another thread, had the others.
            let Some(number) = next else { break };
            let wait = locked(&self.all).get(&number).cloned();
            let Some(wait) = wait.filter(|wait| wait.poll()) else { continue };
            locked(&self.all).remove(&number);
            let left = wait.leave();
            if let At::Over(finish) = left {
                self.tell_rest();
                wait.call(finish);
                called += 1;
                // The callback forked: these are the parent's, as is the descriptor.
                if self.incarnation != incarnation() {
                    return called;
                }
            }
        }
        if called > 0 {
            // Not readable for what is not due any more.
            self.gather();
        }
        self.tell_rest();
        called
    }
}

impl Wait {
    /// Looks whether it is over.
    fn poll(&self) -> bool {
        self.polled(&mut locked(&self.at))
    }

    fn polled(&self, at: &mut At) -> bool {
        if let At::Waits(future) = at {
            let poll = || future.as_mut().poll(&mut Context::from_waker(&self.waker));
            let over = catch_unwind(AssertUnwindSafe(poll));
            // As if it had been in the callback's thread.
            let fault = |panic| Poll::Ready(Box::new(move || -> Answer<c_int> { resume_unwind(panic) }) as Finish);
            if let Poll::Ready(finish) = over.unwrap_or_else(fault) {
                *at = At::Over(finish);
            }
        }
        matches!(*at, At::Over(_))
    }

    /// Ends it. What was done for good is left for the callback.
    fn cancel(&self) -> At {
        let mut at = locked(&self.at);
        if let (Some(Asked(asked)), At::Waits(_)) = (&self.asked, &*at) {
            // Relaxed: see `Asked::is`.
            asked.store(true, Ordering::Relaxed);
            if self.polled(&mut at) {
                // The thread that ended it may not have come to its call of the waker yet.
                self.waker.wake_by_ref();
            }
        }
        if self.stays && matches!(*at, At::Over(_)) { At::Gone } else { std::mem::replace(&mut *at, At::Gone) }
    }

    /// What it came to, for the one that asks first.
    fn leave(&self) -> At {
        std::mem::replace(&mut *locked(&self.at), At::Gone)
    }

    /// Gives the caller what was taken, and calls back.
    fn call(&self, finish: Finish) {
        let result = answer(finish);
        // SAFETY: the caller's promise: the callback is there while the wait is, and `data` is for it.
        unsafe { (self.call)(std::ptr::with_exposed_provenance_mut(self.data), result) };
    }
}

/// The descriptor that is readable when `chappe_dispatch` has something to do: for poll(2), epoll(7) and loops of events. It is the library's: do
/// not read or close it. In a forked child it is the parent's; ask again there.
///
/// Errors: the system's, if it has no descriptor left.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_dispatch_fd() -> c_int {
    answer(|| Ok(waits()?.woken.as_fd().as_raw_fd()))
}

/// Calls the callbacks of the waits that are over; answers how many. Never waits.
///
/// Errors: as `chappe_dispatch_fd`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_dispatch() -> c_int {
    let taken = answer(|| waits().map(|_| 0));
    let Ok(waits) = waits() else { return taken };
    waits.dispatch()
}

/// Ends a wait: its callback is not called any more, and what it was granted, or had already, goes to the next waiter.
///
/// Errors: -ESRCH if there is no such wait of this process: it was cancelled, or called back, or another thread is about to call it back; or it has sent or
/// received its record, and is called back by the next `chappe_dispatch`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_async_cancel(wait: i64) -> c_int {
    done(|| {
        let (waits, number) = (waits()?, wait as u64);
        let its = locked(&waits.all).get(&number).cloned();
        // What it had goes back with none of the locks held.
        match its.map(|wait| wait.cancel()) {
            None | Some(At::Gone) => {
                Err(Failure::new(libc::ESRCH, c"there is no such wait: it is over, or was cancelled"))
            }
            Some(_) => {
                locked(&waits.all).remove(&number);
                Ok(())
            }
        }
    })
}

/// As `chappe_semaphore_down`, without waiting: begins a wait, and answers its number, above 0. `call` is called by `chappe_dispatch` when a wake-up was
/// consumed for it, also if one was saved already. That one is consumed by this call, not by `chappe_dispatch`: it is gone if the process ends between
/// them, while one that comes later goes to the next waiter then. Where that matters, use a pool.
///
/// Errors: -EBADF; -EFAULT if `call` is NULL; the system's, if it has no descriptor left. The callback gets -EIDRM if the semaphore is or gets
/// removed, -EUSERS if the arena has no place left and no other wait of this process has one at this semaphore, and the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_semaphore_down_async(
    semaphore: *mut chappe_semaphore,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let semaphore = handle::get::<Semaphore>(semaphore)?.clone();
        let wait = async move {
            let down = semaphore.down_async().await;
            down.map(|()| Unit(Some(semaphore)))
        };
        let finish = |mut unit: Unit| {
            unit.0.take();
            Ok(0)
        };
        begin(call, data, wait, finish)
    })
}

/// As `chappe_pool_acquire_owned`, without waiting: begins a wait, and answers its number, above 0. `call` is called by `chappe_dispatch` when a permit was
/// taken for it, and lies at `permit`, which must be there until then; it belongs to the process, and any thread may give it back.
///
/// Errors: -EBADF; -EFAULT if `permit` or `call` is NULL; the system's, if it has no descriptor left. The callback gets what
/// `chappe_pool_acquire_owned` answers; -EUSERS only if no other wait of this process has a place at this pool.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_async(
    pool: *mut chappe_pool,
    permit: *mut chappe_permit,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let pool = handle::get::<Pool>(pool)?.clone();
        Place::new(permit)?;
        let permit = Memory::new(permit);
        let wait = async move { pool.acquire_async().await };
        let finish = move |taken: OwnedPermit| {
            Place::new(permit.get())?.of_process(Hold::of_owned(taken));
            Ok(0)
        };
        begin(call, data, wait, finish)
    })
}

/// As `chappe_pool_acquire_many`, without waiting: as `chappe_pool_acquire_async`, of `n` permits, which lie at `permits[0]` to `permits[n - 1]`. Waiters behind
/// it wait until it has got all of them.
///
/// Errors: as `chappe_pool_acquire_async`; -ERANGE if the pool has fewer than `n`, and the callback gets it if it gets fewer; -EINVAL if `n` is negative.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_pool_acquire_many_async(
    pool: *mut chappe_pool,
    n: i64,
    permits: *mut chappe_permit,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let (pool, n) = (handle::get::<Pool>(pool)?.clone(), input::count_or_most(n)?);
        is_not_too_many(&pool, n)?;
        drop(Place::many(permits, n as usize)?);
        let permits = Memory::new(permits);
        let wait = async move { pool.acquire_many_async(n).await };
        let finish = move |taken: OwnedPermits| {
            let mut places = Place::many(permits.get(), n as usize)?;
            Hold::of_owned_many(taken, |hold| places.next().into_iter().for_each(|place| place.of_process(hold)));
            Ok(0)
        };
        begin(call, data, wait, finish)
    })
}
