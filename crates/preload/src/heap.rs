//! This library's own heap, separate from the program's `malloc`.
//!
//! `malloc` may be the program's own, and use semaphores itself; a signal handler may have interrupted it, and call `sem_post`; or all
//! other threads may have been stopped within it by a garbage collector that now waits on a semaphore. This heap needs only the kernel:
//! powers of two from 16 bytes to 32 KiB, from pieces that are never given back, each size with a list of free blocks; what is larger has a
//! mapping of its own. There is one lock, held for some instructions, in which no handler runs, and for which a fork waits. A thread that
//! finds it taken sleeps: the holder may have to be given the processor first, whatever the waiter's priority is.

use crate::shield::{block, errno, is_without_signals, set_errno, unblock};
use chappe::forks::Nest;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

const SMALLEST: usize = 16;
const SIZES: usize = 12;
const LARGEST: usize = SMALLEST << (SIZES - 1);
const PIECE: usize = 256 * 1024;
const PAGE: usize = 4096;
/// What any one function of POSIX needs at most, in small parts.
const ROOM: usize = 64 * 1024;

/// The heap.
pub struct Heap(Mutex<Inside>);

struct Inside {
    /// What is free of each size: the first word of each says where the next is.
    free: [*mut u8; SIZES],
    /// What is left of the last piece.
    rest: *mut u8,
    end: *mut u8,
}

// SAFETY: the pieces are no thread's own.
unsafe impl Send for Inside {}

#[global_allocator]
static HEAP: Heap = Heap::new();

/// The lock, and the signal mask if it had to be changed for it. Fields go in this order: no handler finds the lock taken.
struct Taken<'a> {
    inside: MutexGuard<'a, Inside>,
    _mask: Mask,
}

struct Mask(Option<libc::sigset_t>);

impl Drop for Mask {
    fn drop(&mut self) {
        if let Some(mask) = &self.0 {
            unblock(mask);
        }
    }
}

impl Heap {
    const fn new() -> Heap {
        Heap(Mutex::new(Inside { free: [null_mut(); SIZES], rest: null_mut(), end: null_mut() }))
    }

    fn take(&self) -> Taken<'_> {
        let mask = Mask((!is_without_signals()).then(block));
        // A sleep may set it.
        let kept = errno();
        let inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        set_errno(kept);
        Taken { inside, _mask: mask }
    }
}

