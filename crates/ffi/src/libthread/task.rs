//! Procs and threads: making, ending, naming, interrupting and killing them.
//!
//! - T1: a proc is a runtime with one proc, so its threads run on one kernel thread, one at a time, and change only where they wait, yield
//!   or end. The runtime of a proc that has ended is kept for the next.
//! - T2: a [`Task`] is found by the number of its light thread, in a table that only that thread writes to: finding oneself is two loads. Others
//!   find it by its id, in `ALL`, and keep it by its count.
//! - T3: the interrupter sets the request first, and gives the thread its token second; the thread clears the request
//!   when it begins an operation. So an interrupt ends the operation in progress, and no later one; a token that comes
//!   too late makes one wait check once more.
//! - T4: a thread that is to be killed dies where it begins an operation, or where its wait ends: there is nothing to be given back then.
//! - T5: the process ends when its last proc has, with the status of the first one's last thread.

use super::call::{self, Function};
use super::{code, fatal, text};
use chappe::thread::{self, Builder, Runtime, Thread};
use chappe::{Interrupt, interruptible};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The usable size of a pooled stack. A thread that asks for more gets a stack of its own.
const POOLED: usize = 112 * 1024;

/// A proc.
pub struct Proc {
    /// Until it ends.
    runtime: Mutex<Option<Runtime>>,
    /// Its threads.
    live: AtomicUsize,
    /// Its kernel thread, once it runs.
    // Ordering: Release and Acquire: the handler is there.
    tid: AtomicI32,
    /// The signals that its kernel thread does not take: its maker's.
    mask: libc::sigset_t,
    /// One of the library's own, for which the program does not go on.
    serves: bool,
    /// The first one.
    first: bool,
    /// Its threads', one at a time.
    data: UnsafeCell<*mut c_void>,
    /// Operations on channels, and those that waited: written by its threads, one at a time.
    counts: [AtomicU64; 2],
}

// SAFETY: T1: what is in a cell is its threads', which run one at a time.
unsafe impl Sync for Proc {}
// SAFETY: as above.
unsafe impl Send for Proc {}

/// What only the thread itself touches.
struct Own {
    data: *mut c_void,
    name: Option<CString>,
    state: CString,
    /// Where its function was called.
    place: usize,
    /// Its last `werrstr`.
    error: String,
    /// A note is being handled on its stack: nothing may wait or yield.
    in_note: bool,
}

/// A thread.
pub struct Task {
    pub id: c_int,
    pub proc: Arc<Proc>,
    /// What ends its waits.
    pub interrupt: Interrupt,
    // Ordering: Relaxed: it changes when its thread says so.
    group: AtomicI32,
    killed: AtomicBool,
    thread: OnceLock<Thread>,
    own: UnsafeCell<Own>,
}

// SAFETY: `own` is the thread's own.
unsafe impl Sync for Task {}
// SAFETY: as above.
unsafe impl Send for Task {}

static ALL: Mutex<BTreeMap<c_int, Arc<Task>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicI32 = AtomicI32::new(1);
/// Runtimes without a proc.
static SPARE: Mutex<Vec<Runtime>> = Mutex::new(Vec::new());
/// Procs that the program goes on for.
static PROCS: AtomicUsize = AtomicUsize::new(0);
/// The status that the program ends with.
static STATUS: AtomicI32 = AtomicI32::new(0);
/// The light thread that waits for the end of all.
static KEEPER: OnceLock<Thread> = OnceLock::new();

/// What procs have counted that have ended, and those that go on.
static COUNTED: Mutex<([u64; 2], Vec<Weak<Proc>>)> = Mutex::new(([0; 2], Vec::new()));

/// Entries of a part of the table.
const PART: usize = 1 << 12;
type Part = [AtomicPtr<Task>; PART];
static TABLE: [AtomicPtr<Part>; PART] = [const { AtomicPtr::new(null_mut()) }; PART];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task of the light thread of that number.
#[inline(always)]
fn seen(number: u32) -> Option<&'static AtomicPtr<Task>> {
    // Acquire: the part as it was made.
    let part = TABLE.get(number as usize / PART)?.load(Ordering::Acquire);
    // SAFETY: null, or a part, which is never given back.
    unsafe { part.as_ref() }.map(|part| &part[number as usize % PART])
}

