//! Operations that claim what they do not keep. The scenarios' own checks must see it: see `control`.
//!
//! | mistake | claims | must be found |
//! |---|---|---|
//! | a lock that knows no deaths (`plan9::Lock`, which says so) | that others get it | wedged |
//! | the same, its holder stopped | that no newcomer waits for it | wedged |
//! | the same | that a newcomer waits for a permit, which is free | wedged |
//! | a unit taken out and put back | that none is missing | lost |
//! | two units added one by one | all or none | torn |
//! | two counts changed in two sections | that a process that is not told of a death finds them equal | torn |
//! | a message that is numbered before it is sent | that all numbers come | wedged |
//! | a message given back to its tube before it is worked on | that it is worked on | lost |
//! | a child that reserves a slot, and gives it up when its parent says so | that the slot comes back | leaked |
//! | a life word of which the kernel no longer knows that a thread sleeps on it | that its death wakes the sleeper | the backstop fires |
//! | a party of a barrier that leaves, and joins again | that the others are told of its death | lost |
//! | a message worked on before it is given back, its mark not looked at | that it is worked on once | doubled |

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use chappe::Mutex;
use chappe::tube::named::Kind;

use super::Operation;
use super::Scene;
use super::Scene::{Alone, Met, Waiters};
use super::barriers;
use super::messages::{Found, KEEPER, Part};
use super::mutexes::{self, Data};
use super::reasons::Reason;
use super::semaphores;
use super::tubes::setting::{SLOTS, receiver, sender};
use super::words::lock;
use super::world::{CHILD, World, fault};
use crate::board::{Fault, Verdict};
use crate::cast::lives;
use crate::patience::within;
use crate::trial::OVER;

/// What the sweep of a control must find, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// Faults of this kind.
    Faults(Fault),
    /// That the backstop fired.
    Backstops,
    /// Nothing.
    Nothing,
}

/// All of them, where, and what must be found.
pub fn all() -> Vec<(Operation, Scene, Must)> {
    let alone = |operation: Operation, fault| (operation, Alone, Must::Faults(fault));
    vec![
        alone(deathless(false), Fault::Wedged),
        (deathless(false), Met, Must::Faults(Fault::Wedged)),
        (deathless(true), Met, Must::Faults(Fault::Wedged)),
        alone(borrow(), Fault::Lost),
        alone(one_by_one(), Fault::Torn),
        alone(two_sections(), Fault::Torn),
        alone(numbered_first(), Fault::Wedged),
        alone(given_back_first(), Fault::Lost),
        alone(barriers::leaves_and_joins(), Fault::Lost),
        alone(mark_ignored(), Fault::Doubled),
        alone(ward(), Fault::Leaked),
        (unheard(), Waiters, Must::Backstops),
    ]
}

/// `excused`: A waiter is said to wait for a permit. It is free.
fn deathless(excused: bool) -> Operation {
    Operation::of(
        if excused { "plan9::Lock, excused by a permit" } else { "plan9::Lock, its holder dies" },
        &[Alone, Met],
    )
    .held_up_by(excused.then_some(Reason::Permit))
    .build(move |w| if excused { w.make("p", 1).map(drop) } else { Ok(()) })
    .perform(|w| {
        w.stage().begin();
        lock(w.stage()).lock();
        lock(w.stage()).unlock();
        w.stage().end(true);
    })
    .meet(|w| {
        lock(w.stage()).lock();
        lock(w.stage()).unlock();
        Ok(())
    })
    .check(|w| {
        if w.stage().until(|| lock(w.stage()).canlock()) {
            return Ok(());
        }
        fault(Fault::Wedged, "the lock does not come free")
    })
}

fn borrow() -> Operation {
    Operation::of("down, up, as if at once", &[Alone])
        .build(|w| semaphores::build(w, 1, false))
        .perform(|w| {
            let s = semaphores::warm(w);
            w.stage().begin();
            let done = s.down().is_ok() && s.up().is_ok();
            w.stage().end(done);
        })
        .check(|w| w.balance("s", &[0]))
}

fn one_by_one() -> Operation {
    Operation::of("up, up, as if at once", &[Alone])
        .build(|w| semaphores::build(w, 0, false))
        .perform(|w| {
            let s = semaphores::warm(w);
            w.stage().begin();
            let done = s.up().is_ok() && s.up().is_ok();
            w.stage().end(done);
        })
        .check(|w| w.balance("s", &[0, 2]))
}

fn section(mutex: &Mutex<Data>, which: usize) -> bool {
    mutex.lock().map(|mut data| data[which] += 1).is_ok()
}

fn two_sections() -> Operation {
    Operation::of("two sections as if one", &[Alone])
        .build(mutexes::build)
        .perform(|w| {
            let mutex = mutexes::warm(w);
            w.stage().begin();
            let done = section(mutex, 0) && section(mutex, 1);
            w.stage().end(done);
        })
        .check(|w| mutexes::check(w, &[0, 1], &["m", "p"]))
}

/// The next number; so many messages have been, or will be.
const NUMBERS: usize = 18;

