//! Records of threads that begin, and of those whose handles have gone: from the proc's free list, or the table's. Invariants: the proc's.

use super::*;

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
pub(crate) fn make(runtime: Option<&Runtime>) -> std::io::Result<Start> {
    if let Some(me) = here(runtime) {
        let proc = me.proc();
        proc.enter();
        let free = proc.take_free();
        proc.leave();
        if let Some(thread) = free {
            proc.begun.set(proc.begun.get() + 1);
            return Ok(Start { thread, proc, near: Some(me) });
        }
    }
    make_new(runtime)
}

/// The caller, if its proc is one of that runtime's; none named: of any.
#[inline(always)]
fn here(runtime: Option<&Runtime>) -> Option<&'static Thread> {
    let me = current().filter(|me| !me.away.get())?;
    runtime.is_none_or(|r| std::ptr::eq(r.shared(), me.proc().shared)).then_some(me)
}

#[inline(never)]
fn make_new(runtime: Option<&Runtime>) -> std::io::Result<Start> {
    if let Some(me) = here(runtime) {
        let (thread, proc) = (record::take()?, me.proc());
        proc.begun.set(proc.begun.get() + 1);
        return Ok(Start { thread, proc, near: Some(me) });
    }
    let shared = match runtime {
        Some(runtime) => runtime.shared(),
        None => Runtime::standard()?.shared(),
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
