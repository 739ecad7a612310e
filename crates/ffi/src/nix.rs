//! `include/chappe/nix.h`: semaphores, choice and tubes as the Nix paper has them (nix-semaphores-tubes, 2.1 and 3).
//!
//! A `Sem` says where its semaphore is: a [`ObjectId`], sealed by a number that is made of it, so that memory which was never
//! initialised, or was written over, is told from one. The semaphore itself lies
//!
//! ```text
//!   Sem in memory of this process     this process's own arena; in a forked child, a copy, as of the memory
//!       in an arena's memory          that arena
//!       in shared memory              the arena of the family: this process and all that it forks; others find it by the spot
//! ```
//!
//! The seal of one in memory of this process is made of the address, too: moved, or copied into shared memory, it is none.
//!
//! What the paper's source gets wrong (evidence, section 1) its text promises; held by `tests/c/nix.c`: every semaphore
//! of a choice counts (1), a caller that is told that it has a wakeup has one (2), first come first served (3), `talt`
//! answers an index of the caller's (4).
//!
//! errno is written only if something goes wrong: many of these functions have no other answer.

mod tube;

use crate::failure::{Answer, Failure, answer};
use chappe::raw::{self, Armed, Time};
use chappe::{Arena, ArenaError, DownError, ObjectError, ObjectId, Semaphore};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// `Sem`: the seal, the arena, slot and generation, and room.
#[repr(C)]
pub struct Sem {
    words: [AtomicU64; 4],
}

/// What is made of a spot, and of where the `Sem` lies if nobody else can have one of this spot. Never 0.
#[inline(always)]
fn seal(arena: u64, slot: u64, address: u64) -> u64 {
    // Of the address first: it is there before the words are, for which the rest waits.
    let own = if arena == ObjectId::PRIVATE { address.wrapping_mul(0xd6e8_feb8_6659_fd93) } else { 0 };
    let mixed = arena.rotate_left(29) ^ slot ^ (own ^ 0x6e69_785f_7365_6d21);
    mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) | 1
}

const NONE: &CStr = c"this is no semaphore: it was never initialised, was freed, moved, or written over";