#[cold]
fn made(number: u32) -> &'static AtomicPtr<Task> {
    let Some(place) = TABLE.get(number as usize / PART) else {
        fatal(format_args!("thread {number}: there are more threads than {}", PART * PART))
    };
    let part = Box::into_raw(Box::new([const { AtomicPtr::new(null_mut()) }; PART]));
    // AcqRel: as in `seen`. Acquire: another's.
    if place.compare_exchange(null_mut(), part, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: nobody has seen it.
        drop(unsafe { Box::from_raw(part) });
    }
    seen(number).expect("it was made just now")
}

/// The calling thread; `None`: the caller is none of this library.
#[inline(always)]
pub fn current() -> Option<&'static Task> {
    let number = thread::try_current()?.id().as_u32();
    // Relaxed: T2, our own.
    // SAFETY: the task stays until its thread has taken it out of the table.
    seen(number).and_then(|place| unsafe { place.load(Ordering::Relaxed).as_ref() })
}

/// The calling thread, which must be one of this library: ends the program otherwise.
fn caller(what: &str) -> &'static Task {
    current().unwrap_or_else(|| {
        fatal(format_args!(
            "{what}: the caller is no thread of this library; those are threadmain, and what threadcreate and proccreate begin"
        ))
    })
}

/// The caller begins an operation: T3, T4. `None`, too, where a note is handled: there nothing dies, waits or yields.
#[inline(always)]
pub fn enters() -> Option<&'static Task> {
    let me = current()?;
    // SAFETY: our own.
    if unsafe { (*me.own.get()).in_note } {
        return None;
    }
    me.dies_if_killed();
    me.interrupt.clear();
    Some(me)
}

/// An operation is over that has not waited: the others of the proc go first, as the manual says.
#[inline(always)]
pub fn leaves(me: Option<&'static Task>) {
    if let Some(me) = me {
        thread::yield_now();
        me.dies_if_killed();
    }
}

impl Task {
    #[inline(always)]
    pub fn dies_if_killed(&self) {
        // Relaxed: seen at the next operation, or after the wait that was ended for it.
        if self.killed.load(Ordering::Relaxed) {
            self.exits();
        }
    }

    /// It has begun so many operations on channels.
    #[inline(always)]
    pub fn calls(&self, calls: usize) {
        self.proc.counts(calls as u64, 0);
    }

    /// One of them waits.
    #[inline(always)]
    pub fn waits(&self) {
        self.proc.counts(0, 1);
    }

    fn exits(&self) -> ! {
        // SAFETY: the thread's own; it is within its function, and what is on the stack is C's, or owns nothing.
        unsafe { call::leave((*self.own.get()).place) }
    }

    /// Its own part, in the calling thread.
    fn own(&self, then: impl FnOnce(&mut Own)) {
        // SAFETY: only the thread itself calls this, and not within `then`.
        then(unsafe { &mut *self.own.get() });
    }

    /// Ends the wait that goes on there: T3.
    pub fn interrupts(&self) {
        self.interrupt.try_interrupt(1);
        let Some(thread) = self.thread.get() else { return };
        thread.unpark();
        if thread.is_running() && !current().is_some_and(|me| std::ptr::eq(me, self)) {
            self.proc.pokes();
        }
    }

    fn kills(&self) {
        self.killed.store(true, Ordering::SeqCst); // SeqCst: before it is woken.
        self.interrupts();
    }

    /// While a note is handled on its stack.
    pub fn notes(&self, is: bool) {
        self.own(|own| own.in_note = is);
    }
}

/// The signal that ends a system call. Its default action is to be ignored, so it disturbs no thread without a handler.
const POKE: c_int = libc::SIGURG;

extern "C" fn nothing(_: c_int) {}

fn takes_pokes() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: valid places; a handler that does nothing, without SA_RESTART, where the program has none.
        unsafe {
            libc::sigaction(POKE, std::ptr::null(), old.as_mut_ptr());
            let mut new = old.assume_init();
            if new.sa_sigaction == libc::SIG_DFL || new.sa_sigaction == libc::SIG_IGN {
                new.sa_sigaction = nothing as *const () as usize;
                thread::wakes_none(POKE, new.sa_sigaction);
                new.sa_flags = 0;
                libc::sigaction(POKE, &raw const new, null_mut());
            }
        }
    });
}

impl Proc {
    /// Ends the system call that its kernel thread is in, if that can be ended.
    pub fn pokes(&self) {
        let tid = self.tid.load(Ordering::Acquire);
        if tid != 0 {
            // SAFETY: one of our own threads, or none.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, POKE) };
        }
    }

