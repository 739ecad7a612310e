//! Which light threads, and which tasks, have the attachments that this process lends.

use chappe_arena::Map;
use chappe_arena::layout::USUAL_MEMBERS;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::light;
#[cfg(not(feature = "loom"))]
use chappe_plat::light::Record;
#[cfg(not(feature = "loom"))]
use chappe_plat::process;
#[cfg(not(any(feature = "sim", feature = "loom")))]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
#[cfg(not(any(feature = "sim", feature = "loom")))]
use std::task::Waker;

/// The light threads and tasks that have the attachments of an arena, by member.
pub(crate) type Holders = [AtomicU64];

/// Those of the private arena.
static LENT: [AtomicU64; USUAL_MEMBERS as usize] = [const { AtomicU64::new(0) }; USUAL_MEMBERS as usize];
/// Those of the named arenas, by arena: as many as it has members, without storage where none was lent, and never freed.
pub static NAMED: Mutex<Vec<(usize, &'static Holders)>> = Mutex::new(Vec::new());
/// The process they belong to: in a forked child they are void.
static OF: AtomicU64 = AtomicU64::new(0);

/// The light threads that have the attachments of an arena.
pub fn holders(map: &Map) -> &'static Holders {
    if map.is_private() {
        return &LENT;
    }
    let mut named = light::lock(&NAMED);
    if let Some((_, holders)) = named.iter().find(|(of, _)| *of == key(map)) {
        return holders;
    }
    // SAFETY: zeros are atomics.
    let holders: &'static Holders =
        Box::leak(unsafe { Box::<Holders>::new_zeroed_slice(map.geometry().members as usize).assume_init() });
    named.push((key(map), holders));
    holders
}

/// Where an attachment's light thread is noted.
pub fn slot(map: &Map, member: u32) -> &'static AtomicU64 {
    let holders = holders(map);
    &holders[member as usize % holders.len()]
}

/// In another incarnation of the process than before, none of whose light threads has an attachment.
pub(crate) fn begin_anew(now: u64) {
    // Relaxed, both: the parent's. What is 0 is not written: it may have no storage.
    let was_lent = |who: &&AtomicU64| who.load(Ordering::Relaxed) != 0;
    let clear = |holders: &Holders| holders.iter().filter(was_lent).for_each(|who| who.store(0, Ordering::Relaxed)); // Relaxed: as above.
    clear(&LENT);
    light::lock(&NAMED).iter().for_each(|(_, holders)| clear(holders));
    OF.store(now, Ordering::Release); // Release: before the first attachment is lent.
}

pub fn key(map: &Map) -> usize {
    std::ptr::from_ref(map) as usize
}

/// The light thread or task that has an attachment.
#[cfg(not(feature = "loom"))]
#[derive(Clone, Copy)]
pub enum Holder {
    /// A light thread.
    Light(&'static Record),
    /// A task, or none at present: see the tasks' seats.
    #[cfg(not(feature = "sim"))]
    Task(&'static Sitter),
}

/// In a slot: the address is a sitter's.
#[cfg(not(any(feature = "sim", feature = "loom")))]
const SITS: u64 = 1;

/// Where a task that waits leaves its waker: E1 of the tasks. Of the waker's own functions, `clone` alone is called while the mutex is locked.
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[derive(Default)]
pub struct Sitter {
    noted: Mutex<Noted>,
    /// How many polls had noted a waker when it was last called.
    called: AtomicU64,
}

#[cfg(not(any(feature = "sim", feature = "loom")))]
#[derive(Default)]
struct Noted {
    waker: Option<Waker>,
    /// How many polls have noted one.
    polls: u64,
}

/// A waker that is not needed any more, dropped with this: I4 of the tasks, a panic of its drop ends there.
#[cfg(not(any(feature = "sim", feature = "loom")))]
#[must_use = "to be dropped with nothing locked"]
pub struct Needless(Option<Waker>);

#[cfg(not(any(feature = "sim", feature = "loom")))]
impl Drop for Needless {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            // What it panicked with may panic when it is dropped.
            catch_unwind(AssertUnwindSafe(|| drop(waker))).unwrap_or_else(std::mem::forget);
        }
    }
}

#[cfg(not(any(feature = "sim", feature = "loom")))]
impl Sitter {
    /// Notes the waker that is to be called from now on.
    pub fn note(&self, waker: &Waker) {
        let mut noted = light::lock(&self.noted);
        noted.polls += 1;
        if noted.waker.as_ref().is_some_and(|before| before.will_wake(waker)) {
            return;
        }
        let before = Needless(noted.waker.replace(waker.clone()));
        // It may come here again.
        drop(noted);
        drop(before);
    }

    /// From now on none is to be called. Answers the one that was, for the caller to drop.
    pub fn forget(&self) -> Needless {
        Needless(light::lock(&self.noted).waker.take())
    }

    /// Calls the waker, if there is one and it was not called since the last poll, as soon as the calling thread has none of chappe's locks. It
    /// counts as called when it has returned: a granter may be stopped before that, and another repeats the call. I4 of the tasks: a panic ends here.
    pub fn wake(&'static self) {
        chappe_plat::later::later(|| {
            let wake = || {
                // First, so that it ends last: the caller may be in the middle of an operation as a member. No function of the waker's, nor the drop
                // of what it holds, can have it leave the arena.
                let _out = light::Out::begin();
                let (waker, polls) = {
                    let noted = light::lock(&self.noted);
                    // Acquire: the call before, which has the task polled after this look.
                    let is_called = self.called.load(Ordering::Acquire) == noted.polls;
                    (if is_called { None } else { noted.waker.clone() }, noted.polls)
                };
                let Some(waker) = waker else { return };
                waker.wake();
                // Release: after the call. A poll since then waits for another one.
                self.called.store(polls, Ordering::Release);
            };
            let woken = light::shielded(|| catch_unwind(AssertUnwindSafe(wake)));
            // What it panicked with may panic when it is dropped.
            woken.unwrap_or_else(std::mem::forget);
        });
    }
}

/// From now on this attachment is for tasks.
#[cfg(not(any(feature = "sim", feature = "loom")))]
pub fn seat(map: &Map, member: u32, sitter: &'static Sitter) {
    // Release: before a task waits there.
    slot(map, member).store(std::ptr::from_ref(sitter) as u64 | SITS, Ordering::Release);
}

/// The light thread or task that has this attachment.
#[cfg(not(feature = "loom"))]
pub fn holder(map: &Map, member: u32) -> Option<Holder> {
    held_by(holders(map), member)
}

/// The same, if the arena's holders are known.
#[cfg(not(feature = "loom"))]
pub fn held_by(holders: &Holders, member: u32) -> Option<Holder> {
    // Acquire: a record or a sitter, which is never freed; set before its thread or task could wait.
    let address = holders[member as usize % holders.len()].load(Ordering::Acquire);
    // Relaxed: set before any of them.
    if address == 0 || !process::is_incarnation(OF.load(Ordering::Relaxed) as u32) {
        return None;
    }
    #[cfg(not(feature = "sim"))]
    if address & SITS != 0 {
        // SAFETY: as above.
        return unsafe { ((address & !SITS) as *const Sitter).as_ref() }.map(Holder::Task);
    }
    // SAFETY: as above.
    unsafe { (address as *const Record).as_ref() }.map(Holder::Light)
}
