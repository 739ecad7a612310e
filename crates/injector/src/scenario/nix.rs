//! The C interface of the Nix paper (`chappe/nix.h`): a `Sem` in memory that processes share, and a `Tube` from before a fork.
//!
//! A `Sem` in an arena's memory (the data of a mutex) has its semaphore in that arena; one on the board, in the arena of the family, which
//! is large: its rows are few, and no process recovers from their deaths step by step. A process that is killed while it initialises a
//! `Sem` may leave a semaphore that no `Sem` names: it is listed, and can be removed.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::SeqCst;

use chappe::{Arena, Mutex, ObjectId, Semaphore};
use chappe_ffi as _;

use super::Operation;
use super::Scene::{Alone, Stopped, StoppedWaiter, Waiters};
use super::ledger::weigh;
use super::world::{CHILD, World, fault, fine};
use crate::board::{Fault, Verdict};
use crate::cast::lives;
use crate::patience::within;
use crate::trial::OVER;

/// `Sem`.
type Sem = [u64; 4];
/// `Tube`.
#[repr(C)]
struct Tube {
    _hidden: [u8; 0],
}

// SAFETY: as `include/chappe/nix.h` declares them, which is checked against the library.
unsafe extern "C" {
    fn chappe_nix_initsem(s: *mut Sem, val: c_int);
    fn chappe_nix_downsem(s: *mut Sem, block: c_int) -> c_int;
    fn chappe_nix_upsem(s: *mut Sem);
    fn chappe_nix_altsems(ss: *mut *mut Sem, n: c_int) -> c_int;
    fn chappe_nix_freesem(s: *mut Sem);
    fn chappe_nix_newtube(msz: c_ulong, n: c_ulong) -> *mut Tube;
    fn chappe_nix_tsend(t: *mut Tube, m: *const c_void, block: c_int) -> c_int;
    fn chappe_nix_trecv(t: *mut Tube, m: *mut c_void, block: c_int) -> c_int;
}

/// In which memory the `Sem` lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Arena,
    Family,
}

/// What the ledger calls them: the first two of the data of mutex `m`.
const NAMES: [&str; 2] = ["a", "b"];
/// The `Sem` on the board, four words.
const BOARD: usize = 200;
/// The arm that the victim's choice took, counted from 1. SeqCst: read after its death.
const ARM: usize = 16;

type Memory = [u64; 8];

impl Place {
    /// Where a `Sem` lies in this process.
    fn sem(self, w: &World, which: usize) -> *mut Sem {
        match self {
            Place::Family => w.stage().word(BOARD).as_ptr().cast(),
            Place::Arena => {
                // Once a process, which is forked from one that has not asked.
                static MEMORY: OnceLock<usize> = OnceLock::new();
                let first = *MEMORY.get_or_init(|| {
                    let memory = Mutex::<Memory>::open("m").expect("the keeper has made it");
                    let first = std::ptr::from_mut(&mut *memory.lock().expect("nobody dies with it"));
                    // The mapping stays.
                    std::mem::forget(memory);
                    first.expose_provenance()
                });
                std::ptr::with_exposed_provenance_mut::<Sem>(first).wrapping_add(which)
            }
        }
    }

    /// The keeper makes the memory, and pool `p` by which others join arena `default`.
    fn build(self, w: &World) -> Verdict {
        w.make("p", 1)?;
        if self == Place::Arena {
            fine("making the memory", Mutex::<Memory>::create("m", [0; 8]))?;
        }
        Ok(())
    }

    fn build_sem(self, w: &World, which: usize, value: u32) -> Result<ObjectId, (Fault, String)> {
        // SAFETY: memory for a `Sem` that all here share.
        unsafe { chappe_nix_initsem(self.sem(w, which), value as c_int) };
        w.note_given(NAMES[which], value);
        self.says(w, which)
    }

