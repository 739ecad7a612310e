//! Records of threads that begin, and of those whose handles have gone: from the proc's free list, or the table's. Invariants: the proc's.

use super::wake::ready;
use super::{Proc, Shared};
use crate::record::{self, Thread, current};
use std::io;

/// Where a thread is to begin.
#[derive(Clone, Copy)]
pub(crate) enum On {
    /// The runtime of the calling light thread; for a kernel thread, that which this answers.
    Callers(fn() -> io::Result<&'static Shared>),
    /// This one.
    This(&'static Shared),
}

/// What a thread begins with.
pub(crate) struct Start {
    pub thread: &'static Thread,
    /// The proc that it begins on.
    pub proc: &'static Proc,
    /// The caller, if that is its proc as well.
    pub near: Option<&'static Thread>,
}

/// A record for a new thread, and the proc that it begins on.
#[inline(always)]
pub(crate) fn make(on: On) -> io::Result<Start> {
    if let Some(me) = here(on) {
        let proc = me.proc();
        proc.enter();
        let free = proc.take_free();
        proc.leave();
        if let Some(thread) = free {
            proc.begun.set(proc.begun.get() + 1);
            return Ok(Start { thread, proc, near: Some(me) });
        }
    }
    make_new(on)
}

/// The caller, if a thread may begin on its proc.
#[inline(always)]
fn here(on: On) -> Option<&'static Thread> {
    let me = current().filter(|me| !me.away.get())?;
    let is_one = match on {
        On::Callers(_) => true,
        On::This(shared) => std::ptr::eq(shared, me.proc().shared),
    };
    is_one.then_some(me)
}

#[inline(never)]
fn make_new(on: On) -> io::Result<Start> {
    if let Some(me) = here(on) {
        let (thread, proc) = (record::take()?, me.proc());
        proc.begun.set(proc.begun.get() + 1);
        return Ok(Start { thread, proc, near: Some(me) });
    }
    let shared = match on {
        On::This(shared) => shared,
        On::Callers(standard) => standard()?,
    };
    let thread = record::take()?;
    shared.came_in();
    Ok(Start { thread, proc: shared.next_proc(), near: None })
}

/// A new thread is ready. I1: its maker calls this once.
#[inline(always)]
pub(crate) fn start(Start { thread, proc, near }: Start) {
    if near.is_none() || !proc.try_push(thread) {
        ready(thread);
    }
}

/// A thread whose handle has gone, after it has ended.
pub(crate) fn recycle(thread: &'static Thread) {
    match current() {
        Some(me) if !me.away.get() => {
            let proc = me.proc();
            proc.enter();
            proc.put_free(thread);
            proc.leave();
        }
        _ => record::put(std::iter::once(thread)),
    }
}