    /// Its first thread runs.
    fn begins(&self) {
        // Relaxed: T1.
        if self.tid.load(Ordering::Relaxed) == 0 {
            takes_pokes();
            // SAFETY: they only answer, or change this kernel thread's mask.
            let tid = unsafe {
                let mut mask = self.mask;
                libc::sigdelset(&raw mut mask, POKE);
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut());
                libc::gettid()
            };
            self.tid.store(tid, Ordering::Release);
        }
    }

    /// So many operations, and so many that waited.
    #[inline(always)]
    fn counts(&self, calls: u64, waits: u64) {
        for (count, more) in self.counts.iter().zip([calls, waits]) {
            // Relaxed, both: only the proc's kernel thread writes (T1); observers read a hint.
            count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        }
    }

    fn counted(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.counts[at].load(Ordering::Relaxed)) // Relaxed: a look.
    }

    fn ends(&self) {
        {
            let mut counted = lock(&COUNTED);
            counted.0 = std::array::from_fn(|at| counted.0[at] + self.counted()[at]);
            counted.1.retain(|proc| !std::ptr::eq(proc.as_ptr(), self));
        }
        let runtime = lock(&self.runtime).take();
        lock(&SPARE).extend(runtime);
        // AcqRel: what the procs did comes before the program's end.
        if !self.serves && PROCS.fetch_sub(1, Ordering::AcqRel) == 1 {
            KEEPER.get().inspect(|keeper| keeper.unpark());
        }
    }
}

fn new_proc(serves: bool, first: bool, mask: libc::sigset_t) -> Arc<Proc> {
    let spare = lock(&SPARE).pop();
    let runtime = spare.map_or_else(|| Runtime::new(1), Ok);
    let runtime =
        runtime.unwrap_or_else(|e| fatal(format_args!("proccreate: no kernel thread for one more proc: {e}")));
    if !serves {
        PROCS.fetch_add(1, Ordering::Relaxed); // Relaxed: before its threads.
    }
    let proc = Arc::new(Proc {
        runtime: Mutex::new(Some(runtime)),
        live: AtomicUsize::new(0),
        tid: AtomicI32::new(0),
        mask,
        serves,
        first,
        data: UnsafeCell::new(null_mut()),
        counts: [const { AtomicU64::new(0) }; 2],
    });
    lock(&COUNTED).1.push(Arc::downgrade(&proc));
    proc
}

fn own_mask() -> libc::sigset_t {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a valid place; it only answers.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    }
}

/// A pointer that goes with a thread.
struct Given(*mut c_void);
// SAFETY: the caller hands its pointer on to the thread.
unsafe impl Send for Given {}

fn begin(what: &str, proc: Arc<Proc>, function: Function, arg: *mut c_void, stack: c_uint) -> Arc<Task> {
    let me = current();
    proc.live.fetch_add(1, Ordering::Relaxed); // Relaxed: by a thread of the proc, or before it has any.
    let own =
        Own { data: null_mut(), name: None, state: CString::default(), place: 0, error: String::new(), in_note: false };
    let task = Arc::new(Task {
        id: NEXT.fetch_add(1, Ordering::Relaxed), // Relaxed: a number.
        interrupt: Interrupt::new(),
        group: AtomicI32::new(me.map_or(0, |me| me.group.load(Ordering::Relaxed))),
        killed: AtomicBool::new(false),
        thread: OnceLock::new(),
        own: UnsafeCell::new(own),
        proc,
    });
    lock(&ALL).insert(task.id, Arc::clone(&task));
    let (its, given) = (Arc::clone(&task), Given(arg));
    let body = move || {
        let given = given;
        run(its, function, given.0);
    };
    let mut builder = Builder::new().pinned();
    if stack as usize > POOLED {
        builder = builder.stack_size(stack as usize);
    }
    let here = me.is_some_and(|me| Arc::ptr_eq(&me.proc, &task.proc));
    let begun = if here {
        builder.spawn(body)
    } else {
        let runtime = lock(&task.proc.runtime);
        builder.spawn_on(runtime.as_ref().expect("a proc has a runtime until it ends"), body)
    };
    if let Err(e) = begun {
        fatal(format_args!("{what}: no room for thread {}: {e}", task.id));
    }
    task
}