    /// What the `Sem` says: where its semaphore lies.
    fn says(self, w: &World, which: usize) -> Result<ObjectId, (Fault, String)> {
        // SAFETY: it is there, and no process writes to it meanwhile.
        let [seal, arena, slot, _] = unsafe { self.sem(w, which).read_volatile() };
        let spot = ObjectId { arena, object: slot as u32, generation: (slot >> 32) as u32 };
        if seal == 0 { fault(Fault::Torn, "the semaphore is not there") } else { Ok(spot) }
    }
}

fn semaphore(spot: ObjectId) -> Result<Semaphore, (Fault, String)> {
    fine("the semaphore at its spot", Semaphore::at(spot))
}

/// The keeper makes the first `Sem`, and counts its waiters.
fn build(w: &World, place: Place, value: u32) -> Verdict {
    place.build(w)?;
    let spot = place.build_sem(w, 0, value)?;
    let it = semaphore(spot)?;
    w.count_waiters(move || it.waiters().len());
    Ok(())
}

fn take(w: &World, place: Place) -> Verdict {
    // SAFETY: the keeper has initialised it.
    if unsafe { chappe_nix_downsem(place.sem(w, 0), 1) } != 1 {
        return fault(Fault::Torn, format!("downsem: {}", std::io::Error::last_os_error()));
    }
    w.note_taken(NAMES[0]);
    Ok(())
}

fn give(w: &World, place: Place, which: usize) {
    w.note_given(NAMES[which], 1);
    // SAFETY: as above.
    unsafe { chappe_nix_upsem(place.sem(w, which)) };
}

/// As [`World::provide_unit`].
fn provide(w: &World, place: Place, which: usize, most: u64) {
    let Ok(it) = place.says(w, which).and_then(semaphore) else { return };
    if w.is_stuck(|| it.value() == 0) && w.may_provide(most) {
        give(w, place, which);
    }
}

/// What the victim has added; all units can be had, by the C functions.
fn difference(w: &World, place: Place, which: usize) -> Result<i64, (Fault, String)> {
    fine("sweeping", chappe::doctor())?;
    let it = semaphore(place.says(w, which)?)?;
    let (value, left, sem) = (it.value(), w.left(NAMES[which]), place.sem(w, which));
    for had in 0..value {
        // SAFETY: the keeper has initialised it.
        if unsafe { chappe_nix_downsem(sem, 0) } != 1 {
            return fault(Fault::Wedged, format!("it is {value}, and after {had} no more is to be had"));
        }
    }
    // SAFETY: as above.
    if unsafe { chappe_nix_downsem(sem, 0) } != 0 {
        return fault(Fault::Doubled, format!("it was {value}, and gave one more"));
    }
    if !w.stage().until(|| it.waiters().is_empty()) {
        return fault(Fault::Torn, format!("it shows waiters: {:?}", it.waiters()));
    }
    // SAFETY: as above.
    (0..value).for_each(|_| unsafe { chappe_nix_upsem(sem) });
    Ok(i64::from(value) - left)
}

/// The objects of an arena are so many semaphores without a name, and these.
fn objects(w: &World, arena: &Arena, unnamed: usize, named: &[&str]) -> Verdict {
    let all = arena.objects();
    let names: Vec<&str> = all.iter().map(|o| o.name.as_str()).collect();
    let (theirs, others): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(|n| n.starts_with("semaphore@"));
    if theirs.len() != unnamed || others != named {
        return fault(Fault::Torn, format!("arena {} lists {names:?}", arena.name()));
    }
    if arena.name() == "default" {
        w.audit("p", 1)?;
        return w.full_house("default", &names);
    }
    // Too large to be filled.
    let own = || arena.members().iter().filter(|m| m.pid == std::process::id()).count() as u32;
    let swept = || chappe::doctor().is_ok() && arena.capacity().members_used <= own();
    w.stage().settle();
    if !w.stage().until(swept) || arena.capacity().objects_used != unnamed as u32 {
        return fault(Fault::Leaked, format!("arena {} has {:?}", arena.name(), arena.capacity()));
    }
    w.in_order(&["p"])
}