impl Sem {
    /// The one that a caller means.
    fn of<'a>(at: *mut Sem) -> Answer<&'a Sem> {
        if at.is_null() || !at.is_aligned() {
            return Err(Failure::new(libc::EFAULT, c"a semaphore cannot lie at NULL or at a crooked address"));
        }
        // SAFETY: the caller's promise, that there is memory; atomics may change at any time.
        Ok(unsafe { &*at })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// What it says, if it is sealed.
    #[inline(always)]
    fn says(&self) -> Option<ObjectId> {
        // Acquire: the seal is written last.
        let there = self.words[0].load(Ordering::Acquire);
        // Relaxed: the seal tells half of one from a whole.
        let [arena, slot] = [1, 2].map(|at: usize| self.words[at].load(Ordering::Relaxed));
        let spot = ObjectId { arena, object: slot as u32, generation: (slot >> 32) as u32 };
        (there == seal(arena, slot, self.address() as u64)).then_some(spot)
    }

    fn object_id(&self) -> Answer<ObjectId> {
        self.says().ok_or_else(|| Failure::new(libc::EINVAL, NONE))
    }

    fn semaphore(&self) -> Answer<Semaphore> {
        Semaphore::at(self.object_id()?).map_err(lost)
    }

    fn write(&self, spot: ObjectId) {
        let slot = u64::from(spot.generation) << 32 | u64::from(spot.object);
        for (at, value) in [spot.arena, slot, 0].into_iter().enumerate() {
            self.words[at + 1].store(value, Ordering::Relaxed); // Relaxed: as in `spot`.
        }
        self.words[0].store(seal(spot.arena, slot, self.address() as u64), Ordering::Release); // Release: as in `spot`.
    }

    /// Takes the seal off.
    fn unseal(&self) {
        self.words[0].store(0, Ordering::Release); // Release: as in `spot`.
    }
}

/// A spot whose arena, or slot, is not there.
#[cold]
fn lost(e: ObjectError) -> Failure {
    match e {
        ObjectError::Unknown { .. } | ObjectError::Arena(ArenaError::NotFound { .. }) => Failure::told(libc::EIDRM, &e),
        e => e.into(),
    }
}

/// Answers as the paper does: if it fails, errno says why; else errno is as it was.
#[inline(never)]
fn answered(failed: c_int, act: impl FnOnce() -> Answer<c_int>) -> c_int {
    // SAFETY: the thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; a handler may change it meanwhile, and puts it back.
    let before = unsafe { *errno };
    let answer: c_int = answer(act);
    // SAFETY: as above.
    unsafe { *errno = if answer >= 0 { before } else { -answer } };
    if answer >= 0 { answer } else { failed }
}

/// The same where nothing is answered.
fn told(act: impl FnOnce() -> Answer<()>) {
    answered(-1, || act().map(|()| 0));
}

/// Where this process has initialised semaphores: one that is initialised at the same address again has taken the place.
struct Own {
    /// A forked child begins anew: another thread of the parent may have had the lock.
    incarnation: u64,
    all: Mutex<HashMap<usize, ObjectId>>,
}

static OWN: AtomicPtr<Own> = AtomicPtr::new(std::ptr::null_mut());

fn own<R>(act: impl FnOnce(&mut HashMap<usize, ObjectId>) -> R) -> R {
    let now = raw::incarnation();
    loop {
        // Acquire: what it points to.
        let there = OWN.load(Ordering::Acquire);
        // SAFETY: what was made known is never freed.
        if let Some(own) = unsafe { there.as_ref() }
            && own.incarnation == now
        {
            return act(&mut own.all.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let new = Box::into_raw(Box::new(Own { incarnation: now, all: Mutex::new(HashMap::new()) }));
        // AcqRel: makes it known. A failure: another was faster.
        if OWN.compare_exchange(there, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Where a semaphore is to lie whose `Sem` is at this address. If it answers, there is memory.
fn home(address: usize) -> Answer<Arena> {
    if let Some(arena) = Arena::containing(address) {
        return Ok(arena);
    }
    Ok(if raw::is_shared(address)? { Arena::family()? } else { Arena::try_private()? })
}

fn init(sem: *mut Sem, value: c_int) -> Answer<()> {
    let (address, sem) = (sem as usize, Sem::of(sem)?);
    let arena = home(address)?;
    // In shared memory, another process may have initialised it since.
    if let Some(before) = own(|all| all.remove(&address))
        && (before.arena == ObjectId::PRIVATE || sem.object_id() == Ok(before))
    {
        let _ = Semaphore::remove_at(before);
    }
    sem.unseal();
    let Ok(value) = u32::try_from(value) else {
        return Err(Failure::new(libc::EINVAL, c"a semaphore begins with 0 or more saved wakeups"));
    };
    let made = Semaphore::unnamed(&arena, value)?;
    // So that a handler of this thread may `up` it.
    made.join()?;
    let made = made.object_id();
    own(|all| all.insert(address, made));
    sem.write(made);
    Ok(())
}

fn free(sem: &Sem) -> Answer<()> {
    let spot = sem.object_id()?;
    own(|all| {
        if all.get(&sem.address()) == Some(&spot) {
            all.remove(&sem.address());
        }
    });
    sem.unseal();
    if Semaphore::remove_at(spot).map_err(lost)? { Ok(()) } else { Err(Failure::new(libc::EIDRM, NONE)) }
}

/// A number below another, another one each time.
fn roll(below: usize) -> usize {
    thread_local! {
        static DICE: Cell<u64> = const { Cell::new(0x2545_f491_4f6c_dd1d) };
    }
    let next = DICE.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    DICE.set(next);
    (((next >> 32) * below as u64) >> 32) as usize
}

/// So many of the caller's.
fn array<'a, T>(at: *mut T, count: c_int) -> Answer<&'a [T]> {
    if at.is_null() || !at.is_aligned() {
        return Err(Failure::new(libc::EFAULT, c"an array cannot lie at NULL or at a crooked address"));
    }
    match usize::try_from(count) {
        // SAFETY: the caller's promise, that they are there.
        Ok(count) if count > 0 => Ok(unsafe { std::slice::from_raw_parts(at.cast_const(), count) }),
        _ => Err(Failure::new(libc::EINVAL, c"a choice of nothing would wait for ever")),
    }
}

fn alt(all: &[*mut Sem]) -> Answer<usize> {
    // All of them first: what is wrong with one is an error whatever the others have.
    let mut arena = ObjectId::PRIVATE;
    for sem in all {
        let spot = Sem::of(*sem)?.object_id()?;
        if spot.arena != ObjectId::PRIVATE && arena != ObjectId::PRIVATE && spot.arena != arena {
            return Err(Failure::new(libc::EXDEV, c"one choice cannot wait for semaphores of two families"));
        }
        arena = if spot.arena == ObjectId::PRIVATE { arena } else { spot.arena };
    }
    let first = roll(all.len());
    for at in (0..all.len()).map(|turn| (first + turn) % all.len()) {
        match Sem::of(all[at])?.semaphore()?.try_down() {
            Ok(()) => return Ok(at),
            Err(DownError::WouldBlock) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let semaphores = all.iter().map(|sem| Sem::of(*sem)?.semaphore()).collect::<Answer<Vec<_>>>()?;
    let arms: Vec<Armed<'_>> = semaphores.iter().map(raw::down).collect();
    let chosen = raw::choose(&arms, false, Time::Forever)?;
    let at = chosen.index();
    chosen.down(&semaphores[at])?;
    Ok(at)
}

/// Where the semaphore is, if that can be seen at once: by far the commonest case, in which nothing can go wrong.
#[inline(always)]
fn near(s: *mut Sem) -> Option<ObjectId> {
    if s.is_null() || !s.is_aligned() {
        return None;
    }
    // SAFETY: the caller's promise, that there is memory; atomics may change at any time.
    unsafe { &*s }.says()
}

/// What `initsem` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_initsem(s: *mut Sem, val: c_int) {
    told(|| init(s, val));
}

/// What `downsem` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_downsem(s: *mut Sem, block: c_int) -> c_int {
    if near(s).is_some_and(Semaphore::down_alone) { 1 } else { waited(s, block) }
}

// Apart, these two, as in `semaphore`.
#[inline(never)]
extern "C" fn waited(s: *mut Sem, block: c_int) -> c_int {
    answered(0, || {
        let semaphore = Sem::of(s)?.semaphore()?;
        if block != 0 {
            semaphore.down()?
        } else {
            semaphore.try_down()?
        }
        Ok(1)
    })
}

/// What `upsem` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_upsem(s: *mut Sem) {
    if !near(s).is_some_and(Semaphore::up_alone) {
        handed_on(s);
    }
}

#[inline(never)]
extern "C" fn handed_on(s: *mut Sem) {
    told(|| Ok(Sem::of(s)?.semaphore()?.up()?));
}

/// What `altsems` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_altsems(ss: *mut *mut Sem, n: c_int) -> c_int {
    answered(-1, || Ok(alt(array(ss, n)?)? as c_int))
}

/// What `freesem` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_freesem(s: *mut Sem) {
    told(|| free(Sem::of(s)?));
}

/// Called before `main` by programs that include the header.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_family() {
    told(|| {
        Arena::family_at_fork();
        Ok(())
    });
}
