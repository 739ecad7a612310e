//! The packet of a waiter at a tube without slots: where its message is handed over, and the state of that. Invariants and edges: those of
//! `rendezvous`.

use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering, give_way, pause};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, Record};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::null;

const OPEN: u32 = 0;
/// The owner sleeps until another state is stored.
const AWAITED: u32 = 1;
pub const OFFERED: u32 = 2;
pub const DONE: u32 = 3;
/// The owner is to try again: nobody has met it.
const TOLD: u32 = 4;
/// The message of the acting thread is in the packet.
pub const IN_ROOM: u32 = 5;
/// The owner, a task that was met, waits for nothing more: the acting thread frees what the packet is in, after it has taken the message.
const ABANDONED: u32 = 6;
/// Looks with 1, 2, 4... pauses in between before `hear` sleeps, then with giving way: the other thread may need this
/// very processor.
const PAUSING: u32 = 4;
const GIVING_WAY: u32 = 64;
/// The explorer's threads are processes.
const SCOPE: Scope = if cfg!(feature = "sim") { Scope::Shared } else { Scope::Private };

/// Frees what a packet is in.
pub type Free = unsafe fn(*mut Handoff);

/// Room for a small message.
type Room = [u64; 4];

/// Whether a message of this kind has room in a packet.
pub const fn has_room<T>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// Where a message is handed over, and the state of that.
pub struct Handoff {
    state: AtomicU32,
    /// Where the message is, or is to go; 0: the owner will name it later.
    pub place: AtomicU64,
    /// The packet of the acting thread.
    pub other: AtomicU64,
    /// A small message, for a choice that will name its place later.
    pub room: UnsafeCell<MaybeUninit<Room>>,
    /// The light thread that is unparked when a state is stored; null: the owner is a kernel thread.
    owner: Cell<*const Record>,
}

// SAFETY: the owner sets `owner` before it publishes the packet, and does not change it until the packet is back; the
// room is the acting thread's until that stores IN_ROOM, then the owner's.
unsafe impl Sync for Handoff {}

impl Handoff {
    /// A packet whose message is at `place`, or is to go there; null: the owner will name the place later.
    pub fn new(place: *mut ()) -> Handoff {
        let owner = Cell::new(owner());
        let (state, place) = (AtomicU32::new(OPEN), AtomicU64::new(place as u64));
        Handoff { state, place, other: AtomicU64::new(0), room: UnsafeCell::new(MaybeUninit::uninit()), owner }
    }

    /// The state, as its owner sees it.
    #[inline(always)]
    pub fn outcome(&self) -> Outcome {
        // Acquire: what was written before the state.
        match self.state.load(Ordering::Acquire) {
            DONE => Outcome::Done,
            TOLD => Outcome::Told,
            _ => Outcome::Open,
        }
    }

    /// Makes the packet ready for another wait with the same place.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    #[inline(always)]
    pub fn open_again(&self) {
        self.state.store(OPEN, Ordering::Relaxed); // Relaxed: published with the wait.
    }

    /// A light thread's packet, whose place is named later.
    #[cfg(all(feature = "loom", not(feature = "sim")))]
    #[inline(always)]
    pub fn of(owner: &'static Record) -> Handoff {
        Handoff {
            state: AtomicU32::new(OPEN),
            place: AtomicU64::new(0),
            other: AtomicU64::new(0),
            room: UnsafeCell::new(MaybeUninit::uninit()),
            owner: Cell::new(owner),
        }
    }

    /// Makes a light thread's packet at `packet`, whose message is at `place`, or is to go there. (Its room is unused,
    /// and stays uninitialized.)
    #[inline(always)]
    pub fn direct<'p>(packet: &'p mut MaybeUninit<Handoff>, owner: &'static Record, place: *mut ()) -> &'p Handoff {
        let at = packet.as_mut_ptr();
        // SAFETY: `packet` is ours; after this all of it is set but the room, which may stay uninitialized.
        unsafe {
            (&raw mut (*at).state).write(AtomicU32::new(OPEN));
            (&raw mut (*at).place).write(AtomicU64::new(0));
            (&raw mut (*at).other).write(AtomicU64::new(0));
            (&raw mut (*at).owner).write(Cell::new(owner));
            (*at).says(place);
            &*at
        }
    }

