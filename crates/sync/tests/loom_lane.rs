//! The ends of a lane under loom: every stale read that the orders allow. The kernel's pipe has a lock of its own, so its word has both
//! orders. Deaths and demotions are the explorer's.

use crate::loom::two_reach;
use chappe_lane::{Lane, Pipe, Reader, Words, Writer};
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::explore::together;

/// How many bytes the ring has.
const RING: usize = 3;
/// How many bytes are written, one by one: their values are 1 and so on.
const BYTES: u64 = 3;
/// How often the reader looks.
const LOOKS: usize = 3;

/// Neither end blocks.
struct Again;

#[derive(Default)]
struct Model {
    /// What the kernel's pipe was given, and how much; and how much was taken.
    kernel: [AtomicU64; BYTES as usize],
    given: AtomicU64,
    taken: AtomicU64,
    ring: [AtomicU64; RING],
}

impl Pipe for Model {
    type Error = Again;

    fn read(&self, into: &mut [u8]) -> Result<usize, Again> {
        let taken = self.taken.load(Ordering::Relaxed); // Relaxed: only the reader writes it.
        // Acquire: the kernel's lock.
        if self.given.load(Ordering::Acquire) == taken {
            return Err(Again);
        }
        into[0] = self.kernel[taken as usize].load(Ordering::Relaxed) as u8; // Relaxed: as above.
        self.taken.fetch_add(1, Ordering::AcqRel); // AcqRel: the kernel's lock.
        Ok(1)
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Again> {
        let given = self.given.load(Ordering::Relaxed); // Relaxed: only the writer writes it.
        self.kernel[given as usize].store(bytes[0].into(), Ordering::Relaxed); // Relaxed: as below.
        self.given.fetch_add(1, Ordering::AcqRel); // AcqRel: the kernel's lock.
        Ok(1)
    }

    fn held(&self) -> u64 {
        // Acquire, both: the kernel's lock.
        self.given.load(Ordering::Acquire) - self.taken.load(Ordering::Acquire)
    }

    fn push(&self, _bytes: &[u8]) -> Result<usize, Again> {
        unreachable!("nobody demotes")
    }

    fn widen(&self) -> bool {
        true
    }

    fn refusal(&self) -> Option<Again> {
        Some(Again)
    }

    fn interrupted(&self) -> Again {
        Again
    }

    fn size(&self) -> u64 {
        RING as u64
    }

    fn atomic(&self) -> usize {
        1
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.ring[at as usize % RING].store(bytes[0].into(), Ordering::Relaxed); // Relaxed: the lane's E1.
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        into[0] = self.ring[at as usize % RING].load(Ordering::Relaxed) as u8; // Relaxed: as above.
    }
}

#[derive(Clone, Copy)]
struct Scene {
    writer: &'static Writer<'static, Model>,
    reader: &'static Reader<'static, Model>,
    pipe: &'static Model,
}

// SAFETY: loom runs all threads of a model in the one of the system's that has claimed both ends.
unsafe impl Send for Scene {}
// SAFETY: as above.
unsafe impl Sync for Scene {}

/// Both ends are owned, and all words are touched.
fn scene() -> Scene {
    // SAFETY: zeroes are the words of a new lane.
    let words: &'static Words = Box::leak(unsafe { Box::<Words>::new_zeroed().assume_init() });
    words.make();
    let pipe: &'static Model = Box::leak(Box::default());
    for word in [&pipe.given, &pipe.taken, &words.kernel_end, &words.head.0, &words.tail] {
        word.store(0, Ordering::SeqCst);
    }
    pipe.ring.iter().chain(&pipe.kernel).for_each(|word| word.store(0, Ordering::SeqCst));
    let lane = Lane { words, pipe };
    let (reader, writer) = (lane.reader().ok().flatten(), lane.writer().ok().flatten());
    let (reader, writer) = (reader.expect("a new one"), writer.expect("a new one"));
    words.reader.probe();
    Scene { writer: Box::leak(Box::new(writer)), reader: Box::leak(Box::new(reader)), pipe }
}

fn write(scene: Scene) -> u64 {
    let written = (1..=BYTES).map_while(|byte| scene.writer.write(&[byte as u8]).ok());
    written.sum::<usize>() as u64
}

/// How many bytes were read, times ten, and how many of them by read(2).
fn read(scene: Scene) -> u64 {
    let mut count = 0;
    for _ in 0..LOOKS {
        let mut byte = [0];
        if scene.reader.read(&mut byte).is_ok() {
            count += 1;
            assert_eq!(u64::from(byte[0]), count, "another byte, or one that was not written yet");
        }
    }
    count * 10 + scene.pipe.taken.load(Ordering::Relaxed) // Relaxed: only the reader writes it.
}

#[test]
fn a_reader_gets_each_byte_as_it_was_written() {
    two_reach(2, scene, |scene| together(scene, [write, read])[1], [0, 10, 11, 20, 21, 30]);
}
