//! What stands in the 32 bytes of a `sem_t`.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0-7 | check | of all that follows; in private memory, of the address as well |
//! | 8-15 | kind | [`PLAIN`] or [`OWNED`]: which kind of object the spot is of |
//! | 16-31 | spot | where it lies |
//!
//! The C library's own has its value and waiters in the first eight bytes and 0 or 128 behind them: it is never taken for one of this
//! library's. Nor is uninitialised memory, except by chance, and then its check is wrong as well.
//!
//! The address is part of the check if the object is in the process's own arena: a struct that a program has moved with `memcpy` is
//! detected at its first use, and the table of addresses is corrected. (POSIX says that a copy must not be used; with the C library a moved
//! one works, so programs do it.) In shared memory the same bytes lie at another address in each process.
//!
//! The fields are read one by one, and not atomically: to initialise or destroy a `sem_t` while other threads use it is an error in the
//! program in any case.

use chappe::ObjectId;
use libc::sem_t;

/// A semaphore.
pub const PLAIN: u64 = u64::from_le_bytes(*b"chappe-s");
/// A semaphore that returns what a dead process held.
pub const OWNED: u64 = u64::from_le_bytes(*b"chappe-o");

#[repr(C)]
#[derive(Clone, Copy)]
struct Word {
    check: u64,
    kind: u64,
    arena: u64,
    place: u64,
}

const _: () = assert!(size_of::<Word>() == size_of::<sem_t>());

/// What a `sem_t` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The object at this spot, of this kind.
    Ours(u64, ObjectId),
    /// The same, moved here from this address of this process's own memory.
    Moved(u64, ObjectId, usize),
    /// It was one of this library's, and was written over.
    Broken,
    /// The C library's, or none.
    Foreign,
}

/// Whether an object in this arena is a copy in each forked child, as the memory is.
#[inline(always)]
pub fn is_private(spot: ObjectId) -> bool {
    spot.arena == ObjectId::PRIVATE
}

/// Each bit of each of them counts, and the parts can be recovered: see [`unmix`].
#[inline(always)]
fn mix(kind: u64, arena: u64, place: u64, address: u64) -> u64 {
    !kind ^ arena.rotate_left(17) ^ place.rotate_left(40) ^ address.rotate_left(12)
}

#[inline(always)]
fn check(kind: u64, arena: u64, place: u64, at: *const sem_t) -> u64 {
    mix(kind, arena, place, if arena == ObjectId::PRIVATE { at as u64 } else { 0 })
}

/// The semaphore, if it is a plain one and all is as it should be; the commonest case of [`read`].
///
/// # Safety
/// `at` must point to 32 bytes that can be read.
#[inline(always)]
pub unsafe fn plain(at: *const sem_t) -> Option<ObjectId> {
    // SAFETY: the caller's; the struct need not be aligned.
    let Word { check: said, kind, arena, place } = unsafe { at.cast::<Word>().read_unaligned() };
    let fits = kind == PLAIN && said == check(PLAIN, arena, place, at);
    fits.then_some(ObjectId { arena, object: place as u32, generation: (place >> 32) as u32 })
}

/// The object, if all is as it should be.
///
/// # Safety
/// `at` must point to 32 bytes that can be read.
unsafe fn ours(at: *const sem_t) -> Option<(u64, ObjectId)> {
    // SAFETY: the caller's.
    let Word { check: said, kind, arena, place } = unsafe { at.cast::<Word>().read_unaligned() };
    let fits = (kind == PLAIN || kind == OWNED) && said == check(kind, arena, place, at);
    fits.then_some((kind, ObjectId { arena, object: place as u32, generation: (place >> 32) as u32 }))
}

/// What stands there.
///
/// # Safety
/// As [`ours`].
pub unsafe fn read(at: *const sem_t) -> Said {
    // SAFETY: the caller's.
    if let Some((kind, spot)) = unsafe { ours(at) } {
        return Said::Ours(kind, spot);
    }
    // SAFETY: as above.
    let Word { check: said, kind, arena, place } = unsafe { at.cast::<Word>().read_unaligned() };
    if kind != PLAIN && kind != OWNED {
        return Said::Foreign;
    }
    let spot = ObjectId { arena, object: place as u32, generation: (place >> 32) as u32 };
    // What it would be at another address: every address has one check, and `mix` can be undone.
    let from = unmix(said, kind, arena, place);
    let plausible = from & 0xffff_0000_0000_0000 == 0 && from != 0;
    if arena == ObjectId::PRIVATE && plausible { Said::Moved(kind, spot, from as usize) } else { Said::Broken }
}

/// The address for which the check is right.
fn unmix(check: u64, kind: u64, arena: u64, place: u64) -> u64 {
    (check ^ mix(kind, arena, place, 0)).rotate_right(12)
}

/// Makes it refer to the object.
///
/// # Safety
/// `at` must point to 32 bytes that can be written, and that no thread uses as a semaphore.
pub unsafe fn write(at: *mut sem_t, kind: u64, spot: ObjectId) {
    let place = u64::from(spot.generation) << 32 | u64::from(spot.object);
    let word = Word { check: check(kind, spot.arena, place, at), kind, arena: spot.arena, place };
    // SAFETY: the caller's.
    unsafe { at.cast::<Word>().write_unaligned(word) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> sem_t {
        // SAFETY: plain bytes.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn a_written_semaphore_word_is_read_back_and_a_moved_one_is_noticed() {
        let (mut here, private) = (empty(), ObjectId { arena: ObjectId::PRIVATE, object: 7, generation: 9 });
        let shared = ObjectId { arena: 1 << 63 | 12345, object: u32::MAX, generation: u32::MAX };
        // SAFETY: all of it is this function's.
        unsafe {
            assert_eq!(read(&here), Said::Foreign);
            for (kind, spot) in [(PLAIN, private), (OWNED, private), (PLAIN, shared), (OWNED, shared)] {
                write(&mut here, kind, spot);
                assert_eq!(read(&here), Said::Ours(kind, spot));
                let copy = Box::new(here);
                let moved = if spot == private {
                    Said::Moved(kind, spot, &raw const here as usize)
                } else {
                    Said::Ours(kind, spot)
                };
                assert_eq!(read(&*copy), moved);
            }
        }
    }

    #[test]
    fn each_bit_that_is_changed_is_noticed() {
        let mut here = empty();
        for spot in [
            ObjectId { arena: ObjectId::PRIVATE, object: 1, generation: 2 },
            ObjectId { arena: 1 << 63 | 5, object: 1, generation: 2 },
        ] {
            for bit in 0..8 * size_of::<sem_t>() {
                // SAFETY: all of it is this function's.
                unsafe {
                    write(&mut here, PLAIN, spot);
                    *(&raw mut here).cast::<u8>().add(bit / 8) ^= 1 << (bit % 8);
                    assert!(!matches!(read(&here), Said::Ours(..)), "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn an_address_is_found_again_in_its_check() {
        for address in [8, 0x7fff_1234_5678, 0x5555_0000_0010] {
            assert_eq!(unmix(mix(PLAIN, 1, 77 << 32 | 5, address), PLAIN, 1, 77 << 32 | 5), address);
        }
    }
}
