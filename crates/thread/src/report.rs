//! What the threads of this process do, for people: when nothing can ever go on.

use crate::record::{self, Thread};
use crate::runtime::Shared;
use crate::suspend::STOPPED;
use chappe_plat::atomic::Ordering;
use chappe_plat::light::Waits;
use chappe_plat::process;

/// Whether the process has no kernel threads but ours and its first, which waits for the runtime.
pub(crate) fn nobody_else() -> bool {
    let all = process::own_threads();
    !all.is_empty() && all.iter().all(|(tid, name)| name.starts_with("chappe-") || *tid == process::pid())
}

/// What a thread waits for, in words.
pub(crate) fn waits(thread: &Thread) -> String {
    // Relaxed: a look.
    if thread.control.load(Ordering::Relaxed) & STOPPED != 0 {
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
