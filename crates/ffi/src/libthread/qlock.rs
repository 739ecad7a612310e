//! Queueing locks, locks for readers and writers, rendezvous points and reference counts: lock(2), in the caller's memory.
//!
//! All zeros is a free lock, so a lock needs no call before its first use. A lock consists of a word (a spin lock, held
//! for moments) and a list of the waiters' nodes, which lie on the waiters' stacks. It is first come, first served: the
//! unlocker hands the lock to the first waiter. A light thread that waits lets its proc run others; a kernel thread
//! sleeps.
//!
//! - Q1: lists and states are touched only under the word. The waker copies the waiter's handle (`Who`) before it sets
//!   `has`: from then on the waiter may return, and its node is gone.
//! - Q2: a thread that sleeps at a rendez and is woken moves to the list of the lock, and wakes when it holds the lock.
//!
//! No interrupt ends these waits, as none does in Plan 9; a thread that is to be killed dies at the next operation.

use super::fatal;
use super::task::enters;
use chappe::thread::{self, Thread};
use std::ffi::{c_int, c_long};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};

/// A waiter's node, on the waiter's stack.
struct Node {
    next: *mut Node,
    /// It wants to write.
    writes: bool,
    /// 1: it has what it waits for.
    has: AtomicU32,
    who: Who,
}

#[derive(Clone)]
enum Who {
    Light(Thread),
    Kernel(std::thread::Thread),
}

impl Node {
    fn new(writes: bool) -> Node {
        let who = thread::try_current().map_or_else(|| Who::Kernel(std::thread::current()), Who::Light);
        Node { next: null_mut(), writes, has: AtomicU32::new(0), who }
    }

    fn waits(&self) {
        // Acquire: what the one before did.
        while self.has.load(Ordering::Acquire) == 0 {
            match self.who {
                Who::Light(_) => thread::park(),
                Who::Kernel(_) => std::thread::park(),
            }
        }
    }
}

/// Q1.
fn wake(node: *mut Node) {
    // SAFETY: it waits, so its stack is there.
    let who = unsafe { (*node).who.clone() };
    // SAFETY: as above. Release: what the one before did.
    unsafe { (*node).has.store(1, Ordering::Release) };
    match who {
        Who::Light(who) => who.unpark(),
        Who::Kernel(who) => who.unpark(),
    }
}

/// The waiters.
#[repr(C)]
struct List {
    head: *mut Node,
    tail: *mut Node,
}

impl List {
    fn push(&mut self, node: *mut Node) {
        // SAFETY: a thread whose node is in the list waits, so the node stays.
        unsafe {
            (*node).next = null_mut();
            if self.head.is_null() { self.head = node } else { (*self.tail).next = node }
        }
        self.tail = node;
    }

    fn pop(&mut self) -> Option<*mut Node> {
        let first = self.head;
        if first.is_null() {
            return None;
        }
        // SAFETY: as above.
        self.head = unsafe { (*first).next };
        Some(first)
    }

    fn first_writes(&self) -> Option<bool> {
        // SAFETY: as above.
        unsafe { self.head.as_ref() }.map(|node| node.writes)
    }
}

/// The word for a moment.
#[repr(transparent)]
struct Word(AtomicI32);

impl Word {
    fn with<R>(&self, then: impl FnOnce() -> R) -> R {
        let mut looks = 0;
        // Acquire: what the last one did. Relaxed: once more.
        while self.0.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            looks += 1;
            if looks % 100 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        let made = then();
        self.0.store(0, Ordering::Release); // Release: what was done.
        made
    }
}

/// A queueing lock.
#[repr(C)]
pub struct QLock {
    word: Word,
    locked: c_int,
    list: List,
}

/// A lock for readers and writers.
#[repr(C)]
pub struct RWLock {
    word: Word,
    writer: c_int,
    readers: c_int,
    list: List,
}

/// A rendezvous point.
#[repr(C)]
pub struct Rendez {
    l: *mut QLock,
    list: List,
}

/// A reference count.
#[repr(C)]
pub struct Ref {
    count: AtomicI64,
}

const _: () = assert!(size_of::<c_long>() == 8);

/// The lock's word, and what lies behind it.
macro_rules! under {
    ($lock:expr, $what:literal, $it:ident => $then:expr) => {{
        let at = $lock;
        if at.is_null() {
            fatal(concat!($what, ": the lock is nil: it is memory of zeros"));
        }
        // SAFETY: the caller's promise: a lock, whose word all take first (Q1).
        unsafe {
            (*(&raw const (*at).word)).with(|| {
                let $it = &mut *at;
                $then
            })
        }
    }};
}

fn take(l: *mut QLock, node: *mut Node) -> bool {
    under!(l, "qlock", it => {
        let free = it.locked == 0;
        if free { it.locked = 1 } else { it.list.push(node) }
        free
    })
}

fn give(l: *mut QLock, what: &str) {
    let next = under!(l, "qunlock", it => {
        if it.locked == 0 {
            fatal(format_args!("{what}: nobody has the lock {l:p}: only its holder unlocks it"));
        }
        let next = it.list.pop();
        if next.is_none() {
            it.locked = 0;
        }
        next
    });
    next.into_iter().for_each(wake);
}