fn build_tube(w: &World) -> Verdict {
    w.make("p", 1)?;
    w.make_tube("t", Kind::Mpmc, SLOTS)
}

/// As a ring whose senders claim their place by its index.
fn numbered_first() -> Operation {
    Operation::of("numbered, then sent", &[Alone])
        .build(build_tube)
        .perform(|w| {
            let out = sender(w);
            let it = w.try_write("t");
            w.stage().begin();
            w.stage().word(NUMBERS).fetch_add(1, SeqCst);
            let done = out.try_send(it);
            w.stage().end(done.is_ok());
            std::mem::forget(out);
        })
        .check(|w| {
            let (mut come, all) = (0, w.stage().word(NUMBERS).load(SeqCst));
            w.receive_from("t")?;
            if w.stage().until(|| {
                come += u64::from(matches!(w.fetch("t"), Ok(Found::Message(_))));
                come >= all
            }) {
                return Ok(());
            }
            fault(Fault::Wedged, format!("{all} messages have numbers, and {come} come"))
        })
}

/// A loan that is released before any process has noticed what was in it.
fn given_back_first() -> Operation {
    Operation::of("release, then work", &[Alone])
        .build(|w| {
            build_tube(w)?;
            w.post_all("t", KEEPER, 1)
        })
        .perform(|w| {
            let into = receiver(w);
            w.stage().begin();
            let done = into.borrow().is_ok_and(|loan| {
                let it = *loan;
                loan.release().is_ok() && w.keep_message("t", &it)
            });
            w.stage().end(done);
            std::mem::forget(into);
        })
        .check(|w| w.settle("t", SLOTS, Part::Receives(false, 1)))
}

fn mark_ignored() -> Operation {
    Operation::of("work, then release, no mark", &[Alone])
        .build(|w| {
            build_tube(w)?;
            w.post_all("t", KEEPER, 1)
        })
        .perform(|w| {
            let into = receiver(w);
            w.stage().begin();
            let done = into.borrow().is_ok_and(|loan| w.keep_message("t", &loan) && loan.release().is_ok());
            w.stage().end(done);
            std::mem::forget(into);
        })
        .check(|w| w.settle("t", SLOTS, Part::Receives(true, 1)))
}

/// The child's slot is reserved.
const RESERVED: usize = 19;
/// The child may give it up.
const RELEASE: usize = 20;

/// A child of the victim reserves a slot, and gives it up when it is told to.
fn ward() -> Operation {
    Operation::of("a child's slot, given up by word", &[Alone])
        .build(build_tube)
        .perform(|w| {
            let stage = w.stage();
            // SAFETY: this process has one thread of its own, and has used nothing of the arena yet.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let mut out = sender(w);
                let slot = out.reserve();
                stage.word(RESERVED).store(u64::from(slot.is_ok()), SeqCst);
                within(stage.limit * 4, || stage.word(RELEASE).load(SeqCst) + stage.word(OVER).load(SeqCst) != 0);
                drop(slot);
                drop(out);
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(0) };
            }
            stage.word(CHILD).store(child as u64, SeqCst);
            w.warm("p");
            assert!(stage.until(|| stage.word(RESERVED).load(SeqCst) != 0), "the child reserves a slot");
            stage.begin();
            stage.word(RELEASE).store(1, SeqCst);
            stage.end(true);
        })
        .check(|w| {
            if w.stage().word(RELEASE).load(SeqCst) != 0 {
                let child = w.stage().word(CHILD).load(SeqCst) as u32;
                w.demand(|| !lives(child), "the child does not end")?;
            }
            w.settle("t", SLOTS, Part::Nothing)
        })
}

/// The victim dies with a permit. Nobody is woken by it: they look after a second.
fn unheard() -> Operation {
    Operation::of("a life word without its waiters", &[Waiters])
        .victim_holds(true)
        .build(|w| w.make("p", 1).map(drop))
        .perform(|w| {
            let pool = w.warm("p");
            let permit = pool.acquire().expect("it is free");
            w.holding(pool);
            let watched = || words_of(std::process::id() | libc::FUTEX_WAITERS);
            assert!(w.stage().until(|| !watched().is_empty()), "nobody wants to know of the victim's death");
            // All sleepers on it have announced themselves by then, as a rule, and look again no sooner than after a second.
            std::thread::sleep(Duration::from_millis(50));
            let words = watched();
            w.stage().begin();
            for word in &words {
                word.store(std::process::id(), SeqCst);
            }
            w.stage().end(!words.is_empty());
            std::mem::forget(permit);
        })
}

/// The words of this value in all arenas that this process has attached.
fn words_of(value: u32) -> Vec<&'static AtomicU32> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("there is /proc");
    let bounds = |line: &str| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
    };
    let arenas = maps.lines().filter(|line| line.contains(" rw-s ") && line.contains("/chappe-injector-"));
    let places = arenas.filter_map(bounds).flat_map(|(from, to)| (from..to).step_by(size_of::<u32>()));
    // SAFETY: aligned words of shared mappings that stay; other threads use them by atomics, or the kernel does.
    let words = places.map(|at| unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(at) });
    words.filter(|word| word.load(SeqCst) == value).collect()
}
