//! The report on a deadlock: what each light thread of this process waits for, when no thread can ever go on.

use crate::end;
use crate::record::{self, Thread};
use crate::runtime::Shared;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::light::Waits;
use chappe_plat::light::asked::STOPPED;
use chappe_plat::process;

/// The light thread for whose end the process's first kernel thread waits; 0: for none.
static JOINED: AtomicU32 = AtomicU32::new(0);

/// A kernel thread waits for a light thread's end.
pub(crate) fn joins(thread: &Thread, wait: impl FnOnce()) {
    let is_first = process::tid() == process::pid();
    if is_first {
        JOINED.store(thread.number(), Ordering::SeqCst); // SeqCst: before its sleep.
    }
    wait();
    if is_first {
        JOINED.store(0, Ordering::SeqCst); // SeqCst: before whatever it does next.
    }
}

/// Whether the process has no kernel threads but ours and its first, and that one waits for a light thread that goes on yet: it may have been
/// stopped on its way out of that wait.
pub(crate) fn nobody_else() -> bool {
    let all = process::own_threads();
    let only_first = || all.iter().all(|(tid, name)| name.starts_with("chappe-") || *tid == process::pid());
    // SeqCst: as in `joins`.
    let joined = || record::number(JOINED.load(Ordering::SeqCst));
    !all.is_empty() && only_first() && joined().is_some_and(end::goes_on)
}

/// What a thread waits for, in words.
pub(crate) fn waits(thread: &Thread) -> String {
    // Relaxed: a look.
    if thread.core.control.load(Ordering::Relaxed) & STOPPED != 0 {
        return "is suspended".into();
    }
    words(thread.core.waits.get(), thread.core.at.get())
}

/// The same of what was read.
pub(crate) fn words(waits: Waits, at: u64) -> String {
    match waits {
        Waits::Nothing => "ready".into(),
        Waits::Send => format!("waits to send on tube {at:#x}"),
        Waits::Recv => format!("waits to receive from tube {at:#x}"),
        Waits::Choice => format!("waits for one of {at} arms"),
        Waits::Sleep => "sleeps".into(),
        Waits::Join => format!("waits for thread {at} to end"),
        Waits::Object => "waits for a private semaphore, pool or lock".into(),
        Waits::Named => format!("waits for something named, as member {at}"),
        Waits::Descriptor => format!("waits for descriptor {at}"),
        Waits::Parked => "is parked".into(),
        Waits::Events => format!("waits for events {at:#x}"),
        Waits::Lock => format!("waits for the lock at {at:#x}, and lends its turns to the holder"),
        Waits::Meeting => "waits for the other side of a meeting".into(),
    }
}

/// Nobody can ever go on.
pub(crate) fn deadlock(shared: &Shared) -> ! {
    eprintln!("chappe: deadlock: all {} light threads wait for each other:", shared.live());
    let ours = |thread: &&Thread| thread.lives.get() && std::ptr::eq(thread.proc().shared, shared);
    const MOST: usize = 100;
    for thread in record::all().filter(ours).take(MOST) {
        let name = thread.name().map_or(String::new(), |name| format!(" ({name})"));
        eprintln!("  thread {}{name} {}", thread.number(), waits(thread));
    }
    process::exit(2)
}