    /// Names where the message is, or is to go.
    #[inline(always)]
    pub fn says(&self, place: *mut ()) {
        self.place.store(place as u64, Ordering::Relaxed); // Relaxed: published with the wait.
    }

    /// The packet's address, for the acting threads.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// Makes the packet ready for another wait, with its place to be named later.
    pub fn reopen(&self) {
        // Relaxed, both: published with the wait.
        self.state.store(OPEN, Ordering::Relaxed);
        self.place.store(0, Ordering::Relaxed); // Relaxed: as above.
        self.owner.set(owner());
    }

    /// Stores a state, and wakes the owner if it waits for it.
    #[inline(always)]
    pub fn say(&self, what: u32) {
        // Read first: once the state is stored the packet may be gone.
        let owner = self.owner.get();
        // SAFETY: null, or a record, which never goes away.
        if let Some(owner) = unsafe { owner.as_ref() } {
            // Release: what was written before the state.
            self.state.store(what, Ordering::Release);
            light::unpark(owner);
            return;
        }
        // AcqRel: what was written before the state; whether the owner sleeps, or has gone on.
        match self.state.swap(what, Ordering::AcqRel) {
            // The packet may be gone already: a wake by address.
            AWAITED => _ = futex::wake(&self.state, 1, SCOPE),
            // Acquire: what the owner left.
            // SAFETY: the owner left a function there that takes this address, and nothing else uses the packet any more.
            ABANDONED => unsafe {
                let free: Free = std::mem::transmute(self.other.load(Ordering::Acquire) as *const ());
                free(std::ptr::from_ref(self) as *mut Handoff);
            },
            _ => {}
        }
    }

    /// A task's packet: no thread sleeps until a state is stored in it.
    pub fn of_task(place: *mut ()) -> Handoff {
        let packet = Handoff::new(place);
        packet.owner.set(null());
        packet
    }

    /// The owner, a task that was met, goes on. True: the message was taken, and the packet is the owner's to free. Else the
    /// acting thread frees it by `free`.
    pub fn abandon(&self, free: Free) -> bool {
        // Relaxed: published by the state.
        self.other.store(free as usize as u64, Ordering::Relaxed);
        // AcqRel: the function before the state; what the acting thread did before its own.
        self.state.compare_exchange(OPEN, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_err()
    }

    /// Blocks until the state is `what`.
    #[inline]
    pub fn hear(&self, what: u32) {
        if !self.owner.get().is_null() {
            // Acquire: what was written before the state.
            while self.state.load(Ordering::Acquire) != what {
                light::park(None);
            }
            return;
        }
        let looks = if cfg!(any(feature = "sim", feature = "loom")) { 0 } else { PAUSING + GIVING_WAY };
        for look in 0..looks {
            // Acquire: what was written before the state.
            if self.state.load(Ordering::Acquire) == what {
                return;
            }
            if look < PAUSING { (0..1 << look).for_each(|_| pause()) } else { give_way() }
        }
        // Acquire: as above. A failure: another state has been stored.
        let _ = self.state.compare_exchange(OPEN, AWAITED, Ordering::Acquire, Ordering::Acquire);
        // Acquire: as above.
        while self.state.load(Ordering::Acquire) != what {
            futex::wait(&self.state, AWAITED, None, SCOPE);
        }
    }
}

/// What a packet's state tells its owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Open,
    /// The message was taken, or is there.
    Done,
    /// The owner is to try again.
    Told,
}

/// Stores TOLD in a waiter's packet: the waiter is to try again. The caller wakes it afterwards.
///
/// # Safety
/// The owner waits, and no other thread stores a state in the packet.
pub unsafe fn tell(packet: u64) {
    // SAFETY: the owner waits until a state is stored. Release: what the caller has seen.
    unsafe { &*(packet as *const Handoff) }.state.store(TOLD, Ordering::Release);
}

/// The light thread that a packet made now belongs to; null: a kernel thread. See `meet`.
#[inline(always)]
fn owner() -> *const Record {
    light::current().map_or(null(), std::ptr::from_ref)
}