fn check(w: &World, place: Place, allowed: &[i64]) -> Verdict {
    weigh(NAMES[0], difference(w, place, 0)?, allowed)?;
    in_order(w, place, 1)
}

fn in_order(w: &World, place: Place, unnamed: usize) -> Verdict {
    match place {
        Place::Arena => objects(w, &fine("the arena", Arena::open("default"))?, unnamed, &["m", "p"]),
        Place::Family => objects(w, &fine("the family", Arena::family())?, unnamed, &[]),
    }
}

fn down(place: Place) -> Operation {
    Operation::of(
        if place == Place::Arena { "nix downsem" } else { "nix downsem, the family's" },
        if place == Place::Arena { &[Alone, Waiters, Stopped, StoppedWaiter] } else { &[Alone] },
    )
    .victim_sleeps(true)
    .recovers(place == Place::Arena)
    .long(place == Place::Family)
    .build(move |w| {
        let value = match w.scene() {
            Waiters | StoppedWaiter => 0,
            Stopped => 2,
            _ => 1,
        };
        build(w, place, value)?;
        let (stage, scene, place) = (*w.stage(), w.scene(), place);
        if scene.waits() {
            w.owe(move || give(&World::new(&stage, scene), place, 0));
        }
        Ok(())
    })
    .perform(move |w| {
        let sem = place.sem(w, 0);
        w.stage().begin();
        // SAFETY: the keeper has initialised it.
        let got = unsafe { chappe_nix_downsem(sem, 1) };
        w.stage().end(got == 1);
    })
    .wait(move |w| {
        take(w, place)?;
        give(w, place, 0);
        Ok(())
    })
    .others(move |w| {
        if w.scene() == StoppedWaiter {
            w.let_go();
            return w.first_through();
        }
        // SAFETY: as above.
        if unsafe { chappe_nix_downsem(place.sem(w, 0), 0) } != 1 {
            return fault(Fault::Wedged, "of two units the stopped one keeps both away");
        }
        w.note_taken(NAMES[0]);
        give(w, place, 0);
        Ok(())
    })
    .provide(move |w| provide(w, place, 0, 1))
    .check(move |w| check(w, place, w.of_a_down()))
}

fn up(place: Place) -> Operation {
    Operation::of(
        if place == Place::Arena { "nix upsem" } else { "nix upsem, the family's" },
        if place == Place::Arena { &[Alone, Waiters, Stopped, StoppedWaiter] } else { &[Alone, Waiters] },
    )
    .recovers(place == Place::Arena)
    .long(place == Place::Family)
    .build(move |w| build(w, place, 0))
    .perform(move |w| {
        let sem = place.sem(w, 0);
        w.stage().begin();
        // SAFETY: the keeper has initialised it.
        unsafe { chappe_nix_upsem(sem) };
        w.stage().end(true);
    })
    .wait(move |w| take(w, place))
    .others(move |w| {
        give(w, place, 0);
        if w.scene() == StoppedWaiter {
            return w.through("the waiter gets no unit past the stopped one:");
        }
        Ok(())
    })
    .provide(move |w| {
        // A victim that died before it had told any process that it is a member is swept at the
        // next look: it has nothing.
        let _ = chappe::doctor();
        provide(w, place, 0, 2);
    })
    .check(move |w| check(w, place, if w.was_done() { &[1] } else { &[0, 1] }))
}

fn alt(w: &World) -> c_int {
    let mut both = [0, 1].map(|which| Place::Arena.sem(w, which));
    // SAFETY: the keeper has initialised both.
    unsafe { chappe_nix_altsems(both.as_mut_ptr(), 2) }
}

/// How many messages a tube takes.
const SLOTS: u64 = 4;
/// What a child of the victim is to do: 0, to wait. SeqCst: it says when, and nothing else is read by it.
const TOLD: usize = 20;
/// The child has found: one more than how many messages; or that it cannot use the tube. SeqCst: read after the child's end.
const FOUND: usize = 21;
const UNUSABLE: u64 = 100;