/// The lock, held by a thread that forks.
struct Held(UnsafeCell<Option<Taken<'static>>>);

// SAFETY: touched only by the holder of the heap's lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));
static NEST: Nest = Nest::new();

/// Whether there is memory for what a function of POSIX does: where there is none, it is refused before it has begun. What lacks memory in the
/// middle ends the program.
pub fn has_room() -> bool {
    HEAP.take().inside.has_room()
}

/// Before a fork: waits until no other thread is within the heap.
pub extern "C" fn before_fork() {
    if NEST.is_inner() {
        return;
    }
    let taken = HEAP.take();
    NEST.begin();
    // SAFETY: the lock is ours.
    unsafe { *HELD.0.get() = Some(taken) };
}

/// After a fork, in both.
pub extern "C" fn after_fork() {
    if !NEST.end() {
        return;
    }
    // SAFETY: the lock is ours, or our copy's. What is taken out first is let go of behind that.
    let taken = unsafe { (*HELD.0.get()).take() };
    drop(taken);
}

/// Which of the sizes; none for what gets a mapping of its own.
fn size_of_all(layout: Layout) -> Option<usize> {
    let need = layout.size().max(layout.align()).max(SMALLEST);
    (need <= LARGEST).then(|| (need.next_power_of_two() / SMALLEST).trailing_zeros() as usize)
}

fn map(len: usize) -> *mut u8 {
    let kept = errno();
    // SAFETY: the kernel chooses the place.
    let at = unsafe {
        libc::mmap(null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    set_errno(kept);
    if at == libc::MAP_FAILED { null_mut() } else { at.cast() }
}

impl Inside {
    fn has_room(&mut self) -> bool {
        if (self.end as usize).wrapping_sub(self.rest as usize) >= ROOM {
            return true;
        }
        let piece = map(PIECE);
        if piece.is_null() {
            return false;
        }
        // SAFETY: just behind the piece.
        (self.rest, self.end) = unsafe { (piece, piece.add(PIECE)) };
        true
    }

    fn get(&mut self, which: usize) -> *mut u8 {
        let first = self.free[which];
        if !first.is_null() {
            // SAFETY: it is free, and its first word is the next.
            self.free[which] = unsafe { first.cast::<*mut u8>().read() };
            return first;
        }
        let size = SMALLEST << which;
        let from = (self.rest as usize).next_multiple_of(size.min(PAGE));
        if self.rest.is_null() || from + size > self.end as usize {
            let piece = map(PIECE);
            if piece.is_null() {
                return null_mut();
            }
            // SAFETY: within the piece, or just behind it.
            (self.rest, self.end) = unsafe { (piece.add(size), piece.add(PIECE)) };
            return piece;
        }
        self.rest = (from + size) as *mut u8;
        from as *mut u8
    }
}

// SAFETY: what is given out is free, large enough, and aligned: to its size, up to a page.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE {
            // Nothing here wants that.
            return null_mut();
        }
        let Some(which) = size_of_all(layout) else { return map(layout.size().next_multiple_of(PAGE)) };
        self.take().inside.get(which)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let Some(which) = size_of_all(layout) else {
            // SAFETY: a mapping of its own, of this length.
            unsafe { libc::munmap(at.cast(), layout.size().next_multiple_of(PAGE)) };
            return;
        };
        let mut taken = self.take();
        // SAFETY: what is given back is ours.
        unsafe { at.cast::<*mut u8>().write(taken.inside.free[which]) };
        taken.inside.free[which] = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_is_aligned_and_exclusive() {
        // Of the other, other threads have some, too.
        static OWN: Heap = Heap::new();
        let mut all = Vec::new();
        for size in [1, 15, 16, 17, 100, 4096, 5000, 32768, 32769, 100_000] {
            for align in [1, 8, 64, 4096] {
                let layout = Layout::from_size_align(size, align).expect("it fits");
                for _ in 0..20 {
                    // SAFETY: the size is not 0.
                    let at = unsafe { OWN.alloc(layout) };
                    assert!(!at.is_null() && (at as usize).is_multiple_of(align), "{layout:?}");
                    // SAFETY: it is so long.
                    unsafe { at.write_bytes(all.len() as u8, size) };
                    all.push((at, layout));
                }
            }
        }
        for (i, (at, layout)) in all.iter().enumerate() {
            // SAFETY: it is so long, and was written.
            let bytes = unsafe { std::slice::from_raw_parts(*at, layout.size()) };
            assert!(bytes.iter().all(|b| *b == i as u8));
            // SAFETY: as it was given out.
            unsafe { OWN.dealloc(*at, *layout) };
        }
        let again = Layout::from_size_align(100, 8).expect("it fits");
        // SAFETY: the size is not 0; what comes back was given back before.
        let at = unsafe { OWN.alloc(again) };
        assert!(all.iter().any(|(was, _)| *was == at));
        // SAFETY: as it was given out.
        unsafe { OWN.dealloc(at, again) };
    }

    #[test]
    fn a_thread_that_finds_the_heap_locked_sleeps() {
        static OWN: Heap = Heap::new();
        let taken = OWN.take();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let layout = Layout::from_size_align(100, 8).expect("it fits");
            // SAFETY: takes nothing.
            tell.send(unsafe { libc::gettid() }).expect("it is awaited");
            set_errno(77);
            // SAFETY: the size is not 0.
            let at = unsafe { OWN.alloc(layout) } as usize;
            (at, errno())
        });
        let tid = told.recv().expect("it is told");
        let state = || std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).expect("it lives");
        let began = std::time::Instant::now();
        // Field 3: a thread that tries again and again is never asleep.
        while state().rsplit(") ").next().is_none_or(|rest| !rest.starts_with('S')) {
            assert!(began.elapsed().as_secs() < 60, "it tries again and again");
            std::thread::yield_now();
        }
        drop(taken);
        let (at, e) = waiter.join().expect("it ends");
        assert!(at != 0 && e == 77, "{at:x} {e}");
    }
}
