//! Descriptors as arms of a choice: readable, writable.
//!
//! A thread that waits for a descriptor has a place in the wait queue like a waiter at an end of a tube (see there): so one wait stands
//! on descriptors, tubes, semaphores and pools. One thread of the process, the *watcher*, started when it is first needed, sleeps in the
//! kernel on all descriptors that are waited for, and tells their waiters to try again; to try is to ask the kernel.
//!
//! ```text
//!   a waiter:      counted, bit set -- asks to be told, once -- asks whether it is ready -- sleeps
//!   the watcher:   told -- tells all that wait for that -- asks for what is still waited for
//! ```
//!
//! - I1: a waiter asks to be told after its bit is set. So the event comes after that, and the watcher sees the bit.
//! - I2: what the kernel is asked for is put together under the registry's lock, from the waiters counted at that time: none is forgotten.
//!
//! Light threads wait in a list of their own, as at a tube; the watcher tells both.
//!
//! A descriptor is known by its number, as to the kernel: its waiters keep it open meanwhile. Where the kernel refuses to
//! watch a descriptor, its waiters look once a millisecond.

use crate::fork::{DESCRIPTORS, prepare};
use crate::registry::Arena;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::poll::{Ready, Watcher, is_ready};
use chappe_plat::{clock, process, quiet, thread};
use chappe_wait::cell::Word;
use chappe_wait::clock::NEVER;
use chappe_wait::end::End;
use chappe_wait::lights::{Lights, Side, Standing};
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Looking, Nature, Refused, Site, Taken, TryFast, look_by_taking};
use chappe_wait::wait::Party;
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// How often a waiter looks at a descriptor that cannot be watched.
const POLL_NS: u64 = 1_000_000;

/// A descriptor, and what is waited for: readable or writable.
pub(crate) struct Descriptor {
    fd: RawFd,
    out: bool,
    end: End,
    /// The light threads that wait.
    lights: Lights,
    /// 1: the kernel has refused to watch it.
    refused: AtomicU32,
}

/// All descriptors that this process ever waited for. Entries are never removed, since descriptors are small numbers that come again.
#[derive(Default)]
struct Registry {
    all: Option<HashMap<(RawFd, bool), &'static Descriptor>>,
    /// The watcher, and the incarnation of the process that started it.
    watcher: Option<(u64, Arc<Watcher>)>,
    /// What is called when one of these is signalled: see [`whenever`].
    calls: Vec<(RawFd, fn())>,
}

fn with<R>(then: impl FnOnce(&mut Registry) -> R) -> R {
    then(&mut DESCRIPTORS.lock())
}

/// What represents that a descriptor is readable, or writable, in choices.
pub(crate) fn descriptor(fd: RawFd, out: bool) -> &'static Descriptor {
    // Before the registry's lock, which comes after this one.
    let map = Arena::private().map();
    with(|registry| {
        *registry.all.get_or_insert_default().entry((fd, out)).or_insert_with(|| {
            let (end, refused) = (End::new(map), AtomicU32::new(0));
            Box::leak(Box::new(Descriptor { fd, out, end, lights: Lights::new(false), refused }))
        })
    })
}

/// From now on the thread that sleeps on descriptors calls something each time an event (an eventfd) is signalled. The event stays open for good, and what is
/// called does not wait. A forked child's thread does not call it.
///
/// # Errors
/// The system's.
#[doc(hidden)]
pub fn whenever(event: RawFd, call: fn()) -> io::Result<()> {
    prepare();
    with(|registry| {
        let watcher = registry.watcher()?;
        // Before the first signal is told: the lock is ours until both are done.
        watcher.ask_always(event)?;
        registry.calls.push((event, call));
        Ok(())
    })
}