/// The whole of a thread.
fn run(task: Arc<Task>, function: Function, arg: *mut c_void) {
    let me = thread::current();
    let number = me.id().as_u32();
    let place = seen(number).unwrap_or_else(|| made(number));
    place.store(Arc::as_ptr(&task).cast_mut(), Ordering::Relaxed); // Relaxed: T2.
    let _ = task.thread.set(me);
    task.proc.begins();
    // Relaxed: as in `dies_if_killed`.
    if !task.killed.load(Ordering::Relaxed) {
        let at = task.own.get();
        // SAFETY: the caller's function and argument; `place` is the task's, which stays.
        interruptible(&task.interrupt, || unsafe { call::call(function, arg, &raw mut (*at).place) });
    }
    lock(&ALL).remove(&task.id);
    place.store(null_mut(), Ordering::Relaxed); // Relaxed: T2.
    // AcqRel: what the others of the proc did.
    if task.proc.live.fetch_sub(1, Ordering::AcqRel) == 1 {
        task.proc.ends();
    }
}

/// Begins a proc of the library's own, which does this.
pub fn serve(body: Box<dyn FnOnce() + Send>) -> Arc<Task> {
    extern "C" fn does(body: *mut c_void) {
        // SAFETY: as it was given below.
        let body = unsafe { Box::from_raw(body.cast::<Box<dyn FnOnce() + Send>>()) };
        body();
    }
    let proc = new_proc(true, false, own_mask());
    begin("ioproc", proc, does, Box::into_raw(Box::new(body)).cast(), 0)
}

/// The task of that id.
fn find(id: c_int) -> Option<Arc<Task>> {
    lock(&ALL).get(&id).cloned()
}

/// Does something to all of a group: how many there were.
fn of_group(group: c_int, then: impl Fn(&Task)) -> c_int {
    let is_in = |task: &&Arc<Task>| task.group.load(Ordering::Relaxed) == group;
    let all: Vec<Arc<Task>> = lock(&ALL).values().filter(is_in).cloned().collect();
    all.iter().for_each(|task| then(task));
    all.len() as c_int
}

/// What `main` does: the first proc runs `threadmain`; the status is that of the program.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_thread_main(
    argc: c_int,
    argv: *mut *mut c_char,
    main: unsafe extern "C" fn(c_int, *mut *mut c_char),
    stack: *const c_int,
) -> c_int {
    struct Args(c_int, *mut *mut c_char, unsafe extern "C" fn(c_int, *mut *mut c_char));
    extern "C" fn first(args: *mut c_void) {
        // SAFETY: as given below; it stays until all is over.
        let Args(argc, argv, main) = unsafe { &*args.cast::<Args>() };
        // SAFETY: the program's own.
        unsafe { main(*argc, *argv) };
    }
    // SAFETY: NULL, or the program's variable.
    let stack = unsafe { stack.as_ref() }.map_or(0, |stack| (*stack).max(0) as c_uint);
    let mask = own_mask();
    // Signals come to the procs, as they come to Plan 9's, but for those that tell of a fault.
    let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: valid places; the mask of the calling kernel thread, which only waits from here on.
    unsafe {
        libc::sigfillset(none.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(none.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
    }
    let proc = new_proc(false, true, mask);
    let args = Box::into_raw(Box::new(Args(argc, argv, main)));
    let (its, given) = (Arc::clone(&proc), Given(args.cast()));
    let keeper = {
        let runtime = lock(&proc.runtime);
        let runtime = runtime.as_ref().expect("just made");
        runtime.report_deadlocks();
        let body = move || {
            let given = given;
            let _ = KEEPER.set(thread::current());
            begin("threadmain", its, first, given.0, stack);
            // Acquire: what the procs did.
            while PROCS.load(Ordering::Acquire) > 0 {
                thread::park();
            }
        };
        Builder::new().name("keeper").spawn_on(runtime, body).unwrap_or_else(|e| fatal(format_args!("threadmain: {e}")))
    };
    drop(keeper.join());
    STATUS.load(Ordering::Acquire) // Acquire: as it was said.
}

/// `threadcreate`: the id of the new thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadcreate(function: Option<Function>, arg: *mut c_void, stack: c_uint) -> c_int {
    let Some(function) = function else { fatal("threadcreate: no function was given") };
    begin("threadcreate", Arc::clone(&caller("threadcreate").proc), function, arg, stack).id
}

/// `proccreate`: the id of the new thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_proccreate(function: Option<Function>, arg: *mut c_void, stack: c_uint) -> c_int {
    let Some(function) = function else { fatal("proccreate: no function was given") };
    let me = enters();
    let id = begin("proccreate", new_proc(false, false, own_mask()), function, arg, stack).id;
    leaves(me);
    id
}