/// `qlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_qlock(l: *mut QLock) {
    enters();
    let mut node = Node::new(true);
    if !take(l, &raw mut node) {
        node.waits();
    }
}

/// `qunlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_qunlock(l: *mut QLock) {
    give(l, "qunlock");
}

/// `canqlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_canqlock(l: *mut QLock) -> c_int {
    under!(l, "canqlock", it => {
        let free = it.locked == 0;
        if free {
            it.locked = 1;
        }
        free.into()
    })
}

fn may(it: &RWLock, writes: bool) -> bool {
    it.writer == 0 && if writes { it.readers == 0 } else { it.list.head.is_null() }
}

fn has(it: &mut RWLock, writes: bool) {
    if writes { it.writer = 1 } else { it.readers += 1 }
}

fn enter(l: *mut RWLock, writes: bool) {
    enters();
    let mut node = Node::new(writes);
    let at = &raw mut node;
    let free = under!(l, "rlock or wlock", it => {
        let free = may(it, writes);
        if free { has(it, writes) } else { it.list.push(at) }
        free
    });
    if !free {
        node.waits();
    }
}

fn try_enter(l: *mut RWLock, writes: bool) -> c_int {
    under!(l, "canrlock or canwlock", it => {
        let free = may(it, writes);
        if free {
            has(it, writes);
        }
        free.into()
    })
}

fn leave(l: *mut RWLock, writes: bool) {
    let mut woken = List { head: null_mut(), tail: null_mut() };
    under!(l, "runlock or wunlock", it => {
        let count = if writes { &mut it.writer } else { &mut it.readers };
        if *count == 0 {
            let (who, what) = if writes { ("writer", "wunlock") } else { ("reader", "runlock") };
            fatal(format_args!("{what}: no {who} has the lock {l:p}: only its holder unlocks it"));
        }
        *count -= 1;
        // The first, if it can; of readers all that stand together.
        while let Some(first) = it.list.first_writes() {
            let free = it.writer == 0 && (!first || it.readers == 0);
            if !free {
                break;
            }
            let node = it.list.pop().expect("there is one");
            has(it, first);
            woken.push(node);
        }
    });
    while let Some(node) = woken.pop() {
        wake(node);
    }
}

/// `rlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rlock(l: *mut RWLock) {
    enter(l, false);
}

/// `runlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_runlock(l: *mut RWLock) {
    leave(l, false);
}

/// `canrlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_canrlock(l: *mut RWLock) -> c_int {
    try_enter(l, false)
}

/// `wlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_wlock(l: *mut RWLock) {
    enter(l, true);
}

/// `wunlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_wunlock(l: *mut RWLock) {
    leave(l, true);
}

/// `canwlock`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_canwlock(l: *mut RWLock) -> c_int {
    try_enter(l, true)
}

/// The rendez's lock, which the caller has.
fn lock_of<'a>(r: *mut Rendez, what: &str) -> (&'a mut Rendez, *mut QLock) {
    // SAFETY: the caller's promise: a rendez, under its lock.
    let Some(it) = (unsafe { r.as_mut() }) else { fatal(format_args!("{what}: the rendez is nil")) };
    let l = it.l;
    if l.is_null() {
        fatal(format_args!("{what}: the rendez {r:p} has no lock: its field l says which"));
    }
    if under!(l, "rsleep or rwakeup", lock => lock.locked) == 0 {
        fatal(format_args!("{what}: the caller has not locked the lock {l:p} of the rendez {r:p}"));
    }
    (it, l)
}

/// `rsleep`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rsleep(r: *mut Rendez) {
    let (it, l) = lock_of(r, "rsleep");
    let mut node = Node::new(true);
    it.list.push(&raw mut node);
    give(l, "rsleep");
    node.waits();
}

fn wakes_one(r: *mut Rendez, what: &str) -> bool {
    let (it, l) = lock_of(r, what);
    let Some(node) = it.list.pop() else { return false };
    // Q2: the caller has the lock.
    under!(l, "rwakeup", lock => lock.list.push(node));
    true
}

/// `rwakeup`: how many were woken, 0 or 1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwakeup(r: *mut Rendez) -> c_int {
    wakes_one(r, "rwakeup").into()
}

/// `rwakeupall`: how many were woken.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_rwakeupall(r: *mut Rendez) -> c_int {
    let mut count = 0;
    while wakes_one(r, "rwakeupall") {
        count += 1;
    }
    count
}

fn count<'a>(r: *mut Ref, what: &str) -> &'a AtomicI64 {
    // SAFETY: the caller's promise: a count, which all touch by these calls.
    match unsafe { r.as_ref() } {
        Some(r) => &r.count,
        None => fatal(format_args!("{what}: the count is nil")),
    }
}

/// `incref`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_incref(r: *mut Ref) {
    count(r, "incref").fetch_add(1, Ordering::Relaxed); // Relaxed: the caller holds a reference already.
}

/// `decref`: what is left.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_decref(r: *mut Ref) -> c_long {
    count(r, "decref").fetch_sub(1, Ordering::AcqRel) - 1 // AcqRel: all that was done comes before the last.
}