impl Registry {
    /// This incarnation's watcher: made, and its thread begun, when it is first needed.
    fn watcher(&mut self) -> io::Result<Arc<Watcher>> {
        let now = process::incarnation();
        match &self.watcher {
            Some((incarnation, watcher)) if *incarnation == now => Ok(Arc::clone(watcher)),
            _ => {
                let watcher = Arc::new(Watcher::new()?);
                let his = Arc::clone(&watcher);
                thread::background("chappe-poll", move || {
                    let _serves = quiet::serves_others();
                    while his.wait(tell).is_ok() {}
                })?;
                self.watcher = Some((now, Arc::clone(&watcher)));
                // Those of the parent, whose numbers may be other descriptors' by now.
                self.calls.clear();
                Ok(watcher)
            }
        }
    }

    /// Asks the kernel to report all that is waited for of a descriptor.
    fn ask(&mut self, fd: RawFd) -> io::Result<()> {
        let watcher = self.watcher()?;
        let waits = |out| self.all.as_ref().and_then(|all| all.get(&(fd, out))).is_some_and(|d| d.is_awaited());
        match (waits(false), waits(true)) {
            (false, false) => Ok(()),
            (read, write) => watcher.ask(fd, read, write),
        }
    }
}

/// Tells all that wait for what a descriptor has become ready for.
fn tell(ready: Ready) {
    let call = with(|registry| registry.calls.iter().find(|(event, _)| *event == ready.fd).map(|(_, call)| *call));
    if let Some(call) = call {
        return call();
    }
    let there = |out| with(|registry| registry.all.as_ref().and_then(|all| all.get(&(ready.fd, out)).copied()));
    for (is_ready, out) in [(ready.read, false), (ready.write, true)] {
        if is_ready && let Some(descriptor) = there(out) {
            descriptor.end.tell_all();
            descriptor.lights.tell_all(Side::Recv);
        }
    }
    // I2. If the kernel refuses now, the descriptor was closed: nobody should wait for that.
    let _ = with(|registry| registry.ask(ready.fd));
}

/// What a choice has taken of a descriptor: ready, or an error.
pub(crate) fn outcome(taken: Taken) -> io::Result<()> {
    if taken.position == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(taken.position as i32)) }
}

impl Descriptor {
    /// Whether a thread waits for it: I2, under the registry's lock.
    fn is_awaited(&self) -> bool {
        self.end.has_waiters() || !self.lights.is_empty(Side::Recv)
    }
}

impl Arm for Descriptor {
    fn site(&self) -> Site {
        Site { map: self.end.map(), place: self.end.place(), nature: Nature::Descriptor(self.fd) }
    }
    fn standing(&self) -> Option<Standing<'_>> {
        let Descriptor { end, lights, .. } = self;
        Some(Standing { lights, side: Side::Recv, own: end, other: end, meets: false })
    }
    fn glance(&self, _cautious: bool) -> TryFast {
        match is_ready(self.fd, self.out) {
            Ok(false) => TryFast::Nothing,
            Ok(true) => TryFast::Taken(Taken { position: 0, word: Word(0) }),
            Err(e) => TryFast::Taken(Taken { position: e.raw_os_error().unwrap_or(0) as u32, word: Word(0) }),
        }
    }
    fn attempt(&self, _me: &Party, _told: bool) -> Result<Taken, Refused> {
        match self.glance(false) {
            TryFast::Taken(taken) => Ok(taken),
            _ => Err(Refused::NoneFree),
        }
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        match how {
            Looking::Free => look_by_taking(self, me, how),
            Looking::Waiting => {
                let asked = with(|registry| registry.ask(self.fd));
                // Relaxed: our own note, for the mark.
                self.refused.store(asked.is_err().into(), Ordering::Relaxed);
                Ok(is_ready(self.fd, self.out).unwrap_or(true).into())
            }
            // Relaxed: as above.
            _ if self.refused.load(Ordering::Relaxed) != 0 => Ok(Mark::Nothing(clock::now() + POLL_NS)),
            _ => Ok(Mark::Nothing(NEVER)),
        }
    }
}