/// `threadexits`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadexits(status: *const c_char) {
    let me = caller("threadexits");
    if me.proc.first {
        STATUS.store(code(status), Ordering::Release); // Release: for the thread that ends the program.
    }
    me.exits()
}

/// `threadexitsall`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadexitsall(status: *const c_char) {
    // SAFETY: it does not return.
    unsafe { libc::exit(code(status)) }
}

/// `yield`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_yield() {
    match enters() {
        Some(me) => leaves(Some(me)),
        None if current().is_none() => thread::yield_now(),
        // A note is handled.
        None => {}
    }
}

/// `threadid`; 0: the caller is none of this library's threads.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadid() -> c_int {
    current().map_or(0, |me| me.id)
}

/// `threadgrp`, `threadgetgrp`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadgetgrp() -> c_int {
    caller("threadgetgrp").group.load(Ordering::Relaxed)
}

/// `threadsetgrp`: what it was.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadsetgrp(group: c_int) -> c_int {
    caller("threadsetgrp").group.swap(group, Ordering::Relaxed)
}

/// `threadpid`: the kernel thread of its proc; -1: there is no such thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadpid(id: c_int) -> c_int {
    let Some(task) = find(id) else { return -1 };
    while task.proc.tid.load(Ordering::Acquire) == 0 {
        // It was begun just now.
        std::thread::yield_now();
    }
    task.proc.tid.load(Ordering::Acquire)
}

/// `threadint`: 0; -1: there is no such thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadint(id: c_int) -> c_int {
    find(id).map_or(-1, |task| {
        task.interrupts();
        0
    })
}

/// `threadintgrp`: how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadintgrp(group: c_int) -> c_int {
    of_group(group, Task::interrupts)
}

/// `threadkill`: 0; -1: there is no such thread.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadkill(id: c_int) -> c_int {
    find(id).map_or(-1, |task| {
        task.kills();
        0
    })
}

/// `threadkillgrp`: how many there are.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadkillgrp(group: c_int) -> c_int {
    of_group(group, Task::kills)
}

/// `threadsetname`, with the name as it is to be.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadsetname(name: *const c_char) {
    let name = text(name).into_owned();
    thread::set_name(name.clone());
    caller("threadsetname").own(|own| own.name = CString::new(name).ok());
}

/// `threadgetname`; NULL: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadgetname() -> *const c_char {
    let mut name = std::ptr::null();
    caller("threadgetname").own(|own| name = own.name.as_ref().map_or(name, |name| name.as_ptr()));
    name
}

/// `threadsetstate`, with the state as it is to be.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadsetstate(state: *const c_char) {
    let state = CString::new(text(state).into_owned()).unwrap_or_default();
    caller("threadsetstate").own(|own| own.state = state);
}

/// `threaddata`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threaddata() -> *mut *mut c_void {
    let at = caller("threaddata").own.get();
    // SAFETY: the task's, which stays until its thread ends.
    unsafe { &raw mut (*at).data }
}

/// `procdata`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_procdata() -> *mut *mut c_void {
    caller("procdata").proc.data.get()
}

/// What the calling thread's last `werrstr` said.
pub fn error_text<R>(then: impl FnOnce(&mut String) -> R) -> R {
    thread_local! {
        /// Of a kernel thread.
        static ERROR: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
    }
    match current() {
        // SAFETY: the thread's own.
        Some(me) => then(unsafe { &mut (*me.own.get()).error }),
        None => ERROR.with_borrow_mut(then),
    }
}

/// Operations on channels so far, and those that had to wait.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_threadcounts(calls: *mut c_ulong, waits: *mut c_ulong) {
    let counted = lock(&COUNTED);
    let all = counted.1.iter().filter_map(Weak::upgrade).map(|proc| proc.counted());
    let sum = all.fold(counted.0, |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    for (to, count) in [(calls, sum[0]), (waits, sum[1])] {
        // SAFETY: the caller's places, or NULL.
        unsafe { to.as_mut() }.into_iter().for_each(|to| *to = count as c_ulong);
    }
}
