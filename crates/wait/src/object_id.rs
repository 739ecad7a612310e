//! Where an object lies, as plain data (a *spot*): for structs that lie in their users' memory, in any process that maps it.
//!
//! A Rust program has a handle, which is valid in its process only. A C program has a struct of a fixed size anywhere in memory,
//! copies it with its memory in a fork, and shares it with processes unknown to us. So the struct says which arena, which slot, and
//! which of the objects that were ever in the slot. The arena is a number made of its name and of what distinguishes it from others of that name.
//! The first use of a number in a process (the arena is *met*) looks for it in the directory.
//!
//! Once its arena was met in this process, a signal handler can turn a spot into a handle: by a walk through a
//! table to which arenas are only ever added.

use crate::known::KNOWN;
use chappe_arena::layout::{Head, Kind, Object};
use chappe_arena::{Map, Place};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::light;

/// Where an object lies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectId {
    /// Which arena.
    pub arena: u64,
    /// Which slot of it.
    pub object: u32,
    /// Which of the objects in that slot.
    pub generation: u32,
}

impl ObjectId {
    /// The number of this process's own arena. No other has it.
    #[doc(hidden)]
    pub const PRIVATE: u64 = 1;

    /// Whether its arena was met in this process. If not, turning the spot into a handle takes a lock.
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_met(self) -> bool {
        row(self.arena).is_some()
    }
}

const MOST: usize = 1024;

/// The arenas that were met, first come first. A number is stored after its map, and never changed.
struct Met {
    number: AtomicU64,
    map: AtomicU64,
    /// Where its objects begin.
    objects: AtomicU64,
    /// How many there are.
    count: AtomicU64,
}

static MET: [Met; MOST] = [const {
    Met { number: AtomicU64::new(0), map: AtomicU64::new(0), objects: AtomicU64::new(0), count: AtomicU64::new(0) }
}; MOST];

/// The number of an arena.
#[doc(hidden)]
#[inline]
pub fn number(map: &Map) -> u64 {
    if map.directory().is_none() {
        ObjectId::PRIVATE
    } else {
        u64::from(hash(map.name())) << 32 | u64::from(map.id() as u32)
    }
}

/// Of a name; its highest bit is set. FNV-1a.
#[doc(hidden)]
#[inline]
pub fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |h, byte| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193)) | 1 << 31
}

/// The place in the table of the arena of this number, if it was met.
#[inline(always)]
fn row(wanted: u64) -> Option<&'static Met> {
    for met in &MET {
        // Acquire: after the rest was stored.
        let number = met.number.load(Ordering::Acquire);
        if number == 0 {
            break;
        }
        if number == wanted {
            return Some(met);
        }
    }
    None
}

/// The arena of this number, if it was met.
#[inline(always)]
pub fn met(wanted: u64) -> Option<&'static Map> {
    // Relaxed: stored before the number.
    let map = row(wanted)?.map.load(Ordering::Relaxed) as usize as *const Map;
    // SAFETY: maps are never taken apart, nor are their numbers changed.
    Some(unsafe { &*map })
}

/// The slot of an object, if its arena was met: a few loads, of which only the last waits for another.
#[inline(always)]
pub fn slot(kind: Kind, spot: ObjectId) -> Option<(&'static Object, Place)> {
    let met = row(spot.arena)?;
    // Relaxed: stored before the number.
    if u64::from(spot.object) >= met.count.load(Ordering::Relaxed) {
        return None;
    }
    // Relaxed: as above.
    let first = met.objects.load(Ordering::Relaxed) as usize as *const Object;
    // SAFETY: there are so many, side by side, in a mapping that is never undone.
    let object = unsafe { &*first.add(spot.object as usize) };
    Some((object, Place { index: spot.object, head: Head::live(spot.generation, kind) }))
}

/// All that were met.
pub fn all_met() -> impl Iterator<Item = &'static Map> {
    // Acquire: as in `met`.
    let numbers = MET.iter().map(|met| met.number.load(Ordering::Acquire)).take_while(|number| *number != 0);
    numbers.filter_map(met)
}

/// Puts the arena into the table, if there is room; answers its number.
#[inline]
pub fn meet(map: &'static Map) -> u64 {
    let number = number(map);
    let _one_at_a_time = light::lock(&KNOWN);
    if met(number).is_none()
        // Relaxed: under the lock.
        && let Some(free) = MET.iter().find(|met| met.number.load(Ordering::Relaxed) == 0)
    {
        // Relaxed, these: published by the number.
        free.map.store(std::ptr::from_ref(map) as usize as u64, Ordering::Relaxed);
        free.objects.store(std::ptr::from_ref(map.object(0)) as usize as u64, Ordering::Relaxed); // Relaxed: as above.
        free.count.store(map.geometry().objects.into(), Ordering::Relaxed); // Relaxed: as above.
        // Release: the map first.
        free.number.store(number, Ordering::Release);
    }
    number
}