/// A child of the victim has the same tube. When the victim is dead, it receives what there is, and fills the tube.
#[derive(Clone, Copy)]
struct Pass {
    receives: bool,
}

impl Pass {
    fn partner(w: &World, tube: *mut Tube) -> u64 {
        let stage = w.stage();
        within(stage.limit * 4, || stage.word(TOLD).load(SeqCst) + stage.word(OVER).load(SeqCst) != 0);
        let mut message = 0u64;
        let at = std::ptr::from_mut(&mut message).cast::<c_void>();
        let mut found = 0;
        // SAFETY: the tube is this process's, as a copy; messages have eight bytes.
        let receive = || unsafe { chappe_nix_trecv(tube, at, 0) } == 0;
        // SAFETY: as above.
        let send = || unsafe { chappe_nix_tsend(tube, at, 0) } == 0;
        while receive() {
            if message != 7 {
                return UNUSABLE;
            }
            found += 1;
        }
        let sent = (0..SLOTS + 1).take_while(|_| send()).count() as u64;
        let received = (0..SLOTS + 1).take_while(|_| receive()).count() as u64;
        if (sent, received) == (SLOTS, SLOTS) { found + 1 } else { UNUSABLE + sent }
    }

    fn operation(self) -> Operation {
        Operation::of(if self.receives { "nix trecv" } else { "nix tsend" }, &[Alone])
            .recovers(false)
            .long(true)
            .build(|w| w.make("p", 1).map(drop))
            .perform(move |w| {
                let stage = w.stage();
                // SAFETY: no pointers.
                let tube = unsafe { chappe_nix_newtube(8, SLOTS) };
                assert!(!tube.is_null(), "newtube: {}", std::io::Error::last_os_error());
                let mut message = 7u64;
                let at = std::ptr::from_mut(&mut message).cast::<c_void>();
                if self.receives {
                    // SAFETY: the tube is new; messages have eight bytes.
                    assert_eq!(unsafe { chappe_nix_tsend(tube, at, 1) }, 0);
                }
                // SAFETY: the library is ready for forks.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    stage.word(FOUND).store(Pass::partner(w, tube), SeqCst);
                    // SAFETY: ends this process at once.
                    unsafe { libc::_exit(0) };
                }
                // SeqCst: read after the victim's death.
                stage.word(CHILD).store(child as u64, SeqCst);
                stage.begin();
                // SAFETY: as above.
                let done = unsafe {
                    if self.receives { chappe_nix_trecv(tube, at, 1) } else { chappe_nix_tsend(tube, at, 1) }
                };
                stage.end(done == 0 && message == 7);
            })
            .check(move |w| {
                w.stage().word(TOLD).store(1, SeqCst);
                let child = w.stage().word(CHILD).load(SeqCst) as u32;
                w.demand(|| !lives(child), "the child does not end")?;
                let found = w.stage().word(FOUND).load(SeqCst);
                if found == 0 || found >= UNUSABLE {
                    return fault(Fault::Wedged, format!("its child cannot use the tube: {found}"));
                }
                let there = found as i64 - 1;
                match (self.receives, w.was_done()) {
                    (false, true) => weigh("t", there, &[1]),
                    (true, true) => weigh("t", there, &[0]),
                    _ => weigh("t", there, &[0, 1]),
                }?;
                w.in_order(&["p"])
            })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let places = [Place::Arena, Place::Family];
    let others = [
        // Two semaphores in one arena; exactly one is taken.
        Operation::of("nix altsems of 2", &[Alone, Waiters, StoppedWaiter])
            .victim_sleeps(true)
            .build(|w| {
                let value = u32::from(!w.scene().waits());
                build(w, Place::Arena, value)?;
                Place::Arena.build_sem(w, 1, value)?;
                let (stage, scene) = (*w.stage(), w.scene());
                if scene.waits() {
                    w.owe(move || give(&World::new(&stage, scene), Place::Arena, 1));
                }
                Ok(())
            })
            .perform(|w| {
                let mut both = [0, 1].map(|which| Place::Arena.sem(w, which));
                w.stage().begin();
                // SAFETY: the keeper has initialised both.
                let at = unsafe { chappe_nix_altsems(both.as_mut_ptr(), 2) };
                w.stage().word(ARM).store((at + 1) as u64, SeqCst);
                w.stage().end((0..2).contains(&at));
            })
            .wait(|w| {
                let at = alt(w);
                if !(0..2).contains(&at) {
                    return fault(Fault::Torn, format!("altsems: {}", std::io::Error::last_os_error()));
                }
                w.note_taken(NAMES[at as usize]);
                give(w, Place::Arena, at as usize);
                Ok(())
            })
            .others(|w| {
                w.let_go();
                w.first_through()
            })
            .provide(|w| provide(w, Place::Arena, 1, 1))
            .check(|w| {
                let taken = w.stage().word(ARM).load(SeqCst);
                let mut all = 0;
                for which in [0, 1] {
                    let one = difference(w, Place::Arena, which)?;
                    all += one;
                    let its = taken == which as u64 + 1;
                    weigh(
                        NAMES[which],
                        one,
                        if taken == 0 {
                            &[-1, 0]
                        } else if its {
                            &[-1]
                        } else {
                            &[0]
                        },
                    )?;
                }
                weigh("both", all, &[-1, 0])?;
                in_order(w, Place::Arena, 2)
            }),
        Operation::of("nix initsem", &[Alone, Stopped])
            .build(|w| Place::Arena.build(w))
            .perform(|w| {
                let sem = Place::Arena.sem(w, 0);
                w.stage().begin();
                // SAFETY: memory for a `Sem` that all here share.
                unsafe { chappe_nix_initsem(sem, 3) };
                w.stage().end(Place::Arena.says(w, 0).is_ok());
            })
            .check(|w| {
                fine("sweeping", chappe::doctor())?;
                let made = Place::Arena.says(w, 0);
                if let Ok(spot) = made {
                    let it = semaphore(spot)?;
                    if it.value() != 3 {
                        return fault(Fault::Torn, format!("made with 3, it is {}", it.value()));
                    }
                } else if w.was_done() {
                    return fault(Fault::Lost, "initialised, it is none");
                }
                let arena = fine("the arena", Arena::open("default"))?;
                let there = arena.objects().iter().filter(|o| o.name.starts_with("semaphore@")).count();
                if there > 1 || made.is_ok() && there == 0 {
                    return fault(Fault::Torn, format!("{there} semaphores were made"));
                }
                in_order(w, Place::Arena, there)
            }),
        // By force, as it has always been in C: waiters are told.
        Operation::of("nix freesem", &[Alone, Waiters, Stopped])
            .build(|w| build(w, Place::Arena, 0))
            .perform(|w| {
                let sem = Place::Arena.sem(w, 0);
                w.stage().begin();
                // SAFETY: the keeper has initialised it.
                unsafe { chappe_nix_freesem(sem) };
                w.stage().end(Place::Arena.says(w, 0).is_err());
            })
            .wait(|w| {
                // SAFETY: as above.
                match unsafe { chappe_nix_downsem(Place::Arena.sem(w, 0), 1) } {
                    0 => Ok(()),
                    got => fault(Fault::Doubled, format!("freed and never given, downsem answers {got}")),
                }
            })
            .bereaved(|w| {
                // Its seal may be off, and the semaphore still there.
                let arena = fine("the arena", Arena::open("default"))?;
                for object in arena.objects().iter().filter(|o| o.name.starts_with("semaphore@")) {
                    if w.was_done() {
                        return fault(Fault::Torn, "freed, it is still there");
                    }
                    fine("removing it all the same", Semaphore::remove(&object.name, true))?;
                }
                Ok(())
            })
            .check(|w| in_order(w, Place::Arena, 0)),
    ];
    let tubes = [false, true].map(|receives| Pass { receives }.operation());
    places.map(down).into_iter().chain(places.map(up)).chain(others).chain(tubes).collect()
}
