//! The report on a deadlock: what each light thread of this process waits for, when no thread can ever go on.

use crate::record::{self, Thread};
use chappe_plat::atomic::Ordering;
use chappe_plat::light::Waits;
use chappe_plat::light::asked::STOPPED;
use chappe_plat::process;

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
pub(crate) fn deadlock() -> ! {
    let all = || record::all().filter(|thread| thread.lives.get());
    eprintln!("chappe: deadlock: all {} light threads wait for each other:", all().count());
    const MOST: usize = 100;
    for thread in all().take(MOST) {
        let name = thread.name().map_or(String::new(), |name| format!(" ({name})"));
        eprintln!("  thread {}{name} {}", thread.number(), waits(thread));
    }
    process::exit(2)
}
