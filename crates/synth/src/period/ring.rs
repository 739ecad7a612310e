//! Whole periods between one writer and one reader, and the sources that have them. The invariants are in the parent's head.

use chappe_plat::atomic::{AtomicU64, Ordering};
use std::cell::UnsafeCell;
use std::sync::Arc;

/// A counter with a cache line to itself, so that writer and reader do not share one.
#[repr(align(64))]
#[derive(Default)]
pub struct Counter(pub AtomicU64);

/// Whole periods between one writer and one reader.
pub struct Ring {
    pub written: Counter,
    pub read: Counter,
    pub missed: Counter,
    pub frames: usize,
    /// A power of two, less one.
    pub mask: u64,
    pub depth: u64,
    pub samples: Box<[UnsafeCell<f32>]>,
}

// SAFETY: I1 says which side may touch which period of `samples`; the counters hand it over.
unsafe impl Sync for Ring {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Ring {}

impl Ring {
    pub fn new(frames: usize, depth: usize) -> Ring {
        let slots = depth.next_power_of_two();
        let samples = (0..slots * frames).map(|_| UnsafeCell::new(0.0)).collect();
        let (written, read, missed) = Default::default();
        Ring { written, read, missed, frames, mask: slots as u64 - 1, depth: depth as u64, samples }
    }

    /// Where period `n` lies.
    #[inline]
    pub fn place(&self, n: u64) -> *mut f32 {
        UnsafeCell::raw_get(&self.samples[(n & self.mask) as usize * self.frames])
    }

    /// The writer's side: false when there is no room.
    #[inline]
    pub fn put(&self, from: &[f32]) -> bool {
        debug_assert_eq!(from.len(), self.frames);
        // Relaxed: the writer's own counter (I1).
        let written = self.written.0.load(Ordering::Relaxed);
        // Acquire: pairs with the reader's release, which follows its copy of the period that lay here.
        if written - self.read.0.load(Ordering::Acquire) == self.depth {
            return false;
        }
        // SAFETY: I1: the period is free, and only the writer touches it until `written` moves.
        unsafe { self.place(written).copy_from_nonoverlapping(from.as_ptr(), self.frames) };
        // Release: the samples are there before the reader counts them.
        self.written.0.store(written + 1, Ordering::Release);
        true
    }

    /// The reader's side: calls with the oldest period, or answers None when there is none.
    #[inline]
    pub fn take<R>(&self, with: impl FnOnce(&[f32]) -> R) -> Option<R> {
        // Relaxed: the reader's own counter (I1).
        let read = self.read.0.load(Ordering::Relaxed);
        // Acquire: pairs with the writer's release, which follows the samples.
        if self.written.0.load(Ordering::Acquire) == read {
            return None;
        }
        // SAFETY: I1: the period is full, and its writer does not touch it until `read` moves.
        let result = with(unsafe { std::slice::from_raw_parts(self.place(read), self.frames) });
        // Release: it was copied before the writer may use it again.
        self.read.0.store(read + 1, Ordering::Release);
        Some(result)
    }

    pub fn miss(&self) {
        // Relaxed: the callback alone counts, everybody else only looks.
        self.missed.0.store(self.missed.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub fn missed(&self) -> u64 {
        // Relaxed: a number to look at.
        self.missed.0.load(Ordering::Relaxed)
    }

    pub fn queued(&self) -> usize {
        // Acquire, read first: `written` is never seen behind a `read` that has been seen.
        let read = self.read.0.load(Ordering::Acquire);
        // Acquire: as in `take`.
        (self.written.0.load(Ordering::Acquire) - read) as usize
    }
}

/// What a source does with its channel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    /// Its ring is played, so much louder.
    Play(f32),
    /// The channel is recorded.
    Record,
}

/// An active source.
#[derive(Clone)]
pub struct Source {
    pub id: u64,
    pub way: Way,
    pub channel: usize,
    pub ring: Arc<Ring>,
}

/// What a device is.
#[derive(Clone, Copy)]
pub struct Shape {
    pub frames: usize,
    pub inputs: usize,
    pub outputs: usize,
}

/// What stands for a period that is not there: silence to read, and a place that nobody reads.
pub struct Spare {
    #[cfg(feature = "jit")]
    pub silence: Box<[f32]>,
    #[cfg(feature = "jit")]
    pub nowhere: Box<[UnsafeCell<f32>]>,
}

// SAFETY: the one callback alone writes `nowhere`, and nobody reads it.
unsafe impl Sync for Spare {}

impl Spare {
    pub fn new(frames: usize) -> Spare {
        #[cfg(feature = "jit")]
        return Spare {
            silence: vec![0.0; frames].into(),
            nowhere: (0..frames).map(|_| UnsafeCell::new(0.0)).collect(),
        };
        #[cfg(not(feature = "jit"))]
        {
            let _ = frames;
            Spare {}
        }
    }
}
